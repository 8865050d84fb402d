//! Looking keys up: no lock, and no copy as long as a value is held.
//!
//! A reader pins ([`super::pins`]), so that what it finds stays; takes the newest index; and finds.
//! What the pages do not say yet is looked for first: in the ring ([`super::pending`]), or in the batch that is being
//! entered ([`super::entering`]).
//!
//! Where the file may not be written there can be no pin. Then values are copied, and what was found
//! counts only if nothing was taken out of reach meanwhile; nor is the file cut, see
//! [`crate::os::opening`]. Where all pins are taken values are copied under the writers' lock;
//! who has that already looks as it is.

use super::core::Core;
use super::format::session;
use super::index::{Index, State};
use super::pins::{Pin, ValuePin, try_pin};
use super::record::{Kind, RecordHeader};
use super::view::{Holds, bytes};
use crate::os::atomic::{Ordering, fence};
use crate::os::file::copy_of;
use crate::os::lock::is_own;
use crate::os::shared::SharedMap;
use crate::{Error, Result};
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

/// How often a reader looks again that cannot pin.
pub(super) const ATTEMPTS: u32 = 10_000;
/// How often who looks for many keys looks again, as batches were made meanwhile, before he keeps others from writing and copies.
const LOOKS: u32 = 8;
/// How long whoever was woken for the lock may take to go on.
const A_MOMENT: Duration = Duration::from_millis(100);
/// So long a batch that nobody knows is waited for before it is looked whether it is over.
const WAIT: Duration = Duration::from_millis(1);

/// A value in the store's memory. As long as it lives the space that it is in is not reused: hold
/// it for as long as you look at it, and copy what you keep. A process that is forked must not look at its parent's, which
/// nothing holds there: it gets its own.
pub struct Value<'s>(Inner<'s>);

enum Inner<'s> {
    Pinned { data: &'s SharedMap, pin: ValuePin<'s>, at: u64, len: u64 },
    Copied(Vec<u8>),
}

impl Deref for Value<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // It was there when it was found, and maps do not shrink below what is pinned.
            Inner::Pinned { data, pin, at, len } => bytes(data, pin, *at, *len).unwrap_or_default(),
            Inner::Copied(value) => value,
        }
    }
}

impl AsRef<[u8]> for Value<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Value").field(&&**self).finish()
    }
}

/// A value that was found.
pub(super) enum Found<'s> {
    Pinned { pin: Pin<'s>, at: u64, len: u64 },
    Copied(Vec<u8>),
}

/// What a reader has without a pin: nothing.
pub(super) struct Unpinned;
impl Holds for Unpinned {}

impl Core {
    /// The newest index, and its state, when what its pages do not say is known; for so many lookups.
    #[inline(always)]
    pub(super) fn current(&self, lookups: usize) -> Option<(&Index, State)> {
        let index = self.newest.get();
        let state = index.state();
        if !self.is_newest(index) {
            return None;
        }
        (state.is_settled() || self.is_current_unsettled(index, state, lookups))
            .then_some((index, state))
    }

    #[inline(never)]
    fn is_current_unsettled(&self, index: &Index, state: State, lookups: usize) -> bool {
        let is_known =
            !state.is_busy() || !index.is_over_soon(state) && index.entering(state).is_some();
        is_known && !self.is_settling_due(lookups)
    }

    /// Sees to it that there will be a current index. Nothing may be pinned by the caller.
    #[cold]
    pub(super) fn await_current(&self) -> Result<()> {
        let held = self.newest.hold();
        let index = self.newest.get();
        if !self.is_newest(index) {
            drop(held);
            return self.attach();
        }
        let state = index.state();
        if !state.is_busy() || index.entering(state).is_some() {
            if !state.is_settled() && self.data.is_writable() {
                // If somebody is writing, or there is no room to, what waits is found where it is.
                if self.try_writer().is_err() {
                    self.met_pending.store(0, Ordering::Relaxed);
                }
            }
            return Ok(());
        }
        if self.data.is_writable() {
            return self.await_batch();
        }
        if self.is_left_unfinished(index)? {
            // Somebody may just have been woken to finish it.
            let state = index.state();
            std::thread::sleep(A_MOMENT);
            let is_as_it_was = self.is_newest(index) && index.state() == state;
            if is_as_it_was && self.is_left_unfinished(index)? {
                return Err(left_unfinished());
            }
            return Ok(());
        }
        std::thread::yield_now();
        Ok(())
    }

    /// Whoever enters a batch that is not known has the lock, or is dead: then taking the lock finishes it. Or there is none, and
    /// the bit that says so is damage. It is looked again soon: when it is over, who has the lock next may keep it, as for a transaction.
    fn await_batch(&self) -> Result<()> {
        let lock = self.writer_lock();
        match lock.lock_within(WAIT)? {
            Some(got) => self.writer_with(lock, got)?.settled().map(|writer| writer.end_batch()),
            None if lock.is_own() => Err(is_own()),
            None => Ok(()),
        }
    }

    /// A pin; `None` if there can be none, or all are taken.
    #[inline(always)]
    pub(super) fn pin(&self) -> Option<Pin<'_>> {
        let may_pin = self.data.is_writable() && !self.has_moved();
        if may_pin && self.data.has_room_to_read() { try_pin(&self.data) } else { None }
    }

    /// Gives the value of `key` to `f`.
    #[inline(always)]
    pub(crate) fn get_with<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        loop {
            let Some(pin) = self.pin() else {
                return Ok(self.get_copy(key)?.map(|value| f(&value)));
            };
            if let Some((index, state)) = self.current(1) {
                let place = index.place(key);
                let found = index.find(&self.data, &pin, key, state, place)?;
                return Ok(found.map(|(at, value)| {
                    self.used(at);
                    f(value)
                }));
            }
            drop(pin);
            self.await_current()?;
        }
    }

    /// The value of `key`, held in place.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        let found = self.find_pinned(key)?;
        Ok(found.map(|found| match found {
            Found::Copied(value) => Value(Inner::Copied(value)),
            Found::Pinned { pin, at, len } => {
                let pin = ValuePin::new(pin);
                Value(Inner::Pinned { data: &self.data, pin, at, len })
            }
        }))
    }

    /// Where the value of `key` is, and a pin that holds it there; or a copy.
    #[inline(always)]
    pub(super) fn find_pinned(&self, key: &[u8]) -> Result<Option<Found<'_>>> {
        loop {
            let Some(pin) = self.pin() else {
                return Ok(self.get_copy(key)?.map(Found::Copied));
            };
            if let Some((index, state)) = self.current(1) {
                let found = index.find(&self.data, &pin, key, state, index.place(key))?;
                let place = found.map(|(at, value)| {
                    self.used(at);
                    let header = RecordHeader::new(Kind::Put, key, value);
                    (at + header.header_bytes() + key.len() as u64, value.len() as u64)
                });
                return Ok(place.map(|(at, len)| Found::Pinned { pin, at, len }));
            }
            drop(pin);
            self.await_current()?;
        }
    }

    /// The values of many keys.
    pub(crate) fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut looks = 0;
        loop {
            // Beside somebody who makes one batch after the other each look may meet some.
            let pin = if looks < LOOKS { self.pin() } else { None };
            let Some(pin) = pin else {
                let values = self.copy_many(keys)?;
                values.iter().enumerate().for_each(|(i, value)| f(i, value.as_deref()));
                return Ok(());
            };
            looks += 1;
            if let Some((index, state)) = self.current(keys.len())
                && let Some(values) = index.find_many(&self.data, &pin, keys, state)?
            {
                values.iter().flatten().for_each(|(at, _)| self.used(*at));
                values.into_iter().enumerate().for_each(|(i, v)| f(i, v.map(|(_, value)| value)));
                return Ok(());
            }
            drop(pin);
            self.await_current()?;
        }
    }

    /// The value of `key`, copied without a pin.
    #[cold]
    fn get_copy(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.without_pin(|index, state| {
            let found = index.find(&self.data, &Unpinned, key, state, index.place(key))?;
            found.map(|(_, value)| copy_of(value)).transpose()
        })
    }

    /// The values of many keys, copied without a pin.
    #[cold]
    fn copy_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        for _ in 0..ATTEMPTS {
            let copied = self.without_pin(|index, state| {
                let values = index.find_many(&self.data, &Unpinned, keys, state)?;
                let copy = |value: Option<(u64, &[u8])>| {
                    value.map(|(_, value)| copy_of(value)).transpose()
                };
                values.map(|values| values.into_iter().map(copy).collect()).transpose()
            })?;
            if let Some(copied) = copied {
                return Ok(copied);
            }
        }
        Err(too_busy())
    }

    /// Does `look` while nobody takes anything out of reach, or until nobody did meanwhile.
    pub(super) fn without_pin<R>(&self, look: impl Fn(&Index, State) -> Result<R>) -> Result<R> {
        if self.data.is_writable() {
            let lock = self.writer_lock();
            if let Some(got) = lock.lock_unless_own()? {
                let writer = self.writer_with(lock, got)?;
                return look(writer.index, writer.index.state());
            }
            // This thread keeps the others out already, by a transaction or in a change.
            let (_held, index) = self.index()?;
            return look(index, index.state());
        }
        for _ in 0..ATTEMPTS {
            let epoch = self.session(session::EPOCH).load(Ordering::Acquire);
            let held = self.newest.hold();
            // A private index has no number that another could have.
            let is_private = self.is_private.load(Ordering::Relaxed);
            let current = match self.current(1) {
                None if is_private && self.is_alone() => {
                    Some((self.newest.get(), self.newest.get().state()))
                }
                current => current,
            };
            let Some((index, state)) = current else {
                drop(held);
                self.await_current()?;
                continue;
            };
            let seen = look(index, state);
            fence(Ordering::Acquire);
            if self.session(session::EPOCH).load(Ordering::Relaxed) == epoch {
                return seen;
            }
        }
        Err(too_busy())
    }
}

/// What a reader says who may not write, and has the store open since before a writer died.
pub(super) fn left_unfinished() -> Error {
    Error::invalid(
        "who wrote to the store died within a change, and nobody has finished that since: open the \
         store again",
    )
}

/// What a reader says without a pin that finds no moment when nobody writes.
pub(super) fn too_busy() -> Error {
    Error::invalid(
        "others write so much that a reader without write permission finds no quiet moment: \
         give it permission to write the store's files",
    )
}

#[cfg(test)]
mod tests {
    use crate::hash::Hash;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A batch that nobody enters, for the bit that says so was flipped.
    #[test]
    fn who_waits_for_a_batch_of_nobody_goes_on() {
        let store = Hash::in_memory().unwrap();
        store.insert(b"key", b"value").unwrap();
        let index = store.core().newest.get();
        index.set_state(index.state().busy());
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            sender.send(store.get(b"key").unwrap().as_deref().map(<[u8]>::to_vec)).unwrap();
        });
        let found = receiver.recv_timeout(Duration::from_secs(20));
        assert_eq!(found, Ok(Some(b"value".to_vec())));
    }
}
