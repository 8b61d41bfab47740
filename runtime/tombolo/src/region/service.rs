//! Capabilities to services: the right to open channels to a listener, with or without a name.

use std::time::Duration;

use tombolo_capability::Kind;
use tombolo_control::{Reply, Request};
use tombolo_platform::Deadline;

use super::Capability;
use crate::bulk::BulkChannel;
use crate::channel::Channel;
use crate::domain::{Domain, Listener};
use crate::error::Error;
use crate::monitor::{ANSWER_TIMEOUT, unexpected};
use crate::options::{BulkOptions, ChannelOptions};

impl Domain {
    /// Listens without a name: who wants to connect needs a [capability](Listener::capability) to it.
    ///
    /// ```no_run
    /// # use tombolo::{Domain, Error, SpawnOptions};
    /// # use tombolo::region::Rights;
    /// # fn main() -> Result<(), Error> {
    /// let domain = Domain::attach()?;
    /// let (listener, service) = domain.serve()?;
    /// let child = SpawnOptions::image("work.tbi").give("store", &service, Rights::CONNECT);
    /// let child = domain.spawn(&child)?;
    /// let channel = listener.accept()?; // there: domain.connect_by(&domain.given("store")?)
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Monitor`] when a limit is met.
    pub fn serve(&self) -> Result<(Listener, Capability), Error> {
        ChannelOptions::default().serve(self)
    }

    /// Opens a channel by a capability to a service, whose rights have to contain
    /// [`Rights::CONNECT`](super::Rights::CONNECT).
    ///
    /// # Errors
    /// [`Error::Monitor`]: the capability does not give the right, or was revoked; else as
    /// [`connect`](Self::connect).
    pub fn connect_by(&self, service: &Capability) -> Result<Channel, Error> {
        ChannelOptions::default().connect_by(self, service)
    }

    fn service(&self, listener: Option<u32>) -> Result<(Capability, u32), Error> {
        match self.link.ask(Request::ServiceCreate { listener }, ANSWER_TIMEOUT)?.0 {
            Reply::ServiceCreate { capability, listener } => {
                Ok((Capability::held(self.link.clone(), capability), listener))
            }
            other => Err(unexpected(&other)),
        }
    }
}

impl Listener {
    /// A new capability to this listener, with the rights to connect and to grant that. It is good for as
    /// long as the listener is there. To revoke it keeps others from opening channels; those that are open
    /// stay.
    ///
    /// # Errors
    /// [`Error::Monitor`] when a limit is met.
    pub fn capability(&self) -> Result<Capability, Error> {
        self.domain().service(Some(self.number())).map(|(capability, _)| capability)
    }
}

impl ChannelOptions {
    /// As [`Domain::serve`], with these options.
    ///
    /// # Errors
    /// As [`Domain::serve`].
    pub fn serve(&self, domain: &Domain) -> Result<(Listener, Capability), Error> {
        self.serve_bulk(domain, BulkOptions::default())
    }

    fn serve_bulk(&self, domain: &Domain, bulk: BulkOptions) -> Result<(Listener, Capability), Error> {
        let (capability, listener) = domain.service(None)?;
        Ok((domain.listener(listener, String::new(), self.clone(), bulk), capability))
    }

    /// As [`Domain::connect_by`], with these options.
    ///
    /// # Errors
    /// As [`Domain::connect_by`].
    pub fn connect_by(&self, domain: &Domain, service: &Capability) -> Result<Channel, Error> {
        let deadline = Deadline::after(domain.timeout());
        let request = domain.connection_by(service.id(), self);
        let patience: Duration = domain.timeout().saturating_add(ANSWER_TIMEOUT);
        self.opened(domain, domain.link.ask(request, patience)?, deadline)
    }
}

impl BulkOptions {
    /// As [`Domain::serve`], for [bulk channels](crate::bulk).
    ///
    /// # Errors
    /// As [`Domain::serve`].
    pub fn serve(&self, domain: &Domain) -> Result<(Listener, Capability), Error> {
        self.underneath().serve_bulk(domain, self.clone())
    }

    /// As [`Domain::connect_by`], for [bulk channels](crate::bulk).
    ///
    /// # Errors
    /// As [`Domain::connect_by`] and [`Domain::connect_bulk`].
    pub fn connect_by(&self, domain: &Domain, service: &Capability) -> Result<BulkChannel, Error> {
        let channel = self.underneath().connect_by(domain, service)?;
        BulkChannel::open_over(domain, channel, self, domain.timeout())
    }
}

impl Capability {
    /// Whether it is to a service, so that [channels are opened](Domain::connect_by) with it.
    #[must_use]
    pub fn is_service(&self) -> bool {
        self.kind() == Kind::Service
    }
}
