//! Power management, which is not supported: all calls return an error.

use core::ffi::{c_int, c_void};

use crate::failure::Code;
use crate::world::guard;

fn refuse(name: &str) -> c_int {
    guard(name, |code| code, || Err(Code::NoPowerManagement.into()))
}

/// `RCCE_power_domain`
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_power_domain() -> c_int {
    refuse("RCCE_power_domain")
}

/// `RCCE_power_domain_master`
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_power_domain_master() -> c_int {
    refuse("RCCE_power_domain_master")
}

/// `RCCE_power_domain_size`
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_power_domain_size() -> c_int {
    refuse("RCCE_power_domain_size")
}

/// `RCCE_iset_power`
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_iset_power(_: c_int, _: *mut c_void, _: *mut c_int, _: *mut c_int) -> c_int {
    refuse("RCCE_iset_power")
}

/// `RCCE_wait_power`
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_wait_power(_: *mut c_void) -> c_int {
    refuse("RCCE_wait_power")
}

/// `RCCE_set_frequency_divider`
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_set_frequency_divider(_: c_int, _: *mut c_int) -> c_int {
    refuse("RCCE_set_frequency_divider")
}
