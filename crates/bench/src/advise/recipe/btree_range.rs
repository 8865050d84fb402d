use credenza::{Durability, Result, btree::BTree};
use std::path::Path;

pub fn change(path: &Path, key: &[u8], value: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let options = BTree::options().create(true).durability(Durability::Buffered);
    let store = options.open(path)?; // once, for all threads
    store.insert(key, value)?; // several changes are one: store.write()
    store.sync()?; // after N changes, not after each
    let mut found = Vec::new();
    store.read()?.main().scan_range(key.., |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(found.len() < 100)
    })?;
    Ok(found)
}
