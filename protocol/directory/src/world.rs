//! Several ranks in one process, with links between them, for tests, the model checker and the simulator.
//!
//! The ranks are [`Node`]s. Links deliver in order. A store holds a number for each page; each write gives a
//! page the next number, so that a rank that may read another number than the last has a stale copy.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::message::{Access, Message};
use crate::node::{Fault, Geometry, Node, Store};
use crate::ranks::Rank;

/// Content of a page in tests.
pub trait Cell: Clone {
    /// Whether pages of it are compared and merged, as release consistency does.
    const MERGES: bool;

    /// Returns the difference from `before`; `None` if they are equal.
    fn difference(&self, before: &Self) -> Option<Self>;

    /// Merges a difference. Returns false if it is invalid.
    fn merge(&mut self, difference: Self) -> bool;
}

/// A number is only replaced, never merged.
impl Cell for u32 {
    const MERGES: bool = false;

    fn difference(&self, _: &u32) -> Option<u32> {
        None
    }

    fn merge(&mut self, _: u32) -> bool {
        false
    }
}

/// Memory of a rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Memory<C> {
    /// Access of the program to each page, and its content.
    pub pages: Vec<(Access, C)>,
    /// Invalid use by the protocol, if any.
    pub misuse: Option<&'static str>,
}

impl<C> Memory<C> {
    /// Returns a page, which must have the expected access.
    fn page(&mut self, page: u32, is: impl FnOnce(Access) -> bool, else_misuse: &'static str) -> &mut C {
        let (access, content) = &mut self.pages[page as usize];
        if !is(*access) {
            self.misuse = Some(else_misuse);
        }
        content
    }
}

impl<C: Cell> Store for Memory<C> {
    type Content = C;

    fn downgrade(&mut self, page: u32, leave: Access, content: bool) -> Option<C> {
        let found = self.page(page, |access| access > Access::None, "access to an invalid page was reduced");
        let content = content.then(|| found.clone());
        let access = &mut self.pages[page as usize].0;
        *access = leave.min(*access);
        content
    }

    fn install(&mut self, page: u32, access: Access, content: C) {
        self.page(page, |access| access == Access::None, "a valid page was replaced");
        self.pages[page as usize] = (access, content);
    }

    fn upgrade(&mut self, page: u32) {
        self.page(page, |access| access == Access::Read, "a page that could not be read became writable");
        self.pages[page as usize].0 = Access::Write;
    }

    fn mark_lost(&mut self, page: u32, _: Rank) {
        self.page(page, |access| access == Access::None, "a valid page was lost");
    }

    fn copy(&mut self, page: u32) -> C {
        let is = |access| C::MERGES && access > Access::None;
        self.page(page, is, "a page was copied that is invalid, or of sequential consistency").clone()
    }

    fn difference(&mut self, page: u32, before: &C) -> Option<C> {
        let is = |access| C::MERGES && access == Access::Read;
        self.page(page, is, "a page was compared that may be written to, or not read").difference(before)
    }

    fn merge(&mut self, page: u32, difference: C) -> bool {
        let is = |access| C::MERGES && access == Access::Write;
        self.page(page, is, "a page was merged that is not at home").merge(difference)
    }
}

/// Item in transit on a link.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum InTransit<C> {
    /// A message.
    Message(Message<C>),
    /// Evidence that the sender is dead. Nothing follows.
    Death,
}

/// Messages in transit from each rank to each, in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Links<C> {
    ranks: usize,
    /// From `from * ranks + to`.
    all: Vec<VecDeque<InTransit<C>>>,
}

impl<C: Clone> Links<C> {
    pub(crate) fn new(ranks: usize) -> Self {
        Links { ranks, all: alloc::vec![VecDeque::new(); ranks * ranks] }
    }

    pub(crate) fn of(&self, from: usize, to: usize) -> &VecDeque<InTransit<C>> {
        &self.all[from * self.ranks + to]
    }

    pub(crate) fn of_mut(&mut self, from: usize, to: usize) -> &mut VecDeque<InTransit<C>> {
        &mut self.all[from * self.ranks + to]
    }

    /// Returns the links with items in transit, as pairs of sender and receiver.
    pub(crate) fn loaded_links(&self) -> impl Iterator<Item = (usize, usize)> {
        let loaded_links = self.all.iter().enumerate().filter(|(_, link)| !link.is_empty());
        loaded_links.map(|(index, _)| (index / self.ranks, index % self.ranks))
    }

    /// Returns the links on which the last message of a dead rank is in transit to a live one.
    pub(crate) fn losable_links(
        &self,
        is_alive: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = (usize, usize)> {
        self.loaded_links()
            .filter(move |(from, to)| !is_alive(*from) && is_alive(*to) && self.of(*from, *to).len() > 1)
    }

    /// Loses the last message before the report of a death.
    pub(crate) fn lose(&mut self, from: usize, to: usize) {
        let link = self.of_mut(from, to);
        if link.len() > 1 {
            let _ = link.remove(link.len() - 2);
        }
    }

    /// Drops everything in transit to `died`, and reports its death to all live ranks after its messages.
    pub(crate) fn end(&mut self, died: usize, is_alive: impl Fn(usize) -> bool) {
        for other in 0..self.ranks {
            self.of_mut(other, died).clear();
            if is_alive(other) {
                self.of_mut(died, other).push_back(InTransit::Death);
            }
        }
    }
}

/// One rank with its program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// State of the protocol.
    pub node: Node<u32>,
    /// Memory of the rank.
    pub memory: Memory<u32>,
    /// Access that the program waits for.
    pub waits: Option<(u32, Access)>,
}

/// All ranks of a job.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// Members by rank; `None` for the dead.
    pub members: Vec<Option<Member>>,
    links: Links<u32>,
    /// Last number written to each page.
    pub latest: Vec<u32>,
    /// Number of completed accesses.
    pub completed: u32,
    /// Number of accesses that were refused because a page was lost.
    pub refused: u32,
    /// Invariant that was violated, if any.
    pub broken: Option<&'static str>,
}

impl World {
    /// Creates a job at its start.
    ///
    /// # Panics
    /// Panics if the geometry is invalid.
    #[must_use]
    pub fn new(geometry: Geometry) -> World {
        let ranks = usize::from(geometry.ranks);
        let member = |rank: usize| {
            let node = Node::new(Geometry { me: Rank(rank as u8), ..geometry }).expect("a job that can be");
            let pages = (0..geometry.pages).map(|page| (node.access(page), 0)).collect();
            Some(Member { node, memory: Memory { pages, misuse: None }, waits: None })
        };
        World {
            members: (0..ranks).map(member).collect(),
            links: Links::new(ranks),
            latest: alloc::vec![0; geometry.pages as usize],
            completed: 0,
            refused: 0,
            broken: None,
        }
    }

    /// Returns the links with items in transit, as pairs of sender and receiver.
    pub fn loaded_links(&self) -> impl Iterator<Item = (usize, usize)> {
        self.links.loaded_links()
    }

    /// Returns the links on which the last message of a dead rank is in transit.
    pub fn losable_links(&self) -> impl Iterator<Item = (usize, usize)> {
        self.links.losable_links(|rank| self.members[rank].is_some())
    }

    /// Starts an access of a rank's program to a page.
    pub fn access(&mut self, rank: usize, page: u32, access: Access) {
        if let Some(member) = &mut self.members[rank] {
            member.waits = Some((page, access));
        }
        self.proceed(rank, 0);
    }

    /// Runs the program of a rank as far as possible.
    fn proceed(&mut self, rank: usize, now_ns: u64) {
        let Some(member) = &mut self.members[rank] else { return };
        if let Some((page, access)) = member.waits {
            let allowed = member.memory.pages[page as usize].0;
            if allowed >= access {
                if access == Access::Write {
                    self.latest[page as usize] += 1;
                    member.memory.pages[page as usize].1 = self.latest[page as usize];
                }
                member.waits = None;
                self.completed += 1;
            } else {
                match member.node.fault(&mut member.memory, now_ns, page, access) {
                    Ok(Fault::Lost(_)) => {
                        member.waits = None;
                        self.refused += 1;
                    }
                    Ok(Fault::Resolved) if member.memory.pages[page as usize].0 >= access => {
                        self.proceed(rank, now_ns);
                        return;
                    }
                    Ok(Fault::Requested) => {}
                    Ok(Fault::Resolved) => {
                        self.broken = Some("a fault is resolved, and the page is not there");
                    }
                    Err(_) => self.broken = Some("a fault is refused"),
                }
            }
        }
        self.send(rank);
        self.check();
    }

    fn send(&mut self, rank: usize) {
        while let Some((to, message)) =
            self.members[rank].as_mut().and_then(|member| member.node.take_outgoing())
        {
            if self.members[usize::from(to.0)].is_some() {
                self.links.of_mut(rank, usize::from(to.0)).push_back(InTransit::Message(message));
            }
        }
    }

    /// Delivers the next item in transit between two ranks.
    pub fn deliver(&mut self, from: usize, to: usize, now_ns: u64) {
        let Some(carried) = self.links.of_mut(from, to).pop_front() else { return };
        let Some(member) = &mut self.members[to] else { return };
        let Member { node, memory, .. } = member;
        let rank = Rank(from as u8);
        let handled = match carried {
            InTransit::Message(message) => node.receive(memory, now_ns, rank, message),
            InTransit::Death => node.handle_death(memory, now_ns, rank),
        };
        if handled.is_err() {
            self.broken = Some("an honest message is refused");
        }
        self.proceed_if_ready(to, now_ns);
    }

    /// Advances the time at a rank.
    pub fn tick(&mut self, rank: usize, now_ns: u64) {
        if let Some(Member { node, memory, .. }) = &mut self.members[rank]
            && node.tick(memory, now_ns).is_err()
        {
            self.broken = Some("a recall that waited is refused");
        }
        self.proceed_if_ready(rank, now_ns);
    }

    /// Wakes the program only when the protocol no longer waits for its page.
    fn proceed_if_ready(&mut self, rank: usize, now_ns: u64) {
        let ready = self.members[rank].as_ref().and_then(|member| {
            let (page, access) = member.waits?;
            // The requested access was granted, although it may have been recalled since, or the page is
            // lost.
            Some(member.node.want(page) < access)
        });
        if ready == Some(true) {
            self.proceed(rank, now_ns);
        } else {
            self.send(rank);
            self.check();
        }
    }

    /// Kills a rank at this moment.
    pub fn kill(&mut self, rank: usize) {
        self.members[rank] = None;
        self.links.end(rank, |other| self.members[other].is_some());
    }

    /// Loses the last message that a dead rank sent to another.
    pub fn lose(&mut self, from: usize, to: usize) {
        self.links.lose(from, to);
    }

    /// Whether there are no items in transit and no delayed recalls.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let waits = |member: &Member| member.node.due_ns().is_some();
        self.loaded_links().next().is_none() && !self.members.iter().flatten().any(waits)
    }

    /// Whether a program waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.members.iter().flatten().any(|member| member.waits.is_some())
    }

    /// Checks that memory is coherent.
    fn check(&mut self) {
        for page in 0..self.latest.len() {
            let (mut writers, mut readers) = (0, 0);
            for member in self.members.iter().flatten() {
                let (access, number) = member.memory.pages[page];
                writers += u32::from(access == Access::Write);
                readers += u32::from(access == Access::Read);
                if access > Access::None && number != self.latest[page] {
                    self.broken = Some("a rank may read what was overwritten");
                }
                if access != member.node.access(page as u32) {
                    self.broken = Some("the protocol and the memory differ");
                }
            }
            if writers > 1 || (writers == 1 && readers > 0) {
                self.broken = Some("a page that one rank may write to is valid elsewhere");
            }
        }
        if let Some(misuse) = self.members.iter().flatten().find_map(|member| member.memory.misuse) {
            self.broken = Some(misuse);
        }
        if self.loaded_links().any(|(from, to)| self.links.of(from, to).len() > self.max_in_transit()) {
            self.broken = Some("more is on its way than the protocol allows");
        }
    }

    /// Returns the maximum number of messages on a link: for each page a request for reading and one for
    /// writing, a recall, an answer, and grants, and reports of each death.
    fn max_in_transit(&self) -> usize {
        self.latest.len() * (6 + self.members.len()) + 2 * self.members.len()
    }
}
