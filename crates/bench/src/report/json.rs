//! The contract file on disk.
//!
//! Published whole or not at all: a run killed while writing leaves the file of an earlier run as
//! it was. What is published has been read back first, so a figure that JSON cannot hold
//! (not a number, infinite) is an error at the writer, not at the reader.

use super::check;
use crate::result::{CONTRACT, Report};
use credenza::{Error, ErrorKind, Result, Staged};
use std::io::Write;
use std::path::Path;

/// Writes the report as indented JSON in place of `path`, atomically and durably.
///
/// # Errors
/// The folder is missing, full or may not be written, `path` is not a regular file, or a figure
/// is not finite.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    let mut text = serde_json::to_string_pretty(report).map_err(|e| unfit(&e).at(path))?;
    if let Err(e) = serde_json::from_str::<Report>(&text) {
        return Err(unfit(&e).at(path));
    }
    text.push('\n');
    publish(text.as_bytes(), path)
}

/// Reads a report; fields that this version does not know are passed over.
///
/// # Errors
/// The file cannot be read, is not a report, is of a contract this program does not know, or has figures
/// that no run gives.
pub fn read(path: &Path) -> Result<Report> {
    let bytes = std::fs::read(path).map_err(|e| Error::io("read", e).at(path))?;
    parse(&bytes).map_err(|e| e.at(path))
}

fn parse(bytes: &[u8]) -> Result<Report> {
    let report: Report = serde_json::from_slice(bytes).map_err(|e| {
        let found = format!("{e}; name a file that `credenza bench --json` wrote");
        Error::new(ErrorKind::WrongFormat { expected: "a report of credenza bench", found })
    })?;
    if report.credenza_bench != CONTRACT {
        let what = format!(
            "this report follows version {} of the contract, and this program knows version \
             {CONTRACT}; use the program that wrote it",
            report.credenza_bench
        );
        return Err(Error::new(ErrorKind::Unsupported(what)));
    }
    check::figures(&report)?;
    Ok(report)
}

/// Writes any value as indented JSON in place of `path`.
pub(crate) fn publish_value(value: &impl serde::Serialize, path: &Path) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).map_err(|e| unfit(&e).at(path))?;
    text.push('\n');
    publish(text.as_bytes(), path)
}

/// Puts these bytes in the place of `path`, whole or not at all. Where that fails they are kept elsewhere, as they
/// may have taken hours: the error says where.
pub(crate) fn publish(bytes: &[u8], path: &Path) -> Result<()> {
    replace(bytes, path).map_err(|e| kept(bytes, path, e))
}

/// The error for what could not be written to `path`, and is in the folder for temporary files; the error as it
/// was where that has no room for it either.
fn kept(bytes: &[u8], path: &Path, error: Error) -> Error {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // With all of a long one the name would be too long.
    let name: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
    let folder = std::env::temp_dir();
    let file = tempfile::Builder::new()
        .prefix("credenza-")
        .suffix(&format!("-{name}"))
        .tempfile_in(folder);
    let place = file.and_then(|mut file| {
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(file.keep()?.1)
    });
    match place {
        Ok(place) => {
            Error::invalid(format!("{error}; what was to be there is in {}", place.display()))
        }
        Err(_) => error,
    }
}

fn replace(bytes: &[u8], path: &Path) -> Result<()> {
    let staged = Staged::create(path)?;
    let mut file = staged.file();
    file.write_all(bytes).map_err(|e| Error::io("write", e).at(path))?;
    staged.publish()
}

fn unfit(e: &serde_json::Error) -> Error {
    Error::invalid(format!("this report has a figure that JSON cannot hold: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/report.json");

    #[test]
    fn what_cannot_be_written_is_kept_elsewhere_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let error =
            publish(b"figures", &folder.path().join("none/run.json")).unwrap_err().to_string();
        let (what, place) = error.split_once("; what was to be there is in ").expect(&error);
        assert!(what.contains("none: cannot") && place.ends_with("-run.json"), "{error}");
        assert_eq!(std::fs::read(place).unwrap(), b"figures");
        std::fs::remove_file(place).unwrap();
    }

    #[test]
    fn what_is_written_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let report = parse(FIXTURE).unwrap();
        write(&report, &path).unwrap();
        let again = read(&path).unwrap();
        let value = |r: &Report| serde_json::to_value(r).unwrap();
        assert_eq!(value(&again), value(&report));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a stray file is left");
    }

    #[test]
    fn a_figure_json_cannot_hold_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        std::fs::write(&path, "old").unwrap();
        let mut report = parse(FIXTURE).unwrap();
        report.results[0].ns_per_op.median = f64::NAN;
        let error = write(&report, &path).unwrap_err().to_string();
        assert!(error.contains("cannot hold"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn bad_files_are_errors_that_say_what_to_do() {
        let cases: [(&[u8], &str); 5] = [
            (b"", "credenza bench --json"),
            (b"[1, 2", "credenza bench --json"),
            (b"\xff\xfe", "credenza bench --json"),
            (br#"{"results": 3}"#, "credenza bench --json"),
            (
                br#"{"credenza_bench": 9, "machine": {}, "settings": {}, "results": []}"#,
                "version 9",
            ),
        ];
        for (bytes, says) in cases {
            let error = parse(bytes).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let error = read(Path::new("no/such/file.json")).unwrap_err().to_string();
        assert!(error.contains("no/such/file.json: cannot read"), "{error}");
        for cut in 0..FIXTURE.len().min(4000) {
            assert!(parse(&FIXTURE[..cut]).is_err(), "cut at {cut}");
        }
    }
}
