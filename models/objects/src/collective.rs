//! Collectives.

use std::time::Instant;

use tombolo::names::NewRecord;
use tombolo_sharing::{Members, Rank, Ranks};

use crate::error::ObjectError;
use crate::job::{Job, Pause, refused};
use crate::plain::Plain;
use crate::tree::{Tree, WHAT, decode, is_not_there, rank_of};

/// Collectives: all [members](Job::members) call the same one. None has a guard meanwhile.
impl Job {
    /// Returns when all ranks have called it.
    ///
    /// # Errors
    /// [`ObjectError::RankEnded`]: a rank has, and no collective can take place until those that are left
    /// [shrink](Self::shrink); the collective may have ended well on others. [`ObjectError::TimedOut`].
    pub fn barrier(&mut self) -> Result<(), ObjectError> {
        self.all_reduce((), |(), ()| ())
    }

    /// Returns the value of rank `root` on all ranks. That of others is not looked at.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier); [`ObjectError::Unequal`].
    pub fn broadcast<T: Plain>(&mut self, root: u32, value: T) -> Result<T, ObjectError> {
        let bytes = self.broadcast_bytes(root, value.to_bytes())?;
        decode(root, &bytes)
    }

    /// As [`broadcast`](Self::broadcast), of bytes, of which only `root` knows how many there are.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier); [`ObjectError::Refused`]: there is no rank `root`.
    pub fn broadcast_bytes(&mut self, root: u32, bytes: Vec<u8>) -> Result<Vec<u8>, ObjectError> {
        if root >= self.size() {
            let why = format!("there is no rank {root}; it has ranks 0 to {}", self.size() - 1);
            return Err(ObjectError::Refused { why });
        }
        let timeout = self.timeout();
        if !self.tree.members.ranks().has(rank_of(root)) {
            return Err(ObjectError::RankEnded { rank: root, what: WHAT });
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

    /// As [`reduce`](Self::reduce), but all ranks get the result.
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

    /// The ranks that take part in collectives, in order: at first all of the job.
    #[must_use]
    pub fn members(&self) -> Vec<u32> {
        self.tree.members.ranks().iter().map(|rank| u32::from(rank.0)).collect()
    }

    /// Goes on without ranks that have ended, after a collective or this has failed with
    /// [`ObjectError::RankEnded`]: all that are left call it, and take part in collectives from then on.
    /// Returns who they are, the same on all of them.
    ///
    /// # Errors
    /// [`ObjectError::RankEnded`]: another member has ended meanwhile; call it again, unless it is rank 0,
    /// with which the memory ends. [`ObjectError::TimedOut`] names a member that has neither called it nor
    /// ended.
    pub fn shrink(&mut self) -> Result<Vec<u32>, ObjectError> {
        let before = self.tree.members;
        // Those that are still in a collective learn that it does not take place.
        if let Some(ended) = self.ended_of(before)?.first() {
            self.tree.end(u32::from(ended.0));
        }
        let generation = self.generation + 1;
        let members = if self.rank() == 0 { self.decide(before, generation)? } else { self.ask(generation)? };
        // What timed out is asked again; what was decided is not.
        self.generation = generation;
        let domain = self.domain.within(self.timeout());
        let opened = Tree::open(&domain, &self.job, members, generation, || self.all_are_there(members));
        self.tree = match opened {
            Ok(tree) => tree,
            Err(error) => {
                // The next call starts from what was decided, as that of the others does.
                self.tree.members = members;
                return Err(error);
            }
        };
        Ok(self.members())
    }

    /// The members that have ended, by the evidence of the monitor.
    fn ended_of(&self, members: Members) -> Result<Ranks, ObjectError> {
        Ok(Ranks(self.gone()?.0 & members.ranks().0))
    }

    fn all_are_there(&self, members: Members) -> Result<(), ObjectError> {
        match self.ended_of(members)?.first() {
            Some(rank) => Err(ObjectError::RankEnded { rank: rank.0.into(), what: WHAT }),
            None => Ok(()),
        }
    }

    /// A part of a collective. A channel may end before the monitor says whose end it was, and also because
    /// the rank at its other end goes on without another: the rank that has ended by evidence is named.
    fn collective<R>(
        &mut self,
        part: impl FnOnce(&mut Tree) -> Result<R, ObjectError>,
    ) -> Result<R, ObjectError> {
        match self.tree.run(part) {
            Err(ObjectError::RankEnded { rank, what }) => {
                let ended = self.ended_of(self.tree.members)?;
                let named = ended.first().filter(|_| !ended.has(rank_of(rank)));
                Err(ObjectError::RankEnded { rank: named.map_or(rank, |rank| rank.0.into()), what })
            }
            outcome => outcome,
        }
    }

    /// Rank 0 decides, once all that are left have asked.
    fn decide(&self, before: Members, generation: u32) -> Result<Members, ObjectError> {
        let query = self.job.name(&format!("objects/shrink/{generation}/*"));
        let started = Instant::now();
        loop {
            // Who asked is looked up before who has ended: a record ends with its rank.
            let mut asked = Ranks::of(Rank(0));
            for record in self.domain.names().find(&query)? {
                let rank = record.name.rsplit('/').next().and_then(|rank| rank.parse().ok());
                asked.add(rank.map_or(Rank(0), Rank));
            }
            match before.decide(self.gone()?, asked) {
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
                Err(_) => std::thread::sleep(Pause::SLICE),
            }
        }
    }

    /// The others ask, and wait for what rank 0 decides.
    fn ask(&self, generation: u32) -> Result<Members, ObjectError> {
        let asks = self.job.name(&format!("objects/shrink/{generation}/{}", self.rank()));
        self.domain.names().set(&NewRecord::new(&asks))?;
        let started = Instant::now();
        loop {
            let left = self.timeout().saturating_sub(started.elapsed());
            match self.domain.names().wait_for(&self.decision(generation), left.min(Pause::LOOK)) {
                Ok(record) => {
                    let members = record.integer("members").map_err(refused)?.cast_unsigned();
                    return Ok(Members::new(Ranks(members)));
                }
                Err(error) if is_not_there(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if self.gone()?.has(Rank(0)) {
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
