//! Danger: what a person writes at the prompt of the shell is not done, or something else is.

mod common;
use common::*;
use nix::pty::openpty;
use std::fs::File;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

/// What a shell at a terminal has in its store, by its keys, when it was written this, all at once.
fn keys_after(text: &str) -> String {
    keys_after_each(&[("credenza>", text.as_bytes())])
}

/// The same when each text was written as soon as something was shown.
fn keys_after_each(texts: &[(&str, &[u8])]) -> String {
    let folder = Folder::new();
    let store = folder.store("btree", &plain_records(0));
    let ends = openpty(None, None).expect("a terminal");
    let out = ends.slave.try_clone().expect("a descriptor");
    let mut command = Command::new(program());
    command.args(["shell", &store]).env("TERM", "xterm").stdin(ends.slave);
    command.stdout(out.try_clone().expect("a descriptor")).stderr(out);
    let mut child = command.spawn().expect("the program starts");
    // It keeps an end of the terminal.
    drop(command);
    let (mut terminal, mut shown, mut piece) = (File::from(ends.master), Vec::new(), [0; 4096]);
    // Before a prompt is there, what is written is taken line by line.
    for (awaited, text) in texts {
        let is_it = |part: &[u8]| part == awaited.as_bytes();
        while !shown.windows(awaited.len()).any(is_it) {
            let n = terminal.read(&mut piece).expect("what is awaited");
            shown.extend_from_slice(&piece[..n]);
        }
        // What was shown behind it may be what is awaited next.
        let at = shown.windows(awaited.len()).position(is_it).unwrap_or_default();
        shown.drain(..at + awaited.len());
        terminal.write_all(text).expect("it is read");
    }
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        // Linux calls it an error when the last who writes has gone.
        let _ = terminal.read_to_end(&mut shown);
        let _ = sender.send(String::from_utf8_lossy(&shown).into_owned());
    });
    // Whoever has lost 'quit' waits for it.
    let shown = ended.recv_timeout(Duration::from_secs(20));
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    shown.expect("it has quit");
    run(&["scan", &store, "--keys"]).expect(0).text()
}

/// All but the first were lost.
#[test]
fn lines_that_are_typed_ahead_are_done() {
    assert_eq!(keys_after("put a 1\rbegin\rput b 2\rcommit\rquit\rput c 3\r"), "a\nb\n");
}

/// It ended the shell, and with it the transaction.
#[test]
fn a_byte_that_is_not_utf8_leaves_its_line_and_not_the_shell() {
    let keys = keys_after_each(&[
        ("credenza>", b"begin\rput a 1\rput b \xff"),
        ("not UTF-8", b""),
        ("credenza*>", b"put c 3\rcommit\rquit\r"),
    ]);
    assert_eq!(keys, "a\nc\n");
}

/// They were taken for one: the first would delete three keys.
#[test]
fn lines_that_are_pasted_are_done_one_by_one() {
    let lines = "put a 1\nput delete 2\nput b 3\ndelete a\rdelete b\r\nput c 4";
    assert_eq!(keys_after(&format!("\x1b[200~{lines}\x1b[201~\rquit\r")), "c\ndelete\n");
}
