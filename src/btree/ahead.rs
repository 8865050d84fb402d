//! Leaves that are asked for before they are read.
//!
//! Where pages are said to be read at random the kernel reads none before it is wanted: who goes from leaf to leaf
//! asks for those that come next, now and then for many. It is a hint: what damage leads astray is found by
//! who reads it.

use super::format::PAGE_BYTES;
use super::inner;
use super::page::Bytes;
use super::tree::Pages;
use std::ops::Range;

/// So many leaves are asked for at a time.
pub(crate) const AHEAD: usize = 64;

/// Asks for the pages that these links of an inner page lead to, of which number `last` is read last, unless
/// that is in memory.
#[cold]
pub(crate) fn ask(pages: &impl Pages, bytes: &Bytes, links: Range<usize>, last: usize) {
    let map = pages.map();
    let place = |i| inner::link(bytes, i).ok().map(|link| link.page().saturating_mul(PAGE_BYTES));
    if links.is_empty() || place(last).is_none_or(|at| map.is_in_memory(at)) {
        return;
    }
    let mut run = 0..0;
    for at in links.filter_map(place) {
        if at != run.end {
            map.will_need(run.start, run.end);
            run.start = at;
        }
        run.end = at.saturating_add(PAGE_BYTES);
    }
    map.will_need(run.start, run.end);
}

#[cfg(test)]
mod tests {
    use super::AHEAD;
    use crate::Advice;
    use crate::btree::BTree;
    use crate::os::shared::advice::drop_from_memory;
    use std::path::Path;
    use std::time::Instant;

    /// Beside the program, if there may be files: what is for temporary files may be memory itself.
    fn folder() -> tempfile::TempDir {
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).or_else(|_| tempfile::tempdir()).unwrap()
    }

    /// A store with the keys, put in one after the other, of which nothing is in memory.
    fn cold<'k>(path: &Path, keys: impl Iterator<Item = &'k Vec<u8>>) -> BTree {
        let store = BTree::create(path).unwrap();
        let mut transaction = store.write().unwrap();
        for key in keys {
            transaction.main().insert(key, key).unwrap();
        }
        transaction.commit().unwrap();
        drop(store);
        drop_from_memory(&std::fs::File::open(path).unwrap()).unwrap();
        BTree::options().advice(Advice::Random).open(path).unwrap()
    }

    fn keys(count: u64) -> Vec<Vec<u8>> {
        (0..count).map(|i| format!("{:08}", i * 7).into_bytes()).collect()
    }

    /// Danger: what asks for leaves ahead of a walk leads it astray at the edges of pages.
    #[test]
    fn walks_both_ways_find_all_where_pages_are_read_at_random() {
        let (folder, keys) = (folder(), keys(120_000));
        // In no order, so that leaves lie where they lie.
        let mixed = (0..keys.len()).map(|i| &keys[i * 7_919 % keys.len()]);
        let store = cold(&folder.path().join("store"), mixed);
        let snapshot = store.read().unwrap();
        let mut cursor = snapshot.main().cursor();
        let mut found = Vec::new();
        while cursor.next().unwrap() {
            found.push(cursor.key().unwrap().to_vec());
        }
        assert!(found.iter().eq(&keys), "{} of {}", found.len(), keys.len());
        found.clear();
        while cursor.previous().unwrap() {
            found.push(cursor.key().unwrap().to_vec());
        }
        assert!(found.iter().rev().eq(&keys), "{} of {}", found.len(), keys.len());
    }

    /// Danger: nothing is asked for, and each leaf is waited for by itself.
    #[test]
    fn leaves_that_are_still_to_come_are_in_memory() {
        let (folder, keys) = (folder(), keys(120_000));
        let path = folder.path().join("store");
        let store = cold(&path, keys.iter());
        let map = &store.core().map;
        let len = map.len();
        if map.is_in_memory(len / 2) {
            return; // No disk behind it.
        }
        let snapshot = store.read().unwrap();
        let mut cursor = snapshot.main().cursor();
        // Some eighty leaves of four hundred, so that behind the 64th those up to the 192nd are asked for.
        let read = keys.len() / 5;
        for key in &keys[..read] {
            assert!(cursor.next().unwrap());
            assert_eq!(cursor.key(), Some(&key[..]));
        }
        let pages = || (0..len).step_by(4096).filter(|at| map.is_in_memory(*at)).count();
        let of_read = len as usize / 4096 * read / keys.len();
        let begun = Instant::now();
        while pages() < of_read + AHEAD {
            assert!(begun.elapsed().as_secs() < 60, "{} pages are in memory", pages());
            std::thread::yield_now();
        }
    }
}
