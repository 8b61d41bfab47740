//! Reports, for people and for programs.

use serde::Serialize;

use crate::host::Host;
use crate::report::BenchReport;
use crate::sample::Ordered;
use crate::table::align;

/// Percentiles of times, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Percentiles {
    /// Number of times measured.
    pub rounds: usize,
    /// Median of the times.
    pub p50: u64,
    /// 99th percentile of the times.
    pub p99: u64,
}

impl Percentiles {
    pub(super) fn of(times_ns: Vec<u64>) -> Percentiles {
        let (rounds, times) = (times_ns.len(), Ordered::new(times_ns));
        Percentiles { rounds, p50: times.at(0.5), p99: times.at(0.99) }
    }
}

/// Figures of a design with a number of idle channels.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Name of the design.
    pub design: String,
    /// Number of idle channels beside the busy one.
    pub idle: usize,
    /// Latency from sending to receipt by a sleeping side.
    pub wake_ns: Percentiles,
    /// Processor time of the sleeping side per message.
    pub cpu_per_wake_ns: f64,
    /// Round trip between two sides that are awake.
    pub echo_ns: Percentiles,
    /// Average time to open a channel, in ns; only for the waitset.
    pub open_ns: Option<u64>,
    /// Share of the time that the waiting side was runnable but not running.
    pub waited_share: f64,
}

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Host that was measured.
    pub host: Host,
    /// Rows by number of idle channels, then by design.
    pub rows: Vec<Row>,
}

/// Share of the time that a side may wait for a processor before its figures count as disturbed.
const DISTURBED_SHARE: f64 = 0.02;

impl Report {
    pub(super) fn new(host: Host, rows: Vec<Row>) -> Report {
        Report { host, rows }
    }

    /// Returns how much slower the waitset is with the most idle channels than with the fewest: for wake-ups,
    /// and for round trips while awake.
    #[must_use]
    pub fn growth(&self) -> Option<(f64, f64)> {
        let mut own = self.rows.iter().filter(|row| row.design == super::Design::Channels.name());
        let (first, last) = (own.next()?, own.next_back()?);
        let ratio = |of: fn(&Row) -> u64| of(last) as f64 / of(first).max(1) as f64;
        Some((ratio(|row| row.wake_ns.p50), ratio(|row| row.echo_ns.p50)))
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut text = format!("{}\n\n", self.host);
        let heads = ["", "", "woken, µs", "", "processor", "round trip awake, µs", "", "waited for a"];
        let names = ["idle", "design", "p50", "p99", "µs a wake", "p50", "p99", "processor, %"];
        let mut lines = vec![heads.map(str::to_owned).to_vec(), names.map(str::to_owned).to_vec()];
        let micros = |ns: u64| format!("{:.2}", ns as f64 / 1000.0);
        for row in &self.rows {
            lines.push(vec![
                row.idle.to_string(),
                row.design.clone(),
                micros(row.wake_ns.p50),
                micros(row.wake_ns.p99),
                micros(row.cpu_per_wake_ns as u64),
                micros(row.echo_ns.p50),
                micros(row.echo_ns.p99),
                format!("{:.1}", row.waited_share * 100.0),
            ]);
        }
        text += &align(&lines);
        if let Some((wake, echo)) = self.growth() {
            text += &format!(
                "\nfrom the fewest to the most idle channels the waitset's wake-up takes {wake:.2} times as long, \
                 its round trip {echo:.2} times\n"
            );
        }
        if self.rows.iter().any(|row| row.waited_share > DISTURBED_SHARE) {
            text += "disturbed: something else ran on the processors that were measured on\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(idle: usize, wake_ns: u64) -> Row {
        let of = |p50| Percentiles { rounds: 5, p50, p99: 2 * p50 };
        Row {
            design: "waitset".into(),
            idle,
            wake_ns: of(wake_ns),
            cpu_per_wake_ns: 1_500.0,
            echo_ns: of(500),
            open_ns: Some(70_000),
            waited_share: 0.0,
        }
    }

    #[test]
    fn percentiles_of_few_samples() {
        assert_eq!(Percentiles::of((0..100).rev().collect()), Percentiles { rounds: 100, p50: 50, p99: 99 });
        assert_eq!(Percentiles::of(vec![7]), Percentiles { rounds: 1, p50: 7, p99: 7 });
        assert_eq!(Percentiles::of(vec![]), Percentiles { rounds: 0, p50: 0, p99: 0 });
    }

    #[test]
    fn growth_is_from_the_fewest_to_the_most() {
        let report = Report::new(Host::describe(), vec![row(1, 4_000), row(10, 9_000), row(100, 6_000)]);
        assert_eq!(report.growth(), Some((1.5, 1.0)));
        assert!(report.table().contains("1.50 times"), "{}", report.table());
        assert!(report.to_json().contains("\"cpu_per_wake_ns\": 1500.0"));
        assert_eq!(Report::new(Host::describe(), vec![]).growth(), None);
    }
}
