//! `credenza delete`: keys out of a store that changes.

use crate::args::{TableArgs, WriteArgs, exit_status};
use crate::changing::Changing;
use crate::cmd::dump::Sink;
use crate::exit::{self, Status};
use crate::input;
use crate::json;
use crate::keys::{self, Layout};
use crate::output::shown_key;
use crate::progress::{Bar, Unit};
use crate::spool::Spool;
use clap::{ArgGroup, Args};
use credenza::{Error, Result};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::slice;

/// Take keys out of a hash or btree store.
///
/// Keys that are not there are named on standard error when all is done (not with --quiet). Of a btree store
/// they are taken out in one transaction, all of them or, after an error, none; keys from a terminal or a pipe are
/// read before it begins, so that nobody waits for them.
#[derive(Debug, Args)]
// By itself it would have the store last.
#[command(override_usage = "credenza delete [OPTIONS] <FILE> <KEY...|--keys-from <FILE>>")]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza delete users bob alice\n  \
       credenza delete users --keys-from gone.txt\n  \
       credenza range users --prefix guest- --keys -0 | credenza delete users -k - -0\n  \
       credenza delete users --table members staff --value bob    one of its values\n  \
       credenza delete users --hex 00ff10\n",
    exit_status!("  100  none of the keys was there\n")
))]
#[command(group(ArgGroup::new("what").args(["keys", "keys_from"]).required(true)))]
pub struct Delete {
    /// The store to change
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// The keys to take out
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    keys: Vec<OsString>,

    /// Take out every key in this file, one a line; - is standard input. A carriage return that ends a
    /// line, and a byte order mark, do not count: for keys with these say --null or --hex. What 'scan --keys' and
    /// 'range --keys' show is to be looked at: with -0 they write what this reads with -0
    #[arg(short, long, value_name = "FILE")]
    keys_from: Option<PathBuf>,

    /// Take out only this one of the key's values; a key without it counts as one that is not there. As it is, also
    /// with --hex
    #[arg(long, conflicts_with = "keys_from", allow_negative_numbers = true)]
    value: Option<OsString>,

    /// Keys are written as hexadecimal digits
    #[arg(long)]
    hex: bool,

    /// Keys in the file end with a NUL byte, not a newline
    #[arg(short = '0', long, requires = "keys_from")]
    null: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    write: WriteArgs,
}

/// Runs the command.
pub fn run(args: &Delete, quiet: bool) -> Result<Status> {
    // The parser asks for no file of keys where there are others.
    if args.null && args.keys_from.is_none() {
        let what = "--null, or -0, is about the keys in the file of --keys-from; for the key -0 write '-- -0' at the end";
        return Err(Error::invalid(what));
    }
    let keys = args.keys.iter().map(|key| keys::of_argument(key, args.hex));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let store = args.write.open(&args.store, &args.table, false)?;
    store.check_hex(args.hex)?;
    if let Some(value) = &args.value {
        return delete_value(args, &store, &keys, value.as_bytes(), quiet);
    }
    let mut done = Done { deleted: 0, missing: 0 };
    let bar = Bar::new(quiet);
    let total = args.keys_from.as_ref().and_then(|path| input::total_bytes(slice::from_ref(path)));
    bar.begin("deleting", Unit::Bytes, total);
    let read = |take: Sink<'_>| {
        let digits = if args.hex { 2 } else { 1 };
        let mut read = 0;
        let mut take = |keys: &[Vec<u8>]| {
            keys.iter().try_for_each(|key| {
                // As it stands in the file, with what ends it.
                read += digits * key.len() as u64 + 1;
                bar.at(read);
                take(key, b"")
            })
        };
        match &args.keys_from {
            Some(path) => {
                let layout = Layout::of_keys(args.null);
                let check = |key: &[u8]| store.key_of(key).map(drop);
                keys::each_batch(path, layout, args.hex, check, take)
            }
            None => take(&keys),
        }
    };
    let may_wait =
        args.keys_from.as_ref().is_some_and(|path| input::may_wait(slice::from_ref(path)));
    // Named when nobody waits for this store any more: whoever reads what is said may take his time.
    let (mut missing, mut is_kept) = (Spool::beside(&args.store), !quiet);
    store.delete(may_wait, &bar, read, |key, was_there| {
        if was_there {
            done.deleted += 1;
            return Ok(());
        }
        done.missing += 1;
        // No reason to delete less.
        is_kept = is_kept && missing.add(key, b"").is_ok();
        Ok(())
    })?;
    drop(bar);
    let named = missing.drain("applying", &Bar::new(true), |_, key, _| {
        exit::note(format_args!("not found: {}", shown_key(key)));
        Ok(())
    });
    if !quiet && (!is_kept || named.is_err()) {
        exit::note("not all keys that were not found could be kept to be named");
    }
    report(args, &done)
}

/// Takes one value of a key out.
fn delete_value(
    args: &Delete,
    store: &Changing,
    keys: &[Vec<u8>],
    value: &[u8],
    quiet: bool,
) -> Result<Status> {
    let [key] = keys else {
        return Err(Error::invalid("--value is one of a key: name one key with it"));
    };
    let was_there = store.delete_value(key, value)?;
    if !was_there && !quiet {
        exit::note(format_args!("not found: {} with this value", shown_key(key)));
    }
    report(args, &Done { deleted: u64::from(was_there), missing: u64::from(!was_there) })
}

struct Done {
    deleted: u64,
    missing: u64,
}

fn report(args: &Delete, done: &Done) -> Result<Status> {
    if args.json {
        let done = serde_json::json!({ "deleted": done.deleted, "missing": done.missing });
        json::tell(&json::with_paths([("store", &args.store)], done))?;
    }
    Ok(if done.deleted == 0 && done.missing > 0 { Status::NotFound } else { Status::Done })
}
