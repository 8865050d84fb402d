//! Danger: a command puts a new file in the place of one that nobody wanted to lose: the store that it reads, a
//! store that others write to, or a file that is no store at all.

mod common;
use common::*;
use std::io::Write;
use std::process::{Child, Stdio};

/// A hash or btree store in which bob has 1001.
fn changing(folder: &Folder, engine: &str) -> String {
    let store = folder.path(engine);
    run(&["create", &store, "--engine", engine]).expect(0);
    run(&["put", &store, "bob", "1001"]).expect(0);
    store
}

fn is_there(store: &str) {
    assert_eq!(run(&["get", store, "bob"]).expect(0).text(), "1001");
    run(&["verify", store]).expect(0);
}

#[test]
fn a_store_is_not_replaced_by_what_is_made_of_it() {
    let folder = Folder::new();
    for engine in ["hash", "btree"] {
        let store = changing(&folder, engine);
        let link = folder.path(&format!("{engine}-link"));
        std::fs::hard_link(&store, &link).expect("another name");
        let index = folder.path("hash-index");
        let targets = [&store, &link, &index];
        for target in targets.iter().filter(|target| engine == "hash" || ***target != index) {
            for args in [
                &["dump", &store, "-o", target][..],
                &["convert", &store, target, "--to", "tsv"],
                &["convert", &store, target, "--to", "constant"],
                &["convert", &store, target, "--to", engine],
                &["freeze", &store, target],
                &["backup", &store, target],
            ] {
                let got = run(args).expect(111);
                assert!(got.err.contains("this is the store itself"), "{args:?}: {}", got.err);
                is_there(&store);
            }
        }
    }
    let store = folder.path("btree");
    run(&["range", &store, "-o", &store]).expect(111);
    is_there(&store);
    let constant = folder.store("constant", &plain_records(3));
    run(&["dump", &constant, "-o", &constant]).expect(111);
    run(&["convert", &constant, &constant, "--to", "tsv"]).expect(111);
    run(&["verify", &constant]).expect(0);
}

/// What the shell has opened, and others write to before and after.
#[test]
fn a_file_that_the_shell_has_opened_is_written_and_not_replaced() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(1));
    let log = folder.path("log");
    let sh = |script: &str| {
        let mut sh = std::process::Command::new("/bin/sh");
        sh.args(["-c", script]).env("credenza", program()).env("store", &store).env("log", &log);
        sh.current_dir(folder.0.path()).status().expect("a shell").code()
    };
    let text = "key0\tvalue-0\n";
    for (name, opened) in [
        ("/dev/stdout", ""),
        ("/dev/stderr", "2>&1"),
        ("/dev/fd/1", ""),
        ("/dev/fd/7", "7>&1"),
        ("/proc/self/fd/1", ""),
        ("/proc/self/fd/7", "7>&1 >&2"),
        ("log", ""),
        ("$log", "2>&1 >/dev/null"),
    ] {
        for command in ["dump $store --to tsv -o", "convert $store --to tsv"] {
            let one = format!("\"$credenza\" {command} \"{name}\" {opened}");
            for (begin, redirection) in [("", ">"), ("old\n", ">>")] {
                std::fs::write(&log, begin).expect("a file");
                let script = format!("{{ echo first; {one}; echo last; }} {redirection} $log");
                assert_eq!(sh(&script), Some(0), "{script}");
                let found = std::fs::read_to_string(&log).expect("the log");
                assert_eq!(found, format!("{begin}first\n{text}last\n"), "{script}");
            }
        }
    }
    // Not the descriptors that the program has for itself, of which the store's is one; nor into a store.
    for number in 3..9 {
        let script = format!("exec {number}>&-; \"$credenza\" dump $store -o /dev/fd/{number}");
        assert_eq!(sh(&script), Some(111), "{script}");
    }
    let hash = changing(&folder, "hash");
    for args in [
        format!("dump {hash} -o /dev/stdout >> {hash}"),
        format!("dump {hash} -o {hash} >> {hash}"),
        // Nor of another.
        format!("dump $store -o /dev/stdout >> {hash}"),
    ] {
        assert_eq!(sh(&format!("\"$credenza\" {args}")), Some(111));
    }
    is_there(&hash);
    run(&["verify", &store]).expect(0);
}

/// A shell that has a store open, and waits for what it is told.
fn shell(store: &str) -> Child {
    use std::io::{BufRead, BufReader, Write};
    let mut child = std::process::Command::new(program())
        .args(["shell", store])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let stdin = child.stdin.as_mut().expect("its input");
    stdin.write_all(b"len\n").expect("it reads");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("its output");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert_eq!(line, "1\n");
    child
}

#[test]
fn a_store_that_somebody_has_open_is_not_replaced() {
    let folder = Folder::new();
    let text = folder.file("text", "a\t1\n");
    let constant = folder.store("constant", &plain_records(3));
    let source = folder.path("source");
    run(&["create", &source, "--engine", "btree"]).expect(0);
    for engine in ["hash", "btree"] {
        let store = changing(&folder, engine);
        let mut open = shell(&store);
        for args in [
            &["convert", &text, &store, "--to", "hash", "--replace"][..],
            &["convert", &text, &store, "--to", "btree", "--replace"],
            &["convert", &source, &store, "--to", "btree", "--replace"],
            &["convert", &constant, &store, "--to", "constant", "--replace"],
            &["convert", &constant, &store, "--to", "tsv"],
            &["dump", &constant, "-o", &store],
            &["freeze", &source, &store, "--replace"],
            &["backup", &source, &store, "--replace"],
        ] {
            let got = run(args).expect(111);
            let says = match args.iter().any(|arg| ["tsv", "-o"].contains(arg)) {
                true => "what would take its place is text",
                false => "somebody has this store open",
            };
            assert!(got.err.contains(says), "{args:?}: {}", got.err);
        }
        drop(open.stdin.take());
        assert!(open.wait().expect("it ends").success());
        is_there(&store);
        run(&["freeze", &source, &store, "--replace"]).expect(0);
        assert_eq!(parsed(run(&["stat", &store, "--json"]))["kind"], "constant");
    }
}

/// An index beside what is no hash store any more.
#[test]
fn the_index_of_a_replaced_hash_store_goes_with_it() {
    let folder = Folder::new();
    let text = folder.file("text", "a\t1\n");
    let source = folder.path("source");
    run(&["create", &source, "--engine", "btree"]).expect(0);
    let target = folder.path("hash");
    for args in [
        &["convert", &text, &target, "--to", "btree", "--replace"][..],
        &["convert", &source, &target, "--to", "btree", "--replace"],
        &["convert", &source, &target, "--to", "cdb", "--replace"],
        &["freeze", &source, &target, "--replace"],
        &["backup", &source, &target, "--replace"],
    ] {
        changing(&folder, "hash");
        assert!(folder.names().contains(&"hash-index".to_owned()));
        run(args).expect(0);
        assert_eq!(folder.names(), ["hash", "source", "text"], "{args:?}");
        std::fs::remove_file(&target).expect("what was made");
    }
}

/// What has the name of its index, and is none, is nobody's to remove.
#[test]
fn what_is_no_index_stays_where_a_hash_store_is_replaced() {
    let folder = Folder::new();
    let source = folder.path("source");
    run(&["create", &source, "--engine", "btree"]).expect(0);
    let target = changing(&folder, "hash");
    std::fs::write(folder.path("hash-index"), "notes").expect("the file");
    run(&["freeze", &source, &target, "--replace"]).expect(0);
    assert_eq!(std::fs::read(folder.path("hash-index")).expect("the file"), b"notes");
}

/// STORE was forgotten, so that the input stands in its place.
#[test]
fn load_does_not_replace_what_is_no_store() {
    let folder = Folder::new();
    let text = b"bob\t1001\n";
    let words = folder.file("words.tsv", text);
    for kind in ALL_KINDS {
        let got = run(&["load", &words, "--from", "tsv", "--to", kind]).expect(111);
        assert!(got.err.contains("it is no store"), "{}", got.err);
        assert_eq!(std::fs::read(&words).expect("the text"), text);
    }
    assert_eq!(folder.names(), ["words.tsv"]);
    let empty = folder.file("empty", "");
    run(&["load", &empty, &words]).expect(0);
    is_there(&empty);
    run(&["load", &empty, &words]).expect(0);
}

/// It begins as a constant store does: it was taken for one, which is replaced.
#[test]
fn the_index_of_a_store_is_no_store() {
    let folder = Folder::new();
    let hash = changing(&folder, "hash");
    let (index, text) = (format!("{hash}-index"), folder.file("text.tsv", "a\t1\n"));
    let btree = changing(&folder, "btree");
    let before = std::fs::read(&index).expect("the index");
    for args in [
        &["load", &index, &text][..],
        &["freeze", &btree, &index],
        &["backup", &btree, &index],
        &["convert", &text, &index, "--to", "cdb"],
        &["get", &index, "a"],
        &["put", &index, "a", "1"],
        &["stat", &index],
        &["verify", &index],
        &["dump", &index],
    ] {
        let got = run(args).expect(111);
        let says = ["it is no store", "it is the index of a hash store"];
        assert!(says.iter().any(|says| got.err.contains(says)), "{args:?}: {}", got.err);
        assert!(std::fs::read(&index).expect("the index") == before, "{args:?}");
    }
}

/// A name that was mistyped, or the words in another order: the notes were gone.
#[test]
fn what_makes_a_store_of_another_does_not_replace_what_is_no_store() {
    let folder = Folder::new();
    let text = folder.file("text.tsv", "a\t1\n");
    let [hash, btree] = ["hash", "btree"].map(|engine| changing(&folder, engine));
    for notes in ["notes\n", "n", &"all that was thought\n".repeat(1000)] {
        let target = folder.file("notes.txt", notes);
        for source in [&hash, &btree] {
            for args in [
                &["backup", source, &target][..],
                &["freeze", source, &target],
                &["convert", source, &target, "--to", "constant"],
                &["convert", source, &target, "--to", "cdb"],
                &["convert", source, &target, "--to", "hash"],
                &["convert", source, &target, "--to", "btree"],
                &["convert", &text, &target, "--to", "mcdb"],
                &["convert", &text, &target, "--to", "btree"],
            ] {
                let got = run(args).expect(111);
                assert!(got.err.contains("it is no store"), "{args:?}: {}", got.err);
                assert!(got.err.contains("remove the file if"), "{args:?}: {}", got.err);
                assert_eq!(std::fs::read_to_string(&target).expect("the notes"), notes);
            }
        }
        // Text takes the place of text.
        run(&["convert", &hash, &target, "--to", "tsv"]).expect(0);
        assert_eq!(std::fs::read(&target).expect("text"), b"bob\t1001\n");
    }
    // Nobody misses what is empty, and all of a text is in the store that is made of it.
    for args in [&["backup", &hash][..], &["freeze", &hash], &["convert", &text, "--to=btree"]] {
        let target = folder.file("empty", "");
        run(&[args, &[&target]].concat()).expect(0);
        run(&["verify", &target]).expect(0);
    }
    run(&["convert", &text, &text, "--to", "constant"]).expect(0);
    assert_eq!(run(&["get", &text, "a"]).expect(0).text(), "1");
}

/// The records of one store were in the place of another's, in text, and no question was asked.
#[test]
fn text_does_not_replace_a_store() {
    let folder = Folder::new();
    let source = folder.file("text.tsv", "a\t1\n");
    let [hash, btree] = ["hash", "btree"].map(|engine| changing(&folder, engine));
    let others = ["constant", "cdb", "cdb64", "mcdb"].map(|kind| {
        let path = folder.path(kind);
        run(&["convert", &hash, &path, "--to", kind]).expect(0);
        path
    });
    for target in [&hash, &btree].into_iter().chain(&others) {
        let other = if target == &hash { &btree } else { &hash };
        for args in [
            &["dump", other, "--output", target][..],
            &["range", &btree, "--output", target],
            &["convert", other, target, "--to", "tsv"],
            &["convert", &source, target, "--to", "jsonl"],
        ] {
            let got = run(args).expect(111);
            assert!(got.err.contains(target.as_str()), "{args:?}: {}", got.err);
            assert!(got.err.contains("name another file"), "{args:?}: {}", got.err);
            is_there(target);
        }
    }
}

/// All tables of a btree store were gone, without a word, where its name was that of what is made.
#[test]
fn what_is_made_replaces_a_store_that_changes_only_where_that_is_said() {
    let folder = Folder::new();
    let text = folder.file("text.tsv", "a\t1\n");
    for engine in ["hash", "btree"] {
        let store = changing(&folder, engine);
        let other = folder.path("other");
        run(&["create", &other, "--engine", "btree"]).expect(0);
        let constant = folder.store("constant", &plain_records(3));
        for args in [
            &["convert", &text, &store, "--to", "hash"][..],
            &["convert", &text, &store, "--to", "btree"],
            &["convert", &text, &store, "--to", "cdb"],
            &["convert", &other, &store, "--to", "btree"],
            &["convert", &constant, &store, "--to", "constant"],
            &["freeze", &other, &store],
        ] {
            let got = run(args).expect(111);
            let says = format!("{store}: this is a {engine} store, which may be all there is");
            assert!(got.err.contains(&says), "{args:?}: {}", got.err);
            assert!(got.err.contains("name another, or say --replace"), "{args:?}: {}", got.err);
            is_there(&store);
            run(&[args, &["--replace"]].concat()).expect(0);
            run(&["verify", &store]).expect(0);
            assert_eq!(run(&["get", &store, "bob"]).status, 100, "{args:?}");
            folder.names().iter().filter(|name| name.starts_with(engine)).for_each(|name| {
                std::fs::remove_file(folder.path(name)).expect("what was made");
            });
            changing(&folder, engine);
        }
        // Not the store itself, nor by text.
        let itself = &["convert", &store, &store, "--to", "constant", "--replace"];
        assert!(run(itself).expect(111).err.contains("this is the store itself"));
        let by_text = &["convert", &other, &store, "--to", "tsv", "--replace"];
        assert!(run(by_text).expect(111).err.contains("--replace is for a store"));
        is_there(&store);
        std::fs::remove_file(&other).expect("the other store");
    }
    // What never changes was built of something, and is built again.
    for kind in KINDS {
        let store = folder.store(kind, &plain_records(3));
        run(&["convert", &text, &store, "--to", kind]).expect(0);
        run(&["freeze", &folder.path("btree"), &store]).expect(0);
        is_there(&store);
    }
}

/// It was not there when the command began, and what it is made of was read for hours.
#[test]
fn convert_does_not_replace_a_store_that_was_made_while_it_read() {
    for kind in ["hash", "btree", "constant"] {
        let folder = Folder::new();
        let store = folder.path("hash");
        let text: String = (0..1 << 16).map(|i| format!("a{i}\t1\n")).collect();
        let convert = that_reads(&["convert", "-", &store, "--from", "tsv", "--to", kind], &text);
        changing(&folder, "hash");
        let err = refusal(convert, kind);
        assert!(err.contains("say --replace"), "{kind}: {err}");
        is_there(&store);
    }
}

/// The copy of yesterday is replaced; a store of another kind is no copy.
#[test]
fn a_copy_replaces_no_store_of_another_kind_unless_that_is_said() {
    let folder = Folder::new();
    let [hash, btree] = ["hash", "btree"].map(|engine| changing(&folder, engine));
    for (source, kind) in [(&hash, "hash"), (&btree, "btree")] {
        for other in ALL_KINDS.iter().filter(|other| **other != kind) {
            let target = folder.store(other, &plain_records(3));
            let got = run(&["backup", source, &target]).expect(111);
            let says = format!("this is a {other} store, and what would take its place is a copy");
            assert!(got.err.contains(&says), "{}", got.err);
            assert!(got.err.contains("say --replace"), "{}", got.err);
            assert_eq!(sorted(dump(&target)), sorted(plain_records(3)));
            run(&["backup", source, &target, "--replace"]).expect(0);
            run(&["backup", source, &target]).expect(0);
            is_there(&target);
            std::fs::remove_file(&target).expect("the copy");
        }
    }
}

#[test]
fn load_does_not_replace_a_store_that_was_made_while_it_read() {
    let folder = Folder::new();
    let store = folder.path("hash");
    let load = that_reads(&["load", &store, "--from", "tsv"], &"a\t1\n".repeat(1 << 16));
    changing(&folder, "hash");
    let err = refusal(load, "hash");
    assert!(err.contains("while the input was read: load again, to add to it"), "{err}");
    is_there(&store);
}

/// The program, which has read some of its input and waits for more: the text is more than a pipe holds.
fn that_reads(args: &[&str], text: &str) -> Child {
    let mut child = std::process::Command::new(program())
        .args(args)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.as_mut().expect("its input").write_all(text.as_bytes()).expect("it reads");
    child
}

/// What it says when its input ends, and it fails.
#[track_caller]
fn refusal(mut child: Child, what: &str) -> String {
    drop(child.stdin.take());
    let ended = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(111), "{what}: {err}");
    err
}

/// A load that waits for its input, of a kind of store that is not there yet.
fn load_that_reads(store: &str, kind: &str) -> Child {
    let text = format!("a\t{}\n", "1".repeat(1 << 10)).repeat(1 << 7);
    that_reads(&["load", store, "--from", "tsv", "--to", kind, "-q"], &text)
}

/// Of what never changes it took the place, though there had been nothing when it began.
#[test]
fn load_replaces_nothing_that_was_not_there_when_it_began() {
    for kind in ALL_KINDS {
        let folder = Folder::new();
        let store = folder.path("store");
        let load = load_that_reads(&store, kind);
        run_with(&["load", &store, "--from", "tsv"], b"bob\t1001\n").expect(0);
        let err = refusal(load, kind);
        let says = "somebody made a constant store here while the input was read: load again, to replace it";
        assert!(err.contains(says), "{kind}: {err}");
        is_there(&store);
        assert_eq!(folder.names(), ["store"], "{kind}");
        // What was there is replaced, or refused, as before.
        run_with(&["load", &store, "--from", "tsv", "--to", "cdb"], b"bob\t1001\n").expect(0);
        is_there(&store);
    }
}

/// It was told to leave out --to, which it may not have had.
#[test]
fn a_load_says_that_another_has_made_the_store_meanwhile() {
    for (first, second, says) in [
        ("hash", "hash", "made a hash store here while the input was read: load again"),
        (
            "constant",
            "btree",
            "made a btree store here while the input was read: it is not replaced",
        ),
    ] {
        let folder = Folder::new();
        let store = folder.path("store");
        let load = load_that_reads(&store, first);
        run_with(&["load", &store, "--from", "tsv", "--to", second], b"bob\t1001\n").expect(0);
        let err = refusal(load, first);
        assert!(err.contains(says), "{first}: {err}");
        is_there(&store);
    }
}

/// Both said that all was well, and one's records were gone: each looked before the other had put its store there.
#[test]
fn of_loads_that_make_one_store_at_once_none_is_lost() {
    for kind in ["hash", "btree"] {
        for _ in 0..20 {
            let folder = Folder::new();
            let store = folder.path("store");
            let mut loads = ["b", "c"].map(|key| (key, load_that_reads(&store, kind)));
            for (key, load) in &mut loads {
                let mut stdin = load.stdin.take().expect("its input");
                stdin.write_all(format!("{key}\t1\n").as_bytes()).expect("it reads");
            }
            let done = loads.map(|(key, load)| {
                let ended = load.wait_with_output().expect("it ends");
                (key, ended.status.success())
            });
            assert!(done.iter().any(|(_, is_done)| *is_done));
            for (key, _) in done.iter().filter(|(_, is_done)| *is_done) {
                run(&["get", &store, key]).expect(0);
            }
        }
    }
}

/// Who only reads loses nothing, and may keep a copy open for months.
#[test]
fn a_store_that_is_open_only_for_reading_is_replaced() {
    use credenza::Get;
    let folder = Folder::new();
    for engine in ["hash", "btree"] {
        let source = changing(&folder, engine);
        let copy = folder.path("copy");
        run(&["backup", &source, &copy]).expect(0);
        let reader = credenza::OpenOptions::new().read_only(true).open(&copy).expect("a reader");
        run(&["put", &source, "bob", "1002"]).expect(0);
        run(&["backup", &source, &copy]).expect(0);
        assert_eq!(run(&["get", &copy, "bob"]).expect(0).text(), "1002");
        let found = reader.get(b"bob").expect("the old file");
        assert_eq!(found.as_deref(), Some(&b"1001"[..]));
        drop(found);
        drop(reader);
        std::fs::remove_file(&copy).expect("the copy");
    }
}
