//! Who may read what is made of a store: nobody who may not read that.

use crate::folder::folder_of_new;
use nix::sys::stat::{Mode, umask};
use nix::unistd::getegid;
use rustix::fs::getxattr_query;
use rustix::io::Errno;
use std::fs::{Metadata, metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Has what this process makes from here on, for `target` and beside it, give its group and all others no right
/// that they do not have to the file at `source`. What is replaced keeps its own rights.
///
/// By the mask of the process, and not by the mode of a file that is there: it is never open to anybody else. Of
/// the owner's rights none is taken: a store that is made to be changed can be.
pub fn as_private_as(source: &Path, target: &Path) {
    // Who opens it says what is wrong with it.
    let Some(meta) = metadata(source).ok().filter(Metadata::is_file) else { return };
    // Where users have rights of their own, the group's in the mode are the most that any of those has. They are not in what
    // is made, and cannot be told from the others there.
    let rights = if has_list(source) { 0 } else { rights(&meta, group_at(target)) };
    let refused = Mode::from_bits_truncate(!rights & 0o77);
    let before = umask(refused);
    umask(before | refused);
}

/// Whether the file has a list of users and groups with rights of their own (`setfacl`), as far as the kernel says.
fn has_list(path: &Path) -> bool {
    match getxattr_query(path, "system.posix_acl_access") {
        // There is none, or there can be none.
        Err(e) => !matches!(e, Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS),
        Ok(_) => true,
    }
}

/// What the new file may give at most, as a mode: another group than that of the old one has what all others have.
fn rights(meta: &Metadata, group: Option<u32>) -> u32 {
    let mode = meta.mode() & 0o777;
    if group == Some(meta.gid()) { mode } else { mode & (!0o70 | (mode & 0o7) << 3) }
}

/// The group of a new file at `path`: that of this process, or of a folder that hands its own on.
fn group_at(path: &Path) -> Option<u32> {
    let meta = metadata(folder_of_new(path)).ok()?;
    Some(if meta.mode() & 0o2000 == 0 { getegid().as_raw() } else { meta.gid() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// It was that of the folder with the link.
    #[test]
    fn the_group_is_that_of_the_folder_to_which_a_link_leads() {
        const ANOTHER: u32 = 54_321;
        let [links, files] = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
        if std::os::unix::fs::chown(files.path(), None, Some(ANOTHER)).is_err() {
            println!("not tested: only root may give a folder to a group that is not its own");
            return;
        }
        let mode = std::fs::Permissions::from_mode(0o2755);
        std::fs::set_permissions(files.path(), mode).expect("the mode can be changed");
        let [first, second, new] =
            [links.path().join("first"), links.path().join("second"), files.path().join("new")];
        std::os::unix::fs::symlink("second", &first).expect("a link");
        std::os::unix::fs::symlink(&new, &second).expect("a link");
        for path in [&new, &second, &first] {
            assert_eq!(group_at(path), Some(ANOTHER), "{path:?}");
        }
    }

    #[test]
    fn another_group_has_what_all_others_have() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let of = |mode, is_same: bool| {
            let mode = std::fs::Permissions::from_mode(mode);
            file.as_file().set_permissions(mode).expect("the mode can be changed");
            let meta = file.as_file().metadata().expect("the file");
            rights(&meta, is_same.then_some(meta.gid()))
        };
        assert_eq!((of(0o640, true), of(0o640, false)), (0o640, 0o600));
        assert_eq!((of(0o644, true), of(0o664, false)), (0o644, 0o644));
        // Its group had less than all others.
        assert_eq!((of(0o604, true), of(0o604, false)), (0o604, 0o604));
    }
}
