//! How every file of this library begins: with its magic number, and behind that the number of the engine that it is of.
//!
//! An engine knows no other: of which one a file is that is not its own all of them say in these words. Both numbers are fixed
//! for ever.
//!
//! Without its header a store is nothing that anybody could read: its checksums begin with numbers in it. So stores that
//! change have a copy of it, for `recover`, in a sector that is not written while the header is.
//!
//! Threads: constants and functions only.

use crate::bytes::{array, le32, le64};
use crate::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64;

/// The first eight bytes.
pub(crate) const MAGIC: [u8; 8] = *b"\x89CRDNZA\n";

/// The numbers of engines.
pub(crate) const CONSTANT: u32 = 1;
pub(crate) const HASH: u32 = 2;
pub(crate) const BTREE: u32 = 3;
/// That of the index beside a hash store, which is no store.
pub(crate) const HASH_INDEX: u32 = 0x102;

/// The number of the engine of a file that begins so; `None` if it is not of this library, or ends before the number.
pub(crate) fn engine_of(head: &[u8]) -> Option<u32> {
    le32(head, MAGIC.len()).filter(|_| head.starts_with(&MAGIC))
}

/// Where the copy of a header is.
pub(crate) const COPY_AT: usize = 1920;
/// What it begins with: not as a store does, so that a store that lies within another file is not taken for that.
const COPY: [u8; 8] = *b"\x89CRDNZC\n";
/// Of a header what is not zeros: so many bytes of the beginning, and the last eight, its checksum.
const NAMED: usize = 64;
const SUM: usize = 8;
/// Where the copy ends.
pub(crate) const COPY_END: usize = COPY_AT + NAMED + SUM;

/// A copy of a header.
pub(crate) fn copy_of<const N: usize>(header: &[u8; N]) -> [u8; NAMED + SUM] {
    let mut copy = [0; NAMED + SUM];
    copy[..NAMED].copy_from_slice(&header[..NAMED]);
    copy[..COPY.len()].copy_from_slice(&COPY);
    copy[NAMED..].copy_from_slice(&header[N - SUM..]);
    copy
}

/// Makes zeros of the copy of a header, or of what is there of one.
pub(crate) fn forget_copy(head: &mut [u8]) {
    let end = COPY_END.min(head.len());
    if let Some(copy) = head.get_mut(COPY_AT..end)
        && copy.iter().zip(&COPY).all(|(there, own)| there == own)
    {
        copy.fill(0);
    }
}

/// Whether a file begins with a header of `N` bytes that is whole, whatever it says: the last eight are the XXH3-64 of the
/// others, in every engine.
pub(crate) fn is_sealed<const N: usize>(head: &[u8]) -> bool {
    let sum = head.get(..N - SUM).map(xxh3_64);
    sum.is_some() && sum == le64(head, N - SUM)
}

/// The header of a file that begins so. What its engine does not know, or cannot be right, is damage if there is a copy that
/// is right, and the header is not whole.
pub(crate) fn header<const N: usize, H>(
    head: &[u8],
    decode: impl Fn(&[u8]) -> Result<H>,
) -> Result<H> {
    let found = decode(head);
    found.map_err(|error| match error.kind() {
        ErrorKind::Corrupt { .. } => error,
        _ if header_by_copy::<N, _>(head, decode).is_none() => error,
        _ => Error::corrupt(0, "the header is damaged, and the copy of it is whole"),
    })
}

/// The header of a damaged file that begins so: if it is not whole, what its copy says.
pub(crate) fn header_or_copy<const N: usize, H>(
    head: &[u8],
    decode: impl Fn(&[u8]) -> Result<H>,
) -> Result<H> {
    let found = decode(head);
    found.or_else(|error| header_by_copy::<N, _>(head, decode).ok_or(error))
}

/// What the copy says, if the header is not whole and the copy is.
fn header_by_copy<const N: usize, H>(
    head: &[u8],
    decode: impl Fn(&[u8]) -> Result<H>,
) -> Option<H> {
    let copy = of_copy::<N>(head).filter(|_| !is_sealed::<N>(head))?;
    decode(&copy).ok()
}

/// The header of which there is a copy in a file that begins so; whether it is whole its checksum says.
fn of_copy<const N: usize>(head: &[u8]) -> Option<[u8; N]> {
    let copy: [u8; NAMED + SUM] = array(head, COPY_AT).filter(|copy| copy.starts_with(&COPY))?;
    let mut header = [0; N];
    header[..NAMED].copy_from_slice(&copy[..NAMED]);
    header[..MAGIC.len()].copy_from_slice(&MAGIC);
    header[N - SUM..].copy_from_slice(&copy[NAMED..]);
    Some(header)
}

/// The number of the engine that the copy says.
pub(crate) fn engine_of_copy(head: &[u8]) -> Option<u32> {
    of_copy::<NAMED>(head).and_then(|header| engine_of(&header))
}

/// Compares the copy in a file that begins so with the header; in one that was made before there were any there is none.
pub(crate) fn check_copy<const N: usize>(head: &[u8]) -> Result<()> {
    let right = head.first_chunk::<N>().map(copy_of);
    match head.get(COPY_AT..COPY_END) {
        Some(copy) if right.is_some_and(|right| right == copy) => Ok(()),
        Some(copy) if copy.iter().all(|byte| *byte == 0) => Ok(()),
        _ => Err(Error::corrupt(COPY_AT as u64, "the copy of the header is another")),
    }
}

/// What a file of an engine is, for whoever took it for one of another.
pub(crate) fn what_is_of(engine: u32) -> String {
    match engine {
        CONSTANT => "it is a constant store".into(),
        HASH => "it is a hash store".into(),
        BTREE => "it is a btree store".into(),
        HASH_INDEX => "it is the index of a hash store".into(),
        other => format!("it is of engine {other}, which this version does not know"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Danger: a copy that another version does not find.
    #[test]
    fn a_copy_is_where_it_is_documented_to_be() {
        let mut header: [u8; 512] = std::array::from_fn(|i| if i < 64 { i as u8 } else { 0 });
        header[..8].copy_from_slice(&MAGIC);
        header[504..].copy_from_slice(b"checksum");
        let copy = copy_of(&header);
        assert_eq!(copy[..8], [0x89, 0x43, 0x52, 0x44, 0x4E, 0x5A, 0x43, 0x0A]);
        assert!(copy[8..64] == header[8..64] && &copy[64..] == b"checksum");
        let mut file = vec![0; 4096];
        file[1920..1992].copy_from_slice(&copy);
        assert_eq!(of_copy::<512>(&file), Some(header));
        for len in 0..1992 {
            assert_eq!(of_copy::<512>(&file[..len]), None);
            forget_copy(&mut file[..len]);
            assert!(file[..len].iter().all(|byte| *byte == 0), "{len}");
            file[1920..1992].copy_from_slice(&copy);
        }
        file[1920] ^= 1;
        assert_eq!((of_copy::<512>(&file), engine_of_copy(&file)), (None, None));
    }
}
