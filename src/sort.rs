//! Sorting what is sorted but for neighbours, as what was counted into as many ranges as there are items.

/// Sorts items that are nearly sorted by `key`, stably. Numbers that somebody made to crowd together are
/// not nearly sorted: for them it goes over to a sort that takes the same time for any input.
#[inline]
pub(crate) fn sort_nearly_sorted<T: Copy>(items: &mut [T], key: impl Fn(&T) -> u64) {
    let mut moves_left = 8 * items.len();
    for i in 1..items.len() {
        let mut at = i;
        while at > 0
            && let [.., before, here] = &mut items[..=at]
            && key(before) > key(here)
        {
            if moves_left == 0 {
                // Swapping neighbours has kept the order of equals so far.
                items.sort_by_key(key);
                return;
            }
            std::mem::swap(before, here);
            moves_left -= 1;
            at -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both sorts, on items whose order among equals can be seen.
    #[test]
    fn sorting_is_stable_and_takes_no_square_of_time() {
        let count = 1 << 20;
        let far = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50, i);
        for nearly in [true, false] {
            let mut items: Vec<(u64, u64)> = (0..count).map(far).collect();
            if nearly {
                items.sort_by_key(|(key, _)| key >> 1);
            }
            // With a square of time, this would take an hour.
            sort_nearly_sorted(&mut items, |(key, _)| *key);
            assert!(items.is_sorted(), "nearly sorted: {nearly}");
        }
    }
}
