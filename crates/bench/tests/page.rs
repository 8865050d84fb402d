//! The page of a run, as a file and in a browser.
//!
//! Danger: a page that looks right to its writer and is empty, broken or unsafe for its reader.
//! The browser test needs Chromium; without it, it says so and passes.

use credenza_bench::report::{read_json, write_html};
use credenza_bench::result::{PhaseResult, Report};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixture() -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/report.json");
    read_json(&path).unwrap()
}

fn page_of(report: &Report) -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    write_html(report, &path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    (folder, path, text)
}

#[test]
fn the_page_says_all_of_it_and_needs_no_network() {
    let report = fixture();
    let (_folder, _path, page) = page_of(&report);
    assert!(!page.contains("<!--"), "a marker was not filled");
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "the page reaches out: {outside}");
    }
    for result in &report.results {
        assert!(page.contains(&result.store) && page.contains(&result.phase));
    }
    for says in [
        "AMD EPYC",
        "libgdbm.so.6 was not found",
        "wrong answers",
        "class buffered",
        "Where constant is not ahead",
        "no difference",
        "tmpfs",
        "sched_yield()",
    ] {
        assert!(page.contains(says), "'{says}' is missing");
    }
}

#[test]
fn our_own_wrong_answers_and_missing_rounds_are_not_glossed_over() {
    let mut report = fixture();
    let own = |phase| move |r: &&mut PhaseResult| r.store == "constant" && r.phase == phase;
    report.results.iter_mut().find(own("get-hit")).unwrap().verified = false;
    let (_folder, _path, page) = page_of(&report);
    assert!(page.contains("<strong>wrong answers in 1 (get-hit)</strong>"));
    assert!(page.contains("<b>get-hit</b>: constant gave wrong answers"));

    let mut report = fixture();
    for result in &mut report.results {
        result.ns_per_op.samples.truncate(2);
        result.rounds = 2;
        result.file_bytes = 1;
    }
    let (_folder, _path, page) = page_of(&report);
    assert!(page.contains("Too few rounds to say where constant is not ahead"));
    assert!(page.contains("With 2 rounds an interval is the range"));
    assert!(!page.contains("No rival matched"));
}

#[test]
fn strings_from_outside_stay_text() {
    let hostile = "\"'><img src=x onerror=alert(1)><!--script--></script><script>alert(2)</script>";
    let mut report = fixture();
    report.settings.workload = hostile.into();
    report.settings.baseline = Some(hostile.into());
    report.machine.cpu = hostile.into();
    report.machine.caches[0].kind = hostile.into();
    report.notes.push(hostile.into());
    for failure in &mut report.failures {
        failure.what = hostile.into();
        failure.phase = Some(hostile.into());
    }
    for info in &mut report.stores {
        info.tuning = hostile.into();
        info.library = Some(hostile.into());
    }
    for result in &mut report.results {
        result.notes.push(hostile.into());
        result.class = hostile.into();
        if result.store == "cdb" {
            result.store = hostile.into();
        }
        if result.phase == "scan" {
            result.phase = hostile.into();
        }
    }
    let (_folder, _path, page) = page_of(&report);
    assert!(!page.contains("<img") && !page.contains("alert(2)</script>"));
    assert_eq!(page.matches("<script>").count(), 1, "only the page's own script");
}

#[test]
fn odd_reports_still_make_a_page() {
    let mut report = fixture();
    report.results.truncate(1);
    report.results[0].ns_per_op.samples.clear();
    report.results[0].ns_per_op.median = f64::MAX;
    report.results[0].file_bytes = u64::MAX;
    report.results[0].ops = u64::MAX;
    report.settings.key_bytes = u64::MAX;
    report.machine.started_unix = u64::MAX;
    report.failures[1].round = Some(usize::MAX);
    page_of(&report);
    report.results.clear();
    let (_folder, _path, page) = page_of(&report);
    assert!(page.contains("Nothing was measured"));
}

#[test]
fn a_browser_draws_the_charts_and_runs_the_script() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    };
    let report = fixture();
    let (folder, path, _) = page_of(&report);
    let output = dump(&browser, folder.path(), &path);
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{complaints}");
    let console: Vec<&str> = complaints.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "the page's console is not silent: {console:?}");

    let bars = tree.matches("<rect class=\"bar").count();
    let headlines = 8 + 1;
    let sizes = 3 * 7;
    assert_eq!(bars, report.results.len() + headlines + sizes);
    let samples: usize = report.results.iter().map(|r| r.ns_per_op.samples.len()).sum();
    assert_eq!(tree.matches("<circle class=\"dot").count(), samples);
    assert!(tree.contains("class=\"scripted\""), "the script did not run to its end");
    assert!(tree.contains("<button type=\"button\">store</button>"), "the table has no buttons");
}

#[test]
fn a_click_on_a_heading_sorts_the_table() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    };
    let (folder, path, page) = page_of(&fixture());
    let click = "<script>document.querySelectorAll('.sortable button')[COLUMN].click();\
         document.title = [...document.querySelectorAll('.sortable tbody tr')].map(row =>\
         row.cells[0].textContent + ' ' + row.cells[1].textContent).join(';');</script></body>";
    let order = |column: &str| {
        let page = page.replace("</body>", &click.replace("COLUMN", column));
        std::fs::write(&path, page).unwrap();
        let tree = String::from_utf8(dump(&browser, folder.path(), &path).stdout).unwrap();
        let title = tree.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
        title.split(';').map(str::to_owned).collect::<Vec<_>>()
    };
    let by_median = order("2");
    assert_eq!(by_median[0], "sparkey scan");
    assert_eq!(by_median.last().unwrap(), "tokyocabinet-hash build");
    let by_hit_rate = order("8");
    assert!(by_hit_rate[0].ends_with("get-miss"), "{by_hit_rate:?}");
    assert!(by_hit_rate.last().unwrap().ends_with("scan"), "phases without a rate come last");
}

/// What the browser made of the page, and what it had to say.
fn dump(browser: &Path, profile: &Path, page: &Path) -> Output {
    Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--disable-background-networking", "--no-first-run", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", profile.join("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap()
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let all = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    all.into_iter().find(|file| file.is_file())
}
