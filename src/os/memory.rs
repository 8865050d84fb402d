//! How much memory this process may have: the machine's, or less in a control group that has less, as in a
//! container. What is sorted in memory by default goes by it: by the machine's alone, a process in a small
//! container on a large machine would be killed.
//!
//! It is looked up once. A group whose limit cannot be read limits nothing here.

use super::map::physical_memory_bytes;
use super::process::Limit;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that this process may have.
pub(crate) fn memory_bytes() -> u64 {
    /// 0: not looked up. No lock, which another thread may have at the moment of a fork.
    static BYTES: AtomicU64 = AtomicU64::new(0);
    match BYTES.load(Ordering::Relaxed) {
        0 => {
            let bytes = limit_of_groups().unwrap_or(u64::MAX).min(physical_memory_bytes()).max(1);
            BYTES.store(bytes, Ordering::Relaxed);
            bytes
        }
        bytes => bytes,
    }
}

/// Bytes that this process may have for itself, other than those of files: less than [`memory_bytes`] where it has a limit
/// of its own (`ulimit -d`, or `ulimit -v`, half of which is for files that are mapped).
pub(crate) fn own_memory_bytes() -> u64 {
    memory_bytes().min(Limit::Addresses.bytes() / 2).min(Limit::Data.bytes()).max(1)
}

/// The least limit of the control groups that this process is in, and of those above them.
fn limit_of_groups() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    groups_with_limits(&groups, &mounts).iter().filter_map(|(at, file)| least(at, file)).min()
}

/// A mount point and a path below it, and the name of the file that has a group's limit.
type Group = ((PathBuf, PathBuf), &'static str);

/// The groups of `/proc/self/cgroup` that may limit memory (cgroup v2, and v1), where `/proc/self/mountinfo`
/// has them.
fn groups_with_limits(groups: &str, mounts: &str) -> Vec<Group> {
    let of_line = |line: &str| {
        let (limits, path) = line.split_once(':')?.1.split_once(':')?;
        let (kind, file) = match limits {
            "" => ("cgroup2", "memory.max"),
            _ if has(limits, "memory") => ("cgroup", "memory.limit_in_bytes"),
            _ => return None,
        };
        mounts.lines().find_map(|mount| below_mount(mount, kind, path)).map(|group| (group, file))
    };
    groups.lines().filter_map(of_line).collect()
}

/// Where the group with this path is if that line of mountinfo is of the file system `kind` and, in v1, of
/// the memory. A mount may show one group alone, whose path then is not in the names below it.
fn below_mount(mount: &str, kind: &str, path: &str) -> Option<(PathBuf, PathBuf)> {
    let (mount, of) = mount.split_once(" - ")?;
    let mut of = of.split(' ');
    if of.next()? != kind || kind == "cgroup" && !has(of.next_back()?, "memory") {
        return None;
    }
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    // A path that leads up is outside of what is mounted here: what is mounted is looked at.
    let path = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    Some((PathBuf::from(point), path.to_owned()))
}

fn has(list: &str, word: &str) -> bool {
    list.split(',').any(|one| one == word)
}

/// The least limit that a group, or one above it, has in the file of that name.
fn least((mount, path): &(PathBuf, PathBuf), file: &str) -> Option<u64> {
    let limit = |path: &Path| {
        let text = fs::read_to_string(mount.join(path).join(file)).ok()?;
        // `max` is none, and in v1 a number beyond any memory.
        text.trim().parse().ok()
    };
    path.ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_where_they_are_mounted() {
        let mounts = "25 1 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      26 1 0:23 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                      27 1 0:24 /box /sys/fs/cgroup/unified rw shared:3 - cgroup2 cgroup2 rw\n";
        let groups = "8:pids:/a\n4:memory:/a/b\n0::/box/c\n";
        let at = |point: &str, path: &str| (PathBuf::from(point), PathBuf::from(path));
        let expected = [
            (at("/sys/fs/cgroup/memory", "a/b"), "memory.limit_in_bytes"),
            (at("/sys/fs/cgroup/unified", "c"), "memory.max"),
        ];
        assert_eq!(groups_with_limits(groups, mounts), expected);
        let outside = groups_with_limits("0::/../other\n", mounts);
        assert_eq!(outside, [(at("/sys/fs/cgroup/unified", ""), "memory.max")]);
        assert_eq!(groups_with_limits(groups, ""), []);
        assert_eq!(groups_with_limits("nothing", "nothing - "), []);
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let mount = tempfile::tempdir().unwrap();
        let inner = mount.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let least =
            |path: &str| least(&(mount.path().to_owned(), PathBuf::from(path)), "memory.max");
        assert_eq!(least("a/b"), None);
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(least("a/b"), None);
        fs::write(mount.path().join("a/memory.max"), "5000\n").unwrap();
        assert_eq!((least("a/b"), least("")), (Some(5000), None));
        fs::write(inner.join("memory.max"), "7000\n").unwrap();
        assert_eq!(least("a/b"), Some(5000));
        assert!(memory_bytes() > 0 && memory_bytes() <= physical_memory_bytes());
    }
}
