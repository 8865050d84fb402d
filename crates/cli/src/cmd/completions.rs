//! `credenza completions`: what a shell needs to complete commands.

use crate::args::{Cli, exit_status};
use crate::exit::Status;
use crate::output;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use credenza::Result;

/// Print the completion script of a shell.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza completions bash > ~/.local/share/bash-completion/completions/credenza\n  \
       credenza completions zsh > ~/.zfunc/_credenza\n  \
       credenza completions fish > ~/.config/fish/completions/credenza.fish\n",
    exit_status!()
))]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// How bash is told of files that a value may be: one with a blank in its name was two.
const FILES: &str = "COMPREPLY=($(compgen -f \"${cur}\"))";
const FILES_WITH_BLANKS: &str =
    "mapfile -t COMPREPLY < <(compgen -f -- \"${cur}\"); compopt -o filenames 2> /dev/null";

/// Runs the command.
pub fn run(args: &Completions) -> Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "credenza", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    hidden(&Cli::command()).iter().for_each(|option| script = without(&script, option));
    if args.shell == Shell::Bash {
        script = script.replace(FILES, FILES_WITH_BLANKS);
    }
    output::print(script)?;
    Ok(Status::Done)
}

/// The options that no help shows: they are not for people.
fn hidden(command: &Command) -> Vec<String> {
    let options = command.get_arguments().filter(|option| option.is_hide_set());
    let mut names: Vec<String> = options.filter_map(|o| o.get_long().map(String::from)).collect();
    names.extend(command.get_subcommands().flat_map(hidden));
    names.sort();
    names.dedup();
    names
}

/// A script without an option: it stands among others where bash has it, and alone on its line elsewhere.
fn without(script: &str, option: &str) -> String {
    let script = script.replace(&format!(" --{option} "), " ");
    let begins = [format!("'--{option}["), format!("cand --{option} ")];
    let holds = [format!(" -l {option} "), format!("CompletionResult]::new('--{option}'")];
    let is_of = |line: &str| {
        let text = line.trim_start();
        begins.iter().any(|begin| text.starts_with(begin.as_str()))
            || holds.iter().any(|part| text.contains(part.as_str()))
    };
    script.split_inclusive('\n').filter(|line| !is_of(line)).collect()
}
