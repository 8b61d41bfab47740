//! The barrier of a sleeper that spares its wakers theirs.
//!
//! A waker that publishes and then looks whether its peer sleeps needs its store ordered before its load: a
//! full fence per message. Between processes of one kernel the sleeper can pay instead: membarrier(2) makes
//! every registered process pass a full barrier, so the waker needs only to keep the compiler from reordering.

use std::sync::OnceLock;

use rustix::thread::{MembarrierCommand, membarrier};

static REGISTERED: OnceLock<bool> = OnceLock::new();

/// Registers this process for expedited barriers of others; true when the kernel can do it.
///
/// Cheap after the first call. Under an emulator that passes the call through, it holds for the emulator's
/// process, whose threads run the emulated program's loads and stores.
pub fn register() -> bool {
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// Makes every running thread of every registered process of this kernel pass a full memory barrier.
///
/// Where the kernel refuses it falls back to the slow form, which no kernel with membarrier refuses.
pub fn everywhere() {
    if membarrier(MembarrierCommand::GlobalExpedited).is_err() {
        let _ = membarrier(MembarrierCommand::Global);
    }
    tombolo_base::sync::fence(tombolo_base::sync::Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_kernel_has_it() {
        assert!(super::register());
        super::everywhere();
    }
}
