//! Layout of a job's memory, as specified in `docs/specs/xipx.md`.

use tombolo_base::LINE_BYTES;
use tombolo_notification::payload;

/// Number of channels of a node, numbered from 0.
pub const CHANNELS: u16 = 256;

/// Maximum number of nodes of a job.
pub const MAX_NODES: usize = 256;

/// Default length of the FIFO from each node to each other, in bytes: allows messages of up to 8,176 bytes.
pub const DEFAULT_FIFO_BYTES: usize = 16 << 10;

/// The layout of a job's memory: a receive area for each node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    nodes: usize,
    fifo: payload::Layout,
}

impl Layout {
    /// Creates a layout for `nodes` nodes, with FIFOs of `fifo_bytes`; `None` if either is out of range.
    #[must_use]
    pub fn new(nodes: usize, fifo_bytes: usize) -> Option<Layout> {
        let fifo = payload::Layout::new(fifo_bytes)?;
        (1..=MAX_NODES).contains(&nodes).then_some(Layout { nodes, fifo })
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(self) -> usize {
        self.nodes
    }

    /// Returns the layout of each FIFO.
    #[must_use]
    pub fn fifo(self) -> payload::Layout {
        self.fifo
    }

    /// Returns the length of the whole memory, in bytes.
    #[must_use]
    pub fn total_bytes(self) -> usize {
        self.nodes * self.area_bytes()
    }

    /// Returns the offset of the line with which a node announces that it sleeps.
    #[must_use]
    pub fn sleep(self, node: usize) -> usize {
        node * self.area_bytes()
    }

    /// Returns the offset of the table of what the receiver's devices have taken from the sender: a word for
    /// each channel.
    #[must_use]
    pub fn devices(self, receiver: usize, sender: usize) -> usize {
        self.sleep(receiver) + LINE_BYTES + sender * self.part_bytes()
    }

    /// Length of that table, in bytes.
    pub const DEVICES_BYTES: usize = CHANNELS as usize * 8;

    /// Returns the offset of the FIFO in which `receiver` receives from `sender`.
    #[must_use]
    pub fn fifo_at(self, receiver: usize, sender: usize) -> usize {
        self.devices(receiver, sender) + Self::DEVICES_BYTES
    }

    fn part_bytes(self) -> usize {
        Self::DEVICES_BYTES + self.fifo.total_bytes()
    }

    fn area_bytes(self) -> usize {
        LINE_BYTES + self.nodes * self.part_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_has_no_overlaps_or_gaps() {
        let layout = Layout::new(3, 512).unwrap();
        let mut all = Vec::new();
        for node in 0..3 {
            all.push((layout.sleep(node), LINE_BYTES));
            for other in 0..3 {
                all.push((layout.devices(node, other), Layout::DEVICES_BYTES));
                all.push((layout.fifo_at(node, other), layout.fifo().total_bytes()));
            }
        }
        all.sort_unstable();
        let mut end = 0;
        for (start, length) in all {
            assert_eq!((start, start % LINE_BYTES), (end, 0));
            end = start + length;
        }
        assert_eq!(end, layout.total_bytes());
    }

    #[test]
    fn layout_limits() {
        assert!(Layout::new(MAX_NODES, DEFAULT_FIFO_BYTES).is_some());
        for (nodes, fifo_bytes) in [(0, 512), (MAX_NODES + 1, 512), (2, 0), (2, 1000), (2, 128 << 20)] {
            assert_eq!(Layout::new(nodes, fifo_bytes), None, "{nodes} {fifo_bytes}");
        }
    }
}
