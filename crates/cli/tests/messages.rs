//! Danger: a message sends its reader the wrong way, or hides what went wrong.

mod common;
use common::*;

#[test]
fn recover_says_what_it_is_given_instead_of_a_store() {
    let folder = Folder::new();
    let empty = folder.file("empty", "");
    let target = folder.path("target");
    let got = run(&["recover", &empty, &target]).expect(111);
    assert!(got.err.contains("`credenza create --if-missing` makes a store"), "{}", got.err);
    run(&["create", "--if-missing", &empty]).expect(0);
    let constant = folder.store("constant", &plain_records(3));
    let got = run(&["recover", &constant, &target]).expect(111);
    assert!(
        got.err.contains("kind 'constant'; of a damaged one 'credenza dump --unch"),
        "{}",
        got.err
    );
    let got = run(&["recover", &folder.path("empty-index"), &target]).expect(111);
    let is_index = "it is the index of a hash store, whose name has no '-index' behind it\n";
    assert!(got.err.ends_with(is_index), "{}", got.err);
}

#[test]
fn a_socket_is_called_one() {
    let folder = Folder::new();
    let path = folder.path("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    for args in [&["get", &path, "a"][..], &["stat", &path], &["put", &path, "a", "b"]] {
        let got = run(args).expect(111);
        assert!(got.err.contains("it is a socket; a store must be"), "{args:?}: {}", got.err);
    }
}

#[test]
fn a_file_of_another_store_is_named_with_what_makes_one_of_it() {
    let folder = Folder::new();
    let path = folder.file("users.db", [&[0; 12][..], &[0x62, 0x31, 5, 0], &[0; 4080]].concat());
    let command = "a file of Berkeley DB: `db_dump FILE | credenza load STORE` makes a store";
    for args in [&["stat", &path][..], &["load", &folder.path("new"), &path]] {
        let got = run(args).expect(111);
        assert!(got.err.contains(command), "{args:?}: {}", got.err);
    }
}

/// It was "neither the magic number of a constant, hash or btree file, nor a header whose tables follow each other".
#[test]
fn what_lies_beside_a_store_is_named() {
    let folder = Folder::new();
    for (begin, says) in [
        (b"\x89CRDNZT\n", "it is what a program did, recorded: `credenza replay`"),
        (
            b"\x89CRDNZS\n",
            "it is what was counted of the store whose name has no '-stats' behind it",
        ),
    ] {
        let path = folder.file("beside", [&begin[..], &[0; 4088]].concat());
        for command in ["verify", "scan", "dump"] {
            let got = run(&[command, &path]).expect(111);
            assert!(got.err.contains(says), "{command}: {}", got.err);
        }
    }
}

#[test]
fn data_without_a_record_is_named() {
    let folder = Folder::new();
    let path = folder.file("empty.tsv", "");
    for args in [&["bench", "--data", &path, "--stores", "hash"][..], &["advise", "--data", &path]]
    {
        let got = run(args).expect(111);
        assert!(got.err.starts_with(&format!("error: {path}: there is no record")), "{}", got.err);
    }
}

/// Standard output takes nothing, and the program says so.
fn cannot_write(args: &[&str]) {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("the device");
    let mut command = std::process::Command::new(program());
    let ended = command.args(args).stdout(full).output().expect("the program starts");
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(111), "{args:?}: {err}");
    assert!(err.contains("standard output: cannot write"), "{args:?}: {err}");
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for args in [&["help", "load"][..], &["load", "--help"], &["--version"], &["bench", "-h"]] {
        cannot_write(args);
    }
}

/// It said so in each form but that of records.
#[test]
fn answers_that_cannot_be_written_name_their_output() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(3));
    let key = String::from_utf8(plain_records(3)[0].0.clone()).expect("text");
    for form in [&["--to", "tsv"][..], &["--json"], &["--values"], &[]] {
        cannot_write(&[&["get", &store, &key], form].concat());
    }
}

/// The whole of it, of up to 64 KiB, was in the message.
#[test]
fn a_long_key_that_comes_twice_is_cut() {
    let folder = Folder::new();
    let records = vec![(vec![b'k'; 60_000], b"v".to_vec()); 2];
    let args = ["load", &folder.path("store"), "--from", "cdb", "--duplicates", "error"];
    let got = run_with(&args, &cdb_text(&records)).expect(111);
    let shown = format!("key '{}...' comes a second time", "k".repeat(60));
    assert!(got.err.contains(&shown) && got.err.len() < 300, "{}", got.err);
}

/// It was an error like any other, after which one does it once more.
#[test]
fn what_is_done_in_a_folder_that_was_moved_is_called_done() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let folder = Folder::new();
    let (before, after) = (folder.path("before"), folder.path("after"));
    std::fs::create_dir(&before).expect("a folder");
    let store = format!("{before}/store");
    let mut child = Command::new(program())
        .args(["load", &store, "--from", "lines"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // More than a pipe holds: whoever reads it has begun.
    let mut input = child.stdin.take().expect("its input");
    input.write_all("word\n".repeat(50_000).as_bytes()).expect("it is read");
    std::fs::rename(&before, &after).expect("another name");
    drop(input);
    let ended = child.wait_with_output().expect("its end");
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(std::fs::metadata(format!("{after}/store")).is_ok(), "{err}");
    assert_eq!(ended.status.code(), Some(111), "{err}");
    assert!(err.contains("store: it is done, but its size cannot be asked for"), "{err}");
}

#[test]
fn a_long_key_that_is_missing_is_cut() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(3));
    for (key, shown) in [
        ("k".repeat(60), "k".repeat(60)),
        ("k".repeat(65_000), "k".repeat(60) + "..."),
        ("é".repeat(40), "é".repeat(30) + "..."),
        ("kk".to_owned() + &"é".repeat(30) + "k", "kk".to_owned() + &"é".repeat(29) + "..."),
        ("k".to_owned() + &"é".repeat(30), "k".to_owned() + &"é".repeat(29) + "..."),
    ] {
        let list = key.clone() + "\n";
        for command in ["get", "delete"] {
            let got = run_with(&[command, &store, "--keys-from", "-"], list.as_bytes()).expect(100);
            assert_eq!(got.err, format!("not found: {shown}\n"), "{command}");
        }
    }
}

#[test]
fn who_names_no_key_is_told_of_lists_of_them() {
    for command in ["get", "delete"] {
        let got = run(&[command, "store"]).expect(111);
        assert!(got.err.contains("|--keys-from <FILE>>"), "{}", got.err);
        let got = run(&[command, "store", "a", "--keys-from", "-"]).expect(111);
        assert!(got.err.contains("cannot be used with"), "{}", got.err);
    }
}

#[test]
fn bash_completes_names_with_blanks() {
    let folder = Folder::new();
    folder.file("some words.tsv", "a\t1\n");
    let script = folder.file("script", run(&["completions", "bash"]).expect(0).text());
    // As bash calls it where a word begins with 'so'.
    let ask = ". \"$0\"; COMP_WORDS=(credenza bench --data so); COMP_CWORD=3; \
               _credenza credenza so --data; printf '%s\n' \"${COMPREPLY[@]}\"";
    let mut bash = std::process::Command::new("bash");
    let bash = bash.args(["-c", ask, &script]).current_dir(folder.path(""));
    let Ok(told) = bash.output() else {
        println!("skipped: there is no bash");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&told.stdout), "some words.tsv\n", "{told:?}");
}

#[test]
fn completions_offer_no_hidden_option() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).expect(0).text();
        let is_hidden = |line: &&str| line.contains("--child") || line.contains("-l child");
        assert_eq!(script.lines().find(is_hidden), None, "{shell}");
        assert!(script.contains("keys-from") && script.contains("timeout"), "{shell}");
    }
}

#[test]
fn a_negative_number_is_refused_for_what_it_is() {
    for (command, options) in [
        ("watch", &["--timeout", "--since", "-n", "--count"][..]),
        ("range", &["--lease", "-n", "--limit"]),
        ("scan", &["-n"]),
        ("get", &["--nth"]),
        ("stat", &["--count", "--interval"]),
        ("load", &["--seed", "--memory-budget", "--durability"]),
        ("create", &["--limit"]),
        ("compact", &["--budget"]),
        ("record", &["--limit"]),
    ] {
        for option in options {
            let got = run(&[command, "store", option, "-1"]).expect(111);
            // Clap calls it by its long name.
            let name = match (*option, command) {
                ("-n", "watch") => "--count",
                ("-n", _) => "--limit",
                (name, _) => name,
            };
            let says = format!("invalid value '-1' for '{name}");
            let is_said =
                got.err.contains(&says) || got.err.contains(&says.replace("'--", "'-n, --"));
            assert!(is_said, "{command} {option}: {}", got.err);
        }
    }
    for (command, options) in [
        ("bench", &["--records", "--rate", "--seed", "--rounds", "--timeout"][..]),
        ("advise", &["--writes", "--misses", "--rate", "--seconds"]),
        ("torture", &["--seed", "--records", "--round"]),
        ("replay", &["--timeout", "--speed"]),
    ] {
        for option in options {
            let got = run(&[command, option, "-4"]).expect(111);
            let is_named =
                got.err.contains(&option[2..]) && !got.err.contains("unexpected argument");
            assert!(is_named, "{command} {option}: {}", got.err);
        }
    }
    let run_of = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/tests/fixtures/report.json");
    let got = run(&["bench", "compare", run_of, run_of, "--threshold", "-5"]).expect(111);
    assert!(got.err.contains("threshold") && !got.err.contains("unexpected"), "{}", got.err);
}

#[test]
fn a_missing_name_is_not_called_one_that_comes_twice() {
    for stores in [",", "hash,", ",hash", "hash,,btree", ""] {
        let got = run(&["bench", "--stores", stores]).expect(111);
        assert!(got.err.contains("lacks a name"), "{stores}: {}", got.err);
    }
}

/// It was "1 records", and "1 keys".
#[test]
fn one_thing_is_no_plural() {
    let folder = Folder::new();
    for kind in ALL_KINDS {
        let store = folder.store(kind, &plain_records(1));
        let text = run(&["verify", &store]).expect(0).text();
        assert!(text.starts_with(&format!("{store}: ok ({kind}, 1 record, ")), "{text}");
        if matches!(kind, "hash" | "btree") {
            let text = run_with(&["load", &store, "--from", "tsv"], b"key0\tx\n").expect(0).text();
            assert!(text.starts_with(&format!("{store}: 1 written, 1 record now, ")), "{text}");
        }
    }
    let other = Folder::new();
    let (hash, target) = (other.store("hash", &plain_records(1)), folder.path("recovered"));
    let trace = folder.path("trace");
    let program = program();
    let program = program.to_str().expect("a path that is text");
    run(&["record", &trace, "--", program, "get", &hash, "key0"]).expect(0);
    let text = run(&["stat", &trace]).expect(0).text();
    assert!(text.contains(" 1 process, 1 thread\n") && text.contains(" of 1 use,"), "{text}");
    let only = ["--stores", "hash,btree", "--records", "1"];
    let text = run(&[&["bench", "--oracle", "--gets", "1"], &only[..]].concat()).expect(0).text();
    assert!(text.contains("; 1 record, ") && text.contains(" agree: 1 operation, "), "{text}");
    let tiny = folder.path("tiny");
    run(&["create", &tiny, "--limit", "1"]).expect(0);
    let err = run(&["put", &tiny, "key", "value"]).expect(111).err;
    assert!(err.ends_with(" bytes is over the limit of 1 byte\n"), "{err}");
    let text = run(&["recover", &hash, &target]).expect(0).text();
    assert!(text.starts_with(&format!("{target}: 1 key from 1 record, ")), "{text}");
}

/// What is called first stood last.
#[test]
fn the_words_of_a_command_stand_in_their_order() {
    let folder = Folder::new();
    for (command, usage) in [
        ("get", "get [OPTIONS] <STORE> <KEY|--keys-from <FILE>>"),
        ("delete", "delete [OPTIONS] <FILE> <KEY...|--keys-from <FILE>>"),
    ] {
        let usage = format!("credenza {usage}");
        let help = run(&[command, "--help"]).expect(0).text();
        assert!(help.contains(&format!("Usage: {usage}\n")), "{help}");
        let got = run(&[command, "store"]).expect(111);
        assert!(got.err.contains(&format!("Usage: {usage}\n")), "{}", got.err);
        run(&["man", &folder.path("man")]).expect(0);
        let page = std::fs::read_to_string(folder.path(&format!("man/credenza-{command}.1")));
        let page = page.expect("a page").replace("\\fB", "").replace("\\fR", "").replace('\\', "");
        assert!(page.contains(&usage), "{page}");
    }
}

/// Some said what the parser of numbers says, or what then did not help.
#[test]
fn what_is_wrong_with_an_argument_is_said_in_its_own_terms() {
    let folder = Folder::new();
    let store = folder.store("btree", &plain_records(3));
    let text = folder.file("text.tsv", "a\t1\n");
    let new = folder.path("new");
    for (args, what) in [
        (&["scan", &store, "--limit", "-1"][..], "write a whole number from 0 on, such as 10"),
        (&["range", &store, "-n", "x"], "write a whole number from 0 on, such as 10"),
        (&["get", &store, "key0", "--nth", "0"], "write a whole number from 1 on"),
        (&["watch", &store, "--timeout", "inf"], "write a number of seconds, such as 2.5"),
        (&["dump", &store, "--lease", "-1"], "write a number of seconds, such as 2.5"),
        (&["convert", &text, &new, "--to", "btree", "--table", "x"], "leave out --table"),
        (&["bench", "--data", &store], "this is a btree store: 'credenza dump' makes text of it"),
    ] {
        let err = run(args).expect(111).err;
        assert!(err.contains(what), "{args:?}: {err}");
    }
    assert!(!std::path::Path::new(&new).exists());
    let err = run(&["get", &store, "key0", "--nth", "9"]).expect(100).err;
    assert_eq!(err, "not found: value 9 of key0\n");
}

/// It was told that one of the two is too much, and not where the records come from.
#[test]
fn who_names_a_file_of_records_to_put_learns_how_it_is_read() {
    let folder = Folder::new();
    let store = folder.path("users");
    run(&["create", &store]).expect(0);
    let file = folder.file("their names.tsv", "a\t1\n");
    let put = ["put", &store, "--from", "tsv", &file];
    let says = |more: &[&str]| run(&[&put[..], more].concat()).expect(111).err;
    let begin = "error: with --from many records come from standard input: ";
    let load = format!(", or `credenza load {store} '{file}' --from tsv`");
    assert_eq!(says(&[]), format!("{begin}`< '{file}'`{load}\n"));
    // Where load does something else.
    assert_eq!(says(&["--if-absent"]), format!("{begin}`< '{file}'`\n"));
    let append = ["put", &store, "--append", "--from", "lines", &file];
    assert_eq!(run(&append).expect(111).err, format!("{begin}`< '{file}'`\n"));
    let no_file = ["put", &store, "--from", "tsv", "bob", "1"];
    assert_eq!(run(&no_file).expect(111).err, format!("{begin}leave out 'bob', or --from\n"));
    run(&["load", &store, &file, "--from", "tsv"]).expect(0);
}

/// Who may only read needs no right to write for it.
#[test]
fn a_shell_that_only_reads_changes_nothing() {
    let folder = Folder::new();
    for kind in ["hash", "btree"] {
        let store = folder.store(kind, &vec![(b"a".to_vec(), b"1".to_vec())]);
        let before = std::fs::read(&store).expect("the store");
        let names = folder.names();
        let got =
            run_with(&["shell", &store, "--read-only"], b"get a\nscan\nlen\nstat\n").expect(0);
        assert!(got.text().starts_with("1\n"), "{}", got.text());
        for change in [&b"put b 2\n"[..], b"delete a\n", b"begin\n"] {
            let got = run_with(&["shell", &store, "--read-only"], change).expect(111);
            assert!(got.err.contains("read"), "{}", got.err);
        }
        assert!(std::fs::read(&store).expect("the store") == before, "{kind} was changed");
        assert_eq!(folder.names(), names);
    }
}

/// What was started without a standard input took it for an empty one, and emptied the store.
#[test]
fn a_standard_input_that_is_closed_is_not_an_empty_one() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(3));
    let changing = folder.path("changing");
    run(&["create", &changing]).expect(0);
    let without = |args: &[&str], input: &str| {
        let script = format!("exec \"$0\" \"$@\" {input}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).arg(program()).args(args).output().expect("a shell")
    };
    for args in [
        &["load", &store, "--from", "tsv"][..],
        &["put", &changing, "key"],
        &["put", &changing, "--from", "tsv"],
        &["get", &store, "--keys-from", "-"],
        &["shell", &changing],
    ] {
        let got = without(args, "<&-");
        let err = String::from_utf8_lossy(&got.stderr);
        assert_eq!(got.status.code(), Some(111), "{args:?}: {err}");
        assert!(err.contains("standard input: there is none"), "{args:?}: {err}");
    }
    assert_eq!(dump(&store).len(), 3);
    run(&["get", &changing, "key"]).expect(100);
    assert!(without(&["put", &changing, "key"], "< /dev/null").status.success());
    assert_eq!(run(&["get", &changing, "key"]).expect(0).text(), "");
    assert!(without(&["load", &store, "--from", "tsv"], "< /dev/null").status.success());
    assert_eq!(dump(&store).len(), 0);
}

#[test]
fn a_folder_of_another_store_is_named_with_what_makes_one_of_it() {
    let folder = Folder::new();
    let path = folder.path("env");
    std::fs::create_dir(&path).expect("a folder");
    let target = folder.path("new");
    let all = [
        &["get", &path, "a"][..],
        &["verify", &path],
        &["load", &target, &path],
        &["convert", &path, &target, "--to", "constant"],
    ];
    for args in all {
        let got = run(args).expect(111);
        assert!(got.err.contains("a directory; name a file"), "{args:?}: {}", got.err);
    }
    for (name, what) in [
        ("__db.001", "a folder of Berkeley DB: `db_dump -h FOLDER FILE | credenza load STORE`"),
        ("data.mdb", "a folder of LMDB: `mdb_dump FOLDER | credenza load STORE`, or of databases"),
    ] {
        std::fs::write(format!("{path}/{name}"), "").expect("a file");
        for args in all {
            let got = run(args).expect(111);
            assert!(got.err.contains(what), "{args:?}: {}", got.err);
        }
    }
}

#[test]
fn who_asks_what_is_done_with_what_is_no_store_learns_what_it_is() {
    let folder = Folder::new();
    let (store, trace) = (folder.store("hash", &plain_records(3)), folder.path("trace"));
    let program = program();
    let program = program.to_str().expect("a name");
    run(&["record", &trace, "--", program, "get", &store, "none"]).expect(100);
    let text = folder.file("text", "some text\n");
    for (path, what) in [
        (&trace, "trace: this is a trace, of what is over: leave out --live"),
        (&text, "text: this is not a store: it looks like text"),
        (&folder.path("none"), "none: cannot open: No such file"),
        (&store, "-stats: there is no such file: nobody who uses the store shares"),
    ] {
        let got = run(&["stat", "--live", "--count", "1", path]).expect(111);
        assert!(got.err.contains(what), "{path}: {}", got.err);
    }
}

#[test]
fn it_is_said_how_an_input_was_read() {
    let folder = Folder::new();
    let tsv = folder.file("a.tsv", "a\t1\n");
    let json = folder.file("b", "{\"key\":\"b\",\"value\":\"2\"}\n");
    let hash = folder.store("hash", &plain_records(1));
    for store in [&folder.path("new"), &hash] {
        let got = parsed(run(&["load", store, &tsv, &json, "--json"]).expect(0));
        assert_eq!(got["formats"], serde_json::json!(["tsv", "jsonl"]), "{got}");
    }
    // Nobody said that these are TSV.
    let notes = "one\ttwo\nthree\n";
    let got = run_with(&["load", &folder.path("s")], notes.as_bytes()).expect(111);
    let advice = "no tab between key and value (nobody said that the format is this one: --from names another)\n";
    assert!(got.err.ends_with(advice), "{}", got.err);
    let got = run_with(&["load", &folder.path("s"), "--from", "tsv"], notes.as_bytes());
    assert!(got.expect(111).err.ends_with("no tab between key and value\n"));
}

#[test]
fn a_packed_input_whose_format_is_named_is_said_to_be_packed() {
    let folder = Folder::new();
    for format in ["tsv", "jsonl", "cdb"] {
        let args = ["load", &folder.path("s"), "--from", format];
        let got = run_with(&args, &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0]).expect(111);
        assert!(
            got.err.ends_with("(the input is packed by gzip: 'gzip -dc FILE' unpacks it)\n"),
            "{}",
            got.err
        );
    }
}
