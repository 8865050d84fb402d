//! What the stores counted themselves: a table for the terminal and for the page.

use super::plain::ByClass;
use crate::result::{OwnCounter, Report};

pub const TITLE: &str = "Counted by the stores themselves";

const EXPLAINED: &str = "In the first round, of several new stores in the first, right before the timed work and \
    right after it. What grew is of this work; some counters only say how the store is. Those that are 0 both \
    times are left out.";

/// The table and what to say below; nothing where no store was asked, or none counts anything.
pub fn table(report: &Report) -> Option<(ByClass, &'static str)> {
    let heads = ["store", "phase", "counter", "before", "after", "grew by"].map(str::to_owned);
    let rows = report.results.iter().flat_map(|result| {
        let is_there = |counter: &&OwnCounter| (counter.before, counter.after) != (0, 0);
        let row = |counter: &OwnCounter| {
            let OwnCounter { name, before, after } = counter;
            let grew = i128::from(*after) - i128::from(*before);
            let figures = [before.to_string(), after.to_string(), grew.to_string()];
            let words = [&result.store, &result.phase, name].map(String::clone);
            (&*result.class, words.into_iter().chain(figures).collect())
        };
        result.own_counters.iter().filter(is_there).map(row)
    });
    Some((ByClass::new(&heads, 3, rows)?, EXPLAINED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_counter_that_is_not_nothing() {
        let bytes = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(bytes).unwrap();
        assert!(table(&report).is_none());
        let counter =
            |name: &str, before, after| OwnCounter { name: name.to_owned(), before, after };
        let result = &mut report.results[1];
        result.own_counters =
            vec![counter("hits", 7, 10), counter("misses", 0, 0), counter("free", u64::MAX, 0)];
        let (store, phase) = (result.store.clone(), result.phase.clone());
        let (table, _) = table(&report).unwrap();
        let rows = &table.of(&report.results[1].class).rows;
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0], [&store, &phase, "hits", "7", "10", "3"]);
        assert_eq!(rows[1][3..], ["18446744073709551615", "0", "-18446744073709551615"]);
    }
}
