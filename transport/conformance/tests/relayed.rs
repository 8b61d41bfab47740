//! A channel through a relay passes the suite, over each kind of hop.

use tombolo_conformance::carriers::{FlushedWindow, Relayed, Shm, UnixStream, Window};

tombolo_conformance::suite! { Relayed<Window>, Relayed<Shm>, Relayed<UnixStream>, Relayed<FlushedWindow<2>> }
