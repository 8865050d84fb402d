use credenza::btree::{BTree, Key, TableOptions};
use credenza::{Durability, Result};
use std::path::Path;

pub fn change(path: &Path, keys: &[u32], value: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
    let options = BTree::options().create(true).durability(Durability::Buffered);
    let store = options.open(path)?; // once, for all threads
    let mut transaction = store.write()?;
    // If it is not there:
    transaction.create_table_with("numbers", &TableOptions::of_keys::<u32>())?;
    let mut numbers = transaction.table("numbers")?.expect("it was just made");
    numbers.typed::<u32>()?.insert(&keys[0], value)?;
    transaction.commit()?;
    store.sync()?; // after N changes, not after each
    let snapshot = store.read()?;
    let numbers = snapshot.table("numbers")?.expect("it was just made");
    let bytes: Vec<Vec<u8>> = keys.iter().map(Key::to_bytes).collect();
    let mut found = vec![None; keys.len()];
    numbers.get_many(&bytes, |i, value| found[i] = value.map(<[u8]>::to_vec))?;
    Ok(found)
}
