//! What Tokyo Cabinet's two kinds of database have in common: `libtokyocabinet.so.9`.

#![allow(unsafe_code)]

use super::{Identity, Shape, Source, refused};
use crate::settings::{Codec, Name, Takes, Values};
use credenza::Result;
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;

pub(super) const SOURCE: Source = Source {
    names: &["libtokyocabinet.so.9", "libtokyocabinet.so"],
    package: Some("libtokyocabinet9"),
    home: "https://dbmx.net/tokyocabinet/",
};

pub(super) const READER: c_int = 1 << 0;
pub(super) const WRITER: c_int = 1 << 1;
pub(super) const CREATE: c_int = 1 << 2;
pub(super) const NO_LOCK: c_int = 1 << 4;
const LARGE: u8 = 1 << 0;
const DEFLATE: u8 = 1 << 1;
const BZIP: u8 = 1 << 2;
/// `TCENOREC`: no record found.
pub(super) const NO_RECORD: c_int = 22;

pub(super) const YIELDS: &str = "calls sched_yield on about every other operation, as shipped: it \
    suffers most from other programs on the same processor";

/// The bytes of the file, about.
pub(super) fn estimate(shape: &Shape) -> u64 {
    shape.bytes() + 32 * shape.records
}

/// How much of the file is mapped: all of it.
pub(super) fn mapped(shape: &Shape) -> i64 {
    (6 << 30).max(2 * estimate(shape)) as i64
}

/// Of a hash its records are compressed, of a tree its pages.
pub(super) const SETTINGS: &[Takes] =
    &[(Name::Compression, Values::Codecs(&[Codec::None, Codec::Zlib, Codec::Bzip2]))];

/// Numbers of eight bytes where four do not reach, and what is compressed.
pub(super) fn options(shape: &Shape) -> u8 {
    let compressed = match shape.settings.compression() {
        Codec::Zlib => DEFLATE,
        Codec::Bzip2 => BZIP,
        _ => 0,
    };
    compressed | if estimate(shape) > 1 << 31 { LARGE } else { 0 }
}

/// The library's version, out of its variable `tcversion`, and the file.
pub(super) fn identity(version: *const *const c_char, file: &Path) -> Identity {
    // SAFETY: `tcversion` is a variable of the library that holds a C string constant.
    let version = unsafe { CStr::from_ptr(*version) };
    Identity { version: version.to_string_lossy().into_owned(), file: Some(file.to_owned()) }
}

pub(super) fn c_len(bytes: &[u8]) -> Result<c_int> {
    c_int::try_from(bytes.len()).map_err(|_| refused("Tokyo Cabinet", "over 2 GiB in one piece"))
}
