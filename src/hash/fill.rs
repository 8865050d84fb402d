//! Filling a new index with the records of a log, all at once.
//!
//! They are collected by where they go; then those are left that are the last of their keys, and every page is made in the
//! size that it will have. In an index that grows record by record each slot is copied some six times, and each record
//! is looked at again: that took twice as long. Where more records wait than there is memory for, those that others
//! replaced are left out; if that is not half of them, what is there is entered at once, and what follows one by one, a
//! part of the index at a time.

use super::format::words;
use super::grow::{is_sensible_depth, most_lines, skewed};
use super::index::{State, not_a_record};
use super::page::{MOST_LINES, Page, SLOTS, size_for, slot};
use super::record::Kind;
use super::view::{RecordView, record};
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::Ordering;
use crate::os::memory::own_memory_bytes;
use crate::sort::sort_nearly_sorted;

/// Bytes of the log for each part: what is sorted together then stays in the processor's caches, and so do the pages of a
/// part and the way to them in the tables of addresses.
const PART: u64 = 128 << 10;
/// At most so many parts, as each is written to in turn.
const PARTS: u64 = 4096;
/// Of the memory that there is, the share for records that wait. Lists that grow, and are sorted, take three times as much.
const MEMORY_SHARE: u64 = 32;
/// So many records, or places of several, are waited for at a time.
const TOGETHER: usize = 64;

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
    to_be_made: Option<(usize, u64)>,
}

impl Collected {
    /// None, of a log of so many bytes.
    pub(crate) fn new(log_bytes: u64) -> Collected {
        let parts = (log_bytes / PART).clamp(2, PARTS).next_power_of_two();
        Collected {
            shift: 64 - parts.ilog2(),
            parts: vec![Vec::new(); parts as usize],
            most: own_memory_bytes() as usize / MEMORY_SHARE as usize / size_of::<Item>(),
            to_be_made: Some((0, 0)),
        }
    }

    /// Forgets what waits, with its memory, lest each part keeps as much as all may have.
    fn give_back(&mut self) {
        self.parts.iter_mut().for_each(|part| *part = Vec::new());
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
        let part = &mut collected.parts[(place >> collected.shift) as usize];
        part.push(Item::new(place, at, is_put));
        match &mut collected.to_be_made {
            Some((count, live)) => {
                *count += 1;
                *live += if is_put { found.header.room() } else { 0 };
                if *count >= collected.most { self.make_space(collected) } else { Ok(()) }
            }
            None if part.len() == TOGETHER => self.enter_part(part),
            None => Ok(()),
        }
    }

    /// Forgets what waits, and what was entered.
    pub(crate) fn forget_collected(&self, collected: &mut Collected) -> Result<()> {
        collected.give_back();
        collected.to_be_made = Some((0, 0));
        self.empty_index()
    }

    /// Enters all that waits.
    pub(crate) fn enter_collected(&self, collected: &mut Collected) -> Result<()> {
        if collected.to_be_made.is_some() {
            self.leave_last(collected)?;
            return self.make_pages(collected);
        }
        collected.parts.iter_mut().try_for_each(|part| self.enter_part(part))
    }

    /// When as many wait as may.
    fn make_space(&self, collected: &mut Collected) -> Result<()> {
        self.leave_last(collected)?;
        let is_enough = |(count, _)| count <= collected.most / 2;
        if collected.to_be_made.is_some_and(is_enough) {
            Ok(())
        } else {
            self.make_pages(collected)
        }
    }

    /// Sorts what waits for the index, and leaves those puts that nothing after them replaced or took away.
    fn leave_last(&self, collected: &mut Collected) -> Result<()> {
        let Some((count, live)) = &mut collected.to_be_made else { return Ok(()) };
        let mut scratch = Vec::new();
        *count = 0;
        for part in &mut collected.parts {
            sort(part, collected.shift, &mut scratch);
            // Who may only read has nobody keep the log as it was when these were added.
            *live = live.saturating_sub(self.leave_last_of_part(part)?);
            part.retain(|item| item.is_put());
            // What it was sorted in may be far longer.
            part.shrink_to_fit();
            *count += part.len();
        }
        Ok(())
    }

    /// Makes the pages of an empty index from all that waits, which is sorted.
    fn make_pages(&self, collected: &mut Collected) -> Result<()> {
        let Some((total, live)) = collected.to_be_made.take() else { return Ok(()) };
        let (old, total) = (self.directory()?, total as u64);
        let old_page = self.index.page(old, 0)?;
        let lines = total / SLOTS as u64;
        self.reserve_index(self.index.load(words::BUMP) + lines)?;
        let most_lines = most_lines(lines);
        let mut pages = Pages { most_lines, total, made: Vec::new(), slots: Vec::new() };
        self.divide(Share::Parts(&collected.parts), 0, &mut pages)?;
        collected.give_back();
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
        // Where their hashes do not tell them apart one page has them all, if it can.
        if size.is_none() && count > MOST_LINES * SLOTS {
            return Err(skewed());
        }
        let lines = size.unwrap_or(MOST_LINES as u64);
        let page = Page { block: 0, lines, depth, base: depth };
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

    /// Marks the puts of sorted records that others replaced, or took away, as gone; how many bytes they have.
    fn leave_last_of_part(&self, part: &mut [Item]) -> Result<u64> {
        let same_places = part.chunk_by_mut(|a, b| a.place == b.place);
        let mut several: Vec<&mut [Item]> = same_places.filter(|same| same.len() > 1).collect();
        let mut gone = 0;
        for together in several.chunks_mut(TOGETHER) {
            for item in together.iter().flat_map(|same| same.iter()) {
                self.core.data.prefetch(item.at());
            }
            for same in together {
                gone += self.leave_last_of_place(same)?;
            }
        }
        Ok(gone)
    }

    /// The same of records whose keys have one place, and nearly always are one key.
    fn leave_last_of_place(&self, same: &mut [Item]) -> Result<u64> {
        let mut gone = 0;
        // For each key that has a put: its number among the records, and its bytes.
        let mut last: Vec<(&[u8], usize, u64)> = Vec::new();
        for i in 0..same.len() {
            let item = same[i];
            let found = record(&self.core.data, self, item.at());
            let found = found.ok_or_else(|| not_a_record(item.at()))?;
            let key = self.core.key_of(self, &found).ok_or_else(|| not_a_record(item.at()))?;
            if let Some(old) = last.iter().position(|(other, ..)| *other == key) {
                let (_, old, room) = last.swap_remove(old);
                gone += room;
                same[old].at = 0;
            }
            if item.is_put() {
                last.push((key, i, found.header.room()));
            }
            if last.len() > MOST_LINES * SLOTS {
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
    /// How large one may be: as an index of this size grows them.
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
    let mut starts = vec![0usize; 1 << bits];
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
        scratch[*start] = *item;
        *start += 1;
    }
    std::mem::swap(part, scratch);
    sort_nearly_sorted(part, |item| item.place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;
    use crate::hash::grow::is_skewed;
    use crate::hash::index::Index;
    use crate::hash::page::{address_of, tag_of};
    use crate::hash::rebuild::Log;
    use crate::hash::record::RecordHeader;
    use crate::os::shared::memory_file;
    use std::collections::BTreeMap;
    use std::marker::PhantomData;

    type Map = BTreeMap<Vec<u8>, Vec<u8>>;

    /// Keys and values that an index leads to which is made from the log of a store, with this hash, where at most `most`
    /// records wait; and the depth of its directory.
    fn made_from(store: &Hash, (hash_id, seed): (u32, u64), most: usize) -> Result<(Map, u32)> {
        let core = store.core();
        let writer = core.writer()?;
        let index = Index::create(memory_file()?, 1 << 30, core.header, hash_id, seed)?;
        let maker = Writer { core, index: &index, lock: None, _here: PhantomData };
        let collected = Collected { most, ..Collected::new(core.data.len()) };
        maker.rebuild_by(Log::Until(writer.index.load(words::TAIL)), collected)?;
        let (mut found, mut live) = (Map::new(), 0);
        index.each_page(index.state(), |page| {
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
        })?;
        assert_eq!(index.load(words::COUNT), found.len() as u64);
        assert_eq!(index.load(words::LIVE), live);
        Ok((found, index.state().depth()))
    }

    fn hash_of(store: &Hash) -> (u32, u64) {
        let header = store.core().newest.get().header;
        (header.hash_id, header.seed)
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
                let (found, _) = made_from(&store, hash_of(&store), most).unwrap();
                assert!(found == model, "{most_keys} keys, {most} wait");
            }
        }
    }

    /// Keys that a hash does not tell apart are few, or there is another hash for them.
    #[test]
    fn keys_of_one_place_make_no_deep_directory() {
        for (crowded, others) in
            [(100, 5000), (250, 2000), (400, 3000), (700, 5000), (700, 7000), (1500, 5000)]
        {
            let store = Hash::in_memory().unwrap();
            let hash = hash_of(&store);
            let index = store.core().newest.get();
            let keys = (0u64..).map(u64::to_le_bytes);
            let of_one_page = keys.filter(|key| index.place(key) >> 52 == 7).take(crowded);
            let mut model = Map::new();
            for key in (0..others).map(u64::to_be_bytes).chain(of_one_page.collect::<Vec<_>>()) {
                // Keys that crowd together have the store take another hash itself.
                let _ = store.insert(&key, b"value");
                store.insert(&key, b"value").unwrap();
                model.insert(key.to_vec(), b"value".to_vec());
            }
            store.verify(|_, _| ()).unwrap();
            for most in [10, 1000, usize::MAX] {
                match made_from(&store, hash, most) {
                    Ok((found, depth)) => {
                        assert!(found == model);
                        assert!(depth <= 12, "{depth}");
                    }
                    Err(error) => {
                        assert!(crowded == 1500 || most < usize::MAX, "{crowded}, {others}");
                        assert!(is_skewed(&error), "{error}");
                    }
                }
            }
            for has_other_hash in [false, true] {
                store.rebuild_index(has_other_hash).unwrap();
                store.verify(|_, _| ()).unwrap();
                store.insert(b"one more", b"value").unwrap();
                store.remove(b"one more").unwrap();
                let (found, depth) = made_from(&store, hash_of(&store), usize::MAX).unwrap();
                assert!(found == model && depth <= 12);
            }
        }
    }

    /// What others replaced is left out before the index is made, and its memory is given back.
    #[test]
    fn what_was_replaced_does_not_wait() {
        const MOST: usize = 100;
        let store = Hash::in_memory().unwrap();
        let writer = store.core().writer().unwrap();
        let mut cursor = writer.cursor();
        let header = RecordHeader { kind: Kind::Put, key_len: 1, value_len: 0 };
        for keys in [1, 40] {
            let mut collected = Collected { most: MOST, ..Collected::new(1 << 20) };
            let held =
                |collected: &Collected| collected.parts.iter().map(Vec::capacity).sum::<usize>();
            for i in 0..10_000u64 {
                let at =
                    writer.append_record(&mut cursor, header, &[(i % keys) as u8], &[]).unwrap();
                let found = record(&store.core().data, &writer, at).unwrap();
                let place = (i % keys).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                writer.collect(&mut collected, at, place, &found).unwrap();
                assert!(collected.to_be_made.is_some_and(|(count, _)| count < MOST));
                assert!(held(&collected) < 4 * MOST, "{}", held(&collected));
            }
            writer.forget_collected(&mut collected).unwrap();
            assert_eq!(held(&collected), 0);
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
        let gone = writer.leave_last_of_place(&mut items).unwrap();
        let left: Vec<usize> = (0..items.len()).filter(|i| items[*i].is_put()).collect();
        assert_eq!(left, [2, 3]);
        assert_eq!(gone, rooms[0] + rooms[1]);
    }
}
