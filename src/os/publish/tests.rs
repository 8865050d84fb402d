//! What is built beside its target, and what is left of it.

use super::*;

const INDEX: Further = Further { end: "-index", is_own: |_| true };

/// A number that no process has here may be one in another container, and this one's may be another's there.
#[test]
fn what_is_built_elsewhere_stays_whatever_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("store");
    let make = |pid: u32, serial: u64| {
        let path = folder.path().join(format!(".store.{pid}.{serial}.tmp"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        std::fs::write(with(&path, "-index"), "").unwrap();
        (file.unwrap(), path)
    };
    let (own, later) = (std::process::id(), u64::from(u32::MAX));
    // Number 0 is given out: else what is made here would have it again.
    temporary_name(&target);
    // Those of this process are locked as long as it builds them.
    let left = [make(MAX_PID, 0), make(own, later), make(own, 0)];
    // Of that day at that time, and not ours.
    let notes = folder.path().join(".store.20240101.120000.tmp");
    std::fs::write(&notes, "mine").unwrap();
    // Of stores that have their places, and of one whose index was being put in its place.
    let alone = [
        folder.path().join(format!(".store.{MAX_PID}.7.tmp-index")),
        folder.path().join(format!("..store.{MAX_PID}.8.tmp-index.{MAX_PID}.9.tmp")),
    ];
    alone.iter().for_each(|path| std::fs::write(path, "").unwrap());
    let of_another = folder.path().join("..store.20240101.8.tmp-index.mine.tmp");
    std::fs::write(&of_another, "").unwrap();
    let built = [make(MAX_PID, 1), make(own, later + 1)];
    assert!(built.iter().all(|(file, _)| say_built(file)));
    // A store of somebody who names his copies so, and has it open; and of a day.
    let open = [make(MAX_PID, 2), make(20_261_127, 3)];
    lock_range(&open[0].0, OPEN, Want::Shared, false).unwrap();
    // Those of a process that lives, and of this one.
    let (other, mine) = (make(1, 0), Named::create(&target, Some(INDEX)).unwrap());
    let is_there = |path: &Path| path.exists() && with(path, "-index").exists();
    assert!(left.iter().all(|(_, path)| !path.exists() && !with(path, "-index").exists()));
    assert!(built.iter().chain(&open).all(|(_, path)| is_there(path)) && is_there(&other.1));
    assert!(of_another.exists() && !alone.iter().any(|path| path.exists()));
    drop(Named::create(&target, None).unwrap());
    assert!(mine.path().exists());
    assert_eq!(std::fs::read(notes).unwrap(), b"mine");
}

/// As where the file system has no unnamed files.
fn staged_by_name(target: &Path) -> Staged {
    let mut staged = Staged::create(target).unwrap();
    let (file, path) = named_beside(target).unwrap();
    staged.named = Some(staged.target.other(path));
    staged.file = file;
    staged
}

#[test]
fn a_file_with_a_temporary_name_takes_its_place_or_leaves_nothing() {
    use std::os::unix::fs::{FileExt, PermissionsExt};
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("file");
    let count = || std::fs::read_dir(folder.path()).unwrap().count();
    drop(staged_by_name(&target));
    assert_eq!(count(), 0);
    std::fs::write(&target, "old").unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    std::fs::set_permissions(&target, PermissionsExt::from_mode(0o604)).unwrap();
    let staged = staged_by_name(&target);
    let named = staged.named.as_ref().unwrap().now();
    assert_eq!(mode(&named), OWN, "others could open it before it has the mode of the old one");
    staged.file().write_all_at(b"new", 0).unwrap();
    staged.publish().unwrap();
    assert_eq!((std::fs::read(&target).unwrap(), mode(&target)), (b"new".to_vec(), 0o604));
    staged_by_name(&target).publish_new().unwrap_err();
    assert_eq!(count(), 1);
}

/// Its parent goes on writing.
#[test]
fn a_forked_process_leaves_the_temporary_names_of_its_parent() {
    super::super::process::prepare();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("file");
    let (staged, built) = (staged_by_name(&target), Named::create(&target, None).unwrap());
    let (named, path) = (staged.named.as_ref().unwrap().now(), built.path());
    // SAFETY: the child has one thread, and ends without what its parent registered for its end.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop((staged, built));
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: the status is written during the call.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert!(status == 0 && named.exists() && path.exists());
    drop((staged, built));
    assert!(!named.exists() && !path.exists());
}

/// It was found when all was written.
#[test]
fn a_folder_that_is_not_there_is_no_target() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["new/", "new/."] {
        let error = Staged::create(folder.path().join(name)).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("does not name a file"), "{error}");
    }
    Staged::create(folder.path().join("new")).unwrap();
}

#[test]
fn only_names_of_the_same_target_are_taken_apart() {
    let numbers = |name: &str| parts(name.as_bytes(), Path::new("a/store"));
    assert_eq!(numbers(".store.17.3.tmp"), Some((17, 3)));
    let others = [
        ".store.17.3.tmp-index",
        "store.17.3.tmp",
        ".store.17.tmp",
        ".store.17.3",
        ".store.17.3.tmpx",
        ".store.17.3.tmp.tmp",
        ".store.x.3.tmp",
        ".store.2.17.3.tmp",
        ".stor.17.3.tmp",
        ".store-index.17.3.tmp",
    ];
    assert!(others.iter().all(|name| numbers(name).is_none()));
    let long = "n".repeat(255);
    let name = temporary_name(Path::new(&long));
    let name = name.file_name().unwrap().as_bytes();
    assert!(parts(name, Path::new(&long)).is_some() && name.len() + 6 <= 255);
}
