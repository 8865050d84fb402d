//! The rules of this repository that no compiler checks, as tests over its files.
//!
//! Danger: rules that are only written down wear off. Each rule is a function from files to
//! findings; one test runs it on the repository, another shows on bad samples that it can fail.
//!
//! | rule | why |
//! |---|---|
//! | [`length`] | a file of over 1000 lines is not read by anybody |
//! | [`words`] | marks of unfinished work do not reach the main branch |
//! | [`unsafe_places`] | unsafe code is where its reviewers look for it, and nowhere else |
//! | [`layering`] | one engine can be read, tested and removed without the others |
//! | [`public_only`] | the crates show that the public API suffices |
//! | [`lints`] | every crate is held to the workspace's lints |
//! | [`links`] | links in the documents lead somewhere |
//! | [`proofs`] | a guarantee is stated with the test that would fail without it |

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

/// A text file of the repository; the path is relative to its root, with `/`.
struct File {
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }
}

/// What is wrong, as `path:line: what and what to do`.
fn finding(file: &File, line: usize, what: impl std::fmt::Display) -> String {
    format!("{}:{line}: {what}", file.path)
}

/// Every source and document of the repository: what `.gitignore` names, and data, is left out.
fn repository() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ignored = fs::read_to_string(root.join(".gitignore")).expect("cannot read .gitignore");
    let ignored: Vec<&str> = ignored.lines().map(|l| l.trim_matches('/')).collect();
    let mut files = Vec::new();
    collect(root, root, &ignored, &mut files);
    assert!(files.iter().any(|f| f.path == "src/lib.rs"), "the repository was not found");
    files
}

fn collect(root: &Path, folder: &Path, ignored: &[&str], files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).expect("cannot list a folder of the repository") {
        let path = entry.expect("cannot list a folder of the repository").path();
        let name = path.strip_prefix(root).expect("a path below the root").to_string_lossy();
        if name == ".git" || ignored.contains(&&*name) || name.contains("fixtures") {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, ignored, files);
        } else if is_text(&name) {
            let text = fs::read_to_string(&path).expect("a source that is not UTF-8");
            files.push(File { path: name.into_owned(), text });
        }
    }
}

fn is_text(path: &str) -> bool {
    const ENDINGS: [&str; 10] = ["rs", "md", "toml", "sh", "c", "h", "py", "js", "css", "html"];
    let ending = Path::new(path).extension().and_then(|e| e.to_str()).unwrap_or("");
    path == "Makefile" || path == ".ci/run" || ENDINGS.contains(&ending)
}

// --- the rules -------------------------------------------------------------------------------

const LINES_AT_MOST: usize = 1000;

fn length(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    if lines <= LINES_AT_MOST {
        return Vec::new();
    }
    vec![finding(file, lines, format!("over {LINES_AT_MOST} lines; split the file by idea"))]
}

/// Each written in two parts, so that this file does not find itself.
const WORDS: [&str; 7] = [
    concat!("to", "do!"),
    concat!("unimplemented", "!"),
    concat!("db", "g!"),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X"),
    concat!("for", " now"),
];

fn words(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        for word in WORDS.iter().filter(|word| contains_word(line, word)) {
            findings.push(finding(file, i + 1, format!("'{word}': finish it, or open an issue")));
        }
    }
    findings
}

/// Whether `word` stands in `line`, and not as a part of a longer word.
fn contains_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

/// Folders (ending in `/`) and files that may hold unsafe code.
const UNSAFE_PLACES: [&str; 10] = [
    "src/os/",
    "src/constant/lanes.rs",
    "src/constant/view.rs",
    "src/constant/wanted.rs",
    "src/btree/view.rs",
    "src/hash/view.rs",
    "tests/common/sys.rs",
    "tests/common/syncs.rs",
    "crates/bench/src/driver/",
    "crates/capi/",
];

fn unsafe_places(file: &File) -> Vec<String> {
    let is_inside = |place: &str| match place.strip_suffix('/') {
        Some(_) => file.path.starts_with(place),
        None => file.path == place,
    };
    if !file.is_rust() || UNSAFE_PLACES.into_iter().any(is_inside) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    each_tree(tokens(file), &mut |tree| {
        let TokenTree::Ident(word) = tree else { return };
        if word == "unsafe" || word == "unsafe_code" {
            let what = format!("'{word}' outside {}", UNSAFE_PLACES.join(", "));
            findings.push(finding(file, word.span().start().line, what));
        }
    });
    findings
}

/// Names at the crate's root that only carry errors.
const ERRORS: [&str; 4] = ["error", "Error", "ErrorKind", "Result"];
/// What every engine may use of the crate, besides errors and itself.
const SHARED: [&str; 18] = [
    "bytes",
    "durability",
    "checksum",
    "keyhash",
    "magic",
    "sort",
    "observe",
    "stats",
    "os",
    "capability",
    "Bytes",
    "Get",
    "Record",
    "Scan",
    "Access",
    "Advice",
    "Residency",
    "Staged",
];
const ENGINES: [&str; 4] = ["constant", "hash", "btree", "foreign"];

fn layering(file: &File) -> Vec<String> {
    let Some(module) = module_of(&file.path) else { return Vec::new() };
    let own = module.first().map_or("", String::as_str);
    let shared: &[&str] = match own {
        "os" => &["magic"],
        "magic" => &["bytes"],
        "bytes" | "capability" | "checksum" | "keyhash" | "sort" => &[],
        "durability" => &["os"],
        "stats" => &["os", "bytes"],
        "record" => &["os", "bytes", "stats"],
        "observe" => &["record", "stats"],
        own if ENGINES.contains(&own) => &SHARED,
        _ => return Vec::new(),
    };
    let mut used = Vec::new();
    crate_paths(&tokens(file).into_iter().collect::<Vec<_>>(), &module, &mut used);
    let mut findings = Vec::new();
    for (path, line) in used {
        let first = path.first().map_or("", String::as_str);
        if first != own && !ERRORS.contains(&first) && !shared.contains(&first) {
            let path = path.join("::");
            findings.push(finding(file, line, format!("'{own}' must not use 'crate::{path}'")));
        }
    }
    findings
}

/// What a crate could reach besides the public API: source files, and hidden items.
fn public_only(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    if file.path.starts_with("crates/") && file.is_rust() {
        for (i, line) in file.text.lines().enumerate() {
            let includes = line.contains("include") || line.contains("path =");
            if includes && line.contains("../../src") {
                findings.push(finding(file, i + 1, "use the public API, not its source file"));
            }
        }
    }
    if file.path.starts_with("src/") && file.is_rust() {
        let hidden = concat!("doc(", "hidden)");
        for (i, line) in file.text.lines().enumerate().filter(|(_, l)| l.contains(hidden)) {
            let what = format!("'{}': make it public and documented, or private", line.trim());
            findings.push(finding(file, i + 1, what));
        }
    }
    findings
}

fn lints(file: &File) -> Vec<String> {
    let is_crate = file.path.ends_with("Cargo.toml")
        && !["fuzz/", "schedules/"].iter().any(|own| file.path.starts_with(own));
    if !is_crate || file.text.contains("[lints]\nworkspace = true\n") {
        return Vec::new();
    }
    vec![finding(file, 1, "add '[lints]' with 'workspace = true'")]
}

fn links(files: &[File]) -> Vec<String> {
    let documents: HashMap<&str, Vec<String>> = files
        .iter()
        .filter(|f| f.is_markdown())
        .map(|f| (f.path.as_str(), anchors(&f.text)))
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut findings = Vec::new();
    for file in files.iter().filter(|f| f.is_markdown()) {
        for (link, line) in links_of(&file.text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = resolve(&file.path, path);
            let known = documents.get(target.as_str());
            if known.is_none() && !root.join(&target).exists() {
                findings.push(finding(file, line, format!("'{link}': there is no '{target}'")));
            } else if !anchor.is_empty() && !known.is_some_and(|a| a.iter().any(|a| a == anchor)) {
                findings.push(finding(file, line, format!("'{link}': no heading '#{anchor}'")));
            }
        }
    }
    findings
}

const GUARANTEES: &str = "docs/guarantees.md";

/// Each row of the tables of guarantees names tests, as `FILE.rs: NAME`, and they exist.
fn proofs(files: &[File]) -> Vec<String> {
    let Some(file) = files.iter().find(|f| f.path == GUARANTEES) else { return Vec::new() };
    let mut findings = Vec::new();
    let lines: Vec<&str> = file.text.lines().collect();
    for (i, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let next = lines.get(i + 1).copied().unwrap_or("");
        if line.starts_with("|---") || next.starts_with("|---") {
            continue;
        }
        let spans = line.split('`').skip(1).step_by(2);
        let tests: Vec<(&str, &str)> = spans.filter_map(|span| span.split_once(".rs: ")).collect();
        if tests.is_empty() {
            let what = "name the test that would fail, as `FILE.rs: NAME`";
            findings.push(finding(file, i + 1, what));
        }
        for (path, test) in tests {
            let source = files.iter().find(|f| f.path.strip_suffix(".rs") == Some(path));
            if !source.is_some_and(|f| has_test(&f.text, test)) {
                findings.push(finding(file, i + 1, format!("no test '{path}.rs: {test}'")));
            }
        }
    }
    findings
}

fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}()");
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    lines.windows(2).any(|pair| pair[0] == "#[test]" && pair[1].starts_with(&head))
}

// --- reading Rust ----------------------------------------------------------------------------

fn tokens(file: &File) -> TokenStream {
    file.text.parse().unwrap_or_else(|e| panic!("{}: not Rust: {e}", file.path))
}

fn each_tree(stream: TokenStream, f: &mut impl FnMut(&TokenTree)) {
    for tree in stream {
        f(&tree);
        if let TokenTree::Group(group) = tree {
            each_tree(group.stream(), f);
        }
    }
}

/// The module a file of `src/` is: `src/os/map.rs` is `[os, map]`, `src/os/mod.rs` is `[os]`.
fn module_of(path: &str) -> Option<Vec<String>> {
    let name = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut parts: Vec<String> = name.split('/').map(str::to_owned).collect();
    parts.pop_if(|last| last == "mod" || last == "lib");
    Some(parts)
}

/// Every path that begins with `crate`, `self` or `super`, made absolute, with its line.
fn crate_paths(trees: &[TokenTree], module: &[String], found: &mut Vec<(Vec<String>, usize)>) {
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        at += 1;
        match tree {
            TokenTree::Ident(word) if word == "mod" => {
                if let Some((name, body)) = inline_module(&trees[at..]) {
                    crate_paths(&trees_of(body), &[module, &[name]].concat(), found);
                    at += 2;
                }
            }
            TokenTree::Ident(word)
                if ["crate", "self", "super"].iter().any(|w| word == w)
                    && is_separator(trees, at) =>
            {
                at = expand(trees, at - 1, module.to_vec(), found);
            }
            TokenTree::Group(group) => crate_paths(&trees_of(group), module, found),
            _ => {}
        }
    }
}

/// The name and body of `NAME { .. }`.
fn inline_module(trees: &[TokenTree]) -> Option<(String, &Group)> {
    match (trees.first()?, trees.get(1)?) {
        (TokenTree::Ident(name), TokenTree::Group(body))
            if body.delimiter() == Delimiter::Brace =>
        {
            Some((name.to_string(), body))
        }
        _ => None,
    }
}

fn trees_of(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

/// Whether `::` stands at `at`.
fn is_separator(trees: &[TokenTree], at: usize) -> bool {
    let colon = |i| matches!(trees.get(i), Some(TokenTree::Punct(p)) if p.as_char() == ':');
    colon(at) && colon(at + 1)
}

/// Follows the path, or the tree of a `use`, that begins at `at`; returns where it ends.
fn expand(
    trees: &[TokenTree],
    mut at: usize,
    mut path: Vec<String>,
    found: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    let line = trees[at].span().start().line;
    loop {
        match trees.get(at) {
            Some(TokenTree::Ident(word)) => match word.to_string().as_str() {
                "crate" => path.clear(),
                "super" => drop(path.pop()),
                "self" => {}
                name => path.push(name.to_owned()),
            },
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner = trees_of(group);
                let is_comma =
                    |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ',');
                for item in inner.split(is_comma).filter(|item| !item.is_empty()) {
                    expand(item, 0, path.clone(), found);
                }
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        if !is_separator(trees, at) {
            break;
        }
        at += 2;
    }
    found.push((path, line));
    at
}

// --- reading Markdown ------------------------------------------------------------------------

/// The links and images of a document, with their lines.
fn links_of(text: &str) -> Vec<(String, usize)> {
    let mut links = Vec::new();
    for (event, range) in Parser::new(text).into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            links.push((dest_url.to_string(), 1 + text[..range.start].matches('\n').count()));
        }
    }
    links
}

/// The anchors of a document's headings, as the usual forges make them.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut heading: Option<String> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                let count = seen.entry(slug.clone()).or_default();
                anchors.push(if *count == 0 { slug } else { format!("{slug}-{count}") });
                *count += 1;
            }
            _ => {}
        }
    }
    anchors
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The path that `link` in the document `from` leads to, relative to the root.
fn resolve(from: &str, link: &str) -> String {
    if link.is_empty() {
        return from.to_owned();
    }
    if link.starts_with('/') {
        return link.to_owned() + " outside the repository";
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            // Above the root nothing is ours: the first ".." too many stays, and is not found.
            ".." if parts.last().is_some_and(|p| *p != "..") => drop(parts.pop()),
            ".." => return link.to_owned() + " outside the repository",
            part => parts.push(part),
        }
    }
    parts.join("/")
}

// --- the rules hold here ---------------------------------------------------------------------

fn assert_holds(rule: impl Fn(&File) -> Vec<String>) {
    assert_none(repository().iter().flat_map(rule).collect());
}

fn assert_none(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn no_file_is_too_long() {
    assert_holds(length);
}

#[test]
fn no_unfinished_work() {
    assert_holds(words);
}

#[test]
fn unsafe_stays_in_its_places() {
    assert_holds(unsafe_places);
}

#[test]
fn layers_are_kept() {
    assert_holds(layering);
}

#[test]
fn crates_use_the_public_api() {
    assert_holds(public_only);
}

#[test]
fn every_crate_takes_the_lints() {
    assert_holds(lints);
}

#[test]
fn links_lead_somewhere() {
    assert_none(links(&repository()));
}

#[test]
fn guarantees_are_tested() {
    let files = repository();
    assert!(files.iter().any(|f| f.path == GUARANTEES), "{GUARANTEES} was not found");
    assert_none(proofs(&files));
}

// --- each rule can fail ----------------------------------------------------------------------

fn sample(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn a_long_file_is_found() {
    assert!(length(&sample("src/a.rs", &"\n".repeat(1000))).is_empty());
    assert_eq!(length(&sample("src/a.rs", &"\n".repeat(1001))).len(), 1);
}

#[test]
fn unfinished_work_is_found() {
    for word in WORDS {
        assert_eq!(words(&sample("a.md", &format!("fine\nso {word} it is"))).len(), 1, "{word}");
        assert!(words(&sample("a.md", &format!("un{word}able"))).is_empty(), "{word}");
    }
}

#[test]
fn misplaced_unsafe_is_found() {
    let block = "fn f() { unsafe { g() } }";
    let permit = "#![allow(unsafe_code)]";
    for text in [block, permit, "unsafe impl Send for X {}", "#[unsafe(no_mangle)] fn f() {}"] {
        for path in ["src/constant/lookup.rs", "src/constant/view/a.rs", "tests/a.rs", "src/os.rs"]
        {
            assert_eq!(unsafe_places(&sample(path, text)).len(), 1, "{path}: {text}");
        }
        for path in ["src/os/map.rs", "src/constant/view.rs", "crates/bench/src/driver/cdb.rs"] {
            assert!(unsafe_places(&sample(path, text)).is_empty(), "{path}: {text}");
        }
    }
    let harmless = "// unsafe\n/// unsafe\nfn f() -> &'static str { \"unsafe\" }";
    assert!(unsafe_places(&sample("src/lib.rs", harmless)).is_empty());
}

#[test]
fn a_forbidden_import_is_found() {
    let bad = [
        ("src/constant/lookup.rs", "use crate::foreign::Cdb;"),
        ("src/constant/lookup.rs", "use crate::{Error, foreign::{self, Cdb}};"),
        ("src/constant/lookup.rs", "fn f() { crate::hash::open() }"),
        ("src/constant/lookup.rs", "use super::super::btree;"),
        ("src/constant/mod.rs", "use super::open;"),
        ("src/constant/mod.rs", "mod tests { use super::super::Store; }"),
        ("src/foreign/cdb.rs", "use crate::constant as c;"),
        ("src/foreign/cdb.rs", "use crate::*;"),
        ("src/os/map.rs", "use crate::bytes::le32;"),
        ("src/os/mod.rs", "use crate::Store;"),
        ("src/bytes.rs", "use crate::os::file;"),
        ("src/stats/mod.rs", "use crate::constant::Constant;"),
        ("src/record/mod.rs", "use crate::hash::Hash;"),
        ("src/observe.rs", "use crate::btree::BTree;"),
    ];
    for (path, text) in bad {
        let found = layering(&sample(path, text)).len();
        assert!(found >= 1, "{path}: {text}");
    }
    let good = [
        ("src/constant/mod.rs", "use crate::{Bytes, Error, os::{file, map::Map}, Result as R};"),
        ("src/constant/mod.rs", "mod tests { use super::*; }"),
        ("src/constant/lookup.rs", "use super::format::{self, Header}; pub(crate) fn f() {}"),
        ("src/os/map.rs", "use crate::{Error, Result}; fn f() { super::file::read() }"),
        ("src/lib.rs", "pub use crate::constant::Constant; use crate::foreign::Cdb;"),
    ];
    for (path, text) in good {
        assert_none(layering(&sample(path, text)));
    }
}

#[test]
fn a_way_round_the_public_api_is_found() {
    let text = "#[path = \"../../../src/bytes.rs\"]\nmod bytes;";
    assert_eq!(public_only(&sample("crates/cli/src/main.rs", text)).len(), 1);
    let text = concat!("#[doc(", "hidden)]\npub fn f() {}");
    assert_eq!(public_only(&sample("src/lib.rs", text)).len(), 1);
}

#[test]
fn a_crate_without_the_lints_is_found() {
    assert_eq!(lints(&sample("crates/a/Cargo.toml", "[package]\nname = \"a\"\n")).len(), 1);
    assert!(lints(&sample("crates/a/Cargo.toml", "[lints]\nworkspace = true\n")).is_empty());
}

#[test]
fn a_broken_link_is_found() {
    let other = "# The `One` heading\n\n## Twice\n\n## Twice\n";
    let check = |link: &str| {
        let text = format!("# Self\n\nSee [this]({link}) and `[not](this)`.");
        links(&[sample("docs/a.md", &text), sample("docs/other.md", other)])
    };
    for link in ["missing.md", "../../README.md", "other.md#none", "#none", "/docs/other.md"] {
        let found = check(link);
        assert_eq!(found.len(), 1, "{link}");
        assert!(found[0].starts_with("docs/a.md:3: "), "{}", found[0]);
    }
    let inside = ["other.md", "../docs/other.md#the-one-heading", "other.md#twice-1", "#self"];
    for link in inside.iter().chain(&["https://example.org/x", "../src/lib.rs", "../src"]) {
        assert_none(check(link));
    }
}

#[test]
fn a_guarantee_without_its_test_is_found() {
    let test = sample("tests/a.rs", "#[test]\nfn holds() {}\nfn helper() {}\n");
    let check = |cell: &str| {
        let table = format!("| guarantee | test |\n|---|---|\n| it holds | {cell} |\n");
        proofs(&[sample(GUARANTEES, &table), sample(&test.path, &test.text)])
    };
    for cell in ["", "`holds`", "`tests/a.rs: gone`", "`tests/b.rs: holds`", "`tests/a.rs: helper`"]
    {
        assert_eq!(check(cell).len(), 1, "{cell}");
    }
    assert_none(check("`tests/a.rs: holds`"));
}
