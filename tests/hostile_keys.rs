//! Danger: keys that somebody has chosen so that their hashes collide, to make a build or the
//! lookups in what it built slow, large, or impossible.
//!
//! The seed of the first attempt is known to everybody. What answers such keys is that the builder
//! notices them, and divides them again under a seed derived from all of the content.

mod common;

use common::{Records, Rng, model_of, seed};
use credenza::constant::{BuildOptions, Builder, Constant, View};
use credenza::{Get, Scan};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// The seed that a builder tries first, and where a header has the one it took.
const FIRST_SEED: u64 = 0x6372_6564_656e_7a61;
const SEED_AT: usize = 32;

fn hash(key: &[u8]) -> u64 {
    rapidhash_v3_seeded(key, &RapidSecrets::seed(FIRST_SEED))
}

/// Builds the records; checks that the bounds of the format hold, that all is found, and that
/// the same input gives the same bytes.
fn build(records: &Records) -> Vec<u8> {
    let build = |budget| {
        let options = BuildOptions::new().memory_budget(budget);
        options.build_in_memory(records.iter().map(|(k, v)| (k, v))).unwrap()
    };
    let bytes = build(1 << 30);
    assert!(build(8 << 20) == bytes, "the same input gives the same bytes");
    let view = View::new(&bytes).unwrap();
    view.verify(|_, _| ()).unwrap();
    assert_eq!(view.len().unwrap(), records.len() as u64);
    let stats = view.stats().unwrap();
    assert!(stats.largest_bucket <= 255, "{stats:?}");
    for (key, values) in model_of(records) {
        assert!(view.get_all(&key).unwrap() == values, "{key:?}");
        assert!(view.get(&key).unwrap() == Some(&values[0][..]), "{key:?}");
    }
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn seed_of(bytes: &[u8]) -> u64 {
    word(bytes, SEED_AT)
}

/// Keys found by trying: the upper bits of their hashes, which choose the bucket, are equal.
#[test]
fn keys_of_one_bucket_are_divided_by_another_seed() {
    let mut rng = Rng::new(seed(0));
    let mut records = Records::new();
    while records.len() < 3000 {
        let key = rng.next().to_le_bytes();
        if hash(&key) >> 52 == 0xabc {
            records.push((key.to_vec(), vec![1; 3]));
        }
    }
    assert_ne!(seed_of(&build(&records)), FIRST_SEED);
    // Among others they crowd one bucket as well.
    let others = (0..30_000u32).map(|i| (i.to_le_bytes().to_vec(), vec![i as u8; 4]));
    records.extend(others);
    assert_ne!(seed_of(&build(&records)), FIRST_SEED);
}

/// Keys of 16 bytes whose first half is the number that the hash multiplies to zero: any number
/// of them have one and the same hash.
fn colliding(count: u64) -> impl Iterator<Item = Vec<u8>> {
    let half = RapidSecrets::seed(FIRST_SEED).secrets[1];
    (0..count).map(move |i| [half.to_le_bytes(), i.to_le_bytes()].concat())
}

#[test]
fn keys_of_one_hash_are_divided_by_another_seed() {
    let keys: Vec<Vec<u8>> = colliding(200_000).collect();
    assert!(keys.iter().all(|key| hash(key) == hash(&keys[0])), "they collide");
    let small = keys.iter().map(|key| (key.clone(), b"v".to_vec())).collect();
    assert_ne!(seed_of(&build(&small)), FIRST_SEED);
    let large = keys.iter().take(3000).map(|key| (key.clone(), vec![7; 300])).collect();
    assert_ne!(seed_of(&build(&large)), FIRST_SEED);
}

/// A few keys of one hash are no reason for another seed: their duplicates are told apart.
#[test]
fn a_few_keys_of_one_hash_keep_their_own_values() {
    let mut records = Records::new();
    for round in 0..12u8 {
        for (i, key) in colliding(5).enumerate() {
            let len = if (i + usize::from(round)) % 3 == 0 { 300 } else { i };
            records.push((key.clone(), vec![round; len]));
            if i < 2 {
                records.push((key, vec![round; 2]));
            }
        }
    }
    assert_eq!(seed_of(&build(&records)), FIRST_SEED);
}

/// Many values of some keys of one bucket are more than is sorted at once where memory is short.
#[test]
fn many_values_of_keys_of_one_bucket_become_lists() {
    let keys = (0u64..).map(u64::to_le_bytes).filter(|key| hash(key) >> 50 == 1).take(20);
    let keys: Vec<Vec<u8>> = keys.map(|key| key.to_vec()).chain(colliding(3)).collect();
    let mut records: Records = (0..160_000u32)
        .map(|i| (keys[i as usize % 20].clone(), i.to_le_bytes().to_vec()))
        .collect();
    for i in 0..60 {
        let len = if i % 7 == 0 { 300 } else { 2 };
        records.insert(2000 * i, (keys[20 + i % 2 * (i % 3)].clone(), vec![i as u8; len]));
    }
    assert_eq!(seed_of(&build(&records)), FIRST_SEED);
}

/// Of one hash, a few keys together have no more values than are told apart at once.
#[test]
fn many_values_of_keys_of_one_hash_are_divided_by_another_seed() {
    let keys: Vec<Vec<u8>> = colliding(2).collect();
    for count in [1000, 200_000u32] {
        let records = (0..count).map(|i| (keys[i as usize % 2].clone(), i.to_le_bytes().to_vec()));
        assert_ne!(seed_of(&build(&records.collect())), FIRST_SEED);
    }
}

#[test]
fn one_key_may_have_very_many_values() {
    let values = |len: usize| {
        (0..100_000u32).map(move |i| (b"one key".to_vec(), i.to_le_bytes().repeat(len)))
    };
    build(&values(1).collect());
    build(&values(3).chain([(b"another".to_vec(), vec![])]).collect());
    let large = values(1).chain((0..2000u32).map(|i| (b"one key".to_vec(), vec![i as u8; 256])));
    build(&large.collect());
}

/// Eight long values for each key: what a bucket holds varies more from one to the next than the
/// plan of the file reckons with, at first.
#[test]
fn clusters_of_duplicates_fit_in_the_end() {
    let records =
        (0..6000u32).flat_map(|i| (0..8u8).map(move |n| (i.to_le_bytes().to_vec(), vec![n; 250])));
    build(&records.collect());
}

/// A file of them has all that a file of other keys has: it is spilled, published and read.
#[test]
fn colliding_keys_in_a_file_within_a_small_budget() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut builder: Builder = BuildOptions::new().memory_budget(8 << 20).create(&path).unwrap();
    let count = 300_000;
    for key in colliding(count) {
        builder.add(&key, &[7; 20]).unwrap();
    }
    assert_eq!(builder.finish().unwrap().records, count);
    let store = Constant::open(&path).unwrap();
    store.verify(|_, _| ()).unwrap();
    assert!(colliding(count).step_by(1000).all(|key| store.contains_key(&key).unwrap()));
}

/// What blocks were planned for is the mean size of records; a directory takes what they cannot hold, under the same
/// seed: sizes that differ much, one key's many values, and lists behind what references can name.
#[test]
fn records_that_do_not_suit_blocks_have_a_directory() {
    let key = |i: u32| i.wrapping_mul(0x9e37_79b9).to_le_bytes().repeat(2);
    let differing = (0..60_000).map(|i| (key(i), vec![7; if i % 33 == 0 { 247 } else { 0 }]));
    let one_key = (0..40_000u32).map(|i| (b"one key".to_vec(), i.to_le_bytes().repeat(3)));
    let far = (0..6100u32).flat_map(|i| (0..9).map(move |v| (key(i), vec![v; 256])));
    let far = far.chain([(b"a".to_vec(), b"b".to_vec())]);
    for (case, records) in
        [differing.collect::<Records>(), one_key.collect(), far.collect()].iter().enumerate()
    {
        let file = build(records);
        assert_eq!(seed_of(&file), FIRST_SEED);
        assert_eq!(file[24], 0, "no blocks: {case}");
    }
    let alike = (0..60_000).map(|i| (key(i), vec![7; 8 + i as usize % 16]));
    assert_eq!(build(&alike.collect())[24], 1, "blocks");
}

/// Rows tell seven bits of a level, and their lanes without an entry fit keys whose fingerprint is 0: what is looked up
/// there is found all the same, and what is not there is absent.
#[test]
fn rows_are_read_to_their_last_lane() {
    // Seven records a key, which both have the lowest level of their home: some have no lane there.
    for keys in [["00003125", "00004099"], ["00004281", "00007835"]] {
        let one = |i: u8| keys.map(|key| (key.as_bytes().to_vec(), vec![i; 8]));
        let file = build(&(0..7).flat_map(one).collect());
        assert_eq!(file[24], 2, "rows");
        let rows = word(&file, 120) as usize..(word(&file, 120) + word(&file, 128)) as usize;
        let limits: Vec<u8> = file[rows].chunks(16).map(|row| row[12]).collect();
        assert!(limits.contains(&0), "entries of one level are in two rows: {limits:?}");
    }
    for count in [1, 3, 100] {
        let records: Records =
            (0..count).map(|i| (format!("{i:08}").into_bytes(), vec![])).collect();
        let file = build(&records);
        let view = View::new(&file).unwrap();
        for i in 0..100_000 {
            let key = format!("x{i:07}");
            assert_eq!(view.get(key.as_bytes()).unwrap(), None, "{key} {count}");
            assert!(i % 100 > 0 || view.get_all(key.as_bytes()).unwrap().is_empty());
        }
    }
}
