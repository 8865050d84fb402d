//! The moment when the power fails: a process that is told of everything it asks of the disk, and ends at
//! one such call, or between two operations, after it has written down what disks may be left.
//!
//! Threads: whichever makes the call is the one that is told; a lock has one at work, and what that one
//! asks of the disk itself is not looked at.

use super::Said;
use super::disk::{Disk, Moment};
use super::judge::At;
use super::ledger::Ledger;
use crate::driver::kernel;
use crate::driver::syscalls::{Extent, Watcher};
use crate::machine;
use crate::rng::Rng;
use crate::runner::protocol::{Message, say};
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// When the power fails, and what is wanted then.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cut {
    /// Before this operation the kernel has just written back everything; it keeps what it likes from
    /// there on.
    pub(super) from: usize,
    /// From this operation on calls and operations are counted,
    pub(super) at: usize,
    /// and so many of them later it happens.
    pub(super) events: u64,
    /// Disks that may be left, each a folder in this one.
    pub(super) images: PathBuf,
    pub(super) count: usize,
    pub(super) seed: u64,
}

thread_local! {
    /// Whether this thread is looking at the disk for us.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

pub(super) struct Recorder {
    /// Without symbolic links: what is asked of the disk is compared with the kernel's names.
    folder: PathBuf,
    cut: Cut,
    pub(super) ledger: Ledger,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// None before the first look.
    disk: Option<Disk>,
    /// Events until the power fails; none before they count.
    left: Option<u64>,
}

impl Recorder {
    pub(super) fn new(folder: &Path, cut: &Cut) -> Result<Recorder> {
        Ok(Recorder {
            folder: folder.to_owned(),
            cut: cut.clone(),
            ledger: Ledger::new(None)?,
            state: Mutex::default(),
        })
    }

    /// This operation is about to begin.
    pub(super) fn before(&self, number: usize) {
        self.with(|state| {
            if number == self.cut.from {
                state.disk = Some(Disk::of(&self.folder)?);
            }
            if number == self.cut.at {
                state.left = Some(self.cut.events);
            }
            Ok(())
        });
    }

    /// An operation has returned, and that is noted.
    pub(super) fn after(&self) {
        self.with(|state| self.event(state).map(drop));
    }

    /// The power fails now at the latest.
    pub(super) fn end(&self) {
        self.with(|state| self.fail(state));
    }

    /// Does what is to be done here, if anything is looked at and this thread is not at it already. What
    /// goes wrong ends the process: nothing of it could be believed any more.
    fn with<T: Default>(&self, work: impl FnOnce(&mut State) -> Result<T>) -> T {
        if IS_BUSY.replace(true) {
            return T::default();
        }
        let done = work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        let done = done.unwrap_or_else(|e| {
            let _ = say(&Message::Failed(e.to_string()));
            kernel::kill_this_process()
        });
        IS_BUSY.set(false);
        done
    }

    /// Something was done: the files are looked at, or it was the last thing.
    fn event(&self, state: &mut State) -> Result<Moment> {
        match &mut state.left {
            Some(0 | 1) => self.fail(state).map(|()| 0),
            left => {
                left.iter_mut().for_each(|left| *left -= 1);
                state.disk.as_mut().map_or(Ok(0), Disk::look)
            }
        }
    }

    /// The power fails.
    fn fail(&self, state: &mut State) -> Result<()> {
        // In this order: what had returned is in the files, and what is in the files had begun.
        let (done, synced) = self.ledger.done();
        let Some(disk) = &mut state.disk else {
            return Err(Error::invalid("the power fails before anybody looks"));
        };
        disk.look()?;
        let at = At { begun: self.ledger.begun(), done, synced };
        let mut rng = Rng::new(self.cut.seed, 0);
        for number in 0..self.cut.count {
            let folder = self.cut.images.join(number.to_string());
            fs::create_dir_all(&folder).map_err(|e| Error::io("create", e).at(&folder))?;
            disk.write_image(&folder, &mut rng)?;
        }
        say(&Message::Tortured(Box::new(Said::At(at))))?;
        kernel::kill_this_process()
    }

    /// The numbers of the files and folders that are meant, of those of the store; and the part of each.
    fn places(&self, what: Extent) -> Vec<(u64, Range<u64>)> {
        let one = match what {
            Extent::All(Some(fd)) if !is_on(fd, &self.folder) => return Vec::new(),
            Extent::All(_) => return all_in(&self.folder),
            Extent::File(fd) => {
                let link = PathBuf::from(format!("/proc/self/fd/{fd}"));
                let is_ours = fs::read_link(&link).is_ok_and(|path| path.starts_with(&self.folder));
                let facts = is_ours.then(|| fs::metadata(&link).ok()).flatten();
                facts.map(|facts| (facts.ino(), 0..u64::MAX))
            }
            Extent::Map { start, len } => mapped(&self.folder, start, len),
        };
        one.into_iter().collect()
    }
}

/// Whether a descriptor is of the file system that a folder is on.
fn is_on(fd: libc::c_int, folder: &Path) -> bool {
    machine::are_on_one_filesystem(Path::new(&format!("/proc/self/fd/{fd}")), folder)
}

/// All files and folders there, whole.
fn all_in(folder: &Path) -> Vec<(u64, Range<u64>)> {
    let of = |path: &Path| fs::symlink_metadata(path).map(|facts| (facts.ino(), 0..u64::MAX)).ok();
    let within = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir());
    let all_within = |path: PathBuf| match is_folder(&path) {
        true => all_in(&path),
        false => of(&path).into_iter().collect(),
    };
    of(folder).into_iter().chain(within.flat_map(all_within)).collect()
}

/// Which file of the folder is mapped at these addresses, and where in it they are.
fn mapped(folder: &Path, start: usize, len: usize) -> Option<(u64, Range<u64>)> {
    let maps = fs::read("/proc/self/maps").ok()?;
    let within = as_in_maps(folder);
    maps.split(|byte| *byte == b'\n').find_map(|line| {
        // From-to, rights, offset, device, inode, path: any bytes, from the first slash on.
        let (facts, path) = line.split_at(line.iter().position(|byte| *byte == b'/')?);
        let mut parts = str::from_utf8(facts).ok()?.split_ascii_whitespace();
        let (from, to) = parts.next()?.split_once('-')?;
        let (from, to) = (hexadecimal(from)?, hexadecimal(to)?);
        let offset = hexadecimal(parts.nth(1)?)?;
        let inode = parts.nth(1)?.parse().ok()?;
        let start = start as u64;
        let is_it = (from..to).contains(&start) && path.starts_with(&within);
        let first = offset + start.wrapping_sub(from);
        is_it.then(|| (inode, first..first + len as u64))
    })
}

/// What the names of files in a folder begin with in `/proc/self/maps`, where only the end of a line is
/// written in another way.
fn as_in_maps(folder: &Path) -> Vec<u8> {
    let bytes = folder.as_os_str().as_bytes().iter().chain(b"/");
    let written = bytes.flat_map(|byte| match byte {
        b'\n' => b"\\012",
        _ => std::slice::from_ref(byte),
    });
    written.copied().collect()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

impl Watcher for Recorder {
    fn wrote(&self, fd: libc::c_int) {
        self.with(|state| match state.disk {
            Some(_) if !self.places(Extent::File(fd)).is_empty() => self.event(state).map(drop),
            _ => Ok(()),
        });
    }

    fn sync_begins(&self, what: Extent) -> u64 {
        self.with(|state| match state.disk {
            Some(_) if !self.places(what).is_empty() => self.event(state),
            _ => Ok(0),
        })
    }

    fn synced(&self, what: Extent, begun: u64) {
        self.with(|state| {
            let places = self.places(what);
            // One that began before the first look says nothing.
            match state.disk.as_mut().filter(|_| begun > 0 && !places.is_empty()) {
                None => Ok(()),
                Some(disk) => {
                    places.into_iter().for_each(|(inode, part)| disk.synced(inode, part, begun));
                    self.event(state).map(drop)
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use credenza::Get;
    use credenza::constant::{Builder, Constant};
    use std::ffi::OsStr;
    use std::os::fd::AsRawFd;

    /// Makes a folder of this name with a file in it that is mapped, and looks whether that is found.
    fn check(name: &[u8]) {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().canonicalize().unwrap().join(OsStr::from_bytes(name));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("store");
        let mut builder = Builder::create(&path).unwrap();
        builder.add(b"key", b"a value that is there once").unwrap();
        builder.finish().unwrap();
        let store = Constant::open(&path).unwrap();
        let value = store.get(b"key").unwrap().unwrap();
        let (file, bytes) = (fs::File::open(&path).unwrap(), fs::read(&path).unwrap());
        let inode = file.metadata().unwrap().ino();
        let cut = Cut { from: 0, at: 0, events: 0, images: PathBuf::new(), count: 0, seed: 0 };
        let recorder = Recorder::new(&folder, &cut).unwrap();

        let of_file = recorder.places(Extent::File(file.as_raw_fd()));
        assert_eq!(of_file, [(inode, 0..u64::MAX)], "{}", name.escape_ascii());
        let addresses = Extent::Map { start: value.as_ptr().addr(), len: value.len() };
        let of_map = recorder.places(addresses);
        let [(found, part)] = &of_map[..] else {
            panic!("{}: {of_map:?}", name.escape_ascii());
        };
        assert_eq!(*found, inode);
        assert_eq!(bytes[part.start as usize..part.end as usize], value[..]);
    }

    #[test]
    fn what_is_synced_is_found_in_a_folder_of_any_name() {
        for name in [&b"plain"[..], b"a b", b"a\nb", b"\xff", b"a\\012b", b" (deleted)"] {
            check(name);
        }
    }
}
