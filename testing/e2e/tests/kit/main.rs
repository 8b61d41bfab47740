//! Tests that need the kit but no running machine. `cargo xtask ci` runs them in parallel with those that do,
//! at a low priority.

mod ahead;
mod install;
mod ompcc;
mod openmp;
