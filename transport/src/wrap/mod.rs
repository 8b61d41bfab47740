//! Wrappers around transports: each adds one feature to any transport and forwards everything else.
//!
//! Each wrapper is a module here, generic over `T: Transport`, and itself a [`Transport`](crate::Transport),
//! so that wrappers nest. It implements the operations that it changes and lists the others in
//! `forward_transport!`. Operations in place and in batches that it neither implements nor lists use the
//! contract's default methods, on top of the wrapper's own `try_send` and `try_recv_in_place`.

pub mod capture;
mod checked;
mod faulty;
pub mod traced;

pub use checked::{Checked, DebugChecked, debug_checked, into_unchecked};
pub use faulty::{ChannelEnding, Faults, Faulty, InjectedCounts};
