//! An opening of a file for locks that are held for a moment, which no forked process keeps.
//!
//! A lock of the kernel belongs to an opening, and a child that is forked has all openings of its parent, which it does not
//! know of. Were the parent killed while it has a lock, the child would have it until it ends or runs another program. So
//! what is locked for a moment is locked by an opening of its own, and a child closes those in a handler of `fork`: who
//! opened them are threads that are not in it.

#![allow(unsafe_code)]

use super::place::proc_path;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// How many there can be at a time.
const ROOM: usize = 32;
/// How often one is opened again while this process forks, and how far apart.
const TRIES: usize = 16;
const PAUSE: Duration = Duration::from_millis(1);
const NONE: RawFd = -1;

/// Those that this process has.
static OPEN: [AtomicI32; ROOM] = [const { AtomicI32::new(NONE) }; ROOM];
/// How many forks of this process have begun, and how many are done.
static BEGUN: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);

/// One more opening of a file.
#[derive(Debug)]
pub(super) struct OwnOpening {
    file: File,
    /// Which of [`OPEN`] it is.
    number: usize,
}

impl OwnOpening {
    /// `None` where there can be none: no `/proc`, or a file that this user may not open any more, or too many at a time, or
    /// a process that does nothing but fork.
    pub(super) fn of(file: &File, is_writable: bool) -> Option<OwnOpening> {
        let mut options = OpenOptions::new();
        options.read(true).write(is_writable).custom_flags(libc::O_CLOEXEC);
        for _ in 0..TRIES {
            let done = DONE.load(SeqCst);
            let file = options.open(proc_path(file)).ok()?;
            let take = |number: &usize| {
                OPEN[*number].compare_exchange(NONE, file.as_raw_fd(), SeqCst, SeqCst).is_ok()
            };
            let own = OwnOpening { number: (0..ROOM).find(take)?, file };
            // A child of a fork in between may have it, too, and not know it.
            if BEGUN.load(SeqCst) == done {
                return Some(own);
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for OwnOpening {
    fn drop(&mut self) {
        // Before it is closed: then the number may be another file's.
        OPEN[self.number].store(NONE, SeqCst);
    }
}

/// Before a process forks.
pub(super) extern "C" fn begin_fork() {
    BEGUN.fetch_add(1, SeqCst);
}

/// In a process that has forked, or could not.
pub(super) extern "C" fn end_fork() {
    DONE.fetch_add(1, SeqCst);
}

/// In a child: what its parent's other threads had open is closed. Nothing but stores and closing is done.
pub(super) fn let_go() {
    DONE.store(BEGUN.load(SeqCst), SeqCst);
    for open in &OPEN {
        let number = open.swap(NONE, SeqCst);
        if number != NONE {
            // SAFETY: a file that the stack of a thread owned which is not in this process: nothing uses it any more.
            unsafe { libc::close(number) };
        }
    }
}
