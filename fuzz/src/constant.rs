//! Constant files: bytes that claim to be one, and files that were changed so that they still do.
//!
//! Every checksum of a changed file is made to fit, since otherwise nothing behind the header would
//! ever be reached. That repeats a few offsets of `docs/format/constant.md`; the sample files
//! tell when they are no longer right.

use crate::{Records, all_found, exercise};
use credenza::constant::{BuildOptions, View};
use std::ops::Range;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

const HEADER_BYTES: usize = 256;
/// Where the header names log, directory, buckets, lists, and the table of checksums.
const REGIONS_AT: usize = 104;
/// Where the checksum of that table stands, and that of the header before it.
const SUMS_CHECKSUM_AT: usize = 184;
const CHECKSUM_AT: usize = 248;
/// Each region is summed in pieces of this length.
const SEGMENT_BYTES: usize = 256 << 10;

/// Files of every layout, with their records in the order in which they were added.
pub static SAMPLES: LazyLock<Vec<(Vec<u8>, Records)>> = LazyLock::new(|| {
    let mut samples: Vec<_> =
        sample_records().into_iter().map(|records| (build(&records), records)).collect();
    // Built before there were rows: now only millions of records of one size have a directory.
    let decimals = (0..100).map(|i| format!("{i:08}").into_bytes()).map(|i| (i.clone(), i));
    let directory = include_bytes!("../../tests/fixtures/constant/fixed-directory-v1.constant");
    samples.push((directory.to_vec(), decimals.collect()));
    samples
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
        (0..150).map(|i| (number(i), number(i))).collect(),
        (0..150).map(|i| (text(i * i), text(i))).collect(),
        (0..40).map(|i| (text(i), long(i))).collect(),
        (0..40).map(|i| (long(i), long(i + 1))).collect(),
        (0..200).map(|i| (text(i % 3), text(i))).collect(),
        (0..600).map(|i| (number(i), text(i))).collect(),
        (0..200).map(|i| (text(i % 50), if i % 5 == 0 { long(i) } else { Vec::new() })).collect(),
    ]
}

/// Makes the checksums of all regions fit, and of the header, as far as the regions lie in the file.
fn seal(file: &mut [u8]) {
    if file.len() < HEADER_BYTES {
        return;
    }
    let regions: [Range<usize>; 5] = std::array::from_fn(|i| region(file, REGIONS_AT + 16 * i));
    let [summed @ .., table] = &regions;
    let of = |file: &[u8], range: &Range<usize>| {
        let pieces = file.get(range.clone()).unwrap_or_default().chunks(SEGMENT_BYTES);
        pieces.flat_map(|piece| xxh3_64(piece).to_le_bytes()).collect::<Vec<u8>>()
    };
    let sums: Vec<u8> = summed.iter().flat_map(|range| of(file, range)).collect();
    let sums_checksum = match file.get_mut(table.clone()) {
        Some(table) if table.len() == sums.len() && regions[4].start >= HEADER_BYTES => {
            table.copy_from_slice(&sums);
            xxh3_64(&sums)
        }
        _ => 0,
    };
    put(file, SUMS_CHECKSUM_AT, sums_checksum);
    let checksum = xxh3_64(&file[..CHECKSUM_AT]);
    put(file, CHECKSUM_AT, checksum);
}

/// The region whose place and length stand at `at` in the header.
fn region(file: &[u8], at: usize) -> Range<usize> {
    let word =
        |at: usize| file[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
    word(at)..word(at).saturating_add(word(at + 8))
}

fn put(file: &mut [u8], at: usize, word: u64) {
    file[at..at + 8].copy_from_slice(&word.to_le_bytes());
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
        let place = usize::from(change[0])
            | usize::from(change[1]) << 8
            | usize::from(change[2] & 0x7f) << 16;
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
