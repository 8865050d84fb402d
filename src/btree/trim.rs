//! Giving the end of the file back when nobody needs it.
//!
//! It takes two steps, for others may look at the pages of older commits, and at what the table of
//! pages says of those. First a commit is made that changes nothing but where it ends: all pages
//! behind are free. When nobody holds a commit before that one any more, and it is durable, the blocks
//! of the table that tell of what is behind are forgotten, and the file is cut. Until then whoever
//! needs pages takes those behind the end again, by what the table says of them.
//!
//! Blocks of the table are never in the way of the end: each is made when the first page that it tells of
//! is needed, and lies before that one. So where the file can end before a block, nobody needs it. They are
//! in the way of values of more pages than lie between two of them, which keeps the end where it is.
//!
//! Other processes learn of a cut by a count of them, which they look at when they have the writer's
//! lock, and before they read the table of pages: a commit that somebody holds leads to nothing that
//! was cut off.

use super::core::Core;
use super::format::{FIXED, PAGE_BYTES, TABLES, first_of_table, session, table_pages};
use super::sync::How;
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::Ordering;

/// What a sync cuts off: at least so many pages, and this part of the file.
const WORTH: u64 = 16;
const WORTH_PART: u64 = 4;
/// Pages that are looked at before all of them are.
const PROBES: u64 = 8;

/// How much of the end of the file must be free to be cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trim {
    /// As much as is worth it.
    Much,
    /// Anything.
    All,
}

impl Trim {
    fn is_worth(self, free: u64, pages: u64) -> bool {
        match self {
            Trim::Much => free >= WORTH && free >= pages / WORTH_PART,
            Trim::All => free > 0,
        }
    }
}

impl Core {
    /// Cuts the free end of the file off, unless somebody writes just now, or reads an older commit.
    /// After a sync, and with one of the same kind.
    pub(crate) fn trim(&self, trim: Trim, how: How) -> Result<()> {
        let Some(mut writer) = Writer::try_begin(self)? else { return Ok(()) };
        if writer.is_journal_in_the_way(trim)? {
            drop(writer);
            self.sync_only(how.without_journal())?;
            let Some(without) = Writer::try_begin(self)? else { return Ok(()) };
            writer = without;
        }
        if writer.lower_end(trim)? {
            self.sync_only(how)?;
            let Some(writer) = Writer::try_begin(self)? else { return Ok(()) };
            return writer.cut(trim);
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// Makes a commit that ends where the newest one has its last page, if that is worth it; else
    /// cuts off what was given up before.
    fn lower_end(mut self, trim: Trim) -> Result<bool> {
        let base = self.base;
        // Who reads for long keeps the file as it is: it would be lowered in vain at every sync.
        let is_held = self.is_older_held(self.core.load(session::BASE));
        let end = if is_held { base.end } else { self.last_used(base.end, trim)? };
        if !trim.is_worth(base.end - end, base.end) {
            return self.cut(trim).map(|()| false);
        }
        // In this order: whoever dies here has lowered nothing.
        let store = |at, value| self.core.word(at).store(value, Ordering::SeqCst);
        store(session::HIGH, self.core.high(&base));
        store(session::LOWERED, self.stamp);
        self.scratch.space.end = end;
        self.publish(base.main, base.catalog)?;
        self.finish();
        Ok(true)
    }

    /// Whether much could be cut off if the journal were not behind it.
    fn is_journal_in_the_way(&self, trim: Trim) -> Result<bool> {
        let Some((page, pages)) = self.core.journal() else { return Ok(false) };
        let end = self.last_used(self.base.end, trim)?;
        if end != page.saturating_add(pages) || self.is_older_held(self.core.load(session::BASE)) {
            return Ok(false);
        }
        let free = page.saturating_sub(self.last_used(page, trim)?);
        Ok(trim.is_worth(free, self.base.end))
    }

    /// Whether somebody holds a commit before that of a stamp.
    fn is_older_held(&self, stamp: u64) -> bool {
        let core = self.core;
        // Nothing is durable in memory.
        let words = [session::SYNCING, session::DURABLE, session::BASE].map(|at| core.load(at));
        let on_disk = words.into_iter().filter(|word| *word != 0 && !core.is_in_memory());
        super::pins::stamps(core).chain(on_disk).any(|held| held < stamp)
    }

    /// Behind the last page that is not free, blocks of the table aside that tell of none before.
    fn last_used(&self, end: u64, trim: Trim) -> Result<u64> {
        let mut end = end;
        // A few first: a sync is not to look at much of the table for nothing.
        let least = WORTH.max(end / WORTH_PART);
        for page in (1..=PROBES).map(|i| end.saturating_sub(least / PROBES * i)) {
            if trim == Trim::Much && self.is_page_used(page)? {
                return Ok(end);
            }
        }
        while end > 1 {
            let before = self.before(end)?;
            if before == end {
                break;
            }
            end = before;
        }
        Ok(end)
    }

    /// Where the file can end if it can end here: before the page that ends here, if that is free.
    fn before(&self, end: u64) -> Result<u64> {
        let [birth, _] = self.core.entry(end - 1)?;
        Ok(match birth.load(Ordering::Relaxed) {
            FIXED => self.core.table_behind(end).unwrap_or(end),
            _ if self.is_page_used(end - 1)? => end,
            _ => end - 1,
        })
    }

    /// Whether somebody holds a page; pages that are never freed aside.
    fn is_page_used(&self, page: u64) -> Result<bool> {
        let [birth, freed] = self.core.entry(page)?.map(|word| word.load(Ordering::Relaxed));
        Ok(birth != FIXED && !self.scratch.space.is_free(birth, freed))
    }

    /// Cuts off what is behind the end, if that is worth it and nobody needs it.
    fn cut(mut self, trim: Trim) -> Result<()> {
        let core = self.core;
        let store = |at, value| core.word(at).store(value, Ordering::SeqCst);
        if core.load(session::HIGH) != 0 && !self.is_older_held(core.load(session::LOWERED)) {
            store(session::HIGH, 0);
            core.forget_tables(&self.base);
        }
        let (end, len) = (self.base.end * PAGE_BYTES, core.map.refresh_len()?);
        let free = len.saturating_sub(end) / PAGE_BYTES;
        if core.load(session::HIGH) == 0 && trim.is_worth(free, len / PAGE_BYTES) {
            // Also before: whoever dies here has the others look in vain. But who looked in between saw
            // how long it was.
            core.word(session::CUTS).fetch_add(1, Ordering::SeqCst);
            core.map.shrink_to(end)?;
            core.word(session::CUTS).fetch_add(1, Ordering::SeqCst);
        }
        self.finish();
        Ok(())
    }
}

impl Core {
    /// Where a block of the table begins that ends there, if it tells of no page before.
    fn table_behind(&self, end: u64) -> Option<u64> {
        (1..TABLES).find_map(|block| {
            let from = self.load(session::TABLES + 8 * block);
            let is_it = from > 1 && from.checked_add(table_pages(block)) == Some(end);
            (is_it && from <= first_of_table(block)).then_some(from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::BTree;
    use super::session;
    use crate::os::atomic::Ordering;
    use std::ops::Range;
    use std::sync::atomic::AtomicBool;

    /// Whoever looks while the file is cut must not take its old length for the new one: what is then
    /// written behind the end ends the process.
    #[test]
    fn who_looks_while_the_file_is_cut_writes_nothing_behind_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let fill = |store: &BTree, count: u64| {
            let mut transaction = store.write().unwrap();
            for i in 0..count {
                transaction.main().insert(&i.to_le_bytes(), &[1; 20_000]).unwrap();
            }
            transaction.commit().unwrap();
        };
        for is_one in [false, true] {
            let store = BTree::create(&path).unwrap();
            let other = if is_one { store.clone() } else { BTree::create(&path).unwrap() };
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        other.core().live_bytes().unwrap();
                    }
                });
                for _ in 0..150 {
                    fill(&store, 100);
                    store.sync().unwrap();
                    let mut transaction = store.write().unwrap();
                    transaction.main().clear().unwrap();
                    transaction.commit().unwrap();
                    store.sync().unwrap();
                    store.sync().unwrap();
                    fill(&other, 50);
                }
                is_over.store(true, Ordering::Relaxed);
            });
            store.verify(|_, _| ()).unwrap();
        }
    }

    /// The end of the store is lower again and the file is not cut, as somebody reads the state before: whoever
    /// did not see the file grow takes pages all the way up.
    #[test]
    fn who_saw_no_growth_writes_to_all_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let put = |store: &BTree, keys: Range<u64>| {
            let mut transaction = store.write().unwrap();
            for i in keys {
                transaction.main().insert(format!("{i:04}").as_bytes(), &[1; 4000]).unwrap();
            }
            transaction.commit()
        };
        let idle = BTree::create(&path).unwrap();
        put(&idle, 0..600).unwrap();
        let other = BTree::create(&path).unwrap();
        put(&other, 600..950).unwrap();
        let mut transaction = other.write().unwrap();
        for i in 600..950 {
            transaction.main().remove(format!("{i:04}").as_bytes()).unwrap();
        }
        transaction.commit().unwrap();
        let held = other.read().unwrap();
        other.sync().unwrap();
        assert_ne!(other.core().load(session::HIGH), 0, "this is what it is about");
        put(&idle, 600..800).unwrap();
        drop(held);
        idle.sync().unwrap();
        idle.verify(|_, _| ()).unwrap();
        assert_eq!(other.read().unwrap().main().len(), 800);
    }

    /// Danger: whoever takes the file for as long as it was follows a damaged link behind its end, which ends the process.
    #[test]
    fn who_did_not_cut_the_file_knows_how_long_it_is_when_he_looks() {
        let folder = tempfile::tempdir().unwrap();
        let looks: [fn(&BTree); 3] = [
            |store| store.core().note_cuts().unwrap(),
            |store| drop(store.write().unwrap()),
            |store| drop(store.stats().unwrap()),
        ];
        for (n, look) in looks.into_iter().enumerate() {
            let path = folder.path().join(n.to_string());
            let len = || std::fs::metadata(&path).unwrap().len();
            let (store, other) = (BTree::create(&path).unwrap(), BTree::open(&path).unwrap());
            store.insert(b"long", &vec![1; 1 << 20]).unwrap();
            store.sync().unwrap();
            other.verify(|_, _| ()).unwrap();
            let (long, cuts) = (len(), store.core().load(session::CUTS));
            assert_eq!(other.core().map.len(), long);
            store.remove(b"long").unwrap();
            store.sync().unwrap();
            store.sync().unwrap();
            assert!(len() < long, "nothing was cut off");
            // Before, for who dies at it, and after, for who looked in between.
            assert_eq!(store.core().load(session::CUTS), cuts + 2);
            assert_eq!(other.core().map.len(), long, "this is what it is about");
            look(&other);
            assert_eq!(other.core().map.len(), len(), "look {n}");
        }
    }
}
