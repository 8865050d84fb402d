//! How a lookup goes: the low byte of the hash names a table, the rest a slot in it; from there
//! slot by slot until the key is found, a slot is empty, or all slots were seen.

use super::format::{Format, Layout, Table};
use crate::os::file::make_room;
use crate::os::source::Source;
use crate::{Error, Result};

/// Slots read at once; more matters only to `pread`, where each read is a system call.
const SLOTS_AT_ONCE: u64 = 8;
/// Lookups in flight at once in [`Layout::find_many`].
const BATCH: usize = 32;

/// A lookup under way. It ends for certain: `left` falls with every slot seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    hash: u64,
    /// To be tried when the probe with `hash` is at its end.
    other: Option<u64>,
    key_len: u64,
    table: Table,
    /// The next slot to see, and how many are left to see.
    next: u64,
    left: u64,
}

/// A record that may have the key: the slot that refers to it, and its own offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    slot_at: u64,
    pub(super) record: u64,
}

/// Where a value is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    at: u64,
    len: u64,
}

impl<F: Format> Layout<F> {
    /// Begins the lookup of `key`.
    #[inline]
    pub(super) fn probe(&self, key: &[u8]) -> Probe {
        let hash = F::hash(key);
        let table = self.table_of(hash);
        let next = home(hash, table);
        let other = F::other_hash(hash);
        Probe { hash, other, key_len: key.len() as u64, table, next, left: table.slots }
    }

    /// The next record whose slot has the right hash.
    #[inline]
    pub(super) fn advance<S: Source>(
        &self,
        source: &S,
        probe: &mut Probe,
    ) -> Result<Option<Candidate>> {
        loop {
            while probe.left > 0 {
                let first = probe.next;
                let count = SLOTS_AT_ONCE.min(probe.left).min(probe.table.slots - first);
                let at = self.slot_at(probe.table, first);
                let bytes = source.read(at, (count * self.format.slot_bytes()) as usize)?;
                if let Some(found) = self.search(&bytes, at, probe) {
                    return Ok(Some(found));
                }
            }
            match probe.other.take() {
                Some(hash) => {
                    probe.hash = hash;
                    probe.next = home(hash, probe.table);
                    probe.left = probe.table.slots;
                }
                None => return Ok(None),
            }
        }
    }

    /// Searches the slots in `bytes`, which begin at `at`; an empty one ends the probe.
    #[inline]
    fn search(&self, bytes: &[u8], at: u64, probe: &mut Probe) -> Option<Candidate> {
        let size = self.format.slot_bytes();
        for (slot, slot_at) in bytes.chunks_exact(size as usize).zip((at..).step_by(size as usize))
        {
            let slot = self.format.slot(slot)?;
            if slot.record == 0 {
                probe.left = 0;
                return None;
            }
            probe.left -= 1;
            probe.next += 1;
            if probe.next == probe.table.slots {
                probe.next = 0;
            }
            let key_len_fits = slot.key_len.is_none_or(|len| u64::from(len) == probe.key_len);
            if slot.hash == probe.hash && key_len_fits {
                return Some(Candidate { slot_at, record: slot.record });
            }
        }
        None
    }

    /// The place of the candidate's value, if it has the key.
    #[inline]
    fn value_of<S: Source>(
        &self,
        source: &S,
        candidate: Candidate,
        key: &[u8],
    ) -> Result<Option<Place>> {
        let Candidate { slot_at, record } = candidate;
        let room = self.data_end.saturating_sub(record);
        if record < F::HEADER_BYTES as u64 || room < F::HEAD_BYTES as u64 {
            return Err(outside(slot_at, record));
        }
        let len = (F::HEAD_BYTES as u64 + key.len() as u64).min(room);
        let bytes = source.read(record, len as usize)?;
        let Some((key_len, value_len)) = F::head(&bytes) else {
            return Err(outside(slot_at, record));
        };
        if key_len != key.len() as u64 {
            return Ok(None);
        }
        match bytes.get(F::HEAD_BYTES..) {
            Some(found) if found == key && value_len <= room - len => {
                Ok(Some(Place { at: record + len, len: value_len }))
            }
            Some(found) if found.len() == key.len() && found != key => Ok(None),
            _ => Err(passes_end(record)),
        }
    }

    /// The first candidate from `candidate` on that has the key.
    #[inline]
    fn first<S: Source>(
        &self,
        source: &S,
        key: &[u8],
        probe: &mut Probe,
        mut candidate: Option<Candidate>,
    ) -> Result<Option<Place>> {
        while let Some(found) = candidate {
            if let Some(place) = self.value_of(source, found, key)? {
                return Ok(Some(place));
            }
            candidate = self.advance(source, probe)?;
        }
        Ok(None)
    }

    /// The first value of `key`.
    #[inline]
    pub(super) fn find<'s, S: Source>(
        &self,
        source: &'s S,
        key: &[u8],
    ) -> Result<Option<S::Bytes<'s>>> {
        let mut probe = self.probe(key);
        let candidate = self.advance(source, &mut probe)?;
        match self.first(source, key, &mut probe, candidate)? {
            Some(place) => source.read(place.at, place.len as usize).map(Some),
            None => Ok(None),
        }
    }

    /// Whether `key` is there; its value is not read.
    pub(super) fn contains<S: Source>(&self, source: &S, key: &[u8]) -> Result<bool> {
        let mut probe = self.probe(key);
        let candidate = self.advance(source, &mut probe)?;
        Ok(self.first(source, key, &mut probe, candidate)?.is_some())
    }

    /// Every value of `key`, in the order of the slots.
    pub(super) fn find_all<'s, S: Source>(
        &self,
        source: &'s S,
        key: &[u8],
    ) -> Result<Vec<S::Bytes<'s>>> {
        let mut probe = self.probe(key);
        let mut values = Vec::new();
        let mut total = 0u64;
        while let Some(candidate) = self.advance(source, &mut probe)? {
            let Some(place) = self.value_of(source, candidate, key)? else { continue };
            // Different records cannot have more bytes than there are. Without this check many
            // slots that refer to one large record would take any amount of memory.
            total += (F::HEAD_BYTES + key.len()) as u64 + place.len;
            if total > self.data_end {
                return Err(Error::corrupt(
                    candidate.slot_at,
                    format!("several slots refer to the record at byte {}", candidate.record),
                ));
            }
            make_room(&mut values, 1)?;
            values.push(source.read(place.at, place.len as usize)?);
        }
        Ok(values)
    }

    /// The first value of each of `keys`. The waits for memory of a batch overlap: all slots are
    /// asked for, then all records, and only then is a record looked at.
    pub(super) fn find_many<S: Source, K: AsRef<[u8]>>(
        &self,
        source: &S,
        keys: &[K],
        f: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut probes = Vec::with_capacity(BATCH.min(keys.len()));
        let mut found = Vec::with_capacity(BATCH.min(keys.len()));
        for (batch, base) in keys.chunks(BATCH).zip((0..).step_by(BATCH)) {
            probes.clear();
            probes.extend(batch.iter().map(|key| {
                let probe = self.probe(key.as_ref());
                source.prefetch(self.slot_at(probe.table, probe.next));
                probe
            }));
            found.clear();
            found.extend(probes.iter_mut().map(|probe| {
                let candidate = self.advance(source, probe);
                if let Ok(Some(candidate)) = candidate {
                    source.prefetch(candidate.record);
                }
                candidate
            }));
            let pending = probes.iter_mut().zip(found.drain(..));
            for ((key, i), (probe, candidate)) in batch.iter().zip(base..).zip(pending) {
                match self.first(source, key.as_ref(), probe, candidate?)? {
                    Some(place) => f(i, Some(&source.read(place.at, place.len as usize)?)),
                    None => f(i, None),
                }
            }
        }
        Ok(())
    }
}

/// The slot of `table` at which a key of `hash` is looked for first.
#[inline]
pub(super) fn home(hash: u64, table: Table) -> u64 {
    (hash >> 8).checked_rem(table.slots).unwrap_or(0)
}

#[cold]
pub(super) fn outside(slot_at: u64, record: u64) -> Error {
    Error::corrupt(slot_at, format!("this slot refers to byte {record}, where no record can be"))
}

#[cold]
pub(super) fn passes_end(record: u64) -> Error {
    Error::corrupt(record, "the record that begins here passes the end of the records")
}
