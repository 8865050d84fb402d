//! `credenza dump`: store to text, losing nothing.

use crate::args::{LeaseArgs, ReadArgs, TableArgs, WaitArgs, exit_status, format_parser};
use crate::exit::{self, Status};
use crate::output::Output;
use crate::private::as_private_as;
use crate::progress::{Bar, Unit};
use crate::readable::Readable;
use crate::spool::Spool;
use clap::Args;
use credenza::{ErrorKind, Result, Scan};
use credenza_formats::Format;
use std::path::{Path, PathBuf};

/// Write every record as text that load reads back.
///
/// The values of one key come in the order in which they were added. A record that the format
/// cannot hold is an error, never changed or left out; a key of more than 64 KiB, as a cdb of others
/// may have, is read back by their tools alone. Of a btree store it is one table, in the order of its
/// keys.
///
/// What is written is what a hash or btree store has at one moment. Nobody waits for a btree store. Who writes to a hash
/// store waits until it is read, and not for a pipe or a terminal: what goes there waits itself, what is over 4 MiB in a
/// file without a name beside the store, or where none can be made there in that of temporary files, until all is read. With
/// --unchecked, with --read-only, and for who may not write to it, nobody waits for a hash store, and of changes that
/// others make meanwhile, also of those of one transaction, some may be in what is written and others not.
///
/// Both forms of db_dump are read by db_load of Berkeley DB and mdb_load of LMDB. That makes a new store of at most
/// 1 MiB unless the header names a size, which db_load refuses: sed adds it, as below. Of the values of one key
/// mdb_load keeps the last alone, unless sed adds dupsort=1 as well: then each once, sorted, if none is empty or of
/// more than 511 bytes.
///
/// A tdb file has one value a key: tdbrestore ends with an error where a key of tdbdump's form comes a second time, and
/// leaves a file of the records before. 'load --duplicates first' or 'last' makes a store that it takes.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza dump words.store | head\n  \
       credenza dump words.store --to jsonl -o words.jsonl\n  \
       credenza dump words.store --to db_dump | db_load words.db\n  \
       credenza dump w --to db_dump | sed 's/^HEADER/mapsize=1073741824\\n&/' | mdb_load -n w.mdb\n  \
       credenza dump w --to db_dump | sed 's/^HEADER/dupsort=1\\n&/' | mdb_load -n w.mdb\n  \
       credenza dump events --lease 60 -o events.txt            in a minute, or not at all\n  \
       credenza dump a.store | cdb -c a.cdb                     for tinycdb\n",
    exit_status!()
))]
pub struct Dump {
    /// The store to read
    store: PathBuf,

    /// Text format to write
    #[arg(long, value_parser = format_parser(), default_value = "cdb", value_name = "FORMAT")]
    to: Format,

    /// File to write, which appears whole or not at all; not a store that is there [default: standard output]
    #[arg(short, long, default_value = "-", hide_default_value = true, value_name = "FILE")]
    output: PathBuf,

    /// Do not compare what is read with its checksum, which otherwise ends the dump where the store is
    /// damaged: to save what can be read of it, wrong as it may be, up to where that ends. Of hash and btree stores
    /// 'credenza recover' saves all that is whole
    #[arg(long)]
    unchecked: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    lease: LeaseArgs,

    #[command(flatten)]
    read: ReadArgs,

    #[command(flatten)]
    wait: WaitArgs,
}

/// Runs the command.
pub fn run(args: &Dump, quiet: bool) -> Result<Status> {
    let read = args.read.waiting(args.wait);
    let store = match args.unchecked {
        true => read.open_table(&args.store, &args.table)?,
        false => read.open_whole(&args.store, &args.table, quiet)?,
    };
    let store = args.lease.limit(store).map_err(|e| e.at(&args.store))?;
    store.note_other_tables(quiet)?;
    as_private_as(&args.store, &args.output);
    let out = Output::create(&args.output, Some(&args.store))?;
    let bar = Bar::new(quiet || out.is_terminal());
    let (is_single, may_wait) = (store.has_single_values(), out.may_wait());
    let mut damage = None;
    write_text(args.to, is_single, out, |write| {
        if !args.unchecked {
            return each_of_moment(&store, &args.store, may_wait, &bar, write);
        }
        match each_record(&store, &bar, write) {
            // What came before it is what is wanted.
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt { .. }) => {
                damage = Some(error);
                Ok(())
            }
            done => done.map(drop),
        }
    })?;
    Ok(damage.map_or(Status::Done, |error| {
        match store.is_changing() {
            true => exit::report(&error),
            // What can be done about it is done.
            false => exit::say(&error),
        }
        Status::Failed
    }))
}

/// What takes a record.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Writes the records that `each` passes on to `out`, as text; whether no key comes twice in them.
pub fn write_text(
    format: Format,
    is_single: bool,
    mut out: Output,
    each: impl FnOnce(Sink<'_>) -> Result<()>,
) -> Result<()> {
    let name = out.name().to_owned();
    let mut writer = credenza_formats::writer(format, &mut out);
    if is_single {
        writer.expect_single_values();
    }
    each(&mut |key, value| writer.write(key, value).map_err(|e| e.at(&name)))?;
    writer.finish().map_err(|e| e.at(&name))?;
    out.finish()
}

/// Calls `f` with every record that the store at `path` has at one moment. Where `f` may wait for whom it gives them to,
/// nobody who writes to a hash store waits for that: the records do, until all of them are read.
pub fn each_of_moment(
    store: &Readable,
    path: &Path,
    may_wait: bool,
    bar: &Bar,
    f: Sink<'_>,
) -> Result<()> {
    let writers_wait = store.keep_as_it_is()?;
    if writers_wait.is_none() || !may_wait {
        return each_record(store, bar, f).map(drop);
    }
    let spool = Spool::of(path, |add| each_record(store, bar, add).map(drop))?;
    drop(writers_wait);
    spool.drain("writing", bar, |_, key, value| f(key, value))
}

/// Scans `store` and shows how far it is; returns how many records there were.
pub fn each_record(
    store: &impl Scan,
    bar: &Bar,
    mut f: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    if bar.is_enabled() {
        bar.begin("reading", Unit::Records, Some(store.len()?));
    }
    let mut count = 0u64;
    store.scan(|key, value| {
        count += 1;
        bar.count(count);
        f(key, value)
    })?;
    Ok(count)
}
