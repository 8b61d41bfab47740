//! The comparison, between two processes, for a few milliseconds each: what it takes no monitor to measure.
//!
//! A program of its own, since it starts itself a second time as the far side.

use std::process::ExitCode;
use std::time::Duration;

use tombolo_bench::BenchReport as _;
use tombolo_bench::bulk;
use tombolo_bench::suite::peers::c_ring::CRing;
use tombolo_bench::suite::peers::{bare, kernel, lines, stream};
use tombolo_bench::suite::{
    self, Absent, Distance, Error, Failed, Metric, Options, Peer, Results, Schedule, Unit,
};

fn options(only: &[&str]) -> Options {
    let own = std::env::current_exe().expect("this program");
    Options {
        label: "test".into(),
        schedule: Schedule { slices: 1, slice: Duration::from_millis(1), retries: 0 },
        only: only.iter().map(|name| (*name).to_owned()).collect(),
        pairs: 0,
        placement: true,
        far: vec![own.to_string_lossy().into_owned(), "--far".into()],
    }
}

/// A peer that never opens.
struct Broken;

impl Peer for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn about(&self) -> String {
        "nothing".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::Open]
    }

    fn open(&self, _: &suite::Meeting<'_>, _: Metric) -> Result<suite::AnyEnd, Error> {
        Err(Error::of_peer("broken", "open anything"))
    }
}

/// Rows with a reason in place of a figure on a host that lacks something.
struct Lacking;

impl Peer for Lacking {
    fn name(&self) -> &'static str {
        "lacking"
    }

    fn about(&self) -> String {
        "nothing".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::Open]
    }

    fn absence(&self) -> Option<String> {
        Some("it takes a tool".into())
    }

    fn open(&self, _: &suite::Meeting<'_>, _: Metric) -> Result<suite::AnyEnd, Error> {
        panic!("it is absent")
    }
}

static C_RING: CRing = CRing::new();

static PEERS: [&dyn Peer; 10] = [
    &bare::Lines,
    &C_RING,
    &lines::Stream,
    &kernel::Futex,
    &kernel::EventCounter,
    &stream::Pipe,
    &stream::UnixStream,
    &stream::UnixPackets,
    &Broken,
    &Lacking,
];

/// Some kernels, and emulators, do not let a thread's system calls be counted.
fn uncounted<'a>(results: &'a Results, peer: &dyn Peer, metric: Metric) -> Option<&'a Failed> {
    let refused = |failed: &&Failed| {
        metric == Metric::SystemCalls
            && failed.what.starts_with(peer.name())
            && failed.why.contains("count the system calls")
    };
    results.failed.iter().find(refused)
}

fn every_figure_is_there(results: &Results) {
    for peer in &PEERS[..8] {
        let absent = results.absent.iter().find(|absent| absent.peer == peer.name());
        if let Some(absent) = absent.filter(|_| peer.absence().is_some()) {
            println!("skipped: {}: {}", absent.peer, absent.why);
            continue;
        }
        for metric in peer.metrics() {
            if let Some(failed) = uncounted(results, *peer, metric) {
                println!("skipped: {}: {}", failed.what, failed.why);
                continue;
            }
            let rows: Vec<_> =
                results.rows.iter().filter(|row| row.peer == peer.name() && row.metric == metric).collect();
            assert!(!rows.is_empty(), "{} has no {metric:?}: {:?}", peer.name(), results.absent);
            for row in rows {
                let latency = row.latency_ns.is_some();
                match metric.unit() {
                    Unit::Nanoseconds => assert!(latency || metric == Metric::Open, "{row:?}"),
                    Unit::MessagesPerSecond | Unit::BytesPerSecond => {
                        assert!(row.rate_per_s.is_some(), "{row:?}");
                    }
                    Unit::Share | Unit::Bytes | Unit::PerMessage => assert!(row.value.is_some(), "{row:?}"),
                }
                let by_distance = matches!(metric.unit(), Unit::MessagesPerSecond | Unit::BytesPerSecond)
                    || matches!(metric, Metric::RoundTrip { .. });
                assert_eq!(row.distance == Distance::Any, !by_distance, "{row:?}");
            }
        }
    }
    assert_eq!(results.placement.len(), 8);
    assert!(results.rows.iter().any(|row| row.peer == "memcpy"));
}

/// Bulk transfers by engines and TCP that need no monitor and were not compared above.
fn moving() -> Vec<Box<dyn Peer>> {
    let wanted = [bulk::COPIED, bulk::ATTACHED, bulk::CARRIED, bulk::TCP];
    bulk::peers().into_iter().filter(|peer| wanted.contains(&peer.name())).collect()
}

/// Every engine between two programs, and by itself.
fn bulk_data_is_moved_and_copied() {
    const LONGEST_BYTES: usize = 64 << 10;
    let moving = moving();
    let peers: Vec<&dyn Peer> = moving.iter().map(AsRef::as_ref).collect();
    let options = options(&[]);
    let mut results = bulk::run_up_to(LONGEST_BYTES, &peers, &[], &options, &mut |_| {}).expect("results");
    bulk::add_copies(&mut results, options.schedule, LONGEST_BYTES, &mut |_| {});
    // Some kernels do not let one process copy from another.
    let refused = |failed: &&Failed| failed.what.contains("attach") && failed.why.contains("copying between");
    let failed: Vec<_> = results.failed.iter().filter(|failed| !refused(failed)).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let rows = |peer: &str| results.rows.iter().filter(|row| row.peer == peer).count();
    for peer in [bulk::COPIED, bulk::CARRIED, bulk::TCP] {
        assert!(rows(peer) >= 4, "{peer}: {}", rows(peer));
    }
    for alone in ["loop: best", "loop: words", "engine: caller", "engine: threads-2"] {
        assert_eq!(rows(alone), 4, "{alone}");
    }
    assert!(Results::parse(&results.to_json()) == Ok(results), "a figure is not what was written");
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--far") {
        let moving = moving();
        let peers: Vec<&dyn Peer> = PEERS.iter().copied().chain(moving.iter().map(AsRef::as_ref)).collect();
        return match suite::serve(&peers) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("far side: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let absent = [Absent { peer: "elsewhere".into(), why: "not built".into() }];
    let unknown = suite::run(&PEERS, &absent, &options(&["pipe", "unknown"]), &mut |_| {});
    let Err(Error::UnknownPeer { name, known }) = unknown else { panic!("{unknown:?}") };
    assert_eq!((name.as_str(), known.len()), ("unknown", PEERS.len()));

    let results = match suite::run(&PEERS, &absent, &options(&[]), &mut |_| {}) {
        Err(Error::Ring(tombolo_bench::ring::Error::TooFewCpus { allowed })) => {
            println!("skipped: {allowed} processors are too few");
            return ExitCode::SUCCESS;
        }
        results => results.expect("results"),
    };
    every_figure_is_there(&results);
    let why =
        |name: &str| &results.absent.iter().find(|absent| absent.peer == name).expect("it is absent").why;
    assert_eq!(why("elsewhere"), "not built");
    assert_eq!(why("lacking"), "it takes a tool");
    let broken: Vec<_> = results.failed.iter().filter(|failed| failed.what.starts_with("broken")).collect();
    assert!(matches!(broken.as_slice(), [only] if only.why.contains("cannot open anything")), "{broken:?}");
    assert_eq!(Results::parse(&results.to_json()), Ok(results));
    bulk_data_is_moved_and_copied();
    println!("comparison: every figure is there");
    ExitCode::SUCCESS
}
