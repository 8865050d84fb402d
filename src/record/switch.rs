//! Whether this process records: by a call, or by its environment.

use super::session::{Secret, Session, Wanted};
use crate::os::process;
use crate::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{
    Arc, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult,
};
use std::time::Duration;

/// How keys are in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keys {
    /// As they are; those of more than 4096 bytes hashed.
    #[default]
    Plain,
    /// Hashed, with their length: who has the trace can tell which operations are about one key, but not
    /// which key it is.
    Hashed,
}

/// Where to record to, and how.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("users");
/// # let trace = dir.path().join("users.trace");
/// use credenza::hash::Hash;
/// use credenza::record;
///
/// record::start(&record::Options::new(&trace))?;
/// let users = Hash::create(&path)?;
/// users.insert(b"bob", b"1001")?;
/// users.get(b"alice")?;
/// record::stop();
///
/// let entries: Vec<_> = record::Trace::open(&trace)?.entries().collect::<Result<_, _>>()?;
/// assert_eq!(entries[0].action.name(), "insert");
/// assert_eq!(entries[1].outcome.name(), "miss");
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    path: PathBuf,
    keys: Keys,
    limit: Option<u64>,
    secret: Option<Secret>,
}

impl Options {
    /// A new trace at `path`, with keys as they are, of 1 GiB at most.
    pub fn new(path: impl AsRef<Path>) -> Options {
        Options { path: path.as_ref().to_owned(), keys: Keys::Plain, limit: None, secret: None }
    }

    /// How keys are recorded.
    #[must_use]
    pub fn keys(mut self, keys: Keys) -> Self {
        self.keys = keys;
        self
    }

    /// Bytes that the file may have: the recording ends before it would be longer.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = Some(bytes);
        self
    }

    /// What keys are hashed with. Recordings with one secret have the same hash for the same key; and
    /// who knows it can tell whether a key that he guesses is in the trace. Where all keys are hashed nobody can
    /// without it, because it is drawn and forgotten: no other process continues such a trace. Where only long
    /// ones are, it is the number of the trace.
    #[must_use]
    pub fn secret(mut self, secret: u128) -> Self {
        self.secret = Some((secret as u64, (secret >> 64) as u64));
        self
    }

    /// Whether a recording can begin so: makes the trace, and removes it again.
    ///
    /// # Errors
    /// The file is there already, or cannot be made, or may have fewer bytes than a trace begins with.
    pub fn check(&self) -> Result<()> {
        if self.path.symlink_metadata().is_ok() {
            let what = "this file is there already: name another, or remove it";
            return Err(Error::invalid(what).at(&self.path));
        }
        self.session(false)?;
        std::fs::remove_file(&self.path).map_err(|e| Error::io("remove", e).at(&self.path))
    }

    fn session(&self, may_continue: bool) -> Result<Session> {
        let (is_hashed, limit, secret) = (self.keys == Keys::Hashed, self.limit, self.secret);
        Session::open(&self.path, Wanted { is_hashed, limit, secret }, may_continue)
    }
}

/// What this process does.
#[derive(Debug)]
enum Switch {
    /// The environment was not looked at yet.
    Unknown,
    Off,
    On(Arc<Session>),
    /// What the environment asks for cannot be done, and why.
    Refused(String),
}

static SWITCH: RwLock<Switch> = RwLock::new(Switch::Unknown);

/// The first process that asked for the switch, as [`process::forks_and_pid`] tells it; 0 before.
static HOME: AtomicU64 = AtomicU64::new(0);

/// Whether this process was forked since: whichever thread had the switch then is not here to let it go.
fn is_forked() -> bool {
    let (forks, pid) = process::forks_and_pid();
    let own = u64::from(forks) << 32 | u64::from(pid);
    let home = HOME.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
    home.is_err_and(|home| home != own)
}

/// The switch to look at; none where nobody will ever let it go.
fn switch() -> Option<RwLockReadGuard<'static, Switch>> {
    if is_forked() {
        return patiently(|| SWITCH.try_read());
    }
    Some(SWITCH.read().unwrap_or_else(PoisonError::into_inner))
}

/// The same to turn.
fn switch_to_turn() -> Option<RwLockWriteGuard<'static, Switch>> {
    if is_forked() {
        return patiently(|| SWITCH.try_write());
    }
    Some(SWITCH.write().unwrap_or_else(PoisonError::into_inner))
}

/// What there is to be had, unless it is not for longer than a thread of this process would have it.
fn patiently<G>(mut take: impl FnMut() -> TryLockResult<G>) -> Option<G> {
    for _ in 0..200 {
        match take() {
            Ok(taken) => return Some(taken),
            Err(TryLockError::Poisoned(taken)) => return Some(taken.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    None
}

/// Begins to record what is done with stores that this process opens from now on.
///
/// # Errors
/// This process was forked from one that was turning recording on or off; or a recording is on already, whether by this call or by the environment; or the file is there already, or
/// cannot be made.
pub fn start(options: &Options) -> Result<()> {
    current()?;
    let Some(mut switch) = switch_to_turn() else {
        let what = "this process was forked while its parent turned recording on or off";
        return Err(Error::invalid(what));
    };
    if let Switch::On(session) = &*switch {
        let what = "this process records already: stop that first";
        return Err(Error::invalid(what).at(session.path()));
    }
    *switch = on(options.session(false)?);
    Ok(())
}

/// Ends the recording of this process, if one is on, and writes what there is. Handles that were
/// recorded go on without.
pub fn stop() {
    let Some(mut switch) = switch_to_turn() else { return };
    if let Switch::On(session) = std::mem::replace(&mut *switch, Switch::Off) {
        session.end();
    }
}

/// Writes what was recorded so far, of all threads: who reads the trace then finds it there.
pub fn flush() {
    if let Some(switch) = switch()
        && let Switch::On(session) = &*switch
    {
        session.flush();
    }
}

/// Whether stores that this process opens are recorded. No longer when a trace had reached its limit,
/// found no room on its disk, or was locked by others for too long.
pub fn is_on() -> bool {
    current().is_ok_and(|session| session.is_some_and(|session| !session.is_over()))
}

/// The recording that is on.
///
/// # Errors
/// The environment asks for one that cannot be begun.
pub(super) fn current() -> Result<Option<Arc<Session>>> {
    let known = |switch: &Switch| match switch {
        Switch::Unknown => None,
        Switch::Off => Some(Ok(None)),
        Switch::On(session) => Some(Ok(Some(Arc::clone(session)))),
        Switch::Refused(why) => Some(Err(Error::invalid(why))),
    };
    let Some(looked_at) = switch() else { return Ok(None) };
    if let Some(known) = known(&looked_at) {
        return known;
    }
    drop(looked_at);
    let Some(mut switch) = switch_to_turn() else { return Ok(None) };
    if matches!(*switch, Switch::Unknown) {
        let begun = from_environment(|name| std::env::var_os(name));
        let begun = begun.and_then(|options| options.map(|o| o.session(true)).transpose());
        *switch = match begun {
            Ok(None) => Switch::Off,
            Ok(Some(session)) => on(session),
            Err(e) => Switch::Refused(format!("CREDENZA_RECORD asks for what cannot be: {e}")),
        };
    }
    known(&switch).unwrap_or(Ok(None))
}

fn on(session: Session) -> Switch {
    static ONCE: Once = Once::new();
    extern "C" fn leave() {
        // Nobody is waited for who holds the switch while the process ends.
        if let Ok(switch) = SWITCH.try_read()
            && let Switch::On(session) = &*switch
        {
            session.flush();
        }
    }
    ONCE.call_once(|| process::at_exit(leave));
    Switch::On(Arc::new(session))
}

/// What the environment asks for.
fn from_environment(get: impl Fn(&str) -> Option<OsString>) -> Result<Option<Options>> {
    let Some(path) = get("CREDENZA_RECORD").filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    if process::has_more_rights_than_its_starter() {
        return Ok(None);
    }
    let mut options = Options::new(PathBuf::from(path));
    let text = |name| get(name).map(|value: OsString| value.to_string_lossy().into_owned());
    options.keys = match text("CREDENZA_RECORD_KEYS").as_deref() {
        None | Some("" | "plain") => Keys::Plain,
        Some("hashed") => Keys::Hashed,
        Some(other) => {
            let what = format!("CREDENZA_RECORD_KEYS is '{other}', and neither plain nor hashed");
            return Err(Error::invalid(what));
        }
    };
    if let Some(limit) = text("CREDENZA_RECORD_LIMIT").filter(|limit| !limit.is_empty()) {
        let asked = bytes(&limit).ok_or_else(|| {
            let what = "is no number of bytes, with K, M, G or T behind it if you like";
            Error::invalid(format!("CREDENZA_RECORD_LIMIT is '{limit}', which {what}"))
        })?;
        options = options.limit(asked);
    }
    if let Some(secret) = text("CREDENZA_RECORD_SECRET").filter(|secret| !secret.is_empty()) {
        let is_right = secret.len() == 32 && secret.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u128::from_str_radix(&secret, 16).ok().filter(|_| is_right);
        let number = number.ok_or_else(|| {
            Error::invalid("CREDENZA_RECORD_SECRET does not have 32 hexadecimal digits")
        })?;
        options = options.secret(number);
    }
    Ok(Some(options))
}

/// A number of bytes, with K, M, G or T behind it if there is one, times 1024.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text.get(digits.len()..)?.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> Result<Option<Options>> {
        from_environment(|name| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_environment_says_what_is_recorded() {
        assert!(asked(&[]).unwrap().is_none());
        assert!(
            asked(&[("CREDENZA_RECORD", ""), ("CREDENZA_RECORD_KEYS", "x")]).unwrap().is_none()
        );
        let file = ("CREDENZA_RECORD", "/tmp/trace");
        let options = asked(&[file]).unwrap().unwrap();
        assert_eq!((options.keys, options.limit, options.secret), (Keys::Plain, None, None));
        let more = [("CREDENZA_RECORD_KEYS", "hashed"), ("CREDENZA_RECORD_LIMIT", "5m")];
        let secret = ("CREDENZA_RECORD_SECRET", "0000000000000002000000000000000A");
        let options = asked(&[file, more[0], more[1], secret]).unwrap().unwrap();
        let secret = Some((10, 2));
        assert_eq!(
            (options.keys, options.limit, options.secret),
            (Keys::Hashed, Some(5 << 20), secret)
        );
        for bad in [
            ("CREDENZA_RECORD_KEYS", "none"),
            ("CREDENZA_RECORD_LIMIT", "much"),
            ("CREDENZA_RECORD_LIMIT", "-1"),
            ("CREDENZA_RECORD_LIMIT", "99999999999T"),
            ("CREDENZA_RECORD_SECRET", "12"),
            ("CREDENZA_RECORD_SECRET", "+0000000000000020000000000000000A"),
        ] {
            let error = asked(&[file, bad]).unwrap_err().to_string();
            assert!(error.contains(bad.0), "{error}");
        }
    }
}
