//! What a disk may hold when the power fails: of every sector any of the contents that it had since it
//! was last made durable, of every file any of the lengths, and of the folder any of the names.
//!
//! A [`Disk`] looks at the files again and again, as everybody sees them: what was written by calls, and
//! what was stored into maps. What is there at one look and not at the next may still be on the disk, or
//! never have come there, until a sync that began later is over. The kernel writes whatever it likes
//! whenever it likes, so each mixture of these is one that a power cut may leave. What came and went
//! between two looks is not seen: more may be left than is made up here, never less.
//!
//! Names are kept as file systems with a journal keep them: changes of names come to the disk in their
//! order; the sync of a folder brings all up to then, and so does that of a file which is new under its
//! name, as ext4, XFS and btrfs do it. A file that has no name yet is looked at as long as this process has
//! it open: what was synced of it is on the disk when it gets one.

use crate::driver::kernel;
use crate::measure;
use crate::rng::Rng;
use credenza::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What is written to a disk is written in such pieces.
const SECTOR: usize = 512;
const PAGE: usize = 4096;
/// Bytes that are read at once.
const CHUNK: u64 = 1 << 20;

/// A file, whatever its name is: its number, which may be used again, and when it was made.
type Id = (u64, Option<SystemTime>);

/// The number of a look at the files.
pub(super) type Moment = u64;

/// What something was, and the look at which it was so no longer; the oldest first.
type Before<T> = Vec<(Moment, T)>;

/// What it was at this moment.
fn at_moment<'a, T>(now: &'a T, before: &'a Before<T>, moment: Moment) -> &'a T {
    before.iter().find(|(until, _)| *until > moment).map_or(now, |(_, was)| was)
}

/// Forgets what was no longer so at this moment, when something that is on the disk now was.
fn forget<T>(before: &mut Before<T>, moment: Moment) {
    before.retain(|(until, _)| *until > moment);
}

/// The bytes of a page; none where they are zero.
type Bytes = Option<Box<[u8]>>;

#[derive(Default)]
struct Page {
    now: Bytes,
    before: Before<Bytes>,
    seen: Moment,
}

#[derive(Default)]
struct Content {
    len: u64,
    lens: Before<u64>,
    pages: BTreeMap<u64, Page>,
}

type Names = BTreeMap<PathBuf, Id>;

pub(super) struct Disk {
    folder: PathBuf,
    moment: Moment,
    names: Names,
    /// Earlier states of the folder.
    names_before: Before<Names>,
    /// Files of the folder without a name.
    unnamed: Vec<Id>,
    contents: HashMap<Id, Content>,
}

impl Disk {
    /// What is in `folder` now, as if the kernel had just written all of it back.
    pub(super) fn of(folder: &Path) -> Result<Disk> {
        let mut disk = Disk {
            folder: folder.to_owned(),
            moment: 0,
            names: Names::new(),
            names_before: Vec::new(),
            unnamed: Vec::new(),
            contents: HashMap::new(),
        };
        disk.look()?;
        disk.names_before.clear();
        for content in disk.contents.values_mut() {
            content.lens.clear();
            content.pages.values_mut().for_each(|page| page.before.clear());
        }
        Ok(disk)
    }

    /// Notes what the files are now; the number of this look.
    pub(super) fn look(&mut self) -> Result<Moment> {
        self.moment += 1;
        let mut names = Names::new();
        for path in measure::files_in(&self.folder)? {
            match self.look_at(&path) {
                Ok(id) => drop(names.insert(path, id)),
                // It was removed meanwhile.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io("read", e).at(path)),
            }
        }
        self.unnamed.clear();
        for path in unnamed_in(&self.folder) {
            match self.look_at(&path) {
                Ok(id) => self.unnamed.push(id),
                // It was closed meanwhile.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io("read", e).at(path)),
            }
        }
        if names != self.names {
            let was = std::mem::replace(&mut self.names, names);
            self.names_before.push((self.moment, was));
        }
        Ok(self.moment)
    }

    fn look_at(&mut self, path: &Path) -> std::io::Result<Id> {
        let file = File::open(path)?;
        let facts = file.metadata()?;
        let id = (facts.ino(), facts.created().ok());
        let content = self.contents.entry(id).or_default();
        let moment = self.moment;
        if facts.len() != content.len {
            content.lens.push((moment, content.len));
            content.len = facts.len();
        }
        let mut buffer = Vec::new();
        for (start, end) in kernel::parts_with_data(&file)? {
            let mut at = start - start % PAGE as u64;
            while at < end {
                buffer.resize((end - at).min(CHUNK).next_multiple_of(PAGE as u64) as usize, 0);
                let got = read_at(&file, &mut buffer, at)?;
                buffer[got..].fill(0);
                for (number, bytes) in (at / PAGE as u64..).zip(buffer.chunks_exact(PAGE)) {
                    content.note(number, bytes, moment);
                }
                at += buffer.len() as u64;
            }
        }
        for page in content.pages.values_mut().filter(|page| page.seen < moment) {
            page.set(None, moment);
        }
        Ok(id)
    }

    /// What was in a file, or a part of it, at that look is on the disk now; or in a folder, if the number
    /// is its.
    pub(super) fn synced(&mut self, inode: u64, part: Range<u64>, moment: Moment) {
        let Some((path, id)) = self.names.iter().find(|(_, id)| id.0 == inode) else {
            let unnamed = self.unnamed.iter().find(|id| id.0 == inode);
            if let Some(content) = unnamed.and_then(|id| self.contents.get_mut(id)) {
                content.synced(part, moment);
            } else if self.is_folder(inode) {
                self.names_synced(moment);
            }
            return;
        };
        let is_new = self.names_before.iter().any(|(_, names)| names.get(path) != Some(id));
        if let Some(content) = self.contents.get_mut(id) {
            content.synced(part, moment);
        }
        if is_new {
            self.names_synced(moment);
        }
    }

    fn is_folder(&self, inode: u64) -> bool {
        let folders = self.names.keys().filter_map(|path| path.parent());
        let is_it = |path: &Path| fs::metadata(path).is_ok_and(|facts| facts.ino() == inode);
        is_it(&self.folder) || folders.into_iter().any(is_it)
    }

    fn names_synced(&mut self, moment: Moment) {
        forget(&mut self.names_before, moment);
    }

    /// Makes up what may be left, in another folder.
    pub(super) fn write_image(&self, to: &Path, rng: &mut Rng) -> Result<()> {
        let moments = self.names_before.iter().map(|(until, _)| until - 1);
        let moments: Vec<Moment> = moments.chain([self.moment]).collect();
        let chosen = moments[rng.index(moments.len())];
        let moment = if rng.below(2) == 0 { self.moment } else { chosen };
        for (path, id) in at_moment(&self.names, &self.names_before, moment) {
            let (Some(content), Ok(name)) =
                (self.contents.get(id), path.strip_prefix(&self.folder))
            else {
                continue;
            };
            let path = to.join(name);
            let written = (|| {
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                content.write_image(&File::create(&path)?, rng)
            })();
            written.map_err(|e| Error::io("write", e).at(path))?;
        }
        Ok(())
    }
}

/// The files in a folder, or below it, that have no name and that this process has open: paths by which they
/// are opened again.
fn unnamed_in(folder: &Path) -> Vec<PathBuf> {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        let is_within = fs::read_link(path).is_ok_and(|file| file.starts_with(folder));
        is_within && fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.nlink() == 0)
    };
    open.map(|entry| entry.path()).filter(is_one).collect()
}

fn read_at(file: &File, buffer: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], at + got as u64)? {
            0 => break,
            more => got += more,
        }
    }
    Ok(got)
}

impl Page {
    fn set(&mut self, bytes: Bytes, moment: Moment) {
        self.seen = moment;
        if self.now != bytes {
            self.before.push((moment, std::mem::replace(&mut self.now, bytes)));
        }
    }
}

impl Content {
    fn note(&mut self, number: u64, bytes: &[u8], moment: Moment) {
        let page = self.pages.entry(number).or_default();
        if page.now.as_deref() == Some(bytes) {
            page.seen = moment;
            return;
        }
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        page.set((!is_zero).then(|| bytes.into()), moment);
    }

    /// What a part of it was at this moment, and its length, is on the disk.
    fn synced(&mut self, part: Range<u64>, moment: Moment) {
        forget(&mut self.lens, moment);
        let pages = part.start / PAGE as u64..part.end.div_ceil(PAGE as u64);
        self.pages.range_mut(pages).for_each(|(_, page)| forget(&mut page.before, moment));
    }

    /// One of the contents that may be on the disk: of each piece one of those it had.
    fn write_image(&self, file: &File, rng: &mut Rng) -> std::io::Result<()> {
        // The moments at which anything was other than later.
        let mut moments: Vec<Moment> = self.lens.iter().map(|(until, _)| until - 1).collect();
        let all = self.pages.values().flat_map(|page| &page.before);
        moments.extend(all.map(|(until, _)| until - 1));
        moments.sort_unstable();
        moments.dedup();
        let newest = Moment::MAX;
        moments.push(newest);
        let any = |rng: &mut Rng| moments[rng.index(moments.len())];
        let moment = if rng.below(2) == 0 { newest } else { any(rng) };
        let len = *at_moment(&self.len, &self.lens, moment);
        file.set_len(len)?;
        let piece = (SECTOR << [0, 0, 1, 3][rng.index(4)]) as u64;
        let (style, chosen) = (rng.below(7), any(rng));
        let changed = self.pages.iter().filter(|(_, page)| !page.before.is_empty());
        let changed: Vec<u64> = changed.map(|(number, _)| *number).collect();
        // A place among what may be one or the other.
        let of_split = changed.get(rng.index(changed.len())).map_or(0, |page| page * PAGE as u64);
        let split = of_split + rng.below(PAGE as u64 / SECTOR as u64) * SECTOR as u64;
        let or = |is_new: bool| if is_new { newest } else { chosen };
        for (number, page) in &self.pages {
            let start = number * PAGE as u64;
            for at in (start..len.min(start + PAGE as u64)).step_by(piece as usize) {
                let is_there = (at..at + piece).contains(&split);
                let moment = match style {
                    // As it was at one moment; or only one piece is newer, or older, than the others.
                    0 => chosen,
                    1 => or(is_there),
                    2 => or(!is_there),
                    // The beginning was written, or the end.
                    3 => or(at < split),
                    4 => or(at >= split),
                    5 => or(rng.below(8) > 0),
                    _ => any(rng),
                };
                if let Some(bytes) = at_moment(&page.now, &page.before, moment) {
                    let from = (at - start) as usize;
                    let to = from + piece.min(len - at) as usize;
                    file.write_all_at(&bytes[from..to], at)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECES: u64 = 40;

    /// A file in a folder of its own, with the number of it and of the folder.
    fn file(name: &str) -> (tempfile::TempDir, File, [u64; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join(name)).unwrap();
        let inodes = [file.metadata().unwrap().ino(), fs::metadata(folder.path()).unwrap().ino()];
        (folder, file, inodes)
    }

    /// Every content that so many images have of this name, once each; `None` where it is missing.
    fn images(disk: &Disk, name: &str, count: u64) -> Vec<Option<Vec<u8>>> {
        let mut all: Vec<Option<Vec<u8>>> = (0..count)
            .map(|i| {
                let to = tempfile::tempdir().unwrap();
                disk.write_image(to.path(), &mut Rng::new(7, i)).unwrap();
                fs::read(to.path().join(name)).ok()
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// What the first byte of each sector is.
    fn sectors(image: &Option<Vec<u8>>) -> Vec<u8> {
        image.as_ref().unwrap().chunks(SECTOR).map(|sector| sector[0]).collect()
    }

    #[test]
    fn what_was_not_synced_is_old_or_new_or_torn() {
        let (folder, file, [inode, _]) = file("a");
        file.write_all_at(&[1; 16 * SECTOR], 0).unwrap();
        let mut disk = Disk::of(folder.path()).unwrap();
        file.write_all_at(&[2; 16 * SECTOR], 0).unwrap();
        disk.look().unwrap();
        file.write_all_at(&[3; 16 * SECTOR], 0).unwrap();
        let begun = disk.look().unwrap();
        let all: Vec<Vec<u8>> = images(&disk, "a", PIECES).iter().map(sectors).collect();
        for whole in 1..=3 {
            assert!(all.iter().any(|image| image.iter().all(|byte| *byte == whole)), "{whole}");
        }
        assert!(all.iter().any(|image| image.contains(&1) && image.contains(&3)));
        // What is written while the disk is waited for may come with the rest, or not.
        file.write_all_at(&[4; SECTOR], 0).unwrap();
        disk.look().unwrap();
        disk.synced(inode, 0..u64::MAX, begun);
        let mut all: Vec<Vec<u8>> = images(&disk, "a", PIECES).iter().map(sectors).collect();
        all.iter_mut().for_each(|image| assert!(image.drain(1..).all(|byte| byte == 3)));
        all.dedup();
        assert_eq!(all, [[3], [4]]);
    }

    #[test]
    fn a_part_that_is_synced_leaves_the_rest() {
        let (folder, file, [inode, _]) = file("a");
        file.write_all_at(&[1; 3 * PAGE], 0).unwrap();
        let mut disk = Disk::of(folder.path()).unwrap();
        file.write_all_at(&[2; 3 * PAGE], 0).unwrap();
        let begun = disk.look().unwrap();
        disk.synced(inode, PAGE as u64..2 * PAGE as u64, begun);
        let all = images(&disk, "a", PIECES);
        assert!(all.iter().all(|image| image.as_ref().unwrap()[PAGE..2 * PAGE] == [2; PAGE]));
        for at in [0, 2 * PAGE] {
            assert!(all.iter().any(|image| image.as_ref().unwrap()[at] == 1), "{at}");
        }
    }

    #[test]
    fn lengths_and_holes_may_be_those_of_before() {
        let (folder, file, [inode, _]) = file("a");
        file.write_all_at(&[1; 100], 0).unwrap();
        let mut disk = Disk::of(folder.path()).unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all_at(&[2; 100], PAGE as u64).unwrap();
        disk.look().unwrap();
        file.set_len(50).unwrap();
        let begun = disk.look().unwrap();
        let lens = |disk: &Disk| {
            let mut lens: Vec<u64> = (0..PIECES)
                .map(|i| {
                    let to = tempfile::tempdir().unwrap();
                    disk.write_image(to.path(), &mut Rng::new(7, i)).unwrap();
                    fs::metadata(to.path().join("a")).unwrap().len()
                })
                .collect();
            lens.sort_unstable();
            lens.dedup();
            lens
        };
        assert_eq!(lens(&disk), [50, 100, 1 << 40]);
        disk.synced(inode, 0..u64::MAX, begun);
        assert_eq!(lens(&disk), [50]);
    }

    #[test]
    fn names_come_in_their_order_and_with_their_file_or_folder() {
        let (folder, old, [_, folder_inode]) = file("a");
        old.write_all_at(b"old", 0).unwrap();
        let mut disk = Disk::of(folder.path()).unwrap();
        let new = File::create(folder.path().join("b")).unwrap();
        new.write_all_at(b"new", 0).unwrap();
        disk.look().unwrap();
        let inode = new.metadata().unwrap().ino();
        assert!(images(&disk, "b", PIECES).contains(&None));
        let begun = disk.look().unwrap();
        disk.synced(inode, 0..u64::MAX, begun);
        assert_eq!(images(&disk, "b", PIECES), [Some(b"new".to_vec())]);
        // In place of the other: never neither of them.
        fs::rename(folder.path().join("b"), folder.path().join("a")).unwrap();
        let begun = disk.look().unwrap();
        assert_eq!(images(&disk, "a", PIECES), [Some(b"new".to_vec()), Some(b"old".to_vec())]);
        disk.synced(folder_inode, 0..u64::MAX, begun);
        assert_eq!(images(&disk, "a", PIECES), [Some(b"new".to_vec())]);
        assert_eq!(images(&disk, "b", 4), [None]);
    }

    /// As a builder does it: written without a name, synced or not, and then named.
    #[test]
    fn a_file_that_had_no_name_is_what_was_synced_of_it() {
        for is_synced in [true, false] {
            let (folder, old, [_, folder_inode]) = file("a");
            old.write_all_at(&[1; 2 * PAGE], 0).unwrap();
            let mut disk = Disk::of(&folder.path().canonicalize().unwrap()).unwrap();
            let staged = credenza::Staged::create(folder.path().join("a")).unwrap();
            staged.file().write_all_at(&[2; PAGE], 0).unwrap();
            disk.look().unwrap();
            staged.file().write_all_at(&[3; 2 * PAGE], 0).unwrap();
            let begun = disk.look().unwrap();
            assert_eq!(disk.unnamed.len(), 1, "a file system without unnamed files");
            if is_synced {
                disk.synced(staged.file().metadata().unwrap().ino(), 0..u64::MAX, begun);
            }
            assert_eq!(images(&disk, "a", PIECES), [Some(vec![1; 2 * PAGE])]);
            staged.publish().unwrap();
            let begun = disk.look().unwrap();
            let all = images(&disk, "a", PIECES);
            let [old, new] = [1, 3].map(|byte| Some(vec![byte; 2 * PAGE]));
            assert!(all.contains(&old) && all.contains(&new));
            assert_eq!(all.len() > 2, !is_synced, "nothing else, if it was synced");
            // The name may be there without what was never synced.
            disk.synced(folder_inode, 0..u64::MAX, begun);
            let all = images(&disk, "a", PIECES);
            assert!(!all.contains(&old) && all.contains(&new));
            assert_eq!(all.len() > 1, !is_synced);
        }
    }
}
