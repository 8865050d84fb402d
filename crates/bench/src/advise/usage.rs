//! How the data are used: how often what is done, by how many, and what must be safe when.

use super::AdviseArgs;
use super::look::Subject;
use crate::replay::{Do, Script};
use crate::workload::distribution::Distribution;
use credenza::record::{Action, Trace};
use credenza::stats::{Operation, Outcome};
use credenza::{Error, Result};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Lookups that find something; in a trace, all of them.
pub(super) const GET: &str = "get";
/// Lookups of keys that are not there.
pub(super) const MISS: &str = "miss";
/// The records from a key on.
pub(super) const RANGE: &str = "range";
/// Changes: of four two are a new value for a key, one is a new key, and one removes a key.
pub(super) const WRITE: &str = "write";

/// What is done with the data.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Usage {
    /// The part of each operation in all of them; what a transaction costs besides is in relation to
    /// these.
    pub(super) shares: BTreeMap<String, f64>,
    /// The part of changes.
    pub(super) writes: f64,
    /// The part of what asks for the order of keys.
    pub(super) ranges: f64,
    /// The part of lookups that find nothing.
    pub(super) misses: f64,
    /// Whether lookups come many at a time.
    pub(super) batches: bool,
    pub(super) processes: usize,
    /// Whether a change must be on the disk when its call returns.
    pub(super) sync: bool,
    /// Which keys are asked for how often; in a trace, as they were.
    pub(super) distribution: String,
}

impl Usage {
    /// The use that the options tell, or the trace.
    pub(super) fn of(args: &AdviseArgs, subject: &Subject) -> Result<Usage> {
        match subject {
            Subject::Records { .. } => Usage::told(args),
            Subject::Trace { script, path } => {
                args.refuse_use()?;
                Usage::traced(args, script, &Trace::open(path)?)
            }
        }
    }

    fn told(args: &AdviseArgs) -> Result<Usage> {
        let part = |percent: Option<u32>| f64::from(percent.unwrap_or(0)) / 100.0;
        let (writes, ranges, misses) = (part(args.writes), part(args.ranges), part(args.misses));
        let lookups = 1.0 - writes - ranges;
        if lookups < 0.0 {
            return Err(Error::invalid(
                "--writes and --ranges are parts of all operations, and together over 100 percent",
            ));
        }
        if lookups == 0.0 && (args.misses.is_some() || args.batches) {
            return Err(Error::invalid(
                "--misses and --batches are about lookups, and --writes and --ranges leave none",
            ));
        }
        if args.sync && writes == 0.0 {
            return Err(Error::invalid(
                "--sync is about changes, of which there are none: say --writes PERCENT, too",
            ));
        }
        let all = [
            (GET, lookups * (1.0 - misses)),
            (MISS, lookups * misses),
            (RANGE, ranges),
            (WRITE, writes),
        ];
        let done = all.into_iter().filter(|(_, share)| *share > 0.0);
        let distribution = args.distribution.as_deref().map(str::parse::<Distribution>);
        Ok(Usage {
            shares: done.map(|(name, share)| (name.to_owned(), share)).collect(),
            writes,
            ranges,
            misses,
            batches: args.batches,
            processes: args.processes.unwrap_or(1).into(),
            sync: args.sync,
            distribution: distribution.transpose()?.unwrap_or_default().to_string(),
        })
    }

    fn traced(args: &AdviseArgs, script: &Script, trace: &Trace) -> Result<Usage> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let (mut all, mut writes, mut ranges) = (0_u64, 0_u64, 0_u64);
        for step in &script.steps {
            *counts.entry(step.name().to_owned()).or_default() += 1;
            if matches!(step.what, Do::Begin | Do::Commit) {
                continue;
            }
            all += 1;
            writes += u64::from(step.what.is_change());
            let in_order = step.what == Do::Seek || step.what == Do::Scan && step.key.is_some();
            ranges += u64::from(in_order);
        }
        let (mut processes, mut sync) = (BTreeSet::new(), args.sync);
        let (mut lookups, mut missed) = (0_u64, 0_u64);
        for entry in trace.entries() {
            let entry = entry?;
            processes.insert(entry.process);
            sync |= entry.action == Action::Operation(Operation::CommitSync);
            if matches!(entry.action, Action::Operation(Operation::Get) | Action::Key) {
                lookups += 1;
                missed += u64::from(entry.outcome == Outcome::Miss);
            }
        }
        let part = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let batched = script.steps.iter().any(|step| matches!(step.what, Do::GetMany { .. }));
        Ok(Usage {
            shares: counts.into_iter().map(|(name, n)| (name, part(n, all))).collect(),
            writes: part(writes, all),
            ranges: part(ranges, all),
            misses: part(missed, lookups),
            batches: batched,
            processes: processes.len(),
            sync: sync && writes > 0,
            distribution: "as recorded".to_owned(),
        })
    }

    /// Whether this is ever done.
    pub(super) fn does(&self, operation: &str) -> bool {
        self.shares.contains_key(operation)
    }

    /// How often this is done, in ten thousand operations.
    pub(super) fn weight(&self, operation: &str) -> u32 {
        self.shares.get(operation).map_or(0, |share| (share * 10_000.0).round() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        advise: AdviseArgs,
    }

    fn told(options: &str) -> Result<Usage> {
        let words = ["advise", "--data", "x"].into_iter().chain(options.split_whitespace());
        Usage::told(
            &Program::try_parse_from(words).map_err(|e| Error::invalid(e.to_string()))?.advise,
        )
    }

    #[test]
    fn parts_are_of_all_operations() {
        let usage = told("--writes 20 --ranges 30 --misses 40").unwrap();
        for (operation, weight) in [(GET, 3000), (MISS, 2000), (RANGE, 3000), (WRITE, 2000)] {
            assert_eq!(usage.weight(operation), weight, "{operation}");
        }
        let usage = told("").unwrap();
        assert!(usage.does(GET) && usage.shares.len() == 1 && usage.processes == 1);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (options, says) in [
            ("--writes 60 --ranges 50", "together over 100 percent"),
            ("--writes 100 --misses 5", "leave none"),
            ("--ranges 100 --batches", "leave none"),
            ("--sync", "there are none"),
            ("--writes 0 --sync", "there are none"),
            ("--writes 101", "101"),
            ("--misses=-1", "-1"),
            ("--processes 0", "0"),
            ("--distribution normal", "there is no distribution"),
        ] {
            let refused = told(options).unwrap_err().to_string();
            assert!(refused.contains(says), "{options}: {refused}");
        }
    }
}
