//! Making the file smaller while others use it.
//!
//! A pass goes through all tables in the order of their keys, a piece at a time, each of them a
//! transaction that changes no record. Leaves that would be fewer if they were full are written
//! anew, then the pages above them, level by level. What lies behind a boundary, a little above what
//! all pages in use take, goes to free places before it. Then the end of the file is free, and is cut
//! off.
//!
//! What a transaction moves away from is free when it is durable: where places run out there is a
//! sync. Long values need places in a row; where passes do not find enough of them, one moves
//! everything behind the present end, once, so that those after it find all that is before free. What even they
//! find no places for goes as near as it can: the boundary is put farther behind.
//!
//! A pass knows where it is by the numbers of links, not by keys: what others write meanwhile may
//! have it pass over some pages, or come by them twice.

use super::closer::Closer;
use super::core::Core;
use super::cursor::Walk;
use super::edit::{Old, Step};
use super::format::{FIXED, PAGE_BYTES, SUMMED, Tree, born};
use super::handle::BTree;
use super::page::{Link, count};
use super::pins;
use super::sync::How;
use super::tree::{Pages, levels, of};
use super::trim::Trim;
use super::writer::Writer;
use super::{inner, kind};
use crate::os::atomic::Ordering;
use crate::{ErrorKind, Result};
use std::collections::BTreeMap;

/// Passes over the file, at most.
const PASSES: u32 = 8;

/// A compaction that is going on.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(super) way: Way,
    table: At,
    /// The level of the pages that it goes through: leaves are level 0.
    pub(super) level: u64,
    /// The way to the next of them: the number of the link in each inner page, from the top.
    at: Vec<usize>,
    /// How many of that level were looked for.
    looked: u64,
    /// Of so many it is known that they need not be fewer.
    ahead: usize,
    /// No place is free before this one; nor, for so many pages in a row, before these.
    scan: u64,
    run_scan: BTreeMap<u64, u64>,
    /// What was moved; and since places ran out.
    moved: u64,
    pub(super) moved_since: u64,
    number: u32,
    has_lifted: bool,
    /// Where the file ended when the first pass began.
    begun: u64,
    /// Pages are moved as they are, so that the file becomes as short as it was.
    is_last: bool,
}

/// Where a pass moves pages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// Before this page, from behind it.
    Down(u64),
    /// Behind it, from before.
    Up(u64),
}

/// The table that a pass is at.
#[derive(Debug)]
enum At {
    Main,
    Catalog,
    /// That of this name, or the next.
    Named(Vec<u8>),
}

/// A table as its record in the catalog says.
struct Named {
    name: Vec<u8>,
    tree: Tree,
    key_name: String,
}

/// Why a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// It has looked at as much as it should.
    Budget,
    /// No place is left.
    Full,
    /// There is nothing more to look at.
    End,
}

/// How many pages are in use, and behind which there are none.
#[derive(Clone, Copy, Debug)]
struct Live {
    pages: u64,
    end: u64,
}

impl Live {
    /// Where the file may end that has no more pages than these.
    fn boundary(self) -> u64 {
        self.pages + self.pages / 32 + 8
    }

    fn is_loose(self) -> bool {
        self.end > self.boundary() + self.pages / 32
    }
}

impl Pass {
    fn new(way: Way, begun: u64) -> Pass {
        Pass {
            way,
            table: At::Main,
            level: 0,
            at: Vec::new(),
            looked: 0,
            ahead: 0,
            scan: 0,
            run_scan: BTreeMap::new(),
            moved: 0,
            moved_since: 0,
            number: 1,
            has_lifted: false,
            begun,
            is_last: false,
        }
    }

    /// The one after another.
    fn next(&self, way: Way) -> Pass {
        let (number, has_lifted) = (self.number + 1, self.has_lifted);
        Pass { number, has_lifted, ..Pass::new(way, self.begun) }
    }

    pub(super) fn is_to_move(&self, page: u64) -> bool {
        match self.way {
            Way::Down(end) => page >= end,
            Way::Up(from) => page < from,
        }
    }

    /// Whether the pages that begin with this one, so many, are to be moved.
    pub(super) fn is_run_to_move(&self, from: u64, pages: u64) -> bool {
        match self.way {
            Way::Down(_) => self.is_to_move(from.saturating_add(pages - 1)),
            Way::Up(_) => self.is_to_move(from),
        }
    }

    /// Before which place there are not so many pages in a row: where there is no room for fewer, there is none
    /// for them.
    pub(super) fn run_scan(&self, pages: u64) -> u64 {
        self.run_scan.range(..=pages).map(|(_, scan)| *scan).max().unwrap_or(0)
    }

    /// Places of so many pages are looked for from here on.
    pub(super) fn set_run_scan(&mut self, pages: u64, scan: u64) {
        self.run_scan.insert(pages, scan);
    }

    fn begin_level(&mut self, level: u64) {
        (self.level, self.looked, self.ahead) = (level, 0, 0);
        self.at.clear();
    }

    pub(super) fn note_moved(&mut self, pages: u64) {
        self.moved += pages;
        self.moved_since += pages;
    }
}

impl BTree {
    /// Makes the file smaller: writes leaves with much room in them anew, moves what is at the end of
    /// the file to free places before, and cuts the end off. Each call looks at about `budget` bytes
    /// in a transaction of its own, for which others who write wait, and returns whether there is more
    /// to do: repeat it until not, at times of your choosing. Readers go on; but as long as somebody
    /// reads an older state, its pages stay, and nothing is cut off before he is done: then by the next
    /// sync that finds it worth while. A value is moved as a whole, however long it is, and pages that become fewer are
    /// written together, up to 32 with their values: a call may write some 1.5 MiB more than `budget`. Where room for long
    /// values has to be gathered first the file may meanwhile be up to twice as long. Of values of more than 1 MiB it may
    /// stay longer, by some times the longest of them, since parts of the file that are not moved lie between them; a
    /// [backup](super::Snapshot::backup) does not.
    ///
    /// # Errors
    /// As [`BTree::write`], [`TableMut::insert`](super::TableMut::insert) and [`BTree::sync`]; the records
    /// are as they were.
    pub fn compact(&self, budget: u64) -> Result<bool> {
        self.core().check_not_own().map_err(|e| self.named(e))?;
        let mut pass = self.compaction()?;
        let done = self.compact_some(&mut pass, budget.div_ceil(PAGE_BYTES).max(1));
        done.map_err(|error| {
            // Who did not get the lock goes on where he was.
            if !error.is_busy() {
                *pass = None;
            }
            self.named(error)
        })
    }

    fn compact_some(&self, place: &mut Option<Pass>, budget: u64) -> Result<bool> {
        let core = self.core();
        core.check_writable()?;
        let pass = match place {
            Some(pass) => pass,
            None => {
                // What was replaced before, or the dead hold, is free then.
                pins::clear_dead(core);
                core.sync_commits(core.newest().stamp, How::Bare)?;
                // The table of pages is put right first: after a start of the machine, and where the journal
                // was.
                drop(Writer::begin_change(core)?);
                let live = core.live()?;
                place.insert(Pass::new(Way::Down(live.boundary()), live.end))
            }
        };
        let mut writer = Writer::begin_change(core)?;
        // Lest what damage made of a page gets a checksum that fits, where it goes to.
        writer.checks = true;
        let (mut main, mut catalog) = (writer.base.main, writer.base.catalog);
        let done = writer.whole(|w| w.compact(pass, &mut main, &mut catalog, budget));
        let done = match done {
            Err(error) if pass.is_lifting() && is_full(&error) => {
                // There is no room for all of it twice: what was lifted comes down again.
                drop(writer);
                let down = || Ok(pass.next(Way::Down(core.live()?.boundary())));
                *place = (pass.moved > 0).then(down).transpose()?;
                return Ok(place.is_some());
            }
            done => done?,
        };
        if writer.scratch.space.progress() != (0, 0) {
            writer.commit(main, catalog)?;
        }
        drop(writer);
        match done {
            Done::Budget => Ok(true),
            Done::Full if pass.moved_since > 0 => {
                core.sync_commits(core.newest().stamp, How::Pages)?;
                (pass.scan, pass.moved_since) = (0, 0);
                pass.run_scan.clear();
                Ok(true)
            }
            Done::Full | Done::End => {
                core.sync_commits(core.newest().stamp, How::Bare)?;
                core.trim(Trim::All, How::Bare)?;
                *place = core.next_pass(pass, done)?;
                Ok(place.is_some())
            }
        }
    }
}

fn is_full(error: &crate::Error) -> bool {
    matches!(error.kind(), ErrorKind::Io { .. } | ErrorKind::TooLarge { .. })
}

impl Pass {
    fn is_lifting(&self) -> bool {
        matches!(self.way, Way::Up(_))
    }
}

impl Core {
    /// What the newest commit has.
    fn live(&self) -> Result<Live> {
        let mut live = Live { pages: 0, end: 0 };
        self.each_live(0, |page| live = Live { pages: live.pages + 1, end: page + 1 })?;
        Ok(live)
    }

    /// How many of its pages are behind this one.
    fn live_behind(&self, from: u64) -> Result<u64> {
        let mut pages = 0;
        self.each_live(from, |_| pages += 1)?;
        Ok(pages)
    }

    /// The pages that the newest commit has, from this one on.
    fn each_live(&self, from: u64, mut f: impl FnMut(u64)) -> Result<()> {
        let (_pin, commit) = pins::pin(self)?;
        self.reach(&commit)?;
        for page in from..commit.end {
            let [birth, freed] = self.entry(page)?.map(|word| word.load(Ordering::Relaxed));
            let is_there = freed == 0 || freed & SUMMED != 0 || freed > commit.stamp;
            if birth == FIXED || birth != 0 && is_there && born(birth) <= commit.stamp {
                f(page);
            }
        }
        Ok(())
    }

    /// Bytes of all pages in use.
    pub(crate) fn live_bytes(&self) -> Result<u64> {
        Ok(self.live()?.pages * PAGE_BYTES)
    }

    /// What is to be done after a pass that ended so, if anything is.
    fn next_pass(&self, pass: &Pass, done: Done) -> Result<Option<Pass>> {
        if pass.is_last {
            return Ok(None);
        }
        let live = self.live()?;
        let next = self.pass_after(pass, done, live)?;
        // What was written closer found no place at first, and went behind the end.
        // That may have taken pages of the table of pages, and changes need some.
        let end = pass.begun.max(live.pages + 4);
        let is_longer = live.end > end;
        let last = || Pass { is_last: true, ..pass.next(Way::Down(end)) };
        Ok(next.or_else(|| is_longer.then(last)))
    }

    /// The pass that makes the file shorter than one that ended so has left it.
    fn pass_after(&self, pass: &Pass, done: Done, live: Live) -> Result<Option<Pass>> {
        if !live.is_loose() || pass.number >= PASSES {
            return Ok(None);
        }
        let down = |end| Some(pass.next(Way::Down(end)));
        // A pass that moved next to nothing would do so again, but for one that places held by a reader, or not
        // durable yet, have ended.
        if pass.moved > live.pages / 64 || done == Done::Full && pass.moved > 0 {
            return Ok(down(live.boundary()));
        }
        if pass.has_lifted {
            // What is left found no places in a row: farther behind there are some.
            let wider = live.boundary() + 2 * self.live_behind(live.boundary())?;
            let is_done = pass.moved == 0 && matches!(pass.way, Way::Down(end) if end >= wider);
            return Ok(if wider < live.end && !is_done { down(wider) } else { None });
        }
        // While somebody reads an older commit nothing is cut off, and what is lifted comes down to no
        // better place: the file would only grow. So it would where it may not come down any more.
        let newest = self.newest().stamp;
        if pass.number + 1 == PASSES || pins::stamps(self).any(|stamp| stamp < newest) {
            return Ok(None);
        }
        Ok(Some(Pass { has_lifted: true, ..pass.next(Way::Up(live.end)) }))
    }
}

impl Writer<'_> {
    fn compact(
        &mut self,
        pass: &mut Pass,
        main: &mut Tree,
        catalog: &mut Tree,
        budget: u64,
    ) -> Result<Done> {
        // What was gathered and not taken, or copied and freed since, is found again. Where those places were passed over, pages
        // on the way that each transaction copies took all that was free, or made the file many times as long.
        let places = match pass.way {
            Way::Down(end) => 0..pass.scan.min(end),
            Way::Up(from) => from..u64::MAX,
        };
        self.scratch.space.begin_gathering(self.core, places)?;
        let mut left = budget;
        let done = loop {
            let done = match &pass.table {
                At::Main => self.compact_tree(main, pass, &mut left)?,
                At::Catalog => self.compact_tree(catalog, pass, &mut left)?,
                At::Named(name) => match self.table_from(catalog, name)? {
                    Some(table) => self.compact_named(catalog, table, pass, &mut left)?,
                    None => break Done::End,
                },
            };
            if done != Done::End {
                break done;
            }
            pass.table = match std::mem::replace(&mut pass.table, At::Catalog) {
                At::Main => At::Catalog,
                At::Catalog => At::Named(Vec::new()),
                At::Named(mut name) => {
                    name.push(0);
                    At::Named(name)
                }
            };
            pass.begin_level(0);
        };
        Ok(done)
    }

    /// The table of this name, or the next.
    fn table_from(&self, catalog: &Tree, name: &[u8]) -> Result<Option<Named>> {
        let mut walk = Walk::new(self, *catalog);
        walk.seek(name)?;
        let (Some(found), Some(bytes)) = (walk.key(), walk.value()?) else { return Ok(None) };
        // Where the catalog is damaged it may be one before, again and again.
        let Some(name) = Some(found).filter(|found| *found >= name) else { return Ok(None) };
        let (tree, key_name) = kind::decode(&String::from_utf8_lossy(name), bytes)?;
        Ok(Some(Named { name: name.to_vec(), tree, key_name: key_name.to_owned() }))
    }

    fn compact_named(
        &mut self,
        catalog: &mut Tree,
        mut table: Named,
        pass: &mut Pass,
        left: &mut u64,
    ) -> Result<Done> {
        let before = table.tree;
        let done = self.compact_tree(&mut table.tree, pass, left)?;
        if table.tree != before {
            self.gather(catalog.depth as usize + 2, pass)?;
            let record = kind::encode(&table.tree, &table.key_name);
            self.insert(catalog, &table.name, &record, Old::Replace)?;
        }
        pass.table = At::Named(table.name);
        Ok(done)
    }

    /// Goes on in a tree, from where the pass is to its end, or until the budget is used up. First through the leaves,
    /// and then up, level by level: there are fewer links in inner pages then.
    fn compact_tree(&mut self, tree: &mut Tree, pass: &mut Pass, left: &mut u64) -> Result<Done> {
        loop {
            let Some(levels) = levels(tree)?.filter(|levels| pass.level <= *levels) else {
                return Ok(Done::End);
            };
            if pass.at.len() as u64 != levels - pass.level {
                pass.at = vec![0; (levels - pass.level) as usize];
                pass.ahead = 0;
            }
            if *left == 0 {
                return Ok(Done::Budget);
            }
            let Some(mut path) = self.way(tree, pass, levels)? else {
                pass.begin_level(pass.level + 1);
                continue;
            };
            let Some(pages) = self.compact_pages(tree, &mut path, pass, left)? else {
                return Ok(Done::Full);
            };
            pass.ahead = pass.ahead.saturating_sub(pages);
            match pass.at.last_mut() {
                Some(last) => *last += pages,
                None if pages > 0 => pass.begin_level(pass.level + 1),
                None => {}
            }
        }
    }

    /// The inner pages on the way to the next page; `None` if there is none.
    fn way(&self, tree: &Tree, pass: &mut Pass, levels: u64) -> Result<Option<Vec<Step>>> {
        // More than there are, also where others write: links of damaged pages lead to the same ones over and over.
        let most = 4 * self.scratch.space.end + 1024;
        'down: loop {
            pass.looked += 1;
            if pass.looked > most {
                return Ok(None);
            }
            let (mut link, mut path) = (Link(tree.root), Vec::new());
            for n in 0..pass.at.len() {
                let page = link.page();
                let bytes = self.page_on(page, levels - n as u64)?;
                if pass.at[n] >= count(bytes) {
                    // On to the next page of this level.
                    if n == 0 {
                        return Ok(None);
                    }
                    pass.at[n - 1] += 1;
                    pass.at[n..].fill(0);
                    continue 'down;
                }
                link = of(page, inner::link(bytes, pass.at[n]))?;
                path.push(Step { page, index: pass.at[n] });
            }
            return Ok(Some(path));
        }
    }

    /// Writes the next pages anew if that saves some, or moves the next one; how many are done.
    /// `None` if there is no place.
    fn compact_pages(
        &mut self,
        tree: &mut Tree,
        path: &mut Vec<Step>,
        pass: &mut Pass,
        left: &mut u64,
    ) -> Result<Option<usize>> {
        if pass.ahead == 0 && !pass.is_lifting() && !pass.is_last {
            let (pages, closer) = match pass.level {
                0 => self.join_leaves(tree, path, pass, left)?,
                _ => self.join_inner(tree, path, pass, left)?,
            };
            pass.ahead = pages;
            match closer {
                Closer::Written(written, at) => {
                    pass.at = at;
                    // The last one, which may not be full, is looked at again with what comes behind it. What leaves have
                    // elsewhere is moved next, leaf by leaf. Left to the next pass it was never moved where that
                    // one, too, thought that fewer pages of values would do.
                    pass.ahead = if pages > 1 { written - 1 } else { written };
                    return Ok(Some(0));
                }
                Closer::NoPlace => {
                    pass.ahead = 0;
                    return Ok(None);
                }
                Closer::AsMany => {}
            }
        }
        match pass.level {
            0 => self.compact_leaf(tree, path, pass, left),
            _ => Ok(self.compact_inner(tree, path, pass, left)?.then_some(1)),
        }
    }

    /// Moves an inner page, and its keys; `false` if there is no place for them.
    fn compact_inner(
        &mut self,
        tree: &mut Tree,
        path: &mut Vec<Step>,
        pass: &mut Pass,
        left: &mut u64,
    ) -> Result<bool> {
        let page = self.page_below(tree, path)?;
        *left = left.saturating_sub(1);
        let mut keys = Vec::new();
        for i in 1..count(self.page_on(page, pass.level)?) {
            let far = of(page, inner::elsewhere_of(self.page(page)?, i))?;
            if let Some(far) = far
                && self.is_far_to_move(far, pass)?
            {
                keys.push((i, far));
            }
        }
        if keys.is_empty() && !pass.is_to_move(page) {
            return Ok(true);
        }
        if !self.gather(path.len() + keys.len() + 1, pass)? {
            return Ok(false);
        }
        path.push(Step { page, index: 0 });
        self.own_way_to(tree, path, pass.level - 1)?;
        pass.note_moved(u64::from(pass.is_to_move(page)));
        let page = path.last().map_or(page, |step| step.page);
        for (i, far) in keys {
            if let Some(far) = self.move_far(far, pass)? {
                of(page, inner::move_key(self.page_mut(page)?, i, far))?;
            }
        }
        Ok(true)
    }

    /// Moves a leaf, and what it has elsewhere; how many leaves are done, 0 where the budget did not suffice for all of
    /// that. `None` if there is no place.
    fn compact_leaf(
        &mut self,
        tree: &mut Tree,
        path: &mut [Step],
        pass: &mut Pass,
        left: &mut u64,
    ) -> Result<Option<usize>> {
        let page = self.page_below(tree, path)?;
        *left = left.saturating_sub(1);
        let parts = self.to_move(page, pass)?;
        let is_moved = pass.is_to_move(page);
        if parts.is_empty() && !is_moved {
            return Ok(Some(1));
        }
        if !self.gather(path.len() + parts.len() + 1, pass)? {
            return Ok(None);
        }
        let leaf = self.own_path(tree, path)?;
        pass.note_moved(u64::from(is_moved));
        let mut parts = parts.into_iter();
        while let Some(part) = parts.next() {
            let moved = self.move_part(leaf, part, pass)?;
            *left = left.saturating_sub(moved);
            // A part that found no place is none to end with: the next call would begin with it.
            if *left == 0 && moved > 0 && parts.len() > 0 {
                return Ok(Some(0));
            }
        }
        Ok(Some(1))
    }

    /// Sees to it that so many pages can be taken where the pass wants them.
    pub(super) fn gather(&mut self, pages: usize, pass: &mut Pass) -> Result<bool> {
        let space = &mut self.scratch.space;
        match pass.way {
            Way::Down(end) => space.gather_below(self.core, &mut pass.scan, end, pages),
            Way::Up(_) => space.gather_behind(self.core, pages).map(|()| true),
        }
    }
}
