//! The records as the thread that writes them gets them.

use super::batch::{Batch, Record};
use super::order::Order;
use crate::Result;
use crate::btree::{KeyValue, TableOptions};
use crate::os::place::Place;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// Who is told how many of how many records are written.
#[derive(Clone)]
pub(crate) struct Listener(pub Arc<dyn Fn(u64, u64) + Send + Sync>);

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

/// What is sent to the thread.
pub(super) enum Message {
    Records(Batch),
    /// So much memory for what must be sorted.
    Budget(u64),
    /// Whom to tell how far it is.
    Listener(Listener),
    /// How many records did not become one more so far, in a table of which order?
    Count(Sender<(Order, u64)>),
    /// Numbers of records up to this one were given.
    Numbers(u64),
    /// What the table must be.
    Kind(TableOptions),
    Commit,
}

/// So many bytes are looked at to see whether records come in order.
const LOOK_AHEAD: usize = 4 << 20;

/// The records as they come, up to the next question or the end.
pub(super) struct Feed {
    messages: Receiver<Message>,
    /// What was looked at and not taken.
    waiting: VecDeque<Rc<Batch>>,
    batch: Rc<Batch>,
    /// Where the next record of the batch begins.
    next: usize,
    pub budget: u64,
    /// Where what is over goes: beside this.
    pub beside: Option<Place>,
    pub listener: Option<Listener>,
    /// Who asked how many did not become one more.
    pub asked: Option<Sender<(Order, u64)>>,
    pub last_number: Option<u64>,
    pub kind: Option<TableOptions>,
    pub is_committed: bool,
    /// Whether who brought the records is gone without a word: none of them is wanted.
    pub is_abandoned: bool,
}

impl Feed {
    pub(super) fn new(messages: Receiver<Message>, budget: u64, beside: Option<Place>) -> Feed {
        let (waiting, batch, next) = (VecDeque::new(), Rc::default(), 0);
        Feed {
            messages,
            waiting,
            batch,
            next,
            budget,
            beside,
            listener: None,
            asked: None,
            last_number: None,
            kind: None,
            is_committed: false,
            is_abandoned: false,
        }
    }

    /// Waits for the next batch.
    fn receive(&mut self) -> Option<Rc<Batch>> {
        while self.asked.is_none() && !self.is_committed && !self.is_abandoned {
            let Ok(message) = self.messages.recv() else {
                self.is_abandoned = true;
                return None;
            };
            match message {
                Message::Records(batch) => return Some(Rc::new(batch)),
                Message::Budget(bytes) => self.budget = bytes,
                Message::Listener(listener) => self.listener = Some(listener),
                Message::Count(sender) => self.asked = Some(sender),
                Message::Numbers(last) => self.last_number = self.last_number.max(Some(last)),
                Message::Kind(options) => self.kind = Some(options),
                Message::Commit => self.is_committed = true,
            }
        }
        None
    }

    /// Waits for more records, a question or the end.
    pub(super) fn wait(&mut self) {
        let batch = self.receive();
        self.waiting.extend(batch);
    }

    /// Waits for a record; false at the end.
    fn is_at_record(&mut self) -> bool {
        while self.next >= self.batch.end() {
            let Some(batch) = self.waiting.pop_front().or_else(|| self.receive()) else {
                return false;
            };
            (self.batch, self.next) = (batch, 0);
        }
        true
    }

    /// Whether what comes next is in order, as far as it is looked at.
    pub(super) fn is_in_order(&mut self, order: Order) -> bool {
        let (mut batches, mut seen, mut last): (_, _, Option<Record>) = (0, 0, None);
        while seen < LOOK_AHEAD {
            if batches == self.waiting.len() {
                self.wait();
            }
            let Some(batch) = self.waiting.get(batches) else { return true };
            batches += 1;
            seen += batch.memory();
            let first = last.as_ref().map(Record::parts).into_iter();
            let mut newest = None;
            let starts = batch.starts(0).inspect(|at| newest = Some(*at));
            let records = first.chain(starts.map(|at| batch.get(at)));
            if !records.is_sorted_by(|last, next| order.is_next(*last, *next)) {
                return false;
            }
            last = newest.map(|at| Record::new(batch, at)).or(last);
        }
        true
    }

    /// Tells who listens how far it is.
    pub(super) fn tell(&self, done: u64, total: u64) {
        if let Some(Listener(listener)) = &self.listener {
            listener(done, total);
        }
    }

    /// The records up to the first that does not come next after the one before.
    pub(super) fn in_order(&mut self, order: Order) -> InOrder<'_> {
        InOrder { feed: self, last: None, order }
    }

    /// What is left of the batch that it is at, or the next one, and where in it that begins.
    pub(super) fn next_batch(&mut self) -> Option<(Rc<Batch>, usize)> {
        if !self.is_at_record() {
            return None;
        }
        let (batch, from) = (std::mem::take(&mut self.batch), self.next);
        self.next = 0;
        Some((batch, from))
    }
}

/// The records up to the first that does not come next after the one before.
pub(super) struct InOrder<'f> {
    feed: &'f mut Feed,
    last: Option<Record>,
    order: Order,
}

impl Iterator for InOrder<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.feed.is_at_record() {
            return None;
        }
        let next = Record::new(&self.feed.batch, self.feed.next);
        let is_next = |last: &Record| self.order.is_next(last.parts(), next.parts());
        if !self.last.as_ref().is_none_or(is_next) {
            return None;
        }
        self.feed.next = self.feed.batch.after(self.feed.next);
        self.last = Some(next.clone());
        Some(Ok(next))
    }
}
