//! Checking a whole file, and counting what is in it.
//!
//! These formats have no checksums: what can be checked is that the records follow each other to
//! their end, and that a lookup finds every record through exactly one slot. A changed byte in a
//! value is not found, nor changes of several bytes in a key that leave its hash as it was, nor,
//! in mcdb, a larger length of the very last value that makes it take in some of the padding.

use super::format::{Format, Layout, Slot, Table};
use super::probe::{home, outside, passes_end};
use super::records::{Erased, Record, Window};
use crate::os::file::make_room;
use crate::os::source::Source;
use crate::{Error, Result};

/// Bytes between two reports of progress.
const REPORT_BYTES: u64 = 1 << 20;
/// Distances counted one by one; all larger ones are counted together.
const DISTANCES: usize = 10;

/// What is in a cdb, cdb64 or mcdb file. Sizes are in bytes; keys, values, directory and slack
/// add up to the size of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Records: a key with three values counts three times.
    pub records: u64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Bytes that find records: header, hash tables, lengths.
    pub directory_bytes: u64,
    /// Bytes not used: padding, records that tinycdb erased while it wrote the file, and what it left behind the tables.
    pub slack_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Hash tables that are not empty, of 256.
    pub tables: u64,
    /// Slots of all hash tables, full and empty.
    pub slots: u64,
    /// How many records are 0, 1, 2 .. 9 slots away from where the search for them begins; the
    /// last number is of those farther away.
    pub distance_histogram: Vec<u64>,
}

/// How many slots lie between the home of `hash` and slot `index`.
fn distance(hash: u64, table: Table, index: u64) -> u64 {
    let home = home(hash, table);
    if index >= home { index - home } else { index + table.slots - home }
}

impl<F: Format> Layout<F> {
    /// The number of records, which is that of full slots.
    pub(super) fn count<S: Source>(&self, source: &S) -> Result<u64> {
        let mut count = 0;
        self.slots(source, &mut |_, _, _, slot| {
            count += u64::from(slot.record != 0);
            Ok(())
        })?;
        Ok(count)
    }

    /// Counts what is in the file.
    pub(super) fn stats<S: Source>(&self, source: &S) -> Result<Stats> {
        let mut histogram = vec![0u64; DISTANCES + 1];
        self.slots(source, &mut |number, index, _, slot| {
            if slot.record != 0 {
                let table = self.tables.get(number).copied().unwrap_or_default();
                let place = distance(slot.hash, table, index).min(DISTANCES as u64);
                if let Some(count) = histogram.get_mut(place as usize) {
                    *count += 1;
                }
            }
            Ok(())
        })?;
        let (mut records, mut keys, mut values, mut slack) = (0, 0, 0, 0);
        let mut erased = Erased::default();
        let mut window = Window::new(source, self.data_end);
        let mut at = F::HEADER_BYTES as u64;
        while let Some(record) = self.record(&mut window, at)? {
            let end = record.end::<F>();
            if record.key_len == 0 && is_erased(self, source, &mut erased, &record, &mut window)? {
                slack += end - at;
            } else {
                records += 1;
                keys += record.key_len;
                values += record.value_len;
            }
            at = end;
        }
        slack += self.data_end - at + (self.file_len - self.tables_end);
        Ok(Stats {
            records,
            key_bytes: keys,
            value_bytes: values,
            directory_bytes: self.file_len - keys - values - slack,
            slack_bytes: slack,
            file_bytes: self.file_len,
            tables: self.tables.iter().filter(|t| t.slots > 0).count() as u64,
            slots: self.tables.iter().map(|t| t.slots).sum(),
            distance_histogram: histogram,
        })
    }

    /// Checks everything, or says where the first damage is. Takes 24 bytes of memory a record.
    pub(super) fn verify<S: Source>(
        &self,
        source: &S,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        self.verify_header(source)?;
        let mut progress =
            Progress { report: progress, done: 0, reported: 0, total: self.file_len };
        let mut referred = self.verify_slots(source, &mut progress)?;
        referred.sort_unstable_by_key(|slot| slot.record);
        self.verify_records(source, &referred, &mut progress)?;
        (progress.report)(self.file_len, self.file_len);
        Ok(())
    }

    /// The first table is aligned, and the entries hold nothing beside what was decoded of them.
    fn verify_header<S: Source>(&self, source: &S) -> Result<()> {
        if !self.data_end.is_multiple_of(F::ALIGN) {
            let what = format!("the first table must begin at a multiple of {}", F::ALIGN);
            return Err(Error::corrupt(0, what));
        }
        let head = source.read(0, F::HEADER_BYTES)?;
        let mut expected = Vec::with_capacity(F::HEADER_BYTES);
        for table in self.tables {
            F::put_table(table, &mut expected);
        }
        match head.iter().zip(&expected).position(|(a, b)| a != b) {
            Some(at) => Err(Error::corrupt(at as u64, "this byte of the header must be 0")),
            None => Ok(()),
        }
    }

    /// Every slot is in the table of its hash, and no slot between it and its home is empty, so
    /// that a lookup comes to it. The full ones are returned.
    fn verify_slots<S: Source>(
        &self,
        source: &S,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Slot>> {
        let mut referred = Vec::new();
        let mut run = Run::default();
        self.slots(source, &mut |number, index, at, slot| {
            let table = self.tables.get(number).copied().unwrap_or_default();
            if index == 0 {
                run = Run::default();
            }
            if slot.record == 0 {
                if slot.hash != 0 || slot.key_len.is_some_and(|len| len != 0) {
                    return Err(Error::corrupt(at, "this slot is empty, but not all zeros"));
                }
                run.full = 0;
            } else {
                if slot.hash & 0xff != number as u64 {
                    let what = format!("this slot's hash does not belong in table {number}");
                    return Err(Error::corrupt(at, what));
                }
                run.step(index, distance(slot.hash, table, index), at)?;
                make_room(&mut referred, 1)?;
                referred.push(slot);
            }
            if index + 1 == table.slots {
                run.close(table)?;
            }
            progress.advance(self.format.slot_bytes());
            Ok(())
        })?;
        Ok(referred)
    }

    /// Every record has exactly one slot, with the hash of its key; `referred` is sorted.
    fn verify_records<S: Source>(
        &self,
        source: &S,
        referred: &[Slot],
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let mut window = Window::new(source, self.data_end);
        let mut referred = referred.iter().peekable();
        let mut at = F::HEADER_BYTES as u64;
        while let Some(record) = self.record(&mut window, at)? {
            let end = record.end::<F>();
            match referred.next_if(|slot| slot.record <= at) {
                Some(slot) if slot.record < at => return Err(self.no_record(source, slot)),
                Some(slot) => self.verify_key(source, &mut window, &record, slot)?,
                None => self.verify_erased(&mut window, &record)?,
            }
            if let Some(second) = referred.peek().filter(|slot| slot.record == at) {
                let what =
                    format!("two slots of table {} refer to this record", second.hash & 0xff);
                return Err(Error::corrupt(at, what));
            }
            progress.advance(end - at);
            at = end;
        }
        if let Some(slot) = referred.next() {
            return Err(self.no_record(source, slot));
        }
        let padding = self.data_end - at;
        let bytes = source.read(at, padding as usize)?;
        match bytes.iter().position(|b| *b != 0xff) {
            Some(i) => Err(Error::corrupt(at + i as u64, "a byte of the padding is not 0xFF")),
            None => Ok(()),
        }
    }

    fn verify_key<S: Source>(
        &self,
        source: &S,
        window: &mut Window<'_, S>,
        record: &Record,
        slot: &Slot,
    ) -> Result<()> {
        let len = F::HEAD_BYTES as u64 + record.key_len;
        let bytes = window.read(record.at, len)?.ok_or_else(|| passes_end(record.at))?;
        let hash = F::hash(bytes.get(F::HEAD_BYTES..).unwrap_or_default());
        if slot.hash != hash && Some(slot.hash) != F::other_hash(hash) {
            let what = "the key of this record does not have the hash that its slot holds";
            return Err(Error::corrupt(record.at, what));
        }
        match slot.key_len {
            Some(len) if u64::from(len) != record.key_len => {
                let at = self.place_of(source, slot);
                Err(Error::corrupt(at, "this slot holds another key length than its record"))
            }
            _ => Ok(()),
        }
    }

    /// A record without a slot must be one that was erased.
    fn verify_erased<S: Source>(&self, window: &mut Window<'_, S>, record: &Record) -> Result<()> {
        if record.key_len == 0 {
            let len = record.end::<F>() - record.at;
            let bytes = window.read(record.at, len)?.ok_or_else(|| passes_end(record.at))?;
            if bytes.iter().skip(F::HEAD_BYTES).all(|b| *b == 0) {
                return Ok(());
            }
        }
        Err(Error::corrupt(record.at, "no slot refers to the record that begins here"))
    }

    fn no_record<S: Source>(&self, source: &S, slot: &Slot) -> Error {
        outside(self.place_of(source, slot), slot.record)
    }

    /// Where a slot stands that was met before; only to name it in an error.
    fn place_of<S: Source>(&self, source: &S, wanted: &Slot) -> u64 {
        let mut place = self.data_end;
        // Errors of this second reading would only hide the one that is being reported.
        let _ = self.slots(source, &mut |_, _, at, slot| {
            if slot == *wanted {
                place = at;
            }
            Ok(())
        });
        place
    }
}

fn is_erased<F: Format, S: Source>(
    layout: &Layout<F>,
    source: &S,
    erased: &mut Erased,
    record: &Record,
    window: &mut Window<'_, S>,
) -> Result<bool> {
    let bytes = window.read(record.at, record.end::<F>() - record.at)?;
    match bytes.and_then(|bytes| record.split::<F>(bytes)) {
        Some((_, value)) => erased.is(layout, source, record, value),
        None => Err(passes_end(record.at)),
    }
}

/// The full slots met one after the other.
#[derive(Debug, Default)]
struct Run {
    /// How many of them end at the slot last met.
    full: u64,
    /// What the slots at the table's beginning need of full slots at its end, where the search
    /// for them began; and where the slot stands that needs most.
    needed: u64,
    needed_by: u64,
}

impl Run {
    /// Meets the full slot `index`, `distance` from its home.
    fn step(&mut self, index: u64, distance: u64, at: u64) -> Result<()> {
        if distance > self.full {
            if self.full < index {
                return Err(lost(at));
            }
            if distance - index > self.needed {
                (self.needed, self.needed_by) = (distance - index, at);
            }
        }
        self.full += 1;
        Ok(())
    }

    /// Comes to the end of the table.
    fn close(&self, table: Table) -> Result<()> {
        if self.needed > self.full && self.full < table.slots {
            return Err(lost(self.needed_by));
        }
        Ok(())
    }
}

fn lost(at: u64) -> Error {
    Error::corrupt(at, "no lookup comes to this slot: one on the way to it is empty")
}

/// Reports progress from time to time.
struct Progress<'p> {
    report: &'p mut dyn FnMut(u64, u64),
    done: u64,
    reported: u64,
    total: u64,
}

impl Progress<'_> {
    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        if self.done - self.reported >= REPORT_BYTES {
            self.reported = self.done;
            (self.report)(self.done.min(self.total), self.total);
        }
    }
}
