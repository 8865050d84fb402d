//! Danger: a damaged btree store of which less is saved than is whole, or something that was never in it.

mod common;

use common::sample::{COMMITS, METAS, PAGE, STATE, Sample, sample, word};
use common::subject::{State, Subject};
use common::{Rng, ordered, rounds, seed, write_anew};
use credenza::Durability;
use credenza::btree::{self, BTree, Duplicates, KeyType, Recovered, TableOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const INNER: u8 = 3;
/// Where a file says where its table of pages is.
const TABLES: usize = 2816;

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
        let is_of = |(_, right): &(&str, State)| {
            state.iter().all(|(key, value)| right.get(key) == Some(value))
        };
        match sample.tables.iter().find(|(right, _)| right == name) {
            Some(table) => {
                assert!(is_of(table), "{name:?}");
                missing += table.1.len() - state.len();
            }
            // What no name is known of is of one table nevertheless.
            None => {
                assert!(
                    name.starts_with("recovered ") && sample.tables.iter().any(is_of),
                    "{name}"
                );
            }
        }
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
            assert_eq!((found.lost_records, found.lost_tables, found.nameless_tables), (0, 2, 2));
            let all: usize = sample.tables.iter().map(|(_, state)| state.len()).sum();
            assert_eq!(found.records, all as u64);
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

/// Every page is whole, and nothing says which is which.
#[test]
fn without_the_table_of_pages_all_is_taken_as_it_is() {
    let ((_folder, path), sample) = (folder(), sample(120));
    let mut bytes = sample.bytes.clone();
    bytes[PAGE..2 * PAGE].fill(0);
    let (found, tables) = saved(&path, &bytes).unwrap();
    assert_eq!((missing(&sample, &tables), found.lost_records, found.lost_tables), (0, 0, 0));
    assert!(found.unchecked_pages > 10, "{found:?}");
    // Nor where that is.
    let mut bytes = sample.bytes.clone();
    bytes[TABLES] ^= 0x7f;
    let (found, tables) = saved(&path, &bytes).unwrap();
    assert_eq!((missing(&sample, &tables), found.lost_records), (0, 0));
    for page in sample.pages() {
        let mut bytes = sample.bytes.clone();
        bytes[PAGE + 16 * page + page % 16] ^= 1 << (page % 8);
        let (found, tables) = saved(&path, &bytes).unwrap();
        let right_sum = page % 16 < 8;
        let lost = missing(&sample, &tables);
        assert!(lost == 0 || !right_sum && found.lost_pages == 1, "{page}: {found:?}");
    }
}

/// Of pages without a checksum some end where the file does.
#[test]
fn no_part_of_a_page_is_taken_for_all_of_it() {
    let (_folder, path) = folder();
    let from = path.join("from");
    let store = BTree::create(&from).unwrap();
    let mut transaction = store.write().unwrap();
    for i in 0..2000u64 {
        transaction.main().insert(&ordered(i * 7919 % 2000), &[7; 100]).unwrap();
        transaction.create_table("other").unwrap().insert(&ordered(i), &[8; 20]).unwrap();
    }
    transaction.commit().unwrap();
    let bytes = std::fs::read(&from).unwrap();
    drop(store);
    let mut most = 0;
    for end in (3 * PAGE..bytes.len()).step_by(PAGE / 3) {
        let Ok((found, tables)) = saved(&path, &bytes[..end]) else { continue };
        let values = |name: &str, value: &[u8]| {
            tables.get(name).into_iter().flatten().all(|(key, v)| key.len() == 8 && v == value)
        };
        assert!(values("", &[7; 100]) && values("other", &[8; 20]), "{end}: {found:?}");
        most = most.max(found.records);
    }
    assert!(most > 2000, "{most}");
}

/// A write that never came to the disk, though it said so: the page is whole, and what it was before. It is not for want of
/// its checksum that it does not fit.
#[test]
fn what_a_page_was_before_is_not_saved() {
    let (_folder, path) = folder();
    let from = path.join("from");
    let write = |value: u8| {
        let store = BTree::create(&from).unwrap();
        let mut transaction = store.write().unwrap();
        transaction.main().clear().unwrap();
        transaction.create_table("other").unwrap().clear().unwrap();
        for i in 0..1000u64 {
            let key = ordered(i * 2 + u64::from(value % 2));
            transaction.main().insert(&key, &[value; 20]).unwrap();
            transaction.create_table("other").unwrap().insert(&key, &[value; 9]).unwrap();
        }
        transaction.commit().unwrap();
        drop(store);
        std::fs::read(&from).unwrap()
    };
    let older: Vec<Vec<u8>> = (1..6).map(write).collect();
    let bytes = write(6);
    let (mut lost, mut whole) = (0, 0);
    for older in older {
        for page in 2..older.len().min(bytes.len()) / PAGE {
            let mut bytes = bytes.clone();
            let place = page * PAGE..(page + 1) * PAGE;
            bytes[place.clone()].copy_from_slice(&older[place]);
            let (found, tables) = saved(&path, &bytes).unwrap();
            let is_last = |value: &Vec<u8>| value.iter().all(|byte| *byte == 6);
            assert!(tables.values().flat_map(State::values).all(is_last), "{page}: {found:?}");
            assert_eq!(found.records + found.lost_records, 2000, "{page}: {found:?}");
            assert!(found.lost_records < 400 && found.unchecked_pages == 0, "{page}: {found:?}");
            match found.lost_pages {
                0 => whole += 1,
                _ => lost += 1,
            }
        }
    }
    assert!(lost > 20 && whole > 20, "{lost} {whole}");
}

/// The newest commit counts, the one before if that is not one, and it is said so.
#[test]
fn an_older_commit_is_said_to_be_one() {
    let (_folder, path) = folder();
    let from = path.join("from");
    let store = BTree::create(&from).unwrap();
    for part in 0..3u64 {
        let mut transaction = store.write().unwrap();
        for i in 0..1000 {
            transaction.main().insert(&ordered(part * 1000 + i), &[7; 20]).unwrap();
        }
        transaction.commit().unwrap();
    }
    let open = std::fs::read(&from).unwrap();
    drop(store);
    let records = |bytes: &[u8]| {
        let (found, _) = saved(&path, bytes).unwrap();
        (found.records, found.is_older)
    };
    assert_eq!(records(&open), (3000, false));
    let newest = COMMITS[word(&open, STATE) as usize % 2];
    for at in [newest, newest + 16, newest + 24 + 24] {
        let mut bytes = open.clone();
        bytes[at + 6] ^= 0x40;
        assert_eq!(records(&bytes), (2000, true), "{at}");
    }
    // Closed, so that the commit is durable; but that is damaged, and the machine was started anew.
    let closed = std::fs::read(&from).unwrap();
    let meta = METAS.into_iter().max_by_key(|at| word(&closed, at + 8)).unwrap();
    let mut bytes = closed.clone();
    bytes[meta + 100] ^= 1;
    BTree::reboot(&mut bytes);
    assert_eq!(records(&bytes), (3000, false));
    // All that tells of it is gone, but for the checksums of its pages.
    let mut bytes = closed;
    bytes[1024..2816].fill(0);
    assert_eq!(records(&bytes), (0, true));
}

/// What was appended to the journal is durable, and tells of what comes behind it.
#[test]
fn a_damaged_journal_is_said_to_tell_of_less() {
    const JOURNAL: [usize; 2] = [2408, 2424];
    let (_folder, path) = folder();
    let from = path.join("from");
    let store = BTree::options().create(true).durability(Durability::Sync).open(&from).unwrap();
    let mut transaction = store.write().unwrap();
    for i in 0..20_000 {
        transaction.main().insert(&ordered(i), b"value").unwrap();
    }
    transaction.commit().unwrap();
    // Until there is one.
    for i in 0..12 {
        store.remove(&ordered(i * 1500 + 7)).unwrap();
    }
    let before = std::fs::read(&from).unwrap();
    for i in 0..12 {
        store.remove(&ordered(i * 1500)).unwrap();
    }
    let mut bytes = std::fs::read(&from).unwrap();
    drop(store);
    let mut latest = bytes.clone();
    let [page, end] = JOURNAL.map(|at| word(&bytes, at) as usize);
    assert!(page > 0 && end > 1000, "no journal: {page} {end}");
    // Of what was written since, the journal alone came to the disk.
    let journal = page * PAGE..page * PAGE + end.next_multiple_of(PAGE);
    let appended = bytes[journal.clone()].to_vec();
    let len = before.len().max(journal.end);
    bytes[..before.len()].copy_from_slice(&before);
    bytes.truncate(len);
    bytes[journal.clone()].copy_from_slice(&appended);
    BTree::reboot(&mut bytes);
    let told = |bytes: &[u8]| {
        let (found, _) = saved(&path, bytes).unwrap();
        (found.records, found.is_older)
    };
    let (all, is_older) = told(&bytes);
    assert_eq!((all, is_older), (20_000 - 24, false));
    for at in (journal.start..journal.start + end).step_by(end / 40) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        let (found, is_older) = told(&bytes);
        assert!(found > all && is_older, "{at}: {found} of {all}, {is_older}");
    }
    // If it is said that there was more, the store is not taken back to what is left.
    let opened = |bytes: &[u8]| {
        let copy = path.join("copy");
        write_anew(&copy, bytes);
        BTree::options().read_only(true).open(&copy)?;
        BTree::open(&copy)?.len()
    };
    BTree::reboot(&mut latest);
    assert_eq!(opened(&latest).unwrap(), all);
    for at in (journal.start..journal.start + end).step_by(end / 40) {
        for damage in [None, Some(0), Some(0xa5)] {
            let mut bytes = latest.clone();
            match damage {
                None => bytes[at] ^= 4,
                Some(byte) => bytes[at / 512 * 512..][..512].fill(byte),
            }
            match opened(&bytes) {
                // These were zeros.
                Ok(found) => assert!(found == all && damage == Some(0), "{at}: {found}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("what was durable last is damaged"), "{at}: {error}");
                }
            }
        }
    }
}

/// Whatever else is damaged, the table of pages and what processes share included.
#[test]
fn nothing_is_saved_that_was_not_there() {
    let ((_folder, path), sample) = (folder(), sample(120));
    let (mut some, mut doubted, mut none) = (0, 0, 0);
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
            // What is of an earlier commit was there, and what no checksum was compared with may be anything.
            Ok((found, tables)) if !found.is_older && found.unchecked_pages == 0 => {
                assert!(missing(&sample, &tables) <= 300);
                some += 1;
            }
            Ok(_) => doubted += 1,
            Err(_) => none += 1,
        }
    }
    assert!(some > none + doubted, "{some} {doubted} {none}");
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
