//! Danger: a reader that sees a mixture of an old file and a new one, misses a replacement, or is
//! disturbed by it; a handle that is not safe to share.

mod common;

use common::sys::{Status, fork, give_up_after};
use common::{Rng, rounds, seed};
use credenza::btree::BTree;
use credenza::constant::{Builder, Constant};
use credenza::hash::Hash;
use credenza::{Access, Get, Scan};
use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const KEYS: u64 = 500;
const ACCESSES: [Access; 3] = [Access::Map, Access::Read, Access::Memory];

/// A store in which every value names the generation; large values lie apart from small ones.
fn publish(path: &Path, generation: u64) {
    let mut builder = Builder::create(path).unwrap();
    for key in 0..KEYS + generation % 7 {
        let mut value = generation.to_le_bytes().to_vec();
        if key % 10 == 0 {
            value.resize(1000, 0);
        }
        builder.add(&key.to_le_bytes(), &value).unwrap();
    }
    builder.finish().unwrap();
}

fn generation_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(*value.first_chunk().unwrap())
}

/// The one generation that everything in `store` is of, asked in every way.
fn the_generation(store: &Constant, rng: &mut Rng) -> u64 {
    let any = rng.below(KEYS).to_le_bytes();
    let generation = generation_of(&store.get(&any).unwrap().unwrap());
    assert_eq!(store.len().unwrap(), KEYS + generation % 7);
    let keys: Vec<[u8; 8]> = (0..100).map(|_| rng.below(KEYS).to_le_bytes()).collect();
    let ask = |_, value: Option<&[u8]>| assert_eq!(generation_of(value.unwrap()), generation);
    store.get_many(&keys, ask).unwrap();
    let mut seen = 0;
    store
        .scan(|_, value| {
            seen += 1;
            assert_eq!(generation_of(value), generation);
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, KEYS + generation % 7);
    generation
}

#[test]
fn a_replacement_is_noticed_at_once_and_every_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    for access in ACCESSES {
        publish(&path, 0);
        let mut store = Constant::options().access(access).open(&path).unwrap();
        let first = store.clone();
        let mut rng = Rng::new(1);
        assert!(!store.refresh().unwrap(), "nothing has changed");
        // Many within one second, and of the same size: neither time nor size tells them apart.
        for generation in (7..700).step_by(7) {
            publish(&path, generation);
            assert!(store.refresh().unwrap(), "{access:?}: generation {generation} was missed");
            assert!(!store.refresh().unwrap());
            assert_eq!(the_generation(&store, &mut rng), generation);
            assert_eq!(the_generation(&first, &mut rng), 0, "a clone stays where it is");
        }
        let mut second = first.clone();
        assert!(second.refresh().unwrap());
        assert_eq!(the_generation(&second, &mut rng), 693);
    }
}

#[test]
fn a_store_that_is_gone_or_broken_leaves_the_old_one_readable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    for access in ACCESSES {
        publish(&path, 3);
        let mut store = Constant::options().access(access).open(&path).unwrap();
        let mut rng = Rng::new(2);
        std::fs::remove_file(&path).unwrap();
        store.refresh().unwrap_err();
        assert_eq!(the_generation(&store, &mut rng), 3);
        std::fs::write(&path, "this is no store").unwrap();
        store.refresh().unwrap_err();
        assert_eq!(the_generation(&store, &mut rng), 3);
        std::fs::remove_file(&path).unwrap();
        publish(&path, 4);
        assert!(store.refresh().unwrap());
        assert_eq!(the_generation(&store, &mut rng), 4);
    }
}

#[test]
fn readers_see_whole_generations_while_a_builder_replaces_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    for round in 0..rounds(2) {
        let seed = seed(round);
        publish(&path, 0);
        let published = AtomicU64::new(0);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for (number, access) in ACCESSES.into_iter().enumerate() {
                let (path, published, done) = (&path, &published, &done);
                let mut store = Constant::options().access(access).open(path).unwrap();
                scope.spawn(move || {
                    let mut rng = Rng::new(seed * 10 + number as u64);
                    let mut newest = 0;
                    while !done.load(Ordering::Acquire) {
                        // What was published before `refresh` is called must be seen after it.
                        let at_least = published.load(Ordering::Acquire);
                        store.refresh().unwrap();
                        let found = the_generation(&store, &mut rng);
                        assert!(found >= at_least, "seed {seed}: {found} is older than {at_least}");
                        assert!(found >= newest, "seed {seed}: back from {newest} to {found}");
                        newest = found;
                    }
                });
            }
            for generation in 1..=100 {
                publish(&path, generation);
                published.store(generation, Ordering::Release);
            }
            done.store(true, Ordering::Release);
        });
    }
}

#[test]
fn one_handle_serves_many_threads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    publish(&path, 5);
    for access in ACCESSES {
        let store = Constant::options().access(access).open(&path).unwrap();
        thread::scope(|scope| {
            for number in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    let mut rng = Rng::new(number);
                    for _ in 0..20 {
                        assert_eq!(the_generation(store, &mut rng), 5);
                    }
                    store.verify(|_, _| ()).unwrap();
                });
            }
        });
    }
}

/// Clones share the newest map: they refresh at once, from several threads, and each goes on only
/// when it says so.
#[test]
fn clones_refresh_each_for_itself() {
    for access in ACCESSES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        publish(&path, 0);
        let store = Constant::options().access(access).open(&path).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..3 {
                let (mut store, done) = (store.clone(), &done);
                scope.spawn(move || {
                    let mut rng = Rng::new(number);
                    let mut last = 0;
                    loop {
                        let finished = done.load(Ordering::Acquire);
                        let changed = store.refresh().unwrap();
                        let now = the_generation(&store, &mut rng);
                        assert_eq!(changed, now != last, "{access:?}: {now} after {last}");
                        assert_eq!(the_generation(&store, &mut rng), now);
                        last = now;
                        if finished {
                            return assert_eq!(last, 100);
                        }
                    }
                });
            }
            (1..=100).for_each(|generation| publish(&path, generation));
            done.store(true, Ordering::Release);
        });
        assert_eq!(the_generation(&store, &mut Rng::new(1)), 0, "this one has not refreshed");
    }
}

#[test]
fn borrowed_values_outlive_replacement_and_removal() {
    for access in ACCESSES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        publish(&path, 1);
        let store = Constant::options().access(access).open(&path).unwrap();
        let mut other = store.clone();
        let key = 20u64.to_le_bytes();
        let borrowed = store.get(&key).unwrap().unwrap();
        let all: Vec<_> = store.iter().map(|record| record.unwrap()).collect();
        for replacement in 2..20 {
            publish(&path, replacement);
            assert!(other.refresh().unwrap());
            assert_eq!(generation_of(&borrowed), 1);
        }
        drop(other);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(generation_of(&borrowed), 1);
        assert!(all.iter().all(|(_, value)| generation_of(value) == 1));
        assert_eq!(the_generation(&store, &mut Rng::new(1)), 1);
    }
}

/// Whatever takes the file's place: the handle says what it is, and goes on with what it has.
#[test]
fn a_bad_replacement_is_named_and_the_old_one_stays() {
    for access in ACCESSES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let mut rng = Rng::new(1);
        publish(&path, 9);
        let whole = std::fs::read(&path).unwrap();
        let mut store = Constant::options().access(access).open(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[100] ^= 1;
        let truncated = whole[..whole.len() / 2].to_vec();
        for bad in [damaged, truncated, Vec::new()] {
            let new = dir.path().join("new");
            std::fs::write(&new, bad).unwrap();
            std::fs::rename(&new, &path).unwrap();
            for _ in 0..2 {
                let error = store.refresh().unwrap_err();
                assert!(error.is_bad_file() && error.path() == Some(&path), "{error}");
                assert_eq!(the_generation(&store, &mut rng), 9);
                store.verify(|_, _| ()).unwrap();
            }
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        store.refresh().unwrap_err();
        assert_eq!(the_generation(&store, &mut rng), 9);
        std::fs::remove_dir(&path).unwrap();
        publish(&path, 10);
        assert!(store.refresh().unwrap());
        assert_eq!(the_generation(&store, &mut rng), 10);
    }
}

/// Whoever caught a panic in hash and btree stores had to assert that they can be used after it.
#[test]
fn stores_are_used_after_a_panic_that_was_caught() {
    fn stays_whole<T: UnwindSafe + RefUnwindSafe>(_: &T) {}
    let dir = tempfile::tempdir().unwrap();
    publish(&dir.path().join("constant"), 0);
    stays_whole(&Constant::open(dir.path().join("constant")).unwrap());
    let hash = Hash::create(dir.path().join("hash")).unwrap();
    hash.insert(b"key", b"value").unwrap();
    catch_unwind(|| hash.update(b"key", |_| panic!("in the user's code"))).unwrap_err();
    assert_eq!(hash.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(hash.replace(b"key", b"other").unwrap());
    let btree = BTree::create(dir.path().join("btree")).unwrap();
    let half_way = || {
        let mut transaction = btree.write().unwrap();
        transaction.main().insert(b"key", b"value").unwrap();
        panic!("in the user's code");
    };
    catch_unwind(half_way).unwrap_err();
    assert!(btree.is_empty().unwrap());
    btree.insert(b"key", b"value").unwrap();
    stays_whole(&credenza::open(dir.path().join("constant")).unwrap());
}

/// Opening the new file takes its time where it is copied, and a thread of the parent never ends that in the child.
#[test]
fn a_fork_does_not_wait_for_who_refreshes_in_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for name in ["one", "other"] {
        let mut builder = Builder::create(file(name)).unwrap();
        builder.add(b"key", &vec![7; 8 << 20]).unwrap();
        builder.finish().unwrap();
    }
    let replace = |name: &str| {
        std::fs::hard_link(file(name), file("next")).unwrap();
        std::fs::rename(file("next"), file("store")).unwrap();
    };
    replace("one");
    let store = Constant::options().access(Access::Memory).open(file("store")).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut store = store.clone();
            while !is_over.load(Ordering::Relaxed) {
                for name in ["other", "one"] {
                    replace(name);
                    assert!(store.refresh().unwrap());
                }
            }
        });
        let ends = (0..50).map(|_| {
            let mut child = fork(|| {
                give_up_after(20);
                let mut store = store.clone();
                for _ in 0..2 {
                    store.refresh().unwrap();
                    assert_eq!(store.get(b"key").unwrap().unwrap().len(), 8 << 20);
                }
            });
            child.wait()
        });
        let ends: Vec<_> = ends.filter(|end| *end != Status::Exited(0)).take(1).collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(ends, []);
    });
}
