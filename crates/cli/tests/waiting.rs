//! Danger: everybody who writes to a btree store waits for a command that itself waits for its input; or a command
//! needs room for input that nobody waits for.

mod common;
use common::*;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

/// More lines than a pipe holds, so that who has written them knows that they are being read.
const MANY: usize = 12_000;
/// And so many more that some of them were handed on together.
const MORE: usize = 30_000;

fn text(lines: usize, key: &str, more: &str) -> String {
    (0..lines).map(|i| format!("{key}{i:06}{more}\n")).collect()
}

#[test]
fn others_write_while_the_input_is_waited_for() {
    let folder = Folder::new();
    let store = folder.path("store");
    run(&["create", &store, "--engine", "btree"]).expect(0);
    run(&["table", "create", &store, "log", "--numbered"]).expect(0);
    let records = |store: &str| parsed(run(&["stat", store, "--json"]))["records"].as_u64();
    let append = ["put", &store, "--table", "log", "--append", "--from", "lines"];
    for (i, (args, text, after)) in [
        (&["load", &store, "--from", "tsv"][..], text(MORE, "a", "\t1"), MORE),
        (&["put", &store, "--from", "tsv"], text(MORE, "b", "\t1"), 2 * MORE),
        (&["put", &store, "--from", "tsv", "--if-absent"], text(MANY, "c", "\t1"), 2 * MORE + MANY),
        (&append, text(MANY, "d", ""), 2 * MORE + MANY),
        (&["delete", &store, "--keys-from", "-"], text(MANY, "b", ""), 2 * MORE),
    ]
    .into_iter()
    .enumerate()
    {
        let before = records(&store);
        let mut child = Command::new(program())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("its input");
        stdin.write_all(text.as_bytes()).expect("it reads");
        // Far more time than it takes: it is over only where the command waits for the other one.
        let (key, patience) = (format!("other{i}"), Duration::from_secs(120));
        credenza(&["put", &store, &key, "1"]).timeout(patience).assert().success();
        assert_eq!(records(&store), before.map(|n| n + 1), "{args:?}: nothing of it yet");
        drop(stdin);
        assert!(child.wait().expect("it ends").success(), "{args:?}");
        assert_eq!(records(&store), Some((after + i + 1) as u64), "{args:?}");
    }
    let log = run(&["dump", &store, "--table", "log", "--to", "tsv"]).expect(0).text();
    assert!(log.starts_with("1\td000000\n") && log.lines().count() == MANY);
    run(&["verify", &store]).expect(0);
}

/// What is said of keys that are not there is more than a pipe holds, and nobody reads it.
#[test]
fn others_write_while_nobody_reads_what_is_said() {
    let folder = Folder::new();
    let store = folder.path("store");
    run(&["create", &store, "--engine", "btree"]).expect(0);
    let keys = folder.file("keys", text(MANY, "absent", ""));
    let mut child = Command::new(program())
        .args(["delete", &store, "--keys-from", &keys])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut said = child.stderr.take().expect("what it says");
    std::io::Read::read_exact(&mut said, &mut [0]).expect("it has begun to say something");
    let patience = Duration::from_secs(120);
    credenza(&["put", &store, "other", "1"]).timeout(patience).assert().success();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).expect("the rest");
    assert_eq!(rest.lines().count(), MANY);
    assert_eq!(child.wait().expect("it ends").code(), Some(100));
}

/// A file keeps nobody waiting, so that its keys need no room in a file of their own. The store lies in a folder
/// where nobody can make one, and so do temporary files.
#[test]
fn keys_of_a_file_are_read_as_they_are_needed() {
    let folder = Folder::new();
    let store = folder.path("store");
    run(&["create", &store, "--engine", "btree"]).expect(0);
    run(&["put", &store, "last", "1"]).expect(0);
    let keys = folder.file("keys", text(50_000, &"k".repeat(100), "") + "last\n");
    let got = Command::new("sh")
        .args(["-c", "exec \"$0\" -q delete /dev/fd/3 --keys-from \"$1\" 3<>\"$2\""])
        .args([program().as_os_str(), keys.as_ref(), store.as_ref()])
        .env("TMPDIR", "/none/such")
        .output()
        .expect("a shell");
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    assert_eq!(parsed(run(&["stat", &store, "--json"]))["records"], 0);
}

/// A shell that has begun a transaction in a store, and goes on by what it is written.
fn writing(store: &str) -> (Child, ChildStdin) {
    let mut shell = Command::new(program())
        .args(["shell", store])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let (mut says, told) = (shell.stdin.take().expect("its input"), shell.stdout.take());
    says.write_all(b"begin\nput held 1\nget held\n").expect("it reads");
    std::io::Read::read_exact(&mut told.expect("what it says"), &mut [0]).expect("the value");
    (shell, says)
}

#[test]
fn who_is_not_to_wait_changes_nothing_and_says_who_writes() {
    let folder = Folder::new();
    for engine in ["hash", "btree"] {
        let store = folder.path(engine);
        run(&["create", &store, "--engine", engine]).expect(0);
        run(&["put", &store, "key", "old"]).expect(0);
        let (mut shell, mut says) = writing(&store);
        let lines = folder.file("lines", "key\tloaded\n");
        for args in [
            &["put", &store, "key", "new"][..],
            &["put", &store, "key", "new", "--if-absent"],
            &["delete", &store, "key"],
            &["delete", &store, "key", "--value", "old"],
            &["load", &store, &lines, "--from", "tsv"],
            &["compact", &store],
        ] {
            let got = run(&[args, &["--wait", "0.1"]].concat()).expect(111);
            let who = format!("for process {}, which is writing to the store", shell.id());
            assert!(got.err.contains(&who) && got.err.contains(&store), "{args:?}: {}", got.err);
        }
        let copy = folder.path("copy");
        let reading = [
            &["backup", &store, &copy][..],
            &["dump", &store],
            &["freeze", &store, &copy],
            &["thaw", &store, &copy],
            &["convert", &store, &copy, "--to", "constant"],
            &["verify", &store],
        ];
        for args in reading {
            let got = run(&[args, &["--wait", "0.1"]].concat());
            // Who reads a btree store has it as it was when it was last committed.
            if engine == "btree" && args[0] != "verify" {
                got.expect(0);
                let _ = std::fs::remove_file(&copy);
                continue;
            }
            let got = got.expect(111);
            let who = format!("for process {}, which is writing to the store", shell.id());
            assert!(got.err.contains(&who) && got.err.contains(&store), "{args:?}: {}", got.err);
            assert!(!std::path::Path::new(&copy).exists(), "{args:?}");
        }
        let commands = b"put key new\n";
        let got = run_with(&["shell", &store, "--wait", "0"], commands).expect(111);
        assert!(got.err.contains("line 1: "), "{}", got.err);
        says.write_all(b"commit\n").expect("it reads");
        drop(says);
        assert!(shell.wait().expect("it ends").success());
        assert_eq!(run(&["get", &store, "key"]).expect(0).text(), "old");
        run(&["put", &store, "key", "new", "--wait", "0"]).expect(0);
    }
    let got = run(&["put", "store", "key", "new", "--wait", "long"]).expect(111);
    assert!(got.err.contains("write a number of seconds"), "{}", got.err);
}

/// A command that waited for another's transaction looked as if it hung.
#[test]
fn who_waits_for_others_says_so() {
    let folder = Folder::new();
    for engine in ["hash", "btree"] {
        let store = folder.path(engine);
        run(&["create", &store, "--engine", engine]).expect(0);
        let (mut shell, mut says) = writing(&store);
        let lines = folder.file("lines", "loaded\t1\n");
        let start = |args: &[&str]| {
            let mut command = Command::new(program());
            command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().expect("the program starts")
        };
        let quiet = start(&["put", &store, "key", "1", "--quiet"]);
        let mut loud = vec![
            start(&["put", &store, "key", "1"]),
            start(&["load", &store, &lines, "--from", "tsv"]),
            start(&["compact", &store]),
            start(&["verify", &store]),
        ];
        // Who reads a btree store has it as it was when it was last committed.
        if engine == "hash" {
            let [copy, frozen, constant] = ["copy", "frozen", "constant"].map(|s| folder.path(s));
            loud.extend([
                start(&["dump", &store]),
                start(&["backup", &store, &copy]),
                start(&["freeze", &store, &frozen]),
                start(&["convert", &store, &constant, "--to", "constant"]),
            ]);
        }
        for loud in &mut loud {
            let mut said = [0; 7];
            let from = loud.stderr.as_mut().expect("what it says");
            std::io::Read::read_exact(from, &mut said).expect("it says that it waits");
            assert_eq!(&said, b"waiting");
        }
        says.write_all(b"commit\n").expect("it reads");
        drop(says);
        assert!(shell.wait().expect("it ends").success());
        for mut loud in loud {
            assert!(loud.wait().expect("it ends").success());
        }
        assert_eq!(run(&["get", &store, "loaded"]).expect(0).text(), "1");
        let quiet = quiet.wait_with_output().expect("it ends");
        assert!(quiet.status.success() && quiet.stderr.is_empty());
    }
}
