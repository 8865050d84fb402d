use credenza::btree::{BTree, TableOptions};
use credenza::{Durability, Result};
use std::path::Path;

pub fn change(path: &Path, key: u32, value: &[u8]) -> Result<Option<Vec<u8>>> {
    let options = BTree::options().create(true).durability(Durability::Buffered);
    let store = options.open(path)?; // once, for all threads
    let mut transaction = store.write()?;
    // If it is not there:
    transaction.create_table_with("numbers", &TableOptions::of_keys::<u32>())?;
    let mut numbers = transaction.table("numbers")?.expect("it was just made");
    numbers.typed::<u32>()?.insert(&key, value)?;
    let found = numbers.typed::<u32>()?.get(&key)?.map(<[u8]>::to_vec);
    transaction.commit()?;
    store.sync()?; // after N changes, not after each
    Ok(found)
}
