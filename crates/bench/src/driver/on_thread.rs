//! Handles of a store that go to threads of their own.

#![allow(unsafe_code)]

use super::{Driver, Reading, Shape, Threads};
use credenza::{Error, Result};
use std::path::Path;

/// What may be moved to another thread, whatever is in it.
pub(crate) struct OnThread<S>(S);

// SAFETY: who makes one promises it.
unsafe impl<S> Send for OnThread<S> {}

impl<S> OnThread<S> {
    /// # Safety
    /// The store may be used by another thread than the one that opened it, one at a time, while
    /// other threads use other handles of the same store.
    pub(super) unsafe fn new(store: S) -> OnThread<S> {
        OnThread(store)
    }

    pub(crate) fn store(&mut self) -> &mut S {
        &mut self.0
    }
}

/// The handles of all threads that use one store at once: those that read it, and that of one that
/// changes it. Threads borrow them.
pub(crate) struct Crew<R, W> {
    pub(crate) readers: Vec<OnThread<R>>,
    pub(crate) writer: Option<OnThread<W>>,
    /// What the others are copies of, if they are; dropped behind them.
    _owner: Option<W>,
}

impl<R, W> Crew<R, W> {
    /// # Safety
    /// As for [`OnThread::new`].
    pub(super) unsafe fn of(readers: Vec<R>, writer: Option<W>) -> Crew<R, W> {
        // SAFETY: the caller's promise.
        let (readers, writer) = unsafe {
            let readers = readers.into_iter().map(|store| OnThread::new(store)).collect();
            (readers, writer.map(|store| OnThread::new(store)))
        };
        Crew { readers, writer, _owner: None }
    }
}

impl<S> Crew<S, S> {
    /// So many copies of one handle that threads may share, and one for a writer.
    ///
    /// # Safety
    /// The copies that `copy` makes of the handle may be used as [`OnThread::new`] says, as long as
    /// `owner` is there.
    pub(super) unsafe fn sharing(
        owner: S,
        readers: usize,
        with_writer: bool,
        copy: impl Fn(&S, bool) -> Result<S>,
    ) -> Result<Crew<S, S>> {
        let writer = if with_writer { Some(copy(&owner, true)?) } else { None };
        let readers = (0..readers).map(|_| copy(&owner, false)).collect::<Result<_>>()?;
        // SAFETY: the caller's promise; the owner is dropped behind its copies.
        Ok(Crew { _owner: Some(owner), ..unsafe { Crew::of(readers, writer) } })
    }
}

/// The handles of threads that all change one store, and the one that it was made or opened with, which is
/// closed last.
pub(crate) struct Committers<W> {
    pub(crate) handles: Vec<OnThread<W>>,
    owner: W,
}

impl<W> Committers<W> {
    /// So many handles, which `handle` makes from the store's first.
    ///
    /// # Safety
    /// As for [`OnThread::new`], as long as `owner` is there; each handle may be used for changes.
    pub(super) unsafe fn of(
        owner: W,
        count: usize,
        handle: impl Fn(&W) -> Result<W>,
    ) -> Result<Committers<W>> {
        // SAFETY: the caller's promise; the owner is dropped behind the handles.
        let on_thread = |_| Ok(unsafe { OnThread::new(handle(&owner)?) });
        let handles = (0..count).map(on_thread).collect::<Result<_>>()?;
        Ok(Committers { handles, owner })
    }

    /// The store's first handle, while no thread has one yet.
    pub(crate) fn owner(&mut self) -> &mut W {
        &mut self.owner
    }

    /// The handle that is left when the threads have ended.
    pub(crate) fn into_owner(self) -> W {
        drop(self.handles);
        self.owner
    }
}

/// A store for the changes of [`Driver::committers`], new or, where there is one, that.
pub(super) fn new_or_there<'d, D: Driver>(
    driver: &'d D,
    path: &Path,
    shape: &Shape,
    is_durable: bool,
) -> Result<D::Writer<'d>> {
    let is_there = path.try_exists().map_err(|e| Error::io("look for", e).at(path))?;
    match is_there {
        true => driver.reopen_one_by_one(path, shape, is_durable),
        false => driver.create_one_by_one(path, shape, is_durable),
    }
}

/// The same with a handle for each thread that is opened: for stores that say [`Threads::Handles`].
pub(super) fn committers_opened<'d, D: Driver>(
    driver: &'d D,
    path: &Path,
    shape: &Shape,
    count: usize,
    is_durable: bool,
) -> Result<Committers<D::Writer<'d>>> {
    if D::THREADS != Threads::Handles {
        return Err(Error::invalid("this store is not changed by several threads").at(path));
    }
    let open = || driver.open_committer(path, shape, is_durable);
    // SAFETY: the driver says that each thread may have a handle of its own.
    unsafe { Committers::of(open()?, count, |_| open()) }
}

/// A handle for each thread, opened as a process would: for stores that say [`Threads::Handles`].
pub(super) fn each_opened<'d, D: Driver>(
    driver: &'d D,
    path: &Path,
    shape: &Shape,
    readers: usize,
    with_writer: bool,
) -> Result<Crew<D::Store<'d>, D::Writer<'d>>> {
    if D::THREADS != Threads::Handles {
        return Err(Error::invalid("this store is not used by several threads").at(path));
    }
    let writer = if with_writer { Some(driver.open_to_change(path, shape)?) } else { None };
    let open = || match with_writer {
        true => driver.open_beside(path, shape),
        false => driver.open(path, shape, Reading::Warm),
    };
    let readers = (0..readers).map(|_| open()).collect::<Result<_>>()?;
    // SAFETY: the driver says that each thread may have a handle of its own.
    Ok(unsafe { Crew::of(readers, writer) })
}
