//! Danger: keys are said to be of a type that a store was never told of, phases that make no sense are
//! measured or vanish in silence, or what contradicts itself is run. What is measured with each type must be
//! right, who has it otherwise must be named, and nonsense must be refused before anything runs.

mod common;

use common::bench_workload;
use credenza_bench::result::Report;

const ALL: &str = "--stores=constant,btree,redb";
const BTREE: &str = "--stores=btree";

fn report(workload: &str, args: &[&str]) -> (Report, String) {
    let (done, folder) = bench_workload(workload, &[args, &["--rounds=1", "--no-pin"]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report = serde_json::from_slice(&std::fs::read(folder.path().join("out.json")).unwrap());
    (report.unwrap(), String::from_utf8_lossy(&done.stdout).into_owned())
}

fn refused(workload: &str, args: &[&str]) -> String {
    let (done, _folder) = bench_workload(workload, args);
    assert!(!done.status.success(), "{workload}");
    String::from_utf8_lossy(&done.stderr).into_owned()
}

fn file(keys: &str, more: &str) -> String {
    format!("data = \"random\"\nkey-type = \"{keys}\"\nvalue-size = 8\ngets = 100\n{more}")
}

#[test]
fn every_type_is_measured_and_who_has_it_otherwise_is_named() {
    let types = ["binary", "string", "u8", "u16", "u32", "u64", "i64", "f32", "f64", "custom"];
    for keys in types {
        let more = "records = 100\nphases = [\"build\", \"get-90\", \"range\"]";
        let (report, printed) = report(&file(keys, more), &[ALL]);
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        assert!(report.results.iter().all(|result| result.verified), "{keys}");
        let of_btree = report.results.iter().filter(|result| result.store == "btree").count();
        assert_eq!((of_btree, report.stores.len()), (3, 3), "{keys}");
        let is_typed = keys != "binary";
        assert_eq!(report.settings.key_type.as_deref(), is_typed.then_some(keys));
        let btree = &report.stores[1].tuning;
        assert_eq!(btree.contains(&format!("a table of keys of type {keys}")), is_typed, "{btree}");
        let note =
            format!("keys of type {keys} are bytes to constant, redb: they have no such type");
        assert_eq!(report.notes.iter().any(|own| own.starts_with(&note)), is_typed, "{keys}");
        let heading = format!("keys of type {keys}");
        assert_eq!(printed.lines().take(2).any(|line| line.contains(&heading)), is_typed);
    }
}

#[test]
fn records_are_numbered_by_stores_that_do_so_in_phases_that_make_sense() {
    for keys in ["record-number32", "record-number64"] {
        let (report, _) = report(&file(keys, "records = 300"), &[ALL]);
        let stores: Vec<_> = report.stores.iter().map(|info| &*info.store).collect();
        assert_eq!(stores, ["btree"]);
        assert!(report.stores[0].tuning.contains("a table that numbers records"));
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        let phases: Vec<_> = report.results.iter().map(|result| &*result.phase).collect();
        for phase in ["build", "get-miss", "get-many-hit", "scan", "range", "insert", "insert-each"]
        {
            assert!(phases.contains(&phase), "{phase}: {phases:?}");
        }
        assert!(phases.contains(&"remove") && phases.contains(&"reinsert"), "{phases:?}");
        assert!(report.results.iter().all(|result| result.verified));
        assert!(!report.notes.iter().any(|note| note.contains("insert-sync")), "not asked for");
        for note in [
            format!(
                "'key-type = \"{keys}\"' leaves out constant, redb: they do not number records so"
            ),
            format!("with keys of type {keys} 'insert-random' is left out: the store gives the"),
            format!("with keys of type {keys} 'mixed' is left out: its operations are of"),
        ] {
            assert!(report.notes.iter().any(|own| own.starts_with(&note)), "{:?}", report.notes);
        }
    }
}

#[test]
fn berkeleydb_numbers_records_in_32_bits_alone() {
    let berkeleydb = "--stores=btree,bdb-btree";
    let few = "records = 300\nphases = [\"build\", \"range\", \"insert-each\", \"remove\"]";
    let (_, folder) = bench_workload(&file("record-number32", few), &[berkeleydb, "--rounds=1"]);
    let json = std::fs::read(folder.path().join("out.json")).unwrap();
    let report: Report = serde_json::from_slice(&json).unwrap();
    match report.failures.first() {
        Some(missing) if missing.status == "missing" => eprintln!("not tested: {}", missing.what),
        None => assert!(report.stores[1].tuning.contains("DB_RECNO"), "{:?}", report.stores[1]),
        Some(failure) => panic!("{failure:?}"),
    }
    assert!(report.results.iter().all(|result| result.verified));
    let said = refused(&file("record-number64", ""), &["--stores=bdb-btree"]);
    assert!(said.contains("'key-type = \"record-number64\"' leaves out bdb-btree"), "{said}");
}

#[test]
fn of_few_keys_one_half_is_stored_where_nobody_says_how_many() {
    let inserts = "phases = [\"build\", \"get-miss\", \"mixed\"]\n[mix]\ninsert = 1";
    let (report, _) = report(&file("u8", inserts), &[BTREE]);
    assert_eq!((report.settings.records, report.results.len()), (128, 3));
    assert!(report.results.iter().all(|result| result.verified), "{:?}", report.failures);
    // There are 128 more of them, and not 200.
    let said = refused(&file("u8", inserts), &[BTREE, "--gets=200"]);
    assert!(said.contains("of 200 keys to insert were found"), "{said}");
}

#[test]
fn values_have_the_size_of_their_type_and_who_has_it_otherwise_is_named() {
    for (values, bytes) in [("u8", 1), ("u16", 2), ("u32", 4), ("u64", 8), ("f32", 4), ("f64", 8)] {
        let phases = "phases = [\"build\", \"get-90\", \"reinsert\"]";
        let text = format!("data = \"random\"\nvalue-type = \"{values}\"\nrecords = 100\n{phases}");
        let (report, printed) = report(&text, &["--stores=constant,btree", "--gets=100"]);
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        assert!(report.results.iter().all(|result| result.verified), "{values}");
        let settings = &report.settings;
        assert_eq!(
            (settings.value_type.as_deref(), settings.value_bytes),
            (Some(values), bytes * 100)
        );
        let note =
            format!("values of type {values} are bytes to constant, btree: they have no such");
        assert!(report.notes.iter().any(|own| own.starts_with(&note)), "{:?}", report.notes);
        let heading = format!("values of type {values}");
        assert!(printed.lines().take(2).any(|line| line.contains(&heading)), "{printed}");
    }
}

#[test]
fn what_contradicts_itself_is_refused_in_words() {
    let plain = |keys: &str, more: &str| refused(&file(keys, more), &[ALL]);
    for (said, what) in [
        (plain("uint32", ""), "there is no key-type 'uint32': say binary, string, u8, u16, u32"),
        (
            plain("u64", "[settings]\nkey-compression = \"zint32-varbyte\""),
            "key-compression=zint32-varbyte contradicts keys of type u64",
        ),
        (plain("u32", "key-size = 4"), "key-size contradicts key-type u32: such keys have 4 bytes"),
        (
            plain("u8", "records = 256"),
            "there are 256 keys of type u8, of which some have to be absent",
        ),
        (plain("u16", "records = 70000"), "there are 65536 keys of type u16"),
        (plain("record-number64", "phases = [\"mixed\"]"), "no phase is left to measure"),
        (
            refused(&file("record-number32", ""), &[ALL, "--oracle"]),
            "with keys of type record-number32",
        ),
        (
            refused(&file("record-number32", ""), &["--stores=redb"]),
            "no store is left to measure: 'key-type = \"record-number32\"' leaves out redb",
        ),
        (refused("data = \"decimal\"\nkey-type = \"u32\"", &[ALL]), "are for data = \"random\""),
        (refused("data = \"ups\"\nvalue-type = \"u8\"", &[ALL]), "are for data = \"random\""),
        (
            plain("u32", "value-type = \"f32\""),
            "value-size contradicts value-type f32: such values have 4 bytes",
        ),
        (
            refused("data = \"random\"\nvalue-type = \"i64\"", &[ALL]),
            "there is no value-type 'i64': say binary, u8, u16, u32, u64, f32, f64",
        ),
    ] {
        assert!(said.contains(what), "{said}");
    }
}
