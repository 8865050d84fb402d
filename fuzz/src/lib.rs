//! What the fuzz targets do with the bytes they are given: one function for each kind of reader.
//!
//! A target must not only survive. What two ways of reading say must agree, what a format's reader
//! gives its writer must take and give back, and what `verify` approves must be found.

pub mod btree;
pub mod constant;
pub mod hash;
mod input;
pub mod stats;
pub mod trace;

use credenza::foreign::{Cdb, Cdb64, Mcdb};
use credenza::{ErrorKind, Get, Result, Scan};
use credenza_formats::{Format, reader, writer};
use std::io::{BufReader, Cursor};

/// Keys and values.
pub type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Where reading failed and why.
type Failure = (u64, u64, String);

/// Reads `data` as text, whole and in small pieces; writes what was read and reads that.
pub fn text(format: Format, data: &[u8]) {
    let _ = Format::guess(data, None);
    let (records, failure) = read(format, data, data.len().max(1));
    let pieces = read(format, data, 3);
    assert_eq!((&records, &failure), (&pieces.0, &pieces.1), "small buffers give something else");
    if let Some((line, column, what)) = &failure {
        let line = data.split(|b| *b == b'\n').nth(*line as usize - 1).expect("a line too far");
        assert!(*column >= 1 && *column <= line.len() as u64 + 1, "a column too far: {what}");
    }
    let flavours: &[Format] = match format {
        Format::DbDump => &[Format::DbDump, Format::DbDumpPrint],
        ref one => std::slice::from_ref(one),
    };
    for format in flavours {
        assert_eq!(read(*format, &write(*format, &records), 64), (records.clone(), None));
    }
}

fn read(format: Format, data: &[u8], buffer: usize) -> (Records, Option<Failure>) {
    let mut reader = reader(format, BufReader::with_capacity(buffer, Cursor::new(data.to_vec())));
    let (mut records, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match reader.next_record(&mut key, &mut value) {
            Ok(true) => records.push((key.clone(), value.clone())),
            Ok(false) => return (records, None),
            Err(error) => match error.kind() {
                ErrorKind::Text { line, column, what, .. } => {
                    return (records, Some((*line, *column, what.clone())));
                }
                _ => panic!("not an error of the text: {error}"),
            },
        }
    }
}

/// The text of records that the format must be able to express.
pub fn write(format: Format, records: &Records) -> Vec<u8> {
    let mut text = Vec::new();
    let mut writer = writer(format, &mut text);
    for (key, value) in records {
        writer.write(key, value).expect("what was read can be written");
    }
    writer.finish().expect("memory can be written");
    text
}

/// What a foreign file has besides lookups and scans.
pub trait Foreign: Get + Scan {
    /// Whether every byte that can be checked is right.
    fn verifies(&self) -> bool;
    /// Reads the statistics.
    fn count(&self);
}

macro_rules! foreign {
    ($($file:ty),*) => {$(
        impl Foreign for $file {
            fn verifies(&self) -> bool {
                self.verify(|_, _| ()).is_ok()
            }

            fn count(&self) {
                let _ = self.stats();
            }
        }
    )*};
}

foreign!(Cdb, Cdb64, Mcdb);

/// Reads a foreign file in every way.
pub fn foreign(file: &impl Foreign, data: &[u8]) {
    file.count();
    let verified = file.verifies();
    let records = exercise(file, data);
    if verified {
        let records = records.expect("a file that was verified can be read");
        all_found(file, &records);
    }
}

/// Looks keys up in every way and reads every record; the ways must agree.
pub fn exercise(store: &(impl Get + Scan), data: &[u8]) -> Result<Records> {
    let limit = data.len();
    let mut records = Vec::new();
    let scanned = store.scan(|key, value| {
        assert!(records.len() <= limit, "more records than bytes");
        records.push((key.to_vec(), value.to_vec()));
        Ok(())
    });
    let _ = store.len();
    let mut keys: Vec<Vec<u8>> = records.iter().take(12).map(|(key, _)| key.clone()).collect();
    keys.extend(data.chunks(7).take(12).map(<[u8]>::to_vec));
    keys.extend([Vec::new(), b"absent".to_vec(), vec![b'k'; 300]]);
    let single: Vec<Option<Option<Vec<u8>>>> =
        keys.iter().map(|key| Some(store.get(key).ok()?.map(|v| v.into_owned()))).collect();
    for (key, first) in keys.iter().zip(&single) {
        let _ = store.contains_key(key);
        if let (Ok(all), Some(first)) = (store.get_all(key), first) {
            assert_eq!(all.first().map(|v| &v[..]), first.as_deref(), "get and get_all");
        }
    }
    let mut many = vec![None; keys.len()];
    if store.get_many(&keys, |i, value| many[i] = Some(value.map(<[u8]>::to_vec))).is_ok() {
        for (many, single) in many.iter().zip(&single) {
            assert!(many.is_some(), "get_many left a key out");
            assert!(single.is_none() || many == single, "get and get_many");
        }
    }
    scanned.map(|()| records)
}

/// Every record is among the values of its key, in a store that was verified.
pub fn all_found(store: &impl Get, records: &Records) {
    for (key, value) in records.iter().take(50) {
        let values = store.get_all(key).expect("a key of a file that was verified");
        assert!(values.iter().any(|found| found[..] == value[..]), "a record cannot be found");
    }
}
