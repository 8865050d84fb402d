//! What a trace tells of how much was done beside what it names: records that scans read and loads brought,
//! commits that waited for the disk, threads. A replay does without these what it does, and says so.

use super::script::User;
use std::collections::{HashMap, HashSet};

/// Of the whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// The most records that a scan read of a store, and how many of that store the trace names; of the store
    /// of which most are not named. None where all are.
    pub(crate) scanned: Option<(u64, u64)>,
    /// Records that came in loads of many, whose keys are not in the trace.
    pub(crate) loaded: u64,
    /// Commits that waited for the disk.
    pub(crate) synced: u64,
    /// Commits that did not, and changes that were in no transaction: whether these did is not recorded.
    pub(crate) unsynced: u64,
    /// Threads that did something, of all processes.
    pub(crate) threads: usize,
}

impl Told {
    /// Whether every change was part of a commit that waited for the disk.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced > 0 && self.unsynced == 0
    }
}

/// The same while the trace is read.
#[derive(Debug, Default)]
pub(super) struct Telling {
    told: Told,
    /// The most records that a scan read, by the number of the store's keys.
    scans: HashMap<u16, u64>,
    /// Changes of transactions that are open.
    changes: HashMap<User, u64>,
    threads: HashSet<(u32, u32)>,
}

impl Telling {
    pub(super) fn saw(&mut self, (process, thread, _): User) {
        self.threads.insert((process, thread));
    }

    pub(super) fn scanned(&mut self, space: u16, records: u64) {
        let most = self.scans.entry(space).or_default();
        *most = records.max(*most);
    }

    pub(super) fn begun(&mut self, user: User) {
        self.changes.insert(user, 0);
    }

    /// A change that moves one record, or as many as nobody knows.
    pub(super) fn changed(&mut self, user: User, records: Option<u64>) {
        match self.changes.get_mut(&user) {
            Some(changes) => *changes = changes.saturating_add(records.unwrap_or(u64::MAX)),
            None => self.told.unsynced += 1,
        }
    }

    /// A commit, of so many changes as it says itself.
    pub(super) fn committed(&mut self, user: User, records: u64, is_synced: bool) {
        let named = self.changes.remove(&user).unwrap_or(0);
        self.told.loaded += records.saturating_sub(named);
        match is_synced {
            true => self.told.synced += 1,
            false => self.told.unsynced += 1,
        }
    }

    pub(super) fn aborted(&mut self, user: User) {
        self.changes.remove(&user);
    }

    /// All of it, where the trace names so many records of each store.
    pub(super) fn told(self, named: impl Fn(u16) -> u64) -> Told {
        let unnamed = self.scans.into_iter().map(|(space, records)| (records, named(space)));
        let most = unnamed.max_by_key(|(records, named)| records.saturating_sub(*named));
        let scanned = most.filter(|(records, named)| records > named);
        Told { scanned, threads: self.threads.len(), ..self.told }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: User = (1, 1, Some(0));
    const OTHER: User = (1, 2, Some(0));

    #[test]
    fn records_that_have_no_name_are_counted() {
        let mut telling = Telling::default();
        telling.scanned(0, 3);
        telling.scanned(1, 50);
        telling.scanned(1, 20);
        telling.begun(ONE);
        telling.changed(ONE, Some(1));
        telling.committed(ONE, 1, false);
        // A load, one within a transaction of other changes, and a removal of a range.
        telling.committed(ONE, 500, false);
        telling.begun(ONE);
        telling.changed(ONE, Some(1));
        telling.committed(ONE, 8, false);
        telling.begun(ONE);
        telling.changed(ONE, None);
        telling.committed(ONE, 90, false);
        let told = telling.told(|space| if space == 0 { 3 } else { 2 });
        assert_eq!((told.scanned, told.loaded), (Some((50, 2)), 507));
        let mut telling = Telling::default();
        telling.scanned(0, 3);
        assert_eq!(telling.told(|_| 3).scanned, None);
    }

    #[test]
    fn all_changes_are_synced_or_not() {
        let told = |synced, others: fn(&mut Telling)| {
            let mut telling = Telling::default();
            [ONE, OTHER].iter().for_each(|user| telling.saw(*user));
            telling.begun(ONE);
            telling.changed(ONE, Some(1));
            telling.committed(ONE, 1, synced);
            others(&mut telling);
            telling.told(|_| 0)
        };
        let all = told(true, |telling| {
            telling.begun(OTHER);
            telling.changed(OTHER, Some(1));
            telling.aborted(OTHER);
        });
        assert!(all.is_synced() && all.threads == 2);
        assert!(!told(false, |_| ()).is_synced());
        assert!(!told(true, |telling| telling.changed(OTHER, Some(1))).is_synced());
        assert!(!told(true, |telling| telling.committed(OTHER, 0, false)).is_synced());
        assert!(!Told::default().is_synced());
    }
}
