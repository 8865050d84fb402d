//! A store that is compared, whatever its kind: what the measuring loops must not do, a call through a
//! table of functions for each operation, costs nothing here.

use super::verdict::Answer;
use crate::driver::{Driver, ForDriver, Reading, Shape, Store, Writer};
use crate::runner::child::STORE;
use crate::runner::folder::file_name;
use crate::workload::Content;
use credenza::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every key with all values that a store gives for it.
pub(super) type Contents = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// A store of any kind.
pub(super) trait Subject {
    fn name(&self) -> &str;

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// One more value of a key.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    fn get(&mut self, key: &[u8]) -> Result<Answer>;

    fn remove(&mut self, key: &[u8]) -> Result<bool>;

    fn range(&mut self, from: &[u8], count: usize) -> Result<Answer>;

    fn content(&mut self) -> Result<Content>;

    /// Every key with all values that the store gives for it.
    fn records(&mut self) -> Result<Contents>;

    /// Closes the store, and opens it for reading.
    fn close(&mut self) -> Result<()>;
}

/// What a driver opened. The driver itself lives as long as the process.
pub(super) struct Open<D: Driver> {
    name: String,
    driver: &'static D,
    path: PathBuf,
    shape: Shape,
    handle: Handle<D>,
}

/// Bytes that a store gives are only copied, or looked at, if they may be such: of a false length that may
/// be all of the address space.
#[derive(Clone, Copy)]
struct Sane {
    /// All keys and values together.
    most: u64,
}

impl Sane {
    fn check(self, bytes: &[u8]) -> Result<()> {
        match bytes.len() as u64 {
            len if len > self.most => Err(Error::invalid(format!(
                "it gave a key or value of {len} bytes, and all keys and values together have {}",
                self.most
            ))),
            _ => Ok(()),
        }
    }
}

enum Handle<D: Driver> {
    Writer(D::Writer<'static>),
    Reader(D::Store<'static>),
    Closed,
}

impl<D: Driver> Open<D> {
    pub(super) fn create(
        name: &str,
        driver: D,
        path: PathBuf,
        shape: &Shape,
    ) -> Result<Box<dyn Subject>> {
        let driver: &'static D = Box::leak(Box::new(driver));
        let handle = Handle::Writer(driver.create(&path, shape)?);
        Ok(Box::new(Open { name: name.to_owned(), driver, path, shape: *shape, handle }))
    }

    fn writer(&mut self) -> Result<&mut D::Writer<'static>> {
        match &mut self.handle {
            Handle::Writer(writer) => Ok(writer),
            _ => Err(Error::invalid("the store is closed")),
        }
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let (sane, mut refused) = (self.sane(), Ok(()));
        let take = |key: &[u8], value: &[u8]| {
            let checked = sane.check(key).and_then(|()| sane.check(value));
            match (checked, &refused) {
                (Ok(()), Ok(())) => take(key, value),
                (Err(e), Ok(())) => refused = Err(e),
                (_, Err(_)) => {}
            }
        };
        match &mut self.handle {
            Handle::Writer(writer) => writer.scan(take)?,
            Handle::Reader(reader) => reader.scan(take)?,
            Handle::Closed => return Err(Error::invalid("the store is closed")),
        }
        refused
    }

    fn sane(&self) -> Sane {
        // A value that was changed may be as long as any.
        Sane { most: self.shape.bytes() + self.shape.longest_value as u64 }
    }
}

impl<D: Driver> Subject for Open<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writer()?.insert(key, value)
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writer()?.add(key, value)
    }

    fn get(&mut self, key: &[u8]) -> Result<Answer> {
        let (sane, mut refused, mut values) = (self.sane(), Ok(()), Vec::new());
        let is_found = self.writer()?.get(key, |value| match sane.check(value) {
            Ok(()) => values.push(value.to_vec()),
            Err(e) => refused = Err(e),
        })?;
        refused?;
        let is_sane = is_found == (values.len() == 1);
        Ok(if is_sane { Answer::Values(values) } else { Answer::Contradicts })
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.writer()?.remove(key)
    }

    fn range(&mut self, from: &[u8], count: usize) -> Result<Answer> {
        let (sane, mut refused, mut records) = (self.sane(), Ok(()), Vec::new());
        let take = |key: &[u8], value: &[u8]| match sane.check(key).and_then(|()| sane.check(value))
        {
            Ok(()) => records.push((key.to_vec(), value.to_vec())),
            Err(e) => refused = Err(e),
        };
        self.writer()?.range(from, count, take)?;
        refused?;
        Ok(Answer::Range(records))
    }

    fn content(&mut self) -> Result<Content> {
        let mut content = Content::default();
        self.scan(|key, value| content.add(key, value))?;
        Ok(content)
    }

    fn records(&mut self) -> Result<Contents> {
        let mut records = Contents::new();
        self.scan(|key, value| records.entry(key.to_vec()).or_default().push(value.to_vec()))?;
        Ok(records)
    }

    fn close(&mut self) -> Result<()> {
        if let Handle::Writer(writer) = std::mem::replace(&mut self.handle, Handle::Closed) {
            writer.close()?;
        }
        self.handle = Handle::Reader(self.driver.open(&self.path, &self.shape, Reading::Warm)?);
        Ok(())
    }
}

/// Opens a store of the driver's kind.
pub(super) struct Opening<'a> {
    pub(super) name: &'a str,
    pub(super) library: Option<&'a Path>,
    pub(super) folder: &'a Path,
    pub(super) shape: &'a Shape,
}

impl ForDriver for Opening<'_> {
    type Output = Result<Box<dyn Subject>>;

    fn run<D: Driver>(self) -> Result<Box<dyn Subject>> {
        let folder = self.folder.join(file_name(self.name));
        std::fs::create_dir(&folder).map_err(|e| Error::io("create", e).at(&folder))?;
        Open::create(self.name, D::load(self.library)?, folder.join(STORE), self.shape)
    }
}
