//! How the program ends, and what it says on standard error.
//!
//! The statuses are those of the cdb tools: 0 done, 100 key not found, 111 error, wrong usage
//! included. A reader that has seen enough and closes the pipe is no error: status 0, no message.

use crate::output::printable;
use clap::builder::styling::{AnsiColor, Style};
use credenza::{Error, ErrorKind, Result};
use credenza_bench::shell::quoted_path;
use std::io::{ErrorKind as IoKind, Write};
use std::path::Path;
use std::process::ExitCode;

/// What a command that ran to its end has to say to the shell.
#[derive(Clone, Copy, Debug)]
pub enum Status {
    /// Everything asked for was done.
    Done,
    /// A key is not in the store.
    NotFound,
    /// Something failed that has been reported already.
    Failed,
    /// What the workbench made of it.
    Code(ExitCode),
}

const NOT_FOUND: u8 = 100;
const ERROR: u8 = 111;

/// Reports the error, if it is one, and gives the status of the process.
pub fn finish(result: Result<Status>) -> ExitCode {
    match result {
        Ok(Status::Done) => ExitCode::SUCCESS,
        Ok(Status::NotFound) => ExitCode::from(NOT_FOUND),
        Ok(Status::Failed) => ExitCode::from(ERROR),
        Ok(Status::Code(code)) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(ERROR)
        }
    }
}

/// Prints what the command line parser has to say: help and version are no errors.
pub fn usage(error: &clap::Error) -> ExitCode {
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    if error.exit_code() != 0 {
        // A closed standard error leaves nothing to be told.
        return ExitCode::from(ERROR);
    }
    let named = |e| Error::io("write", e).at("standard output");
    finish(printed.map(|()| Status::Done).map_err(named))
}

/// Says on standard error what went wrong, and what can be done with a store that is damaged.
pub fn report(error: &Error) {
    say(error);
    if let Some(text) = to_save(error) {
        note(text);
    }
}

/// Says on standard error what went wrong, in the style of the command line parser.
pub fn say(error: &Error) {
    let style: Style = AnsiColor::Red.on_default().bold();
    let what = printable(&error.to_string());
    // Whoever closed standard error does not want to know.
    let _ = writeln!(anstream::stderr(), "{style}error:{style:#} {what}");
}

/// What can be done with a store that is damaged.
fn to_save(error: &Error) -> Option<String> {
    let (ErrorKind::Corrupt { .. }, Some(path)) = (error.kind(), error.path()) else { return None };
    let shown = quoted_path(path);
    match credenza::kind_of(path).ok()? {
        "hash" | "btree" => {
            Some(format!("`credenza recover {shown} NEW` makes a store of all that is whole of it"))
        }
        // The error says to restore it, or to build it again.
        _ if !can_be_dumped(path) => None,
        _ => Some(format!(
            "`credenza dump --unchecked {shown}` writes what can be read of it, wrong as it may be"
        )),
    }
}

/// Whether `dump --unchecked` has anything to read of a damaged store that never changes: one that is cut off, or whose
/// header is damaged, is not opened by it, either.
pub fn can_be_dumped(path: &Path) -> bool {
    credenza::open(path).is_ok()
}

/// Says something on standard error that is neither result nor error.
pub fn note(text: impl std::fmt::Display) {
    let _ = writeln!(anstream::stderr(), "{}", printable(&text.to_string()));
}

/// Whether the error is that nobody reads our output any more.
pub fn is_closed_pipe(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io { source, .. } if source.kind() == IoKind::BrokenPipe)
}
