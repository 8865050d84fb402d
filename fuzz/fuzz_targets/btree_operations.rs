//! Arbitrary operations on a btree store and on maps.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| credenza_fuzz::btree::operations(data));
