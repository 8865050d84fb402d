//! One error type for the whole library.
//!
//! A message says what was attempted, on which file, what was found, and what to do about it.
//! The error is one pointer wide, so that `Result<Option<..>>` stays small on the lookup path.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

/// The result of every fallible call of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, on which file, and what to do.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    path: Option<PathBuf>,
    about: About,
}

/// What the kind of an error does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Nothing,
    /// What is read belongs to a process that this one was forked from: it is not over there.
    Parent,
    /// What is damaged is the index beside the file.
    Index,
    /// The two do not fit each other.
    IndexOrData,
}

/// The kinds of failure a caller may want to tell apart.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused; `action` says what was attempted ("open", "write", ...).
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The system's own error.
        source: io::Error,
    },
    /// The file is not of the format it was opened as.
    WrongFormat {
        /// The format that was expected, in words.
        expected: &'static str,
        /// What was found instead, and what to do.
        found: String,
    },
    /// The file is of this format, but a version or feature that this program cannot read.
    Unsupported(String),
    /// The file is damaged: at this byte offset something is not as it must be.
    Corrupt {
        /// Byte offset in the file of the damaged place.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A key, a value or a file is over a documented limit, or a change over that of its store.
    TooLarge {
        /// What is too large: "key", "value", "file"; for a store with a limit "record", "batch".
        what: &'static str,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Text input that does not follow its format; nothing was published.
    Text {
        /// The format's name.
        format: &'static str,
        /// Line, counted from 1.
        line: u64,
        /// Byte in the line, counted from 1.
        column: u64,
        /// What is wrong there.
        what: String,
    },
    /// The lease of a snapshot or of a value is over, and somebody needed the space of what is read; or it is the lease of
    /// a process that this one was forked from. Whoever still wants to read begins anew.
    Expired {
        /// How long the lease was.
        lease: Duration,
    },
    /// Somebody else was writing to the store for as long as the call was to wait for that: nothing of it was done.
    Busy {
        /// How long that was.
        waited: Duration,
        /// The process that writes, perhaps this one, if it can be known.
        process: Option<u32>,
    },
    /// An argument or option makes no sense here; the text says which and why.
    Invalid(String),
}

impl Error {
    /// An error of this kind, not yet tied to a file.
    pub fn new(kind: ErrorKind) -> Self {
        Error(Box::new(Inner { kind, path: None, about: About::Nothing }))
    }

    /// A lease is over, or is that of a process that this one was forked from.
    #[cold]
    pub(crate) fn expired(lease: Duration, is_of_parent: bool) -> Self {
        let about = if is_of_parent { About::Parent } else { About::Nothing };
        Error(Box::new(Inner { kind: ErrorKind::Expired { lease }, path: None, about }))
    }

    /// An operating system error met while doing `action`.
    pub fn io(action: &'static str, source: io::Error) -> Self {
        Self::new(ErrorKind::Io { action, source })
    }

    /// Damage at a byte offset.
    #[cold]
    pub fn corrupt(offset: u64, what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt { offset, what: what.into() })
    }

    /// The same where the index beside the file does not fit it: `offset` is in one of the two.
    #[cold]
    pub(crate) fn corrupt_pair(offset: u64, what: &str) -> Self {
        let mut error = Self::corrupt(offset, what);
        error.0.about = About::IndexOrData;
        error
    }

    /// The same error where the index is known to be whole, or the data are: then what does not fit is the other.
    #[cold]
    pub(crate) fn known_to_be(mut self, is_of_index: bool) -> Self {
        if self.0.about == About::IndexOrData {
            self.0.about = if is_of_index { About::Index } else { About::Nothing };
        }
        self
    }

    /// An argument that makes no sense.
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid(what.into()))
    }

    /// Somebody else has the lock for as long as it was to be waited for.
    #[cold]
    pub(crate) fn busy(waited: Duration, process: Option<u32>) -> Self {
        Self::new(ErrorKind::Busy { waited, process })
    }

    /// Something that was given up for an earlier error is gone on with.
    #[cold]
    pub(crate) fn failed_before(what: &str) -> Self {
        Self::invalid(format!("{what} failed before: begin it anew"))
    }

    /// A store is compacted by a thread that is not waited for, as this process was forked.
    #[cold]
    pub(crate) fn compacting_elsewhere() -> Self {
        Self::invalid(
            "the store was being compacted when this process was forked, or is by another thread: \
             open it again to compact it here",
        )
    }

    /// Of who would wait for changes of a store that he only reads: whoever waits says so in its file.
    #[cold]
    pub(crate) fn waits_unseen() -> Self {
        Self::invalid(
            "waiting for changes needs permission to write to the store's file, and room for that on its disk",
        )
    }

    /// The same error of who waits for the disk when a change is made: also one of room that is needed to wait says so then,
    /// lest it be taken for that of a change that was refused.
    #[cold]
    pub(crate) fn of_done(mut self) -> Self {
        const ACTION: &str = "make durable";
        match &mut self.0.kind {
            ErrorKind::Io { action, .. } => *action = ACTION,
            ErrorKind::Busy { waited, process } => {
                let what = busy(*waited, *process);
                let source = io::Error::new(io::ErrorKind::TimedOut, what);
                self.0.kind = ErrorKind::Io { action: ACTION, source };
            }
            _ => {}
        }
        self
    }

    /// The same error, naming the file it happened on (kept if one is named already).
    #[must_use]
    pub fn at(mut self, path: impl AsRef<Path>) -> Self {
        self.0.path.get_or_insert_with(|| path.as_ref().to_owned());
        self
    }

    /// The same error, where `f` finds another name for the file that it names.
    #[cold]
    pub(crate) fn elsewhere(mut self, f: impl FnOnce(&Path) -> Option<PathBuf>) -> Self {
        if let Some(other) = self.path().and_then(f) {
            self.0.path = Some(other);
        }
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The file it happened on, if known.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Whether the file is damaged or of another format: its bytes are to blame, not the system.
    pub fn is_bad_file(&self) -> bool {
        use ErrorKind::{Corrupt, Unsupported, WrongFormat};
        matches!(self.0.kind, Corrupt { .. } | WrongFormat { .. } | Unsupported(_))
    }

    /// Whether it is that others have the lock.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Busy { .. })
    }

    /// Whether a file found no room: on its disk, or below a limit.
    pub(crate) fn is_no_room(&self) -> bool {
        matches!(&self.0.kind, ErrorKind::Io { source, .. } if is_no_room(source))
    }
}

/// Whether a file found no room: on its disk, or below a limit.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}: ", path.display())?;
        }
        match &self.0.kind {
            ErrorKind::Io { action, source } => {
                write!(f, "cannot {action}: {source}")?;
                match source.kind() {
                    io::ErrorKind::StorageFull => {
                        f.write_str(" (free some space and run it again)")
                    }
                    io::ErrorKind::QuotaExceeded => {
                        f.write_str(" (free some space, or raise the quota, and run it again)")
                    }
                    io::ErrorKind::FileTooLarge => f.write_str(
                        " (raise the limit of the size of files, which `ulimit -f` tells; without one, \
                         choose a file system that takes longer files)",
                    ),
                    io::ErrorKind::OutOfMemory => f.write_str(
                        " (free some memory, or raise the limit of this process's memory, which `ulimit -v` \
                         tells)",
                    ),
                    _ if source.raw_os_error() == Some(libc::EMFILE) => f.write_str(
                        " (close some files, or raise the limit of open files, which `ulimit -n` tells)",
                    ),
                    // An action that has advice of its own knows better.
                    io::ErrorKind::PermissionDenied if !action.ends_with(')') => {
                        f.write_str(" (check the owner and mode of the file and of its folder)")
                    }
                    _ => Ok(()),
                }
            }
            ErrorKind::WrongFormat { expected, found } => {
                write!(f, "this is not {expected}: {found}")
            }
            ErrorKind::Unsupported(what) => f.write_str(what),
            ErrorKind::Corrupt { offset, what } if self.0.about == About::Index => write!(
                f,
                "its index is damaged at byte {offset}: {what} (while nobody has the store open, remove the file of the \
                 same name that ends in -index: it is made again from the data)"
            ),
            ErrorKind::Corrupt { offset, what } if self.0.about == About::IndexOrData => write!(
                f,
                "its index or its data are damaged: {what}, at byte {offset} of one of the two ('credenza verify' tells \
                 which, and what to do)"
            ),
            ErrorKind::Corrupt { offset, what } => write!(
                f,
                "damaged at byte {offset}: {what} (restore the file from a copy, or build it again)"
            ),
            ErrorKind::TooLarge { what, size, limit } => {
                let noun = if *limit == 1 { "byte" } else { "bytes" };
                write!(f, "a {what} of {size} bytes is over the limit of {limit} {noun}")
            }
            ErrorKind::Text { format, line, column, what } => {
                write!(f, "{format} input, line {line}, column {column}: {what}")
            }
            ErrorKind::Expired { .. } if self.0.about == About::Parent => f.write_str(
                "expired in this process: what is read under a lease belongs to the process that began it, which this \
                 one was forked from (read again here with a lease of its own)",
            ),
            ErrorKind::Expired { lease } => {
                let seconds = lease.as_secs_f64();
                let noun = if seconds == 1.0 { "second" } else { "seconds" };
                write!(
                    f,
                    "expired: the lease of {seconds} {noun} is over, and the space of what is read under it \
                     was needed (read again with a new one; make it longer if that takes longer)"
                )
            }
            ErrorKind::Busy { waited, process } => {
                write!(f, "{}: this was not done (try again, or wait longer)", busy(*waited, *process))
            }
            ErrorKind::Invalid(what) => f.write_str(what),
        }
    }
}

/// Who had the lock that was waited for so long.
fn busy(waited: Duration, process: Option<u32>) -> String {
    let who = match process {
        Some(own) if own == std::process::id() => "another thread of this process".to_owned(),
        Some(other) => format!("process {other}"),
        None => "somebody else".to_owned(),
    };
    // What is longer than a second in tenths of one.
    let waited = match waited.as_millis() {
        ms @ 0..1000 => format!("{ms} ms"),
        _ => format!("{:.1} s", waited.as_secs_f64()),
    };
    format!("waited {waited} for {who}, which is writing to the store")
}

/// What is printed where a program ends with the error, by `main` or `unwrap`: it says what to do.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            ErrorKind::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// For those who have functions that give such errors; [`io::Error::downcast`] gets this one back.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        use io::ErrorKind::{InvalidData, InvalidInput, TimedOut, WouldBlock};
        let kind = match error.kind() {
            ErrorKind::Io { source, .. } => source.kind(),
            ErrorKind::WrongFormat { .. }
            | ErrorKind::Unsupported(_)
            | ErrorKind::Corrupt { .. }
            | ErrorKind::Text { .. } => InvalidData,
            ErrorKind::TooLarge { .. } | ErrorKind::Invalid(_) => InvalidInput,
            ErrorKind::Expired { .. } => TimedOut,
            ErrorKind::Busy { .. } => WouldBlock,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_among_those_of_the_system_is_the_same() {
        let text =
            "store: damaged at byte 7: a record (restore the file from a copy, or build it again)";
        let ours = io::Error::from(Error::corrupt(7, "a record").at("store"));
        assert_eq!((ours.kind(), ours.to_string()), (io::ErrorKind::InvalidData, text.to_owned()));
        let back = ours.downcast::<Error>().unwrap();
        assert_eq!(back.path(), Some(Path::new("store")));
        assert!(matches!(back.kind(), ErrorKind::Corrupt { offset: 7, .. }), "{back}");
        let full = Error::io("write", io::Error::from_raw_os_error(libc::ENOSPC));
        assert_eq!(io::Error::from(full).kind(), io::ErrorKind::StorageFull);
    }

    /// To lock memory is refused for its limit, whoever owns the file.
    #[test]
    fn advice_goes_with_what_was_refused() {
        let refused =
            |action| Error::io(action, io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(refused("open").contains("check the owner and mode"));
        assert!(!refused("lock in memory (raise `ulimit -l`)").contains("check the owner"));
        let no_room = |number| Error::io("write", io::Error::from_raw_os_error(number)).to_string();
        assert!(
            [libc::ENOSPC, libc::EDQUOT].map(no_room).iter().all(|e| e.contains("free some space"))
        );
    }
}
