//! Results for programs: one JSON value a line.
//!
//! Keys, values and paths are bytes: `"key"` holds them if they are UTF-8, `"key_base64"` if they are
//! not, as in the `jsonl` text format.

use crate::output;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use credenza::Result;
use serde_json::{Map, Value};
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

/// An object with a key, and the value if there is one, on a line; without a value it is null.
pub fn record_line(key: &[u8], value: Option<&[u8]>) -> String {
    let mut object = Map::new();
    put_bytes(&mut object, "key", key);
    match value {
        Some(value) => put_bytes(&mut object, "value", value),
        None => drop(object.insert("value".into(), Value::Null)),
    }
    line(&Value::Object(object))
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
