//! What can be set, and how its values are written in options, workload files and results.

use super::Codec;
use crate::args::size;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// Bytes of a page or block, the least that is read or written.
    PageSize,
    /// What a store keeps in a cache of its own.
    Cache,
    /// Whether it reads its files through a map.
    Mmap,
    /// Whether it reads a copy of its file in the memory of the process, in huge pages where there are such.
    Copy,
    /// Whether what is read is compared with checksums.
    Checksums,
    Compression,
    /// How keys are made smaller, alone.
    KeyCompression,
    /// How the log of changes is.
    JournalCompression,
    /// Whether files are encrypted, with AES.
    Encryption,
    /// Whether committed changes are in a log, from which they come back after the death of the process.
    Recovery,
    /// Whether committed changes go from the log to where they stay at once.
    Flush,
    /// Whether lookups and changes are done by a cursor.
    Cursors,
    /// Whether all of it is in the memory of the process, without a file.
    Memory,
    /// Whether its files pass by the memory of the kernel (`O_DIRECT`).
    Direct,
    /// What the kernel is told of the order of accesses (`posix_fadvise`, `madvise`).
    Advice,
    /// Bytes of the longest key that stays in its page.
    ExtendedKeyThreshold,
    /// How many values a key may have before they go to a table of their own.
    DuplicateThreshold,
    /// Whether values are in the pages of the keys, whatever the store would do with such.
    RecordsInline,
    /// Whether a lookup gives the store's own bytes, where it gives a copy by itself.
    DirectAccess,
}

impl Name {
    pub(super) const ALL: [Name; 19] = [
        Name::PageSize,
        Name::Cache,
        Name::Mmap,
        Name::Copy,
        Name::Checksums,
        Name::Compression,
        Name::KeyCompression,
        Name::JournalCompression,
        Name::Encryption,
        Name::Recovery,
        Name::Flush,
        Name::Cursors,
        Name::Memory,
        Name::Direct,
        Name::Advice,
        Name::ExtendedKeyThreshold,
        Name::DuplicateThreshold,
        Name::RecordsInline,
        Name::DirectAccess,
    ];

    /// The name in options and results.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Name::PageSize => "page-size",
            Name::Cache => "cache",
            Name::Mmap => "mmap",
            Name::Copy => "copy",
            Name::Checksums => "checksums",
            Name::Compression => "compression",
            Name::KeyCompression => "key-compression",
            Name::JournalCompression => "journal-compression",
            Name::Encryption => "encryption",
            Name::Recovery => "recovery",
            Name::Flush => "flush",
            Name::Cursors => "cursors",
            Name::Memory => "memory",
            Name::Direct => "direct",
            Name::Advice => "advice",
            Name::ExtendedKeyThreshold => "extended-key-threshold",
            Name::DuplicateThreshold => "duplicate-threshold",
            Name::RecordsInline => "records-inline",
            Name::DirectAccess => "direct-access",
        }
    }

    pub(super) fn find(text: &str) -> Result<Name> {
        Name::ALL.into_iter().find(|name| name.text() == text).ok_or_else(|| {
            let all = Name::ALL.map(Name::text).join(", ");
            Error::invalid(format!(
                "there is no setting '{text}'; there are {all} (--list says which store takes which)"
            ))
        })
    }

    /// Whether a store that takes no such setting is as this value says: one without compression has the codec
    /// `none`.
    pub(super) fn is_without(self, value: Value) -> bool {
        match value {
            Value::Codec(codec) => codec == Codec::None,
            Value::Switch(is_on) => {
                let is_extra = matches!(
                    self,
                    Name::Copy
                        | Name::Encryption
                        | Name::Cursors
                        | Name::Memory
                        | Name::Direct
                        | Name::RecordsInline
                        | Name::DirectAccess
                );
                is_extra && !is_on
            }
            Value::Bytes(_) | Value::Count(_) | Value::Unlimited | Value::Random(_) => false,
        }
    }

    /// A value as it is written.
    pub(super) fn value(self, text: &str) -> Result<Value> {
        let value = match self {
            Name::PageSize | Name::ExtendedKeyThreshold => {
                size(text).ok().filter(|bytes| *bytes > 0).map(Value::Bytes)
            }
            Name::DuplicateThreshold => {
                text.parse().ok().filter(|count| *count > 0).map(Value::Count)
            }
            Name::Cache if text == "unlimited" => Some(Value::Unlimited),
            Name::Cache => size(text).ok().filter(|bytes| *bytes > 0).map(Value::Bytes),
            Name::Compression | Name::KeyCompression | Name::JournalCompression => {
                Codec::find(text).map(Value::Codec)
            }
            Name::Advice => Some(text == "random")
                .filter(|is_random| *is_random || text == "normal")
                .map(Value::Random),
            _ => Some(text == "on").filter(|is_on| *is_on || text == "off").map(Value::Switch),
        };
        value.ok_or_else(|| {
            let wanted = match self {
                Name::PageSize => "a number of bytes, as 4096 or 16K".to_owned(),
                Name::ExtendedKeyThreshold => "a number of bytes, as 64".to_owned(),
                Name::DuplicateThreshold => "a number of values, as 8".to_owned(),
                Name::Cache => "a number of bytes, as 64M, or unlimited".to_owned(),
                Name::Compression | Name::KeyCompression | Name::JournalCompression => {
                    Codec::ALL.map(Codec::text).join(", ")
                }
                Name::Advice => "normal or random".to_owned(),
                _ => "on or off".to_owned(),
            };
            let name = self.text();
            Error::invalid(format!("{name}={text} is no value of this setting: say {wanted}"))
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Value {
    Bytes(u64),
    Count(u64),
    Unlimited,
    Switch(bool),
    Codec(Codec),
    /// Whether the advice is that accesses are random.
    Random(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Bytes(bytes) => f.write_str(&bytes_text(bytes)),
            Value::Count(count) => count.fmt(f),
            Value::Unlimited => f.write_str("unlimited"),
            Value::Switch(is_on) => f.write_str(if is_on { "on" } else { "off" }),
            Value::Codec(codec) => f.write_str(codec.text()),
            Value::Random(is_random) => f.write_str(if is_random { "random" } else { "normal" }),
        }
    }
}

/// Bytes as [`size`] reads them, with the largest suffix that leaves a whole number.
pub(super) fn bytes_text(bytes: u64) -> String {
    let suffixes = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let whole = |(shift, _): &(u32, &str)| bytes > 0 && bytes.trailing_zeros() >= *shift;
    match suffixes.into_iter().find(whole) {
        Some((shift, suffix)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}
