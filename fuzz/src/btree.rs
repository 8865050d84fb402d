//! Btree stores: any operations against maps, and files of sound stores with anything changed in them.

use crate::input::Input;
use credenza::Result;
use credenza::btree::{
    BTree, Duplicates, Position, Snapshot, Table, TableOptions, Transaction, recover,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A lease that is longer than any run.
const HOUR: Duration = Duration::from_secs(3600);

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Multi = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// The main table, and one of each kind where a key may have several values.
#[derive(Clone, Default, PartialEq)]
struct Model {
    main: Map,
    several: [Multi; 2],
}

const NAMES: [&str; 2] = ["sorted", "inserted"];
const ORDERS: [Duplicates; 2] = [Duplicates::Sorted, Duplicates::Inserted];

/// Does what the bytes say to a store and to maps: they stay alike, also as they were when somebody
/// began to read.
pub fn operations(data: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let mut model = Model::default();
    let mut input = Input::new(data, 9000, 10);
    let mut store = BTree::create(&path).expect("a store");
    let mut transaction = store.write().expect("a transaction");
    for (name, order) in NAMES.iter().zip(ORDERS) {
        let options = TableOptions::new().duplicates(order);
        transaction.create_table_with(name, &options).expect("a table");
    }
    transaction.commit().expect("commit");
    while !input.left.is_empty() {
        run(&store, &mut input, &mut model);
        compare(&store.read().expect("a snapshot"), &model);
        store.verify(|_, _| ()).expect("verify");
        drop(store);
        store = BTree::open(&path).expect("it opens");
    }
}

/// What is done until the store is closed and opened again.
fn run(store: &BTree, input: &mut Input<'_>, model: &mut Model) -> Option<()> {
    let mut held: Vec<(Snapshot<'_>, Model)> = Vec::new();
    loop {
        let byte = input.byte()?;
        match byte % 8 {
            0 => break,
            1 if byte >= 64 => singles(store, input, model, byte / 16)?,
            1 => store.sync().expect("sync"),
            2 if byte >= 128 => held.push((store.read_for(HOUR).expect("a lease"), model.clone())),
            2 => held.push((store.read().expect("a snapshot"), model.clone())),
            3 => drop(held.pop().map(|(snapshot, then)| compare(&snapshot, &then))),
            _ => {
                let mut new = model.clone();
                let mut transaction = store.write().expect("a transaction");
                let mut saved = None;
                for _ in 0..byte / 8 * 2 {
                    if step(input, &mut transaction, &mut new, &mut saved).is_none() {
                        break;
                    }
                }
                if byte >= 32 {
                    transaction.commit().expect("commit");
                    *model = new;
                }
            }
        }
    }
    held.iter().for_each(|(snapshot, then)| compare(snapshot, then));
    Some(())
}

/// Changes of one record each, by operations of their own: made where the record is, unless somebody reads.
fn singles(store: &BTree, input: &mut Input<'_>, model: &mut Model, count: u8) -> Option<()> {
    for _ in 0..count {
        let byte = input.byte()?;
        let key = match byte % 4 {
            // One that others have changed, too.
            0 => u32::from(byte / 4).to_le_bytes().to_vec(),
            _ => input.key()?,
        };
        if byte >= 200 {
            let was_there = store.remove(&key).expect("remove");
            assert_eq!(was_there, model.main.remove(&key).is_some());
        } else {
            let value = input.value()?;
            let was_there = store.insert(&key, &value).expect("insert");
            assert_eq!(was_there, model.main.insert(key, value).is_some());
        }
    }
    Some(())
}

type Saved = Option<(credenza::btree::Savepoint, Model)>;

fn step(
    input: &mut Input<'_>,
    transaction: &mut Transaction<'_>,
    model: &mut Model,
    saved: &mut Saved,
) -> Option<()> {
    let byte = input.byte()?;
    match byte % 16 {
        0..6 => {
            let (key, value) = (input.key()?, input.value()?);
            let was_there = transaction.main().insert(&key, &value).expect("insert");
            assert_eq!(was_there, model.main.insert(key, value).is_some());
        }
        6 | 7 => {
            let key = input.key()?;
            let was_there = transaction.main().remove(&key).expect("remove");
            assert_eq!(was_there, model.main.remove(&key).is_some());
        }
        8 => {
            // Many records, so that pages grow and are parted.
            for i in 0..u32::from(input.byte()?) * 8 {
                let key = i.to_le_bytes();
                transaction.main().insert(&key, b"many").expect("insert");
                model.main.insert(key.to_vec(), b"many".to_vec());
            }
        }
        9 => {
            let (from, to) = (input.key()?, input.key()?);
            let before = model.main.len();
            model.main.retain(|key, _| *key < from || *key >= to);
            let removed = transaction.main().remove_range(&from[..]..&to[..]).expect("range");
            assert_eq!(removed, (before - model.main.len()) as u64);
        }
        10 => match saved.take() {
            None => *saved = Some((transaction.savepoint(), model.clone())),
            Some((savepoint, then)) => {
                if byte >= 128 {
                    transaction.rollback_to(savepoint).expect("rollback");
                    *model = then;
                }
                transaction.release(savepoint).expect("release");
            }
        },
        11 => {
            let mut cursor = transaction.main().cursor();
            let key = input.key()?;
            let found = model.main.range(key.clone()..).next().map(|(key, _)| key.clone());
            assert_eq!(cursor.seek(&key).expect("seek"), found.is_some());
            if let Some(key) = found {
                if byte >= 128 {
                    cursor.put(b"through a cursor").expect("put");
                    model.main.insert(key, b"through a cursor".to_vec());
                } else {
                    cursor.remove().expect("remove");
                    model.main.remove(&key);
                }
            }
        }
        _ => several(byte, input, transaction, model)?,
    }
    Some(())
}

/// A change where a key may have several values.
fn several(
    byte: u8,
    input: &mut Input<'_>,
    transaction: &mut Transaction<'_>,
    model: &mut Model,
) -> Option<()> {
    let i = usize::from(byte >= 128);
    let mut table = transaction.multi_table(NAMES[i]).expect("it is one").expect("a table");
    let (key, value, n) = (input.key()?, input.value()?, input.byte()? % 8);
    let values = model.several[i].entry(key.clone()).or_default();
    match byte % 16 {
        12 | 13 if i == 0 => {
            let place = values.binary_search(&value);
            assert_eq!(table.insert(&key, &value).expect("insert"), place.is_err());
            place.map_or_else(|i| values.insert(i, value), |_| ());
        }
        12 | 13 => {
            let is_there = usize::from(n) < values.len();
            let done = table.insert_at(&key, Position::Before(n.into()), &value).expect("insert");
            assert_eq!(done, is_there);
            if is_there {
                values.insert(n.into(), value);
            } else {
                table.insert(&key, &value).expect("insert");
                values.push(value);
            }
        }
        14 => {
            let is_there = usize::from(n) < values.len();
            assert_eq!(table.remove_nth(&key, n.into()).expect("remove"), is_there);
            if is_there {
                values.remove(n.into());
            }
        }
        _ => {
            assert_eq!(table.read().count(&key).expect("count"), values.len() as u64);
            assert_eq!(table.get(&key).expect("get").as_deref(), values.first().map(|v| &v[..]));
        }
    }
    model.several[i].retain(|_, values| !values.is_empty());
    Some(())
}

fn compare(snapshot: &Snapshot<'_>, model: &Model) {
    let own = |pair: Result<(Vec<u8>, &[u8])>| {
        let (key, value) = pair.expect("a record");
        (key, value.to_vec())
    };
    let main = snapshot.main();
    assert_eq!(main.len(), model.main.len() as u64);
    assert_eq!(main.count_range(..).expect("a count"), model.main.len() as u64);
    let mut left = model.main.iter();
    let scanned = main.scan(|key, value| {
        assert_eq!(left.next(), Some((&key.to_vec(), &value.to_vec())));
        Ok(())
    });
    assert!(scanned.is_ok() && left.next().is_none());
    assert!(main.iter().map(own).eq(model.main.clone()));
    assert!(main.iter().rev().map(own).eq(model.main.clone().into_iter().rev()));
    for (name, model) in NAMES.iter().zip(&model.several) {
        let table = snapshot.multi_table(name).expect("it is one").expect("a table");
        let found = table.iter().map(|pair| {
            let (key, value) = pair.expect("a pair");
            (key, value.into_owned())
        });
        let all = model
            .iter()
            .flat_map(|(key, values)| values.iter().map(move |value| (key.clone(), value.clone())));
        assert!(found.eq(all));
    }
}

/// Sound files of stores: closed, and while they are in use.
static SAMPLES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    [(0, false), (40, false), (40, true), (800, true)].map(|s| sample(folder.path(), s)).into()
});

fn sample(folder: &Path, (count, is_in_use): (u32, bool)) -> Vec<u8> {
    let path = folder.join(format!("sample {count} {is_in_use}"));
    let store = BTree::create(&path).expect("a store");
    for part in 0..3 {
        let mut transaction = store.write().expect("a transaction");
        for (name, order) in NAMES.iter().zip(ORDERS) {
            let options = TableOptions::new().duplicates(order);
            transaction.create_table_with(name, &options).expect("a table");
            let mut table = transaction.multi_table(name).expect("it is one").expect("a table");
            for i in 0..count / 8 {
                table.insert(&[i as u8 % 3, part], &i.to_le_bytes()).expect("insert");
            }
        }
        for i in 0..count {
            let len = [8, 8, 8, 700, 5000][i as usize % 5];
            let key = [&i.to_le_bytes()[..], &vec![7; i as usize % 40 * 20]].concat();
            transaction.main().insert(&key, &vec![i as u8; len]).expect("insert");
            transaction.main().remove(&(i / 2).to_le_bytes()).expect("remove");
        }
        transaction.commit().expect("commit");
    }
    if !is_in_use {
        drop(store);
        return fs::read(&path).expect("a file");
    }
    let bytes = fs::read(&path).expect("a file");
    drop(store);
    bytes
}

/// Where the boot is in a file, the two locks, the header's checksum, the durable commits.
const BOOT: usize = 2048;
const LOCKS: std::ops::Range<usize> = 2176..2304;
const HEADER_SUM: usize = 56;
const METAS: [usize; 2] = [512, 1024];
/// Where the places for durable commits end.
const META_BYTES: usize = 512;

/// Reads one of the samples in which bytes are changed: the input says which, and how the machine was
/// started; then three bytes of a place, modulo the length, and what to put there: so many bytes.
pub fn files(input: &[u8]) {
    let mut input = Input::new(input, 0, 0);
    let (Some(which), Some(how)) = (input.byte(), input.byte()) else { return };
    let mut bytes = SAMPLES[usize::from(which) % SAMPLES.len()].clone();
    let store = bytes[32..48].to_vec();
    while let Some(()) = change(&mut input, &mut bytes) {}
    if how & 1 != 0 {
        bytes[BOOT..BOOT + 16].fill(0x5a);
    }
    if how & 2 != 0 {
        make_sums_fit(&mut bytes, &store);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    fs::write(&path, &bytes).expect("a file");
    let saved = folder.path().join("saved");
    if recover(&path, &saved, |_, _| {}).is_ok() {
        BTree::open(&saved).expect("what was saved opens").verify(|_, _| ()).expect("verify");
    }
    if let Ok(store) = BTree::open(&path) {
        read(&store, bytes.len());
    }
}

fn change(input: &mut Input<'_>, bytes: &mut [u8]) -> Option<()> {
    let place = [input.byte()?, input.byte()?, input.byte()?];
    let at = (usize::from(place[0]) << 16 | usize::from(place[1]) << 8 | usize::from(place[2]))
        % bytes.len();
    for i in 0..input.byte()? % 9 {
        let byte = input.byte()?;
        // What damage makes of the C library's locks is not tried.
        if let Some(place) = bytes.get_mut(at + usize::from(i))
            && !LOCKS.contains(&(at + usize::from(i)))
        {
            *place = byte;
        }
    }
    Some(())
}

/// Has the checksums of the header and of the durable commits fit, wherever those end.
fn make_sums_fit(bytes: &mut [u8], store: &[u8]) {
    let put = |bytes: &mut [u8], at: usize, sum: u64| {
        bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
    };
    bytes[32..48].copy_from_slice(store);
    let sum = xxh3_64_with_seed(&bytes[..HEADER_SUM], 0);
    put(bytes, HEADER_SUM, sum);
    let seed = u64::from_le_bytes(store[..8].try_into().expect("eight bytes"));
    for from in METAS {
        // Their last word that is not 0 is the checksum.
        let words = from..from + META_BYTES;
        let Some(last) = bytes[words].chunks(8).rposition(|word| word != [0; 8]) else { continue };
        let at = from + 8 * last;
        let sum = xxh3_64_with_seed(&bytes[from..at], seed);
        put(bytes, at, sum);
    }
}

fn read(store: &BTree, bytes: usize) {
    let is_sound = store.verify(|_, _| ()).is_ok();
    let _ = store.stats();
    let Ok(snapshot) = store.read() else { return };
    let is_read = table(snapshot.main(), bytes);
    assert!(is_read || !is_sound, "what was verified is read");
    for name in snapshot.tables().unwrap_or_default().iter().take(20) {
        if let Ok(Some(found)) = snapshot.table(name) {
            let is_read = table(found, bytes);
            assert!(is_read || !is_sound, "what was verified is read");
        }
        if let Ok(Some(found)) = snapshot.multi_table(name) {
            let is_read = found.iter().take(bytes).all(|pair| pair.is_ok());
            assert!(is_read || !is_sound, "what was verified is read");
            let _ = (found.count(&[1, 1]), found.nth(&[1, 1], 5), found.last());
        }
    }
    drop(snapshot);
    let is_read = under_a_lease(store, bytes).is_ok();
    assert!(is_read || !is_sound, "what was verified is read under a lease");
    let is_written = write(store).is_ok();
    assert!(is_written || !is_sound, "what was verified is written");
    assert!(!is_sound || store.verify(|_, _| ()).is_ok(), "what was sound stays so");
}

/// Scans and counts all tables from copies.
fn under_a_lease(store: &BTree, bytes: usize) -> Result<()> {
    let leased = store.read_for(HOUR)?;
    let mut left = bytes;
    let mut take = |_: &[u8], _: &[u8]| {
        left = left.saturating_sub(1);
        Ok(left > 0)
    };
    leased.main().scan_range(.., &mut take)?;
    leased.main().count_range(..)?;
    leased.main().last()?;
    for name in leased.tables()?.iter().take(20) {
        if let Ok(Some(table)) = leased.table(name) {
            table.scan_range(.., &mut take)?;
        }
        if let Ok(Some(table)) = leased.multi_table(name) {
            table.scan_range(.., &mut take)?;
        }
    }
    leased.renew(HOUR)
}

/// Reads a table in every way; whether that succeeded.
fn table(table: Table<'_>, bytes: usize) -> bool {
    let mut records = Vec::new();
    for record in table.iter() {
        let Ok((key, value)) = record else { return false };
        records.push((key, value.to_vec()));
        assert!(records.len() <= bytes, "more records than bytes");
    }
    let is_found =
        |(key, value): &(Vec<u8>, Vec<u8>)| table.get(key).ok() == Some(Some(&value[..]));
    let backwards = table.iter().rev().take(records.len()).all(|record| record.is_ok());
    let counted = table.count_range(..).is_ok_and(|count| count == records.len() as u64);
    records.iter().all(is_found) && backwards && counted
}

fn write(store: &BTree) -> Result<()> {
    let mut transaction = store.write()?;
    for i in 0..20u8 {
        transaction.main().insert(&[i; 3], &vec![i; 200 * usize::from(i)])?;
        transaction.main().remove(&u32::from(i).to_le_bytes())?;
    }
    transaction.main().remove_range(&b"\x10"[..]..&b"\x40"[..])?;
    transaction.create_table("new")?.insert(b"key", b"value")?;
    transaction.commit()
}
