//! Constant files: bytes that claim to be one, and files that were changed so that they still do.
//!
//! Every checksum of a changed file is made to fit, since otherwise nothing behind the header would
//! ever be reached. That repeats a few offsets of `docs/format/constant.md`; the sample files
//! tell when they are no longer right.

use crate::{Records, all_found, exercise};
use credenza::constant::{BuildOptions, View};
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of the header, the last eight of which are its checksum.
const HEADER_BYTES: usize = 256;
const CHECKSUM_AT: usize = HEADER_BYTES - 8;

/// Files of every layout, with their records in the order in which they were added.
pub static SAMPLES: LazyLock<Vec<(Vec<u8>, Records)>> = LazyLock::new(|| {
    sample_records().into_iter().map(|records| (build(&records), records)).collect()
});

fn build(records: &Records) -> Vec<u8> {
    let file = BuildOptions::new()
        .memory_budget(8 << 20)
        .build_in_memory(records.iter().map(|(key, value)| (key, value)))
        .expect("samples can be built");
    let mut sealed = file.clone();
    seal(&mut sealed);
    assert!(sealed == file, "the offsets in fuzz/src/constant.rs are not those of the format");
    file
}

fn sample_records() -> Vec<Records> {
    let number = |i: u32| i.wrapping_mul(0x9e37_79b9).to_le_bytes().to_vec();
    let text = |i: u32| format!("key {i}").into_bytes();
    let long = |i: u32| vec![i as u8; 200 + i as usize % 300];
    vec![
        Vec::new(),
        (0..1).map(|i| (text(i), text(i))).collect(),
        (0..300).map(|i| (number(i), number(i))).collect(),
        (0..300).map(|i| (text(i * i), text(i))).collect(),
        (0..40).map(|i| (text(i), long(i))).collect(),
        (0..40).map(|i| (long(i), long(i + 1))).collect(),
        (0..200).map(|i| (text(i % 3), text(i))).collect(),
        (0..200).map(|i| (text(i % 50), if i % 5 == 0 { long(i) } else { Vec::new() })).collect(),
    ]
}

/// Makes the checksum of the header fit.
fn seal(file: &mut [u8]) {
    let Some((summed, rest)) = file.split_at_mut_checked(CHECKSUM_AT) else { return };
    if let Some(checksum) = rest.first_chunk_mut() {
        *checksum = xxh3_64(summed).to_le_bytes();
    }
}

/// Reads `data` as it is.
pub fn arbitrary(data: &[u8]) {
    if let Ok(view) = View::new(data) {
        read(&view, data);
    }
}

/// Reads a sample, chosen by the first byte, after changes: each is three bytes of place, of
/// which the highest bit chooses the header, and one byte to combine by exclusive or.
pub fn mutated(data: &[u8]) {
    let Some((&choice, changes)) = data.split_first() else { return };
    let (file, records) = &SAMPLES[usize::from(choice) % SAMPLES.len()];
    let mut file = file.clone();
    for change in changes.chunks_exact(4) {
        let place = usize::from(change[0]) | usize::from(change[1]) << 8 | usize::from(change[2] & 0x7f) << 16;
        let reach = if change[2] & 0x80 != 0 { HEADER_BYTES } else { file.len() };
        file[place % reach] ^= change[3];
    }
    seal(&mut file);
    let Ok(view) = View::new(&file) else { return };
    if let Some(mut found) = read(&view, &file) {
        let mut records = records.clone();
        found.sort();
        records.sort();
        assert!(changes.len() >= 4 || found == records, "a sound file lost its records");
    }
}

/// Reads a file in every way; its records if it was verified.
fn read(view: &View<'_>, data: &[u8]) -> Option<Records> {
    let verified = view.verify(|_, _| ()).is_ok();
    let _ = view.stats();
    let iterated = view.iter().take(data.len() + 1).filter(Result::is_ok).count();
    assert!(iterated <= data.len(), "more records than bytes");
    let scanned = exercise(view, data);
    if !verified {
        return None;
    }
    let records = scanned.expect("a file that was verified can be read");
    all_found(view, &records);
    Some(records)
}
