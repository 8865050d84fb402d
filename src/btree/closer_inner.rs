//! Writing inner pages closer: those of a level, one after the other, as fewer that are full.
//!
//! Above the leaves the keys are made anew, as short as what the leaves have now allows: one that parted two long keys
//! that begin alike stays long when one of them is gone, and takes the room of many.

use super::closer::{Closer, SAVING, WINDOW};
use super::compact::Pass;
use super::edit::{Step, parting};
use super::format::{PAGE, Tree};
use super::items::Items;
use super::links::Row;
use super::page::{HEAD, at, count};
use super::record::{Far, NEAR_KEY};
use super::tree::{Pages, of};
use super::writer::Writer;
use super::{inner, leaf};
use crate::Result;

/// Inner pages that are written anew together have at most about so many links.
const LINKS: usize = 1024;
/// Of so many keys one is looked at first, and those that are much longer than others: looking at all leaves again took a
/// compaction that had nothing to do three times as long.
const SAMPLE: usize = 8;

/// Inner pages of a level, and what is in them.
#[derive(Debug)]
struct InnerWindow {
    row: Row,
    links: usize,
    /// Bytes that are used in them, without their heads.
    used: usize,
    /// Pages that keys have elsewhere.
    far: usize,
}

impl InnerWindow {
    /// Whether so many pages, with those of keys, would be few enough.
    fn is_worth(&self, pages: usize) -> bool {
        let there = self.row.pages.len() + self.far;
        let saved = there.saturating_sub(pages);
        saved > 0 && saved * SAVING as usize >= there
    }

    /// How few pages would do, at best: above the leaves, keys may take next to nothing.
    fn least(&self, level: u64) -> usize {
        let bytes = if level == 1 { self.links * (HEAD + 10) } else { self.used };
        bytes.div_ceil(PAGE - at::HEADS) + if level == 1 { 0 } else { self.far }
    }
}

/// The pages that a key has elsewhere.
fn pages_of(far: Far) -> usize {
    (far.len as usize).div_ceil(PAGE)
}

impl Writer<'_> {
    /// Writes the next inner pages anew if that saves some; how many they are, and what became of them.
    pub(super) fn join_inner(
        &mut self,
        tree: &mut Tree,
        path: &mut [Step],
        pass: &mut Pass,
        left: &mut u64,
    ) -> Result<(usize, Closer)> {
        let level = pass.level;
        let window = self.inner_window(tree, path, level)?;
        let pages = window.row.pages.len();
        // A page has links, but for one that is damaged.
        if window.links < 2 || !window.is_worth(window.least(level)) {
            return Ok((pages, Closer::AsMany));
        }
        let borders = self.take_inner(tree, path, level, &window)?;
        *left = left.saturating_sub((pages + window.links / SAMPLE) as u64);
        let mut gone = Vec::new();
        if level == 1 {
            if !window.is_worth(self.pages_with_shorter_keys(&window)?) {
                return Ok((pages, Closer::AsMany));
            }
            *left = left.saturating_sub(window.links as u64);
            gone = self.shorten_keys()?;
        }
        let closer = self.write_inner_closer(tree, path, &window, borders, gone, pass)?;
        Ok((pages, closer))
    }

    fn inner_window(&self, tree: &Tree, path: &[Step], level: u64) -> Result<InnerWindow> {
        let row = self.row(tree, path)?;
        let mut window = InnerWindow { row, links: 0, used: 0, far: 0 };
        loop {
            let page = window.row.pages.last().copied().unwrap_or(0);
            let bytes = self.page_on(page, level)?;
            window.links += count(bytes);
            window.used += inner::used(bytes).min(PAGE).saturating_sub(at::HEADS);
            for i in 1..count(bytes) {
                window.far += of(page, inner::elsewhere_of(bytes, i))?.map_or(0, pages_of);
            }
            let is_full = window.row.pages.len() == WINDOW || window.links >= LINKS;
            let parting = if is_full { None } else { self.next_parting(&window.row)? };
            let Some(step) = parting else { return Ok(window) };
            let far = of(step.page, inner::elsewhere_of(self.page(step.page)?, step.index))?;
            window.far += far.map_or(0, pages_of);
            self.lengthen(&mut window.row, level)?;
        }
    }

    /// Writes the links that were taken; `borders` are those that pages began with, and `gone` what keys had elsewhere that
    /// are shorter now.
    fn write_inner_closer(
        &mut self,
        tree: &mut Tree,
        path: &mut [Step],
        window: &InnerWindow,
        borders: Vec<usize>,
        gone: Vec<(usize, Far)>,
        pass: &mut Pass,
    ) -> Result<Closer> {
        let level = pass.level;
        let starts = self.scratch.items.fill(true);
        let items = &self.scratch.items;
        let far = (1..items.len()).filter_map(|i| items.far(i)).map(pages_of).sum::<usize>();
        if !window.is_worth(starts.len() + far) || path.is_empty() && starts.len() > 1 {
            return Ok(Closer::AsMany);
        }
        if !self.gather_closer(starts.len() + far + path.len() + window.row.pages_above(), pass)? {
            return Ok(Closer::NoPlace);
        }
        // The key of a border goes with it, and what it has elsewhere.
        for i in borders.iter().copied() {
            if self.scratch.items.far(i).is_some() {
                let key = self.scratch.items.key(i).to_vec();
                let far = self.store_key(&key)?;
                self.scratch.items.set_far(i, far);
            }
        }
        for (i, far) in gone {
            if !borders.contains(&i) {
                self.free_far(far)?;
            }
        }
        let mut parts = self.write_inner_pages(&starts, level, None)?;
        window.row.pages.iter().try_for_each(|page| self.free(*page))?;
        pass.note_moved(window.row.pages.len() as u64);
        let written = parts.len();
        let at = if path.is_empty() {
            tree.root = parts.remove(0).link.0;
            Vec::new()
        } else {
            self.replace_row(tree, path, &window.row, level, parts)?
        };
        Ok(Closer::Written(written, at))
    }

    /// Takes all links of a window; the numbers of those that the pages but the first begin with.
    fn take_inner(
        &mut self,
        tree: &Tree,
        path: &[Step],
        level: u64,
        window: &InnerWindow,
    ) -> Result<Vec<usize>> {
        self.scratch.items.clear();
        let mut row = self.row(tree, path)?;
        self.take_items(row.pages[0], &[], None)?;
        let mut borders = Vec::new();
        for page in window.row.pages.iter().skip(1) {
            let mut key = Vec::new();
            let Some(step) = self.next_parting(&row)? else { break };
            let far =
                of(step.page, inner::key_of(self.page(step.page)?, step.index, self, &mut key))?;
            self.lengthen(&mut row, level)?;
            borders.push(self.scratch.items.len());
            self.take_items(*page, &key, far)?;
        }
        Ok(borders)
    }

    /// How few pages may do if keys are made as short as they may be, as those say that are looked at.
    fn pages_with_shorter_keys(&self, window: &InnerWindow) -> Result<usize> {
        let items = &self.scratch.items;
        let average =
            (1..items.len()).map(|i| items.key(i).len()).sum::<usize>() / items.len().max(1);
        let mut saved = 0;
        for i in 1..items.len() {
            let is_long = items.key(i).len() > 2 * average;
            if !is_long && i % SAMPLE != 1 {
                continue;
            }
            if let Some(short) = self.shorter_key(items, i)? {
                let far = items.far(i).map_or(0, pages_of) * PAGE;
                let less = items.key(i).len() - short.len() + far;
                // Others may be shorter by more.
                saved += if is_long { less } else { 2 * SAMPLE * less };
            }
        }
        let bytes = window.used + window.far * PAGE;
        Ok(bytes.saturating_sub(saved).div_ceil(PAGE - at::HEADS))
    }

    /// Makes the keys of links to leaves as short as they may be; those that had been elsewhere.
    fn shorten_keys(&mut self) -> Result<Vec<(usize, Far)>> {
        let mut items = std::mem::take(&mut self.scratch.items);
        let mut gone = Vec::new();
        for i in 1..items.len() {
            if let Some(short) = self.shorter_key(&items, i)? {
                gone.extend(items.far(i).map(|far| (i, far)));
                items.set_key(i, &short);
            }
        }
        self.scratch.items = items;
        Ok(gone)
    }

    /// A shorter key for a link to a leaf, if there is one.
    fn shorter_key(&self, items: &Items, i: usize) -> Result<Option<Vec<u8>>> {
        let len = items.key(i).len();
        // A head takes its room whatever is in it.
        if len <= HEAD {
            return Ok(None);
        }
        let (before, page) = (items.link(i - 1).page(), items.link(i).page());
        let (left, right) = (self.page_on(before, 0)?, self.page_on(page, 0)?);
        let last = count(left).checked_sub(1).filter(|_| count(right) > 0);
        let Some(last) = last else { return Ok(None) };
        let (mut below, mut next) = (Vec::new(), Vec::new());
        of(before, leaf::key_of(left, last, self, &mut below))?;
        of(page, leaf::key_of(right, 0, self, &mut next))?;
        let short = parting(&below, &next);
        let is_better = below < next && short.len() < len && short.len() <= NEAR_KEY;
        Ok(is_better.then(|| short.to_vec()))
    }
}
