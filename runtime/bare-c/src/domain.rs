//! The program's attachment to the machine as a domain.

use tombolo_bare::{Domain, Error};

use crate::Global;

static DOMAIN: Global<Option<Domain>> = Global::new(None);

/// Returns the program's domain. RCCE and `tombolo.h` share it, because a program on a board has only one.
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
