//! Pages of a level one after the other, wherever they are below, and having others lead to fewer in their place.
//!
//! A key that parts two pages stands once: in the lowest page that is above both. Where pages in a row are replaced, the
//! keys between them go, with what they have elsewhere; the key before the first stays, wherever it is. The inner
//! pages above that the row begins and ends in become one list, and are written anew, full from the left: so links flow
//! over the borders between inner pages.

use super::edit::{Part, Step};
use super::format::Tree;
use super::inner;
use super::page::{Link, count};
use super::record::Far;
use super::tree::{Pages, of};
use super::writer::Writer;
use crate::Result;

/// Pages of a level, one after the other.
#[derive(Debug)]
pub(super) struct Row {
    pub pages: Vec<u64>,
    /// The way to the last of them.
    way: Vec<Step>,
    /// The inner pages on the ways to all of them, of each level from the top.
    above: Vec<Vec<u64>>,
}

impl Row {
    /// How many inner pages are above it.
    pub(super) fn pages_above(&self) -> usize {
        self.above.iter().map(Vec::len).sum()
    }
}

impl Writer<'_> {
    /// The page that a way leads to.
    pub(super) fn page_below(&self, tree: &Tree, path: &[Step]) -> Result<u64> {
        Ok(match path.last() {
            Some(step) => of(step.page, inner::link(self.page(step.page)?, step.index))?.page(),
            None => Link(tree.root).page(),
        })
    }

    /// The row that begins with the page that a way leads to, and has no other yet.
    pub(super) fn row(&self, tree: &Tree, path: &[Step]) -> Result<Row> {
        let above = path.iter().map(|step| vec![step.page]).collect();
        Ok(Row { pages: vec![self.page_below(tree, path)?], way: path.to_vec(), above })
    }

    /// The inner page, and the number there, of the key that parts a row of pages of a level from what comes next; `None`
    /// if that is nothing.
    pub(super) fn next_parting(&self, row: &Row) -> Result<Option<Step>> {
        for step in row.way.iter().rev() {
            if step.index + 1 < count(self.page(step.page)?) {
                return Ok(Some(Step { page: step.page, index: step.index + 1 }));
            }
        }
        Ok(None)
    }

    /// Has the next page be one of a row, too; whether there is one.
    pub(super) fn lengthen(&self, row: &mut Row, level: u64) -> Result<bool> {
        let Some(parting) = self.next_parting(row)? else { return Ok(false) };
        let depth = row.way.len();
        let fork = row.way.iter().rposition(|step| step.page == parting.page).unwrap_or(0);
        row.way[fork] = parting;
        for n in fork + 1..=depth {
            let above = row.way[n - 1];
            let page = of(above.page, inner::link(self.page(above.page)?, above.index))?.page();
            if n == depth {
                row.pages.push(page);
            } else {
                self.page_on(page, level + (depth - n) as u64)?;
                row.way[n] = Step { page, index: 0 };
                row.above[n].push(page);
            }
        }
        Ok(true)
    }

    /// Has the tree lead to these parts in the place of a row of pages of a level, to the first of which `path` leads; the
    /// key of the first part does not count. The numbers of the links on the way to the first part.
    pub(super) fn replace_row(
        &mut self,
        tree: &mut Tree,
        path: &mut [Step],
        row: &Row,
        level: u64,
        mut parts: Vec<Part>,
    ) -> Result<Vec<usize>> {
        self.forget_places();
        // Above here the way is the same for all of the row.
        let same = row.above.iter().take_while(|pages| pages.len() == 1).count();
        let below = level + (path.len() - same) as u64;
        self.own_way_to(tree, &mut path[..same], below)?;
        let mut at: Vec<usize> = path.iter().map(|step| step.index).collect();
        let mut place = 0;
        for n in (0..path.len()).rev() {
            let (step, level) = (path[n], level + (path.len() - n) as u64);
            let is_own = n < same;
            let old = if is_own { vec![step.page] } else { row.above[n].clone() };
            self.take_links(&old, step.index, row.way[n].index, parts)?;
            let starts = self.scratch.items.fill(true);
            place += step.index;
            let part = starts.partition_point(|start| *start <= place).saturating_sub(1);
            (at[n], place) = (place - starts[part], part);
            parts = self.write_inner_pages(&starts, level, is_own.then_some(step.page))?;
            if !is_own {
                old.into_iter().try_for_each(|page| self.free(page))?;
            } else if parts.len() == 1 {
                let link = parts[0].link;
                match path[..n].last() {
                    None => tree.root = link.0,
                    Some(above) => {
                        let bytes = self.page_mut(above.page)?;
                        of(above.page, inner::set_link(bytes, above.index, link))?;
                    }
                }
                let depth = tree.depth;
                self.lower_root(tree, Link(tree.root).page())?;
                // Where a page says that it has nothing, more levels may go.
                let gone = (depth - tree.depth) as usize;
                at.drain(..gone.min(at.len()));
                return Ok(at);
            }
        }
        let first = parts.remove(0).link.page();
        self.add_level(tree, first, level as u8 + path.len() as u8, parts)?;
        at.insert(0, place);
        Ok(at)
    }

    /// The links of inner pages in a row, with parts in the place of those from one number in the first page to one in the
    /// last; the keys of the latter, but for the first, are free.
    fn take_links(
        &mut self,
        pages: &[u64],
        first: usize,
        last: usize,
        parts: Vec<Part>,
    ) -> Result<()> {
        self.scratch.items.clear();
        let mut before = 0;
        for page in pages {
            before = self.scratch.items.len();
            self.take_items(*page, &[], None)?;
        }
        let items = &mut self.scratch.items;
        let end = before + last + 1;
        let gone: Vec<Far> = (first + 1..end).filter_map(|i| items.far(i)).collect();
        items.replace_links(first, end, parts);
        gone.into_iter().try_for_each(|far| self.free_far(far))
    }

    /// Writes the items as inner pages of a level, the first in the place of one that is given. The first key of each is
    /// in no page then, but in its part.
    pub(super) fn write_inner_pages(
        &mut self,
        starts: &[usize],
        level: u64,
        mut own: Option<u64>,
    ) -> Result<Vec<Part>> {
        let mut items = std::mem::take(&mut self.scratch.items);
        let mut parts = Vec::new();
        for (n, from) in starts.iter().copied().enumerate() {
            let to = starts.get(n + 1).copied().unwrap_or(items.len());
            let page = match own.take() {
                Some(page) => page,
                None => self.new_page()?.0,
            };
            let bytes = self.page_mut(page)?;
            items.write_inner(from, to, level as u8, bytes);
            let link = Link::new(page, bytes);
            parts.push(Part { key: items.key(from).to_vec(), far: items.far(from), link });
        }
        self.scratch.items = items;
        Ok(parts)
    }
}
