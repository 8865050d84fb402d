//! A durable commit, as it is written to one of its two places: a sector each.
//!
//! It counts either for certain, because all that it needs was on the disk before it was written; or
//! on the condition that what was written together with it is there, too. Then it says what that is.

use super::format::{COMMIT_WORDS, Commit, Header};
use crate::bytes::{array, le64};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Words of a durable commit: a sector. The last is a checksum of the others.
pub(crate) const META_WORDS: usize = 64;
const META_BYTES: usize = 8 * META_WORDS;
const SUM_AT: usize = META_BYTES - 8;
/// Where it says what it depends on: the stamp, the end, the digest, how many changes; the changes.
const SINCE_AT: usize = 8 * COMMIT_WORDS;
const CHANGES_AT: usize = SINCE_AT + 8 * 4;
const CHANGE_BYTES: usize = 5;
/// Most changes that there is room for.
pub(crate) const MAX_CHANGES: usize = (SUM_AT - CHANGES_AT) / CHANGE_BYTES;

/// A durable commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub commit: Commit,
    /// `None` if it counts for certain.
    pub since: Option<Since>,
}

/// What a commit has that the one that was durable before it has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Since {
    /// The stamp of the one before, and its pages of the file.
    pub stamp: u64,
    pub end: u64,
    /// Of the pages of trees, in their order here.
    pub digest: u64,
    pub changes: Vec<Change>,
}

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub page: u64,
    pub kind: Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// It was free, and is one of a tree.
    Tree,
    /// It was free, and has values in it, or keys.
    Values,
    /// Values were put behind those that it had.
    Added,
    /// It was in use, and is free.
    Freed,
}

impl Change {
    fn encode(self) -> [u8; CHANGE_BYTES] {
        let word = self.page << 2 | self.kind as u64;
        let [a, b, c, d, e, ..] = word.to_le_bytes();
        [a, b, c, d, e]
    }

    fn decode(bytes: [u8; CHANGE_BYTES]) -> Change {
        let [a, b, c, d, e] = bytes;
        let word = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
        let kinds = [Changed::Tree, Changed::Values, Changed::Added, Changed::Freed];
        Change { page: word >> 2, kind: kinds[(word & 3) as usize] }
    }
}

impl Meta {
    /// A commit that counts for certain.
    pub(crate) fn certain(commit: Commit) -> Meta {
        Meta { commit, since: None }
    }

    /// As it is written.
    pub(crate) fn encode(&self, header: &Header) -> [u64; META_WORDS] {
        let mut bytes = [0; META_BYTES];
        let mut put = |at: usize, word: u64| {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        };
        self.commit.words().into_iter().enumerate().for_each(|(i, word)| put(8 * i, word));
        if let Some(since) = &self.since {
            let words = [since.stamp, since.end, since.digest, since.changes.len() as u64];
            words.into_iter().enumerate().for_each(|(i, word)| put(SINCE_AT + 8 * i, word));
            let places = bytes[CHANGES_AT..SUM_AT].as_chunks_mut::<CHANGE_BYTES>().0;
            for (place, change) in places.iter_mut().zip(&since.changes) {
                *place = change.encode();
            }
        }
        let sum = Self::sum(&bytes, header);
        bytes[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        std::array::from_fn(|i| u64::from_le_bytes(bytes.as_chunks::<8>().0[i]))
    }

    /// What is in such a place; `None` if it is not whole.
    pub(crate) fn decode(words: [u64; META_WORDS], header: &Header) -> Option<Meta> {
        let mut bytes = [0; META_BYTES];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        let commit = Commit::of(std::array::from_fn(|i| words[i]));
        if commit.stamp == 0 || words[META_WORDS - 1] != Self::sum(&bytes, header) {
            return None;
        }
        let word = |i: usize| le64(&bytes, SINCE_AT + 8 * i);
        let (stamp, end, digest, count) = (word(0)?, word(1)?, word(2)?, word(3)? as usize);
        if stamp == 0 {
            return Some(Meta::certain(commit));
        }
        if count > MAX_CHANGES {
            return None;
        }
        let change = |i| array(&bytes, CHANGES_AT + i * CHANGE_BYTES).map(Change::decode);
        let changes = (0..count).map(change).collect::<Option<_>>()?;
        Some(Meta { commit, since: Some(Since { stamp, end, digest, changes }) })
    }

    fn sum(bytes: &[u8; META_BYTES], header: &Header) -> u64 {
        xxh3_64_with_seed(&bytes[..SUM_AT], header.store as u64)
    }
}

const _: () =
    assert!(MAX_CHANGES >= 64 && (super::format::MAX_PAGES << 2) >> (8 * CHANGE_BYTES) == 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let header = Header { store: 77 };
        let commit = Commit { number: 3, stamp: 9, end: 1000, ..Commit::default() };
        let mut changes = Vec::new();
        for count in [0, 1, 7, MAX_CHANGES] {
            while changes.len() < count {
                let i = changes.len();
                let kinds = [Changed::Tree, Changed::Values, Changed::Added, Changed::Freed];
                let page = super::super::format::MAX_PAGES - 1 - i as u64;
                changes.push(Change { page, kind: kinds[i % 4] });
            }
            let since = Since { stamp: 8, end: 7, digest: u64::MAX - 5, changes: changes.clone() };
            for meta in [Meta { commit, since: Some(since) }, Meta::certain(commit)] {
                let words = meta.encode(&header);
                assert_eq!(Meta::decode(words, &header), Some(meta));
                assert_eq!(Meta::decode(words, &Header { store: 78 }), None);
                for bit in 0..64 * META_WORDS {
                    let mut words = words;
                    words[bit / 64] ^= 1 << (bit % 64);
                    assert_eq!(Meta::decode(words, &header), None, "bit {bit}");
                }
            }
        }
    }
}
