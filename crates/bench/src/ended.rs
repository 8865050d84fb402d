//! How a process of ours ended that did not end well.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// In words, with what SIGBUS tells of here.
pub(crate) fn in_words(status: ExitStatus, sigbus: impl FnOnce() -> &'static str) -> String {
    match status.signal() {
        Some(libc::SIGBUS) => format!("it was ended by SIGBUS{}", sigbus()),
        Some(libc::SIGKILL) => "it was killed: the memory may have been exhausted".to_owned(),
        Some(libc::SIGSEGV) => "it was ended by SIGSEGV".to_owned(),
        Some(libc::SIGABRT) => "it ended itself (SIGABRT)".to_owned(),
        Some(signal) => format!("it was ended by signal {signal}"),
        None => format!("it ended early ({status})"),
    }
}
