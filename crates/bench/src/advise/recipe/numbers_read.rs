use credenza::{Result, btree::BTree};
use std::path::Path;

pub fn lookup(path: &Path, key: u32) -> Result<Option<Vec<u8>>> {
    let store = BTree::options().read_only(true).open(path)?; // once, for all threads
    let snapshot = store.read()?;
    let numbers = snapshot.table("numbers")?.expect("it was loaded");
    Ok(numbers.typed::<u32>()?.get(&key)?.map(<[u8]>::to_vec))
}
