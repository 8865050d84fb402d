//! One measured process: one store, one round of one part of an experiment.

use super::{bayes, mcdb, mdbm, ntdb, upscaledb_run};
use crate::copy;
use crate::driver::{Driver, ForDriver, Reading, Setup, Shape, Store, kernel, with_driver};
use crate::measure;
use crate::runner::passes::{self, Checker, Total};
use crate::runner::protocol::{self, Figure, Message, say};
use crate::runner::room::{self, Advice};
use crate::workload::{Content, Inputs, Queries};
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a process is told on standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) store: String,
    /// The store's library, where the user named one.
    pub(super) library: Option<PathBuf>,
    /// An empty folder for the store's files.
    pub(super) folder: PathBuf,
    /// The same in memory, where that is on a disk: for what is made in no order.
    pub(super) made_in: Option<PathBuf>,
    /// The file with records and queries.
    pub(super) inputs: PathBuf,
    pub(super) setup: Setup,
    /// The processor to run on.
    pub(super) cpu: Option<usize>,
    pub(super) seed: u64,
    pub(super) work: Work,
}

/// A part of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Work {
    Mcdb(mcdb::Part),
    Bayes(bayes::Part),
    Ntdb(ntdb::Part),
    Mdbm(mdbm::Part),
    Upscaledb(upscaledb_run::Part),
}

impl Work {
    /// Whether the process must have all processors. upscaledb has a thread that writes pages; on one
    /// processor it comes too late, and a small cache is searched in vain, several times as long as all else.
    pub(super) fn is_threaded(&self) -> bool {
        match self {
            Work::Mdbm(part) => part.is_threaded(),
            Work::Upscaledb(_) => true,
            Work::Mcdb(_) | Work::Bayes(_) | Work::Ntdb(_) => false,
        }
    }
}

/// Reads a [`Task`], does it, and says what came of it on standard output.
pub(super) fn main() -> Result<()> {
    // Whoever started this process may have been stopped before it could say what to do.
    let Some(task) = protocol::task::<Task>()? else { return Ok(()) };
    match run(&task) {
        Ok(()) => say(&Message::Finished),
        Err(e) => say(&Message::Failed(room::told(&e, task.fullest(), Advice::SmallerScale))),
    }
}

impl Task {
    /// Of the folders that the store is made in that with the least room.
    fn fullest(&self) -> &Path {
        let folders = [Some(&self.folder), self.made_in.as_ref()].into_iter().flatten();
        let free = |folder: &&PathBuf| kernel::free_bytes(folder).unwrap_or(u64::MAX);
        folders.min_by_key(free).unwrap_or(&self.folder)
    }
}

fn run(task: &Task) -> Result<()> {
    if let Some(cpu) = task.cpu {
        kernel::pin_to(cpu)?;
    }
    let inputs = Inputs::load(&task.inputs)?;
    with_driver(&task.store, Child { task, inputs })
        .unwrap_or_else(|| Err(Error::invalid(format!("there is no store '{}'", task.store))))
}

struct Child<'a> {
    task: &'a Task,
    inputs: Inputs,
}

impl ForDriver for Child<'_> {
    type Output = Result<()>;

    fn run<D: Driver>(self) -> Result<()> {
        let Child { task, inputs } = self;
        let driver = D::load(task.library.as_deref())?;
        let bench = Bench {
            shape: Shape::of(&inputs.records).set_up(task.setup),
            content: inputs.records.content(),
            path: task.folder.join("store"),
            driver,
            inputs,
            task,
        };
        match &task.work {
            Work::Mcdb(part) => mcdb::measure(&bench, *part),
            Work::Bayes(part) => bayes::measure(&bench, *part),
            Work::Ntdb(part) => ntdb::measure(&bench, part),
            Work::Mdbm(part) => mdbm::measure(&bench, *part),
            Work::Upscaledb(part) => upscaledb_run::measure(&bench, *part),
        }
    }
}

/// A store's place in a measured process: what it is given, and where it puts its files.
pub(super) struct Bench<'a, D> {
    pub(super) driver: D,
    pub(super) shape: Shape,
    pub(super) inputs: Inputs,
    pub(super) content: Content,
    pub(super) path: PathBuf,
    pub(super) task: &'a Task,
}

impl<D: Driver> Bench<'_, D> {
    /// Tells a figure; one that comes with a wrong answer does not count.
    pub(super) fn tell(&self, name: &str, value: f64, wrong: Option<String>) -> Result<()> {
        say(&Message::Figure(Figure { name: name.to_owned(), value, wrong }))
    }

    pub(super) fn open(&self, reading: Reading) -> Result<D::Store<'_>> {
        self.driver.open(&self.path, &self.shape, reading)
    }

    /// Builds the store; gives the seconds that it took, and what is wrong with what it holds.
    pub(super) fn build(&self) -> Result<(f64, Option<String>)> {
        let start = Instant::now();
        self.driver.build(&self.inputs.records, &self.shape, &self.path)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((seconds, passes::check_scan(&mut self.open(Reading::Warm)?, self.content)?))
    }

    /// Sees to it that no page of the store is in memory.
    pub(super) fn evict(&self) -> Result<()> {
        measure::files_in(&self.task.folder)?.iter().try_for_each(|file| kernel::evict(file))
    }

    /// Where the store is to be made, which [`Bench::put_in_place`] then puts where it belongs.
    pub(super) fn place_to_make(&self) -> PathBuf {
        self.task.made_in.as_ref().unwrap_or(&self.task.folder).join("store")
    }

    /// Puts the files of a store that is closed on the disk, one after the other.
    pub(super) fn put_in_place(&self) -> Result<()> {
        let Some(made_in) = &self.task.made_in else { return Ok(()) };
        for from in measure::files_in(made_in)? {
            let to = self.task.folder.join(from.file_name().unwrap_or_default());
            let copied = copy::with_holes(&from, &to).and_then(|file| file.sync_all());
            copied.map_err(|e| Error::io("put a store on the disk as", e).at(&to))?;
            std::fs::remove_file(&from).map_err(|e| Error::io("remove", e).at(&from))?;
        }
        Ok(())
    }

    /// Bytes that the files of the store take.
    pub(super) fn file_bytes(&self) -> Result<u64> {
        Ok(measure::Size::of(&self.task.folder)?.allocated)
    }

    /// Looks all keys up twice: first comparing every answer, then timed; gives the seconds.
    pub(super) fn gets<S: Store>(
        &self,
        store: &mut S,
        queries: &Queries,
    ) -> Result<(f64, Option<String>)> {
        let mut checker = Checker::new(queries, &self.inputs.records);
        checker.get(store)?;
        let (seconds, wrong) = self.gets_once(store, queries)?;
        Ok((seconds, checker.wrong.or(wrong)))
    }

    /// Looks all keys up, timed; the answers together must be what the data say.
    pub(super) fn gets_once<S: Store>(
        &self,
        store: &mut S,
        queries: &Queries,
    ) -> Result<(f64, Option<String>)> {
        let start = Instant::now();
        let total = passes::get(store, queries)?;
        let seconds = start.elapsed().as_secs_f64();
        let expected = Total::expected(queries, &self.inputs.records);
        Ok((seconds, total.unlike(expected, "what is looked up")))
    }
}

/// Does something with the place of a store that lies so.
#[cfg(test)]
pub(super) fn with_bench<T>(
    lie: crate::runner::liar::Lie,
    work: Work,
    act: impl FnOnce(&Bench<'_, crate::runner::liar::Liar>) -> T,
) -> T {
    use crate::workload::Workload;
    let folder = tempfile::tempdir().unwrap();
    let found = Workload::find("tokens").unwrap();
    let (inputs, _) = Inputs::prepare(&Workload { records: Some(500), ..found }).unwrap();
    let task = Task {
        store: "liar".to_owned(),
        library: None,
        folder: folder.path().to_owned(),
        made_in: None,
        inputs: folder.path().join("inputs"),
        setup: Setup::Tuned,
        cpu: None,
        seed: 1,
        work,
    };
    act(&Bench {
        shape: Shape::of(&inputs.records).set_up(task.setup),
        content: inputs.records.content(),
        path: task.folder.join("store"),
        driver: crate::runner::liar::Liar::who(lie),
        inputs,
        task: &task,
    })
}
