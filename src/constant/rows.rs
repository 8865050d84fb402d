//! Records of one size, one after the other in the order of their hashes, and rows of fingerprints that say where to look.
//!
//! ```text
//! row: fingerprint (1) * 12 | limit (1) | number of its first record (3)
//! ```
//!
//! A hash names one of the rows, its home. All fingerprints of a row take one compare, and the number of the lane that
//! fits, added to that of the row's first record, is the number of the record: so a lookup waits for one line of the
//! rows, which are small enough for the caches, and for that of its record, and one of a key that is not there for the
//! first alone. Entries for which a row has no lane are in the next one, as with [`super::block`]: a row's limit says from
//! which level on its own are there.
//!
//! Invariants of a file that is whole: over all rows, records are sorted by hash; the lanes behind the last entry of a row
//! are zero; a row whose limit is 0 has an entry in every lane. A lookup tries lanes without an entry, too: what they
//! lead to is a record of a later row, which no comparison takes for the key's if it is not, or none.

use super::block::{Home, Limit, MOST_MOVED};
use super::bucket::fingerprint;
use super::lanes::equal_mask_half;

/// Bytes of a row.
pub(crate) const ROW_BYTES: usize = 16;
/// Most entries of a row.
pub(crate) const ROW_LANES: usize = 12;
/// Records of a file with rows are fewer: a row has three bytes for the number of one.
pub(crate) const MOST_RECORDS: u64 = 1 << 24;
/// The limit of a row of which nothing was moved: no level is as high.
const NO_LIMIT: u8 = 128;

/// How a file with rows is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Rows that hashes name; behind them are a few for what was moved.
    pub homes: u64,
}

/// Where a hash belongs among so many rows. Of its level no more is told than limits of rows tell.
#[inline(always)]
pub(crate) fn home(hash: u64, homes: u64) -> Home {
    let home = Home::of(hash, homes);
    Home { level: home.level & !1, ..home }
}

/// A hash's place among all of its home, as a fraction of 2^7.
#[inline(always)]
fn level(home: Home) -> u8 {
    home.level >> 1
}

/// A row as it lies in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'r>(pub &'r [u8; ROW_BYTES]);

impl Row<'_> {
    #[inline(always)]
    fn tail(self) -> u32 {
        self.0.last_chunk().map_or(0, |tail| u32::from_le_bytes(*tail))
    }

    /// The number of its first record.
    #[inline(always)]
    pub(crate) fn first(self) -> usize {
        (self.tail() >> 8) as usize
    }

    /// Whether all entries of a hash with this home are here.
    #[inline(always)]
    pub(crate) fn has_all(self, home: Home) -> bool {
        level(home) < self.tail() as u8
    }

    /// Which of its entries are in later rows.
    pub(crate) fn limit(self) -> Limit {
        let limit = u16::from(self.tail() as u8) * 2;
        Limit(limit.saturating_sub(1).min(u16::from(u8::MAX)) as u8)
    }

    /// A bit for each lane that has this fingerprint.
    #[inline(always)]
    pub(crate) fn mask(self, print: u8) -> u32 {
        equal_mask_half(self.0, print) & ((1 << ROW_LANES) - 1)
    }

    /// The fingerprints of its entries, and what is in its other lanes.
    pub(crate) fn lanes(&self, entries: usize) -> (&[u8], &[u8]) {
        self.0.get(..ROW_LANES).unwrap_or_default().split_at(entries.min(ROW_LANES))
    }
}

/// Makes rows for entries that come in the order of their hashes.
#[derive(Debug)]
pub(crate) struct RowFiller {
    rows: Rows,
    /// The number of the row in work, that of its first record, and how many entries it has.
    number: u64,
    first: u64,
    n: usize,
    /// The fingerprint and the home of each.
    prints: [u8; ROW_LANES],
    homes: [Home; ROW_LANES],
    /// By how many rows an entry was moved on at most.
    pub chain: u64,
}

impl RowFiller {
    pub(crate) fn new(rows: Rows) -> RowFiller {
        let homes = [Home { block: 0, level: 0 }; ROW_LANES];
        RowFiller { rows, number: 0, first: 0, n: 0, prints: [0; ROW_LANES], homes, chain: 0 }
    }

    /// Adds the entries of all hashes with this home, the homes coming one after the other, and gives `out` each row that
    /// is then complete, with its number of entries; false if entries would have to be moved on by too many rows.
    #[inline]
    pub(crate) fn add_home(
        &mut self,
        home: u64,
        mut hashes: impl ExactSizeIterator<Item = u64>,
        out: &mut impl FnMut([u8; ROW_BYTES], usize),
    ) -> bool {
        while self.number < home {
            self.complete(NO_LIMIT, out);
        }
        let n = hashes.len();
        if (self.n, self.number) == (0, home) && n <= ROW_LANES {
            // Nothing was moved here, and nothing has to be.
            let mut row = [0; ROW_BYTES];
            for (lane, hash) in row.iter_mut().zip(hashes) {
                *lane = fingerprint(hash);
            }
            self.give(row, n, NO_LIMIT, out);
            return true;
        }
        hashes.all(|hash| self.add(hash, out))
    }

    /// Adds one of them; false if it would have to be moved on by too many rows.
    fn add(&mut self, hash: u64, out: &mut impl FnMut([u8; ROW_BYTES], usize)) -> bool {
        let home = home(hash, self.rows.homes);
        while !self.put(home, fingerprint(hash)) {
            self.overflow(home, out);
        }
        self.chain <= MOST_MOVED
    }

    /// Puts an entry into the row in work; false if it has no room there.
    #[inline(always)]
    fn put(&mut self, home: Home, print: u8) -> bool {
        let n = self.n;
        let (Some(slot), Some(lane)) = (self.homes.get_mut(n), self.prints.get_mut(n)) else {
            return false;
        };
        (*slot, *lane) = (home, print);
        self.n += 1;
        self.chain = self.chain.max(self.number - home.block);
        true
    }

    /// Completes the row in work before its range of hashes ends: an entry of this home has no room. Those of its level go
    /// with it into the next row.
    #[cold]
    fn overflow(&mut self, home: Home, out: &mut impl FnMut([u8; ROW_BYTES], usize)) {
        let limit = if home.block == self.number { level(home) } else { 0 };
        let is_kept = |e: &Home| limit == 0 || e.block < self.number || level(*e) < limit;
        let (n, homes, prints) = (self.n, self.homes, self.prints);
        self.n = homes.iter().take(n).position(|e| !is_kept(e)).unwrap_or(n);
        let keep = self.n;
        self.complete(limit, out);
        for (home, print) in homes.into_iter().zip(prints).take(n).skip(keep) {
            // There are no more than one row had.
            self.put(home, print);
        }
    }

    /// Gives the row in work to `out` and begins the next.
    fn complete(&mut self, limit: u8, out: &mut impl FnMut([u8; ROW_BYTES], usize)) {
        let mut row = [0; ROW_BYTES];
        for (lane, print) in row.iter_mut().zip(self.prints).take(self.n) {
            *lane = print;
        }
        self.give(row, self.n, limit, out);
    }

    /// Gives a row of so many fingerprints to `out`.
    #[inline(always)]
    fn give(
        &mut self,
        mut row: [u8; ROW_BYTES],
        n: usize,
        limit: u8,
        out: &mut impl FnMut([u8; ROW_BYTES], usize),
    ) {
        if let Some(tail) = row.last_chunk_mut() {
            *tail = ((self.first as u32) << 8 | u32::from(limit)).to_le_bytes();
        }
        out(row, n);
        self.number += 1;
        self.first += n as u64;
        self.n = 0;
    }

    /// Completes rows until there are `total`; false if there are more already.
    pub(crate) fn finish(
        &mut self,
        total: u64,
        out: &mut impl FnMut([u8; ROW_BYTES], usize),
    ) -> bool {
        while self.number < total || self.n > 0 {
            self.complete(NO_LIMIT, out);
        }
        self.number == total
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::MAX_CHAIN;
    use super::super::block::tests::random;
    use super::*;

    /// The rows of entries with these hashes, how many each has, and by how many entries were moved on at most.
    fn fill(homes: u64, hashes: &[u64]) -> Option<(Vec<[u8; ROW_BYTES]>, Vec<usize>, u64)> {
        let mut filler = RowFiller::new(Rows { homes });
        let (mut rows, mut counts) = (Vec::new(), Vec::new());
        let mut out = |row, n| {
            rows.push(row);
            counts.push(n);
        };
        let mut hashes = hashes;
        let fits = (0..homes).all(|home| {
            let n = hashes.iter().take_while(|hash| Home::of(**hash, homes).block == home).count();
            let (own, rest) = hashes.split_at(n);
            hashes = rest;
            filler.add_home(home, own.iter().copied(), &mut out)
        });
        let total = homes + MAX_CHAIN + 1;
        (fits && filler.finish(total, &mut out)).then_some((rows, counts, filler.chain))
    }

    /// How many rows a lookup looks at until one has the record of this number.
    fn find(homes: u64, rows: &[[u8; ROW_BYTES]], hash: u64, number: usize) -> Option<usize> {
        let home = home(hash, homes);
        let at = home.block as usize;
        let limit = Row(&rows[at]).limit();
        assert_eq!(Row(&rows[at]).has_all(home), !limit.moved_on(home) && !limit.moves_all());
        let at = at + usize::from(limit.moved_on(home));
        for (looks, row) in (1..).zip(&rows[at..]) {
            let row = Row(row);
            let mask = row.mask(fingerprint(hash));
            if (0..ROW_LANES).any(|lane| mask >> lane & 1 == 1 && row.first() + lane == number) {
                return Some(looks);
            }
            if !row.limit().moves_all() {
                return None;
            }
        }
        None
    }

    #[test]
    fn every_entry_is_found_from_its_home() {
        let mut x = 7u64;
        let mut random = move || random(&mut x);
        for (homes, count, shared) in [
            (1, 0, 64),
            (1, 1, 64),
            (1, 12, 64),
            (1, 13, 64),
            (1, 120, 64),
            (100, 900, 64),
            (100, 1150, 64),
            (1000, 11_000, 64),
            // All in a few levels, or with one hash.
            (100, 200, 12),
            (100, 100, 7),
            (100, 300, 8),
        ] {
            let mut hashes: Vec<u64> =
                (0..count).map(|_| random() >> (64 - shared) << (64 - shared)).collect();
            hashes.sort_unstable();
            // Several records of a key have one hash.
            let times = if shared == 64 && count % 8 == 0 { 8 } else { 1 };
            let mut hashes: Vec<u64> =
                hashes.into_iter().step_by(times).flat_map(|hash| vec![hash; times]).collect();
            hashes.truncate(count);
            let case = format!("{homes} {count} {shared}");
            let (rows, counts, chain) = fill(homes, &hashes).expect(&case);
            let mut first = 0;
            for (row, n) in rows.iter().zip(counts) {
                let row = Row(row);
                assert_eq!(row.first(), first, "{case}");
                assert!(row.lanes(n).1.iter().all(|lane| *lane == 0), "{case}");
                assert!(!row.limit().moves_all() || n == ROW_LANES, "{case}");
                first += n;
            }
            assert_eq!(first, hashes.len(), "{case}");
            for (number, hash) in hashes.iter().enumerate() {
                let looks = find(homes, &rows, *hash, number);
                assert!(looks.is_some_and(|looks| looks as u64 <= chain + 1), "{case} {looks:?}");
            }
        }
    }

    /// Limits tell halves of levels only: entries of level 0 are in two rows, and a lookup of theirs begins in the first.
    #[test]
    fn entries_of_the_lowest_level_may_be_in_two_rows() {
        let (before, lowest) = (u64::MAX >> 1, 1 << 63 | 1 << 55);
        assert_eq!((Home::of(before, 2).block, Home::of(lowest, 2).level), (0, 1));
        let hashes = [[1; 12].as_slice(), &[before; 8], &[lowest; 8]].concat();
        let (rows, counts, _) = fill(2, &hashes).unwrap();
        assert_eq!(counts[..3], [12, 12, 4]);
        for (number, hash) in hashes.iter().enumerate() {
            assert!(find(2, &rows, *hash, number).is_some(), "{number}");
        }
    }

    #[test]
    fn too_many_for_one_home_are_refused() {
        assert!(fill(1000, &[5; 300]).is_none());
    }
}
