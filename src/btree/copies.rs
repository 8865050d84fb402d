//! Memory for copies of what was read, which stays where it is as long as anybody may borrow it.
//!
//! Copies are only ever added, so that what is borrowed from `&self` stays good without locks: they are
//! in blocks, each twice as long as the one before, that never move. An index says which is where.
//!
//! Threads: any number may read and add at the same time; of two who copy the same, one is heard.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Copies in the first block.
const FIRST: usize = 16;
/// Enough blocks for all that a machine has room for.
const BLOCKS: usize = 48;

type Place = OnceLock<Box<[u8]>>;

/// Copies of parts of a file.
#[derive(Debug)]
pub(crate) struct Copies {
    blocks: [OnceLock<Box<[Place]>>; BLOCKS],
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    /// The number of the copy of what is at an address and so long.
    numbers: HashMap<(u64, usize), usize>,
    bytes: u64,
}

impl Copies {
    pub(crate) fn new() -> Copies {
        Copies { blocks: [const { OnceLock::new() }; BLOCKS], index: Mutex::default() }
    }

    /// The copy of what is at an address and so long, if there is one.
    pub(crate) fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let number = *self.index().numbers.get(&(at, len))?;
        self.place(number).get().map(|bytes| &bytes[..])
    }

    /// Adds a copy of what is at an address.
    pub(crate) fn keep(&self, at: u64, bytes: Box<[u8]>) -> &[u8] {
        let mut index = self.index();
        let (next, len) = (index.numbers.len(), bytes.len());
        let number = *index.numbers.entry((at, len)).or_insert(next);
        if number == next {
            index.bytes += len as u64;
        }
        // Under the lock: who finds the number finds the copy.
        self.place(number).get_or_init(|| bytes)
    }

    /// Bytes of all copies.
    pub(crate) fn bytes(&self) -> u64 {
        self.index().bytes
    }

    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, number: usize) -> &Place {
        let number = number + FIRST;
        let block = (number / FIRST).ilog2();
        let places = self.blocks[block as usize]
            .get_or_init(|| (0..FIRST << block).map(|_| OnceLock::new()).collect());
        &places[number - (FIRST << block)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_where_they_are() {
        let copies = Copies::new();
        let bytes = |i: u64| i.to_le_bytes()[..(i % 9) as usize].to_vec().into_boxed_slice();
        let mut kept = Vec::new();
        for i in 0..5000u64 {
            assert_eq!(copies.get(i, (i % 9) as usize), None);
            kept.push(copies.keep(i, bytes(i)));
        }
        for (i, kept) in (0..).zip(kept) {
            assert_eq!(kept, &*bytes(i));
            let found = copies.get(i, kept.len()).unwrap();
            assert_eq!((found.as_ptr(), found.len()), (kept.as_ptr(), kept.len()));
            // Of two who copy the same the first is heard.
            assert_eq!(copies.keep(i, bytes(i)).as_ptr(), kept.as_ptr());
            assert_eq!(copies.get(i, 10), None);
        }
        assert_eq!(copies.bytes(), (0..5000).map(|i| i % 9).sum());
    }

    #[test]
    fn many_threads_add_copies() {
        let copies = Copies::new();
        std::thread::scope(|scope| {
            for from in 0..4u64 {
                let copies = &copies;
                scope.spawn(move || {
                    for i in (0..4000).map(|i| (i * 7 + from * 1000) % 4000) {
                        let copy = i.to_le_bytes().to_vec().into_boxed_slice();
                        assert_eq!(copies.keep(i, copy), i.to_le_bytes());
                        assert_eq!(copies.get(i, 8), Some(&i.to_le_bytes()[..]));
                    }
                });
            }
        });
        assert_eq!(copies.bytes(), 4000 * 8);
    }
}
