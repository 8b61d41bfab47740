//! Job that a program belongs to.

use std::time::Duration;

pub use tombolo_control::{JobError, Membership};

use crate::bulk::{BulkChannel, BulkOptions};
use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::options::ChannelOptions;

/// Job of this program: the domains started by one `tombolo run` or `tombolo mpirun`, with ranks from 0, and
/// the rank of this domain.
///
/// ```no_run
/// # use tombolo::{Domain, Error};
/// # fn main() -> Result<(), Error> {
/// let job = Domain::attach()?.job()?;
/// let next = (job.rank() + 1) % job.size();
/// let mut channel = job.channel_to(next)?;
/// channel.send(format!("greetings from rank {}", job.rank()).as_bytes())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Job {
    domain: Domain,
    membership: Membership,
}

impl Domain {
    /// Returns the job that this program was started in.
    ///
    /// # Errors
    /// [`Error::Job`] if it was not started as part of a job.
    pub fn job(&self) -> Result<Job, Error> {
        let membership = Membership::from_variables(|name| std::env::var(name).ok())?;
        Ok(Job::new(self, membership))
    }
}

impl std::ops::Deref for Job {
    type Target = Membership;

    fn deref(&self) -> &Membership {
        &self.membership
    }
}

impl Job {
    fn new(domain: &Domain, membership: Membership) -> Job {
        Job { domain: domain.clone(), membership }
    }

    /// Opens the channel between this domain and another rank of the job, which has to make the same call.
    /// There is one such channel per pair of ranks; further channels need [names](Membership::name).
    ///
    /// # Errors
    /// [`Error::Job`] if the rank does not exist or is this one. Otherwise like [`Domain::connect`] and
    /// [`Listener::accept`](crate::Listener::accept).
    pub fn channel_to(&self, rank: u32) -> Result<Channel, Error> {
        let name = self.membership.name_between("channel", rank)?;
        let options = ChannelOptions::default();
        if self.rank() < rank {
            options.export(&self.domain, &name)?.within(self.domain.timeout()).accept()
        } else {
            options.connect(&self.domain, &name)
        }
    }

    /// Async [`channel_to`](Self::channel_to). Dropping the future leaves no channel open.
    ///
    /// # Errors
    /// Same as [`channel_to`](Self::channel_to).
    pub async fn channel_to_async(&self, rank: u32) -> Result<Channel, Error> {
        let name = self.membership.name_between("channel", rank)?;
        let options = ChannelOptions::default();
        if self.rank() < rank {
            let listener = options.export(&self.domain, &name)?;
            listener.within(self.domain.timeout()).accept_async().await
        } else {
            options.connect_async(&self.domain, &name).await
        }
    }

    /// Returns the same job with `timeout` for its operations.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Job {
        Job { domain: self.domain.within(timeout), membership: self.membership.clone() }
    }

    /// Opens channels to several other ranks, each of which opens one to this domain. Connects in the order
    /// of the ranks, so that no cycle of domains waits for each other. The channels are returned in the order
    /// of `ranks`.
    ///
    /// # Errors
    /// Same as [`channel_to`](Self::channel_to).
    pub fn channels_to(&self, ranks: &[u32]) -> Result<Vec<Channel>, Error> {
        let mut order: Vec<usize> = (0..ranks.len()).collect();
        order.sort_by_key(|index| ranks[*index]);
        let mut channels: Vec<Option<Channel>> = ranks.iter().map(|_| None).collect();
        for index in order {
            channels[index] = Some(self.channel_to(ranks[index])?);
        }
        Ok(channels.into_iter().flatten().collect())
    }

    /// Like [`channel_to`](Self::channel_to), for bulk data.
    ///
    /// # Errors
    /// Same as [`channel_to`](Self::channel_to) and [`Domain::connect_bulk`].
    pub fn bulk_channel_to(&self, rank: u32) -> Result<BulkChannel, Error> {
        let name = self.membership.name_between("bulk", rank)?;
        let options = BulkOptions::default();
        if self.rank() < rank {
            options.export(&self.domain, &name)?.within(self.domain.timeout()).accept()
        } else {
            options.connect(&self.domain, &name)
        }
    }
}
