//! Danger: a damaged btree store that answers wrong without anybody finding out, or that opens though
//! part of it is missing.
//!
//! What is promised, and tested here: after a sync or a close, `verify` finds every changed byte in
//! the header, in the durable commit that counts, and in pages in use.

mod common;

use common::btree::fill;
use common::sample::{
    COMMIT_WORDS, COMMITS, META, METAS, PAGE, SESSION, STATE, check_answers, put, sample, try_all,
    word,
};
use common::subject::Subject;
use common::{Rng, is_soak, ordered, rounds, seed, sys, write_anew};
use credenza::btree::BTree;
use credenza::{Durability, ErrorKind};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[test]
fn verify_finds_every_flipped_byte_of_pages_in_use_and_of_the_durable_commit() {
    sys::give_up_after(3000);
    let sample = sample(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut bytes = sample.bytes.clone();
    write_anew(&path, &bytes);
    BTree::open(&path).unwrap().verify(|_, _| ()).unwrap();
    let pages = sample.pages();
    assert!(pages.iter().any(|page| sample.bytes[page * PAGE + 9] > 0), "no inner page");
    let elsewhere = sample.elsewhere();
    assert!(elsewhere.len() > 10, "nothing that is elsewhere");
    let step = if is_soak() { 1 } else { 67 };
    let meta = sample.meta_at();
    let heads = pages.iter().flat_map(|page| page * PAGE..page * PAGE + 64);
    let others = pages.iter().flat_map(|page| page * PAGE + 64..(page + 1) * PAGE).step_by(step);
    let elsewhere = elsewhere.into_iter().flatten().step_by(step);
    let checked = (0..64).chain(meta..meta + META).chain(1920..1992).chain(heads).chain(others);
    let checked = checked.chain(elsewhere);
    let (mut count, step) = (0, if is_soak() { 1 } else { 3 });
    for at in checked.step_by(step) {
        let flip = if at % 2 == 0 { 0xff } else { 1 << (at % 8) };
        bytes[at] ^= flip;
        write_anew(&path, &bytes);
        let found = BTree::open(&path).and_then(|store| store.verify(|_, _| ()));
        assert!(found.is_err(), "byte {at} ^ {flip:#x}: not found");
        bytes[at] ^= flip;
        count += 1;
    }
    println!("{count} bytes");
}

/// Whose pages are taken for others when the file grows.
#[test]
fn verify_finds_blocks_of_the_table_that_are_nowhere() {
    const TABLES: usize = 2816;
    let sample = sample(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let end = word(&sample.bytes, sample.commit_at() + 16);
    for (block, page) in [(10, 64), (28, 1), (3, end), (5, end - 1), (2, u64::MAX)] {
        let mut bytes = sample.bytes.clone();
        let at = TABLES + 8 * block;
        assert_eq!(word(&bytes, at), 0, "block {block} is in use");
        put(&mut bytes, at, page);
        write_anew(&path, &bytes);
        let store = BTree::open(&path).unwrap();
        let found = store.verify(|_, _| ()).map_err(|error| error.to_string());
        assert!(found.as_ref().is_err_and(|text| text.contains("damaged")), "{block}: {found:?}");
    }
}

/// A file that grows does not take pages for a block of the table that damage says are one.
#[test]
fn no_page_is_taken_for_a_block_of_the_table() {
    const TABLES: usize = 2816;
    const BOOT: usize = 2048;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let sample = sample(60);
    for (page, is_new_boot) in sample.pages().into_iter().flat_map(|p| [(p, false), (p, true)]) {
        let mut bytes = sample.bytes.clone();
        for block in 1..4 {
            let at = TABLES + 8 * block;
            if word(&bytes, at) == 0 {
                put(&mut bytes, at, page as u64);
            }
        }
        if is_new_boot {
            bytes[BOOT..BOOT + 16].fill(0x5a);
        }
        write_anew(&path, &bytes);
        let store = BTree::open(&path).unwrap();
        let found = store.verify(|_, _| ()).map_err(|error| error.to_string());
        assert!(is_new_boot || found.is_err_and(|e| e.contains("damaged")), "page {page}");
        let mut transaction = store.write().unwrap();
        for i in 0..600u32 {
            transaction.main().insert(&i.to_le_bytes(), &[7; 4000]).unwrap();
        }
        transaction.commit().unwrap();
        store.verify(|_, _| ()).unwrap();
        assert!(store.stats().unwrap().file_bytes > 512 * PAGE as u64, "the block is in use");
    }
}

/// As long as a store is in use, a durable commit may be in its journal alone.
#[test]
fn verify_finds_every_flipped_byte_of_what_was_appended() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let store = BTree::options().create(true).durability(Durability::Sync).open(&path).unwrap();
    for i in 0..12u8 {
        store.insert(&[i], &vec![i; 90 * usize::from(i)]).unwrap();
    }
    let mut bytes = fs::read(&path).unwrap();
    let newest = METAS.into_iter().max_by_key(|at| word(&bytes, at + 8)).unwrap();
    let journal = word(&bytes, newest + 8 * (COMMIT_WORDS + 1)) as usize * PAGE;
    let mut end = journal;
    while word(&bytes, end + 8) != 0 {
        end += word(&bytes, end + 8) as usize;
    }
    assert!(journal > 0 && end > journal, "nothing was appended");
    let check = |bytes: &[u8], what: &str, is_good: bool| {
        write_anew(&copy, bytes);
        let found = BTree::open(&copy).and_then(|store| store.verify(|_, _| ()));
        assert_eq!(found.is_ok(), is_good, "{what}");
    };
    check(&bytes, "nothing changed", true);
    for at in (journal..end).step_by(if is_soak() { 1 } else { 331 }) {
        bytes[at] ^= 1 << (at % 8);
        check(&bytes, &format!("byte {at}"), false);
        bytes[at] ^= 1 << (at % 8);
    }
}

/// Whoever has every read checked gets no wrong answer, and changes nothing on a damaged page.
#[test]
fn checked_reads_find_every_flipped_byte_that_they_come_by() {
    let sample = sample(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut bytes = sample.bytes.clone();
    let open = || BTree::options().check_reads(true).open(&path);
    let hour = std::time::Duration::from_secs(3600);
    let read_all = |store: &BTree, has_lease: bool| -> credenza::Result<()> {
        let snapshot = if has_lease { store.read_for(hour)? } else { store.read()? };
        for (name, state) in &sample.tables {
            let table = match *name {
                "" => snapshot.main(),
                name => snapshot.table(name)?.unwrap(),
            };
            for (key, value) in state {
                assert_eq!(table.get(key)?, Some(&value[..]), "a wrong answer");
            }
            let mut count = 0;
            table.scan(|key, value| {
                assert_eq!(state.get(key).map(|value| &value[..]), Some(value), "a wrong record");
                count += 1;
                Ok(())
            })?;
            assert_eq!(count, state.len());
        }
        Ok(())
    };
    write_anew(&path, &bytes);
    for has_lease in [false, true] {
        read_all(&open().unwrap(), has_lease).unwrap();
    }
    let step = if is_soak() { 1 } else { 499 };
    let pages = sample.pages();
    let places = pages.iter().flat_map(|page| (page * PAGE..(page + 1) * PAGE).step_by(step));
    let elsewhere = sample.elsewhere();
    let (mut count, mut replaced) = (0, 0);
    for at in places.chain(elsewhere.iter().cloned().flatten().step_by(step)) {
        bytes[at] ^= 1 << (at % 8);
        write_anew(&path, &bytes);
        for has_lease in [false, true] {
            let done = open().and_then(|store| read_all(&store, has_lease));
            let error = done.expect_err("it was not found");
            assert!(error.is_bad_file(), "byte {at}: {error}");
            assert_eq!(error.path(), Some(path.as_path()), "byte {at}: {error}");
        }
        let changed = open().and_then(|store| {
            let mut transaction = store.write()?;
            for (key, _) in sample.tables.iter().flat_map(|(_, state)| state) {
                transaction.main().insert(key, b"new")?;
            }
            transaction.commit()?;
            store.sync()?;
            store.verify(|_, _| ())
        });
        if changed.is_ok() {
            // What was damaged is not there any more: a long value that was replaced.
            assert!(elsewhere.iter().any(|part| part.contains(&at)), "byte {at}");
            let store = open().unwrap();
            let snapshot = store.read().unwrap();
            for (name, state) in &sample.tables {
                for (key, value) in state {
                    assert_eq!(snapshot.main().get(key).unwrap(), Some(&b"new"[..]), "byte {at}");
                    if !name.is_empty() {
                        let table = snapshot.table(name).unwrap().unwrap();
                        assert_eq!(table.get(key).unwrap(), Some(&value[..]), "byte {at}");
                    }
                }
            }
            replaced += 1;
        }
        bytes[at] ^= 1 << (at % 8);
        count += 1;
    }
    // Of every byte, half are those of long values of the main table, which is written anew.
    assert!(count > 50 && (is_soak() || replaced < count / 2), "{count} {replaced}");
}

/// A page that a transaction freed that was given up, or died, has its checksum again when the store
/// is synced; and so have those that another process wrote.
#[test]
fn after_a_sync_every_page_has_its_checksum() {
    let sample = sample(60);
    for way in 0..7 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        write_anew(&path, &sample.bytes);
        let mut store = BTree::open(&path).unwrap();
        let mut transaction = store.write().unwrap();
        transaction.main().insert(&sample.keys[0], b"not kept").unwrap();
        match way {
            0 => drop(transaction),
            1 => {
                // A commit of nothing else.
                let savepoint = transaction.savepoint();
                transaction.main().clear().unwrap();
                transaction.rollback_to(savepoint).unwrap();
                transaction.commit().unwrap();
            }
            // Who comes next writes, or syncs, or opens the store and closes it.
            2..=4 => {
                drop(transaction);
                let mut process = sys::fork(|| {
                    let store = BTree::open(&path).unwrap();
                    let mut transaction = store.write().unwrap();
                    transaction.main().clear().unwrap();
                    // Its death is that of a writer.
                    std::mem::forget(transaction);
                });
                process.wait();
                match way {
                    2 => assert!(!store.insert(b"after", b"").unwrap()),
                    3 => {}
                    _ => {
                        drop(store);
                        store = BTree::open(&path).unwrap();
                    }
                }
            }
            5 => {
                // While it is synced.
                transaction.main().clear().unwrap();
                std::thread::scope(|scope| {
                    scope.spawn(|| store.sync().unwrap());
                });
                drop(transaction);
            }
            _ => {
                drop(transaction);
                let mut process = sys::fork(|| {
                    let store = BTree::open(&path).unwrap();
                    store.insert(b"large", &[7; 1 << 20]).unwrap();
                });
                process.wait();
            }
        }
        let bytes = if way == 4 {
            drop(store);
            fs::read(&path).unwrap()
        } else {
            store.sync().unwrap();
            store.verify(|_, _| ()).unwrap();
            fs::read(&path).unwrap()
        };
        let at = COMMITS[word(&bytes, STATE) as usize % 2];
        let (stamp, end) = (word(&bytes, at + 8), word(&bytes, at + 16) as usize);
        for page in 2..end.min(250) {
            let [birth, freed] = [0, 8].map(|more| word(&bytes, PAGE + 16 * page + more));
            let is_in_use = birth != 0 && birth <= stamp && (freed == 0 || freed >> 63 == 1);
            assert!(!is_in_use || freed >> 63 == 1, "way {way}: page {page} has no checksum");
        }
    }
}

#[test]
fn truncated_files_are_refused() {
    sys::give_up_after(600);
    let sample = sample(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let end = word(&sample.bytes, sample.commit_at() + 16) as usize;
    let pages = (0..sample.bytes.len() / PAGE).map(|page| page * PAGE);
    for len in pages.flat_map(|at| [at, at + 1, at + 100, at + PAGE - 1]) {
        for is_rebooted in [false, true] {
            let mut bytes = sample.bytes[..len].to_vec();
            if is_rebooted && len > SESSION + 16 {
                BTree::reboot(&mut bytes);
            }
            write_anew(&path, &bytes);
            match BTree::open(&path) {
                Ok(store) => {
                    assert!(len >= end * PAGE, "{len} bytes: opens");
                    store.verify(|_, _| ()).unwrap();
                    drop(store);
                    check_answers(&path, &sample, &format!("{len} bytes"));
                }
                Err(error) => {
                    assert!(len < end * PAGE, "{len} bytes: {error}");
                    assert!(error.is_bad_file() && error.path() == Some(&path), "{error}");
                }
            }
        }
    }
}

/// Whatever verify passes is answered right; and what it does not pass is at least no crash.
#[test]
fn random_changes_are_found_or_mean_nothing() {
    sys::limit_memory(2 << 30);
    let sample = sample(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for round in 0..rounds(150) {
        let mut rng = Rng::new(seed(round));
        let mut bytes = sample.bytes.clone();
        for _ in 0..1 + rng.below(6) {
            let at = rng.below(bytes.len() as u64) as usize;
            // The locks stay; and what says whose these are.
            if !(SESSION..COMMITS[0]).contains(&at) {
                bytes[at] = rng.next() as u8;
            }
        }
        let what = format!("seed {}", round + 1);
        if try_all(&path, &sample, &bytes, &mut rng, &what) {
            write_anew(&path, &bytes);
            check_answers(&path, &sample, &what);
        }
    }
}

/// A key with another's tag would not be found, and a program that knows no tags would find other records.
#[test]
fn verify_finds_wrong_tags() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let mut transaction = store.write().unwrap();
    for i in 0..300usize {
        let key = format!("/usr/share/{i:x}/copy");
        transaction.main().insert(key.as_bytes(), &vec![1; i % 9]).unwrap();
    }
    transaction.commit().unwrap();
    // Pages that nobody synced have no checksums.
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let refused = |at: usize, byte: u8, what: &str| {
        file.write_all_at(&[byte], at as u64).unwrap();
        let error = store.verify(|_, _| ()).unwrap_err();
        assert!(error.is_bad_file() && error.to_string().contains(what), "{at}: {error}");
        file.write_all_at(&bytes[at..=at], at as u64).unwrap();
    };
    let number = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let mut tags = 0;
    let is_tagged = |page: &usize| bytes[page + 8] == 1 && bytes[page + 24] == 2;
    for page in (PAGE..bytes.len()).step_by(PAGE).filter(is_tagged) {
        for i in 0..number(page + 10) {
            let at = page + 48 + 4 * number(page + 12) + 2 * i + 1;
            refused(at, bytes[at] ^ 1 << (4 + i % 4), "a tag that is not that of its key");
            tags += 1;
        }
        if number(page + 10) > 1 {
            refused(page + 24, 0, "a tag that is not that of its key");
        }
    }
    assert!(tags >= 300);
    store.verify(|_, _| ()).unwrap();
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    // As stores were that had no copy of it either.
    bytes[16] = 0;
    bytes[28] = 0;
    let sum = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[..56], 0);
    put(&mut bytes, 56, sum);
    write_anew(&path, &bytes);
    let error = BTree::open(&path).unwrap().verify(|_, _| ()).unwrap_err();
    assert!(error.to_string().contains("a leaf with tags in a store that has none"), "{error}");
}

/// Where it is said which commit is durable.
const DURABLE: usize = 2096;

/// Danger: a damaged durable commit, and answers from pages that were written over since the one before it.
#[test]
fn a_commit_that_is_not_whole_any_more_is_not_gone_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let store = BTree::create(&path).unwrap();
    // Of each round values of another length.
    let write = |round: usize| fill(&store, 0..20_000, 30 + round);
    let mut earlier = Vec::new();
    for round in 0..4 {
        if round == 3 {
            earlier = fs::read(&path).unwrap();
        }
        write(round);
        store.sync().unwrap();
    }
    let whole = fs::read(&path).unwrap();
    // What the commit before the durable one needs is in use again.
    write(9);
    let overwritten = fs::read(&path).unwrap();
    drop(store);
    let newest = METAS.into_iter().max_by_key(|at| word(&whole, at + 8)).unwrap();
    let before = METAS.into_iter().map(|at| word(&whole, at + 8)).min().unwrap();
    // Or the power failed while it was written: then nobody said that it was durable.
    let unsaid = |mut bytes: Vec<u8>| {
        put(&mut bytes, DURABLE, before);
        bytes
    };
    // A write that never came to the disk.
    let mut stale = whole.clone();
    stale[newest..newest + META].copy_from_slice(&earlier[newest..newest + META]);
    assert!(stale != whole);
    BTree::reboot(&mut stale);
    write_anew(&copy, &stale);
    let error = BTree::open(&copy).unwrap_err().to_string();
    assert!(error.contains("what was durable last is damaged"), "{error}");
    for (bytes, wrong) in [
        (whole.clone(), Some("what was durable last is damaged")),
        (unsaid(whole), None),
        (unsaid(overwritten), Some("the one before is not whole")),
    ] {
        for at in [Some(0), Some(8), Some(16), Some(24), Some(META - 1), None] {
            let mut bytes = bytes.clone();
            match at {
                Some(at) => bytes[newest + at] ^= 0x10,
                None => bytes[newest..newest + META].fill(0),
            }
            BTree::reboot(&mut bytes);
            write_anew(&copy, &bytes);
            for is_read_only in [true, false] {
                let what = format!("byte {at:?}, {wrong:?}, {is_read_only}");
                let store = BTree::options().read_only(is_read_only).open(&copy);
                match wrong {
                    None => {
                        let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
                        assert_eq!(store.get(&ordered(77)).unwrap().unwrap(), [77; 32], "{what}");
                    }
                    Some(wrong) => {
                        let error = store.map(drop).expect_err(&what);
                        assert!(error.to_string().contains(wrong), "{what}: {error}");
                        assert!(fs::read(&copy).unwrap() == bytes, "{what}: it was written to");
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let refusal = |path: &Path| {
        let error = BTree::open(path).unwrap_err();
        assert_eq!(error.path(), Some(path), "{error}");
        error
    };
    assert!(refusal(&path).to_string().contains("No such file"));
    assert!(refusal(folder.path()).to_string().contains("directory"));
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(refusal(&fifo).to_string().contains("FIFO"));
        BTree::create(&fifo).unwrap_err();
    }
    fs::write(&path, "").unwrap();
    assert!(refusal(&path).to_string().contains("empty"));
    let mut rng = Rng::new(1);
    for bytes in [rng.bytes(100), rng.bytes(20_000), b"\x89CRDNZA\n".to_vec(), vec![0; 3 * PAGE]] {
        write_anew(&path, &bytes);
        assert!(refusal(&path).is_bad_file());
        assert!(BTree::create(&path).unwrap_err().is_bad_file(), "it is not written over");
    }
    // Nor is what begins with zeros, as a store that was never made whole does.
    for (zeros, others) in [(64, 8), (PAGE, 10), (PAGE, PAGE), (1000, 2000)] {
        let bytes = [vec![0; zeros], rng.bytes(others)].concat();
        write_anew(&path, &bytes);
        assert!(BTree::create(&path).unwrap_err().is_bad_file(), "{zeros} zeros are written over");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let sample = sample(10);
    let sealed = |at: usize, byte: u8| {
        let mut bytes = sample.bytes.clone();
        bytes[at] = byte;
        let sum = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[..56], 0);
        put(&mut bytes, 56, sum);
        write_anew(&path, &bytes);
        refusal(&path)
    };
    for (engine, kind) in [(1, "a constant store"), (2, "a hash store"), (9, "engine 9")] {
        let error = sealed(8, engine);
        assert!(matches!(error.kind(), ErrorKind::WrongFormat { .. }), "another engine");
        assert!(error.to_string().contains(kind), "{error}");
    }
    assert!(matches!(sealed(12, 9).kind(), ErrorKind::Unsupported(_)), "a later version");
    assert!(matches!(sealed(28, 4).kind(), ErrorKind::Unsupported(_)), "features");
    assert!(matches!(sealed(0, b'x').kind(), ErrorKind::WrongFormat { .. }), "magic");
    // Neither of the two durable commits is whole.
    let mut bytes = sample.bytes.clone();
    METAS.iter().for_each(|at| bytes[at + 8] ^= 1);
    BTree::reboot(&mut bytes);
    write_anew(&path, &bytes);
    assert!(refusal(&path).is_bad_file());
}
