//! The workbench started as a user does, and what it writes.

#![allow(dead_code, reason = "each test file needs some of it")]

pub mod pages;

use credenza_bench::result::Report;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

pub fn bench(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_credenza-bench");
    Command::new(program).args(args).output().expect("the workbench does not start")
}

/// The same with the text of a workload file; the report is `out.json` in the folder.
pub fn bench_workload(workload: &str, args: &[&str]) -> (Output, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    std::fs::write(path("workload.toml"), workload).unwrap();
    let options = [
        format!("--workload={}", path("workload.toml").display()),
        format!("--dir={}", folder.path().display()),
        format!("--json={}", path("out.json").display()),
    ];
    let out = bench(&[&options.each_ref().map(String::as_str), args].concat());
    (out, folder)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn json_report(path: &Path) -> Report {
    serde_json::from_value(json(path)).unwrap()
}

pub fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}
