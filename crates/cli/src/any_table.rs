//! Tables of btree stores, of whatever kind: keys are text, as a person writes and reads them.
//!
//! A number is written in decimal digits; other keys are the bytes that they are.

use credenza::btree::{KeyType, MultiTable, MultiTableMut, Table, TableMut};
use credenza::{Bytes, Error, Result};
use std::borrow::Cow;
use std::ops::Bound;

/// A table to read.
pub struct AnyTable<'t> {
    keys: KeyType,
    form: Form<'t>,
}

enum Form<'t> {
    One(Table<'t>),
    Several(MultiTable<'t>),
}

/// Records in order, from either end.
pub type Records<'t> = Box<dyn DoubleEndedIterator<Item = Result<(Vec<u8>, Bytes<'t>)>> + 't>;

/// The bytes of a key that is written as text.
pub fn bytes_of<'k>(keys: &KeyType, text: &'k [u8]) -> Result<Cow<'k, [u8]>> {
    if is_text(keys) && *keys != KeyType::String {
        return Ok(Cow::Borrowed(text));
    }
    keys.parse(text).map(Cow::Owned)
}

/// Whether keys are the bytes that they are shown as.
pub fn is_text(keys: &KeyType) -> bool {
    matches!(keys, KeyType::Binary | KeyType::String | KeyType::Other(_))
}

impl<'t> AnyTable<'t> {
    /// A table whose keys have one value each.
    pub fn one(keys: KeyType, table: Table<'t>) -> AnyTable<'t> {
        AnyTable { keys, form: Form::One(table) }
    }

    /// A table whose keys may have several.
    pub fn several(keys: KeyType, table: MultiTable<'t>) -> AnyTable<'t> {
        AnyTable { keys, form: Form::Several(table) }
    }

    /// The value of a key, or the first of them.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes<'t>>> {
        let key = bytes_of(&self.keys, key)?;
        match &self.form {
            Form::One(table) => Ok(table.get(&key)?.map(Cow::Borrowed)),
            Form::Several(table) => table.get(&key),
        }
    }

    /// All values of a key.
    pub fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'t>>> {
        match &self.form {
            Form::One(_) => Ok(self.get(key)?.into_iter().collect()),
            Form::Several(table) => table.values(&bytes_of(&self.keys, key)?).collect(),
        }
    }

    /// How many records there are: values, where a key may have several.
    pub fn len(&self) -> u64 {
        match &self.form {
            Form::One(table) => table.len(),
            Form::Several(table) => table.len(),
        }
    }

    /// Calls `f` with every record, in order.
    pub fn scan(&self, mut f: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.scan_bytes(all, |key, value| f(key, value).map(|()| true))
    }

    /// Calls `f` with every record whose key is in a range, in order, until it returns `false`.
    pub fn scan_range(
        &self,
        (start, end): (Bound<&[u8]>, Bound<&[u8]>),
        f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        self.scan_bytes((as_ref(&self.bytes(start)?), as_ref(&self.bytes(end)?)), f)
    }

    /// The same for keys that begin so, as they are shown.
    pub fn scan_prefix(
        &self,
        prefix: &[u8],
        mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        // Digits that numbers begin with are in no order: all are looked at.
        let is_text = is_text(&self.keys);
        let start = if is_text { Bound::Included(prefix) } else { Bound::Unbounded };
        self.scan_bytes((start, Bound::Unbounded), |key, value| match key.starts_with(prefix) {
            true => f(key, value),
            false => Ok(!is_text),
        })
    }

    /// The same by the bytes of keys, which are shown to `f`.
    fn scan_bytes(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let keys = &self.keys;
        let is_text = is_text(keys);
        let shown = |key: &[u8], value: &[u8]| {
            if is_text { f(key, value) } else { f(&keys.show(key), value) }
        };
        match &self.form {
            Form::One(table) => table.scan_range(bounds, shown),
            Form::Several(table) => table.scan_range(bounds, shown),
        }
    }

    fn bytes(&self, bound: Bound<&[u8]>) -> Result<Bound<Vec<u8>>> {
        Ok(match bound {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) => Bound::Included(bytes_of(&self.keys, key)?.into_owned()),
            Bound::Excluded(key) => Bound::Excluded(bytes_of(&self.keys, key)?.into_owned()),
        })
    }

    /// The records whose keys are in a range.
    pub fn range(&self, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Result<Records<'t>> {
        let (start, end) = (self.bytes(start)?, self.bytes(end)?);
        let bounds = (as_ref(&start), as_ref(&end));
        Ok(match &self.form {
            Form::One(table) => self.shown(table.range(bounds).map(borrowed)),
            Form::Several(table) => self.shown(table.range(bounds)),
        })
    }

    /// The records whose keys begin so, as they are shown.
    pub fn prefix(&self, prefix: &[u8]) -> Records<'t> {
        if is_text(&self.keys) {
            return match &self.form {
                Form::One(table) => self.shown(table.prefix(prefix).map(borrowed)),
                Form::Several(table) => self.shown(table.prefix(prefix)),
            };
        }
        // Digits that numbers begin with are in no order: all are looked at.
        let all = match &self.form {
            Form::One(table) => self.shown(table.iter().map(borrowed)),
            Form::Several(table) => self.shown(table.iter()),
        };
        let prefix = prefix.to_vec();
        Box::new(all.filter(move |record| {
            record.as_ref().map_or(true, |(key, _)| key.starts_with(&prefix))
        }))
    }

    fn shown(
        &self,
        records: impl DoubleEndedIterator<Item = Result<(Vec<u8>, Bytes<'t>)>> + 't,
    ) -> Records<'t> {
        if is_text(&self.keys) {
            return Box::new(records);
        }
        let keys = self.keys.clone();
        Box::new(records.map(move |record| record.map(|(key, value)| (keys.show(&key), value))))
    }
}

fn as_ref(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &key[..])
}

fn borrowed<'t>(record: Result<(Vec<u8>, &'t [u8])>) -> Result<(Vec<u8>, Bytes<'t>)> {
    record.map(|(key, value)| (key, Cow::Borrowed(value)))
}

/// A table to change.
pub struct AnyTableMut<'t, 'c> {
    keys: KeyType,
    form: FormMut<'t, 'c>,
}

enum FormMut<'t, 'c> {
    One(TableMut<'t, 'c>),
    Several(MultiTableMut<'t, 'c>),
}

impl<'t, 'c> AnyTableMut<'t, 'c> {
    /// A table whose keys have one value each.
    pub fn one(keys: KeyType, table: TableMut<'t, 'c>) -> Self {
        AnyTableMut { keys, form: FormMut::One(table) }
    }

    /// A table whose keys may have several.
    pub fn several(keys: KeyType, table: MultiTableMut<'t, 'c>) -> Self {
        AnyTableMut { keys, form: FormMut::Several(table) }
    }

    /// The table as it is now.
    pub fn read(&self) -> AnyTable<'_> {
        let keys = self.keys.clone();
        match &self.form {
            FormMut::One(table) => AnyTable::one(keys, table.read()),
            FormMut::Several(table) => AnyTable::several(keys, table.read()),
        }
    }

    /// Gives a key a value, or one more where it may have several.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let key = bytes_of(&self.keys, key)?;
        match &mut self.form {
            FormMut::One(table) => table.insert(&key, value).map(drop),
            FormMut::Several(table) => table.insert(&key, value).map(drop),
        }
    }

    /// Gives a key a value if it has none; whether it did.
    pub fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let key = bytes_of(&self.keys, key)?;
        match &mut self.form {
            FormMut::One(table) => table.insert_if_absent(&key, value),
            FormMut::Several(table) if table.get(&key)?.is_some() => Ok(false),
            FormMut::Several(table) => table.insert(&key, value),
        }
    }

    /// Where records are numbered, puts a value under the next number, and says which.
    pub fn append(&mut self, value: &[u8]) -> Result<u64> {
        match &mut self.form {
            FormMut::One(table) => table.append(value),
            FormMut::Several(_) => Err(Error::invalid(
                "the records of this table are not numbered: put them under keys",
            )),
        }
    }

    /// Takes a key out with all that it has; whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let key = bytes_of(&self.keys, key)?;
        match &mut self.form {
            FormMut::One(table) => table.remove(&key),
            FormMut::Several(table) => table.remove(&key).map(|values| values > 0),
        }
    }

    /// Takes one value of a key out, and the key if that is all it has; whether it was there.
    pub fn remove_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let key = bytes_of(&self.keys, key)?;
        match &mut self.form {
            FormMut::One(table) if table.get(&key)? != Some(value) => Ok(false),
            FormMut::One(table) => table.remove(&key),
            FormMut::Several(table) => table.remove_value(&key, value),
        }
    }
}
