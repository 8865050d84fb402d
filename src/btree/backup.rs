//! Copies of a store in use.
//!
//! A copy is not made page by page but record by record, by a bulk load of each table: so it has no
//! free pages and none that are half full, whatever the store looks like.

use super::bulk;
use super::core::Core;
use super::format::Tree;
use super::handle::BTree;
use super::snapshot::Snapshot;
use super::source::{OfStore, Source};
use super::sync::How;
use super::table::Table;
use super::trim::Trim;
use super::writer::Writer;
use super::{kind, scan};
use crate::durability::Durability;
use crate::os::publish::Staged;
use crate::{Error, Result};
use std::path::Path;

impl BTree {
    /// Makes what nobody else has open durable, and cuts the free end of the file off.
    pub(crate) fn sync_and_cut(&self) -> Result<()> {
        self.core().sync().and_then(|()| self.core().trim(Trim::All, How::Sums)).of(self.core())
    }

    /// Copies the store with all its tables, as it is at this moment, to a new file at `path`, while
    /// others read and write: as small as it can be, checked, and durable when the call returns. It
    /// appears whole, or not at all. The space of what is replaced or removed meanwhile is not used
    /// again before the copy is made; where it shall be, see [`Snapshot::backup`]. The copy is a new store,
    /// with what this version of the format has that an older store may not. `progress` is called with
    /// bytes done and bytes to do. Returns how many records the copy has, in all its tables: of a key with several values as
    /// many as these.
    ///
    /// # Errors
    /// The store is damaged, what is at `path` is a store that somebody has open to write, be it this one, the file cannot
    /// be written, or there are as many readers as can be: what was at `path` is untouched.
    pub fn backup(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<u64> {
        let snapshot = self.read()?;
        let (copy, records) = NewCopy::of(&snapshot, path.as_ref(), &mut progress)?;
        // Not held while the copy is checked.
        drop(snapshot);
        copy.publish(&mut progress)?;
        Ok(records)
    }
}

impl Snapshot<'_> {
    /// Copies the store as it is in this snapshot, as [`BTree::backup`] does. From one with a lease
    /// ([`BTree::read_for`]) it takes longer, and no more memory; `progress` is a place to renew it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("copy");
    /// use credenza::btree::BTree;
    /// use std::time::Duration;
    /// let store = BTree::in_memory()?;
    /// store.insert(b"key", b"value")?;
    /// // A copy that is stopped for a minute fails, and does not make the file grow for ever.
    /// let minute = Duration::from_secs(60);
    /// let snapshot = store.read_for(minute)?;
    /// snapshot.backup(&path, |_, _| drop(snapshot.renew(minute)))?;
    /// assert_eq!(BTree::open(&path)?.read()?.main().len(), 1);
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`BTree::backup`]; or the snapshot expired.
    pub fn backup(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<u64> {
        let (copy, records) = NewCopy::of(self, path.as_ref(), &mut progress)?;
        copy.publish(&mut progress)?;
        Ok(records)
    }
}

/// A copy that nobody sees yet.
pub(super) struct NewCopy<'p> {
    path: &'p Path,
    staged: Staged,
    core: Core,
    /// Bytes to copy, of as many more that are to be checked.
    half: u64,
}

impl<'p> NewCopy<'p> {
    /// An empty one, to which so many bytes are to be copied.
    pub(super) fn begin(path: &'p Path, half: u64) -> Result<NewCopy<'p>> {
        let staged = Staged::create(path)?;
        let file = staged.file().try_clone().map_err(|e| Error::io("open again", e).at(path))?;
        let core = Core::of(file, true, Some(path)).map_err(|e| e.at(path))?;
        Ok(NewCopy { path, staged, core, half })
    }

    /// One of all tables, and how many records it has.
    fn of(
        snapshot: &Snapshot<'_>,
        path: &'p Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(NewCopy<'p>, u64)> {
        let half = snapshot.source().core().live_bytes().of(snapshot.source())?.max(1);
        let copy = NewCopy::begin(path, half)?;
        // Lest what damage made of it gets a checksum that fits.
        let source = snapshot.source().checked().of(snapshot.source())?;
        // What comes of reading has the store's name by then.
        let mut progress = |done: u64| progress(done.min(half), 2 * half);
        let records = copy_all(snapshot, &source, &copy.core, &mut progress);
        Ok((copy, records.map_err(|e| e.at(path))?))
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    fn publish(self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.checked(progress)?.publish()
    }

    /// The same, if nothing came to be at its path meanwhile.
    pub(super) fn publish_new(self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.checked(progress)?.publish_new()
    }

    /// Makes it durable, and checks it.
    fn checked(self, progress: &mut dyn FnMut(u64, u64)) -> Result<Staged> {
        let NewCopy { path, staged, core, half } = self;
        let copy = BTree::of(core, Durability::Buffered, None)?;
        copy.sync_and_cut().map_err(|e| e.at(path))?;
        copy.verify(|done, total| {
            // Their product may have more than 64 bits.
            let part = u128::from(done.min(total)) * u128::from(half) / u128::from(total.max(1));
            progress(half + part as u64, 2 * half);
        })?;
        drop(copy);
        Ok(staged)
    }
}

/// Copies all tables of a snapshot to an empty store; how many records they have. `progress` is called with bytes done.
fn copy_all(
    from: &Snapshot<'_>,
    source: &Source<'_>,
    to: &Core,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    let mut writer = Writer::begin(to)?;
    let mut copy = Copy { source, writer: &mut writer, done: 0, progress };
    let main = copy.tree(from.commit().main)?;
    let mut records = main.count;
    let mut tables: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    Table::new(source, from.commit().catalog, "").scan(|name, record| {
        let decoded = kind::decode(&String::from_utf8_lossy(name), record);
        let (tree, key_name) = decoded.of(source)?;
        let tree = copy.tree(tree)?;
        records += tree.count;
        tables.push((name.to_vec(), [&tree.encode()[..], key_name.as_bytes()].concat()));
        Ok(())
    })?;
    let mut catalog = Tree::default();
    bulk::load(&mut writer, &mut catalog, tables.into_iter().map(Ok), |_, _| Ok(()))?;
    writer.commit(main, catalog)?;
    Ok(records)
}

struct Copy<'a, 'w, 'c> {
    source: &'a Source<'a>,
    writer: &'w mut Writer<'c>,
    done: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl Copy<'_, '_, '_> {
    /// Copies a tree; the kind of table that it is stays.
    fn tree(&mut self, tree: Tree) -> Result<Tree> {
        let mut copy = Tree { root: 0, depth: 0, count: 0, ..tree };
        let Copy { source, writer, done, progress } = self;
        let mut note = |bytes: usize| {
            let before = *done;
            *done += bytes as u64;
            if before >> 20 != *done >> 20 {
                progress(*done);
            }
        };
        // What is in the store is within the limits.
        let count = if source.has_lease() {
            let records = scan::Parts::new(source, tree);
            let records = records.map(|record| record.of(*source)).inspect(|record| {
                record.iter().for_each(|(key, value)| note(key.len() + value.len()));
            });
            bulk::load(writer, &mut copy, records, |_, _| Ok(()))?
        } else {
            let records = Table::new(source, tree, "").iter().inspect(|record| {
                record.iter().for_each(|(key, value)| note(key.len() + value.len()));
            });
            bulk::load(writer, &mut copy, records, |_, _| Ok(()))?
        };
        if count != tree.count {
            let what = format!("a tree of {count} records, not {}", tree.count);
            return Err(Error::corrupt(0, what)).of(*source);
        }
        Ok(copy)
    }
}
