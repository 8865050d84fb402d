//! A constant file that is open.
//!
//! Threads: a [`Constant`] is cheap to clone, and every clone may be used from any thread. What a
//! clone reads changes only by its own [`Constant::refresh`], which needs it exclusively: so no
//! borrowed value can outlive its map, and lookups cost no counting of references. Clones share
//! the newest map: the first that refreshes opens the new file, the others take it over.

use super::fast::First;
use super::format::HEADER_BYTES;
use super::lookup::Index;
use super::reader::Layout;
use super::scan::{Iter, Scanner};
use super::stats::Stats;
use super::verify::verify;
use crate::observe::Recorder;
use crate::os::file::{FileId, borrowed, open_regular, read_exact_at};
use crate::os::map::Map;
use crate::os::own_lock::OwnLock;
use crate::os::place::whole_path;
use crate::os::process::prepare;
use crate::os::source::{Memory, Pread};
use crate::stats::{Done, Operation, Operations, Statistics};
use crate::{Access, Advice, Bytes, Error, Get, Residency, Result, Scan};
use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lookups announced to the kernel at once when the file is not in memory.
const COLD_BATCH: usize = 128;

/// A file up to this size is read whole where it is to be read at random: that takes a disk no longer than some hundred
/// lookups, each of which would wait for a page.
const SMALL_FILE_BYTES: u64 = 32 << 20;

/// So much is asked for when a file is opened, and no more, however long a directory is: the kernel makes a page for every one
/// of a hole, and a directory may be one of terabytes.
const AHEAD_BYTES: u64 = 256 << 20;

/// How to open a constant file.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    access: Access,
    advice: Option<Advice>,
    statistics: Option<Statistics>,
}

impl OpenOptions {
    /// Map the file, with the kernel's default read-ahead.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the file is read: mapped (the default), with `pread`, or copied into huge pages.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// What the kernel is told about coming accesses. With [`Advice::Random`], which is for files
    /// that are larger than memory or not yet in it, `get_many` also asks for the pages of many
    /// keys at once, so that a disk works on all of them together. A file of up to 32 MiB is read whole
    /// then, in the background: a disk does that in the time of some hundred lookups.
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

    /// Opens the file at `path`: reads its header, whatever its size.
    ///
    /// # Errors
    /// The file is missing, may not be read, is not a constant file, or is truncated; or the
    /// statistics that are asked for cannot be had, or the recording that the environment asks for
    /// ([`record`](crate::record)).
    pub fn open(self, path: impl AsRef<Path>) -> Result<Constant> {
        let path = path.as_ref().to_owned();
        let snapshot = Arc::new(Snapshot::open(&path, &self)?);
        let recorder = Recorder::new(self.statistics.as_ref(), "constant", &path)?.map(Arc::new);
        // The lock has to know this process from those that are forked from it.
        prepare();
        let newest = OwnLock::new(Arc::clone(&snapshot));
        let whole_path = whole_path(path.clone());
        let shared = Arc::new(Shared { path, whole_path, options: self, newest });
        Ok(Constant { snapshot, recorder, shared })
    }
}

/// An open constant file.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("users.constant");
/// use credenza::{Get, constant::{Builder, Constant}};
/// let mut builder = Builder::create(&path)?;
/// builder.add(b"alice", b"1000")?;
/// builder.add(b"bob", b"1001")?;
/// builder.finish()?;
///
/// let users = Constant::open(&path)?;
/// assert_eq!(users.get(b"bob")?.as_deref(), Some(&b"1001"[..]));
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Constant {
    snapshot: Arc<Snapshot>,
    /// What counts and records operations, if that is asked for: here, where asking for it is one test.
    recorder: Option<Arc<Recorder>>,
    shared: Arc<Shared>,
}

/// What the clones of a handle have in common.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// The same, whatever folder the program has gone to since.
    whole_path: PathBuf,
    options: OpenOptions,
    /// Locked while the file is opened, and copied perhaps: so many clones that refresh at once copy it once.
    newest: OwnLock<Arc<Snapshot>>,
}

/// One generation of the file.
#[derive(Debug)]
struct Snapshot {
    layout: Layout,
    /// The whole file, or nothing with [`Access::Read`]: what is read from then is `file`.
    map: Map,
    file: Option<File>,
    /// Stays this file's alone as long as the snapshot lives: `map` or `file` has it open.
    id: FileId,
}

/// Where the bytes of a snapshot are.
enum Data<'a> {
    Memory(&'a Map),
    File(&'a File),
}

impl Snapshot {
    fn open(path: &Path, options: &OpenOptions) -> Result<Snapshot> {
        let (file, meta) = open_regular(path)?;
        Snapshot::of(file, FileId::of(&meta), meta.len(), options).map_err(|e| e.at(path))
    }

    fn of(file: File, id: FileId, len: u64, options: &OpenOptions) -> Result<Snapshot> {
        let mut first = [0; HEADER_BYTES];
        let head = first.get_mut(..len.min(HEADER_BYTES as u64) as usize).unwrap_or_default();
        read_exact_at(&file, head, 0)?;
        let layout = Layout::decode(head, len)?;
        let (map, file) = match options.access.to(&file)? {
            Access::Map => (Map::of_file(&file, len)?, None),
            Access::Memory => (Map::copy_of(&file, len)?, Some(file)),
            Access::Read => (Map::nothing(), Some(file)),
        };
        if let Some(advice) = options.advice {
            map.advise(advice)?;
        }
        // A part of the file that every lookup reads, a hundredth, or an eighth of small records' with
        // rows: let it come at once, so that a lookup in a cold file waits for one page only.
        let directory = layout.header.directory;
        let (at, len) = match options.advice {
            Some(Advice::Random) if len <= SMALL_FILE_BYTES => (0, len),
            _ => (directory.at, directory.len.min(AHEAD_BYTES)),
        };
        map.will_need(at, len as usize);
        Ok(Snapshot { layout, map, file, id })
    }

    fn data(&self) -> Data<'_> {
        match &self.file {
            Some(file) if self.map.bytes().is_empty() => Data::File(file),
            _ => Data::Memory(&self.map),
        }
    }

    fn pread<'a>(&'a self, file: &'a File) -> Pread<'a> {
        Pread { file, len: self.layout.header.file_len() }
    }
}

impl Constant {
    /// Opens the file at `path` with the default options.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Constant> {
        OpenOptions::new().open(path)
    }

    /// Options to open a file with.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Reads the newest file from now on, if the path, as it was when it was opened, leads to another than before; returns
    /// whether it does. Costs one `stat`. Replacement is noticed by the file's identity, not by
    /// its time, so that one within the same second is seen, too. Other clones, and lookups in
    /// flight on them, go on with their own file until they refresh.
    ///
    /// # Errors
    /// The new file is missing or cannot be read: this handle then goes on with the old one.
    pub fn refresh(&mut self) -> Result<bool> {
        let path = &self.shared.whole_path;
        let meta = std::fs::metadata(path).map_err(|e| Error::io("look at", e).at(path))?;
        if FileId::of(&meta) == self.snapshot.id {
            return Ok(false);
        }
        let open = || Snapshot::open(path, &self.shared.options).map(Arc::new);
        let newest = match self.shared.newest.lock() {
            Some(newest) if newest.id == FileId::of(&meta) => Arc::clone(&newest),
            Some(mut newest) => {
                *newest = open()?;
                Arc::clone(&newest)
            }
            // A forked process while another thread refreshes, of its parent perhaps: it has the file to itself.
            None => open()?,
        };
        let changed = newest.id != self.snapshot.id;
        self.snapshot = newest;
        Ok(changed)
    }

    /// Every record, the values of one key in the order in which they were added. After an error
    /// the iterator ends. [`Scan::scan`] is faster. `for record in &store` is the same.
    pub fn iter(&self) -> Iter<'_> {
        let snapshot = &*self.snapshot;
        let scanner = Scanner::new(&snapshot.layout.header, snapshot.layout.index.shape);
        match snapshot.data() {
            Data::Memory(map) => Iter::of_memory(scanner, Memory(map.bytes())),
            Data::File(file) => Iter::of_file(scanner, snapshot.pread(file)),
        }
        .named(self.path(), self.recorder.as_deref())
    }

    /// What was done with this handle and its clones so far, and how long it took; where
    /// statistics are shared, by all processes together. `None` if it was opened without.
    /// Of a scan that its callback ended only that is known: it has failed, with no records.
    pub fn operations(&self) -> Option<Operations> {
        self.recorder.as_ref()?.operations()
    }

    /// What is in the file; reads the head of every bucket.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub fn stats(&self) -> Result<Stats> {
        let Layout { header, index } = &self.snapshot.layout;
        let stats = match self.snapshot.data() {
            Data::Memory(map) => Stats::read(header, index, &Memory(map.bytes())),
            Data::File(file) => Stats::read(header, index, &self.snapshot.pread(file)),
        };
        stats.map_err(|e| e.at(self.path()))
    }

    /// Checks every byte; `progress` is called with bytes done and bytes to do.
    ///
    /// # Errors
    /// The file is damaged: the error names the place.
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        let Layout { header, index } = &self.snapshot.layout;
        let done = match self.snapshot.data() {
            Data::Memory(map) => verify(header, index, &Memory(map.bytes()), &mut progress),
            Data::File(file) => verify(header, index, &self.snapshot.pread(file), &mut progress),
        };
        done.map_err(|e| e.at(self.path()))
    }

    /// Reads the whole file into memory and returns when it is there. On Linux from 6.1 on, the pages of one of 32 MiB and more
    /// in memory (tmpfs) become huge ones where the kernel can do that: for all who have the file mapped, lookups took up to a fifth
    /// less time then. That takes another 0.1 to 5 ms for 2 MiB. Who had these pages locked
    /// in memory has them so again when he has touched them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn preload(&self) -> Result<()> {
        match self.snapshot.data() {
            Data::Memory(map) => map.preload().map_err(|e| e.at(self.path())),
            Data::File(file) => self.snapshot.pread(file).preload().map_err(|e| e.at(self.path())),
        }
    }

    /// Tells the kernel about coming accesses; nothing to tell for [`Access::Read`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        match self.snapshot.data() {
            Data::Memory(map) => map.advise(advice).map_err(|e| e.at(self.path())),
            Data::File(_) => Ok(()),
        }
    }

    /// How much of the file is in memory.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn residency(&self) -> Result<Residency> {
        let found = match self.snapshot.data() {
            Data::Memory(map) => map.residency(),
            Data::File(file) => Map::of_file(file, self.snapshot.layout.header.file_len())
                .and_then(|map| map.residency()),
        };
        found.map_err(|e| e.at(self.path()))
    }

    /// Keeps the file in memory as long as this generation of it is open.
    ///
    /// # Errors
    /// The limit of locked memory (`ulimit -l`) is too low, or the file is opened with
    /// [`Access::Read`], which has no memory to lock.
    pub fn lock_in_memory(&self) -> Result<()> {
        let locked = match self.snapshot.data() {
            Data::Memory(map) => map.lock(),
            Data::File(_) => Err(Error::invalid(
                "a store opened with Access::Read has no memory to lock, nor has a file in memory that has holes; \
                 open it with Access::Map, or a copy without holes",
            )),
        };
        locked.map_err(|e| e.at(self.path()))
    }

    /// What a lookup finds that is not the common case. The error comes by a way of its own, for
    /// the reason that [`super::fast`] gives.
    #[cold]
    #[inline(never)]
    fn get_slowly(&self, key: &[u8], error: &mut Option<Error>) -> Option<Bytes<'_>> {
        let found = match &self.recorder {
            None => self.find(key),
            Some(recorder) => {
                let done = |value: &Option<Bytes<'_>>| Done::found(value.as_ref().map(|v| v.len()));
                recorder.observe(Operation::Get, Some(key), || self.find(key), done)
            }
        };
        found.unwrap_or_else(|e| {
            *error = Some(e.at(self.path()));
            None
        })
    }

    /// The first look of a lookup that is counted; what is unclear is not counted yet.
    #[inline(never)]
    fn first_counted(&self, recorder: &Recorder, key: &[u8]) -> First<'_> {
        let Some(own) = recorder.own(Operation::Get) else {
            return self.first_observed(recorder, key);
        };
        let first = self.first_look(key);
        if let Some(done) = first.done() {
            recorder.count_own(own, Operation::Get, done);
        }
        first
    }

    /// The same of one that is timed, or recorded.
    #[cold]
    #[inline(never)]
    fn first_observed(&self, recorder: &Recorder, key: &[u8]) -> First<'_> {
        let started = recorder.begin(Operation::Get);
        let first = self.first_look(key);
        if let Some(done) = first.done() {
            recorder.finish(started, Some(key), done);
        }
        first
    }

    #[inline(always)]
    fn first_look(&self, key: &[u8]) -> First<'_> {
        let snapshot = &*self.snapshot;
        snapshot.layout.index.first_look(snapshot.map.bytes(), key)
    }

    /// The first value of `key`, in whatever case.
    fn find(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let index = &self.snapshot.layout.index;
        match self.snapshot.data() {
            Data::Memory(map) => {
                index.find(&Memory(map.bytes()), key).map(|found| found.map(Cow::Borrowed))
            }
            Data::File(file) => {
                index.find(&self.snapshot.pread(file), key).map(|found| found.map(Cow::Owned))
            }
        }
    }

    /// Every value of `key`, not counted.
    fn find_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        let index = &self.snapshot.layout.index;
        let all = match self.snapshot.data() {
            Data::Memory(map) => index.find_all(&Memory(map.bytes()), key).and_then(borrowed),
            Data::File(file) => {
                let all = index.find_all(&self.snapshot.pread(file), key);
                all.map(|all| all.into_iter().map(Cow::Owned).collect())
            }
        };
        all.map_err(|e| e.at(self.path()))
    }

    /// The first value of each key, not counted.
    #[inline]
    fn find_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let index = &self.snapshot.layout.index;
        let done = match self.snapshot.data() {
            Data::Memory(map)
                if self.shared.options.advice == Some(Advice::Random)
                    && map.bytes().len() as u64 > SMALL_FILE_BYTES =>
            {
                self.get_many_cold(map, keys, &mut f)
            }
            Data::Memory(map) => index.find_many(map.bytes(), keys, &mut f),
            Data::File(file) => keys.iter().enumerate().try_for_each(|(i, key)| {
                let value = index.find(&self.snapshot.pread(file), key.as_ref())?;
                f(i, value.as_deref());
                Ok(())
            }),
        };
        done.map_err(|e| e.at(self.path()))
    }

    /// Every record, not counted.
    #[inline]
    fn scan_all(&self, mut f: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let Layout { header, index } = &self.snapshot.layout;
        let scanner = Scanner::new(header, index.shape);
        // What `f` says is not this file's.
        let mut has_stopped = false;
        let f = |key: &[u8], value: &[u8]| f(key, value).inspect_err(|_| has_stopped = true);
        let done = match self.snapshot.data() {
            Data::Memory(map) => scanner.scan(&Memory(map.bytes()), f),
            Data::File(file) => scanner.scan(&self.snapshot.pread(file), f),
        };
        done.map_err(|e| if has_stopped { e } else { e.at(self.path()) })
    }

    /// `get_many` for a file that is not in memory: the kernel is told of the pages of many keys
    /// before the first of them is waited for.
    fn get_many_cold<K: AsRef<[u8]>>(
        &self,
        map: &Map,
        keys: &[K],
        f: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let index: &Index = &self.snapshot.layout.index;
        let data = map.bytes();
        for (batch, base) in keys.chunks(COLD_BATCH).zip((0..).step_by(COLD_BATCH)) {
            let hashes: Vec<u64> = batch.iter().map(|key| index.hash(key.as_ref())).collect();
            for hash in &hashes {
                // A damaged place is for the lookup to complain about.
                if let Ok(place) = index.place(&Memory(data), *hash) {
                    map.will_need(place.at, place.len);
                }
            }
            for hash in hashes {
                if let Some(at) = index.expected_record(data, hash) {
                    map.will_need(at, 4096);
                }
            }
            index.find_many(data, batch, &mut |i, value| f(base + i, value))?;
        }
        Ok(())
    }
}

impl Get for Constant {
    #[inline(always)]
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let first = match &self.recorder {
            None => self.first_look(key),
            Some(recorder) => self.first_counted(recorder, key),
        };
        match first {
            First::Found(value) => Ok(Some(Cow::Borrowed(value))),
            First::Absent => Ok(None),
            First::Unclear => {
                let mut error = None;
                let found = self.get_slowly(key, &mut error);
                match (error, found) {
                    (Some(error), _) => Err(error),
                    (None, Some(Cow::Borrowed(value))) => Ok(Some(Cow::Borrowed(value))),
                    (None, Some(Cow::Owned(value))) => Ok(Some(Cow::Owned(value))),
                    (None, None) => Ok(None),
                }
            }
        }
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        let Some(recorder) = &self.recorder else { return self.find_all(key) };
        let done = |all: &Vec<Bytes<'_>>| {
            let bytes = all.iter().map(|value| value.len()).sum();
            Done::found((!all.is_empty()).then_some(bytes))
        };
        recorder.observe(Operation::GetAll, Some(key), || self.find_all(key), done)
    }

    fn get_many<K, F>(&self, keys: &[K], mut f: F) -> Result<()>
    where
        K: AsRef<[u8]>,
        F: FnMut(usize, Option<&[u8]>),
    {
        let Some(recorder) = &self.recorder else { return self.find_many(keys, f) };
        recorder.observe_many(Operation::GetMany, None, |moved| {
            self.find_many(keys, |i, value| {
                recorder.looked_up(moved, keys[i].as_ref(), value);
                f(i, value);
            })
        })
    }
}

impl Scan for Constant {
    fn scan<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        let Some(recorder) = &self.recorder else { return self.scan_all(f) };
        recorder.observe_many(Operation::Scan, None, |moved| {
            self.scan_all(f)?;
            // Counting each record would take as long as a quarter of reading it.
            let header = &self.snapshot.layout.header;
            moved.items = header.records;
            moved.bytes = header.key_bytes.saturating_add(header.value_bytes);
            Ok(())
        })
    }

    fn scan_checked<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        self.verify(|_, _| {})?;
        self.scan(f)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.snapshot.layout.header.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constant::Builder;

    /// Whoever has several stores open wants to know which of them it was.
    #[test]
    fn an_error_of_a_scan_names_the_file_and_what_its_caller_says_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let mut builder = Builder::create(&path).unwrap();
        builder.add(b"key", b"value").unwrap();
        builder.finish().unwrap();
        let mut store = Constant::options().access(Access::Read).open(&path).unwrap();

        let theirs = store.scan(|_, _| Err(Error::corrupt(1, "another file")));
        assert_eq!(theirs.unwrap_err().path(), None);

        // Opened so, nothing can be read.
        let file = Some(File::options().append(true).open(&path).unwrap());
        let Snapshot { layout, id, .. } = *store.snapshot;
        store.snapshot = Arc::new(Snapshot { layout, map: Map::nothing(), file, id });
        let scan = store.scan(|_, _| Ok(())).unwrap_err();
        let iter = store.iter().next().unwrap().unwrap_err();
        let errors = [scan, iter, store.verify(|_, _| ()).unwrap_err(), store.stats().unwrap_err()];
        for error in errors.into_iter().chain([store.get(b"key").unwrap_err()]) {
            assert_eq!(error.path(), Some(&*path), "{error}");
        }
    }
}
