//! Danger: wrong input, arguments or files are taken for right ones, or damage the old store.

mod common;
use common::*;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Malformed text, where it is wrong, and what stays: the old store, byte for byte.
#[test]
fn malformed_text_names_its_place_and_changes_nothing() {
    let folder = Folder::new();
    let cases: [(&str, &[u8], u64); 9] = [
        ("cdb", b"+1,1:a->b\n+1,1:a-b\n\n", 2),
        ("cdb", b"+1,1:a->b\n+1,1:a->b", 2),
        ("cdb", b"+1,1:a->b\n+99999999999999999999,1:a->b\n\n", 2),
        ("tsv", b"a\tb\nno tab\n", 2),
        ("mdbm_export", b"format=print\ntype=hash\nHEADER=END\nk\nv\nkey without value", 6),
        ("db_dump", b"VERSION=3\nformat=bytevalue\nHEADER=END\n 6g\n 62\nDATA=END\n", 4),
        ("db_dump-p", b"VERSION=3\nformat=print\nHEADER=END\n \\zz\n b\nDATA=END\n", 4),
        ("tdbdump", b"{\nkey(1) = \"a\"\ndata(2) = \"b\"\n}\n", 3),
        ("jsonl", b"{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":\"a\"\n", 2),
    ];
    for kind in KINDS {
        let store = folder.store(kind, &plain_records(10));
        let before = std::fs::read(&store).expect("the old store");
        let names = folder.names();
        for (format, text, line) in cases {
            let args = ["load", &store, "--from", format, "--to", kind];
            let got = run_with(&args, text).expect(111);
            let place = format!("line {line}, column ");
            assert!(got.err.contains(&place), "{format}: expected {place}in {}", got.err);
            assert!(got.err.starts_with("error: standard input: "), "{}", got.err);
            assert!(got.out.is_empty());
            assert!(std::fs::read(&store).expect("the old store") == before, "{format}");
            assert_eq!(folder.names(), names, "{format} left a file");
        }
    }
}

/// What the target refuses for its size was said without a place.
#[test]
fn a_record_that_is_too_large_for_the_store_is_placed() {
    let folder = Folder::new();
    let (cache, tables) = (folder.path("cache"), folder.path("tables"));
    run(&["create", &cache, "--limit", "64K"]).expect(0);
    run(&["create", &tables, "--engine", "btree"]).expect(0);
    run(&["table", "create", &tables, "s", "--duplicates", "sorted"]).expect(0);
    let long = "x".repeat(70_000);
    let text = format!("a\t1\nbig\t{long}\nc\t3\n");
    let file = folder.file("text.tsv", &text);
    let sorted = ["--table", "s"];
    for (args, what) in [
        (&["load", &cache, "--from", "tsv"][..], "a record of 70"),
        (&["load", &cache, &file], "a record of 70"),
        (&["put", &cache, "--from", "tsv"], "a record of 70"),
        (&[&["load", &tables, "--from", "tsv"], &sorted[..]].concat(), "a sorted value of 70000"),
        (&[&["load", &tables, &file], &sorted[..]].concat(), "a sorted value of 70000"),
        (&[&["put", &tables, "--from", "tsv"], &sorted[..]].concat(), "a sorted value of 70000"),
    ] {
        let got = run_with(args, text.as_bytes()).expect(111);
        for part in ["line 2, column 1: ", what, "over the limit"] {
            assert!(got.err.contains(part), "{args:?}: {part}: {}", got.err);
        }
    }
    let dump = format!(
        "VERSION=3\nformat=print\ndatabase=s\ntype=btree\nduplicates=1\ndupsort=1\nHEADER=END\n a\n 1\n b\n {long}\n\
         DATA=END\n"
    );
    let got = run_with(&["convert", "-", &folder.path("new"), "--to", "btree"], dump.as_bytes());
    let err = got.expect(111).err;
    assert!(
        err.contains("line 10, column 1: ") && err.contains("a sorted value of 70000"),
        "{err}"
    );
    // Before it all is there, and behind it nothing.
    assert_eq!(run(&["dump", &cache, "--to", "tsv"]).expect(0).text(), "a\t1\n");
    assert_eq!(run(&["dump", &tables, "--table", "s", "--to", "tsv"]).expect(0).text(), "");
}

#[test]
fn cut_and_flipped_text_never_replaces_the_store_silently() {
    let folder = Folder::new();
    let mut random = Random::new();
    let text = cdb_text(&binary_records(20));
    let store = folder.store("constant", &plain_records(10));
    let before = std::fs::read(&store).expect("the old store");
    for _ in 0..40 {
        let cut = random.below(text.len() as u64 - 1) as usize;
        run_with(&["load", &store, "--from", "cdb"], &text[..cut]).expect(111);
        assert!(std::fs::read(&store).expect("the old store") == before, "cut at {cut}");
    }
}

#[test]
fn a_format_that_cannot_be_told_is_asked_for() {
    let folder = Folder::new();
    let store = folder.path("store");
    let got = run_with(&["load", &store], b"").expect(111);
    assert!(got.err.contains("empty") && got.err.contains("--from"), "{}", got.err);
    let got = run_with(&["load", &store], b"\x00\x01\x02\x03").expect(111);
    assert!(got.err.contains("cannot be told") && got.err.contains("jsonl"), "{}", got.err);
    assert!(folder.names().is_empty());
}

/// Keys with values were taken for keys alone, without a word: 'txt' says nothing of a format.
#[test]
fn a_text_that_may_be_of_several_formats_is_taken_for_none() {
    let folder = Folder::new();
    let store = folder.path("store");
    for name in ["access.txt", "access", "access.conf"] {
        let text = folder.file(name, "192.0.2.1 REJECT\n192.0.2.2 OK\n");
        for args in [&["load", &store, &text][..], &["convert", &text, &store, "--to", "hash"]] {
            let got = run(args).expect(111);
            assert!(got.err.contains("cannot be told from its first bytes"), "{}", got.err);
            assert!(got.err.contains("say --from with one of"), "{args:?}: {}", got.err);
            assert!(!folder.names().contains(&"store".to_owned()), "{args:?}");
        }
        run(&["load", &store, &text, "--from", "map"]).expect(0);
        assert_eq!(run(&["get", &store, "192.0.2.2"]).expect(0).text(), "OK");
        std::fs::remove_file(&store).expect("the store");
    }
    // What begins as only one format does is recognised, whatever it is called.
    run(&["load", &store, &folder.file("a.txt", "+1,1:a->1\n\n")]).expect(0);
    run(&["load", &store, &folder.file("b.txt", "a\t1\n")]).expect(0);
}

/// A tab somewhere in it made a record of it.
#[test]
fn what_is_no_text_is_not_taken_for_tsv() {
    let folder = Folder::new();
    let (store, new) = (folder.path("store"), folder.path("new"));
    let binary = folder.file("binary", b"\xce\x9aX\x13\t\0\0\0\0\0\x02\n");
    let of_gdbm = folder.file("g.gdbm", b"\xce\x9aW\x13\t\0\0\0\0\0\x02\n");
    let packed = folder.file("t.tsv.zst", b"\x28\xb5\x2f\xfd\x04\x21\0a\tb\n");
    let names = folder.names();
    for args in [&["load", &store][..], &["load", &store, "-"], &["load", &store, &binary]] {
        let got = run_with(args, &std::fs::read(&binary).expect("it")).expect(111);
        assert!(got.err.contains("binary") && got.err.contains("--from"), "{}", got.err);
    }
    for args in [&["load", &store, &of_gdbm][..], &["convert", &of_gdbm, &new, "--to", "cdb"]] {
        let got = run(args).expect(111);
        assert!(got.err.contains("a file of GDBM: write its records as text"), "{}", got.err);
    }
    run(&["convert", &binary, &new, "--to", "cdb"]).expect(111);
    for args in [
        &["load", &store, &packed][..],
        &["convert", &packed, &new, "--to", "cdb"],
        &["convert", &packed, &new, "--to", "btree"],
        &["convert", &packed, &new, "--to", "jsonl"],
    ] {
        let got = run(args).expect(111);
        assert!(got.err.contains("zstd -dc FILE | credenza load STORE"), "{args:?}: {}", got.err);
    }
    let bench = ["bench", "--data", &packed, "--stores", "constant", "--dir"];
    let got = run(&[&bench[..], &[folder.0.path().to_str().expect("text")]].concat()).expect(111);
    assert!(got.err.contains("zstd -dc FILE > TEXT"), "{}", got.err);
    assert_eq!(folder.names(), names);
    // Whoever names the format knows.
    run(&["load", &store, &binary, "--from", "tsv"]).expect(0);
    assert_eq!(run(&["get", &store, "--hex", "ce9a5813"]).expect(0).out, b"\0\0\0\0\0\x02");
}

#[test]
fn files_that_are_no_store_are_refused_by_every_command() {
    let folder = Folder::new();
    let fifo = folder.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    let mut noise = Random::new().bytes(4000, 4001);
    noise[0] = 0xff;
    let files = [
        folder.0.path().to_str().expect("text").to_owned(),
        fifo,
        folder.path("absent"),
        folder.file("empty", ""),
        folder.file("noise", &noise),
        folder.file("text", "hello, this is text\n".repeat(400)),
        "/dev/null".to_owned(),
        "/dev/zero".to_owned(),
    ];
    let out = folder.path("out");
    for file in &files {
        for args in [
            &["get", file, "key"][..],
            &["scan", file],
            &["dump", file],
            &["stat", file],
            &["verify", file],
            &["preload", file],
        ] {
            let got = run(args).expect(111);
            assert!(got.err.contains(file.as_str()), "{args:?}: {}", got.err);
            assert!(got.out.is_empty());
        }
    }
    for file in [&files[0], &files[2], &files[3], &files[4]] {
        let got = run(&["convert", file, &out, "--to", "constant"]).expect(111);
        assert!(got.err.contains(file.as_str()), "{}", got.err);
    }
    assert!(!std::path::Path::new(&out).exists());
}

#[test]
fn targets_that_cannot_be_replaced_are_refused() {
    let folder = Folder::new();
    let own = folder.0.path().to_str().expect("text").to_owned();
    let absent = folder.path("no/such/folder/store");
    for kind in KINDS {
        for target in [own.as_str(), "/dev/null", &absent, "-"] {
            let got = run_with(&["load", target, "--to", kind, "--from", "cdb"], b"\n");
            let got = got.expect(111);
            assert!(got.err.len() > 20, "{target}: {}", got.err);
        }
    }
    assert!(folder.names().is_empty());
    let store = folder.store("constant", &plain_records(3));
    let got = run(&["dump", &store, "-o", &own]).expect(111);
    assert!(got.err.contains(&own), "{}", got.err);
    run(&["dump", &store, "-o", &absent]).expect(111);
    let missing = folder.path("missing.txt");
    let got = run(&["load", &folder.path("x"), &missing]).expect(111);
    assert!(got.err.contains(&missing), "{}", got.err);
    let got = run(&["load", &folder.path("x"), &own]).expect(111);
    assert!(got.err.contains("directory"), "{}", got.err);
    assert_eq!(folder.names(), ["constant.store"]);
}

/// Nor is a file made that is called so.
#[test]
fn no_store_is_written_to_standard_output() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(3));
    let constant = folder.store("constant", &plain_records(3));
    let names = folder.names();
    for args in [
        &["create", "-"][..],
        &["load", "-", "--from", "cdb"],
        &["convert", &store, "-", "--to", "constant"],
        &["convert", &store, "-", "--to", "btree"],
        &["backup", &store, "-"],
        &["freeze", &store, "-"],
        &["recover", &store, "-"],
        &["thaw", &constant, "-"],
        &["thaw", &constant, "-", "--engine", "btree"],
    ] {
        let mut command = credenza(args);
        let output = command.current_dir(folder.0.path()).write_stdin("\n").output();
        let output = output.expect("the program starts");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(111), "{args:?}: {err}");
        assert!(err.contains("cannot be written to standard output"), "{args:?}: {err}");
        assert_eq!(folder.names(), names, "{args:?}");
    }
}

#[test]
fn input_may_be_a_fifo() {
    let folder = Folder::new();
    let fifo = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    for args in [["load", "out", "fifo", "--from=cdb"], ["convert", "fifo", "out", "--to=cdb"]] {
        let path = fifo.clone();
        let writer = std::thread::spawn(move || std::fs::write(path, "+1,1:a->b\n\n"));
        let mut command = credenza(&args);
        command.current_dir(folder.0.path()).assert().success();
        writer.join().expect("the writer").expect("it wrote everything");
        assert_eq!(run(&["get", &folder.path("out"), "a"]).expect(0).out, b"b");
    }
}

#[test]
fn a_name_in_an_error_does_nothing_to_the_terminal() {
    let folder = Folder::new();
    let name = folder.path("red \u{1b}[31mname\nerror: of two lines\\");
    let shown = folder.path("red \\x1b[31mname\\nerror: of two lines\\");
    for args in [&["get", &name, "key"][..], &["load", &folder.path("new"), &name]] {
        let got = run(args).expect(111);
        assert!(got.err.starts_with(&format!("error: {shown}: ")), "{}", got.err);
        assert_eq!(got.err.lines().count(), 1, "{}", got.err);
    }
}

#[test]
fn no_permission_is_told() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(3));
    let mode = |path: &str, mode| {
        let set = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
        set.expect("the mode can be changed");
    };
    mode(&store, 0o000);
    if std::fs::File::open(&store).is_ok() {
        eprintln!("skipped: this user may read everything, whatever the mode");
        return;
    }
    for command in ["scan", "dump", "stat", "verify", "preload"] {
        let got = run(&[command, &store]).expect(111);
        assert!(got.err.contains("check the owner and mode"), "{}", got.err);
    }
    let own = folder.0.path().to_str().expect("text").to_owned();
    mode(&own, 0o555);
    let got = run_with(&["load", &folder.path("new"), "--from", "cdb"], b"\n").expect(111);
    mode(&own, 0o755);
    assert!(got.err.contains("check the owner and mode"), "{}", got.err);
}

#[test]
fn the_mode_of_a_replaced_store_is_kept() {
    let folder = Folder::new();
    for kind in KINDS {
        let store = folder.store(kind, &plain_records(3));
        let mode = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(&store, mode).expect("the mode can be changed");
        folder.store(kind, &plain_records(4));
        let meta = std::fs::metadata(&store).expect("the store");
        assert_eq!(meta.permissions().mode() & 0o7777, 0o640, "{kind}");
    }
}

/// Who may not read a store may not read what is made of it.
#[test]
fn what_is_made_of_a_private_store_is_private() {
    let folder = Folder::new();
    let text = folder.file("text", cdb_text(&plain_records(3)));
    let [constant, hash, btree] =
        ["constant", "hash", "btree"].map(|kind| folder.store(kind, &plain_records(3)));
    let target = folder.path("target");
    let umask = Command::new("sh").args(["-c", "umask"]).output().expect("a shell").stdout;
    let umask = u32::from_str_radix(String::from_utf8_lossy(&umask).trim(), 8).expect("a mask");
    for mode in [0o600, 0o640, 0o644, 0o444] {
        for path in [&text, &constant, &hash, &btree] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("the mode can be changed");
        }
        for args in [
            &["backup", &hash, &target][..],
            &["backup", &btree, &target],
            &["freeze", &hash, &target],
            &["freeze", &btree, &target],
            &["recover", &hash, &target],
            &["thaw", &constant, &target],
            &["thaw", &constant, &target, "--engine", "btree"],
            &["convert", &constant, &target, "--to", "cdb"],
            &["convert", &hash, &target, "--to", "hash"],
            &["convert", &btree, &target, "--to", "btree"],
            &["convert", &btree, &target, "--to", "tsv"],
            &["convert", &text, &target, "--to", "hash"],
            &["dump", &constant, "-o", &target],
            &["range", &btree, "-o", &target],
        ] {
            run(args).expect(0);
            let mut made = folder.names();
            made.retain(|name| name.starts_with("target"));
            assert!(made.contains(&"target".to_owned()), "{args:?}");
            for name in made {
                let meta = std::fs::metadata(folder.path(&name)).expect("what was made");
                let expected = 0o666 & !umask & (mode | 0o600);
                assert_eq!(meta.permissions().mode() & 0o777, expected, "{args:?}: {name}");
                std::fs::remove_file(folder.path(&name)).expect("it can be removed");
            }
        }
    }
}

/// The group in the mode of such a file is not what its group may do, but the most that a user has who is named.
#[test]
fn what_one_more_user_may_read_is_not_made_for_a_group() {
    const NOBODY: u32 = u32::MAX;
    // Kind, rights and number: the owner, one user, the group, the most of both, and all others.
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, NOBODY), (2, 6, 12_345), (4, 0, NOBODY), (16, 6, NOBODY), (32, 0, NOBODY)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (kind, rights, id) in entries {
        list.extend(kind.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let folder = Folder::new();
    let store = folder.store("btree", &plain_records(3));
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(&store, "system.posix_acl_access", &list, flags).is_err() {
        println!("skipped: this file system has no lists of users");
        return;
    }
    let mode = |path: &str| std::fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&store), 0o660);
    let target = folder.path("target");
    for command in ["backup", "freeze", "recover"] {
        run(&[command, &store, &target]).expect(0);
        assert_eq!(mode(&target), 0o600, "{command}");
        std::fs::remove_file(&target).expect("it can be removed");
    }
}

/// The name of a file, which is anybody's, moved the terminal, or began a line of its own.
#[test]
fn names_of_files_are_shown_in_one_line() {
    let folder = Folder::new();
    let (text, name) = (cdb_text(&plain_records(3)), "e\u{1b}[31m\nx");
    for kind in ["constant", "hash", "btree"] {
        let store = folder.path(name);
        let told = |args: &[&str], text: &[u8]| run_with(args, text).expect(0).text();
        let made = told(&["load", &store, "--to", kind], text.as_ref());
        for told in [
            made,
            told(&["verify", &store], b""),
            told(&["stat", &store], b""),
            told(&["preload", &store], b""),
        ] {
            assert!(!told.contains('\u{1b}') && told.contains("e\\x1b[31m\\nx"), "{told}");
        }
        folder.names().iter().for_each(|name| {
            std::fs::remove_file(folder.path(name)).expect("it can be removed");
        });
    }
}

#[test]
fn a_store_in_the_place_of_text_is_told() {
    let folder = Folder::new();
    let target = folder.path("target");
    for kind in ALL_KINDS {
        let store = folder.store(kind, &plain_records(300));
        let names = folder.names();
        for more in [&[][..], &["--to", "btree"]] {
            let got = run(&[&["load", &target, &store], more].concat()).expect(111);
            let what = format!("{store}: this is a {kind} store, and load reads text");
            assert!(got.err.contains(&what), "{}", got.err);
            assert!(got.err.contains("'credenza convert'"), "{}", got.err);
            assert_eq!(folder.names(), names);
        }
    }
}

#[test]
fn wrong_usage_is_status_111() {
    let folder = Folder::new();
    let store = folder.path("store");
    for args in [
        &[][..],
        &["nonsense"],
        &["get"],
        &["load"],
        &["load", "a", "--to", "nonsense"],
        &["load", &store, "--memory-budget", "much"],
        &["load", &store, "--memory-budget", "99999999999T"],
        &["load", &store, "--seed", "-1"],
        &["load", &store, "--to", "cdb", "--seed", "1"],
        &["load", &store, "--to", "mcdb", "--memory-budget", "1G"],
        &["convert", "a", "b"],
        &["convert", "/dev/null", &store, "--from", "tsv", "--to", "tsv", "--seed", "3"],
        &["convert", "/dev/null", &store, "--from", "tsv", "--to", "tsv", "--memory-budget", "1G"],
        &["verify"],
        &["scan", "a", "--limit", "x"],
        &["completions", "nonsense"],
        &["dump", "a", "--nonsense"],
    ] {
        let got = run(args).expect(111);
        assert!(!got.err.is_empty() && got.out.is_empty(), "{args:?}: {}", got.err);
    }
    assert!(folder.names().is_empty());
}

#[test]
fn limits_of_keys_are_told() {
    let folder = Folder::new();
    let store = folder.path("store");
    let longest = vec![(vec![b'k'; 65536], b"v".to_vec())];
    run_with(&["load", &store, "--from", "cdb"], &cdb_text(&longest)).expect(0);
    assert_eq!(dump(&store), longest);
    let over = vec![(vec![b'k'; 65537], b"v".to_vec())];
    let got = run_with(&["load", &store, "--from", "cdb"], &cdb_text(&over)).expect(111);
    assert!(got.err.contains("65536 bytes"), "{}", got.err);
    assert_eq!(dump(&store), longest, "the old store is intact");
}
