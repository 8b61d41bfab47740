//! A network of nodes: each has a card (TAP), and one of them has the switch.

mod table;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use tombolo::waitset::Trigger;
use tombolo::{Domain, Interest, Ready, Token, WaitSet};
use tombolo_platform::device::tap::{HEADER_BYTES, MAX_FRAME_BYTES, MTU, Tap};
use tombolo_virtqueue::{Configuration, Device, Features, Operation, Status};

use crate::failure::Failure;
use crate::print_status;
use crate::queue::{Acceptor, Event, Queue, device_configuration};
use table::{Addresses, ForwardingTable, Port};

/// Size of a buffer for the longest frame, in whole cache lines.
const BUFFER_BYTES: u64 = (MAX_FRAME_BYTES as u64).next_multiple_of(64);

/// Maximum number of frames taken from one side before the others are served.
const BATCH: usize = 32;

/// Maximum number of peers of a switch. Each has its buffers in memory shared with it.
const MAX_PEERS: usize = 64;

/// Time that a peer may keep a frame. A card that accepts none for so long belongs to a kernel that is not
/// running.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Polling period for that timeout.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Network card of this node.
pub(crate) struct Card {
    tap: Tap,
    description: String,
}

impl Card {
    /// Creates a card, with an address unless it is `-`.
    pub(crate) fn create(device: &str, address: &str, mtu: u32, node: &str) -> Result<Card, Failure> {
        if !MTU.contains(&mtu) {
            let (min_mtu, max_mtu) = (MTU.start(), MTU.end());
            return Err(Failure::Usage(format!("invalid MTU {mtu}; give one from {min_mtu} to {max_mtu}")));
        }
        let tap = Tap::create(device)?;
        let interface = tap.interface();
        interface.set_hardware_address(hardware_address(device, node))?;
        interface.set_mtu(mtu)?;
        if address != "-" {
            let (ip, prefix) = parse_address(address)?;
            interface.set_address(ip, prefix)?;
        }
        interface.bring_up()?;
        Ok(Card { tap, description: format!("{device} on {node}, {address}, MTU {mtu}") })
    }
}

fn parse_address(text: &str) -> Result<(Ipv4Addr, u8), Failure> {
    let parsed = text.split_once('/').and_then(|(ip, prefix)| Some((ip.parse().ok()?, prefix.parse().ok()?)));
    parsed
        .filter(|(_, prefix)| *prefix <= 32)
        .ok_or_else(|| Failure::Usage(format!("invalid address '{text}'; give one such as 10.77.0.1/24")))
}

/// Returns an address that stays the same when the card's program is restarted, so that entries in other
/// tables stay valid: locally administered, derived from the names of device and node.
fn hardware_address(device: &str, node: &str) -> [u8; 6] {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in device.bytes().chain([0]).chain(node.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    let [_, _, _, a, b, c, d, e] = hash.to_be_bytes();
    [2, a, b, c, d, e]
}

fn configuration() -> Configuration {
    device_configuration(Device::Network, MAX_FRAME_BYTES as u64, 1, Features::OFFLOAD)
}

/// Switch between the card of this node and those of peers.
struct Switch {
    set: WaitSet<Queue<()>>,
    tap: Tap,
    tap_token: Token,
    /// Whether the card is not read, because the only peer has no room.
    is_paused: bool,
    peers: Vec<Token>,
    table: ForwardingTable,
    frame: Vec<u8>,
}

impl Switch {
    fn new(card: Card) -> Result<Switch, Failure> {
        let mut set = WaitSet::new()?;
        let tap_token = set.add_descriptor(&card.tap, Interest::Read, Trigger::Once)?;
        set.add_interval(POLL_INTERVAL)?;
        Ok(Switch {
            set,
            tap: card.tap,
            tap_token,
            is_paused: false,
            peers: Vec::new(),
            table: ForwardingTable::default(),
            frame: vec![0; BUFFER_BYTES as usize],
        })
    }

    fn add(&mut self, queue: Queue<()>) -> Result<(), Failure> {
        if queue.configuration().is_none_or(|other| other != configuration()) {
            print_status(&format!("refused: {} has another kind of network", queue.peer_node()));
            return Ok(());
        }
        if self.peers.len() >= MAX_PEERS {
            print_status(&format!(
                "refused: {}: the switch has {MAX_PEERS} nodes, the most",
                queue.peer_node()
            ));
            return Ok(());
        }
        print_status(&format!("link up: {}", queue.peer_node()));
        let token = self.set.add(queue)?;
        self.peers.push(token);
        self.tap.set_carrier(true)?;
        // Messages that arrived during the handshake are not reported by the waitset.
        self.serve(token, usize::MAX)
    }

    fn remove(&mut self, token: Token, why: &Failure) -> Result<(), Failure> {
        self.peers.retain(|peer| *peer != token);
        if let Some(queue) = self.set.remove(token) {
            print_status(&format!("link down: {}: {why}", queue.peer_node()));
            queue.close();
        }
        self.table.remove_port(Port::Peer(token));
        if self.peers.is_empty() {
            self.tap.set_carrier(false)?;
        }
        self.resume()
    }

    /// Waits for the next event and handles it.
    fn step(&mut self) -> Result<(), Failure> {
        match self.set.wait(2 * POLL_INTERVAL)? {
            Ready::Channel(token) => self.serve(token, BATCH),
            Ready::Descriptor(..) => self.read_from_card(),
            Ready::Timer(..) => self.remove_overdue(),
            _ => Ok(()),
        }
    }

    fn remove_overdue(&mut self) -> Result<(), Failure> {
        let overdue = |token: &&Token| self.set.get(**token).is_some_and(Queue::is_overdue);
        for token in self.peers.iter().filter(overdue).copied().collect::<Vec<_>>() {
            self.remove(token, &Failure::ReplyTimeout)?;
        }
        Ok(())
    }

    /// Handles up to `max_messages` of a peer, before the card gets its turn.
    fn serve(&mut self, token: Token, max_messages: usize) -> Result<(), Failure> {
        for _ in 0..max_messages {
            let Some(queue) = self.set.get_mut(token) else { return Ok(()) };
            let served = match queue.try_next() {
                Ok(None) => return self.resume(),
                Ok(Some(Event::Reply(..))) => Ok(()),
                Ok(Some(Event::Request(request, allowed, buffer))) => {
                    let length = request.length_bytes.min(BUFFER_BYTES) as usize;
                    let status = allowed.err().unwrap_or(Status::Done);
                    let frame = &mut self.frame[..length];
                    let taken = if allowed.is_ok() { buffer.read(0, frame) } else { Ok(()) };
                    let answered =
                        taken.map_err(Failure::from).and_then(|()| queue.reply(&request, status, buffer));
                    if answered.is_ok() && allowed.is_ok() {
                        self.forward_frame(Port::Peer(token), length)?;
                    }
                    answered
                }
                Err(failure) => Err(failure),
            };
            if let Err(failure) = served {
                return if failure.is_monitor_lost() { Err(failure) } else { self.remove(token, &failure) };
            }
        }
        self.resume()
    }

    /// Reads frames sent by programs of this node.
    fn read_from_card(&mut self) -> Result<(), Failure> {
        for _ in 0..BATCH {
            // A switch with several peers drops frames for one without room; with a single peer the sender
            // waits.
            if let [only] = self.peers[..]
                && self.set.get(only).is_some_and(|queue| !queue.has_room())
            {
                self.is_paused = true;
                return Ok(());
            }
            match self.tap.receive(&mut self.frame)? {
                Some(length) => self.forward_frame(Port::Card, length)?,
                None => break,
            }
        }
        self.set.change_descriptor(self.tap_token, Interest::Read, Trigger::Once)?;
        Ok(())
    }

    fn resume(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_paused) { self.read_from_card() } else { Ok(()) }
    }

    /// Sends the frame to the port of its address, or to all others.
    fn forward_frame(&mut self, from: Port, length: usize) -> Result<(), Failure> {
        let Some(addresses) = Addresses::of(self.frame[..length].get(HEADER_BYTES..).unwrap_or_default())
        else {
            return Ok(());
        };
        let to = self.table.route(from, addresses, Instant::now());
        if from != Port::Card && to.is_none_or(|to| to == Port::Card) {
            self.tap.send(&self.frame[..length])?;
        }
        for index in 0..self.peers.len() {
            let Some(token) = self.peers.get(index).copied() else { break };
            let port = Port::Peer(token);
            if port == from || to.is_some_and(|to| to != port) {
                continue;
            }
            let Some(queue) = self.set.get_mut(token) else { continue };
            let what = (Operation::Frame, false);
            let frame = &self.frame[..length];
            // Without room it is dropped, as any network may do.
            if let Err(failure) = queue.submit(what, (0, length as u64), FRAME_TIMEOUT, Some(frame), ()) {
                // It ends with its peer's last event, which the waitset reports.
                if failure.is_monitor_lost() {
                    return Err(failure);
                }
            }
        }
        Ok(())
    }
}

/// Runs a card of this node, and the switch that others connect to.
pub(crate) fn switch(domain: &Domain, name: &str, card: Card) -> Result<(), Failure> {
    let description = card.description.clone();
    let mut switch = Switch::new(card)?;
    let acceptor = Acceptor::start(domain, name, (configuration(), BUFFER_BYTES), switch.set.waker(), ())?;
    print_status(&format!("ready: {description}"));
    loop {
        switch.step()?;
        while let Some(queue) = acceptor.try_next()? {
            switch.add(queue)?;
        }
    }
}

/// Runs a card of this node, and connects it to the switch whenever there is one.
pub(crate) fn port(domain: &Domain, name: &str, card: Card) -> Result<(), Failure> {
    print_status(&format!("ready: {}", card.description));
    let mut port = Switch::new(card)?;
    loop {
        match Queue::connect(domain, name, Duration::from_secs(60), (Some(configuration()), BUFFER_BYTES), ())
        {
            Ok(queue) => port.add(queue)?,
            Err(failure) if failure.is_monitor_lost() => return Err(failure),
            // It died during connecting, or does not exist yet.
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
        while !port.peers.is_empty() {
            port.step()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_derived() {
        assert_eq!(parse_address("10.77.0.1/24").unwrap(), (Ipv4Addr::new(10, 77, 0, 1), 24));
        for wrong in ["", "10.77.0.1", "10.77.0.1/33", "10.77.0/24", "x/24", "::1/64"] {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
        let address = hardware_address("tom0", "arm0");
        assert_eq!(address[0] & 3, 2, "locally administered, and of one card");
        assert_eq!(address, hardware_address("tom0", "arm0"));
        assert_ne!(address, hardware_address("tom0", "host"));
        assert_ne!(address, hardware_address("tom1", "arm0"));
    }
}
