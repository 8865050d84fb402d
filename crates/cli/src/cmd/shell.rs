//! `credenza shell`: a hash store, command by command.

use crate::args::{WriteArgs, exit_status};
use crate::cmd::stat;
use crate::exit::{self, Status};
use crate::output::{Output, escaped};
use crate::prompt::Lines;
use crate::words;
use clap::Args;
use credenza::hash::{Hash, Transaction};
use credenza::{Error, Result, Store};
use std::io::Write;
use std::path::{Path, PathBuf};

const COMMANDS: [&str; 12] = [
    "get", "put", "delete", "scan", "len", "stat", "begin", "commit", "abort", "help", "quit",
    "exit",
];

const HELP: &str = "\
get KEY              the value of a key
put KEY VALUE        give a key a value
delete KEY...        take keys out
scan [PREFIX [N]]    records whose keys begin so, at most N of them
len                  how many keys there are
stat                 what the store is made of
begin                collect changes; all others wait with theirs until it is done
commit               make the collected changes, at once
abort                forget them
help                 this list
quit                 end; what was not committed is forgotten

Words stand between blanks. \"two words\" are one in quotes; \\n, \\t, \\\\, \\\" and \\xHH stand
for other bytes, as scan shows them.
";

/// Read and change a hash store, command by command.
///
/// With a history and completion of commands and keys (Tab) in a terminal. From a file or a pipe,
/// commands are read line by line: the first that fails ends the shell, and what was not committed
/// is forgotten; empty lines, and those that begin with #, are passed over. 'help' lists the
/// commands. Within a transaction get sees what it changed; scan, len and stat show the store
/// without it.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza shell users\n  \
       printf 'begin\\nput from 90\\nput to 110\\ncommit\\n' | credenza shell accounts\n",
    exit_status!("  100  a key was not found (not in a terminal)\n")
))]
pub struct Shell {
    /// The hash store to open
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// Count and time what is done with the store, in the file FILE-stats beside it, for 'credenza
    /// stat --live'
    #[arg(long)]
    statistics: bool,

    #[command(flatten)]
    write: WriteArgs,
}

/// Runs the command.
pub fn run(args: &Shell) -> Result<Status> {
    let store = args.write.open_with(&args.store, args.statistics)?;
    let mut lines = Lines::new(&store, &COMMANDS)?;
    let out = Output::stdout()?;
    let mut session = Session { path: &args.store, store: &store, transaction: None, out };
    let (mut number, mut status) = (0u64, Status::Done);
    while let Some(line) = lines.next(session.prompt())? {
        number += 1;
        let said = words::split(&line).map_err(Error::invalid);
        let said = said.and_then(|words| session.obey(&words));
        session.out.flush().map_err(|e| Error::io("write", e).at(session.out.name()))?;
        match said {
            Ok(Said::Quit) => break,
            Ok(Said::Missing) if !lines.is_person() => status = Status::NotFound,
            Ok(_) => {}
            Err(e) if exit::is_closed_pipe(&e) => return Err(e),
            Err(e) if lines.is_person() => exit::report(&e),
            Err(e) => return Err(Error::invalid(format!("line {number}: {e}"))),
        }
    }
    match session.transaction.take() {
        Some(_) if lines.is_person() => {
            exit::note("the transaction was not committed: it is forgotten");
        }
        Some(_) => {
            return Err(Error::invalid("the input ends before 'commit': nothing of it is done"));
        }
        None => {}
    }
    session.out.finish()?;
    Ok(status)
}

/// What a command says.
enum Said {
    Done,
    Missing,
    Quit,
}

struct Session<'s> {
    path: &'s Path,
    store: &'s Hash,
    transaction: Option<Transaction<'s>>,
    out: Output,
}

impl Session<'_> {
    fn prompt(&self) -> &'static str {
        if self.transaction.is_some() { "credenza*> " } else { "credenza> " }
    }

    /// Does what a line says.
    fn obey(&mut self, words: &[Vec<u8>]) -> Result<Said> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match words.as_slice() {
            [] => Ok(Said::Done),
            [first, ..] if first.starts_with(b"#") => Ok(Said::Done),
            [b"get", key] => self.get(key),
            [b"put", key, value] => self.put(key, value),
            [b"delete", keys @ ..] if !keys.is_empty() => self.delete(keys),
            [b"scan"] => self.scan(b"", u64::MAX),
            [b"scan", prefix] => self.scan(prefix, u64::MAX),
            [b"scan", prefix, limit] => {
                let number = std::str::from_utf8(limit).ok().and_then(|text| text.parse().ok());
                let number = number.ok_or_else(|| Error::invalid("N must be a whole number"))?;
                self.scan(prefix, number)
            }
            [b"len"] => self.say(&format!("{}\n", self.store.len()?)),
            [b"stat"] => {
                let text = stat::text_of(self.path, &Store::Hash(self.store.clone()))?;
                self.say(&text)
            }
            [b"begin"] => self.begin(),
            [b"commit"] => {
                self.taken()?.commit()?;
                Ok(Said::Done)
            }
            [b"abort"] => {
                self.taken()?.abort();
                Ok(Said::Done)
            }
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
        let text = match &self.transaction {
            Some(transaction) => transaction.get(key)?.map(escaped),
            None => self.store.get_with(key, escaped)?,
        };
        match text {
            Some(text) => self.say(&format!("{text}\n")),
            None => Ok(self.missing(key)),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Said> {
        match &mut self.transaction {
            Some(transaction) => transaction.insert(key, value)?,
            None => self.store.insert(key, value)?,
        }
        Ok(Said::Done)
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Result<Said> {
        let mut said = Said::Done;
        for key in keys {
            let was_there = match &mut self.transaction {
                Some(transaction) => {
                    let was_there = transaction.get(key)?.is_some();
                    transaction.remove(key)?;
                    was_there
                }
                None => self.store.remove(key)?,
            };
            if !was_there {
                said = self.missing(key);
            }
        }
        Ok(said)
    }

    fn scan(&mut self, prefix: &[u8], limit: u64) -> Result<Said> {
        let mut left = limit;
        for record in self.store {
            let (key, value) = record?;
            if left == 0 {
                break;
            }
            if key.starts_with(prefix) {
                self.out.put(format!("{}\t{}\n", escaped(&key), escaped(&value)).as_bytes())?;
                left -= 1;
            }
        }
        Ok(Said::Done)
    }

    fn begin(&mut self) -> Result<Said> {
        if self.transaction.is_some() {
            return Err(Error::invalid("a transaction has begun already: commit or abort it"));
        }
        self.transaction = Some(self.store.transaction()?);
        Ok(Said::Done)
    }

    fn taken(&mut self) -> Result<Transaction<'_>> {
        let none = || Error::invalid("there is no transaction: 'begin' begins one");
        self.transaction.take().ok_or_else(none)
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
