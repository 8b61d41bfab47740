//! Addresses that a domain can connect to.

use std::fmt;

use tombolo_capability::CapabilityId;

use crate::endpoint::Endpoint;
use crate::region::Capability;

/// Target of [`Domain::connect`](crate::Domain::connect): an exported name, an [`Endpoint`], or a
/// [`Capability`] for a service. Each of them converts with `into()`, so it can be passed to these calls
/// directly.
///
/// ```no_run
/// # use tombolo::{Domain, Endpoint, Error};
/// # use tombolo::region::Capability;
/// # fn connect(domain: &Domain, endpoint: Endpoint, service: &Capability) -> Result<(), Error> {
/// let by_name = domain.connect("store")?;
/// let by_endpoint = domain.connect(endpoint)?;
/// let by_capability = domain.connect(service)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Address(pub(crate) To);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum To {
    Name(String),
    Service(CapabilityId),
}

impl From<&str> for Address {
    fn from(name: &str) -> Self {
        Address(To::Name(name.to_owned()))
    }
}

impl From<&String> for Address {
    fn from(name: &String) -> Self {
        Address::from(name.as_str())
    }
}

impl From<String> for Address {
    fn from(name: String) -> Self {
        Address(To::Name(name))
    }
}

impl From<Endpoint> for Address {
    fn from(endpoint: Endpoint) -> Self {
        Address(To::Name(endpoint.name()))
    }
}

/// The capability needs [`Rights::CONNECT`](crate::region::Rights::CONNECT).
impl From<&Capability> for Address {
    fn from(service: &Capability) -> Self {
        Address(To::Service(service.id()))
    }
}

/// Formats the address as it appears in errors.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            To::Name(name) => f.write_str(name),
            To::Service(service) => write!(f, "capability {service}"),
        }
    }
}
