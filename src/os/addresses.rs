//! The addresses of a map of a file that may grow: far more than the file has bytes, as what is read there cannot be moved.
//!
//! Where a limit leaves few (`ulimit -v`), a map begins with a part of them, where nothing else is, and takes more behind
//! those when the file needs them.
//!
//! Invariants: what is mapped stays where it is until all of it is dropped; there are never fewer than [`Addresses::len`] has
//! said. Any thread may ask for more: the kernel gives them to one, and the others find them.

#![allow(unsafe_code)]

use super::huge::{self, map_aligned, map_near};
use super::process::random_word;
use super::room::Room;
use crate::os::atomic::{AtomicU64, Ordering};
use crate::{Error, Result};
use std::fs::File;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::time::{Duration, Instant};

/// They are taken in whole numbers of these, which are whole pages of any size: only such can be given back.
const PIECE: u64 = 1 << 20;
/// A file has so many at least, unless it cannot.
const LEAST: u64 = 16 << 20;
/// So many are left for everything else when a map takes more: where nothing is left programs end.
const FOR_OTHERS: usize = 32 << 20;
/// Who takes more may stand still for so long, on a machine that is busy, before he says how many there are; and how often that is
/// looked at.
const A_WHILE: Duration = Duration::from_secs(1);
const A_MOMENT: Duration = Duration::from_micros(100);
/// Where kernels put nothing of their own accord: so many bytes from there on.
const FAR: u64 = 1 << 44;
const FAR_BYTES: u64 = 1 << 45;

#[derive(Debug)]
pub(super) struct Addresses {
    base: NonNull<u8>,
    len: AtomicU64,
    /// Whether others see what is written, and the file may be longer later on.
    is_shared: bool,
    _room: Room,
}

// SAFETY: the map stays where it is until this is dropped, and what is in it is not reached through this.
unsafe impl Send for Addresses {}
// SAFETY: as above; the only thing that changes is an atomic word.
unsafe impl Sync for Addresses {}

impl Addresses {
    /// Maps a file of `len` bytes with room to grow to `room`, or less where so many addresses are not to be had.
    pub(super) fn of(
        file: &File,
        protection: i32,
        kind: i32,
        room: u64,
        len: u64,
    ) -> Result<Addresses> {
        let map = |near: u64, len| map(file, protection, kind, near, len);
        let wanted = Room::part(room, len).next_multiple_of(PIECE);
        let enough = len.next_multiple_of(PIECE).max(LEAST);
        let mut most = wanted;
        let base = loop {
            match map(0, most) {
                Ok(base) => break base,
                Err(_) if most > enough => most = quarter(most).max(enough),
                Err(e) => return Err(Error::io("map", e)),
            }
        };
        let (mut base, mut len) = (base, most);
        if most < wanted {
            // A limit: a quarter of what there is, as the store has another file and the process more to do.
            unmap(base, most);
            len = quarter(most).max(enough).min(most);
            let far = random_word()? % FAR_BYTES;
            base = map(FAR + far - far % PIECE, len).map_err(|e| Error::io("map", e))?;
        }
        let is_shared = kind == libc::MAP_SHARED;
        Ok(Addresses { base, len: AtomicU64::new(len), is_shared, _room: Room::taken(len) })
    }

    /// The first of them.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// From the first to behind the last.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        let start = self.base.as_ptr() as usize;
        start..start + self.len() as usize
    }

    /// How many there are.
    #[inline(always)]
    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Has at least so many; whether there are.
    #[inline(always)]
    pub(super) fn reach(&self, end: u64) -> bool {
        end <= self.len() || self.take_more(end)
    }

    #[cold]
    fn take_more(&self, end: u64) -> bool {
        // No process has as many: a damaged word may ask for any number.
        const TOO_MANY: u64 = 1 << 47;
        if !self.is_shared || end > TOO_MANY {
            return false;
        }
        // Others take more, too: where the kernel says that there is a map behind this one, it may be theirs, for this one, of
        // which they are about to say how many there are.
        let since = Instant::now();
        loop {
            let len = self.len();
            let ends = [end + end / 8, end].map(|end| end.next_multiple_of(PIECE));
            if end <= len || ends.into_iter().any(|to| self.grow(len, to)) {
                return true;
            }
            // Else too few are left, which somebody may be about to give back.
            let patience = if self.is_taken_from(len) { A_WHILE } else { 20 * A_MOMENT };
            if self.len() == len && since.elapsed() > patience {
                return false;
            }
            std::thread::sleep(A_MOMENT);
        }
    }

    /// Whether there is something behind so many of them.
    fn is_taken_from(&self, len: u64) -> bool {
        let mut is_in_memory = [0];
        // SAFETY: the kernel is asked about one page, which is not touched, and answers with one byte.
        let rc = unsafe {
            let behind = self.base.as_ptr().wrapping_add(len as usize).cast();
            libc::mincore(behind, 1, is_in_memory.as_mut_ptr())
        };
        rc == 0 || self.len() != len
    }

    /// Has `to` of them where there are `len`, if that leaves some for others; whether it has.
    fn grow(&self, len: u64, to: u64) -> bool {
        let old = self.base.as_ptr().cast();
        // SAFETY: the map of this length is this one's, and may not be moved; nobody looks behind its end.
        let grown = unsafe { libc::mremap(old, len as usize, to as usize, 0) };
        if grown == libc::MAP_FAILED {
            return false;
        }
        if !is_left(FOR_OTHERS) {
            // SAFETY: the new end, of which nobody has been told.
            unsafe {
                libc::munmap(self.base.as_ptr().add(len as usize).cast(), (to - len) as usize)
            };
            return false;
        }
        self.len.store(to, Ordering::Relaxed);
        true
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        unmap(self.base, self.len());
    }
}

/// A quarter of so many addresses, in whole pieces.
fn quarter(addresses: u64) -> u64 {
    (addresses / 4).next_multiple_of(PIECE)
}

/// Whether so many addresses could be had.
fn is_left(len: usize) -> bool {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new map at an address of the kernel's choice touches no memory in use; it is unmapped at once.
    unsafe {
        let found = libc::mmap(null_mut(), len, protection, flags | libc::MAP_NORESERVE, -1, 0);
        found != libc::MAP_FAILED && libc::munmap(found, len) == 0
    }
}

/// Maps a file, near an address if that is free, or else where huge pages may begin.
fn map(file: &File, protection: i32, kind: i32, near: u64, len: u64) -> io::Result<NonNull<u8>> {
    let (kind, len) = (kind | libc::MAP_NORESERVE, len as usize);
    match near {
        0 => map_aligned(file, protection, kind, len),
        near => map_near(file, protection, kind, near as usize, len),
    }
}

fn unmap(base: NonNull<u8>, len: u64) {
    huge::unmap(base, len as usize);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::shared::memory_file;
    use std::os::unix::fs::FileExt;

    /// What begins within a page cannot be given back: the map would keep all of its addresses.
    #[test]
    fn a_part_of_the_addresses_is_whole_pages_whatever_the_whole_is() {
        for whole in [1 << 40, (1 << 40) - (1 << 20), 5 << 20, 1_000_003 << 20] {
            let parts = std::iter::successors(Some(whole), |part| Some(quarter(*part))).take(12);
            assert!(parts.into_iter().all(|part| part.is_multiple_of(1 << 20)), "{whole}");
        }
    }

    const NEAR: u64 = FAR + (1 << 30);

    /// As where there is a limit, which would be all tests'.
    fn few(file: &File, near: u64) -> Addresses {
        let base = map(file, libc::PROT_READ, libc::MAP_SHARED, near, PIECE).unwrap();
        let len = AtomicU64::new(PIECE);
        Addresses { base, len, is_shared: true, _room: Room::taken(PIECE) }
    }

    #[test]
    fn a_map_takes_more_where_it_is() {
        const LEN: u64 = 200 << 20;
        let file = memory_file().unwrap();
        file.set_len(LEN).unwrap();
        file.write_at(b"first", 0).unwrap();
        file.write_at(b"last!", LEN - 5).unwrap();
        let addresses = few(&file, NEAR);
        if addresses.base().addr().get() as u64 != NEAR {
            println!("skipped: the thread sanitizer has maps put elsewhere, close to others");
            return;
        }
        let read = |at: u64| {
            assert!(at + 5 <= addresses.len());
            // SAFETY: it is mapped so far, and nobody writes to it.
            unsafe { std::slice::from_raw_parts(addresses.base().as_ptr().add(at as usize), 5) }
        };
        let first = read(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let addresses = &addresses;
                let reach = move |step: u64| {
                    let end = (step + thread) << 20;
                    assert!(addresses.reach(end) && addresses.len() >= end);
                };
                scope.spawn(move || (1..=LEN >> 20).for_each(reach));
            }
        });
        assert_eq!((first, read(0), read(LEN - 5)), (&b"first"[..], &b"first"[..], &b"last!"[..]));
        for too_many in [1 << 47, 1 << 50, u64::MAX / 9 * 8 + 9, u64::MAX] {
            assert!(!addresses.reach(too_many), "no process has so many");
        }
        assert_eq!(read(LEN - 5), b"last!");
    }

    /// What he has mapped is in the way of others, who were told that there are no more.
    #[test]
    fn who_takes_more_may_stand_still_before_he_says_so() {
        let file = memory_file().unwrap();
        file.set_len(4 * PIECE).unwrap();
        let addresses = few(&file, 2 * NEAR);
        let behind = 2 * NEAR + PIECE;
        let others = map(&file, libc::PROT_READ, libc::MAP_SHARED, behind, PIECE).unwrap();
        if others.addr().get() as u64 != behind {
            println!("skipped: the thread sanitizer has maps put elsewhere");
            return;
        }
        std::thread::scope(|scope| {
            let more = scope.spawn(|| addresses.reach(2 * PIECE));
            std::thread::sleep(Duration::from_millis(100));
            unmap(others, PIECE);
            assert!(more.join().unwrap());
        });
    }
}
