//! Danger: a process that is killed while it writes or reads, and leaves the store locked, torn or
//! without what it had completed, or space that is never used again.
//!
//! Writers are killed at random moments while others go on; and one writer is followed instruction
//! by instruction, and every state that its death could leave is opened.

mod common;

use common::hash::{batch_of, index_number, index_of, index_wanted};
use common::steps::states_during;
use common::subject::{Operation, State, Subject, difference, state_of};
use common::sys;
use common::{Rng, child, is_child, rounds, seed, write_anew};
use credenza::hash::Hash;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const WRITERS: u64 = 4;
/// Keys that only one writer changes.
const KEYS: u64 = 40;

/// Operation number `i` of a writer: the same whenever it is asked for.
fn operation(seed: u64, writer: u64, i: u64) -> Operation {
    let mut rng = Rng::new(seed.wrapping_mul(1_000_003) ^ writer << 40 ^ i);
    rng.next();
    let key = |rng: &mut Rng| format!("{writer}:{}", rng.below(KEYS)).into_bytes();
    let value = |rng: &mut Rng| {
        let most = [30, 30, 300, 300, 2000, 9000][rng.below(6) as usize];
        let mut value = i.to_le_bytes().to_vec();
        value.resize(8 + rng.below(most) as usize, i as u8);
        value
    };
    match rng.below(10) {
        0..5 => Operation::Insert(key(&mut rng), value(&mut rng)),
        5..7 => Operation::Remove(key(&mut rng)),
        _ => {
            let changes = (0..2 + rng.below(6)).map(|_| {
                let is_put = rng.below(4) > 0;
                (key(&mut rng), is_put.then(|| value(&mut rng)))
            });
            Operation::Batch(changes.collect())
        }
    }
}

/// Does an operation in one of the ways that there are.
fn perform(store: &Hash, operation: &Operation, way: u64) -> credenza::Result<()> {
    match operation {
        Operation::Insert(key, value) if way.is_multiple_of(3) => {
            store.update(key, |_| Some(value.clone())).map(drop)
        }
        Operation::Batch(changes) if way.is_multiple_of(3) => {
            let mut transaction = store.transaction()?;
            for (key, value) in changes {
                match value {
                    Some(value) => transaction.insert(key, value)?,
                    None => transaction.remove(key)?,
                }
            }
            transaction.commit()
        }
        Operation::Batch(changes) => store.batch(&batch_of(changes)),
        other => store.apply(other),
    }
}

/// Where a writer notes how many of its operations are done.
fn slot(writer: u64) -> u64 {
    8 * writer
}

fn done(progress: &File, writer: u64) -> u64 {
    let mut bytes = [0; 8];
    progress.read_exact_at(&mut bytes, slot(writer)).unwrap();
    u64::from_le_bytes(bytes)
}

/// A child's work: operations from where the last one of its kind was killed, until it is, too.
#[test]
fn child_writes() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let variable = |name: &str| std::env::var(name).unwrap();
    let path = PathBuf::from(variable("STORE"));
    let (seed, writer): (u64, u64) =
        (variable("SEED").parse().unwrap(), variable("WRITER").parse().unwrap());
    let progress = OpenOptions::new().read(true).write(true).open(path.with_extension("progress"));
    let progress = progress.unwrap();
    let store = Hash::open(&path).unwrap();
    for i in done(&progress, writer).. {
        perform(&store, &operation(seed, writer, i), i).unwrap();
        progress.write_all_at(&(i + 1).to_le_bytes(), slot(writer)).unwrap();
        if i % 200 == 0 {
            store.sync().unwrap();
        }
    }
}

/// What is known of a writer from outside.
struct Writer {
    number: u64,
    process: Option<Child>,
    /// What its keys were after so many operations.
    model: State,
    known: u64,
}

struct Fleet {
    seed: u64,
    path: PathBuf,
    progress: File,
    writers: Vec<Writer>,
}

impl Fleet {
    fn start(&mut self, number: usize) {
        let mut command: Command = child("child_writes");
        command.env("STORE", &self.path).env("SEED", self.seed.to_string());
        command.env("WRITER", number.to_string()).stdout(Stdio::null());
        self.writers[number].process = Some(command.spawn().unwrap());
    }

    /// Kills a writer, and looks at once whether everything that it had completed is there.
    fn kill(&mut self, number: usize, store: &Hash, what: &str) {
        let writer = &mut self.writers[number];
        let mut process = writer.process.take().unwrap();
        process.kill().unwrap();
        let status = process.wait().unwrap();
        assert_eq!(status.code(), None, "{what}: the writer failed by itself");
        let done = done(&self.progress, writer.number);
        while writer.known < done {
            operation(self.seed, writer.number, writer.known).change(&mut writer.model);
            writer.known += 1;
        }
        let keys = (0..KEYS).map(|i| format!("{}:{i}", writer.number).into_bytes());
        let found = keys.filter_map(|key| Some((key.clone(), Subject::get(store, &key).unwrap()?)));
        let found: State = found.collect();
        if found == writer.model {
            return;
        }
        // The one that it was at may be done, as a whole.
        let mut after = writer.model.clone();
        operation(self.seed, writer.number, done).change(&mut after);
        let text = difference(&found, &writer.model);
        assert!(found == after, "{what}: writer {number} after {done} operations: {text}");
        writer.model = after;
        writer.known += 1;
        self.progress.write_all_at(&writer.known.to_le_bytes(), slot(writer.number)).unwrap();
    }
}

#[test]
fn what_a_killed_writer_has_completed_is_there() {
    let kills = rounds(48);
    let seed = seed(kills);
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut store = Hash::create(&path).unwrap();
    std::fs::write(path.with_extension("progress"), [0; 8 * WRITERS as usize]).unwrap();
    let progress = OpenOptions::new().read(true).write(true).open(path.with_extension("progress"));
    let writers =
        (0..WRITERS).map(|number| Writer { number, process: None, model: State::new(), known: 0 });
    let writers = writers.collect();
    let mut fleet = Fleet { seed, path: path.clone(), progress: progress.unwrap(), writers };
    (0..WRITERS as usize).for_each(|number| fleet.start(number));
    for kill in 0..kills {
        // The delay decides where the writer dies; nothing waits for anything.
        std::thread::sleep(Duration::from_micros(rng.below(30_000)));
        let number = rng.below(WRITERS) as usize;
        let what = format!("seed {seed}, kill {kill}");
        fleet.kill(number, &store, &what);
        if kill % 50 == 49 {
            (0..WRITERS as usize).filter(|other| *other != number).for_each(|number| {
                fleet.kill(number, &store, &what);
            });
            let all = fleet.writers.iter().flat_map(|writer| writer.model.clone());
            let all: State = all.collect();
            let found = state_of(&store, &what);
            assert!(found == all, "{what}: {}", difference(&found, &all));
            drop(store);
            if rng.below(2) == 0 {
                std::fs::remove_file(index_of(&path)).unwrap();
            }
            store = Hash::open(&path).unwrap();
            assert!(state_of(&store, &what) == all, "{what}: opened again");
            (0..WRITERS as usize).for_each(|number| fleet.start(number));
        } else {
            fleet.start(number);
        }
    }
    let done: u64 = (0..WRITERS).map(|writer| done(&fleet.progress, writer)).sum();
    println!("{kills} kills, {done} operations");
    assert!(done > kills, "the writers hardly wrote anything: {done} operations");
    for number in 0..WRITERS as usize {
        fleet.kill(number, &store, "at the end");
    }
}

/// A store whose next record begins a new segment.
fn prepared(path: &Path, operations: u64) -> State {
    let store = Hash::create(path).unwrap();
    let mut state = State::new();
    let mut rng = Rng::new(operations);
    let word = |at: usize| {
        let index = std::fs::read(index_of(path)).unwrap();
        u64::from_le_bytes(index[at..at + 8].try_into().unwrap())
    };
    for i in 0.. {
        let [end, segment_end] = [word(144), word(168)];
        let left = segment_end - end;
        let operation = match i >= operations && left < 1000 {
            // What is left takes the end's record, 16 bytes, and no other.
            true if left < 48 => return state,
            true => Operation::Insert(b"filler".to_vec(), vec![5; left as usize - 16 - 16]),
            false => Operation::Insert(format!("key {}", rng.below(45)).into(), rng.bytes(100)),
        };
        store.apply(&operation).unwrap();
        operation.change(&mut state);
    }
    state
}

fn read_only(path: &Path, what: &str) -> Hash {
    let store = Hash::options().read_only(true).open(path);
    store.unwrap_or_else(|e| panic!("{what}: read only: {e}"))
}

#[test]
fn a_writer_may_die_at_every_instruction() {
    let key = |i: u64| format!("new {i}").into_bytes();
    let operations = [
        Operation::Insert(key(0), vec![1; 20]),
        Operation::Batch((0..4).map(|i| (key(i), (i != 2).then(|| vec![i as u8; 9]))).collect()),
        Operation::Remove(b"key 3".to_vec()),
        Operation::Insert(b"key 3".to_vec(), vec![3; 40]),
        Operation::Clear,
        Operation::Compact,
    ];
    let mut count = 0;
    for round in 0..rounds(2) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let before = prepared(&path, 20 + round * 7);
        let operation = &operations[round as usize % operations.len()];
        let mut after = before.clone();
        operation.change(&mut after);
        let Some(states) = states_during(&path, |store: &Hash| store.apply(operation).unwrap())
        else {
            println!("skipped: this process may not trace another");
            return;
        };
        let mut is_done = false;
        // Many differ only in bytes of a record that nobody can see yet.
        let (looks, last) = if rounds(1) > 1 { (150, 60) } else { (60, 30) };
        let step = (states.len() / looks).max(1);
        for (i, state) in
            states.iter().enumerate().filter(|(i, _)| i % step == 0 || *i + last > states.len())
        {
            let what = format!("round {round}, {operation:.60?}, state {i} of {}", states.len());
            let copy = folder.path().join("copy");
            for (bytes, file) in state.iter().zip(Hash::files(&copy)) {
                write_anew(&file, bytes);
            }
            count += 1;
            // Who may not write cannot finish what the dead began, and sees all of it or nothing.
            let mut reader = read_only(&copy, &what);
            // A process that another test has just forked may have the file open for a moment.
            for _ in 0..1000 {
                if reader.verify(|_, _| ()).is_ok() {
                    break;
                }
                std::thread::yield_now();
                reader = read_only(&copy, &what);
            }
            let seen = state_of(&reader, &what);
            assert!(seen == before || seen == after, "{what}: {}", difference(&seen, &after));
            drop(reader);
            let store = Hash::open(&copy).unwrap_or_else(|e| panic!("{what}: {e}"));
            store.insert(b"more", b"").unwrap_or_else(|e| panic!("{what}: {e}"));
            store.remove(b"more").unwrap();
            // What it left is put right, and not taken for damage.
            let has_index = index_number(&state[1]) == index_wanted(&state[0]);
            let is_kept = index_wanted(&std::fs::read(&copy).unwrap()) == index_wanted(&state[0]);
            assert!(is_kept || !has_index, "{what}: the index was made again");
            let found = state_of(&store, &what);
            assert!(found == before || found == after, "{what}: {}", difference(&found, &after));
            // What was done stays done.
            assert!(!is_done || found == after, "{what}: undone");
            is_done = found == after && before != after;
            drop(store);
            std::fs::remove_file(index_of(&copy)).unwrap();
            let store = Hash::open(&copy).unwrap_or_else(|e| panic!("{what}: without index: {e}"));
            assert!(state_of(&store, &what) == found, "{what}: the index makes a difference");
        }
        assert!(is_done || before == after);
    }
    println!("{count} states");
}

/// A change has its key come or go by one store, and is counted by another: who dies in between leaves that to the next writer,
/// and others may never write.
#[test]
fn who_counts_after_a_death_counts_what_the_dead_did() {
    let key = |i: u64| format!("key {i}").into_bytes();
    let changes: [fn(&Hash); 3] = [
        |store| assert!(!store.replace(b"key 50", b"value").unwrap()),
        |store| assert!(store.remove(b"key 7").unwrap()),
        |store| store.clear().unwrap(),
    ];
    for change in changes {
        let folder = tempfile::tempdir().unwrap();
        let store = Hash::create(folder.path().join("store")).unwrap();
        (0..50).for_each(|i| store.insert(&key(i), b"value").unwrap());
        // Nothing waits to be entered.
        drop(store.transaction().unwrap());
        let mut writer = sys::fork(|| {
            if sys::be_traced() {
                sys::stop_here();
                change(&store);
            }
        });
        if writer.wait() != sys::Status::Stopped(sys::SIGSTOP) {
            println!("skipped: this process may not trace another");
            return;
        }
        let found = || (0..60).filter(|i| store.contains_key(&key(*i)).unwrap()).count() as u64;
        while store.len().unwrap() == found() {
            let status = writer.step();
            assert!(
                matches!(status, sys::Status::Stopped(_)),
                "nothing was in between: {status:?}"
            );
        }
        writer.kill();
        assert_eq!(store.len().unwrap(), found());
    }
}

/// A child's work: holds a value, and says whether it is still the same, each time it is asked.
#[test]
fn child_holds() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let store = Hash::open(std::env::var("STORE").unwrap()).unwrap();
    let held = store.get(b"held").unwrap().unwrap();
    let copy = held.to_vec();
    println!("holding");
    for line in std::io::stdin().lines() {
        line.unwrap();
        println!("{}", if *held == copy[..] { "same" } else { "changed" });
    }
}

#[test]
fn a_stopped_reader_keeps_its_value_and_a_dead_one_keeps_nothing() {
    for len in [50, 3000, 200_000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        store.insert(b"held", &vec![7; len]).unwrap();
        let mut reader = child("child_holds");
        reader.env("STORE", &path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut reader = reader.spawn().unwrap();
        let mut answers = BufReader::new(reader.stdout.take().unwrap()).lines();
        let mut answer = |wanted: &str| {
            // The test harness of the child writes there, too.
            answers.find(|line| line.as_ref().unwrap().ends_with(wanted)).is_some()
        };
        assert!(answer("holding"));
        assert!(store.readers().iter().any(|r| r.pid == reader.id()), "{:?}", store.readers());
        sys::signal(reader.id(), sys::SIGSTOP);
        let churn = |rounds: u64| {
            for i in 0..rounds {
                store.insert(b"held", &vec![i as u8; len]).unwrap();
                store.insert(format!("other {}", i % 20).as_bytes(), &[i as u8; 400]).unwrap();
                if i % 20 == 0 {
                    store.sync().unwrap();
                }
            }
        };
        let rounds = if len > 100_000 { 40 } else { 400 };
        churn(rounds);
        store.rebuild_index(false).unwrap();
        churn(rounds);
        sys::signal(reader.id(), sys::SIGCONT);
        reader.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
        assert!(
            answer("same"),
            "the value changed in the hands of a stopped reader of {len} bytes"
        );
        sys::signal(reader.id(), sys::SIGSTOP);
        reader.kill().unwrap();
        reader.wait().unwrap();
        churn(rounds);
        while store.compact(1 << 20).unwrap() {}
        let readers = store.readers();
        assert!(readers.is_empty(), "a dead reader still holds: {readers:?}");
        let before = store.stats().unwrap().file_bytes;
        churn(rounds);
        while store.compact(1 << 20).unwrap() {}
        let after = store.stats().unwrap().file_bytes;
        assert!(after <= 2 * before, "the file grows from {before} to {after}");
    }
}
