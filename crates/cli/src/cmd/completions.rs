//! `credenza completions`: what a shell needs to complete commands.

use crate::args::{Cli, exit_status};
use crate::exit::Status;
use crate::output;
use clap::{Args, CommandFactory};
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

/// Runs the command.
pub fn run(args: &Completions) -> Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "credenza", &mut script);
    output::print(script)?;
    Ok(Status::Done)
}
