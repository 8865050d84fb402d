//! Danger: a setting that a store is said to take and that does nothing, so that figures are said to be of
//! something they are not; or one with which a store loses or changes records. Each that a driver
//! declares is looked for where it shows from outside: in the files, in the maps and descriptors of this
//! process, in what becomes of a damaged byte. What a cache holds does not show, nor whether it was a cursor
//! that looked; there, as for all, the records must be as they were given.

use super::*;
use crate::measure;
use crate::settings::{Choices, Chosen, Codec, Name, Values};
use crate::workload::Types;
use credenza::btree::Key;
use std::collections::BTreeMap;

/// Runs a check of one setting for every store that is found and takes it.
struct Of<C>(Name, C);

trait Check {
    fn check<D: Driver>(&self, driver: &D, values: Values);
}

impl<C: Check> ForDriver for &Of<C> {
    type Output = usize;

    fn run<D: Driver>(self) -> usize {
        let Some((_, values)) = D::SETTINGS.iter().find(|(name, _)| *name == self.0) else {
            return 0;
        };
        match D::load(None) {
            Ok(driver) => self.1.check(&driver, *values),
            Err(e) => eprintln!("not tested: {}: {e}", D::NAME),
        }
        1
    }
}

/// How many stores take the setting: one that only one store takes would be a name for nothing.
fn check_all<C: Check>(name: Name, check: C) {
    let of = Of(name, check);
    let takers: usize = NAMES.iter().map(|store| with_driver(store, &of).unwrap()).sum();
    assert!(takers > 1, "{name:?}: {takers}");
}

fn chosen(texts: &[&str]) -> Chosen {
    let mut choices = Choices::default();
    texts.iter().for_each(|text| choices.set(text).unwrap());
    choices.of("any")
}

/// Records that become small when they are compressed, each alone and all together.
fn records() -> Records {
    let mut records = Records::default();
    for i in 0..200_u32 {
        let value = format!("{:0>10}", i.wrapping_mul(7919) % 1000).repeat(30);
        records.push(format!("key {i:05}").as_bytes(), value.as_bytes()).unwrap();
    }
    records
}

fn shape(records: &Records, settings: &[&str]) -> Shape {
    Shape { settings: chosen(settings), ..Shape::of(records) }
}

/// What a scan gives.
fn all_of<S: Store>(store: &mut S) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    store.scan(|key, value| drop(all.insert(key.to_vec(), value.to_vec()))).unwrap();
    all
}

/// Whether an open store has exactly these records.
fn has<S: Store>(store: &mut S, records: &Records, what: &str) {
    for (key, value) in records.iter() {
        let mut got = None;
        store.get(key, |value| got = Some(value.to_vec())).unwrap();
        assert_eq!(got.as_deref(), Some(value), "{what}: {}", key.escape_ascii());
    }
    assert!(!store.get(b"nothing", |_| {}).unwrap(), "{what}");
    let given = records.iter().map(|(key, value)| (key.to_vec(), value.to_vec()));
    assert_eq!(all_of(store), given.collect(), "{what}");
}

/// A store with these records, built so and left closed, in a folder of its own.
fn built<D: Driver>(driver: &D, records: &Records, settings: &[&str]) -> tempfile::TempDir {
    let (shape, folder) = (shape(records, settings), tempfile::tempdir().unwrap());
    let path = folder.path().join("store");
    driver
        .build(records, &shape, &path)
        .unwrap_or_else(|e| panic!("{}: {settings:?}: {e}", D::NAME));
    folder
}

/// The same, looked at: when it is open to be read, when it was changed one by one, and opened again.
fn works<D: Driver>(driver: &D, settings: &[&str]) -> tempfile::TempDir {
    let (records, what) = (&records(), &format!("{} {settings:?}", D::NAME));
    let (shape, folder) = (shape(records, settings), built(driver, records, settings));
    let path = folder.path().join("store");
    has(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), records, what);
    if D::Writer::IS_POSSIBLE {
        let (folder, others) = (tempfile::tempdir().unwrap(), &records.with_other_values());
        let path = folder.path().join("store");
        let mut writer = driver.create(&path, &shape).unwrap();
        records.iter().for_each(|(key, value)| writer.insert(key, value).unwrap());
        others.iter().for_each(|(key, value)| writer.insert(key, value).unwrap());
        assert!(writer.remove(records.key(7)).unwrap(), "{what}");
        writer.insert(records.key(7), others.get(7).1).unwrap();
        has(&mut writer, others, what);
        writer.close().unwrap();
        has(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), others, what);
    }
    folder
}

/// What `look` sees of the folder of such a store while that is open to be read.
fn while_open<D: Driver, T>(driver: &D, settings: &[&str], look: impl FnOnce(&Path) -> T) -> T {
    let (records, folder) = (&records(), works(driver, settings));
    let (shape, path) = (shape(records, settings), folder.path().join("store"));
    let mut store = driver.open(&path, &shape, Reading::Warm).unwrap();
    has(&mut store, records, D::NAME);
    look(folder.path())
}

fn bytes_of(folder: &Path) -> u64 {
    let files = measure::files_in(folder).unwrap();
    files.iter().map(|file| file.metadata().unwrap().len()).sum()
}

/// The same of what holds the records, where there is a log of what the store did as well.
fn data_bytes(folder: &Path) -> u64 {
    let is_table = |file: &PathBuf| file.extension().is_some_and(|e| e == "sst" || e == "ldb");
    let tables = measure::files_in(folder).unwrap().into_iter().filter(is_table);
    match tables.map(|file| file.metadata().unwrap().len()).sum() {
        0 => bytes_of(folder),
        bytes => bytes,
    }
}

struct PageSize;

impl Check for PageSize {
    fn check<D: Driver>(&self, driver: &D, _: Values) {
        let [small, large] = ["page-size=2K", "page-size=32K"].map(|text| works(driver, &[text]));
        let told = |folder: &tempfile::TempDir| {
            let head = std::fs::read(folder.path().join("store")).unwrap_or_default();
            let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
            match D::NAME {
                "bdb-btree" | "bdb-hash" => Some(number(20)),
                "gdbm" => Some(number(4)),
                "mdbm" => Some(number(32)),
                "sqlite" => Some(u32::from(head[16]) << 8 | u32::from(head[17])),
                _ => None,
            }
        };
        match (told(&small), told(&large)) {
            (Some(small), Some(large)) => assert_eq!((small, large), (2048, 32_768), "{}", D::NAME),
            // Blocks of tables and pages of maps tell by how much they take.
            _ => assert_ne!(data_bytes(small.path()), data_bytes(large.path()), "{}", D::NAME),
        }
    }
}

#[test]
fn a_page_size_is_in_the_file() {
    check_all(Name::PageSize, PageSize);
}

struct Cache;

impl Check for Cache {
    fn check<D: Driver>(&self, driver: &D, values: Values) {
        works(driver, &["cache=1M"]);
        works(driver, &["cache=200M"]);
        if matches!(values, Values::AtLeastOrUnlimited(_)) {
            works(driver, &["cache=unlimited"]);
        }
        let told = |settings: &[&str]| driver.tuning(&shape(&records(), settings));
        assert_ne!(told(&["cache=1M"]), told(&["cache=200M"]), "{}", D::NAME);
    }
}

#[test]
fn stores_work_with_small_and_large_caches() {
    check_all(Name::Cache, Cache);
}

struct Mmap;

impl Check for Mmap {
    fn check<D: Driver>(&self, driver: &D, values: Values) {
        for (setting, is_mapped) in [("mmap=on", true), ("mmap=off", false)] {
            let is_refused = chosen(&[setting]).unfit(D::SETTINGS).is_some();
            let is_another = matches!(values, Values::Always(is_on) if is_on != is_mapped);
            assert_eq!(is_refused, is_another, "{} {setting}", D::NAME);
            if is_refused {
                continue;
            }
            let found = while_open(driver, &[setting], |folder| {
                let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
                maps.contains(folder.to_str().unwrap())
            });
            assert_eq!(found, is_mapped, "{} {setting}", D::NAME);
        }
    }
}

#[test]
fn files_are_mapped_or_not() {
    check_all(Name::Mmap, Mmap);
}

struct Checksums;

impl Check for Checksums {
    fn check<D: Driver>(&self, driver: &D, _: Values) {
        works(driver, &["checksums=off"]);
        let (records, folder) = (&records(), works(driver, &["checksums=on"]));
        // One bit of a value, in whatever file that is.
        let (key, value) = records.get(100);
        let is_there = |bytes: &Vec<u8>| bytes.windows(value.len()).position(|at| at == value);
        let files = measure::files_in(folder.path()).unwrap();
        let mut changed = 0;
        for file in &files {
            let mut bytes = std::fs::read(file).unwrap();
            if let Some(at) = is_there(&bytes) {
                bytes[at + 100] ^= 1;
                std::fs::write(file, bytes).unwrap();
                changed += 1;
            }
        }
        assert!(changed > 0, "{}: the value is nowhere", D::NAME);
        let (shape, path) = (shape(records, &["checksums=on"]), folder.path().join("store"));
        let looked_up =
            driver.open(&path, &shape, Reading::Warm).and_then(|mut store| store.get(key, |_| {}));
        assert!(looked_up.is_err(), "{}: {looked_up:?}", D::NAME);
    }
}

#[test]
fn a_damaged_byte_is_an_error_where_checksums_are_on() {
    check_all(Name::Checksums, Checksums);
}

struct Compression;

impl Check for Compression {
    fn check<D: Driver>(&self, driver: &D, values: Values) {
        let Values::Codecs(codecs) = values else { panic!("{}: {values:?}", D::NAME) };
        let plain = data_bytes(works(driver, &["compression=none"]).path());
        for codec in codecs.iter().map(|codec| codec.text()).filter(|codec| *codec != "none") {
            let setting = &[&*format!("compression={codec}")];
            let (records, made) = (&records(), built(driver, &records(), setting));
            let (shape, path) = (shape(records, setting), made.path().join("store"));
            has(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), records, codec);
            let bytes = data_bytes(made.path());
            assert!(bytes < plain * 9 / 10, "{} {codec}: {bytes} of {plain}", D::NAME);
        }
    }
}

#[test]
fn what_is_compressed_is_smaller() {
    check_all(Name::Compression, Compression);
}

struct KeyCompression;

impl Check for KeyCompression {
    fn check<D: Driver>(&self, driver: &D, values: Values) {
        let Values::Codecs(codecs) = values else { panic!("{}: {values:?}", D::NAME) };
        let mut records = Records::default();
        for i in 0..2000_u32 {
            let key = format!("{}{i:05}", "what all of these keys have in common ".repeat(3));
            records.push(key.as_bytes(), &i.to_le_bytes()).unwrap();
        }
        let mut numbers = Records::of_types(Types { keys: KeyType::U32, ..Types::default() });
        for i in 0..20_000_u32 {
            (i * 3).with_bytes(|key| numbers.push(key, b"v")).unwrap();
        }
        for codec in codecs.iter().filter(|codec| **codec != Codec::None) {
            let records = if codec.is_of_numbers() { &numbers } else { &records };
            let with = |codec: &str| {
                let setting = &[&*format!("key-compression={codec}")];
                let (shape, made) = (shape(records, setting), built(driver, records, setting));
                let path = made.path().join("store");
                has(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), records, codec);
                bytes_of(made.path())
            };
            let ([plain, bytes], codec) = (["none", codec.text()].map(with), codec.text());
            assert!(bytes < plain * 9 / 10, "{} {codec}: {bytes} of {plain}", D::NAME);
        }
    }
}

#[test]
fn keys_that_are_compressed_are_smaller() {
    check_all(Name::KeyCompression, KeyCompression);
}

/// What `look` sees of the folder of a store with a transaction for each change, while it is open after
/// some changes.
fn committed<D: Driver, T>(driver: &D, setting: &str, look: impl FnOnce(&Path) -> T) -> T {
    let (records, folder) = (&records(), tempfile::tempdir().unwrap());
    let (shape, path) = (shape(records, &[setting]), folder.path().join("store"));
    let what = &format!("{} {setting}", D::NAME);
    let mut writer = driver.create_committing(&path, &shape).unwrap();
    records.iter().for_each(|(key, value)| writer.insert(key, value).unwrap());
    let seen = look(folder.path());
    has(&mut writer, records, what);
    writer.close().unwrap();
    has(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), records, what);
    seen
}

/// The bytes of the files beside the one that keeps the records, in which logs are.
fn logs(folder: &Path) -> Vec<u8> {
    let is_log = |file: &PathBuf| {
        file.file_name() != Some("store".as_ref()) && file.extension() != Some("sst".as_ref())
    };
    let files = measure::files_in(folder).unwrap().into_iter().filter(is_log);
    files.flat_map(|file| std::fs::read(file).unwrap()).collect()
}

/// The value that was stored last: of those before, a log may have been emptied.
fn last(records: &Records) -> &[u8] {
    records.get(records.len() - 1).1
}

fn have(bytes: &[u8], value: &[u8]) -> bool {
    bytes.windows(value.len()).any(|at| at == value)
}

struct JournalCompression;

impl Check for JournalCompression {
    fn check<D: Driver>(&self, driver: &D, values: Values) {
        let Values::Codecs(codecs) = values else { panic!("{}: {values:?}", D::NAME) };
        let is_plain = |codec: &str| {
            let setting = format!("journal-compression={codec}");
            committed(driver, &setting, |folder| have(&logs(folder), last(&records())))
        };
        for codec in codecs.iter().map(|codec| codec.text()) {
            assert_eq!(is_plain(codec), codec == "none", "{} {codec}", D::NAME);
        }
    }
}

#[test]
fn a_log_that_is_compressed_has_no_value_as_it_was() {
    check_all(Name::JournalCompression, JournalCompression);
}

struct Recovery;

impl Check for Recovery {
    fn check<D: Driver>(&self, driver: &D, _: Values) {
        for (setting, is_logged) in [("recovery=on", true), ("recovery=off", false)] {
            let log = committed(driver, setting, logs);
            assert_eq!(have(&log, last(&records())), is_logged, "{} {setting}", D::NAME);
        }
    }
}

#[test]
fn changes_are_in_a_log_or_not() {
    check_all(Name::Recovery, Recovery);
}

struct Flush;

impl Check for Flush {
    fn check<D: Driver>(&self, driver: &D, _: Values) {
        // What goes from a log to a cache shows nowhere.
        let shows = D::NAME == "sqlite";
        for (setting, is_there) in [("flush=off", false), ("flush=on", true)] {
            let file = committed(driver, setting, |folder| {
                std::fs::read(folder.join("store")).unwrap_or_default()
            });
            let found = have(&file, last(&records()));
            assert!(!shows || found == is_there, "{} {setting}: {found}", D::NAME);
        }
    }
}

#[test]
fn changes_go_to_their_place_at_once() {
    check_all(Name::Flush, Flush);
}

struct Encryption;

impl Check for Encryption {
    fn check<D: Driver>(&self, driver: &D, _: Values) {
        let records = records();
        let (key, value) = records.get(100);
        let can_it = |folder: &tempfile::TempDir| {
            let shape = shape(&records, &["encryption=on"]);
            driver.create(&folder.path().join("store"), &shape).map(drop)
        };
        if let Err(e) = can_it(&tempfile::tempdir().unwrap()) {
            assert!(e.to_string().contains("not implemented"), "{}: {e}", D::NAME);
            return eprintln!("not tested: {}, built without encryption: {e}", D::NAME);
        }
        for (setting, is_readable) in [("encryption=off", true), ("encryption=on", false)] {
            let folder = works(driver, &[setting]);
            let files = measure::files_in(folder.path()).unwrap();
            let bytes: Vec<u8> = files.iter().flat_map(|f| std::fs::read(f).unwrap()).collect();
            assert_eq!(have(&bytes, value), is_readable, "{} {setting}", D::NAME);
            assert_eq!(have(&bytes, key), is_readable, "{} {setting}", D::NAME);
        }
    }
}

#[test]
fn files_that_are_encrypted_have_no_key_and_no_value() {
    check_all(Name::Encryption, Encryption);
}

struct Cursors;

impl Check for Cursors {
    fn check<D: Driver>(&self, driver: &D, _: Values) {
        works(driver, &["cursors=on"]);
        if !D::COMMITS {
            return;
        }
        let (records, folder) = (&records(), tempfile::tempdir().unwrap());
        let others = records.with_other_values();
        let (shape, path) = (shape(records, &["cursors=on"]), folder.path().join("store"));
        let mut writer = driver.create_committing(&path, &shape).unwrap();
        for (i, (key, value)) in records.iter().enumerate() {
            writer.insert(key, others.get(i).1).unwrap();
            // Some together, where there are transactions, and some alone.
            let together = <D::Writer<'_> as Writer>::HAS_TRANSACTIONS && i % 3 == 0;
            if together {
                writer.begin().unwrap();
            }
            assert!(writer.remove(key).unwrap(), "{}", D::NAME);
            assert!(!writer.remove(key).unwrap(), "{}", D::NAME);
            writer.insert(key, value).unwrap();
            assert!(writer.get(key, |_| ()).unwrap(), "{}", D::NAME);
            if together {
                writer.commit().unwrap();
            }
        }
        has(&mut writer, records, D::NAME);
        writer.close().unwrap();
        has(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), records, D::NAME);
    }
}

#[test]
fn cursors_find_and_change_what_calls_do() {
    check_all(Name::Cursors, Cursors);
}

struct Memory;

impl Check for Memory {
    fn check<D: Driver>(&self, driver: &D, _: Values) {
        let (records, folder) = (&records(), tempfile::tempdir().unwrap());
        let (shape, path) = (shape(records, &["memory=on"]), folder.path().join("store"));
        let mut writer = driver.create(&path, &shape).unwrap();
        records.iter().for_each(|(key, value)| writer.insert(key, value).unwrap());
        has(&mut writer, records, D::NAME);
        let is_empty = || std::fs::read_dir(folder.path()).unwrap().next().is_none();
        assert!(is_empty(), "{} has files", D::NAME);
        writer.close().unwrap();
        assert!(is_empty(), "{} has files when it is closed", D::NAME);
        works(driver, &["memory=off"]);
    }
}

#[test]
fn what_is_in_memory_has_no_file() {
    check_all(Name::Memory, Memory);
}

struct Direct;

impl Check for Direct {
    fn check<D: Driver>(&self, driver: &D, _: Values) {
        for (setting, is_direct) in [("direct=off", false), ("direct=on", true)] {
            let found = while_open(driver, &[setting], |folder| {
                open_flags(folder).iter().any(|flags| flags & libc::O_DIRECT != 0)
            });
            assert_eq!(found, is_direct, "{} {setting}", D::NAME);
        }
    }
}

/// The flags of the files in this folder that this process has open.
fn open_flags(folder: &Path) -> Vec<i32> {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = descriptors.filter(|descriptor| {
        std::fs::read_link(descriptor.path()).is_ok_and(|file| file.starts_with(folder))
    });
    let flags = |number: std::ffi::OsString| {
        let told = std::fs::read_to_string(Path::new("/proc/self/fdinfo").join(number)).ok()?;
        let line = told.lines().find_map(|line| line.strip_prefix("flags:"))?.trim().to_owned();
        i32::from_str_radix(&line, 8).ok()
    };
    ours.filter_map(|descriptor| flags(descriptor.file_name())).collect()
}

#[test]
fn files_are_opened_for_direct_access() {
    check_all(Name::Direct, Direct);
}

struct Advice;

impl Check for Advice {
    fn check<D: Driver>(&self, driver: &D, _: Values) {
        for (setting, is_random) in [("advice=normal", false), ("advice=random", true)] {
            let settings = [&[setting], mapped::<D>()].concat();
            let found =
                while_open(driver, &settings, |folder| is_random_map(folder.to_str().unwrap()));
            assert_eq!(found, is_random, "{} {setting}", D::NAME);
        }
    }
}

/// Has a store whose files are mapped only where that is asked for map them: what the kernel is told of others it does not show.
fn mapped<D: Driver>() -> &'static [&'static str] {
    if D::NAME == "rocksdb" { &["mmap=on"] } else { &[] }
}

/// Whether a map of a file in this folder is marked as read in random order.
fn is_random_map(folder: &str) -> bool {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_ours = false;
    maps.lines().any(|line| {
        // A map begins with its addresses, and ends with its marks.
        if line.split(' ').next().is_some_and(|first| first.contains('-')) {
            is_ours = line.contains(folder);
        }
        is_ours && line.starts_with("VmFlags:") && line.split(' ').any(|mark| mark == "rr")
    })
}

#[test]
fn the_kernel_is_told_how_files_are_read() {
    check_all(Name::Advice, Advice);
}

/// What a store of each kind says of its maps when it is opened to be read.
struct Announced;

impl ForDriver for Announced {
    type Output = ();

    fn run<D: Driver>(self) {
        let Ok(driver) = D::load(None) else { return };
        let records = &records();
        let settings = mapped::<D>();
        let (shape, folder) = (shape(records, settings), built(&driver, records, settings));
        let path = folder.path().join("store");
        for reading in [Reading::ColdRandom, Reading::ColdNormal] {
            let mut store = driver.open(&path, &shape, reading).unwrap();
            has(&mut store, records, D::NAME);
            let found = is_random_map(folder.path().to_str().unwrap());
            let is_random = match D::ANNOUNCES {
                Announces::Nothing => false,
                Announces::Random => true,
                Announces::AsAsked => reading == Reading::ColdRandom,
            };
            assert_eq!(found, is_random, "{} {reading:?}", D::NAME);
        }
    }
}

/// Danger: of two stores in one table of cold figures the kernel reads ahead for one alone, and nobody says so.
#[test]
fn cold_stores_are_announced_as_they_are_asked_to_be() {
    NAMES.iter().for_each(|name| with_driver(name, Announced).unwrap());
}
