//! Functions that differ between operating systems and boards.

#[cfg(target_os = "none")]
mod board;
#[cfg(not(target_os = "none"))]
mod linux;

#[cfg(target_os = "none")]
pub(crate) use board::*;
#[cfg(not(target_os = "none"))]
pub(crate) use linux::*;
