//! Devices that a program provides to the kernel: a network card ([`tap`]) and a disk ([`nbd`]).
//!
//! Both last as long as the program: the kernel removes them when their descriptors are closed, however the
//! program ends.

pub mod nbd;
pub mod tap;

use std::path::Path;

use crate::error::OsError;
use crate::guest::init;

/// Loads the modules for such devices, in a virtual machine of the kit, unless the device file exists.
///
/// # Errors
/// An error of the kernel, with the module. Missing modules are not an error: opening the device reports that
/// it is missing.
fn load_modules_for(device: &str) -> Result<(), OsError> {
    let modules = Path::new(init::DEVICE_MODULES);
    if Path::new(device).exists() || !modules.exists() {
        return Ok(());
    }
    init::load_modules(modules)
}
