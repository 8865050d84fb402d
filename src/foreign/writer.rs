//! Writing a foreign file: records are streamed to a staged file as they come; their slots are
//! kept in memory (24 bytes each, the room by which the lists grow, and 64 more for each of the largest table
//! while it is written) until the tables are written behind the records, and the header last.

use super::format::{Format, Slot, TABLES, Table};
use super::probe::home;
use crate::observe::Building;
use crate::os::file::{make_room, write_all_at};
use crate::{Error, ErrorKind, Result, Staged};
use std::path::{Path, PathBuf};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// How a finished file gets its name.
type Publish = fn(Staged) -> Result<()>;

/// Writes a foreign file: [`CdbWriter`](super::CdbWriter), [`Cdb64Writer`](super::Cdb64Writer) or
/// [`McdbWriter`](super::McdbWriter). Nothing is visible at the path until [`Writer::finish`];
/// dropped before, it leaves nothing.
#[derive(Debug)]
#[must_use = "nothing appears unless it is finished"]
pub struct Writer<F: Format> {
    output: Output,
    records: u64,
    slots: Vec<Vec<Slot>>,
    format: std::marker::PhantomData<F>,
    /// What records what is added, if that is asked for.
    recording: Option<Box<Building>>,
}

impl<F: Format> Writer<F> {
    /// Starts a file that will be at `path`, in the place of the one that may be there.
    ///
    /// # Errors
    /// The folder is missing or may not be written; `path` is not a regular file, or a hash or btree store that somebody has
    /// open to write, as [`is_open`](crate::is_open) says; or the recording that the environment asks for
    /// ([`record`](crate::record)) cannot be begun.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let output = Output {
            staged: Staged::create(path)?,
            path: path.to_owned(),
            buffer: Vec::with_capacity(BUFFER_BYTES),
            written: F::HEADER_BYTES as u64,
            failed: false,
        };
        let slots = vec![Vec::new(); TABLES];
        let recording = Building::begin(F::NAME, path)?;
        Ok(Writer { output, records: 0, slots, format: std::marker::PhantomData, recording })
    }

    /// Adds a record. A key may be added any number of times; its values are found in this order.
    ///
    /// # Errors
    /// The key or value is longer than the format allows, the file would be (4 GiB for cdb), or
    /// the disk is full. After an error of the disk the writer cannot be used any more.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.output.check()?;
        let limits = F::LIMITS;
        let record = self.output.position();
        let slot = Slot { record, hash: F::hash(key), key_len: Some(key.len() as u32) };
        let end = record
            .saturating_add((F::HEAD_BYTES + key.len()) as u64)
            .saturating_add(value.len() as u64);
        let tables = 2 * (self.records + 1) * F::of_data_end(end).slot_bytes();
        within("key", key.len() as u64, limits.length)?;
        within("value", value.len() as u64, limits.length)?;
        if self.records == limits.records {
            let what = format!("an {} file holds at most {} records", F::NAME, limits.records);
            return Err(Error::invalid(what + "; write cdb64 or constant instead"));
        }
        within(limits.file_name, end.saturating_add(tables), limits.file)?;
        let slots = self.slots.get_mut((slot.hash & 0xff) as usize);
        let has_room = slots.into_iter().try_for_each(|slots| make_room(slots, 1));
        has_room.map_err(|e| e.at(&self.output.path))?;
        F::put_head(key.len() as u64, value.len() as u64, &mut self.output.buffer);
        self.output.write(key)?;
        self.output.write(value)?;
        self.records += 1;
        if let Some(slots) = self.slots.get_mut((slot.hash & 0xff) as usize) {
            slots.push(slot);
        }
        if let Some(recording) = &mut self.recording {
            recording.added(key, value);
        }
        Ok(())
    }

    /// Writes the hash tables and the header, and publishes the file: it is durable, and at its
    /// path, when this returns.
    ///
    /// # Errors
    /// The disk is full or failed, or there is no memory for the largest table: the old file, if there is one, is untouched.
    pub fn finish(mut self) -> Result<()> {
        let format = self.pad()?;
        self.finish_as(format, Staged::publish)
    }

    /// The same where nothing is to be replaced: a file that somebody else makes there at the same moment stays.
    ///
    /// # Errors
    /// There is something at the path; or as [`Writer::finish`].
    pub fn finish_new(mut self) -> Result<()> {
        let format = self.pad()?;
        self.finish_as(format, Staged::publish_new)
    }

    /// Pads the records with 0xFF up to where the first table may begin; the format of a file whose records end there.
    fn pad(&mut self) -> Result<F> {
        let end = self.output.position();
        let padding = end.next_multiple_of(F::ALIGN) - end;
        (0..padding).try_for_each(|_| self.output.write(&[0xff]))?;
        Ok(F::of_data_end(self.output.position()))
    }

    fn finish_as(mut self, format: F, publish: Publish) -> Result<()> {
        let mut header = Vec::with_capacity(F::HEADER_BYTES);
        for slots in std::mem::take(&mut self.slots) {
            let at = self.output.position();
            let table = Table { at, slots: 2 * slots.len() as u64 };
            F::put_table(table, &mut header);
            for slot in spread(&slots, table).map_err(|e| e.at(&self.output.path))? {
                format.put_slot(slot, &mut self.output.buffer);
                self.output.write(&[])?;
            }
        }
        let Writer { output, mut recording, .. } = self;
        Building::publishing(&mut recording, || output.publish(&header, publish))
    }
}

/// The slots of a table, each in the first free place from its home on, in their order.
///
/// Looking for that place one by one would take the square of the number of values of a key;
/// `free` leads there in few steps, as each search shortens the way for the next.
fn spread(slots: &[Slot], table: Table) -> Result<Vec<Slot>> {
    let size = table.slots as usize;
    let (mut spread, mut free) = (Vec::new(), Vec::new());
    make_room(&mut spread, size)?;
    make_room(&mut free, size + 1)?;
    spread.resize(size, Slot::default());
    // The first place that may be free from each on; `size` stands for the end.
    free.extend(0..=size);
    for slot in slots {
        let mut place = first_free(&mut free, home(slot.hash, table) as usize);
        if place == size {
            place = first_free(&mut free, 0);
        }
        if let (Some(empty), Some(next)) = (spread.get_mut(place), free.get_mut(place)) {
            *empty = *slot;
            *next = place + 1;
        }
    }
    Ok(spread)
}

fn first_free(free: &mut [usize], from: usize) -> usize {
    let follow = |free: &[usize], at: usize| free.get(at).copied().unwrap_or(at);
    let mut at = from;
    loop {
        let next = follow(free, at);
        if next == at {
            return at;
        }
        let after = follow(free, next);
        if let Some(skip) = free.get_mut(at) {
            *skip = after;
        }
        at = after;
    }
}

fn within(what: &'static str, size: u64, limit: u64) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::new(ErrorKind::TooLarge { what, size, limit }))
}

/// The staged file and what is not yet written to it.
#[derive(Debug)]
struct Output {
    staged: Staged,
    /// How the file is called in messages.
    path: PathBuf,
    buffer: Vec<u8>,
    /// Where the buffer goes.
    written: u64,
    /// A write failed: what was added since is incomplete, and must not be published.
    failed: bool,
}

impl Output {
    /// Where the next byte goes.
    fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
            if bytes.len() > BUFFER_BYTES {
                self.write_at(bytes, self.written)?;
                self.written += bytes.len() as u64;
                return Ok(());
            }
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.write_at(&buffer, self.written)?;
        self.written += buffer.len() as u64;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    /// An error if an earlier write failed.
    fn check(&self) -> Result<()> {
        if !self.failed {
            return Ok(());
        }
        let what = "an earlier write failed; start the file again";
        Err(Error::invalid(what).at(&self.path))
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.check()?;
        let done = write_all_at(self.staged.file(), bytes, at);
        self.failed = done.is_err();
        done.map_err(|e| Error::io("write", e).at(&self.path))
    }

    fn publish(mut self, header: &[u8], publish: Publish) -> Result<()> {
        self.flush()?;
        self.write_at(header, 0)?;
        publish(self.staged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::{CdbWriter, Mcdb, McdbWriter};
    use crate::{Access, Get, Scan};
    use std::os::unix::fs::FileExt;

    /// One by one, as the formats' own tools do it.
    fn spread_plainly(slots: &[Slot], table: Table) -> Vec<Slot> {
        let mut spread = vec![Slot::default(); table.slots as usize];
        for slot in slots {
            let mut place = home(slot.hash, table) as usize;
            while spread[place].record != 0 {
                place = (place + 1) % spread.len();
            }
            spread[place] = *slot;
        }
        spread
    }

    #[test]
    fn slots_are_spread_as_linear_probing_does() {
        let mut x = 1u64;
        for round in 0..2000u64 {
            let count = 1 + round % 40;
            let slots: Vec<Slot> = (1..=count)
                .map(|record| {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Few different hashes, and often ones whose home is at the table's end.
                    let hash = ((x >> 40) % (2 * count)) << 8;
                    let hash = if round % 3 == 0 { (2 * count - 1) << 8 } else { hash };
                    Slot { record, hash, key_len: None }
                })
                .collect();
            let table = Table { at: 0, slots: 2 * count };
            assert_eq!(
                spread(&slots, table).unwrap(),
                spread_plainly(&slots, table),
                "round {round}"
            );
        }
    }

    #[test]
    fn cdb_ends_at_4_gib() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large.cdb");
        let mut writer = CdbWriter::create(&path).unwrap();
        // As if that much had been written: room for one record of 10 bytes and its two slots.
        writer.output.written = u64::from(u32::MAX) - 26;
        let error = writer.add(b"k", b"vv").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TooLarge { limit: 0xffff_ffff, .. }));
        assert!(error.to_string().contains("cdb64"), "{error}");
        writer.add(b"k", b"v").unwrap();
        assert!(writer.add(b"", b"").is_err());
        drop(writer);
        assert!(!path.exists());
    }

    #[test]
    fn after_a_failed_write_nothing_is_published() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("failed.cdb");
        let mut writer = CdbWriter::create(&path).unwrap();
        writer.add(b"k", b"v").unwrap();
        // No file can be so long: the write fails as on a full disk.
        let written = std::mem::replace(&mut writer.output.written, i64::MAX as u64);
        assert!(writer.output.flush().is_err());
        writer.output.written = written;
        // Said at once, not when there is enough to be written.
        let error = writer.add(b"k", b"v").unwrap_err().to_string();
        assert!(error.contains("failed.cdb"), "{error}");
        assert!(writer.finish().is_err());
        assert!(!path.exists());
    }

    /// Adds a record whose value of zeros is a hole in the file.
    fn add_hole(writer: &mut McdbWriter, key: &[u8], value_len: u64) {
        writer.add(key, b"").unwrap();
        let buffer = &mut writer.output.buffer;
        let head = buffer.len() - key.len() - 8;
        let bytes = (value_len as u32).swap_bytes().to_le_bytes();
        buffer[head + 4..head + 8].copy_from_slice(&bytes);
        writer.output.flush().unwrap();
        writer.output.written += value_len;
    }

    #[test]
    fn mcdb_over_4_gib_has_wide_slots() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wide.mcdb");
        let mut writer = McdbWriter::create(&path).unwrap();
        let key = |i: u32| format!("key {i}").into_bytes();
        (0..20).for_each(|i| writer.add(&key(i), b"below").unwrap());
        add_hole(&mut writer, b"first hole", i32::MAX as u64 - 8);
        add_hole(&mut writer, b"second hole", i32::MAX as u64 - 8);
        (10..60).for_each(|i| writer.add(&key(i), b"above").unwrap());
        writer.finish().unwrap();

        for access in [Access::Map, Access::Read] {
            let store = Mcdb::options().access(access).open(&path).unwrap();
            store.verify(|_, _| ()).unwrap();
            assert_eq!(store.len().unwrap(), 72);
            let stats = store.stats().unwrap();
            assert_eq!(stats.records, 72);
            assert_eq!(stats.value_bytes, 2 * (i32::MAX as u64 - 8) + 70 * 5);
            assert_eq!(stats.directory_bytes, 4096 + 72 * (8 + 2 * 16));
            for i in 0..61 {
                let mut expected: Vec<&[u8]> = Vec::new();
                expected.extend((i < 20).then_some(&b"below"[..]));
                expected.extend((10..60).contains(&i).then_some(&b"above"[..]));
                assert_eq!(store.get_all(&key(i)).unwrap(), expected, "{i}");
                assert_eq!(store.get(&key(i)).unwrap().as_deref(), expected.first().copied());
            }
            assert!(store.contains_key(b"second hole").unwrap());
        }
        flips_in_the_tables_are_found(&path);
    }

    /// Turns every byte of the slots round, one at a time.
    fn flips_in_the_tables_are_found(path: &Path) {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let end = file.metadata().unwrap().len();
        for at in end - 72 * 32..end {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0xff], at).unwrap();
            let store = Mcdb::open(path).unwrap();
            let error = store.verify(|_, _| ()).unwrap_err();
            assert!(error.is_bad_file(), "byte {at}: {error}");
            drop(store.get(b"key 7"));
            drop(store.get_all(b"key 19"));
            file.write_all_at(&byte, at).unwrap();
        }
    }
}
