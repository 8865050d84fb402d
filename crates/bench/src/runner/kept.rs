//! Stores that outlive a run (`--keep`), and those that a run opens in place of building them (`--open`).
//!
//! A store is kept as the first round has built it and read it through, before anything is measured on
//! it: its files are copied into a folder of this run's own, brought to the disk, and get the store's name
//! when they are all there. A run that ends before, in whatever way, leaves no store of that name; its
//! folder goes as all its folders go.
//!
//! A store that is opened stays as it is: each round copies it before anything is timed, and so does
//! each time a phase changes it. What it holds must be the records of the workload, or nothing is
//! measured.

use super::child::Round;
use super::folder::Folder;
use super::leftover;
use super::passes;
use super::protocol::Sample;
use crate::copy;
use crate::driver::{Driver, NAMES, Reading};
use crate::report::outputs;
use crate::workload::{Phase, Workload};
use clap::Args;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Where stores are kept, or come from.
#[derive(Args, Clone, Debug)]
pub(crate) struct Kept {
    /// Keep the stores that the first round builds, before anything is measured on them, each in DIR/STORE;
    /// DIR must be new or empty. --open measures them again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["oracle", "open"])]
    pub(crate) keep: Option<PathBuf>,
    /// Open the stores in DIR/STORE, which --keep or another program has made, in place of building them;
    /// each round works on a copy, and nothing in DIR is changed. They must hold the records of the
    /// workload; phases that begin with a new store are left out
    #[arg(long, value_name = "DIR", conflicts_with = "oracle")]
    pub(crate) open: Option<PathBuf>,
}

impl Kept {
    /// Refuses what makes no sense, whatever the workload.
    pub(crate) fn check(&self, counts: &[usize]) -> Result<()> {
        if (self.keep.is_some() || self.open.is_some()) && counts.len() > 1 {
            return Err(Error::invalid("--keep and --open are for one number of --records"));
        }
        match &self.open {
            Some(folder) if !folder.is_dir() => {
                Err(Error::invalid("--open: there is no such folder").at(folder))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what is not for these phases; gives the folder that kept stores are put together in.
    pub(super) fn prepare(&self, workload: &Workload, phases: &[Phase]) -> Result<Option<Folder>> {
        if self.open.is_some() && phases.is_empty() {
            return Err(Error::invalid(
                "--open is for phases that read, for reinsert, remove and mixed: all others begin with \
                 a new store, and nothing else is among those to measure",
            ));
        }
        if self.open.is_some() && workload.mixes.duplicates().is_some() {
            return Err(Error::invalid(
                "--open is for stores with one value a key: leave duplicates out",
            ));
        }
        let Some(keep) = &self.keep else { return Ok(None) };
        if phases.iter().all(|phase| phase.is_changing()) {
            return Err(Error::invalid(
                "--keep keeps what is built, and none of the phases to measure builds a store: say \
                 --phases build",
            ));
        }
        // Of a run that was killed, and would be in the way.
        leftover::remove_all(keep);
        outputs::prepare_to_keep(keep)?;
        Folder::named_by("--keep", keep).map(Some)
    }

    /// What is said of the phases that are left out for `--open`, if there are any.
    pub(super) fn left_out(&self, asked_for: &[Phase]) -> Option<String> {
        let names = asked_for.iter().filter(|phase| phase.begins_empty());
        let names: Vec<String> = names.map(|phase| format!("'{phase}'")).collect();
        let is_so = self.open.is_some() && !names.is_empty();
        is_so.then(|| {
            format!("--open leaves out {}: there a run begins with a new store", names.join(", "))
        })
    }

    /// Why a store cannot be opened, where there is nothing of it. (Servers, whose names are addresses, were
    /// left out before.)
    pub(super) fn missing(&self, store: &str) -> Option<String> {
        let open = self.open.as_ref()?;
        let is_there = open.join(store).is_dir();
        (!is_there).then(|| format!("there is no folder of that name in {}", open.display()))
    }

    /// The folder of a store that is to be opened.
    pub(super) fn place_of(&self, store: &str) -> Option<PathBuf> {
        self.open.as_ref().map(|open| open.join(store))
    }

    /// Where a store is to be kept that is put together in `made_in`: in the first round, unless it is
    /// there already.
    pub(super) fn keeping(
        &self,
        made_in: Option<&Folder>,
        store: &str,
        round: usize,
    ) -> Option<Keeping> {
        let (made_in, place) = (made_in?.path().join(store), self.keep.as_ref()?.join(store));
        (round == 0 && !place.exists()).then_some(Keeping { made_in, place })
    }

    /// What is said of the stores that were kept.
    pub(super) fn note(&self) -> Option<String> {
        let keep = self.keep.as_ref()?;
        let names = NAMES.iter().copied().filter(|name| keep.join(name).is_dir());
        let names: Vec<&str> = names.collect();
        let place = keep.display();
        Some(match names.is_empty() {
            true => format!("--keep: no store is kept in {place}"),
            false => format!("kept in {place}, for --open: {}", names.join(", ")),
        })
    }
}

/// Where a store is put together, and where it is when it is whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Keeping {
    made_in: PathBuf,
    place: PathBuf,
}

impl Keeping {
    fn keep(&self, files: &Path) -> Result<()> {
        copy::all(files, &self.made_in)?;
        // Now, and not while something is measured.
        all_to_disk(&self.made_in)
            .map_err(|e| Error::io("bring to the disk what is in", e).at(&self.made_in))?;
        fs::rename(&self.made_in, &self.place)
            .and_then(|()| File::open(self.place.parent().unwrap_or(&self.place))?.sync_all())
            .map_err(|e| Error::io("rename to", e).at(&self.place))
    }
}

/// Brings a file to the disk, or a folder with all that is in it.
pub(crate) fn all_to_disk(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        fs::read_dir(path)?.try_for_each(|entry| all_to_disk(&entry?.path()))?;
    }
    File::open(path)?.sync_all()
}

impl<D: Driver> Round<'_, D> {
    /// Keeps the store that was built, if that is asked for and it is right.
    pub(super) fn keep(&self, built: &Sample) -> Result<()> {
        let Some(keeping) = self.spec.keep.as_ref().filter(|_| built.wrong.is_none()) else {
            return Ok(());
        };
        keeping.keep(&self.spec.folder).map_err(|e| {
            let place = keeping.place.display();
            Error::invalid(format!("the store cannot be kept in {place}: {e}"))
        })
    }

    /// Takes a copy of the store in `place`, which must hold all records and nothing else.
    pub(super) fn take(&self, place: &Path) -> Result<()> {
        self.copy_of(place)?;
        let opened = self.driver.open(&self.path, &self.shape, Reading::Warm);
        let wrong = opened.and_then(|mut store| passes::check_scan(&mut store, self.content));
        let place = place.display();
        match wrong {
            Ok(None) => Ok(()),
            Ok(Some(what)) => Err(Error::invalid(format!(
                "the store in {place} does not hold the records of this workload: {what}; keep it with \
                 the same workload, records and seed"
            ))),
            Err(e) => Err(Error::invalid(format!("the store in {place} cannot be read: {e}"))),
        }
    }

    /// Puts a copy of the store in `place` into the empty folder.
    pub(super) fn copy_of(&self, place: &Path) -> Result<()> {
        copy::all(place, &self.spec.folder).map_err(|e| {
            let place = place.display();
            Error::invalid(format!(
                "the store in {place} cannot be copied into the run's folder: {e}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    //! Danger: a store is kept that is not whole or not right, and a later run takes it for a good one.

    use super::super::liar::Lie;
    use super::super::protocol::{Message, Spec};
    use super::super::tests::with_round;
    use super::super::together::Together;
    use super::*;
    use crate::workload::Mix;
    use std::cell::{Cell, RefCell};

    /// Whether a round of a store that lies so keeps it, what the round refuses, and whether it reads
    /// the store, where `prepare` was told the two places before.
    fn round(lie: Lie, prepare: fn(&Keeping)) -> (bool, Vec<String>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let [made_in, place] = ["made-in", "place"].map(|name| folder.path().join(name));
        let keeping = Keeping { made_in, place: place.clone() };
        prepare(&keeping);
        let (refused, reads) = (RefCell::new(Vec::new()), Cell::new(false));
        let phases = [Phase::Build, Phase::Scan];
        with_round(lie, &phases, Mix::default(), Together::default(), |round| {
            fs::write(&round.path, "a store").unwrap();
            let spec = Spec { keep: Some(keeping), ..round.spec.clone() };
            let hear = |message: &Message| {
                match message {
                    Message::Refused(_, what) | Message::Amiss(_, what) => {
                        refused.borrow_mut().push(what.clone());
                    }
                    Message::Measured(sample) => {
                        reads.set(reads.get() || sample.phase == Phase::Scan)
                    }
                    _ => {}
                }
                Ok(())
            };
            Round::new(round.driver, &spec, round.inputs).run(&hear).unwrap();
        });
        let is_kept = fs::read(place.join("store")).is_ok_and(|bytes| bytes == b"a store");
        (is_kept, refused.into_inner(), reads.into_inner())
    }

    #[test]
    fn what_is_built_rightly_is_kept() {
        assert_eq!(round(Lie::None, |_| ()), (true, vec![], true));
        assert_eq!(round(Lie::ScanShort, |_| ()), (false, vec![], true));
        let refused = round(Lie::RefusesBuild, |_| ());
        assert_eq!(refused, (false, vec!["no room to build".to_owned()], false));
    }

    #[test]
    fn what_cannot_be_kept_whole_is_not_kept() {
        let in_the_way = |keeping: &Keeping| {
            fs::create_dir(&keeping.made_in).unwrap();
            fs::write(keeping.made_in.join("store"), "half").unwrap();
        };
        let (is_kept, refused, reads) = round(Lie::None, in_the_way);
        // What was built is measured all the same.
        assert!(!is_kept && reads, "{refused:?}");
        assert!(refused[0].starts_with("the store cannot be kept in /"), "{refused:?}");
    }
}
