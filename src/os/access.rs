//! Who may read and write a file: what one that takes another's place takes over of it.
//!
//! Invariant: nobody may do with the new file what they might not with the old one. Where the rights of a group
//! or of a list of users cannot be given, everybody but the owner has what all of these had.

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

/// The list of a file.
#[derive(Debug, PartialEq, Eq)]
enum List {
    None,
    Some(Vec<u8>),
    /// It could not be read.
    Unknown,
}

/// The rights of a file.
pub(crate) struct Rights {
    meta: Metadata,
    list: List,
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
        let (all, mode) = (self.meta.mode() & 0o7777, self.meta.mode() & 0o777);
        let has_group = fchown(file, None, Some(self.meta.gid())).is_ok()
            || file.metadata()?.gid() == self.meta.gid();
        // One that the folder gave it, before it stands in the way of the mode.
        if Rights::of(file)?.list != List::None {
            drop_list(file)?;
        }
        let is_given = has_group
            && match &self.list {
                List::None => true,
                List::Some(list) => give_list(file, list).is_ok(),
                List::Unknown => false,
            };
        set_mode(file, if is_given { mode } else { self.mode_for_all(mode) })?;
        // Last: who may give files away (`CAP_CHOWN`) may not change what is another's then (`CAP_FOWNER`).
        if fchown(file, Some(self.meta.uid()), None).is_ok() && is_given && mode != all {
            // What is more than rights to read and write goes with an owner who is kept, where that is allowed.
            let _ = set_mode(file, all);
        }
        Ok(())
    }

    /// The mode in which group and others may do what each of those may whom the old file tells apart.
    fn mode_for_all(&self, mode: u32) -> u32 {
        let mut all = mode >> 3 & mode & 0o7;
        match &self.list {
            List::None => {}
            // Of its entries those of users, of the file's group and of groups: kind, rights and number.
            List::Some(list) => {
                for entry in list.get(4..).unwrap_or_default().chunks_exact(8) {
                    if matches!(entry, [2 | 4 | 8, 0, ..]) {
                        all &= u32::from(entry.get(2).copied().unwrap_or_default());
                    }
                }
            }
            List::Unknown => all = 0,
        }
        mode & !0o77 | all << 3 | all
    }
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    // Not all file systems have modes to be set.
    match file.metadata()?.mode() & 0o7777 == mode {
        true => Ok(()),
        false => file.set_permissions(Permissions::from_mode(mode)),
    }
}

/// The list that `get` writes to a place for so many bytes.
fn list_by(get: impl FnOnce(*const libc::c_char, *mut libc::c_void, usize) -> isize) -> List {
    let mut list = vec![0; LONGEST];
    let len = get(LIST.as_ptr(), list.as_mut_ptr().cast(), list.len());
    match usize::try_from(len) {
        Ok(len) => {
            list.truncate(len);
            List::Some(list)
        }
        Err(_) => match io::Error::last_os_error().raw_os_error() {
            // There is none, or there can be none.
            Some(libc::ENODATA | libc::EOPNOTSUPP | libc::ENOSYS) => List::None,
            _ => List::Unknown,
        },
    }
}

fn give_list(file: &File, list: &[u8]) -> io::Result<()> {
    let (place, len) = (list.as_ptr().cast(), list.len());
    // SAFETY: the name ends with a NUL, and there are so many bytes.
    let rc = unsafe { libc::fsetxattr(file.as_raw_fd(), LIST.as_ptr(), place, len, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn drop_list(file: &File) -> io::Result<()> {
    // SAFETY: the name ends with a NUL.
    let rc = unsafe { libc::fremovexattr(file.as_raw_fd(), LIST.as_ptr()) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
        assert_eq!((given.list, given.meta.mode() & 0o777), (List::Some(a_list()), 0o640));
        // A file that has no list, in the place of one that had none.
        let plain = tempfile::tempfile().unwrap();
        plain.set_permissions(Permissions::from_mode(0o604)).unwrap();
        Rights::of(&plain).unwrap().give(&new).unwrap();
        let given = Rights::of(&new).unwrap();
        assert_eq!((given.list, given.meta.mode() & 0o777), (List::None, 0o604));
        // A list that cannot be given, and one that is not known.
        let mut unfit = a_list();
        unfit.truncate(unfit.len() - 8);
        for (list, mode) in [(List::Some(unfit), 0o604), (List::Unknown, 0o600)] {
            plain.set_permissions(Permissions::from_mode(0o664)).unwrap();
            let rights = Rights { meta: plain.metadata().unwrap(), list };
            rights.give(&new).unwrap();
            let given = Rights::of(&new).unwrap();
            assert_eq!(given.list, List::None);
            assert_eq!(given.meta.mode() & 0o777 & mode, given.meta.mode() & 0o777, "{mode:o}");
        }
    }

    /// As root in a container that has some of its rights: nothing there could be replaced that was another user's.
    #[test]
    fn who_may_give_files_away_and_no_more_keeps_owner_and_mode() {
        const OTHER: u32 = 12_345;
        const FOWNER: u32 = 3;
        let (old, new) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        old.set_permissions(Permissions::from_mode(0o640)).unwrap();
        if fchown(&old, Some(OTHER), Some(OTHER)).is_err() {
            println!("skipped: this user may not give files away");
            return;
        }
        // SAFETY: the child has one thread, allocates at most, and ends without what its parent registered for its end. The
        // numbers are read and written during the calls: version and process, and twice 32 rights of three kinds.
        let pid = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let (mut of, mut rights) = ([0x2008_0522u32, 0], [0u32; 6]);
                libc::syscall(libc::SYS_capget, of.as_mut_ptr(), rights.as_mut_ptr());
                rights[0] &= !(1 << FOWNER);
                let rc = libc::syscall(libc::SYS_capset, of.as_ptr(), rights.as_ptr());
                let is_given = Rights::of(&old).and_then(|rights| rights.give(&new)).is_ok();
                libc::_exit(i32::from(rc != 0 || !is_given));
            }
            pid
        };
        let mut status = -1;
        // SAFETY: the status is written during the call.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        let given = new.metadata().unwrap();
        assert_eq!(status, 0);
        assert_eq!((given.uid(), given.gid(), given.mode() & 0o7777), (OTHER, OTHER, 0o640));
    }

    #[test]
    fn without_its_list_or_group_all_have_what_each_of_them_had() {
        let file = tempfile::tempfile().unwrap();
        let mode_of = |mode, list| {
            let rights = Rights { meta: file.metadata().unwrap(), list };
            rights.mode_for_all(mode)
        };
        assert_eq!(mode_of(0o644, List::None), 0o644);
        assert_eq!(mode_of(0o640, List::None), 0o600);
        // The group had less than all others, of whom it is one now.
        assert_eq!(mode_of(0o604, List::None), 0o600);
        // One user may only read, the group nothing.
        assert_eq!(mode_of(0o666, List::Some(a_list())), 0o600);
        assert_eq!(mode_of(0o644, List::Unknown), 0o600);
    }
}
