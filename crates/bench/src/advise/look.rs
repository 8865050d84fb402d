//! What the data are: how many records of which sizes, in which order, with what keys.

use super::AdviseArgs;
use crate::replay::{Script, unread};
use crate::report::text;
use crate::workload::{Records, files};
use credenza::record::Trace;
use credenza::{Error, Result};
use credenza_formats::Format;
use serde::Serialize;
use std::path::PathBuf;

/// What is looked at.
pub(super) enum Subject {
    /// Records of a file; of several with the same key the first.
    Records {
        records: Records,
        /// What the user said, and what it is.
        named: Option<Format>,
    },
    /// What a program did with its stores.
    Trace { script: Script, path: PathBuf },
}

/// What is known of the data after one look.
#[derive(Serialize)]
pub(super) struct Facts {
    /// The file.
    pub(super) source: String,
    /// And with all the bytes of its name.
    #[serde(skip)]
    pub(super) path: PathBuf,
    /// "records" or "trace".
    pub(super) kind: &'static str,
    pub(super) records: u64,
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
    pub(super) key_lengths: Lengths,
    pub(super) value_lengths: Lengths,
    /// Whether the records come in the order of their keys.
    pub(super) is_sorted: bool,
    /// Records that were left out because their key had come before.
    pub(super) repeated: u64,
    /// What of a trace is not read, each as the end of a sentence.
    pub(super) unread: Vec<String>,
    /// "u32" or "u64", if all keys are decimal numbers that are shorter so.
    pub(super) numbers: Option<&'static str>,
    /// Whether these are the numbers from 1 on, in their order and without a gap.
    pub(super) is_numbered: bool,
}

/// How long keys or values are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Lengths {
    pub(super) least: usize,
    pub(super) median: usize,
    pub(super) most: usize,
}

impl Lengths {
    fn of(lengths: impl Iterator<Item = usize>) -> Lengths {
        let mut lengths: Vec<usize> = lengths.collect();
        lengths.sort_unstable();
        let at = |place: usize| lengths.get(place).copied().unwrap_or(0);
        let count = lengths.len();
        Lengths { least: at(0), median: at(count / 2), most: at(count.saturating_sub(1)) }
    }
}

impl Facts {
    /// Bytes of all keys and values.
    pub(super) fn bytes(&self) -> u64 {
        self.key_bytes + self.value_bytes
    }
}

/// Reads what `args` name.
pub(super) fn look(args: &AdviseArgs) -> Result<(Subject, Facts)> {
    let path = args.data.as_deref().ok_or_else(|| Error::invalid("there is no --data"))?;
    let named = args.format.as_deref().map(str::parse::<Format>).transpose()?;
    let source = path.display().to_string();
    if Trace::is_trace(path) {
        if named.is_some() {
            return Err(Error::invalid("a trace has no other format: leave out --format").at(path));
        }
        let trace = Trace::open(path)?;
        let script = Script::of(&trace)?;
        if script.steps.is_empty() || script.keys.is_empty() {
            let what = "there is nothing in the trace that was done with a key";
            return Err(unread::nothing(&trace, what));
        }
        let mut unread = unread::all(&trace, &script.told);
        let script = match script.is_loaded_first() && script.loads() < script.steps.len() {
            true => script.built(),
            false => script,
        };
        if !script.loaded.is_empty() {
            let loaded = text::counted(script.loaded.len(), "record");
            unread
                .push(format!("loads {loaded} first, which stores have before they are used here"));
        }
        let lens = || script.value_lens.iter().map(|len| *len as usize);
        let keys = || script.keys.iter().map(|key| &key[..]);
        let facts = Facts { source, kind: "trace", unread, ..facts_of(keys, lens) };
        let path = std::path::absolute(path).map_err(|e| Error::io("find", e).at(path))?;
        return Ok((Subject::Trace { script, path }, facts));
    }
    let files::Found { records, repeated, .. } = files::records_of(path, named, usize::MAX)?;
    if records.len() == 0 {
        return Err(Error::invalid("there is no record in it to advise on").at(path));
    }
    let facts =
        facts_of(|| records.iter().map(|(key, _)| key), || records.iter().map(|(_, v)| v.len()));
    let path = path.to_owned();
    let mut facts = Facts { source, path, kind: "records", repeated, ..facts };
    (facts.numbers, facts.is_numbered) = numbers(&records);
    Ok((Subject::Records { records, named }, facts))
}

fn facts_of<'a, K, L>(keys: impl Fn() -> K, value_lens: impl Fn() -> L) -> Facts
where
    K: Iterator<Item = &'a [u8]>,
    L: Iterator<Item = usize>,
{
    Facts {
        source: String::new(),
        path: PathBuf::new(),
        kind: "",
        records: keys().count() as u64,
        key_bytes: keys().map(|key| key.len() as u64).sum(),
        value_bytes: value_lens().map(|len| len as u64).sum(),
        key_lengths: Lengths::of(keys().map(<[u8]>::len)),
        value_lengths: Lengths::of(value_lens()),
        is_sorted: keys().zip(keys().skip(1)).all(|(one, next)| one < next),
        repeated: 0,
        unread: Vec::new(),
        numbers: None,
        is_numbered: false,
    }
}

/// The type for keys that are all decimal numbers, each written in one way only, if they are shorter so;
/// and whether they are those from 1 on.
fn numbers(records: &Records) -> (Option<&'static str>, bool) {
    let keys = || records.iter().map(|(key, _)| key);
    let number = |key: &[u8]| -> Option<u64> {
        let are_digits = !key.is_empty() && key.iter().all(u8::is_ascii_digit);
        str::from_utf8(key).ok().filter(|_| are_digits)?.parse().ok()
    };
    let (width, mut most) = (records.key(0).len(), 0);
    let (mut are_of_one_width, mut have_zeros, mut is_numbered) = (true, false, true);
    for (place, key) in (1..).zip(keys()) {
        let Some(number) = number(key) else { return (None, false) };
        most = number.max(most);
        are_of_one_width &= key.len() == width;
        have_zeros |= key.len() > 1 && key[0] == b'0';
        is_numbered &= number == place;
    }
    // 7 and 07 are two keys, and would be one.
    if have_zeros && !are_of_one_width {
        return (None, false);
    }
    let (name, bytes) = if u32::try_from(most).is_ok() { ("u32", 4) } else { ("u64", 8) };
    let is_shorter = records.key_bytes() > bytes * records.len() as u64;
    (is_shorter.then_some(name), is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(keys: &[&str]) -> Records {
        let mut records = Records::default();
        for (i, key) in keys.iter().enumerate() {
            records.push(key.as_bytes(), &vec![b'v'; i]).unwrap();
        }
        records
    }

    #[test]
    fn sizes_and_order_are_seen() {
        let of = |keys: &[&str]| {
            let records = records(keys);
            facts_of(|| records.iter().map(|(k, _)| k), || records.iter().map(|(_, v)| v.len()))
        };
        let facts = of(&["a", "bb", "cccc"]);
        assert_eq!((facts.records, facts.bytes(), facts.is_sorted), (3, 10, true));
        assert_eq!(facts.key_lengths, Lengths { least: 1, median: 2, most: 4 });
        assert_eq!(facts.value_lengths, Lengths { least: 0, median: 1, most: 2 });
        assert!(!of(&["b", "a"]).is_sorted);
    }

    #[test]
    fn numbers_are_only_what_no_two_keys_share() {
        for (keys, found) in [
            (&["00000001", "00000002"][..], (Some("u32"), true)),
            (&["00000002", "00000001"], (Some("u32"), false)),
            (&["1000000", "99999999999"], (Some("u64"), false)),
            // They would be longer so.
            (&["1", "2"], (None, true)),
            (&["7000000", "07000000"], (None, false)),
            (&["1000000", "200000x"], (None, false)),
            (&["+1000000"], (None, false)),
            (&[""], (None, false)),
            (&["99999999999999999999999"], (None, false)),
        ] {
            assert_eq!(numbers(&records(keys)), found, "{keys:?}");
        }
    }
}
