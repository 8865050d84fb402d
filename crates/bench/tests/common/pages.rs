//! Pages of reports, and a browser that opens them.

use credenza_bench::report::{read_json, write_html};
use credenza_bench::result::over_time::{OverTime, Slots};
use credenza_bench::result::{AtRate, Growth, Latency, Report, Summary};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A report that was saved, of seven stores.
pub fn fixture() -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/report.json");
    read_json(&path).unwrap()
}

/// The page of a report: its folder, which goes with the first of these, its file and its text.
pub fn page_of(report: &Report) -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    write_html(report, &path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    (folder, path, text)
}

/// The report with what has charts of lines: curves for four stores in one phase, two of them at a rate
/// that one did not keep up with, and two numbers of records.
pub fn with_lines(mut report: Report) -> Report {
    let latency = |ns: u64| Latency {
        count: 1000,
        p50: ns,
        p90: 2 * ns,
        p99: 3 * ns,
        p999: 40 * ns,
        p9999: 50 * ns,
        max: 60 * ns,
        curve: [(0.5, 1), (0.9, 2), (0.99, 3), (0.999, 40), (0.9999, 50), (1.0, 60)]
            .map(|(part, times)| (part, times * ns))
            .to_vec(),
    };
    let hits = report.results.iter_mut().filter(|r| r.phase == "get-hit" && r.class == "buffered");
    for (i, result) in hits.take(4).enumerate() {
        result.latency_ns = Some(latency(100 * (i as u64 + 1)));
        result.at_rate = (i < 2).then(|| AtRate {
            per_second: 1000.0,
            arrivals: "poisson".to_owned(),
            ops: 5000,
            reached: Summary { median: 999.0, ..Summary::default() },
            kept_up: i == 0,
            rounds_behind: None,
            latency_ns: latency(200),
            operation_latency_ns: Default::default(),
            by_round: Default::default(),
            over_time: Some(over_time(12, &[])),
            verified: true,
        });
    }
    let run =
        |records| Growth { records, key_bytes: 1, value_bytes: 1, results: report.results.clone() };
    report.growth = vec![run(1000), run(report.settings.records)];
    let scans = report.results.iter_mut().filter(|r| r.phase == "scan" && r.class == "buffered");
    for (i, result) in scans.take(2).enumerate() {
        let mut run = over_time(60, &["remove", "get"]);
        run.slot_seconds *= (i + 1) as f64;
        run.seconds *= (i + 1) as f64;
        result.over_time = Some(run);
    }
    report
}

/// A run that stalls in its middle.
pub fn over_time(count: u64, kinds: &[&str]) -> OverTime {
    let slots = || Slots {
        ops: (0..count).map(|i| if i == count / 2 { 0 } else { 1000 + i }).collect(),
        p50_ns: vec![800; count as usize],
        p99_ns: vec![9000; count as usize],
        max_ns: (0..count).map(|i| if i == count / 2 + 1 { 20_000_000 } else { 40_000 }).collect(),
    };
    OverTime {
        slot_seconds: 0.001,
        seconds: 0.001 * count as f64,
        all: slots(),
        operations: kinds.iter().map(|kind| ((*kind).to_owned(), slots())).collect(),
    }
}

/// What the browser made of the page, and what it had to say.
pub fn dump(browser: &Path, profile: &Path, page: &Path) -> Output {
    browse(browser, profile, page, &["--dump-dom"])
}

/// The browser with the page in a narrow window, and what it is to do with it.
pub fn browse(browser: &Path, profile: &Path, page: &Path, more: &[&str]) -> Output {
    Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--disable-background-networking", "--no-first-run", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", profile.join("profile").display()))
        .arg("--window-size=390,3000")
        .args(more)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap()
}
