//! The records of a build, divided by the top bits of their hashes, in memory or spilled.
//!
//! Invariant: within a partition, entries keep the order in which they were added; so equal keys,
//! which share a partition, do too, whatever was spilled when. Spilling therefore never changes
//! the file that is built.
//!
//! ```text
//! entry: hash (8) | key length or REF_MARK (1) | size of the payload (1) | payload
//! payload: key and value, or the place in the log (8)
//! ```

use super::bucket::REF_MARK;
use super::directory::Position;
use super::lanes::prefetch;
use crate::bytes::copy_short;
use crate::os::file::{read_exact_at, write_all_at};
use crate::os::map::{anonymous_buffer, back, with_small_pages};
use crate::os::place::Place;
use crate::os::publish::scratch_beside;
use crate::{Error, Result};
use memmap2::MmapMut;
use std::fs::File;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Bytes of an entry before its payload.
pub(crate) const ENTRY_HEAD: usize = 10;
/// Bytes of a line of the caches.
const LINE: usize = 64;
/// Partitions: few enough that the ends of all of them, which are written in turn, stay in the
/// first-level cache.
pub(crate) const PARTITIONS: usize = 256;
/// Less memory than this makes no sense: the pieces of all partitions alone take it.
pub(crate) const MIN_BUDGET_BYTES: u64 = 8 << 20;
/// Smallest and largest piece in which a partition grows, by an eighth of what it has: half of the last one stays empty,
/// and pages are a third of a build. By a half of it adding small records took a tenth longer, by a sixteenth as long.
const CHUNK_BYTES: (usize, usize) = (256, 64 << 10);
/// Buffer from which such pieces are cut: a huge page.
const SLAB_BYTES: usize = 2 << 20;
/// So much of it is backed with pages at a time.
const BACKED_BYTES: usize = 128 << 10;
/// From so many bytes of them on, huge pages are tried: a small build is not to wait for one.
const HUGE_FROM: usize = SLAB_BYTES;
/// So many ranges for each time that a partition is too large are looked at, so that few of them together are nearly the
/// limit.
const RANGES_FOR_LIMIT: u64 = 4;
/// Small pages take half as long for such a buffer.
const SLOW: Duration = Duration::from_millis(1);

/// One record of the build, as a partition keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub hash: u64,
    /// The key's length, or [`REF_MARK`].
    pub key_len: u8,
    pub payload: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry that begins at `at`; partitions hold nothing but whole entries.
    #[inline(always)]
    pub(crate) fn at(bytes: &'a [u8], at: usize) -> Option<Entry<'a>> {
        let head = bytes.get(at..)?.first_chunk::<ENTRY_HEAD>()?;
        let hash = u64::from_le_bytes(*head.first_chunk()?);
        let [.., key_len, size] = *head;
        let payload = bytes.get(at + ENTRY_HEAD..at + ENTRY_HEAD + usize::from(size))?;
        Some(Entry { hash, key_len, payload })
    }

    /// The hash of the entry that begins at `at`, and its bytes.
    #[inline(always)]
    pub(crate) fn measure(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
        let head = bytes.get(at..)?.first_chunk::<ENTRY_HEAD>()?;
        Some((u64::from_le_bytes(*head.first_chunk()?), ENTRY_HEAD + usize::from(head[9])))
    }

    /// The place in the log, of a reference.
    pub(crate) fn place(&self) -> Option<u64> {
        if self.key_len != REF_MARK {
            return None;
        }
        self.payload.first_chunk().map(|place| u64::from_le_bytes(*place))
    }

    /// Bytes in the partition.
    #[inline(always)]
    pub(crate) fn stored_bytes(&self) -> usize {
        ENTRY_HEAD + self.payload.len()
    }
}

/// A piece of a slab, used up to `len`.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    slab: usize,
    at: usize,
    capacity: usize,
    len: usize,
}

/// The entries of one range of hashes.
#[derive(Debug, Default)]
struct Partition {
    /// The piece that grows. An entry lies whole in one piece.
    open: Chunk,
    /// Full pieces, oldest first.
    full: Vec<Chunk>,
    /// Bytes of all of its pieces.
    held: usize,
    /// Where older pieces lie in the scratch file: offset and length, oldest first.
    spilled: Vec<(u64, usize)>,
}

impl Partition {
    /// Its pieces in memory, oldest first.
    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.full.iter().chain([&self.open])
    }

    /// Bytes of its entries.
    fn bytes(&self) -> usize {
        let spilled: usize = self.spilled.iter().map(|(_, len)| len).sum();
        spilled + self.chunks().map(|chunk| chunk.len).sum::<usize>()
    }
}

/// Buffers, of which pieces are cut from front to back.
#[derive(Debug, Default)]
struct Slabs {
    buffers: Vec<MmapMut>,
    /// Bytes of the last buffer that are taken, that are backed with pages, and that are backed at a time.
    taken: usize,
    backed: usize,
    step: usize,
    /// Bytes of all of them.
    bytes: usize,
    /// Whether a huge page took its time: a virtual machine whose host has no memory behind one yet took 4.9 ms for
    /// it, where small ones that were used before take 0.5, and huge ones else 0.2. There are no more of them then.
    huge_is_slow: bool,
}

impl Slabs {
    /// A new piece of `size` bytes.
    fn cut(&mut self, size: usize) -> Result<Chunk> {
        if self.buffers.last().is_none_or(|last| last.len() - self.taken < size) {
            self.add(SLAB_BYTES.max(size))?;
        }
        let at = self.taken;
        self.taken += size;
        if self.taken > self.backed {
            self.back_more();
        }
        Ok(Chunk { slab: self.buffers.len() - 1, at, capacity: size, len: 0 })
    }

    fn add(&mut self, size: usize) -> Result<()> {
        let is_huge = self.bytes >= HUGE_FROM && size == SLAB_BYTES && !self.huge_is_slow;
        // Kernels before 6.7 do not begin maps where a huge page may: of two, one at least is there.
        let size = if is_huge { 2 * size } else { size };
        self.buffers.push(anonymous_buffer(size, is_huge)?);
        self.step = if is_huge { SLAB_BYTES } else { BACKED_BYTES };
        (self.taken, self.backed, self.bytes) = (0, 0, self.bytes + size);
        Ok(())
    }

    /// Has what is taken be backed.
    #[cold]
    fn back_more(&mut self) {
        let Some(last) = self.buffers.last() else { return };
        let (start, end) = (Instant::now(), self.taken.next_multiple_of(self.step).min(last.len()));
        back(last, self.backed..end);
        self.backed = end;
        if self.step == SLAB_BYTES && start.elapsed() > SLOW {
            (self.huge_is_slow, self.step) = (true, BACKED_BYTES);
            with_small_pages(last, end..last.len());
        }
    }

    fn used(&self, chunk: &Chunk) -> &[u8] {
        let slab = self.buffers.get(chunk.slab);
        slab.and_then(|slab| slab.get(chunk.at..chunk.at + chunk.len)).unwrap_or_default()
    }
}

/// All partitions of a build.
#[derive(Debug)]
pub(crate) struct Partitions {
    parts: Box<[Partition; PARTITIONS]>,
    slabs: Slabs,
    /// Memory held by the pieces.
    held: u64,
    budget: u64,
    /// Where to spill: beside this path, which is where room for the result must be anyway.
    beside: Option<Place>,
    scratch: Option<File>,
    scratch_len: u64,
}

impl Partitions {
    /// Empty, to hold at most `budget` bytes in memory if there is a path to spill beside.
    pub(crate) fn new(budget: u64, beside: Option<Place>) -> Partitions {
        Partitions {
            parts: Box::new(std::array::from_fn(|_| Partition::default())),
            slabs: Slabs::default(),
            held: 0,
            budget,
            beside,
            scratch: None,
            scratch_len: 0,
        }
    }

    /// A new set within what is left of the budget, to divide the entries again by another hash.
    pub(crate) fn empty_like(&self) -> Partitions {
        let left = self.budget.saturating_sub(self.held).max(MIN_BUDGET_BYTES);
        Partitions::new(left, self.beside.clone())
    }

    /// Adds an entry whose payload is the two pieces together, at most 255 bytes.
    #[inline]
    pub(crate) fn push(&mut self, hash: u64, key_len: u8, a: &[u8], b: &[u8]) -> Result<()> {
        let size = a.len() + b.len();
        let need = ENTRY_HEAD + size;
        let index = (hash >> (64 - PARTITIONS.trailing_zeros())) as usize % PARTITIONS;
        if self.parts[index].open.capacity - self.parts[index].open.len < need {
            self.grow(index, need)?;
        }
        let open = &mut self.parts[index].open;
        let slab = self.slabs.buffers.get_mut(open.slab);
        let rest = slab.and_then(|slab| slab.get_mut(open.at + open.len..));
        if let Some((place, ahead)) = rest.and_then(|rest| rest.split_at_mut_checked(need))
            && let Some((head, payload)) = place.split_first_chunk_mut::<ENTRY_HEAD>()
        {
            head[..8].copy_from_slice(&hash.to_le_bytes());
            head[8..].copy_from_slice(&[key_len, size as u8]);
            let (key, value) = payload.split_at_mut(a.len());
            copy_short(key, a);
            copy_short(value, b);
            open.len += need;
            // The next entry of this partition comes long after the line that it begins: by then it is here.
            prefetch(ahead, LINE);
        }
        Ok(())
    }

    /// Gives a partition room for `need` more bytes; spills all of them when that was too much.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, index: usize, need: usize) -> Result<()> {
        if self.held > self.budget {
            self.spill()?;
        }
        let part = &mut self.parts[index];
        let size = (part.held / 8).clamp(CHUNK_BYTES.0, CHUNK_BYTES.1).max(need);
        let size = size.next_multiple_of(LINE);
        let open = std::mem::replace(&mut part.open, self.slabs.cut(size)?);
        if open.len > 0 {
            part.full.push(open);
        }
        part.held += size;
        self.held += size as u64;
        Ok(())
    }

    /// When all entries are there: of those that do not fit in memory none stays in it, as reading them back takes
    /// as much again.
    pub(crate) fn make_room(&mut self) -> Result<()> {
        if self.scratch.is_some() { self.spill() } else { Ok(()) }
    }

    /// Writes everything in memory to the scratch file.
    fn spill(&mut self) -> Result<()> {
        let Some(beside) = &self.beside else { return Ok(()) };
        let at = |action| move |e| Error::io(action, e).at(beside.path());
        let scratch = match &self.scratch {
            Some(scratch) => scratch,
            None => self.scratch.insert(scratch_beside(beside)?),
        };
        // One write for a run of partitions: their pieces are small.
        let mut buffer = Vec::with_capacity(1 << 20);
        let mut written = self.scratch_len;
        for part in &mut *self.parts {
            let start = written + buffer.len() as u64;
            for chunk in part.chunks() {
                buffer.extend_from_slice(self.slabs.used(chunk));
            }
            part.full.clear();
            (part.open, part.held) = (Chunk::default(), 0);
            let len = (written + buffer.len() as u64 - start) as usize;
            if len > 0 {
                part.spilled.push((start, len));
            }
            if buffer.len() >= 1 << 20 {
                write_all_at(scratch, &buffer, written).map_err(at("spill to a file beside"))?;
                written += buffer.len() as u64;
                buffer.clear();
            }
        }
        write_all_at(scratch, &buffer, written).map_err(at("spill to a file beside"))?;
        self.scratch_len = written + buffer.len() as u64;
        self.slabs.buffers.clear();
        (self.slabs.taken, self.slabs.backed, self.slabs.bytes) = (0, 0, 0);
        self.held = 0;
        Ok(())
    }

    /// All entries, partition by partition and in each in the order in which they were added.
    pub(crate) fn for_each_entry(&self, mut f: impl FnMut(Entry) -> Result<()>) -> Result<()> {
        for part in &*self.parts {
            self.for_each_piece(part, |piece| {
                let mut at = 0;
                while let Some(entry) = Entry::at(piece, at) {
                    at += entry.stored_bytes();
                    f(entry)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The entries in the order of their groups' ranges, a run at a time: `f` gets all entries of
    /// a partition whose groups are in one range, and the largest hash they can have. Runs are
    /// whole partitions, or, where one is larger than the budget allows, parts of it.
    pub(crate) fn for_each_run(
        &self,
        groups: u64,
        mut f: impl FnMut(&mut Vec<u8>, u64) -> Result<()>,
    ) -> Result<()> {
        let limit = usize::try_from(self.budget / 4).unwrap_or(usize::MAX).clamp(1 << 20, 1 << 30);
        let shift = 64 - PARTITIONS.trailing_zeros();
        let group = |hash| Position::of(hash, groups).group;
        let mut run = Vec::new();
        for (index, part) in (0u64..).zip(&*self.parts) {
            let high = (index << shift) | (u64::MAX >> (64 - shift));
            let whole = group(index << shift)..group(high) + 1;
            let ranges = self.ranges(part, whole, limit, group)?;
            let is_whole = ranges.len() == 1;
            for range in ranges {
                run.clear();
                self.for_each_piece(part, |piece| {
                    if is_whole {
                        run.extend_from_slice(piece);
                    } else {
                        keep(piece, &mut run, |hash| range.contains(&group(hash)));
                    }
                    Ok(())
                })?;
                if !run.is_empty() {
                    // The first hash of group g is g * 2^64 / groups, rounded up.
                    let next = u128::from(range.end) << 64;
                    let below = next.div_ceil(u128::from(groups)) - 1;
                    f(&mut run, high.min(u64::try_from(below).unwrap_or(u64::MAX)))?;
                }
            }
        }
        Ok(())
    }

    /// The ranges of groups in which a partition is taken, each with at most about `limit` bytes, but for those of keys with
    /// many values. A
    /// large partition is read once for each, which is sequential and needs no further files; and once before, to see where
    /// they are: those of one key with many values are all in one group, and ranges without any would be as many.
    fn ranges(
        &self,
        part: &Partition,
        whole: Range<u64>,
        limit: usize,
        group: impl Fn(u64) -> u64,
    ) -> Result<Vec<Range<u64>>> {
        let count = whole.end - whole.start;
        let narrow = (RANGES_FOR_LIMIT * part.bytes().div_ceil(limit) as u64).min(count);
        if part.bytes() <= limit || narrow == 1 {
            return Ok(vec![whole]);
        }
        let mut bytes = vec![0; narrow as usize];
        self.for_each_piece(part, |piece| {
            let mut at = 0;
            while let Some((hash, len)) = Entry::measure(piece, at) {
                let range = u128::from(group(hash) - whole.start) * u128::from(narrow);
                bytes[(range / u128::from(count)) as usize] += len;
                at += len;
            }
            Ok(())
        })?;
        let bound = |range: u64| {
            let before = u128::from(range) * u128::from(count);
            whole.start + before.div_ceil(u128::from(narrow)) as u64
        };
        let (mut ranges, mut start, mut sum) = (Vec::new(), whole.start, 0);
        for (range, bytes) in (0u64..).zip(bytes) {
            if sum > 0 && bytes > 0 && sum + bytes > limit {
                ranges.push(start..bound(range));
                (start, sum) = (bound(range), 0);
            }
            sum += bytes;
        }
        ranges.push(start..whole.end);
        Ok(ranges)
    }

    /// The pieces of a partition, oldest first, those that were spilled read back.
    fn for_each_piece(
        &self,
        part: &Partition,
        mut f: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut piece = Vec::new();
        for (at, len) in &part.spilled {
            let Some(scratch) = &self.scratch else { continue };
            piece.resize(*len, 0);
            read_exact_at(scratch, &mut piece, *at)?;
            f(&piece)?;
        }
        part.chunks().try_for_each(|chunk| f(self.slabs.used(chunk)))
    }
}

/// Appends the entries of `piece` whose hash is wanted to `run`.
fn keep(piece: &[u8], run: &mut Vec<u8>, wanted: impl Fn(u64) -> bool) {
    let mut at = 0;
    while let Some(entry) = Entry::at(piece, at) {
        let end = at + entry.stored_bytes();
        if wanted(entry.hash) {
            run.extend_from_slice(piece.get(at..end).unwrap_or_default());
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All entries of one key are in one group: ranges beside it were read for, again and again, and were empty.
    #[test]
    fn a_partition_is_read_as_often_as_there_is_something_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Partitions::new(1 << 20, Some(Place::near(&folder.path().join("store"))));
        let (groups, limit, count) = (1 << 20, 1 << 20, 500_000u64);
        let group = |hash| Position::of(hash, groups).group;
        for _ in 0..count {
            parts.push(7, 8, &[7; 8], &[7; 8]).unwrap();
        }
        let whole = group(0)..group(u64::MAX >> 8) + 1;
        let ranges = |parts: &Partitions| {
            parts.ranges(&parts.parts[0], whole.clone(), limit, group).unwrap()
        };
        assert_eq!(ranges(&parts), std::slice::from_ref(&whole));
        // Where they are in all groups there are as many ranges as that takes, which leave no group out.
        for i in 0..count {
            let hash = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8;
            parts.push(hash, 8, &i.to_le_bytes(), &[7; 8]).unwrap();
        }
        let found = ranges(&parts);
        assert!((13..18).contains(&found.len()), "{found:?}");
        assert!(found.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(found[0].start == whole.start && found.last().unwrap().end == whole.end);
        let mut entries = 0;
        parts
            .for_each_run(groups, |run, high| {
                let mut at = 0;
                while let Some((hash, len)) = Entry::measure(run, at) {
                    assert!(hash <= high);
                    (entries, at) = (entries + 1, at + len);
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(entries, 2 * count);
    }

    #[test]
    fn nothing_stays_in_memory_beside_what_does_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Partitions::new(1 << 20, Some(Place::near(&folder.path().join("store"))));
        let mut count = 0u64;
        let add = |parts: &mut Partitions, count: &mut u64| {
            let hash = count.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            parts.push(hash, 8, &count.to_le_bytes(), &[7; 8]).unwrap();
            *count += 1;
        };
        (0..10).for_each(|_| add(&mut parts, &mut count));
        parts.make_room().unwrap();
        assert!(parts.held > 0, "all of it fits");
        (0..200_000).for_each(|_| add(&mut parts, &mut count));
        parts.make_room().unwrap();
        assert_eq!(parts.held, 0);
        let mut found = 0;
        parts
            .for_each_entry(|_| {
                found += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(found, count);
    }
}
