//! The bytes of constant files, held fast by files of this version.
//!
//! Danger: a change that makes files which nobody can read any more, or that makes other bytes
//! from the same input, unnoticed. `CREDENZA_WRITE_GOLDEN=1` writes the files anew: only for a new
//! version of the format, whose readers still read the old files.

use credenza::constant::{BuildOptions, Constant, View};
use credenza::{Get, Scan};
use std::path::PathBuf;

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// The same bytes for the same number, for ever.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 56) as u8
        })
        .collect()
}

/// One input for each kind of bucket, and one with everything.
fn inputs() -> Vec<(&'static str, Records)> {
    let decimal = |i: u64| format!("{i:08}").into_bytes();
    let rows = (0..400).map(|i| (decimal(i / 8), decimal(i))).collect();
    let fixed = (0..100).map(|i| (decimal(i), decimal(i))).collect();
    let mixed = (0..60).map(|i| (bytes(i, i as usize % 20), bytes(i + 99, i as usize % 50)));
    let refs = (0..8).map(|i| (decimal(i), bytes(i, 300))).collect();
    let mut lists: Records = (0..12).map(|i| (b"many".to_vec(), decimal(i))).collect();
    lists.push((b"both".to_vec(), bytes(1, 300)));
    lists.push((b"both".to_vec(), b"small".to_vec()));
    lists.extend((0..10).map(|i| (b"many large".to_vec(), bytes(i, 260))));
    lists.push((Vec::new(), Vec::new()));
    let mixed = mixed.collect();
    let empty = Vec::new();
    vec![
        ("empty", empty),
        ("fixed", fixed),
        ("mixed", mixed),
        ("refs", refs),
        ("lists", lists),
        // Eight values a key, of which some rows had no lanes for all.
        ("rows", rows),
    ]
}

fn golden(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/constant");
    PathBuf::from(folder).join(format!("{name}-v1.constant"))
}

#[test]
fn the_same_input_gives_the_bytes_of_version_1() {
    for (name, records) in inputs() {
        let built = BuildOptions::new().build_in_memory(records).unwrap();
        if std::env::var_os("CREDENZA_WRITE_GOLDEN").is_some() {
            std::fs::write(golden(name), &built).unwrap();
        }
        let stored = std::fs::read(golden(name)).unwrap();
        let differs = built.iter().zip(&stored).position(|(a, b)| a != b);
        assert!(built == stored, "{name}: other bytes from {differs:?} on");
    }
}

#[test]
fn files_of_version_1_are_read() {
    let mut inputs = inputs();
    // The same records, built when a directory led to them as to those of larger records now.
    let before = inputs.iter().filter_map(|(name, records)| match *name {
        "fixed" => Some(("fixed-directory", records.clone())),
        "mixed" => Some(("mixed-directory", records.clone())),
        "lists" => Some(("lists-directory", records.clone())),
        _ => None,
    });
    inputs.extend(before.collect::<Vec<_>>());
    for (name, records) in inputs {
        let store = Constant::open(golden(name)).unwrap();
        store.verify(|_, _| ()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(store.len().unwrap(), records.len() as u64);
        for (key, _) in &records {
            let wanted: Vec<_> = records.iter().filter(|(k, _)| k == key).collect();
            let values = store.get_all(key).unwrap();
            assert_eq!(values.len(), wanted.len(), "{name}: {key:?}");
            assert!(values.iter().zip(wanted).all(|(value, (_, v))| **value == **v));
        }
    }
}

#[test]
fn the_documented_bytes_are_where_the_document_says() {
    let (_, records) = inputs().swap_remove(1);
    let file = BuildOptions::new().build_in_memory(records).unwrap();
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    assert_eq!(&file[..8], b"\x89CRDNZA\n");
    assert_eq!((word(8) as u32, word(12) as u32), (1, 1), "engine and version");
    assert_eq!(word(40), file.len() as u64);
    assert_eq!((word(48), word(56), word(64)), (100, 800, 800));
    assert_eq!((word(72), word(80) as u32), (1 | 8 << 32, 8), "fixed sizes of 8 and 8");
    assert_eq!(word(24) as u32, 2, "a feature that readers must understand: rows");
    assert_eq!((word(96) >> 32, word(192)), (0, 28), "nothing was moved; rows that hashes name");
    let (rows, records) = (word(120) as usize, word(136) as usize);
    assert_eq!(
        (word(128), word(144)),
        (44 * 16, 100 * 16 + 128),
        "rows, and records with the tail"
    );
    let mut next = 0;
    for row in file[rows..rows + 44 * 16].chunks_exact(16) {
        let first = u32::from_le_bytes([row[13], row[14], row[15], 0]);
        assert!(first >= next && first <= 100 && row[12] == 128, "{row:?}");
        next = first;
    }
    let mut seen: Vec<_> = file[records..records + 1600]
        .chunks_exact(16)
        .map(|record| record.split_at(8))
        .inspect(|(key, value)| assert_eq!(key, value))
        .map(|(key, _)| std::str::from_utf8(key).unwrap().parse::<u64>().unwrap())
        .collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..100));
    assert!(View::new(&file).is_ok());
}

#[test]
fn the_documented_bytes_of_a_directory_are_where_the_document_says() {
    let file = std::fs::read(golden("fixed-directory")).unwrap();
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    assert_eq!(word(24) as u32, 0, "no feature");
    let directory = (word(120) as usize, word(128) as usize);
    assert_eq!(directory.1, 64, "100 records need one group");
    let buckets = (word(136), word(144));
    let group = &file[directory.0..directory.0 + 64];
    assert_eq!(u64::from_le_bytes(group[..8].try_into().unwrap()), buckets.0);
    let end = u16::from_le_bytes(group[62..].try_into().unwrap());
    assert_eq!(u64::from(end), 100 * 17, "a fingerprint, a key and a value each");
    assert_eq!(buckets.1, u64::from(end) + 128, "and the tail");
}

#[test]
fn the_documented_bytes_of_a_block_are_where_the_document_says() {
    let records =
        [("first", "1 of three values"), ("second", "22"), ("third", "a third value, longer")];
    let file = BuildOptions::new().build_in_memory(records).unwrap();
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    assert_eq!(word(24) as u32, 1, "a feature that readers must understand");
    assert_eq!(
        (word(72) as u32, word(96)),
        (2, 384),
        "mixed, in blocks of 384 bytes; nothing was moved"
    );
    assert_eq!((word(128), word(144), word(192)), (0, 384 + 128, 1), "no directory, and one home");
    let block = &file[word(136) as usize..][..384];
    assert_eq!(
        (block[0], block[1]),
        (3, 255),
        "entries, and the limit of a block that moved nothing"
    );
    let mut seen = Vec::new();
    let mut at = 50;
    for i in 0..3 {
        let (key_len, size) = (usize::from(block[18 + i]), usize::from(block[34 + i]));
        let entry = std::str::from_utf8(&block[at..at + size]).unwrap();
        seen.push(entry.split_at(key_len));
        at += size;
    }
    seen.sort_unstable();
    assert_eq!(seen, records);
    assert!(block[at..].iter().chain(&block[5..18]).all(|byte| *byte == 0), "and no more");
}
