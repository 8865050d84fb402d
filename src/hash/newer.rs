//! What the pages of the index do not say yet, for who goes through all of it: puts that wait in the ring, or the changes of
//! the batch that is being entered.
//!
//! The newest of each key, in the order of places, as pages are: those of a page lie side by side. A batch may be large: a list
//! takes 24 bytes for a change, and where there is no memory that is an error.

use super::index::{Index, State};
use super::view::{Holds, record};
use crate::Result;
use crate::os::atomic::{Ordering, fence};
use crate::os::file::make_room;
use crate::os::shared::SharedMap;

/// A change: where its key belongs, which of all it is, and where its record is.
#[derive(Debug)]
struct Change {
    place: u64,
    number: u64,
    at: u64,
}

/// The newest change of each key.
#[derive(Debug)]
pub(crate) struct Newer(Vec<Change>);

/// Some that follow each other.
#[derive(Clone, Copy)]
pub(crate) struct Part<'n>(&'n [Change]);

/// The key of the record at `at`.
fn key_of<'h>(data: &'h SharedMap, held: &'h impl Holds, at: u64) -> Option<&'h [u8]> {
    record(data, held, at).map(|found| found.key)
}

impl Newer {
    /// Those of an index in this state. What they do not change is to be looked for in the pages after this.
    pub(crate) fn of(
        index: &Index,
        data: &SharedMap,
        held: &impl Holds,
        state: State,
    ) -> Result<Newer> {
        let mut list = Vec::new();
        let mut add = |at, key: &[u8]| -> Result<()> {
            make_room(&mut list, 1)?;
            list.push(Change { place: index.place(key), number: list.len() as u64, at });
            Ok(())
        };
        if state.is_busy() {
            index.each_change(data, held, state, |at, change| add(at, change.key))?;
        } else {
            index.pending(data, held, state)?.iter().try_for_each(|(at, put)| add(*at, put.key))?;
        }
        fence(Ordering::Acquire);
        // Not by their keys, which may be written over meanwhile where nothing holds them: a sort may panic then.
        list.sort_unstable_by_key(|change| (change.place, !change.number));
        let key = |change: &Change| key_of(data, held, change.at);
        let mut kept = 0;
        for i in 0..list.len() {
            // Keys of one place are few, unless somebody chose them.
            let (before, rest) = list.split_at(i);
            let Some(change) = rest.first() else { break };
            let of_place = before[..kept].iter().rev().take_while(|one| one.place == change.place);
            if of_place.into_iter().any(|one| key(one) == key(change)) {
                continue;
            }
            list.swap(kept, i);
            kept += 1;
        }
        list.truncate(kept);
        Ok(Newer(list))
    }

    /// Those whose keys belong to places from `first` to `last`.
    pub(crate) fn within(&self, first: u64, last: u64) -> Part<'_> {
        let from = self.0.partition_point(|change| change.place < first);
        let to = self.0.partition_point(|change| change.place <= last);
        Part(self.0.get(from..to).unwrap_or_default())
    }

    /// All of them.
    pub(crate) fn all(&self) -> Part<'_> {
        Part(&self.0)
    }
}

impl Part<'_> {
    /// Where their records are.
    pub(crate) fn addresses(self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|change| change.at)
    }

    /// Whether one of them is of this key.
    pub(crate) fn has(
        self,
        index: &Index,
        (data, held): (&SharedMap, &impl Holds),
        key: &[u8],
    ) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let place = index.place(key);
        let from = self.0.partition_point(|change| change.place < place);
        let of_place = self.0.iter().skip(from).take_while(|change| change.place == place);
        of_place.into_iter().any(|change| key_of(data, held, change.at) == Some(key))
    }
}
