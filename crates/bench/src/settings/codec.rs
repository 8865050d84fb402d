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
    /// This and those below are for keys that are numbers of 32 bits, of which differences are kept.
    Varbyte,
    Simdcomp,
    GroupVarint,
    StreamVbyte,
    FrameOfReference,
    SimdFrameOfReference,
}

impl Codec {
    pub(super) const ALL: [Codec; 16] = [
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
        Codec::Varbyte,
        Codec::Simdcomp,
        Codec::GroupVarint,
        Codec::StreamVbyte,
        Codec::FrameOfReference,
        Codec::SimdFrameOfReference,
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
            Codec::Varbyte => "zint32-varbyte",
            Codec::Simdcomp => "zint32-simdcomp",
            Codec::GroupVarint => "zint32-groupvarint",
            Codec::StreamVbyte => "zint32-streamvbyte",
            Codec::FrameOfReference => "zint32-for",
            Codec::SimdFrameOfReference => "zint32-simdfor",
        }
    }

    /// Whether it is for keys that are numbers of 32 bits, and no others.
    pub(crate) const fn is_of_numbers(self) -> bool {
        matches!(
            self,
            Codec::Varbyte
                | Codec::Simdcomp
                | Codec::GroupVarint
                | Codec::StreamVbyte
                | Codec::FrameOfReference
                | Codec::SimdFrameOfReference
        )
    }

    pub(super) fn find(text: &str) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.text() == text)
    }
}
