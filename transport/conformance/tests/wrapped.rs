//! Wrappers keep the contract, over memory and over a stream, alone and nested.

use tombolo_conformance::carriers::{
    Captured, LateRing, Polled, Shm, Stormy, TracedAll, UnixStream, Wrapped,
};

tombolo_conformance::suite! {
    Wrapped<Shm, Stormy>,
    Wrapped<UnixStream, Stormy>,
    Wrapped<Wrapped<Shm, Stormy>, Captured>,
    Wrapped<UnixStream, Captured>,
    Wrapped<Shm, Polled>,
    Wrapped<UnixStream, Polled>,
    Wrapped<Shm, TracedAll>,
    Wrapped<UnixStream, TracedAll>,
    Wrapped<Shm, LateRing>,
    Wrapped<UnixStream, LateRing>,
}
