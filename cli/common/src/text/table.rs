//! Tables for people.

use anstyle::Style;

/// Alignment of a cell in its column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Align {
    Left,
    Right,
}

/// Table whose columns are as wide as their widest cell, two blanks apart.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<(String, Style)>>,
}

impl Table {
    /// Creates a table with these column heads; a head that ends in `>` marks a numeric column.
    pub fn new(heads: &[&'static str]) -> Table {
        let column = |head: &&'static str| match head.strip_suffix('>') {
            Some(head) => (head, Align::Right),
            None => (*head, Align::Left),
        };
        Table { columns: heads.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.styled_row(cells.map(|cell| (cell, Style::new())));
    }

    /// Adds a row with a style for each cell.
    pub fn styled_row<const N: usize>(&mut self, cells: [(String, Style); N]) {
        self.rows.push(cells.into());
    }

    /// Formats the table with its heads; styles are included only if `colour`.
    pub fn render(&self, colour: bool) -> String {
        let width = |index: usize, head: &str| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(|(text, _)| text.chars().count()).fold(head.chars().count(), usize::max)
        };
        let widths: Vec<usize> =
            self.columns.iter().enumerate().map(|(index, (head, _))| width(index, head)).collect();
        let heads: Vec<(String, Style)> =
            self.columns.iter().map(|(head, _)| ((*head).to_owned(), Style::new().bold())).collect();
        let mut text = String::new();
        for row in std::iter::once(&heads).chain(&self.rows) {
            self.render_row(row, &widths, colour, &mut text);
        }
        text
    }

    fn render_row(&self, row: &[(String, Style)], widths: &[usize], colour: bool, text: &mut String) {
        let mut pending = 0;
        for (((cell, style), width), (_, align)) in row.iter().zip(widths).zip(&self.columns) {
            let blank = width - cell.chars().count().min(*width);
            let (before, after) = if *align == Align::Right { (blank, 0) } else { (0, blank) };
            // Blanks are only written before text, so that lines have no trailing blanks.
            if !cell.is_empty() {
                text.push_str(&" ".repeat(pending + before));
                let style = if colour { *style } else { Style::new() };
                text.push_str(&format!("{style}{cell}{style:#}"));
                pending = after + 2;
            } else {
                pending += width + 2;
            }
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_in_no_blanks() {
        let mut table = Table::new(&["NODE", "CORES>", "STATE"]);
        table.row(["host".into(), "12".into(), "up".into()]);
        table.row(["arm-user".into(), "".into(), "".into()]);
        table.row(["ä".into(), "1".into(), "down".into()]);
        assert_eq!(
            table.render(false),
            "NODE      CORES  STATE\nhost         12  up\narm-user\nä             1  down\n"
        );
    }

    #[test]
    fn colour_does_not_move_columns() {
        let mut table = Table::new(&["A", "B"]);
        table.styled_row([("x".into(), anstyle::AnsiColor::Red.on_default()), ("y".into(), Style::new())]);
        assert_eq!(table.render(true), "\x1b[1mA\x1b[0m  \x1b[1mB\x1b[0m\n\x1b[31mx\x1b[0m  y\n");
    }
}
