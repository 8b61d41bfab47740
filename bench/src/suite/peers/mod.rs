//! Peers without external dependencies: Tombolo itself, the kernel's mechanisms, and the limits of the
//! hardware.

pub mod bare;
pub mod c_ring;
pub mod copying;
pub mod in_process;
pub mod kernel;
pub mod lines;
pub mod stream;
pub mod tombolo;

use super::Peer;

/// Names of the further peers in `bench/peers`.
pub const FOREIGN: [&str; 5] = ["iceoryx2", "ZeroMQ", "Aeron IPC", "rtrb", "crossbeam"];

/// Returns all of them in table order.
#[must_use]
pub fn all() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(bare::Lines),
        Box::new(c_ring::CRing::default()),
        Box::new(tombolo::Facade::default()),
        Box::new(tombolo::Deep::default()),
        Box::new(tombolo::Wide::default()),
        Box::new(in_process::Threads),
        Box::new(bare::Buffers),
        Box::new(lines::Stream),
        Box::new(kernel::Futex),
        Box::new(kernel::EventCounter),
        Box::new(stream::Pipe),
        Box::new(stream::UnixStream),
        Box::new(stream::UnixPackets),
    ]
}
