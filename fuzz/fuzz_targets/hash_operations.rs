//! Arbitrary operations on a hash store and on a map.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| credenza_fuzz::hash::operations(data));
