//! Who reads which commit: so that no page is written that somebody looks at.
//!
//! A reader takes a slot in the file, and writes there who it is and the stamp of its commit. Pages
//! of that commit stay as they are until the slot is empty again, or its process is dead. The first
//! slots are in page 0; when they are all taken, the file gets pages of more. A writer looks at those
//! below a mark, which is raised by who takes one at it or above, before he has a commit.
//!
//! Order: a reader writes the stamp, and then looks whether the commit is still the newest: if it is,
//! whoever writes later sees the stamp before he reuses a page that the commit has, or changes one in its place
//! ([`super::in_place`]): while he does so the number has a mark.
//!
//! A slot may have a *lease*: a time at which it ends. After that a writer takes it away, by one
//! exchange of the word with that time, which no slot without a lease has and which is cleared before
//! a stamp is written. So a slot is never taken from a reader without a lease, whoever had it before.
//! Its reader renews the lease by an exchange of the same word, so that one of the two is done.
//! See [`super::lease`] for those who read so.
//!
//! After many readers at once, writers *lower* the mark: a writer takes the topmost slots that are free, as a
//! reader would, makes the mark that of the lowest of them unless it has changed, and leaves them *parked*
//! then, which is not free. A reader is below the mark as long as he has his slot, from before he writes a
//! stamp on, so that whoever is to see the stamp finds it:
//! - Nobody lowers the mark below a slot that another has: he has all that are between, until he has done so.
//! - Who takes a parked slot raises the mark after that, and so after it was lowered below the slot.
//! - Who takes a free one compared it with the mark before, which may have been lowered since. But then it
//!   was parked; it is free again because somebody took it, raised the mark, and let go of it; and who
//!   lowers the mark again comes before the reader, and leaves no free slot, or finds it taken.
//!
//! A slot is taken by an acquiring exchange of the word that says whose it is, and left by a releasing store
//! there: so what one who had it did to the mark comes before what the next one does. A reader's mark comes
//! before his fence, as his stamp does: a writer whose fence is later sees that mark, or one that came after.
//!
//! It is the same whoever dies where. The dead leave slots parked and not free, since it may be before they
//! raised the mark; a parked slot below the mark holds nothing, and whoever needs it takes it.

use super::core::Core;
use super::format::{Commit, PAGE_BYTES, session};
use super::in_place::Before;
use super::view::Holds;
use super::writer::Writer;
use crate::os::atomic::{AtomicU64, Ordering, fence};
use crate::os::lease::{
    end_of, has_lease, is_leased, is_taken, lease_to, lengths, now_ms, renew, take_if_over, term,
};
use crate::os::process::{forks, is_alive, own_pid, own_start, unix_ms};
use crate::os::shared::no_room_for_changes;
use crate::{Error, Result};
use std::cell::Cell;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Words of a slot: who, the stamp, since when or until when, and the begin of a lease.
const SLOT_WORDS: u64 = 4;
const SLOT_BYTES: u64 = 8 * SLOT_WORDS;
/// Slots in page 0, and in each further page.
const FIRST_SLOTS: u64 = (session::END - session::SLOTS) / SLOT_BYTES;
const PAGE_SLOTS: u64 = PAGE_BYTES / SLOT_BYTES;
/// How long who finds no slot sleeps until he looks again, at first and at most; and for how long he looks for one where no
/// other can be made.
const NAPS: Range<Duration> = Duration::from_micros(20)..Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(1);
/// Most slots that there can be.
pub(crate) const MAX_SLOTS: u64 = FIRST_SLOTS + session::SLOT_PAGE_COUNT * PAGE_SLOTS;

/// A process is known by its number and when it began, in ticks since the boot.
const PID_SHIFT: u32 = 42;
/// Who has no slot.
const NOBODY: u64 = 0;
/// Who has a slot that is parked: a process that never is. Who knows nothing of this takes him for dead.
const PARKED: u64 = START_MASK;
/// The mark is not lowered below so many slots, which take little time to look at, nor below so many times
/// those that are held: threads that read now and then are to find those that they had. Where orders of steps
/// are tried, it is lowered whenever it can be.
const FEW: u64 = if cfg!(credenza_schedules) { 1 } else { 64 };
const TIMES_HELD: u64 = if cfg!(credenza_schedules) { 0 } else { 4 };
/// One of so many commits asks whether the reader that keeps the mark where it is is dead.
const SELDOM: u64 = 64;
const START_MASK: u64 = (1 << PID_SHIFT) - 1;

/// A reader's claim on a commit; dropped, it is no more.
#[derive(Debug)]
pub(crate) struct Pin<'c> {
    slot: Slot<'c>,
    owner: u64,
    /// What [`forks`] was when it was taken.
    forks: u32,
}

impl Holds for Pin<'_> {}

impl Drop for Pin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // After a fork the child drops what is the parent's.
        if self.forks == forks() {
            self.slot.stamp.store(0, Ordering::Release);
            self.slot.owner.store(0, Ordering::Release);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot<'c> {
    owner: &'c AtomicU64,
    stamp: &'c AtomicU64,
    /// 0 for a lookup; in milliseconds since 1970 when a pin was taken that may be held for long; or
    /// until when, if there is a lease.
    time: &'c AtomicU64,
    /// When the lease began.
    begin: &'c AtomicU64,
}

/// One who reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reader {
    /// The process.
    pub pid: u32,
    /// How long it has read that commit, in milliseconds; 0 for a lookup that is going on.
    pub age_ms: u64,
    /// The stamp of the commit.
    pub stamp: u64,
    /// Bytes of pages that are kept for it; some of them perhaps for others, too.
    pub held_bytes: u64,
    /// How long its lease is, with what it was renewed by, in milliseconds; `None` if it has none.
    pub lease_ms: Option<u64>,
    /// What is left of its lease, in milliseconds: with 0 whoever writes next ends it.
    pub left_ms: Option<u64>,
}

thread_local! {
    /// The slot that this thread took last: the next time it is probably free.
    static LAST: Cell<u64> = const { Cell::new(0) };
}

fn slot(core: &Core, i: u64) -> Option<Slot<'_>> {
    let at = if i < FIRST_SLOTS {
        session::SLOTS + i * SLOT_BYTES
    } else {
        let (page, i) = ((i - FIRST_SLOTS) / PAGE_SLOTS, (i - FIRST_SLOTS) % PAGE_SLOTS);
        if page >= session::SLOT_PAGE_COUNT {
            return None;
        }
        let page = core.word(session::SLOT_PAGES + 8 * page).load(Ordering::Acquire);
        if page == 0 {
            return None;
        }
        page.checked_mul(PAGE_BYTES)? + i * SLOT_BYTES
    };
    let word = |i: u64| core.map_word(at + 8 * i);
    Some(Slot { owner: word(0)?, stamp: word(1)?, time: word(2)?, begin: word(3)? })
}

fn me() -> u64 {
    u64::from(own_pid()) << PID_SHIFT | own_start() & START_MASK
}

/// Takes the newest commit, and a pin on it; and what a leaf of it was that is being changed by one who is stopped.
#[inline(always)]
pub(crate) fn pin_to_read(core: &Core) -> Result<(Pin<'_>, Commit, Option<Before>)> {
    if let Some(only) = core.only() {
        return Ok((nothing(core)?, only.commit, None));
    }
    let pin = reserve(core)?;
    let (commit, before) = pin.hold_or_see_before(core)?;
    Ok((pin, commit, before))
}

/// The same for who reads no leaf.
pub(crate) fn pin(core: &Core) -> Result<(Pin<'_>, Commit)> {
    pin_to_read(core).map(|(pin, commit, _)| (pin, commit))
}

/// A pin of one who may write, on nothing yet. Where no slot is left this waits for one, or for who writes.
#[inline(always)]
pub(crate) fn reserve(core: &Core) -> Result<Pin<'_>> {
    if !core.map.has_room_to_read() {
        return Err(no_room_for_changes());
    }
    let owner = me();
    // So it is, too, where this process cannot know its start.
    if owner & START_MASK == 0 {
        core.check_place()?;
    }
    let last = LAST.get();
    let used = core.word(session::SLOTS_USED).load(Ordering::Acquire);
    match slot(core, last) {
        // Who has the topmost looks for a lower one the next time, lest the mark stay where it is for him.
        Some(slot) if (last + 1 < used || last < used.min(FEW)) && take(slot, NOBODY, owner) => {
            Ok(Pin { slot, owner, forks: forks() })
        }
        _ => any(core, owner),
    }
}

impl Pin<'_> {
    /// Has it on the newest commit, and gives that back: waits as long as a leaf of it is being changed.
    pub(crate) fn hold_newest(&self, core: &Core) -> Result<Commit> {
        loop {
            match self.hold_or_see_before(core)? {
                (commit, None) => return Ok(commit),
                (_, Some(_)) => core.await_change()?,
            }
        }
    }

    /// The same without a wait: with what the leaf was, if it is being changed by one who is stopped.
    #[inline(always)]
    pub(crate) fn hold_or_see_before(&self, core: &Core) -> Result<(Commit, Option<Before>)> {
        self.slot.time.store(0, Ordering::Relaxed);
        loop {
            let commit = core.newest();
            // Whoever sees the stamp sees that there is no lease.
            self.slot.stamp.store(commit.stamp, Ordering::Release);
            fence(Ordering::SeqCst);
            if core.word(session::STATE).load(Ordering::Acquire) == commit.number {
                return Ok((commit, None));
            }
            if core.is_changing()
                && let Some(before) = core.await_or_see_before(commit.number)?
            {
                return Ok((commit, Some(before)));
            }
        }
    }
}

/// The pin of one who may not write, and need not: nobody else does.
#[cold]
fn nothing(core: &Core) -> Result<Pin<'_>> {
    let slot = slot(core, 0).ok_or_else(|| Error::invalid("the store has no slots of readers"))?;
    Ok(Pin { slot, owner: NOBODY, forks: 0 })
}

#[inline(always)]
fn take(slot: Slot<'_>, from: u64, owner: u64) -> bool {
    slot.owner.compare_exchange(from, owner, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// The same with one that is free or parked.
fn take_unused(slot: Slot<'_>, owner: u64) -> bool {
    let found = slot.owner.load(Ordering::Relaxed);
    (found == NOBODY || found == PARKED) && take(slot, found, owner)
}

/// Any slot that nobody has, as soon as there is one: of those that there are, or of another page of them, which only who
/// may write can make. Who writes meanwhile may do so for long, and is not waited for alone: he was, and a lookup that came
/// when 32 others were under way slept until the end of a load, though a slot was free a microsecond later.
#[cold]
fn any(core: &Core, owner: u64) -> Result<Pin<'_>> {
    let (begin, mut nap) = (Instant::now(), NAPS.start);
    loop {
        if let Some(pin) = lowest(core, owner) {
            return Ok(pin);
        }
        if clear_dead(core) == 0 && !are_slots_made(core, begin)? {
            std::thread::sleep(nap);
            nap = (2 * nap).min(NAPS.end);
        }
    }
}

/// Makes another page of slots, if that can be done; an error where it will not be, and none was free for a while.
fn are_slots_made(core: &Core, begin: Instant) -> Result<bool> {
    let why = match try_add_slots(core) {
        // Another writes: he may make some, or end.
        Ok(None) => return Ok(false),
        Ok(Some(true)) => return Ok(true),
        // Who lowers the mark has some for a moment.
        Ok(Some(false)) => Error::invalid(format!(
            "{MAX_SLOTS} readers hold commits of the store: end some of them"
        )),
        Err(error) if error.is_bad_file() => return Err(error),
        Err(error) => error,
    };
    if begin.elapsed() < PATIENCE { Ok(false) } else { Err(why) }
}

/// The lowest slot that nobody has, of those that there are.
fn lowest(core: &Core, owner: u64) -> Option<Pin<'_>> {
    let mut all = all_slots(core).enumerate();
    let (i, slot) = all.find(|(_, slot)| take_unused(*slot, owner))?;
    // After the slot was taken: it may have been parked until then.
    core.word(session::SLOTS_USED).fetch_max(i as u64 + 1, Ordering::SeqCst);
    LAST.set(i as u64);
    Some(Pin { slot, owner, forks: forks() })
}

/// Lowers the mark if it is far above what is held; only who has the writer's lock.
#[inline]
pub(crate) fn lower_mark(core: &Core, held: usize) {
    let used = core.word(session::SLOTS_USED).load(Ordering::Relaxed);
    if used > FEW.max(TIMES_HELD * held as u64) {
        park_some(core, used);
    }
}

/// Parks the topmost slots as far as they are free, some at a time: readers are to find others meanwhile.
#[cold]
fn park_some(core: &Core, used: u64) {
    let (owner, top) = (me(), used.min(MAX_SLOTS));
    let is_taken = |i| slot(core, i).is_none_or(|slot| take_unused(slot, owner));
    let some = (FEW.max(top.saturating_sub(PAGE_SLOTS))..top).rev();
    let Some(from) = some.take_while(|i| is_taken(*i)).last() else {
        if core.load(session::STATE).is_multiple_of(SELDOM) {
            let _ = slot(core, top - 1).is_some_and(park_if_dead);
        }
        return;
    };
    let mark = core.word(session::SLOTS_USED);
    // If somebody raised it meanwhile, they are parked below it, which is as good.
    let _ = mark.compare_exchange(used, from, Ordering::SeqCst, Ordering::Relaxed);
    for slot in (from..top).filter_map(|i| slot(core, i)) {
        slot.owner.store(PARKED, Ordering::SeqCst);
    }
}

/// Whether half of the slots that there are may be in use.
#[inline(always)]
pub(crate) fn are_few_left(core: &Core) -> bool {
    let used = core.word(session::SLOTS_USED).load(Ordering::Relaxed).min(MAX_SLOTS);
    used > FIRST_SLOTS / 2 && {
        let pages = (0..session::SLOT_PAGE_COUNT).map(|i| core.load(session::SLOT_PAGES + 8 * i));
        let pages = pages.filter(|page| *page != 0).count() as u64;
        pages < session::SLOT_PAGE_COUNT && 2 * used > FIRST_SLOTS + pages * PAGE_SLOTS
    }
}

/// Where several have read at once, sees to it that readers have slots enough before somebody begins who may write for long: none
/// can be made then. Not in any case, as it is a commit: who changes nothing is to wake nobody.
#[inline]
pub(crate) fn provide_slots(core: &Core) -> Result<()> {
    let used = core.word(session::SLOTS_USED).load(Ordering::Relaxed);
    let are_several = used > FIRST_SLOTS / 4 && core.load(session::SLOT_PAGES) == 0;
    if are_several || are_few_left(core) { provide_more_slots(core) } else { Ok(()) }
}

#[cold]
fn provide_more_slots(core: &Core) -> Result<()> {
    match Writer::begin_change(core)?.add_slots() {
        Err(error) if error.is_bad_file() => Err(error),
        // Who finds no room for them may find some for what he writes.
        _ => Ok(()),
    }
}

/// Makes another page of slots; `None` if another thread writes, `false` if there are as many as can be.
fn try_add_slots(core: &Core) -> Result<Option<bool>> {
    // Without looking for space: that is to sync, for which a slot is needed.
    match Writer::try_begin(core)? {
        Some(writer) => writer.add_slots().map(Some),
        None => core.check_not_own().map(|()| None),
    }
}

/// Notes when a pin was taken that may be held for long.
pub(crate) fn note_time(pin: &Pin<'_>) {
    if pin.owner != NOBODY {
        pin.slot.time.store(unix_ms(), Ordering::Relaxed);
    }
}

/// What a reader with a lease knows of its pin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'c> {
    slot: Slot<'c>,
    owner: u64,
    /// What [`forks`] was when the pin was taken.
    forks: u32,
    /// How long it was when it began.
    lease: Duration,
}

impl Claim<'_> {
    /// Whether the pin is still there. What was copied before this was called was what the commit has.
    pub(crate) fn is_held(&self) -> bool {
        fence(Ordering::SeqCst);
        self.is_own() && has_lease(self.slot.time.load(Ordering::Acquire))
    }

    /// Whether the slot is this process's: the parent may give it up and take it again for something
    /// else.
    fn is_own(&self) -> bool {
        self.slot.owner.load(Ordering::Acquire) == self.owner && !self.is_of_parent()
    }

    /// Whether it is another process's, which this one was forked from.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.forks != forks()
    }

    /// Has the lease end so long from now, if the pin is still there; whether it is.
    pub(crate) fn renew(&self, lease: Duration) -> bool {
        self.is_own() && renew(self.slot.time, lease)
    }

    /// How long the lease is, with what it was renewed by.
    pub(crate) fn lease(&self) -> Duration {
        let end = end_of(self.slot.time.load(Ordering::Acquire));
        let ms = end.saturating_sub(self.slot.begin.load(Ordering::Relaxed));
        if self.is_own() { Duration::from_millis(ms) } else { self.lease }
    }
}

/// Gives a pin a lease; `None` if it is of one who may not write: then nobody does.
pub(crate) fn lease<'c>(pin: &Pin<'c>, lease: Duration) -> Option<Claim<'c>> {
    if pin.owner == NOBODY {
        return None;
    }
    let (begin, end) = term(lease);
    pin.slot.begin.store(begin, Ordering::Relaxed);
    pin.slot.time.store(lease_to(end), Ordering::Release);
    Some(Claim { slot: pin.slot, owner: pin.owner, forks: pin.forks, lease })
}

fn all_slots(core: &Core) -> impl Iterator<Item = Slot<'_>> {
    (0..MAX_SLOTS).map_while(|i| slot(core, i))
}

/// Those that may hold something.
fn slots(core: &Core) -> impl Iterator<Item = Slot<'_>> {
    let used = core.word(session::SLOTS_USED).load(Ordering::SeqCst).min(MAX_SLOTS);
    (0..used).map_while(|i| slot(core, i))
}

/// The stamps of all commits that somebody reads.
#[inline(always)]
pub(crate) fn stamps(core: &Core) -> impl Iterator<Item = u64> {
    held(core, |_, time| !is_taken(time))
}

/// The same for the one who has the writer's lock and will give pages to others: he takes those pins
/// away whose lease is over.
#[inline(always)]
pub(crate) fn stamps_after_taking(core: &Core) -> impl Iterator<Item = u64> {
    held(core, |slot, time| !is_taken(time) && !take_if_over(slot.time, time))
}

/// The stamps of slots, of those with a lease only if `is_held` says so.
#[inline(always)]
fn held<'c>(core: &'c Core, is_held: impl Fn(Slot<'c>, u64) -> bool) -> impl Iterator<Item = u64> {
    fence(Ordering::SeqCst);
    slots(core).filter_map(move |slot| {
        let stamp = slot.stamp.load(Ordering::SeqCst);
        if stamp == 0 {
            return None;
        }
        // In this order: the word is never older than the stamp.
        let time = slot.time.load(Ordering::Acquire);
        (!is_leased(time) || is_held(slot, time)).then_some(stamp)
    })
}

/// Parks the slots of processes that died; how many.
pub(crate) fn clear_dead(core: &Core) -> usize {
    if core.only().is_some() {
        return 0;
    }
    // All of them: who died may have had one above the mark.
    all_slots(core).filter(|slot| park_if_dead(*slot)).count()
}

fn park_if_dead(slot: Slot<'_>) -> bool {
    let owner = slot.owner.load(Ordering::SeqCst);
    let (pid, start) = ((owner >> PID_SHIFT) as u32, owner & START_MASK);
    if owner == NOBODY || owner == PARKED {
        return false;
    }
    if pid == own_pid() && (start == 0 || start == own_start() & START_MASK) {
        return false;
    }
    // Ours first: somebody else may clear it and take it meanwhile.
    if is_alive(pid, start) || !take(slot, owner, me()) {
        return false;
    }
    slot.stamp.store(0, Ordering::SeqCst);
    slot.owner.store(PARKED, Ordering::SeqCst);
    true
}

/// Everybody who reads.
pub(crate) fn readers(core: &Core) -> Vec<Reader> {
    let (now, today) = (now_ms(), unix_ms());
    let reader = |slot: Slot<'_>| {
        let owner = slot.owner.load(Ordering::SeqCst);
        let stamp = slot.stamp.load(Ordering::SeqCst);
        let time = slot.time.load(Ordering::Acquire);
        if owner == NOBODY || stamp == 0 || is_taken(time) {
            return None;
        }
        let begin = slot.begin.load(Ordering::Relaxed);
        let lengths = lengths(time, begin);
        let age_ms = match lengths {
            Some(_) => now.saturating_sub(begin),
            None if time == 0 => 0,
            None => today.saturating_sub(time),
        };
        Some(Reader {
            pid: (owner >> PID_SHIFT) as u32,
            age_ms,
            stamp,
            held_bytes: 0,
            lease_ms: lengths.map(|(length, _)| length),
            left_ms: lengths.map(|(_, left)| left),
        })
    };
    slots(core).filter_map(reader).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btree::{BTree, Snapshot};

    fn mark(store: &BTree) -> u64 {
        store.core().load(session::SLOTS_USED)
    }

    fn commit(store: &BTree, times: u64) {
        for i in 0..times {
            store.insert(&i.to_le_bytes(), b"value").unwrap();
        }
    }

    fn hold(store: &BTree, count: u64) -> Vec<Snapshot<'_>> {
        (0..count).map(|_| store.read().unwrap()).collect()
    }

    /// Each commit took as long as when thousands read, for ever.
    #[test]
    fn after_many_readers_at_once_few_slots_are_looked_at() {
        let store = BTree::in_memory().unwrap();
        for _ in 0..2 {
            let held = hold(&store, 3000);
            commit(&store, 100);
            assert_eq!(mark(&store), 3000);
            drop(held);
            commit(&store, 100);
            assert_eq!(mark(&store), FEW);
        }
    }

    /// Nor where somebody reads in the last one, again and again, whenever a commit is made.
    #[test]
    fn who_reads_in_the_last_slot_does_not_stay_there() {
        let store = BTree::in_memory().unwrap();
        drop(hold(&store, 1000));
        for _ in 0..100 {
            let _held = store.read().unwrap();
            commit(&store, 1);
        }
        assert_eq!(mark(&store), FEW);
    }

    /// Who reads in a slot that was parked is seen.
    #[test]
    fn readers_in_slots_that_were_parked_hold_their_commits() {
        let store = BTree::in_memory().unwrap();
        let core = store.core();
        for count in [200, 90, 500] {
            drop(hold(&store, count));
            commit(&store, 20);
            assert_eq!(mark(&store), FEW);
            let held = hold(&store, 150);
            assert_eq!(mark(&store), 150);
            let number = core.newest().stamp;
            commit(&store, 20);
            assert_eq!(stamps(core).filter(|stamp| *stamp == number).count(), 150);
            // The mark is above those that are left.
            let rest = held.into_iter().skip(140).collect::<Vec<_>>();
            commit(&store, 20);
            assert_eq!(mark(&store), 150);
            assert_eq!(stamps(core).filter(|stamp| *stamp == number).count(), rest.len());
        }
    }

    /// As it is left by who is killed when he has taken a parked slot, or is about to park some.
    #[test]
    fn slots_of_the_dead_are_parked_wherever_they_are() {
        let store = BTree::in_memory().unwrap();
        let core = store.core();
        // No process has this number.
        let dead = (u64::from(u32::MAX >> 10) << PID_SHIFT) | 1;
        let slot = |i| slot(core, i).unwrap();
        let be_dead = |i| slot(i).owner.store(dead, Ordering::SeqCst);
        drop(hold(&store, 500));
        commit(&store, 20);
        (100..130).for_each(be_dead);
        assert_eq!((clear_dead(core), clear_dead(core)), (30, 0));
        assert!((100..130).all(|i| slot(i).owner.load(Ordering::SeqCst) == PARKED));
        assert_eq!(mark(&store), FEW);
        // Below the mark: the next who need them take them.
        drop(hold(&store, 130));
        (120..130).for_each(be_dead);
        assert_eq!(hold(&store, 130).len() as u64, 130);
        assert_eq!(mark(&store), 140);
        // Who lowers the mark asks now and then.
        commit(&store, 11 * SELDOM);
        assert_eq!(mark(&store), FEW);
    }
}
