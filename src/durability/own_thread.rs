//! A thread that a value of this library has, and what it is told by.
//!
//! Invariant: a process that was forked since does nothing with it. The thread is not there: whoever waits for it
//! waits for ever, what it had locked stays locked, and a thread of that process may have its number by now.

use crate::Error;
use crate::os::process::forks_and_pid;
use std::thread::{Builder, JoinHandle, Result};

/// A thread, and the sender `S` whose end tells it to end; dropped, it is waited for.
#[derive(Debug)]
pub(crate) struct OwnThread<S, T> {
    /// There until it is ended.
    running: Option<(S, JoinHandle<T>)>,
    /// What [`forks_and_pid`] gave in the process that has it.
    owner: (u32, u32),
}

impl<S, T: Send + 'static> OwnThread<S, T> {
    /// Starts a thread that does `work`.
    ///
    /// # Errors
    /// The system has no more threads for this user, or no memory.
    pub(crate) fn start(
        sender: S,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> crate::Result<OwnThread<S, T>> {
        let thread = Builder::new().spawn(work).map_err(|e| Error::io("start a thread for", e))?;
        Ok(OwnThread { running: Some((sender, thread)), owner: forks_and_pid() })
    }
}

impl<S, T> OwnThread<S, T> {
    /// None: as if it were ended.
    pub(crate) fn none() -> OwnThread<S, T> {
        OwnThread { running: None, owner: forks_and_pid() }
    }

    /// Whether this process was forked since.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.owner != forks_and_pid()
    }

    /// What it is told by, until it is ended.
    pub(crate) fn sender(&self) -> Option<&S> {
        self.running.as_ref().map(|(sender, _)| sender)
    }

    /// Tells it to end, and does not wait for it: it ends when what it waits for is there.
    pub(crate) fn leave(&mut self) {
        let running = self.running.take();
        if self.is_of_parent() {
            std::mem::forget(running);
        }
        // Else both are dropped: a thread that nobody waits for goes on.
    }

    /// Tells it to end, and waits for it; what came of it. `None` if that was done before, or it is the parent's.
    pub(crate) fn end(&mut self) -> Option<Result<T>> {
        let running = self.running.take()?;
        if self.is_of_parent() {
            std::mem::forget(running);
            return None;
        }
        let (sender, thread) = running;
        drop(sender);
        Some(thread.join())
    }
}

impl<S, T> Drop for OwnThread<S, T> {
    fn drop(&mut self) {
        // Whoever panicked there has said so.
        let _ = self.end();
    }
}
