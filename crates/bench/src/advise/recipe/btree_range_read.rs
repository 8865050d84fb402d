use credenza::{Result, btree::BTree};
use std::path::Path;

pub fn lookup(path: &Path, key: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let store = BTree::options().read_only(true).open(path)?; // once, for all threads
    let mut found = Vec::new();
    store.read()?.main().scan_range(key.., |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(found.len() < 100)
    })?;
    Ok(found)
}
