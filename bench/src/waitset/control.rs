//! Control messages between the two sides, between measurements.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_platform::event::{Interest, poll};
use tombolo_platform::{Deadline, Errno, OsError, socket};

use super::{Design, Error, STALL_TIMEOUT};

/// Order to the sending side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Open its side of this number of channels.
    Open { design: Design, count: usize },
    /// Send this number of messages, each after the other side has slept for a while.
    Wake { rounds: u64 },
    /// Send this number of messages, each as soon as the previous one was answered.
    Echo { rounds: u64 },
}

impl Order {
    fn to_words(self) -> [u64; 3] {
        match self {
            Order::Open { design, count } => [1, design.number(), count as u64],
            Order::Wake { rounds } => [2, rounds, 0],
            Order::Echo { rounds } => [3, rounds, 0],
        }
    }

    fn from_words(words: [u64; 3]) -> Option<Order> {
        match words {
            [1, design, count] => Some(Order::Open {
                design: Design::from_number(design)?,
                count: usize::try_from(count).ok()?,
            }),
            [2, rounds, _] => Some(Order::Wake { rounds }),
            [3, rounds, _] => Some(Order::Echo { rounds }),
            _ => None,
        }
    }
}

/// Sends a packet.
pub(super) fn send_all(socket: &OwnedFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
    let deadline = Deadline::after(STALL_TIMEOUT);
    loop {
        match socket::send(socket, message, fds) {
            Ok(_) => return Ok(()),
            Err(Errno::AGAIN) if !deadline.passed() => {
                poll(&[(socket.as_fd(), Interest::Write)], Some(deadline))?;
            }
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(Error::PeerLost),
            Err(errno) => return Err(OsError::new("tell the other process what to do", errno).into()),
        }
    }
}

pub(super) fn order(socket: &OwnedFd, order: Order, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
    send_all(socket, &order.to_words().map(u64::to_le_bytes).concat(), fds)
}

/// Receives the next order; `None` when the other side has closed.
pub(super) fn next_order(socket: &OwnedFd) -> Result<Option<(Order, Vec<OwnedFd>)>, Error> {
    let mut bytes = [0; 24];
    loop {
        poll(&[(socket.as_fd(), Interest::Read)], Some(Deadline::after(STALL_TIMEOUT)))?;
        match socket::receive(socket, &mut bytes) {
            Ok(received) if received.length == 0 => return Ok(None),
            Ok(received) => {
                let ([a, b, c], []) = bytes.as_chunks::<8>() else { return Err(Error::PeerLost) };
                let words = [a, b, c].map(|word| u64::from_le_bytes(*word));
                let order = Order::from_words(words).ok_or(Error::PeerLost)?;
                return Ok(Some((order, received.fds)));
            }
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(OsError::new("hear what to do", errno).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_round_trip() {
        for design in Design::ALL {
            let order = Order::Open { design, count: 7 };
            assert_eq!(Order::from_words(order.to_words()), Some(order));
        }
        for order in [Order::Wake { rounds: 9 }, Order::Echo { rounds: u64::MAX }] {
            assert_eq!(Order::from_words(order.to_words()), Some(order));
        }
        assert_eq!(Order::from_words([1, 99, 1]), None);
        assert_eq!(Order::from_words([0; 3]), None);
    }
}
