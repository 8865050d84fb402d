//! A part of the data that is like the whole.
//!
//! What is taken are runs of neighbours in the order of the keys, spread evenly over all of them: so
//! neighbours have as much in common as in the whole, and a page of a tree holds as many of them.

use super::ranges::in_order;
use super::records::Records;
use credenza::Result;

/// Neighbours of a run at most: some pages of a tree.
const RUN: usize = 1024;
/// Runs at least, if there are so many records.
const RUNS: usize = 16;

impl Records {
    /// The numbers of all records in the order of their keys.
    pub(crate) fn in_order(&self) -> Vec<u32> {
        in_order(self)
    }

    /// One record of so many, in the order in which they are.
    pub(crate) fn part(&self, one_of: usize) -> Result<Records> {
        let mut part = Records::default();
        let is_in_part = are_in_part(&self.in_order(), one_of);
        for ((key, value), _) in self.iter().zip(is_in_part).filter(|(_, is_in_part)| *is_in_part) {
            part.push(key, value)?;
        }
        Ok(part)
    }
}

/// Which items are in the part; `order` has their numbers in the order of their keys.
pub(crate) fn are_in_part(order: &[u32], one_of: usize) -> Vec<bool> {
    let mut are_in_part = vec![false; order.len()];
    let one_of = one_of.max(1);
    let run = (order.len() / one_of / RUNS).clamp(1, RUN);
    for items in order.chunks(run).step_by(one_of) {
        items.iter().for_each(|item| are_in_part[*item as usize] = true);
    }
    are_in_part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_runs_of_neighbours_in_the_order_of_the_input() {
        let mut records = Records::default();
        for i in 0..40_000_u32 {
            let key = i.wrapping_mul(7919) % 40_000;
            records.push(format!("{key:05}").as_bytes(), b"v").unwrap();
        }
        for one_of in [1, 4, 64, 1000] {
            let part = records.part(one_of).unwrap();
            let (count, wanted) = (part.len() as f64, 40_000.0 / one_of as f64);
            assert!((0.9..1.15).contains(&(count / wanted)), "{count} of {wanted}");
            // In the order of the input, which is that of the whole.
            let mut left = records.iter();
            assert!(part.iter().all(|record| left.any(|other| other == record)));
            // Most have their neighbour beside them, as long as runs are not short.
            let mut keys: Vec<u32> =
                part.iter().map(|(k, _)| String::from_utf8_lossy(k).parse().unwrap()).collect();
            keys.sort_unstable();
            let beside = keys.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            assert!(one_of > 64 || beside * 2 > keys.len(), "{one_of}: {beside}");
        }
        assert_eq!(records.part(100_000).unwrap().len(), 1);
        assert!(are_in_part(&[], 7).is_empty());
    }
}
