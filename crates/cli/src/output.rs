//! Where results go: standard output, or a file that appears whole or not at all.

use crate::exit;
use crate::replaced::{check_is_no_store, check_is_other};
use credenza::{Error, ErrorKind, Result, Staged};
use indicatif::HumanCount;
use std::borrow::Cow;
use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// How standard output is called in messages.
const STDOUT: &str = "standard output";

/// A buffered destination of bytes. Dropped without [`Output::finish`], a file does not appear.
#[derive(Debug)]
pub struct Output {
    writer: BufWriter<File>,
    staged: Option<Staged>,
    name: PathBuf,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Result<Output> {
        let name = PathBuf::from(STDOUT);
        // Not `io::Stdout`: its line buffer would be a second one, flushed with errors ignored.
        match io::stdout().as_fd().try_clone_to_owned() {
            Ok(fd) => Ok(Output { writer: buffered(fd.into()), staged: None, name }),
            Err(e) => Err(Error::io("open", e).at(name)),
        }
    }

    /// For what nobody reads any more.
    pub fn nowhere() -> Result<Output> {
        let name = PathBuf::from("/dev/null");
        match OpenOptions::new().write(true).open(&name) {
            Ok(file) => Ok(Output { writer: buffered(file), staged: None, name }),
            Err(e) => Err(Error::io("open for writing", e).at(name)),
        }
    }

    /// The file at `path`, or standard output for `-`. What is not a regular file (a FIFO, a
    /// device) is written directly, and so is what the shell has opened, by whatever name: a file put in its
    /// place would lack what others wrote to it before, and what they write later. `source` is the store that
    /// is read, which the file cannot replace; nor does it replace another store.
    pub fn create(path: &Path, source: Option<&Path>) -> Result<Output> {
        if path == Path::new("-") {
            return Output::stdout();
        }
        let name = path.to_owned();
        let is_file = std::fs::metadata(path).map(|meta| meta.is_file());
        if is_file.as_ref().is_ok_and(|is_file| *is_file) {
            source.map_or(Ok(()), |source| check_is_other(path, source))?;
            // Nor are records written into a store.
            check_is_no_store(path)?;
        }
        if let Some(number) = descriptor(path) {
            let file = credenza_bench::inherited(number);
            let file = file.map_err(|e| Error::io("open for writing", e).at(path))?;
            return Ok(Output { writer: buffered(file), staged: None, name });
        }
        if is_file.is_ok_and(|is_file| !is_file) {
            let file = OpenOptions::new().write(true).open(path);
            let file = file.map_err(|e| Error::io("open for writing", e).at(path))?;
            return Ok(Output { writer: buffered(file), staged: None, name });
        }
        let staged = Staged::create(path)?;
        let file = staged.file().try_clone().map_err(|e| Error::io("open", e).at(path))?;
        Ok(Output { writer: buffered(file), staged: Some(staged), name })
    }

    /// How the destination is called in messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Whether a person is looking at it, so that a progress bar would be in the way.
    pub fn is_terminal(&self) -> bool {
        self.writer.get_ref().is_terminal()
    }

    /// Whether who takes it may be slow, or wait for who writes to the store that is read: it is no regular file.
    pub fn may_wait(&self) -> bool {
        !self.writer.get_ref().metadata().is_ok_and(|meta| meta.is_file())
    }

    /// Writes what is buffered, and makes a file appear.
    pub fn finish(mut self) -> Result<()> {
        self.writer.flush().map_err(|e| Error::io("write", e).at(&self.name))?;
        self.staged.map_or(Ok(()), Staged::publish)
    }

    /// Writes `bytes`, with the destination named in the error.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(|e| Error::io("write", e).at(&self.name))
    }

    /// Writes bytes as [`escaped`] has them, a piece at a time: for all of a long value there may be no memory.
    pub fn put_escaped(&mut self, bytes: &[u8]) -> Result<()> {
        each_escaped(bytes, |piece| self.put(piece.as_bytes()))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// The number of the descriptor that `path` names, or of the one of standard output and standard error that leads
/// to the file there.
fn descriptor(path: &Path) -> Option<i32> {
    match path.to_str() {
        Some("/dev/stdin") => return Some(0),
        Some("/dev/stdout") => return Some(1),
        Some("/dev/stderr") => return Some(2),
        Some(name) => {
            let number = name.strip_prefix("/dev/fd/").or(name.strip_prefix("/proc/self/fd/"));
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                return Some(number);
            }
        }
        None => {}
    }
    [1, 2].into_iter().find(|number| credenza_bench::leads_to(*number, path))
}

fn buffered(file: File) -> BufWriter<File> {
    BufWriter::with_capacity(256 << 10, file)
}

/// Writes one result to standard output: for commands that print a line or a page.
pub fn print(text: impl AsRef<[u8]>) -> Result<()> {
    let mut out = Output::stdout()?;
    out.put(text.as_ref())?;
    out.finish()
}

/// Says what was done, by a command that changed something: an error tells that it is done, lest it is
/// done once more.
pub fn tell(text: impl AsRef<[u8]>) -> Result<()> {
    print(text).map_err(|e| match e.kind() {
        ErrorKind::Io { source, .. } if !exit::is_closed_pipe(&e) => {
            Error::invalid(format!("it is done, but could not be told: {source}")).at(STDOUT)
        }
        _ => e,
    })
}

/// So many of what `noun` names one of.
pub fn counted(n: u64, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", HumanCount(n))
}

/// Bytes as people read them: text as it is, everything else as `\xNN`.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let put = |piece: &str| {
        text.push_str(piece);
        Ok::<_, Infallible>(())
    };
    let Ok(()) = each_escaped(bytes, put);
    text
}

/// Gives them to `put`, a piece at a time.
fn each_escaped<E>(bytes: &[u8], mut put: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    for chunk in bytes.utf8_chunks() {
        let (text, mut from) = (chunk.valid(), 0);
        for (at, found) in text.match_indices(is_escaped) {
            put(&text[from..at])?;
            put(&escape_of(found))?;
            from = at + found.len();
        }
        put(&text[from..])?;
        chunk.invalid().iter().try_for_each(|byte| put(&hex(*byte)))?;
    }
    Ok(())
}

fn is_escaped(c: char) -> bool {
    c == '\\' || c.is_control() || is_invisible(c)
}

/// What stands for a character that is escaped.
fn escape_of(c: &str) -> Cow<'static, str> {
    match c {
        "\\" => "\\\\".into(),
        "\n" => "\\n".into(),
        "\r" => "\\r".into(),
        "\t" => "\\t".into(),
        c => c.bytes().map(hex).collect::<String>().into(),
    }
}

/// A key as people read it, cut where it is long.
pub fn shown_key(key: &[u8]) -> String {
    const SHOWN: usize = 60;
    let more = if key.len() > SHOWN { "..." } else { "" };
    format!("{}{more}", escaped(begin(key, SHOWN)))
}

/// At most so many bytes from the beginning, and no part of a character that is cut in two.
pub fn begin(bytes: &[u8], most: usize) -> &[u8] {
    let end = bytes.len().min(most);
    let is_inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (end.saturating_sub(3)..=end).rev().find(|at| !is_inside(at)).unwrap_or(end);
    bytes.get(..end).unwrap_or_default()
}

/// Text of the program's own in which there may be names of files, which are anybody's: what would move or
/// colour the terminal, or begin another line, as it is in [`escaped`].
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() || is_invisible(c) => {
                shown.push_str(&escaped(c.to_string().as_bytes()))
            }
            c => shown.push(c),
        }
    }
    shown
}

/// The name of a file, to be shown.
pub fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// Characters that change the direction or the place of what follows: they would let a key
/// pretend to be another one on the screen.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn hex(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn text_stays_and_the_rest_is_escaped() {
        assert_eq!(escaped("naïve – ok".as_bytes()), "naïve – ok");
        assert_eq!(escaped(b"a\tb\nc\\d\x1b[0m"), "a\\tb\\nc\\\\d\\x1b[0m");
        assert_eq!(escaped(b"\xff\xc3\xa9\xc3"), "\\xffé\\xc3");
        assert_eq!(escaped("\u{202e}x\u{9b}".as_bytes()), "\\xe2\\x80\\xaex\\xc2\\x9b");
    }
}
