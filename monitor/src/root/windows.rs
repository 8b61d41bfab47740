//! Memory and doorbells of all windows. The root creates every window, is the `ivshmem` server of each, and
//! keeps a mapping of each, even of those that the host's programs do not access: it clears memory that it
//! lends.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::os::fd::{BorrowedFd, OwnedFd};

use tombolo_base::coherence::Caches;
use tombolo_base::{NodeId, SharedMemory, WindowId};
use tombolo_link::window::{WindowHeader, WindowRange};
use tombolo_machine::vm::ivshmem::Server;
use tombolo_machine::{Machine, Window};
use tombolo_platform::copy::{self, CopyLoop};
use tombolo_platform::memory::map;

use super::text;

/// A window as held by the host.
#[derive(Debug)]
struct HostWindow {
    server: Server,
    memory: SharedMemory,
    /// Caches between its sides and the memory; `None` if it is coherent.
    caches: Option<Caches>,
}

impl HostWindow {
    fn new(window: &Window, generation: NonZeroU16) -> Result<Self, String> {
        let length_bytes = window.length_bytes();
        let length = usize::try_from(length_bytes).map_err(text)?;
        let (peers, host) = (window.members.len() as u16, window.peer(NodeId::HOST));
        let server = Server::new(length_bytes, window.doorbells, peers, host).map_err(text)?;
        let memory = map(server.memory(), 0, length).map_err(text)?;
        let node = window.private_to.unwrap_or(NodeId::HOST);
        WindowHeader { window: window.id, node, generation, length_bytes, caches: window.caches }
            .write(&memory);
        if let Some(caches) = window.caches {
            caches.write_back(&memory);
        }
        Ok(HostWindow { server, memory, caches: window.caches })
    }
}

/// All windows of the machine.
#[derive(Debug, Default)]
pub(super) struct Windows {
    windows: BTreeMap<WindowId, HostWindow>,
}

impl Windows {
    /// Creates the windows that exist as long as the machine. Those between a node and the host are created
    /// when the node starts.
    ///
    /// # Errors
    /// The window, and the error of the kernel.
    pub(super) fn new(machine: &Machine) -> Result<Self, String> {
        let mut windows = BTreeMap::new();
        for window in machine.windows().iter().filter(|window| window.private_to.is_none()) {
            let made = HostWindow::new(window, NonZeroU16::MIN);
            windows.insert(window.id, made.map_err(|error| format!("window {}: {error}", window.name))?);
        }
        Ok(Windows { windows })
    }

    /// Creates the window between a node and the host, and connects the node to all its windows. Returns the
    /// sockets for its emulator, in window order.
    ///
    /// # Errors
    /// An error of the kernel.
    pub(super) fn connect(
        &mut self,
        machine: &Machine,
        node: NodeId,
        generation: NonZeroU16,
    ) -> Result<Vec<OwnedFd>, String> {
        let mut sockets = Vec::new();
        for window in machine.windows_of(node) {
            if window.private_to == Some(node) {
                self.windows.insert(window.id, HostWindow::new(window, generation)?);
            }
            let peer = window.peer(node).ok_or("it is not in its window")?;
            let made = self.windows.get_mut(&window.id).ok_or("its window is not there")?;
            sockets.push(made.server.connect(peer).map_err(text)?);
        }
        Ok(sockets)
    }

    /// Opens the window between the host and a node that joins by itself, in an existing file or device, from
    /// `base_bytes` on. Returns this process's mapping.
    ///
    /// # Errors
    /// An error of the kernel.
    pub(super) fn attach(
        &mut self,
        window: &Window,
        file: OwnedFd,
        base_bytes: u64,
    ) -> Result<SharedMemory, String> {
        let length = usize::try_from(window.length_bytes()).map_err(text)?;
        let memory = map(&file, base_bytes, length).map_err(text)?;
        let peers = window.members.len() as u16;
        let server =
            Server::from_memory(file, window.length_bytes(), window.doorbells, peers).map_err(text)?;
        self.windows.insert(window.id, HostWindow { server, memory: memory.clone(), caches: window.caches });
        Ok(memory)
    }

    /// Returns the event counters that ring a peer, by vector.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub(super) fn bells(&self, id: WindowId, peer: u16) -> Result<Vec<OwnedFd>, String> {
        let all = (0..).map_while(|vector| self.bell(id, peer, vector));
        all.map(|bell| bell.try_clone_to_owned().map_err(text)).collect()
    }

    /// Removes a lost node: closes its window with the host, and disconnects it from its other windows.
    pub(super) fn node_lost(&mut self, machine: &Machine, node: NodeId) {
        for window in machine.windows_of(node) {
            if window.private_to == Some(node) {
                self.windows.remove(&window.id);
            } else if let (Some(peer), Some(made)) = (window.peer(node), self.windows.get_mut(&window.id)) {
                made.server.disconnect(peer);
            }
        }
    }

    /// Returns the memory of a window as mapped by this process.
    fn mapped(&self, id: WindowId) -> Option<&SharedMemory> {
        self.windows.get(&id).map(|window| &window.memory)
    }

    /// Returns a part of the memory, and the caches of its sides.
    pub(super) fn part(
        &self,
        id: WindowId,
        offset_bytes: u64,
        length_bytes: usize,
    ) -> Option<(SharedMemory, Option<Caches>)> {
        let window = self.windows.get(&id)?;
        let part = window.memory.slice(usize::try_from(offset_bytes).ok()?, length_bytes).ok()?;
        Some((part, window.caches))
    }

    /// Returns the memory of a window, to be passed on.
    pub(super) fn memory(&self, id: WindowId) -> Option<BorrowedFd<'_>> {
        self.windows.get(&id).map(|window| window.server.memory())
    }

    /// Returns the event counter that rings a peer on a vector.
    pub(super) fn bell(&self, id: WindowId, peer: u16, vector: u16) -> Option<BorrowedFd<'_>> {
        self.windows.get(&id)?.server.bell(peer, vector)
    }

    pub(super) fn write(&self, id: WindowId, range: WindowRange, bytes: &[u8]) {
        if let Some(memory) = self.mapped(id) {
            // The core lent a range of this window that is long enough.
            let _ = copy::write(CopyLoop::Best, memory, range.offset_bytes as usize, bytes);
            self.write_back(id, range);
        }
    }

    pub(super) fn clear(&self, id: WindowId, range: WindowRange) {
        if let Some(memory) = self.mapped(id) {
            // As above.
            let _ = copy::fill(memory, range.offset_bytes as usize, range.length_bytes as usize, 0);
            self.write_back(id, range);
        }
    }

    /// Writes back the stores to a range, so that the nodes see them.
    fn write_back(&self, id: WindowId, range: WindowRange) {
        let Some(window) = self.windows.get(&id) else { return };
        let part = window.memory.slice(range.offset_bytes as usize, range.length_bytes as usize);
        if let (Some(caches), Ok(part)) = (window.caches, part) {
            caches.write_back(&part);
        }
    }
}
