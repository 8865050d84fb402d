//! Reading many records in order, a leaf at a time.

use super::cursor::Walk;
use super::format::{PAGE_BYTES, Tree};
use super::page::Place;
use super::probe::Probe;
use super::source::Source;
use super::tree::{Pages, of};
use super::writer::damaged;
use super::{leaf, records};
use crate::Result;
use std::ops::Bound;

/// Calls `f` with every record of a range, in order, until it says `false`.
pub(crate) fn scan<P: Pages>(
    pages: &P,
    tree: Tree,
    (start, end): (Bound<&[u8]>, Bound<&[u8]>),
    mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<()> {
    let mut walk = Walk::new(pages, tree);
    walk.begin(start)?;
    let mut key = Vec::new();
    while let Some((page, at, count)) = walk.leaf() {
        let to = end_in(pages, page, count, end)?;
        let is_over = !records::each(pages, page, at..to.max(at), &mut key, &mut f)?;
        if is_over || to < count {
            return Ok(());
        }
        walk.next_leaf()?;
        if let Some((page, ..)) = walk.leaf() {
            // The leaf is read from front to back: the memory's own foresight does the rest.
            pages.prefetch(page * PAGE_BYTES);
        }
    }
    Ok(())
}

/// What is done with every record, until it says `false`.
type Each<'f> = dyn FnMut(&[u8], &[u8]) -> Result<bool> + 'f;

/// The same under a lease, with copies of no more than a part of it at a time.
#[cold]
pub(crate) fn scan_in_parts(
    source: &Source<'_>,
    tree: Tree,
    (start, end): (Bound<&[u8]>, Bound<&[u8]>),
    f: &mut Each<'_>,
) -> Result<()> {
    let mut from = None;
    loop {
        let start = from.as_deref().map_or(start, Bound::Included);
        let Some(next) = scan_part(source, tree, (start, end), f)? else { return Ok(()) };
        from = Some(behind(from, next)?);
    }
}

/// The same as far as copies of one part go: the key where the next part begins, if there is one.
fn scan_part(
    source: &Source<'_>,
    tree: Tree,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
    f: &mut Each<'_>,
) -> Result<Option<Vec<u8>>> {
    let Some(part) = source.afresh() else { return Ok(None) };
    let (mut next, mut is_first) = (None, true);
    scan(&part, tree, bounds, |key, value| {
        // One record at least, however long it is.
        if !std::mem::take(&mut is_first) && part.is_full() {
            next = Some(key.to_vec());
            return Ok(false);
        }
        f(key, value)
    })?;
    Ok(next)
}

/// All records under a lease, in order, read a part at a time.
pub(crate) struct Parts<'s, 'c> {
    source: &'s Source<'c>,
    tree: Tree,
    /// Where the next part begins.
    from: Option<Vec<u8>>,
    is_last: bool,
    read: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
}

impl<'s, 'c> Parts<'s, 'c> {
    pub(crate) fn new(source: &'s Source<'c>, tree: Tree) -> Parts<'s, 'c> {
        Parts { source, tree, from: None, is_last: false, read: Vec::new().into_iter() }
    }

    fn read_part(&mut self) -> Result<()> {
        let start = self.from.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let mut records = Vec::new();
        let next =
            scan_part(self.source, self.tree, (start, Bound::Unbounded), &mut |key, value| {
                records.push((key.to_vec(), value.to_vec()));
                Ok(true)
            })?;
        self.is_last = next.is_none();
        self.from = next.map(|next| behind(self.from.take(), next)).transpose()?;
        self.read = records.into_iter();
        Ok(())
    }
}

impl Iterator for Parts<'_, '_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.read.next() {
                return Some(Ok(record));
            }
            if self.is_last {
                return None;
            }
            if let Err(error) = self.read_part() {
                self.is_last = true;
                return Some(Err(error));
            }
        }
    }
}

/// A key where another part begins: behind that where the last one began, so that an end is come to
/// also on damaged pages.
pub(crate) fn behind(last: Option<Vec<u8>>, next: Vec<u8>) -> Result<Vec<u8>> {
    match last {
        Some(last) if last >= next => Err(damaged(0, "keys that are not in order")),
        _ => Ok(next),
    }
}

/// How many of the records of a leaf come before the end of a range.
pub(crate) fn end_in(
    pages: &impl Pages,
    page: u64,
    count: usize,
    end: Bound<&[u8]>,
) -> Result<usize> {
    let find = |key: &[u8]| of(page, leaf::find(pages.page_on(page, 0)?, &Probe::new(key), pages));
    Ok(match end {
        Bound::Unbounded => count,
        Bound::Excluded(key) => find(key)?.index(),
        Bound::Included(key) => match find(key)? {
            Place::Found(i) => i + 1,
            Place::Missing(i) => i,
        },
    })
}
