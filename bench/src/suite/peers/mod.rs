//! What needs nothing but this tree: Tombolo itself, what the kernel has, and what the machine can do at
//! best.

pub mod bare;
pub mod c_ring;
pub mod copying;
pub mod in_process;
pub mod kernel;
pub mod lines;
pub mod stream;
pub mod tombolo;

use super::Peer;

/// The names of those that `bench/peers` has besides.
pub const FOREIGN: [&str; 5] = ["iceoryx2", "ZeroMQ", "Aeron IPC", "rtrb", "crossbeam"];

/// All of them, in the order of tables.
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
