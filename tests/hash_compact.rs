//! Danger: a hash store that somebody compacted, and whose file stays long.

mod common;

use common::hash::must;
use common::{Rng, rounds, seed};
use credenza::hash::{Hash, Stats};

/// The end of the log must not keep the file as long as it was.
#[test]
fn what_is_emptied_and_compacted_is_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    for turn in 0..12u64 {
        let keys = 100 + 30 * turn;
        for key in 0..keys {
            must(store.insert(&key.to_le_bytes(), &[1; 20_000]));
        }
        if turn % 2 == 0 {
            store.clear().unwrap();
        } else {
            (0..keys).for_each(|key| assert!(store.remove(&key.to_le_bytes()).unwrap()));
            while store.compact(1 << 20).unwrap() {}
        }
        let len = std::fs::metadata(&path).unwrap().len();
        assert!(len <= 1 << 20, "{turn}: {len}");
        store.verify(|_, _| ()).unwrap();
    }
}

/// Removes a part of the keys, and compacts what is left.
fn thinned_and_compacted(store: &Hash, keys: u64, kept: u64, rng: &mut Rng) -> Stats {
    for key in (0..keys).filter(|_| rng.below(100) > kept) {
        store.remove(&key.to_le_bytes()).unwrap();
    }
    let budget = 4096 << rng.below(14);
    while store.compact(budget).unwrap() {}
    store.stats().unwrap()
}

/// Whoever compacted a store had the first that was copied at the end of the file, and all of the file stayed.
#[test]
fn what_is_compacted_is_short_whatever_was_in_it() {
    for round in 0..rounds(80) {
        let folder = tempfile::tempdir().unwrap();
        let store = Hash::create(folder.path().join("store")).unwrap();
        let mut rng = Rng::new(seed(round));
        let kind = rng.below(4) as usize;
        let longest = 1 + rng.below([20, 300, 3000, 20_000][kind]);
        let keys = (1000 + rng.below(50_000)).min((24 << 20) / longest);
        for i in 0..2 * keys {
            let value = vec![7; rng.below(longest) as usize];
            must(store.insert(&rng.below(keys).to_le_bytes(), &value));
            if i % 5000 == 4999 && rng.below(2) == 0 {
                store.sync().unwrap();
            }
        }
        let kept = rng.below(150);
        let stats = thinned_and_compacted(&store, keys, kept, &mut rng);
        let most = stats.live_bytes / 2 * 3 + (512 << 10);
        assert!(stats.file_bytes <= most, "seed {}: {stats:?}", round + 1);
        store.verify(|_, _| ()).unwrap();
    }
}

/// Large values went from one place at the end to the other, as several free units ahead were not looked for where there was
/// one; and one of which nearly nothing was left found no room.
#[test]
fn what_is_compacted_is_short_also_with_large_values() {
    for round in 0..rounds(80) {
        let store = Hash::in_memory().unwrap();
        let mut rng = Rng::new(seed(round));
        let kind = rng.below(3) as usize;
        let longest = 1 + rng.below([100_000, 600_000, 1_500_000][kind]);
        let (keys, small) = ((10 << 20) / longest + 4, rng.below(3) * 1500);
        for _ in 0..2 * keys {
            let value = vec![7; rng.below(longest) as usize];
            must(store.insert(&rng.below(keys).to_le_bytes(), &value));
            for _ in 0..small / keys {
                must(store.insert(&(1000 + rng.below(1500)).to_le_bytes(), &[1; 200]));
            }
        }
        let kept = rng.below(110);
        let stats = thinned_and_compacted(&store, keys, kept, &mut rng);
        let most = stats.live_bytes / 4 * 9 + (1 << 20);
        assert!(stats.file_bytes <= most, "seed {}: {stats:?}", round + 1);
    }
}
