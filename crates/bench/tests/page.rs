//! The page of a run, as a file and in a browser.
//!
//! Danger: a page that looks right to its writer and is empty, broken or unsafe for its reader.
//! The browser test needs Chromium; without it, it says so and passes.

mod common;
use common::pages::{dump, fixture, over_time, page_of, with_lines};
use credenza_bench::result::over_time::Slots;
use credenza_bench::result::{Calls, Effort, PhaseResult, Report, StoreInfo};
use credenza_bench::{browser, write_charts};
use std::path::PathBuf;

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
        "No noise floor was measured",
        "--no-noise",
    ] {
        assert!(page.contains(says), "'{says}' is missing");
    }
}

#[test]
fn the_page_says_what_was_done_with_which_keys() {
    let mut report = fixture();
    report.settings.mix = "get 5, update 5, keys <latest>".to_owned();
    report.settings.distribution = "zipfian:theta=0.99,scrambled=true".to_owned();
    report.settings.rate = Some(12_345.0);
    report.settings.metrics = "none".to_owned();
    let (_folder, _path, page) = page_of(&report);
    let (head, setup) = page.split_once("<h2 id=\"setup-title\">").unwrap();
    let keys = "keys zipfian:theta=0.99,scrambled=true";
    assert!(
        head.contains(keys) && setup.contains("<dt>Keys of lookups</dt><dd>zipfian:theta=0.99")
    );
    assert!(setup.contains("<dt>Rate</dt><dd>12,345 operations a second</dd>"));
    assert!(setup.contains("<dt>Metrics</dt><dd>throughput, and what is counted beside it</dd>"));
    assert!(!page.contains("update 5"), "no phase did the mix");
    report.results.iter_mut().filter(|r| r.phase == "scan").for_each(|r| r.phase = "mixed".into());
    let (_folder, _path, page) = page_of(&report);
    let (head, setup) = page.split_once("<h2 id=\"setup-title\">").unwrap();
    let mix = "mixed: get 5, update 5, keys &lt;latest&gt;";
    assert!(head.contains(mix) && setup.contains(&format!("<dt>Mix</dt><dd>{mix}</dd>")));
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
    // In the charts and both tables, and of each headline, it stands for each ratio to the baseline.
    let others = report.results.iter().filter(|r| r.store != "mcdb" && r.verified).count();
    let headlines = 8;
    assert_eq!(page.matches(">? <").count(), 2 * others);
    assert_eq!(page.matches(">?<").count(), others + headlines);
    assert_eq!(page.matches("? fewer than three rounds").count(), 3);
    assert!(!page_of(&fixture()).2.contains(">?"), "seven rounds are enough");
}

/// Danger: a list that is short because nothing could be judged reads as if ours were ahead in all
/// that it does not name.
#[test]
fn what_could_not_be_judged_stands_with_what_we_are_not_ahead_in() {
    let mut report = fixture();
    let page = page_of(&report).2;
    assert!(page.contains("Where constant is not ahead") && !page.contains("Too few rounds"));
    let scans = |r: &&mut PhaseResult| matches!(&*r.phase, "scan" | "build");
    for result in report.results.iter_mut().filter(scans) {
        result.ns_per_op.samples.truncate(2);
        result.rounds = 2;
    }
    let page = page_of(&report).2;
    assert!(page.contains("Where constant is not ahead"));
    let told = "Too few rounds to say of every rival whether constant is ahead: build, scan.";
    assert!(page.contains(told));
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
fn a_store_counts_once_in_the_title_whatever_its_classes() {
    let mut report = fixture();
    let of_other_class = |r: &PhaseResult| PhaseResult {
        phase: "insert".to_owned(),
        class: "at-close".to_owned(),
        ..r.clone()
    };
    let title = |report: &Report| {
        let (_folder, _path, page) = page_of(report);
        page.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap().0.to_owned()
    };
    let before = title(&report);
    let more: Vec<PhaseResult> = report.results.iter().map(of_other_class).collect();
    report.results.extend(more);
    assert_eq!(title(&report), before);
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
    let report = with_lines(fixture());
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
    // Curves of percentiles, the same at a rate, and the growth: drawn where the page says.
    assert_eq!(tree.matches("class=\"chart lines\"").count(), 2 + 8 + 4 * 4);
    // Two stores over time, in twelve slots of which one has no latency; in sixty, with two kinds.
    let curves = 5 * (4 + 2);
    let grown = 2 * report.growth[0].results.iter().filter(|r| r.verified).count();
    let at_rate = 2 * (12 + 3 * 11);
    assert_eq!(tree.matches("r=\"2.6\"").count(), curves + grown + at_rate);
    // The points of long lines are made when somebody points at the chart.
    assert_eq!(tree.matches("data-words").count(), 2 * 3 * 4);
    assert_eq!(tree.matches("r=\"5\"").count(), 0);
    for id in ["rate", "growth", "time"] {
        assert!(tree.contains(&format!("<section id=\"{id}\"")), "{id}");
        assert!(tree.contains(&format!("href=\"#{id}\"")), "{id}");
    }
    assert!(tree.contains("BEHIND"));
    // While a store stalls no latency is drawn: in one slot of each of these lines.
    let with_gap = tree
        .split("<path d=\"")
        .skip(1)
        .filter(|path| path.split('"').next().is_some_and(|drawn| drawn.contains('m')));
    assert_eq!(with_gap.count(), 2 * 3 * 3 + 2 * 3);
    // What is over time is folded, and printed nevertheless.
    assert!(tree.contains("<details><summary>scan, over time</summary>"));
    assert!(!tree.contains("<details open"));
    // Whatever the page has, it is as wide as the window of a phone. That of a browser without a screen is
    // never narrower than 500 pixels, whatever it is asked for.
    let wide = "<script>dispatchEvent(new Event('beforeprint'));document.querySelectorAll('svg.plot')\
                .forEach((plot) => plot.dispatchEvent(new Event('pointerenter')));\
                document.body.style.width = '390px';\
                document.title = document.body.scrollWidth + ' of ' + \
                document.body.clientWidth</script></body>";
    let page = std::fs::read_to_string(&path).unwrap().replace("</body>", wide);
    std::fs::write(&path, page).unwrap();
    let tree = String::from_utf8(dump(&browser, folder.path(), &path).stdout).unwrap();
    let title = tree.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    let (content, window) = title.split_once(" of ").unwrap();
    assert_eq!((content, window), ("390", "390"), "the page is wider than its window");
    // Charts over time, and the tables of percentiles, rounds at a rate and rounds of the growth. The points of
    // charts are printed as charts.
    let folds = [tree.matches("<details").count(), tree.matches("<details open").count()];
    assert_eq!(folds, [6 + 26, 6], "what is folded is not opened for print");
    assert!(tree.contains("<button type=\"button\">store</button>"), "the table has no buttons");
    assert_eq!(tree.matches("r=\"5\"").count(), 2 * 3 * (60 + 3 * 59));
    // The slowest operation ended in the slot behind the middle, of 1 ms, and of the other store of 2 ms.
    for slowest in ["constant, 31.5 ms: 20.0 ms", "cdb, 63.0 ms: 20.0 ms"] {
        // Of all operations, and of two kinds.
        assert_eq!(tree.matches(&format!("<title>{slowest}</title>")).count(), 3, "{slowest}");
    }
}

#[test]
fn a_point_answers_taps_and_keys_and_has_a_row_in_a_table() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    };
    let (folder, path, page) = page_of(&with_lines(fixture()));
    let act = "<script>(() => {\
         const curves = document.querySelector('#latency .lines'), said = [];\
         const over_time = [...document.querySelectorAll('#time .lines')].find((figure) =>\
           figure.textContent.includes('scan: slowest'));\
         const plot = curves.querySelector('svg.plot');\
         const listen = () => said.push(curves.querySelector('output').textContent);\
         const press = (key) => plot.dispatchEvent(new KeyboardEvent('keydown', { key }));\
         const third = plot.querySelectorAll('circle')[2].getBoundingClientRect();\
         const tap = { clientX: third.left + 4, clientY: third.top + 4 };\
         plot.dispatchEvent(new MouseEvent('click', tap)); listen();\
         for (const key of ['ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp', 'ArrowUp', 'Tab']) {\
           press(key); listen(); }\
         const folds = [curves, over_time].map((figure) => {\
           const id = figure.querySelector('svg.plot').getAttribute('aria-details');\
           const fold = document.getElementById(id);\
           fold.open = true;\
           fold.dispatchEvent(new Event('toggle'));\
           return figure.contains(fold) && fold; });\
         addEventListener('load', () => {\
           const rows = folds.map((fold) => [...fold.querySelectorAll('tbody tr')].map((row) =>\
             [...row.cells].map((cell) => cell.textContent).join('|')));\
           const chosen = document.querySelectorAll('.chosen').length;\
           document.title = [chosen, ...said, rows[0].length, rows[0][0], rows[1].length,\
             rows[1].filter((row) => row.endsWith('20.0 ms')).join(';')].join(';');\
         }); })();</script></body>";
    std::fs::write(&path, page.replace("</body>", act)).unwrap();
    let tree = String::from_utf8(dump(&browser, folder.path(), &path).stdout).unwrap();
    let title = tree.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    let told: Vec<&str> = title.split(';').collect();
    let wanted = [
        "1",
        "constant, p99: 300 ns",
        "constant, p99.9: 4.00 µs",
        "cdb, p99.9: 8.00 µs",
        "cdb, p99: 600 ns",
        "constant, p99: 300 ns",
        // There is no line above, and other keys do what they do.
        "constant, p99: 300 ns",
        "constant, p99: 300 ns",
        "20",
        "constant|p50|100 ns",
        // One of sixty has none while its store stalls.
        "118",
        "constant|31.5 ms|20.0 ms",
        "cdb|63.0 ms|20.0 ms",
    ];
    assert_eq!(told, wanted);
}

/// What a page takes decides whether it can be sent and opened on a phone.
#[test]
fn a_page_of_many_stores_and_phases_is_about_a_megabyte() {
    let mut report = fixture();
    let (store, result) = (report.stores[0].clone(), report.results[0].clone());
    let names: Vec<String> = (0..15).map(|i| format!("some-rival-{i}")).collect();
    let info = |name: &String| StoreInfo { store: name.clone(), ..store.clone() };
    report.stores = names.iter().map(info).collect();
    report.results.clear();
    for phase in (0..12).map(|i| format!("phase-{i:x}")) {
        for store in &names {
            let (store, phase) = (store.clone(), phase.clone());
            let mut run = over_time(79, &[]);
            let jitter = |ns: &mut Vec<u64>| {
                ns.iter_mut().enumerate().for_each(|(i, ns)| *ns += i as u64 * 7919 % 997);
            };
            let Slots { ops, p50_ns, p99_ns, max_ns } = &mut run.all;
            [ops, p50_ns, p99_ns, max_ns].into_iter().for_each(jitter);
            // Those that change a store are seen over time, those that look single keys up have a curve.
            let over_time = (*phase < *"phase-7").then_some(run);
            let calls = Calls { fdatasync: 1234, written_bytes: 123_456_789, ..Calls::default() };
            let effort = Effort {
                operations: 3_333_333,
                calls,
                minor_faults: 123_456,
                read_bytes: 1_234_567_890,
                written_bytes: 1_234_567_890,
                ..Effort::default()
            };
            report.results.push(PhaseResult { store, phase, over_time, effort, ..result.clone() });
        }
    }
    let (_folder, _path, page) = page_of(&report);
    assert_eq!(page.matches("data-words").count(), 15 * 7 * 4);
    assert!(
        page.contains(
            "<details><summary>Syncs, bytes, page faults and files of each phase</summary>"
        )
    );
    assert!(page.len() < 1_000_000, "{}", page.len());
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

#[test]
fn figures_that_are_written_with_commas_are_sorted_as_numbers() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    };
    let mut report = fixture();
    for (result, operations) in report.results.iter_mut().zip([1000, 9, 20]) {
        result.effort = Effort { operations, ..Effort::default() };
    }
    let (folder, path, page) = page_of(&report);
    let click = "<script>(() => {\
         const table = document.querySelectorAll('.sortable')[1];\
         table.querySelectorAll('button')[2].click();\
         document.title = [...table.tBodies[0].rows].map((row) => row.cells[2].textContent).join(' ');\
         })();</script></body>";
    std::fs::write(&path, page.replace("</body>", click)).unwrap();
    let tree = String::from_utf8(dump(&browser, folder.path(), &path).stdout).unwrap();
    let title = tree.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    assert_eq!(title, "9 20 1,000");
}

#[test]
fn every_chart_can_be_saved_as_svg_and_png() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    };
    let (folder, path, page) = page_of(&with_lines(fixture()));
    // What would be saved is kept: each chart as SVG, and two of them as PNG, which are there when the
    // page has loaded their pictures.
    let save = "<script>(() => {\
         const texts = [], pngs = [];\
         window.Blob = class { constructor(parts) { texts.push(parts[0]); } };\
         URL.createObjectURL = () => '#';\
         HTMLAnchorElement.prototype.click = () => {};\
         HTMLCanvasElement.prototype.toBlob = function (_, type) {\
           pngs.push(this.toDataURL(type).startsWith('data:image/png') && this.width); };\
         [...document.querySelectorAll('.export button')]\
           .filter((button, i) => button.textContent === 'SVG' || i < 4)\
           .forEach((button) => button.click());\
         addEventListener('load', () => {\
           const parse = (text) => new DOMParser().parseFromString(text, 'image/svg+xml');\
           const trees = texts.map(parse);\
           const count = (what) => trees.reduce((n, tree) => n + tree.querySelectorAll(what).length, 0);\
           const figures = [...document.querySelectorAll('figure')].slice(0, 2);\
           const wide = figures.map((f) => Math.ceil(2 * f.getBoundingClientRect().width));\
           document.title = [trees.length, count('parsererror'), count('circle'),\
             count('[class], foreignObject'), String(pngs.sort()) === String(wide.sort()),\
             texts.some((text) => text.includes('var('))].join(' ');\
         }); })();</script></body>";
    std::fs::write(&path, page.replace("</body>", save)).unwrap();
    let tree = String::from_utf8(dump(&browser, folder.path(), &path).stdout).unwrap();
    let title = tree.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    let charts = page.matches("<figure").count();
    let long = page.split("data-words=\"").skip(1).map(|line| line.split('"').next().unwrap());
    let spots: usize = long.map(|words| words.split('|').count()).sum();
    let points = page.matches("<circle").count() + spots;
    assert_eq!(title, format!("{charts} 0 {points} 0 true false"));
}

#[test]
fn every_chart_is_written_to_a_file_of_its_own() {
    if browser().is_none() {
        println!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    }
    let mut report = fixture();
    // Charts of every kind, and few of each.
    report.results.retain(|result| ["get-hit", "scan"].contains(&&*result.phase));
    let report = with_lines(report);
    let folder = tempfile::tempdir().unwrap();
    // A place that an address has other letters for.
    let charts = folder.path().join("50 % of #1, \u{e4}?");
    std::fs::create_dir(&charts).unwrap();
    write_charts(&report, &charts, true).unwrap();
    let files = std::fs::read_dir(&charts).unwrap().map(|file| file.unwrap().path());
    let (pictures, mut drawings): (Vec<PathBuf>, Vec<PathBuf>) =
        files.partition(|file| file.extension().is_some_and(|ends| ends == "png"));
    let (_folder, _path, page) = page_of(&report);
    assert_eq!(pictures.len(), page.matches("<figure").count());
    drawings.sort();
    let mut with_picture: Vec<_> = pictures.iter().map(|file| file.with_extension("svg")).collect();
    with_picture.sort();
    assert_eq!(drawings, with_picture);
    // The same phase in several sections; what is folded; what has a name twice.
    for name in ["phases-get-hit", "latency-get-hit", "time-scan-remove-p99", "growth-scan"] {
        assert!(charts.join(name).with_extension("svg").is_file(), "{name} in {drawings:?}");
    }
    for file in drawings {
        let drawing = std::fs::read_to_string(&file).unwrap();
        let size = |name: &str| -> f64 {
            let (_, rest) = drawing.split_once(&format!(" {name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let (width, height) = (size("width"), size("height"));
        assert!(width > 500.0 && height > 100.0, "{file:?}: {width} by {height}");
        assert!(drawing.contains("fill=\"rgb(255, 255, 255)\""), "{file:?} is not light");
        let picture = std::fs::read(file.with_extension("png")).unwrap();
        let bytes = |at: usize| picture[at..at + 4].iter();
        let number = |at: usize| bytes(at).fold(0, |number, byte| number << 8 | u32::from(*byte));
        assert!(picture.starts_with(b"\x89PNG\r\n"), "{file:?}");
        let twice = [width, height].map(|size| (2.0 * size).ceil() as u32);
        assert_eq!([number(16), number(20)], twice, "{file:?}");
        // One without anything on it takes less.
        assert!(picture.len() > 10_000, "{file:?}: {} bytes", picture.len());
    }
}
