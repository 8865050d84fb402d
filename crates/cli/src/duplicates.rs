//! What becomes of records whose key has been seen: the policies of the cdb tools.
//!
//! All but `keep` hold the keys (not the values) of the input in memory; of `last` the records wait as
//! well, since only the end of the input shows which stay; and of `error` into a hash store that is there,
//! which takes what it is given for good.

use crate::input::Refusal;
use crate::progress::Bar;
use crate::seen::Seen;
use crate::spool::Spool;
use crate::target::Target;
use clap::ValueEnum;
use credenza::{Error, Result};
use std::path::Path;

/// What to do with a record whose key has come before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// Keep every record, in input order (cdb's own way); not where a key has one value: hash, and btree
    /// but for tables made with --duplicates
    #[default]
    Keep,
    /// Keep the first record of a key (tinycdb -u)
    First,
    /// Keep the last record of a key (tinycdb -r); so in a hash or btree store unless said otherwise
    Last,
    /// Stop with an error and leave the old store as it is (tinycdb -e)
    Error,
}

/// Passes records on to a target as the policy says.
pub struct Filter {
    target: Target,
    count: u64,
    how: How,
}

enum How {
    Keep,
    First(Seen<()>),
    /// And the records, where the target cannot give them back.
    Error(Seen<()>, Option<Spool>),
    /// The records, and which of them is the last of each key.
    Last(Spool, Seen<u64>),
}

impl Filter {
    /// A filter before `target`, which will appear at `path`.
    pub fn new(policy: Policy, target: Target, path: &Path) -> Filter {
        let how = match policy {
            Policy::Keep => How::Keep,
            Policy::First => How::First(Seen::new()),
            Policy::Error => {
                let spool = target.is_final().then(|| Spool::beside(path));
                How::Error(Seen::new(), spool)
            }
            Policy::Last => How::Last(Spool::beside(path), Seen::new()),
        };
        Filter { target, count: 0, how }
    }

    /// Takes the next record of the input, in which the key is written as `text`.
    pub fn add(&mut self, key: &[u8], text: &[u8], value: &[u8]) -> Result<(), Refusal> {
        match &mut self.how {
            How::Keep => {}
            How::First(seen) => {
                if !seen.put(key, ())? {
                    return Ok(());
                }
            }
            How::Error(seen, spool) => {
                if !seen.put(key, ())? {
                    return Err(repeated(text));
                }
                if let Some(spool) = spool {
                    self.target.check(key, value)?;
                    spool.add(key, value)?;
                    return Ok(());
                }
            }
            How::Last(spool, last) => {
                self.target.check(key, value)?;
                let number = spool.add(key, value)?;
                last.put(key, number)?;
                return Ok(());
            }
        }
        self.count += 1;
        Ok(self.target.add(key, value)?)
    }

    /// Has `publish` make the store visible when all records are in it, and say how many of them it had already; returns how
    /// many records it took.
    pub fn finish(mut self, bar: &Bar, publish: impl FnOnce(Target) -> Result<u64>) -> Result<u64> {
        let (spool, last) = match self.how {
            How::Last(spool, last) => (Some(spool), Some(last)),
            How::Error(_, spool) => (spool, None),
            How::Keep | How::First(_) => (None, None),
        };
        if let Some(spool) = spool {
            let (target, count) = (&mut self.target, &mut self.count);
            spool.drain("applying", bar, |number, key, value| {
                if last.as_ref().is_some_and(|last| last.get(key) != Some(&number)) {
                    return Ok(());
                }
                *count += 1;
                target.add(key, value)
            })?;
        }
        let replaced = self.target.replaced()?;
        let already_there = publish(self.target)?;
        Ok(self.count - replaced - already_there)
    }
}

#[cold]
fn repeated(key: &[u8]) -> Refusal {
    let key = crate::output::shown_key(key);
    Refusal::Record(Error::invalid(format!(
        "key '{key}' comes a second time and --duplicates is error; nothing was published"
    )))
}
