//! Danger: who does not want to wait for others who write waits for ever, is told that it was not done what was, or
//! gives up where nobody writes any more.

mod common;

use common::ordered;
use common::sys::{self, Forked, Status, fork};
use credenza::btree::{self, BTree};
use credenza::hash::{self, Hash};
use credenza::{Durability, Error, ErrorKind, Result};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(250);
/// Far more than anything takes here: who waits so long waits for ever.
const LONG: Duration = Duration::from_secs(100);

/// An engine whose writers wait for each other.
trait Waiting: Clone + Send + Sized + 'static {
    fn open(path: &Path, timeout: Option<Duration>) -> Self;

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    fn value(&self, key: &[u8]) -> Option<Vec<u8>>;

    /// What waits for others beside `put`, each by itself.
    fn others(&self) -> Vec<(&'static str, Result<()>)>;

    /// Writes until `f` returns, and gives it up then.
    fn while_writing(&self, f: impl FnOnce());
}

impl Waiting for Hash {
    fn open(path: &Path, timeout: Option<Duration>) -> Hash {
        let options = hash::OpenOptions::new().create(true);
        timeout.into_iter().fold(options, hash::OpenOptions::lock_timeout).open(path).unwrap()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(key, value)
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get(key).unwrap().map(|value| value.to_vec())
    }

    fn others(&self) -> Vec<(&'static str, Result<()>)> {
        let mut batch = hash::Batch::new();
        batch.insert(b"other", b"1");
        vec![
            ("batch", self.batch(&batch)),
            ("transaction", self.transaction().map(drop)),
            ("remove", self.remove(b"key").map(drop)),
            ("update", self.update(b"key", |_| None).map(drop)),
            ("clear", self.clear()),
            ("compact", self.compact(1 << 20).map(drop)),
            ("sync", self.sync()),
            ("verify", self.verify(|_, _| ())),
            ("verify records", self.verify_records(|_, _| ())),
            (
                "backup",
                self.backup(self.path().unwrap().with_extension("copy"), |_, _| ()).map(drop),
            ),
        ]
    }

    fn while_writing(&self, f: impl FnOnce()) {
        let mut transaction = self.transaction().unwrap();
        transaction.insert(b"never", b"1").unwrap();
        f();
    }
}

impl Waiting for BTree {
    fn open(path: &Path, timeout: Option<Duration>) -> BTree {
        let options = btree::OpenOptions::new().create(true);
        timeout.into_iter().fold(options, btree::OpenOptions::lock_timeout).open(path).unwrap()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(key, value).map(drop)
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.read().unwrap().main().get(key).unwrap().map(<[u8]>::to_vec)
    }

    fn others(&self) -> Vec<(&'static str, Result<()>)> {
        vec![
            ("write", self.write().map(drop)),
            ("remove", self.remove(b"key").map(drop)),
            ("compact", self.compact(1 << 20).map(drop)),
            ("verify", self.verify(|_, _| ())),
        ]
    }

    fn while_writing(&self, f: impl FnOnce()) {
        let mut transaction = self.write().unwrap();
        transaction.main().insert(b"never", b"1").unwrap();
        f();
    }
}

/// What the error says of who writes: for how long he was waited for, and which process he is.
#[track_caller]
fn busy(error: &Error) -> (Duration, Option<u32>) {
    match error.kind() {
        ErrorKind::Busy { waited, process } => (*waited, *process),
        _ => panic!("{error}"),
    }
}

/// A process that writes until it is killed.
fn writer<S: Waiting>(path: &Path) -> Forked {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let process = fork(|| {
        sys::give_up_after(300);
        S::open(path, None).while_writing(|| {
            (&theirs).write_all(b"!").unwrap();
            thread::sleep(Duration::from_secs(300));
        });
    });
    drop(theirs);
    (&ours).read_exact(&mut [0]).expect("it writes");
    process
}

/// A thread that writes until `f` returns, and has begun to.
fn writing_thread<S: Waiting>(
    store: S,
    f: impl FnOnce() + Send + 'static,
) -> thread::JoinHandle<()> {
    let (begun, has_begun) = channel();
    let thread = thread::spawn(move || {
        store.while_writing(|| {
            begun.send(()).unwrap();
            f();
        });
    });
    has_begun.recv().unwrap();
    thread
}

fn another_process_is_given_up<S: Waiting>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let first = S::open(&path, None);
    first.put(b"key", b"old").unwrap();
    let mut process = writer::<S>(&path);
    let store = S::open(&path, Some(SHORT));
    let begun = Instant::now();
    let error = store.put(b"key", b"new").unwrap_err();
    let (waited, who) = busy(&error);
    assert!(waited >= SHORT && begun.elapsed() >= waited, "{waited:?}");
    assert_eq!(who, Some(process.pid()));
    let text = error.to_string();
    assert!(text.contains(&format!("for process {}, which is writing", process.pid())), "{text}");
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    for (what, done) in store.others() {
        let done = done.expect_err(what);
        assert!(busy(&done).0 >= SHORT, "{what}");
    }
    let at_once = S::open(&path, Some(Duration::ZERO));
    busy(&at_once.put(b"key", b"new").unwrap_err());
    // Who is stopped writes, too.
    sys::signal(process.pid(), libc::SIGSTOP);
    assert_eq!(process.wait(), Status::Stopped(libc::SIGSTOP));
    busy(&store.put(b"key", b"new").unwrap_err());
    assert_eq!(store.value(b"key").as_deref(), Some(&b"old"[..]), "nothing was changed");
    // Who was killed does not, and needs nobody's patience.
    process.kill();
    at_once.put(b"key", b"new").unwrap();
    assert_eq!(store.value(b"key").as_deref(), Some(&b"new"[..]));
    assert_eq!(store.value(b"never"), None);
    store.others().into_iter().for_each(|(what, done)| done.expect(what));
}

#[test]
fn another_process_that_writes_to_a_hash_store_is_given_up() {
    another_process_is_given_up::<Hash>();
}

#[test]
fn another_process_that_writes_to_a_btree_store_is_given_up() {
    another_process_is_given_up::<BTree>();
}

fn another_thread_is_waited_for<S: Waiting>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = S::open(&path, Some(SHORT));
    let patient = S::open(&path, Some(LONG));
    let (end, ends) = channel::<()>();
    let thread = writing_thread(store.clone(), move || ends.recv().unwrap());
    let error = store.put(b"key", b"value").unwrap_err();
    assert_eq!(busy(&error).1, Some(std::process::id()));
    assert!(error.to_string().contains("another thread of this process"), "{error}");
    // It is done before his time is over.
    let waiting = thread::spawn(move || patient.put(b"key", b"value"));
    thread::sleep(SHORT);
    end.send(()).unwrap();
    thread.join().unwrap();
    waiting.join().unwrap().unwrap();
    assert_eq!(store.value(b"key").as_deref(), Some(&b"value"[..]));
}

#[test]
fn another_thread_that_writes_to_a_hash_store_is_waited_for() {
    another_thread_is_waited_for::<Hash>();
}

#[test]
fn another_thread_that_writes_to_a_btree_store_is_waited_for() {
    another_thread_is_waited_for::<BTree>();
}

/// The change is made when its sync finds that somebody else writes: the error says that, and not that nothing was changed.
#[test]
fn what_is_done_is_not_called_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = || hash::OpenOptions::new().create(true).durability(Durability::Sync);
    let store = options().lock_timeout(Duration::from_millis(1)).open(&path).unwrap();
    let other = Hash::open(&path).unwrap();
    let begun = Instant::now();
    let mut number = 0u64;
    // Somebody begins a transaction now and then, until one falls between a change and its sync.
    let (end, ends) = channel::<()>();
    let writer = thread::spawn(move || {
        while ends.try_recv().is_err() {
            let transaction = other.transaction().unwrap();
            thread::sleep(Duration::from_millis(20));
            drop(transaction);
            thread::sleep(Duration::from_micros(300));
        }
    });
    let refused = loop {
        assert!(begun.elapsed() < LONG, "no transaction came between");
        number += 1;
        match store.insert(b"key", &number.to_le_bytes()) {
            Err(error) if !matches!(error.kind(), ErrorKind::Busy { .. }) => break error,
            Err(_) => {
                let value = store.get(b"key").unwrap().map(|value| value.to_vec());
                assert_ne!(value.as_deref(), Some(&number.to_le_bytes()[..]), "it was refused");
            }
            Ok(()) => {}
        }
    };
    end.send(()).unwrap();
    writer.join().unwrap();
    assert!(refused.to_string().contains("cannot make durable: "), "{refused}");
    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&number.to_le_bytes()[..]));
    store.sync().unwrap();
}

/// Who has the turn to sync may wait for a transaction for ever; who comes after him does not, if he said so.
#[test]
fn who_waits_for_a_turn_to_sync_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let patient = <Hash as Waiting>::open(&path, None);
    let hasty = <Hash as Waiting>::open(&path, Some(SHORT));
    patient.insert(b"key", b"value").unwrap();
    let first = patient.clone();
    let mut syncs = None;
    patient.while_writing(|| {
        syncs = Some(thread::spawn(move || first.sync()));
        // Perhaps it comes later: then the other one waits for the transaction itself.
        thread::sleep(SHORT);
        let second = hasty.clone();
        let begun = Instant::now();
        busy(&thread::spawn(move || second.sync().unwrap_err()).join().unwrap());
        assert!(begun.elapsed() < LONG / 2);
    });
    syncs.unwrap().join().unwrap().unwrap();
    hasty.sync().unwrap();
}

/// Nobody sees what the thread gets that syncs now and then: it does not give up.
#[test]
fn what_is_synced_now_and_then_is_so_beside_others_who_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = hash::OpenOptions::new().create(true).durability(Durability::Interval(1));
    let store = options.lock_timeout(Duration::ZERO).open(&path).unwrap();
    let other = Hash::open(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    let begun = Instant::now();
    while store.stats().unwrap().durable_changes == 0 {
        let transaction = other.transaction().unwrap();
        thread::sleep(Duration::from_millis(5));
        drop(transaction);
        assert!(begun.elapsed() < LONG, "it was never synced");
    }
}

/// A reader that needs the lock, as all slots are taken, waits for it.
#[test]
fn who_only_reads_is_not_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = <BTree as Waiting>::open(&path, Some(Duration::ZERO));
    store.insert(b"key", b"value").unwrap();
    let writer = <BTree as Waiting>::open(&path, None);
    let thread = writing_thread(writer, || thread::sleep(SHORT));
    let snapshots: Vec<_> = (0..100).map(|_| store.read().unwrap()).collect();
    assert!(snapshots.iter().all(|snapshot| snapshot.main().len() == 1));
    thread.join().unwrap();
}

/// Else it would begin at the first table each time, and never come to an end.
#[test]
fn a_compaction_that_gave_up_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (store, other) = (
        <BTree as Waiting>::open(&path, Some(Duration::from_millis(1))),
        <BTree as Waiting>::open(&path, None),
    );
    let mut transaction = other.write().unwrap();
    for number in 0..20_000 {
        transaction.main().insert(&ordered(number), &[1; 100]).unwrap();
    }
    let cuts = (0..20_000).filter(|number| number % 4 > 0);
    cuts.for_each(|number| assert!(transaction.main().remove(&ordered(number)).unwrap()));
    transaction.commit().unwrap();
    let mut steps = 0;
    while store.compact(64 << 10).unwrap() {
        steps += 1;
        other.while_writing(|| {
            thread::scope(|scope| {
                let given_up = scope.spawn(|| store.compact(64 << 10).unwrap_err()).join().unwrap();
                busy(&given_up);
            });
        });
        assert!(steps < 10_000, "it never ends");
    }
    assert!(steps > 3, "{steps} steps");
}

/// The last sync of a store that is synced now and then is no reason to wait for whoever has a transaction.
#[test]
fn who_closes_a_store_does_not_wait_for_the_transaction_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = hash::OpenOptions::new().create(true);
    let store = options.durability(Durability::Interval(3_600_000)).open(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    let mut process = writer::<Hash>(&path);
    let begin = Instant::now();
    drop(store);
    assert!(begin.elapsed() < LONG, "{:?}", begin.elapsed());
    process.kill();
    assert_eq!(Hash::open(&path).unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}
