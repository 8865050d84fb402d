//! Many records on their way into a table of a btree store, in one transaction.
//!
//! A thread of its own has the transaction, so that whoever brings the records may keep them coming
//! from wherever, and reads them while they are written. As long as they come in the order of their
//! keys, and the table was empty, they are a bulk load: each page is written once. What does not
//! come so is sorted first, all of it, and is a bulk load then; or, if the table has records, is put
//! one by one in order, which looks at each of its pages once.
//!
//! *Dropped*: putting them one by one as they come. It takes four times as long where memory has
//! room for the table, and where it has not each record is a page read and another written.
//!
//! Reading order: `batch`, `feed` (what the thread gets), `order`, `runs`, `sorter`.

mod batch;
mod feed;
mod order;
mod runs;
mod sorter;

use crate::btree::{
    BTree, Duplicates, KeyValue, MultiTableMut, TableMut, TableOptions, Transaction, not_numbered,
};
use crate::durability::OwnThread;
use crate::os::memory::own_memory_bytes;
use crate::os::place::Place;
use crate::{Error, Result};
use batch::{Batch, Record};
pub(crate) use feed::Listener;
use feed::{Feed, Message};
use order::Order;
use sorter::Sorter;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

/// Batches that may wait.
const BATCHES: usize = 4;
/// After how many records it is told how far it is.
const TOLD: u64 = 4096;
/// A sort that has less memory than this for each of its runs is slower than it saves.
const LEAST_BUDGET: u64 = 1 << 20;

/// Records on their way into a table of a btree store: they are all there when
/// [`BTreeLoad::finish`] returns, and none of them before. Dropped instead, it leaves the store as
/// it was. Of several records with one key the last is kept.
///
/// Other writers wait from the first records that are handed on, a few thousand at a time, until it is
/// finished or dropped. So would this thread for itself: it must not
/// have a transaction on the store when it hands records on or finishes, which is an error, nor begin
/// one before the load is over.
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
#[must_use = "nothing appears unless it is finished"]
pub struct BTreeLoad {
    /// Without [`Message::Commit`] it undoes what it did.
    thread: OwnThread<SyncSender<Message>, Result<()>>,
    batch: Batch,
    store: BTree,
    /// Why there is no thread, until that is told.
    refused: Option<Error>,
}

impl BTreeLoad {
    /// Begins a load into the table of this name, which must be there, or into the main one.
    pub fn begin(store: &BTree, table: Option<&str>) -> BTreeLoad {
        let beside = store.path().map(|path| Place::of(store.core().map.file(), path));
        BTreeLoad::begin_beside(store, table, beside)
    }

    /// The same where what does not fit in memory goes beside this place.
    pub(crate) fn begin_beside(
        store: &BTree,
        table: Option<&str>,
        beside: Option<Place>,
    ) -> BTreeLoad {
        let (sender, receiver) = sync_channel(BATCHES);
        let (of_thread, table) = (store.clone(), table.map(str::to_owned));
        let write = move || {
            let done = write(&of_thread, table.as_deref(), receiver, beside);
            done.map_err(|error| of_thread.named(error))
        };
        let (thread, refused) = match OwnThread::start(sender, write) {
            Ok(thread) => (thread, None),
            Err(error) => (OwnThread::none(), Some(store.named(error))),
        };
        BTreeLoad { thread, batch: Batch::default(), store: store.clone(), refused }
    }

    /// Bytes of memory for records that do not come in the order of their keys and wait to be sorted;
    /// what is over goes to an unnamed file beside the store, or stays in memory where the store does.
    /// A quarter of the machine's memory, or of what the process or its control group may have, unless said.
    /// Said before records are added: what has begun to be sorted goes on with what it had.
    ///
    /// # Errors
    /// As [`BTreeLoad::add`].
    pub fn memory_budget(&mut self, bytes: u64) -> Result<()> {
        self.send(Message::Budget(bytes.max(LEAST_BUDGET)))
    }

    /// Calls `f` now and then, on another thread, while records that had to be sorted are written: with
    /// how many are, and of how many.
    ///
    /// # Errors
    /// As [`BTreeLoad::add`].
    pub fn progress(&mut self, f: impl Fn(u64, u64) + Send + Sync + 'static) -> Result<()> {
        self.tell(Listener(Arc::new(f)))
    }

    pub(crate) fn tell(&mut self, listener: Listener) -> Result<()> {
        self.send(Message::Listener(listener))
    }

    /// Adds a record; the value of a key that came before, or that the table has, is replaced, unless
    /// the table's keys may have several: then it is added to those.
    ///
    /// # Errors
    /// There is no such table; or this record, or one before, is over its limit; or this thread has a
    /// transaction on the store; or the disk is full, or the store damaged. Nothing will be in the table then.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Err(error) = self.batch.push(key, value) {
            // Without a word it undoes what it did; what it says is that.
            let _ = self.end();
            return Err(error);
        }
        if self.batch.is_full() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.check_not_own()?;
        let batch = std::mem::take(&mut self.batch);
        self.send(Message::Records(batch))
    }

    fn send(&mut self, message: Message) -> Result<()> {
        if self.thread.is_of_parent() {
            let what = "this load was begun before the fork of this process: it is the parent's";
            return Err(Error::invalid(what));
        }
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let sender = self.thread.sender().ok_or_else(over)?;
        // Nobody listens any more only if there was an error.
        if sender.send(message).is_ok() { Ok(()) } else { self.end().and_then(|()| Err(over())) }
    }

    /// Where this thread has a transaction the other would wait for it, and this one for the other: the load is
    /// over instead, and undone as soon as that is.
    fn check_not_own(&mut self) -> Result<()> {
        self.store.core().check_not_own().map_err(|own| {
            self.thread.leave();
            self.store.named(own)
        })
    }

    /// Where records are numbered: those that are appended later have numbers above this one, as it is
    /// the highest that was given where the records come from.
    ///
    /// # Errors
    /// As [`BTreeLoad::add`]; that records are not numbered, or cannot have this number, is one of
    /// [`BTreeLoad::finish`].
    pub fn skip_numbers(&mut self, last: u64) -> Result<()> {
        self.send(Message::Numbers(last))
    }

    /// Has the load fail if its table is not of this kind when it begins to write: who made keys of numbers for a
    /// table must not put them into another that was made meanwhile. Said before records are added; the main
    /// table is always of one kind.
    ///
    /// # Errors
    /// As [`BTreeLoad::add`].
    pub fn check_kind(&mut self, options: TableOptions) -> Result<()> {
        self.send(Message::Kind(options))
    }

    /// How many of the records added so far replaced one, be it that they had its key or that the
    /// table did. To know it they are put in the table: asked before the last, it makes the load slower.
    ///
    /// # Errors
    /// As [`BTreeLoad::add`].
    pub fn replaced(&mut self) -> Result<u64> {
        self.count(Order::Keys)
    }

    /// How many of the records added so far, where the values of a key are sorted, have one that the key had already, be it
    /// in the table or from a record before: each is there once. To know it they are put in the table, as by
    /// [`BTreeLoad::replaced`].
    ///
    /// # Errors
    /// As [`BTreeLoad::add`].
    pub fn already_there(&mut self) -> Result<u64> {
        self.count(Order::Pairs)
    }

    /// How many records did not become one more so far, if the table takes them in this order.
    fn count(&mut self, wanted: Order) -> Result<u64> {
        self.flush()?;
        let (sender, receiver) = channel();
        self.send(Message::Count(sender))?;
        match receiver.recv() {
            Ok((order, count)) => Ok(if order == wanted { count } else { 0 }),
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
        match self.thread.end() {
            Some(Ok(done)) => done,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for BTreeLoad {
    fn drop(&mut self) {
        // Else it is waited for.
        let _ = self.check_not_own();
    }
}

fn over() -> Error {
    Error::failed_before("the load")
}

/// What the thread does.
fn write(
    store: &BTree,
    table: Option<&str>,
    messages: Receiver<Message>,
    beside: Option<Place>,
) -> Result<()> {
    let mut feed = Feed::new(messages, own_memory_bytes() / 4, beside);
    // Who brings the records may have to wait for them himself, and no other writer with him.
    feed.wait();
    if feed.is_abandoned {
        return Ok(());
    }
    let mut transaction = store.write()?;
    if let (Some(name), Some(wanted)) = (table, feed.kind.take())
        && transaction.table_options(name)?.is_some_and(|options| options != wanted)
    {
        return Err(Error::invalid(format!(
            "table {name:?} was made anew, as one of another kind: begin anew"
        )));
    }
    match table {
        Some(name) if has_several_values(&mut transaction, name)? => {
            let table = transaction.multi_table(name)?;
            put_all(&mut table.ok_or_else(|| no_table(name))?, &mut feed)?;
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

/// What records are put in.
trait Target {
    fn order(&self) -> Order;
    fn is_empty(&self) -> bool;
    fn bulk_load(&mut self, records: impl Iterator<Item = Result<Record>>) -> Result<()>;
    /// Puts one; whether it replaced another, or was there already.
    fn put(&mut self, record: &Record) -> Result<bool>;
    fn skip_numbers(&mut self, last: u64) -> Result<()>;
}

impl Target for TableMut<'_, '_> {
    fn order(&self) -> Order {
        Order::Keys
    }

    fn is_empty(&self) -> bool {
        TableMut::is_empty(self)
    }

    fn bulk_load(&mut self, records: impl Iterator<Item = Result<Record>>) -> Result<()> {
        self.load_all(records).map(drop)
    }

    fn put(&mut self, record: &Record) -> Result<bool> {
        let (key, value) = record.parts();
        self.insert(key, value)
    }

    fn skip_numbers(&mut self, last: u64) -> Result<()> {
        TableMut::skip_numbers(self, last)
    }
}

impl Target for MultiTableMut<'_, '_> {
    fn order(&self) -> Order {
        if self.is_sorted() { Order::Pairs } else { Order::Arrival }
    }

    fn is_empty(&self) -> bool {
        MultiTableMut::is_empty(self)
    }

    fn bulk_load(&mut self, records: impl Iterator<Item = Result<Record>>) -> Result<()> {
        self.load_all(records).map(drop)
    }

    /// A value is added to others, unless values are sorted, and it is among them.
    fn put(&mut self, record: &Record) -> Result<bool> {
        let (key, value) = record.parts();
        self.insert(key, value).map(|is_added| !is_added)
    }

    /// Records of which keys have several values never are numbered.
    fn skip_numbers(&mut self, _: u64) -> Result<()> {
        Err(not_numbered())
    }
}

/// Puts all records in a table, and answers who asks.
fn put_all(table: &mut impl Target, feed: &mut Feed) -> Result<()> {
    let mut not_more = 0;
    loop {
        not_more += put_some(table, feed)?;
        match feed.asked.take() {
            // Who asked may be gone meanwhile.
            Some(asked) => drop(asked.send((table.order(), not_more))),
            None => break,
        }
    }
    feed.last_number.map_or(Ok(()), |last| table.skip_numbers(last))
}

/// Puts records in a table until somebody asks or they end; how many replaced another, or were there already.
fn put_some(table: &mut impl Target, feed: &mut Feed) -> Result<u64> {
    let (order, mut not_more) = (table.order(), 0);
    if !table.is_empty() {
        for record in feed.in_order(order) {
            not_more += u64::from(table.put(&record?)?);
        }
    } else if feed.is_in_order(order) {
        table.bulk_load(feed.in_order(order))?;
    }
    let mut sorter = Sorter::new(order, feed.budget, feed.beside.clone());
    while let Some((batch, from)) = feed.next_batch() {
        sorter.add(batch, from)?;
    }
    if feed.is_abandoned {
        // Before all of it is sorted and written in vain.
        return Err(over());
    }
    let (total, mut done) = (sorter.len(), 0);
    let mut sorted = sorter.finish()?;
    let told = (&mut sorted).inspect(|_| {
        done += 1;
        if done % TOLD == 0 {
            feed.tell(done, total);
        }
    });
    if table.is_empty() {
        table.bulk_load(told)?;
    } else {
        for record in told {
            not_more += u64::from(table.put(&record?)?);
        }
    }
    Ok(not_more + sorted.replaced)
}
