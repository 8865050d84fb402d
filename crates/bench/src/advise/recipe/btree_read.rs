use credenza::{Result, btree::BTree};
use std::path::Path;

pub fn lookup(path: &Path, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let store = BTree::options().read_only(true).open(path)?; // once, for all threads
    Ok(store.read()?.main().get(key)?.map(<[u8]>::to_vec))
}
