use credenza::{Durability, Result, hash::Hash};
use std::path::Path;

pub fn change(path: &Path, keys: &[&[u8]], value: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
    let options = Hash::options().create(true).durability(Durability::Buffered);
    let store = options.open(path)?; // once, for all threads
    store.insert(keys[0], value)?;
    store.sync()?; // after N changes, not after each
    let mut found = vec![None; keys.len()];
    store.get_many(keys, |i, value| found[i] = value.map(<[u8]>::to_vec))?;
    Ok(found)
}
