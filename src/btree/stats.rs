//! What is in a store, where its bytes went, and who holds them.

use super::as_of::AsOf;
use super::format::{self, FIXED, PAGE_BYTES, SUMMED, session};
use super::handle::BTree;
use super::pins::{self, Reader};
use crate::Result;
use crate::os::atomic::Ordering;

/// What is in a store. Sizes are in bytes; header, live, held and free add up to the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Records of the main table.
    pub records: u64,
    /// Tables that have a name.
    pub tables: u64,
    /// Levels of pages of the main table.
    pub depth: u64,
    /// Page 0, the table of pages, slots of readers, and the journal.
    pub header_bytes: u64,
    /// Pages of the newest commit.
    pub live_bytes: u64,
    /// Pages of older commits that a reader holds, or that are not replaced on the disk yet.
    pub held_bytes: u64,
    /// Those of them that the durable commit has: a sync lets them go.
    pub undurable_bytes: u64,
    /// Pages for what comes.
    pub free_bytes: u64,
    /// The file.
    pub file_bytes: u64,
    /// The number of the newest commit.
    pub commits: u64,
    /// Whether the newest commit is on the disk; of a copy of the file, whether it was in that which was copied.
    pub is_durable: bool,
    /// Who reads which commit, of those before the newest. A reader of the newest holds no further space, and is not among
    /// them.
    pub readers: Vec<Reader>,
    /// The stamp of the newest commit: readers of lower ones hold pages.
    pub stamp: u64,
}

impl BTree {
    /// What is in the store. Reads the whole table of pages: a 256th of the file.
    ///
    /// # Errors
    /// The store is damaged where it was read, or there are as many readers as can be.
    pub fn stats(&self) -> Result<Stats> {
        self.stats_now().map_err(|e| self.named(e))
    }

    fn stats_now(&self) -> Result<Stats> {
        let core = self.core();
        pins::clear_dead(core);
        core.ensure_swept()?;
        let snapshot = self.read()?;
        let commit = *snapshot.commit();
        core.reach(&commit)?;
        // Where nobody may write, what is said of readers may be of those before the last start of the
        // machine.
        let is_only = core.only().is_some();
        let held = core.pins().filter(|_| !is_only);
        let pins: Vec<u64> = held.chain([commit.stamp]).collect();
        let mut pages = [0u64; 3];
        let mut holders = Holders::new(if is_only { Vec::new() } else { pins::readers(core) });
        let durable = [session::DURABLE, session::BASE].map(|at| core.load(at));
        let mut undurable = 0;
        let as_of = AsOf::of_only(core);
        for page in 0..commit.end {
            let [born, gone] = match &as_of {
                Some(table) => table.words(page)?[1],
                None => core.entry(page)?.map(|word| word.load(Ordering::Relaxed)),
            };
            let is_in_use = gone == 0 || gone & SUMMED != 0;
            let since = format::born(born);
            let is_held = || pins.iter().any(|pin| (since..gone).contains(pin));
            if born == FIXED {
                pages[0] += 1;
            } else if born != 0 && (is_in_use && since <= commit.stamp || gone > commit.stamp) {
                pages[1] += 1;
            } else if born != 0 && (is_in_use || is_held()) {
                pages[2] += 1;
                if !is_in_use {
                    holders.add(since, gone);
                    let is_held = durable.iter().any(|stamp| (since..gone).contains(stamp));
                    undurable += u64::from(is_held);
                }
            }
        }
        let file_bytes = core.map.refresh_len()?;
        let [header_bytes, live_bytes, held_bytes] = pages.map(|pages| pages * PAGE_BYTES);
        let is_durable = core.is_durable(commit.stamp)?;
        Ok(Stats {
            records: commit.main.count,
            tables: commit.catalog.count,
            depth: commit.main.depth,
            header_bytes,
            live_bytes,
            held_bytes,
            undurable_bytes: undurable * PAGE_BYTES,
            free_bytes: file_bytes.saturating_sub(header_bytes + live_bytes + held_bytes),
            file_bytes,
            commits: commit.number,
            is_durable,
            readers: holders.readers(commit.stamp),
            stamp: commit.stamp,
        })
    }
}

/// Who holds how many pages.
struct Holders {
    /// In the order of their stamps.
    readers: Vec<Reader>,
    /// How many pages more each of them holds than the one before.
    more: Vec<i64>,
}

impl Holders {
    fn new(mut readers: Vec<Reader>) -> Holders {
        readers.sort_by_key(|reader| reader.stamp);
        Holders { more: vec![0; readers.len() + 1], readers }
    }

    /// Counts a page for those who hold commits from a stamp on to before another.
    fn add(&mut self, since: u64, gone: u64) {
        let number = |stamp| self.readers.partition_point(|reader| reader.stamp < stamp);
        let (from, to) = (number(since), number(gone));
        self.more[from] += 1;
        self.more[to] -= 1;
    }

    /// Those who read commits before that of a stamp.
    fn readers(mut self, newest: u64) -> Vec<Reader> {
        let mut pages = 0;
        for (reader, more) in self.readers.iter_mut().zip(self.more) {
            pages += more;
            reader.held_bytes = pages.max(0) as u64 * PAGE_BYTES;
        }
        self.readers.retain(|reader| reader.stamp < newest);
        self.readers
    }
}
