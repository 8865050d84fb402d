//! The workbench behind `credenza bench`: the same measured work on every store.
//!
//! Reading order: [`result`] (what a run finds), [`BenchArgs`] (what is asked for), `workload`
//! (data and queries), `driver` (the stores), `runner` (processes, rounds, timed loops),
//! [`report`] (what the reader sees). `torture` measures nothing, and looks what stores lose.
//!
//! Method: each store in a fresh process bound to one processor; rounds interleaved in random
//! order; equal data and queries for all; untimed warm-up; every answer compared with the data;
//! raw samples kept. `docs/workbench.md` says more.

mod absent;
mod advise;
mod any_path;
mod args;
mod candidates;
mod charts;
mod copy;
mod counters;
mod driver;
mod ended;
mod libraries;
mod machine;
mod measure;
mod progress;
mod replay;
pub mod report;
mod reproduce;
pub mod result;
mod rng;
mod runner;
mod settings;
pub mod shell;
mod torture;
mod workload;

pub use advise::{AdviseArgs, advise};
pub use args::{BenchArgs, numbers_may_be_negative, parsed, size};
pub use charts::{browser, write as write_charts};
pub use driver::kernel::{inherited, keep_ends_of_children, leads_to, take_long_files_for_errors};
pub use replay::{ReplayArgs, replay};
pub use reproduce::{Document, ReproduceArgs, reproduce};
pub use torture::{TortureArgs, torture};
pub use workload::Phase;

use args::{Command, Compare};
use credenza::{Error, Result};
use progress::say;
use report::outputs;
use std::io::Write;
use std::process::ExitCode;

/// Exit status when a store failed or gave a wrong answer.
const FAILED: u8 = 111;
/// Exit status of `compare` when a figure regressed.
const REGRESSED: u8 = 1;

/// Exit status when a signal ended the run: what was finished is reported all the same.
const INTERRUPTED: u8 = 130;

/// Does what `args` ask for: measures, prints the table, writes the files; or compares stores, or
/// lists them.
/// The status is 0, or 111 when a store failed or gave a wrong answer; for a comparison of two saved
/// runs 1 when something regressed; 130 when a signal ended the run.
///
/// The program starts itself again for each store and round, with its own arguments and
/// `--child`: whatever parses those arguments must come here again.
///
/// # Errors
/// The options make no sense, the data cannot be read, or the results cannot be written. A store
/// that fails is no error: it is told in the report.
pub fn run(args: BenchArgs) -> Result<ExitCode> {
    driver::tried::answer();
    if let Some(Command::Compare(wanted)) = &args.command {
        return compare(wanted);
    }
    if args.child {
        runner::child::main()?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.list {
        // Nothing else goes to standard output there.
        let json = args.json.as_ref().filter(|path| path.as_os_str() != "-");
        outputs::check(&[("--json", json)], &[])?;
        candidates::list(&args)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.oracle {
        return oracle(&args);
    }
    let outputs = [
        ("--json", args.json.as_ref()),
        ("--html", args.html.as_ref()),
        ("--csv", args.csv.as_ref()),
        ("--tee", args.tee.as_ref()),
    ];
    outputs::check(&outputs, &[args.data.as_ref()])?;
    args.charts_folder().map_or(Ok(()), charts::check)?;
    let report = runner::series(&args)?;
    // Before the table: whoever reads that may be gone, and what is on a disk stays.
    let written = write_files(&report, &args);
    let mut out = std::io::stdout().lock();
    let pen = report::Pen::of(&out);
    let printed = report::terminal::print(&report, &mut out, &pen)
        .and_then(|()| out.flush())
        .map_err(|e| Error::io("write to standard output", e));
    // Drawing takes a while: the table is there meanwhile.
    let draw = |folder| charts::write(&report, folder, args.quiet);
    let drawn = args.charts_folder().map_or(Ok(()), draw);
    // That a file could not be written is the worse of both.
    written.and(printed).and(drawn)?;
    if report.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let is_well = report.failures.is_empty()
        && report.results.iter().all(|r| r.verified)
        && report.growth.iter().flat_map(|run| &run.results).all(|r| r.verified)
        && report.together.iter().all(|r| r.verified);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Writes the files that are asked for, as far as it can; the first error, with all others said.
fn write_files(report: &result::Report, args: &BenchArgs) -> Result<()> {
    let files = [
        args.json.as_ref().map(|path| report::json::write(report, path)),
        args.csv.as_ref().map(|path| report::csv::write(report, path)),
        args.html.as_ref().map(|path| report::html::write(report, path)),
    ];
    let mut failed = files.into_iter().flatten().filter_map(Result::err);
    let first = failed.next();
    failed.for_each(|e| say!("credenza bench: {e}"));
    first.map_or(Ok(()), Err)
}

/// Compares stores, and prints what came of it or writes it as JSON.
fn oracle(args: &BenchArgs) -> Result<ExitCode> {
    outputs::check(&[("--json", args.json.as_ref())], &[args.data.as_ref()])?;
    let verdict = runner::oracle::run(args)?;
    outputs::tell(&verdict.in_words(), &verdict, args.json.as_ref())?;
    Ok(match verdict.is_well() {
        true if verdict.interrupted => ExitCode::from(INTERRUPTED),
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}

/// Compares two saved runs.
fn compare(wanted: &Compare) -> Result<ExitCode> {
    let inputs = [Some(&wanted.before), Some(&wanted.after)];
    outputs::check(&[("--json", wanted.json.as_ref())], &inputs)?;
    let before = report::json::read(&wanted.before)?;
    let after = report::json::read(&wanted.after)?;
    let changes = report::saved::compare(&before, &after, wanted.threshold)?;
    if !changes.unlike.is_empty() && !wanted.anyway {
        return Err(Error::invalid(format!(
            "these runs are not alike, and are not compared: {}; measure both alike, or say --anyway \
             to see the figures side by side",
            changes.unlike.join("; ")
        )));
    }
    let published =
        wanted.json.as_ref().map_or(Ok(()), |path| report::json::publish_value(&changes, path));
    let mut out = std::io::stdout().lock();
    let pen = report::Pen::of(&out);
    report::saved::print(&changes, &before, &after, &mut out, &pen)
        .and_then(|()| out.flush())
        .map_err(|e| Error::io("write to standard output", e))?;
    published?;
    Ok(if changes.regressions == 0 { ExitCode::SUCCESS } else { ExitCode::from(REGRESSED) })
}
