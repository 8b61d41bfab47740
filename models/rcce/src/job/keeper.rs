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
pub struct Keeper {
    rank: usize,
    channels: Vec<Other>,
    /// Whether ranks share processors.
    is_crowded: bool,
    spins: u32,
    /// Time when rank 0 announced that it is done.
    done: Option<Instant>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Other {
    rank: usize,
    channel: Channel,
    said_bye: bool,
}

impl Keeper {
    /// Creates the keeper of `rank`, with its channels, on a kernel that runs `neighbours` ranks.
    pub(super) fn new(rank: usize, channels: Vec<(usize, Channel)>, neighbours: usize) -> Keeper {
        let processors = system::processors();
        let other = |(rank, channel)| Other { rank, channel, said_bye: false };
        let channels = channels.into_iter().map(other).collect();
        let is_crowded = neighbours > processors;
        let spins = SPINS[usize::from(is_crowded)];
        Keeper { rank, channels, is_crowded, spins, done: None, buffer: Vec::new() }
    }

    /// Begins a wait of this rank.
    pub fn waiting(&mut self) -> Waiting<'_> {
        self.waiting_since(0)
    }

    /// Begins a wait that continues after `polls` polls.
    pub fn waiting_since(&mut self, polls: u32) -> Waiting<'_> {
        Waiting { keeper: self, polls }
    }

    /// Checks whether a rank has ended.
    ///
    /// # Errors
    /// [`Failure`] if one has, so that the job cannot continue.
    pub fn check(&mut self) -> Result<(), Failure> {
        let mut lost = None;
        for other in &mut self.channels {
            while !other.said_bye {
                match other.channel.try_recv_into(&mut self.buffer) {
                    Ok(None) => break,
                    Ok(Some(_)) => match Message::from_bytes(&self.buffer) {
                        Some(Message::Bye) => other.said_bye = true,
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
            self.tell(&Message::Ended { rank });
            let node = node.map(|node| format!(" on {node}")).unwrap_or_default();
            return Err(Failure::end(format!("rank {rank}{node} has ended without RCCE_finalize")));
        }
        if self.rank != 0 && self.channels.iter().all(|other| other.said_bye) {
            let since = *self.done.get_or_insert_with(Instant::now);
            if since.elapsed() > GRACE {
                return Err(Failure::end(
                    "rank 0 has called RCCE_finalize, and this rank still waits for another",
                ));
            }
        }
        Ok(())
    }

    /// Announces that this rank has called `RCCE_finalize`.
    pub fn say_bye(&mut self) {
        self.tell(&Message::Bye);
    }

    fn tell(&mut self, message: &Message) {
        let bytes = message.to_bytes();
        // Errors are ignored: the rank may be gone or have called `RCCE_finalize`.
        self.channels.iter_mut().for_each(|other| drop(other.channel.try_send(&bytes)));
    }
}

/// A wait for other ranks, which spins, yields, and then sleeps, and periodically checks that they are alive.
#[derive(Debug)]
pub struct Waiting<'a> {
    keeper: &'a mut Keeper,
    polls: u32,
}

impl Waiting<'_> {
    /// Returns the number of polls so far, for [`Keeper::waiting_since`].
    #[must_use]
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// Waits a little: spins, yields or sleeps.
    ///
    /// # Errors
    /// As [`Keeper::check`].
    pub fn idle(&mut self) -> Result<(), Failure> {
        self.polls = self.polls.saturating_add(1);
        let spins = self.keeper.spins;
        if self.polls < spins {
            tombolo_base::sync::spin_hint();
            return Ok(());
        }
        if self.polls < spins.saturating_add(YIELDS) {
            let before = Instant::now();
            system::yield_now();
            if !self.keeper.is_crowded && before.elapsed() > SLOW_YIELD {
                self.polls = spins.saturating_add(YIELDS);
            }
        } else {
            let doublings = ((self.polls - spins - YIELDS) / SLEEPS).min(16);
            system::sleep((SLEEP * (1 << doublings)).min(LONGEST_SLEEP));
        }
        if self.polls.is_multiple_of(POLLS_PER_CHECK) || self.polls == u32::MAX {
            self.keeper.check()?;
        }
        Ok(())
    }
}
