//! Our btree engine, with its default options: it is told nothing about what is to come.
//!
//! As LMDB's driver: one transaction for the build, by a bulk load when the keys come sorted; lookups
//! in one snapshot; single changes all in one transaction, which is committed at the end.

#![allow(unsafe_code)]

use super::{Changes, Driver, Identity, Reading, Shape, Source, Store, Writer};
use crate::workload::Records;
use credenza::{Result, btree};
use std::path::Path;
use std::ptr::NonNull;

pub(super) struct BTree;

/// A store that lives as long as what is borrowed from it; dropped behind that.
struct Opened(NonNull<btree::BTree>);

impl Opened {
    fn new(store: btree::BTree) -> Opened {
        Opened(NonNull::from(Box::leak(Box::new(store))))
    }

    fn get(&self) -> &'static btree::BTree {
        // SAFETY: it lives until `self` is dropped, and those who call this drop what they got
        // before: it is in a field above this one.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: leaked in `new`, and taken back once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A snapshot for all lookups. Fields are dropped in order: the store last.
pub(super) struct Reader {
    snapshot: btree::Snapshot<'static>,
    _store: Opened,
}

/// A transaction for all changes.
pub(super) struct Changer {
    transaction: btree::Transaction<'static>,
    store: Opened,
}

impl Driver for BTree {
    const NAME: &'static str = "btree";
    const SOURCE: Option<Source> = None;
    const NATIVE_GET_MANY: bool = true;
    const SYNCS: &'static str = "fdatasync when the last process closes it";
    const CHANGES: Changes = Changes::AtClose;

    fn load(_: Option<&Path>) -> Result<BTree> {
        Ok(BTree)
    }

    fn identity(&self) -> Identity {
        Identity { version: env!("CARGO_PKG_VERSION").to_owned(), file: None }
    }

    fn tuning(&self, shape: &Shape) -> String {
        let build = if shape.is_sorted { "a bulk load as the keys come sorted" } else { "inserts" };
        format!(
            "defaults, with its lock between processes; build: {build} in one transaction; single \
             changes: one transaction for the whole phase; lookups: one snapshot"
        )
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        if !shape.is_sorted {
            let mut writer = self.create(path, shape)?;
            for (key, value) in records.iter() {
                writer.insert(key, value)?;
            }
            return writer.close();
        }
        let store = btree::BTree::create(path)?;
        let mut transaction = store.write()?;
        transaction.main().bulk_load(records.iter().map(Ok))?;
        transaction.commit()
    }

    type Store<'d> = Reader;

    fn open(&self, path: &Path, _: &Shape, _: Reading) -> Result<Reader> {
        let store = Opened::new(btree::BTree::open(path)?);
        Ok(Reader { snapshot: store.get().read()?, _store: store })
    }

    type Writer<'d> = Changer;

    fn create(&self, path: &Path, _: &Shape) -> Result<Changer> {
        let store = Opened::new(btree::BTree::create(path)?);
        Ok(Changer { transaction: store.get().write()?, store })
    }
}

impl Store for Reader {
    #[inline]
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
        Ok(self.snapshot.main().get(key)?.map(take).is_some())
    }

    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.snapshot.main().get_many(keys, take)
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.snapshot.main().scan(|key, value| {
            take(key, value);
            Ok(())
        })
    }
}

impl Store for Changer {
    #[inline]
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
        Ok(self.transaction.main().get(key)?.map(take).is_some())
    }

    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.transaction.main().read().get_many(keys, take)
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.transaction.main().read().scan(|key, value| {
            take(key, value);
            Ok(())
        })
    }
}

impl Writer for Changer {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.transaction.main().insert(key, value).map(drop)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.transaction.main().remove(key)
    }

    fn close(self) -> Result<()> {
        let Changer { transaction, store } = self;
        transaction.commit()?;
        drop(store);
        Ok(())
    }
}
