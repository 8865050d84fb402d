//! How a lookup goes: hash the key, read one line of the directory, search the bucket that it
//! names, compare the key. [`super::fast`] has the common case in memory.
//!
//! Written once over [`Source`]. Every step is checked against the file's length, so that any
//! bytes whatever give an answer or [`crate::ErrorKind::Corrupt`].

use super::block::{Blocks, Home, Limit, lanes_of};
use super::bucket::{MAX_INLINE, Ref, Shape, Slot, fingerprint, same};
use super::directory::{GROUP_BYTES, Place, Position, place};
use super::format::{Addressing, Header, Kind, Region};
use super::lanes::LANES;
use super::rows::{self, ROW_BYTES, ROW_LANES, Row, Rows};
use super::view::Bounds;
use crate::bytes::{array, le32, le64};
use crate::keyhash::KeyHash;
use crate::os::file::make_room;
use crate::os::source::Source;
use crate::{Error, Result};

/// Bytes before the key of a record in the log: its lengths.
pub(crate) const RECORD_HEAD: usize = 8;
/// Bytes before the places of a list: their count, and the length of the whole list.
pub(crate) const LIST_HEAD: usize = 16;
/// Set in the key length of a log record that a scan meets through its list instead.
pub(crate) const LISTED: u32 = 1 << 31;
/// Set in the count of a list whose records a scan of the log meets anyway.
pub(crate) const IN_LOG: u64 = 1 << 63;

/// What a lookup needs of the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    pub hash: KeyHash,
    /// Whether short keys are hashed by words.
    pub takes_words: bool,
    pub addressing: Addressing,
    pub shape: Shape,
    pub bounds: Bounds,
    directory_at: u64,
    buckets_at: u64,
    block_count: u64,
    row_count: u64,
    /// By how many blocks or rows an entry was moved on at most.
    pub chain: u64,
    /// Bytes of entries in a block, on average.
    pub mean_used: usize,
    /// The part of a bucket that comes before its entries, on average, as a fraction of 2^16.
    pub head_share: u64,
    pub log: Region,
    pub lists: Region,
    records: u64,
    value_bytes: u64,
}

/// A record of the log: where its key begins, and the lengths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRecord {
    pub key_at: u64,
    pub key_len: usize,
    pub value_len: usize,
    /// Whether a scan meets it through its list.
    pub is_listed: bool,
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
            is_listed: key_word & LISTED != 0,
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

/// Places of a list that are read at once.
const PLACES: u64 = 512;

/// The list at a place of the file: the places of its records, in the order in which they were
/// added. They are read a piece at a time, and each is checked before it is given: in a file with holes a list
/// may claim any length. Its records in the log, and those in itself, each follow one another, so that no list
/// names a record twice.
#[derive(Debug)]
pub(crate) struct List {
    at: u64,
    /// Whether a scan meets its records in the log.
    pub in_log: bool,
    /// Where the next list begins.
    pub end: u64,
    log: Region,
    /// Where the next piece of places begins, and where they end.
    next_piece: u64,
    places_end: u64,
    /// What was read and not yet given, the last place first.
    places: Vec<u64>,
    /// Where the next record in the log, and the next one in the list, may be.
    log_next: u64,
    own_next: u64,
}

impl List {
    /// Reads the head of the list at `at`.
    pub(crate) fn read<S: Source>(source: &S, log: Region, lists: Region, at: u64) -> Result<List> {
        let wrong = |what| Err(Error::corrupt(at, what));
        let head = source.read(at, LIST_HEAD)?;
        let word = le64(&head, 0).unwrap_or_default();
        let end = at.checked_add(le64(&head, 8).unwrap_or_default());
        let Some(end) = end.filter(|end| at >= lists.at && *end <= lists.end()) else {
            return wrong("a list passes the end of the lists");
        };
        let next_piece = at + LIST_HEAD as u64;
        let places_end = (word & !IN_LOG).checked_mul(8).and_then(|b| next_piece.checked_add(b));
        let Some(places_end) = places_end.filter(|places_end| *places_end <= end) else {
            return wrong("a list has an impossible length");
        };
        let in_log = word & IN_LOG != 0;
        let (log_next, own_next) = (log.at, places_end);
        let places = Vec::new();
        Ok(List { at, in_log, end, log, next_piece, places_end, places, log_next, own_next })
    }

    /// The place of the next record; `None` when all were given.
    pub(crate) fn next<S: Source>(&mut self, source: &S) -> Result<Option<u64>> {
        if self.places.is_empty() && self.next_piece < self.places_end {
            let len = (self.places_end - self.next_piece).min(8 * PLACES);
            let piece = source.read(self.next_piece, len as usize)?;
            let places = piece.chunks_exact(8).rev().map(|c| le64(c, 0).unwrap_or_default());
            self.places.extend(places);
            self.next_piece += len;
        }
        let Some(place) = self.places.pop() else { return Ok(None) };
        let (next, stop) = match place < self.log.end() {
            true => (&mut self.log_next, self.log.end()),
            false => (&mut self.own_next, self.end),
        };
        if place < *next || place >= stop {
            let what = "a list leads to where none of its records can be";
            return Err(Error::corrupt(self.at, what));
        }
        *next = place + RECORD_HEAD as u64;
        Ok(Some(place))
    }
}

impl Index {
    pub(crate) fn new(header: &Header) -> Option<Index> {
        let shape = header.shape();
        let head = if header.kind == Kind::Mixed { 3 } else { 1 };
        let mean = (header.buckets.len / header.records.max(1)).max(1);
        let hash = KeyHash::new(header.hash_id, header.seed)?;
        Some(Index {
            hash,
            takes_words: hash.takes_words(),
            addressing: header.addressing,
            shape,
            bounds: Bounds::new(header)?,
            directory_at: header.directory.at,
            buckets_at: header.buckets.at,
            block_count: header.block_count(),
            row_count: header.row_count(),
            chain: u64::from(header.chain),
            mean_used: header.mean_used(),
            head_share: ((head << 16) / mean).min(1 << 16),
            log: header.log,
            lists: header.lists,
            records: header.records,
            value_bytes: header.value_bytes,
        })
    }

    /// The hash of a key in this file.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hash.hash(key)
    }

    /// Where the bucket, or the home, of a hash lies, or the records that the home leads to.
    pub(crate) fn place<S: Source>(&self, source: &S, hash: u64) -> Result<Place> {
        match self.addressing {
            Addressing::Blocks(blocks) => {
                let home = Home::of(hash, blocks.homes);
                Ok(Place { at: self.block_at(blocks, home.block), len: blocks.step })
            }
            Addressing::Rows(rows) => {
                let row = self.row(source, rows::home(hash, rows.homes).block)?;
                let at = self.record_at(Row(&row).first() as u64);
                Ok(Place { at, len: ROW_LANES * self.shape.entry_bytes })
            }
            Addressing::Directory => {
                let position = Position::of(hash, self.bounds.groups());
                let at = self.directory_at + position.group * GROUP_BYTES;
                let group = source.read(at, GROUP_BYTES as usize)?;
                let place = group.first_chunk().and_then(|group| place(group, position.bucket));
                place.ok_or_else(|| Error::corrupt(at, "a group of the directory makes no sense"))
            }
        }
    }

    /// Where the block of this number lies.
    fn block_at(&self, blocks: Blocks, number: u64) -> u64 {
        self.buckets_at + number * blocks.step as u64
    }

    /// The row of this number, and how many entries it has.
    pub(crate) fn row_with_count<S: Source>(
        &self,
        source: &S,
        number: u64,
    ) -> Result<([u8; ROW_BYTES], usize)> {
        let row = self.row(source, number)?;
        let end = match number + 1 {
            next if next < self.row_count => Row(&self.row(source, next)?).first(),
            _ => self.records as usize,
        };
        let count = end.checked_sub(Row(&row).first()).filter(|count| *count <= ROW_LANES);
        let what = "a row does not begin where the one before ends";
        let at = self.row_at(number);
        Ok((row, count.ok_or_else(|| Error::corrupt(at, what))?))
    }

    /// Where the row of this number lies.
    pub(crate) fn row_at(&self, number: u64) -> u64 {
        self.directory_at + number * ROW_BYTES as u64
    }

    /// The row of this number.
    fn row<S: Source>(&self, source: &S, number: u64) -> Result<[u8; ROW_BYTES]> {
        let row = source.read(self.row_at(number), ROW_BYTES)?;
        Ok(array(&row, 0).unwrap_or_default())
    }

    /// Where the record of this number lies, where all have one size.
    pub(crate) fn record_at(&self, number: u64) -> u64 {
        self.buckets_at + number * self.shape.entry_bytes as u64
    }

    /// The first value of `key`.
    pub(crate) fn find<'a, S: Source>(
        &self,
        source: &'a S,
        key: &[u8],
    ) -> Result<Option<S::Bytes<'a>>> {
        let mut found = None;
        self.walk(source, key, |value| {
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
        let (mut found, mut has_room) = (Vec::new(), Ok(()));
        // A hostile file may lead to one record by many ways.
        let (mut bytes, mut too_many) = (0, false);
        self.walk(source, key, |value| {
            bytes += value.len() as u64;
            too_many = found.len() as u64 == self.records || bytes > self.value_bytes;
            has_room = make_room(&mut found, 1);
            if has_room.is_ok() {
                found.push(value);
            }
            !too_many && has_room.is_ok()
        })?;
        has_room?;
        match too_many {
            true => Err(Error::corrupt(48, "a key has more values than the header says there are")),
            false => Ok(found),
        }
    }

    /// Gives the values of `key` to `f` as long as it returns true.
    fn walk<'a, S: Source>(
        &self,
        source: &'a S,
        key: &[u8],
        mut f: impl FnMut(S::Bytes<'a>) -> bool,
    ) -> Result<()> {
        let hash = self.hash(key);
        match self.addressing {
            Addressing::Directory => {
                let Place { at, len } = self.place(source, hash)?;
                let bucket = source.read(at, len)?;
                self.walk_bucket(source, key, hash, (&bucket, at), &mut f).map(|_| ())
            }
            Addressing::Blocks(blocks) => self.walk_way(
                (Home::of(hash, blocks.homes), self.block_count),
                |number| source.read(self.block_at(blocks, number), blocks.step),
                |block| Limit::of(block),
                |number, block| {
                    // As `fast` looks, also in a file that is damaged: in every lane.
                    let whole = (&lanes_of(block)[..], self.block_at(blocks, number) + 1);
                    self.walk_bucket(source, key, hash, whole, &mut f)
                },
            ),
            Addressing::Rows(Rows { homes }) => self.walk_way(
                (rows::home(hash, homes), self.row_count),
                |number| self.row(source, number),
                |row| Row(row).limit(),
                |_, row| self.walk_row(source, key, hash, Row(row), &mut f),
            ),
        }
    }

    /// Reads the blocks or rows, of which there are so many, that entries of a home may be in, and gives each to `look`
    /// as long as that returns true.
    fn walk_way<B>(
        &self,
        (home, count): (Home, u64),
        read: impl Fn(u64) -> Result<B>,
        limit: impl Fn(&B) -> Limit,
        mut look: impl FnMut(u64, &B) -> Result<bool>,
    ) -> Result<()> {
        let mut number = home.block;
        let mut here = read(number)?;
        if limit(&here).moved_on(home) {
            number += 1;
            if number == count {
                return Ok(());
            }
            here = read(number)?;
        }
        let last = (number + self.chain).min(count - 1);
        while look(number, &here)? && limit(&here).moves_all() && number < last {
            number += 1;
            here = read(number)?;
        }
        Ok(())
    }

    /// Gives the values of `key` to which a row leads to `f`; false if it did not want more.
    fn walk_row<'a, S: Source>(
        &self,
        source: &'a S,
        key: &[u8],
        hash: u64,
        row: Row,
        f: &mut impl FnMut(S::Bytes<'a>) -> bool,
    ) -> Result<bool> {
        let Kind::Fixed { key_len, value_len } = self.shape.kind else { return Ok(true) };
        let mut mask = if key.len() == key_len { row.mask(fingerprint(hash)) } else { 0 };
        while mask != 0 {
            let number = row.first() as u64 + u64::from(mask.trailing_zeros());
            mask &= mask - 1;
            // So lead lanes without an entry in the last rows.
            if number >= self.records {
                break;
            }
            let at = self.record_at(number);
            if *source.read(at, key_len)? == *key
                && !f(source.read(at + key_len as u64, value_len)?)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives the values of `key` in a bucket, whose values lie in the file as if it began at the place given with it; false
    /// if `f` did not want more.
    fn walk_bucket<'a, S: Source>(
        &self,
        source: &'a S,
        key: &[u8],
        hash: u64,
        (bucket, bucket_at): (&[u8], u64),
        f: &mut impl FnMut(S::Bytes<'a>) -> bool,
    ) -> Result<bool> {
        let n = self.shape.count(bucket).ok_or_else(|| passes_end(bucket_at))?;
        for from in (0..n).step_by(LANES) {
            // Lanes without an entry have the length 0, as the empty key, which blocks refer to.
            let is_in_blocks = matches!(self.addressing, Addressing::Blocks(_));
            let len = if is_in_blocks && key.is_empty() { MAX_INLINE } else { key.len() };
            let mut mask = self.shape.candidates(bucket, n, from, hash, len);
            while mask != 0 {
                let i = from + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let slot = self.shape.slot(bucket, n, i, hash);
                let go_on = match slot.ok_or_else(|| passes_end(bucket_at))? {
                    Slot::Inline { at, key_len, value_len } => {
                        let value_at = at + key_len;
                        if bucket.get(at..value_at) == Some(key) {
                            let value = source.read(bucket_at + value_at as u64, value_len)?;
                            f(value)
                        } else {
                            true
                        }
                    }
                    Slot::Ref(to) if to.tag_fits => self.follow(source, key, to, f)?,
                    Slot::Ref(_) => true,
                };
                if !go_on {
                    return Ok(false);
                }
            }
        }
        Ok(true)
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
        let mut list = List::read(source, self.log, self.lists, to.at)?;
        while let Some(place) = list.next(source)? {
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
}

#[cold]
pub(crate) fn passes_end(bucket_at: u64) -> Error {
    Error::corrupt(bucket_at, "the entries of this bucket do not fit in it")
}

#[cold]
pub(crate) fn more_than_entries(block_at: u64) -> Error {
    Error::corrupt(block_at, "this block holds more than its entries")
}
