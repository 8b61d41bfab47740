//! What programs call for devices: `omp_target_alloc`, `omp_target_memcpy` and their like.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::order::{Construct, Order, OrderKind, count_moved};
use crate::team::root::Root;
use crate::team::thread::Thread;

/// Where builds of the program have what they share besides the store: from the first address to the second.
static SHARED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Says which addresses mean the same to all workers, besides those of the store.
pub fn set_shared(begin: usize, end: usize) {
    SHARED[0].store(begin, Ordering::Relaxed);
    SHARED[1].store(end, Ordering::Relaxed);
}

/// Whether all workers have the same there.
pub fn is_shared(root: &Root, address: usize) -> bool {
    let [begin, end] = [&SHARED[0], &SHARED[1]].map(|word| word.load(Ordering::Relaxed));
    root.store.holds(address) || (begin..end).contains(&address)
}

/// How many devices there are besides the host.
pub fn count(root: &Root) -> u32 {
    if root.settings.offload_disabled { 0 } else { root.nodes().count() - 1 }
}

/// Memory of a device; 0 if there is none.
pub fn allocate(me: &'static Thread, node: u32, bytes: usize) -> usize {
    with_words(me, node, OrderKind::Allocate, [bytes, 0, 0])[0]
}

/// Gives memory of a device back.
pub fn release(me: &'static Thread, node: u32, memory: usize) {
    with_words(me, node, OrderKind::Release, [memory, 0, 0]);
}

fn with_words(me: &'static Thread, node: u32, kind: OrderKind, words: [usize; 3]) -> [usize; 3] {
    let order = Order::new(me.root(), node, Construct::Call, kind, &[]);
    order.words.set(words);
    order.carry_out(me);
    let words = order.words.get();
    order.release(me.store());
    words
}

/// Bytes that are copied at a time by way of memory that both sides reach.
const PIECE: usize = 1 << 20;

/// The order for a device to copy bytes, if one can do so alone: each side is of a device, by its node, or of
/// the host, `None`.
pub fn order_to_copy(
    root: &'static Root,
    (to, target): (Option<u32>, usize),
    (from, source): (Option<u32>, usize),
    bytes: usize,
) -> Option<&'static Order> {
    let last = bytes.saturating_sub(1);
    let reaches = |address: usize| is_shared(root, address) && is_shared(root, address.saturating_add(last));
    let node = match (to, from) {
        (Some(node), None) if reaches(source) => node,
        (None, Some(node)) if reaches(target) => node,
        (Some(node), Some(other)) if node == other => node,
        _ => return None,
    };
    count_copied(root, to, from, bytes);
    let order = Order::new(root, node, Construct::Call, OrderKind::Copy, &[]);
    order.words.set([target, source, bytes]);
    Some(order)
}

fn count_copied(root: &Root, to: Option<u32>, from: Option<u32>, bytes: usize) {
    let count = |node: Option<u32>, moved: (u64, u64)| {
        if let Some(node) = node {
            count_moved(root.devices().at(node), moved);
        }
    };
    count(to, (bytes as u64, 0));
    count(from, (0, bytes as u64));
}

/// Copies bytes: each side is of a device, by its node, or of the host, `None`.
///
/// # Safety
/// Both are there, so long; on the host for the calling thread.
pub unsafe fn copy(
    me: &'static Thread,
    (to, target): (Option<u32>, usize),
    (from, source): (Option<u32>, usize),
    bytes: usize,
) {
    let root = me.root();
    if to.is_none() && from.is_none() {
        // SAFETY: the caller says so.
        return unsafe { ptr::copy(source as *const u8, target as *mut u8, bytes) };
    }
    if let Some(order) = order_to_copy(root, (to, target), (from, source), bytes) {
        order.carry_out(me);
        return order.release(me.store());
    }
    count_copied(root, to, from, bytes);
    let order = |node: u32, target: usize, source: usize, bytes: usize| {
        with_words(me, node, OrderKind::Copy, [target, source, bytes]);
    };
    let piece = bytes.clamp(1, PIECE);
    let Some(stage) = root.store.allocate(piece, 64) else { root.store.exhausted() };
    for at in (0..bytes).step_by(piece) {
        let length = piece.min(bytes - at);
        match from {
            Some(node) => order(node, stage as usize, source + at, length),
            // SAFETY: the caller says so; the piece is that long.
            None => unsafe { ptr::copy((source + at) as *const u8, stage, length) },
        }
        match to {
            Some(node) => order(node, target + at, stage as usize, length),
            // SAFETY: as above.
            None => unsafe { ptr::copy(stage, (target + at) as *mut u8, length) },
        }
    }
    // SAFETY: it came from the store, and it is not used any more.
    unsafe { root.store.release(stage) };
}
