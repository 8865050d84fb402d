//! A library is opened by a process of its own before this one opens it.
//!
//! Opening a library runs its start-up code, and so does a file that was cut off, or one that is something
//! else: it may end the process, or never return. Measuring is done by processes that may end; the one
//! that starts them, and reports, must not. So the program starts itself again with its own arguments, and
//! what it is to open in the environment: that one opens the library, asks for its version, and ends
//! ([`answer`]). What becomes of it is remembered, as the same library is asked for more than once.
//!
//! Threads: any.

use super::kernel;
use super::{Driver, ForDriver, with_driver};
use crate::ended;
use credenza::{Error, Result};
use std::collections::BTreeMap;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The store whose library is to be opened, its file where one was named, and who asks: nobody else's
/// environment is to have this program do nothing but that.
const ASKED_BY: &str = "CREDENZA_TRY_ASKED_BY";
const STORE: &str = "CREDENZA_TRY_STORE";
const LIBRARY: &str = "CREDENZA_TRY_LIBRARY";

/// The status of a process that opened the library and went on. Not 0: start-up code may leave with that.
const CAME_BACK: i32 = 93;

/// Opening a library takes milliseconds, on a slow disk a second.
const LONGEST: Duration = Duration::from_secs(20);

/// The driver of a library that was tried, and is of a version that the driver is for.
pub(crate) fn load<D: Driver>(library: Option<&Path>) -> Result<D> {
    // A server that nobody named is not asked for.
    if D::SOURCE.is_none() || D::IS_SERVER && library.is_none() {
        return D::load(library);
    }
    check(D::NAME, library)?;
    let driver = D::load(library)?;
    is_known::<D>(&driver)?;
    Ok(driver)
}

/// Refuses a version that the driver's declarations are not for.
fn is_known<D: Driver>(driver: &D) -> Result<()> {
    let identity = driver.identity();
    let version = identity.version.as_str();
    // Some builds of a library that tells it do not.
    let is_silent = D::VERSIONS.is_empty() || version.is_empty();
    if is_silent || D::VERSIONS.iter().any(|known| version.starts_with(known)) {
        return Ok(());
    }
    let known: Vec<String> = D::VERSIONS.iter().map(|known| format!("{known}*")).collect();
    let advice = D::SOURCE.map(|source| source.advice(D::NAME)).unwrap_or_default();
    let error = Error::invalid(format!(
        "this library says that it is version '{version}', but the workbench knows {} alone: to have \
         one, {advice}",
        known.join(", ")
    ));
    Err(identity.file.into_iter().fold(error, Error::at))
}

/// In the process that is to open a library: opens it, and ends. Whatever begins a run of this program
/// calls this first.
pub(crate) fn answer() {
    struct Open<'a>(Option<&'a Path>);

    impl ForDriver for Open<'_> {
        type Output = ();

        fn run<D: Driver>(self) {
            // An error is no end: whoever asked comes to the same one by itself, and tells it.
            let _ = D::load(self.0).map(|driver| driver.identity());
        }
    }

    let asked_by = std::env::var(ASKED_BY).ok().and_then(|id| id.parse().ok());
    if asked_by != Some(parent_id()) {
        return;
    }
    let store = std::env::var_os(STORE).unwrap_or_default();
    let library = std::env::var_os(LIBRARY).map(PathBuf::from);
    // Nobody is to wait for ever for what nobody waits for any more.
    let status = kernel::end_with_parent().map_or(1, |()| CAME_BACK);
    store.to_str().and_then(|store| with_driver(store, Open(library.as_deref())));
    std::process::exit(status);
}

/// An error if whoever opens the library of this store does not live on.
fn check(store: &str, library: Option<&Path>) -> Result<()> {
    type Tried = BTreeMap<(String, Option<PathBuf>), Option<String>>;
    static TRIED: Mutex<Tried> = Mutex::new(BTreeMap::new());

    // A program of tests does not begin with `answer`.
    if cfg!(test) {
        return Ok(());
    }
    let which = (store.to_owned(), library.map(Path::to_owned));
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = match tried.get(&which) {
        Some(found) => found.clone(),
        None => {
            let found = try_it(store, library)?;
            tried.insert(which, found.clone());
            found
        }
    };
    let Some(what) = found else { return Ok(()) };
    let error = Error::invalid(format!(
        "the process that opened the library of '{store}' to look at it did not come back: {what}; the \
         file is damaged, or another library: build or install it anew"
    ));
    Err(library.into_iter().fold(error, Error::at))
}

/// What became of the process, if it did not end well.
fn try_it(store: &str, library: Option<&Path>) -> Result<Option<String>> {
    let program = std::env::current_exe().map_err(|e| Error::io("find this program", e))?;
    let mut command = Command::new(&program);
    command.args(std::env::args_os().skip(1)).env(STORE, store).env_remove(LIBRARY);
    command.env(ASKED_BY, std::process::id().to_string());
    if let Some(file) = library {
        command.env(LIBRARY, file);
    }
    // In a group of its own a Ctrl-C does not reach it: it ends with this process.
    let child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| Error::io("start a process", e).at(&program))?;
    match wait(child)? {
        Some(status) if status.code() == Some(CAME_BACK) => Ok(None),
        Some(status) => {
            Ok(Some(ended::in_words(status, || ", as where a file is shorter than it says")))
        }
        None => Ok(Some(format!("no end after {} seconds", LONGEST.as_secs()))),
    }
}

/// How it ended; `None` if it did not in time, and was ended.
fn wait(mut child: Child) -> Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let failed = |e| Error::io("wait for a process", e);
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(Some(status));
        }
        if begun.elapsed() > LONGEST {
            // It may have ended by itself just now: then there is nothing to do.
            let _ = child.kill();
            child.wait().map_err(failed)?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
