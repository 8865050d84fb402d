//! About how many records are between two keys, from the pages on the way to both.
//!
//! The pages on the ways are counted as they are, so that a range within a leaf or two is known exactly. Of all others,
//! which are beside a way, it is only known how many they are: each is taken to have as many records below it as is
//! ordinary for its level. What is ordinary is reckoned from both edges of the tree and from a page of each level between
//! them, such that all together have the records that the tree has. A page at an edge is none to go by: where a table was
//! filled in the order of its keys, it may be all but empty. When every page of a level was taken for the same, edges too,
//! the last hundredth of such a table was taken for a tenth of it.

use super::format::Tree;
use super::page::{Link, Place, count};
use super::probe::Probe;
use super::tree::{Pages, levels, of};
use super::{inner, leaf};
use crate::Result;
use std::iter::zip;
use std::ops::Bound;

/// About how many records are in a range.
pub(crate) fn about(
    pages: &impl Pages,
    tree: &Tree,
    start: Bound<&[u8]>,
    end: Bound<&[u8]>,
) -> Result<u64> {
    let Some(levels) = levels(tree)? else { return Ok(0) };
    let from = Descent::to(pages, tree, levels, Goal::Start(start))?;
    let to = Descent::to(pages, tree, levels, Goal::End(end))?;
    let mut steps = zip(&from.inner, &to.inner).enumerate();
    let Some((parting, (left, right))) = steps.find(|(_, (from, to))| from.index != to.index)
    else {
        return Ok(to.leaf.index.saturating_sub(from.leaf.index));
    };
    if right.index < left.index {
        // The end is before the start.
        return Ok(0);
    }
    let sizes = ordinary_sizes(pages, tree, levels)?;
    let mut beside = (right.index - left.index - 1) as f64 * sizes.get(parting).unwrap_or(&0.0);
    for ((_, (left, right)), size) in zip(steps, sizes.iter().skip(parting + 1)) {
        beside += (left.count.saturating_sub(left.index + 1) + right.index) as f64 * size;
    }
    let in_leaves = from.leaf.count.saturating_sub(from.leaf.index) + to.leaf.index;
    Ok((beside.round() as u64).saturating_add(in_leaves).min(tree.count))
}

/// How many records are ordinary below a page that is linked from each level of inner pages, the topmost level first. The
/// first and the last leaf of the tree are counted as they are; `Descent::to` has counted how many pages of each level there
/// are at the edges.
fn ordinary_sizes(pages: &impl Pages, tree: &Tree, levels: u64) -> Result<Vec<f64>> {
    let first = Descent::to(pages, tree, levels, Goal::Start(Bound::Unbounded))?;
    let last = Descent::to(pages, tree, levels, Goal::End(Bound::Unbounded))?;
    let middle = Descent::to(pages, tree, levels, Goal::Middle)?;
    // In leaves, at first.
    let mut sizes = vec![1.0; middle.inner.len()];
    let mut size = 1.0;
    for (place, step) in zip(&mut sizes, &middle.inner).rev() {
        *place = size;
        size *= step.count as f64;
    }
    let mut leaves = 0.0;
    for (depth, (size, (first, last))) in zip(&sizes, zip(&first.inner, &last.inner)).enumerate() {
        // The topmost page is on both edges.
        let inside = if depth == 0 { first.count } else { first.count + last.count };
        leaves += inside.saturating_sub(2) as f64 * size;
    }
    let records = tree.count.saturating_sub(first.leaf.count + last.leaf.count) as f64;
    sizes.iter_mut().for_each(|size| *size *= records / leaves.max(1.0));
    Ok(sizes)
}

/// Where a way through the tree leads.
#[derive(Clone, Copy)]
enum Goal<'k> {
    /// To the first record of a range.
    Start(Bound<&'k [u8]>),
    /// Behind the last.
    End(Bound<&'k [u8]>),
    /// To a leaf that is at no edge, if there is one.
    Middle,
}

/// A page on a way.
struct Step {
    /// Its links or records.
    count: u64,
    /// How many of them are before the way.
    index: u64,
}

impl Step {
    fn new(count: usize, index: usize) -> Step {
        Step { count: count as u64, index: index as u64 }
    }
}

/// A way from the topmost page to a leaf.
struct Descent {
    /// The topmost first.
    inner: Vec<Step>,
    leaf: Step,
}

impl Descent {
    fn to(pages: &impl Pages, tree: &Tree, levels: u64, goal: Goal<'_>) -> Result<Descent> {
        let mut link = Link(tree.root);
        let mut steps = Vec::with_capacity(levels as usize);
        for level in (1..=levels).rev() {
            let bytes = pages.page_on(link.page(), level)?;
            let links = count(bytes);
            let index = match (goal.key(), goal) {
                (Some(key), _) => of(link.page(), inner::find(bytes, &Probe::new(key), pages))?,
                (None, Goal::Start(_)) => 0,
                (None, Goal::End(_)) => links.saturating_sub(1),
                (None, Goal::Middle) => links.saturating_sub(1) / 2,
            };
            steps.push(Step::new(links, index));
            link = of(link.page(), inner::link(bytes, index))?;
        }
        let bytes = pages.page_on(link.page(), 0)?;
        let index = match (goal.key(), goal) {
            (Some(key), _) => match of(link.page(), leaf::find(bytes, &Probe::new(key), pages))? {
                Place::Found(i) => i + usize::from(goal.is_behind_its_key()),
                Place::Missing(i) => i,
            },
            (None, Goal::Start(_) | Goal::Middle) => 0,
            (None, Goal::End(_)) => count(bytes),
        };
        Ok(Descent { inner: steps, leaf: Step::new(count(bytes), index) })
    }
}

impl<'k> Goal<'k> {
    fn key(self) -> Option<&'k [u8]> {
        match self {
            Goal::Start(Bound::Included(key) | Bound::Excluded(key))
            | Goal::End(Bound::Included(key) | Bound::Excluded(key)) => Some(key),
            _ => None,
        }
    }

    fn is_behind_its_key(self) -> bool {
        matches!(self, Goal::Start(Bound::Excluded(_)) | Goal::End(Bound::Included(_)))
    }
}
