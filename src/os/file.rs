//! Opening files that may be anything, and reading and writing them at an offset.

use super::process::longest_file;
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::collections::TryReserveError;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Which file this is, as long as it is held open: the kernel does not reuse the inode number of
/// a file that somebody has open or mapped, so equality needs no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(meta: &Metadata) -> Self {
        FileId { device: meta.dev(), inode: meta.ino() }
    }
}

/// Whether an open file is the one that was looked at by a name.
pub(crate) fn is_same(file: &File, named: io::Result<Metadata>) -> bool {
    let [file, named] = [file.metadata(), named].map(|found| found.ok().map(|m| FileId::of(&m)));
    file.is_some() && file == named
}

/// Opens a regular file for reading; never blocks, not even on a FIFO.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    let at = |action, e| Error::io(action, e).at(path);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
        .map_err(|e| if is_socket(path) { no_file(SOCKET).at(path) } else { at("open", e) })?;
    let meta = file.metadata().map_err(|e| at("ask the size of", e))?;
    let kind = meta.file_type();
    let found = if kind.is_file() {
        return Ok((file, meta));
    } else if kind.is_dir() {
        "it is a directory; name a file in it"
    } else if kind.is_fifo() {
        "it is a FIFO; a store must be a regular file (load reads from FIFOs)"
    } else {
        "it is a device; a store must be a regular file"
    };
    Err(no_file(found).at(path))
}

const SOCKET: &str = "it is a socket; a store must be a regular file";

/// Whether a socket is at `path`, which the kernel opens for nobody.
fn is_socket(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.file_type().is_socket())
}

#[cold]
fn no_file(found: &str) -> Error {
    Error::new(ErrorKind::WrongFormat { expected: "a regular file", found: found.into() })
}

/// Opens a file that processes share to change it, or, without `is_writable`, to read what others
/// change; makes an empty one if there is none and `is_new_wanted`.
pub(crate) fn open_changing(path: &Path, is_new_wanted: bool, is_writable: bool) -> Result<File> {
    if !is_new_wanted || path.exists() {
        // Says what it is, if it is no file.
        open_regular(path)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(is_writable).mode(0o666);
    options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    let opened = match is_new_wanted && is_writable {
        true => open_or_make(&options, path),
        false => options.open(path),
    };
    opened.map_err(|e| Error::io("open", e))
}

/// Opens a file, or makes an empty one if there is none. Not both in one call: in a folder where anybody may make files, as
/// `/tmp`, Linux refuses a file that is another's to whoever would make it if there were none (`fs.protected_regular`).
pub(crate) fn open_or_make(options: &OpenOptions, path: &Path) -> io::Result<File> {
    match options.open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    // Another may have made it since.
    options.clone().create(true).open(path).or_else(|e| options.open(path).map_err(|_| e))
}

/// Whether a file could not be looked at for want of descriptors or memory: another time it may well be.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// So many zeros; an error if memory is short.
pub(crate) fn buffer(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(no_memory)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Has room for so many more in a list that grows with what it is told; an error if memory is short, where without this
/// the program would end.
#[inline]
pub(crate) fn make_room<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    list.try_reserve(more).map_err(no_memory)
}

/// A copy of what may be long; an error if memory is short.
pub(crate) fn copy_of(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(no_memory)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// The same, where others would have borrowed.
pub(crate) fn copied(bytes: &[u8]) -> Result<Cow<'static, [u8]>> {
    copy_of(bytes).map(Cow::Owned)
}

/// The same list where others would have copies; an error if memory is short: it may have millions.
pub(crate) fn borrowed<'a>(all: Vec<&'a [u8]>) -> Result<Vec<Cow<'a, [u8]>>> {
    let mut list = Vec::new();
    make_room(&mut list, all.len())?;
    list.extend(all.into_iter().map(Cow::Borrowed));
    Ok(list)
}

#[cold]
fn no_memory(_: TryReserveError) -> Error {
    Error::io("get memory", io::ErrorKind::OutOfMemory.into())
}

/// How long one waits for others between two looks at their lock.
const PAUSE: Duration = Duration::from_millis(1);

/// Takes the lock of a whole file (`flock`), which ends when that is closed, if others have it not by the
/// last of so many looks, a millisecond apart; whether it did. A lock of somebody who was stopped keeps
/// nobody waiting for ever.
pub(crate) fn lock_within(file: &File, attempts: u32) -> Result<bool> {
    for attempt in 1..=attempts {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if attempt < attempts => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", e)),
        }
    }
    Ok(false)
}

/// Writes all of `bytes` at an offset. Where files may not become so long (`ulimit -f`) that is an error: the kernel would send
/// a signal first, which ends every program that does not handle it.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    check_length(offset.saturating_add(bytes.len() as u64))?;
    file.write_all_at(bytes, offset)
}

/// Makes a file `len` bytes long, which has no more; an error in the same case.
pub(crate) fn lengthen(file: &File, len: u64) -> io::Result<()> {
    check_length(len)?;
    file.set_len(len)
}

/// An error if this process may not write as far as to `end` in a file.
pub(super) fn check_length(end: u64) -> io::Result<()> {
    let is_allowed = end <= longest_file();
    is_allowed.then_some(()).ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Writes a new file, its header last: when the rest is durable, lest a power cut leaves the header alone. What cannot
/// be made whole is empty.
pub(crate) fn write_new(file: &File, rest: &[u8], header: &[u8]) -> Result<()> {
    let write = |bytes: &[u8]| {
        write_all_at(file, bytes, 0).map_err(|e| Error::io("write", e))?;
        file.sync_all().map_err(|e| Error::io("make durable", e))
    };
    write(rest).and_then(|()| write(header)).inspect_err(|_| {
        let _ = file.set_len(0);
    })
}

/// What a file of `len` bytes begins with: `most` bytes, or all that there are.
pub(crate) fn read_head(file: &File, len: u64, most: usize) -> Result<Vec<u8>> {
    let mut head = vec![0; len.min(most as u64) as usize];
    read_exact_at(file, &mut head, 0)?;
    Ok(head)
}

/// Fills `buf` from `offset`; the file having become shorter is damage, not an I/O error.
pub(crate) fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> Result<()> {
    file.read_exact_at(buf, offset).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::corrupt(offset, "the file ends here, although its header says it is longer")
        }
        _ => Error::io("read", e),
    })
}
