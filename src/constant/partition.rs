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
use super::lanes::prefetch;
use crate::bytes::copy_short;
use crate::os::file::{read_exact_at, write_all_at};
use crate::os::map::{anonymous_buffer, back, with_small_pages};
use crate::os::place::Place;
use crate::os::publish::scratch_beside;
use crate::{Error, Result};
use memmap2::MmapMut;
use std::fs::File;
use std::ops::RangeInclusive;
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
/// How many times the bytes of small entries a run takes, with what sorts them.
const RUN_MEMORY: u64 = 4;
/// Bytes that are written to the scratch file, and read from it, at once.
const SPILL_BYTES: usize = 1 << 20;
/// Into so many ranges of hashes, as a power of two, what is too much for one run is divided at a time.
const DIVIDE_BITS: u32 = 12;
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
    /// Where older pieces lie in the scratch file: offset and length, oldest first. Each has whole entries, and no more than
    /// is read at once.
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

/// Hashes that have entries: those of the smallest and the largest, and how many bytes all take.
#[derive(Clone, Copy, Debug)]
struct Span {
    low: u64,
    high: u64,
    bytes: usize,
}

impl Span {
    const NOTHING: Span = Span { low: u64::MAX, high: 0, bytes: 0 };

    fn add(&mut self, other: Span) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.bytes += other.bytes;
    }
}

/// What is taken from the partitions at a time.
pub(crate) enum Run<'a> {
    /// All entries with hashes up to this one that were in no run before.
    Entries(&'a mut Vec<u8>, u64),
    /// All entries of one hash, which are too many to be in memory at once.
    Long(LongRun<'a>),
}

/// The entries of one hash, read as often as they are asked for.
pub(crate) struct LongRun<'a> {
    parts: &'a Partitions,
    part: &'a Partition,
    pub hash: u64,
}

impl LongRun<'_> {
    /// Gives all of them to `f`, in the order in which they were added.
    pub(crate) fn each(&self, f: &mut dyn FnMut(Entry) -> Result<()>) -> Result<()> {
        self.parts.for_each_piece(self.part, |piece| {
            let mut at = 0;
            while let Some(entry) = Entry::at(piece, at) {
                at += entry.stored_bytes();
                if entry.hash == self.hash {
                    f(entry)?;
                }
            }
            Ok(())
        })
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
    /// as much again. Neither do they where most are in one partition, so that what a run takes is too much beside them.
    pub(crate) fn make_room(&mut self) -> Result<()> {
        let largest = self.parts.iter().map(|part| part.held).max().unwrap_or_default() as u64;
        let run = RUN_MEMORY * largest.min(self.run_limit() as u64);
        let is_skewed = largest > self.held / 16 && self.held + run > self.budget;
        if self.scratch.is_some() || is_skewed { self.spill() } else { Ok(()) }
    }

    /// Bytes of entries that are in memory at once when they are read back.
    fn run_limit(&self) -> usize {
        usize::try_from(self.budget / RUN_MEMORY).unwrap_or(usize::MAX).clamp(1 << 20, 1 << 30)
    }

    /// Writes everything in memory to the scratch file.
    fn spill(&mut self) -> Result<()> {
        let Some(beside) = &self.beside else { return Ok(()) };
        let at = |action| move |e| Error::io(action, e).at(beside.path());
        let scratch = match &self.scratch {
            Some(scratch) => scratch,
            None => self.scratch.insert(scratch_beside(beside)?),
        };
        // One write for a run of partitions: their pieces are small. One that has most of the entries has several.
        let mut buffer = Vec::with_capacity(SPILL_BYTES);
        let mut written = self.scratch_len;
        for part in &mut *self.parts {
            let mut piece = (written + buffer.len() as u64, 0);
            for chunk in part.full.iter().chain([&part.open]) {
                let bytes = self.slabs.used(chunk);
                if buffer.len() + bytes.len() > SPILL_BYTES {
                    write_all_at(scratch, &buffer, written)
                        .map_err(at("spill to a file beside"))?;
                    written += buffer.len() as u64;
                    buffer.clear();
                }
                if piece.1 + bytes.len() > SPILL_BYTES {
                    part.spilled.push(piece);
                    piece = (written + buffer.len() as u64, 0);
                }
                buffer.extend_from_slice(bytes);
                piece.1 += bytes.len();
            }
            part.full.clear();
            (part.open, part.held) = (Chunk::default(), 0);
            if piece.1 > 0 {
                part.spilled.push(piece);
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

    /// All entries, a run after the other in the order of their hashes, until `f` returns false: whether it did not. Runs are
    /// whole partitions, or, where one is larger than the budget allows, parts of it: it is read once for each, which is
    /// sequential and needs no further files.
    pub(crate) fn for_each_run(&self, mut f: impl FnMut(Run) -> Result<bool>) -> Result<bool> {
        let limit = self.run_limit();
        let shift = 64 - PARTITIONS.trailing_zeros();
        let mut run = Vec::new();
        for (index, part) in (0u64..).zip(&*self.parts) {
            let bytes = part.bytes();
            if bytes == 0 {
                continue;
            }
            let low = index << shift;
            let whole = Span { low, high: low | (u64::MAX >> (64 - shift)), bytes };
            let mut spans = Vec::new();
            self.divide(part, whole, limit, &mut spans)?;
            let is_whole = spans.len() == 1;
            for Span { low, high, bytes } in spans {
                if bytes > limit {
                    if !f(Run::Long(LongRun { parts: self, part, hash: low }))? {
                        return Ok(false);
                    }
                    continue;
                }
                run.clear();
                self.for_each_piece(part, |piece| {
                    if is_whole {
                        run.extend_from_slice(piece);
                    } else {
                        keep(piece, &mut run, low..=high);
                    }
                    Ok(())
                })?;
                if !f(Run::Entries(&mut run, high))? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Divides a span of a partition into such as have at most `limit` bytes, or one hash alone.
    ///
    /// The partition is read once to see where its entries are, and again for each part that is still too much, which
    /// somebody made so, or which has a key with many values.
    fn divide(
        &self,
        part: &Partition,
        whole: Span,
        limit: usize,
        out: &mut Vec<Span>,
    ) -> Result<()> {
        if whole.bytes <= limit || whole.low == whole.high {
            out.push(whole);
            return Ok(());
        }
        let width = u64::BITS - (whole.high - whole.low).leading_zeros();
        let shift = width.saturating_sub(DIVIDE_BITS);
        let mut spans = vec![Span::NOTHING; 1 << DIVIDE_BITS];
        self.for_each_piece(part, |piece| {
            let mut at = 0;
            while let Some((hash, bytes)) = Entry::measure(piece, at) {
                if (whole.low..=whole.high).contains(&hash)
                    && let Some(span) = spans.get_mut(((hash - whole.low) >> shift) as usize)
                {
                    span.add(Span { low: hash, high: hash, bytes });
                }
                at += bytes;
            }
            Ok(())
        })?;
        let mut joined = Span::NOTHING;
        for span in spans {
            if joined.bytes > 0 && joined.bytes + span.bytes > limit {
                out.push(std::mem::replace(&mut joined, Span::NOTHING));
            }
            if span.bytes > limit {
                self.divide(part, span, limit, out)?;
            } else if span.bytes > 0 {
                joined.add(span);
            }
        }
        if joined.bytes > 0 {
            out.push(joined);
        }
        Ok(())
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

/// Appends the entries of `piece` with these hashes to `run`.
fn keep(piece: &[u8], run: &mut Vec<u8>, wanted: RangeInclusive<u64>) {
    let mut at = 0;
    while let Some(entry) = Entry::at(piece, at) {
        let end = at + entry.stored_bytes();
        if wanted.contains(&entry.hash) {
            run.extend_from_slice(piece.get(at..end).unwrap_or_default());
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs of these partitions: the largest hash of each and its entries; of long ones the hash and the entries.
    fn runs(parts: &Partitions) -> Vec<(bool, u64, u64)> {
        let (mut runs, mut least) = (Vec::new(), 0);
        let all = parts.for_each_run(|run| {
            let mut count = 0;
            match run {
                Run::Entries(run, high) => {
                    let mut at = 0;
                    while let Some((hash, len)) = Entry::measure(run, at) {
                        assert!((least..=high).contains(&hash));
                        (count, at) = (count + 1, at + len);
                    }
                    runs.push((false, high, count));
                    least = high.saturating_add(1);
                }
                Run::Long(long) => {
                    assert!(long.hash >= least);
                    long.each(&mut |entry| {
                        assert_eq!(entry.hash, long.hash);
                        count += 1;
                        Ok(())
                    })?;
                    runs.push((true, long.hash, count));
                    least = long.hash + 1;
                }
            }
            Ok(true)
        });
        assert!(all.unwrap());
        runs
    }

    /// All entries of one key have one hash: they are a run of their own, and those beside it as few runs as they need.
    #[test]
    fn a_partition_is_read_as_often_as_there_is_something_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Partitions::new(4 << 20, Some(Place::near(&folder.path().join("store"))));
        let count = 500_000u64;
        for _ in 0..count {
            parts.push(7, 8, &[7; 8], &[7; 8]).unwrap();
        }
        assert_eq!(runs(&parts), [(true, 7, count)]);
        for i in 0..count {
            let hash = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8;
            parts.push(hash, 8, &i.to_le_bytes(), &[7; 8]).unwrap();
        }
        parts.make_room().unwrap();
        let found = runs(&parts);
        let long: Vec<_> = found.iter().filter(|run| run.0).collect();
        assert_eq!(long, [&(true, 7, count)]);
        assert!((13..18).contains(&found.len()), "{found:?}");
        assert_eq!(found.iter().map(|run| run.2).sum::<u64>(), 2 * count);
    }

    /// Who knows the hash makes keys whose hashes differ in few bits: they are told apart down to the last.
    #[test]
    fn hashes_that_are_nearly_equal_are_divided() {
        let mut parts = Partitions::new(4 << 20, None);
        let count = 200_000u64;
        for i in 0..count {
            parts.push((1 << 40) + i % 4, 8, &i.to_le_bytes(), &[7; 8]).unwrap();
        }
        let expected: Vec<_> = (0..4).map(|i| (true, (1 << 40) + i, count / 4)).collect();
        assert_eq!(runs(&parts), expected);
    }

    #[test]
    fn what_is_spilled_is_read_back_in_small_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Partitions::new(8 << 20, Some(Place::near(&folder.path().join("store"))));
        let count = 600_000u64;
        for i in 0..count {
            parts.push(i, 8, &i.to_le_bytes(), &[7; 8]).unwrap();
        }
        parts.make_room().unwrap();
        assert_eq!(parts.held, 0);
        let spilled = &parts.parts[0].spilled;
        assert!(spilled.iter().all(|(_, len)| *len <= SPILL_BYTES));
        let mut next = 0;
        parts
            .for_each_entry(|entry| {
                assert_eq!(entry.hash, next);
                next += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(next, count);
    }

    #[test]
    fn entries_of_one_partition_do_not_stay_beside_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let place = || Some(Place::near(&folder.path().join("store")));
        for (is_skewed, shift) in [(false, 0), (true, 8)] {
            let mut parts = Partitions::new(8 << 20, place());
            for i in 0..200_000u64 {
                let hash = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift;
                parts.push(hash, 8, &i.to_le_bytes(), &[7; 8]).unwrap();
            }
            parts.make_room().unwrap();
            assert_eq!(parts.held == 0, is_skewed);
        }
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
