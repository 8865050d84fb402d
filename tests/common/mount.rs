//! Small file systems, to fill or to write-protect; only root may make them.

use std::path::Path;
use std::process::{Command, Stdio};

/// A small file system of its own, unmounted when dropped.
pub struct Mount {
    folder: tempfile::TempDir,
    /// What it lies in, if that is a file.
    _image: Option<tempfile::NamedTempFile>,
}

impl Mount {
    /// One in memory with room for `size` ("1m"); `None` where this user may not.
    pub fn of_size(size: &str) -> Option<Mount> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        let arguments = ["-t", "tmpfs", "-o", &size, "tmpfs"];
        mount(&arguments, folder.path()).then_some(Mount { folder, _image: None })
    }

    /// One of `kind` ("btrfs") of so many bytes, in a file, made with such options; `None` where this user may not, or cannot
    /// make one.
    pub fn of_kind(kind: &str, options: &[&str], bytes: u64) -> Option<Mount> {
        let (folder, image) =
            (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
        image.as_file().set_len(bytes).unwrap();
        let mut make = Command::new(format!("mkfs.{kind}"));
        let make = make
            .arg("-q")
            .args(options)
            .arg(image.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let is_made = make.status().is_ok_and(|status| status.success());
        let arguments = ["-t", kind, "-o", "loop", image.path().to_str().unwrap()];
        let is_there = is_made && mount(&arguments, folder.path());
        is_there.then_some(Mount { folder, _image: Some(image) })
    }

    /// What is in `folder`, for reading only.
    pub fn read_only(of: &Path) -> Option<Mount> {
        let folder = tempfile::tempdir().unwrap();
        if !mount(&["--bind", of.to_str().unwrap()], folder.path()) {
            return None;
        }
        let made = Mount { folder, _image: None };
        mount(&["-o", "remount,bind,ro"], made.path()).then_some(made)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    let mut mount = Command::new("mount");
    let status = mount.args(arguments).arg(at).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
