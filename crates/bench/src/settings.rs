//! Settings that stores have in common and a user chooses: `--set`, and `[settings]` of a workload file.
//!
//! What nobody chose is as the driver has it: as the store's authors say that it is fastest. Each driver
//! declares what it takes (`Driver::SETTINGS`) and finds what was chosen in its `Shape`. A store that
//! cannot be as chosen takes no part, and is named: nothing is equalled in silence.

mod codec;
mod name;
mod takes;

use crate::driver::{self, Changes};
pub(crate) use codec::Codec;
use credenza::{Error, Result};
pub(crate) use name::Name;
use name::{Value, bytes_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;
pub(crate) use takes::{ALWAYS_MAPPED, Takes, Values, in_words};

/// The key of stores that are encrypted, 16 bytes and a NUL: what encrypting costs is measured, and nothing
/// is hidden.
pub(crate) const ENCRYPTION_KEY: &CStr = c"credenza's bench";

/// What was chosen for one store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chosen([Option<Value>; Name::ALL.len()]);

impl Chosen {
    /// For an experiment that has it so.
    pub(crate) fn in_memory() -> Chosen {
        Chosen::default().with(Name::Memory, Value::Switch(true))
    }

    /// The same.
    pub(crate) fn with_cache(bytes: u64) -> Chosen {
        Chosen::default().with(Name::Cache, Value::Bytes(bytes))
    }

    fn with(mut self, name: Name, value: Value) -> Chosen {
        self.0[name as usize] = Some(value);
        self
    }

    fn switch(&self, name: Name) -> Option<bool> {
        match self.0[name as usize] {
            Some(Value::Switch(is_on)) => Some(is_on),
            _ => None,
        }
    }

    fn number(&self, name: Name) -> Option<u64> {
        match self.0[name as usize] {
            Some(Value::Bytes(number) | Value::Count(number)) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn page_size(&self) -> Option<u64> {
        self.number(Name::PageSize)
    }

    /// The bytes of the cache, unless it is unlimited.
    pub(crate) fn cache(&self) -> Option<u64> {
        self.number(Name::Cache)
    }

    pub(crate) fn has_unlimited_cache(&self) -> bool {
        self.0[Name::Cache as usize] == Some(Value::Unlimited)
    }

    pub(crate) fn mmap(&self) -> Option<bool> {
        self.switch(Name::Mmap)
    }

    pub(crate) fn copy(&self) -> bool {
        self.switch(Name::Copy) == Some(true)
    }

    pub(crate) fn checksums(&self) -> Option<bool> {
        self.switch(Name::Checksums)
    }

    /// The codec of one of the settings that have such.
    fn codec(&self, name: Name) -> Codec {
        match self.0[name as usize] {
            Some(Value::Codec(codec)) => codec,
            _ => Codec::None,
        }
    }

    pub(crate) fn compression(&self) -> Codec {
        self.codec(Name::Compression)
    }

    pub(crate) fn key_compression(&self) -> Codec {
        self.codec(Name::KeyCompression)
    }

    pub(crate) fn journal_compression(&self) -> Codec {
        self.codec(Name::JournalCompression)
    }

    pub(crate) fn encryption(&self) -> bool {
        self.switch(Name::Encryption) == Some(true)
    }

    /// Whether there is a log, unless the store has none anyway.
    pub(crate) fn recovery(&self) -> bool {
        self.switch(Name::Recovery) != Some(false)
    }

    pub(crate) fn flush(&self) -> Option<bool> {
        self.switch(Name::Flush)
    }

    pub(crate) fn cursors(&self) -> bool {
        self.switch(Name::Cursors) == Some(true)
    }

    pub(crate) fn memory(&self) -> bool {
        self.switch(Name::Memory) == Some(true)
    }

    pub(crate) fn direct(&self) -> bool {
        self.switch(Name::Direct) == Some(true)
    }

    /// Whether the advice is that accesses are random.
    pub(crate) fn random(&self) -> Option<bool> {
        match self.0[Name::Advice as usize] {
            Some(Value::Random(is_random)) => Some(is_random),
            _ => None,
        }
    }

    pub(crate) fn extended_key_threshold(&self) -> Option<u64> {
        self.number(Name::ExtendedKeyThreshold)
    }

    pub(crate) fn duplicate_threshold(&self) -> Option<u64> {
        self.number(Name::DuplicateThreshold)
    }

    pub(crate) fn records_inline(&self) -> bool {
        self.switch(Name::RecordsInline) == Some(true)
    }

    pub(crate) fn direct_access(&self) -> bool {
        self.switch(Name::DirectAccess) == Some(true)
    }

    /// What is safe when a change has returned, where it would be this if nothing was chosen.
    pub(crate) fn changes(&self, usual: Changes) -> Changes {
        match usual {
            _ if self.memory() => Changes::Memory,
            Changes::Buffered if !self.recovery() => Changes::AtClose,
            usual => usual,
        }
    }

    /// These, where there are any, in place of others.
    fn over(self, others: Chosen) -> Chosen {
        let mut all = others;
        for (place, own) in all.0.iter_mut().zip(self.0) {
            *place = own.or(*place);
        }
        all
    }

    fn each(&self) -> impl Iterator<Item = (Name, Value)> {
        Name::ALL.into_iter().zip(self.0).filter_map(|(name, value)| Some((name, value?)))
    }

    /// Why a store that takes these cannot be as chosen; `None` if it can.
    pub(crate) fn unfit(&self, takes: &[Takes]) -> Option<String> {
        self.each().find_map(|(name, value)| {
            let values = takes.iter().find(|(own, _)| *own == name).map(|(_, values)| values);
            let setting = name.text();
            match values {
                Some(values) if values.has(value) => None,
                Some(values) => {
                    let values = values.text(name);
                    Some(format!("no {setting}={value}, but {values}"))
                }
                None if name.is_without(value) => None,
                None => Some(format!("no setting {setting} there")),
            }
        })
    }

    /// Refuses settings of which one makes the other void.
    fn check(&self) -> Result<()> {
        let of_files = [
            Name::Cache,
            Name::Mmap,
            Name::Copy,
            Name::Checksums,
            Name::Direct,
            Name::Advice,
            Name::Encryption,
            Name::Recovery,
            Name::Flush,
            Name::JournalCompression,
        ];
        let chosen = |name: &Name| self.0[*name as usize].is_some();
        if let Some(name) = of_files.into_iter().find(chosen).filter(|_| self.memory()) {
            let name = name.text();
            return Err(Error::invalid(format!(
                "memory=on contradicts {name}: there is no file then; leave one of both out"
            )));
        }
        if self.direct() && self.mmap() == Some(true) {
            return Err(Error::invalid(
                "direct=on contradicts mmap=on: a map is the kernel's memory; leave one of both out",
            ));
        }
        if self.copy() && self.mmap().is_some() {
            return Err(Error::invalid(
                "copy=on contradicts mmap: what is read is in memory then; leave one of both out",
            ));
        }
        if self.direct_access() && !self.memory() {
            return Err(Error::invalid(
                "direct-access=on is for what is in memory: add memory=on, or leave it out",
            ));
        }
        let of_the_log = self.flush() == Some(true) || self.journal_compression() != Codec::None;
        if !self.recovery() && of_the_log {
            return Err(Error::invalid(
                "recovery=off contradicts flush=on and journal-compression: there is no log then; leave \
                 one of both out",
            ));
        }
        let codec = self.key_compression();
        if codec.is_of_numbers() && self.page_size().is_some_and(|bytes| bytes != 16 << 10) {
            let codec = codec.text();
            return Err(Error::invalid(format!(
                "key-compression={codec} contradicts page-size: such keys are in pages of 16K; leave one \
                 of both out"
            )));
        }
        Ok(())
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> =
            self.each().map(|(name, value)| format!("{}={value}", name.text())).collect();
        f.write_str(&all.join(", "))
    }
}

/// What was chosen for all stores, and for some of them alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choices {
    all: Chosen,
    stores: BTreeMap<String, Chosen>,
}

impl Choices {
    /// Takes a choice, `NAME=VALUE` or `STORE.NAME=VALUE`, in place of an earlier one.
    pub(crate) fn set(&mut self, text: &str) -> Result<()> {
        let (place, value) = text.split_once('=').ok_or_else(|| {
            Error::invalid(format!("'{text}' sets nothing: say NAME=VALUE, or STORE.NAME=VALUE"))
        })?;
        match place.rsplit_once('.') {
            None => self.put(None, place, value),
            Some((store, name)) => self.put(Some(store), name, value),
        }
    }

    fn put(&mut self, store: Option<&str>, name: &str, value: &str) -> Result<()> {
        let name = Name::find(name)?;
        let value = name.value(value)?;
        let Some(store) = store else {
            self.all = self.all.with(name, value);
            return Ok(());
        };
        let takes = driver::settings_of(store)?;
        if let Some(why) = Chosen::default().with(name, value).unfit(takes) {
            return Err(Error::invalid(format!("{store}: {why}")));
        }
        let chosen = self.stores.entry(store.to_owned()).or_default();
        *chosen = chosen.with(name, value);
        Ok(())
    }

    /// What holds for a store.
    pub(crate) fn of(&self, store: &str) -> Chosen {
        self.stores.get(store).copied().unwrap_or_default().over(self.all)
    }

    /// Where it was chosen that a store cannot be so for this reason, with these choices on the command line: they
    /// win over the file. What is for one store alone is refused at once where it does not fit, and never here.
    pub(crate) fn origin(options: &[String], store: &str, why: &str) -> Result<&'static str> {
        let mut chosen = Choices::default();
        options.iter().try_for_each(|text| chosen.set(text))?;
        let is_option =
            chosen.of(store).unfit(driver::settings_of(store)?).is_some_and(|own| own == why);
        Ok(if is_option { "'--set'" } else { "'[settings]' of the workload file" })
    }

    /// Refuses what contradicts itself.
    pub(crate) fn check(&self) -> Result<()> {
        self.all.check()?;
        self.stores.keys().try_for_each(|store| self.of(store).check())
    }

    /// Whether any store is to be in memory.
    pub(crate) fn has_memory(&self) -> bool {
        self.all.memory() || self.stores.values().any(Chosen::memory)
    }

    /// The codec that any store is to have for keys that are numbers of 32 bits.
    pub(crate) fn codec_of_numbers(&self) -> Option<Codec> {
        let of = |chosen: &Chosen| Some(chosen.key_compression()).filter(|c| c.is_of_numbers());
        of(&self.all).or_else(|| self.stores.values().find_map(of))
    }

    /// Whether any store is to have no log of its changes.
    pub(crate) fn has_no_recovery(&self) -> bool {
        !self.all.recovery() || self.stores.values().any(|chosen| !chosen.recovery())
    }

    /// Whether any store is to make values shorter.
    pub(crate) fn compresses(&self) -> bool {
        let has = |chosen: &Chosen| {
            [chosen.compression(), chosen.journal_compression()].iter().any(|c| *c != Codec::None)
        };
        has(&self.all) || self.stores.values().any(has)
    }

    /// Whether any store is to tell the kernel something of its accesses.
    pub(crate) fn has_advice(&self) -> bool {
        let has = |chosen: &Chosen| chosen.random().is_some();
        has(&self.all) || self.stores.values().any(has)
    }

    /// Each as it was written.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let all = self.all.each().map(|(name, value)| format!("{}={value}", name.text()));
        let of_store = |(store, chosen): (&String, &Chosen)| {
            let own = chosen.each();
            let own = own.map(|(name, value)| format!("{store}.{}={value}", name.text()));
            own.collect::<Vec<_>>()
        };
        all.chain(self.stores.iter().flat_map(of_store)).collect()
    }
}

/// The table `[settings]` of a workload file, with a table in it for what is for one store.
#[derive(Deserialize)]
pub(crate) struct SettingsTable(BTreeMap<String, Given>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Switch(bool),
    Number(u64),
    Text(String),
    Store(BTreeMap<String, Given>),
}

impl SettingsTable {
    pub(crate) fn choices(&self) -> Result<Choices> {
        let mut choices = Choices::default();
        for (name, given) in &self.0 {
            match given {
                Given::Store(table) => table.iter().try_for_each(|(name_of, given)| {
                    choices.put(Some(name), name_of, &given.text())
                })?,
                given => choices.put(None, name, &given.text())?,
            }
        }
        Ok(choices)
    }
}

impl Given {
    fn text(&self) -> String {
        match self {
            Given::Switch(is_on) => Value::Switch(*is_on).to_string(),
            Given::Number(number) => number.to_string(),
            Given::Text(text) => text.clone(),
            // Only settings of one store are a table: this is no value of any.
            Given::Store(_) => "a table".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(texts: &[&str]) -> Result<Choices> {
        let mut choices = Choices::default();
        texts.iter().try_for_each(|text| choices.set(text))?;
        choices.check().map(|()| choices)
    }

    #[test]
    fn what_is_set_is_read_and_printed() {
        let all = [
            "page-size=16K",
            "cache=64M",
            "mmap=off",
            "copy=off",
            "checksums=on",
            "compression=zstd",
            "key-compression=prefix",
            "journal-compression=none",
            "encryption=on",
            "recovery=on",
            "flush=off",
            "cursors=on",
            "direct=on",
            "advice=random",
            "extended-key-threshold=64",
            "duplicate-threshold=1024",
            "records-inline=on",
            "direct-access=off",
        ];
        let chosen = choices(&all).unwrap().of("rocksdb");
        assert_eq!(chosen.to_string(), all.join(", "));
        assert_eq!((chosen.page_size(), chosen.cache()), (Some(16 << 10), Some(64 << 20)));
        assert_eq!((chosen.mmap(), chosen.checksums()), (Some(false), Some(true)));
        assert_eq!(chosen.extended_key_threshold(), Some(64));
        assert!(chosen.duplicate_threshold() == Some(1024) && chosen.records_inline());
        assert_eq!((chosen.compression(), chosen.random()), (Codec::Zstd, Some(true)));
        assert_eq!(
            (chosen.key_compression(), chosen.journal_compression()),
            (Codec::Prefix, Codec::None)
        );
        assert!(
            chosen.encryption()
                && chosen.recovery()
                && chosen.flush() != Some(true)
                && chosen.cursors()
        );
        assert!(chosen.direct() && !chosen.memory() && !chosen.has_unlimited_cache());
        assert!(!choices(&["recovery=off"]).unwrap().of("sqlite").recovery());
        assert!(choices(&["cache=unlimited"]).unwrap().of("upscaledb").has_unlimited_cache());
        assert!(choices(&["memory=on"]).unwrap().of("hash").memory());
        let direct = ["memory=on", "upscaledb.direct-access=on"];
        assert!(choices(&direct).unwrap().of("upscaledb").direct_access());
        assert!(!choices(&direct).unwrap().of("hash").direct_access());
        assert_eq!([1, 1000, 1536, 1 << 20].map(bytes_text), ["1", "1000", "1536", "1M"]);
    }

    #[test]
    fn without_a_log_nothing_outlives_the_process() {
        let changes = |text| choices(&[text]).unwrap().of("sqlite").changes(Changes::Buffered);
        assert_eq!(changes("recovery=on"), Changes::Buffered);
        assert_eq!(changes("recovery=off"), Changes::AtClose);
        assert_eq!(changes("memory=on"), Changes::Memory);
    }

    #[test]
    fn what_is_for_one_store_is_for_it_alone_and_wins() {
        let of = choices(&["leveldb.cache=8M", "cache=1M", "page-size=4K"]).unwrap();
        assert_eq!(of.of("leveldb").to_string(), "page-size=4K, cache=8M");
        assert_eq!(of.of("sqlite").to_string(), "page-size=4K, cache=1M");
        assert_eq!(of.in_words(), ["page-size=4K", "cache=1M", "leveldb.cache=8M"]);
        let later = choices(&["cache=1M", "cache=2M"]).unwrap();
        assert_eq!(later.in_words(), ["cache=2M"]);
    }

    #[test]
    fn a_table_says_the_same() {
        let text = "page-size = 4096\nmmap = false\n[leveldb]\ncache = \"8M\"";
        let table: SettingsTable = toml::from_str(text).unwrap();
        let expected = choices(&["page-size=4096", "mmap=off", "leveldb.cache=8M"]).unwrap();
        assert_eq!(table.choices().unwrap(), expected);
        for text in ["colour = 1", "mmap = 7", "[leveldb]\nmmap = true", "[leveldb.cache]\na = 1"] {
            let table: SettingsTable = toml::from_str(text).unwrap();
            assert!(table.choices().is_err(), "{text}");
        }
    }

    #[test]
    fn what_there_is_not_and_what_contradicts_is_refused_in_words() {
        for (texts, what) in [
            (&["colour=red"][..], "no setting 'colour'; there are page-size, cache, mmap"),
            (&["cache"], "say NAME=VALUE, or STORE.NAME=VALUE"),
            (&["cache=much"], "cache=much is no value of this setting: say a number of bytes"),
            (&["page-size=0"], "as 4096 or 16K"),
            (&["mmap=yes"], "say on or off"),
            (&["compression=rar"], "say none, snappy, zlib, lz4"),
            (&["advice=bad"], "say normal or random"),
            (&["extended-key-threshold=all"], "say a number of bytes, as 64"),
            (&["duplicate-threshold=0"], "say a number of values, as 8"),
            (&["duplicate-threshold=4K"], "say a number of values, as 8"),
            (&["records-inline=1"], "say on or off"),
            (
                &["upscaledb.extended-key-threshold=1K"],
                "upscaledb: no extended-key-threshold=1K, but 1 to 250",
            ),
            (
                &["upscaledb.duplicate-threshold=128"],
                "upscaledb: no duplicate-threshold=128, but 1 to 127",
            ),
            (&["btree.duplicate-threshold=8"], "btree: no setting duplicate-threshold there"),
            (&["nothing.cache=1M"], "there is no store 'nothing'"),
            (&["hash.cache=1M"], "hash: no setting cache there"),
            (
                &["sqlite.page-size=3K"],
                "sqlite: no page-size=3K, but powers of two from 512 to 64K",
            ),
            (&["memory=on", "cache=1M"], "memory=on contradicts cache"),
            (&["memory=on", "sqlite.mmap=off"], "memory=on contradicts mmap"),
            (&["copy=on", "mmap=off"], "copy=on contradicts mmap"),
            (&["memory=on", "copy=on"], "memory=on contradicts copy"),
            (&["hash.copy=on"], "hash: no setting copy there"),
            (&["direct=on", "mmap=on"], "direct=on contradicts mmap=on"),
            (&["direct-access=on"], "direct-access=on is for what is in memory: add memory=on"),
            (&["hash.direct-access=on"], "hash: no setting direct-access there"),
            (&["hash.mmap=off"], "hash: no mmap=off, but on, as always"),
            (&["memory=on", "encryption=on"], "memory=on contradicts encryption"),
            (&["recovery=off", "flush=on"], "recovery=off contradicts flush=on"),
            (&["recovery=off", "rocksdb.journal-compression=zstd"], "recovery=off contradicts"),
            (&["sqlite.key-compression=zlib"], "sqlite: no setting key-compression there"),
            (&["key-compression=zint32"], "prefix, zint32-varbyte, zint32-simdcomp, zint32-group"),
            (&["bdb-btree.key-compression=zint32-for"], "but none, prefix"),
            (
                &["upscaledb.key-compression=zint32-for", "page-size=4K"],
                "key-compression=zint32-for contradicts page-size",
            ),
        ] {
            let refused = choices(texts).unwrap_err().to_string();
            assert!(refused.contains(what), "{texts:?}: {refused}");
        }
    }
}
