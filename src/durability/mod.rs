//! When what was written is safe against the loss of power: the same three words for every engine.

mod own_thread;

use crate::Result;
pub(crate) use own_thread::OwnThread;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::mpsc;
use std::time::Duration;

/// When what was written is safe against the loss of power. All are safe against the death of the
/// process, from the moment when the call returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When `sync` returns, or the kernel gets to it. After a power failure the store is as it was at
    /// some moment since the last sync. To keep that promise the hash engine syncs by itself, in the
    /// write that finds it due, when an eighth of the file is space that its cleaner emptied and that
    /// only a sync makes free.
    #[default]
    Buffered,
    /// As buffered, with a sync every so many milliseconds, by a thread of the process that opened the store. In one that is
    /// forked since there is none: it opens the store itself, or calls `sync`, to have what it writes synced when its
    /// parent has ended. The last one is when the store is closed; if another then writes to a hash store for longer than a
    /// second, as in a transaction, what came since the one before is not synced by it.
    Interval(u64),
    /// When the call returns; those who call at the same time share one wait for the disk.
    Sync,
}

/// A thread that syncs now and then, until this is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    thread: OwnThread<mpsc::Sender<()>, ()>,
}

// Nobody looks at what the thread ends with, and nothing else of it changes: no panic leaves it half-way.
impl UnwindSafe for Ticker {}
impl RefUnwindSafe for Ticker {}

impl Ticker {
    /// Calls `sync` every `ms` milliseconds, and at the end.
    pub(crate) fn start(ms: u64, sync: impl Fn() -> Result<()> + Send + 'static) -> Result<Ticker> {
        let (sender, receiver) = mpsc::channel();
        let pause = Duration::from_millis(ms.max(1));
        let tick = move || {
            while let Err(mpsc::RecvTimeoutError::Timeout) = receiver.recv_timeout(pause) {
                // The next tick tries again; who must know calls `sync`.
                let _ = sync();
            }
            let _ = sync();
        };
        Ok(Ticker { thread: OwnThread::start(sender, tick)? })
    }

    /// Tells it to end, and does not wait for it.
    pub(crate) fn leave(mut self) {
        self.thread.leave();
    }
}
