//! Channel of a handle, alone or in a waitset of its own.

use tombolo::{Token, WaitSet, Waited};

use crate::status::{Failure, Status};

/// Location of a handle's channel.
#[derive(Debug)]
pub(crate) enum Carrier<T> {
    /// Alone, as it was opened.
    Alone(Box<T>),
    /// In a waitset of its own, which provides a descriptor.
    Polled(Box<WaitSet<T>>, Token),
    /// Moving from one to the other.
    Nowhere,
}

impl<T: Waited> Carrier<T> {
    pub(crate) fn new(channel: T) -> Self {
        Carrier::Alone(Box::new(channel))
    }

    pub(crate) fn channel(&mut self) -> Result<&mut T, Failure> {
        let channel = match self {
            Carrier::Alone(channel) => Some(&mut **channel),
            Carrier::Polled(set, token) => set.get_mut(*token),
            Carrier::Nowhere => None,
        };
        channel.ok_or_else(nowhere)
    }

    /// Moves the channel into a waitset, if it is not in one yet.
    pub(crate) fn set(&mut self) -> Result<(&mut WaitSet<T>, Token), Failure> {
        if let Carrier::Alone(_) = self {
            let mut set = Box::new(WaitSet::new()?);
            let Carrier::Alone(channel) = std::mem::replace(self, Carrier::Nowhere) else {
                return Err(nowhere());
            };
            match set.add(*channel) {
                Ok(token) => *self = Carrier::Polled(set, token),
                Err(refused) => {
                    *self = Carrier::Alone(Box::new(refused.kept));
                    return Err(refused.error.into());
                }
            }
        }
        match self {
            Carrier::Polled(set, token) => Ok((set, *token)),
            _ => Err(nowhere()),
        }
    }
}

pub(crate) fn nowhere() -> Failure {
    Failure::new(Status::Internal, "a channel was used while it was put into a wait set")
}
