//! The stores this program can write, behind one type.

use crate::args::BuildArgs;
use crate::progress::{Bar, Unit};
use clap::ValueEnum;
use credenza::constant::{BuildOptions, Builder, Phase};
use credenza::foreign::{Cdb64Writer, CdbWriter, McdbWriter};
use credenza::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Credenza's own immutable store: the smallest and the fastest to read
    Constant,
    /// D. J. Bernstein's cdb, read by cdb and tinycdb; at most 4 GiB
    Cdb,
    /// cdb with 64-bit offsets
    Cdb64,
    /// mcdb, as mcdbctl reads it
    Mcdb,
}

/// A store being written; nothing is visible until [`Target::finish`] returns.
pub enum Target {
    Constant(Box<Builder>),
    Cdb(CdbWriter),
    Cdb64(Cdb64Writer),
    Mcdb(McdbWriter),
}

impl Target {
    /// Starts a store of this kind that will appear at, or replace, `path`.
    pub fn create(kind: Kind, path: &Path, args: &BuildArgs, bar: &Arc<Bar>) -> Result<Target> {
        if crate::input::is_dash(path) {
            return Err(Error::invalid(
                "a store cannot be written to standard output; name its file",
            ));
        }
        if kind != Kind::Constant && (args.memory_budget.is_some() || args.seed.is_some()) {
            return Err(Error::invalid(
                "--memory-budget and --seed are for constant stores; leave them out",
            ));
        }
        match kind {
            Kind::Constant => {
                constant_options(args, bar).create(path).map(|b| Target::Constant(Box::new(b)))
            }
            Kind::Cdb => CdbWriter::create(path).map(Target::Cdb),
            Kind::Cdb64 => Cdb64Writer::create(path).map(Target::Cdb64),
            Kind::Mcdb => McdbWriter::create(path).map(Target::Mcdb),
        }
    }

    /// Adds a record; the values of one key keep the order in which they are added.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Target::Constant(builder) => builder.add(key, value),
            Target::Cdb(writer) => writer.add(key, value),
            Target::Cdb64(writer) => writer.add(key, value),
            Target::Mcdb(writer) => writer.add(key, value),
        }
    }

    /// Makes the store durable and visible.
    pub fn finish(self) -> Result<()> {
        match self {
            Target::Constant(builder) => builder.finish().map(drop),
            Target::Cdb(writer) => writer.finish().map(drop),
            Target::Cdb64(writer) => writer.finish().map(drop),
            Target::Mcdb(writer) => writer.finish().map(drop),
        }
    }
}

fn constant_options(args: &BuildArgs, bar: &Arc<Bar>) -> BuildOptions {
    let mut options = BuildOptions::new();
    if let Some(bytes) = args.memory_budget {
        options = options.memory_budget(bytes);
    }
    if let Some(seed) = args.seed {
        options = options.seed(seed);
    }
    if !bar.is_enabled() {
        return options;
    }
    let bar = Arc::clone(bar);
    let mut phase = Phase::Adding;
    options.progress(move |progress| {
        // While records are added the bar shows how much of the input is read.
        if progress.phase != phase {
            phase = progress.phase;
            let what = if phase == Phase::Writing { "writing" } else { "publishing" };
            bar.begin(what, Unit::Records, Some(progress.total));
        }
        if phase != Phase::Adding {
            bar.at(progress.done);
        }
    })
}
