//! What a test process records, and how that is read.

use super::child;
use credenza::record::{Entry, Key, Trace};
use std::path::{Path, PathBuf};

/// Runs the test of this name in a process that records to `trace`; it works in `folder`.
pub fn recorded(test: &str, folder: &Path, trace: &Path) -> std::process::Command {
    let mut command = child(test);
    command.env("CREDENZA_RECORD", trace).env("CREDENZA_TEST_FOLDER", folder);
    command
}

#[track_caller]
pub fn run(mut command: std::process::Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Where a child works.
pub fn folder() -> PathBuf {
    std::env::var_os("CREDENZA_TEST_FOLDER").unwrap().into()
}

/// Takes the lock of this process's trace, as another program could.
pub fn lock_the_trace() -> std::fs::File {
    let trace = std::fs::File::open(std::env::var_os("CREDENZA_RECORD").unwrap()).unwrap();
    trace.lock().unwrap();
    trace
}

pub fn entries(trace: &Path) -> Vec<Entry> {
    Trace::open(trace).unwrap().entries().collect::<credenza::Result<_>>().unwrap()
}

/// An entry in short: what was done with which key, how it ended, the value's length and the records.
pub fn in_short(entry: &Entry) -> String {
    let key = match &entry.key {
        None => String::new(),
        Some(Key::Plain(key)) => format!(" {}", key.escape_ascii()),
        Some(Key::Hashed { len, .. }) => format!(" #{len}"),
        Some(_) => unreachable!(),
    };
    let Entry { store, action, outcome, value_len, items, .. } = entry;
    format!("{store} {action}{key} {outcome} {value_len} {items}")
}

pub fn shorts(trace: &Path) -> Vec<String> {
    entries(trace).iter().map(in_short).collect()
}
