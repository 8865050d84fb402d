//! Finding and opening the rivals' libraries at run time, so that none is needed to build.
//!
//! A library stays in memory until the process ends, also when its last store is closed: some have
//! threads of their own, handlers at exit and of threads, or locks that somebody waits for, and what
//! comes to lie where such a library was is then written over by it.

#![allow(unsafe_code)]

use credenza::{Error, ErrorKind, Result};
use libloading::Library;
use libloading::os::unix;
use std::ffi::{CStr, OsStr, OsString, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a store's library may be found, and where a user gets it.
pub(crate) struct Source {
    /// File names that the system's loader is asked for.
    pub(crate) names: &'static [&'static str],
    /// The Debian package that brings it.
    pub(crate) package: Option<&'static str>,
    /// Where it comes from, when no package brings it.
    pub(crate) home: &'static str,
}

/// What it needs itself is looked up when it is first called; its symbols are for nobody else; it is
/// never taken out of memory.
const HOW: c_int = libc::RTLD_LAZY | libc::RTLD_LOCAL | libc::RTLD_NODELETE;

/// What cannot be done where a library is not installed.
const FIND: &str = "find its library";

/// An opened library and the file it was.
pub(crate) struct Opened {
    pub(crate) library: Library,
    pub(crate) file: PathBuf,
}

impl Source {
    /// What to do to have the library.
    pub(crate) fn advice(&self, store: &str) -> String {
        match self.package {
            Some(package) => format!("apt-get install {package}"),
            None => format!(
                "build the shared library from {} and say --lib {store}=FILE or set {}=FILE",
                self.home,
                variable(store)
            ),
        }
    }

    /// Opens the library from `file`, from the file that the environment names, or from the
    /// system's folders, and makes sure that it has `symbol`.
    pub(crate) fn open(&self, store: &str, file: Option<&Path>, symbol: &CStr) -> Result<Opened> {
        // An empty name would open the program itself.
        let in_environment = std::env::var_os(variable(store)).filter(|name| !name.is_empty());
        let named = file.map(|f| f.as_os_str().to_owned()).or(in_environment);
        let is_named = named.is_some();
        let names = match named {
            Some(name) => vec![as_path(name)],
            None => self.names.iter().map(OsString::from).collect(),
        };
        let (mut reason, mut is_broken) = (String::new(), false);
        for name in &names {
            // SAFETY: opening runs the library's own start-up code. The user installed the
            // library or named it: that it may run is their choice, as it is for any program.
            match unsafe { unix::Library::open(Some(name), HOW) } {
                Ok(library) => return opened(library.into(), name.as_ref(), symbol),
                Err(e) => {
                    // The loader's own words are the cause of the error, not in it.
                    let cause = std::error::Error::source(&e).map(ToString::to_string);
                    let says = cause.unwrap_or_else(|| e.to_string());
                    // What is wrong with a library that is there is more than that another is not.
                    if !is_broken {
                        is_broken = !says_it_is_not_there(&says, name);
                        reason = says;
                    }
                }
            }
        }
        if is_named {
            return Err(Error::invalid(format!(
                "{reason}; name a shared library of {store}, or leave that to the system's folders"
            )));
        }
        let what = format!("{reason}; to have it: {}", self.advice(store));
        Err(match is_broken {
            true => Error::invalid(what),
            false => Error::io(FIND, io::Error::new(io::ErrorKind::NotFound, what)),
        })
    }

    /// The version of the Debian package that the library's file belongs to, where it does.
    pub(crate) fn debian_version(&self, file: &Path) -> Option<String> {
        let package = self.package.filter(|_| file.starts_with("/usr/lib"))?;
        let query = ["-W", "-f", "${Version}", package];
        let output = Command::new("dpkg-query").args(query).output().ok()?;
        let version = String::from_utf8(output.stdout).ok().filter(|v| !v.is_empty())?;
        output.status.success().then(|| format!("{version} (Debian {package})"))
    }
}

/// Whether the loader found no file of this name, and not one that it needs in turn.
fn says_it_is_not_there(says: &str, name: &OsStr) -> bool {
    let behind = says.strip_prefix(&*name.to_string_lossy());
    behind.is_some_and(|text| text.contains("cannot open shared object file: No such file"))
}

/// Whether a store's library could not be opened because nobody installed one, and not for anything else.
pub(crate) fn is_not_installed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io { action: FIND, .. })
}

/// Whether the environment names a library for this store.
pub(crate) fn is_in_environment(store: &str) -> bool {
    std::env::var_os(variable(store)).is_some_and(|name| !name.is_empty())
}

/// A file that was named, as the loader takes it for one: without a slash it would look in the system's
/// folders alone.
fn as_path(name: OsString) -> OsString {
    match name.as_bytes().contains(&b'/') {
        true => name,
        false => Path::new(".").join(name).into_os_string(),
    }
}

/// The environment variable that names a store's library.
fn variable(store: &str) -> String {
    format!("CREDENZA_LIB_{}", store.to_uppercase().replace('-', "_"))
}

fn opened(library: Library, name: &Path, symbol: &CStr) -> Result<Opened> {
    // SAFETY: the symbol is only looked up here, neither called nor read.
    let address = unsafe { library.get::<*const libc::c_void>(symbol) };
    let address = address.map_err(|_| {
        let symbol = symbol.to_string_lossy();
        Error::invalid(format!("this library has no '{symbol}': it is another one, or too old"))
            .at(name)
    })?;
    let file = file_of(*address);
    Ok(Opened { file: file.unwrap_or_else(|| name.to_owned()), library })
}

/// The file that the code or data at `address` was loaded from.
fn file_of(address: *const libc::c_void) -> Option<PathBuf> {
    // SAFETY: all fields of Dl_info are pointers, for which null is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about, and `info` is a place for the answer.
    let found = unsafe { libc::dladdr(address, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr answered: the name is a C string of the loader, which lives as long as the
    // library is loaded, and the caller holds the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    Some(path.canonicalize().unwrap_or(path))
}

/// The symbol of this name.
///
/// # Safety
/// `T` is the type of the symbol as the library's header declares it, and is not used after the
/// library was closed.
pub(super) unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T> {
    // SAFETY: the caller's promise.
    let symbol = unsafe { library.get::<T>(name.as_bytes()) };
    symbol.map(|symbol| *symbol).map_err(|_| {
        Error::invalid(format!(
            "it has no function {name}: it is another library, or of a version that the workbench does not know"
        ))
    })
}

/// Declares a struct of function pointers taken from a library by their own names, or by what
/// follows a prefix where several libraries have the same functions.
///
/// SAFETY of the macro: each type must be the symbol's C prototype; the struct keeps the library
/// open, so that the pointers stay valid as long as it lives.
macro_rules! api {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($symbol:ident: $type:ty,)* }) => {
        $(#[$doc])*
        $vis struct $name {
            $($vis $symbol: $type,)*
            _library: libloading::Library,
        }

        impl $name {
            #[allow(dead_code, reason = "a struct is loaded in one way or the other")]
            $vis fn load(library: libloading::Library) -> credenza::Result<$name> {
                $name::load_prefixed(library, "")
            }

            $vis fn load_prefixed(
                library: libloading::Library,
                prefix: &str,
            ) -> credenza::Result<$name> {
                Ok($name {
                    $($symbol: {
                        let name = format!("{prefix}{}", stringify!($symbol));
                        // SAFETY: the type is the prototype that the library's header declares,
                        // and `_library` outlives the copied pointer.
                        unsafe { $crate::driver::library::symbol::<$type>(&library, &name)? }
                    },)*
                    _library: library,
                })
            }
        }
    };
}
pub(crate) use api;
