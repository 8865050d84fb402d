//! Making the index again from the log: after a power failure, or where the index file is gone.
//!
//! Every record of the log is read and checked, in the order in which they were appended, from the
//! oldest segment that the newest checkpoint has, or a later one ([`Core::log_start`]), to the first
//! place where no whole record is. If that place is before what the checkpoint says was durable, the
//! file is damaged; else it is where the power failed, and the log ends there.
//!
//! What may lie behind that end, on the disk, must never be taken for a part of the log later: its
//! segments' headers are wiped, and the log goes on in a new segment, with a number by chance.

use super::clean::LARGE;
use super::fill::Collected;
use super::format::{Checkpoint, SEGMENT_HEADER, session, unit_place, words};
use super::index::{Index, not_a_record};
use super::page::address_of;
use super::pins;
use super::record::Kind;
use super::reserve::Leaves;
use super::scan::{Next, Place, Span};
use super::sync::Extent;
use super::view::{bytes, is_marked_dead, mark_dead, record, write};
use super::writer::Writer;
use crate::os::atomic::Ordering;
use crate::os::process::random_word;
use crate::{Error, Result};
use std::marker::PhantomData;

/// What is to become of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// It is only read, as far as it goes.
    Stays,
    /// It is only read, up to this place: what is behind it does not count yet.
    Until(u64),
    /// It will be written.
    GoesOn,
}

impl Writer<'_> {
    /// Fills the new, empty index from the log.
    pub(crate) fn rebuild(&self, log: Log) -> Result<()> {
        self.rebuild_by(log, Collected::new(self.core.data.refresh_len()?))
    }

    /// The same, where records wait that are collected.
    pub(super) fn rebuild_by(&self, log: Log, collected: Collected) -> Result<()> {
        let core = self.core;
        let durable = core.checkpoint().unwrap_or_default();
        let oldest = durable.oldest.max(1);
        let segments = core.segments(self, oldest);
        // A segment of the same number that never counted is wiped before there is this one.
        let first = core.log_start(self, &segments, &durable)?;
        self.index.store(words::UNITS, core.units());
        self.make_segment_table(core.units())?;
        self.index.store(words::OLDEST_UNIT, first.unit);
        self.index.store(words::CLEANED, first.first());
        let end = self.replay(first, &durable, log, collected)?;
        self.index.store(words::TAIL, end.at);
        self.index.store(words::APPLIED, end.at);
        self.index.store(words::TAIL_UNIT, end.segment.unit);
        self.index.store(words::TAIL_END, end.segment.end());
        self.index.store(words::SEQUENCE, end.segment.sequence);
        if log == Log::GoesOn {
            // Another power failure must not take the store back behind what is found now.
            core.session(session::PROMISED).fetch_max(end.segment.sequence, Ordering::Release);
            self.write_present();
            // What the checkpoint in memory says may not be on the disk.
            if first.sequence > core.session(session::REUSABLE).load(Ordering::Acquire).max(1) {
                // What the one on the disk needs is free now. Twice, for the next one must be durable itself.
                self.sync_now()?;
                self.sync_now()?;
            }
            // What was lost, wherever a header of it is left. Those before the first are not looked at any more, but
            // a backup may be copying them.
            for unit in 0..core.units().min(self.units()?) {
                let stray = core.segment_at(self, unit).filter(|s| s.sequence > first.sequence);
                if stray.is_some() && self.segment(unit)?.sequence() == 0 {
                    write(&core.data, unit_place(unit).0, &[0; SEGMENT_HEADER as usize]);
                }
            }
            // What readers hold may be in segments that the log has left: none is free before.
            let epoch = pins::end_epoch(&core.data);
            for unit in 0..self.units()? {
                let segment = self.segment(unit)?;
                if segment.sequence() == 0 {
                    segment.set_free_after(epoch);
                }
            }
            self.seal(end)?;
            // A power cut must not bring back what was wiped, behind what is written next.
            core.wait_for_disk(Extent::All, true)?;
        }
        Ok(())
    }

    /// Fills the new, empty index with what another one leads to.
    pub(crate) fn copy_index(&self, old: &Index) -> Result<()> {
        const COPIED: [u64; 16] = [
            words::TAIL,
            words::APPLIED,
            words::TAIL_UNIT,
            words::TAIL_END,
            words::CHAIN,
            words::OLDEST_UNIT,
            words::CLEANED,
            words::RETIRED_UNIT,
            words::SEQUENCE,
            words::DEBT,
            words::UNITS,
            words::FREE_UNIT,
            words::SKIPPED,
            words::EVICTED,
            words::EMPTIED,
            words::HASTE,
        ];
        for word in COPIED {
            self.index.store(word, old.load(word));
        }
        let from = Writer { core: self.core, index: old, lock: None, _here: PhantomData };
        self.make_segment_table(from.units()?)?;
        for unit in 0..from.units()? {
            self.segment(unit)?.copy_from(&from.segment(unit)?);
        }
        let mut collected = Collected::new(self.core.data.len());
        old.each_page(from.directory()?, |page| {
            let entries = from.entries(page)?;
            from.prefetch_records(&entries);
            for entry in entries {
                let at = address_of(entry);
                let found = record(&self.core.data, self, at);
                let found = found.ok_or_else(|| not_a_record(at))?;
                self.collect(&mut collected, at, self.index.place(found.key), &found)?;
            }
            Ok(())
        })?;
        self.enter_collected(&mut collected)
    }

    /// Enters the records of the log, and says where it ends.
    fn replay(
        &self,
        first: Span,
        durable: &Checkpoint,
        log: Log,
        mut collected: Collected,
    ) -> Result<Place> {
        let core = self.core;
        let mut place = Place::first_of(first);
        let mut dropped = None;
        self.take_segment(first, None)?;
        while log != Log::Until(place.at) {
            match place.next(core, self) {
                Next::Record(found, after) => {
                    if log == Log::GoesOn && is_marked_dead(&core.data, place.at) {
                        // What replaced it may be lost.
                        mark_dead(&core.data, place.at, false);
                    }
                    match found.header.kind {
                        Kind::Batch if !after.has_records(core, self, found.header.key_len) => {
                            let why = "a batch is not whole";
                            self.check_end(place, durable, why)?;
                            break;
                        }
                        Kind::Put | Kind::Delete | Kind::Remove => {
                            if let Some(key) = core.key_of(self, &found) {
                                let hash_place = self.index.place(key);
                                self.collect(&mut collected, place.at, hash_place, &found)?;
                            }
                        }
                        Kind::Clear => self.forget_collected(&mut collected)?,
                        Kind::Evict => dropped = dropped.max(core.eviction(place.at)),
                        Kind::Batch | Kind::End => {}
                    }
                    place = after;
                }
                Next::Segment(next) => {
                    self.take_segment(next.segment, Some(place.segment))?;
                    place = next;
                }
                Next::Nothing(why) => {
                    self.check_end(place, durable, why)?;
                    break;
                }
            }
        }
        self.enter_collected(&mut collected)?;
        if let Some(dropped) = dropped {
            self.drop_before(first, dropped)?;
        }
        Ok(place)
    }

    /// Notes a segment in the table, after another.
    fn take_segment(&self, segment: Span, before: Option<Span>) -> Result<()> {
        // A power cut may have left the file shorter than its last segment: what follows goes behind it.
        let end = segment.unit.saturating_add(segment.units);
        if end > self.most_units() {
            let why = "a segment is far longer than the file".to_owned();
            return Err(damaged_data(unit_place(segment.unit).0, why));
        }
        if end > self.index.load(words::UNITS) {
            self.add_units(end)?;
        }
        self.set_used(segment.unit, segment.units, segment.sequence)?;
        if let Some(before) = before {
            self.segment(before.unit)?.set_next(segment.unit);
        }
        let bytes = segment.end() - unit_place(segment.unit).0;
        self.index.store(words::CHAIN, self.index.load(words::CHAIN) + bytes);
        Ok(())
    }

    /// The log may end at `place` only if no more of it was known to be durable.
    fn check_end(&self, place: Place, durable: &Checkpoint, why: &str) -> Result<()> {
        let is_before = match place.segment.sequence.cmp(&durable.sequence) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => place.at < durable.end,
            std::cmp::Ordering::Greater => false,
        };
        if is_before { Err(damaged_data(place.at, why.to_owned())) } else { Ok(()) }
    }

    /// Lets the log go on in a new segment, but in a store that is new. Its number is one that no
    /// segment had that was lost: what lies in the same place, with the number after the last,
    /// would have checksums that fit.
    fn seal(&self, end: Place) -> Result<()> {
        let (at, len) = (end.segment.first(), self.core.data.len());
        let is_new = end.at == at && end.segment.sequence == 1 && len <= end.segment.end();
        let rest = bytes(&self.core.data, self, at, len.saturating_sub(at));
        if is_new && rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0)) {
            return Ok(());
        }
        let mut cursor = self.cursor();
        self.next_segment(&mut cursor, 0, 1 + (random_word()? >> 32), Leaves::Nothing)?;
        self.publish(&cursor);
        self.index.store(words::APPLIED, cursor.at);
        // The rest of the segment is garbage that is paid for when the index is in its place. Else a store of which little is
        // changed between one time and the next would be longer by a segment each time.
        self.index.store(words::DEBT, end.segment.end().saturating_sub(end.at).min(LARGE));
        Ok(())
    }

    /// After a writer died: what it appended and did not publish is wiped, lest it is taken for a
    /// part of the log when the index is made again. Whether there was anything.
    pub(crate) fn wipe_unpublished(&self) -> bool {
        // What the segment says, and not only what the index does: it is the log that is written to.
        let segment = self.core.segment_at(self, self.index.load(words::TAIL_UNIT));
        let at = self.index.load(words::TAIL);
        let Some(segment) = segment.filter(|s| (s.first()..s.end()).contains(&at)) else {
            return false;
        };
        let mut is_any = false;
        let end = segment.end().min(self.core.data.len());
        const ZEROS: [u8; 4096] = [0; 4096];
        for from in (at..end).step_by(ZEROS.len()) {
            let len = (end - from).min(ZEROS.len() as u64) as usize;
            let old = bytes(&self.core.data, self, from, len as u64);
            if !is_any && old.is_none_or(|old| old.iter().any(|byte| *byte != 0)) {
                is_any = true;
                // Before: who dies in between has the next wait for it.
                self.core.note_wiped();
            }
            write(&self.core.data, from, ZEROS.get(..len).unwrap_or(&ZEROS));
        }
        // Not before: a sync that is going on may have passed it by. Who dies before has the next wipe again.
        self.core.note_rest();
        is_any
    }
}

/// Damage that only the log itself could repair.
#[cold]
pub(crate) fn damaged_data(at: u64, what: String) -> Error {
    Error::corrupt(at, format!("{what}; `credenza recover` saves what is whole"))
}

#[cfg(test)]
mod tests {
    use crate::hash::find::From;
    use crate::hash::format::words;
    use crate::hash::record::{Kind, RecordHeader};
    use crate::hash::{Hash, OpenOptions};
    use crate::keyhash;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Nobody who copies needs what the index that is made meanwhile begins behind.
    #[test]
    fn a_backup_goes_on_while_the_index_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let store = OpenOptions::new().create(true).open(folder.path().join("store")).unwrap();
        let fill = |turn: u8| {
            for i in 0..2000u32 {
                store.insert(&i.to_le_bytes(), &[turn; 1000]).unwrap();
            }
        };
        fill(0);
        let copy = folder.path().join("copy");
        let mut is_first = true;
        let during = |_, _| {
            if std::mem::take(&mut is_first) {
                (1..4).for_each(fill);
                let writer = store.core().writer().unwrap();
                store.core().new_index(&writer, keyhash::RAPID, From::Log).unwrap();
            }
        };
        store.backup(&copy, during).unwrap();
        let copy = OpenOptions::new().open(&copy).unwrap();
        assert_eq!(copy.len().unwrap(), 2000);
        copy.verify(|_, _| ()).unwrap();
    }

    /// A value in a segment that the log has left, an index that is made from the log, and an append
    /// that fails: whoever gives that up must not free what a reader holds.
    #[test]
    fn what_is_held_outside_the_log_is_not_freed_by_who_gives_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = OpenOptions::new().create(true).open(&path).unwrap();
        let fill = |store: &Hash, turn: u8| {
            for i in 0..200u32 {
                store.insert(&i.to_le_bytes(), &[turn; 500]).unwrap();
            }
        };
        fill(&store, 1);
        let held = store.get(&0u32.to_le_bytes()).unwrap().unwrap();
        fill(&store, 2);
        while store.compact(1 << 20).unwrap() {}
        for turn in 3..5 {
            fill(&store, turn);
            store.core().sync(None).unwrap();
        }
        let core = store.core();
        {
            let writer = core.writer().unwrap();
            core.new_index(&writer, keyhash::RAPID, From::Log).unwrap();
        }
        core.writer().unwrap().give_up();
        for turn in 5..30 {
            fill(&store, turn);
        }
        while store.compact(1 << 20).unwrap() {}
        assert!(*held == [1; 500], "it was written over");
        store.verify(|_, _| ()).unwrap();
    }

    /// Each of them was read through to the end of what it says belongs to it.
    #[test]
    fn batches_within_batches_take_no_square_of_time() {
        let store = Hash::in_memory().unwrap();
        store.insert(b"key", b"value").unwrap();
        {
            let writer = store.core().writer().unwrap();
            let mut cursor = writer.cursor();
            let batch = RecordHeader { kind: Kind::Batch, key_len: 50_000, value_len: 0 };
            for _ in 0..100_000 {
                writer.append_record(&mut cursor, batch, &[], &[]).unwrap();
            }
            writer.publish(&cursor);
            writer.index.store(words::APPLIED, cursor.at);
        }
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            {
                let writer = store.core().writer().unwrap();
                store.core().new_index(&writer, keyhash::RAPID, From::Log).unwrap();
            }
            sender.send(store.len().unwrap()).unwrap();
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(1));
    }
}
