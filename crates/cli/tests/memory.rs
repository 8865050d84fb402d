//! Danger: where memory is short the program ends without a word, killed by its own allocator. What grows with the
//! records of a store or of an input asks for its memory, or needs none.

mod common;

use common::{Folder, Records, Run, cdb_text, names_in, plain_records, program, run_with};
use std::process::Command;

/// Bytes of a value that fits once into what is left, and not twice.
const LONG: usize = 40 << 20;
/// What the program may have, in KiB, for many keys: as it is built for tests it needs most of it for itself.
const LITTLE: u32 = 100_000;
/// The same for a long value.
const LESS_THAN_TWO: u32 = 140_000;

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

/// All of a value that is written as so many bytes, or an error that says what to do.
#[track_caller]
fn is_whole_or_told(args: &[&str], written: usize) {
    let got = limited(LESS_THAN_TWO, args);
    match got.status {
        0 => assert!(got.out.len() > written, "{args:?}: {} bytes", got.out.len()),
        _ => assert!(got.status == 111 && got.err.contains("`ulimit -v`"), "{args:?}: {}", got.err),
    }
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
            let args = ["load", store, &text, "--to", to, "--duplicates", policy];
            let got = limited(LITTLE, &args).expect(111);
            assert!(got.err.contains("`ulimit -v`"), "{args:?}: {}", got.err);
            assert!(std::fs::read(store).expect("a store") == *before, "{args:?}");
            assert_eq!(folder.names(), names, "{args:?}");
        }
    }
}

/// A folder with a store of each of Credenza's kinds, which has one long value.
fn long_values(value: &[u8]) -> (Folder, [String; 3]) {
    let folder = Folder::new();
    let records: Records = vec![(b"k".to_vec(), value.to_vec())];
    let stores = ["constant", "hash", "btree"].map(|kind| folder.store(kind, &records));
    (folder, stores)
}

#[test]
fn long_values_are_shown_in_little_memory() {
    let line = [&[b'v'; 4095][..], b"\n"].concat();
    let (_folder, stores) = long_values(&line.repeat(LONG / line.len()));
    for store in &stores {
        is_whole_or_told(&["get", store, "k", "--json"], LONG);
        is_whole_or_told(&["scan", store, "--full"], LONG);
    }
    let [constant, _, btree] = &stores;
    is_whole_or_told(&["range", btree, "--full"], LONG);
    // Nothing is copied of a store that never changes.
    limited(LESS_THAN_TWO, &["get", constant, "k", "--json"]).expect(0);
    limited(LESS_THAN_TWO, &["scan", constant, "--full"]).expect(0);
    let (_folder, [constant, ..]) = long_values(&vec![0xff; LONG]);
    is_whole_or_told(&["scan", &constant, "--json"], LONG / 3 * 4);
}

#[test]
fn long_values_are_converted_in_little_memory_or_not_at_all() {
    let (folder, stores) = long_values(&vec![b'v'; LONG]);
    let text = folder.file("text", [b"k\t", &vec![b'v'; LONG][..], b"\n"].concat());
    let names = folder.names();
    let target = folder.path("target");
    for kind in ["constant", "hash", "btree", "jsonl"] {
        for source in stores.iter().chain([&text]) {
            let mut args = vec!["convert", source, &target, "--to", kind];
            args.extend(source.ends_with("text").then_some(["--from", "tsv"]).iter().flatten());
            let got = limited(LESS_THAN_TWO, &args);
            if got.status == 111 {
                let is_told = got.err.contains("memory") || got.err.contains("`ulimit -v`");
                assert!(is_told, "{args:?}: {}", got.err);
                assert_eq!(folder.names(), names, "{args:?}");
                continue;
            }
            got.expect(0);
            for name in names_in(folder.0.path()) {
                if name.starts_with("target") {
                    std::fs::remove_file(folder.path(&name)).expect("it can be removed");
                }
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
