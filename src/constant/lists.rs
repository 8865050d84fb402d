//! Records of a key that a bucket does not hold one by one: many duplicates, and duplicates of
//! which some are in the log and some are not.
//!
//! They become one reference to a list, which names their places in the order in which they were
//! added. A record that was inline is written into the list; one that is in the log stays there.
//! So that a scan meets the values of every key in order, and each once, a log record that is
//! reached through a list with others is marked [`LISTED`] and skipped by the scan of the log;
//! where all of them are in the log, the list is marked [`IN_LOG`] and skipped instead.
//!
//! All records of a hash are given at once, in a run or as a long one. What they become may be given again.

use super::bucket::{MAX_ENTRIES, REF_MARK};
use super::emit::Item;
use super::format::{ALIGN, Region, SEGMENT_BYTES};
use super::lookup::{IN_LOG, LIST_HEAD, LISTED, RECORD_HEAD};
use super::output::{RegionWriter, Sink, sum_again};
use super::partition::{ENTRY_HEAD, Entry, LongRun};
use crate::Result;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// More entries than this of one key become a list.
const MANY: usize = 8;

/// The bytes of the entry that refers to a list.
type ListEntry = [u8; ENTRY_HEAD + 8];

/// What gives all records of one key that are to be in a list to a function, in their order, as often as it is asked to.
type Members<'a> = &'a dyn Fn(&mut dyn FnMut(Entry) -> Result<()>) -> Result<()>;

/// The region of lists, and what it changed in the log.
#[derive(Debug)]
pub(crate) struct Lists {
    region: RegionWriter,
    log: Region,
    /// Segments of the log in which records were marked.
    marked: BTreeSet<u64>,
}

impl Lists {
    pub(crate) fn new(at: u64, log: Region) -> Lists {
        let region = RegionWriter::new(at);
        Lists { region, log, marked: BTreeSet::new() }
    }

    /// The items of a bucket, sorted, with those of one key replaced by a list where that is
    /// called for; `None` if more keys have one hash than a bucket has room for.
    #[inline]
    pub(crate) fn replace<'i>(
        &mut self,
        sink: &Sink,
        run: &mut Vec<u8>,
        items: &'i [Item],
    ) -> Result<Option<Cow<'i, [Item]>>> {
        if items.windows(2).any(|pair| pair[0].hash == pair[1].hash) {
            return Ok(self.replace_equal(sink, run, items)?.map(Cow::Owned));
        }
        Ok(Some(Cow::Borrowed(items)))
    }

    fn replace_equal(
        &mut self,
        sink: &Sink,
        run: &mut Vec<u8>,
        items: &[Item],
    ) -> Result<Option<Vec<Item>>> {
        let mut out = Vec::with_capacity(items.len().min(MAX_ENTRIES));
        for same_hash in items.chunk_by(|a, b| a.hash == b.hash) {
            if same_hash.len() == 1 {
                out.extend_from_slice(same_hash);
                continue;
            }
            let Some(keys) = by_key(sink, run, same_hash)? else { return Ok(None) };
            for members in keys {
                if !calls_for_list(run, &members) {
                    out.extend_from_slice(&members);
                    continue;
                }
                let hash = members.first().map_or(0, |item| item.hash);
                let entry = self.write(sink, hash, &|f| {
                    let mut entries = members.iter().map(|item| Entry::at(run, item.at as usize));
                    entries.try_for_each(|entry| entry.map_or(Ok(()), &mut *f))
                })?;
                // It lies at the end of the run, where entries are found by their place only.
                out.push(Item { hash, at: run.len() as u64 });
                run.extend_from_slice(&entry);
            }
        }
        Ok(Some(out))
    }

    /// Makes a list of the records of a hash that are too many to be in memory; how many they are, and the entry that refers
    /// to it, or `None` if they have several keys.
    pub(crate) fn add_long(
        &mut self,
        sink: &Sink,
        long: &LongRun,
    ) -> Result<Option<(u64, ListEntry)>> {
        let (mut count, mut key, mut buffer) = (0, None, Vec::new());
        let mut is_one = true;
        long.each(&mut |entry| {
            count += 1;
            match &key {
                None => key = Some(key_of(sink, &entry)?),
                Some(key) => is_one = is_one && has_key(sink, &entry, key, &mut buffer)?,
            }
            Ok(())
        })?;
        if !is_one {
            return Ok(None);
        }
        let entry = self.write(sink, long.hash, &|f| long.each(f))?;
        Ok(Some((count, entry)))
    }

    /// Writes the list of these records; the entry that refers to it. Nothing is kept of each of them: of a key there may be
    /// more than there is memory.
    fn write(&mut self, sink: &Sink, hash: u64, each: Members) -> Result<ListEntry> {
        let list_at = self.region.position();
        let (mut count, mut inline, mut record_bytes) = (0u64, 0u64, 0);
        each(&mut |entry| {
            count += 1;
            if entry.place().is_none() {
                inline += 1;
                record_bytes += record_len(&entry);
            }
            Ok(())
        })?;
        let records_at = list_at + LIST_HEAD as u64 + 8 * count;
        let flag = if inline == 0 { IN_LOG } else { 0 };
        self.region.write(sink, &(count | flag).to_le_bytes())?;
        self.region.write(sink, &(records_at + record_bytes - list_at).to_le_bytes())?;
        let mut next = records_at;
        each(&mut |entry| {
            let place = match entry.place() {
                Some(place) => {
                    if inline > 0 {
                        self.mark(sink, place)?;
                    }
                    place
                }
                None => {
                    next += record_len(&entry);
                    next - record_len(&entry)
                }
            };
            self.region.write(sink, &place.to_le_bytes())
        })?;
        let mut record = Vec::new();
        if inline > 0 {
            each(&mut |entry| {
                if entry.place().is_some() {
                    return Ok(());
                }
                let (key, value) = entry.payload.split_at(usize::from(entry.key_len));
                record.clear();
                push_record(&mut record, key, value);
                self.region.write(sink, &record)
            })?;
        }
        let mut entry = [0; ENTRY_HEAD + 8];
        let (head, place) = entry.split_at_mut(ENTRY_HEAD);
        head[..8].copy_from_slice(&hash.to_le_bytes());
        head[8..].copy_from_slice(&[REF_MARK, 8]);
        place.copy_from_slice(&(list_at | 1).to_le_bytes());
        Ok(entry)
    }

    /// Marks the log record at `place` as reached through a list.
    fn mark(&mut self, sink: &Sink, place: u64) -> Result<()> {
        let mut word = [0; 4];
        sink.read_at(&mut word, place)?;
        let word = u32::from_le_bytes(word) | LISTED;
        sink.write_at(&word.to_le_bytes(), place)?;
        self.marked.insert((place - self.log.at) / SEGMENT_BYTES);
        Ok(())
    }

    /// Where they end so far.
    pub(crate) fn end(&self) -> u64 {
        self.region.position()
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.region.is_empty()
    }

    /// Ends the region; its sums, after mending those of the log.
    pub(crate) fn finish(self, sink: &Sink, log_sums: &mut [u64]) -> Result<(Region, Vec<u64>)> {
        for segment in &self.marked {
            if let Some(sum) = log_sums.get_mut(*segment as usize) {
                *sum = sum_again(sink, self.log, *segment)?;
            }
        }
        self.region.finish(sink)
    }
}

/// Divides items of one hash by key, each key's in their order: almost always there is one.
/// `None` if there are several and more items than a bucket has room for, which only happens on purpose.
fn by_key<'i>(
    sink: &Sink,
    run: &[u8],
    same_hash: &'i [Item],
) -> Result<Option<Vec<Cow<'i, [Item]>>>> {
    if has_one_key(sink, run, same_hash)? {
        return Ok(Some(vec![Cow::Borrowed(same_hash)]));
    }
    if same_hash.len() > MAX_ENTRIES {
        return Ok(None);
    }
    let mut keys: Vec<(Option<Vec<u8>>, Vec<Item>)> = Vec::new();
    for item in same_hash {
        let Some(entry) = Entry::at(run, item.at as usize) else { continue };
        // All records of the key of a list are in it.
        let key = if is_list(&entry) { None } else { Some(key_of(sink, &entry)?) };
        match keys.iter_mut().find(|(k, _)| key.is_some() && *k == key) {
            Some((_, members)) => members.push(*item),
            None => keys.push((key, vec![*item])),
        }
    }
    Ok(Some(keys.into_iter().map(|(_, members)| Cow::Owned(members)).collect()))
}

/// Whether all of these items of one hash have one key.
fn has_one_key(sink: &Sink, run: &[u8], same_hash: &[Item]) -> Result<bool> {
    let (mut key, mut buffer) = (None, Vec::new());
    for item in same_hash {
        let Some(entry) = Entry::at(run, item.at as usize) else { continue };
        let is_same = match &key {
            _ if is_list(&entry) => false,
            None => {
                key = Some(key_of(sink, &entry)?);
                true
            }
            Some(key) => has_key(sink, &entry, key, &mut buffer)?,
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an entry refers to a list, which a record in the log does not lie like.
fn is_list(entry: &Entry) -> bool {
    entry.place().is_some_and(|place| place & 1 == 1)
}

/// Whether this is the key of an entry; `buffer` is for one in the log.
fn has_key(sink: &Sink, entry: &Entry, key: &[u8], buffer: &mut Vec<u8>) -> Result<bool> {
    let Some(place) = entry.place() else {
        return Ok(entry.payload.get(..usize::from(entry.key_len)) == Some(key));
    };
    if key_len_at(sink, place)? != key.len() {
        return Ok(false);
    }
    buffer.resize(key.len(), 0);
    sink.read_at(buffer, place + RECORD_HEAD as u64)?;
    Ok(buffer == key)
}

/// The length of the key of the record in the log at `place`.
fn key_len_at(sink: &Sink, place: u64) -> Result<usize> {
    let mut head = [0; 4];
    sink.read_at(&mut head, place)?;
    Ok((u32::from_le_bytes(head) & !LISTED) as usize)
}

/// Bytes of the record in a list that a small one becomes.
fn record_len(entry: &Entry) -> u64 {
    ((RECORD_HEAD + entry.payload.len()) as u64).next_multiple_of(ALIGN)
}

/// Whether these items of one key are many, or some in the log and some not.
fn calls_for_list(run: &[u8], members: &[Item]) -> bool {
    let is_ref =
        |item: &&Item| Entry::at(run, item.at as usize).is_some_and(|e| e.key_len == REF_MARK);
    let refs = members.iter().filter(is_ref).count();
    members.len() > MANY || (refs > 0 && refs < members.len())
}

/// Appends a record as the log holds it.
fn push_record(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(ALIGN as usize), 0);
}

/// The key of an entry; for one in the log it is read from there.
pub(crate) fn key_of(sink: &Sink, entry: &Entry) -> Result<Vec<u8>> {
    let Some(place) = entry.place() else {
        let key = entry.payload.get(..usize::from(entry.key_len));
        return Ok(key.unwrap_or_default().to_vec());
    };
    let mut key = vec![0; key_len_at(sink, place)?];
    sink.read_at(&mut key, place + RECORD_HEAD as u64)?;
    Ok(key)
}
