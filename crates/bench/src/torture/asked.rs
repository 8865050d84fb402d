//! What is asked for: the operations, from a workload, a file of records or a trace, and how stores are set up.
//!
//! Invariant: what a workload file says of data, mixes and settings and a torture cannot do is refused, and not
//! left out in silence. How a run is measured (`phases`, `gets`, `batch`, stops and reopening of a mix) is not its
//! business.

use super::plan::Source;
use super::{Class, TortureArgs};
use crate::args::check_codec;
use crate::replay::{Script, unread};
use crate::runner::folder::Folder;
use crate::settings::Choices;
use crate::workload::{Inputs, KeyType, Mix, Mixes, Phase, Workload};
use credenza::record::Trace;
use credenza::{Error, Result};
use credenza_formats::Format;
use std::path::Path;

pub(super) struct Asked {
    pub(super) source: Source,
    pub(super) settings: Choices,
    /// The name of the workload, or the file of the trace.
    pub(super) name: String,
    /// What is to be known of the data.
    pub(super) notes: Vec<String>,
}

impl Asked {
    pub(super) fn by(args: &TortureArgs, folder: &Folder) -> Result<Asked> {
        let asked = match args.data.as_deref().filter(|path| Trace::is_trace(path)) {
            Some(trace) => Asked::of_trace(trace, args)?,
            None => Asked::of_workload(args, folder)?,
        };
        let mut notes = asked.notes;
        let settings = asked.settings.in_words();
        if !settings.is_empty() {
            notes.push(format!("Stores are set up with {}.", settings.join(", ")));
        }
        Ok(Asked { notes, ..asked })
    }

    fn of_trace(trace: &Path, args: &TortureArgs) -> Result<Asked> {
        let absolute = std::path::absolute(trace).map_err(|e| Error::io("find", e).at(trace))?;
        let source = Source::Trace { trace: absolute, operations: args.operations };
        let settings = settings(Choices::default(), KeyType::Binary, args)?;
        let opened = Trace::open(trace)?;
        let notes = unread::all(&opened, &Script::of(&opened)?.told).into_iter();
        let notes = notes.map(|says| format!("The trace {says}.")).collect();
        Ok(Asked { source, settings, name: trace.display().to_string(), notes })
    }

    fn of_workload(args: &TortureArgs, folder: &Folder) -> Result<Asked> {
        let mut workload = match &args.data {
            Some(path) => {
                let format = args.format.as_deref().map(str::parse::<Format>).transpose()?;
                Workload::of_records(path, format)
            }
            None => Workload::find(&args.workload)?,
        };
        if workload.mixes.duplicates().is_some() {
            return Err(Error::invalid(
                "torture has no duplicates: leave them out of the workload file",
            ));
        }
        if workload.mixes.iter().any(|mix| mix.sync) {
            return Err(Error::invalid(
                "whether torture has changes synced is said with --durability: leave 'sync' out of the workload file",
            ));
        }
        if let Some(why) = workload.leaves_out(Phase::Mixed) {
            let keys = workload.key_type();
            return Err(Error::invalid(format!(
                "with keys of type {keys} there is nothing to torture: {why}; leave key-type out of the workload \
                 file, or have another"
            )));
        }
        share_out(&mut workload.mixes, args.operations);
        workload.records = Some(workload.records.unwrap_or(args.records).min(args.records));
        workload.seed = args.seed;
        workload.gets = args.operations;
        workload.phases = Some(workload.mixes.phases().collect());
        let settings = settings(workload.settings.clone(), workload.key_type(), args)?;
        let (inputs, notes) = Inputs::prepare(&workload)?;
        let path = folder.path().join("inputs");
        inputs.save(&path)?;
        let Workload { name, mixes, seed, .. } = workload;
        let source = Source::Mixes { inputs: path, mixes, seed };
        Ok(Asked { source, settings, name, notes })
    }
}

/// Says how many operations each mix does: so many together at most, in the proportion of what each has in its
/// file. Those that say nothing have as many as each other. Time is nothing here.
fn share_out(mixes: &mut Mixes, most: usize) {
    let count = mixes.iter().count().max(1);
    let wanted = |mix: &Mix| mix.operations.unwrap_or((most / count).max(1));
    let all: usize = mixes.iter().map(wanted).fold(0, usize::saturating_add);
    for mix in mixes.iter_mut() {
        let own = wanted(mix);
        let share = if all > most { own as f64 / all as f64 * most as f64 } else { own as f64 };
        mix.operations = Some((share as usize).max(1));
        mix.stop.seconds = None;
    }
}

/// Those of the workload file, and those of the command line, which win.
fn settings(mut settings: Choices, keys: KeyType, args: &TortureArgs) -> Result<Choices> {
    args.settings.iter().try_for_each(|text| settings.set(text))?;
    settings.check()?;
    check_codec(&settings, keys)?;
    if settings.has_memory() {
        return Err(Error::invalid(
            "memory=on: what is in the memory of a process goes with it, and there is nothing to look at; leave \
             it out",
        ));
    }
    if settings.has_no_recovery() && args.durability == Some(Class::Sync) {
        return Err(Error::invalid(
            "recovery=off contradicts --durability sync: without a log no change is on the disk before the \
             store is closed; leave one of both out",
        ));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::tests::mixes;

    #[test]
    fn all_mixes_together_do_what_is_asked_for_at_most() {
        let of = |own: &[Option<usize>], most| {
            let table = |(i, own): (usize, &Option<usize>)| {
                let operations = own.map_or_else(String::new, |n| format!("operations = {n}\n"));
                format!("[[mix]]\nname = \"m{i}\"\nget = 1\n{operations}")
            };
            let mut mixes = mixes(&own.iter().enumerate().map(table).collect::<String>());
            share_out(&mut mixes, most);
            mixes.iter().filter_map(|mix| mix.operations).collect::<Vec<_>>()
        };
        assert_eq!(of(&[None, None, None], 3000), [1000, 1000, 1000]);
        assert_eq!(of(&[Some(10), None], 3000), [10, 1500]);
        assert_eq!(of(&[Some(6000), Some(2000)], 400), [300, 100]);
        assert_eq!(of(&[Some(500)], 3000), [500]);
        assert_eq!(of(&[None], 3000), [3000]);
        assert_eq!(of(&[Some(1_000_000), Some(1)], 10), [9, 1]);
    }
}
