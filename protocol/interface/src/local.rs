//! Channel within a thread, for tests of servers and for servers that may be local or remote. Nothing blocks:
//! a message that is not available at once counts as timed out.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use crate::encode::Body;
use crate::message::Outgoing;
use crate::port::{Carries, Port, Sent};
use crate::source::Source;

/// Error of a channel whose other end was dropped. Everything that it sent was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other end of the channel was dropped")]
pub struct Gone;

type Queue = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// End of a local channel. Its clock advances only by the timeouts that pass.
#[derive(Debug)]
pub struct LocalPort {
    inbound: Queue,
    outbound: Queue,
    clock_ns: Rc<Cell<u64>>,
    max_messages: usize,
    max_message_bytes: usize,
}

/// Creates two ends that hold up to `max_messages` in each direction, of up to `max_message_bytes` bytes.
#[must_use]
pub fn pair(max_messages: usize, max_message_bytes: usize) -> (LocalPort, LocalPort) {
    let (forward, backward, clock_ns) = (Queue::default(), Queue::default(), Rc::default());
    let end = |inbound: &Queue, outbound: &Queue| LocalPort {
        inbound: Rc::clone(inbound),
        outbound: Rc::clone(outbound),
        clock_ns: Rc::clone(&clock_ns),
        max_messages,
        max_message_bytes,
    };
    (end(&backward, &forward), end(&forward, &backward))
}

impl LocalPort {
    /// Sends raw bytes, without interpreting them.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.outbound.borrow_mut().push_back(bytes.to_vec());
    }

    /// Receives the next message as raw bytes.
    pub fn recv_bytes(&mut self) -> Option<Vec<u8>> {
        self.inbound.borrow_mut().pop_front()
    }

    fn advance_clock(&self, timeout: Duration) {
        let elapsed_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        self.clock_ns.set(self.clock_ns.get().saturating_add(elapsed_ns));
    }

    fn is_peer_dropped(&self) -> bool {
        Rc::strong_count(&self.inbound) == 1
    }
}

impl Port for LocalPort {
    type Error = Gone;

    fn now_ns(&self) -> u64 {
        self.clock_ns.get()
    }

    fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    fn carries(&self) -> Carries {
        Carries::BYTES
    }

    fn send<B: Body>(&mut self, message: &Outgoing<'_, B>, timeout: Duration) -> Result<Sent, Gone> {
        if self.is_peer_dropped() {
            return Err(Gone);
        }
        if self.outbound.borrow().len() >= self.max_messages {
            self.advance_clock(timeout);
            return Ok(Sent::NoRoom);
        }
        let mut bytes = vec![0; message.length_bytes()];
        message.write(&mut *bytes);
        self.outbound.borrow_mut().push_back(bytes);
        Ok(Sent::Accepted)
    }

    fn recv(&mut self, timeout: Duration, mut read: impl FnMut(Source<'_>)) -> Result<bool, Gone> {
        let next = self.inbound.borrow_mut().pop_front();
        match next {
            Some(bytes) => {
                read(Source::Bytes(&bytes));
                Ok(true)
            }
            None if self.is_peer_dropped() => Err(Gone),
            None => {
                self.advance_clock(timeout);
                Ok(false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_before_a_close_are_received_first() {
        let (mut near, mut far) = pair(2, 64);
        assert_eq!(near.recv(Duration::from_nanos(7), |_| panic!("nothing was sent")), Ok(false));
        assert_eq!((near.now_ns(), far.now_ns()), (7, 7), "one clock for both");
        far.send_bytes(&[1; 8]);
        drop(far);
        let mut length = 0;
        assert_eq!(near.recv(Duration::ZERO, |source| length = source.len_bytes()), Ok(true));
        assert_eq!(length, 8);
        assert_eq!(near.recv(Duration::from_nanos(7), |_| {}), Err(Gone));
        assert_eq!(near.now_ns(), 7, "there is nothing to wait for");
    }
}
