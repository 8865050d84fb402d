//! The mark that some programs begin a text of UTF-8 with: the bytes of U+FEFF, which tell nothing.

use std::io::{self, BufRead, Read};

/// The mark that some programs begin a text of UTF-8 with, which is no part of what is in it.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

/// A text without the mark, if it begins with one. No more is asked for than tells whether it does, so that a
/// terminal is not waited for.
pub(crate) struct Unmarked<R> {
    text: R,
    /// How much of the mark has been seen; `None` when that is decided.
    seen: Option<usize>,
    /// What was taken for the begin of a mark and is none.
    owed: &'static [u8],
}

impl<R: BufRead> Unmarked<R> {
    pub fn new(text: R) -> Self {
        Unmarked { text, seen: Some(0), owed: &[] }
    }
}

impl<R: BufRead> BufRead for Unmarked<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while let Some(seen) = self.seen {
            let next = self.text.fill_buf()?.first().copied();
            if next.is_some() && next == MARK.get(seen).copied() {
                self.text.consume(1);
                self.seen = Some(seen + 1);
                continue;
            }
            self.seen = None;
            self.owed = if seen == MARK.len() { &[] } else { &MARK[..seen] };
            if next.is_none() {
                // A terminal that has said its end is not asked again.
                return Ok(self.owed);
            }
        }
        if self.owed.is_empty() { self.text.fill_buf() } else { Ok(self.owed) }
    }

    fn consume(&mut self, count: usize) {
        if self.owed.is_empty() {
            self.text.consume(count);
        } else {
            self.owed = &self.owed[count..];
        }
    }
}

impl<R: BufRead> Read for Unmarked<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let taken = self.fill_buf()?.read(bytes)?;
        self.consume(taken);
        Ok(taken)
    }
}
