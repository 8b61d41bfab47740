//! A channel of a handle, by itself or in a wait set of its own.

use tombolo::{Token, WaitSet, Waited};

use crate::status::{Failure, Status};

/// Where the channel of a handle is.
#[derive(Debug)]
pub(crate) enum Carrier<T> {
    /// As it was opened.
    Alone(Box<T>),
    /// In a set of its own, for its descriptor.
    Polled(Box<WaitSet<T>>, Token),
    /// On its way from one to the other.
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

    /// Puts the channel into a set, which is a descriptor.
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
