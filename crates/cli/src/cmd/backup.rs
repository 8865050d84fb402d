//! `credenza backup`: a copy of a hash store in use.

use crate::args::{exit_status, open_hash};
use crate::exit::Status;
use crate::progress::{Bar, Unit};
use crate::{json, output};
use clap::Args;
use credenza::{Error, Result};
use indicatif::HumanBytes;
use std::fs::{canonicalize, metadata};
use std::path::PathBuf;

/// Copy a hash store, as it is at this moment, while others read and write it.
///
/// Do not copy the file of a store in use by other means: it would have a part of this moment and a
/// part of that. TARGET appears, or is replaced, in one step, when it is on the disk; it is one file,
/// and its index is made when it is first opened.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza backup users /backup/users\n  \
       credenza backup users copy && credenza verify copy\n",
    exit_status!()
))]
pub struct Backup {
    /// The hash store to copy
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// The copy to write
    target: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Backup, quiet: bool) -> Result<Status> {
    let store = open_hash(
        &args.store,
        "backup is for hash stores; 'credenza convert SRC DST --to btree' copies a btree store in use, \
         all its tables as they are at one moment",
    )?;
    let resolved = |path| canonicalize(path).ok();
    if resolved(&args.target).is_some_and(|target| resolved(&args.store) == Some(target)) {
        let what = "this is the store itself: name another file for its copy";
        return Err(Error::invalid(what).at(&args.target));
    }
    let bar = Bar::new(quiet);
    let mut known = None;
    store.backup(&args.target, |done, total| {
        if known != Some(total) {
            known = Some(total);
            bar.begin("copying", Unit::Bytes, known);
        }
        bar.at(done);
    })?;
    drop(bar);
    let target = &args.target;
    let meta = metadata(target).map_err(|e| Error::io("ask the size of", e).at(target))?;
    if args.json {
        json::print(&serde_json::json!({
            "store": args.store.to_string_lossy(),
            "target": target.to_string_lossy(),
            "file_bytes": meta.len(),
        }))?;
    } else if !quiet {
        let (path, bytes) = (args.store.display(), HumanBytes(meta.len()));
        output::print(format!("{}: a copy of {path}, {bytes}\n", target.display()))?;
    }
    Ok(Status::Done)
}
