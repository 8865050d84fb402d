//! How to make the store that is advised, and how to use it: a command line, and a few lines of Rust.

use super::candidates::Candidate;
use super::class::Class;
use super::look::{Facts, Subject};
use crate::shell::quoted;
use serde::Serialize;

/// What to do.
#[derive(Serialize)]
pub(super) struct Recipe {
    /// Lines for a shell.
    pub(super) commands: Vec<String>,
    /// A piece of a program; empty for stores of others.
    pub(super) rust: String,
}

const CONSTANT: &str = include_str!("recipe/constant.rs");
const COPY: &str = include_str!("recipe/copy.rs");
const HASH: &str = include_str!("recipe/hash.rs");
const BTREE: &str = include_str!("recipe/btree.rs");
const NUMBERS: &str = include_str!("recipe/numbers.rs");
/// What stands in these for the name of the store.
const NAME: &str = "my.store";
/// The table with keys that are numbers.
const TABLE: &str = "numbers";

/// How to make and use this candidate.
pub(super) fn of(candidate: &Candidate, subject: &Subject, facts: &Facts) -> Recipe {
    let rust = match (&*candidate.store, candidate.form.keys) {
        ("constant", _) if candidate.setting == Some("copy=on") => COPY,
        ("constant", _) => CONSTANT,
        ("hash", _) => HASH,
        ("btree", None) => BTREE,
        ("btree", Some(_)) => NUMBERS,
        _ => "",
    };
    let class = candidate.durability.unwrap_or_default();
    let mut rust = durable(rust, class);
    if let Some(keys) = candidate.form.keys {
        rust = rust.replace("u32", keys);
    }
    Recipe { commands: commands(candidate, subject, facts), rust }
}

/// The piece of a program with changes of this class.
fn durable(rust: &str, class: Class) -> String {
    let lines = rust.lines().filter_map(|line| match class {
        Class::Every(changes) => Some(line.replace(" N ", &format!(" {changes} "))),
        _ if line.contains(".sync()?") => None,
        Class::Sync => Some(line.replace("Buffered", "Sync")),
        Class::Buffered => Some(line.to_owned()),
    });
    lines.map(|line| line + "\n").collect()
}

fn commands(candidate: &Candidate, subject: &Subject, facts: &Facts) -> Vec<String> {
    let store = &*candidate.store;
    if !super::candidates::OWN.contains(&store) {
        return Vec::new();
    }
    let Subject::Records { named, .. } = subject else {
        let engine = if store == "btree" { " --engine btree" } else { "" };
        return vec![match store {
            "constant" => format!("credenza load {NAME} RECORDS"),
            _ => format!("credenza create {NAME}{engine}"),
        }];
    };
    let file = quoted(&facts.source);
    let from = named.map_or_else(String::new, |format| format!(" --from {format}"));
    let to = if store == "constant" { String::new() } else { format!(" --to {store}") };
    if candidate.form.keys.is_some() {
        let keys = candidate.form.keys.unwrap_or_default();
        return vec![
            format!("credenza create {NAME} --engine btree"),
            format!("credenza table create {NAME} {TABLE} --keys {keys}"),
            format!("credenza load {NAME} {file}{from} --table {TABLE}"),
        ];
    }
    vec![format!("credenza load {NAME} {file}{from}{to}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_of_the_class_that_is_advised() {
        for rust in [HASH, BTREE, NUMBERS] {
            let of = |class| durable(rust, class);
            let [buffered, every, sync] = [Class::Buffered, Class::Every(70), Class::Sync].map(of);
            assert!(
                buffered.contains("Durability::Buffered") && !buffered.contains("sync"),
                "{buffered}"
            );
            assert!(
                every.contains("Durability::Buffered") && every.contains("after 70 changes"),
                "{every}"
            );
            assert!(sync.contains("Durability::Sync") && !sync.contains(".sync()"), "{sync}");
            assert!(!sync.contains("Buffered"), "{sync}");
        }
    }

    /// What is printed is compiled here, and does what it says.
    mod printed {
        pub(super) mod constant {
            include!("recipe/constant.rs");
        }
        pub(super) mod copy {
            include!("recipe/copy.rs");
        }
        pub(super) mod hash {
            include!("recipe/hash.rs");
        }
        pub(super) mod btree {
            include!("recipe/btree.rs");
        }
        pub(super) mod numbers {
            include!("recipe/numbers.rs");
        }
    }

    #[test]
    fn what_is_printed_works() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut builder = credenza::constant::Builder::create(path("c")).unwrap();
        builder.add(b"k", b"v").unwrap();
        builder.finish().unwrap();
        let found = printed::constant::lookup(&path("c"), b"k").unwrap();
        assert_eq!(found.as_deref(), Some(&b"v"[..]));
        let found = printed::copy::lookup(&path("c"), b"k").unwrap();
        assert_eq!(found.as_deref(), Some(&b"v"[..]));
        let found = printed::hash::change(&path("h"), b"k", b"v").unwrap();
        assert_eq!(found.as_deref(), Some(&b"v"[..]));
        let found = printed::btree::change(&path("b"), b"k", b"v").unwrap();
        assert_eq!(found, [(b"k".to_vec(), b"v".to_vec())]);
        let found = printed::numbers::change(&path("n"), 7, b"v").unwrap();
        assert_eq!(found.as_deref(), Some(&b"v"[..]));
    }
}
