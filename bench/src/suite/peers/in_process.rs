//! Queues between two threads of one process: Tombolo's ring, and an adapter for queues of other libraries.
//!
//! The near program has both ends. The far program only provides its processor: it reports the one to which
//! it is pinned, sleeps while a thread of the near program does the far half there, and reports how long that
//! took.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use tombolo_base::{LINE_BYTES, SharedMemory};
use tombolo_platform::OsError;
use tombolo_platform::syscall_counter::SyscallCounter;
use tombolo_ring::{Consumer, Producer, RingConfig, RingMemory, SlotCount, SlotSize, Variant};

use crate::cpus;
use crate::sample::{Clock, Samples};
use crate::suite::line::ControlLine;
use crate::suite::work::{Counted, Runner, Work};
use crate::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};
use tombolo_bench_far::placement::RingsEnd;

/// Name of Tombolo's ring between two threads.
pub const NAME: &str = "ring of threads";

/// Capacity of the queue in messages, equal to the slots of Tombolo's rings.
pub const DEPTH: usize = 64;

/// Returns the metrics of a queue between threads.
#[must_use]
pub fn metrics() -> Vec<Metric> {
    let rates = [48, 64].map(|bytes| Metric::Rate { bytes, batch: 1 });
    [48, 64].map(|bytes| Metric::RoundTrip { bytes }).into_iter().chain(rates).collect()
}

/// Opens a peer whose ends `make` creates, the near one first.
///
/// # Errors
/// The error of `make`, or the other side is gone.
pub fn open<E: End + Send + 'static>(
    meeting: &Meeting<'_>,
    make: impl FnOnce() -> Result<(E, E), Error>,
) -> Result<AnyEnd, Error> {
    match meeting.side {
        Side::Near => {
            let (ours, theirs) = ControlLine::pair()?;
            meeting.line.give_fds(&[theirs.as_fd()])?;
            let (near, far) = make()?;
            Ok(AnyEnd::of_runner(BothEnds::start(near, far, ours)?))
        }
        Side::Far => {
            let [line] = meeting.line.take_fds()?;
            Ok(AnyEnd::of_runner(Lender { line: ControlLine::over(line) }))
        }
    }
}

/// Near end, and the thread that runs the far end.
struct BothEnds<E> {
    near: E,
    /// Commands to the thread; `None` tells it to end.
    works: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    /// Time that the thread was runnable but not running, in nanoseconds.
    waited_ns: Arc<AtomicU64>,
}

impl<E: End + Send + 'static> BothEnds<E> {
    fn start(near: E, far: E, line: ControlLine) -> Result<Self, Error> {
        let (works, orders) = channel();
        let waited_ns = Arc::new(AtomicU64::new(0));
        let waited = Arc::clone(&waited_ns);
        let thread = std::thread::Builder::new()
            .name("far half".into())
            .spawn(move || follow_all(far, &line, &orders, &waited))
            .map_err(|error| OsError::from_io("start a thread", &error))?;
        Ok(BothEnds { near, works: Some(works), thread: Some(thread), waited_ns })
    }
}

/// Does the far half of all work, each time on the processor to which the far program is pinned.
fn follow_all<E: End>(mut far: E, line: &ControlLine, works: &Receiver<Work>, waited_ns: &AtomicU64) {
    for work in works {
        let Ok(cpu) = line.recv_message::<usize>() else { return };
        let elapsed_ns = match cpus::pin(cpu) {
            Ok(()) => far.follow(work).map_err(|error| error.to_string()),
            Err(error) => Err(format!("stay on processor {cpu}: {error}")),
        };
        waited_ns.store(cpus::waited_ns().unwrap_or(0), Ordering::Relaxed);
        if line.send_message(&elapsed_ns).is_err() {
            return;
        }
    }
}

impl<E: End> Runner for BothEnds<E> {
    fn lead(&mut self, work: Work, clock: Clock) -> Result<Samples, Error> {
        let sent = self.works.as_ref().is_some_and(|works| works.send(work).is_ok());
        if !sent {
            return Err(Error::Far { what: "has ended".into() });
        }
        self.near.lead(work, clock)
    }

    fn follow(&mut self, _: Work) -> Result<u64, Error> {
        Err(Error::Unsupported)
    }

    fn rings(&self) -> u64 {
        0
    }

    fn waited_ns(&self) -> u64 {
        self.waited_ns.load(Ordering::Relaxed)
    }

    fn count_calls(&mut self, _: Side, _: Counted, _: &SyscallCounter) -> Result<u64, Error> {
        Err(Error::Unsupported)
    }
}

impl<E> Drop for BothEnds<E> {
    fn drop(&mut self) {
        drop(self.works.take());
        // A thread in the middle of a message gives up after its timeout.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Far program's end: the control line to the thread.
struct Lender {
    line: ControlLine,
}

impl Runner for Lender {
    fn lead(&mut self, _: Work, _: Clock) -> Result<Samples, Error> {
        Err(Error::Unsupported)
    }

    fn follow(&mut self, _: Work) -> Result<u64, Error> {
        let allowed = cpus::allowed().map_err(|error| OsError::from_io("look at processors", &error))?;
        let cpu = allowed.first().ok_or_else(|| Error::Far { what: "has no processor".into() })?;
        self.line.send_message(cpu)?;
        self.line.recv_message::<Result<u64, String>>()?.map_err(|what| Error::Far { what })
    }

    fn rings(&self) -> u64 {
        0
    }

    fn count_calls(&mut self, _: Side, _: Counted, _: &SyscallCounter) -> Result<u64, Error> {
        Err(Error::Unsupported)
    }
}

/// One Tombolo ring per direction between two threads.
#[derive(Debug)]
pub struct Threads;

impl Peer for Threads {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        format!("tombolo-ring between two threads of one process: {DEPTH} slots of 64 bytes each way; polled")
    }

    fn metrics(&self) -> Vec<Metric> {
        metrics()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        open(meeting, rings)
    }
}

fn rings() -> Result<(RingsEnd, RingsEnd), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::of_peer(NAME, error);
    let slots = SlotCount::new(DEPTH as u32).map_err(|error| failed(&error))?;
    let config = RingConfig::new(SlotSize::B64, slots, Variant::EpochCredit);
    let ring = || {
        let memory = RingMemory {
            slots: SharedMemory::zeroed(config.slots_bytes()),
            producer_line: SharedMemory::zeroed(LINE_BYTES),
            credit_line: SharedMemory::zeroed(LINE_BYTES),
        };
        let producer = Producer::new(config, memory.clone()).map_err(|error| failed(&error))?;
        Ok::<_, Error>((producer, Consumer::new(config, memory).map_err(|error| failed(&error))?))
    };
    let ((out, into_far), (back, into_near)) = (ring()?, ring()?);
    let end = |producer, consumer| RingsEnd { producer, consumer };
    Ok((end(out, into_near), end(back, into_far)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_half_runs_and_is_timed_on_a_thread() {
        let (ours, theirs) = ControlLine::pair().expect("a pair");
        let (near, far) = rings().expect("memory");
        let mut both = BothEnds::start(near, far, ours).expect("a thread");
        let mut lender = Lender { line: ControlLine::over(theirs) };
        let works = [
            Work::RoundTrips { bytes: 48, warm: 3, cycles: 2 },
            Work::Stream { bytes: 64, batch: 1, warm: 7, messages: 500 },
        ];
        for work in works {
            let elapsed_ns = std::thread::scope(|scope| {
                let follower = scope.spawn(|| lender.follow(work));
                both.lead(work, Clock::calibrate()).expect("an answer");
                follower.join().expect("no panic").expect("it was done")
            });
            assert!(elapsed_ns > 0, "{work:?}");
        }
    }

    #[test]
    fn failing_far_half_reports_its_error() {
        let (ours, theirs) = ControlLine::pair().expect("a pair");
        let (near, far) = rings().expect("memory");
        let both = BothEnds::start(near, far, ours).expect("a thread");
        let works = both.works.as_ref().expect("it listens");
        // A ring moves no bulk data.
        works.send(Work::Bulk { bytes: 4096, warm: 0, messages: 1 }).expect("it listens");
        let mut lender = Lender { line: ControlLine::over(theirs) };
        let failure = lender.follow(Work::Bulk { bytes: 4096, warm: 0, messages: 1 });
        assert!(matches!(failure, Err(Error::Far { .. })), "{failure:?}");
        drop(both);
        let ended = lender.follow(Work::Singles { bytes: 8, rounds: 1 });
        assert!(ended.is_err(), "{ended:?}");
    }
}
