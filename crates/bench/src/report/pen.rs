//! Writing to a terminal: its width, its styles, and whether it shall have colours.
//!
//! Colour is only ever an addition: whatever it says stands in the text too.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use terminal_size::{Width, terminal_size_of};

/// The most columns a line has in a file, or for another program.
pub(crate) const WIDTH: usize = 100;
/// Fewer do not hold the figures of one store, and in more a line is no longer read at a glance.
const NARROWEST: usize = 80;
const WIDEST: usize = 120;

/// Whether output to `stream` should have colours: it is a terminal that knows them, and
/// `NO_COLOR` is not set (see no-color.org).
fn colour_wanted(stream: &impl IsTerminal) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !set("NO_COLOR") && !dumb
}

#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
}

/// Prints words in lines of at most as many columns as the pen has, dim.
pub(crate) fn wrapped(
    out: &mut impl Write,
    pen: &Pen,
    indent: &str,
    words: &str,
) -> io::Result<()> {
    wrapped_as(Style::Dim, out, pen, indent, words)
}

/// The same in another style.
pub(crate) fn wrapped_as(
    style: Style,
    out: &mut impl Write,
    pen: &Pen,
    indent: &str,
    words: &str,
) -> io::Result<()> {
    let mut line = String::new();
    for word in words.split_whitespace() {
        if !line.is_empty() && width(indent) + width(&line) + 1 + width(word) > pen.width {
            writeln!(out, "{indent}{}", pen.paint(&line, style))?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{indent}{}", pen.paint(&line, style))
}

pub(crate) fn shortened(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// How output is written: with colours or not, in lines of how many columns.
#[derive(Clone, Copy, Debug)]
pub struct Pen {
    pub(crate) colour: bool,
    pub(crate) width: usize,
}

impl Pen {
    /// What suits a stream: as wide as its terminal, 80 columns at least and 120 at most; 100 without colours
    /// where it is none.
    pub fn of(stream: &(impl IsTerminal + AsFd)) -> Pen {
        let columns = terminal_size_of(stream).map(|(Width(columns), _)| usize::from(columns));
        Pen {
            colour: colour_wanted(stream),
            width: columns.map_or(WIDTH, |columns| columns.clamp(NARROWEST, WIDEST)),
        }
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        self.paint(text, Style::Bold)
    }

    pub(crate) fn paint(&self, text: &str, style: Style) -> String {
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Bad => "31",
            Style::Plain => return text.to_owned(),
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
