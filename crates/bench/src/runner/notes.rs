//! What a reader must know before quoting a figure: where it was measured, and what was left out.

use super::together::By;
use crate::args::BenchArgs;
use crate::driver::{Announces, Sharing, Threads, announces, has_keys_of, has_values_of};
use crate::report::text;
use crate::result::{Machine, StoreInfo};
use crate::workload::{Action, Data, KeyType, Mix, Mixes, Phase, Types, Workload};

/// Why stores do no phase that changes them.
const BUILT_ONCE: &str = "they are built once and never changed";
/// Why stores do not go to several processes.
const ONE_PROCESS: &str = "only one process at a time may open them, the way the workbench does";

pub(super) fn about_folder(
    args: &BenchArgs,
    phases: &[Phase],
    mixes: &Mixes,
    filesystem: &str,
) -> Vec<String> {
    let mut notes = Vec::new();
    let synced = phases.iter().filter(|phase| mixes.is_synced(**phase));
    let synced: Vec<String> = synced.map(|phase| format!("`{phase}`")).collect();
    if filesystem == "tmpfs" && !synced.is_empty() {
        let phases = synced.join(", ");
        notes.push(format!("the folder is in memory (tmpfs): in {phases} nobody waits for a disk"));
    }
    if filesystem == "tmpfs" && args.cold {
        notes.push("the folder is in memory (tmpfs): nothing on it can be cold".to_owned());
    }
    if filesystem == "tmpfs" && args.memory_limit.is_some() {
        notes.push(
            "the folder is in memory (tmpfs): the files are memory as well, which the limit holds \
             and nothing can free"
                .to_owned(),
        );
    }
    notes
}

/// What builds bring to a disk that nobody asked for: some stores all of it, some nothing.
pub(super) fn about_builds(
    args: &BenchArgs,
    phases: &[Phase],
    stores: &[StoreInfo],
    filesystem: &str,
) -> Option<String> {
    if filesystem == "tmpfs" || args.sync || !phases.contains(&Phase::Build) {
        return None;
    }
    let mut by_what: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut others = Vec::new();
    for StoreInfo { store, syncs, .. } in stores.iter().filter(|info| !info.is_server) {
        if syncs.starts_with("none") {
            others.push(&**store);
            continue;
        }
        match by_what.iter_mut().find(|(what, _)| what == syncs) {
            Some((_, stores)) => stores.push(store),
            None => by_what.push((syncs, vec![store])),
        }
    }
    let syncing = by_what.iter().map(|(what, stores)| format!("{} ({what})", stores.join(", ")));
    let syncing = syncing.collect::<Vec<_>>().join("; ");
    let that_do_not = match (syncing.is_empty(), others.is_empty()) {
        (true, _) => return None,
        (false, true) => String::new(),
        (false, false) => format!(", that of {} does not", others.join(", ")),
    };
    Some(format!(
        "the folder is on a disk ({filesystem}): `build` waits for it in {}{that_do_not}; use --sync, or a \
         folder on tmpfs, to compare builds",
        syncing
    ))
}

/// Other programs share caches and memory with the measured one, whatever processor it has.
pub(super) fn about_load(machine: &Machine) -> Option<String> {
    let [load, ..] = machine.load_average;
    (load > 0.5).then(|| {
        format!(
            "other programs were running (load average {load:.1} on {}): times differ more from \
             round to round, and single figures are not to be quoted",
            text::counted(machine.cores, "core")
        )
    })
}

/// Stores without a figure in phases that were asked for: why there is none, once for all of these.
pub(super) fn about_what_is_left_out(
    stores: &[StoreInfo],
    phases: &[Phase],
    mixes: &Mixes,
    are_opened: bool,
) -> Vec<String> {
    let mut notes: Vec<(Vec<Phase>, String, &str)> = Vec::new();
    for phase in phases {
        let lacks = |info: &&StoreInfo| info.lacks.iter().any(|name| name == phase.name());
        let changes = phase.is_changing() && !mixes.only_reads(*phase);
        let is_built_once = |info: &&StoreInfo| changes && info.changes_class.is_none();
        let (once, others): (Vec<&StoreInfo>, Vec<&StoreInfo>) =
            stores.iter().filter(lacks).partition(is_built_once);
        let why = why_left_out(*phase, mixes, are_opened);
        for (left, why) in [(once, BUILT_ONCE), (others, why)] {
            let names: Vec<&str> = left.iter().map(|info| &*info.store).collect();
            let names = names.join(", ");
            match notes.iter_mut().find(|(_, of, because)| (&**of, *because) == (&*names, why)) {
                _ if names.is_empty() => {}
                Some((phases, ..)) => phases.push(*phase),
                None => notes.push((vec![*phase], names, why)),
            }
        }
    }
    let in_words = |(phases, names, why): (Vec<Phase>, String, &str)| {
        let phases: Vec<String> = phases.iter().map(|phase| format!("'{phase}'")).collect();
        let leave = if phases.len() == 1 { "leaves" } else { "leave" };
        format!("{} {leave} out {names}: {why}", phases.join(", "))
    };
    notes.into_iter().map(in_words).collect()
}

/// Why a phase leaves out stores, of which those are named apart that are built once, where it changes them.
fn why_left_out(phase: Phase, mixes: &Mixes, are_opened: bool) -> &'static str {
    let is = |asks: fn(&Mix) -> bool| mixes.of(phase).is_some_and(asks);
    match phase {
        Phase::Range => "their records are in no order",
        Phase::InsertEach => "they have no transactions that outlive the process",
        Phase::InsertSync => "the workbench does not have each of their changes on the disk",
        _ if is(|mix| mix.sync) => {
            "the workbench does not have each of their changes on the disk, or they cannot do what \
             else the mix asks for"
        }
        _ if are_opened => {
            "the workbench does not open them again for changes, or they cannot do what the phase \
             asks for"
        }
        _ if is(|mix| mix.duplicates.is_some()) => {
            "the workbench has no several values of theirs for a key in the order in which they were \
             put there, or none together with what else the mix asks for"
        }
        _ if is(|mix| mix.reopen) => {
            "the workbench does not open them again for changes, or they cannot do what the mix asks \
             for"
        }
        _ if is(|mix| mix.transactions.is_some()) => {
            "the workbench has no transactions of theirs for several operations, or they are in no \
             order and the mix scans"
        }
        _ if is(|mix| mix.does(Action::Scan)) => {
            "it scans ranges, and their records are in no order, or they are built once and a mix \
             before it changes them"
        }
        _ => BUILT_ONCE,
    }
}

/// The store that ratios were to be against, if it takes no part.
pub(super) fn about_baseline(args: &BenchArgs, stores: &[StoreInfo]) -> Option<String> {
    let is_there = |baseline: &&String| stores.iter().any(|info| info.store == **baseline);
    let missing = args.baseline.as_ref().filter(|baseline| !is_there(baseline))?;
    Some(format!(
        "--baseline {missing}: it is not measured here; ratios are against the first store"
    ))
}

/// What the types of keys and values are not to all stores, and the phases that that of the keys leaves out.
pub(super) fn about_types(
    stores: &[StoreInfo],
    asked_for: &[Phase],
    workload: &Workload,
) -> Vec<String> {
    let types = workload.types();
    let left_out = |phase: &Phase| {
        let (why, keys) = (workload.leaves_out(*phase)?, types.keys);
        Some(format!("with keys of type {keys} '{phase}' is left out: {why}"))
    };
    let mut notes: Vec<String> = asked_for.iter().filter_map(left_out).collect();
    let names: Vec<&str> = stores.iter().map(|info| &*info.store).collect();
    notes.extend(are_bytes(&names, types));
    notes
}

/// That codecs have nothing to gain, where the values of the data are random bytes.
pub(super) fn about_compression(workload: &Workload) -> Option<String> {
    let is_random = match &workload.data {
        Data::Ups | Data::Churn => true,
        Data::Random(sizes) => !sizes.is_compressible(),
        _ => false,
    };
    (is_random && workload.settings.compresses()).then(|| {
        "values are random bytes, which no codec shortens: compression costs here and gains nothing; measure \
         it with your own data (--data), or with compression-ratio in a workload file of data = \"random\""
            .to_owned()
    })
}

/// The stores to which keys or values of these types are bytes.
pub(crate) fn are_bytes(stores: &[&str], types: Types) -> Vec<String> {
    let note = |what: &str, of: KeyType, has: fn(&str, KeyType) -> bool| {
        let names: Vec<&str> = stores.iter().copied().filter(|name| !has(name, of)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{what} of type {of} are bytes to {}: they have no such type, or the workbench does not use it",
                names.join(", ")
            )
        })
    };
    let keys = note("keys", types.keys, has_keys_of);
    keys.into_iter().chain(note("values", types.values, has_values_of)).collect()
}

/// What stores in order have easier with `decimal`, whose absent keys are all behind the largest that is there.
pub(super) fn about_absent_keys(
    workload: &Workload,
    phases: &[Phase],
    stores: &[StoreInfo],
) -> Option<String> {
    let misses = [Phase::Get90, Phase::GetMiss, Phase::GetManyMiss];
    let phases = phases.iter().filter(|phase| misses.contains(phase));
    let phases: Vec<String> = phases.map(|phase| format!("`{phase}`")).collect();
    let range = Phase::Range.to_string();
    let in_order = stores.iter().filter(|info| !info.lacks.contains(&range));
    let names: Vec<&str> = in_order.map(|info| &*info.store).collect();
    let is_decimal = matches!(workload.data, Data::Decimal);
    let is_told = is_decimal && !phases.is_empty() && !names.is_empty();
    is_told.then(|| {
        format!(
            "keys of `decimal` that are not there, in {}, are all above the largest that is, as in mcdb's own \
             test: stores in order ({}) answer them at their last leaf; other workloads have them between \
             those that are there",
            phases.join(", "),
            names.join(", ")
        )
    })
}

/// What the figures of a server are not: it says so of itself.
pub(super) fn about_servers(stores: &[StoreInfo]) -> Vec<String> {
    let servers = stores.iter().filter(|info| info.is_server);
    servers.map(|info| format!("{}: {}", info.store, info.notes.join("; "))).collect()
}

/// The stores that stand, when cold, beside others of which the kernel is told how they are read.
pub(super) fn about_cold(
    args: &BenchArgs,
    phases: &[Phase],
    stores: &[StoreInfo],
) -> Option<String> {
    let (unlike, why) = match args.read_ahead {
        true => (
            Announces::Random,
            "announce random access by themselves: the kernel does not read ahead for them",
        ),
        false => (
            Announces::Nothing,
            "announce nothing, as the others announce random access: the kernel reads ahead for them as it \
             likes",
        ),
    };
    let (unlikes, others): (Vec<&StoreInfo>, Vec<&StoreInfo>) =
        stores.iter().partition(|info| announces(&info.store) == Some(unlike));
    let names: Vec<&str> = unlikes.iter().map(|info| &*info.store).collect();
    let are_read = phases.iter().any(|phase| !phase.is_changing() && *phase != Phase::Build);
    (args.cold && are_read && !names.is_empty() && !others.is_empty()).then(|| {
        let option = if args.read_ahead { "--cold --read-ahead" } else { "--cold" };
        format!("{option}: {} {why}", names.join(", "))
    })
}

/// The stores that several do not read at once, or not beside a writer, or do not commit to; and what there are too few
/// processors for.
pub(super) fn about_sharing(
    args: &BenchArgs,
    phases: &[Phase],
    stores: &[StoreInfo],
    cores: usize,
) -> Vec<String> {
    let has_readers = phases.iter().any(|phase| phase.is_get());
    let named = |is_one: &dyn Fn(&StoreInfo) -> bool| {
        let names = stores.iter().filter(|info| is_one(info)).map(|info| &*info.store);
        names.collect::<Vec<_>>().join(", ")
    };
    let mut notes = Vec::new();
    let mut leave_out = |what: &str, names: String, why: &str| {
        if !names.is_empty() {
            notes.push(format!("'{what}' leaves out {names}: {why}"));
        }
    };
    if !args.processes.is_empty() && has_readers {
        let is_alone = |info: &StoreInfo| info.sharing == Sharing::Alone.name();
        leave_out("--processes", named(&is_alone), ONE_PROCESS);
    }
    let commits = |phase: &&Phase| **phase == Phase::InsertSync || phase.is_mixed();
    let is_asked = |by: &By| !args.reader_counts(*by).is_empty();
    for by in [By::Processes, By::Threads].into_iter().filter(is_asked) {
        for phase in phases.iter().filter(commits) {
            let what = format!("{phase} --{}", by.name());
            let lacks = |info: &StoreInfo| info.lacks.iter().any(|name| name == phase.name());
            let why = format!(
                "the workbench knows no way of theirs for several {} that commit",
                by.name()
            );
            let have_locks = |info: &StoreInfo| match by {
                By::Processes => info.committing_processes,
                By::Threads => info.committing_threads,
            };
            let is_alone =
                |info: &StoreInfo| by == By::Processes && info.sharing == Sharing::Alone.name();
            let is_left_out = |info: &StoreInfo| !have_locks(info) && !lacks(info);
            leave_out(&what, named(&|info| is_left_out(info) && is_alone(info)), ONE_PROCESS);
            leave_out(&what, named(&|info| is_left_out(info) && !is_alone(info)), &why);
        }
    }
    if !args.threads.is_empty() && has_readers {
        let is_one = |info: &StoreInfo| info.threads == Threads::One.name();
        let why = "their libraries are not made for several threads, or give a value in a place that \
                   another thread's lookup changes";
        leave_out("--threads", named(&is_one), why);
    }
    if args.with_writer && !args.processes.is_empty() {
        let why = "one process at a time may open them, they are built once, or the workbench has no \
                   locks of theirs for it";
        let is_unchanged = |info: &StoreInfo| info.sharing != Sharing::Writer.name();
        leave_out("--processes --with-writer", named(&is_unchanged), why);
    }
    if args.with_writer && !args.threads.is_empty() {
        let why = "they are built once, are not made for several threads, or the workbench has no \
                   locks of theirs for it";
        leave_out("--threads --with-writer", named(&|info: &StoreInfo| !info.writer_thread), why);
    }
    for by in [By::Processes, By::Threads] {
        let counts = args.reader_counts(by);
        let all = counts.last().map_or(0, |most| most + usize::from(args.with_writer));
        let do_mixes = phases.iter().any(|phase| phase.is_mixed());
        if all > cores && (has_readers || do_mixes) {
            let share =
                if cores == 1 { "one processor".to_owned() } else { format!("{cores} processors") };
            notes.push(format!(
                "up to {all} {} at once share {share}: more of them cannot do more than these can",
                by.name()
            ));
        }
    }
    notes
}

/// The notes of all runs of a series, each with its number of records: what all say is said once.
pub(super) fn of_series(runs: Vec<(u64, Vec<String>)>) -> Vec<String> {
    let say_all = |note: &String| runs.iter().all(|(_, notes)| notes.contains(note));
    let mut said: Vec<String> = Vec::new();
    for (records, notes) in &runs {
        for note in notes {
            let is_common = say_all(note);
            let note =
                if is_common { note.clone() } else { format!("with {records} records: {note}") };
            if !said.contains(&note) {
                said.push(note);
            }
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::Describe;
    use crate::driver::{Shape, with_driver};
    use crate::result::Report;
    use crate::workload::Records;
    use clap::Parser;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        args: BenchArgs,
    }

    /// What drivers of these stores say of themselves.
    fn described(names: &[&str]) -> Vec<StoreInfo> {
        let (shape, mixes) = (&Shape::of(&Records::default()), &Mixes::default());
        let of = |name: &&str| {
            let work =
                Describe { name, library: None, shape, class: "buffered", mixes, is_opened: false };
            with_driver(name, work).unwrap().unwrap()
        };
        names.iter().map(of).collect()
    }

    #[test]
    fn compression_of_random_bytes_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let told = |data: &str, set: &str| {
            let path = folder.path().join("mine.toml");
            std::fs::write(&path, format!("data = {data}\n")).unwrap();
            let mut workload = Workload::find(path.to_str().unwrap()).unwrap();
            workload.settings.set(set).unwrap();
            about_compression(&workload).is_some()
        };
        for set in ["compression=zlib", "leveldb.compression=snappy", "journal-compression=zlib"] {
            assert!(told("\"ups\"", set) && told("\"random\"", set), "{set}");
            assert!(!told("\"random\"\ncompression-ratio = 0.5", set) && !told("\"decimal\"", set));
        }
        assert!(!told("\"ups\"", "compression=none") && !told("\"ups\"", "cache=1M"));
    }

    #[test]
    fn stores_that_are_built_once_are_left_out_as_such() {
        let mut workload = Workload::find("ycsb-a").unwrap();
        workload.mixes.iter_mut().for_each(|mix| mix.transactions = "tmp".parse().ok());
        let mut stores = described(&["constant", "hash"]);
        let lacks = vec![Phase::Mixed.to_string()];
        stores.iter_mut().for_each(|info| info.lacks.clone_from(&lacks));
        let notes = about_what_is_left_out(&stores, &[Phase::Mixed], &workload.mixes, false);
        assert_eq!(notes[0], format!("'mixed' leaves out constant: {BUILT_ONCE}"));
        let of_hash = "'mixed' leaves out hash: the workbench has no transactions of theirs";
        assert!(notes.len() == 2 && notes[1].starts_with(of_hash), "{notes:?}");
    }

    #[test]
    fn phases_that_leave_out_the_same_stores_for_one_reason_are_told_together() {
        let workload = Workload::find("decimal").unwrap();
        let phases = [Phase::Insert, Phase::Range, Phase::Remove];
        let mut stores = described(&["constant", "hash", "redb"]);
        for (info, lacks) in stores.iter_mut().zip([&phases[..], &[Phase::Range], &[]]) {
            info.lacks = lacks.iter().map(Phase::to_string).collect();
        }
        let notes = about_what_is_left_out(&stores, &phases, &workload.mixes, false);
        let told = [
            format!("'insert', 'remove' leave out constant: {BUILT_ONCE}"),
            "'range' leaves out constant, hash: their records are in no order".to_owned(),
        ];
        assert_eq!(notes, told);
    }

    #[test]
    fn builds_that_wait_for_a_disk_are_told_from_those_that_do_not() {
        let stores = described(&["constant", "hash", "btree", "redb"]);
        let of = |args: &[&str], phases: &[Phase], stores: &[StoreInfo], filesystem: &str| {
            let args = Arguments::parse_from([&["bench"], args].concat()).args;
            about_builds(&args, phases, stores, filesystem)
        };
        let note = of(&[], &Phase::ALL, &stores, "ext4").unwrap();
        for says in [
            "`build` waits for it in constant (fdatasync and fsync of the folder at publish",
            "hash, btree (fdatasync when the last process closes it), that of redb does not;",
        ] {
            assert!(note.contains(says), "{note}");
        }
        assert!(!of(&[], &Phase::ALL, &stores[..3], "ext4").unwrap().contains("does not"));
        // Where none waits, or all do, or there is no disk, there is nothing to say.
        assert_eq!(of(&[], &Phase::ALL, &stores[3..], "ext4"), None);
        assert_eq!(of(&["--sync"], &Phase::ALL, &stores, "ext4"), None);
        assert_eq!(of(&[], &[Phase::GetHit], &stores, "ext4"), None);
        assert_eq!(of(&[], &Phase::ALL, &stores, "tmpfs"), None);
    }

    #[test]
    fn stores_that_announce_nothing_are_told_beside_others() {
        let of = |args: &[&str], phases: &[Phase], names: &[&str]| {
            let args = Arguments::parse_from([&["bench"], args].concat()).args;
            about_cold(&args, phases, &described(names))
        };
        let note = of(&["--cold"], &[Phase::GetHit], &["constant", "cdb", "tdb"]).unwrap();
        assert!(note.starts_with("--cold: cdb, tdb announce nothing"), "{note}");
        assert_eq!(of(&["--cold"], &[Phase::GetHit], &["cdb", "tdb"]), None);
        assert_eq!(of(&["--cold"], &[Phase::Build], &["constant", "cdb"]), None);
        assert_eq!(of(&[], &[Phase::GetHit], &["constant", "cdb"]), None);
    }

    #[test]
    fn where_absent_keys_are_easy_is_told() {
        let bytes = include_bytes!("../../tests/fixtures/report.json");
        let report: Report = serde_json::from_slice(bytes).unwrap();
        let mut stores = report.stores;
        stores.truncate(2);
        (stores[0].lacks, stores[1].lacks) = (vec!["range".to_owned()], Vec::new());
        let (hash, tree) = stores.split_at(1);
        let on = |name: &str, phases: &[Phase], stores: &[StoreInfo]| {
            about_absent_keys(&Workload::find(name).unwrap(), phases, stores)
        };
        let phases = [Phase::GetHit, Phase::Get90, Phase::GetMiss, Phase::GetManyMiss];
        let told = on("decimal", &phases, &[hash, tree].concat()).expect("a note");
        assert!(told.contains("in `get-90`, `get-miss`, `get-many-miss`,"), "{told}");
        assert!(told.contains(&format!("stores in order ({})", tree[0].store)), "{told}");
        assert_eq!(on("decimal", &phases[..1], tree), None);
        assert_eq!(on("decimal", &phases, hash), None);
        assert_eq!(on("churn", &phases, tree), None);
    }
}
