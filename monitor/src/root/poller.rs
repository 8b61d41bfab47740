//! Nodes with pending input for the root. The kernel keeps the list, so that the cost of a wake-up depends on
//! the active nodes, not on all nodes.
//!
//! A node is armed or active. For an armed node, the root has announced on the control link that it sleeps,
//! and the node is in the set; the root does not examine it until the kernel reports it. The root examines an
//! active node in every round, until the node can be armed. Orders and typed input for an armed node make
//! it active.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use tombolo_base::NodeId;
use tombolo_platform::OsError;
use tombolo_platform::epoll::{Epoll, Events, Trigger};
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;

use super::node::RunningNode;

/// All open descriptors of a node, with the events to wait for, if any.
pub(super) type Sources<'a> = Vec<(BorrowedFd<'a>, Option<Interest>)>;

/// Descriptors of a node, in a set of their own: closing the set removes all of them at once, including those
/// that a copy elsewhere keeps open.
#[derive(Debug)]
struct NodeInterests {
    set: Epoll,
    /// Events that the set waits for.
    interests: HashMap<RawFd, Interest>,
}

impl NodeInterests {
    /// Sets the descriptors to wait for. If descriptors were closed or created since, `rebuild` starts from
    /// an empty set, because a number may have been reused.
    fn update(&mut self, sources: &Sources<'_>, rebuild: bool) -> Result<(), OsError> {
        if rebuild {
            sources.iter().for_each(|(fd, _)| self.set.remove(fd));
            self.interests.clear();
        }
        for (fd, wanted) in sources {
            let before = self.interests.get(&fd.as_raw_fd()).copied();
            match (before, *wanted) {
                _ if before == *wanted => continue,
                (None, Some(wanted)) => self.set.add(fd, wanted, Trigger::Level, 0)?,
                (Some(_), Some(wanted)) => self.set.change(fd, wanted, Trigger::Level, 0)?,
                (_, None) => self.set.remove(fd),
            }
            match *wanted {
                Some(wanted) => self.interests.insert(fd.as_raw_fd(), wanted),
                None => self.interests.remove(&fd.as_raw_fd()),
            };
        }
        Ok(())
    }
}

/// Tracks which nodes have pending input.
#[derive(Debug)]
pub(super) struct NodePoller {
    /// A set of the nodes' sets.
    all: Epoll,
    nodes: HashMap<NodeId, NodeInterests>,
    active: BTreeSet<NodeId>,
    events: Events,
}

impl NodePoller {
    /// Creates an empty tracker.
    ///
    /// # Errors
    /// Too many open files.
    pub(super) fn new() -> Result<Self, OsError> {
        Ok(NodePoller {
            all: Epoll::new()?,
            nodes: HashMap::new(),
            active: BTreeSet::new(),
            events: Events::new(),
        })
    }

    /// Returns a descriptor that is readable when an armed node has input.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }

    /// Returns the nodes to examine.
    pub(super) fn active_nodes(&self) -> Vec<NodeId> {
        self.active.iter().copied().collect()
    }

    /// Marks a node as active because it was given an order or input.
    pub(super) fn mark_active(&mut self, id: NodeId, node: &mut RunningNode) {
        if self.active.insert(id) {
            node.wake_up();
        }
    }

    /// Adds a node that starts to run.
    ///
    /// # Errors
    /// Too many open files.
    pub(super) fn add(&mut self, id: NodeId) -> Result<(), OsError> {
        let set = Epoll::new()?;
        self.all.add(&set, Interest::Read, Trigger::Level, u64::from(id.0))?;
        self.nodes.insert(id, NodeInterests { set, interests: HashMap::new() });
        self.active.insert(id);
        Ok(())
    }

    /// Removes a node that is gone.
    pub(super) fn remove(&mut self, id: NodeId) {
        self.active.remove(&id);
        self.nodes.remove(&id);
    }

    /// Arms active nodes that have no remaining work; a node's control link is read only if
    /// `requests_enabled`. Returns the nodes that cannot be waited for.
    pub(super) fn arm(
        &mut self,
        nodes: &mut HashMap<NodeId, RunningNode>,
        requests_enabled: bool,
    ) -> Vec<(NodeId, OsError)> {
        let mut failed = Vec::new();
        for id in self.active_nodes() {
            let (Some(node), Some(interests)) = (nodes.get_mut(&id), self.nodes.get_mut(&id)) else {
                continue;
            };
            if !node.prepare_to_sleep() {
                continue;
            }
            let rebuild = node.take_sources_changed();
            match interests.update(&node.sources(requests_enabled), rebuild) {
                Ok(()) => {
                    self.active.remove(&id);
                }
                Err(error) => failed.push((id, error)),
            }
        }
        failed
    }

    /// Returns whether the root may sleep until the kernel reports an event.
    pub(super) fn is_armed(&self) -> bool {
        self.active.is_empty()
    }

    /// Updates the state after a sleep: nodes with input become active, and so do those that could not be
    /// armed.
    ///
    /// # Errors
    /// An error of the kernel.
    pub(super) fn process_events(&mut self, nodes: &mut HashMap<NodeId, RunningNode>) -> Result<(), OsError> {
        self.all.wait(&mut self.events, Some(Deadline::after(std::time::Duration::ZERO)))?;
        let ready: Vec<NodeId> = self.events.iter().map(|(key, _)| NodeId(key as u16)).collect();
        for id in self.active_nodes() {
            nodes.get_mut(&id).into_iter().for_each(RunningNode::wake_up);
        }
        for id in ready {
            if let Some(node) = nodes.get_mut(&id) {
                self.mark_active(id, node);
            }
        }
        Ok(())
    }

    /// Marks every node as active, because the events to wait for have changed for all.
    pub(super) fn mark_all_active(&mut self, nodes: &mut HashMap<NodeId, RunningNode>) {
        for (id, node) in nodes {
            self.mark_active(*id, node);
        }
    }
}
