//! The only folder that talks to the kernel, and so the only shared one that may say `unsafe`.
//!
//! Reading order: [`file`] (opening and positioned reads), [`map`] (memory maps and what the
//! kernel is told about them), [`publish`] (how a new file takes the place of an old one).

pub(crate) mod file;
pub(crate) mod map;
pub mod publish;

pub use map::{Access, Advice, Residency};
