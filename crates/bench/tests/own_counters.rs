//! Danger: counters of a store that are of another stretch than the one that was timed, or that are asked for
//! where nobody wants them.

mod common;

use common::{bench, json_report, text};
use credenza_bench::result::{OwnCounter, Report};

/// The report of a small run of these stores, and what it printed and wrote as a page.
fn run(stores: &str, metrics: &str) -> (Report, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let [json, html] = ["json", "html"].map(|end| folder.path().join(end));
    let done = bench(&[
        &format!("--stores={stores}"),
        &format!("--metrics={metrics}"),
        "--phases=get-hit,insert-each,insert",
        "--records=3000",
        "--gets=100",
        "--rounds=1",
        &format!("--dir={}", folder.path().display()),
        &format!("--json={}", json.display()),
        &format!("--html={}", html.display()),
    ]);
    // A store that is not installed is told, and is no failure of this test.
    assert!(matches!(done.status.code(), Some(0 | 111)), "{}", text(&done.stderr));
    let page = std::fs::read_to_string(html).unwrap();
    (json_report(&json), text(&done.stdout), page)
}

#[test]
fn what_stores_count_is_of_the_timed_work() {
    let (report, said, page) = run("hash,btree,lmdb,mdbx,upscaledb,sqlite,leveldb,rocksdb", "all");
    assert!(said.contains("Counted by the stores themselves"), "{said}");
    assert!(page.contains("<summary>All counters</summary>") && page.contains("durable_changes"));
    let of = |store: &str, phase: &str, name: &str| {
        let result = report.results.iter().find(|r| r.store == store && r.phase == phase)?;
        assert!(result.verified, "{result:?}");
        let found = result.own_counters.iter().find(|counter| counter.name == name);
        let OwnCounter { before, after, .. } = found.unwrap_or_else(|| panic!("{result:?}"));
        Some((*before, *after))
    };
    let grew = |pair: Option<(u64, u64)>| pair.map(|(before, after)| after - before);
    assert_eq!(of("hash", "get-hit", "records"), Some((3000, 3000)));
    assert_eq!(grew(of("hash", "insert", "changes")), Some(3000));
    assert_eq!(grew(of("btree", "insert-each", "commits")), Some(3000));
    // One transaction, of which the store knows nothing yet.
    let inserted = report.results.iter().find(|r| r.store == "btree" && r.phase == "insert");
    assert!(inserted.unwrap().own_counters.is_empty());
    for (store, name) in [("lmdb", "entries"), ("mdbx", "entries")] {
        assert!(of(store, "get-hit", name).is_none_or(|pair| pair == (3000, 3000)), "{store}");
        assert!(of(store, "insert", name).is_none_or(|pair| pair == (0, 3000)), "{store}");
    }
    // A reader maps the file, and asks the cache for nothing.
    let hits = grew(of("sqlite", "insert-each", "cache_hit"));
    assert!(hits.is_none_or(|grew| grew >= 3000), "{hits:?}");
    assert!(of("leveldb", "get-hit", "leveldb.num-files-at-level0").is_none_or(|(b, a)| b == a));
    let keys = of("rocksdb", "get-hit", "rocksdb.estimate-num-keys");
    assert!(keys.is_none_or(|pair| pair == (3000, 3000)), "{keys:?}");
    let logged = grew(of("upscaledb", "insert-each", "journal_bytes_flushed"));
    assert!(logged.is_none_or(|grew| grew > 0), "{logged:?}");
}

#[test]
fn nobody_is_asked_who_should_not_be() {
    let (report, said, _) = run("hash", "default");
    assert!(report.results.iter().all(|result| result.own_counters.is_empty()));
    assert!(!said.contains("Counted by the stores"), "{said}");
    let refused = bench(&["--metrics=all", "--cold", "--stores=hash"]);
    assert_eq!(refused.status.code(), Some(111));
    assert!(text(&refused.stderr).contains("--metrics all contradicts --cold"));
}
