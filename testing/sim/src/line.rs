//! Control line between the root and an agent: a socket on one kernel, or real rings in a window.

use std::collections::VecDeque;

use tombolo_base::hash::fnv1a;
use tombolo_link::window::{CONTROL_OFFSET_BYTES, control_config};
use tombolo_link::{ChannelLayout, Hello, Side};

use crate::channel::MemoryEnd;
use crate::descriptor::{Actor, Packet, SocketEnd};
use crate::shared::Shared;
use crate::window::{WindowPlace, WindowSide};

enum Carrier {
    Socket(SocketEnd),
    Window { place: WindowPlace, channel: Box<MemoryEnd> },
}

/// One end of a control line.
pub struct MonitorLine {
    node: u16,
    generation: u16,
    carrier: Carrier,
    /// Whether this is the root's end.
    at_root: bool,
    queue: VecDeque<Packet>,
    gone: bool,
}

impl MonitorLine {
    /// Creates an end over a socket.
    #[must_use]
    pub fn over_socket(node: u16, generation: u16, end: SocketEnd, at_root: bool) -> Self {
        let carrier = Carrier::Socket(end.owned_by(owner(node, at_root)));
        MonitorLine { node, generation, carrier, at_root, queue: VecDeque::new(), gone: false }
    }

    /// Creates an end over the control channel of a window. Returns `None` if the window or its channel is
    /// unusable.
    pub fn over_window(shared: &mut Shared, node: u16, generation: u16, place: WindowPlace) -> Option<Self> {
        let at_root = place.side == WindowSide::Near;
        let length_bytes = ChannelLayout::new(control_config()).length_bytes();
        let memory = shared.windows.memory(place)?.slice(CONTROL_OFFSET_BYTES, length_bytes).ok()?;
        let side = if at_root { Side::B } else { Side::A };
        let channel = MemoryEnd::open(memory, side, Hello::new(control_config(), 0, None)).ok()?;
        shared.windows.listen(place, CONTROL_OFFSET_BYTES, length_bytes, owner(node, at_root));
        let carrier = Carrier::Window { place, channel: Box::new(channel) };
        let mut line =
            MonitorLine { node, generation, carrier, at_root, queue: VecDeque::new(), gone: false };
        line.ring(shared);
        Some(line)
    }

    /// Returns whether the peer is gone or broke the protocol.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Queues a message and sends as much as fits.
    pub fn send(&mut self, shared: &mut Shared, packet: Packet) {
        let key = (self.node, self.generation, self.at_root);
        shared.lines.entry(key).or_default().push_back(fnv1a(&packet.0));
        self.queue.push_back(packet);
        self.flush(shared);
    }

    /// Sends as many queued messages as fit.
    pub fn flush(&mut self, shared: &mut Shared) {
        while let Some(packet) = self.queue.pop_front() {
            let sent = match &mut self.carrier {
                Carrier::Socket(end) => {
                    self.gone |= !end.send(packet);
                    continue;
                }
                Carrier::Window { channel, .. } => channel.send(&packet.0),
            };
            match sent {
                Ok(true) => {}
                Ok(false) => {
                    self.queue.push_front(packet);
                    break;
                }
                Err(error) => {
                    shared.audit.fail(format!("the line to node {} failed in sending: {error}", self.node));
                    self.gone = true;
                    self.queue.clear();
                }
            }
        }
        self.ring(shared);
    }

    /// Receives the next message. Checks that messages arrive unchanged and in order.
    pub fn receive(&mut self, shared: &mut Shared) -> Option<Packet> {
        let packet = match &mut self.carrier {
            Carrier::Socket(_) if shared.cuts.contains(&(self.node, !self.at_root)) => None,
            Carrier::Socket(end) => {
                let packet = end.receive();
                self.gone |= packet.is_none() && end.is_gone();
                packet
            }
            Carrier::Window { channel, .. } => {
                match channel.continue_handshake().and_then(|()| channel.receive()) {
                    Ok(received) => received.map(|bytes| (bytes, Vec::new())),
                    Err(error) => {
                        shared.audit.fail(format!("the line to node {} failed: {error}", self.node));
                        self.gone = true;
                        None
                    }
                }
            }
        };
        let packet = packet?;
        let key = (self.node, self.generation, !self.at_root);
        if shared.lines.entry(key).or_default().pop_front() != Some(fnv1a(&packet.0)) {
            let (node, end) = (self.node, if self.at_root { "root" } else { "node" });
            shared
                .audit
                .fail(format!("the {end} received on the line of node {node} what was not sent next"));
        }
        Some(packet)
    }

    /// Announces a sleep on a window channel. Wakes the owner again if there is something to do.
    pub fn sleep(&mut self, shared: &mut Shared) {
        let for_room = !self.queue.is_empty();
        if let Carrier::Window { channel, .. } = &mut self.carrier
            && channel.is_open()
            && !channel.may_sleep(for_room)
        {
            shared.wake(owner(self.node, self.at_root));
        }
        self.ring(shared);
    }

    /// Withdraws the announcement of a sleep and sends what fits.
    pub fn wake_up(&mut self, shared: &mut Shared) {
        if let Carrier::Window { channel, .. } = &mut self.carrier {
            channel.wake_up();
        }
        self.flush(shared);
    }

    fn ring(&mut self, shared: &mut Shared) {
        if let Carrier::Window { place, channel } = &mut self.carrier
            && channel.take_ring()
            && shared.windows.is_coherent(place.window)
        {
            shared.ring(&[owner(self.node, !self.at_root)]);
        }
    }
}

fn owner(node: u16, at_root: bool) -> Actor {
    if at_root { Actor::Root } else { Actor::Node(node) }
}
