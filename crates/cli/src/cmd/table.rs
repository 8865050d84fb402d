//! `credenza table`: the tables of a btree store.

use crate::args::{ReadArgs, WriteArgs, exit_status};
use crate::exit::{self, Status};
use crate::output::escaped;
use crate::table::no_table;
use crate::waiting::for_others;
use crate::{json, output};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use credenza::btree::{BTree, Duplicates, KeyType, Snapshot, TableOptions, Transaction};
use credenza::{Error, Result, Store};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// List, make, rename and delete the tables of a btree store.
///
/// A btree store has a main table, without a name, which commands use if they are not told another
/// with --table, and as many tables with names as you like: each has records of its own.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true, after_long_help = concat!(
    "Examples:\n  \
       credenza table create users groups\n  \
       credenza put users --table groups staff 50\n  \
       credenza table list users\n  \
       credenza table rename users groups teams\n  \
       credenza table delete users teams\n",
    exit_status!("  100  there is no such table\n")
))]
pub struct Table {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Create(Create),
    Rename(Rename),
    Delete(Delete),
}

/// Show the tables of a btree store, and how many records each has.
///
/// One a line, in the order of their names: the number of records, tab, the name; and behind another
/// tab what kind of table it is, if its keys are not bytes with one value each. The main table comes
/// first, with no name behind the tab.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza table list users\n  \
       credenza table list users --json | jq -r .table\n",
    exit_status!()
))]
struct List {
    /// The btree store to read
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// One JSON object a line; the name of the main table is null
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    read: ReadArgs,
}

/// Make tables, which are empty.
///
/// Those that are there already, and of this kind, are left as they are.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza table create users groups\n  \
       credenza table create users visits --keys u64\n  \
       credenza table create users members --duplicates sorted\n  \
       credenza table create users log --numbered\n",
    exit_status!()
))]
struct Create {
    #[command(flatten)]
    names: Names,

    /// What the keys are: 'binary' bytes, a 'string' of UTF-8, or numbers, which are written in decimal
    /// digits and in their order. Programs may have made names for orders of their own [default:
    /// binary, or u64 with --numbered]
    #[arg(long, value_name = "TYPE", value_parser = key_types())]
    keys: Option<KeyType>,

    /// Whether a key may have several values: 'sorted' by their bytes, each once and of at most 64 KiB,
    /// or in the order in which they are 'inserted'
    #[arg(long, value_enum, default_value = "none", value_name = "none|sorted|inserted")]
    duplicates: Several,

    /// Records are numbered from 1 on as they are appended, by 'put --append' or by programs
    #[arg(long)]
    numbered: bool,

    #[command(flatten)]
    write: WriteArgs,
}

impl Create {
    fn options(&self) -> TableOptions {
        let default = if self.numbered { KeyType::U64 } else { KeyType::Binary };
        TableOptions::new()
            .key_type(self.keys.clone().unwrap_or(default))
            .duplicates(self.duplicates.into())
            .numbered(self.numbered)
    }
}

fn key_types() -> impl TypedValueParser<Value = KeyType> {
    let known: Vec<_> = KeyType::known().map(|known| known.name().to_owned()).collect();
    PossibleValuesParser::new(known).map(|name| KeyType::named(&name))
}

/// Whether a key may have several values.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Several {
    None,
    Sorted,
    Inserted,
}

impl From<Several> for Duplicates {
    fn from(several: Several) -> Duplicates {
        match several {
            Several::None => Duplicates::None,
            Several::Sorted => Duplicates::Sorted,
            Several::Inserted => Duplicates::Inserted,
        }
    }
}

/// Give a table another name.
///
/// An error if there is a table of the new name.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza table rename users groups teams\n",
    exit_status!("  100  there is no such table\n")
))]
struct Rename {
    /// The btree store to change
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// The table
    from: String,

    /// Its new name
    to: String,

    #[command(flatten)]
    write: WriteArgs,
}

/// Take tables away, with all that is in them.
///
/// All of them at once; if one is not there, none.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza table delete users groups\n",
    exit_status!("  100  there is no such table; nothing was deleted\n")
))]
struct Delete {
    #[command(flatten)]
    names: Names,

    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Debug, Args)]
struct Names {
    /// The btree store to change
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// The tables
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Table) -> Result<Status> {
    match &args.action {
        Action::List(args) => list(args),
        Action::Create(args) => {
            let Create { names, write, .. } = args;
            let options = args.options();
            change(&names.store, *write, |transaction| {
                for name in &names.names {
                    transaction.create_table_with(name, &options)?;
                }
                Ok(true)
            })
        }
        Action::Rename(args) => change(&args.store, args.write, |transaction| {
            let is_done = transaction.rename_table(&args.from, &args.to)?;
            if is_done && args.from == args.to {
                return Err(Error::invalid(format!("there is a table {:?} already", args.to)));
            }
            Ok(found(is_done, &args.from, &args.store))
        }),
        Action::Delete(Delete { names, write }) => change(&names.store, *write, |transaction| {
            let mut is_done = true;
            // One that is named twice is gone the second time.
            for name in names.names.iter().collect::<BTreeSet<_>>() {
                is_done &= found(transaction.delete_table(name)?, name, &names.store);
            }
            Ok(is_done)
        }),
    }
}

/// Says that there is no such table, if there is none.
fn found(is_there: bool, name: &str, path: &Path) -> bool {
    if !is_there {
        exit::report(&no_table(name).at(path));
    }
    is_there
}

/// Does `f` in a transaction, which is committed if it says so.
fn change(
    path: &Path,
    write: WriteArgs,
    f: impl FnOnce(&mut Transaction<'_>) -> Result<bool>,
) -> Result<Status> {
    let store = write.open_btree(path)?;
    let mut transaction = for_others(|| store.write())?;
    let is_done = f(&mut transaction).map_err(|e| e.at(path))?;
    if !is_done {
        return Ok(Status::NotFound);
    }
    transaction.commit()?;
    Ok(Status::Done)
}

fn list(args: &List) -> Result<Status> {
    let store = open(args.read, &args.store)?;
    let snapshot = store.read()?;
    let mut lines = String::new();
    for (name, records, options) in counts(&snapshot)? {
        lines += &line(args, name.as_deref(), records, &options);
    }
    drop(snapshot);
    output::print(lines)?;
    Ok(Status::Done)
}

/// The name of each table, the main one first and without one, how many records it has, and its kind.
pub fn counts(snapshot: &Snapshot<'_>) -> Result<Vec<(Option<String>, u64, TableOptions)>> {
    let mut counts = vec![(None, snapshot.main().len(), TableOptions::new())];
    for name in snapshot.tables()? {
        let options = snapshot.table_options(&name)?.unwrap_or_default();
        let records = match options.has_duplicates() {
            Duplicates::None => snapshot.table(&name)?.map_or(0, |table| table.len()),
            _ => snapshot.multi_table(&name)?.map_or(0, |table| table.len()),
        };
        counts.push((Some(name), records, options));
    }
    Ok(counts)
}

/// What there is to say of a table.
fn line(args: &List, name: Option<&str>, records: u64, options: &TableOptions) -> String {
    let duplicates = match options.has_duplicates() {
        Duplicates::None => "none",
        Duplicates::Sorted => "sorted",
        Duplicates::Inserted => "inserted",
    };
    let keys = options.keys().name();
    if args.json {
        return json::line(&serde_json::json!({
            "table": name, "records": records, "keys": keys, "duplicates": duplicates,
            "numbered": options.is_numbered(),
        }));
    }
    let name = name.map_or_else(String::new, |name| escaped(name.as_bytes()));
    let mut kind = Vec::new();
    if options.keys() != TableOptions::new().keys() {
        kind.push(format!("keys {}", escaped(keys.as_bytes())));
    }
    if options.has_duplicates() != Duplicates::None {
        kind.push(format!("duplicates {duplicates}"));
    }
    if options.is_numbered() {
        kind.push("numbered".to_owned());
    }
    let kind = if kind.is_empty() { String::new() } else { format!("\t{}", kind.join(", ")) };
    format!("{records}\t{name}{kind}\n")
}

/// Opens a store that must be a btree.
pub fn open(read: ReadArgs, path: &Path) -> Result<BTree> {
    match read.open(path)? {
        Store::BTree(store) => Ok(store),
        other => Err(no_order(other.kind()).at(path)),
    }
}

/// The error for a store of another engine.
pub fn no_order(kind: &str) -> Error {
    Error::invalid(format!(
        "this is a store of kind '{kind}', which has neither tables nor an order of keys; 'credenza \
         convert --to btree' makes one of it that has"
    ))
}
