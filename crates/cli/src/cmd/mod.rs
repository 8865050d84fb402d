//! One file for each command: its arguments with their help, and `run`.

pub mod bench;
pub mod completions;
pub mod convert;
pub mod dump;
pub mod get;
pub mod load;
pub mod man;
pub mod preload;
pub mod scan;
pub mod stat;
pub mod verify;

use crate::args::{Cli, Command};
use crate::exit::Status;
use credenza::Result;

/// Runs the command that was asked for.
pub fn run(cli: Cli) -> Result<Status> {
    let quiet = cli.quiet;
    match cli.command {
        Command::Load(args) => load::run(&args, quiet),
        Command::Get(args) => get::run(&args, quiet),
        Command::Scan(args) => scan::run(&args),
        Command::Dump(args) => dump::run(&args, quiet),
        Command::Stat(args) => stat::run(&args),
        Command::Verify(args) => verify::run(&args, quiet),
        Command::Convert(args) => convert::run(&args, quiet),
        Command::Preload(args) => preload::run(&args, quiet),
        Command::Bench(args) => bench::run(*args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
