//! The core of the measurement, between two processes and over shared memory, without a monitor.
//!
//! Given the name of a socket this program is the far side; otherwise it starts itself as that and measures.
//! `cargo test` runs it for a few milliseconds; `cargo test --release --test two_processes -- --slices 20`
//! prints figures worth looking at.

use std::os::fd::OwnedFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use tombolo::Error;
use tombolo_bench::cpus;
use tombolo_bench::ring::{End, Ends, LinkReport, Schedule, measure_ends, peer};
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::{Deadline, socket};
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, EndError, MemoryChannel, Transport, TransportExt, shm};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A channel without a façade.
struct Bare {
    channel: MemoryChannel,
    spin: Spin,
}

fn of_channel(error: ChannelError) -> Error {
    Error::MonitorProtocol(error.to_string())
}

fn of_end(error: EndError) -> Error {
    match error {
        EndError::Full => Error::WouldBlock,
        error => Error::MonitorProtocol(error.to_string()),
    }
}

impl End for Bare {
    #[inline(always)]
    fn try_send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.channel.try_send(message).map_err(of_end)
    }

    #[inline(always)]
    fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        self.channel.try_recv_into(buffer).map_err(of_end)
    }

    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), Error> {
        wait::send(&mut self.channel, &mut self.spin, message, timeout).map_err(of_channel)
    }

    fn recv_into(&mut self, buffer: &mut Vec<u8>, timeout: Duration) -> Result<usize, Error> {
        wait::recv_into(&mut self.channel, &mut self.spin, buffer, timeout).map_err(of_channel)
    }

    fn rings(&self) -> u64 {
        self.channel.stats().rings
    }
}

/// Opens the three channels of a link in the order in which both sides do.
fn open(mut next: impl FnMut() -> MemoryChannel) -> Ends<Bare> {
    let ring = Bare { channel: next(), spin: Spin::default() };
    let raw = Some(next().into_raw_memory());
    let wake = Bare { channel: next(), spin: Spin::new(0) };
    Ends { ring, raw, own: None, wake }
}

fn hello() -> Hello {
    Hello::new(ChannelConfig::default(), 0, None)
}

fn deadline() -> Deadline {
    Deadline::after(TIMEOUT)
}

fn far_side(name: &str) {
    if let Some((_, cpu)) = cpus::allowed().ok().and_then(|allowed| cpus::pair(&allowed)) {
        cpus::pin(cpu).expect("an allowed processor");
    }
    let mut ends = open(|| {
        let socket = socket::connect(name).expect("the near side listens");
        shm::connect(socket, hello(), deadline()).expect("a channel")
    });
    peer::serve(&mut ends).expect("a measurement to the end");
}

fn accept(listener: &OwnedFd) -> OwnedFd {
    let deadline = deadline();
    loop {
        if let Some(socket) = socket::accept(listener).expect("a connection") {
            return socket;
        }
        assert!(!deadline.passed(), "the far side does not connect");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn measure(schedule: &Schedule) -> LinkReport {
    let name = format!("tombolo-bench-test/{}", std::process::id());
    let listener = socket::listen(&name).expect("a free name");
    let program = std::env::current_exe().expect("this program");
    let mut far =
        Command::new(program).arg("--far").arg(&name).stdin(Stdio::null()).spawn().expect("a second process");
    let pair = cpus::allowed().ok().and_then(|allowed| cpus::pair(&allowed));
    let _pinned = pair.map(|(cpu, _)| cpus::Pinned::to(cpu).expect("an allowed processor"));
    let mut ends = open(|| shm::accept(accept(&listener), hello(), deadline()).expect("a channel"));
    let report = measure_ends(&mut ends, schedule, &mut |_| {}).expect("a measurement");
    assert!(far.wait().expect("the far side ends").success());
    report
}

fn check(report: &LinkReport) {
    for latency in [report.limit_rtt_ns, report.rtt_ns, report.rtt_8_ns, report.wake_rtt_ns] {
        let latency = latency.expect("it was measured");
        assert!(latency.rounds > 0 && latency.p50 > 0.0 && latency.p999 >= latency.p99, "{latency:?}");
    }
    for rate in [report.rate_per_s, report.rate_back_per_s] {
        let rate = rate.expect("it was measured");
        assert!(rate.messages > 0 && rate.p50 > 0.0, "{rate:?}");
    }
    assert!(report.rtt_ratio.is_some() && report.rtt_8_ratio.is_some());
    // Nearly every message finds its receiver asleep; not all, for a slow sender's answer may come first.
    assert!(report.wake_ring_share.is_some_and(|share| share > 0.0), "{:?}", report.wake_ring_share);
    // One memory for both: the two variants.
    assert_eq!(report.placement.len(), 2);
    assert!(report.placement.iter().all(|placed| placed.round_trip_ns.is_some_and(|it| it.p50 > 0.0)));
    let taken = report.limit_slices_ns.len() / 2;
    assert!((1..=taken).contains(&report.ratio_slices.len()), "{report:?}");
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value_of = |key: &str| {
        let index = arguments.iter().position(|argument| argument == key)?;
        arguments.get(index + 1).cloned()
    };
    if let Some(name) = value_of("--far") {
        far_side(&name);
        return ExitCode::SUCCESS;
    }
    let slices = value_of("--slices").map(|slices| slices.parse().expect("a number of slices"));
    let schedule = match slices {
        Some(slices) => Schedule { slices, ..Schedule::default() },
        None => Schedule { slices: 2, slice: Duration::from_millis(3) },
    };
    let report = measure(&schedule);
    check(&report);
    println!("{report:#?}");
    ExitCode::SUCCESS
}
