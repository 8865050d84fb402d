//! What a change of one record writes over in its leaf, and how that is noted to undo it.
//!
//! Nothing refers to the bytes between the arrays and the heap, so that those are not noted. A change that would write the
//! whole leaf anew, part it, join it, or that has something elsewhere is none for this.
//!
//! A note is a page: the number of the leaf, how many parts there are, where in the leaf each begins and how long it is, and
//! behind that what they hold.

use super::format::PAGE;
use super::heap;
use super::leaf::{self, Uniform};
use super::page::{Bytes, HEAD, Kind, Link, Place, at, count, kind, set_short, short};
use super::probe::Probe;
use super::record::{
    KeyToStore, NEAR_KEY, NEAR_VALUE, Tail, Value, ValueToStore, length_bytes, number_bytes,
    record_bytes,
};
use super::remove::SPARSE;
use crate::bytes::le64;
use std::ops::Range;

type Checked<T> = Result<T, &'static str>;

/// One change of one record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    Put(&'a [u8], &'a [u8]),
    Remove(&'a [u8]),
}

impl<'a> Change<'a> {
    pub(crate) fn key(&self) -> &'a [u8] {
        match self {
            Change::Put(key, _) | Change::Remove(key) => key,
        }
    }
}

/// Most parts that a change writes over: the page's head, two arrays, or one and a record.
const MOST: usize = 3;
/// Offsets in a note.
const LEAF: usize = 8;
const COUNT: usize = 16;
const RANGES: usize = 18;
const CONTENT: usize = RANGES + 4 * MOST;

/// Where in a page a part begins, and what it holds.
pub(super) type Part<'n> = (usize, &'n [u8]);

/// Parts of a page.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    ranges: [(usize, usize); MOST],
    count: usize,
}

impl Parts {
    fn of(ranges: &[Range<usize>]) -> Option<Parts> {
        let mut parts = Parts { count: ranges.len(), ..Parts::default() };
        for (part, range) in parts.ranges.iter_mut().zip(ranges) {
            *part = (range.start, range.len());
        }
        let is_inside = ranges.iter().all(|range| range.start >= at::KIND && range.end <= PAGE);
        let fits = ranges.iter().map(Range::len).sum::<usize>() <= PAGE - CONTENT;
        (is_inside && fits).then_some(parts)
    }

    /// Notes what these parts of a leaf hold.
    #[inline]
    pub(super) fn write(&self, leaf: u64, bytes: &Bytes, note: &mut Bytes) {
        note[LEAF..LEAF + 8].copy_from_slice(&leaf.to_le_bytes());
        set_short(note, COUNT, self.count);
        let mut place = CONTENT;
        for (n, (from, len)) in self.ranges[..self.count].iter().enumerate() {
            set_short(note, RANGES + 4 * n, *from);
            set_short(note, RANGES + 4 * n + 2, *len);
            note[place..place + len].copy_from_slice(&bytes[*from..from + len]);
            place += len;
        }
    }

    /// What was noted: the number of the leaf, and what it had from where on.
    pub(super) fn read(note: &Bytes) -> Option<(u64, Vec<Part<'_>>)> {
        let mut rest = &note[CONTENT..];
        let mut parts = Vec::new();
        for n in 0..short(note, COUNT) {
            if n >= MOST {
                return None;
            }
            let (from, len) = (short(note, RANGES + 4 * n), short(note, RANGES + 4 * n + 2));
            let (part, behind) = rest.split_at_checked(len)?;
            if from < at::KIND || from + len > PAGE {
                return None;
            }
            parts.push((from, part));
            rest = behind;
        }
        Some((le64(note, LEAF)?, parts))
    }
}

/// What a change writes over in its leaf, where `place` is what was found of its key; `None` if it is not one that the leaf
/// can take as it is.
#[inline]
pub(super) fn written_over(
    bytes: &Bytes,
    place: Place,
    change: Change<'_>,
) -> Checked<Option<Parts>> {
    if count(bytes) > short(bytes, at::ROOM) {
        return Err("a count that is over the page's room");
    }
    match (change, place) {
        (Change::Put(key, value), _) if key.len() > NEAR_KEY || value.len() > NEAR_VALUE => {
            Ok(None)
        }
        (Change::Put(key, value), Place::Missing(i)) => Ok(by_insertion(bytes, i, key, value)),
        (Change::Put(_, value), Place::Found(i)) => by_replacement(bytes, i, value),
        (Change::Remove(_), Place::Found(i)) => by_removal(bytes, i),
        (Change::Remove(_), Place::Missing(_)) => Ok(None),
    }
}

fn is_uniform(bytes: &Bytes) -> bool {
    kind(bytes) == Some(Kind::Uniform)
}

const PAGE_HEAD: Range<usize> = at::KIND..at::HEADS;

/// The head, and what the arrays hold from record number `i` to before number `end`.
fn arrays(bytes: &Bytes, i: usize, end: usize) -> Option<Parts> {
    let heads = at::HEADS + HEAD * i..at::HEADS + HEAD * end;
    let others = if is_uniform(bytes) {
        let uniform = Uniform::of(bytes);
        uniform.from + uniform.stride() * i..uniform.from + uniform.stride() * end
    } else {
        heap::offset_at(bytes, i)..heap::offset_at(bytes, end)
    };
    Parts::of(&[PAGE_HEAD, heads, others])
}

fn by_insertion(bytes: &Bytes, i: usize, key: &[u8], value: &[u8]) -> Option<Parts> {
    let (probe, count) = (Probe::new(key), count(bytes));
    let rest = probe.rest(probe.cut(bytes).ok()?);
    // The page above is to know then that the heads take another line of memory.
    if i > count || count >= short(bytes, at::ROOM) || Link::is_new_line(count + 1) {
        return None;
    }
    let fits = if is_uniform(bytes) {
        let uniform = Uniform::of(bytes);
        !uniform.is_far && (rest.len(), value.len()) == (uniform.rest, uniform.value_bytes())
    } else {
        let key = KeyToStore { rest, far: None };
        record_bytes(key, ValueToStore::Near(value)) <= heap::gap(bytes)
    };
    if fits { arrays(bytes, i, count + 1) } else { None }
}

fn by_replacement(bytes: &Bytes, i: usize, value: &[u8]) -> Checked<Option<Parts>> {
    let Value::Near(old) = leaf::value(bytes, i)? else { return Ok(None) };
    if old.len() == value.len() {
        let from = leaf::offset_in(bytes, old);
        return Ok(Parts::of(std::slice::from_ref(&(from..from + old.len()))));
    }
    if is_uniform(bytes) {
        return Ok(None);
    }
    let (place, record) = heap::located(bytes, i)?;
    let Tail::Near(tail) = record.tail else { return Ok(None) };
    let lengths = length_bytes(record.rest) + number_bytes(value.len() as u32);
    let size = lengths + tail.len() + value.len();
    let at = heap::offset_at(bytes, i);
    Ok(if size <= record.size {
        Parts::of(&[PAGE_HEAD, place..place + size])
    } else if size <= heap::gap(bytes) {
        Parts::of(&[PAGE_HEAD, at..at + 2])
    } else {
        None
    })
}

fn by_removal(bytes: &Bytes, i: usize) -> Checked<Option<Parts>> {
    let count = count(bytes);
    let size = if is_uniform(bytes) {
        let uniform = Uniform::of(bytes);
        if uniform.is_far { None } else { Some(HEAD + uniform.stride()) }
    } else {
        let record = heap::record(bytes, i)?;
        let is_near = matches!((record.tail, record.value), (Tail::Near(_), Value::Near(_)));
        is_near.then_some(HEAD + 2 + record.size)
    };
    // One in which little is left is joined with another.
    let stays = size.is_some_and(|size| count > 1 && leaf::used(bytes) >= SPARSE + size);
    Ok(if stays { arrays(bytes, i, count) } else { None })
}

#[cfg(test)]
mod tests {
    use super::super::items::Items;
    use super::super::random::Rng;
    use super::super::record::Nowhere;
    use super::super::tag::Tagged;
    use super::super::{in_place, places};
    use super::*;

    fn contents(bytes: &Bytes) -> Vec<(Vec<u8>, Vec<u8>)> {
        let record = |i| {
            let mut key = Vec::new();
            leaf::key_of(bytes, i, &Nowhere, &mut key).unwrap();
            let Value::Near(value) = leaf::value(bytes, i).unwrap() else { panic!() };
            (key, value.to_vec())
        };
        (0..count(bytes)).map(record).collect()
    }

    fn key(random: &mut Rng, is_short: bool) -> Vec<u8> {
        match is_short {
            true => format!("{:06}", random.below(900)).into_bytes(),
            false => format!("/usr/{}/{}", random.below(30), "x".repeat(random.below(40) as usize))
                .into(),
        }
    }

    /// A leaf with any records, of one size or of many, in which there is more room than it needs.
    fn leaf_of(random: &mut Rng, is_uniform: bool) -> Bytes {
        let mut items = Items::default();
        let mut keys: Vec<Vec<u8>> =
            (0..random.below(70)).map(|_| key(random, is_uniform)).collect();
        keys.extend([key(random, is_uniform), key(random, is_uniform)]);
        keys.sort();
        keys.dedup();
        for (i, key) in keys.iter().enumerate() {
            let len = if is_uniform { 8 } else { random.below(60) as usize };
            items.insert(i, key, None, ValueToStore::Near(&vec![random.below(256) as u8; len]));
        }
        let mut bytes = [7; PAGE];
        let end = items.divide(false, None).get(1).copied().unwrap_or(items.len());
        items.write_leaf(0, end, Tagged(random.below(2) == 0), &mut bytes);
        bytes
    }

    /// Bytes that nothing refers to may be others then.
    fn without_gaps(old: &Bytes) -> Bytes {
        let (mut bytes, count, room) = (*old, count(old), short(old, at::ROOM));
        let mut clear = |from: usize, to: usize| bytes[from..to].fill(0);
        clear(at::HEADS + HEAD * count, at::HEADS + HEAD * room);
        if is_uniform(old) {
            let uniform = Uniform::of(old);
            clear(uniform.from + uniform.stride() * count, PAGE - short(old, at::PREFIX));
        } else {
            clear(heap::offset_at(old, count), heap::offset_at(old, room));
            clear(short(old, at::HEAP) - heap::gap(old), short(old, at::HEAP));
        }
        bytes
    }

    /// Danger: a change writes over something that is not noted, or makes something else of the leaf than it would of
    /// a copy.
    #[test]
    fn what_is_noted_undoes_every_change() {
        let (mut made, mut refused) = ([0; 4], 0);
        for seed in 0..1200 {
            let mut random = Rng::new(seed);
            let is_uniform = seed % 2 == 0;
            let mut bytes = leaf_of(&mut random, is_uniform);
            for _ in 0..20 {
                let key = match random.below(2) {
                    0 => key(&mut random, is_uniform),
                    _ => {
                        let all = contents(&bytes);
                        all[random.below(all.len() as u64) as usize].0.clone()
                    }
                };
                let len = if is_uniform { 8 } else { random.below(80) as usize };
                let value = vec![random.below(256) as u8; len];
                let change = match random.below(3) {
                    0 => Change::Remove(&key),
                    _ => Change::Put(&key, &value),
                };
                let place = leaf::find(&bytes, &Probe::new(&key), &Nowhere).unwrap();
                let Some(parts) = written_over(&bytes, place, change).unwrap() else {
                    refused += 1;
                    continue;
                };
                let (before, mut note) = (bytes, [9; PAGE]);
                parts.write(77, &before, &mut note);
                assert!(in_place::apply(&mut bytes, place, change, &mut Vec::new()).unwrap());
                places::check(&bytes).unwrap();
                let mut wanted = contents(&before);
                let kind = match (change, place) {
                    (Change::Put(key, value), Place::Missing(i)) => {
                        wanted.insert(i, (key.to_vec(), value.to_vec()));
                        0
                    }
                    (Change::Put(_, value), Place::Found(i)) => {
                        wanted[i].1 = value.to_vec();
                        1
                    }
                    (Change::Remove(_), place) => {
                        wanted.remove(place.index());
                        2
                    }
                };
                made[kind] += 1;
                assert_eq!(contents(&bytes), wanted, "seed {seed}");
                // Undone also when only some of it was written.
                let mut undone = bytes;
                for i in 0..PAGE {
                    if random.below(2) == 0 {
                        undone[i] = before[i];
                    }
                }
                let (leaf, noted) = Parts::read(&note).unwrap();
                assert_eq!(leaf, 77);
                for (at, part) in noted {
                    undone[at..at + part.len()].copy_from_slice(part);
                }
                assert_eq!(contents(&undone), contents(&before), "seed {seed}");
                assert_eq!(without_gaps(&undone), without_gaps(&before), "seed {seed}");
                made[3] += 1;
            }
        }
        assert!(made.iter().all(|made| *made > 1000), "{made:?}");
        assert!(refused > 1000, "{refused}");
    }

    #[test]
    fn a_note_that_is_damaged_is_none() {
        for seed in 0..20_000 {
            let mut random = Rng::new(seed);
            let mut note = [0; PAGE];
            note[..40].fill_with(|| random.below(256) as u8);
            set_short(&mut note, COUNT, random.below(5) as usize);
            for i in 0..MOST {
                set_short(&mut note, RANGES + 4 * i, random.below(5000) as usize);
                set_short(&mut note, RANGES + 4 * i + 2, random.below(3000) as usize);
            }
            if let Some((_, parts)) = Parts::read(&note) {
                assert!(parts.iter().all(|(at, part)| *at >= 8 && at + part.len() <= PAGE));
            }
        }
    }
}
