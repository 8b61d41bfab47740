//! Text reports with aligned columns.

use std::fmt::Write;

use crate::suite::Absent;

pub(crate) fn cells(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

pub(crate) fn none() -> String {
    "-".to_owned()
}

/// Formats a number with three significant digits, or more if its integer part has more.
#[must_use]
pub fn significant(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        // Transfers of a few bytes reach only a small fraction of a GB/s.
        value if value > 0.0 && value < 0.01 => format!("{value:.4}"),
        value => format!("{value:.2}"),
    }
}

/// Aligns columns: words to the left, numbers and their headings to the right.
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

/// Formats a line for each absent peer and each failure, with the reason.
pub(crate) fn missing(absent: &[Absent], failures: &[String]) -> String {
    let absent = absent.iter().map(|absent| format!("not there: {absent}\n"));
    let failed = failures.iter().map(|failed| format!("not measured: {failed}\n"));
    absent.chain(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let table = align(&[
            cells(&["link", "over", "p50"]),
            cells(&["host-host", "shm", "120"]),
            cells(&["a-b", "window", "1234"]),
        ]);
        let expected = "  link       over     p50\n  host-host  shm      120\n  a-b        window  1234\n";
        assert_eq!(table, expected);
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0.00"),
            (1.234, "1.23"),
            (9.999, "10.0"),
            (99.96, "100"),
            (120.4, "120"),
            (45_000.0, "45000"),
        ] {
            assert_eq!(significant(value), text);
        }
    }
}
