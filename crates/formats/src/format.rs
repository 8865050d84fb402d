//! The formats by name, and recognising them.

use crate::{Codec, cdb, db_dump, json, lines, map, mdbm, tdb, tsv};
use credenza::Error;
use memchr::{memchr, memmem};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A text format. The [crate] compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `+klen,dlen:key->data`, of cdbmake, cdbdump, tinycdb and mcdb.
    CdbText,
    /// Key, tab, value; tab, line feed, carriage return, backslash and binary bytes are escaped.
    Tsv,
    /// Key, blanks, value, of tinycdb's `-m`; empty lines and lines that begin with `#` are comments.
    Map,
    /// Every line is a key with an empty value.
    Lines,
    /// Hexadecimal dump of Berkeley DB and LMDB. Reading follows the header, so that either flavour
    /// is read, and several databases one after the other as one; a name that comes twice is an error.
    DbDump,
    /// As [`Format::DbDump`], but writes printable text. Beware of `mdb_dump -p` of LMDB before 0.9.25:
    /// it does not escape backslashes, so that its output cannot be told from escapes.
    DbDumpPrint,
    /// Output of Samba's `tdbdump`, also of its `-x`.
    TdbDump,
    /// Output of MDBM's `mdbm_export`. It marks neither records nor the end: a missing line shifts keys and
    /// values, and a missing end goes unnoticed.
    MdbmExport,
    /// A JSON object a line: `key` and `value`, or `key_base64` and `value_base64` for what is not UTF-8.
    JsonLines,
}

impl Format {
    /// All formats, in the order of the help texts.
    pub const ALL: [Format; 9] = [
        Format::CdbText,
        Format::Tsv,
        Format::Map,
        Format::Lines,
        Format::DbDump,
        Format::DbDumpPrint,
        Format::TdbDump,
        Format::MdbmExport,
        Format::JsonLines,
    ];

    /// The name that [`FromStr`] takes.
    pub fn name(self) -> &'static str {
        match self {
            Format::CdbText => "cdb",
            Format::Tsv => "tsv",
            Format::Map => "map",
            Format::Lines => "lines",
            Format::DbDump => "db_dump",
            Format::DbDumpPrint => "db_dump-p",
            Format::TdbDump => "tdbdump",
            Format::MdbmExport => "mdbm_export",
            Format::JsonLines => "jsonl",
        }
    }

    /// The format of a text that begins with `first_bytes`: first by what only one format begins
    /// with, then by the ending of `file_name`, then by a tab in the first line; an empty line alone is
    /// how cdb text ends that has no records. `None` if nothing tells, as with plain lines of words,
    /// unless their file is called `.txt`. A few hundred bytes suffice.
    pub fn guess(first_bytes: &[u8], file_name: Option<&Path>) -> Option<Format> {
        let by_name = || file_name.and_then(Self::by_ending);
        let is_text = || file_name?.extension().filter(|ending| *ending == "txt");
        Self::by_signature(first_bytes)
            .or_else(by_name)
            .or_else(|| Self::by_tab(first_bytes))
            .or_else(|| (first_bytes == b"\n").then_some(Format::CdbText))
            .or_else(|| is_text().map(|_| Format::Lines))
    }

    fn by_signature(text: &[u8]) -> Option<Format> {
        let has = |what: &str| memmem::find(text, what.as_bytes()).is_some();
        if text.starts_with(b"VERSION=") {
            return Some(if has("\nformat=print") { Format::DbDumpPrint } else { Format::DbDump });
        }
        if text.starts_with(b"format=print") && has("\ntype=") {
            return Some(Format::MdbmExport);
        }
        if text.starts_with(b"{\nkey(") || text.starts_with(b"{\r\nkey(") {
            return Some(Format::TdbDump);
        }
        if text.first() == Some(&b'{') && has("\"key") {
            return Some(Format::JsonLines);
        }
        cdb::is_header(text).then_some(Format::CdbText)
    }

    fn by_ending(file_name: &Path) -> Option<Format> {
        match file_name.extension()?.to_str()? {
            "tsv" | "tab" => Some(Format::Tsv),
            "jsonl" | "ndjson" => Some(Format::JsonLines),
            "map" => Some(Format::Map),
            "lines" => Some(Format::Lines),
            _ => None,
        }
    }

    fn by_tab(text: &[u8]) -> Option<Format> {
        let line = &text[..memchr(b'\n', text).unwrap_or(text.len())];
        memchr(b'\t', line).map(|_| Format::Tsv)
    }

    pub(crate) fn codec(self) -> Box<dyn Codec> {
        match self {
            Format::CdbText => Box::new(cdb::CdbText),
            Format::Tsv => Box::new(tsv::Tsv),
            Format::Map => Box::new(map::Map),
            Format::Lines => Box::new(lines::Lines),
            Format::DbDump => Box::new(db_dump::DbDump::new(db_dump::Flavour::Hex)),
            Format::DbDumpPrint => Box::new(db_dump::DbDump::new(db_dump::Flavour::Print)),
            Format::TdbDump => Box::new(tdb::TdbDump),
            Format::MdbmExport => Box::new(mdbm::MdbmExport::default()),
            Format::JsonLines => Box::new(json::JsonLines::default()),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format, Error> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Format::name).join(", ");
            Error::invalid(format!("there is no text format '{name}'; there are {names}"))
        })
    }
}
