//! One file for each command: its arguments with their help, and `run`.

pub mod advise;
pub mod backup;
pub mod bench;
pub mod compact;
pub mod completions;
pub mod convert;
pub mod create;
pub mod delete;
pub mod dump;
pub mod freeze;
pub mod get;
mod live;
pub mod load;
pub mod man;
pub mod preload;
pub mod put;
pub mod range;
pub mod record;
pub mod recover;
pub mod replay;
pub mod reproduce;
pub mod scan;
pub mod shell;
pub mod stat;
pub mod table;
pub mod thaw;
pub mod torture;
mod trace;
pub mod verify;
pub mod watch;

use crate::args::{Cli, Command};
use crate::exit::Status;
use crate::{waiting, way};
use credenza::Result;

/// Runs the command that was asked for.
pub fn run(cli: Cli) -> Result<Status> {
    let quiet = cli.quiet;
    if quiet {
        waiting::silence();
        way::silence();
    }
    match cli.command {
        Command::Load(args) => load::run(&args, quiet),
        Command::Get(args) => get::run(&args, quiet),
        Command::Scan(args) => scan::run(&args, quiet),
        Command::Range(args) => range::run(&args, quiet),
        Command::Dump(args) => dump::run(&args, quiet),
        Command::Stat(args) => stat::run(&args, quiet),
        Command::Verify(args) => verify::run(&args, quiet),
        Command::Convert(args) => convert::run(&args, quiet),
        Command::Preload(args) => preload::run(&args, quiet),
        Command::Create(args) => create::run(&args, quiet),
        Command::Put(args) => put::run(&args, quiet),
        Command::Delete(args) => delete::run(&args, quiet),
        Command::Table(args) => table::run(&args),
        Command::Shell(args) => shell::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Compact(args) => compact::run(&args, quiet),
        Command::Backup(args) => backup::run(&args, quiet),
        Command::Recover(args) => recover::run(&args, quiet),
        Command::Freeze(args) => freeze::run(&args, quiet),
        Command::Thaw(args) => thaw::run(&args, quiet),
        Command::Bench(args) => bench::run(*args, quiet),
        Command::Record(args) => record::run(&args, quiet),
        Command::Replay(args) => replay::run(*args, quiet),
        Command::Reproduce(args) => reproduce::run(*args, quiet),
        Command::Torture(args) => torture::run(*args, quiet),
        Command::Advise(args) => advise::run(*args, quiet),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
