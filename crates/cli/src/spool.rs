//! Records that wait until all of them are there: in memory, and where they are many in an unnamed file.

use crate::cmd::dump::Sink;
use crate::folder::folder_of_new;
use crate::progress::{Bar, Unit};
use credenza::{Error, Result};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use tempfile::tempfile_in;

/// So many bytes wait in memory.
const MEMORY: usize = 4 << 20;

/// Records that wait, in the order in which they came.
#[derive(Debug)]
pub struct Spool {
    /// The last of what waits: all of it where there is no file.
    last: Vec<u8>,
    /// What came before that.
    file: Option<File>,
    /// Where the file lies, which has no name.
    folder: PathBuf,
    count: u64,
}

impl Spool {
    /// Nothing waits yet. A file will lie in the folder of `path`, where there must be room for a store
    /// anyway; where this user can make none there, who may still write to a store that is there, in the
    /// folder of temporary files.
    pub fn beside(path: &Path) -> Spool {
        // There is more room than beside a link that leads there.
        let beside = folder_of_new(path);
        let folder = match tempfile_in(&beside) {
            Ok(_) => beside,
            Err(_) => std::env::temp_dir(),
        };
        Spool { last: Vec::new(), file: None, folder, count: 0 }
    }

    /// All that `read` brings.
    pub fn of(path: &Path, read: impl FnOnce(Sink<'_>) -> Result<()>) -> Result<Spool> {
        let mut spool = Spool::beside(path);
        read(&mut |key, value| spool.add(key, value).map(drop))?;
        Ok(spool)
    }

    /// Takes a record; returns its number, from 0 on.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<u64> {
        for part in [key, value] {
            let len = part.len() as u64;
            let written = self.write(&len.to_le_bytes()).and_then(|()| self.write(part));
            written.map_err(|e| cannot_write(e, &self.folder))?;
        }
        self.count += 1;
        Ok(self.count - 1)
    }

    /// Keeps these bytes in memory, or where they are too many, or there is none, in the file.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let is_room = self.last.len() + bytes.len() <= MEMORY;
        if is_room && self.last.try_reserve(bytes.len()).is_ok() {
            self.last.extend_from_slice(bytes);
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile_in(&self.folder)?),
        };
        file.write_all(&self.last)?;
        self.last.clear();
        file.write_all(bytes)
    }

    /// Calls `f` with the number, key and value of every record, and shows how far it is with `what` it does.
    pub fn drain(
        self,
        what: &'static str,
        bar: &Bar,
        f: impl FnMut(u64, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        bar.begin(what, Unit::Records, Some(self.count));
        let Spool { last, file, folder, count } = self;
        let Some(mut file) = file else { return each(&last[..], count, bar, f) };
        file.write_all(&last).map_err(|e| cannot_write(e, &folder))?;
        // The reader's buffer is where it was.
        drop(last);
        file.rewind().map_err(cannot_read)?;
        each(BufReader::with_capacity(256 << 10, file), count, bar, f)
    }
}

/// Calls `f` with each of so many records.
fn each(
    mut from: impl Read,
    count: u64,
    bar: &Bar,
    mut f: impl FnMut(u64, &[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for number in 0..count {
        read_part(&mut from, &mut key).map_err(cannot_read)?;
        read_part(&mut from, &mut value).map_err(cannot_read)?;
        bar.count(number);
        f(number, &key, &value)?;
    }
    Ok(())
}

/// Reads a key or a value.
fn read_part(from: &mut impl Read, part: &mut Vec<u8>) -> io::Result<()> {
    let mut len = [0; 8];
    from.read_exact(&mut len)?;
    let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(usize::MAX);
    part.clear();
    part.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    part.resize(len, 0);
    from.read_exact(part)
}

fn cannot_write(e: io::Error, folder: &Path) -> Error {
    Error::io("write the temporary file in this folder, of records that wait", e).at(folder)
}

fn cannot_read(e: io::Error) -> Error {
    Error::io("read the temporary file of records that wait", e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_wait_where_no_file_can_be_made_beside_the_store() {
        let mut spool = Spool::beside(Path::new("/none/such/store"));
        let value = vec![7; MEMORY / 2];
        for number in 0..3 {
            assert_eq!(spool.add(b"key", &value).expect("room"), number);
        }
        let mut count = 0;
        let read = spool.drain("applying", &Bar::new(true), |number, key, found| {
            assert_eq!((number, key, found.len()), (count, &b"key"[..], value.len()));
            count += 1;
            Ok(())
        });
        read.expect("all of them");
        assert_eq!(count, 3);
    }

    #[test]
    fn who_waits_for_many_records_sees_how_far_they_are() {
        let mut spool = Spool::beside(Path::new("."));
        for _ in 0..3000 {
            spool.add(b"key", b"").expect("room");
        }
        let bar = Bar::of_terminal();
        let mut told = Vec::new();
        let read = spool.drain("applying", &bar, |_, _, _| {
            told.push(bar.told());
            Ok(())
        });
        read.expect("all of them");
        assert!(told.iter().all(|(_, total)| *total == Some(3000)));
        assert_eq!((told[0].0, told[1500].0, told[2999].0), (0, 1024, 2048));
    }
}
