//! The only folder that talks to the kernel, and so the only shared one that may say `unsafe`.
//!
//! Reading order: [`file`] (opening and positioned reads), [`map`] (memory maps and what the kernel is told about
//! them) with [`file_map`] (where they are) and [`huge`] (their pages), [`holes`] (files that a map is not safe for as
//! they are), [`memory`] (how much this process may have), [`source`] (one reading interface over both), [`publish`]
//! (how a new file takes the place of an old one) with [`access`] (and what it takes over of it), [`aside`] (and what
//! it does not take the place of) and [`place`] (where that is, whatever its folder is called meanwhile).
//!
//! Then what stores that change need: [`shared`] (maps that grow, of many processes) with [`addresses`] (where they
//! are) and [`room`] (how many each takes), [`ballast`] (room for changes where each takes some), [`lock`] (which a
//! killed holder cannot leave locked) with [`patience`] (for how long it is waited for), [`opening`] (who has a store
//! open), [`session`] (whose locks they are), [`lease`] (how long readers hold something), [`turns`] (who waits for the
//! disk), [`process`] (who lives), [`own_lock`] and [`own_opening`] (locks that a forked process neither waits for nor
//! keeps), [`newest`] (values that are replaced while others read them), [`atomic`] (words that are shared).
//!
//! For statistics: [`area`] (words that many count in) and [`tsc`] (the processor's clock).

pub(crate) mod access;
mod addresses;
pub(crate) mod area;
pub(crate) mod aside;
pub mod atomic;
mod ballast;
pub(crate) mod bits;
pub(crate) mod file;
mod file_map;
pub(crate) mod holes;
pub(crate) mod huge;
pub(crate) mod lease;
pub(crate) mod lock;
pub(crate) mod map;
pub(crate) mod memory;
pub(crate) mod newest;
pub(crate) mod opening;
pub(crate) mod own_lock;
mod own_opening;
mod patience;
pub(crate) mod place;
pub(crate) mod process;
pub mod publish;
mod room;
pub(crate) mod session;
pub(crate) mod shared;
pub(crate) mod source;
pub(crate) mod tsc;
pub(crate) mod turns;

pub use map::{Access, Advice, Residency};
