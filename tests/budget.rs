//! Danger: a build that takes more memory than it was given. Its peak stays within its budget
//! plus 64 MiB, whatever it builds from.

mod common;

use common::{Rng, child, is_child, is_sanitized, is_soak, status};
use credenza::constant::{BuildOptions, Constant};
use credenza::{Get, Scan};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Budget of the builds, far below the data; and what a process may take beside it.
const BUDGET: u64 = 16 << 20;
const BESIDE: u64 = 64 << 20;

/// Styles of records that crowd together.
const CROWDED: [&str; 4] = ["one hash", "bucket", "one key", "one key, some large"];

/// Bytes of records to build from.
fn data_bytes() -> u64 {
    match (is_soak(), cfg!(debug_assertions)) {
        (true, _) => 2 << 30,
        (false, false) => 300 << 20,
        (false, true) => 60 << 20,
    }
}

/// The secrets of the hash under the seed that a builder tries first, which everybody knows.
fn secrets() -> RapidSecrets {
    RapidSecrets::seed(0x6372_6564_656e_7a61)
}

/// Keys whose hashes lead to one bucket.
fn keys_of_one_bucket(count: usize) -> Vec<[u8; 8]> {
    let secrets = secrets();
    let keys = (0u64..).map(u64::to_le_bytes);
    keys.filter(|key| rapidhash_v3_seeded(key, &secrets) >> 50 == 1).take(count).collect()
}

/// Calls `add` with records whose keys are few, or chosen so that most are in one place.
fn crowded_records(style: &str, mut add: impl FnMut(&[u8], &[u8])) {
    let keys = if style == "bucket" { keys_of_one_bucket(50) } else { Vec::new() };
    // Such keys of 16 bytes have one hash, whatever their other half.
    let half = secrets().secrets[1].to_le_bytes();
    let mut left = data_bytes();
    let value = [7; 300];
    for i in 0u64.. {
        let number = i.to_le_bytes();
        match style {
            "one hash" => add(&[half, number].concat(), &number[..2]),
            "bucket" => add(&keys[i as usize % keys.len()], &number[..i as usize % 8]),
            // With others before and behind, so that it is not alone in its partition.
            _ if i % 16 == 0 => add(&number, &number),
            "one key, some large" if i % 64 == 1 => add(b"k", &value),
            _ => add(b"k", &number[..3]),
        }
        left = left.saturating_sub(18);
        if left == 0 {
            return;
        }
    }
}

/// Calls `add` with the records of a style.
fn records(style: &str, mut add: impl FnMut(&[u8], &[u8])) {
    if CROWDED.contains(&style) {
        return crowded_records(style, add);
    }
    let mut rng = Rng::new(1);
    let mut left = data_bytes();
    let mut value = vec![0; 5000];
    while left > 0 {
        let key = rng.next().to_le_bytes();
        let len = match style {
            "fixed" => 22,
            "mixed" => rng.below(60) as usize,
            "large" => 3000 + rng.below(2000) as usize,
            _ => [10, 20, 400][rng.below(3) as usize],
        };
        value[..8].copy_from_slice(&key);
        // Of duplicates, every key has about twenty.
        let key = if style == "duplicates" {
            (rng.below(data_bytes() / 3000) << 20).to_le_bytes()
        } else {
            key
        };
        add(&key, &value[..len]);
        left = left.saturating_sub(8 + len as u64);
    }
}

/// A child's work: builds, and fails if that took more than it may.
#[test]
fn child_builds_within_its_budget() {
    if !is_child() {
        return;
    }
    let path = PathBuf::from(std::env::var("BUILD_PATH").unwrap());
    let style = std::env::var("BUILD_STYLE").unwrap();
    let mut builder = BuildOptions::new().memory_budget(BUDGET).create(&path).unwrap();
    let mut count = 0;
    records(&style, |key, value| {
        builder.add(key, value).unwrap();
        count += 1;
    });
    assert_eq!(builder.finish().unwrap().records, count);
    let peak = status("VmHWM");
    println!("{style}: {count} records with a peak of {} MiB", peak >> 20);
    if is_sanitized() {
        println!("skipped the bound: a sanitizer takes memory of its own");
        return;
    }
    assert!(peak <= BUDGET + BESIDE, "{style}: the peak is {} MiB", peak >> 20);
}

/// Builds in a process of its own, whose peak is nobody else's, and reads the result.
fn build_and_read(style: &str) {
    if !Path::new("/proc/self/status").exists() {
        println!("skipped: this system does not tell the peak memory of a process");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut builder = child("child_builds_within_its_budget");
    builder.env("BUILD_PATH", &path).env("BUILD_STYLE", style);
    let output = builder.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains("with a peak of"), "{said}");
    let store = Constant::open(&path).unwrap();
    store.verify(|_, _| ()).unwrap();
    if CROWDED.contains(&style) {
        return assert_has_the_records(&store, style);
    }
    let (mut count, mut found) = (0u64, 0u64);
    records(style, |key, value| {
        count += 1;
        if count % 997 == 0 {
            found += u64::from(store.get_all(key).unwrap().iter().any(|v| **v == *value));
        }
    });
    assert_eq!((store.len().unwrap(), found), (count, count / 997));
}

/// Compares what a scan meets with what was added: the values of each key in their order.
fn assert_has_the_records(store: &Constant, style: &str) {
    let add = |all: &mut HashMap<Vec<u8>, (u64, u64)>, key: &[u8], value: &[u8]| {
        let (count, sum) = all.entry(key.to_vec()).or_default();
        *count += 1;
        let value =
            value.iter().fold(value.len() as u64, |sum, byte| (sum << 8) ^ u64::from(*byte));
        *sum = sum.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(value);
    };
    let (mut added, mut found) = (HashMap::new(), HashMap::new());
    records(style, |key, value| add(&mut added, key, value));
    let scanned = store.scan(|key, value| {
        add(&mut found, key, value);
        Ok(())
    });
    scanned.unwrap();
    assert!(added == found, "{style}: {} keys, {} found", added.len(), found.len());
    for (key, (count, _)) in added.iter().filter(|(_, (count, _))| *count > 1) {
        assert_eq!(store.get_all(key).unwrap().len() as u64, *count);
    }
}

#[test]
fn records_of_one_size() {
    build_and_read("fixed");
}

#[test]
fn records_of_many_sizes() {
    build_and_read("mixed");
}

#[test]
fn large_records() {
    build_and_read("large");
}

#[test]
fn keys_with_many_values() {
    build_and_read("duplicates");
}

#[test]
fn one_key_with_very_many_values() {
    build_and_read("one key");
    build_and_read("one key, some large");
}

/// Made by somebody who knows the hash and its first seed.
#[test]
fn keys_that_crowd_together_on_purpose() {
    build_and_read("one hash");
    build_and_read("bucket");
}
