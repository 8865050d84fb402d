use credenza::{Get, Result, constant::Constant};
use std::path::Path;

pub fn lookup(path: &Path, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let store = Constant::open(path)?; // once, for all threads
    Ok(store.get(key)?.map(|value| value.to_vec()))
}
