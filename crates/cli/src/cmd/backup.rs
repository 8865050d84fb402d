//! `credenza backup`: a copy of a store in use.

use crate::args::{LeaseArgs, WaitArgs, exit_status, unchanging};
use crate::cmd::load;
use crate::exit::Status;
use crate::private::as_private_as;
use crate::progress::Bar;
use crate::replaced::{Replaced, check_is_of_kind, check_is_store};
use crate::target::Kind;
use crate::waiting::{self, for_others};
use crate::{input, json, output, way};
use clap::Args;
use credenza::{Result, Store};
use indicatif::HumanBytes;
use std::path::PathBuf;

/// Copy a hash or btree store, as it is at this moment, while others read and write it.
///
/// Do not copy the file of a store in use by other means: it would have a part of this moment and a
/// part of that. TARGET appears, or is replaced, in one step, when it is on the disk, as where it is the copy of
/// yesterday. A store that somebody has open to write when the copy begins is not replaced: who opens it later is not seen. Nor is a
/// file that is no store, nor, without --replace, a store of another kind, which is no copy of this one.
/// Group and others may do no more with a new TARGET than with FILE.
/// The copy of a hash store is one file, and its index is made when it is first opened; that of a btree
/// store has all its tables, is as small as it can be, and was verified.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza backup users /backup/users\n  \
       credenza backup users copy && credenza verify copy\n  \
       credenza backup events copy --lease 600       in ten minutes, or not at all\n",
    exit_status!()
))]
pub struct Backup {
    /// The hash or btree store to copy
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// The copy to write
    target: PathBuf,

    #[command(flatten)]
    lease: LeaseArgs,

    #[command(flatten)]
    wait: WaitArgs,

    /// Replace TARGET also where that is a store of another kind, with all that is in it
    #[arg(long)]
    replace: bool,

    /// Print the result as JSON, in which 'source' and 'target' are the two files
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Backup, quiet: bool) -> Result<Status> {
    input::refuse_dash(&args.target)?;
    let options = args.wait.limit(credenza::OpenOptions::new());
    let store = way::noting(&args.store, || options.open(&args.store))?;
    let replaced = Replaced::of_other(&args.target, &args.store)?;
    check_is_store(&args.target, "FILE, the store to copy, is named first, and then TARGET")?;
    let check_kind = |kind| check_is_of_kind(&args.target, kind, args.replace);
    as_private_as(&args.store, &args.target);
    let bar = Bar::new(quiet);
    let mut told = bar.of_bytes("copying");
    let progress = move |done, total| {
        waiting::is_over();
        told(done, total);
    };
    let (kind, records) = match store {
        Store::Hash(store) => {
            args.lease.refuse("hash").map_err(|e| e.at(&args.store))?;
            check_kind("hash")?;
            (Kind::Hash, for_others(|| store.backup(&args.target, progress))?)
        }
        Store::BTree(store) => {
            check_kind("btree")?;
            let records = match args.lease.lease() {
                None => store.backup(&args.target, progress)?,
                Some(lease) => store.read_for(lease)?.backup(&args.target, progress)?,
            };
            (Kind::BTree, records)
        }
        other => {
            return Err(unchanging(other.kind(), "any copy of the file is one of the store")
                .at(&args.store));
        }
    };
    replaced.finish(kind);
    drop(bar);
    let target = &args.target;
    let bytes = load::bytes_of(target)?;
    if args.json {
        let done = serde_json::json!({ "records": records, "file_bytes": bytes });
        json::tell(&json::of_copy(&args.store, (&args.store, target), done))?;
    } else if !quiet {
        let (path, bytes) = (output::shown(&args.store), HumanBytes(bytes));
        let (target, records) = (output::shown(target), output::counted(records, "record"));
        output::tell(format!("{target}: a copy of {path}, {records}, {bytes}\n"))?;
    }
    Ok(Status::Done)
}
