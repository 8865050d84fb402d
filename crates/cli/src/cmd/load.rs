//! `credenza load`: text to store.

use crate::args::{BuildArgs, TableArgs, WriteArgs, exit_status, format_parser};
use crate::duplicates::{Filter, Policy};
use crate::exit::Status;
use crate::input::Refusal;
use crate::interrupt::leave_nothing_of;
use crate::progress::Bar;
use crate::replaced::check_is_store;
use crate::target::{Kind, Target};
use crate::{databases, input, json, output, way};
use clap::Args;
use credenza::btree::TableOptions;
use credenza::{Error, ErrorKind, Result};
use credenza_formats::{Database, Format};
use indicatif::{HumanBytes, HumanCount};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Build a store from text.
///
/// The format of each input is recognised from its first bytes, from the ending of its name (.tsv and .tab, .jsonl and
/// .ndjson, .map, .lines) or from a tab in its first line, or named with --from: what is
/// packed, or has bytes that are zero where it begins, is taken for TSV or lines only if --from says so. A
/// carriage return that ends a line does not count, but in 'lines' it belongs to the key, in 'map' to the value,
/// and in 'cdb' it is an error. The store appears, or replaces the old one, only after the last line was read
/// and found right: after an error, a full disk or a signal that ends the command the old store is untouched and
/// nothing else is left, but for what a SIGKILL leaves of a hash or btree store (see below).
/// A file that is no store is not replaced, nor is what appears meanwhile where nothing was when the command
/// began. A new store is on the disk when the command ends, whatever --durability says.
///
/// A hash or btree store that is there is not replaced: the records are added to it, and take the
/// place of those with the same keys. Into a btree store they go in one transaction, all of them or
/// none; if they come in the order of their keys, and its table is empty, by a bulk load, which is
/// much faster. What comes from a terminal or a pipe is read before the transaction begins, so that
/// nobody waits for it. Into a hash store they go in batches, each of which is there whole or not at all:
/// after an error the batches before it stay; loading the same input again does no harm. With
/// --duplicates error all of the input is read before the first batch. While a new hash or btree store is built, its
/// files are beside it as '.NAME.PID.N.tmp': SIGINT (Ctrl-C), SIGTERM and SIGHUP take them away; what a SIGKILL leaves
/// of them the next build of that name removes.
///
/// Hash and btree stores have one value a key, but for tables that were made with '--duplicates', which get all: of several records in the input with the same key the
/// last stays, or what --duplicates says. It is about the input alone: a record that the store has is
/// replaced in any case.
///
/// A dump of Berkeley DB or LMDB with several databases is refused: 'convert --to btree' makes tables of
/// them. Into a hash store that is there, records of the first may be in by then.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza load words.store words.tsv\n  \
       db_dump -p old.db | credenza load new.store\n  \
       printf '+3,4:key->data\\n\\n' | credenza load s --from cdb\n  \
       credenza load words.cdb words.tsv --to cdb           a store for the cdb tools\n  \
       credenza load users users.tsv --to hash              a store that changes\n  \
       credenza load users more.tsv                         more into it\n  \
       LC_ALL=C sort events.tsv | credenza load events --to btree --from tsv\n  \
       credenza load events days.tsv --table days           into a table of it\n  \
       credenza load s a.jsonl b.jsonl --duplicates last    later records replace earlier ones\n",
    exit_status!()
))]
pub struct Load {
    /// The store to build; replaced in one step if it is one that never changes, added to if it is a hash
    /// or btree store
    store: PathBuf,

    /// Text to read, one after the other; - is standard input
    #[arg(default_value = "-", value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// Format of the input [default: recognised]
    #[arg(long, value_parser = format_parser(), value_name = "FORMAT")]
    from: Option<Format>,

    /// Kind of store to build; that of STORE if it is a hash or btree store [default: constant, or that]
    #[arg(long, value_enum, value_name = "KIND")]
    to: Option<Kind>,

    #[command(flatten)]
    build: BuildArgs,

    /// What becomes of records whose key came before; all but 'keep' hold all keys in memory
    /// [default: keep, or last into a hash or btree store]
    #[arg(long, value_enum, value_name = "POLICY")]
    duplicates: Option<Policy>,

    /// Print the result as JSON, in which 'formats' are those that INPUT was read in, one for each
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    write: WriteArgs,
}

/// Runs the command.
pub fn run(args: &Load, quiet: bool) -> Result<Status> {
    if args.from.is_none() {
        args.inputs.iter().try_for_each(|input| refuse_store(input))?;
    }
    let old = Kind::changing_at(&args.store);
    let kind = args.to.or(old).unwrap_or(Kind::Constant);
    if old == Some(kind) {
        return add(args, kind, quiet);
    }
    check_old(&args.store)?;
    // What leads nowhere yet is made where it leads to.
    let is_new = std::fs::metadata(&args.store).is_err();
    let policy = policy(args.duplicates, kind.is_changing())?;
    if args.table.name().is_some() {
        let what = "--table is for a btree store that is there: 'credenza create --engine btree' and \
                    'credenza table create' make one";
        return Err(Error::invalid(what).at(&args.store));
    }
    leave_nothing_of(&args.store);
    let bar = Arc::new(Bar::new(quiet));
    let target = Target::create(kind, &args.store, &args.build, &bar)?;
    let filter = Filter::new(policy, target, &args.store);
    let publish = |target: Target| publish(args, target, is_new, &bar);
    let table = (kind == Kind::BTree).then(TableOptions::new);
    let into = (filter, table.as_ref());
    let filled = fill(args, into, publish, &bar, quiet, |key| Ok(Cow::Borrowed(key)))?;
    drop(bar);
    if args.json {
        print_filled(&args.store, &filled, filled.records, bytes_of(&args.store)?)?;
    } else {
        tell_built(&args.store, (filled.read, filled.records), quiet)?;
    }
    Ok(Status::Done)
}

/// An error if what is at `path` is not to be replaced: a store that changes, of which there may be no other
/// copy; or what is no store, as where the INPUT stands in the place of STORE.
fn check_old(path: &Path) -> Result<()> {
    if let Some(kind) = Kind::changing_at(path) {
        let kind = if kind == Kind::Hash { "hash" } else { "btree" };
        let what = format!(
            "this is a {kind} store, which is not replaced: leave out --to, to add to it; 'credenza \
             convert' makes a store of another kind of it, under another name"
        );
        return Err(Error::invalid(what).at(path));
    }
    check_is_store(path, "the STORE to build is named first, and then INPUT")
}

/// Has the store that was made take its place, in which there was nothing when the command began if it is new.
fn publish(args: &Load, target: Target, is_new: bool, bar: &Bar) -> Result<u64> {
    let is_changing = Kind::changing_at(&args.store).is_some();
    if let Some(error) = made_meanwhile(args).filter(|_| is_changing) {
        return Err(error);
    }
    check_old(&args.store)?;
    if !is_new {
        return way::noting(&args.store, || target.finish(bar));
    }
    way::noting(&args.store, || target.finish_new(bar)).map_err(|e| match e.kind() {
        // What is there now says what to do.
        ErrorKind::Invalid(_) => made_meanwhile(args).unwrap_or(e),
        _ => e,
    })
}

/// The error of who was to make a store where somebody else has made one while the input was read, if there is one.
fn made_meanwhile(args: &Load) -> Option<Error> {
    let made = credenza::kind_of(&args.store).ok()?;
    let next = match Kind::changing_at(&args.store) {
        None => "load again, to replace it",
        Some(made) if args.to.is_none_or(|wanted| wanted == made) => "load again, to add to it",
        Some(_) => "it is not replaced, so load under another name",
    };
    let what = format!("somebody made a {made} store here while the input was read: {next}");
    Some(Error::invalid(what).at(&args.store))
}

/// An error if the input is no text but a store.
fn refuse_store(input: &Path) -> Result<()> {
    // Nothing else is opened twice: who writes to a FIFO would lose its first reader.
    if !std::fs::metadata(input).is_ok_and(|meta| meta.is_file()) {
        return Ok(());
    }
    let Ok(kind) = credenza::kind_of(input) else { return Ok(()) };
    Err(Error::invalid(format!(
        "this is a {kind} store, and load reads text: 'credenza convert' makes a store of another kind of it, and \
         'credenza dump' text"
    ))
    .at(input))
}

/// Adds the input to the store that is there.
fn add(args: &Load, kind: Kind, quiet: bool) -> Result<Status> {
    let store = args.write.open(&args.store, &args.table, false)?;
    let policy = policy(args.duplicates, kind.is_changing() && !store.has_several_values())?;
    let bar = Arc::new(Bar::new(quiet));
    let target = Target::existing(&store, &args.build, input::may_wait(&args.inputs), &bar)?;
    let filter = Filter::new(policy, target, &args.store);
    let publish = |target: Target| target.finish(&bar);
    let into = (filter, store.table());
    let filled = fill(args, into, publish, &bar, quiet, |key| store.key_of(key))?;
    drop(bar);
    let (records, bytes) = (store.len()?, store.file_bytes()?);
    if args.json {
        print_filled(&args.store, &filled, records, bytes)?;
    } else if !quiet {
        let (path, added) = (output::shown(&args.store), HumanCount(filled.records));
        let (records, bytes) = (output::counted(records, "record"), HumanBytes(bytes));
        output::tell(format!("{path}: {added} written, {records} now, {bytes}\n"))?;
    }
    Ok(Status::Done)
}

/// Reads the input into what is behind `filter`, be it a table of a btree store, with the keys that its own stand for, and has
/// `publish` make that visible.
fn fill(
    args: &Load,
    (mut filter, table): (Filter, Option<&TableOptions>),
    publish: impl FnOnce(Target) -> Result<u64>,
    bar: &Bar,
    quiet: bool,
    key_of: impl Fn(&[u8]) -> Result<Cow<'_, [u8]>>,
) -> Result<Filled> {
    input::hint_if_typed(&args.inputs, quiet);
    let mut formats = Vec::new();
    let tell = |format, of: &[Database]| {
        formats.push(format);
        if let Some(table) = table {
            of.iter().for_each(|database| databases::note_lost(database, table, quiet));
        }
    };
    let read = input::each_with_database(&args.inputs, args.from, bar, tell, |key, value| {
        let stored = key_of(key).map_err(Refusal::Record)?;
        filter.add(&stored, key, value).map_err(|why| why.at(&args.store))
    })?;
    let records = filter.finish(bar, publish).map_err(|e| e.at(&args.store))?;
    Ok(Filled { read, records, formats })
}

/// What came of the input.
struct Filled {
    /// Records that were read.
    read: u64,
    /// Those that the store took.
    records: u64,
    /// How each input was read.
    formats: Vec<Format>,
}

/// What becomes of repeated keys. In a store that changes, where keys have one value, the later
/// replaces the earlier by itself.
fn policy(asked: Option<Policy>, is_replaced: bool) -> Result<Policy> {
    match asked {
        Some(Policy::Keep) if is_replaced => Err(Error::invalid(
            "a key has one value in a hash store, and in a btree store but for tables that were made \
             with --duplicates: say --duplicates first, last or error",
        )),
        None | Some(Policy::Last) if is_replaced => Ok(Policy::Keep),
        asked => Ok(asked.unwrap_or_default()),
    }
}

/// The size of a store that was made. Its folder may have another name by now: an error tells that it is done,
/// lest it is done once more.
pub fn bytes_of(store: &Path) -> Result<u64> {
    let meta = std::fs::metadata(store).map_err(|e| {
        let what = format!("it is done, but its size cannot be asked for: {e}");
        Error::invalid(what).at(store)
    })?;
    Ok(meta.len())
}

/// Says what was built of which other store.
pub fn summary(
    store: &Path,
    source: &Path,
    (read, records): (u64, u64),
    json: bool,
    quiet: bool,
) -> Result<()> {
    if !json {
        return tell_built(store, (read, records), quiet);
    }
    let bytes = bytes_of(store)?;
    let done = serde_json::json!({ "records_read": read, "records": records, "file_bytes": bytes });
    json::tell(&json::of_copy(store, (source, store), done))
}

/// Says for people what was built.
fn tell_built(store: &Path, (read, records): (u64, u64), quiet: bool) -> Result<()> {
    let bytes = bytes_of(store)?;
    if quiet {
        return Ok(());
    }
    let dropped = match read.saturating_sub(records) {
        0 => String::new(),
        1 => " (1 more had a repeated key and was left out)".to_owned(),
        n => format!(" ({} more had a repeated key and were left out)", HumanCount(n)),
    };
    let (store, bytes) = (output::shown(store), HumanBytes(bytes));
    let records = output::counted(records, "record");
    output::tell(format!("{store}: {records}, {bytes}{dropped}\n"))
}

/// The same for programs, which learn how each input was read, too: nobody may have said it.
fn print_filled(store: &Path, filled: &Filled, records: u64, bytes: u64) -> Result<()> {
    let formats: Vec<&str> = filled.formats.iter().map(|format| format.name()).collect();
    let done = serde_json::json!({
        "records_read": filled.read, "records": records, "file_bytes": bytes, "formats": formats,
    });
    json::tell(&json::with_paths([("store", store)], done))
}
