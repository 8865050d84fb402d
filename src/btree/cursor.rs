//! Going through a tree in the order of its keys, both ways.
//!
//! A cursor knows the inner pages above its leaf, and the number of its record there. It is at a
//! record, before the first, or behind the last.

use super::ahead::{self, AHEAD};
use super::format::Tree;
use super::page::{Link, Place, count};
use super::probe::Probe;
use super::tree::{Pages, levels, of};
use super::writer::damaged;
use super::{inner, leaf};
use crate::Result;
use std::ops::Bound;

/// A place in a tree.
#[derive(Debug)]
pub(crate) struct Walk<'p, P> {
    pages: &'p P,
    tree: Tree,
    /// Pages above the leaf, from the top, each with the number of the link that was taken.
    path: Vec<(u64, usize)>,
    leaf: u64,
    at: usize,
    /// Records in the leaf.
    count: usize,
    /// The key here.
    key: Vec<u8>,
    /// Memory for the key before this one, where they are compared.
    before: Vec<u8>,
    /// The key that was met first in this leaf, if that was come to from one beside it.
    met: Vec<u8>,
    has_met: bool,
    where_: Where,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Before,
    Here,
    Behind,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Forward,
    Back,
}

impl<'p, P: Pages> Walk<'p, P> {
    /// Before the first record.
    pub(crate) fn new(pages: &'p P, tree: Tree) -> Self {
        Walk {
            pages,
            tree,
            path: Vec::new(),
            leaf: 0,
            at: 0,
            count: 0,
            key: Vec::new(),
            before: Vec::new(),
            met: Vec::new(),
            has_met: false,
            where_: Where::Before,
        }
    }

    /// The key here; `None` if this is no record.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        (self.where_ == Where::Here).then_some(&self.key)
    }

    /// The value here.
    #[inline]
    pub(crate) fn value(&self) -> Result<Option<&'p [u8]>> {
        if self.where_ != Where::Here {
            return Ok(None);
        }
        let value = of(self.leaf, leaf::value(self.pages.page(self.leaf)?, self.at))?;
        self.pages.value(self.leaf, value).map(Some)
    }

    /// Goes to the first record, or the last; whether there is one.
    pub(crate) fn first(&mut self) -> Result<bool> {
        self.edge(Way::Forward)
    }

    pub(crate) fn last(&mut self) -> Result<bool> {
        self.edge(Way::Back)
    }

    fn edge(&mut self, way: Way) -> Result<bool> {
        self.path.clear();
        self.has_met = false;
        let Some(levels) = levels(&self.tree)? else { return Ok(self.leave(way)) };
        self.down(Link(self.tree.root), levels, way)?;
        self.arrive(way)
    }

    /// Goes to the first record whose key is not below `key`; whether there is one. If not, it is
    /// behind the last.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.find(key).map(|_| self.where_ == Where::Here)
    }

    /// The same; whether the key there is `key`.
    pub(crate) fn find(&mut self, key: &[u8]) -> Result<bool> {
        self.path.clear();
        self.has_met = false;
        let Some(levels) = levels(&self.tree)? else {
            self.leave(Way::Forward);
            return Ok(false);
        };
        let probe = &Probe::new(key);
        let mut link = Link(self.tree.root);
        for level in (1..=levels).rev() {
            let bytes = self.pages.page_on(link.page(), level)?;
            let i = of(link.page(), inner::find(bytes, probe, self.pages))?;
            self.path.push((link.page(), i));
            link = of(link.page(), inner::link(bytes, i))?;
            self.pages.prefetch_heads(link);
        }
        let bytes = self.pages.page_on(link.page(), 0)?;
        let place = of(link.page(), leaf::find(bytes, probe, self.pages))?;
        (self.leaf, self.count, self.at) = (link.page(), count(bytes), place.index());
        self.where_ = Where::Before;
        self.arrive(Way::Forward)?;
        Ok(matches!(place, Place::Found(_)))
    }

    /// Goes to the first record of what begins so; whether there is one.
    pub(crate) fn begin(&mut self, start: Bound<&[u8]>) -> Result<bool> {
        match start {
            Bound::Unbounded => self.first(),
            Bound::Included(key) => self.seek(key),
            Bound::Excluded(key) if self.find(key)? => self.next(),
            Bound::Excluded(_) => Ok(self.where_ == Where::Here),
        }
    }

    /// Goes to the next record; whether there is one.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<bool> {
        match self.where_ {
            Where::Before => self.first(),
            Where::Behind => Ok(false),
            Where::Here => {
                self.at += 1;
                self.arrive(Way::Forward)
            }
        }
    }

    /// Goes to the record before; whether there is one.
    #[inline]
    pub(crate) fn previous(&mut self) -> Result<bool> {
        match self.where_ {
            Where::Before => Ok(false),
            Where::Behind => self.last(),
            Where::Here if self.at > 0 => {
                self.at -= 1;
                self.arrive(Way::Back)
            }
            Where::Here => self.arrive_beside(Way::Back),
        }
    }

    /// Goes behind the last record going forward, or before the first.
    fn leave(&mut self, way: Way) -> bool {
        self.where_ = if way == Way::Forward { Where::Behind } else { Where::Before };
        false
    }

    /// Reads the key here, in another leaf if this one ends here. All of a step within a leaf is in line: a call
    /// takes a tenth of it.
    #[inline(always)]
    fn arrive(&mut self, way: Way) -> Result<bool> {
        if self.at >= self.count {
            return self.arrive_beside(way);
        }
        self.read_key()?;
        self.where_ = Where::Here;
        Ok(true)
    }

    #[inline(always)]
    fn read_key(&mut self) -> Result<()> {
        let bytes = self.pages.page(self.leaf)?;
        of(self.leaf, leaf::key_of(bytes, self.at, self.pages, &mut self.key)).map(drop)
    }

    /// The same in the leaf beside this one. From leaf to leaf keys go up, or down: not only from the last of one, but also
    /// from the first that was met there, for those of a damaged leaf may be in no order. So a walk meets no leaf twice, and
    /// comes to an end wherever links lead.
    fn arrive_beside(&mut self, way: Way) -> Result<bool> {
        if !self.beside(way)? {
            return Ok(self.leave(way));
        }
        let was_here = std::mem::replace(&mut self.where_, Where::Before) == Where::Here;
        std::mem::swap(&mut self.key, &mut self.before);
        if self.count == 0 {
            return Err(damaged(self.leaf, "a leaf without records"));
        }
        self.read_key()?;
        let is_behind = |before: &Vec<u8>| match way {
            Way::Forward => *before < self.key,
            Way::Back => *before > self.key,
        };
        if was_here && !(is_behind(&self.before) && (!self.has_met || is_behind(&self.met))) {
            return Err(damaged(self.leaf, "keys that are not in order"));
        }
        self.met.clone_from(&self.key);
        (self.has_met, self.where_) = (true, Where::Here);
        Ok(true)
    }

    /// Goes to the leaf beside this one: to its first record going forward, else to its last.
    fn beside(&mut self, way: Way) -> Result<bool> {
        let mut level = 0;
        while let Some((page, i)) = self.path.pop() {
            level += 1;
            let links = count(self.pages.page_on(page, level)?);
            let next = match way {
                Way::Forward => Some(i + 1).filter(|next| *next < links),
                Way::Back => i.checked_sub(1),
            };
            if let Some(next) = next {
                self.path.push((page, next));
                let link = of(page, inner::link(self.pages.page(page)?, next))?;
                self.down(link, level - 1, way)?;
                self.ask_ahead(way, level > 1);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where pages are said to be read at random: asks for the leaves that come next, twice as many as there are
    /// until this asks again. In a page `is_new` to it a walk back asks at once, wherever that ends.
    #[inline]
    fn ask_ahead(&self, way: Way, is_new: bool) {
        let Some(&(parent, i)) = self.path.last() else { return };
        if (i % AHEAD == 0 || is_new) && self.pages.map().is_random() {
            let Ok(bytes) = self.pages.page(parent) else { return };
            match way {
                Way::Forward => {
                    let to = count(bytes).min(i + 2 * AHEAD);
                    ahead::ask(self.pages, bytes, i..to, to.saturating_sub(1));
                }
                Way::Back => {
                    let from = i.saturating_sub(2 * AHEAD);
                    ahead::ask(self.pages, bytes, from..i, from);
                }
            }
        }
    }

    /// Goes down to the first leaf, or the last.
    fn down(&mut self, mut link: Link, mut level: u64, way: Way) -> Result<()> {
        let edge = |count: usize| if way == Way::Forward { 0 } else { count.saturating_sub(1) };
        while level > 0 {
            let bytes = self.pages.page_on(link.page(), level)?;
            let i = edge(count(bytes));
            self.path.push((link.page(), i));
            link = of(link.page(), inner::link(bytes, i))?;
            level -= 1;
        }
        self.leaf = link.page();
        self.count = count(self.pages.page_on(self.leaf, 0)?);
        self.at = edge(self.count);
        Ok(())
    }

    /// The leaf here and the records in it from this one on, to be read without the cursor.
    pub(crate) fn leaf(&self) -> Option<(u64, usize, usize)> {
        (self.where_ == Where::Here).then_some((self.leaf, self.at, self.count))
    }

    /// Goes so many records further, a leaf at a time; whether there is one. Ends early in a leaf whose
    /// first key does not begin so.
    pub(crate) fn skip(&mut self, mut records: u64, begin: &[u8]) -> Result<bool> {
        while let Some((_, at, count)) = self.leaf()
            && self.key.starts_with(begin)
        {
            let here = (count - at) as u64;
            if records < here {
                self.at += records as usize;
                return self.arrive(Way::Forward);
            }
            records -= here;
            self.next_leaf()?;
        }
        Ok(false)
    }

    /// Goes to the first record of the next leaf.
    pub(crate) fn next_leaf(&mut self) -> Result<bool> {
        self.at = self.count;
        self.arrive(Way::Forward)
    }
}
