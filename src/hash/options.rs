//! How a hash store is opened.

use super::core::Core;
use super::evict::Worth;
use super::handle::Hash;
use crate::durability::Durability;
use crate::observe::Recorder;
use crate::stats::Statistics;
use crate::{Advice, Error, Result};
use std::path::Path;
use std::time::Duration;

/// How to open a hash store.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    is_created: bool,
    is_read_only: bool,
    durability: Durability,
    statistics: Option<Statistics>,
    limit: u64,
    worth: Option<Worth>,
    advice: Option<Advice>,
    is_unrecorded: bool,
    lock_timeout: Option<Duration>,
    is_kept_whole: bool,
}

impl OpenOptions {
    /// An existing store, for reading and writing, buffered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a new store if there is no file, or an empty one.
    #[must_use]
    pub fn create(mut self, is_created: bool) -> Self {
        self.is_created = is_created;
        self
    }

    /// Never writes, and needs no permission to: values are then copied, and a busy writer makes
    /// readers look more than once. Where others write so much that what takes long, as a backup, finds no
    /// moment at which they do not, it ends with an error.
    #[must_use]
    pub fn read_only(mut self, is_read_only: bool) -> Self {
        self.is_read_only = is_read_only;
        self
    }

    /// When what is written is safe against the loss of power. Of an operation that waits for the disk, with
    /// [`Durability::Sync`], an error may be that the disk refused ([`ErrorKind::Io`](crate::ErrorKind::Io), "cannot make
    /// durable"): then the change is there, but may not be durable until a later [`Hash::sync`] succeeds.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long a change waits for others who write, before it is an error ([`ErrorKind::Busy`](crate::ErrorKind::Busy))
    /// that says which process that is; nothing of it is done then. By default for ever. Zero is for no longer than the
    /// moment that a small change takes. A writer who was killed is not waited for; one that is stopped, or has a
    /// transaction open, is. [`Hash::sync`] waits no longer either, nor does a change with [`Durability::Sync`] for what
    /// makes it durable: that error is the one of a disk that refused, see [`OpenOptions::durability`]. Nor do
    /// [`Hash::backup`], [`Hash::verify`] and [`Hash::verify_records`].
    ///
    /// What else only reads, opening, and [`Durability::Interval`] wait as they do without, where they have to; and nothing
    /// limits the wait for the disk.
    #[must_use]
    pub fn lock_timeout(mut self, time: Duration) -> Self {
        self.lock_timeout = Some(time);
        self
    }

    /// What the kernel is told about coming accesses, from when the store is open: see [`Hash::advise`].
    #[must_use]
    pub fn advice(mut self, advice: Advice) -> Self {
        self.advice = Some(advice);
        self
    }

    /// Counts and times operations; without it nothing is counted.
    #[must_use]
    pub fn statistics(mut self, statistics: Statistics) -> Self {
        self.statistics = Some(statistics);
        self
    }

    /// How many bytes the records of a new store may take: those that are found, each with its
    /// header of 8 or 16 bytes and rounded up to a multiple of 8. To keep below, writes drop the
    /// records that were not used for longest, and count them ([`Stats::evictions`]); a dropped key
    /// is as one that was removed. 0: no limit, unless the store has one.
    ///
    /// The limit is the store's for ever, and everybody's who opens it. Naming another for a store
    /// that is there is an error; naming none takes the one that it has.
    ///
    /// Every write keeps the limit. One that needs `n` bytes copies at most eight times as many, or
    /// 4 KiB, and one group of records more. A record was used if somebody read it, other than by
    /// iterating or from a handle that is for reading only, since it was written or last passed
    /// over. As long as those that were used take less than a quarter of the limit, and no record
    /// or batch is over a thirty-second part of it, none of them is dropped; else the oldest may be.
    ///
    /// Where the disk has less room, or files may not become so long, that is a limit, too: a write that finds none
    /// drops the oldest as at the limit, as many as a segment of up to 1 MiB has, or as it needs, and more of them if that
    /// does not do. What is free then is what puts leave to removals ([`Hash::insert`]). Where readers keep what was dropped, a
    /// write waits up to 20 ms for them, and is an error then.
    ///
    /// [`Stats::evictions`]: super::Stats::evictions
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// What a record is worth to this handle, given its key and value: for stores with a limit.
    /// Records to be dropped are looked at in groups of up to sixteen, the oldest first. Of those
    /// in a group that nobody used, the half with the least worth for each of their bytes goes; the
    /// others are kept, as are those of worth `u64::MAX`, and count as used ones in what
    /// [`OpenOptions::limit`] promises. Beyond that used ones go, too: in their group after those
    /// that nobody used, with the least worth first, and those of worth `u64::MAX` last.
    ///
    /// The function is called while others cannot write; it must not use the store, and should be
    /// quick. Handles without it, in whatever process, drop by age alone.
    #[must_use]
    pub fn worth(mut self, worth: fn(&[u8], &[u8]) -> u64) -> Self {
        self.worth = Some(worth);
        self
    }

    /// Leaves the handle out of recordings: who builds a store records that, under the name that it will have.
    #[must_use]
    pub(crate) fn unrecorded(mut self) -> Self {
        self.is_unrecorded = true;
        self
    }

    /// A full disk is an error also where there is a limit: who recovers a store is to know that not all of it is there.
    #[must_use]
    pub(crate) fn kept_whole(mut self) -> Self {
        self.is_kept_whole = true;
        self
    }

    /// Opens the store at `path`. Its index lies beside it, as `path` with `-index` at the end, and
    /// is made again if it is missing or does not fit.
    ///
    /// On file systems that write no page where it lies (btrfs, bcachefs, NILFS2, F2FS, and XFS, as files may share blocks
    /// there) a process that has a store open to write it keeps 9 MiB there, in files without names, and handles the signal
    /// SIGBUS for its maps of such stores, so that a full disk is an error there, too; other such signals go on to the
    /// handler that was there before. A thread that blocks the signal is ended by the kernel instead; so is one to whom
    /// others leave nothing of that for ten seconds. Nothing is kept where the store's folder may not be written, and on no
    /// more than 16 of them at a time, each subvolume being one.
    ///
    /// # Errors
    /// The file is missing, may not be opened, is no hash store, has another limit, or is damaged
    /// where its beginning or, after a power failure, its log was read; or the statistics that are
    /// asked for cannot be had, or the recording that the environment asks for
    /// ([`record`](crate::record)); or `/proc` is not mounted, as in a process that has another root:
    /// what was opened before stays usable there.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Hash> {
        let path = path.as_ref();
        if self.is_created && self.is_read_only {
            return Err(Error::invalid("a store cannot be created for reading only").at(path));
        }
        let core = Core::open(path, self.is_created, self.is_read_only, self.limit);
        let mut core = core.map_err(|e| e.at(path))?;
        core.worth = self.worth;
        core.lock_timeout = self.lock_timeout;
        core.is_kept_whole = self.is_kept_whole;
        let recorder = match self.is_unrecorded {
            true => None,
            false => Recorder::new(self.statistics.as_ref(), "hash", path)?,
        };
        let store = Hash::of(core, Some(path.to_owned()), self.durability, recorder);
        let store = store.map_err(|e| e.at(path))?;
        self.advice.map_or(Ok(()), |advice| store.advise(advice))?;
        Ok(store)
    }
}
