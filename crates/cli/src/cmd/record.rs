//! `credenza record`: runs a command, and records what it does with its stores.

use crate::args::{exit_status, size};
use crate::exit::{self, Status};
use crate::output::counted;
use clap::{Args, ValueEnum};
use credenza::record::{Options, Trace};
use credenza::{Error, Result};
use nix::libc::SI_KERNEL;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::{Pid, getpid, getsid};
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};

/// Run a command, and record what it does with stores of this library.
///
/// Every program that uses the library records when its environment asks for that; this command asks. The
/// trace has an entry for each operation: when, by which thread, on which store, with which key, how long
/// the value was, and whether the key was there. Values are not in it; keys are, unless they are to be
/// hashed. Processes that the command starts record to the same file. Where it cannot grow any more, the
/// recording ends, and the command goes on.
///
/// Ctrl-C is for the command, and SIGINT, SIGQUIT, SIGTERM and SIGHUP that somebody sends are passed on to it:
/// when it has ended, what was recorded is said. A signal to the whole process group reaches it twice.
///
/// 'credenza stat FILE' shows what is in a trace, 'credenza replay FILE' does it again.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza record day.trace -- ./server --port 8080\n  \
       credenza record day.trace --keys hashed --limit 10G -- ./server\n  \
       CREDENZA_RECORD=day.trace ./server               the same without this command\n",
    exit_status!("    n  that of the command; 128 and more: a signal ended it\n")
))]
pub struct Record {
    /// The trace to make; there must be no such file
    file: PathBuf,

    /// How keys are recorded
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    keys: Keys,

    /// Bytes that the trace may have at most, such as 512M
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1G")]
    limit: u64,

    /// The command and its arguments, behind --
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Keys {
    /// As they are
    #[default]
    Plain,
    /// Hashed with a secret that nobody learns: which operations are about one key can be told, but not
    /// which key it is
    Hashed,
}

/// Runs the command.
pub fn run(args: &Record, quiet: bool) -> Result<Status> {
    let trace = Options::new(&args.file).limit(args.limit);
    trace.check()?;
    // The command may go to another folder.
    let file = std::path::absolute(&args.file).map_err(|e| Error::io("find", e).at(&args.file))?;
    let (program, arguments) = args.command.split_first().ok_or_else(no_command)?;
    let mut command = Command::new(program);
    command.args(arguments);
    command.env("CREDENZA_RECORD", &file);
    command.env("CREDENZA_RECORD_LIMIT", args.limit.to_string());
    command.env_remove("CREDENZA_RECORD_SECRET");
    match args.keys {
        Keys::Plain => command.env("CREDENZA_RECORD_KEYS", "plain"),
        Keys::Hashed => {
            // All of its processes hash alike.
            command.env("CREDENZA_RECORD_SECRET", secret());
            command.env("CREDENZA_RECORD_KEYS", "hashed")
        }
    };
    let ended = run_to_its_end(&mut command).map_err(|e| Error::io("run", e).at(program))?;
    if !quiet {
        say(args);
    }
    let code = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0));
    Ok(Status::Code(ExitCode::from(u8::try_from(code).unwrap_or(111))))
}

/// Runs the command until it ends. What is typed at the terminal it gets from there as well; signals that
/// somebody sends to this process are passed on.
fn run_to_its_end(command: &mut Command) -> io::Result<ExitStatus> {
    let asked = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP];
    let signals: SigSet = asked.into_iter().chain([Signal::SIGCHLD]).collect();
    let mut child = command.spawn()?;
    // From now on they wait to be taken one by one; not before, as the command would have them blocked, too.
    let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let ended = pass_signals_on(&mut child, &signals)?;
    // What came with the end was for the command. From here on signals are for this process again.
    let rest = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    while rest.read_signal()?.is_some() {}
    before.thread_set_mask()?;
    Ok(ended)
}

fn pass_signals_on(child: &mut Child, signals: &SigSet) -> io::Result<ExitStatus> {
    let coming = SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC)?;
    loop {
        // Only here it is reaped, so that its number is nobody else's before.
        if let Some(ended) = child.try_wait()? {
            return Ok(ended);
        }
        let Some(signal) = coming.read_signal()? else { continue };
        if is_to_be_passed_on(&signal, child.id()) {
            let number = Signal::try_from(signal.ssi_signo.cast_signed())?;
            // Where that is not allowed, the command is another user's, and ends when it likes.
            let _ = kill(Pid::from_raw(child.id().cast_signed()), number);
        }
    }
}

/// Whether the command, whose process is `child`, does not have this signal without us.
fn is_to_be_passed_on(signal: &siginfo, child: u32) -> bool {
    if signal.ssi_signo == Signal::SIGCHLD as u32 {
        return false;
    }
    if signal.ssi_code == SI_KERNEL {
        // What is typed goes to all in the foreground. That the terminal is gone, only the leader of its
        // session is told.
        return signal.ssi_signo == Signal::SIGHUP as u32 && getsid(None) == Ok(getpid());
    }
    // What it sends to its whole group it sends to itself.
    signal.ssi_pid != child
}

fn no_command() -> Error {
    Error::invalid("there is no command to run: write it behind --")
}

/// 128 bits that nobody can guess, in hexadecimal: they come from the keys that the system gives to hash
/// tables.
fn secret() -> String {
    let word = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", word(), word())
}

/// Says what was recorded.
fn say(args: &Record) {
    let name = args.file.display();
    if !args.file.exists() {
        // It may have become impossible since the command began. To try would be to make a file that a process
        // which the command has left behind might take for its own.
        let folder = args.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let folder = folder.display();
            return exit::note(format_args!(
                "nothing was recorded: there can be no trace now, as the folder {folder} is gone"
            ));
        }
        return exit::note(format_args!(
            "nothing was recorded: the command opened and built no store with this library, or with one that is \
             older; or it could not, and has said why"
        ));
    }
    match Trace::open(&args.file) {
        Ok(trace) => {
            let operations = counted(trace.len(), "operation");
            exit::note(format_args!("recorded {operations} in {name}"));
            if let Some((why, when)) = trace.stopped() {
                let seconds = when as f64 / 1e9;
                exit::note(format_args!("the recording ended after {seconds:.3} s: {why}"));
            }
        }
        Err(e) => exit::report(&e),
    }
}
