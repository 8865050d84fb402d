//! Many records on their way into a table of a btree store, in one transaction.
//!
//! A thread of its own has the transaction, so that whoever brings the records may keep them coming
//! from wherever, and reads them while they are written. As long as they come in the order of their
//! keys, and the table was empty, they are a bulk load: each page is written once. From the first
//! that does not on they are put one by one.

use crate::btree::{BTree, Duplicates, MultiTableMut, TableMut, Transaction};
use crate::{Error, Result};
use std::ops::Range;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// A batch is handed over when it has so many bytes, or records.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_RECORDS: usize = 4096;
/// Batches that may wait.
const BATCHES: usize = 4;

/// Records on their way into a table of a btree store: they are all there when
/// [`BTreeLoad::finish`] returns, and none of them before. Dropped instead, it leaves the store as
/// it was. Of several records with one key the last is kept.
///
/// Other writers wait until it is finished or dropped. So would this thread for itself: it must not
/// have a transaction on the store meanwhile.
///
/// ```
/// use credenza::{BTreeLoad, btree::BTree};
/// let store = BTree::in_memory()?;
/// let mut load = BTreeLoad::begin(&store, None);
/// for n in 0..1000u32 {
///     load.add(format!("{n:03}").as_bytes(), b"value")?;
/// }
/// load.finish()?;
/// assert_eq!(store.read()?.main().len(), 1000);
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
pub struct BTreeLoad {
    sender: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Result<()>>>,
    batch: Batch,
}

#[derive(Debug)]
enum Message {
    Records(Batch),
    /// How many records replaced another so far?
    Count(Sender<u64>),
    /// Numbers of records up to this one were given.
    Numbers(u64),
    Commit,
}

/// Keys and values, one behind the other, and where each of them ends.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl BTreeLoad {
    /// Begins a load into the table of this name, which must be there, or into the main one.
    pub fn begin(store: &BTree, table: Option<&str>) -> BTreeLoad {
        let (sender, receiver) = sync_channel(BATCHES);
        let (store, table) = (store.clone(), table.map(str::to_owned));
        let write =
            move || write(&store, table.as_deref(), receiver).map_err(|error| store.named(error));
        let thread = Some(std::thread::spawn(write));
        BTreeLoad { sender: Some(sender), thread, batch: Batch::default() }
    }

    /// Adds a record; the value of a key that came before, or that the table has, is replaced, unless
    /// the table's keys may have several: then it is added to those.
    ///
    /// # Errors
    /// There is no such table; or this record, or one before, is over its limit; or the disk is full,
    /// or the store damaged. Nothing will be in the table then.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let Batch { bytes, ends } = &mut self.batch;
        bytes.extend_from_slice(key);
        let end_of_key = bytes.len();
        bytes.extend_from_slice(value);
        ends.push((end_of_key, bytes.len()));
        if bytes.len() < BATCH_BYTES && ends.len() < BATCH_RECORDS {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.send(Message::Records(batch))
    }

    fn send(&mut self, message: Message) -> Result<()> {
        let sender = self.sender.as_ref().ok_or_else(over)?;
        // Nobody listens any more only if there was an error.
        if sender.send(message).is_ok() { Ok(()) } else { self.end().and_then(|()| Err(over())) }
    }

    /// Where records are numbered: those that are appended later have numbers above this one, as it is
    /// the highest that was given where the records come from.
    ///
    /// # Errors
    /// As [`BTreeLoad::add`]; that records are not numbered is one of [`BTreeLoad::finish`].
    pub fn skip_numbers(&mut self, last: u64) -> Result<()> {
        self.send(Message::Numbers(last))
    }

    /// How many of the records added so far replaced one, be it that they had its key or that the
    /// table did.
    ///
    /// # Errors
    /// As [`BTreeLoad::add`].
    pub fn replaced(&mut self) -> Result<u64> {
        self.flush()?;
        let (sender, receiver) = channel();
        self.send(Message::Count(sender))?;
        match receiver.recv() {
            Ok(count) => Ok(count),
            Err(_) => self.end().and_then(|()| Err(over())),
        }
    }

    /// Commits what was added; it is durable as the store's options say.
    ///
    /// # Errors
    /// As [`BTreeLoad::add`] and [`Transaction::commit`].
    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.send(Message::Commit)?;
        self.end()
    }

    /// Waits for the thread; without [`Message::Commit`] it undoes what it did.
    fn end(&mut self) -> Result<()> {
        self.sender = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for BTreeLoad {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // It was told to forget what it has; whoever panicked there has said so.
            let _ = thread.join();
        }
    }
}

#[cold]
fn over() -> Error {
    Error::invalid("the load failed before: begin it anew")
}

/// What the thread does.
fn write(store: &BTree, table: Option<&str>, messages: Receiver<Message>) -> Result<()> {
    let mut transaction = store.write()?;
    let (batch, replaced, last_number, is_committed) = (Rc::default(), 0, None, false);
    let mut feed = Feed { messages, batch, next: 0, replaced, last_number, is_committed };
    match table {
        Some(name) if has_several_values(&mut transaction, name)? => {
            let table = transaction.multi_table(name)?;
            add_all(&mut table.ok_or_else(|| no_table(name))?, &mut feed)?;
        }
        Some(name) => {
            let table = transaction.table(name)?;
            put_all(&mut table.ok_or_else(|| no_table(name))?, &mut feed)?;
        }
        None => put_all(&mut transaction.main(), &mut feed)?,
    }
    if feed.is_committed { transaction.commit() } else { Ok(()) }
}

fn has_several_values(transaction: &mut Transaction<'_>, name: &str) -> Result<bool> {
    let options = transaction.table_options(name)?;
    Ok(options.is_some_and(|options| options.has_duplicates() != Duplicates::None))
}

#[cold]
fn no_table(name: &str) -> Error {
    Error::invalid(format!("there is no table {name:?}"))
}

fn put_all(table: &mut TableMut<'_, '_>, feed: &mut Feed) -> Result<()> {
    if table.is_empty() {
        let is_next = |last: &Record, next: &Record| last.0.as_ref() < next.0.as_ref();
        table.bulk_load(InOrder { feed, last: None, is_next })?;
    }
    while feed.is_at_record() {
        let (key, value) = feed.take();
        feed.replaced += u64::from(table.insert(key.as_ref(), value.as_ref())?);
    }
    feed.last_number.map_or(Ok(()), |last| table.skip_numbers(last))
}

/// The same where a key may have several values.
fn add_all(table: &mut MultiTableMut<'_, '_>, feed: &mut Feed) -> Result<()> {
    if table.is_empty() {
        let is_sorted = table.is_sorted();
        let is_next = |last: &Record, next: &Record| {
            let keys = last.0.as_ref().cmp(next.0.as_ref());
            let values = if is_sorted { last.1.as_ref() < next.1.as_ref() } else { true };
            keys.is_lt() || keys.is_eq() && values
        };
        table.bulk_load(InOrder { feed, last: None, is_next })?;
    }
    while feed.is_at_record() {
        let (key, value) = feed.take();
        table.insert(key.as_ref(), value.as_ref())?;
    }
    Ok(())
}

/// The records as they come.
struct Feed {
    messages: Receiver<Message>,
    batch: Rc<Batch>,
    /// The next record of the batch.
    next: usize,
    replaced: u64,
    last_number: Option<u64>,
    is_committed: bool,
}

impl Feed {
    /// Waits for a record; false at the end.
    fn is_at_record(&mut self) -> bool {
        while self.next >= self.batch.ends.len() {
            match self.messages.recv() {
                Ok(Message::Records(batch)) => (self.batch, self.next) = (Rc::new(batch), 0),
                // Who asked may be gone meanwhile.
                Ok(Message::Count(sender)) => drop(sender.send(self.replaced)),
                Ok(Message::Numbers(last)) => self.last_number = Some(last),
                Ok(Message::Commit) => {
                    self.is_committed = true;
                    return false;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// The record it is at.
    fn record(&self) -> Record {
        let ends = &self.batch.ends;
        let start = self.next.checked_sub(1).map_or(0, |before| ends[before].1);
        let (middle, end) = ends[self.next];
        let part = |range| Part { batch: Rc::clone(&self.batch), range };
        (part(start..middle), part(middle..end))
    }

    fn take(&mut self) -> Record {
        let record = self.record();
        self.next += 1;
        record
    }
}

/// A key or a value of a batch.
#[derive(Clone)]
struct Part {
    batch: Rc<Batch>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.batch.bytes[self.range.clone()]
    }
}

/// A key and its value.
type Record = (Part, Part);

/// The records up to the first that does not come next after the one before.
struct InOrder<'f, N> {
    feed: &'f mut Feed,
    last: Option<Record>,
    is_next: N,
}

impl<N: Fn(&Record, &Record) -> bool> Iterator for InOrder<'_, N> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.feed.is_at_record() {
            return None;
        }
        let record = self.feed.record();
        if self.last.as_ref().is_some_and(|last| !(self.is_next)(last, &record)) {
            return None;
        }
        self.feed.next += 1;
        self.last = Some(record.clone());
        Some(Ok(record))
    }
}
