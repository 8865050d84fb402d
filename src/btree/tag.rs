//! Four bits of each key in a leaf with a heap, which tell most keys apart without a look at them.
//!
//! Where many keys of a leaf have one head, as paths do, a search by halves compares the one that is
//! looked for with four or five of them, each in a line of memory of its own, and what each says cannot be
//! foreseen. A record is in its page at a number below 4,096, of which twelve bits say all: the other four
//! of those two bytes are the *tag* of its key. One key of sixteen has the tag of another; so what is looked
//! for is mostly compared with itself alone, and what is not there with nothing. That says whether a
//! key is there, and not where it would be: changes search by halves.
//!
//! Lookups among 200,000 paths take an eighth less time, also of keys that are not there, and in batches
//! a tenth. Whose leaves have tags says the header of the store, and each such leaf.
//!
//! *Tried and dropped*: a sum of the last four words times odd numbers for a hash, which takes 3 ns less a
//! record of a bulk load and nothing less in lookups; names that end alike for 32 bytes have one tag then. To look for the tag first when a value is put in the place of another, where the
//! leaf is copied whatever comes of it. It took as long.

use super::page::{Bytes, TAGGED, at, set_short, short};
use super::view::with_tag_in_window;
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, rapidhash_v3_inline};

/// The bits that say where a record is.
const PLACE: usize = 0x0fff;
/// The first bit of the tag.
const SHIFT: u32 = 12;
/// So many places are looked at at once.
pub(crate) const WINDOW: usize = 16;

/// Whether the leaves of a store, or one of them, have tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tagged(pub bool);

impl Tagged {
    /// Whether this leaf, which has a heap, has them.
    #[inline(always)]
    pub(super) fn of(bytes: &Bytes) -> Tagged {
        Tagged(short(bytes, at::FLAGS) & usize::from(TAGGED) != 0)
    }

    /// Says so in a leaf that is begun.
    pub(super) fn write(self, bytes: &mut Bytes) {
        set_short(bytes, at::FLAGS, if self.0 { usize::from(TAGGED) } else { 0 });
    }

    /// The tag of a key, as it stands beside a place: none if there are none.
    #[inline(always)]
    pub(super) fn of_key(self, key: &[u8]) -> usize {
        if self.0 { of_key(key) } else { 0 }
    }
}

/// Where a record is, of what stands there in its leaf.
#[inline(always)]
pub(super) fn place(number: usize) -> usize {
    number & PLACE
}

/// The tag that stands beside a place.
#[inline(always)]
pub(super) fn beside(number: usize) -> usize {
    number & !PLACE
}

/// The tag of a key, as it stands beside a place: the highest four bits of its hash, as those of a number of
/// 16 bits.
#[inline(always)]
pub(super) fn of_key(key: &[u8]) -> usize {
    let hash = rapidhash_v3_inline::<true, true, false>(key, &DEFAULT_RAPID_SECRETS);
    (hash >> 60 << SHIFT) as usize
}

/// Which of `len` places, from offset `at` on in a leaf, have this tag beside them, as bits; of the
/// first window of them.
#[inline(always)]
pub(super) fn with_tag(bytes: &Bytes, at: usize, len: usize, tag: usize) -> u32 {
    let behind = bytes.get(at..).unwrap_or_default();
    let found = match behind.first_chunk() {
        Some(window) => with_tag_in_window(window, tag as u16),
        None => {
            let mut window = [0; 2 * WINDOW];
            window[..behind.len()].copy_from_slice(behind);
            with_tag_in_window(&window, tag as u16)
        }
    };
    // What stands behind them is something else.
    found & if len < WINDOW { (1 << len) - 1 } else { u32::MAX }
}

#[cfg(test)]
mod tests {
    use super::super::format::PAGE;
    use super::super::random::Rng;
    use super::*;

    #[test]
    fn tags_are_found_where_they_stand() {
        for seed in 0..200 {
            let mut random = Rng::new(seed);
            let mut bytes = [0; PAGE];
            bytes.fill_with(|| random.below(256) as u8);
            for at in [0, 48, 301, PAGE - 40, PAGE - 32, PAGE - 31, PAGE - 6, PAGE - 1, PAGE, 9999]
            {
                let len = random.below(20) as usize;
                let tag = beside(random.below(1 << 16) as usize);
                let is_there = |i: &usize| {
                    let place = bytes.get(at + 2 * i..at + 2 * i + 2);
                    place.is_some_and(|p| beside(usize::from(p[0]) | usize::from(p[1]) << 8) == tag)
                };
                let wanted: u32 = (0..len.min(WINDOW)).filter(is_there).map(|i| 1 << i).sum();
                let room = PAGE.saturating_sub(at) / 2;
                let found = with_tag(&bytes, at, len, tag);
                let mask = if room < WINDOW { (1 << room) - 1 } else { u32::MAX };
                assert_eq!(found & mask, wanted, "seed {seed}, {len} from {at} on");
            }
        }
    }

    #[test]
    fn tags_tell_names_apart() {
        let shapes: [fn(u32) -> String; 6] = [
            |n| format!("/usr/share/doc/package-{n}/copyright"),
            |n| format!("/usr/lib/python3/dist-packages/module/{n:05}.py"),
            |n| format!("/home/u/{n}/node_modules/package/dist/index.js.map"),
            |n| format!("user{n}"),
            |n| format!("{n}"),
            |n| "x".repeat(n as usize % 200),
        ];
        for shape in shapes {
            let mut counts = [0; 16];
            for n in 1000..1200 {
                counts[of_key(shape(n).as_bytes()) >> SHIFT] += 1;
            }
            // 12.5 of each in the mean.
            assert!(counts.iter().all(|count| *count < 40), "{} {counts:?}", shape(1000));
        }
    }
}
