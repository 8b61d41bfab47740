//! The transports of this workspace pass the suite. To add one, write a file that implements how to open it,
//! and list it here.

use tombolo_conformance::carriers::{FlushedWindow, Shm, Sim, Tcp, UnixStream, Window};

tombolo_conformance::suite! {
    Shm, Window, UnixStream, Tcp, Sim,
    FlushedWindow<0>, FlushedWindow<64>, FlushedWindow<4>, FlushedWindow<2>
}
