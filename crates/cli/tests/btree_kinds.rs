//! Danger: a command that takes the keys of a table for what they are not, or one value for all.

mod common;
use common::*;
use std::process::{Command, Stdio};

/// A store with a table of each kind.
fn store_of(folder: &Folder) -> String {
    let store = folder.path("store");
    run(&["create", &store, "--engine", "btree"]).expect(0);
    run(&["table", "create", &store, "ages", "--keys", "i64"]).expect(0);
    run(&["table", "create", &store, "members", "--duplicates", "sorted"]).expect(0);
    let visits = ["table", "create", &store, "visits", "--keys", "u32", "--duplicates", "inserted"];
    run(&visits).expect(0);
    run(&["table", "create", &store, "log", "--numbered"]).expect(0);
    store
}

#[test]
fn tables_are_listed_with_what_they_are() {
    let folder = Folder::new();
    let store = store_of(&folder);
    let text = "0\t\n0\tages\tkeys i64\n0\tlog\tkeys u64, numbered\n\
                0\tmembers\tduplicates sorted\n0\tvisits\tkeys u32, duplicates inserted\n";
    assert_eq!(run(&["table", "list", &store]).expect(0).text(), text);
    let json = run(&["table", "list", &store, "--json"]).expect(0).text();
    assert!(json.contains(r#""keys":"u32""#) && json.contains(r#""numbered":true"#), "{json}");
    let got = run(&["table", "create", &store, "ages"]).expect(111);
    assert!(got.err.contains("another kind"), "{}", got.err);
    run(&["table", "create", &store, "ages", "--keys", "i64"]).expect(0);
    let args = ["table", "create", &store, "n", "--numbered", "--duplicates", "sorted"];
    assert!(run(&args).expect(111).err.contains("u64"));
    assert!(run(&["table", "create", &store, "n", "--keys", "u7"]).status != 0);
}

#[test]
fn changes_of_tables_are_told_as_json() {
    let folder = Folder::new();
    let store = store_of(&folder);
    let table = |args: &[&str], status| {
        let got = run(&[&["table", args[0], &store, "--json"], &args[1..]].concat());
        let told = got.expect(status).text();
        let told: serde_json::Value = serde_json::from_str(&told).expect("one object");
        assert_eq!(told["store"], store);
        told
    };
    assert_eq!(table(&["create", "new", "other"], 0)["created"], 2);
    assert_eq!(table(&["create", "new", "third"], 0)["created"], 1);
    assert_eq!(table(&["rename", "new", "old"], 0)["renamed"], 1);
    assert_eq!(table(&["rename", "new", "old"], 100)["renamed"], 0);
    assert_eq!(table(&["delete", "old", "none"], 100)["deleted"], 0);
    assert_eq!(table(&["delete", "old", "third", "old"], 0)["deleted"], 2);
}

#[test]
fn one_value_of_several_is_deleted() {
    let folder = Folder::new();
    let store = store_of(&folder);
    for (key, value) in [("7", "a"), ("7", "b"), ("7", "a"), ("8", "a")] {
        run(&["put", &store, "--table", "visits", key, value]).expect(0);
    }
    for value in ["b", "a"] {
        run(&["put", &store, "--table", "members", "staff", value]).expect(0);
    }
    run(&["put", &store, "plain", "a"]).expect(0);
    let delete = |table: &[&str], args: &[&str]| run(&[&["delete", &store], table, args].concat());
    let visits = &["--table", "visits"];
    delete(visits, &["7", "--value", "c"]).expect(100);
    // The first of those that are equal.
    delete(visits, &["7", "--value", "a"]).expect(0);
    let left = run(&["scan", &store, "--table", "visits"]).expect(0).text();
    assert_eq!(left, "7\tb\n7\ta\n8\ta\n");
    let members = &["--table", "members"];
    let told = parsed(delete(members, &["staff", "--value", "b", "--json"]));
    assert_eq!((&told["deleted"], &told["missing"]), (&1.into(), &0.into()));
    assert_eq!(run(&["scan", &store, "--table", "members"]).expect(0).text(), "staff\ta\n");
    // Also where there is one value a key: only if it is that one.
    let got = delete(&[], &["plain", "--value", "b"]).expect(100);
    assert_eq!(got.err, "not found: plain with this value\n");
    delete(&[], &["plain", "--value", "a"]).expect(0);
    run(&["get", &store, "plain"]).expect(100);
    let got = delete(visits, &["7", "8", "--value", "a"]).expect(111);
    assert!(got.err.contains("name one key"), "{}", got.err);
    let hash = folder.path("hash");
    run(&["create", &hash]).expect(0);
    run(&["put", &hash, "key", "a"]).expect(0);
    run(&["delete", &hash, "key", "--value", "b"]).expect(100);
    run(&["delete", &hash, "key", "--value", "a"]).expect(0);
    run(&["get", &hash, "key"]).expect(100);
}

/// Numbers with hundreds of zeros were shown without an exponent.
/// Behind an option that takes a value it is that, not an option.
#[test]
fn what_is_called_as_an_option_can_be_deleted() {
    let folder = Folder::new();
    let store = folder.store("btree", &records_of(&[("a", "-0"), ("-0", "b"), ("-0k", "c")]));
    for args in [&["a", "--value", "-0"][..], &["--value=b", "--", "-0"], &["--", "-0k"]] {
        run(&[&["delete", &store][..], args].concat()).expect(0);
    }
    assert_eq!(dump(&store), []);
    run(&["put", &store, "a", "1"]).expect(0);
    for args in
        [&["delete", &store, "-0"][..], &["delete", &store, "a", "-0"], &["get", &store, "-0"]]
    {
        let err = run(args).expect(111).err;
        assert!(err.contains("for the key -0 write '-- -0'"), "{args:?}: {err}");
    }
    assert_eq!(dump(&store), records_of(&[("a", "1")]));
    // A file of keys, be it named so.
    let names = folder.file("-0", "a\0");
    for args in [["-k", "-0", "-0"], ["-0", "--keys-from", "-0"], ["-qk", "-0", "-0"]] {
        run(&["put", &store, "a", "1"]).expect(0);
        let mut command = credenza(&["delete", &store]);
        command.args(args).current_dir(folder.0.path()).assert().success();
        assert_eq!(dump(&store), [], "{args:?} {names}");
    }
}

#[test]
fn large_and_small_numbers_are_shown_by_their_exponents() {
    let folder = Folder::new();
    let store = store_of(&folder);
    run(&["table", "create", &store, "f", "--keys", "f64"]).expect(0);
    let shown = ["-1e300", "-0.1", "5e-324", "0.001", "100000000000000000000", "1.5e40"];
    for number in shown {
        run(&["put", &store, "--table", "f", "--", number, "1"]).expect(0);
        run(&["get", &store, "--table", "f", "--", number]).expect(0);
    }
    let all = run(&["scan", &store, "--table", "f", "--keys"]).expect(0).text();
    assert_eq!(all.lines().collect::<Vec<_>>(), shown);
}

#[test]
fn keys_that_are_numbers_are_written_and_read_as_such() {
    let folder = Folder::new();
    let store = store_of(&folder);
    let ages = |args: &[&str]| run(&[&[args[0], "--table", "ages"], &args[1..]].concat());
    for (key, value) in [("100", "old"), ("-5", "not yet"), ("9", "young")] {
        ages(&["put", &store, key, value]).expect(0);
    }
    assert_eq!(ages(&["scan", &store]).expect(0).text(), "-5\tnot yet\n9\tyoung\n100\told\n");
    assert_eq!(ages(&["get", &store, "9"]).expect(0).text(), "young");
    ages(&["get", &store, "10"]).expect(100);
    let got = ages(&["get", &store, "nine"]).expect(111);
    assert!(got.err.contains("nine") && got.err.contains("i64"), "{}", got.err);
    ages(&["put", &store, "9.5", "x"]).expect(111);
    assert_eq!(ages(&["range", &store, "0", "100"]).expect(0).text(), "9\tyoung\n");
    assert_eq!(ages(&["range", &store, "-r", "-n", "1"]).expect(0).text(), "100\told\n");
    assert_eq!(ages(&["range", &store, "--prefix", "1"]).expect(0).text(), "100\told\n");
    let dumped = ages(&["dump", &store, "--to", "tsv"]).expect(0).out;
    let other = Folder::new();
    let copy = store_of(&other);
    run_with(&["load", &copy, "--table", "ages", "--from", "tsv"], &dumped).expect(0);
    assert_eq!(run(&["dump", &copy, "--table", "ages", "--to", "tsv"]).expect(0).out, dumped);
    assert_eq!(ages(&["get", &store, "-5"]).expect(0).text(), "not yet");
    assert_eq!(ages(&["range", &store, "-10", "-1"]).expect(0).text(), "-5\tnot yet\n");
    for args in [&["get", &store, "--hex", "09"][..], &["range", &store, "--hex", "09"]] {
        assert!(ages(args).expect(111).err.contains("leave out --hex"));
    }
    let twice = b"7\ta\n07\tb\n";
    let load = |policy: &str| {
        let args = ["load", &copy, "--table", "ages", "--from", "tsv", "--duplicates", policy];
        run_with(&args, twice)
    };
    let got = load("error").expect(111);
    let place = "error: standard input: tsv input, line 2, column 1: key ";
    assert!(got.err.starts_with(place) && got.err.contains("7"), "{}", got.err);
    load("first").expect(0);
    assert_eq!(run(&["get", &copy, "--table", "ages", "7"]).expect(0).text(), "a");
    ages(&["delete", &store, "9"]).expect(0);
    ages(&["put", &store, "-6", "-7"]).expect(0);
    assert_eq!(ages(&["get", &store, "-6"]).expect(0).text(), "-7");
    ages(&["delete", &store, "-6", "-60"]).expect(0);
    ages(&["get", &store, "-6"]).expect(100);
    let script = b"put 7 seven\nget 7\nscan\nput seven 7\n";
    let got = run_with(&["shell", &store, "--table", "ages"], script).expect(111);
    assert_eq!(got.text(), "seven\n-5\tnot yet\n7\tseven\n100\told\n");
    run(&["verify", &store]).expect(0);
}

#[test]
fn a_key_may_have_several_values() {
    let folder = Folder::new();
    let store = store_of(&folder);
    let records = b"staff\tcarol\nadm\tbob\nstaff\tbob\nstaff\tcarol\n";
    run_with(&["load", &store, "--table", "members", "--from", "tsv"], records).expect(0);
    let scan = |store: &str, table: &str| run(&["scan", store, "--table", table]).expect(0).text();
    assert_eq!(scan(&store, "members"), "adm\tbob\nstaff\tbob\nstaff\tcarol\n");
    let table = ["--table", "members"];
    let members = |args: &[&str]| run(&[args, &table].concat());
    assert_eq!(members(&["get", &store, "staff"]).expect(0).text(), "bob");
    assert_eq!(members(&["get", &store, "staff", "--all"]).expect(0).text(), "bob\ncarol\n");
    assert_eq!(members(&["get", &store, "staff", "--nth", "2"]).expect(0).text(), "carol");
    members(&["put", &store, "staff", "alice"]).expect(0);
    members(&["put", &store, "staff", "zoe", "--if-absent"]).expect(100);
    let text = "staff\tcarol\nstaff\tbob\nstaff\talice\n";
    let got = members(&["range", &store, "staff", "--reverse"]).expect(0);
    assert_eq!(got.text(), text);

    // In the order they come, also when that is not the order of the keys.
    let records = b"7\tsecond\n7\tfirst\n5\tx\n7\tsecond\n";
    run_with(&["load", &store, "--table", "visits", "--from", "tsv"], records).expect(0);
    assert_eq!(scan(&store, "visits"), "5\tx\n7\tsecond\n7\tfirst\n7\tsecond\n");

    let copy = folder.path("copy");
    run(&["convert", &store, &copy, "--to", "btree"]).expect(0);
    for table in ["members", "visits"] {
        assert_eq!(scan(&copy, table), scan(&store, table));
    }
    let list = |store: &str| run(&["table", "list", store]).expect(0).text();
    assert_eq!(list(&copy), list(&store));
    run(&["verify", &copy]).expect(0);

    let frozen = folder.path("frozen");
    members(&["freeze", &store, &frozen]).expect(0);
    assert_eq!(run(&["get", &frozen, "staff", "--all"]).expect(0).text(), "alice\nbob\ncarol\n");
    let got = members(&["thaw", &store, &folder.path("thawed")]).expect(111);
    assert!(got.err.contains("several values"), "{}", got.err);

    let got = run_with(&["shell", &store, "--table", "members"], b"get staff\ndelete staff\nlen\n");
    assert_eq!(got.expect(0).text(), "alice\nbob\ncarol\n1\n");
    members(&["delete", &store, "staff"]).expect(100);
    run(&["verify", &store]).expect(0);
}

#[test]
fn numbers_of_records_go_on_in_a_copy() {
    use credenza::btree::BTree;
    let folder = Folder::new();
    let store = store_of(&folder);
    let append = |path: &str| {
        let store = BTree::open(path).expect("it opens");
        let mut transaction = store.write().expect("a transaction");
        let mut log = transaction.table("log").expect("the catalog").expect("a table");
        let number = log.append(b"entry").expect("append");
        transaction.commit().expect("commit");
        number
    };
    assert_eq!([append(&store), append(&store), append(&store)], [1, 2, 3]);
    run(&["delete", &store, "--table", "log", "2", "3"]).expect(0);
    let copy = folder.path("copy");
    run(&["convert", &store, &copy, "--to", "btree"]).expect(0);
    assert_eq!([append(&store), append(&copy)], [4, 4]);
    run(&["verify", &copy]).expect(0);
    // Also of one table.
    let (from, to) = (&store[..], &copy[..]);
    let args = |command| [command, from, to, "--table", "log"];
    run(&[&args("convert")[..], &["--to", "btree", "--replace"]].concat()).expect(0);
    assert_eq!(append(&copy), 5);
    std::fs::remove_file(&copy).expect("the copy");
    run(&[&args("thaw")[..], &["--engine", "btree"]].concat()).expect(0);
    assert_eq!(append(&copy), 5);
}

/// Values that a table with sorted ones had were counted as written.
#[test]
fn values_that_a_key_has_already_are_not_written() {
    let folder = Folder::new();
    let store = store_of(&folder);
    let values = b"staff\tbob\nstaff\teve\nstaff\tbob\n";
    let file = folder.file("values.tsv", values);
    let said = |got: Run| got.expect(0).text();
    let load = ["load", &store, &file, "--table", "members"];
    assert!(said(run(&load)).contains(": 2 written, 2 records now, "));
    assert!(said(run(&load)).contains(": 0 written, 2 records now, "));
    let more = ["load", &store, "--table", "members", "--from", "tsv"];
    assert!(said(run_with(&more, b"staff\tbob\nstaff\tdan\n")).contains(": 1 written, 3 records"));
    let put = ["put", &store, "--table", "members", "--from", "tsv"];
    assert_eq!(said(run_with(&put, values)), format!("{store}: 0 records written\n"));
    // Others are there twice.
    let visits = ["load", &store, "--table", "visits", "--from", "tsv"];
    assert!(said(run_with(&visits, b"1\ta\n1\ta\n")).contains(": 2 written, 2 records now, "));
}

/// It went into the main table, as text and in another order, without a word.
#[test]
fn a_table_that_is_copied_alone_stays_what_it_is() {
    let folder = Folder::new();
    let store = store_of(&folder);
    for (table, text) in [
        (
            "ages",
            "-3	a
9	b
10	c
100	d
",
        ),
        (
            "members",
            "staff	bob
staff	eve
",
        ),
        (
            "visits",
            "9	x
9	a
100	b
",
        ),
    ] {
        let load = ["load", &store, "--table", table, "--from", "tsv"];
        run_with(&load, text.as_bytes()).expect(0);
        let all = run(&["table", "list", &store]).expect(0).text();
        let line = all.lines().find(|line| line.contains(table)).expect("the table");
        let [copy, thawed] = ["copy", "thawed"].map(|name| folder.path(&format!("{name} {table}")));
        for args in [
            ["convert", &store, &copy, "--table", table, "--to", "btree", "--json"],
            ["thaw", &store, &thawed, "--table", table, "--engine", "btree", "--json"],
        ] {
            let told = parsed(run(&args));
            assert_eq!(told["records"], text.lines().count(), "{args:?}");
            let list = run(&["table", "list", args[2]]).expect(0).text();
            assert_eq!(list, format!("0\t\n{line}\n"), "{args:?}");
            let dump = run(&["dump", args[2], "--table", table, "--to", "tsv"]).expect(0);
            assert_eq!(dump.text(), text, "{args:?}");
            run(&["verify", args[2]]).expect(0);
        }
        let before = std::fs::read(&thawed).expect("the store");
        let again = ["thaw", &store, &thawed, "--table", table, "--engine", "btree"];
        let got = run(&again).expect(111);
        assert!(got.err.contains("there is a file already"), "{}", got.err);
        assert!(std::fs::read(&thawed).expect("the store") == before);
    }
}

#[test]
fn a_shell_does_not_take_a_table_for_the_one_that_it_was() {
    let folder = Folder::new();
    let store = store_of(&folder);
    let program = program();
    let mut shell = Command::new(program)
        .args(["shell", &store, "--table", "ages"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = shell.stdin.take().expect("its input");
    std::io::Write::write_all(&mut input, b"put 1 one\nlen\n").expect("it listens");
    let mut said = [0; 2];
    std::io::Read::read_exact(shell.stdout.as_mut().expect("its output"), &mut said).expect("len");
    run(&["table", "delete", &store, "ages"]).expect(0);
    run(&["table", "create", &store, "ages", "--keys", "u64"]).expect(0);
    std::io::Write::write_all(&mut input, b"put 5 five\n").expect("it listens");
    drop(input);
    let output = shell.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("another kind"), "{said}");
    assert_eq!(run(&["scan", &store, "--table", "ages"]).expect(0).text(), "");
}

#[test]
fn keys_of_a_table_do_not_go_into_another_of_its_name() {
    let folder = Folder::new();
    let store = store_of(&folder);
    for (n, command) in ["load", "put"].into_iter().enumerate() {
        let table = format!("days{n}");
        run(&["table", "create", &store, &table, "--keys", "u64"]).expect(0);
        let mut child = Command::new(program())
            .args([command, &store, "--table", &table, "--from", "tsv"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = child.stdin.take().expect("its input");
        // More than a pipe holds: it has the store open when all is written.
        let text: String = (0..30_000).map(|i| format!("{i}\tday\n")).collect();
        std::io::Write::write_all(&mut input, text.as_bytes()).expect("it reads");
        run(&["table", "delete", &store, &table]).expect(0);
        run(&["table", "create", &store, &table]).expect(0);
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("another kind"), "{command}: {said}");
        assert_eq!(run(&["scan", &store, "--table", &table]).expect(0).text(), "");
    }
}

#[test]
fn records_are_appended_under_the_next_number() {
    let folder = Folder::new();
    let store = store_of(&folder);
    let put = |args: &[&str], input: &[u8]| {
        run_with(&[&["put", &store, "--table", "log", "--append"], args].concat(), input)
    };
    assert_eq!(put(&["first"], b"").expect(0).text(), "1\n");
    assert_eq!(put(&["-q"], b"from the\ninput\n").expect(0).text(), "2\n");
    let many = put(&["--from", "lines"], b"a\tb\n\nc").expect(0).text();
    assert_eq!(many, format!("{store}: 3 records written, their numbers are 3 to 5\n"));
    let json = put(&["--from", "lines", "--json"], b"").expect(0).text();
    assert!(json.contains(r#""written":0"#) && json.contains(r#""first_number":null"#), "{json}");
    let json = put(&["-", "--json", "--durability", "sync"], b"").expect(0).text();
    assert!(json.contains(r#""first_number":6,"last_number":6"#), "{json}");
    let shell = ["shell", &store, "--table", "log"];
    let input = b"append seven\nbegin\nappend eight\nabort\nappend eight\nget 8\n";
    assert_eq!(run_with(&shell, input).expect(0).text(), "7\n8\n8\neight\n");
    let text = "1\tfirst\n2\tfrom the\\ninput\\n\n3\ta\\tb\n4\t\n5\tc\n6\t-\n7\tseven\n8\teight\n";
    let dumped = run(&["dump", &store, "--table", "log", "--to", "tsv"]).expect(0).text();
    assert_eq!(dumped, text);
}

/// Each was taken for a key, which may not be so long.
#[test]
fn a_line_that_is_appended_may_be_as_long_as_values_are() {
    let folder = Folder::new();
    let store = store_of(&folder);
    let long = "x".repeat(70_000);
    let args = ["put", &store, "--table", "log", "--append", "--from", "lines", "-q"];
    run_with(&args, format!("{long}\n\nshort").as_bytes()).expect(0);
    let dumped = run(&["dump", &store, "--table", "log", "--to", "tsv"]).expect(0).text();
    assert_eq!(dumped, format!("1\t{long}\n2\t\n3\tshort\n"));
}

/// Nothing is appended by a command that cannot do all of it, nor by one that says something else.
#[test]
fn appending_is_refused_where_it_cannot_be() {
    let folder = Folder::new();
    let store = store_of(&folder);
    let hash = folder.store("hash", &plain_records(1));
    let log = ["put", &store, "--table", "log", "--append"];
    for (args, why) in [
        (&["put", &hash, "--append", "v"][..], "not numbered"),
        (&["put", &store, "--append", "v"], "not numbered"),
        (&["put", &store, "--table", "ages", "--append", "v"], "not numbered"),
        (&["put", &store, "--table", "members", "--append", "v"], "not numbered"),
        (&[&log[..], &["key", "value"]].concat(), "cannot be used with"),
        (&[&log[..], &["v", "--if-absent"]].concat(), "cannot be used with"),
        (&[&log[..], &["--hex", "00"]].concat(), "cannot be used with"),
        (&[&log[..], &["--from", "tsv"]].concat(), "--from lines"),
        (&[&log[..], &["v", "--from", "lines"]].concat(), "leave out 'v', or --from"),
    ] {
        let got = run_with(args, b"k\tv\n").expect(111);
        assert!(got.err.contains(why), "{args:?}: {}", got.err);
    }
    let got = run_with(&["shell", &hash], b"append v\n").expect(111);
    assert!(got.err.contains("not numbered"), "{}", got.err);
    assert_eq!(run(&["dump", &store, "--table", "log", "--to", "tsv"]).expect(0).text(), "");
    // The numbers of a table with 32 bits run out: those before are not left there either.
    run(&["table", "create", &store, "short", "--numbered", "--keys", "u32"]).expect(0);
    run(&["put", &store, "--table", "short", "4294967294", "v"]).expect(0);
    let short = ["put", &store, "--table", "short", "--append"];
    let got = run_with(&[&short[..], &["--from", "lines"]].concat(), b"a\nb\n").expect(111);
    assert!(got.err.contains("used up"), "{}", got.err);
    assert_eq!(run(&[&short[..], &["last"]].concat()).expect(0).text(), "4294967295\n");
    run(&[&short[..], &["more"]].concat()).expect(111);
}

/// It was shown by the bytes that it is stored as.
#[test]
fn a_typed_key_that_comes_twice_is_named_as_it_was_written() {
    let folder = Folder::new();
    let store = store_of(&folder);
    let load = ["load", &store, "--table", "ages", "--from", "tsv", "--duplicates", "error"];
    let got = run_with(&load, b"-5\tx\n7\ty\n-05\tz\n").expect(111);
    assert!(got.err.contains("line 3, column 1: key '-05' comes a second time"), "{}", got.err);
}

/// One of a long file was hard to find.
#[test]
fn a_key_of_a_file_that_is_no_number_is_named_with_its_place() {
    let folder = Folder::new();
    let store = store_of(&folder);
    run(&["put", &store, "--table", "ages", "7", "x"]).expect(0);
    for (keys, more, place) in [
        ("7\n\n9\n", &[][..], "key 2: \"\" is no key of type i64"),
        ("7\n8\nx\n", &[], "key 3: \"x\" is no key of type i64"),
        ("7\0x\n", &["--null"], "key 2: \"x\\n\" is no key of type i64"),
        ("7\t1\nx\t2\n", &["--from", "tsv"], "line 2, column 1: \"x\" is no key of type i64"),
    ] {
        for command in ["get", "delete"] {
            if command == "delete" && more.contains(&"--from") {
                continue;
            }
            let args = [command, &store, "--table", "ages", "--keys-from", "-"];
            let got = run_with(&[&args, more].concat(), keys.as_bytes()).expect(111);
            let begin = got.err.starts_with("error: standard input: ");
            assert!(begin && got.err.trim_end().ends_with(place), "{command}: {}", got.err);
        }
    }
    let got = run(&["get", &store, "--table", "ages", "7"]).expect(0);
    assert_eq!(got.text(), "x", "nothing was deleted");
}
