//! Filling an empty table with records in order: every page is written once, and full.

use super::edit::parting;
use super::format::{PAGE, Tree};
use super::items::{Items, most_cut};
use super::kind::{Duplicates, Kind};
use super::page::{Bytes, HEAD, Link, MAX_PREFIX, at, common, is_below};
use super::record::{Far, KeyToStore, NEAR_VALUE, ValueToStore, record_bytes};
use super::run::{Added, Run};
use super::values::Pack;
use super::writer::Writer;
use crate::{Error, Result};

/// Pages of one level that are not written yet, and of those above.
struct Builder<'w, 'c> {
    writer: &'w mut Writer<'c>,
    /// The records of the leaf that is being filled, while all have one size.
    run: Run,
    /// The same else, with what they take and where their long values are.
    leaf: Items,
    fill: Fill,
    pack: Pack,
    inner: Vec<Items>,
    /// The last key of the leaf written last.
    last: Vec<u8>,
}

/// A key and its value.
pub(crate) trait KeyValue {
    fn parts(&self) -> (&[u8], &[u8]);
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> KeyValue for (K, V) {
    fn parts(&self) -> (&[u8], &[u8]) {
        (self.0.as_ref(), self.1.as_ref())
    }
}

/// Fills an empty tree; `check` says what is wrong with a record, if anything is.
pub(crate) fn load<P: KeyValue>(
    writer: &mut Writer<'_>,
    tree: &mut Tree,
    records: impl IntoIterator<Item = Result<P>>,
    check: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    if tree.depth != 0 {
        return Err(Error::invalid("only an empty table can be filled by a bulk load"));
    }
    writer.whole(|writer| {
        writer.scratch.space.is_put = true;
        load_empty(writer, tree, records, check)
    })
}

fn load_empty<P: KeyValue>(
    writer: &mut Writer<'_>,
    tree: &mut Tree,
    records: impl IntoIterator<Item = Result<P>>,
    mut check: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    let mut builder = Builder {
        writer,
        run: Run::default(),
        leaf: Items::default(),
        fill: Fill::default(),
        pack: Pack::default(),
        inner: Vec::new(),
        last: Vec::new(),
    };
    let mut count = 0;
    for record in records {
        let record = record?;
        let (key, value) = record.parts();
        check(key, value)?;
        if count > 0 && !is_below(builder.newest_key(), key) {
            return Err(not_in_order(tree));
        }
        builder.add(key, value)?;
        count += 1;
    }
    if count > 0 {
        builder.finish(tree)?;
    }
    tree.count = count;
    Ok(count)
}

/// A record came that is not behind the one before. In a table whose keys may have several values a record stands for one of
/// these, and its key may well be that of the one before.
#[cold]
fn not_in_order(tree: &Tree) -> Error {
    Error::invalid(match Kind::of(tree).map(|kind| kind.duplicates) {
        Ok(Duplicates::Sorted) => {
            "the keys of a bulk load must come in order, and the values of a key in theirs, each once: sort both first"
        }
        Ok(Duplicates::Inserted) => "the keys of a bulk load must come in order: sort them first",
        _ => "the keys of a bulk load must come in order, each once: sort them first",
    })
}

impl Builder<'_, '_> {
    #[inline]
    fn newest_key(&self) -> &[u8] {
        match self.leaf.len() {
            0 if self.run.is_empty() => &self.last,
            0 => self.run.last(),
            len => self.leaf.key(len - 1),
        }
    }

    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.leaf.len() == 0 {
            match self.run.add(key, value) {
                Added::Yes => return Ok(()),
                Added::Full => {
                    self.write_run()?;
                    return self.add(key, value);
                }
                Added::Other => self.take_run(),
            }
        }
        self.add_to_items(key, value)
    }

    /// Goes on without a run: the records have several sizes.
    fn take_run(&mut self) {
        for (key, value) in self.run.records() {
            let value = ValueToStore::Near(value);
            self.leaf.insert(self.leaf.len(), key, None, value);
            self.fill.add(self.leaf.key(0), key, None, value);
        }
        self.run.clear();
    }

    fn add_to_items(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let far_key = self.writer.store_key(key)?;
        let count = self.leaf.len();
        // Where a long value is does not matter to what the page takes; it is written when it is known
        // to which leaf it belongs.
        let later = Far { at: 0, len: value.len() as u32, sum: 0 };
        let is_near = value.len() <= NEAR_VALUE;
        let stored = if is_near { ValueToStore::Near(value) } else { ValueToStore::Far(later) };
        self.leaf.insert(count, key, far_key, stored);
        self.fill.add(self.leaf.key(0), key, far_key, stored);
        // What a page takes exactly is only asked for when it may be full.
        if self.fill.most_bytes() > PAGE && !self.leaf.fits(0, count + 1, false, 0) {
            self.write_items(count)?;
            if far_key.is_none() && is_near {
                return self.add(key, value);
            }
            self.leaf.insert(0, key, far_key, stored);
            self.fill.add(key, key, far_key, stored);
        }
        if !is_near {
            let far = if later.is_packed() {
                self.writer.pack(&mut self.pack, value)?
            } else {
                self.writer.write_far(value)?
            };
            let newest = self.leaf.len() - 1;
            self.leaf.replace(newest, ValueToStore::Far(far));
        }
        Ok(())
    }

    /// Writes a leaf of the first of the records that were collected, and forgets all of them.
    fn write_items(&mut self, count: usize) -> Result<()> {
        let (mut items, pack) = (std::mem::take(&mut self.leaf), std::mem::take(&mut self.pack));
        let first = items.key(0).to_vec();
        let last = items.key(count - 1).to_vec();
        let tagged = self.writer.core.header.tagged;
        self.write_leaf(&first, &last, |bytes| {
            items.write_leaf(0, count, tagged, bytes);
            pack.write(bytes);
        })?;
        items.clear();
        (self.leaf, self.fill) = (items, Fill::default());
        Ok(())
    }

    fn write_run(&mut self) -> Result<()> {
        let mut run = std::mem::take(&mut self.run);
        let tagged = self.writer.core.header.tagged;
        self.write_leaf(run.first(), run.last(), |bytes| run.write(tagged, bytes))?;
        run.clear();
        self.run = run;
        Ok(())
    }

    /// Writes a leaf that has keys from `first` to `last`.
    fn write_leaf(
        &mut self,
        first: &[u8],
        last: &[u8],
        write: impl FnOnce(&mut Bytes),
    ) -> Result<()> {
        let is_first = self.inner.is_empty();
        let parting = if is_first { &[][..] } else { parting(&self.last, first) }.to_vec();
        self.last.clear();
        self.last.extend_from_slice(last);
        let (page, _) = self.writer.new_page()?;
        let bytes = self.writer.page_mut(page)?;
        write(bytes);
        let link = Link::new(page, bytes);
        let far = self.writer.store_key(&parting)?;
        self.add_link(0, &parting, far, link)
    }

    /// Puts a link in the newest page of a level of inner pages.
    fn add_link(&mut self, level: usize, key: &[u8], far: Option<Far>, link: Link) -> Result<()> {
        if level == self.inner.len() {
            self.inner.push(Items::default());
        }
        let items = &mut self.inner[level];
        let count = items.len();
        items.insert_link(count, key, far, link);
        if count == 0 || items.fits(0, count + 1, true, 0) {
            return Ok(());
        }
        let mut full = std::mem::take(items);
        self.write_inner(&mut full, level, count)?;
        full.clear();
        full.insert_link(0, key, far, link);
        self.inner[level] = full;
        Ok(())
    }

    fn write_inner(&mut self, items: &mut Items, level: usize, count: usize) -> Result<()> {
        let link = self.inner_page(items, level, count)?;
        let (key, far) = (items.key(0).to_vec(), items.far(0));
        self.add_link(level + 1, &key, far, link)
    }

    fn inner_page(&mut self, items: &mut Items, level: usize, count: usize) -> Result<Link> {
        let (page, _) = self.writer.new_page()?;
        let bytes = self.writer.page_mut(page)?;
        items.write_inner(0, count, level as u8 + 1, bytes);
        Ok(Link::new(page, bytes))
    }

    /// Writes what is left, from the leaves up to the topmost page.
    fn finish(&mut self, tree: &mut Tree) -> Result<()> {
        if self.run.is_empty() {
            self.write_items(self.leaf.len())?;
        } else {
            self.write_run()?;
        }
        let mut level = 0;
        loop {
            let mut items = std::mem::take(&mut self.inner[level]);
            let count = items.len();
            if count == 1 && level + 1 == self.inner.len() {
                let link = items.first_link();
                (tree.root, tree.depth) = (link.map_or(0, |link| link.0), level as u64 + 1);
                return Ok(());
            }
            self.write_inner(&mut items, level, count)?;
            level += 1;
        }
    }
}

/// What the records of a leaf take, kept up to date with each that is added.
#[derive(Debug, Default)]
struct Fill {
    count: usize,
    /// Bytes that all keys begin with.
    prefix: usize,
    /// Bytes of all keys that are in the page, how many, and the fewest of one.
    keys: usize,
    near: usize,
    shortest: usize,
    /// Everything else in the heap, and what the first record added to it.
    others: usize,
    first_others: usize,
    /// The lengths of key and value if they are all the same, and whether the values are far.
    uniform: Option<(usize, usize, bool)>,
}

impl Fill {
    fn add(&mut self, first: &[u8], key: &[u8], far: Option<Far>, value: ValueToStore<'_>) {
        let is_far = matches!(value, ValueToStore::Far(_));
        let shape = far.is_none().then_some((key.len(), value.bytes(), is_far));
        if self.count == 0 {
            (self.prefix, self.shortest, self.uniform) = (MAX_PREFIX, usize::MAX, shape);
        }
        self.uniform = self.uniform.filter(|uniform| Some(*uniform) == shape);
        self.prefix = common(first, key).min(self.prefix).min(most_cut(first, key));
        self.count += 1;
        if self.uniform.is_some() && self.count > 1 {
            // As the first: what it added is known.
            self.keys += key.len();
            self.near += 1;
            self.others += self.first_others;
            return;
        }
        let bytes = record_bytes(KeyToStore { rest: key, far }, value);
        match far {
            None => {
                self.keys += key.len();
                self.near += 1;
                self.shortest = self.shortest.min(key.len());
                self.first_others = bytes - key.len().saturating_sub(HEAD);
                self.others += self.first_others;
            }
            Some(_) => self.others += bytes,
        }
    }

    /// At most so many bytes.
    fn most_bytes(&self) -> usize {
        let (count, prefix) = (self.count, self.prefix);
        if let Some((key, value, _)) = self.uniform {
            let tail = (key - prefix.min(key)).saturating_sub(HEAD);
            return at::HEADS + prefix + count * (HEAD + tail + value);
        }
        // A key shorter than the prefix and a head would take less than nothing.
        let cut = if self.near > 0 { (prefix + HEAD).min(self.shortest) } else { 0 };
        at::HEADS + prefix + HEAD + count * (HEAD + 2) + self.others + self.keys - self.near * cut
    }
}
