//! `sim`: channels over a simulated link, under a clock that advances only when the link is polled.
//!
//! Both ends are in this process. The transit time of a packet is drawn from a seed, and the clock advances a
//! little with each poll, so the same seed and the same calls give the same run, at any speed. Packets keep
//! their order and are lost only with an end that is killed. Nothing ends a sleep, so waits poll.

mod channel;
mod world;

pub use channel::{SimChannel, decline, open};
pub use world::{Conditions, Killer, SimEnd, link};
