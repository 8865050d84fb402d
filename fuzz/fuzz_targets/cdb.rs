//! Arbitrary bytes as a cdb file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(file) = credenza::foreign::Cdb::from_bytes(data.to_vec()) {
        credenza_fuzz::foreign(&file, data);
    }
});
