//! A file of statistics with changed words, or arbitrary bytes as one.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| credenza_fuzz::stats::file(data));
