//! Tokyo Cabinet's hash database.
//!
//! Tuning: as many buckets again as records, alignment 4, the map over the whole file, no lock
//! and no mutex; building with `tchdbputasync`, which the library has for it, and single changes
//! with `tchdbput`, which keeps nothing back. Reads copy the value into a buffer (`tchdbget3`),
//! the cheapest call there is.

#![allow(unsafe_code)]

use super::library::api;
use super::tokyocabinet::{
    self, CREATE, NO_LOCK, NO_RECORD, READER, WRITER, YIELDS, c_len, mapped, options,
};
use super::{
    Crew, Driver, Identity, Reading, Setup, Shape, Source, Store, Threads, Writer, c_path, refused,
};
use crate::settings::Takes;
use crate::workload::Records;
use credenza::Result;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// `TCHDB` of tchdb.h, only ever pointed to.
type Hdb = c_void;
/// `TCXSTR` of tcutil.h, only ever pointed to.
type Xstr = c_void;

api! {
    struct Api {
        tcversion: *const *const c_char,
        tchdbnew: unsafe extern "C" fn() -> *mut Hdb,
        tchdbdel: unsafe extern "C" fn(*mut Hdb),
        tchdbsetmutex: unsafe extern "C" fn(*mut Hdb) -> bool,
        tchdbecode: unsafe extern "C" fn(*mut Hdb) -> c_int,
        tchdberrmsg: unsafe extern "C" fn(c_int) -> *const c_char,
        tchdbtune: unsafe extern "C" fn(*mut Hdb, i64, i8, i8, u8) -> bool,
        tchdbsetcache: unsafe extern "C" fn(*mut Hdb, i32) -> bool,
        tchdbsetxmsiz: unsafe extern "C" fn(*mut Hdb, i64) -> bool,
        tchdbopen: unsafe extern "C" fn(*mut Hdb, *const c_char, c_int) -> bool,
        tchdbclose: unsafe extern "C" fn(*mut Hdb) -> bool,
        tchdbputasync: unsafe extern "C" fn(*mut Hdb, *const c_void, c_int, *const c_void, c_int) -> bool,
        tchdbput: unsafe extern "C" fn(*mut Hdb, *const c_void, c_int, *const c_void, c_int) -> bool,
        tchdbout: unsafe extern "C" fn(*mut Hdb, *const c_void, c_int) -> bool,
        tchdbget3: unsafe extern "C" fn(*mut Hdb, *const c_void, c_int, *mut c_void, c_int) -> c_int,
        tchdbiterinit: unsafe extern "C" fn(*mut Hdb) -> bool,
        tchdbiternext3: unsafe extern "C" fn(*mut Hdb, *mut Xstr, *mut Xstr) -> bool,
        tcxstrnew: unsafe extern "C" fn() -> *mut Xstr,
        tcxstrdel: unsafe extern "C" fn(*mut Xstr),
        tcxstrptr: unsafe extern "C" fn(*const Xstr) -> *const u8,
        tcxstrsize: unsafe extern "C" fn(*const Xstr) -> c_int,
    }
}

pub(super) struct TokyoCabinetHash {
    api: Api,
    file: PathBuf,
}

fn buckets(shape: &Shape) -> i64 {
    (2 * shape.records).max(1024) as i64
}

/// Alignment of records as a power of two, and the size of the pool of free blocks.
const ALIGN_POWER: i8 = 2;
const POOL_POWER: i8 = 10;

/// Records in the cache, and the bytes that are mapped, in the comparison on Bayes tokens.
const BAYES_CACHE: i32 = 12_000_000;
const BAYES_MAPPED: i64 = 750 << 20;

/// A database object, deleted when dropped.
struct Handle<'d> {
    api: &'d Api,
    hdb: *mut Hdb,
    /// Whether the object is another one's, which outlives this.
    is_copy: bool,
}

impl Handle<'_> {
    #[cold]
    fn refused(&self, call: &str) -> credenza::Error {
        // SAFETY: the object lives; the message is a C string constant of the library.
        let why =
            unsafe { CStr::from_ptr((self.api.tchdberrmsg)((self.api.tchdbecode)(self.hdb))) };
        refused(call, why.to_string_lossy())
    }

    fn check(&self, call: &str, is_done: bool) -> Result<()> {
        if is_done { Ok(()) } else { Err(self.refused(call)) }
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if !self.is_copy {
            // SAFETY: made by tchdbnew, deleted once; an open database is closed by it.
            unsafe { (self.api.tchdbdel)(self.hdb) }
        }
    }
}

impl TokyoCabinetHash {
    fn opened(&self, path: &Path, shape: &Shape, mode: c_int) -> Result<Handle<'_>> {
        let handle = self.new_handle();
        self.open_in(&handle, path, shape, mode)?;
        Ok(handle)
    }

    fn new_handle(&self) -> Handle<'_> {
        // SAFETY: no preconditions; the library ends the process when memory is out.
        Handle { api: &self.api, hdb: unsafe { (self.api.tchdbnew)() }, is_copy: false }
    }

    fn open_in(&self, handle: &Handle<'_>, path: &Path, shape: &Shape, mode: c_int) -> Result<()> {
        let name = c_path(path)?;
        self.tune(handle, shape, mode)?;
        let lock = if shape.setup == Setup::Tuned { NO_LOCK } else { 0 };
        // SAFETY: the object is not open; the name is a C string.
        let opened = unsafe { (self.api.tchdbopen)(handle.hdb, name.as_ptr(), mode | lock) };
        handle.check("tchdbopen", opened)
    }

    fn tune(&self, handle: &Handle<'_>, shape: &Shape, mode: c_int) -> Result<()> {
        let (api, hdb) = (&self.api, handle.hdb);
        // SAFETY: the object is new and not open yet, as tuning asks.
        let tuned = unsafe {
            match shape.setup {
                Setup::Tuned => {
                    let (buckets, options) = (buckets(shape), options(shape));
                    (api.tchdbtune)(hdb, buckets, ALIGN_POWER, POOL_POWER, options)
                        && (api.tchdbsetxmsiz)(hdb, mapped(shape))
                }
                // No tuning was performed for reads.
                Setup::Bayes if mode & WRITER != 0 => {
                    (api.tchdbsetcache)(hdb, BAYES_CACHE) && (api.tchdbsetxmsiz)(hdb, BAYES_MAPPED)
                }
                _ => true,
            }
        };
        handle.check("tchdbtune", tuned)
    }
}

impl Driver for TokyoCabinetHash {
    const NAME: &'static str = "tokyocabinet-hash";
    const REOPENS: bool = true;
    const SOURCE: Option<Source> = Some(tokyocabinet::SOURCE);
    const VERSIONS: &'static [&'static str] = &["1.4."];
    const SETTINGS: &'static [Takes] = tokyocabinet::SETTINGS;
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;

    fn load(file: Option<&Path>) -> Result<Self> {
        let opened = tokyocabinet::SOURCE.open(Self::NAME, file, c"tchdbiternext3")?;
        Ok(TokyoCabinetHash { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        tokyocabinet::identity(self.api.tcversion, &self.file)
    }

    fn tuning(&self, shape: &Shape) -> String {
        match shape.setup {
            Setup::Tuned => {}
            Setup::Bayes => {
                return format!(
                    "xmsiz {} MiB and a cache of {BAYES_CACHE} records to write, the rest as it \
                     comes; tchdbput, tchdbget3",
                    BAYES_MAPPED >> 20
                );
            }
            _ => return "as it comes; tchdbput, tchdbget3".to_owned(),
        }
        format!(
            "bnum {}, apow {ALIGN_POWER}, fpow {POOL_POWER}, xmsiz {} MiB, opts {}, no lock, no \
             mutex but for threads; build: tchdbputasync; single changes: tchdbput, tchdbout; \
             tchdbget3",
            buckets(shape),
            mapped(shape) >> 20,
            options(shape)
        )
    }

    fn notes(&self) -> Vec<String> {
        vec![YIELDS.to_owned()]
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        if shape.setup != Setup::Tuned {
            let mut writer = self.create(path, shape)?;
            for (key, value) in records.iter() {
                writer.insert(key, value)?;
            }
            return writer.close();
        }
        let handle = self.opened(path, shape, WRITER | CREATE)?;
        for (key, value) in records.iter() {
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
            let (key_len, value_len) = (c_len(key)?, c_len(value)?);
            // SAFETY: the database is open for writing; key and value are readable.
            let done = unsafe { (self.api.tchdbputasync)(handle.hdb, k, key_len, v, value_len) };
            handle.check("tchdbputasync", done)?;
        }
        // SAFETY: the database is open.
        handle.check("tchdbclose", unsafe { (self.api.tchdbclose)(handle.hdb) })
    }

    type Store<'d> = HashStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<HashStore<'_>> {
        // One byte more than any value, so that a value that is too long shows.
        let buffer = vec![0; shape.longest_value + 1];
        Ok(HashStore { handle: self.opened(path, shape, READER)?, buffer })
    }

    type Writer<'d> = HashStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<HashStore<'_>> {
        let buffer = vec![0; shape.longest_value + 1];
        Ok(HashStore { handle: self.opened(path, shape, WRITER | CREATE)?, buffer })
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<HashStore<'_>, HashStore<'_>>> {
        let handle = self.new_handle();
        // SAFETY: the object is new and not open yet, as this asks.
        handle.check("tchdbsetmutex", unsafe { (self.api.tchdbsetmutex)(handle.hdb) })?;
        self.open_in(&handle, path, shape, if with_writer { WRITER } else { READER })?;
        let owner = HashStore { handle, buffer: vec![0; shape.longest_value + 1] };
        let copy = |owner: &HashStore<'_>, _| {
            let handle = Handle { api: &self.api, hdb: owner.handle.hdb, is_copy: true };
            Ok(HashStore { handle, buffer: owner.buffer.clone() })
        };
        // SAFETY: threads may share an object with a mutex, which keeps its errors for each of them.
        unsafe { Crew::sharing(owner, readers, with_writer, copy) }
    }
}

pub(super) struct HashStore<'d> {
    handle: Handle<'d>,
    buffer: Vec<u8>,
}

impl Store for HashStore<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (start, len) = (key.as_ptr().cast(), key.len() as c_int);
        let (room, size) = (self.buffer.as_mut_ptr().cast(), self.buffer.len() as c_int);
        let api = self.handle.api;
        // SAFETY: the database is open; the key is readable and the buffer writable for the
        // lengths given.
        let written = unsafe { (api.tchdbget3)(self.handle.hdb, start, len, room, size) };
        match usize::try_from(written) {
            Ok(written) => {
                take(&self.buffer[..written]);
                Ok(true)
            }
            // SAFETY: the database is open.
            Err(_) if unsafe { (api.tchdbecode)(self.handle.hdb) } == NO_RECORD => Ok(false),
            Err(_) => Err(self.handle.refused("tchdbget3")),
        }
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let api = self.handle.api;
        // SAFETY: the database is open.
        self.handle.check("tchdbiterinit", unsafe { (api.tchdbiterinit)(self.handle.hdb) })?;
        let (key, value) = (ExtensibleString::new(api), ExtensibleString::new(api));
        // SAFETY: the iterator was started; both strings live.
        while unsafe { (api.tchdbiternext3)(self.handle.hdb, key.string, value.string) } {
            take(key.bytes(), value.bytes());
        }
        // SAFETY: the database is open.
        match unsafe { (api.tchdbecode)(self.handle.hdb) } {
            NO_RECORD => Ok(()),
            _ => Err(self.handle.refused("tchdbiternext3")),
        }
    }
}

impl Writer for HashStore<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        let (key_len, value_len) = (c_len(key)?, c_len(value)?);
        let api = self.handle.api;
        // SAFETY: the database is open for writing; key and value are readable.
        let done = unsafe { (api.tchdbput)(self.handle.hdb, k, key_len, v, value_len) };
        self.handle.check("tchdbput", done)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let (start, len) = (key.as_ptr().cast(), c_len(key)?);
        let api = self.handle.api;
        // SAFETY: the database is open for writing; the key is readable.
        if unsafe { (api.tchdbout)(self.handle.hdb, start, len) } {
            return Ok(true);
        }
        // SAFETY: the database is open.
        match unsafe { (api.tchdbecode)(self.handle.hdb) } {
            NO_RECORD => Ok(false),
            _ => Err(self.handle.refused("tchdbout")),
        }
    }

    fn close(self) -> Result<()> {
        // SAFETY: the database is open, and nothing uses it after this but its deletion.
        let closed = unsafe { (self.handle.api.tchdbclose)(self.handle.hdb) };
        self.handle.check("tchdbclose", closed)
    }
}

/// The library's growing string, deleted when dropped.
struct ExtensibleString<'d> {
    api: &'d Api,
    string: *mut Xstr,
}

impl<'d> ExtensibleString<'d> {
    fn new(api: &'d Api) -> Self {
        // SAFETY: no preconditions; the library ends the process when memory is out.
        ExtensibleString { api, string: unsafe { (api.tcxstrnew)() } }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the string lives, and pointer and size describe its content until it is
        // written again, which only the next iteration does.
        unsafe {
            let size = (self.api.tcxstrsize)(self.string) as usize;
            std::slice::from_raw_parts((self.api.tcxstrptr)(self.string), size)
        }
    }
}

impl Drop for ExtensibleString<'_> {
    fn drop(&mut self) {
        // SAFETY: made by tcxstrnew, deleted once.
        unsafe { (self.api.tcxstrdel)(self.string) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::tests::fixed;

    /// Danger: a scan ends where the library cannot read on, and what is behind it is told as lost, or as a wrong
    /// answer, of a store that said what is wrong with it.
    #[test]
    fn a_scan_says_what_the_library_cannot_read() {
        let driver = match TokyoCabinetHash::load(None) {
            Ok(driver) => driver,
            Err(e) => return eprintln!("not tested: {e}"),
        };
        let (records, folder) = (fixed(8, 40), tempfile::tempdir().unwrap());
        let (shape, path) = (Shape::of(&records), folder.path().join("store"));
        driver.build(&records, &shape, &path).unwrap();
        let count = || {
            let mut count = 0;
            let mut store = driver.open(&path, &shape, Reading::Warm).unwrap();
            store.scan(|_, _| count += 1).map(|()| count)
        };
        assert_eq!(count().unwrap(), records.len());
        let mut file = std::fs::read(&path).unwrap();
        let (key, _) = records.get(records.len() / 2);
        let at = file.windows(key.len()).rposition(|bytes| bytes == key).unwrap();
        // The record begins up to 16 bytes before its key: whatever it is, it is no record any more.
        file[at - 16..at].fill(0x77);
        std::fs::write(&path, &file).unwrap();
        let error = count().unwrap_err().to_string();
        assert!(error.contains("tchdbiternext3"), "{error}");
    }
}
