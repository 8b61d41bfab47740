//! Nodes that join by themselves: awaited, joining, and the memory of their window across their lives.
//!
//! The window of such a node is the same memory in every generation of the node. So ranges that programs of
//! the host still have mapped when the node is lost are not lent again before they are released.

use tombolo_base::{ChannelId, NodeId};
use tombolo_capability::WindowRegion;
use tombolo_control::Fault;
use tombolo_control::observation::Happening;
use tombolo_link::window::WindowRange;

use super::windows::WindowRecord;
use super::{BOOT_TIMEOUT, Core, Nanos, NodeState};

/// A range of a region that was lost with its node, and the mappings that have not been released.
#[derive(Debug)]
pub(super) struct HeldRange {
    range: WindowRange,
    mappings: Vec<(NodeId, ChannelId)>,
}

impl Core {
    /// Returns whether a node joins by itself.
    pub(super) fn is_attached(&self, id: NodeId) -> bool {
        self.machine.node(id).is_some_and(|node| node.as_attached().is_some())
    }

    /// Records that the window of such a node is open and offered; on the host it begins at `base_bytes` of
    /// its file.
    pub fn node_offered(&mut self, id: NodeId, window: (u64, u16), base_bytes: u64) {
        let Some(record) = self.own_window_or_create(id, window) else { return };
        record.base_bytes.0 = base_bytes;
        self.node_changed(id);
    }

    /// Records that a joiner was accepted for the node; in its file the window begins at `base_bytes`. Its
    /// monitor must report next.
    pub fn node_joining(&mut self, now: Nanos, id: NodeId, base_bytes: u64) {
        let Some(node) = self.node(id) else { return };
        if !matches!(node.state, NodeState::AwaitingJoin { .. }) {
            return;
        }
        node.state = NodeState::Booting { since: now };
        if let Some(window) = self.own_window(id) {
            window.base_bytes.1 = base_bytes;
        }
        self.node_changed(id);
        self.record_event(Happening::NODE_STARTING, Some(id), None, "");
    }

    /// Records that a joiner was refused.
    pub fn joiner_refused(&mut self, id: NodeId, why: &str) {
        let Some(node) = self.node(id) else { return };
        if let NodeState::AwaitingJoin { cause, .. } = &mut node.state {
            *cause = format!("waiting for `tombolo join`; the last joiner was refused: {why}");
            self.node_changed(id);
        }
    }

    /// Retains the ranges of a lost node's window that programs elsewhere still use. Call before its channels
    /// and regions are dropped.
    pub(super) fn retain_window(&mut self, id: NodeId) {
        let Some(own) = self.machine.own_window(id).map(|window| window.id) else { return };
        let regions = self.regions.table.regions_in_window(own);
        let Some(window) = self.own_window(id) else { return };
        for (_, range) in std::mem::take(&mut window.programs) {
            window.allocator.free(range);
        }
        for WindowRegion { offset_bytes, length_bytes, mappings } in regions {
            let range = WindowRange { offset_bytes, length_bytes };
            let mappings: Vec<_> = mappings.into_iter().filter(|(node, _)| *node != id).collect();
            match mappings.is_empty() {
                true => {
                    window.allocator.free(range);
                }
                false => window.held.push(HeldRange { range, mappings }),
            }
        }
    }

    /// Records that a mapping of a lost region is released, or, if `mapping` is `None`, all mappings of a
    /// lost node.
    pub(super) fn release_held(&mut self, node: NodeId, mapping: Option<ChannelId>) {
        for window in self.windows.iter_mut().flatten() {
            let WindowRecord { held, allocator, .. } = window;
            held.retain_mut(|held| {
                held.mappings.retain(|(of, number)| *of != node || mapping.is_some_and(|one| one != *number));
                if held.mappings.is_empty() {
                    allocator.free(held.range);
                }
                !held.mappings.is_empty()
            });
        }
    }

    /// Returns the times at which clients that wait for a node to join get a timeout.
    pub(super) fn joins_due(&self) -> impl Iterator<Item = Nanos> {
        self.nodes.iter().filter(|node| node.restarting.is_some()).filter_map(|node| match node.state {
            NodeState::AwaitingJoin { since, .. } => Some(since + BOOT_TIMEOUT.as_nanos() as Nanos),
            _ => None,
        })
    }

    pub(super) fn expire_joins(&mut self, now: Nanos) {
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            let NodeState::AwaitingJoin { since, cause } = &node.state else { continue };
            if now < since + BOOT_TIMEOUT.as_nanos() as Nanos {
                continue;
            }
            let cause = cause.clone();
            if let Some((client, request)) = node.restarting.take() {
                let fault = Fault::NodeDown { node: self.node_name(NodeId(index as u16)), cause };
                self.answer(client, request, Err(fault));
            }
        }
    }
}
