use credenza::Result;
use credenza::btree::{BTree, Key};
use std::path::Path;

pub fn lookup(path: &Path, keys: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
    let store = BTree::options().read_only(true).open(path)?; // once, for all threads
    let snapshot = store.read()?;
    let numbers = snapshot.table("numbers")?.expect("it was loaded");
    let bytes: Vec<Vec<u8>> = keys.iter().map(Key::to_bytes).collect();
    let mut found = vec![None; keys.len()];
    numbers.get_many(&bytes, |i, value| found[i] = value.map(<[u8]>::to_vec))?;
    Ok(found)
}
