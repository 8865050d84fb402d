//! A key that is looked for, and what the search needs of it in every page.
//!
//! On the way down a key meets a prefix and a head in each page. Both are compared as numbers, which
//! are taken from the key once.

use super::format::PAGE;
use super::page::{Bytes, at, head_of, prefix, short};
use crate::bytes::le64;

/// A key that is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'k> {
    pub key: &'k [u8],
    /// Its first eight bytes as they lie; zeros behind a shorter one.
    start: u64,
    /// Its last eight bytes as a number in the order of keys; zeros before a shorter one.
    end: u64,
}

/// How a key without the page's prefix is to all keys of the page; or what is wrong with the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Before,
    Behind,
    Damaged,
}

impl<'k> Probe<'k> {
    #[inline(always)]
    pub(crate) fn new(key: &'k [u8]) -> Probe<'k> {
        match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
            (Some(first), Some(last)) => {
                let (start, end) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
                Probe { key, start, end: end.swap_bytes() }
            }
            _ => Probe::of_short(key),
        }
    }

    fn of_short(key: &'k [u8]) -> Probe<'k> {
        let byte = |i: usize| u64::from(key[i]);
        let start = (0..key.len()).fold(0, |start, i| start | byte(i) << (8 * i));
        let end = (0..key.len()).fold(0, |end, i| end << 8 | byte(i));
        Probe { key, start, end }
    }

    /// How many bytes of it are the page's prefix; or, if it does not begin so, where it is of all
    /// keys of the page.
    #[inline(always)]
    pub(crate) fn cut(&self, bytes: &Bytes) -> Result<usize, Cut> {
        let len = short(bytes, at::PREFIX);
        // A short prefix is compared as a number: it ends with the page.
        if len < 8 && len <= self.key.len() {
            let unused = 63 - 8 * len as u32;
            let prefix = le64(bytes, PAGE - 8).unwrap_or(0);
            // By 64 bits, where there is no prefix: in two steps.
            if ((self.start << unused << 1) ^ prefix) >> unused >> 1 == 0 {
                return Ok(len);
            }
            // And so is which of both is first: a key that no page has is often outside of all.
            let ordered = |number: u64| number.swap_bytes() << unused << 1;
            let start = self.start.swap_bytes() >> unused >> 1 << unused << 1;
            return Err(if start < ordered(prefix) { Cut::Before } else { Cut::Behind });
        }
        self.cut_any(bytes)
    }

    #[inline(never)]
    fn cut_any(&self, bytes: &Bytes) -> Result<usize, Cut> {
        let prefix = prefix(bytes).map_err(|_| Cut::Damaged)?;
        match self.key.starts_with(prefix) {
            true => Ok(prefix.len()),
            // Not equal: shorter, or another.
            false if self.key < prefix => Err(Cut::Before),
            false => Err(Cut::Behind),
        }
    }

    /// The head of what is left of it behind so many bytes.
    #[inline(always)]
    pub(crate) fn head(&self, cut: usize) -> u32 {
        let rest = self.key.len().wrapping_sub(cut);
        // The head is in the last eight bytes: no branch for rests that are shorter than a head.
        if rest.wrapping_sub(1) < 8 {
            return (self.end << (64 - 8 * rest as u32) >> 32) as u32;
        }
        head_of(self.rest(cut))
    }

    /// What is left of it behind so many bytes.
    #[inline(always)]
    pub(crate) fn rest(&self, cut: usize) -> &'k [u8] {
        self.key.get(cut..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::set_short;
    use super::*;

    #[test]
    fn heads_are_those_of_what_is_left() {
        let long = b"\xffbcdefghijklmnopqrstuvwxyz";
        for len in 0..=long.len() {
            let key = &long[..len];
            for cut in 0..=len {
                let probe = Probe::new(key);
                assert_eq!(probe.head(cut), head_of(&key[cut..]), "{key:?} {cut}");
                assert_eq!(probe.rest(cut), &key[cut..]);
            }
        }
    }

    #[test]
    fn a_key_without_the_prefix_is_before_or_after_all_others() {
        for prefix in [&b""[..], b"ab", b"abcdefg", b"abcdefgh", b"abcdefghijkl"] {
            let mut page = [0xee; PAGE];
            set_short(&mut page, at::PREFIX, prefix.len());
            page[PAGE - prefix.len()..].copy_from_slice(prefix);
            let cut = |key: &[u8]| Probe::new(key).cut(&page);
            for tail in [&b""[..], b"x", b"12345678", b"a longer one than that"] {
                let key = [prefix, tail].concat();
                assert_eq!(cut(&key), Ok(prefix.len()));
                if let Some(last) = prefix.len().checked_sub(1) {
                    assert_eq!(cut(&key[..last]), Err(Cut::Before));
                    for (change, where_) in [(1, Cut::Behind), (-1, Cut::Before)] {
                        let mut other = key.clone();
                        other[last] = other[last].wrapping_add_signed(change);
                        assert_eq!(cut(&other), Err(where_));
                    }
                }
            }
        }
        let mut page = [0xee; PAGE];
        set_short(&mut page, at::PREFIX, 2);
        page[PAGE - 2..].copy_from_slice(b"bm");
        for (key, is) in
            [(&b"cA"[..], Cut::Behind), (b"az", Cut::Before), (b"cz12345678", Cut::Behind)]
        {
            assert_eq!(Probe::new(key).cut(&page), Err(is));
        }
        let mut page = [0; PAGE];
        set_short(&mut page, at::PREFIX, PAGE + 1);
        assert_eq!(Probe::new(b"key").cut(&page), Err(Cut::Damaged));
    }
}
