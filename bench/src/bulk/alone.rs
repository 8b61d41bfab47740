//! Cost of a copy by one program, for each engine and copy loop.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tombolo_copies::engines::{Engine, ForeignProcess, Location, Request, SharedMemory};
use tombolo_engine::attach::Attach;
use tombolo_engine::cpu::{Caller, Threads};
use tombolo_engine::finish;
use tombolo_platform::copy::attach::address_of;
use tombolo_platform::copy::{self, CopyLoop};
use tombolo_platform::memory::{create_sealed, map};

use super::{device, latency, row};
use crate::sample::Latency;
use crate::suite::{Error, Failed, Metric, Results, Row, Schedule, peers};

/// Timeout of one copy.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Adds a row for every engine and copy loop, for every length up to `longest_bytes`. Allocates twice as much
/// memory.
pub fn add(results: &mut Results, schedule: Schedule, longest_bytes: usize, progress: &mut dyn FnMut(&str)) {
    let lengths = || Metric::COPIES_BYTES.into_iter().filter(|bytes| *bytes <= longest_bytes);
    progress("copies by one program: memcpy");
    let (source, mut target) = (vec![1_u8; longest_bytes], vec![2_u8; longest_bytes]);
    for bytes in lengths() {
        let copy = || {
            black_box(&mut target[..bytes]).copy_from_slice(black_box(&source[..bytes]));
            Ok(())
        };
        keep(results, peers::copying::NAME, bytes, times(schedule, copy));
    }
    // Frees the first memories before allocating the next: together they would take a gigabyte.
    drop((source, target));
    let memory = match Memory::new(longest_bytes) {
        Ok(memory) => memory,
        Err(error) => return results.failed.push(Failed::new("copies by one program", &error)),
    };
    for how in CopyLoop::available() {
        let name = format!("loop: {how}");
        progress(&format!("copies by one program: {name}"));
        for bytes in lengths() {
            let copy =
                || copy::between(*how, (&memory.source, 0), (&memory.target, 0), bytes).map_err(no_room);
            keep(results, &name, bytes, times(schedule, copy));
        }
    }
    for (name, engine) in engines() {
        progress(&format!("copies by one program: {name}"));
        match engine {
            Ok(mut engine) => of_engine(results, &name, engine.as_mut(), &memory, (schedule, lengths())),
            Err(error) => results.failed.push(Failed::new(name, &error)),
        }
    }
    device::add(results, schedule, (&memory, lengths()), progress);
}

type Started = Result<Box<dyn Engine>, Error>;

fn engines() -> Vec<(String, Started)> {
    let boxed = |engine: Result<Threads, _>| -> Started { Ok(Box::new(engine?)) };
    vec![
        ("engine: caller".into(), Ok(Box::new(Caller::new(CopyLoop::Best, 1)) as Box<dyn Engine>)),
        ("engine: threads-1".into(), boxed(Threads::start(CopyLoop::Best, 1, 1))),
        ("engine: threads-2".into(), boxed(Threads::start(CopyLoop::Best, 2, 1))),
        (
            "engine: attach".into(),
            Attach::start(1).map(|engine| Box::new(engine) as Box<dyn Engine>).map_err(Into::into),
        ),
    ]
}

/// Two memories, and the first again as if it belonged to another process: the kernel does the same work.
pub(super) struct Memory {
    pub(super) source: SharedMemory,
    target: SharedMemory,
    process: Arc<ForeignProcess>,
    address: u64,
}

impl Memory {
    fn new(longest_bytes: usize) -> Result<Memory, Error> {
        let file = create_sealed("tombolo-bench-copies", 2 * longest_bytes as u64)?;
        let both = map(&file, 0, 2 * longest_bytes)?;
        // Touches every page before the measurement.
        copy::fill(&both, 0, 2 * longest_bytes, 1).map_err(no_room)?;
        let half = |at| both.slice(at, longest_bytes).map_err(|_| Error::Unsupported);
        let (source, target) = (half(0)?, half(longest_bytes)?);
        let pid = i32::try_from(std::process::id()).map_err(|_| Error::Unsupported)?;
        let process = Arc::new(ForeignProcess::open(pid)?);
        let address = address_of(&source, 0).map_err(no_room)?;
        Ok(Memory { source, target, process, address })
    }
}

fn no_room(_: copy::CopyError) -> Error {
    Error::Unsupported
}

fn of_engine(
    results: &mut Results,
    name: &str,
    engine: &mut dyn Engine,
    memory: &Memory,
    (schedule, lengths): (Schedule, impl Iterator<Item = usize>),
) {
    let target = Location::mapped(&memory.target);
    let other = Location::Process { process: Arc::clone(&memory.process), address: memory.address };
    let mapped = Request::copy(Location::mapped(&memory.source), target.clone(), 0);
    let foreign = Request::copy(other, target, 0);
    let request = if engine.check(&mapped).is_ok() { mapped } else { foreign };
    for bytes in lengths {
        let found = times_of_engine(engine, &request, bytes, schedule);
        let failed = found.is_err();
        keep(results, name, bytes, found);
        if failed {
            return;
        }
    }
}

/// Measures a request of `bytes` from its submission to its completion.
pub(super) fn times_of_engine(
    engine: &mut dyn Engine,
    request: &Request,
    bytes: usize,
    schedule: Schedule,
) -> Result<Latency, Error> {
    let request = Request { length_bytes: bytes as u64, ..request.clone() };
    let failed = |what: String| Error::Far { what };
    times(schedule, || {
        engine.submit(request.clone()).map_err(|rejected| failed(rejected.to_string()))?;
        let completion = finish(engine, TIMEOUT)?.ok_or_else(|| failed("was too slow".into()))?;
        completion.result.map_err(|failure| failed(failure.to_string()))
    })
}

pub(super) fn keep(results: &mut Results, name: &str, bytes: usize, found: Result<Latency, Error>) {
    let metric = Metric::Copy { bytes };
    match found {
        Ok(latency) => results.rows.push(Row { latency_ns: Some(latency), ..row(name, metric) }),
        Err(error) => results.failed.push(Failed::new(format!("{name}: {}", metric.title()), &error)),
    }
}

/// Minimum time of the runs that are timed together, so that the cost of the clock is negligible.
const BATCH_NS: u128 = 2_000;

/// Times a run, for as long as the slices of the schedule together, but at least three times.
pub(super) fn times(
    schedule: Schedule,
    mut run: impl FnMut() -> Result<(), Error>,
) -> Result<Latency, Error> {
    run()?;
    let once = Instant::now();
    run()?;
    let batch = (BATCH_NS / once.elapsed().as_nanos().max(1) + 1).min(100) as u32;
    let (start, length) = (Instant::now(), schedule.slice * schedule.slices);
    let mut times_ns = Vec::new();
    while times_ns.len() < 3 || (start.elapsed() < length && times_ns.len() < 1_000_000) {
        let began = Instant::now();
        for _ in 0..batch {
            run()?;
        }
        times_ns.push(began.elapsed().as_nanos() as f64 / f64::from(batch));
    }
    Ok(latency(times_ns, u64::from(batch)))
}
