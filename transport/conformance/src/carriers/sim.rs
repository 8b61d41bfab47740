//! Simulated links.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use tombolo_link::{ChannelConfig, Hello, Side};
use tombolo_platform::time::Deadline;
use tombolo_transport::sim::{self, Conditions, Killer, SimChannel, SimEnd};
use tombolo_transport::{Capabilities, ChannelError};

use crate::carrier::{Carrier, Fixture, hello};
use crate::messages::send;
use crate::patience::deadline;
use crate::peer::{self, KillablePeer, PeerTask, Role};

/// Carrier of simulated links, each with its own clock and seed.
pub struct Sim;

static SEED: AtomicU64 = AtomicU64::new(1);

/// Peer that runs in this process.
struct InProcessPeer {
    killer: Killer,
    /// Thread that runs its role until it is killed.
    thread: Option<JoinHandle<()>>,
    /// Channel of a peer whose role is to be idle.
    idle: Option<SimChannel>,
}

impl KillablePeer for InProcessPeer {
    fn kill(&mut self) {
        self.killer.kill();
        self.idle = None;
        if let Some(thread) = self.thread.take() {
            // Its next operation fails.
            thread.join().expect("a peer ends with its channel");
        }
    }
}

impl Drop for InProcessPeer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.kill();
        }
    }
}

impl Carrier for Sim {
    type Channel = SimChannel;
    type End = SimEnd;
    const NAME: &'static str = "sim";
    const CAPABILITIES: Capabilities =
        Capabilities::EVIDENCE_OF_DEATH.with(Capabilities::NO_SPURIOUS_RESULTS);
    const FIXTURES: &'static [Fixture] = &[Fixture::Handshake, Fixture::Killable];
    const EFFORT_PERCENT: u64 = 25;

    fn ends(_config: ChannelConfig) -> (SimEnd, SimEnd) {
        sim::link(Conditions::default(), SEED.fetch_add(1, Ordering::Relaxed))
    }

    fn open(end: SimEnd, _side: Side, hello: Hello, deadline: Deadline) -> Result<SimChannel, ChannelError> {
        sim::open(end, hello, deadline)
    }

    fn decline(end: SimEnd, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        sim::decline(&end, hello, reason);
        Ok(())
    }

    fn spawn_killable_peer(task: PeerTask) -> (SimChannel, Box<dyn KillablePeer>) {
        let (end_a, end_b) = Self::ends(task.config::<Self>());
        let killer = end_b.killer();
        let hello = hello(task.config::<Self>());
        let (mut thread, mut idle) = (None, None);
        let channel = if task.role == Role::Idles {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| sim::open(end_b, hello, deadline()).expect("side B"));
                let channel = sim::open(end_a, hello, deadline()).expect("side A");
                let mut other = other.join().expect("opening does not panic");
                send(&mut other, 0, b"here");
                idle = Some(other);
                channel
            })
        } else {
            thread = Some(std::thread::spawn(move || drop(peer::run_peer::<Self>(end_b, task))));
            sim::open(end_a, hello, deadline()).expect("side A")
        };
        (channel, Box::new(InProcessPeer { killer, thread, idle }))
    }
}
