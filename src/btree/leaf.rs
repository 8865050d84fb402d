//! Pages that hold records: looking up, and the changes that one page can take as it is.
//!
//! Two kinds. In a *uniform* leaf all keys have one length and all values have one length: behind
//! the heads lie, in the order of the keys, what comes after each head and the value. In any other
//! leaf, behind the heads lies for each record where it is in the heap.
//!
//! A change that a page cannot take says so: [`super::split`] parts the page then, or
//! [`super::items`] writes it anew, or more than one.

use super::format::{MAX_STORED_KEY, PAGE};
use super::heap::{self, Search};
use super::page::{
    BAD_PREFIX, Bytes, HEAD, Kind, Place, REFERENCES, STRIDE, at, bytes_of, count, head, head_of,
    heads, kind, lower_in, pass, place_in_run, prefix, run, set_short, shift, short,
};
use super::probe::{Cut, Probe};
use super::record::{
    Elsewhere, FAR_BYTES, Far, KeyToStore, Tail, Value, ValueToStore, compare, compare_near,
};
use super::tag::Tagged;
use crate::bytes::append_short;
use crate::os::source::prefetch;
use std::cmp::Ordering;

type Checked<T> = Result<T, &'static str>;

pub(super) const DAMAGED: &str = "a record that leads outside of its page";

/// How the records of a uniform leaf lie.
#[derive(Clone, Copy)]
pub(super) struct Uniform {
    /// Where the first is.
    pub from: usize,
    /// Bytes of a key after its head, and of a value.
    pub tail: usize,
    value: usize,
    /// Bytes of a key after the page's prefix.
    pub rest: usize,
    pub is_far: bool,
}

impl Uniform {
    #[inline(always)]
    pub(super) fn of(bytes: &Bytes) -> Uniform {
        let rest = short(bytes, at::REST);
        Uniform {
            from: at::HEADS + HEAD * short(bytes, at::ROOM),
            tail: rest.saturating_sub(HEAD),
            value: short(bytes, at::VALUE),
            rest,
            is_far: short(bytes, at::FLAGS) & usize::from(REFERENCES) != 0,
        }
    }

    /// Bytes of each value.
    pub(super) fn value_bytes(self) -> usize {
        self.value
    }

    pub(super) fn stride(self) -> usize {
        self.tail + self.value
    }

    #[inline(always)]
    fn tail(self, bytes: &Bytes, i: usize) -> Checked<&[u8]> {
        let from = self.from + i * self.stride();
        bytes.get(from..from + self.tail).ok_or(DAMAGED)
    }

    #[inline(always)]
    fn value(self, bytes: &Bytes, i: usize) -> Checked<Value<'_>> {
        let from = self.from + i * self.stride() + self.tail;
        let value = bytes.get(from..from + self.value).ok_or(DAMAGED)?;
        Ok(if self.is_far {
            Value::Far(Far::decode(value).ok_or(DAMAGED)?)
        } else {
            Value::Near(value)
        })
    }
}

/// A key in a leaf, as far as its prefix and heads at great distances say. It is small, for many are
/// kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Narrow {
    /// The head of what is left of the key.
    wanted: u32,
    /// How much of it is the page's prefix.
    cut: u16,
    /// Whether it begins with that. If not, it is at `from`, and not there.
    has_prefix: bool,
    /// Between which numbers it is, or would be.
    from: u16,
    to: u16,
}

impl Narrow {
    /// Between which numbers of records the search goes on.
    #[inline(always)]
    pub(crate) fn range(&self) -> (usize, usize) {
        (usize::from(self.from), usize::from(self.to))
    }
}

/// Looks where in a leaf a key is, or would be, without looking far.
#[inline(always)]
pub(crate) fn narrow(bytes: &Bytes, probe: &Probe<'_>) -> Checked<Narrow> {
    let heads = heads(bytes)?;
    let cut = match probe.cut(bytes) {
        Ok(cut) => cut,
        Err(Cut::Before) => return Ok(Narrow::default()),
        Err(Cut::Behind) => return Ok(Narrow { from: heads.len() as u16, ..Narrow::default() }),
        Err(Cut::Damaged) => return Err(BAD_PREFIX),
    };
    let wanted = probe.head(cut);
    let (from, to) = match pass::<STRIDE>(heads, wanted) {
        Some((from, _)) => (from, from + STRIDE),
        None => (0, heads.len()),
    };
    // All are less than the bytes of a page.
    let [cut, from, to] = [cut, from, to].map(|n| n as u16);
    Ok(Narrow { wanted, cut, has_prefix: true, from, to })
}

/// Where a key is, or would be.
#[inline(always)]
pub(crate) fn find(bytes: &Bytes, probe: &Probe<'_>, elsewhere: &impl Elsewhere) -> Checked<Place> {
    let narrow = narrow(bytes, probe)?;
    settle(bytes, probe, &narrow, candidates(bytes, &narrow)?, elsewhere)
}

/// Where records begin whose heads are that of the key, or would, and how many there are.
#[inline(always)]
pub(crate) fn candidates(bytes: &Bytes, narrow: &Narrow) -> Checked<(usize, usize)> {
    let (from, to) = narrow.range();
    if !narrow.has_prefix {
        return Ok((from, 0));
    }
    let heads = heads(bytes)?;
    let from = from + lower_in(heads.get(from..to).ok_or(DAMAGED)?, narrow.wanted);
    Ok((from, run(heads, from, narrow.wanted)))
}

/// Asks for the records of the candidates that [`settle_key`] looks at first.
#[inline(always)]
pub(crate) fn prefetch_candidates(bytes: &Bytes, probe: &Probe<'_>, candidates: (usize, usize)) {
    let (from, same) = candidates;
    if has_tags_for(bytes, candidates) {
        heap::prefetch_tagged(bytes, candidates, probe.key);
    } else if same > 1 && kind(bytes) == Some(Kind::Leaf) {
        heap::prefetch_halves(bytes, from, same);
    } else {
        prefetch(bytes, place_of(bytes, from));
    }
}

/// Which of the candidates it is, if any.
#[inline(always)]
pub(crate) fn settle(
    bytes: &Bytes,
    probe: &Probe<'_>,
    narrow: &Narrow,
    (from, same): (usize, usize),
    elsewhere: &impl Elsewhere,
) -> Checked<Place> {
    if same == 0 {
        return Ok(Place::Missing(from));
    }
    let rest = probe.rest(usize::from(narrow.cut));
    if kind(bytes) == Some(Kind::Uniform) {
        let uniform = Uniform::of(bytes);
        if uniform.rest == rest.len() && uniform.tail == 0 {
            return Ok(Place::Found(from));
        }
        place_in_run(from, same, |i| Ok(compare_near(uniform.rest, uniform.tail(bytes, i)?, rest)))
    } else {
        if same > 1 {
            heap::prefetch_halves(bytes, from, same);
        }
        place_in_run(from, same, |i| {
            let record = heap::record(bytes, i)?;
            compare(record.rest, record.tail, rest, probe.key, elsewhere)
        })
    }
}

/// The number of a key's record, if there is one.
#[inline(always)]
pub(crate) fn find_key(
    bytes: &Bytes,
    probe: &Probe<'_>,
    elsewhere: &impl Elsewhere,
) -> Checked<Option<usize>> {
    let narrow = narrow(bytes, probe)?;
    settle_key(bytes, probe, &narrow, candidates(bytes, &narrow)?, elsewhere)
}

/// Which of the candidates is the key's, if any.
#[inline(always)]
pub(crate) fn settle_key(
    bytes: &Bytes,
    probe: &Probe<'_>,
    narrow: &Narrow,
    candidates: (usize, usize),
    elsewhere: &impl Elsewhere,
) -> Checked<Option<usize>> {
    if has_tags_for(bytes, candidates) {
        let rest = probe.rest(usize::from(narrow.cut));
        match heap::find_tagged(bytes, candidates, probe.key, rest, elsewhere)? {
            Search::Found(i) => return Ok(Some(i)),
            Search::Missing => return Ok(None),
            Search::Open => {}
        }
    }
    Ok(match settle(bytes, probe, narrow, candidates, elsewhere)? {
        Place::Found(i) => Some(i),
        Place::Missing(_) => None,
    })
}

/// Whether there are tags, and so many candidates that these save comparisons.
#[inline(always)]
fn has_tags_for(bytes: &Bytes, (_, same): (usize, usize)) -> bool {
    same > 2 && is_tagged(bytes)
}

/// Whether records have tags.
#[inline(always)]
pub(crate) fn is_tagged(bytes: &Bytes) -> bool {
    kind(bytes) == Some(Kind::Leaf) && Tagged::of(bytes).0
}

/// Whether a record has the tag of its key, or none where there are none: else no lookup finds it.
pub(crate) fn is_tag_of(bytes: &Bytes, i: usize, key: &[u8]) -> bool {
    kind(bytes) == Some(Kind::Uniform) || heap::tag_at(bytes, i) == Tagged::of(bytes).of_key(key)
}

/// Whether `key` is behind all keys of the page; not if that has none.
#[inline(always)]
pub(crate) fn is_behind(bytes: &Bytes, key: &[u8], elsewhere: &impl Elsewhere) -> Checked<bool> {
    let Some((last, before)) = heads(bytes)?.split_last() else { return Ok(false) };
    let (probe, last) = (Probe::new(key), u32::from_le_bytes(*last));
    let cut = match probe.cut(bytes) {
        Ok(cut) => cut,
        Err(Cut::Before) => return Ok(false),
        Err(Cut::Behind) => return Ok(true),
        Err(Cut::Damaged) => return Err(BAD_PREFIX),
    };
    match probe.head(cut).cmp(&last) {
        Ordering::Equal => is_behind_record(bytes, before.len(), &probe, cut, elsewhere),
        order => Ok(order.is_gt()),
    }
}

/// Whether a key is behind that of record number `i`, which has the same head.
fn is_behind_record(
    bytes: &Bytes,
    i: usize,
    probe: &Probe<'_>,
    cut: usize,
    elsewhere: &impl Elsewhere,
) -> Checked<bool> {
    let (stored, tail) = key_parts(bytes, i)?;
    Ok(compare(stored, tail, probe.rest(cut), probe.key, elsewhere)?.is_lt())
}

/// How many bytes are left of the key of record number `i`, and what comes after its head.
#[inline(always)]
fn key_parts(bytes: &Bytes, i: usize) -> Checked<(usize, Tail<'_>)> {
    if kind(bytes) == Some(Kind::Uniform) {
        let uniform = Uniform::of(bytes);
        return Ok((uniform.rest, Tail::Near(uniform.tail(bytes, i)?)));
    }
    let record = heap::record(bytes, i)?;
    Ok((record.rest, record.tail))
}

/// The value of record number `i`.
#[inline(always)]
pub(crate) fn value(bytes: &Bytes, i: usize) -> Checked<Value<'_>> {
    if kind(bytes) == Some(Kind::Uniform) {
        Uniform::of(bytes).value(bytes, i)
    } else {
        Ok(heap::record(bytes, i)?.value)
    }
}

/// Whether it has nothing that is elsewhere, as its kind alone says.
pub(crate) fn is_all_near(bytes: &Bytes) -> bool {
    kind(bytes) == Some(Kind::Uniform) && !Uniform::of(bytes).is_far
}

/// Where the key and the value of record number `i` are, if they are not in the page.
pub(crate) fn elsewhere_of(bytes: &Bytes, i: usize) -> Checked<(Option<Far>, Option<Far>)> {
    let far = |value: Value<'_>| if let Value::Far(far) = value { Some(far) } else { None };
    if kind(bytes) == Some(Kind::Uniform) {
        return Ok((None, far(Uniform::of(bytes).value(bytes, i)?)));
    }
    let record = heap::record(bytes, i)?;
    let key = if let Tail::Far(far) = record.tail { Some(far) } else { None };
    Ok((key, far(record.value)))
}

/// Where in the page stands where the record with this number is; or that record, if it needs not be
/// said.
#[inline(always)]
pub(crate) fn offset_of(bytes: &Bytes, i: usize) -> usize {
    if kind(bytes) == Some(Kind::Uniform) { place_of(bytes, i) } else { heap::offset_at(bytes, i) }
}

/// Where the record with this number is in the page, about: to ask for it early.
#[inline(always)]
pub(crate) fn place_of(bytes: &Bytes, i: usize) -> usize {
    if kind(bytes) == Some(Kind::Uniform) {
        let uniform = Uniform::of(bytes);
        uniform.from + i * uniform.stride()
    } else {
        heap::place_of(bytes, i).unwrap_or(0)
    }
}

/// Puts the key of record number `i` in the place of what is in `key`; where the key is if it is not
/// in the page.
#[inline(always)]
pub(crate) fn key_of(
    bytes: &Bytes,
    i: usize,
    elsewhere: &impl Elsewhere,
    key: &mut Vec<u8>,
) -> Checked<Option<Far>> {
    key.clear();
    append_key(bytes, i, elsewhere, key)
}

/// Appends the key of record number `i`; where it is if it is not in the page.
#[inline(always)]
pub(crate) fn append_key(
    bytes: &Bytes,
    i: usize,
    elsewhere: &impl Elsewhere,
    key: &mut Vec<u8>,
) -> Checked<Option<Far>> {
    let (rest, tail) = key_parts(bytes, i)?;
    let head = bytes_of(head(heads(bytes)?, i));
    join(prefix(bytes)?, head, rest, tail, elsewhere, key)
}

/// Appends a key that is put together.
#[inline(always)]
pub(crate) fn join(
    prefix: &[u8],
    head: [u8; HEAD],
    rest: usize,
    tail: Tail<'_>,
    elsewhere: &impl Elsewhere,
    key: &mut Vec<u8>,
) -> Checked<Option<Far>> {
    match tail {
        Tail::Near(tail) => {
            // At once: else it grows with each of the three.
            key.reserve(prefix.len() + HEAD + tail.len());
            key.extend_from_slice(prefix);
            key.extend_from_slice(&head);
            key.truncate(key.len() - HEAD + rest.min(HEAD));
            append_short(key, tail);
            Ok(None)
        }
        Tail::Far(far) => {
            key.extend_from_slice(far_key(far, elsewhere)?);
            Ok(Some(far))
        }
    }
}

/// A key that is not in its page.
pub(super) fn far_key(far: Far, elsewhere: &impl Elsewhere) -> Checked<&[u8]> {
    if far.len as usize > MAX_STORED_KEY {
        return Err("a key that is over its limit");
    }
    elsewhere.far(far)
}

/// Bytes of the page that hold something.
pub(crate) fn used(bytes: &Bytes) -> usize {
    let (count, prefix) = (count(bytes), short(bytes, at::PREFIX));
    if kind(bytes) == Some(Kind::Uniform) {
        at::HEADS + count * (HEAD + Uniform::of(bytes).stride()) + prefix
    } else {
        let heap = PAGE.saturating_sub(prefix + short(bytes, at::HEAP));
        at::HEADS + count * (HEAD + 2) + heap.saturating_sub(short(bytes, at::WASTE)) + prefix
    }
}

/// Puts a record at number `i`, if the page can take it.
pub(crate) fn insert(
    bytes: &mut Bytes,
    i: usize,
    key: &[u8],
    far: Option<Far>,
    value: ValueToStore<'_>,
    scratch: &mut Vec<u8>,
) -> Checked<bool> {
    let probe = Probe::new(key);
    let Ok(cut) = probe.cut(bytes) else { return Ok(false) };
    let rest = probe.rest(cut);
    let (count, room) = (count(bytes), short(bytes, at::ROOM));
    if i > count || count > room {
        return Err("a count that is over the page's room");
    }
    let (tag, key) = (Tagged::of(bytes).of_key(key), KeyToStore { rest, far });
    let done = if kind(bytes) == Some(Kind::Uniform) {
        insert_uniform(bytes, i, key, value, count, room)
    } else {
        heap::insert(bytes, i, tag, key, value, scratch)?
    };
    if done {
        shift(bytes, at::HEADS + HEAD * i, HEAD * (count - i), at::HEADS + HEAD * (i + 1));
        let from = at::HEADS + HEAD * i;
        bytes[from..from + HEAD].copy_from_slice(&head_of(rest).to_le_bytes());
        set_short(bytes, at::COUNT, count + 1);
    }
    Ok(done)
}

fn insert_uniform(
    bytes: &mut Bytes,
    i: usize,
    key: KeyToStore<'_>,
    value: ValueToStore<'_>,
    count: usize,
    room: usize,
) -> bool {
    let uniform = Uniform::of(bytes);
    let is_far = matches!(value, ValueToStore::Far(_));
    if key.far.is_some()
        || key.rest.len() != uniform.rest
        || value.bytes() != uniform.value
        || is_far != uniform.is_far
        || count >= room
    {
        return false;
    }
    let (from, stride) = (uniform.from + i * uniform.stride(), uniform.stride());
    if !shift(bytes, from, stride * (count - i), from + stride) || from + stride > PAGE {
        return false;
    }
    bytes[from..from + uniform.tail].copy_from_slice(&key.rest[uniform.rest - uniform.tail..]);
    write_value(bytes, from + uniform.tail, value)
}

fn write_value(bytes: &mut Bytes, from: usize, value: ValueToStore<'_>) -> bool {
    let place = bytes.get_mut(from..from + value.bytes());
    match (place, value) {
        (Some(place), ValueToStore::Near(value)) => place.copy_from_slice(value),
        (Some(place), ValueToStore::Far(far)) => place.copy_from_slice(&far.encode()),
        (None, _) => return false,
    }
    true
}

/// Puts a value in the place of that of record number `i`, if the page can take it.
pub(crate) fn replace(
    bytes: &mut Bytes,
    i: usize,
    new: ValueToStore<'_>,
    scratch: &mut Vec<u8>,
) -> Checked<bool> {
    if replace_same(bytes, i, new)? {
        return Ok(true);
    }
    let (count, room) = (count(bytes), short(bytes, at::ROOM));
    if i >= count || count > room {
        return Err("a count that is over the page's room");
    }
    let is_near = matches!(value(bytes, i)?, Value::Near(_));
    match kind(bytes) {
        Some(Kind::Leaf) if is_near => heap::replace(bytes, i, new, scratch),
        _ => Ok(false),
    }
}

/// The same for a value of the same length, or of any if both are elsewhere.
pub(crate) fn replace_same(bytes: &mut Bytes, i: usize, new: ValueToStore<'_>) -> Checked<bool> {
    let place = match (value(bytes, i)?, new) {
        (Value::Near(old), ValueToStore::Near(new)) if old.len() == new.len() => {
            offset_in(bytes, old)
        }
        (Value::Far(_), ValueToStore::Far(_)) => far_value_at(bytes, i)?,
        _ => return Ok(false),
    };
    Ok(write_value(bytes, place, new))
}

/// Where a part of the page is in it.
pub(super) fn offset_in(bytes: &Bytes, part: &[u8]) -> usize {
    part.as_ptr().addr() - bytes.as_ptr().addr()
}

/// Where the reference to the value of record number `i` is.
fn far_value_at(bytes: &Bytes, i: usize) -> Checked<usize> {
    if kind(bytes) == Some(Kind::Uniform) {
        let uniform = Uniform::of(bytes);
        return Ok(uniform.from + i * uniform.stride() + uniform.tail);
    }
    let (place, size) = heap::part_of(bytes, i)?;
    Ok(place + size - FAR_BYTES)
}

/// Takes record number `i` out.
pub(crate) fn remove(bytes: &mut Bytes, i: usize) -> Checked<()> {
    let count = count(bytes);
    if i >= count {
        return Err("a record that is not there");
    }
    if kind(bytes) == Some(Kind::Uniform) {
        let uniform = Uniform::of(bytes);
        let (from, stride) = (uniform.from + i * uniform.stride(), uniform.stride());
        shift(bytes, from + stride, stride * (count - i - 1), from);
    } else {
        heap::remove(bytes, i)?;
    }
    let place = at::HEADS + HEAD * i;
    shift(bytes, place + HEAD, HEAD * (count - i - 1), place);
    set_short(bytes, at::COUNT, count - 1);
    Ok(())
}
