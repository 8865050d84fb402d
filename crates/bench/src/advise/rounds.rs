//! Measuring in turn: candidates with parts of the data, durability classes with one of them, settings
//! beside the same engine without them.
//!
//! Invariant: what is compared is measured in the same rounds, so that what disturbs one disturbs the other.

use super::AdviseArgs;
use super::candidates::Candidate;
use super::durability::{Agreed, CLASSES, Cost, Durability};
use super::figures::Trial;
use super::probe::Probe;
use super::rank;
use super::report::Report;
use super::settings::{self, Tried};
use super::trial::Lab;
use crate::progress;
use crate::rng::Rng;
use crate::workload::generate::stream;
use credenza::Result;
use std::time::Instant;

/// How often every candidate is measured with a part of the data, if there is time.
pub(super) const ROUNDS: usize = 3;

/// How much is measured.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) rounds: usize,
    /// When these are over nothing more is begun that would take longer.
    pub(super) seconds: f64,
    /// Of so many records one is in each of the parts, the smallest first.
    pub(super) parts: &'a [usize],
}

/// By candidate, by part, by round; of one that failed there is none.
pub(super) type Trials = Vec<Vec<Vec<Trial>>>;

/// The medians for each part.
pub(super) fn medians(trials: Trials) -> Vec<Vec<Trial>> {
    let of_parts =
        |parts: Vec<Vec<Trial>>| parts.iter().filter_map(|all| Trial::median(all)).collect();
    trials.into_iter().map(of_parts).collect()
}

/// Measures all candidates with all parts, in turn and again, as long as there is time.
pub(super) fn trials(
    args: &AdviseArgs,
    lab: &mut Lab<'_>,
    found: &[Candidate],
    Plan { rounds, seconds, parts }: Plan<'_>,
    report: &mut Report,
) -> Result<Trials> {
    let bar = progress::bar_unless(args.quiet, (rounds * parts.len() * found.len()) as u64);
    let mut trials = vec![vec![Vec::new(); parts.len()]; found.len()];
    let mut has_failed = vec![false; found.len()];
    let (begun, mut last) = (Instant::now(), vec![None; parts.len()]);
    'rounds: for round in 0..rounds {
        for (p, one_of) in parts.iter().enumerate() {
            // The next part takes as much longer as it is larger.
            let guess: Option<f64> = last[p].or_else(|| {
                let before = p.checked_sub(1)?;
                Some(last[before]? * parts[before] as f64 / *one_of as f64)
            });
            // From one part nobody knows what is fixed, and what grows: two are always measured.
            let must = round == 0 && p < 2;
            let is_over = |guess| begun.elapsed().as_secs_f64() + guess > seconds;
            if !must && guess.is_some_and(is_over) {
                if round == 0 {
                    report.note_skipped(&parts[p..]);
                }
                break 'rounds;
            }
            let start = Instant::now();
            let mut order: Vec<usize> = (0..found.len()).collect();
            let turn = (round * parts.len() + p) as u64;
            Rng::new(args.seed.wrapping_add(turn), stream::ROUNDS).shuffle(&mut order);
            for i in order {
                bar.set_message(format!("{} with one of {one_of} records", found[i].name()));
                if !has_failed[i] {
                    let measured = lab.measure(&found[i], *one_of)?;
                    report.interrupted = lab.folder().current().is_stopping();
                    match measured {
                        Ok(trial) => trials[i][p].push(trial),
                        // What a signal ended says nothing of the store.
                        Err(_) if report.interrupted => {}
                        Err(what) => {
                            has_failed[i] = true;
                            bar.suspend(|| report.fail(found[i].name(), what));
                        }
                    }
                }
                bar.inc(1);
                if report.interrupted {
                    break 'rounds;
                }
            }
            last[p] = Some(start.elapsed().as_secs_f64());
        }
    }
    bar.finish_and_clear();
    let unless_failed = |(of_parts, failed): (Vec<Vec<Trial>>, bool)| match failed {
        true => Vec::new(),
        false => of_parts,
    };
    let trials: Trials = trials.into_iter().zip(has_failed).map(unless_failed).collect();
    for (candidate, of_parts) in found.iter().zip(&trials) {
        report.note_measured(candidate, None, of_parts.concat());
    }
    Ok(trials)
}

/// Measures what each durability class costs with our own stores among these, and chooses one; those that
/// fail are not among what was measured. `None` where none is ours.
pub(super) fn durability(
    args: &AdviseArgs,
    lab: &mut Lab<'_>,
    found: &[Candidate],
    parts: &[usize],
    report: &mut Report,
) -> Result<Option<Agreed>> {
    let own: Vec<&Candidate> = found.iter().filter(|one| one.is_own()).collect();
    if own.is_empty() {
        report.note_no_class();
        return Ok(None);
    }
    let mut costs = vec![CLASSES.map(|_| Vec::new()); own.len()];
    let mut has_failed = vec![false; own.len()];
    let (begun, bar) =
        (Instant::now(), progress::bar_unless(args.quiet, (ROUNDS * own.len()) as u64));
    'rounds: for round in 0..ROUNDS {
        let took = begun.elapsed().as_secs_f64();
        if round > 0 && took + took / round as f64 > args.seconds / 2.0 {
            break;
        }
        for (i, store) in own.iter().enumerate() {
            for (class, all) in CLASSES.iter().zip(&mut costs[i]).filter(|_| !has_failed[i]) {
                bar.set_message(format!("{}: changes, {class}", store.name()));
                let changed = lab.changing(store, *class, parts[0])?;
                report.interrupted = lab.folder().current().is_stopping();
                match changed {
                    Err(_) if report.interrupted => break 'rounds,
                    Ok(figures) => all.push(Trial { records: 0, bytes: 0, figures }),
                    Err(what) => {
                        has_failed[i] = true;
                        bar.suspend(|| report.fail(store.name(), what));
                        break;
                    }
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    for (store, costs) in own.iter().zip(&costs) {
        for (class, all) in CLASSES.iter().zip(costs) {
            report.note_measured(store, Some(*class), all.clone());
        }
    }
    let measured = own.iter().zip(costs).zip(has_failed).filter(|(_, has_failed)| !has_failed);
    let of_store = |((store, costs), _): ((&&Candidate, [Vec<Trial>; 3]), bool)| {
        let cost = |(class, all): (_, &Vec<Trial>)| {
            Trial::median(all).map(|trial| Cost::of(class, trial.figures))
        };
        let costs = CLASSES.into_iter().zip(&costs).filter_map(cost).collect();
        Durability::choose(store.name(), costs, &report.usage)
    };
    Ok(Agreed::of(measured.filter_map(of_store).collect()))
}

/// Says how candidates with keys as numbers compare with the same without, as they were measured in turn.
pub(super) fn compare_keys(found: &[Candidate], trials: &Trials, report: &mut Report) {
    let all = || found.iter().zip(trials);
    for (with, own) in all().filter(|(with, _)| with.form.keys.is_some()) {
        let without = all().find(|(one, _)| one.store == with.store && one.form.keys.is_none());
        let Some((without, others)) = without else { continue };
        let tried = Tried::of([(with, own), (without, others)], None, &report.usage);
        report.tried.extend(tried.map(|tried| Tried { is_candidate: true, ..tried }));
    }
}

/// Tries the settings of engines that are close to the best; what is kept becomes a candidate.
pub(super) fn try_settings(
    args: &AdviseArgs,
    lab: &mut Lab<'_>,
    parts: &[usize],
    report: &mut Report,
    probe: &mut Probe,
) -> Result<()> {
    let times: Vec<(&Candidate, f64)> =
        report.candidates.iter().map(|r| (&r.candidate, r.ns_per_operation)).collect();
    let with = settings::to_try(&times);
    for (plain, candidate) in with {
        let plain = report.candidates[plain].candidate.clone();
        let three = [plain.clone(), plain, candidate];
        let plan = Plan { rounds: settings::ROUNDS, seconds: args.seconds, parts };
        let trials = trials(args, lab, &three, plan, report)?;
        if report.interrupted {
            break;
        }
        let [plain, again, own] = &trials[..] else { continue };
        let both = [(&three[2], &own[..]), (&three[0], &plain[..])];
        let Some(tried) = Tried::of(both, Some(again), &report.usage) else { continue };
        let is_kept = tried.is_kept;
        report.tried.push(tried);
        if is_kept {
            let [.., candidate] = three;
            let own = trials.into_iter().skip(2).collect();
            rank(vec![candidate], medians(own), report, probe);
        }
    }
    Ok(())
}
