//! Sound constant files with a few bytes changed and their checksums made to fit again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| credenza_fuzz::constant::mutated(data));
