//! What is in a store of whatever kind, in the same words for each.

use crate::btree::BTree;
use crate::hash::Hash;
use crate::{Result, Scan, constant, foreign};

/// What is in a store of whatever kind. Sizes are in bytes; keys, values, directory and slack add
/// up to the size of the file. Of a btree store they may be more: what keys begin with is in the file
/// once for many of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Records: a key with three values counts three times.
    pub records: u64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Bytes that find records, or say how long they are.
    pub directory_bytes: u64,
    /// Bytes not used.
    pub slack_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// What only this kind of store has: names, as in its own statistics, and numbers.
    pub more: Vec<(&'static str, u64)>,
    /// The name of the histogram of this kind of store, if it has one, and its counts from 0 on.
    pub histogram: Option<(&'static str, Vec<u64>)>,
}

impl From<constant::Stats> for StoreStats {
    fn from(stats: constant::Stats) -> Self {
        StoreStats {
            records: stats.records,
            key_bytes: stats.key_bytes,
            value_bytes: stats.value_bytes,
            directory_bytes: stats.directory_bytes,
            slack_bytes: stats.slack_bytes,
            file_bytes: stats.file_bytes,
            more: vec![
                ("log_bytes", stats.log_bytes),
                ("list_bytes", stats.list_bytes),
                ("buckets", stats.buckets),
                ("largest_bucket", stats.largest_bucket),
            ],
            histogram: Some(("fill_histogram", stats.fill_histogram)),
        }
    }
}

impl From<foreign::Stats> for StoreStats {
    fn from(stats: foreign::Stats) -> Self {
        StoreStats {
            records: stats.records,
            key_bytes: stats.key_bytes,
            value_bytes: stats.value_bytes,
            directory_bytes: stats.directory_bytes,
            slack_bytes: stats.slack_bytes,
            file_bytes: stats.file_bytes,
            more: vec![("tables", stats.tables), ("slots", stats.slots)],
            histogram: Some(("distance_histogram", stats.distance_histogram)),
        }
    }
}

/// The bytes of all keys, and those of all values.
fn sizes(store: &impl Scan) -> Result<(u64, u64)> {
    let (mut key_bytes, mut value_bytes) = (0, 0);
    store.scan(|key, value| {
        key_bytes += key.len() as u64;
        value_bytes += value.len() as u64;
        Ok(())
    })?;
    Ok((key_bytes, value_bytes))
}

/// The statistics of a hash store, and the bytes of its keys and values, which it does not count.
/// What others write meanwhile may be in one number and not in another; the sum stays the file.
pub(crate) fn hash_stats(store: &Hash) -> Result<StoreStats> {
    let (key_bytes, value_bytes) = sizes(store)?;
    let stats = store.stats()?;
    let slack_bytes = stats.dead_bytes + stats.retired_bytes + stats.free_bytes;
    let others = key_bytes + value_bytes + slack_bytes;
    Ok(StoreStats {
        records: stats.records,
        key_bytes,
        value_bytes,
        directory_bytes: stats.file_bytes.saturating_sub(others),
        slack_bytes,
        file_bytes: stats.file_bytes,
        more: vec![
            ("live_bytes", stats.live_bytes),
            ("dead_bytes", stats.dead_bytes),
            ("retired_bytes", stats.retired_bytes),
            ("free_bytes", stats.free_bytes),
            ("index_bytes", stats.index_bytes),
            ("limit_bytes", stats.limit_bytes),
            ("evictions", stats.evictions),
            ("changes", stats.changes),
            ("durable_changes", stats.durable_changes),
        ],
        histogram: None,
    })
}

/// The same of a btree store: its main table counts, and what others take is its directory.
pub(crate) fn btree_stats(store: &BTree) -> Result<StoreStats> {
    let (key_bytes, value_bytes) = sizes(store)?;
    let stats = store.stats()?;
    let slack_bytes = stats.held_bytes + stats.free_bytes;
    // Keys are stored once for all that begin with them, so the sum may be over the file.
    let used = stats.file_bytes.saturating_sub(slack_bytes);
    let directory_bytes = used.saturating_sub(key_bytes + value_bytes);
    Ok(StoreStats {
        records: stats.records,
        key_bytes,
        value_bytes,
        directory_bytes,
        slack_bytes,
        file_bytes: stats.file_bytes,
        more: vec![
            ("tables", stats.tables),
            ("depth", stats.depth),
            ("header_bytes", stats.header_bytes),
            ("live_bytes", stats.live_bytes),
            ("held_bytes", stats.held_bytes),
            ("undurable_bytes", stats.undurable_bytes),
            ("free_bytes", stats.free_bytes),
            ("commits", stats.commits),
        ],
        histogram: None,
    })
}
