//! What the tests of the program share: running it, and records to run it on.

#![allow(dead_code, reason = "each test file uses a part")]

use assert_cmd::Command;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use tempfile::TempDir;

pub type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Kinds that never change, and keep every value of a key.
pub const KINDS: [&str; 4] = ["constant", "cdb", "cdb64", "mcdb"];
pub const ALL_KINDS: [&str; 6] = ["constant", "hash", "btree", "cdb", "cdb64", "mcdb"];
/// Text formats that hold any bytes.
pub const BINARY_FORMATS: [&str; 6] = ["cdb", "tsv", "db_dump", "db_dump-p", "tdbdump", "jsonl"];
/// Text formats that hold some keys and values only.
pub const PLAIN_FORMATS: [&str; 2] = ["map", "mdbm_export"];

/// The program, ready for arguments.
pub fn credenza(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args);
    command
}

/// The program's file.
pub fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_credenza"))
}

/// Has the system's loader find a file in this folder that is no library, where it looks for LMDB's, and nobody name
/// the libraries that no package brings.
pub fn with_damaged_lmdb<'c>(command: &'c mut Command, folder: &Folder) -> &'c mut Command {
    for name in ["liblmdb.so.0", "liblmdb.so"] {
        folder.file(name, "text");
    }
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CREDENZA_LIB_") {
            command.env_remove(name);
        }
    }
    command.env("LD_LIBRARY_PATH", folder.0.path())
}

/// That a run says which stores it leaves out that nobody named: the one above, and those that are not here.
pub fn says_who_is_absent(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let is_there = |begin: &str, end: &str| {
        lines.iter().any(|line| line.starts_with(begin) && line.ends_with(end))
    };
    assert!(is_there("lmdb is left out: ", "apt-get install liblmdb0."), "{text}");
    // No package brings it.
    assert!(text.contains("Not here: ") && text.contains("ntdb"), "{text}");
    assert!(is_there("Not here: ", ": `credenza bench --list` says what brings them."), "{text}");
}

/// What a finished run left.
pub struct Run {
    pub status: i32,
    pub out: Vec<u8>,
    pub err: String,
}

/// Runs the program with nothing on standard input.
pub fn run(args: &[&str]) -> Run {
    run_with(args, b"")
}

/// Runs the program with `input` on standard input.
pub fn run_with(args: &[&str], input: &[u8]) -> Run {
    let output = credenza(args).write_stdin(input).output().expect("the program starts");
    let status = output.status.code().unwrap_or_else(|| panic!("{args:?}: {}", output.status));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!err.contains("panicked"), "{args:?}: {err}");
    Run { status, out: output.stdout, err }
}

impl Run {
    /// The output of a run that must have ended with this status.
    #[track_caller]
    pub fn expect(self, status: i32) -> Run {
        assert_eq!(self.status, status, "standard error: {}", self.err);
        self
    }

    /// Its standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

/// A folder and paths in it, as arguments.
pub struct Folder(pub TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(TempDir::new().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a path that is text").to_owned()
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file in the temporary folder");
        path
    }

    /// Builds a store of this kind from records and gives its path.
    pub fn store(&self, kind: &str, records: &Records) -> String {
        let path = self.path(&format!("{kind}.store"));
        let text = cdb_text(records);
        run_with(&["load", "-q", "--from", "cdb", "--to", kind, &path], &text).expect(0);
        path
    }

    /// The names of the files in it, sorted.
    pub fn names(&self) -> Vec<String> {
        names_in(self.0.path())
    }
}

pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a readable folder");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Records as the cdb tools write them.
pub fn cdb_text(records: &Records) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        text.extend_from_slice(format!("+{},{}:", key.len(), value.len()).as_bytes());
        text.extend_from_slice(key);
        text.extend_from_slice(b"->");
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text.push(b'\n');
    text
}

/// Records of text without white space, and no key twice.
pub fn plain_records(n: usize) -> Records {
    (0..n).map(|i| (format!("key{i}").into(), format!("value-{}", i * i).into())).collect()
}

/// Records of any bytes, with duplicates, an empty key and empty values.
pub fn binary_records(n: usize) -> Records {
    let mut random = Random::new();
    let mut records: Records = vec![(vec![], b"of the empty key".to_vec())];
    records.push((b"->\n+1,1:".to_vec(), b"\n\n".to_vec()));
    for _ in 0..n {
        let key = random.bytes(1, 9);
        let value = random.bytes(0, 40);
        records.push((key.clone(), value));
        if random.below(4) == 0 {
            records.push((key, random.bytes(0, 300)));
        }
    }
    records
}

/// Records sorted by key, the values of one key in their order: two stores hold the same if and
/// only if this is equal.
pub fn sorted(mut records: Records) -> Records {
    records.sort_by(|a, b| a.0.cmp(&b.0));
    records
}

/// Reads what `dump` wrote in the cdb text format.
pub fn parse_cdb_text(mut text: &[u8]) -> Records {
    let mut records = Records::new();
    while let Some(rest) = text.strip_prefix(b"+") {
        let comma = rest.iter().position(|b| *b == b',').expect("a comma");
        let colon = rest.iter().position(|b| *b == b':').expect("a colon");
        let number = |digits: &[u8]| -> usize {
            std::str::from_utf8(digits).expect("digits").parse().expect("a number")
        };
        let (key_len, value_len) = (number(&rest[..comma]), number(&rest[comma + 1..colon]));
        let rest = &rest[colon + 1..];
        let key = rest[..key_len].to_vec();
        assert_eq!(&rest[key_len..key_len + 2], b"->");
        let value = rest[key_len + 2..][..value_len].to_vec();
        assert_eq!(rest[key_len + 2 + value_len], b'\n');
        records.push((key, value));
        text = &rest[key_len + value_len + 3..];
    }
    assert_eq!(text, b"\n", "the dump must end with an empty line");
    records
}

/// Every record of a store.
pub fn dump(store: &str) -> Records {
    parse_cdb_text(&run(&["dump", store]).expect(0).out)
}

/// Random numbers (xorshift64*) from the seed in CREDENZA_TEST_SEED, or a new one; the seed is
/// printed, and cargo shows it when the test fails.
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        let given = std::env::var("CREDENZA_TEST_SEED").ok().and_then(|s| s.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970");
            now.as_nanos() as u64 | 1
        });
        eprintln!("CREDENZA_TEST_SEED={seed}");
        Random(seed.max(1))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }

    pub fn bytes(&mut self, at_least: u64, below: u64) -> Vec<u8> {
        let len = at_least + self.below(below - at_least);
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// What a run wrote as JSON.
pub fn parsed(got: Run) -> serde_json::Value {
    serde_json::from_str(&got.expect(0).text()).expect("JSON")
}

/// Records of text.
pub fn records_of(records: &[(&str, &str)]) -> Records {
    records.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
}

/// Kills a shell within a transaction that changes `bob` of a store, who has `1001`: he still has it,
/// and others may write.
pub fn kill_a_shell(store: &str) {
    let mut child = process::Command::new(program())
        .args(["shell", store])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(b"begin\nput bob 1\nget bob\n").expect("it reads");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    assert_eq!(line, "1\n");
    assert_eq!(run(&["get", store, "bob"]).expect(0).text(), "1001", "not committed yet");
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    assert_eq!(run(&["get", store, "bob"]).expect(0).text(), "1001");
    run(&["put", store, "bob", "2"]).expect(0);
    run(&["verify", store]).expect(0);
}
