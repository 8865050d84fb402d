//! Danger: an entry is taken for more than it says, so that a replay does what nobody did. Traces of a few entries
//! are written here, and what is made of them is put beside what it must be.

use super::script::Script;
use credenza::record::{Action, NewEntry, Trace, Writer};
use credenza::stats::{Operation, Outcome};

/// An operation on a key, with its time, and the length of the value.
type Entry<'k> = (u64, Operation, Outcome, Option<&'k [u8]>, u64);

/// What a trace of these asks for.
fn script(entries: &[Entry<'_>]) -> Script {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut trace = Writer::create(&path, "btree").unwrap();
    for &(time, operation, outcome, key, value_len) in entries {
        let action = Action::Operation(operation);
        trace.add(&NewEntry { time, action, outcome, key, value_len, items: 0 });
    }
    trace.finish().unwrap();
    Script::of(&Trace::open(&path).unwrap()).unwrap()
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
