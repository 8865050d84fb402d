//! A limit: who needs room in a full store drops the records that were not used for longest.
//!
//! The log is a clock, and its oldest end is the hand. Before a write that would leave too little
//! room, the oldest records are passed: those that were used since they were written are copied to
//! the log's new end, unused again; the others are dropped. Whoever reads a record sets one bit in
//! its header, if it is not set: nothing else about a record ever changes.
//!
//! What was dropped has no record of its own. Behind the copies one record, the *eviction*, says up
//! to where the log's old end has no value any more: it makes dropping a change like any other. It
//! counts from the moment when the end of the log moves behind it; whoever comes next finishes it
//! if this writer dies; who makes the index again reads it, too. So what a power failure leaves is
//! what was after some change, and a key that was dropped and then removed does not come back.
//!
//! How much a write may have to do: it passes eight times the bytes that it needs, and not less than
//! 4 KiB, and one group more. What is not found by then is taken from what was used. As writers
//! begin while a sixteenth part of the limit is still free, they can pass a quarter of the limit
//! where all is used and need nothing of it. Garbage on the way is not counted: it is passed once.
//!
//! The disk is a limit, too, where it has less room, as is that on the size of files: a change that finds no room, also when
//! garbage was cleaned, drops as much as makes a segment free, or what it needs, and is tried again.
//!
//! Threads: only readers' bits are set without the writer's lock, by atomic operations.

use super::clean::Group;
use super::core::Core;
use super::format::{Header, words};
use super::handle::Hash;
use super::index::{Located, damaged, not_a_record};
use super::record::{EVICTION_BYTES, Kind, RecordHeader, USED};
use super::scan::{self, Next, Place};
use super::view::{Holds, RecordView, record};
use super::writer::{Change, Writer, check_sizes};
use crate::os::atomic::Ordering;
use crate::{Error, ErrorKind, Result};
use std::cmp::Ordering as Order;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Writers begin to drop records when less than such a part of the limit is free,
const RESERVE: u64 = 16;
/// and go on until such a part more is, so that not every write has something to drop.
const SPARE: u64 = 64;
/// A write passes so many bytes of living records for each that it needs, and at least so many.
const PACE: u64 = 8;
const PASSED_AT_LEAST: u64 = 4096;
/// Records are looked at in groups of up to so many bytes, garbage included.
const BYTES_AT_ONCE: u64 = 16 << 10;

/// So long a lookup may take whose thread has to wait for a processor.
const LOOKUP: Duration = Duration::from_millis(20);
/// So often is waited for one.
const MOST_WAITS: u32 = 50;

/// What a record is worth, given its key and value.
pub(crate) type Worth = fn(&[u8], &[u8]) -> u64;

/// Refuses another limit than that of a store; 0 is whichever it has.
pub(crate) fn check_limit(header: &Header, wanted: u64) -> Result<()> {
    let has = header.limit;
    if wanted == 0 || wanted == has {
        return Ok(());
    }
    let found = if has == 0 { "no limit".into() } else { format!("a limit of {has} bytes") };
    Err(Error::invalid(format!(
        "the store has {found}, and it stays so: name no other ({wanted} bytes), or make a new store"
    )))
}

impl Core {
    /// Notes that the record at `at` was read, by somebody who may write the map.
    #[inline(always)]
    pub(crate) fn used(&self, at: u64) {
        if self.header.limit > 0 {
            self.set_used(at);
        }
    }

    fn set_used(&self, at: u64) {
        if let Some(word) = self.data.word(at)
            && word.load(Ordering::Relaxed) & USED == 0
        {
            word.fetch_or(USED, Ordering::Relaxed);
        }
    }

    /// Whether anybody has.
    pub(crate) fn is_used(&self, at: u64) -> bool {
        self.data.word(at).is_some_and(|word| word.load(Ordering::Relaxed) & USED != 0)
    }

    /// Up to where the eviction at `at` says that there is nothing: a segment's number, and a place.
    /// Of two, the greater is the later.
    pub(crate) fn eviction(&self, at: u64) -> Option<(u64, u64)> {
        let word = |at| Some(self.data.word(at)?.load(Ordering::Relaxed));
        Some((word(at + 8)?, word(at + 16)?))
    }

    /// The same of the last eviction that is whole in a store, which may be damaged.
    pub(crate) fn last_eviction(
        &self,
        held: &impl Holds,
        segments: &[scan::Span],
    ) -> Result<Option<(u64, u64)>> {
        if self.header.limit == 0 {
            return Ok(None);
        }
        let mut last = None;
        for segment in segments.iter().copied() {
            self.each_whole(held, segment, |at, found| {
                if found.header.kind == Kind::Evict {
                    last = last.max(self.eviction(at));
                }
                Ok(())
            })?;
        }
        Ok(last)
    }
}

/// A record that the index leads to.
struct Living<'w> {
    at: u64,
    record: RecordView<'w>,
    slot: Located<'w>,
    is_used: bool,
    is_dropped: bool,
}

impl Hash {
    /// Checks a record before it is put, as who keeps it for later wants to who knows only now where it came from:
    /// the store takes it, whatever else it has by then.
    ///
    /// # Errors
    /// The key, the value or the record is over its limit.
    pub fn check_record(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, value)?;
        match self.limit() {
            0 => Ok(()),
            limit => check_room(limit, RecordHeader::new(Kind::Put, key, value).room(), "record"),
        }
    }
}

/// An error if there are more bytes than there may be.
fn check_room(limit: u64, room: u64, what: &'static str) -> Result<()> {
    match room > limit {
        true => Err(Error::new(ErrorKind::TooLarge { what, size: room, limit })),
        false => Ok(()),
    }
}

impl Living<'_> {
    fn room(&self) -> u64 {
        self.record.header.room()
    }
}

impl Writer<'_> {
    /// Sees to it that what lives in the store, and a record of so many bytes, are within its limit.
    #[inline(always)]
    pub(crate) fn make_way(&self, room: impl FnOnce() -> u64) -> Result<()> {
        match self.core.header.limit {
            0 => Ok(()),
            limit => self.make_way_within(limit, room(), "record"),
        }
    }

    /// The same for a batch.
    pub(crate) fn make_way_for<'a>(&self, changes: impl Iterator<Item = Change<'a>>) -> Result<()> {
        let limit = self.core.header.limit;
        if limit == 0 {
            return Ok(());
        }
        let room = changes.map(|change| match change {
            Change::Put(key, value) => RecordHeader::new(Kind::Put, key, value).room(),
            Change::Delete(_) => 0,
        });
        self.make_way_within(limit, room.sum(), "batch")
    }

    fn make_way_within(&self, limit: u64, room: u64, what: &'static str) -> Result<()> {
        check_room(limit, room, what)?;
        match self.drop_oldest(limit, room) {
            // There is room as it is: more is made when it can be.
            Err(error) if !error.is_bad_file() && self.excess(limit, room) == 0 => Ok(()),
            done => done,
        }
    }

    /// How many bytes too many there would be, with so many more, if there may be so many.
    fn excess(&self, most: u64, room: u64) -> u64 {
        self.index.load(words::LIVE).saturating_add(room).saturating_sub(most)
    }

    fn drop_oldest(&self, limit: u64, room: u64) -> Result<()> {
        let full = limit - limit / RESERVE;
        if self.excess(full, room) == 0 {
            return Ok(());
        }
        if self.index.load(words::LIVE) > limit.min(self.index.log_bytes()) {
            // Lest everything is dropped for a number.
            return Err(damaged(words::LIVE, "the index counts more bytes than there may be"));
        }
        self.drop_until(full - limit / SPARE, limit, room)
    }

    /// Drops the oldest until no more than `enough` lives, with `room` more, if so much is found that was not used; and in any
    /// case until it is no more than `most`.
    fn drop_until(&self, enough: u64, most: u64, room: u64) -> Result<()> {
        let mut left = room.saturating_mul(PACE).max(PASSED_AT_LEAST);
        while left > 0 && self.excess(enough, room) > 0 && self.index.load(words::LIVE) > 0 {
            left -= match self.pass_group(self.excess(enough, room), false) {
                Ok(passed) => passed.min(left),
                // There is no room for copies: without them there may be.
                Err(error) if error.is_no_room() => left,
                Err(error) => return Err(error),
            };
        }
        while self.excess(most, room) > 0 {
            self.pass_group(self.excess(most, room), true)?;
        }
        Ok(())
    }

    /// In a store with a limit: drops the oldest records until a change that needs `room` bytes finds them, which it did not.
    #[cold]
    pub(super) fn drop_for_room<T>(
        &self,
        room: u64,
        mut error: Error,
        change: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let live = self.index.load(words::LIVE);
        // Not all, where it is of no use: as the index must be longer, and others have what the disk had left.
        let least = live.saturating_sub(self.most_to_drop(room));
        // What was made and cannot be entered the next writer enters first. Nor is it of use while a reader keeps what was
        // dropped: all would be gone before he is.
        let is_held = || self.index.load(words::EMPTIED) > room.max(self.segment_bytes(0));
        let is_of_use = || Ok(!is_held() || self.wait_for_readers(is_held)?);
        while self.is_whole() && self.index.load(words::LIVE) > least && is_of_use()? {
            if let Err(other) = self.drop_segment(room) {
                return Err(if other.is_bad_file() { other } else { error });
            }
            match change() {
                Err(other) if other.is_no_room() => error = other,
                done => return done,
            }
        }
        Err(error)
    }

    /// Waits for those who are in the middle of a lookup, if they keep what was emptied; whether they keep it no longer. Who
    /// looks on after some such waits is waited for no more.
    fn wait_for_readers(&self, is_held: impl Fn() -> bool) -> Result<bool> {
        let oldest = match self.index.load(words::RETIRED_UNIT) {
            0 => return Ok(false),
            retired => self.segment(retired - 1)?.sequence(),
        };
        let (kept, waits) = (&self.core.kept, &self.core.waits);
        if kept.swap(oldest, Ordering::Relaxed) != oldest {
            waits.store(0, Ordering::Relaxed);
        }
        if waits.fetch_add(1, Ordering::Relaxed) >= MOST_WAITS {
            return Ok(false);
        }
        let start = Instant::now();
        while start.elapsed() < LOOKUP {
            sleep(LOOKUP / 100);
            self.take_back_all()?;
            if !is_held() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops records of as many bytes as a segment has, or as are needed, and has that be free.
    fn drop_segment(&self, room: u64) -> Result<()> {
        let bytes = room.max(self.segment_bytes(0));
        let most = self.index.load(words::LIVE).saturating_sub(bytes);
        self.drop_until(most, most, 0)?;
        self.free_what_waits(1)
    }

    /// Passes some of the oldest records, to be rid of `wanted` bytes, also of those that were used
    /// if it is `forced`. Returns how many bytes of living records it has passed.
    fn pass_group(&self, wanted: u64, is_forced: bool) -> Result<u64> {
        let unit = self.oldest_ended()?;
        let mut group = Group::default();
        if !self.gather(&mut group, BYTES_AT_ONCE, u64::MAX)? {
            return Err(damaged(words::OLDEST_UNIT, "the oldest segment is the newest, too"));
        }
        let (mut next, mut is_end) = (group.next, group.is_end);
        let mut living = Vec::new();
        for (at, place) in group.found() {
            self.check_whole(unit, at)?;
            if let Some(slot) = self.index.locate_address(place, at)? {
                let record = record(&self.core.data, self, at).ok_or_else(|| not_a_record(at))?;
                let is_used = self.core.is_used(at);
                living.push(Living { at, record, slot, is_used, is_dropped: false });
            }
        }
        let chosen = match self.core.worth {
            Some(worth) => by_worth(&mut living, worth, wanted, is_forced),
            None => by_age(&mut living, wanted, is_forced),
        };
        if let Some(rest) = living.get(chosen) {
            (next, is_end) = (rest.at, false);
            living.truncate(chosen);
        }
        self.pass(&living, (self.segment(unit)?.sequence(), next))?;
        self.go_on_at(unit, next, is_end)?;
        Ok(living.iter().map(Living::room).sum())
    }

    /// The oldest segment's unit; if it is also the newest, another is begun.
    fn oldest_ended(&self) -> Result<u64> {
        let unit = self.index.load(words::OLDEST_UNIT);
        if unit != self.index.load(words::TAIL_UNIT) {
            return Ok(unit);
        }
        if self.index.load(words::CLEANED) >= self.index.load(words::TAIL) {
            return Err(damaged(words::LIVE, "the index counts more bytes than the log has"));
        }
        self.begin_segment()?;
        Ok(unit)
    }

    /// Copies those that are not dropped, and says that there is nothing before `end` any more.
    fn pass(&self, living: &[Living<'_>], end: (u64, u64)) -> Result<()> {
        if living.is_empty() {
            return Ok(());
        }
        let mut cursor = self.cursor();
        let mut moved = Vec::with_capacity(living.len());
        let mut append = || {
            for one in living.iter().filter(|one| !one.is_dropped) {
                let at = self.append_copy(&mut cursor, (one.at, end.0), one.record)?;
                moved.push((one.slot, at));
            }
            if living.iter().all(|one| !one.is_dropped) {
                return Ok(None);
            }
            let mut place = [0; EVICTION_BYTES as usize];
            let (sequence, at) = place.split_at_mut(8);
            sequence.copy_from_slice(&end.0.to_le_bytes());
            at.copy_from_slice(&end.1.to_le_bytes());
            let header = RecordHeader { kind: Kind::Evict, key_len: 0, value_len: 0 };
            self.append_record(&mut cursor, header, &[], &place).map(Some)
        };
        let eviction = append().inspect_err(|_: &Error| self.give_up())?;
        self.lead_to_copies(&cursor, moved.into_iter(), eviction.unwrap_or(cursor.at));
        self.finish_others()
    }

    /// Drops the records that the eviction at `at` says are gone: once or again, with the same
    /// result. What was copied the index leads to elsewhere.
    pub(crate) fn enter_eviction(&self, at: u64) -> Result<()> {
        let unit = self.index.load(words::OLDEST_UNIT);
        let (sequence, end) = self.core.eviction(at).unwrap_or_default();
        if self.segment(unit)?.sequence() != sequence || end >= self.segment_end(unit)? {
            return Err(damaged(at, "what should be gone is not the oldest of the log"));
        }
        let mut from = self.index.load(words::CLEANED);
        while from < end {
            let found = record(&self.core.data, self, from);
            let found = found.ok_or_else(|| damaged(from, "what should be a record is none"))?;
            if found.header.kind == Kind::Put {
                let place = self.index.place(found.key);
                let slot = self.index.locate_address(place, from)?;
                let is_begun = self.index.load(words::INTENT_AT) == from;
                if slot.is_some() && !is_begun {
                    self.note_drop(from, found.header.room());
                }
                if let Some(old) = slot {
                    old.clear();
                }
                if slot.is_some() || is_begun {
                    self.count_drop();
                }
            }
            from += found.header.room();
            // After each, lest a drop that was counted is counted again when the next is noted.
            self.index.word(words::CLEANED).store(from, Ordering::Release);
        }
        Ok(())
    }

    /// Notes what the counts will be when the record at `at` is dropped.
    fn note_drop(&self, at: u64, room: u64) {
        let load = |word| self.index.load(word);
        self.index.store(words::INTENT_EVICTED, load(words::EVICTED).wrapping_add(1));
        let count = load(words::COUNT).saturating_sub(1);
        self.note_intent(at, count, load(words::LIVE).saturating_sub(room));
    }

    fn count_drop(&self) {
        for (word, noted) in [
            (words::COUNT, words::INTENT_COUNT),
            (words::LIVE, words::INTENT_LIVE),
            (words::EVICTED, words::INTENT_EVICTED),
        ] {
            self.index.word(word).store(self.index.load(noted), Ordering::Release);
        }
    }

    /// Takes out of an index that was made from the log, whose first segment is `first`, what an
    /// eviction says is gone.
    pub(crate) fn drop_before(&self, first: scan::Span, end: (u64, u64)) -> Result<()> {
        let mut place = Place::first_of(first);
        while (place.segment.sequence, place.at) < end {
            place = match place.next(self.core, self) {
                Next::Nothing(_) => return Ok(()),
                Next::Segment(next) => next,
                Next::Record(found, after) => {
                    let slot = match found.header.kind {
                        Kind::Put => {
                            self.index.locate_address(self.index.place(found.key), place.at)?
                        }
                        _ => None,
                    };
                    if let Some(old) = slot {
                        self.note_drop(place.at, found.header.room());
                        old.clear();
                        self.count_drop();
                    }
                    after
                }
            };
        }
        // Counted are those that are dropped from now on.
        self.index.store(words::EVICTED, 0);
        self.index.store(words::INTENT_AT, 0);
        Ok(())
    }
}

/// Which records go, the oldest first; returns how many of them are looked at.
fn by_age(living: &mut [Living<'_>], wanted: u64, is_forced: bool) -> usize {
    let mut freed = 0;
    for (i, one) in living.iter_mut().enumerate() {
        if freed >= wanted {
            return i;
        }
        one.is_dropped = is_forced || !one.is_used;
        freed += if one.is_dropped { one.room() } else { 0 };
    }
    living.len()
}

/// The same by what they are worth. Half of those that may go do, so that for each that is copied
/// another is not; if it is forced, as many as must.
fn by_worth(living: &mut [Living<'_>], worth: Worth, wanted: u64, is_forced: bool) -> usize {
    let mut order: Vec<(bool, bool, u64, u64, usize)> = Vec::with_capacity(living.len());
    for (i, one) in living.iter().enumerate() {
        let worth = worth(one.record.key, one.record.value);
        let is_precious = worth == u64::MAX;
        if is_forced || !(one.is_used || is_precious) {
            order.push((is_precious, one.is_used, worth, one.room(), i));
        }
    }
    // The worth for each byte, compared without dividing.
    let by_byte = |a: (u64, u64), b: (u64, u64)| -> Order {
        (u128::from(a.0) * u128::from(b.1)).cmp(&(u128::from(b.0) * u128::from(a.1)))
    };
    order.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(by_byte((a.2, a.3), (b.2, b.3))));
    let half = order.len().div_ceil(2);
    let mut freed = 0;
    for (n, (_, _, _, room, i)) in order.into_iter().enumerate() {
        if if is_forced { freed >= wanted } else { n >= half } {
            break;
        }
        if let Some(one) = living.get_mut(i) {
            one.is_dropped = true;
        }
        freed += room;
    }
    living.len()
}
