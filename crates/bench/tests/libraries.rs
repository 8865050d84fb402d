//! Danger: one library that is damaged, or another one than its name says, ends the whole run, or is
//! measured as what it is not. Whoever opens a library first may die of it, and the run must go on.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A shared library of this C source.
fn library(folder: &Path, source: &str) -> PathBuf {
    let (text, file) = (folder.join("library.c"), folder.join("library.so"));
    std::fs::write(&text, source).unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&file, &text]).status();
    assert!(made.unwrap().success(), "a C compiler is needed, as for the crates that we build on");
    file
}

fn bench(library: &Path, dir: &Path, args: &[&str]) -> (Output, String) {
    let small = ["--records=100", "--gets=100", "--rounds=1", "--no-pin", "--phases=build,get-hit"];
    let dir = format!("--dir={}", dir.display());
    run(&[&small[..], &[&dir], args].concat(), library)
}

fn run(args: &[&str], library: &Path) -> (Output, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_credenza-bench"))
        .args(args)
        .arg(format!("--lib=lmdb={}", library.display()))
        .output()
        .unwrap();
    // The report is broken into lines as they fit.
    let said = [&*out.stdout, &out.stderr].map(String::from_utf8_lossy).concat();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    (out, said)
}

/// That a run with this library names it with these words, and goes on with the other store.
fn is_named(source: &str, words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = library(folder.path(), source);
    let dir = tempfile::tempdir().unwrap();
    let (out, said) = bench(&file, dir.path(), &["--stores=lmdb,hash"]);
    assert_eq!(out.status.code(), Some(111), "{said}");
    assert!(said.contains(words) && said.contains("lmdb"), "{said}");
    assert!(said.contains("get store file build hit hash"), "{said}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    // Nor does the list end.
    let (out, said) = run(&["--list"], &file);
    assert!(out.status.success(), "{said}");
    assert!(said.contains("constant 0.") && said.contains("btree 0."), "{said}");
}

/// Danger: of a full disk one store says so in thousands of lines, and nobody sees what the others say.
#[test]
fn a_store_without_room_is_told_in_few_lines() {
    let dir = tempfile::tempdir().unwrap();
    // Each value takes a page of its own, so that the store is longer than the data, for which there is room.
    let workload = dir.path().join("long.toml");
    let text = "data = \"random\"\nrecords = 2000\nkey-size = \"8\"\nvalue-size = \"2200\"\n";
    std::fs::write(&workload, text).unwrap();
    let run = format!(
        "trap '' XFSZ; ulimit -f 11000; exec {} --stores=bdb-btree --workload={} --set=page-size=4K \
         --rounds=1 --no-pin --phases=build --dir={}",
        env!("CARGO_BIN_EXE_credenza-bench"),
        workload.display(),
        dir.path().display()
    );
    let out = Command::new("sh").args(["-c", &run]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    if said.contains("find its library") {
        return eprintln!("not tested: {said}");
    }
    assert_eq!(out.status.code(), Some(111), "{said}");
    assert!(said.contains("bdb-btree build") && said.contains("BDB0137"), "{said}");
    assert!(said.contains("says more, which is left out"), "{said}");
    assert!(said.lines().count() < 40, "{} lines: {said}", said.lines().count());
}

#[test]
fn a_library_that_ends_whoever_opens_it_does_not_end_the_run() {
    let source =
        "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { abort(); }";
    is_named(source, "it ended itself (SIGABRT)");
}

/// Danger: stores that are there are not compared, for want of one that is not, or the end of the run does not
/// show that one was not compared.
#[test]
fn the_oracle_names_what_cannot_be_opened_and_compares_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nothing.so");
    let dir = format!("--dir={}", folder.path().display());
    let small = ["--oracle", "--records=100", "--gets=200", &dir];
    let json = folder.path().join("out.json");
    let to = format!("--json={}", json.display());
    let args = ["--stores=hash,lmdb,btree", &to];
    let (out, said) = run(&[&small[..], &args].concat(), &file);
    assert_eq!(out.status.code(), Some(111), "{said}");
    assert!(said.contains("MISSING: lmdb: ") && said.contains("nothing.so"), "{said}");
    assert!(said.contains("hash, btree agree: 200 operations"), "{said}");
    let verdict = std::fs::read_to_string(&json).unwrap();
    let verdict: serde_json::Value = serde_json::from_str(&verdict).unwrap();
    assert_eq!(
        (&verdict["missing"][0]["store"], &verdict["operations"]),
        (&"lmdb".into(), &200.into())
    );
    // With one alone there is nothing to compare.
    let (out, said) = run(&[&small[..], &["--stores=hash,lmdb"]].concat(), &file);
    assert_eq!(out.status.code(), Some(111), "{said}");
    assert!(said.contains("two stores at least") && said.contains("; lmdb: "), "{said}");
}

/// As if all were well.
#[test]
fn a_library_that_leaves_when_it_is_opened_does_not_end_the_run() {
    let source =
        "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { _Exit(0); }";
    is_named(source, "it ended early (exit status: 0)");
}

/// All functions that LMDB's driver asks for, of which `mdb_version` is this one.
fn like_lmdb(version: &str) -> String {
    let calls = [
        "strerror",
        "env_create",
        "env_open",
        "env_close",
        "txn_begin",
        "txn_commit",
        "txn_abort",
        "dbi_open",
        "get",
        "put",
        "del",
        "cursor_open",
        "cursor_get",
        "cursor_put",
        "cursor_del",
        "cursor_close",
        "env_set_mapsize",
        "env_set_maxreaders",
        "txn_reset",
        "txn_renew",
        "cursor_renew",
        "set_compare",
        "stat",
    ];
    let calls = calls.map(|name| format!("int mdb_{name}(void) {{ return 1; }}\n")).concat();
    format!(
        "#include <stdlib.h>\nchar *mdb_version(int *a, int *b, int *c) {{ {version} }}\n{calls}"
    )
}

#[test]
fn a_function_that_a_library_has_not_is_named() {
    let source = like_lmdb("return 0;").replace("mdb_cursor_get(", "another(");
    is_named(&source, "it has no function mdb_cursor_get");
}

#[test]
fn a_library_that_dies_when_it_is_asked_for_its_version_does_not_end_the_run() {
    is_named(&like_lmdb("abort();"), "it ended itself (SIGABRT)");
}

#[test]
fn a_file_that_is_no_library_is_told_without_how_to_install_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notlib.so"), "text").unwrap();
    // Without a slash it is a file of this folder, and no name for the system's loader to look for.
    for file in ["notlib.so", "/dev/zero", "/"] {
        let done = Command::new(env!("CARGO_BIN_EXE_credenza-bench"))
            .args(["--records=9", "--rounds=1", "--phases=build", "--stores=lmdb"])
            .arg(format!("--lib=lmdb={file}"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(111), "{said}");
        let says = [file, "name a shared library of lmdb"];
        assert!(says.iter().all(|part| said.contains(part)), "{said}");
        assert!(!said.contains("apt-get") && !said.contains("cannot open"), "{said}");
    }
}

#[test]
fn a_library_that_is_named_is_missed_also_where_no_store_is() {
    let dir = tempfile::tempdir().unwrap();
    let (out, said) = bench(Path::new("/dev/zero"), dir.path(), &[]);
    assert_eq!(out.status.code(), Some(111), "{said}");
    assert!(said.contains("lmdb: missing: /dev/zero"), "{said}");
}

#[test]
fn a_library_of_a_version_that_nobody_knows_is_refused() {
    let version = "*a = 9; *b = *c = 0; return \"\";";
    is_named(&like_lmdb(version), "it is version '9.0.0', but the workbench knows 0.9.* alone");
}

/// The workbench, which finds a library of this source as LMDB's where nobody names one.
fn with_found(source: &str) -> (Output, String) {
    let (folder, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = library(folder.path(), source);
    std::fs::rename(file, folder.path().join("liblmdb.so.0")).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_credenza-bench"))
        .args(["--records=10", "--rounds=1", "--no-pin", "--phases=build", "--metrics=none"])
        .arg(format!("--dir={}", dir.path().display()))
        .env("LD_LIBRARY_PATH", folder.path())
        .env_remove("CREDENZA_LIB_NTDB")
        .output()
        .unwrap();
    let said = [&*out.stdout, &out.stderr].map(String::from_utf8_lossy).concat();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    (out, said)
}

/// A library that is there and of no use is no secret, and neither is one that is not there; nor is either a
/// failure of who named no store.
#[test]
fn stores_that_nobody_named_are_told_when_they_are_left_out() {
    let dies =
        "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { abort(); }";
    let old = like_lmdb("*a = 9; *b = *c = 0; return \"\";");
    let other = like_lmdb("return 0;").replace("mdb_cursor_get(", "another(");
    for (source, words) in [
        (dies, "it ended itself (SIGABRT)"),
        (&old, "says that it is version '9.0.0'"),
        (&other, "it has no function mdb_cursor_get"),
    ] {
        let (out, said) = with_found(source);
        assert_eq!(out.status.code(), Some(0), "{said}");
        assert!(said.contains("lmdb is left out: ") && said.contains(words), "{said}");
        // No package brings NTDB.
        let absent = said.split("not here: ").nth(1).and_then(|text| text.split(": `").next());
        let absent: Vec<&str> = absent.unwrap_or_default().split(", ").collect();
        assert!(absent.contains(&"ntdb") && !absent.contains(&"lmdb"), "{absent:?}");
        assert!(absent.iter().all(|name| !name.contains("resp")), "{absent:?}");
        assert!(said.contains("`credenza bench --list` says what brings them"), "{said}");
        assert!(!said.contains("Did not run"), "{said}");
    }
}

#[test]
fn a_library_that_the_environment_names_is_missed_where_no_store_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged.so");
    std::fs::write(&file, "text").unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_credenza-bench"))
        .args(["--records=100", "--rounds=1", "--no-pin", "--phases=build"])
        .env("CREDENZA_LIB_LMDB", &file)
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&out.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(out.status.code(), Some(111), "{said}");
    assert!(said.contains("lmdb: missing:") && said.contains("file too short"), "{said}");
}
