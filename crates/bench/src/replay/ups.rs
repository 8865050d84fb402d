//! A script of upscaledb's ups_bench, as its `--tee` writes it: one word after the other, for instance
//! `INSERT (0, "key", 10)`, with comments from `--` to the end of the line.
//!
//! An insertion without the flag to overwrite is refused by upscaledb where the key is there, and one with
//! the flag for duplicates stores a second value: both are left out, where it is known that the key is there.
//! Whether lookups and removals find their key follows from the script, from its CREATE on.
//!
//! The store is open before the first word and after the last, so that a CLOSE is only done with the OPEN that
//! follows it: both are one step. A full check has one store here, which is compared with what the script stored.

use super::script::{Do, LONGEST_VALUE, Script, Step};
use crate::report::text;
use credenza::{Error, Result};
use std::collections::HashMap;

const OVERWRITE: u64 = 1;
const DUPLICATE: u64 = 2;
const WORDS: &str = "CREATE, OPEN, CLOSE, FLUSH, FULLCHECK, TABLESCAN, BEGIN_TXN, COMMIT_TXN, BREAK, \
    INSERT, ERASE, FIND or NUMERIC_KEY";

/// Whether bytes are the beginning of such a script: its first word, or a comment.
pub(super) fn is_script(bytes: &[u8]) -> bool {
    let start = bytes.trim_ascii_start();
    let end = start.iter().position(|byte| !is_word(*byte)).unwrap_or(start.len());
    let word = String::from_utf8_lossy(&start[..end]);
    start.starts_with(b"--") || Word::of(&word).is_some()
}

/// The steps of a script.
///
/// # Errors
/// What is there is no script, with line and column; or it makes the store anew when something is in it.
pub(super) fn script(text: &[u8]) -> Result<Script> {
    let mut maker = Maker::default();
    let mut reader = Reader { text, at: 0 };
    while let Some((word, at)) = reader.statement()? {
        maker.add(word, &mut reader, at)?;
        maker.script.entries += 1;
    }
    if maker.is_in_transaction {
        return Err(reader.error(text.len(), "the script ends within a transaction"));
    }
    Ok(maker.script)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    Create,
    Open,
    Close,
    Flush,
    FullCheck,
    TableScan,
    Begin,
    Commit,
    Break,
    NumericKey,
    Insert,
    Erase,
    Find,
}

impl Word {
    fn of(word: &str) -> Option<Word> {
        Some(match word {
            "CREATE" => Word::Create,
            "OPEN" => Word::Open,
            "CLOSE" => Word::Close,
            "FLUSH" => Word::Flush,
            "FULLCHECK" => Word::FullCheck,
            "TABLESCAN" => Word::TableScan,
            "BEGIN_TXN" | "TXN_BEGIN" => Word::Begin,
            "COMMIT_TXN" | "TXN_COMMIT" => Word::Commit,
            "BREAK" => Word::Break,
            "NUMERIC_KEY" => Word::NumericKey,
            "INSERT" => Word::Insert,
            "ERASE" => Word::Erase,
            "FIND" => Word::Find,
            _ => return None,
        })
    }
}

#[derive(Default)]
struct Maker {
    script: Script,
    numbers: HashMap<Box<[u8]>, u32>,
    /// Whether each key is there, where that is known.
    is_there: Vec<Option<bool>>,
    /// Whether the store was empty before the first key, so that what nobody stored is not there.
    is_new: bool,
    is_numeric: bool,
    is_in_transaction: bool,
    /// By a CLOSE, without an OPEN since.
    is_closed: bool,
}

impl Maker {
    fn add(&mut self, word: Word, reader: &mut Reader<'_>, at: usize) -> Result<()> {
        let opens = matches!(word, Word::Open | Word::Close | Word::Create | Word::Break);
        if self.is_closed && !opens {
            return Err(reader.error(at, "the store is closed here: OPEN comes before"));
        }
        match word {
            Word::Create if !self.numbers.is_empty() => {
                let what =
                    "CREATE here makes a new store, and a replay has only one: split the script";
                return Err(reader.error(at, what));
            }
            Word::Create => self.is_new = true,
            Word::NumericKey if !self.numbers.is_empty() => {
                return Err(reader.error(at, "NUMERIC_KEY comes before the first key"));
            }
            Word::NumericKey => self.is_numeric = true,
            Word::Close if self.is_in_transaction => {
                return Err(reader.error(at, "the store is closed within a transaction"));
            }
            Word::Close if self.is_closed => self.leave_out("close a store that is closed"),
            Word::Close => self.is_closed = true,
            Word::Open if std::mem::take(&mut self.is_closed) => {
                self.step(Do::Reopen, None, 0, None);
            }
            // It opens what is open here from the beginning.
            Word::Open if self.numbers.is_empty() && !self.is_new => {}
            Word::Open => self.leave_out("open a store that is open"),
            Word::Flush => self.step(Do::Sync, None, 0, None),
            Word::FullCheck => self.step(Do::FullCheck, None, 0, None),
            Word::Break => self.leave_out("stop for a debugger"),
            Word::TableScan => self.step(Do::Scan, None, 0, None),
            Word::Begin | Word::Commit if self.is_in_transaction == (word == Word::Begin) => {
                let what = match word {
                    Word::Begin => "a transaction begins within another one",
                    _ => "there is no transaction to commit",
                };
                return Err(reader.error(at, what));
            }
            Word::Begin | Word::Commit => {
                self.is_in_transaction = word == Word::Begin;
                let what = if self.is_in_transaction { Do::Begin } else { Do::Commit };
                self.step(what, None, 0, None);
            }
            Word::Insert => self.insert(reader, at)?,
            Word::Erase | Word::Find => {
                reader.expect(b'(')?;
                reader.number()?;
                reader.expect(b',')?;
                let key = self.key(reader)?;
                reader.expect(b')')?;
                let was_there = self.is_there[key as usize];
                let what = if word == Word::Find { Do::Get } else { Do::Remove };
                self.step(what, Some(key), 0, was_there);
                if word == Word::Erase {
                    self.is_there[key as usize] = Some(false);
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, reader: &mut Reader<'_>, at: usize) -> Result<()> {
        reader.expect(b'(')?;
        let flags = reader.number()?;
        reader.expect(b',')?;
        let key = self.key(reader)?;
        reader.expect(b',')?;
        let len = reader.number()?;
        reader.expect(b')')?;
        let is_there = &mut self.is_there[key as usize];
        if *is_there == Some(true) && flags & OVERWRITE == 0 {
            self.leave_out(match flags & DUPLICATE {
                0 => "store a key that is there, without the flag to overwrite",
                _ => "store a second value of a key",
            });
        } else if len > LONGEST_VALUE {
            self.leave_out("write a value of over 64 MiB");
            self.script.too_long.get_or_insert_with(|| {
                let (line, _) = reader.place(at);
                let len = text::count(len);
                format!("line {line} writes a value of {len} bytes, and 64 MiB is the most")
            });
        } else {
            *is_there = Some(true);
            self.script.value_lens[key as usize] = len as u32;
            self.step(Do::Insert, Some(key), len as u32, None);
        }
        Ok(())
    }

    fn step(&mut self, what: Do, key: Option<u32>, value_len: u32, was_there: Option<bool>) {
        // A script says of no scan how many records there were; other steps have none.
        let items = if matches!(what, Do::Scan | Do::FullCheck) { Step::ALL } else { 0 };
        self.script.steps.push(Step { time: 0, what, key, value_len, items, was_there });
    }

    fn leave_out(&mut self, why: &'static str) {
        *self.script.left_out.entry(why).or_default() += 1;
    }

    fn key(&mut self, reader: &mut Reader<'_>) -> Result<u32> {
        let (text, at) = reader.quoted()?;
        let number = || std::str::from_utf8(text).ok()?.trim().parse::<u32>().ok();
        let key: Box<[u8]> = match (self.is_numeric, number()) {
            (false, _) => text.into(),
            // The highest byte first, so that their order is that of the numbers.
            (true, Some(number)) => number.swap_bytes().to_le_bytes().into(),
            (true, None) => {
                let what = "a key is a number below 2^32 here, as NUMERIC_KEY says";
                return Err(reader.error(at, what));
            }
        };
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number);
        }
        let number = u32::try_from(self.numbers.len())
            .map_err(|_| reader.error(at, "there are more keys than the workbench takes"))?;
        self.script.keys.push(key.clone());
        self.script.value_lens.push(0);
        self.is_there.push(self.is_new.then_some(false));
        self.numbers.insert(key, number);
        Ok(number)
    }
}

/// What is still to be read.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl<'a> Reader<'a> {
    /// The next statement's word and where it is; `None` at the end.
    fn statement(&mut self) -> Result<Option<(Word, usize)>> {
        self.skip_space();
        let at = self.at;
        let word = self.take_while(is_word);
        match Word::of(&String::from_utf8_lossy(word)) {
            Some(word) => Ok(Some((word, at))),
            None if at == self.text.len() => Ok(None),
            None => Err(self.unexpected(at, WORDS)),
        }
    }

    fn number(&mut self) -> Result<u64> {
        self.skip_space();
        let at = self.at;
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| self.unexpected(at, "a number"))
    }

    /// What stands between quotes, as it is, and where it begins.
    fn quoted(&mut self) -> Result<(&'a [u8], usize)> {
        self.expect(b'"')?;
        let at = self.at;
        let text = self.take_while(|byte| byte != b'"' && byte != b'\n');
        if self.text.get(self.at) != Some(&b'"') {
            return Err(self.error(at - 1, "a key without its second quote"));
        }
        self.at += 1;
        Ok((text, at))
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        self.skip_space();
        if self.text.get(self.at) != Some(&byte) {
            return Err(self.unexpected(self.at, &format!("'{}'", byte as char)));
        }
        self.at += 1;
        Ok(())
    }

    fn skip_space(&mut self) {
        loop {
            self.take_while(|byte| byte.is_ascii_whitespace());
            if !self.text[self.at..].starts_with(b"--") {
                return;
            }
            self.take_while(|byte| byte != b'\n');
        }
    }

    fn take_while(&mut self, is_in: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|byte| !is_in(*byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn unexpected(&self, at: usize, expected: &str) -> Error {
        let found = match self.text.get(at) {
            None => "the end".to_owned(),
            Some(byte) => {
                let rest = &self.text[at..];
                let len = rest.iter().take(20).take_while(|byte| is_word(**byte)).count();
                match len {
                    0 => format!("'{}'", byte.escape_ascii()),
                    len => format!("'{}'", rest[..len].escape_ascii()),
                }
            }
        };
        self.error(at, &format!("expected {expected}, but found {found}"))
    }

    /// Line and column.
    fn place(&self, at: usize) -> (usize, usize) {
        let before = &self.text[..at.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        (line, column)
    }

    fn error(&self, at: usize, what: &str) -> Error {
        let (line, column) = self.place(at);
        Error::invalid(format!("script of ups_bench, line {line}, column {column}: {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "-- made by ups_bench\nCREATE\nBEGIN_TXN INSERT (0, \"a b\", 10)\n\
        INSERT(0,\"c\", 20)TXN_COMMIT -- and now\nFIND (0, \"a b\") FIND(0, \"x\")\nFLUSH\n\
        INSERT (1, \"c\", 7) INSERT (0, \"c\", 8) INSERT (2, \"c\", 9)\nERASE(0, \"c\") ERASE(0,\"c\")\n\
        TABLESCAN FULLCHECK BREAK CLOSE OPEN\n";

    #[test]
    fn every_word_is_done_or_left_out() {
        assert!(is_script(ALL.as_bytes()) && is_script(b" CREATE\n") && is_script(b"NUMERIC_KEY"));
        assert!(!is_script(b"CREATED") && !is_script(b"\x89CRDNZT\n") && !is_script(b""));
        let script = script(ALL.as_bytes()).unwrap();
        let steps: Vec<_> =
            script.steps.iter().map(|s| (s.what, s.key, s.value_len, s.was_there)).collect();
        let there = Some;
        assert_eq!(
            steps,
            [
                (Do::Begin, None, 0, None),
                (Do::Insert, Some(0), 10, None),
                (Do::Insert, Some(1), 20, None),
                (Do::Commit, None, 0, None),
                (Do::Get, Some(0), 0, there(true)),
                (Do::Get, Some(2), 0, there(false)),
                (Do::Sync, None, 0, None),
                (Do::Insert, Some(1), 7, None),
                (Do::Remove, Some(1), 0, there(true)),
                (Do::Remove, Some(1), 0, there(false)),
                (Do::Scan, None, 0, None),
                (Do::FullCheck, None, 0, None),
                (Do::Reopen, None, 0, None),
            ]
        );
        assert_eq!((script.key(0), script.value_lens[1]), (&b"a b"[..], 7));
        // BREAK, and two insertions of a key that is there.
        assert_eq!(script.left_out.values().sum::<u64>(), 3, "{:?}", script.left_out);
        assert_eq!(script.entries, 18);
    }

    #[test]
    fn a_store_is_closed_and_opened_as_the_script_says() {
        let steps = |text: &str| {
            let script = script(text.as_bytes()).unwrap();
            let left_out = script.left_out.values().sum::<u64>();
            (script.steps.iter().map(|step| step.what).collect::<Vec<_>>(), left_out)
        };
        let [get, reopen] = [Do::Get, Do::Reopen];
        let find = "FIND (0, \"a\")";
        assert_eq!(steps(&format!("OPEN {find} CLOSE")), (vec![get], 0));
        assert_eq!(steps(&format!("CREATE {find} CLOSE OPEN {find}")), (vec![get, reopen, get], 0));
        assert_eq!(steps(&format!("CREATE CLOSE OPEN {find}")), (vec![reopen, get], 0));
        assert_eq!(steps(&format!("{find} CLOSE CLOSE OPEN OPEN")), (vec![get, reopen], 2));
        assert_eq!(steps(&format!("OPEN {find} CLOSE BREAK OPEN CLOSE")), (vec![get, reopen], 1));
    }

    #[test]
    fn numbers_are_in_their_order_and_an_open_store_may_have_any_key() {
        let text = b"NUMERIC_KEY OPEN FIND(0, \"256\") INSERT(0, \"2\", 1) FIND(0,\"2\")";
        let script = script(text).unwrap();
        assert!(script.key(1) < script.key(0));
        let was: Vec<_> = script.steps.iter().map(|step| step.was_there).collect();
        assert_eq!(was, [None, None, Some(true)]);
    }

    #[test]
    fn the_first_value_that_is_too_long_is_told() {
        let text = b"CREATE\nINSERT (0, \"a\", 4000000000)\nINSERT (0, \"b\", 5000000000)";
        let script = script(text).unwrap();
        assert!(script.steps.is_empty() && script.left_out.len() == 1);
        let told = script.too_long.unwrap();
        assert!(told.starts_with("line 2 writes a value of 4,000,000,000 bytes"), "{told}");
    }

    #[test]
    fn mistakes_have_a_line_and_a_column() {
        let cases = [
            ("CREATE\nINSRT(0, \"a\", 1)", "line 2, column 1: expected CREATE, OPEN"),
            ("INSERT 0", "line 1, column 8: expected '(', but found '0'"),
            ("INSERT(\n x", "line 2, column 2: expected a number, but found 'x'"),
            ("FIND(0, \"abc)\n", "line 1, column 9: a key without its second quote"),
            ("FIND(0", "line 1, column 7: expected ',', but found the end"),
            ("NUMERIC_KEY FIND(0, \"x\")", "column 22: a key is a number"),
            ("FIND(0, \"x\") NUMERIC_KEY", "column 14: NUMERIC_KEY comes before"),
            ("INSERT(0, \"x\", 1)\nCREATE", "line 2, column 1: CREATE here"),
            ("BEGIN_TXN BEGIN_TXN", "column 11: a transaction begins within"),
            ("COMMIT_TXN", "there is no transaction"),
            ("BEGIN_TXN", "ends within a transaction"),
            ("BEGIN_TXN CLOSE", "column 11: the store is closed within a transaction"),
            ("CREATE CLOSE\nFLUSH", "line 2, column 1: the store is closed here"),
            ("INSERT(99999999999999999999, \"x\", 1)", "column 8: expected a number"),
        ];
        for (text, says) in cases {
            let error = script(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        // Whatever is cut off or changed, there is an answer.
        for at in 0..ALL.len() {
            let _ = script(&ALL.as_bytes()[..at]);
            let mut bytes = ALL.as_bytes().to_vec();
            bytes[at] ^= 0x81;
            let _ = script(&bytes);
        }
    }
}
