//! While both sides are awake, a message costs no system call, as counted by the kernel.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::syscall_counter::SyscallCounter;
use tombolo_platform::time::now_ns;
use tombolo_platform::{Deadline, OsError, socket};
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{MemoryChannel, shm};

const PATIENCE: Duration = Duration::from_secs(60);

/// Number of messages of a burst in each direction.
const BURST: u64 = 32;

/// Maximum number of bursts until one must have found both sides awake throughout, however busy the host.
const BURSTS: u64 = 100_000;

/// One side of the test: bursts of messages in both directions, and the system calls of each. Ends at the
/// first burst without any, or at the deadline.
struct BurstSide {
    channel: MemoryChannel,
    spin: Spin,
    calls: SyscallCounter,
    is_leader: bool,
}

impl BurstSide {
    /// Runs a burst. Returns the system calls of this side's part of it, including waiting.
    fn run(&mut self, buffer: &mut Vec<u8>) -> u64 {
        let before = self.calls.count();
        for _ in 0..BURST {
            if self.is_leader {
                wait::send(&mut self.channel, &mut self.spin, &[7; 48], PATIENCE).expect("room");
            }
            wait::recv_into(&mut self.channel, &mut self.spin, buffer, PATIENCE).expect("a message");
            if !self.is_leader {
                wait::send(&mut self.channel, &mut self.spin, buffer, PATIENCE).expect("room");
            }
        }
        self.calls.count() - before
    }

    /// Runs bursts until one made no call on either side. Returns the minimum number of calls per burst. The
    /// other side's count follows its burst as a message.
    fn min_calls(mut self, bursts: u64) -> u64 {
        let (start, mut buffer, mut min_calls) = (Instant::now(), Vec::with_capacity(64), u64::MAX);
        for burst in 1..=bursts {
            let own = self.run(&mut buffer);
            let last = burst == bursts || start.elapsed() > PATIENCE / 2;
            if self.is_leader {
                wait::recv_into(&mut self.channel, &mut self.spin, &mut buffer, PATIENCE).expect("its calls");
                let other = u64::from_le_bytes(buffer[..8].try_into().expect("a number"));
                min_calls = min_calls.min(own + other);
                let finished = min_calls == 0 || last;
                wait::send(&mut self.channel, &mut self.spin, &[u8::from(finished)], PATIENCE).expect("room");
                if finished {
                    return min_calls;
                }
            } else {
                let count_bytes = own.to_le_bytes();
                wait::send(&mut self.channel, &mut self.spin, &count_bytes, PATIENCE).expect("room");
                wait::recv_into(&mut self.channel, &mut self.spin, &mut buffer, PATIENCE).expect("a verdict");
                if buffer == [1] {
                    return min_calls;
                }
            }
        }
        min_calls
    }
}

fn hello() -> Hello {
    Hello::new(ChannelConfig::default(), 0, None)
}

/// Returns the minimum number of calls of a burst between two sides that poll for `spin_ns`. Returns `None`
/// if calls cannot be counted, or if reading the clock is a call.
fn fewest_calls(spin_ns: u64, bursts: u64) -> Result<Option<u64>, OsError> {
    let side = |socket: OwnedFd, is_leader: bool| -> Result<Option<u64>, OsError> {
        let deadline = Deadline::after(PATIENCE);
        let channel = if is_leader {
            shm::connect(socket, hello(), deadline)
        } else {
            shm::accept(socket, hello(), deadline)
        };
        let channel = channel.expect("a channel");
        let calls = SyscallCounter::start()?;
        let before = calls.count();
        std::hint::black_box(now_ns());
        let clock_is_free = calls.count() == before;
        let both = BurstSide { channel, spin: Spin::new(spin_ns), calls, is_leader };
        let min_calls = both.min_calls(bursts);
        Ok(clock_is_free.then_some(min_calls))
    };
    let (near, far) = socket::pair(socket::SocketKind::Stream)?;
    std::thread::scope(|scope| {
        let far = scope.spawn(|| side(far, false).map(|_| ()));
        let near = scope.spawn(|| side(near, true)).join().expect("no panic");
        far.join().expect("no panic")?;
        near
    })
}

#[test]
fn a_message_between_sides_that_are_awake_costs_no_system_call() {
    let awake = match fewest_calls(u64::MAX / 4, BURSTS) {
        Ok(Some(awake)) => awake,
        Ok(None) => return println!("skipped: reading the clock is a system call here"),
        Err(error) => return println!("skipped: {error}"),
    };
    assert_eq!(awake, 0);
}

#[test]
fn sides_that_sleep_are_counted() {
    if let Ok(Some(asleep)) = fewest_calls(0, 3) {
        assert!(asleep > 0);
    }
}
