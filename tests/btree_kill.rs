//! Danger: a process that is killed while it writes, syncs or reads, and leaves the store locked,
//! torn, without what it had committed, with pages that nobody can use again, or held for ever.
//!
//! Writers and readers are killed at random moments while others go on; and one process is followed
//! instruction by instruction, and every state that its death could leave is opened.

mod common;

use common::btree::{Spread, change, perform, read_only, seen_by};
use common::sample::{COMMIT_WORDS, METAS, word};
use common::steps::states_chosen;
use common::subject::{Operation, State, Subject, difference, state_of};
use common::sys;
use common::{Rng, child, is_child, is_soak, rounds, seed, write_anew};
use credenza::Durability;
use credenza::btree::{BTree, Snapshot};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

const WRITERS: u64 = 4;
const READERS: u64 = 2;
/// Keys that only one writer changes.
const KEYS: u64 = 30;

/// Operation number `i` of a writer: the same whenever it is asked for.
fn operation(seed: u64, writer: u64, i: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut rng = Rng::new(seed.wrapping_mul(1_000_003) ^ writer << 40 ^ i);
    rng.next();
    let changes = (0..1 + rng.below(6)).map(|_| {
        let id = rng.below(KEYS);
        let mut key = vec![b'k'; [0, 2, 700][id as usize % 3]];
        key.extend(format!("{writer}:{id}").bytes());
        let most = [30, 30, 300, 300, 2000, 20_000][rng.below(6) as usize];
        let mut value = i.to_le_bytes().to_vec();
        value.resize(8 + rng.below(most) as usize, i as u8);
        (key, (rng.below(4) > 0).then_some(value))
    });
    changes.collect()
}

/// What all writers have done.
#[derive(Clone)]
struct Models {
    seed: u64,
    done: [u64; WRITERS as usize],
    states: [State; WRITERS as usize],
}

impl Models {
    fn new(seed: u64) -> Models {
        Models { seed, done: [0; WRITERS as usize], states: Default::default() }
    }

    /// How much of each writer a snapshot has; that it has exactly that.
    fn check(&mut self, snapshot: &Snapshot<'_>, what: &str) {
        let numbers = done_in(snapshot);
        for writer in 0..WRITERS {
            let (done, state) =
                (&mut self.done[writer as usize], &mut self.states[writer as usize]);
            let number = numbers.get(&writer).copied().unwrap_or(0);
            assert!(number >= *done, "{what}: writer {writer} had done {done}, and now {number}");
            while *done < number {
                Operation::Batch(operation(self.seed, writer, *done)).change(state);
                *done += 1;
            }
        }
        let all: State = self.states.iter().flat_map(State::clone).collect();
        let found = seen_by(snapshot).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(found == all, "{what}: {}", difference(&found, &all));
    }
}

/// How many operations of each writer are in a snapshot.
fn done_in(snapshot: &Snapshot<'_>) -> BTreeMap<u64, u64> {
    let Some(table) = snapshot.table("done").unwrap() else { return BTreeMap::new() };
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    table.iter().map(|pair| pair.map(|(k, v)| (number(&k), number(v))).unwrap()).collect()
}

/// Does operation number `i`, and notes in the same transaction that it is done.
fn write(store: &BTree, seed: u64, writer: u64, i: u64) {
    let mut transaction = store.write().unwrap();
    change(&mut transaction, &operation(seed, writer, i)).unwrap();
    let mut table = transaction.create_table("done").unwrap();
    table.insert(&writer.to_le_bytes(), &(i + 1).to_le_bytes()).unwrap();
    transaction.commit().unwrap();
}

/// A child's work: transactions from where the last one of its kind was killed, until it is, too.
/// What is done is told to the parent.
#[test]
fn child_writes() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let variable = |name: &str| std::env::var(name).unwrap();
    let (seed, writer) = (variable("SEED").parse().unwrap(), variable("WHO").parse().unwrap());
    let store = BTree::open(variable("STORE")).unwrap();
    let told = std::fs::OpenOptions::new().write(true).open(variable("TOLD")).unwrap();
    let first = done_in(&store.read().unwrap()).get(&writer).copied().unwrap_or(0);
    for i in first.. {
        write(&store, seed, writer, i);
        std::os::unix::fs::FileExt::write_all_at(&told, &(i + 1).to_le_bytes(), 8 * writer)
            .unwrap();
        match i % 90 {
            0 => store.sync().unwrap(),
            30 => drop(store.write().unwrap()),
            15 | 45 | 75 => while store.compact(1 << 17).unwrap() {},
            60 => {
                let mut transaction = store.write().unwrap();
                transaction.main().clear().unwrap();
                transaction.main().insert(b"nobody sees it", &[1; 30_000]).unwrap();
            }
            _ => {}
        }
    }
}

/// A child's work: every snapshot is exactly one state; some are held for a while.
#[test]
fn child_reads() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let variable = |name: &str| std::env::var(name).unwrap();
    let store = BTree::open(variable("STORE")).unwrap();
    let mut models = Models::new(variable("SEED").parse().unwrap());
    let mut held: Vec<(Snapshot<'_>, Models)> = Vec::new();
    for i in 0u64.. {
        let snapshot = store.read().unwrap();
        models.check(&snapshot, "a reader");
        held.push((snapshot, models.clone()));
        if i % 16 == 7 {
            // Many at once: afterwards writers have fewer slots to look at, while others take them.
            let many: Vec<_> = (0..100).map(|_| store.read().unwrap()).collect();
            many.iter()
                .step_by(33)
                .for_each(|snapshot| models.clone().check(snapshot, "one of many"));
        }
        if held.len() > 5 {
            let (snapshot, mut then) = held.swap_remove(i as usize % 6);
            then.check(&snapshot, "a reader, later");
        }
    }
}

struct Fleet {
    seed: u64,
    path: PathBuf,
    processes: Vec<Option<Child>>,
}

impl Fleet {
    fn start(&mut self, number: usize) {
        let is_writer = (number as u64) < WRITERS;
        let mut command = child(if is_writer { "child_writes" } else { "child_reads" });
        command.env("STORE", &self.path).env("SEED", self.seed.to_string());
        command.env("WHO", number.to_string()).env("TOLD", self.path.with_extension("told"));
        self.processes[number] = Some(command.stdout(Stdio::null()).spawn().unwrap());
    }

    fn kill(&mut self, number: usize, what: &str) {
        let mut process = self.processes[number].take().unwrap();
        process.kill().unwrap();
        let status = process.wait().unwrap();
        assert_eq!(status.code(), None, "{what}: process {number} failed by itself");
    }

    /// What writers said that they had committed.
    fn told(&self) -> Vec<u64> {
        let bytes = std::fs::read(self.path.with_extension("told")).unwrap();
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }
}

#[test]
fn what_a_killed_writer_has_committed_is_there() {
    let kills = rounds(22);
    let seed = seed(kills);
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut store = BTree::create(&path).unwrap();
    std::fs::write(path.with_extension("told"), [0; 8 * WRITERS as usize]).unwrap();
    let count = (WRITERS + READERS) as usize;
    let mut fleet =
        Fleet { seed, path: path.clone(), processes: (0..count).map(|_| None).collect() };
    let mut models = Models::new(seed);
    (0..count).for_each(|number| fleet.start(number));
    for kill in 0..kills {
        // The delay decides where the process dies; nothing waits for anything.
        std::thread::sleep(Duration::from_micros(rng.below(25_000)));
        let number = rng.below(count as u64) as usize;
        let what = format!("seed {seed}, kill {kill}");
        fleet.kill(number, &what);
        let told = fleet.told();
        models.check(&store.read().unwrap(), &what);
        let is_kept = told.iter().zip(models.done).all(|(told, done)| *told <= done);
        assert!(is_kept, "{what}: {told:?} were committed, {:?} are there", models.done);
        if kill % 5 == 0 {
            store.verify(|_, _| ()).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        if kill % 25 == 24 {
            (0..count).filter(|other| *other != number).for_each(|n| fleet.kill(n, &what));
            models.check(&store.read().unwrap(), &what);
            store.verify(|_, _| ()).unwrap_or_else(|e| panic!("{what}: {e}"));
            drop(store);
            store = BTree::open(&path).unwrap();
            models.check(&store.read().unwrap(), &what);
            store.verify(|_, _| ()).unwrap_or_else(|e| panic!("{what}: opened again: {e}"));
            let stats = store.stats().unwrap();
            assert!(stats.readers.is_empty(), "{what}: {stats:?}");
            assert!(stats.file_bytes < 24 << 20, "{what}: {stats:?}");
            (0..count).for_each(|number| fleet.start(number));
        } else {
            fleet.start(number);
        }
    }
    let done: u64 = models.done.iter().sum();
    println!("{kills} kills, {done} transactions");
    assert!(done > kills, "the writers hardly wrote anything: {done} transactions");
    (0..count).for_each(|number| fleet.kill(number, "at the end"));
}

/// A process that is killed when it is dropped, also after a failure.
struct Killed(Child);

impl Killed {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A child's work: threads that all want the lock, all the time.
#[test]
fn child_crowds() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let store = &BTree::open(std::env::var("STORE").unwrap()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u8 {
            scope.spawn(move || {
                loop {
                    store.insert(&[thread], b"").unwrap();
                }
            });
        }
    });
}

/// Of a process that dies, one thread may have the lock and another may just have been woken for it:
/// then nobody is left to wake those who wait in other processes.
#[test]
fn who_waits_for_the_lock_gets_it_whoever_dies() {
    let kills = rounds(30);
    let mut rng = Rng::new(seed(kills));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let start = || {
        let mut command = child("child_crowds");
        Killed(command.env("STORE", &path).stdout(Stdio::null()).spawn().unwrap())
    };
    let number = || store.read().unwrap().number();
    let mut processes = [start(), start()];
    for kill in 0..kills {
        let goes_on = || {
            // What never comes is what is looked for: however long that takes on a slow machine.
            let (from, begun) = (number(), std::time::Instant::now());
            while number() < from + 5 {
                let waited = begun.elapsed();
                assert!(waited < Duration::from_secs(30), "kill {kill}: nobody gets the lock");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        goes_on();
        std::thread::sleep(Duration::from_micros(rng.below(5000)));
        let one = rng.below(2) as usize;
        processes[one].kill();
        goes_on();
        processes[one] = start();
    }
    drop(processes);
    store.verify(|_, _| ()).unwrap();
}

/// What a process may be at when it dies.
enum Work {
    Change(Vec<Operation>),
    /// One change of one record, where it is.
    Single(Operation),
    /// The same, durable when it returns, after so many others: the fifth makes a journal, the sixth
    /// names it, those that follow are appended to it.
    Durable(Operation, usize),
    GiveUp,
    Sync,
    /// The file becomes shorter, too; or not, while somebody reads an older state.
    Compact,
    CompactHeld,
    /// All slots are taken, so that the file gets another page of them.
    Read,
}

impl Work {
    fn operations(&self) -> &[Operation] {
        match self {
            Work::Change(operations) => operations,
            Work::Durable(operation, _) | Work::Single(operation) => {
                std::slice::from_ref(operation)
            }
            _ => &[],
        }
    }

    /// The store that it is done to, and what is held meanwhile, for as long as the process lives.
    fn open(&self, path: &Path) -> &'static Spread {
        let options = BTree::options().durability(match self {
            Work::Durable(..) => Durability::Sync,
            _ => Durability::Buffered,
        });
        let store: &Spread = Box::leak(Box::new(Spread(options.open(path).unwrap())));
        if let Work::Durable(_, others) = self {
            (0..*others).for_each(|_| store.apply(&insert("0", 30)).unwrap());
        }
        if let Work::Read = self {
            (0..32).for_each(|_| std::mem::forget(store.0.read().unwrap()));
        }
        store
    }

    fn work(&self, store: &Spread) {
        match self {
            Work::Change(_) | Work::Durable(..) => {
                let mut transaction = store.0.write().unwrap();
                for operation in self.operations() {
                    perform(&mut transaction, operation).unwrap();
                }
                transaction.commit().unwrap();
            }
            Work::Single(operation) => store.apply(operation).unwrap(),
            Work::Sync => store.0.sync().unwrap(),
            Work::Compact | Work::CompactHeld => while store.0.compact(1 << 16).unwrap() {},
            Work::Read => drop(store.0.read().unwrap()),
            Work::GiveUp => {
                let mut transaction = store.0.write().unwrap();
                transaction.main().insert(b"0", &[1; 600]).unwrap();
                transaction.main().clear().unwrap();
            }
        }
    }
}

fn insert(key: &str, len: usize) -> Operation {
    Operation::Insert(key.into(), vec![5; len])
}

/// A store with an inner page, long keys and large values, of which some pages are free.
fn prepared(path: &Path, records: u64) -> State {
    let store = Spread::open(path).unwrap();
    let (mut state, mut rng) = (State::new(), Rng::new(records));
    for turn in 0..3 {
        for i in (0..records).filter(|i| turn == 0 || i % 5 == turn) {
            let mut key = vec![b'x'; if i % 20 == 3 { 600 } else { 2 }];
            key.extend(format!("{i:03}").bytes());
            let len = if i % 20 == 7 { 5000 } else { rng.below(120) } as usize;
            let operation = Operation::Insert(key, rng.bytes(len));
            store.apply(&operation).unwrap();
            operation.change(&mut state);
        }
        if turn < 2 {
            store.sync().unwrap();
        }
    }
    state
}

/// Of so many different states one is looked at, unless the locks, the words of the session, the
/// commits or the table of pages differ.
fn chosen(every: u64) -> impl FnMut(&[u8], &[u8]) -> bool {
    let mut number = 0;
    move |last, now| {
        number += 1;
        number % every == 0 || last[..8192] != now[..8192] || last.len() != now.len()
    }
}

/// Follows each of the works; those that take long only where the long tests were asked for.
fn die_at_every_instruction(name: &str, records: u64, short: Vec<Work>, long: Vec<Work>) {
    let mut count = 0;
    let works: Vec<Work> =
        short.into_iter().chain(long.into_iter().filter(|_| is_soak())).collect();
    for (number, work) in works.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let mut before = prepared(&path, records);
        let durable = before.clone();
        let parent = Spread::open(&path).unwrap();
        let held = matches!(work, Work::CompactHeld).then(|| parent.0.read().unwrap());
        let seen = held.as_ref().map(|held| seen_by(held).unwrap());
        // What is not durable yet, so that there is something to sync.
        let last = insert("0", 30);
        parent.apply(&last).unwrap();
        last.change(&mut before);
        let mut after = before.clone();
        work.operations().iter().for_each(|operation| operation.change(&mut after));
        // All of them are in memory, and with a journal each is large.
        let every = match (is_soak(), work) {
            // Few instructions, and all that they write counts.
            (_, Work::Single(_)) => 5,
            (false, _) => 400,
            (true, Work::Durable(..)) => 50,
            (true, _) => 1,
        };
        let open = || work.open(&path);
        let states = states_chosen::<Spread, _>(&path, open, |s| work.work(s), chosen(every));
        if let (Work::Durable(_, 5..), Some(last)) =
            (work, states.as_ref().and_then(|all| all.last()))
        {
            let word = |at: usize| word(&last[0], at);
            let newest = METAS.into_iter().max_by_key(|at| word(at + 8)).unwrap();
            assert!(word(newest + 8 * (COMMIT_WORDS + 1)) > 0, "{name}: there is no journal");
        }
        let Some(states) = states else {
            println!("skipped: this process may not trace another");
            return;
        };
        let now = held.as_ref().map(|held| seen_by(held).unwrap());
        assert!(now == seen, "what is held has changed");
        drop(held);
        drop(parent);
        let mut is_done = false;
        for (i, state) in states.iter().enumerate() {
            let what = format!("{name}, work {number}, state {i} of {}", states.len());
            let copy = folder.path().join("copy");
            write_anew(&copy, &state[0]);
            count += 1;
            let only = read_only(&copy, &what);
            if i % 4 == 0 || i + 20 > states.len() {
                // The power fails when all of that has come to the disk.
                let mut bytes = state[0].clone();
                Spread::reboot(&mut bytes);
                let rebooted = folder.path().join("rebooted");
                write_anew(&rebooted, &bytes);
                let store = Spread::open(&rebooted).unwrap_or_else(|e| panic!("{what}: {e}"));
                let found = state_of(&store, &what);
                let is_kept = matches!(work, Work::Durable(..)) && i + 1 == states.len();
                let is_one = !is_kept && [&durable, &before].contains(&&found) || found == after;
                assert!(is_one, "{what}: rebooted: {}", difference(&found, &after));
            }
            let store = Spread::open(&copy).unwrap_or_else(|e| panic!("{what}: {e}"));
            // Not yet written to: a reader sees the same, and waits for nobody.
            let seen = seen_by(&store.0.read().unwrap()).unwrap();
            // The table of pages is put right by the next writer, who sees it to its end.
            let found = state_of(&store, &what);
            assert!(seen == found, "{what}: {}", difference(&seen, &found));
            assert!(only == found, "{what}, read only: {}", difference(&only, &found));
            assert!(found == before || found == after, "{what}: {}", difference(&found, &after));
            // What was done stays done.
            assert!(!is_done || found == after, "{what}: undone");
            is_done = found == after && before != after;
            if i % 8 == 0 || i + 20 > states.len() {
                let more = insert("more", 9000);
                store.apply(&more).unwrap_or_else(|e| panic!("{what}: {e}"));
                store.sync().unwrap();
                store.apply(&Operation::Remove(b"more".to_vec())).unwrap();
                assert!(state_of(&store, &what) == found, "{what}: written to");
                drop(store);
                let store = Spread::open(&copy).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(state_of(&store, &what) == found, "{what}: opened again");
            }
        }
        assert!(is_done || before == after);
    }
    println!("{name}: {count} states");
}

#[test]
fn a_writer_may_die_at_every_instruction() {
    let batch = (0..4u8).map(|i| (vec![b'n', i], (i != 2).then(|| vec![i; 400]))).collect();
    die_at_every_instruction(
        "a writer of little",
        5,
        vec![Work::Durable(insert("0", 20), 8)],
        vec![
            Work::Durable(insert("0", 20), 4),
            Work::Durable(insert("0", 20), 5),
            Work::GiveUp,
            Work::Change(vec![Operation::Clear, insert("xx001", 3)]),
        ],
    );
    die_at_every_instruction(
        "a writer of much",
        60,
        vec![],
        vec![
            Work::Change(vec![insert("new", 20)]),
            Work::Change(vec![insert("xx007", 30_000), Operation::Remove(b"xx011".to_vec())]),
            Work::Change(vec![Operation::Batch(batch)]),
            Work::Change(vec![Operation::Clear, insert("xx001", 3)]),
            // The table of pages gets its second block.
            Work::Change(vec![insert("large", 1 << 20)]),
        ],
    );
}

#[test]
fn who_changes_a_record_where_it_is_may_die_at_every_instruction() {
    let remove = |key: &str| Work::Single(Operation::Remove(key.into()));
    die_at_every_instruction(
        "a single change",
        5,
        vec![Work::Single(insert("0", 30)), Work::Single(insert("0", 9)), remove("0")],
        vec![Work::Single(insert("0", 90)), Work::Single(insert("3", 5))],
    );
    die_at_every_instruction(
        "a single change",
        60,
        vec![Work::Single(insert("3", 5))],
        vec![Work::Single(insert("0", 90)), remove("0"), remove("xx000")],
    );
}

#[test]
fn who_syncs_or_reads_may_die_at_every_instruction() {
    die_at_every_instruction("others", 5, vec![Work::Read], vec![Work::Sync]);
    die_at_every_instruction("others", 60, vec![], vec![Work::Sync, Work::Read]);
}

#[test]
fn who_compacts_may_die_at_every_instruction() {
    die_at_every_instruction("a compaction", 20, vec![Work::Compact, Work::CompactHeld], vec![]);
    die_at_every_instruction("a compaction", 100, vec![], vec![Work::Compact, Work::CompactHeld]);
}

/// A child's work: holds a snapshot, and says whether it is still the same, each time it is asked.
#[test]
fn child_holds() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let store = BTree::open(std::env::var("STORE").unwrap()).unwrap();
    let held = store.read().unwrap();
    let state = seen_by(&held).unwrap();
    println!("holding");
    for line in std::io::stdin().lines() {
        line.unwrap();
        println!("{}", if seen_by(&held).unwrap() == state { "same" } else { "changed" });
    }
}

#[test]
fn a_stopped_reader_keeps_its_state_and_a_dead_one_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let key = |i: u64| format!("key {i}").into_bytes();
    let churn = |turns: u64| {
        for turn in 0..turns {
            let mut transaction = store.write().unwrap();
            for i in 0..40u64 {
                transaction.main().insert(&key(i), &vec![turn as u8; 400 * i as usize]).unwrap();
            }
            transaction.commit().unwrap();
        }
        store.sync().unwrap();
    };
    churn(1);
    let mut lengths = Vec::new();
    for _ in 0..20 {
        let mut reader = child("child_holds");
        reader.env("STORE", &path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut reader = reader.spawn().unwrap();
        let mut answers = BufReader::new(reader.stdout.take().unwrap()).lines();
        let mut answer = |wanted: &str| {
            // The test harness of the child writes there, too.
            answers.find(|line| line.as_ref().unwrap().ends_with(wanted)).is_some()
        };
        assert!(answer("holding"));
        sys::signal(reader.id(), sys::SIGSTOP);
        churn(5);
        sys::signal(reader.id(), sys::SIGCONT);
        reader.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
        assert!(answer("same"), "what a stopped reader holds changed");
        sys::signal(reader.id(), sys::SIGSTOP);
        reader.kill().unwrap();
        reader.wait().unwrap();
        // Nobody asks who reads: the writers find out by themselves.
        churn(10);
        lengths.push(std::fs::metadata(&path).unwrap().len());
    }
    // Twenty dead readers, each of another state, hold no more than some.
    assert!(lengths[19] <= 2 * lengths[4], "the file grows: {lengths:?}");
    let stats = store.stats().unwrap();
    assert!(stats.readers.is_empty(), "a dead reader still holds: {stats:?}");
    state_of(&store, "at the end");
}

/// What a reader held who was killed is used before the file is made longer, however many of them there were.
#[test]
fn readers_that_are_killed_do_not_make_the_file_grow_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let mut rng = Rng::new(seed(0));
    let mut churn = |readers: u64| {
        for _ in 0..readers {
            let mut reader = sys::fork(|| std::mem::forget(store.read().unwrap()));
            assert_eq!(reader.wait(), sys::Status::Exited(0));
            for _ in 0..20 {
                let len = [100, 100, 9000][rng.below(3) as usize];
                store.insert(&rng.below(200).to_le_bytes(), &vec![1; len]).unwrap();
            }
        }
        std::fs::metadata(&path).unwrap().len()
    };
    let before = churn(300);
    let after = churn(900);
    assert!(after <= before + before / 4, "from {before} to {after} bytes");
    store.verify(|_, _| ()).unwrap();
}
