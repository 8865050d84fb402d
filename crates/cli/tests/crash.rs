//! Danger: a kill, a full disk or a closed pipe leaves half a store, a stray file or a panic.

mod common;
use common::*;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Kills a load at random points of its input, and after it, and looks at what is left.
#[test]
fn a_killed_load_leaves_the_old_store_or_the_new_one() {
    let folder = Folder::new();
    let mut random = Random::new();
    let text = cdb_text(&plain_records(30_000));
    for kind in KINDS {
        let store = folder.store(kind, &plain_records(10));
        let old = std::fs::read(&store).expect("the old store");
        let names = folder.names();
        run_with(&["load", &folder.path("new"), "--to", kind, "--from", "cdb"], &text).expect(0);
        let new = std::fs::read(folder.path("new")).expect("the new store");
        std::fs::remove_file(folder.path("new")).expect("it can be removed");
        for round in 0..8 {
            let whole = round % 2 == 1;
            let fed = if whole { text.len() } else { random.below(text.len() as u64) as usize };
            let mut child = Command::new(program())
                .args(["load", &store, "--to", kind, "--from", "cdb"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts");
            let mut stdin = child.stdin.take().expect("its input");
            stdin.write_all(&text[..fed]).expect("it reads");
            if whole {
                // The end of the input starts the writing; the kill falls anywhere into it.
                drop(stdin);
                (0..random.below(200_000)).for_each(|_| std::hint::spin_loop());
                child.kill().expect("it can be killed");
            } else {
                child.kill().expect("it can be killed");
                drop(stdin);
            }
            child.wait().expect("it ends");
            let left = std::fs::read(&store).expect("a store");
            assert!(left == old || (whole && left == new), "{kind}, killed after {fed} bytes");
            run(&["verify", &store]).expect(0);
            let stray: Vec<String> =
                folder.names().into_iter().filter(|name| !names.contains(name)).collect();
            // Between naming and renaming, two system calls, a name may survive a kill.
            assert!(stray.is_empty() || whole && stray.len() == 1, "{stray:?}");
            for name in stray {
                std::fs::remove_file(folder.path(&name)).expect("it can be removed");
            }
            std::fs::write(&store, &old).expect("the old store is put back");
        }
    }
}

/// The signals that this process ignores, and what it starts: a bit each.
fn ignored_here() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it can be read");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a line of it");
    u64::from_str_radix(mask.trim(), 16).expect("hexadecimal")
}

/// Hash and btree stores are made under a name, which a signal that ends the program, and not a kill, takes with it.
#[test]
fn a_load_that_is_interrupted_leaves_nothing() {
    for (kind, last) in [("hash", ".tmp-index"), ("btree", ".tmp")] {
        for (signal, number, has_trap) in
            [("INT", 2, false), ("TERM", 15, false), ("HUP", 1, false), ("HUP", 1, true)]
        {
            // Whoever runs these tests in the background may have them ignore one.
            let is_ignored = has_trap || ignored_here() >> (number - 1) & 1 == 1;
            let folder = Folder::new();
            let ignoring = if has_trap { "trap '' HUP; " } else { "" };
            let script = format!("{ignoring}exec \"$1\" load \"$2\" --to {kind} --from tsv");
            let mut child = Command::new("sh")
                .args(["-c", &script, "sh"])
                .args([program(), folder.path("store").into()])
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("a shell starts");
            let mut stdin = child.stdin.take().expect("its input");
            stdin.write_all(b"key\tvalue\n").expect("it reads");
            while !folder.names().iter().any(|name| name.ends_with(last)) {
                std::thread::yield_now();
            }
            let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
            assert!(kill.expect("kill starts").success());
            if is_ignored {
                std::thread::sleep(Duration::from_millis(100));
                drop(stdin);
                assert!(child.wait().expect("it ends").success(), "{kind}: it was to go on");
                run(&["get", &folder.path("store"), "key"]).expect(0);
            } else {
                let ended = child.wait().expect("it ends");
                assert_eq!(ended.code(), None, "{kind}, {signal}: ended by the signal");
                assert_eq!(folder.names(), Vec::<String>::new(), "{kind}, {signal}");
            }
        }
    }
}

/// The limit of file sizes stands for the full disk wherever no filesystem may be mounted.
#[test]
fn a_file_size_limit_is_an_error_and_the_old_store_stays() {
    let folder = Folder::new();
    let text = folder.file("text", cdb_text(&plain_records(30_000)));
    for kind in KINDS {
        let store = folder.store(kind, &plain_records(10));
        let old = std::fs::read(&store).expect("the old store");
        let names = folder.names();
        for more in ["", " --duplicates last"] {
            let script = format!("ulimit -f 64; exec \"$1\" load \"$2\" \"$3\" --to {kind}{more}");
            let got = shell(&script, &[&store, &text]);
            assert_eq!(got.status, 111, "{kind}{more}: {}", got.err);
            is_told(&got, &store);
            assert!(std::fs::read(&store).expect("a store") == old, "{kind}{more}");
            assert_eq!(folder.names(), names);
        }
    }
}

/// The program was aborted.
#[test]
fn a_record_that_does_not_fit_in_memory_is_refused_with_its_place() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(10));
    let before = std::fs::read(&store).expect("the old store");
    let names = folder.names();
    // Without what would be long: it never ends.
    for (format, begin, place) in [
        (
            "cdb",
            "+1,1:a->b\n+1,4294967295:k->",
            "line 2, column 18: there is no memory for a value of ",
        ),
        ("tsv", "a\tb\nk\t", "line 2, column 3: there is no memory for a value of "),
        ("map", "a b\nk ", "line 2, column 3: there is no memory for a value of "),
        (
            "db_dump",
            "VERSION=3\nformat=bytevalue\nHEADER=END\n 6b\n ",
            "line 5, column 2: there is no memory",
        ),
        ("tdbdump", "{\nkey(1) = \"k\"\ndata(4) = \"", "line 3, column 12: there is no memory"),
        ("mdbm_export", "format=print\nHEADER=END\nk\n", "line 4, column 1: there is no memory"),
        (
            "jsonl",
            "\n {\"key\":\"k\",\"value\":\"",
            "line 2, column 2: there is no memory for a line of ",
        ),
    ] {
        let got = load_in_little_memory(&store, format, begin, "yes aaaaaaa | tr -d '\\n'");
        let got = got.expect(111);
        assert!(got.err.contains(place), "{format}: {}", got.err);
        assert!(std::fs::read(&store).expect("the old store") == before, "{format}");
        assert_eq!(folder.names(), names, "{format} left a file");
    }
    // The line fits, and what is made of it does not: the first that is too long, whatever the program itself needs.
    let begin = "{\"key\":\"k\",\"value\":\"\\n";
    let refused = (10..40u32).map(|n| n * 1_000_000).find_map(|len| {
        let rest = format!("head -c {len} /dev/zero | tr '\\0' a; printf '\"}}\\n'");
        let got = load_in_little_memory(&store, "jsonl", begin, &rest);
        (got.status != 0).then(|| (got.expect(111), len))
    });
    let (got, len) = refused.expect("a line that does not fit");
    let bytes = len + 24;
    let place = format!("line 1, column 1: there is no memory for a line of {bytes} bytes");
    assert!(got.err.contains(&place), "{}", got.err);
}

/// `load` into a constant store of a text that begins so and goes on with what the script `rest` writes.
fn load_in_little_memory(store: &str, format: &str, begin: &str, rest: &str) -> Run {
    let script = format!(
        "(printf '%s' \"$3\"; {rest}) 2>/dev/null | (ulimit -v 100000; exec \"$1\" load \"$2\" --from {format})"
    );
    shell(&script, &[store, begin])
}

/// It filled the memory.
#[test]
fn an_endless_line_ends_the_shell() {
    let folder = Folder::new();
    let store = folder.store("btree", &plain_records(1));
    let script = "(echo len; cat /dev/zero) | (ulimit -v 600000; exec \"$1\" shell \"$2\")";
    let got = shell(script, &[&store]).expect(111);
    assert!(got.err.contains("line 2: a line of more than 67108864 bytes"), "{}", got.err);
    assert_eq!(got.text(), "1\n");
}

/// That the limit is the error of this run, with this file's name and what to do.
#[track_caller]
fn is_told(got: &Run, file: &str) {
    let begin = format!("error: {file}: cannot ");
    assert!(got.err.starts_with(&begin) && got.err.contains("`ulimit -f`"), "{file}: {}", got.err);
}

/// The kernel ends who writes beyond the limit, unless the program takes care.
#[test]
fn a_file_size_limit_is_an_error_of_every_command_that_writes_a_file() {
    let folder = Folder::new();
    let text = folder.file("text", cdb_text(&plain_records(30_000)));
    let constant = folder.store("constant", &plain_records(30_000));
    let btree = folder.store("btree", &plain_records(30_000));
    let hash = folder.store("hash", &plain_records(30_000));
    let names = folder.names();
    let target = folder.path("target");
    let limited = |script: &str, source: &str| {
        shell(&format!("ulimit -f 64; exec \"$1\" {script}"), &[source, &target]).expect(111)
    };
    for (script, source) in [
        ("dump \"$2\" -o \"$3\"", &constant),
        ("dump \"$2\" -o \"$3\"", &btree),
        ("convert \"$2\" \"$3\" --to cdb", &btree),
        ("convert \"$2\" \"$3\" --to jsonl", &text),
        ("backup \"$2\" \"$3\"", &btree),
        ("freeze \"$2\" \"$3\"", &btree),
        ("freeze \"$2\" \"$3\"", &hash),
    ] {
        is_told(&limited(script, source), &target);
        assert_eq!(folder.names(), names, "{script}");
    }
    // Under another name while they are built, which is gone when somebody looks for it.
    for (script, source) in [
        ("load \"$3\" \"$2\" --to hash", &text),
        ("load \"$3\" \"$2\" --to btree", &text),
        ("convert \"$2\" \"$3\" --to hash", &text),
        ("convert \"$2\" \"$3\" --to btree", &constant),
        ("convert \"$2\" \"$3\" --to btree", &btree),
        ("thaw \"$2\" \"$3\"", &constant),
        ("thaw \"$2\" \"$3\" --engine btree", &constant),
        ("recover \"$2\" \"$3\"", &hash),
        ("backup \"$2\" \"$3\"", &hash),
    ] {
        is_told(&limited(script, source), &target);
        assert_eq!(folder.names(), names, "{script}");
    }
    is_told(&limited("dump \"$2\" > \"$3\"", &constant), "standard output");
}

/// Other people's programs are ended as ever.
#[test]
fn a_recorded_command_is_ended_by_a_file_size_limit() {
    let folder = Folder::new();
    let script = "exec \"$1\" record \"$2\" -- bash -c 'kill -XFSZ $$'";
    shell(script, &[&folder.path("trace")]).expect(128 + 25);
    let script = format!("trap '' XFSZ; {script}");
    shell(&script, &[&folder.path("trace")]).expect(0);
}

#[test]
fn records_that_wait_and_find_no_room_name_their_folder() {
    let folder = Folder::new();
    let text = folder.file("text", format!("key\t{}\n", "v".repeat(6 << 20)));
    let script = "ulimit -f 1024; exec \"$1\" load \"$2\" \"$3\" --from tsv --duplicates last";
    let got = shell(script, &[&folder.path("store"), &text]).expect(111);
    is_told(&got, folder.0.path().to_str().expect("text"));
    assert_eq!(folder.names(), ["text"]);
}

#[test]
fn a_full_disk_is_an_error_and_the_old_store_stays() {
    let folder = Folder::new();
    let Some((disk, _mount)) = small_disk(&folder) else { return };
    let text = folder.file("text", cdb_text(&plain_records(100_000)));
    for kind in KINDS {
        let store = format!("{disk}/store");
        let small = folder.file("small", cdb_text(&plain_records(10)));
        run(&["load", &store, &small, "--to", kind]).expect(0);
        let old = std::fs::read(&store).expect("the old store");
        for more in [&[][..], &["--duplicates", "last"]] {
            let args = [&["load", &store, &text, "--to", kind], more].concat();
            let got = run(&args).expect(111);
            assert!(got.err.contains("No space left"), "{kind}: {}", got.err);
            assert!(got.err.starts_with(&format!("error: {store}: ")), "{kind}: {}", got.err);
            assert!(std::fs::read(&store).expect("a store") == old, "{kind}");
            assert_eq!(names_in(Path::new(&disk)), ["store"]);
        }
        let big = folder.store(kind, &plain_records(100_000));
        let out = format!("{disk}/dump.txt");
        let got = run(&["dump", &big, "-o", &out]).expect(111);
        assert!(got.err.contains("No space left"), "{kind}: {}", got.err);
        assert_eq!(names_in(Path::new(&disk)), ["store"]);
    }
}

/// What waits lay beside the link, where there was no room.
#[test]
fn a_link_to_a_store_needs_no_room_beside_it() {
    let folder = Folder::new();
    let Some((disk, _mount)) = small_disk(&folder) else { return };
    let text = folder.file("text", cdb_text(&plain_records(200_000)));
    let (link, store) = (format!("{disk}/link"), folder.path("store"));
    std::os::unix::fs::symlink(&store, &link).expect("a link");
    // Also of one that is not there yet.
    for more in [&["--duplicates", "last"][..], &["--duplicates", "last"], &[]] {
        run(&[&["load", &link, &text], more].concat()).expect(0);
        assert_eq!(parsed(run(&["stat", &store, "--json"]))["records"], 200_000);
    }
}

/// Other commands that read open a store there by themselves; the shell may be meant to write.
#[test]
fn a_shell_that_cannot_write_says_how_it_reads() {
    let folder = Folder::new();
    let disk = folder.path("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let Some(_mount) = Mount::tmpfs(&disk, "64m") else {
        eprintln!("skipped: this user may not mount a filesystem");
        return;
    };
    let stores = ["hash", "btree"].map(|engine| {
        let store = format!("{disk}/{engine}");
        run(&["create", &store, "--engine", engine]).expect(0);
        run(&["put", &store, "bob", "1001"]).expect(0);
        store
    });
    let remount = Command::new("mount").args(["-o", "remount,ro", &disk]).status();
    assert!(remount.expect("mount starts").success());
    for store in &stores {
        let got = run_with(&["shell", store], b"get bob\n").expect(111);
        let says = "with --read-only the shell opens it to read";
        assert!(got.err.contains("Read-only") && got.err.contains(says), "{}", got.err);
        let got = run_with(&["shell", store, "--read-only"], b"get bob\n").expect(0);
        assert_eq!(got.text(), "1001\n");
    }
}

/// A folder with room for 1 MiB; `None`, which is told, where this user may not make one.
fn small_disk(folder: &Folder) -> Option<(String, Mount)> {
    let disk = folder.path("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let mount = Mount::tmpfs(&disk, "1m");
    if mount.is_none() {
        eprintln!("skipped: this user may not mount a filesystem");
    }
    Some((disk, mount?))
}

/// A mounted filesystem, unmounted when dropped.
struct Mount(String);

impl Mount {
    fn tmpfs(folder: &str, size: &str) -> Option<Mount> {
        let option = format!("size={size}");
        let args = ["-t", "tmpfs", "-o", &option, "tmpfs", folder];
        let mounted = Command::new("mount").args(args).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| Mount(folder.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(1000));
    for command in [
        "dump \"$2\"",
        "dump \"$2\" --to jsonl",
        "dump \"$2\" -o /dev/full",
        "scan \"$2\"",
        "scan \"$2\" --json",
        "get \"$2\" key7",
        "get \"$2\" key7 --json",
        "stat \"$2\"",
        "verify \"$2\"",
        "preload \"$2\"",
        "completions bash",
        "man",
        "convert \"$2\" - --to tsv",
    ] {
        let got = shell(&format!("\"$1\" {command} > /dev/full"), &[&store]);
        assert_eq!(got.status, 111, "{command}: {}", got.err);
        assert!(got.err.contains("No space left"), "{command}: {}", got.err);
    }
}

/// It would be done once more by who believes that nothing was.
#[test]
fn what_is_done_but_cannot_be_told_is_said_to_be_done() {
    let folder = Folder::new();
    let store = folder.path("store");
    run(&["create", &store, "--engine", "btree"]).expect(0);
    run(&["table", "create", &store, "log", "--numbered"]).expect(0);
    let text = folder.file("text", "a\t1\n");
    for command in [
        "put \"$2\" --table log --append hello",
        "put \"$2\" --from tsv < \"$3\"",
        "load \"$2\" \"$3\"",
        "load \"$2.new\" \"$3\" --json",
        "delete \"$2\" a --json",
        "convert \"$3\" \"$2.new\" --to constant",
        "freeze \"$2\" \"$2.frozen\"",
        "thaw \"$2\" \"$2.thawed\"",
        "backup \"$2\" \"$2.copy\" --json",
        "compact \"$2\"",
        "create \"$2.other\"",
    ] {
        let got = shell(&format!("\"$1\" {command} > /dev/full"), &[&store, &text]);
        assert_eq!(got.status, 111, "{command}: {}", got.err);
        let said = "standard output: it is done, but could not be told: No space left on device";
        assert!(got.err.contains(said) && !got.err.contains("again"), "{command}: {}", got.err);
    }
    assert_eq!(run(&["get", &store, "--table", "log", "1"]).expect(0).text(), "hello");
}

/// Damage is not hidden by a reader who has gone.
#[test]
fn the_status_of_verify_is_about_all_stores_whoever_reads() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(10));
    let none = folder.path("none");
    for json in [&[][..], &["--json"]] {
        for (stores, status) in [(&[&*store, &none][..], 111), (&[&*store, &store], 0)] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let mut verify = Command::new(program());
            let left = verify.arg("verify").args(json).args(stores).stdout(writer).output();
            let left = left.expect("it ends");
            assert_eq!(left.status.code(), Some(status), "{json:?} {stores:?}");
            let err = String::from_utf8_lossy(&left.stderr);
            assert_eq!(err.contains(&none), json.is_empty() && status != 0, "{err}");
        }
    }
}

/// Whoever has seen enough closes the pipe: status 0, nothing on standard error.
#[test]
fn a_closed_pipe_is_quiet() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(100_000));
    let keys = folder.path("keys");
    let names: Vec<u8> = (0..100_000).flat_map(|i| format!("key{i}\n").into_bytes()).collect();
    std::fs::write(&keys, names).expect("a file of keys");
    for args in [
        &["dump", &store][..],
        &["dump", &store, "--to", "jsonl"],
        &["dump", &store, "--access", "read"],
        &["scan", &store],
        &["scan", &store, "--json"],
        &["get", &store, "--keys-from", &keys],
        &["get", &store, "--keys-from", &keys, "--json"],
        &["convert", &store, "-", "--to", "tsv"],
    ] {
        let mut child = Command::new(program())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut start = [0; 100];
        let mut out = child.stdout.take().expect("its output");
        out.read_exact(&mut start).expect("the beginning");
        drop(out);
        let left = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&left.stderr).into_owned();
        assert!(err.is_empty(), "{args:?}: {err}");
        assert_eq!(left.status.code(), Some(0), "{args:?}");
    }
}

/// A script is done to its end, whoever reads what it says.
#[test]
fn a_shell_goes_on_when_nobody_reads_it() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(10));
    let mut child = Command::new(program())
        .args(["shell", &store])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("its input");
    let script = b"begin\nput a 1\nget a\nscan\nget a\ncommit\nput b 2\nget b\n";
    input.write_all(script).expect("it reads");
    drop(input);
    let left = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&left.stderr).into_owned();
    assert_eq!((left.status.code(), &*err), (Some(0), ""));
    for (key, value) in [("a", "1"), ("b", "2")] {
        assert_eq!(run(&["get", &store, key]).expect(0).text(), value);
    }
}

#[test]
fn closed_standard_streams_do_no_harm() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(10));
    for (script, status) in [
        ("\"$1\" --help >&-", 0),
        ("\"$1\" nonsense 2>&-", 111),
        ("\"$1\" get \"$2\" none 2>&-", 100),
        ("\"$1\" get \"$2\" none 2>/dev/full", 100),
        ("\"$1\" verify /nowhere 2>/dev/full", 111),
        ("\"$1\" get \"$2\" key1 <&-", 0),
    ] {
        let got = shell(script, &[&store]);
        assert_eq!(got.status, status, "{script}: {}", got.err);
    }
}

/// Runs a line of shell; `$1` is the program, the rest are `args`.
fn shell(script: &str, args: &[&str]) -> Run {
    let output = Command::new("bash")
        .args(["-c", script, "bash"])
        .arg(program())
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    let status = output.status.code().unwrap_or_else(|| panic!("{script}: {}", output.status));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!err.contains("panicked"), "{script}: {err}");
    Run { status, out: output.stdout, err }
}
