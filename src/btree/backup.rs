//! Copies of a store in use.
//!
//! A copy is not made page by page but record by record, by a bulk load of each table: so it has no
//! free pages and none that are half full, whatever the store looks like.

use super::bulk;
use super::core::Core;
use super::format::Tree;
use super::handle::BTree;
use super::kind;
use super::snapshot::Snapshot;
use super::table::Table;
use super::trim::Trim;
use super::writer::Writer;
use crate::durability::Durability;
use crate::os::publish::Staged;
use crate::{Error, Result};
use std::path::Path;

impl BTree {
    /// Copies the store with all its tables, as it is at this moment, to a new file at `path`, while
    /// others read and write: as small as it can be, checked, and durable when the call returns. It
    /// appears whole, or not at all. The space of what is replaced or removed meanwhile is not used
    /// again before the copy is done. `progress` is called with bytes done and bytes to do.
    ///
    /// # Errors
    /// The store is damaged, or the file cannot be written: what was at `path` is untouched.
    pub fn backup(&self, path: impl AsRef<Path>, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        let path = path.as_ref();
        let staged = Staged::create(path)?;
        let file = staged.file().try_clone().map_err(|e| Error::io("open again", e).at(path))?;
        let copy = Core::of(file, true, Some(path)).map_err(|e| e.at(path))?;
        let snapshot = self.read()?;
        // Copied, and checked.
        let half = self.core().live_bytes().map_err(|e| self.named(e))?.max(1);
        copy_all(&snapshot, &copy, &mut |done| progress(done.min(half), 2 * half))
            .map_err(|e| self.named(e))?;
        drop(snapshot);
        copy.sync().and_then(|()| copy.trim(Trim::All, true)).map_err(|e| e.at(path))?;
        let copy = BTree::of(copy, Durability::Buffered, None);
        copy.verify(|done, total| progress(half + done.min(total) * half / total, 2 * half))?;
        progress(2 * half, 2 * half);
        drop(copy);
        staged.publish()
    }
}

/// Copies all tables of a snapshot to an empty store. `progress` is called with bytes done.
fn copy_all(from: &Snapshot<'_>, to: &Core, progress: &mut dyn FnMut(u64)) -> Result<()> {
    let mut writer = Writer::begin(to)?;
    let mut copy = Copy { from, writer: &mut writer, done: 0, progress };
    let main = copy.tree(from.commit().main)?;
    let mut tables: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    Table::new(from.source(), from.commit().catalog, "").scan(|name, record| {
        let (tree, key_name) = kind::decode(&String::from_utf8_lossy(name), record)?;
        let tree = copy.tree(tree)?;
        tables.push((name.to_vec(), [&tree.encode()[..], key_name.as_bytes()].concat()));
        Ok(())
    })?;
    let mut catalog = Tree::default();
    bulk::load(&mut writer, &mut catalog, tables.into_iter().map(Ok), |_, _| Ok(()))?;
    writer.commit(main, catalog)
}

struct Copy<'a, 'w, 'c> {
    from: &'a Snapshot<'a>,
    writer: &'w mut Writer<'c>,
    done: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl Copy<'_, '_, '_> {
    /// Copies a tree; the kind of table that it is stays.
    fn tree(&mut self, tree: Tree) -> Result<Tree> {
        let mut copy = Tree { root: 0, depth: 0, count: 0, ..tree };
        let Copy { from, writer, done, progress } = self;
        let records = Table::new(from.source(), tree, "").iter().inspect(|record| {
            if let Ok((key, value)) = record {
                let before = *done;
                *done += (key.len() + value.len()) as u64;
                if before >> 20 != *done >> 20 {
                    progress(*done);
                }
            }
        });
        // What is in the store is within the limits.
        let count = bulk::load(writer, &mut copy, records, |_, _| Ok(()))?;
        if count != tree.count {
            return Err(Error::corrupt(
                0,
                format!("a tree of {count} records, not {}", tree.count),
            ));
        }
        Ok(copy)
    }
}
