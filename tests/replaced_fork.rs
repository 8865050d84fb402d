//! Danger: what somebody writes to a store is lost that he opened while a new one, which takes its place, was written to the disk.

mod common;

use common::sys::{Status, be_traced, fork, stop_here};
use credenza::HashBuilder;
use credenza::constant::Builder;
use credenza::hash::Hash;
use std::path::Path;

/// Whether a process that is stopped where it calls the kernel waits for the disk there; `None` if nobody says.
fn is_waiting_for_disk(pid: u32) -> Option<bool> {
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let number = call.split(' ').next()?.parse::<i64>().ok()?;
    Some([libc::SYS_fdatasync, libc::SYS_fsync].map(i64::from).contains(&number))
}

/// Which takes as long as that is long.
#[test]
fn who_opens_a_store_while_its_successor_is_made_durable_keeps_it() {
    let builds: [fn(&Path) -> credenza::Result<()>; 2] = [
        |path| Builder::create(path)?.finish().map(drop),
        |path| HashBuilder::create(path)?.finish().map(drop),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (kind, build) in builds.into_iter().enumerate() {
        for wait in 0.. {
            let path = folder.path().join(format!("{kind} {wait}"));
            Hash::create(&path).unwrap().insert(b"before", b"1").unwrap();
            let mut child = fork(|| {
                if be_traced() {
                    stop_here();
                    let _may_be_refused = build(&path);
                    stop_here();
                }
            });
            if child.wait() == Status::Exited(0) || is_waiting_for_disk(child.pid()).is_none() {
                println!("skipped: nobody can be traced here");
                return;
            }
            let mut waits = 0;
            // Each call stops it twice.
            while waits <= 2 * wait && child.run_to_call() == Status::Stopped(libc::SIGTRAP) {
                waits += u32::from(is_waiting_for_disk(child.pid()) == Some(true));
            }
            let is_over = waits <= 2 * wait;
            let old = (!is_over).then(|| Hash::open(&path).ok()).flatten();
            let old = old.filter(|store| store.contains_key(b"before").unwrap());
            // Else the new one is there already.
            if let Some(old) = &old {
                old.insert(b"later", b"2").unwrap();
                assert_eq!(child.run(), Status::Stopped(libc::SIGSTOP));
                let now = Hash::open(&path).unwrap();
                assert!(now.contains_key(b"later").unwrap(), "{kind}, wait {wait}: it is lost");
            }
            child.kill();
            if is_over {
                assert!(wait > 1, "{kind}: nothing was made durable");
                break;
            }
        }
    }
}
