//! What the processor counted, for one operation: a table for the terminal and for the page.

use super::plain::ByClass;
use super::text;
use crate::result::Report;
use crate::result::processor::Processor;

pub const TITLE: &str = "Counted by the processor, for one operation";

const EXPLAINED: &str = "In the program itself, its threads and its libraries, not in the kernel, over the \
    same timed work as the time, and with the workbench's own loop in it. What cache misses are is for the \
    processor's maker to say.";

/// The table and what to say below; nothing where nothing was counted.
pub fn table(report: &Report) -> Option<(ByClass, &'static str)> {
    let known = report.results.iter().filter(|result| result.effort.processor.is_known());
    let figure = |count: Option<f64>| count.map_or_else(|| text::NONE.to_owned(), text::number);
    let rows = known.map(|result| {
        let mut row = vec![result.store.clone(), result.phase.clone()];
        row.extend(result.effort.processor.of_one(result.effort.operations).map(figure));
        (&*result.class, row)
    });
    let heads: Vec<String> =
        ["store", "phase"].into_iter().chain(Processor::NAMES).map(str::to_owned).collect();
    Some((ByClass::new(&heads, 2, rows)?, EXPLAINED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_phase_that_was_counted() {
        let bytes = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(bytes).unwrap();
        assert!(table(&report).is_none());
        let effort = &mut report.results[1].effort;
        effort.operations = 100;
        effort.processor = Processor::of([Some(12_345), None, Some(7), None, None]);
        let (table, _) = table(&report).unwrap();
        let rows = &table.of(&report.results[1].class).rows;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0][2..], ["123", "–", "0.070", "–", "–"]);
    }
}
