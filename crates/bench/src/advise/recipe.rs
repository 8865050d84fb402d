//! How to make the store that is advised, and how to use it: a command line, and a few lines of Rust.

use super::candidates::Candidate;
use super::class::Class;
use super::look::{Facts, Subject};
use super::usage::Usage;
use crate::shell::quoted_path;
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
const CONSTANT_MANY: &str = include_str!("recipe/constant_many.rs");
const COPY: &str = include_str!("recipe/copy.rs");
const COPY_MANY: &str = include_str!("recipe/copy_many.rs");
const HASH: &str = include_str!("recipe/hash.rs");
const HASH_MANY: &str = include_str!("recipe/hash_many.rs");
const BTREE: &str = include_str!("recipe/btree.rs");
const BTREE_MANY: &str = include_str!("recipe/btree_many.rs");
const BTREE_RANGE: &str = include_str!("recipe/btree_range.rs");
const BTREE_MANY_RANGE: &str = include_str!("recipe/btree_many_range.rs");
const NUMBERS: &str = include_str!("recipe/numbers.rs");
const NUMBERS_MANY: &str = include_str!("recipe/numbers_many.rs");
const HASH_READ: &str = include_str!("recipe/hash_read.rs");
const HASH_MANY_READ: &str = include_str!("recipe/hash_many_read.rs");
const BTREE_READ: &str = include_str!("recipe/btree_read.rs");
const BTREE_MANY_READ: &str = include_str!("recipe/btree_many_read.rs");
const BTREE_RANGE_READ: &str = include_str!("recipe/btree_range_read.rs");
const BTREE_MANY_RANGE_READ: &str = include_str!("recipe/btree_many_range_read.rs");
const NUMBERS_READ: &str = include_str!("recipe/numbers_read.rs");
const NUMBERS_MANY_READ: &str = include_str!("recipe/numbers_many_read.rs");
/// What stands in these for the name of the store.
const NAME: &str = "my.store";
/// The table with keys that are numbers.
const TABLE: &str = "numbers";

/// How to make and use this candidate.
pub(super) fn of(candidate: &Candidate, subject: &Subject, facts: &Facts, usage: &Usage) -> Recipe {
    let rust = piece(candidate, usage);
    let class = candidate.durability.unwrap_or_default();
    let mut rust = durable(rust, class);
    if let Some(keys) = candidate.form.keys {
        rust = rust.replace("u32", keys);
    }
    Recipe { commands: commands(candidate, subject, facts), rust }
}

/// The piece of a program with what is done in this use.
fn piece(candidate: &Candidate, usage: &Usage) -> &'static str {
    let is_copy = candidate.setting == Some("copy=on");
    let of = |single, many| if usage.batches { many } else { single };
    let is_read = usage.writes == 0.0;
    match (&*candidate.store, candidate.form.keys) {
        ("constant", _) if is_copy => of(COPY, COPY_MANY),
        ("constant", _) => of(CONSTANT, CONSTANT_MANY),
        ("hash", _) if is_read => of(HASH_READ, HASH_MANY_READ),
        ("hash", _) => of(HASH, HASH_MANY),
        ("btree", None) if usage.ranges > 0.0 && is_read => {
            of(BTREE_RANGE_READ, BTREE_MANY_RANGE_READ)
        }
        ("btree", None) if usage.ranges > 0.0 => of(BTREE_RANGE, BTREE_MANY_RANGE),
        ("btree", None) if is_read => of(BTREE_READ, BTREE_MANY_READ),
        ("btree", None) => of(BTREE, BTREE_MANY),
        ("btree", Some(_)) if is_read => of(NUMBERS_READ, NUMBERS_MANY_READ),
        ("btree", Some(_)) => of(NUMBERS, NUMBERS_MANY),
        _ => "",
    }
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
    let file = quoted_path(&facts.path);
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
        let single = [HASH, BTREE, BTREE_RANGE, NUMBERS];
        for rust in
            single.into_iter().chain([HASH_MANY, BTREE_MANY, BTREE_MANY_RANGE, NUMBERS_MANY])
        {
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

    #[test]
    fn what_is_printed_does_what_the_use_does() {
        let usage = |batches, ranges| Usage { batches, ranges, ..Usage::only("get") };
        for store in ["constant", "hash", "btree"] {
            for keys in [None, Some("u64")].into_iter().filter(|k| k.is_none() || store == "btree")
            {
                let mut candidate = Candidate::plain(store);
                candidate.form.keys = keys;
                for setting in [None, Some("copy=on").filter(|_| store == "constant")] {
                    candidate.setting = setting;
                    let many = piece(&candidate, &usage(true, 0.0));
                    assert!(many.contains(".get_many(") && !many.contains("scan_range"), "{many}");
                    let single = piece(&candidate, &usage(false, 0.0));
                    assert!(single.contains(".get") && !single.contains("get_many"), "{single}");
                    assert!(!single.contains("scan_range"), "{single}");
                    assert_eq!(many.contains("Access::Memory"), setting.is_some());
                }
            }
        }
        for batches in [false, true] {
            let both = piece(&Candidate::plain("btree"), &usage(batches, 0.2));
            assert!(both.contains("scan_range") && both.contains("get_many") == batches, "{both}");
        }
    }

    /// Danger: who copies what is printed for a use without changes has a store changed by lookups.
    #[test]
    fn where_nothing_changes_what_is_printed_changes_nothing() {
        let usage =
            |writes, batches, ranges| Usage { writes, batches, ranges, ..Usage::only("get") };
        for (store, keys) in [("hash", None), ("btree", None), ("btree", Some("u64"))] {
            let mut candidate = Candidate::plain(store);
            candidate.form.keys = keys;
            for (batches, ranges) in [(false, 0.0), (true, 0.0), (false, 0.2), (true, 0.2)] {
                let of = |writes| piece(&candidate, &usage(writes, batches, ranges));
                assert!(of(0.1).contains("insert(") && of(0.1).contains("fn change("));
                let read = of(0.0);
                assert!(read.contains("read_only(true)") && read.contains("fn lookup("), "{read}");
                assert!(!read.contains("insert") && !read.contains("urability"), "{read}");
            }
        }
    }

    /// What is printed is compiled here, and does what it says.
    mod printed {
        pub(super) mod constant {
            include!("recipe/constant.rs");
        }
        pub(super) mod constant_many {
            include!("recipe/constant_many.rs");
        }
        pub(super) mod copy {
            include!("recipe/copy.rs");
        }
        pub(super) mod copy_many {
            include!("recipe/copy_many.rs");
        }
        pub(super) mod hash {
            include!("recipe/hash.rs");
        }
        pub(super) mod hash_many {
            include!("recipe/hash_many.rs");
        }
        pub(super) mod btree {
            include!("recipe/btree.rs");
        }
        pub(super) mod btree_many {
            include!("recipe/btree_many.rs");
        }
        pub(super) mod btree_range {
            include!("recipe/btree_range.rs");
        }
        pub(super) mod btree_many_range {
            include!("recipe/btree_many_range.rs");
        }
        pub(super) mod numbers {
            include!("recipe/numbers.rs");
        }
        pub(super) mod numbers_many {
            include!("recipe/numbers_many.rs");
        }
        pub(super) mod hash_read {
            include!("recipe/hash_read.rs");
        }
        pub(super) mod hash_many_read {
            include!("recipe/hash_many_read.rs");
        }
        pub(super) mod btree_read {
            include!("recipe/btree_read.rs");
        }
        pub(super) mod btree_many_read {
            include!("recipe/btree_many_read.rs");
        }
        pub(super) mod btree_range_read {
            include!("recipe/btree_range_read.rs");
        }
        pub(super) mod btree_many_range_read {
            include!("recipe/btree_many_range_read.rs");
        }
        pub(super) mod numbers_read {
            include!("recipe/numbers_read.rs");
        }
        pub(super) mod numbers_many_read {
            include!("recipe/numbers_many_read.rs");
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
        assert_eq!(found.as_deref(), Some(&b"v"[..]));
        let found = printed::btree_range::change(&path("br"), b"k", b"v").unwrap();
        assert_eq!(found, [(b"k".to_vec(), b"v".to_vec())]);
        let found = printed::numbers::change(&path("n"), 7, b"v").unwrap();
        assert_eq!(found.as_deref(), Some(&b"v"[..]));
        for found in [
            printed::hash_read::lookup(&path("h"), b"k").unwrap(),
            printed::btree_read::lookup(&path("b"), b"k").unwrap(),
            printed::numbers_read::lookup(&path("n"), 7).unwrap(),
        ] {
            assert_eq!(found.as_deref(), Some(&b"v"[..]));
        }
        let found = printed::btree_range_read::lookup(&path("br"), b"k").unwrap();
        assert_eq!(found, [(b"k".to_vec(), b"v".to_vec())]);
    }

    #[test]
    fn what_is_printed_for_batches_works() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut builder = credenza::constant::Builder::create(path("c")).unwrap();
        builder.add(b"k", b"v").unwrap();
        builder.finish().unwrap();
        let (keys, wanted) = ([&b"k"[..], b"none"], [Some(b"v".to_vec()), None]);
        assert_eq!(printed::constant_many::lookup(&path("c"), &keys).unwrap(), wanted);
        assert_eq!(printed::copy_many::lookup(&path("c"), &keys).unwrap(), wanted);
        assert_eq!(printed::hash_many::change(&path("h"), &keys, b"v").unwrap(), wanted);
        assert_eq!(printed::btree_many::change(&path("b"), &keys, b"v").unwrap(), wanted);
        let found = printed::btree_many_range::change(&path("br"), &keys, b"v").unwrap();
        assert_eq!((&found[..2], &found[2..]), (&wanted[..], &wanted[..1]));
        assert_eq!(printed::numbers_many::change(&path("n"), &[7, 8], b"v").unwrap(), wanted);
        assert_eq!(printed::hash_many_read::lookup(&path("h"), &keys).unwrap(), wanted);
        assert_eq!(printed::btree_many_read::lookup(&path("b"), &keys).unwrap(), wanted);
        assert_eq!(printed::btree_many_range_read::lookup(&path("br"), &keys).unwrap(), found);
        assert_eq!(printed::numbers_many_read::lookup(&path("n"), &[7, 8]).unwrap(), wanted);
    }
}
