//! What is whole in a damaged store, copied into a new one.
//!
//! Every tree is walked from its root. A page whose checksum does not fit, or that is not what its place says, is left
//! out with all below it; a record that leads elsewhere, if what is there is not whole. Leaves below an inner page that
//! was left out are found again by the table of pages: one in use, with a checksum, that no walk came by, and whose keys
//! all belong where something is missing, belongs there, if that can be said of one tree alone. Where the catalog lacks
//! tables, what no walk came by becomes tables with other names instead, one for each root.
//!
//! What has no checksum, or is said by the table of pages to be what it cannot be, is taken where a page leads to it that
//! is taken, and counted.

use super::as_of::AsOf;
use super::backup::NewCopy;
use super::core::{Core, bad_page_sum};
use super::edit::Old;
use super::format::{
    Commit, FIXED, MAX_KEY, MAX_NAME, MAX_STORED_KEY, PAGE_BYTES, SUMMED, Tree, VALUES, born,
    page_sum,
};
use super::gaps::{Between, Gap, Gaps, is_within};
use super::handle::BTree;
use super::journal::Since;
use super::kind::{self, Duplicates, Kind};
use super::only::Doubt;
use super::page::{self, Bytes, Link, count};
use super::pairs::Pairs;
use super::source::{OfStore, Source};
use super::table_mut::number_of;
use super::transaction::utf8;
use super::tree::{Pages, levels, of};
use super::writer::{Writer, damaged};
use super::{bulk, inner, leaf, places};
use crate::durability::Durability;
use crate::os::atomic::Ordering;
use crate::os::bits::Bits;
use crate::os::publish::refuse_old;
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// More transactions than were ever undone since a commit.
const MOST_UNDONE: u64 = 1 << 32;

/// Most tables that are made of what no table is known for; the last one has all the rest.
const MOST_NAMELESS: u64 = 1000;

/// What [`recover`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Records in the new store, in all its tables.
    pub records: u64,
    /// Records that tables had whose names are whole, and that were not.
    pub lost_records: u64,
    /// Tables with a name in the new store.
    pub tables: u64,
    /// Tables whose names and kinds are lost. How many records they had nobody knows.
    pub lost_tables: u64,
    /// Of the tables in the new store those, called "recovered 1" and so on, that have what is whole of the tables whose
    /// names are lost, and of others that cannot be told from them: of each, one or more. Their keys are bytes, as they lie
    /// in the file: of a table whose keys may have several values with the value, or where it was, behind them.
    pub nameless_tables: u64,
    /// Pages of 4 KiB that were damaged, or are missing.
    pub lost_pages: u64,
    /// Pages that were taken as they are, for want of a checksum: of a store that was not closed or synced since they were
    /// written (that with the newest commit among them), or as the checksum is lost.
    pub unchecked_pages: u64,
    /// Whether there was a later commit that is lost: then what it had changed is as it was before, which is not counted.
    pub is_older: bool,
}

/// Copies every record that is whole in the damaged store at `from`, with its table, into a new one at `to`. The
/// damaged store is only read; nobody may have it open to write meanwhile. The new one appears whole or not at all, as
/// small as it can be, and is durable when the call returns. `progress` is called with bytes done and bytes to do.
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
/// Neither the header of `from` is whole nor the copy of it, or it has no whole commit, or somebody has it open to write; or
/// `to` exists, or cannot be written.
pub fn recover(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Recovered> {
    let (from, to) = (from.as_ref(), to.as_ref());
    refuse_old(to)?;
    let (core, doubt) = Core::open_damaged(from).map_err(|e| e.at(from))?;
    let len =
        core.map.file().metadata().map_err(|e| Error::io("ask the size of", e).at(from))?.len();
    let store = BTree::of(core, Durability::Buffered, None)?;
    let snapshot = store.read()?;
    let source = snapshot.source().checked().of(snapshot.source())?;
    let commit = snapshot.commit();
    let raw = Source::unchecked(store.core(), commit.end);
    let since = store.core().only().and_then(|only| only.since.as_ref());
    let as_of = AsOf::of_only(store.core());
    let as_of = as_of.ok_or_else(|| Error::invalid("a store to be recovered is only read"))?;
    let half = commit.end * PAGE_BYTES;
    let copy = NewCopy::begin(to, half)?;
    let mut report = |done: u64| progress(done * PAGE_BYTES, 2 * half);
    let mut walk = Salvage {
        as_of,
        since,
        commit: *commit,
        doubt,
        len,
        raw: &raw,
        source: &source,
        seen: Bits::below(commit.end)?,
        gaps: Vec::new(),
        doubtful: BTreeSet::new(),
        lost_pages: 0,
        unchecked_pages: u64::from(doubt.is_unchecked),
        done: 0,
        progress: &mut report,
    };
    // What comes of reading has the damaged store's name by then.
    let found = walk.copy_to(copy.core()).map_err(|e| e.at(to))?;
    let is_older = doubt.is_older || was_there_more(store.core(), commit, len);
    drop(snapshot);
    copy.publish_new(&mut progress)?;
    Ok(Recovered { is_older, ..found })
}

/// Whether a page in the file has a checksum that was made for a later commit.
fn was_there_more(core: &Core, commit: &Commit, len: u64) -> bool {
    (0..len / PAGE_BYTES).any(|page| {
        let words = core.entry(page).map(|words| words.map(|word| word.load(Ordering::Relaxed)));
        words.is_ok_and(|[birth, gone]| {
            let born = born(birth);
            gone & SUMMED != 0 && born > commit.stamp && born < FIXED / 2
        })
    })
}

/// Whether it is the damaged store that something is wrong with.
fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt { .. })
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
        match self.pairs.kind().duplicates {
            Duplicates::None => key.len() <= MAX_KEY && self.pairs.check_key(key).is_ok(),
            _ => {
                self.pairs.split(key, &mut own).is_some()
                    && own.len() <= MAX_KEY
                    && key.len() <= MAX_STORED_KEY
                    && self.pairs.check_key(&own).is_ok()
            }
        }
    }

    /// Whether records are missing of it.
    fn lacks_some(&self) -> bool {
        self.new.count < self.old.count
    }
}

/// The new store.
struct Target<'w, 'c> {
    /// The main table, then those with names.
    tables: Vec<SalvagedTable>,
    nameless: u64,
    writer: &'w mut Writer<'c>,
}

impl Target<'_, '_> {
    /// What is there already stays.
    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let table = &mut self.tables[table];
        if table.takes(key) {
            self.writer.insert(&mut table.new, key, value, Old::Keep)?;
            if table.pairs.kind().is_numbered {
                table.new.last_number = table.new.last_number.max(number_of(key));
            }
        }
        Ok(())
    }

    /// Makes a table with a name that none has; its number.
    fn add_nameless(&mut self) -> Result<usize> {
        let has = |name: &[u8]| self.tables.iter().any(|table| table.name == name);
        let mut names = (self.nameless + 1..).map(|n| format!("recovered {n}").into_bytes());
        let name = names.find(|name| !has(name)).unwrap_or_default();
        self.nameless += 1;
        self.tables.push(SalvagedTable::of(name, Tree::default(), "")?);
        Ok(self.tables.len() - 1)
    }

    fn found(&self) -> Recovered {
        let (tables, nameless_tables) = (self.tables.len() as u64 - 1, self.nameless);
        let mut found = Recovered { tables, nameless_tables, ..Recovered::default() };
        for SalvagedTable { old, new, .. } in &self.tables {
            found.records += new.count;
            let lost = old.count.saturating_sub(new.count);
            found.lost_records = found.lost_records.saturating_add(lost);
        }
        found
    }

    fn commit(self) -> Result<()> {
        let Target { mut tables, writer, .. } = self;
        let main = tables.remove(0).new;
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let records = tables.into_iter().map(|SalvagedTable { name, key_name, new, .. }| {
            Ok((name, [&new.encode()[..], key_name.as_bytes()].concat()))
        });
        let mut catalog = Tree::default();
        bulk::load(writer, &mut catalog, records, |_, _| Ok(()))?;
        writer.commit(main, catalog)
    }
}

/// What is called with each whole record of a tree.
type Sink<'f> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'f;

/// A page, and whether its checksum fits; else it has none.
type Checked<'a> = (&'a Bytes, bool);

/// The walk through the damaged store.
struct Salvage<'a, 'c> {
    as_of: AsOf<'a>,
    since: Option<&'a Since>,
    commit: Commit,
    doubt: Doubt,
    /// Bytes of the file that are there.
    len: u64,
    /// Its pages, and what is elsewhere, compared with its checksum.
    raw: &'a Source<'c>,
    source: &'a Source<'c>,
    /// Pages that were looked at.
    seen: Bits,
    gaps: Vec<Gap>,
    /// Tables with inner pages that have no checksum, or without a root that can be.
    doubtful: BTreeSet<usize>,
    lost_pages: u64,
    unchecked_pages: u64,
    done: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> Salvage<'a, '_> {
    /// Copies what is whole to an empty store.
    fn copy_to(&mut self, to: &Core) -> Result<Recovered> {
        let (main, catalog) = (self.commit.main, self.commit.catalog);
        let (tables, lost_tables) = self.catalog(&catalog)?;
        let main = SalvagedTable::of(Vec::new(), main, "")?;
        let mut writer = Writer::begin(to)?;
        let tables = [main].into_iter().chain(tables).collect();
        let mut target = Target { tables, nameless: 0, writer: &mut writer };
        self.all(&mut target, lost_tables == 0)?;
        let (lost_pages, unchecked_pages) = (self.lost_pages, self.unchecked_pages);
        let found = Recovered { lost_tables, lost_pages, unchecked_pages, ..target.found() };
        target.commit()?;
        Ok(found)
    }

    /// The tables with names, and of how many nothing is known.
    fn catalog(&mut self, catalog: &Tree) -> Result<(Vec<SalvagedTable>, u64)> {
        let mut tables: Vec<SalvagedTable> = Vec::new();
        self.tree(0, catalog, &mut |name, record| {
            let table = utf8(name).and_then(|text| {
                let (tree, key_name) = kind::decode(text, record)?;
                SalvagedTable::of(name.to_vec(), tree, key_name)
            });
            let is_name = (1..=MAX_NAME).contains(&name.len());
            tables.extend(table.ok().filter(|_| is_name));
            Ok(())
        })?;
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        tables.dedup_by(|a, b| a.name == b.name);
        // What is below its own inner pages is not looked for.
        self.gaps.clear();
        self.doubtful.clear();
        let lost = catalog.count.saturating_sub(tables.len() as u64);
        Ok((tables, lost))
    }

    /// Every table; `knows_all` tables that there are.
    fn all(&mut self, target: &mut Target<'_, '_>, knows_all: bool) -> Result<()> {
        for table in 0..target.tables.len() {
            let old = target.tables[table].old;
            self.tree(table, &old, &mut |key, value| target.put(table, key, value))?;
        }
        if !knows_all {
            return self.strays(target);
        }
        // What their pages say may not be all that there was.
        let lacking = self.doubtful.iter().filter(|table| target.tables[**table].lacks_some());
        self.gaps.extend(lacking.map(|table| Gap { table: *table, low: None, high: None }));
        if self.gaps.is_empty() { Ok(()) } else { self.orphans(target) }
    }

    fn tree(&mut self, table: usize, tree: &Tree, sink: &mut Sink<'_>) -> Result<()> {
        match levels(tree) {
            Ok(None) => Ok(()),
            Ok(Some(level)) => {
                self.branch(table, Link(tree.root).page(), level, (None, None), sink)
            }
            Err(_) => {
                self.lost_pages += 1;
                self.doubtful.insert(table);
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
        let (bytes, has_sum) = match self.look_at(page, level) {
            Ok(found) => found,
            Err(error) if is_damage(&error) => {
                self.lost_pages += 1;
                if level > 0 {
                    let [low, high] = [between.0, between.1].map(|key| key.map(<[u8]>::to_vec));
                    self.gaps.push(Gap { table, low, high });
                }
                return Ok(());
            }
            Err(error) => return Err(error).of(source),
        };
        self.unchecked_pages += u64::from(!has_sum);
        if level == 0 {
            return self.leaf(page, bytes, between, sink);
        }
        if !has_sum {
            self.doubtful.insert(table);
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
            let Ok(below) = inner::link(bytes, i) else { break };
            let between = (from.as_deref().or(low), to.as_deref().or(high));
            self.branch(table, below.page(), level - 1, between, sink)?;
            // One that is not whole leaves the bound before it as it was.
            from = to.or(from);
        }
        Ok(())
    }

    /// A page that another leads to, and that nobody came by yet, if it is whole.
    fn look_at(&mut self, page: u64, level: u64) -> Result<Checked<'a>> {
        match self.seen.add(page) {
            Some(true) => {}
            _ => return Err(damaged(page, "a page that is in use twice, or behind the last")),
        }
        self.done += 1;
        if self.done.is_multiple_of(256) {
            (self.progress)(self.done);
        }
        self.whole(page, level, true)
    }

    /// A page that is what it should be. Where another leads to it, it may have no checksum, or the table of pages may say
    /// of it what cannot be.
    fn whole(&self, page: u64, level: u64, is_linked: bool) -> Result<Checked<'a>> {
        let raw = self.raw;
        let bytes = raw.page_on(page, level)?;
        of(page, places::check(bytes))?;
        let birth = page::birth(bytes);
        let words = self.as_of.words(page).ok();
        if words.is_some_and(|[_, [_, gone]]| gone & SUMMED != 0 && gone == page_sum(bytes, page)) {
            return Ok((bytes, true));
        }
        let newest = self.commit.stamp;
        let can_be = |birth| birth != 0 && birth != FIXED && birth & VALUES == 0 && birth <= newest;
        // A page that is older than one with a checksum should be is what was there before, or another's: what was written
        // last did not come there. One that is newer may be right: then it is the table of pages that is older.
        let is_wrong = |born| born == birth || birth < born && can_be(born);
        if words.is_some_and(|[_, [born, gone]]| gone & SUMMED != 0 && is_wrong(born)) {
            return Err(bad_page_sum(page));
        }
        let is_known = words.is_some_and(|[[_, found], [born, gone]]| {
            let is_freed = found & SUMMED == 0 && found > newest.saturating_add(MOST_UNDONE);
            born == birth && gone == 0 && !is_freed
        });
        let is_redone = |since: &Since| since.changes.iter().any(|change| change.page == page);
        let is_there = (page + 1) * PAGE_BYTES <= self.len || self.since.is_some_and(is_redone);
        if (is_known || is_linked) && is_there && can_be(birth) && !self.doubt.needs_sums {
            return Ok((bytes, false));
        }
        Err(damaged(page, "a page that is in no tree, or without the checksum that it should have"))
    }

    /// The records of a leaf that are whole, and where they belong.
    fn leaf(
        &self,
        page: u64,
        bytes: &Bytes,
        between: Between<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let source = self.source;
        let keys: Vec<(usize, Vec<u8>)> = self.keys_of(bytes).collect();
        let mut before: Option<&Vec<u8>> = None;
        for (at, (i, key)) in keys.iter().enumerate() {
            // One alone that is not in order is left out, and not all that are behind it.
            let is_before_next = keys.get(at + 1).is_none_or(|(_, next)| key < next);
            if before.is_some_and(|before| before >= key)
                || !is_before_next
                || !is_within(between, key)
            {
                continue;
            }
            let value =
                of(page, leaf::value(bytes, *i)).and_then(|value| source.value(page, value));
            match value {
                Ok(value) => sink(key, value)?,
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error).of(source),
            }
            before = Some(key);
        }
        Ok(())
    }

    /// The keys of a leaf that are whole, each with its number.
    fn keys_of<'b>(&'b self, bytes: &'b Bytes) -> impl Iterator<Item = (usize, Vec<u8>)> + 'b {
        (0..count(bytes)).filter_map(|i| {
            let mut key = Vec::new();
            leaf::key_of(bytes, i, self.source, &mut key).ok()?;
            Some((i, key))
        })
    }

    /// The leaves that no walk came by, each where it belongs.
    fn orphans(&mut self, target: &mut Target<'_, '_>) -> Result<()> {
        let gaps = Gaps::of(std::mem::take(&mut self.gaps));
        for page in 0..self.seen.limit() {
            if self.seen.has(page) != Some(false) {
                continue;
            }
            // Without a checksum it may be one that is free, and of which the table of pages is damaged.
            let Ok((bytes, true)) = self.whole(page, 0, false) else { continue };
            let keys: Vec<Vec<u8>> = self.keys_of(bytes).map(|(_, key)| key).collect();
            let takes = |table: usize, key: &[u8]| target.tables[table].takes(key);
            if let Some(table) = gaps.table_of(&keys, takes) {
                let put = &mut |key: &[u8], value: &[u8]| target.put(table, key, value);
                self.leaf(page, bytes, (None, None), put)?;
            }
        }
        Ok(())
    }

    /// Whether all records of a leaf are those of a catalog, with roots that are such.
    fn is_catalog(&self, bytes: &Bytes) -> bool {
        let is_root = |tree: &Tree| {
            let level = levels(tree).ok().flatten();
            level.is_some_and(|level| self.raw.page_on(Link(tree.root).page(), level).is_ok())
        };
        let is_table = |i: usize| {
            let mut name = Vec::new();
            leaf::key_of(bytes, i, self.source, &mut name).ok()?;
            let value = leaf::value(bytes, i).ok()?;
            let value = self.source.value(0, value).ok()?;
            let (tree, _) = kind::decode(str::from_utf8(&name).ok()?, value).ok()?;
            ((1..=MAX_NAME).contains(&name.len()) && is_root(&tree)).then_some(())
        };
        count(bytes) > 0 && (0..count(bytes)).all(|i| is_table(i).is_some())
    }

    /// The trees that no walk came by, each as a table whose name nobody knows.
    fn strays(&mut self, target: &mut Target<'_, '_>) -> Result<()> {
        let level_of = |page: &u64| {
            let level = u64::from(self.raw.page(*page).ok()?[page::at::LEVEL]);
            let (bytes, has_sum) = self.whole(*page, level, false).ok()?;
            has_sum.then_some((*page, level, bytes))
        };
        let mut found: Vec<_> = self.seen.others().filter_map(|page| level_of(&page)).collect();
        // Whole trees first, then leaves of which nothing is known.
        found.sort_by_key(|(page, level, _)| (std::cmp::Reverse(*level), *page));
        let mut below = BTreeSet::new();
        for (_, level, bytes) in &found {
            let links = (0..count(bytes)).filter_map(|i| inner::link(bytes, i).ok());
            below.extend(links.filter(|_| *level > 0).map(Link::page));
        }
        for (page, level, bytes) in found.into_iter().filter(|(page, ..)| !below.contains(page)) {
            // What it says is known where its own root is.
            if level == 0 && self.is_catalog(bytes) {
                continue;
            }
            // All others in the last one.
            let table = match target.nameless < MOST_NAMELESS {
                true => target.add_nameless()?,
                false => target.tables.len() - 1,
            };
            let put = &mut |key: &[u8], value: &[u8]| target.put(table, key, value);
            self.branch(table, page, level, (None, None), put)?;
        }
        Ok(())
    }
}
