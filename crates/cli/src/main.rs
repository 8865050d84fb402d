//! The `credenza` program: makes, reads, checks and measures stores from the command line.
//!
//! Reading order: [`args`] (the command line), [`cmd`] (one file for each command), then the small
//! parts they share: [`input`], [`keys`], [`words`], [`target`], [`duplicates`], [`seen`] and [`spool`] for
//! what is read and built, [`replaced`] for what is there before, [`private`] for who may read it, [`readable`],
//! [`changing`], [`table`], [`tables`], [`additions`] and [`session`] for stores that are there, [`output`], [`json`],
//! [`progress`], [`waiting`], [`prompt`] and [`exit`] for what people and programs see.
//!
//! Nothing here prints with `println!`, which panics when the reader has gone away: results go
//! through [`output::Output`], notes through [`exit::note`].

mod additions;
mod any_table;
mod args;
mod changing;
mod cmd;
mod databases;
mod duplicates;
mod exit;
mod folder;
mod input;
mod interrupt;
mod json;
mod keys;
mod output;
mod private;
mod progress;
mod prompt;
mod readable;
mod replaced;
mod seen;
mod session;
mod spool;
mod table;
mod tables;
mod target;
mod waiting;
mod way;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    credenza_bench::keep_ends_of_children();
    credenza_bench::take_long_files_for_errors();
    match args::Cli::of(std::env::args_os()) {
        Ok(cli) => exit::finish(cmd::run(cli)),
        Err(error) => exit::usage(&error),
    }
}
