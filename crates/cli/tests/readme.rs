//! Every command of README.md runs, and prints what README.md says that it prints.
//!
//! Danger: a first-time user copies a line that no longer works. A `console` block is run line by
//! line, all blocks in one folder; the lines after a command are its output, `...` stands for
//! anything. A `sh` block is run by `.ci/run` itself. Rust blocks are doc tests of the library.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use std::path::Path;
use std::process::{Command, Stdio};

/// A command and the output it should have.
#[derive(Debug, Default, PartialEq)]
struct Step {
    command: String,
    output: String,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The language and text of each fenced block.
fn blocks(markdown: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for event in Parser::new(markdown) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                open = Some((language.to_string(), String::new()));
            }
            Event::Text(text) => {
                if let Some((_, block)) = &mut open {
                    block.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

/// Commands begin with `$ `, and go on where a line ends in a backslash.
fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        let continued =
            steps.last().is_some_and(|s| s.command.ends_with('\\') && s.output.is_empty());
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), output: String::new() });
        } else if let Some(step) = steps.last_mut() {
            let part = if continued { &mut step.command } else { &mut step.output };
            if continued {
                part.push('\n');
            }
            part.push_str(line);
            if !continued {
                part.push('\n');
            }
        }
    }
    steps
}

/// Whether `output` is `wanted`, where `...` at the end of a line stands for anything.
fn fits(output: &str, wanted: &str) -> bool {
    match wanted.split_once("...\n") {
        Some((before, after)) => output.strip_prefix(before).is_some_and(|o| o.ends_with(after)),
        None => output == wanted,
    }
}

fn run(step: &Step, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_credenza"));
    let programs = program.parent().expect("a program in a folder").display();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let done = Command::new("bash")
        .args(["-c", &format!("exec 2>&1\n{}", step.command)])
        .current_dir(folder)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("bash cannot be run");
    let mut output = String::from_utf8_lossy(&done.stdout).into_owned();
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    output
}

#[test]
fn console_blocks_print_what_they_say() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let readme = blocks(&read("README.md"));
    let steps: Vec<Step> =
        readme.iter().filter(|(l, _)| l == "console").flat_map(|(_, b)| steps(b)).collect();
    assert!(steps.len() >= 5, "the commands of README.md were not found");
    for step in steps {
        let output = run(&step, folder.path());
        let Step { command, output: wanted } = &step;
        assert!(fits(&output, wanted), "$ {command}\nprinted\n{output}\nnot\n{wanted}");
    }
}

#[test]
fn sh_blocks_are_run_by_ci() {
    let ci = read(".ci/run");
    for (language, block) in blocks(&read("README.md")) {
        assert!(
            ["console", "sh", "rust", "toml", "text"].contains(&language.as_str()),
            "a block of '{language}' is run by nobody:\n{block}"
        );
        for line in block.lines().filter(|_| language == "sh") {
            let command = line.split_once('#').map_or(line, |(command, _)| command).trim();
            assert!(ci.contains(command), ".ci/run does not run '{command}'");
        }
    }
}

#[test]
fn the_reader_of_blocks_can_tell() {
    let markdown = "x\n```console\n$ a \\\n  b\nout\n\nmore\n$ c\n```\n```sh\nmake\n```\n";
    let found = blocks(markdown);
    assert_eq!(found[1], ("sh".to_owned(), "make\n".to_owned()));
    let step =
        |command: &str, output: &str| Step { command: command.into(), output: output.into() };
    assert_eq!(steps(&found[0].1), [step("a \\\n  b", "out\n\nmore\n"), step("c", "")]);
    assert!(fits("a\nb\nc\n", "a\n...\n") && fits("a\nb\nc\n", "a\n...\nc\n"));
    assert!(!fits("a\nb\n", "a\n") && !fits("b\n", "a\n...\n") && !fits("a\nb\n", "a\n...\nc\n"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(run(&step("echo out; echo err >&2; exit 3", ""), folder.path()), "out\nerr\n");
}
