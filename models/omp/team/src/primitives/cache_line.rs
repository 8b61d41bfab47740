//! Padding of a value to its own cache line.

/// Value with a cache line of its own, to avoid false sharing.
#[repr(C, align(64))]
#[derive(Default)]
pub struct CacheLine<T>(pub T);
