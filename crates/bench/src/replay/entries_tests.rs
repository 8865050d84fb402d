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
