//! Arbitrary bytes as a cdb64 file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(file) = credenza::foreign::Cdb64::from_bytes(data.to_vec()) {
        credenza_fuzz::foreign(&file, data);
    }
});
