//! Program side: startup, and calls to the board's monitor.
//!
//! The window is accessed directly: messages and doorbells need no call.

#[cfg(target_os = "none")]
mod calls;
#[cfg(all(target_os = "none", target_arch = "aarch64"))]
#[path = "aarch64.rs"]
mod machine;
#[cfg(all(target_os = "none", target_arch = "riscv64"))]
#[path = "riscv64.rs"]
mod machine;

#[cfg(target_os = "none")]
pub use calls::*;
