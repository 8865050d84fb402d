//! How every file of this library begins: with its magic number, and behind that the number of the engine that it is of.
//!
//! An engine knows no other: of which one a file is that is not its own all of them say in these words. Both numbers are fixed
//! for ever.
//!
//! Threads: constants and functions only.

use crate::bytes::le32;

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
