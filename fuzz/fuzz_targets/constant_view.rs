//! Arbitrary bytes as a constant file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| credenza_fuzz::constant::arbitrary(data));
