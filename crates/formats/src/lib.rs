//! Text dump formats of key-value stores, as streams of records.
//!
//! A [`Reader`] turns text into records, a [`Writer`] turns records into text. All formats are
//! read in one pass from any [`BufRead`], and nothing of the input is kept but the record at hand.
//!
//! | format | a record | binary | ends with | CR before LF |
//! |---|---|---|---|---|
//! | `cdb` | `+3,5:one->first` | as it is | an empty line, required | an error; inside key or value it is data |
//! | `tsv` | `one` TAB `first` | `\t \n \r \\ \xHH` | | dropped |
//! | `map` | `one first` | as it is, but see below | | belongs to the value |
//! | `lines` | `one` | as it is, but see below | | belongs to the key |
//! | `db_dump` | ` 6f6e65` LF ` 6669727374` | hexadecimal | `DATA=END`, required | dropped |
//! | `db_dump-p` | ` one` LF ` first` | `\\ \hh` | `DATA=END`, required | dropped |
//! | `tdbdump` | `{`, `key(3) = "one"`, `data(5) = "first"`, `}` | `\HH` | | dropped |
//! | `mdbm_export` | `one` LF `first` | `\\ \hh` | | dropped |
//! | `jsonl` | `{"key":"one","value":"first"}` | `key_base64`, `value_base64` | | white space |
//!
//! Where a carriage return is dropped, the format's writers escape those that are data. The last
//! line feed of the input may be missing where the input is complete without it: in `tsv`, `map`,
//! `lines` and `jsonl`, after `DATA=END` and after the last `}`.
//!
//! The mark of UTF-8 (EF BB BF) that a text of `tsv`, `lines` or `jsonl` may begin with is not part of the
//! first record, and columns do not count it. Where the first key begins with these bytes, the writer of `tsv` and
//! `lines` puts the mark before it.
//!
//! Limits: a key of at most 64 KiB and a value of at most 4 GiB - 1, as everywhere in Credenza; a
//! header line of at most 64 KiB, a line of JSON of at most 6 GiB. Memory follows the bytes that
//! have been read, never a length that the input claims; where there is none for a record, that is an
//! error as its limit is. Lines and columns in errors count bytes,
//! from 1, also inside binary keys and values; after an error the reader gives no more records.
//!
//! `map` has no keys that are empty, begin with `#` or contain a blank, a tab or a line feed, and no
//! values that begin with a blank or a tab or contain a line feed; `lines` has no values and no keys
//! with a line feed; `mdbm_export` has no empty keys. Such a record is an error of the writer.
//!
//! ```
//! use credenza_formats::{Format, reader, writer};
//!
//! let mut text = Vec::new();
//! let mut writer = writer(Format::CdbText, &mut text);
//! writer.write(b"one", b"first")?;
//! writer.finish()?;
//! assert_eq!(text, b"+3,5:one->first\n\n");
//!
//! let mut reader = reader(Format::CdbText, std::io::Cursor::new(text));
//! let (mut key, mut value) = (Vec::new(), Vec::new());
//! while reader.next_record(&mut key, &mut value)? {
//!     assert_eq!((&key[..], &value[..]), (&b"one"[..], &b"first"[..]));
//! }
//! # Ok::<(), credenza::Error>(())
//! ```

mod cdb;
mod db_dump;
mod escape;
mod format;
mod input;
mod json;
mod lines;
mod map;
mod mark;
mod mdbm;
mod tdb;
mod tsv;

pub use format::{Compression, Format};

use credenza::{Error, Result};
use input::Input;
pub use mark::MARK;
use mark::Unmarked;
use std::io::{self, BufRead, BufWriter, Write};

/// Where a codec writes to.
pub(crate) type Output<'a> = BufWriter<Box<dyn Write + 'a>>;

/// One format: how a record is read and how it is written.
pub(crate) trait Codec {
    /// Reads the next record over `key` and `value`, both empty; `false` at the end of the input.
    fn read(&mut self, input: &mut Input, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool>;

    /// The databases that the text has told of so far.
    fn databases(&self) -> &[Database] {
        &[]
    }

    /// No key of what is written comes twice.
    fn expect_single_values(&mut self) {}

    /// Writes what comes before the first record.
    fn begin(&self, _out: &mut Output<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Why this record cannot be written, if so.
    fn refusal(&self, _key: &[u8], _value: &[u8]) -> Option<&'static str> {
        None
    }

    /// Writes a record that is not refused.
    fn write(&self, key: &[u8], value: &[u8], out: &mut Output<'_>) -> io::Result<()>;

    /// Writes what comes after the last record.
    fn end(&self, _out: &mut Output<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// What a dump of Berkeley DB or LMDB says of a database in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Its name; `None` if it is the only one of its file, or the main one.
    pub name: Option<Vec<u8>>,
    /// Whether a key may come several times.
    pub repeats: Repeats,
    /// Whether its keys are numbers of four or eight bytes, the lowest first.
    pub has_integer_keys: bool,
    /// Whether its keys are the numbers of its records, in decimal digits.
    pub is_numbered: bool,
    /// Whether its keys are in the order of their bytes from the last to the first.
    pub has_reverse_keys: bool,
    /// Whether the values of a key are in another order than that of their bytes, as numbers or from the last byte on.
    pub has_odd_values: bool,
}

/// How the values of a key are, if there may be several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// There is one.
    None,
    /// In the order of their bytes, each once.
    Sorted,
    /// In an order of their own.
    InOrder,
}

/// Reads records of `format` from `input`.
pub fn reader(format: Format, input: impl BufRead + 'static) -> Reader {
    reader_by(format, format.codec(), input)
}

/// Reads [`Format::Lines`] from `input` where every line is a value, as long as values may be; the keys are empty.
pub fn reader_of_values(input: impl BufRead + 'static) -> Reader {
    reader_by(Format::Lines, Box::new(lines::Lines { are_values: true }), input)
}

fn reader_by(format: Format, codec: Box<dyn Codec>, input: impl BufRead + 'static) -> Reader {
    let input: Box<dyn BufRead> =
        if format.may_be_marked() { Box::new(Unmarked::new(input)) } else { Box::new(input) };
    let input = Input::new(format.name(), input);
    Reader { input, codec, state: State::Reading }
}

/// The records of a text, one after the other.
pub struct Reader {
    input: Input,
    codec: Box<dyn Codec>,
    state: State,
}

enum State {
    Reading,
    Ended,
    Failed,
}

impl Reader {
    /// Reads the next record into `key` and `value`, replacing what they hold; `false` at the end
    /// of the input.
    ///
    /// # Errors
    /// The input does not follow its format (the kind is `Text` and tells line and column), a key
    /// or a value is over its limit or does not fit in memory (likewise), or the input could not be read. The records
    /// before were good; after an error every call fails.
    pub fn next_record(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        match self.state {
            State::Reading => {}
            State::Ended => return Ok(false),
            State::Failed => return Err(Error::invalid("reading has stopped at an earlier error")),
        }
        key.clear();
        value.clear();
        self.input.begin_record();
        match self.codec.read(&mut self.input, key, value) {
            Ok(true) => Ok(true),
            Ok(false) => {
                self.state = State::Ended;
                Ok(false)
            }
            Err(error) => {
                self.state = State::Failed;
                Err(error)
            }
        }
    }
}

impl Reader {
    /// An error for what is wrong with the record read last in the eyes of who takes it: the kind is `Text`, and
    /// line and column are those where it begins.
    #[cold]
    pub fn error_of_record(&mut self, what: impl Into<String>) -> Error {
        self.input.error_of_record(what)
    }

    /// The databases that the text has told of so far; the record read last is of the last of them.
    /// At the end of the text all of them. Only dumps of Berkeley DB and LMDB tell of any.
    pub fn databases(&self) -> &[Database] {
        self.codec.databases()
    }
}

/// Writes records in `format` to `output`, in pieces of 64 KiB.
pub fn writer<'a>(format: Format, output: impl Write + 'a) -> Writer<'a> {
    let output: Box<dyn Write + 'a> = Box::new(output);
    let output = BufWriter::with_capacity(64 << 10, output);
    Writer { output, format, codec: format.codec(), begun: false }
}

/// A text that records are added to. Without [`Writer::finish`] it is incomplete.
pub struct Writer<'a> {
    output: Output<'a>,
    format: Format,
    codec: Box<dyn Codec>,
    begun: bool,
}

impl Writer<'_> {
    /// Says, before the first record, that no key comes twice: a header that tells of several values then does not.
    pub fn expect_single_values(&mut self) {
        self.codec.expect_single_values();
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The format cannot express this record (the kind is `Invalid`; nothing of it was written, and
    /// other records may follow), or the output cannot be written.
    pub fn write(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(why) = self.codec.refusal(key, value) {
            return Err(self.refused(key, why));
        }
        self.begin(key)
            .and_then(|()| self.codec.write(key, value, &mut self.output))
            .map_err(failed)
    }

    /// Writes what the format puts after the last record, and flushes the output.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(mut self) -> Result<()> {
        self.begin(b"")
            .and_then(|()| self.codec.end(&mut self.output))
            .and_then(|()| self.output.flush())
            .map_err(failed)
    }

    fn begin(&mut self, first_key: &[u8]) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        // A reader skips the first one that it sees.
        if self.format.begins_with_key() && first_key.starts_with(MARK) {
            self.output.write_all(MARK)?;
        }
        self.codec.begin(&mut self.output)
    }

    #[cold]
    fn refused(&self, key: &[u8], why: &str) -> Error {
        const SHOWN: usize = 60;
        let shown = key[..key.len().min(SHOWN)].escape_ascii();
        let more = if key.len() > SHOWN { "..." } else { "" };
        let format = self.format;
        Error::invalid(format!(
            "the record with key '{shown}{more}' cannot be written as {format}: {why}"
        ))
    }
}

fn failed(error: io::Error) -> Error {
    Error::io("write", error)
}
