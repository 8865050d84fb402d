//! Building a constant file: records in any order, published whole or not at all.
//!
//! While records are added, those too large for a bucket go straight to the log, and of every
//! record an entry goes to the partition of its hash ([`super::partition`]), which spills to a
//! scratch file when the memory budget is used up. `finish` decides the geometry
//! ([`super::plan`]), writes directory and buckets ([`super::emit`]), the checksums and the header, and
//! publishes the file.
//!
//! The same records in the same order give the same bytes, whatever the memory budget: the hash
//! seed is fixed unless the caller gives one. When keys crowd together under it, by accident or
//! because somebody made them so, the next seed is derived from the content, and at last another
//! hash function is taken, until no bucket has more than
//! [`super::bucket::MAX_ENTRIES`] entries.

use super::bucket::{MAX_INLINE, REF_MARK, TAIL_BYTES};
use super::directory::GROUP_BYTES;
use super::emit::{Emitted, Emitter};
use super::format::{
    ALIGN, Addressing, HEADER_BYTES, Header, Kind, MAX_FILE, MAX_KEY, MAX_VALUE, Region,
};
use super::lists::{Lists, key_of};
use super::output::{RegionWriter, Sink};
use super::partition::{MIN_BUDGET_BYTES, Partitions};
use super::plan::{Plan, Totals};
use super::stats::{Fill, Stats};
use crate::keyhash::{self, KeyHash};
use crate::observe::Building;
use crate::os::memory::own_memory_bytes;
use crate::{Error, ErrorKind, Result, Staged};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The first seed tried unless the caller names one.
const DEFAULT_SEED: u64 = 0x6372_6564_656e_7a61;
/// Records between two calls of a progress callback while adding.
const PROGRESS_RECORDS: u64 = 1 << 16;

/// What a build is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Records are being added; their total is unknown.
    Adding,
    /// The buckets are being written.
    Writing,
    /// The file is being made durable and takes the place of the old one.
    Publishing,
}

/// How far a build is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// Records done in this phase.
    pub done: u64,
    /// Records to do in this phase; while adding, those done.
    pub total: u64,
}

type Callback = Box<dyn FnMut(Progress) + Send>;

/// Options of a build. The defaults suit everyone; nothing needs to be sized.
#[derive(Default)]
pub struct BuildOptions {
    memory_budget: Option<u64>,
    seed: Option<u64>,
    progress: Option<Callback>,
    /// Always a directory, which records of one size have only if there are millions: for tests of it.
    has_directory: bool,
}

impl fmt::Debug for BuildOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory_budget, seed, .. } = self;
        f.debug_struct("BuildOptions")
            .field("memory_budget", memory_budget)
            .field("seed", seed)
            .finish_non_exhaustive()
    }
}

impl BuildOptions {
    /// The defaults: a quarter of the machine's memory, or of what the process or its control group may have,
    /// the fixed seed, no progress callback.
    pub fn new() -> Self {
        Self::default()
    }

    #[cfg(test)]
    pub(super) fn directory(mut self) -> Self {
        self.has_directory = true;
        self
    }

    /// Bytes of memory for records that wait to be written; what is over is spilled to an unnamed
    /// file beside the target. At least 8 MiB; the process itself needs up to 64 MiB more, however many values a key has.
    #[must_use]
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = Some(bytes.max(MIN_BUDGET_BYTES));
        self
    }

    /// The seed of the hash that places keys. Without it the seed is fixed, so that the same
    /// input gives the same file.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Calls `callback` now and then with how far the build is.
    #[must_use]
    pub fn progress(mut self, callback: impl FnMut(Progress) + Send + 'static) -> Self {
        self.progress = Some(Box::new(callback));
        self
    }

    /// Starts building the file at `path`, which appears, or is replaced, only when
    /// [`Builder::finish`] returns.
    ///
    /// # Errors
    /// The folder is missing or may not be written; `path` is not a regular file, or a hash or btree store that somebody has
    /// open to write, as [`is_open`](crate::is_open) says; or the recording that the environment asks for
    /// ([`record`](crate::record)) cannot be begun.
    pub fn create(self, path: impl AsRef<Path>) -> Result<Builder> {
        let staged = Staged::create(&path)?;
        let file = staged.file().try_clone();
        let sink = Sink::File(file.map_err(|e| Error::io("open", e).at(&path))?);
        let path = path.as_ref();
        let recording = Building::begin("constant", path)?;
        let builder = Builder::new(self, sink, Some((staged, path.to_owned())));
        Ok(Builder { recording, ..builder })
    }

    /// Builds from `records` in memory: the bytes that the file would have. It is not recorded.
    ///
    /// # Errors
    /// A key or value is over its limit.
    pub fn build_in_memory<K, V>(self, records: impl IntoIterator<Item = (K, V)>) -> Result<Vec<u8>>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let mut builder = Builder::new(self, Sink::Memory(Mutex::default()), None);
        for (key, value) in records {
            builder.add(key.as_ref(), value.as_ref())?;
        }
        builder.write()?;
        match builder.sink {
            Sink::Memory(bytes) => Ok(bytes.into_inner().unwrap_or_else(|e| e.into_inner())),
            Sink::File(_) => Ok(Vec::new()),
        }
    }
}

/// A constant file being built. Dropped without [`Builder::finish`], it leaves nothing behind.
#[must_use = "nothing appears unless it is finished"]
pub struct Builder {
    sink: Sink,
    has_directory: bool,
    staged: Option<(Staged, PathBuf)>,
    progress: Option<Callback>,
    seed: u64,
    hash: KeyHash,
    totals: Totals,
    log: RegionWriter,
    parts: Partitions,
    /// Bytes lost to alignment in the log.
    padding: u64,
    /// Reused for the head of a log record.
    buffer: Vec<u8>,
    /// Whether something could not be written, so that records that were added are not there.
    has_failed: bool,
    /// What records what is added, if that is asked for.
    recording: Option<Box<Building>>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl Builder {
    /// Starts building the file at `path` with the default options.
    ///
    /// # Errors
    /// As [`BuildOptions::create`].
    pub fn create(path: impl AsRef<Path>) -> Result<Builder> {
        BuildOptions::new().create(path)
    }

    fn new(options: BuildOptions, sink: Sink, staged: Option<(Staged, PathBuf)>) -> Builder {
        let budget =
            options.memory_budget.unwrap_or_else(|| (own_memory_bytes() / 4).max(MIN_BUDGET_BYTES));
        let seed = options.seed.unwrap_or(DEFAULT_SEED);
        let beside = staged.as_ref().map(|(staged, _)| staged.target().clone());
        Builder {
            sink,
            has_directory: options.has_directory,
            staged,
            progress: options.progress,
            seed,
            hash: hash_of(keyhash::RAPID, seed),
            totals: Totals::default(),
            log: RegionWriter::new(HEADER_BYTES as u64),
            parts: Partitions::new(budget.max(MIN_BUDGET_BYTES), beside),
            padding: 0,
            buffer: Vec::new(),
            has_failed: false,
            recording: None,
        }
    }

    /// Adds a record. Any order will do; values of equal keys are kept in the order of the calls.
    ///
    /// # Errors
    /// The key is over 64 KiB or the value over 4 GiB - 1, and the record is left out; or the file is over
    /// 2^48 bytes, or the disk is full or failed: drop the builder then, which refuses everything else;
    /// nothing has been published.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        limit("key", key.len(), MAX_KEY)?;
        limit("value", value.len(), MAX_VALUE)?;
        self.check_failed()?;
        // The empty key is compared where its length is known: see `block`.
        let is_inline = !key.is_empty() && key.len() < MAX_INLINE;
        let added = if is_inline && key.len() + value.len() <= MAX_INLINE {
            self.add_inline(key, value)
        } else {
            self.add_to_log(key, value)
        };
        if let Err(e) = added {
            self.has_failed = true;
            return Err(self.named(e));
        }
        self.totals.records += 1;
        self.totals.key_bytes += key.len() as u64;
        self.totals.value_bytes += value.len() as u64;
        if let Some(recording) = &mut self.recording {
            recording.added(key, value);
        }
        if self.totals.records.is_multiple_of(PROGRESS_RECORDS) {
            self.report(Phase::Adding, self.totals.records);
        }
        Ok(())
    }

    #[inline]
    fn check_failed(&self) -> Result<()> {
        match self.has_failed {
            true => Err(Error::failed_before("building the file")),
            false => Ok(()),
        }
    }

    #[inline]
    fn add_inline(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.totals.lens != Some((key.len(), value.len())) {
            self.totals.lens = Some((key.len(), value.len()));
            self.totals.changes += 1;
        }
        self.totals.inline_bytes += (key.len() + value.len()) as u64;
        self.parts.push(self.hash.hash(key), key.len() as u8, key, value)
    }

    fn add_to_log(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let place = self.log.position();
        if place > MAX_FILE - (MAX_KEY + MAX_VALUE) {
            return limit("file", usize::MAX, MAX_FILE);
        }
        self.buffer.clear();
        self.buffer.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(key);
        self.log.write(&self.sink, &self.buffer)?;
        self.log.write(&self.sink, value)?;
        let end = self.log.position();
        let padding = end.next_multiple_of(ALIGN) - end;
        self.log.write(&self.sink, [0u8; 8].get(..padding as usize).unwrap_or_default())?;
        self.padding += padding;
        self.totals.refs += 1;
        self.parts.push(self.hash.hash(key), REF_MARK, &place.to_le_bytes(), &[])
    }

    /// Writes the file, makes it durable and puts it in its place; what is in it.
    ///
    /// # Errors
    /// The disk is full or failed: nothing has been published, the old file is untouched.
    pub fn finish(self) -> Result<Stats> {
        self.finish_by(Staged::publish)
    }

    /// The same where nothing is to be replaced: a store that somebody else makes there at the same moment stays.
    ///
    /// # Errors
    /// There is something at the path; or as [`Builder::finish`].
    pub fn finish_new(self) -> Result<Stats> {
        self.finish_by(Staged::publish_new)
    }

    fn finish_by(mut self, publish: fn(Staged) -> Result<()>) -> Result<Stats> {
        self.check_failed()?;
        let (header, mut fill) = self.write().map_err(|e| self.named(e))?;
        fill.pad(self.padding);
        self.report(Phase::Publishing, self.totals.records);
        if let Some((staged, _)) = self.staged.take() {
            Building::publishing(&mut self.recording, || publish(staged))?;
        }
        Ok(Stats::new(&header, &fill))
    }

    /// Writes everything after the log, and the header.
    fn write(&mut self) -> Result<(Header, Fill)> {
        self.parts.make_room()?;
        let log = std::mem::replace(&mut self.log, RegionWriter::new(0));
        let (log, log_sums) = log.finish(&self.sink)?;
        let (mut crowded, mut has_lists, mut most) = (0, false, None);
        // Whether the hash may lead to records without a directory.
        let mut may_name = !self.has_directory;
        loop {
            let plan = Plan::new(&self.totals, has_lists, may_name, log.end(), crowded);
            let directory_at = log.end().next_multiple_of(GROUP_BYTES);
            let buckets_at = directory_at + plan.directory_bytes();
            let most_bytes = most.unwrap_or(plan.most_bytes) + TAIL_BYTES as u64;
            let lists_at = (buckets_at + most_bytes).next_multiple_of(ALIGN);
            let emitted = self.attempt(&plan, log, directory_at, lists_at)?;
            let suits = |emitted: &Emitted| emitted.suits(&plan, self.totals.records);
            if plan.addressing != Addressing::Directory && !emitted.as_ref().is_some_and(suits) {
                (may_name, most) = (false, None);
                continue;
            }
            let Some(emitted) = emitted else {
                crowded += 1;
                may_name = !self.has_directory;
                self.next_seed(crowded)?;
                continue;
            };
            let (buckets, _) = emitted.buckets;
            if !emitted.lists.is_empty() {
                // Entries of one fixed size cannot refer to lists.
                if !has_lists && matches!(plan.shape.kind, Kind::Fixed { .. }) {
                    (has_lists, may_name) = (true, !self.has_directory);
                    continue;
                }
                // What lists took out of the buckets is missing between the two: now that it is
                // known exactly where the buckets end, let the lists begin there.
                if most.is_none() && lists_at - buckets.end() >= ALIGN {
                    most = Some(buckets.len - TAIL_BYTES as u64);
                    has_lists = true;
                    continue;
                }
            }
            return self.close(&plan, (log, log_sums), emitted);
        }
    }

    /// Writes directory, buckets and lists of one plan.
    fn attempt(
        &mut self,
        plan: &Plan,
        log: Region,
        directory_at: u64,
        lists_at: u64,
    ) -> Result<Option<Emitted>> {
        let (callback, total) = (&mut self.progress, self.totals.records);
        let gap = vec![0; (directory_at - log.end()) as usize];
        self.sink.write_at(&gap, log.end())?;
        let lists = Lists::new(lists_at, log);
        let emitter = Emitter::new(*plan, &self.sink, directory_at, lists);
        emitter.emit(&self.parts, &mut reporter(callback, total))
    }

    /// Writes the checksums and then the header.
    fn close(
        &self,
        plan: &Plan,
        (log, mut log_sums): (Region, Vec<u64>),
        emitted: Emitted,
    ) -> Result<(Header, Fill)> {
        let (directory, directory_sums) = emitted.directory;
        let (buckets, bucket_sums) = emitted.buckets;
        let buckets_end = buckets.end().next_multiple_of(ALIGN);
        let (lists, list_sums) = emitted.lists.finish(&self.sink, &mut log_sums)?;
        let lists = if lists.len == 0 { Region { at: buckets_end, len: 0 } } else { lists };
        for (from, to) in [(buckets.end(), buckets_end), (buckets_end, lists.at)] {
            self.sink.write_at(&vec![0; (to - from) as usize], from)?;
        }
        let sums = [log_sums, directory_sums, bucket_sums, list_sums].concat();
        let table: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        let is_sip = self.hash.is_sip();
        let header = Header {
            kind: plan.shape.kind,
            hash_id: if is_sip { keyhash::SIP } else { keyhash::RAPID },
            seed: self.seed,
            records: self.totals.records,
            key_bytes: self.totals.key_bytes,
            value_bytes: self.totals.value_bytes,
            log,
            directory,
            buckets,
            lists,
            sums: Region { at: lists.end(), len: table.len() as u64 },
            sums_checksum: xxh3_64(&table),
            largest_bucket: emitted.fill.largest() as u32,
            ref_bytes: plan.shape.ref_bytes as u32,
            ref_bits: plan.shape.ref_bits,
            addressing: plan.addressing,
            chain: emitted.chain as u32,
        };
        self.sink.write_at(&table, header.sums.at)?;
        self.sink.truncate(header.file_len())?;
        self.sink.write_at(&header.encode(), 0)?;
        Ok((header, emitted.fill))
    }

    /// Divides all entries again: under a seed derived from the content, then under SipHash.
    fn next_seed(&mut self, tries: u32) -> Result<()> {
        if tries > 4 {
            return Err(Error::invalid(
                "these keys crowd together under every hash that was tried; give another seed",
            ));
        }
        let mut digest = u64::from(tries);
        self.parts.for_each_entry(|entry| {
            digest = xxh3_64_with_seed(entry.payload, digest ^ entry.hash);
            Ok(())
        })?;
        self.seed = digest;
        self.hash = hash_of(if tries > 2 { keyhash::SIP } else { keyhash::RAPID }, self.seed);
        let mut parts = self.parts.empty_like();
        self.parts.for_each_entry(|entry| {
            let hash = self.hash.hash(&key_of(&self.sink, &entry)?);
            parts.push(hash, entry.key_len, entry.payload, &[])
        })?;
        // What was read is given back first.
        self.parts = parts;
        self.parts.make_room()?;
        Ok(())
    }

    fn report(&mut self, phase: Phase, done: u64) {
        let total = self.totals.records;
        if let Some(callback) = &mut self.progress {
            callback(Progress { phase, done, total });
        }
    }

    fn named(&self, error: Error) -> Error {
        match &self.staged {
            Some((_, path)) => error.at(path),
            None => error,
        }
    }
}

/// What tells the callback, now and then, how many of `total` records are written.
fn reporter(callback: &mut Option<Callback>, total: u64) -> impl FnMut(u64) {
    let mut reported = 0;
    move |done| {
        if let Some(callback) = callback
            && (done - reported >= PROGRESS_RECORDS || done >= total)
        {
            reported = done;
            callback(Progress { phase: Phase::Writing, done: done.min(total), total });
        }
    }
}

fn hash_of(id: u32, seed: u64) -> KeyHash {
    KeyHash::new(id, seed).unwrap_or_else(|| unreachable!("the builder names known hashes only"))
}

fn limit(what: &'static str, size: usize, limit: u64) -> Result<()> {
    if size as u64 <= limit {
        return Ok(());
    }
    Err(Error::new(ErrorKind::TooLarge { what, size: size as u64, limit }))
}
