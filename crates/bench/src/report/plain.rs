//! A table of words and figures, for the terminal and for the page: the same cells in both.

use super::chart::escape;
use super::compare::is_own;
use super::text;
use std::fmt::Write;

/// A heading for each column, and rows of as many cells, the first of which is a store.
pub struct Table {
    /// The headings.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// How many columns are of words; these come first, and are set to the left.
    pub words: usize,
}

/// Stores with longer names are cut in a terminal, so that lines fit.
const NAME: usize = 18;

impl Table {
    /// The lines for a terminal, the first of which is the headings.
    pub fn lines(&self) -> Vec<String> {
        let cell = |(i, cell): (usize, &String)| {
            let most = if i == 0 { NAME } else { usize::MAX };
            text::clean(cell).chars().take(most).collect::<String>()
        };
        let rows: Vec<Vec<String>> = std::iter::once(&self.heads)
            .chain(&self.rows)
            .map(|row| row.iter().enumerate().map(cell).collect())
            .collect();
        let mut widths = vec![0; self.heads.len()];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a string cannot fail.
                let _ = if i < self.words {
                    write!(line, "{cell:<width$}  ")
                } else {
                    write!(line, "{cell:>width$}  ")
                };
            }
            line.trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }

    /// The table for the page, with words for who cannot see it.
    pub fn html(&self, label: &str) -> String {
        self.html_of("<table>", label)
    }

    /// The same with headings that sort it: cells of its columns are words, or figures without units.
    pub fn sortable_html(&self, label: &str) -> String {
        self.html_of(r#"<table class="sortable">"#, label)
    }

    fn html_of(&self, table: &str, label: &str) -> String {
        let head = |(i, name): (usize, &String)| {
            format!(r#"<th scope="col"{}>{}</th>"#, self.class(i), escape(name))
        };
        let heads: String = self.heads.iter().enumerate().map(head).collect();
        let rows: String = self.rows.iter().map(|row| self.html_row(row)).collect();
        format!(
            r#"<div class="scroll" tabindex="0" role="region" aria-label="{}">{table}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"#,
            escape(label)
        )
    }

    fn class(&self, column: usize) -> &'static str {
        if column < self.words { r#" class="text""# } else { "" }
    }

    fn html_row(&self, cells: &[String]) -> String {
        let store = cells.first().map_or("", String::as_str);
        let class = if is_own(store) { r#" class="own""# } else { "" };
        let mut row = format!(r#"<tr{class}><th scope="row">{}</th>"#, escape(store));
        for (i, cell) in cells.iter().enumerate().skip(1) {
            let _ = write!(row, "<td{}>{}</td>", self.class(i), escape(cell));
        }
        row.push_str("</tr>");
        row
    }
}

/// Tables with the same headings, one for each durability class: figures of two classes never stand below
/// each other.
pub struct ByClass(Vec<(String, Table)>);

impl ByClass {
    /// Of rows with the class of each, classes in the order in which they come; `None` without a row.
    pub fn new<'a>(
        heads: &[String],
        words: usize,
        rows: impl Iterator<Item = (&'a str, Vec<String>)>,
    ) -> Option<ByClass> {
        let mut tables: Vec<(String, Table)> = Vec::new();
        for (class, row) in rows {
            match tables.iter_mut().find(|(name, _)| name == class) {
                Some((_, table)) => table.rows.push(row),
                None => {
                    let table = Table { heads: heads.to_vec(), rows: vec![row], words };
                    tables.push((class.to_owned(), table));
                }
            }
        }
        (!tables.is_empty()).then_some(ByClass(tables))
    }

    /// The lines for a terminal: the name of each class, and its table.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (class, table) in &self.0 {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.push(format!("class {}", text::clean(class)));
            lines.extend(table.lines());
        }
        lines
    }

    /// The same for the page.
    pub fn html(&self, label: &str) -> String {
        let table = |(class, table): &(String, Table)| {
            let label = format!("{label}, class {class}");
            format!(r#"<h3 class="gap">Class {}</h3>{}"#, escape(class), table.html(&label))
        };
        self.0.iter().map(table).collect()
    }

    /// The table of one class, for tests.
    #[cfg(test)]
    pub fn of(&self, class: &str) -> &Table {
        &self.0.iter().find(|(name, _)| name == class).unwrap().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{growth, processor, rate, together};
    use crate::result::processor::Processor;
    use crate::result::{Growth, Report};
    use std::collections::BTreeSet;

    #[test]
    fn each_class_has_a_table_of_its_own() {
        let row = |class, store: &str| (class, vec![store.to_owned(), "1".to_owned()]);
        let rows = [row("buffered", "hash"), row("at-<b>", "btree"), row("buffered", "rocksdb")];
        let heads = vec!["store".to_owned(), "ns".to_owned()];
        let table = ByClass::new(&heads, 1, rows.into_iter()).unwrap();
        let lines = [
            "class buffered",
            "store    ns",
            "hash      1",
            "rocksdb   1",
            "",
            "class at-<b>",
            "store  ns",
            "btree   1",
        ];
        assert_eq!(table.lines(), lines);
        let html = table.html("Some");
        assert_eq!((html.matches("<table").count(), html.matches("<thead").count()), (2, 2));
        assert!(html.find("rocksdb") < html.find("Class at-&lt;b&gt;"), "{html}");
        assert!(html.find("Class at-&lt;b&gt;") < html.find("btree"), "{html}");
        assert!(ByClass::new(&heads, 1, std::iter::empty()).is_none());
    }

    /// A report in which two stores of two classes did the same, in all that has such a table.
    fn of_two_classes() -> Report {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        let first = report.results[0].clone();
        report.results = [("hash", "buffered"), ("btree", "at-close")]
            .map(|(store, class)| {
                let mut result = first.clone();
                (result.store, result.class) = (store.to_owned(), class.to_owned());
                (result.phase, result.effort.operations) = ("mixed".to_owned(), 100);
                result.effort.processor = Processor::of([Some(1), None, None, None, None]);
                result.at_rate = Some(rate::some());
                result
            })
            .to_vec();
        let results = report.results.clone();
        report.growth = vec![Growth { records: 10, key_bytes: 1, value_bytes: 1, results }];
        report.together = together::some();
        report.together[1].class = "at-close".to_owned();
        report
    }

    #[test]
    fn classes_are_mixed_in_no_table_of_a_report() {
        let report = of_two_classes();
        let tables = [
            growth::table(&report).unwrap().0,
            rate::table(&report).unwrap().1,
            together::table(&report).unwrap().0,
            processor::table(&report).unwrap().0,
        ];
        let stores =
            |table: &Table| table.rows.iter().map(|row| &row[0]).collect::<BTreeSet<_>>().len();
        for table in tables {
            let classes: Vec<(&str, usize)> =
                table.0.iter().map(|(class, table)| (&**class, stores(table))).collect();
            assert_eq!(classes, [("buffered", 1), ("at-close", 1)], "{:?}", table.lines());
        }
    }
}
