//! A value that is read under a lease: piece by piece, by a reader who may be slow, and for whom space is
//! kept no longer than that.
//!
//! Nothing of the map is borrowed, since nobody could take that back, and the file may be cut under it: each
//! piece is copied by a call of the kernel, and counts if the pin was still there afterwards. Nor does an
//! error count if it was not.

use super::core::Core;
use super::handle::Hash;
use super::pins::LeasedPin;
use super::reader::Found;
use crate::os::file::{buffer, read_exact_at};
use crate::os::process::forks;
use crate::os::shared::SharedMap;
use crate::{Error, Result};
use std::time::Duration;

/// A value that is read under a lease, from [`Hash::get_for`].
#[derive(Debug)]
pub struct LeasedValue<'s> {
    store: &'s Hash,
    inner: Inner<'s>,
    /// What [`forks`] is in the process that has the lease.
    forks: u32,
}

#[derive(Debug)]
enum Inner<'s> {
    Pinned {
        data: &'s SharedMap,
        pin: LeasedPin<'s>,
        at: u64,
        len: u64,
    },
    /// Where there can be no pin: it keeps no space, and never expires.
    Copied(Vec<u8>),
}

impl Core {
    /// The value of `key` under a lease.
    pub(super) fn get_for<'s>(
        &'s self,
        store: &'s Hash,
        key: &[u8],
        lease: Duration,
    ) -> Result<Option<LeasedValue<'s>>> {
        let found = self.find_pinned(key)?;
        Ok(found.map(|found| {
            let inner = match found {
                Found::Pinned { pin, at, len } => {
                    let pin = LeasedPin::new(pin, lease);
                    Inner::Pinned { data: &self.data, pin, at, len }
                }
                Found::Copied(value) => Inner::Copied(value),
            };
            LeasedValue { store, inner, forks: forks() }
        }))
    }
}

impl LeasedValue<'_> {
    /// Bytes of the value.
    pub fn len(&self) -> u64 {
        match &self.inner {
            Inner::Pinned { len, .. } => *len,
            Inner::Copied(value) => value.len() as u64,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies what the value has from `offset` on, as far as there is room for it in `buf`; how many
    /// bytes that were: 0 at its end.
    ///
    /// # Errors
    /// [`ErrorKind::Expired`](crate::ErrorKind::Expired): the lease is over, and the space was needed, or it is that of the
    /// process that this one was forked from; or the file cannot be read.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let offset = offset.min(self.len());
        let count = buf.len().min(usize::try_from(self.len() - offset).unwrap_or(usize::MAX));
        let buf = &mut buf[..count];
        match &self.inner {
            Inner::Copied(value) => buf.copy_from_slice(&value[offset as usize..][..count]),
            Inner::Pinned { data, pin, at, .. } => {
                let done = read_exact_at(data.file(), buf, at + offset);
                #[cfg(test)]
                crate::os::lease::hooks::between();
                if !pin.is_held() {
                    return Err(self.expired(pin));
                }
                done.map_err(|e| self.store.named(e))?;
            }
        }
        Ok(count)
    }

    /// The whole value.
    ///
    /// # Errors
    /// As [`LeasedValue::read_at`]; or memory is short.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut value = buffer(usize::try_from(self.len()).unwrap_or(usize::MAX))?;
        self.read_at(&mut value, 0)?;
        Ok(value)
    }

    /// Has the lease end so long from now.
    ///
    /// # Errors
    /// [`ErrorKind::Expired`](crate::ErrorKind::Expired): it was over, and the space was needed.
    pub fn renew(&self, lease: Duration) -> Result<()> {
        match &self.inner {
            Inner::Pinned { pin, .. } if !pin.renew(lease) => Err(self.expired(pin)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn expired(&self, pin: &LeasedPin<'_>) -> Error {
        self.store.named(Error::expired(pin.lease(), self.forks != forks()))
    }
}
