//! Danger: a data set that changes with a version makes old and new figures incomparable, and
//! queries that do not do what they say make every figure wrong.

use super::*;
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64;

const SEED: u64 = 7;

fn workload(name: &str, records: usize, gets: usize) -> Workload {
    let found = Workload::find(name).unwrap();
    Workload { records: Some(records), gets, seed: SEED, ..found }
}

fn prepared(name: &str, records: usize, gets: usize) -> Inputs {
    Inputs::prepare(&workload(name, records, gets)).unwrap().0
}

/// The hash of the first 100 records and of the first 100 queries of each set.
fn golden(inputs: &Inputs) -> u64 {
    let mut bytes = Vec::new();
    for (key, value) in inputs.records.iter().take(100) {
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
    let QuerySets { hit, most, miss } = &inputs.queries;
    for queries in [hit, most, miss] {
        queries.iter().take(100).for_each(|key| bytes.extend_from_slice(key));
    }
    xxh3_64(&bytes)
}

#[test]
fn a_seed_gives_the_same_data_in_every_version() {
    let of = |name| golden(&prepared(name, 5000, 500));
    assert_eq!(
        [of("decimal"), of("tokens"), of("ups"), of("churn"), of("ntdb"), of("ycsb")]
            .map(|hash| format!("{hash:016x}")),
        [
            "adb02f27e32cc180",
            "36aaacb35ef5d872",
            "010898a312004376",
            "d7a63b3b7c5df659",
            "70021094e4cd6606",
            "1fcf5252d78c017f"
        ]
    );
}

#[test]
fn what_no_phase_asks_for_is_empty_and_the_rest_as_ever() {
    let all = prepared("tokens", 1000, 100).queries;
    let of = |set: &Queries| -> Vec<(Vec<u8>, Option<usize>)> {
        set.iter().enumerate().map(|(i, key)| (key.to_vec(), set.expected(i))).collect()
    };
    let sets = |all: &QuerySets| [of(&all.hit), of(&all.most), of(&all.miss)];
    for (phase, kept) in [
        (Phase::Build, [false, false, false]),
        (Phase::Range, [false, false, false]),
        (Phase::Remove, [false, false, false]),
        (Phase::GetHit, [true, false, false]),
        (Phase::GetChain, [true, false, false]),
        (Phase::Mixed, [true, false, false]),
        (Phase::InsertSync, [true, false, false]),
        (Phase::Get90, [false, true, false]),
        (Phase::GetMiss, [false, false, true]),
        (Phase::GetManyMiss, [false, false, true]),
    ] {
        let one = Workload { phases: Some(vec![phase]), ..workload("tokens", 1000, 100) };
        let one = Inputs::prepare(&one).unwrap().0.queries;
        for ((got, whole), is_kept) in sets(&one).into_iter().zip(sets(&all)).zip(kept) {
            assert_eq!(got, if is_kept { whole } else { Vec::new() }, "{phase}");
        }
    }
}

#[test]
fn another_seed_gives_other_data() {
    let other = Workload { seed: SEED + 1, ..workload("tokens", 1000, 100) };
    let (other, _) = Inputs::prepare(&other).unwrap();
    assert_ne!(golden(&other), golden(&prepared("tokens", 1000, 100)));
}

#[test]
fn decimal_is_mcdbs_own_test() {
    let inputs = prepared("decimal", 1234, 10);
    assert_eq!(inputs.records.len(), 1234);
    for (i, (key, value)) in inputs.records.iter().enumerate() {
        assert_eq!((key, value), (format!("{i:08}").as_bytes(), key));
    }
    let largest = inputs.records.key(1233);
    assert!(inputs.queries.miss.iter().all(|key| key > largest), "the notes say so");
    assert_eq!(Decimal::new(100_000_000).records(1).unwrap().key(0), b"000000000");
}

#[test]
fn tokens_have_the_stated_sizes() {
    let inputs = prepared("tokens", 100_000, 10);
    let records = &inputs.records;
    let count = records.len() as f64;
    assert_eq!(records.len(), 100_000);
    let lens = || records.iter().map(|(key, _)| key.len());
    assert!(lens().min().unwrap() >= 3 && lens().max().unwrap() <= 40);
    // A tenth of so few tokens are single words, of all eleven millions hardly one in a hundred.
    let pairs = records.iter().filter(|(key, _)| key.contains(&b' '));
    let (n, bytes) = pairs.fold((0, 0), |(n, bytes), (key, _)| (n + 1, bytes + key.len()));
    assert!((f64::from(n) - 0.9 * count).abs() < 1.0);
    let pair = bytes as f64 / f64::from(n);
    assert!((12.6..13.2).contains(&pair), "{pair}");
    let value = records.value_bytes() as f64 / count;
    assert!((11.98..12.02).contains(&value), "{value}");
    let numbers = |value: &[u8]| value.split(|b| *b == b',').count();
    assert!(records.iter().all(|(_, value)| numbers(value) == 3));
}

#[test]
fn ups_has_16_and_1024_bytes() {
    let inputs = prepared("ups", 300, 10);
    assert!(inputs.records.iter().all(|(key, value)| (key.len(), value.len()) == (16, 1024)));
    assert!(inputs.records.iter().all(|(key, _)| key.iter().all(u8::is_ascii_alphanumeric)));
}

#[test]
fn churn_has_32_and_128_bytes() {
    let inputs = prepared("churn", 300, 10);
    assert!(inputs.records.iter().all(|(key, value)| (key.len(), value.len()) == (32, 128)));
}

#[test]
fn random_has_the_sizes_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let find = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let found = Workload::find(path.to_str().unwrap())?;
        Ok(Inputs::prepare(&Workload { gets: 100, ..found })?.0)
    };
    let sizes =
        "data = \"random\"\nrecords = 2000\nkey-size = \"4..9\"\nvalue-size = \"zipfian:0..500\"";
    let inputs = find(sizes).unwrap();
    let count = |is: &dyn Fn(&[u8], &[u8]) -> bool| {
        inputs.records.iter().filter(|(key, value)| is(key, value)).count()
    };
    assert_eq!(count(&|key, value| (4..=9).contains(&key.len()) && value.len() <= 500), 2000);
    assert!((270..400).contains(&count(&|key, _| key.len() == 9)));
    // One of 6.9, and two thirds of the range is for one of six.
    assert!((220..370).contains(&count(&|_, value| value.is_empty())));
    assert!((200..450).contains(&count(&|_, value| value.len() > 160)));
    let refused = |text: &str| {
        let text = format!("data = \"random\"\nrecords = 100\n{text}");
        find(&text).err().map(|e: Error| e.to_string()).unwrap_or_default()
    };
    assert!(refused("key-size = \"1\"").contains("only 62 of 100 random keys were different"));
    assert!(refused("key-size = \"0..8\"").contains("key-size must be at least 1"));
    assert!(refused("value-size = \"1073741824\"").contains("more than this machine has memory"));
    assert!(
        refused("compression-ratio = 0").contains("is left of a value: above 0, and 1 at most")
    );
    assert!(refused("compression-ratio = nan").contains("above 0, and 1 at most"));
    assert!(refused("compression-ratio = 0.5\nvalue-type = \"u32\"").contains("of type u32"));
    let half = find("data = \"random\"\nrecords = 99\nvalue-size = 101\ncompression-ratio = 0.5");
    for (_, value) in half.unwrap().records.iter() {
        // 51 new bytes, and the first 50 of them again.
        assert!(value[51..] == value[..50] && value[..25] != value[25..50], "{value:?}");
    }
    assert!(refused("value-size = 3.5").contains("expected a whole number or a string"));
    assert_eq!(
        find("data = \"random\"\nrecords = 9\nkey-size = 7").unwrap().records.key_bytes(),
        63
    );
    let other = find("data = \"ups\"\nkey-size = \"8\"").err().unwrap().to_string();
    assert!(other.contains("are for data = \"random\""), "{other}");
}

#[test]
fn typed_keys_are_those_of_the_seed_and_absent_ones_are_of_the_type() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("typed.toml");
    let of = |keys: &str| {
        let text =
            format!("data = \"random\"\nkey-type = \"{keys}\"\nkey-size = 9\nvalue-size = 4");
        let text = if keys == "string" { text } else { text.replace("key-size = 9\n", "") };
        std::fs::write(&path, text).unwrap();
        let found = Workload::find(path.to_str().unwrap()).unwrap();
        Inputs::prepare(&Workload { records: Some(200), gets: 100, seed: SEED, ..found }).unwrap().0
    };
    let types = ["string", "u8", "u32", "i64", "f32", "f64", "record-number32"];
    let all = types.map(of);
    for (inputs, keys) in all.iter().zip(types) {
        assert_eq!(inputs.records.key_type().name(), keys);
        let len = inputs.records.key_type().width().unwrap_or(9);
        let has_len = |key: &[u8]| key.len() == len;
        assert!(inputs.keys().chain(inputs.queries.miss.iter()).all(has_len), "{keys}");
    }
    let printable = |key: &[u8]| key.iter().all(|byte| (b' '..=b'~').contains(byte));
    assert!(all[0].keys().all(printable) && !all[2].keys().all(printable));
    let numbers: Vec<u64> = all[6].keys().map(key_type::number_of).collect();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
    let missed = all[6].queries.miss.iter().map(key_type::number_of);
    assert!(missed.collect::<Vec<_>>().iter().all(|number| (201..=400).contains(number)));
    assert_eq!(
        all.map(|inputs| format!("{:016x}", golden(&inputs))),
        [
            "557cd860f7cdc6e0",
            "4d85a9b55631b5fc",
            "960f0acc3df3ca05",
            "92b6e1cc89a9789a",
            "e38dbed21654a26c",
            "e585bbaa93c57bd2",
            "791bd29fdc5f9607"
        ]
    );
}

#[test]
fn ntdb_is_its_own_benchmark() {
    let inputs = prepared("ntdb", 300, 10);
    assert_eq!(inputs.records.len(), 300);
    for (i, (key, value)) in inputs.records.iter().enumerate() {
        assert_eq!((key, value), (&(i as u32).to_le_bytes()[..], key));
    }
    let number = |key: &[u8]| u32::from_le_bytes(key.try_into().unwrap());
    assert!(inputs.queries.miss.iter().all(|key| (300..600).contains(&number(key))));
}

#[test]
fn ycsb_has_its_own_keys_and_ten_fields() {
    let inputs = prepared("ycsb-d", 300, 1000);
    let key = |i| std::str::from_utf8(inputs.records.key(i)).unwrap();
    // The first keys that every run of YCSB itself loads.
    assert_eq!([key(0), key(1)], ["user6284781860667377211", "user8517097267634966620"]);
    assert!(inputs.records.iter().all(|(_, value)| value.len() == 1000));
    let mut keys: Vec<&[u8]> = inputs.records.iter().map(|(key, _)| key).collect();
    keys.extend(inputs.fresh.iter().map(|(key, _)| key));
    // Five of a hundred operations insert.
    assert!((330..370).contains(&keys.len()), "{}", keys.len());
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 300 + inputs.fresh.len());
}

#[test]
fn keys_to_insert_that_cannot_be_found_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, "data = \"ntdb\"\n[mix]\ninsert = 1\n").unwrap();
    let found = Workload::find(path.to_str().unwrap()).unwrap();
    let too_many = Workload { records: Some(100), gets: 200, ..found };
    let refused = Inputs::prepare(&too_many).err().unwrap().to_string();
    assert!(refused.contains("only 100 of 200 keys to insert were found"), "{refused}");
}

#[test]
fn lookups_follow_the_distribution() {
    let popular = |text: &str| {
        let wanted = workload("churn", 1000, 5000);
        let wanted = Workload { distribution: text.parse().unwrap(), ..wanted };
        let (inputs, _) = Inputs::prepare(&wanted).unwrap();
        let QuerySets { hit, most, .. } = &inputs.queries;
        [hit, most].map(|queries| {
            let mut counts = vec![0; 1000];
            let records = (0..queries.len()).filter_map(|i| queries.expected(i));
            records.for_each(|record| counts[record] += 1);
            *counts.iter().max().unwrap()
        })
    };
    assert!(popular("uniform").iter().all(|count| *count < 30));
    // The most popular has one in 7.9 of them, of nine of ten in the second set.
    assert!(popular("zipfian").iter().all(|count| (450..750).contains(count)));
    assert_eq!(popular("ascending")[0], 5);
}

#[test]
fn every_key_is_removed_once_in_random_order() {
    let records = prepared("churn", 300, 10).records;
    let all = Queries::of_all(&records, SEED);
    let order: Vec<usize> = (0..all.len()).filter_map(|i| all.expected(i)).collect();
    assert!(all.iter().zip(&order).all(|(key, i)| key == records.key(*i)));
    assert!(!order.is_sorted());
    let mut sorted = order;
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..300));
}

#[test]
fn keys_are_distinct_and_queries_are_what_they_say() {
    for name in ["decimal", "tokens", "ups", "churn", "ntdb", "ycsb"] {
        let Inputs { records, queries, .. } = prepared(name, 2000, 1000);
        let keys: HashMap<&[u8], usize> =
            records.iter().enumerate().map(|(i, (key, _))| (key, i)).collect();
        assert_eq!(keys.len(), 2000, "{name}");
        let QuerySets { hit, most, miss } = &queries;
        for (queries, hits) in [(hit, 1000), (most, 900), (miss, 0)] {
            assert_eq!(queries.len(), 1000);
            let found = queries.iter().filter(|key| keys.contains_key(key)).count();
            assert_eq!(found, hits, "{name}");
            for (i, key) in queries.iter().enumerate() {
                assert_eq!(queries.expected(i), keys.get(key).copied(), "{name}");
            }
        }
        let lens = || records.iter().map(|(key, _)| key.len());
        let usual = lens().min().unwrap()..=lens().max().unwrap();
        // Hashes have fewer digits now and then.
        let is_usual = |key: &[u8]| usual.contains(&key.len()) || name == "ycsb";
        assert!(miss.iter().all(is_usual), "{name}");
    }
}

#[test]
fn what_the_parent_saves_the_children_load() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = prepared("tokens", 500, 50);
    let path = folder.path().join("inputs");
    inputs.save(&path).unwrap();
    let again = Inputs::load(&path).unwrap();
    assert_eq!(golden(&again), golden(&inputs));
    assert!(again.records.iter().eq(inputs.records.iter()));
    for i in 0..50 {
        assert_eq!(again.queries.most.expected(i), inputs.queries.most.expected(i));
    }
}

#[test]
fn files_are_the_paths_of_a_folder_with_their_facts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("b")).unwrap();
    std::fs::write(folder.path().join("b/x"), "12345").unwrap();
    std::fs::write(folder.path().join("a"), "").unwrap();
    let records = files::paths_below(folder.path(), 100).unwrap();
    let root = folder.path().canonicalize().unwrap();
    let name = |i| String::from_utf8(records.key(i).to_vec()).unwrap();
    let names: Vec<_> = (0..records.len()).map(name).collect();
    let expected = ["a", "b", "b/x"].map(|n| root.join(n).display().to_string());
    assert_eq!(names, expected);
    let value = std::str::from_utf8(records.get(2).1).unwrap();
    let words: Vec<_> = value.split(' ').collect();
    assert_eq!((words.len(), words[0], &words[1][..3]), (3, "5", "100"));
    assert_eq!(files::paths_below(folder.path(), 2).unwrap().len(), 2);
    assert!(files::paths_below(&folder.path().join("nowhere"), 2).is_err());
}

#[test]
fn a_file_of_records_is_data_and_repeated_keys_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.cdb.txt");
    std::fs::write(&path, "+1,1:a->1\n+1,1:b->2\n+1,1:a->3\n\n").unwrap();
    let wanted = Workload { gets: 20, ..Workload::of_records(&path, None) };
    let (inputs, notes) = Inputs::prepare(&wanted).unwrap();
    assert_eq!(inputs.records.iter().collect::<Vec<_>>(), [(&b"a"[..], &b"1"[..]), (b"b", b"2")]);
    assert!(notes[0].starts_with("1 record was left out"), "{notes:?}");
    assert!((0..20).all(|i| inputs.queries.miss.expected(i).is_none()));
    std::fs::write(&path, "+1,1:a->1\n+9,1:b->2\n").unwrap();
    assert!(Inputs::prepare(&wanted).is_err());
}

#[test]
fn a_workload_file_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let find = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Workload::find(path.to_str().unwrap())
    };
    let full = "data = \"files\"\nroot = \"/etc\"\nrecords = 9\nphases = [\"get-90\"]\nseed = 3\n";
    let found = find(full).unwrap();
    assert_eq!((found.name.as_str(), found.records, found.seed), ("mine", Some(9), 3));
    assert_eq!(found.phases, Some(vec![Phase::Get90]));
    assert!(matches!(found.data, Data::Files { root } if root == Path::new("/etc")));
    let found = find("data = \"x.tsv\"\nname = \"n\"").unwrap();
    assert!(matches!(found.data, Data::File { path, .. } if path == folder.path().join("x.tsv")));
    let found = find("data = \"ups\"\ndistribution = \"latest\"\n[mix]\nscan = 1").unwrap();
    assert_eq!(found.distribution.to_string(), "latest:theta=0.99");
    assert_eq!(found.mixes.to_string(), "scan 1 (of 1..100 records), keys latest:theta=0.99");
    let found = find("data = \"ups\"\ndistribution = \"hotspot\"").unwrap();
    let usual = "get 6, update 3, remove 1, keys hotspot:keys=0.2,operations=0.8";
    assert_eq!(found.mixes.to_string(), usual);
    for bad in [
        "",
        "data = 3",
        "data = \"ups\"\n[mix]\n",
        "data = \"ups\"\ndistribution = \"x\"",
        "data = \"ups\"\nrecord = 4",
        "data = \"ups\"\nphases = [\"get\"]",
    ] {
        assert!(find(bad).is_err(), "{bad}");
    }
}

#[test]
fn counts_of_a_workload_file_are_as_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let found = |count: &str| {
        std::fs::write(&path, format!("data = \"ups\"\nrecords = {count}\ngets = {count}"))
            .unwrap();
        Workload::find(path.to_str().unwrap()).map(|workload| (workload.records, workload.gets))
    };
    for count in ["1000", "1e3", "1_000", "1000.0"] {
        assert_eq!(found(count).unwrap(), (Some(1000), 1000), "{count}");
    }
    for count in ["-1", "1.5", "nan", "inf", "1e300", "\"many\"", "[1]", "true"] {
        let refused = found(count).unwrap_err().to_string();
        assert!(refused.contains("a whole number is wanted"), "{count}: {refused}");
    }
}

#[test]
fn words_are_those_of_the_machine_with_the_numbers_of_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words");
    std::fs::write(&path, "A\n\nzebra\nA\ncaf\u{e9}").unwrap();
    let records = files::words(&path, 100).unwrap();
    let all: Vec<_> = records.iter().map(|(k, v)| (k, str::from_utf8(v).unwrap())).collect();
    assert_eq!(all, [(&b"A"[..], "1"), (b"zebra", "3"), ("caf\u{e9}".as_bytes(), "5")]);
    assert_eq!(files::words(&path, 1).unwrap().len(), 1);
    // Not every machine has them, and then it is said what brings them.
    match Inputs::prepare(&workload("words", 50, 10)) {
        Ok((inputs, _)) => assert_eq!(inputs.records.len(), 50),
        Err(e) => assert!(e.to_string().contains("wamerican"), "{e}"),
    }
}

#[test]
fn inputs_that_do_not_fit_say_how_much_they_take() {
    let refused = prepared("decimal", 1000, 100).save(Path::new("/dev/full")).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("the data and queries take ") && refused.contains("--dir"),
        "{refused}"
    );
}
