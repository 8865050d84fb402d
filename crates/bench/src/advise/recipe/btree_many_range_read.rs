use credenza::{Result, btree::BTree};
use std::path::Path;

pub fn lookup(path: &Path, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
    let store = BTree::options().read_only(true).open(path)?; // once, for all threads
    let snapshot = store.read()?;
    let mut found = vec![None; keys.len()];
    snapshot.main().get_many(keys, |i, value| found[i] = value.map(<[u8]>::to_vec))?;
    snapshot.main().scan_range(keys[0].., |_, value| {
        found.push(Some(value.to_vec()));
        Ok(found.len() < keys.len() + 100)
    })?;
    Ok(found)
}
