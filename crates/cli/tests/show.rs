//! Danger: what people and scripts are shown about a store is wrong, or garbles their terminal.

mod common;
use common::*;
use serde_json::Value;
use std::io::{BufRead, BufReader};

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn scan_shows_records_for_people() {
    let folder = Folder::new();
    let records = vec![(b"a\tb\x1b[2J\xff".to_vec(), "naïve\n".as_bytes().to_vec())];
    for kind in ALL_KINDS {
        let store = folder.store(kind, &records);
        let text = run(&["scan", &store]).expect(0).text();
        assert_eq!(text, "a\\tb\\x1b[2J\\xff\tnaïve\\n\n");
        assert_eq!(run(&["scan", &store, "--keys"]).expect(0).text(), "a\\tb\\x1b[2J\\xff\n");
        let json = json_lines(&run(&["scan", &store, "--json"]).expect(0).text());
        assert_eq!(json[0]["key_base64"], "YQliG1sySv8=");
        assert_eq!(json[0]["value"], "naïve\n");
        let json = json_lines(&run(&["scan", &store, "--json", "--keys"]).expect(0).text());
        assert!(json[0].get("value").is_none());
    }
}

/// Keys as people see them are others than those in the store: who deleted them deleted none, or not the ones he saw.
#[test]
fn keys_that_are_shown_can_be_read_by_other_commands() {
    let folder = Folder::new();
    let keys = [&b""[..], b"a\nb", b"a\\nb", b"\xff\r", b"-0", &[b'k'; 5000]];
    let records: Records = keys.iter().map(|key| (key.to_vec(), b"v".to_vec())).collect();
    let raw = |(key, _): &(Vec<u8>, Vec<u8>)| [key, &b"\0"[..]].concat();
    for kind in ALL_KINDS {
        let store = folder.store(kind, &records);
        let written = run(&["scan", &store, "--keys", "-0"]).expect(0).out;
        assert_eq!(written, dump(&store).iter().flat_map(raw).collect::<Vec<u8>>(), "{kind}");
        let found = run_with(&["get", &store, "-k", "-", "-0"], &written).expect(0).out;
        assert_eq!(parse_cdb_text(&found), dump(&store), "{kind}");
        if kind == "btree" {
            for args in [["range", &store, "-0", "--keys"], ["range", &store, "--keys", "--null"]] {
                assert_eq!(run(&args).expect(0).out, written);
            }
            let out = folder.path("keys");
            run(&["range", &store, "--keys", "-0", "-o", &out]).expect(0);
            assert_eq!(std::fs::read(&out).expect("the keys"), written);
        }
        if ["hash", "btree"].contains(&kind) {
            run_with(&["delete", &store, "-k", "-", "-0"], &written).expect(0);
            assert_eq!(dump(&store), []);
        }
    }
    // Half of it may be another key.
    let store = folder.store("btree", &vec![(b"a\0b".to_vec(), vec![])]);
    for command in ["scan", "range"] {
        let got = run(&[command, &store, "--keys", "-0"]).expect(111);
        assert!(
            got.err.contains("the key a\\x00b has a NUL byte") && got.out.is_empty(),
            "{}",
            got.err
        );
    }
    let got = run(&["range", &store, "-0"]).expect(111);
    assert!(got.err.contains("--keys") && got.err.contains("for the key -0 write"), "{}", got.err);
    run(&["range", &store, "--", "-0"]).expect(0);
    run(&["scan", &store, "-0"]).expect(111);
    run(&["range", &store, "-0", "--to", "tsv"]).expect(111);
}

#[test]
fn scan_stops_at_its_limit_and_cuts_long_values() {
    let folder = Folder::new();
    let long = vec![b'x'; 5000];
    let records = (0..50u8).map(|i| (vec![b'a' + i % 26, i], long.clone())).collect();
    for kind in ALL_KINDS {
        let store = folder.store(kind, &records);
        for limit in ["0", "1", "49", "50", "51"] {
            let text = run(&["scan", &store, "--limit", limit]).expect(0).text();
            let expected: usize = limit.parse().expect("a number");
            assert_eq!(text.lines().count(), expected.min(50));
            assert!(text.lines().all(|line| line.ends_with("xxx ... (5000 bytes)")));
        }
        let text = run(&["scan", &store, "-n", "1", "--full"]).expect(0).text();
        assert!(text.contains(&"x".repeat(5000)));
    }
}

/// The half of one that was left looked as if it were no text.
#[test]
fn scan_cuts_no_character_in_two() {
    let folder = Folder::new();
    let value = format!("x{}", "é".repeat(150));
    let store = folder.store("constant", &vec![(b"key".to_vec(), value.into_bytes())]);
    let text = run(&["scan", &store]).expect(0).text();
    assert_eq!(text, format!("key\tx{} ... (301 bytes)\n", "é".repeat(99)));
}

#[test]
fn stat_adds_up() {
    let folder = Folder::new();
    let records = plain_records(1000);
    let keys: usize = records.iter().map(|(key, _)| key.len()).sum();
    let values: usize = records.iter().map(|(_, value)| value.len()).sum();
    for kind in ALL_KINDS {
        let store = folder.store(kind, &records);
        let stat = &json_lines(&run(&["stat", &store, "--json"]).expect(0).text())[0];
        assert_eq!(stat["kind"], kind);
        assert_eq!(stat["records"], 1000);
        assert_eq!(stat["key_bytes"], keys);
        assert_eq!(stat["value_bytes"], values);
        let bytes = std::fs::metadata(&store).expect("the store").len();
        assert_eq!(stat["file_bytes"], bytes);
        let sum = |names: &[&str]| names.iter().map(|n| stat[n].as_u64().expect("a size")).sum();
        let parts: u64 = sum(&["key_bytes", "value_bytes", "directory_bytes", "slack_bytes"]);
        assert_eq!(parts, bytes, "{kind}: {stat}");
        let text = run(&["stat", &store]).expect(0).text();
        for label in ["records", "1,000", "keys", "slack", "in memory", kind] {
            assert!(text.contains(label), "{kind}: {label} in\n{text}");
        }
    }
}

#[test]
fn stat_of_an_empty_store() {
    let folder = Folder::new();
    for kind in ALL_KINDS {
        let store = folder.store(kind, &vec![]);
        let text = run(&["stat", &store]).expect(0).text();
        assert!(text.contains("records") && !text.contains("NaN"), "{text}");
        assert_eq!(run(&["scan", &store]).expect(0).out, b"");
        assert_eq!(run(&["dump", &store]).expect(0).out, b"\n");
        run(&["get", &store, "x"]).expect(100);
        run(&["verify", &store]).expect(0);
        run(&["preload", &store]).expect(0);
    }
}

#[test]
fn verify_names_the_damaged_store_and_goes_on() {
    let folder = Folder::new();
    let records = plain_records(1000);
    let good = folder.store("constant", &records);
    let mut bytes = std::fs::read(&good).expect("the store");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let bad = folder.file("bad.store", &bytes);
    let absent = folder.path("absent");
    let text = run(&["verify", &bad, &absent, &good]).expect(111);
    assert_eq!(text.text().lines().count(), 1, "{}", text.text());
    assert!(text.text().contains(": ok (constant, 1,000 records, "), "{}", text.text());
    assert!(text.err.contains(&format!("{bad}: damaged at byte ")), "{}", text.err);
    assert!(text.err.contains(&format!("{absent}: cannot open")), "{}", text.err);
    let json = json_lines(&run(&["verify", &bad, &absent, &good, "--json"]).expect(111).text());
    assert_eq!(json.len(), 3);
    assert!(json[0]["ok"] == false && json[0]["offset"].is_u64(), "{}", json[0]);
    assert!(json[1]["ok"] == false && json[1]["offset"].is_null(), "{}", json[1]);
    assert!(json[2]["ok"] == true && json[2]["records"] == 1000, "{}", json[2]);
}

#[test]
fn verify_finds_every_single_changed_byte() {
    let folder = Folder::new();
    let good = folder.store("constant", &plain_records(40));
    let bytes = std::fs::read(&good).expect("the store");
    let mut random = Random::new();
    for _ in 0..60 {
        let at = random.below(bytes.len() as u64) as usize;
        let mut changed = bytes.clone();
        changed[at] ^= 1 << random.below(8);
        let bad = folder.file("bad.store", &changed);
        let got = run(&["verify", &bad]);
        assert_eq!(got.status, 111, "byte {at} of {}", bytes.len());
    }
}

#[test]
fn truncated_stores_are_errors_in_every_command() {
    let folder = Folder::new();
    let mut random = Random::new();
    for kind in KINDS {
        let good = folder.store(kind, &plain_records(200));
        let bytes = std::fs::read(&good).expect("the store");
        for _ in 0..5 {
            let len = random.below(bytes.len() as u64) as usize;
            let bad = folder.file("bad.store", &bytes[..len]);
            for command in ["verify", "dump", "scan", "stat", "preload"] {
                // A format without checksums may still be read as a smaller whole: no crash.
                let got = run(&[command, &bad]);
                assert!([0, 111].contains(&got.status), "{command} at {len}: {}", got.status);
            }
            assert_eq!(run(&["verify", &bad]).status, 111, "{kind} cut at {len}");
        }
    }
}

#[test]
fn preload_reports_residency() {
    let folder = Folder::new();
    for kind in ALL_KINDS {
        let store = folder.store(kind, &plain_records(1000));
        let json = json_lines(&run(&["preload", &store, "--json"]).expect(0).text());
        let total = json[0]["total_bytes"].as_u64().expect("a size");
        assert!(total >= std::fs::metadata(&store).expect("the store").len());
        assert_eq!(json[0]["resident_after_bytes"], total, "{kind}");
        let text = run(&["preload", &store]).expect(0).text();
        assert!(text.contains("in memory before"), "{text}");
    }
}

/// `preload --lock` of a store.
fn locking(store: &str) -> std::process::Command {
    let mut command = std::process::Command::new(program());
    command.args(["preload", store, "--lock"]);
    command
}

/// Reads the first line that a child writes, which stays until it is killed.
fn first_line(mut child: std::process::Child, of: impl std::io::Read) -> String {
    let mut line = String::new();
    BufReader::new(of).read_line(&mut line).expect("a line");
    assert!(child.try_wait().expect("a child").is_none(), "it must stay");
    child.kill().expect("it can be killed");
    assert_eq!(child.wait().expect("a status").code(), None);
    line
}

#[test]
fn preload_lock_stays_until_killed() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(100));
    let mut command = locking(&store);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let out = child.stdout.take().expect("its output");
    let line = first_line(child, out);
    assert!(line.contains("in memory before"), "{line}");
}

/// It ended at once, and nothing was locked any more.
#[test]
fn preload_lock_stays_when_nobody_reads_its_report() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(100));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = locking(&store);
    command.stdout(writer).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let err = child.stderr.take().expect("its errors");
    let line = first_line(child, err);
    assert!(line.starts_with("locked in memory"), "{line}");
}

/// All of it is in memory, as the kernel has it for who may only read a file.
#[test]
fn who_may_only_read_is_told_that_memory_is_not_told() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const SOMEBODY: u32 = 65_534;
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(100));
    for (path, mode) in [(folder.0.path(), 0o755), (store.as_ref(), 0o644)] {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("the mode can be changed");
    }
    for args in [&["stat", &store][..], &["preload", &store]] {
        let note = "memory: of a file that you neither own nor may write to";
        assert!(!run(args).expect(0).err.contains(note));
        let mut command = std::process::Command::new(program());
        let Ok(ended) = command.args(args).uid(SOMEBODY).gid(SOMEBODY).output() else {
            println!("not tested: only root can be somebody else, who may run the program");
            return;
        };
        let err = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && err.contains(note), "{args:?}: {err}");
    }
}

/// A file whose name is not UTF-8 is found again by what is said of it.
#[test]
fn a_path_that_is_no_text_is_told_as_bytes() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let store = folder.0.path().join(OsStr::from_bytes(b"n\xff"));
    let copy = folder.0.path().join(OsStr::from_bytes(b"c\xff"));
    let json = |command: &str, more: &[&OsStr]| -> Value {
        let mut run = credenza(&[command]);
        let got = run.arg(&store).args(more).arg("--json").output().expect("the program starts");
        serde_json::from_slice(&got.stdout).expect("JSON")
    };
    let bytes = |value: &Value| {
        let text = value.as_str().expect("text").to_owned();
        let object = format!("{{\"key_base64\":\"{text}\",\"value\":\"\"}}\n");
        let args = ["convert", "-", "-", "--from", "jsonl", "--to", "map"];
        let line = run_with(&args, object.as_bytes()).expect(0).out;
        line.split(|b| b.is_ascii_whitespace()).next().unwrap_or_default().to_vec()
    };
    for (command, more) in [
        ("create", &[][..]),
        ("put", &["a", "1"]),
        ("delete", &["a"]),
        ("stat", &[]),
        ("verify", &[]),
        ("preload", &[]),
        ("compact", &[]),
        ("load", &["/dev/null", "--from=tsv"]),
    ] {
        let more: Vec<&OsStr> = more.iter().map(OsStr::new).collect();
        let said = json(command, &more);
        assert_eq!(bytes(&said["store_base64"]), store.as_os_str().as_bytes(), "{command}: {said}");
        assert!(said.get("store").is_none(), "{said}");
    }
    let said = json("backup", &[copy.as_os_str()]);
    assert_eq!(bytes(&said["target_base64"]), copy.as_os_str().as_bytes(), "{said}");
}

/// One called the old file so, and another the new one.
#[test]
fn two_files_have_the_same_names_in_the_json_of_every_command() {
    let folder = Folder::new();
    let [hash, btree, constant] =
        ["hash", "btree", "constant"].map(|kind| folder.store(kind, &plain_records(3)));
    let target = folder.path("target");
    for (args, store) in [
        (&["backup", &hash, &target][..], &hash),
        (&["backup", &btree, &target], &btree),
        (&["recover", &hash, &target], &hash),
        (&["recover", &btree, &target], &btree),
        (&["freeze", &hash, &target], &target),
        (&["thaw", &constant, &target], &target),
        (&["thaw", &constant, &target, "--engine", "btree"], &target),
        (&["convert", &constant, &target, "--to", "cdb"], &target),
        (&["convert", &btree, &target, "--to", "btree"], &target),
    ] {
        let said = parsed(run(&[args, &["--json"]].concat()));
        let files = [&said["source"], &said["target"], &said["store"]];
        assert_eq!(files, [args[1], target.as_str(), store.as_str()], "{args:?}");
        folder.names().iter().filter(|name| name.starts_with("target")).for_each(|name| {
            std::fs::remove_file(folder.path(name)).expect("what was made");
        });
    }
    let said = parsed(run(&["load", &target, "/dev/null", "--from", "tsv", "--json"]));
    assert!(said.get("source").is_none() && said.get("target").is_none(), "{said}");
}
