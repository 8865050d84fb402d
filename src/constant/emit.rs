//! From partitions to blocks.
//!
//! Entries are sorted by home block within a run and given to blocks first come, first served: a
//! block takes the oldest entries whose home it or an earlier block is, until one does not fit;
//! that one and all after it wait for the next block. So equal keys, which have one home, stay in
//! their order, and what is left over at the end of a run is just carried into the next.

use super::block::{HEAD_BYTES, REF_MARK, fingerprint, home, overflow_bit};
use super::format::{Kind, MAX_CHAIN};
use super::lists::Lists;
use super::output::{RegionWriter, Sink};
use super::partition::{Entry, Partitions};
use super::plan::Plan;
use super::stats::Fill;
use super::view::{LANES, prefetch};
use crate::Result;
use std::mem::take;

/// How an attempt to write the blocks ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// All is written; the farthest record is this many blocks from its home.
    Done { longest_chain: u64, fill: Box<Fill> },
    /// Some keys crowd together under this hash: divide again under another.
    ChainTooLong,
}

/// An entry of the run in work, after sorting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Where in the run it begins.
    pub at: u32,
    /// Its home block, counted from the first home of the run.
    pub home: u32,
}

/// Writes blocks in order.
#[derive(Debug)]
pub(crate) struct Emitter<'a> {
    plan: Plan,
    sink: &'a Sink,
    blocks: RegionWriter,
    lists: Lists<'a>,
    next_block: u64,
    /// Entries left over from earlier runs, in their order.
    carry: Vec<u8>,
    /// Reused by every run.
    order: Vec<Place>,
    starts: Vec<u32>,
    longest_chain: u64,
    fill: Fill,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(
        plan: Plan,
        sink: &'a Sink,
        blocks: RegionWriter,
        lists: Lists<'a>,
    ) -> Emitter<'a> {
        Emitter {
            plan,
            sink,
            blocks,
            lists,
            next_block: 0,
            carry: Vec::new(),
            order: Vec::new(),
            starts: Vec::new(),
            longest_chain: 0,
            fill: Fill::default(),
        }
    }

    /// Writes all entries; `progress` gets the number of entries done.
    pub(crate) fn emit(
        mut self,
        parts: &Partitions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Outcome, RegionWriter, Lists<'a>)> {
        let mut done = 0;
        let mut too_long = false;
        parts.for_each_run(self.plan.home_blocks, |run| {
            if !too_long {
                too_long = !self.run(run, false)?;
                done += self.order.len() as u64;
                progress(done);
            }
            Ok(())
        })?;
        if !too_long {
            too_long = !self.run(&mut Vec::new(), true)?;
        }
        let (longest_chain, fill) = (self.longest_chain, Box::new(self.fill));
        let outcome =
            if too_long { Outcome::ChainTooLong } else { Outcome::Done { longest_chain, fill } };
        Ok((outcome, self.blocks, self.lists))
    }

    /// Emits the blocks that only entries up to this run can be in; false if a chain is too long.
    fn run(&mut self, run: &mut Vec<u8>, last: bool) -> Result<bool> {
        let own = run.len();
        run.append(&mut self.carry);
        let base = self.sort(run, own);
        let end = match self.order.last() {
            // The next run may have entries of the last home, too.
            Some(place) if !last => base + u64::from(place.home),
            _ => self.plan.home_blocks,
        };
        let mut order = take(&mut self.order);
        let mut cursor = 0;
        while self.next_block < end || (last && cursor < order.len()) {
            let block = self.next_block;
            let waiting = up_to(&order, cursor, block.wrapping_sub(base));
            self.lists.replace(&self.plan, self.sink, run, &mut order, block - base, waiting)?;
            let waiting = up_to(&order, cursor, block.wrapping_sub(base));
            let taken = self.block(run, order.get(cursor..waiting).unwrap_or_default())?;
            if let Some(first) = order.get(cursor) {
                let chain = block - (base + u64::from(first.home)).min(block);
                self.longest_chain = self.longest_chain.max(if taken > 0 { chain } else { 0 });
            }
            if self.longest_chain > MAX_CHAIN {
                return Ok(false);
            }
            cursor += taken;
            self.next_block += 1;
        }
        for place in order.get(cursor..).unwrap_or_default() {
            let at = place.at as usize;
            if let Some(entry) = Entry::at(run, at) {
                let bytes = run.get(at..at + entry.stored_bytes());
                self.carry.extend_from_slice(bytes.unwrap_or_default());
            }
        }
        self.order = order;
        Ok(true)
    }

    /// Sorts what lies in `run`, the carried entries from `own` on first, by home block, stably;
    /// returns the first home.
    fn sort(&mut self, run: &[u8], own: usize) -> u64 {
        let homes = self.plan.home_blocks;
        let ranges = [own..run.len(), 0..own];
        let each = |f: &mut dyn FnMut(u32, u64)| {
            for range in &ranges {
                let mut at = range.start;
                while at < range.end {
                    let Some(entry) = Entry::at(run, at) else { break };
                    f(at as u32, home(entry.hash, homes));
                    at += entry.stored_bytes();
                }
            }
        };
        let (mut base, mut top, mut count) = (u64::MAX, 0, 0usize);
        each(&mut |_, home| {
            base = base.min(home);
            top = top.max(home);
            count += 1;
        });
        self.order.clear();
        if count == 0 {
            return self.next_block;
        }
        // Blocks between the last run's and the first home of this one are empty.
        base = base.min(self.next_block);
        self.starts.clear();
        self.starts.resize((top - base) as usize + 2, 0);
        let starts = &mut self.starts;
        each(&mut |_, home| {
            if let Some(start) = starts.get_mut((home - base) as usize + 1) {
                *start += 1;
            }
        });
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += *start;
            *start = sum;
        }
        self.order.resize(count, Place::default());
        let order = &mut self.order;
        each(&mut |at, home| {
            let Some(start) = starts.get_mut((home - base) as usize) else { return };
            if let Some(place) = order.get_mut(*start as usize) {
                *place = Place { at, home: (home - base) as u32 };
            }
            *start += 1;
        });
        base
    }

    /// Writes one block from the waiting entries; returns how many it took.
    fn block(&mut self, run: &[u8], waiting: &[Place]) -> Result<usize> {
        let mut block = [0u8; 4096];
        let mut entries = [None; LANES];
        let mut used = HEAD_BYTES;
        let mut n = 0;
        for (place, slot) in waiting.iter().zip(&mut entries) {
            let Some(entry) = Entry::at(run, place.at as usize) else { break };
            let more = used + self.plan.entry_bytes(entry.key_len, entry.payload.len());
            if more > self.plan.shape.block_bytes {
                break;
            }
            used = more;
            *slot = Some(entry);
            n += 1;
        }
        let mut mask = 0;
        for place in waiting.iter().skip(n) {
            mask |= Entry::at(run, place.at as usize).map_or(0, |e| overflow_bit(e.hash));
        }
        prefetch(run, waiting.get(n).map_or(0, |p| p.at as usize));
        encode(&self.plan, entries.get(..n).unwrap_or_default(), mask, &mut block);
        let bytes = block.get(..self.plan.shape.block_bytes).unwrap_or_default();
        self.fill.count(n, used, bytes.len());
        self.blocks.write(self.sink, bytes)?;
        Ok(n)
    }
}

/// The end of the entries from `cursor` on whose home is `home` or earlier.
#[inline]
fn up_to(order: &[Place], cursor: usize, home: u64) -> usize {
    let mut end = cursor;
    while order.get(end).is_some_and(|place| u64::from(place.home) <= home) {
        end += 1;
    }
    end
}

/// Writes the bytes of a block; they are known to fit.
fn encode(plan: &Plan, entries: &[Option<Entry>], mask: u16, block: &mut [u8; 4096]) {
    let n = entries.len();
    block[0] = n as u8;
    block[1..HEAD_BYTES].copy_from_slice(&mask.to_le_bytes());
    let mixed = plan.shape.kind == Kind::Mixed;
    let mut at = HEAD_BYTES + if mixed { 3 * n } else { n };
    for (i, entry) in entries.iter().flatten().enumerate() {
        block[HEAD_BYTES + i] = fingerprint(entry.hash);
        let word;
        let payload = match entry.place() {
            None => entry.payload,
            Some(place) => {
                word = plan.shape.encode_ref(place & !7, place & 1 == 1, entry.hash).to_le_bytes();
                &word[..plan.shape.ref_bytes]
            }
        };
        if mixed {
            let key_len = if entry.place().is_some() { REF_MARK } else { entry.key_len };
            block[HEAD_BYTES + n + i] = key_len;
            block[HEAD_BYTES + 2 * n + i] = payload.len() as u8;
        }
        block[at..at + payload.len()].copy_from_slice(payload);
        at += payload.len();
    }
}
