//! Who takes part: a process that was started, or a thread of this one. Either is told to go and to
//! stop, and says a [`Word`] when it has got so far.

use super::super::process::{self, Program};
use super::super::protocol::Spec;
use super::{Done, Part, Together, Word};
use crate::driver::kernel;
use credenza::{Error, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// One that takes part, as seen from who conducts all of them.
pub(super) trait Member {
    fn name(&self) -> &str;

    /// Tells it to go, or to stop. One that is gone says so when it is listened to.
    fn tell(&mut self);

    /// Waits for its next word, which is not [`Word::Failed`].
    fn hear(&mut self) -> Result<Word>;

    /// Waits for the word that `wanted` takes.
    fn expect<T>(&mut self, wanted: impl Fn(Word) -> Option<T>) -> Result<T> {
        let word = self.hear()?;
        let said = format!("{word:?}");
        wanted(word)
            .ok_or_else(|| Error::invalid(format!("{} spoke out of turn: {said}", self.name())))
    }

    fn failed(&self, what: &str) -> Error {
        Error::invalid(format!("{}: {what}", self.name()))
    }
}

/// The way from one that takes part to who conducts.
pub(in super::super) trait Coordinator {
    fn say(&mut self, word: Word) -> Result<()>;
    /// Waits until it says something.
    fn wait(&mut self) -> Result<()>;
    /// Whether it has said something.
    fn has_spoken(&mut self) -> Result<bool>;

    /// Says that it is ready, and waits to be let go.
    fn ready(&mut self) -> Result<()> {
        self.say(Word::Ready)?;
        self.wait()
    }

    /// Says that its clock may stop, and waits until those of all others have.
    fn enough(&mut self) -> Result<()> {
        self.say(Word::Enough)?;
        self.wait()
    }

    /// Says how it ended.
    fn end(&mut self, done: Result<Done>) -> Result<()> {
        self.say(match done {
            Ok(done) => Word::Done(Box::new(done)),
            Err(e) => Word::Failed(e.to_string()),
        })
    }
}

/// A process that was started; it is ended when this is dropped.
pub(super) struct Process {
    name: String,
    folder: PathBuf,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts one that does `part`, as number `number` of all.
    pub(super) fn start(spec: &Spec, name: String, number: usize, part: Part) -> Result<Process> {
        let together = Together { part: Some(part), ..spec.together.clone() };
        let spec = Spec { cpu: spec.together.cpu(spec.cpu, number), together, ..spec.clone() };
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
        let folder = spec.folder.clone();
        let mut member = Process { name, folder, child, input, output: BufReader::new(output) };
        let text = serde_json::to_string(&spec).map_err(|e| Error::invalid(e.to_string()))?;
        member.write(&text);
        Ok(member)
    }

    fn write(&mut self, line: &str) {
        // One that is gone says so by the end of its output.
        let _ = self.input.write_all(format!("{line}\n").as_bytes());
    }
}

impl Member for Process {
    fn name(&self) -> &str {
        &self.name
    }

    fn tell(&mut self) {
        self.write("on");
    }

    fn hear(&mut self) -> Result<Word> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = self.output.read_until(b'\n', &mut line);
            if read.map_err(|e| Error::io("listen to a process", e))? == 0 {
                let status = self.child.wait().map_err(|e| Error::io("wait for a process", e))?;
                return Err(self.failed(&process::in_words(status, Some(&self.folder))));
            }
            match serde_json::from_slice(&line) {
                Ok(Word::Failed(what)) => return Err(self.failed(&what)),
                Ok(word) => return Ok(word),
                // Lines that are no words are a library's own chatter.
                Err(_) => {}
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended by itself is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Standard input and output of a process that was started.
pub(in super::super) struct Pipes;

impl Coordinator for Pipes {
    fn say(&mut self, word: Word) -> Result<()> {
        let line = serde_json::to_string(&word).map_err(|e| Error::invalid(e.to_string()))?;
        // In a line of its own, even where a library has begun one.
        writeln!(std::io::stdout(), "\n{line}").map_err(|e| Error::io("write to the parent", e))
    }

    fn wait(&mut self) -> Result<()> {
        let input = std::io::stdin().as_fd().try_clone_to_owned();
        let input = input.map_err(|e| Error::io("open again", e))?;
        wait_for_line(&File::from(input))
    }

    fn has_spoken(&mut self) -> Result<bool> {
        kernel::has_input()
    }
}

/// Waits for a line, and reads nothing that comes behind it: what was read ahead is no input any more to the kernel, which
/// is asked whether there is some. One that was told to go and to stop before it ran went on for ever.
fn wait_for_line(mut input: impl Read) -> Result<()> {
    let mut byte = [0];
    while byte != *b"\n" {
        input.read_exact(&mut byte).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => Error::invalid("the process that started this one is gone"),
            _ => Error::io("read input", e),
        })?;
    }
    Ok(())
}

/// A thread, from the outside. When this is dropped, the thread hears nobody any more, and ends.
pub(super) struct Thread {
    name: String,
    commands: Sender<()>,
    words: Receiver<Word>,
}

/// The same from within the thread.
pub(super) struct Channel {
    commands: Receiver<()>,
    words: Sender<Word>,
    /// Whether a command was received that nobody has waited for yet.
    is_told: bool,
}

/// The two ends for a thread of this name.
pub(super) fn thread(name: String) -> (Thread, Channel) {
    let ((tell, commands), (say, words)) = (channel(), channel());
    let member = Thread { name, commands: tell, words };
    (member, Channel { commands, words: say, is_told: false })
}

impl Member for Thread {
    fn name(&self) -> &str {
        &self.name
    }

    fn tell(&mut self) {
        // As for a process.
        let _ = self.commands.send(());
    }

    fn hear(&mut self) -> Result<Word> {
        match self.words.recv() {
            Ok(Word::Failed(what)) => Err(self.failed(&what)),
            Ok(word) => Ok(word),
            Err(_) => Err(self.failed("it ended without a word")),
        }
    }
}

fn alone() -> Error {
    Error::invalid("another thread has failed")
}

impl Coordinator for Channel {
    fn say(&mut self, word: Word) -> Result<()> {
        self.words.send(word).map_err(|_| alone())
    }

    fn wait(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_told) {
            return Ok(());
        }
        self.commands.recv().map_err(|_| alone())
    }

    fn has_spoken(&mut self) -> Result<bool> {
        if !self.is_told {
            match self.commands.try_recv() {
                Ok(()) => self.is_told = true,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Err(alone()),
            }
        }
        Ok(self.is_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Danger: a writer that is told to go and to stop at once, on a busy machine, sees the first alone.
    #[test]
    fn what_comes_behind_a_line_stays_to_be_seen() {
        let (mut input, mut output) = std::io::pipe().unwrap();
        output.write_all(b"on\non\n").unwrap();
        wait_for_line(&input).unwrap();
        let mut rest = [0; 3];
        input.read_exact(&mut rest).unwrap();
        assert_eq!(rest, *b"on\n");
        output.write_all(b"o").unwrap();
        drop(output);
        assert!(wait_for_line(&input).unwrap_err().to_string().contains("is gone"));
    }

    /// As where a library of that process writes to the same place.
    #[test]
    fn a_word_is_heard_behind_chatter_without_an_end_of_line() {
        let script = "printf '{\\n\\377junk'; printf '\\n%s\\n' '\"Ready\"'";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let name = "a script".to_owned();
        let folder = std::env::temp_dir();
        let mut member = Process { name, folder, child, input, output: BufReader::new(output) };
        assert!(matches!(member.hear(), Ok(Word::Ready)));
        assert!(member.hear().unwrap_err().to_string().contains("a script: "));
    }
}
