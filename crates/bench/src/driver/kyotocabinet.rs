//! Kyoto Cabinet's file hash database, by its C interface: `libkyotocabinet.so.16`.
//!
//! Tuning: twice as many buckets as records, chains in place of trees (TLINEAR), alignment 8, the
//! map over the whole file, no lock of the file. Its locks between threads cannot be left out.
//! Reads copy the value into a buffer (`kcdbgetbuf`). Many at once are visited in place (`kcdbacceptbulk`):
//! `kcdbgetbulk` copies keys and values into a map first, and takes longer than single reads.

#![allow(unsafe_code)]

use super::library::api;
use super::{
    Crew, Driver, Identity, Reading, Shape, Source, Store, Threads, Writer, c_path, refused,
};
use crate::settings::{Codec, Name, Takes, Values};
use credenza::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `KCDB` of kclangc.h, only ever pointed to.
type Db = c_void;
type Visit = unsafe extern "C" fn(
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut usize,
    *mut c_void,
) -> *const c_char;

/// Takes a key that is not there.
type VisitEmpty =
    unsafe extern "C" fn(*const c_char, usize, *mut usize, *mut c_void) -> *const c_char;

/// `KCSTR`: bytes for the library to read.
#[repr(C)]
struct Bytes {
    start: *const c_char,
    len: usize,
}

api! {
    #[allow(non_snake_case, reason = "the library's own names")]
    struct Api {
        KCVERSION: *const *const c_char,
        KCVISNOP: *const *const c_char,
        kcdbnew: unsafe extern "C" fn() -> *mut Db,
        kcdbdel: unsafe extern "C" fn(*mut Db),
        kcdbopen: unsafe extern "C" fn(*mut Db, *const c_char, u32) -> i32,
        kcdbclose: unsafe extern "C" fn(*mut Db) -> i32,
        kcdbecode: unsafe extern "C" fn(*mut Db) -> i32,
        kcdbemsg: unsafe extern "C" fn(*mut Db) -> *const c_char,
        kcdbset: unsafe extern "C" fn(*mut Db, *const c_char, usize, *const c_char, usize) -> i32,
        kcdbremove: unsafe extern "C" fn(*mut Db, *const c_char, usize) -> i32,
        kcdbgetbuf: unsafe extern "C" fn(*mut Db, *const c_char, usize, *mut c_char, usize) -> i32,
        kcdbacceptbulk: unsafe extern "C" fn(*mut Db, *const Bytes, usize, Visit, VisitEmpty, *mut c_void, i32) -> i32,
        kcdbiterate: unsafe extern "C" fn(*mut Db, Visit, *mut c_void, i32) -> i32,
    }
}

const READER: u32 = 1 << 0;
const WRITER: u32 = 1 << 1;
const CREATE: u32 = 1 << 2;
const NO_LOCK: u32 = 1 << 6;
/// `KCENOREC`.
const NO_RECORD: c_int = 7;

pub(super) struct KyotoCabinet {
    api: Api,
    file: PathBuf,
}

/// What is said to the library after the file's name.
fn settings(shape: &Shape) -> String {
    let buckets = (2 * shape.records).max(64);
    let mapped = match shape.settings.mmap() {
        Some(false) => 0,
        _ => (6 << 30).max(2 * shape.bytes() + 64 * shape.records),
    };
    let compressed = match shape.settings.compression() {
        Codec::None => "l".to_owned(),
        codec => format!("lc#zcomp={}", codec.text()),
    };
    format!("#type=kch#bnum={buckets}#opts={compressed}#apow=3#msiz={mapped}")
}

impl KyotoCabinet {
    fn opened(&self, path: &Path, shape: &Shape, mode: u32) -> Result<KyotoStore<'_>> {
        // The library would end the file's name there: it would make, or change, a file beside the folder.
        if path.as_os_str().as_bytes().contains(&b'#') {
            let what =
                "Kyoto Cabinet takes what is behind a # for settings: name a folder without one";
            return Err(Error::invalid(what).at(path));
        }
        let mut name = path.as_os_str().to_owned();
        name.push(settings(shape));
        let name = c_path(Path::new(&name))?;
        let api = &self.api;
        // SAFETY: no preconditions.
        let db = unsafe { (api.kcdbnew)() };
        if db.is_null() {
            return Err(Error::invalid("kcdbnew: out of memory"));
        }
        // One byte more than any value, so that a value that is too long shows.
        let buffer = vec![0; shape.longest_value + 1];
        let store = KyotoStore { api, db, buffer, asked: Vec::new(), is_copy: false };
        // SAFETY: the object is new; the name is a C string.
        let done = unsafe { (api.kcdbopen)(db, name.as_ptr(), mode) };
        store.check("kcdbopen", done).map_err(|e| e.at(path))?;
        Ok(store)
    }
}

impl Driver for KyotoCabinet {
    const NAME: &'static str = "kyotocabinet";
    const REOPENS: bool = true;
    const NATIVE_GET_MANY: bool = true;
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;
    const SOURCE: Option<Source> = Some(Source {
        names: &["libkyotocabinet.so.16"],
        package: Some("libkyotocabinet16v5"),
        home: "https://dbmx.net/kyotocabinet/",
    });

    const VERSIONS: &'static [&'static str] = &["1.2."];
    const SETTINGS: &'static [Takes] = &[
        (Name::Mmap, Values::Either),
        (Name::Compression, Values::Codecs(&[Codec::None, Codec::Zlib, Codec::Lzo, Codec::Lzma])),
    ];

    fn load(file: Option<&Path>) -> Result<KyotoCabinet> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"kcdbgetbuf")?;
        Ok(KyotoCabinet { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        // SAFETY: `KCVERSION` is a variable of the library that holds a C string constant.
        let version = unsafe { CStr::from_ptr(*self.api.KCVERSION) };
        Identity { version: version.to_string_lossy().into_owned(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        format!("HashDB {}, no lock of the file; kcdbgetbuf, kcdbacceptbulk", settings(shape))
    }

    type Store<'d> = KyotoStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<KyotoStore<'_>> {
        self.opened(path, shape, READER | NO_LOCK)
    }

    type Writer<'d> = KyotoStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<KyotoStore<'_>> {
        self.opened(path, shape, WRITER | CREATE | NO_LOCK)
    }

    /// A store that was not closed is repaired when it is opened, but not with `NO_LOCK` (kchashdb.h).
    fn recover(&self, path: &Path, shape: &Shape) -> Result<KyotoStore<'_>> {
        self.opened(path, shape, WRITER | CREATE)?.close()?;
        self.create(path, shape)
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<KyotoStore<'_>, KyotoStore<'_>>> {
        let mode = NO_LOCK | if with_writer { WRITER } else { READER };
        let copy = |owner: &KyotoStore<'_>, _| {
            let (api, db, buffer) = (&self.api, owner.db, owner.buffer.clone());
            Ok(KyotoStore { api, db, buffer, asked: Vec::new(), is_copy: true })
        };
        // SAFETY: threads may share a database object, which keeps its errors for each of them.
        unsafe { Crew::sharing(self.opened(path, shape, mode)?, readers, with_writer, copy) }
    }
}

/// An open database, closed when dropped.
pub(super) struct KyotoStore<'d> {
    api: &'d Api,
    db: *mut Db,
    buffer: Vec<u8>,
    /// The keys that are looked up at once; its place is used again.
    asked: Vec<Bytes>,
    /// Whether the database is another one's, which outlives this.
    is_copy: bool,
}

impl KyotoStore<'_> {
    fn check(&self, call: &str, is_done: i32) -> Result<()> {
        if is_done != 0 { Ok(()) } else { Err(self.refused(call)) }
    }

    #[cold]
    fn refused(&self, call: &str) -> Error {
        // SAFETY: the object lives; the message is a C string of its own.
        let why = unsafe { CStr::from_ptr((self.api.kcdbemsg)(self.db)) };
        refused(call, why.to_string_lossy())
    }

    /// `Ok(false)` if the last call did not find its record.
    #[inline]
    fn absent(&self, call: &str) -> Result<bool> {
        // SAFETY: the object lives.
        match unsafe { (self.api.kcdbecode)(self.db) } {
            NO_RECORD => Ok(false),
            _ => Err(self.refused(call)),
        }
    }
}

impl Drop for KyotoStore<'_> {
    fn drop(&mut self) {
        if !self.is_copy {
            // SAFETY: made by kcdbnew, deleted once; an open database is closed by it.
            unsafe { (self.api.kcdbdel)(self.db) }
        }
    }
}

/// What a scan passes through the library: the closure, and what its visitor has to return.
struct Scan<F> {
    take: F,
    no_change: *const c_char,
}

/// # Safety
/// The library calls this with a record that it holds, and `scan` points to a `Scan<F>` that
/// nobody else uses.
unsafe extern "C" fn visit<F: FnMut(&[u8], &[u8])>(
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
    _: *mut usize,
    scan: *mut c_void,
) -> *const c_char {
    // SAFETY: the caller's promise; the bytes are not kept.
    unsafe {
        let scan = &mut *scan.cast::<Scan<F>>();
        let key = std::slice::from_raw_parts(key.cast(), key_len);
        (scan.take)(key, std::slice::from_raw_parts(value.cast(), value_len));
        scan.no_change
    }
}

/// What many lookups at once pass through the library: the closure, which key comes next, and what a visitor has
/// to return.
struct Answers<F> {
    take: F,
    next: usize,
    no_change: *const c_char,
}

impl<F: FnMut(usize, Option<&[u8]>)> Answers<F> {
    fn give(&mut self, value: Option<&[u8]>) -> *const c_char {
        (self.take)(self.next, value);
        self.next += 1;
        self.no_change
    }
}

/// # Safety
/// The library calls this with a record that it holds, and `answers` points to an `Answers<F>` that nobody else
/// uses.
unsafe extern "C" fn answer<F: FnMut(usize, Option<&[u8]>)>(
    _: *const c_char,
    _: usize,
    value: *const c_char,
    len: usize,
    _: *mut usize,
    answers: *mut c_void,
) -> *const c_char {
    // SAFETY: the caller's promise; the bytes are not kept.
    unsafe {
        let value = std::slice::from_raw_parts(value.cast(), len);
        (*answers.cast::<Answers<F>>()).give(Some(value))
    }
}

/// # Safety
/// As for [`answer`], with a key that is not there.
unsafe extern "C" fn answer_none<F: FnMut(usize, Option<&[u8]>)>(
    _: *const c_char,
    _: usize,
    _: *mut usize,
    answers: *mut c_void,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { (*answers.cast::<Answers<F>>()).give(None) }
}

/// The visitors for answers of this type.
fn answerers<F: FnMut(usize, Option<&[u8]>)>(_: &Answers<F>) -> (Visit, VisitEmpty) {
    (answer::<F>, answer_none::<F>)
}

/// The visitor for a scan of this type.
fn visitor<F: FnMut(&[u8], &[u8])>(_: &Scan<F>) -> Visit {
    visit::<F>
}

impl Store for KyotoStore<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (start, room) = (key.as_ptr().cast(), self.buffer.as_mut_ptr().cast());
        // SAFETY: the database is open; the key is readable and the buffer writable for the
        // lengths given.
        let written =
            unsafe { (self.api.kcdbgetbuf)(self.db, start, key.len(), room, self.buffer.len()) };
        match usize::try_from(written) {
            Ok(len) => {
                // The library tells the value's length even if it did not fit.
                take(&self.buffer[..len.min(self.buffer.len())]);
                Ok(true)
            }
            Err(_) => self.absent("kcdbgetbuf"),
        }
    }

    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let as_bytes = |key: &&[u8]| Bytes { start: key.as_ptr().cast(), len: key.len() };
        self.asked.clear();
        self.asked.extend(keys.iter().map(as_bytes));
        // SAFETY: `KCVISNOP` is a variable of the library that holds a pointer.
        let mut answers = Answers { take, next: 0, no_change: unsafe { *self.api.KCVISNOP } };
        let (found, missing) = answerers(&answers);
        let (asked, count) = (self.asked.as_ptr(), self.asked.len());
        // SAFETY: the database is open and the keys are readable; the visitors get one key after the other,
        // and `answers`, which they are for and which lives to the end of this function; 0 says that
        // nothing is changed.
        let done = unsafe {
            let answers = (&raw mut answers).cast();
            (self.api.kcdbacceptbulk)(self.db, asked, count, found, missing, answers, 0)
        };
        self.check("kcdbacceptbulk", done)
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        // SAFETY: `KCVISNOP` is a variable of the library that holds a pointer.
        let mut scan = Scan { take, no_change: unsafe { *self.api.KCVISNOP } };
        let visit = visitor(&scan);
        // SAFETY: the database is open; `visit` gets one record after the other, and `scan`, which
        // it is for and which lives to the end of this function; 0 says that nothing is changed.
        let done = unsafe { (self.api.kcdbiterate)(self.db, visit, (&raw mut scan).cast(), 0) };
        self.check("kcdbiterate", done)
    }
}

/// Where a value that is stored begins. An empty one may begin anywhere, in Rust mostly at address 1, which is by what
/// the library's visitors say that a record is to be removed (`Visitor::REMOVE` of kcdb.h): `kcdbset` would do that.
#[inline]
fn start_of(value: &[u8]) -> *const u8 {
    const EMPTY: &[u8; 1] = &[0];
    if value.is_empty() { EMPTY.as_ptr() } else { value.as_ptr() }
}

impl Writer for KyotoStore<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (k, v) = (key.as_ptr().cast(), start_of(value).cast());
        // SAFETY: the database is open; key and value are readable for their lengths.
        let done = unsafe { (self.api.kcdbset)(self.db, k, key.len(), v, value.len()) };
        self.check("kcdbset", done)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        // SAFETY: the database is open; the key is readable.
        match unsafe { (self.api.kcdbremove)(self.db, key.as_ptr().cast(), key.len()) } {
            0 => self.absent("kcdbremove"),
            _ => Ok(true),
        }
    }

    fn close(self) -> Result<()> {
        // SAFETY: the database is open, and nothing uses it after this but its deletion.
        let closed = unsafe { (self.api.kcdbclose)(self.db) };
        self.check("kcdbclose", closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::tests::fixed;

    /// Danger: a file of the user's that lies beside the folder is taken for the store.
    #[test]
    fn nothing_is_made_beside_a_folder_with_a_number_sign() {
        let driver = match KyotoCabinet::load(None) {
            Ok(driver) => driver,
            Err(e) => return eprintln!("not tested: {e}"),
        };
        let (folder, shape) = (tempfile::tempdir().unwrap(), Shape::of(&fixed(8, 40)));
        let inside = folder.path().join("a#b");
        std::fs::create_dir(&inside).unwrap();
        let refused = driver.create(&inside.join("store"), &shape).err().unwrap().to_string();
        assert!(refused.contains("without one"), "{refused}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Danger: a store whose process died is called damaged, because it is opened so that it is not repaired.
    #[test]
    fn a_store_that_was_not_closed_has_everything_when_it_is_recovered() {
        let driver = match KyotoCabinet::load(None) {
            Ok(driver) => driver,
            Err(e) => return eprintln!("not tested: {e}"),
        };
        let (records, folder) = (fixed(8, 40), tempfile::tempdir().unwrap());
        let shape = Shape::of(&records);
        let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
        let mut store = driver.create(&path, &shape).unwrap();
        records.iter().for_each(|(key, value)| store.insert(key, value).unwrap());
        // As it is on the disk of a process that dies now.
        std::fs::copy(&path, &copy).unwrap();
        store.close().unwrap();

        let mut found = driver.recover(&copy, &shape).unwrap();
        for (key, value) in records.iter() {
            let mut got = None;
            assert!(found.get(key, |value| got = Some(value.to_vec())).unwrap());
            assert_eq!(got.as_deref(), Some(value));
        }
        let mut count = 0;
        found.scan(|_, _| count += 1).unwrap();
        assert_eq!(count, records.len());
        found.close().unwrap();
    }

    /// Danger: a store is said to lose records with empty values, and it is the driver that has them removed.
    #[test]
    fn an_empty_value_is_stored_wherever_it_lies() {
        let driver = match KyotoCabinet::load(None) {
            Ok(driver) => driver,
            Err(e) => return eprintln!("not tested: {e}"),
        };
        let (mut records, folder) = (fixed(8, 0), tempfile::tempdir().unwrap());
        let (shape, path) = (Shape::of(&records), folder.path().join("store"));
        let mut store = driver.create(&path, &shape).unwrap();
        // Nothing was allocated for it.
        let empty = Vec::new();
        records.iter().for_each(|(key, _)| store.insert(key, &empty).unwrap());
        // And in the place of one that is there.
        records = records.first(10).unwrap();
        records.iter().for_each(|(key, _)| store.insert(key, &empty).unwrap());
        for (key, _) in records.iter() {
            assert!(store.get(key, |value| assert!(value.is_empty())).unwrap());
        }
        let mut count = 0;
        store.scan(|_, _| count += 1).unwrap();
        assert_eq!(count, fixed(8, 0).len());
        store.close().unwrap();
    }
}
