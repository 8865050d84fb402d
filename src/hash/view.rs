//! The hash engine's one place for `unsafe`: records as slices, eight slots compared at once, and the end of
//! an index that was replaced.

#![allow(unsafe_code)]

use super::core::Core;
use super::index::Index;
use super::pins;
use super::record::{Kind, RecordHeader, SHORT_HEADER, is_dead, marked, short_put, short_room};
use super::writer::Writer;
use crate::os::atomic::{AtomicU64, Ordering};
use crate::os::process::forks;
use crate::os::shared::SharedMap;

/// A promise that no segment of the log is written over while it lives: the pin of a reader, or
/// the writer's lock.
pub(crate) trait Holds {}

impl Holds for &dyn Holds {}

/// Drops the indexes of this process that others have replaced and nobody looks at any more: their files
/// would be open, and mapped, as long as the store is. `writer` has the writers' lock; without one the
/// store was opened for reading only.
pub(crate) fn drop_replaced_indexes(core: &Core, writer: Option<&Writer<'_>>) {
    if writer.is_some() != core.data.is_writable() {
        return;
    }
    // In a forked process a pin may be its parent's, of whom it is a copy in the middle of a look.
    let is_forked = core.forks != forks();
    let may_go = |index: &Index| match writer {
        None => true,
        Some(writer) if std::ptr::eq(index, writer.index) => false,
        Some(_) => match index.replaced.load(Ordering::Relaxed) {
            0 => {
                index.replaced.store(pins::end_epoch(&core.data), Ordering::Relaxed);
                false
            }
            epoch => !pins::is_looked_at(&core.data, epoch, is_forked),
        },
    };
    // SAFETY: an index is looked at by who has the writers' lock, which nobody else has now; by readers
    // with a pin, who got it in an epoch before the newest took its place, and those are gone; or by who
    // holds all indexes.
    unsafe { core.newest.drop_replaced(may_go) }
}

/// A record of the log.
#[derive(Clone, Copy)]
pub(crate) struct RecordView<'h> {
    pub header: RecordHeader,
    pub key: &'h [u8],
    pub value: &'h [u8],
}

/// The record at `at`; `None` if what is there is none. `_held` keeps it as it is.
#[inline(always)]
pub(crate) fn record<'h>(
    data: &'h SharedMap,
    _held: &'h impl Holds,
    at: u64,
) -> Option<RecordView<'h>> {
    let first = data.word(at)?.load(Ordering::Relaxed);
    let second = || Some(data.word(at + 8)?.load(Ordering::Relaxed));
    let header = RecordHeader::decode(first, second)?;
    let key_at = at + header.header_bytes();
    let (key_len, value_len) = match header.kind {
        Kind::Put | Kind::Delete | Kind::Remove => {
            (u64::from(header.key_len), u64::from(header.value_len))
        }
        Kind::Batch | Kind::Clear | Kind::End | Kind::Evict => (0, 0),
    };
    // SAFETY: the lengths are checked by `bytes`. Records are written before a slot or the end of
    // the log leads to them, and never after; segments are not written over while `_held` lives.
    // A damaged index may lead elsewhere: the bytes there are then anything, but bytes.
    unsafe {
        let all = data.bytes(key_at, key_len + value_len)?;
        let (key, value) = all.split_at_checked(key_len as usize)?;
        Some(RecordView { header, key, value })
    }
}

/// The key of the record at `at`, and the room that it takes; `None` if what is there is none.
#[inline(always)]
pub(crate) fn key_and_room<'h>(
    data: &'h SharedMap,
    held: &'h impl Holds,
    at: u64,
) -> Option<(&'h [u8], u64)> {
    let first = data.word(at)?.load(Ordering::Relaxed);
    let Some((key_len, value_len)) = short_put(first) else {
        let found = record(data, held, at)?;
        return Some((found.key, found.header.room()));
    };
    // SAFETY: as for `record`.
    let key = unsafe { data.bytes(at + SHORT_HEADER as u64, key_len)? };
    Some((key, short_room(key_len, value_len)))
}

/// The value of the record at `at` if it is a put of `key`.
#[inline(always)]
pub(crate) fn value_if_key<'h>(
    data: &'h SharedMap,
    held: &'h impl Holds,
    at: u64,
    key: &[u8],
) -> Option<&'h [u8]> {
    let first = data.word(at)?.load(Ordering::Relaxed);
    let Some((key_len, value_len)) = short_put(first) else {
        let found = record(data, held, at)?;
        return (found.key == key).then_some(found.value);
    };
    if key_len != key.len() as u64 {
        return None;
    }
    // SAFETY: as for `record`.
    let all = unsafe { data.bytes(at + SHORT_HEADER as u64, key_len + value_len)? };
    let (found, value) = all.split_at_checked(key.len())?;
    equal(found, key).then_some(value)
}

/// The room that the record at `at` takes if it is of `key`, else 0; `None` if it is no record.
#[inline(always)]
pub(crate) fn room_if_key(data: &SharedMap, held: &impl Holds, at: u64, key: &[u8]) -> Option<u64> {
    let first = data.word(at)?.load(Ordering::Relaxed);
    let Some((key_len, value_len)) = short_put(first) else {
        let found = record(data, held, at)?;
        return Some(if found.key == key { found.header.room() } else { 0 });
    };
    if key_len != key.len() as u64 {
        return Some(0);
    }
    // SAFETY: as for `record`.
    let found = unsafe { data.bytes(at + SHORT_HEADER as u64, key_len)? };
    Some(if equal(found, key) { short_room(key_len, value_len) } else { 0 })
}

/// Whether two keys of one length are equal; short ones without a call.
#[inline(always)]
fn equal(a: &[u8], b: &[u8]) -> bool {
    if let (Some((a_first, _)), Some((b_first, _))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
        && a.len() <= 16
        && let (Some(a_last), Some(b_last)) = (a.last_chunk::<8>(), b.last_chunk::<8>())
    {
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        return (word(a_first) ^ word(b_first)) | (word(a_last) ^ word(b_last)) == 0;
    }
    a == b
}

/// Raw bytes of the log, for reading records one after the other and checking them.
pub(crate) fn bytes<'h>(
    data: &'h SharedMap,
    _held: &'h impl Holds,
    at: u64,
    len: u64,
) -> Option<&'h [u8]> {
    // SAFETY: as for `record`.
    unsafe { data.bytes(at, len) }
}

/// Whether the record at `at` is marked as one that the index no longer leads to.
#[inline(always)]
pub(crate) fn is_marked_dead(data: &SharedMap, at: u64) -> bool {
    data.word(at).is_some_and(|word| is_dead(word.load(Ordering::Relaxed)))
}

/// Marks the record at `at`, or takes the mark away; only the writer.
#[inline(always)]
pub(crate) fn mark_dead(data: &SharedMap, at: u64, is_dead: bool) {
    if let Some(word) = data.word(at) {
        word.store(marked(word.load(Ordering::Relaxed), is_dead), Ordering::Relaxed);
    }
}

/// Writes bytes of the log that nobody can reach yet, or that only the writer looks at; `false`
/// if there is no room in the file.
#[inline(always)]
pub(crate) fn write(data: &SharedMap, at: u64, bytes: &[u8]) -> bool {
    // SAFETY: the caller holds the writer's lock, and `at` is behind the end of the log, or in a
    // segment that is in nobody's reach; the map is writable, for else there is no lock to hold.
    unsafe { data.write(at, bytes) }
}

/// The slots of a line whose upper halves equal `wanted` where `mask` is set: a bit for each.
#[inline(always)]
pub(crate) fn match_line(line: &[AtomicU64; 8], wanted: u32, mask: u32) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::*;
        let start: *const __m128 = line.as_ptr().cast();
        // SAFETY: SSE2 is part of x86_64; the loads lie within the 64 bytes, which are aligned to
        // 8. Another process may store to a slot meanwhile: aligned words do not tear on this
        // machine, and whoever uses a slot loads it again as an atomic word.
        unsafe {
            let upper = |i: usize| {
                let low = _mm_loadu_ps(start.add(i).cast());
                let high = _mm_loadu_ps(start.add(i + 1).cast());
                _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(low, high))
            };
            let wanted = _mm_set1_epi32(wanted.cast_signed());
            let mask = _mm_set1_epi32(mask.cast_signed());
            let equal = |i| _mm_cmpeq_epi32(_mm_and_si128(upper(i), mask), wanted);
            let both = _mm_packs_epi32(equal(0), equal(2));
            let bits = _mm_movemask_epi8(_mm_packs_epi16(both, both)).cast_unsigned();
            bits & 0xff
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        let fits = |slot: &AtomicU64| (slot.load(Ordering::Acquire) >> 32) as u32 & mask == wanted;
        line.iter().enumerate().map(|(i, slot)| u32::from(fits(slot)) << i).fold(0, |m, b| m | b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_halves_are_compared() {
        let line: [AtomicU64; 8] =
            std::array::from_fn(|i| AtomicU64::new((i as u64 % 3) << 40 | 77));
        for wanted in 0..4u32 {
            let mask = match_line(&line, wanted << 8, 0x7fff_ff00);
            for i in 0..8u32 {
                assert_eq!(mask >> i & 1 == 1, i % 3 == wanted, "{wanted} {i}");
            }
        }
        line[3].store(1 << 63 | 2 << 40, Ordering::Relaxed);
        assert_eq!(match_line(&line, 2 << 8, 0x7fff_ff00) >> 3 & 1, 1);
    }
}
