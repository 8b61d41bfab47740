//! Collective operations of a group of ranks.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use tombolo_base::CacheMaintenance;

use super::lane::{Claims, Incoming, Outgoing};
use super::{AcceptedLength, Element, Engine, Operation, PrivateBytes, WrongLength};

/// The ranks of a communicator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Ranks of the members in the job, in the order of their numbers in the group.
    pub members: Vec<usize>,
    /// This rank's number in the group.
    pub own: usize,
}

impl Group {
    /// Returns the member `distance` after this rank, cyclically.
    fn successor(&self, distance: usize) -> usize {
        self.members[(self.own + distance) % self.members.len()]
    }

    /// Returns the member `distance` before this rank, cyclically.
    fn predecessor(&self, distance: usize) -> usize {
        self.successor(self.members.len() - distance % self.members.len())
    }
}

/// Error of a collective that was not performed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CollectiveError<E> {
    /// Error that `idle` returned.
    #[error("{0}")]
    Ended(E),
    /// Two ranks have made different calls of `RCCE_malloc`, `RCCE_flag_alloc`, `RCCE_shmalloc` or their
    /// counterparts that free. From then on symmetric addresses would differ.
    #[error(
        "unequal symmetric allocation: calls that allocate or free: {own} on this rank, {others} on rank {other}{same}; \
         all ranks have to make the same ones, with the same arguments, in the same order",
        same = if own == others { " (with other arguments)" } else { "" }
    )]
    Unequal {
        /// Number of calls on this rank.
        own: u64,
        /// The other rank.
        other: usize,
        /// Number of calls on the other rank.
        others: u64,
    },
    /// A rank takes part with a message of another length.
    #[error("{0}; all ranks have to state the same length")]
    WrongLength(WrongLength),
}

impl<E> From<E> for CollectiveError<E> {
    fn from(error: E) -> Self {
        CollectiveError::Ended(error)
    }
}

type Idle<'a, E> = &'a mut dyn FnMut() -> Result<(), E>;

impl<C: CacheMaintenance, B: PrivateBytes> Engine<C, B> {
    /// Waits until all members have called it, with a dissemination barrier: in round k a rank signals the
    /// one 2^k after it.
    ///
    /// Signals between two ranks are counted, so communicators need no flags of their own: two ranks pass
    /// their common barriers in the same order.
    ///
    /// # Errors
    /// [`CollectiveError::Unequal`], or those of `idle`.
    pub fn barrier<E>(&mut self, group: &Group, idle: Idle<'_, E>) -> Result<(), CollectiveError<E>> {
        let history = self.history();
        let mut distance = 1;
        while distance < group.members.len() {
            let (to, from) = (group.successor(distance), group.predecessor(distance));
            let signal = &mut self.signals_out[to];
            // A rank is at most one barrier ahead of another, so its values of the previous one are intact.
            let slot = 2 * (signal.raised() % 2) as usize;
            signal.raise_with(slot, &[history.operations, history.digest]);
            while !self.signals_in[from].is_raised() {
                self.push();
                idle()?;
            }
            let slot = 2 * (self.signals_in[from].taken() % 2) as usize;
            let [operations, digest] = [slot, slot + 1].map(|word| self.signals_in[from].word(word));
            self.signals_in[from].take();
            if (operations, digest) != (history.operations, history.digest) {
                let own = history.operations;
                return Err(CollectiveError::Unequal { own, other: from, others: operations });
            }
            distance *= 2;
        }
        Ok(())
    }

    /// Sends `message` of the member `root` to all others, along a binomial tree.
    ///
    /// # Errors
    /// [`CollectiveError::WrongLength`], or those of `idle`.
    ///
    /// # Panics
    /// If `root` is not a number of a group member.
    pub fn broadcast<E>(
        &mut self,
        group: &Group,
        root: usize,
        message: &mut [u8],
        idle: Idle<'_, E>,
    ) -> Result<(), CollectiveError<E>> {
        let size = group.members.len();
        let member = |relative: usize| group.members[(relative + root) % size];
        let own = (group.own + size - root) % size;
        // The parent's number lacks this rank's lowest bit; children have one additional lower bit.
        let mut bit = 1;
        while bit < size && own & bit == 0 {
            bit *= 2;
        }
        if own != 0 {
            self.receive_part(member(own & !bit), message, idle)?;
        }
        while bit > 1 {
            bit /= 2;
            if own + bit < size {
                self.send_part(member(own + bit), message, idle)?;
            }
        }
        Ok(())
    }

    /// Combines the elements of all members, along a binomial tree, into `output` of the member `root`, or of
    /// all members if `root` is `None`. Input and output have the same length, in whole elements.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    pub fn reduce<E>(
        &mut self,
        group: &Group,
        root: Option<usize>,
        (element, operation): (Element, Operation),
        input: &[u8],
        output: &mut [u8],
        idle: Idle<'_, E>,
    ) -> Result<(), CollectiveError<E>> {
        let size = group.members.len();
        let top = root.unwrap_or(0);
        let member = |relative: usize| group.members[(relative + top) % size];
        let own = (group.own + size - top) % size;
        let mut result = input.to_vec();
        element.swap(&mut result);
        let mut part = vec![0; input.len()];
        let mut bit = 1;
        while bit < size && own & bit == 0 {
            if own + bit < size {
                self.receive_part(member(own + bit), &mut part, idle)?;
                element.combine(operation, &mut result, &part);
            }
            bit *= 2;
        }
        if own != 0 {
            self.send_part(member(own & !bit), &result, idle)?;
        }
        if root.is_none() {
            self.broadcast(group, top, &mut result, idle)?;
        } else if own != 0 {
            return Ok(());
        }
        element.swap(&mut result);
        output.copy_from_slice(&result);
        Ok(())
    }

    fn send_part<E>(
        &mut self,
        dest: usize,
        part: &[u8],
        idle: Idle<'_, E>,
    ) -> Result<(), CollectiveError<E>> {
        let mut outgoing = Outgoing::new(self.next_request(), dest);
        while !outgoing.advance(&mut self.collectives, part) {
            self.push();
            idle()?;
        }
        Ok(())
    }

    fn receive_part<E>(
        &mut self,
        source: usize,
        mut part: &mut [u8],
        idle: Idle<'_, E>,
    ) -> Result<(), CollectiveError<E>> {
        let mut incoming = Incoming::new(Some(source), AcceptedLength::Exactly(part.len()));
        loop {
            match incoming.advance(&mut self.collectives, &Claims::default(), &mut part) {
                Some(Ok(_)) => return Ok(()),
                Some(Err(error)) => return Err(CollectiveError::WrongLength(error)),
                None => self.push(),
            }
            idle()?;
        }
    }
}
