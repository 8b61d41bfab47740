//! The program that runs on the remote node of a measurement, and the messages that both programs exchange.
//!
//! The program of this crate, `bench-peer`, is compiled for every instruction set. The code that only the
//! measuring side needs, which reads clocks and writes reports, is in `tombolo-bench`.
#![forbid(unsafe_code)]

pub mod bulk;
pub mod content;
pub mod cpus;
pub mod devices;
mod error;
pub mod figures;
pub mod lines;
pub mod network;
pub mod placement;
pub mod placing;
pub mod ring;

pub use error::Error;
pub use ring::end::SpinTimeout;

/// One of the two programs of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The program that leads and takes the times.
    Near,
    /// The program that the near side has started.
    Far,
}
