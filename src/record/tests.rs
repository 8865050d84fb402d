//! Danger: what is read is not what was recorded, or bytes that nobody recorded are taken for a trace.

use super::entry::{KeyRef, Written};
use super::session::{Session, Wanted};
use super::*;
use crate::stats::{Operation, Outcome};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A small generator; the same seed gives the same numbers for ever.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

const OUTCOMES: [Outcome; 5] =
    [Outcome::Hit, Outcome::Miss, Outcome::Done, Outcome::Unchanged, Outcome::Failed];

/// Says the seed, and does this with it.
fn with_seeds(rounds: u64, each: impl Fn(&mut Rng)) {
    let set = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match set("CREDENZA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..set("CREDENZA_TIMES").unwrap_or(1) * rounds + 1,
    };
    for seed in seeds {
        println!("CREDENZA_SEED={seed}");
        each(&mut Rng::new(seed));
    }
}

fn session(path: &Path, is_hashed: bool) -> Arc<Session> {
    Arc::new(Session::open(path, wanted(is_hashed), false).unwrap())
}

fn wanted(is_hashed: bool) -> Wanted {
    Wanted { is_hashed, limit: None, secret: Some((1, 2)) }
}

/// Something that could have been recorded, and its key.
fn entry(rng: &mut Rng, stores: u32) -> (Written<'static>, Option<Vec<u8>>) {
    let action = match rng.below(15) {
        12 => Action::Begin,
        13 => Action::Key,
        14 => Action::Count,
        n => Action::Operation(Operation::ALL[n as usize]),
    };
    let number = |rng: &mut Rng| rng.next() >> rng.below(56);
    let key = match rng.below(8) {
        0 => None,
        1 => Some(vec![7; rng.below(3) as usize * 4096]),
        _ => Some((0..rng.below(40)).map(|_| rng.next() as u8).collect()),
    };
    let outcome = OUTCOMES[rng.below(5) as usize];
    let (value_len, items) = (number(rng), number(rng));
    let store = rng.below(u64::from(stores)) as u32 + 1;
    let key_ref = KeyRef::None;
    (Written { time: 0, store, action, outcome, key: key_ref, value_len, items }, key)
}

/// What reading a recorded entry must give.
fn check(found: &Entry, (wrote, key): &(Written<'static>, Option<Vec<u8>>), is_hashed: bool) {
    assert_eq!((found.action, found.outcome), (wrote.action, wrote.outcome));
    assert_eq!((found.store, found.value_len), (wrote.store, wrote.value_len));
    assert!(found.items == wrote.items || found.items == 0, "{found:?}");
    match (&found.key, key) {
        (None, None) => {}
        (Some(Key::Plain(found)), Some(key)) => assert!(found == key && !is_hashed),
        (Some(Key::Hashed { len, .. }), Some(key)) => {
            assert_eq!(*len, key.len() as u64);
            assert!(is_hashed || key.len() > 4096);
        }
        (found, key) => panic!("{found:?} for {key:?}"),
    }
}

#[test]
fn what_is_read_is_what_was_recorded() {
    with_seeds(20, |rng| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let is_hashed = rng.below(3) == 0;
        let session = session(&path, is_hashed);
        assert_eq!(session.define("hash", Path::new("/a"), ""), 1);
        assert_eq!(session.define("btree", Path::new(""), "of this name"), 2);
        let threads = rng.below(4) + 1;
        let record = |mut rng: Rng| {
            let mut wrote = Vec::new();
            let mut time = session::now();
            for _ in 0..rng.below(6000) {
                // Now and then back: an operation within an operation ends before it.
                time = time.wrapping_add(rng.below(1000)).wrapping_sub(rng.below(100));
                let (entry, key) = entry(&mut rng, 2);
                session.record(time, key.as_deref(), entry);
                wrote.push((entry, key));
                if rng.below(1000) == 0 {
                    session.flush();
                }
            }
            wrote
        };
        let wrote: Vec<Vec<_>> = std::thread::scope(|scope| {
            let rngs: Vec<Rng> = (0..threads).map(|_| Rng::new(rng.next())).collect();
            let all: Vec<_> = rngs.into_iter().map(|rng| scope.spawn(|| record(rng))).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // Threads are joined, but the last of their buffers may still be on its way.
        session.end();
        let trace = Trace::open(&path).unwrap();
        assert_eq!((trace.is_hashed(), trace.missing(), trace.stopped()), (is_hashed, 0, None));
        let [a, b] = trace.stores() else { panic!("{:?}", trace.stores()) };
        assert_eq!((a.number, &*a.engine, &*a.path), (1, "hash", Path::new("/a")));
        assert_eq!((b.number, &*b.table, &*b.path), (2, "of this name", Path::new("")));
        let mut of_thread: BTreeMap<u32, Vec<Entry>> = BTreeMap::new();
        let mut count = 0;
        for found in trace.entries() {
            let found = found.unwrap();
            count += 1;
            of_thread.entry(found.thread).or_default().push(found);
        }
        assert_eq!(count, trace.len());
        let mut found: Vec<Vec<Entry>> = of_thread.into_values().collect();
        let mut wrote: Vec<_> = wrote.into_iter().filter(|all| !all.is_empty()).collect();
        // Which thread had which number is not known.
        found.sort_by_key(|all| (all.len(), all[0].value_len));
        wrote.sort_by_key(|all| (all.len(), all[0].0.value_len));
        assert_eq!(found.len(), wrote.len());
        for (found, wrote) in found.iter().zip(&wrote) {
            assert_eq!(found.len(), wrote.len());
            found.iter().zip(wrote).for_each(|(found, wrote)| check(found, wrote, is_hashed));
        }
    });
}

#[test]
fn threads_are_read_in_the_order_of_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let session = session(&path, false);
    session.define("hash", Path::new("/a"), "");
    let base = session::now();
    for thread in 0..3 {
        let session = &session;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for i in 0..5000 {
                    let (entry, _) = entry(&mut Rng::new(i), 1);
                    session.record(base + i * 30 + thread * 10, None, entry);
                }
                session.flush();
            });
        });
    }
    let trace = Trace::open(&path).unwrap();
    let times: Vec<u64> = trace.entries().map(|entry| entry.unwrap().time).collect();
    assert!(times.len() == 15_000 && times.is_sorted());
}

/// A trace with two stores and entries of every action.
fn small(path: &Path) -> Vec<Entry> {
    let session = session(path, false);
    session.define("hash", Path::new("/some/where"), "");
    session.define("btree", Path::new("/some/where/else"), "names");
    let mut rng = Rng::new(5);
    for i in 0..60 {
        let (entry, key) = entry(&mut rng, 2);
        let key = key.filter(|key| key.len() < 100);
        session.record(session::now(), key.as_deref(), entry);
        if i % 20 == 19 {
            session.flush();
        }
    }
    session.end();
    Trace::open(path).unwrap().entries().collect::<crate::Result<_>>().unwrap()
}

/// Opens and reads all of these bytes.
fn read(path: &PathBuf, bytes: &[u8]) -> crate::Result<(Vec<Entry>, u64)> {
    std::fs::write(path, bytes).unwrap();
    let trace = Trace::open(path)?;
    let entries = trace.entries().collect::<crate::Result<_>>()?;
    Ok((entries, trace.missing()))
}

#[test]
fn a_trace_that_is_cut_off_is_a_shorter_one_or_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let all = small(&dir.path().join("trace"));
    let bytes = std::fs::read(dir.path().join("trace")).unwrap();
    let path = dir.path().join("cut");
    let mut lens = std::collections::BTreeSet::new();
    for len in 0..bytes.len() {
        match read(&path, &bytes[..len]) {
            Ok((entries, missing)) => {
                assert!(missing > 0 && all.starts_with(&entries), "{len}");
                lens.insert(entries.len());
            }
            Err(e) => assert!(len < format::HEAD_BYTES && e.is_bad_file(), "{len}: {e}"),
        }
    }
    assert_eq!(lens.into_iter().collect::<Vec<_>>(), [0, 20, 40]);
    // What is behind the end is nothing: a process was killed while it wrote.
    let longer = [&bytes[..], b"half a block"].concat();
    assert_eq!(read(&path, &longer).unwrap(), (all, 0));
    // It is counted all the same: a second trace would be lost without a word.
    assert_eq!(Trace::open(&path).unwrap().behind(), 12);
    assert_eq!(Trace::open(dir.path().join("trace")).unwrap().behind(), 0);
}

#[test]
fn every_flipped_byte_is_found_and_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    small(&dir.path().join("trace"));
    let bytes = std::fs::read(dir.path().join("trace")).unwrap();
    let path = dir.path().join("flipped");
    for at in 0..bytes.len() {
        for flip in [1, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let error = read(&path, &damaged).expect_err("a flipped byte");
            assert!(error.is_bad_file(), "{at}: {error}");
            assert!(error.to_string().contains("flipped"), "{at}: {error}");
        }
    }
}

#[test]
fn any_bytes_under_right_checksums_give_a_trace_or_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    with_seeds(300, |rng| {
        let _ = std::fs::remove_file(&path);
        let session = session(&path, false);
        session.define("hash", Path::new("/a"), "");
        drop(session);
        let bytes = std::fs::read(&path).unwrap();
        let fixed = format::Fixed::read(&bytes).unwrap();
        let body: Vec<u8> = (0..rng.below(60)).map(|_| rng.next() as u8 >> rng.below(8)).collect();
        let head = format::BlockHead {
            content: if rng.below(4) == 0 {
                format::Content::Store
            } else {
                format::Content::Entries
            },
            len: 0,
            count: rng.below(8) as u32,
            process: 1,
            thread: 1,
            time: rng.next(),
            sum: 0,
        };
        let block = head.block(&body);
        let state = format::State {
            end: (bytes.len() + block.len()) as u64,
            stores: rng.below(3) as u32,
            blocks: 2,
            entries: if head.content == format::Content::Entries { head.count.into() } else { 0 },
            stopped: None,
        };
        let made = [&fixed.to_bytes()[..], &state.to_bytes(), &bytes[192..], &block].concat();
        if let Err(e) = read(&path, &made) {
            assert!(e.is_bad_file(), "{e}");
        }
    });
}

#[test]
fn what_is_no_trace_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    for other in [&b""[..], b"\x89CRDNZ", b"text", b"\x89CRDNZS\n and more", &[0; 300]] {
        let error = read(&path, other).unwrap_err();
        assert!(error.is_bad_file(), "{error}");
        assert!(!Trace::is_trace(&path));
    }
    assert!(Trace::open(dir.path()).is_err() && Trace::open(dir.path().join("none")).is_err());
    let later = session(&dir.path().join("later"), false);
    drop(later);
    let mut bytes = std::fs::read(dir.path().join("later")).unwrap();
    bytes[8] = 2;
    assert!(read(&path, &bytes).unwrap_err().to_string().contains("version 2"));
    assert!(Trace::is_trace(&path));
}

#[test]
fn a_trace_is_not_mixed_with_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let one = session(&path, false);
    let open = |is_hashed, may_continue| Session::open(&path, wanted(is_hashed), may_continue);
    assert!(open(false, false).is_err() && open(true, true).is_err());
    // Another process continues it, with numbers of its own.
    let other = Arc::new(open(false, true).unwrap());
    assert_eq!((one.define("hash", &path, ""), other.define("hash", &path, "")), (1, 2));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, b"somebody else's file").unwrap();
    assert_eq!(one.define("hash", &path, ""), 0);
    assert!(one.is_over());
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody else's file");
}

/// Danger: some keys of a trace are hashed and others are not, or its times are those of two clocks.
#[test]
fn a_trace_is_continued_as_it_was_begun_and_by_the_same_clock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let open = |is_hashed, may_continue| {
        Session::open(&path, Wanted { secret: Some((1, 2)), ..wanted(is_hashed) }, may_continue)
    };
    let refused = |is_hashed| open(is_hashed, true).err().map(|e| e.to_string()).unwrap();
    for is_hashed in [false, true] {
        drop(open(is_hashed, false).unwrap());
        assert!(open(is_hashed, true).is_ok());
        let error = refused(!is_hashed);
        assert!(error.contains("hashed, or are not"), "{error}");
        let mut bytes = std::fs::read(&path).unwrap();
        let fixed = format::Fixed::read(&bytes).unwrap();
        let fixed = format::Fixed { boot: !fixed.boot, ..fixed };
        bytes[..128].copy_from_slice(&fixed.to_bytes());
        std::fs::write(&path, bytes).unwrap();
        let error = refused(is_hashed);
        assert!(error.contains("before the machine was started"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}

/// Danger: each process hashes with a secret of its own, and one key of the trace is many.
#[test]
fn a_key_has_one_hash_in_a_trace_whoever_continues_it() {
    let dir = tempfile::tempdir().unwrap();
    let long = [7; 5000];
    for (name, is_hashed, first, then, may) in [
        ("drawn", true, None, None, false),
        ("drawn and named", true, None, Some((1, 2)), false),
        ("named", true, Some((1, 2)), Some((1, 2)), true),
        ("another", true, Some((1, 2)), Some((2, 2)), false),
        ("named and not", true, Some((1, 2)), None, false),
        ("plain", false, None, None, true),
        ("plain, named", false, Some((1, 2)), Some((1, 2)), true),
        ("plain, named and not", false, Some((1, 2)), None, false),
    ] {
        let path = dir.path().join(name);
        let open = |secret, may_continue| {
            Session::open(&path, Wanted { secret, ..wanted(is_hashed) }, may_continue)
        };
        let sessions = [open(first, false), open(then, true)];
        if let Some(e) = sessions[1].as_ref().err() {
            assert!(!may && e.to_string().contains("CREDENZA_RECORD_SECRET"), "{name}: {e}");
            continue;
        }
        for session in sessions.map(|session| Arc::new(session.unwrap())) {
            session.define("hash", Path::new("/a"), "");
            let (written, _) = entry(&mut Rng::new(1), 1);
            session.record(session::now(), Some(&long), written);
            session.flush();
        }
        let trace = Trace::open(&path).unwrap();
        let keys: Vec<_> = trace.entries().map(|entry| entry.unwrap().key.unwrap()).collect();
        assert!(may && keys.len() == 2 && keys[0] == keys[1], "{name}: {keys:?}");
    }
    // What earlier programs began has nothing to compare with.
    let path = dir.path().join("earlier");
    for (is_hashed, secret, may) in
        [(true, None, false), (true, Some((1, 2)), true), (false, None, true)]
    {
        let _ = std::fs::remove_file(&path);
        drop(session(&path, is_hashed));
        let mut bytes = std::fs::read(&path).unwrap();
        let fixed = format::Fixed { check: 0, ..format::Fixed::read(&bytes).unwrap() };
        bytes[..128].copy_from_slice(&fixed.to_bytes());
        std::fs::write(&path, bytes).unwrap();
        let opened = Session::open(&path, Wanted { secret, ..wanted(is_hashed) }, true);
        assert_eq!(opened.is_ok(), may, "{is_hashed} {secret:?}");
    }
}

#[test]
fn a_trace_has_no_more_bytes_than_it_may_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let limit = 3000;
    let with = |limit| Wanted { limit, ..wanted(false) };
    let session = Arc::new(Session::open(&path, with(Some(limit)), false).unwrap());
    session.define("hash", Path::new("/a"), "");
    let mut rng = Rng::new(3);
    for _ in 0..1000 {
        let (entry, _) = entry(&mut rng, 1);
        session.record(session::now(), Some(b"a key"), entry);
        session.flush();
    }
    assert!(session.is_over());
    let trace = Trace::open(&path).unwrap();
    let (why, when) = trace.stopped().unwrap();
    assert_eq!(why, Stopped::Limit);
    let entries: Vec<Entry> = trace.entries().map(|entry| entry.unwrap()).collect();
    assert!(!entries.is_empty() && entries.iter().all(|entry| entry.time <= when));
    assert!(std::fs::metadata(&path).unwrap().len() <= limit);
    // Who comes later finds it full.
    let later = Arc::new(Session::open(&path, with(None), true).unwrap());
    assert_eq!(later.define("hash", Path::new("/a"), ""), 0);
    // And who asks for more or less than it may have is told so, and not silently given that.
    assert!(Session::open(&path, with(Some(limit)), true).is_ok());
    for other in [limit - 1, limit + 1] {
        let error = Session::open(&path, with(Some(other)), true).unwrap_err().to_string();
        assert!(error.contains("3000 bytes at most"), "{error}");
    }
}
