//! `sim`: a channel over a link that does not exist, under a clock that only looks move.
//!
//! Both ends are in this process. What is sent takes a time drawn from a seed, on a clock that goes on a little with
//! each look at the link, so that one seed and the same calls are the same run, however long it takes. Order is kept,
//! and nothing is lost but with an end that is killed. Nothing wakes a sleeper: waits poll.

mod channel;
mod world;

pub use channel::{SimChannel, decline, open};
pub use world::{Conditions, Killer, SimEnd, link};
