//! Conformance suite that every transport must pass.
//!
//! A transport takes part with a file that implements [`Carrier`] and a test without a harness of its own:
//!
//! ```no_run
//! use tombolo_conformance::carriers::Shm;
//!
//! tombolo_conformance::suite! { Shm }
//! ```
//!
//! A case requires capabilities of the transport ([`tombolo_transport::Capabilities`]) or of the test
//! environment ([`Fixture`]). If one is missing, the case is reported as *ignored*, with the reason.
#![forbid(unsafe_code)]

mod any_channel;
mod carrier;
pub mod carriers;
mod cases;
mod harness;
pub mod messages;
mod patience;
pub mod peer;
mod subject;

pub use carrier::{Carrier, CheckMode, Fixture, Hostile, hello};
pub use cases::{Case, Requirement, all};
pub use harness::{run, run_one_by_one};
pub use patience::{deadline, expect_in_time, patience, set_patience};
pub use subject::{Subject, bare_pair};

/// Defines the `main` of a test with `harness = false`, which runs every case for each of the carriers named.
#[macro_export]
macro_rules! suite {
    ($($carrier:ty),* $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::run(&[$($crate::Subject::of::<$carrier>()),*])
        }
    };
}
