//! How several values of a key are in a tree, whose keys have one value each.
//!
//! What is a key there begins with the user's key, so marked that none begins with another: keys of
//! one length as they are; of others every byte 0 is 1 1, every byte 1 is 1 2, and a 0 ends them. The
//! order stays the same. Behind that comes the value, if they are sorted; else a label, a number of
//! eight bytes, the highest first, that says where among the values of the key this one is. So
//! everything that a tree can do it can do with pairs: prefixes are cut, ranges found, pages joined.
//!
//! *Dropped*: a tree for each key with many values, and a list for those with few, as others have it.
//! It saves the repeated key (which the cut prefix mostly does, too), and needs both forms and the
//! way between them, in every change, in freeing and in verifying.

use super::kind::{Duplicates, Kind};
use super::range::behind;
use crate::Result;
use std::ops::Bound;

/// How the pairs of a table are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs {
    kind: Kind,
}

/// From where to where.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The label of the first value of a key; others come before and behind.
pub(crate) const FIRST_LABEL: u64 = 1 << 63;
/// How far a label is from that beside it when nothing is beyond.
pub(crate) const LABEL_STEP: u64 = 1 << 32;

impl Pairs {
    pub(crate) fn of(kind: Kind) -> Pairs {
        Pairs { kind }
    }

    pub(crate) fn kind(self) -> Kind {
        self.kind
    }

    pub(crate) fn is_sorted(self) -> bool {
        self.kind.duplicates == Duplicates::Sorted
    }

    pub(crate) fn check_key(self, key: &[u8]) -> Result<()> {
        self.kind.check_key(key)
    }

    /// What the pairs of a key begin with; `None` if there can be no such key.
    pub(crate) fn begin(self, key: &[u8]) -> Option<Vec<u8>> {
        if let Some(width) = self.kind.width() {
            return (key.len() == width).then(|| key.to_vec());
        }
        let mut begin = Vec::with_capacity(key.len() + 16);
        for byte in key {
            match byte {
                0 | 1 => begin.extend([1, byte + 1]),
                other => begin.push(*other),
            }
        }
        begin.push(0);
        Some(begin)
    }

    /// What the pairs of all keys begin with that begin so; `None` if there can be none.
    pub(crate) fn prefix(self, prefix: &[u8]) -> Option<Vec<u8>> {
        if let Some(width) = self.kind.width() {
            return (prefix.len() <= width).then(|| prefix.to_vec());
        }
        let mut begin = self.begin(prefix)?;
        // The end of the key is not meant.
        begin.pop();
        Some(begin)
    }

    /// Puts the user's key of a pair in the place of what is in `key`; what comes behind it is the
    /// value or the label. `None` if the bytes are no pair.
    pub(crate) fn split<'p>(self, pair: &'p [u8], key: &mut Vec<u8>) -> Option<&'p [u8]> {
        key.clear();
        let rest = match self.kind.width() {
            Some(width) => {
                let (fixed, rest) = pair.split_at_checked(width)?;
                key.extend_from_slice(fixed);
                rest
            }
            None => {
                let mut left = pair;
                loop {
                    let (byte, after) = left.split_first()?;
                    left = after;
                    match byte {
                        0 => break left,
                        1 => {
                            let (marked, after) = left.split_first()?;
                            left = after;
                            key.push(marked.checked_sub(1).filter(|byte| *byte < 2)?);
                        }
                        other => key.push(*other),
                    }
                }
            }
        };
        (self.is_sorted() || rest.len() == 8).then_some(rest)
    }

    /// The bounds of the pairs whose keys are in a range.
    pub(crate) fn bounds(self, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Bounds {
        let start = match start {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) => self.edge(key, false),
            Bound::Excluded(key) => self.edge(key, true),
        };
        // From an edge on nothing is within.
        let end = match end {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) => self.edge(key, true),
            Bound::Excluded(key) => self.edge(key, false),
        };
        let end = match end {
            Bound::Included(edge) => Bound::Excluded(edge),
            // Behind all there are.
            _ => Bound::Unbounded,
        };
        match start {
            // Nothing comes behind the highest key; nor is anything below the empty one.
            Bound::Excluded(_) => (Bound::Unbounded, Bound::Excluded(Vec::new())),
            start => (start, end),
        }
    }

    /// The first pair of a key, or behind all of them, which need not be there: included; or excluded if
    /// there can be none there.
    fn edge(self, key: &[u8], is_behind: bool) -> Bound<Vec<u8>> {
        let edge = match self.kind.width() {
            // No key of the table: it is before those that begin so, or behind the one that it begins with.
            Some(width) if key.len() < width => Some(key.to_vec()),
            Some(width) if key.len() > width => behind(&key[..width]),
            _ => {
                let begin = self.begin(key).unwrap_or_default();
                if is_behind { behind(&begin) } else { Some(begin) }
            }
        };
        edge.map_or_else(|| Bound::Excluded(key.to_vec()), Bound::Included)
    }
}

/// A label as its bytes.
pub(crate) fn label_bytes(label: u64) -> [u8; 8] {
    label.swap_bytes().to_le_bytes()
}

/// The label that is at the end of a pair.
pub(crate) fn label_of(pair: &[u8]) -> Option<u64> {
    pair.last_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes).swap_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::kind::TableOptions;
    use super::*;

    fn pairs(options: TableOptions) -> Pairs {
        Pairs::of(options.duplicates(Duplicates::Sorted).kind())
    }

    #[test]
    fn pairs_are_in_the_order_of_their_keys_and_then_of_their_values() {
        let all = pairs(TableOptions::new());
        let bytes =
            [&b""[..], b"\0", b"\0\0", b"\0\x01", b"\x01", b"\x01\0", b"\x02", b"a", b"a\0"];
        let mut stored = Vec::new();
        for key in bytes {
            for value in bytes {
                let mut pair = all.begin(key).unwrap();
                pair.extend(value);
                let mut found = Vec::new();
                assert_eq!(all.split(&pair, &mut found), Some(value));
                assert_eq!(found, key);
                stored.push(pair);
            }
        }
        assert!(stored.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn keys_of_one_length_are_stored_as_they_are() {
        let all = pairs(TableOptions::of_keys::<u16>());
        assert_eq!(all.begin(&[0, 1]), Some(vec![0, 1]));
        assert_eq!(all.begin(&[0]), None);
        assert_eq!(all.split(&[0, 1, 9], &mut Vec::new()), Some(&[9][..]));
        assert_eq!(all.split(&[0], &mut Vec::new()), None);
        let highest = [0xff, 0xff];
        let (start, end) = all.bounds(Bound::Excluded(&highest), Bound::Unbounded);
        assert_eq!((start, end), (Bound::Unbounded, Bound::Excluded(Vec::new())));
        let (_, end) = all.bounds(Bound::Unbounded, Bound::Included(&highest));
        assert_eq!(end, Bound::Unbounded);
    }

    #[test]
    fn what_is_no_pair_is_none() {
        let all = pairs(TableOptions::new());
        for bytes in [&b""[..], b"a", b"\x01", b"\x01\0\0", b"\x01\x03\0"] {
            assert_eq!(all.split(bytes, &mut Vec::new()), None, "{bytes:?}");
        }
        let labelled = Pairs::of(TableOptions::new().duplicates(Duplicates::Inserted).kind());
        assert_eq!(labelled.split(b"a\x001234567", &mut Vec::new()), None);
        assert_eq!(label_of(&label_bytes(77)), Some(77));
        assert!(label_bytes(255) < label_bytes(256));
    }
}
