//! Pages of the index: where in a page the slot of a key is, and what a slot says.
//!
//! A page is 8 to 128 cache lines of eight slots. A slot is one word, changed by one store: 23 bits
//! of the key's place (the tag) and the address of its record. A key's slot is in the line that its
//! tag names or, as long as a line's first slot says that there was no room, in one of the next.
//!
//! The *place* of a key is its hash, stretched so that pages of the same depth get shares of the
//! keys that differ up to twofold. Without it all pages would be full, and split, at the same
//! time: the index would be half empty after that, and the blocks that one page gives up would not
//! be what another needs. With it, pages of all sizes exist at any time.

use super::view::match_line;
use crate::os::atomic::{AtomicU64, Ordering};

/// Slots of a line.
pub(crate) const SLOTS: usize = 8;
/// Bytes of a line.
pub(crate) const LINE: u64 = 64;
/// The sizes of pages, in lines.
pub(crate) const SIZES: [u64; 11] = [8, 12, 16, 24, 32, 48, 64, 80, 96, 112, 128];
/// A new entry goes at most so many lines after its own, lest lookups take long: the page grows.
pub(crate) const REACH: u64 = 2;

const TAG_BITS: u32 = 23;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const ADDRESS_BITS: u32 = 40;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;
/// Set in a line's first slot: entries of this line are in the next.
pub(crate) const OVERFLOW: u64 = 1 << 63;
/// How many bits of the tag may have been used up by splits.
const USED_AT_MOST: u32 = 6;

/// Where a key belongs, from its hash: monotone, so that a range of places is a range of hashes.
#[inline(always)]
pub(crate) fn place_of(hash: u64) -> u64 {
    let high = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 64) as u64;
    // x + x (1 - x) / 3: the slope falls from 4/3 to 2/3.
    const THIRD: u64 = u64::MAX / 3;
    hash.wrapping_add(high(high(hash, !hash), THIRD))
}

/// What a directory's entry says about a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The line of the index file before the page's first: the block's header.
    pub block: u64,
    pub lines: u64,
    /// All places in the page begin with the same so many bits.
    pub depth: u32,
    /// The tags of the page are the bits of the place after so many.
    pub base: u32,
}

impl Page {
    #[inline(always)]
    pub(crate) fn decode(entry: u64) -> Page {
        Page {
            block: entry & 0xffff_ffff,
            lines: entry >> 32 & 0xff,
            depth: (entry >> 40 & 0x3f) as u32,
            base: (entry >> 46 & 0x3f) as u32,
        }
    }

    pub(crate) fn encode(self) -> u64 {
        self.block | self.lines << 32 | u64::from(self.depth) << 40 | u64::from(self.base) << 46
    }

    /// The tag of a place in this page.
    #[inline(always)]
    pub(crate) fn tag(self, place: u64) -> u64 {
        (place << self.base) >> (64 - TAG_BITS)
    }

    /// The line, counted in the page, that an entry with this tag belongs to.
    #[inline(always)]
    pub(crate) fn line(self, tag: u64) -> u64 {
        let used = self.depth.wrapping_sub(self.base) & 15;
        (((tag << used) & TAG_MASK) * self.lines) >> TAG_BITS
    }

    /// The line after, counted in the page.
    #[inline(always)]
    pub(crate) fn next_line(self, line: u64) -> u64 {
        if line + 1 < self.lines { line + 1 } else { 0 }
    }

    /// Where a line of the page is in the index file.
    #[inline(always)]
    pub(crate) fn line_at(self, line: u64) -> u64 {
        (self.block + 1 + line) * LINE
    }

    /// Whether a writer could have made a page like this.
    pub(crate) fn is_possible(self) -> bool {
        let used = self.depth.checked_sub(self.base);
        SIZES.contains(&self.lines) && used.is_some_and(|used| used <= USED_AT_MOST)
    }

    /// Which half of the page an entry goes to when it splits; of a page that is possible.
    pub(crate) fn is_upper(self, tag: u64) -> bool {
        tag >> (TAG_BITS - 1 - (self.depth - self.base)) & 1 == 1
    }

    /// Whether as many bits of the tags are the same for the whole page as may be.
    pub(crate) fn is_used_up(self) -> bool {
        self.depth - self.base >= USED_AT_MOST
    }

    /// The base of the halves, and whether it is another than that of this page: then the tags must
    /// be made again from the keys.
    pub(crate) fn base_of_halves(self) -> (u32, bool) {
        let is_used_up = self.is_used_up();
        (if is_used_up { self.depth + 1 } else { self.base }, is_used_up)
    }
}

/// A slot with this tag and address.
#[inline(always)]
pub(crate) fn slot(tag: u64, address: u64) -> u64 {
    (tag << ADDRESS_BITS) | (address / 8)
}

/// The slot when its record is elsewhere: the tag and the mark stay.
#[inline(always)]
pub(crate) fn moved_to(slot: u64, address: u64) -> u64 {
    (slot & !ADDRESS_MASK) | (address / 8)
}

/// The record that a slot refers to; 0 if it is empty.
#[inline(always)]
pub(crate) fn address_of(slot: u64) -> u64 {
    (slot & ADDRESS_MASK) * 8
}

/// The tag in a slot.
#[inline(always)]
pub(crate) fn tag_of(slot: u64) -> u64 {
    slot >> ADDRESS_BITS & TAG_MASK
}

/// The slots of a line whose tag is `tag`: a bit for each. Empty ones may be among them.
#[inline(always)]
pub(crate) fn candidates(line: &[AtomicU64; SLOTS], tag: u64) -> u32 {
    match_line(line, (tag << (ADDRESS_BITS - 32)) as u32, (TAG_MASK << (ADDRESS_BITS - 32)) as u32)
}

/// The slots of a line that may be empty: a bit for each. Such of tag zero may be among them.
#[inline(always)]
pub(crate) fn empty(line: &[AtomicU64; SLOTS]) -> u32 {
    match_line(line, 0, (!OVERFLOW >> 32) as u32)
}

/// Whether entries of this line are in the next.
#[inline(always)]
pub(crate) fn overflows(line: &[AtomicU64; SLOTS]) -> bool {
    line[0].load(Ordering::Acquire) & OVERFLOW != 0
}

/// Lines of the largest page.
pub(crate) const MOST_LINES: usize = SIZES[SIZES.len() - 1] as usize;

/// The lines of a page being filled, not yet where readers look. Each entry of a page is copied
/// some six times before it splits, so this is a good part of what a growing store does. Only lines that are
/// full have the mark.
pub(crate) struct Filling {
    pub page: Page,
    slots: [[u64; SLOTS]; MOST_LINES],
    /// How many slots of each line are in use.
    used: [u8; MOST_LINES],
}

impl Filling {
    /// Of no page yet: all of it is zero, which is made where it stays. It was made elsewhere and copied.
    const EMPTY: Filling = Filling {
        page: Page { block: 0, lines: 0, depth: 0, base: 0 },
        slots: [[0; SLOTS]; MOST_LINES],
        used: [0; MOST_LINES],
    };

    #[inline(always)]
    pub(crate) fn new(page: Page) -> Filling {
        let mut filling = Filling::EMPTY;
        filling.page = page;
        filling
    }

    /// The lines filled.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &[u64; SLOTS]> {
        self.slots.iter().take(self.page.lines as usize)
    }

    /// Adds entries; `false` if the page is full.
    #[inline(always)]
    pub(crate) fn add(&mut self, entries: &[u64]) -> bool {
        // A copy: of its own the compiler cannot tell that it stays as it is.
        let page = self.page;
        entries.iter().all(|entry| {
            let line = page.line(tag_of(*entry)) as usize % MOST_LINES;
            let used = self.used[line];
            if usize::from(used) < SLOTS {
                self.slots[line][usize::from(used)] = *entry;
                self.used[line] = used + 1;
                return true;
            }
            self.add_after(line, *entry)
        })
    }

    #[cold]
    fn add_after(&mut self, full: usize, entry: u64) -> bool {
        let mut line = full;
        for _ in 0..self.page.lines {
            let used = usize::from(self.used[line]);
            if used < SLOTS {
                self.slots[line][used] = entry;
                self.used[line] += 1;
                return true;
            }
            self.slots[line][0] |= OVERFLOW;
            line = self.page.next_line(line as u64) as usize % MOST_LINES;
        }
        false
    }
}

/// The smallest size of a page above `lines` that has room for `entries` and some more.
pub(crate) fn size_for(entries: u64, lines: u64) -> Option<u64> {
    let is_roomy = |size: u64| entries * 100 <= size * SLOTS as u64 * 78;
    SIZES.into_iter().find(|size| *size > lines && is_roomy(*size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_the_order_of_hashes() {
        let mut last = 0;
        for i in 0..=1000u64 {
            let place = place_of(i * (u64::MAX / 1000));
            assert!(place >= last);
            last = place;
        }
        assert_eq!((place_of(0), place_of(u64::MAX)), (0, u64::MAX));
        // Twice as many keys per place at the end as at the beginning.
        let share = |from: u64| place_of(from + (1 << 40)) - place_of(from);
        let ratio = share(0) as f64 / share(u64::MAX - (2 << 40)) as f64;
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn entries_are_found_where_they_were_put() {
        let page = Page { block: 100, lines: 80, depth: 9, base: 5 };
        assert_eq!(Page::decode(page.encode()), page);
        let mut filling = Filling::new(page);
        let mut entries = Vec::new();
        for i in 1..=500u64 {
            let place = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 9;
            let entry = slot(page.tag(place), i * 8);
            assert!(filling.add(&[entry]));
            entries.push(entry);
        }
        for entry in entries {
            assert_eq!(page.is_upper(tag_of(entry)), tag_of(entry) >> 18 & 1 == 1);
            let mut line = page.line(tag_of(entry));
            loop {
                let words = filling.slots[line as usize].map(AtomicU64::new);
                let mask = candidates(&words, tag_of(entry));
                let has = |i: usize| {
                    mask >> i & 1 == 1 && words[i].load(Ordering::Relaxed) & !OVERFLOW == entry
                };
                if (0..SLOTS).any(has) {
                    break;
                }
                assert!(overflows(&words), "lost {entry:x}");
                line = page.next_line(line);
            }
        }
    }

    #[test]
    fn a_page_that_is_full_says_so() {
        let mut filling = Filling::new(Page { block: 0, lines: 8, depth: 0, base: 0 });
        for i in 1..=64 {
            assert!(filling.add(&[slot(3, i * 8)]));
        }
        assert!(!filling.add(&[slot(3, 8)]));
    }
}
