//! Who made way for the index of a hash store: a file of that name which is none gets another one, and whoever looks for
//! it is told.

use crate::exit;
use crate::output::shown;
use crate::replaced::index_of;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// Nothing is said: the user wants quiet.
pub fn silence() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Does what opens or makes a store at `path`, and says what made way for its index.
pub fn noting<T>(path: &Path, open: impl FnOnce() -> T) -> T {
    let index = index_of(path);
    let before = id_of(&index);
    let done = open();
    if before.is_none() || before == id_of(&index) || IS_SILENT.load(Ordering::Relaxed) {
        return done;
    }
    let numbered = |number: u32| index.with_added_extension(number.to_string());
    let names = (1..).map(numbered).take_while(|name| id_of(name).is_some());
    if let Some(name) = names.into_iter().find(|name| id_of(name) == before) {
        let (index, name) = (shown(&index), shown(&name));
        exit::note(format_args!("{index}: had the name of the store's index, and is {name} now"));
    }
    done
}

/// Which file or link has this name.
fn id_of(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}
