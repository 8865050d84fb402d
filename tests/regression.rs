//! Danger: what fuzzing found comes back. Each test names the input that was found.

use credenza::constant::{BuildOptions, View};
use credenza::{Get, Scan};
use xxhash_rust::xxh3::xxh3_64;

/// Where the checksum of a constant file's header stands: over all bytes before it.
const CHECKSUM_AT: usize = 248;

/// Reads a constant file in every way; what it says does not matter.
fn read_all(file: &[u8]) {
    let Ok(view) = View::new(file) else { return };
    let keys = [&b"key 1"[..], b"absent", b""];
    for key in keys {
        let _ = (view.get(key), view.get_all(key));
    }
    let _ = view.get_many(&keys, |_, _| ());
    let _ = view.scan(|_, _| Ok(()));
    let _ = (view.stats(), view.verify(|_, _| ()));
}

/// Found: bytes 88 to 91, the size of references, as a number whose eightfold is over 32 bits.
#[test]
fn any_number_in_a_header_whose_checksum_fits_is_read_without_a_panic() {
    let records = (0..500).map(|i| (format!("key {i}"), "v".repeat(i % 7 * 60)));
    let file = BuildOptions::new().build_in_memory(records).unwrap();
    let numbers = [0u32, 1, 3, 255, 0x1fff_ffff, 0x2000_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX];
    for at in (0..CHECKSUM_AT).step_by(4) {
        for number in numbers {
            let mut file = file.clone();
            file[at..at + 4].copy_from_slice(&number.to_le_bytes());
            let checksum = xxh3_64(&file[..CHECKSUM_AT]);
            file[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&checksum.to_le_bytes());
            read_all(&file);
        }
    }
}
