use credenza::{Durability, Result, hash::Hash};
use std::path::Path;

pub fn change(path: &Path, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
    let options = Hash::options().create(true).durability(Durability::Buffered);
    let store = options.open(path)?; // once, for all threads
    store.insert(key, value)?;
    store.sync()?; // after N changes, not after each
    store.get_with(key, |value| value.to_vec())
}
