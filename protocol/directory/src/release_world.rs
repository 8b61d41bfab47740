//! Several ranks with release consistency in one process, the counterpart of [`world`](crate::world), for
//! tests, the model checker and the simulator.
//!
//! A page consists of cells: one for each rank, written only by that rank, and one that is written under a
//! lock. Each write gives a cell the next number, so that an older number shows that a write was lost, or was
//! merged after a later one.

use alloc::vec::Vec;

use crate::message::Access;
use crate::node::{Consistency, Fault, Geometry, Node};
use crate::ranks::Rank;
use crate::world::{Cell, InTransit, Links, Memory};

/// Cells of a page; in a difference, pairs of a cell and its number.
pub type Cells = Vec<u8>;

impl Cell for Cells {
    const MERGES: bool = true;

    fn difference(&self, before: &Cells) -> Option<Cells> {
        let differ = (0_u8..).zip(before.iter().zip(self)).filter(|(_, (before, now))| before != now);
        let pairs: Cells = differ.flat_map(|(cell, (_, now))| [cell, *now]).collect();
        (!pairs.is_empty()).then_some(pairs)
    }

    fn merge(&mut self, difference: Cells) -> bool {
        let (pairs, rest) = difference.as_chunks::<2>();
        if !rest.is_empty() || pairs.iter().any(|[cell, _]| usize::from(*cell) >= self.len()) {
            return false;
        }
        for [cell, number] in pairs {
            self[usize::from(*cell)] = *number;
        }
        true
    }
}

/// Operation that a program waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PendingOperation {
    /// Reading a page.
    Read(u32),
    /// Writing to a page: to its own cell, or to the one under the lock.
    Write(u32, bool),
    /// The end of a release, after which it releases the lock if it holds it.
    Release(u64),
}

/// One rank with its program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// State of the protocol.
    pub node: Node<Cells>,
    /// Memory of the rank.
    pub memory: Memory<Cells>,
    /// Operation that the program waits for.
    pub waits: Option<PendingOperation>,
    /// By page and cell, the minimum number that the program must see.
    sees: Vec<Cells>,
}

/// All ranks of a job.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReleaseWorld {
    /// Members by rank; `None` for the dead.
    pub members: Vec<Option<Member>>,
    links: Links<Cells>,
    /// By page and cell, the last number that was written.
    written: Vec<Cells>,
    /// By page and cell, the last number that was released.
    released: Vec<Cells>,
    /// Holder of the lock, possibly dead.
    lock: Option<usize>,
    /// Number of completed accesses and releases.
    pub completed: u32,
    /// Number of accesses that were refused because a page was lost.
    pub refused: u32,
    /// Invariant that was violated, if any.
    pub broken: Option<&'static str>,
}

impl ReleaseWorld {
    /// Creates a job at its start.
    ///
    /// # Panics
    /// Panics if the geometry is invalid.
    #[must_use]
    pub fn new(geometry: Geometry) -> ReleaseWorld {
        let ranks = usize::from(geometry.ranks);
        let cells: Vec<Cells> = alloc::vec![alloc::vec![0; ranks + 1]; geometry.pages as usize];
        let member = |rank: usize| {
            let geometry = Geometry { me: Rank(rank as u8), consistency: Consistency::Release, ..geometry };
            let node = Node::new(geometry).expect("a job that can be");
            let pages = (0..geometry.pages).map(|page| (node.access(page), alloc::vec![0; ranks + 1]));
            let memory = Memory { pages: pages.collect(), misuse: None };
            Some(Member { node, memory, waits: None, sees: cells.clone() })
        };
        ReleaseWorld {
            members: (0..ranks).map(member).collect(),
            links: Links::new(ranks),
            written: cells.clone(),
            released: cells,
            lock: None,
            completed: 0,
            refused: 0,
            broken: None,
        }
    }

    /// Returns the pairs of ranks with messages in transit to a rank that is alive.
    pub fn loaded_links(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.links.loaded_links().filter(|(_, to)| self.members[*to].is_some())
    }

    /// Returns the pairs whose first rank is dead and has messages in transit.
    pub fn losable_links(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.links.losable_links(|rank| self.members[rank].is_some())
    }

    /// Whether a rank is alive and its program waits for nothing.
    #[must_use]
    pub fn is_idle(&self, rank: usize) -> bool {
        self.members[rank].as_ref().is_some_and(|member| member.waits.is_none())
    }

    /// Whether a rank has the lock.
    #[must_use]
    pub fn has_lock(&self, rank: usize) -> bool {
        self.lock == Some(rank)
    }

    /// Whether the lock can be taken: not while messages of a dead holder are in transit.
    #[must_use]
    pub fn is_lock_free(&self) -> bool {
        self.lock.is_none_or(|holder| {
            self.members[holder].is_none() && self.links.loaded_links().all(|(from, _)| from != holder)
        })
    }

    /// Starts an operation of the program of a rank. The program must be idle, and hold the lock to write
    /// under it.
    pub fn begin(&mut self, rank: usize, what: PendingOperation) {
        if let Some(member) = &mut self.members[rank] {
            member.waits = Some(what);
        }
        self.proceed(rank);
    }

    /// Starts a release by the program of a rank, including the lock if it holds it.
    pub fn release(&mut self, rank: usize) {
        if let Some(member) = &mut self.members[rank] {
            let number = member.node.release(&mut member.memory);
            member.waits = Some(PendingOperation::Release(number));
        }
        self.proceed(rank);
    }

    /// Takes the lock for the program of a rank. The lock must be free.
    pub fn lock(&mut self, rank: usize) {
        if self.lock.replace(rank).is_some() {
            self.settle_torn_writes();
        }
        self.refresh(rank);
    }

    /// Handles the death of the lock's holder: of its writes under the lock, those that reached their home
    /// count.
    fn settle_torn_writes(&mut self) {
        let shared = self.members.len();
        for member in self.members.iter().flatten() {
            let geometry = member.node.geometry();
            for (page, (_, cells)) in member.memory.pages.iter().enumerate() {
                if geometry.home(page as u32, crate::Ranks::NONE) == Some(geometry.me) {
                    self.written[page][shared] = cells[shared];
                    self.released[page][shared] = cells[shared];
                }
            }
        }
    }

    /// Makes everything released until now visible to the program of a rank.
    pub fn refresh(&mut self, rank: usize) {
        if let Some(member) = &mut self.members[rank] {
            member.node.refresh(&mut member.memory);
            member.sees.clone_from(&self.released);
        }
        self.settle(rank);
    }

    fn proceed(&mut self, rank: usize) {
        let own = rank;
        let shared = self.members.len();
        let Some(member) = &mut self.members[rank] else { return };
        let (page, access) = match member.waits {
            None => return self.settle(rank),
            Some(PendingOperation::Release(number)) => {
                if member.node.is_released(number) {
                    member.waits = None;
                    member.node.take_failed();
                    self.completed += 1;
                    let held = self.lock == Some(rank);
                    for (released, written) in self.released.iter_mut().zip(&self.written) {
                        released[own] = written[own];
                        if held {
                            released[shared] = written[shared];
                        }
                    }
                    if held {
                        self.lock = None;
                    }
                }
                return self.settle(rank);
            }
            Some(PendingOperation::Read(page)) => (page, Access::Read),
            Some(PendingOperation::Write(page, _)) => (page, Access::Write),
        };
        if member.memory.pages[page as usize].0 >= access {
            self.perform(rank, page);
        } else {
            match member.node.fault(&mut member.memory, 0, page, access) {
                Ok(Fault::Lost(_)) => {
                    member.waits = None;
                    self.refused += 1;
                }
                Ok(Fault::Resolved) if member.memory.pages[page as usize].0 >= access => {
                    self.perform(rank, page);
                }
                Ok(Fault::Requested) => {}
                Ok(Fault::Resolved) => {
                    self.broken = Some("a fault is resolved, and the page is not there");
                }
                Err(_) => self.broken = Some("a fault is refused"),
            }
        }
        self.settle(rank);
    }

    /// Performs the access of the program to a page that permits it.
    fn perform(&mut self, rank: usize, page: u32) {
        let shared = self.members.len();
        let Some(member) = &mut self.members[rank] else { return };
        if let Some(PendingOperation::Write(_, under_lock)) = member.waits {
            let cell = if under_lock { shared } else { rank };
            let value = &mut member.memory.pages[page as usize].1[cell];
            let last = &mut self.written[page as usize][cell];
            if *value != *last {
                self.broken = Some("a program writes after one whose write it does not see");
            }
            *last += 1;
            *value = *last;
        }
        member.waits = None;
        self.completed += 1;
    }

    /// Sends messages, and checks the invariants.
    fn settle(&mut self, rank: usize) {
        while let Some((to, message)) =
            self.members[rank].as_mut().and_then(|member| member.node.take_outgoing())
        {
            if self.members[usize::from(to.0)].is_some() {
                self.links.of_mut(rank, usize::from(to.0)).push_back(InTransit::Message(message));
            }
        }
        self.check();
    }

    /// Delivers the next message in transit between two ranks.
    pub fn deliver(&mut self, from: usize, to: usize) {
        let Some(carried) = self.links.of_mut(from, to).pop_front() else { return };
        let Some(Member { node, memory, .. }) = &mut self.members[to] else { return };
        let rank = Rank(from as u8);
        let handled = match carried {
            InTransit::Message(message) => node.receive(memory, 0, rank, message),
            InTransit::Death => node.handle_death(memory, 0, rank),
        };
        if handled.is_err() {
            self.broken = Some("an honest message is refused");
        }
        self.proceed(to);
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

    /// Whether no messages are in transit.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.loaded_links().next().is_none()
    }

    /// Whether a program waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.members.iter().flatten().any(|member| member.waits.is_some())
    }

    fn check(&mut self) {
        for (rank, member) in self.members.iter().enumerate() {
            let Some(member) = member else { continue };
            for (page, (access, cells)) in member.memory.pages.iter().enumerate() {
                if *access != member.node.access(page as u32) {
                    self.broken = Some("the protocol and the memory differ");
                }
                if *access == Access::None {
                    continue;
                }
                for (cell, number) in cells.iter().enumerate() {
                    let written = self.written[page][cell];
                    if *number > written {
                        self.broken = Some("a number was read that no program has written");
                    }
                    if *number < member.sees[page][cell] {
                        self.broken = Some("a program does not see what was released before it refreshed");
                    }
                    if cell == rank && *number != written {
                        self.broken = Some("a program does not see what it wrote itself");
                    }
                    let at_home = member.node.geometry().home(page as u32, crate::Ranks::NONE);
                    if at_home == Some(Rank(rank as u8)) && *number < self.released[page][cell] {
                        self.broken = Some("the home lacks what was released");
                    }
                }
            }
            if let Some(misuse) = member.memory.misuse {
                self.broken = Some(misuse);
            }
        }
    }
}
