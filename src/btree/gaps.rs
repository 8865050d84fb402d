//! Where leaves may be missing from the tables of a damaged store, for [`super::recover`].
//!
//! Threads: a value is used by one at a time.

use std::cmp::Reverse;

/// From which key on, and up to which; `None` where it is not known, or there is no bound.
pub(super) type Between<'k> = (Option<&'k [u8]>, Option<&'k [u8]>);

pub(super) fn is_within((low, high): Between<'_>, key: &[u8]) -> bool {
    low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high)
}

/// What is below an inner page that was left out of a table, or all of the table.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    pub table: usize,
    pub low: Option<Vec<u8>>,
    pub high: Option<Vec<u8>>,
}

impl Gap {
    fn between(&self) -> Between<'_> {
        (self.low.as_deref(), self.high.as_deref())
    }

    /// Whether no key is in a gap of the same table that begins no earlier, and is not in this one.
    fn has_all_of(&self, next: &Gap) -> bool {
        let reaches = |high: &Vec<u8>| next.high.as_ref().is_some_and(|next| next <= high);
        self.table == next.table && self.high.as_ref().is_none_or(reaches)
    }
}

/// All gaps. Invariant: of each table both where they begin and where they end rises from one to the next, so that only the last
/// one that begins before a key can have all that is from that key on.
pub(super) struct Gaps {
    by_table: Vec<Vec<Gap>>,
}

impl Gaps {
    pub(super) fn of(mut gaps: Vec<Gap>) -> Gaps {
        gaps.sort_by(|a, b| {
            // Of those that begin alike the longest first.
            let end = |gap: &Gap| Reverse((gap.high.is_none(), gap.high.clone()));
            (a.table, &a.low).cmp(&(b.table, &b.low)).then_with(|| end(a).cmp(&end(b)))
        });
        gaps.dedup_by(|next, gap| gap.has_all_of(next));
        let mut by_table: Vec<Vec<Gap>> = Vec::new();
        for gap in gaps {
            match by_table.last_mut() {
                Some(table) if table.first().is_some_and(|first| first.table == gap.table) => {
                    table.push(gap)
                }
                _ => by_table.push(vec![gap]),
            }
        }
        Gaps { by_table }
    }

    /// The only table with a gap in which all keys belong, and which takes them.
    pub(super) fn table_of(
        &self,
        keys: &[Vec<u8>],
        takes: impl Fn(usize, &[u8]) -> bool,
    ) -> Option<usize> {
        // Those of a damaged leaf may be in any order.
        let first = keys.iter().min()?;
        let mut tables = self.by_table.iter().filter_map(|gaps| {
            let begun = gaps.partition_point(|gap| gap.low.as_ref().is_none_or(|low| low <= first));
            let gap = gaps.get(begun.checked_sub(1)?)?;
            let is_right = |key: &Vec<u8>| is_within(gap.between(), key) && takes(gap.table, key);
            keys.iter().all(is_right).then_some(gap.table)
        });
        let table = tables.next()?;
        tables.next().is_none().then_some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every gap is compared with all keys.
    fn slowly(gaps: &[Gap], keys: &[Vec<u8>]) -> Option<usize> {
        let has_all = |gap: &&Gap| keys.iter().all(|key| is_within(gap.between(), key));
        let mut tables = gaps.iter().filter(has_all).map(|gap| gap.table);
        let table = tables.next()?;
        tables.all(|other| other == table).then_some(table)
    }

    #[test]
    fn the_table_is_that_which_a_look_at_every_gap_finds() {
        let mut number = 1u64;
        let mut below = |n: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) % n
        };
        let mut found = [0; 2];
        for _ in 0..200_000 {
            let mut gaps = Vec::new();
            for table in [0, 0, 0, 1, 1, 2] {
                let [low, high] =
                    [(); 2].map(|()| Some(vec![below(12) as u8]).filter(|_| below(8) > 0));
                gaps.push(Gap { table, low, high });
            }
            gaps.truncate(below(7) as usize);
            let keys: Vec<Vec<u8>> = (0..1 + below(3)).map(|_| vec![below(12) as u8]).collect();
            let table = Gaps::of(gaps.clone()).table_of(&keys, |_, _| true);
            assert_eq!(table, slowly(&gaps, &keys), "{gaps:?} {keys:?}");
            found[usize::from(table.is_some())] += 1;
        }
        assert!(found.iter().all(|times| *times > 10_000), "{found:?}");
    }
}
