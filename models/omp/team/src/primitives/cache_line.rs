//! A value that shares its cache line with no other.

/// A value with a cache line of its own.
#[repr(C, align(64))]
#[derive(Default)]
pub struct CacheLine<T>(pub T);
