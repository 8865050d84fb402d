//! Starting one measured process and listening to it.

use super::protocol::Message;
use super::room;
use crate::driver::kernel;
use crate::ended;
use credenza::{Error, Result};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// In the environment of a process that is measured: the number of the one that started it.
const STARTED_BY: &str = "CREDENZA_STARTED_BY";

/// How to start this program again: the same file and arguments, and `--child`.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    file: PathBuf,
    args: Vec<OsString>,
    is_silent: bool,
}

/// In a process that [`Program::command`] started, before it does anything: has it end when the one ends that started it,
/// which may be killed. It would go on measuring for hours, and nobody would be told of it.
pub(crate) fn follow_parent() -> Result<()> {
    kernel::end_with_parent()?;
    // It may have ended before.
    let started_by: Option<u32> = std::env::var(STARTED_BY).ok().and_then(|id| id.parse().ok());
    match started_by {
        Some(id) if id != parent_id() => {
            Err(Error::invalid("whoever started this process has ended"))
        }
        _ => Ok(()),
    }
}

impl Program {
    pub(crate) fn this() -> Result<Program> {
        let file = std::env::current_exe().map_err(|e| Error::io("find this program", e))?;
        // A measured process that starts others has the option already.
        let args = std::env::args_os().skip(1).filter(|arg| arg != "--child");
        let args = args.chain(["--child".into()]).collect();
        Ok(Program { file, args, is_silent: false })
    }

    /// The same with nothing on standard error.
    pub(crate) fn silent(self) -> Program {
        Program { is_silent: true, ..self }
    }

    /// The command that starts it.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.args(&self.args).env(STARTED_BY, std::process::id().to_string());
        // Our engines would be timed while they write down what is done to them.
        let records = |name: &OsString| name.as_encoded_bytes().starts_with(b"CREDENZA_RECORD");
        for (name, _) in std::env::vars_os().filter(|(name, _)| records(name)) {
            command.env_remove(name);
        }
        if self.is_silent {
            command.stderr(Stdio::null());
        }
        command
    }

    /// What starts this program as the user did: the file and its arguments.
    pub(super) fn itself(&self) -> impl Iterator<Item = &OsStr> {
        let args = self.args.iter().filter(|arg| *arg != "--child");
        std::iter::once(self.file.as_os_str()).chain(args.map(OsString::as_os_str))
    }

    /// A shell script in the place of this program.
    #[cfg(test)]
    pub(super) fn of_script(script: &str) -> Program {
        let args = vec!["-c".into(), script.into()];
        Program { file: PathBuf::from("/bin/sh"), args, is_silent: false }
    }
}

/// How far a run has come, as a handler of signals must know it.
/// (0 is the time before: there is nothing to report yet.)
const MEASURING: u8 = 1;
const STOPPING: u8 = 2;
const LEAVING: u8 = 3;
/// What a process that is asked to end has for it.
const GRACE: Duration = Duration::from_secs(30);

/// The process that is being measured, if any, or those that make stores: shared with the handler of signals.
#[derive(Clone, Default)]
pub(crate) struct Current {
    children: Arc<Mutex<Vec<Child>>>,
    state: Arc<AtomicU8>,
    /// Whether they end by themselves when they are asked to, and tell what they have done by then.
    are_asked: Arc<AtomicBool>,
    /// Where they work, as far as that is known.
    folder: Option<Arc<Path>>,
}

/// A process that was started.
struct Started {
    id: u32,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
}

impl Current {
    /// For processes that work in this folder.
    pub(super) fn in_folder(folder: &Path) -> Current {
        Current { folder: Some(folder.into()), ..Current::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Child>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the processes of which this is true, each with all of its group.
    fn kill(&self, is_meant: impl Fn(u32) -> bool) {
        for child in self.lock().iter_mut().filter(|child| is_meant(child.id())) {
            // It may have ended by itself just now: then there is nothing to do.
            if matches!(child.try_wait(), Ok(None)) {
                // With whom it has started: a browser may be a script that starts it.
                kernel::kill_group(child.id());
            }
        }
    }

    /// From here on the caller looks at [`Current::is_stopping`] after every process.
    pub(crate) fn begin(&self) {
        self.state.store(MEASURING, Ordering::SeqCst);
    }

    /// From here on processes are asked to end, or, without `are_asked`, are ended as ever.
    pub(crate) fn ask(&self, are_asked: bool) {
        self.are_asked.store(are_asked, Ordering::SeqCst);
    }

    /// Asks the processes to end, and ends those that have not when there was time for it.
    fn end_when_asked(&self) {
        for child in self.lock().iter_mut() {
            // The number of one that was waited for may be another's by now.
            if matches!(child.try_wait(), Ok(None)) {
                kernel::ask_to_end(child.id());
            }
        }
        let this = self.clone();
        std::thread::spawn(move || {
            std::thread::sleep(GRACE);
            this.kill(|_| true);
        });
    }

    /// Ends the processes because of a signal. True for the first one within the measuring: who
    /// measures then reports what is finished, and cleans up. Else the caller is to clean up and
    /// leave: no other process is started, and nothing more is said.
    pub(crate) fn stop(&self) -> bool {
        let first =
            self.state.compare_exchange(MEASURING, STOPPING, Ordering::SeqCst, Ordering::SeqCst);
        if first.is_err() {
            self.state.store(LEAVING, Ordering::SeqCst);
        }
        match first.is_ok() && self.are_asked.load(Ordering::SeqCst) {
            true => self.end_when_asked(),
            false => self.kill(|_| true),
        }
        first.is_ok()
    }

    /// Whether a signal asked for the end of the run.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.load(Ordering::SeqCst) >= STOPPING
    }

    /// Sleeps for ever when the handler of signals is about to leave.
    fn rest_if_leaving(&self) {
        while self.state.load(Ordering::SeqCst) == LEAVING {
            std::thread::park();
        }
    }

    /// Starts the process. In a group of its own a Ctrl-C does not reach it: it ends when this process says so.
    fn start(&self, command: &mut Command) -> Result<Started> {
        // A handler that is about to leave has either been here before, or finds the process.
        let mut children = loop {
            self.rest_if_leaving();
            let children = self.lock();
            if self.state.load(Ordering::SeqCst) != LEAVING {
                break children;
            }
        };
        let started = command.process_group(0).spawn();
        let mut child = started
            .map_err(|e| Error::io("start a process", e).at(Path::new(command.get_program())))?;
        let (id, input, output) = (child.id(), child.stdin.take(), child.stdout.take());
        children.push(child);
        drop(children);
        // The first signal within the measuring may have come before there was a process.
        if self.is_stopping() {
            self.kill(|of| of == id);
        }
        Ok(Started { id, input, output })
    }

    /// Whether the process has ended.
    fn has_ended(&self, id: u32) -> Result<bool> {
        match self.lock().iter_mut().find(|child| child.id() == id).map(Child::try_wait) {
            Some(Ok(None)) => Ok(false),
            Some(Ok(Some(_))) | None => Ok(true),
            Some(Err(e)) => Err(Error::io("wait for a process", e)),
        }
    }

    /// Waits for the end of the process, which has closed its output, without keeping others from being ended.
    fn wait(&self, id: u32) -> Result<ExitStatus> {
        let mut children = self.lock();
        let child = children.iter().position(|child| child.id() == id).map(|i| children.remove(i));
        drop(children);
        match child {
            Some(mut child) => child.wait().map_err(|e| Error::io("wait for a process", e)),
            None => Err(Error::invalid("the measured process was ended by a signal")),
        }
    }
}

/// How a process ended.
pub(crate) enum End {
    Finished,
    /// The store refused, in its own words.
    Failed(String),
    /// It ended without a word; the signal that ended it, if one did.
    Crashed {
        signal: Option<i32>,
        what: String,
    },
    TimedOut,
}

/// Runs one process to its end: it reads `work` as JSON, and `hear` gets every message but the last.
pub(crate) fn run(
    program: &Program,
    work: &impl Serialize,
    timeout: Duration,
    current: &Current,
    mut hear: impl FnMut(Message),
) -> Result<End> {
    let deadline = Instant::now() + timeout;
    let mut command = program.command();
    let Started { id, input, output } =
        current.start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    if let Some(mut input) = input {
        let text = serde_json::to_string(work).map_err(|e| Error::invalid(e.to_string()))?;
        // A process that is gone already says so by its end.
        let _ = input.write_all(text.as_bytes());
    }
    let (send, received) = mpsc::channel();
    let listener = std::thread::spawn(move || {
        for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()) {
            let message = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            // Lines that are no messages are a library's own chatter.
            if message.is_some_and(|message: Message| send.send(message).is_err()) {
                break;
            }
        }
    });
    let mut end = None;
    loop {
        match received.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Message::Finished) => end = Some(End::Finished),
            Ok(Message::Failed(what)) => end = Some(End::Failed(what)),
            Ok(message) => hear(message),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                end = Some(End::TimedOut);
                current.kill(|of| of == id);
                break;
            }
        }
    }
    let status = current.wait(id)?;
    // The listener ends with the process's output, which is closed now.
    let _ = listener.join();
    current.rest_if_leaving();
    let crashed = || {
        let what = in_words(status, current.folder.as_deref());
        End::Crashed { signal: status.signal(), what }
    };
    Ok(end.unwrap_or_else(crashed))
}

/// Runs another program, which tells no messages, to its end; `None` if that did not come in time.
pub(crate) fn run_silent(
    command: &mut Command,
    timeout: Duration,
    current: &Current,
) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + timeout;
    let id = current.start(command)?.id;
    let mut is_late = false;
    while !current.has_ended(id)? {
        if Instant::now() > deadline {
            is_late = true;
            current.kill(|of| of == id);
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = current.wait(id)?;
    current.rest_if_leaving();
    Ok(Some(status).filter(|_| !is_late))
}

/// How a process ended that works in this folder.
pub(super) fn in_words(status: ExitStatus, folder: Option<&Path>) -> String {
    ended::in_words(status, || room::told_of_sigbus(folder))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::protocol::Spec;
    use super::super::room::Advice;
    use super::super::together::Together;
    use super::*;
    use crate::workload::Phase;

    /// Work for a script, which is told it and does as it likes.
    pub(crate) fn spec() -> Spec {
        Spec {
            store: "none".to_owned(),
            library: None,
            folder: PathBuf::new(),
            keep: None,
            open: None,
            inputs: PathBuf::new(),
            phases: Vec::new(),
            mixes: crate::workload::Mixes::default(),
            done_in_time: None,
            settings: crate::settings::Choices::default(),
            batch: 1,
            seed: 1,
            cold: false,
            read_ahead: false,
            groups: None,
            sync: false,
            oracle: None,
            together: Together::default(),
            latencies: true,
            over_time: false,
            own_counters: false,
            rate: None,
            advice: Advice::FewerRecords,
            cpu: None,
            clock_ns: 0.0,
        }
    }

    /// How a shell script ends, and what was heard of it.
    fn end_of(script: &str, timeout: Duration) -> (End, Vec<Message>) {
        let program = Program::of_script(script);
        let mut heard = Vec::new();
        let end = run(&program, &spec(), timeout, &Current::default(), |m| heard.push(m)).unwrap();
        (end, heard)
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_process_that_ends_early_has_crashed_in_the_phase_it_was_in() {
        let (end, heard) = end_of("echo '{\"Started\":\"scan\"}'; kill -SEGV $$", LONG);
        assert!(matches!(end, End::Crashed { what, .. } if what.contains("SIGSEGV")));
        assert!(matches!(heard[..], [Message::Started(Phase::Scan)]));
        assert!(
            matches!(end_of("exit 3", LONG).0, End::Crashed { what, .. } if what.contains('3'))
        );
    }

    #[test]
    fn a_process_that_takes_too_long_is_ended() {
        assert!(matches!(end_of("exec sleep 600", Duration::from_millis(20)).0, End::TimedOut));
    }

    /// A message begins in a line of its own.
    #[test]
    fn chatter_without_an_end_of_line_hides_no_message() {
        let say = "printf '\\n%s\\n'";
        let script = format!(
            "printf '{{\"hello\"\\n\\377junk'; {say} '{{\"Started\":\"scan\"}}'; {say} '\"Finished\"'"
        );
        let (end, heard) = end_of(&script, LONG);
        assert!(matches!(end, End::Finished));
        assert!(matches!(heard[..], [Message::Started(Phase::Scan)]));
    }

    #[test]
    fn another_program_is_run_to_its_end_or_ended() {
        let run = |script: &str, timeout| {
            run_silent(Command::new("/bin/sh").args(["-c", script]), timeout, &Current::default())
        };
        assert_eq!(run("exit 3", LONG).unwrap().unwrap().code(), Some(3));
        assert!(run("exec sleep 600", Duration::from_millis(20)).unwrap().is_none());
        let mut none = Command::new("/no/such/program");
        assert!(run_silent(&mut none, LONG, &Current::default()).is_err());
    }

    #[test]
    fn chatter_of_a_library_is_no_message() {
        let (end, heard) = end_of("cat; echo hello; echo '\"Finished\"'", LONG);
        assert!(matches!(end, End::Finished) && heard.is_empty());
        let (end, _) = end_of("echo '{\"Failed\":\"no\"}'", LONG);
        assert!(matches!(end, End::Failed(what) if what == "no"));
    }
}
