//! The stores the workbench can run: one file each.
//!
//! A [`Driver`] builds a store file and opens it; an open one is a [`Store`], and one that is open
//! for changes a [`Writer`]. The measuring loops are generic over the driver: no call goes through
//! a table of functions, so that every store pays the same for the harness. This folder may say
//! `unsafe`: it calls C libraries.
//!
//! Adding a store: a file here that implements the traits, and one line each in the list of
//! modules and in that of drivers (`named`). A store that is built once has [`ReadOnly`] for a writer; how ours is
//! changed all the same, by a new file in the place of the old one, is in `replaced`.
//!
//! Threads: a measured process has one thread, but where several of it read one store, or commit to one:
//! the handles for these are made together ([`Driver::crew`], [`Driver::committers`]). Drivers need not
//! be `Send`.

mod abilities;
pub(crate) mod ahead;
mod bdb;
mod bdb_abi;
mod bdb_btree;
mod bdb_hash;
mod bdb_numbers;
mod bdb_redo;
mod bdb_store;
mod btree;
mod btree_tables;
mod cdb;
mod constant;
mod gdbm;
mod hash;
mod kept;
pub(crate) mod kernel;
mod kyotocabinet;
mod leveldb;
mod library;
mod lmdb;
mod lsm;
mod mcdb;
mod mdb;
mod mdb_keys;
mod mdb_stat;
mod mdbm;
mod mdbx;
mod named;
mod native_keys;
mod ntdb;
mod null;
mod on_thread;
mod own_order;
mod promise;
mod read_only;
mod redb;
mod replaced;
mod resp;
mod resp_address;
mod resp_server;
mod resp_wire;
mod rocksdb;
mod shape;
mod sparkey;
mod sqlite;
mod store;
pub(crate) mod syscalls;
mod tdb;
mod tdb2;
pub(crate) mod ticks;
mod tkrzw;
mod tkrzw_hash;
mod tkrzw_tree;
mod tokyocabinet;
mod tokyocabinet_btree;
mod tokyocabinet_hash;
pub(crate) mod tried;
mod trivial;
mod upscaledb;
mod upscaledb_abi;
mod upscaledb_keys;
mod upscaledb_places;
mod upscaledb_server;
mod upscaledb_store;

use crate::measure::Size;
use crate::settings::Takes;
use crate::workload::key_type::number_of;
use crate::workload::transactions::Transactions;
use crate::workload::{Action, KeyType, Mix, Mixes, Phase, Records};
pub(crate) use abilities::{Announces, Changes, Sharing, Threads};
use credenza::{Advice, Error, Result};
pub(crate) use library::{Source, is_in_environment, is_not_installed};
pub(crate) use named::{
    ForDriver, NAMES, NULL, address_of, announces, check_address, has_keys_of, has_values_of,
    is_server, settings_of, with_changed, with_driver,
};
pub(crate) use on_thread::{Committers, Crew, OnThread};
pub(crate) use promise::{Fault, Promise};
pub(crate) use read_only::ReadOnly;
pub(crate) use resp_address::CLUSTER;
pub(crate) use shape::{Noting, Setup, Shape};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
pub(crate) use store::{OwnCount, Store, Writer, fill};

/// How the store file will be read, for stores that can tell the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The file is in memory, or may be read into it whole.
    Warm,
    /// Nothing is in memory and single pages are wanted.
    ColdRandom,
    /// Nothing is in memory and the kernel reads ahead as it likes.
    ColdNormal,
}

impl Reading {
    /// Whether accesses are to be announced as random; nothing is said of them where all is in memory. What the
    /// user chose goes before.
    fn is_random(self, shape: &Shape) -> Option<bool> {
        let said = match self {
            Reading::Warm => None,
            Reading::ColdRandom => Some(true),
            Reading::ColdNormal => Some(false),
        };
        shape.settings.random().or(said)
    }

    /// The same as our engines are told it.
    fn advice(self, shape: &Shape) -> Option<Advice> {
        self.is_random(shape)
            .map(|is_random| if is_random { Advice::Random } else { Advice::Normal })
    }
}

/// Makes records one after the other, and gives each to the function that stores it.
pub(crate) type Make<'m> =
    &'m mut dyn FnMut(&mut dyn FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()>;

/// A kind of store.
pub(crate) trait Driver: Sized + 'static {
    /// The name in results.
    const NAME: &'static str;
    /// The library to open; `None` for what is part of this program: our own engines, and crates.
    const SOURCE: Option<Source>;
    /// What of the settings that a user may choose the store takes; every function here that opens
    /// or makes a store does as [`Shape::settings`] say.
    const SETTINGS: &'static [Takes] = &[];
    /// What the versions begin with that the declarations of the library's functions are for; none where
    /// the library does not tell its version.
    const VERSIONS: &'static [&'static str] = &[];
    /// The types of keys that the store has, other than bytes, and is told of ([`Shape::keys`]).
    const KEY_TYPES: &'static [KeyType] = &[];
    /// The types of values that it has, and is told of ([`Shape::values`]).
    const VALUE_TYPES: &'static [KeyType] = &[];
    /// How [`Driver::open`] has the kernel told how the store is read.
    const ANNOUNCES: Announces = Announces::Nothing;
    /// Whether [`Store::get_many`] is the store's own.
    const NATIVE_GET_MANY: bool = false;
    /// Whether it is also where several threads read one store at once.
    const NATIVE_GET_MANY_BY_THREADS: bool = Self::NATIVE_GET_MANY;
    /// What [`Driver::build`] forces to disk by itself.
    const SYNCS: &'static str = "none";
    /// What it forces to disk by itself while it is changed, though it promises no more than that changes
    /// outlive the process, and why; `None` where there is no such thing.
    const SYNCS_ANYWAY: Option<&'static str> = None;
    /// The durability class of changes: what is safe when [`Writer::insert`] returns.
    const CHANGES: Changes = Changes::Buffered;
    /// Whether there is [`Driver::create_committing`].
    const COMMITS: bool = false;
    /// How [`Driver::create_durable`] has each change on the disk; `None` if there is no such thing.
    const DURABLE: Option<&'static str> = None;

    /// Whether the store is in a server, another process that was there before and will be afterwards,
    /// and not in files. It is told apart from others of its kind by an address behind the name.
    const IS_SERVER: bool = false;

    /// What several processes may do with one store at once.
    const SHARING: Sharing = Sharing::Readers;
    /// How several threads of one process read one store at once, as its authors say.
    const THREADS: Threads = Threads::One;
    /// Whether there is [`Driver::reopen`].
    const REOPENS: bool = false;
    /// Whether a transaction ends with a new file of all records, which takes the place of the one before: then
    /// many changes belong into each.
    const REPLACES: bool = false;
    /// Whether a key may have several values, in the order in which they were put there
    /// ([`Shape::duplicates`], [`Writer::add`]): a lookup then gives the first, a removal takes them all,
    /// and a scan gives each with its key.
    const HAS_DUPLICATES: bool = false;
    /// Whether one thread more may change the store meanwhile.
    const HAS_WRITER_THREAD: bool = false;
    /// Whether there is [`Driver::committers`].
    const HAS_COMMITTERS: bool = false;
    /// Whether several processes may all change one store at once, as [`Driver::open_to_commit`] has it.
    const HAS_COMMITTING_PROCESSES: bool = false;

    /// Takes the store's library: `file`, or where [`Source::open`] finds it; for a server `file` is its
    /// address.
    fn load(file: Option<&Path>) -> Result<Self>;

    /// The library's version and file.
    fn identity(&self) -> Identity;

    /// Every setting that is not the default.
    fn tuning(&self, shape: &Shape) -> String;

    /// What a reader of the figures must know.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The durability class of changes where the driver learns it from the store.
    fn changes(&self) -> Changes {
        Self::CHANGES
    }

    /// The durability class of changes that are made one by one: each durable, or a transaction of its own
    /// where there are such.
    fn changes_one_by_one(&self, is_durable: bool) -> Changes {
        match is_durable {
            true => Changes::Sync,
            false if Self::COMMITS => Changes::Buffered,
            false => self.changes(),
        }
    }

    /// A new store for such changes.
    fn create_one_by_one(
        &self,
        path: &Path,
        shape: &Shape,
        is_durable: bool,
    ) -> Result<Self::Writer<'_>> {
        match is_durable {
            true => self.create_durable(path, shape),
            false if Self::COMMITS => self.create_committing(path, shape),
            false => self.create(path, shape),
        }
    }

    /// Opens what that made, and was closed, for the same changes. Only called where the store
    /// [`Driver::REOPENS`].
    fn reopen_one_by_one(
        &self,
        path: &Path,
        shape: &Shape,
        is_durable: bool,
    ) -> Result<Self::Writer<'_>> {
        if is_durable { self.create_durable(path, shape) } else { self.reopen(path, shape, true) }
    }

    /// Refuses what a run may not begin with: a server that holds somebody's data.
    fn admit(&self) -> Result<()> {
        Ok(())
    }

    /// Takes away what the store at `path` has of the data outside its folder, whatever has become of
    /// the process that stored it.
    fn clear<'k>(&self, _path: &Path, _keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        Ok(())
    }

    /// The size of the store at `path`: that of the files in its folder.
    fn size(&self, path: &Path) -> Result<Size> {
        Size::of(path.parent().unwrap_or(path))
    }

    /// Writes all records to a new store at `path` and closes it. `path` is a file name in a
    /// folder of its own; the store may put more files there. This one inserts one record after
    /// the other, for stores that have no better way.
    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        let mut writer = self.create(path, shape)?;
        for (key, value) in records.iter() {
            writer.insert(key, value)?;
        }
        writer.close()
    }

    /// As [`Driver::build`], of records that are not all in memory at once, which `make` makes. `shape` is
    /// theirs.
    fn build_making(&self, path: &Path, shape: &Shape, make: Make<'_>) -> Result<()> {
        let mut writer = self.create(path, shape)?;
        make(&mut |key, value| writer.insert(key, value))?;
        writer.close()
    }

    /// An open store.
    type Store<'d>: Store
    where
        Self: 'd;

    /// Opens the store at `path` for reading.
    fn open(&self, path: &Path, shape: &Shape, reading: Reading) -> Result<Self::Store<'_>>;

    /// A store open for changes; [`ReadOnly`] if there is no such thing.
    type Writer<'d>: Writer
    where
        Self: 'd;

    /// Opens a new, empty store at `path` for changes. `shape` is that of the records it will
    /// hold. Never called where the writer is [`ReadOnly`].
    fn create(&self, path: &Path, _shape: &Shape) -> Result<Self::Writer<'_>> {
        Err(Error::invalid("this store is built once and never changed").at(path))
    }

    /// The same for changes that are each a transaction of its own, which outlives the process when
    /// the call has returned: the class "buffered". Never called where the store has no transactions.
    fn create_committing(&self, path: &Path, _shape: &Shape) -> Result<Self::Writer<'_>> {
        Err(Error::invalid("this store has no transactions").at(path))
    }

    /// The same for changes of which each is on the disk when the call has returned, or each transaction when
    /// it was committed: the class "sync". A store that is there, and was closed, is opened, not made anew.
    /// Never called where that is not known to be so.
    fn create_durable(&self, path: &Path, _shape: &Shape) -> Result<Self::Writer<'_>> {
        Err(Error::invalid("each change of this store is not brought to the disk here").at(path))
    }

    /// Opens the store at `path`, which was closed, for changes again: as [`Driver::create`] does a new
    /// one, or [`Driver::create_committing`]. This one is for stores that these open, too, where they
    /// are. Only called where the store [`Driver::REOPENS`], or is built once and only read by what comes then.
    fn reopen(&self, path: &Path, shape: &Shape, commits: bool) -> Result<Self::Writer<'_>> {
        if commits { self.create_committing(path, shape) } else { self.create(path, shape) }
    }

    /// As [`Driver::create`], for a store that notes operations; `None` where it cannot so.
    fn create_noting(
        &self,
        _path: &Path,
        _shape: &Shape,
        _noting: Noting,
    ) -> Result<Option<Self::Writer<'_>>> {
        Ok(None)
    }

    /// So many handles of the store at `path`, each for a thread of its own, with the locks that
    /// threads that may write to it need: each opened, or all but the first made from it. None where
    /// handles do not go to threads here.
    fn handles(
        &self,
        _path: &Path,
        _count: usize,
        _are_opened: bool,
    ) -> Result<Vec<OnThread<Self::Store<'_>>>> {
        Ok(Vec::new())
    }

    /// Opens the store at `path` for reading where other processes read it, too: with what locks this
    /// takes, if any.
    fn open_shared(&self, path: &Path, shape: &Shape) -> Result<Self::Store<'_>> {
        self.open(path, shape, Reading::Warm)
    }

    /// Opens the store at `path` for reading beside a writer that has opened it already, with the
    /// locks that this takes. Only called for [`Sharing::Writer`].
    fn open_beside(&self, path: &Path, shape: &Shape) -> Result<Self::Store<'_>> {
        self.open(path, shape, Reading::Warm)
    }

    /// The handles for so many threads that read the store at `path`, and for one that changes it
    /// beside them, as [`Driver::open_to_change`] has it. Only called as [`Driver::THREADS`] and
    /// [`Driver::HAS_WRITER_THREAD`] allow; what is [`Threads::Shared`] has its own.
    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<Self::Store<'_>, Self::Writer<'_>>> {
        on_thread::each_opened(self, path, shape, readers, with_writer)
    }

    /// The handles of so many threads that all change the store at `path`, a new one where there is none, each
    /// change a transaction of its own: on the disk when its call has returned, as [`Driver::create_durable`]
    /// has it, or else as [`Driver::create_committing`] does, or [`Driver::create`] where every change outlives
    /// the process.
    /// Only called where there are such ([`Driver::HAS_COMMITTERS`]). This one is for
    /// [`Threads::Handles`].
    fn committers(
        &self,
        path: &Path,
        shape: &Shape,
        count: usize,
        is_durable: bool,
    ) -> Result<Committers<Self::Writer<'_>>> {
        on_thread::committers_opened(self, path, shape, count, is_durable)
    }

    /// Opens the store at `path`, which is new when the first of several threads does so, for the
    /// changes of one of them. Only called by [`Driver::committers`].
    fn open_committer(
        &self,
        path: &Path,
        _shape: &Shape,
        _is_durable: bool,
    ) -> Result<Self::Writer<'_>> {
        Err(Error::invalid("threads do not open this store for changes").at(path))
    }

    /// Opens the store at `path`, which was made as [`Driver::create_one_by_one`] has it, and closed or opened by
    /// other processes that change it too, for changes of the same kind, with the locks that several such
    /// processes need. Only called where there are such ([`Driver::HAS_COMMITTING_PROCESSES`]). This one is for
    /// stores that have these locks however they are opened.
    fn open_to_commit(
        &self,
        path: &Path,
        shape: &Shape,
        is_durable: bool,
    ) -> Result<Self::Writer<'_>> {
        self.reopen_one_by_one(path, shape, is_durable)
    }

    /// What is promised of acknowledged changes after a fault, where the store was opened as
    /// [`Driver::create_durable`] has it, or else as [`Driver::create_committing`] or
    /// [`Driver::create`] do. This one is for stores whose transactions outlive the process, and which
    /// promise nothing without them.
    fn promise(fault: Fault, is_durable: bool) -> Promise {
        match fault {
            _ if is_durable => Promise::All,
            Fault::Kill | Fault::Full if Self::COMMITS => Promise::All,
            _ => Promise::Nothing,
        }
    }

    /// Whether a full disk ends the process of a store that was opened so: as the workbench has it write
    /// through a map of a file with holes, for which its authors say so. That loses nothing that it has
    /// acknowledged, and breaks no promise.
    fn dies_when_full(_is_durable: bool) -> bool {
        false
    }

    /// Opens the store at `path` for changes after a fault, with whatever its authors say is to be done
    /// then. Only called where the store [`Driver::REOPENS`].
    fn recover(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        self.reopen(path, shape, Self::COMMITS)
    }

    /// Has a closed store check all of itself, where it can.
    fn verify(&self, _path: &Path) -> Result<()> {
        Ok(())
    }

    /// Refuses what lies beside the store at `path` and is not said to be left there by a fault, or, for `None`,
    /// where nothing happened. This one is for stores that make no new files in the place of old ones.
    fn check_litter(&self, _path: &Path, _fault: Option<Fault>) -> Result<()> {
        Ok(())
    }

    /// Changes the files of the store at `path`, a copy, so that the machine seems to have been started
    /// anew since they were written, where they tell which start they are of.
    fn make_rebooted(_path: &Path) -> Result<()> {
        Ok(())
    }

    /// Opens the store at `path`, which others read, for changes that readers see after
    /// [`Store::refresh`] as soon as the call has returned. Only called for [`Sharing::Writer`].
    fn open_to_change(&self, path: &Path, _shape: &Shape) -> Result<Self::Writer<'_>> {
        Err(Error::invalid("this store is not changed beside its readers").at(path))
    }
}

/// Whether stores of this kind can do what the phase asks for, with these mixes; of those that are opened
/// in place of new ones only what is opened again is changed.
pub(crate) fn can_do<D: Driver>(phase: Phase, mixes: &Mixes, are_opened: bool) -> bool {
    match phase {
        Phase::Range => <D::Store<'_> as Store>::IS_ORDERED,
        Phase::InsertEach => D::COMMITS,
        Phase::InsertSync => D::DURABLE.is_some(),
        _ if !phase.is_changing() => true,
        _ if !<D::Writer<'_> as Writer>::IS_POSSIBLE => {
            let mix = mixes.of(phase).filter(|_| mixes.only_read_until(phase));
            mix.is_some_and(can_read_mix::<D>)
        }
        _ if are_opened && !D::REOPENS => false,
        _ => mixes.of(phase).is_none_or(can_do_mix::<D>),
    }
}

/// Whether a store that is built once can do what a mix asks for that changes nothing.
fn can_read_mix<D: Driver>(mix: &Mix) -> bool {
    mix.transactions.is_none() && (<D::Store<'_> as Store>::IS_ORDERED || !mix.does(Action::Scan))
}

/// The same of one that can be changed.
fn can_do_mix<D: Driver>(mix: &Mix) -> bool {
    match mix.transactions {
        _ if mix.sync && D::DURABLE.is_none() => false,
        _ if mix.reopen && !D::REOPENS => false,
        _ if mix.duplicates.is_some() && !D::HAS_DUPLICATES => false,
        _ if mix.does(Action::Scan) && !<D::Writer<'_> as Store>::IS_ORDERED => false,
        Some(Transactions::Each) if mix.duplicates.is_none() => D::COMMITS,
        Some(_) => has_transactions::<D>(),
        None => true,
    }
}

/// Whether transactions of several operations are the store's own.
pub(crate) fn has_transactions<D: Driver>() -> bool {
    D::COMMITS && <D::Writer<'_> as Writer>::HAS_TRANSACTIONS
}

/// Which library a driver runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) version: String,
    pub(crate) file: Option<PathBuf>,
}

/// Where both of our engines that change tell which start of the machine their locks are of: 16 bytes,
/// as `docs/format` has it.
const BOOT_AT: u64 = 2048;

/// [`Driver::make_rebooted`] for our own engines: of a start that never was.
fn with_another_boot(path: &Path) -> Result<()> {
    let change = || {
        let file = File::options().write(true).open(path)?;
        let is_whole = file.metadata()?.len() >= BOOT_AT + 16;
        if is_whole { file.write_all_at(&[0x5a; 16], BOOT_AT) } else { Ok(()) }
    };
    match change() {
        // The power may have failed before there was a store.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(|e| Error::io("write", e).at(path)),
    }
}

/// A path for a C library.
fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::invalid("the path contains a NUL byte").at(path))
}

/// An error unless a store that numbers records gave a record the number that it was to have.
#[inline]
fn is_number(given: &[u8], wanted: &[u8]) -> Result<()> {
    if given == wanted {
        return Ok(());
    }
    let (given, wanted) = (number_of(given), number_of(wanted));
    Err(Error::invalid(format!("the store numbered a record {given} that is number {wanted}")))
}

/// What a C library said no to, in its own words.
#[cold]
fn refused(call: &str, why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("{call}: {why}"))
}

/// What a C library said no to, when it speaks through `errno`.
#[cold]
fn refused_by_errno(call: &'static str) -> Error {
    Error::io(call, io::Error::last_os_error())
}

#[cfg(test)]
mod duplicates_tests;
#[cfg(test)]
mod key_types_tests;
#[cfg(test)]
mod mdb_tests;
#[cfg(test)]
mod ranges_tests;
#[cfg(test)]
mod settings_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod upscaledb_server_tests;
