use credenza::{Durability, Result, btree::BTree};
use std::path::Path;

pub fn change(path: &Path, keys: &[&[u8]], value: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
    let options = BTree::options().create(true).durability(Durability::Buffered);
    let store = options.open(path)?; // once, for all threads
    store.insert(keys[0], value)?; // several changes are one: store.write()
    store.sync()?; // after N changes, not after each
    let snapshot = store.read()?;
    let mut found = vec![None; keys.len()];
    snapshot.main().get_many(keys, |i, value| found[i] = value.map(<[u8]>::to_vec))?;
    snapshot.main().scan_range(keys[0].., |_, value| {
        found.push(Some(value.to_vec()));
        Ok(found.len() < keys.len() + 100)
    })?;
    Ok(found)
}
