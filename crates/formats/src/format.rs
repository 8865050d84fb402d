//! The formats by name, and recognising them.

use crate::mark::MARK;
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

    /// How much of an input is looked at to tell its format.
    pub const LOOKED_AT: usize = 4096;

    /// The format of a text that begins with `first_bytes`: first by what only one format begins
    /// with, then by the ending of `file_name` (`.tsv`, `.tab`, `.jsonl`, `.ndjson`, `.map`, `.lines`), then by a tab in
    /// the first line; an empty line alone is
    /// how cdb text ends that has no records. `None` if nothing tells, as with plain lines of words, for which `.txt`
    /// does not speak: keys with values are called so, too; and of what is compressed, or has a NUL byte, which no text has
    /// but that of formats that begin with what tells, or whose file is called `.map` or `.lines`. No more
    /// than [`Format::LOOKED_AT`] bytes are looked at.
    pub fn guess(first_bytes: &[u8], file_name: Option<&Path>) -> Option<Format> {
        let first_bytes = &first_bytes[..first_bytes.len().min(Self::LOOKED_AT)];
        let first_bytes = first_bytes.strip_prefix(MARK).unwrap_or(first_bytes);
        if Compression::of(first_bytes).is_some() {
            return None;
        }
        let is_binary = memchr(0, first_bytes).is_some();
        // Their writers write NUL as it is.
        let is_right =
            |format: &Format| !is_binary || matches!(format, Format::Map | Format::Lines);
        let by_name = || file_name.and_then(Self::by_ending).filter(is_right);
        let told = Self::by_signature(first_bytes).or_else(by_name);
        if told.is_some() || is_binary {
            return told;
        }
        Self::by_tab(first_bytes).or_else(|| (first_bytes == b"\n").then_some(Format::CdbText))
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

    /// Whether the mark of UTF-8 at the begin of a text is no part of its first record: other formats tell how long
    /// a key is or are made by programs that write none.
    pub(crate) fn may_be_marked(self) -> bool {
        matches!(self, Format::Tsv | Format::Lines | Format::JsonLines)
    }

    /// Whether a text begins with the bytes of its first key, which may be those of the mark.
    pub(crate) fn begins_with_key(self) -> bool {
        matches!(self, Format::Tsv | Format::Lines)
    }

    pub(crate) fn codec(self) -> Box<dyn Codec> {
        match self {
            Format::CdbText => Box::new(cdb::CdbText),
            Format::Tsv => Box::new(tsv::Tsv),
            Format::Map => Box::new(map::Map),
            Format::Lines => Box::new(lines::Lines { are_values: false }),
            Format::DbDump => Box::new(db_dump::DbDump::new(db_dump::Flavour::Hex)),
            Format::DbDumpPrint => Box::new(db_dump::DbDump::new(db_dump::Flavour::Print)),
            Format::TdbDump => Box::new(tdb::TdbDump),
            Format::MdbmExport => Box::new(mdbm::MdbmExport::default()),
            Format::JsonLines => Box::new(json::JsonLines::default()),
        }
    }
}

/// What packs files: nothing in them is a text before they are unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Its name.
    pub name: &'static str,
    /// The command that writes what is in the file that is named behind it.
    pub unpack: &'static str,
}

impl Compression {
    /// That of a file that begins with `first_bytes`, if it is packed.
    pub fn of(first_bytes: &[u8]) -> Option<Compression> {
        let found = |name, unpack| Some(Compression { name, unpack });
        match first_bytes {
            [0x1f, 0x8b, ..] => found("gzip", "gzip -dc"),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => found("zstd", "zstd -dc"),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => found("xz", "xz -dc"),
            [b'P', b'K', 3, 4, ..] => found("zip", "unzip -p"),
            // A word may begin with the first three: behind them is how large blocks are, and how one begins, or
            // the end.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => {
                found("bzip2", "bzip2 -dc")
            }
            _ => None,
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
