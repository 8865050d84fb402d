//! Who may read and write a file: what one that takes another's place takes over of it.
//!
//! Invariant: nobody may do with the new file what they might not with the old one. What cannot be given, a
//! group's rights or those of a list of users, is taken away.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// The attribute with the list of users and groups that have rights of their own (`setfacl`), as the kernel
/// keeps it.
const LIST: &CStr = c"system.posix_acl_access";
/// No attribute is longer.
const LONGEST: usize = 64 << 10;

/// The rights of a file.
pub(crate) struct Rights {
    meta: Metadata,
    list: Option<Vec<u8>>,
}

impl Rights {
    pub(crate) fn of(file: &File) -> io::Result<Rights> {
        // SAFETY: the name ends with a NUL, and the two others are a place for so many bytes.
        let list = list_by(|name, place, len| unsafe {
            libc::fgetxattr(file.as_raw_fd(), name, place, len)
        });
        Ok(Rights { meta: file.metadata()?, list })
    }

    /// Those of the file at `path`, which need not be readable.
    pub(crate) fn at(path: &Path) -> io::Result<Rights> {
        let meta = std::fs::metadata(path)?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: both names end with a NUL, and the two others are a place for so many bytes.
        let list =
            list_by(|name, place, len| unsafe { libc::getxattr(path.as_ptr(), name, place, len) });
        Ok(Rights { meta, list })
    }

    /// Gives them to a file, and owner and group as far as that is allowed. Only root may give a file away, but
    /// who belongs to its group may keep that; what a group had is no other group's, which has what all others
    /// have.
    pub(crate) fn give(&self, file: &File) -> io::Result<()> {
        let mut mode = self.meta.mode() & 0o7777;
        let mut has_group = true;
        if fchown(file, Some(self.meta.uid()), Some(self.meta.gid())).is_err() {
            has_group = fchown(file, None, Some(self.meta.gid())).is_ok();
            mode &= 0o777;
        }
        // One that the folder gave it, before it stands in the way of the mode.
        drop_list(file)?;
        let is_given = match &self.list {
            Some(list) => has_group && give_list(file, list).is_ok(),
            None => has_group,
        };
        // With a list, the bits of the group are what any of those in it may have.
        set_mode(file, if is_given { mode } else { mode & !0o70 | (mode & 0o7) << 3 })
    }
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    // Not all file systems have modes to be set.
    match file.metadata()?.mode() & 0o7777 == mode {
        true => Ok(()),
        false => file.set_permissions(Permissions::from_mode(mode)),
    }
}

/// The list that `get` writes to a place for so many bytes; none where there is none.
fn list_by(
    get: impl FnOnce(*const libc::c_char, *mut libc::c_void, usize) -> isize,
) -> Option<Vec<u8>> {
    let mut list = vec![0; LONGEST];
    let len = get(LIST.as_ptr(), list.as_mut_ptr().cast(), list.len());
    list.truncate(usize::try_from(len).ok()?);
    Some(list)
}

fn give_list(file: &File, list: &[u8]) -> io::Result<()> {
    let (place, len) = (list.as_ptr().cast(), list.len());
    // SAFETY: the name ends with a NUL, and there are so many bytes.
    let rc = unsafe { libc::fsetxattr(file.as_raw_fd(), LIST.as_ptr(), place, len, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn drop_list(file: &File) -> io::Result<()> {
    // SAFETY: the name ends with a NUL.
    if unsafe { libc::fremovexattr(file.as_raw_fd(), LIST.as_ptr()) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // There is none, or there can be none.
        e if matches!(e.raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP)) => Ok(()),
        e => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One user with a right of its own to read; the group may do nothing, and nor may others.
    fn a_list() -> Vec<u8> {
        const NOBODY: u32 = u32::MAX;
        let entries: [(u16, u16, u32); 5] =
            [(1, 6, NOBODY), (2, 4, 12_345), (4, 0, NOBODY), (16, 4, NOBODY), (32, 0, NOBODY)];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (kind, rights, id) in entries {
            list.extend(kind.to_le_bytes());
            list.extend(rights.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        list
    }

    #[test]
    fn a_list_of_users_goes_with_the_mode_and_without_it_the_group_has_nothing() {
        let (old, new) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        old.set_permissions(Permissions::from_mode(0o600)).unwrap();
        if give_list(&old, &a_list()).is_err() {
            println!("skipped: this file system has no lists of users");
            return;
        }
        let rights = Rights::of(&old).unwrap();
        assert_eq!(rights.meta.mode() & 0o777, 0o640);
        rights.give(&new).unwrap();
        let given = Rights::of(&new).unwrap();
        assert_eq!((given.list, given.meta.mode() & 0o777), (Some(a_list()), 0o640));
        // A file that has no list, in the place of one that had none.
        let plain = tempfile::tempfile().unwrap();
        plain.set_permissions(Permissions::from_mode(0o604)).unwrap();
        Rights::of(&plain).unwrap().give(&new).unwrap();
        let given = Rights::of(&new).unwrap();
        assert_eq!((given.list, given.meta.mode() & 0o777), (None, 0o604));
        // A list that cannot be given.
        let unknown = Rights { meta: old.metadata().unwrap(), list: Some(vec![0; 3]) };
        unknown.give(&new).unwrap();
        let given = Rights::of(&new).unwrap();
        assert_eq!((given.list, given.meta.mode() & 0o777), (None, 0o600));
    }
}
