//! The workbench by itself: `credenza bench` without the rest of the program. The tests run it.

use clap::Parser;
use credenza_bench::BenchArgs;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "credenza-bench", version)]
struct Program {
    #[command(flatten)]
    bench: BenchArgs,
}

fn main() -> ExitCode {
    let words = std::env::args_os();
    let program: Program = credenza_bench::parsed(words).unwrap_or_else(|error| error.exit());
    credenza_bench::run(program.bench).unwrap_or_else(|e| {
        eprintln!("credenza-bench: {e}");
        ExitCode::from(111)
    })
}
