//! What a phase `mixed` does, and how often: weights of operations, and what they are done to.

use super::count::Count;
use super::distribution::{Chooser, Distribution};
use super::generate::stream;
use super::lengths::Lengths;
use super::parameters::Parameters;
use super::records::Records;
use super::transactions::Transactions;
use crate::rng::Rng;
use clap::ValueEnum;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Get,
    /// A key that the store has never had.
    Insert,
    /// Another value for a key. One that was removed comes back.
    Update,
    Remove,
    /// The records from a key on, in order.
    Scan,
    /// A lookup and then another value for the same key.
    ReadModifyWrite,
    /// All records that are there, in the order the store likes best.
    TableScan,
    /// What an insertion is where keys have several values: a new key, or one more value of another.
    Add,
}

/// Where one more value of a key goes, among those that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    First,
    Last,
}

impl Action {
    /// What has a weight.
    pub(crate) const ALL: [Action; 7] = [
        Action::Get,
        Action::Insert,
        Action::Update,
        Action::Remove,
        Action::Scan,
        Action::ReadModifyWrite,
        Action::TableScan,
    ];

    /// The name in workload files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Action::Get => "get",
            Action::Insert | Action::Add => "insert",
            Action::Update => "update",
            Action::Remove => "remove",
            Action::Scan => "scan",
            Action::ReadModifyWrite => "read-modify-write",
            Action::TableScan => "table-scan",
        }
    }

    /// Whether this may be of a key that the store has never had.
    pub(super) fn is_insertion(self) -> bool {
        matches!(self, Action::Insert | Action::Add)
    }

    /// Whether a value is stored.
    pub(crate) fn stores(self) -> bool {
        use Action::{Add, Insert, ReadModifyWrite, Update};
        matches!(self, Insert | Update | ReadModifyWrite | Add)
    }

    /// Whether the store is another one afterwards.
    pub(crate) fn changes(self) -> bool {
        self.stores() || self == Action::Remove
    }
}

/// How often each of [`Action::ALL`] is done, in relation to the others.
type Weights = [u32; Action::ALL.len()];

/// The operations of a phase `mixed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mix {
    weights: Weights,
    pub(crate) distribution: Distribution,
    scan_length: Lengths,
    /// `None`: as the store likes it best.
    pub(crate) transactions: Option<Transactions>,
    /// Every change is on the disk when its call has returned, or every transaction of several operations when
    /// it was committed.
    pub(crate) sync: bool,
    /// Close the store and open it again before the first operation.
    pub(crate) reopen: bool,
    /// Keys may have several values: an insertion is as often of a key that the store has had as of a
    /// new one, and one more value goes there.
    pub(crate) duplicates: Option<Place>,
    pub(crate) stop: Stop,
    /// How many it does; `None`: as many as the workload says.
    pub(crate) operations: Option<usize>,
}

/// When a mix ends before all of its operations are done: whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stop {
    /// So many bytes of keys and values were stored.
    pub(crate) bytes: Option<u64>,
    /// So much time has passed, about.
    pub(crate) seconds: Option<u64>,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix::usual(Distribution::Uniform)
    }
}

/// The table `[mix]` of a workload file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct MixTable {
    /// Of one of several.
    pub(super) name: Option<String>,
    get: u32,
    insert: u32,
    update: u32,
    remove: u32,
    scan: u32,
    read_modify_write: u32,
    table_scan: u32,
    distribution: Option<Distribution>,
    scan_length: Option<Lengths>,
    transactions: Option<Transactions>,
    sync: bool,
    reopen: bool,
    duplicates: Option<Place>,
    stop_bytes: Option<u64>,
    stop_seconds: Option<u64>,
    operations: Option<Count>,
}

impl MixTable {
    /// The mix; without a distribution of its own it has that of the file.
    pub(super) fn mix(self, distribution: Distribution) -> Result<Mix> {
        let mix = Mix {
            weights: [
                self.get,
                self.insert,
                self.update,
                self.remove,
                self.scan,
                self.read_modify_write,
                self.table_scan,
            ],
            distribution: self.distribution.unwrap_or(distribution),
            scan_length: self.scan_length.unwrap_or(Mix::SCAN_LENGTH),
            transactions: self.transactions,
            sync: self.sync,
            reopen: self.reopen,
            duplicates: self.duplicates,
            stop: Stop { bytes: self.stop_bytes, seconds: self.stop_seconds },
            operations: self.operations.map(|count| count.0),
        };
        if mix.weights == Weights::default() {
            let names = Action::ALL.map(Action::name).join(", ");
            let what = format!("[mix] does nothing: give a weight to one of {names} at least");
            return Err(Error::invalid(what));
        }
        if self.scan_length.is_some() && !mix.does(Action::Scan) {
            let what = "[mix] has a scan-length but no scan: give scan a weight, or leave it out";
            return Err(Error::invalid(what));
        }
        mix.check()?;
        Ok(mix)
    }
}

impl Mix {
    /// YCSB's.
    const SCAN_LENGTH: Lengths = Lengths::uniform(1, 100);

    /// Of ten operations six look up, three store another value, and one removes.
    pub(super) fn usual(distribution: Distribution) -> Mix {
        Mix::of([6, 0, 3, 1, 0, 0, 0], distribution)
    }

    /// The core workloads of YCSB (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB",
    /// 2010), by their letter. Theirs update one of ten fields; a store of bytes has no fields, so that
    /// ours store a whole value.
    pub(super) fn ycsb(letter: &str) -> Option<Mix> {
        let (weights, distribution) = match letter {
            "a" => ([50, 0, 50, 0, 0, 0, 0], Distribution::ZIPFIAN),
            "b" => ([95, 0, 5, 0, 0, 0, 0], Distribution::ZIPFIAN),
            "c" => ([100, 0, 0, 0, 0, 0, 0], Distribution::ZIPFIAN),
            "d" => ([95, 5, 0, 0, 0, 0, 0], Distribution::LATEST),
            "e" => ([0, 5, 0, 0, 95, 0, 0], Distribution::ZIPFIAN),
            "f" => ([50, 0, 0, 0, 0, 50, 0], Distribution::ZIPFIAN),
            _ => return None,
        };
        Some(Mix::of(weights, distribution))
    }

    /// Lookups, changes and ranges as often as these say; of four changes two store another value for a
    /// key, one stores a new key, and one removes a key, so that a store stays as large as it is.
    pub(crate) fn of_use(
        gets: u32,
        changes: u32,
        ranges: u32,
        distribution: Distribution,
        transactions: Option<Transactions>,
    ) -> Mix {
        let weights = [4 * gets, changes, 2 * changes, changes, 4 * ranges, 0, 0];
        Mix { transactions, ..Mix::of(weights, distribution) }
    }

    fn of(weights: Weights, distribution: Distribution) -> Mix {
        let (scan_length, transactions, stop) = (Mix::SCAN_LENGTH, None, Stop::default());
        let (sync, reopen, duplicates, operations) = (false, false, None, None);
        Mix {
            weights,
            distribution,
            scan_length,
            transactions,
            sync,
            reopen,
            duplicates,
            stop,
            operations,
        }
    }

    /// How many records a scan reads, where there are scans and it is given.
    pub(super) fn take_scan_length(&mut self, given: &mut Parameters<'_>) -> Result<()> {
        if self.does(Action::Scan) {
            self.scan_length = given.take("scan-length", self.scan_length, Lengths::WHAT)?;
        }
        self.check()
    }

    /// Refuses what contradicts itself.
    pub(super) fn check(&self) -> Result<()> {
        if self.stop.bytes == Some(0) || self.stop.seconds == Some(0) {
            return Err(Error::invalid("stop-bytes and stop-seconds must be at least 1"));
        }
        if self.sync && !self.changes() {
            let what = "[mix] has sync = true, but changes nothing: leave it out";
            return Err(Error::invalid(what));
        }
        if self.stop.bytes.is_some() && !Action::ALL.iter().any(|a| a.stores() && self.does(*a)) {
            let what = "stop-bytes counts what is stored, but the mix stores nothing";
            return Err(Error::invalid(what));
        }
        if self.operations == Some(0) {
            return Err(Error::invalid("operations of a mix must be at least 1"));
        }
        if self.scan_length.least() == 0 {
            return Err(Error::invalid("[mix] scan-length must be at least 1"));
        }
        let replaces = self.does(Action::Update) || self.does(Action::ReadModifyWrite);
        if self.duplicates.is_some() && replaces {
            return Err(Error::invalid(
                "update and read-modify-write put a value in place of another, duplicates beside it: \
                 leave one of both out of [mix]",
            ));
        }
        Ok(())
    }

    /// Whether this is ever done.
    pub(crate) fn does(&self, action: Action) -> bool {
        Action::ALL.iter().zip(self.weights).any(|(one, weight)| *one == action && weight > 0)
    }

    /// Whether it ever changes anything.
    pub(crate) fn changes(&self) -> bool {
        Action::ALL.iter().any(|action| action.changes() && self.does(*action))
    }

    /// Has every change be on the disk, if it makes any.
    pub(crate) fn sync_changes(&mut self) {
        self.sync = self.changes();
    }

    /// Whether a model of what it leaves needs the keys in their order: several values of a key are compared
    /// in theirs, by a range over all.
    pub(super) fn looks_at_order(&self) -> bool {
        self.does(Action::Scan) || self.duplicates.is_some()
    }

    /// How many operations it does, where the workload says so many.
    pub(super) fn operations(&self, gets: usize) -> usize {
        self.operations.unwrap_or(gets)
    }

    /// What is drawn, without end, for a store of these `records` that has had so many items; `number` is
    /// the mix's own among several.
    pub(super) fn draws(&self, records: &Records, items: usize, number: usize, seed: u64) -> Draws {
        Draws {
            mix: self.clone(),
            chooser: Chooser::new(self.distribution, records, seed),
            rng: Rng::new(seed, stream::of_mix(stream::MIXED, number)),
            items,
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (action, weight) in Action::ALL.into_iter().zip(self.weights) {
            match (action, weight) {
                (_, 0) => {}
                (Action::Scan, _) => {
                    write!(f, "scan {weight} (of {} records), ", self.scan_length)?
                }
                _ => write!(f, "{} {weight}, ", action.name())?,
            }
        }
        write!(f, "keys {}", self.distribution)?;
        if let Some(transactions) = self.transactions {
            write!(f, ", transactions {transactions}")?;
        }
        if self.sync {
            let each = self.transactions.and_then(Transactions::operations);
            write!(f, ", every {} synced", each.map_or("change", |_| "transaction"))?;
        }
        if let Some(place) = self.duplicates.filter(|_| self.does(Action::Insert)) {
            let place = if place == Place::First { "before" } else { "behind" };
            write!(f, ", every second insert one more value {place} those of a key")?;
        }
        if self.reopen {
            write!(f, ", closed and opened again before")?;
        }
        if let Some(bytes) = self.stop.bytes {
            write!(f, ", until {bytes} bytes are stored")?;
        }
        if let Some(seconds) = self.stop.seconds {
            write!(f, ", for about {seconds} s")?;
        }
        if let Some(operations) = self.operations {
            write!(f, ", {operations} operations")?;
        }
        Ok(())
    }
}

/// One operation, before it has bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    pub(crate) action: Action,
    /// The record it is about: those of the data first, then inserted ones as they come.
    pub(crate) item: usize,
    /// Records of a scan; else 0.
    pub(crate) scan_len: usize,
}

/// The operations of a mix, one after the other.
pub(crate) struct Draws {
    mix: Mix,
    chooser: Chooser,
    rng: Rng,
    /// Records that the store has had so far.
    items: usize,
}

impl Iterator for Draws {
    type Item = Draw;

    fn next(&mut self) -> Option<Draw> {
        let rng = &mut self.rng;
        // Drawn for an insertion, too, which does not use it.
        let mut item = self.chooser.next(rng, self.items);
        let mut ticket = rng.below(self.mix.weights.iter().map(|weight| u64::from(*weight)).sum());
        let mut action = Action::Get;
        for (one, weight) in Action::ALL.into_iter().zip(self.mix.weights) {
            action = one;
            match ticket.checked_sub(u64::from(weight)) {
                Some(less) => ticket = less,
                None => break,
            }
        }
        let mut scan_len = 0;
        match action {
            Action::Insert if self.mix.duplicates.is_some() => {
                action = Action::Add;
                // Else of the key that was drawn, which the store has had.
                if rng.below(2) == 0 {
                    (item, self.items) = (self.items, self.items + 1);
                }
            }
            Action::Insert => (item, self.items) = (self.items, self.items + 1),
            Action::Scan => scan_len = self.mix.scan_length.draw(rng),
            _ => {}
        }
        Some(Draw { action, item, scan_len })
    }
}

#[cfg(test)]
mod tests {
    use super::super::mixes::Mixes;
    use super::*;

    fn records(count: u32) -> Records {
        let mut records = Records::default();
        (0..count).for_each(|i| records.push(&i.to_le_bytes(), &[1]).unwrap());
        records
    }

    fn of_toml(text: &str) -> Result<Mix> {
        let table: MixTable = toml::from_str(text).map_err(|e| Error::invalid(e.to_string()))?;
        let mix = table.mix(Distribution::Ascending)?;
        Mixes::from(mix.clone()).check().map(|()| mix)
    }

    #[test]
    fn operations_come_as_often_as_their_weights_say() {
        let mix = of_toml(
            "get = 30\ninsert = 5\nupdate = 20\nremove = 10\nscan = 10\nread-modify-write = 20\n\
             table-scan = 5\n\
             scan-length = \"3..5\"\ndistribution = \"latest\"",
        )
        .unwrap();
        let draws: Vec<Draw> = mix.draws(&records(100), 100, 0, 9).take(50_000).collect();
        for (action, weight) in Action::ALL.into_iter().zip(mix.weights) {
            let count = draws.iter().filter(|draw| draw.action == action).count();
            // Five standard deviations of at most 112.
            assert!(count.abs_diff(500 * weight as usize) < 560, "{action:?}: {count}");
        }
        let inserted = draws.iter().filter(|draw| draw.action == Action::Insert);
        assert!(inserted.enumerate().all(|(i, draw)| draw.item == 100 + i));
        let mut items = 100;
        for draw in &draws {
            items += usize::from(draw.action == Action::Insert);
            assert!(draw.item < items, "{draw:?} of {items}");
            let is_scan = draw.action == Action::Scan;
            assert!(if is_scan { (3..=5).contains(&draw.scan_len) } else { draw.scan_len == 0 });
        }
        assert!(draws.iter().any(|draw| draw.action == Action::Get && draw.item >= 100));
    }

    #[test]
    fn ycsb_is_as_published() {
        let words = |letter| Mix::ycsb(letter).unwrap().to_string();
        let zipfian = "keys zipfian:theta=0.99,scrambled=true";
        assert_eq!(words("a"), format!("get 50, update 50, {zipfian}"));
        assert_eq!(words("b"), format!("get 95, update 5, {zipfian}"));
        assert_eq!(words("c"), format!("get 100, {zipfian}"));
        assert_eq!(words("d"), "get 95, insert 5, keys latest:theta=0.99");
        assert_eq!(words("e"), format!("insert 5, scan 95 (of 1..100 records), {zipfian}"));
        assert_eq!(words("f"), format!("get 50, read-modify-write 50, {zipfian}"));
        assert_eq!(Mix::ycsb("g"), None);
    }

    #[test]
    fn what_is_synced_is_each_change_or_each_transaction_of_several() {
        let words = |text: &str| of_toml(text).unwrap().to_string();
        assert!(words("remove = 1\nsync = true").ends_with(", every change synced"));
        let each = "update = 1\ntransactions = \"tmp\"\nsync = true";
        assert!(words(each).ends_with(", transactions tmp, every change synced"));
        let several = "update = 1\ntransactions = 5\nsync = true";
        assert!(words(several).ends_with(", transactions 5, every transaction synced"));
        let mut reads = Mix::ycsb("c").unwrap();
        reads.sync_changes();
        assert!(!reads.sync && !reads.to_string().contains("synced"));
    }

    #[test]
    fn a_table_that_contradicts_itself_is_refused() {
        assert_eq!(of_toml("get = 1").unwrap().distribution, Distribution::Ascending);
        let full = "update = 1\ntransactions = 50\nstop-bytes = 9\nstop-seconds = 2";
        assert_eq!(
            of_toml(full).unwrap().to_string(),
            "update 1, keys ascending, transactions 50, until 9 bytes are stored, for about 2 s"
        );
        for (text, what) in [
            ("", "[mix] does nothing: give a weight to one of get, insert"),
            ("get = 0", "[mix] does nothing"),
            ("get = -1", "u32"),
            ("find = 3", "unknown field `find`"),
            ("get = 1\nscan-length = \"5\"", "no scan"),
            ("scan = 1\nscan-length = \"0..5\"", "scan-length must be at least 1"),
            ("scan = 1\nscan-length = \"many\"", "'many' is no length"),
            ("get = 1\ndistribution = \"normal\"", "there is no distribution 'normal'"),
            ("update = 1\ntransactions = 0", "at least 1, or 'all', not '0'"),
            ("update = 1\ntransactions = \"some\"", "or 'all', not 'some'"),
            ("update = 1\ntransactions = 1.5", "expected a whole number or a string"),
            ("get = 1\nstop-bytes = 7", "but the mix stores nothing"),
            ("get = 1\nduplicates = \"last\"", "but the mix inserts nothing"),
            ("insert = 1\nupdate = 1\nduplicates = \"first\"", "in place of another"),
            ("insert = 1\nduplicates = \"second\"", "unknown variant `second`"),
            ("get = 1\nstop-seconds = 0", "must be at least 1"),
            ("get = 1\nsync = true", "[mix] has sync = true, but changes nothing"),
        ] {
            let refused = of_toml(text).unwrap_err().to_string();
            assert!(refused.contains(what), "{text}: {refused}");
        }
    }
}
