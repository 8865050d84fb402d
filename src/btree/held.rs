//! The stamps of commits and savepoints that are held.
//!
//! They are in order, so that who asks of a page whether one of them leads to it looks at a few, also
//! where a transaction has many savepoints.

/// Stamps in order; one may be there more than once.
#[derive(Debug, Default)]
pub(crate) struct Held {
    stamps: Vec<u64>,
}

impl Held {
    /// These alone are held.
    #[inline]
    pub(crate) fn begin(&mut self, stamps: impl Iterator<Item = u64>) {
        self.stamps.clear();
        self.stamps.extend(stamps);
        self.stamps.sort_unstable();
    }

    /// These and what is held from a stamp on are held, and no others.
    pub(crate) fn begin_before(&mut self, stamp: u64, stamps: impl Iterator<Item = u64>) {
        self.stamps.retain(|held| *held >= stamp);
        self.stamps.extend(stamps);
        self.stamps.sort_unstable();
    }

    /// This one, too.
    pub(crate) fn hold(&mut self, stamp: u64) {
        // At the end, but where a damaged word says that one is held that is not there yet.
        let place = self.stamps.partition_point(|held| *held <= stamp);
        self.stamps.insert(place, stamp);
    }

    /// Not any more.
    pub(crate) fn release(&mut self, stamp: u64) {
        if let Ok(place) = self.stamps.binary_search(&stamp) {
            self.stamps.remove(place);
        }
    }

    /// How many are held.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.stamps.len()
    }

    /// Whether of those from a stamp on one alone is held.
    #[inline(always)]
    pub(crate) fn is_one_from(&self, from: u64) -> bool {
        match self.stamps[..] {
            [] => false,
            [last] => from <= last,
            [.., before, last] => before < from && from <= last,
        }
    }

    /// Whether one is held from a stamp to before another.
    #[inline(always)]
    pub(crate) fn is_any(&self, from: u64, to: u64) -> bool {
        let first = self.stamps.partition_point(|held| *held < from);
        self.stamps.get(first).is_some_and(|held| *held < to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Savepoints are given up in any order: what is held is found as if all were asked.
    #[test]
    fn what_is_held_is_found_whatever_was_released() {
        let mut held = Held::default();
        held.begin([40, 3, 7, 3].into_iter());
        let hold = |stamp| (true, stamp);
        let release = |stamp| (false, stamp);
        let first = [hold(41), hold(12), release(3), hold(50), release(7)];
        for (is_held, stamp) in first.into_iter().chain([release(6), hold(42), release(40)]) {
            match is_held {
                true => held.hold(stamp),
                false => held.release(stamp),
            }
            for (from, to) in (1..55).flat_map(|from| (1..55).map(move |to| (from, to))) {
                let is_any = held.stamps.iter().any(|stamp| (from..to).contains(stamp));
                assert_eq!(held.is_any(from, to), is_any, "{from} to {to}: {held:?}");
            }
        }
        assert_eq!(held.stamps, [3, 12, 41, 42, 50]);
        held.begin_before(41, [5, 40].into_iter());
        assert_eq!(held.stamps, [5, 40, 41, 42, 50]);
    }
}
