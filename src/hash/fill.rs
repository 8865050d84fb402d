//! Filling a new index with the records of a log, all at once.
//!
//! They are collected by where they go; then those are left that are the last of their keys, and every page is made in the
//! size that it will have. In an index that grows record by record each slot is copied some six times, and each record
//! is looked at again: that took twice as long. Where more records wait than there is memory for, those that are there are
//! entered at once, and what follows one by one, a part of the index at a time.

use super::format::words;
use super::grow::{is_sensible_depth, skewed};
use super::index::{State, not_a_record};
use super::page::{Page, SIZES, SLOTS, size_for, slot};
use super::record::Kind;
use super::view::{RecordView, record};
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::Ordering;
use crate::os::memory::memory_bytes;
use crate::sort::sort_nearly_sorted;

/// Bytes of the log for each part: what is sorted together then stays in the processor's caches, and so do the pages of a
/// part and the way to them in the tables of addresses.
const PART: u64 = 128 << 10;
/// At most so many parts, lest the records that wait take much memory.
const PARTS: u64 = 4096;
/// Of the memory that there is, the share for records that wait.
const MEMORY_SHARE: u64 = 32;
/// Records of a part that are entered at a time where the index has some already.
const TOGETHER: usize = 64;
/// Keys of the same place, of which a page has room for so many.
const MOST_OF_A_PLACE: usize = SIZES[SIZES.len() - 1] as usize * SLOTS;

/// A record to be entered.
#[derive(Clone, Copy)]
struct Item {
    /// Where its key belongs.
    place: u64,
    /// Where it is, a multiple of eight; and one more if it is a put. 0 if another took its place.
    at: u64,
}

impl Item {
    fn new(place: u64, at: u64, is_put: bool) -> Item {
        Item { place, at: at | u64::from(is_put) }
    }

    fn is_put(self) -> bool {
        self.at & 1 == 1
    }

    fn at(self) -> u64 {
        self.at & !1
    }
}

/// Records to be entered, by the part of the index that they go to; those of one key keep their order.
pub(crate) struct Collected {
    shift: u32,
    parts: Vec<Vec<Item>>,
    /// How many may wait for the index to be made.
    most: usize,
    /// How many do, and the bytes of those that are puts; `None` when it is made.
    first: Option<(usize, u64)>,
}

impl Collected {
    /// None, of a log of so many bytes.
    pub(crate) fn new(log_bytes: u64) -> Collected {
        let parts = (log_bytes / PART).clamp(2, PARTS).next_power_of_two();
        Collected {
            shift: 64 - parts.ilog2(),
            parts: vec![Vec::new(); parts as usize],
            most: memory_bytes() as usize / MEMORY_SHARE as usize / size_of::<Item>(),
            first: Some((0, 0)),
        }
    }
}

impl Writer<'_> {
    /// Takes the record at `at`, a put or what takes one away, whose key belongs to `place`.
    #[inline]
    pub(crate) fn collect(
        &self,
        collected: &mut Collected,
        at: u64,
        place: u64,
        found: &RecordView<'_>,
    ) -> Result<()> {
        let is_put = found.header.kind == Kind::Put;
        let Some(part) = collected.parts.get_mut((place >> collected.shift) as usize) else {
            return Ok(());
        };
        part.push(Item::new(place, at, is_put));
        match &mut collected.first {
            Some((count, live)) => {
                *count += 1;
                *live += if is_put { found.header.room() } else { 0 };
                if *count >= collected.most { self.make_pages(collected) } else { Ok(()) }
            }
            None if part.len() == TOGETHER => self.enter_part(part),
            None => Ok(()),
        }
    }

    /// Forgets what waits, and what was entered.
    pub(crate) fn forget_collected(&self, collected: &mut Collected) -> Result<()> {
        collected.parts.iter_mut().for_each(Vec::clear);
        collected.first = Some((0, 0));
        self.empty_index()
    }

    /// Enters all that waits.
    pub(crate) fn enter_collected(&self, collected: &mut Collected) -> Result<()> {
        if collected.first.is_some() {
            return self.make_pages(collected);
        }
        collected.parts.iter_mut().try_for_each(|part| self.enter_part(part))
    }

    /// Makes the pages of an empty index from all that waits.
    fn make_pages(&self, collected: &mut Collected) -> Result<()> {
        let Some((_, mut live)) = collected.first.take() else { return Ok(()) };
        let mut scratch = Vec::new();
        for part in &mut collected.parts {
            sort(part, collected.shift, &mut scratch);
            live -= self.leave_last(part)?;
            part.retain(|item| item.is_put());
        }
        let total: usize = collected.parts.iter().map(Vec::len).sum();
        let (old, total) = (self.directory()?, total as u64);
        let old_page = self.index.page(old, 0)?;
        // As an index of this size grows them.
        let most_lines = (total / SLOTS as u64 / 8).clamp(SIZES[3], SIZES[10]);
        self.reserve_index(self.index.load(words::BUMP) + total / SLOTS as u64)?;
        let mut pages = Pages { most_lines, total, made: Vec::new(), slots: Vec::new() };
        self.divide(Share::Parts(&collected.parts), 0, &mut pages)?;
        collected.parts.iter_mut().for_each(|part| *part = Vec::new());
        self.name_pages(&pages.made)?;
        self.retire(old.directory() - 1)?;
        self.retire(old_page.block)?;
        self.index.store(words::COUNT, total);
        self.index.store(words::LIVE, live);
        Ok(())
    }

    /// Makes the pages of these records, whose places begin with the same `depth` bits.
    fn divide(&self, share: Share<'_>, depth: u32, pages: &mut Pages) -> Result<()> {
        let count = share.len();
        let size = size_for(count as u64 + 1, 0).filter(|lines| *lines <= pages.most_lines);
        if size.is_none() && is_sensible_depth(depth + 1, pages.total) {
            let (lower, upper) = share.halves(depth);
            self.divide(lower, depth + 1, pages)?;
            return self.divide(upper, depth + 1, pages);
        }
        if size.is_none() && count > MOST_OF_A_PLACE {
            return Err(skewed());
        }
        // Where their hashes do not tell them apart one page has them all.
        let page = Page { block: 0, lines: size.unwrap_or(SIZES[10]), depth, base: depth };
        pages.slots.clear();
        share.each(|item| pages.slots.push(slot(page.tag(item.place), item.at())));
        pages.made.push(self.filled(page, &pages.slots)?);
        Ok(())
    }

    /// Puts a directory of these pages, which are in its order, in the place of the one that there is.
    fn name_pages(&self, pages: &[Page]) -> Result<()> {
        let depth = pages.iter().map(|page| page.depth).max().unwrap_or(0);
        let directory = self.allocate(State::new(0, depth).directory_lines())?;
        let state = self.index.state().with_directory(directory + 1, depth);
        let mut at = 0;
        for page in pages {
            for _ in 0..1u64 << (depth - page.depth) {
                self.index.entry(state, at)?.store(page.encode(), Ordering::Relaxed);
                at += 1;
            }
        }
        self.index.set_state(state);
        self.index.store(words::PAGE_LINES, pages.iter().map(|page| page.lines).sum());
        Ok(())
    }

    /// Leaves of the puts of sorted records those that nothing after them replaced or took away; the bytes of the others.
    fn leave_last(&self, part: &mut [Item]) -> Result<u64> {
        let mut from = 0;
        let mut several = Vec::new();
        for same in part.chunk_by(|a, b| a.place == b.place) {
            if same.len() > 1 {
                several.push(from..from + same.len());
            }
            from += same.len();
        }
        let mut gone = 0;
        for together in several.chunks(TOGETHER / 2) {
            for item in together.iter().flat_map(|range| part.get(range.clone()).unwrap_or(&[])) {
                self.core.data.prefetch(item.at());
            }
            for range in together {
                let same = part.get_mut(range.clone()).unwrap_or_default();
                gone += self.leave_last_of(same)?;
            }
        }
        Ok(gone)
    }

    /// The same of records whose keys have one place, and nearly always are one key.
    fn leave_last_of(&self, same: &mut [Item]) -> Result<u64> {
        let mut gone = 0;
        // For each key that has a put: its number among the records, and its bytes.
        let mut last: Vec<(&[u8], usize, u64)> = Vec::new();
        for i in 0..same.len() {
            let Some(item) = same.get(i).copied() else { break };
            let found = record(&self.core.data, self, item.at());
            let found = found.ok_or_else(|| not_a_record(item.at()))?;
            let key = self.core.key_of(self, &found).ok_or_else(|| not_a_record(item.at()))?;
            if let Some(old) = last.iter().position(|(other, ..)| *other == key) {
                let (_, old, room) = last.swap_remove(old);
                gone += room;
                if let Some(old) = same.get_mut(old) {
                    old.at = 0;
                }
            }
            if item.is_put() {
                last.push((key, i, found.header.room()));
            }
            if last.len() > MOST_OF_A_PLACE {
                return Err(skewed());
            }
        }
        Ok(gone)
    }

    /// Enters the records of a part in an index that has some, and empties it.
    fn enter_part(&self, part: &mut Vec<Item>) -> Result<()> {
        for item in part.iter() {
            self.index.prefetch(item.place);
            self.core.data.prefetch(item.at());
        }
        for item in part.drain(..) {
            let found = record(&self.core.data, self, item.at());
            let found = found.ok_or_else(|| not_a_record(item.at()))?;
            self.enter_anew(item.at(), item.place, &found)?;
        }
        Ok(())
    }

    /// Enters a record in an index that nobody uses yet.
    fn enter_anew(&self, at: u64, place: u64, found: &RecordView<'_>) -> Result<()> {
        let is_put = found.header.kind == Kind::Put;
        let key = self.core.key_of(self, found).ok_or_else(|| not_a_record(at))?;
        let old = self.index.locate(&self.core.data, self, key, place)?;
        let old_room = old.map_or(0, |old| old.room);
        let (mut count, mut live) = (self.index.load(words::COUNT), self.index.load(words::LIVE));
        count -= u64::from(old.is_some());
        live -= old_room;
        if is_put {
            count += 1;
            live += found.header.room();
        }
        match (old, is_put) {
            (Some(old), true) => old.lead_to(at),
            (Some(old), false) => old.clear(),
            (None, true) => self.slot_for(place)?.lead_to(at),
            (None, false) => {}
        }
        self.index.store(words::COUNT, count);
        self.index.store(words::LIVE, live);
        Ok(())
    }
}

/// Pages that are being made.
struct Pages {
    /// Records of all of them.
    total: u64,
    most_lines: u64,
    made: Vec<Page>,
    /// Reused: what the slots of a page say.
    slots: Vec<u64>,
}

/// Records, sorted by place.
#[derive(Clone, Copy)]
enum Share<'i> {
    /// Of so many parts, a power of two.
    Parts(&'i [Vec<Item>]),
    /// Of one part.
    Items(&'i [Item]),
}

impl Share<'_> {
    fn len(self) -> usize {
        match self {
            Share::Parts(parts) => parts.iter().map(Vec::len).sum(),
            Share::Items(items) => items.len(),
        }
    }

    fn each(self, f: impl FnMut(&Item)) {
        match self {
            Share::Parts(parts) => parts.iter().flatten().for_each(f),
            Share::Items(items) => items.iter().for_each(f),
        }
    }

    /// Those whose place has a zero after `depth` bits, and those that have a one there.
    fn halves(self, depth: u32) -> (Self, Self) {
        let items = match self {
            Share::Parts([one]) => one,
            Share::Parts(parts) => {
                let (lower, upper) = parts.split_at(parts.len() / 2);
                return (Share::Parts(lower), Share::Parts(upper));
            }
            Share::Items(items) => items,
        };
        let middle = items.partition_point(|item| item.place << depth >> 63 == 0);
        let (lower, upper) = items.split_at(middle);
        (Share::Items(lower), Share::Items(upper))
    }
}

/// Sorts the records of a part by place, those of one place as they were: each goes to one of about as many ranges as
/// there are records, which leaves little to be done.
fn sort(part: &mut Vec<Item>, shift: u32, scratch: &mut Vec<Item>) {
    let bits = part.len().max(2).ilog2();
    let range = |item: &Item| (item.place << (64 - shift) >> (64 - bits)) as usize;
    let mut starts = vec![0u32; 1 << bits];
    for item in part.iter() {
        starts[range(item)] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        (*start, sum) = (sum, sum + *start);
    }
    scratch.clear();
    scratch.resize(part.len(), Item { place: 0, at: 0 });
    for item in part.iter() {
        let start = &mut starts[range(item)];
        scratch[*start as usize] = *item;
        *start += 1;
    }
    std::mem::swap(part, scratch);
    sort_nearly_sorted(part, |item| item.place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;
    use crate::hash::index::Index;
    use crate::hash::page::{address_of, tag_of};
    use crate::hash::rebuild::Log;
    use crate::hash::record::RecordHeader;
    use crate::os::shared::memory_file;
    use std::collections::BTreeMap;
    use std::marker::PhantomData;

    /// Keys and values that an index made from the log of a store leads to, where at most `most` records wait.
    fn made_from(store: &Hash, most: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let core = store.core();
        let writer = core.writer().unwrap();
        let header = writer.index.header;
        let of_store = core.header;
        let file = memory_file().unwrap();
        let index = Index::create(file, 1 << 30, of_store, header.hash_id, header.seed).unwrap();
        let maker = Writer { core, index: &index, lock: None, _here: PhantomData };
        let collected = Collected { most, ..Collected::new(core.data.len()) };
        maker.rebuild_by(Log::Until(writer.index.load(words::TAIL)), collected).unwrap();
        let mut found = BTreeMap::new();
        let mut live = 0;
        let each = |page| {
            for entry in maker.entries(page)? {
                let at = address_of(entry);
                let view = record(&core.data, &maker, at).ok_or_else(|| not_a_record(at))?;
                let place = index.place(view.key);
                assert_eq!(page.tag(place), tag_of(entry));
                assert!(index.locate(&core.data, &maker, view.key, place)?.is_some());
                live += view.header.room();
                assert!(found.insert(view.key.to_vec(), view.value.to_vec()).is_none());
            }
            Ok(())
        };
        index.each_page(index.state(), each).unwrap();
        assert_eq!(index.load(words::COUNT), found.len() as u64);
        assert_eq!(index.load(words::LIVE), live);
        found
    }

    /// Whatever was done, and whether all of it waits, or some of it is entered before.
    #[test]
    fn an_index_made_at_once_leads_to_what_the_store_has() {
        let seed = std::env::var("CREDENZA_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| crate::os::process::random_word().unwrap());
        println!("CREDENZA_SEED={seed}");
        let mut state = seed;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % below
        };
        for most_keys in [0, 1, 50, 700, 20_000] {
            let store = Hash::in_memory().unwrap();
            let mut model = BTreeMap::new();
            for turn in 0..2 * most_keys {
                let key = format!("a key of {} characters", random(most_keys)).into_bytes();
                if random(4) == 0 {
                    assert_eq!(store.remove(&key).unwrap(), model.remove(&key).is_some());
                } else {
                    let value = vec![turn as u8; random(40) as usize];
                    store.insert(&key, &value).unwrap();
                    model.insert(key, value);
                }
                if random(2 * most_keys) == 0 {
                    store.clear().unwrap();
                    model.clear();
                }
            }
            for most in [1, 10, 1000, usize::MAX] {
                assert!(made_from(&store, most) == model, "{most_keys} keys, {most} wait");
            }
        }
    }

    /// Keys whose hashes are equal are told apart by what they are.
    #[test]
    fn of_keys_of_one_place_the_last_of_each_is_left() {
        let store = Hash::in_memory().unwrap();
        let writer = store.core().writer().unwrap();
        let mut cursor = writer.cursor();
        let mut items = Vec::new();
        let mut rooms = Vec::new();
        for (key, kind) in [
            (b"a", Kind::Put),
            (b"b", Kind::Put),
            (b"a", Kind::Put),
            (b"c", Kind::Put),
            (b"d", Kind::Delete),
            (b"b", Kind::Delete),
        ] {
            let header = RecordHeader { kind, key_len: 1, value_len: 0 };
            let at = writer.append_record(&mut cursor, header, key, &[]).unwrap();
            items.push(Item::new(7, at, kind == Kind::Put));
            rooms.push(header.room());
        }
        let gone = writer.leave_last_of(&mut items).unwrap();
        let left: Vec<usize> = (0..items.len()).filter(|i| items[*i].is_put()).collect();
        assert_eq!(left, [2, 3]);
        assert_eq!(gone, rooms[0] + rooms[1]);
    }
}
