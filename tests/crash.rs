//! Danger: a build that is killed, aborted or runs out of disk, and harms the file that was there
//! or leaves something behind.
//!
//! A killed builder leaves nothing, with one exception: killed between the two system calls that
//! name the finished file and rename it, it leaves that file, complete, as `.NAME.PID.N.tmp`.

mod common;

use common::mount::Mount;
use common::{Rng, child, is_child, rounds, seed, write_sparse};
use credenza::constant::{BuildOptions, Builder, Constant};
use credenza::{Get, Result, Scan};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Records of a file that is built in these tests.
const RECORDS: u64 = 5000;

/// Builds a file all of whose values name its generation.
fn build(path: &Path, generation: u64, records: u64) -> Result<()> {
    let mut builder = BuildOptions::new().memory_budget(8 << 20).create(path)?;
    for i in 0..records {
        // Some small, some in the log.
        let len = if i % 50 == 0 { 300 } else { 8 };
        let mut value = vec![0; len];
        value[..8].copy_from_slice(&generation.to_le_bytes());
        builder.add(format!("key {i}").as_bytes(), &value)?;
    }
    builder.finish().map(drop)
}

/// The generation of the file: it is whole and sound, and of one only.
fn generation_of(path: &Path, records: u64) -> u64 {
    let store = Constant::open(path).unwrap();
    store.verify(|_, _| ()).unwrap();
    assert_eq!(store.len().unwrap(), records);
    let mut generations = Vec::new();
    let collect = |_: &[u8], value: &[u8]| {
        generations.push(u64::from_le_bytes(value[..8].try_into().unwrap()));
        Ok(())
    };
    store.scan(collect).unwrap();
    generations.dedup();
    assert_eq!(generations.len(), 1, "records of several generations in one file");
    generations[0]
}

/// What is in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A child's work: builds one generation after the other until it is killed, or only one.
#[test]
fn child_builds() {
    if !is_child() {
        return;
    }
    let variable = |name: &str| std::env::var(name).unwrap();
    let number = |name: &str| variable(name).parse::<u64>().unwrap();
    let path = PathBuf::from(variable("BUILD_PATH"));
    let (records, builds) = (number("BUILD_RECORDS"), number("BUILD_COUNT"));
    for generation in 1..=builds {
        if let Err(error) = build(&path, generation, records) {
            eprintln!("the error: {error}");
            std::process::exit(7);
        }
    }
}

fn builder_of(path: &Path, records: u64, builds: u64) -> Command {
    let mut command = child("child_builds");
    command.env("BUILD_PATH", path).env("BUILD_RECORDS", records.to_string());
    command.env("BUILD_COUNT", builds.to_string());
    command.stdout(Stdio::null());
    command
}

/// Kills builders at random times, of files that fit in memory or do not.
fn kill_builders(records: u64, count: u64, longest: Duration) {
    let seed = seed(records);
    let mut rng = Rng::new(seed);
    for round in 0..count {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        build(&path, 0, records).unwrap();
        let mut builder = builder_of(&path, records, u64::MAX).spawn().unwrap();
        // The delay decides at what moment the builder dies; nothing waits for anything.
        std::thread::sleep(Duration::from_micros(rng.below(longest.as_micros() as u64)));
        builder.kill().unwrap();
        builder.wait().unwrap();
        let generation = generation_of(&path, records);
        let left: Vec<String> = names(folder.path());
        let left: Vec<&String> = left.iter().filter(|name| *name != "store").collect();
        println!("round {round}: killed after {generation} generations, left {left:?}");
        for name in &left {
            let of_builder = format!(".store.{}.", builder.id());
            assert!(name.starts_with(&of_builder) && name.ends_with(".tmp"), "stray {name}");
            assert_eq!(generation_of(&folder.path().join(name), records), generation + 1);
        }
        assert!(left.len() <= 1, "{left:?}");
    }
}

#[test]
fn a_killed_builder_leaves_the_old_file_or_the_new_one() {
    kill_builders(RECORDS, rounds(40), Duration::from_millis(200));
}

#[test]
fn a_builder_killed_while_it_spills_leaves_nothing_either() {
    kill_builders(300_000, rounds(3), Duration::from_secs(3));
}

#[test]
fn an_aborted_build_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for old in [false, true] {
        if old {
            build(&path, 3, RECORDS).unwrap();
        }
        let before = names(folder.path());
        let mut builder = BuildOptions::new().memory_budget(8 << 20).create(&path).unwrap();
        for i in 0..300_000u64 {
            builder.add(&i.to_le_bytes(), &[1; 20]).unwrap();
        }
        builder.add(b"large", &vec![2; 1 << 20]).unwrap();
        assert_eq!(names(folder.path()), before, "nothing is visible while building");
        drop(builder);
        assert_eq!(names(folder.path()), before);
    }
    assert_eq!(generation_of(&path, RECORDS), 3);
}

#[test]
fn a_replaced_file_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    build(&path, 1, 10).unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let usual = fs::metadata(&plain).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(), usual, "a new file has the mode that any new file has here");
    for kept in [0o600, 0o640, 0o444, 0o664] {
        fs::set_permissions(&path, fs::Permissions::from_mode(kept)).unwrap();
        build(&path, 2, 10).unwrap();
        assert_eq!(mode(), kept);
    }
}

#[test]
fn what_a_symbolic_link_leads_to_is_replaced_and_not_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    build(&there.join("store"), 1, 10).unwrap();
    symlink("../there/store", here.join("link")).unwrap();
    build(&here.join("link"), 2, 10).unwrap();
    assert!(fs::symlink_metadata(here.join("link")).unwrap().is_symlink());
    assert_eq!(generation_of(&there.join("store"), 10), 2);
    assert_eq!((names(&here), names(&there)), (vec!["link".into()], vec!["store".into()]));
}

#[test]
fn targets_that_cannot_be_are_refused_before_anything_is_added() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |path: &Path| Builder::create(path).unwrap_err().to_string();
    let message = refusal(folder.path());
    assert!(message.contains("regular file"), "{message}");
    let message = refusal(&folder.path().join("missing/store"));
    assert!(message.contains("missing"), "{message}");
    let message = refusal(Path::new("/dev/null"));
    assert!(message.contains("regular file"), "{message}");
    assert!(names(folder.path()).is_empty());
}

/// The longest name that there can be leaves no room for a longer one beside it.
#[test]
fn a_file_may_have_the_longest_name() {
    let folder = tempfile::tempdir().unwrap();
    let name = "n".repeat(255);
    for generation in 1..3 {
        build(&folder.path().join(&name), generation, 10).unwrap();
        assert_eq!(generation_of(&folder.path().join(&name), 10), generation);
    }
    assert_eq!(names(folder.path()), [name]);
}

/// Builders of one file at once: the last to finish wins, and none gets in the way of another.
#[test]
fn builders_of_one_file_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let path = &path;
            scope.spawn(move || (0..10).for_each(|i| build(path, thread * 10 + i, 500).unwrap()));
        }
    });
    assert!(generation_of(&path, 500) % 10 == 9);
    assert_eq!(names(folder.path()), ["store"]);
}

#[test]
fn a_full_disk_is_an_error_and_the_old_file_stays() {
    // Too small for the file; and large enough for it, but not for what is spilled beside it.
    for (size, records) in [("1m", 100_000), ("9m", 500_000)] {
        let Some(mount) = Mount::of_size(size) else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let path = mount.path().join("store");
        build(&path, 4, 1000).unwrap();
        let error = build(&path, 5, records).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("free some space"), "{size}: {message}");
        assert!(message.contains("store"), "{size}: the message names no file: {message}");
        assert_eq!(generation_of(&path, 1000), 4);
        assert_eq!(names(mount.path()), ["store"]);
        build(&path, 6, 1000).unwrap();
    }
}

/// A copy with holes in a file system in memory that is full: whoever looked at a hole through a map was ended (SIGBUS).
#[test]
fn a_file_with_holes_is_read_where_there_is_no_room_for_them() {
    const SIZE: usize = 256 << 10;
    let Some(mount) = Mount::of_size("1m") else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let records = || [(&b"first"[..], &b"one"[..]), (b"zeros", &[0; SIZE]), (b"last", b"three")];
    let [constant, cdb, mcdb] = ["constant", "cdb", "mcdb"].map(|name| folder.path().join(name));
    let mut builder = BuildOptions::new().create(&constant).unwrap();
    records().iter().for_each(|(key, value)| builder.add(key, value).unwrap());
    builder.finish().unwrap();
    let mut builder = credenza::foreign::CdbWriter::create(&cdb).unwrap();
    records().iter().for_each(|(key, value)| builder.add(key, value).unwrap());
    builder.finish().unwrap();
    let mut builder = credenza::foreign::McdbWriter::create(&mcdb).unwrap();
    records().iter().for_each(|(key, value)| builder.add(key, value).unwrap());
    builder.finish().unwrap();
    for path in [&constant, &cdb, &mcdb] {
        let bytes = fs::read(path).unwrap();
        let copy = mount.path().join(path.file_name().unwrap());
        let sparse = write_sparse(&copy, &bytes);
        assert!(sparse.metadata().unwrap().blocks() * 512 < bytes.len() as u64);
    }
    fs::write(mount.path().join("rest"), vec![1; 1 << 20]).unwrap_err();
    for path in [constant, cdb, mcdb] {
        let copy = mount.path().join(path.file_name().unwrap());
        let store = credenza::open(&copy).unwrap();
        for (key, value) in records() {
            assert!(store.get(key).unwrap().as_deref() == Some(value), "{}", copy.display());
        }
        let mut read = 0;
        store
            .scan(|_, value| {
                read += value.len();
                Ok(())
            })
            .unwrap();
        assert_eq!(read, SIZE + 8);
    }
}

/// A path that does not begin at the root means what it meant at first, whatever folder the program has gone to since: the
/// file appeared there, or not at all.
#[test]
fn a_file_appears_in_the_folder_where_it_was_begun() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    for folder in [&first, &second] {
        fs::create_dir(folder).unwrap();
    }
    let mut child = child("goes_to_another_folder");
    assert!(child.current_dir(&first).status().unwrap().success());
    assert_eq!(names(&first), ["btree", "cdb", "hash", "hash-index", "store"]);
    assert!(names(&second).is_empty());
}

/// The child.
#[test]
fn goes_to_another_folder() {
    if !is_child() {
        return;
    }
    let path = Path::new("store");
    let (first, second) = (Path::new("../first"), Path::new("../second"));
    let there = |folder| std::env::set_current_dir(folder).unwrap();
    let mut builder = BuildOptions::new().create(path).unwrap();
    builder.add(b"key", b"1").unwrap();
    let mut cdb = credenza::foreign::CdbWriter::create("cdb").unwrap();
    cdb.add(b"key", b"1").unwrap();
    let hash = credenza::HashBuilder::create("hash").unwrap();
    let btree = credenza::BTreeBuilder::create("btree").unwrap();
    there(second);
    builder.finish().unwrap();
    cdb.finish().unwrap();
    hash.finish().unwrap();
    btree.finish().unwrap();
    there(first);
    let mut store = Constant::open(path).unwrap();
    build(path, 2, 100).unwrap();
    there(second);
    assert!(store.refresh().unwrap());
    assert_eq!(store.path(), path);
    assert_eq!(store.len().unwrap(), 100);
}

/// What was built was lost, or appeared in another folder that has the old name.
#[test]
fn a_file_appears_in_its_folder_also_when_that_is_renamed() {
    let parent = tempfile::tempdir().unwrap();
    let folder = |name| parent.path().join(name);
    for has_new in [false, true] {
        let (old, now) = (folder("old"), folder("now"));
        fs::create_dir(&old).unwrap();
        let mut builder = BuildOptions::new().create(old.join("store")).unwrap();
        builder.add(b"key", b"1").unwrap();
        let cdb = credenza::foreign::CdbWriter::create(old.join("cdb")).unwrap();
        let large = BuildOptions::new().memory_budget(8 << 20);
        let mut large = large.create(old.join("large")).unwrap();
        let mut hash = credenza::HashBuilder::create(old.join("hash")).unwrap();
        hash.add(b"key", b"1").unwrap();
        let mut btree = credenza::BTreeBuilder::create(old.join("btree")).unwrap();
        btree.memory_budget(1 << 20).unwrap();
        btree.add(b"key", b"1").unwrap();
        let given_up = credenza::HashBuilder::create(old.join("given up")).unwrap();
        fs::rename(&old, &now).unwrap();
        if has_new {
            fs::create_dir(&old).unwrap();
        }
        drop(given_up);
        builder.finish().unwrap();
        cdb.finish().unwrap();
        // What does not fit in memory goes to a file beside it, too.
        for key in (0..400_000u32).rev() {
            large.add(&key.to_le_bytes(), &[7; 8]).unwrap();
            btree.add(&key.to_le_bytes(), &[7; 8]).unwrap();
        }
        large.finish().unwrap();
        hash.finish().unwrap();
        btree.finish().unwrap();
        assert_eq!(names(&now), ["btree", "cdb", "hash", "hash-index", "large", "store"]);
        assert!(!has_new || names(&old).is_empty());
        fs::remove_dir_all(&now).unwrap();
    }
}

/// Writes that fail for another reason: a file may not become larger than 64 KiB.
#[test]
fn a_write_that_fails_is_an_error_and_the_old_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    build(&path, 4, 1000).unwrap();
    let builder = builder_of(&path, 30_000, 1);
    let mut shell = Command::new("sh");
    // 128 blocks of 512 bytes; the signal is ignored, so that writing returns an error.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 128 && exec \"$0\" \"$@\""]);
    shell.arg(builder.get_program()).args(builder.get_args());
    shell.envs(builder.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{message}");
    assert!(message.contains("cannot write") && message.contains("store"), "{message}");
    assert_eq!(generation_of(&path, 1000), 4);
    assert_eq!(names(folder.path()), ["store"]);
}

/// The number that a system call in a line of strace returned.
fn returned(line: &str) -> &str {
    line.rsplit("= ").next().unwrap_or_default().trim()
}

/// The file is durable before it has the name, and the name is durable before `finish` returns.
#[test]
fn publishing_makes_durable_in_the_right_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let trace = folder.path().join("trace");
    build(&path, 1, 10).unwrap();
    let builder = builder_of(&path, 100, 1);
    let mut strace = Command::new("strace");
    strace.args([
        "-f",
        "-e",
        "trace=?open,openat,write,pwrite64,ftruncate,fsync,fdatasync,linkat,rename",
    ]);
    strace.arg("-o").arg(&trace).arg(builder.get_program()).args(builder.get_args());
    strace.envs(builder.get_envs().filter_map(|(name, value)| Some((name, value?))));
    strace.stdout(Stdio::null()).stderr(Stdio::null());
    if !strace.status().is_ok_and(|status| status.success()) {
        println!("skipped: strace is not installed, or may not trace here");
        return;
    }
    let trace = fs::read_to_string(&trace).unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    let last = |wanted: &dyn Fn(&str) -> bool| lines.iter().rposition(|line| wanted(line));
    let renamed = last(&|line| line.contains("rename(") && line.contains("store")).unwrap();
    let synced = last(&|line| line.contains("fdatasync(")).unwrap();
    let file = lines[synced].split(['(', ')']).nth(1).unwrap();
    let written = last(&|line| {
        line.contains(&format!("pwrite64({file},")) || line.contains(&format!("ftruncate({file},"))
    });
    let folder_synced = last(&|line| line.contains(" fsync(")).unwrap();
    let folder_fd = lines[folder_synced].split(['(', ')']).nth(1).unwrap();
    let opened = last(&|line| line.contains(" open") && returned(line) == folder_fd).unwrap();
    assert!(lines[opened].contains(&format!("{:?}", folder.path())), "{trace}");
    let wrote_after = lines[synced..].iter().any(|line| line.contains("pwrite64("));
    assert!(!wrote_after, "something is written after the file was made durable:\n{trace}");
    assert!(written.is_none_or(|written| written < synced), "{trace}");
    assert!(synced < renamed && renamed < folder_synced, "{trace}");
    assert!([synced, renamed, folder_synced].iter().all(|i| returned(lines[*i]) == "0"), "{trace}");
}
