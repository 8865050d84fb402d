//! Small file systems, to fill or to write-protect; only root may make them.

use std::path::Path;
use std::process::{Command, Stdio};

/// A small file system of its own, unmounted when dropped.
pub struct Mount(tempfile::TempDir);

impl Mount {
    /// One in memory with room for `size` ("1m"); `None` where this user may not.
    pub fn of_size(size: &str) -> Option<Mount> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        let arguments = ["-t", "tmpfs", "-o", &size, "tmpfs"];
        mount(&arguments, folder.path()).then_some(Mount(folder))
    }

    /// What is in `folder`, for reading only.
    pub fn read_only(of: &Path) -> Option<Mount> {
        let folder = tempfile::tempdir().unwrap();
        if !mount(&["--bind", of.to_str().unwrap()], folder.path()) {
            return None;
        }
        let made = Mount(folder);
        mount(&["-o", "remount,bind,ro"], made.path()).then_some(made)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    let mut mount = Command::new("mount");
    let status = mount.args(arguments).arg(at).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
