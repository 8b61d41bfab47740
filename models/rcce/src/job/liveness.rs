//! Detection of ranks that end while others wait for them.

use core::time::Duration;

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::Channel;

use super::wire::Message;
use crate::failure::Failure;
use crate::system::{self, Instant};

/// How long a rank still waits after rank 0 has called `RCCE_finalize`. No wait of a correct program takes
/// longer: rank 0 was in the same last barrier.
const GRACE: Duration = Duration::from_secs(10);

/// Polls between two checks of the channels, once a wait yields: on a busy processor each may take
/// milliseconds.
const POLLS_PER_CHECK: u32 = 1 << 7;

/// Number of spinning polls, if each rank has a processor of its own, and if ranks share processors.
const SPINS: [u32; 2] = [4000, 40];

/// Number of polls after these that yield the processor; later ones sleep.
const YIELDS: u32 = 4000;

/// Duration from which a yield counts as having run other programs. Unless ranks share processors, the wait
/// then sleeps instead, as the kernel prefers threads that just woke up.
const SLOW_YIELD: Duration = Duration::from_micros(100);

/// Initial sleep of a long wait; doubles after every [`SLEEPS`] up to [`LONGEST_SLEEP`].
const SLEEP: Duration = Duration::from_micros(20);
const SLEEPS: u32 = 256;
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Channels between rank 0 and the others. A channel ends with its rank; rank 0 notifies the others.
#[derive(Debug)]
pub struct Liveness {
    rank: usize,
    channels: Vec<PeerRank>,
    /// Whether ranks share processors.
    is_oversubscribed: bool,
    spins: u32,
    /// Time when rank 0 announced that it is done.
    root_finalized_at: Option<Instant>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct PeerRank {
    rank: usize,
    channel: Channel,
    finalized: bool,
}

impl Liveness {
    /// Starts to watch the peers of `rank`, with its channels, on a kernel that runs `ranks_on_kernel` ranks.
    pub(super) fn new(rank: usize, channels: Vec<(usize, Channel)>, ranks_on_kernel: usize) -> Liveness {
        let processors = system::processors();
        let other = |(rank, channel)| PeerRank { rank, channel, finalized: false };
        let channels = channels.into_iter().map(other).collect();
        let is_oversubscribed = ranks_on_kernel > processors;
        let spins = SPINS[usize::from(is_oversubscribed)];
        Liveness { rank, channels, is_oversubscribed, spins, root_finalized_at: None, buffer: Vec::new() }
    }

    /// Begins a wait of this rank.
    pub fn start_wait(&mut self) -> Backoff<'_> {
        self.resume_wait(0)
    }

    /// Begins a wait that continues after `polls` polls.
    pub fn resume_wait(&mut self, polls: u32) -> Backoff<'_> {
        Backoff { liveness: self, polls }
    }

    /// Checks whether a rank has ended.
    ///
    /// # Errors
    /// [`Failure`] if one has, so that the job cannot continue.
    pub fn check(&mut self) -> Result<(), Failure> {
        let mut lost = None;
        for other in &mut self.channels {
            while !other.finalized {
                match other.channel.try_recv_into(&mut self.buffer) {
                    Ok(None) => break,
                    Ok(Some(_)) => match Message::from_bytes(&self.buffer) {
                        Some(Message::Finalized) => other.finalized = true,
                        Some(Message::Ended { rank }) => lost = Some((rank, None)),
                        _ => lost = Some((other.rank, None)),
                    },
                    Err(_) => {
                        lost = Some((other.rank, Some(other.channel.peer_node().to_owned())));
                        break;
                    }
                }
            }
        }
        if let Some((rank, node)) = lost {
            self.notify_all(&Message::Ended { rank });
            let node = node.map(|node| format!(" on {node}")).unwrap_or_default();
            return Err(Failure::fatal(format!("rank {rank}{node} has ended without RCCE_finalize")));
        }
        if self.rank != 0 && self.channels.iter().all(|other| other.finalized) {
            let since = *self.root_finalized_at.get_or_insert_with(Instant::now);
            if since.elapsed() > GRACE {
                return Err(Failure::fatal(
                    "rank 0 has called RCCE_finalize, and this rank still waits for another",
                ));
            }
        }
        Ok(())
    }

    /// Announces that this rank has called `RCCE_finalize`.
    pub fn announce_finalize(&mut self) {
        self.notify_all(&Message::Finalized);
    }

    fn notify_all(&mut self, message: &Message) {
        let bytes = message.to_bytes();
        // Errors are ignored: the rank may be gone or have called `RCCE_finalize`.
        self.channels.iter_mut().for_each(|other| drop(other.channel.try_send(&bytes)));
    }
}

/// A wait for other ranks, which spins, yields, and then sleeps, and periodically checks that they are alive.
#[derive(Debug)]
pub struct Backoff<'a> {
    liveness: &'a mut Liveness,
    polls: u32,
}

impl Backoff<'_> {
    /// Returns the number of polls so far, for [`Liveness::resume_wait`].
    #[must_use]
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// Waits a little: spins, yields or sleeps.
    ///
    /// # Errors
    /// As [`Liveness::check`].
    pub fn idle(&mut self) -> Result<(), Failure> {
        self.polls = self.polls.saturating_add(1);
        let spins = self.liveness.spins;
        if self.polls < spins {
            tombolo_base::sync::spin_hint();
            return Ok(());
        }
        if self.polls < spins.saturating_add(YIELDS) {
            let before = Instant::now();
            system::yield_now();
            if !self.liveness.is_oversubscribed && before.elapsed() > SLOW_YIELD {
                self.polls = spins.saturating_add(YIELDS);
            }
        } else {
            let exponent = ((self.polls - spins - YIELDS) / SLEEPS).min(16);
            system::sleep((SLEEP * (1 << exponent)).min(LONGEST_SLEEP));
        }
        if self.polls.is_multiple_of(POLLS_PER_CHECK) || self.polls == u32::MAX {
            self.liveness.check()?;
        }
        Ok(())
    }
}
