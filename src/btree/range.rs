//! The records of a range of keys, from either end.

use super::counted;
use super::source::Names;
use super::table::{Cursor, Pair, Table};
use crate::observe::Walk;
use crate::{Error, Result};
use std::iter::FusedIterator;
use std::ops::Bound;

/// The first key behind all that begin with these bytes; `None` if there is none. It is the prefix
/// without the highest bytes at its end, and one more in the last.
pub(crate) fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

/// Records in order; from [`Table::range`](super::Table::range) and its like.
#[derive(Debug)]
pub struct Range<'t> {
    front: Cursor<'t>,
    back: Cursor<'t>,
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    has_front: bool,
    has_back: bool,
    is_done: bool,
    /// What counts the records, if that is asked for.
    scan: Option<Box<Walk<'t>>>,
}

impl<'t> Range<'t> {
    pub(crate) fn new(table: Table<'t>, start: Bound<Vec<u8>>, end: Bound<Vec<u8>>) -> Range<'t> {
        let scan = counted::begin_scan(table.recorder(), start.as_ref().map(|key| &key[..]));
        let [front, back] = [(), ()].map(|()| table.uncounted().cursor());
        let (has_front, has_back, is_done) = (false, false, false);
        Range { front, back, start, end, has_front, has_back, is_done, scan }
    }

    fn step_front(&mut self) -> Result<Option<Pair<'t>>> {
        if self.has_front {
            self.front.next()?;
        } else {
            self.has_front = true;
            self.front.begin(self.start.as_ref().map(|key| &key[..]))?;
        }
        let Some(key) = self.front.key() else { return Ok(None) };
        let is_within = match (&self.end, self.back.key().filter(|_| self.has_back)) {
            (_, Some(taken)) => key < taken,
            (Bound::Unbounded, None) => true,
            (Bound::Included(end), None) => key <= &end[..],
            (Bound::Excluded(end), None) => key < &end[..],
        };
        if is_within { self.front.pair() } else { Ok(None) }
    }

    fn step_back(&mut self) -> Result<Option<Pair<'t>>> {
        if self.has_back {
            self.back.previous()?;
        } else {
            self.has_back = true;
            match &self.end {
                Bound::Unbounded => self.back.last()?,
                Bound::Excluded(key) => {
                    self.back.seek(key)?;
                    self.back.previous()?
                }
                Bound::Included(key) => {
                    if !self.back.find(key)? {
                        self.back.previous()?;
                    }
                    true
                }
            };
        }
        let Some(key) = self.back.key() else { return Ok(None) };
        let is_within = match (&self.start, self.front.key().filter(|_| self.has_front)) {
            (_, Some(taken)) => key > taken,
            (Bound::Unbounded, None) => true,
            (Bound::Included(start), None) => key >= &start[..],
            (Bound::Excluded(start), None) => key > &start[..],
        };
        if is_within { self.back.pair() } else { Ok(None) }
    }

    #[inline(always)]
    fn give(&mut self, step: Result<Option<Pair<'t>>>) -> Option<Result<Pair<'t>>> {
        let given = step.transpose();
        self.is_done = !matches!(given, Some(Ok(_)));
        if let (Some(scan), Some(given)) = (&mut self.scan, &given) {
            scan.came_to(given);
        }
        given
    }
}

impl Names for Range<'_> {
    #[cold]
    fn named(&self, error: Error) -> Error {
        self.front.table().named(error)
    }
}

impl<'t> Iterator for Range<'t> {
    type Item = Result<Pair<'t>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let step = self.step_front();
        self.give(step)
    }
}

impl FusedIterator for Range<'_> {}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let step = self.step_back();
        self.give(step)
    }
}
