//! What the parent tells a measured process, and what that one answers: JSON, one message a line.

use super::kept::Keeping;
use super::limit::Groups;
use super::open_loop::{AtRate, Rate};
use super::oracle::{Compared, Oracle};
use super::process::follow_parent;
use super::room::Advice;
use super::together::{Group, Throughput, Together};
use crate::replay::Replayed;
use crate::result::over_time::OverTime;
use crate::result::{Effort, OwnCounter};
use crate::settings::Choices;
use crate::torture::Said;
use crate::workload::{Mixes, Phase};
use credenza::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// The work of one process: one store, one round. Given on standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) store: String,
    /// The store's library, where the user named one.
    pub(crate) library: Option<PathBuf>,
    /// An empty folder for the store's files.
    pub(crate) folder: PathBuf,
    /// Where to keep the store that is built.
    pub(crate) keep: Option<Keeping>,
    /// The folder of the store that is opened in place of a new one.
    pub(crate) open: Option<PathBuf>,
    /// The file with records and queries.
    pub(crate) inputs: PathBuf,
    pub(crate) phases: Vec<Phase>,
    /// What the phases of mixes do.
    pub(crate) mixes: Mixes,
    /// Of the mix that ends after a time: as many operations as the store did in an earlier round.
    pub(crate) done_in_time: Option<usize>,
    /// How stores are to be set up.
    pub(crate) settings: Choices,
    pub(crate) batch: usize,
    /// The seed of the order of changes.
    pub(crate) seed: u64,
    /// Start every phase with no page of the store in memory.
    pub(crate) cold: bool,
    /// With a cold cache: leave read-ahead to the kernel.
    pub(crate) read_ahead: bool,
    /// The control groups of a run with a limit of memory.
    pub(crate) groups: Option<Groups>,
    /// Bring the files to the disk within `build`.
    pub(crate) sync: bool,
    /// Compare stores instead of measuring one.
    pub(crate) oracle: Option<Oracle>,
    /// Several processes at one store.
    pub(crate) together: Together,
    /// Time single operations in runs of their own, too.
    pub(crate) latencies: bool,
    /// Note operations over the time of a run, too.
    pub(crate) over_time: bool,
    /// Ask stores what they count themselves, too.
    pub(crate) own_counters: bool,
    /// Do single operations at a rate, too.
    pub(crate) rate: Option<Rate>,
    /// What is said of a folder that is full.
    pub(crate) advice: Advice,
    /// The processor to run on.
    pub(crate) cpu: Option<usize>,
    pub(crate) clock_ns: f64,
}

impl Spec {
    /// The rate that this phase is asked for, by several at once or by one, if it is.
    pub(crate) fn rate_of(&self, phase: Phase) -> Option<&Rate> {
        self.rate.as_ref().filter(|_| phase.is_paced() && !self.cold)
    }
}

/// What this process is given on standard input, all of it; `None` if that is nothing. It ends with the one that started it.
pub(crate) fn task<T: DeserializeOwned>() -> Result<Option<T>> {
    follow_parent()?;
    let text = std::io::read_to_string(std::io::stdin()).map_err(|e| Error::io("read input", e))?;
    if text.is_empty() { Ok(None) } else { parsed(&text).map(Some) }
}

/// What a process was given.
pub(crate) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| {
        Error::invalid(format!("--child is for the workbench's own use; its input: {e}"))
    })
}

/// Says something to the parent, on standard output: in a line of its own, even where a library has
/// begun one.
pub(crate) fn say(message: &Message) -> Result<()> {
    let line = serde_json::to_string(message).map_err(|e| Error::invalid(e.to_string()))?;
    writeln!(std::io::stdout(), "\n{line}").map_err(|e| Error::io("write to the parent", e))
}

/// What a measured process says on standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// A phase begins; a crash from here on is a crash in it.
    Started(Phase),
    /// A phase was measured.
    Measured(Box<Sample>),
    /// Several processes or threads begin to do a phase at once; a crash from here on is one of theirs.
    Gathered(Group),
    /// They did.
    Together(Box<Throughput>),
    /// Stores were compared.
    Compared(Compared),
    /// The store refused in this phase, in its own words; the other phases go on.
    Refused(Phase, String),
    /// They failed; the phase has its figures all the same.
    Dispersed(Group, String),
    /// Something beside a phase failed, which has its figures all the same: keeping what was built.
    Amiss(Phase, String),
    /// A figure of an experiment that is reproduced.
    Figure(Figure),
    /// A trace was replayed.
    Replayed(Box<Replayed>),
    /// Something happened to a store, or what is left of one was looked at.
    Tortured(Box<Said>),
    /// Nothing can be measured; nothing more comes.
    Failed(String),
    /// All phases are done.
    Finished,
}

/// One figure of one store in one round of an experiment that is reproduced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// The first wrong answer, in words; `None` if all were right.
    pub(crate) wrong: Option<String>,
}

/// One phase of one store in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) phase: Phase,
    pub(crate) ops: u64,
    pub(crate) ns_per_op: f64,
    /// Latencies in nanoseconds with their counts.
    pub(crate) latencies: Vec<(u64, u64)>,
    /// For a mix: the same for each kind of operation, by its name.
    pub(crate) operation_latencies: BTreeMap<String, Vec<(u64, u64)>>,
    /// What single operations at a rate gave.
    pub(crate) at_rate: Option<AtRate>,
    /// Operations over the time of a run.
    pub(crate) over_time: Option<OverTime>,
    /// Lookups that found a value; `None` where nothing is looked up.
    pub(crate) found: Option<u64>,
    /// Lookups that were made.
    pub(crate) lookups: u64,
    /// Records whose values were taken in one timed run, by lookups, ranges and scans.
    pub(crate) taken: u64,
    /// How often the phase was done, each time on a new store.
    pub(crate) repeats: u64,
    pub(crate) file_bytes: u64,
    pub(crate) peak_rss_bytes: u64,
    pub(crate) file_length: u64,
    pub(crate) effort: Effort,
    pub(crate) own_counters: Vec<OwnCounter>,
    /// The first wrong answer, in words; `None` if all were right.
    pub(crate) wrong: Option<String>,
}

impl Sample {
    /// A sample with nothing measured yet.
    pub(crate) fn new(phase: Phase, ops: usize) -> Sample {
        Sample {
            phase,
            ops: ops as u64,
            ns_per_op: 0.0,
            latencies: Vec::new(),
            operation_latencies: BTreeMap::new(),
            at_rate: None,
            over_time: None,
            found: None,
            lookups: 0,
            taken: 0,
            repeats: 1,
            file_bytes: 0,
            peak_rss_bytes: 0,
            file_length: 0,
            effort: Effort::default(),
            own_counters: Vec::new(),
            wrong: None,
        }
    }
}
