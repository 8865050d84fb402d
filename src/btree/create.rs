//! A new store in an empty file.
//!
//! Invariant: the header is written last, when the rest is durable: so a file has it, or is no store yet.

use super::core::FIRST_STAMP;
use super::format::{Commit, FIXED, HEADER_BYTES, Header, METAS, PAGE_BYTES, session};
use super::meta::{META_WORDS, Meta};
use super::tag::Tagged;
use crate::Result;
use crate::magic::{COPY_AT, COPY_END, copy_of, forget_copy};
use crate::os::file::{read_exact_at, write_new};
use crate::os::process::random_id;
use std::fs::File;

/// Pages of a new file: page 0, and the first block of the table.
pub(super) const FIRST_PAGES: u64 = 2;

/// Whether there is nothing in the file, or only what somebody left who was killed while making it, or whose machine was:
/// zeros where the header is, which is written last, and of the rest what he writes there, or zeros. Anything else is
/// somebody's file that begins with zeros.
pub(super) fn is_unborn(file: &File, len: u64) -> Result<bool> {
    if len > FIRST_PAGES * PAGE_BYTES {
        return Ok(false);
    }
    let mut bytes = vec![0; len as usize];
    read_exact_at(file, &mut bytes, 0)?;
    let made = first_pages(&Header { store: 0, tagged: Tagged(true), in_place: true });
    // It has the store's number for a seed.
    let sum_end = METAS[0] as usize + 8 * META_WORDS;
    let sum = sum_end - 8..sum_end;
    forget_copy::<HEADER_BYTES>(&mut bytes);
    let is_his = |(i, byte): (usize, &u8)| *byte == 0 || *byte == made[i] || sum.contains(&i);
    Ok(bytes.iter().enumerate().all(is_his))
}

/// The pages of an empty tree, but for the header.
fn first_pages(header: &Header) -> Vec<u8> {
    let commit = Commit { stamp: FIRST_STAMP, end: FIRST_PAGES, number: 1, ..Commit::default() };
    let mut bytes = vec![0; (FIRST_PAGES * PAGE_BYTES) as usize];
    bytes[COPY_AT..COPY_END].copy_from_slice(&copy_of(&header.encode()));
    let mut put = |at: u64, word: u64| {
        bytes[at as usize..at as usize + 8].copy_from_slice(&word.to_le_bytes());
    };
    let meta = Meta { commit, turn: 0, journal: None };
    for (i, word) in meta.encode(header).into_iter().enumerate() {
        put(METAS[0] + 8 * i as u64, word);
    }
    put(session::TABLES, 1);
    for page in 0..FIRST_PAGES {
        put(PAGE_BYTES + 16 * page, FIXED);
    }
    bytes
}

/// Writes a file with an empty tree.
pub(super) fn create_file(file: &File) -> Result<()> {
    let header = Header { store: random_id()?, tagged: Tagged(true), in_place: true };
    write_new(file, &first_pages(&header), &header.encode())
}

#[cfg(test)]
mod tests {
    use super::super::random::Rng;
    use super::*;
    use std::os::unix::fs::FileExt;

    /// Danger: a store whose making was interrupted can never be made, or somebody's file is written over.
    #[test]
    fn what_was_left_of_a_store_in_the_making_is_known() {
        let mut random = Rng::new(1);
        for store in 0..400 {
            let made = first_pages(&Header { store, tagged: Tagged(true), in_place: true });
            let mut left = made[..random.below(made.len() as u64 + 1) as usize].to_vec();
            let sectors = left.chunks_mut(512).filter(|_| random.below(3) == 0);
            sectors.for_each(|sector| sector.fill(0));
            let is_unborn = |bytes: &[u8]| {
                let file = tempfile::tempfile().unwrap();
                file.write_all_at(bytes, 0).unwrap();
                is_unborn(&file, bytes.len() as u64).unwrap()
            };
            assert!(is_unborn(&left), "store {store}");
            left.extend([0; HEADER_BYTES]);
            left[random.below(HEADER_BYTES as u64) as usize] = 0xee;
            assert!(!is_unborn(&left), "store {store}");
        }
    }
}
