//! Checking every byte: first the checksums, which find accidents, then that every entry is where
//! a lookup would look for it, which finds files that were never right.

use super::block::{HEAD_BYTES, Slot, fingerprint, home, overflow_bit};
use super::format::{ALIGN, Header, Region, SEGMENT_BYTES};
use super::lookup::{Index, LogRecord, RECORD_HEAD, list_places, passes_end};
use super::scan::Scanner;
use super::source::Source;
use crate::bytes::{le16, le64};
use crate::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

/// Checks everything, or says where the first damage is. `progress` gets bytes done and to do.
pub(crate) fn verify<S: Source>(
    header: &Header,
    index: &Index,
    source: &S,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let total = header.file_len() + header.blocks.len;
    let mut report = |done: u64| progress(done, total);
    checksums(header, source, &mut report)?;
    let mut found = Found::default();
    log(header, source, &mut found)?;
    blocks(header, index, source, &mut found, &mut |done| report(header.file_len() + done))?;
    totals(header, index, source, &found)?;
    report(total);
    Ok(())
}

/// What was met on the way.
#[derive(Default)]
struct Found {
    log_records: u64,
    log_refs: u64,
}

/// All bytes after the header are covered: segments by their sums, gaps by being zero.
fn checksums<S: Source>(header: &Header, source: &S, report: &mut dyn FnMut(u64)) -> Result<()> {
    let table = source.read(header.sums.at, header.sums.len as usize)?;
    if xxh3_64(&table) != header.sums_checksum {
        return Err(Error::corrupt(header.sums.at, "the table of checksums is damaged"));
    }
    let mut sums = table.chunks_exact(8).map(|c| le64(c, 0).unwrap_or_default());
    let mut end = super::format::HEADER_BYTES as u64;
    for (name, region) in [("log", header.log), ("blocks", header.blocks), ("lists", header.lists)]
    {
        zeros(source, Region { at: end, len: region.at - end })?;
        end = region.end();
        for segment in 0..region.segments() {
            let at = region.at + segment * SEGMENT_BYTES;
            let len = (region.end() - at).min(SEGMENT_BYTES);
            let bytes = source.read(at, len as usize)?;
            if Some(xxh3_64(&bytes)) != sums.next() {
                let what = format!("the checksum of the {len} bytes from here ({name}) is wrong");
                return Err(Error::corrupt(at, what));
            }
            report(at + len);
        }
    }
    zeros(source, Region { at: end, len: header.sums.at - end })
}

fn zeros<S: Source>(source: &S, gap: Region) -> Result<()> {
    let bytes = source.read(gap.at, gap.len as usize)?;
    match bytes.iter().position(|b| *b != 0) {
        Some(i) => Err(Error::corrupt(gap.at + i as u64, "a byte between regions is not zero")),
        None => Ok(()),
    }
}

/// The records of the log follow each other and end where the log ends.
fn log<S: Source>(header: &Header, source: &S, found: &mut Found) -> Result<()> {
    let mut at = header.log.at;
    while at < header.log.end() {
        let record = LogRecord::read(source, at)?;
        let len = (RECORD_HEAD + record.key_len) as u64 + record.value_len as u64;
        let next = at + len.next_multiple_of(ALIGN);
        if next > header.log.end() {
            return Err(Error::corrupt(at, "a record passes the end of the log"));
        }
        found.log_records += 1;
        at = next;
    }
    Ok(())
}

/// Every entry of every block can be found from its key.
fn blocks<S: Source>(
    header: &Header,
    index: &Index,
    source: &S,
    found: &mut Found,
    report: &mut dyn FnMut(u64),
) -> Result<()> {
    let shape = &index.shape;
    // The masks of the blocks before, as far back as a chain reaches.
    let mut masks = std::collections::VecDeque::new();
    let count = header.blocks.len / u64::from(header.block_bytes);
    for number in 0..count {
        let at = header.blocks.at + number * u64::from(header.block_bytes);
        let block = source.read(at, shape.block_bytes)?;
        let Some((n, used)) = super::stats::used_bytes(shape, &block) else {
            return Err(passes_end(at));
        };
        if block.iter().skip(used).any(|b| *b != 0) {
            return Err(Error::corrupt(at + used as u64, "a byte after the entries is not zero"));
        }
        for i in 0..n {
            let place = EntryPlace { number, at, n, i };
            entry(header, index, source, &block, place, &masks, found)?;
        }
        masks.push_front(le16(&block, 1).unwrap_or_default());
        masks.truncate(header.longest_chain as usize);
        if number % 4096 == 0 {
            report(number * u64::from(header.block_bytes));
        }
    }
    Ok(())
}

/// Which entry of which block.
#[derive(Clone, Copy)]
struct EntryPlace {
    number: u64,
    at: u64,
    n: usize,
    i: usize,
}

fn entry<S: Source>(
    header: &Header,
    index: &Index,
    source: &S,
    block: &[u8],
    place: EntryPlace,
    masks: &std::collections::VecDeque<u16>,
    found: &mut Found,
) -> Result<()> {
    let wrong = |what: String| Err(Error::corrupt(place.at, what));
    let Some(slot) = index.shape.slot(block, place.n, place.i, 0) else {
        return Err(passes_end(place.at));
    };
    let hash = match slot {
        Slot::Inline { at, key_len, .. } => {
            index.hash(block.get(at..at + key_len).unwrap_or_default())
        }
        Slot::Ref(to) => index.hash(&referred_key(header, source, to.at, to.list, found)?),
    };
    let nth = place.i;
    if block.get(HEAD_BYTES + nth) != Some(&fingerprint(hash)) {
        return wrong(format!("entry {nth} of this block has the fingerprint of another key"));
    }
    if let Some(Slot::Ref(to)) = index.shape.slot(block, place.n, place.i, hash)
        && !to.tag_fits
    {
        return wrong(format!("entry {nth} of this block has the tag of another key"));
    }
    let Some(back) = place.number.checked_sub(home(hash, header.home_blocks)) else {
        return wrong(format!("entry {nth} lies in a block before the home of its key"));
    };
    let way = masks.iter().take(back as usize);
    let reached = way.clone().all(|mask| mask & overflow_bit(hash) != 0);
    if back > u64::from(header.longest_chain) || way.count() as u64 != back || !reached {
        return wrong(format!("entry {nth} of this block cannot be reached from its key's home"));
    }
    Ok(())
}

/// The key of the record, or of all records of the list, at `at`.
fn referred_key<S: Source>(
    header: &Header,
    source: &S,
    at: u64,
    list: bool,
    found: &mut Found,
) -> Result<Vec<u8>> {
    let places = if list { list_places(source, at)? } else { vec![at] };
    let region = if list { header.lists } else { header.log };
    if at < region.at || at >= region.end() || places.is_empty() {
        return Err(Error::corrupt(at, "a reference leads to where no record can be"));
    }
    let mut first: Option<Vec<u8>> = None;
    for place in places {
        let record = LogRecord::read(source, place)?;
        let key = record.key(source)?;
        found.log_refs += u64::from(place < header.log.end());
        match &first {
            None => first = Some(key.to_vec()),
            Some(first) if *first == *key => {}
            Some(_) => return Err(Error::corrupt(at, "a list holds records of several keys")),
        }
    }
    Ok(first.unwrap_or_default())
}

/// The numbers of the header are those of the records.
fn totals<S: Source>(header: &Header, index: &Index, source: &S, found: &Found) -> Result<()> {
    if found.log_refs != found.log_records {
        let what = format!(
            "{} references lead to the log, which has {} records",
            found.log_refs, found.log_records
        );
        return Err(Error::corrupt(header.log.at, what));
    }
    let (mut records, mut key_bytes, mut value_bytes) = (0, 0, 0);
    Scanner::new(header, index.shape).scan(source, |key, value| {
        records += 1;
        key_bytes += key.len() as u64;
        value_bytes += value.len() as u64;
        Ok(())
    })?;
    if (records, key_bytes, value_bytes) != (header.records, header.key_bytes, header.value_bytes) {
        let what = format!(
            "the header counts {} records of {} + {} bytes, the file has {records} of \
             {key_bytes} + {value_bytes}",
            header.records, header.key_bytes, header.value_bytes
        );
        return Err(Error::corrupt(48, what));
    }
    Ok(())
}
