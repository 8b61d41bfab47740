//! The stubs of the book's key-value service, which the build script writes.

include!(concat!(env!("OUT_DIR"), "/kv.rs"));
