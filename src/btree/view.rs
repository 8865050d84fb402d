//! The btree engine's one place for `unsafe`: pages of the file as bytes, and who may change them; and
//! instructions that the compiler does not choose by itself.

#![allow(unsafe_code)]

use super::core::Locked;
use super::format::{PAGE, PAGE_BYTES};
use super::in_place::Alone;
use super::page::{self, Bytes, HEAD, WINDOW};
use super::record::Far;
use super::tag;
use crate::os::shared::SharedMap;

/// A promise that no page of some commit is written while it lives: the pin of a reader, or the
/// writer's lock.
pub(crate) trait Holds {}

/// The page with this number, if the file has it. `_held` keeps the pages as they are that a commit
/// leads to.
#[inline(always)]
pub(crate) fn page<'h>(
    map: &'h SharedMap,
    _held: &'h impl Holds,
    number: u64,
) -> Option<&'h Bytes> {
    let at = number.checked_mul(PAGE_BYTES)?;
    // SAFETY: the length is checked. Pages that a commit leads to are not written while `_held`
    // lives; a damaged page may lead elsewhere: the bytes there are then anything, but bytes.
    let bytes = unsafe { map.bytes(at, PAGE_BYTES)? };
    bytes.first_chunk::<PAGE>()
}

/// Bytes that are too many for a page of the tree.
#[inline(always)]
pub(crate) fn far<'h>(map: &'h SharedMap, _held: &'h impl Holds, far: Far) -> Option<&'h [u8]> {
    // SAFETY: as for `page`.
    unsafe { map.bytes(far.at, u64::from(far.len)) }
}

/// Writes bytes to pages that a power failure left as they may be, before anybody else has the store
/// open; `false` if the file does not have them.
pub(crate) fn redo(map: &SharedMap, at: u64, bytes: &[u8]) -> bool {
    // SAFETY: who opens the store alone, to begin a session, has borrowed nothing from the map; and the
    // map is writable, or a private one.
    unsafe { map.write(at, bytes) }
}

/// Puts back bytes of a leaf that somebody changed who died. The newest commit alone has it, and who wants to read that meanwhile
/// waits, or takes a copy by a read.
pub(crate) fn restore(map: &SharedMap, at: u64, bytes: &[u8]) -> bool {
    // SAFETY: nobody has borrowed anything of that leaf from the map, neither this one, who has the writer's lock or the store
    // alone, nor a reader.
    unsafe { map.write(at, bytes) }
}

/// The right to write pages that nobody else can know of: those whose birth is not before `since`.
/// It has the writer's lock, so there is one in all processes.
#[derive(Debug)]
pub(crate) struct Own<'c> {
    _lock: Locked<'c>,
    map: &'c SharedMap,
    /// No commit has pages of this birth or a later one, and nobody holds such a page.
    pub since: u64,
}

impl Holds for Own<'_> {}

impl<'c> Own<'c> {
    /// `since` is a stamp after those of all commits.
    pub(crate) fn new(lock: Locked<'c>, map: &'c SharedMap, since: u64) -> Own<'c> {
        Own { _lock: lock, map, since }
    }

    /// A page to read.
    #[inline(always)]
    pub(crate) fn page(&self, number: u64) -> Option<&Bytes> {
        page(self.map, self, number)
    }

    /// Bytes that are too many for a page of the tree.
    #[inline(always)]
    pub(crate) fn elsewhere(&self, place: Far) -> Option<&[u8]> {
        far(self.map, self, place)
    }

    /// A page to write; `None` if it is not this writer's alone.
    #[inline(always)]
    pub(crate) fn page_mut(&mut self, number: u64) -> Option<&mut Bytes> {
        if page::birth(self.page(number)?) < self.since {
            return None;
        }
        self.any_mut(number)
    }

    #[inline(always)]
    fn any_mut(&mut self, number: u64) -> Option<&mut Bytes> {
        let at = number.checked_mul(PAGE_BYTES)?;
        // SAFETY: the page was born under this writer, or is free, so that no commit leads to it; or the newest commit leads to
        // it, and by `Alone` nobody holds that, or will before the next. Who has the lock is the only one who writes
        // such; what was borrowed from `self` is gone.
        let bytes = unsafe { self.map.bytes_mut(at, PAGE_BYTES)? };
        bytes.first_chunk_mut::<PAGE>()
    }

    /// A page of the newest commit to write, which nobody looks at.
    pub(crate) fn alone_mut(&mut self, number: u64, _alone: &Alone) -> Option<&mut Bytes> {
        self.any_mut(number)
    }

    /// A page to read, and one that is this writer's own to write.
    pub(crate) fn pair(&mut self, read: u64, written: u64) -> Option<(&Bytes, &mut Bytes)> {
        if read == written || page::birth(self.page(written)?) < self.since {
            return None;
        }
        let at = read.checked_mul(PAGE_BYTES)?;
        // SAFETY: as for `any_mut`; they are two pages, and that at `read` is not written.
        let old = unsafe { self.map.bytes(at, PAGE_BYTES)? };
        Some((old.first_chunk::<PAGE>()?, self.any_mut(written)?))
    }

    /// Makes a page that the table of pages calls free one of this writer's.
    pub(crate) fn adopt(&mut self, number: u64, stamp: u64) -> Option<&mut Bytes> {
        let bytes = self.any_mut(number)?;
        page::set_birth(bytes, stamp);
        Some(bytes)
    }

    /// The same with the bytes of another page.
    #[inline(always)]
    pub(crate) fn adopt_copy(&mut self, from: u64, to: u64, stamp: u64) -> Option<()> {
        if from == to {
            return None;
        }
        // SAFETY: as for `any_mut`; they are two pages, and that at `from` is not written.
        unsafe {
            let old = self.map.bytes(from.checked_mul(PAGE_BYTES)?, PAGE_BYTES)?;
            let new = self.map.bytes_mut(to.checked_mul(PAGE_BYTES)?, PAGE_BYTES)?;
            new[8..].copy_from_slice(&old[8..]);
        }
        page::set_birth(self.any_mut(to)?, stamp);
        Some(())
    }

    /// Writes bytes to space that the table of pages gave this writer, or behind the last value in a
    /// page of values of a leaf.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> bool {
        // SAFETY: as for `any_mut`; no commit refers to what is behind the last value.
        unsafe { self.map.write(at, bytes) }
    }
}

/// How many of a window's heads, which are in order, are lower.
///
/// Counted one by one, the compiler finds the four comparisons of vectors by itself, but then counts the
/// bits of their mask in twenty instructions, where finding the first is one: processors without
/// `popcnt` are those it compiles for.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn lower_in_window(window: &[[u8; HEAD]; WINDOW], wanted: u32) -> usize {
    use std::arch::x86_64::*;
    let heads = window.as_ptr().cast::<__m128i>();
    // SAFETY: every processor of this architecture has SSE2; the window is four times 16 bytes, which
    // need no alignment.
    let not_lower = unsafe {
        // Numbers without a sign are compared as such with one, with their highest bits turned.
        let turn = _mm_set1_epi32(i32::MIN);
        let wanted = _mm_xor_si128(_mm_set1_epi32(wanted.cast_signed()), turn);
        let four = |i| _mm_cmplt_epi32(_mm_xor_si128(_mm_loadu_si128(heads.add(i)), turn), wanted);
        let (low, high) = (_mm_packs_epi32(four(0), four(1)), _mm_packs_epi32(four(2), four(3)));
        !_mm_movemask_epi8(_mm_packs_epi16(low, high))
    };
    // Bits above the window's are set: it ends there at the latest.
    not_lower.trailing_zeros() as usize
}

/// How many of a window's heads are lower.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn lower_in_window(window: &[[u8; HEAD]; WINDOW], wanted: u32) -> usize {
    window.iter().filter(|head| u32::from_le_bytes(**head) < wanted).count()
}

/// Which of a window's places have this tag beside them, as bits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn with_tag_in_window(window: &[u8; 2 * tag::WINDOW], tag: u16) -> u32 {
    use std::arch::x86_64::*;
    let places = window.as_ptr().cast::<__m128i>();
    // SAFETY: as for `lower_in_window`; the window is twice 16 bytes.
    unsafe {
        let tag = _mm_set1_epi16(tag.cast_signed() >> 12);
        let eight = |i| _mm_cmpeq_epi16(_mm_srai_epi16(_mm_loadu_si128(places.add(i)), 12), tag);
        _mm_movemask_epi8(_mm_packs_epi16(eight(0), eight(1))).cast_unsigned()
    }
}

/// The same.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn with_tag_in_window(window: &[u8; 2 * tag::WINDOW], tag: u16) -> u32 {
    let places = window.as_chunks::<2>().0.iter().enumerate();
    let has_tag = |place: &[u8; 2]| u16::from_le_bytes(*place) >> 12 == tag >> 12;
    places.fold(0, |found, (i, place)| found | u32::from(has_tag(place)) << i)
}
