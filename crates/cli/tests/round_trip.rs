//! Danger: a record is changed, lost or doubled on its way through load, dump and convert.

mod common;
use common::*;

/// Every format by itself, then every pair of kinds: text in, store, text out.
#[test]
fn binary_formats_lose_nothing_in_any_kind() {
    let folder = Folder::new();
    let records = binary_records(300);
    for kind in KINDS {
        let store = folder.store(kind, &records);
        assert_eq!(sorted(dump(&store)), sorted(records.clone()), "{kind}");
        for format in BINARY_FORMATS {
            check_format(&folder, &store, kind, format, &records);
        }
    }
}

#[test]
fn plain_formats_lose_nothing_in_any_kind() {
    let folder = Folder::new();
    let records = plain_records(300);
    for kind in KINDS {
        let store = folder.store(kind, &records);
        for format in PLAIN_FORMATS {
            check_format(&folder, &store, kind, format, &records);
        }
    }
}

#[test]
fn lines_are_keys_without_values() {
    let folder = Folder::new();
    let records = plain_records(300).into_iter().map(|(key, _)| (key, vec![])).collect();
    for kind in KINDS {
        let store = folder.store(kind, &records);
        check_format(&folder, &store, kind, "lines", &records);
    }
}

/// A format that cannot hold a record refuses it, and the file is not written.
#[test]
fn what_a_format_cannot_hold_is_refused() {
    let folder = Folder::new();
    let out = folder.path("out");
    let cases = [("lines", "k", "v"), ("map", "a b", "v"), ("map", "a", "v\nw"), ("map", "", "v")];
    for (format, key, value) in cases {
        let store = folder.store("constant", &vec![(key.into(), value.into())]);
        let got = run(&["dump", &store, "--to", format, "-o", &out]).expect(111);
        assert!(got.err.contains(&out) && got.err.len() > 40, "{format}: {}", got.err);
        assert!(!std::path::Path::new(&out).exists());
    }
}

fn check_format(folder: &Folder, store: &str, kind: &str, format: &str, records: &Records) {
    let text = folder.path("text");
    run(&["dump", store, "--to", format, "-o", &text]).expect(0);
    let back = folder.path("back.store");
    run(&["load", "--from", format, "--to", kind, &back, &text]).expect(0);
    assert_eq!(sorted(dump(&back)), sorted(records.clone()), "{kind} through {format}");
    let out = run(&["dump", store, "--to", format]).expect(0).out;
    assert_eq!(out, std::fs::read(&text).expect("the dump"), "-o and standard output differ");
}

#[test]
fn formats_with_a_head_are_recognised() {
    let folder = Folder::new();
    let records = plain_records(20);
    let store = folder.store("constant", &records);
    for format in ["cdb", "tsv", "db_dump", "db_dump-p", "tdbdump", "jsonl"] {
        let text = run(&["dump", &store, "--to", format]).expect(0).out;
        let back = folder.path("back.store");
        run_with(&["load", &back], &text).expect(0);
        assert_eq!(sorted(dump(&back)), sorted(records.clone()), "{format}");
    }
}

#[test]
fn convert_goes_from_every_kind_to_every_kind() {
    let folder = Folder::new();
    let records = binary_records(200);
    for from in KINDS {
        let source = folder.store(from, &records);
        for to in KINDS {
            let target = folder.path("target");
            run(&["convert", &source, &target, "--to", to]).expect(0);
            assert_eq!(sorted(dump(&target)), sorted(records.clone()), "{from} to {to}");
            let stat = run(&["stat", &target, "--json"]).expect(0).text();
            assert!(stat.contains(&format!("\"kind\":\"{to}\"")), "{stat}");
        }
    }
}

#[test]
fn convert_takes_text_on_either_side() {
    let folder = Folder::new();
    let records = binary_records(50);
    let text = cdb_text(&records);
    let input = folder.file("input", &text);
    let store = folder.path("store");
    run(&["convert", &input, &store, "--to", "constant"]).expect(0);
    assert_eq!(sorted(dump(&store)), sorted(records.clone()));
    // Text to text keeps the order too.
    let json = run_with(&["convert", "-", "-", "--to", "jsonl", "--from", "cdb"], &text).expect(0);
    let back = run_with(&["convert", "-", "-", "--to", "cdb-text"], &json.out).expect(0);
    assert_eq!(parse_cdb_text(&back.out), records);
}

#[test]
fn a_store_may_be_converted_in_place() {
    let folder = Folder::new();
    let records = binary_records(50);
    let store = folder.store("cdb", &records);
    run(&["convert", &store, &store, "--to", "constant"]).expect(0);
    assert_eq!(sorted(dump(&store)), sorted(records));
    assert_eq!(folder.names().len(), 1, "{:?}", folder.names());
}

#[test]
fn every_access_reads_the_same() {
    let folder = Folder::new();
    let records = binary_records(100);
    for kind in KINDS {
        let store = folder.store(kind, &records);
        let mapped = run(&["dump", &store]).expect(0).out;
        for access in ["map", "read", "memory"] {
            let out = run(&["dump", &store, "--access", access]).expect(0).out;
            assert!(out == mapped, "{kind} with --access {access}");
            run(&["verify", &store, "--access", access]).expect(0);
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = Folder::new();
    let input = folder.file("input", cdb_text(&binary_records(500)));
    let build = |name: &str, more: &[&str]| {
        let path = folder.path(name);
        run(&[&["load", &path, &input, "--from", "cdb"], more].concat()).expect(0);
        std::fs::read(path).expect("the store")
    };
    assert!(build("a", &[]) == build("b", &[]));
    assert!(build("a", &["--seed", "7"]) == build("b", &["--seed", "7"]));
    assert!(build("a", &["--seed", "7"]) != build("b", &["--seed", "8"]));
    assert!(build("a", &[]) == build("b", &["--memory-budget", "8M"]));
}

#[test]
fn several_inputs_are_read_in_order() {
    let folder = Folder::new();
    let a = folder.file("a.txt", "+1,1:k->1\n\n");
    let b = folder.file("b.jsonl", "{\"key\":\"k\",\"value\":\"2\"}\n");
    let store = folder.path("store");
    let run = run_with(&["load", &store, &a, "-", &b], b"+1,1:k->x\n\n").expect(0);
    assert!(run.text().contains("3 records"), "{}", run.text());
    let got = common::run(&["get", &store, "k", "--all"]).expect(0).out;
    assert_eq!(got, b"1\nx\n2\n");
}

/// The dump of an empty store is an empty line.
#[test]
fn an_empty_store_goes_through_a_pipe() {
    let folder = Folder::new();
    for kind in ALL_KINDS {
        let store = folder.store(kind, &Records::new());
        let text = run(&["dump", &store]).expect(0).out;
        let copy = folder.path(&format!("copy.{kind}"));
        run_with(&["load", &copy, "--to", kind], &text).expect(0);
        assert_eq!(dump(&copy), Records::new(), "{kind}");
    }
}

#[test]
fn duplicates_follow_the_policy() {
    let folder = Folder::new();
    let input = "+1,1:a->1\n+1,1:b->2\n+1,1:a->3\n+1,1:a->4\n\n";
    for kind in KINDS {
        let load = |policy: &str| {
            let store = folder.path(policy);
            let args = ["load", &store, "--to", kind, "--json", "--duplicates", policy];
            (run_with(&args, input.as_bytes()), store)
        };
        let all = |store: &str, key: &str| run(&["get", store, key, "--all"]).expect(0).text();
        let (done, store) = load("keep");
        assert!(done.expect(0).text().contains("\"records\":4"));
        assert_eq!(all(&store, "a"), "1\n3\n4\n", "{kind}");
        let (done, store) = load("first");
        assert!(done.expect(0).text().contains("\"records_read\":4,\"records\":2"));
        assert_eq!((all(&store, "a"), all(&store, "b")), ("1\n".into(), "2\n".into()));
        let (done, store) = load("last");
        assert!(done.expect(0).text().contains("\"records_read\":4,\"records\":2"));
        assert_eq!((all(&store, "a"), all(&store, "b")), ("4\n".into(), "2\n".into()));
        let (done, store) = load("error");
        let done = done.expect(111);
        assert!(done.err.contains("key 'a' comes a second time"), "{}", done.err);
        assert!(!std::path::Path::new(&store).exists());
    }
    let names = folder.names();
    assert_eq!(names, ["first", "keep", "last"], "nothing else is left behind");
}
