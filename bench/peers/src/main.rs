//! Peers with external dependencies. `tombolo bench all`, `bench rpc` and `bench bulk` run this program if it
//! is in the same folder.
//!
//! `all LABEL FILE` measures everything by itself, on a host on which only `tombolod` is installed beside
//! this program, and writes the results to the file, like `tombolo bench all --json FILE`. For `tombolo bench
//! all`, `run OPTIONS` measures and writes the results to standard output, or one line with the reason of a
//! failure; `rpc OPTIONS` and `bulk OPTIONS` do the same for their benchmarks. `far` is the far side, which
//! the near side starts. `hub COUNT` is for `tombolo bench hub`, and `hub-far` is its other side.

#[cfg(feature = "aeron")]
mod aeron;
#[cfg(any(feature = "capnproto", feature = "grpc"))]
mod answering;
#[cfg(feature = "capnproto")]
mod capnproto;
#[cfg(feature = "capnproto")]
#[allow(warnings, reason = "written by capnpc from interfaces/echo.capnp")]
#[path = "generated/echo_capnp.rs.in"]
#[rustfmt::skip]
mod echo_capnp;
#[cfg(feature = "grpc")]
#[allow(warnings, reason = "written by tonic-prost-build from interfaces/echo.proto")]
#[path = "generated/echo_grpc.rs.in"]
#[rustfmt::skip]
mod echo_grpc;
#[cfg(feature = "grpc")]
mod grpc;
mod hubs;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
#[cfg(feature = "threads")]
mod threads;
#[cfg(feature = "zeromq")]
mod zeromq;

use std::path::Path;
use std::process::ExitCode;

use tombolo_bench::BenchReport as _;
use tombolo_bench::suite::{self, Absent, Options, Peer, Results, Schedule, peers};
use tombolo_bench::{bulk, rpc};

/// Returns the peers that call and answer.
fn call_peers() -> Vec<Box<dyn Peer>> {
    let mut calling = rpc::peers();
    #[cfg(feature = "capnproto")]
    calling.push(Box::new(capnproto::Calls));
    #[cfg(feature = "grpc")]
    calling.push(Box::new(grpc::Calls));
    calling
}

/// Returns the peers that move bulk data.
fn bulk_peers() -> Vec<Box<dyn Peer>> {
    let mut moving = bulk::peers();
    #[cfg(feature = "iceoryx2")]
    moving.extend(
        iceoryx::PublishSubscribe::SETTINGS.into_iter().map(|setting| Box::new(setting) as Box<dyn Peer>),
    );
    moving
}

fn all() -> Vec<Box<dyn Peer>> {
    let mut all = peers::all();
    #[cfg(feature = "iceoryx2")]
    all.extend([
        Box::new(iceoryx::PublishSubscribe::DEFAULT_SETTING) as Box<dyn Peer>,
        Box::new(iceoryx::Events),
    ]);
    #[cfg(feature = "zeromq")]
    all.push(Box::new(zeromq::Pairs));
    #[cfg(feature = "aeron")]
    all.push(Box::new(aeron::Ipc));
    #[cfg(feature = "threads")]
    all.extend([Box::new(threads::Rtrb) as Box<dyn Peer>, Box::new(threads::Crossbeam)]);
    all.extend(call_peers());
    all
}

/// Creates the entry of a peer that this program was built without.
fn without(peer: &str, needs: &str) -> Absent {
    let why = format!("this program was built without it: it needs {needs} (`make bench-peers`)");
    Absent { peer: peer.into(), why }
}

fn absent_calling() -> Vec<Absent> {
    let built = [cfg!(feature = "capnproto"), cfg!(feature = "grpc")];
    let absent = rpc::FOREIGN.into_iter().zip(built).filter(|(_, built)| !built);
    absent.map(|(peer, _)| without(peer, "nothing but its feature")).collect()
}

fn absent_moving() -> Vec<Absent> {
    if cfg!(feature = "iceoryx2") { Vec::new() } else { vec![without("iceoryx2", "libclang")] }
}

fn absent() -> Vec<Absent> {
    let mut absent = absent_calling();
    if cfg!(not(feature = "iceoryx2")) {
        absent.push(without("iceoryx2", "libclang"));
    }
    if cfg!(not(feature = "zeromq")) {
        absent.push(without("ZeroMQ", "a C++ compiler"));
    }
    if cfg!(not(feature = "aeron")) {
        absent.push(without("Aeron IPC", "CMake 3.30, libclang, libbsd and libuuid"));
    }
    if cfg!(not(feature = "threads")) {
        absent.extend(["rtrb", "crossbeam"].map(|peer| without(peer, "nothing but its feature")));
    }
    absent
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run", options] => finish(run(options, measure)),
        ["rpc", options] => finish(run(options, measure_calls)),
        ["bulk", options] => finish(run(options, measure_bulk)),
        ["all", label, file] => finish(measure_all(label, Path::new(file))),
        ["far"] => finish(serve()),
        ["hub", count] => finish(count_of(count).map(|count| println!("{}", hubs::measure(count)))),
        ["hub-far", role, name, count] => {
            finish(count_of(count).and_then(|count| Ok(hubs::far(role, name, count)?)))
        }
        _ => {
            eprintln!(
                "usage: tombolo-bench-peers all LABEL FILE\n\
                 (its other arguments are those with which `tombolo bench` starts it)"
            );
            ExitCode::from(2)
        }
    }
}

/// Reason why this program exits without figures.
struct Why {
    text: String,
    /// Exit status: 2 for wrong usage, such as an unknown peer.
    status: u8,
}

impl From<String> for Why {
    fn from(text: String) -> Why {
        Why { text, status: 1 }
    }
}

impl From<suite::Error> for Why {
    fn from(error: suite::Error) -> Why {
        let status = if matches!(error, suite::Error::UnknownPeer { .. }) { 2 } else { 1 };
        Why { text: error.to_string(), status }
    }
}

fn finish(result: Result<(), Why>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Why { text, status }) => {
            println!("{text}");
            ExitCode::from(status)
        }
    }
}

fn count_of(text: &str) -> Result<u64, Why> {
    text.parse().map_err(|_| Why { text: format!("'{text}' is not a count"), status: 2 })
}

fn run(options: &str, measure: impl FnOnce(Options) -> Result<Results, Why>) -> Result<(), Why> {
    let options: Options = serde_json::from_str(options).map_err(|error| format!("no options: {error}"))?;
    print!("{}", measure(options)?.to_json());
    Ok(())
}

/// Measures everything that does not require a machine.
fn measure_all(label: &str, file: &Path) -> Result<(), Why> {
    let options = Options {
        label: label.to_owned(),
        schedule: Schedule::default(),
        only: Vec::new(),
        pairs: 16,
        placement: true,
        far: Vec::new(),
    };
    let results = measure(options)?;
    std::fs::write(file, results.to_json()).map_err(|error| format!("{}: {error}", file.display()))?;
    print!("{}", results.table());
    Ok(())
}

fn measure(options: Options) -> Result<Results, Why> {
    let all = all();
    measure_with_progress(options, |options, progress| {
        suite::run(&as_refs(&all), &absent(), options, progress)
    })
}

fn measure_calls(options: Options) -> Result<Results, Why> {
    let calling = call_peers();
    measure_with_progress(options, |options, progress| {
        rpc::run(&as_refs(&calling), &absent_calling(), options, progress)
    })
}

fn measure_bulk(options: Options) -> Result<Results, Why> {
    let moving = bulk_peers();
    measure_with_progress(options, |options, progress| {
        bulk::run(&as_refs(&moving), &absent_moving(), options, progress)
    })
}

/// Runs the far side of all peers.
fn serve() -> Result<(), Why> {
    let mut known = all();
    known.extend(bulk_peers());
    Ok(suite::serve(&as_refs(&known))?)
}

fn as_refs(peers: &[Box<dyn Peer>]) -> Vec<&dyn Peer> {
    peers.iter().map(AsRef::as_ref).collect()
}

/// Measures with this program as the far side, and prints progress.
fn measure_with_progress(
    options: Options,
    measure: impl FnOnce(&Options, &mut dyn FnMut(&str)) -> Result<Results, suite::Error>,
) -> Result<Results, Why> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find itself: {error}"))?;
    let far = vec![own.to_string_lossy().into_owned(), "far".into()];
    #[cfg(feature = "iceoryx2")]
    iceoryx::sweep();
    let results = measure(&Options { far, ..options }, &mut |line| eprint!("\r\x1b[K{line}"));
    // All far sides have exited.
    #[cfg(feature = "iceoryx2")]
    iceoryx::sweep();
    eprint!("\r\x1b[K");
    Ok(results?)
}
