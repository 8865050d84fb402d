//! Calls into a store that may be damaged: whatever they say, they say it.

use credenza::Result;
use credenza::hash::Hash;

/// What a store that was opened from damaged files answers.
pub struct Answers {
    /// For each key what `get` said.
    pub values: Vec<Result<Option<Vec<u8>>>>,
    /// What a scan gave, up to an error; it ends.
    pub scanned: Vec<(Vec<u8>, Vec<u8>)>,
    pub verify: Result<()>,
}

/// Asks everything of a store whose files together have so many bytes.
pub fn ask(store: &Hash, keys: &[Vec<u8>], bytes: usize, what: &str) -> Answers {
    let copy = |key: &Vec<u8>| Ok(store.get(key)?.map(|value| value.to_vec()));
    let values = keys.iter().map(copy).collect();
    let mut seen = 0;
    let _ = store.get_many(keys, |_, _| seen += 1);
    assert!(seen <= keys.len(), "{what}");
    let _ = store.len();
    let _ = store.stats();
    let mut scanned = Vec::new();
    for record in store {
        let Ok(record) = record else { break };
        scanned.push(record);
        assert!(scanned.len() <= bytes, "{what}: a scan does not end");
    }
    Answers { values, scanned, verify: store.verify(|_, _| ()) }
}
