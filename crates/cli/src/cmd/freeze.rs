//! `credenza freeze`: a store that changes to a constant one.

use crate::args::{ReadArgs, TableArgs, WaitArgs, exit_status, unchanging};
use crate::cmd::load;
use crate::exit::Status;
use crate::input;
use crate::private::as_private_as;
use crate::progress::{Bar, Unit};
use crate::readable::Readable;
use crate::replaced::{Replaced, check_is_store, check_is_unchanging};
use crate::target::Kind;
use clap::Args;
use credenza::constant::Stats;
use credenza::{Result, Store};
use std::path::PathBuf;

/// Make a constant store of what a hash store, or a table of a btree store, has at this moment.
///
/// The constant store is smaller, faster to read, and never changes. The other one stays as it is.
/// Who writes to a hash store waits until it is read; nobody waits for a btree store. TARGET appears,
/// or is replaced, in one step. A hash or btree store that is there may be all there is of its data: it is replaced
/// only with --replace, and not while somebody has it open to write when this begins; who opens it later is not seen.
/// Nor is a file that is no store replaced. Group and others may do no more with a new TARGET than
/// with FILE.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza freeze users users.constant\n  \
       credenza freeze users users.copy --replace        where that was a hash or btree store\n  \
       credenza freeze users /srv/users.new && mv /srv/users.new /srv/users.constant\n",
    exit_status!()
))]
pub struct Freeze {
    /// The hash or btree store to read
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// The constant store to write
    target: PathBuf,

    /// Replace TARGET also where that is a hash or btree store, with all that is in it
    #[arg(long)]
    replace: bool,

    /// Print the result as JSON, in which 'source' and 'target' are the two files
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    wait: WaitArgs,
}

/// Runs the command.
pub fn run(args: &Freeze, quiet: bool) -> Result<Status> {
    input::refuse_dash(&args.target)?;
    let store =
        ReadArgs::default().checked().waiting(args.wait).open_table(&args.store, &args.table)?;
    let replaced = Replaced::of_other(&args.target, &args.store)?;
    check_is_unchanging(&args.target, args.replace)?;
    check_is_store(&args.target, "FILE, the store to read, is named first, and then TARGET")?;
    as_private_as(&args.store, &args.target);
    store.note_other_tables(quiet)?;
    let stats = match &store {
        Readable::Store(Store::Hash(hash)) => {
            // Apart from the rest, which takes long where there is much. Who may not write waits for nobody.
            drop(store.keep_as_it_is()?);
            freeze(hash, args, quiet)?
        }
        Readable::Store(Store::BTree(store)) => freeze(store, args, quiet)?,
        Readable::Table(table) => freeze(table, args, quiet)?,
        Readable::Store(other) => {
            let what_to_do = match other.kind() {
                "constant" => "it is frozen already",
                _ => "'credenza convert --to constant' makes a constant one of it",
            };
            return Err(unchanging(other.kind(), what_to_do).at(&args.store));
        }
    };
    replaced.finish(Kind::Constant);
    load::summary(&args.target, &args.store, (stats.records, stats.records), args.json, quiet)?;
    Ok(Status::Done)
}

fn freeze(store: &impl credenza::Freeze, args: &Freeze, quiet: bool) -> Result<Stats> {
    let bar = Bar::new(quiet);
    bar.begin("freezing", Unit::Records, Some(store.len()?));
    credenza::freeze(store, &args.target, |done, _| bar.count(done))
}
