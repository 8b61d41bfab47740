//! Jobs: the domains that one `tombolo run` starts, numbered from 0.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// Environment variable with a domain's rank in its job.
const RANK: &str = "TOMBOLO_RANK";
/// Environment variable with the number of domains.
const SIZE: &str = "TOMBOLO_SIZE";
/// Environment variable with the job's id.
const JOB: &str = "TOMBOLO_JOB";

/// Membership of a domain in its job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    rank: u32,
    size: u32,
    id: String,
}

/// Reason why a program's membership cannot be determined.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JobError {
    /// The program was started manually, or by a domain that put it in no job.
    NotInJob,
    /// A variable has a value that `tombolo run` does not write.
    Malformed {
        /// Name of the variable.
        variable: &'static str,
        /// Value of the variable.
        value: String,
    },
    /// The rank does not exist, or is the caller's own.
    NotAPeer {
        /// Requested rank.
        rank: u32,
        /// Rank of the caller.
        own: u32,
        /// Number of domains in the job.
        size: u32,
    },
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::NotInJob => {
                f.write_str("this program is not part of a job; start it with `tombolo run`")
            }
            JobError::Malformed { variable, value } => {
                write!(
                    f,
                    "{variable} has the invalid value {value:?}; do not set it yourself, `tombolo run` does"
                )
            }
            JobError::NotAPeer { rank, own, size } => {
                write!(f, "rank {rank} is not a peer of rank {own} in a job of {size}")
            }
        }
    }
}

impl core::error::Error for JobError {}

impl Membership {
    /// Creates the membership of rank `rank` of `size` in the job `id`, a name prefix that no other job has.
    #[must_use]
    pub fn new(rank: u32, size: u32, id: &str) -> Membership {
        Membership { rank, size, id: id.to_string() }
    }

    /// Reads the membership from environment variables.
    ///
    /// # Errors
    /// [`JobError::NotInJob`] when one of them is not set, [`JobError::Malformed`] when one is invalid.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Membership, JobError> {
        let text = |name| variable(name).ok_or(JobError::NotInJob);
        let (rank, size, id) = (text(RANK)?, text(SIZE)?, text(JOB)?);
        let malformed = |variable, value: &str| JobError::Malformed { variable, value: value.to_string() };
        let rank = rank.parse().map_err(|_| malformed(RANK, &rank))?;
        let size = size.parse().ok().filter(|size| rank < *size).ok_or_else(|| malformed(SIZE, &size))?;
        if id.is_empty() {
            return Err(malformed(JOB, &id));
        }
        Ok(Membership { rank, size, id })
    }

    /// Returns the variables that [`from_variables`](Self::from_variables) reads, with their values.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, String); 3] {
        [(RANK, self.rank.to_string()), (SIZE, self.size.to_string()), (JOB, self.id.clone())]
    }

    /// Returns this domain's rank, from 0, in the order in which nodes were given to `tombolo run`.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of domains in the job.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the job's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns a name that is unique to this job: the job's id followed by `name`.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.id)
    }

    /// Returns the name under which the lower of two ranks waits for the higher, to open a channel of this
    /// kind.
    ///
    /// # Errors
    /// [`JobError::NotAPeer`] when `peer` does not exist or is the caller.
    pub fn name_between(&self, kind: &str, peer: u32) -> Result<String, JobError> {
        if peer == self.rank || peer >= self.size {
            return Err(JobError::NotAPeer { rank: peer, own: self.rank, size: self.size });
        }
        Ok(self.name(&format!("{kind}/{}-{}", peer.min(self.rank), peer.max(self.rank))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rank: &str, size: &str, id: &str) -> Result<Membership, JobError> {
        Membership::from_variables(|name| match name {
            RANK => Some(rank.to_string()),
            SIZE => Some(size.to_string()),
            JOB => Some(id.to_string()),
            _ => None,
        })
    }

    #[test]
    fn job_variables_round_trip() {
        let job = Membership::new(1, 3, "job-0.1.2");
        let variables = job.variables();
        let found = Membership::from_variables(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
        });
        assert_eq!(found, Ok(job));
    }

    #[test]
    fn malformed_variables_are_refused_by_name() {
        assert_eq!(Membership::from_variables(|_| None), Err(JobError::NotInJob));
        let only_rank = |name: &str| (name == RANK).then(|| "0".to_string());
        assert_eq!(Membership::from_variables(only_rank), Err(JobError::NotInJob));
        for (rank, size, id, variable) in [
            ("-1", "2", "job", RANK),
            ("", "2", "job", RANK),
            ("0", "two", "job", SIZE),
            ("2", "2", "job", SIZE),
            ("0", "0", "job", SIZE),
            ("0", "1", "", JOB),
        ] {
            let refused = read(rank, size, id);
            assert!(
                matches!(&refused, Err(JobError::Malformed { variable: found, .. }) if *found == variable),
                "{rank} {size} {id}: {refused:?}"
            );
        }
    }

    #[test]
    fn both_ranks_compute_the_same_channel_name() {
        let [one, two] = [1, 2].map(|rank| Membership::new(rank, 3, "job"));
        assert_eq!(one.name_between("channel", 2), two.name_between("channel", 1));
        assert_ne!(one.name_between("channel", 2), one.name_between("channel", 0));
        assert_ne!(one.name_between("channel", 2), one.name_between("bulk", 2));
        for peer in [1, 3] {
            assert_eq!(
                one.name_between("channel", peer),
                Err(JobError::NotAPeer { rank: peer, own: 1, size: 3 })
            );
        }
    }
}
