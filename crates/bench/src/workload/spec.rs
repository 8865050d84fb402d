//! A workload: which data, which phases, how many of each. By name, from a TOML file, or put
//! together from options.

use super::count::Count;
use super::distribution::Distribution;
use super::files;
use super::generate::Random;
use super::insert_order::InsertOrder;
use super::key_type::{self, KeyType, Types};
use super::lengths::Lengths;
use super::mix::Mix;
use super::mixes::{MixName, MixTables, Mixes};
use super::parameters::Parameters;
use super::records::MAX_RECORDS;
use super::ycsb::Ycsb;
use crate::settings::{Choices, SettingsTable};
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum};
use credenza::{Error, Result};
use credenza_formats::Format;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Phase {
    /// From records in memory to a closed store file.
    #[value(name = "build")]
    Build,
    /// Random keys that are there.
    #[value(name = "get-hit")]
    GetHit,
    /// Random keys, nine of ten there.
    #[value(name = "get-90")]
    Get90,
    /// Keys of the same shape that are not there.
    #[value(name = "get-miss")]
    GetMiss,
    /// As get-hit, in batches.
    #[value(name = "get-many-hit")]
    GetManyHit,
    /// As get-miss, in batches.
    #[value(name = "get-many-miss")]
    GetManyMiss,
    /// As get-hit, but the next key is known only when the last value has come: pure latency.
    #[value(name = "get-chain")]
    GetChain,
    /// Every record.
    #[value(name = "scan")]
    Scan,
    /// The 100 records from a random key on, in order.
    #[value(name = "range")]
    Range,
    /// Every record into an empty store, one by one.
    #[value(name = "insert")]
    Insert,
    /// The same in random order.
    #[value(name = "insert-random")]
    InsertRandom,
    /// The same in random order, unless --insert-order names another, each in a transaction of its own.
    #[value(name = "insert-each")]
    InsertEach,
    /// The first of them, each on the disk before the next; only where it is asked for.
    #[value(name = "insert-sync")]
    InsertSync,
    /// A new value for every key, several times over.
    #[value(name = "reinsert")]
    Reinsert,
    /// Every key, in random order.
    #[value(name = "remove")]
    Remove,
    /// The operations of the workload's mix in turn.
    #[value(name = "mixed")]
    Mixed,
    /// Those of one of several mixes that have names.
    #[value(skip)]
    OneMix(MixName),
}

impl Phase {
    /// All phases, in the order in which they run; those of several mixes are for `mixed`.
    pub(crate) const ALL: [Phase; 16] = [
        Phase::Build,
        Phase::GetHit,
        Phase::Get90,
        Phase::GetMiss,
        Phase::GetManyHit,
        Phase::GetManyMiss,
        Phase::GetChain,
        Phase::Scan,
        Phase::Range,
        Phase::Insert,
        Phase::InsertRandom,
        Phase::InsertEach,
        Phase::InsertSync,
        Phase::Reinsert,
        Phase::Remove,
        Phase::Mixed,
    ];
    /// What a store can be asked that is in memory and never opened again.
    pub(crate) const IN_MEMORY: [Phase; 5] =
        [Phase::Insert, Phase::InsertRandom, Phase::Reinsert, Phase::Remove, Phase::Mixed];
    /// What a cold cache is asked, unless told otherwise.
    pub(crate) const COLD: [Phase; 2] = [Phase::GetHit, Phase::GetManyHit];

    /// The name in options and results.
    pub(crate) fn name(&self) -> &str {
        match self {
            Phase::Build => "build",
            Phase::GetHit => "get-hit",
            Phase::Get90 => "get-90",
            Phase::GetMiss => "get-miss",
            Phase::GetManyHit => "get-many-hit",
            Phase::GetManyMiss => "get-many-miss",
            Phase::GetChain => "get-chain",
            Phase::Scan => "scan",
            Phase::Range => "range",
            Phase::Insert => "insert",
            Phase::InsertRandom => "insert-random",
            Phase::InsertEach => "insert-each",
            Phase::InsertSync => "insert-sync",
            Phase::Reinsert => "reinsert",
            Phase::Remove => "remove",
            Phase::Mixed => "mixed",
            Phase::OneMix(name) => name.as_str(),
        }
    }

    /// The phase of this name, if it can be one.
    pub(crate) fn named(name: &str) -> Option<Phase> {
        let plain = Phase::ALL.into_iter().find(|phase| phase.name() == name);
        plain.or_else(|| MixName::of_phase(name).map(Phase::OneMix))
    }

    /// Whether this does a mix.
    pub(crate) fn is_mixed(self) -> bool {
        matches!(self, Phase::Mixed | Phase::OneMix(_))
    }

    /// Whether keys are looked up.
    pub(crate) fn is_get(self) -> bool {
        use Phase::{Get90, GetChain, GetHit, GetMiss};
        matches!(self, GetHit | Get90 | GetMiss | GetChain) || self.is_batched()
    }

    /// Whether single keys are looked up, none of which needs the answer to the one before.
    pub(crate) fn is_single_get(self) -> bool {
        matches!(self, Phase::GetHit | Phase::Get90 | Phase::GetMiss)
    }

    /// Whether this reads in calls that can each have a time to start.
    pub(crate) fn is_paced(self) -> bool {
        self.is_single_get() || self.is_batched() || self == Phase::Range
    }

    /// Whether keys are given to the store in batches.
    pub(crate) fn is_batched(self) -> bool {
        matches!(self, Phase::GetManyHit | Phase::GetManyMiss)
    }

    /// Whether a run begins with a new store there, and ends with all records in it.
    pub(crate) fn begins_empty(self) -> bool {
        use Phase::{Build, Insert, InsertEach, InsertRandom, InsertSync};
        matches!(self, Build | Insert | InsertRandom | InsertEach | InsertSync)
    }

    /// Whether single changes are made, each phase on stores of its own.
    pub(crate) fn is_changing(self) -> bool {
        use Phase::{Insert, InsertEach, InsertRandom, InsertSync, Reinsert, Remove};
        matches!(self, Insert | InsertRandom | InsertEach | InsertSync | Reinsert | Remove)
            || self.is_mixed()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl TryFrom<String> for Phase {
    type Error = String;

    fn try_from(name: String) -> std::result::Result<Phase, String> {
        Phase::named(&name).ok_or_else(|| {
            let all: Vec<&str> = Phase::ALL.iter().map(Phase::name).collect();
            let all = all.join(", ");
            format!(
                "there is no phase '{name}'; there are {all}, and mixed-NAME for a mix of this name"
            )
        })
    }
}

impl From<Phase> for String {
    fn from(phase: Phase) -> String {
        phase.name().to_owned()
    }
}

/// Takes the name of a phase on a command line, where the names of a workload's mixes are not known yet.
#[derive(Clone)]
pub(crate) struct PhaseParser;

impl TypedValueParser for PhaseParser {
    type Value = Phase;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> std::result::Result<Phase, clap::Error> {
        let of_mix = value.to_str().and_then(Phase::named);
        of_mix.map_or_else(|| EnumValueParser::new().parse_ref(command, arg, value), Ok)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = Phase::value_variants().iter();
        Some(Box::new(all.filter_map(Phase::to_possible_value)))
    }
}

/// Where records come from.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Decimal,
    Tokens,
    Ups,
    Churn,
    /// Random keys of a type, and bytes, of given lengths.
    Random(Random),
    Ntdb,
    Ycsb(Ycsb),
    /// Every path below a folder.
    Files {
        root: PathBuf,
    },
    /// The words of the machine's dictionary.
    Words,
    /// The records of a file; without a format, its content tells it.
    File {
        path: PathBuf,
        format: Option<Format>,
    },
}

impl Data {
    /// The data set of this name, if there is one; only YCSB's has parameters behind it.
    fn named(text: &str) -> Result<Option<Data>> {
        Ok(Some(match text {
            "decimal" => Data::Decimal,
            "tokens" => Data::Tokens,
            "ups" => Data::Ups,
            "churn" => Data::Churn,
            "random" => Data::Random(Random::of_bytes(16, 100)),
            "ntdb" => Data::Ntdb,
            "files" => Data::Files { root: PathBuf::from("/usr") },
            "words" => Data::Words,
            _ => match Parameters::split(text) {
                ("ycsb", parameters) => {
                    let mut given = Parameters::of("ycsb", parameters)?;
                    let data = Data::Ycsb(Ycsb::of(&mut given)?);
                    given.all_known()?;
                    data
                }
                _ => return Ok(None),
            },
        }))
    }

    /// Where the data came from, in words.
    pub(crate) fn origin(&self) -> String {
        match self {
            Data::Random(sizes) if sizes.is_compressible() => {
                format!("generated, with a compression ratio of {}", sizes.compression_ratio())
            }
            Data::Decimal
            | Data::Tokens
            | Data::Ups
            | Data::Churn
            | Data::Random(_)
            | Data::Ntdb
            | Data::Ycsb(_) => "generated".to_owned(),
            Data::Files { root } => root.display().to_string(),
            Data::Words => files::WORDS.to_owned(),
            Data::File { path, .. } => path.display().to_string(),
        }
    }
}

/// What a run does to each store.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) data: Data,
    /// Records to use at most; `None` is the data set's own number.
    pub(crate) records: Option<usize>,
    /// `None` is all, or those for a cold cache.
    pub(crate) phases: Option<Vec<Phase>>,
    pub(crate) gets: usize,
    pub(crate) batch: usize,
    pub(crate) seed: u64,
    /// Which keys are looked up in the get phases, of those that are there.
    pub(crate) distribution: Distribution,
    /// In which order records come into a store.
    pub(crate) insert_order: InsertOrder,
    /// What `mixed` does.
    pub(crate) mixes: Mixes,
    /// How stores are to be set up.
    pub(crate) settings: Choices,
}

/// A workload file. Every field but `data` has a default; options of the command line win.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    name: Option<String>,
    /// The name of a data set, YCSB's with its parameters, or the path of a file of records, relative to the workload file.
    data: String,
    format: Option<String>,
    /// For `data = "files"`: the folder.
    root: Option<PathBuf>,
    /// For `data = "random"`: what keys and values are, and bytes of each.
    #[serde(rename = "key-type")]
    key_type: Option<String>,
    #[serde(rename = "value-type")]
    value_type: Option<String>,
    #[serde(rename = "key-size")]
    key_size: Option<Lengths>,
    #[serde(rename = "value-size")]
    value_size: Option<Lengths>,
    /// For `data = "random"`: what part of its size a codec that is good at repetitions leaves of a value.
    #[serde(rename = "compression-ratio")]
    compression_ratio: Option<f64>,
    records: Option<Count>,
    phases: Option<Vec<Phase>>,
    gets: Option<Count>,
    batch: Option<usize>,
    seed: Option<u64>,
    distribution: Option<Distribution>,
    #[serde(rename = "insert-order")]
    insert_order: Option<InsertOrder>,
    mix: Option<MixTables>,
    settings: Option<SettingsTable>,
}

impl Workload {
    const GETS: usize = 1_000_000;
    const BATCH: usize = 32;
    const SEED: u64 = 1;

    pub(crate) fn over(name: &str, data: Data) -> Workload {
        Workload {
            name: name.to_owned(),
            data,
            records: None,
            phases: None,
            gets: Workload::GETS,
            batch: Workload::BATCH,
            seed: Workload::SEED,
            distribution: Distribution::Uniform,
            insert_order: InsertOrder::Given,
            mixes: Mixes::default(),
            settings: Choices::default(),
        }
    }

    /// `ycsb-a` to `ycsb-f`, a load and then the operations, with the parameters of the records behind it, and
    /// of scans where there are any.
    fn ycsb(text: &str) -> Result<Option<Workload>> {
        let (name, parameters) = Parameters::split(text);
        let Some(mut mix) = name.strip_prefix("ycsb-").and_then(Mix::ycsb) else {
            return Ok(None);
        };
        let mut given = Parameters::of(name, parameters)?;
        let data = Data::Ycsb(Ycsb::of(&mut given)?);
        mix.take_scan_length(&mut given)?;
        given.all_known()?;
        Ok(Some(Workload {
            phases: Some(vec![Phase::Build, Phase::Mixed]),
            distribution: mix.distribution,
            mixes: mix.into(),
            ..Workload::over(text, data)
        }))
    }

    /// The workload of this name, or in this TOML file.
    pub(crate) fn find(name: &str) -> Result<Workload> {
        if let Some(data) = Data::named(name)? {
            return Ok(Workload::over(name, data));
        }
        if let Some(workload) = Workload::ycsb(name)? {
            return Ok(workload);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|e| e != "toml") {
            return Err(Error::invalid(format!(
                "there is no workload '{name}': say decimal, tokens, ups, churn, random, ntdb, ycsb, \
                 ycsb-a to ycsb-f, files, words, or the path of a .toml file"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", e).at(path))?;
        let file: WorkloadFile =
            toml::from_str(&text).map_err(|e| Error::invalid(e.to_string()).at(path))?;
        Workload::of_file(path, file).map_err(|e| e.at(path))
    }

    /// The records of a file.
    pub(crate) fn of_records(path: &Path, format: Option<Format>) -> Workload {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Workload::over(&name, Data::File { path: path.to_owned(), format })
    }

    fn of_file(path: &Path, file: WorkloadFile) -> Result<Workload> {
        let format = file.format.as_deref().map(str::parse).transpose()?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut data = Data::named(&file.data)?
            .unwrap_or_else(|| Data::File { path: folder.join(&file.data), format });
        if let (Data::Files { root }, Some(wanted)) = (&mut data, file.root) {
            *root = wanted;
        }
        match &mut data {
            Data::Random(sizes) => {
                sizes.key = file.key_size.unwrap_or(sizes.key);
                sizes.value = file.value_size.unwrap_or(sizes.value);
                if sizes.key.least() == 0 {
                    return Err(Error::invalid("key-size must be at least 1"));
                }
                let keys = typed("key", &KeyType::ALL, &file.key_type, &file.key_size)?;
                let of_values = &KeyType::OF_VALUES;
                let values = typed("value", of_values, &file.value_type, &file.value_size)?;
                *sizes = sizes.of_types(Types { keys, values });
                sizes.novel = ratio(file.compression_ratio, values)?;
            }
            _ if file.key_size.is_some()
                || file.value_size.is_some()
                || file.compression_ratio.is_some()
                || file.key_type.is_some()
                || file.value_type.is_some() =>
            {
                let what = "key-type, value-type, key-size, value-size and compression-ratio are for \
                            data = \"random\"; other data have theirs";
                return Err(Error::invalid(what));
            }
            _ => {}
        }
        let distribution = file.distribution.unwrap_or_default();
        let mixes = match file.mix {
            Some(tables) => tables.mixes(distribution)?,
            None => Mix::usual(distribution).into(),
        };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Workload {
            records: file.records.map(|count| count.0),
            phases: file.phases,
            gets: file.gets.map_or(Workload::GETS, |count| count.0),
            batch: file.batch.unwrap_or(Workload::BATCH),
            seed: file.seed.unwrap_or(Workload::SEED),
            distribution,
            insert_order: file.insert_order.unwrap_or_default(),
            mixes,
            settings: file.settings.map_or(Ok(Choices::default()), |table| table.choices())?,
            ..Workload::over(&file.name.unwrap_or(stem), data)
        })
    }

    /// Why the type of the keys leaves a phase out; `None` if it does not.
    pub(crate) fn leaves_out(&self, phase: Phase) -> Option<&'static str> {
        self.key_type().leaves_out(phase)
    }

    /// The type of the keys.
    pub(crate) fn key_type(&self) -> KeyType {
        self.types().keys
    }

    /// The types of keys and values.
    pub(crate) fn types(&self) -> Types {
        if let Data::Random(sizes) = &self.data { sizes.types } else { Types::default() }
    }

    /// Refuses what cannot be measured.
    pub(crate) fn check(&self) -> Result<()> {
        let least_one = [
            (self.records == Some(0), "--records"),
            (self.gets == 0, "--gets"),
            (self.batch == 0, "--batch"),
        ];
        for (is_zero, option) in least_one {
            if is_zero {
                return Err(Error::invalid(format!("{option} must be at least 1")));
            }
        }
        for (count, option) in [(self.records, "--records"), (Some(self.gets), "--gets")] {
            if count.is_some_and(|count| count > MAX_RECORDS) {
                return Err(Error::invalid(format!("{option} takes {MAX_RECORDS} at most")));
            }
        }
        self.mixes.check()?;
        self.settings.check()?;
        if self.insert_order != InsertOrder::Given && self.key_type().is_numbered() {
            let (order, keys) = (self.insert_order, self.key_type());
            return Err(Error::invalid(format!(
                "insert-order {order} contradicts keys of type {keys}, which the store gives to records in the \
                 order in which they come: leave one of both out"
            )));
        }
        if self.phases.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::invalid("there is no phase to measure"));
        }
        let is_of_no_mix = |phase: &&Phase| phase.is_mixed() && self.mixes.of(**phase).is_none();
        if let Some(phase) = self.phases.iter().flatten().find(is_of_no_mix) {
            let names: Vec<String> = self.mixes.phases().map(String::from).collect();
            let names = names.join(", ");
            let what = format!("the workload has no mix for the phase '{phase}'; it has {names}");
            return Err(Error::invalid(what));
        }
        let reasons = |phases: &Vec<Phase>| {
            phases.iter().map(|phase| self.leaves_out(*phase)).collect::<Option<Vec<_>>>()
        };
        if let Some(why) =
            self.phases.as_ref().and_then(reasons).and_then(|all| all.first().copied())
        {
            let keys = self.key_type();
            let what = format!("with keys of type {keys} no phase is left to measure: {why}");
            return Err(Error::invalid(what));
        }
        Ok(())
    }
}

/// The part of a value that no codec shortens, as it was asked for.
fn ratio(asked: Option<f64>, values: KeyType) -> Result<f64> {
    match asked {
        None => Ok(1.0),
        Some(ratio) if !(0.0..=1.0).contains(&ratio) || ratio == 0.0 => Err(Error::invalid(
            "compression-ratio is the part of its size that is left of a value: above 0, and 1 at most",
        )),
        Some(_) if values != KeyType::Binary => Err(Error::invalid(format!(
            "compression-ratio is for values of bytes, and these are of type {values}: leave one of both out"
        ))),
        Some(ratio) => Ok(ratio),
    }
}

/// The type of this name of a workload's keys or values, which has no other size than its own.
fn typed(
    what: &str,
    types: &[KeyType],
    name: &Option<String>,
    size: &Option<Lengths>,
) -> Result<KeyType> {
    let Some(name) = name else { return Ok(KeyType::Binary) };
    let found = key_type::find(&format!("{what}-type"), types, name)?;
    match found.width().filter(|_| size.is_some()) {
        None => Ok(found),
        Some(width) => Err(Error::invalid(format!(
            "{what}-size contradicts {what}-type {found}: such {what}s have {width} bytes; leave it out"
        ))),
    }
}
