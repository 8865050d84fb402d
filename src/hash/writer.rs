//! Changing a store: one writer at a time, which may die at any instruction.
//!
//! An operation goes in steps, each of which leaves something that the next writer can go on from:
//!
//! 1. A slot is found, making room if need be. Nothing that readers see changes.
//! 2. The record is appended. Nobody can see it.
//! 3. What the counts will be is noted; then the end of the log moves behind the record, by one
//!    store. *The operation is done*: whoever comes next finishes it if this writer dies now.
//! 4. The slot, the counts, and the word that says up to where the index knows the log.
//!
//! [`Writer::finish_others`] does step 4 for a writer that died, by reading the records in between.
//! Plain puts do steps 1 and 4 later, see [`super::pending`]; how readers see all of a batch in step 4, [`super::entering`].

use super::core::Core;
use super::find::From;
use super::format::{MAX_KEY, MAX_VALUE, SEGMENT_HEADER, session, unit_place, words};
use super::grow::is_skewed;
use super::index::{Index, Located, damaged};
use super::log::Cursor;
use super::page::{Page, SIZES, address_of};
use super::record::{Kind, RecordHeader};
use super::removal::Removal;
use super::reserve::Leaves;
use super::sync::Extent;
use super::view::{Holds, RecordView, mark_dead, record};
use crate::keyhash;
use crate::os::atomic::Ordering;
use crate::os::lock::{Got, RobustLock};
use crate::os::process::random_word;
use crate::os::shared::SharedMap;
use crate::{Error, ErrorKind, Result};
use std::marker::PhantomData;
use std::time::Duration;

/// Lines of an empty index: a page and a directory, each with the line of its block.
pub(super) const EMPTY_LINES: u64 = SIZES[0] + 1 + 1 + 1;

/// The right to change the store; dropped, it is somebody else's.
pub(crate) struct Writer<'c> {
    pub core: &'c Core,
    pub index: &'c Index,
    /// The lock to let go; none where nobody else can know the index.
    pub lock: Option<RobustLock<'c>>,
    /// Only the thread that took a lock may let it go.
    pub _here: PhantomData<*const ()>,
}

impl Holds for Writer<'_> {}

impl Drop for Writer<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(lock) = self.lock {
            let changes = self.core.session(session::CHANGES).load(Ordering::Relaxed);
            self.core.session(session::VISIBLE).store(changes, Ordering::Release);
            lock.unlock();
        }
    }
}

/// A change of one key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
}

impl Change<'_> {
    fn key(&self) -> &[u8] {
        match self {
            Change::Put(key, _) | Change::Delete(key) => key,
        }
    }

    fn record(&self) -> RecordHeader {
        match self {
            Change::Put(key, value) => RecordHeader::new(Kind::Put, key, value),
            Change::Delete(key) => RecordHeader::new(Kind::Delete, key, &[]),
        }
    }
}

impl Core {
    /// Waits for the right to write, and has the index know everything.
    #[inline(always)]
    pub(crate) fn writer(&self) -> Result<Writer<'_>> {
        self.writer_unsettled()?.settled()
    }

    /// The same for who changes something, or looks at all of it, and may not want to wait for long.
    #[inline(always)]
    pub(crate) fn changer(&self) -> Result<Writer<'_>> {
        self.writer_within(|| self.lock_timeout)?.settled()
    }

    /// Waits for the right to write; puts may wait in the ring.
    #[inline(always)]
    pub(crate) fn writer_unsettled(&self) -> Result<Writer<'_>> {
        self.writer_within(|| None)
    }

    /// The same, for no longer than `limit` says.
    #[inline(always)]
    pub(crate) fn writer_within(
        &self,
        limit: impl FnOnce() -> Option<Duration>,
    ) -> Result<Writer<'_>> {
        if !self.data.is_writable() {
            return Err(Error::invalid("the store was opened for reading only"));
        }
        let lock = self.writer_lock();
        let got = lock.lock_for(limit)?;
        self.writer_with(lock, got)
    }

    /// The same if nobody is writing.
    pub(crate) fn try_writer(&self) -> Result<Option<Writer<'_>>> {
        let lock = self.writer_lock();
        let got = lock.try_lock()?;
        let writer = got.map(|got| self.writer_with(lock, got)).transpose()?;
        writer.map(Writer::settled).transpose()
    }

    #[inline(always)]
    pub(super) fn writer_with<'c>(&'c self, lock: RobustLock<'c>, got: Got) -> Result<Writer<'c>> {
        let writer =
            Writer { core: self, index: self.newest.get(), lock: Some(lock), _here: PhantomData };
        let is_current = self.is_newest(writer.index);
        let load = |word| writer.index.load(word);
        let is_done = writer.is_whole() && load(words::CLEAN) == 0;
        // Others may have made the files longer, or shorter.
        let known = self.session(session::DATA_LEN).load(Ordering::Relaxed);
        let is_known = self.data.len_and_cuts() == known
            && writer.index.map.len() == load(words::INDEX_LEN)
            && writer.index.is_checked.load(Ordering::Relaxed);
        if got == Got::Released && is_current && is_done && is_known {
            return Ok(writer);
        }
        writer.prepare(got, is_current)
    }
}

impl<'c> Writer<'c> {
    /// Has the index know everything.
    #[inline(always)]
    pub(super) fn settled(mut self) -> Result<Writer<'c>> {
        match self.settle() {
            Err(error) if is_skewed(&error) => self.take_other_hash()?,
            done => done?,
        }
        Ok(self)
    }

    /// Makes the index from the log, by a hash that nobody knows: what waits to be entered cannot be by this one,
    /// and would keep everybody from writing.
    #[cold]
    fn take_other_hash(&mut self) -> Result<()> {
        let other = (keyhash::SIP, random_word()?);
        self.index = self.core.new_index_with(self, other, From::Log)?;
        Ok(())
    }

    /// Whether the index knows all of the log, but for what waits in the ring, and readers look for nothing in a batch.
    #[inline(always)]
    pub(super) fn is_whole(&self) -> bool {
        let state = self.index.state();
        let is_known = self.index.load(words::APPLIED) == self.index.load(words::TAIL);
        is_known && !state.is_busy() || state.is_pending()
    }

    /// What is to be done before the first change, and after another writer failed.
    #[cold]
    fn prepare(mut self, got: Got, is_current: bool) -> Result<Writer<'c>> {
        let core = self.core;
        let (died, known) = (core.session(session::DIED), core.session(session::DATA_LEN));
        if got == Got::OwnerDied {
            died.store(1, Ordering::Release);
        }
        let has_died = died.load(Ordering::Acquire) != 0;
        let done = self.put_in_order(has_died, is_current);
        match done {
            Ok(()) => died.store(0, Ordering::Release),
            // The lock does not say it again: nobody knows how long the file is, and so all come here.
            Err(_) if has_died => {
                known.fetch_and(SharedMap::CUTS, Ordering::Release);
            }
            Err(_) => {}
        }
        if done.is_err()
            && let Some(lock) = self.lock.take()
        {
            // Not as when it is dropped: who watches is not to be told of what nobody sees before it is entered.
            lock.unlock();
        }
        done.map(|()| self)
    }

    fn put_in_order(&mut self, has_died: bool, is_current: bool) -> Result<()> {
        self.core.note_data_len(0)?;
        if !is_current {
            self.index = self.core.attach_under_lock(self)?;
        }
        self.index.store(words::INDEX_LEN, self.index.map.refresh_len()?);
        let clean = self.index.load(words::CLEAN);
        if clean != 0 {
            // On the disk before anything else is: what a power cut leaves must not look clean.
            self.index.store(words::CLEAN, 0);
            // Else the next writer would take it for said.
            let done = self.core.sync_index(self.index);
            done.inspect_err(|_| self.index.store(words::CLEAN, clean))?;
        }
        match self.put_right(has_died) {
            // It cannot be trusted, nor repaired: as if there were none.
            Err(error) if error.is_bad_file() => {
                self.index = self.core.new_index(self, self.index.header.hash_id, From::Log)?;
            }
            Err(error) if is_skewed(&error) => self.take_other_hash()?,
            done => done?,
        }
        // A batch that its writer could not finish is finished now.
        self.end_batch();
        // What the log left behind where the index was made from it is cleaned now: nothing may be changed before that is done
        // once more, and what is in the way is said to who changes something.
        let _ = self.pay_first();
        Ok(())
    }

    /// Has an index that nobody has looked at be one to be trusted, and finishes what another writer
    /// could not.
    fn put_right(&self, has_died: bool) -> Result<()> {
        let is_half_done = has_died || !self.is_whole();
        if is_half_done || !self.index.is_checked.load(Ordering::Relaxed) {
            self.check(has_died)?;
        }
        if has_died {
            self.sweep()?;
        }
        if is_half_done {
            let mut is_wiped = self.discard_unpublished()?;
            if has_died {
                // Also where an earlier attempt wiped it, and did not live to wait, or the disk refused.
                is_wiped |= self.wipe_unpublished() || self.core.is_unsure_of_wiped();
            }
            if is_wiped {
                self.wait_for_wiped()?;
            }
            self.finish_others()?;
            self.empty_ring();
            // What was noted by who died before he published it is of no record that comes there next.
            self.index.store(words::INTENT_AT, 0);
            self.repair_cleaning()?;
        }
        self.index.is_checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the key the value, at once in the index; whether it had one.
    #[inline(always)]
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let room = || RecordHeader::new(Kind::Put, key, value).room();
        self.with_room(Leaves::Most, room, || self.put_once(key, value))
    }

    #[inline(always)]
    fn put_once(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        check_sizes(key, value)?;
        self.note_put()?;
        self.pay_first()?;
        self.make_way(|| RecordHeader::new(Kind::Put, key, value).room())?;
        let place = self.index.place(key);
        let page = self.index.page(self.index.state(), place)?;
        let old = self.index.locate_in_page(&self.core.data, self, key, page, place)?;
        let slot = match old {
            Some(found) => found,
            None => self.slot_in_page(page, place)?,
        };
        let mut cursor = self.cursor();
        let at = self.append(&mut cursor, Kind::Put, key, value).inspect_err(|_| self.give_up())?;
        let room = RecordHeader::new(Kind::Put, key, value).room();
        let (count, live) = self.counts_after_put(slot, room);
        self.note_intent(at, count, live);
        self.publish(&cursor);
        slot.lead_to(at);
        self.counted(count, live, cursor.at);
        self.mark_replaced(slot);
        self.made_garbage(slot.room);
        Ok(old.is_some())
    }

    /// What the counts are when a slot leads to a record of `room` bytes instead.
    #[inline(always)]
    pub(crate) fn counts_after_put(&self, slot: Located<'_>, room: u64) -> (u64, u64) {
        let count = self.index.load(words::COUNT).wrapping_add(u64::from(slot.room == 0));
        let live = self.index.load(words::LIVE).wrapping_add(room).wrapping_sub(slot.room);
        (count, live)
    }

    /// Marks the record that a slot led to, if it did.
    #[inline(always)]
    pub(crate) fn mark_replaced(&self, slot: Located<'_>) {
        if slot.room != 0 {
            mark_dead(&self.core.data, address_of(slot.slot), true);
        }
    }

    /// Takes the key out; whether it was there.
    pub(crate) fn delete(&self, key: &[u8]) -> Result<bool> {
        self.with_room(Leaves::Some, || 0, || self.delete_once(key))
    }

    #[inline(always)]
    fn delete_once(&self, key: &[u8]) -> Result<bool> {
        check_sizes(key, &[])?;
        let place = self.index.place(key);
        // What garbage has to be paid for is paid while the key's slot comes from memory, and then
        // while its record does, which is looked at only after that: it may be one that is moved.
        self.index.prefetch(place);
        self.note_removal();
        self.pay_first()?;
        self.pay_meanwhile(|| self.index.prefetch_records(&self.core.data, place))?;
        let Some(slot) = self.index.locate(&self.core.data, self, key, place)? else {
            return Ok(false);
        };
        let mut cursor = self.cursor();
        let removal = self.core.removal_of(key, slot.slot).map(Removal::encode);
        let (kind, key, value) = match &removal {
            Some(removal) => (Kind::Remove, &[][..], &removal[..]),
            None => (Kind::Delete, key, &[][..]),
        };
        let at = self.append(&mut cursor, kind, key, value).inspect_err(|_| self.give_up())?;
        let count = self.index.load(words::COUNT).saturating_sub(1);
        let live = self.index.load(words::LIVE).saturating_sub(slot.room);
        self.note_intent(at, count, live);
        self.publish(&cursor);
        slot.clear();
        self.counted(count, live, cursor.at);
        self.mark_replaced(slot);
        self.made_garbage(slot.room + (cursor.at - at));
        Ok(true)
    }

    /// All of `changes`, or none: on the disk, and to readers.
    pub(crate) fn batch<'a>(
        &self,
        changes: impl ExactSizeIterator<Item = Change<'a>> + Clone,
    ) -> Result<()> {
        let leaves =
            if changes.clone().any(|change| is_put(&change)) { Leaves::Most } else { Leaves::Some };
        let room = || changes.clone().map(|change| change.record().room()).sum();
        self.with_room(leaves, room, || self.batch_once(changes.clone()))
    }

    fn batch_once<'a>(
        &self,
        changes: impl ExactSizeIterator<Item = Change<'a>> + Clone,
    ) -> Result<()> {
        let count = changes.len();
        if count == 0 {
            return Ok(());
        }
        for change in changes.clone() {
            match change {
                Change::Put(key, value) => check_sizes(key, value)?,
                Change::Delete(key) => check_sizes(key, &[])?,
            }
        }
        let puts = changes.clone().filter(is_put).count() as u64;
        if puts > 0 {
            self.note_put()?
        } else {
            self.note_batch()
        }
        self.pay_first()?;
        self.make_way_for(changes.clone())?;
        let count =
            u32::try_from(count).map_err(|_| Error::invalid("a batch of over 2^32 changes"))?;
        if puts > 0 {
            let reserved = self.reserve_batch(puts);
            let places = || changes.clone().filter(is_put).map(|put| self.index.place(put.key()));
            if let Err(error) = reserved
                && (error.is_bad_file() || !self.has_slots(places())?)
            {
                return Err(error);
            }
        }
        let mut cursor = self.cursor();
        let header = RecordHeader { kind: Kind::Batch, key_len: count, value_len: 0 };
        let append_all = |cursor: &mut Cursor| {
            self.append_record(cursor, header, &[], &[])?;
            for change in changes.clone() {
                match change {
                    Change::Put(key, value) => self.append(cursor, Kind::Put, key, value)?,
                    Change::Delete(key) => self.append(cursor, Kind::Delete, key, &[])?,
                };
            }
            Ok(())
        };
        append_all(&mut cursor).inspect_err(|_: &Error| self.give_up())?;
        self.index.store(words::INTENT_AT, 0);
        let written: u64 = changes.map(|change| change.record().room()).sum();
        let live = self.index.load(words::LIVE);
        self.publish(&cursor);
        // After an error readers look into the batch until the next writer has entered it.
        self.finish_others()?;
        self.end_batch();
        let all = live.saturating_add(written + header.room());
        self.made_garbage(all.saturating_sub(self.index.load(words::LIVE)));
        Ok(())
    }

    /// Has room in the index for so many puts of a batch, lest it is missing when there is no way back.
    pub(super) fn reserve_batch(&self, puts: u64) -> Result<()> {
        let bump = self.index.load(words::BUMP);
        self.reserve_index(bump.saturating_add(puts + 4 * 129 + EMPTY_LINES))
    }

    /// Takes all keys out, at once.
    pub(crate) fn clear(&self) -> Result<()> {
        self.with_room(Leaves::Nothing, || 0, || self.clear_once())
    }

    fn clear_once(&self) -> Result<()> {
        let mut cursor = self.cursor();
        let record = RecordHeader { kind: Kind::Clear, key_len: 0, value_len: 0 };
        let appended = self.append_record(&mut cursor, record, &[], &[]).and_then(|_| {
            // Room for the empty index, lest it is missing when there is no way back: behind what another segment of
            // the log took.
            let end = self.index.load(words::BUMP).saturating_add(EMPTY_LINES);
            self.reserve_index_leaving(Leaves::Nothing, end)
        });
        appended.inspect_err(|_| self.give_up())?;
        self.index.store(words::INTENT_AT, 0);
        self.publish(&cursor);
        self.finish_others()?;
        match self.clean_all() {
            // The keys are gone; their space is given back when there is room to work.
            Err(error) if !error.is_bad_file() => Ok(()),
            done => done,
        }
    }

    /// Puts an empty directory in the place of the one there is.
    pub(crate) fn empty_index(&self) -> Result<()> {
        let block = self.allocate_before(SIZES[0], 0)?;
        let page = Page { block, lines: SIZES[0], depth: 0, base: 0 };
        for number in 0..page.lines {
            for word in self.index.line(page, number)? {
                word.store(0, Ordering::Relaxed);
            }
        }
        let directory = self.allocate_before(1, 0)?;
        // As after a batch: who looks for many keys has all of them from before, or after.
        let state = self.index.state().with_directory(directory + 1, 0).counted();
        self.index.entry(state, 0)?.store(page.encode(), Ordering::Relaxed);
        self.index.set_state(state);
        self.index.word(words::COUNT).store(0, Ordering::Release);
        self.index.word(words::LIVE).store(0, Ordering::Release);
        self.sweep()
    }

    /// Notes what the counts will be when the record at `at` is entered.
    #[inline(always)]
    pub(crate) fn note_intent(&self, at: u64, count: u64, live: u64) {
        // What is counted is seen to be of this record, or later, by who has not seen this record begun.
        self.index.word(words::INTENT_COUNT).store(count, Ordering::Release);
        self.index.word(words::INTENT_LIVE).store(live, Ordering::Release);
        self.index.word(words::INTENT_AT).store(at, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn counted(&self, count: u64, live: u64, applied: u64) {
        // Behind what has been begun, for who reads without the lock: see [`super::count`].
        self.index.word(words::COUNT).store(count, Ordering::Release);
        self.index.word(words::LIVE).store(live, Ordering::Release);
        self.index.word(words::APPLIED).store(applied, Ordering::Release);
    }

    /// After a failed append: no segment may stay taken.
    #[cold]
    pub(crate) fn give_up(&self) {
        // If this fails, too, the store is damaged: a segment stays taken.
        let is_freed = self.discard_unpublished().unwrap_or(true);
        if self.wipe_unpublished() || is_freed {
            // If the disk refuses, it is asked again before anything is appended.
            let _ = self.wait_for_wiped();
        }
    }

    /// Before anything is appended: has what was wiped be so on the disk. It may be there as it was:
    /// then a power cut could bring it back behind what is written next, with checksums that fit.
    #[inline(always)]
    pub(super) fn wiped_first(&self) -> Result<()> {
        if self.core.is_unsure_of_wiped() { self.wait_for_wiped() } else { Ok(()) }
    }

    #[cold]
    fn wait_for_wiped(&self) -> Result<()> {
        self.core.wait_for_disk(Extent::All, true).map(drop)
    }

    /// Enters the records between what the index knows and the end of the log.
    pub(crate) fn finish_others(&self) -> Result<()> {
        let mut at = self.index.load(words::APPLIED);
        let tail = self.index.load(words::TAIL);
        let mut segments = 0;
        while at != tail {
            let found = record(&self.core.data, self, at);
            let found = found.ok_or_else(|| damaged(at, "the log ends before its end"))?;
            at = match found.header.kind {
                Kind::End if segments > self.index.load(words::UNITS) => {
                    return Err(damaged(at, "the log leads in a circle"));
                }
                Kind::End => {
                    segments += 1;
                    self.after_end(at)?
                }
                _ => {
                    self.enter(at, &found)?;
                    at + found.header.room()
                }
            };
            self.index.word(words::APPLIED).store(at, Ordering::Release);
        }
        Ok(())
    }

    /// Where the first record of the segment is that the end at `at` names.
    pub(crate) fn after_end(&self, at: u64) -> Result<u64> {
        let named = self.core.named_by_end(at);
        let (unit, _) =
            named.ok_or_else(|| damaged(at, "a segment ends without naming the next"))?;
        Ok(unit_place(unit).0 + SEGMENT_HEADER)
    }

    /// Enters one record in the index: once or again, with the same result.
    fn enter(&self, at: u64, found: &RecordView<'_>) -> Result<()> {
        match found.header.kind {
            Kind::Put | Kind::Delete | Kind::Remove => {}
            Kind::Clear => return self.empty_index(),
            Kind::Evict => return self.enter_eviction(at),
            Kind::Batch => {
                self.begin_batch(at);
                return Ok(());
            }
            Kind::End => return Ok(()),
        }
        let is_put = found.header.kind == Kind::Put;
        let key = self.core.key_of(self, found);
        let key = key.ok_or_else(|| damaged(at, "a removal of what is not there"))?;
        let place = self.index.place(key);
        let old = self.index.locate(&self.core.data, self, key, place)?;
        let is_begun = self.index.load(words::INTENT_AT) == at;
        if is_begun {
            // The counts were noted when they could still be known.
        } else {
            let old_room = old.map_or(0, |old| old.room);
            let room = if is_put { found.header.room() } else { 0 };
            let count = self.index.load(words::COUNT).wrapping_add(u64::from(is_put));
            let count = count.saturating_sub(u64::from(old.is_some()));
            let live = self.index.load(words::LIVE).saturating_add(room).saturating_sub(old_room);
            if is_put && old.is_none() {
                // Before anything is noted, so that no room leaves nothing half done.
                self.slot_for(place)?;
            }
            self.note_intent(at, count, live);
        }
        match (old, is_put) {
            (Some(old), true) if address_of(old.slot) == at => {}
            (Some(old), true) => old.lead_to(at),
            (None, true) => self.slot_for(place)?.lead_to(at),
            (Some(old), false) => old.clear(),
            (None, false) => {}
        }
        let (count, live) =
            (self.index.load(words::INTENT_COUNT), self.index.load(words::INTENT_LIVE));
        self.counted(count, live, self.index.load(words::APPLIED));
        Ok(())
    }
}

fn is_put(change: &Change<'_>) -> bool {
    matches!(change, Change::Put(..))
}

#[inline(always)]
pub(crate) fn check_sizes(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() as u64 <= MAX_KEY && value.len() as u64 <= MAX_VALUE {
        return Ok(());
    }
    too_large(key, value)
}

#[cold]
fn too_large(key: &[u8], value: &[u8]) -> Result<()> {
    let (what, size, limit) = match key.len() as u64 {
        size if size > MAX_KEY => ("key", size, MAX_KEY),
        _ => ("value", value.len() as u64, MAX_VALUE),
    };
    Err(Error::new(ErrorKind::TooLarge { what, size, limit }))
}
