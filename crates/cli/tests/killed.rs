//! Danger: what a command started goes on when the command was killed: measures for hours, and keeps its files and memory.

mod common;
use common::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than anything takes here.
const LONG: Duration = Duration::from_secs(20);

/// What `/proc` says of a process: what it does, and which process it is of.
fn state_of(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The processes that live and were started by this one to be measured.
fn measured_by(pid: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("processes");
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_measured = |number: &u32| {
        let command = std::fs::read_to_string(format!("/proc/{number}/cmdline"));
        state_of(*number).is_some_and(|(_, parent)| parent == pid)
            && command.is_ok_and(|command| command.contains("\0--child\0"))
    };
    numbers.filter(is_measured).collect()
}

/// Whether a process has a file of this folder open: then it is at work.
fn has_file_in(pid: u32, folder: &str) -> bool {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .any(|path| path.starts_with(folder))
}

/// Whether it is so before long.
fn is_soon(mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn what_is_measured_ends_with_who_was_killed() {
    let folder = Folder::new();
    let dir = folder.path("its stores");
    std::fs::create_dir(&dir).expect("a folder");
    let commands = [
        "bench -q --stores hash --workload decimal --records 2000000 --phases build --rounds 1",
        "bench -q --stores hash --workload decimal --records 100 --phases build,get-hit --rounds 1 \
         --rate 1 --rate-seconds 60 --gets 60 --processes 2",
        "reproduce mcdb -q --stores constant",
    ];
    for command in commands {
        let mut started: Child = Command::new(program())
            .args(command.split_whitespace())
            .args(["--dir", &dir])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut measured = Vec::new();
        let is_measuring = is_soon(|| {
            assert!(started.try_wait().expect("it goes on").is_none(), "{command}");
            measured = measured_by(started.id());
            measured.iter().any(|pid| has_file_in(*pid, &dir))
        });
        assert!(is_measuring, "{command}");
        // It says nothing for long then, and does not see that nobody listens.
        let signal = |pid: u32, signal| kill(Pid::from_raw(pid.cast_signed()), signal);
        for pid in &measured {
            signal(*pid, Signal::SIGSTOP).expect("it is stopped");
        }
        signal(started.id(), Signal::SIGKILL).expect("it is killed");
        started.wait().expect("it ends");
        // Nobody may be there who asks how it ended.
        let has_ended = |pid: &u32| state_of(*pid).is_none_or(|(state, _)| state == 'Z');
        let have_ended = is_soon(|| measured.iter().all(has_ended));
        for pid in &measured {
            let _ = signal(*pid, Signal::SIGKILL);
        }
        assert!(have_ended, "{command}");
    }
}
