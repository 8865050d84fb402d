//! `--memory-limit`: measured processes in a control group of their own, which together may have so much
//! memory and no swap: their heap, and the pages of files that they bring into memory.
//!
//! The group is made below that of this program. Where the kernel allows that in cgroup v2 only to a group
//! without processes in it, this program moves into another one beside it, if it is alone; where v2 has not
//! the memory, v1 may have it; and where it may do none of that, it starts again in a scope of systemd's, which
//! is its own. Nowhere is a run without the limit that was asked for.
//!
//! A measured process moves in when it has read data and queries: these are the workbench's own, and
//! stay in the account of the group that it comes from. One that is started by another begins in the group,
//! and leaves it until it has read them.

use super::process::Program;
use crate::machine;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The group that processes are in, by their ids.
const MEMBERS: &str = "cgroup.procs";
/// In cgroup v2: what a group may have in memory, and what of it on a disk for swap.
const V2: [&str; 2] = ["memory.max", "memory.swap.max"];
/// In cgroup v1: what a group may have in memory, and what with swap.
const V1: [&str; 2] = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
/// What groups below a group may limit.
const HANDED_DOWN: &str = "cgroup.subtree_control";
/// Says that this program was started again in a scope.
const IN_SCOPE: &str = "CREDENZA_BENCH_IN_SCOPE";
/// Less than this a process needs to be one.
const LEAST: u64 = 4 << 20;
/// How often it is looked whether those in a group have ended, and what lies between.
const LOOKS: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(10);

/// A group with a limit; it goes when this is dropped, and all that was in it has ended.
pub(crate) struct Limit {
    own: PathBuf,
    group: PathBuf,
    /// The group that this program has moved into.
    aside: Option<PathBuf>,
}

/// Where measured processes are, and where they read what is the workbench's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Groups {
    limited: PathBuf,
    outside: PathBuf,
}

impl Groups {
    /// Moves this process into the group with the limit.
    pub(super) fn enter(&self) -> Result<()> {
        join(&self.limited)
    }

    /// Moves this process, which was started by one with the limit, to where there is none.
    pub(super) fn leave(&self) -> Result<()> {
        join(&self.outside)
    }
}

impl Limit {
    /// Sets up a group that may have so many bytes.
    pub(crate) fn set(bytes: u64) -> Result<Limit> {
        if bytes < LEAST {
            return Err(Error::invalid("--memory-limit takes 4M at least"));
        }
        let refused = match own_group().and_then(|own| Limit::below(&own, bytes)) {
            Ok(limit) => return Ok(limit),
            Err(e) => e,
        };
        let refused_in_v1 = match own_group_of_v1().and_then(|own| Limit::below_in_v1(&own, bytes))
        {
            Ok(limit) => return Ok(limit),
            Err(e) => e,
        };
        let no_scope = start_again_in_scope();
        Err(Error::invalid(format!(
            "--memory-limit: this program may not limit the memory of processes: {refused}; {refused_in_v1}; \
             {no_scope}. Run it where a control group has the memory controller, as root in a group of its \
             own, or from a login that systemd manages"
        )))
    }

    fn below(own: &Path, bytes: u64) -> Result<Limit> {
        if !words(&own.join("cgroup.controllers"))?.iter().any(|name| name == "memory") {
            return Err(Error::invalid("its group of cgroup v2 has no memory controller").at(own));
        }
        let id = std::process::id();
        let mut limit = Limit::of(own);
        limit.hand_down(id)?;
        limit.make(V2, [bytes, 0])?;
        Ok(limit)
    }

    /// The same in cgroup v1, where a group may have processes and groups.
    fn below_in_v1(own: &Path, bytes: u64) -> Result<Limit> {
        let limit = Limit::of(own);
        limit.make(V1, [bytes; 2])?;
        Ok(limit)
    }

    fn of(own: &Path) -> Limit {
        let group = own.join(format!("credenza-bench-{}", std::process::id()));
        Limit { own: own.to_owned(), group, aside: None }
    }

    /// Makes the group, and writes its limits of memory and of swap.
    fn make(&self, [memory, swap]: [&str; 2], [bytes, and_swap]: [u64; 2]) -> Result<()> {
        made().push(self.group.clone());
        fs::create_dir(&self.group).map_err(|e| Error::io("create", e).at(&self.group))?;
        write(&self.group.join(memory), &bytes.to_string())?;
        match write(&self.group.join(swap), &and_swap.to_string()) {
            Err(e) if machine::has_swap() => Err(e),
            // Without swap there is nothing to be limited.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Lets groups below its own limit memory; only one without processes may do that, or the first.
    fn hand_down(&mut self, id: u32) -> Result<()> {
        let file = self.own.join(HANDED_DOWN);
        if words(&file)?.iter().any(|name| name == "memory") {
            return Ok(());
        }
        let refused = match write(&file, "+memory") {
            Ok(()) => return Ok(()),
            Err(e) => e,
        };
        if words(&self.own.join(MEMBERS))? != [id.to_string()] {
            return Err(refused);
        }
        let aside = self.own.join(format!("credenza-bench-{id}-itself"));
        fs::create_dir(&aside).map_err(|e| Error::io("create", e).at(&aside))?;
        self.aside = Some(aside.clone());
        join(&aside)?;
        write(&file, "+memory")
    }

    /// Where measured processes are to be.
    pub(crate) fn groups(&self) -> Groups {
        let outside = self.aside.as_ref().unwrap_or(&self.own);
        Groups { limited: self.group.clone(), outside: outside.clone() }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        remove(&self.group);
        if let Some(aside) = &self.aside {
            // There is nobody to tell of what cannot be undone.
            let _ = write(&self.own.join(HANDED_DOWN), "-memory");
            let _ = join(&self.own);
            let _ = fs::remove_dir(aside);
        }
        made().retain(|group| *group != self.group);
    }
}

/// The groups of limits that there are: who leaves because of a signal removes them.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn made() -> MutexGuard<'static, Vec<PathBuf>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the groups with a limit, whose processes have been ended, before this one leaves. The group that
/// this process has moved into stays: it is in it.
pub(super) fn remove_all() {
    made().iter().for_each(|group| remove(group));
}

/// Removes a group, once all that were in it have ended. One that is not there, or in which somebody goes on,
/// stays as it is.
fn remove(group: &Path) {
    for _ in 0..LOOKS {
        match fs::remove_dir(group) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(BETWEEN),
            _ => return,
        }
    }
}

/// Moves this process into a group.
fn join(group: &Path) -> Result<()> {
    write(&group.join(MEMBERS), &std::process::id().to_string())
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|e| Error::io("write", e).at(file))
}

fn words(file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).map_err(|e| Error::io("read", e).at(file))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The groups of this process, a line for each hierarchy.
fn own_groups() -> Result<String> {
    let file = "/proc/self/cgroup";
    fs::read_to_string(file).map_err(|e| Error::io("read", e).at(file))
}

/// The group of this process in cgroup v2.
fn own_group() -> Result<PathBuf> {
    group_in(&own_groups()?, &machine::mounts_of("cgroup2"))
        .ok_or_else(|| Error::invalid("cgroup v2 is not mounted here"))
}

/// The group of this process in the hierarchy of cgroup v1 that has the memory.
fn own_group_of_v1() -> Result<PathBuf> {
    group_in_v1(&own_groups()?, &machine::mounts_of("cgroup"))
        .filter(|group| group.join(V1[0]).exists())
        .ok_or_else(|| Error::invalid("no cgroup v1 has the memory here"))
}

/// Where the group of v2 in `groups` (`/proc/self/cgroup`) is in the file system.
fn group_in(groups: &str, mounts: &[PathBuf]) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // A group outside of what is mounted here has a path that leads up.
    let is_below = !path.split('/').any(|part| part == "..");
    mounts.first().filter(|_| is_below).map(|mount| mount.join(path))
}

/// The same for v1, whose mount points have the names of what they limit. In a container what is mounted can
/// be the group itself, under a path that is not there.
fn group_in_v1(groups: &str, mounts: &[PathBuf]) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| {
        let (limits, path) = line.split_once(':')?.1.split_once(':')?;
        limits.split(',').any(|limits| limits == "memory").then_some(path)
    })?;
    let has_memory = |mount: &&PathBuf| {
        let name = mount.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.split(',').any(|limits| limits == "memory")
    };
    let mount = mounts.iter().find(has_memory)?;
    let is_below = !path.split('/').any(|part| part == "..");
    let group = mount.join(path.strip_prefix('/').filter(|_| is_below)?);
    Some(if group.is_dir() { group } else { mount.clone() })
}

/// Puts this program, started again, in the place of this process, in a scope whose groups are its own to
/// make. Comes back only where that cannot be done, and says why.
fn start_again_in_scope() -> String {
    if std::env::var_os(IN_SCOPE).is_some() {
        return "nor may it in a scope of systemd's".to_owned();
    }
    // The first answers where a user has a manager of their own, the second where this is root.
    for manager in ["--user", "--system"] {
        let scope = || {
            let mut scope = Command::new("systemd-run");
            scope.args([manager, "--scope", "--quiet", "--collect", "-p", "Delegate=yes", "--"]);
            scope
        };
        let tried = scope().arg("true").stdin(Stdio::null()).stderr(Stdio::null()).status();
        if !tried.is_ok_and(|status| status.success()) {
            continue;
        }
        let mut again = scope();
        match Program::this() {
            Ok(program) => again.args(program.itself()),
            Err(e) => return e.to_string(),
        };
        let refused: io::Error = again.env(IN_SCOPE, "1").exec();
        return format!("systemd-run: {refused}");
    }
    "there is no systemd that gives it a scope (systemd-run --user --scope)".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_group_is_found_where_it_is_mounted() {
        let mounts = [PathBuf::from("/sys/fs/cgroup")];
        let found = |text| group_in(text, &mounts);
        let hybrid = "4:memory:/a\n1:name=systemd:/b\n0::/user.slice/x.scope\n";
        assert_eq!(found(hybrid), Some("/sys/fs/cgroup/user.slice/x.scope".into()));
        assert_eq!(found("0::/\n"), Some("/sys/fs/cgroup/".into()));
        assert_eq!(found("0::/../other\n"), None);
        assert_eq!(found("4:memory:/a\n"), None);
        assert_eq!(group_in("0::/\n", &[]), None);
    }

    #[test]
    fn a_group_that_may_limit_nothing_is_refused() {
        let own = tempfile::tempdir().unwrap();
        fs::write(own.path().join("cgroup.controllers"), "cpu io\n").unwrap();
        let said = Limit::below(own.path(), 1 << 30).err().unwrap().to_string();
        assert!(said.contains("no memory controller"), "{said}");
        assert!(Limit::set(5000).err().unwrap().to_string().contains("4M"));
    }

    #[test]
    fn the_group_of_version_1_is_the_one_with_the_memory() {
        let mounts = tempfile::tempdir().unwrap();
        let mount = |name: &str| mounts.path().join(name);
        fs::create_dir_all(mount("cpu,memory").join("a/b")).unwrap();
        let found = |text: &str| group_in_v1(text, &[mount("pids"), mount("cpu,memory")]);
        assert_eq!(found("8:pids:/a\n4:memory,cpu:/a/b\n0::/\n"), Some(mount("cpu,memory/a/b")));
        assert_eq!(found("4:memory:/not/there\n"), Some(mount("cpu,memory")));
        assert_eq!(found("4:memory:/../other\n"), None);
        assert_eq!(found("8:pids:/a\n0::/\n"), None);
        assert_eq!(group_in_v1("4:memory:/a\n", &[mount("pids")]), None);
    }

    /// What a process in the group has read of a file that is larger than the limit does not stay. Only
    /// groups below this test's own are tried, of both versions.
    #[test]
    fn pages_of_files_stay_within_the_limit() {
        let v2 = own_group().and_then(|own| Limit::below(&own, 32 << 20));
        let v1 = own_group_of_v1().and_then(|own| Limit::below_in_v1(&own, 32 << 20));
        for (limit, held) in [(v2, "memory.current"), (v1, "memory.usage_in_bytes")] {
            match limit {
                Ok(limit) => pages_stay_within(limit, held),
                Err(e) => println!("skipped: {e}"),
            }
        }
    }

    fn pages_stay_within(limit: Limit, held: &str) {
        let folder = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        if machine::filesystem_of(folder.path()) == "tmpfs" {
            return println!("skipped: /var/tmp is in memory");
        }
        let file = folder.path().join("file");
        let script = "echo $$ > \"$1\"/cgroup.procs && head -c 134217728 /dev/zero > \"$2\" && cat \"$2\" \
                      > /dev/null";
        let shell = ["-c", script, "sh"];
        let done = Command::new("sh").args(shell).arg(&limit.group).arg(&file).status().unwrap();
        assert!(done.success());
        let held = fs::read_to_string(limit.group.join(held)).unwrap();
        let held: u64 = held.trim().parse().unwrap();
        assert!((1 << 20..=32 << 20).contains(&held), "{held}");
        // One that is about to end is waited for.
        let script = "echo $$ > \"$1\"/cgroup.procs && echo in && exec sleep 0.2";
        let mut member = Command::new("sh");
        let member = member.args(["-c", script, "sh"]).arg(&limit.group).stdout(Stdio::piped());
        let mut member = member.spawn().unwrap();
        member.stdout.take().unwrap().read_exact(&mut [0; 3]).unwrap();
        let group = limit.group.clone();
        drop(limit);
        assert!(!group.exists());
        member.wait().unwrap();
    }
}
