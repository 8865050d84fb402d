//! The folder that a new file lies in.

use std::fs::read_link;
use std::path::{Path, PathBuf};

/// Where a new file at `path` goes: a link may lead to what is not there yet.
pub fn folder_of_new(path: &Path) -> PathBuf {
    let folder_of = |path: &Path| {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).to_owned()
    };
    let mut path = path.to_owned();
    // The kernel follows no more than so many, one after the other.
    for _ in 0..40 {
        let Ok(next) = read_link(&path) else { break };
        path = folder_of(&path).join(next);
    }
    folder_of(&path)
}
