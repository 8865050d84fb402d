//! Danger: a command changes a btree store otherwise than it says, or not at all, or takes a part of
//! it for the whole.

mod common;
use common::*;
use credenza::btree::{BTree, Duplicates, TableOptions};
use serde_json::{Value, json};
use std::io::Read;
use std::process::{Command, Stdio};

/// A new btree store with these records.
fn store_of(folder: &Folder, records: &[(&str, &str)]) -> String {
    folder.store("btree", &records_of(records))
}

/// A store with two tables besides its main one.
fn with_tables(folder: &Folder) -> String {
    let store = store_of(folder, &[("bob", "1001")]);
    run(&["table", "create", &store, "groups", "empty"]).expect(0);
    run(&["put", &store, "--table", "groups", "staff", "50"]).expect(0);
    run(&["put", &store, "--table", "groups", "adm", "4"]).expect(0);
    store
}

#[test]
fn create_makes_one_and_never_another_in_its_place() {
    let folder = Folder::new();
    let store = folder.path("store");
    let create = ["create", &store, "--engine", "btree"];
    assert_eq!(run(&create).expect(0).text(), format!("{store}: a new btree store\n"));
    run(&["put", &store, "k", "v"]).expect(0);
    run(&create).expect(111);
    let again = parsed(run(&[&create[..], &["--if-missing", "--json"]].concat()));
    assert_eq!((&again["created"], &again["records"]), (&false.into(), &1.into()));
    assert_eq!(again["kind"], "btree");
    let got = run(&["create", &store, "--if-missing"]).expect(111);
    assert!(got.err.contains(&store), "{}", got.err);
    let hash = folder.store("hash", &plain_records(1));
    run(&["create", &hash, "--if-missing", "--engine", "btree"]).expect(111);
    let other = folder.path("other");
    let got = run(&["create", &other, "--engine", "btree", "--limit", "1M"]).expect(111);
    assert!(got.err.contains("leave out --limit"), "{}", got.err);
    assert_eq!(folder.names(), ["hash.store", "hash.store-index", "store"]);
}

#[test]
fn put_and_delete_change_single_keys() {
    let folder = Folder::new();
    let store = store_of(&folder, &[]);
    let get = |key: &str| run(&["get", &store, key]);
    assert_eq!(run(&["put", &store, "bob", "1001"]).expect(0).text(), "");
    run_with(&["put", &store, "bob"], b"\x00two\n\n").expect(0);
    assert_eq!(get("bob").expect(0).out, b"\x00two\n\n");
    run(&["put", &store, "bob", "3", "--if-absent"]).expect(100);
    run(&["put", &store, "eve", "4", "--if-absent", "--durability", "sync"]).expect(0);
    run(&["put", &store, "", ""]).expect(0);
    run(&["put", &store, "--hex", "00ff", "raw"]).expect(0);
    assert_eq!(run(&["delete", &store, "eve", "none"]).expect(0).err, "not found: none\n");
    assert_eq!(run(&["delete", &store, "eve", "none", "-q"]).expect(100).err, "");
    let got = parsed(run_with(&["delete", &store, "-k", "-", "-0", "--json"], b"bob\0no\0"));
    assert_eq!((&got["deleted"], &got["missing"]), (&1.into(), &1.into()));
    assert_eq!(dump(&store), [(vec![], vec![]), (b"\x00\xff".to_vec(), b"raw".to_vec())]);
}

/// After a mistake in the input nothing of it is there: all is one transaction.
#[test]
fn many_records_come_and_go_all_or_none() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("a", "old"), ("b", "old")]);
    let got = run_with(&["put", &store, "--from", "tsv"], b"a\t1\nc\t3\n").expect(0);
    assert_eq!(got.text(), format!("{store}: 2 records written\n"));
    let args = ["put", &store, "--from", "tsv", "--if-absent", "--json"];
    let value: Value =
        serde_json::from_str(&run_with(&args, b"b\tx\nd\t4\n").expect(100).text()).expect("JSON");
    assert_eq!((&value["written"], &value["kept"]), (&1.into(), &1.into()));
    let before = records_of(&[("a", "1"), ("b", "old"), ("c", "3"), ("d", "4")]);
    assert_eq!(dump(&store), before);
    let bad = [plain_text(20_000), b"no tab\n".to_vec()].concat();
    for args in [
        &["put", &store, "--from", "tsv"][..],
        &["put", &store, "--from", "tsv", "--if-absent"],
        &["load", &store, "--from", "tsv"],
    ] {
        run_with(args, &bad).expect(111);
        assert_eq!(dump(&store), before, "{args:?}");
    }
    run_with(&["delete", &store, "--hex", "-k", "-"], b"61\n62\nxx\n").expect(111);
    assert_eq!(dump(&store), before);
    let keys: Vec<u8> = b"a\nb\nc\n".to_vec();
    run_with(&["delete", &store, "-k", "-"], &keys).expect(0);
    assert_eq!(dump(&store), records_of(&[("d", "4")]));
}

fn plain_text(n: usize) -> Vec<u8> {
    (0..n).flat_map(|i| format!("key{i:06}\tvalue {i}\n").into_bytes()).collect()
}

#[test]
fn load_fills_an_empty_store_or_adds_to_it() {
    let folder = Folder::new();
    let store = folder.path("store");
    run(&["create", &store, "--engine", "btree"]).expect(0);
    let sorted_text = plain_text(20_000);
    let got = run_with(&["load", &store, "--from", "tsv"], &sorted_text).expect(0).text();
    assert!(got.starts_with(&format!("{store}: 20,000 written, 20,000 records now, ")), "{got}");
    let filled = std::fs::metadata(&store).expect("the store").len();
    // In another order, into another store: the pages are as full.
    let other = folder.path("other");
    let mut lines: Vec<&[u8]> = sorted_text.split_inclusive(|b| *b == b'\n').collect();
    lines.sort_by_key(|line| line.iter().fold(7u32, |h, b| h.wrapping_mul(31) ^ u32::from(*b)));
    let args = ["load", &other, "--to", "btree", "--from", "tsv", "--memory-budget", "1M"];
    run_with(&args, &lines.concat()).expect(0);
    assert!(std::fs::metadata(&other).expect("the store").len() <= filled);
    assert_eq!(dump(&store), dump(&other));
    for store in [&store, &other] {
        let got = run_with(&["load", store, "--from", "tsv"], b"key000001\tnew\nzz\t1\n").expect(0);
        assert!(got.text().starts_with(&format!("{store}: 2 written, 20,001 records now")));
        assert_eq!(run(&["get", store, "key000001"]).expect(0).text(), "new");
        run(&["verify", store]).expect(0);
    }
    run_with(&["load", &store, "--seed", "1", "--from", "cdb"], b"\n").expect(111);
    for other in ALL_KINDS.iter().filter(|kind| **kind != "btree") {
        let got = run_with(&["load", &store, "--to", other, "--from", "cdb"], b"\n").expect(111);
        assert!(got.err.contains("this is a btree store, which is not replaced"), "{}", got.err);
    }
    assert_eq!(parsed(run(&["stat", &store, "--json"]))["kind"], "btree");
    assert_eq!(folder.names(), ["other", "store"]);
}

#[test]
fn repeated_keys_follow_the_policy_as_in_a_hash_store() {
    let folder = Folder::new();
    let input = b"+1,1:a->1\n+1,1:b->2\n+1,1:a->3\n\n";
    for (policy, value, status) in [("first", "1", 0), ("last", "3", 0), ("error", "", 111)] {
        for is_new in [true, false] {
            let store = folder.path(&format!("{policy}-{is_new}"));
            if !is_new {
                run(&["create", &store, "--engine", "btree"]).expect(0);
                run(&["put", &store, "a", "old"]).expect(0);
            }
            let args = ["load", &store, "--to", "btree", "--json", "--duplicates", policy];
            let got = run_with(&args, input).expect(status);
            if status == 0 {
                assert!(got.text().contains("\"records_read\":3,\"records\":2"), "{}", got.text());
                assert_eq!(run(&["get", &store, "a"]).expect(0).text(), value);
            } else if !is_new {
                assert_eq!(run(&["get", &store, "a"]).expect(0).text(), "old");
            }
        }
    }
    let store = folder.path("keep");
    run_with(&["load", &store, "--to", "btree", "--duplicates", "keep"], input).expect(111);
    let twice = vec![("a".into(), "1".into()), ("a".into(), "2".into())];
    let constant = folder.store("constant", &twice);
    for args in [
        &["thaw", &constant, &store, "--engine", "btree"][..],
        &["convert", &constant, &store, "--to", "btree"],
    ] {
        let got = run(args).expect(111);
        assert!(got.err.contains("--duplicates first"), "{}", got.err);
    }
    let names = folder.names();
    assert!(!names.iter().any(|n| n.starts_with("keep") || n.contains("tmp")), "{names:?}");
}

#[test]
fn dump_and_conversions_lose_nothing() {
    let folder = Folder::new();
    let mut records = binary_records(400);
    let mut seen = std::collections::HashSet::new();
    records.retain(|(key, _)| seen.insert(key.clone()));
    let store = folder.store("btree", &records);
    let records = sorted(records);
    assert!(dump(&store) == records, "in the order of keys");
    for format in BINARY_FORMATS {
        let text = run(&["dump", &store, "--to", format]).expect(0).out;
        let back = folder.path(&format!("back-{format}"));
        run_with(&["load", &back, "--to", "btree", "--from", format], &text).expect(0);
        assert!(dump(&back) == records, "{format}");
    }
    for kind in ALL_KINDS {
        let other = folder.path(kind);
        run(&["convert", &store, &other, "--to", kind]).expect(0);
        assert!(sorted(dump(&other)) == records, "{kind}");
        let (back, thawed) =
            (folder.path(&format!("{kind}.back")), folder.path(&format!("{kind}.thawed")));
        run(&["convert", &other, &back, "--to", "btree"]).expect(0);
        assert!(dump(&back) == records, "{kind} and back");
        run(&["convert", &back, &other, "--to", kind, "--replace"]).expect(0);
        run(&["thaw", &other, &thawed, "--engine", "btree"]).expect(0);
        assert!(dump(&thawed) == records, "{kind} thawed");
        run(&["thaw", &other, &thawed, "--engine", "btree"]).expect(111);
        run(&["verify", "-q", &other, &thawed]).expect(0);
    }
    let (frozen, hash) = (folder.path("frozen"), folder.path("to-hash"));
    run(&["freeze", &store, &frozen]).expect(0);
    run(&["thaw", &store, &hash]).expect(0);
    assert!(sorted(dump(&frozen)) == records && sorted(dump(&hash)) == records);
    run(&["freeze", &store, &store]).expect(111);
}

#[test]
fn tables_are_made_listed_renamed_and_deleted() {
    let folder = Folder::new();
    let store = with_tables(&folder);
    assert_eq!(run(&["table", "list", &store]).expect(0).text(), "1\t\n0\tempty\n2\tgroups\n");
    let text = run(&["table", "list", &store, "--json"]).expect(0).text();
    let list: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let plain = |table: Value, records: u64| {
        let (keys, duplicates) = ("binary", "none");
        json!({"table": table, "records": records, "keys": keys, "duplicates": duplicates,
               "numbered": false})
    };
    let expected = [plain(Value::Null, 1), plain("empty".into(), 0), plain("groups".into(), 2)];
    assert_eq!(list, expected);
    run(&["table", "create", &store, "groups"]).expect(0);
    assert!(run(&["table", "create", &store, ""]).expect(111).err.contains("empty"));
    let got = run(&["table", "rename", &store, "groups", "empty"]).expect(111);
    assert!(got.err.contains("there is a table"), "{}", got.err);
    run(&["table", "rename", &store, "groups", "teams"]).expect(0);
    assert_eq!(run(&["get", &store, "staff", "--table", "teams"]).expect(0).text(), "50");
    let got = run(&["table", "rename", &store, "groups", "x"]).expect(100);
    assert!(got.err.contains("no table \"groups\""), "{}", got.err);
    // There is one of the new name.
    let got = run(&["table", "rename", &store, "teams", "teams"]).expect(111);
    assert!(got.err.contains("there is a table \"teams\" already"), "{}", got.err);
    run(&["table", "rename", &store, "none", "none"]).expect(100);
    run(&["table", "delete", &store, "teams", "groups"]).expect(100);
    assert_eq!(run(&["table", "list", &store]).expect(0).text(), "1\t\n0\tempty\n2\tteams\n");
    // Whoever is named twice is there once.
    run(&["table", "delete", &store, "teams", "empty", "teams"]).expect(0);
    assert_eq!(run(&["table", "list", &store]).expect(0).text(), "1\t\n");
    run(&["verify", &store]).expect(0);
    let hash = folder.store("hash", &plain_records(1));
    for args in [&["table", "list", &hash][..], &["table", "create", &hash, "t"], &["range", &hash]]
    {
        let got = run(args).expect(111);
        assert!(got.err.contains("kind 'hash'") && got.err.contains("--to btree"), "{}", got.err);
    }
}

fn of_table<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &["--table", "groups"]].concat()
}

#[test]
fn commands_take_a_table_and_refuse_where_there_is_none() {
    let folder = Folder::new();
    let store = with_tables(&folder);
    let groups = records_of(&[("adm", "4"), ("staff", "50")]);
    let text = run(&of_table(&["dump", &store])).expect(0);
    assert!((parse_cdb_text(&text.out), text.err.as_str()) == (groups.clone(), ""));
    assert_eq!(run(&of_table(&["scan", &store])).expect(0).text(), "adm\t4\nstaff\t50\n");
    run(&of_table(&["get", &store, "bob"])).expect(100);
    assert_eq!(
        run_with(&of_table(&["get", &store, "-k", "-", "--values"]), b"staff\nadm\n").out,
        b"50\n4\n"
    );
    run_with(&of_table(&["load", &store, "--from", "tsv"]), b"x\t1\nadm\t5\n").expect(0);
    run(&of_table(&["delete", &store, "x"])).expect(0);
    run(&of_table(&["put", &store, "adm", "4"])).expect(0);
    let script = "put x 1\nbegin\ndelete x\nlen\ncommit\nscan\n";
    let got = run_with(&of_table(&["shell", &store]), script.as_bytes()).expect(0);
    assert_eq!(got.text(), "2\nadm\t4\nstaff\t50\n");
    for command in ["freeze", "thaw"] {
        let target = folder.path(command);
        run(&of_table(&[command, &store, &target])).expect(0);
        assert_eq!(sorted(dump(&target)), groups, "{command}");
    }
    let target = folder.path("converted");
    run(&of_table(&["convert", &store, &target, "--to", "btree"])).expect(0);
    let copied = run(&of_table(&["dump", &target])).expect(0).out;
    assert_eq!(parse_cdb_text(&copied), groups);
    assert_eq!((dump(&target), dump(&store)), (vec![], records_of(&[("bob", "1001")])));

    let hash = folder.store("hash", &plain_records(1));
    let constant = folder.store("constant", &plain_records(1));
    for store in [&hash, &constant] {
        for args in [&["get", store, "k"][..], &["dump", store], &["scan", store]] {
            let got = run(&of_table(args)).expect(111);
            assert!(got.err.contains("leave out --table"), "{}", got.err);
        }
    }
    for args in [&["put", &hash, "k", "v"][..], &["delete", &hash, "k"], &["shell", &hash]] {
        assert!(run(&of_table(args)).expect(111).err.contains("leave out --table"));
    }
    let new = folder.path("new");
    let args = ["load", &new, "--to", "btree", "--from", "tsv", "--table", "t"];
    assert!(run_with(&args, b"a\tb\n").expect(111).err.contains("table create"));
    for args in [&["get", &store, "k"][..], &["put", &store, "k", "v"], &["range", &store]] {
        let got = run(&[args, &["--table", "none"]].concat()).expect(111);
        assert!(got.err.contains("no table \"none\"") && got.err.contains(&store), "{}", got.err);
        assert!(got.err.contains("credenza table list"), "{}", got.err);
    }
}

/// A part must not be taken for the whole.
#[test]
fn other_tables_are_copied_or_named() {
    let folder = Folder::new();
    let store = with_tables(&folder);
    let copy = folder.path("copy");
    let got = run(&["convert", &store, &copy, "--to", "btree"]).expect(0);
    assert!(got.text().starts_with(&format!("{copy}: 3 records, ")), "{}", got.text());
    assert_eq!(got.err, "");
    let list = |store: &str| run(&["table", "list", store]).expect(0).text();
    assert_eq!(list(&copy), list(&store));
    run(&["verify", &copy]).expect(0);
    run(&["convert", &store, &copy, "--to", "btree", "--replace"]).expect(0);
    assert_eq!(list(&copy), list(&store), "in the place of the copy before");
    let target = |name: &str| folder.path(name);
    for args in [
        &["dump", &store][..],
        &["freeze", &store, &target("frozen")],
        &["thaw", &store, &target("thawed")],
        &["convert", &store, &target("converted"), "--to", "cdb"],
    ] {
        let got = run(args).expect(0);
        assert!(got.err.contains("2 more tables can be named with --table"), "{}", got.err);
    }
    assert_eq!(run(&["dump", &store, "-q"]).expect(0).err, "");
}

#[test]
fn range_gives_what_lies_between() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("a", "1"), ("ab", "2"), ("b", "3"), ("c", "4")]);
    let range = |args: &[&str]| run(&[&["range", &store], args].concat()).expect(0).text();
    let keys = |args: &[&str]| range(&[args, &["--keys"]].concat()).replace('\n', " ");
    for (args, expected) in [
        (&[][..], "a ab b c "),
        (&["ab"], "ab b c "),
        (&["aa", "c"], "ab b "),
        (&["", "b"], "a ab "),
        (&["c", "a"], ""),
        (&["d"], ""),
        (&["--prefix", "a"], "a ab "),
        (&["-p", "ab"], "ab "),
        (&["-p", "x"], ""),
        (&["--reverse"], "c b ab a "),
        (&["ab", "c", "-r"], "b ab "),
        (&["--prefix", "a", "-r", "-n", "1"], "ab "),
        (&["--limit", "2"], "a ab "),
        (&["-n", "0"], ""),
        (&["--hex", "6162", "63"], "ab b "),
        (&["--hex", "-p", "61"], "a ab "),
    ] {
        assert_eq!(keys(args), expected, "{args:?}");
    }
    assert_eq!(range(&["b"]), "b\t3\nc\t4\n");
    assert_eq!(range(&["c", "--json"]), "{\"key\":\"c\",\"value\":\"4\"}\n");
    assert_eq!(range(&["-p", "a", "--to", "cdb"]), "+1,1:a->1\n+2,1:ab->2\n\n");
    let out = folder.path("out.tsv");
    assert_eq!(range(&["b", "--to", "tsv", "-o", &out]), "");
    assert_eq!(std::fs::read_to_string(&out).expect("the output"), "b\t3\nc\t4\n");
    for bad in [&["a", "-p", "b"][..], &["--to", "tsv", "--json"], &["--hex", "xy"]] {
        run(&[&["range", &store], bad].concat()).expect(111);
    }
    run(&["delete", &store, "a", "ab", "b", "c"]).expect(0);
    assert_eq!(range(&["-r"]), "");
}

/// Somebody writes while a command reads that cannot go on as nobody takes its output.
#[test]
fn who_reads_longer_than_its_lease_is_told_so_when_another_writes() {
    let folder = Folder::new();
    let store = folder.store("btree", &plain_records(60_000));
    let multi = multi_table(&folder);
    let keys: String = (0..60_000).map(|i| format!("key{i}\n")).collect();
    let keys = folder.file("keys", keys);
    for (store, args) in [
        (&store, &["get", &store, "-k", &keys][..]),
        (&store, &["dump", &store]),
        (&store, &["scan", &store, "--json"]),
        (&store, &["range", &store, "key1"]),
        (&store, &["range", &store, "--prefix", "key", "--to", "tsv"]),
        (&store, &["range", &store, "--reverse"]),
        (&multi, &["dump", &multi, "--table", "many"]),
        (&multi, &["range", &multi, "", "k", "--table", "many"]),
    ] {
        let whole = run(&[args, &["--lease", "3600", "-q"]].concat()).expect(0);
        assert!(whole.out == run(&[args, &["-q"]].concat()).expect(0).out, "{args:?}");
        let mut reader = Command::new(program())
            .args(args)
            .args(["--lease", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut start = [0; 100];
        let out = reader.stdout.as_mut().expect("its output");
        out.read_exact(&mut start).expect("the beginning");
        run(&["put", store, "new", "value"]).expect(0);
        let left = reader.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&left.stderr).into_owned();
        let (told, asked) = ("the lease of 0 seconds is over", "make it longer");
        assert!(err.contains(told) && err.contains(asked) && err.contains(store), "{err}");
        assert_eq!(left.status.code(), Some(111), "{args:?}");
        assert!(100 + left.stdout.len() < whole.out.len(), "{args:?}: it has read all");
        assert!(whole.out.starts_with(&[&start[..], &left.stdout].concat()), "{args:?}");
        run(&["delete", store, "new"]).expect(0);
    }
    let copy = folder.path("copy");
    run(&["backup", &store, &copy, "--lease", "3600"]).expect(0);
    assert!(dump(&copy) == dump(&store));
    for kind in ["hash", "constant"] {
        let other = folder.store(kind, &plain_records(2));
        let got = run(&["dump", &other, "--lease", "1"]).expect(111);
        assert!(got.err.contains("leave out --lease") && got.err.contains(&other), "{}", got.err);
    }
    let got = run(&["backup", &folder.path("hash.store"), &copy, "--lease", "1"]).expect(111);
    assert!(got.err.contains("leave out --lease"), "{}", got.err);
    run(&["dump", &store, "--lease", "soon"]).expect(111);
}

/// A store with a table whose keys have many values.
fn multi_table(folder: &Folder) -> String {
    let path = folder.path("multi");
    let store = BTree::create(&path).expect("a store");
    let mut transaction = store.write().expect("a transaction");
    let options = TableOptions::new().duplicates(Duplicates::Sorted);
    transaction.create_table_with("many", &options).expect("a table");
    let mut table = transaction.multi_table("many").expect("whole").expect("the table");
    for i in 0..60_000u32 {
        table.insert(&[b'a' + (i / 20_000) as u8], i.to_string().as_bytes()).expect("a value");
    }
    transaction.commit().expect("the commit");
    path
}

/// What the engine has no calls for.
#[test]
fn what_cannot_be_done_is_refused_with_what_can() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("k", "v")]);
    let before = std::fs::read(&store).expect("the store");
    for (args, instead) in [
        (&["backup", &store, &store][..], "name another file"),
        (&["compact", &store, "--index"], "leave out --index"),
        (&["get", &store, "k", "--access", "read"], "always mapped"),
        (&["put", &store, "--append", "v"], "not numbered"),
    ] {
        let got = run(args).expect(111);
        assert!(got.err.contains(instead) && got.err.contains(&store), "{args:?}: {}", got.err);
    }
    assert_eq!(folder.names(), ["btree.store"]);
    assert!(std::fs::read(&store).expect("the store") == before);
    assert_eq!(parsed(run(&["stat", &store, "--json"]))["records"], 1);
    assert_eq!(run(&["get", &store, "k", "--read-only"]).expect(0).text(), "v");
    let open = BTree::open(&store).expect("the store");
    let got = run(&["get", &store, "k", "--read-only"]).expect(111);
    assert!(got.err.contains("wait until the store is closed"), "{}", got.err);
    drop(open);
}

#[test]
fn a_copy_is_a_store_of_its_own_with_all_tables() {
    let folder = Folder::new();
    let (store, copy) = (with_tables(&folder), folder.path("copy"));
    let got = parsed(run(&["backup", &store, &copy, "--json"]));
    assert_eq!(got["records"], 3);
    assert_eq!(got["file_bytes"], std::fs::metadata(&copy).expect("the copy").len());
    run(&["verify", &copy]).expect(0);
    let tables = |store: &str| run(&["table", "list", store]).expect(0).text();
    assert_eq!(tables(&copy), tables(&store));
    run(&["put", &store, "later", "1"]).expect(0);
    assert_eq!(dump(&copy), records_of(&[("bob", "1001")]));
    assert_eq!(run(&["get", &copy, "--table", "groups", "adm"]).expect(0).text(), "4");
    run(&["backup", &store, &copy]).expect(0);
    run(&["get", &copy, "later"]).expect(0);
}

#[test]
fn compact_gives_space_back() {
    let folder = Folder::new();
    let store = folder.store("btree", &plain_records(20_000));
    let keys: Vec<u8> =
        (0..20_000).filter(|i| i % 50 > 0).flat_map(|i| format!("key{i}\n").into_bytes()).collect();
    run_with(&["delete", &store, "-k", "-"], &keys).expect(0);
    let left = dump(&store);
    run(&["compact", &store, "--budget", "4K"]).expect(0);
    let got = parsed(run(&["compact", &store, "--json"]));
    let size = |name: &str| got[name].as_u64().expect("a size");
    assert!(got["done"] == true && got["readers"] == 0, "{got}");
    assert!(size("file_bytes_after") <= size("file_bytes_before"), "{got}");
    assert!(size("live_bytes_after") <= size("live_bytes_before"), "{got}");
    let len = std::fs::metadata(&store).expect("the store").len();
    assert_eq!(size("file_bytes_after"), len);
    assert!(len < 100_000, "{got}");
    assert!(dump(&store) == left && left.len() == 400);
    run(&["verify", &store]).expect(0);
    let text = run(&["compact", &store]).expect(0).text();
    assert!(text.contains("held") && !text.contains("more to do"), "{text}");
}

#[test]
fn stat_names_those_who_hold_pages() {
    let folder = Folder::new();
    let path = store_of(&folder, &[("bob", "1001")]);
    let stat = || parsed(run(&["stat", &path, "--json"]));
    assert_eq!(stat()["readers"], json!([]));
    let store = BTree::open(&path).expect("the store");
    let snapshot = store.read().expect("a snapshot");
    assert_eq!(stat()["readers"], json!([]), "it is the newest state");
    run(&["put", &path, "bob", "1002"]).expect(0);
    let held = stat();
    assert_eq!(held["readers"][0]["pid"], std::process::id());
    assert!(held["readers"][0]["age_ms"].is_u64() && held["held_bytes"].as_u64() > Some(0));
    assert!(held["readers"][0]["held_bytes"].as_u64() > Some(0), "{held}");
    assert!(held["undurable_bytes"].is_u64(), "{held}");
    let text = run(&["stat", &path]).expect(0).text();
    assert!(text.contains(&format!("process {}, for ", std::process::id())), "{text}");
    let leased = store.read_for(std::time::Duration::from_secs(3600)).expect("a snapshot");
    run(&["put", &path, "bob", "1003"]).expect(0);
    let found = stat();
    assert!(found["readers"][0]["lease_ms"].is_null(), "{found}");
    assert_eq!(found["readers"][1]["lease_ms"], 3_600_000, "{found}");
    assert!(found["readers"][1]["left_ms"].as_u64() <= Some(3_600_000), "{found}");
    let text = run(&["stat", &path]).expect(0).text();
    assert!(text.contains(", lease of "), "{text}");
    drop(leased);
    assert_eq!(found["all_records"], found["records"], "{found}");
    for label in
        ["tables", "all records", "depth", "live bytes", "held bytes", "free bytes", "commits"]
    {
        assert!(text.contains(label), "{label} in\n{text}");
    }
    assert_eq!(text.matches("readers").count(), 1, "{text}");
    drop(snapshot);
    assert_eq!(stat()["readers"], json!([]));
}

#[test]
fn the_shell_does_as_it_is_told() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("bob", "1001")]);
    let shell = |script: &str| run_with(&["shell", &store], script.as_bytes());
    let script = "# a comment\n\nput alice 1002\nget alice\nlen\nput \"two words\" \"\\x00 \\\"\"\n\
                  scan two\nscan b 0\nscan \"\" 2\n";
    let expected = "1002\n2\ntwo words\t\\x00 \"\nalice\t1002\nbob\t1001\n";
    assert_eq!(shell(script).expect(0).text(), expected);
    let script = "begin\nput bob 1\nput eve 2\ndelete alice\nget bob\nlen\nabort\nget bob\nlen\n";
    assert_eq!(shell(script).expect(0).text(), "1\n3\n1001\n3\n");
    let script =
        "begin\nput bob 1\nput eve 2\ndelete alice\nscan e\ncommit\nget bob\nlen\nquit\nbad";
    assert_eq!(shell(script).expect(0).text(), "eve\t2\n1\n3\n");
    assert_eq!(shell("get none\nget bob").expect(100).text(), "1\n");
    let quit = shell("begin\nput bob 9\nquit\n").expect(0);
    assert!(quit.err.contains("not committed: it is forgotten"), "{}", quit.err);
    assert!(shell("stat\nhelp\n").expect(0).text().contains("live bytes"));
    for (script, error) in [
        ("begin\nput bob 9\nnonsense\ncommit\n", "line 3: there is no command 'nonsense'"),
        ("begin\nput bob 9\n", "ends before 'commit'"),
        ("begin\nbegin\n", "line 2: a transaction has begun"),
        ("commit\nput bob 9\n", "line 1: there is no transaction"),
        ("abort\n", "line 1: there is no transaction"),
    ] {
        let got = shell(script).expect(111);
        assert!(got.err.contains(error), "{error} in {}", got.err);
        assert_eq!(run(&["get", &store, "bob"]).expect(0).text(), "1", "{script}");
    }
}

/// A shell that is killed within a transaction leaves nothing of it, and nobody waits for it.
#[test]
fn a_killed_shell_leaves_nothing_of_its_transaction() {
    let folder = Folder::new();
    kill_a_shell(&store_of(&folder, &[("bob", "1001")]));
}

/// A store that is converted was longer by what it had grown for.
#[test]
fn what_is_converted_is_as_small_as_a_backup() {
    let folder = Folder::new();
    let store = store_of(&folder, &[("a", "1"), ("b", "2")]);
    let [converted, copied] = ["converted", "copied"].map(|name| folder.path(name));
    run(&["convert", &store, &converted, "--to", "btree"]).expect(0);
    run(&["backup", &store, &copied]).expect(0);
    let len = |path: &str| std::fs::metadata(path).expect("a file").len();
    assert_eq!(len(&converted), len(&copied));
    let err = run(&["convert", &store, "-", "--to", "btree"]).expect(111).err;
    assert!(err.contains("a store cannot be written to standard output"), "{err}");
}

/// An empty file that is made a store was called one that was there.
#[test]
fn an_empty_file_becomes_a_new_store() {
    let folder = Folder::new();
    for engine in ["hash", "btree"] {
        let path = folder.file(engine, "");
        let create = ["create", "--if-missing", "--engine", engine, &path];
        assert_eq!(run(&create).expect(0).text(), format!("{path}: a new {engine} store\n"));
        assert_eq!(run(&create).expect(0).text(), format!("{path}: was there already\n"));
    }
}
