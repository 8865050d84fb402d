//! What was emptied: when its space is used again, and how it is given back to the file system.
//!
//! A segment that was emptied is *retired*: readers may still look at it, and after a power cut its
//! records are needed if their copies were lost. It is written over when no pin is as old, and a
//! checkpoint that is durable says that it holds nothing; or when no sync ever promised what was in
//! it, and the note of where the log begins is past it ([`NotNeeded`]).
//!
//! The file is cut where its end is free: not at once, for it may grow again, which is dear, but when it is twice as long as
//! what lives in it.

use super::format::{SEGMENT_HEADER, session, unit_place, words};
use super::index::damaged;
use super::log::INNER;
use super::pins;
use super::reserve::Leaves;
use super::scan::Span;
use super::view::write;
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::Ordering;
use crate::os::lock::is_locked;
use crate::os::opening::{READING, without_readers};

/// A file that is twice as long as what lives in it, and this, is to become shorter; where little lives, at two and a half times
/// and as for compaction.
pub(super) const WORTH_SHRINKING: u64 = 3 << 20;
/// The same where it was asked for.
pub(super) const WORTH_COMPACTING: u64 = 64 << 10;
/// What little lives in a file is less than this.
const LITTLE: u64 = 1 << 20;
/// An eighth of the file that was emptied, and this, is worth a wait for the disk.
pub(super) const WORTH_WAITING: u64 = 1 << 20;

/// Bytes of segments that were emptied and may not be written over yet, and of these what is there only until something
/// is on the disk.
#[derive(Clone, Copy, Debug, Default)]
struct Emptied {
    bytes: u64,
    for_disk: u64,
}

/// Segments that may be written over: by their numbers those below one, and those between two others.
struct NotNeeded {
    below: u64,
    above: u64,
    begins_at: u64,
}

impl NotNeeded {
    fn has(&self, number: u64) -> bool {
        // A store that no checkpoint is of begins with the first.
        number < self.below || self.above.max(1) < number && number < self.begins_at
    }

    /// Whether it may have any after one that it has not.
    fn has_after(&self, number: u64) -> bool {
        number.max(self.above).saturating_add(1) < self.begins_at
    }
}

/// What is behind a place in the file.
#[derive(Debug, Default)]
pub(super) struct Behind {
    /// Bytes of the log, and of free units before.
    pub used: u64,
    pub room_before: u64,
    /// The number of the newest segment, 0 if there is none.
    pub newest: u64,
    /// Whether there is one that was emptied, and that a reader needs still.
    pub is_held: bool,
}

impl Writer<'_> {
    /// Looks at all units.
    pub(super) fn behind(&self, end: u64) -> Result<Behind> {
        let (mut behind, oldest) = (Behind::default(), self.oldest()?);
        // Of the segment that a unit is of: units inside of one say neither.
        let (mut number, mut epoch) = (0, 0);
        for unit in 0..self.units()? {
            let (at, size) = unit_place(unit);
            let is_behind = at.saturating_add(size) > end;
            let segment = self.segment(unit)?;
            if segment.sequence() != INNER {
                (number, epoch) = (segment.sequence(), segment.epoch());
            }
            if self.is_free(unit)? {
                behind.room_before += if is_behind { 0 } else { size };
            } else if is_behind && number < oldest {
                behind.is_held |= !pins::is_past(&self.core.data, epoch);
            } else if is_behind {
                behind.used += self.taken(unit);
                behind.newest = behind.newest.max(number);
            }
        }
        Ok(behind)
    }

    /// Bytes of a unit that the log takes: in the first what is left to be cleaned, in the last what is there. One of
    /// 512 KiB of which nearly nothing was left found no room, and the file stayed seven times as long as what lived in it.
    fn taken(&self, unit: u64) -> u64 {
        let (at, size) = unit_place(unit);
        let places = at..at.saturating_add(size);
        let (cleaned, tail) = (self.index.load(words::CLEANED), self.index.load(words::TAIL));
        let start = if places.contains(&cleaned) { cleaned } else { at };
        let end = if places.contains(&tail) { tail } else { places.end };
        end.saturating_sub(start)
    }

    /// Whether the file is more than twice as long as what lives in it, and this.
    pub(super) fn is_longer(&self, by: u64) -> bool {
        let live = self.index.load(words::LIVE);
        self.core.data.len() > live.saturating_mul(2).saturating_add(by)
    }

    /// Has the log go on at the beginning of the file, if its end keeps the file long where it is. Then the number of the
    /// segment in which it ended: when that is emptied, the file can be cut. Nothing waits in the ring.
    pub(crate) fn move_end(&self) -> Result<Option<u64>> {
        let unit = self.index.load(words::TAIL_UNIT);
        if self.free_before(unit)? == 0 || !self.is_worth_cutting(Some(unit))? {
            return Ok(None);
        }
        self.begin_segment().map(Some)
    }

    /// Bytes of free units before one.
    pub(super) fn free_before(&self, end: u64) -> Result<u64> {
        let mut free = 0;
        for unit in self.index.load(words::FREE_UNIT)..end {
            free += if self.is_free(unit)? { unit_place(unit).1 } else { 0 };
        }
        Ok(free)
    }

    /// Has the log go on in another segment, the first that is free; the number of the one in which it ended. Nothing waits in
    /// the ring.
    pub(super) fn begin_segment(&self) -> Result<u64> {
        let mut cursor = self.cursor();
        let last = cursor.sequence;
        let moved = self
            .step(&cursor)
            .and_then(|step| self.next_segment(&mut cursor, 0, step, Leaves::Nothing));
        moved.inspect_err(|_| self.give_up())?;
        self.publish(&cursor);
        self.index.word(words::APPLIED).store(cursor.at, Ordering::Release);
        Ok(last)
    }

    /// Gives emptied space back to the file system, as far as nobody needs it.
    pub(crate) fn give_back(&self) -> Result<()> {
        self.take_back_all()?;
        self.trim().map(drop)
    }

    /// Makes all segments free that were emptied, as far as nobody needs them.
    pub(super) fn take_back_all(&self) -> Result<()> {
        pins::clear_dead(&self.core.data);
        if self.emptied()?.for_disk > 0 {
            self.sync_now()?;
            self.sync_now()?;
        }
        self.take_back_segments().map(drop)
    }

    /// The same, if so many bytes only wait for the disk.
    pub(super) fn free_what_waits(&self, bytes: u64) -> Result<()> {
        if self.emptied()?.for_disk < bytes { Ok(()) } else { self.take_back_all() }
    }

    /// Cuts the file behind what waits for the disk, if only that keeps it long; whether it was cut.
    pub(super) fn cut_by_sync(&self) -> Result<bool> {
        if self.emptied()?.for_disk == 0 || !self.is_worth_cutting(None)? {
            return Ok(false);
        }
        self.take_back_all()?;
        self.trim()
    }

    /// The same, if so many bytes may find no room else before a unit.
    pub(super) fn free_if_short(&self, bytes: u64, end: u64) -> Result<()> {
        let mut room = 0;
        for unit in self.index.load(words::FREE_UNIT)..end.min(self.units()?) {
            room += if self.is_free(unit)? { unit_place(unit).1 } else { 0 };
            if room >= bytes {
                return Ok(());
            }
        }
        self.take_back_all()
    }

    /// Has the file become shorter if it is longer than it may be.
    pub(super) fn shorten(&self) -> Result<()> {
        let live = self.index.load(words::LIVE);
        if self.is_longer(WORTH_SHRINKING.min(live / 2 + WORTH_COMPACTING)) {
            let len = self.core.data.len();
            let for_disk = self.emptied()?.for_disk;
            // Little may lie where it keeps much from being cut off.
            let is_far_longer = for_disk > 0 && len / 4 > live.saturating_add(LITTLE);
            if for_disk > live / 8 + WORTH_WAITING
                || is_far_longer && self.is_worth_cutting(None)?
            {
                return self.give_back();
            }
            self.trim()?;
        }
        Ok(())
    }

    /// Makes retired segments free whose time has come; whether any is left.
    pub(crate) fn take_back_segments(&self) -> Result<bool> {
        let oldest = self.oldest()?;
        let not_needed = self.not_needed();
        let mut unit = match self.index.load(words::RETIRED_UNIT) {
            0 => return Ok(false),
            retired => retired - 1,
        };
        // The last one that stays, and its number.
        let (mut before, mut number) = (None, 0);
        while unit != self.index.load(words::OLDEST_UNIT) {
            let segment = self.segment(unit)?;
            let (sequence, next) = (segment.sequence(), segment.next());
            // Lest damage makes space free that is in use, or there is going in a circle.
            if !(number + 1..oldest).contains(&sequence) {
                let what = "a segment counts as emptied that is not older than those in use";
                return Err(damaged(words::RETIRED_UNIT, what));
            }
            number = sequence;
            if !not_needed.has(sequence) {
                if !not_needed.has_after(sequence) {
                    return Ok(true);
                }
                before = Some(unit);
            } else if !pins::is_past(&self.core.data, segment.epoch()) {
                // Nor are those that were emptied later.
                return Ok(true);
            } else {
                if sequence >= not_needed.below {
                    let reused = self.core.session(session::REUSED);
                    let count = reused.load(Ordering::Relaxed).saturating_add(1);
                    reused.store(count, Ordering::Release);
                }
                self.take_back(unit, before, next)?;
            }
            unit = next;
        }
        Ok(before.is_some())
    }

    /// Makes a retired segment free, which follows `before` of those that stay, or none.
    fn take_back(&self, unit: u64, before: Option<u64>, next: u64) -> Result<()> {
        match before {
            Some(before) => self.segment(before)?.set_next(next),
            None => {
                let is_last = next == self.index.load(words::OLDEST_UNIT);
                let after = if is_last { 0 } else { next + 1 };
                self.index.word(words::RETIRED_UNIT).store(after, Ordering::Release);
            }
        }
        let units = self.segment(unit)?.units();
        let bytes = self.segment_end(unit)?.saturating_sub(unit_place(unit).0);
        let emptied = match self.index.load(words::RETIRED_UNIT) {
            0 => 0,
            _ => self.index.load(words::EMPTIED).saturating_sub(bytes),
        };
        self.index.store(words::EMPTIED, emptied);
        if units > 1 {
            // Whoever looks for segments passes over what is inside of one, and others may soon be there.
            write(&self.core.data, unit_place(unit).0, &[0; SEGMENT_HEADER as usize]);
        }
        for unit in unit..unit + units {
            self.segment(unit)?.set_free();
        }
        let lowest = self.index.load(words::FREE_UNIT).min(unit);
        self.index.store(words::FREE_UNIT, lowest);
        Ok(())
    }

    /// Which of the emptied segments nobody needs who makes the index again, whatever of the file is on the disk then.
    fn not_needed(&self) -> NotNeeded {
        let load = |word| self.core.session(word).load(Ordering::Relaxed);
        NotNeeded {
            below: load(session::REUSABLE),
            above: load(session::PROMISED),
            begins_at: self.core.present().map_or(0, |present| present.oldest),
        }
    }

    /// The lowest free unit that has room for `bytes`.
    pub(crate) fn take_free_unit(&self, bytes: u64) -> Result<Option<u64>> {
        let is_waiting = self.take_back_segments()?;
        if let Some(unit) = self.lowest_free_unit(bytes)? {
            return Ok(Some(unit));
        }
        let len = self.core.data.len();
        let emptied = if is_waiting { self.emptied()? } else { Emptied::default() };
        if emptied.bytes <= len / 8 {
            return Ok(None);
        }
        // Rather than let the file grow: have what waits for the disk on the disk. Twice, for the
        // checkpoint that says so must be durable itself.
        pins::clear_dead(&self.core.data);
        if emptied.for_disk > len / 8 + WORTH_WAITING {
            self.sync_now()?;
            self.sync_now()?;
        }
        self.take_back_segments()?;
        self.lowest_free_unit(bytes)
    }

    /// Whether nobody needs what is in a unit. After the index was made anew from the log readers
    /// may still hold what is in free ones.
    fn is_free(&self, unit: u64) -> Result<bool> {
        let segment = self.segment(unit)?;
        let epoch = segment.epoch();
        Ok(segment.sequence() == 0 && (epoch == 0 || pins::is_past(&self.core.data, epoch)))
    }

    /// Free units before `end` that follow each other and have room for `bytes`: the first, and how many.
    pub(crate) fn take_free_run(&self, bytes: u64, end: u64) -> Result<Option<(u64, u64)>> {
        let (mut first, mut size) = (0, 0);
        for unit in self.index.load(words::FREE_UNIT)..end {
            if !self.is_free(unit)? {
                size = 0;
                continue;
            }
            first = if size == 0 { unit } else { first };
            size += unit_place(unit).1;
            if size >= bytes {
                return Ok(Some((first, unit + 1 - first)));
            }
        }
        Ok(None)
    }

    fn lowest_free_unit(&self, bytes: u64) -> Result<Option<u64>> {
        let (found, is_any_held) = self.lowest_that_is_free(bytes)?;
        if found.is_none() && is_any_held {
            // Nobody else looks: after the index was made anew nothing is emptied.
            pins::clear_dead(&self.core.data);
            return Ok(self.lowest_that_is_free(bytes)?.0);
        }
        Ok(found)
    }

    /// The same; and whether there are units that only a reader keeps from being free.
    fn lowest_that_is_free(&self, bytes: u64) -> Result<(Option<u64>, bool)> {
        let units = self.index.load(words::UNITS);
        let (mut found, mut lowest, mut is_any_held) = (None, None, false);
        for unit in self.index.load(words::FREE_UNIT)..units {
            let is_free = self.is_free(unit)?;
            let is_held = !is_free && self.segment(unit)?.sequence() == 0;
            is_any_held |= is_held;
            if is_free && unit_place(unit).1 >= bytes {
                found = Some(unit);
                break;
            }
            if is_free || is_held {
                // Who held it will not say so when it is free.
                lowest = lowest.or(Some(unit));
            }
        }
        let next = found.map_or(units, |unit| unit + 1);
        self.index.store(words::FREE_UNIT, lowest.unwrap_or(next));
        Ok((found, is_any_held))
    }

    /// Counts anew what is emptied and cannot be used yet.
    pub(super) fn count_emptied(&self) -> Result<()> {
        self.index.store(words::EMPTIED, self.emptied()?.bytes);
        Ok(())
    }

    /// What is emptied and cannot be used yet.
    fn emptied(&self) -> Result<Emptied> {
        let mut emptied = Emptied::default();
        self.each_emptied(|segment, is_for_disk| {
            let bytes = segment.end().saturating_sub(unit_place(segment.unit).0);
            let for_disk = if is_for_disk { bytes } else { 0 };
            emptied.bytes = emptied.bytes.saturating_add(bytes);
            emptied.for_disk = emptied.for_disk.saturating_add(for_disk);
        })?;
        Ok(emptied)
    }

    /// Calls `f` with each segment that was emptied and waits, and whether it is there only until something is on the
    /// disk.
    fn each_emptied(&self, mut f: impl FnMut(Span, bool)) -> Result<()> {
        let oldest = self.index.load(words::OLDEST_UNIT);
        // Without numbered ends all of them are needed until something is on the disk.
        let is_numbered = self.core.header.has_numbered_ends;
        let promised = if is_numbered { self.not_needed().above } else { u64::MAX };
        let mut unit = match self.index.load(words::RETIRED_UNIT) {
            0 => return Ok(()),
            retired => retired - 1,
        };
        for _ in 0..=self.units()? {
            if unit == oldest {
                return Ok(());
            }
            let segment = self.segment(unit)?;
            let is_past = pins::is_past(&self.core.data, segment.epoch());
            f(segment.span(unit), is_past && segment.sequence() <= promised);
            unit = segment.next();
        }
        Err(damaged(words::RETIRED_UNIT, "the emptied segments do not lead to the oldest in use"))
    }

    /// Whether an eighth of the file could be cut off, if what waits for the disk did not, nor the segment that begins with
    /// the unit `moved`.
    fn is_worth_cutting(&self, moved: Option<u64>) -> Result<bool> {
        let units = self.units()?;
        let mut stays = vec![true; units as usize];
        let mut goes = |segment: Span| {
            let units = stays.iter_mut().skip(segment.unit as usize).take(segment.units as usize);
            units.for_each(|stays| *stays = false);
        };
        self.each_emptied(|segment, is_for_disk| {
            if is_for_disk {
                goes(segment);
            }
        })?;
        if let Some(unit) = moved {
            goes(self.segment(unit)?.span(unit));
        }
        let mut used = units;
        while used > 1 && (!stays[used as usize - 1] || self.is_free(used - 1)?) {
            used -= 1;
        }
        let len = self.core.data.len();
        if len.saturating_sub(unit_place(used).0) < (len / 8).max(1) {
            return Ok(false);
        }
        self.may_be_cut()
    }

    /// Whether nobody has the file open who only reads: he could hold what is cut off.
    pub(super) fn may_be_cut(&self) -> Result<bool> {
        Ok(!is_locked(self.core.data.file(), READING)?)
    }

    /// Gives free units at the end of the file back to the file system, if they are many; whether they were.
    pub(super) fn trim(&self) -> Result<bool> {
        let units = self.units()?;
        let mut used = units;
        while used > 1 && self.is_free(used - 1)? {
            used -= 1;
        }
        let (end, len) = (unit_place(used).0, self.core.data.len());
        if used == units || len.saturating_sub(end) < len / 8 {
            return Ok(false);
        }
        let cut = without_readers(self.core.data.file(), || {
            self.index.store(words::HASTE, 0);
            self.index.word(words::UNITS).store(used, Ordering::Release);
            self.core.cut_data(end.next_multiple_of(4096))
        });
        Ok(cut?.is_some())
    }
}
