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
    credenza_bench::run(Program::parse().bench).unwrap_or_else(|e| {
        eprintln!("credenza-bench: {e}");
        ExitCode::from(111)
    })
}
