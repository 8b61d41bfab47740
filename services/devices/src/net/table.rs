//! Which hardware addresses are behind which port: what a switch learns.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tombolo::Token;

/// How long an address is remembered after its last frame.
const REMEMBERED: Duration = Duration::from_secs(300);

/// The most addresses that are remembered; frames to others go to all ports.
const MAX_ADDRESSES: usize = 1024;

/// Where frames come from and go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Port {
    /// The card of this node.
    Card,
    Peer(Token),
}

/// The addresses of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Addresses {
    to: [u8; 6],
    from: [u8; 6],
}

impl Addresses {
    /// Those of an Ethernet frame; `None` where it is too short for its own header.
    pub(super) fn of(frame: &[u8]) -> Option<Addresses> {
        let (to, rest) = frame.split_first_chunk()?;
        let (from, rest) = rest.split_first_chunk()?;
        (rest.len() >= 2).then_some(Addresses { to: *to, from: *from })
    }
}

/// The address of a group, all included.
fn is_group(address: [u8; 6]) -> bool {
    address[0] & 1 != 0
}

/// What was learnt.
#[derive(Default)]
pub(super) struct Table {
    known: HashMap<[u8; 6], (Port, Instant)>,
}

impl Table {
    /// Learns from a frame, and says which port it is for; `None` for all others. A frame for an address
    /// behind the port that it came from is for that one, which has it already.
    pub(super) fn route(&mut self, at: Port, addresses: Addresses, now: Instant) -> Option<Port> {
        let is_new = !self.known.contains_key(&addresses.from);
        if is_new && self.known.len() >= MAX_ADDRESSES {
            self.known.retain(|_, (_, last)| now.saturating_duration_since(*last) < REMEMBERED);
        }
        if !is_group(addresses.from) && (!is_new || self.known.len() < MAX_ADDRESSES) {
            self.known.insert(addresses.from, (at, now));
        }
        let (port, last) = self.known.get(&addresses.to).filter(|_| !is_group(addresses.to))?;
        (now.saturating_duration_since(*last) < REMEMBERED).then_some(*port)
    }

    /// A port is gone, and what was behind it may come back at another.
    pub(super) fn forget(&mut self, gone: Port) {
        self.known.retain(|_, (port, _)| *port != gone);
    }
}

#[cfg(test)]
mod tests {
    use tombolo::{Channel, WaitSet};

    use super::*;

    /// Two ports.
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
    fn frames_go_where_their_addresses_were_seen() {
        let (a, b) = ports();
        let mut table = Table::default();
        let now = Instant::now();
        assert_eq!(table.route(Port::Card, frame(1, 9), now), None, "to all, while it is not known");
        assert_eq!(table.route(a, frame(9, 1), now), Some(Port::Card));
        assert_eq!(table.route(b, frame(1, 2), now), Some(a));
        // It moved.
        assert_eq!(table.route(b, frame(9, 1), now), Some(Port::Card));
        assert_eq!(table.route(Port::Card, frame(1, 9), now), Some(b));
        assert_eq!(table.route(Port::Card, frame(1, 9), now + REMEMBERED), None, "forgotten");
        table.forget(b);
        assert_eq!(table.route(Port::Card, frame(1, 9), now), None);
        let mut to_all = frame(0, 9);
        to_all.to = [0xff; 6];
        assert_eq!(table.route(Port::Card, to_all, now), None);
        assert_eq!(Addresses::of(&[0; 13]), None);
    }

    #[test]
    fn a_peer_that_makes_addresses_up_fills_no_memory() {
        let (a, b) = ports();
        let mut table = Table::default();
        let now = Instant::now();
        for number in 0..3000_u32 {
            let mut flood = frame(0, 0);
            flood.from[2..].copy_from_slice(&number.to_be_bytes());
            table.route(a, flood, now);
        }
        assert_eq!(table.known.len(), MAX_ADDRESSES);
        // What is old makes room.
        table.route(b, frame(7, 8), now + REMEMBERED);
        assert_eq!(table.route(a, frame(8, 7), now + REMEMBERED), Some(b));
    }
}
