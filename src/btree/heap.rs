//! Leaves whose records have any size: behind the heads stands for each record where it is in the
//! heap, which grows from the prefix at the end of the page towards the heads.
//!
//! A record that is taken out, or that became too long for its place, leaves bytes that nobody refers
//! to: they are counted, and when a record fits in the page but not before the heap, the page is
//! written together, as it is (some 200 ns; that by [`super::items`] takes two microseconds, and made
//! an update by a value of another length five times as long). So a leaf whose records have come to be
//! of one size stays as it is until it is parted, joined or moved.

use super::format::PAGE;
use super::leaf::{DAMAGED, used};
use super::page::{Bytes, HEAD, at, count, set_short, shift, short};
use super::record::{
    self, Elsewhere, FAR_BYTES, Far, KeyToStore, MIDDLE, Record, SHORT, Value, ValueToStore,
};
use super::tag;
use crate::os::source::prefetch;

type Checked<T> = Result<T, &'static str>;

/// Bytes in the arrays for a record: its head, and where it is.
const IN_ARRAYS: usize = HEAD + 2;

/// Where stands where record number `i` is.
#[inline(always)]
pub(super) fn offset_at(bytes: &Bytes, i: usize) -> usize {
    at::HEADS + HEAD * short(bytes, at::ROOM) + 2 * i
}

/// Where record number `i` is, if its page is not damaged.
#[inline(always)]
pub(super) fn place_of(bytes: &Bytes, i: usize) -> Option<usize> {
    let at = offset_at(bytes, i);
    let offset = bytes.get(at..at + 2)?.first_chunk()?;
    Some(tag::place(usize::from(u16::from_le_bytes(*offset))))
}

/// The tag of record number `i`; none if the leaf has none.
#[inline(always)]
pub(super) fn tag_at(bytes: &Bytes, i: usize) -> usize {
    tag::beside(short(bytes, offset_at(bytes, i)))
}

/// The record with this number, and where it is.
#[inline(always)]
pub(super) fn located(bytes: &Bytes, i: usize) -> Checked<(usize, Record<'_>)> {
    let place = place_of(bytes, i).ok_or(DAMAGED)?;
    Ok((place, bytes.get(place..).and_then(record::decode).ok_or(DAMAGED)?))
}

/// The record with this number.
#[inline(always)]
pub(super) fn record(bytes: &Bytes, i: usize) -> Checked<Record<'_>> {
    Ok(located(bytes, i)?.1)
}

/// The same if it is one of [`record::decode_short`].
#[inline(always)]
pub(super) fn short_record(bytes: &Bytes, i: usize) -> Option<(usize, &[u8; SHORT], &[u8])> {
    record::decode_short(bytes.get(place_of(bytes, i)?..)?)
}

/// Whether a length of record number `i` takes more than a byte.
#[inline(always)]
pub(super) fn has_long_lengths(bytes: &Bytes, i: usize) -> bool {
    let place = place_of(bytes, i).unwrap_or(PAGE);
    bytes.get(place..place + 2).is_none_or(|lengths| (lengths[0] | lengths[1]) & 0x80 != 0)
}

/// The same if it is one of [`record::decode_middle`].
#[inline(always)]
pub(super) fn middle_record(bytes: &Bytes, i: usize) -> Option<(usize, &[u8; MIDDLE], &[u8])> {
    record::decode_middle(bytes.get(place_of(bytes, i)?..)?)
}

/// Where record number `i` is, and how long.
#[inline(always)]
pub(crate) fn part_of(bytes: &Bytes, i: usize) -> Checked<(usize, usize)> {
    let (place, record) = located(bytes, i)?;
    Ok((place, record.size))
}

/// Asks for the records that a search by halves among so many from `from` on looks at first: each
/// is in a line of memory of its own, and only the one before says which is next.
#[inline(always)]
pub(super) fn prefetch_halves(bytes: &Bytes, from: usize, len: usize) {
    let ask = |i: usize| prefetch(bytes, place_of(bytes, i).unwrap_or(0));
    let half = len / 2;
    ask(from + half);
    if len > 2 {
        ask(from + half / 2);
        ask(from + half + 1 + (len - half - 1) / 2);
    }
    if len > 6 {
        let (low, high) = (from, from + half + 1);
        let (quarter, three) = (half / 2, (len - half - 1) / 2);
        ask(low + quarter / 2);
        ask(low + quarter + 1 + (half - quarter - 1) / 2);
        ask(high + three / 2);
        ask(high + three + 1 + (len - half - 1 - three - 1) / 2);
    }
}

/// Keys that were chosen to have one tag are more than it makes sense to compare one by one.
const MOST_COMPARED: usize = 4;

/// What the tags say of a key.
pub(super) enum Search {
    Found(usize),
    Missing,
    /// Too many keys have the same.
    Open,
}

/// Where the record of a key is among the candidates in a leaf with tags, the first of those with its
/// head and how many there are: `rest` is what is left of it behind the prefix.
///
/// Not part of its callers: lookups that need no tags took some instructions more then.
#[inline(never)]
pub(super) fn find_tagged(
    bytes: &Bytes,
    candidates: (usize, usize),
    key: &[u8],
    rest: &[u8],
    elsewhere: &impl Elsewhere,
) -> Checked<Search> {
    for (compared, i) in numbers_with_tag(bytes, candidates, tag::of_key(key)).enumerate() {
        if compared == MOST_COMPARED {
            return Ok(Search::Open);
        }
        let record = record(bytes, i)?;
        if record::is_same(record.rest, record.tail, rest, key, elsewhere)? {
            return Ok(Search::Found(i));
        }
    }
    Ok(Search::Missing)
}

/// Asks for the records that [`find_tagged`] looks at. The key is hashed again there: batches in which its
/// tag was kept took as long, and those that need none some fifty instructions more a key.
#[inline(never)]
pub(super) fn prefetch_tagged(bytes: &Bytes, candidates: (usize, usize), key: &[u8]) {
    for i in numbers_with_tag(bytes, candidates, tag::of_key(key)).take(MOST_COMPARED) {
        prefetch(bytes, place_of(bytes, i).unwrap_or(0));
    }
}

/// Those of the numbers `from..from + len` whose records have this tag.
#[inline(always)]
fn numbers_with_tag(
    bytes: &Bytes,
    (from, len): (usize, usize),
    tag: usize,
) -> impl Iterator<Item = usize> {
    let behind = from + len;
    (from..behind).step_by(tag::WINDOW).flat_map(move |first| {
        let mut found = tag::with_tag(bytes, offset_at(bytes, first), behind - first, tag);
        std::iter::from_fn(move || {
            let i = (found != 0).then(|| first + found.trailing_zeros() as usize);
            found &= found.wrapping_sub(1);
            i
        })
    })
}

/// Has the key of record number `i`, which is elsewhere, be at another place.
pub(crate) fn move_key(bytes: &mut Bytes, i: usize, far: Far) -> Checked<()> {
    let (place, record) = located(bytes, i)?;
    let place = place + record.tail_at;
    bytes.get_mut(place..place + FAR_BYTES).ok_or(DAMAGED)?.copy_from_slice(&far.encode());
    Ok(())
}

/// Bytes between the arrays and the heap.
pub(super) fn gap(bytes: &Bytes) -> usize {
    let arrays_end = at::HEADS + IN_ARRAYS * short(bytes, at::ROOM);
    // One that is said to begin behind the page is written together.
    let heap = Some(short(bytes, at::HEAP)).filter(|heap| *heap <= PAGE);
    heap.unwrap_or(0).saturating_sub(arrays_end)
}

fn add_waste(bytes: &mut Bytes, more: usize) {
    let waste = short(bytes, at::WASTE) + more;
    set_short(bytes, at::WASTE, waste.min(PAGE));
}

/// Puts the encoded record before all others; where it is.
fn put(bytes: &mut Bytes, encoded: &[u8]) -> Checked<usize> {
    let heap = short(bytes, at::HEAP);
    let offset = heap.checked_sub(encoded.len()).ok_or(DAMAGED)?;
    bytes.get_mut(offset..heap).ok_or(DAMAGED)?.copy_from_slice(encoded);
    set_short(bytes, at::HEAP, offset);
    Ok(offset)
}

/// Puts a record at number `i`, if the page can take it; not its head. `tag`: that of its whole key.
pub(super) fn insert(
    bytes: &mut Bytes,
    i: usize,
    tag: usize,
    key: KeyToStore<'_>,
    value: ValueToStore<'_>,
    scratch: &mut Vec<u8>,
) -> Checked<bool> {
    // How much room the arrays get when they are full, and the heap is not.
    const STEP: usize = 8;
    let (count, room) = (count(bytes), short(bytes, at::ROOM));
    let more = if count == room { STEP } else { 0 };
    let size = record::record_bytes(key, value);
    if size + IN_ARRAYS * more <= gap(bytes) {
        if more > 0 {
            let from = offset_at(bytes, 0);
            shift(bytes, from, 2 * count, from + HEAD * more);
            set_short(bytes, at::ROOM, room + more);
        }
    } else if !write_together(bytes, None, size)? {
        return Ok(false);
    }
    scratch.clear();
    record::encode(scratch, key.rest.len(), key.tail(), value);
    let offset = put(bytes, scratch)?;
    let place = offset_at(bytes, i);
    shift(bytes, place, 2 * (count - i), place + 2);
    set_short(bytes, place, offset | tag);
    Ok(true)
}

/// Gives record number `i`, whose value is not elsewhere, a value of any length, if the page can take
/// that.
pub(super) fn replace(
    bytes: &mut Bytes,
    i: usize,
    new: ValueToStore<'_>,
    scratch: &mut Vec<u8>,
) -> Checked<bool> {
    let (place, Record { rest, tail, value, size: old, .. }) = located(bytes, i)?;
    let tag = tag_at(bytes, i);
    debug_assert!(matches!(value, Value::Near(_)));
    scratch.clear();
    record::encode(scratch, rest, tail, new);
    let size = scratch.len();
    if size <= old {
        bytes.get_mut(place..place + size).ok_or(DAMAGED)?.copy_from_slice(scratch);
        add_waste(bytes, old - size);
        return Ok(true);
    }
    if size <= gap(bytes) {
        add_waste(bytes, old);
    } else if !write_together(bytes, Some(i), size)? {
        return Ok(false);
    }
    let offset = put(bytes, scratch)?;
    let place = offset_at(bytes, i);
    set_short(bytes, place, offset | tag);
    Ok(true)
}

/// Takes record number `i` out; not its head.
pub(super) fn remove(bytes: &mut Bytes, i: usize) -> Checked<()> {
    let (_, size) = part_of(bytes, i)?;
    add_waste(bytes, size);
    let (place, behind) = (offset_at(bytes, i), count(bytes) - i - 1);
    shift(bytes, place + 2, 2 * behind, place);
    Ok(())
}

/// Writes the records one behind the other, so that there is room for `size` bytes more: of one
/// record more, or of number `old`, which is left out. Whether there is as much; if not, the page is
/// as it was, but for an error.
fn write_together(bytes: &mut Bytes, old: Option<usize>, size: usize) -> Checked<bool> {
    let count = count(bytes);
    let (all, left_out) = match old {
        None => (count + 1, 0),
        Some(i) => (count, IN_ARRAYS + part_of(bytes, i)?.1),
    };
    let needed = (used(bytes) + IN_ARRAYS + size).saturating_sub(left_out);
    let Some(spare) = PAGE.checked_sub(needed) else { return Ok(false) };
    let before = *bytes;
    let prefix = short(&before, at::PREFIX);
    // Of what is spare, as much for the arrays as records of the same size would take there.
    let each = needed.saturating_sub(at::HEADS + prefix) / all;
    let room = all + spare / each.max(IN_ARRAYS + 1);
    let (offsets, mut heap) = (at::HEADS + HEAD * room, PAGE.saturating_sub(prefix));
    let lowest = offsets + 2 * room + size;
    for i in (0..count).filter(|i| Some(*i) != old) {
        let (place, len) = part_of(&before, i)?;
        // The page counted what it uses wrongly.
        if heap < lowest + len {
            *bytes = before;
            return Ok(false);
        }
        heap -= len;
        bytes[heap..heap + len].copy_from_slice(&before[place..place + len]);
        set_short(bytes, offsets + 2 * i, heap | tag_at(&before, i));
    }
    if heap < lowest {
        *bytes = before;
        return Ok(false);
    }
    set_short(bytes, at::ROOM, room);
    set_short(bytes, at::HEAP, heap);
    set_short(bytes, at::WASTE, 0);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::items::Items;
    use super::super::page::prefix;
    use super::super::probe::Probe;
    use super::super::random::Rng;
    use super::super::record::Nowhere;
    use super::super::tag::Tagged;
    use super::super::{leaf, places};
    use super::*;

    type Model = Vec<(Vec<u8>, Vec<u8>)>;

    /// What a page has, which must be in order in its heap.
    fn contents(bytes: &Bytes) -> Model {
        places::check(bytes).unwrap();
        let (mut all, mut key) = (Vec::new(), Vec::new());
        let mut live = 0;
        for i in 0..count(bytes) {
            leaf::key_of(bytes, i, &Nowhere, &mut key).unwrap();
            assert!(leaf::is_tag_of(bytes, i, &key));
            assert_eq!(leaf::find_key(bytes, &Probe::new(&key), &Nowhere), Ok(Some(i)));
            let Value::Near(value) = leaf::value(bytes, i).unwrap() else { panic!() };
            all.push((key.clone(), value.to_vec()));
            live += part_of(bytes, i).unwrap().1;
        }
        let heap = PAGE - short(bytes, at::PREFIX) - short(bytes, at::HEAP);
        assert_eq!(live + short(bytes, at::WASTE), heap, "the bytes that nobody refers to");
        all
    }

    fn begun(records: &Model) -> Bytes {
        let (mut items, mut bytes) = (Items::default(), [0; PAGE]);
        for (i, (key, value)) in records.iter().enumerate() {
            items.insert(i, key, None, ValueToStore::Near(value));
        }
        items.write_leaf(0, items.len(), Tagged(true), &mut bytes);
        bytes
    }

    #[test]
    fn a_page_takes_all_that_fits_in_it() {
        for seed in 0..15 {
            let mut random = Rng::new(seed);
            let key =
                |n: u32| format!("/usr/lib/{n:03}/{}", "x".repeat(n as usize % 7)).into_bytes();
            let longest = [8, 40, 200][seed as usize % 3];
            let mut model: Model = vec![(key(0), vec![1]), (key(999), vec![2, 3])];
            let mut bytes = begun(&model);
            assert_eq!(prefix(&bytes).unwrap(), b"/usr/lib/");
            let (mut scratch, mut refused) = (Vec::new(), 0);
            for _ in 0..1500 {
                let value = vec![random.below(256) as u8; random.below(longest) as usize];
                let (key, new) = (key(1 + random.below(199) as u32), ValueToStore::Near(&value));
                let used_before = used(&bytes);
                match model.binary_search_by(|(found, _)| found.cmp(&key)) {
                    Ok(i) if random.below(3) == 0 => {
                        leaf::remove(&mut bytes, i).unwrap();
                        model.remove(i);
                    }
                    Ok(i) => {
                        let old = model[i].1.len();
                        if leaf::replace(&mut bytes, i, new, &mut scratch).unwrap() {
                            model[i].1 = value;
                        } else {
                            refused += 1;
                            assert!(used_before + value.len() + 1 > PAGE + old, "seed {seed}");
                        }
                    }
                    Err(i) => {
                        let size = key.len() + value.len();
                        if leaf::insert(&mut bytes, i, &key, None, new, &mut scratch).unwrap() {
                            model.insert(i, (key, value));
                        } else {
                            refused += 1;
                            assert!(used_before + size > PAGE, "seed {seed}");
                        }
                    }
                }
                assert_eq!(contents(&bytes), model, "seed {seed}");
            }
            assert!(longest == 8 || refused > 0, "seed {seed}: the page was never full");
        }
    }

    /// Keys with one head, as many of them with one tag as fit, and others of that tag that are not there.
    #[test]
    fn keys_with_one_tag_are_found() {
        let key = |n: u32| format!("samehead{}{n}", "x".repeat(n as usize % 4)).into_bytes();
        for tags in [1, 16] {
            let wanted = |key: &Vec<u8>| tag::of_key(key) < tags << 12;
            let mut keys: Vec<Vec<u8>> = (0..).map(key).filter(wanted).take(160).collect();
            keys.sort();
            let (records, absent): (Vec<_>, Vec<_>) =
                keys.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
            let mut model: Model = vec![(b"a".to_vec(), vec![1])];
            model.extend(records.into_iter().map(|(i, key)| (key, vec![2; i % 3])));
            let bytes = begun(&model);
            assert_eq!(contents(&bytes), model);
            for (_, key) in absent {
                assert_eq!(leaf::find_key(&bytes, &Probe::new(&key), &Nowhere), Ok(None));
            }
        }
    }

    #[test]
    fn a_page_that_counts_wrongly_stays_as_it_is() {
        let records: Model =
            (0..75u8).map(|i| (vec![b'a', i], vec![i; 40 + usize::from(i % 2)])).collect();
        let mut bytes = begun(&records);
        set_short(&mut bytes, at::WASTE, 3000);
        let (before, long) = (bytes, [7; 500]);
        let new = ValueToStore::Near(&long);
        assert_eq!(leaf::insert(&mut bytes, 1, b"a\0a", None, new, &mut Vec::new()), Ok(false));
        assert!(bytes == before);
        assert_eq!(leaf::replace(&mut bytes, 5, new, &mut Vec::new()), Ok(false));
        assert!(bytes == before);
        // One that says so with a single record, which is to get another value.
        let mut bytes = begun(&vec![(vec![b'a'; 300], vec![1; 400]), (vec![b'b'], vec![2])]);
        leaf::remove(&mut bytes, 1).unwrap();
        set_short(&mut bytes, at::WASTE, PAGE);
        set_short(&mut bytes, at::HEAP, 60);
        let before = bytes;
        assert_eq!(leaf::replace(&mut bytes, 0, new, &mut Vec::new()), Ok(true));
        assert_eq!(contents(&bytes), [(vec![b'a'; 300], long.to_vec())]);
        let mut bytes = before;
        set_short(&mut bytes, at::PREFIX, PAGE - 400);
        let _ = leaf::replace(&mut bytes, 0, new, &mut Vec::new());
        let mut bytes = begun(&records);
        set_short(&mut bytes, at::WASTE, 3000);
        // One that says that its records are where they cannot be.
        let place = offset_at(&bytes, 3);
        set_short(&mut bytes, place, PAGE - 1);
        assert!(leaf::insert(&mut bytes, 1, b"a\0a", None, new, &mut Vec::new()).is_err());
    }
}
