//! Tables of a btree store on their way into a new one, where they are what they were: they keep their names, the types and
//! the order of their keys, and all values of a key.

use crate::progress::{Bar, Unit};
use crate::table::no_table;
use credenza::btree::{BTree, Duplicates, Snapshot, TableOptions};
use credenza::{BTreeBuilder, Error, Result};
use std::path::Path;

/// Copies into what `builder` builds the table of this name, or where there is none all tables of the store at `path`, as
/// they are at one moment; returns how many records they have.
pub fn copy(
    (store, path): (&BTree, &Path),
    name: Option<&str>,
    builder: &mut BTreeBuilder,
    bar: &Bar,
) -> Result<u64> {
    bar.begin("copying", Unit::Records, None);
    let named = |e: Error| e.at(path);
    let snapshot = store.read()?;
    let mut copied = Copied { snapshot: &snapshot, builder, count: 0, bar };
    if let Some(name) = name {
        let options = snapshot.table_options(name).map_err(named)?;
        let options = options.ok_or_else(|| named(no_table(name)))?;
        copied.table(name, &options).map_err(named)?;
        return Ok(copied.count);
    }
    snapshot.main().scan(|key, value| copied.add(key, value)).map_err(named)?;
    for name in snapshot.tables().map_err(named)? {
        let options = snapshot.table_options(&name).map_err(named)?.unwrap_or_default();
        copied.table(&name, &options).map_err(named)?;
    }
    Ok(copied.count)
}

struct Copied<'c, 's> {
    snapshot: &'c Snapshot<'s>,
    builder: &'c mut BTreeBuilder,
    count: u64,
    bar: &'c Bar,
}

impl Copied<'_, '_> {
    fn table(&mut self, name: &str, options: &TableOptions) -> Result<()> {
        let snapshot = self.snapshot;
        self.builder.begin_table_with(name, options)?;
        if options.has_duplicates() != Duplicates::None {
            let table = snapshot.multi_table(name)?;
            return table.map_or(Ok(()), |table| table.scan(|key, value| self.add(key, value)));
        }
        let Some(table) = snapshot.table(name)? else { return Ok(()) };
        if options.is_numbered() {
            self.builder.skip_numbers(table.last_number())?;
        }
        table.scan(|key, value| self.add(key, value))
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.count += 1;
        self.bar.count(self.count);
        self.builder.add(key, value)
    }
}
