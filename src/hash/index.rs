//! The index: from the place of a key to the address of its record.
//!
//! A directory, indexed by the first bits of the place, names pages; a page ([`super::page`]) holds
//! slots. Readers take no lock: they load the state word, the directory's entry, a line, and look
//! at the record. All of these are replaced by one store each, and what was replaced stays as it
//! was until no reader can be looking at it any more ([`super::blocks`]): so a reader sees the
//! index as it was at some moment during its call.
//!
//! Nothing read from the file is trusted: what leads outside is damage.

use super::entering::value_of;
use super::format::{INDEX_HEADER, IndexHeader, words};
use super::page::{
    LINE, OVERFLOW, Page, address_of, candidates, moved_to, overflows, place_of, tag_of,
};
use super::view::{Holds, RecordView, record, room_if_key, value_if_key};
use crate::keyhash::KeyHash;
use crate::os::atomic::{AtomicU64, Ordering};
use crate::os::shared::SharedMap;
use crate::{Error, Result};
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

/// Lookups that wait for memory at the same time.
const BATCH: usize = 32;

/// Where the index says where a key's record is.
#[derive(Clone, Copy)]
pub(crate) struct Located<'i> {
    pub word: &'i AtomicU64,
    pub slot: u64,
    /// Bytes that the record takes in the log.
    pub room: u64,
}

impl Located<'_> {
    /// Has it lead to the record at `at` from now on.
    #[inline(always)]
    pub(crate) fn lead_to(self, at: u64) {
        self.word.store(moved_to(self.slot, at), Ordering::Release);
    }

    /// Has it lead nowhere; the mark of its line stays.
    #[inline(always)]
    pub(crate) fn clear(self) {
        self.word.store(self.slot & OVERFLOW, Ordering::Release);
    }
}

/// An index file that is mapped.
#[derive(Debug)]
pub(crate) struct Index {
    pub map: SharedMap,
    pub header: IndexHeader,
    pub hash: KeyHash,
    /// Whether a writer of this process has looked at what it says ([`super::check`]), or made it.
    pub is_checked: AtomicBool,
    /// The epoch in which another was in its place; 0 as long as nobody has noted that.
    pub replaced: AtomicU64,
    /// The number of the batch that was not over soon when somebody of this process waited for that.
    pub waited_for: AtomicU64,
}

/// The state word: the directory's first line (32 bits), its depth (6), how many batches were
/// entered (24), whether puts wait in the ring, and whether a batch is being entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub u64);

impl State {
    const BUSY: u64 = 1 << 63;
    const PENDING: u64 = 1 << 62;
    const ONE_BATCH: u64 = 1 << 38;
    const BATCHES: u64 = State::PENDING - State::ONE_BATCH;

    pub(crate) fn new(directory: u64, depth: u32) -> State {
        State(directory | u64::from(depth) << 32)
    }

    /// The same with another directory.
    pub(crate) fn with_directory(self, directory: u64, depth: u32) -> State {
        let kept = self.0 & (State::BUSY | State::PENDING | State::BATCHES);
        State(State::new(directory, depth).0 | kept)
    }

    /// The directory's first line in the file.
    #[inline(always)]
    pub(crate) fn directory(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    #[inline(always)]
    pub(crate) fn depth(self) -> u32 {
        (self.0 >> 32 & 0x3f) as u32
    }

    #[inline(always)]
    pub(crate) fn is_busy(self) -> bool {
        self.0 & State::BUSY != 0
    }

    /// How many batches were entered.
    pub(super) fn batches(self) -> u64 {
        (self.0 & State::BATCHES) / State::ONE_BATCH
    }

    /// Whether puts wait in the ring: what the pages say is not the newest.
    #[inline(always)]
    pub(crate) fn is_pending(self) -> bool {
        self.0 & State::PENDING != 0
    }

    /// Whether the pages say all there is to say.
    #[inline(always)]
    pub(crate) fn is_settled(self) -> bool {
        self.0 & (State::BUSY | State::PENDING) == 0
    }

    /// While puts wait.
    pub(crate) fn pending(self) -> State {
        State(self.0 | State::PENDING)
    }

    /// When none waits.
    pub(crate) fn settled(self) -> State {
        State(self.0 & !State::PENDING)
    }

    /// Whether no batch was entered, or begun to be, from one to the other.
    pub(crate) fn is_of_same_batch(self, other: State) -> bool {
        (self.0 ^ other.0) & (State::BUSY | State::BATCHES) == 0
    }

    /// While a batch is being entered.
    pub(crate) fn busy(self) -> State {
        State(self.0 | State::BUSY)
    }

    /// When it is.
    pub(crate) fn done(self) -> State {
        State(self.counted().0 & !State::BUSY)
    }

    /// With one batch more.
    pub(crate) fn counted(self) -> State {
        let batches = self.0.wrapping_add(State::ONE_BATCH) & State::BATCHES;
        State(self.0 & !State::BATCHES | batches)
    }

    /// Entries of the directory.
    pub(crate) fn entries(self) -> u64 {
        1 << self.depth()
    }

    /// Lines of the directory.
    pub(crate) fn directory_lines(self) -> u64 {
        1 << self.depth().saturating_sub(3)
    }

    /// Where the entry for a place is in the file.
    #[inline(always)]
    fn entry_at(self, place: u64) -> u64 {
        // Two shifts: with a depth of zero one alone would be by 64.
        (self.directory() * LINE)
            .wrapping_add(((place >> 1) >> (63 - self.depth())).wrapping_mul(8))
    }
}

impl Index {
    pub(crate) fn new(map: SharedMap, header: IndexHeader) -> Result<Index> {
        let hash = KeyHash::new(header.hash_id, header.seed);
        let hash = hash.ok_or_else(|| damaged(12, "an unknown hash function"))?;
        let is_checked = AtomicBool::new(false);
        let (replaced, waited_for) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Ok(Index { map, header, hash, is_checked, replaced, waited_for })
    }

    /// The place of a key.
    #[inline(always)]
    pub(crate) fn place(&self, key: &[u8]) -> u64 {
        place_of(self.hash.hash(key))
    }

    /// A word of the head; `offset` is one of [`words`].
    #[inline(always)]
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        &self.map.head()[offset as usize / 8]
    }

    #[inline(always)]
    pub(crate) fn load(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn store(&self, offset: u64, value: u64) {
        self.word(offset).store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> State {
        State(self.word(words::STATE).load(Ordering::Acquire))
    }

    /// Only the writer.
    pub(crate) fn set_state(&self, state: State) {
        self.word(words::STATE).store(state.0, Ordering::Release);
    }

    /// Whether a block of so many lines, and one of its own, can be there.
    #[inline(always)]
    pub(crate) fn has_block(&self, block: u64, lines: u64) -> bool {
        let end = block.saturating_add(lines).saturating_add(1);
        block >= INDEX_HEADER / LINE && end <= self.load(words::BUMP)
    }

    /// The directory's entry number `i`.
    #[inline(always)]
    pub(crate) fn entry(&self, state: State, i: u64) -> Result<&AtomicU64> {
        let at = (state.directory() * LINE).wrapping_add(i.wrapping_mul(8));
        self.reach(at, 8, |map| map.word(at))
    }

    /// The page that holds a place.
    #[inline(always)]
    pub(crate) fn page(&self, state: State, place: u64) -> Result<Page> {
        let at = state.entry_at(place);
        let entry = self.reach(at, 8, |map| map.word(at))?;
        Ok(Page::decode(entry.load(Ordering::Acquire)))
    }

    /// Gives every page to `f`, in the order of the directory: each once, and all of it in one part
    /// of the directory.
    pub(crate) fn each_page(
        &self,
        state: State,
        mut f: impl FnMut(Page) -> Result<()>,
    ) -> Result<()> {
        let mut at = 0;
        while at < state.entries() {
            let page = Page::decode(self.entry(state, at)?.load(Ordering::Acquire));
            let cover = self.cover(state, page)?;
            if at % cover != 0 {
                return Err(not_a_page(state));
            }
            for other in at..at + cover {
                if self.entry(state, other)?.load(Ordering::Acquire) != page.encode() {
                    return Err(damaged(other, "a part of a page is looked for elsewhere"));
                }
            }
            f(page)?;
            at += cover;
        }
        Ok(())
    }

    /// How many entries of the directory name a page; an error if there can be no such page.
    pub(crate) fn cover(&self, state: State, page: Page) -> Result<u64> {
        let shift = state.depth().checked_sub(page.depth).filter(|_| page.is_possible());
        let shift = shift.filter(|_| self.has_block(page.block, page.lines));
        shift.map(|shift| 1 << shift).ok_or_else(|| not_a_page(state))
    }

    /// A line of a page.
    #[inline(always)]
    pub(crate) fn line(&self, page: Page, line: u64) -> Result<&[AtomicU64; 8]> {
        let at = page.line_at(line);
        self.reach(at, LINE, |map| map.line(at))
    }

    /// What `get` finds in the map, looking again if others have made the file longer.
    #[inline(always)]
    fn reach<'m, T>(
        &'m self,
        at: u64,
        len: u64,
        get: impl Fn(&'m SharedMap) -> Option<T>,
    ) -> Result<T> {
        match get(&self.map) {
            Some(found) => Ok(found),
            None => self.reach_after_growth(at, len, get),
        }
    }

    #[cold]
    fn reach_after_growth<'m, T>(
        &'m self,
        at: u64,
        len: u64,
        get: impl Fn(&'m SharedMap) -> Option<T>,
    ) -> Result<T> {
        let end = self.map.refresh_len()?;
        let found =
            if at.checked_add(len).is_some_and(|last| last <= end) { get(&self.map) } else { None };
        found.ok_or_else(|| damaged(at, "the index leads past its end"))
    }

    /// The slots that may be those of an entry with this tag, as `f` wants them, until it says so.
    #[inline(always)]
    pub(crate) fn probe<'i, T>(
        &'i self,
        page: Page,
        tag: u64,
        mut f: impl FnMut(&'i AtomicU64, u64) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut number = page.line(tag);
        // As many lines as there are, lest a damaged page leads in a circle.
        for _ in 0..page.lines {
            let line = self.line(page, number)?;
            let mut mask = candidates(line, tag);
            while mask != 0 {
                let word = &line[mask.trailing_zeros() as usize & 7];
                let slot = word.load(Ordering::Acquire);
                // Empty slots look like those of tag zero; and it may have changed since.
                if address_of(slot) != 0
                    && tag_of(slot) == tag
                    && let Some(found) = f(word, slot)
                {
                    return Ok(Some(found));
                }
                mask &= mask - 1;
            }
            if !overflows(line) {
                break;
            }
            number = page.next_line(number);
        }
        Ok(None)
    }

    /// The value of a key, and where its record is.
    #[inline(always)]
    pub(crate) fn find<'h>(
        &self,
        data: &'h SharedMap,
        held: &'h impl Holds,
        key: &[u8],
        state: State,
        place: u64,
    ) -> Result<Option<(u64, &'h [u8])>> {
        if state.is_settled() {
            return self.find_in_page(data, held, key, state, place);
        }
        // The ring, or the batch, first: what leaves it is in the page by then; perhaps in a page of a larger
        // directory than the one that there was.
        if state.is_busy()
            && let Some(change) = self.change_of(data, held, key, state)?
        {
            return Ok(value_of(&change));
        }
        if state.is_pending()
            && let Some(found) = self.find_pending(data, held, key, place)?
        {
            return Ok(Some(found));
        }
        self.find_in_page(data, held, key, self.state(), place)
    }

    /// The same, whatever the pages do not say yet. As [`Index::probe`], written out: it is what most
    /// programs do most.
    #[inline(always)]
    pub(crate) fn find_in_page<'h>(
        &self,
        data: &'h SharedMap,
        held: &'h impl Holds,
        key: &[u8],
        state: State,
        place: u64,
    ) -> Result<Option<(u64, &'h [u8])>> {
        let page = self.page(state, place)?;
        let tag = page.tag(place);
        let mut number = page.line(tag);
        for _ in 0..page.lines {
            let line = self.line(page, number)?;
            if let Some(found) = find_in_line(data, held, key, line, tag)? {
                return Ok(Some(found));
            }
            if !overflows(line) {
                break;
            }
            number = page.next_line(number);
        }
        Ok(None)
    }

    /// The values of many keys and where their records are, whose waits for memory overlap; `None`
    /// if a batch was begun or entered meanwhile, so that they may be from before and after it.
    #[allow(clippy::type_complexity, reason = "what `find` gives, for each")]
    pub(crate) fn find_many<'h, K: AsRef<[u8]>>(
        &self,
        data: &'h SharedMap,
        held: &'h impl Holds,
        keys: &[K],
        state: State,
    ) -> Result<Option<Vec<Option<(u64, &'h [u8])>>>> {
        let mut values = Vec::with_capacity(keys.len());
        let changed = if state.is_busy() {
            let wanted: HashSet<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
            Some(self.changes(data, held, state, |key| wanted.contains(key))?)
        } else {
            None
        };
        for batch in keys.chunks(BATCH) {
            let mut places = [0u64; BATCH];
            for (place, key) in places.iter_mut().zip(batch) {
                *place = self.place(key.as_ref());
                self.prefetch(*place);
            }
            // The first record that each may be; 0 if there is none.
            let mut first = [0u64; BATCH];
            for (first, place) in first.iter_mut().zip(places).take(batch.len()) {
                let page = self.page(state, place)?;
                let found = self.probe(page, page.tag(place), |_, slot| Some(address_of(slot)))?;
                *first = found.unwrap_or(0);
                data.prefetch(*first);
            }
            for ((key, place), first) in batch.iter().zip(places).zip(first) {
                let key = key.as_ref();
                let value = match value_if_key(data, held, first, key) {
                    // The ring has something newer, perhaps.
                    Some(value) if !state.is_pending() => Some((first, value)),
                    None if first == 0 && !state.is_pending() => None,
                    // What a batch makes of it is known.
                    _ if state.is_busy() => self.find_in_page(data, held, key, state, place)?,
                    _ => self.find(data, held, key, state, place)?,
                };
                values.push(value);
            }
        }
        if let Some(changed) = changed {
            for (value, key) in values.iter_mut().zip(keys) {
                *value = changed.get(key.as_ref()).map_or(*value, value_of);
            }
        }
        Ok(self.state().is_of_same_batch(state).then_some(values))
    }

    /// The slot of a key.
    #[inline(always)]
    pub(crate) fn locate(
        &self,
        data: &SharedMap,
        held: &impl Holds,
        key: &[u8],
        place: u64,
    ) -> Result<Option<Located<'_>>> {
        self.locate_in_page(data, held, key, self.page(self.state(), place)?, place)
    }

    /// The same, in the page that holds its place.
    #[inline(always)]
    pub(crate) fn locate_in_page(
        &self,
        data: &SharedMap,
        held: &impl Holds,
        key: &[u8],
        page: Page,
        place: u64,
    ) -> Result<Option<Located<'_>>> {
        let found = self.probe(page, page.tag(place), |word, slot| {
            match room_if_key(data, held, address_of(slot), key) {
                Some(0) => None,
                Some(room) => Some(Ok(Located { word, slot, room })),
                None => Some(Err(not_a_record(address_of(slot)))),
            }
        })?;
        found.transpose()
    }

    /// The slot that leads to the record at `address`, if there is one.
    pub(crate) fn locate_address(&self, place: u64, address: u64) -> Result<Option<Located<'_>>> {
        let page = self.page(self.state(), place)?;
        self.probe(page, page.tag(place), |word, slot| {
            (address_of(slot) == address).then_some(Located { word, slot, room: 0 })
        })
    }

    /// Asks for the line of a place.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: u64) {
        if let Ok(page) = self.page(self.state(), place) {
            self.map.prefetch(page.line_at(page.line(page.tag(place))));
        }
    }
}

/// The value of a key and where its record is, if one of these slots leads to it.
#[inline(always)]
pub(crate) fn find_in_line<'h>(
    data: &'h SharedMap,
    held: &'h impl Holds,
    key: &[u8],
    line: &[AtomicU64; 8],
    tag: u64,
) -> Result<Option<(u64, &'h [u8])>> {
    let mut mask = candidates(line, tag);
    while mask != 0 {
        let at = address_of(line[mask.trailing_zeros() as usize & 7].load(Ordering::Acquire));
        if let Some(value) = value_if_key(data, held, at, key) {
            return Ok(Some((at, value)));
        }
        // Empty, another key of the same tag, or behind the end that this process knows.
        if at != 0
            && let Some(value) = behind_end(data, held, at, key)?
        {
            return Ok(Some((at, value)));
        }
        mask &= mask - 1;
    }
    Ok(None)
}

#[cold]
fn behind_end<'h>(
    data: &'h SharedMap,
    held: &'h impl Holds,
    at: u64,
    key: &[u8],
) -> Result<Option<&'h [u8]>> {
    record_at(data, held, at)?;
    Ok(value_if_key(data, held, at, key))
}

/// The record at `at`, also if others have made the file longer.
#[inline(always)]
pub(crate) fn record_at<'h>(
    data: &'h SharedMap,
    held: &'h impl Holds,
    at: u64,
) -> Result<RecordView<'h>> {
    match record(data, held, at) {
        Some(found) => Ok(found),
        None => record_after_growth(data, held, at),
    }
}

#[cold]
fn record_after_growth<'h>(
    data: &'h SharedMap,
    held: &'h impl Holds,
    at: u64,
) -> Result<RecordView<'h>> {
    data.refresh_len()?;
    record(data, held, at).ok_or_else(|| not_a_record(at))
}

#[cold]
pub(crate) fn not_a_record(at: u64) -> Error {
    damaged(at, "the index leads to what is no record")
}

#[cold]
pub(crate) fn not_a_page(state: State) -> Error {
    damaged(state.directory() * LINE, "a page that this directory cannot have")
}

/// Damage that making the index again may repair.
#[cold]
pub(crate) fn damaged(at: u64, what: &str) -> Error {
    Error::corrupt_pair(at, what)
}
