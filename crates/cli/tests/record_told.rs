//! Danger: what a trace counts and does not name is taken for nothing, and what waited for the disk, or was
//! late, for what did not.

mod common;
use common::*;

/// Every command that uses a trace says this of it.
fn is_said_of(trace: &str, says: &str) {
    let replay = run(&["replay", trace, "--stores", "btree"]).expect(0).text();
    let advise = run(&["advise", "--data", trace, "--stores", "btree,hash"]).expect(0).text();
    let bench =
        ["bench", "--stores", "btree", "--rounds", "1", "--phases", "get-hit", "--gets", "9"];
    let bench =
        run(&[&bench[..], &["--metrics", "none", "--data", trace]].concat()).expect(0).text();
    let torture = ["torture", "--stores", "btree", "--rounds", "1", "--faults", "kill"];
    let torture = run(&[&torture[..], &["--data", trace]].concat()).expect(0).text();
    for text in [replay, advise, bench, torture] {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(line.contains(says), "{says}: {text}");
    }
}

#[test]
fn records_that_a_scan_read_and_nobody_named_are_told() {
    let folder = Folder::new();
    let store = folder.store("btree", &plain_records(300));
    let trace = folder.path("trace");
    let (program, more) = (program().display().to_string(), folder.path("more"));
    let script =
        format!("{program} get {store} key7; {program} scan {store}; {program} put {store} a 1");
    run(&["record", "-q", &trace, "--", "sh", "-c", &script]).expect(0);
    is_said_of(&trace, "names 2 records of a store of which a scan read 300:");
    let replay = run(&["replay", &trace, "--stores", "btree"]).expect(0).text();
    assert!(replay.contains("btree: 0 of 1 scan read as many records as recorded"), "{replay}");
    // Who brings the records has them all.
    std::fs::write(&more, cdb_text(&plain_records(300))).expect("a file");
    let replay = run(&["replay", &trace, "--stores", "btree", "--data", &more]).expect(0).text();
    assert!(replay.contains("btree: 1 of 1 scan read as many records as recorded"), "{replay}");
    assert!(!replay.contains("names 2 records"), "{replay}");
}

/// Earlier programs named none of them, and their traces are still read.
#[test]
fn records_that_earlier_programs_loaded_at_once_are_told() {
    use credenza::record::{Action, NewEntry, Writer};
    use credenza::stats::{Operation, Outcome};
    let folder = Folder::new();
    let trace = folder.path("trace");
    let mut writer = Writer::create(&trace, "btree").expect("a trace");
    let of = |operation| Action::Operation(operation);
    for (action, outcome, key, items) in [
        (Action::Begin, Outcome::Done, None, 0),
        (of(Operation::Commit), Outcome::Done, None, 300),
        (of(Operation::Insert), Outcome::Done, Some(&b"a"[..]), 0),
        (of(Operation::Get), Outcome::Hit, Some(b"a"), 0),
    ] {
        writer.add(&NewEntry { time: 0, action, outcome, key, value_len: 1, items });
    }
    writer.finish().expect("a whole trace");
    is_said_of(&trace, "says that 300 records were loaded at once, and does not name them");
}

#[test]
fn changes_that_waited_for_the_disk_wait_when_they_are_replayed() {
    let folder = Folder::new();
    let (store, program) = (folder.path("store"), program().display().to_string());
    run(&["create", "--engine", "btree", &store]).expect(0);
    for (durability, class) in [("sync", "sync"), ("buffered", "buffered")] {
        let trace = folder.path(class);
        let put = format!("{program} put --durability {durability} {store}");
        let script = format!("{put} a 1; {put} b 2");
        run(&["record", "-q", &trace, "--", "sh", "-c", &script]).expect(0);
        let text = run(&["replay", &trace, "--stores", "btree,hash"]).expect(0).text();
        assert!(text.contains(&format!("Changes of the class {class}")), "{text}");
        assert_eq!(text.contains("here they wait, too"), class == "sync", "{text}");
    }
    // A store that is filled before, by changes that do not wait.
    let trace = folder.path("mix");
    let mix = ["bench", "--stores", "btree", "--workload", "ycsb-a", "--records", "50", "--sync"];
    let tee = ["--gets", "90", "--phases", "mixed", "--rounds", "1", "--metrics", "none", "--tee"];
    run(&[&mix[..], &tee, &[&trace]].concat()).expect(0);
    let text = run(&["replay", &trace, "--stores", "btree"]).expect(0).text();
    assert!(text.contains("commits waited for the disk when they were recorded, and 50 other"));
    assert!(text.contains("here none does") && text.contains("class buffered"), "{text}");
}

#[test]
fn who_is_behind_the_times_of_a_trace_is_told() {
    let folder = Folder::new();
    let trace = folder.path("trace");
    let mix = [
        "bench",
        "--stores",
        "btree",
        "--workload",
        "ycsb-a",
        "--records",
        "200",
        "--gets",
        "9000",
    ];
    let tee = ["--phases", "mixed", "--rounds", "1", "--metrics", "none", "--tee", &*trace];
    run(&[&mix[..], &tee].concat()).expect(0);
    for (speed, is_behind) in [("1e12", true), ("full", false)] {
        let replay = ["replay", &trace, "--stores", "btree", "--speed", speed];
        let text = run(&replay).expect(0).text();
        assert_eq!(text.contains("BEHIND: it ended more than"), is_behind, "{text}");
    }
}

/// Of what a program did with a cursor and within a transaction nothing is lost on the way to another store, and
/// what no store is asked for is named.
#[test]
fn what_a_program_read_by_steps_and_in_transactions_is_replayed_and_counts_are_named() {
    use credenza::btree::BTree;
    use credenza::hash::Hash;
    let folder = Folder::new();
    let trace = folder.path("trace");
    // Only this test records what its own process does.
    credenza::record::start(&credenza::record::Options::new(&trace)).expect("a recording");
    let ordered = BTree::create(folder.path("ordered")).expect("a store");
    for i in 10..30 {
        ordered.insert(format!("key{i}").as_bytes(), b"value").expect("an insert");
    }
    let snapshot = ordered.read().expect("a snapshot");
    let mut cursor = snapshot.main().cursor();
    while cursor.next().expect("a step") {}
    assert!(cursor.seek(b"key15").expect("a place"));
    (0..7).for_each(|_| assert!(cursor.next().expect("a step")));
    (0..4).for_each(|_| assert!(cursor.previous().expect("a step back")));
    drop(cursor);
    let half = snapshot.main().count_range(&b"key20"[..]..).expect("a count");
    assert_eq!(half, 10);
    let unordered = Hash::create(folder.path("unordered")).expect("a store");
    let mut transaction = unordered.transaction().expect("a transaction");
    transaction.insert(b"a", b"1").expect("an insert");
    assert!(transaction.get(b"a").expect("a lookup").is_some());
    assert!(transaction.get(b"b").expect("a lookup").is_none());
    transaction.commit().expect("a commit");
    credenza::record::stop();

    let replay = run(&["replay", &trace, "--stores", "btree,hash"]).expect(0).text();
    let says = [
        "Left out: 1 entries that count the records of a range",
        "btree: 2 of 2 answers are as recorded",
        "btree: 3 of 3 scans read as many records as recorded",
        "hash: 2 of 2 answers are as recorded",
        "hash: skipped 2 scans of a range: its records are in no order",
        "hash: skipped 1 seeks: its records are in no order",
    ];
    for says in says {
        assert!(replay.contains(says), "{says}: {replay}");
    }
    let found = parsed(run(&["stat", &trace, "--json"]));
    assert_eq!(found["operations"]["count"]["items"].as_u64(), Some(10), "{found}");
    assert_eq!(found["operations"]["get"]["count"].as_u64(), Some(2), "{found}");
}
