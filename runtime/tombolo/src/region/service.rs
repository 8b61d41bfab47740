//! Capabilities for services: the right to open channels to a listener, with or without a name.

use tombolo_control::{Reply, Request};

use super::Capability;
use crate::bulk::BulkChannel;
use crate::domain::Domain;
use crate::error::Error;
use crate::listener::{Accepted, Listener};
use crate::monitor::{ANSWER_TIMEOUT, unexpected};
use crate::options::{BulkOptions, ChannelOptions};

impl Domain {
    /// Listens without a name: domains that want to connect need a [capability](Listener::capability) for the
    /// listener.
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
    /// [`Error::Monitor`] if a limit is exceeded.
    pub fn serve(&self) -> Result<(Listener, Capability), Error> {
        ChannelOptions::default().serve(self)
    }

    fn service(&self, listener: Option<u32>) -> Result<(Capability, u32), Error> {
        match self.link.ask(Request::ServiceCreate { listener }, ANSWER_TIMEOUT)?.0 {
            Reply::ServiceCreate { capability, listener } => {
                Ok((Capability::from_info(self.link.clone(), capability), listener))
            }
            other => Err(unexpected(&other)),
        }
    }
}

impl<T: Accepted> Listener<T> {
    /// Creates a capability for this listener, with the rights to connect and to grant that right. It is
    /// valid while the listener exists. Revoking it prevents other domains from opening channels; existing
    /// channels stay open.
    ///
    /// # Errors
    /// [`Error::Monitor`] if a limit is exceeded.
    pub fn capability(&self) -> Result<Capability, Error> {
        self.domain().service(Some(self.number())).map(|(capability, _)| capability)
    }
}

impl ChannelOptions {
    /// Like [`Domain::serve`], with these options.
    ///
    /// # Errors
    /// Same as [`Domain::serve`].
    pub fn serve(&self, domain: &Domain) -> Result<(Listener, Capability), Error> {
        serve(domain, self.clone(), ())
    }
}

impl BulkOptions {
    /// Like [`Domain::serve`], for [bulk channels](crate::bulk).
    ///
    /// # Errors
    /// Same as [`Domain::serve`].
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
