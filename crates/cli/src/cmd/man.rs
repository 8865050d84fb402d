//! `credenza man`: the manual pages, made from the same text as the help.

use crate::args::{Cli, exit_status};
use crate::exit::Status;
use crate::output;
use clap::{Args, Command, CommandFactory};
use credenza::{Error, Result};
use std::path::{Path, PathBuf};

/// Write the manual pages.
///
/// With a folder, one page for the program and one for each command are written into it. Without,
/// the program's page goes to standard output. A new folder that is called like a command is written as
/// a path: ./get.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza man | man -l -                  read it now\n  \
       credenza man ~/.local/share/man/man1     install all pages\n",
    exit_status!()
))]
pub struct Man {
    /// Folder to write the pages into; made if there is none
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Man) -> Result<Status> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.folder else {
        let page = page(&command).map_err(|e| Error::io("make the manual page", e))?;
        output::print(page)?;
        return Ok(Status::Done);
    };
    refuse_command(folder, &command)?;
    let at = |e| Error::io("write manual pages into", e).at(folder);
    std::fs::create_dir_all(folder).map_err(at)?;
    write_pages(&command, folder).map_err(at)?;
    Ok(Status::Done)
}

/// An error if the folder, which is not there, is called like a command, whose page was meant: so `git help` and
/// others take it.
fn refuse_command(folder: &Path, command: &Command) -> Result<()> {
    let Some(name) = folder.to_str().filter(|name| command.find_subcommand(name).is_some()) else {
        return Ok(());
    };
    if folder.exists() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "this is a command, and there is no folder of this name: 'credenza help {name}' shows its page, and so does \
         'man credenza-{name}' where the pages are installed; write ./{name} for a new folder"
    ))
    .at(folder))
}

/// The pages of a command, and of all below it.
fn write_pages(command: &Command, folder: &Path) -> std::io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    std::fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    command.get_subcommands().try_for_each(|below| write_pages(below, folder))
}

/// The manual page of a command.
fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let mut command = command.clone();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    // As --help has it: of the options a page would list names alone, and of what may be repeated nothing.
    let usage = command.render_usage().to_string();
    let usage =
        usage.trim_start_matches("Usage:").lines().map(str::trim).collect::<Vec<_>>().join("\n");
    command = command.override_usage(usage);
    let source = concat!("credenza ", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).source(source);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(help) = command.get_after_long_help() {
        page.extend_from_slice(sections(&help.to_string()).as_bytes());
    }
    Ok(page)
}

/// What stands behind the options in the help, its headings as headings and its lines as they are.
fn sections(help: &str) -> String {
    let mut roff = String::new();
    for line in help.lines().filter(|line| !line.is_empty()) {
        match line.strip_suffix(':').filter(|heading| !heading.starts_with(' ')) {
            Some(heading) => {
                roff.push_str(&format!(".fi\n.SH \"{}\"\n.nf\n", heading.to_uppercase()));
            }
            None => {
                // Never a control line: what begins with a dot is text too.
                let text = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
                roff.push_str(&format!("\\&{text}\n"));
            }
        }
    }
    roff.push_str(".fi\n");
    roff
}

#[cfg(test)]
mod tests {
    use super::sections;

    #[test]
    fn headings_and_lines_become_roff() {
        let help = "Examples:\n  a -b 'c\\n'\n\nExit status:\n    0  done\n";
        let roff = ".fi\n.SH \"EXAMPLES\"\n.nf\n\\&  a \\-b \\(aqc\\en\\(aq\n\
                    .fi\n.SH \"EXIT STATUS\"\n.nf\n\\&    0  done\n.fi\n";
        assert_eq!(sections(help), roff);
    }
}
