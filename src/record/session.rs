//! A recording as one process takes part in it: the file, and the buffers of its threads.
//!
//! The file is opened for each block, by the path that it had: a program may change its folder, close
//! every descriptor, or fork, and another file that came to that path meanwhile is recognised by its
//! number and left alone. A process that was forked has a session of its own, which begins with the
//! first operation there; what the buffers hold that came with the fork is its parent's.

use super::entry::{KeyRef, Written};
use super::format::{
    BLOCK_HEAD_BYTES, BlockHead, Content, Fixed, HEAD_BYTES, MAX_KEY, STATE_AT, State, Stopped,
    put_varint,
};
use crate::os::process;
use crate::{Error, Result};
use siphasher::sip128::SipHasher24;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::UNIX_EPOCH;

/// A buffer goes to the file when it has so many bytes, or is so old.
const BUFFER_BYTES: usize = 64 << 10;
const BUFFER_NS: u64 = 1_000_000_000;

/// What hashes keys.
pub(super) type Secret = (u64, u64);

/// A recording, in one process.
#[derive(Debug)]
pub(super) struct Session {
    path: PathBuf,
    fixed: Fixed,
    secret: Secret,
    /// The process that this is of.
    pid: u32,
    /// Whether nothing is recorded any more.
    is_over: AtomicBool,
    threads: AtomicU32,
    buffers: Mutex<Vec<Weak<Mutex<Buffer>>>>,
    /// That of this process, where it was forked by the one that this is of.
    after_fork: OnceLock<Arc<Session>>,
}

/// Entries of one thread that are not in the file yet.
#[derive(Debug)]
struct Buffer {
    thread: u32,
    count: u32,
    /// The times of the first entry and of the last.
    first: u64,
    last: u64,
    body: Vec<u8>,
}

/// A thread's buffer, in the session that it last recorded in.
struct Mine {
    session: Arc<Session>,
    buffer: Arc<Mutex<Buffer>>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        // The thread ends. Of a parent's session nothing is touched: its locks are as the fork found
        // them.
        if self.session.pid == process::own_pid() {
            self.session.write(&mut lock(&self.buffer));
        }
    }
}

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// What was locked is good also where a thread panicked: nothing in between can.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds since the boot, by the clock of entries.
#[inline]
pub(super) fn now() -> u64 {
    process::monotonic_ns()
}

impl Session {
    /// Makes the trace at `path`, or continues the one that is there if `may_continue`.
    pub(super) fn open(
        path: &Path,
        wanted: (bool, u64),
        secret: Secret,
        may_continue: bool,
    ) -> Result<Session> {
        process::prepare();
        let path = std::path::absolute(path).map_err(|e| Error::io("find", e).at(path))?;
        let fixed = begin(&path, wanted, may_continue).map_err(|e| e.at(&path))?;
        Ok(Session::of(path, fixed, secret))
    }

    fn of(path: PathBuf, fixed: Fixed, secret: Secret) -> Session {
        Session {
            path,
            fixed,
            secret,
            pid: process::own_pid(),
            is_over: AtomicBool::new(false),
            threads: AtomicU32::new(0),
            buffers: Mutex::new(Vec::new()),
            after_fork: OnceLock::new(),
        }
    }

    /// The time of the trace's beginning, by [`now`].
    pub(super) fn begun(&self) -> u64 {
        self.fixed.begun_ns
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The session of this process: another one after a fork.
    fn here(self: &Arc<Session>) -> &Arc<Session> {
        if process::own_pid() == self.pid {
            return self;
        }
        let new = || {
            let session = Session::of(self.path.clone(), self.fixed, self.secret);
            session.is_over.store(self.is_over.load(Ordering::Relaxed), Ordering::Relaxed);
            Arc::new(session)
        };
        // One that was forked from a process that was forked finds its own further down.
        self.after_fork.get_or_init(new).here()
    }

    /// Nothing is recorded in this process from here on; what the buffers have goes to the file.
    pub(super) fn end(self: &Arc<Session>) {
        self.flush();
        self.here().is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(self: &Arc<Session>) -> bool {
        self.here().is_over.load(Ordering::Relaxed)
    }

    /// Writes what the buffers of all threads have.
    pub(super) fn flush(self: &Arc<Session>) {
        let session = self.here();
        let buffers: Vec<_> = lock(&session.buffers).iter().filter_map(Weak::upgrade).collect();
        buffers.iter().for_each(|buffer| session.write(&mut lock(buffer)));
    }

    /// Gives a store or a table of one a number, and says so in the trace. 0 if that cannot be written.
    pub(super) fn define(self: &Arc<Session>, engine: &str, path: &Path, table: &str) -> u32 {
        use std::os::unix::ffi::OsStrExt;
        let session = self.here();
        let path = match path.as_os_str().is_empty() {
            true => PathBuf::new(),
            false => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        };
        let since = now().saturating_sub(session.fixed.begun_ns);
        session.append(|state| {
            state.stores = state.stores.saturating_add(1);
            let mut body = Vec::new();
            put_varint(&mut body, state.stores.into());
            for part in [engine.as_bytes(), path.as_os_str().as_bytes(), table.as_bytes()] {
                put_varint(&mut body, part.len() as u64);
                body.extend_from_slice(part);
            }
            let head = BlockHead {
                content: Content::Store,
                len: 0,
                count: 1,
                process: session.pid,
                thread: 0,
                time: since,
                sum: 0,
            };
            (head.block(&body), state.stores)
        })
    }

    /// Records an entry; `begun` is when the operation did, by [`now`].
    pub(super) fn record(self: &Arc<Session>, begun: u64, key: Option<&[u8]>, entry: Written<'_>) {
        let session = self.here();
        if session.is_over.load(Ordering::Relaxed) {
            return;
        }
        let time = begun.saturating_sub(session.fixed.begun_ns);
        let entry = Written { time, key: session.key(key), ..entry };
        // A thread that is ending, or that is here already, has no buffer.
        let _ = MINE.try_with(|mine| {
            let Ok(mut mine) = mine.try_borrow_mut() else { return };
            let is_here = |mine: &Mine| Arc::ptr_eq(&mine.session, session);
            let mine = match mine.take().filter(is_here) {
                Some(known) => mine.insert(known),
                None => mine.insert(session.new_buffer()),
            };
            let mut buffer = lock(&mine.buffer);
            buffer.add(&entry);
            let is_old = time.saturating_sub(buffer.first) >= BUFFER_NS;
            if is_old || buffer.body.len() >= BUFFER_BYTES {
                session.write(&mut buffer);
            }
        });
    }

    fn key<'k>(&self, key: Option<&'k [u8]>) -> KeyRef<'k> {
        match key {
            None => KeyRef::None,
            Some(key) if !self.fixed.is_hashed && key.len() <= MAX_KEY => KeyRef::Plain(key),
            Some(key) => {
                let hasher = SipHasher24::new_with_keys(self.secret.0, self.secret.1);
                KeyRef::Hashed { hash: hasher.hash(key).as_u128(), len: key.len() as u64 }
            }
        }
    }

    fn new_buffer(self: &Arc<Session>) -> Mine {
        let thread = self.threads.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let body = Vec::new();
        let buffer = Arc::new(Mutex::new(Buffer { thread, count: 0, first: 0, last: 0, body }));
        let mut buffers = lock(&self.buffers);
        buffers.retain(|buffer| buffer.strong_count() > 0);
        buffers.push(Arc::downgrade(&buffer));
        Mine { session: Arc::clone(self), buffer }
    }

    /// Writes what a buffer has, and empties it.
    fn write(&self, buffer: &mut Buffer) {
        if buffer.count > 0 && !self.is_over.load(Ordering::Relaxed) {
            let head = BlockHead {
                content: Content::Entries,
                len: 0,
                count: buffer.count,
                process: self.pid,
                thread: buffer.thread,
                time: buffer.first,
                sum: 0,
            };
            let block = head.block(&buffer.body);
            self.append(|state| {
                state.entries += u64::from(buffer.count);
                (block, 0)
            });
        }
        buffer.count = 0;
        buffer.body.clear();
    }

    /// Appends the block that `make` makes of the state; gives what it says besides. Where that fails,
    /// the recording is over, and 0 is given.
    fn append(&self, make: impl FnOnce(&mut State) -> (Vec<u8>, u32)) -> u32 {
        if self.is_over.load(Ordering::Relaxed) {
            return 0;
        }
        let given = self.try_append(make).ok().flatten();
        if given.is_none() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        given.unwrap_or(0)
    }

    fn try_append(&self, make: impl FnOnce(&mut State) -> (Vec<u8>, u32)) -> Result<Option<u32>> {
        let file = open(&self.path, false)?;
        lock_file(&file)?;
        let (fixed, mut state) = read_head(&file)?;
        if fixed != self.fixed || state.stopped.is_some() {
            return Ok(None);
        }
        let before = state;
        let (block, given) = make(&mut state);
        let since = now().saturating_sub(fixed.begun_ns);
        let end = before.end.saturating_add(block.len() as u64);
        let why = if end > fixed.limit {
            Some(Stopped::Limit)
        } else if end > process::longest_file() {
            Some(Stopped::NoSpace)
        } else {
            file.write_all_at(&block, before.end).err().map(|e| why_failed(&e))
        };
        let state = match why {
            None => State { end, blocks: before.blocks + 1, ..state },
            Some(why) => State { stopped: Some((why, since)), ..before },
        };
        // In place: it needs no room.
        let written = file.write_all_at(&state.to_bytes(), STATE_AT);
        written.map_err(|e| Error::io("write", e))?;
        Ok(why.is_none().then_some(given))
    }
}

impl Buffer {
    fn add(&mut self, entry: &Written<'_>) {
        if self.count == 0 {
            (self.first, self.last) = (entry.time, entry.time);
            self.body.reserve(BUFFER_BYTES + MAX_KEY + BLOCK_HEAD_BYTES);
        }
        entry.put(self.last, &mut self.body);
        self.last = entry.time;
        self.count += 1;
    }
}

fn why_failed(error: &io::Error) -> Stopped {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Stopped::NoSpace
        }
        _ => Stopped::Failed(error.raw_os_error().map_or(0, i32::cast_unsigned)),
    }
}

/// Opens a trace to add to it, or makes the file; never through a symbolic link to elsewhere.
fn open(path: &Path, is_new_wanted: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    // Keys are nobody else's business.
    options.read(true).write(true).create(is_new_wanted).mode(0o600);
    options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOFOLLOW);
    let file = options.open(path).map_err(|e| Error::io("open or create", e))?;
    let meta = file.metadata().map_err(|e| Error::io("ask the size of", e))?;
    match meta.is_file() {
        true => Ok(file),
        false => Err(Error::invalid("this is no regular file: name another one to record to")),
    }
}

fn lock_file(file: &File) -> Result<()> {
    loop {
        match file.lock() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked.map_err(|e| Error::io("lock", e)),
        }
    }
}

fn read_head(file: &File) -> Result<(Fixed, State)> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let mut reader = io::Read::take(file, HEAD_BYTES as u64);
    io::Read::read_to_end(&mut reader, &mut head).map_err(|e| Error::io("read", e))?;
    Ok((Fixed::read(&head)?, State::read(&head)?))
}

/// Makes the trace at `path`, or looks whether the one that is there can be continued.
fn begin(path: &Path, (is_hashed, limit): (bool, u64), may_continue: bool) -> Result<Fixed> {
    let was_there = path.symlink_metadata().is_ok();
    let file = open(path, true)?;
    lock_file(&file)?;
    let len = file.metadata().map_err(|e| Error::io("ask the size of", e))?.len();
    let (boot, _) = process::boot_and_namespace();
    if len > 0 {
        if !may_continue {
            return Err(Error::invalid("this file is there already: name another, or remove it"));
        }
        let (fixed, _) = read_head(&file)?;
        let trouble = if fixed.boot != boot {
            "this trace is of before the machine was started: name another, or remove it"
        } else if fixed.is_hashed != is_hashed {
            "the keys of this trace are hashed, or are not, other than is asked for: name another file"
        } else {
            return Ok(fixed);
        };
        return Err(Error::invalid(trouble));
    }
    let begun_at = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let (id, begun_ns) = (process::random_id()?, now());
    let fixed = Fixed { is_hashed, id, begun_at, begun_ns, boot, limit };
    match write_head(&file, &fixed) {
        Ok(()) => Ok(fixed),
        Err(e) => {
            // A file without its head is no trace: it would be in the way of the next one. Not if it was
            // somebody's, or is the trace of another by now.
            if !was_there && is_at(&file, path) {
                let _ = std::fs::remove_file(path);
            }
            Err(e)
        }
    }
}

/// Whether the file has this name.
fn is_at(file: &File, path: &Path) -> bool {
    let of = |file: std::fs::Metadata| (file.dev(), file.ino());
    let [file, named] = [file.metadata(), path.symlink_metadata()].map(|found| found.ok().map(of));
    file.is_some() && file == named
}

fn write_head(file: &File, fixed: &Fixed) -> Result<()> {
    let head = [&fixed.to_bytes()[..], &State::NEW.to_bytes()[..]].concat();
    if fixed.limit < head.len() as u64 {
        let (limit, least) = (fixed.limit, head.len());
        let what = format!(
            "a trace has {least} bytes before its first entry, and is to have {limit} at most: allow \
             it more"
        );
        return Err(Error::invalid(what));
    }
    if process::longest_file() < head.len() as u64 {
        return Err(Error::invalid("the limit on the size of files leaves no room for a trace"));
    }
    file.write_all_at(&head, 0).map_err(|e| Error::io("write", e))
}
