//! Endpoints: listeners without a name of their own.

use std::hash::{BuildHasher, Hasher, RandomState};

use tombolo_control::Fault;
use tombolo_interface::Handle;

use crate::domain::Domain;
use crate::error::Error;
use crate::interface;
use crate::listener::{Accepted, Listener};
use crate::options::ChannelOptions;
use crate::region::{FarEnd, Right};

/// How names of endpoints begin. The number follows in 16 hexadecimal digits.
const PREFIX: &str = "endpoint-";

/// Where a [`Listener`] can be reached: a random number of 64 bits, to be passed in messages. Any program
/// that has it can connect, for as long as the listener is there.
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
    /// For a parameter `copy endpoint`.
    #[must_use]
    pub fn to_copy(self) -> interface::Endpoint<false> {
        Handle { object: self.number }
    }

    /// For a parameter `move endpoint`. The sender still knows the number: giving it away is a promise not to
    /// use it.
    #[must_use]
    pub fn to_move(self) -> interface::Endpoint<true> {
        Handle { object: self.number }
    }

    /// The endpoint of that number, as it came in a message.
    #[must_use]
    pub fn from_number(number: u64) -> Endpoint {
        Endpoint { number }
    }

    /// The name of the machine that it is.
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

    /// Whether a domain still listens there shows when it is connected to.
    fn accept(self, _: &Domain, _: FarEnd) -> Result<Endpoint, Error> {
        Ok(Endpoint { number: self.object })
    }
}

impl Domain {
    /// Listens under a random name of the machine, to be found by those who are told. The name is not secret,
    /// for names can be listed.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn listen(&self) -> Result<Listener, Error> {
        ChannelOptions::default().listen(self)
    }
}

impl ChannelOptions {
    /// As [`Domain::listen`], with these options.
    ///
    /// # Errors
    /// As [`Domain::export`].
    pub fn listen(&self, domain: &Domain) -> Result<Listener, Error> {
        loop {
            // Seeded by the system, each time.
            let endpoint = Endpoint { number: RandomState::new().build_hasher().finish() };
            match self.export(domain, &endpoint.name()) {
                Err(Error::Monitor(Fault::NameTaken { .. })) => {}
                result => return result,
            }
        }
    }
}

impl<T: Accepted> Listener<T> {
    /// Where it can be reached, of one that was made by [`Domain::listen`].
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
