//! Who has a store open: bytes of its file, locked with locks of the kernel, which belong to an
//! opening of the file and end with it, however its processes end.
//!
//! Byte 0 is locked while a store is being opened, byte 1, shared, as long as somebody has it open who
//! may write. Who gets byte 1 for himself knows that nobody else does. Byte 2 is locked, shared, as long as
//! somebody has it open who only reads. Byte 3 is locked as long as a file is built under a temporary name.

use super::file::open_regular;
use super::lock::{Want, is_locked, is_own_in, lock_range};
use super::place::proc_path;
use crate::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind::NotFound;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

const OPENING: u64 = 0;
/// The byte that is locked as long as somebody has the store open who may write.
pub(crate) const OPEN: u64 = 1;
/// The byte that is locked as long as somebody has the store open who may not write to it.
pub(crate) const READING: u64 = 2;
/// The byte that is locked as long as the file is built.
pub(crate) const BUILDING: u64 = 3;

/// How often, and how far apart, it is looked whether somebody still has a store open who is in the way: a child
/// that is forked while it is open has it open until it runs another program.
const MOMENTS: u32 = 20;
const MOMENT: Duration = Duration::from_millis(10);

/// Opens a store with nobody opening it meanwhile; with `Want::Shared` others do who want no more. The writers' lock is at
/// `writers` in the file.
pub(crate) fn opening<T>(
    file: &File,
    want: Want,
    writers: u64,
    open: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if !lock_range(file, OPENING, want, false)? {
        if is_own_in(file, writers) {
            await_opening(file, want)?;
        } else {
            lock_range(file, OPENING, want, true)?;
        }
    }
    let opened = open();
    if opened.is_err() {
        // A forked process may keep the file open.
        for at in [OPEN, READING] {
            lock_range(file, at, Want::Nothing, true)?;
        }
    }
    lock_range(file, OPENING, Want::Nothing, true)?;
    opened
}

/// Waits for who is opening the store, but not for long: this thread has the writers' lock, as it seems, which he may wait
/// for. It is another's if the file is a copy of a store in use.
#[cold]
fn await_opening(file: &File, want: Want) -> Result<()> {
    // He may wait himself for so long.
    for _ in 0..2 {
        if holds_soon(|| lock_range(file, OPENING, want, false))? {
            return Ok(());
        }
    }
    Err(Error::invalid(
        "this thread is writing to the store, and somebody who is opening it waits for that: open it before, or afterwards",
    ))
}

/// Waits for a moment for whoever has a byte locked. Done before [`opening`]: shared locks of those who wait within would follow
/// each other, and keep others from opening the store.
pub(crate) fn await_free(file: &File, at: u64) -> Result<()> {
    holds_soon(|| Ok(!is_locked(file, at)?)).map(drop)
}

/// Whether it holds within a fifth of a second that nobody is in the way.
pub(crate) fn holds_soon(mut holds: impl FnMut() -> Result<bool>) -> Result<bool> {
    for _ in 0..MOMENTS {
        if holds()? {
            return Ok(true);
        }
        std::thread::sleep(MOMENT);
    }
    holds()
}

/// Whether nobody else has the store open: then nobody can, until [`join`].
pub(crate) fn is_alone(file: &File) -> Result<bool> {
    lock_range(file, OPEN, Want::Exclusive, false)
}

/// Says that the store is open.
pub(crate) fn join(file: &File) -> Result<()> {
    lock_range(file, OPEN, Want::Shared, true).map(drop)
}

/// Does `cut` while nobody can begin to read the store who may not write to it, if nobody does; `None` if somebody does.
///
/// The lock is that of an opening of its own: by the store's it would be that of all processes forked with that, and stay if
/// this one were killed meanwhile. Where there can be none (no `/proc`, or a file that this user may not open any more) it is
/// the store's.
pub(crate) fn without_readers<T>(
    file: &File,
    cut: impl FnOnce() -> Result<T>,
) -> Result<Option<T>> {
    let mut options = OpenOptions::new();
    let own = options.read(true).write(true).custom_flags(libc::O_CLOEXEC).open(proc_path(file));
    let file = own.as_ref().unwrap_or(file);
    if !lock_range(file, READING, Want::Exclusive, false)? {
        return Ok(None);
    }
    let done = cut();
    lock_range(file, READING, Want::Nothing, true)?;
    done.map(Some)
}

/// Does what the last one has to do who closes a store, if nobody else has it open. Others may open it
/// meanwhile, so that it is done as everything else in a store is. A lock against them would be that of all processes
/// forked with this opening, and stay for as long as one of them lives if this one were killed.
pub(crate) fn if_alone(file: &File, last: impl FnOnce() -> Result<()>) -> Result<()> {
    if is_locked(file, OPEN)? { Ok(()) } else { last() }
}

/// An error if somebody, be it this process, has the store at `path` open who may write to it, and keeps it for a fifth of
/// a second: a file that takes its place would lose what he writes from now on. What is no store, or is not there, nobody has
/// open; of what this user may not read it cannot be told.
pub(crate) fn refuse_open(path: &Path) -> Result<()> {
    let file = match open_regular(path) {
        Ok((file, _)) => file,
        Err(e) if is_unknown(&e) => return Err(e.at(path)),
        Err(_) => return Ok(()),
    };
    // Where there are no locks nobody can have one open.
    if holds_soon(|| Ok(!is_locked(&file, OPEN).unwrap_or(false)))? {
        return Ok(());
    }
    let what = "somebody has this store open to write, and what he writes would be lost with it: replace it when nobody \
                has, or name another file";
    Err(Error::invalid(what).at(path))
}

/// Whether something is there that could not be looked at.
fn is_unknown(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io { source, .. } if source.kind() != NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever is forked while a store is being opened, and that fails, has the file open for as long as he lives.
    #[test]
    fn an_opening_that_failed_is_in_nobodys_way() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = File::options().read(true).write(true).open(file.path()).unwrap();
        let opened: Result<()> = opening(file.as_file(), Want::Exclusive, 0, || {
            assert!(is_alone(file.as_file())?);
            lock_range(file.as_file(), READING, Want::Shared, true)?;
            Err(Error::invalid("it is damaged"))
        });
        opened.unwrap_err();
        assert!([OPENING, OPEN, READING].iter().all(|at| !is_locked(&other, *at).unwrap()));
    }

    #[test]
    fn who_closes_a_store_keeps_nobody_from_opening_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = File::options().read(true).write(true).open(file.path()).unwrap();
        let take = |want| lock_range(&other, OPEN, want, false);
        join(file.as_file()).unwrap();
        let mut is_last = false;
        let closing = if_alone(file.as_file(), || {
            is_last = take(Want::Shared)?;
            Ok(())
        });
        closing.unwrap();
        assert!(is_last);
        if_alone(file.as_file(), || panic!("somebody else has it open")).unwrap();
        assert!(!take(Want::Exclusive).unwrap(), "it is open still");
    }
}
