//! Capabilities to services: the right to open channels to a listener, with or without a name.

use tombolo_control::{Reply, Request};

use super::Capability;
use crate::bulk::BulkChannel;
use crate::domain::Domain;
use crate::error::Error;
use crate::listener::{Accepted, Listener};
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
    /// let channel = listener.accept()?; // there: domain.connect(&domain.given("store")?)
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Monitor`] when a limit is met.
    pub fn serve(&self) -> Result<(Listener, Capability), Error> {
        ChannelOptions::default().serve(self)
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

impl<T: Accepted> Listener<T> {
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
        serve(domain, self.clone(), ())
    }
}

impl BulkOptions {
    /// As [`Domain::serve`], for [bulk channels](crate::bulk).
    ///
    /// # Errors
    /// As [`Domain::serve`].
    pub fn serve(&self, domain: &Domain) -> Result<(Listener<BulkChannel>, Capability), Error> {
        serve(domain, self.underneath(), self.clone())
    }
}

fn serve<T: Accepted>(
    domain: &Domain,
    options: ChannelOptions,
    terms: T::Terms,
) -> Result<(Listener<T>, Capability), Error> {
    let (capability, listener) = domain.service(None)?;
    Ok((Listener::new(domain, (listener, String::new()), options, terms), capability))
}
