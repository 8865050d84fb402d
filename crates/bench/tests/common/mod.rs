//! The workbench started as a user does, and what it writes.

#![allow(dead_code, reason = "each test file needs some of it")]

use credenza_bench::result::Report;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

pub fn bench(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_credenza-bench");
    Command::new(program).args(args).output().expect("the workbench does not start")
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
