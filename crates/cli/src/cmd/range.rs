//! `credenza range`: the records of a btree store in the order of their keys.

use crate::any_table::Records;
use crate::args::{LeaseArgs, ReadArgs, TableArgs, exit_status, format_parser, number};
use crate::cmd::dump::{self, Sink};
use crate::cmd::scan::Shown;
use crate::cmd::table;
use crate::exit::Status;
use crate::input::is_dash;
use crate::keys;
use crate::output::Output;
use crate::private::as_private_as;
use crate::progress::{Bar, Unit};
use crate::table::TableOf;
use clap::Args;
use credenza::Result;
use credenza_formats::Format;
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::path::PathBuf;

/// Show or write the records of a btree store whose keys are in a range, in their order.
///
/// Keys are compared byte by byte, or as what they are in a table whose keys are numbers. FROM is in the
/// range, TO is not. Records are shown as 'scan' does,
/// or, with --to, written as 'dump' does. They are those of one moment, whatever is written
/// meanwhile.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza range events 2026-01 2026-02                January\n  \
       credenza range events --prefix 2026-01-31            one day\n  \
       credenza range events --reverse --limit 10           the newest ten\n  \
       credenza range events 2026-01 --to tsv -o since.tsv\n  \
       credenza range events --prefix 2025- --keys -0 | credenza delete events -k - -0\n  \
       credenza range events 2026-01 --lease 60             in a minute, or not at all\n  \
       credenza range counters --hex 00ff 0100 --json\n",
    exit_status!()
))]
pub struct Range {
    /// The btree store to read
    store: PathBuf,

    /// The first key [default: the first that there is]
    #[arg(allow_negative_numbers = true)]
    from: Option<OsString>,

    /// The key before which to end [default: behind the last that there is]
    #[arg(value_name = "TO", allow_negative_numbers = true)]
    until: Option<OsString>,

    /// Keys that begin so
    #[arg(short, long, value_name = "PREFIX", conflicts_with = "from")]
    prefix: Option<OsString>,

    /// From the last key to the first
    #[arg(short, long)]
    reverse: bool,

    /// Stop after this many records
    #[arg(short = 'n', long, value_name = "N", value_parser = number)]
    limit: Option<u64>,

    /// FROM, TO and PREFIX are written as hexadecimal digits
    #[arg(long)]
    hex: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    lease: LeaseArgs,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    read: ReadArgs,

    /// Write the records in this text format
    #[arg(
        long,
        value_parser = format_parser(),
        value_name = "FORMAT",
        conflicts_with_all = ["keys", "null", "full", "json"]
    )]
    to: Option<Format>,

    /// File to write, which appears whole or not at all; not a store that is there [default: standard output]
    #[arg(short, long, default_value = "-", hide_default_value = true, value_name = "FILE")]
    output: PathBuf,

    /// With --to: do not compare what is read with its checksum, as with 'dump'
    #[arg(long, requires = "to", conflicts_with_all = ["keys", "null", "full", "json"])]
    unchecked: bool,
}

/// Runs the command.
pub fn run(args: &Range, quiet: bool) -> Result<Status> {
    let read = if args.to.is_some() && !args.unchecked { args.read.checked() } else { args.read };
    let table = TableOf::of(table::open(read, &args.store)?, &args.table)?;
    let table = TableOf { lease: args.lease.lease(), ..table };
    if args.hex {
        table.check_hex()?;
    }
    as_private_as(&args.store, &args.output);
    let mut out = Output::create(&args.output, Some(&args.store))?;
    let bar = Bar::new(quiet || out.is_terminal());
    match args.to {
        Some(format) => {
            let is_single = !table.has_several_values();
            dump::write_text(format, is_single, out, |write| each(args, &table, &bar, write))?;
        }
        None => {
            // What is too long for a screen is not for a file.
            let shown = if is_dash(&args.output) { args.shown } else { args.shown.in_full() };
            let mut show = |key: &[u8], value: &[u8]| shown.put(&mut out, key, value);
            each(args, &table, &bar, &mut show)?;
            out.finish()?;
        }
    }
    Ok(Status::Done)
}

/// Gives the records that are asked for to `take`.
fn each(args: &Range, table: &TableOf, bar: &Bar, take: Sink<'_>) -> Result<()> {
    let key = |argument: &Option<OsString>| {
        argument.as_deref().map(|key: &OsStr| keys::of_argument(key, args.hex)).transpose()
    };
    let (from, until, prefix) = (key(&args.from)?, key(&args.until)?, key(&args.prefix)?);
    let limit = args.limit.unwrap_or(u64::MAX);
    let start = from.as_deref().map_or(Bound::Unbounded, Bound::Included);
    let end = until.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let is_all = from.is_none() && until.is_none() && prefix.is_none();
    let mut count = 0;
    let one = |key: &[u8], value: &[u8]| {
        take(key, value)?;
        count += 1;
        bar.count(count);
        Ok(count < limit)
    };
    table.read(|table| {
        // How many are in a part of it only reading shows.
        bar.begin("reading", Unit::Records, is_all.then(|| table.len().min(limit)));
        match &prefix {
            _ if limit == 0 => Ok(()),
            Some(prefix) if args.reverse => backwards(table.prefix(prefix), one),
            Some(prefix) => table.scan_prefix(prefix, one),
            None if args.reverse => backwards(table.range(start, end)?, one),
            None => table.scan_range((start, end), one),
        }
    })
}

/// Gives records to `take`, from the last to the first, until it says `false`.
fn backwards(
    records: Records<'_>,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<()> {
    for record in records.rev() {
        let (key, value) = record?;
        if !take(&key, &value)? {
            break;
        }
    }
    Ok(())
}
