//! Arbitrary bytes as the data file and the index of a hash store.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| credenza_fuzz::hash::files(data));
