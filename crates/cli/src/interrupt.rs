//! What is left of a store in the making when a signal ends the program: nothing.
//!
//! Hash and btree stores are made under a name of their own, `.NAME.PID.NUMBER.tmp`, beside their target. What a kill leaves
//! of them goes when the same target is made again; who types Ctrl-C need not wait for that.
//!
//! Threads: the signals are left to one thread, which takes them one by one, as no handler may touch a file. So this comes
//! before other threads begin, which would take them otherwise.

use crate::folder::{folder_of_new, led_to};
use nix::sys::signal::{SigSet, Signal, raise};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Has a signal that ends this program remove what it has of `target` under another name; not where addresses are limited,
/// of which a thread takes 64 MiB for what it may allocate: the store needs them.
pub fn leave_nothing_of(target: &Path) {
    if are_addresses_limited() {
        return;
    }
    let ignored = ignored();
    let ending = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let signals: SigSet =
        ending.into_iter().filter(|signal| ignored >> (*signal as u32 - 1) & 1 == 0).collect();
    // Where that cannot be had, what is left is left, as by a kill.
    if signals.thread_block().is_err() {
        return;
    }
    let (folder, place) = (folder_of_new(target), led_to(target));
    let name = place.file_name().unwrap_or_default().as_bytes();
    let pid = std::process::id().to_string();
    let begins = [b".", name, b".", pid.as_bytes(), b"."].concat();
    let removing = std::thread::Builder::new().spawn(move || {
        while let Ok(signal) = signals.wait() {
            // What goes on meanwhile may just be making another.
            while remove(&folder, &begins) > 0 {}
            // As if nobody had taken it: who has started this program sees by which signal it ended.
            let _ = signals.thread_unblock();
            let _ = raise(signal);
        }
    });
    if removing.is_err() {
        let _ = signals.thread_unblock();
    }
}

/// Whether there is a limit on addresses, as `ulimit -v` sets it.
fn are_addresses_limited() -> bool {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"));
    line.is_some_and(|line| !line.trim_start().starts_with("unlimited"))
}

/// The signals that this process was started to ignore, as by `nohup`: a bit each, the lowest for the first.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// How many were there.
fn remove(folder: &Path, begins: &[u8]) -> usize {
    let is_ours = |name: &OsStr| {
        let rest = name.as_bytes().strip_prefix(begins);
        rest.is_some_and(|rest| rest.ends_with(b".tmp") || rest.ends_with(b".tmp-index"))
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = files.filter(|file| is_ours(&file.file_name()));
    ours.filter(|file| std::fs::remove_file(file.path()).is_ok()).count()
}
