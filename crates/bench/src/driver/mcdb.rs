//! mcdb: `libmcdb.so`, which no Debian package brings.
//!
//! Tuning: as its own test `t/testmcdbrand` has it, `mcdb_mmap_prefault`, that is advice
//! WILLNEED; RANDOM when measuring single reads with a cold cache. Reads are zero-copy.

#![allow(unsafe_code)]

use super::library::api;
use super::{
    Announces, Driver, Identity, ReadOnly, Reading, Shape, Source, Store, Threads, c_path,
    refused_by_errno,
};
use crate::settings::{ALWAYS_MAPPED, Takes};
use crate::workload::Records;
use credenza::{Error, Result};
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

/// The beginning of `struct mcdb_mmap` of mcdb.h; the library allocates it.
#[repr(C)]
struct Mmap {
    ptr: *const u8,
}

/// `struct mcdb` of mcdb.h.
#[repr(C)]
struct Finder {
    map: *mut Mmap,
    slots_searched: u32,
    slots: u32,
    key_pos: usize,
    hash_pos: usize,
    data_pos: usize,
    data_len: u32,
    key_len: u32,
    key_hash: u32,
    padding: u32,
    extension: *mut c_void,
}

/// `struct mcdb_iter` of mcdb.h: `ptr` is behind the record's data, which are behind its key.
#[repr(C)]
struct Iter {
    ptr: *const u8,
    end: *const u8,
    key_len: u32,
    data_len: u32,
    map: *mut Mmap,
}

/// Room for `struct mcdb_make` (below 3300 bytes), and more.
#[repr(C, align(16))]
struct Maker([u8; 16384]);

/// `POSIX_MADV_WILLNEED`.
const WILL_NEED: c_int = 3;

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

api! {
    struct Api {
        mcdb_mmap_create: unsafe extern "C" fn(*mut Mmap, *const c_char, *const c_char, Malloc, Free) -> *mut Mmap,
        mcdb_mmap_destroy: unsafe extern "C" fn(*mut Mmap),
        mcdb_mmap_madvise: unsafe extern "C" fn(*const Mmap, c_int),
        mcdb_findtagstart: unsafe extern "C" fn(*mut Finder, *const c_char, usize, c_uchar) -> bool,
        mcdb_findtagnext: unsafe extern "C" fn(*mut Finder, *const c_char, usize, c_uchar) -> bool,
        mcdb_iter_init: unsafe extern "C" fn(*mut Iter, *mut Finder),
        mcdb_iter: unsafe extern "C" fn(*mut Iter) -> bool,
        mcdb_make_start: unsafe extern "C" fn(*mut Maker, c_int, Malloc, Free) -> c_int,
        mcdb_make_add: unsafe extern "C" fn(*mut Maker, *const c_char, usize, *const c_char, usize) -> c_int,
        mcdb_make_finish: unsafe extern "C" fn(*mut Maker) -> c_int,
        mcdb_make_destroy: unsafe extern "C" fn(*mut Maker) -> c_int,
    }
}

pub(super) struct Mcdb {
    api: Api,
    file: PathBuf,
}

impl Driver for Mcdb {
    const NAME: &'static str = "mcdb";
    const ANNOUNCES: Announces = Announces::AsAsked;
    const THREADS: Threads = Threads::Handles;
    const SETTINGS: &'static [Takes] = &[ALWAYS_MAPPED];
    const SOURCE: Option<Source> = Some(Source {
        names: &["libmcdb.so"],
        package: None,
        home: "https://github.com/gstrauss/mcdb",
    });

    fn load(file: Option<&Path>) -> Result<Mcdb> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"mcdb_findtagstart")?;
        Ok(Mcdb { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        Identity { version: String::new(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, _: &Shape) -> String {
        "mcdb_make_add with malloc and free; reader advises WILLNEED (mcdb_mmap_prefault), or \
         RANDOM for a cold cache; one map, as one thread needs it"
            .to_owned()
    }

    fn build(&self, records: &Records, _: &Shape, path: &Path) -> Result<()> {
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|e| Error::io("create", e).at(path))?;
        let mut maker = Box::new(Maker([0; 16384]));
        let maker = &raw mut *maker;
        // SAFETY: `maker` is large enough, aligned and lives to the end of this function; the
        // descriptor is open for reading and writing as long as `file` lives.
        let rc = unsafe {
            (self.api.mcdb_make_start)(maker, file.as_raw_fd(), libc::malloc, libc::free)
        };
        if rc != 0 {
            return Err(refused_by_errno("mcdb_make_start"));
        }
        let added = records.iter().try_for_each(|(key, value)| {
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: `maker` was started; key and value are readable for their lengths.
            match unsafe { (self.api.mcdb_make_add)(maker, k, key.len(), v, value.len()) } {
                0 => Ok(()),
                _ => Err(refused_by_errno("mcdb_make_add")),
            }
        });
        if let Err(e) = added {
            // SAFETY: started and not finished: destroy releases what it holds.
            unsafe { (self.api.mcdb_make_destroy)(maker) };
            return Err(e);
        }
        // SAFETY: `maker` was started and is finished once.
        match unsafe { (self.api.mcdb_make_finish)(maker) } {
            0 => Ok(()),
            _ => Err(refused_by_errno("mcdb_make_finish")),
        }
    }

    type Writer<'d> = ReadOnly<Self::Store<'d>>;

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<Self::Writer<'_>> {
        self.open(path, shape, Reading::Warm).map(ReadOnly)
    }

    type Store<'d> = McdbStore<'d>;

    fn open(&self, path: &Path, _: &Shape, reading: Reading) -> Result<McdbStore<'_>> {
        let name = c_path(path)?;
        // SAFETY: a null map asks the library to allocate one with malloc; the name is a C string
        // that the library copies; a null folder means that the name is a path.
        let map = unsafe {
            (self.api.mcdb_mmap_create)(null_mut(), null(), name.as_ptr(), libc::malloc, libc::free)
        };
        if map.is_null() {
            return Err(refused_by_errno("mcdb_mmap_create").at(path));
        }
        let (normal, random) = (0, 1);
        let advice = match reading {
            Reading::Warm => WILL_NEED,
            Reading::ColdRandom => random,
            Reading::ColdNormal => normal,
        };
        // SAFETY: the map was created above.
        unsafe { (self.api.mcdb_mmap_madvise)(map, advice) };
        Ok(McdbStore { api: &self.api, finder: Finder::over(map) })
    }
}

impl Finder {
    fn over(map: *mut Mmap) -> Finder {
        Finder {
            map,
            slots_searched: 0,
            slots: 0,
            key_pos: 0,
            hash_pos: 0,
            data_pos: 0,
            data_len: 0,
            key_len: 0,
            key_hash: 0,
            padding: 0,
            extension: null_mut(),
        }
    }
}

pub(super) struct McdbStore<'d> {
    api: &'d Api,
    finder: Finder,
}

impl Store for McdbStore<'_> {
    const PRELOADS: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (finder, start) = (&raw mut self.finder, key.as_ptr().cast());
        // SAFETY: the finder refers to a live map; the key is readable for its length. This is the
        // macro mcdb_find of mcdb.h.
        let found = unsafe {
            (self.api.mcdb_findtagstart)(finder, start, key.len(), 0)
                && (self.api.mcdb_findtagnext)(finder, start, key.len(), 0)
        };
        if found {
            // SAFETY: the library found a record: its data are `data_len` bytes at `data_pos` of
            // the map, which lives until `drop`. These are mcdb_dataptr and mcdb_datalen.
            take(unsafe {
                let start = (*self.finder.map).ptr.add(self.finder.data_pos);
                std::slice::from_raw_parts(start, self.finder.data_len as usize)
            });
        }
        Ok(found)
    }

    /// `mcdb_mmap_prefault`: it asks for all pages, and does not wait for them.
    fn preload(&mut self, _: &Path) -> Result<()> {
        // SAFETY: the map lives; the call changes nothing in it.
        unsafe { (self.api.mcdb_mmap_madvise)(self.finder.map, WILL_NEED) };
        Ok(())
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut iter = Iter { ptr: null(), end: null(), key_len: 0, data_len: 0, map: null_mut() };
        // SAFETY: both structs have the layout of mcdb.h, and the finder refers to a live map.
        unsafe { (self.api.mcdb_iter_init)(&raw mut iter, &raw mut self.finder) };
        // SAFETY: `iter` was initialised, and the map lives.
        while unsafe { (self.api.mcdb_iter)(&raw mut iter) } {
            let (key_len, data_len) = (iter.key_len as usize, iter.data_len as usize);
            // SAFETY: mcdb_iter said there is a record: `ptr` is behind it, in the map. These are
            // mcdb_iter_keyptr and mcdb_iter_dataptr.
            let (key, data) = unsafe {
                let data = iter.ptr.sub(data_len);
                let key = data.sub(key_len);
                let key = std::slice::from_raw_parts(key, key_len);
                (key, std::slice::from_raw_parts(data, data_len))
            };
            take(key, data);
        }
        Ok(())
    }
}

impl Drop for McdbStore<'_> {
    fn drop(&mut self) {
        // SAFETY: the map was created by the library and is destroyed once.
        unsafe { (self.api.mcdb_mmap_destroy)(self.finder.map) }
    }
}
