//! Danger: a command changes a hash store otherwise than it says, or not at all.

mod common;
use common::*;
use credenza::hash::Hash;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A new hash store with these records.
fn store_of(folder: &Folder, records: &[(&str, &str)]) -> String {
    folder.store("hash", &records_of(records))
}

#[test]
fn create_makes_one_and_never_another_in_its_place() {
    let folder = Folder::new();
    let store = folder.path("store");
    assert_eq!(run(&["create", &store]).expect(0).text(), format!("{store}: a new hash store\n"));
    run(&["put", &store, "k", "v"]).expect(0);
    let got = run(&["create", &store]).expect(111);
    assert!(got.err.contains("--if-missing"), "{}", got.err);
    let again = parsed(run(&["create", &store, "--if-missing", "--json"]));
    assert_eq!((&again["created"], &again["records"]), (&false.into(), &1.into()));
    let new = parsed(run(&["create", &folder.path("new"), "--if-missing", "--json"]));
    assert_eq!(new["created"], true);
    let constant = folder.store("constant", &plain_records(3));
    let before = std::fs::read(&constant).expect("the store");
    run(&["create", &constant, "--if-missing"]).expect(111);
    assert!(std::fs::read(&constant).expect("the store") == before);
}

#[test]
fn a_limit_is_kept_and_shown() {
    let folder = Folder::new();
    let store = folder.path("store");
    let made = parsed(run(&["create", &store, "--limit", "64KiB", "--json"]));
    assert_eq!(made["limit_bytes"], 65536);
    let text: String = (0..5000).map(|i| format!("key {i}\tvalue {i}\n")).collect();
    run_with(&["put", &store, "--from", "tsv"], text.as_bytes()).expect(0);
    let stat = parsed(run(&["stat", &store, "--json"]));
    let number = |name: &str| stat[name].as_u64().expect("a number");
    assert_eq!((number("limit_bytes"), number("records") + number("evictions")), (65536, 5000));
    assert!(number("live_bytes") <= 65536 && number("records") > 1000, "{stat}");
    assert!(run(&["stat", &store]).expect(0).text().contains("evictions"));
    assert_eq!(run(&["get", &store, "key 4999"]).expect(0).text(), "value 4999");
    let got = run_with(&["put", &store, "large"], &[b'x'; 70_000]).expect(111);
    assert!(got.err.contains("over the limit of 65536 bytes"), "{}", got.err);
    let got = run(&["create", &store, "--if-missing", "--limit", "1M"]).expect(111);
    assert!(got.err.contains("a limit of 65536 bytes"), "{}", got.err);
    run(&["create", &folder.path("none"), "--limit", "0"]).expect(111);
    assert_eq!(folder.names(), ["store", "store-index"]);
}

#[test]
fn put_and_delete_change_single_keys() {
    let folder = Folder::new();
    let store = store_of(&folder, &[]);
    let get = |key: &str| run(&["get", &store, key]);
    assert_eq!(run(&["put", &store, "bob", "1001"]).expect(0).text(), "");
    assert_eq!(get("bob").expect(0).text(), "1001");
    run_with(&["put", &store, "bob"], b"\x00two\n\n").expect(0);
    assert_eq!(get("bob").expect(0).out, b"\x00two\n\n");
    run(&["put", &store, "bob", "3", "--if-absent"]).expect(100);
    assert_eq!(get("bob").expect(0).out, b"\x00two\n\n");
    run(&["put", &store, "eve", "4", "--if-absent"]).expect(0);
    run(&["put", &store, "", ""]).expect(0);
    assert_eq!(get("").expect(0).out, b"");
    run(&["put", &store, "--hex", "00ff", "raw"]).expect(0);
    assert_eq!(run(&["get", &store, "--hex", "00ff"]).expect(0).text(), "raw");
    run(&["put", &store, "--", "-dash", "-v"]).expect(0);
    assert_eq!(run(&["delete", &store, "--", "-dash"]).expect(0).text(), "");
    assert_eq!(run(&["delete", &store, "eve", "none"]).expect(0).err, "not found: none\n");
    assert_eq!(run(&["delete", &store, "eve", "none", "-q"]).expect(100).err, "");
    run(&["delete", &store, "--hex", "00ff"]).expect(0);
    let got = parsed(run_with(&["delete", &store, "-k", "-", "-0", "--json"], b"bob\0no\0"));
    assert_eq!((&got["deleted"], &got["missing"]), (&1.into(), &1.into()));
    assert_eq!(dump(&store), [(vec![], vec![])]);
}

/// It ended the command, and the keys behind it stayed; of a btree store it was not found.
#[test]
fn a_key_that_no_store_can_have_is_not_found() {
    let folder = Folder::new();
    let keys = folder.file("keys", format!("a\n{}\nb\n", "k".repeat(70_000)));
    for kind in ["hash", "btree"] {
        let store = folder.store(kind, &records_of(&[("a", "1"), ("b", "2")]));
        let got = run(&["delete", &store, "--keys-from", &keys, "--json"]).expect(0);
        assert!(got.err.starts_with("not found: kkk"), "{kind}: {}", got.err);
        let told: Value = serde_json::from_str(&got.text()).expect("JSON");
        assert_eq!((&told["deleted"], &told["missing"]), (&2.into(), &1.into()), "{kind}");
    }
}

#[test]
fn put_takes_many_records_of_any_format() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("a", "old"), ("b", "old")]);
    let got = run_with(&["put", &store, "--from", "tsv"], b"a\t1\nc\t3\n").expect(0);
    assert_eq!(got.text(), format!("{store}: 2 records written\n"));
    let args = ["put", &store, "--from", "jsonl", "--if-absent", "--json"];
    let got =
        run_with(&args, b"{\"key\":\"b\",\"value\":\"x\"}\n{\"key\":\"d\",\"value\":\"4\"}\n");
    let value: Value = serde_json::from_str(&got.expect(100).text()).expect("JSON");
    assert_eq!((&value["written"], &value["kept"]), (&1.into(), &1.into()));
    let expected = [("a", "1"), ("b", "old"), ("c", "3"), ("d", "4")];
    assert_eq!(sorted(dump(&store)), records_of(&expected));
}

#[test]
fn processes_put_at_the_same_time_and_nothing_is_lost() {
    let folder = Folder::new();
    let store = store_of(&folder, &[]);
    let text = |who: usize| {
        let records = (0..2000).map(|i| (format!("{who}-{i}").into(), format!("{i}").into()));
        cdb_text(&records.collect())
    };
    let put = |who: usize| {
        let args = ["put", &store, "--from", "cdb", "--durability", ["sync", "1"][who % 2]];
        run_with(&args, &text(who)).expect(0);
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|who| drop(scope.spawn(move || put(who))));
    });
    assert_eq!(dump(&store).len(), 4 * 2000);
    run(&["verify", &store]).expect(0);
}

#[test]
fn load_and_dump_lose_nothing() {
    let folder = Folder::new();
    let mut records = binary_records(400);
    let mut seen = std::collections::HashSet::new();
    records.retain(|(key, _)| seen.insert(key.clone()));
    let store = folder.store("hash", &records);
    assert_eq!(sorted(dump(&store)), sorted(records.clone()));
    for format in BINARY_FORMATS {
        let text = run(&["dump", &store, "--to", format]).expect(0).out;
        let back = folder.path(&format!("back-{format}"));
        run_with(&["load", &back, "--to", "hash", "--from", format], &text).expect(0);
        assert_eq!(sorted(dump(&back)), sorted(records.clone()), "{format}");
        run(&["verify", &back]).expect(0);
    }
    for kind in KINDS {
        let other = folder.path(kind);
        run(&["convert", &store, &other, "--to", kind]).expect(0);
        assert_eq!(sorted(dump(&other)), sorted(records.clone()), "{kind}");
        run(&["convert", &other, &other, "--to", "hash"]).expect(0);
        assert_eq!(sorted(dump(&other)), sorted(records.clone()), "{kind} and back");
        run(&["convert", &store, &other, "--to", kind, "--replace"]).expect(0);
        assert!(!folder.names().contains(&format!("{kind}-index")), "an index without a store");
    }
}

#[test]
fn load_adds_to_a_store_that_is_there() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("a", "1"), ("b", "2")]);
    let got = run_with(&["load", &store, "--from", "tsv"], b"b\t3\nc\t4\n").expect(0).text();
    assert!(got.starts_with(&format!("{store}: 2 written, 3 records now, ")), "{got}");
    let got = parsed(run_with(&["load", &store, "--to", "hash", "--json"], b"+1,1:d->5\n\n"));
    assert_eq!((&got["records_read"], &got["records"]), (&1.into(), &4.into()));
    let expected = [("a", "1"), ("b", "3"), ("c", "4"), ("d", "5")];
    assert_eq!(sorted(dump(&store)), records_of(&expected));
    run_with(&["load", &store, "--seed", "1", "--from", "cdb"], b"\n").expect(111);
    for other in ALL_KINDS.iter().filter(|kind| **kind != "hash") {
        let got = run_with(&["load", &store, "--to", other, "--from", "cdb"], b"\n").expect(111);
        assert!(got.err.contains("this is a hash store, which is not replaced"), "{}", got.err);
    }
    assert_eq!(parsed(run(&["stat", &store, "--json"]))["kind"], "hash");
    assert_eq!(folder.names(), ["hash.store", "hash.store-index"]);
}

#[test]
fn repeated_keys_follow_the_policy_or_are_refused() {
    let folder = Folder::new();
    let input = b"+1,1:a->1\n+1,1:b->2\n+1,1:a->3\n\n";
    for (policy, value, status) in [("first", "1", 0), ("last", "3", 0), ("error", "", 111)] {
        for is_new in [true, false] {
            let store = folder.path(&format!("{policy}-{is_new}"));
            if !is_new {
                run(&["create", &store]).expect(0);
            }
            let args = ["load", &store, "--to", "hash", "--json", "--duplicates", policy];
            let got = run_with(&args, input).expect(status);
            if status == 0 {
                assert!(got.text().contains("\"records_read\":3,\"records\":2"), "{}", got.text());
                assert_eq!(run(&["get", &store, "a"]).expect(0).text(), value);
            }
        }
    }
    let store = folder.path("keep");
    run_with(&["load", &store, "--to", "hash", "--duplicates", "keep"], input).expect(111);
    let twice = vec![("a".into(), "1".into()), ("a".into(), "2".into())];
    let constant = folder.store("constant", &twice);
    for args in [&["thaw", &constant, &store][..], &["convert", &constant, &store, "--to", "hash"]]
    {
        let got = run(args).expect(111);
        assert!(got.err.contains("--duplicates first"), "{}", got.err);
    }
    let names = folder.names();
    assert!(
        !names.iter().any(|name| name.starts_with("keep") || name.contains("tmp")),
        "{names:?}"
    );
}

/// More records than a batch has come before the key that comes twice.
#[test]
fn a_repeated_key_is_found_before_anything_is_written() {
    let folder = Folder::new();
    let store = folder.store("hash", &records_of(&[("old", "1")]));
    let mut records = plain_records(9000);
    records.push(("key7".into(), "again".into()));
    let text = folder.file("records", cdb_text(&records));
    let got = run(&["load", &store, &text, "--duplicates", "error"]).expect(111);
    let place = format!("error: {text}: cdb input, line 9001, column 1: key 'key7' comes a second");
    assert!(got.err.starts_with(&place), "{}", got.err);
    assert_eq!(dump(&store), records_of(&[("old", "1")]));
    records.pop();
    let got = run_with(&["load", &store, "--duplicates", "error"], &cdb_text(&records)).expect(0);
    assert!(got.text().contains("9,000 written, 9,001 records now"), "{}", got.text());
    run_with(&["load", &store, "--duplicates", "error"], &cdb_text(&records)).expect(0);
}

#[test]
fn freeze_and_thaw_go_round() {
    let folder = Folder::new();
    let records = plain_records(100_000);
    let store = folder.store("hash", &records);
    let (frozen, thawed) = (folder.path("frozen"), folder.path("thawed"));
    let got = run(&["freeze", &store, &frozen]).expect(0).text();
    assert!(got.starts_with(&format!("{frozen}: 100,000 records, ")), "{got}");
    let got = parsed(run(&["thaw", &frozen, &thawed, "--json"]));
    assert_eq!(got["records"], 100_000);
    run(&["verify", "-q", &frozen, &thawed]).expect(0);
    let expected = sorted(records);
    assert!(sorted(dump(&frozen)) == expected && sorted(dump(&thawed)) == expected);
    let again = run(&["thaw", &frozen, &thawed]).expect(111);
    assert!(again.err.contains("there is a file already"), "{}", again.err);
    run(&["freeze", &store, &store]).expect(111);
    run(&["freeze", &frozen, &folder.path("x")]).expect(111);
    for kind in KINDS {
        let other = folder.store(kind, &plain_records(100));
        let target = folder.path(&format!("{kind}.thawed"));
        run(&["thaw", &other, &target]).expect(0);
        assert_eq!(sorted(dump(&target)), sorted(plain_records(100)), "{kind}");
    }
}

#[test]
fn a_copy_is_a_store_of_its_own() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(1000));
    let copy = folder.path("copy");
    let got = parsed(run(&["backup", &store, &copy, "--json"]));
    assert_eq!(got["records"], 1000);
    assert_eq!(got["file_bytes"], std::fs::metadata(&copy).expect("the copy").len());
    run(&["put", &store, "later", "1"]).expect(0);
    run(&["verify", &copy]).expect(0);
    assert_eq!(sorted(dump(&copy)), sorted(plain_records(1000)));
    let got = run(&["backup", &store, &copy]).expect(0).text();
    assert!(got.contains(", 1,001 records, "), "{got}");
    run(&["get", &copy, "later"]).expect(0);
    run(&["backup", &store, &store]).expect(111);
}

#[test]
fn compact_gives_space_back() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(20_000));
    let keys: Vec<u8> = (1..20_000).flat_map(|i| format!("key{i}\n").into_bytes()).collect();
    run_with(&["delete", &store, "-k", "-"], &keys).expect(0);
    run(&["compact", &store, "--budget", "4K"]).expect(0);
    let got = parsed(run(&["compact", &store, "--index", "--json"]));
    let size = |name: &str| got[name].as_u64().expect("a size");
    assert!(got["done"] == true, "{got}");
    assert!(size("file_bytes_after") <= size("file_bytes_before"), "{got}");
    assert!(size("dead_bytes_after") <= size("dead_bytes_before"), "{got}");
    assert_eq!(size("file_bytes_after"), std::fs::metadata(&store).expect("the store").len());
    assert_eq!(dump(&store), plain_records(1));
    run(&["verify", &store]).expect(0);
}

/// What the error for keys of one hash advises.
#[test]
fn compact_makes_the_index_with_another_hash() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(100));
    let seed = || {
        let index = std::fs::read(format!("{store}-index")).expect("the index");
        index[40..48].to_vec()
    };
    let mut seeds = std::collections::BTreeSet::from([seed()]);
    run(&["compact", &store, "--index"]).expect(0);
    assert!(!seeds.insert(seed()), "--index keeps the hash");
    for _ in 0..2 {
        run(&["compact", &store, "--other-hash"]).expect(0);
        assert!(seeds.insert(seed()));
    }
    assert_eq!(sorted(dump(&store)), sorted(plain_records(100)));
    run(&["verify", &store]).expect(0);
}

#[test]
fn recover_takes_what_is_whole() {
    let folder = Folder::new();
    let store = store_of(&folder, &[]);
    for (key, value) in plain_records(100) {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        if key.ends_with(b"7") {
            run(&["put", &store, &text(key), &text(value)]).expect(0);
        }
    }
    let whole = dump(&store);
    let mut bytes = std::fs::read(&store).expect("the store");
    let at = bytes.windows(9).position(|w| w == b"value-289").expect("the value of key17");
    bytes[at] ^= 1;
    let bad = folder.file("bad", &bytes);
    run(&["verify", &bad]).expect(111);
    let target = folder.path("recovered");
    let got = parsed(run(&["recover", &bad, &target, "--json"]));
    assert_eq!(got["records"], 9);
    let expected = whole.into_iter().filter(|(key, _)| key != b"key17").collect();
    assert_eq!(sorted(dump(&target)), sorted(expected));
    assert_eq!(got["missing_bytes"], 0);
    run(&["recover", &bad, &target]).expect(111);
    // Of what was cut off nothing was said.
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("records");
    let cut = folder.file("cut", &bytes[..end / 8 * 8 - 64]);
    let got = parsed(run(&["recover", &cut, &folder.path("of cut"), "--json"]));
    assert!(got["missing_bytes"].as_u64() > Some(0), "{got}");
    let got = run(&["recover", &cut, &folder.path("of it")]).expect(0);
    assert!(got.text().contains("the file ends early: "), "{}", got.text());
}

#[test]
fn stat_names_those_who_hold_values() {
    let folder = Folder::new();
    let path = store_of(&folder, &[("bob", "1001")]);
    let stat = || parsed(run(&["stat", &path, "--json"]));
    assert_eq!(stat()["readers"], serde_json::json!([]));
    let store = Hash::open(&path).expect("the store");
    let value = store.get(b"bob").expect("a lookup").expect("a value");
    let held = stat();
    assert_eq!(held["readers"][0]["pid"], std::process::id());
    assert!(held["readers"][0]["age_ms"].is_u64());
    let text = run(&["stat", &path]).expect(0).text();
    let line = format!("process {}, for ", std::process::id());
    assert!(text.contains(&line), "{text}");
    for label in ["live bytes", "dead bytes", "retired bytes", "free bytes", "index bytes"] {
        assert!(text.contains(label), "{label} in\n{text}");
    }
    drop(value);
    assert_eq!(stat()["readers"], serde_json::json!([]));
}

/// Who is slow to read what a command writes must not keep space from being reused.
#[test]
fn nothing_is_held_while_output_waits() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(100_000));
    let names: Vec<u8> = (0..100_000).flat_map(|i| format!("key{i}\n").into_bytes()).collect();
    let keys = folder.file("keys", names);
    for args in [&["dump", &store][..], &["scan", &store], &["get", &store, "-k", &keys]] {
        let mut child = Command::new(program())
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let mut out = BufReader::with_capacity(100, child.stdout.take().expect("its output"));
        out.read_line(&mut line).expect("a line");
        // It has written as much as a pipe holds by now, or will have, and then waits.
        let id = child.id();
        let is_waiting = || {
            let wait = std::fs::read_to_string(format!("/proc/{id}/wchan")).unwrap_or_default();
            let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            wait.contains("pipe") || state.contains(") S ")
        };
        while !is_waiting() {
            std::thread::yield_now();
        }
        let stat = parsed(run(&["stat", &store, "--json"]));
        assert_eq!(stat["readers"], serde_json::json!([]), "{args:?}");
        drop(out);
        child.wait().expect("it ends");
    }
}

#[test]
fn watch_sees_changes_of_other_processes() {
    let folder = Folder::new();
    watch(&store_of(&folder, &[]), "changes");
    watch(&folder.store("btree", &vec![]), "commits");
}

/// Watches a store, of whose statistics one, called so, is the number of changes.
fn watch(store: &str, name: &str) {
    let known = parsed(run(&["stat", store, "--json"]))[name].as_u64().expect("a number");
    let mut child = Command::new(program())
        .args(["watch", store, "--json", "--count", "3", "--since", &known.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut last = known;
    for i in 0..3 {
        run(&["put", store, "key", &i.to_string()]).expect(0);
        let line = lines.next().expect("a line").expect("text");
        let value: Value = serde_json::from_str(&line).expect("JSON");
        let changes = value["changes"].as_u64().expect("a number");
        assert!(changes > last, "{changes} after {last}");
        last = changes;
    }
    assert!(child.wait().expect("it ends").success());
    let got = run(&["watch", store, "--timeout", "0.01"]).expect(100);
    assert_eq!(got.text(), "");
    let got = run(&["watch", store, "--since", "0", "-n", "1"]).expect(0);
    assert!(got.text().trim().parse::<u64>().is_ok_and(|changes| changes >= last));
    run(&["watch", store, "--since", "0", "-n", "2", "--timeout", "0.01"]).expect(100);
}

#[test]
fn watch_ends_when_the_store_is_gone() {
    let folder = Folder::new();
    for kind in ["hash", "btree"] {
        let watched = ["removed", "replaced"].map(|how| {
            let store = folder.path(&format!("{kind}-{how}"));
            std::fs::rename(folder.store(kind, &plain_records(2)), &store).expect("a store");
            // Far more time than it takes: it is over only where that is not seen.
            let mut child = Command::new(program())
                .args(["watch", &store, "--since", "0", "--timeout", "120"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program starts");
            let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
            lines.next().expect("a line of the changes so far").expect("text");
            (store, child)
        });
        let [(removed, _), (replaced, _)] = &watched;
        std::fs::remove_file(removed).expect("it is there");
        let new = folder.file("new", "another file");
        std::fs::rename(new, replaced).expect("it is there");
        let said = ["the store was removed", "another file is in the place"];
        for ((store, child), said) in watched.into_iter().zip(said) {
            let output = child.wait_with_output().expect("it ends");
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(111), "{store}: {err}");
            assert!(err.starts_with(&format!("error: {store}: {said}")), "{err}");
        }
    }
}

#[test]
fn a_store_is_read_without_writing_to_it() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("a", "1")]);
    std::fs::remove_file(format!("{store}-index")).expect("the index");
    let before = std::fs::read(&store).expect("the store");
    assert_eq!(run(&["get", &store, "a", "--read-only"]).expect(0).text(), "1");
    for command in ["scan", "dump", "stat", "verify"] {
        run(&[command, &store, "--read-only"]).expect(0);
    }
    assert!(std::fs::read(&store).expect("the store") == before);
    assert_eq!(folder.names(), ["hash.store"]);
    run(&["get", &store, "a"]).expect(0);
    assert_eq!(folder.names(), ["hash.store", "hash.store-index"]);
}

#[test]
fn the_shell_does_as_it_is_told() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("bob", "1001")]);
    let shell = |script: &str| run_with(&["shell", &store], script.as_bytes());
    let script = "# a comment\n\nput alice 1002\nget alice\nlen\nput \"two words\" \"\\x00 \\\"\"\n\
                  scan two\nscan b 0\nscan bob 9\n";
    assert_eq!(shell(script).expect(0).text(), "1002\n2\ntwo words\t\\x00 \"\nbob\t1001\n");
    let script = "begin\nput bob 1\nput eve 2\ndelete alice\nget bob\nlen\nabort\nget bob\nlen\n";
    assert_eq!(shell(script).expect(0).text(), "1\n3\n1001\n3\n");
    let script = "begin\nput bob 1\nput eve 2\ndelete alice\ncommit\nget bob\nlen\nquit\nbad";
    assert_eq!(shell(script).expect(0).text(), "1\n3\n");
    let got = shell("get none\nget bob").expect(100);
    assert_eq!((got.text().as_str(), got.err.as_str()), ("1\n", "not found: none\n"));
    let quit = shell("begin\nput bob 9\nquit\n").expect(0);
    assert!(quit.err.contains("not committed: it is forgotten"), "{}", quit.err);
    assert!(shell("stat\nhelp\n").expect(0).text().contains("live bytes"));
}

/// A removal of such a key, within a transaction or not, ended the shell.
#[test]
fn a_key_that_no_store_can_have_is_not_found_by_the_shell() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("bob", "1001")]);
    let long = "x".repeat(70_000);
    let both = format!("get {long}\ndelete {long} bob\n");
    let script = format!("{both}put bob 1\nbegin\n{both}put eve 2\ncommit\nlen\n");
    let got = run_with(&["shell", &store], script.as_bytes()).expect(100);
    assert_eq!(got.text(), "1\n");
    assert_eq!(got.err.matches("not found: xxx").count(), 4);
}

/// Another store was called otherwise without a word.
#[test]
fn who_makes_way_for_an_index_is_told_of() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("bob", "1001")]);
    let (index, text) = (format!("{store}-index"), folder.file("text.tsv", "a\t1\n"));
    for number in 1..4 {
        std::fs::remove_file(&index).expect("the index");
        run(&["load", &index, &text]).expect(0);
        let args: &[&str] = if number == 2 { &["-q"] } else { &[] };
        let got = run(&[&["get", &store, "bob"], args].concat()).expect(0);
        let name = format!("{index}.{number}");
        let note = format!("{index}: had the name of the store's index, and is {name} now\n");
        assert_eq!(got.err, if number == 2 { String::new() } else { note });
        run(&["get", &name, "a"]).expect(0);
    }
    let new = folder.path("new");
    let other = folder.file("new-index", "notes");
    let got = run(&["load", &new, &text, "--to", "hash"]).expect(0);
    assert!(got.err.contains(&format!("{other}: had the name")), "{}", got.err);
}

#[test]
fn a_script_ends_at_its_first_error() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("bob", "1001")]);
    for (script, error) in [
        ("begin\nput bob 1\nnonsense\ncommit\n", "line 3: there is no command 'nonsense'"),
        ("begin\nput bob 1\n", "ends before 'commit'"),
        ("begin\nbegin\n", "line 2: a transaction has begun"),
        ("commit\nput bob 1\n", "line 1: there is no transaction"),
        ("get\nput bob 1\n", "line 1: 'get' takes other words"),
        ("put \"bob 1\nput bob 1\n", "line 1: a quoted word has no end"),
        ("scan b x\nput bob 1\n", "line 1: N must be"),
    ] {
        let got = run_with(&["shell", &store], script.as_bytes()).expect(111);
        assert!(got.err.contains(error), "{error} in {}", got.err);
        assert_eq!(run(&["get", &store, "bob"]).expect(0).text(), "1001", "{script}");
    }
}

/// What looks like a word without an end ended the shell, though it stood in a comment.
#[test]
fn comments_of_a_script_are_passed_over() {
    let folder = Folder::new();
    let store = store_of(&folder, &[]);
    let script = "# say \"hello\n  # it's C:\\\n#\n#quit\nput \"#bob\" 1\nget #bob\nget \\#bob\n";
    assert_eq!(run_with(&["shell", &store], script.as_bytes()).expect(0).text(), "1\n1\n");
    assert_eq!(dump(&store), records_of(&[("#bob", "1")]));
}

/// A shell that is killed within a transaction leaves nothing of it, and nobody waits for it.
#[test]
fn a_killed_shell_leaves_nothing_of_its_transaction() {
    let folder = Folder::new();
    kill_a_shell(&store_of(&folder, &[("bob", "1001")]));
}
