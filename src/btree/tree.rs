//! Looking keys up in a tree.
//!
//! The heads of a page are asked for as soon as its number is known, all of them at once: so a page
//! costs one wait for memory, and the record behind them a second. `get_many` walks down with many
//! keys in step, and so waits for all of them together, where the file is larger than the caches.

use super::format::{PAGE_BYTES, Tree};
use super::leaf::Narrow;
use super::page::{self, Bytes, Link, STRIDE};
use super::probe::Probe;
use super::record::{Elsewhere, Value};
use super::writer::damaged;
use super::{inner, leaf};
use crate::os::shared::SharedMap;
use crate::{Error, Result};

/// Most levels of pages: far more than 2^36 pages need.
pub(crate) const MAX_DEPTH: u64 = 40;
/// So many levels at the top are always in the processor's caches: at most some hundred pages.
const HOT_LEVELS: u64 = 2;
/// Keys that are looked up in step.
const STEP: usize = 32;
/// Bytes of a file that is in the processor's caches as a whole, mostly: there is nothing to wait for in step. One key after the
/// other took 0.85 of the time among 50,000 paths (3.3 MB), 0.78 among 10,000, 0.85 among 10,000 numbers, 1.04 among 200,000
/// (3.1 MB): what a comparison says can be foreseen better after the others for the same key. Tests, whose stores are small, go
/// both ways.
const CACHED: u64 = if cfg!(debug_assertions) { 64 << 10 } else { 4 << 20 };

/// Who has the pages of a commit.
pub(crate) trait Pages: Elsewhere {
    /// The page with this number.
    fn page(&self, number: u64) -> Result<&Bytes>;
    /// Asks for the memory at an address; only a hint.
    fn prefetch(&self, at: u64);

    /// The file that the pages are in.
    fn map(&self) -> &SharedMap;

    /// Asks for the heads of a page.
    #[inline(always)]
    fn prefetch_heads(&self, link: Link) {
        let from = link.page() * PAGE_BYTES;
        for line in 0..link.lines() {
            self.prefetch(from + 64 * line);
        }
    }

    /// Asks for all of a page.
    #[inline(always)]
    fn prefetch_page(&self, page: u64) {
        let from = page * PAGE_BYTES;
        (from..from + PAGE_BYTES).step_by(64).for_each(|line| self.prefetch(line));
    }

    /// A page that is to be on this level.
    #[inline(always)]
    fn page_on(&self, number: u64, level: u64) -> Result<&Bytes> {
        let bytes = self.page(number)?;
        if !page::is_on_level(bytes, level) {
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

/// The leaf that a key belongs in; `None` if the tree is empty.
#[inline(always)]
pub(crate) fn leaf_of<'p>(
    pages: &'p impl Pages,
    tree: &Tree,
    probe: &Probe<'_>,
) -> Result<Option<(u64, &'p Bytes)>> {
    let Some(levels) = levels(tree)? else { return Ok(None) };
    let mut link = Link(tree.root);
    for level in (1..=levels).rev() {
        let bytes = pages.page_on(link.page(), level)?;
        let i = of(link.page(), inner::find(bytes, probe, pages))?;
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
    let probe = &Probe::new(key);
    let Some((page, bytes)) = leaf_of(pages, tree, probe)? else { return Ok(None) };
    match of(page, leaf::find_key(bytes, probe, pages))? {
        None => Ok(None),
        Some(i) => pages.value(page, of(page, leaf::value(bytes, i))?).map(Some),
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
    if pages.map().len() <= CACHED {
        return keys.iter().enumerate().try_for_each(|(i, key)| {
            f(i, get(pages, tree, key.as_ref())?);
            Ok(())
        });
    }
    let root = pages.page_on(Link(tree.root).page(), levels)?;
    for (batch, part) in keys.chunks(STEP).enumerate() {
        let mut probes = [Probe::new(&[]); STEP];
        for (probe, key) in probes.iter_mut().zip(part) {
            *probe = Probe::new(key.as_ref());
        }
        let probes = &probes[..part.len()];
        let mut links = [Link(tree.root); STEP];
        for level in (1..=levels).rev() {
            for (link, probe) in links.iter_mut().zip(probes) {
                let bytes = pages.page_on(link.page(), level)?;
                let i = of(link.page(), inner::find(bytes, probe, pages))?;
                *link = of(link.page(), inner::link(bytes, i))?;
                if level == 1 {
                    prefetch_ends(pages, *link);
                } else if is_cold(tree, level - 1) {
                    pages.prefetch_heads(*link);
                }
            }
        }
        let mut found = [(root, Narrow::default()); STEP];
        for ((link, probe), found) in links.iter().zip(probes).zip(&mut found) {
            let bytes = pages.page_on(link.page(), 0)?;
            let narrow = of(link.page(), leaf::narrow(bytes, probe))?;
            let from = link.page() * PAGE_BYTES;
            let (first, last) = narrow.range();
            for line in page::line_of(first)..=page::line_of(last) {
                pages.prefetch(from + 64 * line as u64);
            }
            *found = (bytes, narrow);
        }
        // Where a record is stands in one line of memory, and it is in another.
        let mut candidates = [(0, 0); STEP];
        for ((link, (bytes, narrow)), candidates) in
            links.iter().zip(found).zip(&mut candidates).take(part.len())
        {
            *candidates = of(link.page(), leaf::candidates(bytes, &narrow))?;
            let place = leaf::offset_of(bytes, candidates.0 + candidates.1 / 2);
            pages.prefetch(link.page() * PAGE_BYTES + place as u64);
        }
        for (((bytes, _), candidates), probe) in found.iter().zip(candidates).zip(probes) {
            if candidates.1 > 0 {
                leaf::prefetch_candidates(bytes, probe, candidates);
            }
        }
        for (i, (((link, probe), (bytes, narrow)), candidates)) in
            links.iter().zip(probes).zip(found).zip(candidates).enumerate()
        {
            let number = leaf::settle_key(bytes, probe, &narrow, candidates, pages);
            let value = match of(link.page(), number)? {
                None => None,
                Some(at) => {
                    let value = of(link.page(), leaf::value(bytes, at))?;
                    Some(pages.value(link.page(), value)?)
                }
            };
            f(batch * STEP + i, value);
        }
    }
    Ok(())
}

/// Asks for what [`leaf::narrow`] looks at: the page's own head and end, and the last heads of strides.
/// Of a leaf in the usual sizes, these and those of one stride are eleven lines of memory instead of
/// twenty; many lookups together are bound by those.
#[inline(always)]
fn prefetch_ends(pages: &impl Pages, link: Link) {
    let from = link.page() * PAGE_BYTES;
    pages.prefetch(from);
    // The head of the page says where its records are; the prefix stands at its end.
    pages.prefetch(from + PAGE_BYTES - 64);
    for line in (page::line_of(STRIDE - 1)..link.lines() as usize).step_by(page::HEAD * STRIDE / 64)
    {
        pages.prefetch(from + 64 * line as u64);
    }
}
