//! Parts of a file in memory, of which not every byte's place is checked: with [`super::lanes`] the
//! constant engine's only place for `unsafe`.
//!
//! No caller can get out of bounds: [`Window`], [`InBlock`] and [`Bucket`] check once what they then
//! rely on.

#![allow(unsafe_code)]

use super::block::{ENTRIES, Home, KEY_LENS, PRINTS, SIZES};
use super::bucket::{REF_MARK, TAIL_BYTES, fingerprint};
use super::directory::{GROUP_BYTES, Place, Position, place};
use super::format::{Addressing, Header, Kind, Region};
use super::lanes::{HALF_LANES, equal_mask_both, prefetch, prefetch_at, sum_first_half};
use super::rows::{self, ROW_BYTES, Row};
use super::wanted::{Short, ShortLen, Wanted};
use crate::keyhash::{KeyHash, RAPID};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Where directory and buckets lie in a file of a certain length: checked when it is opened, so
/// that lookups need not.
///
/// Invariant: the directory's `groups` groups, `ROW_BYTES` from where it begins, and `buckets_end` with the tail after it,
/// lie within `file_len` bytes. So do, in front of `buckets_end`, as many blocks as `homes` at least, of `step` bytes
/// each and one after the other, if `step` is not zero. So do, in the directory, `row_homes` rows, and in front of
/// `buckets_end` as many records as `records` says, of `record_bytes` each, which are at least `key_bytes`. If there are
/// no rows, `key_bytes` is more than there can be. `short_key_len` is the same, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    file_len: usize,
    directory_at: usize,
    groups: u64,
    buckets_at: usize,
    buckets_end: usize,
    homes: u64,
    step: usize,
    row_homes: u64,
    records: usize,
    record_bytes: usize,
    key_bytes: usize,
    short_key_len: ShortLen,
}

impl Bounds {
    /// `None` if what the header says is not within the file.
    pub(crate) fn new(header: &Header) -> Option<Bounds> {
        let Header { directory, buckets, .. } = *header;
        let file_len = header.file_len();
        let end = |region: Region| region.at.checked_add(region.len).filter(|e| *e <= file_len);
        end(directory)?;
        end(Region { len: ROW_BYTES as u64, ..directory })?;
        let len = buckets.len.checked_sub(TAIL_BYTES as u64)?;
        let mut bounds = Bounds {
            file_len: usize::try_from(file_len).ok()?,
            directory_at: usize::try_from(directory.at).ok()?,
            groups: header.groups(),
            buckets_at: usize::try_from(buckets.at).ok()?,
            buckets_end: usize::try_from(end(buckets)? - TAIL_BYTES as u64).ok()?,
            homes: 0,
            step: 0,
            row_homes: 0,
            records: 0,
            record_bytes: 0,
            key_bytes: usize::MAX,
            short_key_len: ShortLen::NONE,
        };
        let take = |count: u64, size: usize, room: u64| {
            let bytes = count.checked_mul(size as u64)?;
            (count > 0 && bytes <= room).then_some(())
        };
        match (header.addressing, header.kind) {
            (Addressing::Directory, _) => {}
            (Addressing::Blocks(blocks), _) => {
                take(blocks.homes, blocks.step, len)?;
                (bounds.homes, bounds.step) = (blocks.homes, blocks.step);
            }
            (Addressing::Rows(rows), Kind::Fixed { key_len, value_len }) => {
                take(rows.homes, ROW_BYTES, directory.len)?;
                let record_bytes = key_len.checked_add(value_len)?;
                if header.records > 0 {
                    take(header.records, record_bytes, len)?;
                }
                bounds.row_homes = rows.homes;
                bounds.records = usize::try_from(header.records).ok()?;
                (bounds.record_bytes, bounds.key_bytes) = (record_bytes, key_len);
                if header.hash_id == RAPID {
                    bounds.short_key_len = ShortLen::new(key_len);
                }
            }
            (Addressing::Rows(_), _) => return None,
        }
        Some(bounds)
    }

    /// Groups of the directory.
    pub(crate) fn groups(&self) -> u64 {
        self.groups
    }
}

/// The bytes of a file that are all in memory.
///
/// Invariant: `data` has the length that `bounds` were checked for.
#[derive(Clone, Copy)]
pub(crate) struct Window<'d, 'b> {
    data: &'d [u8],
    bounds: &'b Bounds,
}

impl<'d, 'b> Window<'d, 'b> {
    /// `None` if `data` are not as long as the file was.
    #[inline(always)]
    pub(crate) fn new(data: &'d [u8], bounds: &'b Bounds) -> Option<Window<'d, 'b>> {
        (data.len() == bounds.file_len).then_some(Window { data, bounds })
    }

    /// All bytes of the file.
    pub(crate) fn data(self) -> &'d [u8] {
        self.data
    }

    /// The home of a hash, and where in it the hash belongs. There must be blocks.
    #[inline(always)]
    pub(crate) fn home(self, hash: u64) -> (InBlock<'d, 'b>, Home) {
        let home = Home::of(hash, self.bounds.homes);
        let at = self.bounds.buckets_at + home.block as usize * self.bounds.step;
        debug_assert!(at + self.bounds.step <= self.bounds.buckets_end);
        // SAFETY: `home.block` is below `homes`: it is the upper half of hash * homes. So by the invariants of both
        // types the block lies in `data`. If there are no blocks, this is where buckets begin.
        let start = unsafe { NonNull::from(self.data).cast::<u8>().add(at) };
        (InBlock { start, window: self }, home)
    }

    /// The row that is the home of a hash, and where in it the hash belongs. There must be rows.
    #[inline(always)]
    pub(crate) fn row(self, hash: u64) -> (Row<'d>, Home) {
        let home = rows::home(hash, self.bounds.row_homes);
        let at = self.bounds.directory_at + home.block as usize * ROW_BYTES;
        // SAFETY: `home.block` is below `row_homes`: it is the upper half of hash * row_homes. So by the
        // invariants of both types the row lies in `data`, whose lifetime it is; an array of bytes has no alignment. If
        // there are no rows, `at` is where the directory begins, behind which as many bytes as a row has lie in the file.
        (Row(unsafe { &*self.data.as_ptr().add(at).cast() }), home)
    }

    /// The row after a home that does not have a hash's entries, if it has all of them. A call of its own, so that nobody
    /// waits for it who does not need it: as a choice between two rows it were part of every lookup.
    #[cold]
    #[inline(never)]
    fn row_after(data: &'d [u8], bounds: &Bounds, before: Row, home: u64) -> Option<Row<'d>> {
        let at = bounds.directory_at + (home as usize + 1) * ROW_BYTES;
        let row = Row(data.get(at..bounds.buckets_at)?.first_chunk()?);
        let is_all = |row: Row| !row.limit().moves_all();
        (is_all(before) && is_all(row)).then_some(row)
    }

    /// Asks for the row that is the home of a hash.
    #[inline(always)]
    pub(crate) fn prefetch_row(self, hash: u64) {
        prefetch(self.row(hash).0.0, 0);
    }

    /// `key` as one that records of a file with rows may have; `None` if it has another length.
    #[inline(always)]
    pub(crate) fn sought<W: Wanted>(self, key: W) -> Option<Sought<'d, 'b, W>> {
        (key.len() == self.bounds.key_bytes).then_some(Sought { window: self, key })
    }

    /// The same, if such keys have 8 to 16 bytes and are hashed by words.
    #[inline(always)]
    pub(crate) fn sought_short(self, key: &[u8]) -> Option<Sought<'d, 'b, Short<'_>>> {
        Short::of_len(key, self.bounds.short_key_len).map(|key| Sought { window: self, key })
    }

    /// Asks for the record of this number; there need not be one.
    #[inline(always)]
    pub(crate) fn prefetch_record(self, number: usize) {
        let size = self.bounds.record_bytes;
        let at = self.bounds.buckets_at.wrapping_add(number.wrapping_mul(size));
        prefetch(self.data, at);
        prefetch(self.data, at.wrapping_add(size).wrapping_sub(1));
    }

    /// The group of a hash, and which of its buckets.
    #[inline(always)]
    fn group(self, hash: u64) -> (&'d [u8; GROUP_BYTES as usize], Position) {
        let position = Position::of(hash, self.bounds.groups);
        let at = self.bounds.directory_at + position.group as usize * GROUP_BYTES as usize;
        // SAFETY: `position.group` is below `groups`: it is the upper half of hash * groups. So by
        // the invariants of both types, the 64 bytes at `at` lie in `data`, whose lifetime it is;
        // an array of bytes has no alignment.
        (unsafe { &*self.data.as_ptr().add(at).cast() }, position)
    }

    /// Asks for the line of the directory that a hash leads to.
    #[inline(always)]
    pub(crate) fn prefetch_group(self, hash: u64) {
        let (group, _) = self.group(hash);
        prefetch(group, 0);
    }

    /// The bucket of a hash; `None` if the directory is damaged.
    #[inline(always)]
    pub(crate) fn bucket(self, hash: u64) -> Option<Bucket<'d>> {
        self.spot(hash).map(|(bucket, _)| bucket)
    }

    /// The same, with the hash's place among the hashes of the bucket as a fraction of 2^64.
    #[inline(always)]
    pub(crate) fn spot(self, hash: u64) -> Option<(Bucket<'d>, u64)> {
        let (group, position) = self.group(hash);
        let Place { at, len } = place(group, position.bucket)?;
        // An offset has 48 bits and a length 16: the sum does not overflow.
        if at + len as u64 > self.bounds.buckets_end as u64 {
            return None;
        }
        // SAFETY: `at` is at most `buckets_end`, which is in `data`.
        let start = unsafe { NonNull::from(self.data).cast::<u8>().add(at as usize) };
        Some((Bucket { start, len, of: PhantomData }, position.fraction))
    }
}

/// There is more to look at.
pub(crate) struct Unclear;

/// A key that is looked for among records of one size.
///
/// Invariant: the key is as long as those of all records of the window, and there are rows.
#[derive(Clone, Copy)]
pub(crate) struct Sought<'d, 'b, W> {
    window: Window<'d, 'b>,
    key: W,
}

impl<'d, W: Wanted> Sought<'d, '_, W> {
    /// The value of the record of this number, if there is one and it has the key.
    #[inline(always)]
    fn value(self, number: usize) -> Option<&'d [u8]> {
        let Bounds { buckets_at, records, record_bytes, key_bytes, .. } = *self.window.bounds;
        // So lead lanes without an entry in the last rows.
        if number >= records {
            return None;
        }
        // SAFETY: by the invariants the record lies in the window's data and begins with a key that is as long.
        unsafe {
            let stored = self.window.data.as_ptr().add(buckets_at + number * record_bytes);
            let value =
                || std::slice::from_raw_parts(stored.add(key_bytes), record_bytes - key_bytes);
            self.key.is_at(stored).then(value)
        }
    }

    /// The hash of the key in a file with this function, which hashes short keys by words.
    #[inline(always)]
    pub(crate) fn hash(self, hash: &KeyHash) -> u64 {
        self.key.hash(hash)
    }

    /// The value of the key, if one row leads to all records of its hash; else [`Unclear`].
    #[inline(always)]
    pub(crate) fn find(self, hash: u64) -> Result<Option<&'d [u8]>, Unclear> {
        let (mut row, home) = self.window.row(hash);
        if !row.has_all(home) {
            let Window { data, bounds } = self.window;
            row = Window::row_after(data, bounds, row, home.block).ok_or(Unclear)?;
        }
        let mut mask = row.mask(fingerprint(hash));
        while mask != 0 {
            let lane = mask.trailing_zeros() as usize;
            if let Some(value) = self.value(row.first() + lane) {
                return Ok(Some(value));
            }
            mask &= mask - 1;
        }
        Ok(None)
    }
}

/// A block in memory.
///
/// Invariant: `step` bytes at `start`, and the tail after them, lie in the window's data.
#[derive(Clone, Copy)]
pub(crate) struct InBlock<'d, 'b> {
    start: NonNull<u8>,
    window: Window<'d, 'b>,
}

impl<'d> InBlock<'d, '_> {
    /// Whether a key of this home is in a later block, if anywhere.
    #[inline(always)]
    pub(crate) fn moved_on(self, home: Home) -> bool {
        home.level > self.lanes(0)[1]
    }

    /// Whether a key that is not here may be in a later block, whatever its home.
    #[inline(always)]
    pub(crate) fn moves_all(self) -> bool {
        self.lanes(0)[1] == 0
    }

    /// The next block, if there is one.
    pub(crate) fn next(self) -> Option<Self> {
        let Bounds { step, buckets_end, .. } = *self.window.bounds;
        let at = self.start.as_ptr().addr() - self.window.data.as_ptr().addr();
        if at + 2 * step > buckets_end || step == 0 {
            return None;
        }
        // SAFETY: the block after this one was just found to end before the buckets do.
        Some(InBlock { start: unsafe { self.start.add(step) }, ..self })
    }

    /// The value of `key`; [`Unclear`] if a reference may be the key's, or something is
    /// wrong.
    #[inline(always)]
    pub(crate) fn find<W: Wanted>(self, print: u8, key: W) -> Result<Option<&'d [u8]>, Unclear> {
        let mut mask = self.mask(print, key.len());
        while mask != 0 {
            let (stored, size) = self.entry(mask)?;
            mask &= mask - 1;
            if size < key.len() {
                return Err(Unclear);
            }
            // SAFETY: the entry is in the block, by what `entry` says, and begins with a key that is as long.
            unsafe {
                if key.is_at(stored) {
                    let rest = stored.add(key.len());
                    return Ok(Some(std::slice::from_raw_parts(rest, size - key.len())));
                }
            }
        }
        match self.has_reference(print) {
            true => Err(Unclear),
            false => Ok(None),
        }
    }

    /// The first entry that has this fingerprint and length of the key.
    #[inline(always)]
    pub(crate) fn candidate(self, print: u8, len: usize) -> Result<Option<&'d [u8]>, Unclear> {
        match self.mask(print, len) {
            0 if self.has_reference(print) => Err(Unclear),
            0 => Ok(None),
            mask => {
                let (stored, size) = self.entry(mask)?;
                // SAFETY: the entry is in the block, by what `entry` says.
                Ok(Some(unsafe { std::slice::from_raw_parts(stored, size) }))
            }
        }
    }

    /// A bit for each lane that has this fingerprint and length of the key.
    #[inline(always)]
    fn mask(self, print: u8, len: usize) -> u32 {
        // Lanes without an entry have the length 0, and references that of the mark.
        let len = if (1..usize::from(REF_MARK)).contains(&len) { len as u8 } else { return 0 };
        let prints = (self.lanes(PRINTS), print);
        equal_mask_both(prints, (self.lanes(KEY_LENS), len))
    }

    /// Whether an entry that has this fingerprint is a reference.
    #[inline(always)]
    fn has_reference(self, print: u8) -> bool {
        let prints = (self.lanes(PRINTS), print);
        let marks = (self.lanes(KEY_LENS), REF_MARK);
        equal_mask_both(prints, marks) != 0
    }

    /// The only reference that has this fingerprint, with what follows it up to eight bytes; `None` if there are several,
    /// or something is wrong.
    #[inline(always)]
    pub(crate) fn reference(self, print: u8) -> Option<u64> {
        let prints = (self.lanes(PRINTS), print);
        let mask = equal_mask_both(prints, (self.lanes(KEY_LENS), REF_MARK));
        if !mask.is_power_of_two() {
            return None;
        }
        let (stored, _) = self.entry(mask).ok()?;
        // SAFETY: the entry begins in the block or where it ends, and the tail, of more than eight bytes, may be read
        // after that; an array of bytes has no alignment.
        Some(u64::from_le_bytes(unsafe { *stored.cast() }))
    }

    /// The entry of the lowest bit of a mask: where it begins, and its size. Both are within the block.
    #[inline(always)]
    fn entry(self, mask: u32) -> Result<(*const u8, usize), Unclear> {
        let i = (mask as u16).trailing_zeros() as usize;
        let sizes = self.lanes(SIZES);
        let size = usize::from(sizes[i % HALF_LANES]);
        let at = ENTRIES + sum_first_half(sizes, i);
        if at + size > self.window.bounds.step {
            return Err(Unclear);
        }
        Ok((self.start.as_ptr().wrapping_add(at), size))
    }

    /// The bytes at `at`, which is one of a few constants below the size of the tail.
    #[inline(always)]
    fn lanes(self, at: usize) -> &'d [u8; HALF_LANES] {
        let at = at.min(TAIL_BYTES - HALF_LANES);
        // SAFETY: by the invariant TAIL_BYTES may be read; an array of bytes has no alignment.
        unsafe { self.start.add(at).cast().as_ref() }
    }

    /// Asks for the cache line at `at`.
    #[inline(always)]
    pub(crate) fn prefetch(self, at: usize) {
        prefetch_at(self.start.as_ptr().wrapping_add(at));
    }
}

/// The bytes of a bucket.
///
/// Invariant: `len + TAIL_BYTES` bytes at `start` may be read for `'d`.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'d> {
    start: NonNull<u8>,
    len: usize,
    of: PhantomData<&'d [u8]>,
}

impl<'d> Bucket<'d> {
    /// Its length in bytes.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Its first bytes and, where it is shorter, those that follow it.
    #[inline(always)]
    pub(crate) fn head(self) -> &'d [u8; TAIL_BYTES] {
        // SAFETY: by the invariant there are that many; an array of bytes has no alignment.
        unsafe { self.start.cast().as_ref() }
    }

    /// The `len` bytes at `at`.
    #[inline(always)]
    pub(crate) fn get(self, at: usize, len: usize) -> Option<&'d [u8]> {
        let end = at.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: `at..end` was just found to lie within the bucket, which may be read.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), len) })
    }

    /// The eight bytes at `at`, little-endian; some of them may come after the bucket.
    #[inline(always)]
    pub(crate) fn word(self, at: usize) -> Option<u64> {
        if at > self.len {
            return None;
        }
        // SAFETY: `at` is at most `len`, and TAIL_BYTES after that may be read, which are more
        // than 8; an array of bytes has no alignment.
        Some(u64::from_le_bytes(unsafe { *self.start.add(at).cast().as_ref() }))
    }

    /// Asks for the cache line at `at`.
    #[inline(always)]
    pub(crate) fn prefetch(self, at: usize) {
        prefetch_at(self.start.as_ptr().wrapping_add(at));
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::Blocks;
    use super::super::format::HEADER_BYTES;
    use super::super::rows::Rows;
    use super::*;
    use crate::constant::BuildOptions;

    /// A header without records.
    fn empty_header() -> Header {
        let file = BuildOptions::new().build_in_memory([("", ""); 0]).unwrap();
        let mut header = Header::decode(&file[..HEADER_BYTES], file.len() as u64).unwrap();
        header.kind = Kind::Mixed;
        header
    }

    /// Blocks of every byte that a lookup reads, which lead outside of them or not.
    #[test]
    fn nothing_outside_a_block_is_looked_at() {
        let (step, count) = (320usize, 3usize);
        let mut header = empty_header();
        header.directory = Region { at: 256, len: 0 };
        header.buckets = Region { at: 256, len: (step * count + TAIL_BYTES) as u64 };
        header.addressing = Addressing::Blocks(Blocks { step, homes: 2 });
        let len = header.buckets.end() as usize;
        header.sums = Region { at: len as u64, len: 0 };
        let bounds = Bounds::new(&header).unwrap();
        let mut file = vec![0u8; len];
        let mut x = 3u32;
        for _ in 0..20_000 {
            for at in 0..step * count {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let byte = (x >> 24) as u8;
                // Fingerprints and lengths that fit often, sizes that lead past the end now and then.
                let in_head = (at % step < SIZES).then_some(byte & 1 | 8);
                file[256 + at] = in_head.unwrap_or(byte);
            }
            let window = Window::new(&file, &bounds).unwrap();
            let (mut block, _) = window.home(u64::from(x) << 32);
            let inside = |part: &[u8]| {
                let at = part.as_ptr().addr() - file.as_ptr().addr();
                assert!(at >= 256 && at + part.len() <= 256 + step * count, "{at} {}", part.len());
            };
            for _ in 0..count {
                for print in [8, 9] {
                    if let Ok(Some(value)) = block.find(print, &[0u8; 9][..]) {
                        inside(value);
                    }
                    if let Ok(Some(entry)) = block.candidate(print, 9) {
                        inside(entry);
                    }
                    block.reference(print);
                }
                let Some(next) = block.next() else { break };
                block = next;
            }
            assert!(block.next().is_none(), "there are {count} blocks");
        }
    }

    /// Rows of any bytes, which lead to records that there are or not.
    #[test]
    fn nothing_outside_the_records_is_looked_at() {
        let (rows, records, key_len, value_len) = (4usize, 20usize, 8usize, 3usize);
        let mut header = empty_header();
        header.kind = Kind::Fixed { key_len, value_len };
        header.directory = Region { at: 256, len: (rows * ROW_BYTES) as u64 };
        let (start, size) = (256 + rows * ROW_BYTES, key_len + value_len);
        let bytes = (records * size + TAIL_BYTES) as u64;
        header.buckets = Region { at: start as u64, len: bytes };
        header.records = records as u64;
        let len = header.buckets.end() as usize;
        header.sums = Region { at: len as u64, len: 0 };
        let bounds = |homes, records, kind| {
            let addressing = Addressing::Rows(Rows { homes });
            Bounds::new(&Header { addressing, records, kind, ..header })
        };
        let most = ((records * size + TAIL_BYTES) / size) as u64;
        for (homes, records, fit) in
            [(0, 20, false), (5, 20, false), (4, most, false), (4, u64::MAX, false), (4, 20, true)]
        {
            assert_eq!(bounds(homes, records, header.kind).is_some(), fit, "{homes} {records}");
        }
        assert!(bounds(4, 20, Kind::Mixed).is_none());
        let bounds = bounds(3, records as u64, header.kind).unwrap();
        let mut file = vec![0u8; len];
        let (mut found, mut absent, mut unclear, mut x) = (0, 0, 0, 3u32);
        for _ in 0..20_000 {
            for byte in &mut file[256..start] {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (x >> 24) as u8 & 0x1f;
            }
            for row in file[256..start].chunks_exact_mut(ROW_BYTES) {
                row[12] = (row[12] & 7) * 32;
                row[14..].fill(0);
            }
            let window = Window::new(&file, &bounds).unwrap();
            assert!(window.sought(&[0; 7][..]).is_none());
            assert!(window.sought_short(&[0; 9]).is_none());
            match window.sought_short(&[0; 8]).unwrap().find(u64::from(x) << 40 | 7) {
                Ok(Some(value)) => {
                    let at = value.as_ptr().addr() - file.as_ptr().addr();
                    assert!(at >= start && at + value.len() <= start + records * size, "{at}");
                    assert_eq!(value.len(), value_len);
                    found += 1;
                }
                Ok(None) => absent += 1,
                Err(Unclear) => unclear += 1,
            }
        }
        assert!(found > 1000 && absent > 1000 && unclear > 100, "{found} {absent} {unclear}");
    }

    #[test]
    fn nothing_outside_a_file_is_looked_at() {
        let region = |at, len| Region { at, len };
        let (directory, buckets) = (region(256, 64), region(320, 30 + TAIL_BYTES as u64));
        let len = 320 + 30 + TAIL_BYTES;
        let bounds = |len, directory, buckets, addressing| {
            let mut header = empty_header();
            (header.directory, header.buckets) = (directory, buckets);
            header.addressing = addressing;
            header.sums = region(len, 0);
            Bounds::new(&header)
        };
        assert!(bounds(len as u64 - 1, directory, buckets, Addressing::Directory).is_none());
        assert!(bounds(len as u64, directory, region(320, 127), Addressing::Directory).is_none());
        assert!(bounds(len as u64, region(u64::MAX, 64), buckets, Addressing::Directory).is_none());
        for (homes, fit) in [(0, false), (1, false), (u64::MAX, false)] {
            let blocks = Addressing::Blocks(Blocks { step: 320, homes });
            assert_eq!(bounds(len as u64, directory, buckets, blocks).is_some(), fit, "{homes}");
        }
        let bounds = bounds(len as u64, directory, buckets, Addressing::Directory).unwrap();

        let mut file = vec![0; len];
        assert!(Window::new(&file[1..], &bounds).is_none());
        // All buckets are empty but the last, which has what is there; or one byte more.
        file[256..264].copy_from_slice(&320u64.to_le_bytes());
        for (end, fits) in [(30u16, true), (31, false), (u16::MAX, false)] {
            file[318..320].copy_from_slice(&end.to_le_bytes());
            let bucket = Window::new(&file, &bounds).unwrap().bucket(u64::MAX);
            assert_eq!(bucket.map(Bucket::len), fits.then_some(30));
            if let Some(bucket) = bucket {
                assert_eq!(bucket.get(0, 30).map(<[u8]>::len), Some(30));
                assert_eq!((bucket.get(1, 30), bucket.get(usize::MAX, 2)), (None, None));
                assert_eq!((bucket.word(30), bucket.word(31)), (Some(0), None));
            }
        }
        file[256..264].copy_from_slice(&0xffff_ffff_ffffu64.to_le_bytes());
        assert!(Window::new(&file, &bounds).unwrap().bucket(0).is_none());
    }
}
