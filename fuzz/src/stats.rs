//! What is done with bytes that may be a file of statistics.

use credenza::stats::Operations;
use std::cell::RefCell;

/// Bytes of a file, and of its header.
const BYTES: usize = 3_411_968;
const HEADER: [u8; 64] =
    *b"\x89CRDNZS\n\x01\0\0\0\x0c\0\0\0\x40\0\0\0\0\x02\0\0\0\x10\x34\0\0\0\0\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

thread_local! {
    /// Zeros behind a true header: what a run changes, it changes back.
    static FILE: RefCell<Vec<u8>> = RefCell::new(sound());
}

/// A file in which nothing was counted.
fn sound() -> Vec<u8> {
    let mut file = vec![0; BYTES];
    file[..64].copy_from_slice(&HEADER);
    let sum = xxhash_rust::xxh3::xxh3_64(&file[..56]);
    file[56..64].copy_from_slice(&sum.to_le_bytes());
    file
}

/// Reads `data` as they are; then words of it, each of a place and a value, in a sound file.
pub fn file(data: &[u8]) {
    assert!(Operations::from_bytes(data).is_err() || data.len() == BYTES);
    FILE.with_borrow_mut(|file| {
        let head = file[..64].to_vec();
        let words: Vec<(usize, u64)> = data.chunks_exact(11).map(word).collect();
        for (at, value) in &words {
            file[8 * at..8 * at + 8].copy_from_slice(&value.to_le_bytes());
        }
        match Operations::from_bytes(file) {
            Ok(operations) => check(&operations),
            Err(_) => assert!(words.iter().any(|(at, _)| *at < 8), "a sound header is refused"),
        }
        for (at, _) in words {
            file[8 * at..8 * at + 8].fill(0);
        }
        file[..64].copy_from_slice(&head);
    });
}

/// Three bytes say where, eight what.
fn word(chunk: &[u8]) -> (usize, u64) {
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    (number(&chunk[..3]) as usize % (BYTES / 8), number(&chunk[3..]))
}

/// Whatever the numbers are, they can be asked for.
fn check(operations: &Operations) {
    for (operation, tally) in operations.iter() {
        for outcome in operation.outcomes() {
            std::hint::black_box(tally.count(*outcome));
        }
        let latency = &tally.latency;
        for percent in [0.0, 50.0, 99.99, 100.0] {
            assert!(latency.percentile(percent) <= latency.max());
        }
        assert!(latency.mean() >= 0.0);
        let counted = latency.buckets().fold(0u64, |sum, (_, _, n)| sum.saturating_add(n));
        assert_eq!(counted, latency.count());
    }
    let nothing = operations.since(operations);
    assert!(nothing.iter().all(|(_, tally)| tally.calls == 0 && tally.latency.count() == 0));
}
