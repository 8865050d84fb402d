//! Danger: a damaged btree store of which less is saved than is whole, or something that was never in it.

mod common;

use common::sample::{COMMITS, PAGE, STATE, Sample, sample, word};
use common::subject::State;
use common::{Rng, ordered, rounds, seed, write_anew};
use credenza::btree::{self, BTree, Duplicates, KeyType, Recovered, TableOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const INNER: u8 = 3;

/// What was saved of a store of which the file is this now, as tables by their names, that of the main one empty.
fn saved(folder: &Path, bytes: &[u8]) -> credenza::Result<(Recovered, BTreeMap<String, State>)> {
    let (damaged, target) = (folder.join("damaged"), folder.join("saved"));
    write_anew(&damaged, bytes);
    let found = btree::recover(&damaged, &target, |done, total| assert!(done <= total));
    assert_eq!(std::fs::read(&damaged).unwrap(), bytes, "it was written to");
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            assert!(!target.exists());
            return Err(error);
        }
    };
    let store = BTree::open(&target).unwrap();
    store.verify(|_, _| ()).unwrap();
    let snapshot = store.read().unwrap();
    let all = |table: btree::Table<'_>| {
        let records = table.iter().map(|record| record.unwrap());
        records.map(|(key, value)| (key, value.to_vec())).collect::<State>()
    };
    let mut tables = BTreeMap::from([(String::new(), all(snapshot.main()))]);
    for name in snapshot.tables().unwrap() {
        let table = snapshot.table(&name).unwrap().unwrap();
        tables.insert(name, all(table));
    }
    let records: usize = tables.values().map(State::len).sum();
    assert_eq!((found.records, found.tables), (records as u64, tables.len() as u64 - 1));
    drop(snapshot);
    drop(store);
    std::fs::remove_file(target).unwrap();
    Ok((found, tables))
}

/// What is missing of the sample, of each table that is there; all that is there was in it.
fn missing(sample: &Sample, saved: &BTreeMap<String, State>) -> u64 {
    let mut missing = 0;
    for (name, state) in saved {
        let (_, right) = sample.tables.iter().find(|(right, _)| right == name).expect("a table");
        assert!(state.iter().all(|(key, value)| right.get(key) == Some(value)), "{name:?}");
        missing += right.len() - state.len();
    }
    missing as u64
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, path)
}

#[test]
fn of_a_whole_store_all_is_saved() {
    let ((_folder, path), sample) = (folder(), sample(120));
    let (found, tables) = saved(&path, &sample.bytes).unwrap();
    assert_eq!(missing(&sample, &tables), 0);
    assert_eq!(
        (found.tables, found.lost_tables, found.lost_pages, found.lost_records),
        (2, 0, 0, 0)
    );
}

#[test]
fn tables_of_every_kind_stay_what_they_are() {
    let (_folder, path) = folder();
    let (from, to) = (path.join("from"), path.join("to"));
    let store = BTree::create(&from).unwrap();
    let mut transaction = store.write().unwrap();
    let sorted = TableOptions::new().key_type(KeyType::U32).duplicates(Duplicates::Sorted);
    let inserted = TableOptions::new().duplicates(Duplicates::Inserted);
    let numbered = TableOptions::new().key_type(KeyType::U64).numbered(true);
    let own = TableOptions::new().key_type(KeyType::named("mine"));
    for (name, options) in
        [("sorted", &sorted), ("inserted", &inserted), ("numbered", &numbered), ("own", &own)]
    {
        transaction.create_table_with(name, options).unwrap();
    }
    for i in 0..500u32 {
        let mut table = transaction.multi_table("sorted").unwrap().unwrap();
        table.insert(&[0, 0, 0, i as u8 % 7], &i.to_le_bytes()).unwrap();
        let mut table = transaction.multi_table("inserted").unwrap().unwrap();
        table.insert(&[i as u8 % 3, 0, 1], &(i % 9).to_le_bytes()).unwrap();
        transaction.table("numbered").unwrap().unwrap().append(&i.to_le_bytes()).unwrap();
        transaction.table("own").unwrap().unwrap().insert(&i.to_le_bytes(), b"own").unwrap();
    }
    // The highest number is not given again.
    transaction.table("numbered").unwrap().unwrap().pop_last().unwrap();
    transaction.commit().unwrap();
    drop(store);
    let found = btree::recover(&from, &to, |_, _| ()).unwrap();
    assert_eq!((found.records, found.lost_records, found.tables), (1999, 0, 4));
    let (from, to) = (BTree::open(&from).unwrap(), BTree::open(&to).unwrap());
    let mut transaction = to.write().unwrap();
    for (name, options) in
        [("sorted", sorted), ("inserted", inserted), ("numbered", numbered), ("own", own)]
    {
        assert_eq!(transaction.table_options(name).unwrap(), Some(options), "{name}");
    }
    let number = transaction.table("numbered").unwrap().unwrap().append(b"next").unwrap();
    assert_eq!(number, 501);
    drop(transaction);
    let [from, to] = [&from, &to].map(|store| store.read().unwrap());
    for name in ["sorted", "inserted"] {
        let [from, to] = [&from, &to].map(|s| s.multi_table(name).unwrap().unwrap());
        assert!(from.iter().map(Result::unwrap).eq(to.iter().map(Result::unwrap)), "{name}");
    }
}

/// A damaged leaf costs what is in it, a page above leaves nothing, one of the catalog the tables that it names.
#[test]
fn a_damaged_page_costs_what_is_in_it_and_nothing_else() {
    let ((_folder, path), sample) = (folder(), sample(120));
    let mut rng = Rng::new(seed(0));
    let (mut inner, mut leaves, mut catalogs) = (0, 0, 0);
    for page in sample.pages() {
        let mut bytes = sample.bytes.clone();
        let at = page * PAGE + rng.below(PAGE as u64) as usize;
        bytes[at] ^= 1 << rng.below(8);
        let (found, tables) = saved(&path, &bytes).unwrap();
        assert_eq!((found.lost_pages, missing(&sample, &tables)), (1, found.lost_records), "{at}");
        let in_it = u16::from_le_bytes(*sample.bytes[page * PAGE + 10..].first_chunk().unwrap());
        if sample.bytes[page * PAGE + 8] == INNER {
            assert_eq!((found.lost_records, found.lost_tables), (0, 0), "an inner page, {page}");
            inner += 1;
        } else if found.lost_tables > 0 {
            assert_eq!((found.lost_records, found.lost_tables), (0, 2));
            catalogs += 1;
        } else {
            assert_eq!(found.lost_records, u64::from(in_it), "a leaf, {page}");
            leaves += 1;
        }
    }
    assert!(inner > 0 && leaves >= 10 && catalogs == 1, "{inner} {leaves} {catalogs}");
}

/// A long key or value is one record's.
#[test]
fn what_is_damaged_elsewhere_costs_one_record() {
    let ((_folder, path), sample) = (folder(), sample(120));
    let mut rng = Rng::new(seed(1));
    for place in sample.elsewhere() {
        let mut bytes = sample.bytes.clone();
        let at = place.start + rng.below(place.len() as u64) as usize;
        bytes[at] ^= 1 << rng.below(8);
        let (found, tables) = saved(&path, &bytes).unwrap();
        assert_eq!(missing(&sample, &tables), found.lost_records, "{at}");
        assert!(found.lost_records <= 1 && found.lost_pages == 0, "{at}: {found:?}");
    }
}

#[test]
fn what_is_left_of_a_file_that_was_cut_off_is_saved() {
    let ((_folder, path), sample) = (folder(), sample(120));
    let mut saved_before = u64::MAX;
    for pages in (0..sample.bytes.len() / PAGE).rev().step_by(3) {
        match saved(&path, &sample.bytes[..pages * PAGE + 17]) {
            Ok((found, tables)) => {
                assert_eq!(missing(&sample, &tables), found.lost_records);
                assert!(found.records <= saved_before);
                saved_before = found.records;
            }
            // Without its first pages it is nothing.
            Err(error) => assert!(pages < 3, "{pages}: {error}"),
        }
    }
    assert!(saved_before < 60, "{saved_before}");
}

/// Whatever else is damaged, the table of pages and what processes share included.
#[test]
fn nothing_is_saved_that_was_not_there() {
    let ((_folder, path), sample) = (folder(), sample(120));
    let (mut some, mut none) = (0, 0);
    for round in 0..rounds(300) {
        let mut rng = Rng::new(seed(1000 + round));
        let mut bytes = sample.bytes.clone();
        for _ in 0..=rng.below(6) {
            let at = match rng.below(3) {
                0 => rng.below(2 * PAGE as u64),
                _ => rng.below(bytes.len() as u64),
            } as usize;
            let len = (1 + rng.below(40) as usize).min(bytes.len() - at);
            let with = rng.bytes(len);
            bytes[at..at + len].copy_from_slice(&with);
        }
        match saved(&path, &bytes) {
            Ok((_, tables)) => some += usize::from(missing(&sample, &tables) < 300),
            Err(_) => none += 1,
        }
    }
    assert!(some > none, "{some} {none}");
}

/// Above all leaves: they are found again, whatever was above them.
#[test]
fn without_its_root_a_store_has_all_its_records() {
    let (_folder, path) = folder();
    let from = path.join("from");
    let store = BTree::create(&from).unwrap();
    let mut transaction = store.write().unwrap();
    for i in 0..60_000u64 {
        let key = ordered(i * 7919 % 60_000);
        transaction.main().insert(&key, &i.to_le_bytes()).unwrap();
        transaction.create_table("words").unwrap().insert(&[b"w", &key[..]].concat(), b"").unwrap();
    }
    transaction.commit().unwrap();
    drop(store);
    let mut bytes = std::fs::read(&from).unwrap();
    // All pages that lead to others.
    let mut damaged = 0;
    for page in 2..bytes.len() / PAGE {
        let page = &mut bytes[page * PAGE..(page + 1) * PAGE];
        if page[8] == INNER && (1..4).contains(&page[9]) && page[..8] != [0; 8] {
            page[100] ^= 1;
            damaged += 1;
        }
    }
    let (found, tables) = saved(&path, &bytes).unwrap();
    assert!(found.lost_pages >= 2 && found.lost_pages <= damaged, "{found:?} of {damaged}");
    // Keys of the one table may be such of the other: what cannot be told apart is lost.
    assert_eq!(found.records + found.lost_records, 120_000);
    assert!(tables[""].iter().all(|(key, value)| key.len() == 8 && value.len() == 8));
    assert!(tables["words"].iter().all(|(key, value)| key.len() == 9 && value.is_empty()));
    // Of one alone it is known where they belong.
    let mut bytes = std::fs::read(&from).unwrap();
    // The number, the stamp and the end of a commit come before the link to the main table's root.
    let commit = COMMITS[word(&bytes, STATE) as usize % 2];
    let root = word(&bytes, commit + 24) & 0xff_ffff_ffff;
    bytes[root as usize * PAGE + 100] ^= 1;
    let (found, tables) = saved(&path, &bytes).unwrap();
    assert_eq!((found.records, found.lost_records, found.lost_pages), (120_000, 0, 1));
    assert_eq!(tables[""].len(), 60_000);
}
