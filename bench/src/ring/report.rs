//! Reports, for people and for programs.

use serde::{Deserialize, Serialize};
use tombolo::nodes::NodeInfo;
use tombolo::{Isa, TransportKind};

use super::near::{Figures, typical};
use super::{Error, table};
use crate::host::Host;
use crate::report::BenchReport;
use crate::sample::{Latency, Rate};
use crate::suite::peers::{bare, c_ring};
use crate::suite::{self, Absent, Failed, Metric, Placed};
use crate::target::Bound::AtMost;
use crate::target::Target;

/// Maximum cost of a 48-byte round trip on the host's own link, as a multiple of a round trip of the bare
/// lines.
const TARGET_RATIO: f64 = 1.25;

/// Share of the time that a side may wait for a processor before its figures count as disturbed.
pub const DISTURBED_SHARE: f64 = 0.02;

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Name of the machine.
    pub machine: String,
    /// Host that was measured.
    pub host: Host,
    /// Settings of the measurement.
    pub settings: Settings,
    /// Measured links, the host's own first.
    pub links: Vec<LinkReport>,
    /// Ring in C between two processes of this host, compared with the same limit: the cost of a message
    /// without a channel.
    pub c_ring: Option<LinkReport>,
    /// Links and other measurements that failed.
    pub failed: Vec<Failed>,
    /// Measurements for which this host lacks the tools, with reasons.
    pub absent: Vec<Absent>,
    /// Targets for the host's own link; empty if it was not measured.
    pub targets: Vec<Target>,
}

/// Settings of the measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Settings {
    /// Number of slices per part.
    pub slices: u32,
    /// Length of a slice, in ms.
    pub slice_ms: f64,
    /// Slot size, in bytes.
    pub slot_bytes: usize,
    /// Number of slots per ring.
    pub slots: u32,
    /// Variant of the ring, by which slots are returned.
    pub variant: &'static str,
    /// Cost of reading the clock, in nanoseconds; subtracted from every time.
    pub clock_cost_ns: f64,
    /// Processor of this side; `None` if it was not pinned.
    pub cpu: Option<usize>,
    /// Processor of peers on the same kernel.
    pub peer_cpu: Option<usize>,
}

/// Figures of a link. Round trips are of messages from the first node to the second and back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// Names of the two nodes, joined by a dash.
    pub link: String,
    /// Names of the two nodes.
    pub nodes: [String; 2],
    /// Instruction sets of the two nodes.
    pub isa: [String; 2],
    /// Transport of channels between them.
    pub transport: String,
    /// Round trip of two bare cache lines in the same memory; `None` if no memory is shared.
    pub limit_rtt_ns: Option<Latency>,
    /// Round trip of 48 bytes.
    pub rtt_ns: Option<Latency>,
    /// Round trip of 8 bytes.
    pub rtt_8_ns: Option<Latency>,
    /// Median over slices of `rtt_ns.p50` divided by `limit_rtt_ns.p50` of the slices before and after.
    pub rtt_ratio: Option<f64>,
    /// Ratio of round trips of 8 bytes to the limit.
    pub rtt_8_ratio: Option<f64>,
    /// Rate of 48-byte messages from the first node to the second.
    pub rate_per_s: Option<Rate>,
    /// Rate of 48-byte messages from the second node to the first.
    pub rate_back_per_s: Option<Rate>,
    /// Round trip of 48 bytes when both sides sleep.
    pub wake_rtt_ns: Option<Latency>,
    /// Share of these messages that found the peer asleep and rang its doorbell.
    pub wake_ring_share: Option<f64>,
    /// Share of the time that one of the two programs was runnable but not running: beyond
    /// [`DISTURBED_SHARE`] the figures, especially the tail percentiles, are not the link's.
    pub waited_share: f64,
    /// Number of slices during which the processors were moved; they are excluded from ratios.
    pub moved_slices: usize,
    /// Round trips of a message of one slot by placement of slots and credit; empty if no memory is shared.
    pub placement: Vec<Placed>,
    /// `limit_rtt_ns.p50` of each slice, which shows changes in the distance of the processors.
    pub limit_slices_ns: Vec<f64>,
    /// Ratio to the limit of each slice.
    pub ratio_slices: Vec<f64>,
}

impl Report {
    pub(super) fn new(machine: &str, host: Host, settings: Settings) -> Report {
        let machine = machine.to_owned();
        let (links, failed, absent, targets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Report { machine, host, settings, links, c_ring: None, failed, absent, targets }
    }

    pub(super) fn add(&mut self, own: &str, node: &NodeInfo, transport: TransportKind, figures: &Figures) {
        let isa = [Isa::current().name(), node.isa.name()];
        let link = LinkReport::new([own, &node.name], isa, transport.name(), figures);
        if node.name == own {
            let what = format!("round trip of 48 bytes on {} / limit", link.link);
            let target = |ratio| Target::new(what, AtMost(TARGET_RATIO), Some(ratio), false);
            self.targets.extend(link.rtt_ratio.map(target));
        }
        self.links.push(link);
    }

    pub(super) fn fail(&mut self, node: &str, error: &Error) {
        self.failed.push(Failed::new(node, error));
    }

    /// Adds the ring in C, which was measured in the same run.
    pub(super) fn add_c_ring(&mut self, own: &str, measured: Result<suite::Results, suite::Error>) {
        match measured {
            Ok(results) => {
                self.absent.extend(results.absent.iter().cloned());
                self.failed.extend(results.failed.iter().cloned());
                self.c_ring = LinkReport::of_c_ring(own, &results);
            }
            Err(error) => self.failed.push(Failed::new(c_ring::NAME, &error)),
        }
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        self.failed.iter().map(ToString::to_string).collect()
    }
}

impl LinkReport {
    pub(super) fn new(nodes: [&str; 2], isa: [&str; 2], transport: &str, figures: &Figures) -> LinkReport {
        let wake = figures.wake.summary();
        let link = nodes.join("-");
        let one_memory = match figures.placed.len() {
            0..=2 if transport == "window" => Some("in the window"),
            0..=2 => Some("in the memory of both"),
            _ => None,
        };
        LinkReport {
            placement: figures.placed.iter().map(|placed| placed.to_row(&link, one_memory)).collect(),
            link,
            nodes: nodes.map(str::to_owned),
            isa: isa.map(str::to_owned),
            transport: transport.to_owned(),
            limit_rtt_ns: figures.limit.summary(),
            rtt_ns: figures.usual.summary(),
            rtt_8_ns: figures.small.summary(),
            rtt_ratio: typical(figures.usual_ratios()).map(thousandths),
            rtt_8_ratio: typical(figures.small_ratios()).map(thousandths),
            rate_per_s: figures.out.summary(),
            rate_back_per_s: figures.back.summary(),
            wake_ring_share: wake.map(|wake| thousandths(figures.rings as f64 / wake.rounds as f64)),
            wake_rtt_ns: wake,
            waited_share: thousandths(figures.waited_share),
            moved_slices: figures.moved(),
            limit_slices_ns: figures.limit_slices_ns().into_iter().map(thousandths).collect(),
            ratio_slices: figures.usual_ratios().into_iter().map(thousandths).collect(),
        }
    }
}

impl LinkReport {
    /// Creates the row of the ring in C, or `None` if it was not measured.
    fn of_c_ring(own: &str, results: &suite::Results) -> Option<LinkReport> {
        let row = |peer, metric| results.row(peer, metric);
        let usual = row(c_ring::NAME, Metric::RoundTrip { bytes: 48 })?;
        let limit = row(bare::LINES, Metric::RoundTrip { bytes: 8 });
        let rate = row(c_ring::NAME, Metric::Rate { bytes: 48, batch: 1 });
        Some(LinkReport {
            link: c_ring::NAME.to_owned(),
            nodes: [own, own].map(str::to_owned),
            isa: [Isa::current().name(); 2].map(str::to_owned),
            transport: "memfd".to_owned(),
            limit_rtt_ns: limit.and_then(|row| row.latency_ns),
            rtt_ns: usual.latency_ns,
            rtt_8_ns: None,
            rtt_ratio: usual.probe_ratio,
            rtt_8_ratio: None,
            rate_per_s: rate.and_then(|row| row.rate_per_s),
            rate_back_per_s: None,
            wake_rtt_ns: None,
            wake_ring_share: None,
            waited_share: 0.0,
            moved_slices: usual.moved as usize,
            placement: Vec::new(),
            limit_slices_ns: Vec::new(),
            ratio_slices: Vec::new(),
        })
    }
}

pub(super) fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::ring) fn latency(p50: f64) -> Latency {
        Latency { p50, p99: p50 * 1.5, p999: p50 * 3.0, mean: p50 * 1.1, rounds: 1000 }
    }

    pub(in crate::ring) fn report() -> Report {
        let rate = |p50| Rate { p50, p99: p50 / 2.0, mean: p50, messages: 1_000_000 };
        let link = LinkReport {
            link: "host-arm0".into(),
            nodes: ["host".into(), "arm0".into()],
            isa: ["x86_64".into(), "aarch64".into()],
            transport: "window".into(),
            limit_rtt_ns: Some(latency(100.0)),
            rtt_ns: Some(latency(120.0)),
            rtt_8_ns: Some(latency(110.0)),
            rtt_ratio: Some(1.2),
            rtt_8_ratio: Some(1.1),
            rate_per_s: Some(rate(50e6)),
            rate_back_per_s: Some(rate(40e6)),
            wake_rtt_ns: Some(latency(45_000.0)),
            wake_ring_share: Some(1.0),
            waited_share: 0.0,
            moved_slices: 0,
            placement: Vec::new(),
            limit_slices_ns: vec![100.0, 101.0],
            ratio_slices: vec![1.2],
        };
        let host = Host {
            cpu_model: "Some CPU".into(),
            cores: 2,
            kernel: "6.1".into(),
            caches: Vec::new(),
            memory_nodes: 1,
            virtual_machine: false,
            gpu: None,
        };
        let settings = Settings {
            slices: 1,
            slice_ms: 25.0,
            slot_bytes: 64,
            slots: 256,
            variant: "epoch+credit",
            clock_cost_ns: 20.0,
            cpu: Some(0),
            peer_cpu: Some(1),
        };
        Report {
            machine: "default".into(),
            host,
            settings,
            links: vec![link],
            c_ring: None,
            failed: vec![],
            absent: vec![],
            targets: vec![Target::new("host-host / limit".into(), AtMost(1.25), Some(1.2), false)],
        }
    }

    #[test]
    fn the_json_has_the_keys_that_programs_rely_on() {
        let json: serde_json::Value = serde_json::from_str(&report().to_json()).expect("it is JSON");
        let link = &json["links"][0];
        for key in ["limit_rtt_ns", "rtt_ns", "rtt_8_ns", "wake_rtt_ns"] {
            for part in ["p50", "p99", "p999", "mean", "rounds"] {
                assert!(link[key][part].is_number(), "{key}.{part}");
            }
        }
        for key in ["rate_per_s", "rate_back_per_s"] {
            for part in ["p50", "p99", "mean", "messages"] {
                assert!(link[key][part].is_number(), "{key}.{part}");
            }
        }
        assert_eq!(link["link"], "host-arm0");
        assert_eq!(link["isa"][1], "aarch64");
        assert_eq!(link["transport"], "window");
        assert_eq!(json["host"]["cpu_model"], "Some CPU");
        assert_eq!(json["settings"]["slot_bytes"], 64);
        assert_eq!(json["targets"][0]["verdict"], "met");
    }

    #[test]
    fn no_limit_without_shared_memory() {
        let mut report = report();
        report.links[0].limit_rtt_ns = None;
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("it is JSON");
        assert!(json["links"][0]["limit_rtt_ns"].is_null());
    }
}
