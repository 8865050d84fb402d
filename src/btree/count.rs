//! How many records are between two keys: exactly, or about.

use super::cursor::Walk;
use super::format::Tree;
use super::page::{Link, Place, count};
use super::probe::Probe;
use super::source::Source;
use super::tree::{Pages, levels, of};
use super::{inner, leaf, scan};
use crate::Result;
use std::ops::Bound;

/// The number of records in a range; looks at every leaf of it, but not at the records.
pub(crate) fn exactly(
    pages: &impl Pages,
    tree: Tree,
    start: Bound<&[u8]>,
    end: Bound<&[u8]>,
) -> Result<u64> {
    let mut walk = Walk::new(pages, tree);
    walk.begin(start)?;
    let mut records = 0;
    while let Some((page, at, count)) = walk.leaf() {
        let to = scan::end_in(pages, page, count, end)?;
        records += to.saturating_sub(at) as u64;
        if to < count {
            break;
        }
        walk.next_leaf()?;
    }
    Ok(records)
}

/// The same under a lease, with copies of no more than a part of it at a time.
#[cold]
pub(crate) fn exactly_in_parts(
    source: &Source<'_>,
    tree: Tree,
    start: Bound<&[u8]>,
    end: Bound<&[u8]>,
) -> Result<u64> {
    let (mut from, mut records): (Option<Vec<u8>>, u64) = (None, 0);
    while let Some(part) = source.afresh() {
        let mut walk = Walk::new(&part, tree);
        walk.begin(from.as_deref().map_or(start, Bound::Included))?;
        while let Some((page, at, count)) = walk.leaf() {
            let to = scan::end_in(&part, page, count, end)?;
            records += to.saturating_sub(at) as u64;
            if to < count {
                return Ok(records);
            }
            walk.next_leaf()?;
            if part.is_full() {
                break;
            }
        }
        let Some(next) = walk.key() else { break };
        from = Some(scan::behind(from, next.to_vec())?);
    }
    Ok(records)
}

fn leaf_place(pages: &impl Pages, page: u64, key: &[u8]) -> Result<Place> {
    of(page, leaf::find(pages.page_on(page, 0)?, &Probe::new(key), pages))
}

/// About how many records are in a range: two ways down the tree, as if all pages of a level had as
/// many records below them. Exact within a leaf.
pub(crate) fn about(
    pages: &impl Pages,
    tree: &Tree,
    start: Bound<&[u8]>,
    end: Bound<&[u8]>,
) -> Result<u64> {
    let Some(levels) = levels(tree)? else { return Ok(0) };
    let from = position(pages, tree, levels, start, false)?;
    let to = position(pages, tree, levels, end, true)?;
    if from.leaf == to.leaf {
        return Ok(to.index.saturating_sub(from.index) as u64);
    }
    let part = (to.part - from.part).clamp(0.0, 1.0);
    Ok((part * tree.count as f64).round() as u64)
}

/// Where a bound is.
struct Position {
    /// The part of all records that is before it, from 0 to 1, about.
    part: f64,
    leaf: u64,
    /// Records before it in that leaf.
    index: usize,
}

fn position(
    pages: &impl Pages,
    tree: &Tree,
    levels: u64,
    bound: Bound<&[u8]>,
    is_end: bool,
) -> Result<Position> {
    let (mut link, mut part, mut width) = (Link(tree.root), 0.0, 1.0);
    let mut step = |index: usize, count: usize| {
        width /= count.max(1) as f64;
        part += width * index as f64;
        part
    };
    for level in (1..=levels).rev() {
        let bytes = pages.page_on(link.page(), level)?;
        let links = count(bytes);
        let index = match bound {
            Bound::Included(key) | Bound::Excluded(key) => {
                of(link.page(), inner::find(bytes, &Probe::new(key), pages))?
            }
            Bound::Unbounded if is_end => links.saturating_sub(1),
            Bound::Unbounded => 0,
        };
        step(index, links);
        link = of(link.page(), inner::link(bytes, index))?;
    }
    let (page, records) = (link.page(), count(pages.page_on(link.page(), 0)?));
    let index = match bound {
        Bound::Unbounded if is_end => records,
        Bound::Unbounded => 0,
        Bound::Included(key) | Bound::Excluded(key) => match leaf_place(pages, page, key)? {
            // Behind it, if it is the end and in the range, or the start and not.
            Place::Found(i) => i + usize::from(is_end == matches!(bound, Bound::Included(_))),
            Place::Missing(i) => i,
        },
    };
    Ok(Position { part: step(index, records), leaf: page, index })
}
