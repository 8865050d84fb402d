//! The common case of a lookup in memory, in as few instructions as it can be.
//!
//! A processor overlaps the cache misses of successive lookups as far as their instructions fit
//! in its window of a few hundred: a lookup written without regard to that, of 250 instructions,
//! took three times as long. So here only what is common is done: buckets that one or two wide
//! compares cover and records that are not in lists; [`Index::find`] does everything else from
//! the start. Bounds are checked once for a file and once for a bucket ([`super::view`]), and
//! results go from function to function in registers: a `Result` that a call fills in would lie in
//! memory also where that call is not made.

use super::batch::{BATCH, Batch};
use super::block::{ENTRIES, Home};
use super::bucket::{REF_MARK, Ref, fingerprint, same};
use super::format::{Addressing, Kind};
use super::lanes::{HALF_LANES, LANES, equal_mask, equal_mask_half, sum_first};
use super::lookup::{Index, LISTED, RECORD_HEAD};
use super::view::{Bucket, InBlock, Unclear, Window};
use super::wanted::{Short, Wanted};
use crate::stats::Done;
use crate::{Error, Result};

/// What the first look at a bucket told.
#[derive(Clone, Copy)]
pub(crate) enum First<'d> {
    /// The value.
    Found(&'d [u8]),
    /// The key is not in the file.
    Absent,
    /// There is more to look at, or something is wrong.
    Unclear,
}

impl<'d> First<'d> {
    /// What the lookup came to, if that is clear.
    #[inline(always)]
    pub(crate) fn done(self) -> Option<Done> {
        match self {
            First::Found(value) => Some(Done::found(Some(value.len()))),
            First::Absent => Some(Done::found(None)),
            First::Unclear => None,
        }
    }

    /// What was found, of which it may be unclear whether it is all.
    #[inline(always)]
    fn of(found: Option<&'d [u8]>, is_unclear: bool) -> First<'d> {
        match found {
            Some(value) => First::Found(value),
            None if is_unclear => First::Unclear,
            None => First::Absent,
        }
    }
}

impl Index {
    /// Looks `key` up in the bytes of the whole file, if they are all here. Inlined into the
    /// caller's loop: calls were a tenth of the instructions.
    #[inline(always)]
    pub(crate) fn first_look<'d>(&self, data: &'d [u8], key: &[u8]) -> First<'d> {
        let Some(window) = Window::new(data, &self.bounds) else { return First::Unclear };
        // Where there are no rows, no key is as long as those of records: so this asks for both at once.
        if let Some(sought) = window.sought_short(key) {
            return match sought.find(sought.hash(&self.hash)) {
                Ok(found) => found.map_or(First::Absent, First::Found),
                Err(Unclear) => First::Unclear,
            };
        }
        match self.addressing {
            Addressing::Rows(_) => return self.look_in_rows(data, key),
            Addressing::Blocks(_) => return self.look_in_blocks(window, data, key),
            Addressing::Directory => {}
        }
        if self.shape.kind == Kind::Refs
            && self.takes_words
            && let Some(key) = Short::of(key)
        {
            let hash = key.hash(&self.hash);
            // Not `map_or`, which became a call.
            let Some(bucket) = window.bucket(hash) else { return First::Unclear };
            return self.refs(data, bucket, key, hash);
        }
        let hash = self.hash(key);
        let Some((bucket, fraction)) = window.spot(hash) else { return First::Unclear };
        match self.shape.kind {
            Kind::Fixed { key_len, .. } => {
                bucket.prefetch(64);
                bucket.prefetch(bucket.len().wrapping_sub(1));
                self.fixed(bucket, key, hash, key_len)
            }
            Kind::Mixed => {
                // Entries are sorted by hash: it tells about where in the bucket its own is. The
                // upper halves are exact enough for a guess.
                let len = bucket.len() as u64;
                let head = (len * self.head_share) >> 16;
                let expected = head + (((fraction >> 32) * (len - head)) >> 32);
                bucket.prefetch(expected as usize);
                self.mixed(data, bucket, key, hash)
            }
            Kind::Refs => self.refs(data, bucket, key, hash),
        }
    }

    /// Looks `key`, of any length, up among records of one size.
    #[inline(always)]
    fn look_in_rows<'d>(&self, data: &'d [u8], key: &[u8]) -> First<'d> {
        let mut is_unclear = false;
        let found = self.look_at_row(data, key, &mut is_unclear);
        First::of(found, is_unclear)
    }

    /// The value of a key in a file with rows.
    #[inline(never)]
    fn look_at_row<'d>(
        &self,
        data: &'d [u8],
        key: &[u8],
        is_unclear: &mut bool,
    ) -> Option<&'d [u8]> {
        let sought = Window::new(data, &self.bounds)?.sought(key)?;
        let found = sought.find(self.hash(key));
        *is_unclear = found.is_err();
        found.unwrap_or(None)
    }

    /// Looks `key` up in its home, and where it may be besides.
    #[inline(always)]
    fn look_in_blocks<'d>(&self, window: Window<'d, '_>, data: &'d [u8], key: &[u8]) -> First<'d> {
        if self.takes_words
            && let Some(key) = Short::of(key)
        {
            let hash = key.hash(&self.hash);
            let (block, home) = window.home(hash);
            // Entries are sorted by hash: it tells about where its own is, in one of two lines or three.
            let expected = (usize::from(home.level) * self.mean_used) >> 8;
            block.prefetch(expected + ENTRIES - 24);
            block.prefetch(expected + ENTRIES + 40);
            if let Ok(found) = at_home(block, home, hash, key) {
                return found.map_or(First::Absent, First::Found);
            }
        }
        let mut is_unclear = false;
        let found = self.look_through_blocks(data, key, &mut is_unclear);
        First::of(found, is_unclear)
    }

    /// Looks `key` up in its home and the blocks that what belongs there may have been moved to. Its
    /// results go by ways of their own, for the reason given above.
    #[inline(never)]
    pub(super) fn look_through_blocks<'d>(
        &self,
        data: &'d [u8],
        key: &[u8],
        is_unclear: &mut bool,
    ) -> Option<&'d [u8]> {
        let window = Window::new(data, &self.bounds)?;
        let hash = self.hash(key);
        let (mut block, home) = window.home(hash);
        if block.moved_on(home) {
            block = block.next()?;
        }
        for _ in 0..=self.chain {
            match block.find(fingerprint(hash), key) {
                Ok(Some(value)) => return Some(value),
                Ok(None) if block.moves_all() => block = block.next()?,
                Ok(None) => return None,
                Err(Unclear) => {
                    let found = self.by_reference(window, block, key, hash);
                    *is_unclear = found.is_none();
                    return found;
                }
            }
        }
        None
    }

    /// The value of a key that the only reference with its fingerprint in a block leads to.
    fn by_reference<'d>(
        &self,
        window: Window<'d, '_>,
        block: InBlock,
        key: &[u8],
        hash: u64,
    ) -> Option<&'d [u8]> {
        let to = self.shape.decode_ref(block.reference(fingerprint(hash))?, hash);
        let record =
            if to.list || !to.tag_fits { None } else { window.data().get(to.at as usize..) };
        log_value(record?, key)
    }

    /// Looks for `key` in a bucket of records of one size.
    #[inline(always)]
    fn fixed<'d>(&self, bucket: Bucket<'d>, key: &[u8], hash: u64, key_len: usize) -> First<'d> {
        let Some((n, mut mask)) = self.candidates(bucket, hash) else { return First::Unclear };
        // Numbers of few bits show the compiler that no sum of them overflows.
        let size = usize::from(self.shape.entry_bytes as u16);
        while mask != 0 {
            if key.len() != key_len {
                return First::Absent;
            }
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let entry = bucket.get(n + i * size, size);
            match entry.and_then(|entry| entry.split_at_checked(key.len())) {
                Some((stored, value)) if same(stored, key) => return First::Found(value),
                Some(_) => {}
                None => return First::Unclear,
            }
        }
        First::Absent
    }

    /// Looks at the candidates in a bucket of records of several sizes.
    #[inline(always)]
    fn mixed<'d>(&self, data: &'d [u8], bucket: Bucket<'d>, key: &[u8], hash: u64) -> First<'d> {
        let head = bucket.head();
        let n = usize::from(head[0]);
        if n > LANES || bucket.len() == 0 {
            return if bucket.len() == 0 { First::Absent } else { First::Unclear };
        }
        let Some(prints) = head[1..].first_chunk() else { return First::Unclear };
        let mut mask = equal_mask(prints, fingerprint(hash)) & ((1u64 << n) - 1) as u32;
        while mask != 0 {
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let Some(key_len) = head.get(1 + n + i).copied() else { return First::Unclear };
            if key_len == REF_MARK {
                let word = mixed_entry(bucket, n, i).and_then(|at| bucket.word(at));
                match word.map(|word| self.shape.decode_ref(word, hash)) {
                    Some(to) if to.tag_fits => return self.referred(data, to, key),
                    Some(_) => continue,
                    None => return First::Unclear,
                }
            }
            if usize::from(key_len) != key.len() {
                continue;
            }
            let size = head.get(1 + 2 * n + i).copied().unwrap_or_default();
            let at = mixed_entry(bucket, n, i);
            let entry = at.and_then(|at| bucket.get(at, usize::from(size)));
            match entry.and_then(|entry| entry.split_at_checked(key.len())) {
                Some((stored, value)) if same(stored, key) => return First::Found(value),
                Some(_) => {}
                None => return First::Unclear,
            }
        }
        First::Absent
    }

    /// The first entry in a bucket of several sizes that may be that of the key.
    #[inline(always)]
    fn mixed_candidate<'d>(&self, bucket: Bucket<'d>, key_len: usize, hash: u64) -> First<'d> {
        let head = bucket.head();
        let n = usize::from(head[0]);
        if n > LANES || bucket.len() == 0 {
            return if bucket.len() == 0 { First::Absent } else { First::Unclear };
        }
        let Some(prints) = head[1..].first_chunk() else { return First::Unclear };
        let mut mask = equal_mask(prints, fingerprint(hash)) & ((1u64 << n) - 1) as u32;
        while mask != 0 {
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let (len, size) = (head.get(1 + n + i), head.get(1 + 2 * n + i));
            let (Some(len), Some(size)) = (len, size) else { return First::Unclear };
            if usize::from(*len) == key_len || *len == REF_MARK {
                if *len == REF_MARK {
                    return First::Unclear;
                }
                let entry = mixed_entry(bucket, n, i);
                let entry = entry.and_then(|at| bucket.get(at, usize::from(*size)));
                return entry.map_or(First::Unclear, First::Found);
            }
        }
        First::Absent
    }

    /// Looks for `key` in a bucket of references.
    #[inline(always)]
    fn refs<'d, W: Wanted>(
        &self,
        data: &'d [u8],
        bucket: Bucket<'d>,
        key: W,
        hash: u64,
    ) -> First<'d> {
        match self.reference(bucket, hash) {
            Some(Some(to)) => self.referred(data, to, key),
            Some(None) => First::Absent,
            None => First::Unclear,
        }
    }

    /// The first reference in a bucket of them that fits; `None` if there is too much to look at.
    #[inline(always)]
    fn reference(&self, bucket: Bucket, hash: u64) -> Option<Option<Ref>> {
        let (n, mut mask) = self.candidates(bucket, hash)?;
        while mask != 0 {
            let at = n + mask.trailing_zeros() as usize * self.shape.ref_bytes;
            let to = self.shape.decode_ref(bucket.word(at)?, hash);
            if to.tag_fits {
                return Some(Some(to));
            }
            mask &= mask - 1;
        }
        Some(None)
    }

    /// The number of entries of a bucket of entries of one size, and a bit for each that may be
    /// that of this hash; `None` if there are too many for one wide compare.
    #[inline(always)]
    fn candidates(&self, bucket: Bucket, hash: u64) -> Option<(usize, u32)> {
        let n = self.shape.count_by_len(bucket.len());
        if n > HALF_LANES {
            if n > LANES {
                return None;
            }
            let mask = equal_mask(bucket.head().first_chunk()?, fingerprint(hash));
            return Some((n, mask & ((1u64 << n) - 1) as u32));
        }
        let mask = equal_mask_half(bucket.head().first_chunk()?, fingerprint(hash));
        Some((n, mask & !(u32::MAX << n)))
    }

    /// The record that a reference leads to, if it is a single one and the right one.
    #[inline(always)]
    fn referred<'d, W: Wanted>(&self, data: &'d [u8], to: Ref, key: W) -> First<'d> {
        let record = if to.list { None } else { data.get(to.at as usize..) };
        let value = record.and_then(|record| log_value(record, key));
        value.map_or(First::Unclear, First::Found)
    }

    /// The first value of each key, with up to 32 lookups waiting for memory at once.
    pub(crate) fn find_many<K: AsRef<[u8]>>(
        &self,
        data: &[u8],
        keys: &[K],
        f: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let Some(window) = Window::new(data, &self.bounds) else {
            return Err(Error::corrupt(0, "the file has another length than when it was opened"));
        };
        for (batch, base) in keys.chunks(BATCH).zip((0..).step_by(BATCH)) {
            let lookups = Batch { index: self, window, data, keys: batch, base };
            match self.addressing {
                Addressing::Rows(_) => {
                    lookups.in_rows(f)?;
                    continue;
                }
                Addressing::Blocks(_) => {
                    lookups.in_blocks(f)?;
                    continue;
                }
                Addressing::Directory => {}
            }
            match self.shape.kind {
                Kind::Fixed { key_len, .. } => lookups.in_one_step(
                    |bucket| {
                        bucket.prefetch(64);
                        bucket.prefetch(bucket.len().wrapping_sub(1));
                    },
                    |bucket, key, hash| self.fixed(bucket, key, hash, key_len),
                    f,
                )?,
                Kind::Mixed => lookups.in_two_steps(
                    |bucket| bucket.prefetch(48),
                    |bucket, key, hash| self.mixed_candidate(bucket, key.len(), hash),
                    |entry, key| {
                        let (stored, value) = entry.split_at_checked(key.len())?;
                        same(stored, key).then_some(value)
                    },
                    f,
                )?,
                Kind::Refs => lookups.in_two_steps(
                    |_| (),
                    |bucket, _, hash| match self.reference(bucket, hash) {
                        Some(Some(to)) if !to.list => {
                            data.get(to.at as usize..).map_or(First::Unclear, First::Found)
                        }
                        Some(None) => First::Absent,
                        _ => First::Unclear,
                    },
                    |record, key| log_value(record, key),
                    f,
                )?,
            }
        }
        Ok(())
    }

    /// Where the record of a key with this hash is to be expected in the log, if it is there.
    pub(crate) fn expected_record(&self, data: &[u8], hash: u64) -> Option<u64> {
        if self.shape.kind != Kind::Refs {
            return None;
        }
        let bucket = Window::new(data, &self.bounds)?.bucket(hash)?;
        self.reference(bucket, hash)?.map(|to| to.at)
    }
}

/// The value of a key in its home, if that tells.
#[inline(always)]
fn at_home<'d, W: Wanted>(
    block: InBlock<'d, '_>,
    home: Home,
    hash: u64,
    key: W,
) -> std::result::Result<Option<&'d [u8]>, Unclear> {
    if block.moved_on(home) {
        return Err(Unclear);
    }
    match block.find(fingerprint(hash), key)? {
        None if block.moves_all() => Err(Unclear),
        found => Ok(found),
    }
}

/// The value of a log record that begins `record`, if it is that of `key`.
#[inline(always)]
fn log_value<W: Wanted>(record: &[u8], key: W) -> Option<&[u8]> {
    let (lens, record) = record.split_first_chunk::<RECORD_HEAD>()?;
    let lens = u64::from_le_bytes(*lens);
    if (lens as u32 & !LISTED) as usize != key.len() {
        return None;
    }
    let record = record.get(..key.len() + (lens >> 32) as usize)?;
    let (stored, value) = record.split_at_checked(key.len())?;
    key.is(stored).then_some(value)
}

/// Where entry `i` of `n` begins in a bucket of entries of several sizes.
#[inline(always)]
fn mixed_entry(bucket: Bucket, n: usize, i: usize) -> Option<usize> {
    let sizes = bucket.head().get(1 + 2 * n..)?.first_chunk()?;
    Some(1 + 3 * n + sum_first(sizes, i))
}

#[cfg(test)]
mod tests {
    use crate::Get;
    use crate::constant::{BuildOptions, View};

    /// Large enough that chance makes buckets of more entries than the first wide compare takes,
    /// in files of each kind.
    #[test]
    fn keys_are_found_in_buckets_of_every_size() {
        let long = "x".repeat(300);
        for kind in ["rows", "Fixed", "Mixed", "Refs", "blocks"] {
            let value = |i: u32| match kind {
                "rows" | "Fixed" => format!("{i:08}"),
                "Mixed" => format!("{i:060}{i}"),
                "blocks" => format!("{i:0width$}", width = 7 + i as usize % 9),
                _ => format!("{i}{long}"),
            };
            let count = if kind == "Refs" { 60_000 } else { 300_000 };
            let records = (0..count).map(|i| (format!("{i:08}"), value(i)));
            let options = BuildOptions::new();
            let options = if kind == "Fixed" { options.directory() } else { options };
            let file = options.build_in_memory(records).unwrap();
            let view = View::new(&file).unwrap();
            view.verify(|_, _| ()).unwrap();
            let largest = view.stats().unwrap().largest_bucket;
            let expected = match kind {
                "rows" => 12..=12,
                "blocks" => 16..=16,
                _ => 17..=32,
            };
            assert!(expected.contains(&largest), "{kind}: {largest}");
            let keys: Vec<String> = (0..count + 100).map(|i| format!("{i:08}")).collect();
            let mut next = 0;
            let check = |i: usize, found: Option<&[u8]>| {
                let expected = (i < count as usize).then(|| value(i as u32));
                assert_eq!(found, expected.as_deref().map(str::as_bytes), "{kind} {i}");
            };
            for (i, key) in keys.iter().enumerate() {
                check(i, view.get(key.as_bytes()).unwrap());
            }
            let all = view.get_many(&keys, |i, found| {
                assert_eq!(i, next);
                next += 1;
                check(i, found);
            });
            all.unwrap();
            assert_eq!(next, keys.len());
        }
    }
}
