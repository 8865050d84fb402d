//! Making room: the log is emptied at its old end as it grows at its new one.
//!
//! The oldest segment's records are looked at one by one: those that the index still leads to are
//! appended again, the others are garbage. Writes that make garbage pay for it at once, in
//! proportion, so that the log stays below twice what lives in it, and no write of a small record waits
//! for more than a few thousand bytes to be looked at; where the file is about to be too long, some
//! more ([`super::haste`]).
//!
//! Why the oldest and not the one with the most garbage: then the segments in use are always those
//! from one sequence number on. One number on the disk says which they are; a delete's record is
//! needed no longer when it is the oldest there is; and no count is kept for any segment. The
//! price is that what never changes is copied once each time the log goes round.
//!
//! What was replaced or deleted bears a mark, so that most of the garbage is passed without asking
//! the index. A writer that dies before it marks, and a power failure, only cost that question.
//!
//! What becomes of the space that was emptied is [`super::reuse`]'s.

use super::format::{LOG_AT, SEGMENT_HEADER, session, unit_place, words};
use super::haste::PACE_IN_HASTE;
use super::index::{Located, damaged, not_a_record};
use super::log::Cursor;
use super::pins;
use super::rebuild::damaged_data;
use super::record::{Kind, is_dead, is_short_put, room_if_passed};
use super::reserve::{Leaves, TAKEN};
use super::reuse::{WORTH_COMPACTING, WORTH_SHRINKING};
use super::view::{key_and_room, record};
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::Ordering;

/// Garbage is worth a look when there are so many bytes of it.
pub(super) const WORTH_CLEANING: u64 = 4096;
/// So many bytes are looked at for a byte of garbage.
const PACE: u64 = 4;
/// The log may be five eighths longer than what lives in it, and this: with what was emptied and
/// waits, an eighth of the file, that is less than twice.
const SLACK: u64 = 8192;
/// While keys are removed, and none is put, it may be longer if that is all there is in the file, by so many eighths, and by as
/// much of the file as is free, up to this: the later, the less is left to be copied. As long as the file may be was tried: a
/// queue of a few records had 3 MiB, and on a full disk there was no room left for the removals. Not where keys are put, too:
/// there new pages of a longer file cost more than copies, replacements of paths took an eighth longer, mixed changes a tenth.
const EIGHTHS_REMOVING: u64 = 7;
const SLACK_IN_ROOM: u64 = WORTH_SHRINKING;
/// So many removals with no put in between are taken for more to come.
const REMOVING: u64 = 64;
/// Nobody pays for more garbage than this that others made: a segment is looked at in any case.
pub(super) const LARGE: u64 = 128 << 10;
/// Who makes so much at once pays until the file can be cut.
const PAID_AT_ONCE: u64 = 1 << 20;
/// Records looked at together, so that the waits for their slots overlap.
const GROUP: usize = 16;

/// Records of the oldest segment that may live: where each is, and where its key belongs. It is filled
/// in place: it was copied twice for each remove when it was returned.
#[derive(Default)]
pub(crate) struct Group {
    found: [(u64, u64); GROUP],
    count: usize,
    /// The segment, where looking began in it, where it goes on, and whether that is its end.
    unit: u64,
    start: u64,
    pub next: u64,
    pub is_end: bool,
}

/// What a record is to cleaning.
enum Met<'w> {
    /// Garbage.
    Passed,
    /// A put of this key, which may live.
    Put(&'w [u8]),
    /// The end of its segment.
    End,
}

impl Group {
    /// Each record's address, and the place of its key.
    pub(super) fn found(&self) -> impl Iterator<Item = (u64, u64)> {
        self.found.iter().copied().take(self.count)
    }
}

impl Writer<'_> {
    /// Notes that so many bytes became garbage, and does what is to be done about it. The change that made it is done: what
    /// could not be cleaned is tried again before the next.
    #[inline(always)]
    pub(crate) fn made_garbage(&self, bytes: u64) {
        let debt = self.index.load(words::DEBT).saturating_add(bytes);
        self.index.store(words::DEBT, debt);
        if debt >= WORTH_CLEANING {
            // The same error comes before the next change, which it keeps from being made.
            let _ = self.pay();
        }
    }

    /// Before a change: an error if what is to be cleaned is damaged.
    #[inline(always)]
    pub(crate) fn pay_first(&self) -> Result<()> {
        let debt = self.index.load(words::DEBT);
        if debt < WORTH_CLEANING { Ok(()) } else { self.pay() }
    }

    #[cold]
    #[inline(never)]
    fn pay(&self) -> Result<()> {
        match self.pay_now() {
            Err(error) if !error.is_bad_file() => Ok(()),
            done => done,
        }
    }

    fn pay_now(&self) -> Result<()> {
        // What waits in the ring counts, and what is copied goes behind it.
        self.settle()?;
        let (debt, pace) = (self.index.load(words::DEBT), self.pace()?);
        let mut left = debt.saturating_mul(pace);
        left -= self.pay_at(pace, || Ok(()))?.min(left);
        if pace < PACE_IN_HASTE || debt < PAID_AT_ONCE {
            return Ok(());
        }
        // That may have been all: the file is cut at once, if what is in the way is passed once more.
        for _ in 0..4 {
            self.take_back_segments()?;
            if left == 0 || !self.is_in_haste()? {
                break;
            }
            left -= self.clean(left, self.index.load(words::SEQUENCE))?.min(left);
        }
        Ok(())
    }

    /// Does what is due at a pace, and has `ask` ask meanwhile for what the change needs from memory.
    fn pay_at(&self, pace: u64, ask: impl FnOnce() -> Result<()>) -> Result<u64> {
        let debt = self.index.load(words::DEBT);
        self.index.store(words::DEBT, 0);
        // At most once round, whatever a damaged word says.
        let last = self.index.load(words::SEQUENCE);
        let done = self.clean_asking(debt.saturating_mul(pace), last, ask);
        done.inspect_err(|_| self.index.store(words::DEBT, debt.min(LARGE)))
    }

    /// While keys are removed: the same before a change, for which `ask` asks.
    #[inline(always)]
    pub(crate) fn pay_meanwhile(&self, ask: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.pace()? {
            0 => {
                self.index.store(words::DEBT, 0);
                ask()
            }
            pace => self.pay_some_meanwhile(pace, ask),
        }
    }

    #[inline(never)]
    fn pay_some_meanwhile(&self, pace: u64, ask: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.pay_at(pace, ask) {
            // As for `pay`.
            Err(error) if !error.is_bad_file() => Ok(()),
            done => done.map(drop),
        }
    }

    /// Looks at `budget` bytes of the oldest records, in segments up to number `last`, and copies
    /// those that live. Returns how many bytes it has looked at: fewer if that is all there is.
    pub(crate) fn clean(&self, budget: u64, last: u64) -> Result<u64> {
        self.clean_asking(budget, last, || Ok(()))
    }

    /// The same; `ask` is called while the first of them come from memory.
    fn clean_asking(
        &self,
        budget: u64,
        last: u64,
        ask: impl FnOnce() -> Result<()>,
    ) -> Result<u64> {
        let (mut group, mut done) = (Group::default(), 0);
        let gather = |group: &mut Group, done: u64| {
            let most = budget.saturating_sub(done).min(PACE * WORTH_CLEANING);
            Ok(most > 0 && self.gather(group, most, last)?)
        };
        let mut is_any = gather(&mut group, 0)?;
        ask()?;
        while is_any {
            done += group.next - group.start;
            self.clean_group(&group)?;
            is_any = gather(&mut group, done)?;
        }
        Ok(done)
    }

    /// Keys are not only removed: one is put. An error if the room where it would go was made for a removal, or for cleaning,
    /// and there is none else.
    #[inline(always)]
    pub(super) fn note_put(&self) -> Result<()> {
        let removals = self.core.session(session::REMOVALS);
        match removals.load(Ordering::Relaxed) {
            0 => return Ok(()),
            // Each removal has the file longer by a page at least: puts that filled the rest took all that is left for removals.
            TAKEN.. => self.leave_room(Leaves::Most, 0)?,
            _ => {}
        }
        removals.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// The same of a batch that changes some, and puts none.
    pub(super) fn note_batch(&self) {
        let removals = self.core.session(session::REMOVALS);
        removals.store(removals.load(Ordering::Relaxed) & TAKEN, Ordering::Relaxed);
    }

    /// One more key is to be removed. For all processes: who removes what others put, as of a queue, is not alone.
    #[inline(always)]
    pub(super) fn note_removal(&self) {
        let removals = self.core.session(session::REMOVALS);
        removals.store(removals.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }

    /// Whether there is more garbage than there may be.
    fn is_cleaning_due(&self) -> bool {
        let live = self.index.load(words::LIVE);
        self.index.log_bytes() > live.saturating_add(live / 8 * 5 + SLACK)
    }

    /// How many bytes are to be looked at for a byte of garbage.
    #[inline(always)]
    fn pace(&self) -> Result<u64> {
        if self.is_in_haste()? {
            return Ok(PACE_IN_HASTE);
        }
        let removals = self.core.session(session::REMOVALS).load(Ordering::Relaxed) & !TAKEN;
        let is_removing = removals > REMOVING;
        // Where the file is too long the next segment that is emptied may be what it can be cut behind.
        let is_later = || !self.is_longer(WORTH_SHRINKING) && self.is_cleaned_later();
        let is_due = self.is_cleaning_due() && !(is_removing && is_later());
        Ok(if is_due { PACE } else { 0 })
    }

    /// Whether what is due while keys are removed is left for later.
    fn is_cleaned_later(&self) -> bool {
        let load = |word| self.index.load(word);
        let (live, emptied) = (load(words::LIVE), load(words::EMPTIED));
        let taken = load(words::CHAIN).saturating_add(emptied).saturating_add(LOG_AT);
        let free = self.core.data.len().saturating_sub(taken).min(SLACK_IN_ROOM);
        let most = live.saturating_add(live / 8 * EIGHTHS_REMOVING + SLACK + free);
        self.index.log_bytes().saturating_add(emptied) <= most
    }

    /// Empties every segment there is but the newest, and gives back what can be given back.
    pub(crate) fn clean_all(&self) -> Result<()> {
        self.clean(u64::MAX, self.index.load(words::SEQUENCE))?;
        self.give_back()?;
        if self.is_longer(WORTH_COMPACTING)
            && let Some(last) = self.move_end()?
        {
            self.clean(u64::MAX, last)?;
            self.give_back()?;
        }
        Ok(())
    }

    /// Fills the group with the next records of the oldest segment, some `budget` bytes of them; `false`
    /// if that is one after number `last`, or the newest.
    pub(super) fn gather(&self, group: &mut Group, budget: u64, last: u64) -> Result<bool> {
        let unit = self.index.load(words::OLDEST_UNIT);
        if unit == self.index.load(words::TAIL_UNIT) || self.oldest()? > last {
            return Ok(false);
        }
        let start = self.index.load(words::CLEANED);
        (group.count, group.unit, group.start, group.next) = (0, unit, start, start);
        group.is_end = false;
        let len = self.core.data.len();
        while group.next - start < budget {
            let at = group.next;
            let first = self.core.data.word(at).map_or(0, |word| word.load(Ordering::Relaxed));
            let (found, room) = match room_if_passed(first) {
                Some(room) if at + room < len => (Met::Passed, room),
                _ => self.look_at(unit, at, first)?,
            };
            match found {
                Met::Passed => {}
                Met::Put(key) => {
                    let Some(place) = group.found.get_mut(group.count) else { break };
                    *place = (at, self.index.place(key));
                    self.index.prefetch(place.1);
                    group.count += 1;
                }
                Met::End => {
                    group.is_end = true;
                    break;
                }
            }
            group.next = at + room;
        }
        Ok(true)
    }

    /// What the record at `at`, which begins with the word `first`, is to cleaning, and its room.
    #[inline(always)]
    fn look_at(&self, unit: u64, at: u64, first: u64) -> Result<(Met<'_>, u64)> {
        if is_short_put(first)
            && let Some((key, room)) = key_and_room(&self.core.data, self, at)
        {
            return Ok((Met::Put(key), room));
        }
        let found = record(&self.core.data, self, at);
        let found = found.ok_or_else(|| damaged(at, "what should be a record is none"))?;
        let is = match found.header.kind {
            Kind::End => {
                self.check_whole(unit, at)?;
                Met::End
            }
            Kind::Put if is_dead(first) => Met::Passed,
            Kind::Put => Met::Put(found.key),
            // No older record of its key is left, nor any before what was dropped.
            // A put that damage makes look like one has a value; to check each took a tenth longer.
            Kind::Delete if found.header.value_len == 0 => Met::Passed,
            Kind::Remove if self.core.header.has_short_removals => Met::Passed,
            Kind::Delete | Kind::Remove | Kind::Batch | Kind::Clear | Kind::Evict => {
                self.check_whole(unit, at)?;
                Met::Passed
            }
        };
        Ok((is, found.header.room()))
    }

    /// Whether the record at `at` in the segment of this unit is as it was written. By a damaged length what lies behind
    /// it would be passed over, by a damaged key or kind the record itself.
    pub(super) fn check_whole(&self, unit: u64, at: u64) -> Result<()> {
        let found = self.core.checked_record(self, self.segment(unit)?.span(unit), at);
        found.map(drop).map_err(|what| damaged_data(at, what.into()))
    }

    /// Copies what lives of a group, and goes on behind it.
    fn clean_group(&self, group: &Group) -> Result<()> {
        self.copy_living(group)?;
        self.go_on_at(group.unit, group.next, group.is_end)
    }

    /// What there is in the oldest segment before `next` is in use no longer.
    pub(super) fn go_on_at(&self, unit: u64, next: u64, is_end: bool) -> Result<()> {
        self.index.word(words::CLEANED).store(next, Ordering::Release);
        if is_end { self.retire_segment(unit) } else { Ok(()) }
    }

    /// Has these slots lead to copies of their records, which end at `cursor`; the index then knows
    /// the log up to `applied`.
    pub(super) fn lead_to_copies<'w>(
        &self,
        cursor: &Cursor,
        copies: impl Iterator<Item = (Located<'w>, u64)>,
        applied: u64,
    ) {
        // Entering them once more, should this writer die now, changes no count.
        self.index.store(words::INTENT_AT, 0);
        self.publish(cursor);
        copies.for_each(|(slot, at)| slot.lead_to(at));
        self.index.word(words::APPLIED).store(applied, Ordering::Release);
    }

    /// Appends those records again that the index leads to.
    fn copy_living(&self, group: &Group) -> Result<()> {
        let mut cursor = self.cursor();
        let mut moved: [Option<(Located<'_>, u64)>; GROUP] = [None; GROUP];
        let (mut count, sequence) = (0, self.segment(group.unit)?.sequence());
        for (old_at, place) in group.found() {
            let Some(old) = self.index.locate_address(place, old_at)? else {
                // After everything was taken out there is nothing that could be passed over.
                if self.index.load(words::COUNT) > 0 {
                    let checked = self.check_whole(group.unit, old_at);
                    checked.inspect_err(|_| self.give_up())?;
                }
                continue;
            };
            let found =
                record(&self.core.data, self, old_at).ok_or_else(|| not_a_record(old_at))?;
            let at = self.append_copy(&mut cursor, (old_at, sequence), found);
            let at = at.inspect_err(|_| self.give_up())?;
            if self.core.is_used(old_at) {
                // It is moved, not passed over by those who need room.
                self.core.used(at);
            }
            if let Some(moved) = moved.get_mut(count) {
                *moved = Some((old, at));
                count += 1;
            }
        }
        if count > 0 {
            self.lead_to_copies(&cursor, moved.iter().flatten().copied(), cursor.at);
        }
        Ok(())
    }

    /// Takes the oldest segment, of which everything was copied, out of the log.
    fn retire_segment(&self, unit: u64) -> Result<()> {
        let segment = self.segment(unit)?;
        let (at, _) = unit_place(unit);
        let end = self.segment_end(unit)?;
        let next = segment.next();
        if self.segment(next)?.sequence() <= segment.sequence() {
            return Err(damaged(unit, "the log leads in a circle"));
        }
        self.core.data.will_need(unit_place(next).0, self.segment_end(next)?);
        segment.set_epoch(pins::end_epoch(&self.core.data));
        if self.index.load(words::RETIRED_UNIT) == 0 {
            self.index.word(words::RETIRED_UNIT).store(unit + 1, Ordering::Release);
        }
        self.index.word(words::OLDEST_UNIT).store(next, Ordering::Release);
        self.index
            .word(words::CLEANED)
            .store(unit_place(next).0 + SEGMENT_HEADER, Ordering::Release);
        let chain = self.index.load(words::CHAIN);
        self.index.store(words::CHAIN, chain.saturating_sub(end - at));
        let emptied = self.index.load(words::EMPTIED).saturating_add(end - at);
        self.index.store(words::EMPTIED, emptied);
        self.write_present();
        self.take_back_segments()?;
        self.shorten()
    }

    /// The number of the oldest segment, in which cleaning goes on.
    pub(crate) fn oldest(&self) -> Result<u64> {
        let unit = self.index.load(words::OLDEST_UNIT);
        let (segment, end) = (self.segment(unit)?, self.segment_end(unit)?);
        let is_fit = (unit_place(unit).0..end).contains(&self.index.load(words::CLEANED));
        let what = "the oldest segment is not the one that is being emptied";
        is_fit.then_some(segment.sequence()).ok_or_else(|| damaged(words::OLDEST_UNIT, what))
    }

    /// After a writer died, and in an index that nobody has looked at: cleaning goes on where it was,
    /// if a record begins there, else at the segment's beginning once more.
    pub(crate) fn repair_cleaning(&self) -> Result<()> {
        let unit = self.index.load(words::OLDEST_UNIT);
        let start = unit_place(unit).0.saturating_add(SEGMENT_HEADER);
        let cleaned = self.index.load(words::CLEANED);
        let mut at = start;
        while at < cleaned.min(self.segment_end(unit)?)
            && let Some(found) = record(&self.core.data, self, at)
            && found.header.kind != Kind::End
        {
            at += found.header.room();
        }
        if at != cleaned {
            self.index.store(words::CLEANED, start);
        }
        if self.index.load(words::RETIRED_UNIT) == unit + 1 {
            self.index.store(words::RETIRED_UNIT, 0);
        }
        self.count_emptied()?;
        Ok(())
    }
}
