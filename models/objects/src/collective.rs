//! Collectives.

use crate::error::ObjectError;
use crate::job::Job;
use crate::plain::Plain;
use crate::tree::decode;

/// Collectives: all ranks call the same one. None has a guard meanwhile.
impl Job {
    /// Returns when all ranks have called it.
    ///
    /// # Errors
    /// [`ObjectError::RankEnded`]: a rank has, and no collective can take place any more;
    /// [`ObjectError::TimedOut`].
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
        self.tree.run(|tree| tree.broadcast(root, bytes, timeout))
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
        self.tree.run(|tree| tree.reduce(value, &mut combine, timeout))
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
}
