//! Danger: a damaged or hostile file that makes a reader panic, read out of bounds, run for ever,
//! take all memory, or give a wrong answer.
//!
//! What is promised, and tested here:
//! - Whatever the bytes are, every operation gives an answer or an error.
//! - A file of another length than it was built with does not open.
//! - `verify` finds every changed byte.
//! - A lookup compares the whole key that is stored with the value. So a changed byte makes a
//!   lookup give the value of another key in no case; it can make keys of its bucket absent, and
//!   it can change the value of the one key in whose record (its lengths included) it lies. A length
//!   that changes moves the records that follow in its bucket: of a key with several values, one
//!   value can then be read where another begins, if just so many bytes lie between.
//! - A scan of a hostile file gives at most as many records as it has bytes, and twice its bytes.
//! - A file that `verify` passes is consistent, even when somebody has made its checksums fit:
//!   every key of a scan is found, with the values of the scan in their order.

mod common;

use common::{Records, Rng, is_soak, model_of, rounds, seed};
use credenza::constant::{BuildOptions, Constant, View};
use credenza::{Access, ErrorKind, Get, Result, Scan};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of the header, and the place of its checksum.
const HEADER: usize = 256;
const HEADER_SUM: usize = 248;
/// Where the header names the regions: log, directory, buckets, lists, sums; and the sum of sums.
const REGIONS: usize = 104;
const SUMS_SUM: usize = 184;
const FILE_BYTES: usize = 40;
/// Bytes that one checksum covers.
const SEGMENT: usize = 256 << 10;

/// Small files of every kind.
fn samples() -> Vec<(&'static str, Records)> {
    let mut rng = Rng::new(1);
    let mut records = |count: u64, key: &dyn Fn(u64) -> String, len: &dyn Fn(u64) -> u64| {
        (0..count).map(|i| (key(i).into_bytes(), rng.bytes(len(i) as usize))).collect::<Records>()
    };
    let word = |i: u64| format!("{:0>1$}", i, (i % 9) as usize);
    let fixed = records(40, &|i| format!("k{i:03}"), &|_| 3);
    let decimals =
        (0..100).map(|i| format!("{i:08}").into_bytes()).map(|i| (i.clone(), i)).collect();
    let mixed = records(50, &word, &|i| i % 30);
    let large = records(9, &|i| format!("large {i}"), &|i| 260 + i);
    let mut both = records(30, &word, &|i| i % 20);
    both.extend(records(5, &|i| format!("{i} large"), &|i| 256 + i * 9));
    // Too large for blocks, on average.
    let directory = records(40, &word, &|i| 30 + i);
    let mut lists = records(12, &|_| "many".into(), &|i| i);
    lists.extend(records(11, &|_| "many large".into(), &|i| 256 + i));
    lists.extend(records(6, &|_| "mixed".into(), &|i| if i % 2 == 0 { 4 } else { 257 }));
    lists.extend(records(3, &|_| "few".into(), &|i| i * 23));
    lists.extend(records(10, &word, &|i| i));
    vec![
        ("empty", Records::new()),
        ("fixed", fixed),
        ("fixed directory", decimals),
        ("mixed", mixed),
        ("directory", directory),
        ("large", large),
        ("both", both),
        ("lists", lists),
    ]
}

/// The file of a sample. That of records of one size with a directory was built before there were rows: now only millions
/// of them have one.
fn file_of(name: &str, records: &Records) -> Vec<u8> {
    match name {
        "fixed directory" => include_bytes!("fixtures/constant/fixed-directory-v1.constant").into(),
        _ => built(records),
    }
}

fn built(records: &Records) -> Vec<u8> {
    BuildOptions::new().build_in_memory(records.iter().map(|(k, v)| (k, v))).unwrap()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn set(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Makes the header's checksum fit.
fn seal_header(bytes: &mut [u8]) {
    let sum = xxh3_64(&bytes[..HEADER_SUM]);
    set(bytes, HEADER_SUM, sum);
}

/// Makes all checksums fit, as somebody would who wants the damage not to be seen.
fn seal(bytes: &mut [u8]) {
    let region = |n: usize| (word(bytes, REGIONS + 16 * n), word(bytes, REGIONS + 16 * n + 8));
    let ranges = (0..5).map(|n| {
        let (at, len) = region(n);
        at as usize..(at as usize).saturating_add(len as usize)
    });
    let ranges: Vec<_> = ranges.collect();
    let mut table = Vec::new();
    for range in &ranges[..4] {
        let Some(region) = bytes.get(range.clone()) else { return seal_header(bytes) };
        region.chunks(SEGMENT).for_each(|s| table.extend_from_slice(&xxh3_64(s).to_le_bytes()));
    }
    match bytes.get_mut(ranges[4].clone()) {
        Some(sums) if sums.len() == table.len() => sums.copy_from_slice(&table),
        _ => return seal_header(bytes),
    }
    set(bytes, SUMS_SUM, xxh3_64(&table));
    seal_header(bytes);
}

/// Asks everything of `store`, whose file has `len` bytes: nothing may go wrong but with an error.
fn exercise<S: Get + Scan>(store: &S, keys: &[Vec<u8>], len: u64, what: &str) {
    for key in keys {
        let _ = store.get(key);
        let _ = store.contains_key(key);
        if let Ok(all) = store.get_all(key) {
            let bytes: usize = all.iter().map(|value| value.len()).sum();
            assert!(bytes as u64 <= len, "{what}: get_all gives {bytes} of {len} bytes");
            assert!(all.len() as u64 <= len, "{what}: get_all gives {} values", all.len());
        }
    }
    let _ = store.get_many(keys, |_, _| ());
    let _ = store.len();
    let (mut count, mut bytes) = (0u64, 0u64);
    let _ = store.scan(|key, value| {
        count += 1;
        bytes += (key.len() + value.len()) as u64;
        assert!(count <= len, "{what}: a scan of {len} bytes gives {count} records");
        assert!(bytes <= 2 * len, "{what}: a scan of {len} bytes gives {bytes}");
        Ok(())
    });
}

/// The same, of the types that can do more.
macro_rules! exercise_all {
    ($store:expr, $keys:expr, $len:expr, $what:expr) => {{
        exercise($store, $keys, $len, $what);
        let _ = $store.stats();
        for (i, record) in $store.iter().enumerate() {
            assert!(i as u64 <= $len, "{}: the iterator does not end", $what);
            if record.is_err() {
                break;
            }
        }
        $store.verify(|_, _| ())
    }};
}

/// Asks everything of a view of `bytes`, if it opens; whether `verify` passes it.
fn exercise_view(bytes: &[u8], keys: &[Vec<u8>], what: &str) -> bool {
    let Ok(view) = View::new(bytes) else { return false };
    exercise_all!(&view, keys, bytes.len() as u64, what).is_ok()
}

/// Asks everything of a file with these bytes.
fn exercise_file(bytes: &[u8], keys: &[Vec<u8>], what: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(bytes).unwrap();
    for access in [Access::Map, Access::Read] {
        let Ok(store) = Constant::options().access(access).open(file.path()) else { return };
        let what = format!("{what}, {access:?}");
        let _ = exercise_all!(&store, keys, bytes.len() as u64, &what);
    }
}

/// The keys of the records, and some that are absent.
fn keys_of(records: &Records) -> Vec<Vec<u8>> {
    let absent = ["", "absent", "an absent key that is longer than a few bytes"];
    let absent = absent.iter().map(|key| key.as_bytes().to_vec());
    model_of(records).into_keys().chain(absent).collect()
}

#[test]
fn truncated_or_extended_files_do_not_open() {
    for (name, records) in samples() {
        let mut bytes = file_of(name, &records);
        for len in 0..bytes.len() {
            let error = View::new(&bytes[..len]).unwrap_err();
            assert!(error.is_bad_file(), "{name}, {len} bytes: {error:?}");
        }
        bytes.push(0);
        assert!(View::new(&bytes).unwrap_err().is_bad_file(), "{name}, one byte more");
    }
}

/// A file that becomes shorter while it is read with `pread`: an error, or the right answer.
#[test]
fn a_file_truncated_under_a_reader_gives_errors() {
    for (name, records) in samples() {
        let bytes = file_of(name, &records);
        let model = model_of(&records);
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all(&bytes).unwrap();
        let open = |access| Constant::options().access(access).open(file.path()).unwrap();
        let (by_pread, copied) = (open(Access::Read), open(Access::Memory));
        for len in (0..bytes.len()).rev().step_by(if is_soak() { 1 } else { 5 }) {
            file.as_file().set_len(len as u64).unwrap();
            for (key, values) in &model {
                if let Ok(all) = by_pread.get_all(key) {
                    assert!(all == *values, "{name}, {len} bytes");
                }
                if let Ok(first) = by_pread.get(key) {
                    assert!(first.as_deref() == Some(&values[0][..]), "{name}, {len} bytes");
                }
                assert!(copied.get_all(key).unwrap() == *values, "{name}: a copy is independent");
            }
            assert!(by_pread.verify(|_, _| ()).is_err(), "{name}, {len} bytes");
            assert!(by_pread.iter().count() <= records.len() + 1);
        }
    }
}

/// The changes that are made to each byte.
fn flips(at: usize) -> Vec<u8> {
    if is_soak() {
        return (0..8).map(|bit| 1 << bit).chain([0xff]).collect();
    }
    vec![0xff, 1 << (at % 8)]
}

#[test]
fn every_flipped_byte_is_found_and_no_key_gets_the_value_of_another() {
    for (name, records) in samples() {
        let clean = file_of(name, &records);
        let model = model_of(&records);
        let keys = keys_of(&records);
        assert!(exercise_view(&clean, &keys, name), "{name}: the file itself passes");
        let mut bytes = clean.clone();
        for at in 0..clean.len() {
            for flip in flips(at) {
                bytes[at] ^= flip;
                let what = format!("{name}, byte {at} ^ {flip:#x}");
                assert!(!exercise_view(&bytes, &keys, &what), "{what}: not found");
                if at >= HEADER {
                    let view = View::new(&bytes).unwrap();
                    let mut changed: Vec<&Vec<u8>> = Vec::new();
                    for key in &keys {
                        let right = model.get(key).map_or(&[][..], |values| &values[..]);
                        let all = view.get_all(key).unwrap_or_default();
                        let mut given: Vec<Vec<u8>> = all.iter().map(|v| v.to_vec()).collect();
                        given.extend(view.get(key).unwrap_or_default().map(<[u8]>::to_vec));
                        let keep = |_: usize, value: Option<&[u8]>| {
                            given.extend(value.map(<[u8]>::to_vec));
                        };
                        view.get_many(&[key], keep).unwrap_or_default();
                        assert!(!right.is_empty() || given.is_empty(), "{what}: {key:?} appears");
                        if !given.iter().all(|value| right.iter().any(|r| r == value)) {
                            changed.push(key);
                        }
                    }
                    assert!(changed.len() <= 1, "{what}: changes the values of {changed:?}");
                }
                if at % 97 == 0 {
                    exercise_file(&bytes, &keys, &what);
                }
                bytes[at] = clean[at];
            }
        }
    }
}

/// What a scan gives is what lookups give.
fn assert_consistent(bytes: &[u8], what: &str) {
    let view = View::new(bytes).unwrap();
    let mut records = Records::new();
    let collect = |key: &[u8], value: &[u8]| {
        records.push((key.to_vec(), value.to_vec()));
        Ok(())
    };
    view.scan(collect).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(view.len().unwrap(), records.len() as u64, "{what}");
    for (key, values) in model_of(&records) {
        let all = view.get_all(&key).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(all == values, "{what}: get_all {key:?} is not what the scan gives");
        assert!(view.get(&key).unwrap() == Some(&values[0][..]), "{what}: get {key:?}");
    }
}

#[test]
fn a_changed_byte_under_checksums_that_fit_does_no_harm() {
    for (name, records) in samples() {
        let clean = file_of(name, &records);
        let keys = keys_of(&records);
        for at in 8..clean.len() {
            for flip in flips(at) {
                let mut bytes = clean.clone();
                bytes[at] ^= flip;
                seal(&mut bytes);
                let what = format!("{name}, byte {at} ^ {flip:#x}, sealed");
                if exercise_view(&bytes, &keys, &what) {
                    assert_consistent(&bytes, &what);
                }
                if at % 97 == 0 {
                    exercise_file(&bytes, &keys, &what);
                }
            }
        }
    }
}

/// Values that make careless arithmetic overflow, wrap or leave the file.
fn hostile(rng: &mut Rng, len: usize) -> u64 {
    let len = len as u64;
    let edges = [0, 1, 7, 8, 16, 63, 64, 128, 255, 256, len / 2, len - 8, len, len + 1];
    let high = [31, 32, 47, 48, 61, 62, 63].map(|bit| 1u64 << bit);
    let base = match rng.below(5) {
        0 => rng.below(len),
        1 => rng.below(len) & !7,
        2 => high[rng.below(7) as usize],
        3 => u64::MAX - rng.below(40),
        _ => edges[rng.below(14) as usize],
    };
    // Sometimes two halves of 32 bits, or a value with a flag at the top.
    match rng.below(6) {
        0 => base << 32 | rng.below(300),
        1 => base | 1 << 63,
        2 => base.wrapping_sub(rng.below(3)),
        _ => base,
    }
}

#[test]
fn hostile_headers_do_no_harm() {
    for (name, records) in samples() {
        let clean = file_of(name, &records);
        let keys = keys_of(&records);
        for round in 0..rounds(1000) {
            let seed = seed_quietly(round);
            let mut rng = Rng::new(seed);
            let mut bytes = clean.clone();
            for _ in 0..=rng.below(3) {
                let at = 8 + 4 * rng.below((HEADER_SUM as u64 - 8 - 4) / 4) as usize;
                let value = hostile(&mut rng, clean.len());
                if rng.below(3) == 0 {
                    bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
                } else {
                    set(&mut bytes, at, value);
                }
            }
            if rng.below(2) == 0 {
                // Past the first check, so that the others are reached.
                set(&mut bytes, 40, clean.len() as u64);
            }
            let what = format!("{name}, CREDENZA_SEED={seed}");
            seal_header(&mut bytes);
            exercise_view(&bytes, &keys, &what);
            seal(&mut bytes);
            if exercise_view(&bytes, &keys, &what) {
                assert_consistent(&bytes, &what);
            }
        }
    }
}

#[test]
fn hostile_bodies_do_no_harm() {
    for (name, records) in samples() {
        let clean = file_of(name, &records);
        let keys = keys_of(&records);
        for round in 0..rounds(1000) {
            let seed = seed_quietly(1_000_000 + round);
            let mut rng = Rng::new(seed);
            let mut bytes = clean.clone();
            for _ in 0..=rng.below(4) {
                // Whole words of the log, the directory and the lists begin at multiples of 8.
                let words = (clean.len() - HEADER) / 8;
                let at = HEADER + 8 * rng.below(words as u64) as usize;
                set(&mut bytes, at, hostile(&mut rng, clean.len()));
            }
            let what = format!("{name}, CREDENZA_SEED={seed}");
            exercise_view(&bytes, &keys, &what);
            seal(&mut bytes);
            if exercise_view(&bytes, &keys, &what) {
                assert_consistent(&bytes, &what);
            }
            if round % 50 == 0 {
                exercise_file(&bytes, &keys, &what);
            }
        }
    }
}

/// Many rounds: the seed is named by the message of a failure only.
fn seed_quietly(round: u64) -> u64 {
    let set = std::env::var("CREDENZA_SEED").ok().and_then(|n| n.parse().ok());
    set.unwrap_or(round + 1)
}

#[test]
fn random_bytes_do_not_open_and_do_no_harm_behind_a_true_header() {
    let seed = seed(0);
    let mut rng = Rng::new(seed);
    for _ in 0..300 {
        let len = rng.below(2000) as usize;
        let error = View::new(&rng.bytes(len)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongFormat { .. }), "{error:?}");
    }
    for (name, records) in samples() {
        let clean = file_of(name, &records);
        let keys = keys_of(&records);
        for round in 0..rounds(200) {
            let mut bytes = clean.clone();
            let from = HEADER + rng.below((clean.len() - HEADER) as u64) as usize;
            let to = from + rng.below((clean.len() - from + 1) as u64) as usize;
            let random = rng.bytes(to - from);
            bytes[from..to].copy_from_slice(&random);
            let what = format!("{name}, random bytes from {from} to {to}, round {round} of {seed}");
            exercise_view(&bytes, &keys, &what);
            seal(&mut bytes);
            exercise_view(&bytes, &keys, &what);
        }
    }
}

/// Lists that overlap, all of whose places lead to the longest record: what could become the
/// square of the file's size.
#[test]
fn lists_that_repeat_records_are_refused() {
    let mut records: Records = (0..2000u32).map(|i| (b"k".to_vec(), vec![i as u8; 3])).collect();
    records.push((b"k".to_vec(), vec![1; 60_000]));
    let clean = built(&records);
    let (lists_at, lists_len) = (word(&clean, REGIONS + 48), word(&clean, REGIONS + 56));
    let log_at = word(&clean, REGIONS);
    let at = lists_at as usize;
    let mut bytes = clean.clone();
    for place in 0..2001 {
        set(&mut bytes, at + 16 + 8 * place, log_at);
    }
    seal(&mut bytes);
    assert!(!exercise_view(&bytes, &[b"k".to_vec()], "one list of one record"));
    exercise_file(&bytes, &[b"k".to_vec()], "one list of one record");
    for word in (at..at + lists_len as usize).step_by(16) {
        let left = (at + lists_len as usize - word).saturating_sub(16) / 8;
        set(&mut bytes, word, left as u64);
        if word + 16 <= at + lists_len as usize {
            set(&mut bytes, word + 8, 16);
        }
    }
    seal(&mut bytes);
    assert!(!exercise_view(&bytes, &[b"k".to_vec()], "a list in every place"));
    exercise_file(&bytes, &[b"k".to_vec()], "a list in every place");
}

/// Groups of the directory that all name the same buckets.
#[test]
fn groups_that_share_their_buckets_are_refused() {
    // Too large for blocks, and of several sizes.
    let value = |i: u32| vec![1; 60 + i as usize % 2];
    let records: Records = (0..20_000u32).map(|i| (i.to_le_bytes().to_vec(), value(i))).collect();
    let mut bytes = built(&records);
    let (at, len) = (word(&bytes, REGIONS + 16) as usize, word(&bytes, REGIONS + 24) as usize);
    let first = bytes[at..at + 64].to_vec();
    for group in bytes[at..at + len].chunks_exact_mut(64) {
        group.copy_from_slice(&first);
    }
    seal(&mut bytes);
    assert!(!exercise_view(&bytes, &[vec![1, 2, 3, 4]], "groups that share"));
    assert!(View::new(&bytes).unwrap().scan(|_, _| Ok(())).is_err());
}

/// The message of the error of opening.
fn refusal(result: Result<Constant>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn what_is_not_a_constant_file_is_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let contains = |message: String, parts: &[&str]| {
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    };
    contains(refusal(Constant::open(path("missing"))), &["missing", "cannot open"]);
    contains(refusal(Constant::open(folder.path())), &["directory", "name a file"]);
    fs::write(path("empty"), "").unwrap();
    contains(refusal(Constant::open(path("empty"))), &["empty", "credenza load"]);
    fs::write(path("text"), "some text\n".repeat(100)).unwrap();
    contains(refusal(Constant::open(path("text"))), &["text", "credenza convert"]);
    contains(refusal(Constant::open("/dev/zero")), &["/dev/zero", "regular file"]);
    let fifo = path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if made.is_ok_and(|status| status.success()) {
        contains(refusal(Constant::open(&fifo)), &["FIFO", "regular file"]);
    } else {
        println!("skipped: there is no mkfifo here");
    }
    let secret = path("secret");
    fs::write(&secret, built(&Records::new())).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o0)).unwrap();
    if fs::File::open(&secret).is_ok() {
        println!("skipped: this user may read everything, so there is nothing to refuse");
    } else {
        contains(refusal(Constant::open(&secret)), &["secret", "owner and mode"]);
    }
}

#[test]
fn errors_of_every_reading_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broken");
    let record = |key: &str, size: usize| (key.as_bytes().to_vec(), vec![1; size]);
    let mut bytes = built(&vec![record("key", 100), record("other", 90)]);
    // The directory's only group: every bucket begins past the end of the file.
    let directory_at = u64::from_le_bytes(bytes[120..128].try_into().unwrap()) as usize;
    bytes[directory_at..directory_at + 6].fill(0x7f);
    fs::write(&path, &bytes).unwrap();
    for access in [Access::Map, Access::Read, Access::Memory] {
        let store = Constant::options().access(access).open(&path).unwrap();
        let errors = [
            store.get(b"key").unwrap_err(),
            store.get_all(b"key").unwrap_err(),
            store.get_many(&[b"key"], |_, _| ()).unwrap_err(),
            store.contains_key(b"key").unwrap_err(),
            store.scan(|_, _| Ok(())).unwrap_err(),
            store.iter().find_map(Result::err).unwrap(),
        ];
        for error in errors {
            assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{access:?}: {error}");
            assert_eq!(error.path(), Some(&*path), "{access:?}: {error}");
        }
    }
}

#[test]
fn files_of_other_versions_say_what_to_do() {
    let clean = built(&Records::new());
    let refusal = |at: usize, value: u8| {
        let mut bytes = clean.clone();
        bytes[at] = value;
        seal_header(&mut bytes);
        View::new(&bytes).unwrap_err()
    };
    let version = refusal(12, 2);
    assert!(matches!(version.kind(), ErrorKind::Unsupported(_)), "{version:?}");
    let message = version.to_string();
    assert!(message.contains("version 2") && message.contains("newer program"), "{message}");
    let mut other_header = clean.clone();
    other_header[12] = 2;
    let other_header = View::new(&other_header).unwrap_err();
    assert_eq!(other_header.to_string(), message, "a later version may sum its header elsewhere");
    let feature = refusal(24, 4);
    assert!(matches!(feature.kind(), ErrorKind::Unsupported(_)), "{feature:?}");
    let engine = refusal(8, 9);
    assert!(engine.to_string().contains("engine 9"), "{engine}");
}

/// They were called damaged, with the advice to build them again.
#[test]
fn stores_of_other_engines_are_called_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (hash, btree) = (folder.path().join("hash"), folder.path().join("btree"));
    credenza::hash::Hash::create(&hash).unwrap().insert(b"key", b"value").unwrap();
    credenza::btree::BTree::create(&btree).unwrap().insert(b"key", b"value").unwrap();
    let index = folder.path().join("hash-index");
    for (path, kind) in [(hash, "a hash store"), (index, "index of a hash"), (btree, "a btree")] {
        let error = Constant::open(&path).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongFormat { .. }), "{error}");
        assert!(error.to_string().contains(kind), "{error}");
    }
}

/// A scan that meets a record twice, or not at all, under checksums and counts that fit.
#[test]
fn records_that_a_scan_would_miss_or_repeat_are_found() {
    const LISTED: u64 = 1 << 31;
    const COUNTS: usize = 48;
    let record = |key: &str, len| (key.as_bytes().to_vec(), vec![7; len]);
    let mixed = vec![record("k", 1), record("k", 300)];
    let alone = vec![record("k", 300), record("other", 300)];
    // By how many records, bytes of keys and of values the header's counts change.
    for (records, by) in [(&mixed, [1, 1, 300]), (&alone, [-1, -1, -300])] {
        let mut bytes = built(records);
        View::new(&bytes).unwrap().verify(|_, _| ()).unwrap();
        let log_at = word(&bytes, REGIONS) as usize;
        let lens = word(&bytes, log_at);
        set(&mut bytes, log_at, lens ^ LISTED);
        for (i, by) in by.into_iter().enumerate() {
            let count = word(&bytes, COUNTS + 8 * i);
            set(&mut bytes, COUNTS + 8 * i, count.wrapping_add_signed(by));
        }
        seal(&mut bytes);
        let mut scanned = 0;
        let store = View::new(&bytes).unwrap();
        store
            .scan(|_, _| {
                scanned += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(scanned, 2 + by[0], "this is what has to be found");
        let error = store.verify(|_, _| ()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
    }
}

/// References of one key that lead to its records in another order than a scan has them in.
#[test]
fn records_of_a_key_out_of_order_are_found() {
    let value = |i: u8| (b"key".to_vec(), vec![i; 300]);
    let clean = built(&vec![value(1), value(2), value(3)]);
    let (buckets_at, buckets_len) = (word(&clean, REGIONS + 32), word(&clean, REGIONS + 40));
    let ref_bytes = clean[88] as usize;
    let mut in_other_order = 0;
    for at in buckets_at as usize..(buckets_at + buckets_len) as usize - 2 * ref_bytes {
        let mut bytes = clean.clone();
        bytes[at..at + 2 * ref_bytes].rotate_left(ref_bytes);
        if bytes == clean {
            continue;
        }
        seal(&mut bytes);
        let store = View::new(&bytes).unwrap();
        let found = store.get_all(b"key").map(|all| all.len());
        in_other_order += usize::from(found.is_ok_and(|found| found == 3));
        store.verify(|_, _| ()).unwrap_err();
    }
    assert!(in_other_order >= 2, "this is what has to be found: {in_other_order}");
}

/// Who opens a file asks for what all lookups read, and the kernel makes pages of holes: a store that claimed terabytes took hours
/// to open, and all the memory.
#[test]
fn a_directory_in_a_hole_takes_no_time() {
    let mut bytes = built(&vec![(b"key".to_vec(), b"value".to_vec())]);
    bytes.truncate(HEADER);
    let (directory, len, tail) = (HEADER as u64, 4u64 << 30, 128);
    let end = directory + len + tail;
    let sums = 8 * (len.div_ceil(SEGMENT as u64) + 1);
    let regions =
        [(directory, 0), (directory, len), (directory + len, tail), (end, 0), (end, sums)];
    for (at, (begin, len)) in (REGIONS..).step_by(16).zip(regions) {
        set(&mut bytes, at, begin);
        set(&mut bytes, at + 8, len);
    }
    set(&mut bytes, FILE_BYTES, end + sums);
    // Groups lead to the buckets, and neither blocks nor rows.
    bytes[24..28].fill(0);
    seal_header(&mut bytes);
    // On a disk: in memory (tmpfs) nothing is made of a hole that is asked for.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("holes");
    fs::write(&path, &bytes).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    if let Err(e) = file.set_len(end + sums) {
        println!("skipped: no file of this length here: {e}");
        return;
    }
    let store = match Constant::open(&path) {
        Err(e) if e.to_string().contains("cannot map") => {
            println!("skipped: no addresses for it: {e}");
            return;
        }
        opened => opened.unwrap(),
    };
    let found = store.residency().unwrap();
    assert!(found.resident < 1 << 30, "{found:?}");
}

/// A file with holes claims what no memory has room for.
#[test]
fn a_list_in_a_hole_takes_no_memory() {
    let values: Vec<_> = (0..12).map(|i: u8| (b"many".to_vec(), vec![i])).collect();
    let mut bytes = built(&values);
    let (lists_at, lists_len) = (word(&bytes, REGIONS + 48), word(&bytes, REGIONS + 56));
    let huge = (1u64 << 41) - lists_len;
    let pieces = (lists_len + huge).div_ceil(SEGMENT as u64);
    let sums_at = lists_at + lists_len + huge;
    // The list reaches to the end of its region, and claims as many places as fit.
    let at = lists_at as usize;
    set(&mut bytes, at, (lists_len + huge - 16) / 8);
    set(&mut bytes, at + 8, lists_len + huge);
    set(&mut bytes, REGIONS + 56, lists_len + huge);
    let sums_before = word(&bytes, REGIONS + 72) / 8;
    set(&mut bytes, REGIONS + 64, sums_at);
    set(&mut bytes, REGIONS + 72, 8 * (sums_before - 1 + pieces));
    set(&mut bytes, FILE_BYTES, sums_at + 8 * (sums_before - 1 + pieces));
    seal_header(&mut bytes);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("holes");
    fs::write(&path, &bytes[..at + 16]).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    if let Err(e) = file.set_len(sums_at + 8 * (sums_before - 1 + pieces)) {
        println!("skipped: no file of this length here: {e}");
        return;
    }
    for access in [Access::Map, Access::Read] {
        let store = match Constant::options().access(access).open(&path) {
            Ok(store) => store,
            // Nor may there be so many addresses.
            Err(e) => {
                assert_eq!(access, Access::Map, "{e}");
                continue;
            }
        };
        let error = store.get(b"many").unwrap_err();
        assert!(error.to_string().contains("none of its records can be"), "{error}");
    }
}
