//! Figures and strings as people read them, shared by the terminal and the page.

use super::stats::{Ratio, Verdict};
use std::fmt::Write;

/// Stands where there is no figure.
pub const NONE: &str = "–";
/// Stands in the place of a ratio that shows no difference.
pub const SAME: &str = "~";
/// Stands in the place of a ratio of too few rounds.
pub const UNJUDGED: &str = "?";
/// What that means, where it stands.
pub const UNJUDGED_EXPLAINED: &str =
    "? fewer than three rounds: too few to say whether there is a difference, and for a ratio.";

/// Three significant digits, thousands grouped: `0.041`, `3.50`, `41.2`, `207`, `1,125`.
pub fn number(x: f64) -> String {
    let size = x.abs();
    if !x.is_finite() {
        NONE.to_owned()
    } else if size >= 1e15 || (size < 0.0005 && size > 0.0) {
        format!("{x:.2e}")
    } else if size < 0.0995 {
        format!("{x:.3}")
    } else if size < 9.995 {
        format!("{x:.2}")
    } else if size < 99.95 {
        format!("{x:.1}")
    } else {
        grouped(&format!("{x:.0}"))
    }
}

/// A count, thousands grouped.
pub fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// A number of things, with the thing's name in the right number.
pub fn counted(n: usize, thing: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(n as u64))
}

/// What [`mark`] says of removals.
pub const LOOKUP_EXPLAINED: &str = "* of removals: each has a lookup before it, as the store does not say whether \
    the key was there";

/// What stands behind a figure whose answers were wrong, and behind one of what is not the store's own call.
pub fn mark(is_verified: bool, is_native: bool) -> &'static str {
    match (is_verified, is_native) {
        (false, _) => "!",
        (true, false) => "*",
        (true, true) => "",
    }
}

/// A time with its unit: `41.2 ns`, `1.13 µs`, `86.4 ms`, `1.59 s`.
pub fn nanoseconds(ns: f64) -> String {
    scaled(ns, &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// How many a second: `41.2 /s`, `3.40 M/s`.
pub fn per_second(rate: f64) -> String {
    scaled(rate, &[("/s", 1.0), ("k/s", 1e3), ("M/s", 1e6)])
}

/// A size in decimal units: `512 B`, `18.1 MB`.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)])
}

/// A memory or cache size in binary units, as its makers give it: `32 KiB`, `24 GiB`.
pub fn binary_bytes(n: u64) -> String {
    const K: f64 = 1024.0;
    round(&scaled(n as f64, &[("B", 1.0), ("KiB", K), ("MiB", K * K), ("GiB", K * K * K)]))
}

/// A ratio as a factor: `5.03x`.
pub fn factor(ratio: f64) -> String {
    format!("{}x", number(ratio))
}

/// The median of a ratio as a factor, where it shows anything: its interval alone is no figure, and
/// one of too few rounds has none.
pub fn ratio(ratio: &Ratio) -> String {
    match ratio.verdict() {
        Verdict::NoDifference => SAME.to_owned(),
        Verdict::TooFewRounds => UNJUDGED.to_owned(),
        Verdict::Faster | Verdict::Slower => factor(ratio.median),
    }
}

/// The ends of a ratio's interval; `None` where its rounds are too few for one.
pub fn ends(ratio: &Ratio) -> Option<[String; 2]> {
    let is_judged = ratio.verdict() != Verdict::TooFewRounds;
    is_judged.then(|| [ratio.low, ratio.high].map(number))
}

/// A round figure without the zeros that show its precision, for the labels of an axis: `1 µs`
/// for `1.00 µs`, `2x` for `2.00x`.
pub fn round(figure: &str) -> String {
    let end = figure.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(figure.len());
    let (digits, unit) = figure.split_at(end);
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    };
    format!("{digits}{unit}")
}

/// A part of one as per cent: `90 %`.
pub fn percent(part: f64) -> String {
    let text = format!("{:.1}", part * 100.0);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// Seconds since 1970 as `2026-11-21 07:30 UTC`.
pub fn date(unix: u64) -> String {
    const DAY: u64 = 86_400;
    let (year, month, day) = civil(unix / DAY);
    let minutes = unix % DAY / 60;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// The text with nothing in it that moves a cursor, changes a colour or turns the direction of
/// writing: such characters become U+FFFD.
pub fn clean(text: &str) -> String {
    let harmful =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if harmful(c) { '\u{fffd}' } else { c }).collect()
}

fn scaled(x: f64, units: &[(&str, f64)]) -> String {
    let fits = |(_, unit): &&(&str, f64)| x.abs() >= *unit * 0.9995;
    let (name, unit) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    let text = number(x / unit);
    // A whole number of base units needs no decimals.
    let whole = *unit == 1.0 && x.fract() == 0.0 && x.abs() < 1e3;
    if whole { format!("{x:.0} {name}") } else { format!("{text} {name}") }
}

fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        let left = digits.len() - i;
        if i > 0 && left.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(c);
    }
    text
}

/// Year, month and day of a day counted from 1970-01-01 (Gregorian, in eras of 400 years that
/// begin on the first of March).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, of_month)
}

/// Text in lines of at most `width` columns, the first of which begins with `mark` and the others below it.
pub(crate) fn below(mark: &str, text: &str, width: usize) -> String {
    let indent = mark.chars().count();
    let (mut out, mut line) = (String::new(), String::new());
    let clean = clean(text);
    for word in clean.split_whitespace() {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > width {
            let start = if out.is_empty() { mark.to_owned() } else { " ".repeat(indent) };
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{start}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let start = if out.is_empty() { mark.to_owned() } else { " ".repeat(indent) };
    let _ = writeln!(out, "{start}{line}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [
            (0.0, "0.000"),
            (0.04123, "0.041"),
            (0.5, "0.50"),
            (3.5, "3.50"),
            (9.996, "10.0"),
            (41.24, "41.2"),
            (99.96, "100"),
            (207.4, "207"),
            (1125.0, "1,125"),
            (-123_456.0, "-123,456"),
            (1e300, "1.00e300"),
            (f64::NAN, "–"),
            (1e-9, "1.00e-9"),
        ];
        for (x, text) in cases {
            assert_eq!(number(x), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn units_fit_the_size() {
        assert_eq!(nanoseconds(41.24), "41.2 ns");
        assert_eq!(nanoseconds(999.6), "1.00 µs");
        assert_eq!(round("1.00 µs"), "1 µs");
        assert_eq!((round("0.50x"), round("100 ns")), ("0.5x".to_owned(), "100 ns".to_owned()));
        assert_eq!((round("1,000 TB"), round("–")), ("1,000 TB".to_owned(), "–".to_owned()));
        assert_eq!(nanoseconds(86_400_000.0), "86.4 ms");
        assert_eq!(nanoseconds(1.59e9), "1.59 s");
        assert_eq!((bytes(0), bytes(512)), ("0 B".to_owned(), "512 B".to_owned()));
        assert_eq!(bytes(18_104_320), "18.1 MB");
        assert_eq!(bytes(u64::MAX), "18,446,744 TB");
        assert_eq!(binary_bytes(32 << 10), "32 KiB");
        assert_eq!(binary_bytes(24 << 30), "24 GiB");
        assert_eq!((factor(5.031), percent(0.9)), ("5.03x".to_owned(), "90 %".to_owned()));
        let of = |low, pairs| ratio(&Ratio { median: 1.5, low, high: 1.97, pairs, floor: 1.0 });
        assert_eq!([of(0.43, 5), of(1.2, 5), of(1.2, 3)], ["~", "1.50x", "1.50x"]);
        assert_eq!([of(0.43, 2), of(1.2, 2), of(1.5, 1)], ["?"; 3]);
        assert_eq!((percent(1.0), percent(0.1234)), ("100 %".to_owned(), "12.3 %".to_owned()));
    }

    #[test]
    fn dates_at_the_edges() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59 UTC");
        assert!(date(u64::MAX).ends_with("UTC"));
    }

    #[test]
    fn nothing_reaches_the_terminal_that_steers_it() {
        assert_eq!(clean("a\x1b[31mb\n\u{202e}c\u{9b}"), "a\u{fffd}[31mb\u{fffd}\u{fffd}c\u{fffd}");
        assert_eq!(clean("häuser ✓"), "häuser ✓");
    }
}
