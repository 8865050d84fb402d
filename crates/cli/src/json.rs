//! Results for programs: one JSON value a line.
//!
//! Keys, values and paths are bytes: `"key"` holds them if they are UTF-8, `"key_base64"` if they are
//! not, as in the `jsonl` text format.

use crate::output::{self, Output};
use base64::Engine as _;
use base64::display::Base64Display;
use base64::prelude::BASE64_STANDARD;
use credenza::{Error, Result};
use serde_json::{Map, Value};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Adds bytes to an object under `name`, or under `name_base64`.
pub fn put_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.into(), text.into()),
        Err(_) => object.insert(format!("{name}_base64"), BASE64_STANDARD.encode(bytes).into()),
    };
}

/// An object that begins with the paths of files, before what `rest` has: as bytes, for one that is not
/// UTF-8 must lead back to its file.
pub fn with_paths<const N: usize>(paths: [(&str, &Path); N], rest: Value) -> Value {
    let mut object = Map::new();
    for (name, path) in paths {
        put_bytes(&mut object, name, path.as_os_str().as_bytes());
    }
    if let Value::Object(rest) = rest {
        object.extend(rest);
    }
    Value::Object(object)
}

/// The same of a command that makes one file of another. It names these alike whatever the command; what is called the
/// `store` is the one or the other.
pub fn of_copy(store: &Path, (source, target): (&Path, &Path), rest: Value) -> Value {
    with_paths([("store", store), ("source", source), ("target", target)], rest)
}

/// Writes an object with a key and the value, if there is one, on a line; without a value it is null. Nothing is
/// made of them in memory, where there may be no room for a long value.
pub fn put_record(out: &mut Output, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    put_field(out, "{", "key", key)?;
    match value {
        Some(value) => put_field(out, ",", "value", value)?,
        None => out.put(b",\"value\":null")?,
    }
    out.put(b"}\n")
}

/// Writes an object with a key on a line.
pub fn put_key(out: &mut Output, key: &[u8]) -> Result<()> {
    put_field(out, "{", "key", key)?;
    out.put(b"}\n")
}

/// Writes a field as [`put_bytes`] makes it.
fn put_field(out: &mut Output, begin: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let written = match std::str::from_utf8(bytes) {
        Ok(text) => write!(out, "{begin}\"{name}\":")
            .and_then(|()| serde_json::to_writer(&mut *out, text).map_err(io::Error::from)),
        Err(_) => {
            let text = Base64Display::new(bytes, &BASE64_STANDARD);
            write!(out, "{begin}\"{name}_base64\":\"{text}\"")
        }
    };
    written.map_err(|e| Error::io("write", e).at(out.name()))
}

/// The value on a line.
pub fn line(value: &Value) -> String {
    format!("{value}\n")
}

/// Prints the value on a line of standard output.
pub fn print(value: &Value) -> Result<()> {
    output::print(line(value))
}

/// The same for what was done: see [`output::tell`].
pub fn tell(value: &Value) -> Result<()> {
    output::tell(line(value))
}
