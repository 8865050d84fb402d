//! What a disk may hold when the power fails: of every sector, any of the contents that it had
//! since it was last made durable, and of every file any of the lengths.
//!
//! A [`Disk`] is told what the files of a store are after each operation ([`Disk::look`]), and
//! when they are durable ([`Disk::synced`]); [`Disk::image`] makes up what is left.

use super::{Rng, write_anew};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What is written to a disk is written in such pieces; pages of memory have eight.
const SECTOR: usize = 512;

/// The bytes of each file; `None`: missing.
pub type Image = Vec<Option<Vec<u8>>>;

/// A file at some moment: which it was, and its bytes.
#[derive(Clone, Default, PartialEq, Eq)]
struct Version {
    inode: u64,
    bytes: Option<Vec<u8>>,
}

impl Version {
    fn of(file: &Path) -> Version {
        let inode = fs::metadata(file).map_or(0, |meta| meta.ino());
        Version { inode, bytes: fs::read(file).ok() }
    }
}

/// The files of a store, as they may be on the disk.
#[derive(Clone)]
pub struct Disk {
    files: Vec<PathBuf>,
    /// Of each file, what it was at the last sync and at each look since.
    versions: Vec<Vec<Version>>,
}

impl Disk {
    /// The files as they are now, all of it durable.
    pub fn of(files: Vec<PathBuf>) -> Disk {
        let versions = files.iter().map(|file| vec![Version::of(file)]).collect();
        Disk { files, versions }
    }

    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The same files with other names, which have the same bytes: all that they were they may still be.
    pub fn move_to(&mut self, files: Vec<PathBuf>) {
        for (file, versions) in files.iter().zip(&mut self.versions) {
            let now = Version::of(file);
            versions.iter_mut().for_each(|version| version.inode = now.inode);
        }
        self.files = files;
    }

    /// Notes what the files are now.
    pub fn look(&mut self) {
        for (file, versions) in self.files.iter().zip(&mut self.versions) {
            let now = Version::of(file);
            if versions.last() != Some(&now) {
                versions.push(now);
            }
        }
    }

    /// What is in file number `i` now is durable.
    pub fn synced(&mut self, i: usize) {
        self.look();
        let versions = &mut self.versions[i];
        let newest = versions.len() - 1;
        let inode = versions[newest].inode;
        // The name may still be that of another file.
        let mut number = 0;
        versions.retain(|version| {
            number += 1;
            number > newest || version.inode != inode
        });
    }

    /// What is in a part of file number `i` now is durable.
    pub fn part_synced(&mut self, i: usize, part: Range<usize>) {
        self.look();
        let (from, to) = (part.start, part.end);
        let Some((newest, older)) = self.versions[i].split_last_mut() else { return };
        let Some(new) = newest.bytes.as_ref() else { return };
        // How long the file was, and what else was in it, is as uncertain as before.
        for version in older.iter_mut().filter(|version| version.inode == newest.inode) {
            let Some(bytes) = version.bytes.as_mut() else { continue };
            let to = to.min(bytes.len()).min(new.len());
            if from < to {
                bytes[from..to].copy_from_slice(&new[from..to]);
            }
        }
    }

    /// Which file bears which name is durable, whatever is in it.
    pub fn names_synced(&mut self) {
        self.look();
        for versions in &mut self.versions {
            let inode = versions.last().map_or(0, |version| version.inode);
            versions.retain(|version| version.inode == inode);
        }
    }

    /// What may be left.
    pub fn image(&self, rng: &mut Rng) -> Image {
        self.versions.iter().map(|versions| mixed(versions, rng)).collect()
    }
}

/// One file: of each sector one of its versions.
fn mixed(all: &[Version], rng: &mut Rng) -> Option<Vec<u8>> {
    let inode = all[rng.below(all.len() as u64) as usize].inode;
    let versions = all.iter().filter(|version| version.inode == inode);
    let versions: Option<Vec<&Vec<u8>>> = versions.map(|version| version.bytes.as_ref()).collect();
    let versions = versions?;
    let newest = versions.len() - 1;
    let any = |rng: &mut Rng| rng.below(versions.len() as u64) as usize;
    let len = versions[if rng.below(2) == 0 { newest } else { any(rng) }].len();
    let mut image = vec![0; len];
    let piece = SECTOR << [0, 0, 1, 3][rng.below(4) as usize];
    let style = rng.below(7);
    let split = rng.below(len as u64 + 1) as usize;
    let one = rng.below(len.div_ceil(piece).max(1) as u64) as usize;
    let chosen = any(rng);
    for (number, part) in image.chunks_mut(piece).enumerate() {
        let at = number * piece;
        let or = |is_new: bool| if is_new { newest } else { chosen };
        let version = match style {
            // As it was at one moment; or only one piece is newer, or older, than the others.
            0 => chosen,
            1 => or(number == one),
            2 => or(number != one),
            // The beginning was written, or the end.
            3 => or(at < split),
            4 => or(at >= split),
            5 => or(rng.below(8) > 0),
            _ => any(rng),
        };
        if let Some(from) = versions[version].get(at..) {
            let len = from.len().min(part.len());
            part[..len].copy_from_slice(&from[..len]);
        }
    }
    Some(image)
}

/// Writes the files of an image.
pub fn write_image(image: &Image, files: &[PathBuf]) {
    for (bytes, file) in image.iter().zip(files) {
        match bytes {
            Some(bytes) => write_anew(file, bytes),
            None => drop(fs::remove_file(file)),
        }
    }
}
