//! Where a new file comes to lie, and in which folder.

use std::fs::read_link;
use std::path::{Path, PathBuf};

/// The folder of a new file at `path`.
pub fn folder_of_new(path: &Path) -> PathBuf {
    folder_of(&led_to(path)).to_owned()
}

/// Where a new file at `path` goes: a link may lead to what is not there yet.
pub fn led_to(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // The kernel follows no more than so many, one after the other.
    for _ in 0..40 {
        let Ok(next) = read_link(&path) else { break };
        path = folder_of(&path).join(next);
    }
    path
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
