//! `credenza convert`: any store or text to any other.

use crate::args::{
    BuildArgs, CDB_TEXT, ReadArgs, TableArgs, WaitArgs, exit_status, format_parser, format_value,
};
use crate::cmd::dump::{self, Sink};
use crate::cmd::load;
use crate::databases;
use crate::exit::Status;
use crate::input;
use crate::interrupt::leave_nothing_of;
use crate::output::Output;
use crate::private::as_private_as;
use crate::progress::Bar;
use crate::readable::Readable;
use crate::replaced::{Replaced, check_is_store, check_is_unchanging, is_same};
use crate::tables;
use crate::target::{self, Kind, Target};
use crate::way;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use credenza::btree::BTree;
use credenza::{Error, ErrorKind, Result, Store};
use credenza_formats::{Compression, Format};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

/// Turn any store or text into any other.
///
/// SRC is a store of any kind, recognised by its content, or text (say --from if it could be
/// either). Records keep the order in which the source gives them, and no value is changed; DST
/// appears, or is replaced, only when all of SRC has been read. It can be SRC where that is text, or a
/// constant, cdb, cdb64 or mcdb store that becomes another store. A hash or btree store that is there may be all there
/// is of its data: it is replaced only with --replace, by a store, and not while somebody has it open to write; nor is
/// by a store another file that is none. A hash or btree store has one
/// value a key: a source in which a key comes twice is refused ('load --duplicates' chooses). Group and others
/// may do no more with a new DST than with SRC. Of a constant, hash or btree store that is damaged nothing is
/// made: it is compared with its checksums. The limit of a cache is not kept; 'backup' and 'recover' keep it.
///
/// DST has what a hash or btree store has at one moment; who writes to a hash store waits until it is read, but not for
/// a pipe, nor with --read-only: as with 'dump'.
///
/// From a dump of Berkeley DB or LMDB to a btree store each database that has a name becomes a table,
/// and one whose keys are integers, records numbered, or values several stays so. One without a name
/// becomes the main table, where keys are bytes and have one value: a line database=NAME in its header
/// makes a table of it. To anything else a dump with several databases is refused.
///
/// Of a btree store the main table is read, or that of --table. From btree to btree, without --table,
/// all its tables are, as they are at one moment: the new store is as small as can be. With --table the new store has
/// that table, under its name and with its kind.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza convert old.cdb new.store --to constant\n  \
       credenza convert new.store back.cdb --to cdb          for the cdb tools again\n  \
       credenza convert words.tsv words --to btree --replace  for a btree store of that name\n  \
       credenza convert words.tsv words.jsonl --to jsonl\n  \
       credenza convert words.store - --to cdb-text | less\n  \
       credenza convert users users.copy --to btree          a copy of a btree store in use\n",
    exit_status!()
))]
pub struct Convert {
    /// Store or text to read; - is text on standard input
    #[arg(value_name = "SRC")]
    source: PathBuf,

    /// Store or text to write; - is standard output, for text
    #[arg(value_name = "DST")]
    target: PathBuf,

    /// Kind of store, or text format, to write
    #[arg(long, value_parser = form_parser(), value_name = "FORM")]
    to: Form,

    /// Read SRC as text of this format, one of those of --to [default: recognised]
    #[arg(
        long,
        value_parser = format_parser(),
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    from: Option<Format>,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    build: BuildArgs,

    #[command(flatten)]
    read: ReadArgs,

    #[command(flatten)]
    wait: WaitArgs,

    /// Replace DST also where that is a hash or btree store, with all that is in it (when DST becomes a store)
    #[arg(long)]
    replace: bool,

    /// Print the result as JSON, in which 'source' and 'target' are SRC and DST (when DST is a store)
    #[arg(long)]
    json: bool,
}

/// What is written.
#[derive(Clone, Copy, Debug)]
enum Form {
    Store(Kind),
    Text(Format),
}

fn form_parser() -> impl TypedValueParser<Value = Form> {
    let kinds = Kind::value_variants().iter().filter_map(Kind::to_possible_value);
    let formats = Format::ALL.iter().map(|format| match format {
        Format::CdbText => format_value(*format, CDB_TEXT.into()),
        _ => format_value(*format, format.to_string()),
    });
    PossibleValuesParser::new(kinds.chain(formats)).try_map(|name| {
        if name == CDB_TEXT {
            return Ok(Form::Text(Format::CdbText));
        }
        match Kind::from_str(&name, false) {
            Ok(kind) => Ok(Form::Store(kind)),
            Err(_) => name.parse().map(Form::Text),
        }
    })
}

/// Where the records come from.
enum Source {
    Store(Box<Readable>),
    Text(PathBuf, Option<Format>),
}

impl Source {
    fn open(args: &Convert, quiet: bool) -> Result<Source> {
        let text = || Source::Text(args.source.clone(), args.from);
        // A FIFO or device is never a store, and opening it to look would disturb its writer.
        let special = |meta: std::fs::Metadata| !meta.is_file() && !meta.is_dir();
        let is_special = std::fs::metadata(&args.source).is_ok_and(special);
        if args.from.is_some() || is_special || input::is_dash(&args.source) {
            args.table.refuse("text")?;
            return Ok(text());
        }
        match args.read.waiting(args.wait).open_whole(&args.source, &args.table, quiet) {
            Ok(store) => Ok(Source::Store(Box::new(store))),
            Err(e) if matches!(e.kind(), ErrorKind::WrongFormat { .. }) => {
                // Neither store nor text: what the store said helps more.
                if !is_text(&args.source) {
                    return Err(e);
                }
                args.table.refuse("text")?;
                Ok(text())
            }
            Err(e) => Err(e),
        }
    }

    /// A btree store, and the table of it that is read where that is not all of it.
    fn btree(&self) -> Option<(&BTree, Option<&str>)> {
        match self {
            Source::Store(store) => match &**store {
                Readable::Store(Store::BTree(store)) => Some((store, None)),
                Readable::Table(table) => Some((&table.store, table.name.as_deref())),
                Readable::Store(_) => None,
            },
            Source::Text(..) => None,
        }
    }

    /// What a store made of this one at `target` takes the place of: text only if it is this one. Of what never
    /// changes all is in the new store, so that it can be that itself; what changes may be written meanwhile.
    fn replaced(&self, args: &Convert) -> Result<Replaced> {
        let (target, source) = (&args.target, &args.source);
        let replaced = match self {
            Source::Store(store) if store.is_changing() => Replaced::of_other(target, source)?,
            Source::Store(_) | Source::Text(..) => Replaced::at(target),
        };
        check_is_unchanging(target, args.replace)?;
        if !is_same(target, source) {
            check_is_store(target, "SRC is named first, and then DST")?;
        }
        Ok(replaced)
    }

    fn note_other_tables(&self, quiet: bool) -> Result<()> {
        match self {
            Source::Store(store) => store.note_other_tables(quiet),
            Source::Text(..) => Ok(()),
        }
    }

    /// Adds the records, of a store those that it has at one moment, to a new store; returns how many there were.
    fn each(&self, bar: &Bar, f: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<u64> {
        match self {
            Source::Store(store) => {
                let _writers_wait = store.keep_as_it_is()?;
                dump::each_record(&**store, bar, f)
            }
            Source::Text(path, format) => {
                input::each_record(slice::from_ref(path), *format, bar, f)
            }
        }
    }

    /// The same where they go to a text, and who takes that may be waited for.
    fn each_to_text(&self, may_wait: bool, source: &Path, bar: &Bar, f: Sink<'_>) -> Result<()> {
        match self {
            Source::Store(store) => dump::each_of_moment(store, source, may_wait, bar, f),
            Source::Text(..) => self.each(bar, f).map(drop),
        }
    }
}

/// Whether a file that is no store is text, or packed: who reads it says what is wrong with that.
fn is_text(path: &Path) -> bool {
    let mut start = Vec::new();
    let limit = Format::LOOKED_AT as u64;
    let read = File::open(path).and_then(|f| f.take(limit).read_to_end(&mut start));
    let is_packed = || Compression::of(&start).is_some();
    let is_plain = || !start.is_empty() && !start.contains(&0);
    read.is_ok() && (Format::guess(&start, Some(path)).is_some() || is_packed() || is_plain())
}

/// Runs the command.
pub fn run(args: &Convert, quiet: bool) -> Result<Status> {
    let source = Source::open(args, quiet)?;
    as_private_as(&args.source, &args.target);
    match args.to {
        Form::Store(kind) => {
            input::refuse_dash(&args.target)?;
            leave_nothing_of(&args.target);
            let bar = Arc::new(Bar::new(quiet));
            let replaced = source.replaced(args)?;
            let count = store(&source, kind, args, &bar, quiet)?;
            replaced.finish(kind);
            drop(bar);
            load::summary(&args.target, &args.source, (count, count), args.json, quiet)?;
        }
        Form::Text(format) => {
            target::no_build_args(&args.build)?;
            if args.replace {
                let what = "--replace is for a store in the place of another, and text takes that of none; leave it out";
                return Err(Error::invalid(what));
            }
            source.note_other_tables(quiet)?;
            let read = matches!(source, Source::Store(_)).then_some(&*args.source);
            let out = Output::create(&args.target, read)?;
            let bar = Bar::new(quiet || out.is_terminal());
            let is_single = matches!(&source, Source::Store(store) if store.has_single_values());
            let may_wait = out.may_wait();
            dump::write_text(format, is_single, out, |write| {
                source.each_to_text(may_wait, &args.source, &bar, write)
            })?;
        }
    }
    Ok(Status::Done)
}

/// Makes a store of this kind of the source; returns how many records it has.
fn store(source: &Source, kind: Kind, args: &Convert, bar: &Arc<Bar>, quiet: bool) -> Result<u64> {
    // Somebody may have made one while the source was read.
    let look_again = || check_is_unchanging(&args.target, args.replace);
    if let (Some((store, name)), Kind::BTree) = (source.btree(), kind) {
        let mut builder = target::btree_builder(&args.target, &args.build, bar)?;
        let count = tables::copy((store, &args.source), name, &mut builder, bar)?;
        look_again()?;
        builder.finish()?;
        return Ok(count);
    }
    if let (Source::Text(path, format), Kind::BTree) = (source, kind) {
        let builder = target::btree_builder(&args.target, &args.build, bar)?;
        let (builder, count) = databases::into_tables(path, *format, builder, bar, quiet)?;
        look_again()?;
        builder.finish()?;
        return Ok(count);
    }
    source.note_other_tables(quiet)?;
    let mut target = Target::create(kind, &args.target, &args.build, bar)?;
    let count = source.each(bar, |key, value| target.add(key, value))?;
    if target.replaced()? > 0 {
        return Err(several_values(kind, &args.source));
    }
    look_again()?;
    way::noting(&args.target, || target.finish(bar)).map_err(|e| e.at(&args.target))?;
    Ok(count)
}

/// The error where a key comes more than once in the source: seen when all of it is in order, and so without a
/// place in it.
pub fn several_values(kind: Kind, source: &Path) -> Error {
    let (kind, keep) = match kind {
        Kind::Hash => ("hash", ""),
        _ => (
            "btree",
            "; 'create --engine btree', 'table create --duplicates inserted' or 'sorted', and 'load --table' \
             keep all in a table of it",
        ),
    };
    Error::invalid(format!(
        "a key comes more than once, and a {kind} store has one value a key: 'credenza dump' and \
         'load --to {kind} --duplicates first' or 'last' choose one{keep}"
    ))
    .at(input::name_of(source))
}
