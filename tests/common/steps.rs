//! The states of a store's files while another process works on it, instruction by instruction: as
//! its death would leave them.

use super::subject::Subject;
use super::sys::{self, Status};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that another process writes, and what was in it.
struct Seen {
    path: PathBuf,
    file: File,
    view: sys::View,
    bytes: Vec<u8>,
}

impl Seen {
    fn new(path: PathBuf) -> Seen {
        let file = File::open(&path).unwrap();
        Seen { view: sys::View::of(&file), path, file, bytes: Vec::new() }
    }

    /// Whether there is something else in it now, or another file of its name.
    fn look(&mut self, is_name_asked: bool) -> bool {
        let inode = |meta: std::io::Result<Metadata>| meta.unwrap().ino();
        if is_name_asked && inode(std::fs::metadata(&self.path)) != inode(self.file.metadata()) {
            *self = Seen { bytes: std::mem::take(&mut self.bytes), ..Seen::new(self.path.clone()) };
        }
        if self.file.metadata().unwrap().len() as usize != self.view.bytes().len() {
            self.view = sys::View::of(&self.file);
        }
        let is_changed = self.bytes != self.view.bytes();
        if is_changed {
            self.bytes = self.view.bytes().to_vec();
        }
        is_changed
    }
}

/// The states of the files while `work` is done to a store, one after the other, as the death of
/// the process that does it would leave them; `None` where tracing is not allowed.
pub fn states_during<S: Subject>(path: &Path, work: impl FnOnce(&S)) -> Option<Vec<Vec<Vec<u8>>>> {
    states_chosen::<S, S>(path, || S::open(path).unwrap(), work, |_, _| true)
}

/// The same with something else that is opened, of those states that are chosen by what the first
/// file was in the last one chosen, and is now; and of the last.
pub fn states_chosen<S: Subject, T>(
    path: &Path,
    open: impl FnOnce() -> T,
    work: impl FnOnce(&T),
    mut is_chosen: impl FnMut(&[u8], &[u8]) -> bool,
) -> Option<Vec<Vec<Vec<u8>>>> {
    let done = path.with_extension("done");
    let mut process = sys::fork(|| {
        let store = open();
        // Where it may not be traced, it says so by ending.
        if sys::be_traced() {
            sys::stop_here();
            work(&store);
            File::create(&done).unwrap();
            sys::stop_here();
        }
    });
    let is_stopped = |status| matches!(status, Status::Stopped(signal) if signal == sys::SIGSTOP);
    if !is_stopped(process.wait()) {
        return None;
    }
    let mut states: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut files: Vec<Seen> = S::files(path).into_iter().map(Seen::new).collect();
    for steps in 0u64.. {
        // An index that takes the place of this one is complete before it bears the name.
        let mut is_changed = false;
        for file in &mut files {
            is_changed |= file.look(steps % 256 == 0);
        }
        if is_changed
            && states.last().is_none_or(|last: &Vec<Vec<u8>>| is_chosen(&last[0], &files[0].bytes))
        {
            states.push(files.iter().map(|file| file.bytes.clone()).collect());
        }
        match process.step() {
            // Others may stop it, too, who pause all that runs here: it goes on then.
            Status::Stopped(signal) if signal == sys::SIGSTOP && done.exists() => break,
            Status::Stopped(signal) if signal == sys::SIGSTOP => println!("stopped at {steps}"),
            Status::Stopped(_) => {}
            other => panic!("the writer came to an end: {other:?}"),
        }
    }
    std::fs::remove_file(done).unwrap();
    for file in &mut files {
        file.look(true);
    }
    states.push(files.into_iter().map(|file| file.bytes).collect());
    for state in &mut states {
        S::bury(&mut state[0], process.pid());
    }
    Some(states)
}
