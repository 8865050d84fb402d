//! Which slot of an area is whose: taking one, and giving back those of processes that ended.
//!
//! Who takes or gives back holds the lock of the file (`flock`, which ends with its process), and
//! in a process also a mutex. Nobody waits for either while a store is used: who cannot have them
//! counts in the common slot, number 0, and tries again later.

use super::histogram::BUCKETS;
use super::layout::{
    self, BYTES, CALL, CALLS, COUNTER_WORDS, COUNTERS, LINE_WORDS, MAX, MOVING, OWNER, OWNER_BOOT,
    OWNER_START, SLOTS,
};
use super::operation::Operation;
use crate::os::access::Rights;
use crate::os::area::{Area, open_or_create};
use crate::os::file::{is_same, lock_within, read_exact_at};
use crate::os::process::Process;

use crate::{Error, Result};
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Attempts to get the lock of a file when a store is opened, and when it is closed.
const OPEN_ATTEMPTS: u32 = 2000;
const CLOSE_ATTEMPTS: u32 = 20;

/// The file of statistics of the store at `store`.
pub(super) fn path_beside(store: &Path) -> PathBuf {
    let store = std::fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let mut path = OsString::from(store);
    path.push("-stats");
    path.into()
}

/// Who hands out the slots of an area.
#[derive(Debug)]
pub(super) struct Slots {
    mutex: Mutex<()>,
    /// Where processes share the area.
    file: Option<File>,
}

impl Slots {
    /// An area of this process.
    pub(super) fn private() -> Result<(Slots, Area)> {
        Ok((Slots { mutex: Mutex::new(()), file: None }, Area::private(BYTES)?))
    }

    /// The area in the file beside a store, which is made if there is none.
    pub(super) fn shared(store: &Path) -> Result<(Slots, Area)> {
        if cfg!(target_endian = "big") {
            return Err(Error::invalid("statistics are not shared on big-endian machines"));
        }
        let path = &path_beside(store);
        for _ in 0..OPEN_ATTEMPTS {
            let file = open_or_create(path)?;
            let opened = locked(&file, OPEN_ATTEMPTS, || {
                // Whoever had the lock before may have removed it.
                if !is_same(&file, path.metadata()) {
                    return Ok(None);
                }
                open(&file, store).map(Some).inspect_err(|_| {
                    // On a full disk: a file without content would be in the way of who looks for one.
                    if file.metadata().is_ok_and(|meta| meta.len() == 0) {
                        let _ = std::fs::remove_file(path);
                    }
                })
            });
            let area = opened.ok_or_else(cannot_be_locked);
            if let Some(area) = area.flatten().map_err(|e| e.at(path))? {
                return Ok((Slots { mutex: Mutex::new(()), file: Some(file) }, area));
            }
        }
        Err(cannot_be_locked().at(path))
    }

    /// A slot for a thread of this process, if there is one and nobody else is taking one.
    pub(super) fn take(&self, area: &Area) -> Option<u8> {
        let _mutex = self.mutex.try_lock().ok()?;
        let words = area.words();
        match &self.file {
            None => take(words),
            Some(file) => locked(file, 1, || {
                take(words).or_else(|| {
                    fold_dead(words);
                    take(words)
                })
            })?,
        }
    }

    /// Gives back slots of this process, in which nobody counts any more. Where that cannot be
    /// done now, whoever needs them does it after this process has ended.
    pub(super) fn give_back(&self, area: &Area, mine: impl Iterator<Item = u8>) {
        let Some(file) = &self.file else { return };
        let words = area.words();
        locked(file, CLOSE_ATTEMPTS, || {
            moving(words, || mine.for_each(|number| fold(words, usize::from(number))))
        });
    }
}

fn cannot_be_locked() -> Error {
    Error::invalid("the lock of these statistics cannot be had; another process keeps it")
}

/// Does `f` with the lock of the file; `None` if others have it.
fn locked<T>(file: &File, attempts: u32, f: impl FnOnce() -> T) -> Option<T> {
    // What cannot be locked is as what others have.
    if !lock_within(file, attempts).unwrap_or(false) {
        return None;
    }
    let done = f();
    // The lock also ends when the file is closed.
    let _ = file.unlock();
    Some(done)
}

/// Maps the file, whose lock we have; one without content gets its header first.
fn open(file: &File, store: &Path) -> Result<Area> {
    let len = file.metadata().map_err(|e| Error::io("ask the size of", e))?.len();
    let mut head = vec![0; layout::header().len().min(len as usize)];
    read_exact_at(file, &mut head, 0)?;
    // One that was being made when its maker was killed has no header either.
    if head.iter().all(|b| *b == 0) && len <= BYTES as u64 {
        // Where that cannot be, whoever made the file has said who may use it.
        let _ = belong_to(file, store);
        let area = Area::of_file(file, BYTES)?;
        file.write_all_at(&layout::header(), 0).map_err(|e| Error::io("write", e))?;
        return Ok(area);
    }
    layout::check(&head, len)?;
    let area = Area::of_file(file, BYTES)?;
    fold_dead(area.words());
    Ok(area)
}

/// Gives a file of statistics the rights of its store, so that who may change the one may count in the other, and nobody
/// else may look. Its owner counts also in what nobody changes.
fn belong_to(file: &File, store: &Path) -> std::io::Result<()> {
    Rights::at(store)?.give(file)?;
    let mode = file.metadata()?.permissions().mode();
    file.set_permissions(Permissions::from_mode(mode & 0o666 | 0o600))
}

/// Makes the first free slot this process's.
fn take(words: &[AtomicU64]) -> Option<u8> {
    let free = (1..SLOTS).find(|number| owner_of(words, *number).is_none())?;
    let me = Process::current();
    let at = layout::slot(free);
    // What a slot holds that was nobody's is not ours: that of a file that others filled.
    clear(words, free);
    words.get(at + OWNER_START)?.store(me.start, Ordering::Relaxed);
    words.get(at + OWNER_BOOT)?.store(me.boot, Ordering::Relaxed);
    let word = u64::from(me.pid) | u64::from(me.namespace) << 32;
    words.get(at + OWNER)?.store(word, Ordering::Release);
    u8::try_from(free).ok()
}

/// Whose a slot is.
fn owner_of(words: &[AtomicU64], number: usize) -> Option<Process> {
    let at = layout::slot(number);
    let read = |word: usize| words.get(at + word).map_or(0, |w| w.load(Ordering::Acquire));
    let owner = read(OWNER);
    (owner != 0).then(|| Process {
        pid: owner as u32,
        namespace: (owner >> 32) as u32,
        start: read(OWNER_START),
        boot: read(OWNER_BOOT),
    })
}

/// Moves what dead processes counted into the common slot, and frees their slots.
fn fold_dead(words: &[AtomicU64]) {
    let me = Process::current();
    let is_dead = |number: &usize| owner_of(words, *number).is_some_and(|p| p.is_dead(&me));
    let dead: Vec<usize> = (1..SLOTS).filter(is_dead).collect();
    if !dead.is_empty() {
        moving(words, || dead.into_iter().for_each(|number| fold(words, number)));
    }
}

/// Does `f`, which moves numbers, while the word that tells readers so is odd. Whoever was killed
/// here leaves it odd until the next.
fn moving(words: &[AtomicU64], f: impl FnOnce()) {
    let Some(word) = words.get(MOVING) else { return };
    let even = word.load(Ordering::Relaxed) & !1;
    word.store(even.wrapping_add(1), Ordering::SeqCst);
    fence(Ordering::SeqCst);
    f();
    word.store(even.wrapping_add(2), Ordering::SeqCst);
}

/// Moves the numbers of a slot into the common one and frees it. Each is taken out before it is
/// added: who is killed in between loses one of them, and none counts twice.
fn fold(words: &[AtomicU64], number: usize) {
    let (from, to) = (layout::slot(number), layout::slot(0));
    let pair = |at: usize| Some((words.get(from + at)?, words.get(to + at)?));
    for at in 0..COUNTER_WORDS {
        let Some((from, to)) = pair(COUNTERS + at) else { return };
        let value = from.swap(0, Ordering::Relaxed);
        match at % LINE_WORDS {
            CALLS => to.fetch_add(value - value % CALL, Ordering::Relaxed),
            MAX => to.fetch_max(value, Ordering::Relaxed),
            _ => to.fetch_add(value, Ordering::Relaxed),
        };
    }
    let first = layout::histogram(0, Operation::Get) - to;
    for at in first..first + Operation::ALL.len() * BUCKETS {
        let Some((from, to)) = pair(at) else { return };
        // Only what is there, so that pages that nobody used are not written.
        if from.load(Ordering::Relaxed) != 0 {
            to.fetch_add(from.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }
    if let Some(owner) = words.get(from + OWNER) {
        owner.store(0, Ordering::Release);
    }
}

/// Sets the numbers of a slot to zero.
fn clear(words: &[AtomicU64], number: usize) {
    let slot = words.get(layout::slot(number) + COUNTERS..layout::slot(number + 1));
    for word in slot.unwrap_or_default().iter().filter(|word| word.load(Ordering::Relaxed) != 0) {
        word.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Counters, Done};
    use super::super::{Operation, Statistics};
    use super::*;

    fn recorder(options: &Statistics, store: &Path) -> Counters {
        Counters::new(Some(options), store).unwrap().unwrap()
    }

    fn get(recorder: &Counters, bytes: Option<usize>) {
        recorder.observe(Operation::Get, || Ok(()), |()| Done::found(bytes)).unwrap();
    }

    fn owned(area: &Area) -> Vec<usize> {
        (1..SLOTS).filter(|number| owner_of(area.words(), *number).is_some()).collect()
    }

    /// Counts `n` calls as `process` in a slot of its own, and leaves it there.
    fn leave_behind(area: &Area, process: Process, n: u64) {
        let words = area.words();
        let number = usize::from(take(words).unwrap());
        let at = layout::slot(number);
        words[at + OWNER_START].store(process.start, Ordering::Relaxed);
        words[at + OWNER]
            .store(u64::from(process.pid) | u64::from(process.namespace) << 32, Ordering::Relaxed);
        words[layout::line(number, Operation::Get) + CALLS].store(n * CALL + 7, Ordering::Relaxed);
        words[layout::line(number, Operation::Get) + MAX].store(n, Ordering::Relaxed);
        words[layout::histogram(number, Operation::Sync) + 3].store(n, Ordering::Relaxed);
    }

    #[test]
    fn slots_of_the_dead_are_folded_and_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let (slots, area) = Slots::shared(&path).unwrap();
        let me = Process::current();
        let dead = Process { pid: u32::MAX, ..me };
        for n in 1..SLOTS as u64 {
            // Every fourth is alive, or its namespace is another one, so that nobody can tell.
            let process = match n % 4 {
                0 => me,
                1 => Process { namespace: 1, ..dead },
                2 => dead,
                _ => Process { start: me.start + 1, ..me },
            };
            leave_behind(&area, process, n);
        }
        assert_eq!(owned(&area).len(), SLOTS - 1);
        let number = usize::from(slots.take(&area).unwrap());
        assert_eq!(number, 2, "the first of the dead");
        let live: Vec<usize> = (1..SLOTS).filter(|n| n % 4 < 2 || *n == number).collect();
        assert_eq!(owned(&area), live);
        let words = area.words();
        let common = |at: usize| words[at].load(Ordering::Relaxed);
        let folded: Vec<u64> = (1..SLOTS as u64).filter(|n| n % 4 >= 2).collect();
        let sum: u64 = folded.iter().sum();
        assert_eq!(common(layout::line(0, Operation::Get) + CALLS), sum * CALL);
        assert_eq!(common(layout::line(0, Operation::Get) + MAX), folded[folded.len() - 1]);
        assert_eq!(common(layout::histogram(0, Operation::Sync) + 3), sum);
        assert_eq!(common(layout::line(number, Operation::Get) + CALLS), 0);
        assert_eq!(common(MOVING) % 2, 0);
    }

    #[test]
    fn opening_folds_what_a_killed_process_left_and_closing_what_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("x");
        {
            let (_, area) = Slots::shared(&store).unwrap();
            leave_behind(&area, Process { pid: u32::MAX, ..Process::current() }, 10);
            // A process killed while it folded.
            area.words()[MOVING].store(5, Ordering::Relaxed);
        }
        let options = Statistics::new().shared(true);
        for round in 1..4 {
            let recorder = recorder(&options, &store);
            let gets = |recorder: &Counters| recorder.operations().of(Operation::Get).calls;
            assert_eq!(gets(&recorder), 9 + round);
            get(&recorder, None);
            assert_eq!(gets(&recorder), 10 + round);
            drop(recorder);
            let (_, area) = Slots::shared(&store).unwrap();
            assert_eq!(owned(&area), [0usize; 0]);
            assert_eq!(area.words()[MOVING].load(Ordering::Relaxed) % 2, 0);
        }
    }

    #[test]
    fn a_lock_that_another_keeps_stops_nobody_from_counting() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("x");
        let recorder = recorder(&Statistics::new().shared(true), &store);
        let other = open_or_create(&path_beside(&store)).unwrap();
        other.lock().unwrap();
        for _ in 0..1000 {
            get(&recorder, Some(3));
        }
        let operations = recorder.operations();
        assert_eq!(operations.of(Operation::Get).calls, 1000);
        assert_eq!(operations.of(Operation::Get).bytes, 3000);
        drop(other);
        drop(recorder);
    }

    #[test]
    fn a_slot_is_empty_when_it_is_taken() {
        let (slots, area) = Slots::private().unwrap();
        let at = layout::line(1, Operation::Get);
        area.words()[at].store(99 * CALL, Ordering::Relaxed);
        assert_eq!(slots.take(&area), Some(1));
        assert_eq!(area.words()[at].load(Ordering::Relaxed), 0);
    }
}
