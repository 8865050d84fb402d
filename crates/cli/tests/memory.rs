//! Danger: where memory is short the program ends without a word, killed by its own allocator. What grows with the
//! records of a store or of an input asks for its memory, or needs none.

mod common;

use common::{Folder, Records, Run, cdb_text, plain_records, program, run_with};
use std::process::Command;

/// What the program may have, in KiB, for many keys: as it is built for tests it needs most of it for itself.
const LITTLE: u32 = 100_000;

/// Runs the program with no more addresses than so many KiB.
#[track_caller]
fn limited(kib: u32, args: &[&str]) -> Run {
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("ulimit -v {kib}; exec \"$@\"")]).arg("bash").arg(program());
    let done = bash.args(args).env("RUST_BACKTRACE", "0").output().expect("bash");
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    let status = done.status.code().unwrap_or_else(|| panic!("{args:?}: {}: {err}", done.status));
    Run { status, out: done.stdout, err }
}

/// Half a million keys.
fn many_keys(folder: &Folder) -> String {
    let text: String = (0..500_000).map(|i| format!("key-{i:060}\tv\n")).collect();
    folder.file("text", text)
}

#[test]
fn keys_that_do_not_fit_in_memory_are_an_error_of_every_policy() {
    let folder = Folder::new();
    let text = many_keys(&folder);
    let stores = ["constant", "cdb", "hash"].map(|kind| folder.store(kind, &plain_records(10)));
    let before = stores.each_ref().map(|store| std::fs::read(store).expect("a store"));
    let names = folder.names();
    for policy in ["first", "last", "error"] {
        for (store, before) in stores.iter().zip(&before) {
            // Into a hash store that is there records go at once, but for 'error'.
            if store.ends_with("hash.store") && policy != "error" {
                continue;
            }
            let to = if store.ends_with("cdb.store") { "cdb" } else { "constant" };
            let to = if store.ends_with("hash.store") { "hash" } else { to };
            for kib in [LITTLE, 130_000] {
                let args = ["load", store, &text, "--to", to, "--duplicates", policy];
                let got = limited(kib, &args).expect(111);
                assert!(got.err.contains("`ulimit -v`"), "{args:?}: {}", got.err);
                assert!(std::fs::read(store).expect("a store") == *before, "{args:?}");
                assert_eq!(folder.names(), names, "{args:?}");
            }
        }
    }
}

#[test]
fn what_waits_is_the_same_in_memory_and_in_a_file() {
    let folder = Folder::new();
    let store = folder.path("store");
    // Longer than what waits in memory, and shorter, in turn.
    let records: Records = (0..60u32)
        .map(|i| (format!("key{}", i % 40).into(), vec![i as u8; (i as usize % 7) << 18]))
        .collect();
    let text = cdb_text(&records);
    run_with(&["load", &store, "--from", "cdb", "--duplicates", "last"], &text).expect(0);
    let mut expected: Records = records[20..].to_vec();
    let mut found = common::dump(&store);
    expected.sort();
    found.sort();
    assert!(found == expected);
}
