//! Blocks of arbitrary content in a sound trace, or arbitrary bytes as one.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| credenza_fuzz::trace::file(data));
