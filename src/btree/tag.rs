//! Four bits of each key in a leaf with a heap, which tell most keys apart without a look at them.
//!
//! Where many keys of a leaf have one head, as paths do, a search by halves compares the one that is
//! looked for with four or five of them, each in a line of memory of its own, and what each says cannot be
//! foreseen. A record is in its page at a number below 4,096, of which twelve bits say all: the other four
//! of those two bytes are the *tag* of its key. One key of sixteen has the tag of another; so what is looked
//! for is mostly compared with itself alone, and what is not there with nothing. That says whether a
//! key is there, and not where it would be: changes search by halves.
//!
//! Lookups among 200,000 paths take an eighth less time, in batches a sixth, of keys that are not there
//! a quarter. Whose leaves have tags says the header of the store, and each such leaf.
//!
//! *Tried and dropped*: to look for the tag first when a value is put in the place of another, where the
//! leaf is copied whatever comes of it. It took as long.

use super::page::{Bytes, TAGGED, at, set_short, short};
use super::view::with_tag_in_window;
use crate::bytes::{le32, le64};

/// The bits that say where a record is.
const PLACE: usize = 0x0fff;
/// The first bit of the tag.
const SHIFT: u32 = 12;
/// So many places are looked at at once.
pub(crate) const WINDOW: usize = 16;

/// Whether the leaves of a store, or one of them, have tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// The tag of a key, as it stands beside a place: the highest bits of a sum of words times odd numbers,
/// which depend on all bits of the words.
///
/// Keys that are beside each other differ mostly near their ends, or in their lengths: these say enough, and
/// where they do not a lookup takes longer.
#[inline(always)]
pub(super) fn of_key(key: &[u8]) -> usize {
    const ODD: [u64; 5] = [
        0x9e37_79b9_7f4a_7c15,
        0xc2b2_ae3d_27d4_eb4f,
        0x1656_67b1_9e37_79f9,
        0x8525_7d4f_1b87_3593,
        0xff51_afd7_ed55_8ccd,
    ];
    let long = |at: usize| le64(key, at).unwrap_or(0);
    let half = |at: usize| u64::from(le32(key, at).unwrap_or(0));
    let len = key.len();
    // Words that overlap say all of a short key, whatever its length, without a loop.
    let words = match len {
        16.. => {
            let from = len.max(32) - 32;
            [long(from), long(from + 8), long(len - 16), long(len - 8)]
        }
        8..16 => [long(0), long(len - 8), 0, 0],
        4..8 => [half(0) | half(len - 4) << 32, 0, 0, 0],
        _ => [key.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0, 0, 0],
    };
    let times = words.into_iter().zip(ODD).map(|(word, odd)| word.wrapping_mul(odd));
    let sum = times.fold((len as u64).wrapping_mul(ODD[4]), u64::wrapping_add);
    (sum >> 60 << SHIFT) as usize
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
        let shapes: [fn(u32) -> String; 5] = [
            |n| format!("/usr/share/doc/package-{n}/copyright"),
            |n| format!("/usr/lib/python3/dist-packages/module/{n:05}.py"),
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
