//! Pages as lists: taken apart, and written anew in the best layout, as one page or several.
//!
//! This is what happens when a page cannot take a change in place, and is not a full leaf of the usual
//! kind, which [`super::split`] parts: its prefix is too long now, its records no longer have one size,
//! parts of them are elsewhere, or it is one of two that are joined. It takes some microseconds.

use super::edit::Part;
use super::format::PAGE;
use super::inner;
use super::leaf;
use super::page::{
    Bytes, HEAD, Kind, Link, MAX_PREFIX, REFERENCES, at, common, count, head_of, set_short,
};
use super::record::{
    self, Elsewhere, FAR_BYTES, Far, KeyToStore, NEAR_KEY, NEAR_VALUE, Value, ValueToStore,
    key_bytes, put_lengths, record_bytes,
};
use super::tag::Tagged;
use crate::bytes::{append_short, copy_short};

type Checked<T> = Result<T, &'static str>;

/// So that what is taken from a page, also a damaged one, fits in pages again.
const TOO_LARGE: &str = "a key or a value that is too large to be in its page";

/// What a key leads to.
#[derive(Clone, Copy, Debug)]
enum Payload {
    /// Bytes of the arena.
    Near {
        from: usize,
        to: usize,
    },
    Far(Far),
    Link(Link),
}

#[derive(Clone, Copy, Debug)]
struct Item {
    /// Bytes of the arena.
    key: (usize, usize),
    far: Option<Far>,
    payload: Payload,
}

/// The records of a leaf, or the keys and links of an inner page, in order.
#[derive(Debug, Default)]
pub(crate) struct Items {
    arena: Vec<u8>,
    list: Vec<Item>,
    /// A record that is being put together.
    scratch: Vec<u8>,
}

impl Items {
    pub(crate) fn clear(&mut self) {
        self.arena.clear();
        self.list.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Appends what is in a page; in an inner page, `first` is the key of its first link.
    pub(crate) fn take(
        &mut self,
        bytes: &Bytes,
        first: &[u8],
        first_far: Option<Far>,
        elsewhere: &impl Elsewhere,
    ) -> Checked<()> {
        let is_inner = super::page::kind(bytes) == Some(Kind::Inner);
        for i in 0..count(bytes) {
            let from = self.arena.len();
            let far = if !is_inner {
                leaf::append_key(bytes, i, elsewhere, &mut self.arena)?
            } else if i > 0 {
                inner::append_key(bytes, i, elsewhere, &mut self.arena)?
            } else {
                self.arena.extend_from_slice(first);
                first_far
            };
            let key = (from, self.arena.len());
            if far.is_none() && key.1 - key.0 > NEAR_KEY {
                return Err(TOO_LARGE);
            }
            let payload = if is_inner {
                Payload::Link(inner::link(bytes, i)?)
            } else {
                match leaf::value(bytes, i)? {
                    Value::Near(value) if value.len() > NEAR_VALUE => return Err(TOO_LARGE),
                    Value::Near(value) => self.keep(value),
                    Value::Far(far) => Payload::Far(far),
                }
            };
            self.list.push(Item { key, far, payload });
        }
        Ok(())
    }

    fn keep(&mut self, value: &[u8]) -> Payload {
        let from = self.arena.len();
        append_short(&mut self.arena, value);
        Payload::Near { from, to: self.arena.len() }
    }

    fn put(&mut self, at: usize, key: &[u8], far: Option<Far>, payload: Payload) {
        let from = self.arena.len();
        self.arena.extend_from_slice(key);
        let item = Item { key: (from, self.arena.len()), far, payload };
        if at >= self.list.len() {
            self.list.push(item);
        } else {
            self.list.insert(at, item);
        }
    }

    /// Puts a record at number `at`.
    pub(crate) fn insert(
        &mut self,
        at: usize,
        key: &[u8],
        far: Option<Far>,
        value: ValueToStore<'_>,
    ) {
        let payload = match value {
            ValueToStore::Near(value) => self.keep(value),
            ValueToStore::Far(far) => Payload::Far(far),
        };
        self.put(at, key, far, payload);
    }

    /// Gives record number `at` another value.
    pub(crate) fn replace(&mut self, at: usize, value: ValueToStore<'_>) {
        let payload = match value {
            ValueToStore::Near(value) => self.keep(value),
            ValueToStore::Far(far) => Payload::Far(far),
        };
        if let Some(item) = self.list.get_mut(at) {
            item.payload = payload;
        }
    }

    /// Where the value of number `i` is, if it shares a page with others of its leaf.
    pub(crate) fn packed(&self, i: usize) -> Option<Far> {
        match self.list.get(i)?.payload {
            Payload::Far(far) => Some(far).filter(|far| far.is_packed()),
            Payload::Near { .. } | Payload::Link(_) => None,
        }
    }

    /// Puts a link at number `at`.
    pub(crate) fn insert_link(&mut self, at: usize, key: &[u8], far: Option<Far>, link: Link) {
        self.put(at, key, far, Payload::Link(link));
    }

    /// Puts these links in the place of those from one number to before another; the key of the first stays.
    pub(super) fn replace_links(&mut self, from: usize, to: usize, parts: Vec<Part>) {
        let mut parts = parts.into_iter();
        if let (Some(item), Some(first)) = (self.list.get_mut(from), parts.next()) {
            item.payload = Payload::Link(first.link);
            let end = to.clamp(from + 1, self.list.len());
            self.list.drain(from + 1..end);
        }
        for (n, part) in parts.enumerate() {
            self.insert_link(from + 1 + n, &part.key, part.far, part.link);
        }
    }

    /// Where link number `i` leads to.
    pub(super) fn link(&self, i: usize) -> Link {
        match self.list.get(i).map(|item| item.payload) {
            Some(Payload::Link(link)) => link,
            _ => Link(0),
        }
    }

    /// Gives number `i` another key, which is in its page.
    pub(super) fn set_key(&mut self, i: usize, key: &[u8]) {
        let from = self.arena.len();
        self.arena.extend_from_slice(key);
        if let Some(item) = self.list.get_mut(i) {
            (item.key, item.far) = ((from, self.arena.len()), None);
        }
    }

    /// Says where the key of number `i` is now.
    pub(super) fn set_far(&mut self, i: usize, far: Option<Far>) {
        if let Some(item) = self.list.get_mut(i) {
            item.far = far;
        }
    }

    /// The key of number `i`.
    pub(crate) fn key(&self, i: usize) -> &[u8] {
        self.list.get(i).map_or(&[], |item| &self.arena[item.key.0..item.key.1])
    }

    /// Where the key of number `i` is, if it is not in its page.
    pub(crate) fn far(&self, i: usize) -> Option<Far> {
        self.list.get(i).and_then(|item| item.far)
    }

    /// What all keys of a range begin with, as far as a leaf cuts it off.
    fn prefix(&self, from: usize, to: usize) -> usize {
        self.prefix_of(from, to, self.uniform(from, to).is_some())
    }

    /// The same for an inner page, whose first key is not stored.
    fn inner_prefix(&self, from: usize, to: usize) -> usize {
        self.prefix_of(from + 1, to, true)
    }

    fn prefix_of(&self, from: usize, to: usize, keeps_heads: bool) -> usize {
        if from >= to {
            return 0;
        }
        let (low, high) = (self.key(from), self.key(to - 1));
        let most = if keeps_heads { most_cut(low, high) } else { MAX_PREFIX };
        common(low, high).min(MAX_PREFIX).min(most)
    }

    fn value(&self, item: &Item) -> ValueToStore<'_> {
        match item.payload {
            Payload::Near { from, to } => ValueToStore::Near(&self.arena[from..to]),
            Payload::Far(far) => ValueToStore::Far(far),
            Payload::Link(_) => ValueToStore::Near(&[]),
        }
    }

    fn stored<'s>(&'s self, item: &Item, prefix: usize) -> KeyToStore<'s> {
        let key = &self.arena[item.key.0..item.key.1];
        KeyToStore { rest: key.get(prefix..).unwrap_or(&[]), far: item.far }
    }

    /// The lengths of keys and values if they are all the same, and whether the values are far.
    fn uniform(&self, from: usize, to: usize) -> Option<(usize, usize, bool)> {
        let shape = |item: &Item| {
            let (value, is_far) = match item.payload {
                Payload::Near { from, to } => (to - from, false),
                Payload::Far(_) => (FAR_BYTES, true),
                Payload::Link(_) => return None,
            };
            item.far.is_none().then_some((item.key.1 - item.key.0, value, is_far))
        };
        let list = self.list.get(from..to)?;
        let first = shape(list.first()?)?;
        list.iter().all(|item| shape(item) == Some(first)).then_some(first)
    }

    /// Bytes that a leaf of these records takes.
    fn leaf_bytes(&self, from: usize, to: usize) -> usize {
        let (uniform, count) = (self.uniform(from, to), to - from);
        let prefix = self.prefix_of(from, to, uniform.is_some());
        if let Some((key, value, _)) = uniform {
            let rest = key - prefix;
            return at::HEADS + prefix + count * (HEAD + rest.saturating_sub(HEAD) + value);
        }
        let records = self.list[from..to].iter();
        let heap: usize =
            records.map(|item| record_bytes(self.stored(item, prefix), self.value(item))).sum();
        at::HEADS + prefix + count * (HEAD + 2) + heap
    }

    fn inner_bytes(&self, from: usize, to: usize) -> usize {
        let prefix = self.inner_prefix(from, to);
        let keys = self.list[(from + 1).min(to)..to].iter();
        let heap: usize = keys.map(|item| key_bytes(self.stored(item, prefix))).sum();
        inner::arrays_end(to - from) + prefix + heap
    }

    /// Whether a range fits in a page of which `spare` bytes stay free.
    pub(crate) fn fits(&self, from: usize, to: usize, is_inner: bool, spare: usize) -> bool {
        let bytes = if is_inner { self.inner_bytes(from, to) } else { self.leaf_bytes(from, to) };
        bytes + spare <= PAGE
    }

    /// The link of the first item.
    pub(crate) fn first_link(&self) -> Option<Link> {
        match self.list.first()?.payload {
            Payload::Link(link) => Some(link),
            Payload::Near { .. } | Payload::Far(_) => None,
        }
    }

    /// Divides the items into pages: the numbers where each begins. Where they do not fit in one,
    /// they are parted at `hint` if that serves, else in the middle.
    pub(crate) fn divide(&self, is_inner: bool, hint: Option<usize>) -> Vec<usize> {
        let mut starts = vec![0];
        if self.fits(0, self.len(), is_inner, 0) {
            return starts;
        }
        if let Some(at) = hint
            && at > 0
            && at < self.len()
            && self.fits(0, at, is_inner, 0)
            && self.fits(at, self.len(), is_inner, 0)
        {
            starts.push(at);
            return starts;
        }
        self.divide_range(0, self.len(), is_inner, &mut starts);
        starts
    }

    /// Divides the items into pages that are as full as can be: the numbers where each begins.
    pub(crate) fn fill(&self, is_inner: bool) -> Vec<usize> {
        let (mut starts, mut from, mut guess) = (vec![0], 0, 1);
        while !self.fits(from, self.len(), is_inner, 0) {
            // What fits, and what does not, at first about as much as in the leaf before.
            let (mut low, mut high) = (1, guess.max(2));
            while from + high < self.len() && self.fits(from, from + high, is_inner, 0) {
                (low, high) = (high, 2 * high);
            }
            high = high.min(self.len() - from);
            while high - low > 1 {
                let middle = low.midpoint(high);
                if self.fits(from, from + middle, is_inner, 0) {
                    low = middle
                } else {
                    high = middle
                }
            }
            (from, guess) = (from + low, low);
            starts.push(from);
        }
        starts
    }

    fn divide_range(&self, from: usize, to: usize, is_inner: bool, starts: &mut Vec<usize>) {
        if to - from < 2 || self.fits(from, to, is_inner, 0) {
            return;
        }
        let middle = self.middle(from, to);
        self.divide_range(from, middle, is_inner, starts);
        starts.push(middle);
        self.divide_range(middle, to, is_inner, starts);
    }

    /// The number that parts a range in two of about the same size, neither empty.
    fn middle(&self, from: usize, to: usize) -> usize {
        let prefix = self.prefix(from, to);
        let size =
            |item: &Item| HEAD + 2 + record_bytes(self.stored(item, prefix), self.value(item));
        let all: usize = self.list[from..to].iter().map(size).sum();
        let mut sum = 0;
        let half = self.list[from..to].iter().position(|item| {
            sum += size(item);
            sum * 2 > all
        });
        (from + half.unwrap_or(0)).clamp(from + 1, to - 1)
    }

    /// Writes a range as a leaf; it fits. The birth stays as it is.
    pub(crate) fn write_leaf(&mut self, from: usize, to: usize, tagged: Tagged, bytes: &mut Bytes) {
        let prefix = self.prefix(from, to);
        start(bytes, 0, to - from, self.key(from).get(..prefix).unwrap_or(&[]));
        match self.uniform(from, to) {
            Some((key, value, is_far)) => {
                let mut place = shape(bytes, prefix, key, value, is_far);
                let tail = (key - prefix).saturating_sub(HEAD);
                for (i, item) in self.list[from..to].iter().enumerate() {
                    let key = &self.arena[item.key.0..item.key.1];
                    set_head(bytes, i, &key[prefix..]);
                    bytes[place..place + tail].copy_from_slice(&key[key.len() - tail..]);
                    place += tail;
                    match self.value(item) {
                        ValueToStore::Near(v) => bytes[place..place + value].copy_from_slice(v),
                        ValueToStore::Far(far) => {
                            bytes[place..place + value].copy_from_slice(&far.encode());
                        }
                    }
                    place += value;
                }
            }
            None => self.write_heap(from, to, prefix, tagged, bytes),
        }
    }

    /// What comes after the head of a key of which `rest` bytes are left, and the value, whose length is
    /// told, if they are one behind the other here as they are in a page.
    fn in_one(&self, item: &Item, rest: usize) -> Option<(&[u8], usize)> {
        match item.payload {
            Payload::Near { from, to } if from == item.key.1 && item.far.is_none() => {
                Some((&self.arena[from - rest.saturating_sub(HEAD)..to], to - from))
            }
            _ => None,
        }
    }

    fn write_heap(
        &mut self,
        from: usize,
        to: usize,
        prefix: usize,
        tagged: Tagged,
        bytes: &mut Bytes,
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut heap = PAGE - prefix;
        let room = heap_room(prefix, to - from, self.leaf_bytes(from, to));
        begin_heap(bytes, room, tagged);
        for (i, item) in self.list[from..to].iter().enumerate() {
            let key = self.stored(item, prefix);
            let tag = tagged.of_key(&self.arena[item.key.0..item.key.1]);
            set_head(bytes, i, key.rest);
            if let Some((stored, value)) = self.in_one(item, key.rest.len()) {
                heap -= stored.len();
                copy_short(&mut bytes[heap..heap + stored.len()], stored);
                heap = put_lengths(bytes, heap, key.rest.len(), value);
                set_short(bytes, at::HEADS + HEAD * room + 2 * i, heap | tag);
                continue;
            }
            scratch.clear();
            record::encode(&mut scratch, key.rest.len(), key.tail(), self.value(item));
            bytes[heap - scratch.len()..heap].copy_from_slice(&scratch);
            heap -= scratch.len();
            set_short(bytes, at::HEADS + HEAD * room + 2 * i, heap | tag);
        }
        set_short(bytes, at::HEAP, heap);
        self.scratch = scratch;
    }

    /// Writes a range as an inner page of this level; it fits. The birth stays as it is.
    pub(crate) fn write_inner(&mut self, from: usize, to: usize, level: u8, bytes: &mut Bytes) {
        let prefix = self.inner_prefix(from, to);
        start(bytes, level, to - from, self.key(to - 1).get(..prefix).unwrap_or(&[]));
        bytes[at::KIND] = Kind::Inner as u8;
        let mut scratch = std::mem::take(&mut self.scratch);
        let (count, mut heap) = (to - from, PAGE - prefix);
        let size = self.inner_bytes(from, to) - prefix - at::HEADS;
        let spare = (PAGE - prefix - at::HEADS).saturating_sub(size + 8);
        let room = count + spare / (size / count.max(1)).max(1);
        set_short(bytes, at::ROOM, room);
        for (i, item) in self.list[from..to].iter().enumerate() {
            let Payload::Link(link) = item.payload else { continue };
            let place = inner::links_at(room) + 8 * i;
            bytes[place..place + 8].copy_from_slice(&link.0.to_le_bytes());
            let mut offset = 0;
            if i == 0 {
                set_head(bytes, i, &[]);
            } else {
                let key = self.stored(item, prefix);
                set_head(bytes, i, key.rest);
                scratch.clear();
                record::encode_key(&mut scratch, key);
                if !scratch.is_empty() {
                    bytes[heap - scratch.len()..heap].copy_from_slice(&scratch);
                    heap -= scratch.len();
                    offset = heap;
                }
            }
            set_short(bytes, inner::offsets_at(room) + 2 * i, offset);
        }
        set_short(bytes, at::HEAP, heap);
        self.scratch = scratch;
    }
}

/// How much it makes sense to cut off keys of one length: heads take their room whatever is in them.
pub(crate) fn most_cut(a: &[u8], b: &[u8]) -> usize {
    a.len().min(b.len()).saturating_sub(HEAD)
}

/// Begins a page: its head and its prefix.
pub(super) fn start(bytes: &mut Bytes, level: u8, count: usize, prefix: &[u8]) {
    bytes[at::KIND..at::HEADS].fill(0);
    bytes[at::LEVEL] = level;
    set_short(bytes, at::COUNT, count);
    set_short(bytes, at::PREFIX, prefix.len());
    bytes[PAGE - prefix.len()..].copy_from_slice(prefix);
}

/// Makes a page that is begun a uniform leaf; where its first record belongs.
pub(super) fn shape(
    bytes: &mut Bytes,
    prefix: usize,
    key: usize,
    value: usize,
    is_far: bool,
) -> usize {
    let rest = key - prefix;
    let room = (PAGE - prefix - at::HEADS) / (HEAD + rest.saturating_sub(HEAD) + value);
    bytes[at::KIND] = Kind::Uniform as u8;
    set_short(bytes, at::ROOM, room);
    set_short(bytes, at::REST, rest);
    set_short(bytes, at::VALUE, value);
    set_short(bytes, at::FLAGS, if is_far { usize::from(REFERENCES) } else { 0 });
    at::HEADS + HEAD * room
}

/// For how many records there is room in the arrays of a leaf with a heap that takes so many bytes: as
/// much more as there is for records of the same size.
pub(super) fn heap_room(prefix: usize, count: usize, bytes: usize) -> usize {
    let size = bytes - prefix - at::HEADS;
    let spare = (PAGE - prefix - at::HEADS).saturating_sub(size);
    count + spare / (size / count.max(1)).max(1)
}

/// Makes a page that is begun a leaf with a heap.
pub(super) fn begin_heap(bytes: &mut Bytes, room: usize, tagged: Tagged) {
    bytes[at::KIND] = Kind::Leaf as u8;
    tagged.write(bytes);
    set_short(bytes, at::ROOM, room);
}

pub(super) fn set_head(bytes: &mut Bytes, i: usize, rest: &[u8]) {
    let place = at::HEADS + HEAD * i;
    bytes[place..place + HEAD].copy_from_slice(&head_of(rest).to_le_bytes());
}
