//! In which order a table takes records, and sorting them so.
//!
//! What is sorted is a list of 16 bytes a record: eight bytes of its key as a number, and where it
//! is. Where these are equal the next eight are taken, as often as it needs: so keys that begin with
//! the same long name are not compared from their beginning again and again, and a key is looked at
//! once for eight of its bytes instead of once for every comparison.

use super::batch::Batch;
use std::cmp::Ordering;
use std::rc::Rc;

/// Which of two records comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// That with the lower key; of a key the last record counts.
    Keys,
    /// That with the lower key; of a key the one that came first.
    Arrival,
    /// That with the lower key; of a key that with the lower value, each of which counts once.
    Pairs,
}

impl Order {
    /// How the places of two records are to each other.
    pub(super) fn places(self, a: (&[u8], &[u8]), b: (&[u8], &[u8])) -> Ordering {
        let values = || if self == Order::Pairs { a.1.cmp(b.1) } else { Ordering::Equal };
        a.0.cmp(b.0).then_with(values)
    }

    /// Whether only one of two records counts.
    pub(super) fn is_one(self, a: (&[u8], &[u8]), b: (&[u8], &[u8])) -> bool {
        match self {
            Order::Keys => a.0 == b.0,
            Order::Arrival => false,
            Order::Pairs => a == b,
        }
    }

    /// Whether a record that came after another also belongs there, and both count.
    pub(super) fn is_next(self, last: (&[u8], &[u8]), next: (&[u8], &[u8])) -> bool {
        match self.places(last, next) {
            Ordering::Less => true,
            Ordering::Equal => self == Order::Arrival,
            Ordering::Greater => false,
        }
    }
}

/// A record that is being sorted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Eight bytes of its key, the first the highest; zeros where it has none.
    digits: u64,
    batch: u32,
    at: u32,
}

const DIGITS: usize = 8;
/// So few records with the same digits are compared as they are.
const FEW: usize = 8;

fn digits(key: &[u8]) -> u64 {
    match key.first_chunk::<DIGITS>() {
        Some(first) => u64::from_le_bytes(*first).swap_bytes(),
        None => {
            let mut first = [0; DIGITS];
            first[..key.len()].copy_from_slice(key);
            u64::from_le_bytes(first).swap_bytes()
        }
    }
}

impl Entry {
    /// That of the record at `at` of a batch, which begins in its first 256 KiB.
    pub(super) fn new(batches: &[Rc<Batch>], batch: usize, at: usize) -> Entry {
        let digits = digits(batches[batch].get(at).0);
        Entry { digits, batch: batch as u32, at: at as u32 }
    }

    /// Which batch it is in, and where in it.
    pub(super) fn place(self) -> (usize, usize) {
        (self.batch as usize, self.at as usize)
    }

    fn key(self, batches: &[Rc<Batch>]) -> &[u8] {
        self.record(batches).0
    }

    pub(super) fn record(self, batches: &[Rc<Batch>]) -> (&[u8], &[u8]) {
        batches[self.batch as usize].get(self.at as usize)
    }
}

/// Sorts them; those of which only one counts stay as they came.
pub(super) fn sort(entries: &mut [Entry], batches: &[Rc<Batch>], order: Order) {
    // What is to be sorted by digits that are behind so many bytes. A list, as keys of 64 KiB that
    // differ at their ends would need as many calls within calls.
    let mut parts = vec![(0..entries.len(), 0)];
    while let Some((range, depth)) = parts.pop() {
        let part = &mut entries[range.clone()];
        part.sort_unstable_by_key(|entry| entry.digits);
        let (mut from, behind) = (range.start, depth + DIGITS);
        for group in part.chunk_by_mut(|a, b| a.digits == b.digits) {
            let to = from + group.len();
            if group.len() > FEW {
                let ended = part_ended(group, batches, behind);
                sort_whole(&mut group[..ended], batches, order, depth);
                for entry in &mut group[ended..] {
                    entry.digits = digits(&entry.key(batches)[behind..]);
                }
                parts.push((from + ended..to, behind));
            } else if group.len() > 1 {
                sort_whole(group, batches, order, depth);
            }
            from = to;
        }
    }
}

/// Brings those whose keys have no bytes behind so many before the others, below which they all are;
/// how many there are.
fn part_ended(group: &mut [Entry], batches: &[Rc<Batch>], behind: usize) -> usize {
    let mut ended = 0;
    for i in 0..group.len() {
        if group[i].key(batches).len() <= behind {
            group.swap(i, ended);
            ended += 1;
        }
    }
    ended
}

/// Sorts by comparing keys, which are the same up to `depth`, and whatever else counts.
fn sort_whole(group: &mut [Entry], batches: &[Rc<Batch>], order: Order, depth: usize) {
    let rest = |entry: &Entry| {
        let (key, value) = entry.record(batches);
        (key.get(depth..).unwrap_or(&[]), value)
    };
    group.sort_unstable_by(|a, b| {
        order.places(rest(a), rest(b)).then_with(|| a.place().cmp(&b.place()))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rng(u64);

    impl Rng {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % n
        }
    }

    /// Keys with long beginnings in common, that end in zeros, that begin others, that come again.
    fn key(rng: &mut Rng) -> Vec<u8> {
        let same = [0, 3, 8, 20, 64][rng.below(5) as usize];
        let mut key = vec![b'k'; same];
        let len = rng.below(20);
        key.extend((0..len).map(|_| [0, 0, b'a', 0xff][rng.below(4) as usize]));
        key
    }

    #[test]
    fn records_are_sorted_as_a_stable_sort_does() {
        for (seed, order) in [(1, Order::Keys), (2, Order::Arrival), (3, Order::Pairs)] {
            let mut rng = Rng(seed);
            let mut batches = Vec::new();
            for _ in 0..7 {
                let mut batch = Batch::default();
                for _ in 0..700 {
                    batch.push(&key(&mut rng), &[rng.below(3) as u8]).unwrap();
                }
                batches.push(Rc::new(batch));
            }
            let all = |i: usize| batches[i].starts(0).map(move |at| (i, at));
            let places: Vec<_> = (0..batches.len()).flat_map(all).collect();
            let mut entries: Vec<_> =
                places.iter().map(|(i, at)| Entry::new(&batches, *i, *at)).collect();
            sort(&mut entries, &batches, order);
            let mut wanted = places;
            wanted.sort_by(|a, b| order.places(batches[a.0].get(a.1), batches[b.0].get(b.1)));
            let found: Vec<_> = entries.iter().map(|entry| entry.place()).collect();
            assert!(found == wanted, "{order:?}");
        }
    }

    #[test]
    fn very_long_keys_are_no_matter_of_the_stack() {
        let mut batch = Batch::default();
        for i in 0..20_u8 {
            let mut key = vec![b'x'; 60_000];
            key.push(19 - i);
            batch.push(&key, b"").unwrap();
        }
        let batches = [Rc::new(batch)];
        let starts: Vec<_> = batches[0].starts(0).collect();
        let mut entries: Vec<_> = starts.iter().map(|at| Entry::new(&batches, 0, *at)).collect();
        sort(&mut entries, &batches, Order::Keys);
        assert!(entries.iter().map(|entry| entry.place().1).eq(starts.into_iter().rev()));
    }
}
