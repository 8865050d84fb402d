//! Records of a key that a block does not hold one by one: many duplicates, duplicates of which
//! some are in the log and some are not, and records too large for the blocks of their file.
//!
//! They become one reference to a list, which names their places in the order in which they were
//! added. A record that was inline is written into the list; one that is in the log stays there.
//! So that a scan meets the values of every key in order, and each once, a log record that is
//! reached through a list with others is marked [`LISTED`] and skipped by the scan of the log;
//! where all of them are in the log, the list is marked [`IN_LOG`] and skipped instead.

use super::block::REF_MARK;
use super::emit::Place;
use super::format::{ALIGN, Region, SEGMENT_BYTES};
use super::lookup::{IN_LOG, LIST_HEAD, LISTED, RECORD_HEAD};
use super::output::{RegionWriter, Sink, sum_again};
use super::partition::{ENTRY_HEAD, Entry};
use super::plan::Plan;
use crate::Result;
use std::collections::BTreeSet;

/// More entries than this of one key become a list; see [`Lists::replace`] for when.
const MANY: usize = 8;
/// A home block with more entries than a full block and this is searched for such a key.
const CROWD: usize = 16;

/// The entries of one key: their index in the group of their home, and where they lie.
type Members = Vec<(usize, Place)>;

/// The region of lists, and what it changed in the log.
#[derive(Debug)]
pub(crate) struct Lists<'a> {
    sink: &'a Sink,
    region: RegionWriter,
    log: Region,
    /// Segments of the log in which records were marked.
    marked: BTreeSet<u64>,
    /// Bytes of entries that lists took out of the blocks.
    pub replaced_bytes: u64,
}

impl<'a> Lists<'a> {
    pub(crate) fn new(sink: &'a Sink, at: u64, log: Region) -> Lists<'a> {
        let region = RegionWriter::new(at);
        Lists { sink, region, log, marked: BTreeSet::new(), replaced_bytes: 0 }
    }

    /// Replaces entries of home block `home` by lists where that is called for. The order of
    /// entries before it is settled; `waiting` is the end of those whose home it is.
    pub(crate) fn replace(
        &mut self,
        plan: &Plan,
        sink: &Sink,
        run: &mut Vec<u8>,
        order: &mut Vec<Place>,
        home: u64,
        waiting: usize,
    ) -> Result<()> {
        debug_assert!(std::ptr::eq(self.sink, sink));
        let of_home = |p: &Place| u64::from(p.home) == home;
        let own = order.get(..waiting).unwrap_or_default().iter().rev().take_while(|p| of_home(p));
        let start = waiting - own.count();
        let group = order.get(start..waiting).unwrap_or_default();
        if !self.concerns(plan, run, group) {
            return Ok(());
        }
        let group = group.to_vec();
        let replaced = self.replace_group(plan, run, &group)?;
        order.splice(start..waiting, replaced);
        Ok(())
    }

    /// Whether a group might have something to replace; cheap, as it is asked for every block.
    #[inline]
    fn concerns(&self, plan: &Plan, run: &[u8], group: &[Place]) -> bool {
        let room = plan.shape.block_bytes;
        let bytes: usize = match group.first().and_then(|p| Entry::at(run, p.at as usize)) {
            None => return false,
            Some(first) if plan.shape.kind != super::format::Kind::Mixed => {
                plan.entry_bytes(first.key_len, first.payload.len()) * group.len()
            }
            Some(_) => {
                let entries = group.iter().filter_map(|p| Entry::at(run, p.at as usize));
                let mut bytes = 0;
                let (mut refs, mut large) = (0, false);
                for e in entries {
                    bytes += plan.entry_bytes(e.key_len, e.payload.len());
                    refs += usize::from(e.key_len == REF_MARK);
                    large |= e.key_len != REF_MARK && e.payload.len() > plan.max_payload;
                }
                if large || (refs > 0 && refs < group.len()) {
                    return true;
                }
                bytes
            }
        };
        group.len() > CROWD && (bytes > 2 * room || group.len() > 32 + CROWD)
    }

    /// The places of a group after replacing.
    fn replace_group(
        &mut self,
        plan: &Plan,
        run: &mut Vec<u8>,
        group: &[Place],
    ) -> Result<Vec<Place>> {
        let mut left: Vec<Place> = Vec::with_capacity(group.len());
        let mut sorted: Vec<(u64, usize)> = Vec::with_capacity(group.len());
        for (i, place) in group.iter().enumerate() {
            sorted.push((Entry::at(run, place.at as usize).map_or(0, |e| e.hash), i));
        }
        sorted.sort_unstable();
        // What stands at each index of the group afterwards: itself, a list, or nothing.
        let mut stays: Vec<Option<Place>> = group.iter().copied().map(Some).collect();
        for same_hash in sorted.chunk_by(|a, b| a.0 == b.0) {
            for members in self.by_key(run, group, same_hash)? {
                if self.calls_for_list(plan, run, &members) {
                    let list = self.write(run, &members)?;
                    for (nth, (i, _)) in members.iter().enumerate() {
                        if let Some(stay) = stays.get_mut(*i) {
                            *stay = (nth == 0).then_some(list);
                        }
                    }
                }
            }
        }
        left.extend(stays.into_iter().flatten());
        Ok(left)
    }

    /// Divides entries of one hash by key, each key's in their order: almost always there is one.
    fn by_key(
        &self,
        run: &[u8],
        group: &[Place],
        same_hash: &[(u64, usize)],
    ) -> Result<Vec<Members>> {
        let mut keys: Vec<(Vec<u8>, Members)> = Vec::new();
        for (_, i) in same_hash {
            let Some(place) = group.get(*i).copied() else { continue };
            let Some(entry) = Entry::at(run, place.at as usize) else { continue };
            if same_hash.len() == 1 {
                return Ok(vec![vec![(*i, place)]]);
            }
            let key = key_of(self.sink, &entry)?;
            match keys.iter_mut().find(|(k, _)| *k == key) {
                Some((_, members)) => members.push((*i, place)),
                None => keys.push((key, vec![(*i, place)])),
            }
        }
        Ok(keys.into_iter().map(|(_, members)| members).collect())
    }

    fn calls_for_list(&self, plan: &Plan, run: &[u8], members: &[(usize, Place)]) -> bool {
        let entries = members.iter().filter_map(|(_, p)| Entry::at(run, p.at as usize));
        let (mut refs, mut large, mut count) = (0, false, 0);
        for entry in entries {
            count += 1;
            refs += usize::from(entry.key_len == REF_MARK);
            large |= entry.key_len != REF_MARK && entry.payload.len() > plan.max_payload;
        }
        count > MANY || large || (refs > 0 && refs < count)
    }

    /// Writes the list of these entries of one key; the place of an entry that refers to it.
    fn write(&mut self, run: &mut Vec<u8>, members: &[(usize, Place)]) -> Result<Place> {
        let first = members.first().map(|(_, p)| *p).unwrap_or_default();
        let hash = Entry::at(run, first.at as usize).map_or(0, |e| e.hash);
        let list_at = self.region.position();
        let mut places = Vec::with_capacity(members.len());
        let mut records = Vec::new();
        let records_at = list_at + (LIST_HEAD + 8 * members.len()) as u64;
        let mut inline = 0;
        for (_, place) in members {
            let Some(entry) = Entry::at(run, place.at as usize) else { continue };
            self.replaced_bytes += entry.payload.len() as u64 + 3;
            match entry.place() {
                Some(place) => places.push(place),
                None => {
                    inline += 1;
                    places.push(records_at + records.len() as u64);
                    let (key, value) = entry.payload.split_at(usize::from(entry.key_len));
                    push_record(&mut records, key, value, 0);
                }
            }
        }
        if inline > 0 {
            let log_end = self.log.end();
            for place in places.iter().filter(|place| **place < log_end) {
                self.mark(*place)?;
            }
        }
        let flag = if inline == 0 { IN_LOG } else { 0 };
        let bytes = (LIST_HEAD + 8 * places.len() + records.len()) as u64;
        let mut list = Vec::with_capacity(bytes as usize);
        list.extend_from_slice(&(places.len() as u64 | flag).to_le_bytes());
        list.extend_from_slice(&bytes.to_le_bytes());
        places.iter().for_each(|place| list.extend_from_slice(&place.to_le_bytes()));
        list.extend_from_slice(&records);
        self.region.write(self.sink, &list)?;
        // The new entry lies at the end of the run, where entries are found by their place only.
        let at = run.len() as u32;
        let mut head = [0; ENTRY_HEAD];
        head[..8].copy_from_slice(&hash.to_le_bytes());
        head[8] = REF_MARK;
        head[9] = 8;
        run.extend_from_slice(&head);
        run.extend_from_slice(&(list_at | 1).to_le_bytes());
        Ok(Place { at, home: first.home })
    }

    /// Marks the log record at `place` as reached through a list.
    fn mark(&mut self, place: u64) -> Result<()> {
        let mut word = [0; 4];
        self.sink.read_at(&mut word, place)?;
        let word = u32::from_le_bytes(word) | LISTED;
        self.sink.write_at(&word.to_le_bytes(), place)?;
        self.marked.insert((place - self.log.at) / SEGMENT_BYTES);
        Ok(())
    }

    /// Ends the region; its sums, after mending those of the log.
    pub(crate) fn finish(self, log_sums: &mut [u64]) -> Result<(Region, Vec<u64>)> {
        for segment in &self.marked {
            if let Some(sum) = log_sums.get_mut(*segment as usize) {
                *sum = sum_again(self.sink, self.log, *segment)?;
            }
        }
        self.region.finish(self.sink)
    }
}

/// Appends a record as the log holds it.
pub(crate) fn push_record(out: &mut Vec<u8>, key: &[u8], value: &[u8], flags: u32) {
    out.extend_from_slice(&(key.len() as u32 | flags).to_le_bytes());
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
