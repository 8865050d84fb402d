//! What a store begins with: a data file with an empty log, and an empty index.

use super::blocks::LINES;
use super::format::{
    HEADER_BYTES, Header, INDEX_HEADER, IndexHeader, SEGMENT_HEADER, SegmentHeader, unit_place,
    words,
};
use super::index::{Index, State};
use super::page::{LINE, Page, SIZES};
use crate::bytes::le64;
use crate::magic::{COPY_AT, COPY_END, copy_of, forget_copy};
use crate::os::atomic::Ordering;
use crate::os::file::{read_exact_at, write_all_at, write_new};
use crate::os::process::{random_id, random_word};
use crate::os::shared::{HEAD_BYTES, SharedMap};
use crate::{Error, Result};
use std::fs::File;

impl Index {
    /// A new, empty index of a store whose log has no segment yet.
    pub(crate) fn create(
        file: File,
        room: u64,
        store: Header,
        hash_id: u32,
        seed: u64,
    ) -> Result<Index> {
        let id = random_word()? | 1;
        let header = IndexHeader { store: store.store, id, hash_id, seed };
        let mut head = [0; HEAD_BYTES as usize];
        let encoded = header.encode();
        head[..encoded.len()].copy_from_slice(&encoded);
        // All of the page, which is written through the map: where blocks are smaller, it would have but the first.
        write_all_at(&file, &head, 0).map_err(|e| Error::io("write", e))?;
        let index = Index::new(SharedMap::new(file, true, room)?, header)?;
        index.is_checked.store(true, Ordering::Relaxed);
        index.store(words::INDEX_LEN, HEAD_BYTES);
        // The directory's block is the first, its only page the second.
        let directory = INDEX_HEADER / LINE;
        let page = Page { block: directory + 2, lines: SIZES[0], depth: 0, base: 0 };
        let end = page.block + 1 + page.lines;
        let own = |block: u64, lines: u64| {
            if let Some(line) = index.map.line(block * LINE) {
                line[LINES].store(lines, Ordering::Relaxed);
            }
        };
        own(directory, 1);
        own(page.block, page.lines);
        index.store(words::STATE, State::new(directory + 1, 0).0);
        index.entry(index.state(), 0)?.store(page.encode(), Ordering::Relaxed);
        index.store(words::BUMP, end);
        index.store(words::PAGE_LINES, page.lines);
        Ok(index)
    }
}

/// The segment that a new log has.
const FIRST: SegmentHeader = SegmentHeader { sequence: 1, units: 1 };

/// Whether there is nothing in the file, or only what somebody left who was killed while making it, or whose machine was:
/// zeros, for the header is written last, its copy, and the head of the first segment. Anything else is somebody's file that
/// begins with zeros.
pub(super) fn is_unborn(file: &File, len: u64) -> Result<bool> {
    let (at, size) = unit_place(0);
    if len > at + size {
        return Ok(false);
    }
    let mut bytes = vec![0; len as usize];
    read_exact_at(file, &mut bytes, 0)?;
    let head = at as usize..(at + SEGMENT_HEADER) as usize;
    if let Some(head) = bytes.get_mut(head)
        && (le64(head, 0), le64(head, 8)) == (Some(FIRST.sequence), Some(u64::from(FIRST.units)))
    {
        // Its sum may be any: it has the store's seed.
        head.fill(0);
    }
    forget_copy::<HEADER_BYTES>(&mut bytes);
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// Writes a data file with an empty log.
pub(super) fn create_data(file: &File, limit: u64) -> Result<()> {
    let (store, seed) = (random_id()?, random_word()?);
    let header = Header {
        store,
        seed,
        limit,
        has_movable_sums: true,
        has_numbered_ends: true,
        has_short_removals: true,
    };
    let (at, size) = unit_place(0);
    let mut rest = vec![0; (at + size) as usize];
    let head = FIRST.encode(&header, at);
    rest[at as usize..at as usize + head.len()].copy_from_slice(&head);
    let header = header.encode();
    rest[COPY_AT..COPY_END].copy_from_slice(&copy_of(&header));
    write_new(file, &rest, &header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// Danger: a store whose making was interrupted can never be made.
    #[test]
    fn what_was_left_of_a_store_in_the_making_is_known() {
        let (folder, limit) = (tempfile::tempdir().unwrap(), 0);
        let path = folder.path().join("store");
        let made = File::create_new(&path).unwrap();
        create_data(&made, limit).unwrap();
        let mut left = std::fs::read(&path).unwrap();
        // The header is what is written last, at once.
        left[..512].fill(0);
        let is_unborn = |bytes: &[u8]| {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(bytes, 0).unwrap();
            is_unborn(&file, bytes.len() as u64).unwrap()
        };
        let (at, _) = unit_place(0);
        for len in [0, 1, 512, at as usize, at as usize + 512, left.len()] {
            assert!(is_unborn(&left[..len]), "{len}");
        }
        let (mut lost, mut other) = (left.clone(), left.clone());
        lost[at as usize..at as usize + 512].fill(0);
        other[at as usize] = 2;
        assert!(is_unborn(&lost) && !is_unborn(&other));
        left.push(0);
        assert!(!is_unborn(&left), "longer than what is made");
    }
}
