//! Several processes reading one store at once, and one that changes it beside them if asked for.
//!
//! The measured process starts them (this file), and each does its [`Part`] ([`part`]). They are let
//! go together: a member says that it is ready and then waits for a line on its input. The clock of
//! each runs over its first passes, and nobody stops before the clocks of all have stopped: what is
//! timed is timed while all the others are busy, too. A writer stops last.
//!
//! Invariants: a member ends when the process that started it does, whatever way that goes; one that
//! fails or crashes ends the others, and the store has failed.

pub(super) mod part;

#[cfg(test)]
mod tests;

use super::child::Round;
use super::process::Program;
use super::protocol::{Message, Spec};
use crate::driver::Driver;
use crate::workload::Phase;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// The most processes that `--processes` may ask for: each holds the data in memory.
pub(crate) const MOST: usize = 256;

/// What is asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Together {
    /// How many processes read at once, one number after the other; empty if nobody asks.
    pub(crate) counts: Vec<usize>,
    /// Do all of it once more, with a process beside the readers that changes the store.
    pub(crate) with_writer: bool,
    /// The processors for them, in this order.
    pub(crate) cpus: Vec<usize>,
    /// For a member: what it does.
    pub(crate) part: Option<Part>,
}

/// What one of the processes does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Looks up what this phase looks up; beside a writer, or not.
    Reader(Phase, bool),
    /// Stores values.
    Writer,
}

/// What a member says on its standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// The store is open, and the answers before the start were compared.
    Ready,
    /// The clock has stopped; the work goes on until it is told to stop.
    Enough,
    /// The work has ended.
    Done(Done),
    /// The store refused; nothing more comes.
    Failed(String),
}

/// What a member did while its clock ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) ops: u64,
    pub(super) seconds: f64,
    /// Lookups of one pass, and how many of them found a value.
    pub(super) lookups: u64,
    pub(super) found: u64,
    pub(super) wrong: Option<String>,
}

impl Done {
    fn per_second(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }
}

/// One phase of one store in one round, by several processes at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) phase: Phase,
    pub(crate) readers: usize,
    pub(crate) with_writer: bool,
    /// The processors that all members together ran on.
    pub(crate) processors: usize,
    /// Lookups of all readers while their clocks ran.
    pub(crate) ops: u64,
    /// The sum over the readers.
    pub(crate) per_second: f64,
    /// Of the writer.
    pub(crate) writes_per_second: Option<f64>,
    pub(crate) lookups: u64,
    pub(crate) found: u64,
    /// The first wrong answer, in words; `None` if all were right.
    pub(crate) wrong: Option<String>,
}

impl<D: Driver> Round<'_, D> {
    /// All that is asked for, for every phase of single or batched lookups: first without a writer,
    /// as that one leaves other values behind.
    pub(super) fn together(&self, say: &dyn Fn(&Message) -> Result<()>) -> Result<()> {
        let Together { counts, with_writer, .. } = &self.spec.together;
        let phases = || self.spec.phases.iter().filter(|phase| phase.is_get());
        for writer in [false, true] {
            let is_wanted = !writer || *with_writer;
            if !D::SHARING.allows(writer) || !is_wanted {
                continue;
            }
            for phase in phases() {
                for count in counts {
                    say(&Message::Started(*phase))?;
                    say(&match throughput(self.spec, *phase, *count, writer) {
                        Ok(measured) => Message::Together(measured),
                        Err(e) => Message::Refused(*phase, e.to_string()),
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// Starts the members, lets them go, and adds up what they did.
fn throughput(spec: &Spec, phase: Phase, count: usize, with_writer: bool) -> Result<Throughput> {
    let mut readers = Vec::with_capacity(count);
    for number in 0..count {
        let name = format!("reader {} of {count}", number + 1);
        readers.push(Member::start(spec, name, number, Part::Reader(phase, with_writer))?);
    }
    let mut writer = if with_writer {
        Some(Member::start(spec, "the writer".to_owned(), count, Part::Writer)?)
    } else {
        None
    };
    for member in readers.iter_mut().chain(&mut writer) {
        member.expect(|word| matches!(word, Word::Ready).then_some(()))?;
    }
    for member in writer.iter_mut().chain(&mut readers) {
        member.tell("go")?;
    }
    for member in &mut readers {
        member.expect(|word| matches!(word, Word::Enough).then_some(()))?;
    }
    let done = all_done(&mut readers)?;
    let written = all_done(writer.as_mut_slice())?;
    let is_wrong = |(member, done): (&Member, &Done)| {
        done.wrong.as_ref().map(|what| format!("{}: {what}", member.name))
    };
    let members = readers.iter().zip(&done).chain(writer.iter().zip(&written));
    Ok(Throughput {
        phase,
        readers: count,
        with_writer,
        processors: spec.together.cpus.len().min(count + usize::from(with_writer)).max(1),
        ops: done.iter().map(|done| done.ops).sum(),
        per_second: done.iter().map(Done::per_second).sum(),
        writes_per_second: written.first().map(Done::per_second),
        lookups: done.iter().map(|done| done.lookups).sum(),
        found: done.iter().map(|done| done.found).sum(),
        wrong: members.map(is_wrong).find(Option::is_some).flatten(),
    })
}

/// Tells members to stop, and waits until they have.
fn all_done(members: &mut [Member]) -> Result<Vec<Done>> {
    for member in members.iter_mut() {
        member.tell("stop")?;
    }
    let done = |word| if let Word::Done(done) = word { Some(done) } else { None };
    members.iter_mut().map(|member| member.expect(done)).collect()
}

/// A process that was started; it is ended when this is dropped.
struct Member {
    name: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Member {
    fn start(spec: &Spec, name: String, number: usize, part: Part) -> Result<Member> {
        let cpus = &spec.together.cpus;
        // Each has a processor of its own where there are enough; else they share them evenly.
        let cpu = spec.cpu.and_then(|_| cpus.get(number % cpus.len().max(1)).copied());
        let together = Together { part: Some(part), ..spec.together.clone() };
        let spec = Spec { cpu, together, ..spec.clone() };
        let program = Program::this()?;
        let mut child = program
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| Error::io("start a process", e))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::invalid("a process was started without its pipes"));
        };
        let mut member = Member { name, child, input, output: BufReader::new(output) };
        let text = serde_json::to_string(&spec).map_err(|e| Error::invalid(e.to_string()))?;
        member.tell(&text)?;
        Ok(member)
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        // One that is gone says so by the end of its output.
        let _ = self.input.write_all(format!("{line}\n").as_bytes());
        Ok(())
    }

    /// Waits for the word that `wanted` takes.
    fn expect<T>(&mut self, wanted: impl Fn(Word) -> Option<T>) -> Result<T> {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.output.read_line(&mut line);
            if read.map_err(|e| Error::io("listen to a process", e))? == 0 {
                let status = self.child.wait().map_err(|e| Error::io("wait for a process", e))?;
                let what = super::process::in_words(status);
                return Err(Error::invalid(format!("{}: {what}", self.name)));
            }
            // Lines that are no words are a library's own chatter.
            match serde_json::from_str(&line) {
                Ok(Word::Failed(what)) => {
                    return Err(Error::invalid(format!("{}: {what}", self.name)));
                }
                Ok(word) => match wanted(word) {
                    Some(got) => return Ok(got),
                    None => {
                        let what = format!("{} spoke out of turn: {}", self.name, line.trim());
                        return Err(Error::invalid(what));
                    }
                },
                Err(_) => {}
            }
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // One that has ended by itself is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
