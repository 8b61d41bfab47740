//! Rights as parameters of interfaces: sends them to the other end of a channel, and takes up those that
//! arrive.

use std::sync::Arc;

use tombolo_base::{ChannelId, DomainId};
use tombolo_capability::{CapabilityId, CapabilityInfo, Rights};
use tombolo_control::{Fault, Reply, Request};
use tombolo_interface::{self as interface, Handle, Malformed};

use super::{Capability, Region};
use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::{BulkError, Error};
use crate::monitor::ANSWER_TIMEOUT;
use crate::monitor::unexpected;

/// Other end of a channel, as the recipient or the source of rights. It can be stored separately from the
/// channel, for example if a server owns that. Converted from a [`DomainId`], it refers to that domain,
/// independent of the channel that carries the handle. A right that the domain never takes up is then
/// released only when the domain ends, or by [taking it back](Domain::take_back).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FarEnd {
    domain: DomainId,
    channel: ChannelId,
}

impl FarEnd {
    /// Refers to the other end of a channel by its id. Rights that arrived over it and were not taken up are
    /// released with the channel if an interface that passes rights was bound to it.
    #[must_use]
    pub fn new(domain: DomainId, channel: ChannelId) -> FarEnd {
        FarEnd { domain, channel }
    }

    /// Domain at the other end.
    #[must_use]
    pub fn domain(self) -> DomainId {
        self.domain
    }
}

impl From<&Channel> for FarEnd {
    fn from(channel: &Channel) -> Self {
        channel.rights().mark_expected();
        FarEnd { domain: channel.peer(), channel: channel.id() }
    }
}

impl From<&mut Channel> for FarEnd {
    fn from(channel: &mut Channel) -> Self {
        FarEnd::from(&*channel)
    }
}

impl From<DomainId> for FarEnd {
    fn from(domain: DomainId) -> Self {
        FarEnd { domain, channel: ChannelId(0) }
    }
}

/// Handle that arrived in a message.
pub trait Right: sealed::Right {
    /// Type that the handle is taken up as.
    type Taken;
    #[doc(hidden)]
    fn accept(self, domain: &Domain, from: FarEnd) -> Result<Self::Taken, Error>;
}

/// Handle to a region or a part of one, which can be taken back until the receiver has taken it up.
pub trait Granted: Right {
    #[doc(hidden)]
    fn number(self) -> CapabilityId;
}

mod sealed {
    pub trait Right {}
    impl<const KIND: u8, const MOVED: bool> Right for tombolo_interface::Handle<KIND, MOVED> {}
}

impl<const MOVED: bool> Right for interface::Capability<MOVED> {
    type Taken = Capability;

    fn accept(self, domain: &Domain, from: FarEnd) -> Result<Capability, Error> {
        domain.accept_capability(self.number(), from, false)
    }
}

impl<const MOVED: bool> Right for interface::Region<MOVED> {
    type Taken = Region;

    fn accept(self, domain: &Domain, from: FarEnd) -> Result<Region, Error> {
        domain.accept_capability(self.number(), from, true).map(|capability| Region { capability })
    }
}

impl<const MOVED: bool> Granted for interface::Capability<MOVED> {
    fn number(self) -> CapabilityId {
        CapabilityId(self.object)
    }
}

impl<const MOVED: bool> Granted for interface::Region<MOVED> {
    fn number(self) -> CapabilityId {
        CapabilityId(self.object)
    }
}

impl Capability {
    /// Derives a capability with a subset of the rights for the domain at the other end of a channel, which
    /// [accepts](Domain::accept) the handle from a message. A handle that was not sent can be [taken
    /// back](Domain::take_back).
    ///
    /// # Errors
    /// [`Error::Monitor`] if this capability lacks the right to grant or those rights, or the domain no
    /// longer exists.
    pub fn copy_to(
        &self,
        to: impl Into<FarEnd>,
        rights: Rights,
    ) -> Result<interface::Capability<false>, Error> {
        let to = to.into();
        let info = self.derive_for_channel(None, rights, Some(to.domain), to.channel)?;
        Ok(Handle { object: info.id.0 })
    }

    /// Transfers the capability to the domain at the other end of a channel, which [accepts](Domain::accept)
    /// the handle from a message. This program's mappings of it are removed. A handle that was not sent can
    /// be [taken back](Domain::take_back).
    ///
    /// # Errors
    /// Same as [`copy_to`](Self::copy_to); the capability then still belongs to this program.
    pub fn move_to(&self, to: impl Into<FarEnd>) -> Result<interface::Capability<true>, Error> {
        let to = to.into();
        Ok(Handle { object: self.give_over_channel(to.domain, to.channel)?.0 })
    }
}

impl Region {
    /// Like [`Capability::copy_to`], for parameters that must be a whole region.
    ///
    /// # Errors
    /// Same as [`Capability::copy_to`].
    pub fn copy_to(&self, to: impl Into<FarEnd>, rights: Rights) -> Result<interface::Region<false>, Error> {
        self.capability.copy_to(to, rights).map(|handle| Handle { object: handle.object })
    }

    /// Like [`Capability::move_to`], for parameters that must be a whole region.
    ///
    /// # Errors
    /// Same as [`Capability::move_to`].
    pub fn move_to(&self, to: impl Into<FarEnd>) -> Result<interface::Region<true>, Error> {
        self.capability.move_to(to).map(|handle| Handle { object: handle.object })
    }
}

impl Domain {
    /// Takes up a right that arrived in a message; `from` is the channel that carried it, or its [`FarEnd`].
    ///
    /// # Errors
    /// [`Error::Monitor`] with a [`CapabilityFault`](crate::region::CapabilityFault) if that domain did not
    /// grant it to this program, it was taken up before, it does not cover a whole region although it must,
    /// or it no longer exists. In the handler of a server, `?` turns this into the answer of the call.
    pub fn accept<R: Right>(&self, from: impl Into<FarEnd>, right: R) -> Result<R::Taken, Error> {
        right.accept(self, from.into())
    }

    /// Takes back a right that was copied or moved for a message that was not sent or not received: it
    /// belongs to this program again. Dropping a copy that was taken back releases it.
    ///
    /// # Errors
    /// [`Error::Monitor`] with a [`CapabilityFault`](crate::region::CapabilityFault) if it was taken up, or
    /// no longer exists.
    pub fn take_back(&self, granted: impl Granted) -> Result<Capability, Error> {
        let request = Request::CapabilityTakeBack { capability: granted.number() };
        match self.link.ask(request, ANSWER_TIMEOUT)?.0 {
            Reply::CapabilityTakeBack { capability } => Ok(self.capability_from_info(capability)),
            other => Err(unexpected(&other)),
        }
    }

    /// Takes up a right that a domain granted.
    pub(crate) fn accept_capability(
        &self,
        capability: CapabilityId,
        from: FarEnd,
        whole: bool,
    ) -> Result<Capability, Error> {
        self.accept_any(Request::CapabilityAccept { capability, granter: Some(from.domain), whole })
    }

    /// Takes up a capability that this program was given at its start, by its name. Can be called repeatedly.
    ///
    /// # Errors
    /// [`Error::Monitor`] with [`Fault::NotGiven`], which lists the available names; with `Fault::Capability`
    /// if it was revoked.
    pub fn given(&self, name: &str) -> Result<Capability, Error> {
        match self.link.ask(Request::Given { name: name.to_owned() }, ANSWER_TIMEOUT)?.0 {
            Reply::Given { capability, .. } => Ok(self.capability_from_info(capability)),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) fn accept_any(&self, accept: Request) -> Result<Capability, Error> {
        match self.link.ask(accept, ANSWER_TIMEOUT)?.0 {
            Reply::CapabilityAccept { capability, .. } => Ok(self.capability_from_info(capability)),
            other => Err(unexpected(&other)),
        }
    }

    fn capability_from_info(&self, info: CapabilityInfo) -> Capability {
        Capability::from_info(Arc::clone(&self.link), info)
    }
}

/// Error of a message with a right that this program cannot take up.
impl From<Error> for Malformed {
    fn from(_: Error) -> Self {
        Malformed::Right
    }
}

/// Answer of a server to a call: a call whose right or buffer cannot be taken up is refused; for other
/// errors, which are not the caller's, the call is not served.
impl<E> From<Error> for interface::Decline<E> {
    fn from(error: Error) -> Self {
        match error {
            Error::Monitor(Fault::Capability { .. }) | Error::Revoked { .. } => interface::Decline::Refused,
            Error::Bulk(BulkError::NoTransfer { .. } | BulkError::OtherVerb) => interface::Decline::Refused,
            _ => interface::Decline::Unserved,
        }
    }
}
