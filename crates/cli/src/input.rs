//! Text input: files and standard input, their formats guessed where they are not named.

use crate::progress::{Bar, Unit};
use credenza::{Error, ErrorKind, Result};
use credenza_formats::{Compression, Database, Format, Reader};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether the argument means standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}

/// How an input is called in messages.
pub fn name_of(path: &Path) -> &Path {
    if is_dash(path) { Path::new("standard input") } else { path }
}

/// An error if a store that is to be made is called as standard output is.
pub fn refuse_dash(store: &Path) -> Result<()> {
    if !is_dash(store) {
        return Ok(());
    }
    Err(Error::invalid("a store cannot be written to standard output; name its file"))
}

/// An error if this program was started without a standard input, which is not to be taken for an empty one: a store would
/// be emptied by it. In the place of one that is closed there is `/dev/null` then, open to read and to write; so it is for
/// who is started by some programs that give him nothing. A shell opens it to read.
pub fn check_given() -> Result<()> {
    let null = std::fs::metadata("/dev/null").map(|meta| meta.rdev());
    let Ok(own) = own_stdin() else { return Ok(()) };
    let is_null = own.metadata().is_ok_and(|meta| null.is_ok_and(|null| meta.rdev() == null));
    let mode = fcntl(&own, FcntlArg::F_GETFL).map(|flags| flags & OFlag::O_ACCMODE.bits());
    if is_null && mode == Ok(OFlag::O_RDWR.bits()) {
        let what = "there is none, as it is closed, or /dev/null that is open to write, too: name a file, or say \
                    < /dev/null for an empty input";
        return Err(Error::invalid(what).at(name_of(Path::new("-"))));
    }
    Ok(())
}

/// Standard input as a file.
fn own_stdin() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// An opened input that may hold anything.
pub struct Input {
    /// How it is called in messages.
    pub name: PathBuf,
    reader: Box<dyn BufRead>,
}

impl Input {
    /// Opens the file at `path`, or standard input for `-`. A FIFO is waited for.
    pub fn open(path: &Path) -> Result<Input> {
        let name = name_of(path).to_owned();
        if is_dash(path) {
            check_given()?;
            return Ok(Input { name, reader: Box::new(io::stdin().lock()) });
        }
        let file = File::open(path).map_err(|e| Error::io("open", e).at(path))?;
        if file.metadata().is_ok_and(|meta| meta.is_dir()) {
            let what = match credenza::foreign::unread_folder(path) {
                Some(what) => format!("this is {what}"),
                None => "this is a directory; name a file, or - for standard input".to_owned(),
            };
            return Err(Error::invalid(what).at(path));
        }
        let reader = Box::new(BufReader::with_capacity(256 << 10, file));
        Ok(Input { name, reader })
    }

    /// The bytes.
    pub fn into_reader(self) -> Box<dyn BufRead> {
        self.reader
    }

    /// The records, in `format` or in the one that the first bytes and the name speak for.
    pub fn into_records(
        mut self,
        format: Option<Format>,
        done: &Arc<AtomicU64>,
    ) -> Result<Records> {
        let mut start = Vec::new();
        let mut packed_by = None;
        let mut is_guessed = false;
        let format = match format {
            Some(format) => {
                let first = self.reader.fill_buf();
                let first = first.map_err(|e| Error::io("read", e).at(&self.name))?;
                packed_by = Compression::of(first);
                if first.is_empty() {
                    // Of a terminal it is not asked for again.
                    self.reader = Box::new(io::empty());
                }
                format
            }
            None => {
                let limit = Format::LOOKED_AT as u64;
                let read = (&mut self.reader).take(limit).read_to_end(&mut start);
                read.map_err(|e| Error::io("read", e).at(&self.name))?;
                if start.len() < Format::LOOKED_AT {
                    // Of a terminal it is not asked for again.
                    self.reader = Box::new(io::empty());
                }
                let guessed = guess(&start, &self.name)?;
                // A tab is in much that is not this; what speaks for the others is in nothing else.
                is_guessed = guessed == Format::Tsv;
                guessed
            }
        };
        let counted = Counted { inner: Cursor::new(start).chain(self.reader), done: done.clone() };
        let reader = credenza_formats::reader(format, counted);
        Ok(Records { reader, name: self.name, format, is_guessed, packed_by })
    }

    /// The records whose values are its lines, and whose keys are empty.
    fn into_values(self, done: &Arc<AtomicU64>) -> Records {
        let counted = Counted { inner: self.reader, done: done.clone() };
        let reader = credenza_formats::reader_of_values(counted);
        let format = Format::Lines;
        Records { reader, name: self.name, format, is_guessed: false, packed_by: None }
    }
}

fn guess(start: &[u8], name: &Path) -> Result<Format> {
    Format::guess(start, Some(name)).ok_or_else(|| Error::invalid(why_untold(start)).at(name))
}

/// Why the format of an input that begins so cannot be told, and what to do.
#[cold]
fn why_untold(start: &[u8]) -> String {
    if let Some(Compression { name, unpack }) = Compression::of(start) {
        return format!(
            "this is packed by {name}, so that the format of what is in it cannot be told: unpack it first, \
             as '{unpack} FILE | credenza load STORE' does"
        );
    }
    if let Some(what) = credenza::foreign::unread(start) {
        return format!("this is {what}");
    }
    let why = if start.is_empty() {
        "the input is empty, so that its format cannot be told"
    } else if start.contains(&0) {
        "the input has bytes that are zero, as binary files have: the format of a text cannot be told"
    } else {
        "the format of the input cannot be told from its first bytes"
    };
    let names: Vec<String> = Format::ALL.iter().map(ToString::to_string).collect();
    format!("{why}; say --from with one of {}", names.join(", "))
}

/// Why a record is not taken.
#[derive(Debug)]
pub enum Refusal {
    /// For what it is: the place in the input helps.
    Record(Error),
    /// For what has nothing to do with it, such as a full disk.
    Other(Error),
}

impl Refusal {
    /// The same, naming this file if it is about none yet.
    #[must_use]
    pub fn at(self, path: &Path) -> Refusal {
        match self {
            Refusal::Other(error) => Refusal::Other(error.at(path)),
            of_record => of_record,
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match error.kind() {
            // Of a batch, or of a file, it may be any record that is too much.
            ErrorKind::TooLarge { what: "key" | "value" | "sorted value" | "record", .. } => {
                Refusal::Record(error)
            }
            _ => Refusal::Other(error),
        }
    }
}

/// The records of one input.
pub struct Records {
    reader: Reader,
    name: PathBuf,
    /// How it is read.
    format: Format,
    /// Whether nobody named the format, and little spoke for it.
    is_guessed: bool,
    /// What its first bytes are of, if they are no text's.
    packed_by: Option<Compression>,
}

impl Records {
    /// Fills `key` and `value` with the next record; false at the end. An error names the input.
    pub fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        let next = self.reader.next_record(key, value);
        next.map_err(|e| self.with_advice(e).at(&self.name))
    }

    /// What does not follow its format may have another.
    #[cold]
    fn with_advice(&self, error: Error) -> Error {
        let ErrorKind::Text { format, line, column, what } = error.kind() else { return error };
        let advice = match self.packed_by {
            Some(Compression { name, unpack }) => {
                format!("the input is packed by {name}: '{unpack} FILE' unpacks it")
            }
            None if self.is_guessed => {
                "nobody said that the format is this one: --from names another".to_owned()
            }
            None => return error,
        };
        let what = format!("{what} ({advice})");
        Error::new(ErrorKind::Text { format, line: *line, column: *column, what })
    }

    /// The error for the record read last, with its place in the input if it is to blame.
    #[cold]
    pub fn refused(&mut self, why: Refusal) -> Error {
        match why {
            Refusal::Record(error) => {
                // What is named is the input, and not the store that has no place for the record.
                let store = error.path().map(|path| format!("{}: ", path.display()));
                let text = error.to_string();
                let what = store.and_then(|store| text.strip_prefix(&*store)).unwrap_or(&text);
                self.reader.error_of_record(what.to_owned()).at(&self.name)
            }
            Refusal::Other(error) => error,
        }
    }

    /// The databases that the input has told of so far.
    pub fn databases(&self) -> &[Database] {
        self.reader.databases()
    }

    /// An error once a second database has begun, whose records are no more to be told from those of the
    /// first where there are no tables.
    fn check_one_database(&self) -> Result<()> {
        if self.databases().len() <= 1 {
            return Ok(());
        }
        let what = "there are several databases in it: 'credenza convert --to btree' makes a table of \
                    each that has a name; records of the first may be in by now where they go into a \
                    hash store that was there";
        Err(Error::invalid(what).at(&self.name))
    }
}

/// Calls `f` with every record of every input, in their order; returns how many there were. An input with
/// several databases is refused.
pub fn each_record<E: Into<Refusal>>(
    paths: &[PathBuf],
    format: Option<Format>,
    bar: &Bar,
    f: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<u64> {
    each_with_database(paths, format, bar, |_, _| {}, f)
}

/// The same; `tell` learns once of each input how it is read, and of the database that it says to be of.
pub fn each_with_database<E: Into<Refusal>>(
    paths: &[PathBuf],
    format: Option<Format>,
    bar: &Bar,
    mut tell: impl FnMut(Format, &[Database]),
    mut f: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<u64> {
    let mut is_told = false;
    each_of_databases(paths, format, bar, |records, record| {
        records.check_one_database()?;
        if !is_told {
            tell(records.format, records.databases());
        }
        // Behind its end another input begins.
        is_told = record.is_some();
        record.map_or(Ok(()), |(key, value)| f(key, value).map_err(Into::into))
    })
}

/// The same with the input, which knows the databases that it has told of so far; once more without a
/// record at its end.
pub fn each_of_databases(
    paths: &[PathBuf],
    format: Option<Format>,
    bar: &Bar,
    f: impl FnMut(&Records, Option<(&[u8], &[u8])>) -> Result<(), Refusal>,
) -> Result<u64> {
    each_read(paths, bar, |input, done| input.into_records(format, done), f)
}

/// Calls `f` with every line of standard input, as a value.
pub fn each_value(bar: &Bar, mut f: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
    let from = [PathBuf::from("-")];
    let read = |input: Input, done: &Arc<AtomicU64>| Ok(input.into_values(done));
    each_read(&from, bar, read, |_, record| record.map_or(Ok(()), |(_, value)| Ok(f(value)?)))
}

fn each_read(
    paths: &[PathBuf],
    bar: &Bar,
    read: impl Fn(Input, &Arc<AtomicU64>) -> Result<Records>,
    mut f: impl FnMut(&Records, Option<(&[u8], &[u8])>) -> Result<(), Refusal>,
) -> Result<u64> {
    bar.begin("reading", Unit::Bytes, total_bytes(paths));
    let done = Arc::new(AtomicU64::new(0));
    let (mut key, mut value, mut count) = (Vec::new(), Vec::new(), 0u64);
    for path in paths {
        let mut records = read(Input::open(path)?, &done)?;
        while records.next(&mut key, &mut value)? {
            f(&records, Some((&key, &value))).map_err(|e| records.refused(e))?;
            count += 1;
            if count.is_multiple_of(1024) {
                bar.at(done.load(Ordering::Relaxed));
            }
        }
        f(&records, None).map_err(|e| records.refused(e))?;
    }
    Ok(count)
}

/// The size of all inputs, if all are regular files.
pub fn total_bytes(paths: &[PathBuf]) -> Option<u64> {
    paths.iter().try_fold(0u64, |sum, path| {
        let meta = std::fs::metadata(path).ok().filter(|meta| meta.is_file() && !is_dash(path))?;
        Some(sum.saturating_add(meta.len()))
    })
}

/// Whether records may be waited for: not all inputs are regular files.
pub fn may_wait(paths: &[PathBuf]) -> bool {
    let is_regular = |path: &PathBuf| match is_dash(path) {
        true => own_stdin().and_then(|file| file.metadata()),
        false => std::fs::metadata(path),
    };
    !paths.iter().all(|path| is_regular(path).is_ok_and(|meta| meta.is_file()))
}

/// Tells a person who types the records how to end them.
pub fn hint_if_typed(paths: &[PathBuf], quiet: bool) {
    if !quiet && paths.iter().any(|path| is_dash(path)) && io::stdin().is_terminal() {
        crate::exit::note("reading records from this terminal; Ctrl-D ends them");
    }
}

/// Counts the bytes that are consumed.
struct Counted<R> {
    inner: R,
    done: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.done.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.done.fetch_add(n as u64, Ordering::Relaxed);
        self.inner.consume(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal at which the end of the input is typed, and then more.
    struct Terminal(Vec<&'static [u8]>);

    impl Read for Terminal {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let typed = if self.0.is_empty() { &[][..] } else { self.0.remove(0) };
            bytes[..typed.len()].copy_from_slice(typed);
            Ok(typed.len())
        }
    }

    #[test]
    fn the_end_is_typed_once() {
        let reader = Box::new(BufReader::new(Terminal(vec![b"a\t1\nb\t2\n", b"", b"c\t3\n"])));
        let input = Input { name: "typed".into(), reader };
        let mut records = input.into_records(None, &Arc::default()).unwrap();
        let (mut key, mut value, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        while records.next(&mut key, &mut value).unwrap() {
            keys.push(key.clone());
        }
        assert_eq!(keys, [b"a", b"b"]);
    }
}
