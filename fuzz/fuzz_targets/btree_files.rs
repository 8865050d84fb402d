//! Sound files of btree stores in which anything is changed.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| credenza_fuzz::btree::files(data));
