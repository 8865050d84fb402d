//! Where the lines of the shell come from: a person, with history and completion, or standard
//! input as it is.
//!
//! The history is of this session only: keys and values are not left in a file of their own.

use crate::changing::Changing;
use crate::exit;
use credenza::{Error, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::collections::VecDeque;
use std::io::{self, BufRead, IsTerminal, Read, StdinLock};

/// Records of a hash store looked at for keys that begin as what was typed.
const KEYS_LOOKED_AT: usize = 10_000;
/// No line is longer: what has no end, such as a device, would fill the memory.
pub const LONGEST: usize = 64 << 20;
/// Keys that are shown.
const KEYS_SHOWN: usize = 50;

/// Where lines come from.
pub enum Lines<'s> {
    /// And what was pasted behind the line that was read last.
    Person(Box<Editor<Words<'s>, MemHistory>>, VecDeque<String>),
    Script(StdinLock<'static>),
}

impl<'s> Lines<'s> {
    /// From whom standard input is. `commands` are completed as first words, and keys of `store`
    /// behind them.
    pub fn new(store: &'s Changing, commands: &'static [&'static str]) -> Result<Lines<'s>> {
        let stdin = io::stdin().lock();
        if !stdin.is_terminal() {
            return Ok(Lines::Script(stdin));
        }
        drop(stdin);
        let config = Config::builder().auto_add_history(true);
        let config = config.completion_type(CompletionType::List).build();
        let editor = Editor::with_history(config, MemHistory::new());
        let mut editor = editor.map_err(cannot_read)?;
        editor.set_helper(Some(Words { store, commands }));
        Ok(Lines::Person(Box::new(editor), VecDeque::new()))
    }

    /// Whether a person types, who sees what went wrong and goes on.
    pub fn is_person(&self) -> bool {
        matches!(self, Lines::Person(..))
    }

    /// The next line, or none at the end. Of one that is longer than any may be it is the begin, and longer as well.
    pub fn next(&mut self, prompt: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Lines::Person(editor, pasted) => {
                if let Some(line) = pasted.pop_front() {
                    return Ok(Some(line.into_bytes()));
                }
                match editor.readline(prompt) {
                    Ok(text) => {
                        // Several lines that are pasted are read as one, of whose words some would be commands.
                        let mut lines = text.split('\n').map(str::to_owned);
                        let first = lines.next().unwrap_or_default();
                        pasted.extend(lines);
                        Ok(Some(first.into_bytes()))
                    }
                    // Ctrl-C leaves the line, not the shell.
                    Err(ReadlineError::Interrupted) => Ok(Some(Vec::new())),
                    Err(ReadlineError::Eof) => Ok(None),
                    // Nor does a byte that it cannot show.
                    Err(ReadlineError::Io(e)) if e.kind() == io::ErrorKind::InvalidData => {
                        exit::report(&Error::invalid(
                            "what was typed is not UTF-8, and is passed over: \\xHH stands for any byte",
                        ));
                        Ok(Some(Vec::new()))
                    }
                    Err(e) => Err(cannot_read(e)),
                }
            }
            Lines::Script(stdin) => {
                let mut line = Vec::new();
                let read = stdin.take(LONGEST as u64 + 1).read_until(b'\n', &mut line);
                let read = read.map_err(|e| Error::io("read", e).at("standard input"))?;
                Ok((read > 0).then_some(line))
            }
        }
    }
}

fn cannot_read(error: ReadlineError) -> Error {
    Error::io("read", io::Error::other(error)).at("the terminal")
}

/// What completes words.
pub struct Words<'s> {
    store: &'s Changing,
    commands: &'static [&'static str],
}

impl Words<'_> {
    /// Keys that begin with `start` and can be typed as they are.
    fn keys(&self, start: &str) -> Vec<String> {
        let is_plain = |c: char| c.is_alphanumeric() || "-_.:/@+=,%#~*!$&()[]{}<>|;?^".contains(c);
        // Where the store cannot be read, there is nothing to complete.
        let found = self.store.keys(start.as_bytes(), KEYS_SHOWN, KEYS_LOOKED_AT);
        let texts = found.unwrap_or_default().into_iter().map(String::from_utf8);
        let texts = texts.filter_map(Result::ok).filter(|key| key.chars().all(is_plain));
        let mut keys: Vec<String> = texts.collect();
        keys.sort();
        keys
    }

    /// Where the last word of `line` begins, and what it may become.
    fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        let start = line.rfind([' ', '\t']).map_or(0, |at| at + 1);
        let (before, typed) = line.split_at(start);
        let before: Vec<&str> = before.split_whitespace().collect();
        let candidates = match before.as_slice() {
            [] | ["help"] => {
                let fitting = self.commands.iter().filter(|command| command.starts_with(typed));
                fitting.map(ToString::to_string).collect()
            }
            ["get" | "put" | "delete" | "scan"] => self.keys(typed),
            ["delete", ..] => self.keys(typed),
            _ => Vec::new(),
        };
        (start, candidates)
    }
}

impl Completer for Words<'_> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.candidates(line.get(..at).unwrap_or(line)))
    }
}

impl Hinter for Words<'_> {
    type Hint = String;
}

impl Highlighter for Words<'_> {}
impl Validator for Words<'_> {}
impl Helper for Words<'_> {}

#[cfg(test)]
mod tests {
    use super::Words;
    use crate::changing::Changing;
    use crate::table::TableOf;
    use credenza::btree::BTree;
    use credenza::hash::Hash;

    #[test]
    fn commands_and_keys_are_completed() {
        let hash = Changing::Hash(Hash::in_memory().expect("a store"));
        let store = BTree::in_memory().expect("a store");
        for store in [hash, Changing::BTree(TableOf::main(store))] {
            for key in ["apple", "apricot", "banana", "an apple"] {
                store.put(key.as_bytes(), b"", false).expect("it is put");
            }
            completed_in(&store);
        }
    }

    fn completed_in(store: &Changing) {
        let words = Words { store, commands: &["get", "put", "begin", "help"] };
        let found = |line: &str| words.candidates(line);
        let texts = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found("g"), (0, texts(&["get"])));
        assert_eq!(found("get ap"), (4, texts(&["apple", "apricot"])));
        assert_eq!(found("delete x an"), (9, Vec::new()));
        assert_eq!(found("help b"), (5, texts(&["begin"])));
        assert_eq!(found("put apple a"), (10, Vec::new()));
    }
}
