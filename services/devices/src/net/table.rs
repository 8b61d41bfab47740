//! Forwarding table of a switch: hardware addresses learned per port.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tombolo::Token;

/// Time that an address is retained after its last frame.
const ADDRESS_LIFETIME: Duration = Duration::from_secs(300);

/// Maximum number of retained addresses; frames to others go to all ports.
const MAX_ADDRESSES: usize = 1024;

/// Source and destination of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Port {
    /// The card of this node.
    Card,
    Peer(Token),
}

/// Addresses of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Addresses {
    to: [u8; 6],
    from: [u8; 6],
}

impl Addresses {
    /// Returns the addresses of an Ethernet frame; `None` if it is shorter than its header.
    pub(super) fn of(frame: &[u8]) -> Option<Addresses> {
        let (to, rest) = frame.split_first_chunk()?;
        let (from, rest) = rest.split_first_chunk()?;
        (rest.len() >= 2).then_some(Addresses { to: *to, from: *from })
    }
}

/// Returns whether it is a group address, including broadcast.
fn is_group_address(address: [u8; 6]) -> bool {
    address[0] & 1 != 0
}

/// Learned addresses.
#[derive(Default)]
pub(super) struct ForwardingTable {
    known: HashMap<[u8; 6], (Port, Instant)>,
}

impl ForwardingTable {
    /// Learns from a frame, and returns the port that it is for; `None` for all others. For an address behind
    /// the source port it returns that port, which already has the frame.
    pub(super) fn route(&mut self, at: Port, addresses: Addresses, now: Instant) -> Option<Port> {
        let is_new = !self.known.contains_key(&addresses.from);
        if is_new && self.known.len() >= MAX_ADDRESSES {
            self.known.retain(|_, (_, last)| now.saturating_duration_since(*last) < ADDRESS_LIFETIME);
        }
        if !is_group_address(addresses.from) && (!is_new || self.known.len() < MAX_ADDRESSES) {
            self.known.insert(addresses.from, (at, now));
        }
        let (port, last) = self.known.get(&addresses.to).filter(|_| !is_group_address(addresses.to))?;
        (now.saturating_duration_since(*last) < ADDRESS_LIFETIME).then_some(*port)
    }

    /// Removes a port; its addresses may reappear at another one.
    pub(super) fn remove_port(&mut self, gone: Port) {
        self.known.retain(|_, (port, _)| *port != gone);
    }
}

#[cfg(test)]
mod tests {
    use tombolo::{Channel, WaitSet};

    use super::*;

    /// Returns two ports.
    fn ports() -> (Port, Port) {
        let mut set: WaitSet<Channel> = WaitSet::new().unwrap();
        let mut port = || Port::Peer(set.add_timer(Duration::from_secs(60)).unwrap());
        (port(), port())
    }

    fn frame(to: u8, from: u8) -> Addresses {
        let mut bytes = [0; 14];
        (bytes[0], bytes[5], bytes[6], bytes[11]) = (2, to, 2, from);
        Addresses::of(&bytes).unwrap()
    }

    #[test]
    fn frames_are_forwarded_to_learned_ports() {
        let (a, b) = ports();
        let mut table = ForwardingTable::default();
        let now = Instant::now();
        assert_eq!(table.route(Port::Card, frame(1, 9), now), None, "to all, while it is not known");
        assert_eq!(table.route(a, frame(9, 1), now), Some(Port::Card));
        assert_eq!(table.route(b, frame(1, 2), now), Some(a));
        // The address moved to another port.
        assert_eq!(table.route(b, frame(9, 1), now), Some(Port::Card));
        assert_eq!(table.route(Port::Card, frame(1, 9), now), Some(b));
        assert_eq!(table.route(Port::Card, frame(1, 9), now + ADDRESS_LIFETIME), None, "forgotten");
        table.remove_port(b);
        assert_eq!(table.route(Port::Card, frame(1, 9), now), None);
        let mut to_all = frame(0, 9);
        to_all.to = [0xff; 6];
        assert_eq!(table.route(Port::Card, to_all, now), None);
        assert_eq!(Addresses::of(&[0; 13]), None);
    }

    #[test]
    fn number_of_learned_addresses_is_limited() {
        let (a, b) = ports();
        let mut table = ForwardingTable::default();
        let now = Instant::now();
        for number in 0..3000_u32 {
            let mut flood = frame(0, 0);
            flood.from[2..].copy_from_slice(&number.to_be_bytes());
            table.route(a, flood, now);
        }
        assert_eq!(table.known.len(), MAX_ADDRESSES);
        // An expired entry makes room.
        table.route(b, frame(7, 8), now + ADDRESS_LIFETIME);
        assert_eq!(table.route(a, frame(8, 7), now + ADDRESS_LIFETIME), Some(b));
    }
}
