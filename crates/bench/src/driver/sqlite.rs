//! SQLite: `libsqlite3.so.0`, one table without row numbers, and statements that are prepared once.
//!
//! Tuning: no sync, an exclusive lock, no mutex, no count of the memory in use, a cache of twice the data, the file mapped for
//! readers; pages of at least twenty records, as its documentation advises for such tables. Lookups
//! are in one read transaction. Single changes are all in one transaction without a journal, which
//! is committed at the end; where each is to be one of its own, it goes to a write-ahead log. So does
//! what a writer stores beside readers: these see the store as it was when their transaction began.
//! Threads have a connection each.
//!
//! Many lookups at once are a join of the list of their keys with the table, which takes less than as many
//! single ones.

#![allow(unsafe_code)]

use super::library::api;
use super::{
    Changes, Driver, Identity, OwnCount, Reading, Shape, Sharing, Source, Store, Threads, Writer,
    c_path, refused, store,
};
use crate::machine;
use crate::settings::{Name, Takes, Values};
use credenza::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

/// `sqlite3` and `sqlite3_stmt` of sqlite3.h, only ever pointed to.
type Db = c_void;
type Stmt = c_void;

api! {
    struct Api {
        sqlite3_config: unsafe extern "C" fn(c_int, ...) -> c_int,
        sqlite3_libversion: unsafe extern "C" fn() -> *const c_char,
        sqlite3_errmsg: unsafe extern "C" fn(*mut Db) -> *const c_char,
        sqlite3_open_v2: unsafe extern "C" fn(*const c_char, *mut *mut Db, c_int, *const c_char) -> c_int,
        sqlite3_close: unsafe extern "C" fn(*mut Db) -> c_int,
        sqlite3_exec: unsafe extern "C" fn(*mut Db, *const c_char, *const c_void, *mut c_void, *mut *mut c_char) -> c_int,
        sqlite3_changes: unsafe extern "C" fn(*mut Db) -> c_int,
        sqlite3_prepare_v2: unsafe extern "C" fn(*mut Db, *const c_char, c_int, *mut *mut Stmt, *mut *const c_char) -> c_int,
        sqlite3_bind_blob: unsafe extern "C" fn(*mut Stmt, c_int, *const c_void, c_int, *const c_void) -> c_int,
        sqlite3_step: unsafe extern "C" fn(*mut Stmt) -> c_int,
        sqlite3_reset: unsafe extern "C" fn(*mut Stmt) -> c_int,
        sqlite3_column_type: unsafe extern "C" fn(*mut Stmt, c_int) -> c_int,
        sqlite3_column_int64: unsafe extern "C" fn(*mut Stmt, c_int) -> i64,
        sqlite3_column_blob: unsafe extern "C" fn(*mut Stmt, c_int) -> *const u8,
        sqlite3_column_bytes: unsafe extern "C" fn(*mut Stmt, c_int) -> c_int,
        sqlite3_finalize: unsafe extern "C" fn(*mut Stmt) -> c_int,
        sqlite3_db_status: unsafe extern "C" fn(*mut Db, c_int, *mut c_int, *mut c_int, c_int) -> c_int,
    }
}

const OK: c_int = 0;
const BUSY: c_int = 5;
const ROW: c_int = 100;
const DONE: c_int = 101;
const TYPE_NULL: c_int = 5;
const OPEN_READ_ONLY: c_int = 0x1;
const OPEN_READ_WRITE: c_int = 0x2;
const OPEN_CREATE: c_int = 0x4;
const OPEN_NO_MUTEX: c_int = 0x8000;

/// Whether the memory that is in use is counted, under a lock of all threads: lookups took a tenth longer, and two threads did
/// 1.2 times as much as one instead of twice. It is not, as its documentation recommends.
const CONFIG_MEMSTATUS: c_int = 9;

/// How long one connection waits for another one's lock.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `sqlite3_db_status` is asked, with its number.
const STATUS: [(&str, c_int); 7] = [
    ("cache_used", 1),
    ("schema_used", 2),
    ("stmt_used", 3),
    ("cache_hit", 7),
    ("cache_miss", 8),
    ("cache_write", 9),
    ("cache_spill", 12),
];

pub(super) struct Sqlite {
    api: Api,
    file: PathBuf,
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    /// All changes in one transaction.
    Change,
    /// Each change in one of its own.
    ChangeEach,
    /// The same, on the disk.
    ChangeDurably,
    /// Each change in a transaction of its own, on the disk or not, while other connections do so, too.
    CommitTogether {
        is_durable: bool,
    },
    /// Read while another connection changes the store.
    ReadBeside,
    /// Change a store that is there, each change in a transaction of its own, while others read it.
    ChangeBeside,
}

impl Use {
    fn has_one_transaction(self) -> bool {
        matches!(self, Use::Read | Use::Change | Use::ReadBeside)
    }
}

fn cache_kilobytes(shape: &Shape) -> u64 {
    let usual = || (2 * shape.bytes()).min(machine::memory_bytes() / 4).max(96 << 20);
    shape.settings.cache().unwrap_or_else(usual) >> 10
}

fn page_bytes(shape: &Shape) -> u64 {
    let record = shape.bytes() / shape.records.max(1);
    let usual = (20 * record).next_power_of_two().clamp(4 << 10, 64 << 10);
    shape.settings.page_size().unwrap_or(usual)
}

/// The most of a file that is mapped, by a reader or whatever else.
fn mapped_bytes(shape: &Shape, is_reader: bool) -> u32 {
    match shape.settings.mmap().unwrap_or(is_reader) {
        true => 2_147_418_112,
        false => 0,
    }
}

impl Sqlite {
    fn opened(&self, path: &Path, shape: &Shape, usage: Use) -> Result<SqliteStore<'_>> {
        let path = if shape.settings.memory() { Path::new(":memory:") } else { path };
        let (api, name) = (&self.api, c_path(path)?);
        let mode = match usage {
            Use::Read => OPEN_READ_ONLY,
            Use::Change | Use::ChangeEach | Use::ChangeDurably | Use::CommitTogether { .. } => {
                OPEN_READ_WRITE | OPEN_CREATE
            }
            // A reader notes in the index of the log what it reads.
            Use::ReadBeside | Use::ChangeBeside => OPEN_READ_WRITE,
        };
        let mut db = null_mut();
        // SAFETY: the name is a C string and `db` a place for the pointer.
        let rc = unsafe {
            (api.sqlite3_open_v2)(name.as_ptr(), &raw mut db, mode | OPEN_NO_MUTEX, null())
        };
        let none = null_mut();
        // From here on the connection is closed when dropped, also one that could not be opened.
        let mut store = SqliteStore {
            api,
            db,
            is_in_transaction: false,
            keeps_log: false,
            get: none,
            put: none,
            remove: none,
            scan: none,
            range: none,
            begin: none,
            begin_to_write: none,
            commit: none,
            many: vec![none; MANY + 1],
        };
        store.check("sqlite3_open_v2", rc)?;
        match usage {
            Use::ReadBeside | Use::ChangeBeside | Use::CommitTogether { .. } => {
                store.run(&format!("PRAGMA busy_timeout={}", PATIENCE.as_millis()))?;
            }
            _ => store.run("PRAGMA locking_mode=EXCLUSIVE")?,
        }
        let is_durable =
            matches!(usage, Use::ChangeDurably | Use::CommitTogether { is_durable: true });
        let synchronous = if is_durable { "FULL" } else { "OFF" };
        store.run(&format!("PRAGMA synchronous={synchronous}"))?;
        store.run(&format!("PRAGMA cache_size=-{}", cache_kilobytes(shape)))?;
        let is_reader = matches!(usage, Use::Read | Use::ReadBeside);
        store.run(&format!("PRAGMA mmap_size={}", mapped_bytes(shape, is_reader)))?;
        match usage {
            Use::Read | Use::ReadBeside => {}
            // Those who read beside it need the log.
            Use::ChangeBeside if !shape.settings.recovery() => {
                return Err(Error::invalid(
                    "recovery=off: SQLite has no readers beside a writer without its log; leave it out of one of both",
                ));
            }
            Use::ChangeBeside => {
                store.run("PRAGMA journal_mode=WAL")?;
                store.keep_log_short(shape)?;
            }
            Use::Change | Use::ChangeEach | Use::ChangeDurably | Use::CommitTogether { .. } => {
                let has_log = usage != Use::Change && shape.settings.recovery();
                let journal = if has_log { "WAL" } else { "OFF" };
                store.run(&format!("PRAGMA page_size={}", page_bytes(shape)))?;
                store.run_in_turn(&format!("PRAGMA journal_mode={journal}"))?;
                store.keep_log_short(shape)?;
                store.run("CREATE TABLE IF NOT EXISTS kv(k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")?;
            }
        }
        store.begin = store.prepared("BEGIN")?;
        store.commit = store.prepared("COMMIT")?;
        if !is_reader {
            store.begin_to_write = store.prepared("BEGIN IMMEDIATE")?;
            store.put = store.prepared("REPLACE INTO kv VALUES(?1, ?2)")?;
            store.remove = store.prepared("DELETE FROM kv WHERE k=?1")?;
        }
        store.get = store.prepared("SELECT v FROM kv WHERE k=?1")?;
        store.scan = store.prepared("SELECT k, v FROM kv")?;
        store.range = store.prepared("SELECT k, v FROM kv WHERE k>=?1 ORDER BY k")?;
        if usage.has_one_transaction() {
            store.run("BEGIN")?;
            store.is_in_transaction = true;
        }
        Ok(store)
    }
}

impl Driver for Sqlite {
    const NAME: &'static str = "sqlite";
    const REOPENS: bool = true;
    const NATIVE_GET_MANY: bool = true;
    const THREADS: Threads = Threads::Handles;
    const SOURCE: Option<Source> = Some(Source {
        names: &["libsqlite3.so.0"],
        package: Some("libsqlite3-0"),
        home: "https://sqlite.org",
    });
    const VERSIONS: &'static [&'static str] = &["3."];
    const SETTINGS: &'static [Takes] = &[
        (Name::PageSize, Values::Powers(512, 64 << 10)),
        (Name::Cache, Values::AtLeast(64 << 10)),
        (Name::Mmap, Values::Either),
        (Name::Recovery, Values::Either),
        (Name::Flush, Values::Either),
        (Name::Memory, Values::Either),
    ];
    const CHANGES: Changes = Changes::AtClose;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("journal_mode WAL, synchronous FULL");
    const SHARING: Sharing = Sharing::Writer;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;
    const HAS_COMMITTING_PROCESSES: bool = true;

    fn load(file: Option<&Path>) -> Result<Sqlite> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"sqlite3_open_v2")?;
        let api = Api::load(opened.library)?;
        // SAFETY: a setting that takes a number; a library that is in use already refuses it and changes nothing.
        let _ = unsafe { (api.sqlite3_config)(CONFIG_MEMSTATUS, 0 as c_int) };
        Ok(Sqlite { api, file: opened.file })
    }

    fn identity(&self) -> Identity {
        // SAFETY: no preconditions; a C string constant of the library.
        let version = unsafe { CStr::from_ptr((self.api.sqlite3_libversion)()) };
        Identity { version: version.to_string_lossy().into_owned(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        format!(
            "WITHOUT ROWID, page_size {}, cache_size {} MiB, synchronous OFF, locking_mode \
             EXCLUSIVE, NOMUTEX, no memory statistics; prepared statements; lookups: mmap_size {} MiB, one transaction for \
             all, many at once a join with the list of keys; changes: mmap_size {} MiB, journal_mode OFF and one transaction for the whole phase, or \
             journal_mode WAL and one for each, as beside readers and with several threads or \
             processes that commit, without EXCLUSIVE and with busy_timeout",
            page_bytes(shape),
            cache_kilobytes(shape) >> 10,
            mapped_bytes(shape, true) >> 20,
            mapped_bytes(shape, false) >> 20
        )
    }

    type Store<'d> = SqliteStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<SqliteStore<'_>> {
        self.opened(path, shape, Use::Read)
    }

    type Writer<'d> = SqliteStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<SqliteStore<'_>> {
        self.opened(path, shape, Use::Change)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<SqliteStore<'_>> {
        self.opened(path, shape, Use::ChangeEach)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<SqliteStore<'_>> {
        self.opened(path, shape, Use::ChangeDurably)
    }

    fn open_committer(
        &self,
        path: &Path,
        shape: &Shape,
        is_durable: bool,
    ) -> Result<SqliteStore<'_>> {
        self.opened(path, shape, Use::CommitTogether { is_durable })
    }

    fn open_to_commit(
        &self,
        path: &Path,
        shape: &Shape,
        is_durable: bool,
    ) -> Result<SqliteStore<'_>> {
        let mut store = self.opened(path, shape, Use::CommitTogether { is_durable })?;
        store.keeps_log = true;
        Ok(store)
    }

    fn open_beside(&self, path: &Path, shape: &Shape) -> Result<SqliteStore<'_>> {
        self.opened(path, shape, Use::ReadBeside)
    }

    fn open_to_change(&self, path: &Path, shape: &Shape) -> Result<SqliteStore<'_>> {
        self.opened(path, shape, Use::ChangeBeside)
    }
}

/// A connection with its statements, of which a reader has no `put` and `remove`; closed when
/// dropped.
pub(super) struct SqliteStore<'d> {
    api: &'d Api,
    db: *mut Db,
    is_in_transaction: bool,
    /// Whether the log is left when it is closed, as others may have the store open.
    keeps_log: bool,
    get: *mut Stmt,
    put: *mut Stmt,
    remove: *mut Stmt,
    scan: *mut Stmt,
    range: *mut Stmt,
    begin: *mut Stmt,
    begin_to_write: *mut Stmt,
    commit: *mut Stmt,
    /// Those for so many lookups at once, where there were as many; as they take as long to be made as some keys to be
    /// looked up, each is kept.
    many: Vec<*mut Stmt>,
}

/// The most keys that one statement looks up.
const MANY: usize = 256;

/// What looks up so many keys, and gives the place of each among them with its value, or with null.
fn lookups(count: usize) -> String {
    let keys: Vec<String> = (0..count).map(|i| format!("({i}, ?{})", i + 1)).collect();
    let keys = keys.join(", ");
    format!("WITH asked(i, key) AS (VALUES {keys}) SELECT i, v FROM asked LEFT JOIN kv ON k=key")
}

impl Drop for SqliteStore<'_> {
    fn drop(&mut self) {
        // Closing what was read, or after an error that is being reported: no new one.
        let _ = self.release();
    }
}

impl SqliteStore<'_> {
    fn check(&self, call: &str, rc: c_int) -> Result<()> {
        if matches!(rc, OK | ROW | DONE) { Ok(()) } else { Err(self.refused(call)) }
    }

    #[cold]
    fn refused(&self, call: &str) -> Error {
        // SAFETY: the connection lives (a null one has a message, too); the message is a C string
        // that stays until the next call.
        let why = unsafe { CStr::from_ptr((self.api.sqlite3_errmsg)(self.db)) };
        refused(call, why.to_string_lossy())
    }

    /// Has changes go from the log to their place after each transaction, if that is asked for.
    fn keep_log_short(&self, shape: &Shape) -> Result<()> {
        let is_flushed = shape.settings.flush() == Some(true);
        if is_flushed { self.run("PRAGMA wal_autocheckpoint=1") } else { Ok(()) }
    }

    fn run(&self, sql: &str) -> Result<()> {
        self.check(sql, self.exec(sql)?)
    }

    /// The same of what the library refuses, without waiting, while another connection has the lock for it: a
    /// change of the journal.
    fn run_in_turn(&self, sql: &str) -> Result<()> {
        let start = Instant::now();
        loop {
            let rc = self.exec(sql)?;
            if rc != BUSY || start.elapsed() > PATIENCE {
                return self.check(sql, rc);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What the library answers to this.
    fn exec(&self, sql: &str) -> Result<c_int> {
        let text = CString::new(sql).map_err(|e| Error::invalid(e.to_string()))?;
        // SAFETY: the connection is open; the text is a C string; nobody asks for rows or a message.
        Ok(unsafe {
            (self.api.sqlite3_exec)(self.db, text.as_ptr(), null(), null_mut(), null_mut())
        })
    }

    fn prepared(&self, sql: &str) -> Result<*mut Stmt> {
        let text = CString::new(sql).map_err(|e| Error::invalid(e.to_string()))?;
        let mut stmt = null_mut();
        // SAFETY: the connection is open; the text is a C string, and `stmt` a place for the pointer.
        let rc = unsafe {
            let end = null_mut();
            (self.api.sqlite3_prepare_v2)(self.db, text.as_ptr(), -1, &raw mut stmt, end)
        };
        self.check(sql, rc).map(|()| stmt)
    }

    /// Sets a statement's parameter to these bytes, which must stay until it was reset.
    #[inline]
    fn bind(&self, stmt: *mut Stmt, number: c_int, bytes: &[u8]) -> Result<()> {
        let len = c_int::try_from(bytes.len())
            .map_err(|_| refused("sqlite3_bind_blob", "over 2 GiB in one piece"))?;
        let start = bytes.as_ptr().cast();
        // SAFETY: the statement is prepared and at its start; the bytes are readable, and stay until
        // it was reset, which every caller does. A null destructor says that they are not the
        // library's.
        let rc = unsafe { (self.api.sqlite3_bind_blob)(stmt, number, start, len, null()) };
        self.check("sqlite3_bind_blob", rc)
    }

    #[inline]
    fn step(&self, stmt: *mut Stmt) -> c_int {
        // SAFETY: the statement is prepared, and what is bound to it is still there.
        unsafe { (self.api.sqlite3_step)(stmt) }
    }

    /// Ends what the statement did; `rc` is what its last step said.
    #[inline]
    fn reset(&self, stmt: *mut Stmt, rc: c_int) -> Result<()> {
        let checked = self.check("sqlite3_step", rc);
        // SAFETY: the statement is prepared. The answer is that of the last step again.
        unsafe { (self.api.sqlite3_reset)(stmt) };
        checked
    }

    /// A column of the row that a statement is at.
    ///
    /// # Safety
    /// The last step gave a row, and the bytes are not used after the next step.
    #[inline]
    unsafe fn column<'a>(&self, stmt: *mut Stmt, number: c_int) -> &'a [u8] {
        // SAFETY: the caller's promise; the length is asked for after the bytes, as the library
        // wants it.
        unsafe {
            let start = (self.api.sqlite3_column_blob)(stmt, number);
            let len = (self.api.sqlite3_column_bytes)(stmt, number) as usize;
            if len == 0 { &[] } else { std::slice::from_raw_parts(start, len) }
        }
    }

    /// Gives at most `count` rows to `take`.
    fn rows(
        &self,
        stmt: *mut Stmt,
        count: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let mut rc = OK;
        for _ in 0..count {
            rc = self.step(stmt);
            if rc != ROW {
                break;
            }
            // SAFETY: the step gave a row, and `take` is done before the next one.
            unsafe { take(self.column(stmt, 0), self.column(stmt, 1)) };
        }
        self.reset(stmt, rc)
    }

    /// The statement for so many lookups at once.
    fn many(&mut self, count: usize) -> Result<*mut Stmt> {
        if self.many[count].is_null() {
            self.many[count] = self.prepared(&lookups(count))?;
        }
        Ok(self.many[count])
    }

    /// Runs a statement that has no rows.
    #[inline]
    fn once(&self, stmt: *mut Stmt) -> Result<()> {
        let rc = self.step(stmt);
        self.reset(stmt, rc)
    }

    /// Commits what is open, and closes the connection.
    fn release(&mut self) -> Result<()> {
        let committed = if self.is_in_transaction { self.run("COMMIT") } else { Ok(()) };
        self.is_in_transaction = false;
        let all = [&mut self.get, &mut self.put, &mut self.remove, &mut self.scan, &mut self.range];
        let ends = [&mut self.begin, &mut self.begin_to_write, &mut self.commit];
        for stmt in all.into_iter().chain(ends).chain(&mut self.many) {
            // SAFETY: the statement is prepared, or null, which is allowed; freed once.
            unsafe { (self.api.sqlite3_finalize)(std::mem::replace(stmt, null_mut())) };
        }
        // SAFETY: the connection has no statement; null is allowed.
        let rc = unsafe { (self.api.sqlite3_close)(std::mem::replace(&mut self.db, null_mut())) };
        committed?;
        if rc == OK { Ok(()) } else { Err(refused("sqlite3_close", format!("error {rc}"))) }
    }
}

impl Store for SqliteStore<'_> {
    const IS_ORDERED: bool = true;
    const SCANS_BACK: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        self.bind(self.get, 1, key)?;
        let rc = self.step(self.get);
        if rc == ROW {
            // SAFETY: the step gave a row, and there is no other before `take` is done.
            take(unsafe { self.column(self.get, 0) });
        }
        self.reset(self.get, rc).map(|()| rc == ROW)
    }

    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        let of = |(name, number): (&'static str, c_int)| {
            let (mut now, mut most) = (0, 0);
            // SAFETY: the connection is open; two places for numbers, and nothing is set back.
            let rc = unsafe {
                let status = self.api.sqlite3_db_status;
                status(self.db, number, &raw mut now, &raw mut most, 0)
            };
            self.check("sqlite3_db_status", rc)?;
            Ok((name, u64::try_from(now).unwrap_or(0)))
        };
        STATUS.into_iter().map(of).collect()
    }

    fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        // In parts of one size, and what is left one by one.
        let size = keys.len() / keys.len().div_ceil(MANY).max(1);
        if size < 2 {
            return store::one_by_one(self, keys, take);
        }
        let parts = keys.chunks_exact(size);
        let left = parts.remainder();
        for (n, part) in parts.enumerate() {
            let stmt = self.many(size)?;
            for (number, key) in (1..).zip(part) {
                self.bind(stmt, number, key)?;
            }
            let mut rc = self.step(stmt);
            while rc == ROW {
                // SAFETY: the step gave a row, and `take` is done before the next one.
                let (i, value) = unsafe {
                    let is_there = (self.api.sqlite3_column_type)(stmt, 1) != TYPE_NULL;
                    let i = (self.api.sqlite3_column_int64)(stmt, 0) as usize;
                    (i, is_there.then(|| self.column(stmt, 1)))
                };
                take(n * size + i, value);
                rc = self.step(stmt);
            }
            self.reset(stmt, rc)?;
        }
        let first = keys.len() - left.len();
        store::one_by_one(self, left, |i, value| take(first + i, value))
    }

    fn refresh(&mut self) -> Result<()> {
        self.once(self.commit)?;
        self.once(self.begin)
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.rows(self.scan, usize::MAX, take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.bind(self.range, 1, from)?;
        self.rows(self.range, count, take)
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let stmt = self.prepared("SELECT k, v FROM kv ORDER BY k DESC")?;
        let done = self.rows(stmt, usize::MAX, take);
        // SAFETY: the statement is prepared, and freed once.
        unsafe { (self.api.sqlite3_finalize)(stmt) };
        done
    }
}

impl Writer for SqliteStore<'_> {
    const HAS_TRANSACTIONS: bool = true;

    fn begin(&mut self) -> Result<()> {
        // One that began by reading would fail where another one has written meanwhile.
        self.once(self.begin_to_write)
    }

    fn commit(&mut self) -> Result<()> {
        self.once(self.commit)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.bind(self.put, 1, key)?;
        self.bind(self.put, 2, value)?;
        self.once(self.put)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.bind(self.remove, 1, key)?;
        self.once(self.remove)?;
        // SAFETY: the connection is open.
        Ok(unsafe { (self.api.sqlite3_changes)(self.db) } > 0)
    }

    fn close(mut self) -> Result<()> {
        if !self.is_in_transaction && !self.keeps_log {
            // The log goes into the file: who may only read could not do without a lock there.
            self.run("PRAGMA journal_mode=DELETE")?;
        }
        self.release()
    }
}
