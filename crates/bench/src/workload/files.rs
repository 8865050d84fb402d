//! Data sets that exist: the machine's own file paths, or a file of records.

use super::records::{Collector, Records};
use crate::replay::{self, Script, unread};
use credenza::record::Trace;
use credenza::{Error, Result};
use credenza_formats::{Compression, Format};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Every path below `root`, with its size, mode and time of change as text: `1234 100644
/// 1690000000`. Folders that may not be read are passed over. In the order of names, so that an
/// unchanged disk gives the same records again.
pub(crate) fn paths_below(root: &Path, limit: usize) -> Result<Records> {
    let start = root.canonicalize().map_err(|e| Error::io("find", e).at(root))?;
    let mut records = Records::default();
    let mut pending = vec![start];
    while let Some(folder) = pending.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        entries.sort_unstable();
        let mut folders = Vec::new();
        for path in entries {
            let Ok(facts) = path.symlink_metadata() else { continue };
            if records.len() >= limit {
                return Ok(records);
            }
            let value = format!("{} {:o} {}", facts.size(), facts.mode(), facts.mtime());
            records.push(path.as_os_str().as_bytes(), value.as_bytes())?;
            if facts.is_dir() {
                folders.push(path);
            }
        }
        pending.extend(folders.into_iter().rev());
    }
    Ok(records)
}

/// The words that a machine brings, one a line.
pub(crate) const WORDS: &str = "/usr/share/dict/words";

/// Every word of a file with one a line, the number of its line as its value.
pub(crate) fn words(path: &Path, limit: usize) -> Result<Records> {
    let mut collector = Collector::new(limit);
    for (number, line) in (1_u64..).zip(opened(path)?.split(b'\n')) {
        let word = line.map_err(|e| Error::io("read", e).at(path))?;
        if collector.is_full() {
            break;
        }
        if !word.is_empty() {
            collector.offer(&word, number.to_string().as_bytes())?;
        }
    }
    Ok(collector.records)
}

/// Opens a file to be read from its beginning to its end.
fn opened(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound if path == Path::new(WORDS) => {
            let what = "it is not there: on Debian the package wamerican brings it, or another list of words";
            Error::invalid(what).at(path)
        }
        _ => Error::io("open", e).at(path),
    })?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

/// Opens a file of records; its format is `named`, or what its beginning and name tell.
fn open(path: &Path, named: Option<Format>) -> Result<(Format, BufReader<File>)> {
    let mut input = opened(path)?;
    let start = input.fill_buf().map_err(|e| Error::io("read", e).at(path))?;
    match named.or_else(|| Format::guess(start, Some(path))) {
        Some(format) => Ok((format, input)),
        None => {
            let what = match (Compression::of(start), credenza::kind_of(path)) {
                (Some(Compression { name, unpack }), _) => format!(
                    "it is packed by {name}: unpack it first, as '{unpack} FILE > TEXT' does"
                ),
                (None, Ok(kind)) => {
                    format!(
                        "this is a {kind} store: 'credenza dump' makes text of it, to be named here"
                    )
                }
                (None, Err(_)) => {
                    "its format cannot be told from its content; say --format NAME".to_owned()
                }
            };
            Err(Error::invalid(what).at(path))
        }
    }
}

/// What a file of records has.
pub(crate) struct Found {
    pub(crate) records: Records,
    /// How many records were left out because their key had come before.
    pub(crate) repeated: u64,
    /// What else is to be known of it, in words.
    pub(crate) notes: Vec<String>,
}

/// The records of a file, the first of each key, at most `limit`. Of a trace, those that were stored in it,
/// with values made up. Without `format`, the file's beginning and name tell it.
pub(crate) fn records_of(path: &Path, format: Option<Format>, limit: usize) -> Result<Found> {
    if Trace::is_trace(path) {
        return stored_in(&Trace::open(path)?, limit);
    }
    let (format, input) = open(path, format)?;
    let mut reader = credenza_formats::reader(format, input);
    let mut collector = Collector::new(limit);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    while !collector.is_full()
        && reader.next_record(&mut key, &mut value).map_err(|e| e.at(path))?
    {
        collector.offer(&key, &value)?;
    }
    let Collector { records, repeated, .. } = collector;
    Ok(Found { records, repeated, notes: Vec::new() })
}

/// The records that were stored in a trace.
fn stored_in(trace: &Trace, limit: usize) -> Result<Found> {
    let script = Script::of(trace)?;
    let records = replay::records_of(&script, limit)?;
    if records.len() == 0 && limit > 0 {
        return Err(unread::nothing(trace, "there is no record in the trace"));
    }
    let says = unread::all(trace, &script.told);
    let notes = says.iter().map(|says| format!("the trace {says}")).collect();
    Ok(Found { records, repeated: 0, notes })
}
