//! `credenza shell`: a store that changes, command by command.

use crate::args::{TableArgs, WriteArgs, exit_status};
use crate::changing::Changing;
use crate::cmd::stat;
use crate::exit::{self, Status};
use crate::output::{Output, escaped};
use crate::prompt::{LONGEST, Lines};
use crate::session::Session;
use crate::words;
use clap::Args;
use credenza::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::{ErrorKind as IoKind, Write};
use std::path::{Path, PathBuf};

const COMMANDS: [&str; 13] = [
    "get", "put", "append", "delete", "scan", "len", "stat", "begin", "commit", "abort", "help",
    "quit", "exit",
];

const HELP: &str = "\
get KEY              the value of a key
put KEY VALUE        give a key a value
append VALUE         put it under the next number of a table whose records are numbered
delete KEY...        take keys out
scan [PREFIX [N]]    records whose keys begin so, at most N of them
len                  how many records there are
stat                 what the store is made of
begin                collect changes; all others wait with theirs until it is done
commit               make the collected changes, at once
abort                forget them
help                 this list
quit                 end; what was not committed is forgotten

Words stand between blanks. \"two words\" are one in quotes, and two\\ words without; \\n, \\t, \\\\,
\\\" and \\xHH stand for other bytes, as scan shows them.
";

/// Read and change a hash or btree store, command by command.
///
/// With a history and completion of commands and keys (Tab) in a terminal. From a file or a pipe,
/// commands are read line by line, of at most 64 MiB each: the first that fails ends the shell, and what was not committed
/// is forgotten, which is an error where the input ends and none after 'quit'; empty lines, and those that begin with #, are passed over. 'help' lists the
/// commands. Within a transaction get sees what it changed, and of a btree store, which is scanned in
/// the order of its keys, so do scan and len; else they and stat show the store without it.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza shell users\n  \
       printf 'begin\\nput from 90\\nput to 110\\ncommit\\n' | credenza shell accounts\n",
    exit_status!("  100  a key was not found (not in a terminal)\n")
))]
pub struct Shell {
    /// The store to open
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// Count and time what is done with the store, in the file FILE-stats beside it, for 'credenza
    /// stat --live'
    #[arg(long)]
    statistics: bool,

    /// Change nothing: open the store as those do who may not write to it; a btree store, while nobody has it open to
    /// write
    #[arg(long, conflicts_with = "statistics")]
    read_only: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    write: WriteArgs,
}

/// Runs the command.
pub fn run(args: &Shell) -> Result<Status> {
    let store = match args.read_only {
        true => args.write.open_to_read(&args.store, &args.table)?,
        false => {
            let opened = args.write.open(&args.store, &args.table, args.statistics);
            opened.map_err(|e| to_read(e, &args.store))?
        }
    };
    let mut lines = Lines::new(&store, &COMMANDS)?;
    let out = Output::stdout()?;
    let session = Session::of(&store);
    let mut shell = Conversation { path: &args.store, store: &store, session, out };
    let (mut number, mut status, mut has_quit) = (0u64, Status::Done, false);
    while let Some(line) = lines.next(shell.prompt())? {
        number += 1;
        let said = words_of(&line).and_then(|words| shell.obey(&words));
        match shell.out.flush().map_err(|e| Error::io("write", e).at(shell.out.name())) {
            // Who has gone does not want to know; what is asked for is done all the same.
            Err(e) if exit::is_closed_pipe(&e) => shell.out = Output::nowhere()?,
            told => told?,
        }
        match said {
            Ok(Said::Quit) => {
                has_quit = true;
                break;
            }
            Ok(Said::Missing) if !lines.is_person() => status = Status::NotFound,
            Ok(_) => {}
            Err(e) if exit::is_closed_pipe(&e) => shell.out = Output::nowhere()?,
            Err(e) if lines.is_person() => exit::report(&e),
            Err(e) => return Err(Error::invalid(format!("line {number}: {e}"))),
        }
    }
    if shell.session.is_in_transaction() {
        shell.session.abort()?;
        if !has_quit && !lines.is_person() {
            return Err(Error::invalid("the input ends before 'commit': nothing of it is done"));
        }
        exit::note("the transaction was not committed: it is forgotten");
    }
    shell.out.finish()?;
    Ok(status)
}

/// The same, with what to do where the store may be read, and not written.
#[cold]
fn to_read(error: Error, path: &Path) -> Error {
    let ErrorKind::Io { source, .. } = error.kind() else { return error };
    let is_refused = matches!(source.kind(), IoKind::ReadOnlyFilesystem | IoKind::PermissionDenied);
    if !is_refused || File::open(path).is_err() {
        return error;
    }
    let what =
        format!("it cannot be written: {source}; with --read-only the shell opens it to read");
    Error::invalid(what).at(path)
}

/// What a command says.
enum Said {
    Done,
    Missing,
    Quit,
}

struct Conversation<'s> {
    path: &'s Path,
    store: &'s Changing,
    session: Session<'s>,
    out: Output,
}

impl Conversation<'_> {
    fn prompt(&self) -> &'static str {
        if self.session.is_in_transaction() { "credenza*> " } else { "credenza> " }
    }

    /// Does what a line says.
    fn obey(&mut self, words: &[Vec<u8>]) -> Result<Said> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match words.as_slice() {
            [] => Ok(Said::Done),
            [b"get", key] => self.get(key),
            [b"put", key, value] => self.put(key, value),
            [b"append", value] => {
                let number = self.session.append(value)?;
                self.say(&format!("{number}\n"))
            }
            [b"delete", keys @ ..] if !keys.is_empty() => self.delete(keys),
            [b"scan"] => self.scan(b"", u64::MAX),
            [b"scan", prefix] => self.scan(prefix, u64::MAX),
            [b"scan", prefix, limit] => {
                let number = std::str::from_utf8(limit).ok().and_then(|text| text.parse().ok());
                let number = number.ok_or_else(|| Error::invalid("N must be a whole number"))?;
                self.scan(prefix, number)
            }
            [b"len"] => {
                let len = self.session.len()?;
                self.say(&format!("{len}\n"))
            }
            [b"stat"] => {
                let text = stat::text_of(self.path, &self.store.whole())?;
                self.say(&text)
            }
            [b"begin"] => self.session.begin().map(|()| Said::Done),
            [b"commit"] => self.session.commit().map(|()| Said::Done),
            [b"abort"] => self.session.abort().map(|()| Said::Done),
            [b"help", ..] => self.say(HELP),
            [b"quit" | b"exit"] => Ok(Said::Quit),
            [first, ..] => Err(not_understood(first)),
        }
    }

    fn say(&mut self, text: &str) -> Result<Said> {
        self.out.put(text.as_bytes())?;
        Ok(Said::Done)
    }

    fn missing(&mut self, key: &[u8]) -> Said {
        exit::note(format_args!("not found: {}", escaped(key)));
        Said::Missing
    }

    fn get(&mut self, key: &[u8]) -> Result<Said> {
        match self.session.get(key, &mut self.out)? {
            true => Ok(Said::Done),
            false => Ok(self.missing(key)),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Said> {
        self.session.put(key, value).map(|()| Said::Done)
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Result<Said> {
        let mut said = Said::Done;
        for key in keys {
            if !self.session.delete(key)? {
                said = self.missing(key);
            }
        }
        Ok(said)
    }

    fn scan(&mut self, prefix: &[u8], limit: u64) -> Result<Said> {
        let Conversation { session, out, .. } = self;
        let mut left = limit;
        if left > 0 {
            session.scan(prefix, &mut |key, value| {
                out.put_escaped(key)?;
                out.put(b"\t")?;
                out.put_escaped(value)?;
                out.put(b"\n")?;
                left -= 1;
                Ok(left > 0)
            })?;
        }
        Ok(Said::Done)
    }
}

/// The words of a line; none of one that is a comment, which may have quotes and backslashes as it likes.
fn words_of(line: &[u8]) -> Result<Vec<Vec<u8>>> {
    if line.len() > LONGEST {
        return Err(Error::invalid(format!(
            "a line of more than {LONGEST} bytes, which is the limit here: 'credenza put FILE KEY' reads a long \
             value, and 'credenza load' records"
        )));
    }
    match line.trim_ascii_start().starts_with(b"#") {
        true => Ok(Vec::new()),
        false => words::split(line).map_err(Error::invalid),
    }
}

fn not_understood(command: &[u8]) -> Error {
    let known = COMMANDS.iter().any(|known| known.as_bytes() == command);
    let command = escaped(command);
    Error::invalid(if known {
        format!("'{command}' takes other words than these: 'help' says which")
    } else {
        format!("there is no command '{command}': 'help' lists them")
    })
}
