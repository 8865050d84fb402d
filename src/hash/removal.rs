//! Removals of long keys: their records name the put that gave the key its value, and not the key.
//!
//! Whoever makes the index again has read that put before, or the segment that it was in was emptied: then so was every
//! one before it, and there is nothing that the removal could take away. So what lies at the place now counts only if it
//! is a put of a key with the same sum; and if it is, by chance or by intent, the removal is of that key.
//!
//! Who saves what is whole of a damaged log goes by the sum where the put cannot be read: one before it may be whole.
//!
//! For 50,000 paths of 95 bytes removed one after the other, by which most of the log becomes garbage, the log grows by a
//! quarter of what keys would take, and cleaning copies half as many records.

use super::core::Core;
use super::page::address_of;
use super::record::{Kind, LONG_KEY, REMOVAL_BYTES, key_sum};
use super::view::{Holds, RecordView, record};
use crate::bytes::le64;

/// What follows a removal's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    /// Where the put is.
    pub at: u64,
    pub key_sum: u64,
}

impl Removal {
    pub(crate) fn encode(self) -> [u8; REMOVAL_BYTES as usize] {
        (u128::from(self.at) | u128::from(self.key_sum) << 64).to_le_bytes()
    }

    /// What a record says if it is one.
    pub(crate) fn decode(found: &RecordView<'_>) -> Option<Removal> {
        let word = |at| le64(found.value, at);
        let is_removal = found.header.kind == Kind::Remove;
        is_removal.then_some(Removal { at: word(0)?, key_sum: word(8)? })
    }
}

impl Core {
    /// The removal of a key whose put a slot leads to, if it is to be written instead of the key.
    #[inline(always)]
    pub(crate) fn removal_of(&self, key: &[u8], slot: u64) -> Option<Removal> {
        let is_worth_it = self.header.has_short_removals && key.len() > LONG_KEY;
        let removal = || Removal { at: address_of(slot), key_sum: key_sum(&self.header, key) };
        is_worth_it.then(removal)
    }

    /// The key that a put, a delete or a removal is of; of a removal `None` if there is nothing that it could take away.
    pub(crate) fn key_of<'h>(
        &'h self,
        held: &'h impl Holds,
        found: &RecordView<'h>,
    ) -> Option<&'h [u8]> {
        let Some(removal) = Removal::decode(found) else { return Some(found.key) };
        let put = record(&self.data, held, removal.at)?;
        let is_it =
            put.header.kind == Kind::Put && key_sum(&self.header, put.key) == removal.key_sum;
        is_it.then_some(put.key)
    }
}
