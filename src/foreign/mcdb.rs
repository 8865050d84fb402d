//! mcdb: everything big-endian; slots of 8 bytes where the records end below 4 GiB, else of 16.

use super::format::{Format, Limits, Slot, Table, djb};
use super::reader::Reader;
use super::writer::Writer;
use crate::bytes::{be32, be64};

/// An mcdb file, open for reading.
///
/// The values of a key that has more than one come from [`crate::Get`] in the order of the slots.
/// Files that mcdb itself made have them in blocks: up to 250 consecutive records of a table, in
/// input order, the newest block first. Files by our writer have them in input order. A scan
/// follows the records, which are in input order in both.
pub type Mcdb = Reader<McdbFormat>;

/// Writes an mcdb file: as long as the one that `mcdbctl make` writes, and with the same bytes
/// unless a hash table has more than 250 records, whose slots mcdb fills in another order.
pub type McdbWriter = Writer<McdbFormat>;

/// mcdb: `wide` slots, of 16 bytes, or those of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McdbFormat {
    wide: bool,
}

const LONGEST: u64 = i32::MAX as u64 - 8;

impl Format for McdbFormat {
    const NAME: &'static str = "mcdb";
    const EXPECTED: &'static str = "an mcdb file";
    const ENTRY_BYTES: usize = 16;
    const HEAD_BYTES: usize = 8;
    const ALIGN: u64 = 16;
    const LIMITS: Limits = Limits {
        length: LONGEST,
        records: i32::MAX as u64,
        file: i64::MAX as u64,
        file_name: "mcdb file",
    };

    fn of_data_end(data_end: u64) -> Self {
        McdbFormat { wide: data_end >= u64::from(u32::MAX) }
    }

    fn table(entry: &[u8]) -> Option<Table> {
        Some(Table { at: be64(entry, 0)?, slots: u64::from(be32(entry, 8)?) })
    }

    fn put_table(table: Table, out: &mut Vec<u8>) {
        put64(table.at, out);
        put32(table.slots, out);
        put32(0, out);
    }

    #[inline]
    fn head(bytes: &[u8]) -> Option<(u64, u64)> {
        Some((u64::from(be32(bytes, 0)?), u64::from(be32(bytes, 4)?)))
    }

    fn put_head(key_len: u64, value_len: u64, out: &mut Vec<u8>) {
        put32(key_len, out);
        put32(value_len, out);
    }

    #[inline]
    fn slot_bytes(self) -> u64 {
        if self.wide { 16 } else { 8 }
    }

    #[inline]
    fn slot(self, bytes: &[u8]) -> Option<Slot> {
        let hash = u64::from(be32(bytes, 0)?);
        let second = be32(bytes, 4)?;
        Some(match self.wide {
            false => Slot { record: u64::from(second), hash, key_len: None },
            true => Slot { record: be64(bytes, 8)?, hash, key_len: Some(second) },
        })
    }

    fn put_slot(self, slot: Slot, out: &mut Vec<u8>) {
        put32(slot.hash, out);
        if self.wide {
            put32(u64::from(slot.key_len.unwrap_or_default()), out);
            put64(slot.record, out);
        } else {
            put32(slot.record, out);
        }
    }

    #[inline]
    fn hash(key: &[u8]) -> u64 {
        djb(key) & u64::from(u32::MAX)
    }
}

/// Big-endian: swapped to little-endian, the lint forbids the direct way.
fn put32(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value as u32).swap_bytes().to_le_bytes());
}

fn put64(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.swap_bytes().to_le_bytes());
}
