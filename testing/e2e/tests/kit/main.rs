//! What needs the kit and brings no machine up. `cargo xtask ci` runs it beside programs that do, at a low
//! priority.

mod ahead;
mod install;
mod ompcc;
mod openmp;
