//! What a scan must give while others change the store.
//!
//! Of a key that nobody else changes it is known what the store has, and so whether a scan gives it, with
//! which value, and in which order; of the others only that their keys come in their order. All that is
//! compared in the run that compares every answer. In runs that are timed what scans give is not added up
//! with what lookups do, but counted: it must be as many records as there may be.

use super::passes::in_words;
use crate::driver::Store;
use crate::workload::changes::{Beside, Model, Script};
use crate::workload::{Action, Content};
use credenza::Result;
use std::borrow::Cow;

/// How many records all scans of a script may give together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    least: u64,
    most: u64,
}

impl Scanned {
    /// Of a part that gives `alone` where nobody else changes the store, which began with so many records.
    pub(super) fn of(script: &Script, beside: &Beside, alone: u64, records: u64) -> Scanned {
        // What the others add comes on top, and what they remove may be any of it.
        let least = if beside.removes { 0 } else { alone };
        let own = script.changes().filter(|(step, ..)| step.action.stores()).count() as u64;
        let all = records + own + beside.stored;
        let most = script.iter().map(|(step, ..)| match step.action {
            Action::Scan => u64::from(step.scan_len),
            Action::TableScan => all,
            _ => 0,
        });
        Scanned { least, most: most.sum() }
    }

    /// Whether it may be so many.
    pub(super) fn has(self, count: u64) -> bool {
        (self.least..=self.most).contains(&count)
    }
}

/// Reads a range of at most `count` records, where the model, which knows nothing of what others do, has
/// `expected` from there on; returns what is wrong with the answer, in words.
pub(super) fn wrong_range<'a, S: Store>(
    store: &mut S,
    from: &[u8],
    count: usize,
    expected: impl Iterator<Item = (&'a [u8], Cow<'a, [u8]>)>,
    beside: &Beside,
) -> Result<Option<String>> {
    let mut expected = expected.filter(|(key, _)| !beside.changes(key));
    let (mut place, mut last, mut what) = (0, from.to_vec(), None);
    store.range(from, count, |key, value| {
        if what.is_some() {
            return;
        }
        if key < &last[..] {
            let (key, last) = (in_words(Some(key)), in_words(Some(&last)));
            what = Some(format!("record {place}: key {key} behind {last}"));
        } else if !beside.changes(key) {
            let of = expected.next();
            if of.as_ref().map(|(key, value)| (*key, &**value)) != Some((key, value)) {
                let of = in_words(of.map(|(key, _)| key));
                let (key, value) = (in_words(Some(key)), in_words(Some(value)));
                what = Some(format!("record {place}: expected key {of}, got {key}: {value}"));
            }
        }
        last.clear();
        last.extend_from_slice(key);
        place += 1;
    })?;
    if place > count && what.is_none() {
        what = Some(format!("{place} records where {count} were asked for"));
    }
    if let Some((key, _)) = expected.next().filter(|_| what.is_none()) {
        // Behind as many as were asked for it is the next one, if it is not before the last of them.
        if place < count || key < &last[..] {
            what = Some(format!("key {} is left out", in_words(Some(key))));
        }
    }
    Ok(what.map(|what| format!("{}: {what}", in_words(Some(from)))))
}

/// Reads all records; returns what is wrong with those that nobody else changes, in words.
pub(super) fn wrong_scan<S: Store>(
    store: &mut S,
    model: &Model<'_>,
    beside: &Beside,
) -> Result<Option<String>> {
    let mut expected = Content::default();
    for item in (0..model.items()).filter(|item| !beside.changes(model.key(*item))) {
        model.values(item).for_each(|value| expected.add(model.key(item), &value));
    }
    let mut content = Content::default();
    store.scan(|key, value| {
        if !beside.changes(key) {
            content.add(key, value);
        }
    })?;
    Ok((content != expected).then(|| {
        let (given, of) = (content.count, expected.count);
        format!(
            "of the records that nobody else changes the scan gives other than the {of}: {given}"
        )
    }))
}
