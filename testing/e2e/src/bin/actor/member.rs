//! A member of the chaos run, in which other members die at any moment. It keeps channels to some of them,
//! checks every byte, and reports how and when each channel ended.
//!
//! Its output, one line each: `ready PID`, `open CHANNEL PEER`, `end CHANNEL PEER HOW MONOTONIC_NS STARVED_NS
//! WHY`, `unconnected NAME HOW WHY`, `alive MESSAGES`. `STARVED_NS` is the time of the current turn in which
//! the thread was runnable but not running. A line on standard input closes one of its channels.

use std::io::BufRead;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tombolo::{Channel, ChannelOptions, Domain, Error, Listener, wait_any};

use crate::Outcome;
use crate::exchange::message;

/// Longest sleep before a member looks for new channels.
const TURN: Duration = Duration::from_millis(10);

/// Interval between `alive` lines.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// Timeout for connecting to another member and for accepting a channel.
const OPENING: Duration = Duration::from_secs(5);

/// Number of messages of one channel that are served before the other channels.
const BURST: u32 = 64;

/// The traffic of a channel. The connecting side announces it with its first message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// One message at a time, echoed by the peer.
    Echo,
    /// As many messages as fit, in one direction.
    Flood,
    /// No messages: both ends sleep.
    Idle,
}

impl Mode {
    const ALL: [Mode; 3] = [Mode::Echo, Mode::Flood, Mode::Idle];
}

/// A channel of the member.
struct MemberChannel {
    channel: Channel,
    /// Wakes the connecting thread, which opens the channel again; `None` on the accepting side.
    reconnect: Option<Sender<()>>,
    /// Unknown to the accepting side until the first message.
    mode: Option<Mode>,
    sent: u64,
    received: u64,
    /// Earliest time of the next send.
    next: Instant,
}

/// Events from the accepting, connecting and input threads.
enum News {
    Opened(Box<MemberChannel>),
    Drop,
    Ended,
}

/// Prints a whole line.
fn print_line(line: std::fmt::Arguments<'_>) {
    println!("{line}");
}

fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Returns the word under which the chaos run counts an error.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::PeerDied { .. } => "died",
        Error::RelayDied { .. } => "relay-died",
        Error::Closed { .. } => "closed",
        Error::TimedOut { .. } => "timed-out",
        Error::Refused { .. } => "refused",
        Error::Monitor(_) => "monitor",
        Error::MonitorLost { .. } => "monitor-lost",
        Error::Violation { .. } => "violation",
        _ => "other",
    }
}

pub(crate) fn run(name: &str, pause_us: &str, peers: &[&str]) -> Outcome {
    let domain = crate::attach()?;
    let options = ChannelOptions::default().spin_ns(0);
    let listener = options.export(&domain, name)?;
    print_line(format_args!("ready {}", std::process::id()));
    let (news, arriving) = channel();
    std::thread::spawn({
        let news = news.clone();
        move || accept(&listener, &news)
    });
    std::thread::spawn({
        let news = news.clone();
        move || listen_to_orders(&news)
    });
    for (index, peer) in peers.iter().enumerate() {
        let (domain, options, news, peer) =
            (domain.clone(), options.clone(), news.clone(), (*peer).to_owned());
        let mode = Mode::ALL[index % Mode::ALL.len()];
        std::thread::spawn(move || connect(&domain, &options, &peer, mode, &news));
    }
    let scheduler = Scheduler::of_this_thread();
    let starved_before_ns = scheduler.starved_ns();
    let pause = Duration::from_micros(pause_us.parse()?);
    Member { scheduler, starved_before_ns, lines: Vec::new(), arriving, pause, messages: 0 }.live()
}

fn accept(listener: &Listener, news: &Sender<News>) {
    loop {
        let told = match listener.within(OPENING).accept() {
            Ok(channel) => {
                let line = MemberChannel {
                    channel,
                    reconnect: None,
                    mode: None,
                    sent: 0,
                    received: 0,
                    next: Instant::now(),
                };
                news.send(News::Opened(Box::new(line)))
            }
            Err(Error::MonitorLost { .. }) => news.send(News::Ended),
            Err(Error::TimedOut { .. }) => Ok(()),
            Err(error) => {
                print_line(format_args!("unconnected {} {} {error}", listener.name(), kind(&error)));
                Ok(())
            }
        };
        if told.is_err() {
            return;
        }
    }
}

fn connect(domain: &Domain, options: &ChannelOptions, peer: &str, mode: Mode, news: &Sender<News>) {
    loop {
        match options.connect(&domain.within(OPENING), peer) {
            Ok(channel) => {
                let (ended, awaited) = std::sync::mpsc::channel();
                let line = MemberChannel {
                    channel,
                    reconnect: Some(ended),
                    mode: Some(mode),
                    sent: 0,
                    received: 0,
                    next: Instant::now(),
                };
                if news.send(News::Opened(Box::new(line))).is_err() || awaited.recv().is_err() {
                    return;
                }
            }
            Err(Error::MonitorLost { .. }) => {
                let _ = news.send(News::Ended);
                return;
            }
            Err(error) => {
                print_line(format_args!("unconnected {peer} {} {error}", kind(&error)));
                std::thread::sleep(TURN);
            }
        }
    }
}

fn listen_to_orders(news: &Sender<News>) {
    for line in std::io::stdin().lock().lines() {
        if line.is_err() || news.send(News::Drop).is_err() {
            return;
        }
    }
}

/// The kernel's scheduler statistics for this thread.
struct Scheduler(Option<std::fs::File>);

impl Scheduler {
    fn of_this_thread() -> Scheduler {
        Scheduler(std::fs::File::open("/proc/thread-self/schedstat").ok())
    }

    /// Returns the total time that this thread was runnable but not running, in nanoseconds; 0 if the kernel
    /// does not count it.
    fn starved_ns(&self) -> i64 {
        let mut line = [0; 64];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut line, 0).ok());
        let text = std::str::from_utf8(&line[..read.unwrap_or(0)]).unwrap_or_default();
        text.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

struct Member {
    scheduler: Scheduler,
    /// [`Scheduler::starved_ns`] at the start of this turn.
    starved_before_ns: i64,
    lines: Vec<MemberChannel>,
    arriving: Receiver<News>,
    pause: Duration,
    messages: u64,
}

impl Member {
    fn live(mut self) -> Outcome {
        let mut next_sign = Instant::now();
        loop {
            self.starved_before_ns = self.scheduler.starved_ns();
            while let Ok(news) = self.arriving.try_recv() {
                match news {
                    News::Opened(line) => self.open(*line),
                    News::Drop => self.close_oldest(),
                    // A member dies with its monitor. An orderly close would tell peers otherwise.
                    News::Ended => std::process::exit(3),
                }
            }
            if Instant::now() >= next_sign {
                next_sign = Instant::now() + SIGN_OF_LIFE;
                print_line(format_args!("alive {}", self.messages));
            }
            let mut channels: Vec<&mut Channel> =
                self.lines.iter_mut().map(|line| &mut line.channel).collect();
            match wait_any(&mut channels, TURN.min(self.pause.max(Duration::from_millis(1)))) {
                Ok(index) => {
                    let result = self.receive(index);
                    self.note(index, result)?;
                }
                Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            for index in (0..self.lines.len()).rev() {
                let result = self.send(index);
                self.note(index, result)?;
            }
        }
    }

    fn open(&mut self, line: MemberChannel) {
        print_line(format_args!("open {} {}", line.channel.id().0, line.channel.peer()));
        self.lines.push(line);
    }

    /// Closes the oldest channel in order; its peer must see a close, not a death.
    fn close_oldest(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let line = self.lines.swap_remove(0);
        self.report_end(&line, "dropped", &"as told");
    }

    /// Records the end of a channel. Fails on an error that no death or close explains.
    fn note(&mut self, index: usize, result: Result<(), Error>) -> Outcome {
        let Err(error) = result else { return Ok(()) };
        let line = self.lines.swap_remove(index);
        self.report_end(&line, kind(&error), &error);
        match error {
            Error::PeerDied { .. } | Error::RelayDied { .. } | Error::Closed { .. } => Ok(()),
            error => Err(error.into()),
        }
    }

    fn receive(&mut self, index: usize) -> Result<(), Error> {
        let (mut buffer, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..BURST {
            let line = &mut self.lines[index];
            if line.channel.try_recv_into(&mut buffer)?.is_none() {
                return Ok(());
            }
            let Some(mode) = line.mode else {
                line.mode = buffer.first().and_then(|byte| Mode::ALL.get(usize::from(*byte))).copied();
                continue;
            };
            let max_bytes = line.channel.max_message_bytes();
            message(line.channel.id().0, line.received, max_bytes, &mut expected);
            if buffer != expected {
                print_line(format_args!("corrupt {} message {}", line.channel.id().0, line.received));
                std::process::exit(70);
            }
            line.received += 1;
            self.messages += 1;
            if mode == Mode::Echo && line.reconnect.is_none() {
                // Cannot block: there is one message in flight, so its echo has room.
                line.channel.send(&buffer)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, index: usize) -> Result<(), Error> {
        let line = &mut self.lines[index];
        let (Some(mode), Some(_)) = (line.mode, &line.reconnect) else { return Ok(()) };
        if Instant::now() < line.next {
            return Ok(());
        }
        line.next = Instant::now() + self.pause;
        let mut outgoing = Vec::new();
        let max_bytes = line.channel.max_message_bytes();
        if line.sent == 0 {
            outgoing.push(Mode::ALL.iter().position(|other| *other == mode).unwrap_or(0) as u8);
            match line.channel.try_send(&outgoing) {
                Ok(()) => line.sent = 1,
                Err(Error::WouldBlock) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        for _ in 0..BURST {
            let due = match mode {
                Mode::Idle => false,
                Mode::Flood => true,
                Mode::Echo => line.sent == line.received + 1,
            };
            if !due {
                break;
            }
            // The first message announced the mode and is not counted.
            message(line.channel.id().0, line.sent - 1, max_bytes, &mut outgoing);
            match line.channel.try_send(&outgoing) {
                Ok(()) => line.sent += 1,
                Err(Error::WouldBlock) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reports how a channel ended and has the connecting side open it again.
    fn report_end(&self, line: &MemberChannel, how: &str, why: &dyn std::fmt::Display) {
        let now_ns = monotonic_ns();
        let starved_ns = self.scheduler.starved_ns() - self.starved_before_ns;
        let (channel, peer) = (line.channel.id().0, line.channel.peer());
        print_line(format_args!("end {channel} {peer} {how} {now_ns} {starved_ns} {why}"));
        if let Some(reconnect) = &line.reconnect {
            let _ = reconnect.send(());
        }
    }
}
