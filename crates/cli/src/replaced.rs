//! What a new file takes the place of: not the store that is read, nor what may be no store of this user's, nor, unless he
//! says so, a store that may be all there is of its data.

use crate::target::Kind;
use credenza::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::fs::metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The place of a new file, and what is there before. That nobody has that open to write the library sees to, when the
/// new file is begun and when it takes the place.
#[derive(Debug)]
pub struct Replaced {
    path: PathBuf,
    kind: Option<Kind>,
}

impl Replaced {
    /// What is at `path`, if anything is.
    pub fn at(path: &Path) -> Replaced {
        Replaced { path: path.to_owned(), kind: Kind::changing_at(path) }
    }

    /// The same, for a file that is made of the store at `source`.
    ///
    /// # Errors
    /// It is that store.
    pub fn of_other(path: &Path, source: &Path) -> Result<Replaced> {
        check_is_other(path, source)?;
        Ok(Replaced::at(path))
    }

    /// A file of another kind has taken the place: the index of a hash store goes with it.
    pub fn finish(self, new: Kind) {
        let index = index_of(&self.path);
        // A file of another's may have that name.
        if self.kind == Some(Kind::Hash) && new != Kind::Hash && credenza::hash::is_index(&index) {
            // What stays is in nobody's way.
            let _ = std::fs::remove_file(index);
        }
    }
}

/// An error if what is at `path` is the store at `source`, which is read, or its index.
pub fn check_is_other(path: &Path, source: &Path) -> Result<()> {
    let is_index =
        || Kind::changing_at(source) == Some(Kind::Hash) && is_same(path, &index_of(source));
    if is_same(path, source) || is_index() {
        let what = "this is the store itself: name another file";
        return Err(Error::invalid(what).at(path));
    }
    Ok(())
}

/// An error if what is at `path` is not to be replaced by a store: a file that this user may not read, which may be
/// one; or no store, as where the words of a command stand in another order than this.
pub fn check_is_store(path: &Path, order: &str) -> Result<()> {
    let has_bytes = || metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    match credenza::kind_of(path) {
        Err(e) if matches!(e.kind(), ErrorKind::WrongFormat { .. }) && has_bytes() => {
            let what = format!(
                "there is a file already, and it is no store: {order}; remove the file if it shall be \
                 replaced"
            );
            Err(Error::invalid(what).at(path))
        }
        Err(e) if is_unknown(&e) => Err(e),
        _ => Ok(()),
    }
}

/// An error if what is at `path` is a hash or btree store, and the user did not say that it may be `replaced`: unlike what is
/// built and never changes, there may be no other copy of what is in it.
pub fn check_is_unchanging(path: &Path, replaced: bool) -> Result<()> {
    match credenza::kind_of(path) {
        Ok(kind @ ("hash" | "btree")) if !replaced => {
            let what = format!(
                "this is a {kind} store, which may be all there is of its data: name another, or say --replace if it \
                 shall be replaced"
            );
            Err(Error::invalid(what).at(path))
        }
        _ => Ok(()),
    }
}

/// An error if what is at `path` is a store of another kind than `kind`, as no copy made before is, and the user did not say
/// that it may be `replaced`.
pub fn check_is_of_kind(path: &Path, kind: &str, replaced: bool) -> Result<()> {
    match credenza::kind_of(path) {
        Ok(there) if there != kind && !replaced => {
            let what = format!(
                "this is a {there} store, and what would take its place is a copy of a {kind} store: name another, or \
                 say --replace if it shall be replaced"
            );
            Err(Error::invalid(what).at(path))
        }
        _ => Ok(()),
    }
}

/// An error if what is at `path` is a store, and not to be replaced by text.
pub fn check_is_no_store(path: &Path) -> Result<()> {
    let Ok(kind) = credenza::kind_of(path) else { return Ok(()) };
    let what = format!(
        "this is a store ({kind}), and what would take its place is text: name another file; remove the store \
         if it shall be replaced"
    );
    Err(Error::invalid(what).at(path))
}

/// Whether there may be a store that could not be looked at.
fn is_unknown(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io { source, .. } if source.kind() != io::ErrorKind::NotFound)
}

/// Whether both are there and one file, by whatever names.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path| metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    id(one).is_some_and(|one| id(other) == Some(one))
}

/// Where the index of the hash store at `path` lies.
pub fn index_of(path: &Path) -> PathBuf {
    // It lies beside the file that a link leads to.
    let led_to = path.is_symlink().then(|| std::fs::canonicalize(path).ok()).flatten();
    let mut index: OsString = led_to.unwrap_or_else(|| path.to_owned()).into_os_string();
    index.push("-index");
    index.into()
}
