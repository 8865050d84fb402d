//! Making room: the log is emptied at its old end as it grows at its new one.
//!
//! The oldest segment's records are looked at one by one: those that the index still leads to are
//! appended again, the others are garbage. Writes that make garbage pay for it at once, in
//! proportion, so that the log stays below twice what lives in it, and no write waits for more
//! than a few thousand bytes to be looked at.
//!
//! Why the oldest and not the one with the most garbage: then the segments in use are always those
//! from one sequence number on. One number on the disk says which they are; a delete's record is
//! needed no longer when it is the oldest there is; and no count is kept for any segment. The
//! price is that what never changes is copied once each time the log goes round.
//!
//! What was replaced or deleted bears a mark, so that most of the garbage is passed without asking
//! the index. A writer that dies before it marks, and a power failure, only cost that question.
//!
//! A segment that was emptied is *retired*: readers may still look at it, and after a power cut its
//! records are needed if their copies were lost. It is written over when no pin is as old, and a
//! checkpoint that is durable says that it holds nothing; or when no sync ever promised what was in
//! it, and the note of where the log begins is past it ([`NotNeeded`]).

use super::format::{LOG_AT, SEGMENT_HEADER, session, unit_place, words};
use super::index::{Located, damaged, not_a_record};
use super::log::Cursor;
use super::pins;
use super::rebuild::damaged_data;
use super::record::Kind;
use super::scan::Found;
use super::view::{is_marked_dead, record, write};
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::Ordering;
use crate::os::lock::{Want, lock_range};
use crate::os::opening::READING;

/// Garbage is worth a look when there are so many bytes of it.
const WORTH_CLEANING: u64 = 4096;
/// So many bytes are looked at for a byte of garbage.
const PACE: u64 = 4;
/// The log may be five eighths longer than what lives in it, and this: with what was emptied and
/// waits, an eighth of the file, that is less than twice.
const SLACK: u64 = 8192;
/// While keys are removed it may be longer if that is all there is in the file, by so many eighths, and by as much of the
/// file as is free, up to this: the later, the less is left to be copied. Not while values are replaced: there new pages
/// of a longer file cost more than copies, replacements of paths took an eighth longer.
const EIGHTHS_REMOVING: u64 = 7;
const SLACK_IN_ROOM: u64 = WORTH_SHRINKING;
/// Copies of records that are shorter, on the average, cost nothing: they are made while what is removed comes from memory.
const WORTH_LEAVING: u64 = 64;
/// The end of the file can be cut off when all of the log was passed. So that is begun when so little is still to be removed
/// before the file is too long that it is just done by then, if for a byte of garbage so many bytes are looked at.
const PACE_TO_SHRINK: u64 = 32;
/// A file that is twice as long as what lives in it, and this, is to become shorter; where little lives, at two and a half times
/// and as for compaction.
const WORTH_SHRINKING: u64 = 3 << 20;
/// The same where it was asked for.
const WORTH_COMPACTING: u64 = 64 << 10;
/// What little lives in a file is less than this.
const LITTLE: u64 = 1 << 20;
/// An eighth of the file that was emptied, and this, is worth a wait for the disk.
const WORTH_WAITING: u64 = 1 << 20;
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
        if self.owe(bytes) >= WORTH_CLEANING {
            // The same error comes before the next change, which it keeps from being made.
            let _ = self.pay(self.index.load(words::DEBT));
        }
    }

    /// Notes the same, and leaves it to the next change.
    #[inline(always)]
    pub(crate) fn owe(&self, bytes: u64) -> u64 {
        let debt = self.index.load(words::DEBT).saturating_add(bytes);
        self.index.store(words::DEBT, debt);
        debt
    }

    /// Before a change: an error if what is to be cleaned is damaged.
    #[inline(always)]
    pub(crate) fn pay_first(&self) -> Result<()> {
        let debt = self.index.load(words::DEBT);
        if debt < WORTH_CLEANING { Ok(()) } else { self.pay(debt) }
    }

    #[cold]
    #[inline(never)]
    fn pay(&self, debt: u64) -> Result<()> {
        let done = self.pay_now(debt);
        if done.is_err() {
            self.index.store(words::DEBT, debt);
        }
        match done {
            Err(error) if !error.is_bad_file() => Ok(()),
            done => done,
        }
    }

    fn pay_now(&self, debt: u64) -> Result<()> {
        // What waits in the ring counts, and what is copied goes behind it.
        self.settle()?;
        self.index.store(words::DEBT, 0);
        if self.is_cleaning_due() {
            // At most once round, whatever a damaged word says.
            let last = self.index.load(words::SEQUENCE);
            self.clean(debt.saturating_mul(PACE), last)?;
        }
        Ok(())
    }

    /// Looks at `budget` bytes of the oldest records, in segments up to number `last`, and copies
    /// those that live. Returns how many bytes it has looked at: fewer if that is all there is.
    pub(crate) fn clean(&self, budget: u64, last: u64) -> Result<u64> {
        let mut done = 0;
        let mut group = Group::default();
        while done < budget && self.gather(&mut group, PACE * WORTH_CLEANING, last)? {
            done += group.next - group.start;
            self.clean_group(&group)?;
        }
        Ok(done)
    }

    /// While keys are removed: has `ask` ask for what the change needs from memory, and does what is due meanwhile.
    #[inline(always)]
    pub(crate) fn clean_meanwhile(&self, ask: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.pace_of_removals() {
            0 => {
                self.index.store(words::DEBT, 0);
                ask()
            }
            pace => self.clean_some_meanwhile(pace, ask),
        }
    }

    #[inline(never)]
    fn clean_some_meanwhile(&self, pace: u64, ask: impl FnOnce() -> Result<()>) -> Result<()> {
        let debt = self.index.load(words::DEBT);
        self.index.store(words::DEBT, 0);
        match self.clean_asking(debt.saturating_mul(pace), ask) {
            Ok(()) => Ok(()),
            // As for `pay`.
            Err(error) => {
                self.index.store(words::DEBT, debt);
                if error.is_bad_file() { Err(error) } else { Ok(()) }
            }
        }
    }

    fn clean_asking(&self, budget: u64, ask: impl FnOnce() -> Result<()>) -> Result<()> {
        // At most once round, whatever a damaged word says.
        let last = self.index.load(words::SEQUENCE);
        let (mut group, mut done) = (Group::default(), 0);
        let mut is_any = self.gather(&mut group, budget, last)?;
        ask()?;
        while is_any {
            done += group.next - group.start;
            self.clean_group(&group)?;
            is_any = done < budget && self.gather(&mut group, budget - done, last)?;
        }
        Ok(())
    }

    /// Whether there is more garbage than there may be.
    fn is_cleaning_due(&self) -> bool {
        let live = self.index.load(words::LIVE);
        self.index.log_bytes() > live.saturating_add(live / 8 * 5 + SLACK)
    }

    /// How many bytes are to be looked at for a byte of garbage while keys are removed.
    #[inline(always)]
    fn pace_of_removals(&self) -> u64 {
        let load = |word| self.index.load(word);
        let (live, log, len) = (load(words::LIVE), self.index.log_bytes(), self.core.data.len());
        if log <= live.saturating_add(live / 16 + SLACK) {
            return 0;
        }
        let ahead = log / (PACE_TO_SHRINK / 2);
        if len.saturating_add(ahead) > live.saturating_mul(2).saturating_add(WORTH_SHRINKING) {
            return PACE_TO_SHRINK;
        }
        if !self.is_cleaning_due() || self.is_cleaned_later(live, log, len) {
            return 0;
        }
        PACE
    }

    /// Whether what is due while keys are removed is left for later.
    #[inline(always)]
    fn is_cleaned_later(&self, live: u64, log: u64, len: u64) -> bool {
        let load = |word| self.index.load(word);
        let emptied = load(words::EMPTIED);
        let taken = load(words::CHAIN).saturating_add(emptied).saturating_add(LOG_AT);
        let free = len.saturating_sub(taken).min(SLACK_IN_ROOM);
        let most = live.saturating_add(live / 8 * EIGHTHS_REMOVING + SLACK + free);
        live >= load(words::COUNT).saturating_mul(WORTH_LEAVING)
            && log.saturating_add(emptied) <= most
    }

    /// Whether the file is more than twice as long as what lives in it, and this.
    fn is_longer(&self, by: u64) -> bool {
        let live = self.index.load(words::LIVE);
        self.core.data.len() > live.saturating_mul(2).saturating_add(by)
    }

    /// Empties every segment there is but the newest, and gives back what can be given back.
    pub(crate) fn clean_all(&self) -> Result<()> {
        self.clean(u64::MAX, self.index.load(words::SEQUENCE))?;
        self.give_back()?;
        if let Some(last) = self.move_end()? {
            self.clean(u64::MAX, last)?;
            self.give_back()?;
        }
        Ok(())
    }

    /// Has the log go on at the beginning of the file, if its end there keeps the file long. Then the number of the segment
    /// in which it ended: when that is emptied, the file can be cut. Nothing waits in the ring.
    pub(crate) fn move_end(&self) -> Result<Option<u64>> {
        if !self.is_longer(WORTH_COMPACTING) {
            return Ok(None);
        }
        let mut cursor = self.cursor();
        let last = cursor.sequence;
        let mut is_room = false;
        for unit in self.index.load(words::FREE_UNIT)..cursor.unit {
            is_room |= self.is_free(unit)?;
        }
        if !is_room || !self.is_worth_cutting(Some(cursor.unit))? {
            return Ok(None);
        }
        let moved = self.step(&cursor).and_then(|step| self.next_segment(&mut cursor, 0, step));
        moved.inspect_err(|_| self.give_up())?;
        self.publish(&cursor);
        self.index.word(words::APPLIED).store(cursor.at, Ordering::Release);
        Ok(Some(last))
    }

    /// Gives emptied space back to the file system, as far as nobody needs it.
    pub(crate) fn give_back(&self) -> Result<()> {
        pins::clear_dead(&self.core.data);
        if self.emptied()?.for_disk > 0 {
            self.sync_now()?;
            self.sync_now()?;
        }
        self.take_back_segments()?;
        self.trim()
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
        while group.next - start < budget {
            let at = group.next;
            let found = record(&self.core.data, self, at);
            let found = found.ok_or_else(|| damaged(at, "what should be a record is none"))?;
            match found.header.kind {
                Kind::End => {
                    self.check_whole(unit, at)?;
                    group.is_end = true;
                    break;
                }
                Kind::Put if is_marked_dead(&self.core.data, at) => {}
                Kind::Put => {
                    let Some(place) = group.found.get_mut(group.count) else { break };
                    *place = (at, self.index.place(found.key));
                    self.index.prefetch(place.1);
                    group.count += 1;
                }
                // No older record of its key is left, nor any before what was dropped.
                // A put that damage makes look like one has a value; to check each took a tenth longer.
                Kind::Delete if found.header.value_len == 0 => {}
                Kind::Remove => {}
                Kind::Delete | Kind::Batch | Kind::Clear | Kind::Evict => {
                    self.check_whole(unit, at)?;
                }
            }
            group.next = at + found.header.room();
        }
        Ok(true)
    }

    /// Whether the record at `at` in the segment of this unit is as it was written. By a damaged length what lies behind
    /// it would be passed over, by a damaged key or kind the record itself.
    pub(super) fn check_whole(&self, unit: u64, at: u64) -> Result<()> {
        let found = self.core.checked_record(self, self.segment(unit)?.found(unit), at);
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

    /// Free units that follow each other and have room for `bytes`: the first, and how many.
    pub(crate) fn take_free_run(&self, bytes: u64) -> Result<Option<(u64, u64)>> {
        let (mut first, mut size) = (0, 0);
        for unit in self.index.load(words::FREE_UNIT)..self.index.load(words::UNITS) {
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
        let units = self.index.load(words::UNITS);
        let mut lowest = None;
        for unit in self.index.load(words::FREE_UNIT)..units {
            if !self.is_free(unit)? {
                continue;
            }
            if unit_place(unit).1 >= bytes {
                self.index.store(words::FREE_UNIT, lowest.unwrap_or(unit + 1));
                return Ok(Some(unit));
            }
            lowest = lowest.or(Some(unit));
        }
        self.index.store(words::FREE_UNIT, lowest.unwrap_or(units));
        Ok(None)
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
    fn each_emptied(&self, mut f: impl FnMut(Found, bool)) -> Result<()> {
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
            f(segment.found(unit), is_past && segment.sequence() <= promised);
            unit = segment.next();
        }
        Err(damaged(words::RETIRED_UNIT, "the emptied segments do not lead to the oldest in use"))
    }

    /// Whether an eighth of the file could be cut off, if what waits for the disk did not, nor the segment that begins with
    /// the unit `moved`.
    fn is_worth_cutting(&self, moved: Option<u64>) -> Result<bool> {
        let units = self.units()?;
        let mut stays = vec![true; units as usize];
        let mut goes = |segment: Found| {
            let units = stays.iter_mut().skip(segment.unit as usize).take(segment.units as usize);
            units.for_each(|stays| *stays = false);
        };
        self.each_emptied(|segment, is_for_disk| {
            if is_for_disk {
                goes(segment);
            }
        })?;
        if let Some(unit) = moved {
            goes(self.segment(unit)?.found(unit));
        }
        let mut used = units;
        while used > 1 && (!stays[used as usize - 1] || self.is_free(used - 1)?) {
            used -= 1;
        }
        let len = self.core.data.len();
        if len.saturating_sub(unit_place(used).0) < (len / 8).max(1) {
            return Ok(false);
        }
        // Nobody may who only reads.
        let file = self.core.data.file();
        let is_locked = lock_range(file, READING, Want::Exclusive, false)?;
        if is_locked {
            lock_range(file, READING, Want::Nothing, true)?;
        }
        Ok(is_locked)
    }

    /// Gives free units at the end of the file back to the file system, if they are many.
    pub(crate) fn trim(&self) -> Result<()> {
        let units = self.units()?;
        let mut used = units;
        while used > 1 && self.is_free(used - 1)? {
            used -= 1;
        }
        let (end, len) = (unit_place(used).0, self.core.data.len());
        if used == units || len.saturating_sub(end) < len / 8 {
            return Ok(());
        }
        let file = self.core.data.file();
        if !lock_range(file, READING, Want::Exclusive, false)? {
            // Somebody reads who can hold nothing.
            return Ok(());
        }
        self.index.word(words::UNITS).store(used, Ordering::Release);
        let done = self.core.cut_data(end.next_multiple_of(4096));
        lock_range(file, READING, Want::Nothing, true)?;
        done
    }
}
