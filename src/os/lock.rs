//! Locks between processes that a killed holder cannot leave locked.
//!
//! [`RobustLock`] is a POSIX mutex in shared memory, robust and checked: the kernel hands it on
//! when its holder dies, at whatever instruction, and says so. [`lock_range`] takes locks of the
//! kernel on a byte of a file, for what happens once an opening.

#![allow(unsafe_code)]

use super::atomic::{AtomicU64, Ordering, pause};
use super::ballast::no_room_for_changes;
use super::file::read_exact_at;
use super::patience::lock_within;
use super::process::{has_moved, moves, process_of};
use super::shared::SharedMap;
use crate::{Error, Result};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Bytes set aside for a lock in a file.
pub(crate) const LOCK_BYTES: u64 = 64;
const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= LOCK_BYTES as usize);

/// How often who finds a lock taken tries again before it sleeps, and for how long it does not look
/// in between: a look takes the lock's line of memory from its holder.
const TRIES: u32 = if cfg!(credenza_schedules) { u32::MAX } else { 64 };
const PAUSES: u32 = 32;
/// How long one sleeps before it is looked whether the holder died.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(100);

/// Where in the first eight bytes the word is that the kernel knows: the first in glibc, and in musl behind the type.
const FUTEX_SHIFT: u32 = if cfg!(target_env = "musl") { 32 } else { 0 };

/// The bits of the kernel's word that say which thread has the lock.
const OWNER: u64 = 0x3fff_ffff;

/// Says which programs agree on what is in those bytes: C library, machine and size.
pub(crate) const LAYOUT: u64 = {
    let libc_id = if cfg!(target_env = "musl") { 2 } else { 1 };
    (libc_id << 32)
        | ((size_of::<usize>() as u64) << 16)
        | size_of::<libc::pthread_mutex_t>() as u64
};

/// A mutex in the head of a shared map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RobustLock<'m> {
    words: &'m [AtomicU64; LOCK_BYTES as usize / 8],
    /// How often the process had moved ([`moves`]) by whose number it may be taken: one that has moved since has another than
    /// those know it by who would wait for it; or has the same, and is another.
    moves: u32,
    /// What it protects could not be changed ([`SharedMap::check_room`]).
    lacks_room: bool,
}

/// How a lock was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// The last holder let it go.
    Released,
    /// The last holder died: what it protects may be half done.
    OwnerDied,
}

impl<'m> RobustLock<'m> {
    /// The lock at an offset in the head of a map that is shared and writable, a multiple of
    /// [`LOCK_BYTES`]; nothing else uses the place.
    #[inline(always)]
    pub(crate) fn in_head(map: &'m SharedMap, offset: u64) -> RobustLock<'m> {
        const WORDS: usize = (LOCK_BYTES / 8) as usize;
        let (lines, _) = map.head().as_chunks::<WORDS>();
        let words = &lines[offset as usize / 8 / WORDS];
        RobustLock { words, moves: moves(), lacks_room: !map.has_room() }
    }

    /// The same for who opened the store when its process had moved so often.
    #[inline(always)]
    pub(crate) fn opened_after(self, moves: u32) -> RobustLock<'m> {
        RobustLock { moves, ..self }
    }

    #[inline(always)]
    fn has_moved(self) -> bool {
        self.moves != moves()
    }

    fn mutex(self) -> *mut libc::pthread_mutex_t {
        self.words.as_ptr().cast_mut().cast()
    }

    /// Makes a new, free lock there; nobody may use the place at the same time.
    pub(crate) fn init(self) -> Result<()> {
        // SAFETY: the attributes are initialised before they are used, and destroyed once; the
        // place is memory for a mutex: large enough, and aligned to eight bytes.
        let rc = unsafe {
            let mut attributes = std::mem::zeroed();
            let _ = libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutexattr_settype(&raw mut attributes, libc::PTHREAD_MUTEX_ERRORCHECK);
            let rc = libc::pthread_mutex_init(self.mutex(), &raw const attributes);
            libc::pthread_mutexattr_destroy(&raw mut attributes);
            rc
        };
        if rc == 0 {
            Ok(())
        } else {
            Err(Error::io("make a lock", io::Error::from_raw_os_error(rc)))
        }
    }

    /// Takes the lock, waiting for it: awake for as long as most holders have it, then asleep. Going
    /// to sleep at once made two processes that write together half as fast as one.
    #[inline]
    pub(crate) fn lock(self) -> Result<Got> {
        self.lock_for(|| None)
    }

    /// The same, waiting no longer than `limit` says, which is asked where somebody has it; `None` is for ever.
    #[inline]
    pub(crate) fn lock_for(self, limit: impl FnOnce() -> Option<Duration>) -> Result<Got> {
        match self.try_lock()? {
            Some(got) => Ok(got),
            None => self.wait(limit()),
        }
    }

    #[cold]
    fn wait(self, limit: Option<Duration>) -> Result<Got> {
        let begun = Instant::now();
        for _ in 0..TRIES {
            (0..PAUSES).for_each(|_| pause());
            if let Some(got) = self.try_lock()? {
                return Ok(got);
            }
        }
        // Never asleep for long: of a process that dies, one thread may have the lock and another may
        // just have been woken for it. Nobody wakes those then who wait in other processes.
        loop {
            let left = limit.map_or(A_MOMENT, |limit| limit.saturating_sub(begun.elapsed()));
            // SAFETY: memory that `init` made a mutex before the store could be opened; what damage
            // made of it since is the C library's to refuse.
            let code = unsafe { lock_within(self.mutex(), left.min(A_MOMENT)) };
            if code != libc::ETIMEDOUT {
                return self.got(code);
            }
            self.bury();
            // What was buried just now is free.
            if left.is_zero() && self.owner() != 0 {
                return Err(Error::busy(begun.elapsed(), self.holder()));
            }
        }
    }

    /// The number of the thread that has it, 0 if none has.
    fn owner(self) -> u64 {
        self.futex() & OWNER
    }

    /// The process whose thread has it, if that can be known.
    fn holder(self) -> Option<u32> {
        u32::try_from(self.owner()).ok().and_then(process_of)
    }

    /// Takes the lock, waiting for it; `None` if this thread has it already.
    #[cold]
    pub(crate) fn lock_unless_own(self) -> Result<Option<Got>> {
        if cfg!(credenza_schedules) {
            // As in `is_own`: what another has looks like one's own.
            return self.wait(None).map(Some);
        }
        self.check()?;
        loop {
            // SAFETY: as for `wait`.
            match unsafe { lock_within(self.mutex(), A_MOMENT) } {
                libc::ETIMEDOUT => self.bury(),
                libc::EDEADLK => return Ok(None),
                code => return self.got(code).map(Some),
            }
        }
    }

    /// Takes the lock if it is free within so long; `None` if not, or if this thread has it already.
    #[cold]
    pub(crate) fn lock_within(self, time: Duration) -> Result<Option<Got>> {
        self.check()?;
        // SAFETY: as for `wait`.
        match unsafe { lock_within(self.mutex(), time) } {
            libc::ETIMEDOUT => {
                self.bury();
                Ok(None)
            }
            libc::EDEADLK => Ok(None),
            code => self.got(code).map(Some),
        }
    }

    /// Marks a lock as the kernel does whose holder ends, if there is no thread of his number: he had it in the file that
    /// this one was copied from, of which the kernel knows nothing. Who opens such a copy alone makes the locks anew; but a
    /// child that somebody forks just then has it open, too, and all seems to be in use.
    #[cold]
    fn bury(self) {
        let word = self.words[0].load(Ordering::Acquire);
        let owner = word >> FUTEX_SHIFT & OWNER;
        // SAFETY: the signal 0 is none: it is only said whether there is such a thread. One that ends has its number until
        // the kernel has marked its locks.
        let is_gone = owner != 0
            && moves() == 0
            && unsafe { libc::kill(owner as libc::pid_t, 0) } != 0
            && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        if is_gone {
            let dead =
                word & !(OWNER << FUTEX_SHIFT) | u64::from(libc::FUTEX_OWNER_DIED) << FUTEX_SHIFT;
            // Unless it has changed since: then there is another holder, or none.
            let _ = self.words[0].compare_exchange(word, dead, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// What the C library says of an attempt to take it.
    #[inline]
    fn got(self, code: i32) -> Result<Got> {
        match code {
            0 => Ok(Got::Released),
            libc::EOWNERDEAD => {
                // Marked at once: who cannot repair now leaves that to the next holder, by what the
                // protected words say, rather than a lock that nobody can take any more.
                // SAFETY: this thread holds the mutex, as the result says.
                unsafe { libc::pthread_mutex_consistent(self.mutex()) };
                Ok(Got::OwnerDied)
            }
            libc::EDEADLK => Err(is_own()),
            other => Err(Error::io("take the lock of", io::Error::from_raw_os_error(other))),
        }
    }

    /// Whether somebody has the lock, or died while he had it: only a look, for who may not write to the map.
    pub(crate) fn is_taken(self) -> bool {
        self.futex() != 0
    }

    /// Whether its last holder died while he had it, and nobody has taken it since: a look, too.
    pub(crate) fn is_of_dead(self) -> bool {
        self.futex() & u64::from(libc::FUTEX_OWNER_DIED) != 0
    }

    /// Whether this thread has the lock.
    pub(crate) fn is_own(self) -> bool {
        !self.has_moved() && is_own_word(self.words[0].load(Ordering::Acquire))
    }

    /// The word that the kernel knows.
    fn futex(self) -> u64 {
        self.words[0].load(Ordering::Acquire) >> FUTEX_SHIFT & 0xffff_ffff
    }

    /// Takes the lock if it is free; `None` if somebody has it, this thread or another.
    #[inline]
    pub(crate) fn try_lock(self) -> Result<Option<Got>> {
        self.check()?;
        // SAFETY: as for `wait`.
        match unsafe { libc::pthread_mutex_trylock(self.mutex()) } {
            libc::EBUSY | libc::EDEADLK => Ok(None),
            code => self.got(code).map(Some),
        }
    }

    /// An error for who cannot take it, or could not change what it protects.
    #[inline(always)]
    fn check(self) -> Result<()> {
        if self.has_moved() | self.lacks_room { Err(self.refused()) } else { Ok(()) }
    }

    #[cold]
    fn refused(self) -> Error {
        if self.has_moved() { has_moved() } else { no_room_for_changes() }
    }

    /// Lets the lock go; only who holds it.
    #[inline]
    pub(crate) fn unlock(self) {
        if self.has_moved() {
            // Its thread has the number of another, perhaps of the parent's that has it.
            return;
        }
        // SAFETY: an initialised mutex; if this thread does not hold it, the call refuses.
        unsafe {
            libc::pthread_mutex_unlock(self.mutex());
        }
    }
}

/// Whether this thread has the lock whose word this is.
fn is_own_word(word: u64) -> bool {
    // The threads of a schedule take turns on one thread of the system, so its number tells nothing.
    if cfg!(credenza_schedules) {
        return false;
    }
    // SAFETY: the call has no effect.
    let own = unsafe { libc::gettid() };
    word >> FUTEX_SHIFT & OWNER == u64::from(own.cast_unsigned())
}

/// Whether this thread has the lock at `at` in a file, which need not be mapped, nor have one.
pub(crate) fn is_own_in(file: &File, at: u64) -> bool {
    let mut word = [0; 8];
    read_exact_at(file, &mut word, at).is_ok() && is_own_word(u64::from_le_bytes(word))
}

/// The error of who would wait for himself.
#[cold]
pub(crate) fn is_own() -> Error {
    Error::invalid(
        "this thread is writing to the store already; use the batch or transaction it is in",
    )
}

/// What is wanted of a byte of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Nothing,
    Shared,
    Exclusive,
}

/// Whether another opening of the file has a lock on byte `at`.
pub(crate) fn is_locked(file: &File, at: u64) -> Result<bool> {
    let mut range = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at.cast_signed(),
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open; the range is read and written during the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut range) } != 0 {
        return Err(Error::io("ask for locks of", io::Error::last_os_error()));
    }
    Ok(i32::from(range.l_type) != libc::F_UNLCK)
}

/// Locks byte `at` of the file for this opening of it; `false` if others hold it and `is_patient`
/// is not set.
pub(crate) fn lock_range(file: &File, at: u64, want: Want, is_patient: bool) -> Result<bool> {
    let kind = match want {
        Want::Nothing => libc::F_UNLCK,
        Want::Shared => libc::F_RDLCK,
        Want::Exclusive => libc::F_WRLCK,
    };
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at.cast_signed(),
        l_len: 1,
        l_pid: 0,
    };
    let command = if is_patient { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
    loop {
        // SAFETY: the descriptor is open; the range is read during the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const range) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) if !is_patient => return Ok(false),
            _ => return Err(Error::io("lock a byte of", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn map() -> SharedMap {
        let map = SharedMap::of_head();
        RobustLock::in_head(&map, 0).init().unwrap();
        map
    }

    /// In a copy of a store in use the kernel marks nobody's lock.
    #[test]
    fn a_lock_of_no_thread_is_that_of_a_dead_one() {
        for takes_unless_own in [false, true] {
            let map = std::sync::Arc::new(map());
            let lock = RobustLock::in_head(&map, 0);
            // SAFETY: the call has no effect.
            let gone = std::thread::spawn(|| unsafe { libc::gettid() }).join().unwrap();
            // With the type that is beside it in musl.
            lock.words[0].fetch_or((gone as u64) << FUTEX_SHIFT, Ordering::AcqRel);
            let (done, waits) = channel();
            let other = std::sync::Arc::clone(&map);
            std::thread::spawn(move || {
                let lock = RobustLock::in_head(&other, 0);
                let got = match takes_unless_own {
                    true => lock.lock_unless_own().unwrap().unwrap(),
                    false => lock.lock().unwrap(),
                };
                lock.unlock();
                done.send(got).unwrap();
            });
            let got = waits.recv_timeout(Duration::from_secs(60)).expect("it waits for nobody");
            assert_eq!(got, Got::OwnerDied);
            assert_eq!(lock.lock().unwrap(), Got::Released);
            lock.unlock();
        }
    }

    /// Also if it is not the first thread of its process, and for longer than who waits looks.
    #[test]
    fn a_lock_of_a_thread_that_lives_is_waited_for() {
        let map = map();
        let lock = RobustLock::in_head(&map, 0);
        std::thread::scope(|scope| {
            let (has, waits) = channel();
            scope.spawn(move || {
                lock.lock().unwrap();
                has.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(500));
                lock.unlock();
            });
            waits.recv().unwrap();
            assert_eq!(lock.lock().unwrap(), Got::Released);
            lock.unlock();
        });
    }
}
