//! What is whole in a damaged store, copied into a new one.
//!
//! Every tree is walked from its root. A page whose checksum does not fit, or that is not what its place says, is left
//! out with all below it; a record that leads elsewhere, if what is there is not whole. Leaves below an inner page that
//! was left out are found again by the table of pages: one in use, with a checksum, that no walk came by, and whose keys
//! all belong where something is missing, belongs there, if that can be said of one tree alone. Where a page of the
//! catalog is missing, such leaves may be of a table of which nothing is known, and stay lost.

use super::backup::NewCopy;
use super::core::Core;
use super::format::{Commit, FIXED, MAX_STORED_KEY, PAGE_BYTES, SUMMED, Tree, VALUES};
use super::handle::BTree;
use super::kind::{self, Duplicates, Kind};
use super::page::{self, Bytes, Link, count};
use super::pairs::Pairs;
use super::source::{OfStore, Source};
use super::transaction::utf8;
use super::tree::{Pages, levels, of};
use super::writer::{Writer, damaged};
use super::{as_of::AsOf, bulk, edit::Old, inner, leaf, places};
use crate::durability::Durability;
use crate::os::publish::refuse_old;
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// More transactions than were ever undone since a commit.
const MOST_UNDONE: u64 = 1 << 32;

/// What [`recover`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Records in the new store, in all its tables.
    pub records: u64,
    /// Records that its tables had in the damaged store, as far as that says how many, and that were not whole.
    pub lost_records: u64,
    /// Tables with a name in the new store.
    pub tables: u64,
    /// Tables whose names and kinds were not whole; how many records they had nobody knows.
    pub lost_tables: u64,
    /// Pages of 4 KiB that were damaged, or are missing.
    pub lost_pages: u64,
}

/// Copies every record that is whole in the damaged store at `from`, with its table, into a new one at `to`. The
/// damaged store is only read; nobody may have it open to write meanwhile. The new one appears whole or not at all, as
/// small as it can be, and is durable when the call returns. Pages without a checksum, as of a store that was not closed
/// or synced since they were written, are taken for whole where they look it. `progress` is called with bytes done and
/// bytes to do.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let (path, copy) = (dir.path().join("events"), dir.path().join("events.recovered"));
/// use credenza::btree::{self, BTree};
/// let store = BTree::create(&path)?;
/// store.insert(b"key", b"value")?;
/// drop(store);
/// let found = btree::recover(&path, &copy, |_, _| ())?;
/// assert_eq!((found.records, found.lost_records), (1, 0));
/// # Ok::<(), credenza::Error>(())
/// ```
///
/// # Errors
/// `from` has no whole header and no whole commit, or somebody has it open to write; or `to` exists, or cannot be
/// written.
pub fn recover(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Recovered> {
    let (from, to) = (from.as_ref(), to.as_ref());
    refuse_old(to)?;
    let core = Core::open_to_read(from, true).map_err(|e| e.at(from))?;
    let store = BTree::of(core, Durability::Buffered, None)?;
    let snapshot = store.read()?;
    let source = snapshot.source().checked().of(snapshot.source())?;
    let commit = snapshot.commit();
    let as_of = AsOf::of_only(store.core());
    let as_of = as_of.ok_or_else(|| Error::invalid("a store to be recovered is only read"))?;
    let half = commit.end * PAGE_BYTES;
    let copy = NewCopy::begin(to, half)?;
    let mut report = |done: u64| progress(done * PAGE_BYTES, 2 * half);
    let mut walk = Salvage {
        as_of,
        commit: *commit,
        source: &source,
        seen: vec![false; commit.end as usize],
        gaps: Vec::new(),
        lost_pages: 0,
        done: 0,
        progress: &mut report,
    };
    let (tables, lost_tables) = walk.catalog(&commit.catalog)?;
    let found = (|| {
        let main = SalvagedTable::of(Vec::new(), commit.main, "")?;
        let mut writer = Writer::begin(copy.core())?;
        let tables = [main].into_iter().chain(tables).collect();
        let mut target = Target { tables, writer: &mut writer };
        walk.all(&mut target, lost_tables == 0)?;
        let found = target.found(lost_tables, walk.lost_pages);
        target.commit()?;
        Ok(found)
    })();
    // Of what is damaged nothing comes here: these are the new store's.
    let found = found.map_err(|e: Error| e.at(to))?;
    drop(snapshot);
    copy.publish_new(&mut progress)?;
    Ok(found)
}

/// Whether it is the damaged store that something is wrong with.
fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt { .. })
}

/// From which key on, and up to which; `None` where it is not known, or there is no bound.
type Between<'k> = (Option<&'k [u8]>, Option<&'k [u8]>);

fn is_within((low, high): Between<'_>, key: &[u8]) -> bool {
    low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high)
}

/// What is below an inner page that was left out.
struct Gap {
    /// Of which table.
    table: usize,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

/// A table, and what becomes of it.
struct SalvagedTable {
    name: Vec<u8>,
    key_name: String,
    old: Tree,
    new: Tree,
    pairs: Pairs,
}

impl SalvagedTable {
    fn of(name: Vec<u8>, old: Tree, key_name: &str) -> Result<SalvagedTable> {
        let (new, pairs) =
            (Tree { root: 0, depth: 0, count: 0, ..old }, Pairs::of(Kind::of(&old)?));
        Ok(SalvagedTable { name, key_name: key_name.to_owned(), old, new, pairs })
    }

    /// Whether such a key can be there.
    fn takes(&self, key: &[u8]) -> bool {
        let mut own = Vec::new();
        let is_key = match self.pairs.kind().duplicates {
            Duplicates::None => self.pairs.check_key(key).is_ok(),
            _ => self.pairs.split(key, &mut own).is_some() && self.pairs.check_key(&own).is_ok(),
        };
        is_key && key.len() <= MAX_STORED_KEY
    }
}

/// The new store.
struct Target<'w, 'c> {
    /// The main table, then those with names, in their order.
    tables: Vec<SalvagedTable>,
    writer: &'w mut Writer<'c>,
}

impl Target<'_, '_> {
    /// What is there already stays.
    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let table = &mut self.tables[table];
        if table.takes(key) {
            self.writer.insert(&mut table.new, key, value, Old::Keep)?;
        }
        Ok(())
    }

    fn found(&self, lost_tables: u64, lost_pages: u64) -> Recovered {
        let tables = self.tables.len() as u64 - 1;
        let mut found = Recovered { tables, lost_tables, lost_pages, ..Recovered::default() };
        for SalvagedTable { old, new, .. } in &self.tables {
            found.records += new.count;
            let lost = old.count.saturating_sub(new.count);
            found.lost_records = found.lost_records.saturating_add(lost);
        }
        found
    }

    fn commit(self) -> Result<()> {
        let Target { tables, writer } = self;
        let main = tables[0].new;
        let records =
            tables.into_iter().skip(1).map(|SalvagedTable { name, key_name, new, .. }| {
                Ok((name, [&new.encode()[..], key_name.as_bytes()].concat()))
            });
        let mut catalog = Tree::default();
        bulk::load(writer, &mut catalog, records, |_, _| Ok(()))?;
        writer.commit(main, catalog)
    }
}

/// What is called with each whole record of a tree.
type Sink<'f> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'f;

/// The walk through the damaged store.
struct Salvage<'a, 'c> {
    as_of: AsOf<'a>,
    commit: Commit,
    source: &'a Source<'c>,
    /// Pages that were looked at.
    seen: Vec<bool>,
    gaps: Vec<Gap>,
    lost_pages: u64,
    done: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> Salvage<'a, '_> {
    /// The tables with names, in their order, and of how many nothing is known.
    fn catalog(&mut self, catalog: &Tree) -> Result<(Vec<SalvagedTable>, u64)> {
        let mut tables: Vec<SalvagedTable> = Vec::new();
        self.tree(0, catalog, &mut |name, record| {
            let table = utf8(name).and_then(|text| {
                let (tree, key_name) = kind::decode(text, record)?;
                SalvagedTable::of(name.to_vec(), tree, key_name)
            });
            tables.extend(table.ok());
            Ok(())
        })?;
        // What is below its own inner pages is not looked for.
        self.gaps.clear();
        let lost = catalog.count.saturating_sub(tables.len() as u64);
        Ok((tables, lost))
    }

    /// Every table; `knows_all` tables that there are.
    fn all(&mut self, target: &mut Target<'_, '_>, knows_all: bool) -> Result<()> {
        for table in 0..target.tables.len() {
            let old = target.tables[table].old;
            self.tree(table, &old, &mut |key, value| target.put(table, key, value))?;
        }
        if knows_all && !self.gaps.is_empty() {
            self.orphans(target)?;
        }
        Ok(())
    }

    fn tree(&mut self, table: usize, tree: &Tree, sink: &mut Sink<'_>) -> Result<()> {
        match levels(tree) {
            Ok(None) => Ok(()),
            Ok(Some(level)) => {
                self.branch(table, Link(tree.root).page(), level, (None, None), sink)
            }
            Err(_) => {
                self.lost_pages += 1;
                Ok(())
            }
        }
    }

    /// What is whole of a page and of all below it, whose keys are between these.
    fn branch(
        &mut self,
        table: usize,
        page: u64,
        level: u64,
        between: Between<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let source = self.source;
        let bytes = match self.look_at(page, level) {
            Ok(bytes) => bytes,
            Err(error) if is_damage(&error) => {
                self.lost_pages += 1;
                if level > 0 {
                    let [low, high] = [between.0, between.1].map(|key| key.map(<[u8]>::to_vec));
                    self.gaps.push(Gap { table, low, high });
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if level == 0 {
            return self.leaf(page, bytes, between, sink);
        }
        let (low, high) = between;
        // Where a key is not whole, the bound of the page is one as well.
        let key_of = |i: usize| {
            let mut key = Vec::new();
            let found = inner::key_of(bytes, i, source, &mut key).is_ok();
            (found && is_within(between, &key)).then_some(key)
        };
        let mut from = None;
        for i in 0..count(bytes) {
            let to = if i + 1 < count(bytes) { key_of(i + 1) } else { None };
            let below = of(page, inner::link(bytes, i))?.page();
            let between = (from.as_deref().or(low), to.as_deref().or(high));
            self.branch(table, below, level - 1, between, sink)?;
            // One that is not whole leaves the bound before it as it was.
            from = to.or(from);
        }
        Ok(())
    }

    /// A page that nobody came by yet, if it is whole.
    fn look_at(&mut self, page: u64, level: u64) -> Result<&'a Bytes> {
        match self.seen.get_mut(page as usize) {
            Some(seen @ false) => *seen = true,
            _ => return Err(damaged(page, "a page that is in use twice, or behind the last")),
        }
        self.done += 1;
        if self.done.is_multiple_of(256) {
            (self.progress)(self.done);
        }
        self.whole(page, level)
    }

    /// A page that is in use, has the checksum that the table of pages says if it says one, and is what it should be.
    fn whole(&self, page: u64, level: u64) -> Result<&'a Bytes> {
        let [born, gone] = self.entry(page)?;
        let is_in_use = gone == 0 || gone & SUMMED != 0;
        if !is_in_use || born == 0 || born == FIXED || born & VALUES != 0 {
            return Err(damaged(page, "a page that is in no tree"));
        }
        let source = self.source;
        let bytes = source.page_on(page, level)?;
        if page::birth(bytes) != born {
            return Err(damaged(page, "a page of another age than the table of pages says"));
        }
        of(page, places::check(bytes))?;
        Ok(bytes)
    }

    /// What the table of pages says of a page, as of the commit.
    fn entry(&self, page: u64) -> Result<[u64; 2]> {
        let [[_, found], entry] = self.as_of.words(page)?;
        // Freed by who did not commit that, or a checksum that is none any more.
        if found & SUMMED == 0 && found > self.commit.stamp.saturating_add(MOST_UNDONE) {
            return Err(damaged(page, "a page that was freed when no commit was"));
        }
        Ok(entry)
    }

    /// The records of a leaf that are whole, and where they belong.
    fn leaf(
        &self,
        page: u64,
        bytes: &Bytes,
        between: Between<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let (source, mut key, mut before) = (self.source, Vec::new(), None);
        for i in 0..count(bytes) {
            let is_key = leaf::key_of(bytes, i, source, &mut key).is_ok();
            let is_next = before.as_ref().is_none_or(|before: &Vec<u8>| before < &key);
            if !is_key || !is_next || !is_within(between, &key) {
                continue;
            }
            let value = of(page, leaf::value(bytes, i)).and_then(|value| source.value(page, value));
            match value {
                Ok(value) => sink(&key, value)?,
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
            before = Some(std::mem::take(&mut key));
        }
        Ok(())
    }

    /// The leaves that no walk came by, each where it belongs.
    fn orphans(&mut self, target: &mut Target<'_, '_>) -> Result<()> {
        for page in 0..self.seen.len() as u64 {
            if self.seen[page as usize] {
                continue;
            }
            // Without a checksum it may be one that is free, and of which the table of pages is damaged.
            let has_sum = self.entry(page).is_ok_and(|[_, gone]| gone & SUMMED != 0);
            let Some(bytes) = self.whole(page, 0).ok().filter(|_| has_sum) else { continue };
            if let Some(table) = self.table_of(bytes, target) {
                let put = &mut |key: &[u8], value: &[u8]| target.put(table, key, value);
                self.leaf(page, bytes, (None, None), put)?;
            }
        }
        Ok(())
    }

    /// The table that a leaf is of, if one alone has a gap where all its keys belong.
    fn table_of(&self, bytes: &Bytes, target: &Target<'_, '_>) -> Option<usize> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for i in 0..count(bytes) {
            let mut key = Vec::new();
            if leaf::key_of(bytes, i, self.source, &mut key).is_ok() {
                keys.push(key);
            }
        }
        let takes = |gap: &&Gap| {
            let between = (gap.low.as_deref(), gap.high.as_deref());
            let table = &target.tables[gap.table];
            keys.iter().all(|key| is_within(between, key) && table.takes(key))
        };
        let mut gaps = self.gaps.iter().filter(takes).map(|gap| gap.table);
        let table = gaps.next()?;
        (!keys.is_empty() && gaps.all(|other| other == table)).then_some(table)
    }
}
