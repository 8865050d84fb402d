//! Which stores can do the work, with which settings; and why others cannot.

use super::class::Class;
use super::look::Facts;
use super::usage::Usage;
use crate::args::library_of;
use crate::driver::{Changes, Driver, ForDriver, Sharing, Store, Writer, tried, with_driver};
use crate::report::text;
use crate::settings::Choices;
use credenza::Result;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Our own stores: who asks for no others chooses among these.
pub(super) const OWN: [&str; 3] = ["constant", "hash", "btree"];

/// A store with its settings.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Candidate {
    pub(super) store: String,
    #[serde(skip)]
    pub(super) library: Option<PathBuf>,
    /// What the store is given.
    #[serde(flatten)]
    pub(super) form: Form,
    /// What the engine is set to, as the bench's `--set` has it; `None` where it is as it always is.
    pub(super) setting: Option<&'static str>,
    /// `None` where nothing is changed.
    pub(super) durability: Option<Class>,
    /// Whether each change is a transaction of its own.
    #[serde(skip)]
    pub(super) commits: bool,
}

/// In which form the records are given to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub(super) struct Form {
    /// Keys as numbers of this type.
    pub(super) keys: Option<&'static str>,
    /// Put into the order of their keys before.
    pub(super) sorted_first: bool,
}

impl Candidate {
    /// Its name, with the settings that tell it from others of the same store.
    pub(super) fn name(&self) -> String {
        let keys = self.form.keys.map(|keys| format!(", {keys} keys"));
        let setting = self.setting.map(|setting| format!(", {setting}"));
        format!("{}{}{}", self.store, keys.unwrap_or_default(), setting.unwrap_or_default())
    }

    /// Whether it is one of ours.
    pub(super) fn is_own(&self) -> bool {
        OWN.contains(&&*self.store)
    }

    /// What it is set to, for a measured process.
    pub(super) fn choices(&self) -> Result<Choices> {
        let mut choices = Choices::default();
        self.setting.map_or(Ok(()), |setting| choices.set(&format!("{}.{setting}", self.store)))?;
        Ok(choices)
    }

    /// One that is only read, without settings.
    #[cfg(test)]
    pub(super) fn plain(store: &str) -> Candidate {
        Candidate {
            store: store.to_owned(),
            library: None,
            form: Form::default(),
            setting: None,
            durability: None,
            commits: false,
        }
    }
}

impl Form {
    /// Bytes of keys and values of so many records that are like those of the data.
    pub(super) fn bytes(self, facts: &Facts, records: u64) -> u64 {
        let keys = match self.keys {
            Some("u32") => 4 * facts.records,
            Some(_) => 8 * facts.records,
            None => facts.key_bytes,
        };
        let all = (keys + facts.value_bytes) as f64;
        (all * records as f64 / facts.records.max(1) as f64) as u64
    }
}

/// A store that cannot do the work, or is not here.
#[derive(Debug, Serialize)]
pub(super) struct RuledOut {
    pub(super) store: String,
    pub(super) why: String,
    /// Whether its library is missing or cannot be used: somebody named the store, so that it is missed.
    pub(super) is_missing: bool,
}

impl RuledOut {
    /// One that is here.
    pub(super) fn unfit(store: String, why: String) -> RuledOut {
        RuledOut { store, why, is_missing: false }
    }
}

/// What a kind of store can do.
#[derive(Clone, Copy)]
struct Abilities {
    changes: bool,
    is_ordered: bool,
    syncs: bool,
    sharing: Sharing,
    /// Whether a change can outlive the process when its call has returned.
    is_kept: bool,
    commits: bool,
}

struct Look<'a>(Option<&'a Path>);

impl ForDriver for Look<'_> {
    type Output = Result<Abilities>;

    fn run<D: Driver>(self) -> Result<Abilities> {
        tried::load::<D>(self.0)?;
        Ok(Abilities {
            changes: <D::Writer<'_> as Writer>::IS_POSSIBLE,
            is_ordered: <D::Store<'_> as Store>::IS_ORDERED,
            syncs: D::DURABLE.is_some(),
            sharing: D::SHARING,
            is_kept: D::COMMITS || D::CHANGES == Changes::Buffered,
            commits: D::COMMITS,
        })
    }
}

/// Those of these stores that can do the work, each with its settings; and the others.
pub(super) fn find(
    stores: &[String],
    libraries: &[String],
    facts: &Facts,
    usage: &Usage,
) -> (Vec<Candidate>, Vec<RuledOut>) {
    let (mut candidates, mut ruled_out) = (Vec::new(), Vec::new());
    for store in stores {
        let library = library_of(libraries, store);
        let looked = match with_driver(store, Look(library.as_deref())) {
            Some(Ok(abilities)) => Ok(abilities),
            Some(Err(e)) => Err(format!("it is not here: {e}")),
            None => Err("there is no such store".to_owned()),
        };
        match looked {
            Ok(abilities) => match why_not(store, abilities, usage) {
                None => candidates.extend(with_settings(store, library, abilities, facts, usage)),
                Some(why) => ruled_out.push(RuledOut::unfit(store.clone(), why)),
            },
            Err(why) => {
                ruled_out.push(RuledOut { store: store.clone(), why, is_missing: true });
            }
        }
    }
    (candidates, ruled_out)
}

/// The ways to use a store.
fn with_settings(
    store: &str,
    library: Option<PathBuf>,
    abilities: Abilities,
    facts: &Facts,
    usage: &Usage,
) -> Vec<Candidate> {
    let has_changes = usage.writes > 0.0;
    // What is changed one by one is filled one by one, as its records come.
    let is_loaded = !has_changes || usage.sync;
    let is_trace = facts.kind == "trace";
    // Ours sorts what it loads by itself.
    let needs_order = abilities.is_ordered && !OWN.contains(&store);
    let sorted_first = needs_order && is_loaded && !facts.is_sorted && !is_trace;
    let plain = Candidate {
        store: store.to_owned(),
        library,
        form: Form { keys: None, sorted_first },
        setting: None,
        durability: has_changes.then_some(usage.durability),
        commits: abilities.commits,
    };
    let mut all = vec![plain.clone()];
    if let (Some(keys), "btree") = (facts.numbers, store) {
        all.push(Candidate { form: Form { keys: Some(keys), ..plain.form }, ..plain });
    }
    all
}

/// Why a store cannot do the work, in words; `None` if it can.
fn why_not(store: &str, can: Abilities, usage: &Usage) -> Option<String> {
    let has_changes = usage.writes > 0.0;
    if has_changes && !can.changes {
        return Some(format!(
            "it is built once and never changed, and {} of the operations are changes; where a new \
             store now and then will do, ask again with --writes 0",
            text::percent(usage.writes)
        ));
    }
    if usage.ranges > 0.0 && !can.is_ordered {
        return Some(format!(
            "its records are in no order, and {} of the operations ask for ranges",
            text::percent(usage.ranges)
        ));
    }
    if usage.sync && !can.syncs {
        return Some(
            "each change must be on the disk when its call returns, which it does not do here"
                .into(),
        );
    }
    if usage.durability.every().is_some() && !OWN.contains(&store) {
        return Some(
            "the program is to bring changes to the disk by a call now and then, which the workbench has \
             for our own stores only"
                .into(),
        );
    }
    if has_changes && !can.is_kept {
        return Some(
            "what was changed is lost if the process dies before it closes the store".into(),
        );
    }
    if usage.processes > 1 && !can.sharing.allows(has_changes) {
        let what = if has_changes { "use and change" } else { "read" };
        return Some(format!(
            "{} processes are to {what} it at once, which it does not allow here",
            usage.processes
        ));
    }
    None
}
