//! Putting records in a tree: the way down, on which every page becomes the writer's own, and the
//! changes that go up again from pages that became too full.

use super::format::{MAX_KEY, MAX_STORED_KEY, MAX_VALUE, Tree};
use super::inner;
use super::leaf;
use super::page::{Link, Place, birth, common, count};
use super::probe::Probe;
use super::record::{Far, NEAR_KEY, NEAR_VALUE, Value, ValueToStore};
use super::split::Plan;
use super::tree::{Pages, levels, of};
use super::values::Pack;
use super::writer::{Near, Writer, damaged};
use crate::{Error, ErrorKind, Result};

/// An inner page on the way down, and the number of the link that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub page: u64,
    pub index: usize,
}

/// A key that begins a page, and the link to that.
pub(super) struct Part {
    pub key: Vec<u8>,
    pub far: Option<Far>,
    pub link: Link,
}

/// What an insertion does with a value that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Old {
    Replace,
    Keep,
}

impl Writer<'_> {
    /// Puts a record in, whose sizes were checked; whether the key was there before.
    pub(crate) fn insert(
        &mut self,
        tree: &mut Tree,
        key: &[u8],
        value: &[u8],
        old: Old,
    ) -> Result<bool> {
        debug_assert!(key.len() <= MAX_STORED_KEY);
        self.whole(|writer| writer.insert_whole(tree, key, value, old))
    }

    /// Does something that may leave a tree half changed if it fails; not in a fork, which has the parent's pages.
    pub(super) fn whole<R>(&mut self, change: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.check_process()?;
        // Also if it panics.
        let was_broken = std::mem::replace(&mut self.is_broken, true);
        let done = change(self);
        self.is_broken = was_broken || done.is_err();
        done
    }

    fn insert_whole(
        &mut self,
        tree: &mut Tree,
        key: &[u8],
        value: &[u8],
        old: Old,
    ) -> Result<bool> {
        if tree.depth == 0 {
            return self.insert_first(tree, key, value).map(|()| false);
        }
        if let Some(leaf) = self.leaf_before(tree, key)? {
            return self.append(tree, leaf, key, value).map(|()| false);
        }
        let mut path = std::mem::take(&mut self.scratch.path);
        let done = match self.find_near(tree, key) {
            Ok(Some((_, Place::Found(_)))) if old == Old::Keep => Ok(true),
            Ok(Some((page, place))) => self.put(tree, &path, page, place, key, value),
            Ok(None) => self.insert_below(tree, key, value, old, &mut path),
            Err(error) => Err(error),
        };
        self.scratch.path = path;
        done
    }

    /// Where `key` is, or would be, in the leaf that the two records before it went to; `None` if that may
    /// not be the one that it belongs in.
    #[inline]
    fn find_near(&self, tree: &Tree, key: &[u8]) -> Result<Option<(u64, Place)>> {
        let near = self.near.filter(|near| near.is_again && near.root == tree.root);
        let Some(Near { leaf, .. }) = near else { return Ok(None) };
        let bytes = self.page_on(leaf, 0)?;
        let place = of(leaf, leaf::find(bytes, &Probe::new(key), self))?;
        // Between two keys of the leaf belongs nothing else.
        let is_here = match place {
            Place::Found(_) => true,
            Place::Missing(i) => 0 < i && i < count(bytes),
        };
        Ok(is_here.then_some((leaf, place)))
    }

    fn insert_below(
        &mut self,
        tree: &mut Tree,
        key: &[u8],
        value: &[u8],
        old: Old,
        path: &mut Vec<Step>,
    ) -> Result<bool> {
        path.clear();
        let place = self.find(tree, key, path)?;
        if old == Old::Keep && matches!(place, Place::Found(_)) {
            self.near = None;
            return Ok(true);
        }
        self.put_found(tree, path, place, key, value)
    }

    /// Puts a record in where it belongs, which was looked for.
    pub(super) fn put_found(
        &mut self,
        tree: &mut Tree,
        path: &mut [Step],
        place: Place,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let page = self.own_path(tree, path)?;
        let is_again = self.near.is_some_and(|near| near.leaf == page);
        self.near = Some(Near { root: tree.root, leaf: page, is_again });
        self.put(tree, path, page, place, key, value)
    }

    /// Puts a record in a leaf, which is this writer's own as all pages on the way are.
    #[inline]
    fn put(
        &mut self,
        tree: &mut Tree,
        path: &[Step],
        page: u64,
        place: Place,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let count = count(self.page(page)?);
        match place {
            Place::Found(i) => self.replace_at(tree, path, page, i, key, value)?,
            Place::Missing(i) => {
                self.insert_at(tree, path, page, i, key, value)?;
                tree.count = tree.count.saturating_add(1);
                if i == count {
                    self.note_last(tree, path, page)?;
                }
            }
        }
        Ok(matches!(place, Place::Found(_)))
    }

    /// Tells the page above that the heads of a page take another line of memory.
    #[inline(always)]
    pub(super) fn note_growth(&mut self, above: Option<Step>, page: u64) -> Result<()> {
        let Some(above) = above else { return Ok(()) };
        let bytes = self.page(page)?;
        if Link::is_new_line(count(bytes)) {
            let link = Link::new(page, bytes);
            of(above.page, inner::set_link(self.page_mut(above.page)?, above.index, link))?;
        }
        Ok(())
    }

    fn insert_first(&mut self, tree: &mut Tree, key: &[u8], value: &[u8]) -> Result<()> {
        let far_key = self.store_key(key)?;
        let (page, bytes) = self.new_page()?;
        Pack::default().write(bytes);
        let far_value = self.store_value(page, value)?;
        let mut items = std::mem::take(&mut self.scratch.items);
        items.clear();
        items.insert(0, key, far_key, to_store(value, far_value));
        let tagged = self.core.header.tagged;
        let bytes = self.page_mut(page)?;
        let pack = Pack::of(bytes);
        items.write_leaf(0, 1, tagged, bytes);
        pack.write(bytes);
        tree.root = Link::new(page, bytes).0;
        self.scratch.items = items;
        (tree.depth, tree.count) = (1, 1);
        Ok(())
    }

    /// Where `key` is in its leaf, or would be, and the way to that; nothing is copied. The tree is not
    /// empty.
    #[inline]
    pub(super) fn find(&self, tree: &Tree, key: &[u8], path: &mut Vec<Step>) -> Result<Place> {
        let probe = &Probe::new(key);
        let mut link = Link(tree.root);
        for level in (1..=levels(tree)?.unwrap_or(0)).rev() {
            let page = link.page();
            let bytes = self.page_on(page, level)?;
            let index = of(page, inner::find(bytes, probe, self))?;
            link = of(page, inner::link(bytes, index))?;
            self.prefetch_heads(link);
            path.push(Step { page, index });
        }
        of(link.page(), leaf::find(self.page_on(link.page(), 0)?, probe, self))
    }

    /// Makes all pages on the way, and the leaf, this writer's own, and says which that is.
    #[inline]
    pub(super) fn own_path(&mut self, tree: &mut Tree, path: &mut [Step]) -> Result<u64> {
        self.prefetch_leaf(path)?;
        let link = self.own_way(tree, path)?;
        let own = self.own_page(link)?;
        self.relink(tree, path.last(), link, own)?;
        self.page_on(own.page(), 0)?;
        Ok(own.page())
    }

    /// Asks for all of the leaf that the path leads to, if it is to be copied: it comes while those on the way are.
    /// Asking before the search, which waits for some of it, made that wait for more.
    #[inline]
    fn prefetch_leaf(&self, path: &[Step]) -> Result<()> {
        let Some(step) = path.last() else { return Ok(()) };
        let leaf = of(step.page, inner::link(self.page(step.page)?, step.index))?.page();
        if birth(self.page(leaf)?) < self.own.since {
            self.prefetch_page(leaf);
        }
        Ok(())
    }

    /// The same without the leaf; the link to that.
    #[inline]
    pub(super) fn own_way(&mut self, tree: &mut Tree, path: &mut [Step]) -> Result<Link> {
        self.own_way_to(tree, path, 0)
    }

    /// The same for the way to a page of this level.
    #[inline(always)]
    pub(super) fn own_way_to(
        &mut self,
        tree: &mut Tree,
        path: &mut [Step],
        level: u64,
    ) -> Result<Link> {
        let mut link = Link(tree.root);
        for n in 0..path.len() {
            let own = self.own_page(link)?;
            self.relink(tree, path[..n].last(), link, own)?;
            path[n].page = own.page();
            // Looked at again: a damaged table of pages may have given one of them away for another.
            let bytes = self.page_on(own.page(), level + (path.len() - n) as u64)?;
            link = of(own.page(), inner::link(bytes, path[n].index))?;
        }
        Ok(link)
    }

    /// Has what led to a page lead to its copy.
    #[inline]
    fn relink(
        &mut self,
        tree: &mut Tree,
        above: Option<&Step>,
        old: Link,
        own: Link,
    ) -> Result<()> {
        match above {
            _ if own == old => {}
            None => tree.root = own.0,
            Some(step) => {
                of(step.page, inner::set_link(self.page_mut(step.page)?, step.index, own))?;
            }
        }
        Ok(())
    }

    #[inline]
    pub(super) fn own_page(&mut self, link: Link) -> Result<Link> {
        if birth(self.page(link.page())?) >= self.own.since {
            return Ok(link);
        }
        let page = self.copy_page(link.page())?;
        Ok(Link::new(page, self.page(page)?))
    }

    pub(crate) fn store_key(&mut self, key: &[u8]) -> Result<Option<Far>> {
        if key.len() <= NEAR_KEY { Ok(None) } else { self.write_far(key).map(Some) }
    }

    fn replace_at(
        &mut self,
        tree: &mut Tree,
        path: &[Step],
        page: u64,
        i: usize,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let bytes = self.page(page)?;
        let old = match of(page, leaf::value(bytes, i))? {
            Value::Near(_) => None,
            Value::Far(far) => Some(far),
        };
        if let Some(old) = old {
            if value.len() > NEAR_VALUE {
                return self.replace_far(page, i, old, value);
            }
            let mut scratch = Vec::new();
            let far_key = of(page, leaf::key_of(bytes, i, self, &mut scratch))?;
            of(page, leaf::remove(self.page_mut(page)?, i))?;
            self.free_value(page, old)?;
            return self.insert_stored(
                tree,
                path,
                page,
                i,
                key,
                far_key,
                ValueToStore::Near(value),
            );
        }
        let far = self.store_value(page, value)?;
        let stored = to_store(value, far);
        let mut bytes = std::mem::take(&mut self.scratch.bytes);
        let leaf = self.page_mut(page);
        let done = leaf.and_then(|leaf| of(page, leaf::replace(leaf, i, stored, &mut bytes)));
        self.scratch.bytes = bytes;
        if done? {
            return Ok(());
        }
        self.scratch.items.clear();
        self.take_items(page, &[], None)?;
        self.scratch.items.replace(i, stored);
        self.write_pages(tree, path, page, 0, None)
    }

    /// Puts a long value in the place of another.
    fn replace_far(&mut self, page: u64, i: usize, old: Far, value: &[u8]) -> Result<()> {
        let (new, is_over) = match self.overwrite(old, value)? {
            Some(new) => (Some(new), true),
            None => (self.store_value(page, value)?, false),
        };
        of(page, leaf::replace_same(self.page_mut(page)?, i, to_store(value, new)))?;
        if is_over { Ok(()) } else { self.free_value(page, old) }
    }

    pub(super) fn insert_at(
        &mut self,
        tree: &mut Tree,
        path: &[Step],
        page: u64,
        i: usize,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let (far_key, far_value) = (self.store_key(key)?, self.store_value(page, value)?);
        self.insert_stored(tree, path, page, i, key, far_key, to_store(value, far_value))
    }

    /// Puts a record in, of which what is elsewhere is written.
    #[allow(clippy::too_many_arguments, reason = "a place in a tree, and a record")]
    fn insert_stored(
        &mut self,
        tree: &mut Tree,
        path: &[Step],
        page: u64,
        i: usize,
        key: &[u8],
        far_key: Option<Far>,
        stored: ValueToStore<'_>,
    ) -> Result<()> {
        if self.put_in_leaf(page, i, key, far_key, stored)? {
            return self.note_growth(path.last().copied(), page);
        }
        let count = count(self.page(page)?);
        if far_key.is_none()
            && (self.part_leaf(tree, path, page, i, key, stored)?
                || i == count && self.put_behind(tree, path, page, key, stored)?)
        {
            return Ok(());
        }
        self.scratch.items.clear();
        self.take_items(page, &[], None)?;
        self.scratch.items.insert(i, key, far_key, stored);
        self.write_pages(tree, path, page, 0, edge(i, count))
    }

    /// Puts a record in a leaf as number `i`, if the leaf can take it.
    #[inline]
    pub(super) fn put_in_leaf(
        &mut self,
        page: u64,
        i: usize,
        key: &[u8],
        far: Option<Far>,
        stored: ValueToStore<'_>,
    ) -> Result<bool> {
        let mut bytes = std::mem::take(&mut self.scratch.bytes);
        let done = self
            .page_mut(page)
            .and_then(|leaf| of(page, leaf::insert(leaf, i, key, far, stored, &mut bytes)));
        self.scratch.bytes = bytes;
        done
    }

    /// Parts a leaf in two, of which one takes the record; `false` if that is not for [`Plan`].
    fn part_leaf(
        &mut self,
        tree: &mut Tree,
        path: &[Step],
        page: u64,
        i: usize,
        key: &[u8],
        stored: ValueToStore<'_>,
    ) -> Result<bool> {
        let plan = of(page, Plan::new(self.page(page)?, i, key, stored, self))?;
        let Some(plan) = plan else { return Ok(false) };
        let old = *self.page(page)?;
        let other = self.new_page()?.0;
        of(page, plan.write_left(&old, self.page_mut(page)?))?;
        of(page, plan.write_right(&old, self.page_mut(other)?))?;
        let half = if plan.stays { page } else { other };
        self.put_surely(half, plan.at, key, stored)?;
        let [below, above] = &plan.between;
        self.link_next(tree, path, page, other, parting(below, above)).map(|()| true)
    }

    /// Puts a record in a leaf that was written so that it can take it.
    pub(super) fn put_surely(
        &mut self,
        page: u64,
        i: usize,
        key: &[u8],
        stored: ValueToStore<'_>,
    ) -> Result<()> {
        if self.put_in_leaf(page, i, key, None, stored)? {
            return Ok(());
        }
        Err(damaged(page, "a leaf that does not say what is in it"))
    }

    /// Has the tree lead to a leaf behind another, of which the keys from `parting` on are.
    pub(super) fn link_next(
        &mut self,
        tree: &mut Tree,
        path: &[Step],
        page: u64,
        other: u64,
        parting: &[u8],
    ) -> Result<()> {
        self.forget_places();
        let far = self.store_key(parting)?;
        let link = Link::new(other, self.page(other)?);
        let part = Part { key: parting.to_vec(), far, link };
        self.insert_links(tree, path, page, 0, vec![part])
    }

    /// Appends what is in a page to the items.
    pub(super) fn take_items(
        &mut self,
        page: u64,
        first: &[u8],
        first_far: Option<Far>,
    ) -> Result<()> {
        let mut items = std::mem::take(&mut self.scratch.items);
        let taken = self.page(page).and_then(|b| of(page, items.take(b, first, first_far, self)));
        self.scratch.items = items;
        taken
    }

    /// Writes the items in the place of a page, as so many pages as they need, and has the pages
    /// above lead to them.
    fn write_pages(
        &mut self,
        tree: &mut Tree,
        path: &[Step],
        page: u64,
        level: u8,
        hint: Option<usize>,
    ) -> Result<()> {
        self.forget_places();
        let mut items = std::mem::take(&mut self.scratch.items);
        let starts = items.divide(level > 0, hint);
        let packs = if level == 0 {
            let pack = Pack::of(self.page(page)?);
            self.part_values(&mut items, &starts, pack, false)?
        } else {
            Vec::new()
        };
        let mut parts = Vec::new();
        for (n, from) in starts.iter().enumerate() {
            let to = starts.get(n + 1).copied().unwrap_or(items.len());
            let page = if n == 0 { page } else { self.new_page()?.0 };
            if n > 0 {
                let (key, far) = if level > 0 {
                    (items.key(*from).to_vec(), items.far(*from))
                } else {
                    let key = parting(items.key(from - 1), items.key(*from)).to_vec();
                    let far = self.store_key(&key)?;
                    (key, far)
                };
                parts.push(Part { key, far, link: Link(page) });
            }
            let tagged = self.core.header.tagged;
            let bytes = self.page_mut(page)?;
            if level > 0 {
                items.write_inner(*from, to, level, bytes);
            } else {
                items.write_leaf(*from, to, tagged, bytes);
                packs[n].write(bytes);
            }
            if let Some(part) = parts.last_mut() {
                part.link = Link::new(page, bytes);
            }
        }
        self.scratch.items = items;
        if parts.is_empty() { Ok(()) } else { self.insert_links(tree, path, page, level, parts) }
    }

    /// Puts links to new pages behind that to a page of this level.
    pub(super) fn insert_links(
        &mut self,
        tree: &mut Tree,
        path: &[Step],
        page: u64,
        level: u8,
        parts: Vec<Part>,
    ) -> Result<()> {
        let Some((step, path)) = path.split_last() else {
            return self.add_level(tree, page, level, parts);
        };
        let mut parts = parts.into_iter().enumerate();
        let mut bytes = std::mem::take(&mut self.scratch.bytes);
        let mut left = None;
        for (n, part) in parts.by_ref() {
            let at = step.index + 1 + n;
            let done = self.page_mut(step.page).and_then(|inner| {
                let done = inner::insert(inner, at, &part.key, part.far, part.link, &mut bytes);
                of(step.page, done)
            })?;
            if !done {
                left = Some((n, part));
                break;
            }
        }
        self.scratch.bytes = bytes;
        let Some(left) = left else { return self.note_growth(path.last().copied(), step.page) };
        let count = count(self.page(step.page)?);
        self.scratch.items.clear();
        self.take_items(step.page, &[], None)?;
        let first = step.index + 1 + left.0;
        for (n, part) in std::iter::once(left).chain(parts) {
            let at = step.index + 1 + n;
            self.scratch.items.insert_link(at, &part.key, part.far, part.link);
        }
        self.write_pages(tree, path, step.page, level + 1, edge(first, count))
    }

    /// Puts a page above one of this level and others behind it, the only ones of it.
    pub(super) fn add_level(
        &mut self,
        tree: &mut Tree,
        page: u64,
        level: u8,
        parts: Vec<Part>,
    ) -> Result<()> {
        let first = Link::new(page, self.page(page)?);
        self.scratch.items.clear();
        self.scratch.items.insert_link(0, &[], None, first);
        for (n, part) in parts.iter().enumerate() {
            self.scratch.items.insert_link(n + 1, &part.key, part.far, part.link);
        }
        let (root, _) = self.new_page()?;
        tree.root = root;
        tree.depth += 1;
        self.write_pages(tree, &[], root, level + 1, None)?;
        if tree.depth == u64::from(level) + 2 {
            tree.root = Link::new(root, self.page(root)?).0;
        }
        Ok(())
    }
}

/// Where a page is best parted to which a record is added before the first, or behind the last: such
/// come in order, and fill page after page.
fn edge(i: usize, count: usize) -> Option<usize> {
    if i == count {
        Some(count)
    } else if i == 0 {
        Some(1)
    } else {
        None
    }
}

/// The shortest key that is above one and not above the next.
pub(crate) fn parting<'k>(below: &[u8], next: &'k [u8]) -> &'k [u8] {
    &next[..(common(below, next) + 1).min(next.len())]
}

fn to_store(value: &[u8], far: Option<Far>) -> ValueToStore<'_> {
    far.map_or(ValueToStore::Near(value), ValueToStore::Far)
}

/// An error if a key or a value is over its limit.
pub(crate) fn check_sizes(key: &[u8], value: &[u8]) -> Result<()> {
    let too_large = |what, size, limit| Err(Error::new(ErrorKind::TooLarge { what, size, limit }));
    if key.len() > MAX_KEY {
        return too_large("key", key.len() as u64, MAX_KEY as u64);
    }
    if value.len() as u64 > MAX_VALUE {
        return too_large("value", value.len() as u64, MAX_VALUE);
    }
    Ok(())
}
