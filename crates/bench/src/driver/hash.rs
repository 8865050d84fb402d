//! Our hash engine, with its default options: it is told nothing about what is to come.

use super::{Driver, Identity, Reading, Shape, Sharing, Source, Store, Writer};
use credenza::{Result, Scan, hash};
use std::path::Path;

pub(super) struct Hash;

impl Driver for Hash {
    const NAME: &'static str = "hash";
    const SOURCE: Option<Source> = None;
    const NATIVE_GET_MANY: bool = true;
    const SYNCS: &'static str = "fdatasync when the last process closes it";

    const SHARING: Sharing = Sharing::Writer;

    fn load(_: Option<&Path>) -> Result<Hash> {
        Ok(Hash)
    }

    fn identity(&self) -> Identity {
        Identity { version: env!("CARGO_PKG_VERSION").to_owned(), file: None }
    }

    fn tuning(&self, _: &Shape) -> String {
        "defaults: grows as records come, with its lock between processes, nothing sized".to_owned()
    }

    type Store<'d> = hash::Hash;

    fn open(&self, path: &Path, _: &Shape, _: Reading) -> Result<hash::Hash> {
        hash::Hash::open(path)
    }

    type Writer<'d> = hash::Hash;

    fn create(&self, path: &Path, _: &Shape) -> Result<hash::Hash> {
        hash::Hash::create(path)
    }

    fn open_to_change(&self, path: &Path, _: &Shape) -> Result<hash::Hash> {
        hash::Hash::open(path)
    }
}

impl Store for hash::Hash {
    #[inline]
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
        Ok(self.get_with(key, take)?.is_some())
    }

    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        hash::Hash::get_many(self, keys, take)
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        Scan::scan(self, |key, value| {
            take(key, value);
            Ok(())
        })
    }
}

impl Writer for hash::Hash {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        hash::Hash::insert(self, key, value)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        hash::Hash::remove(self, key)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}
