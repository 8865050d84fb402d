//! Embedded key-value stores, each the fastest and safest of its class.
//!
//! This version has the constant engine: an immutable file, built once, published atomically,
//! read by everyone; the hash engine: a store that many processes change; the btree engine: the same
//! with keys in order, tables and transactions; and reads the files of cdb, cdb64 and mcdb in place.
//! [`freeze`], [`thaw`] and [`thaw_btree`] go from one engine to the other.
//!
//! | | begin with |
//! |---|---|
//! | data that are made in one go, and read | [`constant::Builder`] and [`constant::Constant`] |
//! | data that change, by their keys | [`hash::Hash`] |
//! | data that change, in order, or together | [`btree::BTree`] |
//! | a file of whatever kind | [`open`], and what all can do: [`Get`] and [`Scan`] |
//! | what can go wrong | [`Error::kind`], and what it prints: that says what to do |

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little",
    any(target_env = "gnu", target_env = "musl")
)))]
compile_error!("Credenza is for Linux on 64-bit little-endian processors, with glibc or musl");

pub mod btree;
pub mod capability;
pub mod constant;
pub mod foreign;
pub mod hash;
pub mod record;
pub mod stats;

mod btree_builder;
mod btree_load;
mod bytes;
mod convert;
mod durability;
mod error;
mod hash_builder;
mod keyhash;
mod magic;
mod observe;
mod open;
mod os;
mod sort;
mod store_files;
mod store_stats;

pub use btree_builder::BTreeBuilder;
pub use btree_load::BTreeLoad;
pub use capability::{Bytes, Get, Record, Scan};
pub use convert::{Freeze, freeze, thaw, thaw_btree};
pub use durability::Durability;
pub use error::{Error, ErrorKind, Result};
pub use hash_builder::HashBuilder;
pub use open::{OpenOptions, Store, is_open, kind_of, open};
#[cfg(credenza_schedules)]
pub use os::atomic::set_steps;
pub use os::publish::Staged;
pub use os::{Access, Advice, Residency};
pub use store_stats::StoreStats;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
