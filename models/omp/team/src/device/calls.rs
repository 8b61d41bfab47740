//! Device memory routines for programs: `omp_target_alloc`, `omp_target_memcpy` and others.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::command::{Command, CommandKind, Construct, count_transferred_bytes};
use crate::team::root::Root;
use crate::team::thread::Thread;

/// Address range shared by builds of the program besides the store: start and end.
static SHARED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Sets the address range that is the same for all workers, besides the store.
pub fn set_shared(begin: usize, end: usize) {
    SHARED[0].store(begin, Ordering::Relaxed);
    SHARED[1].store(end, Ordering::Relaxed);
}

/// Whether the memory at an address is shared by all workers.
pub fn is_shared(root: &Root, address: usize) -> bool {
    let [begin, end] = [&SHARED[0], &SHARED[1]].map(|word| word.load(Ordering::Relaxed));
    root.store.contains(address) || (begin..end).contains(&address)
}

/// Returns the number of devices besides the host.
pub fn count(root: &Root) -> u32 {
    if root.settings.offload_disabled { 0 } else { root.nodes().count() - 1 }
}

/// Allocates memory on a device; returns 0 if it has none left.
pub fn allocate(me: &'static Thread, node: u32, bytes: usize) -> usize {
    execute_with_arguments(me, node, CommandKind::Allocate, [bytes, 0, 0])[0]
}

/// Frees memory of a device.
pub fn release(me: &'static Thread, node: u32, memory: usize) {
    execute_with_arguments(me, node, CommandKind::Release, [memory, 0, 0]);
}

fn execute_with_arguments(
    me: &'static Thread,
    node: u32,
    kind: CommandKind,
    arguments: [usize; 3],
) -> [usize; 3] {
    let command = Command::new(me.root(), node, Construct::Call, kind, &[]);
    command.arguments.set(arguments);
    command.execute_and_wait(me);
    let arguments = command.arguments.get();
    command.release(me.store());
    arguments
}

/// Size of the pieces in which data is copied through shared memory, in bytes.
const COPY_CHUNK_BYTES: usize = 1 << 20;

/// Creates the command for a device to copy bytes, if one device can access both sides. Each side is on a
/// device, given by its node, or on the host (`None`).
pub fn create_copy_command(
    root: &'static Root,
    (to, target): (Option<u32>, usize),
    (from, source): (Option<u32>, usize),
    bytes: usize,
) -> Option<&'static Command> {
    let last = bytes.saturating_sub(1);
    let reaches = |address: usize| is_shared(root, address) && is_shared(root, address.saturating_add(last));
    let node = match (to, from) {
        (Some(node), None) if reaches(source) => node,
        (None, Some(node)) if reaches(target) => node,
        (Some(node), Some(other)) if node == other => node,
        _ => return None,
    };
    count_copied(root, to, from, bytes);
    let command = Command::new(root, node, Construct::Call, CommandKind::Copy, &[]);
    command.arguments.set([target, source, bytes]);
    Some(command)
}

fn count_copied(root: &Root, to: Option<u32>, from: Option<u32>, bytes: usize) {
    let count = |node: Option<u32>, moved: (u64, u64)| {
        if let Some(node) = node {
            count_transferred_bytes(root.devices().at(node), moved);
        }
    };
    count(to, (bytes as u64, 0));
    count(from, (0, bytes as u64));
}

/// Copies bytes. Each side is on a device, given by its node, or on the host (`None`).
///
/// # Safety
/// Both ranges must be valid; one on the host must be accessible to the calling thread.
pub unsafe fn copy(
    me: &'static Thread,
    (to, target): (Option<u32>, usize),
    (from, source): (Option<u32>, usize),
    bytes: usize,
) {
    let root = me.root();
    if to.is_none() && from.is_none() {
        // SAFETY: guaranteed by the caller.
        return unsafe { ptr::copy(source as *const u8, target as *mut u8, bytes) };
    }
    if let Some(command) = create_copy_command(root, (to, target), (from, source), bytes) {
        command.execute_and_wait(me);
        return command.release(me.store());
    }
    count_copied(root, to, from, bytes);
    let command = |node: u32, target: usize, source: usize, bytes: usize| {
        execute_with_arguments(me, node, CommandKind::Copy, [target, source, bytes]);
    };
    let piece = bytes.clamp(1, COPY_CHUNK_BYTES);
    let Some(stage) = root.store.allocate(piece, 64) else { root.store.exhausted() };
    for at in (0..bytes).step_by(piece) {
        let length = piece.min(bytes - at);
        match from {
            Some(node) => command(node, stage as usize, source + at, length),
            // SAFETY: the caller guarantees the source; the stage has room for the piece.
            None => unsafe { ptr::copy((source + at) as *const u8, stage, length) },
        }
        match to {
            Some(node) => command(node, target + at, stage as usize, length),
            // SAFETY: the caller guarantees the target; the stage has room for the piece.
            None => unsafe { ptr::copy(stage, (target + at) as *mut u8, length) },
        }
    }
    // SAFETY: it came from the store and is no longer used.
    unsafe { root.store.release(stage) };
}
