//! Danger: damaged or hostile files that make a store panic, hang, die of SIGBUS, or answer what it
//! never held.
//!
//! What is promised, and tested here:
//! - A damaged data file: every answer is right or an error, but for the one key in whose record
//!   the damage lies; `verify` finds whatever is in the header, or in the log up to its end. What
//!   only running processes need (from byte 2048 to 8192) and what is behind the log's end is not
//!   checked, and makes no answer wrong.
//! - A damaged index: `verify` finds whatever makes an answer wrong; before that, a damaged slot or
//!   page can make a key absent, or give it a value that it had before.
//! - The two locks in the session are the C library's: what damage made of them is not tried.

mod common;

use common::damage::{Answers, ask};
use common::hash::{BOOT_AT, LOCKS_AT, LOG_AT, index_of, must};
use common::mount::Mount;
use common::power::write_image;
use common::subject::{State, Subject, state_of};
use common::sys;
use common::{Rng, is_soak, write_anew};
use credenza::hash::{Batch, Hash, is_index, recover};
use credenza::{ErrorKind, Scan};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Where the copy of the header is.
const COPY: Range<usize> = 1920..1992;

/// A small store that was closed: its files, what is in it, and what each key ever was.
struct Sample {
    data: Vec<u8>,
    index: Vec<u8>,
    state: State,
    keys: Vec<Vec<u8>>,
    ever: Vec<Vec<Vec<u8>>>,
}

fn sample(count: u64) -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let mut rng = Rng::new(count);
    let keys: Vec<Vec<u8>> = (0..count).map(|i| format!("key {i}").into_bytes()).collect();
    let mut ever = vec![Vec::new(); keys.len()];
    for turn in 0..3 {
        for (i, key) in keys.iter().enumerate().filter(|(i, _)| turn == 0 || i % 3 == turn) {
            let len = [3, 40, 300][i % 3];
            let value = rng.bytes(len);
            store.insert(key, &value).unwrap();
            ever[i].push(value);
        }
    }
    for key in keys.iter().step_by(7) {
        store.remove(key).unwrap();
    }
    let state = state_of(&store, "sample");
    drop(store);
    Sample {
        data: fs::read(&path).unwrap(),
        index: fs::read(index_of(&path)).unwrap(),
        state,
        keys,
        ever,
    }
}

impl Sample {
    /// What a store of these files says, if it opens; and what is wrong with it.
    fn examine(
        &self,
        path: &Path,
        data: &[u8],
        index: Option<&[u8]>,
        what: &str,
    ) -> Option<(Answers, Vec<usize>)> {
        write_image(&vec![Some(data.to_vec()), index.map(<[u8]>::to_vec)], &Hash::files(path));
        let store = Hash::open(path).ok()?;
        let answers = ask(&store, &self.keys, data.len() + self.index.len(), what);
        let is_wrong = |i: &usize| {
            let right = self.state.get(&self.keys[*i]);
            answers.values[*i].as_ref().is_ok_and(|found| found.as_ref() != right)
        };
        let wrong = (0..self.keys.len()).filter(is_wrong).collect();
        Some((answers, wrong))
    }

    /// What lies in the log's first segment behind the record that ends it.
    fn unused(&self) -> Range<usize> {
        let mut at = LOG_AT + 24;
        loop {
            let [kind, key, low, high] = *self.data[at + 4..].first_chunk().unwrap();
            // Three bits say that a put was replaced.
            match if kind == 0x39 { 1 } else { kind } {
                1 | 2 => {
                    at += (8 + usize::from(key) + usize::from(u16::from_le_bytes([low, high])))
                        .next_multiple_of(8)
                }
                3 | 5 => at += 8,
                4 => return at + 16..LOG_AT + 4096,
                _ => return 0..0,
            }
        }
    }

    /// The end of the log, as the index has it.
    fn log_end(&self) -> usize {
        u64::from_le_bytes(self.index[144..152].try_into().unwrap()) as usize
    }
}

fn is_lock(at: usize) -> bool {
    (LOCKS_AT[0]..LOCKS_AT[1] + 64).contains(&at)
}

#[test]
fn every_flipped_byte_of_the_data_is_found_or_means_nothing() {
    sys::give_up_after(600);
    let sample = sample(30);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let end = sample.log_end();
    let unused = sample.unused();
    let mut data = sample.data.clone();
    let step = if is_soak() { 1 } else { 61 };
    for at in (0..data.len()).filter(|at| !is_lock(*at)) {
        let is_log = (LOG_AT..end).contains(&at) && !unused.contains(&at);
        // Zeros and what nobody checks: only some.
        if !is_log && at >= 1100 && !(BOOT_AT..BOOT_AT + 400).contains(&at) && at % step > 0 {
            continue;
        }
        let flip = if at % 2 == 0 { 0xff } else { 1 << (at % 8) };
        data[at] ^= flip;
        let what = format!("byte {at} ^ {flip:#x}");
        let is_checked = at < 512 || COPY.contains(&at) || is_log;
        // What says whose locks these are: another program's, for all that can be known.
        let is_foreign = (BOOT_AT + 16..BOOT_AT + 32).contains(&at);
        let files = [Some(&sample.index[..]), None];
        for index in files.into_iter().take(if at % 5 == 0 { 2 } else { 1 }) {
            let what = format!("{what}, index {}", index.is_some());
            let Some((answers, wrong)) = sample.examine(&path, &data, index, &what) else {
                assert!(is_checked || is_foreign, "{what}: does not open");
                continue;
            };
            assert!(!is_checked || answers.verify.is_err(), "{what}: not found");
            assert!(is_checked || answers.verify.is_ok(), "{what}: {:?}", answers.verify);
            assert!(wrong.len() <= usize::from(is_log), "{what}: {} keys are wrong", wrong.len());
            for i in wrong {
                // A value that it never had: then it is in the value that the damage lies.
                let Ok(Some(found)) = &answers.values[i] else { continue };
                let near = sample.ever[i].iter().any(|value| differences(value, found) <= 1);
                assert!(near, "{what}: {:?} got a value of something else", sample.keys[i]);
            }
        }
        data[at] ^= flip;
    }
}

fn differences(a: &[u8], b: &[u8]) -> usize {
    // Damage may lie in the length, too: then the value is cut, or goes on in what follows it.
    a.iter().zip(b).filter(|(a, b)| a != b).count()
}

#[test]
fn every_flipped_byte_of_the_index_is_found_or_makes_no_answer_wrong() {
    sys::give_up_after(600);
    let sample = sample(90);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut index = sample.index.clone();
    let (mut missing, mut old) = (0, 0);
    for at in 0..index.len() {
        if at > 512 && index[at] == 0 && at % 13 > 0 && !is_soak() {
            continue;
        }
        let flip = if at % 2 == 0 { 0xff } else { 1 << (at % 8) };
        index[at] ^= flip;
        let what = format!("index, byte {at} ^ {flip:#x}");
        if let Some((answers, wrong)) = sample.examine(&path, &sample.data, Some(&index), &what) {
            for i in &wrong {
                match &answers.values[*i] {
                    Ok(None) => missing += 1,
                    Ok(Some(found)) => {
                        assert!(
                            sample.ever[*i].contains(found),
                            "{what}: a value of something else"
                        );
                        old += 1;
                    }
                    Err(_) => {}
                }
            }
            assert!(wrong.is_empty() || answers.verify.is_err(), "{what}: not found");
        }
        // Writing to it may fail, too, but in no other way.
        if at % 3 == 0 || at < 512 {
            let Ok(store) = Hash::open(&path) else { panic!("{what}: does not open") };
            let _ = store.insert(b"new", &[7; 100]);
            let _ = store.remove(&sample.keys[3]);
            let _ = store.compact(1 << 16);
            let _ = store.sync();
        }
        index[at] ^= flip;
    }
    println!("{missing} times a key was missing, {old} times it had a value from before");
}

#[test]
fn truncated_files_give_errors_or_what_is_whole() {
    sys::give_up_after(600);
    let sample = sample(30);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let step = if is_soak() { 1 } else { 37 };
    for len in (0..sample.data.len()).rev().step_by(step).chain(0..30) {
        for index in [Some(&sample.index[..]), None] {
            let what = format!("data of {len} bytes, index {}", index.is_some());
            let Some((answers, wrong)) = sample.examine(&path, &sample.data[..len], index, &what)
            else {
                continue;
            };
            assert!(len > LOG_AT, "{what}: opens");
            let is_lost = len < sample.log_end();
            assert!(!is_lost || answers.verify.is_err(), "{what}: verify passes");
            assert!(wrong.is_empty(), "{what}: {} keys are wrong", wrong.len());
        }
    }
    for len in (0..sample.index.len()).rev().step_by(step / 2 + 1) {
        let what = format!("index of {len} bytes");
        let examined = sample.examine(&path, &sample.data, Some(&sample.index[..len]), &what);
        let (answers, wrong) = examined.unwrap_or_else(|| panic!("{what}: does not open"));
        assert!(wrong.is_empty() && answers.verify.is_ok(), "{what}: {:?}", answers.verify);
    }
}

#[test]
fn an_index_of_random_bytes_or_of_another_store_is_made_again() {
    let (sample, other) = (sample(30), sample(31));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut rng = Rng::new(1);
    // As a later version may make one: by a hash that this one does not know.
    let mut unknown = sample.index.clone();
    unknown[12] = 99;
    let sum = xxh3_64(&unknown[..56]).to_le_bytes();
    unknown[56..64].copy_from_slice(&sum);
    for index in [Vec::new(), rng.bytes(100), rng.bytes(10_000), other.index, unknown] {
        let (answers, wrong) = sample.examine(&path, &sample.data, Some(&index), "index").unwrap();
        answers.verify.unwrap();
        assert!(wrong.is_empty());
    }
    for bytes in [rng.bytes(100), rng.bytes(20_000), b"\x89CRDNZA\n".to_vec()] {
        write_anew(&path, &bytes);
        assert!(Hash::open(&path).unwrap_err().is_bad_file());
        assert!(Hash::create(&path).unwrap_err().is_bad_file(), "it is not written over");
    }
}

/// What was read of a page before the damage in it came behind the error, for who went on.
#[test]
fn an_iterator_gives_what_it_has_read_and_ends_with_the_error() {
    let sample = sample(300);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut behind = 0;
    for at in (LOG_AT..sample.data.len()).step_by(37) {
        let mut data = sample.data.clone();
        data[at] ^= 0x55;
        write_image(&vec![Some(data), Some(sample.index.clone())], &Hash::files(&path));
        let Ok(store) = Hash::open(&path) else { continue };
        let mut before = 0;
        let scanned = Scan::scan(&store, |_, _| {
            before += 1;
            Ok(())
        });
        let items: Vec<_> = store.iter().collect();
        let records = items.iter().take_while(|item| item.is_ok()).count();
        assert_eq!(records, before, "{at}");
        assert_eq!(items.len() - records, usize::from(scanned.is_err()), "{at}");
        behind += usize::from(scanned.is_err() && before > 0);
    }
    assert!(behind > 0, "no damage was met behind a record");
}

/// A store that nobody synced, one damaged byte of a record that lives, and no index. Where no power has failed that is
/// damage, and not the end of the log; and what was removed does not come back.
#[test]
fn damage_in_a_store_that_was_never_synced_is_told_and_recovered_from() {
    let mut told = 0;
    for seed in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        let mut rng = Rng::new(seed);
        let mut living = std::collections::VecDeque::new();
        for i in 0..4000u64 {
            // A queue: each key is new, and removed some time later.
            let key = format!("key {i:06}").into_bytes();
            let value = rng.bytes(200);
            store.insert(&key, &value).unwrap();
            living.push_back((key, value));
            while living.len() as u64 > 100 + (i / 1000 % 2) * 150 {
                assert!(store.remove(&living.pop_front().unwrap().0).unwrap());
            }
            if i == 100 && seed % 2 == 1 {
                store.sync().unwrap();
            }
        }
        let mut data = fs::read(&path).unwrap();
        let (key, _) = &living[living.len() / 2];
        let at = data.windows(key.len()).rposition(|w| w == key).unwrap();
        data[at + key.len() + 50] ^= 1;
        // As if somebody had it open: a copy of it may be one of any moment.
        write_anew(&path, &data);
        fs::remove_file(index_of(&path)).unwrap();
        match Hash::options().read_only(true).open(&path) {
            Err(error) => {
                assert!(error.is_bad_file(), "{error}");
                told += 1;
            }
            Ok(found) => assert_eq!(found.len().unwrap(), living.len() as u64),
        }
        let to = folder.path().join("saved");
        recover(&path, &to, |_, _| {}).unwrap();
        let saved = Hash::open(&to).unwrap();
        let lives = |key: &[u8]| living.iter().any(|(living, _)| living == key);
        for item in saved.iter() {
            assert!(lives(&item.unwrap().0), "seed {seed}");
        }
        assert_eq!(saved.len().unwrap(), living.len() as u64 - 1, "seed {seed}");
        drop(store);
    }
    assert!(told > 6, "{told}");
}

#[test]
fn what_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let refusal = |path: &Path| {
        let error = Hash::open(path).unwrap_err();
        assert!(Hash::options().read_only(true).open(path).is_err(), "{error}");
        assert_eq!(error.path(), Some(path), "{error}");
        error
    };
    assert!(refusal(&path).to_string().contains("No such file"));
    assert!(refusal(folder.path()).to_string().contains("directory"));
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(refusal(&fifo).to_string().contains("FIFO"));
        Hash::create(&fifo).unwrap_err();
    }
    fs::write(&path, "").unwrap();
    assert!(refusal(&path).to_string().contains("empty"));
    // What begins with zeros, as a store that was never made whole does, is not written over.
    for (zeros, others) in [(8192, 1), (8192, 24), (8192 + 24, 8), (8192 + 4000, 96)] {
        let bytes = [vec![0; zeros], vec![0xa5; others]].concat();
        write_anew(&path, &bytes);
        assert!(Hash::create(&path).unwrap_err().is_bad_file(), "{zeros} zeros are written over");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let sample = sample(10);
    let sealed = |at: usize, byte: u8| {
        let mut data = sample.data.clone();
        data[at] = byte;
        let sum = xxh3_64(&data[..504]).to_le_bytes();
        data[504..512].copy_from_slice(&sum);
        write_anew(&path, &data);
        refusal(&path)
    };
    assert!(matches!(sealed(8, 1).kind(), ErrorKind::WrongFormat { .. }), "another engine");
    assert!(matches!(sealed(12, 9).kind(), ErrorKind::Unsupported(_)), "a later version");
    assert!(matches!(sealed(24, 15).kind(), ErrorKind::Unsupported(_)), "features");
    assert!(matches!(sealed(0, b'x').kind(), ErrorKind::WrongFormat { .. }), "magic");
    // A link that leads in a circle, and a file that stands where the index should be.
    write_anew(&path, &sample.data);
    fs::create_dir(index_of(&path)).unwrap();
    Hash::open(&path).unwrap_err();
}

/// Danger: what somebody else has beside the store under the name of its index, or laid there to have it lead to another's file,
/// is written over.
#[test]
fn what_is_no_index_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (index, aside) = (index_of(&path), folder.path().join("store-index.1"));
    let store = Hash::create(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    drop(store);
    let whole = fs::read(&index).unwrap();
    let victim = folder.path().join("victim");
    let opened = || {
        assert_eq!(Hash::open(&path).unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        assert!(is_index(&index));
    };
    for bytes in [b"notes".to_vec(), vec![0; 9000]] {
        write_anew(&index, &bytes);
        assert!(!is_index(&index));
        opened();
        assert!(fs::read(&aside).unwrap() == bytes);
        fs::remove_file(&aside).unwrap();
    }
    // Another store, which is not moved while somebody has it open.
    fs::remove_file(&index).unwrap();
    let tree = credenza::btree::BTree::create(&index).unwrap();
    let error = Hash::open(&path).unwrap_err().to_string();
    assert!(error.contains("open to write") && error.contains("store-index"), "{error}");
    drop(tree);
    opened();
    credenza::btree::BTree::open(&aside).unwrap();
    fs::remove_file(&aside).unwrap();
    // A link, also to what is an index of this very store.
    for bytes in [b"secret".to_vec(), whole] {
        write_anew(&victim, &bytes);
        fs::remove_file(&index).unwrap();
        symlink(&victim, &index).unwrap();
        opened();
        assert!(fs::read(&victim).unwrap() == bytes && !index.is_symlink());
        assert_eq!(fs::read_link(&aside).unwrap(), victim);
        fs::remove_file(&aside).unwrap();
    }
    // A new store of that name.
    fs::remove_file(&path).unwrap();
    write_anew(&index, b"notes");
    credenza::HashBuilder::create(&path).unwrap().finish().unwrap();
    assert_eq!(fs::read(&aside).unwrap(), b"notes");
    assert!(is_index(&index) && !is_index(&aside) && !is_index(&path));
    Hash::open(&path).unwrap().verify(|_, _| ()).unwrap();
}

#[test]
fn what_is_whole_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().join("store"), folder.path().join("saved"));
    // Of a sound store everything, and nothing that was removed, however often the log went round.
    let store = Hash::create(&path).unwrap();
    let mut rng = Rng::new(4);
    for _ in 0..20_000 {
        let key = format!("key {}", rng.below(2000)).into_bytes();
        match rng.below(100) {
            0 => store.sync().unwrap(),
            1..50 => must(store.insert(&key, &[1; 40])),
            _ => must(store.remove(&key)),
        }
    }
    let state = state_of(&store, "store");
    let in_use = recover(&path, &saved, |_, _| {}).unwrap_err();
    assert!(in_use.to_string().contains("somebody has the store open"), "{in_use}");
    drop(store);
    let mut told = Vec::new();
    let found = recover(&path, &saved, |done, total| told.push((done, total))).unwrap();
    assert!(state_of(&Hash::open(&saved).unwrap(), "saved") == state);
    assert_eq!((found.keys, found.lost_bytes, found.missing_bytes), (state.len() as u64, 0, 0));
    let (all, total) = *told.last().unwrap();
    assert!(all == total && told.is_sorted() && told.iter().all(|(_, of)| *of == total));
    assert!(recover(&path, &saved, |_, _| {}).is_err(), "what is there is not written over");
    // Of a damaged one every key but that of the damaged record.
    let sample = sample(60);
    for at in (LOG_AT + 24..sample.log_end()).step_by(23) {
        let mut data = sample.data.clone();
        data[at] ^= 0x55;
        write_anew(&path, &data);
        let saved = folder.path().join(format!("saved {at}"));
        recover(&path, &saved, |_, _| {}).unwrap();
        let found = state_of(&Hash::open(&saved).unwrap(), "saved");
        let is_end = |at: &usize| at / 4096 != (at + 24) / 4096 || at % 4096 < 24;
        let lost =
            sample.keys.iter().filter(|key| found.get(*key) != sample.state.get(*key)).count();
        let damaged = if is_end(&at) { sample.keys.len() } else { 1 };
        assert!(lost <= damaged, "byte {at}: {lost} keys are lost");
        fs::remove_file(&saved).unwrap();
    }
}

/// Takes away what was saved, so that something else can be.
fn remove(saved: &Path) {
    fs::remove_file(saved).unwrap();
    fs::remove_file(index_of(saved)).unwrap();
}

/// A whole segment was lost with its header, which may be a megabyte, and nothing was said of it.
#[test]
fn a_damaged_header_of_a_segment_costs_nothing() {
    const KEYS: u64 = 3000;
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().join("store"), folder.path().join("saved"));
    let store = Hash::create(&path).unwrap();
    for turn in 0..2 {
        (0..KEYS).for_each(|n| must(store.insert(format!("key {n}").as_bytes(), &[turn; 40])));
    }
    // Of several units, and what was removed is not to come back.
    must(store.insert(b"long", &[7; 100_000]));
    (0..KEYS).step_by(7).for_each(|n| must(store.remove(format!("key {n}").as_bytes())));
    let state = state_of(&store, "store");
    drop(store);
    let bytes = fs::read(&path).unwrap();
    let places: Vec<usize> = {
        let small = (0..8).map(|n| LOG_AT + 4096 * n);
        let larger = (0..8).map(|n| LOG_AT + 8 * 4096 + 8192 * n);
        let all = small.chain(larger).filter(|at| bytes[*at..*at + 24].iter().any(|b| *b != 0));
        all.collect()
    };
    assert!(places.len() > 8);
    let several: Vec<Vec<usize>> =
        places.iter().map(|at| vec![*at]).chain([places.clone()]).collect();
    for headers in several {
        for byte in [0, 8, 20] {
            let mut data = bytes.clone();
            headers.iter().for_each(|at| data[at + byte] ^= 0x55);
            write_anew(&path, &data);
            let found = recover(&path, &saved, |_, _| {}).unwrap();
            let is_same = state_of(&Hash::open(&saved).unwrap(), "saved") == state;
            assert!(is_same, "{headers:?} {byte}: {found:?} of {}", state.len());
            assert_eq!((found.lost_bytes, found.missing_bytes), (0, 0), "{headers:?}");
            remove(&saved);
        }
    }
}

/// Where nothing says in which segment the log begins that is the first: it was called missing, and without its header it
/// was.
#[test]
fn a_log_of_which_nothing_tells_the_beginning_begins_with_its_first_segment() {
    let sample = sample(300);
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().join("store"), folder.path().join("saved"));
    for is_damaged in [false, true] {
        let mut data = sample.data.clone();
        for place in [512..576, 1024..1088, 1536..1664] {
            data[place].fill(0);
        }
        data[LOG_AT] ^= if is_damaged { 0x55 } else { 0 };
        write_anew(&path, &data);
        let found = recover(&path, &saved, |_, _| {}).unwrap();
        assert_eq!((found.lost_bytes, found.missing_bytes), (0, 0), "{is_damaged}: {found:?}");
        assert!(state_of(&Hash::open(&saved).unwrap(), "saved") == sample.state, "{is_damaged}");
        remove(&saved);
    }
}

/// What was cut off was not told: nothing was lost of what was there.
#[test]
fn of_a_file_that_was_cut_off_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().join("store"), folder.path().join("saved"));
    let store = Hash::create(&path).unwrap();
    for n in 0..5000u32 {
        must(store.insert(format!("key {n}").as_bytes(), &[1; 40]));
    }
    store.sync().unwrap();
    drop(store);
    let bytes = fs::read(&path).unwrap();
    let log_end = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
    for end in (LOG_AT..log_end).step_by(4096 - 8) {
        write_anew(&path, &bytes[..end]);
        let found = recover(&path, &saved, |_, _| {}).unwrap();
        assert!(found.keys < 5000);
        let missing = found.missing_bytes as usize;
        assert!((1..=bytes.len() - end).contains(&missing), "{missing} of a file cut at {end}");
        for name in ["saved", "saved-index"] {
            let _ = fs::remove_file(folder.path().join(name));
        }
    }
}

/// Half of its records were missing, of which nothing was told: the log's end was not that of the file.
#[test]
fn of_a_file_that_was_cut_off_it_is_told_where_space_was_used_again() {
    const KEYS: u64 = 300_000;
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().join("store"), folder.path().join("saved"));
    let store = Hash::create(&path).unwrap();
    for round in 0..3 {
        (0..KEYS).for_each(|n| must(store.insert(format!("key {n}").as_bytes(), &[round; 80])));
        while round == 1 && store.compact(1 << 20).unwrap() {}
    }
    store.sync().unwrap();
    drop(store);
    let bytes = fs::read(&path).unwrap();
    for parts in [3, 5, 7] {
        let end = bytes.len() / 8 * parts;
        write_anew(&path, &bytes[..end]);
        let found = recover(&path, &saved, |_, _| {}).unwrap();
        assert_ne!(found.missing_bytes, 0, "{end} bytes of {}: {found:?}", bytes.len());
        remove(&saved);
    }
}

/// The same of a small file, wherever it was cut: whatever is gone, the log's beginning or what is between.
#[test]
fn of_a_small_file_that_was_cut_off_anywhere_it_is_told_where_space_was_used_again() {
    const KEYS: u64 = 2000;
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().join("store"), folder.path().join("saved"));
    let store = Hash::create(&path).unwrap();
    for (round, keys) in [(0, KEYS), (1, KEYS), (2, KEYS), (3, KEYS / 4), (4, KEYS / 4)] {
        (0..keys).for_each(|n| must(store.insert(format!("key {n}").as_bytes(), &[round; 80])));
        while (1..4).contains(&round) && store.compact(1 << 20).unwrap() {}
        store.sync().unwrap();
    }
    let state = state_of(&store, "store");
    drop(store);
    let bytes = fs::read(&path).unwrap();
    for part in 1..24 {
        let end = bytes.len() / 24 * part;
        write_anew(&path, &bytes[..end]);
        let found = recover(&path, &saved, |_, _| {}).unwrap();
        let is_whole = || state_of(&Hash::open(&saved).unwrap(), "saved") == state;
        let is_told = found.missing_bytes != 0 || is_whole();
        assert!(is_told, "{end} bytes of {}: {found:?}", bytes.len());
        remove(&saved);
    }
}

/// Danger: a removal that names the put, which is damaged: that before it must not count again.
#[test]
fn what_was_removed_is_not_saved_where_its_record_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().join("store"), folder.path().join("saved"));
    let key = |i: u32| format!("a key that is long enough, number {i}").into_bytes();
    let store = Hash::create(&path).unwrap();
    for value in ["the first", "the second"] {
        (0..20).for_each(|i| store.insert(&key(i), format!("{value} of {i}.").as_bytes()).unwrap());
    }
    (0..10).for_each(|i| assert!(store.remove(&key(i)).unwrap()));
    store.insert(&key(3), b"the third").unwrap();
    drop(store);
    let find =
        |data: &[u8], what: &str| data.windows(what.len()).position(|w| w == what.as_bytes());
    let mut data = fs::read(&path).unwrap();
    for i in [2, 3, 15] {
        let at = find(&data, &format!("the second of {i}.")).unwrap();
        data[at] ^= 1;
    }
    write_anew(&path, &data);
    let found = recover(&path, &saved, |_, _| {}).unwrap();
    let state = state_of(&Hash::open(&saved).unwrap(), "saved");
    assert_eq!((found.keys, state.len()), (11, 11), "{state:?}");
    assert_eq!(state[&key(3)], b"the third");
    assert_eq!(state[&key(15)], b"the first of 15.");
    assert_eq!(state[&key(16)], b"the second of 16.");
}

/// Danger: a copy with holes, also where processes meet, is written to through a map where the disk has no room.
#[test]
fn a_copy_with_holes_on_a_full_disk_is_an_error_and_no_signal() {
    let Some(mount) = Mount::of_size("1m") else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let sample = sample(60);
    let path = mount.path().join("store");
    let copy = File::create(&path).unwrap();
    // Where readers say what they hold: zeros in a store that nobody reads.
    let mut data = sample.data.clone();
    data[4096..8192].fill(0);
    for (i, page) in data.chunks(4096).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            copy.write_all_at(page, 4096 * i as u64).unwrap();
        }
    }
    copy.set_len(data.len() as u64).unwrap();
    fs::write(index_of(&path), &sample.index).unwrap();
    let ballast = mount.path().join("ballast");
    let _ = fs::write(&ballast, vec![0; 1 << 20]);
    let mut process = sys::fork(|| {
        let error = Hash::open(&path).unwrap_err().to_string();
        assert!(error.contains("holes") && error.contains("free some space"), "{error}");
    });
    assert_eq!(process.wait(), sys::Status::Exited(0));
    fs::remove_file(&ballast).unwrap();
    assert!(state_of(&Hash::open(&path).unwrap(), "with room again") == sample.state);
}

/// Cleaning moves records: a checksum that it made for a damaged one would hide the damage for good, and by a damaged
/// length, key or kind it would drop what lives.
#[test]
fn cleaning_makes_no_checksum_for_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let key = |i: u32| format!("key {i:06}").into_bytes();
    for i in 0..2000 {
        store.insert(&key(i), format!("value {i:06}").as_bytes()).unwrap();
    }
    drop(store);
    let (data, index) = (fs::read(&path).unwrap(), fs::read(index_of(&path)).unwrap());
    let value = b"value 000700";
    let value_at = data.windows(value.len()).position(|bytes| bytes == value).unwrap();
    let key_at = value_at - key(700).len();
    // The value, the key, and the lengths and the kind of the record.
    for at in [value_at + 3, key_at + 5, key_at - 4, key_at - 3, key_at - 1] {
        for bit in [1, 3, 16] {
            let mut damaged = data.clone();
            damaged[at] ^= bit;
            let what = format!("byte {at}, bit {bit}");
            for is_churned in [false, true] {
                let image = vec![Some(damaged.clone()), Some(index.clone())];
                write_image(&image, &Hash::files(&path));
                let store = Hash::open(&path).unwrap();
                let clean = || {
                    // Where much is replaced the log is cleaned as it grows; in any case there is garbage.
                    let count = if is_churned { 20_000 } else { 700 };
                    for i in (0..count).filter(|i| i % 2000 != 700) {
                        store.insert(&key(i % 2000), b"another value")?;
                    }
                    while store.compact(1 << 16)? {}
                    Ok(())
                };
                let cleaned: credenza::Result<()> = clean();
                assert!(cleaned.is_err(), "{what}: nothing was found");
                assert!(store.verify(|_, _| ()).is_err(), "{what}: verified");
                if is_churned {
                    let before = store.get(&key(1)).unwrap().map(|value| value.to_vec());
                    store.insert(&key(1), b"no change").unwrap_err();
                    store.remove(&key(1)).unwrap_err();
                    store.batch(Batch::new().insert(&key(1), b"no change")).unwrap_err();
                    assert_eq!(store.get(&key(1)).unwrap().as_deref(), before.as_deref());
                }
                drop(store);
                let saved = folder.path().join("saved");
                recover(&path, &saved, |_, _| {}).unwrap();
                let saved_store = Hash::open(&saved).unwrap();
                let missing = (0..2000).filter(|i| saved_store.get(&key(*i)).unwrap().is_none());
                assert_eq!(missing.collect::<Vec<_>>(), [700], "{what}");
                drop(saved_store);
                Hash::files(&saved).iter().for_each(|file| fs::remove_file(file).unwrap());
                // What is whole as a row of records can be emptied.
                if at >= key_at {
                    let store = Hash::open(&path).unwrap();
                    store.clear().unwrap_or_else(|e| panic!("{what}, {is_churned}: {e}"));
                    store.insert(&key(1), b"new").unwrap();
                    store.verify(|_, _| ()).unwrap();
                }
            }
        }
    }
}

#[test]
fn keys_and_values_have_limits() {
    let store = Hash::in_memory().unwrap();
    let longest = vec![7; 64 << 10];
    store.insert(&longest, b"value").unwrap();
    store.insert(b"", b"").unwrap();
    assert_eq!(store.get(&longest).unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(store.get(b"").unwrap().as_deref(), Some(&b""[..]));
    let over = vec![7; (64 << 10) + 1];
    let large = vec![0; 1 << 32];
    let mut batch = Batch::new();
    batch.insert(b"fits", b"").insert(&over, b"");
    let refused = [
        store.insert(&over, b""),
        store.remove(&over).map(drop),
        store.insert(b"large", &large),
        store.batch(&batch),
    ];
    for error in refused.map(|result| result.unwrap_err()) {
        assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
    }
    assert!(store.get(&over).unwrap().is_none());
    assert_eq!(store.len().unwrap(), 2, "nothing of the batch");
    if is_soak() {
        let longest = &large[..u32::MAX as usize];
        store.insert(b"large", longest).unwrap();
        assert_eq!(store.get_with(b"large", |v| v.len()).unwrap(), Some(u32::MAX as usize));
        store.append(b"large", b"x").unwrap_err();
        store.verify(|_, _| ()).unwrap();
    }
}
