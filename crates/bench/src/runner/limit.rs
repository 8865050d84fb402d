//! `--memory-limit`: the measured process in a control group of its own (cgroup v2), which may have so much
//! memory and no swap: its heap, and the pages of files that it brings into memory.
//!
//! The group is made below that of this program. Where the kernel allows that only to a group without
//! processes in it, this program moves into another one beside it, if it is alone; and where it may do
//! none of that, it starts again in a scope of systemd's, which is its own. Nowhere is a run without the
//! limit that was asked for.
//!
//! The measured process moves in when it has read data and queries: these are the workbench's own, and
//! stay in the account of the group that it comes from.

use super::process::Program;
use crate::machine;
use credenza::{Error, Result};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The group that processes are in, by their ids.
const MEMBERS: &str = "cgroup.procs";
/// What groups below a group may limit.
const HANDED_DOWN: &str = "cgroup.subtree_control";
/// Says that this program was started again in a scope.
const IN_SCOPE: &str = "CREDENZA_BENCH_IN_SCOPE";
/// Less than this a process needs to be one.
const LEAST: u64 = 4 << 20;

/// A group with a limit; it goes when this is dropped, and all that was in it has ended.
pub(crate) struct Limit {
    own: PathBuf,
    group: PathBuf,
    /// The group that this program has moved into.
    aside: Option<PathBuf>,
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
        let no_scope = start_again_in_scope();
        Err(Error::invalid(format!(
            "--memory-limit: this program may not limit the memory of processes: {refused}; {no_scope}. Run \
             it where cgroup v2 has the memory controller, as root in a group of its own, or from a login \
             that systemd manages"
        )))
    }

    fn below(own: &Path, bytes: u64) -> Result<Limit> {
        if !words(&own.join("cgroup.controllers"))?.iter().any(|name| name == "memory") {
            let why =
                "its group has no memory controller (where that is in cgroup v1, it is not here)";
            return Err(Error::invalid(why).at(own));
        }
        let id = std::process::id();
        let group = own.join(format!("credenza-bench-{id}"));
        let mut limit = Limit { own: own.to_owned(), group, aside: None };
        limit.hand_down(id)?;
        fs::create_dir(&limit.group).map_err(|e| Error::io("create", e).at(&limit.group))?;
        write(&limit.group.join("memory.max"), &bytes.to_string())?;
        match write(&limit.group.join("memory.swap.max"), "0") {
            Err(e) if machine::has_swap() => Err(e),
            // Without swap there is nothing to be limited.
            Ok(()) | Err(_) => Ok(limit),
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

    /// The group that measured processes are to [`join`].
    pub(crate) fn group(&self) -> &Path {
        &self.group
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // A group that is not there, or is not empty, stays as it is: there is nobody to tell.
        let _ = fs::remove_dir(&self.group);
        if let Some(aside) = &self.aside {
            let _ = write(&self.own.join(HANDED_DOWN), "-memory");
            let _ = join(&self.own);
            let _ = fs::remove_dir(aside);
        }
    }
}

/// Moves this process into a group.
pub(super) fn join(group: &Path) -> Result<()> {
    write(&group.join(MEMBERS), &std::process::id().to_string())
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|e| Error::io("write", e).at(file))
}

fn words(file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).map_err(|e| Error::io("read", e).at(file))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The group of this process in cgroup v2.
fn own_group() -> Result<PathBuf> {
    let read = |file: &str| fs::read_to_string(file).map_err(|e| Error::io("read", e).at(file));
    group_in(&read("/proc/self/cgroup")?, &machine::mounts_of("cgroup2"))
        .ok_or_else(|| Error::invalid("cgroup v2 is not mounted here"))
}

/// Where the group of v2 in `groups` (`/proc/self/cgroup`) is in the file system.
fn group_in(groups: &str, mounts: &[PathBuf]) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // A group outside of what is mounted here has a path that leads up.
    let is_below = !path.split('/').any(|part| part == "..");
    mounts.first().filter(|_| is_below).map(|mount| mount.join(path))
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

    /// What a process in the group has read of a file that is larger than the limit does not stay. Only
    /// the groups of cgroup v2 are tried, below this test's own.
    #[test]
    fn pages_of_files_stay_within_the_limit() {
        let limit = match own_group().and_then(|own| Limit::below(&own, 32 << 20)) {
            Ok(limit) => limit,
            Err(e) => return println!("skipped: {e}"),
        };
        let folder = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        if machine::filesystem_of(folder.path()) == "tmpfs" {
            return println!("skipped: /var/tmp is in memory");
        }
        let file = folder.path().join("file");
        let script = "echo $$ > \"$1\"/cgroup.procs && head -c 134217728 /dev/zero > \"$2\" && cat \"$2\" \
                      > /dev/null";
        let shell = ["-c", script, "sh"];
        let done = Command::new("sh").args(shell).arg(limit.group()).arg(&file).status().unwrap();
        assert!(done.success());
        let held = fs::read_to_string(limit.group().join("memory.current")).unwrap();
        let held: u64 = held.trim().parse().unwrap();
        assert!(held <= 32 << 20, "{held}");
        let group = limit.group().to_owned();
        drop(limit);
        assert!(!group.exists());
    }
}
