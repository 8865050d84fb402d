//! Danger: SIGBUS that has nothing to do with stores, of a process that handles it for those on a btrfs.

mod common;

use common::mount::Mount;
use common::sys;
use credenza::hash::Hash;

/// One that a process sent was lost the first time, and whoever ignored it was ended by the second.
#[test]
fn signals_that_are_sent_do_what_they_did_before() {
    let Some(mount) = Mount::of_kind("btrfs", &[], 128 << 20) else {
        println!("skipped: a btrfs can be made and mounted by root alone, with mkfs.btrfs");
        return;
    };
    let path = mount.path().join("store");
    let send_when = |is_ignored| {
        sys::fork(|| {
            sys::forget_handler(libc::SIGBUS, is_ignored);
            let _store = Hash::options().create(true).open(&path).unwrap();
            (0..3).for_each(|_| sys::signal(std::process::id(), libc::SIGBUS));
        })
    };
    assert_eq!(send_when(true).wait(), sys::Status::Exited(0));
    assert_eq!(send_when(false).wait(), sys::Status::Killed(libc::SIGBUS));
}
