//! Whether what a page refers to lies in it where it may: in its heap, each apart from the others.
//!
//! Lookups need none of this: what leads outside of the page is an error to them, and what leads elsewhere
//! in it is some record. But a change would write over a record that lies among the numbers of the page
//! or in another, so that `verify` must not pass it.

use super::format::PAGE;
use super::leaf::Uniform;
use super::page::{Bytes, HEAD, Kind, at, count, kind, prefix, short};
use super::{heap, inner};

type Checked = Result<(), &'static str>;

/// Checks the places of all records of a page, or of all its keys.
pub(crate) fn check(bytes: &Bytes) -> Checked {
    let (count, room, heap) = (count(bytes), short(bytes, at::ROOM), short(bytes, at::HEAP));
    let end = PAGE - prefix(bytes)?.len();
    if count > room {
        return Err("a count that is over the page's room");
    }
    let arrays_end = match kind(bytes) {
        Some(Kind::Uniform) => {
            let uniform = Uniform::of(bytes);
            return match uniform.from + count * uniform.stride() <= end {
                true => Ok(()),
                false => Err("records that do not end in their page"),
            };
        }
        Some(Kind::Inner) => inner::arrays_end(room),
        _ => at::HEADS + (HEAD + 2) * room,
    };
    if arrays_end > heap || heap > end {
        return Err("a heap that is not behind the arrays of its page");
    }
    let mut parts = Vec::with_capacity(count);
    for i in 0..count {
        let part = match kind(bytes) {
            Some(Kind::Inner) if i == 0 => None,
            Some(Kind::Inner) => inner::part_of(bytes, i)?,
            _ => Some(heap::part_of(bytes, i)?),
        };
        parts.extend(part);
    }
    parts.sort_unstable();
    let mut from = heap;
    for (at, len) in parts {
        if at < from || at + len > end {
            return Err("a record that is not in the heap, or in another");
        }
        from = at + len;
    }
    Ok(())
}
