//! Which nodes have something for the root to read: the kernel keeps the list, so that the cost of a wakeup
//! grows with the nodes that stir, not with all nodes.
//!
//! A node is armed or stirring. For an armed node, the root has announced on the control link that it sleeps,
//! and the node is in the set; the root does not look at it until the kernel reports it. The root looks at a
//! stirring node in every round, until the node can be armed. Whatever is given to an armed node, an order or
//! typed input, makes it stir.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use tombolo_base::NodeId;
use tombolo_platform::OsError;
use tombolo_platform::epoll::{Epoll, Events, Trigger};
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;

use super::node::RunningNode;

/// What a node may be heard by: every descriptor that it has open, with what to wait for, if for anything.
pub(super) type Sources<'a> = Vec<(BorrowedFd<'a>, Option<Interest>)>;

/// The descriptors of a node. They are a set of their own: when that is closed the kernel forgets all of them
/// at once, also those that a copy elsewhere keeps open.
#[derive(Debug)]
struct Listening {
    set: Epoll,
    /// What the set waits for.
    interests: HashMap<RawFd, Interest>,
}

impl Listening {
    /// Waits for these from now on. Where descriptors were closed or made since, `anew`: a number may be
    /// another's by now.
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

/// Says which nodes to hear.
#[derive(Debug)]
pub(super) struct Hearing {
    /// A set of sets, by node.
    all: Epoll,
    nodes: HashMap<NodeId, Listening>,
    stirring: BTreeSet<NodeId>,
    events: Events,
}

impl Hearing {
    /// Of no nodes.
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

    /// Readable when an armed node has something to be heard.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }

    /// Returns the nodes to look at.
    pub(super) fn stirring(&self) -> Vec<NodeId> {
        self.stirring.iter().copied().collect()
    }

    /// A node is to be looked at, because something was given to it.
    pub(super) fn stir(&mut self, id: NodeId, node: &mut RunningNode) {
        if self.stirring.insert(id) {
            node.wake_up();
        }
    }

    /// A node runs from now on.
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

    /// A node is gone.
    pub(super) fn forget(&mut self, id: NodeId) {
        self.stirring.remove(&id);
        self.nodes.remove(&id);
    }

    /// Arms what stirs, as far as there is nothing left to do on it; a node's control link is listened to
    /// only if it `may_ask`. Returns the nodes that cannot be listened to.
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

    /// Returns whether the root may sleep until the kernel tells of something.
    pub(super) fn is_armed(&self) -> bool {
        self.stirring.is_empty()
    }

    /// After a sleep: what has something to be heard stirs, and so does what could not be armed.
    ///
    /// # Errors
    /// What the kernel answered.
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

    /// Everything stirs: what is listened to has changed for all.
    pub(super) fn stir_all(&mut self, nodes: &mut HashMap<NodeId, RunningNode>) {
        for (id, node) in nodes {
            self.stir(*id, node);
        }
    }
}
