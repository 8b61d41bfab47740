//! Cost of messages between two ranks, one on each node, in the tests of Popcorn's message layer: round trips
//! of a page by direct stores and by an engine, also at a real-time priority; many messages over several
//! channels; and overload, with more messages at once than are answered (Saya, "Efficient inter-kernel
//! communication in a heterogeneous multikernel operating system", 3.4).

use std::sync::Arc;
use std::time::{Duration, Instant};

use tombolo::bulk::{BulkOptions, PoolOptions};
use tombolo::latency::{LatencyOptions, Scheduling};
use tombolo::{BulkChannel, Channel, ChannelOptions, Domain, Job, Pool};
use tombolo_copies::engines::{Engine, Location, Request, SharedMemory, finish};
use tombolo_engine::cpu::Threads;
use tombolo_platform::copy::CopyLoop;

use super::print_figure;
use crate::Error;

/// Timeout of one message.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of concurrent channels, as in the paper; each has a thread on both sides.
pub const CHANNELS: usize = 4;
/// Lengths of messages, as in the paper.
pub const LENGTHS: [usize; 5] = [64, 256, 1024, 4096, 16384];
/// Length of the message in round trips: a page.
pub const PAGE_BYTES: usize = 4096;
/// Number of messages that each of [`CHANNELS`] threads sends at once, as in the paper.
pub const BURST_MESSAGES: usize = 25;
/// Real-time priority, as in the paper.
pub const PRIORITY: u8 = 10;

/// Number of 128-byte slots per ring: enough for [`BURST_MESSAGES`] pages, and for several of the longest
/// messages.
const SLOTS: u32 = 1024;
/// Maximum bytes in flight on a channel: half a ring, so that the other side always has room to answer.
const MAX_IN_FLIGHT_BYTES: usize = 1 << 16;
/// Number of buffers per pool.
const BUFFERS: u32 = 8;
/// Repetitions of the overload test.
const REPEATS: usize = 20;

/// Parameters of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Number of messages of the runs over several channels, all channels together.
    pub messages: u32,
    /// Number of round trips of a page.
    pub rounds: u32,
    /// Whether to measure at a real-time priority too.
    pub real_time: bool,
}

impl Plan {
    /// Encodes the plan as arguments of the program.
    #[must_use]
    pub fn words(&self) -> [String; 4] {
        let real_time = u8::from(self.real_time);
        ["messages".into(), self.messages.to_string(), self.rounds.to_string(), real_time.to_string()]
    }

    /// Parses the arguments after the first.
    #[must_use]
    pub fn of(words: &[&str]) -> Option<Plan> {
        let [messages, rounds, real_time] = words else { return None };
        let (messages, rounds) = (messages.parse().ok()?, rounds.parse().ok()?);
        let real_time = match *real_time {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        (messages > 0 && rounds > 0).then_some(Plan { messages, rounds, real_time })
    }
}

/// End of a message transport.
trait Way: Send {
    fn send(&mut self, message: &[u8]) -> Result<(), Error>;

    /// Receives a message into `message`, which is resized to its length.
    fn recv(&mut self, message: &mut Vec<u8>) -> Result<(), Error>;
}

/// Transport by direct stores: the processor writes messages into the ring.
impl Way for Channel {
    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        Ok(Channel::send(self, message)?)
    }

    fn recv(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
        self.recv_into(message)?;
        Ok(())
    }
}

/// Transport in which an engine copies messages into buffers that the other side reaches, like a DMA
/// controller.
struct ByEngine {
    bulk: BulkChannel,
    pool: Pool,
    engine: Threads,
    /// Source buffer in memory that engines can access.
    source: SharedMemory,
}

impl ByEngine {
    fn open(domain: &Domain, job: &Job, number: usize) -> Result<ByEngine, Error> {
        let name = between(job, &format!("engine/{number}"))?;
        let options = BulkOptions::default();
        let longest = LENGTHS[LENGTHS.len() - 1];
        let pool = PoolOptions::new(longest as u64, BUFFERS);
        let (bulk, pool) = if job.rank() == 0 {
            let mut bulk = options.export(domain, &name)?.within(TIMEOUT).accept()?;
            let pool = bulk.create_pool(&pool)?;
            bulk.recv_pool()?;
            (bulk, pool)
        } else {
            let mut bulk = options.connect(domain, &name)?;
            bulk.recv_pool()?;
            let pool = bulk.create_pool(&pool)?;
            (bulk, pool)
        };
        let engine = Threads::start(CopyLoop::Best, 1, 1)?;
        Ok(ByEngine { bulk, pool, engine, source: SharedMemory::zeroed(longest) })
    }
}

impl Way for ByEngine {
    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        let mut buffer = self.bulk.take(&self.pool)?;
        tombolo_platform::copy::write(CopyLoop::Best, &self.source, 0, message).map_err(Error::of_figures)?;
        let target = buffer.memory().ok_or_else(|| {
            Error::of_figures("copy by an engine: the two nodes have no memory in common for it")
        })?;
        let request =
            Request::copy(Location::mapped(&self.source), Location::mapped(&target), message.len() as u64);
        self.engine.submit(request).map_err(Error::of_figures)?;
        let copied = finish(&mut self.engine, TIMEOUT)?;
        copied.ok_or(Error::Stalled { waited: TIMEOUT })?.result.map_err(Error::of_figures)?;
        buffer.set_part(0, message.len() as u64)?;
        Ok(self.bulk.move_to(buffer, &[]).map_err(tombolo::Error::from)?)
    }

    fn recv(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
        let mut metadata = Vec::new();
        let buffer = self.bulk.recv_moved(&mut metadata)?;
        message.resize(buffer.len_bytes() as usize, 0);
        buffer.read(0, message)?;
        Ok(self.bulk.pass(buffer, &[]).map_err(tombolo::Error::from)?)
    }
}

fn between(job: &Job, name: &str) -> Result<String, Error> {
    Ok(job.name_between(name, 1 - job.rank().min(1)).map_err(tombolo::Error::from)?)
}

pub(super) fn channel(domain: &Domain, job: &Job, number: usize) -> Result<Channel, Error> {
    let name = between(job, &format!("direct/{number}"))?;
    let options = ChannelOptions::default().slot_bytes(128)?.slots(SLOTS)?;
    Ok(if job.rank() == 0 {
        options.export(domain, &name)?.within(TIMEOUT).accept()?
    } else {
        options.connect(domain, &name)?
    })
}

/// Measures together with the other rank of the job, which runs the same program. Rank 0 prints the figures.
pub(super) fn run(plan: Plan) -> Result<(), Error> {
    let domain = Domain::attach()?.with_timeout(TIMEOUT);
    let job = domain.job()?;
    let leads = job.rank() == 0;
    let mut direct = Vec::new();
    for number in 0..CHANNELS {
        direct.push(channel(&domain, &job, number)?);
    }
    round_trips(leads, "direct", &mut direct[0], plan.rounds)?;
    if plan.real_time {
        with_priority(leads, &mut direct[0], plan.rounds)?;
    }
    overload(leads, &mut direct)?;
    measure_all(leads, "direct", &mut direct, plan.messages)?;
    let mut control = direct.swap_remove(0);
    drop(direct);
    let mut engines = Vec::new();
    for number in 0..CHANNELS {
        engines.push(ByEngine::open(&domain, &job, number)?);
    }
    by_engines(leads, &mut engines, plan, &mut control)
}

/// Measures the transport by engines. Rank 0 returns the last buffers after it has all answers, so rank 1
/// waits for a final message over `control`.
fn by_engines<W: Way>(
    leads: bool,
    engines: &mut [W],
    plan: Plan,
    control: &mut impl Way,
) -> Result<(), Error> {
    round_trips(leads, "engine", &mut engines[0], plan.rounds)?;
    measure_all(leads, "engine", engines, plan.messages)?;
    if leads { control.send(&[0]) } else { control.recv(&mut Vec::new()) }
}

/// Answers `count` messages.
fn answer(way: &mut impl Way, count: usize) -> Result<(), Error> {
    let mut message = Vec::new();
    (0..count).try_for_each(|_| {
        way.recv(&mut message)?;
        way.send(&message)
    })
}

/// Stamps a message with its number.
pub(super) fn stamp(message: &mut [u8], number: usize) {
    let number = (number as u64).to_le_bytes();
    let at = message.len() - number.len();
    message[..number.len()].copy_from_slice(&number);
    message[at..].copy_from_slice(&number);
}

/// Receives the answer to message `number`.
fn recv_checked(
    way: &mut impl Way,
    expected: &mut [u8],
    heard: &mut Vec<u8>,
    number: usize,
) -> Result<(), Error> {
    way.recv(heard)?;
    stamp(expected, number);
    if heard == expected { Ok(()) } else { Err(Error::Corrupt { message: number as u64 }) }
}

/// Measures round trips of a page, one after another.
fn round_trips(leads: bool, name: &str, way: &mut impl Way, rounds: u32) -> Result<(), Error> {
    let (rounds, warm) = (rounds as usize, 20);
    if !leads {
        return answer(way, rounds + warm);
    }
    let (mut message, mut heard) = (vec![7; PAGE_BYTES], Vec::new());
    let mut times_ns = Vec::new();
    for number in 0..rounds + warm {
        stamp(&mut message, number);
        let began = Instant::now();
        way.send(&message)?;
        way.recv(&mut heard)?;
        let took_ns = began.elapsed().as_nanos() as f64;
        if heard != message {
            return Err(Error::Corrupt { message: number as u64 });
        }
        // The first rounds run with cold caches and processors.
        if number >= warm {
            times_ns.push(took_ns);
        }
    }
    print_times(name, times_ns);
    Ok(())
}

/// Measures round trips with both threads at a real-time priority, if both have the permission.
fn with_priority(leads: bool, channel: &mut Channel, rounds: u32) -> Result<(), Error> {
    let placed = LatencyOptions::default().scheduling(Scheduling::Fifo(PRIORITY)).apply();
    let mut theirs = Vec::new();
    channel.send(&[u8::from(placed.is_ok())])?;
    channel.recv_into(&mut theirs)?;
    let refused = |rank: f64| {
        if leads {
            print_figure("priority_refused_by", rank);
        }
    };
    match (&placed, theirs.as_slice()) {
        (Ok(_), [1]) => round_trips(leads, "priority", channel, rounds)?,
        (Err(tombolo::Error::Scheduling { .. }), _) => refused(0.0),
        (Ok(_), _) => refused(1.0),
        (Err(_), _) => drop(placed?),
    }
    Ok(())
}

/// Prints mean, standard deviation, percentiles and maximum.
fn print_times(name: &str, mut times_ns: Vec<f64>) {
    times_ns.sort_unstable_by(f64::total_cmp);
    let count = times_ns.len().max(1) as f64;
    let mean = times_ns.iter().sum::<f64>() / count;
    let variance = times_ns.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
    let at = |percent: usize| times_ns.get(times_ns.len() * percent / 100).copied().unwrap_or(0.0);
    print_figure(&format!("{name}_mean_ns"), mean);
    print_figure(&format!("{name}_sd_ns"), variance.sqrt());
    print_figure(&format!("{name}_p50_ns"), at(50));
    print_figure(&format!("{name}_p99_ns"), at(99));
    print_figure(&format!("{name}_max_ns"), times_ns.last().copied().unwrap_or(0.0));
}

/// Runs `work` for all channels concurrently, each on its own thread.
fn at_once<W: Way, T: Send>(
    ways: &mut [W],
    work: impl Fn(&mut W) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let start = Arc::new(std::sync::Barrier::new(ways.len()));
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = ways
            .iter_mut()
            .map(|way| {
                let start = Arc::clone(&start);
                scope.spawn(move || {
                    start.wait();
                    work(way)
                })
            })
            .collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<T, Error>>| {
            thread.join().unwrap_or_else(|_| Err(Error::of_figures("run a thread: it panicked")))
        };
        threads.into_iter().map(ended).collect()
    })
}

/// Runs threads that each send more messages at once than the other side can answer in time.
fn overload(leads: bool, channels: &mut [Channel]) -> Result<(), Error> {
    let mut times_ns = Vec::new();
    for _ in 0..REPEATS {
        if !leads {
            at_once(channels, |channel| answer(channel, BURST_MESSAGES))?;
            continue;
        }
        for times in at_once(channels, send_burst)? {
            times_ns.extend(times);
        }
    }
    if leads {
        print_times("overload", times_ns);
    }
    Ok(())
}

/// Sends without waiting for answers, and receives those that have arrived in between.
fn send_burst(channel: &mut Channel) -> Result<Vec<f64>, Error> {
    let (mut message, mut heard) = (vec![7; PAGE_BYTES], Vec::new());
    let (mut began, mut times_ns) = (Vec::new(), Vec::new());
    while times_ns.len() < BURST_MESSAGES {
        if began.len() < BURST_MESSAGES {
            stamp(&mut message, began.len());
            began.push(Instant::now());
            channel.send(&message)?;
            if channel.try_recv_into(&mut heard)?.is_none() {
                continue;
            }
        } else {
            channel.recv_into(&mut heard)?;
        }
        let number = times_ns.len();
        times_ns.push(began[number].elapsed().as_nanos() as f64);
        stamp(&mut message, number);
        if heard != message {
            return Err(Error::Corrupt { message: number as u64 });
        }
    }
    Ok(times_ns)
}

/// Measures the time of round trips of `messages`, by number of channels and length.
fn measure_all<W: Way>(leads: bool, name: &str, ways: &mut [W], messages: u32) -> Result<(), Error> {
    for bytes in LENGTHS {
        for channels in 1..=ways.len() {
            let each = (messages as usize).div_ceil(channels);
            if !leads {
                at_once(&mut ways[..channels], |way| answer(way, each))?;
                continue;
            }
            let began = Instant::now();
            at_once(&mut ways[..channels], |way| stream(way, each, bytes))?;
            print_figure(&format!("{name}_{channels}x{bytes}_s"), began.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// Sends `count` messages, keeping as many in flight as there is guaranteed room for.
fn stream(way: &mut impl Way, count: usize, bytes: usize) -> Result<(), Error> {
    let ahead = (MAX_IN_FLIGHT_BYTES / bytes).clamp(1, BUFFERS as usize);
    let (mut message, mut expected, mut heard) = (vec![7; bytes], vec![7; bytes], Vec::new());
    let mut sent = 0;
    for number in 0..count {
        while sent < count && sent - number < ahead {
            stamp(&mut message, sent);
            way.send(&message)?;
            sent += 1;
        }
        recv_checked(way, &mut expected, &mut heard, number)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    #[test]
    fn plans_round_trip_and_others_are_refused() {
        let plan = Plan { messages: 100_000, rounds: 7, real_time: true };
        let words = plan.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!((words[0], Plan::of(&words[1..])), ("messages", Some(plan)));
        for wrong in [&["0", "1", "0"][..], &["1", "0", "0"], &["1", "1", "2"], &["1", "1"], &["x", "1", "0"]]
        {
            assert_eq!(Plan::of(wrong), None, "{wrong:?}");
        }
    }

    /// State shared by the ranks of a test.
    #[derive(Default)]
    struct Follower {
        receiving: AtomicUsize,
        has_ended: AtomicBool,
    }

    /// Transport on which rank 0 needs rank 1 after it has received, like returning a buffer. It continues
    /// once rank 1 waits for something else, or is gone.
    struct Returning {
        leads: bool,
        sends: Sender<Vec<u8>>,
        receives: Receiver<Vec<u8>>,
        follower: Arc<Follower>,
    }

    impl Returning {
        fn pair(follower: &Arc<Follower>) -> [Returning; 2] {
            let ((sends, receives), (sends_back, receives_back)) = (channel(), channel());
            let end = |leads, sends, receives| {
                let follower = Arc::clone(follower);
                Returning { leads, sends, receives, follower }
            };
            [end(true, sends, receives_back), end(false, sends_back, receives)]
        }
    }

    impl Way for Returning {
        fn send(&mut self, message: &[u8]) -> Result<(), Error> {
            self.sends.send(message.to_vec()).map_err(Error::of_figures)
        }

        fn recv(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
            let Follower { receiving, has_ended } = &*self.follower;
            if self.leads {
                *message = self.receives.recv().map_err(Error::of_figures)?;
                while receiving.load(SeqCst) == 0 {
                    if has_ended.load(SeqCst) {
                        return Err(Error::of_figures("give a buffer back: rank 1 is gone"));
                    }
                    std::thread::yield_now();
                }
            } else {
                receiving.fetch_add(1, SeqCst);
                let received = self.receives.recv().map_err(Error::of_figures);
                receiving.fetch_sub(1, SeqCst);
                *message = received?;
            }
            Ok(())
        }
    }

    #[test]
    fn rank_1_stays_until_the_last_buffer_is_back() {
        let follower = Arc::new(Follower::default());
        let pairs = || (0..CHANNELS).map(|_| Returning::pair(&follower));
        let (mut near, mut far): (Vec<_>, Vec<_>) = pairs().map(|[near, far]| (near, far)).unzip();
        let [mut control, mut control_far] = Returning::pair(&follower);
        let plan = Plan { messages: 8, rounds: 2, real_time: false };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                by_engines(false, &mut far, plan, &mut control_far).unwrap();
                follower.has_ended.store(true, SeqCst);
            });
            let led = by_engines(true, &mut near, plan, &mut control);
            // Otherwise rank 1 would wait forever.
            drop((near, control));
            led.unwrap();
        });
    }

    /// Answers by itself; the message with number `.1` gets a wrong byte.
    struct Echo(VecDeque<Vec<u8>>, usize, usize);

    impl Way for Echo {
        fn send(&mut self, message: &[u8]) -> Result<(), Error> {
            let mut message = message.to_vec();
            if self.2 == self.1 {
                message[20] ^= 1;
            }
            self.2 += 1;
            self.0.push_back(message);
            assert!(self.0.len() <= BUFFERS as usize);
            Ok(())
        }

        fn recv(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
            *message = self.0.pop_front().ok_or(Error::Stalled { waited: TIMEOUT })?;
            Ok(())
        }
    }

    #[test]
    fn answers_are_compared_with_what_was_sent() {
        for bytes in LENGTHS {
            stream(&mut Echo(VecDeque::new(), usize::MAX, 0), 100, bytes).unwrap();
            let error = stream(&mut Echo(VecDeque::new(), 41, 0), 100, bytes);
            assert!(matches!(error, Err(Error::Corrupt { message: 41 })), "{error:?}");
        }
    }
}
