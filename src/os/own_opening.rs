//! An opening of a file for locks that are held for a moment, which no forked process keeps.
//!
//! A lock of the kernel belongs to an opening, and a child that is forked has all openings of its parent, which it does not
//! know of. Were the parent killed while it has a lock, the child would have it until it ends or runs another program. So
//! what is locked for a moment is locked by an opening of its own, and a child closes those in a handler of `fork`: who
//! opened them are threads that are not in it. One that is opened within these few instructions stays open in the child,
//! without a lock. (A thread that is interrupted in the middle of that by a signal, and forks in its handler, is not
//! provided for, nor is a child that is made without the C library's handlers while another thread forks.)
//!
//! Threads: any. What is called in handlers of `fork` stores numbers, and closes files.

#![allow(unsafe_code)]

use super::file::is_same;
use super::place::proc_path;
use std::fs::{File, OpenOptions};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// How many there can be at a time.
const ROOM: usize = 32;
/// How often one is opened again that a fork came across.
const TRIES: usize = 16;
/// For how long, and how often, a fork is waited for: that of a large process takes long.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES: usize = 2000;

/// A place that nobody uses, and one that is being filled.
const FREE: RawFd = -1;
const TAKEN: RawFd = -2;

/// One that this process has.
struct Slot {
    number: AtomicI32,
    /// Of which file it is: where a fork was not told of, its child may have another file of that number.
    device: AtomicU64,
    inode: AtomicU64,
}

static OPEN: [Slot; ROOM] = [const {
    Slot { number: AtomicI32::new(FREE), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
}; ROOM];
/// How many forks of this process have begun, and how many are done.
static BEGUN: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);

/// One more opening of a file.
#[derive(Debug)]
pub(super) struct OwnOpening {
    file: File,
    /// Which of [`OPEN`] it is.
    slot: usize,
}

impl OwnOpening {
    /// `None` where there can be none: no `/proc`, or a file that this user may not open any more, or too many at a time, or
    /// a process that does nothing but fork, or that forks now and `is_patient` is not said.
    pub(super) fn of(file: &File, is_writable: bool, is_patient: bool) -> Option<OwnOpening> {
        let mut options = OpenOptions::new();
        options.read(true).write(is_writable).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK);
        for _ in 0..TRIES {
            let done = all_done(if is_patient { PAUSES } else { 0 })?;
            let own = options.open(proc_path(file)).ok()?;
            let meta = own.metadata().ok()?;
            let at = (meta.dev(), meta.ino());
            if !is_same(file, Ok(meta)) {
                return None;
            }
            let own = OwnOpening { slot: take_slot(&own, at)?, file: own };
            // A child of a fork in between may have it, too, and not know it.
            if BEGUN.load(SeqCst) == done {
                return Some(own);
            }
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
        OPEN[self.slot].number.store(FREE, SeqCst);
    }
}

/// How many forks are done, when none is under way; `None` if that takes longer than so many pauses.
fn all_done(pauses: usize) -> Option<u32> {
    for pause in 0.. {
        let done = DONE.load(SeqCst);
        if BEGUN.load(SeqCst) == done {
            return Some(done);
        }
        if pause == pauses {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    None
}

/// Whether a fork of this process is under way.
pub(super) fn is_forking() -> bool {
    all_done(0).is_none()
}

/// Notes a file that is open, with its device and inode; `None` if there is no room.
fn take_slot(file: &File, (on, is): (u64, u64)) -> Option<usize> {
    let is_mine = |slot: &Slot| slot.number.compare_exchange(FREE, TAKEN, SeqCst, SeqCst).is_ok();
    let at = OPEN.iter().position(is_mine)?;
    let Slot { number, device, inode } = &OPEN[at];
    device.store(on, SeqCst);
    inode.store(is, SeqCst);
    number.store(file.as_raw_fd(), SeqCst);
    Some(at)
}

/// Before a process forks.
pub(super) extern "C" fn begin_fork() {
    BEGUN.fetch_add(1, SeqCst);
}

/// In a process that has forked, or could not.
pub(super) extern "C" fn end_fork() {
    DONE.fetch_add(1, SeqCst);
}

/// In a child: what its parent's other threads had open is closed. All calls are safe in handlers.
pub(super) fn let_go() {
    DONE.store(BEGUN.load(SeqCst), SeqCst);
    for slot in &OPEN {
        let number = slot.number.swap(FREE, SeqCst);
        if number >= 0 && is_still(number, slot) {
            // SAFETY: a file that the stack of a thread owned which is not in this process: nothing uses it any more.
            unsafe { libc::close(number) };
        }
    }
}

/// Whether the number is that of the file that was noted.
fn is_still(number: RawFd, slot: &Slot) -> bool {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: written during the call, and read only if that says so.
    let stat = unsafe {
        if libc::fstat(number, stat.as_mut_ptr()) != 0 {
            return false;
        }
        stat.assume_init()
    };
    (stat.st_dev, stat.st_ino) == (slot.device.load(SeqCst), slot.inode.load(SeqCst))
}
