//! Tree of channels for collectives; [`Members`] determines its structure.

use std::time::{Duration, Instant};

use tombolo::names::NameFault;
use tombolo::{Channel, ChannelOptions, Domain, Error, Listener};
use tombolo_sharing::{Members, Rank};

use crate::error::ObjectError;
use crate::plain::Plain;

/// First byte of a message: the last piece of a value.
const LAST: u8 = 0;
/// A piece that is followed by others.
const MORE: u8 = 1;
/// A rank has ended: no collective among these members can succeed.
const ENDED: u8 = 2;

/// Length of a wait for a channel before ended ranks are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) const COLLECTIVE: &str = "a collective";

/// This rank's node of the tree, with its channels.
#[derive(Debug)]
pub(crate) struct Tree {
    rank: u32,
    pub(crate) members: Members,
    parent: Option<(u32, Channel)>,
    /// Children, ordered by rank.
    children: Vec<(u32, Channel)>,
    /// The rank that ended, if one did.
    ended: Option<u32>,
}

/// Converts a rank number; a job that shares objects has at most 64.
pub(crate) fn rank_of(rank: u32) -> Rank {
    Rank(rank.try_into().unwrap_or(u8::MAX))
}

/// Returns the kind of a tree's channels. Each shrink creates a new tree.
fn channel_kind(generation: u32) -> String {
    if generation == 0 { "objects/tree".to_owned() } else { format!("objects/tree/{generation}") }
}

impl Tree {
    /// Opens the channels of this rank to other members, within the timeout of the domain.
    ///
    /// # Errors
    /// Also those of `check_members`, which is called during waits and checks whether a member has ended.
    pub(crate) fn open(
        domain: &Domain,
        job: &tombolo::Job,
        members: Members,
        generation: u32,
        check_members: impl Fn() -> Result<(), ObjectError>,
    ) -> Result<Tree, ObjectError> {
        let rank = job.rank();
        let options = ChannelOptions::default();
        let kind = channel_kind(generation);
        let name = |other| job.name_between(&kind, other).map_err(Error::from);
        let deadline = Instant::now() + domain.timeout();
        let listen = |child: Rank| {
            let child = u32::from(child.0);
            Ok((child, options.export(domain, &name(child)?)?))
        };
        let listeners = members.children(rank_of(rank)).map(listen).collect::<Result<Vec<_>, Error>>()?;
        let mut tree = Tree { rank, members, parent: None, children: Vec::new(), ended: None };
        let wait = Wait { deadline, timeout: domain.timeout(), check_members: &check_members };
        if let Some(parent) = members.parent(rank_of(rank)) {
            let parent = u32::from(parent.0);
            let name = name(parent)?;
            // Only the wait for the name is split into slices. If a connect were cut off, a parent that had
            // accepted it would be left with a closing channel.
            wait.poll_until(|slice| match domain.names().wait_for(&name, slice) {
                Err(error) if is_no_such_name(&error) => Ok(None),
                record => record.map(Some),
            })?;
            let connected = options.connect(&domain.within(wait.remaining()), &name);
            tree.parent = Some((parent, wait.check_ended(connected)?));
        }
        for (child, listener) in listeners {
            let accepted = wait.poll_until(|slice| match Listener::within(&listener, slice).accept() {
                Err(Error::TimedOut { .. }) => Ok(None),
                channel => channel.map(Some),
            })?;
            tree.children.push((child, accepted));
        }
        Ok(tree)
    }

    /// Runs this rank's part of a collective. On a permanent failure notifies the others.
    pub(crate) fn run<R>(
        &mut self,
        part: impl FnOnce(&mut Tree) -> Result<R, ObjectError>,
    ) -> Result<R, ObjectError> {
        if let Some(rank) = self.ended {
            return Err(ObjectError::RankEnded { rank, what: COLLECTIVE });
        }
        let outcome = part(self);
        if let Err(ObjectError::RankEnded { rank, .. }) = outcome {
            self.end(rank);
        }
        outcome
    }

    /// Ends all collectives of this tree because `rank` has ended, and notifies the others.
    pub(crate) fn end(&mut self, rank: u32) {
        self.ended = Some(rank);
        let message = [&[ENDED][..], &rank.to_le_bytes()].concat();
        for (_, channel) in self.parent.iter_mut().chain(&mut self.children) {
            // Errors are ignored: a rank that is gone needs no message.
            let _ = channel.try_send(&message);
        }
    }

    fn is_below(&self, rank: u32, top: u32) -> bool {
        self.members.is_below(rank_of(rank), rank_of(top))
    }

    /// Sends a value of `root` to all, and returns it.
    pub(crate) fn broadcast(
        &mut self,
        root: u32,
        value: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, ObjectError> {
        let mut value = value;
        let members = self.members;
        // First up to rank 0.
        if self.rank == root {
            if let Some((rank, parent)) = &mut self.parent {
                send(*rank, parent, &value, timeout)?;
            }
        } else if self.is_below(root, self.rank) {
            let is_above = |child: u32| members.is_below(rank_of(root), rank_of(child));
            if let Some((rank, child)) = self.children.iter_mut().find(|(child, _)| is_above(*child)) {
                value = receive(*rank, child, timeout)?;
            }
            if let Some((rank, parent)) = &mut self.parent {
                send(*rank, parent, &value, timeout)?;
            }
        }
        if let Some((rank, parent)) = &mut self.parent {
            value = receive(*rank, parent, timeout)?;
        }
        // The child with the largest subtree first.
        for (rank, child) in self.children.iter_mut().rev() {
            send(*rank, child, &value, timeout)?;
        }
        Ok(value)
    }

    /// Combines values; rank 0 gets the result.
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

/// Returns whether the error is that a name does not exist.
pub(crate) fn is_no_such_name(error: &Error) -> bool {
    matches!(error.name_fault(), Some(NameFault::NoSuchName { .. }))
}

/// A wait for other members to open their channel ends, during which a member may end.
struct Wait<'a> {
    deadline: Instant,
    timeout: Duration,
    check_members: &'a dyn Fn() -> Result<(), ObjectError>,
}

impl Wait<'_> {
    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Calls `attempt` with slices of the remaining time until it succeeds, and checks for ended members in
    /// between.
    fn poll_until<T>(
        &self,
        attempt: impl Fn(Duration) -> Result<Option<T>, Error>,
    ) -> Result<T, ObjectError> {
        loop {
            let left = self.remaining();
            match self.check_ended(attempt(left.min(CHECK_INTERVAL)))? {
                Some(found) => return Ok(found),
                None if left <= CHECK_INTERVAL => {
                    let what = "a rank did not open its channel for collectives".to_owned();
                    return Err(ObjectError::TimedOut { what, timeout: self.timeout, rank: None });
                }
                None => (self.check_members)()?,
            }
        }
    }

    /// Replaces an error by that of an ended member, if one has ended, so that all members get the same one.
    fn check_ended<T>(&self, outcome: Result<T, Error>) -> Result<T, ObjectError> {
        match outcome {
            Ok(value) => Ok(value),
            Err(error) => {
                (self.check_members)()?;
                Err(error.into())
            }
        }
    }
}

fn rank_error(rank: u32, error: Error) -> ObjectError {
    match error {
        error if error.is_peer_gone() => ObjectError::RankEnded { rank, what: COLLECTIVE },
        Error::TimedOut { timeout, .. } => {
            let what = "a rank did not take part in a collective".to_owned();
            ObjectError::TimedOut { what, timeout, rank: None }
        }
        error => error.into(),
    }
}

/// Returns the error of a failed send. The last message of a rank that is gone may name one that ended
/// before.
fn send_error(rank: u32, channel: &mut Channel, error: Error) -> ObjectError {
    if error.is_peer_gone() {
        let mut message = Vec::new();
        while let Ok(Some(_)) = channel.try_recv_into(&mut message) {
            if let Some((&ENDED, who)) = message.split_first()
                && who.len() == 4
            {
                return ObjectError::RankEnded { rank: u32::decode(who), what: COLLECTIVE };
            }
        }
    }
    rank_error(rank, error)
}

fn send(rank: u32, channel: &mut Channel, value: &[u8], timeout: Duration) -> Result<(), ObjectError> {
    let piece_bytes = channel.max_message_bytes().max(2) - 1;
    let mut rest = value;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(piece_bytes));
        let message = [&[if after.is_empty() { LAST } else { MORE }][..], piece].concat();
        if let Err(error) = channel.within(timeout).send(&message) {
            return Err(send_error(rank, channel, error));
        }
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
        channel.within(left).recv_into(&mut message).map_err(|error| rank_error(rank, error))?;
        match message.split_first() {
            Some((&LAST, piece)) => {
                value.extend_from_slice(piece);
                return Ok(value);
            }
            Some((&MORE, piece)) => value.extend_from_slice(piece),
            Some((&ENDED, who)) if who.len() == 4 => {
                return Err(ObjectError::RankEnded { rank: u32::decode(who), what: COLLECTIVE });
            }
            _ => return Err(ObjectError::Unequal { rank, length_bytes: message.len(), expected_bytes: 1 }),
        }
    }
}
