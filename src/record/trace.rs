//! Reading a trace.
//!
//! The heads of all blocks are read when it is opened; contents one after the other as entries are
//! asked for, at most one of each thread at a time. The file is read with `pread`, so that one that is
//! cut off meanwhile is an error.

use super::entry::Entry;
use super::format::{
    BLOCK_HEAD_BYTES, BlockHead, Content, Fixed, HEAD_BYTES, State, Stopped, begins_a_trace,
    sum_of, take, take_varint,
};
use crate::os::file::{open_regular, read_exact_at};
use crate::{Error, Result};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often a head is read of which a recorder may just be writing a part.
const TRIES: u32 = 5;

/// A store, or a table of one, that entries are about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracedStore {
    /// Its number in entries; one that was opened several times has as many.
    pub number: u32,
    /// "constant", "hash" or "btree".
    pub engine: String,
    /// Where it was; empty if it was in memory only.
    pub path: PathBuf,
    /// The name of the table; empty for the main one and where there are none.
    pub table: String,
}

/// A trace, open for reading.
///
/// ```no_run
/// use credenza::record::Trace;
/// for entry in Trace::open("users.trace")?.entries() {
///     let entry = entry?;
///     println!("{} ns: {} {}", entry.time, entry.action, entry.outcome);
/// }
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
pub struct Trace {
    file: File,
    path: PathBuf,
    fixed: Fixed,
    state: State,
    stores: Vec<TracedStore>,
    blocks: Vec<Block>,
    entries: u64,
    missing: u64,
    behind: u64,
}

/// A block with entries, and where its content lies.
#[derive(Clone, Copy, Debug)]
struct Block {
    at: u64,
    head: BlockHead,
}

impl Trace {
    /// Opens the trace at `path`: one that is complete, that is still recorded, or that a killed process
    /// left.
    ///
    /// # Errors
    /// The file is missing, may not be read, or is no trace; or its head, or that of a block, is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Trace> {
        let path = path.as_ref();
        Trace::read(path).map_err(|e| e.at(path))
    }

    /// Whether a file begins as a trace does; false if it cannot be read.
    pub fn is_trace(path: impl AsRef<Path>) -> bool {
        let mut magic = [0; 8];
        let opened = open_regular(path.as_ref());
        let read = opened.and_then(|(file, _)| read_exact_at(&file, &mut magic, 0));
        read.is_ok() && begins_a_trace(&magic)
    }

    fn read(path: &Path) -> Result<Trace> {
        let (file, meta) = open_regular(path)?;
        let (fixed, state) = read_head(&file, meta.len())?;
        // Asked for after the state was read: what that says is there.
        let len = file.metadata().map_err(|e| Error::io("ask the size of", e))?.len();
        let mut trace = Trace {
            file,
            path: path.to_owned(),
            fixed,
            state,
            stores: Vec::new(),
            blocks: Vec::new(),
            entries: 0,
            missing: state.end.saturating_sub(len),
            behind: len.saturating_sub(state.end),
        };
        trace.look_at_blocks(len)?;
        Ok(trace)
    }

    fn look_at_blocks(&mut self, len: u64) -> Result<()> {
        let end = self.state.end.min(len);
        let (mut at, mut blocks) = (HEAD_BYTES as u64, 0);
        while at < end {
            let mut head = [0; BLOCK_HEAD_BYTES];
            if end - at < BLOCK_HEAD_BYTES as u64 {
                return self.is_cut_off_at(at);
            }
            read_exact_at(&self.file, &mut head, at)?;
            let head = BlockHead::read(&head, at)?;
            let content = at + BLOCK_HEAD_BYTES as u64;
            if end - content < u64::from(head.len) {
                return self.is_cut_off_at(at);
            }
            let block = Block { at: content, head };
            match head.content {
                Content::Store => self.define(block)?,
                Content::Entries => {
                    self.entries += u64::from(head.count);
                    self.blocks.push(block);
                }
            }
            at = content + u64::from(head.len);
            blocks += 1;
        }
        if self.missing == 0 && (blocks, self.entries) != (self.state.blocks, self.state.entries) {
            let what = "there are other blocks than the head of the trace says";
            return Err(Error::corrupt(end, what));
        }
        Ok(())
    }

    /// A block goes beyond the end: fine if the file was cut off there.
    fn is_cut_off_at(&mut self, at: u64) -> Result<()> {
        if self.missing == 0 {
            return Err(Error::corrupt(at, "the block here is longer than the trace"));
        }
        self.missing = self.state.end - at;
        Ok(())
    }

    fn define(&mut self, block: Block) -> Result<()> {
        let body = self.content(block)?;
        let store = store_of(&mut &body[..]);
        let next = self.stores.len() as u32 + 1;
        let store = store.filter(|store| store.number == next && next <= self.state.stores);
        let what = "the block here names no store, or none that comes next";
        self.stores.push(store.ok_or_else(|| Error::corrupt(block.at, what))?);
        Ok(())
    }

    /// The content of a block, which fits its checksum.
    fn content(&self, block: Block) -> Result<Vec<u8>> {
        let mut body = vec![0; block.head.len as usize];
        read_exact_at(&self.file, &mut body, block.at)?;
        if sum_of(&body) == block.head.sum {
            return Ok(body);
        }
        let what = "the content of a block that begins here does not fit its checksum";
        Err(Error::corrupt(block.at, what))
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether all keys are hashed. Where they are not, those of more than 4096 bytes are all the same.
    pub fn is_hashed(&self) -> bool {
        self.fixed.is_hashed
    }

    /// When the recording began.
    pub fn begun(&self) -> SystemTime {
        let since = Duration::from_nanos(self.fixed.begun_at);
        SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// The stores and tables that entries are about, by their numbers, from 1.
    pub fn stores(&self) -> &[TracedStore] {
        &self.stores
    }

    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Why the recording ended before the programs did, and when, in nanoseconds after its beginning.
    pub fn stopped(&self) -> Option<(Stopped, u64)> {
        self.state.stopped
    }

    /// How many bytes at the end are not there, with the entries in them: the file was cut off. 0 if it
    /// is whole.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// How many bytes are in the file behind the trace's end, which are not read: half a block that a killed
    /// process left, or what somebody put there, as a second trace. 0 mostly; while it is recorded, what is
    /// just being written.
    pub fn behind(&self) -> u64 {
        self.behind
    }

    /// Every entry, in the order of time; those of one thread in the order in which its operations ended.
    /// An error ends it: a block whose content is damaged, which is named with its place.
    pub fn entries(&self) -> Entries<'_> {
        let mut threads: BTreeMap<(u32, u32), VecDeque<Block>> = BTreeMap::new();
        for block in &self.blocks {
            let thread = (block.head.process, block.head.thread);
            threads.entry(thread).or_default().push_back(*block);
        }
        let of_thread = |blocks| Thread { blocks, next: None, ..Thread::default() };
        let threads: Vec<Thread> = threads.into_values().map(of_thread).collect();
        let first = |(i, thread): (usize, &Thread)| {
            thread.blocks.front().map(|block| Reverse((block.head.time, i)))
        };
        let turns = threads.iter().enumerate().filter_map(first).collect();
        Entries { trace: self, threads, turns }
    }
}

/// Reads the head of a file that has so many bytes, whoever is just writing to it.
pub(super) fn read_head(file: &File, len: u64) -> Result<(Fixed, State)> {
    let mut head = vec![0; HEAD_BYTES.min(usize::try_from(len).unwrap_or(HEAD_BYTES))];
    let mut read = || {
        read_exact_at(file, &mut head, 0)?;
        Ok((Fixed::read(&head)?, State::read(&head)?))
    };
    // A recorder may be just writing how far it is, and half of that be seen.
    let again = (0..TRIES).find_map(|_| read().ok());
    again.map_or_else(read, Ok)
}

fn store_of(body: &mut &[u8]) -> Option<TracedStore> {
    let number = u32::try_from(take_varint(body)?).ok()?;
    let mut part = || {
        let len = take_varint(body)?;
        take(body, len)
    };
    let (engine, path, table) = (part()?, part()?, part()?);
    let text = |bytes: &[u8]| Some(str::from_utf8(bytes).ok()?.to_owned());
    let (engine, table) = (text(engine)?, text(table)?);
    let path = PathBuf::from(OsStr::from_bytes(path));
    body.is_empty().then_some(TracedStore { number, engine, path, table })
}

/// The entries of a trace; from [`Trace::entries`].
#[derive(Debug)]
pub struct Entries<'t> {
    trace: &'t Trace,
    threads: Vec<Thread>,
    /// When each thread's next entry is due.
    turns: BinaryHeap<Reverse<(u64, usize)>>,
}

/// What of a thread is still to come.
#[derive(Debug, Default)]
struct Thread {
    blocks: VecDeque<Block>,
    /// The entry after the one that was given last.
    next: Option<Entry>,
    /// The block that is being read, and where its content lies.
    block: Option<Block>,
    body: Vec<u8>,
    read: usize,
    left: u32,
    last: u64,
}

impl Thread {
    /// Reads the next entry, and gives the one before.
    fn step(&mut self, trace: &Trace) -> Result<Option<Entry>> {
        let given = self.next.take();
        if self.left == 0 {
            let Some(block) = self.blocks.pop_front() else {
                self.body = Vec::new();
                return Ok(given);
            };
            self.body = trace.content(block)?;
            (self.block, self.read) = (Some(block), 0);
            (self.left, self.last) = (block.head.count, block.head.time);
        }
        let Some(Block { at, head }) = self.block.filter(|_| self.left > 0) else {
            return Ok(given);
        };
        let mut rest = self.body.get(self.read..).unwrap_or_default();
        let before = rest.len();
        let entry = Entry::take(&mut rest, self.last, head.process, head.thread);
        let is_known = |entry: &Entry| (entry.store as usize) <= trace.stores.len();
        let place = at + self.read as u64;
        let what = "an entry here makes no sense to this program, which may be older than the one that recorded \
                    it, or is of a store that there is not";
        let entry = entry.filter(is_known).ok_or_else(|| Error::corrupt(place, what))?;
        self.read += before - rest.len();
        self.left -= 1;
        if self.left == 0 && !rest.is_empty() {
            return Err(Error::corrupt(place, "the block has more in it than its entries"));
        }
        self.last = entry.time;
        self.next = Some(entry);
        Ok(given)
    }
}

impl Entries<'_> {
    fn step(&mut self) -> Result<Option<Entry>> {
        loop {
            let Some(Reverse((_, i))) = self.turns.pop() else { return Ok(None) };
            let Some(thread) = self.threads.get_mut(i) else { return Ok(None) };
            let given = thread.step(self.trace)?;
            if let Some(next) = &thread.next {
                self.turns.push(Reverse((next.time, i)));
            } else if !thread.blocks.is_empty() {
                // A block without entries.
                self.turns.push(Reverse((0, i)));
            }
            if given.is_some() {
                return Ok(given);
            }
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.turns.clear();
        }
        step.map_err(|e| e.at(&self.trace.path)).transpose()
    }
}

impl std::iter::FusedIterator for Entries<'_> {}
