//! Allocation of the machine's windows by the root: ranges and doorbells.

use std::collections::VecDeque;

use tombolo_base::{NodeId, WindowId};
use tombolo_control::{Reply, WindowInfo};
use tombolo_link::window::{
    FIRST_CHANNEL_VECTOR, SHARED_HEAP_OFFSET_BYTES, SHARED_VECTOR, WindowAllocator, WindowRange,
    heap_offset_bytes,
};
use tombolo_machine::Window;

use super::Core;
use super::attached::HeldRange;
use super::groups::Groups;

/// Maximum number of windows per page of a listing: as many as fit into a message with names of maximum
/// length.
const PAGE: usize = 100;

/// The root's state of a window.
#[derive(Debug)]
pub(super) struct WindowRecord {
    pub(super) allocator: WindowAllocator,
    /// Vectors that are not lent, by peer number. Excludes the first two, which are the monitors'.
    free_vectors: Vec<Vec<u16>>,
    /// Initial number of vectors of each member.
    vectors_total: usize,
    /// Words that count the rings of channel groups.
    pub(super) groups: Groups,
    /// Programs in flight, in the order in which they were sent.
    pub(super) programs: VecDeque<([u8; 32], WindowRange)>,
    /// Offset of the window in the file that programs on the host map, and in that of the node.
    pub(super) base_bytes: (u64, u64),
    /// For a node that joins by itself: ranges that programs have not released since its former lives.
    pub(super) held: Vec<HeldRange>,
}

impl WindowRecord {
    fn new(heap_offset_bytes: usize, length_bytes: u64, peers: usize, vectors: u16) -> Self {
        // The last is lent first, so the order of use is 2, 3, 4.
        let free: Vec<u16> = (FIRST_CHANNEL_VECTOR..vectors).rev().collect();
        WindowRecord {
            allocator: WindowAllocator::new(heap_offset_bytes as u64, length_bytes),
            vectors_total: free.len(),
            free_vectors: vec![free; peers],
            groups: Groups::default(),
            programs: VecDeque::new(),
            base_bytes: (0, 0),
            held: Vec::new(),
        }
    }

    /// Creates the record of a window that exists as long as the machine; `None` for one between a node and
    /// the host, which is created for each life of the node.
    pub(super) fn for_shared(window: &Window) -> Option<Self> {
        let own = window.private_to.is_some();
        let record = || {
            WindowRecord::new(
                SHARED_HEAP_OFFSET_BYTES,
                window.length_bytes(),
                window.members.len(),
                window.doorbells,
            )
        };
        (!own).then(record)
    }

    /// Returns a vector for the end of a channel at a member: a separate one, or the one that all others
    /// share.
    pub(super) fn allocate_vector(&mut self, peer: u16) -> u16 {
        self.free_vectors.get_mut(usize::from(peer)).and_then(Vec::pop).unwrap_or(SHARED_VECTOR)
    }

    /// Frees a vector returned by [`allocate_vector`](Self::allocate_vector).
    pub(super) fn free_vector(&mut self, peer: u16, vector: u16) {
        if vector >= FIRST_CHANNEL_VECTOR
            && let Some(free) = self.free_vectors.get_mut(usize::from(peer))
        {
            free.push(vector);
        }
    }

    /// Returns the number of lent vectors of all members.
    pub(super) fn allocated_vectors(&self) -> usize {
        self.free_vectors.iter().map(|free| self.vectors_total - free.len()).sum()
    }
}

impl Core {
    pub(super) fn window(&mut self, id: WindowId) -> Option<&mut WindowRecord> {
        self.windows.get_mut(usize::from(id.0))?.as_mut()
    }

    /// Returns the window between a node and the host, while the node runs.
    pub(super) fn own_window(&mut self, node: NodeId) -> Option<&mut WindowRecord> {
        let id = self.machine.own_window(node)?.id;
        self.window(id)
    }

    /// Returns the offset of a window in the file that programs on the host map, and in that of its node.
    pub(super) fn base_bytes(&self, id: WindowId) -> (u64, u64) {
        let record = self.windows.get(usize::from(id.0)).and_then(Option::as_ref);
        record.map_or((0, 0), |record| record.base_bytes)
    }

    /// Returns the window between the host and a node that joins by itself; it outlives the node.
    pub(super) fn own_window_or_create(
        &mut self,
        node: NodeId,
        (length_bytes, vectors): (u64, u16),
    ) -> Option<&mut WindowRecord> {
        let id = self.machine.own_window(node)?.id;
        let record = self.windows.get_mut(usize::from(id.0))?;
        Some(record.get_or_insert_with(|| WindowRecord::new(heap_offset_bytes(), length_bytes, 2, vectors)))
    }

    /// Adds the window of a started node with the host, with its size and doorbells.
    pub(super) fn own_window_created(&mut self, node: NodeId, length_bytes: u64, vectors: u16) {
        let Some(id) = self.machine.own_window(node).map(|window| window.id) else { return };
        let record = WindowRecord::new(heap_offset_bytes(), length_bytes, 2, vectors);
        self.windows[usize::from(id.0)] = Some(record);
    }

    /// Removes the window of a lost node with the host.
    pub(super) fn own_window_lost(&mut self, node: NodeId) {
        if let Some(id) = self.machine.own_window(node).map(|window| window.id) {
            self.windows[usize::from(id.0)] = None;
        }
    }

    /// Returns a page of the windows, starting at a number.
    pub(super) fn page_of_windows(&self, from: u32) -> Reply {
        let mut rest = self.machine.windows().iter().zip(&self.windows).skip(from as usize);
        let info = |(window, record): (&Window, &Option<WindowRecord>)| WindowInfo {
            id: window.id.0,
            name: window.name.clone(),
            nodes: window.members.clone(),
            bytes: record.as_ref().map_or((0, 0), |record| {
                (record.allocator.allocated_bytes(), record.allocator.total_bytes())
            }),
            trust: window.trust.clone(),
            home: window.home,
            read_ns: window.read_ns,
            line_ns: window.line_ns,
        };
        let windows = rest.by_ref().take(PAGE).map(info).collect();
        Reply::Windows { windows, more: rest.next().is_some() }
    }

    /// Records that the allocation of a window has changed.
    pub(super) fn window_changed(&mut self, id: WindowId) {
        if let Some(node) = self.machine.window(id).and_then(|window| window.private_to) {
            self.node_changed(node);
        }
    }
}
