//! Sample results for the tests of this crate and of `tombolo-bench-report`.

use crate::host::Host;
use crate::rpc;
use crate::sample::{Latency, Rate};
use crate::suite::peers::{bare, kernel, tombolo};
use crate::suite::{
    Absent, Arrays, Distance, Failed, Metric, Pair, PeerInfo, Placed, Results, Row, SCHEMA, Settings,
};

fn row(peer: &str, metric: Metric) -> Row {
    Row {
        peer: peer.into(),
        metric,
        route: None,
        distance: if metric.depends_on_distance() { Distance::OneCache } else { Distance::Any },
        slices: 7,
        doubtful: 0,
        moved: 1,
        disturbed: 2,
        probe_ns: if metric.depends_on_distance() { 100.0 } else { 0.0 },
        latency_ns: None,
        probe_ratio: None,
        rate_per_s: None,
        value: None,
        ring_share: 0.0,
    }
}

/// Returns a latency row with this median, in nanoseconds.
#[must_use]
pub fn timed(peer: &str, metric: Metric, p50: f64) -> Row {
    let latency = Latency { p50, p99: 1.5 * p50, p999: 2.5 * p50, mean: p50, rounds: 1000 };
    Row { latency_ns: Some(latency), probe_ratio: Some(p50 / 100.0), ..row(peer, metric) }
}

/// Returns a throughput row with this median, per second.
#[must_use]
pub fn flowing(peer: &str, metric: Metric, p50: f64) -> Row {
    let rate = Rate { p50, p99: 0.5 * p50, mean: p50, messages: 1000 };
    Row { rate_per_s: Some(rate), ..row(peer, metric) }
}

/// Returns the results of a run that meets every target for which it has figures.
#[must_use]
pub fn results(label: &str) -> Results {
    let mut rows = vec![
        timed(bare::LINES, Metric::RoundTrip { bytes: 8 }, 100.0),
        timed(tombolo::NAME, Metric::RoundTrip { bytes: 56 }, 105.0),
        timed(tombolo::NAME, Metric::RoundTrip { bytes: 64 }, 108.0),
        timed(tombolo::WIDE, Metric::RoundTrip { bytes: 64 }, 109.0),
        timed("iceoryx2", Metric::RoundTrip { bytes: 64 }, 460.0),
        timed("Aeron IPC", Metric::RoundTrip { bytes: 64 }, 108.0),
        timed(rpc::RINGS, Metric::Call { bytes: 0 }, 100.0),
        timed(rpc::CALLS, Metric::Call { bytes: 0 }, 125.0),
        timed(tombolo::NAME, Metric::WakeUp, 44_000.0),
        timed(kernel::FUTEX, Metric::WakeUp, 40_000.0),
        flowing(tombolo::NAME, Metric::Rate { bytes: 56, batch: 1 }, 55e6),
        flowing(tombolo::DEEP, Metric::Rate { bytes: 56, batch: 32 }, 260e6),
        Row { value: Some(0.003), ..row(tombolo::NAME, Metric::Idle) },
        Row { value: Some(0.0), ..row(tombolo::NAME, Metric::SystemCalls) },
    ];
    for metric in Metric::BANDWIDTHS {
        rows.push(flowing(tombolo::NAME, metric, 30e9));
        rows.push(flowing(bare::BUFFERS, metric, 33e9));
    }
    let latency = Some(Latency { p50: 110.0, p99: 120.0, p999: 200.0, mean: 111.0, rounds: 10 });
    Results {
        schema: SCHEMA,
        label: label.into(),
        taken_at: 1_795_275_248,
        version: "0.1.0".into(),
        host: Host {
            cpu_model: "Some <CPU>".into(),
            cores: 2,
            kernel: "6.1".into(),
            caches: Vec::new(),
            memory_nodes: 1,
            virtual_machine: true,
            gpu: None,
        },
        settings: Settings { slices: 7, slice_ms: 20.0, clock_cost_ns: 20.0, cpus: [0, 1], sharing: None },
        peers: vec![PeerInfo { name: tombolo::NAME.into(), about: "this".into() }],
        absent: vec![Absent { peer: "ZeroMQ".into(), why: "it was not built".into() }],
        rows,
        pairs: vec![Pair { near: 0, far: 1, probe_ns: 100.0, round_trip_ns: 105.0, ratio: 1.05 }],
        placement: vec![Placed {
            link: "host-host".into(),
            variant: "used flag".into(),
            slots: "at the sender".into(),
            credit: "at the receiver".into(),
            limit_ns: 100.0,
            round_trip_ns: latency,
            ratio: Some(1.1),
        }],
        links: Vec::new(),
        distribution: None,
        arrays: None,
        openmp: None,
        failed: vec![Failed::new("pipe: time to open a channel", &"no descriptors left")],
    }
}

/// Returns results of `bench/python/array_transfer.py` in which one peer is absent.
///
/// # Panics
/// Never: the text is valid.
#[must_use]
pub fn arrays() -> Arrays {
    serde_json::from_str(
        r#"{ "about": { "python": "3.11.2", "numpy": null, "bytes": 16777216, "rounds": 300 },
             "latency_ns": {
               "Tombolo pool": { "one copy": { "p50": 600000, "p99": 700000.5, "mean": 1, "least": 5, "most": 9 },
                                 "no copy": { "p50": 12000, "p99": 15000, "mean": 12100.0 } },
               "Ray": "not installed" },
             "aims": [] }"#,
    )
    .expect("what the program writes")
}
