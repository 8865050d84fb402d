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

/// What is whole of a damaged store can be had, whichever command one hears of it from.
#[test]
fn who_is_told_of_damage_is_told_what_to_do_about_it() {
    let folder = Folder::new();
    for kind in ["hash", "btree"] {
        let path = damaged(&folder, kind);
        for command in
            [&["verify", &path][..], &["dump", &path], &["convert", &path, "x", "--to", "tsv"]]
        {
            let err = run(command).expect(111).err;
            assert!(
                err.ends_with(&format!(
                    "`credenza recover {path} NEW` makes a store of all that is whole of it\n"
                )),
                "{err}"
            );
        }
        let target = folder.path("recovered");
        let got = parsed(run(&["recover", &path, &target, "--json"]));
        let whole = got["records"].as_u64().expect("a number");
        assert!(whole > 150 && whole < 300, "{got}");
        if kind == "btree" {
            assert_eq!(
                (&got["lost_pages"], got["lost_records"].as_u64()),
                (&1.into(), Some(300 - whole))
            );
        }
        run(&["verify", &target]).expect(0);
        assert_eq!(dump(&target).len() as u64, whole);
        std::fs::remove_file(&target).expect("removed");
    }
    let path = damaged(&folder, "constant");
    let err = run(&["verify", &path]).expect(111).err;
    assert!(
        err.contains(&format!("`credenza dump --unchecked {path}` writes what can be read")),
        "{err}"
    );
}

/// Of a hash store it was saved what he had not yet written over, without a word.
#[test]
fn a_store_that_somebody_writes_to_is_not_recovered() {
    use credenza::{btree::BTree, hash::Hash};
    let folder = Folder::new();
    let target = folder.path("target");
    let (hash, btree) = (folder.path("hash"), folder.path("btree"));
    let in_use = (Hash::create(&hash).expect("a store"), BTree::create(&btree).expect("a store"));
    for store in [&hash, &btree] {
        let got = run(&["recover", store, &target]).expect(111);
        let what = format!("error: {store}: somebody has the store open who may write");
        assert!(got.err.starts_with(&what), "{}", got.err);
    }
    drop(in_use);
    for store in [&hash, &btree] {
        run(&["recover", store, &target]).expect(0);
        std::fs::remove_file(&target).expect("what was made");
    }
}

/// Whatever the store is called, what is said can be typed.
#[test]
fn what_is_advised_can_be_typed() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let path = damaged(&folder, "hash");
    for name in [&b"-dash"[..], b"it's a $(name)", b"line\nend", b"\xff\\", "\u{202e}".as_bytes()] {
        let named = folder.0.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::copy(&path, &named).expect("a copy");
        let mut verify = credenza(&["verify", "--"]);
        let got = verify.arg(named.file_name().expect("a name")).current_dir(folder.0.path());
        let err =
            String::from_utf8(got.output().expect("the program starts").stderr).expect("text");
        let advice = err.lines().last().and_then(|line| line.split('`').nth(1)).expect("advice");
        let typed = advice.replacen("credenza", "\"$0\"", 1).replace("NEW", "new");
        let done = std::process::Command::new("bash")
            .args(["-c".as_ref(), typed.as_ref(), program().as_os_str()])
            .current_dir(folder.0.path())
            .output()
            .expect("a shell");
        assert!(done.status.success(), "{typed}: {}", String::from_utf8_lossy(&done.stderr));
        std::fs::remove_file(folder.path("new")).expect("what was made");
    }
}

/// The advice was the command that had failed, or one that fails in the same way.
#[test]
fn no_advice_goes_in_a_circle() {
    let folder = Folder::new();
    let (path, cut) = (damaged(&folder, "constant"), folder.path("cut"));
    let whole = std::fs::read(&path).expect("a store");
    // Nothing can be read of one that is cut off, nor of one with more behind it.
    for bytes in [whole[..600].to_vec(), [&whole[..], b"more"].concat()] {
        std::fs::write(&cut, bytes).expect("a file");
        let target = folder.path("target");
        for args in [
            &["verify", &cut][..],
            &["dump", &cut],
            &["dump", "--unchecked", &cut],
            &["recover", &cut, &target],
        ] {
            let err = run(args).expect(111).err;
            assert!(!err.contains("dump --unchecked"), "{args:?}: {err}");
            assert!(err.contains("restore the file from a copy"), "{args:?}: {err}");
        }
    }
    // Where it ends while it is read, what can be done is done.
    let mut bytes = whole;
    let end = bytes.len();
    bytes[end / 2..].fill(0xff);
    std::fs::write(&cut, bytes).expect("a file");
    let err = run(&["dump", "--unchecked", &cut]).expect(111).err;
    assert!(err.contains("damaged at") && !err.contains("dump --unchecked"), "{err}");
    assert!(run(&["verify", &cut]).expect(111).err.contains("`credenza dump --unchecked"));
}

/// What is read up to where nothing can be read any more is kept, and checked only if that is not forbidden.
#[test]
fn what_is_dumped_unchecked_is_kept_up_to_where_that_ends() {
    let folder = Folder::new();
    let path = damaged(&folder, "btree");
    let (text, range) = (folder.path("text"), ["range", &path, "--to", "tsv"]);
    run(&range).expect(111);
    let all = run(&[&range[..], &["--unchecked"]].concat()).expect(0).text();
    assert_eq!(all.lines().count(), 300);
    let mut bytes = std::fs::read(&path).expect("a store");
    let place = bytes.windows(9).rposition(|part| part == b"value num").expect("a value");
    // A page of nothing.
    bytes[place / 4096 * 4096..][..4096].fill(0);
    std::fs::write(&path, bytes).expect("damage");
    run(&["dump", &path, "--to", "tsv", "-o", &text]).expect(111);
    assert!(!std::path::Path::new(&text).exists());
    run(&["dump", "--unchecked", &path, "--to", "tsv", "-o", &text]).expect(111);
    let kept = std::fs::read_to_string(&text).expect("a text");
    assert!(!kept.is_empty() && all.starts_with(&kept), "{kept}");
}

/// Whatever is written over the beginning of a store, and whichever engine its number is of then.
#[test]
fn a_store_whose_beginning_is_lost_is_recovered() {
    let folder = Folder::new();
    let text = folder.file("text", "a\t1\nb\t2\n");
    let target = folder.path("recovered");
    for kind in ["hash", "btree"] {
        let path = folder.path(kind);
        run(&["load", "--to", kind, &path, &text]).expect(0);
        let whole = std::fs::read(&path).expect("a store");
        let damaged = |at: usize, with: &[u8]| {
            let mut bytes = whole.clone();
            bytes[at..at + with.len()].copy_from_slice(with);
            bytes
        };
        let engines = [1, 2, 3, 9].into_iter().filter(|n| *n != whole[8]);
        let heads = engines.map(|n| damaged(8, &[n]));
        // Some of the header is random, and may be any byte that is written there.
        let one = damaged(40, &[!whole[40]]);
        for bytes in heads.chain([damaged(0, &[0; 512]), damaged(0, b"x"), one]) {
            std::fs::write(&path, &bytes).expect("damage");
            for command in ["get", "verify", "dump"] {
                let args = [command, &path, "a"];
                let got = run(&args[..if command == "get" { 3 } else { 2 }]).expect(111);
                // A constant store cannot be recovered, and nothing says that this is none.
                let is_told =
                    got.err.contains("credenza recover") || bytes[8] == 1 || bytes[8] == 9;
                assert!(is_told, "{kind}: {}", got.err);
            }
            let got = parsed(run(&["recover", &path, &target, "--json"]));
            assert!(got["records"] == 2 || got["records_found"] == 2, "{kind}: {got}");
            assert_eq!(dump(&target).len(), 2, "{kind}");
            for file in [target.clone(), format!("{target}-index")] {
                let _ = std::fs::remove_file(file);
            }
        }
    }
    let other = folder.file("other", "no store\n");
    let err = run(&["recover", &other, &target]).expect(111).err;
    assert!(err.contains("it looks like text"), "{err}");
}

/// Who removed the index of a store of which the data were damaged lost what could still be read.
#[test]
fn of_a_hash_store_the_part_is_named_that_is_damaged() {
    let folder = Folder::new();
    let store = folder.path("store");
    let lines: String = (0..9).map(|i| format!("key {i}\tvalue {i}\n")).collect();
    let text = folder.file("text.tsv", lines);
    run(&["load", "--to", "hash", &store, &text]).expect(0);
    let data = std::fs::read(&store).expect("a store");
    let value = b"key 5value 5";
    let at = data.windows(value.len()).position(|part| part == value).expect("the record");
    let mut damaged = data;
    // In the header: what it is.
    damaged[at - 4] ^= 0x80;
    std::fs::write(&store, &damaged).expect("damage");
    let got = run(&["get", &store, "key 5"]).expect(111);
    assert!(got.err.contains("its index or its data are damaged"), "{}", got.err);
    assert!(!got.err.contains("remove") && got.err.contains("verify"), "{}", got.err);
    let got = run(&["verify", &store]).expect(111);
    assert!(!got.err.contains("remove") && got.err.contains("recover"), "{}", got.err);
}
