//! A progress bar for whatever takes long, only where a person looks at standard error.
//!
//! It appears after a second, so that quick work leaves no trace on the screen, and vanishes when
//! dropped, before a result or an error is printed.

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const APPEARS_AFTER: Duration = Duration::from_secs(1);

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// Bytes read or checked.
    Bytes,
    /// Records or keys.
    Records,
}

/// A bar that may be hidden; every call on a hidden bar costs next to nothing.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    enabled: bool,
    shown: AtomicBool,
    started: Instant,
}

impl Bar {
    /// A bar, unless the user wants quiet or standard error is not a terminal.
    pub fn new(quiet: bool) -> Bar {
        Bar {
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
            enabled: !quiet && std::io::stderr().is_terminal(),
            shown: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    /// Whether it may ever be seen: whoever must work to learn a total asks this first.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// A new piece of work begins, of `total` units where that is known.
    pub fn begin(&self, what: &'static str, unit: Unit, total: Option<u64>) {
        if !self.enabled {
            return;
        }
        let template = match (unit, total) {
            (Unit::Bytes, Some(_)) => {
                "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"
            }
            (Unit::Bytes, None) => "{msg} {spinner} {bytes}, {bytes_per_sec}",
            (Unit::Records, Some(_)) => {
                "{msg} [{bar:30}] {human_pos} of {human_len} records, {rate}, {eta} left"
            }
            (Unit::Records, None) => "{msg} {spinner} {human_pos} records, {rate}",
        };
        // A template that indicatif cannot read leaves its default one.
        if let Ok(style) = ProgressStyle::with_template(template) {
            let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                let _ = write!(out, "{}/s", HumanCount(state.per_sec() as u64));
            });
            self.bar.set_style(style.progress_chars("=> "));
        }
        self.bar.set_message(what);
        match total {
            Some(total) => self.bar.set_length(total),
            None => self.bar.unset_length(),
        }
        self.bar.reset();
    }

    /// The work has come this far.
    pub fn at(&self, done: u64) {
        if !self.enabled {
            return;
        }
        if !self.shown.load(Ordering::Relaxed) {
            if self.started.elapsed() < APPEARS_AFTER {
                return;
            }
            self.shown.store(true, Ordering::Relaxed);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }

    /// What is told how many bytes are done, and of how many, which becomes known meanwhile.
    pub fn of_bytes(&self, what: &'static str) -> impl FnMut(u64, u64) {
        let mut known = None;
        move |done, total| {
            if known != Some(total) {
                known = Some(total);
                self.begin(what, Unit::Bytes, known);
            }
            self.at(done);
        }
    }

    /// As [`Bar::at`], for calls so frequent that looking at the clock would cost: one in 1024
    /// is heard.
    #[inline]
    pub fn count(&self, done: u64) {
        if done.is_multiple_of(1024) {
            self.at(done);
        }
    }

    /// Runs `f`, which writes to the terminal, without the bar in its way.
    pub fn aside<T>(&self, f: impl FnOnce() -> T) -> T {
        self.bar.suspend(f)
    }
}

#[cfg(test)]
impl Bar {
    /// One as at a terminal.
    pub fn of_terminal() -> Bar {
        let mut bar = Bar::new(true);
        (bar.enabled, bar.shown) = (true, AtomicBool::new(true));
        bar
    }

    /// How far the work has come, and of how much where that is known.
    pub fn told(&self) -> (u64, Option<u64>) {
        (self.bar.position(), self.bar.length())
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
