//! The tree of channels that collectives take.
//!
//! The tree is binomial, with rank 0 at its root: the parent of a rank has its number without the lowest bit
//! that is set, and below a rank are the ranks that follow it, as many as that bit says, itself among them.
//! So a reduction combines values in the order of ranks.

use std::time::{Duration, Instant};

use tombolo::{Channel, ChannelOptions, Domain};

use crate::error::ObjectError;
use crate::plain::Plain;

/// The first byte of a message: the last piece of a value.
const LAST: u8 = 0;
/// A piece that others follow.
const MORE: u8 = 1;
/// A rank has ended: no collective can take place.
const ENDED: u8 = 2;

/// A rank's place in the tree, with its channels.
#[derive(Debug)]
pub(crate) struct Tree {
    rank: u32,
    parent: Option<(u32, Channel)>,
    /// In the order of their ranks.
    children: Vec<(u32, Channel)>,
    /// The rank that ended.
    ended: Option<u32>,
}

fn lowest_bit(rank: u32) -> u32 {
    if rank == 0 { 1 << 31 } else { rank & rank.wrapping_neg() }
}

fn parent_of(rank: u32) -> Option<u32> {
    (rank != 0).then(|| rank & (rank - 1))
}

fn children_of(rank: u32, size: u32) -> impl Iterator<Item = u32> {
    (0..31)
        .map(|bit| 1_u32 << bit)
        .take_while(move |bit| *bit < lowest_bit(rank))
        .map(move |bit| rank + bit)
        .filter(move |child| *child < size)
}

/// Whether `rank` is `top` or below it.
fn is_below(rank: u32, top: u32) -> bool {
    rank >= top && rank - top < lowest_bit(top)
}

impl Tree {
    pub(crate) fn open(domain: &Domain, job: &tombolo::Job) -> Result<Tree, ObjectError> {
        let (rank, size) = (job.rank(), job.size());
        let options = ChannelOptions::default();
        let name = |other| job.name_between("objects/tree", other).map_err(tombolo::Error::from);
        let parent = match parent_of(rank) {
            Some(parent) => Some((parent, options.connect(domain, &name(parent)?)?)),
            None => None,
        };
        let listeners =
            children_of(rank, size).map(|child| Ok((child, options.export(domain, &name(child)?)?)));
        let listeners = listeners.collect::<Result<Vec<_>, tombolo::Error>>()?;
        let accept = |(child, listener): (u32, tombolo::Listener)| {
            Ok((child, listener.within(domain.timeout()).accept()?))
        };
        let children = listeners.into_iter().map(accept).collect::<Result<Vec<_>, tombolo::Error>>()?;
        Ok(Tree { rank, parent, children, ended: None })
    }

    /// Does a part of a collective; if that fails for good, tells the others.
    pub(crate) fn run<R>(
        &mut self,
        part: impl FnOnce(&mut Tree) -> Result<R, ObjectError>,
    ) -> Result<R, ObjectError> {
        const WHAT: &str = "a collective";
        if let Some(rank) = self.ended {
            return Err(ObjectError::RankEnded { rank, what: WHAT });
        }
        let outcome = part(self);
        if let Err(ObjectError::RankEnded { rank, .. }) = outcome {
            self.ended = Some(rank);
            let message = [&[ENDED][..], &rank.to_le_bytes()].concat();
            for (_, channel) in self.parent.iter_mut().chain(&mut self.children) {
                // One that is gone needs no message.
                let _ = channel.try_send(&message);
            }
        }
        outcome
    }

    /// Sends a value of `root` to all, and returns it.
    pub(crate) fn broadcast(
        &mut self,
        root: u32,
        value: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, ObjectError> {
        let mut value = value;
        // Up to rank 0 first.
        if self.rank == root {
            if let Some((rank, parent)) = &mut self.parent {
                send(*rank, parent, &value, timeout)?;
            }
        } else if is_below(root, self.rank) {
            if let Some((rank, child)) = self.children.iter_mut().find(|(child, _)| is_below(root, *child)) {
                value = receive(*rank, child, timeout)?;
            }
            if let Some((rank, parent)) = &mut self.parent {
                send(*rank, parent, &value, timeout)?;
            }
        }
        if let Some((rank, parent)) = &mut self.parent {
            value = receive(*rank, parent, timeout)?;
        }
        // The rank with most below it first.
        for (rank, child) in self.children.iter_mut().rev() {
            send(*rank, child, &value, timeout)?;
        }
        Ok(value)
    }

    /// Combines values; the result is rank 0's.
    pub(crate) fn reduce<T: Plain>(
        &mut self,
        value: T,
        combine: &mut dyn FnMut(T, T) -> T,
        timeout: Duration,
    ) -> Result<Option<T>, ObjectError> {
        let mut value = value;
        for (rank, child) in &mut self.children {
            let theirs = receive(*rank, child, timeout)?;
            value = combine(value, decode(*rank, &theirs)?);
        }
        match &mut self.parent {
            Some((rank, parent)) => send(*rank, parent, &value.to_bytes(), timeout).map(|()| None),
            None => Ok(Some(value)),
        }
    }
}

pub(crate) fn decode<T: Plain>(rank: u32, bytes: &[u8]) -> Result<T, ObjectError> {
    if bytes.len() != T::BYTES {
        return Err(ObjectError::Unequal { rank, length_bytes: bytes.len(), expected_bytes: T::BYTES });
    }
    Ok(T::decode(bytes))
}

fn ended(rank: u32, error: tombolo::Error) -> ObjectError {
    match error {
        error if error.is_peer_gone() => ObjectError::RankEnded { rank, what: "a collective" },
        tombolo::Error::TimedOut { timeout, .. } => {
            let what = "a rank did not take part in a collective".to_owned();
            ObjectError::TimedOut { what, timeout, rank: None }
        }
        error => error.into(),
    }
}

fn send(rank: u32, channel: &mut Channel, value: &[u8], timeout: Duration) -> Result<(), ObjectError> {
    let piece_bytes = channel.max_message_bytes().max(2) - 1;
    let mut rest = value;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(piece_bytes));
        let message = [&[if after.is_empty() { LAST } else { MORE }][..], piece].concat();
        channel.within(timeout).send(&message).map_err(|error| ended(rank, error))?;
        if after.is_empty() {
            return Ok(());
        }
        rest = after;
    }
}

fn receive(rank: u32, channel: &mut Channel, timeout: Duration) -> Result<Vec<u8>, ObjectError> {
    let started = Instant::now();
    let (mut value, mut message) = (Vec::new(), Vec::new());
    loop {
        let left = timeout.saturating_sub(started.elapsed());
        channel.within(left).recv_into(&mut message).map_err(|error| ended(rank, error))?;
        match message.split_first() {
            Some((&LAST, piece)) => {
                value.extend_from_slice(piece);
                return Ok(value);
            }
            Some((&MORE, piece)) => value.extend_from_slice(piece),
            Some((&ENDED, who)) if who.len() == 4 => {
                return Err(ObjectError::RankEnded { rank: u32::decode(who), what: "a collective" });
            }
            _ => return Err(ObjectError::Unequal { rank, length_bytes: message.len(), expected_bytes: 1 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_below_one_child_of_each_rank_above_it() {
        for size in 1..70 {
            for rank in 0..size {
                let children: Vec<u32> = children_of(rank, size).collect();
                for child in &children {
                    assert_eq!(parent_of(*child), Some(rank));
                }
                for other in 0..size {
                    let above = children.iter().filter(|child| is_below(other, **child)).count();
                    let is_below = other != rank && is_below(other, rank);
                    assert_eq!(above, usize::from(is_below), "{other} below {rank} of {size}");
                }
                // The order of ranks: those below the first child come right after the rank.
                let mut next = rank + 1;
                for child in children {
                    assert_eq!(child, next);
                    next += lowest_bit(child);
                }
            }
        }
    }
}
