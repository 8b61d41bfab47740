//! Aligned text.

use std::fmt::Write;

/// Aligns columns: words to the left, numbers and what stands over them to the right.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let column = |index: usize| rows.iter().filter_map(move |row| row.get(index));
    let widths: Vec<usize> =
        (0..columns).map(|index| column(index).map(|cell| cell.chars().count()).max().unwrap_or(0)).collect();
    let is_number = |cell: &String| cell == "-" || cell.parse::<f64>().is_ok();
    let right: Vec<bool> =
        (0..columns).map(|index| column(index).next_back().is_some_and(is_number)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, width), right) in row.iter().zip(&widths).zip(&right) {
            let _ = if *right { write!(line, "  {cell:>width$}") } else { write!(line, "  {cell:<width$}") };
        }
        text += line.trim_end();
        text += "\n";
    }
    text
}
