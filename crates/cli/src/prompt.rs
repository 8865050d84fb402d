//! Where the lines of the shell come from: a person, with history and completion, or standard
//! input as it is.
//!
//! The history is of this session only: keys and values are not left in a file of their own.

use crate::changing::Changing;
use crate::exit;
use crate::input;
use crate::output::escaped;
use crate::words;
use credenza::{Error, Result};
use rustyline::completion::{Completer, Pair};
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
            input::check_given()?;
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
    /// Keys that begin as what was `typed` stands for, as they can be typed. If there are more than these, so does
    /// what stands for the others: it is no key, lest what these have in common be taken for that of all.
    fn keys(&self, typed: &str) -> Vec<Pair> {
        let Ok(words) = words::split(typed.as_bytes()) else { return Vec::new() };
        let start = words.first().map_or(&[][..], Vec::as_slice);
        // Where the store cannot be read, there is nothing to complete.
        let found = self.store.keys(start, KEYS_SHOWN + 1, KEYS_LOOKED_AT);
        let mut keys: Vec<String> = found.unwrap_or_default().iter().map(|k| word_of(k)).collect();
        let are_all = keys.len() <= KEYS_SHOWN && self.are_all_looked_at();
        keys.truncate(KEYS_SHOWN);
        keys.sort();
        let mut candidates: Vec<Pair> = keys.iter().map(|key| candidate(key)).collect();
        if !are_all && !candidates.is_empty() {
            candidates.push(Pair { display: "...".into(), replacement: typed.into() });
        }
        candidates
    }

    /// Whether keys are searched for among all records.
    fn are_all_looked_at(&self) -> bool {
        match self.store {
            Changing::Hash(store) => store.len().is_ok_and(|len| len <= KEYS_LOOKED_AT as u64),
            // They are in order.
            Changing::BTree(_) => true,
        }
    }

    /// Where the last word of `line` begins, and what it may become.
    fn candidates(&self, line: &str) -> (usize, Vec<Pair>) {
        let Some(start) = last_word(line) else { return (line.len(), Vec::new()) };
        let (before, typed) = line.split_at(start);
        let before: Vec<&str> = before.split_whitespace().collect();
        let candidates = match before.as_slice() {
            [] | ["help"] => {
                let fitting = self.commands.iter().filter(|command| command.starts_with(typed));
                fitting.map(|command| candidate(command)).collect()
            }
            ["get" | "put" | "delete" | "scan"] => self.keys(typed),
            ["delete", ..] => self.keys(typed),
            _ => Vec::new(),
        };
        (start, candidates)
    }
}

fn candidate(word: &str) -> Pair {
    Pair { display: word.to_owned(), replacement: word.to_owned() }
}

/// A key as a word that stands for it: with backslashes and not in quotes, so that it begins as others do.
fn word_of(key: &[u8]) -> String {
    match key {
        [] => "\"\"".to_owned(),
        key => escaped(key).replace('"', "\\\"").replace(' ', "\\ "),
    }
}

/// Where the last word of a line begins; nowhere if it is in quotes.
fn last_word(line: &str) -> Option<usize> {
    let (mut start, mut is_escaped, mut is_quoted) = (0, false, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ' ' | '\t' if !is_quoted => start = at + 1,
            _ => {}
        }
    }
    (!is_quoted).then_some(start)
}

impl Completer for Words<'_> {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
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
            for key in [&b"apple"[..], b"apricot", b"banana", b"an apple", b"q\"\\\n\xff", b""] {
                store.put(key, b"", false).expect("it is put");
            }
            completed_in(&store);
        }
    }

    /// What a line may become, as it can be typed.
    fn texts(store: &Changing, line: &str) -> (usize, Vec<String>) {
        let words = Words { store, commands: &["get", "put", "begin", "help"] };
        let (at, found) = words.candidates(line);
        (at, found.into_iter().map(|pair| pair.replacement).collect())
    }

    fn completed_in(store: &Changing) {
        for (line, at, expected) in [
            ("g", 0, &["get"][..]),
            ("get ap", 4, &["apple", "apricot"]),
            ("delete x an", 9, &["an\\ apple"]),
            ("help b", 5, &["begin"]),
            ("put apple a", 10, &[]),
            // In words as the shell reads them: those that were left out did not count for what all have in common.
            ("get a", 4, &["an\\ apple", "apple", "apricot"]),
            ("get an\\ a", 4, &["an\\ apple"]),
            ("get \\x61n", 4, &["an\\ apple"]),
            ("get q", 4, &["q\\\"\\\\\\n\\xff"]),
            ("get an\\", 4, &[]),
            ("get \"an a", 9, &[]),
        ] {
            let expected = expected.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(texts(store, line), (at, expected), "{line}");
        }
        let (_, all) = texts(store, "get ");
        assert!(all.contains(&"\"\"".to_owned()) && all.len() == 6, "{all:?}");
    }

    /// The first fifty may begin with more than all do.
    #[test]
    fn of_more_keys_than_are_shown_it_is_told() {
        let hash = Changing::Hash(Hash::in_memory().expect("a store"));
        let btree = Changing::BTree(TableOf::main(BTree::in_memory().expect("a store")));
        for store in [hash, btree] {
            for n in 0..50 {
                store.put(format!("key 1{n}").as_bytes(), b"", false).expect("it is put");
            }
            assert_eq!(texts(&store, "get k").1.len(), 50);
            store.put(b"key 2", b"", false).expect("it is put");
            let (_, found) = texts(&store, "get k");
            assert_eq!(found.len(), 51);
            let common = rustyline::completion::longest_common_prefix(&found);
            assert_eq!(common, Some("k"));
        }
    }
}
