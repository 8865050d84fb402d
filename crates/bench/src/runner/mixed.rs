//! A phase `mixed`: the steps of a script, in turn.
//!
//! A first, untimed run compares every answer with the model; the timed ones, what they add up to.
//! All runs begin with a new store that holds the records and, of several mixes, what those before it
//! have left. [`super::together`] has the same by several processes or threads.

use super::beside::{self, Scanned};
use super::changes::{Outcome, Watch, Work, check_keys};
use super::child::Round;
use super::passes::{self, Total};
use super::protocol::{Sample, Spec};
use super::singly::Singly;
use crate::driver::{Driver, Shape, Store, Writer};
use crate::measure::Latencies;
use crate::workload::changes::{Beside, Model, Script, Step};
use crate::workload::transactions::Transactions;
use crate::workload::{Action, Content, Inputs, Mix, Phase};
use credenza::{Error, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Latencies in nanoseconds with their counts, by the names of the kinds of steps.
pub(super) type StepLatencies = BTreeMap<String, Vec<(u64, u64)>>;

/// Those of several rounds, or of several who do it, as one.
pub(super) fn merged<'a>(
    all: impl Iterator<Item = &'a StepLatencies>,
) -> BTreeMap<&'a str, Latencies> {
    let mut merged: BTreeMap<&str, Latencies> = BTreeMap::new();
    for (name, counts) in all.flatten() {
        merged.entry(name).or_insert_with(|| Latencies::new(0.0)).merge(counts);
    }
    merged
}

/// Latencies by kinds, as other processes are told of them.
pub(super) fn counts(of_kinds: BTreeMap<&str, Latencies>) -> StepLatencies {
    of_kinds.into_iter().map(|(name, of)| (name.to_owned(), of.counts())).collect()
}

impl<D: Driver> Round<'_, D> {
    /// One of the mixes, after those before it.
    pub(super) fn mixed(&self, phase: Phase) -> Result<Sample> {
        self.with_script(phase, |round, mix, script| round.mix(phase, mix, script))
    }

    /// Does `work` with one of the mixes and its steps, in a round that has done those before it.
    pub(super) fn with_script<T>(
        &self,
        phase: Phase,
        work: impl FnOnce(&Round<'_, D>, &Mix, Script) -> Result<T>,
    ) -> Result<T> {
        let Inputs { records, fresh, queries, .. } = self.inputs;
        let Spec { mixes, seed, .. } = self.spec;
        let mut scripts = mixes.scripts(phase, records, fresh, queries.hit.len(), *seed);
        let (Some(mix), Some(script)) = (mixes.of(phase), scripts.pop()) else {
            return Err(Error::invalid(format!("the workload has no mix for '{phase}'")));
        };
        // Stores will hold further keys, too.
        let shape = Shape { duplicates: mixes.duplicates(), ..self.shape.with(fresh) };
        let round = Round { shape, path: self.path.clone(), before: &scripts, ..*self };
        work(&round, mix, script)
    }

    fn mix(&self, phase: Phase, mix: &Mix, mut script: Script) -> Result<Sample> {
        let transactions = mix.transactions;
        if let Some(seconds) = mix.stop.seconds {
            let time = Duration::from_secs(seconds);
            let in_time = || steps_in(self.new_store(phase, true)?, &script, transactions, time);
            let done = self.spec.done_in_time.map_or_else(in_time, Ok)?;
            script.truncate(done);
        }
        let new_model = || begun(self.inputs, mix, self.before);
        let Expected { outcome, found, commits, after } =
            expected(&script, transactions, new_model());
        let work = Mixed { steps: Steps::alone(&script, transactions, outcome), commits, after };

        let mut checked = Sample::new(phase, script.len());
        let mut store = self.new_store(phase, true)?;
        checked.wrong = check(&mut store, &script, transactions, new_model(), None)?;
        self.finish(store, &work, work.content(), &mut checked)?;
        let sample = self.measure(phase, &work)?;
        let (operation_latencies, wrong) = match self.spec.latencies {
            true => self.latencies(phase, &work)?,
            false => (StepLatencies::new(), None),
        };
        let lookups = script.lookups() as u64;
        let mut at_rate = None;
        if let Some(rate) = &self.spec.rate {
            script.truncate(rate.operations(script.len()));
            let Expected { outcome, commits, after, .. } =
                expected(&script, transactions, new_model());
            let steps = Steps::alone(&script, transactions, outcome);
            let work = Mixed { steps, commits, after };
            at_rate = Some(self.mixed_at_rate(phase, rate, &work)?);
        }
        let wrong_at_rate = at_rate.as_ref().and_then(|at_rate| at_rate.wrong.clone());
        Ok(Sample {
            found: (lookups > 0).then_some(found),
            lookups,
            operation_latencies,
            wrong: checked.wrong.or(sample.wrong.clone()).or(wrong).or(wrong_at_rate),
            at_rate,
            ..sample
        })
    }

    /// Times single steps on a store of their own: their latencies, kind by kind, and what is wrong
    /// with the sum of the answers, in words.
    fn latencies(&self, phase: Phase, work: &Mixed<'_>) -> Result<(StepLatencies, Option<String>)> {
        let mut store = self.new_store(phase, true)?;
        let (latencies, wrong) = work.steps.one_by_one(&mut store, self.spec)?;
        let wrong = match wrong {
            None => check_keys(&mut store, work)?,
            wrong => wrong,
        };
        store.close()?;
        Ok((latencies, wrong))
    }
}

/// How many steps are done in this time on a store of their own, at least one. The timed runs do as many, so
/// that it is known what they must add up to.
pub(super) fn steps_in<W: Writer>(
    mut store: W,
    script: &Script,
    transactions: Option<Transactions>,
    time: Duration,
) -> Result<usize> {
    // One that reads everything may take as long as all others together.
    let has_table_scans = script.iter().any(|(step, ..)| step.action == Action::TableScan);
    let looks_every = if has_table_scans { 1 } else { 64 };
    let (start, mut outcome) = (Instant::now(), Outcome::default());
    let goes_on = |i: usize| i == 0 || !i.is_multiple_of(looks_every) || start.elapsed() < time;
    let done = do_steps(&mut store, script, transactions, &mut outcome, &mut (), goes_on)?;
    store.close().map(|()| done)
}

/// A store that holds all records, and what the mixes before have left, for what this one does with it.
pub(super) fn begun<'a>(inputs: &'a Inputs, mix: &Mix, before: &[Script]) -> Model<'a> {
    let mut model = Model::of(&inputs.records, &inputs.fresh, mix);
    before.iter().for_each(|script| model.apply_all(script));
    model
}

/// Does what `each` does with every step, in transactions if they are asked for, until `goes_on` says
/// no; returns how many steps were done.
#[inline(always)]
fn in_transactions<W: Writer>(
    store: &mut W,
    script: &Script,
    transactions: Option<Transactions>,
    mut goes_on: impl FnMut(usize) -> bool,
    mut each: impl FnMut(&mut W, usize, (Step, &[u8], &[u8])) -> Result<()>,
) -> Result<usize> {
    let (mut grouping, mut done) = (Grouping::new(transactions), 0);
    // A second loop that does not ask for transactions made both slower, by one to two nanoseconds a step.
    for step in script.iter() {
        if !goes_on(done) {
            break;
        }
        grouping.before(store)?;
        each(store, done, step)?;
        done += 1;
        grouping.after(store)?;
    }
    grouping.end(store)?;
    Ok(done)
}

/// Where a run is in its transactions of several operations; without such nothing is begun.
pub(super) struct Grouping {
    size: Option<usize>,
    /// Operations that the one that is open still takes; without any more than there will be, so that who asks
    /// for none counts down and has no other question in the loop.
    left: usize,
}

impl Grouping {
    pub(super) fn new(transactions: Option<Transactions>) -> Grouping {
        let size = transactions.and_then(Transactions::operations);
        Grouping { size, left: if size.is_some() { 0 } else { usize::MAX } }
    }

    /// Whether a transaction is to be begun for the operation that is to come.
    #[inline]
    pub(super) fn begins(&mut self) -> bool {
        if self.left > 0 {
            return false;
        }
        self.left = self.size.unwrap_or(usize::MAX);
        true
    }

    /// Whether the operation that has ended was the last one of its transaction.
    #[inline]
    pub(super) fn ends(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// Whether there is a transaction to be committed, as no other operation comes.
    pub(super) fn is_open_at_end(&mut self) -> bool {
        self.size.is_some() && std::mem::take(&mut self.left) > 0
    }

    /// An operation is to come.
    #[inline]
    pub(super) fn before<W: Writer>(&mut self, store: &mut W) -> Result<()> {
        if self.begins() { store.begin() } else { Ok(()) }
    }

    /// An operation has ended.
    #[inline]
    pub(super) fn after<W: Writer>(&mut self, store: &mut W) -> Result<()> {
        if self.ends() { store.commit() } else { Ok(()) }
    }

    /// No other one comes.
    pub(super) fn end<W: Writer>(&mut self, store: &mut W) -> Result<()> {
        if self.is_open_at_end() { store.commit() } else { Ok(()) }
    }
}

/// What the model says that comes of a script.
pub(super) struct Expected<'a> {
    /// What its answers add up to.
    pub(super) outcome: Outcome,
    /// Lookups that find something.
    pub(super) found: u64,
    /// Transactions that change something, and changes that are in none of several: a lookup commits nothing,
    /// nor does the removal of a key that is not there.
    pub(super) commits: usize,
    /// The model after it.
    pub(super) after: Model<'a>,
}

pub(super) fn expected<'a>(
    script: &Script,
    transactions: Option<Transactions>,
    mut model: Model<'a>,
) -> Expected<'a> {
    let (mut outcome, mut found, mut commits) = (Outcome::default(), 0, 0);
    let size = transactions.and_then(Transactions::operations).unwrap_or(1);
    let mut last_commit = None;
    // What all records add up to, told to go on: to add them up anew would take as long as each table scan.
    let is_all_read = script.iter().any(|(step, ..)| step.action == Action::TableScan);
    let mut all = is_all_read.then(|| Total::of_model(&model));
    for (i, (step, ..)) in script.iter().enumerate() {
        let now = model.now(step.item as usize);
        let changes = step.action.stores() || step.action == Action::Remove && now.is_some();
        if changes && last_commit.replace(i / size) != Some(i / size) {
            commits += 1;
        }
        match step.action {
            Action::Get | Action::ReadModifyWrite => {
                found += u64::from(now.is_some());
                now.iter().for_each(|value| outcome.total.add(value));
            }
            Action::Remove => outcome.removed += u64::from(now.is_some()),
            Action::Scan => {
                let range = model.range(step.item as usize).take(step.scan_len as usize);
                range.for_each(|(_, value)| outcome.scanned.add(&value));
            }
            Action::TableScan => all.iter().for_each(|all| outcome.scanned += *all),
            Action::Insert | Action::Update | Action::Add => {}
        }
        let of_item = all.is_some() && step.action.changes();
        if let Some(all) = all.as_mut().filter(|_| of_item) {
            model.values(step.item as usize).for_each(|value| all.take_away(&value));
            model.apply(step);
            model.values(step.item as usize).for_each(|value| all.add(&value));
        } else {
            model.apply(step);
        }
    }
    Expected { outcome, found, commits, after: model }
}

/// Does every step and compares every answer with the model, as far as others who change the store `beside`
/// allow; returns what is wrong first, in words.
pub(super) fn check<W: Writer>(
    store: &mut W,
    script: &Script,
    transactions: Option<Transactions>,
    mut model: Model<'_>,
    beside: Option<&Beside>,
) -> Result<Option<String>> {
    let mut wrong = None;
    in_transactions(
        store,
        script,
        transactions,
        |_| true,
        |store, i, (step, key, value)| {
            // The first wrong answer is told; what comes after it is done, and compared with nothing.
            if wrong.is_some() {
                return do_step(store, (step, key, value), &mut Outcome::default());
            }
            let what = wrong_step(store, (step, key, value), &model, beside)?;
            wrong = what.map(|what| format!("step {i}, {what}"));
            model.apply(step);
            Ok(())
        },
    )?;
    // The sums that all runs are compared by do not know the order of a key's values.
    let has_order = wrong.is_none() && model.has_duplicates();
    if let Some(lowest) = model.lowest().filter(|_| has_order) {
        let what = wrong_range(store, model.key(lowest), usize::MAX, model.range(lowest), beside)?;
        wrong = what.map(|what| format!("afterwards: {what}"));
    }
    Ok(wrong)
}

/// Does one step; returns what is wrong with the answer, in words.
fn wrong_step<W: Writer>(
    store: &mut W,
    (step, key, value): (Step, &[u8], &[u8]),
    model: &Model<'_>,
    beside: Option<&Beside>,
) -> Result<Option<String>> {
    let item = step.item as usize;
    match step.action {
        Action::Get => passes::wrong_answer(store, key, model.now(item).as_deref()),
        Action::Insert | Action::Update => store.insert(key, value).map(|()| None),
        Action::Add => store.add(key, value).map(|()| None),
        Action::ReadModifyWrite => {
            let wrong = passes::wrong_answer(store, key, model.now(item).as_deref())?;
            store.insert(key, value).map(|()| wrong)
        }
        Action::Remove => {
            let removed = store.remove(key)?;
            let is_wrong = removed != model.now(item).is_some();
            Ok(is_wrong.then(|| format!("key '{}': removed is {removed}", key.escape_ascii())))
        }
        Action::Scan => {
            let range = model.range(item);
            wrong_range(store, key, step.scan_len as usize, range, beside)
        }
        Action::TableScan => match beside {
            Some(beside) => beside::wrong_scan(store, model, beside),
            None => passes::check_scan(store, model.content()),
        },
    }
}

fn wrong_range<'a, S: Store>(
    store: &mut S,
    from: &[u8],
    count: usize,
    expected: impl Iterator<Item = (&'a [u8], Cow<'a, [u8]>)>,
    beside: Option<&Beside>,
) -> Result<Option<String>> {
    match beside {
        Some(beside) => beside::wrong_range(store, from, count, expected, beside),
        None => passes::wrong_range(store, from, count, expected.take(count)),
    }
}

/// What is timed: every step, its answers added up.
///
/// One loop: with the step as a function of its own, each cost 1 to 3 ns more of the workbench's own.
#[inline(always)]
pub(super) fn do_steps<W: Writer>(
    store: &mut W,
    script: &Script,
    transactions: Option<Transactions>,
    outcome: &mut Outcome,
    watch: &mut impl Watch,
    goes_on: impl FnMut(usize) -> bool,
) -> Result<usize> {
    in_transactions(store, script, transactions, goes_on, |store, _, step| {
        do_step(store, step, outcome)?;
        watch.ended(step.0.action);
        Ok(())
    })
}

#[inline(always)]
pub(super) fn do_step<W: Writer>(
    store: &mut W,
    (step, key, value): (Step, &[u8], &[u8]),
    outcome: &mut Outcome,
) -> Result<()> {
    match step.action {
        Action::Get => {
            store.get(key, |value| outcome.total.add(value))?;
        }
        Action::Insert | Action::Update => store.insert(key, value)?,
        Action::Add => store.add(key, value)?,
        Action::Remove => outcome.removed += u64::from(store.remove(key)?),
        Action::Scan => {
            store.range(key, step.scan_len as usize, |_, value| outcome.scanned.add(value))?;
        }
        Action::ReadModifyWrite => {
            store.get(key, |value| outcome.total.add(value))?;
            store.insert(key, value)?;
        }
        Action::TableScan => outcome.scanned += passes::scan(store)?,
    }
    Ok(())
}

/// Does what a script changes, as a part of filling a store.
pub(super) fn do_changes<W: Writer>(store: &mut W, script: &Script) -> Result<()> {
    script.changes().try_for_each(|(step, key, value)| match step.action {
        Action::Remove => store.remove(key).map(drop),
        Action::Add => store.add(key, value),
        _ => store.insert(key, value),
    })
}

/// The steps of a script, or of the part of one that is dealt to one of several.
#[derive(Clone, Copy)]
pub(super) struct Steps<'a> {
    pub(super) script: &'a Script,
    pub(super) transactions: Option<Transactions>,
    /// What they add up to if every answer is right.
    pub(super) outcome: Outcome,
    /// Of what scans give only how much that may be, where others change the store meanwhile.
    pub(super) scanned: Option<Scanned>,
}

impl<'a> Steps<'a> {
    /// Those that one does with a store of its own.
    pub(super) fn alone(
        script: &'a Script,
        transactions: Option<Transactions>,
        outcome: Outcome,
    ) -> Steps<'a> {
        Steps { script, transactions, outcome, scanned: None }
    }

    /// What is wrong with what they add up to, in words, of a run that is named with a comma behind.
    pub(super) fn unlike(&self, outcome: Outcome, run: &str) -> Option<String> {
        let expected = self.outcome;
        if let Some(scanned) = self.scanned {
            let counted = outcome.scanned.found;
            let known = Outcome { scanned: expected.scanned, ..outcome };
            let is_right = known == expected && scanned.has(counted);
            let what = || {
                let of = format!("{run}the steps add up to {outcome:?}, not {expected:?}");
                format!("{of}, scans to {counted} records, which may be {scanned:?}")
            };
            return (!is_right).then(what);
        }
        (outcome != expected)
            .then(|| format!("{run}the steps add up to {outcome:?}, not {expected:?}"))
    }

    /// Does them all, some of them timed by themselves: the latencies of these, and what is wrong with the
    /// sum of the answers, in words.
    pub(super) fn one_by_one<W: Writer>(
        &self,
        store: &mut W,
        spec: &Spec,
    ) -> Result<(StepLatencies, Option<String>)> {
        let (mut outcome, mut all) = (Outcome::default(), BTreeMap::new());
        let mut which = if spec.cold { Singly::all() } else { Singly::some() };
        let each = |store: &mut W, _: usize, step: (Step, &[u8], &[u8])| {
            let start = which.takes_next().then(Instant::now);
            do_step(store, step, &mut outcome)?;
            if let Some(start) = start {
                let new = || Latencies::new(spec.clock_ns);
                all.entry(step.0.action.name()).or_insert_with(new).record_since(start);
            }
            Ok(())
        };
        in_transactions(store, self.script, self.transactions, |_| true, each)?;
        Ok((counts(all), self.unlike(outcome, "timed one by one, ")))
    }
}

/// All steps of a mix, and what a store holds after them.
pub(super) struct Mixed<'a> {
    pub(super) steps: Steps<'a>,
    pub(super) commits: usize,
    pub(super) after: Model<'a>,
}

impl Work for Mixed<'_> {
    const IS_FILLED: bool = true;

    fn operations(&self) -> usize {
        self.steps.script.len()
    }

    fn commits(&self) -> usize {
        self.commits
    }

    #[inline(never)]
    fn run<W: Writer, O: Watch>(&self, store: &mut W, watch: &mut O) -> Result<Outcome> {
        let (mut outcome, Steps { script, transactions, .. }) = (Outcome::default(), self.steps);
        do_steps(store, script, transactions, &mut outcome, watch, |_| true)?;
        Ok(outcome)
    }

    fn outcome(&self) -> Outcome {
        self.steps.outcome
    }

    fn keys(&self) -> usize {
        self.after.items()
    }

    fn after(&self, i: usize) -> (&[u8], Option<Cow<'_, [u8]>>) {
        (self.after.key(i), self.after.now(i))
    }

    fn content(&self) -> Content {
        self.after.content()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::mix;
    use super::*;
    use crate::workload::Workload;
    use std::collections::HashSet;

    /// Danger: what a commit costs is divided by operations that commit nothing, or by changes of which many are
    /// one commit.
    #[test]
    fn commits_are_the_transactions_that_change_something() {
        let found = Workload::find("tokens").unwrap();
        let mix = mix("get = 8\nupdate = 1\nremove = 3");
        let workload =
            Workload { records: Some(40), gets: 300, mixes: mix.clone().into(), ..found };
        let (Inputs { records, fresh, .. }, _) = Inputs::prepare(&workload).unwrap();
        let script = Script::draw(&records, &fresh, &mix, 300, 1);
        let mut there: HashSet<&[u8]> = records.iter().map(|(key, _)| key).collect();
        let changes: Vec<bool> = script
            .iter()
            .map(|(step, key, _)| match step.action {
                Action::Get => false,
                Action::Remove => there.remove(key),
                _ => {
                    there.insert(key);
                    true
                }
            })
            .collect();
        let removals = script.iter().filter(|(step, ..)| step.action == Action::Remove).count();
        let single = changes.iter().filter(|changes| **changes).count();
        let updates = script.changes().count() - removals;
        assert!(updates < single && single < updates + removals, "some were not there");
        let by = |size: usize| {
            changes.chunks(size).filter(|group| group.iter().any(|changes| *changes)).count()
        };
        assert!(by(7) < 300_usize.div_ceil(7) && by(7) < single);
        for (transactions, wanted) in [
            (None, single),
            (Some(Transactions::Each), single),
            (Some(Transactions::Every(7)), by(7)),
            (Some(Transactions::All), 1),
        ] {
            let model = Model::of(&records, &fresh, &mix);
            assert_eq!(expected(&script, transactions, model).commits, wanted, "{transactions:?}");
        }
        let none = Script::default();
        assert_eq!(expected(&none, None, Model::of(&records, &fresh, &mix)).commits, 0);
    }
}
