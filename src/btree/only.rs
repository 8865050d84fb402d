//! Opening a store where nothing may be written.
//!
//! What is read is one commit, the newest, which stays that: no slot protects who reads so, and those who would write
//! cannot open the store meanwhile. What a writer would put right is put right in memory.

use super::core::{Core, no_durable};
use super::format::{Commit, MAX_PAGES, PAGE_BYTES, session};
use super::journal::Since;
use crate::os::file::open_changing;
use crate::os::lock::{Want, is_locked, lock_range};
use crate::os::opening::{OPEN, READING, await_free, opening};
use crate::os::process::prepare;
use crate::os::session::Session;
use crate::os::shared::SharedMap;
use crate::{Error, Result};
use std::fs::File;
use std::path::Path;

/// What is read where nothing may be written: a commit, and what the table of pages does not say of
/// it as nobody has put that right yet.
#[derive(Debug)]
pub(crate) struct Only {
    pub commit: Commit,
    pub since: Option<Since>,
}

impl Core {
    /// Opens the store at `path` to read it, and writes nothing. One that is damaged, to be recovered, may be shorter than
    /// its commit says: what is missing are zeros.
    pub(crate) fn open_to_read(path: &Path, is_damaged: bool) -> Result<Core> {
        prepare();
        let file = open_changing(path, false, false)?;
        await_free(&file, OPEN)?;
        let lock = session::WRITER_LOCK;
        opening(&file, Want::Shared, lock, |opening| {
            Core::of_reader(opening.file(), path, is_damaged)
        })
    }

    /// Whoever writes holds a lock as long as he has the store open, and whoever may not write
    /// another: no slot protects what these read, so that nobody may write at the same time.
    fn of_reader(file: &File, path: &Path, is_damaged: bool) -> Result<Core> {
        if is_locked(file, OPEN)? {
            return Err(Error::invalid(
                "somebody has the store open who may write, and readers that may not write to its file \
                 cannot say what they read: get permission to write, or read a copy ('credenza \
                 backup'), or wait until the store is closed",
            ));
        }
        let mut core = Core::mapped(file, false, Some(path))?;
        lock_range(file, READING, Want::Shared, true)?;
        if is_damaged {
            core.map = private(file, core.longest()?)?;
        }
        // After a new start of the machine, what processes shared is not looked at.
        let is_current = Session::at(&core.map, session::BOOT_LOW).is_of_this_boot();
        let only = match is_current {
            true => core.newest_to_read(file),
            false => core.durable_to_read(file),
        };
        core.only = Some(if is_damaged && is_current { core.better(only, file)? } else { only? });
        Ok(core)
    }

    /// The newest commit of a damaged file, or the durable one: what is shared has no checksum, so that the newest counts
    /// where it is one and came after the other.
    fn better(&mut self, newest: Result<Only>, file: &File) -> Result<Only> {
        // Its own number, which stands before the rest of it.
        let number = self.load(session::COMMITS[(self.newest().number % 2) as usize]);
        match (newest, self.recovered()) {
            (Ok(newest), Ok(Some(durable)))
                if newest.commit.number == number && newest.commit.stamp > durable.commit.stamp =>
            {
                Ok(newest)
            }
            (Ok(newest), Ok(None) | Err(_)) => Ok(newest),
            _ => self.durable_to_read(file),
        }
    }

    /// The end of the longest commit that the file tells of. What is shared has no checksum: no file is taken for one that
    /// had sixty times its length.
    fn longest(&self) -> Result<u64> {
        let len = self.map.refresh_len()?.div_ceil(PAGE_BYTES);
        let metas = (0..2).filter_map(|place| self.meta(place)).map(|meta| meta.commit.end);
        let newest = self.newest().end;
        let ends = metas.chain((newest < 60 * len).then_some(newest));
        Ok(ends.filter(|end| *end < MAX_PAGES).fold(len, u64::max))
    }

    fn newest_to_read(&mut self, file: &File) -> Result<Only> {
        if self.is_changing() {
            // Before a map is made that is as long as it says.
            self.check_commit(&self.newest())?;
            // Of what is put right to be read nothing comes to the file.
            self.map = private(file, self.newest().end)?;
            self.undo_change()?;
        }
        let commit = self.newest();
        let since = self.changes_to_redo(&commit)?;
        self.check_commit(&commit)?;
        Ok(Only { commit, since })
    }

    fn durable_to_read(&mut self, file: &File) -> Result<Only> {
        let recovered = self.recovered()?.ok_or_else(no_durable)?;
        if recovered.since.is_some() {
            self.map = private(file, recovered.commit.end)?;
            self.redo(&recovered)?;
        }
        self.check_commit(&recovered.commit)?;
        Ok(Only { commit: recovered.commit, since: recovered.since })
    }
}

/// A map of so many pages whose changes are this process's alone.
fn private(file: &File, pages: u64) -> Result<SharedMap> {
    let clone = file.try_clone().map_err(|e| Error::io("open again", e))?;
    SharedMap::private(clone, pages * PAGE_BYTES)
}
