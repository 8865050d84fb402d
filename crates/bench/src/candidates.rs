//! Which stores can be run here, with which library; and `--list`.

use crate::args::BenchArgs;
use crate::driver::{self, Driver, ForDriver, Shape, Store, Writer, can_do, tried, with_driver};
use crate::report::outputs::print;
use crate::result::StoreInfo;
use crate::runner::together;
use crate::settings::{self, Chosen};
use crate::workload::Mixes;
use credenza::{Error, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// A store that was looked for.
#[derive(Serialize)]
pub(crate) struct Candidate {
    pub(crate) store: &'static str,
    /// Whether it can be run.
    pub(crate) found: bool,
    pub(crate) version: Option<String>,
    pub(crate) library: Option<PathBuf>,
    /// The Debian package that brings it.
    pub(crate) package: Option<&'static str>,
    /// The settings that it takes (`--set`), with their values, in words.
    pub(crate) settings: BTreeMap<&'static str, String>,
    /// The types that keys of it can have (`key-type` of a workload), but bytes.
    pub(crate) key_types: Vec<&'static str>,
    /// Why it cannot be run, and what to do; empty if it can.
    pub(crate) missing: String,
    /// The same, for those who tell such reasons apart.
    #[serde(skip)]
    pub(crate) error: Option<Error>,
}

/// Looks for one store.
struct Look<'a>(Option<&'a Path>);

impl ForDriver for Look<'_> {
    type Output = Candidate;

    fn run<D: Driver>(self) -> Candidate {
        let package = D::SOURCE.and_then(|source| source.package);
        let (version, library, error) = match tried::load::<D>(self.0) {
            Ok(driver) => {
                let (version, library) = version_of::<D>(&driver);
                (Some(version), library, None)
            }
            Err(e) => (None, None, Some(e)),
        };
        let missing = error.as_ref().map_or_else(String::new, Error::to_string);
        let settings = settings::in_words(D::SETTINGS);
        let key_types = D::KEY_TYPES.iter().map(|of| of.name()).collect();
        Candidate {
            store: D::NAME,
            found: error.is_none(),
            version,
            library,
            package,
            settings,
            key_types,
            missing,
            error,
        }
    }
}

/// The version as the library tells it, or its package, or else which file it is; and the library's file.
pub(crate) fn version_of<D: Driver>(driver: &D) -> (String, Option<PathBuf>) {
    let identity = driver.identity();
    let packaged = || D::SOURCE?.debian_version(identity.file.as_deref()?);
    let version = match identity.version.as_str() {
        "" => packaged()
            .or_else(|| digest(identity.file.as_deref()?))
            .unwrap_or_else(|| "unknown".to_owned()),
        version => version.to_owned(),
    };
    (version, identity.file)
}

/// The beginning of a digest of a library: two that have the same are one build.
fn digest(file: &Path) -> Option<String> {
    let bytes = std::fs::read(file).ok()?;
    Some(format!("file {:08x}", xxh3_64(&bytes) >> 32))
}

/// Describes one store for the report.
pub(crate) struct Describe<'a> {
    pub(crate) name: &'a str,
    pub(crate) library: Option<&'a Path>,
    pub(crate) shape: &'a Shape,
    pub(crate) class: &'a str,
    pub(crate) mixes: &'a Mixes,
    /// Whether it is opened in place of a new one.
    pub(crate) is_opened: bool,
}

impl ForDriver for Describe<'_> {
    type Output = Result<StoreInfo>;

    fn run<D: Driver>(self) -> Result<StoreInfo> {
        let driver = tried::load::<D>(self.library)?;
        driver.admit()?;
        let (version, library) = version_of::<D>(&driver);
        // A server does for every change what it is set up to do.
        let class = if D::IS_SERVER { driver.changes().class() } else { self.class };
        let settings = self.shape.settings;
        let mut tuning = driver.tuning(self.shape);
        if let Some(how) = D::DURABLE {
            tuning = format!("{tuning}; changes that are synced: {how}");
        }
        if self.is_opened {
            tuning = format!("made before the run, and opened with: {tuning}");
        }
        // An experiment of a document may have one that only some stores take.
        if settings != Chosen::default() && settings.unfit(D::SETTINGS).is_none() {
            tuning = format!("{tuning}; as chosen: {settings}");
        }
        Ok(StoreInfo {
            store: self.name.to_owned(),
            class: class.to_owned(),
            changes_class: <D::Writer<'_> as Writer>::IS_POSSIBLE
                .then(|| settings.changes(driver.changes()).class().to_owned()),
            commits_class: settings.changes(driver.changes_one_by_one(false)).class().to_owned(),
            version,
            library: library.map(|file| file.display().to_string()),
            tuning,
            native_get_many: D::NATIVE_GET_MANY,
            native_get_many_by_threads: D::NATIVE_GET_MANY_BY_THREADS,
            looks_up_to_remove: <D::Writer<'_> as Writer>::LOOKS_UP_TO_REMOVE,
            syncs: match self.class {
                "sync" if !D::IS_SERVER => format!("{}; then fdatasync of every file", D::SYNCS),
                _ => D::SYNCS.to_owned(),
            },
            syncs_anyway: D::SYNCS_ANYWAY.map(str::to_owned),
            notes: driver.notes(),
            lacks: self
                .mixes
                .all_phases()
                .into_iter()
                .filter(|phase| !can_do::<D>(*phase, self.mixes, self.is_opened))
                .map(|phase| phase.name().to_owned())
                .collect(),
            sharing: D::SHARING.name().to_owned(),
            threads: D::THREADS.name().to_owned(),
            writer_thread: together::allows::<D>(together::By::Threads, true),
            committing_threads: together::have_locks::<D>(together::By::Threads),
            committing_processes: together::have_locks::<D>(together::By::Processes),
            scans_back: <D::Writer<'_> as Store>::SCANS_BACK,
            is_server: D::IS_SERVER,
        })
    }
}

/// All stores, found or not.
pub(crate) fn all(args: &BenchArgs) -> Vec<Candidate> {
    let look = |name: &&str| with_driver(name, Look(args.library(name).as_deref()));
    driver::NAMES.iter().filter_map(look).collect()
}

/// Prints what was found, or writes it as JSON.
pub(crate) fn list(args: &BenchArgs) -> Result<()> {
    let candidates = all(args);
    if let Some(path) = &args.json {
        let text =
            serde_json::to_string_pretty(&candidates).map_err(|e| Error::invalid(e.to_string()))?;
        // Nothing else is printed.
        if path == Path::new("-") {
            return print(&(text + "\n"));
        }
        return std::fs::write(path, text + "\n").map_err(|e| Error::io("write", e).at(path));
    }
    let mut text = String::new();
    for c in candidates {
        let place = match (&c.library, c.found) {
            (Some(file), _) => file.display().to_string(),
            (None, true) => "built in".to_owned(),
            (None, false) => c.missing,
        };
        let version = c.version.as_deref().unwrap_or("not found");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<18} {version:<28} {place}", c.store);
        for (setting, values) in &c.settings {
            let _ = writeln!(text, "{:<18} --set {setting}: {values}", "");
        }
        if !c.key_types.is_empty() {
            let _ = writeln!(text, "{:<18} key-type: {}", "", c.key_types.join(", "));
        }
    }
    print(&text)
}
