//! Danger: a read transaction of LMDB or libmdbx that is kept between lookups and not reset holds back every page
//! that is freed meanwhile, so that the file grows with every commit; one whose cursor is not renewed with it shows
//! what was there before; and one for each thread may be more than the table of readers has places for. A file that
//! grows in large steps is one that a small store pays for, in time and in size.

use super::tests::fixed;
use super::*;
use crate::settings::Choices;
use std::os::unix::fs::MetadataExt;

/// Does the test with both, by calls and by a cursor. What is not installed is passed over, and said so.
struct Kept;

impl ForDriver for Kept {
    type Output = ();

    fn run<D: Driver>(self) {
        let driver = match D::load(None) {
            Ok(driver) => driver,
            Err(e) => return eprintln!("not tested: {}: {e}", D::NAME),
        };
        for setting in ["cursors=off", "cursors=on"] {
            let mut choices = Choices::default();
            choices.set(setting).unwrap();
            let records = fixed(8, 40);
            let shape = Shape { settings: choices.of(D::NAME), ..Shape::of(&records) };
            let what = format!("{} {setting}", D::NAME);
            who_has_looked_up_holds_nothing(&driver, &records, &shape, &what);
            more_threads_than_the_libraries_expect(&driver, &records, &shape, &what);
        }
    }
}

fn who_has_looked_up_holds_nothing<D: Driver>(
    driver: &D,
    records: &Records,
    shape: &Shape,
    what: &str,
) {
    const TIMES: usize = 16_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut crew = driver.committers(&path, shape, 2, false).unwrap();
    let [reader, writer] = &mut crew.handles[..] else { panic!("{what}") };
    for i in 0..records.len() {
        writer.store().insert(records.key(i), records.get(i).1).unwrap();
    }
    let is_there = |store: &mut D::Writer<'_>, i: usize, of: usize| {
        let mut got = None;
        store.get(records.key(i), |value| got = Some(value.to_vec())).unwrap();
        assert_eq!(got.as_deref(), Some(records.get(of).1), "{what}");
    };
    is_there(reader.store(), 7, 7);
    let size = || path.metadata().unwrap().blocks() * 512;
    let before = size();
    for time in 0..TIMES {
        let (i, of) = (time % records.len(), (time + 1) % records.len());
        writer.store().insert(records.key(i), records.get(of).1).unwrap();
        is_there(writer.store(), i, of);
    }
    // Its transaction rested all the time; now it sees what is there now.
    let last = (TIMES - 1) % records.len();
    is_there(reader.store(), last, (last + 1) % records.len());
    // Each change takes two pages at least, all of them 128 MB. libmdbx uses what was freed again after each MiB.
    assert!(size() < before + (16 << 20), "{what}: {before} and {} bytes", size());
    crew.into_owner().close().unwrap();
}

fn more_threads_than_the_libraries_expect<D: Driver>(
    driver: &D,
    records: &Records,
    shape: &Shape,
    what: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut crew = driver.committers(&path, shape, 256, false).unwrap();
    let (key, value) = records.get(3);
    crew.handles[0].store().insert(key, value).unwrap();
    for handle in &mut crew.handles {
        assert!(handle.store().get(key, |got| assert_eq!(got, value, "{what}")).unwrap(), "{what}");
    }
    crew.into_owner().close().unwrap();
}

/// Builds a small store, fills one in transactions of one change, and looks at what their files take.
struct Sized;

impl ForDriver for Sized {
    type Output = ();

    fn run<D: Driver>(self) {
        let driver = match D::load(None) {
            Ok(driver) => driver,
            Err(e) => return eprintln!("not tested: {}: {e}", D::NAME),
        };
        let mut records = Records::default();
        for i in 0..2000_u32 {
            records.push(format!("{i:08}").as_bytes(), &[7; 200]).unwrap();
        }
        let (shape, folder) = (Shape::of(&records), tempfile::tempdir().unwrap());
        // Syncs come after each MiB of changes at the latest.
        for (name, most) in [("build", 2 * shape.bytes()), ("each", (2 << 20) + 3 * shape.bytes())]
        {
            let path = folder.path().join(name);
            if name == "build" {
                driver.build(&records, &shape, &path).unwrap();
            } else {
                let mut store = driver.create_committing(&path, &shape).unwrap();
                for (key, value) in records.iter() {
                    store.insert(key, value).unwrap();
                }
                store.close().unwrap();
            }
            let takes = path.metadata().unwrap().blocks() * 512;
            assert!(takes <= most, "{} {name}: {takes} bytes of {most}", D::NAME);
        }
    }
}

#[test]
fn a_small_store_has_a_small_file() {
    for name in ["lmdb", "mdbx"] {
        with_driver(name, Sized).unwrap();
    }
}

#[test]
fn transactions_that_are_kept_for_lookups_hold_nothing_back() {
    for name in ["lmdb", "mdbx"] {
        with_driver(name, Kept).unwrap();
    }
}
