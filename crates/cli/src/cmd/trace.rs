//! `credenza stat` of a trace: what was done, with how many keys, how often the same ones, and when.

use crate::{json, output};
use credenza::Result;
use credenza::record::{Action, Entry, Trace, TracedStore};
use credenza::stats::{Operation, Outcome};
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What is in a trace.
#[derive(Default)]
struct Found {
    by_action: BTreeMap<&'static str, Tally>,
    /// How often each key was asked for or changed, by a hash of it: a trace may have very many.
    keys: HashMap<u64, u64>,
    key_bytes: u64,
    longest_key: u64,
    /// The stores and tables, and how often each was opened.
    stores: Vec<(TracedStore, u64)>,
    /// By the number of an entry's store: which of these it is.
    places: Vec<usize>,
    threads: HashSet<(u32, u32)>,
    processes: HashSet<u32>,
    first: Option<u64>,
    last: u64,
}

/// What is counted of one kind of operation.
#[derive(Default)]
struct Tally {
    count: u64,
    hits: u64,
    misses: u64,
    failed: u64,
    bytes: u64,
    longest: u64,
    items: u64,
}

/// Prints what is in the trace at `path`.
pub fn run(path: &Path, as_json: bool) -> Result<()> {
    let trace = Trace::open(path)?;
    let (stores, places) = stores(&trace);
    let mut found = Found { stores, places, ..Found::default() };
    let hasher = RandomState::new();
    for entry in trace.entries() {
        found.add(&entry?, &hasher);
    }
    if as_json {
        json::print(&json::with_paths([("store", path)], found.json(&trace)))
    } else {
        output::print(found.text(&trace))
    }
}

/// The stores and tables of a trace, each once, with how often it was opened; and which of them each
/// number is of.
fn stores(trace: &Trace) -> (Vec<(TracedStore, u64)>, Vec<usize>) {
    let mut all: Vec<(TracedStore, u64)> = Vec::new();
    // Numbers begin with 1.
    let (mut known, mut places) = (HashMap::new(), vec![usize::MAX]);
    for store in trace.stores() {
        // One in memory is another each time.
        let own = if store.path.as_os_str().is_empty() { store.number } else { 0 };
        let place = *known.entry((&store.path, &store.table, own)).or_insert(all.len());
        match all.get_mut(place) {
            Some((_, opened)) => *opened += 1,
            None => all.push((store.clone(), 1)),
        }
        places.push(place);
    }
    (all, places)
}

impl Found {
    fn add(&mut self, entry: &Entry, hasher: &RandomState) {
        let tally = self.by_action.entry(entry.action.name()).or_default();
        tally.count += 1;
        match entry.outcome {
            // Of an insertion it says what table it is of.
            Outcome::Hit if entry.action == Action::Operation(Operation::Insert) => {}
            Outcome::Hit | Outcome::Unchanged => tally.hits += 1,
            Outcome::Miss => tally.misses += 1,
            Outcome::Failed => tally.failed += 1,
            _ => {}
        }
        tally.bytes = tally.bytes.saturating_add(entry.value_len);
        tally.longest = tally.longest.max(entry.value_len);
        tally.items = tally.items.saturating_add(entry.items);
        if let Some(key) = &entry.key {
            let store = self.places.get(entry.store as usize);
            *self.keys.entry(hasher.hash_one((store, key))).or_default() += 1;
            self.key_bytes = self.key_bytes.saturating_add(key.len());
            self.longest_key = self.longest_key.max(key.len());
        }
        self.threads.insert((entry.process, entry.thread));
        self.processes.insert(entry.process);
        self.first = Some(self.first.map_or(entry.time, |first| first.min(entry.time)));
        self.last = self.last.max(entry.time);
    }

    fn span(&self) -> Duration {
        Duration::from_nanos(self.last - self.first.unwrap_or(self.last))
    }

    /// Entries with a key.
    fn uses(&self) -> u64 {
        self.keys.values().sum()
    }

    /// Lookups that found their key, of those that either did or did not.
    fn hit_rate(&self) -> Option<f64> {
        let lookups = ["get", "get_all", "key"];
        let of = |part: fn(&Tally) -> u64| -> u64 {
            lookups.iter().filter_map(|name| self.by_action.get(name)).map(part).sum()
        };
        let (hits, misses) = (of(|tally| tally.hits), of(|tally| tally.misses));
        (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
    }

    /// Which part of all uses the keys have that are used most: the first one, one of a hundred, and one
    /// of ten.
    fn shares(&self) -> [f64; 3] {
        let mut counts: Vec<u64> = self.keys.values().copied().collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let all = self.uses().max(1) as f64;
        let of = |keys: usize| counts.iter().take(keys).sum::<u64>() as f64 / all;
        [of(1), of(counts.len().div_ceil(100)), of(counts.len().div_ceil(10))]
    }

    fn text(&self, trace: &Trace) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(trace, &mut out);
        out
    }

    fn write(&self, trace: &Trace, out: &mut String) -> std::fmt::Result {
        let (span, keys) = (self.span(), if trace.is_hashed() { "hashed" } else { "plain" });
        let ago = SystemTime::now().duration_since(trace.begun()).unwrap_or_default();
        let count = |n: u64| HumanCount(n).to_string();
        // Of what began at one moment, as a single entry does, there is no rate.
        let rate = match span.as_secs_f64() {
            0.0 => String::new(),
            seconds => format!(", {} a second", count((trace.len() as f64 / seconds) as u64)),
        };
        writeln!(out, "kind         trace, keys {keys}")?;
        writeln!(out, "begun        {} ago", HumanDuration(ago))?;
        writeln!(out, "time         {:.3} s", span.as_secs_f64())?;
        writeln!(out, "entries      {}{rate}", count(trace.len()))?;
        writeln!(
            out,
            "by           {}, {}",
            // The one noun that takes more than an s.
            match self.processes.len() as u64 {
                1 => "1 process".to_owned(),
                n => format!("{} processes", count(n)),
            },
            output::counted(self.threads.len() as u64, "thread")
        )?;
        let uses = self.uses();
        let mean = self.key_bytes as f64 / uses.max(1) as f64;
        writeln!(
            out,
            "keys         {} different, {mean:.1} bytes, {} at most",
            count(self.keys.len() as u64),
            HumanBytes(self.longest_key)
        )?;
        let [one, hundredth, tenth] = self.shares().map(|share| share * 100.0);
        writeln!(
            out,
            "hot keys     one has {one:.1} % of {}, 1 % of the keys {hundredth:.1} %, 10 % {tenth:.1} %",
            output::counted(uses, "use")
        )?;
        if let Some(rate) = self.hit_rate() {
            writeln!(out, "hit rate     {:.1} % of lookups", rate * 100.0)?;
        }
        if let Some((why, when)) = trace.stopped() {
            writeln!(out, "stopped      after {:.3} s: {why}", when as f64 / 1e9)?;
        }
        if trace.missing() > 0 {
            let missing = HumanBytes(trace.missing());
            writeln!(out, "cut off      {missing} at the end are missing, and what they said")?;
        }
        if trace.behind() > 0 {
            let behind = HumanBytes(trace.behind());
            writeln!(out, "behind       {behind} behind the end of the trace are not read")?;
        }
        writeln!(
            out,
            "\n{:<11} {:>13} {:>13} {:>13} {:>9} {:>13} {:>11}",
            "operation", "count", "hit", "miss", "failed", "mean bytes", "most"
        )?;
        for (name, tally) in &self.by_action {
            let mean = tally.bytes as f64 / tally.count.max(1) as f64;
            writeln!(
                out,
                "{name:<11} {:>13} {:>13} {:>13} {:>9} {mean:>13.1} {:>11}",
                count(tally.count),
                count(tally.hits),
                count(tally.misses),
                count(tally.failed),
                count(tally.longest)
            )?;
        }
        writeln!(out, "\nopened  engine    path")?;
        for (store, opened) in &self.stores {
            let path = match store.path.as_os_str().is_empty() {
                true => "(in memory)".to_owned(),
                false => output::escaped(store.path.as_os_str().as_encoded_bytes()),
            };
            let table = output::escaped(store.table.as_bytes());
            let table = if table.is_empty() { table } else { format!(", table {table}") };
            writeln!(out, "{:>6}  {:<8}  {path}{table}", opened, store.engine)?;
        }
        Ok(())
    }

    fn json(&self, trace: &Trace) -> Value {
        let of_action = |tally: &Tally| {
            let Tally { count, hits, misses, failed, bytes, longest, items } = tally;
            json!({
                "count": count, "hits": hits, "misses": misses, "failed": failed,
                "value_bytes": bytes, "longest_value": longest, "items": items,
            })
        };
        let actions = self.by_action.iter().map(|(name, tally)| ((*name).into(), of_action(tally)));
        let stores = self.stores.iter().map(|(store, opened)| {
            let mut object = Map::new();
            object.insert("opened".into(), (*opened).into());
            object.insert("engine".into(), store.engine.as_str().into());
            json::put_bytes(&mut object, "path", store.path.as_os_str().as_encoded_bytes());
            object.insert("table".into(), store.table.as_str().into());
            Value::Object(object)
        });
        let [one, hundredth, tenth] = self.shares();
        let begun = trace.begun().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        json!({
            "kind": "trace",
            "keys_are_hashed": trace.is_hashed(),
            "begun": begun.as_secs_f64(),
            "seconds": self.span().as_secs_f64(),
            "entries": trace.len(),
            "processes": self.processes.len(),
            "threads": self.threads.len(),
            "keys": self.keys.len(),
            "key_uses": self.uses(),
            "key_bytes": self.key_bytes,
            "longest_key": self.longest_key,
            "share_of_hottest_key": one,
            "share_of_hottest_hundredth": hundredth,
            "share_of_hottest_tenth": tenth,
            "hit_rate": self.hit_rate(),
            "stopped": trace.stopped().map(|(why, _)| why.to_string()),
            "missing_bytes": trace.missing(),
            "bytes_behind": trace.behind(),
            "operations": Value::Object(actions.collect()),
            "stores": stores.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_uses() {
        let mut found = Found::default();
        for key in 0..200u64 {
            found.keys.insert(key, if key < 2 { 100 } else { 1 });
        }
        let [one, hundredth, tenth] = found.shares();
        assert!((one - 100.0 / 398.0).abs() < 1e-9 && (hundredth - 200.0 / 398.0).abs() < 1e-9);
        assert!((tenth - 218.0 / 398.0).abs() < 1e-9);
        assert!(Found::default().shares().iter().all(|share| *share == 0.0));
    }
}
