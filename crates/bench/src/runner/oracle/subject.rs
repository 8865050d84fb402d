//! A store that is compared, whatever its kind: what the measuring loops must not do, a call through a
//! table of functions for each operation, costs nothing here.

use super::verdict::Answer;
use crate::driver::{Changes, Driver, ForDriver, Reading, Shape, Store, Writer};
use crate::runner::child::STORE;
use crate::runner::folder::file_name;
use crate::workload::{Content, Records};
use credenza::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every key with all values that a store gives for it.
pub(super) type Contents = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// A store of any kind.
pub(super) trait Subject {
    fn name(&self) -> &str;

    /// All records are stored, and the operations come.
    fn filled(&mut self) -> Result<()>;

    /// Closes the store, and opens it for the same changes again.
    fn reopen(&mut self) -> Result<()>;

    /// Begins a transaction, of which all is that follows until [`Subject::commit`].
    fn begin(&mut self) -> Result<()>;

    fn commit(&mut self) -> Result<()>;

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// One more value of a key.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    fn get(&mut self, key: &[u8]) -> Result<Answer>;

    fn remove(&mut self, key: &[u8]) -> Result<bool>;

    fn range(&mut self, from: &[u8], count: usize) -> Result<Answer>;

    fn content(&mut self) -> Result<Content>;

    /// Whether a scan backwards gives this, the highest key first; [`Answer::Done`], too, where the store is
    /// not read backwards.
    fn backwards(&mut self, expected: Content) -> Result<Answer>;

    /// Whether it gives the values of each key the other way round than a scan forwards, or as above.
    fn values_backwards(&mut self) -> Result<Answer>;

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
    /// Of the operations; the data may be stored otherwise.
    class: Changes,
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
    /// Of a store that is built once: the data, until they are all there.
    Awaiting(Records),
    Writer(D::Writer<'static>),
    Reader(D::Store<'static>),
    Closed,
}

impl<D: Driver> Open<D> {
    /// A new store, for the data: one that is built once awaits them; of the others with a transaction for them
    /// all where changes are else one each, and opened for changes that are synced only behind them where it has
    /// no such transaction, as the measured mixes do it.
    pub(super) fn create(
        name: &str,
        driver: D,
        path: PathBuf,
        shape: &Shape,
        class: Changes,
    ) -> Result<Box<dyn Subject>> {
        let driver: &'static D = Box::leak(Box::new(driver));
        let handle = match <D::Writer<'static> as Writer>::IS_POSSIBLE {
            true => Handle::Writer(Self::for_data(driver, &path, shape, class)?),
            false => Handle::Awaiting(Records::default()),
        };
        Ok(Box::new(Open { name: name.to_owned(), driver, path, shape: *shape, class, handle }))
    }

    /// One that can be changed, open for the data.
    fn for_data(
        driver: &'static D,
        path: &Path,
        shape: &Shape,
        class: Changes,
    ) -> Result<D::Writer<'static>> {
        let mut writer = match class {
            Changes::Sync if Self::FILLS_IN_ONE => driver.create_durable(path, shape)?,
            Changes::Buffered => driver.create_committing(path, shape)?,
            _ => driver.create(path, shape)?,
        };
        if class != Changes::AtClose && Self::FILLS_IN_ONE {
            writer.begin()?;
        }
        Ok(writer)
    }

    const FILLS_IN_ONE: bool = <D::Writer<'static> as Writer>::FILLS_IN_ONE;

    fn writer(&mut self) -> Result<&mut D::Writer<'static>> {
        match &mut self.handle {
            Handle::Writer(writer) => Ok(writer),
            _ => Err(Error::invalid("the store is closed")),
        }
    }

    fn scan(&mut self, is_back: bool, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
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
            Handle::Writer(writer) if is_back => writer.scan_back(take)?,
            Handle::Writer(writer) => writer.scan(take)?,
            Handle::Reader(reader) if is_back => reader.scan_back(take)?,
            Handle::Reader(reader) => reader.scan(take)?,
            Handle::Awaiting(_) | Handle::Closed => {
                return Err(Error::invalid("the store is closed"));
            }
        }
        refused
    }

    /// Whether it is read backwards as it is open now.
    fn scans_back(&self) -> bool {
        match &self.handle {
            Handle::Writer(_) => <D::Writer<'static> as Store>::SCANS_BACK,
            Handle::Awaiting(_) | Handle::Reader(_) | Handle::Closed => {
                <D::Store<'static> as Store>::SCANS_BACK
            }
        }
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

    fn filled(&mut self) -> Result<()> {
        if let Handle::Awaiting(records) = &self.handle {
            self.driver.build(records, &self.shape, &self.path)?;
            self.handle = Handle::Writer(self.driver.reopen(&self.path, &self.shape, false)?);
        }
        self.writer()?.settle()?;
        match self.class {
            Changes::AtClose => Ok(()),
            _ if Self::FILLS_IN_ONE => self.commit(),
            Changes::Sync => self.reopen(),
            _ => Ok(()),
        }
    }

    fn reopen(&mut self) -> Result<()> {
        if let Handle::Writer(writer) = std::mem::replace(&mut self.handle, Handle::Closed) {
            writer.close()?;
        }
        let Open { driver, path, shape, class, .. } = self;
        self.handle = Handle::Writer(match class {
            Changes::Sync => driver.create_durable(path, shape)?,
            class => driver.reopen(path, shape, *class == Changes::Buffered)?,
        });
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.writer()?.begin()
    }

    fn commit(&mut self) -> Result<()> {
        self.writer()?.commit()
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Handle::Awaiting(records) = &mut self.handle {
            return records.push(key, value);
        }
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
        self.scan(false, |key, value| content.add(key, value))?;
        Ok(content)
    }

    fn backwards(&mut self, expected: Content) -> Result<Answer> {
        if !self.scans_back() {
            return Ok(Answer::Done);
        }
        let (mut content, mut last, mut unlike) = (Content::default(), Vec::new(), None);
        self.scan(true, |key, value| {
            if content.count > 0 && key > &last[..] && unlike.is_none() {
                let (key, last) = (key.escape_ascii(), last.escape_ascii());
                unlike = Some(format!("key '{key}' behind the lower '{last}'"));
            }
            content.add(key, value);
            last.clear();
            last.extend_from_slice(key);
        })?;
        let (found, wanted) = (content.count, expected.count);
        let others = || format!("not what it gives forwards: {found} records, of {wanted}");
        let unlike = unlike.or_else(|| (content != expected).then(others));
        Ok(unlike.map_or(Answer::Done, Answer::Unlike))
    }

    fn values_backwards(&mut self) -> Result<Answer> {
        if !self.scans_back() {
            return Ok(Answer::Done);
        }
        let forwards = self.records()?;
        let mut backwards = Contents::new();
        self.scan(true, |key, value| {
            backwards.entry(key.to_vec()).or_default().push(value.to_vec());
        })?;
        backwards.values_mut().for_each(|values| values.reverse());
        let other = forwards.iter().find(|(key, values)| backwards.get(*key) != Some(values));
        Ok(other.map_or(Answer::Done, |(key, _)| {
            Answer::Unlike(format!("values of '{}' in another order", key.escape_ascii()))
        }))
    }

    fn records(&mut self) -> Result<Contents> {
        let mut records = Contents::new();
        self.scan(false, |key, value| {
            records.entry(key.to_vec()).or_default().push(value.to_vec())
        })?;
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
    pub(super) class: Changes,
}

impl ForDriver for Opening<'_> {
    type Output = Result<Box<dyn Subject>>;

    fn run<D: Driver>(self) -> Result<Box<dyn Subject>> {
        let folder = self.folder.join(file_name(self.name));
        std::fs::create_dir(&folder).map_err(|e| Error::io("create", e).at(&folder))?;
        let driver = D::load(self.library)?;
        Open::create(self.name, driver, folder.join(STORE), self.shape, self.class)
    }
}
