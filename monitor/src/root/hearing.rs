//! Nodes with pending input for the root. The kernel keeps the list, so that the cost of a wake-up depends on
//! the active nodes, not on all nodes.
//!
//! A node is armed or stirring. For an armed node, the root has announced on the control link that it sleeps,
//! and the node is in the set; the root does not examine it until the kernel reports it. The root examines a
//! stirring node in every round, until the node can be armed. Orders and typed input for an armed node make
//! it stir.

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
struct Listening {
    set: Epoll,
    /// Events that the set waits for.
    interests: HashMap<RawFd, Interest>,
}

impl Listening {
    /// Sets the descriptors to wait for. If descriptors were closed or created since, `anew` rebuilds the
    /// set, because a number may have been reused.
    fn listen(&mut self, sources: &Sources<'_>, anew: bool) -> Result<(), OsError> {
        if anew {
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
pub(super) struct Hearing {
    /// A set of the nodes' sets.
    all: Epoll,
    nodes: HashMap<NodeId, Listening>,
    stirring: BTreeSet<NodeId>,
    events: Events,
}

impl Hearing {
    /// Creates an empty tracker.
    ///
    /// # Errors
    /// Too many open files.
    pub(super) fn new() -> Result<Self, OsError> {
        Ok(Hearing {
            all: Epoll::new()?,
            nodes: HashMap::new(),
            stirring: BTreeSet::new(),
            events: Events::new(),
        })
    }

    /// Returns a descriptor that is readable when an armed node has input.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }

    /// Returns the nodes to examine.
    pub(super) fn stirring(&self) -> Vec<NodeId> {
        self.stirring.iter().copied().collect()
    }

    /// Makes a node stir because it was given an order or input.
    pub(super) fn stir(&mut self, id: NodeId, node: &mut RunningNode) {
        if self.stirring.insert(id) {
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
        self.nodes.insert(id, Listening { set, interests: HashMap::new() });
        self.stirring.insert(id);
        Ok(())
    }

    /// Removes a node that is gone.
    pub(super) fn forget(&mut self, id: NodeId) {
        self.stirring.remove(&id);
        self.nodes.remove(&id);
    }

    /// Arms stirring nodes that have no remaining work; a node's control link is read only if it `may_ask`.
    /// Returns the nodes that cannot be waited for.
    pub(super) fn arm(
        &mut self,
        nodes: &mut HashMap<NodeId, RunningNode>,
        may_ask: bool,
    ) -> Vec<(NodeId, OsError)> {
        let mut deaf = Vec::new();
        for id in self.stirring() {
            let (Some(node), Some(listening)) = (nodes.get_mut(&id), self.nodes.get_mut(&id)) else {
                continue;
            };
            if !node.about_to_sleep() {
                continue;
            }
            let anew = node.take_other_sources();
            match listening.listen(&node.sources(may_ask), anew) {
                Ok(()) => {
                    self.stirring.remove(&id);
                }
                Err(error) => deaf.push((id, error)),
            }
        }
        deaf
    }

    /// Returns whether the root may sleep until the kernel reports an event.
    pub(super) fn is_armed(&self) -> bool {
        self.stirring.is_empty()
    }

    /// Updates the state after a sleep: nodes with input stir, and so do those that could not be armed.
    ///
    /// # Errors
    /// An error of the kernel.
    pub(super) fn wake(&mut self, nodes: &mut HashMap<NodeId, RunningNode>) -> Result<(), OsError> {
        self.all.wait(&mut self.events, Some(Deadline::after(std::time::Duration::ZERO)))?;
        let told: Vec<NodeId> = self.events.iter().map(|(key, _)| NodeId(key as u16)).collect();
        for id in self.stirring() {
            nodes.get_mut(&id).into_iter().for_each(RunningNode::wake_up);
        }
        for id in told {
            if let Some(node) = nodes.get_mut(&id) {
                self.stir(id, node);
            }
        }
        Ok(())
    }

    /// Makes every node stir, because the events to wait for have changed for all.
    pub(super) fn stir_all(&mut self, nodes: &mut HashMap<NodeId, RunningNode>) {
        for (id, node) in nodes {
            self.stir(*id, node);
        }
    }
}
