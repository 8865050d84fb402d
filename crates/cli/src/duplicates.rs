//! What becomes of records whose key has been seen: the policies of the cdb tools.
//!
//! All but `keep` hold the keys (not the values) of the input in memory; `last` also puts the
//! records into an unnamed temporary file, since only the end of the input shows which stay.

use clap::ValueEnum;
use credenza::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use crate::target::Target;

/// What to do with a record whose key has come before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// Keep every record, in input order (cdb's own way); not where a key has one value: hash, and btree
    /// but for tables made with --duplicates
    #[default]
    Keep,
    /// Keep the first record of a key (tinycdb -u)
    First,
    /// Keep the last record of a key (tinycdb -r); so in a hash or btree store unless said otherwise
    Last,
    /// Stop with an error and leave the old store as it is (tinycdb -e)
    Error,
}

/// Passes records on to a target as the policy says.
pub struct Filter {
    target: Target,
    count: u64,
    how: How,
}

enum How {
    Keep,
    First(HashSet<Box<[u8]>>),
    Error(HashSet<Box<[u8]>>),
    Last(Spool),
}

impl Filter {
    /// A filter before `target`, which will appear at `path`.
    pub fn new(policy: Policy, target: Target, path: &Path) -> Result<Filter> {
        let how = match policy {
            Policy::Keep => How::Keep,
            Policy::First => How::First(HashSet::new()),
            Policy::Error => How::Error(HashSet::new()),
            Policy::Last => How::Last(Spool::beside(path)?),
        };
        Ok(Filter { target, count: 0, how })
    }

    /// Takes the next record of the input.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match &mut self.how {
            How::Keep => {}
            How::First(seen) => {
                if seen.contains(key) {
                    return Ok(());
                }
                seen.insert(key.into());
            }
            How::Error(seen) => {
                if seen.contains(key) {
                    return Err(repeated(key));
                }
                seen.insert(key.into());
            }
            How::Last(spool) => return spool.add(key, value),
        }
        self.count += 1;
        self.target.add(key, value)
    }

    /// Makes the store visible; returns how many records it has.
    pub fn finish(mut self) -> Result<u64> {
        if let How::Last(spool) = self.how {
            let (target, count) = (&mut self.target, &mut self.count);
            spool.drain(|key, value| {
                *count += 1;
                target.add(key, value)
            })?;
        }
        let replaced = self.target.replaced()?;
        self.target.finish()?;
        Ok(self.count - replaced)
    }
}

#[cold]
fn repeated(key: &[u8]) -> Error {
    let key = crate::output::escaped(key);
    Error::invalid(format!(
        "key '{key}' comes a second time and --duplicates is error; nothing was published"
    ))
}

/// Records waiting in an unnamed file until it is known which is the last of its key.
struct Spool {
    file: BufWriter<File>,
    count: u64,
    last: HashMap<Box<[u8]>, u64>,
}

impl Spool {
    /// In the folder of `path`, where there must be room for a store anyway.
    fn beside(path: &Path) -> Result<Spool> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::tempfile_in(folder)
            .map_err(|e| Error::io("create a temporary file in", e).at(folder))?;
        let file = BufWriter::with_capacity(256 << 10, file);
        Ok(Spool { file, count: 0, last: HashMap::new() })
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        for part in [key, value] {
            let len = part.len() as u64;
            self.file.write_all(&len.to_le_bytes()).map_err(cannot_write)?;
            self.file.write_all(part).map_err(cannot_write)?;
        }
        match self.last.get_mut(key) {
            Some(last) => *last = self.count,
            None => drop(self.last.insert(key.into(), self.count)),
        }
        self.count += 1;
        Ok(())
    }

    /// Calls `f` with the last record of every key, in input order.
    fn drain(self, mut f: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut file = self.file.into_inner().map_err(|e| cannot_write(e.into_error()))?;
        file.rewind().map_err(cannot_read)?;
        let mut file = BufReader::with_capacity(256 << 10, file);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for serial in 0..self.count {
            for part in [&mut key, &mut value] {
                let mut len = [0; 8];
                file.read_exact(&mut len).map_err(cannot_read)?;
                let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(usize::MAX);
                part.resize(len, 0);
                file.read_exact(part).map_err(cannot_read)?;
            }
            if self.last.get(key.as_slice()) == Some(&serial) {
                f(&key, &value)?;
            }
        }
        Ok(())
    }
}

fn cannot_write(e: std::io::Error) -> Error {
    Error::io("write the temporary file of --duplicates last", e)
}

fn cannot_read(e: std::io::Error) -> Error {
    Error::io("read the temporary file of --duplicates last", e)
}
