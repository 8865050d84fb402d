//! The only folder that talks to the kernel, and so the only shared one that may say `unsafe`.
//!
//! Reading order: [`file`] (opening and positioned reads), [`map`] (memory maps and what the
//! kernel is told about them), [`source`] (one reading interface over both), [`publish`] (how a new
//! file takes the place of an old one).

pub(crate) mod file;
pub(crate) mod map;
pub mod publish;
pub(crate) mod source;

pub use map::{Access, Advice, Residency};
