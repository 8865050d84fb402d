//! The operations of `mixed` as a script of upscaledb's ups_bench, one a line, as its own `--tee` writes them.
//!
//! Its reader takes a line apart at blanks, quotes, commas and brackets, and keeps strings that end with a zero
//! byte; so a key cannot have any of these, nor be longer than its line. Values are only their lengths there.
//! The flag to overwrite stands where a key may have a value; `credenza replay` goes by it, ups_bench by its
//! own option alone.
//!
//! Invariant: the file appears whole, or not at all.

use super::Out;
use crate::runner::passes::in_words;
use crate::workload::changes::{Model, Step};
use crate::workload::key_type::number_of;
use crate::workload::{Action, KeyType};
use credenza::{Error, Result, Staged};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

const HEAD: &str = "-- made by credenza bench --tee; ups_bench takes it with --overwrite, and with \
    --use-transactions=all where there is BEGIN_TXN\n";
/// Lines before a commit that waits for the disk as the ones before it did not, or the other way round.
const SYNCED: &str = "-- from here on commits wait for the disk: --use-fsync\n";
const NOT_SYNCED: &str = "-- from here on they do not\n";
/// Bytes that ups_bench reads as one line, with its end.
const LINE: usize = 16 * 1024 - 1;

/// Writes what `tell` tells; a file that is there already stays.
pub(super) fn write(
    path: &Path,
    keys: KeyType,
    tell: impl FnOnce(&mut dyn Out) -> Result<()>,
) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        let what = "this file is there already: name another, or remove it";
        return Err(Error::invalid(what).at(path));
    }
    let staged = Staged::create(path)?;
    let (out, line) = (BufWriter::new(staged.file()), Vec::new());
    let mut script = Script { path, keys, out, line, is_synced: false };
    // Without the second word a key is what stands between its quotes.
    let create = if keys == KeyType::U32 { "CREATE NUMERIC_KEY\n" } else { "CREATE\n" };
    script.put(format_args!("{HEAD}{create}"))?;
    tell(&mut script)?;
    // Until then lasts what ups_bench takes for the time of all.
    script.put(format_args!("CLOSE\n"))?;
    script.out.flush().map_err(|e| Error::io("write", e).at(path))?;
    drop(script);
    staged.publish()
}

struct Script<'a> {
    path: &'a Path,
    keys: KeyType,
    out: BufWriter<&'a File>,
    line: Vec<u8>,
    /// Whether the last commit waits for the disk.
    is_synced: bool,
}

impl Script<'_> {
    fn put(&mut self, text: std::fmt::Arguments<'_>) -> Result<()> {
        self.out.write_fmt(text).map_err(|e| Error::io("write", e).at(self.path))
    }

    /// One line about a key, with what stands behind that.
    fn line(&mut self, word: &str, flags: u8, key: &[u8], behind: &str) -> Result<()> {
        let text = match self.keys {
            KeyType::U32 => Cow::Owned(number_of(key).to_string().into_bytes()),
            _ => Cow::Borrowed(key),
        };
        self.line.clear();
        self.line.extend_from_slice(format!("{word} ({flags}, \"").as_bytes());
        self.line.extend_from_slice(&text);
        self.line.extend_from_slice(format!("\"{behind})\n").as_bytes());
        let cannot_be = |byte: &u8| b"\0 \t\r\n()\",".contains(byte);
        if text.is_empty() || text.iter().any(cannot_be) || self.line.len() > LINE {
            return Err(Error::invalid(format!(
                "--tee-format script: the key {} cannot be in a script of ups_bench, where keys have one byte at \
                 least, lines {LINE} at most, and no key has a blank, quote, comma, bracket, tab, end of line or \
                 zero byte: leave --tee-format out, as a trace takes any key",
                in_words(Some(key))
            )));
        }
        self.out.write_all(&self.line).map_err(|e| Error::io("write", e).at(self.path))
    }

    fn insert(&mut self, flags: u8, key: &[u8], value: &[u8]) -> Result<()> {
        self.line("INSERT", flags, key, &format!(", {}", value.len()))
    }
}

impl Out for Script<'_> {
    fn begin(&mut self, _: u64) -> Result<()> {
        self.put(format_args!("BEGIN_TXN\n"))
    }

    fn commit(&mut self, _: u64, _: usize, is_synced: bool) -> Result<()> {
        if std::mem::replace(&mut self.is_synced, is_synced) != is_synced {
            self.put(format_args!("{}", if is_synced { SYNCED } else { NOT_SYNCED }))?;
        }
        self.put(format_args!("TXN_COMMIT\n"))
    }

    fn fill(&mut self, _: u64, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(0, key, value)
    }

    fn step(
        &mut self,
        _: u64,
        (step, key, value): (Step, &[u8], &[u8]),
        _: &Model<'_>,
    ) -> Result<()> {
        const OVERWRITE: u8 = 1;
        match step.action {
            Action::Get => self.line("FIND", 0, key, ""),
            Action::Insert | Action::Add => self.insert(0, key, value),
            Action::Update => self.insert(OVERWRITE, key, value),
            Action::ReadModifyWrite => {
                self.line("FIND", 0, key, "")?;
                self.insert(OVERWRITE, key, value)
            }
            Action::Remove => self.line("ERASE", 0, key, ""),
            Action::Scan => Err(Error::invalid(
                "--tee-format script: a script of ups_bench reads everything or one key, and the mix has scans of \
                 some records: leave --tee-format out, as a trace has them, or say table-scan in place of scan in \
                 [mix]",
            )),
            Action::TableScan => self.put(format_args!("TABLESCAN\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(keys: KeyType, all: &[&[u8]]) -> Result<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        let told =
            write(&path, keys, |out| all.iter().try_for_each(|key| out.fill(0, key, b"abc")));
        assert_eq!(path.exists(), told.is_ok());
        // Nothing else is left, either.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), usize::from(told.is_ok()));
        told.map(|()| String::from_utf8(std::fs::read(&path).unwrap()).unwrap())
    }

    #[test]
    fn a_key_is_as_ups_bench_reads_it() {
        let text = written(KeyType::Binary, &[b"a--b", b"'"]).unwrap();
        let (head, lines) = text.split_once('\n').unwrap();
        assert!(head.starts_with("-- "));
        assert_eq!(lines, "CREATE\nINSERT (0, \"a--b\", 3)\nINSERT (0, \"'\", 3)\nCLOSE\n");
        let text = written(KeyType::U32, &[&[0, 0, 1, 2], &[32, 0, 0, 0]]).unwrap();
        let (_, lines) = text.split_once('\n').unwrap();
        let keys = "INSERT (0, \"258\", 3)\nINSERT (0, \"536870912\", 3)\n";
        assert_eq!(lines, format!("CREATE NUMERIC_KEY\n{keys}CLOSE\n"));
    }

    #[test]
    fn a_key_that_it_cannot_have_is_named() {
        let longest = [b'x'; LINE - "INSERT (0, \"\", 3)\n".len()];
        assert!(written(KeyType::Binary, &[&longest]).is_ok());
        let too_long = [&longest[..], b"x"].concat();
        let others = ["", "a b", "a\"", "a,b", "(a", "a)", "a\tb", "a\nb", "a\rb", "a\0b"];
        for key in others.iter().map(|key| key.as_bytes()).chain([&too_long[..]]) {
            let refused = written(KeyType::Binary, &[b"fine", key]).unwrap_err().to_string();
            let named = format!("the key {} cannot be in a script", in_words(Some(key)));
            assert!(refused.contains(&named), "{refused}");
        }
    }

    #[test]
    fn what_is_there_stays() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = write(file.path(), KeyType::Binary, |_| Ok(())).unwrap_err().to_string();
        assert!(refused.contains("there already"), "{refused}");
        assert_eq!(std::fs::read(file.path()).unwrap(), b"");
    }
}
