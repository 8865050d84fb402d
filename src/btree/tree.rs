//! Looking keys up in a tree.
//!
//! The heads of a page are asked for as soon as its number is known, all of them at once: so a page
//! costs one wait for memory, and the record behind them a second. `get_many` walks down with many
//! keys in step, and so waits for all of them together.

use super::format::{PAGE_BYTES, Tree};
use super::page::{self, Bytes, Kind, Link, Place, at, kind};
use super::record::{Elsewhere, Value};
use super::writer::damaged;
use super::{inner, leaf};
use crate::{Error, Result};

/// Most levels of pages: far more than 2^36 pages need.
pub(crate) const MAX_DEPTH: u64 = 40;
/// So many levels at the top are always in the processor's caches: at most some hundred pages.
const HOT_LEVELS: u64 = 2;
/// Keys that are looked up in step.
const STEP: usize = 32;

/// Who has the pages of a commit.
pub(crate) trait Pages: Elsewhere {
    /// The page with this number.
    fn page(&self, number: u64) -> Result<&Bytes>;
    /// Asks for the memory at an address; only a hint.
    fn prefetch(&self, at: u64);

    /// Asks for the heads of a page.
    #[inline(always)]
    fn prefetch_heads(&self, link: Link) {
        let from = link.page() * PAGE_BYTES;
        for line in 0..link.lines() {
            self.prefetch(from + 64 * line);
        }
    }

    /// A page that is to be on this level.
    #[inline(always)]
    fn page_on(&self, number: u64, level: u64) -> Result<&Bytes> {
        let bytes = self.page(number)?;
        let is_inner = kind(bytes) == Some(Kind::Inner);
        if kind(bytes).is_none() || is_inner != (level > 0) || u64::from(bytes[at::LEVEL]) != level
        {
            return Err(damaged(number, "not a page of this level of a tree"));
        }
        Ok(bytes)
    }

    /// What is elsewhere.
    #[inline(always)]
    fn value<'p>(&'p self, page: u64, value: Value<'p>) -> Result<&'p [u8]> {
        match value {
            Value::Near(value) => Ok(value),
            Value::Far(far) => self.far(far).map_err(|what| damaged(page, what)),
        }
    }
}

/// The error for a page.
#[inline(always)]
pub(crate) fn of<T>(page: u64, found: Result<T, &'static str>) -> Result<T> {
    found.map_err(|what| damaged(page, what))
}

/// How many levels of inner pages are above the leaves; `None` if the tree is empty.
#[inline(always)]
pub(crate) fn levels(tree: &Tree) -> Result<Option<u64>> {
    match tree.depth {
        0 => Ok(None),
        depth if depth <= MAX_DEPTH => Ok(Some(depth - 1)),
        _ => Err(too_deep()),
    }
}

/// Whether pages on this level are probably not in the processor's caches.
#[inline(always)]
fn is_cold(tree: &Tree, level: u64) -> bool {
    tree.depth > level + HOT_LEVELS
}

#[cold]
fn too_deep() -> Error {
    Error::corrupt(0, "a tree with more levels than there can be")
}

/// The leaf that `key` belongs in; `None` if the tree is empty.
#[inline(always)]
pub(crate) fn leaf_of<'p>(
    pages: &'p impl Pages,
    tree: &Tree,
    key: &[u8],
) -> Result<Option<(u64, &'p Bytes)>> {
    let Some(levels) = levels(tree)? else { return Ok(None) };
    let mut link = Link(tree.root);
    for level in (1..=levels).rev() {
        let bytes = pages.page_on(link.page(), level)?;
        let i = of(link.page(), inner::find(bytes, key, pages))?;
        link = of(link.page(), inner::link(bytes, i))?;
        if is_cold(tree, level - 1) {
            pages.prefetch_heads(link);
        }
    }
    Ok(Some((link.page(), pages.page_on(link.page(), 0)?)))
}

/// The value of `key`.
#[inline(always)]
pub(crate) fn get<'p>(pages: &'p impl Pages, tree: &Tree, key: &[u8]) -> Result<Option<&'p [u8]>> {
    let Some((page, bytes)) = leaf_of(pages, tree, key)? else { return Ok(None) };
    match of(page, leaf::find(bytes, key, pages))? {
        Place::Missing(_) => Ok(None),
        Place::Found(i) => pages.value(page, of(page, leaf::value(bytes, i))?).map(Some),
    }
}

/// The value of each key: `f` is called for each in turn with its number.
pub(crate) fn get_many<K: AsRef<[u8]>>(
    pages: &impl Pages,
    tree: &Tree,
    keys: &[K],
    mut f: impl FnMut(usize, Option<&[u8]>),
) -> Result<()> {
    let Some(levels) = levels(tree)? else {
        (0..keys.len()).for_each(|i| f(i, None));
        return Ok(());
    };
    for (batch, part) in keys.chunks(STEP).enumerate() {
        let mut links = [Link(tree.root); STEP];
        for level in (1..=levels).rev() {
            for (link, key) in links.iter_mut().zip(part) {
                let bytes = pages.page_on(link.page(), level)?;
                let i = of(link.page(), inner::find(bytes, key.as_ref(), pages))?;
                *link = of(link.page(), inner::link(bytes, i))?;
                if level == 1 {
                    prefetch_pivots(pages, *link);
                } else if is_cold(tree, level - 1) {
                    pages.prefetch_heads(*link);
                }
            }
        }
        let mut ranges = [(0, 0); STEP];
        for ((link, key), range) in links.iter().zip(part).zip(&mut ranges) {
            let bytes = pages.page_on(link.page(), 0)?;
            *range = of(link.page(), leaf::narrow(bytes, key.as_ref(), pivots(*link)))?;
            let from = link.page() * PAGE_BYTES;
            for line in page::line_of(range.0)..=page::line_of(range.1) {
                pages.prefetch(from + 64 * line as u64);
            }
        }
        let mut places = [Place::Missing(0); STEP];
        for (((link, key), place), range) in links.iter().zip(part).zip(&mut places).zip(ranges) {
            let bytes = pages.page(link.page())?;
            *place = of(link.page(), leaf::find_in(bytes, key.as_ref(), range, pages))?;
            if let Place::Found(i) = *place {
                let at = link.page() * PAGE_BYTES + leaf::place_of(bytes, i) as u64;
                pages.prefetch(at);
            }
        }
        for (i, (link, place)) in links.iter().zip(places).enumerate().take(part.len()) {
            let value = match place {
                Place::Missing(_) => None,
                Place::Found(at) => {
                    let bytes = pages.page(link.page())?;
                    let value = of(link.page(), leaf::value(bytes, at))?;
                    Some(pages.value(link.page(), value)?)
                }
            };
            f(batch * STEP + i, value);
        }
    }
    Ok(())
}

/// The lines of heads that part a leaf's in four. Of a leaf in the usual sizes, these and those of one
/// quarter are eight lines of memory instead of twenty; many lookups together are bound by those.
#[inline(always)]
fn pivots(link: Link) -> [usize; 3] {
    let lines = link.lines() as usize;
    [lines / 4, lines / 2, 3 * lines / 4]
}

#[inline(always)]
fn prefetch_pivots(pages: &impl Pages, link: Link) {
    let from = link.page() * PAGE_BYTES;
    pages.prefetch(from);
    // The head of the page, too, says where its records are.
    pages.prefetch(from + PAGE_BYTES - 64);
    for line in pivots(link) {
        pages.prefetch(from + 64 * line as u64);
    }
}
