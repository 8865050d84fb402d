//! Danger: numbers that are not those of the processes that use a store, or a file of statistics
//! that brings the program down.

mod common;
use common::*;
use credenza::Get;
use credenza::constant::Constant;
use credenza::stats::{Latency, Statistics};
use nix::pty::{Winsize, openpty};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

/// A store whose statistics are shared, and its path.
fn shared(folder: &Folder) -> (Constant, String) {
    let path = folder.store("constant", &plain_records(100));
    let statistics = Statistics::new().shared(true).latency(Latency::Every);
    (Constant::options().statistics(statistics).open(&path).expect("a store"), path)
}

const QUICKLY: [&str; 4] = ["--count", "2", "--interval", "0.01"];

#[test]
fn another_process_sees_what_is_counted() {
    let folder = Folder::new();
    let (store, path) = shared(&folder);
    for i in 0..150 {
        store.get(format!("key{i}").as_bytes()).expect("a lookup");
    }
    let live = |more: &[&str]| {
        let all = [&["stat", "--live", &path], &QUICKLY[..], more].concat();
        run(&all).expect(0).text()
    };
    let json = live(&["--json"]);
    assert_eq!(json.lines().count(), 2);
    for line in json.lines() {
        let value: Value = serde_json::from_str(line).expect("JSON");
        let get = &value["operations"]["get"];
        assert_eq!(get["total"]["calls"], 150);
        assert_eq!((&get["total"]["hit"], &get["total"]["miss"]), (&100.into(), &50.into()));
        assert!(get["total"]["latency_ns"]["p99"].as_u64() > Some(0), "{line}");
        assert_eq!(get["since"]["calls"], 0);
        assert_eq!(get["since"]["latency_ns"], Value::Null);
        assert!(value["operations"].get("scan").is_none());
    }
    assert_eq!(live(&[]), "get 0/s\n".repeat(2));
    let beside = format!("{path}-stats");
    let got = run(&[&["stat", "--live", &beside], &QUICKLY[..]].concat()).expect(0).text();
    assert_eq!(got, "get 0/s\n".repeat(2));
}

#[test]
fn what_is_done_with_a_hash_store_is_seen() {
    let folder = Folder::new();
    let path = folder.store("hash", &plain_records(10));
    let input = "put a 1\nput a 2\nget a\ndelete a\nbegin\nput b 1\nput c 2\ncommit\n";
    run_with(&["shell", &path, "--durability", "sync"], input.as_bytes()).expect(0);
    assert_eq!(folder.names(), ["hash.store", "hash.store-index"], "nobody has asked for more");
    run_with(&["shell", &path, "--statistics"], input.as_bytes()).expect(0);
    run_with(&["put", &path, "--statistics", "--from", "tsv"], b"x\t1\ny\t2\nz\t3\n").expect(0);
    let live = [&["stat", "--live", &path, "--json"], &QUICKLY[..]].concat();
    let text = run(&live).expect(0).text();
    let value: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    let total = |operation: &str| &value["operations"][operation]["total"];
    let number = |operation: &str, name: &str| total(operation)[name].as_u64();
    assert_eq!(number("insert", "done"), Some(2));
    assert_eq!((number("get", "hit"), number("remove", "hit")), (Some(1), Some(1)));
    assert_eq!((number("commit", "calls"), number("commit", "items")), (Some(2), Some(5)));
    assert_eq!((number("commit", "timed"), number("commit", "bytes")), (Some(2), Some(10)));
    assert!(value["operations"].get("update").is_none());
    let line = run(&[&["stat", "--live", &path], &QUICKLY[..]].concat()).expect(0).text();
    assert_eq!(line, "get 0/s; insert 0/s; remove 0/s; commit 0/s\n".repeat(2));
}

#[test]
fn what_is_done_with_a_btree_store_is_seen() {
    let folder = Folder::new();
    let path = folder.store("btree", &plain_records(10));
    run(&["table", "create", &path, "log", "--numbered"]).expect(0);
    run_with(&["shell", &path], b"get key1\nput a 1\n").expect(0);
    assert_eq!(folder.names(), ["btree.store"], "nobody has asked for more");
    let input = "put a 1\nput a 2\nget a\nget b\ndelete a\nscan key1\nbegin\nput b 1\nput c 2\n\
                 commit\nbegin\nput d 4\nabort\n";
    let shell = ["shell", &path, "--statistics"];
    run_with(&shell, input.as_bytes()).expect(100);
    let durable = [&shell[..], &["--durability", "sync"]].concat();
    run_with(&durable, b"put a 1\nbegin\nput b 2\ncommit\n").expect(0);
    let append = ["put", &path, "--statistics", "--table", "log", "--append", "one"];
    assert_eq!(run(&append).expect(0).text(), "1\n");
    let live = [&["stat", "--live", &path, "--json"], &QUICKLY[..]].concat();
    let text = run(&live).expect(0).text();
    let value: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    let number = |operation: &str, name: &str| {
        value["operations"][operation]["total"][name].as_u64().expect(operation)
    };
    // Each change is a transaction.
    assert_eq!((number("insert", "done"), number("remove", "hit")), (3 + 2 + 2 + 1, 1));
    assert_eq!((number("get", "hit"), number("get", "miss")), (1, 1));
    assert_eq!((number("scan", "calls"), number("scan", "items")), (1, 1));
    assert_eq!((number("commit", "calls"), number("commit", "items")), (2 + 1 + 1 + 1, 6));
    assert_eq!((number("commit_sync", "calls"), number("commit_sync", "items")), (2, 2));
    assert_eq!((number("abort", "done"), number("abort", "timed")), (1, 1));
    let line = run(&[&["stat", "--live", &path], &QUICKLY[..]].concat()).expect(0).text();
    let names = ["get", "scan", "insert", "remove", "commit", "commit_sync", "abort"];
    assert_eq!(line, (names.map(|name| format!("{name} 0/s")).join("; ") + "\n").repeat(2));
}

#[test]
fn what_is_no_file_of_statistics_is_refused() {
    let folder = Folder::new();
    let (store, path) = shared(&folder);
    drop(store);
    let beside = format!("{path}-stats");
    let whole = std::fs::read(&beside).expect("a file of statistics");
    let mut flipped = whole.clone();
    flipped[9] ^= 1;
    for bad in [&whole[..0], &whole[..7], &whole[..100], &whole[..whole.len() - 1], &flipped[..]] {
        std::fs::write(&beside, bad).expect("a writable file");
        let got = run(&[&["stat", "--live", &path], &QUICKLY[..]].concat()).expect(111);
        assert!(got.err.contains(&beside) && got.err.contains("remove"), "{}", got.err);
    }
    std::fs::remove_file(&beside).expect("a file");
    let got = run(&[&["stat", "--live", &path], &QUICKLY[..]].concat()).expect(111);
    assert!(got.err.contains("store-stats") && got.err.contains("--statistics"), "{}", got.err);
    run(&["stat", &path, "--count", "1"]).expect(111);
}

/// One that does not move its cursor got a table to draw over, and what would move another's.
#[test]
fn a_terminal_that_moves_no_cursor_gets_lines() {
    let folder = Folder::new();
    let (_store, path) = shared(&folder);
    run(&["get", &path, "key1"]).expect(0);
    for (kind, is_table) in [("xterm", true), ("dumb", false)] {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let ends = openpty(Some(&size), None).expect("a terminal");
        let mut command = Command::new(program());
        command.args(["stat", "--live", &path]).args(QUICKLY).env("TERM", kind);
        command.stdin(Stdio::null()).stdout(ends.slave);
        assert!(command.status().expect("the program starts").success());
        drop(command);
        let mut text = Vec::new();
        // Linux calls it an error when the last who writes has gone.
        let _ = File::from(ends.master).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        assert_eq!(text.contains("\u{1b}["), is_table, "{kind}: {text:?}");
        assert_eq!(text.contains("nothing was done yet\r\nnothing"), !is_table, "{kind}: {text:?}");
    }
}
