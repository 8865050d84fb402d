//! A durable commit, as it is written to one of its two places: a sector each.
//!
//! All that it needs was on the disk before it was written. It names the journal, if there is one, to
//! which commits that come after it are appended: see [`super::journal`].

use super::format::{COMMIT_WORDS, Commit, Header};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Words of a durable commit: a sector. The last is a checksum of the others.
pub(crate) const META_WORDS: usize = 64;
const SUM: usize = META_WORDS - 1;
/// Where it says how many were written before it, and where the journal is.
const TURN: usize = COMMIT_WORDS;
const JOURNAL: usize = TURN + 1;

/// A durable commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub commit: Commit,
    /// One more than that of the one written before: of two with the same stamp the later counts.
    pub turn: u64,
    pub journal: Option<Journal>,
}

/// Where commits are appended that came after a durable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    /// The first of its pages, which lie in a row, and how many there are.
    pub page: u64,
    pub pages: u64,
    /// A number drawn for this durable commit: what was appended after another is none of its.
    pub salt: u64,
}

impl Meta {
    /// As it is written.
    pub(crate) fn encode(&self, header: &Header) -> [u64; META_WORDS] {
        let mut words = [0; META_WORDS];
        words[..COMMIT_WORDS].copy_from_slice(&self.commit.words());
        words[TURN] = self.turn;
        if let Some(Journal { page, pages, salt }) = self.journal {
            words[JOURNAL..JOURNAL + 3].copy_from_slice(&[page, pages, salt]);
        }
        words[SUM] = sum(&words, header);
        words
    }

    /// What is in such a place; `None` if it is not whole.
    pub(crate) fn decode(words: [u64; META_WORDS], header: &Header) -> Option<Meta> {
        let commit = Commit::of(std::array::from_fn(|i| words[i]));
        if commit.stamp == 0 || words[SUM] != sum(&words, header) {
            return None;
        }
        let [page, pages, salt] = [0, 1, 2].map(|i| words[JOURNAL + i]);
        let journal = (page != 0).then_some(Journal { page, pages, salt });
        Some(Meta { commit, turn: words[TURN], journal })
    }
}

fn sum(words: &[u64; META_WORDS], header: &Header) -> u64 {
    let mut bytes = [0; 8 * SUM];
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    xxh3_64_with_seed(&bytes, header.store as u64)
}

#[cfg(test)]
mod tests {
    use super::super::tag::Tagged;
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let header = Header { store: 77, tagged: Tagged(true), in_place: true };
        let commit = Commit { number: 3, stamp: 9, end: 1000, ..Commit::default() };
        let journal = Journal { page: 5, pages: 128, salt: u64::MAX - 5 };
        for meta in [
            Meta { commit, turn: 4, journal: Some(journal) },
            Meta { commit, turn: 5, journal: None },
        ] {
            let words = meta.encode(&header);
            assert_eq!(Meta::decode(words, &header), Some(meta));
            assert_eq!(Meta::decode(words, &Header { store: 78, ..header }), None);
            for bit in 0..64 * META_WORDS {
                let mut words = words;
                words[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(Meta::decode(words, &header), None, "bit {bit}");
            }
        }
    }
}
