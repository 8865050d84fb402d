//! The mixes of a workload: one, or several that are done one after the other.
//!
//! Each is a phase of its own, and begins with what those before it have left: a load, then what mostly
//! reads, then what mostly removes. As every phase has stores of its own, the changes of the mixes before are
//! done before the clock starts, behind the insertions that fill the store.
//!
//! Invariant: what a mix begins with is of the workload and the seed alone, the same for every store, and
//! whichever phases are measured.

use super::changes::{Model, Script};
use super::distribution::Distribution;
use super::mix::{Action, Mix, MixTable, Place};
use super::records::Records;
use super::spec::Phase;
use credenza::{Error, Result};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashSet;
use std::fmt;

/// The name of the phase of one of several mixes: `mixed-` and what the workload file calls it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MixName {
    bytes: [u8; MixName::MOST],
    len: u8,
}

impl MixName {
    const START: &str = "mixed-";
    /// Tables and charts have room for names of phases.
    const MOST: usize = 24;

    /// The phase that has this whole name, if it can be one.
    pub(super) fn of_phase(name: &str) -> Option<MixName> {
        let own = name.strip_prefix(MixName::START)?;
        let is_fit = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let mut bytes = [0; MixName::MOST];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        (!own.is_empty() && own.bytes().all(is_fit))
            .then_some(MixName { bytes, len: name.len() as u8 })
    }

    /// The mix that a file calls so.
    fn of_mix(own: &str) -> Result<MixName> {
        let most = MixName::MOST - MixName::START.len();
        MixName::of_phase(&format!("{}{own}", MixName::START)).ok_or_else(|| {
            Error::invalid(format!(
                "[[mix]] name = \"{}\": a name has 1 to {most} letters a to z, digits and '-'",
                own.escape_debug()
            ))
        })
    }

    /// The name of the phase.
    pub(super) fn as_str(&self) -> &str {
        // Made of a string that was looked at.
        str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl fmt::Debug for MixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One mix, and the phase that does it: [`Phase::Mixed`] if it has no name.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Part {
    phase: Phase,
    mix: Mix,
}

/// In the order in which they are done; one at least.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mixes(Vec<Part>);

impl From<Mix> for Mixes {
    fn from(mix: Mix) -> Mixes {
        Mixes(vec![Part { phase: Phase::Mixed, mix }])
    }
}

impl Default for Mixes {
    fn default() -> Mixes {
        Mix::default().into()
    }
}

impl Mixes {
    /// The phases that do them, in their order.
    pub(crate) fn phases(&self) -> impl Iterator<Item = Phase> {
        self.0.iter().map(|part| part.phase)
    }

    /// All phases there are with these mixes, in the order in which they run.
    pub(crate) fn all_phases(&self) -> Vec<Phase> {
        self.named_in(&Phase::ALL)
    }

    /// These phases, with those of all mixes for `mixed`.
    pub(crate) fn named_in(&self, phases: &[Phase]) -> Vec<Phase> {
        let each = |phase: &Phase| match phase {
            Phase::Mixed => self.phases().collect(),
            other => vec![*other],
        };
        phases.iter().flat_map(each).collect()
    }

    /// What this phase does, if it does a mix.
    pub(crate) fn of(&self, phase: Phase) -> Option<&Mix> {
        self.0.iter().find(|part| part.phase == phase).map(|part| &part.mix)
    }

    /// The same with so many operations in this phase, whatever time they take.
    pub(crate) fn with_operations(&self, phase: Phase, operations: usize) -> Mixes {
        let mut mixes = self.clone();
        for part in mixes.0.iter_mut().filter(|part| part.phase == phase) {
            part.mix.stop.seconds = None;
            part.mix.operations = Some(operations);
        }
        mixes
    }

    /// Whether this phase does a mix that changes nothing.
    pub(crate) fn only_reads(&self, phase: Phase) -> bool {
        self.of(phase).is_some_and(|mix| !mix.changes())
    }

    /// Whether nothing is changed by the mix of this phase, nor by those before it.
    pub(crate) fn only_read_until(&self, last: Phase) -> bool {
        let until = self.0.iter().position(|part| part.phase == last).unwrap_or(self.0.len());
        !self.0.iter().take(until + 1).any(|part| part.mix.changes())
    }

    /// Whether each change of this phase is to be on the disk when its call has returned.
    pub(crate) fn is_synced(&self, phase: Phase) -> bool {
        phase == Phase::InsertSync || self.of(phase).is_some_and(|mix| mix.sync)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mix> {
        self.0.iter().map(|part| &part.mix)
    }

    /// All of them, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Mix> {
        self.0.iter_mut().map(|part| &mut part.mix)
    }

    /// The only one; `None` if there are several.
    pub(crate) fn only(&self) -> Option<&Mix> {
        if let [part] = &*self.0 { Some(&part.mix) } else { None }
    }

    /// Where a further value of a key goes, the same in all.
    pub(crate) fn duplicates(&self) -> Option<Place> {
        self.iter().find_map(|mix| mix.duplicates)
    }

    /// Keys that all of them insert, at most, where each does `gets` operations if it does not say.
    pub(crate) fn inserts(&self, records: &Records, gets: usize, seed: u64) -> usize {
        let (mut items, mut is_stopped) = (records.len(), false);
        for (number, mix) in self.iter().enumerate() {
            let count = mix.operations(gets);
            if is_stopped && mix.does(Action::Insert) {
                // What is drawn depends on how many there are, and so on where the one before stopped.
                items += count;
            } else {
                let draws = mix.draws(records, items, number, seed).take(count);
                let inserted = draws.filter(|draw| draw.action.is_insertion());
                items = inserted.map(|draw| draw.item + 1).max().unwrap_or(items).max(items);
            }
            is_stopped |= mix.stop.bytes.is_some();
        }
        items - records.len()
    }

    /// A store that holds all records, for what any of the mixes does with it.
    pub(crate) fn model<'a>(&self, records: &'a Records, fresh: &'a Records) -> Model<'a> {
        let ordered = self.iter().any(Mix::looks_at_order);
        Model::new(records, fresh, ordered, self.duplicates())
    }

    /// The last phase that does a mix.
    pub(crate) fn last(&self) -> Phase {
        self.phases().last().unwrap_or(Phase::Mixed)
    }

    /// The steps of all mixes up to that of the phase `last`, for a store that holds `records`.
    pub(crate) fn scripts(
        &self,
        last: Phase,
        records: &Records,
        fresh: &Records,
        gets: usize,
        seed: u64,
    ) -> Vec<Script> {
        let mut model = Model::new(records, fresh, false, self.duplicates());
        let mut scripts = Vec::new();
        for (number, part) in self.0.iter().enumerate() {
            let count = part.mix.operations(gets);
            scripts.push(Script::draw_on(&mut model, &part.mix, number, count, seed));
            if part.phase == last {
                break;
            }
        }
        scripts
    }

    /// Refuses what contradicts itself.
    pub(super) fn check(&self) -> Result<()> {
        let duplicates = self.duplicates();
        if duplicates.is_some() && !self.iter().any(|mix| mix.does(Action::Insert)) {
            let what = "duplicates say where one more value of a key goes, but the mix inserts nothing: \
                        give insert a weight in [mix]";
            return Err(Error::invalid(what));
        }
        self.iter().try_for_each(Mix::check)?;
        if self.only().is_none() && self.of(Phase::Mixed).is_some() {
            return Err(Error::invalid(
                "each of several [[mix]] needs a name, as in name = \"load\"",
            ));
        }
        let mut known = HashSet::new();
        if let Some(phase) = self.phases().find(|phase| !known.insert(*phase)) {
            let what = format!("two [[mix]] have the name of '{phase}': each needs one of its own");
            return Err(Error::invalid(what));
        }
        let before_last = self.0.split_last().map_or(&[][..], |(_, before)| before);
        if before_last.iter().any(|part| part.mix.stop.seconds.is_some()) {
            return Err(Error::invalid(
                "stop-seconds is for the last of several [[mix]] alone: what a store does in a time is \
                 another number of operations for each, and what comes after must begin with the same",
            ));
        }
        if self.iter().any(|mix| mix.duplicates != duplicates) {
            return Err(Error::invalid(
                "one [[mix]] has duplicates and another has none, or others: keys of one store have one \
                 value or several, so say the same in all",
            ));
        }
        Ok(())
    }
}

impl fmt::Display for Mixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Part { phase, mix }) in self.0.iter().enumerate() {
            let between = if i == 0 { "" } else { "; then " };
            match phase {
                Phase::Mixed => write!(f, "{between}{mix}")?,
                phase => write!(f, "{between}{phase}: {mix}")?,
            }
        }
        Ok(())
    }
}

/// `[mix]`, or several `[[mix]]`, of a workload file.
pub(super) struct MixTables(Vec<MixTable>);

impl MixTables {
    /// The mixes; those without a distribution of their own have that of the file.
    pub(super) fn mixes(self, distribution: Distribution) -> Result<Mixes> {
        let part = |mut table: MixTable| {
            let name = table.name.take().map(|name| MixName::of_mix(&name)).transpose()?;
            let phase = name.map_or(Phase::Mixed, Phase::OneMix);
            Ok(Part { phase, mix: table.mix(distribution)? })
        };
        let mixes = Mixes(self.0.into_iter().map(part).collect::<Result<_>>()?);
        mixes.check()?;
        Ok(mixes)
    }
}

impl<'de> Deserialize<'de> for MixTables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct OneOrSeveral;
        impl<'de> Visitor<'de> for OneOrSeveral {
            type Value = MixTables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table [mix], or several tables [[mix]]")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                map: A,
            ) -> std::result::Result<MixTables, A::Error> {
                let table = MixTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(MixTables(vec![table]))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                seq: A,
            ) -> std::result::Result<MixTables, A::Error> {
                let tables = Vec::deserialize(SeqAccessDeserializer::new(seq))?;
                match tables.is_empty() {
                    true => Err(serde::de::Error::custom("there is no mix in mix = []")),
                    false => Ok(MixTables(tables)),
                }
            }
        }
        deserializer.deserialize_any(OneOrSeveral)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workload;
    use super::*;

    fn of_toml(text: &str) -> Result<Mixes> {
        let tables: std::collections::BTreeMap<String, MixTables> =
            toml::from_str(text).map_err(|e| Error::invalid(e.to_string()))?;
        tables.into_values().next().unwrap().mixes(Distribution::Uniform)
    }

    /// Several tables, each with this name and these lines.
    fn several(tables: &[(&str, &str)]) -> Result<Mixes> {
        let table = |(name, text): &(&str, &str)| format!("[[mix]]\nname = \"{name}\"\n{text}\n");
        of_toml(&tables.iter().map(table).collect::<String>())
    }

    #[test]
    fn one_table_is_the_phase_mixed_and_several_have_their_names() {
        let one = of_toml("[mix]\nget = 1").unwrap();
        assert_eq!(one.phases().collect::<Vec<_>>(), [Phase::Mixed]);
        assert_eq!(one.all_phases(), Phase::ALL);
        assert_eq!(one.to_string(), "get 1, keys uniform");
        let two = several(&[("load", "insert = 1\noperations = 1e3"), ("b-2", "get = 1")]).unwrap();
        assert_eq!(
            two.to_string(),
            "mixed-load: insert 1, keys uniform, 1000 operations; then mixed-b-2: get 1, keys uniform"
        );
        let names: Vec<Phase> = two.named_in(&[Phase::Scan, Phase::Mixed]);
        assert_eq!(
            names.iter().map(Phase::name).collect::<Vec<_>>(),
            ["scan", "mixed-load", "mixed-b-2"]
        );
        for phase in two.all_phases() {
            assert_eq!(Phase::named(phase.name()), Some(phase));
            let json = serde_json::to_string(&phase).unwrap();
            assert_eq!(serde_json::from_str::<Phase>(&json).unwrap(), phase);
        }
        assert_eq!(two.of(Phase::Mixed), None);
        assert!(two.only().is_none() && one.only().is_some());
    }

    #[test]
    fn mixes_that_contradict_each_other_are_refused() {
        for (tables, what) in [
            (&[("a", "get = 1"), ("a", "get = 1")][..], "two [[mix]] have the name of 'mixed-a'"),
            (&[("A", "get = 1")], "name = \"A\": a name has 1 to 18 letters"),
            (&[("", "get = 1")], "a name has 1 to 18 letters"),
            (&[("a-name-of-19-letters", "get = 1")], "a name has 1 to 18 letters"),
            (&[("a", "get = 1\nstop-seconds = 1"), ("b", "get = 1")], "for the last of several"),
            (&[("a", "insert = 1\nduplicates = \"last\""), ("b", "get = 1")], "the same in all"),
            (&[("a", "get = 1\nduplicates = \"last\"")], "but the mix inserts nothing"),
            (&[("a", "get = 1"), ("b", "")], "[mix] does nothing"),
            (&[("a", "get = 1\noperations = 0")], "operations of a mix must be at least 1"),
            (&[("a", "get = 1\nfind = 2")], "unknown field `find`"),
        ] {
            let refused = several(tables).unwrap_err().to_string();
            assert!(refused.contains(what), "{tables:?}: {refused}");
        }
        let unnamed = "[[mix]]\nget = 1\n[[mix]]\nname = \"b\"\nget = 1";
        for (text, what) in [
            (unnamed, "each of several [[mix]] needs a name"),
            ("mix = []", "there is no mix"),
            ("mix = 3", "expected a table [mix], or several tables [[mix]]"),
        ] {
            let refused = of_toml(text).unwrap_err().to_string();
            assert!(refused.contains(what), "{text}: {refused}");
        }
        let last = [("a", "insert = 1"), ("b", "get = 1\nstop-seconds = 1")];
        assert!(several(&last).is_ok());
        let duplicates = "duplicates = \"last\"";
        let reads_last = [("a", "insert = 1\n"), ("b", "get = 1\n")]
            .map(|(name, text)| (name, format!("{text}{duplicates}")));
        let reads_last = reads_last.each_ref().map(|(name, text)| (*name, text.as_str()));
        assert!(several(&reads_last).is_ok());
    }

    /// Keys that are inserted are prepared before the steps are drawn; where a mix stops at a number of bytes,
    /// those after it are drawn over fewer keys than that assumes.
    #[test]
    fn there_are_as_many_new_keys_as_all_mixes_insert() {
        let tables = |stop: &str| {
            let first = format!("insert = 1\nget = 1\n{stop}");
            several(&[
                ("a", &first),
                ("b", "insert = 3\nget = 1\ndistribution = \"latest\""),
                ("c", "get = 1"),
            ])
        };
        for stop in ["", "stop-bytes = 900"] {
            let mixes = tables(stop).unwrap();
            let (records, gets) = (Some(100), 400);
            let workload = Workload { records, gets, mixes, ..Workload::find("tokens").unwrap() };
            let (inputs, _) = super::super::Inputs::prepare(&workload).unwrap();
            let mixes = &workload.mixes;
            let scripts = mixes.scripts(mixes.last(), &inputs.records, &inputs.fresh, gets, 1);
            let inserted = scripts.iter().flat_map(Script::iter);
            let inserted: Vec<u32> = inserted
                .filter(|(step, ..)| step.action == Action::Insert)
                .map(|(step, ..)| step.item)
                .collect();
            // One after the other, through all mixes.
            assert!(inserted.iter().copied().eq(100..100 + inserted.len() as u32));
            assert!(inserted.len() <= inputs.fresh.len());
            assert_eq!(stop.is_empty(), inserted.len() == inputs.fresh.len());
            assert_eq!(scripts[0].len() == gets, stop.is_empty());
            assert_eq!(scripts[2].changes().count(), 0);
        }
    }
}
