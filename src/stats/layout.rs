//! Which number lies where in an area of statistics: `docs/format/stats.md` as constants.

use super::histogram::BUCKETS;
use super::operation::Operation;
use crate::bytes::{le32, le64};
use crate::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64;

/// The first bytes of a file.
pub(super) const MAGIC: [u8; 8] = *b"\x89CRDNZS\n";
const VERSION: u32 = 1;

/// Bytes of the header, of which the first 64 are checked.
pub(super) const HEADER_BYTES: usize = 4096;
const CHECKED_BYTES: usize = 64;
const SUM_AT: usize = 56;
/// The word that is odd while numbers move from one slot to another.
pub(super) const MOVING: usize = 8;

/// Slots, the common one included.
pub(super) const SLOTS: usize = 64;
const OPERATIONS: usize = Operation::ALL.len();
/// Words of a slot: a page of owner and counters, and a page for each histogram.
const SLOT_WORDS: usize = 512 + OPERATIONS * BUCKETS;
const HISTOGRAMS: usize = 512;

/// Bytes of an area.
pub(super) const BYTES: usize = HEADER_BYTES + SLOTS * SLOT_WORDS * 8;

/// The words of a slot that say whose it is; the first is 0 if it is nobody's.
pub(super) const OWNER: usize = 0;
pub(super) const OWNER_START: usize = 1;
pub(super) const OWNER_BOOT: usize = 2;
/// The first of the words that a thread counts in.
pub(super) const COUNTERS: usize = 8;

/// The words of an operation's line of counters.
pub(super) const CALLS: usize = 0;
pub(super) const SECOND: usize = 1;
pub(super) const FAILED: usize = 2;
pub(super) const TRANSFERRED: usize = 3;
pub(super) const ITEMS: usize = 4;
pub(super) const SUM: usize = 5;
pub(super) const MAX: usize = 6;
pub(super) const LINE_WORDS: usize = 8;
/// Words of all lines together.
pub(super) const COUNTER_WORDS: usize = OPERATIONS * LINE_WORDS;

/// The word of calls counts them in steps of this; what is below says how many more calls there
/// are until one is due.
pub(super) const CALL: u64 = 1 << 16;

const _: () = assert!(COUNTERS + COUNTER_WORDS <= HISTOGRAMS);

/// The first word of a slot.
pub(super) const fn slot(number: usize) -> usize {
    HEADER_BYTES / 8 + number * SLOT_WORDS
}

/// The first word of an operation's line in a slot.
pub(super) fn line(number: usize, operation: Operation) -> usize {
    slot(number) + COUNTERS + operation.number() * LINE_WORDS
}

/// The first word of an operation's histogram in a slot.
pub(super) fn histogram(number: usize, operation: Operation) -> usize {
    slot(number) + HISTOGRAMS + operation.number() * BUCKETS
}

/// The header, as far as it is checked.
pub(super) fn header() -> [u8; CHECKED_BYTES] {
    let mut header = [0; CHECKED_BYTES];
    let numbers = [VERSION, OPERATIONS as u32, SLOTS as u32, BUCKETS as u32];
    header[..8].copy_from_slice(&MAGIC);
    for (at, number) in (8..).step_by(4).zip(numbers) {
        header[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    header[24..32].copy_from_slice(&(BYTES as u64).to_le_bytes());
    let sum = xxh3_64(&header[..SUM_AT]);
    header[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Whether these bytes begin a file of statistics.
pub(crate) fn begin_statistics(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Checks the first bytes of a file of `len` bytes.
///
/// # Errors
/// It is none of this format and version, or damaged.
pub(super) fn check(head: &[u8], len: u64) -> Result<()> {
    if !begin_statistics(head) {
        let found = match head.iter().all(|b| *b == 0) {
            true => "it is empty or being made; try again, and remove it if that stays so",
            false => "its first bytes differ; if nothing else needs it, remove it",
        };
        let expected = "a file of statistics";
        return Err(Error::new(ErrorKind::WrongFormat { expected, found: found.into() }));
    }
    let remedy = "; remove it, and a new one is made";
    let sum = head.get(..SUM_AT).map(xxh3_64);
    if sum.is_none() || sum != le64(head, SUM_AT) {
        let what = format!("the checksum of the header of these statistics is wrong{remedy}");
        return Err(Error::corrupt(SUM_AT as u64, what));
    }
    if head.get(..CHECKED_BYTES) != Some(&header()) {
        let version = le32(head, 8).unwrap_or_default();
        return Err(Error::new(ErrorKind::Unsupported(format!(
            "these are statistics of version {version} or of another shape, and this program \
             knows version {VERSION}; use a program of that version, or remove the file"
        ))));
    }
    if len != BYTES as u64 {
        let what = format!("there are {len} bytes of statistics instead of {BYTES}{remedy}");
        return Err(Error::corrupt(len.min(BYTES as u64), what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_where_the_document_says() {
        assert_eq!(BYTES, 3_411_968);
        assert_eq!(slot(0) * 8, 4096);
        assert_eq!((slot(1) - slot(0)) * 8, 53_248);
        assert_eq!((line(0, Operation::Get) - slot(0)) * 8, 64);
        assert_eq!((line(0, Operation::Sync) - slot(0)) * 8, 64 + 11 * 64);
        assert_eq!((histogram(0, Operation::Get) - slot(0)) * 8, 4096);
        assert_eq!(histogram(0, Operation::Sync) + BUCKETS, slot(1));
        assert_eq!(slot(SLOTS) * 8, BYTES);
    }

    #[test]
    fn every_changed_bit_of_the_header_is_noticed() {
        check(&header(), BYTES as u64).unwrap();
        for bit in 0..8 * CHECKED_BYTES {
            let mut changed = header();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&changed, BYTES as u64).unwrap_err().is_bad_file(), "bit {bit}");
        }
        for len in [0, 7, 8, 63, 64] {
            let head = header();
            check(head.get(..len).unwrap(), len as u64).unwrap_err();
        }
        for len in [BYTES - 1, BYTES + 1] {
            check(&header(), len as u64).unwrap_err();
        }
    }
}
