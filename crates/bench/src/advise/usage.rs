//! How the data are used: how often what is done, by how many, and what must be safe when.

use super::AdviseArgs;
use super::class::Class;
use super::look::Subject;
use crate::replay::{Do, Script};
use crate::report::text;
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
    /// When a change is safe against the loss of power.
    pub(super) durability: Class,
    /// Whether a change must be on the disk when its call returns.
    pub(super) sync: bool,
    /// Who says so: the user ("asked"), or the trace ("recorded"); `None` where it is to be advised.
    pub(super) told: Option<&'static str>,
    /// Changes in the busiest second, where that is known.
    pub(super) changes_per_second: Option<f64>,
    /// Changes in a transaction on average, at least 1.
    pub(super) changes_together: usize,
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
        let about_changes = [
            (args.sync, "--sync"),
            (args.durability.is_some(), "--durability"),
            (args.rate.is_some(), "--rate"),
        ];
        if let Some((_, option)) =
            about_changes.iter().find(|(is_given, _)| *is_given && writes == 0.0)
        {
            return Err(Error::invalid(format!(
                "{option} is about changes, of which there are none: say --writes PERCENT, too"
            )));
        }
        let all = [
            (GET, lookups * (1.0 - misses)),
            (MISS, lookups * misses),
            (RANGE, ranges),
            (WRITE, writes),
        ];
        let done = all.into_iter().filter(|(_, share)| *share > 0.0);
        let distribution = args.distribution.as_deref().map(str::parse::<Distribution>);
        let class = asked(args)?;
        let usage = Usage {
            shares: done.map(|(name, share)| (name.to_owned(), share)).collect(),
            writes,
            ranges,
            misses,
            batches: args.batches,
            processes: args.processes.unwrap_or(1).into(),
            durability: Class::Buffered,
            sync: false,
            told: class.map(|_| "asked"),
            changes_per_second: args.rate,
            changes_together: 1,
            distribution: distribution.transpose()?.unwrap_or_default().to_string(),
        };
        Ok(usage.with(class.unwrap_or_default()))
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
        let (mut processes, mut is_synced, mut syncs) = (BTreeSet::new(), false, 0_u64);
        let (mut lookups, mut missed) = (0_u64, 0_u64);
        for entry in trace.entries() {
            let entry = entry?;
            processes.insert(entry.process);
            let is_done = entry.outcome != Outcome::Failed;
            is_synced |= is_done && entry.action == Action::Operation(Operation::CommitSync);
            syncs += u64::from(is_done && entry.action == Action::Operation(Operation::Sync));
            if matches!(entry.action, Action::Operation(Operation::Get) | Action::Key) {
                lookups += 1;
                missed += u64::from(entry.outcome == Outcome::Miss);
            }
        }
        let part = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let batched = script.steps.iter().any(|step| matches!(step.what, Do::GetMany { .. }));
        let changes: Vec<u64> = changes(script).collect();
        let recorded = match syncs {
            _ if is_synced => Some(Class::Sync),
            0 => None,
            syncs => {
                Some(Class::Every((changes.len() as f64 / syncs as f64).round().max(1.0) as usize))
            }
        };
        let (asked, has_changes) = (asked(args)?, !changes.is_empty());
        let told = asked.map(|_| "asked").or(recorded.map(|_| "recorded"));
        let usage = Usage {
            shares: counts.into_iter().map(|(name, n)| (name, part(n, all))).collect(),
            writes: part(writes, all),
            ranges: part(ranges, all),
            misses: part(missed, lookups),
            batches: batched,
            processes: processes.len(),
            durability: Class::Buffered,
            sync: false,
            told: told.filter(|_| has_changes),
            changes_per_second: busiest(&changes, script.span).filter(|_| has_changes),
            changes_together: together(script),
            distribution: "as recorded".to_owned(),
        };
        let class = asked.or(recorded).filter(|_| has_changes);
        Ok(usage.with(class.unwrap_or_default()))
    }

    /// The same use with changes of this class.
    pub(super) fn with(mut self, class: Class) -> Usage {
        (self.durability, self.sync) = (class, class == Class::Sync);
        self.shares.remove(Do::SYNC);
        if let Some(every) = class.every() {
            self.shares.insert(Do::SYNC.to_owned(), self.writes / every as f64);
        }
        self
    }

    /// The part of each operation in all of them; and of what comes besides, in relation to all of them: what begins
    /// and ends transactions, and calls of `sync` where they were not counted as operations.
    pub(super) fn shares_in_words(&self) -> [String; 2] {
        let is_of_transactions =
            |name: &str| [Do::Begin, Do::Commit].iter().any(|what| what.name() == name);
        let own = self.shares.iter().filter(|(name, _)| !is_of_transactions(name));
        let sync_is_beside = own.map(|(_, part)| part).sum::<f64>() > 1.0 + 1e-9;
        let is_beside = |(name, _): &(&String, &f64)| {
            is_of_transactions(name) || sync_is_beside && *name == Do::SYNC
        };
        let (beside, own): (Vec<_>, Vec<_>) = self.shares.iter().partition(is_beside);
        [own, beside].map(|all| {
            let words = all.iter().map(|(name, part)| format!("{name} {}", text::percent(**part)));
            words.collect::<Vec<_>>().join(", ")
        })
    }

    /// Whether it is to be advised when changes are safe.
    pub(super) fn wants_class(&self) -> bool {
        self.writes > 0.0 && self.told.is_none()
    }

    /// A use that does nothing else.
    #[cfg(test)]
    pub(super) fn only(operation: &str) -> Usage {
        Usage {
            shares: BTreeMap::from([(operation.to_owned(), 1.0)]),
            writes: 0.0,
            ranges: 0.0,
            misses: 0.0,
            batches: false,
            processes: 1,
            durability: Class::Buffered,
            sync: false,
            told: None,
            changes_per_second: None,
            changes_together: 1,
            distribution: "uniform".to_owned(),
        }
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

/// The class that the user asks for.
fn asked(args: &AdviseArgs) -> Result<Option<Class>> {
    match args.sync {
        true => Ok(Some(Class::Sync)),
        false => args.durability.as_deref().map(str::parse).transpose(),
    }
}

/// When the changes of a script were made, those that begin or end a transaction not among them.
fn changes(script: &Script) -> impl Iterator<Item = u64> {
    let is_change = |what: Do| what.is_change() && !matches!(what, Do::Begin | Do::Commit);
    script.steps.iter().filter(move |step| is_change(step.what)).map(|step| step.time)
}

/// How many of these are in the second that has most of them, in nanoseconds and of so many nanoseconds; what
/// takes less than a second goes on as it began.
fn busiest(times: &[u64], span: u64) -> Option<f64> {
    const SECOND: u64 = 1_000_000_000;
    if span < SECOND {
        return (span > 0).then(|| times.len() as f64 * SECOND as f64 / span as f64);
    }
    let mut times = times.to_vec();
    times.sort_unstable();
    let mut first = 0;
    let in_second = times.iter().enumerate().map(|(i, time)| {
        while times[first] + SECOND <= *time {
            first += 1;
        }
        i + 1 - first
    });
    in_second.max().map(|most| most as f64)
}

/// Changes of a transaction on average, of all that have a change in them.
fn together(script: &Script) -> usize {
    let (mut changes, mut commits, mut within) = (0_u64, 0_u64, None);
    for step in &script.steps {
        match (step.what, &mut within) {
            (Do::Begin, _) => within = Some(0_u64),
            (Do::Commit, Some(own)) => {
                commits += u64::from(*own > 0);
                within = None;
            }
            (what, open) if what.is_change() => {
                changes += 1;
                match open {
                    Some(own) => *own += 1,
                    None => commits += 1,
                }
            }
            _ => {}
        }
    }
    (changes as f64 / commits.max(1) as f64).round().max(1.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::script::Step;
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
    fn a_class_that_is_asked_for_is_taken_and_else_one_is_wanted() {
        let class = |options: &str| {
            let usage = told(options).unwrap();
            (usage.durability, usage.told, usage.wants_class())
        };
        assert_eq!(class(""), (Class::Buffered, None, false));
        assert_eq!(class("--writes 5"), (Class::Buffered, None, true));
        assert_eq!(class("--writes 5 --rate 70"), (Class::Buffered, None, true));
        assert_eq!(class("--writes 5 --sync"), (Class::Sync, Some("asked"), false));
        let buffered = (Class::Buffered, Some("asked"), false);
        assert_eq!(class("--writes 5 --durability buffered"), buffered);
        let every = told("--writes 50 --durability 20").unwrap();
        assert_eq!((every.durability, every.shares[Do::SYNC]), (Class::Every(20), 0.025));
        let synced = every.with(Class::Sync);
        assert!(synced.sync && !synced.does(Do::SYNC));
    }

    #[test]
    fn what_comes_besides_is_told_apart() {
        let of = |shares: &[(&str, f64)]| {
            let shares = shares.iter().map(|(name, part)| ((*name).to_owned(), *part)).collect();
            Usage { shares, ..Usage::only(GET) }.shares_in_words()
        };
        let third = 1.0 / 3.0;
        let [own, beside] = of(&[("begin", third), ("commit", third), ("insert", 1.0)]);
        assert_eq!((&*own, &*beside), ("insert 100 %", "begin 33.3 %, commit 33.3 %"));
        let [own, beside] = of(&[("get", 0.5), ("sync", 0.005), ("write", 0.5)]);
        assert_eq!((&*own, &*beside), ("get 50 %, write 50 %", "sync 0.5 %"));
        let [own, beside] = of(&[("insert", 0.9), ("sync", 0.1)]);
        assert_eq!((&*own, &*beside), ("insert 90 %, sync 10 %", ""));
    }

    #[test]
    fn the_busiest_second_is_found_wherever_it_begins() {
        let ms = |times: &[u64]| -> Vec<u64> { times.iter().map(|ms| ms * 1_000_000).collect() };
        // Three within 700 ms, over the end of a second.
        let times = ms(&[0, 800, 1200, 1500, 2900]);
        assert_eq!(busiest(&times, 3_000_000_000), Some(3.0));
        assert_eq!(busiest(&ms(&[0, 1000, 2000]), 2_000_000_000), Some(1.0));
        assert_eq!(busiest(&ms(&[0, 100]), 100_000_000), Some(20.0));
        assert_eq!(busiest(&[], 2_000_000_000), None);
        assert_eq!(busiest(&[0], 0), None);
    }

    #[test]
    fn transactions_without_a_change_do_not_count() {
        let of = |steps: &[Do]| {
            let step = |what: &Do| Step {
                time: 0,
                what: *what,
                key: Some(0),
                value_len: 0,
                items: 0,
                was_there: None,
            };
            together(&Script { steps: steps.iter().map(step).collect(), ..Script::default() })
        };
        use Do::{Begin, Commit, Get, Insert, Remove};
        assert_eq!(of(&[Begin, Insert, Remove, Insert, Commit, Insert]), 2);
        assert_eq!(of(&[Begin, Get, Commit, Begin, Insert, Insert, Insert, Commit]), 3);
        assert_eq!(of(&[Get, Insert]), 1);
        assert_eq!(of(&[]), 1);
    }

    /// Names the folder that a process works in which records what it does.
    const FOLDER: &str = "CREDENZA_TEST_FOLDER";

    /// The use that the trace of a process tells that has done what this test does.
    fn traced(test: &str, options: &str) -> Usage {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("advise::usage::tests::{test}")]);
        let done =
            command.env("CREDENZA_RECORD", &path).env(FOLDER, folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        let trace = Trace::open(&path).unwrap();
        let words = ["advise", "--data", "x"].into_iter().chain(options.split_whitespace());
        let args = Program::try_parse_from(words).unwrap().advise;
        Usage::traced(&args, &Script::of(&trace).unwrap(), &trace).unwrap()
    }

    #[test]
    fn calls_of_sync() {
        let Some(folder) = std::env::var_os(FOLDER) else { return };
        let store = credenza::hash::Hash::create(std::path::Path::new(&folder).join("h")).unwrap();
        for i in 0..100_u8 {
            store.insert(&[i], b"value").unwrap();
            if i % 10 == 9 {
                store.sync().unwrap();
            }
        }
    }

    #[test]
    fn transactions_that_are_synced() {
        let Some(folder) = std::env::var_os(FOLDER) else { return };
        let options = credenza::btree::BTree::options().create(true);
        let options = options.durability(credenza::Durability::Sync);
        let store = options.open(std::path::Path::new(&folder).join("b")).unwrap();
        for i in 0..6_u8 {
            let mut transaction = store.write().unwrap();
            for k in 0..5 {
                transaction.main().insert(&[i, k], b"value").unwrap();
            }
            transaction.commit().unwrap();
        }
    }

    #[test]
    fn lookups_and_changes() {
        let Some(folder) = std::env::var_os(FOLDER) else { return };
        let store = credenza::hash::Hash::create(std::path::Path::new(&folder).join("h")).unwrap();
        for i in 0..10_u8 {
            store.insert(&[i], b"value").unwrap();
            store.get_with(&[i], |_| ()).unwrap();
        }
    }

    #[test]
    fn a_trace_tells_what_durability_the_program_used() {
        let called = traced("calls_of_sync", "");
        assert_eq!((called.durability, called.told), (Class::Every(10), Some("recorded")));
        assert!((called.shares[Do::SYNC] - 0.1).abs() < 1e-9 && !called.wants_class());
        let synced = traced("transactions_that_are_synced", "");
        assert_eq!((synced.durability, synced.told), (Class::Sync, Some("recorded")));
        assert_eq!(synced.changes_together, 5);
        let silent = traced("lookups_and_changes", "");
        assert!(silent.wants_class() && silent.changes_per_second > Some(0.0), "{silent:?}");
        // Who asks for something else gets it.
        let asked = traced("calls_of_sync", "--durability buffered");
        assert_eq!((asked.durability, asked.told), (Class::Buffered, Some("asked")));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (options, says) in [
            ("--writes 60 --ranges 50", "together over 100 percent"),
            ("--writes 100 --misses 5", "leave none"),
            ("--ranges 100 --batches", "leave none"),
            ("--sync", "there are none"),
            ("--writes 0 --sync", "there are none"),
            ("--rate 5", "--rate is about changes"),
            ("--durability 5", "--durability is about changes"),
            ("--writes 5 --durability often", "not 'often'"),
            ("--writes 5 --durability 5 --sync", "cannot be used with"),
            ("--writes 5 --sync --rate 5", "cannot be used with"),
            ("--writes 5 --rate nan", "nan"),
            ("--writes 5 --rate 0", "0"),
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
