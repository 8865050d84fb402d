//! What came of one fault on one store: counts, and a verdict in words.

use super::judge::Judged;
use crate::driver::{Fault, Promise};
use crate::report::text;
use crate::result::Machine;
use serde::Serialize;

/// The version of the JSON file, in `credenza_torture`.
pub(super) const CONTRACT: u32 = 1;
/// Troubles of a store that are told, each with its command; all are counted.
const TOLD: usize = 5;

/// Instead of a promise, where nothing happened to a store.
const NOT_TESTED: &str = "NOT TESTED";

/// Everything that is found, as JSON.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) credenza_torture: u32,
    pub(super) machine: Machine,
    pub(super) workload: String,
    /// How stores were to be set up, each as it is written.
    pub(super) settings: Vec<String>,
    pub(super) records: u64,
    /// All of a round, those that store the records included.
    pub(super) operations: usize,
    pub(super) seed: u64,
    pub(super) rounds: usize,
    /// What "full" was.
    pub(super) room: &'static str,
    pub(super) results: Vec<Outcome>,
    pub(super) failures: Vec<Failed>,
    pub(super) notes: Vec<String>,
    /// A signal ended it.
    pub(super) interrupted: bool,
}

/// A store that could not be run.
#[derive(Serialize)]
pub(super) struct Failed {
    pub(super) store: String,
    pub(super) what: String,
}

/// Something that was not as it should be.
#[derive(Clone, Serialize)]
pub(super) struct Trouble {
    pub(super) round: usize,
    pub(super) what: String,
    /// Does the round again.
    pub(super) command: String,
}

/// One store and one fault.
#[derive(Clone, Serialize)]
pub(super) struct Outcome {
    pub(super) store: String,
    pub(super) version: String,
    /// "sync" or "buffered".
    pub(super) class: &'static str,
    pub(super) fault: Fault,
    /// What the store is judged by.
    pub(super) promise: Promise,
    /// Whether its process may die by itself, see [`crate::driver::Driver::dies_when_full`].
    pub(super) may_die: bool,
    pub(super) rounds: usize,
    /// How often it was to happen: of each power cut several disks that it may leave.
    pub(super) faults_wanted: usize,
    /// How often it happened: not in a round in which there was space to the end at every size.
    pub(super) faults: usize,
    /// Whether it happened at all, or else the store failed before.
    pub(super) is_tested: bool,
    /// Stores that were looked at afterwards; where the disk was full, also after they went on.
    pub(super) looks: usize,
    /// Of all looks together: changes that had been acknowledged.
    pub(super) acknowledged: u64,
    /// Of these, not there any more.
    pub(super) lost: u64,
    /// Of the acknowledged ones, those of stores that could not be checked: whether they are lost is not known.
    pub(super) unchecked: u64,
    /// Of the looks, those that did not come to their end: the store said no, or the process died.
    pub(super) unchecked_looks: usize,
    /// Keys with values that they never had, and whatever else the store answers wrongly.
    pub(super) wrong: u64,
    /// Stores that are as they were at no moment.
    pub(super) torn: u64,
    /// Times that the store said no: it does not open, or an operation fails.
    pub(super) refused: u64,
    /// Times that its process died by itself, or did not come to an end.
    pub(super) crashed: u64,
    /// Whether what is promised was kept; not where nothing was tested.
    pub(super) is_kept: bool,
    pub(super) verdict: String,
    pub(super) troubles: Vec<Trouble>,
}

impl Outcome {
    pub(super) fn new(
        store: &str,
        version: &str,
        class: &'static str,
        fault: Fault,
        promise: Promise,
    ) -> Outcome {
        Outcome {
            store: store.to_owned(),
            version: version.to_owned(),
            class,
            fault,
            promise,
            may_die: false,
            rounds: 0,
            faults_wanted: 0,
            faults: 0,
            is_tested: false,
            looks: 0,
            acknowledged: 0,
            lost: 0,
            unchecked: 0,
            unchecked_looks: 0,
            wrong: 0,
            torn: 0,
            refused: 0,
            crashed: 0,
            is_kept: true,
            verdict: String::new(),
            troubles: Vec::new(),
        }
    }

    /// Counts what one look found; if the promise is broken, what it was.
    pub(super) fn add(&mut self, judged: Judged) -> Option<String> {
        self.looks += 1;
        self.acknowledged += judged.acknowledged;
        self.lost += judged.lost;
        self.wrong += judged.wrong;
        self.torn += u64::from(judged.is_torn);
        let is_damaged = judged.wrong > 0 || judged.is_torn;
        let is_broken = match self.promise {
            Promise::All => is_damaged || judged.lost > 0,
            Promise::Moment => is_damaged || judged.is_unsynced,
            Promise::Nothing => false,
        };
        is_broken.then(|| judged.what.unwrap_or_default())
    }

    /// A look did not come to its end, at a store to which so many changes had been acknowledged. A process that
    /// may die where the disk is full may not do so here, as there is space.
    pub(super) fn add_unchecked(
        &mut self,
        acknowledged: u64,
        is_crash: bool,
        what: String,
    ) -> Option<String> {
        self.looks += 1;
        self.unchecked_looks += 1;
        self.acknowledged += acknowledged;
        self.unchecked += acknowledged;
        let is_broken = self.promise != Promise::Nothing && acknowledged > 0;
        let broken = self.add_failure(is_crash, what.clone());
        broken.or(is_broken.then_some(what))
    }

    /// The store said no, or its process died.
    pub(super) fn add_failure(&mut self, is_crash: bool, what: String) -> Option<String> {
        if is_crash {
            self.crashed += 1
        } else {
            self.refused += 1
        };
        let is_allowed = self.promise == Promise::Nothing || is_crash && self.may_die;
        (!is_allowed).then_some(what)
    }

    /// Whatever was not as it should be so far, promised or not.
    pub(super) fn damage(&self) -> u64 {
        self.lost + self.wrong + self.torn + self.refused + self.crashed
    }

    pub(super) fn break_promise(&mut self, trouble: Trouble) {
        self.is_kept = false;
        if self.troubles.len() < TOLD {
            self.troubles.push(trouble);
        }
    }

    /// Nothing more will happen: says what it was.
    pub(super) fn end(&mut self) {
        self.is_tested = self.was_tested();
        self.verdict = self.in_words();
        self.is_kept &= self.is_tested;
    }

    fn was_tested(&self) -> bool {
        self.faults > 0 || self.refused + self.crashed > 0
    }

    /// What it is judged by, in a word; where nothing was tested it is not.
    pub(super) fn judged_by(&self) -> &'static str {
        if self.is_tested { self.promise.name() } else { NOT_TESTED }
    }

    /// Whether the store did not keep what it is judged by.
    pub(super) fn is_broken(&self) -> bool {
        self.is_tested && !self.is_kept
    }

    /// One sentence.
    fn in_words(&self) -> String {
        let Outcome { store, class, .. } = self;
        let counted = |count| match self.fault {
            Fault::Kill => text::counted(count, "kill"),
            Fault::Power => text::counted(count, "power cut"),
            Fault::Full => text::counted(count, "full disk"),
        };
        if !self.was_tested() {
            let why = match self.fault {
                _ if self.rounds == 0 => "no round was done",
                Fault::Full => "there was space enough at every size that was tried",
                _ => "nothing happened to it",
            };
            let wanted = counted(self.faults_wanted);
            return format!("{store} ({class}): {NOT_TESTED}: 0 of {wanted}, as {why}");
        }
        let times = match self.faults < self.faults_wanted {
            true => {
                format!("{} of {}", text::count(self.faults as u64), counted(self.faults_wanted))
            }
            false => counted(self.faults),
        };
        let acknowledged = text::counted(self.acknowledged as usize, "acknowledged change");
        let is_whole = self.lost + self.wrong + self.torn == 0;
        let mut parts = vec![match (is_whole, self.promise) {
            (true, _) if self.looks > 0 && self.unchecked_looks == 0 => {
                format!("kept every one of {acknowledged}")
            }
            (true, _) => {
                let kept = text::count(self.acknowledged - self.unchecked);
                format!("kept {kept} of {acknowledged}")
            }
            (false, Promise::Moment) if self.is_kept => format!(
                "was of one moment each time, and lost {} of {acknowledged} that nobody had synced",
                text::count(self.lost)
            ),
            (false, _) => {
                format!("lost {} of {acknowledged}", text::count(self.lost))
            }
        }];
        if self.unchecked > 0 {
            let unchecked = text::count(self.unchecked);
            parts[0] += &format!(" ({unchecked} were in stores that could not be checked)");
        }
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                parts.push(format!("{what} {}", text::counted(count as usize, "time")));
            }
        };
        say(self.wrong, "answered wrongly");
        say(self.torn, "was torn");
        say(self.refused, "refused");
        say(self.crashed, "died by itself");
        let parts = match parts.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} and {last}", others.join(", "))
            }
            _ => parts.concat(),
        };
        let promise = match (self.is_kept, self.promise) {
            (true, Promise::All | Promise::Moment) if self.may_die && self.crashed > 0 => {
                ", as it writes through a map"
            }
            (_, Promise::Nothing) => ", and promises nothing of it",
            (true, _) => "",
            (false, Promise::All) => ", and is to keep all",
            (false, Promise::Moment) => ", and is to be of one moment, none before the last sync",
        };
        format!("{store} ({class}): {parts} through {times}{promise}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(promise: Promise, lost: u64, is_torn: bool) -> (Outcome, bool) {
        let mut outcome = Outcome::new("it", "1", "buffered", Fault::Kill, promise);
        (outcome.faults_wanted, outcome.faults) = (1, 1);
        let judged = Judged { acknowledged: 1000, lost, is_torn, ..Judged::default() };
        let is_broken = outcome.add(judged).is_some();
        (outcome, is_broken)
    }

    #[test]
    fn a_loss_breaks_the_promise_to_keep_all_alone() {
        for (promise, lost, torn) in [
            (Promise::All, true, true),
            (Promise::Moment, false, true),
            (Promise::Nothing, false, false),
        ] {
            assert!(!outcome(promise, 0, false).1);
            assert_eq!(outcome(promise, 3, false).1, lost, "{promise:?}");
            assert_eq!(outcome(promise, 3, true).1, torn, "{promise:?}");
        }
        let mut unsynced = Outcome::new("it", "1", "buffered", Fault::Power, Promise::Moment);
        assert!(unsynced.add(Judged { is_unsynced: true, ..Judged::default() }).is_some());
        assert!(unsynced.add_failure(true, "SIGBUS".to_owned()).is_some());
        assert_eq!((unsynced.crashed, unsynced.refused), (1, 0));
        let mut mapped = Outcome::new("it", "1", "buffered", Fault::Full, Promise::All);
        mapped.may_die = true;
        assert!(mapped.add_failure(true, "SIGBUS".to_owned()).is_none());
        assert!(mapped.in_words().ends_with("as it writes through a map"), "{}", mapped.in_words());
        assert!(mapped.add_failure(false, "it does not open".to_owned()).is_some());
        assert!(mapped.add(Judged { lost: 1, ..Judged::default() }).is_some());
    }

    #[test]
    fn verdicts_say_what_was_kept_and_what_was_lost() {
        let (mut well, _) = outcome(Promise::All, 0, false);
        let words = "it (buffered): kept every one of 1,000 acknowledged changes through 1 kill";
        assert_eq!(well.in_words(), words);
        well.add_failure(true, String::new());
        assert!(well.in_words().contains("changes and died by itself 1 time through"));
        let (mut bad, _) = outcome(Promise::All, 7, true);
        bad.is_kept = false;
        assert_eq!(
            bad.in_words(),
            "it (buffered): lost 7 of 1,000 acknowledged changes and was torn 1 time through \
             1 kill, and is to keep all"
        );
        assert!(
            outcome(Promise::Nothing, 7, true).0.in_words().ends_with("promises nothing of it")
        );
        let mut some = outcome(Promise::All, 0, false).0;
        some.faults_wanted = 3;
        assert!(some.in_words().ends_with("changes through 1 of 3 kills"), "{}", some.in_words());
    }

    /// Danger: what nobody could look at counts as kept, or as if it had never been acknowledged.
    #[test]
    fn what_could_not_be_checked_was_not_kept() {
        let no = || "it does not open".to_owned();
        let mut some = outcome(Promise::Nothing, 0, false).0;
        assert_eq!(some.add_unchecked(666, false, no()), None);
        let counted = (some.looks, some.acknowledged, some.lost, some.unchecked, some.refused);
        assert_eq!(counted, (2, 1666, 0, 666, 1));
        assert_eq!(
            some.in_words(),
            "it (buffered): kept 1,000 of 1,666 acknowledged changes (666 were in stores that could not be \
             checked) and refused 1 time through 1 kill, and promises nothing of it"
        );
        let mut bad = outcome(Promise::All, 7, false).0;
        assert_eq!(bad.add_unchecked(10, true, no()), Some(no()));
        assert!(
            bad.in_words().contains(
                "lost 7 of 1,010 acknowledged changes (10 were in stores that could not be checked) and died"
            ),
            "{}",
            bad.in_words()
        );
        // Nothing was acknowledged: still nobody saw that all is there.
        let mut empty = Outcome::new("it", "1", "buffered", Fault::Full, Promise::All);
        (empty.faults, empty.may_die) = (1, true);
        assert!(!empty.in_words().contains("every one"), "{}", empty.in_words());
        assert_eq!(empty.add_unchecked(0, true, no()), None);
        assert!(empty.in_words().contains("kept 0 of 0 acknowledged"), "{}", empty.in_words());
        // That it may die where the disk is full is no excuse for what was acknowledged.
        assert_eq!(empty.add_unchecked(1, true, no()), Some(no()));
        for promise in [Promise::All, Promise::Moment] {
            assert!(outcome(promise, 0, false).0.add_unchecked(5, false, no()).is_some());
        }
    }

    /// Danger: who reads that a promise was kept takes it for one that was put to the test.
    #[test]
    fn what_never_happened_keeps_no_promise() {
        let mut none = Outcome::new("it", "1", "sync", Fault::Full, Promise::All);
        (none.rounds, none.faults_wanted) = (10, 10);
        none.end();
        assert_eq!(
            none.verdict,
            "it (sync): NOT TESTED: 0 of 10 full disks, as there was space enough at every size that was tried"
        );
        assert_eq!((none.judged_by(), none.is_tested), ("NOT TESTED", false));
        assert!(!none.is_kept && !none.is_broken());
        let mut once = Outcome { faults: 1, is_kept: true, ..none.clone() };
        once.end();
        assert_eq!((once.judged_by(), once.is_kept, once.is_broken()), ("all", true, false));
        let mut late = Outcome { rounds: 0, faults_wanted: 0, ..none };
        late.end();
        assert!(late.verdict.ends_with("NOT TESTED: 0 of 0 full disks, as no round was done"));
    }
}
