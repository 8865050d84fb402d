use credenza::{Result, hash::Hash};
use std::path::Path;

pub fn lookup(path: &Path, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let store = Hash::options().read_only(true).open(path)?; // once, for all threads
    store.get_with(key, |value| value.to_vec())
}
