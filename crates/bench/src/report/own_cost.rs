//! What the workbench itself takes of an operation, for the terminal and the page: the time of a store that does
//! nothing. Of operations that take several records also the time of one of these.

use super::text;
use crate::result::{OwnCost, Report};

/// What is said before the phases, and what is not done with these figures.
pub const EXPLAINED: &str = "The workbench's own nanoseconds an operation, with a store that does nothing; subtracted nowhere";

/// Each phase with its time; `None` where it was not measured.
pub fn in_words(report: &Report) -> Option<String> {
    let costs: Vec<String> = report.workbench.iter().map(of_phase).collect();
    (!costs.is_empty()).then(|| costs.join("; "))
}

fn of_phase(cost: &OwnCost) -> String {
    let of_record = cost.ns_per_record.zip(cost.records_per_op).map(|(ns, records)| {
        format!(" ({} a record, of {} in an operation)", text::number(ns), text::number(records))
    });
    let several = cost.readers.zip(cost.by.as_deref());
    let several = several.map(|(count, by)| format!(", {count} {by}:")).unwrap_or_default();
    let ns = text::number(cost.ns_per_op);
    format!("{}{several} {ns}{}", cost.phase, of_record.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Danger: the time of a hundred records beside that of one lookup, as if both were one operation alike.
    #[test]
    fn an_operation_of_several_records_says_what_one_of_them_takes() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        assert_eq!(in_words(&report), None);
        // As a report from before has it, and as one from today.
        let costs = r#"[{"phase": "get-hit", "ns_per_op": 0.8},
            {"phase": "mixed", "ns_per_op": 9.5, "readers": 2, "by": "threads"},
            {"phase": "range", "ns_per_op": 50.0, "records_per_op": 100.0, "ns_per_record": 0.5}]"#;
        report.workbench = serde_json::from_str(costs).unwrap();
        let said = in_words(&report).unwrap();
        assert_eq!(
            said,
            "get-hit 0.80; mixed, 2 threads: 9.50; range 50.0 (0.50 a record, of 100 in an operation)"
        );
    }
}
