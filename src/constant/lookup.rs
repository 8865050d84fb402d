//! How a lookup goes: hash the key, search its home block, compare the key, and go on to the next
//! block only if the overflow mask says that keys of this hash were pushed there.
//!
//! Written once over [`Source`]. Every step is checked against the file's length, so that any
//! bytes whatever give an answer or [`crate::ErrorKind::Corrupt`].

use super::block::{Ref, Shape, Slot, home, same};
use super::format::{Header, Kind};
use super::source::Source;
use crate::bytes::{le32, le64};
use crate::keyhash::KeyHash;
use crate::{Error, Result};

/// Bytes before the key of a record in the log: its lengths.
pub(crate) const RECORD_HEAD: usize = 8;
/// Bytes before the places of a list: their count, and the length of the whole list.
pub(crate) const LIST_HEAD: usize = 16;
/// Set in the key length of a log record that a scan meets through its list instead.
pub(crate) const LISTED: u32 = 1 << 31;
/// Set in the count of a list whose records a scan of the log meets anyway.
pub(crate) const IN_LOG: u64 = 1 << 63;
/// Lookups in flight at once: 64 gained nothing over 32.
const BATCH: usize = 32;

/// What a lookup needs of the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    hash: KeyHash,
    pub shape: Shape,
    home_blocks: u64,
    blocks_at: u64,
    longest_chain: u32,
}

/// A record of the log: where its key begins, and the lengths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRecord {
    pub key_at: u64,
    pub key_len: usize,
    pub value_len: usize,
}

impl LogRecord {
    /// Reads the lengths of the record at `at`.
    #[inline]
    pub(crate) fn read<S: Source>(source: &S, at: u64) -> Result<LogRecord> {
        let head = source.read(at, RECORD_HEAD)?;
        let key_word = le32(&head, 0).unwrap_or_default();
        Ok(LogRecord {
            key_at: at + RECORD_HEAD as u64,
            key_len: (key_word & !LISTED) as usize,
            value_len: le32(&head, 4).unwrap_or_default() as usize,
        })
    }

    /// The value, once the key is known to be the right one.
    #[inline]
    pub(crate) fn value<'a, S: Source>(&self, source: &'a S) -> Result<S::Bytes<'a>> {
        source.read(self.key_at + self.key_len as u64, self.value_len)
    }

    /// The key.
    #[inline]
    pub(crate) fn key<'a, S: Source>(&self, source: &'a S) -> Result<S::Bytes<'a>> {
        source.read(self.key_at, self.key_len)
    }
}

/// The places of the records of a list, in the order in which they were added.
pub(crate) fn list_places<S: Source>(source: &S, at: u64) -> Result<Vec<u64>> {
    let head = source.read(at, LIST_HEAD)?;
    let count = le64(&head, 0).unwrap_or_default() & !IN_LOG;
    let bytes = usize::try_from(count).ok().and_then(|n| n.checked_mul(8));
    let Some(bytes) = bytes else {
        return Err(Error::corrupt(at, "a list has an impossible length"));
    };
    let places = source.read(at + LIST_HEAD as u64, bytes)?;
    Ok(places.chunks_exact(8).map(|c| le64(c, 0).unwrap_or_default()).collect())
}

/// A lookup on its way: where it began.
#[derive(Clone, Copy, Default)]
struct Probe {
    hash: u64,
    block_at: u64,
}

impl Index {
    pub(crate) fn new(header: &Header) -> Option<Index> {
        Some(Index {
            hash: KeyHash::new(header.hash_id, header.seed)?,
            shape: Shape {
                kind: header.kind,
                block_bytes: header.block_bytes as usize,
                ref_bytes: header.ref_bytes as usize,
                ref_bits: header.ref_bits,
                has_refs: header.log.len > 0 || header.lists.len > 0,
            },
            home_blocks: header.home_blocks,
            blocks_at: header.blocks.at,
            longest_chain: header.longest_chain,
        })
    }

    /// The hash of a key in this file.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hash.hash(key)
    }

    #[inline(always)]
    fn probe(&self, key: &[u8]) -> Probe {
        let hash = self.hash.hash(key);
        let block = home(hash, self.home_blocks);
        Probe { hash, block_at: self.blocks_at + block * self.shape.block_bytes as u64 }
    }

    /// Whether no key of this length can be in the file.
    #[inline(always)]
    fn excludes(&self, key: &[u8]) -> bool {
        matches!(self.shape.kind, Kind::Fixed { key_len, .. } if key_len != key.len())
    }

    /// The first value of `key`.
    #[inline]
    pub(crate) fn find<'a, S: Source>(
        &self,
        source: &'a S,
        key: &[u8],
    ) -> Result<Option<S::Bytes<'a>>> {
        if self.excludes(key) {
            return Ok(None);
        }
        let mut found = None;
        self.walk(source, key, self.probe(key), |value| {
            found = Some(value);
            false
        })?;
        Ok(found)
    }

    /// Every value of `key`, in the order in which they were added.
    pub(crate) fn find_all<'a, S: Source>(
        &self,
        source: &'a S,
        key: &[u8],
    ) -> Result<Vec<S::Bytes<'a>>> {
        let mut found = Vec::new();
        if !self.excludes(key) {
            self.walk(source, key, self.probe(key), |value| {
                found.push(value);
                true
            })?;
        }
        Ok(found)
    }

    /// Gives the values of `key` to `f` as long as it returns true.
    #[inline(always)]
    fn walk<'a, S: Source>(
        &self,
        source: &'a S,
        key: &[u8],
        probe: Probe,
        mut f: impl FnMut(S::Bytes<'a>) -> bool,
    ) -> Result<()> {
        let Probe { hash, mut block_at } = probe;
        for _ in 0..=self.longest_chain {
            let mut block = source.read(block_at, self.shape.block_bytes)?;
            let (n, mut mask) = self.candidates(&block, block_at, hash, key.len())?;
            while mask != 0 {
                let i = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                match self.slot(&block, block_at, n, i, hash)? {
                    Slot::Inline { at, key_len, value_len } => {
                        let Some(record) = block.get(at..at + key_len + value_len) else {
                            return Err(passes_end(block_at));
                        };
                        if same(record.get(..key_len).unwrap_or_default(), key) {
                            let value = at + key_len..at + key_len + value_len;
                            if !f(S::part(block, value)) {
                                return Ok(());
                            }
                            block = source.read(block_at, self.shape.block_bytes)?;
                        }
                    }
                    Slot::Ref(to) if to.tag_fits => {
                        if !self.follow(source, key, to, &mut f)? {
                            return Ok(());
                        }
                    }
                    Slot::Ref(_) => {}
                }
            }
            if !Shape::overflowed(&block, hash) {
                return Ok(());
            }
            block_at += self.shape.block_bytes as u64;
        }
        Ok(())
    }

    /// Gives the values behind a reference to `f`, if they are those of `key`; false ends.
    fn follow<'a, S: Source>(
        &self,
        source: &'a S,
        key: &[u8],
        to: Ref,
        f: &mut impl FnMut(S::Bytes<'a>) -> bool,
    ) -> Result<bool> {
        if !to.list {
            return match self.record_value(source, key, to.at)? {
                Some(value) => Ok(f(value)),
                None => Ok(true),
            };
        }
        for place in list_places(source, to.at)? {
            // All records of a list have one key: the first that differs tells it is another's.
            let Some(value) = self.record_value(source, key, place)? else { break };
            if !f(value) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The value of the log record at `at`, if its key is `key`.
    #[inline(always)]
    fn record_value<'a, S: Source>(
        &self,
        source: &'a S,
        key: &[u8],
        at: u64,
    ) -> Result<Option<S::Bytes<'a>>> {
        let record = LogRecord::read(source, at)?;
        if record.key_len != key.len() || !same(&record.key(source)?, key) {
            return Ok(None);
        }
        record.value(source).map(Some)
    }

    /// The first value of each key, with up to 32 lookups waiting for memory at once.
    pub(crate) fn find_many<S: Source, K: AsRef<[u8]>>(
        &self,
        source: &S,
        keys: &[K],
        f: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut base = 0;
        for batch in keys.chunks(BATCH) {
            let mut probes = [Probe::default(); BATCH];
            for (probe, key) in probes.iter_mut().zip(batch) {
                *probe = self.probe(key.as_ref());
                source.prefetch(probe.block_at);
            }
            for (probe, key) in probes.iter().zip(batch) {
                self.prefetch_record(source, *probe, key.as_ref().len());
            }
            for (i, (probe, key)) in probes.iter().zip(batch).enumerate() {
                let key = key.as_ref();
                let mut found = None;
                if !self.excludes(key) {
                    self.walk(source, key, *probe, |value| {
                        found = Some(value);
                        false
                    })?;
                }
                f(base + i, found.as_deref());
            }
            base += batch.len();
        }
        Ok(())
    }

    /// Asks for the record of the first candidate in the home block; errors wait for the lookup.
    #[inline(always)]
    fn prefetch_record<S: Source>(&self, source: &S, probe: Probe, key_len: usize) {
        let Some(memory) = source.memory() else { return };
        let start = probe.block_at as usize;
        let Some(block) = memory.get(start..start + self.shape.block_bytes) else { return };
        let Ok((n, mask)) = self.candidates(block, probe.block_at, probe.hash, key_len) else {
            return;
        };
        if mask == 0 {
            return;
        }
        match self.shape.slot(block, n, mask.trailing_zeros() as usize, probe.hash) {
            Some(Slot::Inline { at, .. }) => source.prefetch(probe.block_at + at as u64),
            Some(Slot::Ref(to)) => source.prefetch(to.at),
            None => {}
        }
    }

    /// Where the home block of a key lies, for the kernel: offset and length.
    pub(crate) fn home_range(&self, key: &[u8]) -> (u64, usize) {
        (self.probe(key).block_at, self.shape.block_bytes)
    }

    /// Where the first candidate for a key refers to, if it refers to the log.
    pub(crate) fn first_reference<S: Source>(&self, source: &S, key: &[u8]) -> Option<u64> {
        let probe = self.probe(key);
        let block = source.read(probe.block_at, self.shape.block_bytes).ok()?;
        let (n, mask) = self.candidates(&block, probe.block_at, probe.hash, key.len()).ok()?;
        if mask == 0 {
            return None;
        }
        match self.shape.slot(&block, n, mask.trailing_zeros() as usize, probe.hash)? {
            Slot::Ref(to) => Some(to.at),
            Slot::Inline { .. } => None,
        }
    }

    #[inline(always)]
    fn candidates(&self, block: &[u8], at: u64, hash: u64, key_len: usize) -> Result<(usize, u32)> {
        let n = Shape::count(block);
        let mask = n.and_then(|n| Some((n, self.shape.candidates(block, n, hash, key_len)?)));
        mask.ok_or_else(|| passes_end(at))
    }

    #[inline(always)]
    fn slot(&self, block: &[u8], at: u64, n: usize, i: usize, hash: u64) -> Result<Slot> {
        self.shape.slot(block, n, i, hash).ok_or_else(|| passes_end(at))
    }
}

#[cold]
pub(crate) fn passes_end(block_at: u64) -> Error {
    Error::corrupt(block_at, "the entries of this block do not fit in it")
}
