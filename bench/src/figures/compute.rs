//! Computing speed of nodes: additions per second of one processor (thesis, table 5.3).

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tombolo::Domain;
use tombolo::nodes::NodeInfo;

use super::{Failed, Peers, Thesis, failures, gather, nodes, row, thesis_table};
use crate::host::Host;
use crate::report::BenchReport;
use crate::ring::Error;
use crate::table::{align, cells, none, significant};

/// Additions per second of one core in the thesis, in millions.
pub const THESIS: [Thesis; 3] = [
    row("integers", Some(3309.0), Some(1044.0)),
    row("vectors of 32-bit integers", Some(12_375.0), Some(4196.0)),
    row("vectors of 64-bit integers", Some(2781.0), Some(2088.0)),
];

/// Rates of additions of one node.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Name of the node.
    pub node: String,
    /// Instruction set of the node.
    pub isa: &'static str,
    /// Additions of 32-bit integers per second.
    pub add32_per_s: f64,
    /// Additions of 64-bit integers per second.
    pub add64_per_s: f64,
    /// Additions of 32-bit integers per second with vectors, if supported.
    pub vector32_per_s: Option<f64>,
    /// Additions of 64-bit integers per second with vectors, if supported.
    pub vector64_per_s: Option<f64>,
}

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Host that was measured.
    pub host: Host,
    /// One row per node.
    pub rows: Vec<Row>,
    /// Measurements that failed, with reasons.
    pub failed: Vec<Failed>,
    /// Figures of the thesis.
    pub thesis: [Thesis; 3],
}

/// Measures the named nodes, or all that are up if none are named.
///
/// # Errors
/// An unknown node, or one that is down; a node that fails is reported in the result.
pub fn run(
    (domain, image): (&Domain, &Path),
    wanted: &[String],
    slice: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    let peers = Peers::new(domain, image)?;
    let name = |node: &NodeInfo| format!("additions of {}", node.name);
    let (rows, failed) = gather(nodes(domain, wanted)?, name, progress, |node| {
        let figures = peers.run(&node.name, &["compute".to_owned(), slice.as_millis().to_string()])?;
        let figure = |name: &str| figures.get(name).copied();
        Ok::<_, Error>(Row {
            node: node.name,
            isa: node.isa.name(),
            add32_per_s: figure("add32").unwrap_or(0.0),
            add64_per_s: figure("add64").unwrap_or(0.0),
            vector32_per_s: figure("vector32"),
            vector64_per_s: figure("vector64"),
        })
    });
    Ok(Report { host: Host::describe(), rows, failed, thesis: THESIS })
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let millions = |rate: Option<f64>| rate.map_or_else(none, |rate| significant(rate / 1e6));
        let mut lines = vec![cells(&["node", "isa", "add32", "add64", "vector32", "vector64"])];
        lines.extend(self.rows.iter().map(|row| {
            let rates =
                [Some(row.add32_per_s), Some(row.add64_per_s), row.vector32_per_s, row.vector64_per_s];
            [row.node.clone(), row.isa.to_owned()].into_iter().chain(rates.map(millions)).collect()
        }));
        let title = "Integers added per second by one processor, in millions (medians)";
        let thesis =
            thesis_table("Thesis, table 5.3: one core of a Xeon E5 v2 and of a Xeon Phi, millions", &THESIS);
        format!("{title}\n\n{}{}{thesis}", align(&lines), failures(&self.failed))
    }

    fn failures(&self) -> Vec<String> {
        self.failed.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_vectors_has_none() {
        let row = Row {
            node: "r".into(),
            isa: "riscv64",
            add32_per_s: 1.5e9,
            add64_per_s: 1e9,
            vector32_per_s: None,
            vector64_per_s: None,
        };
        let report = Report { host: Host::describe(), rows: vec![row], failed: vec![], thesis: THESIS };
        let text = report.table();
        assert!(text.contains("r     riscv64   1500   1000         -         -"), "{text}");
        assert!(text.contains("12375") && report.to_json().contains("\"vector32_per_s\": null"), "{text}");
    }
}
