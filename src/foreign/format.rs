//! What the three formats have in common, the trait of what sets them apart, and the header.

use crate::{Error, ErrorKind, Result};
use std::fmt::Debug;

/// Hash tables of a file, whatever its format.
pub const TABLES: usize = 256;

/// A hash table, as its entry in the header describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Offset of its first slot.
    pub at: u64,
    /// Number of its slots, empty ones included.
    pub slots: u64,
}

/// A slot of a hash table. It is empty if `record` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Offset of the record.
    pub record: u64,
    /// Hash of its key.
    pub hash: u64,
    /// Length of its key, in the formats whose slots hold it.
    pub key_len: Option<u32>,
}

/// The largest that a format can hold; sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Length of a key or a value.
    pub length: u64,
    /// Number of records.
    pub records: u64,
    /// Length of the file.
    pub file: u64,
    /// What a file over the limit is called in the error, with the way out.
    pub file_name: &'static str,
}

/// What sets a format apart. A value of the type holds what differs from file to file.
pub trait Format: Copy + Debug + Send + Sync + 'static {
    /// The format's short name.
    const NAME: &'static str;
    /// A file of it, in words, with the article.
    const EXPECTED: &'static str;
    /// Bytes of an entry of the header.
    const ENTRY_BYTES: usize;
    /// Bytes of the header.
    const HEADER_BYTES: usize = TABLES * Self::ENTRY_BYTES;
    /// Bytes before the key of a record: its two lengths.
    const HEAD_BYTES: usize;
    /// What the offset of the first table is a multiple of; 0xFF bytes pad the records up to it.
    const ALIGN: u64;
    /// The largest that it can hold.
    const LIMITS: Limits;

    /// Whether a file may go on behind its last table, for a writer took records out and did not cut it.
    const MAY_GO_ON: bool = false;

    /// The format of a file whose records, padding included, end at `data_end`.
    fn of_data_end(data_end: u64) -> Self;

    /// The table that an entry of the header describes.
    fn table(entry: &[u8]) -> Option<Table>;
    /// Appends an entry of the header.
    fn put_table(table: Table, out: &mut Vec<u8>);

    /// Lengths of key and value, from the head of a record.
    fn head(bytes: &[u8]) -> Option<(u64, u64)>;
    /// Appends the head of a record.
    fn put_head(key_len: u64, value_len: u64, out: &mut Vec<u8>);

    /// Bytes of a slot.
    fn slot_bytes(self) -> u64;
    /// A slot.
    fn slot(self, bytes: &[u8]) -> Option<Slot>;
    /// Appends a slot.
    fn put_slot(self, slot: Slot, out: &mut Vec<u8>);

    /// The hash of a key: its low 8 bits name the table, the others the slot to begin at.
    fn hash(key: &[u8]) -> u64;
    /// Another hash that some writers of the format store in place of `hash`.
    fn other_hash(_hash: u64) -> Option<u64> {
        None
    }
}

/// Where everything is in one file, as its header says. Invariant: the tables follow each other
/// from `data_end` to `tables_end`, which is within the file.
#[derive(Clone, Debug)]
pub struct Layout<F> {
    /// What differs from file to file.
    pub format: F,
    /// The 256 tables.
    pub tables: [Table; TABLES],
    /// Where the records, padding included, end.
    pub data_end: u64,
    /// Where the tables end; what follows means nothing.
    pub tables_end: u64,
    /// Length of the file.
    pub file_len: u64,
}

impl<F: Format> Layout<F> {
    /// Reads a header, of which `head` has as much as there is of it, from a file of `file_len`.
    ///
    /// None of the formats has a magic number. That the tables follow each other is taken as the
    /// proof that this is the format; a chain of 256 offsets does not come about by accident,
    /// unless all are the same because there is no slot. If then only the end is wrong, the file
    /// has been cut off.
    pub fn decode(head: &[u8], file_len: u64) -> Result<Layout<F>> {
        let Some(head) = head.get(..F::HEADER_BYTES) else {
            let need = F::HEADER_BYTES;
            return wrong::<F, _>(format!(
                "it has {file_len} bytes, and the header alone would have {need}"
            ));
        };
        let mut tables = [Table::default(); TABLES];
        for (table, entry) in tables.iter_mut().zip(head.chunks_exact(F::ENTRY_BYTES)) {
            *table = F::table(entry).unwrap_or_default();
        }
        let data_end = tables.first().map_or(0, |t| t.at);
        if data_end < F::HEADER_BYTES as u64 {
            return wrong::<F, _>(format!("its first table would begin at byte {data_end}"));
        }
        let format = F::of_data_end(data_end);
        let mut end = data_end;
        for (i, table) in tables.iter().enumerate() {
            let bytes = table.slots.checked_mul(format.slot_bytes());
            match bytes.and_then(|bytes| end.checked_add(bytes)) {
                Some(next) if table.at == end => end = next,
                _ => {
                    return wrong::<F, _>(format!(
                        "table {i} of its header does not begin where the one before it ends"
                    ));
                }
            }
        }
        if end != file_len && end == data_end {
            let what = "its tables would have no slots, and yet not be at its end";
            return wrong::<F, _>(what.into());
        }
        if end > file_len || end < file_len && !F::MAY_GO_ON {
            return Err(Error::corrupt(
                end.min(file_len),
                format!("the {} file should have {end} bytes, but has {file_len}", F::NAME),
            ));
        }
        Ok(Layout { format, tables, data_end, tables_end: end, file_len })
    }

    /// The table in which `hash` is.
    #[inline]
    pub fn table_of(&self, hash: u64) -> Table {
        // 256 tables, so that the index is always there.
        self.tables.get((hash & 0xff) as usize).copied().unwrap_or_default()
    }

    /// Offset of slot `index` of `table`, which has more than that many.
    #[inline]
    pub fn slot_at(&self, table: Table, index: u64) -> u64 {
        table.at + index * self.format.slot_bytes()
    }
}

fn wrong<F: Format, T>(found: String) -> Result<T> {
    Err(Error::new(ErrorKind::WrongFormat { expected: F::EXPECTED, found }))
}

/// djb's hash of a key, with as many bits as he who looks at it keeps.
#[inline]
pub fn djb(key: &[u8]) -> u64 {
    key.iter().fold(5381, |h: u64, c| (h << 5).wrapping_add(h) ^ u64::from(*c))
}
