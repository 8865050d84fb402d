//! Every chart of a page as files, SVG and PNG, drawn by a browser that is on the machine.
//!
//! The page knows how to save its charts: each has two buttons (`report/export.js`). A browser without a window
//! opens it at `#charts-as-text`, where its script puts what these buttons save into the document, and writes
//! the document out. It has a folder of its own within that of the charts, where also a browser that is shut in
//! (a snap) may read and write; the folder goes with whatever it leaves there.
//!
//! Threads: any. A signal ends the browser, and leaves nothing of it behind.

use crate::ended;
use crate::progress;
use crate::report::{html, json, outputs};
use crate::result::Report;
use crate::runner::folder::Folder;
use crate::runner::process;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use credenza::{Error, Result};
use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a browser may be called; all of these take the same options.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// How wide the window is, in pixels: charts that stand side by side are 546 wide, the others 1112.
const WINDOW: &str = "--window-size=1280,1000";
/// A hundred charts take ten seconds.
const LONGEST: Duration = Duration::from_secs(300);
/// What comes before the charts, a line each, and behind them.
const BEGIN: &str = r#"<pre id="charts-as-text">"#;
const END: &str = "</pre>";

/// The browser that draws charts, where there is one.
pub fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let in_path = |name| std::env::split_paths(&path).map(move |dir| dir.join(name));
    BROWSERS.into_iter().flat_map(in_path).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0)
}

/// Refuses what would be in the way of the charts, before an hour is spent on measuring them. A folder that is
/// not there is made.
///
/// # Errors
/// No browser is found, or the folder cannot be made or written.
pub(crate) fn check(folder: &Path) -> Result<()> {
    needed_browser()?;
    fs::create_dir_all(folder).map_err(|e| Error::io("create", e).at(folder))?;
    outputs::check(&[("--charts", Some(&folder.join("chart.svg")))], &[])
}

fn needed_browser() -> Result<PathBuf> {
    browser().ok_or_else(|| {
        Error::invalid(format!(
            "--charts and --metrics png have a browser draw charts, and none of {} is in PATH: install one \
             (apt-get install chromium), or leave the option out: in the page that --html writes \
             each chart has buttons that save it",
            BROWSERS.join(", ")
        ))
    })
}

/// Writes every chart of the report's page to the folder, each as SVG and PNG, in place of what has its name
/// there. A sign says that it goes on, unless nothing is to be said of that.
///
/// # Errors
/// There is no browser, or it does not do what it is to; or the folder is not there, or full.
pub fn write(report: &Report, folder: &Path, is_quiet: bool) -> Result<()> {
    let browser = needed_browser()?;
    let bar = progress::spinner_unless(is_quiet, "the charts are drawn");
    let scratch = Folder::named_by("--charts", folder)?;
    let text = html::page(report);
    let page = scratch.path().join("page.html");
    fs::write(&page, &text).map_err(|e| Error::io("write", e).at(&page))?;
    let document = opened(&browser, &page, &scratch)?;
    let charts = charts_in(&document).map_err(|e| e.at(&browser))?;
    let (drawn, wanted) = (charts.len(), 2 * text.matches("<figure").count());
    if drawn != wanted {
        let what = format!(
            "the browser wrote {drawn} files of charts, not {wanted}; the page that --html writes has \
             buttons that save them"
        );
        return Err(Error::invalid(what).at(&browser));
    }
    for (name, bytes) in charts {
        json::publish(&bytes, &folder.join(name))?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// The document that the browser makes of the page.
fn opened(browser: &Path, page: &Path, scratch: &Folder) -> Result<String> {
    let at = |name: &str| scratch.path().join(name);
    let made = |path: &Path| File::create(path).map_err(|e| Error::io("create", e).at(path));
    let (document, complaints) = (at("document.html"), at("complaints"));
    let mut profile = std::ffi::OsString::from("--user-data-dir=");
    profile.push(at("profile"));
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", WINDOW])
        // Light, whatever the desktop is.
        .arg("--blink-settings=preferredColorScheme=1")
        .arg(profile);
    if is_root() {
        // It refuses to shut itself in then.
        command.arg("--no-sandbox");
    }
    command
        .args(["--dump-dom", &address(page)?])
        .stdin(Stdio::null())
        .stdout(made(&document)?)
        .stderr(made(&complaints)?);
    let what = match process::run_silent(&mut command, LONGEST, scratch.current())? {
        Some(status) if status.success() => {
            let bytes = fs::read(&document).map_err(|e| Error::io("read", e).at(&document))?;
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        Some(status) => ended::in_words(status, || ": the folder may be full"),
        None => format!("no end after {} seconds", LONGEST.as_secs()),
    };
    let said = fs::read(&complaints).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.map(|line| format!("; it said: {line}")).unwrap_or_default();
    Err(Error::invalid(format!("the browser drew no charts: {what}{last}")).at(browser))
}

/// Whether this process may do everything.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// The address of the page, at the place that its script knows.
fn address(page: &Path) -> Result<String> {
    let page = std::path::absolute(page).map_err(|e| Error::io("find", e).at(page))?;
    let mut address = String::from("file://");
    for byte in page.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' => address.push(char::from(*byte)),
            _ if byte.is_ascii_alphanumeric() => address.push(char::from(*byte)),
            _ => drop(write!(address, "%{byte:02X}")),
        }
    }
    Ok(address + "#charts-as-text")
}

/// Names and content of the files in the document, which has a line for each.
fn charts_in(document: &str) -> Result<Vec<(&str, Vec<u8>)>> {
    let list = document.rsplit_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    let Some((list, _)) = list else {
        return Err(Error::invalid("the browser drew no charts: it did not run the page's script"));
    };
    let charts: Option<Vec<_>> = list.lines().map(chart).collect();
    charts.ok_or_else(|| Error::invalid("the browser wrote something else than charts"))
}

fn chart(line: &str) -> Option<(&str, Vec<u8>)> {
    let (name, content) = line.split_once(' ')?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let content = STANDARD.decode(content).ok()?;
    name.bytes().all(is_plain).then_some((name, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_chart_is_written_nowhere() {
        let document = |list: &str| format!("<p>{BEGIN}{list}{END}</p>");
        let charts = document("a-1.svg aGk=\nb.png aG8=\n");
        let wanted = [("a-1.svg", b"hi".to_vec()), ("b.png", b"ho".to_vec())];
        assert_eq!(charts_in(&charts).unwrap(), wanted);
        for other in ["../x.svg aGk=", "/x.svg aGk=", "x.svg a?", "x.svg", " aGk= aGk="] {
            let refused = charts_in(&document(other)).unwrap_err().to_string();
            assert!(refused.contains("something else than charts"), "{other}: {refused}");
        }
        let refused = charts_in("<p>no such file</p>").unwrap_err().to_string();
        assert!(refused.contains("did not run the page's script"), "{refused}");
    }

    #[test]
    fn every_path_has_an_address() {
        let address = address(Path::new("/a b/50%#1?/\u{e4}.html")).unwrap();
        assert_eq!(address, "file:///a%20b/50%25%231%3F/%C3%A4.html#charts-as-text");
    }
}
