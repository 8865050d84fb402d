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
use crate::{Error, Result};
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
/// Where a header has its features that a reader may ignore, and the one that says that there is a copy.
pub(crate) const IGNORABLE_AT: usize = 16;
pub(crate) const HAS_COPY: u32 = 1;

/// A copy of a header.
pub(crate) fn copy_of<const N: usize>(header: &[u8; N]) -> [u8; NAMED + SUM] {
    let mut copy = [0; NAMED + SUM];
    copy[..NAMED].copy_from_slice(&header[..NAMED]);
    copy[..COPY.len()].copy_from_slice(&COPY);
    copy[NAMED..].copy_from_slice(&header[N - SUM..]);
    copy
}

/// The header of which there is a whole copy in a file that begins so.
fn of_copy<const N: usize>(head: &[u8]) -> Option<[u8; N]> {
    let copy: [u8; NAMED + SUM] = array(head, COPY_AT).filter(|copy| copy.starts_with(&COPY))?;
    let mut header = [0; N];
    header[..NAMED].copy_from_slice(&copy[..NAMED]);
    header[..MAGIC.len()].copy_from_slice(&MAGIC);
    header[N - SUM..].copy_from_slice(&copy[NAMED..]);
    is_sealed::<N>(&header).then_some(header)
}

/// Whether a file begins with a header of `N` bytes that is whole: the last eight are the XXH3-64 of the others, in every
/// engine.
fn is_sealed<const N: usize>(head: &[u8]) -> bool {
    let sum = head.get(..N - SUM).map(xxh3_64);
    sum.is_some() && sum == le64(head, N - SUM)
}

/// Whether a file begins with a whole header of any engine: that of a btree, a constant or a hash store.
fn has_whole_header(head: &[u8]) -> bool {
    is_sealed::<64>(head) || is_sealed::<256>(head) || is_sealed::<512>(head)
}

/// The header of a damaged file that begins so: if it has none that is whole, what the copy says.
///
/// In files of other kinds whoever gave their makers keys and values can have a copy there. So nothing is taken for a store
/// because of it but by who recovers one; and what says that it is of another engine is one only if that is all that differs.
pub(crate) fn header_or_copy<const N: usize, H>(
    head: &[u8],
    decode: impl Fn(&[u8]) -> Result<H>,
) -> Result<H> {
    let found = decode(head);
    let copy = of_copy::<N>(head).filter(|copy| {
        let said =
            engine_of(head).filter(|said| [CONSTANT, HASH, BTREE, HASH_INDEX].contains(said));
        let is_of_another = said.is_some() && said != engine_of(copy);
        let is_like = head.get(MAGIC.len() + 4..NAMED) == copy.get(MAGIC.len() + 4..NAMED);
        !has_whole_header(head) && (is_like || !is_of_another)
    });
    found.or_else(|error| copy.and_then(|copy| decode(&copy).ok()).ok_or(error))
}

/// The engine of the store that a file was whose header is damaged, if there is a copy of it.
pub(crate) fn engine_of_copy(head: &[u8]) -> Option<u32> {
    let engine = of_copy::<64>(head).or_else(|| of_copy::<512>(head)?.first_chunk().copied());
    engine.filter(|_| !has_whole_header(head)).and_then(|header| engine_of(&header))
}

/// Makes zeros of the copy of a header, or of what is there of one in a file that ends within it.
pub(crate) fn forget_copy<const N: usize>(head: &mut [u8]) {
    let is_cut =
        head.len() < COPY_END && head.get(COPY_AT..).is_some_and(|copy| copy.starts_with(&COPY));
    if is_cut || of_copy::<N>(head).is_some() {
        let end = COPY_END.min(head.len());
        head[COPY_AT..end].fill(0);
    }
}

/// Compares the copy in a file that begins so with the header, if that says that there is one.
pub(crate) fn check_copy<const N: usize>(head: &[u8]) -> Result<()> {
    let has_copy = le32(head, IGNORABLE_AT).is_some_and(|features| features & HAS_COPY != 0);
    let right = head.first_chunk::<N>().map(copy_of);
    match has_copy && array(head, COPY_AT) != right {
        true => Err(Error::corrupt(COPY_AT as u64, "the copy of the header is another")),
        false => Ok(()),
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

    /// Danger: a copy that another version does not find, or one where none was made.
    #[test]
    fn a_copy_is_where_it_is_documented_to_be() {
        let mut header: [u8; 512] = std::array::from_fn(|i| if i < 64 { i as u8 } else { 0 });
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&HASH.to_le_bytes());
        let sum = xxh3_64(&header[..504]);
        header[504..].copy_from_slice(&sum.to_le_bytes());
        let copy = copy_of(&header);
        assert_eq!(copy[..8], [0x89, 0x43, 0x52, 0x44, 0x4E, 0x5A, 0x43, 0x0A]);
        assert!(copy[8..64] == header[8..64] && copy[64..] == header[504..]);
        let mut file = vec![0; 4096];
        file[1920..1992].copy_from_slice(&copy);
        assert_eq!((of_copy::<512>(&file), engine_of_copy(&file)), (Some(header), Some(HASH)));
        let made = file.clone();
        // What is left of a file in the making, and what somebody else wrote.
        for len in 1920..4096 {
            let is_his = len == 1920 || len >= 1928;
            file.copy_from_slice(&made);
            forget_copy::<512>(&mut file[..len]);
            assert_eq!(file[..len].iter().all(|byte| *byte == 0), is_his, "{len}");
        }
        for at in 1920..1992 {
            file.copy_from_slice(&made);
            file[at] ^= 1;
            assert_eq!((of_copy::<512>(&file), engine_of_copy(&file)), (None, None));
            forget_copy::<512>(&mut file);
            assert!(file[1920] != 0, "{at}");
        }
    }
}
