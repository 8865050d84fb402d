//! What readers hold: so that nothing is written over that somebody looks at.
//!
//! A reader takes one of 64 lines in the data file and writes there who it is and which epoch it
//! began in; it lets go by writing zero. Who finds none free copies what it reads, and holds nothing.
//! Whoever takes something out of readers' reach notes the epoch and begins the next; it may be
//! written over when every pin is of a later epoch. A pin whose process is dead is cleared by whoever
//! waits for it.
//!
//! A pin may have a lease ([`crate::os::lease`]): a writer who finds it over goes on as if the pin were not
//! there, and its holder is told so. Who lets go of a line makes the word for that 0, and so does who takes
//! one, before he looks at the index.
//!
//! Order: a pin is an atomic exchange, so it is seen by everybody before the reader's first look
//! at the index. A writer unlinks, then reads the pins: so either it sees the pin, or the reader
//! sees the unlinking.

use super::format::{PINS, PINS_AT, session};
use super::view::Holds;
use crate::os::atomic::{AtomicU64, Ordering, fence};
use crate::os::lease::{
    end_of, has_lease, is_leased, is_taken, lease_to, lengths, renew, take_if_over, term,
};
use crate::os::process::{forks, is_alive, own_pid, own_start, unix_ms};
use crate::os::shared::SharedMap;
use std::cell::Cell;
use std::time::Duration;

const PID_SHIFT: u32 = 42;
const EPOCH_MASK: u64 = (1 << PID_SHIFT) - 1;
/// The words of a line with the end of a lease, and with its begin.
const LEASE: usize = 4;
const BEGIN: usize = 5;

/// A reader's promise to be gone soon; dropped, it is.
#[derive(Debug)]
pub(crate) struct Pin<'d> {
    line: &'d [AtomicU64; 8],
    /// What [`forks`] was when it was taken.
    forks: u32,
}

impl Holds for Pin<'_> {}

impl Pin<'_> {
    /// Whether it is this process's: after a fork the child has what is the parent's.
    #[inline(always)]
    fn is_own(&self) -> bool {
        self.forks == forks()
    }
}

impl Drop for Pin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_own() {
            self.line[0].store(0, Ordering::Release);
        }
    }
}

/// One who holds something.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reader {
    /// The process.
    pub pid: u32,
    /// How long it has held it, in milliseconds; 0 for a lookup that is going on.
    pub age_ms: u64,
    /// In which epoch it began; what was freed since then waits for it.
    pub epoch: u64,
    /// How long its lease is, with what it was renewed by, in milliseconds; `None` if it has none.
    pub lease_ms: Option<u64>,
    /// What is left of its lease, in milliseconds: with 0 whoever needs the space takes it.
    pub left_ms: Option<u64>,
}

/// Set in the word with the time where what is held is a value: the index is not looked at any more.
const OF_VALUE: u64 = 1 << 63;

/// The pin of a value that was given out: it keeps no index that is replaced.
#[derive(Debug)]
pub(crate) struct ValuePin<'d>(Pin<'d>);

impl Holds for ValuePin<'_> {}

impl<'d> ValuePin<'d> {
    pub(crate) fn new(pin: Pin<'d>) -> ValuePin<'d> {
        pin.line[2].store(unix_ms() | OF_VALUE, Ordering::Release);
        ValuePin(pin)
    }
}

impl Drop for ValuePin<'_> {
    fn drop(&mut self) {
        // Before the line is free: the next pin there may be of the same epoch, and looks at the index.
        if self.0.is_own() {
            self.0.line[2].store(0, Ordering::Release);
        }
    }
}

/// A pin that ends when its lease is over and somebody needs the space.
#[derive(Debug)]
pub(crate) struct LeasedPin<'d> {
    pin: ValuePin<'d>,
    lease: Duration,
}

impl<'d> LeasedPin<'d> {
    pub(crate) fn new(pin: Pin<'d>, lease: Duration) -> LeasedPin<'d> {
        let pin = ValuePin::new(pin);
        let (begin, end) = term(lease);
        pin.0.line[BEGIN].store(begin, Ordering::Relaxed);
        pin.0.line[LEASE].store(lease_to(end), Ordering::Release);
        LeasedPin { pin, lease }
    }

    /// Whether what was copied before this was called is what the pin held.
    pub(crate) fn is_held(&self) -> bool {
        fence(Ordering::SeqCst);
        self.pin.0.is_own() && has_lease(self.pin.0.line[LEASE].load(Ordering::Acquire))
    }

    /// Has the lease end so long from now; whether it was not over before.
    pub(crate) fn renew(&self, lease: Duration) -> bool {
        self.pin.0.is_own() && renew(&self.pin.0.line[LEASE], lease)
    }

    /// How long the lease is, with what it was renewed by.
    pub(crate) fn lease(&self) -> Duration {
        let line = self.pin.0.line;
        let end = end_of(line[LEASE].load(Ordering::Acquire));
        let ms = end.saturating_sub(line[BEGIN].load(Ordering::Relaxed));
        if self.pin.0.is_own() { Duration::from_millis(ms) } else { self.lease }
    }
}

impl Drop for LeasedPin<'_> {
    fn drop(&mut self) {
        // Before the line is free.
        if self.pin.0.is_own() {
            self.pin.0.line[LEASE].store(0, Ordering::Release);
        }
    }
}

thread_local! {
    /// The pin that this thread took last: the next time it is probably free.
    static LAST: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Takes a pin; `None` if there is none that is free.
#[inline(always)]
pub(crate) fn try_pin(data: &SharedMap) -> Option<Pin<'_>> {
    let epoch = data.head()[session::EPOCH as usize / 8].load(Ordering::Acquire);
    let mark = u64::from(own_pid()) << PID_SHIFT | epoch & EPOCH_MASK;
    let last = LAST.get();
    if last < PINS
        && let Some(line) = data.line(PINS_AT + last * 64)
        && line[0].compare_exchange(0, mark, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    {
        clear_lease(line);
        if line[1].load(Ordering::Relaxed) != own_start() {
            line[1].store(own_start(), Ordering::Relaxed);
        }
        line[2].store(0, Ordering::Relaxed);
        line[3].store(mark, Ordering::Release);
        return Some(Pin { line, forks: forks() });
    }
    try_another(data, mark)
}

/// Who cleared the line of a dead reader may have left his lease there. Before the index is looked at: until
/// then the pin holds nothing.
#[inline(always)]
fn clear_lease(line: &[AtomicU64; 8]) {
    if line[LEASE].load(Ordering::Relaxed) != 0 {
        line[LEASE].swap(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

#[cold]
fn try_another(data: &SharedMap, mark: u64) -> Option<Pin<'_>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let start = match LAST.get() {
        u64::MAX => NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(u64::from(own_pid())),
        last => last + 1,
    };
    for is_cleared in [false, true] {
        for i in (0..PINS).map(|i| start.wrapping_add(i) % PINS) {
            let Some(line) = data.line(PINS_AT + i * 64) else { continue };
            if line[0].compare_exchange(0, mark, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                clear_lease(line);
                line[1].store(own_start(), Ordering::Relaxed);
                line[2].store(0, Ordering::Relaxed);
                line[3].store(mark, Ordering::Release);
                LAST.set(i);
                return Some(Pin { line, forks: forks() });
            }
        }
        if !is_cleared {
            clear_dead(data);
        }
    }
    None
}

/// A pin that is held for long: says since when, for those who look at who holds what.
pub(crate) fn note_time(pin: &Pin<'_>) {
    pin.line[2].store(unix_ms(), Ordering::Relaxed);
}

fn lines(data: &SharedMap) -> impl Iterator<Item = &[AtomicU64; 8]> {
    (0..PINS).filter_map(|i| data.line(PINS_AT + i * 64))
}

/// Whether everything that was out of reach before `epoch` began is out of everybody's hands; for who
/// has the writers' lock and will write there. Leases that are over are ended.
pub(crate) fn is_past(data: &SharedMap, epoch: u64) -> bool {
    fence(Ordering::SeqCst);
    let holds = |line: &[AtomicU64; 8]| {
        let mark = line[0].load(Ordering::SeqCst);
        if mark == 0 || mark & EPOCH_MASK > epoch & EPOCH_MASK {
            return false;
        }
        // In this order: a lease that is seen is of this pin or one after it.
        let lease = line[LEASE].load(Ordering::Acquire);
        !is_leased(lease) || !is_taken(lease) && !take_if_over(&line[LEASE], lease)
    };
    // All of them, also when one holds it: which leases end does not depend on the order of their lines.
    !lines(data).fold(false, |is_held, line| is_held | holds(line))
}

/// Whether somebody may look at an index with a pin from the epoch or one before it: in this process or, with `of_all`, in
/// any.
pub(crate) fn is_looked_at(data: &SharedMap, epoch: u64, of_all: bool) -> bool {
    fence(Ordering::SeqCst);
    lines(data).any(|line| {
        let mark = line[0].load(Ordering::SeqCst);
        let is_asked = mark != 0 && (of_all || mark >> PID_SHIFT == u64::from(own_pid()));
        if !is_asked || mark & EPOCH_MASK > epoch & EPOCH_MASK {
            return false;
        }
        // In this order: only when the pin is confirmed the other word is not that of a dead reader.
        let is_confirmed = line[3].load(Ordering::Acquire) == mark;
        !(is_confirmed && line[2].load(Ordering::Acquire) & OF_VALUE != 0)
    })
}

/// Ends an epoch, and says which it was: what was unlinked before is out of hands when
/// [`is_past`] says so of it.
pub(crate) fn end_epoch(data: &SharedMap) -> u64 {
    data.head()[session::EPOCH as usize / 8].fetch_add(1, Ordering::SeqCst)
}

/// Clears all of them: no reader is left.
pub(crate) fn clear_all(data: &SharedMap) {
    lines(data).flatten().for_each(|word| word.store(0, Ordering::Relaxed));
}

/// Clears the pins of processes that died.
pub(crate) fn clear_dead(data: &SharedMap) {
    for line in lines(data) {
        // Before the mark: then it is of that pin, or of one before it.
        let lease = line[LEASE].load(Ordering::SeqCst);
        let mark = line[0].load(Ordering::SeqCst);
        let pid = (mark >> PID_SHIFT) as u32;
        // Where a process of that number lives, the pin is another's only if its taker came so far
        // as to confirm when it began; read before that, which may else be of who had the line before.
        let look = || {
            let confirmed = line[3].load(Ordering::SeqCst);
            (confirmed, line[1].load(Ordering::SeqCst))
        };
        let (confirmed, start) = look();
        let is_confirmed = confirmed == mark;
        if mark == 0 || pid == own_pid() && (!is_confirmed || start == own_start()) {
            continue;
        }
        if is_alive(pid, if is_confirmed { start } else { 0 }) || look() != (confirmed, start) {
            continue;
        }
        if lease != 0 {
            let _ = line[LEASE].compare_exchange(lease, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
        // Who takes it with the same number and in the same epoch has yet to confirm it.
        let _ = line[3].compare_exchange(confirmed, 0, Ordering::SeqCst, Ordering::Relaxed);
        let _ = line[0].compare_exchange(mark, 0, Ordering::SeqCst, Ordering::Relaxed);
    }
}

/// Everybody who holds something.
pub(crate) fn readers(data: &SharedMap) -> Vec<Reader> {
    let today = unix_ms();
    let reader = |line: &[AtomicU64; 8]| {
        let mark = line[0].load(Ordering::SeqCst);
        let since = line[2].load(Ordering::Relaxed) & !OF_VALUE;
        let lease = line[LEASE].load(Ordering::Acquire);
        if mark == 0 || is_taken(lease) {
            return None;
        }
        let lengths = lengths(lease, line[BEGIN].load(Ordering::Relaxed));
        Some(Reader {
            pid: (mark >> PID_SHIFT) as u32,
            age_ms: if since == 0 { 0 } else { today.saturating_sub(since) },
            epoch: mark & EPOCH_MASK,
            lease_ms: lengths.map(|(length, _)| length),
            left_ms: lengths.map(|(_, left)| left),
        })
    };
    lines(data).filter_map(reader).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;

    /// As it is left where a writer takes the lease of a dead reader while another clears his line.
    #[test]
    fn a_lease_that_was_left_in_a_free_line_is_not_that_of_who_takes_it() {
        let store = Hash::in_memory().unwrap();
        let data = &store.core().data;
        for line in lines(data) {
            line[LEASE].store(lease_to(0), Ordering::Relaxed);
        }
        for _ in 0..2 {
            let pins: Vec<Pin<'_>> = (0..PINS).map(|_| try_pin(data).unwrap()).collect();
            assert!(!is_past(data, end_epoch(data)), "the pins hold nothing");
            drop(pins);
            assert!(is_past(data, end_epoch(data)));
            lines(data).for_each(|line| {
                line[LEASE].store(lease_to(0), Ordering::Relaxed);
                assert!(take_if_over(&line[LEASE], lease_to(0)));
            });
        }
    }
}
