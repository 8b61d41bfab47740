//! Code that client and server share: the stubs, which the build script writes, the pictures, and the choice
//! of memory for pools.

include!(concat!(env!("OUT_DIR"), "/edges.rs"));

use tombolo::nodes::NodeKind;
use tombolo::{Channel, Domain, Error, PoolOptions};

/// Width of a frame in pixels.
pub const WIDTH: usize = 320;
/// Length of a frame in bytes, one per pixel.
pub const FRAME_BYTES: usize = WIDTH * 240;
/// Buffers in the pool of the client, and in that of the server.
pub const BUFFERS: u32 = 4;

/// Returns frame `number`: a moving chessboard.
pub fn frame(number: u64) -> Vec<u8> {
    let is_white = |at: usize| ((at % WIDTH + number as usize) / 40 + at / WIDTH / 40).is_multiple_of(2);
    (0..FRAME_BYTES).map(|at| if is_white(at) { 220 } else { 20 }).collect()
}

/// Turns a frame into its edges, 255 where a pixel differs from its right neighbour, and counts them.
pub fn find_edges(pixels: &mut [u8]) -> u64 {
    let mut count = 0;
    for row in pixels.chunks_mut(WIDTH) {
        for x in 0..row.len() {
            let is_edge = row.get(x + 1).is_some_and(|right| row[x].abs_diff(*right) > 100);
            row[x] = if is_edge { 255 } else { 0 };
            count += u64::from(is_edge);
        }
    }
    count
}

/// Returns options of a pool that both ends of a channel can map: in the window of a virtual machine if one
/// of them runs on it.
///
/// # Errors
/// An error if the monitor does not reply.
pub fn pool_between(domain: &Domain, channel: &Channel) -> Result<PoolOptions, Error> {
    let options = PoolOptions::new(FRAME_BYTES as u64, BUFFERS);
    let ends = [domain.node_name(), channel.peer_node()];
    let machine =
        domain.nodes()?.into_iter().find(|node| node.kind == NodeKind::Vm && ends.contains(&&*node.name));
    Ok(match machine {
        Some(node) => options.reachable_from(&node.name),
        None => options,
    })
}
