//! Values that are too long for a page of the tree, and not so long that they fill pages of their own.
//!
//! They share pages of values, each of which belongs to one leaf: all that is in it, the leaf refers
//! to. So a page of values is free when its leaf has nothing in it any more, and a leaf whose pages
//! have too much that is dead in them writes what lives anew, without asking anybody.
//!
//! New values are put behind the last one, also in a page of a commit: nobody who reads that looks
//! there. Where the last one ends stands in the leaf, so that it is taken back with the leaf.

use super::format::{BAD_FAR_SUM, PAGE_BYTES, VALUES, far_sum};
use super::items::Items;
use super::leaf;
use super::page::{Bytes, at, count};
use super::record::{Far, NEAR_VALUE, PACKED_VALUE, Value, ValueToStore};
use super::tree::{Pages, of};
use super::writer::{Writer, damaged, no_page};
use crate::Result;
use crate::bytes::{le32, le64};
use crate::os::atomic::Ordering;
use std::collections::BTreeMap;

/// What a leaf knows of its pages of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pack {
    /// Where the next value goes, if it fits in that page; at the beginning of a page there is none.
    tail: u64,
    /// Bytes that nobody refers to any more, about.
    dead: u32,
}

impl Pack {
    pub(crate) fn of(leaf: &Bytes) -> Pack {
        let (tail, dead) = (le64(leaf, at::TAIL), le32(leaf, at::DEAD));
        Pack { tail: tail.unwrap_or(0), dead: dead.unwrap_or(0) }
    }

    pub(crate) fn write(self, leaf: &mut Bytes) {
        leaf[at::TAIL..at::TAIL + 8].copy_from_slice(&self.tail.to_le_bytes());
        leaf[at::DEAD..at::DEAD + 4].copy_from_slice(&self.dead.to_le_bytes());
    }

    /// That of two leaves that become one.
    pub(crate) fn join(self, other: Pack) -> Pack {
        Pack { tail: self.tail, dead: self.dead.saturating_add(other.dead) }
    }

    fn lose(&mut self, bytes: u32) {
        self.dead = self.dead.saturating_add(bytes);
    }

    /// A page of it is free.
    fn forget(&mut self, page: u64) {
        self.dead = self.dead.saturating_sub(PAGE_BYTES as u32);
        if self.tail / PAGE_BYTES == page {
            self.tail = 0;
        }
    }

    /// One of its pages is another now.
    fn move_page(&mut self, from: u64, to: u64) {
        if self.tail / PAGE_BYTES == from {
            self.tail = to * PAGE_BYTES + self.tail % PAGE_BYTES;
        }
    }

    /// Whether so many bytes that live should be written anew.
    fn is_loose(self, live: u64) -> bool {
        u64::from(self.dead) > 2 * PAGE_BYTES && u64::from(self.dead) * 4 > live
    }
}

impl Writer<'_> {
    /// Writes a value that does not fit in its leaf; `None` if it does.
    pub(crate) fn store_value(&mut self, leaf: u64, value: &[u8]) -> Result<Option<Far>> {
        if value.len() <= NEAR_VALUE {
            return Ok(None);
        }
        if value.len() > PACKED_VALUE {
            return self.write_far(value).map(Some);
        }
        let mut pack = Pack::of(self.page(leaf)?);
        let far = self.pack(&mut pack, value)?;
        pack.write(self.page_mut(leaf)?);
        Ok(Some(far))
    }

    /// Writes a value behind the last one of a leaf.
    pub(crate) fn pack(&mut self, pack: &mut Pack, value: &[u8]) -> Result<Far> {
        let used = pack.tail % PAGE_BYTES;
        if used == 0 || used + value.len() as u64 > PAGE_BYTES || !self.is_values(pack.tail)? {
            pack.tail = self.new_values()? * PAGE_BYTES;
        } else {
            self.scratch.space.note_added(pack.tail / PAGE_BYTES);
        }
        let far = self.write_at(pack.tail, value)?;
        pack.tail += value.len() as u64;
        Ok(far)
    }

    /// Whether an address is in a page of values that is in use: a damaged leaf may say others.
    fn is_values(&self, at: u64) -> Result<bool> {
        let [birth, freed] = self.core.entry(at / PAGE_BYTES)?;
        let is_values = birth.load(Ordering::Relaxed) & VALUES != 0;
        Ok(is_values && freed.load(Ordering::Relaxed) == 0)
    }

    /// Writes a value in the place of another of the same length, if no commit has that.
    pub(crate) fn overwrite(&mut self, old: Far, value: &[u8]) -> Result<Option<Far>> {
        let birth = self.core.entry(old.page())?[0].load(Ordering::Relaxed);
        let is_own = birth & VALUES != 0 && super::format::born(birth) >= self.own.since;
        if old.len as usize == value.len() && is_own {
            return self.write_at(old.at, value).map(Some);
        }
        Ok(None)
    }

    /// Frees a value that a leaf does not refer to any more.
    pub(crate) fn free_value(&mut self, leaf: u64, far: Far) -> Result<()> {
        if !far.is_packed() {
            return self.free_far(far);
        }
        let bytes = self.page(leaf)?;
        let mut pack = Pack::of(bytes);
        pack.lose(far.len);
        let (mut others, mut live) = (0, 0);
        for i in 0..count(bytes) {
            if let Value::Far(other) = of(leaf, leaf::value(bytes, i))?
                && other.is_packed()
            {
                others += u64::from(other.page() == far.page());
                live += u64::from(other.len);
            }
        }
        if others == 0 {
            self.free(far.page())?;
            pack.forget(far.page());
        }
        pack.write(self.page_mut(leaf)?);
        if pack.is_loose(live) { self.repack(leaf) } else { Ok(()) }
    }

    /// Moves a page of values of a leaf to a free one, as it is.
    pub(crate) fn move_values(&mut self, leaf: u64, from: u64) -> Result<()> {
        let to = self.new_values()?;
        let mut bytes = std::mem::take(&mut self.scratch.bytes);
        bytes.clear();
        bytes.extend_from_slice(self.page(from)?);
        let written = self.write_at(to * PAGE_BYTES, &bytes);
        self.scratch.bytes = bytes;
        written?;
        for i in 0..count(self.page(leaf)?) {
            let (_, value) = of(leaf, leaf::elsewhere_of(self.page(leaf)?, i))?;
            if let Some(far) = value.filter(|far| far.is_packed() && far.page() == from) {
                let far = Far { at: to * PAGE_BYTES + far.at % PAGE_BYTES, ..far };
                of(leaf, leaf::replace_same(self.page_mut(leaf)?, i, ValueToStore::Far(far)))?;
            }
        }
        let mut pack = Pack::of(self.page(leaf)?);
        pack.move_page(from, to);
        pack.write(self.page_mut(leaf)?);
        self.free(from)
    }

    /// Writes all values of a leaf anew, one behind the other.
    fn repack(&mut self, leaf: u64) -> Result<()> {
        let mut items = std::mem::take(&mut self.scratch.items);
        items.clear();
        let bytes = self.page(leaf)?;
        let pack = Pack::of(bytes);
        of(leaf, items.take(bytes, &[], None, self))?;
        // A longer prefix saves nothing where keys are elsewhere, and may be too much for the page.
        if !items.fits(0, items.len(), false, 0) {
            self.scratch.items = items;
            return Ok(());
        }
        let packs = self.part_values(&mut items, &[0], pack, false)?;
        let tagged = self.core.header.tagged;
        let bytes = self.page_mut(leaf)?;
        let len = items.len();
        items.write_leaf(0, len, tagged, bytes);
        packs[0].write(bytes);
        self.scratch.items = items;
        Ok(())
    }

    /// Sees to it that no page of values belongs to two of the leaves that a leaf is parted into,
    /// which begin with these items, and that none has much dead in it, or, where that is wanted,
    /// anything. What the leaves then know of their pages.
    pub(crate) fn part_values(
        &mut self,
        items: &mut Items,
        starts: &[usize],
        pack: Pack,
        is_close: bool,
    ) -> Result<Vec<Pack>> {
        let mut packs = vec![Pack::default(); starts.len()];
        let mut live = vec![0; starts.len()];
        let part_of = |i: usize| starts.partition_point(|start| *start <= i).saturating_sub(1);
        // The first leaf that refers to a page keeps it.
        let mut keepers = BTreeMap::new();
        packs[0].dead = pack.dead;
        for i in 0..items.len() {
            let Some(far) = items.packed(i) else { continue };
            let part = part_of(i);
            let keeper = *keepers.entry(far.page()).or_insert(part);
            live[part] += u64::from(far.len);
            if keeper != part {
                packs[keeper].lose(far.len);
            }
        }
        // A page may end with what has no room for the next value; and the leaves are copied as well.
        let pages = 2 * live.iter().sum::<u64>().div_ceil(PAGE_BYTES) + 2 * starts.len() as u64;
        let is_loose = |(pack, live): (&Pack, u64)| is_close || pack.is_loose(live);
        let mut loose: Vec<bool> = packs.iter().zip(live).map(is_loose).collect();
        if !is_close && loose.contains(&true) && !self.scratch.space.can_take(self.core, pages)? {
            loose.fill(false);
        }
        for (part, (own, is_loose)) in packs.iter_mut().zip(&loose).enumerate() {
            if *is_loose {
                *own = Pack::default();
            } else if keepers.get(&(pack.tail / PAGE_BYTES)) == Some(&part) {
                own.tail = pack.tail;
            }
        }
        for i in 0..items.len() {
            let Some(far) = items.packed(i) else { continue };
            let part = part_of(i);
            if loose[part] || keepers.get(&far.page()) != Some(&part) {
                self.move_value(items, i, far, &mut packs[part])?;
            }
        }
        for (page, _) in keepers.into_iter().filter(|(_, keeper)| loose[*keeper]) {
            self.free(page)?;
        }
        Ok(packs)
    }

    fn move_value(&mut self, items: &mut Items, i: usize, far: Far, pack: &mut Pack) -> Result<()> {
        let mut value = std::mem::take(&mut self.scratch.bytes);
        value.clear();
        value.extend_from_slice(self.own.elsewhere(far).ok_or_else(|| no_page(far.page()))?);
        // Lest what damage made of it gets a checksum that fits.
        let is_whole = far_sum(&value) == far.sum;
        let new = self.pack(pack, &value);
        self.scratch.bytes = value;
        if !is_whole {
            return Err(damaged(far.page(), BAD_FAR_SUM));
        }
        items.replace(i, ValueToStore::Far(new?));
        Ok(())
    }
}
