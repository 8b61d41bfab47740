//! Channel of a handle, alone or in a waitset of its own.

use tombolo::waitset::HasChannel;
use tombolo::{Token, WaitSet, Waited};

use crate::status::{Failure, Status};

/// Location of a handle's channel.
#[derive(Debug)]
pub(crate) enum Carrier<T> {
    /// Alone, as it was opened.
    Direct(Box<T>),
    /// In a waitset of its own, which provides a descriptor.
    Polled(Box<WaitSet<T>>, Token),
    /// Moving from one to the other.
    Moving,
}

impl<T: Waited<End: HasChannel>> Carrier<T> {
    pub(crate) fn new(channel: T) -> Self {
        Carrier::Direct(Box::new(channel))
    }

    pub(crate) fn channel(&mut self) -> Result<&mut T, Failure> {
        let channel = match self {
            Carrier::Direct(channel) => Some(&mut **channel),
            Carrier::Polled(set, token) => set.get_mut(*token),
            Carrier::Moving => None,
        };
        channel.ok_or_else(moving_failure)
    }

    /// Moves the channel into a waitset, if it is not in one yet.
    pub(crate) fn set(&mut self) -> Result<(&mut WaitSet<T>, Token), Failure> {
        if let Carrier::Direct(_) = self {
            let mut set = Box::new(WaitSet::new()?);
            let Carrier::Direct(channel) = std::mem::replace(self, Carrier::Moving) else {
                return Err(moving_failure());
            };
            match set.add(*channel) {
                Ok(token) => *self = Carrier::Polled(set, token),
                Err(refused) => {
                    *self = Carrier::Direct(Box::new(refused.kept));
                    return Err(refused.error.into());
                }
            }
        }
        match self {
            Carrier::Polled(set, token) => Ok((set, *token)),
            _ => Err(moving_failure()),
        }
    }
}

pub(crate) fn moving_failure() -> Failure {
    Failure::new(Status::Internal, "a channel was used while it was put into a wait set")
}
