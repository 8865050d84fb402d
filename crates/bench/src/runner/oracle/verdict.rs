//! What a comparison found, and how it is told.

use super::note::Asked;
use crate::report::text;
use serde::{Deserialize, Serialize};

/// What came of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(super) workload: String,
    pub(super) mix: String,
    pub(super) seed: u64,
    pub(super) records: u64,
    pub(super) stores: Vec<String>,
    /// Operations that every store did.
    pub(super) operations: u64,
    /// How often everything was compared.
    pub(super) full_checks: u64,
    pub(super) difference: Option<Difference>,
    /// Stores that were named and cannot be opened.
    pub(super) missing: Vec<Missing>,
    /// Stores that took the process with them, and were left out then.
    pub(super) died: Vec<Death>,
    /// Whether a signal ended it: everything up to `operations` was compared.
    pub(crate) interrupted: bool,
    /// What the reader must know: stores that were left out, and why.
    pub(super) notes: Vec<String>,
}

/// A store that took no part, though it was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Missing {
    pub(super) store: String,
    /// Why, in a sentence.
    pub(super) what: String,
}

impl Missing {
    pub(super) fn in_words(&self) -> String {
        format!("MISSING: {}: {}\n", self.store, self.what)
    }
}

/// A store whose library ended the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Death {
    pub(super) store: String,
    /// What it was asked.
    #[serde(flatten)]
    pub(super) asked: Asked,
    /// How the process ended, in words.
    pub(super) how: String,
}

impl Death {
    pub(super) fn in_words(&self) -> String {
        let Death { store, asked: Asked { operation, what, key }, how } = self;
        format!("DIED at operation {operation}, {what}, key '{key}': {store}: {how}\n")
    }
}

/// The first difference.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Difference {
    /// The number of the operation, from 1; in a full check, of the last one before it.
    pub(super) operation: u64,
    /// What was asked: "get", ..., "full check", "full check backwards", "full check after
    /// closing".
    pub(super) what: String,
    /// The key it was about, escaped.
    pub(super) key: String,
    /// The right answer, as the model has it.
    pub(super) model: String,
    pub(super) answers: Vec<Given>,
}

/// The answer of one store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Given {
    pub(super) store: String,
    pub(super) answer: String,
    pub(super) differs: bool,
}

impl Verdict {
    /// Whether all answers were right, of all stores that were asked for.
    pub(crate) fn is_well(&self) -> bool {
        self.difference.is_none() && self.died.is_empty() && self.missing.is_empty()
    }

    /// The verdict for a reader.
    pub(crate) fn in_words(&self) -> String {
        let mut text: String = self.notes.iter().map(|note| format!("note: {note}\n")).collect();
        let Verdict { workload, mix, seed, records, operations, full_checks, .. } = self;
        let stores = match &self.stores[..] {
            [only] => format!("{only} and the model"),
            several => several.join(", "),
        };
        let records = text::counted(*records as usize, "record");
        text += &format!("{workload}: {mix}; {records}, seed {seed}\n");
        text.extend(self.missing.iter().map(Missing::in_words));
        text.extend(self.died.iter().map(Death::in_words));
        let operations = text::counted(*operations as usize, "operation");
        text += &match &self.difference {
            None if self.stores.is_empty() => "no store is left to compare\n".to_owned(),
            None if self.interrupted => {
                format!("stopped by a signal: {stores} agree in {operations} so far\n")
            }
            None => {
                let times = text::counted(*full_checks as usize, "time");
                format!("{stores} agree: {operations}, and all records {times}\n")
            }
            Some(found) => found.in_words(),
        };
        text
    }
}

impl Difference {
    pub(super) fn in_words(&self) -> String {
        let Difference { operation, what, key, model, answers } = self;
        let wrong = answers.iter().filter(|given| given.differs);
        let wrong: Vec<&str> = wrong.map(|given| given.store.as_str()).collect();
        let mut text = format!(
            "DIFFERENCE at operation {operation}, {what}, key '{key}': wrong is {}\n  {:<20} {model}\n",
            wrong.join(", "),
            "expected"
        );
        for given in answers {
            text += &format!("  {:<20} {}\n", given.store, given.answer);
        }
        text
    }
}

/// What a store says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Done,
    /// The values it gave for one key: one or none, if it is sane.
    Values(Vec<Vec<u8>>),
    Removed(bool),
    Range(Vec<(Vec<u8>, Vec<u8>)>),
    /// It said that it found a value, or none, and did otherwise.
    Contradicts,
    /// What it gave where it should give something else, in words.
    Unlike(String),
    Failed(String),
}

impl Answer {
    pub(super) fn in_words(&self) -> String {
        let bytes = |bytes: &[u8]| match bytes.len() {
            0..=60 => format!("'{}'", bytes.escape_ascii()),
            len => format!("'{}...' ({len} bytes)", bytes[..60].escape_ascii()),
        };
        match self {
            Answer::Done => "done".to_owned(),
            Answer::Values(values) if values.is_empty() => "nothing".to_owned(),
            Answer::Values(values) => {
                values.iter().map(|value| bytes(value)).collect::<Vec<_>>().join(" and ")
            }
            Answer::Removed(is_removed) => format!("removed: {is_removed}"),
            Answer::Range(records) => {
                let shown = records.iter().take(3);
                let pair = |(key, value): &(Vec<u8>, Vec<u8>)| {
                    format!("{} -> {}", bytes(key), bytes(&value[..value.len().min(20)]))
                };
                let more = if records.len() > 3 { ", ..." } else { "" };
                let shown: Vec<String> = shown.map(pair).collect();
                format!(
                    "from the first difference on {} records: {}{more}",
                    records.len(),
                    shown.join(", ")
                )
            }
            Answer::Contradicts => "a value, and that there is none".to_owned(),
            Answer::Unlike(what) => what.clone(),
            Answer::Failed(why) => format!("an error: {why}"),
        }
    }

    /// What it is where `other` was expected, or given: if it reads the same, also where the first difference is.
    pub(super) fn in_words_beside(&self, other: &Answer) -> String {
        let (own, other) = (self.without_common_start(other), other.without_common_start(self));
        let words = own.in_words();
        if words != other.in_words() {
            return words;
        }
        let values = match (&own, &other) {
            (Answer::Values(own), Answer::Values(other)) => {
                own.iter().zip(other).find(|(own, other)| own != other)
            }
            (Answer::Range(own), Answer::Range(other)) => {
                own.first().zip(other.first()).map(|(own, other)| match own.0 == other.0 {
                    true => (&own.1, &other.1),
                    false => (&own.0, &other.0),
                })
            }
            _ => None,
        };
        let Some((own, other)) = values else { return words };
        let same = own.iter().zip(other).take_while(|(own, other)| own == other).count();
        let byte = own.get(same..=same).unwrap_or_default().escape_ascii();
        format!("{words}, with '{byte}' behind the first {same} bytes")
    }

    /// Of two ranges, only the part from their first difference on.
    pub(super) fn without_common_start(&self, other: &Answer) -> Answer {
        match (self, other) {
            (Answer::Range(own), Answer::Range(others)) => {
                let same = own.iter().zip(others).take_while(|(a, b)| a == b).count();
                Answer::Range(own[same..].to_vec())
            }
            _ => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both sides of a difference were shown alike.
    #[test]
    fn a_difference_behind_what_is_shown_is_told() {
        let (mut right, mut wrong) = (vec![b'a'; 200], vec![b'a'; 200]);
        (right[150], wrong[150]) = (b'b', b'c');
        let values = [&right, &wrong].map(|value| Answer::Values(vec![value.clone()]));
        let ranges = [&right, &wrong].map(|value| {
            Answer::Range(vec![
                (b"same".to_vec(), b"same".to_vec()),
                (b"key".to_vec(), value.clone()),
            ])
        });
        for [right, wrong] in [values, ranges] {
            let told = [right.in_words_beside(&wrong), wrong.in_words_beside(&right)];
            assert!(told[0].ends_with(", with 'b' behind the first 150 bytes"), "{}", told[0]);
            assert!(told[1].ends_with(", with 'c' behind the first 150 bytes"), "{}", told[1]);
        }
        let short = [&b"a"[..], b"b"].map(|value| Answer::Values(vec![value.to_vec()]));
        assert_eq!(short[0].in_words_beside(&short[1]), "'a'");
    }
}
