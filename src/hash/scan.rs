//! Reading the log as it lies on the disk, believing nothing: for making the index again, for
//! verification, and for saving what is left of a damaged store.

use super::core::Core;
use super::format::{
    Checkpoint, LOG_AT, SEGMENT_END, SEGMENT_HEADER, SegmentHeader, unit_of, unit_place,
};
use super::rebuild::damaged_data;
use super::record::{ALIGN, Kind, USED, record_checksum};
use super::view::{Holds, RecordView, bytes, record};
use crate::Result;
use crate::os::atomic::Ordering;
use std::collections::BTreeMap;

/// A segment as its header describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub unit: u64,
    pub units: u64,
    pub sequence: u64,
}

impl Span {
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
    pub(crate) fn segment_at(&self, held: &impl Holds, unit: u64) -> Option<Span> {
        let (at, _) = unit_place(unit);
        let header = bytes(&self.data, held, at, SEGMENT_HEADER)?;
        let header = SegmentHeader::decode(header, &self.header, at)?;
        let units = u64::from(header.units);
        Some(Span { unit, units, sequence: header.sequence })
    }

    /// The segments with a whole header, from sequence number `oldest` on. More than one may have
    /// the same: only one of them is what the segment before names.
    pub(crate) fn segments(&self, held: &impl Holds, oldest: u64) -> BTreeMap<u64, Vec<Span>> {
        let mut found: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
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
    #[inline(always)]
    pub(crate) fn checked_record<'h>(
        &'h self,
        held: &'h impl Holds,
        segment: Span,
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
            Kind::Put | Kind::Delete | Kind::Remove => (found.key, found.value),
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
        if header.kind == Kind::Remove && !self.header.has_short_removals {
            return Err("there is no record");
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

    /// Calls `each` with every whole record of a segment, and where it is, damaged as the segment may be. Returns how many
    /// bytes that are none lie before the last of them.
    pub(crate) fn each_whole<'h>(
        &'h self,
        held: &'h impl Holds,
        segment: Span,
        mut each: impl FnMut(u64, RecordView<'h>) -> Result<()>,
    ) -> Result<u64> {
        let (mut at, end) = (segment.first(), segment.end().min(self.data.len()));
        let (mut lost, mut passed) = (0, 0);
        while at < end {
            let Ok(found) = self.checked_record(held, segment, at) else {
                // Records begin at every eighth byte: the next whole one may be anywhere.
                passed += ALIGN;
                at += ALIGN;
                continue;
            };
            lost += std::mem::take(&mut passed);
            let (kind, room) = (found.header.kind, found.header.room());
            each(at, found)?;
            if kind == Kind::End {
                break;
            }
            at += room;
        }
        Ok(lost)
    }

    /// The segment that the end of another names, if it is there.
    pub(crate) fn segment_after(
        &self,
        held: &impl Holds,
        segment: Span,
        end_at: u64,
    ) -> Option<Span> {
        let (unit, number) = self.named_by_end(end_at)?;
        let next = self.segment_at(held, unit)?;
        // Another one may have taken its place since.
        let is_it = number.is_none_or(|number| next.sequence as u32 == number);
        (is_it && next.sequence > segment.sequence).then_some(next)
    }

    /// The unit that the end of a segment names, and the lower half of that segment's number; `None` if the file has no such unit.
    pub(crate) fn named_by_end(&self, end_at: u64) -> Option<(u64, Option<u32>)> {
        self.said_by_end(end_at).filter(|(unit, _)| *unit < self.units())
    }

    /// The same, whatever it names.
    pub(super) fn said_by_end(&self, end_at: u64) -> Option<(u64, Option<u32>)> {
        let named = self.data.word(end_at + 8)?.load(Ordering::Relaxed);
        Some(match self.header.has_numbered_ends {
            true => (named & u64::from(u32::MAX), Some((named >> 32) as u32)),
            false => (named, None),
        })
    }

    /// The number of the oldest segment that may hold what is not elsewhere, in a store that may be damaged: as
    /// [`Core::log_start`], but a note is believed where no power has failed since, whatever lies behind it.
    pub(crate) fn oldest_to_recover(&self, held: &impl Holds) -> u64 {
        let durable = self.checkpoint().unwrap_or_default();
        let present = self.present().filter(|present| present.oldest > durable.oldest);
        // The first that is written says 0.
        let oldest = durable.oldest.max(1);
        let Some(present) = present else { return oldest };
        let segments = self.segments(held, durable.oldest);
        let start = self.log_start(held, &segments, &durable);
        let is_led_to = start.is_ok_and(|start| start.sequence == present.oldest);
        if is_led_to || self.is_of_session() { present.oldest } else { oldest }
    }

    /// Where the log is to be read from: the oldest segment that `durable` names, or where it began when the newest note
    /// of that was written, if it is whole from there to where it reached then. Segments in between may have been used again
    /// without being on the disk; after a power failure that note may be, and what it tells of not.
    pub(crate) fn log_start(
        &self,
        held: &impl Holds,
        segments: &BTreeMap<u64, Vec<Span>>,
        durable: &Checkpoint,
    ) -> Result<Span> {
        let first = |number: u64| segments.get(&number).and_then(|all| all.first().copied());
        let missing = |number: u64| {
            let what = format!("the log's oldest segment, number {number}, is missing");
            damaged_data(LOG_AT, what)
        };
        let oldest = durable.oldest.max(1);
        if let Some(present) = self.present().filter(|present| present.oldest > oldest) {
            let start = first(present.oldest).ok_or_else(|| missing(present.oldest));
            match start.and_then(|first| Place::first_of(first).leads_to(self, held, &present)) {
                Ok(first) => return Ok(first),
                // No power has failed since: what it tells of must be there.
                Err(error) if self.is_of_session() => return Err(error),
                Err(_) => {}
            }
        }
        first(oldest).ok_or_else(|| missing(oldest))
    }
}

/// A place in the log, from which records are read one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub segment: Span,
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
    pub(crate) fn first_of(segment: Span) -> Place {
        Place { segment, at: segment.first() }
    }

    /// What is at this place.
    #[inline(always)]
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

    /// The segment that this is the beginning of, if whole records lead from here to that end of the log.
    fn leads_to(self, core: &Core, held: &impl Holds, end: &Checkpoint) -> Result<Span> {
        self.walk_to(core, held, (end.sequence, end.end), |_| {}).map(|()| self.segment)
    }

    /// Goes on to that end of the log, a segment's number and a place: an error if whole records do not lead there. Calls
    /// `passed` with the bytes of each.
    pub(crate) fn walk_to(
        self,
        core: &Core,
        held: &impl Holds,
        end: (u64, u64),
        mut passed: impl FnMut(u64),
    ) -> Result<()> {
        let mut place = self;
        while (place.segment.sequence, place.at) < end {
            let (next, bytes) = match place.next(core, held) {
                Next::Record(_, next) => (next, next.at - place.at),
                Next::Segment(next) => (next, place.segment.end().saturating_sub(place.at)),
                Next::Nothing(why) => return Err(damaged_data(place.at, why.into())),
            };
            passed(bytes);
            place = next;
        }
        let is_end = (place.segment.sequence, place.at) == end;
        let what = "the log does not lead to where it was";
        is_end.then_some(()).ok_or_else(|| damaged_data(place.at, what.into()))
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
