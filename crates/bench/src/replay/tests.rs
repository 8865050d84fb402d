//! Danger: a store that answers wrongly is replayed on as if nothing were, or one that answers rightly is
//! accused because the recording knew more than the trace. A store that lies in one way at a time is replayed
//! on here: each lie must be told, with the operation.

use super::Look;
use super::play::tests::replayed;
use super::script::{Do, Script, Step};
use super::ups;
use crate::driver::with_driver;
use crate::runner::liar::Lie;
use crate::workload::Records;

fn step(what: Do, key: u32, value_len: u32, items: u32) -> Step {
    let key = (what != Do::Seek).then_some(key);
    Step { time: 0, what, key, value_len, items, was_there: None }
}

/// Keys that are stored with longer and longer values, looked up, counted and some of them removed.
fn changes() -> Script {
    let mut script = Script {
        keys: (0..400_u32).map(|key| format!("key {key:03}").into_bytes().into()).collect(),
        value_lens: vec![600; 400],
        ..Script::default()
    };
    for key in 0..400 {
        script.steps.push(step(Do::Insert, key, 10 + key % 7, 0));
        script.steps.push(step(Do::Get, key, 0, 0));
        script.steps.push(step(Do::Update, key / 2, 100 + key, 0));
        script.steps.push(step(Do::Get, key / 2, 0, 0));
        script.steps.push(step(Do::Scan, key / 2, 0, 5));
        script.steps.push(step(Do::Remove, key / 3, 0, 0));
    }
    script.steps.push(step(Do::Seek, 0, 0, 0));
    script
}

/// Lookups of many keys, half of which are there, one by one and in batches.
fn lookups() -> (Script, Records) {
    let mut script = Script {
        keys: (0..40_u32).map(|key| format!("key {key:02}").into_bytes().into()).collect(),
        value_lens: vec![10; 40],
        ..Script::default()
    };
    let mut before = Records::default();
    for key in 0..40 {
        if key % 2 == 0 {
            let value = format!("a value of {key:02}, its own{}", ".".repeat(key as usize));
            before.push(script.key(key), value.as_bytes()).unwrap();
        }
        script.steps.push(step(Do::Get, key, 0, 0));
    }
    script.batches = (0..40).map(|key| (key, None)).collect();
    script.steps.push(Step { key: None, ..step(Do::GetMany { first: 0 }, 0, 0, 40) });
    script.steps.push(Step { key: None, ..step(Do::Scan, 0, 0, 40) });
    (script, before)
}

#[test]
fn an_honest_store_is_right_whatever_the_recording_says() {
    let mut script = changes();
    // It found what nobody had stored in the trace.
    script.steps.iter_mut().for_each(|step| step.was_there = Some(step.what == Do::Get));
    for done in replayed(Lie::None, &script, &Records::default()) {
        assert_eq!(done.wrong, None);
    }
    let [_, timed] = replayed(Lie::None, &script, &Records::default());
    assert!(timed.extra + timed.lost > 0 && timed.first_difference.is_some(), "{timed:?}");
    let (script, before) = lookups();
    for done in replayed(Lie::None, &script, &before) {
        assert_eq!(done.wrong, None);
    }
}

#[test]
fn every_lie_of_a_store_that_changes_is_told_with_the_operation() {
    use Lie::{
        ForgetsLast, GetsShort, KeepsOld, LosesOne, MissesOnce, RangeLate, RangeShort,
        RangeSwapped, RemovesAll, RemovesNot,
    };
    for (lie, operation) in [
        (MissesOnce, "operation 3, update: key 'key 000': expected "),
        (GetsShort, "operation 2, get: key 'key 000': expected "),
        (KeepsOld, "operation 4, get: key 'key 000': expected "),
        (LosesOne, "get: key 'key "),
        (RemovesAll, "remove: key 'key 000': expected "),
        (RemovesNot, ": key 'key 0"),
        (RangeShort, ", scan: "),
        (RangeLate, ", scan: "),
        (RangeSwapped, ", scan: "),
        (ForgetsLast, "in the end, a scan of everything, key 'key "),
    ] {
        for done in replayed(lie, &changes(), &Records::default()) {
            let what = done.wrong.unwrap_or_else(|| panic!("{lie:?} was not told"));
            println!("{lie:?}: {what}");
            assert!(what.contains(operation), "{lie:?}: {what}");
        }
    }
}

/// Danger: where records are in an order, `TABLESCAN` is a range of no records, and nothing is read.
#[test]
fn a_scan_of_a_script_reads_everything() {
    let text = "CREATE INSERT (0, \"a\", 10) INSERT (0, \"b\", 20) TABLESCAN CLOSE";
    let script = ups::script(text.as_bytes()).unwrap();
    for (lie, is_told) in [(Lie::None, false), (Lie::RangeLate, true), (Lie::RangeSwapped, true)] {
        for done in replayed(lie, &script, &Records::default()) {
            assert_eq!(done.wrong.is_some(), is_told, "{lie:?}: {:?}", done.wrong);
            // It says of none how many records there were.
            assert_eq!((done.scans, done.scans_unlike), (0, 0), "{lie:?}");
            let is_named = |what: String| what.starts_with("operation 3, scan all: ");
            assert!(done.wrong.is_none_or(is_named), "{lie:?}");
        }
    }
}

/// Danger: a full check reads nothing, or reads and compares with nothing; or what is closed and opened again is
/// another store.
#[test]
fn a_full_check_of_a_script_compares_everything() {
    use Lie::{BackShort, BackSwapped, ForgetsLast, GetsShort, LosesOne, RangeLate, RangeSwapped};
    let inserts: String = (0..120).map(|i| format!("INSERT (0, \"key {i:03}\", 30) ")).collect();
    let text = format!(
        "CREATE {inserts} FLUSH FULLCHECK CLOSE OPEN FULLCHECK ERASE (0, \"key 119\") FULLCHECK"
    );
    let script = ups::script(text.as_bytes()).unwrap();
    for done in replayed(Lie::None, &script, &Records::default()) {
        assert_eq!(done.wrong, None);
    }
    let [_, timed] = replayed(Lie::None, &script, &Records::default());
    for (name, count) in [("full check", 3), ("reopen", 1), ("sync", 0), ("insert", 120)] {
        let of_kind: u64 = timed.latencies[name].iter().map(|(_, count)| count).sum();
        assert_eq!(of_kind, count, "{name}");
    }
    // It has no call for that, which is told.
    assert_eq!(timed.skipped.values().sum::<u64>(), 1, "{:?}", timed.skipped);
    // Whether it is seen with the clock running, too; and the number of the check.
    for (lie, number, is_timed) in [
        (LosesOne, 122, true),
        (RangeLate, 122, true),
        (RangeSwapped, 122, true),
        (BackShort, 122, false),
        (BackSwapped, 122, false),
        (GetsShort, 122, false),
        (ForgetsLast, 124, true),
    ] {
        let [checked, timed] = replayed(lie, &script, &Records::default());
        let what = checked.wrong.unwrap_or_else(|| panic!("{lie:?} was not told"));
        println!("{lie:?}: {what}, {:?}", timed.wrong);
        assert!(what.starts_with(&format!("operation {number}, full check: ")), "{lie:?}: {what}");
        assert!(timed.wrong.is_some() || !is_timed, "{lie:?} was not told");
    }
}

#[test]
fn every_lie_of_a_store_that_is_only_read_is_told() {
    use Lie::{LastByte, ManyReversed, ManyShort, Missing, ScanShort};
    let (script, before) = lookups();
    for (lie, is_told_by_both) in [
        // The whole value is looked at only where nothing is timed.
        (LastByte, false),
        (Missing, true),
        (ManyReversed, true),
        (ManyShort, false),
        (ScanShort, true),
    ] {
        let [checked, timed] = replayed(lie, &script, &before);
        println!("{lie:?}: {:?}, {:?}", checked.wrong, timed.wrong);
        assert!(checked.wrong.is_some(), "{lie:?} was not told");
        assert!(timed.wrong.is_some() || !is_told_by_both, "{lie:?} was not told");
    }
}

/// Danger: of a library that does not tell its version nobody knows which was measured.
#[test]
fn every_store_has_a_version_whether_its_library_tells_one_or_not() {
    for name in ["constant", "cdb", "mcdb", "sparkey", "tdb", "mdbm"] {
        match with_driver(name, Look { library: None }).unwrap() {
            Ok((_, version)) => assert!(!version.is_empty(), "{name}"),
            Err(e) => eprintln!("not tested: {name}: {e}"),
        }
    }
}
