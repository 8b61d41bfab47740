//! Collective operations.

use std::time::Instant;

use tombolo::names::NewRecord;
use tombolo_sharing::{Members, Rank, Ranks};

use crate::error::ObjectError;
use crate::job::{Backoff, Job, refused};
use crate::plain::Plain;
use crate::tree::{COLLECTIVE, Tree, decode, is_no_such_name, rank_of};

/// Collectives: all [members](Job::members) call the same one, without holding guards.
impl Job {
    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// [`ObjectError::RankEnded`] if a rank has ended; no collective can succeed until the remaining ranks
    /// [shrink](Self::shrink), though this one may have succeeded on others. [`ObjectError::TimedOut`].
    pub fn barrier(&mut self) -> Result<(), ObjectError> {
        self.all_reduce((), |(), ()| ())
    }

    /// Returns the value of rank `root` on all ranks, and ignores that of the others.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier); [`ObjectError::Unequal`].
    pub fn broadcast<T: Plain>(&mut self, root: u32, value: T) -> Result<T, ObjectError> {
        let bytes = self.broadcast_bytes(root, value.to_bytes())?;
        decode(root, &bytes)
    }

    /// Like [`broadcast`](Self::broadcast), for bytes whose length only `root` knows.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier); [`ObjectError::Refused`] if there is no rank `root`.
    pub fn broadcast_bytes(&mut self, root: u32, bytes: Vec<u8>) -> Result<Vec<u8>, ObjectError> {
        if root >= self.size() {
            let why = format!("there is no rank {root}; it has ranks 0 to {}", self.size() - 1);
            return Err(ObjectError::Refused { why });
        }
        let timeout = self.timeout();
        if !self.tree.members.ranks().contains(rank_of(root)) {
            return Err(ObjectError::RankEnded { rank: root, what: COLLECTIVE });
        }
        self.collective(|tree| tree.broadcast(root, bytes, timeout))
    }

    /// Combines the values of all ranks, in the order of ranks if `combine` is associative. Rank 0 gets the
    /// result, others `None`.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    pub fn reduce<T: Plain>(
        &mut self,
        value: T,
        mut combine: impl FnMut(T, T) -> T,
    ) -> Result<Option<T>, ObjectError> {
        let timeout = self.timeout();
        self.collective(|tree| tree.reduce(value, &mut combine, timeout))
    }

    /// Like [`reduce`](Self::reduce), but all ranks get the result.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    pub fn all_reduce<T: Plain>(
        &mut self,
        value: T,
        combine: impl FnMut(T, T) -> T,
    ) -> Result<T, ObjectError> {
        let own = value.clone();
        let result = self.reduce(value, combine)?;
        self.broadcast(0, result.unwrap_or(own))
    }

    /// Returns the ranks that take part in collectives, in order: initially all ranks of the job.
    #[must_use]
    pub fn members(&self) -> Vec<u32> {
        self.tree.members.ranks().iter().map(|rank| u32::from(rank.0)).collect()
    }

    /// Removes ended ranks from the members, after a collective or this call has failed with
    /// [`ObjectError::RankEnded`]. All remaining ranks call it and are the members from then on. Returns
    /// them, the same on all.
    ///
    /// # Errors
    /// [`ObjectError::RankEnded`] if another member has ended meanwhile; call it again, unless that is
    /// rank 0, which owns the memory. [`ObjectError::TimedOut`] names a member that has neither called it
    /// nor ended.
    pub fn shrink(&mut self) -> Result<Vec<u32>, ObjectError> {
        let before = self.tree.members;
        // Aborts the collective of members that are still in one.
        if let Some(ended) = self.ended_members(before)?.first() {
            self.tree.end(u32::from(ended.0));
        }
        let generation = self.generation + 1;
        let members = if self.rank() == 0 {
            self.decide(before, generation)?
        } else {
            self.request_decision(generation)?
        };
        // A request that timed out is repeated with the same generation; a decision is final.
        self.generation = generation;
        let domain = self.domain.within(self.timeout());
        let opened =
            Tree::open(&domain, &self.job, members, generation, || self.check_members_alive(members));
        self.tree = match opened {
            Ok(tree) => tree,
            Err(error) => {
                // The next call starts from the decided members, like that of the others.
                self.tree.members = members;
                return Err(error);
            }
        };
        Ok(self.members())
    }

    /// Returns the members that have ended according to the monitor.
    fn ended_members(&self, members: Members) -> Result<Ranks, ObjectError> {
        Ok(Ranks(self.ended_ranks()?.0 & members.ranks().0))
    }

    fn check_members_alive(&self, members: Members) -> Result<(), ObjectError> {
        match self.ended_members(members)?.first() {
            Some(rank) => Err(ObjectError::RankEnded { rank: rank.0.into(), what: COLLECTIVE }),
            None => Ok(()),
        }
    }

    /// Runs this rank's part of a collective. A channel may end before the monitor reports an ended rank, and
    /// also because the rank at its other end shrank without another one: the error names a rank that has
    /// ended according to the monitor.
    fn collective<R>(
        &mut self,
        part: impl FnOnce(&mut Tree) -> Result<R, ObjectError>,
    ) -> Result<R, ObjectError> {
        match self.tree.run(part) {
            Err(ObjectError::RankEnded { rank, what }) => {
                let ended = self.ended_members(self.tree.members)?;
                let named = ended.first().filter(|_| !ended.contains(rank_of(rank)));
                Err(ObjectError::RankEnded { rank: named.map_or(rank, |rank| rank.0.into()), what })
            }
            outcome => outcome,
        }
    }

    /// Decides on the members once all remaining ranks have asked; called by rank 0.
    fn decide(&self, before: Members, generation: u32) -> Result<Members, ObjectError> {
        let query = self.job.name(&format!("objects/shrink/{generation}/*"));
        let started = Instant::now();
        loop {
            // Look up requests before ended ranks: a record vanishes with its rank.
            let mut requests = Ranks::of(Rank(0));
            for record in self.domain.names().find(&query)? {
                let rank = record.name.rsplit('/').next().and_then(|rank| rank.parse().ok());
                requests.add(rank.map_or(Rank(0), Rank));
            }
            match before.decide(self.ended_ranks()?, requests) {
                Ok(members) => {
                    let record = NewRecord::new(&self.decision(generation))
                        .with("members", members.ranks().0.cast_signed());
                    self.domain.names().set(&record)?;
                    return Ok(members);
                }
                Err(rank) if started.elapsed() >= self.timeout() => {
                    let what = "not all ranks that are left called shrink".to_owned();
                    return Err(ObjectError::TimedOut {
                        what,
                        timeout: self.timeout(),
                        rank: Some(rank.0.into()),
                    });
                }
                Err(_) => std::thread::sleep(Backoff::QUERY_INTERVAL),
            }
        }
    }

    /// Asks rank 0 for its decision and waits for it; called by the other ranks.
    fn request_decision(&self, generation: u32) -> Result<Members, ObjectError> {
        let request = self.job.name(&format!("objects/shrink/{generation}/{}", self.rank()));
        self.domain.names().set(&NewRecord::new(&request))?;
        let started = Instant::now();
        loop {
            let left = self.timeout().saturating_sub(started.elapsed());
            match self.domain.names().wait_for(&self.decision(generation), left.min(Backoff::CHECK_INTERVAL))
            {
                Ok(record) => {
                    let members = record.integer("members").map_err(refused)?.cast_unsigned();
                    return Ok(Members::new(Ranks(members)));
                }
                Err(error) if is_no_such_name(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if self.ended_ranks()?.contains(Rank(0)) {
                return Err(ObjectError::RankEnded { rank: 0, what: "the memory of the job" });
            }
            if left.is_zero() {
                let what = "rank 0 did not decide who goes on".to_owned();
                return Err(ObjectError::TimedOut { what, timeout: self.timeout(), rank: Some(0) });
            }
        }
    }

    fn decision(&self, generation: u32) -> String {
        self.job.name(&format!("objects/members/{generation}"))
    }
}
