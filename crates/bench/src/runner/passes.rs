//! The loops over a store: those that are timed, and those that compare every answer.
//!
//! Invariant: for every store a timed loop does the same besides the store's own work: take the
//! next key from the buffer, call the store, add the value's length and first byte. The sum is
//! compared with what the data say, so that no call can be left out, by a store or a compiler.

use super::singly::Singly;
use crate::driver::{Store, ahead};
use crate::measure::Latencies;
use crate::workload::changes::Model;
use crate::workload::{Content, Phase, Queries, Ranges, Records};
use credenza::Result;
use std::borrow::Cow;
use std::fmt;
use std::hint::black_box;
use std::ops::AddAssign;
use std::time::Instant;

/// What a timed loop adds up.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Total {
    pub(crate) found: u64,
    /// Keeps the two apart, which a loop that has them in memory adds to: side by side they are taken for
    /// two lanes of one number of 16 bytes, and the processor is slower to read that again: a scan of constant
    /// took 4.1 ns a record, and 1.2 so.
    apart: u64,
    sum: u64,
}

impl fmt::Debug for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values, sum {}", self.found, self.sum)
    }
}

impl Total {
    #[inline]
    pub(crate) fn add(&mut self, value: &[u8]) {
        self.found += 1;
        self.sum += value.len() as u64 + u64::from(value.first().copied().unwrap_or(0));
    }

    /// Takes a value out again that was added.
    pub(super) fn take_away(&mut self, value: &[u8]) {
        let mut one = Total::default();
        one.add(value);
        self.found -= one.found;
        self.sum -= one.sum;
    }

    /// What is wrong with it, in words, if it is not what the data say.
    pub(crate) fn unlike(self, expected: Total, what: &str) -> Option<String> {
        (self != expected).then(|| format!("{what} adds up to {self:?}, not {expected:?}"))
    }

    /// What the data say that these queries add up to.
    pub(crate) fn expected(queries: &Queries, records: &Records) -> Total {
        Total::expected_of(queries, records, 0..queries.len())
    }

    /// The same of those with these numbers.
    pub(crate) fn expected_of(
        queries: &Queries,
        records: &Records,
        numbers: impl Iterator<Item = usize>,
    ) -> Total {
        let mut total = Total::default();
        let hits = numbers.filter_map(|i| queries.expected(i));
        hits.for_each(|record| total.add(records.get(record).1));
        total
    }

    /// What the data say that these ranges add up to.
    pub(crate) fn of_ranges(ranges: &Ranges, records: &Records) -> Total {
        Total::of_these_ranges(ranges, records, 0..ranges.starts().len())
    }

    /// The same of those with these numbers.
    pub(super) fn of_these_ranges(
        ranges: &Ranges,
        records: &Records,
        numbers: impl Iterator<Item = usize>,
    ) -> Total {
        let mut total = Total::default();
        let all = numbers.flat_map(|i| ranges.of(i));
        all.for_each(|record| total.add(records.get(*record as usize).1));
        total
    }

    /// What all records add up to that a store must hold.
    pub(super) fn of_model(model: &Model<'_>) -> Total {
        let mut total = Total::default();
        let values = (0..model.items()).flat_map(|item| model.values(item));
        values.for_each(|value| total.add(&value));
        total
    }

    /// What the data say that a scan adds up to.
    pub(crate) fn of_all(records: &Records) -> Total {
        let mut total = Total::default();
        records.iter().for_each(|(_, value)| total.add(value));
        total
    }
}

impl AddAssign for Total {
    fn add_assign(&mut self, other: Total) {
        self.found += other.found;
        self.sum += other.sum;
    }
}

/// One lookup after the other; the processor may overlap them.
#[inline(never)]
pub(crate) fn get<S: Store>(store: &mut S, queries: &Queries) -> Result<Total> {
    let mut total = Total::default();
    for key in queries.iter() {
        store.get(key, |value| total.add(value))?;
    }
    Ok(total)
}

/// Lookups in batches.
#[inline(never)]
fn get_many<S: Store>(store: &mut S, queries: &Queries, batch: usize) -> Result<Total> {
    let mut total = Total::default();
    let mut add = |_: usize, value: Option<&[u8]>| {
        if let Some(value) = value {
            total.add(value);
        }
    };
    let mut keys: Vec<&[u8]> = Vec::with_capacity(batch);
    let mut all = queries.iter();
    loop {
        keys.clear();
        keys.extend(all.by_ref().take(batch));
        if keys.is_empty() {
            return Ok(total);
        }
        store.get_many(&keys, &mut add)?;
    }
}

/// Lookups of which each begins when the value of the one before has come: where the next key
/// lies is computed from the first byte of the last value, in a way that always gives the next
/// one, which neither compiler nor processor can know.
/// `ended` is called when each has.
#[inline(never)]
pub(super) fn get_chain<S: Store>(
    store: &mut S,
    queries: &Queries,
    mut ended: impl FnMut(),
) -> Result<Total> {
    let (keys, lens) = queries.parts();
    let mut total = Total::default();
    let mut start = 0;
    for len in lens {
        let end = start + *len as usize;
        let (key, mut last) = (&keys[start..end], 0);
        ahead::ask(key);
        store.get(key, |value| {
            total.add(value);
            last = value.first().copied().unwrap_or(0);
        })?;
        start = end + (black_box(u64::from(last)) >> 8) as usize;
        ended();
    }
    Ok(total)
}

/// All lookups of a phase once, in the way of that phase.
pub(super) fn lookups<S: Store>(
    phase: Phase,
    store: &mut S,
    queries: &Queries,
    batch: usize,
) -> Result<Total> {
    match phase {
        Phase::GetChain => get_chain(store, queries, || ()),
        _ if phase.is_batched() => get_many(store, queries, batch),
        _ => get(store, queries),
    }
}

/// Every record.
#[inline(never)]
pub(crate) fn scan<S: Store>(store: &mut S) -> Result<Total> {
    let mut total = Total::default();
    store.scan(|_, value| total.add(value))?;
    Ok(total)
}

/// One range after the other.
#[inline(never)]
pub(crate) fn ranges<S: Store>(store: &mut S, ranges: &Ranges) -> Result<Total> {
    let mut total = Total::default();
    for from in ranges.starts().iter() {
        store.range(from, Ranges::RECORDS, |_, value| total.add(value))?;
    }
    Ok(total)
}

/// Times every range by itself.
#[inline(never)]
pub(super) fn range_latencies<S: Store>(
    store: &mut S,
    ranges: &Ranges,
    into: &mut Latencies,
) -> Result<Total> {
    let mut total = Total::default();
    for from in ranges.starts().iter() {
        let start = Instant::now();
        store.range(from, Ranges::RECORDS, |_, value| total.add(value))?;
        into.record_since(start);
    }
    Ok(total)
}

/// Times the lookups of a sample by themselves.
#[inline(never)]
pub(crate) fn latencies<S: Store>(
    store: &mut S,
    queries: &Queries,
    mut which: Singly,
    into: &mut Latencies,
) -> Result<Total> {
    let mut total = Total::default();
    for key in queries.iter() {
        if which.takes_next() {
            let start = Instant::now();
            store.get(key, |value| total.add(value))?;
            into.record_since(start);
        } else {
            store.get(key, |value| total.add(value))?;
        }
    }
    Ok(total)
}

/// Times every batch by itself: each of its lookups waits for all of them.
#[inline(never)]
pub(super) fn batch_latencies<S: Store>(
    store: &mut S,
    queries: &Queries,
    batch: usize,
    into: &mut Latencies,
) -> Result<Total> {
    let mut total = Total::default();
    let keys: Vec<&[u8]> = queries.iter().collect();
    for keys in keys.chunks(batch) {
        let start = Instant::now();
        store.get_many(keys, |_, value| value.into_iter().for_each(|value| total.add(value)))?;
        into.record_call(start, keys.len() as u64);
    }
    Ok(total)
}

/// Compares whole values with the data; remembers the first wrong one.
pub(crate) struct Checker<'a> {
    queries: &'a Queries,
    records: &'a Records,
    /// The records with other values, each of which is right, too.
    pub(crate) others: Option<&'a Records>,
    pub(crate) found: u64,
    pub(crate) wrong: Option<String>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(queries: &'a Queries, records: &'a Records) -> Checker<'a> {
        Checker { queries, records, others: None, found: 0, wrong: None }
    }

    fn check(&mut self, i: usize, got: Option<&[u8]>) {
        self.found += u64::from(got.is_some());
        let record = self.queries.expected(i);
        let expected = record.map(|record| self.records.get(record));
        let is_other = || {
            let other = self.others.zip(record).map(|(others, record)| others.get(record).1);
            other.is_some() && got == other
        };
        if got != expected.map(|(_, value)| value) && self.wrong.is_none() && !is_other() {
            let key = self.queries.iter().nth(i).unwrap_or_default();
            self.wrong = Some(format!(
                "query {i}, key {}: expected {}, got {}",
                in_words(Some(key)),
                in_words(expected.map(|(_, value)| value)),
                in_words(got)
            ));
        }
    }

    fn check_count(&mut self, answers: usize) {
        if answers != self.queries.len() && self.wrong.is_none() {
            self.wrong = Some(format!("{answers} answers to {} keys", self.queries.len()));
        }
    }

    /// Every query by itself.
    pub(crate) fn get<S: Store>(&mut self, store: &mut S) -> Result<()> {
        for (i, key) in self.queries.iter().enumerate() {
            let mut answers = 0;
            let is_found = store.get(key, |value| {
                answers += 1;
                self.check(i, Some(value));
            })?;
            match (is_found, answers) {
                (true, 1) => {}
                (false, 0) => self.check(i, None),
                _ => {
                    self.wrong = Some(format!("query {i}: found is {is_found}, values: {answers}"))
                }
            }
        }
        Ok(())
    }

    /// Every query, in the way of this phase.
    pub(super) fn lookups<S: Store>(
        &mut self,
        phase: Phase,
        store: &mut S,
        batch: usize,
    ) -> Result<()> {
        if phase.is_batched() { self.get_many(store, batch) } else { self.get(store) }
    }

    /// Every query, in batches.
    fn get_many<S: Store>(&mut self, store: &mut S, batch: usize) -> Result<()> {
        let keys: Vec<&[u8]> = self.queries.iter().collect();
        let mut answers = 0;
        for (n, keys) in keys.chunks(batch).enumerate() {
            store.get_many(keys, |i, value| {
                // An answer to a key that was not asked or is asked twice shows in the count.
                if i < keys.len() {
                    answers += 1;
                    self.check(n * batch + i, value);
                }
            })?;
        }
        self.check_count(answers);
        Ok(())
    }
}

/// Compares all records of the store with the data; returns what is wrong, in words.
pub(crate) fn check_scan<S: Store>(store: &mut S, expected: Content) -> Result<Option<String>> {
    let mut content = Content::default();
    store.scan(|key, value| content.add(key, value))?;
    Ok(if content == expected {
        None
    } else if content.count == expected.count {
        Some("the scan gives other keys or values than were stored".to_owned())
    } else {
        Some(format!("the scan gives {} records of {}", content.count, expected.count))
    })
}

/// Compares every record of every range, and their order; returns what is wrong first, in words.
pub(crate) fn check_ranges<S: Store>(
    store: &mut S,
    ranges: &Ranges,
    records: &Records,
) -> Result<Option<String>> {
    for (i, from) in ranges.starts().iter().enumerate() {
        let expected = ranges.of(i).iter().map(|record| records.get(*record as usize));
        let expected = expected.map(|(key, value)| (key, Cow::Borrowed(value)));
        if let Some(what) = wrong_range(store, from, Ranges::RECORDS, expected)? {
            return Ok(Some(format!("range {i} from {what}")));
        }
    }
    Ok(None)
}

/// Reads a range of at most `count` records; returns what is wrong with the answer, in words.
pub(crate) fn wrong_range<'a, S: Store>(
    store: &mut S,
    from: &[u8],
    count: usize,
    expected: impl Iterator<Item = (&'a [u8], Cow<'a, [u8]>)>,
) -> Result<Option<String>> {
    let (mut expected, mut place, mut what) = (expected, 0, None);
    store.range(from, count, |key, value| {
        let of = expected.next();
        if what.is_none() && of.as_ref().map(|(key, value)| (*key, &**value)) != Some((key, value))
        {
            let of = in_words(of.map(|(key, _)| key));
            let (key, value) = (in_words(Some(key)), in_words(Some(value)));
            what = Some(format!("record {place}: expected key {of}, got {key}: {value}"));
        }
        place += 1;
    })?;
    let left = expected.count();
    if left > 0 {
        what = what.or_else(|| Some(format!("{place} records of {}", place + left)));
    }
    Ok(what.map(|what| format!("{}: {what}", in_words(Some(from)))))
}

/// Looks a key up; returns what is wrong with the answer, in words.
pub(crate) fn wrong_answer<S: Store>(
    store: &mut S,
    key: &[u8],
    expected: Option<&[u8]>,
) -> Result<Option<String>> {
    let (mut answers, mut is_right, mut got) = (0, expected.is_none(), String::new());
    let is_found = store.get(key, |value| {
        answers += 1;
        is_right = expected == Some(value);
        if !is_right {
            got = in_words(Some(value));
        }
    })?;
    if is_right && is_found == expected.is_some() && answers == u64::from(is_found) {
        return Ok(None);
    }
    let got = if got.is_empty() { format!("found is {is_found}, values: {answers}") } else { got };
    let (key, expected) = (in_words(Some(key)), in_words(expected));
    Ok(Some(format!("key {key}: expected {expected}, got {got}")))
}

/// A key or a value for a message: all of it if it is short.
pub(crate) fn in_words(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "nothing".to_owned(),
        Some(bytes) if bytes.len() > 40 => {
            format!("{} bytes '{}...'", bytes.len(), bytes[..40].escape_ascii())
        }
        Some(bytes) => format!("'{}'", bytes.escape_ascii()),
    }
}
