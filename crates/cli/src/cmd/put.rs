//! `credenza put`: values into a store that changes.

use crate::args::{TableArgs, WriteArgs, exit_status, format_parser};
use crate::changing::Changing;
use crate::cmd::dump::Sink;
use crate::databases;
use crate::exit::{self, Status};
use crate::input::Refusal;
use crate::progress::Bar;
use crate::{input, json, keys, output};
use clap::Args;
use credenza::{Error, Result};
use credenza_bench::shell::quoted_path;
use credenza_formats::{Database, Format};
use indicatif::HumanCount;
use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::slice;

/// Give a key of a hash or btree store a value, or many keys theirs.
///
/// Without VALUE, all of standard input is the value, every byte of it. With --from, standard input
/// has many records in a text format. Into a btree store they are written in one transaction, all of
/// them or none; what comes from a terminal or a pipe is read before it begins, so that nobody waits for
/// it. Into a hash store they go in batches, each of which is there whole or not at all: after an error the
/// batches before it stay. A value that a key had is replaced, but in a table whose keys have several, which gets another.
///
/// With --append, values get numbers in place of keys, and the number that was given is printed.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza put users bob 1001\n  \
       credenza put pages index.html < index.html             the value from standard input\n  \
       credenza put users --from tsv < users.tsv              many\n  \
       credenza put locks job \"$$\" --if-absent || echo taken\n  \
       credenza put users --durability sync alice 1002        safe against a power cut at once\n  \
       credenza put users --table groups staff 50             a table of a btree store\n  \
       credenza put users --table log --append 'bob came'     prints its number\n  \
       credenza put users --table log --append --from lines < log.txt\n  \
       credenza put users -- -key value                       a key that begins with a dash\n",
    exit_status!("  100  with --if-absent: a key had a value, which stayed\n")
))]
pub struct Put {
    /// The store to change
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// The key
    // Beside --from an error that says more than the parser's.
    #[arg(required_unless_present_any = ["from", "append"], allow_negative_numbers = true)]
    key: Option<OsString>,

    /// Its value [default: standard input]
    #[arg(conflicts_with = "append", allow_negative_numbers = true)]
    value: Option<OsString>,

    /// Read many records from standard input, in this text format
    #[arg(long, value_parser = format_parser(), value_name = "FORMAT")]
    from: Option<Format>,

    /// Put the value, which stands in the place of KEY, under the next number of a table that was made
    /// with 'table create --numbered', and print the number; with --from lines, every line is a value
    #[arg(long, conflicts_with_all = ["if_absent", "hex"])]
    append: bool,

    /// Leave keys that have a value as they are
    #[arg(long)]
    if_absent: bool,

    /// KEY is written as hexadecimal digits
    #[arg(long, conflicts_with = "from")]
    hex: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// Count and time what is done with the store, in the file FILE-stats beside it, for 'credenza
    /// stat --live'
    #[arg(long)]
    statistics: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    write: WriteArgs,
}

/// Runs the command.
pub fn run(args: &Put, quiet: bool) -> Result<Status> {
    if let (Some(key), Some(format)) = (&args.key, args.from) {
        return Err(no_key(args, Path::new(key), format));
    }
    let store = args.write.open(&args.store, &args.table, args.statistics)?;
    store.check_hex(args.hex)?;
    if args.append {
        report_numbers(args, append(args, &store, quiet)?, quiet)?;
        return Ok(Status::Done);
    }
    let done = match (&args.key, args.from) {
        (Some(key), _) => {
            let key = keys::of_argument(key, args.hex)?;
            let value = match &args.value {
                Some(value) => value.as_bytes().to_vec(),
                None => value_from_input(quiet)?,
            };
            Done::of(store.put(&key, &value, args.if_absent)?)
        }
        (None, Some(format)) => put_many(args, &store, format, quiet)?,
        (None, None) => return Err(Error::invalid("name a KEY, or a format with --from")),
    };
    report(args, &done, quiet)?;
    Ok(if done.kept == 0 { Status::Done } else { Status::NotFound })
}

/// The error where --from has a KEY, or a value to append, beside it, as which a file may stand that shall be read.
#[cold]
fn no_key(args: &Put, key: &Path, format: Format) -> Error {
    let what = "with --from many records come from standard input";
    if !key.is_file() {
        let key = output::shown_key(key.as_os_str().as_bytes());
        return Error::invalid(format!("{what}: leave out '{key}', or --from"));
    }
    let (store, file) = (quoted_path(&args.store), quoted_path(key));
    // Where that does the same.
    let load = match args.append || args.if_absent || args.table.name().is_some() {
        true => String::new(),
        false => format!(", or `credenza load {store} {file} --from {format}`"),
    };
    Error::invalid(format!("{what}: `< {file}`{load}"))
}

/// What was done.
struct Done {
    written: u64,
    /// Keys that had a value which --if-absent left.
    kept: u64,
}

impl Done {
    fn of(is_written: bool) -> Done {
        Done { written: u64::from(is_written), kept: u64::from(!is_written) }
    }
}

fn put_many(args: &Put, store: &Changing, format: Format, quiet: bool) -> Result<Done> {
    let bar = Bar::new(quiet);
    let from = PathBuf::from("-");
    let inputs = slice::from_ref(&from);
    input::hint_if_typed(inputs, quiet);
    let mut done = Done { written: 0, kept: 0 };
    let tell = |_, of: &[Database]| {
        if let Some(table) = store.table() {
            of.iter().for_each(|database| databases::note_lost(database, table, quiet));
        }
    };
    if args.if_absent {
        let read = |take: Sink<'_>| {
            let take = |key: &[u8], value: &[u8]| {
                // Looked at here, where its place is known.
                store.key_of(key).map_err(Refusal::Record)?;
                store.check(key, value)?;
                Ok::<_, Refusal>(take(key, value)?)
            };
            input::each_with_database(inputs, Some(format), &bar, tell, take).map(drop)
        };
        store.put_absent(input::may_wait(inputs), &bar, read, |is_written| {
            let one = Done::of(is_written);
            done.written += one.written;
            done.kept += one.kept;
        })?;
    } else {
        let mut additions = store.additions(input::may_wait(inputs))?;
        let add = |key: &[u8], value: &[u8]| {
            let key = store.key_of(key).map_err(Refusal::Record)?;
            Ok::<_, Refusal>(additions.add(&key, value)?)
        };
        let read = input::each_with_database(inputs, Some(format), &bar, tell, add)?;
        done.written = read - additions.finish(&bar)?;
    }
    Ok(done)
}

/// Puts values under the next numbers, and says which is the first of these and which the last: there
/// are none between for others, as nobody else writes meanwhile.
fn append(args: &Put, store: &Changing, quiet: bool) -> Result<Option<(u64, u64)>> {
    let value = match (&args.key, args.from) {
        (_, Some(Format::Lines)) => None,
        (_, Some(_)) => {
            let what = "with --append every line of the input is a value: write --from lines";
            return Err(Error::invalid(what));
        }
        (Some(value), None) => Some(value.as_bytes().to_vec()),
        (None, None) => Some(value_from_input(quiet)?),
    };
    let mut numbers = None;
    let note = |number| {
        let first = numbers.map_or(number, |(first, _)| first);
        numbers = Some((first, number));
    };
    let from = [PathBuf::from("-")];
    let may_wait = value.is_none() && input::may_wait(&from);
    let bar = Bar::new(quiet);
    let read = |take: Sink<'_>| match value {
        Some(value) => take(&value, b""),
        None => {
            input::hint_if_typed(&from, quiet);
            input::each_value(&bar, |value| take(value, b"")).map(drop)
        }
    };
    store.append(may_wait, &bar, read, note)?;
    Ok(numbers)
}

fn report_numbers(args: &Put, numbers: Option<(u64, u64)>, quiet: bool) -> Result<()> {
    let written = numbers.map_or(0, |(first, last)| last - first + 1);
    if args.json {
        let done = serde_json::json!({
            "written": written,
            "kept": 0,
            "first_number": numbers.map(|(first, _)| first),
            "last_number": numbers.map(|(_, last)| last),
        });
        return json::tell(&json::with_paths([("store", &args.store)], done));
    }
    let path = output::shown(&args.store);
    let text = match numbers {
        Some((number, _)) if args.from.is_none() => format!("{number}\n"),
        _ if quiet => return Ok(()),
        None => format!("{path}: 0 records written\n"),
        Some((first, last)) if first == last => {
            format!("{path}: 1 record written, its number is {first}\n")
        }
        Some((first, last)) => {
            let written = HumanCount(written);
            format!("{path}: {written} records written, their numbers are {first} to {last}\n")
        }
    };
    output::tell(text)
}

fn value_from_input(quiet: bool) -> Result<Vec<u8>> {
    input::check_given()?;
    let stdin = std::io::stdin().lock();
    if !quiet && stdin.is_terminal() {
        exit::note("reading the value from this terminal; Ctrl-D ends it");
    }
    let mut value = Vec::new();
    // Longer is none: what has no end, such as a device, would fill the memory.
    let read = stdin.take(1 << 32).read_to_end(&mut value);
    read.map_err(|e| Error::io("read", e).at("standard input"))?;
    Ok(value)
}

fn report(args: &Put, done: &Done, quiet: bool) -> Result<()> {
    let Done { written, kept } = *done;
    if args.json {
        let done = serde_json::json!({ "written": written, "kept": kept });
        return json::tell(&json::with_paths([("store", &args.store)], done));
    }
    // One key is put in silence, as `cp` copies.
    if quiet || args.key.is_some() {
        return Ok(());
    }
    let more = match kept {
        0 => String::new(),
        n => format!(" ({} more had a value, which stayed)", HumanCount(n)),
    };
    let (path, written) = (output::shown(&args.store), output::counted(written, "record"));
    output::tell(format!("{path}: {written} written{more}\n"))
}
