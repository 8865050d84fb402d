//! The bytes of a tree file: its head page, what a commit is, and the table of pages.
//!
//! `docs/format/btree.md` has all of it with the reasons. Everything is little-endian.

use super::tag::Tagged;
use crate::bytes::{array, le32, le64};
use crate::magic::{self, BTREE, HAS_COPY, IGNORABLE_AT, MAGIC};
use crate::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// The same where addresses are counted.
pub(crate) const PAGE_BYTES: u64 = PAGE as u64;

/// The version of the format that this program writes and reads.
const VERSION: u32 = 1;
/// A feature that a reader must understand: leaves may have tags.
pub(crate) const TAGS: u32 = 1;
/// Another: leaves of the newest commit may be changed where they are.
pub(crate) const IN_PLACE: u32 = 2;
/// Bytes of the header at the beginning of page 0.
pub(crate) const HEADER_BYTES: usize = 64;

/// Where the two places for durable commits are: a sector each.
pub(crate) const METAS: [u64; 2] = [512, 1024];

/// Longest key.
pub const MAX_KEY: usize = 65_536;
/// Longest value in a table that keeps the values of a key sorted, where it is stored as part of the key.
pub const MAX_SORTED_VALUE: usize = MAX_KEY;
/// Longest key as it is stored: of a table whose keys may have several values the key with its zeros
/// marked, and the value.
pub(crate) const MAX_STORED_KEY: usize = 2 * MAX_KEY + 1 + MAX_SORTED_VALUE;
/// Longest value.
pub const MAX_VALUE: u64 = u32::MAX as u64;
/// Longest name of a table.
pub const MAX_NAME: usize = 255;
/// Page numbers are below this: files of up to 2^48 bytes.
pub(crate) const MAX_PAGES: u64 = 1 << 36;

/// Offsets in page 0 of what processes share while the machine runs.
pub(crate) mod session {
    /// The first of the four words that say whose session it is.
    pub(crate) const BOOT_LOW: u64 = 2048;
    /// The number of the newest commit; its words are at `COMMITS[number % 2]`.
    pub(crate) const STATE: u64 = 2080;
    /// Nonzero while somebody changes the table of pages: the stamp that he began with.
    pub(crate) const WRITING: u64 = 2088;
    /// The stamp of the commit that is durable.
    pub(crate) const DURABLE: u64 = 2096;
    /// The stamp of a commit that is being made durable, or of which nobody knows whether it is.
    pub(crate) const SYNCING: u64 = 2104;
    /// How many of the base's pages have been replaced since.
    pub(crate) const RETAINED: u64 = 2112;
    /// Slots of readers that may be in use: those before this one.
    pub(crate) const SLOTS_USED: u64 = 2120;
    /// Nonzero as long as the table of pages may hold what a power failure left.
    pub(crate) const UNSWEPT: u64 = 2128;
    /// Nonzero when the pages are on the disk as the durable commit needs them: there was a sync of all
    /// since the session began.
    pub(crate) const SETTLED: u64 = 2136;
    /// What it is when that sync may have been one of another file, which this is a copy of.
    pub(crate) const SETTLED_IN_MEMORY: u64 = 2;
    /// Nonzero if pages of the durable commit may have no checksum: another number each time that
    /// there may be more.
    pub(crate) const UNSUMMED: u64 = 2144;
    /// Nonzero after a commit ended before the one that it follows: commits that somebody may still
    /// hold have pages, and the table of pages tells of them, up to here.
    pub(crate) const HIGH: u64 = 2152;
    /// The stamp of that commit: those from it on end no later than the newest.
    pub(crate) const LOWERED: u64 = 2160;
    /// How often the file was made shorter.
    pub(crate) const CUTS: u64 = 2168;
    pub(crate) const WRITER_LOCK: u64 = 2176;
    pub(crate) const SYNC_LOCK: u64 = 2240;
    /// The newest commit, and the one before it or after it.
    pub(crate) const COMMITS: [u64; 2] = [2304, 2432];
    /// The journal: its first page, 0 if there is none, with `GIVEN_UP` if it is of no use any more and
    /// the next writer frees its pages; how many; and bytes of it that are in use.
    pub(crate) const JOURNAL: u64 = 2408;
    pub(crate) const GIVEN_UP: u64 = 1 << 63;
    pub(crate) const JOURNAL_PAGES: u64 = 2416;
    pub(crate) const JOURNAL_END: u64 = 2424;
    /// Half a word, another number after each sync: who waits for one sleeps on it.
    pub(crate) const SYNCS: u64 = 2536;
    /// Half a word on which those sleep who wait for a commit: odd while there may be any, another
    /// number after each commit that came then.
    pub(crate) const BELL: u64 = 2540;
    /// The stamp of the base: of it all pages are on the disk, and those that came after it and are
    /// durable were appended to its journal.
    pub(crate) const BASE: u64 = 2544;
    /// The checksum of what was appended last, or what those of the base's journal begin with.
    pub(crate) const JOURNAL_SUM: u64 = 2552;
    /// Page numbers of further pages of slots.
    pub(crate) const SLOT_PAGES: u64 = 2560;
    pub(crate) const SLOT_PAGE_COUNT: u64 = 32;
    /// Page numbers of the blocks of the table of pages.
    pub(crate) const TABLES: u64 = 2816;
    /// The stamp of the last commit that the table of pages does not tell all of: it has a new block, or the
    /// store has a lower end, or again one that it had before.
    pub(crate) const MOVED: u64 = 3048;
    /// While the number of the newest commit has [`CHANGING`](super::super::in_place::CHANGING): the number of the page that
    /// says what to undo, and above 40 bits another number each time.
    pub(crate) const NOTE: u64 = 3056;
    /// The slots of readers that are in page 0.
    pub(crate) const SLOTS: u64 = 3072;
    pub(crate) const END: u64 = 4096;
}

/// Bytes of an entry in the table of pages: the stamp that the page was written under, and the stamp
/// that it was freed under.
pub(crate) const ENTRY: u64 = 16;
/// The table is in blocks: the first tells of this many pages, the second of the next as many, each
/// other of twice as many as the one before.
pub(crate) const FIRST_TABLE: u64 = PAGE_BYTES / ENTRY;
/// Blocks for all pages that there can be.
pub(crate) const TABLES: u64 = 29;
/// The stamp of pages that are not freed as others are: page 0, the table itself, slots of readers, the
/// journal.
pub(crate) const FIXED: u64 = 1 << 62;
/// Set in the second word of a page in use: the other bits are those of its checksum.
pub(crate) const SUMMED: u64 = 1 << 63;

/// Which block of the table tells of a page, and as which of its pages.
#[inline(always)]
pub(crate) fn table_of(page: u64) -> (u64, u64) {
    let block = u64::from(64 - (page / FIRST_TABLE).leading_zeros());
    (block, page - first_of_table(block))
}

/// The first page that a block of the table tells of; also where the one before ends.
pub(crate) const fn first_of_table(block: u64) -> u64 {
    if block == 0 { 0 } else { FIRST_TABLE << (block - 1) }
}

/// Pages that a block of the table takes.
pub(crate) fn table_pages(block: u64) -> u64 {
    first_of_table(block).max(FIRST_TABLE) / FIRST_TABLE
}

/// Set in the first word of a page that holds no part of a tree, but values or keys from elsewhere:
/// each of them has a checksum of its own.
pub(crate) const VALUES: u64 = 1 << 61;

/// The stamp that a page was written under, from the first word of its entry.
#[inline(always)]
pub(crate) fn born(word: u64) -> u64 {
    word & !VALUES
}

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Tells this file from all others.
    pub store: u128,
    /// Whether leaves with a heap that are written have tags. Stores that were made before there were
    /// any have none, so that programs of that time read them.
    pub tagged: Tagged,
    /// Whether leaves are changed where they are. In stores that were made before that was done they are not, as programs of
    /// that time would read them meanwhile.
    pub in_place: bool,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&BTREE.to_le_bytes());
        bytes[12..16].copy_from_slice(&VERSION.to_le_bytes());
        bytes[IGNORABLE_AT..20].copy_from_slice(&HAS_COPY.to_le_bytes());
        // 20..24: features that writers must know.
        bytes[24..28].copy_from_slice(&(PAGE as u32).to_le_bytes());
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let features = bit(self.tagged.0, TAGS) | bit(self.in_place, IN_PLACE);
        bytes[28..32].copy_from_slice(&features.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.store.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..56], 0);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// That of a damaged file which begins so.
    pub(crate) fn of_damaged(head: &[u8]) -> Result<Header> {
        magic::header_or_copy::<HEADER_BYTES, _>(head, Header::decode)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Header> {
        let wrong = |found: String| {
            Error::new(ErrorKind::WrongFormat { expected: "a credenza btree store", found })
        };
        if bytes.is_empty() {
            return Err(wrong("it is empty".into()));
        }
        if bytes.get(..8) != Some(&MAGIC[..]) {
            return Err(wrong("it does not begin as one".into()));
        }
        let number = |at| le32(bytes, at).unwrap_or(0);
        if number(8) != BTREE {
            return Err(wrong(magic::what_is_of(number(8))));
        }
        let Some(sum) = le64(bytes, 56) else {
            return Err(Error::corrupt(bytes.len() as u64, "the file ends within its header"));
        };
        if sum != xxh3_64_with_seed(&bytes[..56], 0) {
            return Err(Error::corrupt(0, "the header's checksum does not fit"));
        }
        let features = [number(20), number(28)];
        let is_known = features[0] == 0 && features[1] & !(TAGS | IN_PLACE) == 0;
        if number(12) != VERSION || !is_known || number(24) != PAGE as u32 {
            let what = format!(
                "a btree store of version {} with pages of {} bytes and features {features:x?}: this \
                 program knows version {VERSION} with pages of {PAGE}; use a newer one",
                number(12),
                number(24),
            );
            return Err(Error::new(ErrorKind::Unsupported(what)));
        }
        let store = array(bytes, 32).map_or(0, u128::from_le_bytes);
        let has = |bit| number(28) & bit != 0;
        Ok(Header { store, tagged: Tagged(has(TAGS)), in_place: has(IN_PLACE) })
    }
}

/// Where a tree is, and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The [`Link`](super::page::Link) to the topmost page; 0 if there is none.
    pub root: u64,
    /// Levels of pages: 0 for an empty tree, 1 if the topmost page is a leaf.
    pub depth: u64,
    /// Records.
    pub count: u64,
    /// What kind of table it is: 0, keys that are bytes, one value each. [`Kind`](super::kind::Kind)
    /// has the others.
    pub kind: u64,
    /// The number of the next record to be appended, less one.
    pub last_number: u64,
}

/// Words that a tree takes in a commit, and in the record of a table.
pub(crate) const TREE_WORDS: usize = 5;

impl Tree {
    pub(crate) fn words(&self) -> [u64; TREE_WORDS] {
        [self.root, self.depth, self.count, self.kind, self.last_number]
    }

    pub(crate) fn of(words: [u64; TREE_WORDS]) -> Tree {
        let [root, depth, count, kind, last_number] = words;
        Tree { root, depth, count, kind, last_number }
    }

    pub(crate) fn encode(&self) -> [u8; TREE_WORDS * 8] {
        let mut bytes = [0; TREE_WORDS * 8];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.words()) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; TREE_WORDS * 8]) -> Tree {
        let word = |i: usize| u64::from_le_bytes(bytes.as_chunks::<8>().0[i]);
        Tree::of(std::array::from_fn(word))
    }
}

/// A state of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commit {
    /// One more than that of the state before.
    pub number: u64,
    /// All of its pages were written under this stamp or one before.
    pub stamp: u64,
    /// Pages of the file that were ever in use; those behind are all free.
    pub end: u64,
    /// The table without a name.
    pub main: Tree,
    /// The names of the other tables, and where they are.
    pub catalog: Tree,
}

pub(crate) const COMMIT_WORDS: usize = 3 + 2 * TREE_WORDS;

impl Commit {
    pub(crate) fn words(&self) -> [u64; COMMIT_WORDS] {
        let mut words = [0; COMMIT_WORDS];
        words[..3].copy_from_slice(&[self.number, self.stamp, self.end]);
        words[3..3 + TREE_WORDS].copy_from_slice(&self.main.words());
        words[3 + TREE_WORDS..].copy_from_slice(&self.catalog.words());
        words
    }

    pub(crate) fn of(words: [u64; COMMIT_WORDS]) -> Commit {
        let tree = |from: usize| Tree::of(std::array::from_fn(|i| words[from + i]));
        let [number, stamp, end, ..] = words;
        Commit { number, stamp, end, main: tree(3), catalog: tree(3 + TREE_WORDS) }
    }
}

/// What is wrong where it does not fit.
pub(crate) const BAD_FAR_SUM: &str = "the checksum of a long key or value does not fit";
/// The checksum of bytes that are elsewhere.
pub(crate) fn far_sum(bytes: &[u8]) -> u32 {
    xxh3_64_with_seed(bytes, 0) as u32
}

/// The checksum of a page as its entry holds it.
pub(crate) fn page_sum(page: &[u8; PAGE], number: u64) -> u64 {
    xxh3_64_with_seed(page, number) | SUMMED
}
