//! Checking every byte of a store that means something.
//!
//! All trees are walked: every page is where its level says, its keys are in order and within what
//! the page above says, its checksum fits, and no page is in use twice. Then the table of pages must
//! say the same of every page of the file.

use super::ahead::{self, AHEAD};
use super::as_of::AsOf;
use super::core::{Core, bad_page_sum};
use super::format::{
    BAD_FAR_SUM, Commit, FIXED, HEADER_BYTES, Header, METAS, PAGE_BYTES, SUMMED, TABLES, Tree,
    VALUES, far_sum, page_sum, session, table_pages,
};
use super::handle::BTree;
use super::journal::Since;
use super::kind::{self, Duplicates, Kind, TableOptions};
use super::multi::no_pair;
use super::page::{self, Bytes, Link, count};
use super::pairs::Pairs;
use super::record::{Elsewhere, Far, Value};
use super::source::Source;
use super::table::Table;
use super::table_mut::number_of;
use super::tree::{Pages, levels, of};
use super::writer::{Writer, damaged};
use super::{inner, leaf, places};
use crate::magic::{COPY_END, check_copy};
use crate::os::atomic::Ordering;
use crate::os::bits::Bits;
use crate::os::file::read_head;
use crate::{Error, Result};
use std::collections::BTreeSet;

impl BTree {
    /// Checks every page of the newest state. Writers wait meanwhile, readers do not. `progress` is
    /// called with bytes done and bytes to do.
    ///
    /// # Errors
    /// The store is damaged: the error names the file, the place, and what to do. Or this thread has a transaction;
    /// others wrote for longer than [`OpenOptions::lock_timeout`](super::OpenOptions::lock_timeout); or there are as many
    /// readers as can be.
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        self.verify_now(&mut progress).map_err(|e| self.named(e))
    }

    fn verify_now(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        // The newest commit, and a writer's lock, so that the table of pages stays as it is. In this
        // order: who finds no slot for a reader waits for a writer.
        // Where nobody may write, nobody does.
        let core = self.core();
        core.check_head()?;
        let (snapshot, _writer) = loop {
            let snapshot = self.read()?;
            if core.only().is_some() {
                break (snapshot, None);
            }
            let writer = Writer::begin_change(core)?;
            if writer.base.number == snapshot.number() {
                break (snapshot, Some(writer));
            }
        };
        let commit = *snapshot.commit();
        let source = snapshot.source();
        let mut seen = Bits::below(commit.end)?;
        let as_of = AsOf::of_only(core);
        let mut check = Check { core, as_of, source, seen: &mut seen, done: 0, progress };
        for tree in check.trees(&commit)? {
            check_keys(Table::new(source, tree, ""), Kind::of(&tree)?, tree.last_number)?;
        }
        check.rest(commit.stamp)?;
        // All of it: also those that no tree uses.
        check.report(commit.end);
        if core.only().is_none() {
            core.check_durable(&commit)?;
            core.check_tables(&commit)?;
        }
        if core.load(session::DURABLE) < commit.stamp || core.is_in_memory() {
            return Ok(());
        }
        loop {
            let base = core.load(session::BASE);
            let found = core.durable()?;
            if found.is_some_and(|durable| durable.stamp >= commit.stamp) {
                return Ok(());
            }
            // Unless another became the base meanwhile, and others were appended to it.
            if core.load(session::BASE) == base {
                return Err(Error::corrupt(METAS[0], "the durable commit is damaged"));
            }
        }
    }
}

impl Core {
    /// Whether the header is whole, and the copy of it, without which a damaged one is the end of the store.
    fn check_head(&self) -> Result<()> {
        let head = read_head(self.map.file(), self.map.refresh_len()?, COPY_END)?;
        Header::decode(&head)?;
        check_copy::<HEADER_BYTES>(&head)
    }

    /// Whether no block of the table of pages is said to be where pages are, or will be taken for, something else.
    fn check_tables(&self, newest: &Commit) -> Result<()> {
        let high = self.high(newest);
        for block in 0..TABLES {
            let at = session::TABLES + 8 * block;
            let from = self.load(at);
            if from.saturating_add(table_pages(block)) > high && from != 0 {
                let what = "a block of the table of pages behind the last page";
                return Err(Error::corrupt(at, what));
            }
            let is_in_it = from != 0 && from < newest.end;
            // Unless it was given up meanwhile, or is not looked at before who may write has put it right.
            let is_looked_at = is_in_it && self.load(session::UNSWEPT) == 0;
            if is_looked_at && !self.is_table(block, from) && self.load(at) == from {
                let what = "a block of the table of pages where other pages are";
                return Err(Error::corrupt(at, what));
            }
        }
        Ok(())
    }
}

/// Checks that keys are what the kind of their table says.
fn check_keys(table: Table<'_>, kind: Kind, last_number: u64) -> Result<()> {
    let (pairs, mut own) = (Pairs::of(kind), Vec::new());
    if kind == TableOptions::new().kind() {
        return Ok(());
    }
    table.scan(|key, _| {
        let key = if kind.duplicates == Duplicates::None {
            key
        } else {
            pairs.split(key, &mut own).ok_or_else(no_pair)?;
            &own
        };
        kind.check_key(key).map_err(|error| Error::corrupt(0, error.to_string()))?;
        if kind.is_numbered && number_of(key) > last_number {
            return Err(Error::corrupt(0, "a record whose number is above the highest given"));
        }
        Ok(())
    })
}

/// Checks all trees of a commit; `since`: what is to be done again in the table of pages.
pub(super) fn check_trees(core: &Core, commit: &Commit, since: Option<&Since>) -> Result<()> {
    let (source, mut seen) = (&Source::unchecked(core, commit.end), Bits::below(commit.end)?);
    let (as_of, progress) = (Some(AsOf::new(core, *commit, since)), &mut |_, _| ());
    let mut check = Check { core, as_of, source, seen: &mut seen, done: 0, progress };
    check.trees(commit).map(drop)
}

struct Check<'a, 'c> {
    core: &'a Core,
    as_of: Option<AsOf<'a>>,
    source: &'a Source<'c>,
    /// Which pages are in use.
    seen: &'a mut Bits,
    done: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Check<'_, '_> {
    /// Checks all trees of a commit; those of the tables with names.
    fn trees(&mut self, commit: &Commit) -> Result<Vec<Tree>> {
        self.tree(&commit.main)?;
        self.tree(&commit.catalog)?;
        let mut tables = Vec::new();
        Table::new(self.source, commit.catalog, "").scan(|name, bytes| {
            tables.push(kind::decode(super::transaction::utf8(name)?, bytes)?.0);
            Ok(())
        })?;
        tables.iter().try_for_each(|tree| self.tree(tree))?;
        Ok(tables)
    }

    fn tree(&mut self, tree: &Tree) -> Result<()> {
        let mut count = 0;
        if let Some(levels) = levels(tree)? {
            self.branch(Link(tree.root).page(), levels, None, None, &mut count)?;
        }
        if count != tree.count {
            let page = Link(tree.root).page();
            return Err(damaged(page, &format!("a tree of {count} records, not {}", tree.count)));
        }
        Ok(())
    }

    /// What the table of pages says of a page.
    fn entry(&self, page: u64) -> Result<[u64; 2]> {
        match &self.as_of {
            // What was not put right by who may write is not damage.
            Some(table) => table.words(page).map(|[_, after]| after),
            None => Ok(self.core.entry(page)?.map(|word| word.load(Ordering::Relaxed))),
        }
    }

    /// Notes that a page is in use, and checks what the table of pages says of it. `birth`: what the
    /// page says itself.
    fn mark(&mut self, page: u64, birth: Option<u64>) -> Result<()> {
        match self.seen.add(page) {
            Some(true) => {}
            Some(false) => return Err(damaged(page, "a page that is in use twice")),
            None => return Err(super::writer::no_page(page)),
        }
        let [born, gone] = self.entry(page)?;
        if born == 0 || born == FIXED || gone != 0 && gone & SUMMED == 0 {
            return Err(damaged(page, "a page in use of which the table of pages says it is not"));
        }
        if birth.map_or(born & VALUES == 0, |birth| birth != born) {
            return Err(damaged(page, "a page of another age than the table of pages says"));
        }
        if gone != 0 && gone != page_sum(self.source.page(page)?, page) {
            return Err(bad_page_sum(page));
        }
        self.done += 1;
        if self.done.is_multiple_of(256) {
            self.report(self.done);
        }
        Ok(())
    }

    /// Says that so many pages are done.
    fn report(&mut self, done: u64) {
        (self.progress)(done * PAGE_BYTES, self.seen.limit() * PAGE_BYTES);
    }

    /// Checks bytes that are elsewhere. `is_seen`: their page is known to be in use by this leaf.
    fn far(&mut self, page: u64, far: Far, is_seen: bool) -> Result<()> {
        if !is_seen {
            let from = far.page();
            let pages = u64::from(far.len).div_ceil(PAGE_BYTES);
            (from..from.saturating_add(pages)).try_for_each(|page| self.mark(page, None))?;
        }
        if far_sum(of(page, self.source.far(far))?) != far.sum {
            return Err(damaged(far.page(), BAD_FAR_SUM));
        }
        Ok(())
    }

    /// Checks the long values of a leaf, some of which share pages.
    fn values(&mut self, page: u64, bytes: &Bytes) -> Result<()> {
        let mut seen = BTreeSet::new();
        for i in 0..count(bytes) {
            if let Value::Far(far) = of(page, leaf::value(bytes, i))? {
                let is_within = far.at % PAGE_BYTES + u64::from(far.len) <= PAGE_BYTES;
                if far.is_packed() && !is_within {
                    return Err(damaged(page, "a value that does not end in its page"));
                }
                self.far(page, far, far.is_packed() && !seen.insert(far.page()))?;
            }
        }
        Ok(())
    }

    /// Checks a page and all below it: keys are from `low` on, and below `high`.
    fn branch(
        &mut self,
        page: u64,
        level: u64,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        records: &mut u64,
    ) -> Result<()> {
        let source = self.source;
        let bytes = source.page_on(page, level)?;
        self.mark(page, Some(page::birth(bytes)))?;
        of(page, places::check(bytes))?;
        if level == 0 && leaf::is_tagged(bytes) && !self.core.header.tagged.0 {
            return Err(damaged(page, "a leaf with tags in a store that has none"));
        }
        let (mut before, mut key) = (Vec::new(), Vec::new());
        let keys_from = usize::from(level > 0);
        for i in keys_from..count(bytes) {
            let far = if level > 0 {
                of(page, inner::key_of(bytes, i, source, &mut key))?
            } else {
                of(page, leaf::key_of(bytes, i, source, &mut key))?
            };
            let is_within =
                low.is_none_or(|low| low <= &key[..]) && high.is_none_or(|high| &key[..] < high);
            if i > keys_from && before >= key || !is_within {
                return Err(damaged(page, "keys that are not in order"));
            }
            if !of(page, page::is_head_of(bytes, i, &key))? {
                return Err(damaged(page, "a head that is not that of its key"));
            }
            if level == 0 && !leaf::is_tag_of(bytes, i, &key) {
                return Err(damaged(page, "a tag that is not that of its key"));
            }
            if let Some(far) = far {
                self.far(page, far, false)?;
            }
            std::mem::swap(&mut before, &mut key);
        }
        if level == 0 {
            *records += count(bytes) as u64;
            return self.values(page, bytes);
        }
        if count(bytes) == 0 {
            return Err(damaged(page, "a page without links"));
        }
        let mut from = low.map(<[u8]>::to_vec);
        for i in 0..count(bytes) {
            if level == 1 && i % AHEAD == 0 && source.map().is_random() {
                let to = count(bytes).min(i + 2 * AHEAD);
                ahead::ask(source, bytes, i..to, to - 1);
            }
            let to = if i + 1 < count(bytes) {
                let mut key = Vec::new();
                of(page, inner::key_of(bytes, i + 1, source, &mut key))?;
                Some(key)
            } else {
                high.map(<[u8]>::to_vec)
            };
            let below = of(page, inner::link(bytes, i))?.page();
            self.branch(below, level - 1, from.as_deref(), to.as_deref(), records)?;
            from = to;
        }
        Ok(())
    }

    /// Checks what the table says of pages that no tree uses.
    fn rest(&mut self, stamp: u64) -> Result<()> {
        for page in self.seen.others() {
            let [born, gone] = self.entry(page)?;
            let is_in_use = born != 0 && (gone == 0 || gone & SUMMED != 0);
            let is_right = match born {
                0 => true,
                FIXED => self.core.is_fixed(page),
                _ => !is_in_use && gone <= stamp,
            };
            // Which pages have slots is not known before who may write begins a session.
            let is_fixed = self.core.only().is_none() && self.core.is_fixed(page);
            if !is_right || born != FIXED && is_fixed {
                return Err(damaged(
                    page,
                    "a page that nobody uses, but the table of pages says so",
                ));
            }
        }
        Ok(())
    }
}
