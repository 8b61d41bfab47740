//! Transports of this workspace, one file each.

mod relayed;
mod shm;
mod sim;
mod stream;
mod window;
mod wrapped;

pub use relayed::{Medium, Relayed, RelayedEnd};
pub use shm::Shm;
pub use sim::Sim;
pub use stream::{Tcp, UnixStream};
pub use window::{FlushedWindow, WINDOW_OFFSET_BYTES, Window, resources};
pub use wrapped::{Captured, Late, LateRing, Polled, Stormy, TracedAll, WithoutSources, Wrapped, Wrapper};

use std::os::fd::OwnedFd;

/// Returns the descriptor of an end that has exactly one.
fn only(end: Vec<OwnedFd>) -> OwnedFd {
    let [descriptor] = end.try_into().expect("an end of one descriptor");
    descriptor
}
