//! Asymmetric barrier: the sleeper pays for it, so that its wakers need no fence.
//!
//! A waker that publishes and then checks whether its peer sleeps needs its store ordered before its load: a
//! full fence per message. Between processes of one kernel the sleeper can pay instead: membarrier(2) makes
//! every registered process execute a full barrier, so the waker only needs to keep the compiler from
//! reordering.

use std::sync::OnceLock;

use rustix::thread::{MembarrierCommand, membarrier};

static REGISTERED: OnceLock<bool> = OnceLock::new();

/// Registers this process for expedited barriers of other processes. Returns whether the kernel supports
/// them.
///
/// Cheap after the first call, and in a process of one thread. Otherwise the kernel waits for a grace period
/// of RCU, which may take seconds on a busy host: call it before there is a second thread. Under an emulator
/// that forwards the call, it applies to the emulator's process, whose threads execute the emulated program's
/// loads and stores.
pub fn register() -> bool {
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// Returns whether [`register`] was called and succeeded.
#[must_use]
pub fn is_registered() -> bool {
    REGISTERED.get().is_some_and(|registered| *registered)
}

/// Makes every running thread of every registered process of this kernel execute a full memory barrier.
///
/// Falls back to the slow variant if the kernel refuses; every kernel with membarrier supports that.
pub fn global() {
    if membarrier(MembarrierCommand::GlobalExpedited).is_err() {
        let _ = membarrier(MembarrierCommand::Global);
    }
    tombolo_base::sync::fence(tombolo_base::sync::Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_membarrier_command_is_supported_here() {
        assert!(super::register());
        super::global();
    }
}
