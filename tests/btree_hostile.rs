//! Danger: files made to do harm, that make a btree store panic, hang, die of SIGBUS, or take all
//! memory.
//!
//! Whatever bytes a file has, every call gives an answer or an error, and comes to an end. The two
//! locks in the session are the C library's: what damage made of them is not tried.

mod common;

use common::btree::LOCKS_AT;
use common::sample::{
    COMMIT_WORDS, COMMITS, META, METAS, PAGE, SESSION, STATE, put, sample, try_all, word,
};
use common::subject::Subject;
use common::{Rng, ordered, rounds, seed, sys};
use credenza::Durability;
use credenza::btree::BTree;
use std::fs;

/// Words that a hostile file may have where numbers are.
fn hostile(rng: &mut Rng, old: u64) -> u64 {
    match rng.below(12) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => 1 << rng.below(64),
        4 => old.wrapping_add(1),
        5 => old.wrapping_sub(1),
        6 => old ^ 1 << rng.below(64),
        7 => rng.below(300),
        8 => (1 << 62) - rng.below(3),
        9 => (1 << 63) + rng.below(300),
        10 => rng.below(1 << 40),
        _ => rng.next(),
    }
}

/// The bytes of a durable commit with its checksum.
fn seal(bytes: &mut [u8], at: usize) {
    let sum = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[at..at + META - 8], word(bytes, 32));
    put(bytes, at + META - 8, sum);
}

#[test]
fn hostile_words_of_the_session_and_of_commits_do_no_harm() {
    sys::limit_memory(2 << 30);
    let sample = sample(40);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let is_lock = |at: &usize| (LOCKS_AT[0]..LOCKS_AT[1] + 64).contains(at);
    for round in 0..rounds(6) {
        let mut rng = Rng::new(seed(round));
        for at in (SESSION..PAGE).step_by(8).filter(|at| !is_lock(at)) {
            // Of the slots some are enough.
            if at > 3100 && at % 64 > 0 {
                continue;
            }
            let mut bytes = sample.bytes.clone();
            let value = hostile(&mut rng, word(&bytes, at));
            put(&mut bytes, at, value);
            let what = format!("seed {}, word {at} is {value:#x}", round + 1);
            try_all(&path, &sample, &bytes, &mut rng, &what);
        }
        for i in 0..COMMIT_WORDS {
            let mut bytes = sample.bytes.clone();
            for place in METAS {
                let value = hostile(&mut rng, word(&bytes, place + 8 * i));
                put(&mut bytes, place + 8 * i, value);
                seal(&mut bytes, place);
            }
            BTree::reboot(&mut bytes);
            let what = format!("seed {}, word {i} of the durable commits", round + 1);
            try_all(&path, &sample, &bytes, &mut rng, &what);
            let mut bytes = sample.bytes.clone();
            let at = sample.commit_at() + 8 * i;
            let value = hostile(&mut rng, word(&bytes, at));
            put(&mut bytes, at, value);
            let what = format!("seed {}, word {i} of the newest commit is {value:#x}", round + 1);
            try_all(&path, &sample, &bytes, &mut rng, &what);
        }
    }
}

/// Danger: who puts back what a dead writer changed writes elsewhere.
#[test]
fn hostile_notes_of_what_to_undo_do_no_harm() {
    const STATE: usize = 2080;
    const NOTE: usize = 3056;
    sys::limit_memory(2 << 30);
    let sample = sample(40);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let pages = (sample.bytes.len() / PAGE) as u64;
    for round in 0..rounds(60) {
        let mut rng = Rng::new(seed(round));
        let mut bytes = sample.bytes.clone();
        let state = word(&bytes, STATE);
        put(&mut bytes, STATE, state | 1 << 63);
        let note = rng.below(pages + 2);
        put(&mut bytes, NOTE, note);
        if let Some(page) = bytes.chunks_mut(PAGE).nth(note as usize).filter(|_| note > 0) {
            put(page, 8, rng.below(pages + 2));
            let parts = [rng.below(5), rng.below(4096), rng.below(3000), rng.below(5000)];
            for (i, part) in parts.into_iter().enumerate() {
                page[16 + 2 * i..18 + 2 * i].copy_from_slice(&(part as u16).to_le_bytes());
            }
        }
        let what = format!("seed {}, note {note}", round + 1);
        try_all(&path, &sample, &bytes, &mut rng, &what);
    }
}

/// Danger: who may only read, and undoes in memory what a dead writer changed, takes as much as the commit says.
#[test]
fn hostile_ends_of_a_commit_that_was_being_changed_are_refused() {
    sys::limit_memory(2 << 30);
    let sample = sample(40);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for end in [0, 1, 1 << 34, 1 << 40, 1 << 51, 1 << 52, u64::MAX / 4096, u64::MAX] {
        let mut bytes = sample.bytes.clone();
        let state = word(&bytes, STATE);
        put(&mut bytes, STATE, state | 1 << 63);
        put(&mut bytes, sample.commit_at() + 16, end);
        fs::write(&path, bytes).unwrap();
        let error = BTree::options().read_only(true).open(&path).unwrap_err();
        assert!(error.is_bad_file(), "end {end}: {error}");
    }
}

/// What was appended to the journal says which pages it changed, and what is to be written where: of
/// any others, and of numbers that cannot be.
#[test]
fn hostile_journals_do_no_harm() {
    sys::limit_memory(2 << 30);
    let sample = sample(40);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fs::write(&path, &sample.bytes).unwrap();
    let store = BTree::options().durability(Durability::Sync).open(&path).unwrap();
    for len in [3, 700, 5000, 3, 3, 3, 700, 700, 5000, 3] {
        store.insert(&sample.keys[3], &vec![5; len]).unwrap();
    }
    let bytes = fs::read(&path).unwrap();
    drop(store);
    // Where a durable commit says where the journal is, how long, and what its checksums begin with.
    let place = METAS.into_iter().max_by_key(|at| word(&bytes, at + 8)).unwrap();
    let journal = place + 8 * (COMMIT_WORDS + 1);
    let first = word(&bytes, journal) as usize * PAGE;
    assert!(first > 0, "there is no journal");
    let salt = word(&bytes, journal + 16);
    let entries = entries(&bytes[first..]);
    assert!(entries.len() > 2, "too little was appended");
    let mut counted = 0;
    for round in 0..rounds(200) {
        let mut rng = Rng::new(seed(round));
        let mut bytes = bytes.clone();
        if rng.below(5) == 0 {
            let at = journal + 8 * rng.below(3) as usize;
            let value = hostile(&mut rng, word(&bytes, at));
            put(&mut bytes, at, value);
            seal(&mut bytes, place);
        } else {
            for _ in 0..1 + rng.below(3) {
                let entry = &entries[rng.below(entries.len() as u64) as usize];
                let words = &entry.words;
                let at = first + words[rng.below(words.len() as u64) as usize];
                let value = hostile(&mut rng, word(&bytes, at));
                put(&mut bytes, at, value);
            }
            // The checksum of each begins with that of the one before.
            entries.iter().fold(salt, |seed, entry| {
                let from = first + entry.at;
                let len = word(&bytes, from + 8).clamp(8, 1 << 20) as usize;
                let sealed = &bytes[from + 8..(from + len).min(bytes.len())];
                let sum = xxhash_rust::xxh3::xxh3_64_with_seed(sealed, seed);
                put(&mut bytes, from, sum);
                sum
            });
        }
        BTree::reboot(&mut bytes);
        let what = format!("seed {}", round + 1);
        counted += u64::from(try_all(&path, &sample, &bytes, &mut rng, &what));
    }
    println!("{counted} passed verify");
}

/// What was appended, and all of its words that say something about the rest.
struct Entry {
    at: usize,
    words: Vec<usize>,
}

fn entries(journal: &[u8]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut at = 0;
    while word(journal, at + 8) != 0 && entries.len() < 8 {
        let head = 3 + COMMIT_WORDS;
        let (changes, pieces) = (word(journal, at + 8 * head), word(journal, at + 8 * head + 8));
        let mut words: Vec<usize> = (1..head + 2 + changes as usize).map(|i| at + 8 * i).collect();
        let mut piece = at + 8 * (head + 2 + changes as usize);
        for _ in 0..pieces {
            words.extend([piece, piece + 8]);
            piece += 16 + word(journal, piece + 8).next_multiple_of(8) as usize;
        }
        let len = word(journal, at + 8) as usize;
        assert_eq!(at + len, piece, "an entry is longer than what is in it");
        entries.push(Entry { at, words });
        at += len;
    }
    entries
}

#[test]
fn hostile_tables_of_pages_do_no_harm() {
    sys::limit_memory(2 << 30);
    let sample = sample(40);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for round in 0..rounds(40) {
        let mut rng = Rng::new(seed(round));
        let mut bytes = sample.bytes.clone();
        let end = word(&bytes, sample.commit_at() + 16);
        for _ in 0..1 + rng.below(8) {
            let at = PAGE + 8 * rng.below(2 * end) as usize;
            let value = hostile(&mut rng, word(&bytes, at));
            put(&mut bytes, at, value);
        }
        if rng.below(3) == 0 {
            BTree::reboot(&mut bytes);
        }
        try_all(&path, &sample, &bytes, &mut rng, &format!("seed {}", round + 1));
    }
}

/// Where a page's heads begin.
const HEADS: usize = 48;

/// One hostile change of a page of a tree.
fn harm(bytes: &mut [u8], pages: &[usize], rng: &mut Rng) {
    let any = |rng: &mut Rng| pages[rng.below(pages.len() as u64) as usize];
    let page = any(rng) * PAGE;
    let short = |rng: &mut Rng| {
        let some = [0, 1, 2, 31, 32, 33, 255, 1016, 1017, 2048, 4064, 4095, 4096, 4097, 65535];
        if rng.below(3) == 0 { rng.below(65536) as u16 } else { some[rng.below(15) as usize] }
    };
    let room = usize::from(u16::from_le_bytes([bytes[page + 12], bytes[page + 13]]));
    let arrays = (page + HEADS + 4 * room.min(500)).next_multiple_of(8);
    match rng.below(10) {
        // Kind, level, count, room, prefix, heap, waste, lengths, flags.
        0..3 => {
            let at = page + 8 + 2 * rng.below(9) as usize;
            let value = short(rng);
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        3 => bytes[page + 8 + rng.below(2) as usize] = rng.below(5) as u8,
        // Offsets and links, wherever those are.
        4..6 => {
            let at = arrays + 2 * rng.below(100) as usize;
            let value = short(rng);
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        6 => {
            let at = arrays + 8 * rng.below(20) as usize;
            let to = any(rng) as u64;
            put(bytes, at, to);
        }
        7 => {
            let at = page + HEADS + rng.below((PAGE - HEADS) as u64) as usize;
            let len = (1 + rng.below(64) as usize).min(page + PAGE - at);
            let noise = rng.bytes(len);
            bytes[at..at + len].copy_from_slice(&noise);
        }
        8 => {
            // Another page's bytes, under this one's stamp.
            let other = any(rng) * PAGE;
            bytes.copy_within(other + 8..other + PAGE, page + 8);
        }
        _ => {
            let at = page + HEADS + rng.below((PAGE - HEADS) as u64) as usize;
            bytes[at] = rng.next() as u8;
        }
    }
}

#[test]
fn hostile_pages_do_no_harm() {
    sys::limit_memory(2 << 30);
    let sample = sample(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let pages = sample.pages();
    let mut sound = 0;
    for round in 0..rounds(200) {
        let mut rng = Rng::new(seed(round));
        let mut bytes = sample.bytes.clone();
        for _ in 0..1 + rng.below(5) {
            harm(&mut bytes, &pages, &mut rng);
        }
        // With checksums that fit, or without any.
        let has_sums = rng.below(2) == 0;
        for page in &pages {
            let part = &bytes[page * PAGE..(page + 1) * PAGE];
            let sum = xxhash_rust::xxh3::xxh3_64_with_seed(part, *page as u64) | 1 << 63;
            put(&mut bytes, PAGE + 16 * page + 8, if has_sums { sum } else { 0 });
        }
        let what = format!("seed {}", round + 1);
        sound += u64::from(try_all(&path, &sample, &bytes, &mut rng, &what));
    }
    println!("{sound} passed verify");
}

/// Every page leads to the same one below: a walk that believed it would come to no end.
#[test]
fn links_that_meet_again_end_a_walk() {
    sys::give_up_after(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    for i in 0..3000u64 {
        store.insert(&ordered(i), &[1; 8]).unwrap();
    }
    drop(store);
    let template = fs::read(&path).unwrap();
    let at = COMMITS[word(&template, STATE) as usize % 2];
    let root = (word(&template, at + 24) & 0xff_ffff) as usize;
    assert_eq!(word(&template, at + 32), 2, "a root and its leaves");
    for leaf_has in ["all", "none", "two in no order"] {
        let mut bytes = template.clone();
        let length = bytes.len() / PAGE;
        let room =
            usize::from(u16::from_le_bytes([bytes[root * PAGE + 12], bytes[root * PAGE + 13]]));
        let count =
            usize::from(u16::from_le_bytes([bytes[root * PAGE + 10], bytes[root * PAGE + 11]]));
        let links = (HEADS + 4 * room).next_multiple_of(8);
        let leaf = (word(&bytes, root * PAGE + links) & 0xff_ffff) as usize;
        assert!([1, 2].contains(&bytes[leaf * PAGE + 8]), "a leaf");
        match leaf_has {
            "none" => bytes[leaf * PAGE + 10..leaf * PAGE + 12].fill(0),
            "two in no order" => {
                bytes[leaf * PAGE + 10..leaf * PAGE + 12].copy_from_slice(&[2, 0]);
                let heads = leaf * PAGE + HEADS;
                let (one, other) = bytes[heads..heads + 8].split_at_mut(4);
                one.swap_with_slice(other);
            }
            _ => {}
        }
        let page = bytes[root * PAGE..(root + 1) * PAGE].to_vec();
        for level in 1..30u8 {
            let mut page = page.clone();
            let below = if level == 1 { leaf } else { length + usize::from(level) - 2 };
            (0..count).for_each(|i| put(&mut page, links + 8 * i, below as u64));
            page[9] = level;
            bytes.extend(page);
        }
        put(&mut bytes, at + 24, length as u64 + 28);
        put(&mut bytes, at + 32, 30);
        put(&mut bytes, at + 16, length as u64 + 29);
        fs::write(&path, &bytes).unwrap();
        let store = BTree::open(&path).unwrap();
        let snapshot = store.read().unwrap();
        let table = snapshot.main();
        let first: Vec<_> =
            table.iter().take(2).map_while(Result::ok).map(|(key, _)| key).collect();
        assert_eq!(first.is_sorted(), leaf_has != "two in no order", "{first:?}");
        assert!(table.scan(|_, _| Ok(())).is_err(), "a scan");
        assert!(table.iter().any(|pair| pair.is_err()), "a walk");
        assert!(table.iter().rev().any(|pair| pair.is_err()), "a walk back");
        store.verify(|_, _| ()).unwrap_err();
        drop(snapshot);
        let more = (0..1000).take_while(|_| store.compact(1 << 20).is_ok_and(|is_more| is_more));
        assert!(more.count() < 1000, "a compaction");
        let mut transaction = store.write().unwrap();
        let _ = transaction.main().remove_range(..);
        let _ = transaction.main().clear();
        drop(transaction);
    }
}

/// Inner pages that say they lead to nothing, or to one page, are compacted as they are, or not at all.
#[test]
fn inner_pages_without_links_do_no_harm_to_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    for i in 0..400u64 {
        store.insert(&[&[i as u8 % 20; 300][..], &ordered(i)].concat(), &[1; 200]).unwrap();
    }
    drop(store);
    let template = fs::read(&path).unwrap();
    let inner: Vec<usize> = (2..template.len() / PAGE)
        .filter(|page| template[page * PAGE + 8] == 3 && template[page * PAGE + 9] == 1)
        .collect();
    assert!(inner.len() > 2, "{inner:?}");
    for round in 0..32u32 {
        let mut bytes = template.clone();
        for (n, page) in inner.iter().enumerate() {
            let count = if round == 31 { 0 } else { (round >> (n % 5)) as u8 & 1 };
            bytes[page * PAGE + 10..page * PAGE + 12].copy_from_slice(&[count, 0]);
            put(&mut bytes, PAGE + 16 * page + 8, 0);
        }
        fs::write(&path, &bytes).unwrap();
        let store = BTree::open(&path).unwrap();
        let more = (0..1000).take_while(|_| store.compact(1 << 20).is_ok_and(|is_more| is_more));
        assert!(more.count() < 1000);
        let _ = store.read().unwrap().main().scan(|_, _| Ok(()));
    }
}
