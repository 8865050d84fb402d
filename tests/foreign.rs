//! Danger: a foreign file that is read or written otherwise than its own tools do, or that makes
//! the reader panic, run for ever, or take all memory.

mod common;

use common::{Records, Rng, random_records, rounds, seed};
use credenza::foreign::{Cdb, Cdb64, Cdb64Writer, CdbWriter, Mcdb, McdbWriter};
use credenza::{Access, Error, ErrorKind, Get, OpenOptions, Result, Scan, Store, StoreStats, open};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FORMATS: [&str; 3] = ["cdb", "cdb64", "mcdb"];
const ACCESSES: [Access; 3] = [Access::Map, Access::Read, Access::Memory];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/foreign").join(name)
}

/// The records of `records.txt`; a plain parser of `+klen,vlen:key->value`.
fn fixture_records() -> Records {
    let text = fs::read(fixture("records.txt")).unwrap();
    let mut rest = text.as_slice();
    let mut records = Vec::new();
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<usize>().unwrap();
    while let Some(record) = rest.strip_prefix(b"+") {
        let comma = record.iter().position(|b| *b == b',').unwrap();
        let colon = record.iter().position(|b| *b == b':').unwrap();
        let (key_len, value_len) = (number(&record[..comma]), number(&record[comma + 1..colon]));
        let (key, after) = record[colon + 1..].split_at(key_len);
        let (value, after) = after.strip_prefix(b"->").unwrap().split_at(value_len);
        records.push((key.to_vec(), value.to_vec()));
        rest = after.strip_prefix(b"\n").unwrap();
    }
    assert_eq!(rest, b"\n");
    records
}

/// Writes `records` with our writer.
fn write(format: &str, path: &Path, records: &Records) -> Result<()> {
    macro_rules! with {
        ($writer:ty) => {{
            let mut writer = <$writer>::create(path)?;
            records.iter().try_for_each(|(k, v)| writer.add(k, v))?;
            writer.finish()
        }};
    }
    match format {
        "cdb" => with!(CdbWriter),
        "cdb64" => with!(Cdb64Writer),
        _ => with!(McdbWriter),
    }
}

/// Opens bytes as a file of `format`.
fn from_bytes(format: &str, bytes: Vec<u8>) -> Result<Store> {
    match format {
        "cdb" => Cdb::from_bytes(bytes).map(Store::Cdb),
        "cdb64" => Cdb64::from_bytes(bytes).map(Store::Cdb64),
        _ => Mcdb::from_bytes(bytes).map(Store::Mcdb),
    }
}

fn values_by_key(records: &Records) -> BTreeMap<&[u8], Vec<&[u8]>> {
    let mut by_key: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for (key, value) in records {
        by_key.entry(key).or_default().push(value);
    }
    by_key
}

fn scanned(store: &Store) -> Result<Records> {
    let mut records = Vec::new();
    store.scan(|k, v| {
        records.push((k.to_vec(), v.to_vec()));
        Ok(())
    })?;
    Ok(records)
}

/// Everything that `store` answers is as `records`, whose values are in the order `values`.
fn check(store: &Store, records: &Records, values: &BTreeMap<&[u8], Vec<&[u8]>>, rng: &mut Rng) {
    assert_eq!(&scanned(store).unwrap(), records);
    assert_eq!(store.len().unwrap(), records.len() as u64);
    let mut keys: Vec<&[u8]> = values.keys().copied().collect();
    let absent: Vec<Vec<u8>> = (0..50).map(|i| rng.bytes(i % 9)).collect();
    keys.extend(absent.iter().map(Vec::as_slice));
    for key in &keys {
        let expected = values.get(key).map_or(&[][..], |all| all);
        assert_eq!(store.get_all(key).unwrap(), expected);
        assert_eq!(store.get(key).unwrap().as_deref(), expected.first().copied());
        assert_eq!(store.contains_key(key).unwrap(), !expected.is_empty());
    }
    rng.shuffle(&mut keys);
    let mut calls = 0;
    store
        .get_many(&keys, |i, value| {
            assert_eq!(i, calls);
            calls += 1;
            assert_eq!(value, values.get(keys[i]).and_then(|all| all.first()).copied());
        })
        .unwrap();
    assert_eq!(calls, keys.len());
    let mut last = (0, 0);
    store.verify(|done, total| last = (done, total)).unwrap();
    assert_eq!(last.0, last.1);
    sums_agree(&store.stats().unwrap(), records);
}

fn sums_agree(stats: &StoreStats, records: &Records) {
    assert_eq!(stats.records, records.len() as u64);
    assert_eq!(stats.key_bytes, records.iter().map(|(k, _)| k.len() as u64).sum::<u64>());
    assert_eq!(stats.value_bytes, records.iter().map(|(_, v)| v.len() as u64).sum::<u64>());
    let parts = stats.key_bytes + stats.value_bytes + stats.directory_bytes + stats.slack_bytes;
    assert_eq!(parts, stats.file_bytes);
    assert_eq!(stats.histogram.as_ref().expect("a histogram").1.iter().sum::<u64>(), stats.records);
}

fn djb(key: &[u8]) -> u32 {
    key.iter().fold(5381u32, |h, c| h.wrapping_mul(33) ^ u32::from(*c))
}

/// The order in which mcdb itself returns values: blocks of 250 of a table, the newest first.
fn order_of_mcdb(records: &Records) -> BTreeMap<&[u8], Vec<&[u8]>> {
    let mut tables: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for (key, value) in records {
        tables.entry(djb(key) & 0xff).or_default().push((key.as_slice(), value.as_slice()));
    }
    let mut by_key: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for (key, value) in tables.values().flat_map(|table| table.chunks(250).rev()).flatten() {
        by_key.entry(key).or_default().push(value);
    }
    by_key
}

#[test]
fn files_of_the_real_tools_are_read_back_exactly() {
    let records = fixture_records();
    assert_eq!(records.len(), 492);
    let input_order = values_by_key(&records);
    let blocks = order_of_mcdb(&records);
    assert_ne!(input_order, blocks, "the fixture must show the difference");
    let none = Records::new();
    let nothing = BTreeMap::new();
    let mut rng = Rng::new(7);
    for (name, kind, records, values) in [
        ("tinycdb.cdb", "cdb", &records, &input_order),
        ("cdbmake.cdb64", "cdb64", &records, &input_order),
        ("purecdb.cdb64", "cdb64", &records, &input_order),
        ("mcdbctl.mcdb", "mcdb", &records, &blocks),
        ("tinycdb-empty.cdb", "cdb", &none, &nothing),
        ("mcdbctl-empty.mcdb", "mcdb", &none, &nothing),
    ] {
        println!("{name}");
        for access in ACCESSES {
            let store = OpenOptions::new().access(access).open(fixture(name)).unwrap();
            assert_eq!(store.kind(), kind);
            check(&store, records, values, &mut rng);
            store.preload().unwrap();
            let residency = store.residency().unwrap();
            assert!(residency.resident <= residency.total && residency.total > 0);
        }
        let bytes = fs::read(fixture(name)).unwrap();
        check(&from_bytes(kind, bytes).unwrap(), records, values, &mut rng);
    }
}

#[test]
fn records_that_tinycdb_erased_are_not_there() {
    let records: Records = vec![(b"c".into(), b"d".into()), (b"a".into(), b"cc".into())];
    let store = open(fixture("tinycdb-erased.cdb")).unwrap();
    check(&store, &records, &values_by_key(&records), &mut Rng::new(1));
    assert_eq!(store.get(b"").unwrap(), None);
    assert_eq!(store.stats().unwrap().slack_bytes, 10);
}

/// tinycdb takes out records that are replaced, and leaves the file as long as it was.
#[test]
fn a_file_that_tinycdb_made_no_shorter_is_whole() {
    let records: Records = [("b", "1"), ("a", "2"), ("c", ""), ("long", "zzzzzzzzzz")]
        .map(|(key, value)| (key.into(), value.into()))
        .into();
    let path = fixture("tinycdb-replaced.cdb");
    let values = values_by_key(&records);
    for access in ACCESSES {
        let store = OpenOptions::new().access(access).open(&path).unwrap();
        check(&store, &records, &values, &mut Rng::new(1));
        let stats = store.stats().unwrap();
        let in_use = 2048 + 4 * 8 + 19 + 8 * 8;
        assert_eq!((stats.file_bytes, stats.slack_bytes), (7379, 7379 - in_use), "{stats:?}");
    }
    // Only cdb files: nothing else leaves them so.
    for (name, kind) in
        [("tinycdb.cdb", "cdb"), ("cdbmake.cdb64", "cdb64"), ("mcdbctl.mcdb", "mcdb")]
    {
        let bytes = [fs::read(fixture(name)).unwrap(), b"more".to_vec()].concat();
        assert_eq!(from_bytes(kind, bytes).is_ok(), kind == "cdb", "{name}");
    }
}

#[test]
fn our_writers_write_the_bytes_of_the_real_tools() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ours");
    let records = fixture_records();
    for (format, theirs) in [("cdb", "tinycdb.cdb"), ("cdb64", "cdbmake.cdb64")] {
        write(format, &path, &records).unwrap();
        assert!(fs::read(&path).unwrap() == fs::read(fixture(theirs)).unwrap(), "{theirs}");
    }
    for (format, theirs) in [("cdb", "tinycdb-empty.cdb"), ("mcdb", "mcdbctl-empty.mcdb")] {
        write(format, &path, &Vec::new()).unwrap();
        assert!(fs::read(&path).unwrap() == fs::read(fixture(theirs)).unwrap(), "{theirs}");
    }
    // mcdb fills the one table that has more than 250 records in another order.
    write("mcdb", &path, &records).unwrap();
    let (ours, theirs) = (fs::read(&path).unwrap(), fs::read(fixture("mcdbctl.mcdb")).unwrap());
    assert_eq!(ours.len(), theirs.len());
    let entry = (djb(b"many") & 0xff) as usize * 16;
    let number = |at: usize| usize::from_str_radix(&hex(&theirs[at..at + 8]), 16).unwrap();
    let table = number(entry)..number(entry + 16);
    assert!(ours[..table.start] == theirs[..table.start]);
    assert!(ours[table.end..] == theirs[table.end..]);
    let slots = |file: &[u8]| -> BTreeSet<Vec<u8>> {
        file[table.clone()].chunks(8).map(<[u8]>::to_vec).collect()
    };
    assert_eq!(slots(&ours), slots(&theirs));
    let store = open(&path).unwrap();
    check(&store, &records, &values_by_key(&records), &mut Rng::new(3));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn random_multisets_are_read_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    for round in 0..rounds(120) {
        let mut rng = Rng::new(seed(round));
        let records = random_records(&mut rng);
        let values = values_by_key(&records);
        for format in FORMATS {
            write(format, &path, &records).unwrap();
            let access = ACCESSES[rng.below(3) as usize];
            let store = OpenOptions::new().access(access).open(&path).unwrap();
            assert_eq!(store.kind(), format);
            check(&store, &records, &values, &mut rng);
        }
    }
}

#[test]
fn very_many_values_of_one_key_take_no_square_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let records: Records = (0..100_000u32)
        .map(|i| (if i % 2 == 0 { vec![] } else { b"key".to_vec() }, i.to_le_bytes()[..3].into()))
        .map(|(k, v): (Vec<u8>, Vec<u8>)| if k.is_empty() { (k, vec![]) } else { (k, v) })
        .collect();
    for format in FORMATS {
        write(format, &path, &records).unwrap();
        let store = open(&path).unwrap();
        assert!(scanned(&store).unwrap() == records);
        assert_eq!(store.get_all(b"key").unwrap().len(), 50_000);
        assert_eq!(store.get_all(b"").unwrap().len(), 50_000);
        store.verify(|_, _| ()).unwrap();
        assert_eq!(store.stats().unwrap().records, 100_000);
    }
}

/// It had the name of the file, as if that were what cannot be written.
#[test]
fn what_stops_a_scan_is_not_called_an_error_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    for format in ["cdb", "cdb64", "mcdb"] {
        let path = dir.path().join(format);
        write(format, &path, &fixture_records()).unwrap();
        let full = || Error::io("write", std::io::ErrorKind::StorageFull.into());
        let error = open(&path).unwrap().scan(|_, _| Err(full())).unwrap_err();
        assert_eq!((error.path(), error.to_string()), (None, full().to_string()), "{format}");
    }
}

#[test]
fn an_abandoned_writer_leaves_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    fs::write(&path, b"old").unwrap();
    let mut writer = CdbWriter::create(&path).unwrap();
    writer.add(b"k", b"v").unwrap();
    drop(writer);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

// --- bad files -------------------------------------------------------------------------------

/// A small file of `format`, and which of its bytes may change without anybody noticing.
fn small(format: &str) -> (Vec<u8>, Records, BTreeSet<usize>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("small");
    let mut records: Records =
        (0..12u8).map(|i| (vec![b'k', i], vec![b'v'; usize::from(i) + 1])).collect();
    records.extend((0..4u8).map(|i| (b"twice".to_vec(), vec![b'0' + i])));
    records.push((vec![], b"empty".to_vec()));
    write(format, &path, &records).unwrap();
    let (mut at, head) = match format {
        "cdb" => (2048, 8),
        "cdb64" => (4096, 16),
        _ => (4096, 8),
    };
    let mut in_values = BTreeSet::new();
    for (key, value) in &records {
        at += head + key.len();
        in_values.extend(at..at + value.len());
        at += value.len();
    }
    (fs::read(&path).unwrap(), records, in_values)
}

/// Whether the byte is the low one of the last value's length, in mcdb: with a larger length the
/// value takes in a part of the padding, which no check can tell from a value of that length.
fn may_take_in_padding(
    format: &str,
    records: &Records,
    values: &BTreeSet<usize>,
    at: usize,
) -> bool {
    let last_key = records.last().map_or(0, |(k, _)| k.len());
    let last_value = records.last().map_or(0, |(_, v)| v.len());
    let end = values.last().map_or(0, |last| last + 1);
    format == "mcdb" && at + last_value + last_key + 1 == end
}

/// Does everything that can be done with the file; errors must blame it. Returns whether all of
/// it went well.
fn exercise(opened: Result<Store>, records: &Records) -> bool {
    let blame = |e: Error| {
        assert!(e.is_bad_file(), "{e}");
        if let ErrorKind::Corrupt { offset, .. } = e.kind() {
            assert!(*offset < 1 << 20, "{e}");
        }
    };
    let store = match opened {
        Ok(store) => store,
        Err(e) => {
            blame(e);
            return false;
        }
    };
    let keys: Vec<&[u8]> = records.iter().map(|(k, _)| k.as_slice()).collect();
    let mut fine = true;
    let mut done = |result: Result<()>| {
        if let Err(e) = result {
            blame(e);
            fine = false;
        }
    };
    for key in &keys {
        done(store.get(key).map(drop));
        done(store.get_all(key).map(drop));
        done(store.contains_key(key).map(drop));
    }
    done(store.get(b"absent").map(drop));
    done(store.get_many(&keys, |_, _| ()));
    done(store.scan(|_, _| Ok(())));
    done(store.len().map(drop));
    done(store.stats().map(drop));
    done(store.verify(|_, _| ()));
    fine
}

#[test]
fn a_file_cut_off_anywhere_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut");
    for format in FORMATS {
        let (bytes, records, _) = small(format);
        assert!(exercise(from_bytes(format, bytes.clone()), &records));
        for len in 0..bytes.len() {
            let opened = from_bytes(format, bytes[..len].to_vec());
            assert!(!exercise(opened, &records), "{format} of {len} bytes");
        }
        for len in [0, 1, 2047, 2048, 4095, 4096, bytes.len() - 1] {
            fs::write(&path, &bytes[..len.min(bytes.len() - 1)]).unwrap();
            let error = open(&path).unwrap_err();
            assert!(error.is_bad_file() && error.path() == Some(&path), "{error}");
        }
        let longer = [bytes.as_slice(), b"x"].concat();
        // tinycdb leaves cdb files so.
        assert_eq!(exercise(from_bytes(format, longer), &records), format == "cdb", "{format}");
    }
}

#[test]
fn every_flipped_bit_outside_values_is_found() {
    for format in FORMATS {
        let (bytes, records, in_values) = small(format);
        for at in 0..bytes.len() {
            for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                let mut bad = bytes.clone();
                bad[at] ^= flip;
                let fine = exercise(from_bytes(format, bad), &records);
                if !may_take_in_padding(format, &records, &in_values, at) {
                    assert_eq!(fine, in_values.contains(&at), "{format}: byte {at} ^ {flip}");
                }
            }
        }
    }
}

#[test]
fn flipped_bytes_are_found_with_pread_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flipped");
    for format in FORMATS {
        let (bytes, records, in_values) = small(format);
        for at in (0..bytes.len()).step_by(7) {
            let mut bad = bytes.clone();
            bad[at] ^= 0xff;
            fs::write(&path, &bad).unwrap();
            let fine = exercise(OpenOptions::new().access(Access::Read).open(&path), &records);
            assert_eq!(fine, in_values.contains(&at), "{format}: byte {at}");
        }
    }
}

#[test]
fn random_bytes_are_no_store() {
    for round in 0..rounds(300) {
        let mut rng = Rng::new(seed(round));
        for format in FORMATS {
            let (good, records, _) = small(format);
            // All random; or the header alone right; or a few places of a good file changed.
            let len = rng.below(10_000) as usize;
            let mut bytes = rng.bytes(len);
            assert!(!exercise(from_bytes(format, bytes.clone()), &records));
            bytes = good.clone();
            let header = if format == "cdb" { 2048 } else { 4096 };
            let noise = rng.bytes(bytes.len() - header);
            bytes[header..].copy_from_slice(&noise);
            assert!(!exercise(from_bytes(format, bytes), &records));
            bytes = good.clone();
            for _ in 0..rng.below(6) + 1 {
                let at = header + rng.below((bytes.len() - header) as u64) as usize;
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff, rng.next() as u8][rng.below(6) as usize];
            }
            exercise(from_bytes(format, bytes), &records);
        }
    }
}

#[test]
fn extreme_headers_are_no_store() {
    for format in FORMATS {
        let (good, records, _) = small(format);
        for byte in [0x00, 0xff, 0x7f, 0x80] {
            let mut bytes = good.clone();
            let header = if format == "cdb" { 2048 } else { 4096 };
            bytes[..header].fill(byte);
            assert!(!exercise(from_bytes(format, bytes.clone()), &records));
            bytes.truncate(header);
            assert!(!exercise(from_bytes(format, bytes), &records));
        }
    }
}

/// A cdb file whose slots all refer to the one record of the key "k".
fn one_record_many_slots(value_len: usize, slots: u32) -> Vec<u8> {
    let record = [&1u32.to_le_bytes()[..], &(value_len as u32).to_le_bytes(), b"k"].concat();
    let data_end = 2048 + (record.len() + value_len) as u32;
    let table = djb(b"k") & 0xff;
    let mut bytes = Vec::new();
    for i in 0..256 {
        let at = if i > table { data_end + 8 * slots } else { data_end };
        bytes.extend(at.to_le_bytes());
        bytes.extend(if i == table { slots } else { 0 }.to_le_bytes());
    }
    bytes.extend(record);
    bytes.resize(data_end as usize, b'v');
    for _ in 0..slots {
        bytes.extend(djb(b"k").to_le_bytes());
        bytes.extend(2048u32.to_le_bytes());
    }
    bytes
}

#[test]
fn many_slots_for_one_large_record_do_not_take_all_memory() {
    // Its values together would have 1 TB.
    let bytes = one_record_many_slots(1 << 20, 1 << 20);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hostile.cdb");
    fs::write(&path, bytes).unwrap();
    for access in ACCESSES {
        let store = Cdb::options().access(access).open(&path).unwrap();
        assert_eq!(store.get(b"k").unwrap().unwrap().len(), 1 << 20);
        let error = store.get_all(b"k").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
        assert!(store.verify(|_, _| ()).unwrap_err().to_string().contains("two slots"));
        // A table without an empty slot: the probe for an absent key ends all the same.
        let hash_twin =
            (0..u32::MAX).map(|i| i.to_le_bytes()).find(|k| djb(k) & 0xff == djb(b"k") & 0xff);
        assert_eq!(store.get(&hash_twin.unwrap()).unwrap(), None);
    }
}

// --- recognition -----------------------------------------------------------------------------

#[test]
fn what_is_no_store_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let message = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        let error = open(&path).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongFormat { .. }), "{error}");
        error.to_string()
    };
    assert!(message(b"").contains("it is empty"));
    assert!(message(b"+1,1:a->b\n\n").contains("`credenza load`"));
    assert!(message("schl\u{fc}ssel\twert\r\n".as_bytes()).contains("`credenza load`"));
    let binary = message(&[0; 10_000]);
    for tried in ["constant", "mcdb", "cdb64", "cdb "] {
        assert!(binary.contains(tried), "{binary}");
    }
    assert!(open(dir.path()).unwrap_err().to_string().contains("directory"));
    assert!(open(dir.path().join("none")).is_err());
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert!(open(&fifo).unwrap_err().to_string().contains("FIFO"));
    assert!(Cdb::open(&fifo).unwrap_err().is_bad_file());
}

#[test]
fn a_constant_file_is_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut builder = credenza::constant::Builder::create(&path).unwrap();
    builder.add(b"k", b"v").unwrap();
    builder.finish().unwrap();
    for access in ACCESSES {
        let store = OpenOptions::new().access(access).open(&path).unwrap();
        assert_eq!(store.kind(), "constant");
        assert_eq!(store.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        let stats = store.stats().unwrap();
        assert_eq!((stats.records, stats.key_bytes, stats.value_bytes), (1, 1, 1));
    }
}

// --- the real tools --------------------------------------------------------------------------

/// Runs a tool; `None`, with a printed line, if it is not installed.
fn run(tool: &str, args: &[&std::ffi::OsStr]) -> Option<Vec<u8>> {
    match Command::new(tool).args(args).output() {
        Ok(output) => {
            assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
            Some(output.stdout)
        }
        Err(e) => {
            println!("skipped: {tool} cannot be run: {e}");
            None
        }
    }
}

/// A tool that makes and dumps files of a format: arguments before the file for both.
struct Tool {
    name: &'static str,
    format: &'static str,
    make: &'static str,
    dump: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool { name: "cdb", format: "cdb", make: "-c", dump: "-d" },
    Tool { name: "mcdbctl", format: "mcdb", make: "make", dump: "dump" },
];

fn as_text(records: &Records) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        text.extend(format!("+{},{}:", key.len(), value.len()).into_bytes());
        text.extend([key, &b"->"[..], value, b"\n"].concat());
    }
    text.push(b'\n');
    text
}

#[test]
fn the_real_tools_read_ours_and_we_read_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let text_file = dir.path().join("text");
    for tool in TOOLS {
        for round in 0..rounds(10) {
            let mut rng = Rng::new(seed(round));
            let records = random_records(&mut rng);
            let text = as_text(&records);
            fs::write(&text_file, &text).unwrap();
            let args = [tool.make.as_ref(), theirs.as_os_str(), text_file.as_os_str()];
            if run(tool.name, &args).is_none() {
                break;
            }
            write(tool.format, &ours, &records).unwrap();
            let dumped = run(tool.name, &[tool.dump.as_ref(), ours.as_os_str()]).unwrap();
            assert!(dumped == text, "{} reads ours otherwise", tool.name);
            let store = open(&theirs).unwrap();
            assert_eq!(store.kind(), tool.format);
            let values = match tool.format {
                "mcdb" => order_of_mcdb(&records),
                _ => values_by_key(&records),
            };
            check(&store, &records, &values, &mut rng);
            if tool.format == "cdb" {
                assert!(fs::read(&ours).unwrap() == fs::read(&theirs).unwrap());
            }
            let _ = fs::remove_file(&theirs);
        }
    }
}

#[test]
fn clones_are_read_by_many_threads_at_once() {
    let records = fixture_records();
    let values = values_by_key(&records);
    for access in ACCESSES {
        let store = OpenOptions::new().access(access).open(fixture("tinycdb.cdb")).unwrap();
        std::thread::scope(|scope| {
            for i in 0..4 {
                let (store, records, values) = (store.clone(), &records, &values);
                scope.spawn(move || check(&store, records, values, &mut Rng::new(i)));
            }
        });
    }
}

/// Danger: who prints a structure with a reader in it gets all of the file as decimal numbers.
#[test]
fn a_file_in_memory_is_shown_by_its_length() {
    let bytes = [&2048u32.to_le_bytes()[..], &[0; 4]].concat().repeat(256);
    let shown = format!("{:?}", Cdb::from_bytes(bytes).unwrap());
    assert!(shown.contains("2048 bytes"), "{shown}");
}
