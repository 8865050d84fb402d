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
        let head = |(i, name): (usize, &String)| {
            format!(r#"<th scope="col"{}>{}</th>"#, self.class(i), escape(name))
        };
        let heads: String = self.heads.iter().enumerate().map(head).collect();
        let rows: String = self.rows.iter().map(|row| self.html_row(row)).collect();
        format!(
            r#"<div class="scroll" tabindex="0" role="region" aria-label="{}"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"#,
            escape(label)
        )
    }

    fn class(&self, column: usize) -> &'static str {
        if column < self.words { r#" class="text""# } else { "" }
    }

    fn html_row(&self, cells: &[String]) -> String {
        let store = cells.first().map_or("", String::as_str);
        let class = if is_own(store) { "own" } else { "" };
        let mut row = format!(r#"<tr class="{class}"><th scope="row">{}</th>"#, escape(store));
        for (i, cell) in cells.iter().enumerate().skip(1) {
            let _ = write!(row, "<td{}>{}</td>", self.class(i), escape(cell));
        }
        row.push_str("</tr>");
        row
    }
}
