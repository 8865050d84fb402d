//! The journal: commits that are durable as what they changed, one after the other, before their pages
//! are.
//!
//! A durable commit of which all is on the disk, the *base*, names some pages in a row. Commits that come
//! after it are appended there: what became of which page, and the bytes that were written to pages of
//! trees and of values. One wait for one place of the disk makes a commit durable, wherever its pages
//! are. After a power failure what the pages hold that were free in the base counts for nothing: what
//! was appended is written to them again, and the table of pages is taken back to the base, and changed
//! as was said. Nothing that the base leads to is written over as long as it is the base. When the
//! journal is full, all pages go to the disk, and another commit is the base.
//!
//! Each base draws a number that the checksum of what is appended to it first begins with; each other one
//! begins with the checksum before it. So nothing counts that was appended to another, or after a commit
//! that did not come to the disk as a whole.
//!
//! Threads: pages are taken for it, and freed, by who has the writer's lock; it is appended to, and given
//! up, by who has the turn to sync; it is read by who opens the store.

use super::changes::{Change, Changed, Changes, Piece};
use super::core::Core;
use super::format::{COMMIT_WORDS, Commit, FIXED, METAS, PAGE_BYTES, session};
use super::meta::{Journal, Meta};
use super::pins::Pin;
use super::source::Source;
use super::verify::check_trees;
use super::view;
use super::writer::Writer;
use crate::bytes::{array, le64};
use crate::os::atomic::Ordering;
use crate::os::file::read_exact_at;
use crate::os::process::longest_file;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Pages of a journal: a quarter of the file, but at least and at most so many.
const PAGES: (u64, u64) = (128, 1024);
/// Most bytes of a commit that are appended: more are as soon where they belong.
const MAX_BYTES: u64 = 128 << 10;
/// So many syncs that a journal would have helped are done without one before there is one.
const ENOUGH: u32 = 4;
/// Most pages by which the end of the base may be passed: they are made when what was appended is read.
const MAX_GROWTH: u64 = 4096;

/// Words of an entry before its changes: the checksum of the rest; how many bytes it has; the stamp of
/// the commit before; the commit; how many changes and pieces follow.
const HEAD_WORDS: usize = 3 + COMMIT_WORDS + 2;

/// A commit that was appended.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    /// The stamp of the one before.
    before: u64,
    commit: Commit,
    changes: Vec<Change>,
    pieces: Vec<Piece<'a>>,
}

impl Entry<'_> {
    /// As it is appended, and its checksum.
    fn encode(&self, seed: u64) -> (Vec<u8>, u64) {
        let pieces: usize = self.pieces.iter().map(|piece| piece.bytes.len() + 24).sum();
        let mut out = Vec::with_capacity(8 * (HEAD_WORDS + self.changes.len()) + pieces);
        let mut put = |word: u64| out.extend_from_slice(&word.to_le_bytes());
        [0, 0, self.before].into_iter().chain(self.commit.words()).for_each(&mut put);
        put(self.changes.len() as u64);
        put(self.pieces.len() as u64);
        for change in &self.changes {
            put(change.page << 2 | change.kind as u64);
        }
        for piece in &self.pieces {
            out.extend_from_slice(&piece.at.to_le_bytes());
            out.extend_from_slice(&(piece.bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(piece.bytes);
            out.resize(out.len().next_multiple_of(8), 0);
        }
        let len = out.len() as u64;
        out[8..16].copy_from_slice(&len.to_le_bytes());
        let sum = xxh3_64_with_seed(&out[8..], seed);
        out[..8].copy_from_slice(&sum.to_le_bytes());
        (out, sum)
    }

    /// The entry that `bytes` begin with, its length and its checksum.
    fn decode(bytes: &[u8], seed: u64) -> Option<(Entry<'_>, usize, u64)> {
        let len = usize::try_from(le64(bytes, 8)?).ok()?;
        let bytes = bytes.get(..len)?;
        let sum = le64(bytes, 0)?;
        if sum != xxh3_64_with_seed(bytes.get(8..)?, seed) {
            return None;
        }
        let word = |i: usize| le64(bytes, 8 * i);
        let words: Vec<u64> = (3..3 + COMMIT_WORDS).map_while(word).collect();
        let commit = Commit::of(*words.first_chunk()?);
        let (changes, pieces) = (word(HEAD_WORDS - 2)?, word(HEAD_WORDS - 1)?);
        let mut rest = bytes.get(8 * HEAD_WORDS..)?;
        let mut take = |len: usize| {
            let (taken, left) = rest.split_at_checked(len)?;
            rest = left;
            Some(taken)
        };
        let kinds = [Changed::Tree, Changed::Values, Changed::Added, Changed::Freed];
        let mut entry = Entry { before: word(2)?, commit, changes: vec![], pieces: vec![] };
        for _ in 0..changes {
            let word = u64::from_le_bytes(array(take(8)?, 0)?);
            entry.changes.push(Change { page: word >> 2, kind: kinds[(word & 3) as usize] });
        }
        for _ in 0..pieces {
            let head = take(16)?;
            let (at, len) = (le64(head, 0)?, usize::try_from(le64(head, 8)?).ok()?);
            let bytes = take(len.checked_next_multiple_of(8)?)?.get(..len)?;
            entry.pieces.push(Piece { at, bytes });
        }
        Some((entry, len, sum))
    }

    /// Whether it can follow a commit, or the stamp and the end of one, after the base that ends there;
    /// what is damaged, or made up, may say anything. Nothing else is appended.
    fn follows(&self, before: (u64, u64), base_end: u64) -> bool {
        let end = self.commit.end;
        let is_inside = |piece: &Piece<'_>| {
            let last = piece.at.checked_add(piece.bytes.len() as u64);
            piece.at >= PAGE_BYTES && last.is_some_and(|last| last <= end * PAGE_BYTES)
        };
        self.before == before.0
            && self.commit.stamp > before.0
            && (before.1..=base_end.saturating_add(MAX_GROWTH)).contains(&end)
            && self.changes.iter().all(|change| (1..end).contains(&change.page))
            && self.pieces.iter().all(is_inside)
    }
}

/// The state that counts after a power failure.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub base: Meta,
    pub commit: Commit,
    /// What was appended to the base; none if that is the commit.
    pub since: Option<Since>,
    bytes: Vec<u8>,
    /// Whether the file ends within the journal.
    is_cut: bool,
}

/// What the table of pages says as of the base, and what has to be done again.
#[derive(Clone, Debug)]
pub(crate) struct Since {
    /// The stamp of the base, and its pages of the file.
    pub stamp: u64,
    pub end: u64,
    /// What became of each page, in their order.
    pub changes: Vec<Change>,
}

impl Recovered {
    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.entries_to().map(|(entry, _)| entry)
    }

    /// The same, each with where it ends.
    fn entries_to(&self) -> impl Iterator<Item = (Entry<'_>, usize)> {
        let base = &self.base.commit;
        let (mut at, mut before) = (0, (base.stamp, base.end));
        let mut seed = self.base.journal.map_or(0, |journal| journal.salt);
        std::iter::from_fn(move || {
            let (entry, len, sum) = Entry::decode(self.bytes.get(at..)?, seed)?;
            let is_next = entry.follows(before, base.end);
            (at, seed, before) = (at + len, sum, (entry.commit.stamp, entry.commit.end));
            is_next.then_some((entry, at))
        })
    }

    /// Whether something of a later commit stands behind the last whole entry: it was being appended when the power failed,
    /// or is damaged.
    pub(crate) fn is_torn(&self) -> bool {
        let last = self.entries_to().last();
        let (stamp, end) =
            last.map_or((self.base.commit.stamp, 0), |(entry, end)| (entry.commit.stamp, end));
        // As an entry begins: what is left of those before an earlier base has lower stamps.
        let word = |i: usize| le64(&self.bytes, end + 8 * i).unwrap_or(0);
        let (before, own) = (word(2), word(4));
        self.is_cut || before == stamp || own > stamp && own - stamp <= NEAR_STAMPS
    }
}

/// The stamps of commits that are appended one after the other are no further apart.
const NEAR_STAMPS: u64 = 1 << 20;

impl Core {
    /// The state that counts after a power failure: the later durable commit, and what was appended to
    /// it; `None` if there is none.
    pub(crate) fn recovered(&self) -> Result<Option<Recovered>> {
        let metas = (0..2).filter_map(|place| self.meta(place));
        let Some(base) = metas.max_by_key(|meta| (meta.commit.stamp, meta.turn)) else {
            return Ok(None);
        };
        self.check_commit(&base.commit)?;
        let (mut bytes, mut is_cut) = (Vec::new(), false);
        if let Some(Journal { page, pages, .. }) = base.journal {
            let end = page.saturating_add(pages);
            if pages > PAGES.1 || end > base.commit.end {
                return Err(Error::corrupt(session::END, "a journal that cannot be"));
            }
            bytes.resize((pages * PAGE_BYTES) as usize, 0);
            // A file that is shorter is damaged, and being recovered: what is missing is no entry.
            let len =
                self.map.file().metadata().map_err(|e| Error::io("ask the size of", e))?.len();
            let there = len.saturating_sub(page * PAGE_BYTES).min(bytes.len() as u64);
            read_exact_at(self.map.file(), &mut bytes[..there as usize], page * PAGE_BYTES)?;
            is_cut = there < bytes.len() as u64;
        }
        let mut found = Recovered { base, commit: base.commit, since: None, bytes, is_cut };
        let mut changes = BTreeMap::new();
        let mut commit = base.commit;
        for entry in found.entries() {
            commit = entry.commit;
            for Change { page, kind } in entry.changes {
                // What was taken for values since the base gets no older by what was put behind them.
                if kind != Changed::Added || changes.get(&page) != Some(&Changed::Values) {
                    changes.insert(page, kind);
                }
            }
        }
        if commit != base.commit {
            let changes = changes.into_iter().map(|(page, kind)| Change { page, kind }).collect();
            let Commit { stamp, end, .. } = base.commit;
            (found.commit, found.since) = (commit, Some(Since { stamp, end, changes }));
        }
        Ok(Some(found))
    }

    /// Whether what was found is what was durable, as far as that can be seen. Of what was written when the power failed
    /// something may be missing; what was damaged later is missing, too. What processes share tells of the latter, though it
    /// has no checksum, and not all of it may have come to the disk: a commit, its base, and how far the journal went were
    /// on the disk before it said so. A single word of it is not believed.
    pub(crate) fn check_said(&self, recovered: &Recovered) -> Result<()> {
        let said = self.load(session::DURABLE);
        if said <= recovered.commit.stamp || said > self.newest().stamp {
            return Ok(());
        }
        let (base, own) = (self.load(session::BASE), recovered.base.commit.stamp);
        let end = recovered.entries_to().last().map_or(0, |(_, end)| end as u64);
        let is_base_lost = base > own && base <= said;
        let is_entry_lost = base == own && self.load(session::JOURNAL_END) > end;
        if !is_base_lost && !is_entry_lost {
            return Ok(());
        }
        let journal = recovered.base.journal.map_or(0, |journal| journal.page * PAGE_BYTES + end);
        let at = if is_base_lost { self.lost_meta().unwrap_or(METAS[0]) } else { journal };
        let what = "what was durable last is damaged, and only what was before is whole";
        Err(Error::corrupt(at, what))
    }

    /// Whether there is anything in a commit that was found where another durable one is missing: then it is to be looked
    /// at by [`Core::check_left`].
    pub(crate) fn is_left(&self, recovered: &Recovered) -> bool {
        let Commit { main, catalog, .. } = recovered.commit;
        self.lost_meta().is_some() && (main.root != 0 || catalog.root != 0)
    }

    /// Whether all is there that such a commit leads to: if the other was durable, pages were used again since. In a private
    /// map, as it writes what was appended to the pages.
    pub(crate) fn check_left(&self, recovered: &Recovered) -> Result<()> {
        if !self.is_left(recovered) {
            return Ok(());
        }
        check_trees(self, &recovered.commit, recovered.since.as_ref()).map_err(|error| {
            let what =
                format!("the durable commit is damaged, and the one before is not whole: {error}");
            Error::corrupt(self.lost_meta().unwrap_or(METAS[0]), what)
        })
    }

    /// A place for a durable commit in which there is none.
    fn lost_meta(&self) -> Option<u64> {
        (0..2).find(|place| self.meta(*place).is_none()).map(|place| METAS[place])
    }

    /// Writes to the pages again what was appended; nobody reads them yet.
    pub(crate) fn redo(&self, recovered: &Recovered) -> Result<()> {
        let mut pieces = recovered.entries().flat_map(|entry| entry.pieces);
        if pieces.all(|piece| view::redo(&self.map, piece.at, piece.bytes)) {
            return Ok(());
        }
        Err(Error::corrupt(self.map.len(), "the file is shorter than its journal says"))
    }

    /// What is to be done again in the table of pages of a session that just began, if that goes on from
    /// this commit.
    pub(crate) fn changes_to_redo(&self, commit: &Commit) -> Result<Option<Since>> {
        if self.load(session::UNSWEPT) == 0 || self.load(session::SETTLED) != 0 {
            return Ok(None);
        }
        let recovered = self.recovered()?.filter(|recovered| recovered.commit == *commit);
        Ok(recovered.and_then(|recovered| recovered.since))
    }

    /// Where the journal is, if there is one: its first page, and how many.
    pub(crate) fn journal(&self) -> Option<(u64, u64)> {
        let (page, pages) = (self.load(session::JOURNAL), self.load(session::JOURNAL_PAGES));
        (page != 0 && page & session::GIVEN_UP == 0).then_some((page, pages))
    }

    /// Its pages, also of one that was given up.
    pub(crate) fn journal_pages(&self) -> Range<u64> {
        let (page, pages) = (self.load(session::JOURNAL), self.load(session::JOURNAL_PAGES));
        let first = page & !session::GIVEN_UP;
        if page == 0 { 0..0 } else { first..first.saturating_add(pages) }
    }

    /// Gives the journal up, which no base names any more; by who has the turn to sync.
    pub(crate) fn give_journal_up(&self) {
        // Only a writer makes one, and only where there is none, or frees it when it was given up.
        if let Some((page, _)) = self.journal() {
            self.word(session::JOURNAL).store(page | session::GIVEN_UP, Ordering::SeqCst);
        }
    }

    /// Frees the pages of a journal that was given up; by who has the writer's lock.
    #[cold]
    pub(crate) fn free_journal(&self) -> Result<()> {
        // Not what damage may have written there.
        for page in self.journal_pages().take(PAGES.1 as usize) {
            let [birth, freed] = self.entry(page)?;
            if birth.load(Ordering::Acquire) == FIXED && !self.is_shared(page) {
                birth.store(0, Ordering::Release);
                freed.store(0, Ordering::Release);
            }
        }
        // Last: who dies before has the next one do it.
        self.word(session::JOURNAL).store(0, Ordering::SeqCst);
        Ok(())
    }

    /// Appends a commit to the journal of `base` and waits for the disk; `false` if it does not go there.
    pub(crate) fn append(&self, base: &Meta, commit: &Commit, pin: &Pin<'_>) -> Result<bool> {
        let durable = self.load(session::DURABLE);
        self.reach(commit)?;
        let source = Source::unchecked(self, commit.end);
        // What is damaged is found by who reads it.
        let changes = self.changes(&source, durable, commit, MAX_BYTES, pin);
        let Ok(Some(changes)) = changes else { return Ok(false) };
        let Some(journal) = base.journal.filter(|j| self.journal() == Some((j.page, j.pages)))
        else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        };
        let Changes { changes, pieces } = changes;
        let entry = Entry { before: durable, commit: *commit, changes, pieces };
        let (bytes, sum) = entry.encode(self.load(session::JOURNAL_SUM));
        let used = self.load(session::JOURNAL_END);
        let end = used.saturating_add(bytes.len() as u64);
        // As after a power failure, but for where the commit before ends: no base has less.
        let is_readable = entry.follows((durable, base.commit.end), base.commit.end);
        // Whatever page 0 says by now.
        let first = journal.page.saturating_mul(PAGE_BYTES);
        let at = first.saturating_add(used);
        // Beyond what this process may write the kernel would end it.
        let is_allowed = first.saturating_add(end) <= longest_file();
        if end > journal.pages.saturating_mul(PAGE_BYTES) || !is_readable || !is_allowed {
            return Ok(false);
        }
        self.word(session::SYNCING).store(commit.stamp, Ordering::SeqCst);
        let written = self.map.file().write_all_at(&bytes, at);
        written.map_err(|e| Error::io("write to the journal", e))?;
        self.map.sync_part(at, at + bytes.len() as u64)?;
        let store = |at, value| self.word(at).store(value, Ordering::SeqCst);
        store(session::JOURNAL_END, end);
        store(session::JOURNAL_SUM, sum);
        store(session::DURABLE, commit.stamp);
        store(session::SYNCING, 0);
        self.tracked.forget(commit.stamp);
        Ok(true)
    }

    /// Makes a journal if one would have been of use, and nobody writes just now.
    pub(crate) fn provide_journal(&self) -> Result<()> {
        if self.missed.load(Ordering::Relaxed) < ENOUGH {
            return Ok(());
        }
        self.missed.store(0, Ordering::Relaxed);
        match Writer::try_begin(self)? {
            // Nor one that is given up, and not freed yet.
            Some(writer) if self.load(session::JOURNAL) == 0 => writer.add_journal(),
            _ => Ok(()),
        }
    }
}

impl Writer<'_> {
    /// Takes pages for a journal. It is of use when the next base names it.
    fn add_journal(mut self) -> Result<()> {
        let core = self.core;
        let pages = (self.base.end / 4).clamp(PAGES.0, PAGES.1);
        // What the base has stays where it is: so that what replaces it is not behind the journal, some
        // pages before that are free. Else the file would have to stay so long when it is closed.
        let free = pages / 4;
        let first = self.scratch.space.take_fixed(core, free + pages, self.stamp)?;
        let page = first + free;
        if (page + pages) * PAGE_BYTES > longest_file() {
            // It may not write there, as in `append`: all is taken back.
            return Ok(());
        }
        (first..page).rev().try_for_each(|page| self.free_fixed(page))?;
        // So that the disk has it all, and nothing but its bytes is written when it is used.
        let zeros = vec![0; (pages * PAGE_BYTES) as usize];
        let written = core.map.file().write_all_at(&zeros, page * PAGE_BYTES);
        written.map_err(|e| Error::io("write to the journal", e))?;
        // A commit, so that nobody takes it for free space behind the end.
        let (main, catalog) = (self.base.main, self.base.catalog);
        self.publish(main, catalog)?;
        core.word(session::JOURNAL_PAGES).store(pages, Ordering::SeqCst);
        core.word(session::JOURNAL).store(page, Ordering::SeqCst);
        self.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::BTree;
    use super::*;
    use crate::durability::Durability;

    #[test]
    fn what_is_appended_is_what_is_read() {
        let commit = Commit { number: 3, stamp: 9, end: 1000, ..Commit::default() };
        let before = (7, 900);
        let kinds = [Changed::Tree, Changed::Values, Changed::Added, Changed::Freed];
        let changes: Vec<Change> =
            (0..9).map(|i| Change { page: 1 + 99 * i, kind: kinds[i as usize % 4] }).collect();
        let bytes: Vec<u8> = (0..700u32).map(|i| i as u8).collect();
        for lens in [&[][..], &[0], &[1, 700, 8], &[7]] {
            let piece = |len: &usize| Piece { at: 5000, bytes: &bytes[..*len] };
            let pieces = lens.iter().map(piece).collect();
            let entry = Entry { before: 7, commit, changes: changes.clone(), pieces };
            let (mut encoded, sum) = entry.encode(5);
            assert!(entry.follows(before, 900));
            assert_eq!(Entry::decode(&encoded, 5), Some((entry, encoded.len(), sum)));
            assert_eq!(Entry::decode(&encoded, 6), None);
            for at in 0..encoded.len() {
                assert_eq!(Entry::decode(&encoded[..at], 5), None, "{at} bytes");
                encoded[at] ^= 1;
                assert_eq!(Entry::decode(&encoded, 5), None, "byte {at}");
                encoded[at] ^= 1;
            }
        }
    }

    /// Whoever may write to the file can write what he wants in its head.
    #[test]
    fn a_journal_that_ends_at_the_end_of_numbers_takes_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let options = BTree::options().create(true).durability(Durability::Sync);
        let store = options.open(folder.path().join("store")).unwrap();
        let insert = |i: u64| store.insert(&i.to_le_bytes(), b"value").unwrap();
        let core = store.core();
        (0..100).take_while(|_| core.load(session::JOURNAL_END) == 0).for_each(|i| _ = insert(i));
        assert_ne!(core.load(session::JOURNAL_END), 0, "nothing was appended");
        core.word(session::JOURNAL_END).store(u64::MAX, Ordering::SeqCst);
        insert(200);
        assert_eq!(core.load(session::DURABLE), core.newest().stamp);
        store.verify(|_, _| ()).unwrap();
    }

    #[test]
    fn what_cannot_be_does_not_follow() {
        let before = (7, 900);
        let good = || {
            let commit = Commit { number: 3, stamp: 9, end: 1000, ..Commit::default() };
            let changes = vec![Change { page: 999, kind: Changed::Tree }];
            let pieces = vec![Piece { at: 1000 * PAGE_BYTES - 8, bytes: &[0; 8] }];
            Entry { before: 7, commit, changes, pieces }
        };
        assert!(good().follows(before, 800));
        let fails = |change: fn(&mut Entry<'_>)| {
            let mut entry = good();
            change(&mut entry);
            !entry.follows(before, 800)
        };
        assert!(fails(|entry| entry.before = 6));
        assert!(fails(|entry| entry.commit.stamp = 7));
        assert!(fails(|entry| entry.commit.end = 899));
        assert!(fails(|entry| entry.commit.end = 801 + MAX_GROWTH));
        assert!(fails(|entry| entry.commit.end = u64::MAX));
        assert!(fails(|entry| entry.changes[0].page = 0));
        assert!(fails(|entry| entry.changes[0].page = 1000));
        assert!(fails(|entry| entry.pieces[0].at = PAGE_BYTES - 1));
        assert!(fails(|entry| entry.pieces[0].at += 1));
        assert!(fails(|entry| entry.pieces[0].at = u64::MAX));
    }
}
