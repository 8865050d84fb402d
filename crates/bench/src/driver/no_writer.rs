//! The writer of stores that are built once: there is none.

use super::{Store, Writer};
use credenza::Result;

/// Has no values, so that no code of it can ever run.
pub(crate) enum NoWriter {}

impl Store for NoWriter {
    fn get(&mut self, _: &[u8], _: impl FnMut(&[u8])) -> Result<bool> {
        match *self {}
    }

    fn scan(&mut self, _: impl FnMut(&[u8], &[u8])) -> Result<()> {
        match *self {}
    }
}

impl Writer for NoWriter {
    const IS_POSSIBLE: bool = false;

    fn insert(&mut self, _: &[u8], _: &[u8]) -> Result<()> {
        match *self {}
    }

    fn remove(&mut self, _: &[u8]) -> Result<bool> {
        match *self {}
    }

    fn close(self) -> Result<()> {
        match self {}
    }
}
