//! A hash store from end to end: sessions that several threads, or processes, read and change.
//!
//!     cargo run --example hash

use credenza::hash::{Batch, Hash};
use credenza::{Durability, Result};
use std::time::Duration;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().map_err(|e| credenza::Error::io("make a folder", e))?;
    tour(&folder.path().join("sessions"))
}

fn tour(path: &std::path::Path) -> Result<()> {
    // Changes are safe against the death of the process at once, and against the loss of power within a second;
    // who waits for a writer that stands still gives up after a minute.
    let sessions = Hash::options()
        .create(true)
        .durability(Durability::Interval(1000))
        .lock_timeout(Duration::from_secs(60))
        .open(path)?;

    sessions.insert(b"alice", b"reading")?;
    assert_eq!(sessions.get(b"alice")?.as_deref(), Some(&b"reading"[..]));
    assert!(!sessions.insert_if_absent(b"alice", b"new")?);
    // Nobody writes between what is read and what is written.
    sessions.update(b"alice", |old| old.map(|old| [old, b", writing"].concat()))?;

    // Any number of threads, and of other processes that open the file.
    std::thread::scope(|scope| {
        let visit = || (0..1000).try_for_each(|_| sessions.increment(b"visits", 1).map(drop));
        let visitors: Vec<_> = (0..4).map(|_| scope.spawn(visit)).collect();
        visitors.into_iter().try_for_each(|visitor| visitor.join().expect("it does not panic"))
    })?;
    assert_eq!(sessions.get(b"visits")?.as_deref(), Some(&b"4000"[..]));

    // All changes of a batch or of a transaction, or none; nobody sees a part of them.
    let mut batch = Batch::new();
    batch.insert(b"bob", b"reading").insert(b"carol", b"reading").remove(b"alice");
    sessions.batch(&batch)?;
    let mut transaction = sessions.transaction()?;
    if transaction.contains_key(b"bob")? {
        transaction.remove(b"bob")?;
        transaction.increment(b"gone", 1)?;
    }
    transaction.commit()?;

    // In no order that means anything, while others write.
    for record in sessions.iter() {
        let (key, value) = record?;
        println!("{}: {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }

    // A copy of one moment, and what is known of the file.
    sessions.backup(path.with_extension("copy"), |_, _| ())?;
    let stats = sessions.stats()?;
    println!(
        "{} records in {} bytes, {} of them dead",
        stats.records, stats.file_bytes, stats.dead_bytes
    );
    // On the disk now; without this, within a second.
    sessions.sync()?;
    sessions.verify(|_, _| ())
}
