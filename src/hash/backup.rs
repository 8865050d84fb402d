//! Copies of a store: of one in use, and of what is whole in a damaged one.

use super::core::Core;
use super::format::{
    CHECKPOINTS, Checkpoint, HEADER_BYTES, Header, INDEX_FILE, SEGMENT_END, SEGMENT_HEADER,
    index_of, session, unit_of, unit_place, words,
};
use super::handle::Hash;
use super::index::{Index, damaged};
use super::pins::note_time;
use super::reader::{Unpinned, too_busy};
use super::record::{Kind, key_sum};
use super::removal::Removal;
use super::scan::Span;
use super::verify::LogNow;
use super::view::Holds;
use crate::magic::{COPY_AT, copy_of};
use crate::os::aside::check_way;
use crate::os::atomic::{Ordering, fence};
use crate::os::file::{lengthen, read_exact_at, write_all_at};
use crate::os::holes::fill_holes;
use crate::os::process::random_id;
use crate::os::publish::{Named, Staged, refuse_old};
use crate::{Error, Result};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// Bytes copied at once.
const PIECE: u64 = 1 << 20;
/// How often who may not write looks for a moment between two changes.
const LOOKS: u32 = 16;

impl Hash {
    /// Copies the store, as it is at this moment, or when the change or transaction of another that is going on is over,
    /// to a new file at `path`, while others read and write; durable when the call returns. Space that is emptied meanwhile is not reused before
    /// the copy is done. Every record is checked before. `progress` is called with bytes done and bytes to do.
    /// Returns how many keys the copy has.
    ///
    /// # Errors
    /// The store is damaged; what is at `path` is a store that somebody has open to write, be it this one; the file cannot be
    /// written; or others wrote for longer than [`OpenOptions::lock_timeout`](super::OpenOptions::lock_timeout): what was at
    /// `path` is untouched.
    pub fn backup(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<u64> {
        let path = path.as_ref();
        let staged = Staged::create(path)?;
        let copied = self.core().copy_log((staged.file(), path), &mut progress);
        let keys = copied.map_err(|e| self.named(e))?;
        let index = index_of(&staged.target().now());
        // What keeps its index from its place is met while there is no store yet.
        check_way(&index)?;
        staged.publish()?;
        if super::is_index(&index) {
            // It belonged to what was there.
            match std::fs::remove_file(&index) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", e).at(index));
                }
                _ => {}
            }
        }
        keys.map_or_else(|| count_in(path), Ok)
    }
}

/// How many keys a copy has, that was made by who may not write while others were too quick for him: its log is read.
#[cold]
fn count_in(path: &Path) -> Result<u64> {
    Hash::options().read_only(true).unrecorded().open(path)?.len()
}

impl Core {
    /// Checks the log, and copies it, up to where it ends now, to the same places of another file; how many keys that has,
    /// if it is known.
    fn copy_log(
        &self,
        to: (&File, &Path),
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<u64>> {
        let half =
            |n: u64, done, total: u64| (n.saturating_mul(total) + done, total.saturating_mul(2));
        self.with_log(|held, log| {
            // Before it is copied: of a damaged store there is to be no copy that looks whole.
            self.check_log(&held, log, &mut |done, total| {
                let (done, total) = half(0, done, total);
                progress(done, total);
            })?;
            self.copy_segments(log, to, &mut |done, total| {
                let (done, total) = half(1, done, total);
                progress(done, total);
            })?;
            Ok(log.keys)
        })
    }

    /// Does something with the log as it is now, while no segment of it is written over.
    pub(super) fn with_log<R>(
        &self,
        f: impl FnOnce(&dyn Holds, &LogNow) -> Result<R>,
    ) -> Result<R> {
        if self.data.is_writable() {
            if let Some(pin) = self.pin() {
                note_time(&pin);
                return f(&pin, &self.log_now()?);
            }
            // All pins are taken, perhaps by this thread: as long as nobody writes nothing is written over.
            let _writer = match self.writer_lock().is_own() {
                true => None,
                false => Some(self.changer()?),
            };
            return f(&Unpinned, &self.log_now()?);
        }
        let (_held, index) = self.index()?;
        let seen = self.seen_with(index);
        let done = self.log_now().and_then(|log| f(&Unpinned, &log));
        fence(Ordering::Acquire);
        if self.seen_with(index) == seen { done } else { Err(too_busy()) }
    }

    fn copy_segments(
        &self,
        LogNow { segments, end, .. }: &LogNow,
        (to, path): (&File, &Path),
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let end = *end;
        let failed = |action, e| Error::io(action, e).at(path);
        let write = |bytes: &[u8], at| write_all_at(to, bytes, at).map_err(|e| failed("write", e));
        // Another store, whose index is not taken for this one's; the seed is that of the sums.
        let store = random_id()?;
        let header = Header { store, ..self.header };
        write(&header.encode(), 0)?;
        write(&copy_of(&header.encode()), COPY_AT as u64)?;
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return Ok(()) };
        let checkpoint = Checkpoint {
            number: 1,
            oldest: first.sequence,
            sequence: last.sequence,
            end,
            changes: self.session(session::CHANGES).load(Ordering::Relaxed),
        };
        for (i, word) in checkpoint.words(&header).into_iter().enumerate() {
            write(&word.to_le_bytes(), CHECKPOINTS[1] + 8 * i as u64)?;
        }
        let ends = |segment: &Span| if segment.unit == last.unit { end } else { segment.end() };
        let bytes = segments.iter().map(|s| ends(s) - unit_place(s.unit).0);
        let total = bytes.fold(0, u64::saturating_add);
        let mut done = HEADER_BYTES as u64;
        let mut buffer = vec![0; PIECE as usize];
        for segment in segments {
            // A segment may end beyond the file: its space comes step by step.
            let end = ends(segment).min(self.data.refresh_len()?);
            let mut at = unit_place(segment.unit).0;
            while at < end {
                let len = PIECE.min(end - at);
                // Not through the map: writers mark records there that they replace meanwhile.
                let piece = buffer.get_mut(..len as usize).unwrap_or_default();
                read_exact_at(self.data.file(), piece, at)?;
                write(piece, at)?;
                at += len;
                done += len;
                progress(done.min(total), total);
            }
        }
        let room = segments.iter().map(|segment| segment.end()).max().unwrap_or(0);
        let len = to.metadata().map_err(|e| failed("ask the size of", e))?.len();
        lengthen(to, room.min(len.next_multiple_of(4096)).max(len))
            .map_err(|e| failed("make longer", e))?;
        fill_holes(to).map_err(|e| e.at(path))
    }

    /// The log at one moment.
    fn log_now(&self) -> Result<LogNow> {
        // Who has the lock in this thread keeps the others from writing already.
        let is_own = self.writer_lock().is_own();
        if self.data.is_writable() && !is_own {
            let writer = self.changer()?;
            return self.log_in(writer.index, Some(writer.index.load(words::COUNT)));
        }
        let (_held, index) = self.index()?;
        index.map.refresh_len()?;
        // Between two changes, how many keys there are is what the log says.
        let seen = || {
            let changes = self.session(session::CHANGES).load(Ordering::Acquire);
            (changes, index.load(words::TAIL), !is_own && self.writer_lock().is_taken())
        };
        for _ in 0..LOOKS {
            let before = seen();
            let keys = self.counts().ok().map(|(keys, _)| keys);
            let log = self.log_in(index, keys)?;
            fence(Ordering::Acquire);
            if keys.is_some() && !before.2 && seen() == before {
                return Ok(log);
            }
        }
        self.log_in(index, None)
    }

    /// The log as an index has it now.
    fn log_in(&self, index: &Index, keys: Option<u64>) -> Result<LogNow> {
        let last = index.load(words::TAIL_UNIT);
        let mut unit = index.load(words::OLDEST_UNIT);
        // Others may have made the file longer since this handle last looked.
        self.data.refresh_len()?;
        let mut segments = Vec::new();
        for _ in 0..self.units() + 1 {
            let segment = index.segment(unit)?;
            segments.push(segment.span(unit));
            if unit == last {
                return log_of(LogNow { segments, end: index.load(words::TAIL), keys });
            }
            unit = segment.next();
        }
        Err(damaged(words::OLDEST_UNIT, "the oldest segment does not lead to the newest"))
    }
}

/// The log, if it ends in its last segment.
fn log_of(log: LogNow) -> Result<LogNow> {
    let last = log.segments.last();
    let is_fit = last.is_some_and(|last| (last.first()..=last.end()).contains(&log.end));
    let what = "the end of the log is not in its last segment";
    is_fit.then_some(log).ok_or_else(|| damaged(words::TAIL, what))
}

/// What [`recover`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Records that were whole: puts, deletes, and what was replaced since.
    pub records: u64,
    /// Keys in the new store.
    pub keys: u64,
    /// Bytes of segments in which no whole record was found.
    pub lost_bytes: u64,
    /// Bytes that are missing at the end of the file, at least: what is there of the log leads behind it. How many
    /// records were in them nobody knows; nor is it seen everywhere that a file was cut off.
    pub missing_bytes: u64,
}

/// Copies every record that is whole in the damaged store at `from` into a new one at `to`, in the
/// order in which they were written. A key whose last record is lost gets the value it had before.
/// The damaged store is only read, and nobody may have it open to write meanwhile; the new one appears whole or not at all. The new one has the same limit; of a store with a limit a key
/// whose last record is lost may be absent, for what it had before may have been dropped. `progress` is told
/// how many bytes have been read, and of how many.
///
/// # Errors
/// Neither the header of `from` is whole nor the copy of it, or somebody has it open to write; or `to` exists or cannot be
/// written.
pub fn recover(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Recovered> {
    let (from, to) = (from.as_ref(), to.as_ref());
    refuse_old(to)?;
    let core = Core::open_to_recover(from).map_err(|e| e.at(from))?;
    // Half of a store would pass for all of it.
    let place = Named::create(to, Some(INDEX_FILE))?;
    let options = Hash::options().create(true).limit(core.header.limit).kept_whole();
    let named = |e| place.named(e);
    let store = options.open(place.path()).map_err(named)?;
    // The log was on the disk up to there.
    let durable = core.checkpoint().unwrap_or_default();
    let missing_bytes = durable.end.saturating_sub(core.data.len());
    let mut recovered = Recovered { missing_bytes, ..Recovered::default() };
    // Nobody writes to a store that is being recovered.
    let held = Unpinned;
    // Before the oldest that a checkpoint names there are only remains.
    let oldest = core.oldest_to_recover(&held);
    let segments = core.segments_to_recover(&held, oldest)?;
    if core.units() > 0 && segments.first().is_none_or(|first| first.sequence > oldest) {
        // Where space was used again the log's beginning may have been the end of the file.
        recovered.missing_bytes = missing_bytes.max(SEGMENT_END);
    }
    let gone = Gone {
        dropped: core.last_eviction(&held, &segments)?,
        removed: core.last_removals(&held, &segments, oldest)?,
    };
    let bytes_of = |segment: &Span| segment.end().saturating_sub(segment.first());
    // Damage may make each as long as it likes.
    let total = segments.iter().map(bytes_of).fold(0, u64::saturating_add);
    let mut done = 0u64;
    for segment in segments {
        core.salvage(&held, segment, &gone, &store, &mut recovered).map_err(named)?;
        done = done.saturating_add(bytes_of(&segment));
        progress(done, total);
    }
    store.sync().map_err(named)?;
    recovered.keys = store.len()?;
    drop(store);
    place.publish_new()?;
    Ok(recovered)
}

/// Which puts of a log do not count, whatever of it is damaged: up to where all was copied or dropped; and by the sums of
/// their keys those before the last removal that names a put that is not whole: one before it may be.
struct Gone {
    dropped: Option<(u64, u64)>,
    removed: HashMap<u64, (u64, u64)>,
}

impl Core {
    /// What [`Gone`] has of removals, in a log that is read from segment number `oldest` on.
    fn last_removals(
        &self,
        held: &Unpinned,
        segments: &[Span],
        oldest: u64,
    ) -> Result<HashMap<u64, (u64, u64)>> {
        let mut removed = HashMap::new();
        if !self.header.has_short_removals {
            return Ok(removed);
        }
        let is_from_note = self.present().is_none_or(|present| present.oldest <= oldest);
        let mut numbers = vec![None; self.units() as usize];
        let all = self.segments(held, 1).into_values().flatten();
        let mut all: Vec<Span> = all.chain(segments.iter().copied()).collect();
        // One without a header is as long as it may be, up to the next that has one: what begins in it is not of it.
        all.sort_by_key(|segment| segment.unit);
        for segment in all {
            let units = numbers.iter_mut().skip(segment.unit as usize);
            units.take(segment.units as usize).for_each(|n| *n = Some(segment.sequence));
        }
        for segment in segments.iter().copied() {
            self.each_whole(held, segment, |at, found| {
                let place = (segment.sequence, at);
                if let Some(removal) = Removal::decode(&found)
                    && self.key_of(held, &found).is_none()
                {
                    let unit = unit_of(removal.at).and_then(|unit| numbers.get(unit as usize));
                    // Emptied since; and all that was before it, too, if that is where reading begins.
                    let is_emptied = unit.copied().flatten().is_some_and(|number| {
                        number < oldest || is_from_note && (number, removal.at) > place
                    });
                    if !is_emptied {
                        removed.insert(removal.key_sum, place);
                    }
                }
                Ok(())
            })?;
        }
        Ok(removed)
    }

    /// Whether the segment after this one was on the disk.
    fn is_followed(&self, segment: Span) -> bool {
        self.checkpoint().is_some_and(|last| segment.sequence < last.sequence)
    }

    /// Bytes that are missing at the end of the file up to the segment that the end of this one, at `end_at`, leads to,
    /// if that was on the disk.
    fn missing_behind(&self, segment: Span, end_at: u64) -> u64 {
        let is_durable = self.is_followed(segment);
        let next = self.said_by_end(end_at);
        let next = next.filter(|(unit, _)| is_durable && *unit >= self.units());
        // How far that one went is not known here.
        let least = |unit| unit_place(unit).0.saturating_add(SEGMENT_HEADER);
        next.map_or(0, |(unit, _)| least(unit).saturating_sub(self.data.len()))
    }

    /// Enters the whole records of a segment in `store`, but for those that are gone.
    fn salvage(
        &self,
        held: &Unpinned,
        segment: Span,
        gone: &Gone,
        store: &Hash,
        sum: &mut Recovered,
    ) -> Result<()> {
        self.data.will_need(segment.first(), segment.end().min(self.data.len()));
        let is_gone = |at: u64, key: &[u8]| {
            let place = Some((segment.sequence, at));
            let removed = || gone.removed.get(&key_sum(&self.header, key)).copied();
            place < gone.dropped || !gone.removed.is_empty() && place < removed()
        };
        let mut has_end = false;
        let lost = self.each_whole(held, segment, |at, found| {
            has_end |= found.header.kind == Kind::End;
            match found.header.kind {
                Kind::Put if is_gone(at, found.key) => {}
                Kind::Put => store.insert(found.key, found.value)?,
                Kind::Delete | Kind::Remove => {
                    if let Some(key) = self.key_of(held, &found) {
                        store.remove(key)?;
                    }
                }
                Kind::Clear => store.clear()?,
                Kind::End => {
                    let missing = self.missing_behind(segment, at);
                    sum.missing_bytes = sum.missing_bytes.max(missing);
                }
                Kind::Batch | Kind::Evict => {}
            }
            let is_change = matches!(found.header.kind, Kind::Put | Kind::Delete | Kind::Remove);
            sum.records += u64::from(is_change);
            Ok(())
        })?;
        sum.lost_bytes += lost;
        if !has_end && segment.end() > self.data.len() && self.is_followed(segment) {
            // What follows it may lie anywhere, where space was used again: nobody knows how much is missing, but its end is.
            sum.missing_bytes = sum.missing_bytes.max(SEGMENT_END);
        }
        Ok(())
    }
}
