//! Danger: what is read of a store that others write to mixes two of its moments, as if a transaction had been torn.

mod common;
use common::*;
use credenza::btree::BTree;
use credenza::hash::{Batch, Hash};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KEYS: u32 = 2000;

/// Gives all keys one value in one batch, which others see whole or not at all.
fn write_round(store: &Hash, round: u64) {
    let mut batch = Batch::new();
    (0..KEYS).for_each(|key| {
        batch.insert(format!("key {key}").as_bytes(), format!("{round:020}").as_bytes());
    });
    store.batch(&batch).expect("it is written");
}

/// Does `read` some times while somebody gives all keys of a store another value, again and again.
fn while_written(store: &str, mut read: impl FnMut(usize)) {
    let written = Hash::create(store).expect("a store");
    write_round(&written, 0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // It ends as well where what is read is not what was expected.
        let _over = OnDrop(|| is_over.store(true, Ordering::Relaxed));
        let goes_on = || !is_over.load(Ordering::Relaxed);
        let write = |round| write_round(&written, round);
        scope.spawn(move || (1..).take_while(|_| goes_on()).for_each(write));
        (0..10).for_each(&mut read);
    });
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// That there are all keys, and that all have one value.
#[track_caller]
fn check_moment(records: &Records, what: &str) {
    assert_eq!(records.len(), KEYS as usize, "{what}");
    assert!(records.iter().all(|record| record.1 == records[0].1), "{what}: of two moments");
}

#[test]
fn what_is_made_of_a_hash_store_in_use_is_of_one_moment() {
    let folder = Folder::new();
    let store = folder.path("store");
    while_written(&store, |i| {
        check_moment(&dump(&store), "dump to a pipe");
        let text = folder.path("text");
        run(&["dump", &store, "-o", &text]).expect(0);
        check_moment(&parse_cdb_text(&std::fs::read(&text).expect("a text")), "dump to a file");
        let piped = run(&["convert", &store, "-", "--to", "cdb-text"]).expect(0);
        check_moment(&parse_cdb_text(&piped.out), "convert to text");
        for kind in ["constant", "hash", "btree"] {
            let made = folder.path(kind);
            run(&["convert", &store, &made, "--to", kind, "--replace"]).expect(0);
            check_moment(&dump(&made), kind);
        }
        for engine in ["hash", "btree"] {
            let made = folder.path(&format!("{engine}-{i}"));
            run(&["thaw", &store, &made, "--engine", engine]).expect(0);
            check_moment(&dump(&made), "thaw");
        }
    });
}

/// Each key was looked up in the store as it was then.
#[test]
fn answers_of_a_btree_store_in_use_are_of_one_moment() {
    let folder = Folder::new();
    let store = folder.path("store");
    let written = BTree::create(&store).expect("a store");
    let write = |round: u64| {
        let mut transaction = written.write().expect("a transaction");
        let value = round.to_le_bytes();
        for key in [b"a", b"b"] {
            transaction.main().insert(key, &value).expect("room");
            transaction.create_table("t").expect("a table").insert(key, &value).expect("room");
        }
        transaction.commit().expect("it is committed");
    };
    write(0);
    let keys = folder.file("keys", "a\nb\n".repeat(10_000));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = OnDrop(|| is_over.store(true, Ordering::Relaxed));
        let goes_on = || !is_over.load(Ordering::Relaxed);
        scope.spawn(move || (1..).take_while(|_| goes_on()).for_each(write));
        for more in [&[][..], &["--table", "t"], &["--all"], &["--lease", "3600", "--nth", "1"]] {
            let got = run(&[&["get", &store, "-k", &keys][..], more].concat()).expect(0);
            let found = parse_cdb_text(&got.out);
            assert_eq!(found.len(), 20_000, "{more:?}");
            assert!(found.iter().all(|record| record.1 == found[0].1), "{more:?}");
        }
    });
}

/// What they read is more than a pipe holds, and more than waits in memory.
#[test]
fn nobody_waits_for_who_takes_what_is_dumped() {
    let folder = Folder::new();
    let store = folder.path("store");
    let records = (0..3000).map(|i| (format!("key {i}").into(), vec![b'v'; 4000])).collect();
    run_with(&["load", &store, "--to", "hash", "--from", "cdb"], &cdb_text(&records)).expect(0);
    for (i, args) in
        [&["dump", &store][..], &["convert", &store, "-", "--to", "cdb-text"]].iter().enumerate()
    {
        let mut child = Command::new(program())
            .args(*args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut out = child.stdout.take().expect("its output");
        let mut text = vec![0];
        out.read_exact(&mut text).expect("it has begun to write");
        // Far more time than it takes: it is over only where the command waits for the other one.
        let (key, patience) = (format!("key {i}"), Duration::from_secs(120));
        credenza(&["put", &store, &key, "other"]).timeout(patience).assert().success();
        out.read_to_end(&mut text).expect("the rest");
        assert!(child.wait().expect("it ends").success(), "{args:?}");
        let found = sorted(parse_cdb_text(&text));
        assert_eq!(found.len(), 3000, "{args:?}");
        let of_key = found.iter().find(|record| record.0 == key.as_bytes()).expect("the key");
        assert!(of_key.1 == vec![b'v'; 4000], "{args:?}: as it was before");
        assert_eq!(folder.names(), ["store", "store-index"]);
    }
}
