//! What is done with bytes that may be a trace.

use credenza::record::Trace;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const FIXED_BYTES: usize = 128;
const STATE_BYTES: usize = 64;
const BLOCK_HEAD_BYTES: usize = 64;

thread_local! {
    static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

fn path() -> PathBuf {
    FOLDER.with(|folder| {
        folder.get_or_init(|| tempfile::tempdir().expect("a folder")).path().join("trace")
    })
}

/// Reads `data` as they are; then blocks of them, with right checksums, in a sound trace, and that cut off.
pub fn file(data: &[u8]) {
    let path = path();
    read(&path, data);
    let trace = sound(data);
    let entries = read(&path, &trace);
    if let Some(all) = entries {
        let at = data.first().map_or(0, |byte| usize::from(*byte)) * trace.len() / 256;
        let cut = read(&path, &trace[..at]);
        assert!(cut.is_none_or(|some| some <= all), "more in a part than in the whole");
    }
}

/// The entries of these bytes, if they are a trace whose heads are right; at most as many as bytes.
fn read(path: &Path, bytes: &[u8]) -> Option<u64> {
    std::fs::write(path, bytes).expect("a file");
    let trace = Trace::open(path).ok()?;
    let mut count = 0;
    for entry in trace.entries() {
        let Ok(entry) = entry else { return None };
        assert!(entry.store as usize <= trace.stores().len());
        count += 1;
        assert!(count <= bytes.len() as u64, "more entries than bytes");
    }
    assert_eq!(count, trace.len());
    Some(count)
}

/// Blocks: a byte says whether it is a store's, one how many entries it has, one how long it is.
fn sound(mut data: &[u8]) -> Vec<u8> {
    let (mut blocks, mut entries, mut stores, mut count) = (Vec::new(), 0u64, 0u64, 0u64);
    while let [kind, of, len, rest @ ..] = data {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        data = rest;
        let is_store = kind % 4 == 0;
        let mut head = [0; BLOCK_HEAD_BYTES];
        head[..4].copy_from_slice(b"CRTB");
        head[4] = if is_store { 1 } else { 2 };
        head[8] = body.len() as u8;
        head[12] = *of;
        head[16] = kind >> 6;
        head[20] = kind >> 4 & 3;
        head[32..40].copy_from_slice(&xxh3_64(body).to_le_bytes());
        seal(&mut head);
        blocks.extend_from_slice(&head);
        blocks.extend_from_slice(body);
        count += 1;
        if is_store { stores += 1 } else { entries += u64::from(*of) }
    }
    let mut fixed = [0; FIXED_BYTES];
    fixed[..9].copy_from_slice(b"\x89CRDNZT\n\x01");
    seal(&mut fixed);
    let mut state = [0; STATE_BYTES];
    let end = (FIXED_BYTES + STATE_BYTES + blocks.len()) as u64;
    for (at, word) in [(0, end), (8, stores), (16, count), (24, entries)] {
        state[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    seal(&mut state);
    [&fixed[..], &state, &blocks].concat()
}

/// Puts the checksum of what is before them in the last eight bytes.
fn seal(bytes: &mut [u8]) {
    let at = bytes.len() - 8;
    let sum = xxh3_64(&bytes[..at]);
    bytes[at..].copy_from_slice(&sum.to_le_bytes());
}
