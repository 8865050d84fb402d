//! Taking records out of a tree, and joining pages in which little is left.

use super::edit::Step;
use super::format::{PAGE, Tree};
use super::inner;
use super::leaf;
use super::page::{Bytes, Link, Place, at, count, short};
use super::record::{NEAR_KEY, Value};
use super::tree::{Pages, levels, of};
use super::values::Pack;
use super::writer::Writer;
use crate::Result;

/// A page with less than this in it is joined with one beside it, if both fit in one page of which
/// so much stays free.
pub(super) const SPARSE: usize = PAGE / 4;
const SPARE: usize = PAGE / 8;

/// How many bytes a page has at least that holds what is in both of these. (Less only where records of various sizes became
/// ones of one size; then the other page is more than half full, and may stay.)
fn least_joined(one: &Bytes, other: &Bytes, level: u8) -> usize {
    let held = |bytes: &Bytes| {
        let used = if level > 0 { inner::used(bytes) } else { leaf::used(bytes) };
        used.saturating_sub(at::HEADS + short(bytes, at::PREFIX))
    };
    at::HEADS + held(one) + held(other)
}

impl Writer<'_> {
    /// Takes a record out; whether it was there.
    pub(crate) fn remove(&mut self, tree: &mut Tree, key: &[u8]) -> Result<bool> {
        if tree.depth == 0 {
            return Ok(false);
        }
        let mut path = std::mem::take(&mut self.scratch.path);
        // It leads elsewhere now, also if there is nothing to remove.
        self.near = None;
        self.scratch.space.is_put = false;
        path.clear();
        let done = self.remove_below(tree, key, &mut path);
        self.scratch.path = path;
        done
    }

    fn remove_below(&mut self, tree: &mut Tree, key: &[u8], path: &mut Vec<Step>) -> Result<bool> {
        // Nothing is copied for a key that is not there.
        let Place::Found(i) = self.find(tree, key, path)? else { return Ok(false) };
        self.whole(|writer| writer.remove_found(tree, key, path, i))?;
        Ok(true)
    }

    pub(super) fn remove_found(
        &mut self,
        tree: &mut Tree,
        key: &[u8],
        path: &mut Vec<Step>,
        i: usize,
    ) -> Result<()> {
        self.forget_places();
        let page = self.own_path(tree, path)?;
        let bytes = self.page(page)?;
        let value = of(page, leaf::value(bytes, i))?;
        let value = if let Value::Far(far) = value { Some(far) } else { None };
        let mut scratch = Vec::new();
        let far_key = if key.len() > NEAR_KEY {
            of(page, leaf::key_of(bytes, i, self, &mut scratch))?
        } else {
            None
        };
        of(page, leaf::remove(self.page_mut(page)?, i))?;
        if let Some(far) = far_key {
            self.free_far(far)?;
        }
        if let Some(far) = value {
            self.free_value(page, far)?;
        }
        tree.count = tree.count.saturating_sub(1);
        // What all keys begin with may take a quarter of a page by itself, and stays in an empty one.
        let bytes = self.page(page)?;
        let is_sparse = count(bytes) == 0 || leaf::used(bytes) < SPARSE;
        if is_sparse { self.join(tree, path, page, 0) } else { Ok(()) }
    }

    /// Joins a page in which little is left with one beside it, and so on up.
    fn join(
        &mut self,
        tree: &mut Tree,
        path: &mut Vec<Step>,
        mut page: u64,
        mut level: u8,
    ) -> Result<()> {
        while let Some(step) = path.pop() {
            if count(self.page(page)?) == 0 {
                self.unlink(step.page, step.index)?;
                self.free(page)?;
            } else if !self.join_with_next(step, page, level)? {
                return Ok(());
            }
            (page, level) = (step.page, level + 1);
            let bytes = self.page(page)?;
            let is_root = path.is_empty();
            if count(bytes) > 1 && (is_root || inner::used(bytes) >= SPARSE) {
                return Ok(());
            }
        }
        self.lower_root(tree, page)
    }

    /// Takes levels away that have a single page, and the tree's last page if it is empty.
    pub(super) fn lower_root(&mut self, tree: &mut Tree, mut page: u64) -> Result<()> {
        while count(self.page(page)?) <= 1 {
            let is_inner = tree.depth > 1;
            let is_empty = count(self.page(page)?) == 0;
            if is_empty {
                self.free(page)?;
                (tree.root, tree.depth) = (0, 0);
                return Ok(());
            }
            if !is_inner {
                return Ok(());
            }
            let link = of(page, inner::link(self.page(page)?, 0))?;
            self.free(page)?;
            tree.root = link.0;
            tree.depth -= 1;
            page = link.page();
        }
        Ok(())
    }

    /// Takes a link out of an inner page, with the key that goes.
    pub(super) fn unlink(&mut self, page: u64, index: usize) -> Result<()> {
        let bytes = self.page(page)?;
        let gone = index.max(1);
        if gone < count(bytes) {
            let mut key = Vec::new();
            if let Some(far) = of(page, inner::key_of(bytes, gone, self, &mut key))? {
                self.free_far(far)?;
            }
        }
        of(page, inner::remove(self.page_mut(page)?, index))
    }

    /// Joins a page with the one behind it, or before it if it is the last; whether they fit.
    fn join_with_next(&mut self, step: Step, page: u64, level: u8) -> Result<bool> {
        let parent = self.page(step.page)?;
        if count(parent) < 2 {
            return Ok(false);
        }
        let left = if step.index + 1 < count(parent) { step.index } else { step.index - 1 };
        let other = if left == step.index { left + 1 } else { left };
        let other = of(step.page, inner::link(parent, other))?.page();
        let (first, second) = if left == step.index { (page, other) } else { (other, page) };
        let mut key = Vec::new();
        let far = of(step.page, inner::key_of(parent, left + 1, self, &mut key))?;
        // Looked at before they are taken apart: whoever empties a page whose neighbour is full comes here at each record.
        let least = least_joined(self.page(page)?, self.page_on(other, u64::from(level))?, level);
        if least + SPARE > PAGE {
            return Ok(false);
        }
        self.scratch.items.clear();
        self.take_items(first, &[], None)?;
        self.take_items(second, &key, far)?;
        if !self.scratch.items.fits(0, self.scratch.items.len(), level > 0, SPARE) {
            return Ok(false);
        }
        let pack = Pack::of(self.page(page)?).join(Pack::of(self.page(other)?));
        let mut items = std::mem::take(&mut self.scratch.items);
        let tagged = self.core.header.tagged;
        let bytes = self.page_mut(page)?;
        if level > 0 {
            items.write_inner(0, items.len(), level, bytes);
        } else {
            items.write_leaf(0, items.len(), tagged, bytes);
            pack.write(bytes);
        }
        let link = Link::new(page, bytes);
        self.scratch.items = items;
        self.free(other)?;
        if level == 0
            && let Some(far) = far
        {
            self.free_far(far)?;
        }
        of(step.page, inner::remove(self.page_mut(step.page)?, left + 1))?;
        of(step.page, inner::set_link(self.page_mut(step.page)?, left, link))?;
        Ok(true)
    }

    /// Takes all records out.
    pub(crate) fn clear(&mut self, tree: &mut Tree) -> Result<()> {
        self.scratch.space.is_put = false;
        self.whole(|writer| writer.free_tree(tree))
    }

    /// Frees all pages of a tree.
    fn free_tree(&mut self, tree: &mut Tree) -> Result<()> {
        self.forget_places();
        if let Some(levels) = levels(tree)? {
            self.free_branch(Link(tree.root).page(), levels)?;
        }
        (tree.root, tree.depth, tree.count) = (0, 0, 0);
        Ok(())
    }

    /// Frees a page and all below it.
    fn free_branch(&mut self, page: u64, level: u64) -> Result<()> {
        let bytes = self.page_on(page, level)?;
        // The bytes may be another's as soon as the page is free.
        let mut branches = Vec::new();
        let (mut elsewhere, mut packed) = (Vec::new(), Vec::new());
        let mut key = Vec::new();
        for i in 0..count(bytes) {
            if level > 0 {
                branches.push(of(page, inner::link(bytes, i))?.page());
                if i > 0 {
                    elsewhere.extend(of(page, inner::key_of(bytes, i, self, &mut key))?);
                }
            } else {
                elsewhere.extend(of(page, leaf::key_of(bytes, i, self, &mut key))?);
                match of(page, leaf::value(bytes, i))? {
                    Value::Near(_) => {}
                    Value::Far(far) if far.is_packed() => packed.push(far.page()),
                    Value::Far(far) => elsewhere.push(far),
                }
            }
        }
        self.free(page)?;
        for branch in branches {
            self.free_branch(branch, level.saturating_sub(1))?;
        }
        packed.sort_unstable();
        packed.dedup();
        packed.into_iter().try_for_each(|page| self.free(page))?;
        elsewhere.into_iter().try_for_each(|far| self.free_far(far))
    }
}
