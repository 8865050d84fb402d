//! Pages above the leaves: keys that part the pages below, and links to those.
//!
//! Page `i` of those below holds keys that are not below key `i` and below key `i + 1`; key 0 is not
//! stored, it stands for less than everything. Keys are cut as short as they may be, so that most
//! say all in their head; the others have a place in the heap.

use super::format::PAGE;
use super::leaf::join;
use super::page::{
    BAD_PREFIX, Bytes, HEAD, Link, Place, at, bytes_of, count, head, head_of, heads, lower,
    place_in_run, prefix, run, set_short, short,
};
use super::probe::{Cut, Probe};
use super::record::{
    Elsewhere, FAR_BYTES, Far, KeyToStore, Tail, compare, decode_key, encode_key, key_bytes,
    length_bytes, stored_key_bytes,
};
use std::cmp::Ordering;

type Checked<T> = Result<T, &'static str>;

const DAMAGED: &str = "a key that leads outside of its page";

/// Where the links begin, in a page with room for so many.
pub(crate) fn links_at(room: usize) -> usize {
    (at::HEADS + HEAD * room + 7) & !7
}

/// Where the numbers begin that say where in the heap a key is.
pub(crate) fn offsets_at(room: usize) -> usize {
    links_at(room) + 8 * room
}

/// Where the heap may begin.
pub(crate) fn arrays_end(room: usize) -> usize {
    offsets_at(room) + 2 * room
}

/// The link to page number `i`.
#[inline(always)]
pub(crate) fn link(bytes: &Bytes, i: usize) -> Checked<Link> {
    if i >= count(bytes) {
        return Err("a link behind the last");
    }
    let place = links_at(short(bytes, at::ROOM)) + 8 * i;
    let link = bytes.get(place..).and_then(|b| b.first_chunk::<8>()).ok_or(DAMAGED)?;
    Ok(Link(u64::from_le_bytes(*link)))
}

/// Has link number `i` lead elsewhere.
pub(crate) fn set_link(bytes: &mut Bytes, i: usize, link: Link) -> Checked<()> {
    let place = links_at(short(bytes, at::ROOM)) + 8 * i;
    let old = bytes.get_mut(place..place + 8).ok_or(DAMAGED)?;
    old.copy_from_slice(&link.0.to_le_bytes());
    Ok(())
}

/// What the heap says of key number `i`; `None` if its head is all.
#[inline(always)]
fn in_heap(bytes: &Bytes, i: usize) -> Checked<Option<(usize, Tail<'_>)>> {
    let place = offsets_at(short(bytes, at::ROOM)) + 2 * i;
    let offset = bytes.get(place..place + 2).ok_or(DAMAGED)?;
    match u16::from_le_bytes([offset[0], offset[1]]) {
        0 => Ok(None),
        offset => {
            let key = bytes.get(usize::from(offset)..).and_then(decode_key);
            Ok(Some(key.ok_or(DAMAGED)?))
        }
    }
}

/// The number of the page below that a key belongs in.
#[inline(always)]
pub(crate) fn find(bytes: &Bytes, probe: &Probe<'_>, elsewhere: &impl Elsewhere) -> Checked<usize> {
    let cut = match probe.cut(bytes) {
        Ok(cut) => cut,
        Err(Cut::Before) => return Ok(0),
        Err(Cut::Behind) => return Ok(count(bytes).saturating_sub(1)),
        Err(Cut::Damaged) => return Err(BAD_PREFIX),
    };
    // Key 0 has no place among the others.
    let heads = heads(bytes)?.get(1..).ok_or("a page without links")?;
    let wanted = probe.head(cut);
    let from = lower(heads, wanted);
    let same = run(heads, from, wanted);
    if same == 0 {
        return Ok(from);
    }
    let rest = probe.rest(cut);
    let place = place_in_run(from, same, |i| match in_heap(bytes, i + 1)? {
        // The key begins with all of it.
        None => Ok(if key_len_of(head(heads, i)) <= rest.len() {
            Ordering::Less
        } else {
            Ordering::Greater
        }),
        Some((len, tail)) => compare(len, tail, rest, probe.key, elsewhere),
    })?;
    Ok(match place {
        // Equal: it belongs to the page that the key begins.
        Place::Found(i) => i + 1,
        Place::Missing(i) => i,
    })
}

/// How long a key is that is all in its head: it does not end with zeros.
#[inline(always)]
fn key_len_of(head: u32) -> usize {
    HEAD - (head.trailing_zeros() as usize / 8).min(HEAD)
}

/// Puts key number `i`, which is not 0, in the place of what is in `key`; where it is if it is not
/// in the page.
pub(crate) fn key_of(
    bytes: &Bytes,
    i: usize,
    elsewhere: &impl Elsewhere,
    key: &mut Vec<u8>,
) -> Checked<Option<Far>> {
    key.clear();
    append_key(bytes, i, elsewhere, key)
}

/// Appends key number `i`, which is not 0; where it is if it is not in the page.
pub(crate) fn append_key(
    bytes: &Bytes,
    i: usize,
    elsewhere: &impl Elsewhere,
    key: &mut Vec<u8>,
) -> Checked<Option<Far>> {
    let head = head(heads(bytes)?, i);
    let (rest, tail) = match in_heap(bytes, i)? {
        None => (key_len_of(head), Tail::Near(&[][..])),
        Some(key) => key,
    };
    join(prefix(bytes)?, bytes_of(head), rest, tail, elsewhere, key)
}

/// Where key number `i`, which is not 0, is, if it is not in the page.
pub(crate) fn elsewhere_of(bytes: &Bytes, i: usize) -> Checked<Option<Far>> {
    Ok(match in_heap(bytes, i)? {
        Some((_, Tail::Far(far))) => Some(far),
        _ => None,
    })
}

/// Where in the page key number `i`, which is not 0, is, and how long; `None` if its head is all.
pub(crate) fn part_of(bytes: &Bytes, i: usize) -> Checked<Option<(usize, usize)>> {
    let at = short(bytes, offsets_at(short(bytes, at::ROOM)) + 2 * i);
    Ok(in_heap(bytes, i)?.map(|(rest, tail)| (at, stored_key_bytes(rest, tail))))
}

/// Has key number `i`, which is elsewhere, be at another place.
pub(crate) fn move_key(bytes: &mut Bytes, i: usize, far: Far) -> Checked<()> {
    let Some((rest, _)) = in_heap(bytes, i)? else { return Err(DAMAGED) };
    let place = offsets_at(short(bytes, at::ROOM)) + 2 * i;
    let place = short(bytes, place) + length_bytes(rest);
    bytes.get_mut(place..place + FAR_BYTES).ok_or(DAMAGED)?.copy_from_slice(&far.encode());
    Ok(())
}

/// Bytes of the page that hold something.
pub(crate) fn used(bytes: &Bytes) -> usize {
    let (count, prefix) = (count(bytes), short(bytes, at::PREFIX));
    let heap = PAGE.saturating_sub(prefix + short(bytes, at::HEAP));
    at::HEADS + count * (HEAD + 10) + heap.saturating_sub(short(bytes, at::WASTE)) + prefix
}

/// Puts a link at number `i`, which is not 0, for keys from `key` on, if the page can take it as it
/// is.
pub(crate) fn insert(
    bytes: &mut Bytes,
    i: usize,
    key: &[u8],
    far: Option<Far>,
    link: Link,
    scratch: &mut Vec<u8>,
) -> Checked<bool> {
    const STEP: usize = 4;
    let probe = Probe::new(key);
    let Ok(cut) = probe.cut(bytes) else { return Ok(false) };
    let rest = probe.rest(cut);
    let (count, room, heap) = (count(bytes), short(bytes, at::ROOM), short(bytes, at::HEAP));
    if i == 0 || i > count || count > room {
        return Err("a count that is over the page's room");
    }
    let key = KeyToStore { rest, far };
    let size = key_bytes(key);
    let new_room = if count == room { room + STEP } else { room };
    if arrays_end(new_room) + size > heap || heap > PAGE {
        return Ok(false);
    }
    if new_room != room {
        bytes.copy_within(offsets_at(room)..offsets_at(room) + 2 * count, offsets_at(new_room));
        bytes.copy_within(links_at(room)..links_at(room) + 8 * count, links_at(new_room));
        set_short(bytes, at::ROOM, new_room);
    }
    let offset = if size == 0 { 0 } else { heap - size };
    if size > 0 {
        scratch.clear();
        encode_key(scratch, key);
        bytes[offset..heap].copy_from_slice(scratch);
        set_short(bytes, at::HEAP, offset);
    }
    for (from, size) in [(at::HEADS, HEAD), (links_at(new_room), 8), (offsets_at(new_room), 2)] {
        bytes.copy_within(from + size * i..from + size * count, from + size * (i + 1));
    }
    set_short(bytes, at::COUNT, count + 1);
    let place = at::HEADS + HEAD * i;
    bytes[place..place + HEAD].copy_from_slice(&head_of(rest).to_le_bytes());
    set_short(bytes, offsets_at(new_room) + 2 * i, offset);
    set_link(bytes, i, link)?;
    Ok(true)
}

/// Takes link number `i` out, and its key; if it is 0, the next link takes its place, and the next
/// key goes.
pub(crate) fn remove(bytes: &mut Bytes, i: usize) -> Checked<()> {
    let (count, room) = (count(bytes), short(bytes, at::ROOM));
    if i >= count || count > room || arrays_end(room) > PAGE {
        return Err("a count that is over the page's room");
    }
    if count > 1
        && let Some((rest, tail)) = in_heap(bytes, i.max(1))?
    {
        let size = stored_key_bytes(rest, tail);
        let waste = short(bytes, at::WASTE) + size;
        set_short(bytes, at::WASTE, waste.min(PAGE));
    }
    for (from, size) in [(at::HEADS, HEAD), (links_at(room), 8), (offsets_at(room), 2)] {
        bytes.copy_within(from + size * (i + 1)..from + size * count, from + size * i);
    }
    set_short(bytes, at::COUNT, count - 1);
    // Nobody looks at key 0.
    if i == 0 && count > 1 {
        set_short(bytes, offsets_at(room), 0);
        bytes[at::HEADS..at::HEADS + HEAD].fill(0);
    }
    Ok(())
}
