//! Whether the index of a store can be believed, before anybody writes where it leads.
//!
//! The index is a file that anybody may have damaged. What its head says is compared with what says
//! the same elsewhere: the log's segments and records, the directory, the lists of blocks. That
//! reads the directory and the table of segments, but no page. An index that does not pass is as
//! one that is missing: it is made again from the log.
//!
//! Threads: [`Writer::check`] needs the writer's lock, for without it words disagree as long as
//! somebody is writing. Each process asks once for each index that it finds; later damage is an
//! error where it is met. After a writer died some words are those of before and others those of
//! after its last step: of these only what must hold at each of its instructions is asked, and that
//! is enough for what repairs them.

use super::blocks::{LINES, MAX_LINES, NEXT, list_of};
use super::core::Core;
use super::format::{INDEX_HEADER, SEGMENT_END, unit_of, words};
use super::index::{Index, damaged};
use super::log::{ENTRY_BYTES, INNER, MOST};
use super::page::{LINE, SIZES, SLOTS};
use super::reader::Unpinned;
use super::record::Kind;
use super::scan::{Next, Place, Span};
use super::view::record;
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::Ordering;
use crate::os::bits::Bits;

/// An error that names a word, if what should be so is not.
fn must(is_so: bool, word: u64, what: &str) -> Result<()> {
    if is_so { Ok(()) } else { Err(damaged(word, what)) }
}

impl Core {
    /// Whether what an index that was closed says of the log fits what the log says, and there is a
    /// directory: readers would follow it.
    pub(super) fn is_sane(&self, index: &Index) -> bool {
        let load = |word| index.load(word);
        let segment = |unit: u64| self.segment_at(&Unpinned, unit).filter(|_| unit < self.units());
        let (Some(newest), Some(oldest)) =
            (segment(load(words::TAIL_UNIT)), segment(load(words::OLDEST_UNIT)))
        else {
            return false;
        };
        newest.sequence == load(words::SEQUENCE)
            && newest.end() == load(words::TAIL_END)
            && (newest.first()..=newest.end()).contains(&load(words::TAIL))
            && load(words::APPLIED) == load(words::TAIL)
            && index.state().is_settled()
            && oldest.sequence <= newest.sequence
            && (oldest.first()..=oldest.end()).contains(&load(words::CLEANED))
            && index.each_page(index.state(), |_| Ok(())).is_ok()
    }
}

impl Writer<'_> {
    /// An error if what the index says cannot be; if a writer has died, what no writer's death can
    /// be the reason of.
    pub(super) fn check(&self, has_died: bool) -> Result<()> {
        let lines = self.index.load(words::BUMP);
        let is_there = lines <= MAX_LINES && lines * LINE <= self.index.map.len();
        must(is_there, words::BUMP, "the index is longer than its file")?;
        self.check_log(has_died)?;
        if has_died {
            // All of the lists, and what is counted of the pages, is made again.
            return self.directory().map(drop);
        }
        self.check_counts()?;
        self.check_blocks()?;
        self.repair_cleaning()
    }

    fn check_log(&self, has_died: bool) -> Result<()> {
        let load = |word| self.index.load(word);
        self.units()?;
        self.step(&self.cursor())?;
        let tail = self.check_unknown(has_died)?;
        self.check_ring(tail)?;
        let chain = self.chain()?;
        must(chain.last.unit == tail.segment.unit, words::TAIL, "the log ends elsewhere")?;
        let is_oldest_known = self.oldest().is_ok_and(|oldest| {
            let found = self.core.segment_at(self, load(words::OLDEST_UNIT));
            found.is_some_and(|found| found.sequence == oldest)
                && (oldest < tail.segment.sequence || load(words::CLEANED) <= tail.at)
        });
        let is_known = is_oldest_known || has_died && self.is_going_on();
        must(is_known, words::OLDEST_UNIT, "it is not the oldest segment")?;
        if has_died {
            return Ok(());
        }
        let end = (load(words::TAIL_UNIT), load(words::TAIL_END), load(words::SEQUENCE));
        let segment = tail.segment;
        let is_end = end == (segment.unit, segment.end(), segment.sequence)
            && tail.at <= segment.end() - SEGMENT_END
            && self.core.checked_record(self, segment, tail.at).is_err();
        must(is_end, words::TAIL, "the log does not end there")?;
        must(chain.bytes == load(words::CHAIN), words::CHAIN, "the log is not as long")
    }

    /// Whether a writer may have died while it went on from the segment that it had emptied to the
    /// next: after one word and before the other.
    fn is_going_on(&self) -> bool {
        let (oldest, cleaned) = (words::OLDEST_UNIT, words::CLEANED);
        let [oldest, cleaned] = [oldest, cleaned].map(|word| self.index.load(word));
        let next = record(&self.core.data, self, cleaned)
            .filter(|found| found.header.kind == Kind::End)
            .and_then(|_| self.after_end(cleaned).ok());
        next.is_some()
            && next == self.core.segment_at(self, oldest).map(Span::first)
            && self.index.load(words::RETIRED_UNIT) != 0
    }

    /// That whole records lead from where the index knows the log to its end; and the puts among
    /// them are those that wait in the ring. Returns the end.
    fn check_unknown(&self, has_died: bool) -> Result<Place> {
        let (applied, tail) = (self.index.load(words::APPLIED), self.index.load(words::TAIL));
        let mut waiting = self.ring().into_iter().map(|(_, at)| at);
        let is_pending = self.index.state().is_pending();
        let segment = self.segment_of(applied);
        let what = "the index knows the log up to a place that is not in it";
        let segment = segment.ok_or_else(|| damaged(words::APPLIED, what))?;
        let mut place = Place { segment, at: applied };
        while place.at != tail {
            let is_next = match place.next(self.core, self) {
                Next::Nothing(why) => return Err(damaged(place.at, why)),
                Next::Segment(next) => {
                    place = next;
                    true
                }
                Next::Record(found, after) => {
                    let is_waiting = waiting.next() == Some(place.at);
                    place = after;
                    is_waiting && found.header.kind == Kind::Put || !is_pending
                }
            };
            must(is_next || has_died, words::RING, "a put is not in the ring")?;
        }
        must(has_died || waiting.next().is_none(), words::RING, "the ring has puts too many")?;
        Ok(place)
    }

    /// That what is in the ring is in the log, and is what the ring says it is.
    fn check_ring(&self, tail: Place) -> Result<()> {
        for (i, at) in self.ring() {
            let segment = self.segment_of(at);
            let found = segment.and_then(|s| self.core.checked_record(self, s, at).ok());
            let is_fit = found.is_some_and(|found| self.is_in_ring(i, found.key))
                && segment.map(|s| (s.sequence, at)) < Some((tail.segment.sequence, tail.at));
            must(is_fit, words::RING, "the ring leads to what is no put")?;
        }
        Ok(())
    }

    /// The segment of the log that a place is in.
    fn segment_of(&self, at: u64) -> Option<Span> {
        let mut unit = unit_of(at)?;
        let mut sequence = self.segment(unit).ok()?.sequence();
        while sequence == INNER {
            unit = unit.checked_sub(1)?;
            sequence = self.segment(unit).ok()?.sequence();
        }
        let found = self.core.segment_at(self, unit)?;
        let is_in = (found.first()..found.end()).contains(&at);
        (is_in && found.sequence == sequence).then_some(found)
    }

    fn check_counts(&self) -> Result<()> {
        let load = |word| self.index.load(word);
        let slots = load(words::PAGE_LINES).saturating_mul(SLOTS as u64);
        must(load(words::COUNT) <= slots, words::COUNT, "more records than there is room for")?;
        let most = match self.core.header.limit {
            0 => self.index.log_bytes(),
            limit => limit.min(self.index.log_bytes()),
        };
        must(load(words::LIVE) <= most, words::LIVE, "more bytes than there can be")?;
        must(load(words::DEBT) < MOST, words::DEBT, "more garbage than there can be")
    }

    /// That no two blocks overlap, of those in use, those that are free, and those that wait.
    fn check_blocks(&self) -> Result<()> {
        let load = |word| self.index.load(word);
        let mut taken = Taken::new(load(words::BUMP))?;
        let mut take = |block: u64, lines: u64, word| {
            must(taken.take(block, lines), word, "two blocks of the index overlap")
        };
        let state = self.directory()?;
        let (lines, block) = (state.directory_lines(), state.directory() - 1);
        must(self.lines_of(block)? == lines, words::STATE, "there is no directory")?;
        take(block, lines, words::STATE)?;
        let mut page_lines = 0;
        self.index.each_page(state, |page| {
            page_lines += page.lines;
            take(page.block, page.lines, words::STATE)
        })?;
        must(page_lines == load(words::PAGE_LINES), words::PAGE_LINES, "not so many lines")?;
        let (block, room) = (load(words::SEGMENTS_AT), load(words::SEGMENTS_ROOM));
        let lines = self.lines_of(block)?;
        let is_table = room <= lines.saturating_mul(LINE / ENTRY_BYTES);
        must(is_table, words::SEGMENTS_AT, "there is no table of segments")?;
        take(block, lines, words::SEGMENTS_AT)?;
        for (list, size) in SIZES.into_iter().filter_map(|size| Some((list_of(size)?, size))) {
            let mut block = load(list);
            // What was taken already ends it: so it leads in no circle.
            while block != 0 {
                must(self.lines_of(block)? == size, list, "a free block is of another size")?;
                take(block, size, list)?;
                block = self.block(block)?[NEXT].load(Ordering::Relaxed);
            }
        }
        let (mut block, mut last, mut count) = (load(words::RETIRED_FIRST), 0, 0);
        while block != 0 {
            take(block, self.block(block)?[LINES].load(Ordering::Relaxed), words::RETIRED_FIRST)?;
            (last, count) = (block, count + 1);
            block = self.block(block)?[NEXT].load(Ordering::Relaxed);
        }
        let said = (load(words::RETIRED_LAST), load(words::RETIRED_COUNT));
        must(said == (last, count), words::RETIRED_LAST, "not the blocks that wait")
    }
}

/// Which lines of the index are in a block that was looked at.
struct Taken(Bits);

impl Taken {
    fn new(end: u64) -> Result<Taken> {
        Bits::below(end).map(Taken)
    }

    /// Notes a block, with its own line; `false` if it is not free, or not where blocks are.
    fn take(&mut self, block: u64, lines: u64) -> bool {
        let end = block.saturating_add(lines).saturating_add(1);
        block >= INDEX_HEADER / LINE && self.0.add_range(block, end)
    }
}

#[cfg(test)]
mod tests {
    use super::Taken;

    #[test]
    fn blocks_that_overlap_are_seen() {
        let mut taken = Taken::new(1000).unwrap();
        assert!(!taken.take(9, 3), "the head");
        assert!(taken.take(10, 0) && !taken.take(10, 0));
        assert!(taken.take(11, 52) && taken.take(64, 63) && taken.take(128, 200));
        assert!([63, 64, 127, 128, 200, 328].into_iter().all(|block| !taken.take(block, 0)));
        assert!(!taken.take(330, 670) && !taken.take(330, u64::MAX) && taken.take(330, 669));
    }
}
