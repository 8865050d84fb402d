//! What is in a store, and where its bytes went.

use super::format::{LOG_AT, session, unit_place, words};
use super::handle::Hash;
use super::index::Index;
use super::page::LINE;
use crate::Result;
use crate::os::atomic::Ordering;

/// What is in a store. Sizes are in bytes; header, live, dead, retired and free add up to the data
/// file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys.
    pub records: u64,
    /// Bytes of the data file's header.
    pub header_bytes: u64,
    /// Bytes of the records that are found, with their headers.
    pub live_bytes: u64,
    /// Bytes of records that were replaced or deleted, and of the records that say so.
    pub dead_bytes: u64,
    /// Bytes emptied that wait for readers to let go, or for a sync.
    pub retired_bytes: u64,
    /// Bytes for records to come.
    pub free_bytes: u64,
    /// Bytes of the data file.
    pub file_bytes: u64,
    /// Bytes of the index file.
    pub index_bytes: u64,
    /// Bytes of these that the index's pages take: eight for each slot.
    pub page_bytes: u64,
    /// Entries of the index's directory.
    pub directory_entries: u64,
    /// How many bytes `live_bytes` may be; 0: any.
    pub limit_bytes: u64,
    /// Records that were dropped to keep below the limit, or within the disk, since the index was made from the log.
    pub evictions: u64,
    /// Records ever appended.
    pub changes: u64,
    /// How many of them are known to be on the disk.
    pub durable_changes: u64,
}

impl Hash {
    /// What is in the store.
    ///
    /// # Errors
    /// The index was replaced and cannot be read.
    pub fn stats(&self) -> Result<Stats> {
        self.stats_now().map_err(|e| self.named(e))
    }

    fn stats_now(&self) -> Result<Stats> {
        let core = self.core();
        // Settles what waits, too, where that can be done.
        let (records, live) = core.counts()?;
        let (_held, index) = core.index()?;
        let index_bytes = index.map.refresh_len()?;
        let load = |word| index.load(word);
        let file_bytes = core.data.refresh_len()?;
        // A segment that the log has left may end behind the file.
        let log = index.log_bytes().min(file_bytes.saturating_sub(LOG_AT));
        let live = live.min(log);
        let retired = self.retired_bytes(index);
        let used = LOG_AT.saturating_add(log).saturating_add(retired);
        let load_shared = |word| core.session(word).load(Ordering::Relaxed);
        Ok(Stats {
            records,
            header_bytes: LOG_AT,
            live_bytes: live,
            dead_bytes: log - live,
            retired_bytes: retired.min(file_bytes.saturating_sub(LOG_AT.saturating_add(log))),
            free_bytes: file_bytes.saturating_sub(used),
            file_bytes,
            index_bytes,
            page_bytes: load(words::PAGE_LINES).saturating_mul(LINE),
            directory_entries: index.state().entries(),
            limit_bytes: core.header.limit,
            evictions: load(words::EVICTED),
            changes: load_shared(session::CHANGES),
            durable_changes: load_shared(session::DURABLE),
        })
    }

    /// Bytes of emptied segments: those from the first retired to the oldest in use.
    fn retired_bytes(&self, index: &Index) -> u64 {
        let oldest = index.load(words::OLDEST_UNIT);
        let (at, _) = unit_place(oldest);
        let in_oldest = index.load(words::CLEANED).saturating_sub(at);
        let mut bytes = in_oldest;
        let mut unit = match index.load(words::RETIRED_UNIT) {
            0 => oldest,
            retired => retired - 1,
        };
        // Others may change the chain meanwhile: no more steps than there are units.
        for _ in 0..self.core().units() {
            if unit == oldest {
                break;
            }
            let Ok(segment) = index.segment(unit) else { break };
            let (last, size) = unit_place(unit.saturating_add(segment.units() - 1));
            let end = last.saturating_add(size);
            bytes = end.saturating_sub(unit_place(unit).0).saturating_add(bytes);
            unit = segment.next();
        }
        bytes
    }
}
