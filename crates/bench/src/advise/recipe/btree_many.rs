use credenza::{Durability, Result, btree::BTree};
use std::path::Path;

pub fn change(path: &Path, keys: &[&[u8]], value: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
    let options = BTree::options().create(true).durability(Durability::Buffered);
    let store = options.open(path)?; // once, for all threads
    store.insert(keys[0], value)?; // several changes are one: store.write()
    store.sync()?; // after N changes, not after each
    let mut found = vec![None; keys.len()];
    store.read()?.main().get_many(keys, |i, value| found[i] = value.map(<[u8]>::to_vec))?;
    Ok(found)
}
