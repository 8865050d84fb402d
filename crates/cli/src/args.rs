//! The command line: what every command takes, and how words become values.

use crate::changing::Changing;
use crate::cmd::{
    advise, backup, bench, compact, completions, convert, create, delete, dump, freeze, get, load,
    man, preload, put, range, record, recover, replay, reproduce, scan, shell, stat, table, thaw,
    torture, verify, watch,
};
use crate::progress::{Bar, Unit};
use crate::readable::Readable;
use crate::table::TableOf;
use crate::waiting;
use crate::way;
use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use credenza::btree::{self, BTree};
use credenza::hash::{self, Hash};
use credenza::stats::Statistics;
use credenza::{Access, Durability, Error, ErrorKind, OpenOptions, Result, Store};
pub use credenza_bench::size;
use credenza_formats::Format;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The part of every help text that tells how the command ends.
macro_rules! exit_status {
    () => {
        exit_status!("")
    };
    ($more:literal) => {
        concat!(
            "\nExit status:\n    \
               0  done (also when the reader of the output closed the pipe)\n",
            $more,
            "  111  any error, wrong usage included; the message says if it is done all the same\n"
        )
    };
}
pub(crate) use exit_status;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Make, read, change, check and measure key-value stores: Credenza's own, cdb, cdb64 and mcdb.
///
/// A store is one file. Every command that reads one recognises its kind from its content, and
/// every command that makes one puts it in its place in one step: readers see the old store or the
/// new one, whatever happens. Hash and btree stores are changed in place, by any number of processes;
/// a hash store's index, in a second file whose name ends in -index, can always be made again.
#[derive(Debug, Parser)]
#[command(
    name = "credenza",
    version,
    styles = STYLES,
    max_term_width = 100,
    arg_required_else_help = true,
    after_long_help = concat!(
        "Examples:\n  \
           credenza load words.store < words.cdb-text   build a store from text\n  \
           credenza get words.store apple               one value, as it is\n  \
           credenza dump words.store --to jsonl | jq .  every record as JSON\n  \
           credenza convert old.cdb new.store --to constant\n  \
           credenza create users && credenza put users bob 1001    a store that changes\n\
         \n'credenza help COMMAND' tells all about a command.\n",
        exit_status!("  100  key not found\n")
    ),
)]
pub struct Cli {
    /// Only results and errors: no progress bar, no notes on standard error
    #[arg(short, long, global = true, display_order = 900)]
    pub quiet: bool,

    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// What the words of a command line ask for.
    pub fn of(words: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let (words, is_null) = self::words(words);
        credenza_bench::parsed(words).map_err(|mut error: clap::Error| {
            if is_null && error.kind() == clap::error::ErrorKind::MissingRequiredArgument {
                let tip = "-0 is taken for --null; for the key -0 write '-- -0' at the end";
                let tip = ContextValue::StyledStrs(vec![tip.into()]);
                error.insert(ContextKind::Suggested, tip);
            }
            error
        })
    }
}

/// The words of the command line, with the option -0 of 'get', 'delete' and 'range' as --null: beside keys that may
/// be negative numbers it would be taken for one. And whether it was there.
fn words(words: impl Iterator<Item = OsString>) -> (Vec<OsString>, bool) {
    let mut words: Vec<OsString> = words.collect();
    let command = words.iter().skip(1).find(|word| *word != "-q" && *word != "--quiet");
    let command = command.filter(|name| ["get", "delete", "range"].iter().any(|one| name == one));
    let Some(command) = command.and_then(|name| Cli::command().find_subcommand(name).cloned())
    else {
        return (words, false);
    };
    let (mut is_value, mut is_null) = (false, false);
    for word in words.iter_mut().take_while(|word| **word != "--") {
        if *word == "-0" && !is_value {
            *word = "--null".into();
            is_null = true;
        }
        is_value = !is_value && takes_next(&command, word);
    }
    (words, is_null)
}

/// Whether the word is an option, or several of one letter, that has its value in the next word.
fn takes_next(command: &clap::Command, word: &OsStr) -> bool {
    let Some(word) = word.to_str() else { return false };
    let takes = |is_it: &dyn Fn(&Arg) -> bool| {
        command.get_arguments().any(|arg| is_it(arg) && arg.get_action().takes_values())
    };
    if let Some(name) = word.strip_prefix("--") {
        return takes(&|arg| arg.get_long() == Some(name));
    }
    let letters = word.strip_prefix('-').unwrap_or_default();
    // What follows the first that takes a value is its value.
    letters
        .find(|letter| takes(&|arg| arg.get_short() == Some(letter)))
        .is_some_and(|at| letters[at..].chars().count() == 1)
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Load(load::Load),
    Get(get::Get),
    Scan(scan::Scan),
    Range(range::Range),
    Dump(dump::Dump),
    Stat(stat::Stat),
    Verify(verify::Verify),
    Convert(convert::Convert),
    Preload(preload::Preload),
    Create(create::Create),
    Put(put::Put),
    Delete(delete::Delete),
    Table(table::Table),
    Shell(shell::Shell),
    Watch(watch::Watch),
    Compact(compact::Compact),
    Backup(backup::Backup),
    Recover(recover::Recover),
    Freeze(freeze::Freeze),
    Thaw(thaw::Thaw),
    Bench(Box<bench::Bench>),
    Record(record::Record),
    Replay(Box<replay::Replay>),
    Reproduce(Box<reproduce::Reproduce>),
    Torture(Box<torture::Torture>),
    Advise(Box<advise::Advise>),
    Completions(completions::Completions),
    Man(man::Man),
}

/// How a store is read.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ReadArgs {
    /// How the file is read; a store that changes is always mapped
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    access: How,

    /// Write nothing: open a hash or btree store, which otherwise is opened as by those who write, so
    /// that nothing of it or beside it changes; a btree store, while nobody has it open to write
    #[arg(long)]
    read_only: bool,

    /// Whether what is read is compared with its checksum meanwhile, where that can be.
    #[arg(skip)]
    is_checked: bool,

    /// How long others who write are waited for.
    #[arg(skip)]
    wait: WaitArgs,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum How {
    /// Mapped into memory: no copies, the fastest
    #[default]
    Map,
    /// With read calls: safe even if another program truncates the file in place
    Read,
    /// Copied whole into memory first
    Memory,
}

impl ReadArgs {
    /// Opens the store at `path`, of whatever kind.
    pub fn open(self, path: &Path) -> Result<Store> {
        let access = match self.access {
            How::Map => Access::Map,
            How::Read => Access::Read,
            How::Memory => Access::Memory,
        };
        let options = OpenOptions::new().access(access).read_only(self.read_only);
        let options = self.wait.limit(options.check_reads(self.is_checked));
        way::noting(path, || options.open(path))
    }

    /// Opens the store at `path`, or the table of it that is asked for, to read all of it for something new, which is not
    /// to have what damage made of it: that is an error now, or while it is read.
    pub fn open_whole(self, path: &Path, table: &TableArgs, quiet: bool) -> Result<Readable> {
        let store = self.checked().open_table(path, table)?;
        let bar = Bar::new(quiet);
        bar.begin("checking", Unit::Bytes, None);
        match &store {
            Readable::Store(Store::Constant(store)) => store.verify(|done, _| bar.count(done))?,
            Readable::Store(Store::Hash(store)) => waiting::for_others(|| {
                store.verify_records(|done, _| {
                    waiting::is_over();
                    bar.count(done);
                })
            })?,
            // What has checksums of its pages is compared page by page, others have none.
            _ => {}
        }
        Ok(store)
    }

    /// The same with checksums, as far as they are compared while a store is read.
    pub fn checked(mut self) -> ReadArgs {
        self.is_checked = true;
        self
    }

    /// The same, waiting for others who write no longer than that.
    pub fn waiting(mut self, wait: WaitArgs) -> ReadArgs {
        self.wait = wait;
        self
    }

    /// Opens the store at `path`, or the table of it that is asked for.
    pub fn open_table(self, path: &Path, table: &TableArgs) -> Result<Readable> {
        let store = self.open(path)?;
        if table.name().is_none() {
            return Ok(Readable::Store(store));
        }
        match store {
            Store::BTree(store) => TableOf::of(store, table).map(Readable::Table),
            other => Err(no_tables(other.kind()).at(path)),
        }
    }
}

/// Which table of a btree store is meant.
#[derive(Clone, Debug, Args)]
pub struct TableArgs {
    /// The table of a btree store that is meant, which must be there [default: the main one, which
    /// has no name]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
}

impl TableArgs {
    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// An error if a table is asked for where there is none.
    pub fn refuse(&self, kind: &str) -> Result<()> {
        if self.table.is_none() { Ok(()) } else { Err(no_tables(kind)) }
    }
}

fn no_tables(kind: &str) -> Error {
    Error::invalid(format!("a {kind} store has no tables, as a btree store has: leave out --table"))
}

/// For how long a btree store is read.
#[derive(Clone, Copy, Debug, Args)]
pub struct LeaseArgs {
    /// Of a btree store: keep what is read for so many seconds, such as 30. Others who write may use that
    /// space then; if one does before this command is done, it fails [default: keep it until the
    /// command is done, or killed]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    lease: Option<Duration>,
}

impl LeaseArgs {
    /// The same to read, for no longer than that.
    pub fn limit(self, store: Readable) -> Result<Readable> {
        if self.lease.is_none() {
            return Ok(store);
        }
        let table = match store {
            Readable::Table(table) => table,
            Readable::Store(Store::BTree(store)) => TableOf::main(store),
            Readable::Store(other) => return Err(no_lease(other.kind())),
        };
        Ok(Readable::Table(TableOf { lease: self.lease, ..table }))
    }

    /// How long it is, if there is one.
    pub fn lease(self) -> Option<Duration> {
        self.lease
    }

    /// An error if a lease is asked for where there is none.
    pub fn refuse(self, kind: &str) -> Result<()> {
        if self.lease.is_none() { Ok(()) } else { Err(no_lease(kind)) }
    }
}

fn no_lease(kind: &str) -> Error {
    Error::invalid(format!("what is read of a {kind} store has no lease: leave out --lease"))
}

/// How long others are waited for who write to what is read.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct WaitArgs {
    /// Wait no longer than so many seconds for others who write to a store that is read, and fail
    /// then, saying which process that is [default: as long as they write]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
}

impl WaitArgs {
    /// Options to open a store with that limit.
    pub fn limit(self, options: OpenOptions) -> OpenOptions {
        self.wait.into_iter().fold(options, OpenOptions::lock_timeout)
    }
}

/// How a store that changes is written.
#[derive(Clone, Copy, Debug, Args)]
pub struct WriteArgs {
    /// When what was written is safe against a power cut: 'buffered' when the last process closes
    /// the store, or the kernel gets to it; 'sync' after every write; or every so many
    /// milliseconds. Against a kill it is always safe
    #[arg(
        long,
        value_name = "buffered|sync|MILLISECONDS",
        default_value = "buffered",
        value_parser = durability
    )]
    durability: Durability,

    /// Wait no longer than so many seconds for others who write, and fail then, saying which process that is; of many
    /// records for a hash store those stay that were written before [default: as long as they write]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
}

impl WriteArgs {
    /// Opens the store at `path`, which must be there and change; shares statistics of what is done
    /// with it if they are asked for.
    pub fn open(self, path: &Path, table: &TableArgs, with_statistics: bool) -> Result<Changing> {
        let options = |hash: hash::OpenOptions, btree: btree::OpenOptions| match with_statistics {
            true => {
                let statistics = || Statistics::new().shared(true);
                (hash.statistics(statistics()), btree.statistics(statistics()))
            }
            false => (hash, btree),
        };
        self.open_with(path, table, options)
    }

    /// The same, to read it, as those do who may not write.
    pub fn open_to_read(self, path: &Path, table: &TableArgs) -> Result<Changing> {
        self.open_with(path, table, |hash, btree| (hash.read_only(true), btree.read_only(true)))
    }

    fn open_with(
        self,
        path: &Path,
        table: &TableArgs,
        options: impl FnOnce(
            hash::OpenOptions,
            btree::OpenOptions,
        ) -> (hash::OpenOptions, btree::OpenOptions),
    ) -> Result<Changing> {
        let (hash, btree) = options(self.hash(), self.btree());
        match kind_to_change(path, "")? {
            "hash" => {
                table.refuse("hash").map_err(|e| e.at(path))?;
                way::noting(path, || hash.open(path)).map(Changing::Hash)
            }
            "btree" => TableOf::of(btree.open(path)?, table).map(Changing::BTree),
            other => Err(unchanging(other, THAW).at(path)),
        }
    }

    /// Opens the hash or btree store at `path`.
    pub fn open_changing(self, path: &Path) -> Result<Store> {
        match credenza::kind_of(path)? {
            "hash" => way::noting(path, || self.hash().open(path)).map(Store::Hash),
            "btree" => self.btree().open(path).map(Store::BTree),
            other => Err(unchanging(other, THAW).at(path)),
        }
    }

    /// Opens the hash store at `path`, or makes it; with a limit, if that is not 0.
    pub fn create_hash(self, path: &Path, limit: u64) -> Result<Hash> {
        way::noting(path, || self.hash().create(true).limit(limit).open(path))
    }

    /// Opens the btree store at `path`, which must be there.
    pub fn open_btree(self, path: &Path) -> Result<BTree> {
        match kind_to_change(path, " --engine btree")? {
            "btree" => self.btree().open(path),
            other => Err(table::no_order(other).at(path)),
        }
    }

    /// Opens the btree store at `path`, or makes it.
    pub fn create_btree(self, path: &Path) -> Result<BTree> {
        self.btree().create(true).open(path)
    }

    fn hash(self) -> hash::OpenOptions {
        let options = Hash::options().durability(self.durability);
        self.wait.into_iter().fold(options, hash::OpenOptions::lock_timeout)
    }

    fn btree(self) -> btree::OpenOptions {
        let options = BTree::options().durability(self.durability);
        self.wait.into_iter().fold(options, btree::OpenOptions::lock_timeout)
    }
}

/// The kind of the store at `path`; where nothing is, the error says how `credenza create`, with this option, makes
/// one.
fn kind_to_change(path: &Path, option: &str) -> Result<&'static str> {
    credenza::kind_of(path).map_err(|e| match e.kind() {
        ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            let what =
                format!("there is no such file: 'credenza create{option}' makes a new store");
            Error::invalid(what).at(path)
        }
        _ => e,
    })
}

/// What makes a store that changes of one that does not.
const THAW: &str = "'credenza thaw' makes one of it that does";

/// The error for a store that cannot be changed, with what to do.
pub fn unchanging(kind: &str, what_to_do: &str) -> Error {
    Error::invalid(format!("this is a store of kind '{kind}', which never changes; {what_to_do}"))
}

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "buffered" => Ok(Durability::Buffered),
        "sync" => Ok(Durability::Sync),
        number => match number.parse() {
            Ok(ms) if ms > 0 => Ok(Durability::Interval(ms)),
            _ => Err("write 'buffered', 'sync', or a number of milliseconds above 0".into()),
        },
    }
}

/// Seconds, with a fraction if you like.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().and_then(|number| Duration::try_from_secs_f64(number).ok());
    number.ok_or_else(|| "write a number of seconds, such as 2.5".to_owned())
}

/// How many.
pub fn number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "write a whole number from 0 on, such as 10")
}

/// Which one, counted from 1 on.
pub fn from_one(text: &str) -> Result<u64, &'static str> {
    text.parse().ok().filter(|n| *n > 0).ok_or("write a whole number from 1 on")
}

/// How a constant store is built, or a btree store.
#[derive(Clone, Copy, Debug, Args)]
pub struct BuildArgs {
    /// Memory for records that wait to be written, or for a btree store sorted, such as 512M; what is
    /// over goes to a temporary file beside the store [default: a quarter of the machine's memory,
    /// or of what the program or its control group may have]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_budget: Option<u64>,

    /// Seed of the hash that places keys in a constant store; the same input and seed give the same bytes
    #[arg(long, value_name = "N", value_parser = number)]
    pub seed: Option<u64>,
}

/// The cdb tools' text format where a store kind may stand as well, which is called `cdb` too.
pub const CDB_TEXT: &str = "cdb-text";

/// Takes the name of a text format; the help lists them all.
pub fn format_parser() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.iter().map(|format| match format {
        Format::CdbText => format_value(*format, format.to_string()).alias(CDB_TEXT),
        _ => format_value(*format, format.to_string()),
    });
    PossibleValuesParser::new(names).try_map(|name| match name.as_str() {
        CDB_TEXT => Ok(Format::CdbText),
        name => name.parse::<Format>(),
    })
}

/// How the help lists a text format.
pub fn format_value(format: Format, name: String) -> PossibleValue {
    let help = match format {
        Format::CdbText => "+klen,dlen:key->data, of cdbmake, cdbdump, tinycdb and mcdbctl",
        Format::Tsv => "key, tab, value on a line; \\t, \\n, \\r, \\\\ and \\xHH for other bytes",
        Format::Map => "key, blanks, value on a line, of tinycdb -m; keys have no blanks",
        Format::Lines => "a key on a line; values are empty",
        Format::DbDump => "db_dump and mdb_dump, in hexadecimal",
        Format::DbDumpPrint => "db_dump -p and mdb_dump -p, printable",
        Format::TdbDump => "tdbdump, read by tdbrestore",
        Format::MdbmExport => "mdbm_export: key and value on lines of their own",
        Format::JsonLines => "one object a line; key_base64 and value_base64 for what is not UTF-8",
    };
    PossibleValue::new(name).help(help)
}

#[cfg(test)]
mod tests {
    use super::{Cli, durability, seconds, size};
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        credenza_bench::numbers_may_be_negative(Cli::command()).debug_assert();
    }

    #[test]
    fn durability_is_a_word_or_milliseconds() {
        assert!(["buffered", "sync", "1", "5000"].iter().all(|text| durability(text).is_ok()));
        assert!(["", "0", "-1", "1.5", "never"].iter().all(|text| durability(text).is_err()));
    }

    #[test]
    fn seconds_take_fractions() {
        assert_eq!(seconds("0.25").map(|d| d.as_millis()), Ok(250));
        assert!(["", "-1", "nan", "inf", "1s"].iter().all(|text| seconds(text).is_err()));
    }

    #[test]
    fn sizes_take_suffixes() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("4k"), Ok(4096));
        assert_eq!(size("3MiB"), Ok(3 << 20));
        assert_eq!(size("2G"), Ok(2 << 30));
        for bad in ["", "M", "1.5G", "-1", "1X", "1 M", "99999999999T", "é", "1é"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
