//! How many records are between two keys, exactly; `estimate` has about how many.

use super::cursor::Walk;
use super::format::Tree;
use super::scan;
use super::source::Source;
use super::tree::Pages;
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
