//! Danger: a command that nobody can use without reading its source.

mod common;
use common::*;

const COMMANDS: [&str; 28] = [
    "load",
    "get",
    "scan",
    "range",
    "dump",
    "stat",
    "verify",
    "convert",
    "preload",
    "create",
    "put",
    "delete",
    "table",
    "shell",
    "watch",
    "compact",
    "backup",
    "recover",
    "freeze",
    "thaw",
    "bench",
    "record",
    "replay",
    "reproduce",
    "torture",
    "advise",
    "completions",
    "man",
];

#[test]
fn every_command_explains_itself() {
    let overview = run(&["--help"]).expect(0).text();
    for command in COMMANDS {
        assert!(overview.contains(&format!("\n  {command} ")), "{command} in\n{overview}");
        let help = run(&[command, "--help"]).expect(0).text();
        assert!(help.contains("Exit status:"), "{help}");
        assert!(help.contains("  111  any error"), "{help}");
        assert!(help.contains("Examples:\n  "), "{help}");
        assert!(help.contains(&format!("credenza {command} ")), "{help}");
        let too_wide = help.lines().find(|line| line.chars().count() > 100);
        assert_eq!(too_wide, None, "{command}");
        assert_eq!(run(&["help", command]).expect(0).text(), help);
        assert!(run(&[command, "-h"]).expect(0).text().len() < help.len());
    }
    assert!(run(&["get", "--help"]).expect(0).text().contains("  100  "));
    let load = run(&["load", "--help"]).expect(0).text();
    for ending in [".tsv", ".tab", ".jsonl", ".ndjson", ".map", ".lines"] {
        assert!(load.contains(ending), "{ending} in\n{load}");
    }
    // What is left of it is said where it was said that nothing is.
    let one_line = load.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in
        ["nothing else is left, but for what a SIGKILL leaves", "SIGTERM and SIGHUP take them"]
    {
        assert!(one_line.contains(says), "{says} in\n{load}");
    }
    for action in ["list", "create", "rename", "delete"] {
        let help = run(&["table", action, "--help"]).expect(0).text();
        assert!(help.contains("Exit status:") && help.contains("Examples:\n  "), "{help}");
        assert!(help.contains(&format!("credenza table {action} ")), "{help}");
        assert_eq!(run(&["help", "table", action]).expect(0).text(), help);
    }
    for command in ["bench", "replay", "reproduce", "torture", "advise"] {
        let help = run(&[command, "--help"]).expect(0).text();
        assert!(help.contains("  130  stopped by a signal"), "{help}");
    }
    let help = run(&["bench", "compare", "--help"]).expect(0).text();
    for says in ["Exit status:", "    1  something did", "credenza bench compare before.json"] {
        assert!(help.contains(says), "{help}");
    }
    assert_eq!(help.lines().find(|line| line.chars().count() > 100), None);
}

#[test]
fn the_version_is_the_packages() {
    let version = run(&["--version"]).expect(0).text();
    assert_eq!(version, format!("credenza {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn colours_stay_out_of_files() {
    let got = run(&["nonsense"]).expect(111);
    assert!(!got.err.contains('\x1b'), "{:?}", got.err);
    assert!(!run(&["get", "--help"]).expect(0).text().contains('\x1b'));
    let forced = credenza(&["verify", "/nowhere"]).env("CLICOLOR_FORCE", "1").output();
    let forced = forced.expect("the program starts").stderr;
    assert!(forced.contains(&0x1b), "{}", String::from_utf8_lossy(&forced));
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(&["completions", shell]).expect(0).text();
        for word in COMMANDS.iter().chain(&["keys-from", "memory-budget"]) {
            assert!(script.contains(word), "{word} in the script for {shell}");
        }
    }
}

#[test]
fn manual_pages_are_complete() {
    let folder = Folder::new();
    let pages = folder.path("man/man1");
    run(&["man", &pages]).expect(0);
    let names = names_in(std::path::Path::new(&pages));
    for command in COMMANDS {
        let name = format!("credenza-{command}.1");
        assert!(names.contains(&name), "{name} in {names:?}");
        let page = std::fs::read_to_string(format!("{pages}/{name}")).expect("a page");
        for part in [".TH CREDENZA-", "EXIT STATUS", "EXAMPLES"] {
            assert!(page.contains(part), "{part} in {name}");
        }
    }
    assert!(names.contains(&"credenza-table-rename.1".to_owned()), "{names:?}");
    assert!(run(&["man"]).expect(0).text().contains(".TH CREDENZA 1  \"credenza "));
    let verify = std::fs::read_to_string(format!("{pages}/credenza-verify.1")).expect("a page");
    assert!(verify.contains("credenza verify\\fR [OPTIONS] <STORE>...\n"), "{verify}");
    let file = folder.file("file", "");
    let got = run(&["man", &file]).expect(111);
    assert!(got.err.contains(&file), "{}", got.err);
}

/// As others have it: `git help get`.
#[test]
fn a_command_is_no_folder_for_manual_pages() {
    let folder = Folder::new();
    let man = |name| {
        let mut command = credenza(&["man", name]);
        command.current_dir(folder.0.path()).output().expect("the program starts")
    };
    for command in COMMANDS {
        let got = man(command);
        assert_eq!(got.status.code(), Some(111), "{command}");
        let err = String::from_utf8_lossy(&got.stderr);
        assert!(err.contains(&format!("'credenza help {command}'")), "{err}");
        assert!(err.contains(&format!("'man credenza-{command}'")), "{err}");
    }
    assert!(folder.names().is_empty());
    for name in ["./get", "get", "./scan/", "pages"] {
        assert!(man(name).status.success(), "{name}");
    }
    assert_eq!(folder.names(), ["get", "pages", "scan"]);
}
