//! What a compaction moves of leaves and inner pages that is elsewhere: pages of values, and long values and keys.
//!
//! Long ones need places in a row. Each size is looked for by itself, from where one was found last in this
//! pass; what finds none stays where it is.

use super::compact::{Pass, Way};
use super::format::{PAGE_BYTES, VALUES};
use super::heap;
use super::leaf;
use super::page::count;
use super::record::{Far, ValueToStore};
use super::tree::{Pages, of};
use super::writer::{Writer, no_page};
use crate::Result;
use std::collections::BTreeSet;

/// Bytes of a long value that are copied at a time.
const PIECE: u64 = 1 << 20;

/// Something of a leaf that is elsewhere and is to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moved {
    /// A page of values.
    Values(u64),
    /// The key, or the value, of this record.
    Key(usize),
    Value(usize),
}

impl Writer<'_> {
    /// What a leaf has elsewhere that is to be moved.
    pub(super) fn to_move(&self, page: u64, pass: &mut Pass) -> Result<BTreeSet<Moved>> {
        let bytes = self.page_on(page, 0)?;
        let mut moved = BTreeSet::new();
        if leaf::is_all_near(bytes) {
            return Ok(moved);
        }
        for i in 0..count(bytes) {
            let (key, value) = of(page, leaf::elsewhere_of(bytes, i))?;
            if let Some(far) = key
                && self.is_far_to_move(far, pass)?
            {
                moved.insert(Moved::Key(i));
            }
            match value {
                Some(far) if far.is_packed() => {
                    let page = Some(far.page()).filter(|page| pass.is_to_move(*page));
                    moved.extend(page.map(Moved::Values));
                }
                Some(far) if self.is_far_to_move(far, pass)? => {
                    moved.insert(Moved::Value(i));
                }
                _ => {}
            }
        }
        Ok(moved)
    }

    /// Moves something that a leaf has elsewhere; how many pages that are.
    pub(super) fn move_part(&mut self, leaf: u64, moved: Moved, pass: &mut Pass) -> Result<u64> {
        let (Moved::Key(i) | Moved::Value(i)) = moved else {
            let Moved::Values(page) = moved else { return Ok(0) };
            self.move_values(leaf, page)?;
            pass.note_moved(1);
            return Ok(1);
        };
        let (key, value) = of(leaf, leaf::elsewhere_of(self.page(leaf)?, i))?;
        let is_key = moved == Moved::Key(i);
        let Some(far) = (if is_key { key } else { value }) else { return Ok(0) };
        let Some(far) = self.move_far(far, pass)? else { return Ok(0) };
        let bytes = self.page_mut(leaf)?;
        if is_key {
            of(leaf, heap::move_key(bytes, i, far))?;
        } else {
            of(leaf, leaf::replace_same(bytes, i, ValueToStore::Far(far)))?;
        }
        Ok(pages_of(far))
    }

    /// Whether pages of a long value or key are to be moved, and there is a place for them.
    pub(super) fn is_far_to_move(&self, far: Far, pass: &mut Pass) -> Result<bool> {
        let pages = pages_of(far);
        if pages == 0 || !pass.is_run_to_move(far.page(), pages) {
            return Ok(false);
        }
        match pass.way {
            Way::Down(end) if pages > 1 => Ok(self.find_run(pages, end, pass)?.is_some()),
            _ => Ok(true),
        }
    }

    /// Places in a row before the boundary.
    fn find_run(&self, pages: u64, end: u64, pass: &mut Pass) -> Result<Option<u64>> {
        let scan = pass.run_scan(pages);
        let found = self.scratch.space.run_within(self.core, scan, end, pages)?;
        pass.set_run_scan(pages, found.unwrap_or(end));
        Ok(found)
    }

    /// Moves a long value or key; where it is then. `None` if there is no place.
    pub(super) fn move_far(&mut self, far: Far, pass: &mut Pass) -> Result<Option<Far>> {
        let pages = pages_of(far);
        let stamp = self.stamp | VALUES;
        let to = match pass.way {
            _ if pages == 1 => self.new_values()?,
            Way::Down(end) => {
                let Some(to) = self.find_run(pages, end, pass)? else { return Ok(None) };
                self.scratch.space.enter_run(self.core, to, pages, stamp)?;
                to
            }
            Way::Up(_) => {
                let to = self.scratch.space.run_behind(self.core, pages)?;
                self.scratch.space.enter_run(self.core, to, pages, stamp)?;
                to
            }
        };
        let mut bytes = std::mem::take(&mut self.scratch.bytes);
        let new = Far { at: to * PAGE_BYTES, ..far };
        for from in (0..u64::from(far.len)).step_by(PIECE as usize) {
            let len = PIECE.min(u64::from(far.len) - from) as u32;
            let piece = Far { at: far.at.saturating_add(from), len, sum: 0 };
            bytes.clear();
            bytes.extend_from_slice(self.own.elsewhere(piece).ok_or_else(|| no_page(far.page()))?);
            if !self.own.write(new.at + from, &bytes) {
                return Err(no_page(to));
            }
        }
        self.scratch.bytes = bytes;
        self.free_far(far)?;
        pass.note_moved(pages);
        Ok(Some(new))
    }
}

fn pages_of(far: Far) -> u64 {
    u64::from(far.len).div_ceil(PAGE_BYTES)
}
