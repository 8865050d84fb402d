//! The drivers in a list, and what is asked of one by the name of its store: of a server with its address behind.

use super::null::Null;
use super::replaced::Replaced;
use super::resp::Resp;
use super::upscaledb_server::UpscaledbServer;
use super::{Announces, Driver};
use super::{
    bdb_btree, bdb_hash, btree, cdb, constant, gdbm, hash, kyotocabinet, leveldb, lmdb, mcdb, mdbm,
    mdbx,
};
use super::{ntdb, redb, rocksdb, sparkey, sqlite, tdb, tdb2, tkrzw_hash, tkrzw_tree};
use super::{tokyocabinet_btree, tokyocabinet_hash, upscaledb};
use crate::settings::Takes;
use crate::workload::KeyType;
use credenza::{Error, Result};

/// Work that is the same for every driver, compiled for each of them.
pub(crate) trait ForDriver {
    type Output;
    fn run<D: Driver>(self) -> Self::Output;
}

/// The types of keys, and of values, that the store of this name has.
fn types_of(store: &str) -> Option<(&'static [KeyType], &'static [KeyType])> {
    struct Has;
    impl ForDriver for Has {
        type Output = (&'static [KeyType], &'static [KeyType]);

        fn run<D: Driver>(self) -> Self::Output {
            (D::KEY_TYPES, D::VALUE_TYPES)
        }
    }
    with_driver(store, Has)
}

/// Whether the store of this name has keys of this type.
pub(crate) fn has_keys_of(store: &str, keys: KeyType) -> bool {
    types_of(store).is_some_and(|(has, _)| keys == KeyType::Binary || has.contains(&keys))
}

/// Whether it has values of this type.
pub(crate) fn has_values_of(store: &str, values: KeyType) -> bool {
    types_of(store).is_some_and(|(_, has)| values == KeyType::Binary || has.contains(&values))
}

/// How the kernel is told how the store of this name is read, where that is cold.
pub(crate) fn announces(store: &str) -> Option<Announces> {
    struct Asked;
    impl ForDriver for Asked {
        type Output = Announces;

        fn run<D: Driver>(self) -> Announces {
            D::ANNOUNCES
        }
    }
    with_driver(store, Asked)
}

/// What of the settings that a user may choose the store of this name takes.
pub(crate) fn settings_of(store: &str) -> Result<&'static [Takes]> {
    struct Settings;
    impl ForDriver for Settings {
        type Output = &'static [Takes];

        fn run<D: Driver>(self) -> &'static [Takes] {
            D::SETTINGS
        }
    }
    with_driver(store, Settings).ok_or_else(|| {
        Error::invalid(format!("there is no store '{store}'; there are {}", NAMES.join(", ")))
    })
}

/// The store that does nothing.
pub(crate) const NULL: &str = <Null as Driver>::NAME;

/// Declares [`NAMES`] and [`with_driver`].
macro_rules! drivers {
    ($($driver:ty,)*) => {
        /// The names of all drivers, in the order in which they are listed and run.
        pub(crate) const NAMES: &[&str] = &[$(<$driver>::NAME,)*];

        /// Runs `work` for the driver of this name; `None` if there is none.
        pub(crate) fn with_driver<W: ForDriver>(name: &str, work: W) -> Option<W::Output> {
            let kind = kind_of(name);
            $(if kind == <$driver>::NAME {
                return Some(work.run::<$driver>());
            })*
            // In no list: it is the workbench's measure of itself.
            (kind == NULL).then(|| work.run::<Null>())
        }
    };
}

/// As [`with_driver`], for changes: of our engine that is built once by new files in the place of old ones.
pub(crate) fn with_changed<W: ForDriver>(name: &str, work: W) -> Option<W::Output> {
    match name == <Replaced as Driver>::NAME {
        true => Some(work.run::<Replaced>()),
        false => with_driver(name, work),
    }
}

/// The drivers of servers.
const SERVERS: [&str; 2] = [<Resp as Driver>::NAME, <UpscaledbServer as Driver>::NAME];

/// The driver's name in a store's name: what stands before the address of a server.
fn kind_of(name: &str) -> &str {
    server_of(name).map_or(name, |(kind, _)| kind)
}

/// The driver's name and the address in the name of a server.
fn server_of(name: &str) -> Option<(&str, &str)> {
    name.split_once(':').filter(|(kind, _)| SERVERS.contains(kind))
}

/// Whether the store is in a server, whether its name says in which or not.
pub(crate) fn is_server(name: &str) -> bool {
    SERVERS.contains(&kind_of(name))
}

/// The address of the server in a store's name; `None` for a store that is none.
pub(crate) fn address_of(name: &str) -> Option<&str> {
    server_of(name).map(|(_, address)| address)
}

/// Refuses the name of a server whose address is none.
pub(crate) fn check_address(name: &str) -> Result<()> {
    match server_of(name) {
        Some((<Resp as Driver>::NAME, address)) => super::resp_address::check(address),
        Some((_, address)) => super::upscaledb_server::check(address),
        None => Ok(()),
    }
}

drivers! {
    constant::Constant,
    hash::Hash,
    btree::BTree,
    cdb::Cdb,
    mcdb::Mcdb,
    tokyocabinet_hash::TokyoCabinetHash,
    bdb_hash::BdbHash,
    mdbm::Mdbm,
    tdb::Tdb,
    ntdb::Ntdb,
    tdb2::Tdb2,
    lmdb::Lmdb,
    mdbx::Mdbx,
    bdb_btree::BdbBtree,
    tokyocabinet_btree::TokyoCabinetBtree,
    tkrzw_tree::TkrzwTree,
    redb::Redb,
    upscaledb::Upscaledb,
    sqlite::Sqlite,
    leveldb::Leveldb,
    rocksdb::Rocksdb,
    kyotocabinet::KyotoCabinet,
    tkrzw_hash::TkrzwHash,
    gdbm::Gdbm,
    sparkey::Sparkey,
    Resp,
    UpscaledbServer,
}
