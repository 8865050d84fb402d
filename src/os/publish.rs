//! How a new file takes the place of an old one.
//!
//! Order, so that a reader, a killed process and a power cut see the old file or the new one and
//! nothing else: write an unnamed (or, where the filesystem cannot, a temporarily named) file in
//! the target's folder; fdatasync it; name it; rename it over the target; fsync the folder.
//!
//! The unnamed file (`O_TMPFILE`) is why a builder killed at any moment leaves nothing behind:
//! only between naming and renaming, two system calls, could a stray name survive. A store that is built
//! under a name leaves its files: the next one of the same target removes them.

#![allow(unsafe_code)]

use super::access::Rights;
use super::aside::{head_of, make_way};
use super::file::is_same;
use super::lock::{Want, is_locked, lock_range};
use super::opening::{BUILDING, OPEN, READING, refuse_open};
use super::place::{Place, folder_of, led_to, proc_path, sync_folder_of};
use super::process::{forks_and_pid, is_alive};
use crate::magic::MAGIC;
use crate::{Error, Result};
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many temporary names this process has given.
static NAMES: AtomicU64 = AtomicU64::new(0);

/// The mode of a file that only its owner may read.
const OWN: u32 = 0o600;
/// The highest number that the kernel gives a process: dates are above it.
const MAX_PID: u32 = 1 << 22;

/// A file being written that will replace `target`; dropped unpublished, it leaves nothing.
#[derive(Debug)]
pub struct Staged {
    file: File,
    target: Place,
    /// The temporary name, where the filesystem has no unnamed files.
    named: Option<Place>,
    /// What [`forks_and_pid`] gave in the process that makes it: one that is forked meanwhile leaves its files alone.
    owner: (u32, u32),
}

impl Staged {
    /// Starts a new file beside `target`, which need not exist.
    ///
    /// # Errors
    /// The folder is missing or may not be written; `target` is not a regular file, or a hash or btree store that
    /// somebody has open to write, be it this process: what he writes would be lost with it.
    pub fn create(target: impl AsRef<Path>) -> Result<Staged> {
        let target = target.as_ref();
        match std::fs::metadata(target) {
            Ok(meta) if !meta.is_file() => {
                let what = "only a regular file can be replaced; name another target";
                return Err(Error::invalid(what).at(target));
            }
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(Error::io("look at", e).at(target));
            }
            _ => {}
        }
        let target = led_to(target);
        refuse_open(&target)?;
        Staged::beside(target)
    }

    /// The same for `target` itself: if that is a link, it is replaced by the file.
    pub(crate) fn beside(target: PathBuf) -> Result<Staged> {
        // A slash or a dot at the end makes it a folder's.
        let name = target.as_os_str().as_bytes();
        if target.file_name().is_none() || name.ends_with(b"/") || name.ends_with(b"/.") {
            return Err(Error::invalid("this does not name a file").at(target));
        }
        // That its folder can be opened is seen now and not when all is written: without this the new name cannot be made
        // durable.
        let target = Place::new(target)?;
        let (file, named) = create_beside(target.path())?;
        if named.is_some() {
            remove_left(target.path(), None);
        }
        let named = named.map(|path| target.other(path));
        Ok(Staged { file, target, named, owner: forks_and_pid() })
    }

    /// Gives the file the mode (and, where allowed, owner) of one that it belongs to; that of a file which is
    /// replaced comes before.
    pub(crate) fn belongs_to(&self, other: &File) -> io::Result<()> {
        Rights::of(other)?.give(&self.file)
    }

    /// What will be replaced, or made: of a symbolic link, what it leads to.
    pub(crate) fn target(&self) -> &Place {
        &self.target
    }

    /// The file to write; it is also readable.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes the written bytes durable and puts them in the target's place, with the mode (and,
    /// where allowed, owner) of the file that is replaced.
    ///
    /// # Errors
    /// The disk is full or failed, or the folder may not be written: the old file is untouched. If only the new name
    /// could not be made durable, the new one is there, and a power cut may bring the old one back. Or the target is by
    /// now a store that somebody has open, as for [`Staged::create`].
    pub fn publish(self) -> Result<()> {
        refuse_open(&self.target.now())?;
        self.publish_as(false)
    }

    /// The same where there is nothing at the target: whatever somebody else puts there at the same moment stays.
    ///
    /// # Errors
    /// Meanwhile there is something; or as [`Staged::publish`].
    pub fn publish_new(self) -> Result<()> {
        refuse_old(&self.target.now())?;
        self.publish_as(true)
    }

    fn publish_as(mut self, is_new: bool) -> Result<()> {
        // Not by the path as it was given: the folder may have another name by now.
        let target = self.target.now();
        keep_mode(&self.file, &target)?;
        if let Err(e) = self.file.sync_data() {
            return Err(Error::io("make durable", e).at(&target));
        }
        if !is_new {
            // Once more: that may have taken long.
            refuse_open(&target)?;
        }
        let temporary = match self.named.take() {
            Some(place) => place.now(),
            None => link_unnamed(&self.file, &target)?,
        };
        if !is_new {
            return replace(&temporary, &target);
        }
        let named = name_new(&temporary, &target);
        named.inspect_err(|_| drop(std::fs::remove_file(&temporary)))?;
        sync_folder_of(&target)
    }
}

/// A further file of a store, beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Further {
    /// What its name ends with, behind that of the store.
    pub end: &'static str,
    /// Whether a file that begins so is one: only such are replaced.
    pub is_own: fn(&[u8]) -> bool,
}

/// A store that is built under a temporary name beside `target`, perhaps with a file of its own beside it; dropped
/// unpublished, it leaves nothing. Whoever has it open must have closed it before either.
#[derive(Debug)]
pub(crate) struct Named {
    /// `None` when the name may be another's.
    place: Option<Place>,
    target: Place,
    /// The target as its user calls it.
    called: PathBuf,
    further: Option<Further>,
    /// As of a [`Staged`].
    owner: (u32, u32),
    /// Whose lock tells others that it is being built.
    _lock: File,
}

impl Named {
    /// An empty file for a new store beside `target`, which need not exist.
    ///
    /// # Errors
    /// As [`Staged::create`].
    pub(crate) fn create(target: &Path, further: Option<Further>) -> Result<Named> {
        let called = target.to_owned();
        // Looks at the folder and at what is there, in the same words as for every other store.
        let target = Staged::create(target)?.target.clone();
        further.iter().try_for_each(|further| refuse_long(target.path(), further.end))?;
        remove_left(target.path(), further);
        let (lock, path) = named_beside(target.path())?;
        let place = Some(target.other(path));
        Ok(Named { place, target, called, further, owner: forks_and_pid(), _lock: lock })
    }

    /// The error, which names what is built as it is to be called: the name that it has meanwhile is gone when somebody
    /// looks for it.
    #[cold]
    pub(crate) fn named(&self, error: Error) -> Error {
        let own = self.path();
        let own = own.file_name().unwrap_or_default().as_bytes();
        error.elsewhere(|path| {
            let end = path.file_name()?.as_bytes().strip_prefix(own)?;
            Some(with(&self.called, OsStr::from_bytes(end)))
        })
    }

    /// Where the store is built.
    pub(crate) fn path(&self) -> PathBuf {
        self.place().now()
    }

    /// The same, wherever that is later on.
    pub(crate) fn place(&self) -> Place {
        self.place.as_ref().unwrap_or(&self.target).clone()
    }

    /// Makes all files durable and puts them in their places, the store last; gives where it is then.
    ///
    /// # Errors
    /// The disk is full or failed: what was at the target is untouched, but for the further file. Or the target is by now
    /// a store that somebody has open, as for [`Staged::create`].
    pub(crate) fn publish(self) -> Result<PathBuf> {
        refuse_open(&self.target.now())?;
        self.publish_as(false)
    }

    /// The same where there is nothing at the target; the store comes first.
    ///
    /// # Errors
    /// Meanwhile there is; or as [`Named::publish`].
    pub(crate) fn publish_new(self) -> Result<PathBuf> {
        refuse_old(&self.target.now())?;
        self.publish_as(true)
    }

    fn publish_as(mut self, is_new: bool) -> Result<PathBuf> {
        let (path, target) = (self.path(), self.target.now());
        let further = self
            .further
            .map(|further| (with(&path, further.end), with(&target, further.end), further.is_own));
        for path in further.iter().map(|(path, ..)| path).chain([&path]) {
            let failed = |action, e| self.named(Error::io(action, e).at(path));
            let file = File::open(path).map_err(|e| failed("open", e))?;
            keep_mode(&file, &target)?;
            file.sync_all().map_err(|e| failed("make durable", e))?;
        }
        // What keeps the further file from its place is met while nothing is there yet.
        further.iter().try_for_each(|(_, target, is_own)| make_way(target, *is_own))?;
        let replace_further =
            || further.iter().try_for_each(|(path, target, _)| replace(path, target));
        if is_new {
            // Before, its further file would take the place of another's.
            name_new(&path, &target)?;
            self.place = None;
            replace_further()?;
            sync_folder_of(&target)?;
        } else {
            // Once more, before and after: each wait for the disk may have taken long.
            refuse_open(&target)?;
            replace_further()?;
            refuse_open(&target)?;
            replace(&path, &target)?;
            self.place = None;
        }
        Ok(target)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let Some(place) = self.place.as_ref().filter(|_| self.owner == forks_and_pid()) else {
            return;
        };
        for end in self.further.iter().map(|further| further.end).chain([""]) {
            let _ = std::fs::remove_file(with(&place.now(), end));
        }
    }
}

/// A path whose name ends with that.
pub(super) fn with(path: &Path, end: impl AsRef<OsStr>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Gives a file the mode (and, where allowed, owner) of the one at `target`, if there is one.
fn keep_mode(file: &File, target: &Path) -> Result<()> {
    let done = match Rights::at(target) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        old => old.and_then(|old| old.give(file)),
    };
    done.map_err(|e| Error::io("keep the permissions of", e).at(target))
}

/// Puts what is called `temporary`, and is durable, in the place of `target`, in the same folder;
/// if that fails it is removed.
fn replace(temporary: &Path, target: &Path) -> Result<()> {
    if let Err(e) = std::fs::rename(temporary, target) {
        let _ = std::fs::remove_file(temporary);
        return Err(Error::io("replace", e).at(target));
    }
    sync_folder_of(target)
}

/// The same where there is nothing at `target`: whatever somebody else puts there at the same moment stays.
fn name_new(temporary: &Path, target: &Path) -> Result<()> {
    match rename_new(temporary, target) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists && target.symlink_metadata().is_err() => {
            replace(temporary, target)
        }
        done => done.map_err(|_| is_there(target)),
    }
}

/// A rename that replaces nothing; by another name of the file where this kernel or file system knows none.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use std::fs::{hard_link, remove_file};
    match rename_to_new(from, to) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => {
            hard_link(from, to)?;
            remove_file(from).inspect_err(|_| drop(remove_file(to)))
        }
        done => done,
    }
}

#[cfg(target_os = "linux")]
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    let [from, to] = [from, to].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (from, to, here) = (from?, to?, libc::AT_FDCWD);
    // SAFETY: both paths are NUL-terminated strings that live across the call.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            here,
            from.as_ptr(),
            here,
            to.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn rename_to_new(_: &Path, _: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// An error if there is anything at `target`: what is made there is often made of the only copy.
pub(crate) fn refuse_old(target: &Path) -> Result<()> {
    if target.symlink_metadata().is_err() { Ok(()) } else { Err(is_there(target)) }
}

/// An error if `path` with that at its end is longer than names may be: a further file could not be made.
pub(crate) fn refuse_long(path: &Path, end: &str) -> Result<()> {
    match with(path, end).symlink_metadata() {
        Err(e) if e.kind() == ErrorKind::InvalidFilename => {
            let what = format!(
                "this name is too long, as the file beside it has {end} behind it: choose one that is \
                 {} bytes shorter than the longest",
                end.len()
            );
            Err(Error::invalid(what).at(path))
        }
        _ => Ok(()),
    }
}

#[cold]
fn is_there(target: &Path) -> Error {
    let what = "there is a file already, which is not replaced, as it may be all there is of a store: name another";
    Error::invalid(what).at(target)
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(place) = self.named.as_ref().filter(|_| self.owner == forks_and_pid()) {
            let _ = std::fs::remove_file(place.now());
        }
    }
}

/// An unnamed file beside `target`, for data that does not fit in memory; gone when closed.
pub(crate) fn scratch_beside(target: &Place) -> Result<File> {
    let (file, named) = create_beside(&target.now())?;
    if let Some(path) = named {
        std::fs::remove_file(&path).map_err(|e| Error::io("unlink", e).at(&path))?;
    }
    Ok(file)
}

/// A new file in the folder of `target`: unnamed where the filesystem can, else with a name.
fn create_beside(target: &Path) -> Result<(File, Option<PathBuf>)> {
    let folder = folder_of(target);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o666);
    #[cfg(target_os = "linux")]
    match options.clone().custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC).open(folder) {
        // Without a way to give it a name it is of no use.
        Ok(file) if std::fs::exists(proc_path(&file)).unwrap_or(false) => {
            // Nobody else can have one locked that has no name.
            let _ = say_built(&file);
            return Ok((file, None));
        }
        Ok(_) => {}
        // Filesystems without unnamed files say one of these; anything else is the user's error.
        Err(e)
            if matches!(
                e.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL | libc::ENOENT)
            ) && folder.is_dir() => {}
        Err(e) => return Err(Error::io("create a file in the folder", e).at(folder)),
    }
    named_beside(target).map(|(file, path)| (file, Some(path)))
}

/// A new, empty file with a temporary name beside `target`. If there is one, whose mode nobody looks at
/// yet, it is for its maker alone until [`keep_mode`]; else it has the mode of any new file in the folder.
fn named_beside(target: &Path) -> Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    let mode = if target.exists() { OWN } else { 0o666 };
    options.read(true).write(true).create_new(true).mode(mode);
    loop {
        let made = with_new_name(target, |path| options.open(path));
        let made =
            made.map_err(|e| Error::io("create a file in the folder", e).at(folder_of(target)))?;
        // Somebody in another container, where its number is nobody's, may have removed it before, or be about to.
        if say_built(&made.0) && is_at(&made.0, &made.1) {
            return Ok(made);
        }
    }
}

/// Tells others that the file is being built, whose numbers of processes may be other ones, as in a container; whether nobody
/// was about to remove it.
fn say_built(file: &File) -> bool {
    // On a file system without locks nobody removes what he cannot ask for them.
    lock_range(file, BUILDING, Want::Exclusive, false).unwrap_or(true)
}

/// Whether a path names this very file, and no link to it.
fn is_at(file: &File, path: &Path) -> bool {
    is_same(file, path.symlink_metadata())
}

/// Removes what builders of `target` left who were killed, and nothing that anybody builds still, or that is of others.
fn remove_left(target: &Path, further: Option<Further>) {
    let Ok(entries) = std::fs::read_dir(folder_of(target)) else { return };
    let is_left =
        |name: &[u8], target: &Path| parts(name, target).is_some_and(|(pid, _)| is_over(pid));
    for entry in entries.flatten() {
        let name = entry.file_name();
        if is_left(name.as_bytes(), target) {
            // What stays is in nobody's way.
            let _ = remove_if_left(&entry.path(), further);
        } else if let Some(further) = further
            && let Some(store) = store_of_further(name.as_bytes(), further.end)
            && is_left(store, target)
        {
            let store = folder_of(target).join(OsStr::from_bytes(store));
            let _ = remove_further(&entry.path(), &store, target, further);
        }
    }
}

/// Of the name of a further file, or of one that is to become it: that of its store.
fn store_of_further<'n>(name: &'n [u8], end: &str) -> Option<&'n [u8]> {
    if let Some(store) = name.strip_suffix(end.as_bytes()) {
        return Some(store);
    }
    // As `temporary_name` has it, by numbers of the same process as in the name of the store.
    let name = name.strip_prefix(b".")?.strip_suffix(b".tmp")?;
    let mut parts = name.rsplitn(3, |byte| *byte == b'.');
    let numbers = [parts.next()?, parts.next()?];
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let store = parts.next()?.strip_suffix(end.as_bytes());
    store.filter(|_| numbers.into_iter().all(is_number))
}

/// Whether a file was made by this library, as far as its beginning tells.
fn is_ours(path: &Path, is_own: fn(&[u8]) -> bool) -> bool {
    head_of(path).is_ok_and(|head| head.is_empty() || is_own(&head))
}

/// Removes the further file of a store that is not there any more under the name that it was built by: whoever built it was
/// killed after he had put that in its place at `target`, or before he had made this one whole.
fn remove_further(path: &Path, store: &Path, target: &Path, further: Further) -> Result<()> {
    let is_gone = store.symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::NotFound);
    // Somebody in another container may be about to put this in its place.
    let is_built =
        || File::open(target).is_ok_and(|file| is_locked(&file, BUILDING).unwrap_or(true));
    if !is_ours(path, further.is_own) || !is_gone || is_built() {
        return Ok(());
    }
    std::fs::remove_file(path).map_err(|e| Error::io("remove", e).at(path))
}

/// Removes a store that nobody builds any more, with its further file. Locked meanwhile: whoever has just made it finds that it
/// has no name any more, and makes another.
fn remove_if_left(path: &Path, further: Option<Further>) -> Result<()> {
    if !is_ours(path, |head| head.starts_with(&MAGIC)) {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    let file = options.open(path).map_err(|e| Error::io("open", e).at(path))?;
    // Nor a store of somebody who names his copies so, and has it open; nor what has that name meanwhile.
    if !lock_range(&file, BUILDING, Want::Exclusive, false)?
        || is_locked(&file, OPEN)?
        || is_locked(&file, READING)?
        || !is_at(&file, path)
    {
        return Ok(());
    }
    if let Some(further) = further {
        let beside = with(path, further.end);
        if is_ours(&beside, further.is_own) {
            let _ = std::fs::remove_file(beside);
        }
    }
    std::fs::remove_file(path).map_err(|e| Error::io("remove", e).at(path))
}

/// Of a name that [`temporary_name`] gives beside `target`: the numbers of the process and of the file that are in it.
fn parts(name: &[u8], target: &Path) -> Option<(u32, u64)> {
    let rest = name.strip_prefix(b".")?.strip_prefix(name_in(target))?.strip_prefix(b".")?;
    let (pid, serial) = std::str::from_utf8(rest).ok()?.strip_suffix(".tmp")?.split_once('.')?;
    let pid = pid.parse().ok().filter(|pid| (1..=MAX_PID).contains(pid))?;
    Some((pid, serial.parse().ok()?))
}

/// Whether no other process has this number. One may have had that of this one before: what this one builds is locked.
fn is_over(pid: u32) -> bool {
    pid == std::process::id() || !is_alive(pid, 0)
}

/// Gives the unnamed `file` a temporary name beside `target`.
fn link_unnamed(file: &File, target: &Path) -> Result<PathBuf> {
    let link = |path: &Path| {
        let from = CString::new(proc_path(file))?;
        let to = CString::new(path.as_os_str().as_bytes())?;
        let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
        // SAFETY: both paths are NUL-terminated strings that live across the call.
        let rc = unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    let named = with_new_name(target, link).map(|((), path)| path);
    named.map_err(|e| Error::io("name the new file", e).at(target))
}

/// Does `make` with a name beside `target` that nobody has: one that somebody left who was killed, and had
/// the number of this process, is passed over.
fn with_new_name<T>(
    target: &Path,
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(T, PathBuf)> {
    loop {
        let path = temporary_name(target);
        match make(&path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            done => return done.map(|made| (made, path)),
        }
    }
}

/// A name beside `target` that no other file of this process has. Of a long name only the beginning is in
/// it, for names may have 255 bytes.
fn temporary_name(target: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(OsStr::from_bytes(name_in(target)));
    let serial = NAMES.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}.{serial}.tmp", std::process::id()));
    folder_of(target).join(name)
}

/// What a temporary name beside `target` has of its own.
fn name_in(target: &Path) -> &[u8] {
    let whole = target.file_name().unwrap_or_default().as_bytes();
    whole.get(..200).unwrap_or(whole)
}

#[cfg(test)]
mod tests;
