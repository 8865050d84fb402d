//! Checking every byte: first the checksums, which find accidents, then that every entry is where
//! a lookup would look for it, which finds files that were never right.

use super::block::{Block, Blocks, Home, Limit, MAX_CHAIN};
use super::bucket::{Shape, Slot, TAIL_BYTES, fingerprint};
use super::directory::{GROUP_BUCKETS, GROUP_BYTES, Position, place};
use super::format::{ALIGN, Addressing, HEADER_BYTES, Header, MAX_KEY, Region, SEGMENT_BYTES};
use super::lookup::{Index, List, LogRecord, RECORD_HEAD, more_than_entries, passes_end};
use super::rows::{self, Row, Rows};
use super::scan::Scanner;
use crate::bytes::le64;
use crate::os::source::Source;
use crate::{Error, Result};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::VecDeque;
use xxhash_rust::xxh3::xxh3_64;

/// Checks everything, or says where the first damage is. `progress` gets bytes done and to do.
pub(crate) fn verify<S: Source>(
    header: &Header,
    index: &Index,
    source: &S,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let total = header.file_len() + header.buckets.len;
    let mut report = |done: u64| progress(done, total);
    checksums(header, source, &mut report)?;
    let mut found = Found::default();
    log(header, source, &mut found)?;
    lists(header, source, &mut found)?;
    buckets(header, index, source, &mut found, &mut |done| report(header.file_len() + done))?;
    totals(header, index, source, &found)?;
    report(total);
    Ok(())
}

/// What was met on the way. Places are kept as the sum of their checksums, which is equal for
/// those that were met in front-to-back order and for those that references lead to, only if they
/// are the same places.
#[derive(Default)]
struct Found {
    log_records: u64,
    log_places: u64,
    log_refs: u64,
    log_ref_places: u64,
    list_places: u64,
    list_ref_places: u64,
    /// Bytes of the keys that references lead to.
    key_bytes: u64,
}

/// Adds a place to a sum of places.
fn add_place(sum: &mut u64, place: u64) {
    *sum = sum.wrapping_add(xxh3_64(&place.to_le_bytes()));
}

/// All bytes after the header are covered: segments by their sums, gaps by being zero.
fn checksums<S: Source>(header: &Header, source: &S, report: &mut dyn FnMut(u64)) -> Result<()> {
    let table = source.read(header.sums.at, header.sums.len as usize)?;
    if xxh3_64(&table) != header.sums_checksum {
        return Err(Error::corrupt(header.sums.at, "the table of checksums is damaged"));
    }
    let mut sums = table.chunks_exact(8).map(|c| le64(c, 0).unwrap_or_default());
    let mut end = HEADER_BYTES as u64;
    for (name, region) in header.summed() {
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
        add_place(&mut found.log_places, at);
        at = next;
    }
    Ok(())
}

/// The lists follow each other and end where their region ends.
fn lists<S: Source>(header: &Header, source: &S, found: &mut Found) -> Result<()> {
    let mut at = header.lists.at;
    while at < header.lists.end() {
        add_place(&mut found.list_places, at);
        let mut list = List::read(source, header.log, header.lists, at)?;
        while list.next(source)?.is_some() {}
        at = list.end;
    }
    Ok(())
}

/// Buckets follow each other without a gap, and every entry of theirs is found from its key.
fn buckets<S: Source>(
    header: &Header,
    index: &Index,
    source: &S,
    found: &mut Found,
    report: &mut dyn FnMut(u64),
) -> Result<()> {
    match header.addressing {
        Addressing::Directory => {}
        Addressing::Blocks(layout) => {
            return blocks(header, index, source, layout, found, report);
        }
        Addressing::Rows(layout) => return rows(header, index, source, layout, found, report),
    }
    let mut next = header.buckets.at;
    let mut largest = 0;
    for number in 0..header.groups() {
        let at = header.directory.at + number * GROUP_BYTES;
        let group = source.read(at, GROUP_BYTES as usize)?;
        for bucket in 0..GROUP_BUCKETS {
            let place = group.first_chunk().and_then(|group| place(group, bucket));
            let Some(place) = place.filter(|place| place.at == next) else {
                return Err(Error::corrupt(at, "a bucket does not begin where the last one ends"));
            };
            next += place.len as u64;
            let bytes = source.read(place.at, place.len)?;
            let belongs = |hash| {
                let here = Position::of(hash, header.groups());
                (here.group, here.bucket) == (number, bucket)
            };
            let mut before = Before::default();
            let bucket = (&bytes[..], place.at);
            largest =
                largest.max(entries(header, index, source, bucket, &belongs, &mut before, found)?);
        }
        if number % 1024 == 0 {
            report(next - header.buckets.at);
        }
    }
    if next + TAIL_BYTES as u64 != header.buckets.end() {
        return Err(Error::corrupt(next, "the last bucket does not end where the buckets do"));
    }
    if largest != header.largest_bucket as usize {
        return Err(Error::corrupt(84, "the header has the size of the largest bucket wrong"));
    }
    zeros(source, Region { at: next, len: TAIL_BYTES as u64 })
}

/// Blocks hold nothing but their entries, and every entry is found from its key.
fn blocks<S: Source>(
    header: &Header,
    index: &Index,
    source: &S,
    Blocks { step, homes }: Blocks,
    found: &mut Found,
    report: &mut dyn FnMut(u64),
) -> Result<()> {
    let (mut largest, mut before) = (0, Before::default());
    let mut way = Way::default();
    for number in 0..header.block_count() {
        let at = header.buckets.at + number * step as u64;
        let bytes = source.read(at, step)?;
        let block = Block::new(&bytes).ok_or_else(|| passes_end(at))?;
        block.slack().ok_or_else(|| more_than_entries(at))?;
        let (bucket, shift) = block.bucket().ok_or_else(|| passes_end(at))?;
        let belongs = |hash| way.leads_to(number, block.limit, Home::of(hash, homes));
        let bucket = (&bucket[..], at + shift as u64);
        let n = entries(header, index, source, bucket, &belongs, &mut before, found)?;
        largest = largest.max(n);
        way.add(block.limit);
        if number % 1024 == 0 {
            report(at - header.buckets.at);
        }
    }
    check_largest_and_way(header, largest, &way)?;
    let end = header.buckets.end() - TAIL_BYTES as u64;
    zeros(source, Region { at: end, len: TAIL_BYTES as u64 })
}

/// Rows have the numbers of all records one after the other, and every record is found from its key.
fn rows<S: Source>(
    header: &Header,
    index: &Index,
    source: &S,
    Rows { homes }: Rows,
    found: &mut Found,
    report: &mut dyn FnMut(u64),
) -> Result<()> {
    let (mut largest, mut before, mut next) = (0, Before::default(), 0);
    let mut way = Way::default();
    for number in 0..header.row_count() {
        let wrong = |what: &str| Err(Error::corrupt(index.row_at(number), what));
        let (row, n) = index.row_with_count(source, number)?;
        let row = Row(&row);
        if row.first() != next {
            return wrong("the first row does not begin with the first record");
        }
        let (prints, others) = row.lanes(n);
        if others.iter().any(|lane| *lane != 0) || row.limit().moves_all() && !others.is_empty() {
            return wrong(
                "this row has lanes without an entry that are not zero, or should not be there",
            );
        }
        // As a bucket of a directory has them.
        let at = index.record_at(next as u64);
        let bucket = [prints, &source.read(at, n * index.shape.entry_bytes)?].concat();
        let belongs = |hash| way.leads_to(number, row.limit(), rows::home(hash, homes));
        // A lane's record lies `n` bytes further on in such a bucket.
        let bucket = (&bucket[..], at.saturating_sub(n as u64));
        entries(header, index, source, bucket, &belongs, &mut before, found)?;
        largest = largest.max(n);
        next += n;
        way.add(row.limit());
        if number % 1024 == 0 {
            report(at - header.buckets.at);
        }
    }
    check_largest_and_way(header, largest, &way)?;
    let end = header.buckets.end() - TAIL_BYTES as u64;
    zeros(source, Region { at: end, len: TAIL_BYTES as u64 })
}

fn check_largest_and_way(header: &Header, largest: usize, way: &Way) -> Result<()> {
    if (largest, way.longest.get()) == (header.largest_bucket as usize, u64::from(header.chain)) {
        return Ok(());
    }
    let what =
        "the header has the most entries of a block or row, or the longest way to one, wrong";
    Err(Error::corrupt(84, what))
}

/// The blocks or rows before the one in work, as a lookup meets them.
#[derive(Default)]
struct Way {
    /// Their limits, the last one last, as far back as an entry's home may be.
    limits: VecDeque<Limit>,
    /// By how many an entry was moved on at most.
    longest: Cell<u64>,
}

impl Way {
    /// Whether a lookup that begins at `home` comes to the one in work, which has this number and limit.
    fn leads_to(&self, number: u64, limit: Limit, home: Home) -> bool {
        let Some(moved) = number.checked_sub(home.block) else { return false };
        if moved == 0 {
            return !limit.moved_on(home);
        }
        self.longest.set(self.longest.get().max(moved));
        // What it meets: the home, and those that moved everything on.
        let from = self.limits.len().checked_sub(moved as usize);
        from.map(|from| self.limits.range(from..)).is_some_and(|mut way| {
            way.next().is_some_and(|limit| limit.moved_on(home) || limit.moves_all())
                && way.all(|limit| limit.moves_all())
        })
    }

    /// The one in work has this limit; now to the next.
    fn add(&mut self, limit: Limit) {
        self.limits.push_back(limit);
        if self.limits.len() as u64 > MAX_CHAIN {
            self.limits.pop_front();
        }
    }
}

/// How a bucket holds the records of a key.
#[derive(Clone, Copy)]
enum Held {
    Inline,
    /// By an entry for each, in the order of their places.
    InLog(u64),
    /// All of them by one entry.
    InList,
}

/// The last entries that were checked, which all have one hash. Those of a key are all held in one way, so that a
/// scan meets its records in the order of a lookup.
#[derive(Default)]
struct Before {
    hash: u64,
    keys: Vec<(Vec<u8>, Held)>,
    /// A buffer for the next key.
    spare: Vec<u8>,
}

impl Before {
    /// Whether an entry may follow these, or begin anew.
    fn takes(&mut self, hash: u64, key: Cow<'_, [u8]>, how: Held) -> bool {
        if hash != self.hash {
            self.spare = self.keys.pop().map(|(key, _)| key).unwrap_or_default();
            self.keys.clear();
        }
        self.hash = hash;
        let is_right = |(other, held): &(Vec<u8>, Held)| {
            *other != *key
                || match (held, how) {
                    (Held::Inline, Held::Inline) => true,
                    (Held::InLog(before), Held::InLog(place)) => *before < place,
                    _ => false,
                }
        };
        let all_are = self.keys.iter().all(is_right);
        let mut owned = std::mem::take(&mut self.spare);
        owned.clear();
        owned.extend_from_slice(&key);
        self.keys.push((owned, how));
        all_are
    }
}

/// Checks the entries of one bucket; how many there are.
fn entries<S: Source>(
    header: &Header,
    index: &Index,
    source: &S,
    (bucket, bucket_at): (&[u8], u64),
    belongs: &dyn Fn(u64) -> bool,
    before: &mut Before,
    found: &mut Found,
) -> Result<usize> {
    let wrong = |what: String| Err(Error::corrupt(bucket_at, what));
    let n = index.shape.count(bucket).ok_or_else(|| passes_end(bucket_at))?;
    let mut end = 0;
    for i in 0..n {
        let slot = index.shape.slot(bucket, n, i, 0).ok_or_else(|| passes_end(bucket_at))?;
        let (key, how) = match slot {
            Slot::Inline { at, key_len, value_len } => {
                end = at + key_len + value_len;
                (Cow::Borrowed(bucket.get(at..at + key_len).unwrap_or_default()), Held::Inline)
            }
            Slot::Ref(to) => {
                end = reference_end(&index.shape, end, n, i);
                let how = if to.list { Held::InList } else { Held::InLog(to.at) };
                (Cow::Owned(referred_key(header, source, to.at, to.list, found)?), how)
            }
        };
        let hash = index.hash(&key);
        if !belongs(hash) || hash < before.hash {
            return wrong(format!("entry {i} of this bucket does not belong where it is"));
        }
        if !before.takes(hash, key, how) {
            return wrong(format!(
                "entry {i} of this bucket has a key whose records are held in another way or order"
            ));
        }
        if bucket.get(index.shape.prints_at() + i) != Some(&fingerprint(hash)) {
            return wrong(format!("entry {i} of this bucket has the fingerprint of another key"));
        }
        if let Some(Slot::Ref(to)) = index.shape.slot(bucket, n, i, hash)
            && !to.tag_fits
        {
            return wrong(format!("entry {i} of this bucket has the tag of another key"));
        }
    }
    if end != bucket.len() {
        return wrong("this bucket is longer than its entries".into());
    }
    Ok(n)
}

/// Where the reference that is entry `i` of `n` ends, after one that ends at `before`.
fn reference_end(shape: &Shape, before: usize, n: usize, i: usize) -> usize {
    let heads = if shape.prints_at() == 1 { 1 + 3 * n } else { n };
    let start = if i == 0 { heads } else { before };
    start + shape.ref_bytes
}

/// The key of the record, or of all records of the list, at `at`. A scan must meet each of them once: in the
/// log, unless it is marked as one of a list's.
fn referred_key<S: Source>(
    header: &Header,
    source: &S,
    at: u64,
    is_list: bool,
    found: &mut Found,
) -> Result<Vec<u8>> {
    let wrong = |what| Err(Error::corrupt(at, what));
    if !is_list {
        if at >= header.log.end() {
            return wrong("a reference leads to where no record can be");
        }
        return match referred_record(header, source, at, found)? {
            (key, false) => Ok(key),
            (_, true) => wrong("a record is marked as one of a list, which it is not"),
        };
    }
    add_place(&mut found.list_ref_places, at);
    let mut list = List::read(source, header.log, header.lists, at)?;
    let mut first: Option<Vec<u8>> = None;
    while let Some(place) = list.next(source)? {
        let is_in_log = place < header.log.end();
        let (key, is_listed) = referred_record(header, source, place, found)?;
        if is_listed != (is_in_log && !list.in_log) || (list.in_log && !is_in_log) {
            return wrong("a scan would meet a record of this list twice, or not at all");
        }
        match &first {
            None => first = Some(key),
            Some(first) if *first == key => {}
            Some(_) => return wrong("a list holds records of several keys"),
        }
    }
    first.map_or_else(|| wrong("a reference leads to where no record can be"), Ok)
}

/// The key of the record at `place`, and whether it is marked as one of a list.
fn referred_record<S: Source>(
    header: &Header,
    source: &S,
    place: u64,
    found: &mut Found,
) -> Result<(Vec<u8>, bool)> {
    let record = LogRecord::read(source, place)?;
    if record.key_len > MAX_KEY as usize {
        return Err(Error::corrupt(place, "a record has a longer key than there can be"));
    }
    let key = record.key(source)?;
    found.key_bytes += key.len() as u64;
    if place < header.log.end() {
        found.log_refs += 1;
        add_place(&mut found.log_ref_places, place);
    }
    if found.log_refs > found.log_records || found.key_bytes > header.key_bytes {
        let what = "references lead to more records than there are";
        return Err(Error::corrupt(place, what));
    }
    Ok((key.to_vec(), record.is_listed))
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
    if found.log_places != found.log_ref_places {
        let what = "not every record of the log has exactly one reference to it";
        return Err(Error::corrupt(header.log.at, what));
    }
    if found.list_places != found.list_ref_places {
        let what = "not every list has exactly one reference to it";
        return Err(Error::corrupt(header.lists.at, what));
    }
    let (records, key_bytes, value_bytes) = Scanner::new(header, index.shape).count(source)?;
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
