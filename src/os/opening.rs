//! Who has a store open: bytes of its file, locked with locks of the kernel, which belong to an
//! opening of the file and end with it, however its processes end.
//!
//! Byte 0 is locked while a store is being opened, byte 1, shared, as long as somebody has it open who
//! may write. Who gets byte 1 for himself knows that nobody else does. Byte 2 is locked, shared, as long as
//! somebody has it open who only reads. Byte 3 is locked as long as a file is built under a temporary name.

use super::file::open_regular;
use super::lock::{Want, is_locked, is_own_in, lock_range};
use super::own_opening::{OwnOpening, is_forking};
use crate::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::ErrorKind::NotFound;
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

/// A store that is being opened, with nobody opening it meanwhile.
///
/// What is locked until it is open is locked by an opening of its own: were this process killed, a child would keep a lock of
/// the store's.
#[derive(Debug)]
pub(crate) struct Opening<'f> {
    file: &'f File,
    own: Option<OwnOpening>,
}

/// Opens a store with nobody opening it meanwhile; with `Want::Shared` others do who want no more. The writers' lock is at
/// `writers` in the file.
pub(crate) fn opening<T>(
    file: &File,
    want: Want,
    writers: u64,
    open: impl FnOnce(&Opening<'_>) -> Result<T>,
) -> Result<T> {
    let opening = Opening { file, own: OwnOpening::of(file, want == Want::Exclusive, true) };
    let by = opening.by();
    if !lock_range(by, OPENING, want, false)? {
        if is_own_in(file, writers) {
            await_opening(by, want)?;
        } else {
            lock_range(by, OPENING, want, true)?;
        }
    }
    let opened = open(&opening);
    if opened.is_err() {
        // A forked process may keep the file open.
        for (file, at) in [(by, OPEN), (file, OPEN), (file, READING)] {
            lock_range(file, at, Want::Nothing, true)?;
        }
    }
    lock_range(by, OPENING, Want::Nothing, true)?;
    opened
}

impl Opening<'_> {
    /// The store's own opening.
    pub(crate) fn file(&self) -> &File {
        self.file
    }

    /// What the locks are of.
    fn by(&self) -> &File {
        self.own.as_ref().map_or(self.file, OwnOpening::file)
    }

    /// Whether nobody else has the store open: then nobody can, until [`Opening::join`].
    pub(crate) fn is_alone(&self) -> Result<bool> {
        lock_range(self.by(), OPEN, Want::Exclusive, false)
    }

    /// Says that the store is open.
    pub(crate) fn join(&self) -> Result<()> {
        lock_range(self.by(), OPEN, Want::Shared, true)?;
        if let Some(own) = &self.own {
            lock_range(self.file, OPEN, Want::Shared, true)?;
            // Now, and not when it is closed: a child may not have come to that yet.
            lock_range(own.file(), OPEN, Want::Nothing, true)?;
        }
        Ok(())
    }
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

/// An error if somebody has the store open who may write to it: for who reads it without saying so in it.
pub(crate) fn refuse_writers(file: &File) -> Result<()> {
    if !is_locked(file, OPEN)? {
        return Ok(());
    }
    Err(Error::invalid(
        "somebody has the store open who may write, and readers that may not write to its file \
         cannot say what they read: get permission to write, or read a copy ('credenza \
         backup'), or wait until the store is closed",
    ))
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

/// Does `cut` while nobody can begin to read the store who may not write to it, if nobody does; `None` if somebody does.
///
/// The lock is that of an opening of its own: by the store's it would be that of all processes forked with that, and stay if
/// this one were killed meanwhile. Where there can be none it is the store's; while this process forks nothing is done, as who
/// is here has the writers' lock, and waits for nobody.
pub(crate) fn without_readers<T>(
    file: &File,
    cut: impl FnOnce() -> Result<T>,
) -> Result<Option<T>> {
    let own = OwnOpening::of(file, true, false);
    if own.is_none() && is_forking() {
        return Ok(None);
    }
    let file = own.as_ref().map_or(file, OwnOpening::file);
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
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Whoever is forked while a store is being opened, and that fails, has the file open for as long as he lives.
    #[test]
    fn an_opening_that_failed_is_in_nobodys_way() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = File::options().read(true).write(true).open(file.path()).unwrap();
        for is_open in [false, true] {
            let opened: Result<()> = opening(file.as_file(), Want::Exclusive, 0, |opening| {
                assert!(opening.is_alone()?);
                if is_open {
                    opening.join()?;
                }
                lock_range(file.as_file(), READING, Want::Shared, true)?;
                Err(Error::invalid("it is damaged"))
            });
            opened.unwrap_err();
            assert!([OPENING, OPEN, READING].iter().all(|at| !is_locked(&other, *at).unwrap()));
        }
    }

    #[test]
    fn who_has_opened_a_store_shares_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = File::options().read(true).write(true).open(file.path()).unwrap();
        let join = |opening: &Opening<'_>| {
            let is_alone = opening.is_alone()?;
            opening.join()?;
            Ok(is_alone)
        };
        assert!(opening(file.as_file(), Want::Exclusive, 0, join).unwrap());
        assert!(!opening(&other, Want::Exclusive, 0, join).unwrap());
        drop(file);
        assert!(!is_locked(&other, OPENING).unwrap() && !is_locked(&other, OPEN).unwrap());
    }

    /// A child that is forked while its parent's other thread opens a store lives on when the parent is killed in that.
    #[test]
    fn who_dies_while_opening_leaves_no_lock_to_a_child() {
        crate::os::process::prepare();
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = File::options().read(true).write(true).open(file.path()).unwrap();
        let (mut told, tell) = std::io::pipe().unwrap();
        // SAFETY: the child begins a thread, forks, and ends without what its parent registered for its end.
        let parent = unsafe { libc::fork() };
        assert!(parent >= 0);
        if parent == 0 {
            // SAFETY: what would hang does not pass.
            unsafe { libc::alarm(20) };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _: Result<()> = opening(file.as_file(), Want::Exclusive, 0, |opening| {
                        assert!(opening.is_alone()?);
                        (&tell).write_all(b"o").unwrap();
                        loop {
                            std::thread::park();
                        }
                    });
                });
                (&told).read_exact(&mut [0]).unwrap();
                // SAFETY: the child waits to be ended; its parent ends as if it were killed.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: as above.
                    unsafe { libc::alarm(20) };
                    (&tell).write_all(&std::process::id().to_le_bytes()).unwrap();
                    loop {
                        // SAFETY: waits for a signal.
                        unsafe { libc::pause() };
                    }
                }
                // SAFETY: as above.
                unsafe { libc::_exit(i32::from(child < 0)) };
            });
        }
        drop(tell);
        let mut status = -1;
        // SAFETY: the status is written during the call.
        unsafe { libc::waitpid(parent, &raw mut status, 0) };
        let mut child = [0; 4];
        told.read_exact(&mut child).unwrap();
        let locked = [OPENING, OPEN].map(|at| is_locked(&other, at));
        // SAFETY: the child of the child, which nobody else ends.
        unsafe { libc::kill(u32::from_le_bytes(child).cast_signed(), libc::SIGKILL) };
        assert_eq!((status, locked.map(Result::unwrap)), (0, [false; 2]));
    }

    #[test]
    fn who_closes_a_store_keeps_nobody_from_opening_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = File::options().read(true).write(true).open(file.path()).unwrap();
        let take = |want| lock_range(&other, OPEN, want, false);
        opening(file.as_file(), Want::Exclusive, 0, |opening| opening.join()).unwrap();
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
