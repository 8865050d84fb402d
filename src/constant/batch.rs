//! Lookups of many keys, whose waits for memory are made to overlap: what one needs first is asked for,
//! for all of them, before any of it is used. [`super::fast`] says what a lookup looks at.

use super::bucket::{fingerprint, same};
use super::fast::First;
use super::lanes::prefetch;
use super::lookup::Index;
use super::view::{Bucket, Unclear, Window};
use crate::Result;
use crate::os::source::Memory;

/// Lookups in flight at once: 64 gained nothing over 32.
pub(super) const BATCH: usize = 32;

/// Up to 32 lookups that go on together.
pub(super) struct Batch<'a, 'd, K> {
    pub index: &'a Index,
    pub window: Window<'d, 'a>,
    pub data: &'d [u8],
    pub keys: &'a [K],
    /// The number of the first key.
    pub base: usize,
}

impl<'d, K: AsRef<[u8]>> Batch<'_, 'd, K> {
    /// Asks for all lines of the directory, then for those of the buckets that `ask` names, then
    /// gives what `look` finds.
    #[inline(always)]
    pub(super) fn in_one_step(
        &self,
        ask: impl Fn(Bucket),
        look: impl Fn(Bucket<'d>, &[u8], u64) -> First<'d>,
        f: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let (hashes, buckets) = self.buckets(ask);
        for (i, ((key, hash), bucket)) in self.keys.iter().zip(hashes).zip(buckets).enumerate() {
            let key = key.as_ref();
            let first = bucket.map_or(First::Unclear, |bucket| look(bucket, key, hash));
            f(self.base + i, self.value(first, key)?);
        }
        Ok(())
    }

    /// The same, but of what `look` finds the first bytes are asked for, too, and then it is given
    /// what `finish` makes of that.
    #[inline(always)]
    pub(super) fn in_two_steps(
        &self,
        ask: impl Fn(Bucket),
        look: impl Fn(Bucket<'d>, &[u8], u64) -> First<'d>,
        finish: impl Fn(&'d [u8], &[u8]) -> Option<&'d [u8]>,
        f: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let (hashes, buckets) = self.buckets(ask);
        let mut firsts = [First::Unclear; BATCH];
        let all = self.keys.iter().zip(hashes).zip(buckets);
        for (first, ((key, hash), bucket)) in firsts.iter_mut().zip(all) {
            *first = bucket.map_or(First::Unclear, |bucket| look(bucket, key.as_ref(), hash));
            if let First::Found(bytes) = *first {
                prefetch(bytes, 0);
                prefetch(bytes, bytes.len().wrapping_sub(1).min(63));
            }
        }
        for (i, (key, first)) in self.keys.iter().zip(firsts).enumerate() {
            let key = key.as_ref();
            let first = match first {
                First::Found(bytes) => finish(bytes, key).map_or(First::Unclear, First::Found),
                other => other,
            };
            f(self.base + i, self.value(first, key)?);
        }
        Ok(())
    }

    /// Asks for all rows, then for the records that may be the keys', then gives the values of those that are.
    #[inline(always)]
    pub(super) fn in_rows(&self, f: &mut impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let mut hashes = [0; BATCH];
        for (hash, key) in hashes.iter_mut().zip(self.keys) {
            *hash = self.index.hash(key.as_ref());
            self.window.prefetch_row(*hash);
        }
        for hash in hashes.iter().take(self.keys.len()) {
            let (row, _) = self.window.row(*hash);
            let mask = row.mask(fingerprint(*hash));
            if mask != 0 {
                self.window.prefetch_record(row.first() + mask.trailing_zeros() as usize);
            }
        }
        for (i, (key, hash)) in self.keys.iter().zip(hashes).enumerate() {
            let key = key.as_ref();
            let first = match self.window.sought(key).map(|sought| sought.find(hash)) {
                None => First::Absent,
                Some(Ok(found)) => found.map_or(First::Absent, First::Found),
                Some(Err(Unclear)) => First::Unclear,
            };
            f(self.base + i, self.value(first, key)?);
        }
        Ok(())
    }

    /// Asks for the heads of all homes, then for the entries that may be the keys', then gives the
    /// values of those that are.
    #[inline(always)]
    pub(super) fn in_blocks(&self, f: &mut impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let mut hashes = [0; BATCH];
        for (hash, key) in hashes.iter_mut().zip(self.keys) {
            *hash = self.index.hash(key.as_ref());
            self.window.home(*hash).0.prefetch(0);
        }
        let mut firsts = [First::Unclear; BATCH];
        for (first, (key, hash)) in firsts.iter_mut().zip(self.keys.iter().zip(hashes)) {
            let (block, home) = self.window.home(hash);
            if block.moved_on(home) {
                continue;
            }
            match block.candidate(fingerprint(hash), key.as_ref().len()) {
                Ok(Some(entry)) => {
                    prefetch(entry, 0);
                    prefetch(entry, entry.len().wrapping_sub(1).min(63));
                    *first = First::Found(entry);
                }
                Ok(None) if !block.moves_all() => *first = First::Absent,
                _ => {}
            }
        }
        for (i, (key, first)) in self.keys.iter().zip(firsts).enumerate() {
            let key = key.as_ref();
            let parts = match first {
                First::Found(entry) => entry.split_at_checked(key.len()),
                First::Absent => {
                    f(self.base + i, None);
                    continue;
                }
                First::Unclear => None,
            };
            match parts {
                Some((stored, value)) if same(stored, key) => f(self.base + i, Some(value)),
                _ => f(self.base + i, self.further(key)?),
            }
        }
        Ok(())
    }

    /// The value of a key that was not found at once where it should be.
    #[inline(never)]
    fn further(&self, key: &[u8]) -> Result<Option<&'d [u8]>> {
        let mut is_unclear = false;
        match self.index.look_through_blocks(self.data, key, &mut is_unclear) {
            None if is_unclear => self.index.find(&Memory(self.data), key),
            found => Ok(found),
        }
    }

    /// The hashes and the buckets, their lines and those that `ask` names on the way.
    #[inline(always)]
    fn buckets(&self, ask: impl Fn(Bucket)) -> ([u64; BATCH], [Option<Bucket<'d>>; BATCH]) {
        let (mut hashes, mut buckets) = ([0; BATCH], [None; BATCH]);
        for (hash, key) in hashes.iter_mut().zip(self.keys) {
            *hash = self.index.hash(key.as_ref());
            self.window.prefetch_group(*hash);
        }
        for (slot, hash) in buckets.iter_mut().zip(hashes).take(self.keys.len()) {
            *slot = self.window.bucket(hash);
            if let Some(bucket) = *slot {
                bucket.prefetch(0);
                ask(bucket);
            }
        }
        (hashes, buckets)
    }

    #[inline(always)]
    fn value(&self, first: First<'d>, key: &[u8]) -> Result<Option<&'d [u8]>> {
        match first {
            First::Found(value) => Ok(Some(value)),
            First::Absent => Ok(None),
            First::Unclear => self.index.find(&Memory(self.data), key),
        }
    }
}
