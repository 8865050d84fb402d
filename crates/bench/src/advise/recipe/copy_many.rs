use credenza::{Access, Get, Result, constant::Constant};
use std::path::Path;

pub fn lookup(path: &Path, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
    let options = Constant::options().access(Access::Memory); // a copy in memory, in huge pages
    let store = options.open(path)?; // once, for all threads
    let mut found = vec![None; keys.len()];
    store.get_many(keys, |i, value| found[i] = value.map(<[u8]>::to_vec))?;
    Ok(found)
}
