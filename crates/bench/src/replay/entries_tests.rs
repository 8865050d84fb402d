//! Danger: an entry is taken for more than it says, so that a replay does what nobody did. Traces of a few entries
//! are written here, and what is made of them is put beside what it must be.

use super::script::{Do, Script};
use credenza::record::{Action, NewEntry, Trace, Writer};
use credenza::stats::{Operation, Outcome};

/// An operation on a key, with its time, and the length of the value.
type Entry<'k> = (u64, Operation, Outcome, Option<&'k [u8]>, u64);

/// What a trace of these asks for.
fn script(entries: &[Entry<'_>]) -> Script {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut trace = Writer::create(&path, "btree").unwrap();
    write(&mut trace, entries);
    trace.finish().unwrap();
    Script::of(&Trace::open(&path).unwrap()).unwrap()
}

fn write(trace: &mut Writer, entries: &[Entry<'_>]) {
    for &(time, operation, outcome, key, value_len) in entries {
        let action = Action::Operation(operation);
        trace.add(&NewEntry { time, action, outcome, key, value_len, items: 0 });
    }
}

/// A scan is behind what was done while it went on, which began later: to be done when it began, it would be late
/// whatever the store, and by as much as the program's own work took.
#[test]
fn no_step_is_due_before_the_one_before_it() {
    let (get, scan) = (Operation::Get, Operation::Scan);
    let key = Some(&b"key"[..]);
    let entries = [
        (500, get, Outcome::Hit, key, 1),
        (100, get, Outcome::Hit, key, 1),
        (900, get, Outcome::Hit, key, 1),
        (0, scan, Outcome::Done, None, 9),
        (950, get, Outcome::Hit, key, 1),
        (920, get, Outcome::Hit, key, 1),
    ];
    let script = script(&entries);
    let due: Vec<u64> = script.steps.iter().map(|step| step.time).collect();
    assert_eq!((due, script.span), (vec![0, 0, 400, 400, 450, 450], 450));
}

/// Of a table with several values a key one value was replayed, the last one, and nothing said so.
#[test]
fn values_beside_the_first_of_a_key_are_left_out_and_counted() {
    let (insert, remove) = (Operation::Insert, Operation::Remove);
    let (key, other) = (Some(&b"key"[..]), Some(&b"other"[..]));
    let entries = [
        (0, insert, Outcome::Hit, key, 1),
        (1, insert, Outcome::Hit, key, 2),
        (2, insert, Outcome::Hit, key, 3),
        // One of several goes.
        (3, remove, Outcome::Hit, None, 0),
        (4, remove, Outcome::Hit, key, 0),
        (5, insert, Outcome::Hit, key, 4),
        // With one value a key.
        (6, insert, Outcome::Done, other, 5),
        (7, insert, Outcome::Done, other, 6),
    ];
    let script = script(&entries);
    let steps: Vec<_> = script.steps.iter().map(|step| (step.what, step.value_len)).collect();
    let put = |len| (Do::Insert, len);
    assert_eq!(steps, [put(1), (Do::Remove, 0), put(4), put(5), put(6)]);
    let left_out: Vec<_> = script.left_out.into_iter().collect();
    let [("add a further value to a key", 2), (why, 1)] = left_out[..] else {
        panic!("{left_out:?}");
    };
    assert!(why.contains("of one value of several"), "{why}");
}

/// `compare_exchange` leaves a key that is not there as it is, too.
#[test]
fn an_update_that_changed_nothing_does_not_say_that_the_key_was_there() {
    let (update, get) = (Operation::Update, Operation::Get);
    let key = Some(&b"key"[..]);
    let entries = [(0, update, Outcome::Unchanged, key, 0), (1, get, Outcome::Miss, key, 0)];
    let script = script(&entries);
    assert_eq!(script.before, []);
    let was_there: Vec<_> = script.steps.iter().map(|step| step.was_there).collect();
    assert_eq!(was_there, [None, Some(false)]);
}

/// What any bytes of a trace can claim: a hash of any length costs it as much as a short key.
#[test]
fn keys_are_made_up_as_long_as_stores_take_them_and_there_is_room() {
    let key = |byte, len| vec![byte; len];
    let (longest, longer) = (key(1, 65_536), key(2, 65_537));
    let insert = |key| (0, Operation::Insert, Outcome::Done, Some(key), 1);
    let script_of_two = script(&[insert(&longest[..]), insert(&longer)]);
    assert_eq!(script_of_two.keys.iter().map(|key| key.len()).collect::<Vec<_>>(), [65_536]);
    let left_out =
        |script: &Script| script.left_out.iter().next().map(|(why, count)| (*why, *count));
    let (why, count) = left_out(&script_of_two).unwrap();
    assert!(why.contains("over 64 KiB") && count == 1 && script_of_two.steps.len() == 1, "{why}");

    // Room is for 4100 of these.
    let keys: Vec<Vec<u8>> =
        (0..4500_u64).map(|i| [&i.to_le_bytes()[..], &[0; 65_528]].concat()).collect();
    let entries: Vec<_> = keys.iter().map(|key| insert(&key[..])).collect();
    let script = script(&entries);
    let (why, count) = left_out(&script).unwrap();
    assert!(why.contains("no room") && (300..500).contains(&count), "{why}: {count}");
    assert_eq!(script.steps.len() as u64 + count, 4500);
}
