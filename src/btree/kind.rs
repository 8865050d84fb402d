//! Kinds of tables: what their keys are, and whether a key may have several values.

use super::format::{TREE_WORDS, Tree};
use super::key::{self, Key, KeyType, OTHER};
use crate::{Error, ErrorKind, Result};

/// Whether a key of a table may have several values, and in which order they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// A key has one value.
    #[default]
    None,
    /// A key has different values, which are in the order of their bytes; of up to
    /// [`MAX_SORTED_VALUE`](super::MAX_SORTED_VALUE). Numbers are in their order where their bytes are those of
    /// [`Key::to_bytes`].
    Sorted,
    /// A key has values, equal ones too, which are where they were put: behind the others, or at any
    /// place between them.
    Inserted,
}

/// What a new table is for.
///
/// ```
/// use credenza::btree::{BTree, Duplicates, TableOptions};
/// let store = BTree::in_memory()?;
/// let mut transaction = store.write()?;
/// let options = TableOptions::of_keys::<u64>().duplicates(Duplicates::Sorted);
/// transaction.create_table_with("visits", &options)?;
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    key: KeyType,
    duplicates: Duplicates,
    is_numbered: bool,
}

impl TableOptions {
    /// Keys that are bytes, each with one value.
    pub fn new() -> TableOptions {
        TableOptions::default()
    }

    /// Keys of this type, each with one value.
    pub fn of_keys<K: Key + ?Sized>() -> TableOptions {
        TableOptions::new().key_type(KeyType::named(K::NAME))
    }

    /// Keys of this type.
    #[must_use]
    pub fn key_type(mut self, key: KeyType) -> TableOptions {
        // A program's own cannot have the name of one that is known.
        self.key = KeyType::named(key.name());
        self
    }

    /// Whether a key may have several values.
    #[must_use]
    pub fn duplicates(mut self, duplicates: Duplicates) -> TableOptions {
        self.duplicates = duplicates;
        self
    }

    /// Records that are numbered from 1 on as they are appended; no number is given twice. For keys
    /// of type u32 or u64, each with one value.
    #[must_use]
    pub fn numbered(mut self, is_numbered: bool) -> TableOptions {
        self.is_numbered = is_numbered;
        self
    }

    /// What the keys are.
    pub fn keys(&self) -> &KeyType {
        &self.key
    }

    /// Whether a key may have several values.
    pub fn has_duplicates(&self) -> Duplicates {
        self.duplicates
    }

    /// Whether records are numbered.
    pub fn is_numbered(&self) -> bool {
        self.is_numbered
    }

    /// An error if there can be no such table.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_numbered && !self.can_be_numbered() {
            return Err(Error::invalid(
                "records are numbered where keys are of type u32 or u64, and each has one value",
            ));
        }
        let name = self.key.name();
        if name.is_empty() || name.len() > super::format::MAX_NAME {
            let limit = super::format::MAX_NAME;
            return Err(Error::invalid(format!(
                "the name of a type of keys has 1 to {limit} bytes, not {}",
                name.len()
            )));
        }
        Ok(())
    }

    fn can_be_numbered(&self) -> bool {
        matches!(self.key, KeyType::U32 | KeyType::U64) && self.duplicates == Duplicates::None
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind { key: self.key.code(), duplicates: self.duplicates, is_numbered: self.is_numbered }
    }
}

/// The same as it stands in a tree, without the name of a type of a program's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    key: u8,
    pub duplicates: Duplicates,
    pub is_numbered: bool,
}

/// Where in the word of a kind it stands how duplicates are ordered, and that records are numbered.
const DUPLICATES: u32 = 8;
const NUMBERED: u64 = 1 << 10;

impl Kind {
    pub(crate) fn word(self) -> u64 {
        let numbered = if self.is_numbered { NUMBERED } else { 0 };
        u64::from(self.key) | (self.duplicates as u64) << DUPLICATES | numbered
    }

    /// That of a tree.
    pub(crate) fn of(tree: &Tree) -> Result<Kind> {
        let word = tree.kind;
        let duplicates = match word >> DUPLICATES & 3 {
            0 => Some(Duplicates::None),
            1 => Some(Duplicates::Sorted),
            2 => Some(Duplicates::Inserted),
            _ => None,
        };
        let (key, is_numbered) = (word as u8, word & NUMBERED != 0);
        let can_be_numbered = TableOptions {
            key: KeyType::of(key, ""),
            duplicates: duplicates.unwrap_or_default(),
            is_numbered,
        }
        .can_be_numbered();
        let is_known = key == OTHER || KeyType::of(key, "").code() == key;
        match duplicates {
            Some(duplicates)
                if is_known && word >> 11 == 0 && (!is_numbered || can_be_numbered) =>
            {
                Ok(Kind { key, duplicates, is_numbered })
            }
            _ => Err(Error::new(ErrorKind::Unsupported(format!(
                "a table of a kind ({word:#x}) that this program does not know: use a newer one"
            )))),
        }
    }

    /// Bytes of its keys; `None` if they have various lengths.
    pub(crate) fn width(self) -> Option<usize> {
        key::width(self.key)
    }

    /// An error if bytes are no key of such a table.
    #[cold]
    pub(crate) fn check_key(self, key: &[u8]) -> Result<()> {
        let is_right = match self.width() {
            Some(width) => key.len() == width,
            None => KeyType::of(self.key, "") != KeyType::String || str::from_utf8(key).is_ok(),
        };
        if is_right {
            return Ok(());
        }
        let (name, len) = (KeyType::of(self.key, "").to_string(), key.len());
        let noun = if len == 1 { "byte" } else { "bytes" };
        Err(Error::invalid(format!(
            "the table's keys are of type {name}, and these {len} {noun} are no such key: 'typed' makes the bytes of keys"
        )))
    }

    /// An error if a table is not one where each key has one value, or where it may have several.
    pub(crate) fn check_duplicates(self, name: &str, is_wanted: bool) -> Result<()> {
        match (self.duplicates, is_wanted) {
            (Duplicates::None, true) => Err(Error::invalid(format!(
                "the keys of table {name:?} have one value each: it is opened with 'table'"
            ))),
            (Duplicates::Sorted | Duplicates::Inserted, false) => Err(Error::invalid(format!(
                "the keys of table {name:?} may have several values: it is opened with 'multi_table'"
            ))),
            _ => Ok(()),
        }
    }
}

/// What the catalog says of a table: its tree, and behind that the name of its type of keys if that
/// is a program's own.
pub(crate) fn encode(tree: &Tree, key_name: &str) -> Vec<u8> {
    let mut bytes = tree.encode().to_vec();
    bytes.extend_from_slice(key_name.as_bytes());
    bytes
}

/// The same from the catalog's record of table `name`.
pub(crate) fn decode<'b>(name: &str, bytes: &'b [u8]) -> Result<(Tree, &'b str)> {
    let parts = bytes.split_first_chunk::<{ TREE_WORDS * 8 }>();
    let decoded =
        parts.and_then(|(words, key)| Some((Tree::decode(words), str::from_utf8(key).ok()?)));
    let (tree, key) = decoded.ok_or_else(|| {
        Error::corrupt(0, format!("the catalog's record of table {name:?} is not one"))
    })?;
    Kind::of(&tree)?;
    Ok((tree, key))
}

/// The options that a table was made with.
pub(crate) fn options(tree: &Tree, key_name: &str) -> Result<TableOptions> {
    let Kind { key, duplicates, is_numbered } = Kind::of(tree)?;
    Ok(TableOptions { key: KeyType::of(key, key_name), duplicates, is_numbered })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_back_from_their_words() {
        for key in KeyType::known().chain([KeyType::Other("mine".into())]) {
            for duplicates in [Duplicates::None, Duplicates::Sorted, Duplicates::Inserted] {
                for is_numbered in [false, true] {
                    let table = TableOptions { key: key.clone(), duplicates, is_numbered };
                    if is_numbered && !table.can_be_numbered() {
                        assert!(
                            Kind::of(&Tree { kind: table.kind().word(), ..Tree::default() })
                                .is_err()
                        );
                        continue;
                    }
                    let tree = Tree { kind: table.kind().word(), ..Tree::default() };
                    assert_eq!(Kind::of(&tree).unwrap(), table.kind());
                    assert_eq!(options(&tree, "mine").unwrap(), table);
                }
            }
        }
        assert_eq!(TableOptions::new().kind().word(), 0);
        for word in [9, 254, 3 << DUPLICATES, 1 << 11, 1 << 63] {
            assert!(Kind::of(&Tree { kind: word, ..Tree::default() }).is_err(), "{word:#x}");
        }
    }
}
