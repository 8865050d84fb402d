//! Reading the log as it lies on the disk, believing nothing: for making the index again, for
//! verification, and for saving what is left of a damaged store.

use super::core::Core;
use super::format::{
    Checkpoint, Kind, SEGMENT_END, SEGMENT_HEADER, SegmentHeader, USED, record_checksum, unit_of,
    unit_place,
};
use super::view::{Holds, RecordView, bytes, record};
use crate::os::atomic::Ordering;
use std::collections::BTreeMap;

/// After so many gaps a log is read from the segment that the checkpoint names: each may have taken reading all of it.
const MOST_GAPS: usize = 32;

/// A segment as its header describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub unit: u64,
    pub units: u64,
    pub sequence: u64,
}

impl Found {
    /// Where its first record is.
    pub(crate) fn first(self) -> u64 {
        unit_place(self.unit).0 + SEGMENT_HEADER
    }

    /// Where it ends.
    pub(crate) fn end(self) -> u64 {
        let (at, size) = unit_place(self.unit.saturating_add(self.units - 1));
        at.saturating_add(size)
    }
}

impl Core {
    /// How many units, or beginnings of units, the data file has.
    pub(crate) fn units(&self) -> u64 {
        self.data.len().checked_sub(1).and_then(unit_of).map_or(0, |last| last + 1)
    }

    /// The segment that begins with a unit, if its header is whole.
    pub(crate) fn segment_at(&self, held: &impl Holds, unit: u64) -> Option<Found> {
        let (at, _) = unit_place(unit);
        let header = bytes(&self.data, held, at, SEGMENT_HEADER)?;
        let header = SegmentHeader::decode(header, &self.header, at)?;
        let units = u64::from(header.units);
        Some(Found { unit, units, sequence: header.sequence })
    }

    /// The segments with a whole header, from sequence number `oldest` on. More than one may have
    /// the same: only one of them is what the segment before names.
    pub(crate) fn segments(&self, held: &impl Holds, oldest: u64) -> BTreeMap<u64, Vec<Found>> {
        let mut found: BTreeMap<u64, Vec<Found>> = BTreeMap::new();
        let mut unit = 0;
        while unit < self.units() {
            let segment = self.segment_at(held, unit).filter(|s| s.sequence >= oldest);
            if let Some(segment) = segment {
                found.entry(segment.sequence).or_default().push(segment);
            }
            // Inside of a segment of several units are values, which may look like anything.
            unit += segment.map_or(1, |segment| if oldest > 0 { segment.units } else { 1 });
        }
        found
    }

    /// The record at `at` in a segment, if every bit of it is as it was written.
    pub(crate) fn checked_record<'h>(
        &'h self,
        held: &'h impl Holds,
        segment: Found,
        at: u64,
    ) -> Result<RecordView<'h>, &'static str> {
        let found = record(&self.data, held, at).ok_or("there is no record")?;
        let header = found.header;
        let end = at.checked_add(header.room()).ok_or("there is no record")?;
        let limit =
            if header.kind == Kind::End { segment.end() } else { segment.end() - SEGMENT_END };
        if end > limit {
            return Err("a record is longer than its segment");
        }
        let head = header.header_bytes();
        let (key, value) = match header.kind {
            Kind::Put | Kind::Delete => (found.key, found.value),
            Kind::Batch | Kind::Clear => (&[][..], &[][..]),
            Kind::End | Kind::Evict => {
                let len = header.room() - head;
                (&[][..], bytes(&self.data, held, at + head, len).ok_or("the file ends")?)
            }
        };
        let sum = record_checksum(&self.header, &header, (at, segment.sequence), (key, value));
        let first = self.data.word(at).map_or(0, |word| word.load(Ordering::Relaxed));
        if first & USED != 0 && self.header.limit == 0 {
            return Err("a record counts as used, in a store without limit");
        }
        if first as u32 != sum {
            return Err("a record's checksum does not fit");
        }
        let used = head + key.len() as u64 + value.len() as u64;
        let padding = bytes(&self.data, held, at + used, header.room() - used);
        if padding.is_none_or(|padding| padding.iter().any(|byte| *byte != 0)) {
            return Err("what follows a record is not zero");
        }
        Ok(found)
    }

    /// The segment that the end of another names, if it is there.
    pub(crate) fn segment_after(
        &self,
        held: &impl Holds,
        segment: Found,
        end_at: u64,
    ) -> Option<Found> {
        let (unit, number) = self.named_by_end(end_at)?;
        let next = self.segment_at(held, unit)?;
        // Another one may have taken its place since.
        let is_it = number.is_none_or(|number| next.sequence as u32 == number);
        (is_it && next.sequence > segment.sequence).then_some(next)
    }

    /// The unit that the end of a segment names, and the lower half of that segment's number.
    pub(crate) fn named_by_end(&self, end_at: u64) -> Option<(u64, Option<u32>)> {
        let named = self.data.word(end_at + 8)?.load(Ordering::Relaxed);
        let (unit, number) = match self.header.has_numbered_ends {
            true => (named & u64::from(u32::MAX), Some((named >> 32) as u32)),
            false => (named, None),
        };
        (unit < self.units()).then_some((unit, number))
    }

    /// The number of the oldest segment that was in use when that in `unit` began, if it says so.
    pub(crate) fn oldest_named_by(&self, held: &impl Holds, unit: u64) -> Option<u64> {
        let (at, _) = unit_place(unit);
        let header = bytes(&self.data, held, at, SEGMENT_HEADER)?;
        let SegmentHeader { sequence, back, .. } = SegmentHeader::decode(header, &self.header, at)?;
        (self.header.has_numbered_ends && back > 0).then(|| sequence.saturating_sub(back.into()))
    }

    /// Where the log is to be read from: segments before may have been used again since `durable` was on the disk. That is
    /// the oldest that was in use when the newest segment began to which the log leads from there without a gap.
    /// `None` if that is the oldest that `durable` names, or an earlier one.
    pub(crate) fn newest_start(
        &self,
        held: &impl Holds,
        segments: &BTreeMap<u64, Vec<Found>>,
        durable: &Checkpoint,
    ) -> Option<Found> {
        let mut gaps: Vec<u64> = Vec::new();
        for (&number, found) in segments.range(durable.sequence + 1..).rev() {
            let named = found.iter().filter_map(|found| self.oldest_named_by(held, found.unit));
            let Some(oldest) = named.min() else { continue };
            if oldest <= durable.oldest || gaps.len() == MOST_GAPS {
                return None;
            }
            if gaps.iter().any(|gap| (oldest..number).contains(gap)) {
                continue;
            }
            let mut gap = oldest;
            for start in segments.get(&oldest).into_iter().flatten() {
                match Place::first_of(*start).gap_before(self, held, number) {
                    None => return Some(*start),
                    Some(number) => gap = gap.max(number),
                }
            }
            gaps.push(gap);
        }
        None
    }
}

/// A place in the log, from which records are read one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub segment: Found,
    pub at: u64,
}

/// What comes next in the log.
pub(crate) enum Next<'h> {
    /// A record; the place after it.
    Record(RecordView<'h>, Place),
    /// The segment ends here, and the next begins there.
    Segment(Place),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

impl Place {
    pub(crate) fn first_of(segment: Found) -> Place {
        Place { segment, at: segment.first() }
    }

    /// What is at this place.
    pub(crate) fn next<'h>(self, core: &'h Core, held: &'h impl Holds) -> Next<'h> {
        match core.checked_record(held, self.segment, self.at) {
            Err(why) => Next::Nothing(why),
            Ok(found) if found.header.kind == Kind::End => {
                match core.segment_after(held, self.segment, self.at) {
                    Some(segment) => {
                        core.data.will_need(segment.first(), segment.end());
                        Next::Segment(Place::first_of(segment))
                    }
                    None => Next::Nothing("the next segment is missing"),
                }
            }
            Ok(found) => {
                let at = self.at + found.header.room();
                Next::Record(found, Place { at, ..self })
            }
        }
    }

    /// The number of the segment within or behind which the log has a gap before it reaches that of `number`; none if
    /// it leads there.
    fn gap_before(mut self, core: &Core, held: &impl Holds, number: u64) -> Option<u64> {
        while self.segment.sequence < number {
            self = match self.next(core, held) {
                Next::Record(_, place) | Next::Segment(place) => place,
                Next::Nothing(_) => return Some(self.segment.sequence),
            };
        }
        (self.segment.sequence > number).then_some(number)
    }

    /// Whether so many whole records follow that may belong to a batch. A batch in another is damage: were
    /// each looked through, a file of many would take the square of its length.
    pub(crate) fn has_records(mut self, core: &Core, held: &impl Holds, mut count: u32) -> bool {
        while count > 0 {
            self = match self.next(core, held) {
                Next::Record(found, after) => {
                    if !matches!(found.header.kind, Kind::Put | Kind::Delete) {
                        return false;
                    }
                    count -= 1;
                    after
                }
                Next::Segment(place) => place,
                Next::Nothing(_) => return false,
            };
        }
        true
    }
}
