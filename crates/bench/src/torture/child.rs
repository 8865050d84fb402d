//! The processes that something happens to, and those that look at what is left: one store each.

use super::Said;
use super::judge::{At, Found, Judged, judge, last_boundary};
use super::kill::{Killer, Mark};
use super::ledger::Ledger;
use super::plan::{Operation, Plan, Source, What};
use super::power::{Cut, Recorder};
use crate::driver::{
    Driver, Fault, ForDriver, Shape, Store, Writer, has_transactions, kernel, syscalls,
    with_changed,
};
use crate::runner::protocol::{self, Message, say};
use crate::runner::room::{self, Advice};
use crate::settings::Chosen;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a process is told on standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) store: String,
    pub(super) library: Option<PathBuf>,
    /// For the store's files and nothing else.
    pub(super) folder: PathBuf,
    pub(super) source: Source,
    /// How the store is set up.
    pub(super) settings: Chosen,
    /// Each change is to be on the disk when its call has returned.
    pub(super) is_durable: bool,
    pub(super) job: Job,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Job {
    /// All operations on a new store, with nothing happening; tells its sizes on the way.
    Rehearse,
    /// The same until this process is killed, so many nanoseconds after this mark in this operation.
    BeKilled { at: usize, mark: Mark, after: u64, ledger: PathBuf },
    /// The same until the power fails; where changes are not synced, so many operations are between two
    /// syncs that are asked for.
    LosePower { cut: Cut, sync_every: usize },
    /// The same until the store refuses an operation; where a limit is given, files get no longer.
    FillUp { limit: Option<u64>, ledger: PathBuf },
    /// Looks at what is in a store that this happened to, or nothing.
    Check { at: At, after: Option<Fault> },
    /// Goes on with such a store from this operation to the last.
    GoOn { from: usize },
}

/// Reads a [`Task`], does it, and says what came of it on standard output.
pub(super) fn main() -> Result<()> {
    let Some(task) = protocol::task::<Task>()? else { return Ok(()) };
    let done = with_changed(&task.store, Work(&task))
        .unwrap_or_else(|| Err(Error::invalid(format!("there is no store '{}'", task.store))));
    match done {
        Ok(()) => say(&Message::Finished),
        // That there is no room is what that one is about.
        Err(e) if matches!(task.job, Job::FillUp { .. }) => say(&Message::Failed(e.to_string())),
        Err(e) => say(&Message::Failed(room::told(&e, &task.folder, Advice::FewerRecords))),
    }
}

struct Work<'a>(&'a Task);

impl ForDriver for Work<'_> {
    type Output = Result<()>;

    fn run<D: Driver>(self) -> Result<()> {
        let task = self.0;
        let plan = Plan::of(&task.source)?;
        let plan = if D::REPLACES { plan.in_generations() } else { plan };
        let driver = D::load(task.library.as_deref())?;
        let shape = Shape { settings: task.settings, ..plan.shape() };
        let path = task.folder.join("store");
        let has_transactions = has_transactions::<D>();
        let child = Child { task, plan: &plan, driver: &driver, shape, path, has_transactions };
        match &task.job {
            Job::Rehearse => child.rehearse(),
            Job::BeKilled { at, mark, after, ledger } => {
                child.be_killed(*at, *mark, Duration::from_nanos(*after), ledger)
            }
            Job::LosePower { cut, sync_every } => child.lose_power(cut, *sync_every),
            Job::FillUp { limit, ledger } => child.fill_up(*limit, ledger),
            Job::Check { at, after } => child.check(*at, *after),
            Job::GoOn { from } => child.go_on(*from),
        }
    }
}

struct Child<'a, D> {
    task: &'a Task,
    plan: &'a Plan,
    driver: &'a D,
    shape: Shape,
    path: PathBuf,
    has_transactions: bool,
}

impl<D: Driver> Child<'_, D> {
    /// A new store, open for changes of the class that is asked for.
    fn new_store(&self) -> Result<D::Writer<'_>> {
        self.driver.create_one_by_one(&self.path, &self.shape, self.task.is_durable)
    }

    fn operation(&self, store: &mut D::Writer<'_>, operation: &Operation) -> Result<()> {
        let key = self.plan.key(operation);
        match operation.what {
            What::Get => store.get(key, see).map(drop),
            What::Put => store.insert(key, self.plan.value(operation)),
            What::Remove => store.remove(key).map(drop),
            What::Scan(count) if <D::Writer<'_> as Store>::IS_ORDERED => {
                store.range(key, count as usize, |_, value| see(value))
            }
            What::TableScan => store.scan(|_, value| see(value)),
            What::Begin if self.has_transactions => store.begin(),
            What::Commit if self.has_transactions => store.commit(),
            What::Scan(_) | What::Begin | What::Commit => Ok(()),
        }
    }

    fn rehearse(&self) -> Result<()> {
        let mut store = self.new_store()?;
        let operations = &self.plan.operations;
        let (mut sizes, pause) = (Vec::new(), operations.len().div_ceil(SIZES));
        let mut before = Space::default();
        for (number, operation) in operations.iter().enumerate() {
            self.operation(&mut store, operation)?;
            let is_due = match D::REPLACES {
                true => operation.what == What::Commit,
                false => (number + 1).is_multiple_of(pause) || number + 1 == operations.len(),
            };
            if is_due {
                let space = Space::of(&self.task.folder)?;
                // Until it has the name of the file before, there are both.
                sizes.push(if D::REPLACES { space.beside(before) } else { space });
                before = space;
            }
        }
        store.close()?;
        sizes.push(Space::of(&self.task.folder)?);
        say(&Message::Tortured(Box::new(Said::Rehearsed(sizes))))
    }

    fn be_killed(&self, at: usize, mark: Mark, after: Duration, ledger: &Path) -> Result<()> {
        let ledger = Ledger::new(Some(ledger))?;
        let mut store = self.new_store()?;
        for (number, operation) in self.plan.operations.iter().enumerate() {
            let killer = (number == at).then(|| &*Box::leak(Box::new(Killer::new(mark, after))));
            if let Some(killer) = killer.filter(|_| mark != Mark::Operation) {
                syscalls::watch(killer);
            }
            self.operation(&mut store, operation)?;
            killer.into_iter().for_each(Killer::ends);
            ledger.is_done(number + 1)?;
        }
        // With the store open: closing it is not what this is about.
        loop {
            std::thread::park();
        }
    }

    fn lose_power(&self, cut: &Cut, sync_every: usize) -> Result<()> {
        let recorder: &'static Recorder =
            Box::leak(Box::new(Recorder::new(&self.task.folder, cut)?));
        let mut store = self.new_store()?;
        syscalls::watch(recorder);
        let mut synced = 0;
        for (number, operation) in self.plan.operations.iter().enumerate() {
            recorder.before(number);
            recorder.ledger.begins(number + 1);
            self.operation(&mut store, operation)?;
            recorder.ledger.is_done(number + 1)?;
            recorder.after();
            let is_due = number + 1 >= synced + sync_every && !self.task.is_durable;
            if is_due && !self.is_in_transaction(number + 1) && store.sync()? {
                synced = number + 1;
                recorder.ledger.is_synced(synced);
                recorder.after();
            }
        }
        recorder.end();
        Ok(())
    }

    fn is_in_transaction(&self, done: usize) -> bool {
        last_boundary(&self.plan.operations, done, self.has_transactions) != done
    }

    fn fill_up(&self, limit: Option<u64>, ledger: &Path) -> Result<()> {
        let ledger = Ledger::new(Some(ledger))?;
        limit.map_or(Ok(()), kernel::limit_file_size)?;
        let operations = &self.plan.operations;
        let (mut done, mut is_made) = (0, false);
        // A store that cannot even be made has acknowledged nothing.
        let filled = self.new_store().and_then(|mut store| {
            is_made = true;
            for operation in operations {
                self.operation(&mut store, operation)?;
                done += 1;
                ledger.is_done(done)?;
            }
            store.close()
        });
        let at = At { begun: operations.len().min(done + 1), done, synced: 0 };
        let why = filled.err().map(|e| e.to_string());
        say(&Message::Tortured(Box::new(Said::Full { at, why, is_made })))
    }

    fn go_on(&self, from: usize) -> Result<()> {
        let mut store = self.driver.recover(&self.path, &self.shape)?;
        for operation in &self.plan.operations[from..] {
            self.operation(&mut store, operation)?;
        }
        store.close()
    }

    /// Opens what is left, reads all of it, and puts it beside the plan. Then it must take a change, and
    /// pass the store's own check.
    fn check(&self, at: At, after: Option<Fault>) -> Result<()> {
        if after == Some(Fault::Power) {
            D::make_rebooted(&self.path)?;
        }
        let mut store = self.driver.recover(&self.path, &self.shape)?;
        let mut found = Found::new();
        let mut twice = None;
        store.scan(|key, value| {
            if found.insert(key.to_vec(), value.to_vec()).is_some() {
                twice = Some(key.to_vec());
            }
        })?;
        let mut judged = judge(self.plan, self.has_transactions, at, &found);
        if let Some(key) = twice {
            judged.is_wrong(format!("a scan gives '{}' twice", key.escape_ascii()));
        }
        for key in self.plan.keys() {
            let mut value = None;
            store.get(key, |bytes| value = Some(bytes.to_vec()))?;
            if value.as_ref() != found.get(key) {
                judged.is_wrong(format!("a scan and a lookup of '{}' differ", key.escape_ascii()));
            }
        }
        if let Err(e) = self.driver.check_litter(&self.path, after) {
            judged.is_wrong(format!("beside the store: {e}"));
        }
        self.change(&mut store, &found)?;
        store.close()?;
        if let Err(e) = self.driver.verify(&self.path) {
            judged.is_wrong(format!("its own check says: {e}"));
        }
        say(&Message::Tortured(Box::new(Said::Judged(judged))))
    }

    /// A change that leaves everything as it was.
    fn change(&self, store: &mut D::Writer<'_>, found: &Found) -> Result<()> {
        let Some(put) = self.plan.operations.iter().find(|o| o.what == What::Put) else {
            return Ok(());
        };
        let key = self.plan.key(put);
        match found.get(key) {
            Some(value) => store.insert(key, value),
            None => {
                store.insert(key, self.plan.value(put))?;
                store.remove(key).map(drop)
            }
        }
    }
}

impl Judged {
    fn is_wrong(&mut self, what: String) {
        self.wrong += 1;
        self.what.get_or_insert(what);
    }
}

/// How often a rehearsal tells the size of its store.
const SIZES: usize = 32;

/// What a store takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Space {
    /// Bytes on the disk.
    pub(super) allocated: u64,
    /// Bytes of its longest file.
    pub(super) longest: u64,
}

impl Space {
    /// While there is another one's, too.
    fn beside(self, other: Space) -> Space {
        let longest = self.longest.max(other.longest);
        Space { allocated: self.allocated + other.allocated, longest }
    }

    fn of(folder: &Path) -> Result<Space> {
        let mut space = Space::default();
        // One that is just being removed takes nothing.
        for facts in
            crate::measure::files_in(folder)?.iter().filter_map(|path| path.metadata().ok())
        {
            use std::os::unix::fs::MetadataExt;
            space.allocated += facts.blocks() * 512;
            space.longest = space.longest.max(facts.len());
        }
        Ok(space)
    }
}

/// A value was given: it is looked at, as whoever asked for it would.
fn see(value: &[u8]) {
    black_box(value.first());
}
