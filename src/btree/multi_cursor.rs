//! Cursors in tables whose keys may have several values, to read; and what those that change have in
//! common with them.

use super::counted;
use super::multi::{MultiPair, no_pair, value_of};
use super::pairs::Pairs;
use super::range::behind;
use super::table::{Cursor, Table};
use crate::observe::{Recorder, Steps, Way};
use crate::{Bytes, Error, Result};
use std::ops::Bound;

/// A cursor among the pairs of a table.
pub(super) trait Among {
    /// The pair here.
    fn pair(&self) -> Option<&[u8]>;
    /// The same, or where one was taken out, that one.
    fn place(&self) -> Option<&[u8]>;
    fn table(&self) -> Table<'_>;
    fn first(&mut self) -> Result<bool>;
    fn last(&mut self) -> Result<bool>;
    fn seek(&mut self, pair: &[u8]) -> Result<bool>;
    /// The same as part of a way on in one direction.
    fn seek_on(&mut self, way: Way, pair: &[u8]) -> Result<bool>;
    /// Goes to the last pair that begins so, or before where there would be one; whether it is at a pair.
    fn last_with(&mut self, begin: &[u8]) -> Result<bool> {
        match behind(begin) {
            Some(behind) => {
                self.seek(&behind)?;
                self.previous()
            }
            None => self.last(),
        }
    }
    fn next(&mut self) -> Result<bool>;
    fn previous(&mut self) -> Result<bool>;
    /// Makes a step if it leads to a pair that begins so; whether it did.
    fn step_within(&mut self, way: Way, begin: &[u8]) -> Result<bool>;
}

impl Among for Cursor<'_> {
    #[inline(always)]
    fn pair(&self) -> Option<&[u8]> {
        self.key()
    }

    #[inline(always)]
    fn place(&self) -> Option<&[u8]> {
        self.key()
    }

    fn table(&self) -> Table<'_> {
        self.table()
    }

    fn first(&mut self) -> Result<bool> {
        self.first()
    }

    fn last(&mut self) -> Result<bool> {
        self.last()
    }

    fn seek(&mut self, pair: &[u8]) -> Result<bool> {
        self.seek(pair)
    }

    fn seek_on(&mut self, _: Way, pair: &[u8]) -> Result<bool> {
        self.seek(pair)
    }

    #[inline(always)]
    fn next(&mut self) -> Result<bool> {
        self.next()
    }

    #[inline(always)]
    fn previous(&mut self) -> Result<bool> {
        self.previous()
    }

    fn step_within(&mut self, way: Way, begin: &[u8]) -> Result<bool> {
        match way {
            Way::Forward => self.next()?,
            Way::Back => self.previous()?,
        };
        if self.key().is_some_and(|pair| pair.starts_with(begin)) {
            return Ok(true);
        }
        match way {
            Way::Forward => self.previous()?,
            Way::Back => self.next()?,
        };
        Ok(false)
    }
}

/// A place in a table whose keys may have several values: at one of them, before the first, or behind
/// the last. See [`MultiCursorMut`](super::MultiCursorMut) for those that change what they are at.
#[derive(Debug)]
pub struct MultiCursor<'t, C = Cursor<'t>> {
    pub(super) raw: C,
    pub(super) pairs: Pairs,
    /// The key here, and where behind it in the pair the value or the label begins.
    pub(super) key: Vec<u8>,
    rest: usize,
    pub(super) recorder: Option<&'t Recorder>,
    /// What records its steps, if that is asked for.
    steps: Option<Box<Steps>>,
}

#[allow(private_bounds, reason = "there are two cursors, and no others")]
impl<'t, C: Among> MultiCursor<'t, C> {
    pub(super) fn new(raw: C, pairs: Pairs, recorder: Option<&'t Recorder>) -> MultiCursor<'t, C> {
        let steps = recorder.and_then(Recorder::steps);
        MultiCursor { raw, pairs, key: Vec::new(), rest: 0, recorder, steps }
    }

    /// The key here; `None` before the first value, behind the last, and where one was
    /// taken out.
    #[inline(always)]
    pub fn key(&self) -> Option<&[u8]> {
        self.raw.pair().map(|_| &self.key[..])
    }

    /// What is behind the key in a pair of it.
    pub(super) fn rest<'p>(&self, pair: &'p [u8]) -> &'p [u8] {
        pair.get(self.rest..).unwrap_or_default()
    }

    /// Reads the key here.
    #[inline(always)]
    pub(super) fn arrive(&mut self) -> Result<bool> {
        let Some(pair) = self.raw.pair() else { return Ok(false) };
        let rest = self.pairs.split(pair, &mut self.key);
        let rest = rest.ok_or_else(|| self.raw.table().named(no_pair()))?;
        self.rest = pair.len() - rest.len();
        Ok(true)
    }

    /// What the pairs of the key here begin with.
    pub(super) fn begin(&self) -> Option<Vec<u8>> {
        self.raw.place().and_then(|pair| pair.get(..self.rest)).map(<[u8]>::to_vec)
    }

    /// What the steps so far came to is recorded before what comes now.
    pub(super) fn end_steps(&mut self) {
        self.steps.iter_mut().for_each(|steps| steps.end());
    }

    /// Goes elsewhere; whether there is a value.
    fn go(
        &mut self,
        key: Option<&[u8]>,
        go: impl FnOnce(&mut Self) -> Result<bool>,
    ) -> Result<bool> {
        self.end_steps();
        counted::seek(self.recorder, key, || go(self))
    }

    /// Reads the key that a step has come to.
    #[inline(always)]
    fn step(&mut self, way: Way) -> Result<bool> {
        let step = self.arrive();
        counted::stepped(&mut self.steps, way, step, Some(&self.key))
    }

    /// Goes to the first value of the lowest key; whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn first(&mut self) -> Result<bool> {
        self.go(None, |cursor| {
            cursor.raw.first()?;
            cursor.arrive()
        })
    }

    /// Goes to the last value of the highest key; whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn last(&mut self) -> Result<bool> {
        self.go(None, |cursor| {
            cursor.raw.last()?;
            cursor.arrive()
        })
    }

    /// Goes to the first value of the first key that is not below `key`; if there is none, behind the
    /// last. Whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`]; or this is no key of the table's type.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Some(key), |cursor| cursor.go_to(key))
    }

    fn go_to(&mut self, key: &[u8]) -> Result<bool> {
        self.pairs.check_key(key).map_err(|e| self.raw.table().named(e))?;
        self.raw.seek(&self.pairs.begin(key).unwrap_or_default())?;
        self.arrive()
    }

    /// The same; whether its key is `key`.
    ///
    /// # Errors
    /// As [`MultiCursor::seek`].
    pub fn find(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Some(key), |cursor| Ok(cursor.go_to(key)? && cursor.key == key))
    }

    /// Where values are sorted: goes to the first value of `key` that is not below `value`; if there
    /// is none, to what comes behind. Whether it is at a value of `key` then.
    ///
    /// # Errors
    /// As [`MultiCursor::seek`]; or values are not sorted.
    pub fn seek_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.go(Some(key), |cursor| cursor.go_to_value(key, value))
    }

    fn go_to_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.pairs.check_key(key).map_err(|e| self.raw.table().named(e))?;
        if !self.pairs.is_sorted() {
            let error = Error::invalid("the values of this table are not sorted");
            return Err(self.raw.table().named(error));
        }
        let mut pair = self.pairs.begin(key).unwrap_or_default();
        pair.extend_from_slice(value);
        self.raw.seek(&pair)?;
        Ok(self.arrive()? && self.key == key)
    }

    /// Goes to the next value, of this key or of the next; whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[allow(clippy::should_implement_trait)]
    #[inline(always)]
    pub fn next(&mut self) -> Result<bool> {
        self.raw.next()?;
        self.step(Way::Forward)
    }

    /// Goes to the value before, of this key or of the one before; whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[inline(always)]
    pub fn previous(&mut self) -> Result<bool> {
        self.raw.previous()?;
        self.step(Way::Back)
    }

    /// Goes to the first value of the next key; whether there is one. From before the first, to the
    /// first.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn next_key(&mut self) -> Result<bool> {
        let Some(begin) = self.begin() else { return self.next() };
        match behind(&begin) {
            Some(behind) => self.raw.seek_on(Way::Forward, &behind)?,
            None => self.raw.last()? && self.raw.next()?,
        };
        self.step(Way::Forward)
    }

    /// Goes to the last value of the key before; whether there is one. From behind the last, to the
    /// last.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn previous_key(&mut self) -> Result<bool> {
        if let Some(begin) = self.begin() {
            self.raw.seek_on(Way::Back, &begin)?;
        }
        self.previous()
    }

    /// Goes to the next value of this key; if there is none it stays where it is. Whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn next_value(&mut self) -> Result<bool> {
        self.step_within(Way::Forward)
    }

    /// Goes to the value of this key before; if there is none it stays where it is. Whether there is
    /// one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn previous_value(&mut self) -> Result<bool> {
        self.step_within(Way::Back)
    }

    fn step_within(&mut self, way: Way) -> Result<bool> {
        let Some(begin) = self.begin() else { return Ok(false) };
        if self.raw.step_within(way, &begin)? { self.step(way) } else { Ok(false) }
    }

    /// Goes to the first value of this key; whether the cursor is at one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn first_value(&mut self) -> Result<bool> {
        let Some(begin) = self.begin_of_some()? else { return Ok(false) };
        self.raw.seek(&begin)?;
        self.step(Way::Back)
    }

    /// Goes to the last value of this key; whether the cursor is at one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn last_value(&mut self) -> Result<bool> {
        let Some(begin) = self.begin_of_some()? else { return Ok(false) };
        self.raw.last_with(&begin)?;
        self.step(Way::Forward)
    }

    /// What the pairs of the key here begin with, if it has one left.
    fn begin_of_some(&self) -> Result<Option<Vec<u8>>> {
        let Some(begin) = self.begin() else { return Ok(None) };
        if self.raw.pair().is_some() {
            return Ok(Some(begin));
        }
        let mut cursor = self.raw.table().uncounted().cursor();
        cursor.seek(&begin)?;
        let has_some = cursor.key().is_some_and(|pair| pair.starts_with(&begin));
        Ok(has_some.then_some(begin))
    }

    /// How many values this key has, also where one of them was taken out; 0 before the first value and behind the last.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn count(&self) -> Result<u64> {
        let Some(begin) = self.begin() else { return Ok(0) };
        let end = behind(&begin);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.count_within((Bound::Included(&begin), end))
    }

    /// How many values of this key are before this one; `None` if the cursor is at none.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn position(&self) -> Result<Option<u64>> {
        let (Some(begin), Some(pair)) = (self.begin(), self.raw.pair()) else { return Ok(None) };
        self.count_within((Bound::Included(&begin), Bound::Excluded(pair))).map(Some)
    }

    /// How many pairs of this key are within these bounds.
    fn count_within(&self, pairs: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<u64> {
        counted::count(self.recorder, &Bound::Included(&self.key), || {
            self.raw.table().uncounted().count_range(pairs)
        })
    }
}

impl<'t> MultiCursor<'t> {
    /// The value here.
    ///
    /// # Errors
    /// As [`MultiTable::get`](super::MultiTable::get).
    pub fn value(&self) -> Result<Option<Bytes<'t>>> {
        let Some(pair) = self.raw.key() else { return Ok(None) };
        let value = self.raw.value()?.unwrap_or_default();
        Ok(Some(value_of(self.pairs, self.rest(pair), value)))
    }

    /// Key and value here.
    pub(super) fn record(&self) -> Result<Option<MultiPair<'t>>> {
        let key = self.key().map(<[u8]>::to_vec);
        Ok(key.zip(self.value()?))
    }
}
