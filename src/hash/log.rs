//! The log: how records are appended, and which segments of the data file hold it.
//!
//! Segments are chained: each ends with a record that names the next, and the table of segments
//! in the index file says the same for those who do not want to read them. From the oldest that
//! holds something to the newest their sequence numbers rise. Only the writer comes here.
//!
//! Nothing counts before [`Writer::publish`]: what was appended until then is as if it were not,
//! whether the writer fails or dies.

use super::format::{
    LARGEST_UNIT, MAX_FILE, SEGMENT_END, SEGMENT_HEADER, SegmentHeader, session, unit_of,
    unit_place, words,
};
use super::index::{Index, damaged};
use super::page::LINE;
use super::rebuild::damaged_data;
use super::record::{Kind, RecordHeader, copied_checksum, record_checksum};
use super::reserve::Leaves;
use super::scan::Span;
use super::view::{RecordView, write};
use super::writer::Writer;
use crate::os::atomic::{AtomicU64, Ordering};
use crate::os::opening::without_readers;
use crate::os::shared::SharedMap;
use crate::{Error, ErrorKind, Result};

/// Bytes of an entry of the table of segments.
pub(crate) const ENTRY_BYTES: u64 = 32;

/// The sequence number of a unit that is inside a segment of several.
pub(super) const INNER: u64 = u64::MAX;
/// Units that may be in use or free beyond the end of the file, which reaches them step by step: those
/// of the longest record, several times over.
const MOST_BEYOND: u64 = 1 << 16;
/// A segment that is begun for a large record has room for so many like it, if that is no more than this part of what lives;
/// but not for the largest, of which rounding up to units takes little.
const SHARING: u64 = 4;
const PART_OF_LIVE: u64 = 16;
const SHARING_BELOW: u64 = 8 * LARGEST_UNIT;
/// No number of segments, bytes or records is as large.
pub(super) const MOST: u64 = 1 << 48;

/// The table's entry for a unit: its segment's sequence number (0: free), the next segment's first
/// unit and how many units this one has, the epoch in which it was retired.
pub(crate) struct Segment<'i>(&'i [AtomicU64]);

impl Segment<'_> {
    fn word(&self, i: usize) -> u64 {
        self.0.get(i).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn set(&self, i: usize, value: u64) {
        if let Some(word) = self.0.get(i) {
            word.store(value, Ordering::Release);
        }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.word(0)
    }

    pub(crate) fn next(&self) -> u64 {
        self.word(1) & 0xffff_ffff
    }

    pub(crate) fn units(&self) -> u64 {
        (self.word(1) >> 32).max(1)
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.word(2)
    }

    /// The segment, which begins with `unit`.
    pub(crate) fn span(&self, unit: u64) -> Span {
        Span { unit, units: self.units(), sequence: self.sequence() }
    }

    pub(crate) fn set_epoch(&self, epoch: u64) {
        self.set(2, epoch);
    }

    pub(crate) fn set_free(&self) {
        self.set_free_after(0);
    }

    pub(crate) fn set_next(&self, unit: u64) {
        self.set(1, unit | self.units() << 32);
    }

    pub(crate) fn copy_from(&self, other: &Segment<'_>) {
        (0..self.0.len()).for_each(|i| self.set(i, other.word(i)));
    }

    /// Makes it free for those who come after an epoch.
    pub(crate) fn set_free_after(&self, epoch: u64) {
        self.set(2, epoch);
        self.set(0, 0);
    }

    /// A later unit of a segment that has several.
    pub(crate) fn set_inner(&self) {
        self.set(0, INNER);
    }

    /// Makes it the newest.
    pub(crate) fn set_used(&self, sequence: u64, units: u64) {
        self.set(1, units << 32);
        self.set(0, sequence);
    }
}

/// The end of the log as a writer has it in hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub at: u64,
    /// Where the segment ends.
    pub end: u64,
    pub unit: u64,
    pub sequence: u64,
    /// Records appended with it.
    appended: u64,
}

/// The segments that hold what is needed.
pub(crate) struct Chain {
    /// For each unit whether it is one of theirs.
    is_used: Vec<bool>,
    /// Bytes of those from the oldest in use on.
    pub bytes: u64,
    /// The end of the log.
    pub last: Cursor,
}

impl Index {
    /// The entry of a unit in the table of segments.
    pub(crate) fn segment(&self, unit: u64) -> Result<Segment<'_>> {
        let block = self.load(words::SEGMENTS_AT);
        let table = block.saturating_add(1).saturating_mul(LINE);
        let at = table.saturating_add(unit.saturating_mul(ENTRY_BYTES));
        let is_there = unit < self.load(words::SEGMENTS_ROOM) && self.has_block(block, 0);
        let line = self.map.line(at - at % LINE).filter(|_| is_there);
        let half = (at % LINE / 8) as usize;
        let words = line.and_then(|line| line.get(half..half + ENTRY_BYTES as usize / 8));
        words.map(Segment).ok_or_else(|| damaged(at, "a segment that is not in the table"))
    }

    /// Bytes of the log from the oldest record that is left to its end.
    pub(crate) fn log_bytes(&self) -> u64 {
        let (oldest, _) = unit_place(self.load(words::OLDEST_UNIT));
        let cleaned = self.load(words::CLEANED).saturating_sub(oldest);
        let free = self.load(words::TAIL_END).saturating_sub(self.load(words::TAIL));
        self.load(words::CHAIN).saturating_sub(cleaned).saturating_sub(free)
    }
}

impl Writer<'_> {
    /// The entry of a unit in the table of segments.
    pub(crate) fn segment(&self, unit: u64) -> Result<Segment<'_>> {
        self.index.segment(unit)
    }

    /// The published end of the log.
    #[inline(always)]
    pub(crate) fn cursor(&self) -> Cursor {
        let load = |word| self.index.load(word);
        Cursor {
            at: load(words::TAIL),
            end: load(words::TAIL_END),
            unit: load(words::TAIL_UNIT),
            sequence: load(words::SEQUENCE),
            appended: 0,
        }
    }

    /// How many units there are.
    pub(crate) fn units(&self) -> Result<u64> {
        let load = |word| self.index.load(word);
        let units = load(words::UNITS);
        let is_fit = load(words::TAIL_UNIT).max(load(words::OLDEST_UNIT)) < units
            && units <= load(words::SEGMENTS_ROOM)
            && units <= self.most_units();
        is_fit.then_some(units).ok_or_else(|| damaged(words::UNITS, "not so many segments fit"))
    }

    /// There are no more units than these.
    pub(crate) fn most_units(&self) -> u64 {
        self.core.units() + MOST_BEYOND
    }

    /// By how much the number of the segment after the cursor's is greater.
    pub(crate) fn step(&self, cursor: &Cursor) -> Result<u64> {
        match self.index.load(words::SKIPPED) {
            // One that is not published yet has left out what is to be left out. Were it done again with
            // each, the numbers to leave out would be multiplied by every attempt that finds no room.
            0..MOST if cursor.sequence != self.index.load(words::SEQUENCE) => Ok(1),
            skipped @ 0..MOST => Ok(skipped + 1),
            _ => Err(damaged(words::SKIPPED, "no segment can have the next number")),
        }
    }

    /// Before anything is done where the cursor's segment ends: that this is its end.
    fn check_cursor(&self, cursor: &Cursor) -> Result<()> {
        let (start, _) = unit_place(cursor.unit);
        let places = start.saturating_add(SEGMENT_HEADER)..=cursor.end.saturating_sub(SEGMENT_END);
        let is_fit = self.segment(cursor.unit)?.sequence() == cursor.sequence
            && self.segment_end(cursor.unit)? == cursor.end
            && places.contains(&cursor.at);
        if is_fit { Ok(()) } else { Err(damaged(words::TAIL, "the log ends in no segment")) }
    }

    /// Appends a record behind the cursor and says where it is.
    #[inline(always)]
    pub(crate) fn append(
        &self,
        cursor: &mut Cursor,
        kind: Kind,
        key: &[u8],
        value: &[u8],
    ) -> Result<u64> {
        self.append_record(cursor, RecordHeader::new(kind, key, value), key, value)
    }

    /// The same for a record whose header is not that of its key and value.
    #[inline(always)]
    pub(crate) fn append_record(
        &self,
        cursor: &mut Cursor,
        record: RecordHeader,
        key: &[u8],
        value: &[u8],
    ) -> Result<u64> {
        let at = self.reach(cursor, record.room(), Leaves::of(record.kind))?;
        let place = (at, cursor.sequence);
        let sum = record_checksum(&self.core.header, &record, place, (key, value));
        self.write_next(cursor, &record, sum, key, value);
        Ok(at)
    }

    /// Appends a copy of the put at `from`, a place in a segment and that segment's number; an error if its checksum does
    /// not fit, as that of the copy would hide the damage.
    #[inline(always)]
    pub(crate) fn append_copy(
        &self,
        cursor: &mut Cursor,
        from: (u64, u64),
        of: RecordView<'_>,
    ) -> Result<u64> {
        let (store, RecordView { key, value, .. }) = (&self.core.header, of);
        let record = RecordHeader::new(Kind::Put, key, value);
        let old = self.core.data.word(from.0).map_or(0, |word| word.load(Ordering::Relaxed)) as u32;
        let at = self.reach(cursor, record.room(), Leaves::Nothing)?;
        let places = (from, (at, cursor.sequence));
        let sum = copied_checksum(store, (&record, old), places, (key, value));
        let what = "a record's checksum does not fit";
        let sum = sum.ok_or_else(|| damaged_data(from.0, what.into()))?;
        self.write_next(cursor, &record, sum, key, value);
        Ok(at)
    }

    /// Where the next record, which takes `room` bytes, will be: there is room for it, and for what it has to leave.
    #[inline(always)]
    fn reach(&self, cursor: &mut Cursor, room: u64, leaves: Leaves) -> Result<u64> {
        let needed = room + SEGMENT_END;
        self.wiped_first()?;
        if cursor.at.saturating_add(needed) > cursor.end {
            self.next_segment(cursor, room, self.step(cursor)?, leaves)?;
        }
        if cursor.at.saturating_add(needed) > self.core.data.len() {
            self.room_or_next(cursor, room, leaves)?;
        }
        Ok(cursor.at)
    }

    /// Writes a record at the cursor, and moves that behind it.
    #[inline(always)]
    fn write_next(
        &self,
        cursor: &mut Cursor,
        record: &RecordHeader,
        sum: u32,
        key: &[u8],
        value: &[u8],
    ) {
        write_record(&self.core.data, cursor.at, record, sum, key, value);
        cursor.at += record.room();
        cursor.appended += 1;
    }

    /// Has the file reach behind a record of `room` bytes; on a full disk there may be another
    /// segment that is there already.
    #[cold]
    fn room_or_next(&self, cursor: &mut Cursor, room: u64, leaves: Leaves) -> Result<()> {
        self.check_cursor(cursor)?;
        match self.grow_for(cursor, room, leaves) {
            Err(error) if !error.is_bad_file() => {
                self.next_segment(cursor, room, self.step(cursor)?, leaves)?;
                self.grow_for(cursor, room, leaves)
            }
            done => done,
        }
    }

    /// Has the file reach behind a record of `room` bytes at the cursor.
    fn grow_for(&self, cursor: &Cursor, room: u64, leaves: Leaves) -> Result<()> {
        let (len, end) = (self.core.data.len(), cursor.at + room + SEGMENT_END);
        let is_step_left = self.leave_room(leaves, self.core.data.step()).is_ok();
        if !is_step_left {
            self.leave_room(leaves, end.saturating_sub(len))?;
        }
        self.grow_data(end, if is_step_left { cursor.end } else { end })
    }

    /// Makes what was appended with the cursor part of the log: one store.
    #[inline(always)]
    pub(crate) fn publish(&self, cursor: &Cursor) {
        let changes = self.core.session(session::CHANGES);
        changes.store(
            changes.load(Ordering::Relaxed).wrapping_add(cursor.appended),
            Ordering::Relaxed,
        );
        self.index.store(words::TAIL_UNIT, cursor.unit);
        self.index.store(words::TAIL_END, cursor.end);
        self.index.store(words::SEQUENCE, cursor.sequence);
        self.index.word(words::TAIL).store(cursor.at, Ordering::Release);
    }

    /// Ends the cursor's segment, and goes on in another with room for `room` bytes, whose number is
    /// greater by `step`.
    #[cold]
    pub(crate) fn next_segment(
        &self,
        cursor: &mut Cursor,
        room: u64,
        step: u64,
        leaves: Leaves,
    ) -> Result<()> {
        self.check_cursor(cursor)?;
        self.wiped_first()?;
        // A file that a power cut left shorter may end where the log does, without room for its end.
        self.grow_data(cursor.at + SEGMENT_END, cursor.end)?;
        let sequence = cursor.sequence.wrapping_add(step);
        let (unit, units) = self.take_room(room + SEGMENT_HEADER + SEGMENT_END, leaves)?;
        let (at, _) = unit_place(unit);
        let (last, size) = unit_place(unit + units - 1);
        let end = last + size;
        let header = SegmentHeader { sequence, units: units as u32 };
        // Known before it is there: whoever finds a dead writer's segment wipes its header.
        self.set_used(unit, units, sequence)?;
        write(&self.core.data, at, &header.encode(&self.core.header, at));
        let record = RecordHeader { kind: Kind::End, key_len: 0, value_len: 0 };
        let place = (cursor.at, cursor.sequence);
        let number = if self.core.header.has_numbered_ends { sequence << 32 } else { 0 };
        let next = (unit | number).to_le_bytes();
        let sum = record_checksum(&self.core.header, &record, place, (&[], &next));
        write_record(&self.core.data, place.0, &record, sum, &[], &next);
        self.segment(cursor.unit)?.set_next(unit);
        let chain = self.index.load(words::CHAIN).saturating_add(end - at);
        self.index.store(words::CHAIN, chain);
        *cursor = Cursor { at: at + SEGMENT_HEADER, end, unit, sequence, ..*cursor };
        Ok(())
    }

    /// Units for a segment of `bytes`, the first of which is there: the rest comes step by step.
    fn take_room(&self, bytes: u64, leaves: Leaves) -> Result<(u64, u64)> {
        let take = || {
            let (unit, units) = self.take_units(bytes)?;
            let (last, size) = unit_place(unit + units - 1);
            let (at, len) = (unit_place(unit).0, self.core.data.len());
            // It is nobody's yet, and counted among what is free: whoever looked for it began behind it, had he gone on.
            self.index.store(words::FREE_UNIT, self.index.load(words::FREE_UNIT).min(unit));
            // What of it the file has is free no longer; the rest still is, step by step.
            let begun = at + SEGMENT_HEADER + SEGMENT_END;
            let taken = (last + size).min(len.max(begun)).saturating_sub(at);
            self.leave_room(leaves, taken)?;
            self.grow_data(begun, begun)?;
            Ok((unit, units))
        };
        take().or_else(|error: Error| {
            if error.is_bad_file() {
                return Err(error);
            }
            // No space: what was emptied and waits for the disk or for the dead is some.
            self.give_back()?;
            take().map_err(|_| error)
        })
    }

    /// Notes in the table which segment some units are.
    pub(crate) fn set_used(&self, unit: u64, units: u64, sequence: u64) -> Result<()> {
        for inner in unit + 1..unit + units {
            self.segment(inner)?.set_inner();
        }
        self.segment(unit)?.set_used(sequence, units);
        Ok(())
    }

    /// How long a segment is to be that is begun for a record of `bytes`. What is left at the end of one is less than a
    /// record, so that several share it: records of half a unit and a bit took twice their space else. Of whole ones: with
    /// room for one and a half, all would have taken half more.
    fn shared(&self, bytes: u64) -> u64 {
        let (live, count) = (self.index.load(words::LIVE), self.index.load(words::COUNT));
        let each = bytes.max(live / count.max(1));
        if each > SHARING_BELOW {
            return bytes;
        }
        (each * SHARING.min(live / PART_OF_LIVE / each.max(1))).max(bytes)
    }

    /// Units for a segment of `bytes`: how it comes by them is [`super::reuse`]'s.
    fn take_units(&self, bytes: u64) -> Result<(u64, u64)> {
        let shared = self.shared(bytes);
        if shared > LARGEST_UNIT {
            self.take_back_segments()?;
            if let Some(run) = self.take_free_run(shared, self.units()?)? {
                return Ok(run);
            }
        }
        let unit = self.take_free_unit(bytes)?;
        // Rather several that are farther ahead: compaction put a large record from one unit at the end into the other.
        if let Some(run) = self.take_free_run(bytes, unit.unwrap_or(self.units()?))? {
            return Ok(run);
        }
        if let Some(unit) = unit {
            return Ok((unit, 1));
        }
        let first = self.units()?;
        let mut units = 0;
        let mut size = 0;
        while size < shared {
            size += unit_place(first + units).1;
            units += 1;
        }
        let end = unit_place(first + units).0;
        if end > MAX_FILE {
            let (size, limit) = (end, MAX_FILE);
            return Err(Error::new(ErrorKind::TooLarge { what: "file", size, limit }));
        }
        self.add_units(first + units)?;
        Ok((first, units))
    }

    /// Has the table of segments know all units before `end`, the new ones free.
    pub(crate) fn add_units(&self, end: u64) -> Result<()> {
        if end > self.index.load(words::SEGMENTS_ROOM) {
            self.make_segment_table(end)?;
        }
        for unit in self.units()?..end {
            self.segment(unit)?.set_free();
        }
        self.index.word(words::UNITS).store(end, Ordering::Release);
        Ok(())
    }

    /// Makes room in the table for `units`.
    pub(crate) fn make_segment_table(&self, units: u64) -> Result<()> {
        let old_room = self.index.load(words::SEGMENTS_ROOM);
        let old = self.index.load(words::SEGMENTS_AT);
        let room = units.max(old_room.saturating_mul(2).min(2 * units));
        let room = room.next_multiple_of(LINE / ENTRY_BYTES);
        let lines = room * ENTRY_BYTES / LINE;
        let end = self.index.load(words::BUMP).saturating_add(lines + 1);
        self.reserve_index_leaving(Leaves::Nothing, end)?;
        let block = self.allocate_before(lines, 0)?;
        for line in 0..lines {
            let at = |block: u64| (block + 1 + line) * LINE;
            let to = self.index.map.line(at(block));
            let to = to.ok_or_else(|| damaged(at(block), "a block beyond the end of the index"))?;
            let is_old = line < old_room * ENTRY_BYTES / LINE;
            let from = if is_old { self.index.map.line(at(old)) } else { None };
            for (i, word) in to.iter().enumerate() {
                let value =
                    from.and_then(|from| from.get(i)).map_or(0, |w| w.load(Ordering::Relaxed));
                word.store(value, Ordering::Relaxed);
            }
        }
        // Whoever dies between these two leaves a room that is too small, which is no harm.
        self.index.word(words::SEGMENTS_AT).store(block, Ordering::Release);
        self.index.word(words::SEGMENTS_ROOM).store(room, Ordering::Release);
        if old != 0 { self.retire(old) } else { Ok(()) }
    }

    /// Has the data file reach to `end`, and some way on, but not past `limit`.
    #[cold]
    pub(crate) fn grow_data(&self, end: u64, limit: u64) -> Result<()> {
        let len = self.core.data.len();
        if end <= len {
            return Ok(());
        }
        let wanted = (len + self.core.data.step()).max(end).min(limit).max(end);
        let mut has_tried = false;
        let mut grow =
            |end: u64| self.core.data.grow_to(end.next_multiple_of(4096), &mut has_tried);
        // Where there is no room for a step there may be for what is needed.
        if let Err(error) = grow(wanted).or_else(|_| grow(end)) {
            if has_tried {
                // What was allocated before the disk was full is given back, unless somebody who only reads may look there.
                let _ = without_readers(self.core.data.file(), || self.core.cut_data(len));
            }
            return Err(error);
        }
        // All that is new at once: the file system has to note for each part that it was written.
        self.core.note_rest();
        let known = self.core.session(session::DATA_LEN);
        known.store(self.core.data.len_and_cuts(), Ordering::Relaxed);
        Ok(())
    }

    /// The segments from the oldest that was emptied, or is in use, to that in which the log ends.
    pub(crate) fn chain(&self) -> Result<Chain> {
        let tail = self.index.load(words::TAIL);
        let oldest = self.index.load(words::OLDEST_UNIT);
        let mut unit = match self.index.load(words::RETIRED_UNIT) {
            0 => oldest,
            retired => retired - 1,
        };
        let mut is_used = vec![false; self.units()? as usize];
        let (mut bytes, mut is_live, mut before) = (0u64, false, 0);
        loop {
            let segment = self.segment(unit)?;
            let (at, end) = (unit_place(unit).0, self.segment_end(unit)?);
            let units = is_used.iter_mut().skip(unit as usize).take(segment.units() as usize);
            let mut count = 0;
            for used in units {
                *used = true;
                count += 1;
            }
            // Rising numbers do not lead in a circle.
            let is_fit = (before + 1..INNER).contains(&segment.sequence());
            if !is_fit || count != segment.units() || unit_of(tail).is_none() {
                return Err(damaged(tail, "the end of the log is in none of its segments"));
            }
            is_live |= unit == oldest;
            bytes = bytes.saturating_add(if is_live { end - at } else { 0 });
            if (at..end).contains(&tail) {
                let last =
                    Cursor { at: tail, end, unit, sequence: segment.sequence(), appended: 0 };
                let what = "the oldest segment is none of the log's";
                let chain = Chain { is_used, bytes, last };
                return is_live.then_some(chain).ok_or_else(|| damaged(words::OLDEST_UNIT, what));
            }
            before = segment.sequence();
            unit = segment.next();
        }
    }

    /// Frees the segments that no published record is in: those of a writer that failed or died. Whether
    /// there was any.
    pub(crate) fn discard_unpublished(&self) -> Result<bool> {
        let mut is_any = false;
        let Chain { is_used, bytes, last } = self.chain()?;
        self.index.store(words::TAIL_UNIT, last.unit);
        self.index.store(words::TAIL_END, last.end);
        self.index.store(words::SEQUENCE, last.sequence);
        self.index.store(words::CHAIN, bytes);
        for (unit, _) in is_used.iter().enumerate().filter(|(_, is_used)| !**is_used) {
            let segment = self.segment(unit as u64)?;
            if segment.sequence() == 0 {
                // Free already, and perhaps only for those who come after an epoch.
                continue;
            }
            if segment.sequence() != INNER {
                // Nor may another have its number in the same place: what is left of its records
                // would fit.
                let skipped = segment.sequence().saturating_sub(last.sequence);
                self.index.word(words::SKIPPED).fetch_max(skipped, Ordering::Release);
                let (at, _) = unit_place(unit as u64);
                // On the disk, too, it must not look like the one that will follow.
                self.core.note_wiped();
                write(&self.core.data, at, &[0; SEGMENT_HEADER as usize]);
                self.core.note_rest();
                is_any = true;
            }
            segment.set_free();
        }
        self.index.store(words::FREE_UNIT, 0);
        Ok(is_any)
    }

    /// Where the segment that begins with `unit` ends.
    pub(crate) fn segment_end(&self, unit: u64) -> Result<u64> {
        let units = self.segment(unit)?.units();
        let (at, size) = unit_place(unit.saturating_add(units - 1));
        Ok(at.saturating_add(size))
    }
}

/// Writes a record where nobody looks yet.
#[inline(always)]
pub(crate) fn write_record(
    data: &SharedMap,
    at: u64,
    record: &RecordHeader,
    sum: u32,
    key: &[u8],
    value: &[u8],
) {
    let (mut bytes, len) = record.encode();
    if let Some(start) = bytes.first_chunk_mut::<4>() {
        *start = sum.to_le_bytes();
    }
    // What is left of the last word is zero.
    write(data, at + record.room() - 8, &[0; 8]);
    match len {
        8 => write(data, at, bytes.first_chunk::<8>().unwrap_or(&[0; 8])),
        _ => write(data, at, &bytes),
    };
    write(data, at + len as u64, key);
    write(data, at + len as u64 + key.len() as u64, value);
}
