//! Types that several interfaces use.
//!
//! Written by `tombolo idl compile` from interfaces/common.tbl.

use tombolo_interface as rt;

/// The longest name, in bytes.
pub const MAX_NAME: u64 = 16;

rt::record! {
    /// A time and a place.
    pub struct Stamp => StampView<'m>, inline 16 / 8;
    /// `at_ns`.
    at_ns @ 0: u64 => u64,
    /// `node`.
    node @ 8: u16 => u16,
}
