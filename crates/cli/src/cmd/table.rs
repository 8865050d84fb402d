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
use serde_json::Value;
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

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

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

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

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

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

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
        Action::Create(args) => create(args),
        Action::Rename(args) => rename(args),
        Action::Delete(args) => delete(args),
    }
}

fn create(args: &Create) -> Result<Status> {
    let (names, options, mut created) = (&args.names, args.options(), 0u64);
    change(&names.store, args.write, |transaction| {
        for name in &names.names {
            created += u64::from(transaction.create_table_with(name, &options)?);
        }
        Ok(true)
    })?;
    tell(args.json, &names.store, || serde_json::json!({ "created": created }))?;
    Ok(Status::Done)
}

fn rename(args: &Rename) -> Result<Status> {
    let is_done = change(&args.store, args.write, |transaction| {
        let is_done = transaction.rename_table(&args.from, &args.to)?;
        if is_done && args.from == args.to {
            return Err(Error::invalid(format!("there is a table {:?} already", args.to)));
        }
        Ok(found(is_done, &args.from, &args.store))
    })?;
    tell(args.json, &args.store, || serde_json::json!({ "renamed": u64::from(is_done) }))?;
    Ok(status(is_done))
}

fn delete(args: &Delete) -> Result<Status> {
    // One that is named twice is gone the second time.
    let (path, names) = (&args.names.store, args.names.names.iter().collect::<BTreeSet<_>>());
    let is_done = change(path, args.write, |transaction| {
        let mut is_done = true;
        for name in &names {
            is_done &= found(transaction.delete_table(name)?, name, path);
        }
        Ok(is_done)
    })?;
    let deleted = if is_done { names.len() } else { 0 };
    tell(args.json, path, || serde_json::json!({ "deleted": deleted }))?;
    Ok(status(is_done))
}

fn status(is_done: bool) -> Status {
    if is_done { Status::Done } else { Status::NotFound }
}

/// Says what was done, if that is to be said.
fn tell(is_wanted: bool, path: &Path, done: impl FnOnce() -> Value) -> Result<()> {
    if !is_wanted {
        return Ok(());
    }
    json::tell(&json::with_paths([("store", path)], done()))
}

/// Says that there is no such table, if there is none.
fn found(is_there: bool, name: &str, path: &Path) -> bool {
    if !is_there {
        exit::report(&no_table(name).at(path));
    }
    is_there
}

/// Does `f` in a transaction, which is committed if it says so; whether it does.
fn change(
    path: &Path,
    write: WriteArgs,
    f: impl FnOnce(&mut Transaction<'_>) -> Result<bool>,
) -> Result<bool> {
    let store = write.open_btree(path)?;
    let mut transaction = for_others(|| store.write())?;
    let is_done = f(&mut transaction).map_err(|e| e.at(path))?;
    if is_done {
        transaction.commit()?;
    }
    Ok(is_done)
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

/// How many records all tables have.
pub fn records_of_all(store: &BTree) -> Result<u64> {
    Ok(counts(&store.read()?)?.iter().map(|(_, records, _)| records).sum())
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
