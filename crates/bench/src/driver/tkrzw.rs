//! What Tkrzw's kinds of file database have in common, by its C interface: `libtkrzw.so.1`.
//!
//! Tuning: no lock of the file. Its locks between threads cannot be left out. Reads are zero-copy
//! (`tkrzw_dbm_process`, `tkrzw_dbm_iter_process`). Many lookups are one after the other: `tkrzw_dbm_get_multi`
//! copies all keys and values into a map, `tkrzw_dbm_process_multi` makes lists of them to lock all at once, and
//! both were found to take longer.
//!
//! A tree is read backwards from its highest key, which is looked for from the front: up to 1.0.32 at least,
//! `tkrzw_dbm_iter_last` of a tree that was opened again gives the last record of its first page, as the library
//! takes the number of its last page from where that of the first stands (`TreeDBM::ParseMetadata`).

#![allow(unsafe_code)]

use super::library::api;
use super::{Crew, Identity, Shape, Source, Store, Writer, c_path, refused};
use crate::settings::{Codec, Name, Takes, Values};
use credenza::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// `TkrzwDBM` and `TkrzwDBMIter` of tkrzw_langc.h, only ever pointed to.
type Dbm = c_void;
type Iter = c_void;
type Process = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    i32,
    *const c_char,
    i32,
    *mut i32,
) -> *const c_char;
/// What moves an iterator by one record.
type Step = unsafe extern "C" fn(*mut Iter) -> bool;

api! {
    #[allow(non_snake_case, reason = "the library's own names")]
    struct Api {
        TKRZW_LIBRARY_VERSION: *const *const c_char,
        TKRZW_PACKAGE_VERSION: *const *const c_char,
        TKRZW_REC_PROC_NOOP: *const *const c_char,
        tkrzw_get_last_status_code: unsafe extern "C" fn() -> i32,
        tkrzw_get_last_status_message: unsafe extern "C" fn() -> *const c_char,
        tkrzw_status_code_name: unsafe extern "C" fn(i32) -> *const c_char,
        tkrzw_dbm_open: unsafe extern "C" fn(*const c_char, bool, *const c_char) -> *mut Dbm,
        tkrzw_dbm_close: unsafe extern "C" fn(*mut Dbm) -> bool,
        tkrzw_dbm_process: unsafe extern "C" fn(*mut Dbm, *const c_char, i32, Process, *mut c_void, bool) -> bool,
        tkrzw_dbm_process_each: unsafe extern "C" fn(*mut Dbm, Process, *mut c_void, bool) -> bool,
        tkrzw_dbm_set: unsafe extern "C" fn(*mut Dbm, *const c_char, i32, *const c_char, i32, bool) -> bool,
        tkrzw_dbm_remove: unsafe extern "C" fn(*mut Dbm, *const c_char, i32) -> bool,
        tkrzw_dbm_make_iterator: unsafe extern "C" fn(*mut Dbm) -> *mut Iter,
        tkrzw_dbm_iter_free: unsafe extern "C" fn(*mut Iter),
        tkrzw_dbm_iter_jump: unsafe extern "C" fn(*mut Iter, *const c_char, i32) -> bool,
        tkrzw_dbm_iter_next: Step,
        tkrzw_dbm_iter_previous: Step,
        tkrzw_dbm_iter_process: unsafe extern "C" fn(*mut Iter, Process, *mut c_void, bool) -> bool,
    }
}

/// `TKRZW_STATUS_NOT_FOUND_ERROR`.
const NO_RECORD: i32 = 7;
/// What every disk can read and write at once.
const DIRECT_BLOCK: u32 = 4096;

impl Api {
    #[cold]
    fn refused(&self, call: &str) -> Error {
        // SAFETY: no preconditions; both are C strings, constant or the thread's own.
        let (kind, why) = unsafe {
            let code = (self.tkrzw_get_last_status_code)();
            let kind = CStr::from_ptr((self.tkrzw_status_code_name)(code));
            (kind, CStr::from_ptr((self.tkrzw_get_last_status_message)()))
        };
        refused(call, format!("{} {}", kind.to_string_lossy(), why.to_string_lossy()))
    }
}

/// The library.
pub(super) struct Tkrzw {
    api: Api,
    file: PathBuf,
}

/// What can be set of both kinds: of a hash its records are compressed, of a tree its pages.
pub(super) const COMPRESSION: Takes = (
    Name::Compression,
    Values::Codecs(&[Codec::None, Codec::Zlib, Codec::Zstd, Codec::Lz4, Codec::Lzma]),
);

/// What both kinds are told of their file.
pub(super) fn file_settings(shape: &Shape) -> String {
    let chosen = &shape.settings;
    let mut settings = match (chosen.direct(), chosen.mmap()) {
        // Blocks of a disk, and the cache of pages that the library has for this.
        (true, _) => format!(
            "file=PositionalParallelFile,block_size={DIRECT_BLOCK},access_options=direct:padding:pagecache"
        ),
        (false, Some(false)) => "file=PositionalParallelFile".to_owned(),
        (false, _) => "file=MemoryMapParallelFile".to_owned(),
    };
    if chosen.compression() != Codec::None {
        settings += &format!(",record_comp_mode=record_comp_{}", chosen.compression().text());
    }
    settings
}

/// What lookups are done with.
pub(super) const READS: &str = "tkrzw_dbm_process, many lookups one by one, as tkrzw_dbm_get_multi and \
                                tkrzw_dbm_process_multi take longer";

fn c_len(bytes: &[u8]) -> Result<i32> {
    i32::try_from(bytes.len()).map_err(|_| refused("Tkrzw", "over 2 GiB in one piece"))
}

impl Tkrzw {
    pub(super) const SOURCE: Source = Source {
        names: &["libtkrzw.so.1"],
        package: Some("libtkrzw1"),
        home: "https://dbmx.net/tkrzw/",
    };

    /// The library for the driver of this name.
    pub(super) fn load(store: &str, file: Option<&Path>) -> Result<Tkrzw> {
        let opened = Tkrzw::SOURCE.open(store, file, c"tkrzw_dbm_process")?;
        Ok(Tkrzw { api: Api::load(opened.library)?, file: opened.file })
    }

    pub(super) fn identity(&self) -> Identity {
        // SAFETY: both are variables of the library that hold C string constants.
        let (package, library) = unsafe {
            let text = |name: *const *const c_char| CStr::from_ptr(*name).to_string_lossy();
            (text(self.api.TKRZW_PACKAGE_VERSION), text(self.api.TKRZW_LIBRARY_VERSION))
        };
        Identity { version: format!("{package} ({library})"), file: Some(self.file.clone()) }
    }

    /// Opens the database at `path`; the settings say which kind it is.
    pub(super) fn open<const IS_ORDERED: bool>(
        &self,
        path: &Path,
        settings: &str,
        is_writer: bool,
    ) -> Result<TkrzwStore<'_, IS_ORDERED>> {
        let (api, name) = (&self.api, c_path(path)?);
        let settings = format!("{settings},no_lock=true");
        let settings = CString::new(settings).map_err(|e| Error::invalid(e.to_string()))?;
        // SAFETY: name and settings are C strings.
        let dbm = unsafe { (api.tkrzw_dbm_open)(name.as_ptr(), is_writer, settings.as_ptr()) };
        if dbm.is_null() {
            return Err(api.refused("tkrzw_dbm_open").at(path));
        }
        Ok(TkrzwStore { api, dbm, is_copy: false, is_reader: !is_writer, kept: null_mut() })
    }

    /// The handles of threads that share the database at `path`.
    pub(super) fn crew<const IS_ORDERED: bool>(
        &self,
        path: &Path,
        settings: &str,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<TkrzwStore<'_, IS_ORDERED>, TkrzwStore<'_, IS_ORDERED>>> {
        let owner = self.open(path, settings, with_writer)?;
        let copy = |owner: &TkrzwStore<'_, IS_ORDERED>, _| {
            let (dbm, is_reader, kept) = (owner.dbm, owner.is_reader, null_mut());
            Ok(TkrzwStore { api: &self.api, dbm, is_copy: true, is_reader, kept })
        };
        // SAFETY: threads may share a database, which keeps its last status for each of them.
        unsafe { Crew::sharing(owner, readers, with_writer, copy) }
    }
}

/// An open database, closed when dropped; what is in the order of its keys says so.
pub(super) struct TkrzwStore<'d, const IS_ORDERED: bool> {
    api: &'d Api,
    dbm: *mut Dbm,
    /// Whether the database is another one's, which outlives this.
    is_copy: bool,
    /// Whether nobody changes the database while it is open.
    is_reader: bool,
    /// A reader's one iterator, for all ranges; null before the first.
    kept: *mut Iter,
}

impl<const IS_ORDERED: bool> Drop for TkrzwStore<'_, IS_ORDERED> {
    fn drop(&mut self) {
        if !self.kept.is_null() {
            // SAFETY: made by the library, freed once, and before its database is closed.
            unsafe { (self.api.tkrzw_dbm_iter_free)(self.kept) };
        }
        if !self.dbm.is_null() && !self.is_copy {
            // SAFETY: the database is open; it is closed and freed once.
            unsafe { (self.api.tkrzw_dbm_close)(self.dbm) };
        }
    }
}

/// What is passed through the library: the closure, what a processor has to return, and whether
/// there was a record.
struct Taking<F> {
    take: F,
    no_change: *const c_char,
    is_found: bool,
}

/// # Safety
/// The library calls this with a record that it holds, or with null for the value, and `taking`
/// points to a `Taking<F>` that nobody else uses.
unsafe extern "C" fn process<F: FnMut(&[u8], &[u8])>(
    taking: *mut c_void,
    key: *const c_char,
    key_len: i32,
    value: *const c_char,
    value_len: i32,
    _: *mut i32,
) -> *const c_char {
    // SAFETY: the caller's promise; the bytes are not kept.
    unsafe {
        let taking = &mut *taking.cast::<Taking<F>>();
        if !value.is_null() {
            taking.is_found = true;
            let key = std::slice::from_raw_parts(key.cast(), key_len as usize);
            (taking.take)(key, std::slice::from_raw_parts(value.cast(), value_len as usize));
        }
        taking.no_change
    }
}

/// The processor for a `Taking` of this type.
fn processor<F: FnMut(&[u8], &[u8])>(_: &Taking<F>) -> Process {
    process::<F>
}

impl<const IS_ORDERED: bool> TkrzwStore<'_, IS_ORDERED> {
    #[inline]
    fn taking<F: FnMut(&[u8], &[u8])>(&self, take: F) -> Taking<F> {
        // SAFETY: `TKRZW_REC_PROC_NOOP` is a variable of the library that holds a pointer.
        Taking { take, no_change: unsafe { *self.api.TKRZW_REC_PROC_NOOP }, is_found: false }
    }

    fn check(&self, call: &str, is_done: bool) -> Result<()> {
        if is_done { Ok(()) } else { Err(self.api.refused(call)) }
    }

    /// Whether it was done; if not, there must be no such record.
    fn check_found(&self, call: &str, is_done: bool) -> Result<bool> {
        // SAFETY: no preconditions.
        if is_done || unsafe { (self.api.tkrzw_get_last_status_code)() } == NO_RECORD {
            return Ok(is_done);
        }
        Err(self.api.refused(call))
    }

    /// Gives `count` records to `take`, the first whose key is not below `from`, and then those that the step
    /// leads to; fewer when there are no more.
    fn walk(
        &mut self,
        from: &[u8],
        count: usize,
        (step_name, step): (&str, Step),
        take: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let (start, len) = (from.as_ptr().cast(), c_len(from)?);
        let mut taking = self.taking(take);
        let process = processor(&taking);
        let taking = (&raw mut taking).cast();
        let api = self.api;
        let iter = match self.kept.is_null() {
            // SAFETY: the database is open.
            true => unsafe { (api.tkrzw_dbm_make_iterator)(self.dbm) },
            false => self.kept,
        };
        // SAFETY: the iterator lives and the key is readable.
        let jumped = unsafe { (api.tkrzw_dbm_iter_jump)(iter, start, len) };
        let mut is_there = self.check_found("tkrzw_dbm_iter_jump", jumped);
        for i in 0..count {
            let Ok(true) = is_there else { break };
            if i > 0 {
                // SAFETY: the iterator lives; the step is one of the library's.
                let moved = unsafe { step(iter) };
                is_there = self.check_found(step_name, moved);
            }
            if let Ok(true) = is_there {
                // SAFETY: the iterator lives; `process` gets a record, and `taking`, which it is for
                // and which lives to the end of this function.
                let done = unsafe { (api.tkrzw_dbm_iter_process)(iter, process, taking, false) };
                is_there = self.check_found("tkrzw_dbm_iter_process", done);
            }
        }
        if self.is_reader {
            self.kept = iter;
        } else {
            // SAFETY: made above, and freed once.
            unsafe { (api.tkrzw_dbm_iter_free)(iter) };
        }
        is_there.map(drop)
    }
}

impl<const IS_ORDERED: bool> Store for TkrzwStore<'_, IS_ORDERED> {
    const IS_ORDERED: bool = IS_ORDERED;
    const SCANS_BACK: bool = IS_ORDERED;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (start, len) = (key.as_ptr().cast(), c_len(key)?);
        let mut taking = self.taking(|_, value| take(value));
        let process = processor(&taking);
        // SAFETY: the database is open and the key readable; `process` gets the value, and
        // `taking`, which it is for and which lives to the end of this function.
        let done = unsafe {
            let taking = (&raw mut taking).cast();
            (self.api.tkrzw_dbm_process)(self.dbm, start, len, process, taking, false)
        };
        self.check("tkrzw_dbm_process", done)?;
        Ok(taking.is_found)
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut taking = self.taking(take);
        let process = processor(&taking);
        // SAFETY: the database is open; `process` gets one record after the other, with null for
        // the value before the first and after the last, and `taking`, which it is for and which
        // lives to the end of this function.
        let done = unsafe {
            let taking = (&raw mut taking).cast();
            (self.api.tkrzw_dbm_process_each)(self.dbm, process, taking, false)
        };
        self.check("tkrzw_dbm_process_each", done)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if !IS_ORDERED {
            return Err(Error::invalid("the records of this store are in no order"));
        }
        self.walk(from, count, ("tkrzw_dbm_iter_next", self.api.tkrzw_dbm_iter_next), take)
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if !IS_ORDERED {
            return Err(Error::invalid("the records of this store are in no order"));
        }
        let mut highest: Option<Vec<u8>> = None;
        self.scan(|key, _| {
            let highest = highest.get_or_insert_default();
            highest.clear();
            highest.extend_from_slice(key);
        })?;
        let back = ("tkrzw_dbm_iter_previous", self.api.tkrzw_dbm_iter_previous);
        highest.map_or(Ok(()), |highest| self.walk(&highest, usize::MAX, back, take))
    }
}

impl<const IS_ORDERED: bool> Writer for TkrzwStore<'_, IS_ORDERED> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        let (key_len, value_len) = (c_len(key)?, c_len(value)?);
        // SAFETY: the database is open; key and value are readable for their lengths.
        let done = unsafe { (self.api.tkrzw_dbm_set)(self.dbm, k, key_len, v, value_len, true) };
        self.check("tkrzw_dbm_set", done)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let (start, len) = (key.as_ptr().cast(), c_len(key)?);
        // SAFETY: the database is open; the key is readable.
        let removed = unsafe { (self.api.tkrzw_dbm_remove)(self.dbm, start, len) };
        self.check_found("tkrzw_dbm_remove", removed)
    }

    fn close(mut self) -> Result<()> {
        let dbm = std::mem::replace(&mut self.dbm, null_mut());
        // SAFETY: the database is open, and was taken out of the store so that nobody closes it
        // again.
        let closed = unsafe { (self.api.tkrzw_dbm_close)(dbm) };
        self.check("tkrzw_dbm_close", closed)
    }
}
