//! The workbench by itself: `credenza bench` without the rest of the program. The tests run it.

use clap::{CommandFactory, FromArgMatches, Parser};
use credenza_bench::BenchArgs;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "credenza-bench", version)]
struct Program {
    #[command(flatten)]
    bench: BenchArgs,
}

fn main() -> ExitCode {
    let mut command = credenza_bench::numbers_may_be_negative(Program::command());
    let found = command.get_matches_mut();
    let program =
        Program::from_arg_matches(&found).unwrap_or_else(|error| error.format(&mut command).exit());
    credenza_bench::run(program.bench).unwrap_or_else(|e| {
        eprintln!("credenza-bench: {e}");
        ExitCode::from(111)
    })
}
