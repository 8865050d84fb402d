//! Arbitrary bytes as `jsonl` text.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| credenza_fuzz::text(
    credenza_formats::Format::JsonLines,
    data
));
