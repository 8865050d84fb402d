//! Our constant engine, changed: each transaction ends with a new file of all records, which takes the place
//! of the one before. A change outside of one is a transaction of its own.
//!
//! In no list of drivers: figures of changes that write everything anew would tell nobody anything.
//! [`super::with_changed`] gives it to who looks what is left when something happens to a publication.
//!
//! Invariant: what was committed is read from the file that has the name now; only what was changed since
//! then is in memory.

use super::constant::Constant;
use super::{Changes, Driver, Fault, Identity, Promise, Reading, Shape, Source, Store, Writer};
use crate::measure;
use crate::workload::Records;
use credenza::{Error, Result, Scan, constant};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(super) struct Replaced(Constant);

impl Driver for Replaced {
    const NAME: &'static str = Constant::NAME;
    const SOURCE: Option<Source> = None;
    const SYNCS: &'static str = Constant::SYNCS;
    const REPLACES: bool = true;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("fdatasync and fsync of the folder at publish");
    const REOPENS: bool = true;

    fn load(file: Option<&Path>) -> Result<Replaced> {
        Constant::load(file).map(Replaced)
    }

    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn tuning(&self, shape: &Shape) -> String {
        self.0.tuning(shape)
    }

    /// There is no other class: a file is always on the disk before it has its name.
    fn changes_one_by_one(&self, _: bool) -> Changes {
        Changes::Sync
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        self.0.build(records, shape, path)
    }

    type Store<'d> = constant::Constant;

    fn open(&self, path: &Path, shape: &Shape, reading: Reading) -> Result<constant::Constant> {
        self.0.open(path, shape, reading)
    }

    type Writer<'d> = Generations;

    fn create(&self, path: &Path, _: &Shape) -> Result<Generations> {
        Generations::at(path)
    }

    fn create_committing(&self, path: &Path, _: &Shape) -> Result<Generations> {
        Generations::at(path)
    }

    fn create_durable(&self, path: &Path, _: &Shape) -> Result<Generations> {
        Generations::at(path)
    }

    fn promise(_: Fault, _: bool) -> Promise {
        Promise::All
    }

    fn verify(&self, path: &Path) -> Result<()> {
        // The first of all generations may not have come.
        if !path.exists() {
            return Ok(());
        }
        constant::Constant::open(path)?.verify(|_, _| ())
    }

    /// A builder that cannot go on leaves nothing. One that dies leaves nothing either, or, between naming
    /// its file and renaming it, one file that is whole; where files cannot be without a name, what it
    /// had written.
    fn check_litter(&self, path: &Path, fault: Option<Fault>) -> Result<()> {
        let folder = path.parent().unwrap_or(path);
        let mut others = measure::files_in(folder)?;
        others.retain(|other| other != path);
        let most = usize::from(matches!(fault, Some(Fault::Kill | Fault::Power)));
        if let Some(other) = others.get(most) {
            return Err(Error::invalid("nobody said that this is left behind").at(other));
        }
        let Some(other) = others.first() else { return Ok(()) };
        if !is_temporary(other, path) {
            return Err(Error::invalid("this is no name of what a builder leaves").at(other));
        }
        match has_unnamed_files(folder) {
            true => constant::Constant::open(other)?.verify(|_, _| ()),
            false => Ok(()),
        }
    }
}

/// Whether a file has a name that a builder of the store gives, `.NAME.PID.N.tmp`.
fn is_temporary(file: &Path, store: &Path) -> bool {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let Some((file, store)) = name(file).zip(name(store)) else { return false };
    let numbers = file.strip_prefix(&format!(".{store}.")).and_then(|f| f.strip_suffix(".tmp"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let numbers = numbers.and_then(|numbers| numbers.split_once('.'));
    numbers.is_some_and(|(pid, number)| are_digits(pid) && are_digits(number))
}

/// Whether a file there need not have a name while it is written.
fn has_unnamed_files(folder: &Path) -> bool {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_TMPFILE).open(folder).is_ok()
}

/// What was published last, and what was changed since then.
pub(super) struct Generations {
    path: PathBuf,
    /// None before anything was.
    published: Option<constant::Constant>,
    /// `None` for what was removed.
    changed: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    is_in_transaction: bool,
}

impl Generations {
    /// Of the file at `path`, which need not be there.
    fn at(path: &Path) -> Result<Generations> {
        let published = path.exists().then(|| constant::Constant::open(path)).transpose()?;
        let (changed, is_in_transaction) = (BTreeMap::new(), false);
        Ok(Generations { path: path.to_owned(), published, changed, is_in_transaction })
    }

    fn change(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.changed.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        if self.is_in_transaction { Ok(()) } else { self.publish() }
    }

    fn publish(&mut self) -> Result<()> {
        if self.changed.is_empty() {
            return Ok(());
        }
        let mut builder = constant::Builder::create(&self.path)?;
        self.each(|key, value| builder.add(key, value))?;
        builder.finish()?;
        match &mut self.published {
            Some(reader) => drop(reader.refresh()?),
            none => *none = Some(constant::Constant::open(&self.path)?),
        }
        self.changed.clear();
        Ok(())
    }

    /// Every record, changes included.
    fn each(&self, mut take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        if let Some(published) = &self.published {
            Scan::scan(published, |key, value| match self.changed.contains_key(key) {
                true => Ok(()),
                false => take(key, value),
            })?;
        }
        let kept = self.changed.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        kept.into_iter().try_for_each(|(key, value)| take(key, value))
    }
}

impl Store for Generations {
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        match (self.changed.get(key), &mut self.published) {
            (Some(value), _) => Ok(value.as_ref().map(|value| take(value)).is_some()),
            (None, Some(published)) => Store::get(published, key, take),
            (None, None) => Ok(false),
        }
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.each(|key, value| {
            take(key, value);
            Ok(())
        })
    }
}

impl Writer for Generations {
    const HAS_TRANSACTIONS: bool = true;

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.change(key, Some(value))
    }

    fn begin(&mut self) -> Result<()> {
        self.is_in_transaction = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.is_in_transaction = false;
        self.publish()
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let is_there = self.get(key, |_| ())?;
        if is_there {
            self.change(key, None)?;
        }
        Ok(is_there)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use credenza::Staged;
    use std::fs;
    use std::io::Write;

    /// A store of one generation in a folder of its own.
    fn store() -> (tempfile::TempDir, PathBuf, Replaced) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let mut writer = Generations::at(&path).unwrap();
        writer.insert(b"key", b"value").unwrap();
        (folder, path, Replaced::load(None).unwrap())
    }

    #[test]
    fn what_is_committed_is_one_new_file() {
        let (_folder, path, _) = store();
        let before = constant::Constant::open(&path).unwrap();
        let mut writer = Generations::at(&path).unwrap();
        writer.begin().unwrap();
        writer.insert(b"other", b"1").unwrap();
        assert!(writer.remove(b"key").unwrap() && !writer.remove(b"key").unwrap());
        // The writer sees it, and nobody else.
        assert!(writer.get(b"other", |value| assert_eq!(value, b"1")).unwrap());
        assert_eq!(constant::Constant::open(&path).unwrap().iter().count(), 1);
        writer.commit().unwrap();
        let mut after = constant::Constant::open(&path).unwrap();
        assert!(Store::get(&mut after, b"other", |_| ()).unwrap());
        assert!(!Store::get(&mut after, b"key", |_| ()).unwrap());
        // Who has the old file open reads the old one.
        assert_eq!(before.iter().next().unwrap().unwrap().0[..], *b"key");
    }

    #[test]
    fn what_may_not_be_left_behind_is_told() {
        let (folder, path, driver) = store();
        let (kill, full) = (Some(Fault::Kill), Some(Fault::Full));
        for fault in [None, kill, full, Some(Fault::Power)] {
            driver.check_litter(&path, fault).unwrap();
        }
        let stray = folder.path().join(".store.17.0.tmp");
        fs::copy(&path, &stray).unwrap();
        driver.check_litter(&path, kill).unwrap();
        for fault in [None, full] {
            let error = driver.check_litter(&path, fault).unwrap_err().to_string();
            assert!(error.contains(".store.17.0.tmp"), "{error}");
        }
        // Half of a file, a second one, or another name.
        let whole = fs::read(&stray).unwrap();
        fs::write(&stray, &whole[..whole.len() / 2]).unwrap();
        assert!(driver.check_litter(&path, kill).is_err() || !has_unnamed_files(folder.path()));
        fs::write(&stray, &whole).unwrap();
        fs::copy(&path, folder.path().join(".store.17.1.tmp")).unwrap();
        assert!(driver.check_litter(&path, kill).is_err());
        fs::remove_file(&stray).unwrap();
        driver.check_litter(&path, kill).unwrap();
        for name in [".store.17.tmp", ".store.17.x.tmp", "store.17.1.tmp", ".other.17.1.tmp"] {
            let (_folder, path, driver) = store();
            fs::copy(&path, path.with_file_name(name)).unwrap();
            assert!(driver.check_litter(&path, kill).is_err(), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_an_empty_store() {
        let (_folder, path, driver) = store();
        let staged = Staged::create(&path).unwrap();
        staged.file().write_all(&[0; 8192]).unwrap();
        staged.publish().unwrap();
        assert!(Generations::at(&path).is_err() && driver.verify(&path).is_err());
        fs::remove_file(&path).unwrap();
        driver.verify(&path).unwrap();
    }
}
