//! Implements [`Transport`] for [`Channel`], for code that takes any transport, such as the conformance
//! suite.

use tombolo_transport::{Transport, forward_transport};

use crate::channel::Channel;

impl Transport for Channel {
    forward_transport!(
        carrier: describe stats failure try_send try_recv_in_place try_recv_batch try_send_in_place
            try_send_batch is_ready announce_sleep may_sleep sources park finish_sleep close
    );
}
