//! Danger: a recording that is not what the program did, that a kill, a fork or a full disk spoils, or
//! that stands in the program's way.

mod common;

use common::mount::Mount;
use common::recording::{entries, folder, lock_the_trace, recorded, run, shorts};
use common::sys::{self, Status, fork};
use common::{child, is_child, rounds, seed};
use credenza::btree::{BTree, Duplicates, TableOptions};
use credenza::constant::{Builder, Constant};
use credenza::hash::{Batch, Hash};
use credenza::record::{self, Action, Entry, Key, Keys, Options, Stopped, Trace};
use credenza::stats::{Operation, Outcome};
use credenza::{Get, Scan};
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::Path;
use std::process::Stdio;

#[test]
fn every_operation_is_recorded_as_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    run(recorded("does_everything", dir.path(), &trace));
    let stores = Trace::open(&trace).unwrap().stores().to_vec();
    let stores: Vec<_> = stores.iter().map(|s| (&*s.engine, &*s.table)).collect();
    let [built, constant] = [("constant", ""); 2];
    assert_eq!(stores, [built, constant, ("hash", ""), ("btree", ""), ("btree", "named")]);
    let expected = [
        // constant, as it is built and as it is read
        "1 begin done 0 0",
        "1 insert one done 1 0",
        "1 insert two done 1 0",
        "1 commit done 8 2",
        "2 get one hit 1 0",
        "2 get none miss 0 0",
        "2 get_all one hit 1 0",
        "2 key one hit 1 0",
        "2 key none miss 0 0",
        "2 get_many done 1 2",
        "2 scan done 8 2",
        "2 scan done 8 2",
        // hash
        "3 insert a done 2 0",
        "3 insert a done 3 0",
        "3 get a hit 3 0",
        "3 remove a hit 0 0",
        "3 remove a miss 0 0",
        "3 update n done 1 0",
        "3 update n unchanged 0 0",
        "3 update u done 3 0",
        "3 remove u hit 0 0",
        "3 update u unchanged 0 0",
        "3 update u done 0 0",
        "3 remove u hit 0 0",
        "3 update u unchanged 0 0",
        "3 update u unchanged 0 0",
        "3 begin done 0 0",
        "3 insert x done 4 0",
        "3 remove y done 0 0",
        "3 commit done 6 2",
        "3 begin done 0 0",
        "3 insert z done 1 0",
        "3 commit done 2 1",
        "3 begin done 0 0",
        "3 abort done 0 0",
        "3 key n hit 1 0",
        "3 key a miss 0 0",
        "3 get_many done 1 2",
        "3 scan done 9 3",
        "3 sync done 0 0",
        // btree
        "4 insert k1 done 2 0",
        "4 get k1 hit 2 0",
        "4 begin done 0 0",
        "4 insert k2 done 2 0",
        "5 insert t done 1 0",
        "4 remove none miss 0 0",
        "4 commit done 6 2",
        "4 begin done 0 0",
        "4 insert k3 done 2 0",
        "4 abort done 0 0",
        "4 seek k1 hit 4 0",
        "4 scan k1 done 4 1",
        "4 scan k1 done 8 2",
        "5 get t hit 1 0",
        "4 remove k1 hit 0 0",
    ];
    let found = shorts(&trace);
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected, "{found:?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    let times: Vec<u64> = entries(&trace).iter().map(|entry| entry.time).collect();
    assert!(times.iter().all(|time| *time < 600_000_000_000), "{times:?}");
}

#[test]
fn does_everything() {
    if !is_child() {
        return;
    }
    let path = folder().join("c");
    let mut builder = Builder::create(&path).unwrap();
    builder.add(b"one", b"1").unwrap();
    builder.add(b"two", b"2").unwrap();
    builder.finish().unwrap();
    let constant = Constant::open(&path).unwrap();
    constant.get(b"one").unwrap();
    constant.get(b"none").unwrap();
    constant.get_all(b"one").unwrap();
    constant.get_many(&[&b"one"[..], b"none"], |_, _| ()).unwrap();
    constant.scan(|_, _| Ok(())).unwrap();
    assert_eq!(constant.iter().count(), 2);
    assert!(constant.operations().is_none());

    let hash = Hash::create(folder().join("h")).unwrap();
    hash.insert(b"a", b"12").unwrap();
    hash.replace(b"a", b"123").unwrap();
    hash.get(b"a").unwrap();
    hash.remove(b"a").unwrap();
    hash.remove(b"a").unwrap();
    hash.increment(b"n", 5).unwrap();
    hash.insert_if_absent(b"n", b"no").unwrap();
    // Each of them once with what is there, and once with nothing.
    hash.update(b"u", |_| Some(b"new".to_vec())).unwrap();
    hash.update(b"u", |_| None).unwrap();
    hash.update(b"u", |_| None).unwrap();
    hash.compare_exchange(b"u", None, Some(b"")).unwrap();
    hash.compare_exchange(b"u", Some(b""), None).unwrap();
    hash.compare_exchange(b"u", None, None).unwrap();
    hash.compare_exchange(b"u", Some(b"1"), Some(b"2")).unwrap();
    hash.batch(Batch::new().insert(b"x", b"1234").remove(b"y")).unwrap();
    let mut transaction = hash.transaction().unwrap();
    transaction.insert(b"z", b"1").unwrap();
    transaction.commit().unwrap();
    hash.transaction().unwrap().abort();
    hash.get_many(&[b"n", b"a"], |_, _| ()).unwrap();
    assert_eq!(hash.iter().count(), 3);
    hash.sync().unwrap();
    assert!(hash.operations().is_none());

    let btree = BTree::create(folder().join("b")).unwrap();
    btree.insert(b"k1", b"v1").unwrap();
    btree.get(b"k1").unwrap();
    let mut transaction = btree.write().unwrap();
    transaction.main().insert(b"k2", b"v2").unwrap();
    transaction.create_table("named").unwrap().insert(b"t", b"1").unwrap();
    transaction.main().remove(b"none").unwrap();
    transaction.commit().unwrap();
    let mut transaction = btree.write().unwrap();
    transaction.main().insert(b"k3", b"v3").unwrap();
    transaction.abort();
    let snapshot = btree.read().unwrap();
    snapshot.main().at_or_after(b"k1").unwrap();
    snapshot.main().range(&b"k1"[..]..).next().unwrap().unwrap();
    snapshot.main().scan_range(&b"k1"[..].., |_, _| Ok(true)).unwrap();
    snapshot.table("named").unwrap().unwrap().get(b"t").unwrap();
    btree.remove(b"k1").unwrap();
    assert!(btree.operations().is_none());
}

#[test]
fn nothing_is_recorded_that_nobody_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = child("switches_on_and_off");
    command.env("CREDENZA_TEST_FOLDER", dir.path()).env_remove("CREDENZA_RECORD");
    run(command);
    assert_eq!(shorts(&dir.path().join("one")), ["1 insert #1 done 1 0", "1 get #1 hit 1 0"]);
    assert_eq!(shorts(&dir.path().join("two")), ["1 get b miss 0 0"]);
}

#[test]
fn switches_on_and_off() {
    if !is_child() {
        return;
    }
    let (one, two) = (folder().join("one"), folder().join("two"));
    assert!(!record::is_on());
    let before = Hash::create(folder().join("store")).unwrap();
    before.insert(b"0", b"0").unwrap();
    record::start(&Options::new(&one).keys(Keys::Hashed).secret(7)).unwrap();
    assert!(record::is_on());
    record::start(&Options::new(&two)).unwrap_err();
    before.insert(b"0", b"0").unwrap();
    let store = Hash::open(folder().join("store")).unwrap();
    store.insert(b"a", b"1").unwrap();
    store.get(b"a").unwrap();
    record::flush();
    assert_eq!(entries(&one).len(), 2);
    record::stop();
    assert!(!record::is_on());
    store.get(b"a").unwrap();
    record::start(&Options::new(&one)).unwrap_err();
    record::start(&Options::new(&two)).unwrap();
    store.get(b"a").unwrap();
    let in_memory = Hash::in_memory().unwrap();
    in_memory.get(b"b").unwrap();
    assert!(in_memory.operations().is_none());
    // Its end is that of the process.
    std::mem::forget(in_memory);
}

#[test]
fn hashed_keys_are_equal_where_the_keys_are() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two, other) = (dir.path().join("1"), dir.path().join("2"), dir.path().join("3"));
    let secrets = ["000102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0f", ""];
    for (trace, secret) in [&one, &two, &other].into_iter().zip(secrets) {
        let mut command = recorded("does_everything", dir.path(), trace);
        command.env("CREDENZA_RECORD_KEYS", "hashed").env("CREDENZA_RECORD_SECRET", secret);
        run(command);
        for name in ["c", "h", "h-index", "b"] {
            let _ = std::fs::remove_file(dir.path().join(name));
        }
    }
    let keys = |trace| entries(trace).into_iter().map(|entry| entry.key).collect::<Vec<_>>();
    let (one, two, other) = (keys(&one), keys(&two), keys(&other));
    assert!(one == two && one != other);
    // Put in, and looked up.
    assert!(one[1] == one[4] && one[1] != one[2], "{:?}", &one[..5]);
    assert!(one.iter().flatten().all(|key| matches!(key, Key::Hashed { .. })));
}

#[test]
fn threads_forks_and_processes_record_to_one_trace() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let both: Vec<_> = (0..2)
        .map(|_| recorded("reads_in_threads_and_a_fork", dir.path(), &trace).spawn().unwrap())
        .collect();
    both.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    let all = entries(&trace);
    let mut of_thread: BTreeMap<(u32, u32), Vec<String>> = BTreeMap::new();
    for entry in &all {
        let Some(Key::Plain(key)) = &entry.key else { panic!("{entry:?}") };
        let key = String::from_utf8(key.clone()).unwrap();
        of_thread.entry((entry.process, entry.thread)).or_default().push(key);
    }
    let processes: BTreeSet<u32> = all.iter().map(|entry| entry.process).collect();
    // Two, with a child and a grandchild each.
    assert_eq!(processes.len(), 6);
    let mut seen: Vec<String> = Vec::new();
    for keys in of_thread.values() {
        let numbers = keys.iter().filter_map(|key| key.split_once('-'));
        let numbers: Vec<(&str, u32)> =
            numbers.map(|(name, number)| (name, number.parse().unwrap())).collect();
        assert!(numbers.iter().enumerate().all(|(i, (_, number))| i as u32 == *number));
        assert!(numbers.iter().all(|(name, _)| *name == numbers[0].0));
        assert_eq!(numbers.len(), 3000);
        seen.push(numbers[0].0.to_owned());
    }
    seen.sort();
    let names = ["child", "grandchild", "main", "t0", "t1", "t2"];
    let expected: Vec<&str> = names.into_iter().flat_map(|name| [name, name]).collect();
    assert_eq!(seen, expected);
}

#[test]
fn reads_in_threads_and_a_fork() {
    if !is_child() {
        return;
    }
    let store = Hash::create(folder().join("store")).unwrap();
    let read = |name: &str, range: std::ops::Range<u32>| {
        range.for_each(|i| drop(store.get(format!("{name}-{i}").as_bytes()).unwrap()));
    };
    read("main", 0..1000);
    let done = fork(|| {
        // What the parent had in its buffer is not this process's.
        read("child", 0..1500);
        let done = fork(|| {
            read("grandchild", 0..3000);
            record::flush();
        });
        read("child", 1500..3000);
        assert_eq!({ done }.wait(), Status::Exited(0));
        record::flush();
    });
    std::thread::scope(|scope| {
        for name in ["t0", "t1", "t2"] {
            scope.spawn(move || read(name, 0..3000));
        }
    });
    read("main", 1000..3000);
    assert_eq!({ done }.wait(), Status::Exited(0));
}

#[test]
fn a_killed_process_leaves_a_trace_up_to_its_last_block() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..rounds(4) {
        let trace = dir.path().join("trace");
        let mut rng = common::Rng::new(seed(round));
        let mut command = recorded("writes_without_end", dir.path(), &trace);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        // So far it must have come, and then somewhere.
        let goal = rng.below(20_000);
        let mut line = String::new();
        while !line.trim().parse().is_ok_and(|done: u64| done >= goal) {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "it ended by itself");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let opened = Trace::open(&trace).unwrap();
        assert_eq!((opened.missing(), opened.stopped()), (0, None));
        for (i, entry) in entries(&trace).iter().enumerate() {
            assert_eq!(entry.key, Some(Key::Plain((i as u32).to_le_bytes().to_vec())));
        }
        // Another process goes on with it.
        let before = opened.len();
        run(recorded("opens_and_reads", dir.path(), &trace));
        assert_eq!(entries(&trace).len() as u64, before + 1);
        std::fs::remove_file(&trace).unwrap();
        for name in ["store", "store-index"] {
            std::fs::remove_file(dir.path().join(name)).unwrap();
        }
    }
}

#[test]
fn writes_without_end() {
    if !is_child() {
        return;
    }
    sys::give_up_after(120);
    let store = Hash::create(folder().join("store")).unwrap();
    for i in 0u32.. {
        store.insert(&i.to_le_bytes(), b"value").unwrap();
        if i % 1000 == 0 {
            println!("\n{i}");
        }
    }
}

#[test]
fn opens_and_reads() {
    if !is_child() {
        return;
    }
    let store = Hash::open(folder().join("store")).unwrap();
    assert!(store.get(&0u32.to_le_bytes()).unwrap().is_some());
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let check = |trace: &Path, why: Stopped| {
        run(recorded("writes_a_lot", dir.path(), trace));
        let opened = Trace::open(trace).unwrap();
        assert_eq!(opened.stopped().map(|(why, _)| why), Some(why));
        let read = entries(trace).len();
        assert!((1..60_000).contains(&read), "{read}");
    };
    let mut limited = recorded("writes_a_lot", dir.path(), &dir.path().join("limited"));
    run({
        limited.env("CREDENZA_RECORD_LIMIT", "300K");
        limited
    });
    let limited = dir.path().join("limited");
    assert_eq!(Trace::open(&limited).unwrap().stopped().unwrap().0, Stopped::Limit);
    assert!(std::fs::metadata(&limited).unwrap().len() <= 300 << 10);
    match Mount::of_size("400k") {
        Some(mount) => check(&mount.path().join("trace"), Stopped::NoSpace),
        None => eprintln!("note: no folder can be made that is full: that is not tested here"),
    }
    let trace = dir.path().join("short");
    let mut command = recorded("writes_a_lot", dir.path(), &trace);
    command.env("CREDENZA_TEST_FILE_SIZE", "200000");
    run(command);
    assert_eq!(Trace::open(&trace).unwrap().stopped().unwrap().0, Stopped::NoSpace);
}

#[test]
fn writes_a_lot() {
    if !is_child() {
        return;
    }
    let store = Hash::in_memory().unwrap();
    if let Ok(size) = std::env::var("CREDENZA_TEST_FILE_SIZE") {
        sys::limit_file_size(Some(size.parse().unwrap()));
    }
    for i in 0u32..60_000 {
        store.get(&i.to_le_bytes()).unwrap();
    }
    assert!(!record::is_on());
    let later = Hash::in_memory().unwrap();
    later.insert(b"key", b"value").unwrap();
    assert!(later.get(b"key").unwrap().is_some());
}

/// A lock that another keeps is not waited for while there is room, and nothing is lost when it is free.
#[test]
fn nobody_waits_for_the_lock_of_a_trace_while_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    run(recorded("reads_while_the_trace_is_locked", dir.path(), &trace));
    let keys = entries(&trace).into_iter().map(|entry| entry.key);
    let read = (0..READ_WHILE_LOCKED).map(|i| Some(Key::Plain(i.to_le_bytes().to_vec())));
    assert!(keys.eq(read));
    assert_eq!(Trace::open(&trace).unwrap().stopped(), None);
}

/// Several buffers of 64 KiB, and less than the longest one.
const READ_WHILE_LOCKED: u32 = 30_000;

#[test]
fn reads_while_the_trace_is_locked() {
    if !is_child() {
        return;
    }
    sys::give_up_after(120);
    let store = Hash::in_memory().unwrap();
    let lock = lock_the_trace();
    for i in 0..READ_WHILE_LOCKED {
        store.get(&i.to_le_bytes()).unwrap();
    }
    assert!(record::is_on());
    drop(lock);
}

/// A lock that is kept ends the recording and not the program, and the trace says so when that can be.
#[test]
fn a_lock_that_is_kept_ends_the_recording_and_not_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    run(recorded("reads_until_the_recording_ends", dir.path(), &trace));
    let opened = Trace::open(&trace).unwrap();
    let (why, when) = opened.stopped().unwrap();
    assert_eq!((why, shorts(&trace)), (Stopped::Locked, vec!["1 get before miss 0 0".to_owned()]));
    assert!(entries(&trace).iter().all(|entry| entry.time <= when));
    // What is lost is that process's: others go on.
    run(recorded("works_with_a_recording", dir.path(), &trace));
    assert_eq!(Trace::open(&trace).unwrap().stopped(), Some((why, when)));
    assert_eq!(entries(&trace).len(), 3);
}

#[test]
fn reads_until_the_recording_ends() {
    if !is_child() {
        return;
    }
    sys::give_up_after(120);
    let store = Hash::in_memory().unwrap();
    store.get(b"before").unwrap();
    record::flush();
    let lock = lock_the_trace();
    while record::is_on() {
        store.get(&[b'x'; 1000]).unwrap();
    }
    works();
    drop(lock);
    drop(store);
}

/// A store is opened, and used, that nobody records.
fn works() {
    let store = Hash::in_memory().unwrap();
    store.insert(b"key", b"value").unwrap();
    assert!(store.get(b"key").unwrap().is_some() && !record::is_on());
}

#[test]
fn works_with_a_recording() {
    if is_child() {
        let store = Hash::in_memory().unwrap();
        store.insert(b"key", b"value").unwrap();
        assert!(store.get(b"key").unwrap().is_some() && record::is_on());
    }
}

/// Who opens a store while another keeps the lock of the trace, and ends before that does, works, too.
#[test]
fn a_store_is_opened_while_the_trace_is_locked() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    run(recorded("opens_while_the_trace_is_locked", dir.path(), &trace));
    run(recorded("opens_while_the_trace_is_locked", dir.path(), &trace));
    assert_eq!((entries(&trace).len(), Trace::open(&trace).unwrap().stopped()), (0, None));
}

#[test]
fn opens_while_the_trace_is_locked() {
    if !is_child() {
        return;
    }
    sys::give_up_after(120);
    if Path::new(&std::env::var_os("CREDENZA_RECORD").unwrap()).exists() {
        let lock = lock_the_trace();
        works();
        // To the end of the process.
        std::mem::forget(lock);
    } else {
        drop(Hash::in_memory().unwrap());
    }
}

#[test]
fn what_cannot_be_recorded_is_said_when_a_store_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("text"), "no trace").unwrap();
    for (name, value) in [
        ("CREDENZA_RECORD", "/none/such/folder/trace"),
        ("CREDENZA_RECORD", "/dev/null"),
        ("CREDENZA_RECORD", dir.path().join("text").to_str().unwrap()),
        ("CREDENZA_RECORD_KEYS", "some"),
        ("CREDENZA_RECORD_LIMIT", "a lot"),
    ] {
        let mut command = recorded("says_why", dir.path(), &dir.path().join("trace"));
        run({
            command.env(name, value);
            command
        });
    }
    assert_eq!(std::fs::read(dir.path().join("text")).unwrap(), b"no trace");
}

#[test]
fn says_why() {
    if !is_child() {
        return;
    }
    for _ in 0..2 {
        let error = Hash::in_memory().unwrap_err().to_string();
        assert!(error.contains("CREDENZA_RECORD"), "{error}");
        let error = BTree::create(folder().join("store")).unwrap_err().to_string();
        assert!(error.contains("CREDENZA_RECORD"), "{error}");
    }
}

#[test]
fn tables_with_several_values_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    run(recorded("uses_a_multi_table", dir.path(), &trace));
    let expected = [
        "1 begin done 0 0",
        "2 insert k hit 1 0",
        "2 insert k hit 1 0",
        "2 remove hit 0 0",
        "2 remove k hit 0 0",
        "1 commit done 9 4",
        "2 scan k done 0 0",
    ];
    assert_eq!(shorts(&trace), expected);
}

#[test]
fn uses_a_multi_table() {
    if !is_child() {
        return;
    }
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let options = TableOptions::new().duplicates(Duplicates::Sorted);
    transaction.create_table_with("multi", &options).unwrap();
    let mut table = transaction.multi_table("multi").unwrap().unwrap();
    table.insert(b"k", b"1").unwrap();
    table.insert(b"k", b"2").unwrap();
    assert!(table.remove_value(b"k", b"1").unwrap());
    table.remove(b"k").unwrap();
    transaction.commit().unwrap();
    let snapshot = store.read().unwrap();
    let table = snapshot.multi_table("multi").unwrap().unwrap();
    assert_eq!(table.values(b"k").count(), 0);
}

/// Statistics and a recording see the same.
#[test]
fn what_is_counted_is_what_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    run(recorded("counts_and_records", dir.path(), &trace));
    let of = |operation, outcome| {
        let is_one = |entry: &&Entry| {
            (entry.action, entry.outcome) == (Action::Operation(operation), outcome)
        };
        entries(&trace).iter().filter(is_one).count()
    };
    let counted = std::fs::read_to_string(dir.path().join("counted")).unwrap();
    let found = [
        of(Operation::Get, Outcome::Hit),
        of(Operation::Get, Outcome::Miss),
        of(Operation::Insert, Outcome::Done),
        of(Operation::Remove, Outcome::Hit),
        of(Operation::Remove, Outcome::Miss),
    ];
    assert_eq!(format!("{found:?}"), counted);
}

#[test]
fn counts_and_records() {
    use credenza::stats::Statistics;
    if !is_child() {
        return;
    }
    let options = Hash::options().create(true).statistics(Statistics::new());
    let store = options.open(folder().join("store")).unwrap();
    let mut rng = common::Rng::new(seed(0));
    for _ in 0..5000 {
        let key = (rng.below(50) as u32).to_le_bytes();
        match rng.below(3) {
            0 => store.insert(&key, b"value").unwrap(),
            1 => drop(store.remove(&key).unwrap()),
            _ => drop(store.get(&key).unwrap()),
        }
    }
    let all = store.operations().unwrap();
    let of = |operation, outcome| all.of(operation).count(outcome);
    let counted = [
        of(Operation::Get, Outcome::Hit),
        of(Operation::Get, Outcome::Miss),
        of(Operation::Insert, Outcome::Done),
        of(Operation::Remove, Outcome::Hit),
        of(Operation::Remove, Outcome::Miss),
    ];
    std::fs::write(folder().join("counted"), format!("{counted:?}")).unwrap();
}
