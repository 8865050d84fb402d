//! Which index belongs to the data: found beside the data file, looked at, or made anew.
//!
//! Its number stands in the data file and changes last: whoever finds another there than that of the
//! index that he has looks for the new one. Only who holds the writer's lock makes one for others; who
//! may not write makes one in memory, for himself, which holds as long as nobody begins to write.

use super::core::{Core, INDEX_ROOM, MEMORY_ROOM};
use super::format::{IndexHeader, index_of, is_index, session, words};
use super::grow::is_skewed;
use super::index::Index;
use super::page::LINE;
use super::rebuild::Log;
use super::view::drop_replaced_indexes;
use super::writer::Writer;
use crate::keyhash;
use crate::os::aside::make_way;
use crate::os::atomic::Ordering;
use crate::os::file::{is_shortage, read_exact_at};
use crate::os::holes::fill_holes;
use crate::os::lock::{A_MOMENT, Got, is_locked};
use crate::os::newest::Held;
use crate::os::opening::OPEN;
use crate::os::place::path_of;
use crate::os::process::random_word;
use crate::os::publish::Staged;
use crate::os::shared::{HEAD_BYTES, SharedMap, memory_file};
use crate::{Error, Result};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

/// How often a reader looks for a new index that cannot wait for the writer.
const ATTEMPTS: u32 = 1000;
/// How many indexes that were replaced a reader leaves open rather than to wait for a moment when nobody
/// writes.
const MOST_REPLACED: usize = 8;

/// What a new index is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// The log: there is no other index.
    Log,
    /// The present index, which is larger than it need be or hashes badly.
    Index,
}

impl Core {
    /// The index as it is now, held.
    pub(crate) fn index(&self) -> Result<(Held<'_>, &Index)> {
        loop {
            let held = self.newest.hold();
            let index = self.newest.get();
            let is_private = self.is_private.load(Ordering::Relaxed) && self.is_alone();
            if is_private || self.is_newest(index) {
                return Ok((held, index));
            }
            drop(held);
            self.attach()?;
        }
    }

    /// Takes the index that belongs to the data, or makes it.
    pub(super) fn find_index(
        &self,
        is_continued: bool,
        is_first: bool,
        before: Option<Got>,
    ) -> Result<()> {
        let wanted = self.session(session::INDEX_ID).load(Ordering::Acquire);
        let mut log = Log::Stays;
        if let Some(index) = self.index_file(wanted, is_continued)? {
            if self.data.is_writable() || !self.is_left_unfinished(&index)? {
                if is_first {
                    fill_holes(index.map.file())?;
                }
                let index = self.put_newest(index);
                return self.look_at(index, before);
            }
            log = Log::Until(index.load(words::TAIL));
        }
        if !self.data.is_writable() {
            // For this process alone.
            self.is_private.store(true, Ordering::Relaxed);
            let by = |hash_id| {
                let (file, seed) = (memory_file()?, random_word()?);
                let index = Index::create(file, MEMORY_ROOM, self.header, hash_id, seed)?;
                let index = self.put_newest(index);
                Writer { core: self, index, lock: None, _here: PhantomData }.rebuild(log)
            };
            let made = by(keyhash::RAPID)
                .or_else(|e| if is_skewed(&e) { by(keyhash::SIP) } else { Err(e) });
            // Somebody may have begun to write meanwhile: then there is an index to be had.
            return made.or_else(|error| if self.is_alone() { Err(error) } else { self.attach() });
        }
        // What others write may look like none for a moment: whoever has the lock knows.
        self.writer_unsettled().map(drop)
    }

    /// Whether an index was left in the middle of a change by who died, and nobody is about to finish that:
    /// nobody else has the store open, or nobody has taken the lock since. All of the change is in the log.
    pub(crate) fn is_left_unfinished(&self, index: &Index) -> Result<bool> {
        if index.load(words::CLEAN) != 0 {
            // Closed by the last, who has the lock then.
            return Ok(false);
        }
        let state = index.state();
        let is_whole = state.is_pending() || index.load(words::APPLIED) == index.load(words::TAIL);
        let lock = self.writer_lock();
        let is_finished = is_whole && !state.is_busy() && !lock.is_taken();
        Ok(!is_finished && (lock.is_of_dead() || !is_locked(self.data.file(), OPEN)?))
    }

    /// Has a writer look at an index that others use, or used until they died; if nobody writes just
    /// now, else that is done before the first change. `before` is how the lock was found.
    fn look_at(&self, index: &Index, before: Option<Got>) -> Result<()> {
        if !self.data.is_writable() || index.load(words::CLEAN) != 0 {
            return Ok(());
        }
        let lock = self.writer_lock();
        match lock.try_lock() {
            Ok(Some(got)) => match self.writer_with(lock, before.unwrap_or(got)) {
                Err(error) if error.is_bad_file() => Err(error),
                // A full disk keeps nobody from reading.
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The index with this number beside the data file, if it can be trusted.
    pub(super) fn index_file(&self, wanted: u64, is_continued: bool) -> Result<Option<Index>> {
        let Some(path) = self.index_path()? else { return Ok(None) };
        let is_writable = self.data.is_writable();
        let mut options = OpenOptions::new();
        options.read(true).write(is_writable);
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC);
        let file = match options.open(&path) {
            Ok(file) => file,
            Err(e) if is_shortage(&e) || is_writable && e.kind() == ErrorKind::PermissionDenied => {
                return Err(Error::io("open", e).at(path));
            }
            Err(_) => return Ok(None),
        };
        let meta = file.metadata().map_err(|e| Error::io("ask the size of", e).at(&path))?;
        if !meta.is_file() || meta.len() < HEAD_BYTES {
            return Ok(None);
        }
        let mut bytes = [0; 64];
        read_exact_at(&file, &mut bytes, 0)?;
        let Some(header) = IndexHeader::decode(&bytes) else { return Ok(None) };
        if header.store != self.header.store || header.id != wanted {
            return Ok(None);
        }
        let index = Index::new(SharedMap::new(file, is_writable, INDEX_ROOM)?, header)?;
        // Files are made longer first, and then they have more in them.
        let lines = index.load(words::BUMP);
        let is_whole = lines.saturating_mul(LINE) <= index.map.refresh_len()?
            && index.load(words::TAIL) <= self.data.refresh_len()?;
        // One that was closed, and put back when the store had changed since, is not trusted either.
        let clean = index.load(words::CLEAN);
        let is_of_now = self.checkpoint().is_some_and(|durable| durable.number == clean);
        // One that nobody changes can be looked at whole.
        let is_trusted = if clean == 0 { is_continued } else { is_of_now && self.is_sane(&index) };
        Ok((is_whole && is_trusted).then_some(index))
    }

    /// Where the index is: beside the data file, also if that was moved since it was opened.
    pub(crate) fn index_path(&self) -> Result<Option<PathBuf>> {
        let Some(path) = &self.path else { return Ok(None) };
        // A store that was removed while it is open has no place any more, nor one that has another name since.
        let meta = self.data.file().metadata().map_err(|e| Error::io("look at", e))?;
        if meta.nlink() == 0 {
            return Ok(None);
        }
        Ok(path_of(self.data.file(), path).map(|path| index_of(&path)))
    }

    /// Finds the index after the number in the data file has changed. The caller holds none.
    #[cold]
    pub(crate) fn attach(&self) -> Result<()> {
        // A new index gets its name before its number is known, and may be replaced at once.
        let attempts = if self.data.is_writable() { 1 } else { ATTEMPTS };
        for _ in 0..attempts {
            let wanted = self.session(session::INDEX_ID).load(Ordering::Acquire);
            if let Some(index) = self.index_file(wanted, true)? {
                index.map.advise_as(&self.data);
                self.newest.push_unless(index, |newest| newest.header.id == wanted);
                self.drop_replaced();
                return Ok(());
            }
            std::thread::yield_now();
        }
        if !self.data.is_writable() {
            return Err(Error::invalid("the store's index was replaced: open the store again"));
        }
        self.writer().map(drop)
    }

    /// Puts an index in the place of the newest.
    fn put_newest(&self, index: Index) -> &Index {
        index.map.advise_as(&self.data);
        self.newest.push(index)
    }

    /// Drops the indexes that nobody looks at any more, if there is a moment when nobody writes.
    fn drop_replaced(&self) {
        if !self.data.is_writable() {
            return drop_replaced_indexes(self, None);
        }
        // Who writes may wait for this reader: not for long, and not if there are few.
        let is_urgent = self.newest.count() > MOST_REPLACED;
        let lock = self.writer_lock();
        let got = if is_urgent { lock.lock_within(A_MOMENT) } else { lock.try_lock() };
        // Else at another time.
        if let Ok(Some(got)) = got
            && let Ok(writer) = self.writer_with(lock, got)
        {
            drop_replaced_indexes(self, Some(&writer));
        }
    }

    /// The same for a writer, which makes the index if there is none.
    pub(crate) fn attach_under_lock(&self, writer: &Writer<'_>) -> Result<&Index> {
        let wanted = self.session(session::INDEX_ID).load(Ordering::Acquire);
        match self.index_file(wanted, true)? {
            Some(index) => {
                let index = self.put_newest(index);
                drop_replaced_indexes(self, Some(writer));
                Ok(index)
            }
            None => self.new_index(writer, keyhash::RAPID, From::Log),
        }
    }

    /// Makes the index anew, and puts it in the place of the present one.
    pub(crate) fn new_index(&self, lock: &Writer<'_>, hash_id: u32, from: From) -> Result<&Index> {
        // The order of the records stays, for those who iterate, as long as the hash does.
        let old = lock.index.header;
        let seed = if old.hash_id == hash_id { old.seed } else { random_word()? };
        match self.new_index_with(lock, (hash_id, seed), from) {
            // Keys that were chosen for this hash must not make a store that cannot be opened.
            Err(error) if from == From::Log && is_skewed(&error) => {
                self.new_index_with(lock, (keyhash::SIP, random_word()?), from)
            }
            done => done,
        }
    }

    /// The same with a hash function and a seed that may be others.
    pub(crate) fn new_index_with(
        &self,
        lock: &Writer<'_>,
        (hash_id, seed): (u32, u64),
        from: From,
    ) -> Result<&Index> {
        let index = match self.index_path()? {
            None => {
                let index = Index::create(memory_file()?, MEMORY_ROOM, self.header, hash_id, seed)?;
                self.fill(&index, lock, from)?;
                index
            }
            Some(path) => {
                make_way(&path, is_index)?;
                let staged = Staged::beside(path.clone())?;
                // Who may read and write the one file may the other.
                let given = staged.belongs_to(self.data.file());
                given.map_err(|e| Error::io("set the permissions of", e).at(&path))?;
                let file = staged.file().try_clone().map_err(|e| Error::io("open again", e))?;
                let index = Index::create(file, INDEX_ROOM, self.header, hash_id, seed)?;
                self.fill(&index, lock, from)?;
                make_way(&path, is_index)?;
                staged.publish()?;
                index
            }
        };
        let id = index.header.id;
        let index = self.put_newest(index);
        self.session(session::INDEX_ID).store(id, Ordering::Release);
        drop_replaced_indexes(self, Some(lock));
        Ok(index)
    }

    fn fill(&self, index: &Index, lock: &Writer<'_>, from: From) -> Result<()> {
        let writer = Writer { core: self, index, lock: None, _here: PhantomData };
        match from {
            From::Log => writer.rebuild(Log::GoesOn),
            From::Index => writer.copy_index(lock.index),
        }
    }
}
