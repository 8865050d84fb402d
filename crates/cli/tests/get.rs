//! Danger: a script gets a wrong value, a changed one, or the wrong status.

mod common;
use common::*;
use std::process::Command;

fn store_of(folder: &Folder, kind: &str) -> String {
    let records: Records = [
        ("a", "1"),
        ("b", "two\n"),
        ("a", "3"),
        ("empty", ""),
        ("", "no key"),
        ("-dash", "-"),
        ("a", "5"),
    ]
    .map(|(k, v)| (k.into(), v.into()))
    .to_vec();
    let mut records = records;
    records.push((vec![0, 255, b'\n'], vec![0, 1, 254, 255, b'\n', b'\r']));
    folder.store(kind, &records)
}

#[test]
fn one_value_is_written_as_it_is() {
    let folder = Folder::new();
    for kind in KINDS {
        let store = store_of(&folder, kind);
        assert_eq!(run(&["get", &store, "a"]).expect(0).out, b"1");
        assert_eq!(run(&["get", &store, "b"]).expect(0).out, b"two\n");
        assert_eq!(run(&["get", &store, "empty"]).expect(0).out, b"");
        assert_eq!(run(&["get", &store, ""]).expect(0).out, b"no key");
        assert_eq!(run(&["get", &store, "--", "-dash"]).expect(0).out, b"-");
        let raw = run(&["get", &store, "--hex", "00fF0a"]).expect(0).out;
        assert_eq!(raw, [0, 1, 254, 255, b'\n', b'\r']);
    }
}

/// Else the prompt of the shell would follow on the line of the value.
#[test]
fn at_a_terminal_the_value_has_a_line() {
    use std::io::Read;
    let folder = Folder::new();
    let store = store_of(&folder, "constant");
    let at_terminal = |args: &[&str]| {
        let pty = nix::pty::openpty(None, None).expect("a terminal");
        let mut command = Command::new(program());
        command.args(args).stdout(pty.slave);
        assert!(command.status().expect("the program starts").success());
        // The last who has it open but this test.
        drop(command);
        let mut shown = Vec::new();
        // The end of a terminal that nobody has open any more is an error.
        let _ = std::fs::File::from(pty.master).read_to_end(&mut shown);
        String::from_utf8(shown).expect("text")
    };
    assert_eq!(at_terminal(&["get", &store, "a"]), "1\r\n");
    assert_eq!(at_terminal(&["get", &store, "a", "--nth", "2"]), "3\r\n");
    assert_eq!(at_terminal(&["get", &store, "b"]), "two\r\n");
    assert_eq!(at_terminal(&["get", &store, "empty"]), "\r\n");
    assert_eq!(at_terminal(&["get", &store, "a", "--values"]), "1\r\n");
}

#[test]
fn all_and_nth_choose_among_duplicates() {
    let folder = Folder::new();
    for kind in KINDS {
        let store = store_of(&folder, kind);
        assert_eq!(run(&["get", &store, "a", "--all"]).expect(0).out, b"1\n3\n5\n");
        assert_eq!(run(&["get", &store, "a", "--all", "-0"]).expect(0).out, b"1\x003\x005\x00");
        for args in [["get", &store, "-0", "-k", "-"], ["get", &store, "-k", "-", "-0"]] {
            let got = run_with(&args, b"a\0").expect(0).out;
            assert_eq!(got, b"+1,1:a->1\n\n");
        }
        let got = run(&["get", &store, "a", "-0"]).expect(111);
        assert!(got.err.contains("--all|--values|--keys-from"), "{}", got.err);
        assert_eq!(run(&["get", &store, "a", "--values", "-0"]).expect(0).out, b"1\0");
        let records = run(&["get", &store, "a", "--all", "--to", "cdb"]).expect(0).out;
        assert_eq!(records, b"+1,1:a->1\n+1,1:a->3\n+1,1:a->5\n\n");
        for (n, value) in [("1", "1"), ("2", "3"), ("3", "5")] {
            assert_eq!(run(&["get", &store, "a", "--nth", n]).expect(0).text(), value);
        }
        for n in ["4", "18446744073709551615"] {
            assert_eq!(run(&["get", &store, "a", "--nth", n]).expect(100).out, b"");
        }
        run(&["get", &store, "a", "--nth", "0"]).expect(111);
    }
}

#[test]
fn a_missing_key_is_status_100_and_named() {
    let folder = Folder::new();
    let store = store_of(&folder, "constant");
    for more in [&[][..], &["--all"], &["--nth", "1"], &["--access", "read"], &["--values"]] {
        let args = [&["get", store.as_str(), "no\x01ne"], more].concat();
        let got = run(&args).expect(100);
        assert_eq!(got.out, b"");
        assert_eq!(got.err, "not found: no\\x01ne\n");
        assert_eq!(run(&[&args[..], &["-q"]].concat()).expect(100).err, "");
    }
    let json = run(&["get", &store, "none", "--json"]).expect(100).text();
    assert_eq!(json, "{\"key\":\"none\",\"value\":null}\n");
}

#[test]
fn many_keys_are_answered_in_their_order() {
    let folder = Folder::new();
    for kind in KINDS {
        let store = store_of(&folder, kind);
        let keys = folder.file("keys", "empty\na\n\nb");
        let get = |more: &[&str]| run(&[&["get", &store, "--keys-from", &keys], more].concat());
        let cdb = get(&[]).expect(0).text();
        assert_eq!(cdb, "+5,0:empty->\n+1,1:a->1\n+0,6:->no key\n+1,4:b->two\n\n\n");
        assert_eq!(get(&["--values"]).expect(0).text(), "\n1\nno key\ntwo\n\n");
        let json = get(&["--json", "--nth", "2"]).expect(100);
        assert_eq!(
            json.text(),
            "{\"key\":\"empty\",\"value\":null}\n{\"key\":\"a\",\"value\":\"3\"}\n\
             {\"key\":\"\",\"value\":null}\n{\"key\":\"b\",\"value\":null}\n"
        );
        let keys = ["empty", "", "b"].map(|key| format!("not found: value 2 of {key}\n"));
        assert_eq!(json.err, keys.concat());
        let all = get(&["--all", "--to", "cdb"]).expect(0).text();
        assert!(all.contains("+1,1:a->1\n+1,1:a->3\n+1,1:a->5\n+0,6:"), "{all}");
    }
}

#[test]
fn keys_come_from_standard_input_in_several_layouts() {
    let folder = Folder::new();
    let store = store_of(&folder, "constant");
    let get = |more: &[&str], input: &[u8]| {
        run_with(&[&["get", &store, "--values", "--keys-from", "-"], more].concat(), input)
    };
    assert_eq!(get(&[], b"a\nb\n").expect(0).text(), "1\ntwo\n\n");
    assert_eq!(get(&["--null"], b"a\0b").expect(0).out, b"1\0two\n\0");
    assert_eq!(get(&["--hex"], b"61\n62\n").expect(0).text(), "1\ntwo\n\n");
    let records = b"+1,0:a->\n+3,1:\x00\xff\n->x\n\n";
    let got = get(&["--from", "cdb"], records).expect(0).out;
    assert_eq!(got, b"1\n\x00\x01\xfe\xff\n\r\n");
    assert_eq!(get(&[], b"").expect(0).out, b"");
    let bad = get(&["--hex"], b"61\n6x\n").expect(111);
    assert!(bad.err.contains("standard input: key 2: not a hexadecimal digit at position 2"));
    let bad = get(&["--from", "cdb"], b"+1,0:a->\nrubbish").expect(111);
    assert!(bad.err.contains("line 2"), "{}", bad.err);
}

/// Of a list that another system wrote no key was found.
#[test]
fn keys_are_found_whatever_ends_their_lines() {
    let folder = Folder::new();
    let records: Records =
        [("a", "1"), ("b\r", "2"), ("", "3")].map(|(k, v)| (k.into(), v.into())).to_vec();
    let list = "\u{feff}a\r\n\r\na".as_bytes();
    for kind in ["constant", "hash", "btree"] {
        let store = folder.store(kind, &records);
        let get = ["get", &store, "--values", "--keys-from", "-"];
        assert_eq!(run_with(&get, list).expect(0).text(), "1\n3\n1\n", "{kind}");
        let hex = [&get[..], &["--hex"]].concat();
        assert_eq!(run_with(&hex, b"\xef\xbb\xbf61\r\n620d\r\n").expect(0).text(), "1\n2\n");
        // A carriage return that no line feed follows is the key's, and everything is where NUL ends keys.
        assert_eq!(run_with(&get, b"b\r").expect(0).text(), "2\n", "{kind}");
        assert_eq!(run_with(&get, b"b\r\r\n").expect(0).text(), "2\n", "{kind}");
        let null = [&get[..], &["--null"]].concat();
        assert_eq!(run_with(&null, b"b\r\0").expect(0).out, b"2\0", "{kind}");
        assert_eq!(run_with(&null, b"\xef\xbb\xbfa\0").expect(100).out, b"", "{kind}");
    }
    let store = folder.path("hash.store");
    run_with(&["delete", &store, "--keys-from", "-"], list).expect(0);
    assert_eq!(dump(&store), [(b"b\r".to_vec(), b"2".to_vec())]);
}

#[test]
fn batches_do_not_lose_keys() {
    let folder = Folder::new();
    let records = plain_records(20_000);
    for kind in KINDS {
        let store = folder.store(kind, &records);
        let mut keys = Vec::new();
        let mut expected = Vec::new();
        for (key, value) in records.iter().rev() {
            keys.extend_from_slice(key);
            keys.push(b'\n');
            expected.extend_from_slice(value);
            expected.push(b'\n');
        }
        keys.extend_from_slice(b"missing\n");
        let args = ["get", &store, "-q", "--values", "--keys-from", "-"];
        assert!(run_with(&args, &keys).expect(100).out == expected, "{kind}");
        let args = ["get", &store, "-q", "--all", "--values", "--keys-from", "-"];
        assert!(run_with(&args, &keys).expect(100).out == expected, "{kind} --all");
    }
}

#[test]
fn json_holds_bytes_that_are_not_text() {
    let folder = Folder::new();
    let store = store_of(&folder, "constant");
    let json = run(&["get", &store, "--hex", "00ff0a", "--json"]).expect(0).text();
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["key_base64"], "AP8K");
    assert_eq!(value["value_base64"], "AAH+/woN");
    // The same line as `dump --to jsonl` writes.
    let dump = run(&["dump", &store, "--to", "jsonl"]).expect(0).text();
    let lines: Vec<serde_json::Value> =
        dump.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert!(lines.contains(&value), "{dump}");
}

#[test]
fn contradictions_are_refused() {
    let folder = Folder::new();
    let store = store_of(&folder, "constant");
    let keys = folder.file("keys", "a\n");
    for args in [
        &["get", &store][..],
        &["get", &store, "a", "--keys-from", &keys],
        &["get", &store, "a", "--all", "--nth", "1"],
        &["get", &store, "a", "--json", "--values"],
        &["get", &store, "a", "--from", "cdb"],
        &["get", &store, "a", "--hex"],
        &["get", &store, "a", "--to", "nonsense"],
        &["get", &store, "a", "--keys-from"],
    ] {
        let got = run(args).expect(111);
        assert!(got.err.starts_with("error: ") && got.out.is_empty(), "{args:?}: {}", got.err);
    }
}

/// One that has no end filled the memory.
#[test]
fn a_line_too_long_for_any_key_is_an_error() {
    let folder = Folder::new();
    let (hash, cdb) = (folder.store("hash", &plain_records(3)), folder.path("long.cdb"));
    for command in [&["get"][..], &["get", "--hex"], &["get", "--from", "lines"], &["delete"]] {
        let args = [command, &[hash.as_str(), "--keys-from", "/dev/zero"]].concat();
        let mut limited = Command::new("bash");
        limited.args(["-c", "ulimit -v 1000000; exec \"$@\"", "bash"]).arg(program()).args(&args);
        let output = limited.output().expect("bash");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(111), "{args:?}: {err}");
        assert!(err.starts_with("error: /dev/zero: ") && err.contains("key"), "{args:?}: {err}");
        assert!(!err.contains("memory") && err.len() < 300, "{args:?}: {err}");
    }
    // Longer than our stores take: those of others may have it.
    let key = "k".repeat(70_000);
    std::fs::write(&cdb, cdb_of(key.as_bytes(), b"value")).expect("a file");
    let list = format!("{key}\r\n");
    let args = ["get", &cdb, "--values", "--keys-from", "-"];
    assert_eq!(run_with(&args, list.as_bytes()).expect(0).text(), "value\n");
}

/// A cdb of one record.
fn cdb_of(key: &[u8], value: &[u8]) -> Vec<u8> {
    let hash = key.iter().fold(5381u32, |h, byte| h.wrapping_mul(33) ^ u32::from(*byte));
    let table = 2048 + 8 + key.len() as u32 + value.len() as u32;
    let mut bytes = Vec::new();
    for i in 0..256 {
        let slots = if i == hash & 0xff { 2 } else { 0 };
        let begin = if i > hash & 0xff { table + 16 } else { table };
        bytes.extend([begin, slots].map(u32::to_le_bytes).concat());
    }
    bytes.extend([key.len() as u32, value.len() as u32].map(u32::to_le_bytes).concat());
    bytes.extend([key, value].concat());
    let mut slots = [[0, 0]; 2];
    slots[(hash >> 8) as usize % 2] = [hash, 2048];
    bytes.extend(slots.as_flattened().iter().flat_map(|word| word.to_le_bytes()));
    bytes
}
