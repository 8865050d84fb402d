//! A transaction of one change of one record, made in the leaf where it is: nothing is copied.
//!
//! A leaf may be changed so if of all commits that somebody holds only the newest has it: it was written since the last
//! sync, and nobody reads. A put then costs its search, the bytes that it moves, and as many that are noted in a free
//! page to undo it; to copy three pages took two to three times as long.
//!
//! Order, for a reader who comes meanwhile: the writer marks the number of the newest commit, and then looks for
//! readers; if there are any, he copies pages after all. A reader writes the stamp of his commit, and then looks whether its
//! number is still what he read, without a mark (see [`super::pins`]): so one of the two sees the other, and a reader who
//! comes later waits for the next number, some hundred instructions. If it does not come, as the writer is stopped, the
//! reader takes a copy of the leaf, with the noted bytes over it: as the note holds all that the change writes over and anything
//! refers to, that is what the leaf was, whatever is written meanwhile. Each note has another number, so that one copied
//! from two is known. Who syncs has to wait.
//!
//! Who dies in between leaves the mark, and the number of the page that says what the leaf had: whoever comes next, to write
//! or to read, puts that back.

use super::core::Core;
use super::edit::{Old, Step};
use super::format::{FIXED, PAGE, PAGE_BYTES, Tree, session};
use super::leaf;
use super::page::{Bytes, Kind, Place, at, birth};
use super::pins;
use super::record::ValueToStore;
use super::tree::{Pages, of};
use super::undo::{self, Change, Parts};
use super::view;
use super::writer::{Writer, damaged, no_page};
use crate::os::atomic::{Ordering, fence, pause};
use crate::os::file::read_exact_at;
use crate::{Error, Result};
use std::time::Duration;

/// Set in the number of the newest commit while a leaf of it is changed.
pub(crate) const CHANGING: u64 = 1 << 63;
/// How often a reader looks whether that is over before he asks whether the writer is dead.
const LOOKS: u32 = if cfg!(credenza_schedules) { 2 } else { 1000 };
/// How long who syncs sleeps then, at most.
const NAP: Duration = Duration::from_millis(1);
/// The word with the number of the page that has the note has above that a number of the note.
const NOTE_SHIFT: u32 = 40;
const NOTE_PAGE: u64 = (1 << NOTE_SHIFT) - 1;

/// What a leaf was before a change that is going on.
#[derive(Debug)]
pub(crate) struct Before {
    pub page: u64,
    pub bytes: Box<Bytes>,
}

/// The right to change a page that is one of the newest commit: there is a mark, and nobody holds that.
pub(crate) struct Alone(());

impl Writer<'_> {
    /// Changes a record of the main table, as the one change of this transaction, and commits that, unless nothing is to be
    /// changed; whether the key was there. Sizes were checked.
    pub(crate) fn change_and_commit(&mut self, change: Change<'_>) -> Result<bool> {
        let (mut main, catalog) = (self.base.main, self.base.catalog);
        let mut path = std::mem::take(&mut self.scratch.path);
        self.scratch.space.is_put = matches!(change, Change::Put(..));
        let done = self.change_or_copy(&mut main, catalog, change, &mut path);
        self.scratch.path = path;
        let (was_there, is_committed) = done?;
        if !is_committed && (was_there || matches!(change, Change::Put(..))) {
            self.commit(main, catalog)?;
        }
        Ok(was_there)
    }

    /// Whether the key was there, and whether all is done.
    fn change_or_copy(
        &mut self,
        main: &mut Tree,
        catalog: Tree,
        change: Change<'_>,
        path: &mut Vec<Step>,
    ) -> Result<(bool, bool)> {
        // Where the newest commit is held already there is no need to look at the leaf.
        let can_be = self.core.header.in_place
            && main.depth > 0
            && self.scratch.space.is_of_newest_alone(self.base.stamp)
            && !pins::are_few_left(self.core);
        if !can_be {
            return self.change_by_copies(main, change).map(|was_there| (was_there, false));
        }
        path.clear();
        let place = self.find(main, change.key(), path)?;
        let was_there = matches!(place, Place::Found(_));
        if !was_there && matches!(change, Change::Remove(_)) {
            return Ok((false, false));
        }
        if self.change_in_place(main, catalog, change, place, path)? {
            return Ok((was_there, true));
        }
        match change {
            Change::Put(key, value) => self.put_found(main, path, place, key, value).map(drop)?,
            Change::Remove(key) => self.remove_found(main, key, path, place.index())?,
        }
        Ok((was_there, false))
    }

    fn change_by_copies(&mut self, main: &mut Tree, change: Change<'_>) -> Result<bool> {
        match change {
            Change::Put(key, value) => self.insert(main, key, value, Old::Replace),
            Change::Remove(key) => self.remove(main, key),
        }
    }

    /// Makes the change in the leaf that the path leads to, if it can be made there, and commits it; whether.
    fn change_in_place(
        &mut self,
        main: &mut Tree,
        catalog: Tree,
        change: Change<'_>,
        place: Place,
        path: &[Step],
    ) -> Result<bool> {
        let leaf = self.page_below(main, path)?;
        let bytes = self.page(leaf)?;
        let [born, gone] = self.core.entry(leaf)?.map(|word| word.load(Ordering::Relaxed));
        if gone != 0 || birth(bytes) != born || !self.scratch.space.is_of_newest_alone(born) {
            return Ok(false);
        }
        let Some(parts) = of(leaf, undo::written_over(bytes, place, change))? else {
            return Ok(false);
        };
        let note = self.note_parts(leaf, &parts)?;
        let Some(alone) = self.core.begin_change(self.base.number, note, (leaf, born))? else {
            return Ok(false);
        };
        let mut scratch = std::mem::take(&mut self.scratch.bytes);
        let bytes = self.own.alone_mut(leaf, &alone).ok_or_else(|| no_page(leaf))?;
        let done = apply(bytes, place, change, &mut scratch);
        self.scratch.bytes = scratch;
        if !of(leaf, done)? {
            // What was written is put back when this writer is dropped.
            return Err(damaged(leaf, "a leaf that does not say what is in it"));
        }
        match (change, place) {
            (Change::Put(..), Place::Missing(_)) => main.count = main.count.saturating_add(1),
            (Change::Put(..), Place::Found(_)) => {}
            (Change::Remove(_), _) => main.count = main.count.saturating_sub(1),
        }
        self.scratch.space.note_added(leaf);
        self.publish(*main, catalog)?;
        self.finish();
        Ok(true)
    }

    /// Notes what parts of a leaf hold, in a free page: which that is. It stays free, and as it is as long as this writer
    /// takes no other.
    fn note_parts(&mut self, leaf: u64, parts: &Parts) -> Result<u64> {
        let (note, _) = self.new_page()?;
        let (old, new) = self.own.pair(leaf, note).ok_or_else(|| no_page(leaf))?;
        parts.write(leaf, old, new);
        self.free(note)?;
        Ok(note)
    }
}

/// Makes a change in a leaf that can take it; whether it could.
pub(super) fn apply(
    bytes: &mut Bytes,
    place: Place,
    change: Change<'_>,
    scratch: &mut Vec<u8>,
) -> Result<bool, &'static str> {
    match (change, place) {
        (Change::Put(key, value), Place::Missing(i)) => {
            leaf::insert(bytes, i, key, None, ValueToStore::Near(value), scratch)
        }
        (Change::Put(_, value), Place::Found(i)) => {
            leaf::replace(bytes, i, ValueToStore::Near(value), scratch)
        }
        (Change::Remove(_), place) => leaf::remove(bytes, place.index()).map(|()| true),
    }
}

#[cold]
fn bad_note() -> Error {
    Error::corrupt(session::NOTE, "a page that says what to undo, and cannot be one")
}

impl Core {
    /// Begins to change a leaf of the newest commit, which has this number, if nobody holds a commit from the stamp on that it
    /// was born under. What it holds stands in the page `note`. Until the next commit is published who wants to read waits.
    fn begin_change(
        &self,
        number: u64,
        note: u64,
        (leaf, born): (u64, u64),
    ) -> Result<Option<Alone>> {
        let [_, gone] = self.entry(leaf)?;
        let word = self.word(session::NOTE);
        let next = (word.load(Ordering::Relaxed) >> NOTE_SHIFT).wrapping_add(1) << NOTE_SHIFT;
        word.store(next | note & NOTE_PAGE, Ordering::Release);
        let state = self.word(session::STATE);
        state.store(number | CHANGING, Ordering::SeqCst);
        // Looking for them begins with a fence. A checksum would not fit any more: a sync that failed may have entered one, and
        // does so under a pin.
        let is_held = self.pins().any(|stamp| stamp >= born) || gone.load(Ordering::SeqCst) != 0;
        if is_held {
            state.store(number, Ordering::SeqCst);
            // The page of the note may be taken now: who copies something else from it is to see that there is no mark.
            fence(Ordering::SeqCst);
        }
        Ok((!is_held).then_some(Alone(())))
    }

    /// Whether a page of the newest commit is being changed, or was by somebody who died.
    pub(crate) fn is_changing(&self) -> bool {
        self.load(session::STATE) & CHANGING != 0
    }

    /// Waits until no leaf of the newest commit is being changed, and undoes it if who did so is dead.
    #[cold]
    pub(crate) fn await_change(&self) -> Result<()> {
        while self.is_changing() && self.is_long_changing()? {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// The same for the reader who holds the commit with this number and need not wait long: if the change comes to no
    /// end, what its leaf was.
    #[cold]
    pub(crate) fn await_or_see_before(&self, number: u64) -> Result<Option<Before>> {
        while self.is_changing() && self.is_long_changing()? {
            if let Some(before) = self.before_change(number)? {
                return Ok(Some(before));
            }
            // Another change has begun, or this is over.
            if self.load(session::STATE) != number | CHANGING {
                break;
            }
        }
        Ok(None)
    }

    /// Looks for a while whether a change is over; whether it is not, and who makes it is not dead.
    fn is_long_changing(&self) -> Result<bool> {
        for _ in 0..LOOKS {
            if !self.is_changing() {
                return Ok(false);
            }
            pause();
        }
        // The lock is not waited for: who has it may wait for something that this one has. What is needed is the first step
        // of any writer.
        drop(Writer::try_begin(self)?);
        std::thread::yield_now();
        Ok(self.is_changing())
    }

    /// What the leaf that is being changed was in the commit with this number; `None` if that change is over.
    fn before_change(&self, number: u64) -> Result<Option<Before>> {
        let word = self.load(session::NOTE);
        let is_same = || {
            fence(Ordering::SeqCst);
            self.load(session::STATE) == number | CHANGING && self.load(session::NOTE) == word
        };
        let note = self.copy_of_page(word & NOTE_PAGE);
        if !is_same() {
            // It may be anything by now, and name what is not in the file any more.
            return Ok(None);
        }
        let before = note.and_then(|note| self.undone(&note));
        if is_same() { before.map(Some) } else { Ok(None) }
    }

    /// The leaf that a note is of, with what that says undone. Nothing but the table of pages is looked at through the map, in
    /// which others may be changing it.
    fn undone(&self, note: &Bytes) -> Result<Before> {
        let (page, parts) = Parts::read(note).ok_or_else(bad_note)?;
        let mut bytes = self.copy_of_page(page)?;
        if !self.can_be_leaf(page, bytes[at::KIND]) {
            return Err(bad_note());
        }
        for (at, part) in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
        }
        Ok(Before { page, bytes })
    }

    /// A copy of a page that another may write to meanwhile: not through the map, as under a lease.
    fn copy_of_page(&self, page: u64) -> Result<Box<Bytes>> {
        let mut bytes = Box::new([0; PAGE]);
        let from = page.checked_mul(PAGE_BYTES).ok_or_else(bad_note)?;
        read_exact_at(self.map.file(), &mut bytes[..], from)?;
        Ok(bytes)
    }

    /// Undoes what somebody changed in a page of the newest commit who did not come to the next one; only who has the
    /// writer's lock, or the store alone.
    pub(crate) fn undo_change(&self) -> Result<()> {
        if self.is_changing() { self.undo_noted() } else { Ok(()) }
    }

    #[cold]
    fn undo_noted(&self) -> Result<()> {
        let note = self.copy_of_page(self.load(session::NOTE) & NOTE_PAGE)?;
        // A damaged one is not to be written over anything else.
        let (leaf, parts) =
            Parts::read(&note).filter(|(leaf, _)| self.is_leaf(*leaf)).ok_or_else(bad_note)?;
        for (at, bytes) in parts {
            if !view::restore(&self.map, leaf * PAGE_BYTES + at as u64, bytes) {
                return Err(bad_note());
            }
        }
        let state = self.word(session::STATE);
        state.store(state.load(Ordering::SeqCst) & !CHANGING, Ordering::SeqCst);
        Ok(())
    }

    /// Whether a page is a leaf; only for who has the writer's lock, or the store alone.
    fn is_leaf(&self, page: u64) -> bool {
        let word = page.checked_mul(PAGE_BYTES).and_then(|at| self.map_word(at + 8));
        self.can_be_leaf(page, word.map_or(0, |word| word.load(Ordering::Acquire) as u8))
    }

    /// Whether a page of this kind is a leaf, as far as the table of pages says.
    fn can_be_leaf(&self, page: u64, kind: u8) -> bool {
        let born = self.entry(page).map_or(0, |[birth, _]| birth.load(Ordering::Acquire));
        (1..FIXED).contains(&born) && [Kind::Leaf as u8, Kind::Uniform as u8].contains(&kind)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BTree, torn::write_anew};
    use super::*;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    fn key(i: u64) -> Vec<u8> {
        format!("key {i:06}").into_bytes()
    }

    /// A store of two levels with every other key, of which nothing is durable.
    fn store(path: &Path) -> BTree {
        let store = BTree::create(path).unwrap();
        let mut transaction = store.write().unwrap();
        // In an order that leaves room in the leaves.
        for i in (0..4000).map(|i| i * 1237 % 4000) {
            transaction.main().insert(&key(i * 2), &[i as u8; 20][..i as usize % 9 + 3]).unwrap();
        }
        transaction.commit().unwrap();
        assert!(store.core().newest().main.depth > 1);
        store
    }

    /// Danger: a reader takes for a note what has been written over it, and looks behind the end of the file, which others have
    /// made shorter since he looked for it: a signal ends him.
    #[test]
    fn what_is_no_note_any_more_leads_nobody_behind_the_end() {
        const GONE: u64 = 900;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let writer = BTree::create(&path).unwrap();
        let mut transaction = writer.write().unwrap();
        for i in 0..4000 {
            transaction.main().insert(&key(i), &[7; 1000]).unwrap();
        }
        transaction.commit().unwrap();
        let reader = BTree::open(&path).unwrap();
        let core = reader.core();
        assert!(core.map.len() > (GONE + 1) * PAGE_BYTES);
        let mut transaction = writer.write().unwrap();
        transaction.main().clear().unwrap();
        transaction.commit().unwrap();
        writer.sync().unwrap();
        while writer.compact(1 << 20).unwrap() {}
        let pages = std::fs::metadata(&path).unwrap().len() / PAGE_BYTES;
        assert!(pages < GONE && core.map.len() > (GONE + 1) * PAGE_BYTES);
        // Somebody's value now: a number, and zeros.
        let mut bytes = [0; PAGE];
        bytes[8..16].copy_from_slice(&GONE.to_le_bytes());
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, (pages - 1) * PAGE_BYTES).unwrap();
        let (state, note) = (core.load(session::STATE), core.load(session::NOTE));
        core.word(session::NOTE).store(pages - 1, Ordering::SeqCst);
        // Another writer's change by now; and this one's, as damage may say.
        core.word(session::STATE).store((state + 1) | CHANGING, Ordering::SeqCst);
        assert!(core.before_change(state).unwrap().is_none());
        core.word(session::STATE).store(state | CHANGING, Ordering::SeqCst);
        assert!(core.before_change(state).is_err());
        core.word(session::NOTE).store(note, Ordering::SeqCst);
        core.word(session::STATE).store(state, Ordering::SeqCst);
    }

    fn records(store: &BTree) -> Vec<(Vec<u8>, Vec<u8>)> {
        let record = |record: Result<(Vec<u8>, &[u8])>| {
            let (key, value) = record.unwrap();
            (key, value.to_vec())
        };
        store.read().unwrap().main().iter().map(record).collect()
    }

    /// Danger: a reader sees what was committed after his commit.
    #[test]
    fn only_what_nobody_reads_is_changed_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder.path().join("store"));
        let root = || store.core().newest().main.root;
        let before = root();
        assert!(!store.insert(&key(7), b"new").unwrap());
        assert!(store.insert(&key(8), b"of another length").unwrap());
        assert!(store.remove(&key(12)).unwrap());
        assert!(!store.remove(&key(13)).unwrap());
        assert_eq!(root(), before, "pages were copied");
        let (snapshot, seen) = (store.read().unwrap(), records(&store));
        assert_eq!(seen.len(), 4000);
        for i in 0..300 {
            store.insert(&key(i * 37), &[i as u8; 9]).unwrap();
            store.remove(&key(i * 2)).unwrap();
        }
        assert_ne!(root(), before);
        let still = snapshot.main().iter().map(|record| record.map(|(k, v)| (k, v.to_vec())));
        assert_eq!(still.collect::<Result<Vec<_>>>().unwrap(), seen);
        drop(snapshot);
        store.verify(|_, _| ()).unwrap();
        // What is durable stays as it is, too.
        store.sync().unwrap();
        let before = root();
        store.insert(&key(0), b"after the sync").unwrap();
        assert_ne!(root(), before);
        store.verify(|_, _| ()).unwrap();
    }

    /// One of each kind.
    const CHANGES: [Change<'static>; 3] = [
        Change::Put(b"key 000051", b"of another length"),
        Change::Put(b"key 000052", &[8; 8]),
        Change::Remove(b"key 000054"),
    ];

    /// All but the mark of a change of a record where it is: the writer, the leaf, the place there, and the note.
    fn prepare<'s>(store: &'s BTree, change: Change<'_>) -> (Writer<'s>, u64, Place, u64) {
        let mut writer = Writer::begin(store.core()).unwrap();
        let (main, mut path) = (writer.base.main, Vec::new());
        let place = writer.find(&main, change.key(), &mut path).unwrap();
        let leaf = writer.page_below(&main, &path).unwrap();
        let parts = undo::written_over(writer.page(leaf).unwrap(), place, change);
        let note = writer.note_parts(leaf, &parts.unwrap().unwrap()).unwrap();
        (writer, leaf, place, note)
    }

    /// Marks it, if that can be.
    fn mark(writer: &Writer<'_>, leaf: u64, note: u64) -> Option<Alone> {
        let (number, born) = (writer.base.number, birth(writer.page(leaf).unwrap()));
        writer.core.begin_change(number, note, (leaf, born)).unwrap()
    }

    /// Begins to change a record where it is.
    fn begin_within<'s>(store: &'s BTree, change: Change<'_>) -> (Writer<'s>, Alone, u64, Place) {
        let (writer, leaf, place, note) = prepare(store, change);
        let alone = mark(&writer, leaf, note).unwrap();
        (writer, alone, leaf, place)
    }

    /// Changes a record as one does who is killed before the commit.
    fn die_within(store: &BTree, change: Change<'_>) {
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut writer, alone, leaf, place) = begin_within(store, change);
                let bytes = writer.own.alone_mut(leaf, &alone).unwrap();
                assert!(apply(bytes, place, change, &mut Vec::new()).unwrap());
                // The kernel says of the lock that its owner died.
                std::mem::forget(writer);
            });
        });
        assert!(store.core().is_changing());
    }

    /// Danger: half of a change is there, or readers wait for somebody who is dead.
    #[test]
    fn what_a_dead_writer_changed_is_undone_by_whoever_comes() {
        type Next = fn(&BTree, &Path);
        let nexts: [Next; 5] = [
            |store, _| drop(store.read().unwrap()),
            |store, _| drop(store.write().unwrap()),
            |store, _| store.sync().unwrap(),
            // Nobody has the copy open.
            |store, copy| {
                write_anew(copy, &std::fs::read(store.path().unwrap()).unwrap());
                drop(store.read().unwrap());
                let reader = BTree::options().read_only(true).open(copy).unwrap();
                assert_eq!(records(&reader), records(store));
                reader.verify(|_, _| ()).unwrap();
            },
            |store, copy| {
                write_anew(copy, &std::fs::read(store.path().unwrap()).unwrap());
                drop(store.read().unwrap());
                let other = BTree::open(copy).unwrap();
                assert_eq!(records(&other), records(store));
                other.insert(b"a key", b"a value").unwrap();
                other.verify(|_, _| ()).unwrap();
            },
        ];
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder.path().join("store"));
        for (n, change) in CHANGES.into_iter().enumerate() {
            for (m, next) in nexts.iter().enumerate() {
                // One of which the disk has nothing yet.
                store.insert(&key(1_000_000), &[m as u8; 3]).unwrap();
                store.insert(change.key(), &[m as u8; 8]).unwrap();
                let before = records(&store);
                die_within(&store, change);
                next(&store, &folder.path().join(format!("copy {n} {m}")));
                // Whoever reads need not know yet that the thread is gone.
                assert_eq!(records(&store), before, "{n} {m}");
                store.core().await_change().unwrap();
                assert!(!store.core().is_changing());
                assert_eq!(records(&store), before, "{n} {m}");
                store.verify(|_, _| ()).unwrap();
            }
        }
    }

    /// Danger: a writer who is stopped stops all who want to read; or they see half of what he changes.
    #[test]
    fn nobody_waits_to_read_for_a_writer_who_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder.path().join("store"));
        for change in CHANGES {
            store.insert(change.key(), &[7; 8]).unwrap();
            let before = records(&store);
            let (mut writer, alone, leaf, place) = begin_within(&store, change);
            let seen = thread::scope(|scope| scope.spawn(|| records(&store)).join().unwrap());
            assert_eq!(seen, before, "before anything is written");
            let bytes = writer.own.alone_mut(leaf, &alone).unwrap();
            assert!(apply(bytes, place, change, &mut Vec::new()).unwrap());
            let (held, goes_on) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
            thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    let snapshots = [store.read().unwrap(), store.read_for(Duration::MAX).unwrap()];
                    for wait in [&held, &goes_on] {
                        for snapshot in &snapshots {
                            let own = |record: Result<(Vec<u8>, &[u8])>| {
                                record.map(|(key, value)| (key, value.to_vec()))
                            };
                            let seen: Result<Vec<_>> = snapshot.main().iter().map(own).collect();
                            assert_eq!(seen.unwrap(), before);
                        }
                        wait.wait();
                    }
                });
                held.wait();
                let (main, catalog) = (writer.base.main, writer.base.catalog);
                writer.publish(main, catalog).unwrap();
                writer.finish();
                drop(writer);
                // Beside who sees the state before.
                store.insert(b"key 000050", b"later").unwrap();
                goes_on.wait();
                reader.join().unwrap();
            });
            assert_ne!(records(&store), before);
            store.remove(change.key()).unwrap();
            store.insert(change.key(), b"so that the count is right").unwrap();
        }
    }

    /// Danger: a checksum that a sync entered which then failed, of what the leaf was.
    #[test]
    fn a_leaf_that_got_a_checksum_meanwhile_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder.path().join("store"));
        store.insert(b"key 000052", &[7; 8]).unwrap();
        let (writer, leaf, _, note) = prepare(&store, Change::Put(b"key 000052", &[8; 8]));
        let sum = super::super::format::page_sum(writer.page(leaf).unwrap(), leaf);
        store.core().entry(leaf).unwrap()[1].store(sum, Ordering::SeqCst);
        assert!(mark(&writer, leaf, note).is_none());
        assert!(!store.core().is_changing());
        drop(writer);
        store.insert(b"key 000052", &[9; 8]).unwrap();
        store.verify(|_, _| ()).unwrap();
    }

    #[test]
    fn a_note_that_leads_elsewhere_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        for note in [0, 1, 3, u64::MAX, 1 << 40] {
            let path = folder.path().join(note.to_string());
            let store = store(&path);
            die_within(&store, Change::Put(b"key 000051", b"x"));
            store.core().word(session::NOTE).store(note, Ordering::SeqCst);
            assert!(store.core().await_change().unwrap_err().is_bad_file());
            assert!(store.read().unwrap_err().is_bad_file());
            assert!(store.insert(b"key", b"value").unwrap_err().is_bad_file());
        }
    }

    /// Danger: a snapshot that changes, or that shows a later change without an earlier one.
    #[test]
    fn readers_beside_single_changes_see_one_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let writer = store(&path);
        let is_done = Arc::new(AtomicBool::new(false));
        let names = [key(5000), key(5002), key(5004)];
        names.iter().for_each(|name| _ = writer.insert(name, &0u64.to_le_bytes()).unwrap());
        let seen: u64 = thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let (is_done, names, path) = (is_done.clone(), &names, &path);
                    scope.spawn(move || {
                        let (store, mut seen) = (BTree::open(path).unwrap(), 0);
                        while !is_done.load(Ordering::Relaxed) {
                            let snapshot = store.read().unwrap();
                            let look = || {
                                names.each_ref().map(|name| {
                                    let value = snapshot.main().get(name).unwrap().unwrap();
                                    u64::from_le_bytes(value.try_into().unwrap())
                                })
                            };
                            let now = look();
                            assert!(now[0] >= now[1] && now[1] >= now[2] && now[2] + 1 >= now[0]);
                            (0..10).for_each(|_| assert_eq!(look(), now));
                            seen += 1;
                        }
                        seen
                    })
                })
                .collect();
            for i in 1..20_000u64 {
                names.iter().for_each(|name| _ = writer.insert(name, &i.to_le_bytes()).unwrap());
                // Others move in the leaf meanwhile.
                writer.insert(&key(5001 - i % 9 * 2), b"n").unwrap();
                writer.remove(&key(5001 - i % 9 * 2)).unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
            readers.into_iter().map(|reader| reader.join().unwrap()).sum()
        });
        assert!(seen > 100, "{seen}");
        writer.verify(|_, _| ()).unwrap();
    }
}
