//! The writer of stores that are built once: one that only reads, for what changes nothing.

use super::{OwnCount, Store, Writer};
use credenza::{Error, Result};
use std::path::Path;

/// A store that was built, in the place of a writer.
pub(crate) struct ReadOnly<S>(pub(crate) S);

/// Nobody asks for changes of a store whose writer is not possible.
fn refused() -> Error {
    Error::invalid("this store is built once and never changed")
}

impl<S: Store> Store for ReadOnly<S> {
    const IS_ORDERED: bool = S::IS_ORDERED;
    const SCANS_BACK: bool = S::SCANS_BACK;
    const PRELOADS: bool = S::PRELOADS;

    #[inline]
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
        self.0.get(key, take)
    }

    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.0.get_many(keys, take)
    }

    fn preload(&mut self, folder: &Path) -> Result<()> {
        self.0.preload(folder)
    }

    fn refresh(&mut self) -> Result<()> {
        self.0.refresh()
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.0.scan(take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.0.range(from, count, take)
    }

    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        self.0.own_counters()
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.0.scan_back(take)
    }
}

impl<S: Store> Writer for ReadOnly<S> {
    const IS_POSSIBLE: bool = false;

    fn insert(&mut self, _: &[u8], _: &[u8]) -> Result<()> {
        Err(refused())
    }

    fn remove(&mut self, _: &[u8]) -> Result<bool> {
        Err(refused())
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}
