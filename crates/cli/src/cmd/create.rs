//! `credenza create`: a new store that changes, empty.

use crate::args::{WriteArgs, exit_status, size};
use crate::exit::Status;
use crate::folder::led_to;
use crate::{input, json, output};
use clap::{Args, ValueEnum};
use credenza::{Error, Result, Scan};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Make a new, empty store that many processes change and read at the same time.
///
/// A hash store finds single keys fastest. A btree store has its keys in order, tables, and
/// transactions over all of them.
///
/// An error if the file exists. Of two who make the same store at once, one does.
///
/// With --limit, writes to a hash store drop the records that were not read or written for longest, so that those
/// that are left never take more, each with its header of 8 or 16 bytes. The limit is the store's
/// for ever, whoever opens it; the file takes up to twice as much and 4 MiB.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza create users\n  \
       credenza create events --engine btree      keys in order\n  \
       credenza create users --if-missing         in a script that may run again\n  \
       credenza create pages --limit 64MiB        a cache\n",
    exit_status!()
))]
pub struct Create {
    /// The store to make
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// What kind of store
    #[arg(long, value_enum, default_value_t, value_name = "ENGINE")]
    engine: Engine,

    /// Take a store of this engine that is there as it is
    #[arg(long)]
    if_missing: bool,

    /// How many bytes the records of a hash store may take, such as 64MiB: a cache. K, M, G and T are powers of 1024, also with B or iB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    limit: Option<u64>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    write: WriteArgs,
}

/// A store that changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// One value a key, found at once
    #[default]
    Hash,
    /// In the order of its keys, with transactions and tables
    #[value(name = "btree")]
    BTree,
}

impl Engine {
    /// As `Store::kind` calls it.
    fn name(self) -> &'static str {
        match self {
            Engine::Hash => "hash",
            Engine::BTree => "btree",
        }
    }
}

/// Makes an empty file a store, or opens the one that is there: its records and its limit.
fn make(args: &Create) -> Result<(u64, u64)> {
    match args.engine {
        Engine::Hash => {
            let store = args.write.create_hash(&args.store, args.limit.unwrap_or(0))?;
            Ok((store.len()?, store.limit()))
        }
        Engine::BTree => Ok((args.write.create_btree(&args.store)?.len()?, 0)),
    }
}

/// An error if what is there is not to be taken as it is.
fn check_old(args: &Create) -> Result<()> {
    let path = &args.store;
    let meta = std::fs::metadata(path);
    let what = if meta.as_ref().is_ok_and(|meta| meta.is_dir()) {
        "this is a directory: name a file in it".to_owned()
    } else if meta.is_ok_and(|meta| !meta.is_file()) {
        "there is something already that is no regular file: name another file".to_owned()
    } else if !args.if_missing {
        "there is a file already; --if-missing takes a store as it is".to_owned()
    } else {
        let engine = args.engine.name();
        match credenza::kind_of(path) {
            Ok(kind) if kind != engine => {
                format!("there is a {kind} store already, and no {engine} store: name another file")
            }
            _ => return Ok(()),
        }
    };
    Err(Error::invalid(what).at(path))
}

/// Runs the command.
pub fn run(args: &Create, quiet: bool) -> Result<Status> {
    let path = &args.store;
    if args.limit == Some(0) {
        return Err(Error::invalid(
            "--limit 0 leaves no room for any record: leave it out for none",
        ));
    }
    if args.limit.is_some() && args.engine == Engine::BTree {
        return Err(Error::invalid("a btree store has no limit: leave out --limit, or --engine"));
    }
    input::refuse_dash(path)?;
    // None is made through a link, which is there.
    let file = led_to(path);
    let is_new = match OpenOptions::new().write(true).create_new(true).open(&file) {
        Ok(_) => true,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            check_old(args)?;
            false
        }
        Err(e) => return Err(Error::io("create", e).at(path)),
    };
    // What was there and empty is made one.
    let is_made = is_new || std::fs::metadata(&file).is_ok_and(|meta| meta.len() == 0);
    let made = make(args).inspect_err(|_| {
        // Else it would be in the way when there is room for it.
        if is_new && std::fs::metadata(&file).is_ok_and(|meta| meta.len() == 0) {
            let _ = std::fs::remove_file(&file);
        }
    });
    let (records, limit) = made?;
    let kind = args.engine.name();
    if args.json {
        let done = serde_json::json!({
            "kind": kind,
            "created": is_made,
            "records": records,
            "limit_bytes": limit,
        });
        json::tell(&json::with_paths([("store", path)], done))?;
    } else if !quiet {
        let path = output::shown(path);
        output::tell(if is_made {
            format!("{path}: a new {kind} store\n")
        } else {
            format!("{path}: was there already\n")
        })?;
    }
    Ok(Status::Done)
}
