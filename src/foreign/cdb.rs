//! cdb and cdb64: everything little-endian; the two differ by the width of their words alone.

use super::format::{Format, Limits, Slot, Table, djb};
use super::reader::Reader;
use super::writer::Writer;
use crate::bytes::{le32, le64};
use std::fmt::Debug;
use std::marker::PhantomData;

/// A cdb file, open for reading: up to 4 GiB, from cdb, tinycdb, freecdb and many others.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("mail.cdb");
/// use credenza::{Get, foreign::{Cdb, CdbWriter}};
/// let mut writer = CdbWriter::create(&path)?;
/// writer.add(b"postmaster", b"root")?;
/// writer.finish()?;
///
/// let aliases = Cdb::open(&path)?;
/// assert_eq!(aliases.get(b"postmaster")?.as_deref(), Some(&b"root"[..]));
/// # Ok::<(), credenza::Error>(())
/// ```
pub type Cdb = Reader<CdbFormat<u32>>;

/// A cdb64 file, open for reading: cdb with words of 64 bits, for more than 4 GiB.
///
/// There are two dialects: hashes of 64 bits (the C and Go programs, and our writer), and hashes
/// of 32 bits in words of 64 (the Python module). Both are found.
pub type Cdb64 = Reader<CdbFormat<u64>>;

/// Writes a cdb file: byte for byte what `cdb -c` and `cdbmake` write for the same records.
pub type CdbWriter = Writer<CdbFormat<u32>>;

/// Writes a cdb64 file, with hashes of 64 bits.
pub type Cdb64Writer = Writer<CdbFormat<u64>>;

/// cdb with words of type `W`.
#[derive(Clone, Copy, Debug)]
pub struct CdbFormat<W>(PhantomData<W>);

/// A word of a cdb file.
pub trait Word: Copy + Debug + Send + Sync + 'static {
    const NAME: &'static str;
    const EXPECTED: &'static str;
    const LIMITS: Limits;
    const BYTES: usize;
    const MAY_GO_ON: bool;
    fn read(bytes: &[u8], at: usize) -> Option<u64>;
    fn put(value: u64, out: &mut Vec<u8>);
    fn hash(key: &[u8]) -> u64;
    fn other_hash(hash: u64) -> Option<u64>;
}

impl Word for u32 {
    const NAME: &'static str = "cdb";
    const EXPECTED: &'static str = "a cdb file";
    const LIMITS: Limits = Limits {
        length: u32::MAX as u64,
        records: u32::MAX as u64,
        file: u32::MAX as u64,
        file_name: "cdb file (write cdb64 or mcdb instead, which may be larger)",
    };
    const BYTES: usize = 4;
    // tinycdb (`cdb -c -r`) moves what follows a record that it takes out, and leaves the file as long as it was.
    const MAY_GO_ON: bool = true;

    #[inline]
    fn read(bytes: &[u8], at: usize) -> Option<u64> {
        le32(bytes, at).map(u64::from)
    }

    fn put(value: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&(value as u32).to_le_bytes());
    }

    #[inline]
    fn hash(key: &[u8]) -> u64 {
        djb(key) & u64::from(u32::MAX)
    }

    fn other_hash(_hash: u64) -> Option<u64> {
        None
    }
}

impl Word for u64 {
    const NAME: &'static str = "cdb64";
    const EXPECTED: &'static str = "a cdb64 file";
    const LIMITS: Limits = Limits {
        length: i64::MAX as u64,
        records: i64::MAX as u64,
        file: i64::MAX as u64,
        file_name: "cdb64 file",
    };
    const BYTES: usize = 8;
    const MAY_GO_ON: bool = false;

    #[inline]
    fn read(bytes: &[u8], at: usize) -> Option<u64> {
        le64(bytes, at)
    }

    fn put(value: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    fn hash(key: &[u8]) -> u64 {
        djb(key)
    }

    fn other_hash(hash: u64) -> Option<u64> {
        (hash > u64::from(u32::MAX)).then_some(hash & u64::from(u32::MAX))
    }
}

impl<W: Word> Format for CdbFormat<W> {
    const NAME: &'static str = W::NAME;
    const EXPECTED: &'static str = W::EXPECTED;
    const ENTRY_BYTES: usize = 2 * W::BYTES;
    const HEAD_BYTES: usize = 2 * W::BYTES;
    const ALIGN: u64 = 1;
    const LIMITS: Limits = W::LIMITS;
    const MAY_GO_ON: bool = W::MAY_GO_ON;

    fn of_data_end(_data_end: u64) -> Self {
        CdbFormat(PhantomData)
    }

    fn table(entry: &[u8]) -> Option<Table> {
        Some(Table { at: W::read(entry, 0)?, slots: W::read(entry, W::BYTES)? })
    }

    fn put_table(table: Table, out: &mut Vec<u8>) {
        W::put(table.at, out);
        W::put(table.slots, out);
    }

    #[inline]
    fn head(bytes: &[u8]) -> Option<(u64, u64)> {
        Some((W::read(bytes, 0)?, W::read(bytes, W::BYTES)?))
    }

    fn put_head(key_len: u64, value_len: u64, out: &mut Vec<u8>) {
        W::put(key_len, out);
        W::put(value_len, out);
    }

    #[inline]
    fn slot_bytes(self) -> u64 {
        2 * W::BYTES as u64
    }

    #[inline]
    fn slot(self, bytes: &[u8]) -> Option<Slot> {
        let (hash, record) = (W::read(bytes, 0)?, W::read(bytes, W::BYTES)?);
        Some(Slot { record, hash, key_len: None })
    }

    fn put_slot(self, slot: Slot, out: &mut Vec<u8>) {
        W::put(slot.hash, out);
        W::put(slot.record, out);
    }

    #[inline]
    fn hash(key: &[u8]) -> u64 {
        W::hash(key)
    }

    #[inline]
    fn other_hash(hash: u64) -> Option<u64> {
        W::other_hash(hash)
    }
}
