//! Durability: what is on the disk, and how it is known.
//!
//! A sync notes where the log ends, makes the data file durable, and then knows that everything
//! up to there is. What it knows it writes as a checkpoint *before the next* sync, so that a
//! checkpoint on the disk never promises what may not be there. Two checkpoints are written in
//! turn: a torn one leaves the other.
//!
//! Segments behind what was promised may be used again without a sync ([`super::reuse`]). Then the log
//! does not lead from the last checkpoint to what the next sync makes durable, and that sync is over
//! only when a checkpoint of its own is on the disk, by another wait.
//!
//! Those who want to sync at the same time do it as a group ([`crate::os::turns`]): one of them waits
//! for the disk.

use super::core::Core;
use super::format::{CHECKPOINTS, Checkpoint, LOG_AT, PRESENT, session, unit_place, words};
use super::index::Index;
use super::writer::Writer;
use crate::os::atomic::Ordering;
use crate::os::lock::{RobustLock, is_own};
use crate::os::session::Session;
use crate::os::shared::HEAD_BYTES;
use crate::{Error, Result};
use std::time::Duration;

/// Set in the word of the session that says what may not be on the disk: the data since the last sync
/// that succeeded; the index; something of the data file that is not the end of the log; anything at all of a
/// file that may be a copy; what was wiped behind the end of the log.
const UNSURE_OF_DATA: u64 = 1;
const UNSURE_OF_INDEX: u64 = 2;
const UNSURE_OF_REST: u64 = 4;
const UNSURE_OF_ALL: u64 = 8;
const UNSURE_OF_WIPED: u64 = 16;
/// A checkpoint is written when so much of the log has become durable since the last one. It is another place of
/// the disk to be waited for: with 4 KiB every transaction of as much took twice as long.
const FAR: u64 = 64 << 10;

/// What a sync has to make durable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extent {
    All,
    /// The log from one offset to another, within one segment, and the checkpoints if there is a new one.
    Log {
        from: u64,
        to: u64,
        with_checkpoint: bool,
    },
}

/// What a sync will have made durable.
#[derive(Clone, Copy, Debug)]
struct Promise {
    oldest: u64,
    sequence: u64,
    end: u64,
    changes: u64,
    /// The number of the checkpoint that becomes durable with it, or of the last one.
    checkpoint: u64,
    /// Segments below are not needed, by the checkpoint that becomes durable with it.
    reusable: u64,
    /// How many segments were used again that no checkpoint needed; and how many when the log was as that checkpoint says.
    reused: u64,
    named: u64,
    extent: Extent,
}

impl Core {
    /// Returns when everything that was done before the call is durable. Others who write, or sync, are waited for for as
    /// long as `limit` says; for ever if `None`.
    pub(crate) fn sync(&self, limit: Option<Duration>) -> Result<()> {
        let wanted = self.session(session::CHANGES).load(Ordering::Acquire);
        if !self.data.is_writable() {
            return self.sync_as_reader(wanted);
        }
        if self.is_done(wanted) {
            return Ok(());
        }
        // Whoever has the turn may wait for this thread's lock.
        if self.writer_lock().is_own() {
            return Err(is_own());
        }
        let turns = self.sync_turns();
        if !turns.take_unless(limit, || self.is_done(wanted))? {
            return Ok(());
        }
        // A syncer that died left nothing half done: its results are written at once.
        let is_needed = !self.is_done(wanted);
        if is_needed {
            turns.gather(|| self.session(session::CHANGES).load(Ordering::Acquire));
        }
        let done = if is_needed { self.sync_newest(limit) } else { Ok(()) };
        turns.end(true);
        done
    }

    /// The same for who may not write, and so can make no checkpoint: an error where one is needed.
    fn sync_as_reader(&self, wanted: u64) -> Result<()> {
        // Of a session before this one is left what is in the file, and whoever opens it finds the same.
        let is_of_this_boot = Session::at(&self.data, session::BOOT_LOW).is_of_this_boot();
        if is_of_this_boot && !self.is_done(wanted) {
            let what = "not all of it is on the disk, and the store was opened for reading only: \
                        who may write can sync it";
            return Err(Error::invalid(what));
        }
        // It may be a copy, of which nothing is there.
        self.data.sync()
    }

    /// Whether so many changes are durable, in a file that is: a copy that was just opened has the words of
    /// the one that it was copied from.
    fn is_done(&self, changes: u64) -> bool {
        let load = |word| self.session(word).load(Ordering::Acquire);
        load(session::DURABLE) >= changes && load(session::UNSURE) & UNSURE_OF_ALL == 0
    }

    fn sync_newest(&self, limit: Option<Duration>) -> Result<()> {
        let promise = self.writer_within(|| limit)?.promise(false)?;
        // Others write meanwhile, unless a sync has failed: then all is written again, up to the end of the
        // file, and nobody may cut it.
        if !self.have_on_disk(promise.extent, false, limit)? {
            return self.writer_within(|| limit)?.sync_now();
        }
        let writer = self.writer_within(|| limit)?;
        if writer.keep(promise) { Ok(()) } else { writer.sync_now() }
    }

    /// Makes the data file durable, or that part of it. When that fails the kernel may call pages clean
    /// all the same, and say the next time that all is well: so the next time they are all written again.
    /// One at a time, for of those who wait by the same opening of the file only one is told. False if that is
    /// for who has the writers' lock to do.
    pub(super) fn wait_for_disk(&self, extent: Extent, is_writer: bool) -> Result<bool> {
        self.have_on_disk(extent, is_writer, None)
    }

    /// The same, but an error if another is at it for longer than `limit`: he may be stopped.
    fn have_on_disk(
        &self,
        extent: Extent,
        is_writer: bool,
        limit: Option<Duration>,
    ) -> Result<bool> {
        if self.is_in_memory() {
            return Ok(true);
        }
        let lock = RobustLock::in_head(&self.data, session::DISK_LOCK);
        lock.lock_for(|| limit)?;
        let unsure = self.session(session::UNSURE);
        let before = unsure.fetch_or(UNSURE_OF_DATA, Ordering::AcqRel);
        if before & UNSURE_OF_DATA != 0 && !is_writer {
            lock.unlock();
            return Ok(false);
        }
        let done = match extent {
            Extent::Log { from, to, with_checkpoint } if before == 0 => {
                let part =
                    if with_checkpoint { self.data.sync_part(0, HEAD_BYTES) } else { Ok(()) };
                part.and_then(|()| self.data.sync_part(from, to))
            }
            _ => {
                // What others change from now on is the next sync's; if this one fails, the next is one
                // of everything in any case.
                unsure.fetch_and(!UNSURE_OF_REST, Ordering::AcqRel);
                self.write_again(before).and_then(|()| self.data.sync())
            }
        };
        if done.is_ok() {
            // Of what was wiped only who has the writers' lock knows that it was before.
            let wiped = if is_writer { UNSURE_OF_WIPED } else { 0 };
            let sure = UNSURE_OF_DATA | before & (UNSURE_OF_INDEX | UNSURE_OF_ALL | wiped);
            unsure.fetch_and(!sure, Ordering::AcqRel);
        }
        lock.unlock();
        done.map(|()| true)
    }

    /// The file may be a copy, of which nothing is on the disk: the next sync is one of the whole file, also
    /// if nothing is changed.
    pub(super) fn note_copy(&self) {
        let all = UNSURE_OF_REST | UNSURE_OF_ALL;
        self.session(session::UNSURE).fetch_or(all, Ordering::AcqRel);
    }

    /// Something was changed that must be on the disk and is not the end of the log: the next sync is one
    /// of the whole file.
    #[cold]
    pub(super) fn note_rest(&self) {
        self.session(session::UNSURE).fetch_or(UNSURE_OF_REST, Ordering::AcqRel);
    }

    /// What is on the disk behind the end of the log is not what memory has from now on, until who has the writers' lock has
    /// waited for the disk. A mark of its own: the end of a sync that is going on takes away what it has set itself.
    #[cold]
    pub(super) fn note_wiped(&self) {
        if !self.is_in_memory() {
            self.session(session::UNSURE).fetch_or(UNSURE_OF_WIPED, Ordering::AcqRel);
        }
    }

    /// Whether that was not waited for yet.
    #[inline(always)]
    pub(super) fn is_unsure_of_wiped(&self) -> bool {
        self.session(session::UNSURE).load(Ordering::Acquire) & UNSURE_OF_WIPED != 0
    }

    /// Makes the index durable, which is on the disk only when it is closed.
    pub(super) fn sync_index(&self, index: &Index) -> Result<()> {
        index.map.sync().inspect_err(|_| {
            self.session(session::UNSURE).fetch_or(UNSURE_OF_INDEX, Ordering::AcqRel);
        })
    }

    /// Has every page count as changed of which nobody knows whether it is on the disk.
    fn write_again(&self, unsure: u64) -> Result<()> {
        let _held = self.newest.hold();
        let index = self.newest.get();
        if unsure & UNSURE_OF_INDEX != 0 {
            index.map.write_again(0, index.map.refresh_len()?)?;
        }
        if unsure & UNSURE_OF_DATA == 0 {
            return Ok(());
        }
        let len = self.data.refresh_len()?;
        let since = self.session(session::SYNCED_SEQUENCE).load(Ordering::Acquire);
        let is_old = |unit| {
            let segment = index.segment(unit);
            segment.is_ok_and(|segment| (1..since).contains(&segment.sequence()))
        };
        // Without a lock: who goes on looks again whether the table is the one that was read.
        let table = index.load(words::SEGMENTS_AT);
        let new: Vec<u64> = (0..self.units()).filter(|unit| !is_old(*unit)).collect();
        if !self.is_newest(index) || index.load(words::SEGMENTS_AT) != table {
            return self.data.write_again(0, len);
        }
        self.data.write_again(0, LOG_AT)?;
        for (at, size) in new.into_iter().map(unit_place) {
            self.data.write_again(at, at + size)?;
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// The same while writing, without letting others write meanwhile.
    pub(crate) fn sync_now(&self) -> Result<()> {
        self.sync_by(self.promise(false)?)
    }

    /// The same with everything that is in the file, and a checkpoint of what was durable before.
    pub(crate) fn sync_whole(&self) -> Result<()> {
        self.sync_by(self.promise(true)?)
    }

    fn sync_by(&self, promise: Promise) -> Result<()> {
        self.core.wait_for_disk(promise.extent, true)?;
        if !self.keep(promise) {
            let promise = self.promise(false)?;
            self.core.wait_for_disk(promise.extent, true)?;
            // Nobody else wrote meanwhile.
            let _is_led_to = self.keep(promise);
        }
        Ok(())
    }

    /// Notes what the next sync will make durable; before that, where it is due, writes a checkpoint of
    /// what the last one did.
    fn promise(&self, is_whole: bool) -> Result<Promise> {
        let load = |word| self.core.session(word).load(Ordering::Relaxed);
        let last = Checkpoint {
            number: load(session::CHECKPOINT),
            oldest: load(session::SYNCED_OLDEST),
            sequence: load(session::SYNCED_SEQUENCE),
            end: load(session::SYNCED_END),
            changes: load(session::DURABLE),
        };
        let (sequence, to) = (self.index.load(words::SEQUENCE), self.index.load(words::TAIL));
        // What this one adds to the log is in one segment.
        let is_near = !is_whole && last.sequence == sequence && (1..=to).contains(&last.end);
        let with_checkpoint = !is_near || self.is_checkpoint_due(&last);
        // Until the promise is kept another one writes it to the same place: the other has the last that is
        // certain.
        let checkpoint = last.number.wrapping_add(u64::from(with_checkpoint));
        if with_checkpoint {
            self.write_checkpoint(Checkpoint { number: checkpoint, ..last });
        }
        // Before anybody else writes: what this sync makes durable stays as it is.
        self.core.session(session::PROMISED).fetch_max(sequence, Ordering::Release);
        let near = Extent::Log { from: last.end, to, with_checkpoint };
        Ok(Promise {
            oldest: self.oldest()?,
            sequence,
            end: to,
            changes: load(session::CHANGES),
            checkpoint,
            reusable: if with_checkpoint { last.oldest } else { 0 },
            reused: load(session::REUSED),
            named: if with_checkpoint { load(session::SYNCED_REUSED) } else { 0 },
            extent: if is_near { near } else { Extent::All },
        })
    }

    /// Whether the checkpoint that is on the disk is to be followed by one of what is durable now: it keeps
    /// segments from being used again, or damage behind its end would be taken for a power failure's.
    fn is_checkpoint_due(&self, now: &Checkpoint) -> bool {
        let load = |word| self.core.session(word).load(Ordering::Relaxed);
        let [.., sequence, end, _, _] = self.core.checkpoint_words(now.number);
        let is_near = sequence == now.sequence && now.end.wrapping_sub(end) < FAR;
        let is_led_to = load(session::SYNCED_REUSED) == load(session::NAMED_REUSED);
        now.oldest > load(session::REUSABLE) || !is_near || !is_led_to
    }

    fn write_checkpoint(&self, checkpoint: Checkpoint) {
        self.write_words(CHECKPOINTS[(checkpoint.number % 2) as usize], checkpoint);
    }

    /// Notes that a promise is kept. False if the log does not lead from the checkpoint that is on the disk to what was
    /// promised, as segments in between were used again: then that counts only with a checkpoint of it, by another sync.
    #[must_use]
    fn keep(&self, promise: Promise) -> bool {
        let session = |word| self.core.session(word);
        let raise = |word, value| session(word).fetch_max(value, Ordering::Release);
        raise(session::CHECKPOINT, promise.checkpoint);
        raise(session::REUSABLE, promise.reusable);
        if session(session::DURABLE).load(Ordering::Relaxed) <= promise.changes {
            raise(session::SYNCED_OLDEST, promise.oldest);
            // Whoever dies between these leaves what is true: less than could be said.
            session(session::SYNCED_END).store(0, Ordering::Release);
            session(session::SYNCED_SEQUENCE).store(promise.sequence, Ordering::Release);
            session(session::SYNCED_END).store(promise.end, Ordering::Release);
            session(session::SYNCED_REUSED).store(promise.reused, Ordering::Release);
        }
        raise(session::NAMED_REUSED, promise.named);
        let is_led_to = session(session::NAMED_REUSED).load(Ordering::Relaxed) >= promise.reused;
        if is_led_to {
            raise(session::DURABLE, promise.changes);
        }
        is_led_to
    }

    /// Notes where the log begins at present, and how far it reaches, for whoever makes the index again. Segments before
    /// are used again only after that.
    pub(super) fn write_present(&self) {
        let Ok(oldest) = self.oldest() else { return };
        if !self.core.header.has_numbered_ends {
            return;
        }
        let number = self.core.present().map_or(1, |present| present.number + 1);
        let present = Checkpoint {
            number,
            oldest,
            sequence: self.index.load(words::SEQUENCE),
            end: self.index.load(words::TAIL),
            changes: 0,
        };
        self.write_words(PRESENT[(number % 2) as usize], present);
    }

    fn write_words(&self, at: u64, checkpoint: Checkpoint) {
        for (i, word) in checkpoint.words(&self.core.header).into_iter().enumerate() {
            self.core.data.head()[at as usize / 8 + i].store(word, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::OpenOptions;
    use crate::hash::record::Kind;

    /// Which changes wait for a sync of the whole file. Were they not on the disk with what comes after
    /// them, a power failure could bring back what never counted.
    #[test]
    fn what_is_not_the_end_of_the_log_waits_for_a_sync_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let open = || OpenOptions::new().create(true).open(folder.path().join("store")).unwrap();
        drop(open());
        let store = open();
        let core = store.core();
        let unsure = || core.session(session::UNSURE).load(Ordering::Relaxed);
        let is_noted = || unsure() & !UNSURE_OF_ALL == UNSURE_OF_REST;
        assert!(is_noted(), "opened by the first");
        store.insert(b"key", b"value").unwrap();
        core.sync(None).unwrap();
        store.insert(b"key", b"another").unwrap();
        assert!(!is_noted(), "a put");
        core.writer().unwrap().give_up();
        assert!(is_noted(), "what was wiped");
        store.insert(b"key", b"value").unwrap();
        core.sync(None).unwrap();
        assert!(!is_noted(), "synced");
        let before = core.data.len();
        store.insert(b"long", &[7; 10_000]).unwrap();
        assert!(core.data.len() > before && is_noted(), "a longer file");
    }

    /// He may be stopped there: who wants to wait for nobody did so for ever.
    #[test]
    fn who_waits_for_the_disk_is_not_waited_for_any_longer_than_others() {
        let folder = tempfile::tempdir().unwrap();
        let store = OpenOptions::new().create(true).open(folder.path().join("store")).unwrap();
        let core = store.core();
        store.insert(b"key", b"value").unwrap();
        let lock = RobustLock::in_head(&core.data, session::DISK_LOCK);
        std::thread::scope(|scope| {
            let (done, waits) = std::sync::mpsc::channel();
            let (has, is_held) = std::sync::mpsc::channel();
            scope.spawn(move || {
                lock.lock().unwrap();
                has.send(()).unwrap();
                // What fails does not hang.
                let is_in_time = waits.recv_timeout(Duration::from_secs(20)).is_ok();
                lock.unlock();
                assert!(is_in_time, "it was waited for");
            });
            is_held.recv().unwrap();
            let error = core.sync(Some(Duration::from_millis(1))).unwrap_err();
            done.send(()).unwrap();
            assert!(matches!(error.kind(), crate::ErrorKind::Busy { .. }), "{error}");
        });
        core.sync(None).unwrap();
        assert!(core.is_done(core.session(session::CHANGES).load(Ordering::Acquire)));
    }

    /// Danger: the disk refuses when it is to have what was wiped, and something is written there all the same: what is there
    /// on the disk may follow it after a power failure.
    #[test]
    fn nothing_is_written_where_something_was_wiped_before_the_disk_has_that() {
        let folder = tempfile::tempdir().unwrap();
        let store = OpenOptions::new().create(true).open(folder.path().join("store")).unwrap();
        store.insert(b"key", b"value").unwrap();
        let core = store.core();
        core.sync(None).unwrap();
        let disk = RobustLock::in_head(&core.data, session::DISK_LOCK);
        {
            let writer = core.writer().unwrap();
            // As long as this thread has the right to wait for the disk, nobody can.
            disk.lock().unwrap();
            writer.append(&mut writer.cursor(), Kind::Put, b"key", b"never published").unwrap();
            writer.give_up();
            writer.put(b"key", b"another").unwrap_err();
            writer.begin_segment().unwrap_err();
        }
        store.insert(b"key", b"another").unwrap_err();
        store.remove(b"key").unwrap_err();
        assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        disk.unlock();
        store.insert(b"key", b"another").unwrap();
        assert_eq!(core.session(session::UNSURE).load(Ordering::Relaxed), 0);
        store.verify(|_, _| ()).unwrap();
    }

    /// A checkpoint is on the disk before there is one in the other's place, and is not left far behind.
    #[test]
    fn checkpoints_follow_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let store = OpenOptions::new().create(true).open(folder.path().join("store")).unwrap();
        let core = store.core();
        for i in 0..3000u32 {
            store.insert(&(i % 500).to_le_bytes(), &[7; 50]).unwrap();
            let before = core.checkpoint().map_or(0, |checkpoint| checkpoint.number);
            core.sync(None).unwrap();
            let checkpoint = core.checkpoint().unwrap();
            let [end, sequence, unsure] =
                [session::SYNCED_END, session::SYNCED_SEQUENCE, session::UNSURE]
                    .map(|word| core.session(word).load(Ordering::Relaxed));
            assert!(checkpoint.number <= before + 1 && unsure == 0, "{i}: {checkpoint:?}");
            let is_near = end.wrapping_sub(checkpoint.end) < FAR + 72;
            assert!(checkpoint.sequence < sequence || is_near, "{i}: {checkpoint:?}, {end}");
        }
    }

    /// Whoever has the file can write what he wants in its head.
    #[test]
    fn numbers_at_their_end_are_no_reason_to_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = OpenOptions::new().create(true).open(&path).unwrap();
        let fill = |count: u32| {
            (0..count).for_each(|i| store.insert(&(i % 100).to_le_bytes(), &[1; 100]).unwrap());
        };
        fill(100);
        let largest = Checkpoint { number: u64::MAX, oldest: 1, sequence: 1, end: 0, changes: 0 };
        store.core().writer().unwrap().write_words(PRESENT[1], largest);
        store.core().session(session::REUSED).store(u64::MAX, Ordering::Relaxed);
        fill(20_000);
        let changes = Checkpoint { number: 9, changes: u64::MAX, ..largest };
        store.core().writer().unwrap().write_checkpoint(changes);
        let mut data = std::fs::read(&path).unwrap();
        data[2048] ^= 1;
        let copy = folder.path().join("copy");
        std::fs::write(&copy, data).unwrap();
        let _ = OpenOptions::new().open(&copy).map(drop);
    }
}
