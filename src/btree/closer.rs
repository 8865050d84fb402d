//! Writing leaves closer: those that lie below one inner page, one after the other, as fewer leaves that
//! are full, with fewer pages of values if that saves some.

use super::compact::Pass;
use super::edit::{Part, Step, parting};
use super::format::{PAGE, PAGE_BYTES, Tree};
use super::items::Items;
use super::page::{Link, count};
use super::tree::{Pages, of};
use super::values::Pack;
use super::writer::Writer;
use super::{inner, leaf};
use crate::Result;
use std::collections::BTreeSet;

/// Leaves that are written anew together are at most so many, with at most so many pages of values.
const WINDOW: usize = 32;
const WINDOW_PAGES: u64 = 256;
/// They are if a twentieth of them is saved: with a tenth, and what a file may be longer by, one in twenty files was longer than
/// the tenth that is promised.
const SAVING: u64 = 20;

/// Leaves below one inner page, one after the other; or that which is all of a tree.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub leaves: Vec<u64>,
    /// Bytes that are used in them.
    used: u64,
    /// Pages of values that they have, and would have at least if those were written anew.
    pub pages: u64,
    fewest: Packed,
}

impl Window {
    /// Whether fewer leaves, or pages of values, may do.
    pub(super) fn is_worth(&self) -> bool {
        let leaves = self.leaves.len() as u64;
        let saved = leaves.saturating_sub(self.used.div_ceil(PAGE_BYTES));
        saved > 0 && saved * SAVING >= leaves || self.are_values_worth()
    }

    fn are_values_worth(&self) -> bool {
        self.is_worth_packing(self.fewest.pages)
    }

    /// Whether so many pages of values would do.
    fn is_worth_packing(&self, pages: u64) -> bool {
        let saved = self.pages.saturating_sub(pages);
        // One of a leaf that has a neighbour goes with the next borders between them.
        let is_enough = saved > 1 || saved == 1 && self.leaves.len() == 1;
        is_enough && saved * SAVING >= self.pages
    }
}

/// Pages that values are written to one behind the other.
#[derive(Debug, Default)]
struct Packed {
    pages: u64,
    /// What is used of the last of these.
    last: u64,
}

impl Packed {
    fn add(&mut self, len: u64) {
        if self.pages == 0 || self.last + len > PAGE_BYTES {
            (self.pages, self.last) = (self.pages + 1, 0);
        }
        self.last += len;
    }
}

/// What became of a window.
pub(super) enum Closer {
    Written(usize),
    /// It would not be fewer leaves.
    AsMany,
    NoPlace,
}

/// How many pages the values of leaves take that begin with these items.
fn pages_of_values(items: &Items, starts: &[usize]) -> u64 {
    let ends = starts.iter().skip(1).copied().chain([items.len()]);
    let of_leaf = |(from, to): (&usize, usize)| {
        let mut packed = Packed::default();
        (*from..to).filter_map(|i| items.packed(i)).for_each(|far| packed.add(u64::from(far.len)));
        packed.pages
    };
    starts.iter().zip(ends).map(of_leaf).sum()
}

impl Writer<'_> {
    /// The next leaves.
    pub(super) fn window(&self, tree: &Tree, path: &[Step]) -> Result<Window> {
        let mut window = Window::default();
        let pages: Vec<u64> = match path.last() {
            None => vec![Link(tree.root).page()],
            Some(step) => {
                let parent = self.page(step.page)?;
                let link = |i| Ok(of(step.page, inner::link(parent, i))?.page());
                (step.index..count(parent)).take(WINDOW).map(link).collect::<Result<_>>()?
            }
        };
        for page in pages {
            let bytes = self.page_on(page, 0)?;
            if !window.leaves.is_empty() && window.pages > WINDOW_PAGES {
                break;
            }
            let mut pages = BTreeSet::new();
            for i in (0..count(bytes)).filter(|_| !leaf::is_all_near(bytes)) {
                let (_, value) = of(page, leaf::elsewhere_of(bytes, i))?;
                if let Some(far) = value.filter(|far| far.is_packed()) {
                    pages.insert(far.page());
                    window.fewest.add(u64::from(far.len));
                }
            }
            window.leaves.push(page);
            window.used += leaf::used(bytes).min(PAGE) as u64;
            window.pages += pages.len() as u64;
        }
        Ok(window)
    }

    /// Writes the leaves of a window anew, as full as they can be.
    pub(super) fn write_closer(
        &mut self,
        tree: &mut Tree,
        path: &mut [Step],
        window: &Window,
        pass: &mut Pass,
    ) -> Result<Closer> {
        let mut pack = Pack::default();
        self.scratch.items.clear();
        for (n, page) in window.leaves.iter().enumerate() {
            self.take_items(*page, &[], None)?;
            let other = Pack::of(self.page(*page)?);
            pack = if n == 0 { other } else { pack.join(other) };
        }
        let starts = self.scratch.items.fill();
        // No page of values has those of two leaves: with as many leaves there may be as many pages as before. Where that
        // was not looked at, each pass wrote them anew, behind the end where no place was free, and the file grew. Where
        // only some values were, as fewer leaves do, the pages that others stayed in were more than what was saved.
        let packed = pages_of_values(&self.scratch.items, &starts);
        let (written, there) = (starts.len() as u64, window.leaves.len() as u64);
        let saves = written < there && written + packed < there + window.pages;
        if !saves && !window.is_worth_packing(packed) || path.is_empty() && written > 1 {
            return Ok(Closer::AsMany);
        }
        let pages = path.len() + 2 * starts.len() + packed.max(window.pages) as usize + 1;
        if !self.gather(pages, pass)? {
            if pass.moved_since > 0 {
                return Ok(Closer::NoPlace);
            }
            // There is no place but behind the end, until what was written anew is free.
            self.scratch.space.gather_behind(self.core, pages)?;
        }
        self.own_way(tree, path)?;
        let mut items = std::mem::take(&mut self.scratch.items);
        let packs = self.part_values(&mut items, &starts, pack, true)?;
        let tagged = self.core.header.tagged;
        let mut parts = Vec::new();
        for (n, from) in starts.iter().copied().enumerate() {
            let to = starts.get(n + 1).copied().unwrap_or(items.len());
            let (key, far) = if n == 0 {
                (Vec::new(), None)
            } else {
                let key = parting(items.key(from - 1), items.key(from)).to_vec();
                let far = self.store_key(&key)?;
                (key, far)
            };
            let (page, bytes) = self.new_page()?;
            items.write_leaf(from, to, tagged, bytes);
            packs[n].write(bytes);
            parts.push(Part { key, far, link: Link::new(page, bytes) });
        }
        self.scratch.items = items;
        pass.note_moved(there);
        let Some(step) = path.last().copied() else {
            window.leaves.iter().try_for_each(|page| self.free(*page))?;
            tree.root = parts.remove(0).link.0;
            return Ok(Closer::Written(1));
        };
        for (n, page) in window.leaves.iter().enumerate().rev() {
            self.free(*page)?;
            if n > 0 {
                self.unlink(step.page, step.index + n)?;
            }
        }
        let first = parts.remove(0).link;
        of(step.page, inner::set_link(self.page_mut(step.page)?, step.index, first))?;
        if !parts.is_empty() {
            self.insert_links(tree, path, first.page(), 0, parts)?;
        } else if path.len() == 1 {
            self.lower_root(tree, step.page)?;
        }
        Ok(Closer::Written(starts.len()))
    }
}
