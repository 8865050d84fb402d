//! Tests: snapshots whose lease comes to an end while others write.
//!
//! Danger: a reader that is given what is in none of its tables, since its pages are another's
//! meanwhile; one that is sent away before its time, or keeps space when that is over; and one without
//! a lease that is taken for one that has it. The clock is the test's own, so that it is known of every
//! answer whether it has to be an error.

use super::handle::{BTree, OpenOptions};

use super::random::Rng;
use super::snapshot::Snapshot;
use super::table::Table;
use crate::os::lease::hooks::{do_between, set_clock, set_clock_to};
use crate::{ErrorKind, Result};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn is_expired<T>(found: &Result<T>) -> bool {
    matches!(found.as_ref().map_err(|e| e.kind()), Err(ErrorKind::Expired { .. }))
}

/// Some keys are too long for a page.
fn key(i: u64) -> Vec<u8> {
    let mut key = format!("{i:04}").into_bytes();
    key.resize([4, 9, 600][i as usize % 3], b'k');
    key
}

fn value(rng: &mut Rng, longest: u64) -> Vec<u8> {
    let len = [8, 8, 100, 600, 3000, longest][rng.below(6) as usize];
    let mut value = vec![rng.below(256) as u8; len as usize];
    value[..8].copy_from_slice(&rng.below(u64::MAX).to_le_bytes());
    value
}

fn put_all(store: &BTree, byte: u8) {
    let mut transaction = store.write().unwrap();
    for i in 0..60 {
        transaction.main().insert(&key(i), &[byte; 700]).unwrap();
    }
    transaction.create_table("table").unwrap().insert(b"key", &[byte]).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_lease_ends_with_its_last_millisecond_and_not_before_somebody_writes() {
    set_clock(1000);
    let store = BTree::in_memory().unwrap();
    put_all(&store, 1);
    let leased = store.read_for(Duration::from_millis(500)).unwrap();
    let later = store.read_for(Duration::from_micros(500_001)).unwrap();
    let endless = store.read_for(Duration::MAX).unwrap();
    let readers = store.stats().unwrap().readers;
    assert!(readers.is_empty(), "who reads the newest commit holds nothing: {readers:?}");
    set_clock(1499);
    put_all(&store, 2);
    let readers = store.stats().unwrap().readers;
    let mut times: Vec<_> = readers.iter().map(|r| (r.age_ms, r.lease_ms, r.left_ms)).collect();
    times.sort_unstable();
    assert_eq!(times[..2], [(499, Some(500), Some(1)), (499, Some(501), Some(2))]);
    assert!(times[2].2 > Some(1 << 60) && readers[0].held_bytes > 0, "{readers:?}");
    assert_eq!(leased.main().get(&key(7)).unwrap(), Some(&[1; 700][..]));
    set_clock(1500);
    // It is over, but nobody needs the space.
    assert_eq!(leased.main().get(&key(8)).unwrap(), Some(&[1; 700][..]));
    let held = leased.main().get(&key(9)).unwrap();
    let table = leased.table("table").unwrap().unwrap();
    put_all(&store, 3);
    put_all(&store, 4);
    let main = leased.main();
    assert!(is_expired(&main.get(&key(8))) && is_expired(&main.get(&key(1))));
    assert!(is_expired(&main.scan(|_, _| panic!("a record"))) && is_expired(&main.count_range(..)));
    assert!(is_expired(&main.estimate_range(..)) && is_expired(&main.first()));
    assert!(
        is_expired(&main.iter().next().unwrap()) && is_expired(&main.iter().next_back().unwrap())
    );
    assert!(is_expired(&main.get_many(&[key(1)], |_, _| panic!("a value"))));
    assert!(is_expired(&leased.tables()) && is_expired(&leased.table("table")));
    assert!(is_expired(&leased.multi_table("table")) && is_expired(&table.get(b"key")));
    let text = main.get(b"key").unwrap_err().to_string();
    assert!(text.contains("expired: the lease of 0.5 seconds is over"), "{text}");
    assert_eq!(held, Some(&[1; 700][..]), "what was got stays");
    assert_eq!(later.main().get(&key(8)).unwrap(), Some(&[1; 700][..]));
    drop(leased);
    set_clock(u64::MAX >> 2);
    put_all(&store, 5);
    assert!(is_expired(&later.main().get(&key(8))));
    for i in 0..60 {
        assert_eq!(endless.main().get(&key(i)).unwrap(), Some(&[1; 700][..]));
    }
    assert_eq!(store.stats().unwrap().readers.len(), 1);
}

/// Clocks go by parts of a millisecond: the one in which a lease begins is not taken from its time.
#[test]
fn a_lease_is_not_over_before_its_time() {
    let store = BTree::in_memory().unwrap();
    let at = |ns| set_clock_to(Duration::from_millis(7) + Duration::from_nanos(ns));
    for (begin, lease) in [(1, 1), (999_999, 1), (500_000, 2_000_000), (0, 1_000_000), (7, 0)] {
        at(begin);
        put_all(&store, 1);
        let leased = store.read_for(Duration::from_nanos(lease)).unwrap();
        at(begin + lease.saturating_sub(1));
        put_all(&store, 2);
        put_all(&store, 3);
        let found = leased.main().get(&key(3));
        assert_eq!(is_expired(&found), lease == 0, "{lease} ns from {begin}: {found:?}");
        // But hardly later.
        at(begin + lease + 2_000_000);
        put_all(&store, 2);
        assert!(is_expired(&leased.main().get(&key(3))), "{lease} ns from {begin}");
    }
}

#[test]
fn a_lease_that_is_renewed_ends_when_it_was_renewed_to() {
    set_clock(1000);
    let store = BTree::in_memory().unwrap();
    put_all(&store, 1);
    let long = Duration::from_millis(100);
    let [renewed, shortened, late, taken] = [(); 4].map(|()| store.read_for(long).unwrap());
    let unleased = store.read().unwrap();
    set_clock(1060);
    renewed.renew(long).unwrap();
    shortened.renew(Duration::from_millis(20)).unwrap();
    unleased.renew(Duration::ZERO).unwrap();
    set_clock(1079);
    put_all(&store, 2);
    assert_eq!(shortened.main().get(&key(1)).unwrap(), Some(&[1; 700][..]));
    let mut leases: Vec<_> = store.stats().unwrap().readers.iter().map(|r| r.lease_ms).collect();
    leases.sort_unstable();
    assert_eq!(leases, [None, Some(80), Some(100), Some(100), Some(160)]);
    set_clock(1080);
    put_all(&store, 3);
    assert!(is_expired(&shortened.main().get(&key(1))));
    set_clock(1100);
    // It is over, and nobody has needed the space yet.
    late.renew(Duration::from_millis(50)).unwrap();
    put_all(&store, 4);
    assert!(is_expired(&taken.renew(long)) && is_expired(&taken.main().get(&key(1))));
    let text = shortened.renew(Duration::MAX).unwrap_err().to_string();
    assert!(text.contains("the lease of 0.08 seconds is over"), "{text}");
    set_clock(1149);
    put_all(&store, 5);
    for held in [&renewed, &late, &unleased] {
        assert_eq!(held.main().get(&key(1)).unwrap(), Some(&[1; 700][..]));
    }
    set_clock(1160);
    put_all(&store, 6);
    let text = renewed.main().get(&key(1)).unwrap_err().to_string();
    assert!(text.contains("the lease of 0.16 seconds is over"), "{text}");
    assert!(is_expired(&late.main().get(&key(1))) && is_expired(&late.renew(long)));
    assert_eq!(unleased.main().get(&key(1)).unwrap(), Some(&[1; 700][..]));
}

/// Who reads for long renews his lease as he goes on, and is not sent away though others write.
#[test]
fn a_scan_renews_its_lease() {
    set_clock(1000);
    let store = BTree::in_memory().unwrap();
    put_all(&store, 1);
    for is_renewed in [true, false] {
        let (mut now, mut seen) = (1000, 0);
        set_clock(now);
        let leased = store.read_for(Duration::from_millis(10)).unwrap();
        let scanned = leased.main().scan(|_, value| {
            assert_eq!(value, [1; 700]);
            now += 9;
            set_clock(now);
            put_all(&store, 2);
            seen += 1;
            if is_renewed { leased.renew(Duration::from_millis(10)) } else { Ok(()) }
        });
        assert_eq!(is_expired(&scanned), !is_renewed, "{scanned:?}");
        assert!(if is_renewed { seen == 60 } else { seen < 60 }, "{seen} records");
        put_all(&store, 1);
    }
}

/// A reader is stopped between a copy and the look at his pin, each time at another copy, until all is
/// written over.
#[test]
fn what_is_written_over_between_a_copy_and_the_look_is_not_believed() {
    for is_checked in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions::new().create(true).check_reads(is_checked);
        let store = options.open(folder.path().join("store")).unwrap();
        let mut expired = 0;
        // Before a copy and after it.
        for stop in (0..80u64).step_by(3) {
            put_all(&store, 1);
            store.sync().unwrap();
            let leased = store.read_for(Duration::ZERO).unwrap();
            let is_done = Rc::new(Cell::new(false));
            stop_at(stop, store.clone(), Rc::clone(&is_done));
            let mut seen = 0;
            let scanned = leased.main().scan(|_, value| {
                assert_eq!(value, [1; 700], "copy {stop}");
                seen += 1;
                Ok(())
            });
            do_between(|| ());
            match is_done.get() {
                true => assert!(is_expired(&scanned), "copy {stop}: {scanned:?}"),
                false => assert!(scanned.is_ok() && seen == 60, "copy {stop}: {scanned:?}"),
            }
            expired += u64::from(is_done.get());
        }
        assert!(expired > 10, "{expired} reads were disturbed");
    }
}

/// Has everything written over when so many copies more were made.
fn stop_at(copies: u64, store: BTree, is_done: Rc<Cell<bool>>) {
    do_between(move || {
        if copies > 0 {
            return stop_at(copies - 1, store.clone(), Rc::clone(&is_done));
        }
        for byte in 2..7 {
            let mut transaction = store.write().unwrap();
            transaction.main().clear().unwrap();
            transaction.commit().unwrap();
            put_all(&store, byte);
            store.sync().unwrap();
        }
        is_done.set(true);
    });
}

/// A file that is cut off under a reader is no damage, nor the end of its process.
#[test]
fn what_is_cut_off_under_a_reader_is_expired() {
    for is_checked in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = || OpenOptions::new().create(true).check_reads(is_checked);
        let (store, other) = (options().open(&path).unwrap(), options().open(&path).unwrap());
        let compacted = store.clone();
        let fill = move |byte: u8, count: u64| {
            let mut transaction = store.write().unwrap();
            transaction.main().clear().unwrap();
            for i in 0..count {
                transaction.main().insert(&key(i), &vec![byte; 9000]).unwrap();
            }
            transaction.commit().unwrap();
            store.sync().unwrap();
        };
        fill(1, 500);
        let leased = other.read_for(Duration::ZERO).unwrap();
        assert_eq!(leased.main().get(&key(0)).unwrap(), Some(&[1; 9000][..]));
        let full = std::fs::metadata(&path).unwrap().len();
        do_between(move || {
            fill(2, 1);
            while compacted.compact(u64::MAX).unwrap() {}
        });
        let found = leased.main().get(&key(499));
        assert!(is_expired(&found), "{found:?}");
        assert!(std::fs::metadata(&path).unwrap().len() < full / 10);
        assert!((0..500).all(|i| is_expired(&leased.main().get(&key(i)))));
    }
}

/// A slot that a reader with a lease left, or that was taken from one, is as any other.
#[test]
fn who_gets_the_slot_of_an_expired_reader_keeps_it() {
    set_clock(1000);
    let store = BTree::in_memory().unwrap();
    put_all(&store, 1);
    for turn in 0..12u64 {
        let leased = store.read_for(Duration::from_millis(turn % 3)).unwrap();
        if turn % 2 == 0 {
            set_clock(1000 + 10 * turn);
            put_all(&store, 2);
        }
        drop(leased);
        let byte = 10 + turn as u8;
        put_all(&store, byte);
        let held = store.read().unwrap();
        set_clock(1000 + 10 * turn + 5);
        for _ in 0..5 {
            put_all(&store, 3);
        }
        for i in 0..60 {
            assert_eq!(held.main().get(&key(i)).unwrap(), Some(&[byte; 700][..]), "turn {turn}");
        }
    }
}

/// Who reads much under a lease does not get a copy of all of it.
#[test]
fn a_scan_keeps_no_copies() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    for i in 0..3000u64 {
        let len = if i == 700 { 3 << 20 } else { 1000 };
        transaction.main().insert(&key(i), &vec![i as u8; len]).unwrap();
    }
    transaction.commit().unwrap();
    let mut leased = store.read_for(Duration::from_secs(1)).unwrap();
    let mut next = 0;
    leased
        .main()
        .scan(|found, value| {
            assert!(found == key(next) && value.iter().all(|byte| *byte == next as u8));
            next += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!((next, leased.main().count_range(..).unwrap()), (3000, 3000));
    assert!(!leased.source().is_full());
    for i in 0..3000 {
        assert_eq!(leased.main().get(&key(i)).unwrap().unwrap()[0], i as u8);
    }
    assert!(leased.source().is_full());
    leased.release_memory();
    assert!(!leased.source().is_full());
    assert_eq!(leased.main().get(&key(2999)).unwrap(), Some(&[2999u64 as u8; 1000][..]));
}

/// What a snapshot should be of, and whether it has to say that it expired.
struct Held<'s> {
    snapshot: Snapshot<'s>,
    map: Rc<Map>,
    /// When its lease is over.
    end: Option<u64>,
    is_taken: bool,
}

impl Held<'_> {
    /// Reads something, and compares it.
    fn look(&self, rng: &mut Rng) {
        let keys = [key(rng.below(200)), key(rng.below(200))];
        let (from, to) =
            (&keys[0].clone().min(keys[1].clone()), &keys[0].clone().max(keys[1].clone()));
        let (table, map) = (self.snapshot.main(), &*self.map);
        let within = || map.range(from.clone()..to.clone()).map(own);
        match rng.below(9) {
            0 => self.same(table.get(from), map.get(from).map(|value| &value[..])),
            1 => self.same(scanned(table), map.clone()),
            2 => self.same(table.range(&from[..]..&to[..]).collect(), within().collect::<Vec<_>>()),
            3 => {
                let all = table.range(&from[..]..&to[..]).rev().collect();
                self.same(all, within().rev().collect::<Vec<_>>());
            }
            4 => self.same(table.count_range(&from[..]..&to[..]), within().count() as u64),
            5 => self.same(table.count_range(..), map.len() as u64),
            6 => self.same(table.last(), map.iter().next_back().map(own)),
            7 => {
                let mut found = vec![None; 2];
                let got = table.get_many(&keys, |i, value| found[i] = value.map(<[u8]>::to_vec));
                let wanted = keys.iter().map(|key| map.get(key).cloned()).collect();
                self.same(got.map(|()| found), wanted);
            }
            _ => {
                let found =
                    self.snapshot.table("table").map(|table| table.map(|table| table.len()));
                self.same(found, Some(map.len() as u64));
            }
        }
    }

    /// Asks for more time, or less.
    fn renew(&mut self, lease: u64, now: u64) {
        let renewed = self.snapshot.renew(Duration::from_millis(lease));
        self.same(renewed, ());
        if self.end.is_some() && !self.is_taken {
            self.end = Some(now + lease);
        }
    }

    fn same<T: PartialEq + std::fmt::Debug>(&self, found: Result<T>, wanted: T) {
        if self.is_taken {
            assert!(is_expired(&found), "expired, but {found:?}");
        } else {
            let found = found.unwrap();
            assert!(found == wanted, "not what its commit has: {found:?}");
        }
    }
}

fn own<'m>((key, value): (&'m Vec<u8>, &'m Vec<u8>)) -> (Vec<u8>, &'m [u8]) {
    (key.clone(), &value[..])
}

fn scanned(table: Table<'_>) -> Result<Map> {
    let mut map = Map::new();
    table.scan(|key, value| {
        map.insert(key.to_vec(), value.to_vec());
        Ok(())
    })?;
    Ok(map)
}

/// Whatever is written, synced, compacted and cut off: a snapshot is what its commit was, or it is
/// over, somebody wrote since, and it says so.
#[test]
fn snapshots_are_what_they_were_or_say_that_they_expired() {
    let set = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match set("CREDENZA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + set("CREDENZA_TIMES").unwrap_or(1) * 3,
    };
    let mut looks = [0, 0];
    for seed in seeds {
        println!("CREDENZA_SEED={seed}");
        let counts = course(&mut Rng::new(seed), seed);
        looks = [looks[0] + counts[0], looks[1] + counts[1]];
    }
    println!("{} looks at what is held, {} at what expired", looks[0], looks[1]);
    assert!(looks[0].min(looks[1]) > 2);
}

/// How many looks there were at snapshots that are held, and at such that expired.
fn course(rng: &mut Rng, seed: u64) -> [u64; 2] {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().create(true).check_reads(seed.is_multiple_of(2));
    let store = options.open(folder.path().join("store")).unwrap();
    let longest = [2000, 5000, 60_000][seed as usize % 3];
    let (mut now, mut map, mut held) = (1000, Rc::new(Map::new()), Vec::new());
    change(&store, rng, longest, Rc::make_mut(&mut map));
    let mut counts = [0u64; 2];
    for _ in 0..600 {
        set_clock(now);
        let action = rng.below(13);
        match action {
            0..=3 => change(&store, rng, longest, Rc::make_mut(&mut map)),
            4 if rng.below(4) == 0 => drop(store.compact(1 << 16).unwrap()),
            4 => store.sync().unwrap(),
            // Nobody's space is needed yet.
            5 => drop(store.write().unwrap()),
            6 => now += rng.below(40),
            7 if held.len() < 12 => held.push(take(&store, rng, now, &map)),
            8 if !held.is_empty() => drop(held.swap_remove(rng.below(held.len() as u64) as usize)),
            9 => held.iter_mut().for_each(|held: &mut Held<'_>| held.snapshot.release_memory()),
            10 if !held.is_empty() && rng.below(3) == 0 => {
                let i = rng.below(held.len() as u64) as usize;
                held[i].renew(rng.below(60), now);
            }
            _ => {
                for held in &held {
                    held.look(rng);
                    counts[usize::from(held.is_taken)] += 1;
                }
            }
        }
        if action <= 5 {
            held.iter_mut()
                .for_each(|held| held.is_taken |= held.end.is_some_and(|end| end <= now));
        }
    }
    drop(held);
    store.verify(|_, _| ()).unwrap();
    counts
}

fn take<'s>(store: &'s BTree, rng: &mut Rng, now: u64, map: &Rc<Map>) -> Held<'s> {
    let lease = rng.below(60);
    let (snapshot, end) = match rng.below(3) {
        0 => (store.read().unwrap(), None),
        _ => (store.read_for(Duration::from_millis(lease)).unwrap(), Some(now + lease)),
    };
    Held { snapshot, map: Rc::clone(map), end, is_taken: false }
}

/// Changes some records; the other table has as many.
fn change(store: &BTree, rng: &mut Rng, longest: u64, map: &mut Map) {
    let mut transaction = store.write().unwrap();
    let mut main = transaction.main();
    if rng.below(30) == 0 {
        main.clear().unwrap();
        map.clear();
    }
    for _ in 0..rng.below(30) {
        let key = key(rng.below(200));
        if rng.below(4) == 0 {
            main.remove(&key).unwrap();
            map.remove(&key);
        } else {
            let value = value(rng, longest);
            main.insert(&key, &value).unwrap();
            map.insert(key, value);
        }
    }
    let mut table = transaction.create_table("table").unwrap();
    table.clear().unwrap();
    for key in map.keys() {
        table.insert(key, b"").unwrap();
    }
    transaction.commit().unwrap();
}
