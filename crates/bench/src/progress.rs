//! How far a run has come, for a person who watches.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of so many steps on standard error, where that is a terminal.
pub(crate) fn bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % {elapsed} {msg:<44}");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
