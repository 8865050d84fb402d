use credenza::{Result, btree::BTree};
use std::path::Path;

pub fn lookup(path: &Path, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
    let store = BTree::options().read_only(true).open(path)?; // once, for all threads
    let mut found = vec![None; keys.len()];
    store.read()?.main().get_many(keys, |i, value| found[i] = value.map(<[u8]>::to_vec))?;
    Ok(found)
}
