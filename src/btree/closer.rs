//! Writing leaves closer: those that lie one after the other, as fewer leaves that are full, with fewer pages of
//! values if that saves some.

use super::compact::Pass;
use super::edit::{Part, Step, parting};
use super::format::{PAGE, PAGE_BYTES, Tree};
use super::items::Items;
use super::leaf;
use super::links::Row;
use super::page::{Link, count};
use super::record::NEAR_KEY;
use super::tree::{Pages, of};
use super::values::Pack;
use super::writer::Writer;
use crate::Result;
use std::collections::BTreeSet;

/// Leaves that are written anew together are at most so many, with at most so many pages of values.
pub(super) const WINDOW: usize = 32;
const WINDOW_PAGES: u64 = 256;
/// They are if a twentieth of them is saved: with a tenth, and what a file may be longer by, one in twenty files was longer than
/// the tenth that is promised.
pub(super) const SAVING: u64 = 20;

/// Leaves, one after the other.
#[derive(Debug)]
struct Window {
    row: Row,
    /// Bytes that are used in them.
    used: u64,
    /// Pages of values that they have, and would have at least if those were written anew.
    pages: u64,
    fewest: Packed,
}

impl Window {
    fn leaves(&self) -> usize {
        self.row.pages.len()
    }

    /// Whether fewer leaves, or pages of values, may do.
    fn is_worth(&self) -> bool {
        let leaves = self.leaves() as u64;
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
        let is_enough = saved > 1 || saved == 1 && self.leaves() == 1;
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
    /// As so many pages; and the numbers of the links on the way to the first.
    Written(usize, Vec<usize>),
    /// It would not be fewer.
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
    /// Writes the next leaves anew if that saves some; how many they are, and what became of them.
    pub(super) fn join_leaves(
        &mut self,
        tree: &mut Tree,
        path: &mut [Step],
        pass: &mut Pass,
        left: &mut u64,
    ) -> Result<(usize, Closer)> {
        let window = self.window(tree, path)?;
        let leaves = window.leaves();
        if !window.is_worth() {
            return Ok((leaves, Closer::AsMany));
        }
        let closer = self.write_closer(tree, path, &window, pass)?;
        if let Closer::Written(..) = closer {
            *left = left.saturating_sub(leaves as u64 + window.pages);
        }
        Ok((leaves, closer))
    }

    /// The next leaves.
    fn window(&self, tree: &Tree, path: &[Step]) -> Result<Window> {
        let row = self.row(tree, path)?;
        let mut window = Window { row, used: 0, pages: 0, fewest: Packed::default() };
        loop {
            let page = window.row.pages.last().copied().unwrap_or(0);
            let bytes = self.page_on(page, 0)?;
            let mut pages = BTreeSet::new();
            for i in (0..count(bytes)).filter(|_| !leaf::is_all_near(bytes)) {
                let (_, value) = of(page, leaf::elsewhere_of(bytes, i))?;
                if let Some(far) = value.filter(|far| far.is_packed()) {
                    pages.insert(far.page());
                    window.fewest.add(u64::from(far.len));
                }
            }
            window.used += leaf::used(bytes).min(PAGE) as u64;
            window.pages += pages.len() as u64;
            let is_full = window.leaves() == WINDOW || window.pages > WINDOW_PAGES;
            if is_full || !self.lengthen(&mut window.row, 0)? {
                return Ok(window);
            }
        }
    }

    /// Sees to it that so many pages can be taken for what is written closer; `false` if that has to wait.
    pub(super) fn gather_closer(&mut self, pages: usize, pass: &mut Pass) -> Result<bool> {
        if self.gather(pages, pass)? {
            return Ok(true);
        }
        if pass.moved_since > 0 {
            return Ok(false);
        }
        // There is no place but behind the end, until what was written anew is free.
        self.scratch.space.gather_behind(self.core, pages)?;
        Ok(true)
    }

    /// Writes the leaves of a window anew, as full as they can be.
    fn write_closer(
        &mut self,
        tree: &mut Tree,
        path: &mut [Step],
        window: &Window,
        pass: &mut Pass,
    ) -> Result<Closer> {
        let mut pack = Pack::default();
        self.scratch.items.clear();
        for (n, page) in window.row.pages.iter().enumerate() {
            self.take_items(*page, &[], None)?;
            let other = Pack::of(self.page(*page)?);
            pack = if n == 0 { other } else { pack.join(other) };
        }
        let starts = self.scratch.items.fill(false);
        // No page of values has those of two leaves: with as many leaves there may be as many pages as before. Where that
        // was not looked at, each pass wrote them anew, behind the end where no place was free, and the file grew. Where
        // only some values were, as fewer leaves do, the pages that others stayed in were more than what was saved.
        let packed = pages_of_values(&self.scratch.items, &starts);
        let (written, there) = (starts.len() as u64, window.leaves() as u64);
        let saves = written < there && written + packed < there + window.pages;
        if !saves && !window.is_worth_packing(packed) || path.is_empty() && written > 1 {
            return Ok(Closer::AsMany);
        }
        // More than are used make the file longer than need be: they go behind its end if they are not there.
        let items = &self.scratch.items;
        let is_far =
            |from: &&usize| parting(items.key(**from - 1), items.key(**from)).len() > NEAR_KEY;
        let pages = 2 * path.len()
            + window.row.pages_above()
            + starts.len()
            + starts.iter().skip(1).filter(is_far).count()
            + packed.max(window.pages) as usize;
        if !self.gather_closer(pages + 1, pass)? {
            return Ok(Closer::NoPlace);
        }
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
        window.row.pages.iter().try_for_each(|page| self.free(*page))?;
        let at = if path.is_empty() {
            tree.root = parts.remove(0).link.0;
            Vec::new()
        } else {
            self.replace_row(tree, path, &window.row, 0, parts)?
        };
        Ok(Closer::Written(starts.len(), at))
    }
}
