//! Records of a key that a bucket does not hold one by one: many duplicates, and duplicates of
//! which some are in the log and some are not.
//!
//! They become one reference to a list, which names their places in the order in which they were
//! added. A record that was inline is written into the list; one that is in the log stays there.
//! So that a scan meets the values of every key in order, and each once, a log record that is
//! reached through a list with others is marked [`LISTED`] and skipped by the scan of the log;
//! where all of them are in the log, the list is marked [`IN_LOG`] and skipped instead.

use super::bucket::{MAX_ENTRIES, REF_MARK};
use super::emit::Item;
use super::format::{ALIGN, Region, SEGMENT_BYTES};
use super::lookup::{IN_LOG, LIST_HEAD, LISTED, RECORD_HEAD};
use super::output::{RegionWriter, Sink, sum_again};
use super::partition::{ENTRY_HEAD, Entry};
use crate::Result;
use std::collections::BTreeSet;

/// More entries than this of one key become a list.
const MANY: usize = 8;

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
    pub(crate) fn replace(
        &mut self,
        sink: &Sink,
        run: &mut Vec<u8>,
        items: &[Item],
    ) -> Result<Option<Vec<Item>>> {
        let mut out = Vec::with_capacity(items.len());
        for same_hash in items.chunk_by(|a, b| a.hash == b.hash) {
            if same_hash.len() == 1 {
                out.extend_from_slice(same_hash);
                continue;
            }
            let Some(keys) = by_key(sink, run, same_hash)? else { return Ok(None) };
            for members in keys {
                if calls_for_list(run, &members) {
                    out.push(self.write(sink, run, &members)?);
                } else {
                    out.extend_from_slice(&members);
                }
            }
        }
        Ok(Some(out))
    }

    /// Writes the list of these items of one key; an item that refers to it.
    fn write(&mut self, sink: &Sink, run: &mut Vec<u8>, members: &[Item]) -> Result<Item> {
        let hash = members.first().map_or(0, |item| item.hash);
        let list_at = self.region.position();
        let mut places = Vec::with_capacity(members.len());
        let mut next = list_at + (LIST_HEAD + 8 * members.len()) as u64;
        let mut inline = 0;
        for item in members {
            let Some(entry) = Entry::at(run, item.at as usize) else { continue };
            places.push(entry.place().unwrap_or(next));
            if entry.place().is_none() {
                inline += 1;
                next += ((RECORD_HEAD + entry.payload.len()) as u64).next_multiple_of(ALIGN);
            }
        }
        if inline > 0 {
            let log_end = self.log.end();
            for place in places.iter().filter(|place| **place < log_end) {
                self.mark(sink, *place)?;
            }
        }
        let flag = if inline == 0 { IN_LOG } else { 0 };
        self.region.write(sink, &(places.len() as u64 | flag).to_le_bytes())?;
        self.region.write(sink, &(next - list_at).to_le_bytes())?;
        for place in &places {
            self.region.write(sink, &place.to_le_bytes())?;
        }
        // One by one: of all records of a key there may be more than there is memory to spare.
        let mut record = Vec::new();
        for item in members {
            let entry = Entry::at(run, item.at as usize).filter(|entry| entry.place().is_none());
            let Some(entry) = entry else { continue };
            let (key, value) = entry.payload.split_at(usize::from(entry.key_len));
            record.clear();
            push_record(&mut record, key, value);
            self.region.write(sink, &record)?;
        }
        // The new entry lies at the end of the run, where entries are found by their place only.
        let at = run.len() as u64;
        let mut head = [0; ENTRY_HEAD];
        head[..8].copy_from_slice(&hash.to_le_bytes());
        head[8] = REF_MARK;
        head[9] = 8;
        run.extend_from_slice(&head);
        run.extend_from_slice(&(list_at | 1).to_le_bytes());
        Ok(Item { hash, at })
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
/// `None` if there are more than a bucket has room for, which only happens on purpose.
fn by_key(sink: &Sink, run: &[u8], same_hash: &[Item]) -> Result<Option<Vec<Vec<Item>>>> {
    let mut keys: Vec<(Vec<u8>, Vec<Item>)> = Vec::new();
    for item in same_hash {
        let Some(entry) = Entry::at(run, item.at as usize) else { continue };
        let key = key_of(sink, &entry)?;
        let known = keys.len();
        match keys.iter_mut().find(|(k, _)| *k == key) {
            Some((_, members)) => members.push(*item),
            None if known == MAX_ENTRIES => return Ok(None),
            None => keys.push((key, vec![*item])),
        }
    }
    Ok(Some(keys.into_iter().map(|(_, members)| members).collect()))
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
    let mut head = [0; RECORD_HEAD];
    sink.read_at(&mut head, place)?;
    let [a, b, c, d, ..] = head;
    let mut key = vec![0; (u32::from_le_bytes([a, b, c, d]) & !LISTED) as usize];
    sink.read_at(&mut key, place + RECORD_HEAD as u64)?;
    Ok(key)
}
