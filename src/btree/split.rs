//! Parting a full leaf in two, straight from page to page.
//!
//! A fifth of the time of random insertions went to full leaves, when all were taken apart into lists
//! and written anew by [`super::items`]. That still does whatever is not the usual case: here nothing
//! may be elsewhere, the new record goes between others, and both halves keep the kind of the page.

use super::format::PAGE;
use super::heap;
use super::items::{begin_heap, heap_room, most_cut, set_head, shape, start};
use super::leaf::{DAMAGED, Uniform, key_of};
use super::page::{
    Bytes, HEAD, Kind, MAX_PREFIX, at, bytes_of, common, count, head, heads, kind, prefix,
    set_short, short,
};
use super::probe::Probe;
use super::record::{
    Elsewhere, KeyToStore, Record, Tail, Value, ValueToStore, put_lengths, record_bytes,
};
use super::tag::Tagged;
use super::values::Pack;
use crate::bytes::{copy_short, le32};
use std::ops::Range;

type Checked<T> = Result<T, &'static str>;

/// Most records that a leaf with a heap can have: each takes its head and where it is.
const MOST: usize = (PAGE - at::HEADS) / (HEAD + 2);

/// How a leaf is parted.
#[derive(Debug)]
pub(super) struct Plan {
    /// So many of its records stay.
    middle: usize,
    /// Whether the new record goes to those.
    pub stays: bool,
    /// The number of the new record in its half.
    pub at: usize,
    /// Bytes that each half cuts off more of its keys than the page.
    cuts: [usize; 2],
    /// The highest key of the first half, and the lowest of the other.
    pub between: [Vec<u8>; 2],
}

impl Plan {
    /// How to part a leaf so that it takes a record as number `i`; `None` if it is not for here.
    pub(super) fn new(
        bytes: &Bytes,
        i: usize,
        key: &[u8],
        value: ValueToStore<'_>,
        elsewhere: &impl Elsewhere,
    ) -> Checked<Option<Plan>> {
        let count = count(bytes);
        let probe = Probe::new(key);
        let Ok(cut) = probe.cut(bytes) else { return Ok(None) };
        // What is put at an edge comes in order, and pages are to be full then.
        if i == 0 || i >= count || count < 4 || Pack::of(bytes) != Pack::default() {
            return Ok(None);
        }
        let key_to_store = KeyToStore { rest: probe.rest(cut), far: None };
        let middle = match (kind(bytes), value) {
            (Some(Kind::Leaf), ValueToStore::Near(_)) => {
                middle_of_heap(bytes, record_bytes(key_to_store, value))?
            }
            (Some(Kind::Uniform), ValueToStore::Near(value)) => {
                let uniform = Uniform::of(bytes);
                let is_same =
                    (uniform.rest, uniform.value_bytes()) == (key_to_store.rest.len(), value.len());
                (is_same && !uniform.is_far).then_some(count / 2)
            }
            _ => None,
        };
        let Some(middle) = middle else { return Ok(None) };
        let stays = i < middle;
        let stored = |i: usize| {
            let mut key = Vec::new();
            key_of(bytes, i, elsewhere, &mut key).map(|_| key)
        };
        let first = stored(0)?;
        let below = stored(middle - 1)?;
        let above = if i == middle { key.to_vec() } else { stored(middle)? };
        let last = stored(count - 1)?;
        let cut_of = |low: &[u8], high: &[u8]| {
            let is_uniform = kind(bytes) == Some(Kind::Uniform);
            let most = if is_uniform { most_cut(low, high) } else { MAX_PREFIX };
            common(low, high).min(MAX_PREFIX).min(most).checked_sub(cut)
        };
        // What was the reason for a short prefix may be gone, and all fit in a page without it.
        if cut_of(&first, &last) != Some(0) {
            return Ok(None);
        }
        let (Some(left), Some(right)) = (cut_of(&first, &below), cut_of(&above, &last)) else {
            return Ok(None);
        };
        let at = if stays { i } else { i - middle };
        Ok(Some(Plan { middle, stays, at, cuts: [left, right], between: [below, above] }))
    }

    /// Writes the half of a page that stays. The birth stays as it is.
    pub(super) fn write_left(&self, old: &Bytes, new: &mut Bytes) -> Checked<()> {
        write(old, 0..self.middle, self.cuts[0], &self.between[0], new)
    }

    /// Writes the other half.
    pub(super) fn write_right(&self, old: &Bytes, new: &mut Bytes) -> Checked<()> {
        write(old, self.middle..count(old), self.cuts[1], &self.between[1], new)
    }
}

/// The record that begins the second half of a heap, by bytes; `None` if it is not for here: not full,
/// of one size in a half, or something of it is elsewhere.
fn middle_of_heap(bytes: &Bytes, new: usize) -> Checked<Option<usize>> {
    let count = count(bytes);
    let live = super::leaf::used(bytes);
    if live + HEAD + 2 + new <= PAGE {
        return Ok(None);
    }
    let fixed = at::HEADS + short(bytes, at::PREFIX);
    let half = live.saturating_sub(fixed) / 2;
    let (mut middle, mut sum, mut left) = (0, 0, 0);
    // Of records of a single size others make a uniform leaf.
    let (mut before, mut differs) = ([None; 2], [false; 2]);
    for i in 0..count {
        let record = heap::record(bytes, i)?;
        let (Tail::Near(_), Value::Near(value)) = (record.tail, record.value) else {
            return Ok(None);
        };
        let size = HEAD + 2 + record.size;
        sum += size;
        if sum <= half || middle == 0 {
            (middle, left) = (i + 1, sum);
        }
        let (part, shape) = (usize::from(i >= middle), (record.rest, value.len()));
        differs[part] |= before[part].replace(shape).is_some_and(|before| before != shape);
    }
    // A longer prefix takes some bytes more where keys have nothing behind their heads.
    let larger = fixed + left.max(sum - left) + HEAD + 2 + new + 2 * HEAD;
    let is_for_here = differs == [true; 2] && middle < count && larger <= PAGE;
    Ok(is_for_here.then_some(middle))
}

/// Writes some records of a leaf as another of its kind, whose keys begin with what `key` begins with and
/// `cut` bytes more are cut off of.
fn write(
    old: &Bytes,
    numbers: Range<usize>,
    cut: usize,
    key: &[u8],
    new: &mut Bytes,
) -> Checked<()> {
    let before = prefix(old)?.len();
    let prefix = key.get(..before + cut).ok_or(DAMAGED)?;
    start(new, 0, numbers.len(), prefix);
    if kind(old) == Some(Kind::Uniform) {
        write_uniform(old, numbers, cut, before, prefix.len(), new)
    } else {
        write_heap(old, numbers, cut, prefix.len(), new)
    }
}

fn write_uniform(
    old: &Bytes,
    numbers: Range<usize>,
    cut: usize,
    before: usize,
    prefix: usize,
    new: &mut Bytes,
) -> Checked<()> {
    let uniform = Uniform::of(old);
    let (value, key) = (uniform.value_bytes(), before + uniform.rest);
    let mut place = shape(new, prefix, key, value, false);
    let tail = (key - prefix).saturating_sub(HEAD);
    let gone = uniform.tail.checked_sub(tail).ok_or(DAMAGED)?;
    let heads = heads(old)?;
    for (n, i) in numbers.enumerate() {
        let from = uniform.from + i * uniform.stride();
        let record = old.get(from..from + uniform.stride()).ok_or(DAMAGED)?;
        let (old_tail, stored) = (&record[..uniform.tail], &record[gone..]);
        let head = head_behind(bytes_of(head(heads, i)), old_tail, uniform.rest, cut);
        set_head(new, n, &head);
        copy_short(new.get_mut(place..place + stored.len()).ok_or(DAMAGED)?, stored);
        place += stored.len();
    }
    Ok(())
}

fn write_heap(
    old: &Bytes,
    numbers: Range<usize>,
    cut: usize,
    prefix: usize,
    new: &mut Bytes,
) -> Checked<()> {
    let (heads, count) = (heads(old)?, numbers.len());
    let mut offsets = [0; MOST];
    let mut heap = PAGE - prefix;
    for (n, i) in numbers.enumerate() {
        let (place, record) = heap::located(old, i)?;
        let Record { rest, tail: Tail::Near(tail), value: Value::Near(value), .. } = record else {
            return Err(DAMAGED);
        };
        let left = rest.checked_sub(cut).ok_or(DAMAGED)?;
        // What comes after the head, and the value, are one behind the other here as there.
        let gone = tail.len() - left.saturating_sub(HEAD).min(tail.len());
        let from = place + record.tail_at;
        let stored = &old[from + gone..from + tail.len() + value.len()];
        // Records that lie in each other, in a damaged page, are more than there is room for.
        let lowest = at::HEADS + (HEAD + 2) * count + stored.len() + 6;
        if heap < lowest || n >= MOST {
            return Err(DAMAGED);
        }
        set_head(new, n, &head_behind(bytes_of(head(heads, i)), tail, rest, cut));
        heap -= stored.len();
        copy_short(&mut new[heap..heap + stored.len()], stored);
        heap = put_lengths(new, heap, left, value.len());
        offsets[n] = heap | heap::tag_at(old, i);
    }
    let size = at::HEADS + (HEAD + 2) * count + PAGE - heap;
    let room = heap_room(prefix, count, size);
    begin_heap(new, room, Tagged::of(old));
    for (n, offset) in offsets[..count].iter().enumerate() {
        let place = heap::offset_at(new, n);
        set_short(new, place, *offset);
    }
    set_short(new, at::HEAP, heap);
    Ok(())
}

/// The head of what is left of a key behind `cut` bytes, of which `rest` bytes were left: its head, and
/// the tail after that.
#[inline(always)]
fn head_behind(head: [u8; HEAD], tail: &[u8], rest: usize, cut: usize) -> [u8; HEAD] {
    match cut {
        0 => head,
        1..HEAD if tail.len() >= HEAD => {
            let both =
                u64::from(u32::from_le_bytes(head)) | u64::from(le32(tail, 0).unwrap_or(0)) << 32;
            ((both >> (8 * cut)) as u32).to_le_bytes()
        }
        _ if cut >= HEAD && tail.len() >= cut => {
            *tail[cut - HEAD..].first_chunk().unwrap_or(&[0; HEAD])
        }
        _ => {
            let byte = |i: usize| match i {
                0..HEAD if i < rest => head[i],
                _ => i.checked_sub(HEAD).and_then(|i| tail.get(i)).copied().unwrap_or(0),
            };
            [byte(cut), byte(cut + 1), byte(cut + 2), byte(cut + 3)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::items::Items;
    use super::super::page::{Place, is_head_of};
    use super::super::random::Rng;
    use super::super::record::Nowhere;
    use super::super::{leaf, places};
    use super::*;

    fn contents(bytes: &Bytes) -> Vec<(Vec<u8>, Vec<u8>)> {
        places::check(bytes).unwrap();
        let record = |i| {
            let mut key = Vec::new();
            key_of(bytes, i, &Nowhere, &mut key).unwrap();
            assert_eq!(is_head_of(bytes, i, &key), Ok(true));
            assert_eq!(leaf::find(bytes, &Probe::new(&key), &Nowhere), Ok(Place::Found(i)));
            assert_eq!(leaf::find_key(bytes, &Probe::new(&key), &Nowhere), Ok(Some(i)));
            assert!(leaf::is_tag_of(bytes, i, &key));
            let Value::Near(value) = leaf::value(bytes, i).unwrap() else { panic!() };
            (key, value.to_vec())
        };
        (0..count(bytes)).map(record).collect()
    }

    /// Leaves of keys of some shape are filled until they are parted.
    #[test]
    fn both_halves_have_what_the_leaf_had() {
        type Shape = fn(&mut Rng) -> Vec<u8>;
        let shapes: [(Shape, u64); 6] = [
            (|random| format!("{:019}", random.below(1 << 40)).into_bytes(), 1),
            (|random| format!("{:08}", random.below(100_000_000)).into_bytes(), 0),
            (|random| random.below(1 << 50).to_string().into_bytes(), 9),
            (
                |random| {
                    format!("/usr/lib/{}", "x/".repeat(random.below(60) as usize)).into_bytes()
                },
                30,
            ),
            (|random| (0..random.below(7)).map(|_| random.below(3) as u8).collect(), 12),
            (|random| vec![random.below(2) as u8; random.below(400) as usize], 500),
        ];
        let mut parted = [0; 6];
        for (n, (shape, longest)) in shapes.iter().enumerate() {
            for seed in 0..40 {
                let mut random = Rng::new(seed);
                let tagged = Tagged(seed % 4 > 0);
                let mut items = Items::default();
                let first = ValueToStore::Near(&[0; 9][..if *longest == 0 { 9 } else { 3 }]);
                items.insert(0, &shape(&mut random), None, first);
                let (mut bytes, mut scratch) = ([0; PAGE], Vec::new());
                items.write_leaf(0, 1, tagged, &mut bytes);
                for _ in 0..3000 {
                    let key = shape(&mut random);
                    // Uniform leaves, too, whose values are of one length.
                    let len = if *longest == 0 { 9 } else { random.below(*longest) as usize };
                    let bytes_of_value: Vec<u8> =
                        (0..len).map(|_| random.below(256) as u8).collect();
                    let value = ValueToStore::Near(&bytes_of_value);
                    let place = leaf::find(&bytes, &Probe::new(&key), &Nowhere).unwrap();
                    let Place::Missing(i) = place else { continue };
                    let found = leaf::find_key(&bytes, &Probe::new(&key), &Nowhere);
                    assert_eq!(found, Ok(None));
                    if leaf::insert(&mut bytes, i, &key, None, value, &mut scratch).unwrap() {
                        continue;
                    }
                    let mut all = contents(&bytes);
                    let plan = Plan::new(&bytes, i, &key, value, &Nowhere).unwrap();
                    let Some(plan) = plan else {
                        // As a list: more than a page takes is left out.
                        items.clear();
                        items.take(&bytes, &[], None, &Nowhere).unwrap();
                        items.insert(i, &key, None, value);
                        let to = items.divide(false, None).get(1).copied().unwrap_or(items.len());
                        items.write_leaf(0, to, tagged, &mut bytes);
                        continue;
                    };
                    parted[n] += 1;
                    let (mut left, mut right) = ([9; PAGE], [9; PAGE]);
                    plan.write_left(&bytes, &mut left).unwrap();
                    plan.write_right(&bytes, &mut right).unwrap();
                    let half = if plan.stays { &mut left } else { &mut right };
                    assert!(leaf::insert(half, plan.at, &key, None, value, &mut scratch).unwrap());
                    let (left_has, right_has) = (contents(&left), contents(&right));
                    assert_eq!([&left_has[..], &right_has[..]].concat(), {
                        all.insert(i, (key, bytes_of_value.clone()));
                        all
                    });
                    assert_eq!(left_has.last().unwrap().0, plan.between[0]);
                    assert_eq!(right_has[0].0, plan.between[1]);
                    bytes = if random.below(2) == 0 { left } else { right };
                }
            }
        }
        assert!(parted.iter().all(|parted| *parted > 20), "{parted:?}");
    }
}
