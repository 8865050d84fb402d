//! Records that BerkeleyDB numbers, with its access method `DB_RECNO`: from 1 on, in 32 bits.
//!
//! Invariant: numbers stay. A record that was removed leaves its number empty, and one that is put there again
//! has it again.

#![allow(unsafe_code)]

use super::bdb::{Handle, check};
use super::bdb_abi::*;
use super::bdb_store::piece;
use super::native_keys::Native;
use credenza::Result;

/// What a number is to the library.
pub(super) const NUMBER: Native = Native::Unsigned(4);

impl Handle<'_> {
    /// The last number that was given; 0 if none was.
    pub(super) fn last_number(&self) -> Result<u64> {
        let (cursor, mut number) = (self.cursor()?, 0);
        // SAFETY: the cursor is open until it is closed below; a place for the number, and for no byte of the
        // value.
        let get = |number: &mut u32, which| unsafe {
            let (mut key, mut none) = (Dbt::number(number), Dbt::nothing());
            method::<CursorGet>(cursor, at::CURSOR_GET)(cursor, &raw mut key, &raw mut none, which)
        };
        let mut rc = get(&mut number, LAST);
        // That is the last of those that are there; behind it may be some that were removed.
        while matches!(rc, 0 | KEY_EMPTY) {
            let mut next = number + 1;
            rc = get(&mut next, SET);
            number = if rc == KEY_EMPTY { next } else { number };
        }
        // SAFETY: closed once.
        unsafe { method::<CloseCursor>(cursor, at::CURSOR_CLOSE)(cursor) };
        match rc {
            NOT_FOUND => Ok(number.into()),
            rc => check(self.api, "cursor get", rc).map(|()| number.into()),
        }
    }
}

/// Reads at most `count` records that bulk fetching left: from the buffer's end downwards, three numbers for
/// each record (its number, then place and length of the value), then 0. This is `DB_MULTIPLE_RECNO_NEXT`.
/// Returns how many it were.
pub(super) fn each_numbered(
    buffer: &[u32],
    count: usize,
    take: &mut impl FnMut(&[u8], &[u8]),
) -> usize {
    let mut numbers = buffer.rchunks_exact(3);
    let mut given = 0;
    while let Some(&[len, value, number]) = numbers.next()
        && number != 0
        && given < count
    {
        NUMBER.with_key(&number.to_le_bytes(), |key| take(key, piece(buffer, value, len)));
        given += 1;
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bulk_fetching_left_is_read_from_its_end() {
        // Two values of four bytes, then from the end: number, place and length.
        let buffer = [u32::from_be(0x6162_6364), u32::from_be(0x6566_6768), 0, 2, 4, 9, 4, 0, 7];
        let read = |count| {
            let mut all = Vec::new();
            let given = each_numbered(&buffer, count, &mut |key: &[u8], value: &[u8]| {
                all.push((key.to_vec(), value.to_vec()));
            });
            assert_eq!(given, all.len());
            all
        };
        let all = [(vec![0, 0, 0, 7], b"abcd".to_vec()), (vec![0, 0, 0, 9], b"ef".to_vec())];
        assert_eq!((read(1), read(9)), (all[..1].to_vec(), all.to_vec()));
        assert_eq!(piece(&buffer, 32, 9), b"", "outside");
    }
}
