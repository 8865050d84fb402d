//! Danger: who waits at a terminal is not told that anything goes on, or what he is told stays there.

mod common;
use common::*;
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Where standard error goes, as a person sees it.
struct Screen {
    pieces: Receiver<Vec<u8>>,
    text: String,
}

impl Screen {
    /// Starts the program before one.
    fn before(args: &[&str], input: Stdio) -> (Screen, Child) {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let ends = openpty(Some(&size), None).expect("a terminal");
        let mut command = Command::new(program());
        command.args(args).env("TERM", "xterm").stdin(input).stdout(Stdio::piped());
        let child = command.stderr(ends.slave).spawn().expect("the program starts");
        // It keeps an end of the terminal.
        drop(command);
        let (sender, pieces) = channel();
        let mut file = File::from(ends.master);
        std::thread::spawn(move || {
            let mut piece = vec![0; 4096];
            // Linux calls it an error when the last who writes has gone.
            while let Ok(n @ 1..) = file.read(&mut piece) {
                if sender.send(piece[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        (Screen { pieces, text: String::new() }, child)
    }

    /// Whether this stood there at any time; waits a moment for it.
    fn has(&mut self, what: &str) -> bool {
        if let Ok(piece) = self.pieces.recv_timeout(Duration::from_millis(1)) {
            self.text.push_str(&String::from_utf8_lossy(&piece));
        }
        self.text.contains(what)
    }

    /// All that stood there until the program ended.
    fn all(mut self) -> String {
        self.pieces.iter().for_each(|piece| self.text.push_str(&String::from_utf8_lossy(&piece)));
        self.text
    }
}

/// Standard output is read so slowly that the bar is waited for.
#[test]
fn who_reads_a_store_sees_how_far_it_is() {
    let folder = Folder::new();
    let records: Records =
        (0..10_000).map(|i| (format!("key {i:05}").into(), vec![b'v'; 1000])).collect();
    for (kind, command) in [("constant", "scan"), ("btree", "scan"), ("btree", "range")] {
        let store = folder.store(kind, &records);
        let args = [command, &store, "--full"];
        let (mut screen, mut child) = Screen::before(&args, Stdio::null());
        let mut out = child.stdout.take().expect("its output");
        let mut piece = [0; 4096];
        while !screen.has("reading") {
            let n = out.read(&mut piece).expect("what it writes");
            assert!(n > 0, "{args:?}: no bar: {:?}", screen.text);
        }
        std::io::copy(&mut out, &mut std::io::sink()).expect("the rest");
        assert!(child.wait().expect("it ends").success());
        let text = screen.all();
        assert!(text.contains("of 10,000 records"), "{text:?}");
        assert!(text.rfind("\u{1b}[2K") > text.rfind("reading"), "it stays there: {text:?}");
        std::fs::remove_file(&store).expect("it is there");
    }
}

#[test]
fn who_deletes_keys_of_a_file_sees_how_far_it_is() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(10));
    let args = ["delete", &store, "--keys-from", "-"];
    let (mut screen, mut child) = Screen::before(&args, Stdio::piped());
    let mut keys = child.stdin.take().expect("its input");
    // As many as take several times as long as nothing is shown.
    let is_shown = (0..5000).any(|_| {
        keys.write_all(&b"absent\n".repeat(1000)).expect("it reads");
        screen.has("deleting")
    });
    assert!(is_shown, "no bar: {:?}", screen.text);
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
}

#[test]
fn who_measures_sees_how_far_it_is_unless_it_is_to_be_quiet() {
    let words = "--stores hash --records 100 --gets 100 --rounds 1 --phases build,get-hit --no-pin";
    let words: Vec<&str> = words.split(' ').collect();
    for (first, is_shown) in [(&["bench"][..], true), (&["--quiet", "bench"], false)] {
        let args = [first, &words[..]].concat();
        let (screen, mut child) = Screen::before(&args, Stdio::null());
        let mut out = child.stdout.take().expect("its output");
        std::io::copy(&mut out, &mut std::io::sink()).expect("all of it");
        assert!(child.wait().expect("it ends").success());
        let text = screen.all();
        assert_eq!(text.contains("round 1"), is_shown, "{args:?}: {text:?}");
        assert!(is_shown || text.is_empty(), "{args:?}: {text:?}");
    }
}
