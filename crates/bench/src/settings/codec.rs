//! How stores make smaller what they hold: the values of `compression`, `key-compression` and
//! `journal-compression`.

use serde::{Deserialize, Serialize};

/// How records, pages or blocks are made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Codec {
    None,
    Snappy,
    Zlib,
    Lz4,
    Zstd,
    Bzip2,
    Lzf,
    Lzo,
    Lzma,
    /// What a key has in common with the one before it is left out.
    Prefix,
}

impl Codec {
    pub(super) const ALL: [Codec; 10] = [
        Codec::None,
        Codec::Snappy,
        Codec::Zlib,
        Codec::Lz4,
        Codec::Zstd,
        Codec::Bzip2,
        Codec::Lzf,
        Codec::Lzo,
        Codec::Lzma,
        Codec::Prefix,
    ];

    /// The name in options and results.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Snappy => "snappy",
            Codec::Zlib => "zlib",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
            Codec::Bzip2 => "bzip2",
            Codec::Lzf => "lzf",
            Codec::Lzo => "lzo",
            Codec::Lzma => "lzma",
            Codec::Prefix => "prefix",
        }
    }

    pub(super) fn find(text: &str) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.text() == text)
    }
}
