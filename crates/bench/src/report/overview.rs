//! The overview of the page: where an engine of ours stands against the fastest of its peers in each phase, in words,
//! what it is not ahead in, and all figures at a glance.

use super::chart::{Row, Scale, escape};
use super::compare::{Comparison, Headline};
use super::html::{figure, list_row};
use super::stats::{Ratio, Verdict};
use super::{figures, text};
use std::fmt::Write;

pub(super) fn of(c: &Comparison) -> String {
    let mut html = String::new();
    for own in c.own() {
        let best = c.headlines(own);
        if !best.is_empty() {
            html.push_str(&headline_chart(c, own, &best));
        }
        if c.peers(own).next().is_some() {
            html.push_str(&losses(c, own));
        }
        html.push_str(&others(c, own));
    }
    html.push_str(&figures::matrix(c));
    html
}

fn headline_chart(c: &Comparison, own: &str, best: &[Headline]) -> String {
    let smallest = smallest_peer(c, own).zip(c.file_bytes(own));
    let size = smallest.map(|((rival, bytes), own)| (rival, bytes as f64 / own as f64));
    let mut ends = vec![1.0];
    ends.extend(best.iter().flat_map(|h| [h.ratio.low, h.ratio.high, h.ratio.median]));
    ends.extend(size.map(|(_, ratio)| ratio));
    let scale = Scale::logarithmic(&ends);
    let mut rows = String::new();
    for headline in best {
        rows.push_str(&headline_row(&scale, headline));
    }
    if let Some((rival, ratio)) = size {
        rows.push_str(&size_row(&scale, rival, ratio));
    }
    let title = format!("{own} against the fastest rival of each phase{}", c.peers_in_words(own));
    let explained = "how many times as fast; the bar starts at 1, no difference";
    figure("chart wide", &title, explained, &rows, &scale, text::factor)
}

fn headline_row(scale: &Scale, h: &Headline) -> String {
    let ratio = &h.ratio;
    let (class, says) = match ratio.verdict() {
        Verdict::Faster => ("win", "faster"),
        Verdict::Slower => ("loss", "slower"),
        Verdict::NoDifference => ("draw", "no difference"),
        Verdict::TooFewRounds => ("draw", "too few rounds"),
    };
    let factor = text::ratio(ratio);
    let label = format!("{} against {}: {factor}, {says}, {}", h.phase, h.rival, interval(ratio));
    let mut row = Row::new(scale, &label);
    if ratio.verdict() != Verdict::TooFewRounds {
        row.bar(scale, 1.0, ratio.median, class);
        row.whisker(scale, ratio.low, ratio.high);
    }
    row.reference(scale, 1.0);
    let name = format!("{}<small> against {}</small>", escape(h.phase), escape(h.rival));
    let tone = if ratio.verdict() == Verdict::Slower { r#" class="bad""# } else { "" };
    let note = format!("<small{tone}>{says}</small> <small>{}</small>", range(ratio));
    list_row("", &name, &row.svg(), &format!("<b>{factor}</b> {note}"))
}

fn size_row(scale: &Scale, rival: &str, ratio: f64) -> String {
    let (class, says) = if ratio >= 1.0 { ("win", "smaller") } else { ("loss", "larger") };
    let label = format!("file size against {rival}: {}, {says}", text::factor(ratio));
    let mut row = Row::new(scale, &label);
    row.bar(scale, 1.0, ratio, class);
    row.reference(scale, 1.0);
    let name = format!("file size<small> against {}</small>", escape(rival));
    let tone = if ratio >= 1.0 { "" } else { r#" class="bad""# };
    let figure = format!("<b>{}</b> <small{tone}>{says}</small>", text::factor(ratio));
    list_row("", &name, &row.svg(), &figure)
}

fn smallest_peer<'a>(c: &Comparison<'a>, own: &str) -> Option<(&'a str, u64)> {
    let sizes = c.peers(own).filter(|store| c.verified(store));
    let sizes = sizes.filter_map(|store| Some((store, c.file_bytes(store)?)));
    sizes.min_by_key(|(_, bytes)| *bytes)
}

/// Who is in the tables alone.
fn others(c: &Comparison, own: &str) -> String {
    let others: Vec<&str> = c.others(own).collect();
    if others.is_empty() {
        return String::new();
    }
    format!(
        r#"<p class="note">In the tables alone, as they cannot do what {own} does: {}.</p>"#,
        escape(&others.join(", "))
    )
}

/// Where an engine of ours is not ahead, in words, worst first.
fn losses(c: &Comparison, own: &str) -> String {
    let mut items = String::new();
    for phase in c.wrong_phases(own) {
        let _ = write!(items, "<li><b>{}</b>: {own} gave wrong answers</li>", escape(phase));
    }
    for h in c.not_ahead(own) {
        let (phase, rival) = (escape(h.phase), escape(h.rival));
        let interval = interval(&h.ratio);
        let (says, how) = match h.ratio.verdict() {
            Verdict::Slower => (
                format!("{rival} is {} times as fast", text::number(1.0 / h.ratio.median)),
                format!("{own} at {}, {interval}", text::factor(h.ratio.median)),
            ),
            _ => (format!("no difference seen from {rival}"), interval),
        };
        let _ =
            write!(items, r#"<li><b>{phase}</b>: {says} <span class="soft">({how})</span></li>"#);
    }
    if let Some((own_bytes, (rival, bytes))) = c.file_bytes(own).zip(smallest_peer(c, own))
        && bytes < own_bytes
    {
        let (rival, part) = (escape(rival), text::percent(bytes as f64 / own_bytes as f64));
        let _ = write!(items, "<li><b>file size</b>: that of {rival} is {part} of ours</li>");
    }
    let unjudged = c.unjudged(own);
    if items.is_empty() && c.headlines(own).is_empty() {
        return String::new();
    }
    if items.is_empty() && !unjudged.is_empty() {
        return format!(r#"<p class="note">Too few rounds to say where {own} is not ahead.</p>"#);
    }
    if items.is_empty() {
        let of = c.peers_in_words(own);
        let of = if of.is_empty() { String::new() } else { format!("{of},") };
        return format!(
            r#"<p class="note">No rival{of} matched {own} in any phase of this run. That is said of this data on this machine.</p>"#
        );
    }
    let too_few = match escape(&unjudged.join(", ")) {
        none if none.is_empty() => none,
        phases => format!(
            r#"<p class="note">Too few rounds to say of every rival whether {own} is ahead: {phases}.</p>"#
        ),
    };
    format!(
        r#"<h3 class="gap">Where {own} is not ahead</h3><ul class="losses">{items}</ul>{too_few}"#
    )
}

/// The ends of a ratio's interval; nothing of too few rounds.
fn range(ratio: &Ratio) -> String {
    text::ends(ratio).map_or_else(String::new, |[low, high]| format!("{low}x to {high}x"))
}

/// The interval of a ratio in words.
fn interval(ratio: &Ratio) -> String {
    let rounds = text::counted(ratio.pairs, "round");
    match text::ends(ratio) {
        None => format!("{rounds}, no interval"),
        Some([low, high]) => format!("{low}x to {high}x, {rounds}"),
    }
}
