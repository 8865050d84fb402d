//! Who is compared with whom.
//!
//! One [`Comparison`] holds the results of one durability class: classes are never mixed, in no
//! table and no ratio. Terms: our engines are *own*, all other stores are *rivals*; the
//! *peers* of an engine are the rivals that can do what it does; the *baseline* is the store that
//! every other is put in relation to.

use super::stats::{self, Ratio, Verdict};
use crate::result::{Failure, PhaseResult, Report, StoreInfo};
use std::collections::HashMap;

/// The names of our own engines.
const OWN: [&str; 3] = ["constant", "hash", "btree"];

/// The results of one durability class.
pub struct Comparison<'a> {
    /// The class: "buffered", "sync" or "at-close".
    pub class: &'a str,
    /// The stores that have results, in the report's order.
    pub stores: Vec<&'a str>,
    /// The phases that have results, in the report's order.
    pub phases: Vec<&'a str>,
    /// The store all others are put in relation to: the one asked for, or the first.
    pub baseline: &'a str,
    results: HashMap<(&'a str, &'a str), &'a PhaseResult>,
    infos: &'a [StoreInfo],
    /// The noise floor of each phase.
    floors: HashMap<&'a str, f64>,
}

/// What can be done with the records of a store: each has what those before it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// They are looked up, and never changed.
    BuiltOnce,
    Changed,
    /// They are in order, too.
    Ordered,
}

impl Kind {
    fn of(info: &StoreInfo) -> Kind {
        match info.changes_class {
            None => Kind::BuiltOnce,
            Some(_) if info.lacks.iter().any(|phase| phase == "range") => Kind::Changed,
            Some(_) => Kind::Ordered,
        }
    }
}

/// One of our engines against the fastest of its peers in a phase.
pub struct Headline<'a> {
    /// The phase.
    pub phase: &'a str,
    /// The fastest rival's name.
    pub rival: &'a str,
    /// How many times as fast as that rival our engine is.
    pub ratio: Ratio,
}

/// Whether a store of this name is one of our engines.
pub fn is_own(store: &str) -> bool {
    OWN.contains(&store)
}

/// The phases whose answers were not all right, each as a sentence; what the report already
/// lists as a failure is left out.
pub fn wrong_answers(report: &Report) -> Vec<String> {
    let listed = |r: &PhaseResult| {
        let same = |f: &Failure| f.store == r.store && f.phase.as_ref() == Some(&r.phase);
        report.failures.iter().any(|f| same(f) && f.status == "wrong-answer")
    };
    let wrong = report.results.iter().filter(|r| !r.verified && !listed(r));
    let sentence = |r: &PhaseResult| {
        let first = r.notes.first().map(|note| format!(" ({note})")).unwrap_or_default();
        format!("{}, {}: wrong answers; its figures are in no ratio{first}", r.store, r.phase)
    };
    wrong.map(sentence).collect()
}

impl<'a> Comparison<'a> {
    /// The comparisons that a report allows, class by class in order of appearance.
    pub fn of(report: &'a Report) -> Vec<Comparison<'a>> {
        let mut classes: Vec<&str> = Vec::new();
        for result in &report.results {
            push_new(&mut classes, &result.class);
        }
        classes.into_iter().map(|class| Self::of_class(report, class)).collect()
    }

    fn of_class(report: &'a Report, class: &'a str) -> Comparison<'a> {
        let (mut measured, mut phases) = (Vec::new(), Vec::new());
        let mut results = HashMap::new();
        for result in report.results.iter().filter(|r| r.class == class) {
            push_new(&mut measured, &result.store);
            push_new(&mut phases, &result.phase);
            results.insert((result.store.as_str(), result.phase.as_str()), result);
        }
        let mut stores = Vec::new();
        for info in report.stores.iter().filter(|info| measured.contains(&info.store.as_str())) {
            push_new(&mut stores, &info.store);
        }
        for store in measured {
            push_new(&mut stores, store);
        }
        let asked = report.settings.baseline.as_deref();
        let baseline = asked.filter(|store| stores.contains(store)).unwrap_or(stores[0]);
        let floors = phases.iter().map(|phase| (*phase, report.noise_floor(phase))).collect();
        let infos = &report.stores;
        Comparison { class, stores, phases, baseline, results, infos, floors }
    }

    /// What was measured of this store in this phase, if anything.
    pub fn result(&self, store: &str, phase: &str) -> Option<&'a PhaseResult> {
        self.results.get(&(store, phase)).copied()
    }

    /// How many times as fast `store` is as `other` in this phase.
    pub fn ratio(&self, store: &str, other: &str, phase: &str) -> Option<Ratio> {
        let ratio = stats::speed_ratio(self.result(store, phase)?, self.result(other, phase)?)?;
        Some(Ratio { floor: self.floors.get(phase).copied().unwrap_or(1.0), ..ratio })
    }

    /// How many times as fast as the baseline; `None` for the baseline itself.
    pub fn to_baseline(&self, store: &str, phase: &str) -> Option<Ratio> {
        if store == self.baseline { None } else { self.ratio(store, self.baseline, phase) }
    }

    /// Our engines in this run.
    pub fn own(&self) -> impl Iterator<Item = &'a str> {
        self.stores.iter().copied().filter(|store| is_own(store))
    }

    /// The rivals in this run.
    pub fn rivals(&self) -> impl Iterator<Item = &'a str> {
        self.stores.iter().copied().filter(|store| !is_own(store))
    }

    fn kind(&self, store: &str) -> Option<Kind> {
        self.infos.iter().find(|info| info.store == store).map(Kind::of)
    }

    /// The rivals that can do what an engine of ours does: what is built once is no measure of what can be
    /// changed, nor is what has no order of what has. Whose kind is not known is one.
    pub fn peers(&self, own: &str) -> impl Iterator<Item = &'a str> {
        self.rivals().filter(move |rival| self.is_peer(own, rival))
    }

    fn is_peer(&self, own: &str, rival: &str) -> bool {
        self.kind(own).zip(self.kind(rival)).is_none_or(|(own, rival)| own <= rival)
    }

    /// Who of the rivals are the peers of an engine of ours, as it goes on behind "rival of each phase"; nothing if all
    /// are.
    pub fn peers_in_words(&self, own: &str) -> &'static str {
        match self.kind(own) {
            _ if self.others(own).next().is_none() => "",
            Some(Kind::Changed) => ", of those that can be changed",
            Some(Kind::Ordered) => ", of those in order",
            _ => "",
        }
    }

    /// The rivals that are no peers of an engine of ours.
    pub fn others(&self, own: &str) -> impl Iterator<Item = &'a str> {
        self.rivals().filter(move |rival| !self.is_peer(own, rival))
    }

    /// The peer of an engine of ours with the lowest median in this phase, of those whose answers were right.
    pub fn fastest_peer(&self, own: &str, phase: &str) -> Option<&'a str> {
        let median = |store: &str| {
            let result = self.result(store, phase).filter(|r| r.verified)?;
            Some(result.ns_per_op.median).filter(|ns| *ns > 0.0)
        };
        let measured = self.peers(own).filter_map(|store| Some((store, median(store)?)));
        measured.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(store, _)| store)
    }

    /// An engine of ours against the fastest of its peers, phase by phase.
    pub fn headlines(&self, own: &str) -> Vec<Headline<'a>> {
        let headline = |phase: &&'a str| {
            let rival = self.fastest_peer(own, phase)?;
            Some(Headline { phase, rival, ratio: self.ratio(own, rival, phase)? })
        };
        self.phases.iter().filter_map(headline).collect()
    }

    /// Every peer and phase where an engine of ours is not shown to be faster: worst first.
    pub fn not_ahead(&self, own: &str) -> Vec<Headline<'a>> {
        let mut found: Vec<_> = self.not_ahead_by_phase(own).flatten().collect();
        found.sort_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median));
        found
    }

    /// The same phase by phase, as these are shown, the worst of each first.
    pub fn not_ahead_by_phase(&self, own: &str) -> impl Iterator<Item = Vec<Headline<'a>>> {
        self.phases.iter().map(move |phase| {
            let is_not = |r: &Ratio| matches!(r.verdict(), Verdict::Slower | Verdict::NoDifference);
            let ratios = self.ratios_to_peers(own, phase).filter(|h| is_not(&h.ratio));
            let mut found: Vec<_> = ratios.collect();
            found.sort_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median));
            found
        })
    }

    /// The phases of which an engine of ours and some peer have too few rounds to say who is ahead.
    pub fn unjudged(&self, own: &str) -> Vec<&'a str> {
        let too_few = |h: Headline| h.ratio.verdict() == Verdict::TooFewRounds;
        let unjudged = |phase: &&'a str| self.ratios_to_peers(own, phase).any(too_few);
        self.phases.iter().copied().filter(unjudged).collect()
    }

    fn ratios_to_peers(&self, own: &str, phase: &'a str) -> impl Iterator<Item = Headline<'a>> {
        let ratio =
            move |rival| Some(Headline { phase, rival, ratio: self.ratio(own, rival, phase)? });
        self.peers(own).filter_map(ratio)
    }

    /// The phases in which this store gave wrong answers.
    pub fn wrong_phases(&self, store: &str) -> Vec<&'a str> {
        let wrong = |phase: &&str| self.result(store, phase).is_some_and(|r| !r.verified);
        self.phases.iter().copied().filter(wrong).collect()
    }

    /// The space the store's files take, in bytes; `None` where it is not known. That is after the
    /// first phase that was measured, which fills the store: later ones may have changed it.
    pub fn file_bytes(&self, store: &str) -> Option<u64> {
        self.of_store(store).map(|r| r.file_bytes).find(|bytes| *bytes > 0)
    }

    /// The most memory that was resident in any phase, in bytes; `None` where it is not known.
    pub fn peak_rss_bytes(&self, store: &str) -> Option<u64> {
        self.of_store(store).map(|r| r.peak_rss_bytes).max().filter(|bytes| *bytes > 0)
    }

    /// Whether every answer of the store in every phase was right.
    pub fn verified(&self, store: &str) -> bool {
        self.wrong_phases(store).is_empty()
    }

    /// Whether a phase has a store whose batched reads were a plain loop of single gets.
    pub fn has_plain_loops(&self) -> bool {
        self.results.values().any(|r| r.not_native().is_some_and(|(word, _)| word == "loop"))
    }

    /// Whether a phase has a store that looks each key up before it is removed.
    pub fn has_lookups_to_remove(&self) -> bool {
        self.results.values().any(|r| r.not_native().is_some_and(|(word, _)| word == "lookup"))
    }

    /// Whether a ratio to the baseline is of too few rounds to be judged.
    pub fn has_unjudged(&self) -> bool {
        let of_baseline = |r: &PhaseResult| self.result(self.baseline, &r.phase);
        let others = self.results.values().filter(|r| r.store != self.baseline);
        let both = others.filter_map(|r| Some((*r, of_baseline(r)?)));
        both.into_iter().any(|(own, other)| stats::is_unjudged(own, other))
    }

    /// All results, phase by phase, in the order of stores.
    pub fn in_order(&self) -> impl Iterator<Item = &'a PhaseResult> {
        let stores_of = |phase| self.stores.iter().map(move |store| (store, phase));
        let all = self.phases.iter().flat_map(stores_of);
        all.filter_map(|(store, phase)| self.result(store, phase))
    }

    /// The results of a store, in the order of phases.
    pub fn of_store(&self, store: &str) -> impl Iterator<Item = &'a PhaseResult> {
        self.phases.iter().filter_map(move |phase| self.result(store, phase))
    }
}

fn push_new<'a>(list: &mut Vec<&'a str>, item: &'a str) {
    if !list.contains(&item) {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Noise, PhaseNoise};

    fn fixture() -> Report {
        serde_json::from_slice(include_bytes!("../../tests/fixtures/report.json")).unwrap()
    }

    #[test]
    fn one_class_with_its_stores_in_order() {
        let report = fixture();
        let all = Comparison::of(&report);
        assert_eq!(all.len(), 1);
        let names: Vec<&str> = report.stores.iter().map(|s| s.store.as_str()).collect();
        assert_eq!(all[0].stores, names[..7], "gdbm has no results");
        assert_eq!((all[0].baseline, all[0].phases.len()), ("mcdb", 8));
        assert_eq!(all[0].own().collect::<Vec<_>>(), ["constant"]);
        assert_eq!(all[0].wrong_phases("bdb-hash"), ["get-90"]);
        assert!(!all[0].verified("bdb-hash") && all[0].verified("cdb"));
        assert_eq!(all[0].file_bytes("constant"), Some(18_104_320));
    }

    #[test]
    fn the_file_is_that_of_the_full_store() {
        let mut report = fixture();
        let build = report.results.iter().find(|r| r.store == "lmdb").unwrap();
        let remove = PhaseResult { phase: "remove".into(), file_bytes: 1 << 40, ..build.clone() };
        let bytes = build.file_bytes;
        report.results.push(remove);
        assert_eq!(Comparison::of(&report)[0].file_bytes("lmdb"), Some(bytes));
    }

    #[test]
    fn the_fastest_rival_is_never_ours_and_never_wrong() {
        let mut report = fixture();
        let index = |r: &Report, store: &str, phase: &str| {
            r.results.iter().position(|x| x.store == store && x.phase == phase).unwrap()
        };
        assert_eq!(Comparison::of(&report)[0].fastest_peer("constant", "get-hit"), Some("mcdb"));
        let i = index(&report, "mcdb", "get-hit");
        report.results[i].verified = false;
        assert_eq!(Comparison::of(&report)[0].fastest_peer("constant", "get-hit"), Some("cdb"));
    }

    /// What is built once is a rival of what is, what has no order of what has none.
    #[test]
    fn engines_are_compared_with_stores_that_can_do_what_they_do() {
        let mut report = fixture();
        let name = |from: &str| match from {
            "constant" => "btree".to_owned(),
            other => other.to_owned(),
        };
        for info in &mut report.stores {
            info.store = name(&info.store);
            let (changes, lacks): (Option<&str>, &[&str]) = match info.store.as_str() {
                "cdb" | "mcdb" | "sparkey" => (None, &["range", "insert"]),
                "btree" | "lmdb" => (Some("at-close"), &[]),
                _ => (Some("buffered"), &["range"]),
            };
            info.changes_class = changes.map(str::to_owned);
            info.lacks = lacks.iter().map(|phase| (*phase).to_owned()).collect();
        }
        report.results.iter_mut().for_each(|result| result.store = name(&result.store));
        let ordered = &Comparison::of(&report)[0];
        assert_eq!(ordered.peers("btree").collect::<Vec<_>>(), ["lmdb"]);
        assert_eq!(ordered.peers_in_words("btree"), ", of those in order");
        assert!(ordered.headlines("btree").iter().all(|h| h.rival == "lmdb"));
        assert!(ordered.not_ahead("btree").iter().all(|h| h.rival == "lmdb"));
        let info = report.stores.iter_mut().find(|info| info.store == "btree").unwrap();
        info.lacks.push("range".to_owned());
        let changed = &Comparison::of(&report)[0];
        let others: Vec<_> = changed.others("btree").collect();
        assert!(["cdb", "mcdb", "sparkey"].iter().all(|name| others.contains(name)), "{others:?}");
        assert!(!others.contains(&"lmdb") && !others.contains(&"bdb-hash"), "{others:?}");
        assert_eq!(changed.peers_in_words("btree"), ", of those that can be changed");
    }

    #[test]
    fn what_we_lose_is_found_and_worst_first() {
        let report = fixture();
        let comparison = &Comparison::of(&report)[0];
        let found = comparison.not_ahead("constant");
        let places: Vec<_> = found.iter().map(|h| (h.phase, h.rival)).collect();
        assert_eq!(places, [("scan", "sparkey"), ("get-miss", "sparkey")]);
        assert_eq!(found[0].ratio.verdict(), Verdict::Slower);
        assert_eq!(found[1].ratio.verdict(), Verdict::NoDifference);
    }

    #[test]
    fn wrong_answers_are_told_once() {
        let mut report = fixture();
        let told = wrong_answers(&report);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("bdb-hash, get-90: wrong answers"), "{}", told[0]);
        assert!(told[0].contains("key 00031337"), "{}", told[0]);
        report.failures[0].store = "bdb-hash".into();
        report.failures[0].phase = Some("get-90".into());
        report.failures[0].status = "wrong-answer".into();
        assert!(wrong_answers(&report).is_empty());
    }

    #[test]
    fn within_the_noise_there_is_no_difference() {
        let mut report = fixture();
        let verdict = |report: &Report| {
            let ratio = Comparison::of(report)[0].ratio("constant", "cdb", "get-hit");
            ratio.unwrap().verdict()
        };
        assert_eq!(verdict(&report), Verdict::Faster);
        let phase = "get-hit".to_owned();
        let noise = PhaseNoise {
            phase,
            store: String::new(),
            median: 1.0,
            low: 0.01,
            high: 2.0,
            floor: 100.0,
        };
        report.noise = Some(Noise { store: "cdb".into(), phases: vec![noise] });
        assert_eq!(verdict(&report), Verdict::NoDifference);
        let scan = Comparison::of(&report)[0].ratio("constant", "cdb", "scan").unwrap();
        assert_eq!(scan.verdict(), Verdict::Faster, "each phase has its own noise");
    }

    #[test]
    fn classes_stay_apart() {
        let mut report = fixture();
        for result in report.results.iter_mut().filter(|r| r.store == "mcdb") {
            result.class = "sync".into();
        }
        let all = Comparison::of(&report);
        assert_eq!((all[0].class, all[1].class), ("buffered", "sync"));
        assert!(!all[0].stores.contains(&"mcdb"));
        assert_eq!(all[1].stores, ["mcdb"]);
        assert_eq!(all[0].baseline, "constant", "the baseline asked for is of another class");
    }
}
