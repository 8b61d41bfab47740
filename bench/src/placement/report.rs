//! The table and the JSON of `tombolo bench placement`.

use serde::{Deserialize, Serialize};
use tombolo::nodes::WindowInfo;
use tombolo_bench_far::placement::Rings;

use super::is_modelled;
use crate::report::BenchReport;
use crate::sample::Latency;
use crate::suite::placement::placed;
use crate::table::{align, cells, missing, significant};

/// Modelled costs of the windows of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Modelled {
    /// Time to read a line of the other node's memory, in ns.
    pub read_ns: u32,
    /// Time to write a line of it, in ns.
    pub line_ns: u32,
}

/// Figures of one placement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Names of the two nodes.
    pub nodes: [String; 2],
    /// Windows that are the memory of the first and of the second node.
    pub windows: [String; 2],
    /// Variant of the ring, by which slots are returned.
    pub variant: String,
    /// Owner of the memory with the slots.
    pub slots: String,
    /// Owner of the memory with the credit.
    pub credit: String,
    /// Modelled costs, if any: then the times are not those of the emulated window.
    pub modelled: Option<Modelled>,
    /// Round trip of a message of 56 bytes, in nanoseconds.
    pub round_trip_ns: Latency,
    /// Median divided by that of the best placement of these nodes and windows.
    pub over_best: f64,
}

impl Row {
    pub(super) fn new(
        nodes: [&String; 2],
        windows: [&WindowInfo; 2],
        rings: Rings,
        round_trip_ns: Latency,
    ) -> Row {
        let place = placed(rings, "", 0.0, None, 0.0);
        let one = windows[0].name == windows[1].name;
        let at = |place: String| if one { format!("in {}", windows[0].name) } else { place };
        let costs = |window: &WindowInfo| Modelled { read_ns: window.read_ns, line_ns: window.line_ns };
        let modelled = windows.into_iter().find(|window| is_modelled(window)).map(costs);
        Row {
            nodes: nodes.map(Clone::clone),
            windows: windows.map(|window| window.name.clone()),
            variant: place.variant,
            slots: at(place.slots),
            credit: at(place.credit),
            modelled,
            round_trip_ns,
            over_best: 1.0,
        }
    }
}

/// Results of all pairs of nodes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Rows by pair of nodes, in the order of measurement.
    pub rows: Vec<Row>,
    /// Measurements that failed, with reasons.
    pub failed: Vec<String>,
}

/// Measurements of the thesis between a host and Xeon Phi cards (S. Gerber, "Virtual memory and bulk data on
/// heterogeneous machines", figures 5.8 and 5.9, table 5.2).
const PAPER: &str = "\
Beside it, what Barrelfish measured on a host with Xeon Phi cards: of all placements, polling a remote receive
buffer and writing a local transmit buffer was best, host to card and card to card. Its round trips took 388
cycles on one node, and 1284 and 1133 cycles (median) across; p99 608, 1906 and 1406.
";

const MODEL: &str = "\
Rows with `modelled` costs are a model: both programs wait as long as the machine file says at each access to a
line that is the other's memory. The time that a posted write travels is left out.
";

impl Report {
    /// Adds the placements of one pair of nodes.
    pub(super) fn add(&mut self, mut rows: Vec<Row>) {
        let p50 = |row: &Row| row.round_trip_ns.p50;
        let medians: Vec<(Vec<String>, f64)> =
            rows.iter().map(|row| (row.windows.to_vec(), p50(row))).collect();
        for row in &mut rows {
            let alike = medians.iter().filter(|(windows, _)| *windows == row.windows).map(|(_, p50)| *p50);
            let best = alike.fold(f64::INFINITY, f64::min);
            if best > 0.0 {
                row.over_best = (p50(row) / best * 1000.0).round() / 1000.0;
            }
        }
        self.rows.extend(rows);
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let heads = ["nodes", "variant", "slots", "credit", "costs", "p50 ns", "p99 ns", "over best"];
        let mut rows = vec![cells(&heads)];
        for row in &self.rows {
            let costs = match row.modelled {
                Some(Modelled { read_ns, line_ns }) => {
                    format!("modelled: read {read_ns} ns, line {line_ns} ns")
                }
                None => "emulated window".to_owned(),
            };
            rows.push(vec![
                row.nodes.join(" - "),
                row.variant.clone(),
                row.slots.clone(),
                row.credit.clone(),
                costs,
                significant(row.round_trip_ns.p50),
                significant(row.round_trip_ns.p99),
                significant(row.over_best),
            ]);
        }
        let mut text = align(&rows);
        text += &missing(&[], &self.failed);
        if self.rows.iter().any(|row| row.modelled.is_some()) {
            text += &format!("\n{MODEL}");
        }
        text + "\n" + PAPER
    }

    fn failures(&self) -> Vec<String> {
        self.failed.clone()
    }
}

#[cfg(test)]
mod tests {
    use tombolo::NodeId;
    use tombolo_bench_far::placement::Rings;

    use super::*;

    fn row(home: u16, read_ns: u32, p50: f64) -> Row {
        let window = |name: &str, home| WindowInfo {
            name: name.into(),
            nodes: vec![NodeId(0), NodeId(1)],
            home: NodeId(home),
            read_ns,
            ..WindowInfo::default()
        };
        let latency = Latency { p50, p99: 2.0 * p50, p999: 3.0 * p50, mean: p50, rounds: 10 };
        let names = ["host", "arm0"].map(str::to_owned);
        let windows = [window("near", 0), window("far", home)];
        Row::new(names.each_ref(), windows.each_ref(), Rings::all()[0], latency)
    }

    #[test]
    fn modelled_rows_are_marked() {
        let mut report = Report::default();
        report.add(vec![row(1, 700, 4000.0), row(1, 700, 2000.0)]);
        assert_eq!(report.rows.iter().map(|row| row.over_best).collect::<Vec<_>>(), [2.0, 1.0]);
        let table = report.table();
        assert_eq!(table.matches("modelled: read 700 ns, line 0 ns").count(), 2, "{table}");
        assert!(table.contains("are a model") && table.contains("388"), "{table}");
        let read: Report = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(read, report);
        let mut report = Report { failed: vec!["host and arm1: no".into()], ..Report::default() };
        report.add(vec![row(1, 0, 1000.0)]);
        let table = report.table();
        assert!(table.contains("emulated window") && !table.contains("model:"), "{table}");
        assert!(table.contains("not measured: host and arm1: no"), "{table}");
    }
}
