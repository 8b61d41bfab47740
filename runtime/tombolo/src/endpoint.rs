//! Endpoints: addresses of listeners that have no name of their own.

use std::hash::{BuildHasher, Hasher, RandomState};

use tombolo_control::Fault;
use tombolo_interface::Handle;

use crate::domain::Domain;
use crate::error::Error;
use crate::interface;
use crate::listener::{Accepted, Listener};
use crate::options::ChannelOptions;
use crate::region::{FarEnd, Right};

/// Prefix of the names of endpoints, followed by the number in 16 hexadecimal digits.
const PREFIX: &str = "endpoint-";

/// Address of a [`Listener`]: a random number of 64 bits that can be passed in messages. Any program that has
/// it can connect while the listener exists.
///
/// ```no_run
/// # use tombolo::{Domain, Error};
/// # fn main() -> Result<(), Error> {
/// let domain = Domain::attach()?;
/// let listener = domain.listen()?;
/// let endpoint = listener.endpoint().expect("it was not exported under a name");
/// let handle = endpoint.to_copy(); // a parameter `copy endpoint` of a message
/// # let _ = handle;
/// let channel = listener.accept()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    number: u64,
}

impl Endpoint {
    /// Converts to the value of a parameter `copy endpoint`.
    #[must_use]
    pub fn to_copy(self) -> interface::Endpoint<false> {
        Handle { object: self.number }
    }

    /// Converts to the value of a parameter `move endpoint`. The sender still knows the number; moving it
    /// only promises not to use it.
    #[must_use]
    pub fn to_move(self) -> interface::Endpoint<true> {
        Handle { object: self.number }
    }

    /// Returns the endpoint with a number that arrived in a message.
    #[must_use]
    pub fn from_number(number: u64) -> Endpoint {
        Endpoint { number }
    }

    /// Returns the name under which the machine registers the endpoint.
    #[must_use]
    pub fn name(self) -> String {
        format!("{PREFIX}{:016x}", self.number)
    }

    fn of_name(name: &str) -> Option<Endpoint> {
        let number = u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()?;
        Some(Endpoint { number }).filter(|endpoint| endpoint.name() == name)
    }
}

impl<const MOVED: bool> Right for interface::Endpoint<MOVED> {
    type Taken = Endpoint;

    /// Does not check that a domain still listens there: connecting does.
    fn accept(self, _: &Domain, _: FarEnd) -> Result<Endpoint, Error> {
        Ok(Endpoint { number: self.object })
    }
}

impl Domain {
    /// Listens under a random name of the machine, to be found by programs that receive the
    /// [endpoint](Listener::endpoint). The name is not secret, because names can be listed.
    ///
    /// # Errors
    /// Same as [`export`](Self::export).
    pub fn listen(&self) -> Result<Listener, Error> {
        ChannelOptions::default().listen(self)
    }
}

impl ChannelOptions {
    /// Like [`Domain::listen`], with these options.
    ///
    /// # Errors
    /// Same as [`Domain::export`].
    pub fn listen(&self, domain: &Domain) -> Result<Listener, Error> {
        loop {
            // `RandomState` is seeded by the system each time.
            let endpoint = Endpoint { number: RandomState::new().build_hasher().finish() };
            match self.export(domain, &endpoint.name()) {
                Err(Error::Monitor(Fault::NameTaken { .. })) => {}
                result => return result,
            }
        }
    }
}

impl<T: Accepted> Listener<T> {
    /// Returns the endpoint of a listener created by [`Domain::listen`].
    #[must_use]
    pub fn endpoint(&self) -> Option<Endpoint> {
        Endpoint::of_name(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_endpoints_are_their_numbers() {
        let endpoint = Endpoint { number: 0x00ab_cdef_0123_4567 };
        assert_eq!(endpoint.name(), "endpoint-00abcdef01234567");
        assert!(tombolo_control::is_name(&endpoint.name()));
        assert_eq!(Endpoint::of_name(&endpoint.name()), Some(endpoint));
        for other in [
            "endpoint-",
            "endpoint-00abcdef0123456",
            "endpoint-+0abcdef01234567",
            "endpoint-00ABCDEF01234567",
            "service",
        ] {
            assert_eq!(Endpoint::of_name(other), None, "{other}");
        }
    }
}
