//! What `--lib NAME=PATH` says, checked: a library that no store of the run uses was meant for one.

use crate::driver::{Driver, ForDriver, with_driver};
use credenza::{Error, Result};

/// Refuses libraries that are of no store, of one that is built in, or of one that is not among those that
/// were named; `named` is empty where all stores that are found take part.
pub(crate) fn check(libraries: &[String], named: &[&str]) -> Result<()> {
    let mut known = Vec::new();
    for library in libraries {
        let Some((store, _)) = library.split_once('=').filter(|(_, path)| !path.is_empty()) else {
            let what = format!("--lib {library}: say NAME=PATH, the store and its library");
            return Err(Error::invalid(what));
        };
        if with_driver(store, IsBuiltIn) == Some(true) {
            let what = format!("--lib {library}: '{store}' is built in and has no library");
            return Err(Error::invalid(what));
        }
        if known.contains(&store) {
            let what = format!("--lib names a library of '{store}' twice: leave one of both out");
            return Err(Error::invalid(what));
        }
        known.push(store);
        if !named.is_empty() && !named.contains(&store) {
            return Err(Error::invalid(format!(
                "--lib {library}: '{store}' is not among the stores that are named ({}): name it there, or \
                 leave --lib out",
                named.join(", ")
            )));
        }
    }
    Ok(())
}

struct IsBuiltIn;

impl ForDriver for IsBuiltIn {
    type Output = bool;

    fn run<D: Driver>(self) -> bool {
        D::SOURCE.is_none() && !D::IS_SERVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_would_not_be_used_is_refused() {
        let of = |library: &str, named: &[&str]| {
            check(&[library.to_owned()], named).map_err(|e| e.to_string())
        };
        assert_eq!(of("mdbm=/lib/libmdbm.so", &["hash", "mdbm"]), Ok(()));
        assert_eq!(of("mdbm=/lib/libmdbm.so", &[]), Ok(()));
        for (library, named, says) in [
            ("hash=/etc/passwd", &[][..], "built in"),
            ("redb=/etc/passwd", &[], "built in"),
            ("mdbm=/lib/libmdbm.so", &["hash", "cdb"], "not among the stores"),
            ("lmdb", &[], "say NAME=PATH"),
            ("lmdb=", &[], "say NAME=PATH"),
        ] {
            let refused = of(library, named).unwrap_err();
            assert!(refused.contains(says) && refused.contains(library), "{refused}");
        }
    }
}
