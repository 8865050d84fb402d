//! `credenza preload`: a store into memory, before it is needed.

use crate::args::exit_status;
use crate::exit::{self, Status};
use crate::{json, output, way};
use clap::Args;
use credenza::{Residency, Result};
use indicatif::HumanBytes;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat, geteuid};
use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Read a store into memory, so that first lookups do not wait for the disk.
///
/// One in memory (tmpfs), of 32 MiB and more, has its pages put together into huge ones, on Linux from
/// 6.1 on: lookups took up to a fifth less time then, for whoever opens it.
///
/// Reports how much of the file, and of a hash store's index, was in memory before and is after; of a
/// file that one neither owns nor may write to, the kernel says that all of it is. Without --lock the
/// kernel may drop it again when memory is short. A hash store, which grows, cannot be locked.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza preload words.store\n  \
       credenza preload words.store --lock &      until this process is killed\n",
    exit_status!()
))]
pub struct Preload {
    /// The store to read
    store: PathBuf,

    /// Lock it in memory and stay until killed; 'ulimit -l' must allow its size
    #[arg(long)]
    lock: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Preload, quiet: bool) -> Result<Status> {
    let store = way::noting(&args.store, || credenza::open(&args.store))?;
    let before = store.residency()?;
    if args.lock {
        store.lock_in_memory()?;
    }
    store.preload()?;
    if args.lock {
        // Pages that were put together are not, until they are met again.
        store.lock_in_memory()?;
    }
    let after = store.residency()?;
    note_untold(&args.store, quiet);
    match report(&args.store, before, after, args.json) {
        // Whoever has the file locked need not read how it went.
        Err(e) if args.lock && exit::is_closed_pipe(&e) => {}
        told => told?,
    }
    if args.lock {
        if !quiet {
            exit::note("locked in memory; kill this process (Ctrl-C) to release it");
        }
        loop {
            std::thread::park();
        }
    }
    Ok(Status::Done)
}

/// Says where the kernel does not tell how much of the file is in memory, but that all of it is.
pub fn note_untold(path: &Path, quiet: bool) {
    let is_own = || metadata(path).is_ok_and(|meta| meta.uid() == geteuid().as_raw());
    let may_write = || faccessat(AT_FDCWD, path, AccessFlags::W_OK, AtFlags::AT_EACCESS).is_ok();
    if !quiet && !geteuid().is_root() && !is_own() && !may_write() {
        exit::note(
            "memory: of a file that you neither own nor may write to, the kernel says that all is in memory",
        );
    }
}

fn report(path: &Path, before: Residency, after: Residency, json: bool) -> Result<()> {
    if json {
        let done = serde_json::json!({
            "total_bytes": after.total,
            "resident_before_bytes": before.resident,
            "resident_after_bytes": after.resident,
        });
        return json::print(&json::with_paths([("store", path)], done));
    }
    let (before, after, total) =
        (HumanBytes(before.resident), HumanBytes(after.resident), HumanBytes(after.total));
    let path = output::shown(path);
    output::print(format!("{path}: {before} of {total} in memory before, {after} now\n"))
}
