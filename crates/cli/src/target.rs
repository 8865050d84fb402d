//! The stores this program can write, behind one type.

use crate::additions::Additions;
use crate::args::BuildArgs;
use crate::changing::Changing;
use crate::input::refuse_dash;
use crate::progress::{Bar, Unit};
use clap::ValueEnum;
use credenza::constant::{BuildOptions, Builder, Phase};
use credenza::foreign::{Cdb64Writer, CdbWriter, McdbWriter};
use credenza::{BTreeBuilder, Error, HashBuilder, Result};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Credenza's own immutable store: the smallest and the fastest to read
    Constant,
    /// Credenza's own store that changes: one value a key, many writers
    Hash,
    /// Credenza's own store that changes, in the order of its keys: transactions and tables
    #[value(name = "btree")]
    BTree,
    /// D. J. Bernstein's cdb, read by cdb and tinycdb; at most 4 GiB
    Cdb,
    /// cdb with 64-bit offsets
    Cdb64,
    /// mcdb, as mcdbctl reads it
    Mcdb,
}

impl Kind {
    /// Whether stores of this kind change: one that is there gets more records, and has one value a
    /// key.
    pub fn is_changing(self) -> bool {
        matches!(self, Kind::Hash | Kind::BTree)
    }

    /// The kind of the store at `path`, whole or damaged, if it changes.
    pub fn changing_at(path: &Path) -> Option<Kind> {
        match credenza::kind_of(path) {
            Ok("hash") => Some(Kind::Hash),
            Ok("btree") => Some(Kind::BTree),
            _ => None,
        }
    }
}

/// A store being written; nothing is visible until [`Target::finish`] returns.
pub enum Target {
    Constant(Box<Builder>),
    Hash(Box<HashBuilder>),
    BTree(Box<BTreeBuilder>),
    /// Not a new store, but one that is there.
    Existing(Additions),
    Cdb(CdbWriter),
    Cdb64(Cdb64Writer),
    Mcdb(McdbWriter),
}

impl Target {
    /// Starts a store of this kind that will appear at, or replace, `path`.
    pub fn create(kind: Kind, path: &Path, args: &BuildArgs, bar: &Arc<Bar>) -> Result<Target> {
        refuse_dash(path)?;
        if !matches!(kind, Kind::Constant | Kind::BTree) {
            no_build_args(args)?;
        }
        match kind {
            Kind::Constant => {
                constant_options(args, bar).create(path).map(|b| Target::Constant(Box::new(b)))
            }
            Kind::Hash => HashBuilder::create(path).map(|b| Target::Hash(Box::new(b))),
            Kind::BTree => btree_builder(path, args, bar).map(|b| Target::BTree(Box::new(b))),
            Kind::Cdb => CdbWriter::create(path).map(Target::Cdb),
            Kind::Cdb64 => Cdb64Writer::create(path).map(Target::Cdb64),
            Kind::Mcdb => McdbWriter::create(path).map(Target::Mcdb),
        }
    }

    /// The store that is there; see [`Changing::additions`] for `may_wait`.
    pub fn existing(
        store: &Changing,
        args: &BuildArgs,
        may_wait: bool,
        bar: &Arc<Bar>,
    ) -> Result<Target> {
        no_seed(args)?;
        let mut additions = store.additions(may_wait)?;
        if bar.is_enabled() {
            additions.progress(sorted_progress(bar))?;
        }
        args.memory_budget.map_or(Ok(()), |bytes| additions.memory_budget(bytes))?;
        Ok(Target::Existing(additions))
    }

    /// Whether records that are added stay, whatever comes later.
    pub fn is_final(&self) -> bool {
        matches!(self, Target::Existing(Additions::Hash(_)))
    }

    /// An error if this record cannot be added: see [`Additions::check`].
    pub fn check(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Target::Existing(additions) => additions.check(key, value),
            // What a new store cannot have is no record of a text.
            _ => Ok(()),
        }
    }

    /// Adds a record; the values of one key keep the order in which they are added.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Target::Constant(builder) => builder.add(key, value),
            Target::Hash(builder) => builder.add(key, value),
            Target::BTree(builder) => builder.add(key, value),
            Target::Existing(additions) => additions.add(key, value),
            Target::Cdb(writer) => writer.add(key, value),
            Target::Cdb64(writer) => writer.add(key, value),
            Target::Mcdb(writer) => writer.add(key, value),
        }
    }

    /// How many of the records added so far replaced one that was added before.
    pub fn replaced(&mut self) -> Result<u64> {
        match self {
            Target::Hash(builder) => builder.replaced(),
            Target::BTree(builder) => builder.replaced(),
            _ => Ok(0),
        }
    }

    /// Makes the store durable and visible; returns what [`Additions::finish`] does of one that is there.
    pub fn finish(self, bar: &Bar) -> Result<u64> {
        let done = match self {
            Target::Constant(builder) => builder.finish().map(drop),
            Target::Hash(builder) => builder.finish().map(drop),
            Target::BTree(builder) => builder.finish().map(drop),
            Target::Existing(additions) => return additions.finish(bar),
            Target::Cdb(writer) => writer.finish().map(drop),
            Target::Cdb64(writer) => writer.finish().map(drop),
            Target::Mcdb(writer) => writer.finish().map(drop),
        };
        done.map(|()| 0)
    }

    /// The same for a store that is new: what somebody else makes there at the same moment stays, and is an error.
    pub fn finish_new(self, bar: &Bar) -> Result<u64> {
        let done = match self {
            Target::Constant(builder) => builder.finish_new().map(drop),
            Target::Hash(builder) => builder.finish_new().map(drop),
            Target::BTree(builder) => builder.finish_new().map(drop),
            Target::Existing(additions) => return additions.finish(bar),
            Target::Cdb(writer) => writer.finish_new(),
            Target::Cdb64(writer) => writer.finish_new(),
            Target::Mcdb(writer) => writer.finish_new(),
        };
        done.map(|()| 0)
    }
}

/// A btree store in the making.
pub fn btree_builder(path: &Path, args: &BuildArgs, bar: &Arc<Bar>) -> Result<BTreeBuilder> {
    no_seed(args)?;
    let mut builder = BTreeBuilder::create(path)?;
    if bar.is_enabled() {
        builder.progress(sorted_progress(bar))?;
    }
    args.memory_budget.map_or(Ok(()), |bytes| builder.memory_budget(bytes))?;
    Ok(builder)
}

/// Shows how many of the records that were sorted are written.
fn sorted_progress(bar: &Arc<Bar>) -> impl Fn(u64, u64) + Send + Sync + 'static {
    let (bar, last) = (Arc::clone(bar), AtomicU64::new(u64::MAX));
    move |done, total| {
        if done < last.swap(done, Ordering::Relaxed) {
            bar.begin("writing", Unit::Records, Some(total));
        }
        bar.at(done);
    }
}

/// An error if there are options that this kind of store has no use for.
pub fn no_build_args(args: &BuildArgs) -> Result<()> {
    no_seed(args)?;
    args.memory_budget.map_or(Ok(()), |_| Err(no_budget()))
}

#[cold]
pub fn no_budget() -> Error {
    Error::invalid("--memory-budget is for constant and btree stores; leave it out")
}

fn no_seed(args: &BuildArgs) -> Result<()> {
    match args.seed {
        Some(_) => Err(Error::invalid("--seed is for constant stores; leave it out")),
        None => Ok(()),
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
