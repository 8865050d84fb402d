//! `credenza get`: the value of a key, or of many keys.

use crate::args::{LeaseArgs, ReadArgs, TableArgs, exit_status, format_parser, from_one};
use crate::exit::{self, Status};
use crate::json;
use crate::keys::{self, Layout};
use crate::output::{Output, shown_key};
use crate::progress::{Bar, Unit};
use crate::readable::Readable;
use crate::table::Moment;
use clap::{ArgGroup, Args};
use credenza::{Bytes, Error, Get as _, Result};
use credenza_formats::{Format, Writer};
use std::ffi::OsString;
use std::path::PathBuf;

/// Look up one key, or many from a file.
///
/// The value of one KEY is written as it is, with nothing added but a line end at a terminal. For many keys (--keys-from) the
/// records found are written as text, in the order of the keys; keys that are missing are named
/// on standard error (not with --quiet) and the exit status is 100. Of a btree store all of them are what it has at one
/// moment, that when the command begins; of a hash store each is what the key has when it is looked up.
#[derive(Debug, Args)]
// By itself it would have the store last.
#[command(override_usage = "credenza get [OPTIONS] <STORE> <KEY|--keys-from <FILE>>")]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza get words.store apple\n  \
       credenza get words.store apple --all              every value of the key, one a line\n  \
       credenza get words.store --hex 00ff10 | xxd       keys that cannot be typed\n  \
       cut -f1 wanted.tsv | credenza get words.store --keys-from - --json\n  \
       credenza get words.store --keys-from other.jsonl --from jsonl --to tsv\n  \
       credenza get words.store -- -key                  a key that begins with a dash\n",
    exit_status!("  100  a key, or its Nth value, is not in the store\n")
))]
#[command(group(ArgGroup::new("what").args(["key", "keys_from"]).required(true)))]
#[command(group(ArgGroup::new("many").args(["all", "values", "keys_from"]).multiple(true)))]
pub struct Get {
    /// The store to read
    store: PathBuf,

    /// The key to look up
    #[arg(allow_negative_numbers = true)]
    key: Option<OsString>,

    /// Every value of a key, in the order in which they were added
    #[arg(long, conflicts_with = "nth")]
    all: bool,

    /// The Nth value of a key; 1 is the first
    #[arg(long, value_name = "N", value_parser = from_one)]
    nth: Option<u64>,

    /// Look up every key in this file, one a line; - is standard input. A carriage return that ends a
    /// line, and a byte order mark, do not count: for keys with these say --null or --hex
    #[arg(short, long, value_name = "FILE")]
    keys_from: Option<PathBuf>,

    /// Read the file of keys as records of a text format (one of those of --to), and look up
    /// their keys
    #[arg(
        long,
        value_parser = format_parser(),
        hide_possible_values = true,
        value_name = "FORMAT",
        conflicts_with = "key"
    )]
    from: Option<Format>,

    /// Keys are written as hexadecimal digits
    #[arg(long, conflicts_with = "from")]
    hex: bool,

    /// Keys in the file, and values of --values and --all, end with a NUL byte, not a newline
    #[arg(short = '0', long, requires = "many")]
    null: bool,

    #[command(flatten)]
    form: Form,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    lease: LeaseArgs,

    #[command(flatten)]
    read: ReadArgs,
}

/// How answers are written.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct Form {
    /// One JSON object a line for each value; a missing key has the value null
    #[arg(long)]
    json: bool,

    /// Records in this text format [default for many keys: cdb]
    #[arg(long, value_parser = format_parser(), value_name = "FORMAT")]
    to: Option<Format>,

    /// Values only, one a line
    #[arg(long)]
    values: bool,
}

/// Runs the command.
pub fn run(args: &Get, quiet: bool) -> Result<Status> {
    let store = args.read.open_table(&args.store, &args.table)?;
    let store = args.lease.limit(store).map_err(|e| e.at(&args.store))?;
    if let (Readable::Table(table), true) = (&store, args.hex) {
        table.check_hex()?;
    }
    let mut out = Output::stdout()?;
    let missing = answer_all(args, &store, &mut out, quiet)?;
    out.finish()?;
    Ok(if missing == 0 { Status::Done } else { Status::NotFound })
}

/// Looks up what was asked for; returns how many keys are missing.
fn answer_all(args: &Get, store: &Readable, out: &mut Output, quiet: bool) -> Result<u64> {
    let bar = Bar::new(quiet || out.is_terminal());
    let want = match args.nth {
        Some(n) => Want::Nth(n),
        None if args.all => Want::All,
        None => Want::First,
    };
    let answers = Answers::new(args, out);
    let mut lookup = Lookup { want, answers, missing: 0, quiet, bar: &bar };
    match (&args.key, &args.keys_from) {
        (Some(key), _) => lookup.one_by_one(store, &[keys::of_argument(key, args.hex)?])?,
        (None, Some(path)) => {
            let table = store.btree();
            let mut looked = match &table {
                Some(table) => Looked::Moment(Box::new(table.moment()?)),
                None => Looked::Store(store),
            };
            bar.begin("looking up", Unit::Records, None);
            let layout = match args.from {
                Some(format) => Layout::Records(format),
                None => Layout::of_keys(args.null),
            };
            let mut done = 0;
            let check = |key: &[u8]| match store {
                Readable::Table(table) => table.key_of(key).map(drop),
                Readable::Store(_) => Ok(()),
            };
            keys::each_batch(path, layout, args.hex, check, |keys| {
                lookup.batch(&mut looked, keys)?;
                done += keys.len() as u64;
                bar.at(done);
                Ok(())
            })?;
        }
        (None, None) => return Err(Error::invalid("name a KEY, or a file with --keys-from")),
    }
    lookup.answers.finish()?;
    Ok(lookup.missing)
}

impl Get {
    fn line_end(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }
}

/// Which values of a key are wanted.
#[derive(Clone, Copy)]
enum Want {
    First,
    Nth(u64),
    All,
}

/// What many keys are looked up in.
enum Looked<'a> {
    /// As it is when each of them is.
    Store(&'a Readable),
    Moment(Box<Moment<'a>>),
}

struct Lookup<'a> {
    want: Want,
    answers: Answers<'a>,
    missing: u64,
    quiet: bool,
    bar: &'a Bar,
}

impl Lookup<'_> {
    /// Looks `keys` up and writes the answers in their order.
    fn batch(&mut self, looked: &mut Looked<'_>, keys: &[Vec<u8>]) -> Result<()> {
        match looked {
            Looked::Moment(moment) => {
                // What is read under a lease is copied: no more than for one key at a time.
                let at_once = if moment.has_lease() { 1 } else { keys.len().max(1) };
                keys.chunks(at_once).try_for_each(|keys| {
                    moment.read(|table| {
                        keys.iter().try_for_each(|key| match self.want {
                            Want::First => self.answer(key, table.get(key)?.as_deref()),
                            _ => self.answer_of_all(key, &table.get_all(key)?),
                        })
                    })
                })
            }
            // What never changes may be held while somebody is slow to read the answers.
            Looked::Store(store) if matches!(self.want, Want::First) && !store.is_changing() => {
                let mut written = Ok(());
                store.get_many(keys, |i, value| {
                    if let (Ok(()), Some(key)) = (&written, keys.get(i)) {
                        written = self.answer(key, value);
                    }
                })?;
                written
            }
            Looked::Store(store) => self.one_by_one(store, keys),
        }
    }

    /// The same with copies of what changes: what is held while somebody is slow to read the answers keeps the store's
    /// writers from reusing its space.
    fn one_by_one(&mut self, store: &Readable, keys: &[Vec<u8>]) -> Result<()> {
        keys.iter().try_for_each(|key| match self.want {
            Want::First => self.answer(key, store.get(key)?.as_deref()),
            _ => self.answer_of_all(key, &store.get_all(key)?),
        })
    }

    /// Writes what is wanted of all values of a key.
    fn answer_of_all(&mut self, key: &[u8], values: &[Bytes<'_>]) -> Result<()> {
        if let Want::Nth(n) = self.want {
            let index = usize::try_from(n - 1).unwrap_or(usize::MAX);
            return self.answer(key, values.get(index).map(|value| &**value));
        }
        if values.is_empty() {
            return self.answer(key, None);
        }
        values.iter().try_for_each(|value| self.answer(key, Some(value)))
    }

    fn answer(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if value.is_none() {
            self.missing += 1;
            if !self.quiet {
                let key = shown_key(key);
                self.bar.aside(|| match self.want {
                    Want::Nth(n) if n > 1 => {
                        exit::note(format_args!("not found: value {n} of {key}"))
                    }
                    _ => exit::note(format_args!("not found: {key}")),
                });
            }
        }
        self.answers.write(key, value)
    }
}

/// What answers are written as.
enum Answers<'a> {
    /// The bytes of the value and nothing else; at a terminal, on a line of its own.
    Raw(&'a mut Output),
    /// Values that each end with this byte.
    Values(&'a mut Output, u8),
    Json(&'a mut Output),
    /// Text, and how its destination is called in messages.
    Records(Writer<'a>, PathBuf),
}

impl<'a> Answers<'a> {
    fn new(args: &Get, out: &'a mut Output) -> Answers<'a> {
        let form = &args.form;
        let name = out.name().to_owned();
        match form.to {
            _ if form.json => Answers::Json(out),
            Some(format) => Answers::Records(credenza_formats::writer(format, out), name),
            None if form.values || (args.all && args.key.is_some()) => {
                Answers::Values(out, args.line_end())
            }
            None if args.key.is_some() => Answers::Raw(out),
            None => Answers::Records(credenza_formats::writer(Format::CdbText, out), name),
        }
    }

    fn write(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        match (self, value) {
            (Answers::Json(out), value) => json::put_record(out, key, value),
            (_, None) => Ok(()),
            (Answers::Raw(out), Some(value)) => {
                out.put(value)?;
                let is_line_wanted = out.is_terminal() && !value.ends_with(b"\n");
                if is_line_wanted { out.put(b"\n") } else { Ok(()) }
            }
            (Answers::Values(out, end), Some(value)) => {
                out.put(value)?;
                out.put(&[*end])
            }
            (Answers::Records(writer, name), Some(value)) => {
                writer.write(key, value).map_err(|e| e.at(name))
            }
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Answers::Records(writer, name) => writer.finish().map_err(|e| e.at(name)),
            _ => Ok(()),
        }
    }
}
