//! The files that results go to, looked at before anything is done for them: what took an hour to measure is
//! not to be lost for a folder that is not there.

use super::json::publish_value;
use crate::driver::kernel::leads_to;
use credenza::{Error, Result, Staged};
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Refuses files that cannot be made, and one that two options name, or that is one of `inputs`. What is there already stays
/// as it is.
///
/// # Errors
/// A folder is missing or may not be written, what is there is no regular file, or none that such an option writes (of others
/// a flag of the same name takes no file, so that the next word is), or two options name one file; or it is standard
/// output, where the table goes, or called `-`, by which others mean that.
pub(crate) fn check(
    outputs: &[(&str, Option<&PathBuf>)],
    inputs: &[Option<&PathBuf>],
) -> Result<()> {
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in outputs.iter().filter_map(|(option, path)| Some((*option, (*path)?))) {
        if path == Path::new("-") {
            let what = format!(
                "{option} takes a file, as what people read goes to standard output: name one, or ./- if \
                 it shall be called so"
            );
            return Err(Error::invalid(what));
        }
        // The table would go with it.
        if leads_to(1, path) {
            let what = format!("{option} and standard output are the same file: give each its own");
            return Err(Error::invalid(what).at(path));
        }
        let place = whole(path);
        if let Some((other, _)) = known.iter().find(|(_, known)| *known == place) {
            let what = format!("{other} and {option} name the same file: give each its own");
            return Err(Error::invalid(what).at(path));
        }
        if inputs.iter().flatten().any(|input| whole(input) == place) {
            let what = format!("{option} would write over what is read: name another file");
            return Err(Error::invalid(what).at(path));
        }
        if !is_replaceable(option, path)? {
            let what = format!(
                "{option}: there is a file already, which is none that this option writes: name another file; \
                 remove it if it shall be replaced"
            );
            return Err(Error::invalid(what).at(path));
        }
        let folder = place.parent().unwrap_or(Path::new("/"));
        if !folder.exists() {
            return Err(no_folder(option, folder));
        }
        // What it makes goes again.
        Staged::create(path)?;
        known.push((option, place));
    }
    Ok(())
}

/// Whether what is there begins as what this option writes, or nothing is there, or nothing in it.
fn is_replaceable(option: &str, path: &Path) -> Result<bool> {
    let begins: &[&str] = match option {
        "--json" => &["{", "["],
        "--html" => &["<!doctype html"],
        "--csv" => &["store,"],
        _ => return Ok(true),
    };
    if !path.is_file() {
        return Ok(true);
    }
    let mut head = Vec::new();
    let file = File::open(path).map_err(|e| Error::io("open", e).at(path))?;
    file.take(64).read_to_end(&mut head).map_err(|e| Error::io("read", e).at(path))?;
    let head = head.to_ascii_lowercase();
    Ok(head.is_empty() || begins.iter().any(|begin| head.starts_with(begin.as_bytes())))
}

/// Writes to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|e| Error::io("write to standard output", e))
}

/// Prints what was found, and writes it as JSON where a file is named: that first, as whoever reads the text
/// may be gone, and what is on a disk stays.
pub(crate) fn tell(text: &str, found: &impl Serialize, json: Option<&PathBuf>) -> Result<()> {
    let published = json.map_or(Ok(()), |path| publish_value(found, path));
    let printed = print(text);
    // That a file could not be written is the worse of both.
    published.and(printed)
}

/// Makes the folder that `--keep` names, which may be there and empty.
///
/// # Errors
/// There is something in it, or it cannot be made: those above it must be there.
pub(crate) fn prepare_to_keep(folder: &Path) -> Result<()> {
    match std::fs::create_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(no_folder("--keep", folder.parent().unwrap_or(folder)));
        }
        Err(e) if e.kind() != ErrorKind::AlreadyExists => {
            return Err(Error::io("create", e).at(folder));
        }
        _ => {}
    }
    let mut inside = std::fs::read_dir(folder).map_err(|e| Error::io("list", e).at(folder))?;
    match inside.next() {
        None => Ok(()),
        Some(_) => Err(Error::invalid(
            "--keep takes a new folder or an empty one, and there is something in this",
        )
        .at(folder)),
    }
}

/// The error for a folder that an option names and that is not there.
pub(crate) fn no_folder(option: &str, folder: &Path) -> Error {
    Error::invalid(format!("{option}: there is no such folder: make it, or name another"))
        .at(folder)
}

/// The path by which a file is known whatever it was named by: it may not be there yet.
fn whole(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let in_folder = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(in_folder).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_by_two_names_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        std::os::unix::fs::symlink(at("x.json"), at("link")).unwrap();
        let of = |a: &Path, b: &Path| {
            let (a, b) = (a.to_owned(), b.to_owned());
            check(&[("--json", Some(&a)), ("--csv", None), ("--html", Some(&b))], &[])
        };
        assert!(of(&at("x.json"), &at("x.html")).is_ok());
        std::fs::write(at("x.json"), "{old").unwrap();
        for other in ["x.json", "./x.json", "sub/../x.json", "link"] {
            let refused = of(&at("x.json"), &at(other)).unwrap_err().to_string();
            assert!(refused.contains("--json and --html name the same file"), "{refused}");
        }
        assert_eq!(std::fs::read(at("x.json")).unwrap(), b"{old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "a stray file is left");
        let refused = of(Path::new("-"), &at("x.html")).unwrap_err().to_string();
        assert!(refused.contains("--json takes a file") && refused.contains("./-"), "{refused}");
        let refused = of(&at("none/x.json"), &at("x.html")).unwrap_err().to_string();
        assert!(refused.contains("--json: there is no such folder"), "{refused}");
    }

    #[test]
    fn what_no_such_option_has_written_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, input) = (folder.path().join("file"), folder.path().join("input"));
        let of = |option: &str| check(&[(option, Some(&file))], &[None, Some(&input)]);
        for (there, options) in [
            ("", &["--json", "--html", "--csv"][..]),
            ("{\n  \"credenza_bench\": 1}", &["--json"]),
            ("[]", &["--json"]),
            ("<!DOCTYPE html><html>", &["--html"]),
            ("store,class,phase", &["--csv"]),
            ("key\tvalue\n", &[]),
            ("\u{89}CRDNZA\n", &[]),
        ] {
            std::fs::write(&file, there).unwrap();
            for option in ["--json", "--html", "--csv"] {
                let done = of(option);
                assert_eq!(done.is_ok(), options.contains(&option), "{option} {there:?}: {done:?}");
            }
            assert_eq!(std::fs::read(&file).unwrap(), there.as_bytes());
        }
        std::fs::write(&file, "{}").unwrap();
        std::os::unix::fs::symlink(&file, &input).unwrap();
        assert!(of("--json").unwrap_err().to_string().contains("write over what is read"));
    }
}
