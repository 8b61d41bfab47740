//! Rights as parameters of interfaces: how they go to the other end of a channel, and what is taken up of
//! what comes.

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

/// The other end of a channel, as the party that rights are passed to or come from. It can be kept beside a
/// server that has the channel. Made from a [`DomainId`], it stands for that domain, whatever brings it the
/// handle. What the domain never takes up is then released only by its end, or by [taking it
/// back](Domain::take_back).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FarEnd {
    domain: DomainId,
    channel: ChannelId,
}

impl FarEnd {
    /// The other end of a channel of which nothing else is at hand. What came over it is let go with the
    /// channel if an interface that passes rights was bound to that.
    #[must_use]
    pub fn new(domain: DomainId, channel: ChannelId) -> FarEnd {
        FarEnd { domain, channel }
    }

    /// The domain at the other end.
    #[must_use]
    pub fn domain(self) -> DomainId {
        self.domain
    }
}

impl From<&Channel> for FarEnd {
    fn from(channel: &Channel) -> Self {
        channel.rights().expect();
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

/// A handle that came with a message.
pub trait Right: sealed::Right {
    /// What it is taken up as.
    type Taken;
    #[doc(hidden)]
    fn accept(self, domain: &Domain, from: FarEnd) -> Result<Self::Taken, Error>;
}

/// A handle to a region or a part of one, which can be taken back until the receiver has taken it up.
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
        domain.take_up(self.number(), from, false)
    }
}

impl<const MOVED: bool> Right for interface::Region<MOVED> {
    type Taken = Region;

    fn accept(self, domain: &Domain, from: FarEnd) -> Result<Region, Error> {
        domain.take_up(self.number(), from, true).map(|capability| Region { capability })
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
    /// Derives another with those of the rights for the domain at the other end of a channel, which
    /// [accepts](Domain::accept) the handle that a message brings. A handle that was not sent is [taken
    /// back](Domain::take_back).
    ///
    /// # Errors
    /// [`Error::Monitor`]: this one does not give the right to grant, or those rights; there is no such
    /// domain any more.
    pub fn copy_to(
        &self,
        to: impl Into<FarEnd>,
        rights: Rights,
    ) -> Result<interface::Capability<false>, Error> {
        let to = to.into();
        let info = self.derived_for(None, rights, Some(to.domain), to.channel)?;
        Ok(Handle { object: info.id.0 })
    }

    /// Hands it over to the domain at the other end of a channel, which [accepts](Domain::accept) the handle
    /// that a message brings. Where this program has it mapped it is let go. A handle that was not sent is
    /// [taken back](Domain::take_back).
    ///
    /// # Errors
    /// As [`copy_to`](Self::copy_to); it is still this program's then.
    pub fn move_to(&self, to: impl Into<FarEnd>) -> Result<interface::Capability<true>, Error> {
        let to = to.into();
        Ok(Handle { object: self.give_over(to.domain, to.channel)?.0 })
    }
}

impl Region {
    /// As [`Capability::copy_to`], for parameters that are to be all of a region.
    ///
    /// # Errors
    /// As [`Capability::copy_to`].
    pub fn copy_to(&self, to: impl Into<FarEnd>, rights: Rights) -> Result<interface::Region<false>, Error> {
        self.capability.copy_to(to, rights).map(|handle| Handle { object: handle.object })
    }

    /// As [`Capability::move_to`], for parameters that are to be all of a region.
    ///
    /// # Errors
    /// As [`Capability::move_to`].
    pub fn move_to(&self, to: impl Into<FarEnd>) -> Result<interface::Region<true>, Error> {
        self.capability.move_to(to).map(|handle| Handle { object: handle.object })
    }
}

impl Domain {
    /// Takes up a right that came with a message: `from` is the channel that brought it, or its [`FarEnd`].
    ///
    /// # Errors
    /// [`Error::Monitor`] with a [`CapabilityFault`](crate::region::CapabilityFault): the domain there did
    /// not grant it to this program, it was taken up before, is not to all of a region where it has to be, or
    /// is gone. In the handler of a server `?` makes that the answer of this call.
    pub fn accept<R: Right>(&self, from: impl Into<FarEnd>, right: R) -> Result<R::Taken, Error> {
        right.accept(self, from.into())
    }

    /// Takes back what was copied or moved for a message that was not sent, or was not received: the right to
    /// it is this program's from then on. Of a copy that is dropped nothing is left.
    ///
    /// # Errors
    /// [`Error::Monitor`] with a [`CapabilityFault`](crate::region::CapabilityFault): it was taken up, or is
    /// gone.
    pub fn take_back(&self, granted: impl Granted) -> Result<Capability, Error> {
        let request = Request::CapabilityTakeBack { capability: granted.number() };
        match self.link.ask(request, ANSWER_TIMEOUT)?.0 {
            Reply::CapabilityTakeBack { capability } => Ok(self.holds(capability)),
            other => Err(unexpected(&other)),
        }
    }

    /// Takes up what a domain granted.
    pub(crate) fn take_up(
        &self,
        capability: CapabilityId,
        from: FarEnd,
        whole: bool,
    ) -> Result<Capability, Error> {
        self.accept_any(Request::CapabilityAccept { capability, granter: Some(from.domain), whole })
    }

    /// Takes up what this program was started with under a name. May be asked again.
    ///
    /// # Errors
    /// [`Error::Monitor`] with [`Fault::NotGiven`] names what there is; with `Fault::Capability` it was
    /// revoked.
    pub fn given(&self, name: &str) -> Result<Capability, Error> {
        match self.link.ask(Request::Given { name: name.to_owned() }, ANSWER_TIMEOUT)?.0 {
            Reply::Given { capability, .. } => Ok(self.holds(capability)),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) fn accept_any(&self, accept: Request) -> Result<Capability, Error> {
        match self.link.ask(accept, ANSWER_TIMEOUT)?.0 {
            Reply::CapabilityAccept { capability, .. } => Ok(self.holds(capability)),
            other => Err(unexpected(&other)),
        }
    }

    fn holds(&self, info: CapabilityInfo) -> Capability {
        Capability::held(Arc::clone(&self.link), info)
    }
}

/// What is wrong with a message that brought a right which this program does not get.
impl From<Error> for Malformed {
    fn from(_: Error) -> Self {
        Malformed::Right
    }
}

/// What a call is answered with: one that brought a right or a buffer which this program does not get is
/// refused; what else went wrong is not the caller's, and the call is not served.
impl<E> From<Error> for interface::Decline<E> {
    fn from(error: Error) -> Self {
        match error {
            Error::Monitor(Fault::Capability { .. }) | Error::Revoked { .. } => interface::Decline::Refused,
            Error::Bulk(BulkError::NoTransfer { .. } | BulkError::OtherVerb) => interface::Decline::Refused,
            _ => interface::Decline::Unserved,
        }
    }
}
