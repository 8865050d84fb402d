//! Danger: `--charts` says after an hour of measuring that there is no browser, or leaves one running, or its
//! folder. Scripts stand for the browser here; `page.rs` has a real one.

mod common;

use common::text;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder with a browser that is this script, one for the charts, and the report of the run.
struct Place(tempfile::TempDir);

impl Place {
    fn new(script: &str) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let browser = place.path("chromium");
        std::fs::write(&browser, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o755)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self) -> Output {
        self.run_with(&format!("--charts={}", self.path("of/run").display()))
    }

    fn run_with(&self, charts: &str) -> Output {
        let path = |option: &str, name: &str| format!("--{option}={}", self.path(name).display());
        Command::new(env!("CARGO_BIN_EXE_credenza-bench"))
            .args([
                "--stores=constant",
                "--records=100",
                "--rounds=1",
                "--phases=build",
                "--no-pin",
            ])
            .args([path("dir", ""), path("json", "run.json")])
            .arg(charts)
            .env("PATH", self.0.path())
            .current_dir(self.0.path())
            .output()
            .unwrap()
    }

    fn charts(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.path("of/run")).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }
}

#[test]
fn without_a_browser_nothing_is_measured() {
    let place = Place::new("");
    std::fs::remove_file(place.path("chromium")).unwrap();
    let out = place.run();
    assert_eq!(out.status.code(), Some(111));
    let says = text(&out.stderr);
    assert!(says.contains("none of chromium, ") && says.contains("install chromium"), "{says}");
    assert!(out.stdout.is_empty() && !place.path("run.json").exists());
    assert!(!place.path("of").exists());
}

#[test]
fn a_folder_that_cannot_be_is_told_before_anything_is_measured() {
    let place = Place::new("");
    std::fs::write(place.path("of"), "a file").unwrap();
    let out = place.run();
    assert_eq!(out.status.code(), Some(111));
    assert!(text(&out.stderr).contains("of/run"), "{}", text(&out.stderr));
    assert!(out.stdout.is_empty() && !place.path("run.json").exists());
}

#[test]
fn a_browser_that_draws_nothing_is_told_and_costs_no_figure() {
    let place = Place::new("echo why >&2; exit 7");
    let out = place.run();
    assert_eq!(out.status.code(), Some(111));
    let says = text(&out.stderr);
    assert!(says.contains("/chromium: ") && says.contains("status: 7); it said: why"), "{says}");
    assert!(place.path("run.json").exists());
    assert!(place.charts().is_empty(), "{:?}", place.charts());
}

#[test]
fn metrics_png_are_the_default_and_charts_in_a_folder_of_their_own() {
    let place = Place::new("exit 7");
    let out = place.run_with("--metrics=png");
    assert_eq!(out.status.code(), Some(111));
    assert!(text(&out.stderr).contains("/chromium: "), "{}", text(&out.stderr));
    assert!(place.path("credenza-charts").is_dir());
    let report = std::fs::read_to_string(place.path("run.json")).unwrap();
    assert!(report.contains("\"metrics\": \"default\""), "{report}");
}

/// It holds the output of the program: until its end there is no end of this test. The browser is started by
/// a script, as on some systems.
#[test]
fn a_signal_ends_the_browser_and_removes_its_folder() {
    let place = Place::new("exec 1>/proc/$PPID/fd/1; kill -INT $PPID; /bin/sleep 600 & wait");
    let out = place.run();
    assert_eq!(out.status.code(), Some(130), "{}", text(&out.stderr));
    assert!(place.path("run.json").exists());
    assert!(place.charts().is_empty(), "{:?}", place.charts());
}
