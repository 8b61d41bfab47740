//! The transports of this tree pass the suite. A further one takes part with a file that says how to open it, and its
//! name here.

use tombolo_conformance::carriers::{Shm, Sim, Tcp, UnixStream, Window};

tombolo_conformance::suite! { Shm, Window, UnixStream, Tcp, Sim }
