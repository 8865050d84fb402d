//! Danger: databases of a dump of other tools lose their names, their kinds or their order without a word, or a dump
//! of ours loses values there.

mod common;
use common::*;
use std::process::{Command, Stdio};

/// Berkeley DB escapes the names of databases in dumps of both formats, LMDB in none.
#[test]
fn databases_keep_their_names() {
    let folder = Folder::new();
    let part = |header: &str| {
        format!("VERSION=3\nformat=bytevalue\ntype=btree\n{header}HEADER=END\n 6b\n 76\nDATA=END\n")
    };
    let names = [
        (r"\c3\bcber", "über"),
        (r"a\\b", r"a\b"),
        // Not escaped, and not UTF-8.
        (r"c:\temp", r"c:\temp"),
        (r"\fcber", r"\fcber"),
    ];
    let mut dump: String = names.map(|(name, _)| part(&format!("database={name}\n"))).concat();
    dump.push_str(&part("database=a\\\\c\nmapsize=1048576\nmaxreaders=126\n"));
    let text = folder.file("named.dump", dump);
    let store = folder.path("store");
    run(&["convert", &text, &store, "--to", "btree"]).expect(0);
    for name in names.map(|(_, name)| name).into_iter().chain([r"a\\c"]) {
        let got = run(&["get", &store, "k", "--table", name]).expect(0);
        assert_eq!(got.text(), "v", "{name}");
    }
}

/// Dumps of the real tools say what their databases are.
#[test]
fn databases_of_a_dump_become_tables() {
    let folder = Folder::new();
    let part = |header: &str, data: &str| {
        format!("VERSION=3\nformat=print\n{header}HEADER=END\n{data}DATA=END\n")
    };
    let lmdb = "type=btree\nmapsize=1048576\nmaxreaders=126\n";
    let numbers = " \\02\\00\\00\\00\n two\n \\ff\\01\\00\\00\n many\n";
    let dump = [
        part("type=btree\n", " key\n value\n"),
        part(&format!("database=groups\n{lmdb}duplicates=1\ndupsort=1\n"), " a\n 1\n a\n 2\n"),
        part(&format!("database=ids\n{lmdb}integerkey=1\n"), numbers),
        part(&format!("database=none\n{lmdb}"), ""),
        part("database=log\ntype=recno\nkeys=1\n", " 1\n first\n 10\n tenth\n"),
        part("database=loose\ntype=btree\nduplicates=1\n", " k\n b\n k\n a\n"),
    ];
    let text = folder.file("all.dump", dump.concat());
    let store = folder.path("store");
    run(&["convert", &text, &store, "--to", "btree"]).expect(0);
    let list = "1\t\n2\tgroups\tduplicates sorted\n2\tids\tkeys u32\n2\tlog\tkeys u32, numbered\n\
                2\tloose\tduplicates inserted\n0\tnone\n";
    assert_eq!(run(&["table", "list", &store]).expect(0).text(), list);
    let scan = |table: &str| run(&["scan", &store, "--table", table]).expect(0).text();
    assert_eq!(scan("groups"), "a\t1\na\t2\n");
    assert_eq!(scan("ids"), "2\ttwo\n511\tmany\n");
    assert_eq!(scan("log"), "1\tfirst\n10\ttenth\n");
    assert_eq!(scan("loose"), "k\tb\nk\ta\n");
    run(&["verify", &store]).expect(0);

    // One without a name behind one that has one.
    let late = folder.file("late.dump", [&*dump[2], &*dump[0]].concat());
    let of_late = folder.path("of-late");
    run(&["convert", &late, &of_late, "--to", "btree"]).expect(0);
    assert_eq!(run(&["scan", &of_late]).expect(0).text(), "key\tvalue\n");
    let ids = run(&["scan", &of_late, "--table", "ids"]).expect(0).text();
    assert_eq!(ids, "2\ttwo\n511\tmany\n");
    std::fs::remove_file(&late).expect("it is there");
    std::fs::remove_file(&of_late).expect("it is there");

    // Where there are no tables, no database takes the records of another.
    let new = folder.path("new");
    for args in [
        &["load", &new, &text][..],
        &["load", &new, &text, "--to", "btree"],
        &["load", &store, &text],
        &["convert", &text, &new, "--to", "constant"],
        &["convert", &text, &new, "--to", "jsonl"],
    ] {
        let got = run(args).expect(111);
        let what = format!("{text}: there are several databases in it");
        assert!(got.err.contains(&what), "{args:?}: {}", got.err);
        assert_eq!(run(&["table", "list", &store]).expect(0).text(), list);
        assert_eq!(folder.names(), ["all.dump", "store"]);
    }
    let got = run_with(&["put", &store, "--from", "db_dump"], dump.concat().as_bytes()).expect(111);
    assert!(got.err.contains("several databases"), "{}", got.err);
    let hash = folder.path("hash");
    run(&["create", &hash, "--engine", "hash"]).expect(0);
    let got = run(&["load", &hash, &text]).expect(111);
    assert!(got.err.contains("records of the first may be in"), "{}", got.err);

    let repeated = part("database=x\ntype=btree\n", " k\n b\n k\n a\n");
    let text = folder.file("repeated.dump", repeated);
    let got = run(&["convert", &text, &folder.path("new"), "--to", "btree"]).expect(111);
    let what = format!("error: {text}: a key comes more than once");
    assert!(got.err.starts_with(&what), "{}", got.err);
    // Whoever wants them all is told how: 'convert' made him choose one.
    let keep = "'table create --duplicates inserted' or 'sorted', and 'load --table' keep all";
    assert!(got.err.contains(keep), "{}", got.err);
    let keeping = folder.path("keeping");
    run(&["create", &keeping, "--engine", "btree"]).expect(0);
    run(&["table", "create", &keeping, "t", "--duplicates", "inserted"]).expect(0);
    run(&["load", &keeping, &text, "--table", "t"]).expect(0);
    let kept = run(&["dump", &keeping, "--table", "t", "--to", "tsv"]).expect(0).text();
    assert_eq!(kept, "k\tb\nk\ta\n");
    let odd = part(&format!("database=x\n{lmdb}integerkey=1\n"), " abc\n v\n");
    let text = folder.file("odd.dump", odd);
    let got = run(&["convert", &text, &folder.path("new"), "--to", "btree"]).expect(111);
    assert!(got.err.contains("integers of 8"), "{}", got.err);
    assert!(got.err.contains("odd.dump: db_dump-p input, line 9, column 1: a key"), "{}", got.err);
    let mut unnamed = part(&format!("database=?\n{lmdb}"), " k\n v\n").into_bytes();
    unnamed.iter_mut().filter(|byte| **byte == b'?').for_each(|byte| *byte = 0xff);
    let text = folder.file("unnamed.dump", unnamed);
    let got = run(&["convert", &text, &folder.path("new"), "--to", "btree"]).expect(111);
    let what =
        "unnamed.dump: db_dump-p input, line 8, column 1: the name '\\xff' of a database is not";
    assert!(got.err.contains(what), "{}", got.err);
    assert!(!folder.names().contains(&"new".to_owned()));
}

#[test]
fn what_the_main_table_cannot_keep_of_a_dump_is_told() {
    let folder = Folder::new();
    let dump = |header: &str, data: &str| {
        format!("VERSION=3\nformat=print\ntype=btree\n{header}HEADER=END\n{data}DATA=END\n")
    };
    let numbers = folder
        .file("numbers", dump("mapsize=1048576\nintegerkey=1\n", " \\02\\00\\00\\00\n two\n"));
    let store = folder.path("store");
    let got = run(&["convert", &numbers, &store, "--to", "btree"]).expect(0);
    let hint = "the keys of this dump are integers, and those of the main table their bytes: a line database=NAME";
    assert!(got.err.contains(hint), "{}", got.err);
    let again = ["--quiet", "convert", &numbers, &store, "--to", "btree", "--replace"];
    let got = run(&again).expect(0);
    assert_eq!(got.err, "");
    let recno = dump("", " 1\n first\n").replace("btree", "recno\nkeys=1");
    let recno = folder.file("recno", recno);
    let got = run(&["convert", &recno, &store, "--to", "btree", "--replace"]).expect(0);
    assert!(got.err.contains("are numbers of records, and those of the main table their digits"));
    // Also where they are added to what is there, and to a table: of numbers all is kept.
    for command in ["load", "put"] {
        let text = std::fs::read(&numbers).expect("a dump");
        let got = run_with(&[command, &store, "--from", "db_dump-p"], &text).expect(0);
        assert!(got.err.contains("the keys of this dump are integers"), "{command}: {}", got.err);
        let got = run_with(&[command, "-q", &store, "--from", "db_dump-p"], &text).expect(0);
        assert_eq!(got.err, "", "{command}");
    }
    run(&["table", "create", &store, "n", "--keys", "u32"]).expect(0);
    let got = run(&["load", &store, &folder.path("recno"), "--table", "n"]).expect(0);
    assert_eq!(got.err, "");
    let (new, hash) = (folder.path("new"), folder.path("hash"));
    let got = run(&["load", &new, &numbers, &folder.path("recno"), "--to", "btree"]).expect(0);
    assert!(got.err.contains("integers") && got.err.contains("of records"), "{}", got.err);
    assert_eq!(run(&["load", &hash, &numbers, "--to", "hash"]).expect(0).err, "");
    let several = folder.file("several", dump("duplicates=1\n", " k\n a\n k\n b\n"));
    let got = run(&["convert", &several, &store, "--to", "btree", "--replace"]).expect(111);
    assert!(got.err.contains("a line database=NAME in the header"), "{}", got.err);
    let named = folder.file("named", dump("database=t\nduplicates=1\n", " k\n a\n k\n b\n"));
    run(&["convert", &named, &store, "--to", "btree", "--replace"]).expect(0);
    assert_eq!(run(&["scan", &store, "--table", "t"]).expect(0).text(), "k\ta\nk\tb\n");
}

/// They were read, and their records are in another order without a word.
#[test]
fn orders_that_no_table_has_are_told() {
    let folder = Folder::new();
    let dump = |header: &str, data: &str| {
        let lmdb = "type=btree\nmapsize=1048576\nmaxreaders=126\n";
        format!("VERSION=3\nformat=print\n{lmdb}{header}HEADER=END\n{data}DATA=END\n")
    };
    let several = "duplicates=1\ndupsort=1\n";
    let data = " ba\n 1\n ab\n 2\n";
    let keys = |name: &str| {
        folder.file(&format!("keys {name}"), dump(&format!("{name}reversekey=1\n"), data))
    };
    let values = |name: &str, kind: &str| {
        folder.file(
            &format!("values {name}"),
            dump(&format!("{name}{several}{kind}=1\n"), " k\n b\n k\n a\n"),
        )
    };
    let store = folder.path("store");
    run(&["create", &store, "--engine", "btree"]).expect(0);
    run(&["table", "create", &store, "t", "--duplicates", "sorted"]).expect(0);
    let new = folder.path("new");
    for (args, told) in [
        (
            vec!["convert", &*keys("database=x\n"), &new, "--replace"],
            "the keys of database 'x' are in the order",
        ),
        (vec!["convert", &*keys(""), &new, "--replace"], "the keys of this dump are in the order"),
        (vec!["load", &store, &*keys("")], "the keys of this dump are in the order"),
        (
            vec!["convert", &*values("database=x\n", "integerdup"), &new, "--replace"],
            "the values of a key of database 'x' are in an order of their own",
        ),
        (
            vec!["load", &store, &*values("", "reversedup"), "--table", "t"],
            "table in that of their bytes",
        ),
    ] {
        let got = run(&[&args[..], &["--to", "btree"]].concat()).expect(0);
        assert!(got.err.contains(told) && got.err.lines().count() == 1, "{args:?}: {}", got.err);
        let got = run(&[&args[..], &["--to", "btree", "-q"]].concat()).expect(0);
        assert_eq!(got.err, "", "{args:?}");
    }
}

/// From a file, and from a pipe, of which all is read before the transaction begins.
#[test]
fn a_name_that_is_none_for_a_table_is_placed() {
    let folder = Folder::new();
    let store = folder.path("store");
    for (name, says) in [("", "cannot be empty"), (&"n".repeat(300), "over the limit of 255")] {
        let header = format!("VERSION=3\nformat=print\ndatabase={name}\ntype=btree\nHEADER=END\n");
        let text = folder.file("text", format!("{header} a\n 1\nDATA=END\n"));
        let got = run(&["convert", &text, &store, "--to", "btree"]).expect(111);
        assert!(got.err.contains("text: db_dump-p input, line "), "{}", got.err);
        assert!(got.err.contains(says), "{}", got.err);
    }
    assert_eq!(folder.names(), ["text"]);
}

#[test]
fn a_key_that_does_not_fit_its_table_is_placed() {
    let folder = Folder::new();
    let store = folder.path("store");
    run(&["create", &store, "--engine", "btree"]).expect(0);
    run(&["table", "create", &store, "n", "--keys", "u64"]).expect(0);
    let text = "1\tuno\nx\tbad\n";
    let file = folder.file("bad.tsv", text);
    let place = "tsv input, line 2, column 1: \"x\" is no key of type u64";
    let got = run(&["load", &store, &file, "--table", "n"]).expect(111);
    assert!(got.err.starts_with(&format!("error: {file}: {place}")), "{}", got.err);
    let put = ["put", &store, "--table", "n", "--from", "tsv"];
    for more in [&[][..], &["--if-absent"]] {
        let args = [&put[..], more].concat();
        let got = run_with(&args, text.as_bytes()).expect(111);
        assert!(got.err.starts_with(&format!("error: standard input: {place}")), "{}", got.err);
        let input = std::fs::File::open(&file).expect("the file");
        let mut command = Command::new(program());
        let output = command.args(&args).stdin(input).output().expect("the program starts");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(err.starts_with(&format!("error: standard input: {place}")), "{err}");
    }
    assert_eq!(run(&["scan", &store, "--table", "n"]).expect(0).text(), "");
}

/// Where it said that keys may come twice, mdb_load said that it did not know that word.
#[test]
fn a_dump_tells_of_several_values_only_where_there_may_be_some() {
    let folder = Folder::new();
    let records = vec![(b"a".to_vec(), b"1".to_vec())];
    let [constant, hash, btree] = ["constant", "hash", "btree"].map(|k| folder.store(k, &records));
    run(&["table", "create", &btree, "one"]).expect(0);
    run(&["table", "create", &btree, "several", "--duplicates", "sorted"]).expect(0);
    for (args, may_repeat) in [
        (&["dump", &constant][..], true),
        (&["dump", &hash], false),
        (&["dump", &btree], false),
        (&["dump", &btree, "--table", "one"], false),
        (&["dump", &btree, "--table", "several"], true),
        (&["range", &btree], false),
        (&["range", &btree, "--table", "several"], true),
        (&["convert", &constant, "-"], true),
        (&["convert", &hash, "-"], false),
        (&["get", &hash, "a"], true),
    ] {
        for (format, is) in [("db_dump", "bytevalue"), ("db_dump-p", "print")] {
            let text = run(&[args, &["--to", format]].concat()).expect(0).text();
            let repeats = if may_repeat { "duplicates=1\n" } else { "" };
            let header = format!("VERSION=3\nformat={is}\ntype=btree\n{repeats}HEADER=END\n");
            assert!(text.starts_with(&header), "{args:?}: {text}");
        }
    }
}

/// Whether this machine has a program; a line tells if not.
fn is_there(name: &str) -> bool {
    let found = Command::new("which").arg(name).stdout(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        println!("not tested: there is no {name} here");
    }
    is_there
}

/// mdb_load keeps one value of a key, and the help did not say so.
#[test]
fn lmdb_takes_all_values_of_a_key_as_the_help_says() {
    let help = run(&["dump", "--help"]).expect(0).text();
    let sed = "sed 's/^HEADER/dupsort=1\\n&/' | mdb_load -n w.mdb";
    assert!(help.contains(sed), "{help}");
    if !is_there("mdb_load") {
        return;
    }
    let folder = Folder::new();
    let records = [("a", "2"), ("a", "1"), ("b", "3")];
    let records = records.map(|(key, value)| (key.into(), value.into())).to_vec();
    let store = folder.store("constant", &records);
    let script =
        format!("cd {} && \"$0\" dump {store} --to db_dump | {sed} 2> told", folder.path(""));
    let script = format!("{script} && mdb_dump -n w.mdb > dump");
    let mut bash = Command::new("bash");
    assert!(bash.args(["-c", &script]).arg(program()).status().expect("bash").success());
    let back = folder.path("back");
    run(&["load", &back, &folder.path("dump")]).expect(0);
    assert_eq!(run(&["get", &back, "a", "--all"]).expect(0).text(), "1\n2\n");
}

/// It takes no second value of a key, and the help did not say so.
#[test]
fn tdbrestore_takes_one_value_of_a_key_as_the_help_says() {
    let help = run(&["dump", "--help"]).expect(0).text();
    assert!(
        help.contains("A tdb file has one value a key: tdbrestore ends with an error"),
        "{help}"
    );
    let folder = Folder::new();
    let records = [("a", "1"), ("a", "2"), ("b", "3")];
    let store = folder.store("cdb", &records_of(&records));
    let restores = |store: &str| {
        let file = folder.path("tdb");
        let _ = std::fs::remove_file(&file);
        let script = format!("\"$0\" dump {store} --to tdbdump | tdbrestore {file}");
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).arg(program()).stderr(Stdio::null());
        bash.status().expect("bash").success()
    };
    let once = folder.path("once");
    let text = folder.file("text", &run(&["dump", &store]).expect(0).out);
    run(&["load", &once, &text, "--duplicates", "last"]).expect(0);
    if is_there("tdbrestore") {
        assert!(restores(&once) && !restores(&store));
    }
}
