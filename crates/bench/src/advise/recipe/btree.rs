use credenza::{Durability, Result, btree::BTree};
use std::path::Path;

pub fn change(path: &Path, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
    let options = BTree::options().create(true).durability(Durability::Buffered);
    let store = options.open(path)?; // once, for all threads
    store.insert(key, value)?; // several changes are one: store.write()
    store.sync()?; // after N changes, not after each
    Ok(store.read()?.main().get(key)?.map(<[u8]>::to_vec))
}
