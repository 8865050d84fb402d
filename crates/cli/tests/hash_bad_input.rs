//! Danger: a command for hash stores takes something else for one, or half of one for a whole.

mod common;
use common::*;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Every command that wants a hash store, with this one.
fn commands<'a>(store: &'a str, target: &'a str) -> Vec<Vec<&'a str>> {
    vec![
        vec!["put", store, "key", "value"],
        vec!["delete", store, "key"],
        vec!["shell", store],
        vec!["watch", store, "--timeout", "0.01"],
        vec!["compact", store],
        vec!["backup", store, target],
        vec!["recover", store, target],
        vec!["freeze", store, target],
        vec!["create", store, "--if-missing"],
    ]
}

#[test]
fn what_is_no_hash_store_is_refused_and_stays() {
    let folder = Folder::new();
    let fifo = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let records = plain_records(200);
    let mut wrong_magic = std::fs::read(folder.store("hash", &records)).expect("the store");
    wrong_magic[1] ^= 0x20;
    // That of the header, by which it would be recovered.
    wrong_magic[1920..1992].fill(0);
    let own = folder.0.path().to_str().expect("text").to_owned();
    let files = [
        folder.store("constant", &records),
        folder.store("cdb", &records),
        folder.file("wrong-magic", &wrong_magic),
        folder.file("text", "hello, this is text\n".repeat(1000)),
    ];
    let target = folder.path("target");
    for file in &files {
        let before = std::fs::read(file).expect("the file");
        for args in commands(file, &target) {
            let got = run(&args).expect(111);
            assert!(got.err.contains(file.as_str()) && got.out.is_empty(), "{args:?}: {}", got.err);
        }
        assert!(std::fs::read(file).expect("the file") == before, "{file} was changed");
    }
    for file in [&own, &fifo, &"/dev/null".to_owned()] {
        for args in commands(file, &target) {
            let got = run(&args).expect(111);
            assert!(got.err.contains(file.as_str()) && got.out.is_empty(), "{args:?}: {}", got.err);
        }
    }
    let (empty, absent) = (folder.file("empty", ""), folder.path("absent"));
    for file in [&empty, &absent] {
        for args in commands(file, &target).iter().filter(|args| args[0] != "create") {
            let got = run(args).expect(111);
            assert!(got.err.contains(file.as_str()) && got.out.is_empty(), "{args:?}: {}", got.err);
        }
    }
    let names = folder.names();
    assert!(!names.iter().any(|n| ["target", "absent"].contains(&n.as_str())), "{names:?}");
}

/// What a cut store still gives is everything, or an error: never a part.
#[test]
fn a_truncated_store_is_an_error_or_whole() {
    let folder = Folder::new();
    let mut random = Random::new();
    let records = sorted(plain_records(2000));
    let good = folder.store("hash", &plain_records(2000));
    let bytes = std::fs::read(&good).expect("the store");
    let bad = folder.path("bad.store");
    for _ in 0..20 {
        let len = random.below(bytes.len() as u64) as usize;
        for more in [&[][..], &["--read-only"]] {
            std::fs::write(&bad, &bytes[..len]).expect("the cut store");
            let _ = std::fs::remove_file(format!("{bad}-index"));
            for command in ["verify", "dump", "scan", "stat"] {
                let got = run(&[&[command, bad.as_str()], more].concat());
                assert!([0, 111].contains(&got.status), "{command} at {len}: {}", got.err);
                if command == "dump" && got.status == 0 {
                    assert!(sorted(parse_cdb_text(&got.out)) == records, "cut at {len}");
                }
            }
        }
        for args in commands(&bad, &folder.path("target")) {
            let got = run(&args);
            assert!([0, 100, 111].contains(&got.status), "{args:?} at {len}: {}", got.err);
        }
        let _ = std::fs::remove_file(folder.path("target"));
    }
}

#[test]
fn every_flipped_byte_is_an_answer_or_an_error() {
    let folder = Folder::new();
    let mut random = Random::new();
    let records = plain_records(200);
    let good = folder.store("hash", &records);
    let bytes = std::fs::read(&good).expect("the store");
    for _ in 0..40 {
        let at = random.below(bytes.len() as u64) as usize;
        let mut changed = bytes.clone();
        changed[at] ^= 1 << random.below(8);
        let bad = folder.file("bad.store", &changed);
        for command in ["verify", "dump", "stat"] {
            let _ = std::fs::remove_file(format!("{bad}-index"));
            let got = run(&[command, &bad, "--read-only"]);
            assert!([0, 111].contains(&got.status), "{command}, byte {at}: {}", got.err);
        }
    }
}

#[test]
fn malformed_input_leaves_a_new_store_unmade_and_an_old_one_whole() {
    let folder = Folder::new();
    let bad = b"a\t1\nno tab\n";
    let new = folder.path("new");
    let got = run_with(&["load", &new, "--to", "hash", "--from", "tsv"], bad).expect(111);
    assert!(got.err.contains("line 2, column "), "{}", got.err);
    assert!(folder.names().is_empty(), "{:?}", folder.names());
    let store = folder.store("hash", &plain_records(10));
    for args in [&["load", &store, "--from", "tsv"][..], &["put", &store, "--from", "tsv"]] {
        run_with(args, bad).expect(111);
        run(&["verify", &store]).expect(0);
        assert_eq!(sorted(dump(&store)), sorted(plain_records(10)));
    }
    assert_eq!(folder.names(), ["hash.store", "hash.store-index"]);
}

/// The limit of file sizes stands for the full disk.
#[test]
fn a_store_that_has_no_room_does_not_appear() {
    let folder = Folder::new();
    let text = folder.file("text", cdb_text(&plain_records(30_000)));
    let frozen = folder.store("constant", &plain_records(30_000));
    let damaged = folder.store("hash", &plain_records(30_000));
    let names = folder.names();
    let target = folder.path("target");
    for script in [
        format!("\"$1\" load {target} {text} --to hash"),
        format!("\"$1\" convert {text} {target} --to hash"),
        format!("\"$1\" thaw {frozen} {target}"),
        format!("\"$1\" recover {damaged} {target}"),
        format!("ulimit -f 1; \"$1\" create {target} --engine hash"),
        format!("ulimit -f 1; \"$1\" create {target} --engine btree"),
    ] {
        let script = format!("trap '' XFSZ; ulimit -f 64; {script}");
        let done = Command::new("bash")
            .args(["-c", &script, "bash"])
            .arg(program())
            .stdin(Stdio::null())
            .output()
            .expect("bash");
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(111), "{script}: {err}");
        assert!(err.starts_with("error: "), "{err}");
        assert_eq!(folder.names(), names, "{script}");
    }
}

#[test]
fn a_store_that_may_not_be_written_is_read() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(10));
    let mode = |path: &str, mode| {
        let set = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
        set.expect("the mode can be changed");
    };
    mode(&store, 0o400);
    if std::fs::OpenOptions::new().write(true).open(&store).is_ok() {
        eprintln!("skipped: this user may write everything, whatever the mode");
        return;
    }
    assert_eq!(run(&["get", &store, "key3"]).expect(0).text(), "value-9");
    for command in ["scan", "dump", "stat", "verify"] {
        run(&[command, &store]).expect(0);
    }
    let got = run(&["put", &store, "a", "b"]).expect(111);
    assert!(got.err.contains("check the owner and mode"), "{}", got.err);
    mode(&store, 0o000);
    for args in commands(&store, &folder.path("target")).iter().filter(|a| a[0] != "create") {
        let got = run(args).expect(111);
        assert!(got.err.contains("check the owner and mode"), "{args:?}: {}", got.err);
    }
}

#[test]
fn wrong_usage_is_status_111() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(3));
    for args in [
        &["put", &store][..],
        &["put", &store, "a", "b", "c"],
        &["put", &store, "a", "--from", "tsv"],
        &["put", &store, "a", "b", "--durability", "maybe"],
        &["put", &store, "a", "b", "--durability", "0"],
        &["put", &store, "--hex", "0", "b"],
        &["delete", &store],
        &["delete", &store, "a", "-k", "-"],
        &["watch", &store, "--timeout", "soon"],
        &["watch", &store, "--timeout", "-1"],
        &["compact", &store, "--budget", "much"],
        &["get", &store, "a", "--access", "read"],
        &["preload", &store, "--lock"],
        &["create", "-"],
        &["freeze", &store],
        &["thaw", &store],
    ] {
        let got = run(args).expect(111);
        assert!(got.err.starts_with("error: ") && got.out.is_empty(), "{args:?}: {}", got.err);
    }
    assert_eq!(sorted(dump(&store)), sorted(plain_records(3)));
}

#[test]
fn who_names_no_store_learns_how_to_make_one() {
    let folder = Folder::new();
    let absent = folder.path("absent");
    for args in [
        &["put", &absent, "a", "b"][..],
        &["delete", &absent, "a"],
        &["shell", &absent],
        &["table", "create", &absent, "log"],
    ] {
        let got = run(args).expect(111);
        let engine = if args[0] == "table" { " --engine btree" } else { "" };
        let what = format!("{absent}: there is no such file: 'credenza create{engine}' makes");
        assert!(got.err.contains(&what), "{args:?}: {}", got.err);
        assert!(folder.names().is_empty());
    }
}

#[test]
fn create_says_what_is_there_already() {
    let folder = Folder::new();
    let own = folder.0.path().to_str().expect("text").to_owned();
    for path in [own.as_str(), "/dev/null"] {
        for more in [&[][..], &["--if-missing"], &["--engine", "btree", "--if-missing"]] {
            let got = run(&[&["create", path], more].concat()).expect(111);
            assert!(!got.err.contains("--if-missing"), "{}", got.err);
            let what = if path == own { ": this is a directory" } else { "no regular file" };
            assert!(got.err.contains(what), "{}", got.err);
        }
    }
    for kind in ALL_KINDS {
        let store = folder.store(kind, &plain_records(3));
        let got = run(&["create", &store]).expect(111);
        assert!(got.err.contains("--if-missing takes"), "{}", got.err);
        for engine in ["hash", "btree"] {
            let got = run(&["create", &store, "--engine", engine, "--if-missing"]);
            if engine == kind {
                got.expect(0);
                continue;
            }
            let what = format!("there is a {kind} store already, and no {engine} store");
            assert!(got.expect(111).err.contains(&what));
        }
    }
}

/// There is room for the name of the store, and none for that of its index.
/// It was "there is a file already", and after `put` there was none.
#[test]
fn create_follows_a_link_to_what_is_not_there_yet() {
    let folder = Folder::new();
    for engine in ["hash", "btree"] {
        let (link, file) = (folder.path(&format!("{engine}-link")), folder.path(engine));
        std::os::unix::fs::symlink(engine, &link).expect("a link");
        let create = ["create", &link, "--engine", engine, "--if-missing", "--json"];
        for is_new in [true, false] {
            let json = run(&create).expect(0).text();
            assert!(json.contains(&format!("\"created\":{is_new}")), "{json}");
        }
        let got = run(&["create", &link, "--engine", engine]).expect(111);
        assert!(got.err.contains("--if-missing takes"), "{}", got.err);
        run(&["put", &file, "key", "value"]).expect(0);
        // Where it cannot be made the link stays, and nothing else.
        std::fs::remove_file(&file).expect("a file");
        let script =
            format!("trap '' XFSZ; ulimit -f 1; exec \"$1\" create \"$2\" --engine {engine}");
        let mut bash = Command::new("bash");
        let status = bash.args(["-c", &script, "bash"]).arg(program()).arg(&link).status();
        assert_eq!(status.expect("bash").code(), Some(111));
        assert!(std::fs::symlink_metadata(&link).is_ok() && std::fs::metadata(&file).is_err());
    }
}

#[test]
fn a_name_too_long_for_its_index_leaves_no_store() {
    let folder = Folder::new();
    let text = folder.file("text", "a\t1\n");
    let constant = folder.store("constant", &plain_records(3));
    let hash = folder.store("hash", &plain_records(3));
    let names = folder.names();
    for len in [250, 255] {
        let long = folder.path(&"n".repeat(len));
        for args in [
            &["create", &long][..],
            &["load", &long, &text, "--to", "hash"],
            &["convert", &constant, &long, "--to", "hash"],
            &["thaw", &constant, &long],
            &["recover", &hash, &long],
        ] {
            let got = run(args).expect(111);
            assert!(got.err.contains(": this name is too long"), "{args:?}: {}", got.err);
            assert_eq!(folder.names(), names, "{args:?}");
        }
        run(&["create", &long, "--engine", "btree"]).expect(0);
        std::fs::remove_file(&long).expect("the store");
    }
    run(&["create", &folder.path(&"n".repeat(249))]).expect(0);
}

/// What is killed while it builds a store leaves its files: the next of the same store removes them, and none
/// that somebody builds still.
#[test]
fn what_a_killed_builder_left_goes_with_the_next() {
    let folder = Folder::new();
    let text = folder.file("text", "a\t1\n");
    for kind in ["hash", "btree"] {
        let store = folder.path("store");
        let build = || {
            let mut child = Command::new(program())
                .args(["load", &store, "--from", "tsv", "--to", kind])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .expect("the program starts");
            let mut stdin = child.stdin.take().expect("its input");
            // More than a pipe holds: when it is written, the command has begun to build.
            stdin.write_all("b\t2\n".repeat(1 << 16).as_bytes()).expect("it reads");
            (child, stdin)
        };
        let (mut killed, _stdin) = build();
        killed.kill().expect("it can be killed");
        killed.wait().expect("it ends");
        let begin = format!(".store.{}.0.tmp", killed.id());
        let left = || folder.names().iter().filter(|name| name.starts_with(&begin)).count();
        assert_eq!(left(), if kind == "hash" { 2 } else { 1 }, "{:?}", folder.names());
        // Of another store, and what only looks alike.
        let others = [".stor.1.0.tmp", ".store.4294967295.0.tmpx", ".store.4294967295.tmp"];
        others.iter().for_each(|name| drop(folder.file(name, "")));
        let (mut living, stdin) = build();
        assert_eq!(left(), 0, "{:?}", folder.names());
        run(&["convert", &text, &store, "--to", kind]).expect(0);
        assert_eq!(run(&["get", &store, "a"]).expect(0).text(), "1");
        others.iter().for_each(|name| std::fs::remove_file(folder.path(name)).expect("it stays"));
        // It is alive, and says that there is a store meanwhile.
        drop(stdin);
        assert_eq!(living.wait().expect("it ends").code(), Some(111));
        run(&["delete", &store, "a"]).expect(0);
        let names = folder.names();
        assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
        names.iter().filter(|name| name.starts_with("store")).for_each(|name| {
            std::fs::remove_file(folder.path(name)).expect("it can be removed");
        });
    }
}

/// A store is replaced together with its index, which is another file: whatever is between the two.
#[test]
fn a_killed_replacement_leaves_the_old_store_or_the_new_one() {
    let folder = Folder::new();
    let mut random = Random::new();
    let (old, new) = (sorted(plain_records(50)), sorted(plain_records(3000)));
    let text = folder.file("text", cdb_text(&new));
    for round in 0..12 {
        let store = folder.store("hash", &old);
        let mut child = Command::new(program())
            .args(["convert", &text, &store, "--to", "hash", "--from", "cdb", "--replace"])
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        // The kill falls anywhere into it, and in some rounds behind it.
        (0..random.below(3_000_000)).for_each(|_| std::hint::spin_loop());
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        run(&["verify", &store]).expect(0);
        let left = sorted(dump(&store));
        assert!(left == old || left == new, "round {round}: {} records", left.len());
        for name in folder.names().iter().filter(|name| *name != "text") {
            let is_stray = name.starts_with(".hash.store.") && name.contains(".tmp");
            assert!(is_stray || name.starts_with("hash.store"), "{name}");
            std::fs::remove_file(folder.path(name)).expect("it can be removed");
        }
    }
}

/// Danger: a store whose first file takes all addresses that a limit leaves cannot be opened for want of some for its second.
#[test]
fn a_store_opens_with_few_addresses_and_says_what_it_lacks() {
    let folder = Folder::new();
    for engine in ["hash", "btree"] {
        let store = folder.store(engine, &plain_records(3000));
        let limited = |limit: &str| {
            let script = format!("ulimit {limit}; exec \"$1\" get \"$2\" key7");
            let mut bash = Command::new("bash");
            bash.args(["-c", &script, "bash"]).arg(program()).arg(&store).output().expect("bash")
        };
        for kib in [200_000, 300_000, 400_000, 1_000_000] {
            let done = limited(&format!("-v {kib}"));
            let err = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(0), "{engine}, {kib}: {err}");
        }
        let done = limited("-n 5");
        let err = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(111), "{engine}: {err}");
        assert!(err.contains("Too many open files") && err.contains("`ulimit -n`"), "{err}");
        assert!(!err.contains("power failure"), "{err}");
    }
}

/// Danger: where a limit leaves few addresses a store may not take more of them than a part, and fills that; and where memory
/// is asked for that is not there the program ends without a word.
#[test]
fn a_store_grows_as_far_as_the_limit_of_addresses_lets_it() {
    const RECORDS: u64 = 64_000;
    let folder = Folder::new();
    let value = "v".repeat(1000);
    // In no order, so that a btree has to sort them.
    let keys = (0..RECORDS).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let text = keys.map(|key| format!("{key:016x}\t{value}\n")).collect::<String>();
    let text = folder.file("text", text);
    for kind in ["hash", "btree", "constant", "cdb"] {
        let store = folder.path(kind);
        let limited = |kib: u32, script: &str| {
            let script = format!("ulimit -v {kib}; exec \"$1\" {script}");
            let mut bash = Command::new("bash");
            bash.args(["-c", &script, "bash"]).arg(program()).args([&store, &text]);
            let done = bash.output().expect("bash");
            (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
        };
        let load = format!("load \"$2\" \"$3\" --to {kind}");
        for kib in [180_000, 210_000] {
            let (code, err) = limited(kib, &load);
            let says = code == Some(111) && err.contains("`ulimit -v`");
            assert!(code == Some(0) || says, "{kind}, {kib}, {code:?}: {err}");
            for name in folder.names().iter().filter(|name| name.starts_with(kind)) {
                std::fs::remove_file(folder.path(name)).expect("it can be removed");
            }
        }
        for script in [&load, "verify \"$2\"", "stat \"$2\""] {
            let (code, err) = limited(300_000, script);
            assert_eq!(code, Some(0), "{kind}, {script}: {err}");
        }
    }
}

/// Danger: a record that is refused when it is put, long after it was read, is told of without its place.
#[test]
fn a_record_that_is_refused_names_its_line_although_it_waits() {
    let folder = Folder::new();
    let (hash, btree) = (folder.path("hash"), folder.path("btree"));
    run(&["create", &hash, "--engine", "hash", "--limit", "1MiB"]).expect(0);
    run(&["create", &btree, "--engine", "btree"]).expect(0);
    run(&["table", "create", &btree, "several", "--duplicates", "sorted"]).expect(0);
    let text = format!("a\tb\nk\t{}\nc\td\n", "v".repeat(2 << 20));
    let several = ["--table", "several"];
    let load_last = ["load", &btree, "--from", "tsv", "--duplicates", "last"];
    let put_absent = ["put", &btree, "--from", "tsv", "--if-absent"];
    for args in [
        ["load", &hash, "--from", "tsv", "--duplicates", "error"].to_vec(),
        ["put", &hash, "--from", "tsv", "--if-absent"].to_vec(),
        [&load_last[..], &several].concat(),
        [&put_absent[..], &several].concat(),
    ] {
        let got = run_with(&args, text.as_bytes()).expect(111);
        assert!(got.err.contains("tsv input, line 2, column 1: a "), "{args:?}: {}", got.err);
        assert!(got.err.contains("is over the limit of "), "{args:?}: {}", got.err);
    }
    let stat = parsed(run(&["stat", &hash, "--json"]));
    assert_eq!(stat["records"], 1, "which was put before, by --if-absent alone");
}
