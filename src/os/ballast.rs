//! Room set aside on file systems that write no page where it lies.
//!
//! btrfs and others write a page anew each time it was changed; XFS and others do so where files share it. So it takes room
//! to change what a file has had for long, allocated or not, and who changes it through a map when there is none is ended
//! (SIGBUS). Therefore a process keeps some blocks there, in two files without a name, as long as it may change a store. When
//! the signal comes, the larger file is emptied, and what was being done goes on. From then on nobody begins another
//! change ([`Ballast::is_held`]), before as much could be set aside again. The smaller file is for those who read, who change
//! a word of the store, too, and for what must end: a lock, a transaction. Without both, as others took what was given up, a
//! little is waited for who gives some back; then the signal does what it did before.
//!
//! Invariants: a slot of [`SLOTS`] with users has its device, and it, or no slot, is that of whoever asks for that device; a
//! file is emptied only by who has taken it out of its word, in the process that made it, and filled again or closed only
//! when nobody can have done so just now.
//!
//! Threads: any; the signal may come to several at once. A forked process sets room of its own aside when it asks, and
//! leaves alone what its parent has.

#![allow(unsafe_code)]

mod signal;

use super::file::check_length;
use super::holes::file_system;
use super::place::proc_path;
use super::process::{forks, monotonic_ns, prepare};
use crate::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Which part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// What changes take: given up first.
    Changes,
    /// What those take who read, and the end of what was begun.
    Reads,
}

const PARTS: [Part; 2] = [Part::Changes, Part::Reads];

impl Part {
    fn bytes(self) -> i64 {
        match self {
            Part::Changes => 8 << 20,
            Part::Reads => 1 << 20,
        }
    }
}

/// File systems that write pages anew, and whether they do so with all: where only some files are such, one for which no
/// room can be set aside is changed all the same. What lies below an overlay nobody says.
const KINDS: [(u32, bool); 5] = [
    (libc::BTRFS_SUPER_MAGIC as u32, true),
    (BCACHEFS_SUPER_MAGIC, true),
    (libc::NILFS_SUPER_MAGIC as u32, true),
    (libc::F2FS_SUPER_MAGIC as u32, true),
    (libc::XFS_SUPER_MAGIC as u32, false),
];
const BCACHEFS_SUPER_MAGIC: u32 = 0xca45_1a4e;

/// So long what needs room is tried again when there is none left, since that was given up, or was first missed.
const PATIENCE: Duration = Duration::from_secs(10);
/// And so long it is slept in between, by the clock of the kernel.
static NAP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// So often room is given up for one address, with less time than that between.
const MOST: u32 = 100;
/// So long it is not tried again to set room aside.
const PAUSE: Duration = Duration::from_millis(100);

/// Of a device: more of these at a time have none.
static SLOTS: [Slot; 16] = [const { Slot::new() }; 16];

/// How many maps of a device are told from those of others.
const MAPS: usize = 32;

/// Somebody is making the slot, or giving it back.
const CLAIMED: u32 = u32::MAX;
const NONE: i32 = -1;

#[derive(Debug)]
struct Slot {
    users: AtomicU32,
    device: AtomicU64,
    /// From and to which address each map is; nowhere if there is none. And how many have no place here.
    maps: [[AtomicUsize; 2]; MAPS],
    others: AtomicU32,
    /// What [`forks`] is in the process that set it aside; 0: nobody did.
    owner: AtomicU32,
    /// The same of who is setting it aside.
    busy: AtomicU32,
    /// Whether it cannot be set aside for another reason than that there is no room.
    goes_without: AtomicBool,
    /// When that was last tried, and when room was last given up, by the monotonic clock; and when there was first none to
    /// give up since some was set aside: 0 if there was.
    tried: AtomicU64,
    given_up: AtomicU64,
    missed: AtomicU64,
    /// Threads of that process that are emptying a file, or about to.
    emptying: AtomicU32,
    /// For which address a file was emptied last, and how often since another, or a longer time, was between.
    address: AtomicUsize,
    times: AtomicU32,
    /// Descriptors, by part; and those whose file has its blocks.
    files: [AtomicI32; 2],
    held: [AtomicI32; 2],
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            users: AtomicU32::new(0),
            device: AtomicU64::new(0),
            maps: [const { [const { AtomicUsize::new(0) }; 2] }; MAPS],
            others: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            goes_without: AtomicBool::new(false),
            tried: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            emptying: AtomicU32::new(0),
            address: AtomicUsize::new(0),
            times: AtomicU32::new(0),
            files: [const { AtomicI32::new(NONE) }; 2],
            held: [const { AtomicI32::new(NONE) }; 2],
        }
    }

    fn held(&self, part: Part) -> &AtomicI32 {
        &self.held[part as usize]
    }

    fn file(&self, part: Part) -> &AtomicI32 {
        &self.files[part as usize]
    }

    /// Whether an address is one of its maps, or may be.
    fn is_at(&self, address: usize) -> bool {
        let is_within = |[from, to]: &[AtomicUsize; 2]| {
            (from.load(Ordering::Acquire)..to.load(Ordering::Acquire)).contains(&address)
        };
        self.maps.iter().any(is_within) || self.others.load(Ordering::Acquire) > 0
    }

    /// Notes a map; its place here, if there is one.
    fn add(&self, map: Range<usize>) -> Option<&[AtomicUsize; 2]> {
        let take = |[from, _]: &&[AtomicUsize; 2]| {
            from.compare_exchange(0, map.start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let place = self.maps.iter().find(take);
        match place {
            Some([_, to]) => to.store(map.end, Ordering::Release),
            None => drop(self.others.fetch_add(1, Ordering::AcqRel)),
        }
        place
    }

    /// Counts one more user of a slot that has some, for this device.
    fn share(&self, device: u64) -> bool {
        let more = |users| (users != 0 && users != CLAIMED).then(|| users + 1);
        let is_in_use = self.users.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok();
        if is_in_use && self.device.load(Ordering::Acquire) != device {
            self.leave();
            return false;
        }
        is_in_use
    }

    /// One user less; the last one gives the room back.
    fn leave(&self) {
        let less = |users| Some(if users == 1 { CLAIMED } else { users - 1 });
        let before = self.users.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        if before == Ok(1) {
            PARTS.iter().for_each(|part| self.close(*part));
            self.owner.store(0, Ordering::Release);
            self.users.store(0, Ordering::Release);
        }
    }

    fn close(&self, part: Part) {
        let file = self.file(part).swap(NONE, Ordering::AcqRel);
        self.held(part).swap(NONE, Ordering::SeqCst);
        if file == NONE || !self.is_of_others() && !self.is_emptied() {
            // Left open rather than that somebody empties what has its number next.
            return;
        }
        // SAFETY: made by `set_aside_part`, and in no word any more; nobody who took it from one is about to use it.
        drop(unsafe { File::from_raw_fd(file) });
    }

    /// Whether what is set aside is that of the process that this one was forked from.
    fn is_of_others(&self) -> bool {
        self.owner.load(Ordering::SeqCst) != forks()
    }

    /// Whether nobody is about to empty a file; waits a second for it.
    fn is_emptied(&self) -> bool {
        for _ in 0..1000 {
            if self.emptying.load(Ordering::SeqCst) == 0 {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Whether this process has it.
    #[inline(always)]
    fn holds(&self, part: Part) -> bool {
        self.held(part).load(Ordering::Acquire) != NONE && !self.is_of_others()
    }

    /// Sets both parts aside, beside `store`, unless they are; in files of its own for this process. One thread at a time:
    /// an error for another.
    fn set_aside(&self, store: &File) -> io::Result<()> {
        let own = forks();
        // A thread of another process is none that will ever end here.
        let begin = |busy| (busy != own).then_some(own);
        if self.busy.fetch_update(Ordering::AcqRel, Ordering::Relaxed, begin).is_err() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.is_of_others() {
            // Nobody empties here what that process believes it has; nor does who was about to there end here.
            PARTS.iter().for_each(|part| self.close(*part));
            self.emptying.store(0, Ordering::SeqCst);
            self.owner.store(own, Ordering::SeqCst);
        }
        let done = PARTS.iter().rev().try_for_each(|part| self.set_aside_part(store, *part));
        self.busy.store(0, Ordering::Release);
        done
    }

    fn set_aside_part(&self, store: &File, part: Part) -> io::Result<()> {
        if self.file(part).load(Ordering::Acquire) == NONE {
            let file = unnamed_beside(store)?;
            self.file(part).store(file.into_raw_fd(), Ordering::Release);
        }
        let file = self.file(part).load(Ordering::Acquire);
        if self.held(part).load(Ordering::SeqCst) != NONE {
            return Ok(());
        }
        if self.emptying.load(Ordering::SeqCst) != 0 {
            // What has its blocks still has none soon.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        check_length(part.bytes().cast_unsigned())?;
        // SAFETY: the descriptor is open, as this slot has users; the calls take no pointers.
        unsafe {
            if libc::fallocate(file, 0, 0, part.bytes()) != 0 {
                let error = io::Error::last_os_error();
                // Some file systems leave the blocks that there were.
                libc::ftruncate(file, 0);
                return Err(error);
            }
        }
        self.missed.store(0, Ordering::SeqCst);
        self.held(part).store(file, Ordering::SeqCst);
        Ok(())
    }

    /// Empties one of the files for an address; whether that, or what another thread does or did just now, is a reason to
    /// try again.
    fn give_up(&self, address: usize) -> bool {
        if self.is_of_others() {
            return false;
        }
        for part in PARTS {
            if self.held(part).load(Ordering::SeqCst) == NONE {
                continue;
            }
            if self.is_in_vain(address) {
                return false;
            }
            self.emptying.fetch_add(1, Ordering::SeqCst);
            let file = self.held(part).swap(NONE, Ordering::SeqCst);
            if file != NONE {
                // SAFETY: the descriptor is open: see `close`. The call may be made in a handler.
                unsafe { libc::ftruncate(file, 0) };
                self.given_up.store(monotonic_ns(), Ordering::SeqCst);
            }
            self.emptying.fetch_sub(1, Ordering::SeqCst);
            if file != NONE {
                return true;
            }
        }
        if self.emptying.load(Ordering::SeqCst) == 0 {
            let now = monotonic_ns();
            let missed = self.missed.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
            let last = missed.map_or_else(|first| first, |_| now);
            let since = now.saturating_sub(last.max(self.given_up.load(Ordering::SeqCst)));
            if since > PATIENCE.as_nanos() as u64 {
                return false;
            }
        }
        // SAFETY: the time is read during the call, which may be made in a handler.
        unsafe { libc::nanosleep(&raw const NAP, std::ptr::null_mut()) };
        true
    }

    /// Whether a file was emptied so often for this address that it is not room that is missing there, but the file's end.
    fn is_in_vain(&self, address: usize) -> bool {
        let is_another = self.address.swap(address, Ordering::SeqCst) != address;
        let since = monotonic_ns().saturating_sub(self.given_up.load(Ordering::SeqCst));
        if is_another || since > PATIENCE.as_nanos() as u64 {
            self.times.store(0, Ordering::SeqCst);
        }
        self.times.fetch_add(1, Ordering::SeqCst) >= MOST
    }

    /// Tries to set aside what was given up, or what only the process has that this one was forked from.
    #[cold]
    fn is_held_again(&self, store: &File, part: Part, is_needed: bool) -> bool {
        let is_new = self.is_of_others();
        let (now, tried) = (monotonic_ns(), self.tried.load(Ordering::Relaxed));
        if !is_new && now.saturating_sub(tried) < PAUSE.as_nanos() as u64 {
            return self.holds(part) || self.goes_without.load(Ordering::Relaxed);
        }
        self.tried.store(now, Ordering::Relaxed);
        // What cannot be had for another reason than that there is none keeps nobody from his store.
        let goes_without = match self.set_aside(store) {
            Ok(()) => false,
            Err(e) if is_no_room(&e) => {
                !is_needed && (is_new || self.goes_without.load(Ordering::Relaxed))
            }
            Err(e) if is_for_now(&e) => return self.holds(part),
            Err(_) => true,
        };
        self.goes_without.store(goes_without, Ordering::Relaxed);
        self.holds(part) || goes_without
    }
}

/// Room that is set aside for a map, as long as this lives.
#[derive(Debug)]
pub(super) struct Ballast {
    slot: &'static Slot,
    /// The map's place there.
    place: Option<&'static [AtomicUsize; 2]>,
    /// Whether all changes take room there.
    is_needed: bool,
}

impl Ballast {
    /// That for a map of `store`, which is open to be changed through it; `None` where no room is needed, or none can be kept.
    pub(super) fn beside(store: &File, map: Range<usize>) -> Result<Option<Ballast>> {
        let kind = file_system(store);
        let Some((_, is_needed)) = KINDS.iter().find(|(magic, _)| Some(*magic) == kind) else {
            return Ok(None);
        };
        match Ballast::of_device(store, map, *is_needed) {
            Err(e) if *is_needed && is_no_room(&e) => Err(Error::io(ACTION, e)),
            found => Ok(found.unwrap_or(None)),
        }
    }

    fn of_device(store: &File, map: Range<usize>, is_needed: bool) -> io::Result<Option<Ballast>> {
        prepare();
        let device = store.metadata()?.dev();
        let of = |slot: &'static Slot| Ballast { slot, place: slot.add(map.clone()), is_needed };
        if let Some(slot) = SLOTS.iter().find(|slot| slot.share(device)) {
            return Ok(Some(of(slot)));
        }
        let claim = |slot: &&Slot| {
            slot.users.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let Some(slot) = SLOTS.iter().find(claim) else { return Ok(None) };
        signal::handle();
        slot.device.store(device, Ordering::Release);
        slot.goes_without.store(false, Ordering::Relaxed);
        slot.missed.store(0, Ordering::SeqCst);
        slot.users.store(1, Ordering::Release);
        let ballast = of(slot);
        match slot.set_aside(store) {
            // Somebody who came for the same device is at it.
            Err(e) if is_for_now(&e) => Ok(Some(ballast)),
            // Its file may have no page that is written anew; and there may be room soon.
            Err(e) if is_no_room(&e) && !is_needed => {
                slot.goes_without.store(true, Ordering::Relaxed);
                Ok(Some(ballast))
            }
            done => done.map(|()| Some(ballast)),
        }
    }

    /// Notes that the map ends there by now.
    pub(super) fn note_end(&self, end: usize) {
        if let Some([_, to]) = self.place {
            to.fetch_max(end, Ordering::AcqRel);
        }
    }

    /// Whether the room is there, or could be set aside again just now.
    #[inline]
    pub(super) fn is_held(&self, store: &File, part: Part) -> bool {
        self.slot.holds(part) || self.slot.is_held_again(store, part, self.is_needed)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        match self.place {
            Some([from, to]) => {
                to.store(0, Ordering::Release);
                from.store(0, Ordering::Release);
            }
            None => drop(self.slot.others.fetch_sub(1, Ordering::AcqRel)),
        }
        self.slot.leave();
    }
}

const ACTION: &str =
    "set room aside for changes (on this file system each needs some; reading alone needs none)";

/// The error of who would change a file while there is none.
#[cold]
pub(crate) fn no_room_for_changes() -> Error {
    Error::io(ACTION, io::Error::from_raw_os_error(libc::ENOSPC))
}

fn is_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// Another thread is at it, or a signal came.
fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// A file without a name on the device of another.
fn unnamed_beside(store: &File) -> io::Result<File> {
    let path = std::fs::read_link(proc_path(store))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC);
    let file = options.open(folder)?;
    if file.metadata()?.dev() == store.metadata()?.dev() {
        Ok(file)
    } else {
        Err(io::Error::from_raw_os_error(libc::EXDEV))
    }
}

#[cfg(test)]
mod tests {
    use super::super::atomic::Ordering::Relaxed;
    use super::super::shared::SharedMap;
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// A slot that has nothing set aside, and a store beside which that may be done.
    fn slot_and_store(folder: &Path) -> (Slot, File) {
        prepare();
        let slot = Slot::new();
        slot.users.store(1, Relaxed);
        (slot, File::create(folder.join("store")).unwrap())
    }

    fn may_change(slot: &Slot, store: &File) -> bool {
        slot.tried.store(0, Relaxed);
        slot.is_held_again(store, Part::Changes, true)
    }

    /// Its blocks would be taken for set aside, and go right then; or another file would have its number by then.
    #[test]
    fn what_is_being_given_up_is_not_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (slot, store) = slot_and_store(folder.path());
        assert!(may_change(&slot, &store));
        for (busy, emptying) in [(forks(), 0), (0, 1)] {
            slot.held(Part::Changes).store(NONE, Relaxed);
            slot.busy.store(busy, Relaxed);
            slot.emptying.store(emptying, Relaxed);
            assert!(!may_change(&slot, &store), "another thread has not done yet");
            assert!(slot.give_up(1), "the smaller file is left");
            slot.busy.store(0, Relaxed);
            slot.emptying.store(0, Relaxed);
            assert!(may_change(&slot, &store));
        }
        slot.leave();
    }

    /// Others go on setting room aside for whoever meets the end of a file that somebody has cut.
    #[test]
    fn what_no_room_helps_is_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let (slot, store) = slot_and_store(folder.path());
        let gives = |address| may_change(&slot, &store) && slot.give_up(address);
        assert!((0..MOST).all(|_| gives(1)));
        assert!(!gives(1) && gives(2) && gives(1));
        slot.leave();
    }

    /// That would believe to have it, and be ended when it needs it.
    #[test]
    fn what_another_process_set_aside_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (slot, store) = slot_and_store(folder.path());
        assert!(may_change(&slot, &store));
        slot.owner.store(forks() + 1, Relaxed);
        let files = PARTS.map(|part| slot.file(part).load(Relaxed));
        // SAFETY: open, as what was set aside is; the copy is this test's.
        let parents = unsafe { File::from_raw_fd(libc::dup(files[0])) };
        assert!(!slot.give_up(1) && !slot.holds(Part::Changes));
        assert_eq!(parents.metadata().unwrap().len(), 8 << 20);
        assert!(may_change(&slot, &store) && slot.give_up(1));
        assert_eq!(parents.metadata().unwrap().len(), 8 << 20);
        slot.leave();
    }

    /// Holes of a file in memory take room when they are written, as all pages do elsewhere.
    #[test]
    fn room_is_given_up_for_changes_first_and_then_for_readers() {
        prepare();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(folder.path());
        if !mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            eprintln!("skipped: file systems may not be mounted here");
            return;
        }
        let create = |name: &str| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true).open(at(name)).unwrap()
        };
        let file = create("store");
        file.set_len(64 << 20).unwrap();
        let map = SharedMap::new(file, true, 1 << 30).unwrap();
        let write = |page: u64| map.word(page * 4096).unwrap().store(page, Relaxed);
        write(0);
        let [one, two] = [0, 1].map(|_| {
            let range = map.range();
            Ballast::of_device(map.file(), range, true).unwrap().unwrap()
        });
        assert!(std::ptr::eq(one.slot, two.slot));
        let is_held = |part| two.is_held(map.file(), part);
        drop(one);
        let fill = || {
            let mut fill = OpenOptions::new().append(true).create(true).open(at("fill")).unwrap();
            while fill.write(&[1; 4096]).is_ok() {}
        };
        fill();
        assert!(is_held(Part::Changes));
        (1..1025).for_each(write);
        assert!(is_held(Part::Reads));
        std::thread::sleep(PAUSE);
        fill();
        assert!(!is_held(Part::Changes));
        (1025..1200).for_each(write);
        fill();
        std::thread::sleep(PAUSE);
        assert!(!is_held(Part::Changes) && !is_held(Part::Reads));
        assert_eq!(map.word(1199 * 4096).unwrap().load(Relaxed), 1199);
        std::fs::remove_file(at("fill")).unwrap();
        std::thread::sleep(PAUSE);
        assert!(is_held(Part::Changes) && is_held(Part::Reads));
        drop(two);
        assert!(SLOTS.iter().all(|slot| slot.file(Part::Reads).load(Relaxed) == NONE));
        let places = SLOTS.iter().flat_map(|slot| &slot.maps);
        assert!(
            places.into_iter().all(|[from, _]| from.load(Relaxed) == 0),
            "a place is given back twice"
        );
        drop(map);
        assert!(Command::new("umount").arg(folder.path()).status().unwrap().success());
    }
}
