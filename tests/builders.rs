//! Danger: what is built can be read by others than will be allowed to; what nobody wants is written; or a store that lacks
//! what was put in takes the place of a good one.

mod common;

use common::mount::Mount;
use common::sys::{
    Status, become_nobody, die_beyond_file_size, forbid_threads, fork, give_up_after,
    limit_file_size,
};
use credenza::btree::BTree;
use credenza::constant::{BuildOptions, Builder, Constant};
use credenza::foreign::{Cdb64Writer, CdbWriter, McdbWriter};
use credenza::hash::Hash;
use credenza::stats::Statistics;
use credenza::{BTreeBuilder, BTreeLoad, Get, HashBuilder, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The modes of the files in a folder that are no stores yet.
fn modes_of_unfinished(folder: &Path) -> Vec<u32> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let unfinished = files.filter(|file| file.file_name().to_string_lossy().contains(".tmp"));
    unfinished.map(|file| file.metadata().unwrap().permissions().mode() & 0o777).collect()
}

#[test]
fn what_replaces_a_file_is_for_its_owner_alone_as_long_as_it_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("store");
    let mode_of = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let index = folder.path().join("store-index");
    for is_there in [false, true] {
        for is_hash in [true, false] {
            let _ = std::fs::remove_file(&target);
            let _ = std::fs::remove_file(&index);
            let usual = folder.path().join("usual");
            std::fs::write(&usual, "").unwrap();
            let wanted = if is_there { 0o640 } else { mode_of(&usual) };
            if is_there {
                std::fs::write(&target, "old").unwrap();
                std::fs::set_permissions(&target, PermissionsExt::from_mode(wanted)).unwrap();
            }
            let add = |f: &mut dyn FnMut(&[u8])| (0..9000u32).for_each(|i| f(&i.to_le_bytes()));
            let check = || {
                let modes = modes_of_unfinished(folder.path());
                let is_own = modes.iter().all(|mode| mode & 0o077 == 0);
                assert!(!modes.is_empty() && (is_own || !is_there), "{modes:?}");
            };
            if is_hash {
                let mut builder = HashBuilder::create(&target).unwrap();
                check();
                add(&mut |key| builder.add(key, key).unwrap());
                check();
                drop(builder.finish().unwrap());
                assert_eq!(mode_of(&index), wanted);
            } else {
                let mut builder = BTreeBuilder::create(&target).unwrap();
                check();
                add(&mut |key| builder.add(key, key).unwrap());
                check();
                drop(builder.finish().unwrap());
            }
            assert_eq!(mode_of(&target), wanted, "replaced: {is_there}");
        }
    }
    assert!(modes_of_unfinished(folder.path()).is_empty());
}

/// An index that is made for a store is for those that the store is for.
#[test]
fn an_index_has_the_mode_of_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let index = folder.path().join("store-index");
    drop(Hash::create(&path).unwrap());
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::remove_file(&index).unwrap();
    Hash::open(&path).unwrap().insert(b"key", b"value").unwrap();
    let mode = std::fs::metadata(&index).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "{mode:o}");
}

#[test]
fn a_load_that_is_given_up_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    let mut load = BTreeLoad::begin(&store, None);
    for i in (0..60_000u32).rev() {
        load.add(&i.to_le_bytes(), &[7; 100]).unwrap();
    }
    drop(load);
    let after = std::fs::metadata(&path).unwrap().len();
    assert!(after < before + (2 << 20), "{before} bytes before, {after} after");
    assert_eq!(store.read().unwrap().main().len(), 1);
}

/// A record over the limit is refused by itself: those before it are not lost with it.
#[test]
fn a_record_that_is_too_large_takes_no_other_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let key = |i: u32| i.to_le_bytes();
    let mut hash = HashBuilder::create(folder.path().join("hash")).unwrap();
    let mut constant = Builder::create(folder.path().join("constant")).unwrap();
    for i in 0..5000 {
        if i == 100 {
            hash.add(&[0; 65_537], b"").unwrap_err();
            constant.add(&[0; 65_537], b"").unwrap_err();
        }
        hash.add(&key(i), b"value").unwrap();
        constant.add(&key(i), b"value").unwrap();
    }
    assert_eq!(hash.replaced().unwrap(), 0);
    assert_eq!(hash.finish().unwrap().len().unwrap(), 5000);
    assert_eq!(constant.finish().unwrap().records, 5000);
}

/// The disk is full for a while: what was added meanwhile is lost, so that nothing may be published.
#[test]
fn a_builder_that_failed_once_publishes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for is_hash in [false, true] {
        let target = folder.path().join(if is_hash { "hash" } else { "constant" });
        std::fs::write(&target, "old").unwrap();
        let path = target.clone();
        let mut child = fork(move || {
            let mut hash = is_hash.then(|| HashBuilder::create(&path).unwrap());
            let mut constant = (!is_hash).then(|| Builder::create(&path).unwrap());
            let mut add = |i: u32| match (&mut hash, &mut constant) {
                (Some(builder), _) => builder.add(&i.to_le_bytes(), &[7; 100_000]),
                (None, Some(builder)) => builder.add(&i.to_le_bytes(), &[7; 100_000]),
                (None, None) => unreachable!(),
            };
            limit_file_size(Some(6 << 20));
            let failed = (0..1000).find(|i| add(*i).is_err());
            limit_file_size(None);
            assert!(failed.is_some_and(|i| i > 20), "{failed:?}");
            add(5000).unwrap_err();
            if let Some(builder) = hash {
                builder.finish().unwrap_err();
            }
            if let Some(builder) = constant {
                builder.finish().unwrap_err();
            }
        });
        assert_eq!(child.wait(), Status::Exited(0));
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1 + usize::from(is_hash));
    }
}

/// Adds so many records with values of so many bytes until that fails.
fn fill(
    (records, value): (u32, usize),
    mut add: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    (0..records).try_for_each(|i| add(&i.to_le_bytes(), &vec![7; value]))
}

/// The kernel ends whoever makes a file longer than that (`SIGXFSZ`), and programs that embed the library have no handler for it.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_of_whoever_writes_one_and_no_signal() {
    type Write = fn(&Path) -> Result<()>;
    let cases: [(&str, u64, Write); 13] = [
        ("values of a constant store", 64 << 10, |path| {
            let mut builder = Builder::create(path)?;
            fill((9, 100_000), |key, value| builder.add(key, value))?;
            builder.finish().map(drop)
        }),
        ("records of a constant store", 64 << 10, |path| {
            let mut builder = Builder::create(path)?;
            fill((9000, 9), |key, value| builder.add(key, value))?;
            builder.finish().map(drop)
        }),
        ("records that wait in a file", 1 << 20, |path| {
            let mut builder = BuildOptions::new().memory_budget(0).create(path)?;
            fill((400_000, 20), |key, value| builder.add(key, value))
        }),
        ("cdb", 64 << 10, |path| {
            let mut writer = CdbWriter::create(path)?;
            fill((9000, 9), |key, value| writer.add(key, value))?;
            writer.finish()
        }),
        ("cdb64", 64 << 10, |path| {
            let mut writer = Cdb64Writer::create(path)?;
            fill((9, 2_000_000), |key, value| writer.add(key, value))
        }),
        ("mcdb", 64 << 10, |path| {
            let mut writer = McdbWriter::create(path)?;
            fill((9000, 9), |key, value| writer.add(key, value))?;
            writer.finish()
        }),
        ("statistics", 64 << 10, |path| {
            let statistics = Statistics::new().shared(true);
            Constant::options()
                .statistics(statistics)
                .open(path.with_file_name("constant"))
                .map(drop)
        }),
        ("a copy of a hash store", 64 << 10, |path| {
            Hash::open(path.with_file_name("hash"))?.backup(path, |_, _| {}).map(drop)
        }),
        ("a copy of a btree store", 64 << 10, |path| {
            BTree::open(path.with_file_name("btree"))?.backup(path, |_, _| {}).map(drop)
        }),
        ("a hash store that is built", 64 << 10, |path| {
            let mut builder = HashBuilder::create(path)?;
            fill((9000, 9), |key, value| builder.add(key, value))?;
            builder.finish().map(drop)
        }),
        ("a btree store that is built", 64 << 10, |path| {
            let mut builder = BTreeBuilder::create(path)?;
            fill((9000, 9), |key, value| builder.add(key, value))?;
            builder.finish().map(drop)
        }),
        ("a hash store", 1 << 10, |path| Hash::options().create(true).open(path).map(drop)),
        ("a btree store", 1 << 10, |path| BTree::options().create(true).open(path).map(drop)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut constant = Builder::create(path("constant")).unwrap();
    constant.add(b"key", b"value").unwrap();
    constant.finish().unwrap();
    let mut hash = HashBuilder::create(path("hash")).unwrap();
    fill((9000, 9), |key, value| hash.add(key, value)).unwrap();
    drop(hash.finish().unwrap());
    let mut btree = BTreeBuilder::create(path("btree")).unwrap();
    fill((9000, 9), |key, value| btree.add(key, value)).unwrap();
    drop(btree.finish().unwrap());
    let mut ends = Vec::new();
    for (what, limit, write) in cases {
        let target = path("target");
        let mut child = fork(move || {
            limit_file_size(Some(limit));
            die_beyond_file_size();
            let error = write(&target).unwrap_err().to_string();
            assert!(error.contains("ulimit -f"), "{error}");
        });
        ends.push((what, child.wait()));
    }
    assert!(ends.iter().all(|(_, end)| *end == Status::Exited(0)), "{ends:?}");
}

/// What replaces a file that nobody may write is itself so: that is no reason to call it a failure.
#[test]
fn what_takes_the_place_of_a_read_only_file_is_opened_for_reading() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let path = folder.path().to_owned();
    let mut child = fork(move || {
        let _ = become_nobody();
        for name in ["hash", "btree"] {
            let target = path.join(name);
            std::fs::write(&target, "old").unwrap();
            std::fs::set_permissions(&target, PermissionsExt::from_mode(0o444)).unwrap();
        }
        let mut hash = HashBuilder::create(path.join("hash")).unwrap();
        hash.add(b"key", b"value").unwrap();
        assert_eq!(hash.finish().unwrap().len().unwrap(), 1);
        let mut btree = BTreeBuilder::create(path.join("btree")).unwrap();
        btree.add(b"key", b"value").unwrap();
        assert_eq!(btree.finish().unwrap().read().unwrap().main().len(), 1);
    });
    assert_eq!(child.wait(), Status::Exited(0));
}

/// It may be a store that somebody writes to: of what cannot be looked at nobody knows.
#[test]
fn what_cannot_be_looked_at_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let path = folder.path().join("store");
    let mut child = fork(move || {
        // Root reads everything; where this user is none, and cannot become another, it is not root.
        let _ = become_nobody();
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o200)).unwrap();
        let refused = [
            Builder::create(&path).map(drop),
            HashBuilder::create(&path).map(drop),
            BTreeBuilder::create(&path).map(drop),
        ];
        for error in refused.map(Result::unwrap_err) {
            let is_named = error.path() == Some(&path) && error.to_string().contains("ermission");
            assert!(is_named, "{error}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    });
    assert_eq!(child.wait(), Status::Exited(0));
}

/// A process that is forked meanwhile has a copy of the builder, and drops it.
#[test]
fn a_fork_leaves_what_its_parent_builds_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hash");
    let mut hash = Some(HashBuilder::create(&path).unwrap());
    let mut btree = Some(BTreeBuilder::create(folder.path().join("btree")).unwrap());
    hash.as_mut().unwrap().add(b"key", b"value").unwrap();
    btree.as_mut().unwrap().add(b"key", b"value").unwrap();
    let mut child = {
        let builders = (&mut hash, &mut btree);
        fork(move || {
            give_up_after(60);
            drop((builders.0.take(), builders.1.take()));
        })
    };
    assert_eq!(child.wait(), Status::Exited(0));
    assert_eq!(hash.unwrap().finish().unwrap().len().unwrap(), 1);
    assert_eq!(btree.unwrap().finish().unwrap().read().unwrap().main().len(), 1);
}

#[test]
fn where_no_thread_can_be_started_that_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let path = folder.path().to_owned();
    let mut child = fork(move || {
        if !become_nobody() {
            println!(
                "skipped: this user may start threads whatever the limit is, or not be another"
            );
            return;
        }
        forbid_threads();
        let says = |done: Result<(), credenza::Error>| {
            let error = done.unwrap_err().to_string();
            assert!(error.contains("start a thread"), "{error}");
        };
        let every = credenza::Durability::Interval(5);
        let (hash, btree) = (path.join("hash"), path.join("btree"));
        says(Hash::options().create(true).durability(every).open(&hash).map(drop));
        says(BTree::options().create(true).durability(every).open(&btree).map(drop));
        let store = BTree::open(&btree).unwrap();
        store.insert(b"key", b"value").unwrap();
        let mut load = BTreeLoad::begin(&store, None);
        load.add(b"other", b"value").unwrap();
        says(load.finish());
        says(BTreeBuilder::create(path.join("new")).and_then(|b| b.finish().map(drop)));
        assert_eq!(store.read().unwrap().main().len(), 1);
        assert!(!path.join("new").exists());
    });
    assert_eq!(child.wait(), Status::Exited(0));
}

#[test]
fn a_link_to_what_is_not_there_yet_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let (links, place) = (folder.path().join("links"), folder.path().join("place"));
    std::fs::create_dir(&links).unwrap();
    std::fs::create_dir(&place).unwrap();
    let (link, target) = (links.join("store"), place.join("store"));
    std::os::unix::fs::symlink("../place/store", &link).unwrap();
    let mut builder = Builder::create(&link).unwrap();
    builder.add(b"key", b"value").unwrap();
    builder.finish().unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::symlink_metadata(&target).unwrap().is_file());
    assert!(credenza::open(&link).unwrap().contains_key(b"key").unwrap());
}

/// What a process learns once, another thread was learning when the process was forked: the child waited for
/// that thread, which it has not.
#[test]
fn a_child_that_is_forked_during_the_first_opening_opens_a_store() {
    let name = "a_child_that_is_forked_during_the_first_opening_opens_a_store";
    if !common::is_child() {
        for _ in 0..600 {
            assert!(common::child(name).output().unwrap().status.success());
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let barrier = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            Hash::create(path("parents")).unwrap();
        });
        barrier.wait();
        // At another moment of the opening in each process.
        (0..std::process::id() % 128 * 40).for_each(|_| std::hint::spin_loop());
        let mut child = fork(|| {
            give_up_after(10);
            Hash::create(path("childs")).unwrap();
        });
        assert_eq!(child.wait(), Status::Exited(0));
    });
}

/// Whoever was second took the place of the first, also where there had been nothing when both began.
#[test]
fn what_is_to_replace_nothing_replaces_nothing() {
    use credenza::foreign::{Cdb64Writer, CdbWriter, McdbWriter};
    type Finish<'f> = Box<dyn FnOnce() -> Result<()> + 'f>;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut begun: Vec<(&str, Finish<'_>)> = Vec::new();
    macro_rules! begin {
        ($builder:ty) => {{
            let mut builder = <$builder>::create(&path).unwrap();
            builder.add(b"key", stringify!($builder).as_bytes()).unwrap();
            begun.push((stringify!($builder), Box::new(|| builder.finish_new().map(drop))));
        }};
    }
    begin!(Builder);
    begin!(HashBuilder);
    begin!(BTreeBuilder);
    begin!(CdbWriter);
    begin!(Cdb64Writer);
    begin!(McdbWriter);
    while !begun.is_empty() {
        let (first, finish) = begun.remove(0);
        finish().unwrap();
        let found = || credenza::open(&path).unwrap().get(b"key").unwrap().unwrap().into_owned();
        assert_eq!(found(), first.as_bytes());
        if let Some((second, finish)) = begun.pop() {
            let error = finish().expect_err(second).to_string();
            assert!(error.contains("there is a file already"), "{second}: {error}");
            assert_eq!(found(), first.as_bytes(), "{second}");
        }
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let name = entry.unwrap().file_name();
            if name == "store" || name == "store-index" {
                std::fs::remove_file(dir.path().join(name)).unwrap();
            }
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A store that there was no room for, or whose index another thing is in the place of, is not there: it can be made when
/// that is over.
#[test]
fn a_store_that_could_not_be_made_is_not_in_the_way() {
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    if let Some(mount) = Mount::of_size("12k") {
        let path = mount.path().join("store");
        let errors = [(); 2].map(|()| Hash::create(&path).unwrap_err().to_string());
        assert!(errors.iter().all(|error| error.contains("No space left")), "{errors:?}");
        assert_eq!(size(&path), 0);
    }
    if let Some(mount) = Mount::of_size("4k") {
        let path = mount.path().join("store");
        let error = BTree::create(&path).unwrap_err().to_string();
        assert!(error.contains("No space left"), "{error}");
        assert_eq!(size(&path), 0);
    }
    let folder = tempfile::tempdir().unwrap();
    let [path, index] = ["store", "store-index"].map(|name| folder.path().join(name));
    std::fs::create_dir(&index).unwrap();
    let error = Hash::create(&path).unwrap_err().to_string();
    assert!(error.contains("store-index: a file of the store beside it belongs here"), "{error}");
    assert_eq!(size(&path), 0);
    std::fs::remove_dir(&index).unwrap();
    Hash::create(&path).unwrap().insert(b"key", b"value").unwrap();
}

/// A copy that nobody could open is none.
#[test]
fn nothing_is_in_the_place_of_a_backup_s_index() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    store.insert(b"key", b"value").unwrap();
    let [copy, index] = ["copy", "copy-index"].map(|name| folder.path().join(name));
    std::fs::create_dir(&index).unwrap();
    let error = store.backup(&copy, |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("copy-index: a file of the store beside it belongs here"), "{error}");
    assert!(!copy.exists());
    // A file of the user's makes way when the copy is opened, as for every other store.
    std::fs::remove_dir(&index).unwrap();
    std::fs::write(&index, "mine").unwrap();
    store.backup(&copy, |_, _| ()).unwrap();
    assert_eq!(std::fs::read(&index).unwrap(), b"mine");
    assert_eq!(Hash::open(&copy).unwrap().len().unwrap(), 1);
    assert_eq!(std::fs::read(folder.path().join("copy-index.1")).unwrap(), b"mine");
}
