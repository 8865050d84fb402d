//! `credenza thaw`: any store to one that changes.

use crate::args::{ReadArgs, TableArgs, WaitArgs, exit_status};
use crate::cmd::create::Engine;
use crate::cmd::load;
use crate::exit::Status;
use crate::input;
use crate::interrupt::leave_nothing_of;
use crate::private::as_private_as;
use crate::progress::{Bar, Unit};
use crate::readable::Readable;
use crate::table::TableOf;
use crate::{tables, way};
use clap::Args;
use credenza::btree::BTree;
use credenza::{BTreeBuilder, Error, Result, Scan};
use std::path::PathBuf;

/// Make a hash or btree store, which can be changed, of a store of any kind.
///
/// TARGET must not exist; it appears in one step, when all is read and on the disk. It has one value
/// a key: a store in which a key has several is refused, and 'dump' and 'load --duplicates first' or
/// 'last' choose one. Of a btree store one table is read; with --table and
/// '--engine btree' it keeps its name and its kind, and may have several values a key. TARGET has what the store has at one moment: who writes to a
/// hash store waits until it is read, but not with --read-only, where it may have a part of what is written meanwhile. Group and others may do no more with TARGET
/// than with CONSTANT.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza thaw users.constant users\n  \
       credenza thaw old.cdb new\n  \
       credenza thaw users.constant users --engine btree       keys in order\n  \
       credenza dump a.cdb | credenza load b --to hash --duplicates first\n",
    exit_status!()
))]
pub struct Thaw {
    /// The store to read: constant, cdb, cdb64, mcdb, hash, or btree
    #[arg(value_name = "CONSTANT")]
    store: PathBuf,

    /// The store to make
    target: PathBuf,

    /// What kind of store to make
    #[arg(long, value_enum, default_value_t, value_name = "ENGINE")]
    engine: Engine,

    /// Print the result as JSON, in which 'source' and 'target' are the two files
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    read: ReadArgs,

    #[command(flatten)]
    wait: WaitArgs,
}

/// Runs the command.
pub fn run(args: &Thaw, quiet: bool) -> Result<Status> {
    input::refuse_dash(&args.target)?;
    let store = args.read.waiting(args.wait).open_whole(&args.store, &args.table, quiet)?;
    store.note_other_tables(quiet)?;
    as_private_as(&args.store, &args.target);
    leave_nothing_of(&args.target);
    let bar = Bar::new(quiet);
    bar.begin("thawing", Unit::Records, None);
    let progress = |done: u64, _| bar.count(done);
    let records = match args.engine {
        Engine::Hash => {
            let made = way::noting(&args.target, || credenza::thaw(&store, &args.target, progress));
            Scan::len(&made?)?
        }
        Engine::BTree => match &store {
            Readable::Table(TableOf { store, name: Some(name), .. }) => {
                thaw_table((store, name), args, &bar)?
            }
            store => credenza::thaw_btree(store, &args.target, progress)?.len()?,
        },
    };
    drop(bar);
    load::summary(&args.target, &args.store, (records, records), args.json, quiet)?;
    Ok(Status::Done)
}

/// Makes a btree store of a table of another one, where it keeps its name and its kind; returns how many records it has.
fn thaw_table((store, name): (&BTree, &str), args: &Thaw, bar: &Bar) -> Result<u64> {
    // Not only when all is read.
    if args.target.symlink_metadata().is_ok() {
        let what = "there is a file already, which is not replaced: name another";
        return Err(Error::invalid(what).at(&args.target));
    }
    let mut builder = BTreeBuilder::create(&args.target)?;
    let count = tables::copy((store, &args.store), Some(name), &mut builder, bar)?;
    builder.finish_new()?;
    Ok(count)
}
