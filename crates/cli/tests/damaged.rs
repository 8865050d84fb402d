//! Danger: what damage made of a record is passed on as if it were right.

mod common;
use common::*;

/// A store of some kind in which one bit of a value is not what it was.
fn damaged(folder: &Folder, kind: &str) -> String {
    let lines: String = (0..300).map(|i| format!("key {i}\tvalue number {i}, once\n")).collect();
    let text = folder.file(&format!("{kind}.tsv"), &lines);
    let path = folder.path(kind);
    run(&["load", "--to", kind, &path, &text]).expect(0);
    let mut bytes = std::fs::read(&path).expect("a store");
    let value = b"value number 123, once";
    let at = bytes.windows(value.len()).position(|part| part == value).expect("the value");
    bytes[at + 6] ^= 1;
    std::fs::write(&path, bytes).expect("damage");
    run(&["verify", &path]).expect(111);
    path
}

#[test]
fn nothing_is_made_of_a_damaged_store() {
    let folder = Folder::new();
    let target = folder.path("target");
    for kind in ["constant", "hash", "btree"] {
        let path = damaged(&folder, kind);
        let mut all: Vec<Vec<&str>> = vec![
            vec!["dump", &path, "-o", &target],
            vec!["convert", &path, &target, "--to", "tsv"],
            vec!["convert", &path, &target, "--to", "constant"],
            vec!["convert", &path, &target, "--to", "hash"],
            vec!["convert", &path, &target, "--to", "btree"],
            vec!["thaw", &path, &target],
        ];
        if kind != "constant" {
            all.extend([vec!["backup", &path, &target], vec!["freeze", &path, &target]]);
        }
        for args in &all {
            let got = run(args).expect(111);
            assert!(got.err.contains(&path), "{args:?}: {}", got.err);
            assert!(!std::path::Path::new(&target).exists(), "{args:?}");
        }
        // What can be read of it can be saved.
        run(&["dump", "--unchecked", "--to", "tsv", &path, "-o", &target]).expect(0);
        let saved = std::fs::read_to_string(&target).expect("a text");
        assert!(saved.contains("key 122\tvalue number 122, once\n"));
        std::fs::remove_file(&target).expect("removed");
    }
}
