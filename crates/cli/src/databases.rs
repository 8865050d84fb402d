//! Text on its way into the tables of a new btree store: a dump of Berkeley DB or LMDB may have several
//! databases, and says what their keys are.

use crate::any_table::is_text;
use crate::cmd::convert::several_values;
use crate::exit;
use crate::input::{self, Refusal};
use crate::output::{counted, escaped};
use crate::progress::Bar;
use crate::table::check_value;
use crate::target::Kind;
use credenza::btree::{Duplicates, KeyType, TableOptions};
use credenza::{BTreeBuilder, Error, ErrorKind, Result};
use credenza_formats::{Database, Format, Repeats};
use std::borrow::Cow;
use std::path::Path;
use std::slice;

/// Fills the btree store that `builder` builds from the text at `path`: of each
/// database that has a name it has a table, with its kind, and of everything else the main one. Returns it, to be
/// finished, and how many records there are.
pub fn into_tables(
    path: &Path,
    format: Option<Format>,
    builder: BTreeBuilder,
    bar: &Bar,
    quiet: bool,
) -> Result<(BTreeBuilder, u64)> {
    let (keys, options) = (Keys::Bytes, TableOptions::new());
    let mut tables = Tables { builder, begun: 0, keys, options, has_several: false, quiet };
    let paths = path.to_owned();
    let count =
        input::each_of_databases(slice::from_ref(&paths), format, bar, |records, record| {
            tables.begin(records.databases(), record.map(|(key, _)| key), path)?;
            record.map_or(Ok(()), |(key, value)| tables.add(key, value))
        })?;
    tables.check_replaced(path)?;
    Ok((tables.builder, count))
}

struct Tables {
    builder: BTreeBuilder,
    /// How many of the databases have been begun.
    begun: usize,
    keys: Keys,
    /// What the table is that has been begun last.
    options: TableOptions,
    /// Whether the last database has several values a key, as the dump says, and its table, the main one, has not.
    has_several: bool,
    quiet: bool,
}

/// What the keys in the text are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Bytes,
    /// Decimal digits of a number of this type.
    Digits,
    /// A number of so many bytes, the lowest first.
    Integers(usize),
}

impl Tables {
    /// Begins the tables of databases that the text has told of since; `key` is the first key of the
    /// last of them.
    fn begin(
        &mut self,
        all: &[Database],
        key: Option<&[u8]>,
        source: &Path,
    ) -> Result<(), Refusal> {
        while let Some(database) = all.get(self.begun) {
            self.begun += 1;
            let key = key.filter(|_| self.begun == all.len());
            (self.keys, self.options) = (Keys::Bytes, TableOptions::new());
            self.check_replaced(source)?;
            self.has_several = database.name.is_none() && database.repeats != Repeats::None;
            let Some(name) = &database.name else {
                if let (Some((keys, text)), false) = (numbers_of(database), self.quiet) {
                    exit::note(format_args!(
                        "the keys of this dump are {keys}, and those of the main table {text}: a line database=NAME in its \
                         header makes a table of {keys} of it"
                    ));
                }
                note_order(database, &self.options, self.quiet);
                self.builder.begin_main()?;
                continue;
            };
            let name = std::str::from_utf8(name).map_err(|_| {
                let name = name.escape_ascii();
                Refusal::Record(Error::invalid(format!(
                    "the name '{name}' of a database is not UTF-8"
                )))
            })?;
            (self.keys, self.options) = kind_of(database, key);
            note_order(database, &self.options, self.quiet);
            let begun = self.builder.begin_table_with(name, &self.options);
            begun.map_err(|e| match e.kind() {
                // The name is none for a table: its place helps.
                ErrorKind::Invalid(_) | ErrorKind::TooLarge { .. } => Refusal::Record(e),
                _ => Refusal::Other(e),
            })?;
        }
        Ok(())
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        let key: Cow<'_, [u8]> = match self.keys {
            Keys::Bytes => Cow::Borrowed(key),
            Keys::Digits => Cow::Owned(KeyType::U32.parse(key).map_err(Refusal::Record)?),
            Keys::Integers(width) if key.len() == width => {
                Cow::Owned(key.iter().rev().copied().collect())
            }
            Keys::Integers(width) => {
                return Err(Refusal::Record(Error::invalid(format!(
                    "a key of {} in a database whose keys are integers of {width}",
                    counted(key.len() as u64, "byte")
                ))));
            }
        };
        check_value(&self.options, value)?;
        Ok(self.builder.add(&key, value)?)
    }

    fn check_replaced(&mut self, source: &Path) -> Result<()> {
        if self.builder.replaced()? == 0 {
            return Ok(());
        }
        if self.has_several {
            let what = "a key comes more than once, and the main table has one value a key: a line database=NAME in the \
                        header of the dump makes a table of it that has all";
            return Err(Error::invalid(what).at(input::name_of(source)));
        }
        Err(several_values(Kind::BTree, source))
    }
}

/// Says what is lost of a database whose records go into this table of a btree store, whatever the database is.
pub fn note_lost(database: &Database, table: &TableOptions, quiet: bool) {
    let lost = numbers_of(database).filter(|_| is_text(table.keys()));
    if let (Some((keys, text)), false) = (lost, quiet) {
        exit::note(format_args!(
            "the keys of this dump are {keys}, and those of the table {text}: 'credenza convert --to btree' makes a table \
             of {keys} of it, where a line database=NAME is in its header"
        ));
    }
    note_order(database, table, quiet);
}

/// What the keys of a database are, and what becomes of them where keys are bytes, if they are numbers.
fn numbers_of(database: &Database) -> Option<(&'static str, &'static str)> {
    match (database.is_numbered, database.has_integer_keys) {
        (true, _) => Some(("numbers of records", "their digits")),
        (false, true) => Some(("integers", "their bytes")),
        (false, false) => None,
    }
}

/// Says in which order records of a database are that those of the table are not in.
fn note_order(database: &Database, table: &TableOptions, quiet: bool) {
    if quiet {
        return;
    }
    let of = match &database.name {
        Some(name) => format!("database '{}'", escaped(name)),
        None => "this dump".to_owned(),
    };
    if database.has_reverse_keys && is_text(table.keys()) {
        exit::note(format_args!(
            "the keys of {of} are in the order of their bytes from the last to the first (reversekey), and those of the \
             table from the first to the last"
        ));
    }
    let here = match table.has_duplicates() {
        Duplicates::Sorted => "in that of their bytes",
        Duplicates::Inserted => "as they come",
        _ => return,
    };
    if database.has_odd_values && database.repeats != Repeats::None {
        exit::note(format_args!(
            "the values of a key of {of} are in an order of their own (integerdup or reversedup), and those of the table \
             {here}"
        ));
    }
}

/// The table for a database: what its keys are in the text, and its kind.
fn kind_of(database: &Database, first: Option<&[u8]>) -> (Keys, TableOptions) {
    let duplicates = match database.repeats {
        Repeats::None => Duplicates::None,
        Repeats::Sorted => Duplicates::Sorted,
        Repeats::InOrder => Duplicates::Inserted,
    };
    if database.is_numbered {
        return (Keys::Digits, TableOptions::of_keys::<u32>().numbered(true));
    }
    let options = TableOptions::new().duplicates(duplicates);
    match first.map(<[u8]>::len) {
        Some(4) if database.has_integer_keys => (Keys::Integers(4), options.key_type(KeyType::U32)),
        _ if database.has_integer_keys => (Keys::Integers(8), options.key_type(KeyType::U64)),
        _ => (Keys::Bytes, options),
    }
}
