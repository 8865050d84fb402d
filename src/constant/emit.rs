//! From partitions to buckets.
//!
//! The entries of a run are sorted by hash, those of one hash staying in the order in which they
//! were added; that is the order of buckets, so they are then written from front to back. Entries
//! of the last group that a run reaches are carried into the next run, which may have more of it; of a
//! hash all are there by then, so a key with many values is carried as the one entry that it becomes.

use super::block::{self, Filled, Filler};
use super::bucket::{MAX_ENTRIES, REF_MARK, Shape, TAIL_BYTES, fingerprint};
use super::directory::{GROUP_BUCKETS, MAX_SPAN, Position, encode};
use super::format::{ALIGN, Addressing, Kind, Region};
use super::lanes::prefetch;
use super::lists::Lists;
use super::output::{RegionWriter, Sink};
use super::partition::{ENTRY_HEAD, Entry, LongRun, Partitions, Run};
use super::plan::Plan;
use super::rows::{ROW_BYTES, RowFiller};
use super::stats::Fill;
use crate::Result;
use crate::bytes::copy_short;
use crate::sort::sort_nearly_sorted;
use std::mem::take;

/// How far ahead of its use an entry is asked for: they lie in the order in which they came.
const AHEAD: usize = 12;

/// Ranges of hashes by which the entries of a bucket are counted: about as many as it has entries.
const RANGES: usize = 8;

/// An entry of the run in work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Item {
    pub hash: u64,
    /// Where in the run it begins; the values of one key alone may take more than 4 GiB.
    pub at: u64,
}

/// What was written.
#[derive(Debug)]
pub(crate) struct Emitted {
    pub directory: (Region, Vec<u64>),
    pub buckets: (Region, Vec<u64>),
    pub lists: Lists,
    pub fill: Fill,
    /// By how many blocks or rows an entry was moved on at most.
    pub chain: u64,
}

impl Emitted {
    /// Whether blocks were right for these records, which was planned from their mean size alone: not if lists took most
    /// of them out, which leaves blocks empty, or lie beyond what references can name. Rows are for all but lists, with
    /// which records are not of one size any more.
    pub(crate) fn suits(&self, plan: &Plan, records: u64) -> bool {
        if !matches!(plan.addressing, Addressing::Blocks(_)) {
            return true;
        }
        let places =
            1u64.checked_shl(plan.shape.ref_bits - 1).and_then(|places| places.checked_mul(ALIGN));
        let are_named = places.is_none_or(|end| self.lists.end() <= end);
        are_named && self.fill.entries() >= records / 2
    }
}

/// What makes that to which hashes lead by themselves.
#[derive(Debug)]
enum ByHash {
    /// A directory does.
    Nothing,
    Blocks(Filler),
    Rows(RowFiller),
}

/// Writes directory and buckets in order.
#[derive(Debug)]
pub(crate) struct Emitter<'a> {
    plan: Plan,
    sink: &'a Sink,
    directory: RegionWriter,
    buckets: RegionWriter,
    by_hash: ByHash,
    lists: Lists,
    next_group: u64,
    /// Entries left over from earlier runs, in the order in which they were added.
    carry: Vec<u8>,
    /// Reused by every run: the items before and after sorting, and the counters to sort them.
    unsorted: Vec<Item>,
    items: Vec<Item>,
    starts: Vec<u32>,
    /// Reused by every group: its bytes, and its rows.
    bytes: Vec<u8>,
    rows: Vec<u8>,
    fill: Fill,
}

impl<'a> Emitter<'a> {
    /// Writes the directory from `directory_at` on and the buckets right after it.
    pub(crate) fn new(plan: Plan, sink: &'a Sink, directory_at: u64, lists: Lists) -> Emitter<'a> {
        let buckets_at = directory_at + plan.directory_bytes();
        Emitter {
            plan,
            sink,
            directory: RegionWriter::new(directory_at),
            buckets: RegionWriter::new(buckets_at),
            by_hash: match plan.addressing {
                Addressing::Directory => ByHash::Nothing,
                Addressing::Blocks(blocks) => ByHash::Blocks(Filler::new(blocks)),
                Addressing::Rows(rows) => ByHash::Rows(RowFiller::new(rows)),
            },
            lists,
            next_group: 0,
            carry: Vec::new(),
            unsorted: Vec::new(),
            items: Vec::new(),
            starts: Vec::new(),
            bytes: vec![0; MAX_SPAN],
            rows: Vec::new(),
            fill: Fill::default(),
        }
    }

    /// Writes all entries; `progress` gets the number of entries done. `None` if keys crowd
    /// together under this hash and must be divided again under another.
    pub(crate) fn emit(
        mut self,
        parts: &Partitions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<Emitted>> {
        let mut done = 0;
        let fits = parts.for_each_run(|run| {
            let fits = match run {
                Run::Entries(run, high) => {
                    let fits = self.run(run, high, false)?;
                    done += self.items.len() as u64;
                    fits
                }
                Run::Long(long) => match self.long(&long)? {
                    Some(count) => {
                        done += count;
                        true
                    }
                    None => false,
                },
            };
            progress(done);
            Ok(fits)
        })?;
        if !fits || !self.run(&mut Vec::new(), u64::MAX, true)? {
            return Ok(None);
        }
        let Emitter { sink, directory, buckets, by_hash, fill, rows, plan, .. } = &mut self;
        let chain = match by_hash {
            ByHash::Nothing => 0,
            ByHash::Blocks(filler) => {
                filler
                    .finish(&mut |block, filled| put_block(sink, buckets, fill, block, filled))?;
                filler.chain
            }
            ByHash::Rows(filler) => {
                let count = plan.directory_bytes() / ROW_BYTES as u64;
                if !filler.finish(count, &mut |row, n| put_row(rows, fill, row, n)) {
                    return Ok(None);
                }
                directory.write(sink, rows)?;
                filler.chain
            }
        };
        self.buckets.write(self.sink, &[0; TAIL_BYTES])?;
        Ok(Some(Emitted {
            directory: self.directory.finish(self.sink)?,
            buckets: self.buckets.finish(self.sink)?,
            lists: self.lists,
            fill: self.fill,
            chain,
        }))
    }

    /// Writes the groups that only entries up to this run can be in, whose largest hash is at most
    /// `high`; false if one is too full.
    fn run(&mut self, run: &mut Vec<u8>, high: u64, last: bool) -> Result<bool> {
        let own = run.len();
        run.append(&mut self.carry);
        // The next run may have entries of the last group, too.
        let last_group = Position::of(high, self.plan.groups).group;
        self.sort(run, own, last_group);
        let end = last_group + u64::from(last);
        let items = take(&mut self.items);
        let starts = take(&mut self.starts);
        let mut buckets = starts.chunks_exact(RANGES).map(|ranges| {
            // After sorting, a range's counter says where it ends.
            ranges.last().map_or(0, |end| *end as usize)
        });
        let mut cursor = 0;
        while self.next_group < end {
            match self.group(run, &items, cursor, &mut buckets)? {
                Some(next) => cursor = next,
                None => return Ok(false),
            }
            self.next_group += 1;
        }
        drop(buckets);
        let fits = self.carry(run, items.get(cursor..).unwrap_or_default())?;
        (self.items, self.starts) = (items, starts);
        Ok(fits)
    }

    /// Keeps these items, which are sorted, for the next run; false if they are more than a group can have.
    fn carry(&mut self, run: &mut Vec<u8>, items: &[Item]) -> Result<bool> {
        let Some(items) = self.lists.replace(self.sink, run, items)? else { return Ok(false) };
        if items.len() > GROUP_BUCKETS as usize * MAX_ENTRIES {
            return Ok(false);
        }
        // Sorted by hash and then by age, these are in their order for each key, which is enough.
        for item in &*items {
            let at = item.at as usize;
            if let Some(entry) = Entry::at(run, at) {
                let bytes = run.get(at..at + entry.stored_bytes());
                self.carry.extend_from_slice(bytes.unwrap_or_default());
            }
        }
        Ok(true)
    }

    /// Makes a list of the entries of one hash, which all earlier runs come before, and carries what refers to it; how many
    /// they are, or `None` if they have several keys.
    fn long(&mut self, long: &LongRun) -> Result<Option<u64>> {
        // Lists lie in the order of hashes, too.
        if !self.run(&mut Vec::new(), long.hash, false)? {
            return Ok(None);
        }
        let Some((count, entry)) = self.lists.add_long(self.sink, long)? else { return Ok(None) };
        self.carry.extend_from_slice(&entry);
        Ok(Some(count))
    }

    /// Sorts what lies in `run`, the carried entries from `own` on first, by hash, stably: by
    /// counting how many are in each of several ranges of every bucket up to the last group, which
    /// leaves next to nothing for the insertion sort, and says where buckets begin.
    fn sort(&mut self, run: &[u8], own: usize, last_group: u64) {
        const GROUP_RANGES: u64 = GROUP_BUCKETS * RANGES as u64;
        // One multiplication does what `Position::of` does by two.
        let scale = u128::from(self.plan.groups * GROUP_RANGES);
        let base = self.next_group * GROUP_RANGES;
        let range = |hash| ((u128::from(hash) * scale) >> 64) as usize - base as usize;
        self.starts.clear();
        self.starts.resize((last_group + 1 - self.next_group) as usize * GROUP_RANGES as usize, 0);
        self.unsorted.clear();
        for (from, to) in [(own, run.len()), (0, own)] {
            let mut at = from;
            while at < to
                && let Some((hash, bytes)) = Entry::measure(run, at)
            {
                if let Some(count) = self.starts.get_mut(range(hash)) {
                    *count += 1;
                }
                self.unsorted.push(Item { hash, at: at as u64 });
                at += bytes;
            }
        }
        let mut sum = 0;
        for start in &mut self.starts {
            (*start, sum) = (sum, sum + *start);
        }
        self.items.clear();
        self.items.resize(self.unsorted.len(), Item::default());
        for item in &self.unsorted {
            let Some(start) = self.starts.get_mut(range(item.hash)) else { continue };
            if let Some(slot) = self.items.get_mut(*start as usize) {
                *slot = *item;
            }
            *start += 1;
        }
        sort_nearly_sorted(&mut self.items, |item| item.hash);
    }

    /// Writes the next group, from the item at `from` on, of which `buckets` says where they end;
    /// where the next one begins, or `None` if the group would be too large.
    fn group(
        &mut self,
        run: &mut Vec<u8>,
        items: &[Item],
        from: usize,
        buckets: &mut impl Iterator<Item = usize>,
    ) -> Result<Option<usize>> {
        let mut ends = [0; GROUP_BUCKETS as usize];
        let mut cursor = from;
        let mut used = 0;
        let homes = self.next_group * GROUP_BUCKETS..;
        for ((end, bucket_end), home) in ends.iter_mut().zip(buckets).zip(homes) {
            let own = items.get(cursor..bucket_end).unwrap_or_default();
            for ahead in items.iter().skip(cursor + AHEAD).take(own.len()) {
                prefetch(run, ahead.at as usize);
            }
            cursor = bucket_end;
            let Some(entries) = self.lists.replace(self.sink, run, own)? else {
                return Ok(None);
            };
            let entries = &*entries;
            match self.by_hash {
                ByHash::Nothing => {}
                ByHash::Blocks(_) => {
                    if !self.fill_blocks(run, entries)? {
                        return Ok(None);
                    }
                    continue;
                }
                ByHash::Rows(_) => {
                    if !self.fill_row(run, entries, home, &mut used)? {
                        return Ok(None);
                    }
                    continue;
                }
            }
            if entries.len() > MAX_ENTRIES {
                return Ok(None);
            }
            let room = self.bytes.get_mut(used..).unwrap_or_default();
            let len = match self.plan.shape.kind {
                // With lists, this attempt is to be repeated with another kind.
                Kind::Fixed { .. } if self.lists.is_empty() => {
                    put_fixed(&self.plan.shape, run, entries, room)
                }
                _ => put_bucket(&self.plan.shape, run, entries, room),
            };
            let Some(len) = len else { return Ok(None) };
            used += len;
            self.fill.count(entries.len());
            *end = used;
        }
        if let ByHash::Nothing = self.by_hash {
            self.directory.write(self.sink, &encode(self.buckets.position(), &ends))?;
        } else {
            self.directory.write(self.sink, &self.rows)?;
            self.rows.clear();
        }
        self.buckets.write(self.sink, self.bytes.get(..used).unwrap_or_default())?;
        Ok(Some(cursor))
    }

    /// Puts entries into blocks; false if one would have to be moved on by too many.
    fn fill_blocks(&mut self, run: &[u8], entries: &[Item]) -> Result<bool> {
        let Emitter { sink, buckets, by_hash, fill, plan, .. } = self;
        let ByHash::Blocks(filler) = by_hash else { return Ok(false) };
        let mut out = |block: &[u8], filled| put_block(sink, buckets, fill, block, filled);
        for item in entries {
            let Some(entry) = Entry::at(run, item.at as usize) else { return Ok(false) };
            let word;
            let (key_len, payload) = match entry.place() {
                None => (entry.key_len, entry.payload),
                Some(place) => {
                    word =
                        plan.shape.encode_ref(place & !7, place & 1 == 1, item.hash).to_le_bytes();
                    (REF_MARK, word.get(..plan.shape.ref_bytes).unwrap_or_default())
                }
            };
            let entry = block::Entry { hash: item.hash, key_len, payload };
            let added = filler.add(entry, &mut out)?;
            if !added {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts the records of a home to `used` and on, and entries into rows; false if one would have to be moved on by too
    /// many.
    #[inline]
    fn fill_row(
        &mut self,
        run: &[u8],
        entries: &[Item],
        home: u64,
        used: &mut usize,
    ) -> Result<bool> {
        let Emitter { sink, buckets, by_hash, fill, plan, bytes, rows, .. } = self;
        let ByHash::Rows(filler) = by_hash else { return Ok(false) };
        let size = plan.shape.entry_bytes;
        let need = entries.len() * size;
        if bytes.len() - *used < need {
            buckets.write(sink, bytes.get(..*used).unwrap_or_default())?;
            *used = 0;
        }
        let Some(mut rest) = bytes.get_mut(*used..*used + need) else { return Ok(false) };
        for item in entries {
            let at = item.at as usize + ENTRY_HEAD;
            // With lists, this attempt is to be repeated with another kind.
            let record = run.get(at..at + size);
            let (place, more) = rest.split_at_mut(size.min(rest.len()));
            if let Some(record) = record {
                copy_short(place, record);
            }
            rest = more;
        }
        *used += need;
        let mut out = |row, n| put_row(rows, fill, row, n);
        Ok(filler.add_home(home, entries.iter().map(|item| item.hash), &mut out))
    }
}

/// Adds a row to those of a group.
#[inline]
fn put_row(rows: &mut Vec<u8>, fill: &mut Fill, row: [u8; ROW_BYTES], n: usize) {
    fill.count(n);
    rows.extend_from_slice(&row);
}

/// Writes a block.
fn put_block(
    sink: &Sink,
    buckets: &mut RegionWriter,
    fill: &mut Fill,
    block: &[u8],
    Filled { n, slack }: Filled,
) -> Result<()> {
    fill.count(n);
    fill.pad(slack as u64);
    buckets.write(sink, block)
}

/// Writes a bucket of entries of one size to the front of `out`, as [`put_bucket`].
#[inline]
fn put_fixed(shape: &Shape, run: &[u8], items: &[Item], out: &mut [u8]) -> Option<usize> {
    let (prints, mut out) = out.split_at_mut_checked(items.len())?;
    for (print, item) in prints.iter_mut().zip(items) {
        *print = fingerprint(item.hash);
        let at = item.at as usize + ENTRY_HEAD;
        let (place, rest) = out.split_at_mut_checked(shape.entry_bytes)?;
        copy_short(place, run.get(at..at + shape.entry_bytes)?);
        out = rest;
    }
    Some(items.len() * (1 + shape.entry_bytes))
}

/// Writes a bucket to the front of `out`; its length, or `None` if there is not enough room.
#[inline]
fn put_bucket(shape: &Shape, run: &[u8], items: &[Item], out: &mut [u8]) -> Option<usize> {
    let n = items.len();
    if n == 0 {
        return Some(0);
    }
    let mixed = shape.kind == Kind::Mixed;
    let (head, out) = out.split_at_mut_checked(if mixed { 1 + 3 * n } else { n })?;
    let prints = if mixed { head.get_mut(1..1 + n)? } else { &mut *head };
    for (print, item) in prints.iter_mut().zip(items) {
        *print = fingerprint(item.hash);
    }
    if mixed {
        head[0] = n as u8;
    }
    let (head_len, mut used) = (head.len(), 0);
    let mut lens = head.get_mut(1 + n..).unwrap_or_default().split_at_mut_checked(n);
    for (i, item) in items.iter().enumerate() {
        let entry = Entry::at(run, item.at as usize)?;
        let word;
        let payload = match entry.place() {
            None => entry.payload,
            Some(place) => {
                word = shape.encode_ref(place & !7, place & 1 == 1, item.hash).to_le_bytes();
                word.get(..shape.ref_bytes)?
            }
        };
        if mixed && let Some((key_lens, sizes)) = &mut lens {
            key_lens[i] = if entry.place().is_some() { REF_MARK } else { entry.key_len };
            sizes[i] = payload.len() as u8;
        }
        copy_short(out.get_mut(used..used + payload.len())?, payload);
        used += payload.len();
    }
    Some(head_len + used)
}
