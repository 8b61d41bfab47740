//! The program as a domain.

use tombolo_bare::{Domain, Error};

use crate::Global;

static DOMAIN: Global<Option<Domain>> = Global::new(None);

/// The program's domain, of which a board has one: RCCE and `tombolo.h` share it.
///
/// # Errors
/// As [`Domain::attach`].
pub fn domain() -> Result<Domain, Error> {
    let mut domain = DOMAIN.lock();
    if let Some(domain) = &*domain {
        return Ok(domain.clone());
    }
    Ok(domain.insert(Domain::attach()?).clone())
}
