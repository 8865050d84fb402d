//! What a trace asks for, or a script of ups_bench, as one thread can do it on one store.
//!
//! All stores and tables of the trace become one: where there are several, each key begins with two
//! bytes that say which it is of. The operations of all threads and processes come in the order of
//! time. A transaction is one of the replay's if no other is open; what others do meanwhile is done in
//! it. Of one that was aborted only the lookups are done. What is part of which transaction is told by
//! process, thread and store: a thread may have one open in each of its stores.
//!
//! Invariant: every process that reads a trace makes the same script of it.

use super::named::{Keys, Named};
use super::told::{Telling, Told};
use super::ups;
use credenza::record::{Action, Entry, Trace, TracedStore};
use credenza::stats::{Operation, Outcome};
use credenza::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::hash::Hash;
use std::io::Read;
use std::path::Path;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Do {
    Get,
    /// So many of [`Script::batches`], from there.
    GetMany {
        first: usize,
    },
    Seek,
    /// From its key; from the beginning, and all, if it has none.
    Scan,
    Insert,
    Remove,
    /// A lookup and an insertion.
    Update,
    Begin,
    Commit,
    /// All changes so far to the disk.
    Sync,
    /// The store closed, and opened again.
    Reopen,
    /// Everything read, and compared with what was stored.
    FullCheck,
}

impl Do {
    /// The name of a scan from no key on, which takes as long as there are records.
    pub(crate) const SCAN_ALL: &str = "scan all";
    /// The name of calls of `sync`, which are no steps.
    pub(crate) const SYNC: &str = "sync";

    pub(crate) fn name(self) -> &'static str {
        match self {
            Do::Get => "get",
            Do::GetMany { .. } => "get_many",
            Do::Seek => "seek",
            Do::Scan => "scan",
            Do::Insert => "insert",
            Do::Remove => "remove",
            Do::Update => "update",
            Do::Begin => "begin",
            Do::Commit => "commit",
            Do::Sync => "sync",
            Do::Reopen => "reopen",
            Do::FullCheck => "full check",
        }
    }

    pub(crate) fn is_change(self) -> bool {
        matches!(self, Do::Insert | Do::Remove | Do::Update | Do::Begin | Do::Commit)
    }
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// When it is due, in nanoseconds after the first entry: not before the step before it.
    pub(crate) time: u64,
    pub(crate) what: Do,
    /// The number of its key, if it has one.
    pub(crate) key: Option<u32>,
    /// Bytes of the value that is written.
    pub(crate) value_len: u32,
    /// Keys or records; [`Step::ALL`] of a scan of which it is not known.
    pub(crate) items: u32,
    /// Whether the key was there, where that was recorded.
    pub(crate) was_there: Option<bool>,
}

impl Step {
    /// However many records there are.
    pub(super) const ALL: u32 = u32::MAX;

    /// What it is called in results.
    pub(crate) fn name(&self) -> &'static str {
        match (self.what, self.key) {
            (Do::Scan, None) => Do::SCAN_ALL,
            (what, _) => what.name(),
        }
    }
}

/// Steps, and the keys they are about.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    /// The keys of lookups of many, and whether each was there, where that counts.
    pub(crate) batches: Vec<Asked>,
    pub(crate) keys: Vec<Box<[u8]>>,
    /// The length of the last value that each key had.
    pub(crate) value_lens: Vec<u32>,
    /// The keys that must have been there before, with the lengths of their values.
    pub(crate) before: Vec<(u32, u32)>,
    /// The same of the loads that are no steps any more, as what the store is built of.
    pub(crate) loaded: Vec<(u32, u32)>,
    /// Scans that were among these, which nobody can do in a store that is being built.
    pub(crate) scans_before: u64,
    /// What is not done, by its reason.
    pub(crate) left_out: BTreeMap<&'static str, u64>,
    /// The first value in a script of ups_bench that is not made up, as it is too long: where, and how long.
    pub(crate) too_long: Option<String>,
    pub(crate) entries: u64,
    /// From the first entry to the last, in nanoseconds.
    pub(crate) span: u64,
    /// What is known of what the steps do not show.
    pub(crate) told: Told,
}

/// Bytes that tell what a file is.
const START_BYTES: u64 = 4096;
/// A value that is longer is not made up.
pub(super) const LONGEST_VALUE: u64 = 64 << 20;
/// Where all keys begin that every store takes: some refuse an empty one.
const LOWEST: &[u8] = &[0];
/// Stores of which a trace has that they were built, each anew.
const BUILT_ONCE: [&str; 4] = ["constant", "cdb", "cdb64", "mcdb"];

/// Why changes are left out that say of many keys, or of none, what they did.
const NO_KEY: &str = "name no single key: the removal of a range, of everything, of a table (also by renaming it), \
                      or of one value of several; an appended record";

impl Script {
    /// What this trace asks for.
    ///
    /// # Errors
    /// The trace is damaged, or has more keys than the workbench takes.
    pub(crate) fn of(trace: &Trace) -> Result<Script> {
        let stores = stores(trace.stores());
        let aborted = aborted(trace, &stores)?;
        let is_constant = |store: &TracedStore| BUILT_ONCE.contains(&&*store.engine);
        let is_constant = trace.stores().iter().map(is_constant).collect();
        let builds = Builds { is_constant, ..Builds::default() };
        let spaces = spaces(trace.stores());
        let mut maker = Maker { spaces, stores, builds, ..Maker::default() };
        for entry in trace.entries() {
            maker.add(&entry?, &aborted)?;
        }
        Ok(maker.done())
    }

    /// What the file at `path` asks for, and the trace, if it is one and not a script of ups_bench.
    pub(crate) fn read(path: &Path) -> Result<(Script, Option<Trace>)> {
        let mut start = Vec::new();
        // What is no regular file is no trace, either, and would not be opened twice.
        if path.is_file() {
            let read = File::open(path).and_then(|f| f.take(START_BYTES).read_to_end(&mut start));
            read.map_err(|e| Error::io("read", e).at(path))?;
        }
        if ups::is_script(&start) {
            let text = std::fs::read(path).map_err(|e| Error::io("read", e).at(path))?;
            return Ok((ups::script(&text).map_err(|e| e.at(path))?, None));
        }
        let trace = Trace::open(path)?;
        Ok((Script::of(&trace)?, Some(trace)))
    }

    pub(crate) fn has_changes(&self) -> bool {
        self.steps.iter().any(|step| step.what.is_change())
    }

    pub(crate) fn key(&self, number: u32) -> &[u8] {
        self.keys.get(number as usize).map_or(&[], |key| &key[..])
    }

    /// The keys that a lookup of many asks for.
    pub(super) fn batch(&self, step: &Step) -> &[Asked] {
        let Do::GetMany { first } = step.what else { return &[] };
        self.batches.get(first..first + step.items as usize).unwrap_or_default()
    }

    /// Where a seek or scan of an ordered store begins, and how many records it reads.
    pub(super) fn range(&self, step: &Step) -> (&[u8], usize) {
        let from = step.key.map_or(LOWEST, |key| self.key(key));
        (from, if step.what == Do::Seek { 1 } else { step.items as usize })
    }
}

/// The place of a store or table among all of them; handles of one have the same. Empty if there is one.
fn spaces(all: &[TracedStore]) -> Vec<u16> {
    // One in memory is another each time.
    let own = |store: &TracedStore| if is_in_memory(store) { store.number } else { 0 };
    let spaces = numbered(all.iter().map(|store| (&store.path, &store.table, own(store))));
    if spaces.iter().all(|space| *space == 0) {
        return Vec::new();
    }
    spaces.into_iter().map(|space| space.min(usize::from(u16::MAX)) as u16).collect()
}

/// The same of the store that each store or table belongs to, in which a transaction is.
fn stores(all: &[TracedStore]) -> Vec<usize> {
    // Which store in memory a table is of the trace does not tell: all of an engine with tables are one.
    let in_memory = all.iter().filter(|store| is_in_memory(store));
    let tables = in_memory.filter(|store| !store.table.is_empty());
    let with_tables: HashSet<&str> = tables.map(|store| &*store.engine).collect();
    numbered(all.iter().map(|store| {
        let is_own = is_in_memory(store) && !with_tables.contains(&*store.engine);
        (&store.path, &store.engine, if is_own { store.number } else { 0 })
    }))
}

fn is_in_memory(store: &TracedStore) -> bool {
    store.path.as_os_str().is_empty()
}

/// Numbers from 0 on, in the order in which they are first needed; what is equal has the same.
fn numbered<T: Eq + Hash>(all: impl Iterator<Item = T>) -> Vec<usize> {
    let mut known = HashMap::new();
    all.map(|one| {
        let next = known.len();
        *known.entry(one).or_insert(next)
    })
    .collect()
}

/// Whether something was written or removed.
fn is_change(entry: &Entry) -> bool {
    use Operation::{Insert, Remove, Update};
    let is_done = !matches!(entry.outcome, Outcome::Unchanged | Outcome::Miss);
    matches!(entry.action, Action::Operation(Insert | Remove | Update)) && is_done
}

/// The place of an entry's store in a list by number; `None` for what is of no store.
fn of_store<T: Copy>(list: &[T], entry: &Entry) -> Option<T> {
    list.get((entry.store as usize).checked_sub(1)?).copied()
}

/// A key of a lookup of many, and whether it was there, where that counts.
pub(crate) type Asked = (u32, Option<bool>);

/// A process, a thread of it, and a store that it uses: they have one transaction at a time.
pub(super) type User = (u32, u32, Option<usize>);

fn user_of(entry: &Entry, stores: &[usize]) -> User {
    (entry.process, entry.thread, of_store(stores, entry))
}

/// A transaction: whose it is, and its number among theirs.
type Which = (User, u64);

/// The transactions that were aborted, or never ended.
fn aborted(trace: &Trace, stores: &[usize]) -> Result<HashSet<Which>> {
    let mut aborted = HashSet::new();
    let mut open: HashMap<User, u64> = HashMap::new();
    for entry in trace.entries() {
        let entry = entry?;
        let user = user_of(&entry, stores);
        match entry.action {
            Action::Begin => {
                let number = open.entry(user).or_insert(0);
                *number += 1;
                aborted.insert((user, *number));
            }
            Action::Operation(Operation::Commit | Operation::CommitSync)
                if entry.outcome != Outcome::Failed =>
            {
                if let Some(number) = open.get(&user) {
                    aborted.remove(&(user, *number));
                }
            }
            _ => {}
        }
    }
    Ok(aborted)
}

/// What is known of a key on the way through a trace.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    Nothing,
    Present,
    Absent,
}

#[derive(Default)]
struct Maker {
    script: Script,
    spaces: Vec<u16>,
    stores: Vec<usize>,
    keys: Keys,
    known: Vec<Known>,
    /// Keys of the lookup of many that goes on.
    pending: HashMap<User, Vec<Asked>>,
    /// Keys that a transaction changed which was aborted. What it finds of them is found by nobody else.
    voided: HashMap<User, HashSet<u32>>,
    /// The number of the last transaction, and whether it is open.
    transactions: HashMap<User, (u64, bool)>,
    /// Whose transaction is the replay's.
    owner: Option<User>,
    first: Option<u64>,
    telling: Telling,
    builds: Builds,
}

/// What is known of constant stores, whose records are those of the last build.
#[derive(Default)]
struct Builds {
    is_constant: Vec<bool>,
    /// The keys of the build that goes on.
    going: HashMap<User, HashSet<u32>>,
    /// The keys that each store has, by the number of its keys.
    held: HashMap<u16, BTreeSet<u32>>,
}

impl Maker {
    fn add(&mut self, entry: &Entry, aborted: &HashSet<Which>) -> Result<()> {
        let first = *self.first.get_or_insert(entry.time);
        // What other operations were within, as a scan, began before them and comes behind: it is due where they were,
        // as nobody here can do it earlier, and would else be late by all the time that it took.
        let time = entry.time.saturating_sub(first).max(self.script.span);
        self.script.entries += 1;
        self.script.span = time;
        let user = user_of(entry, &self.stores);
        self.telling.saw(user);
        if entry.outcome == Outcome::Failed {
            self.end_if_due(entry, user);
            return self.leave_out("failed when they were recorded");
        }
        let operation = match entry.action {
            Action::Begin => {
                let (number, is_open) = self.transactions.entry(user).or_insert((0, false));
                *number += 1;
                *is_open = true;
                self.telling.begun(user);
                self.voided.remove(&user);
                self.builds.going.remove(&user);
                let is_aborted = aborted.contains(&(user, *number));
                if is_aborted || self.owner.is_some() {
                    return Ok(());
                }
                self.owner = Some(user);
                return self.step(time, Do::Begin, None, entry);
            }
            Action::Key => {
                let key = match self.key(entry)? {
                    Named::Key(key) => key,
                    Named::None => return Ok(()),
                    Named::Unfit(why) => return self.leave_out(why),
                };
                let is_there = Some(entry.outcome == Outcome::Hit);
                let is_there = is_there.filter(|_| !self.is_voided(user, key));
                self.saw(key, is_there, entry);
                self.pending.entry(user).or_default().push((key, is_there));
                return Ok(());
            }
            // What a range has is counted without reading it, and another store may have no such call.
            Action::Count => return self.leave_out("count the records of a range"),
            Action::Operation(operation) => operation,
            _ => return self.leave_out("are of a kind that this program does not know"),
        };
        let is_void = self
            .transactions
            .get(&user)
            .is_some_and(|(number, is_open)| *is_open && aborted.contains(&(user, *number)));
        let is_there = match entry.outcome {
            Outcome::Hit => Some(true),
            Outcome::Miss => Some(false),
            _ => None,
        };
        if is_change(entry) {
            self.telling.changed(user, entry.key.as_ref().map(|_| 1));
        }
        let what = match operation {
            Operation::Get | Operation::GetAll => Do::Get,
            Operation::Seek => Do::Seek,
            Operation::Scan => {
                self.telling.scanned(self.space(entry), entry.items);
                Do::Scan
            }
            Operation::GetMany => return self.get_many(time, user, entry),
            Operation::Commit | Operation::CommitSync => {
                let is_synced = operation == Operation::CommitSync;
                self.telling.committed(user, entry.items, is_synced);
                self.end_if_due(entry, user);
                self.replace(time, user, entry)?;
                return self.step_if_owner(time, user, entry);
            }
            Operation::Abort => {
                self.telling.aborted(user);
                self.end_if_due(entry, user);
                return self.leave_out("end a transaction that was aborted");
            }
            Operation::Sync => return self.leave_out("wait for the disk"),
            Operation::Insert | Operation::Remove | Operation::Update if is_void => {
                if let Named::Key(key) = self.key(entry)? {
                    self.voided.entry(user).or_default().insert(key);
                }
                return self.leave_out("change what was aborted afterwards");
            }
            Operation::Insert => Do::Insert,
            Operation::Remove => Do::Remove,
            // Nothing was written; whether the key was there is not known, as it may have been expected to be.
            Operation::Update if entry.outcome == Outcome::Unchanged => Do::Get,
            Operation::Update => Do::Update,
            _ => return self.leave_out("are of a kind that this program does not know"),
        };
        let key = match self.key(entry)? {
            Named::Key(key) => Some(key),
            Named::None => None,
            Named::Unfit(why) => return self.leave_out(why),
        };
        let is_there = is_there.filter(|_| key.is_none_or(|key| !self.is_voided(user, key)));
        match (what, key) {
            (Do::Insert | Do::Remove | Do::Update | Do::Get, None) => {
                return self.leave_out(NO_KEY);
            }
            (Do::Insert, Some(key)) if self.is_further_value(user, key, entry) => {
                return self.leave_out("add a further value to a key");
            }
            (Do::Insert | Do::Update, Some(key)) => {
                if entry.value_len > LONGEST_VALUE {
                    return self.leave_out("write a value of over 64 MiB");
                }
                self.known[key as usize] = Known::Present;
                self.script.value_lens[key as usize] = entry.value_len as u32;
            }
            (Do::Get | Do::Remove, Some(key)) => {
                self.saw(key, is_there, entry);
                if what == Do::Remove {
                    self.known[key as usize] = Known::Absent;
                }
            }
            _ => {}
        }
        let was_there = is_there.filter(|_| matches!(what, Do::Get | Do::Remove));
        self.step(time, what, key, entry)?;
        if let Some(step) = self.script.steps.last_mut() {
            step.was_there = was_there;
        }
        Ok(())
    }

    /// The script, when all entries were added.
    fn done(self) -> Script {
        let Maker { mut script, spaces, telling, .. } = self;
        let stored = script.steps.iter().filter(|s| matches!(s.what, Do::Insert | Do::Update));
        let held = script.before.iter().map(|(key, _)| *key).chain(stored.filter_map(|s| s.key));
        let held: HashSet<u32> = held.collect();
        let mut named: HashMap<u16, u64> = HashMap::new();
        for key in held {
            // As it was named.
            let space = match script.key(key) {
                [high, low, ..] if !spaces.is_empty() => u16::from(*high) << 8 | u16::from(*low),
                _ => 0,
            };
            *named.entry(space).or_default() += 1;
        }
        script.told = telling.told(|space| named.get(&space).copied().unwrap_or(0));
        script
    }

    /// The number of the entry's store among those that keys are of.
    fn space(&self, entry: &Entry) -> u16 {
        if self.spaces.is_empty() { 0 } else { of_store(&self.spaces, entry).unwrap_or(u16::MAX) }
    }

    /// A key was found, or was not: if nothing was known of it before, so it was from the beginning.
    fn saw(&mut self, key: u32, is_there: Option<bool>, entry: &Entry) {
        let at = key as usize;
        if let Some(is_there) = is_there
            && self.known[at] == Known::Nothing
        {
            self.known[at] = if is_there { Known::Present } else { Known::Absent };
            if is_there {
                let len = entry.value_len.min(LONGEST_VALUE) as u32;
                self.script.value_lens[at] = len;
                self.script.before.push((key, len));
                if self.is_constant(entry) {
                    let space = self.space(entry);
                    self.builds.held.entry(space).or_default().insert(key);
                }
            }
        }
    }

    fn is_constant(&self, entry: &Entry) -> bool {
        of_store(&self.builds.is_constant, entry).unwrap_or(false)
    }

    /// Whether it is a value beside the first of this key, which is the one that a lookup finds: of a build, or in a table
    /// with several a key, whose insertions say so.
    fn is_further_value(&mut self, user: User, key: u32, entry: &Entry) -> bool {
        if self.is_constant(entry) {
            return !self.builds.going.entry(user).or_default().insert(key);
        }
        entry.outcome == Outcome::Hit && self.known[key as usize] == Known::Present
    }

    /// A constant store takes the place of the one before: what that had and this has not is gone.
    fn replace(&mut self, time: u64, user: User, entry: &Entry) -> Result<()> {
        if !self.is_constant(entry) {
            return Ok(());
        }
        let new = self.builds.going.remove(&user).unwrap_or_default();
        let new = new.into_iter().collect();
        let space = self.space(entry);
        let held = self.builds.held.entry(space).or_default();
        let gone: Vec<u32> = held.difference(&new).copied().collect();
        *held = new;
        gone.into_iter().try_for_each(|key| self.step(time, Do::Remove, Some(key), entry))
    }

    /// Whether a key was changed by the aborted transaction that is open.
    fn is_voided(&self, user: User, key: u32) -> bool {
        let is_open = self.transactions.get(&user).is_some_and(|(_, is_open)| *is_open);
        is_open && self.voided.get(&user).is_some_and(|keys| keys.contains(&key))
    }

    fn get_many(&mut self, time: u64, user: User, entry: &Entry) -> Result<()> {
        let keys = self.pending.remove(&user).unwrap_or_default();
        let (first, count) = (self.script.batches.len(), keys.len());
        self.script.batches.extend(keys);
        self.step(time, Do::GetMany { first }, None, entry)?;
        if let Some(step) = self.script.steps.last_mut() {
            step.items = count as u32;
        }
        Ok(())
    }

    /// The transaction that is open there is over if that is what the entry is about.
    fn end_if_due(&mut self, entry: &Entry, user: User) {
        use Operation::{Abort, Commit, CommitSync};
        if let Action::Operation(Commit | CommitSync | Abort) = entry.action
            && let Some((_, is_open)) = self.transactions.get_mut(&user)
        {
            *is_open = false;
        }
        if entry.outcome == Outcome::Failed && entry.action == Action::Operation(Operation::GetMany)
        {
            self.pending.remove(&user);
        }
    }

    fn step_if_owner(&mut self, time: u64, user: User, entry: &Entry) -> Result<()> {
        if self.owner != Some(user) {
            return Ok(());
        }
        self.owner = None;
        self.step(time, Do::Commit, None, entry)
    }

    fn step(&mut self, time: u64, what: Do, key: Option<u32>, entry: &Entry) -> Result<()> {
        let value_len = entry.value_len.min(LONGEST_VALUE) as u32;
        let items = u32::try_from(entry.items).unwrap_or(Step::ALL);
        let step = Step { time, what, key, value_len, items, was_there: None };
        self.script.steps.push(step);
        Ok(())
    }

    fn leave_out(&mut self, why: &'static str) -> Result<()> {
        *self.script.left_out.entry(why).or_default() += 1;
        Ok(())
    }

    /// What the entry names.
    fn key(&mut self, entry: &Entry) -> Result<Named> {
        let space = (!self.spaces.is_empty()).then(|| self.space(entry));
        let named = self.keys.name(entry, space, &mut self.script.keys)?;
        self.known.resize(self.script.keys.len(), Known::Nothing);
        self.script.value_lens.resize(self.script.keys.len(), 0);
        Ok(named)
    }
}
