//! How far a run has come, for a person who watches.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Says a line on standard error, as `eprintln` does, which would end the program where nobody reads it.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
pub(crate) use say;

/// A bar of so many steps on standard error, where that is a terminal.
pub(crate) fn bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % {elapsed} {msg:<44}");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Says what is done, beside a sign that moves, where the work has no steps; unless nothing is to be said of it.
pub(crate) fn spinner_unless(is_quiet: bool, what: &'static str) -> ProgressBar {
    if is_quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The same as [`bar`], unless nothing is to be said of the progress.
pub(crate) fn bar_unless(is_quiet: bool, steps: u64) -> ProgressBar {
    if is_quiet { ProgressBar::hidden() } else { bar(steps) }
}
