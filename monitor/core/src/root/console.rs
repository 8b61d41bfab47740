//! Consoles: retains recent output of nodes, and sends it to each reader at its own pace.

use std::collections::{BTreeMap, VecDeque};

use tombolo_base::NodeId;
use tombolo_control::{Fault, Reply};

use super::{ClientId, Core, Effect, NodeState};

/// Maximum number of console output bytes retained.
pub(super) const RETAINED_BYTES: usize = 256 * 1024;

/// Maximum number of bytes in flight to a viewer.
const IN_FLIGHT_BYTES: usize = 32 * 1024;

/// Maximum number of typed bytes not yet accepted by the node's serial line.
pub(super) const MAX_PENDING_INPUT_BYTES: usize = 64 * 1024;

/// Maximum number of bytes per message.
const PIECE_BYTES: usize = 8 * 1024;

/// Progress of one viewer.
#[derive(Clone, Copy, Debug)]
struct Viewer {
    /// Position in the node's output, counted from the first byte ever.
    position: u64,
    in_flight_bytes: usize,
}

/// Console of a node.
#[derive(Debug, Default)]
pub(super) struct ConsoleRecord {
    retained: VecDeque<u8>,
    /// Total number of bytes printed; the last of them is the last retained.
    printed: u64,
    /// Number of typed bytes that the serial line has not accepted.
    pending_input_bytes: usize,
    viewers: BTreeMap<ClientId, Viewer>,
}

impl ConsoleRecord {
    pub(super) fn viewers(&self) -> usize {
        self.viewers.len()
    }

    fn append(&mut self, bytes: &[u8]) {
        self.printed += bytes.len() as u64;
        self.retained.extend(bytes);
        let excess = self.retained.len().saturating_sub(RETAINED_BYTES);
        self.retained.drain(..excess);
    }

    /// Marks a restart of the node, to separate new output from earlier output.
    pub(super) fn restarted(&mut self) {
        if self.printed > 0 {
            self.append(b"\r\n--- restarted ---\r\n");
        }
    }

    pub(super) fn remove_viewer(&mut self, client: ClientId) {
        self.viewers.remove(&client);
    }

    /// Returns the next piece for a viewer: the number of bytes lost, and the bytes after those.
    fn next_piece(&mut self, client: ClientId) -> Option<(u64, Vec<u8>)> {
        let viewer = self.viewers.get_mut(&client)?;
        let oldest = self.printed - self.retained.len() as u64;
        let dropped = oldest.saturating_sub(viewer.position);
        let start = viewer.position.max(oldest);
        let room = IN_FLIGHT_BYTES.saturating_sub(viewer.in_flight_bytes).min(PIECE_BYTES);
        let skip = (start - oldest) as usize;
        let piece: Vec<u8> = self.retained.iter().skip(skip).take(room).copied().collect();
        if piece.is_empty() {
            return None;
        }
        viewer.position = start + piece.len() as u64;
        viewer.in_flight_bytes += piece.len();
        Some((dropped, piece))
    }

    /// Returns the last lines printed, to explain the loss of a node.
    pub(super) fn last_lines(&self, count: usize) -> String {
        let bytes: Vec<u8> = self.retained.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

impl Core {
    /// Handles console output of a node.
    pub fn console_output(&mut self, id: NodeId, bytes: &[u8]) {
        let Some(node) = self.node(id) else { return };
        node.console.append(bytes);
        let viewers: Vec<ClientId> = node.console.viewers.keys().copied().collect();
        viewers.into_iter().for_each(|client| self.send_console_output(client, id));
    }

    /// Returns the last lines that a node printed.
    #[must_use]
    pub fn console_tail(&self, id: NodeId, lines: usize) -> String {
        self.nodes.get(usize::from(id.0)).map_or_else(String::new, |node| node.console.last_lines(lines))
    }

    fn console_node(&self, name: &str) -> Result<NodeId, Fault> {
        let node = self.machine.node_named(name).ok_or_else(|| self.no_such_node(name))?;
        if node.as_vm().is_none() && node.as_bare().is_none() {
            let why = format!(
                "node {name} has no console: it is of kind {}, and only a vm or a board has one",
                node.settings.name()
            );
            return Err(Fault::Refused { why });
        }
        Ok(node.id)
    }

    pub(super) fn console_open(&mut self, client: ClientId, name: &str) -> Result<Reply, Fault> {
        let id = self.console_node(name)?;
        if let Some(node) = self.node(id) {
            // Count from the first byte ever: output no longer retained counts as dropped.
            node.console.viewers.insert(client, Viewer { position: 0, in_flight_bytes: 0 });
        }
        Ok(Reply::Done)
    }

    pub(super) fn send_retained_console(&mut self, client: ClientId, name: &str) {
        if let Ok(id) = self.console_node(name) {
            self.send_console_output(client, id);
        }
    }

    fn send_console_output(&mut self, client: ClientId, id: NodeId) {
        let name = self.node_name(id);
        while let Some((dropped, piece)) = self.node(id).and_then(|node| node.console.next_piece(client)) {
            let body = Reply::Console { node: name.clone(), dropped, bytes: piece };
            self.deliver(client, 0, body);
        }
    }

    pub(super) fn console_taken(&mut self, client: ClientId, name: &str, bytes: u32) {
        let Ok(id) = self.console_node(name) else { return };
        if let Some(viewer) = self.node(id).and_then(|node| node.console.viewers.get_mut(&client)) {
            viewer.in_flight_bytes = viewer.in_flight_bytes.saturating_sub(bytes as usize);
        }
        self.send_console_output(client, id);
    }

    pub(super) fn console_input(&mut self, name: &str, bytes: Vec<u8>) -> Result<Reply, Fault> {
        let id = self.console_node(name)?;
        if self.machine.node(id).is_some_and(|node| node.as_bare().is_some()) {
            let why = format!("node {name} is a board, which reads nothing from its console");
            return Err(Fault::Refused { why });
        }
        if let Some(NodeState::Down { cause }) = self.node(id).map(|node| &node.state) {
            return Err(Fault::NodeDown { node: name.to_owned(), cause: cause.clone() });
        }
        let full = Fault::Limit {
            what: format!(
                "node {name} does not take what is typed, and {MAX_PENDING_INPUT_BYTES} bytes of it may wait: try again later"
            ),
        };
        let Some(node) = self.node(id) else { return Err(full) };
        if node.console.pending_input_bytes + bytes.len() > MAX_PENDING_INPUT_BYTES {
            return Err(full);
        }
        node.console.pending_input_bytes += bytes.len();
        self.effects.push(Effect::ConsoleWrite { node: id, bytes });
        Ok(Reply::Done)
    }

    /// Records the number of typed bytes that wait for a node's serial line.
    pub fn set_pending_console_input(&mut self, id: NodeId, bytes: usize) {
        if let Some(node) = self.node(id) {
            node.console.pending_input_bytes = bytes;
        }
    }
}
