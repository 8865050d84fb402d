//! Blocks: buckets of small records of several sizes that all have the same number of bytes, and therefore need no
//! directory.
//!
//! ```text
//! n (1) | limit (1) | fingerprint (1) * 16 | key length (1) * 16 | size (1) * 16 | entry * n | zeros
//! ```
//!
//! The hash of a key names its *home*, one of the first blocks. Where that is full, entries with the largest
//! hashes are moved into the next block, and from there on. So a block says up to which *level*, a 256th of its
//! range of hashes, its own entries are in it: a lookup knows from its home where to look, and needs not look twice. Most
//! blocks have the largest limit: nothing was moved.
//!
//! Invariants: over all blocks, entries are sorted by hash, those of one hash in the order in which they were added;
//! no entry is in a block before its home; an entry whose level is at most its home's limit is at home. The limit 0
//! also says of a block that nothing follows from not finding a key there: it may be in the next one, and so may those
//! that were moved into this one.
//!
//! The empty key has no entry but a reference, as no comparison would tell whether damage has led elsewhere: so a lookup
//! needs no count of entries, as all lanes without one have the length 0.

use super::bucket::{MAX_INLINE, each_record, fingerprint};
use crate::bytes::{array, copy_short};

/// Most blocks that an entry may be moved on by, in any file: what a lookup costs at most.
pub(crate) const MAX_CHAIN: u64 = 32;
/// The same for files that are built. Chance comes to half of it where sizes are much alike; where they are not, a
/// directory is better.
pub(crate) const MOST_MOVED: u64 = 16;
/// Most entries of a block: what one compare takes.
pub(crate) const LANES: usize = 16;
/// Where fingerprints, lengths of keys and sizes begin, and where entries do.
pub(crate) const PRINTS: usize = 2;
pub(crate) const KEY_LENS: usize = PRINTS + LANES;
pub(crate) const SIZES: usize = KEY_LENS + LANES;
pub(crate) const ENTRIES: usize = SIZES + LANES;
/// Blocks are made of whole cache lines.
pub(crate) const LINE: usize = 64;
/// Sizes of a block: room for the largest entry at least, and a page at most.
pub(crate) const STEPS: std::ops::RangeInclusive<usize> = ENTRIES + MAX_INLINE..=4096;

/// How blocks are laid out in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Bytes of a block.
    pub step: usize,
    /// Blocks that hashes name; behind them may be a few for what was moved.
    pub homes: u64,
}

/// Where a hash belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub block: u64,
    /// The hash's place among all of the block, as a fraction of 2^8.
    pub level: u8,
}

impl Home {
    #[inline(always)]
    pub(crate) fn of(hash: u64, homes: u64) -> Home {
        let product = u128::from(hash) * u128::from(homes);
        Home { block: (product >> 64) as u64, level: (product >> 56) as u8 }
    }
}

/// Which entries of a block are in later ones: the last level of which its own are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(super) u8);

impl Limit {
    /// Nothing was moved.
    const NONE: Limit = Limit(u8::MAX);

    /// That of a block.
    pub(crate) fn of(block: &[u8]) -> Limit {
        Limit(block.get(1).copied().unwrap_or(u8::MAX))
    }

    /// Whether a key of this home is in a later block, if anywhere.
    pub(crate) fn moved_on(self, home: Home) -> bool {
        home.level > self.0
    }

    /// Whether a key that is not here may be in a later block, whatever its home.
    pub(crate) fn moves_all(self) -> bool {
        self.0 == 0
    }
}

/// The lanes of a block as a bucket with so many entries, each of which lies one byte further on in the block.
pub(crate) fn lanes_of(block: &[u8]) -> Vec<u8> {
    let mut bucket = block.get(1..).unwrap_or_default().to_vec();
    if let Some(n) = bucket.first_mut() {
        *n = LANES as u8;
    }
    bucket
}

/// A block as a reader sees it that does not hurry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'b> {
    head: &'b [u8; ENTRIES],
    entries: &'b [u8],
    /// Entries.
    pub n: usize,
    pub limit: Limit,
}

impl<'b> Block<'b> {
    /// `None` if it makes no sense.
    pub(crate) fn new(bytes: &'b [u8]) -> Option<Block<'b>> {
        let [n, limit] = array(bytes, 0)?;
        let (head, entries) = bytes.split_first_chunk::<ENTRIES>()?;
        let (n, limit) = (usize::from(n), Limit(limit));
        (n <= LANES).then_some(Block { head, entries, n, limit })
    }

    /// The bytes of a column of the head that belong to entries, and those that do not.
    fn column(&self, at: usize) -> (&'b [u8], &'b [u8]) {
        self.head.get(at..at + LANES).unwrap_or_default().split_at(self.n)
    }

    /// Bytes of all entries.
    fn entry_bytes(&self) -> usize {
        self.column(SIZES).0.iter().map(|size| usize::from(*size)).sum()
    }

    /// The same entries as a bucket holds them that the directory leads to, and how much further on than there they
    /// lie here; `None` if they pass the end.
    pub(crate) fn bucket(&self) -> Option<(Vec<u8>, usize)> {
        if self.n == 0 {
            return Some((Vec::new(), 0));
        }
        let mut out = vec![self.n as u8];
        for column in [PRINTS, KEY_LENS, SIZES] {
            out.extend_from_slice(self.column(column).0);
        }
        let shift = ENTRIES - out.len();
        out.extend_from_slice(self.entries.get(..self.entry_bytes())?);
        Some((out, shift))
    }

    /// Bytes that nothing is kept in; `None` if entries pass the end, one of these bytes is not zero, or an entry is that of
    /// the empty key.
    pub(crate) fn slack(&self) -> Option<usize> {
        let rest = self.entries.get(self.entry_bytes()..)?;
        let lanes = [PRINTS, KEY_LENS, SIZES].map(|column| self.column(column).1);
        if lanes.into_iter().chain([rest]).flatten().any(|byte| *byte != 0)
            || self.column(KEY_LENS).0.contains(&0)
        {
            return None;
        }
        Some(rest.len() + 3 * (LANES - self.n))
    }

    /// Gives the records that lie here to `f`; false if they pass the end.
    #[inline(always)]
    pub(crate) fn records<E>(
        &self,
        f: &mut impl FnMut(&'b [u8], &'b [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        each_record(self.column(KEY_LENS).0, self.column(SIZES).0, self.entries, f)
    }
}

/// What is in a block that was filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    /// Entries.
    pub n: usize,
    /// Bytes that nothing is kept in.
    pub slack: usize,
}

/// An entry to put into a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub hash: u64,
    /// The length of the key, or the mark of a reference.
    pub key_len: u8,
    /// Key and value, or a reference.
    pub payload: &'a [u8],
}

/// Fills blocks with entries that come in the order of their hashes.
#[derive(Debug)]
pub(crate) struct Filler {
    blocks: Blocks,
    /// The number of the block in work, its bytes, how many entries it has, and bytes of them.
    number: u64,
    bytes: Vec<u8>,
    n: usize,
    used: usize,
    /// Where its entries belong.
    homes: [Home; LANES],
    /// By how many blocks an entry was moved on at most.
    pub chain: u64,
}

impl Filler {
    pub(crate) fn new(blocks: Blocks) -> Filler {
        Filler {
            blocks,
            number: 0,
            bytes: vec![0; blocks.step],
            n: 0,
            used: 0,
            homes: [Home { block: 0, level: 0 }; LANES],
            chain: 0,
        }
    }

    /// Adds an entry, and gives `out` each block that is then complete; false if entries would have to be moved on by
    /// too many blocks.
    #[inline]
    pub(crate) fn add<E>(
        &mut self,
        entry: Entry,
        out: &mut impl FnMut(&[u8], Filled) -> Result<(), E>,
    ) -> Result<bool, E> {
        let home = Home::of(entry.hash, self.blocks.homes);
        while self.number < home.block {
            self.complete(Limit::NONE, out)?;
        }
        while !self.put(home, fingerprint(entry.hash), entry.key_len, entry.payload) {
            self.overflow(home, out)?;
        }
        Ok(self.chain <= MOST_MOVED)
    }

    /// Puts an entry into the block in work; false if it has no room there.
    #[inline]
    fn put(&mut self, home: Home, print: u8, key_len: u8, payload: &[u8]) -> bool {
        let (n, at) = (self.n, ENTRIES + self.used);
        let (Some(slot), Some(place)) =
            (self.homes.get_mut(n), self.bytes.get_mut(at..at + payload.len()))
        else {
            return false;
        };
        copy_short(place, payload);
        *slot = home;
        if let Some(head) = self.bytes.first_chunk_mut::<ENTRIES>() {
            head[PRINTS + n] = print;
            head[KEY_LENS + n] = key_len;
            head[SIZES + n] = payload.len() as u8;
        }
        self.n += 1;
        self.used += payload.len();
        self.chain = self.chain.max(self.number - home.block);
        true
    }

    /// Completes the block in work before its range of hashes ends: an entry of this home has no room. Those of its
    /// level go with it into the next block.
    #[cold]
    fn overflow<E>(
        &mut self,
        home: Home,
        out: &mut impl FnMut(&[u8], Filled) -> Result<(), E>,
    ) -> Result<(), E> {
        let level = if home.block == self.number { home.level } else { 0 };
        let homes = self.homes;
        let is_kept = |e: &Home| level == 0 || e.block < self.number || e.level < level;
        let keep = homes.iter().take(self.n).position(|e| !is_kept(e)).unwrap_or(self.n);
        let before = self.bytes.clone();
        let n = std::mem::replace(&mut self.n, keep);
        let sizes = before.get(SIZES..SIZES + n).unwrap_or_default();
        let sum = |sizes: &[u8]| sizes.iter().map(|size| usize::from(*size)).sum();
        self.used = sizes.get(..keep).map_or(0, sum);
        let mut at = ENTRIES + self.used;
        if let Some(moved) = self.bytes.get_mut(at..) {
            moved.fill(0);
        }
        for column in [PRINTS, KEY_LENS, SIZES] {
            if let Some(lanes) = self.bytes.get_mut(column + keep..column + LANES) {
                lanes.fill(0);
            }
        }
        self.complete(Limit(level.saturating_sub(1)), out)?;
        for (i, home) in homes.iter().enumerate().take(n).skip(keep) {
            let byte = |column: usize| before.get(column + i).copied().unwrap_or_default();
            let end = at + usize::from(byte(SIZES));
            let payload = before.get(at..end).unwrap_or_default();
            // It was in one block, so it has room in the next.
            self.put(*home, byte(PRINTS), byte(KEY_LENS), payload);
            at = end;
        }
        Ok(())
    }

    /// Gives the block in work to `out` and begins the next.
    fn complete<E>(
        &mut self,
        limit: Limit,
        out: &mut impl FnMut(&[u8], Filled) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some([n, last, ..]) = self.bytes.first_chunk_mut::<ENTRIES>() {
            (*n, *last) = (self.n as u8, limit.0);
        }
        let slack = self.bytes.len() - ENTRIES - self.used + 3 * (LANES - self.n);
        out(&self.bytes, Filled { n: self.n, slack })?;
        self.number += 1;
        self.bytes.fill(0);
        (self.n, self.used) = (0, 0);
        Ok(())
    }

    /// Writes what is left, and blocks without entries up to the last home.
    pub(crate) fn finish<E>(
        &mut self,
        out: &mut impl FnMut(&[u8], Filled) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.number < self.blocks.homes || self.n > 0 {
            self.complete(Limit::NONE, out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::convert::Infallible;

    /// The next of a row of numbers, which is always the same.
    pub(in super::super) fn random(x: &mut u64) -> u64 {
        *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *x ^ *x >> 29
    }

    /// The blocks that hold entries with these hashes, each with its number as payload, and whether all fit.
    fn fill(blocks: Blocks, hashes: &[u64], size: usize) -> (Vec<Vec<u8>>, u64, bool) {
        let mut filler = Filler::new(blocks);
        let mut out = Vec::new();
        let mut put = |block: &[u8], filled: Filled| -> Result<(), Infallible> {
            let read = Block::new(block).unwrap();
            assert_eq!((read.n, read.slack()), (filled.n, Some(filled.slack)));
            out.push(block.to_vec());
            Ok(())
        };
        let mut fits = true;
        for (i, hash) in hashes.iter().enumerate() {
            let mut payload = vec![0; size];
            payload[..4].copy_from_slice(&(i as u32).to_le_bytes());
            let Ok(added) =
                filler.add(Entry { hash: *hash, key_len: 4, payload: &payload }, &mut put);
            fits &= added;
        }
        let Ok(()) = filler.finish(&mut put);
        (out, filler.chain, fits)
    }

    /// Where a lookup finds the entry with this hash and number: how many blocks it looks at.
    fn find(blocks: Blocks, bytes: &[Vec<u8>], hash: u64, number: u32) -> Option<usize> {
        let home = Home::of(hash, blocks.homes);
        let mut at = home.block as usize;
        let mut looks = 0;
        if Block::new(&bytes[at]).unwrap().limit.moved_on(home) {
            at += 1;
        }
        loop {
            let block = Block::new(&bytes[at]).unwrap();
            looks += 1;
            let mut found = false;
            let Ok(_) = block.records(&mut |key, _| -> Result<(), Infallible> {
                found |= key == number.to_le_bytes();
                Ok(())
            });
            if found {
                return Some(looks);
            }
            if !block.limit.moves_all() {
                return None;
            }
            at += 1;
        }
    }

    #[test]
    fn every_entry_is_found_from_its_home() {
        let mut x = 7u64;
        let mut random = move || random(&mut x);
        for (homes, count, size, shared) in [
            (1, 0, 20, 64),
            (1, 16, 20, 64),
            (1, 12, 255, 64),
            (100, 1300, 20, 64),
            (100, 1550, 20, 64),
            (50, 50, 255, 64),
            // All in a few levels.
            (100, 200, 20, 12),
            (100, 100, 20, 7),
        ] {
            let blocks = Blocks { step: 448, homes };
            let mut hashes: Vec<u64> =
                (0..count).map(|_| random() >> (64 - shared) << (64 - shared)).collect();
            hashes.sort_unstable();
            let (bytes, chain, fits) = fill(blocks, &hashes, size);
            let case = format!("{homes} {count} {size} {shared}: {chain}");
            assert!(fits, "{case}");
            assert!(bytes.len() as u64 >= homes, "{case}");
            let mut records = 0;
            for block in &bytes {
                let read = Block::new(block).unwrap();
                assert!(read.slack().is_some() && read.bucket().is_some());
                records += read.n;
            }
            assert_eq!(records, count as usize, "{case}");
            for (number, hash) in hashes.iter().enumerate() {
                let looks = find(blocks, &bytes, *hash, number as u32);
                assert!(looks.is_some_and(|looks| looks as u64 <= chain + 1), "{case} {looks:?}");
            }
        }
    }

    #[test]
    fn too_many_for_one_home_are_refused() {
        let blocks = Blocks { step: 448, homes: 1000 };
        assert!(!fill(blocks, &[5; 1000], 20).2);
    }
}
