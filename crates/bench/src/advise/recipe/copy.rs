use credenza::{Access, Get, Result, constant::Constant};
use std::path::Path;

pub fn lookup(path: &Path, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let options = Constant::options().access(Access::Memory); // a copy in memory, in huge pages
    let store = options.open(path)?; // once, for all threads
    Ok(store.get(key)?.map(|value| value.to_vec()))
}
