//! A recording as one process takes part in it: the file, and the buffers of its threads.
//!
//! The file is opened for each block, by the path that it had: a program may change its folder, close
//! every descriptor, or fork, and another file that came to that path meanwhile is recognised by its
//! number and left alone. A process that was forked has a session of its own, which begins with the
//! first operation there; what the buffers hold that came with the fork is its parent's.
//!
//! Nobody waits for the file's lock while a store is used: what others do not let in stays in the buffer
//! until they do. Only when that is full, where a store is opened or closed or a table of it used for the first
//! time, and where a thread or the process ends, is the lock waited for, and not for long: then the recording is
//! over in this process, and its end is told in the trace when a store is closed, or the process ends, if the lock
//! can be had then.
//!
//! Order of locks: the file's, then a buffer's, which is held for no longer than memory takes.

use super::entry::{KeyRef, Written};
use super::format::{
    BLOCK_HEAD_BYTES, BlockHead, Content, Fixed, MAX_BODY, MAX_KEY, STATE_AT, State, Stopped,
    put_varint,
};
use super::trace::read_head;
use crate::error::is_no_room;
use crate::os::file::{is_same, lock_within, open_or_make};
use crate::os::process;
use crate::{Error, Result};
use once_cell::race::OnceBox;
use siphasher::sip128::SipHasher24;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::UNIX_EPOCH;

/// A buffer goes to the file when it has so many bytes, or is so old.
const BUFFER_BYTES: usize = 64 << 10;
const BUFFER_NS: u64 = 1_000_000_000;
/// Where others have the lock then, it is tried again when there are so many bytes more.
const AGAIN_BYTES: usize = 4 << 10;
/// No buffer has more bytes than go into a block: another entry, with whatever key, must have room.
const FULL_BYTES: usize = MAX_BODY as usize - 2 * MAX_KEY;

/// Attempts to get the lock where it is waited for.
const ATTEMPTS: u32 = 1000;

/// What hashes keys.
pub(super) type Secret = (u64, u64);

/// What a recording is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) is_hashed: bool,
    /// Bytes that the file may have; none where nobody has said it.
    pub(super) limit: Option<u64>,
    /// None where nobody has named one.
    pub(super) secret: Option<Secret>,
}

/// Bytes that a trace may have unless it is said otherwise.
pub(super) const LIMIT: u64 = 1 << 30;

/// A recording, in one process.
#[derive(Debug)]
pub(super) struct Session {
    path: PathBuf,
    fixed: Fixed,
    secret: Secret,
    /// The process that this is of, and what [`process::forks`] is there.
    pid: u32,
    forks: u32,
    /// Whether nothing is recorded any more.
    is_over: AtomicBool,
    /// When that was, where it was for the lock, and the trace does not tell it yet; else 0.
    gave_up: AtomicU64,
    threads: AtomicU32,
    buffers: Mutex<Vec<Weak<Mutex<Buffer>>>>,
    /// That of this process, where it was forked by the one that this is of.
    after_fork: OnceBox<Arc<Session>>,
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
    /// It is to be written when it has so many bytes,
    due_bytes: usize,
    /// or an entry is so late.
    due: u64,
}

/// A thread's buffer, in the session that it last recorded in.
#[derive(Debug)]
pub(super) struct Mine {
    session: Arc<Session>,
    buffer: Arc<Mutex<Buffer>>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        // The thread ends. Of a parent's session nothing is touched: its locks are as the fork found
        // them.
        if self.session.forks == process::forks() {
            self.session.write(&self.buffer, Wait::Shortly);
        }
    }
}

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// Whether others who have the lock of the file are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    No,
    Shortly,
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
    pub(super) fn open(path: &Path, wanted: Wanted, may_continue: bool) -> Result<Session> {
        process::prepare();
        let path = std::path::absolute(path).map_err(|e| Error::io("find", e).at(path))?;
        let (fixed, secret) = begin(&path, &wanted, may_continue).map_err(|e| e.at(&path))?;
        Ok(Session::of(path, fixed, secret))
    }

    fn of(path: PathBuf, fixed: Fixed, secret: Secret) -> Session {
        Session {
            path,
            fixed,
            secret,
            pid: process::own_pid(),
            forks: process::forks(),
            is_over: AtomicBool::new(false),
            gave_up: AtomicU64::new(0),
            threads: AtomicU32::new(0),
            buffers: Mutex::new(Vec::new()),
            after_fork: OnceBox::new(),
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
        if process::forks() == self.forks {
            return self;
        }
        let new = || {
            let session = Session::of(self.path.clone(), self.fixed, self.secret);
            session.is_over.store(self.is_over.load(Ordering::Relaxed), Ordering::Relaxed);
            Box::new(Arc::new(session))
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

    /// Why nothing is recorded any more, where that is not in the trace.
    pub(super) fn untold(self: &Arc<Session>) -> Option<Stopped> {
        let is_untold = self.here().gave_up.load(Ordering::Relaxed) > 0;
        is_untold.then_some(Stopped::Locked)
    }

    /// Writes what the buffers of all threads have.
    pub(super) fn flush(self: &Arc<Session>) {
        let session = self.here();
        let buffers: Vec<_> = lock(&session.buffers).iter().filter_map(Weak::upgrade).collect();
        buffers.iter().for_each(|buffer| session.write(buffer, Wait::Shortly));
        session.tell();
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
        let given = session.append(Wait::Shortly, |state| {
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
            Some((head.block(&body), state.stores))
        });
        given.unwrap_or(0)
    }

    /// Records an entry; `begun` is when the operation did, by [`now`].
    pub(super) fn record(self: &Arc<Session>, begun: u64, key: Option<&[u8]>, entry: Written<'_>) {
        let session = self.here();
        if session.is_over.load(Ordering::Relaxed) {
            return;
        }
        // A thread that is ending, or that is here already, has no buffer.
        let _ = MINE.try_with(|mine| {
            let Ok(mut mine) = mine.try_borrow_mut() else { return };
            session.put(&mut mine, begun, key, entry);
        });
    }

    /// Records an entry of what has a buffer of its own, and so counts as a thread, whichever threads do it.
    pub(super) fn record_apart(
        self: &Arc<Session>,
        own: &mut Option<Mine>,
        begun: u64,
        key: Option<&[u8]>,
        entry: Written<'_>,
    ) {
        let session = self.here();
        if !session.is_over.load(Ordering::Relaxed) {
            session.put(own, begun, key, entry);
        }
    }

    /// Puts an entry in this buffer, or in a new one if it is of another session.
    fn put(
        self: &Arc<Session>,
        mine: &mut Option<Mine>,
        begun: u64,
        key: Option<&[u8]>,
        entry: Written<'_>,
    ) {
        let time = begun.saturating_sub(self.fixed.begun_ns);
        let entry = Written { time, key: self.key(key), ..entry };
        let is_here = |mine: &Mine| Arc::ptr_eq(&mine.session, self);
        let mine = match mine.take().filter(is_here) {
            Some(known) => mine.insert(known),
            None => mine.insert(self.new_buffer()),
        };
        let mut buffer = lock(&mine.buffer);
        buffer.add(&entry);
        let wait = if buffer.body.len() >= FULL_BYTES {
            Wait::Shortly
        } else if time >= buffer.due || buffer.body.len() >= buffer.due_bytes {
            Wait::No
        } else {
            return;
        };
        drop(buffer);
        self.write(&mine.buffer, wait);
    }

    fn key<'k>(&self, key: Option<&'k [u8]>) -> KeyRef<'k> {
        match key {
            None => KeyRef::None,
            Some(key) if !self.fixed.is_hashed && key.len() <= MAX_KEY => KeyRef::Plain(key),
            Some(key) => KeyRef::Hashed { hash: hash_of(self.secret, key), len: key.len() as u64 },
        }
    }

    fn new_buffer(self: &Arc<Session>) -> Mine {
        let thread = self.threads.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let empty =
            Buffer { thread, count: 0, first: 0, last: 0, body: Vec::new(), due_bytes: 0, due: 0 };
        let buffer = Arc::new(Mutex::new(empty));
        let mut buffers = lock(&self.buffers);
        buffers.retain(|buffer| buffer.strong_count() > 0);
        buffers.push(Arc::downgrade(&buffer));
        Mine { session: Arc::clone(self), buffer }
    }

    /// Writes what a buffer has, and empties it; or keeps it, where others have the file's lock and are not to be
    /// waited for. That lock is taken before the buffer's: whose buffer it is waits for nobody's file.
    fn write(&self, buffer: &Mutex<Buffer>, wait: Wait) {
        if lock(buffer).count == 0 {
            return;
        }
        let written = self.append(wait, |state| {
            let mut buffer = lock(buffer);
            state.entries += u64::from(buffer.count);
            let head = BlockHead {
                content: Content::Entries,
                len: 0,
                count: buffer.count,
                process: self.pid,
                thread: buffer.thread,
                time: buffer.first,
                sum: 0,
            };
            let block = (buffer.count > 0).then(|| head.block(&buffer.body));
            buffer.empty();
            Some((block?, 0))
        });
        let mut buffer = lock(buffer);
        match written {
            None => {
                buffer.due_bytes = buffer.body.len() + AGAIN_BYTES;
                buffer.due = buffer.last.saturating_add(BUFFER_NS);
            }
            // Nothing is written any more.
            Some(_) if self.is_over.load(Ordering::Relaxed) => buffer.empty(),
            Some(_) => {}
        }
    }

    /// Appends the block that `make` makes of the state, if any; gives what it says besides. Where that fails,
    /// the recording is over, and 0 is given; `None` where others have the lock and are not waited for.
    fn append(
        &self,
        wait: Wait,
        make: impl FnOnce(&mut State) -> Option<(Vec<u8>, u32)>,
    ) -> Option<u32> {
        if self.is_over.load(Ordering::Relaxed) {
            return Some(0);
        }
        match self.with_lock(wait, |file, state| self.append_to(file, state, make)) {
            Ok(None) if wait == Wait::No => return None,
            Ok(None) => {
                let since = now().saturating_sub(self.fixed.begun_ns);
                self.gave_up.store(since.max(1), Ordering::Relaxed);
            }
            Ok(Some(Some(given))) => return Some(given),
            Ok(Some(None)) | Err(_) => {}
        }
        self.is_over.store(true, Ordering::Relaxed);
        Some(0)
    }

    /// Does this with the trace, of which nobody else writes meanwhile, and its state; `None` if others
    /// have the lock.
    fn with_lock<T>(
        &self,
        wait: Wait,
        work: impl FnOnce(&File, State) -> Result<T>,
    ) -> Result<Option<T>> {
        let file = open(&self.path, false)?;
        if !lock_file(&file, wait)? {
            return Ok(None);
        }
        let head = len_of(&file).and_then(|len| read_head(&file, len));
        let done = head.and_then(|(fixed, state)| match fixed == self.fixed {
            true => work(&file, state).map(Some),
            false => Err(Error::invalid("another trace is there by now")),
        });
        // A process that was forked meanwhile has the file open, too, and would keep the lock.
        let _ = file.unlock();
        done
    }

    /// Appends a block to the file, or notes in it why that cannot be: then `None` is given.
    fn append_to(
        &self,
        file: &File,
        before: State,
        make: impl FnOnce(&mut State) -> Option<(Vec<u8>, u32)>,
    ) -> Result<Option<u32>> {
        // That one could not have the lock is no reason for others to stop.
        if before.stopped.is_some_and(|(why, _)| why != Stopped::Locked) {
            return Ok(None);
        }
        let mut state = before;
        let Some((block, given)) = make(&mut state) else { return Ok(Some(0)) };
        let since = now().saturating_sub(self.fixed.begun_ns);
        let end = before.end.saturating_add(block.len() as u64);
        let why = if end > self.fixed.limit {
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
        write_state(file, state)?;
        Ok(why.is_none().then_some(given))
    }

    /// Says in the trace that the recording is over for want of the lock, if that is so, it is not said
    /// yet, and the lock can be had now.
    fn tell(&self) {
        let when = self.gave_up.load(Ordering::Relaxed);
        if when == 0 {
            return;
        }
        let told = self.with_lock(Wait::No, |file, state| match state.stopped {
            None => write_state(file, State { stopped: Some((Stopped::Locked, when)), ..state }),
            Some(_) => Ok(()),
        });
        if !matches!(told, Ok(None)) {
            self.gave_up.store(0, Ordering::Relaxed);
        }
    }
}

impl Buffer {
    fn empty(&mut self) {
        self.count = 0;
        self.body.clear();
    }

    fn add(&mut self, entry: &Written<'_>) {
        if self.count == 0 {
            (self.first, self.last) = (entry.time, entry.time);
            self.body.reserve(BUFFER_BYTES + MAX_KEY + BLOCK_HEAD_BYTES);
            self.due_bytes = BUFFER_BYTES;
            self.due = entry.time.saturating_add(BUFFER_NS);
        }
        entry.put(self.last, &mut self.body);
        self.last = entry.time;
        self.count += 1;
    }
}

fn why_failed(error: &io::Error) -> Stopped {
    if is_no_room(error) {
        return Stopped::NoSpace;
    }
    Stopped::Failed(error.raw_os_error().map_or(0, i32::cast_unsigned))
}

/// Opens a trace to add to it, or makes the file; never through a symbolic link to elsewhere.
fn open(path: &Path, is_new_wanted: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    // Keys are nobody else's business.
    options.read(true).write(true).mode(0o600);
    options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOFOLLOW);
    let opened = if is_new_wanted { open_or_make(&options, path) } else { options.open(path) };
    let file = opened.map_err(|e| Error::io("open or create", e))?;
    let meta = file.metadata().map_err(|e| Error::io("ask the size of", e))?;
    match meta.is_file() {
        true => Ok(file),
        false => Err(Error::invalid("this is no regular file: name another one to record to")),
    }
}

/// Takes the lock of the file; false if others have it.
fn lock_file(file: &File, wait: Wait) -> Result<bool> {
    lock_within(file, if wait == Wait::Shortly { ATTEMPTS } else { 1 })
}

/// Writes how far the trace has come, in place: it needs no room.
fn write_state(file: &File, state: State) -> Result<()> {
    let written = file.write_all_at(&state.to_bytes(), STATE_AT);
    written.map_err(|e| Error::io("write", e))
}

fn len_of(file: &File) -> Result<u64> {
    Ok(file.metadata().map_err(|e| Error::io("ask the size of", e))?.len())
}

/// Makes the trace at `path`, or looks whether the one that is there can be continued.
fn begin(path: &Path, wanted: &Wanted, may_continue: bool) -> Result<(Fixed, Secret)> {
    let was_there = path.symlink_metadata().is_ok();
    let file = open(path, true)?;
    // Who finds a trace needs no lock: what it begins with never changes.
    if len_of(&file)? == 0 && !lock_file(&file, Wait::Shortly)? {
        let what = "another process keeps the lock of this file: name another, or end that process";
        return Err(Error::invalid(what));
    }
    let begun = match len_of(&file)? {
        0 => make(&file, wanted).inspect_err(|_| {
            // A file without its head is no trace: it would be in the way of the next one. Not if it was
            // somebody's, or is the trace of another by now.
            if !was_there && is_same(&file, path.symlink_metadata()) {
                let _ = std::fs::remove_file(path);
            }
        }),
        len if may_continue => take_up(&file, len, wanted),
        _ => Err(Error::invalid("this file is there already: name another, or remove it")),
    };
    // A process that was forked meanwhile would keep it.
    let _ = file.unlock();
    begun
}

/// Writes the head of a new trace.
fn make(file: &File, wanted: &Wanted) -> Result<(Fixed, Secret)> {
    let (is_hashed, limit) = (wanted.is_hashed, wanted.limit.unwrap_or(LIMIT));
    let (boot, _) = process::boot_and_namespace();
    let begun_at = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let (id, begun_ns) = (process::random_id()?, now());
    let secret = match wanted.secret {
        None if is_hashed => (process::random_word()?, process::random_word()?),
        named => named.unwrap_or(secret_of_plain(id)),
    };
    let check = check_of(secret, id);
    let fixed = Fixed { is_hashed, id, begun_at, begun_ns, boot, limit, check };
    write_head(file, &fixed).map(|()| (fixed, secret))
}

/// Looks whether a trace can be continued.
fn take_up(file: &File, len: u64, wanted: &Wanted) -> Result<(Fixed, Secret)> {
    let (boot, _) = process::boot_and_namespace();
    let (fixed, _) = read_head(file, len)?;
    let secret = wanted.secret.unwrap_or(secret_of_plain(fixed.id));
    // Earlier programs noted nothing to compare with, and drew one for each process unless it was named.
    let is_other = match fixed.check {
        0 => wanted.is_hashed && wanted.secret.is_none(),
        check => check != check_of(secret, fixed.id),
    };
    let trouble = if fixed.boot != boot {
        "this trace is of before the machine was started: name another, or remove it"
    } else if fixed.is_hashed != wanted.is_hashed {
        "the keys of this trace are hashed, or are not, other than is asked for: name another file"
    } else if is_other {
        "this trace was begun with another secret, or with one that was drawn and forgotten, and a key \
         would have several hashes: set CREDENZA_RECORD_SECRET to 32 hexadecimal digits, the same for \
         all processes, before a trace is begun that several shall write, or name another file"
    } else if let Some(limit) = wanted.limit.filter(|limit| *limit != fixed.limit) {
        let what = format!(
            "this trace was begun to have {} bytes at most, and {limit} are asked for: ask for as many, or \
             name another file",
            fixed.limit
        );
        return Err(Error::invalid(what));
    } else {
        return Ok((fixed, secret));
    };
    Err(Error::invalid(trouble))
}

/// What keys are hashed with that are only too long, where nobody has named a secret: who has the trace has the
/// other keys as they are, and every process that continues it is to have the same.
fn secret_of_plain(id: u128) -> Secret {
    (id as u64, (id >> 64) as u64)
}

/// By what the secret of a trace with this number is known again.
fn check_of(secret: Secret, id: u128) -> u64 {
    (hash_of(secret, &id.to_le_bytes()) as u64).max(1)
}

fn hash_of((low, high): Secret, bytes: &[u8]) -> u128 {
    SipHasher24::new_with_keys(low, high).hash(bytes).as_u128()
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
