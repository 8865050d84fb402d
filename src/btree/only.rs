//! Opening a store where nothing may be written.
//!
//! What is read is one commit, the newest, which stays that: no slot protects who reads so, and those who would write
//! cannot open the store meanwhile. What a writer would put right is put right in memory.

use super::core::{Core, no_durable};
use super::format::{Commit, Header, MAX_PAGES, METAS, PAGE_BYTES, session};
use super::journal::Since;
use super::meta::META_WORDS;
use super::page::Link;
use super::tree::levels;
use crate::os::atomic::Ordering;
use crate::os::file::open_changing;
use crate::os::lock::{Want, lock_range};
use crate::os::opening::{OPEN, READING, await_free, opening, refuse_writers};
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

/// What the commit of a damaged store is to be taken for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    /// Whether there was a later one, as far as can be seen.
    pub is_older: bool,
    /// Whether of its pages only those are good that have a checksum.
    pub needs_sums: bool,
    /// Whether it has no checksum itself.
    pub is_unchecked: bool,
}

impl Core {
    /// Opens the store at `path` to read it, and writes nothing.
    pub(crate) fn open_to_read(path: &Path) -> Result<Core> {
        Core::opened(path, |file| {
            let mut core = Core::of_reader(file, path, Header::decode)?;
            // After a new start of the machine, what processes shared is not looked at.
            let is_current = Session::at(&core.map, session::BOOT_LOW).is_of_this_boot();
            core.only = Some(match is_current {
                true => core.newest_to_read(file)?,
                false => core.durable_to_read(file)?,
            });
            Ok(core)
        })
    }

    /// The same of one that is damaged, to recover it: what is missing of its file are zeros.
    pub(crate) fn open_damaged(path: &Path) -> Result<(Core, Doubt)> {
        Core::opened(path, |file| {
            let mut core = Core::of_reader(file, path, Header::of_damaged)?;
            let map = private(file, core.longest(true)?);
            core.map = map.or_else(|_| private(file, core.longest(false)?))?;
            let (only, doubt) = core.best_to_read()?;
            core.only = Some(only);
            Ok((core, doubt))
        })
    }

    fn opened<R>(path: &Path, open: impl FnOnce(&File) -> Result<R>) -> Result<R> {
        prepare();
        let file = open_changing(path, false, false)?;
        await_free(&file, OPEN)?;
        opening(&file, Want::Shared, session::WRITER_LOCK, |opening| open(opening.file()))
    }

    /// Whoever writes holds a lock as long as he has the store open, and whoever may not write
    /// another: no slot protects what these read, so that nobody may write at the same time.
    fn of_reader(
        file: &File,
        path: &Path,
        header: impl FnOnce(&[u8]) -> Result<Header>,
    ) -> Result<Core> {
        refuse_writers(file)?;
        let core = Core::mapped(file, false, Some(path), header)?;
        lock_range(file, READING, Want::Shared, true)?;
        Ok(core)
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

    pub(super) fn durable_to_read(&mut self, file: &File) -> Result<Only> {
        let recovered = self.recovered()?.ok_or_else(no_durable)?;
        self.check_said(&recovered)?;
        if recovered.since.is_some() {
            self.map = private(file, recovered.commit.end)?;
            self.redo(&recovered)?;
        }
        self.check_commit(&recovered.commit)?;
        self.check_left(&recovered)?;
        Ok(Only { commit: recovered.commit, since: recovered.since })
    }

    /// The end of the longest commit that the file tells of. What is shared has no checksum: no file is taken for one that
    /// had sixty times its length, and may be taken for none that had more than there is `with_shared`.
    fn longest(&self, with_shared: bool) -> Result<u64> {
        let len = self.map.refresh_len()?.div_ceil(PAGE_BYTES);
        let metas = (0..2).filter_map(|place| self.meta(place)).map(|meta| meta.commit.end);
        let shared = session::COMMITS.map(|at| self.load(at + 16));
        let shared = shared.into_iter().filter(|end| with_shared && *end < 60 * len);
        Ok(metas.chain(shared).filter(|end| *end < MAX_PAGES).fold(len, u64::max))
    }

    /// The latest commit of a damaged file that can be one.
    fn best_to_read(&mut self) -> Result<(Only, Doubt)> {
        let is_current = Session::at(&self.map, session::BOOT_LOW).is_of_this_boot();
        if self.is_changing() && self.undo_change().is_err() {
            // Then only the leaf that was being changed is not what it was.
            self.word(session::STATE).store(self.newest().number, Ordering::Release);
        }
        let durable = self.recovered().ok().flatten();
        let after = durable.as_ref().map_or(0, |durable| durable.commit.stamp);
        let newest = self.newest().number;
        // What is shared has no checksum: it counts where it came after what has one. After a new start of the machine,
        // and if no durable commit is damaged, nothing that came after is whole.
        let is_meta_lost = (0..2).any(|place| self.is_meta_damaged(place));
        let shared = [newest, newest.wrapping_sub(1)].into_iter().filter_map(|number| {
            let commit = self.shared_commit(number)?;
            let is_one = self.check_commit(&commit).is_ok() && can_be(&commit);
            (commit.stamp > after && is_one).then_some(commit)
        });
        let shared = shared.take(if is_current || is_meta_lost { 2 } else { 0 }).next();
        if let Some(commit) = shared {
            let since = self.changes_to_redo(&commit).unwrap_or(None);
            let is_older = commit.number != newest;
            let doubt = Doubt { is_older, needs_sums: !is_current, is_unchecked: true };
            return Ok((Only { commit, since }, doubt));
        }
        let recovered = durable.ok_or_else(no_durable)?;
        if recovered.since.is_some() {
            self.redo(&recovered)?;
        }
        let (commit, is_torn) = (recovered.commit, recovered.is_torn());
        // What came after it is not whole after a new start of the machine, but was there.
        let is_newest = |later: Commit| later.stamp <= commit.stamp;
        let is_older = match is_current {
            true => commit.number != newest,
            false => is_torn || is_meta_lost || !self.shared_commit(newest).is_none_or(is_newest),
        };
        let doubt = Doubt { is_older, needs_sums: false, is_unchecked: false };
        Ok((Only { commit, since: recovered.since }, doubt))
    }

    /// What the file says of the commit with this number, if it is there.
    fn shared_commit(&self, number: u64) -> Option<Commit> {
        let at = session::COMMITS[(number % 2) as usize];
        let commit = Commit::of(std::array::from_fn(|i| self.load(at + 8 * i as u64)));
        (commit.number == number).then_some(commit)
    }

    /// Whether something is in the place of a durable commit, and is none.
    fn is_meta_damaged(&self, place: usize) -> bool {
        let mut words = (0..META_WORDS as u64).map(|i| self.load(METAS[place] + 8 * i));
        self.meta(place).is_none() && words.any(|word| word != 0)
    }
}

/// Whether the trees of a commit can be such.
fn can_be(commit: &Commit) -> bool {
    [commit.main, commit.catalog].iter().all(|tree| match levels(tree) {
        Ok(None) => tree.root == 0 && tree.count == 0,
        Ok(Some(_)) => Link(tree.root).page() < commit.end,
        Err(_) => false,
    })
}

/// A map of so many pages whose changes are this process's alone.
fn private(file: &File, pages: u64) -> Result<SharedMap> {
    let clone = file.try_clone().map_err(|e| Error::io("open again", e))?;
    SharedMap::private(clone, pages * PAGE_BYTES)
}
