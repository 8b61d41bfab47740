//! Boot times of nodes, by number of nodes (thesis, figure C.2).

use serde::Serialize;

use super::{Failed, failures};
use crate::host::Host;
use crate::report::BenchReport;
use crate::table::{align, cells, significant};

/// Summary of the thesis' figure C.2.
pub const THESIS: &str = "\
Thesis, figure C.2: from main() to the message loop a monitor takes about 110 million cycles if it is among the first, and
about 2,000 million if it is the last of some 40: the growth looks quadratic, as every monitor connects to every other.";

/// Boot times of a machine with a number of boards.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Number of boards.
    pub boards: u32,
    /// Time from the start of `tombolo up` until all monitors have answered, in s.
    pub all_s: f64,
    /// Median time of a board from start to ready, in s.
    pub median_s: f64,
    /// Time of the last board from start to ready, in s.
    pub last_s: f64,
}

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Host that was measured.
    pub host: Host,
    /// Instruction set of the boards.
    pub isa: String,
    /// Rows by number of boards.
    pub rows: Vec<Row>,
    /// Measurements that failed, with reasons.
    pub failed: Vec<Failed>,
    /// Slope of `all_s` per additional board, in s, by least squares.
    pub slope_s: Option<f64>,
    /// Exponent of `all_s` as a power of the number of boards, by least squares of the logarithms; 1 is
    /// linear, 2 quadratic.
    pub exponent: Option<f64>,
    /// Summary of the thesis' result.
    pub thesis: &'static str,
}

impl Report {
    /// Creates the report of these rows.
    #[must_use]
    pub fn new(isa: &str, rows: Vec<Row>, failed: Vec<Failed>) -> Report {
        // Applies the function to both coordinates.
        let points = |of: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> {
            rows.iter().map(|row| (of(f64::from(row.boards)), of(row.all_s))).collect()
        };
        let slope_s = slope(&points(&|value| value));
        let exponent = slope(&points(&|value: f64| value.max(1e-9).ln()));
        Report {
            host: Host::describe(),
            isa: isa.to_owned(),
            rows,
            failed,
            slope_s,
            exponent,
            thesis: THESIS,
        }
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut lines = vec![cells(&["boards", "all up", "per board", "median board", "last board"])];
        for row in &self.rows {
            let times = [row.all_s, row.all_s / f64::from(row.boards.max(1)), row.median_s, row.last_s];
            lines.push(std::iter::once(row.boards.to_string()).chain(times.map(significant)).collect());
        }
        let title = format!("Boards ({}) from start to ready, in s", self.isa);
        let mut text = format!("{title}\n\n{}", align(&lines));
        if let (Some(slope_s), Some(exponent)) = (self.slope_s, self.exponent) {
            text += &format!(
                "\nEach further board takes {} s more; all up grows with the power {exponent:.2} of their number.\n",
                significant(slope_s)
            );
        }
        text + &failures(&self.failed) + &format!("\n{THESIS}\n")
    }

    fn failures(&self) -> Vec<String> {
        self.failed.iter().map(ToString::to_string).collect()
    }
}

/// Returns the slope of a line through points by least squares; `None` for fewer than two.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let together: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (points.len() > 1 && spread > 0.0).then(|| together / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(all_s: impl Fn(f64) -> f64) -> Report {
        let rows = [1, 2, 4, 8].map(|boards| {
            let all_s = all_s(f64::from(boards));
            Row { boards, all_s, median_s: all_s / 2.0, last_s: all_s }
        });
        Report::new("aarch64", rows.to_vec(), vec![])
    }

    #[test]
    fn the_slope_and_the_power_are_those_of_the_points() {
        let linear = report(|boards| 0.5 * boards);
        assert!(linear.slope_s.is_some_and(|slope| (slope - 0.5).abs() < 1e-9));
        assert!(linear.exponent.is_some_and(|exponent| (exponent - 1.0).abs() < 1e-9));
        let quadratic = report(|boards| boards * boards);
        assert!(quadratic.exponent.is_some_and(|exponent| (exponent - 2.0).abs() < 1e-9));
        assert!(quadratic.table().contains("the power 2.00"), "{}", quadratic.table());
        assert_eq!(Report::new("aarch64", vec![], vec![]).slope_s, None);
    }
}
