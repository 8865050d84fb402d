//! The files of stores that change: reading them into memory, and how much of them is there.

use crate::btree::BTree;
use crate::hash::Hash;
use crate::os::huge::HUGE_FROM;
use crate::os::map::Map;
use crate::{Error, Residency, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

impl Hash {
    /// Reads the file and the index beside it into memory and returns when they are there: in huge pages where the kernel
    /// can, as of a [`Constant`](crate::constant::Constant::preload). What the store grows by later has small ones.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn preload(&self) -> Result<()> {
        preload(&files_of(self)?)
    }
}

impl BTree {
    /// Reads the file into memory and returns when it is there: in huge pages where the kernel can, as of a
    /// [`Constant`](crate::constant::Constant::preload). What the store grows by later has small ones.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn preload(&self) -> Result<()> {
        preload(&file_of(self)?)
    }
}

/// The file of a btree store; none if it is in memory.
pub(crate) fn file_of(store: &BTree) -> Result<Vec<(PathBuf, File)>> {
    let Some(path) = store.path() else { return Ok(Vec::new()) };
    Ok(vec![(path.to_owned(), again(store.core().map.file(), path)?)])
}

/// The files of a hash store: its log, and its index if there is one; none if it is in memory.
pub(crate) fn files_of(store: &Hash) -> Result<Vec<(PathBuf, File)>> {
    let Some(path) = store.path() else { return Ok(Vec::new()) };
    let core = store.core();
    let mut files = vec![(path.to_owned(), again(core.data.file(), path)?)];
    if let Some(index) = core.index_path().map_err(|e| e.at(path))? {
        // It is not there, or may not be read: then each process makes its own.
        files.extend(File::open(&index).ok().map(|file| (index, file)));
    }
    Ok(files)
}

/// A store's own file: at its path there may be another by now, or none.
fn again(file: &File, path: &Path) -> Result<File> {
    file.try_clone().map_err(|e| Error::io("open again", e).at(path))
}

/// Reads the files of a store that changes into memory: by reading, for a map of a file that its
/// writers make shorter cannot be touched safely. The kernel does not touch it when it puts pages together.
fn preload(files: &[(PathBuf, File)]) -> Result<()> {
    let mut piece = vec![0; 1 << 20];
    let mut all = Vec::with_capacity(files.len());
    for (path, file) in files {
        let len = read_all(file, &mut piece).map_err(|e| Error::io("read", e).at(path))?;
        all.push((file, len));
    }
    if all.iter().map(|(_, len)| len).sum::<u64>() >= HUGE_FROM {
        // Where there are no addresses for a map there are small pages.
        let maps =
            all.iter().filter_map(|(file, len)| Some((Map::of_file(file, *len).ok()?, file)));
        maps.for_each(|(map, file)| map.put_together(file));
    }
    Ok(())
}

/// How many bytes there are in a file, all of which are read.
fn read_all(file: &File, piece: &mut [u8]) -> io::Result<u64> {
    let mut at = 0;
    loop {
        match file.read_at(piece, at) {
            Ok(0) => return Ok(at),
            Ok(count) => at += count as u64,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// How much of the files of a store that changes is in memory. Their maps are asked about, not read.
pub(crate) fn residency(files: &[(PathBuf, File)]) -> Result<Residency> {
    let mut sum = Residency { resident: 0, total: 0 };
    for (path, file) in files {
        let of_file = |file: &File| {
            let meta = file.metadata().map_err(|e| Error::io("ask the size of", e))?;
            Map::of_file(file, meta.len())?.residency()
        };
        let found = of_file(file).map_err(|e| e.at(path))?;
        sum.resident += found.resident;
        sum.total += found.total;
    }
    Ok(sum)
}
