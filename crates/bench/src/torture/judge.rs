//! What is found in a store afterwards, put beside what was done to it.
//!
//! The operations came one after the other, so there is a list of all that the store may have been: one
//! state after each operation, or after each transaction. What is found is one of them, or the store was
//! torn. Which one it is says how many changes were lost.

use super::plan::{Operation, Plan, What};
use crate::runner::passes::in_words;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// How far the operations had come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct At {
    /// So many of them had begun.
    pub(super) begun: usize,
    /// So many had returned.
    pub(super) done: usize,
    /// So many had returned before the store was synced last, on request.
    pub(super) synced: usize,
}

/// The records of a store.
pub(super) type Found = HashMap<Vec<u8>, Vec<u8>>;

/// What came of one fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Judged {
    /// Changes that were acknowledged.
    pub(super) acknowledged: u64,
    /// Changes that were acknowledged and are not there.
    pub(super) lost: u64,
    /// Keys with a value that they never had, or that nobody stored.
    pub(super) wrong: u64,
    /// What is found was there at no moment.
    pub(super) is_torn: bool,
    /// The last sync that was asked for is undone.
    pub(super) is_unsynced: bool,
    /// The first thing that is not as it was, in words.
    pub(super) what: Option<String>,
}

/// The moment at or before `i` at which no transaction was open.
pub(super) fn last_boundary(operations: &[Operation], i: usize, has_transactions: bool) -> usize {
    if !has_transactions {
        return i;
    }
    let begun = operations[..i].iter().rposition(|o| matches!(o.what, What::Begin | What::Commit));
    match begun {
        Some(begun) if operations[begun].what == What::Begin => begun,
        _ => i,
    }
}

/// How many changes had been acknowledged, those of an open transaction not.
pub(super) fn acknowledged(plan: &Plan, has_transactions: bool, at: At) -> u64 {
    plan.changes(0, last_boundary(&plan.operations, at.done, has_transactions))
}

/// Puts what was found beside the plan.
pub(super) fn judge(plan: &Plan, has_transactions: bool, at: At, found: &Found) -> Judged {
    let boundary = |i| last_boundary(&plan.operations, i, has_transactions);
    let (acknowledged, synced) = (boundary(at.done), boundary(at.synced));
    let changes = self::acknowledged(plan, has_transactions, at);
    let mut judged = Judged { acknowledged: changes, ..Judged::default() };
    let known: HashSet<&[u8]> = plan.keys().collect();
    let stranger = found.keys().find(|key| !known.contains(&key[..]));
    if let Some(key) = stranger {
        judged.what = Some(format!("there is a key that nobody stored: {}", in_words(Some(key))));
        judged.wrong = found.keys().filter(|key| !known.contains(&key[..])).count() as u64;
    }
    let moment = match stranger {
        None => newest_moment(plan, has_transactions, at.begun, found),
        Some(_) => None,
    };
    match moment {
        Some(moment) if moment >= acknowledged => {}
        Some(moment) => {
            judged.lost = plan.changes(moment, acknowledged);
            judged.is_unsynced = moment < synced;
            let (was, is) = (judged.acknowledged, judged.acknowledged - judged.lost);
            judged.what = Some(format!(
                "the store is as it was after {is} changes, and {was} had been acknowledged"
            ));
        }
        None => key_by_key(plan, acknowledged, at.begun, found, &mut judged),
    }
    judged
}

/// The last moment, if there is any, at which the store was as it is found.
fn newest_moment(plan: &Plan, has_transactions: bool, end: usize, found: &Found) -> Option<usize> {
    // By key: whether what it has at the moment is what was found.
    let mut is_alike: Vec<bool> = plan.keys().map(|key| !found.contains_key(key)).collect();
    let mut differing = is_alike.iter().filter(|is_alike| !**is_alike).count();
    let mut newest = (differing == 0).then_some(0);
    let mut is_open = false;
    for (i, operation) in plan.operations[..end].iter().enumerate() {
        let now = match operation.what {
            What::Put => Some(Some(plan.value(operation))),
            What::Remove => Some(None),
            _ => None,
        };
        if let Some(now) = now {
            let is_now = found.get(plan.key(operation)).map(|value| &value[..]) == now;
            let was = std::mem::replace(&mut is_alike[operation.key as usize], is_now);
            differing = differing + usize::from(was) - usize::from(is_now);
        }
        is_open = has_transactions
            && (operation.what == What::Begin || is_open && operation.what != What::Commit);
        if differing == 0 && !is_open {
            newest = Some(i + 1);
        }
    }
    newest
}

/// What a key had, and after how many operations it came.
type History<'a> = Vec<(usize, Option<&'a [u8]>)>;

/// Counts the keys that have an older value than they should, and those whose value they never had.
fn key_by_key(plan: &Plan, acknowledged: usize, end: usize, found: &Found, judged: &mut Judged) {
    judged.is_torn = true;
    let mut histories: HashMap<&[u8], History<'_>> =
        plan.keys().map(|key| (key, vec![(0, None)])).collect();
    for (i, operation) in plan.operations[..end].iter().enumerate() {
        let now = match operation.what {
            What::Put => Some(plan.value(operation)),
            What::Remove => None,
            _ => continue,
        };
        histories.entry(plan.key(operation)).or_default().push((i + 1, now));
    }
    for key in plan.keys() {
        let Some(history) = histories.get(key) else { continue };
        let now = found.get(key).map(|value| &value[..]);
        let first_allowed = history.iter().rposition(|(when, _)| *when <= acknowledged);
        let is_allowed = history[first_allowed.unwrap_or(0)..].iter().any(|(_, was)| *was == now);
        if is_allowed {
            continue;
        }
        let was_there = history.iter().any(|(_, was)| *was == now);
        let what = match (now, was_there) {
            (None, _) => "is not there",
            (Some(_), true) => "has an older value",
            (Some(_), false) => "has a value that it never had",
        };
        if was_there {
            judged.lost += 1
        } else {
            judged.wrong += 1
        };
        judged.what.get_or_insert_with(|| format!("key {} {what}", in_words(Some(key))));
    }
    judged.what.get_or_insert_with(|| {
        "what is there was there at no moment: a part of a transaction, or newer changes without \
         older ones"
            .to_owned()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use What::{Begin, Commit, Put, Remove};

    fn found(records: &[(u8, &[u8])]) -> Found {
        records.iter().map(|(key, value)| (vec![*key], value.to_vec())).collect()
    }

    /// Four changes of three keys.
    fn plan() -> Plan {
        Plan::of_changes(3, &[(Put, 0, b"a"), (Put, 1, b"b"), (Put, 0, b"c"), (Remove, 1, b"")])
    }

    fn after(done: usize, records: &[(u8, &[u8])]) -> Judged {
        let at = At { begun: (done + 1).min(4), done, synced: 1 };
        judge(&plan(), false, at, &found(records))
    }

    #[test]
    fn what_was_acknowledged_or_under_way_is_well() {
        for whole in
            [after(4, &[(0, b"c")]), after(3, &[(0, b"c"), (1, b"b")]), after(3, &[(0, b"c")])]
        {
            assert_eq!((whole.lost, whole.wrong, whole.is_torn, whole.what), (0, 0, false, None));
        }
        assert_eq!(after(3, &[(0, b"c")]).acknowledged, 3);
    }

    #[test]
    fn an_older_moment_says_how_many_changes_are_lost() {
        let judged = after(4, &[(0, b"a"), (1, b"b")]);
        assert_eq!((judged.lost, judged.wrong, judged.is_torn), (2, 0, false));
        assert!(!judged.is_unsynced && judged.what.unwrap().contains("after 2 changes"));
        let judged = after(4, &[]);
        assert_eq!((judged.lost, judged.is_unsynced), (4, true));
    }

    #[test]
    fn newer_changes_without_older_ones_are_torn() {
        let judged = after(2, &[(1, b"b")]);
        assert_eq!((judged.lost, judged.wrong, judged.is_torn), (1, 0, true));
        assert_eq!(judged.what.unwrap(), "key '\\x00' is not there");
        // The third is under way, so that its value may be there; but not without the second.
        let judged = after(2, &[(0, b"c")]);
        assert_eq!((judged.lost, judged.is_torn), (1, true));
    }

    #[test]
    fn values_and_keys_that_never_were_are_wrong() {
        let judged = after(2, &[(0, b"x"), (1, b"b")]);
        assert_eq!((judged.lost, judged.wrong, judged.is_torn), (0, 1, true));
        let judged = after(2, &[(0, b"a"), (1, b"b"), (9, b"")]);
        assert_eq!((judged.lost, judged.wrong), (0, 1));
        assert!(judged.what.unwrap().contains("nobody stored"));
        // What comes later is no value that it had.
        assert_eq!(after(1, &[(0, b"c")]).wrong, 1);
    }

    #[test]
    fn half_a_transaction_is_torn() {
        let changes: [(What, u32, &[u8]); 4] =
            [(Begin, 0, b""), (Put, 0, b"a"), (Put, 1, b"b"), (Commit, 0, b"")];
        let plan = Plan::of_changes(2, &changes);
        let half = found(&[(0, b"a")]);
        let at = At { begun: 4, done: 3, synced: 0 };
        let judged = judge(&plan, true, at, &half);
        assert_eq!((judged.acknowledged, judged.lost, judged.is_torn), (0, 0, true));
        assert!(judged.what.unwrap().contains("part of a transaction"));
        for whole in [found(&[]), found(&[(0, b"a"), (1, b"b")])] {
            assert_eq!(judge(&plan, true, at, &whole).what, None);
        }
        // Where each change is its own, there is nothing to tear.
        let alone = judge(&plan, false, At { begun: 3, done: 2, synced: 0 }, &half);
        assert_eq!((alone.acknowledged, alone.what), (1, None));
    }
}
