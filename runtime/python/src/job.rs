//! Job that a program was started in.

use pyo3::prelude::*;

use crate::bulk::BulkChannel;
use crate::channel::Channel;
use crate::failure::Failure;
use crate::wait::{Seconds, wait_on, wait_on_thread};

/// The programs that one ``tombolo run`` started, with ranks from 0, and the rank of this one: the result of
/// :meth:`Domain.job`.
#[pyclass(frozen, module = "tombolo")]
pub(crate) struct Job {
    pub(crate) job: tombolo::Job,
}

impl Job {
    pub(crate) fn new(job: tombolo::Job) -> Job {
        Job { job }
    }
}

#[pymethods]
impl Job {
    /// The rank of this program, from 0, in the order in which nodes were given to ``tombolo run``.
    #[getter]
    fn rank(&self) -> u32 {
        self.job.rank()
    }

    /// The number of programs that were started.
    #[getter]
    fn size(&self) -> u32 {
        self.job.size()
    }

    /// The id of the job, a prefix of names that is unique to the job.
    #[getter]
    fn id(&self) -> &str {
        self.job.id()
    }

    /// A name in the job's own namespace, to export and to connect to.
    fn name(&self, name: &str) -> String {
        self.job.name(name)
    }

    /// Opens the channel between this program and that of another rank, which has to make the same call,
    /// waiting up to `timeout` seconds. There is one such channel per pair of ranks; further channels need
    /// names. Raises ``NotInJob`` if the rank does not exist or is this one.
    #[pyo3(signature = (rank, timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, rank, timeout=30.0)")]
    fn channel_to(&self, py: Python<'_>, rank: u32, timeout: Seconds) -> Result<Channel, Failure> {
        let job = self.job.within(timeout.0);
        Ok(Channel::new(wait_on(py, async move { job.channel_to_async(rank).await })?))
    }

    /// Like :meth:`channel_to`, for bulk data.
    #[pyo3(signature = (rank, timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, rank, timeout=30.0)")]
    fn bulk_channel_to(&self, py: Python<'_>, rank: u32, timeout: Seconds) -> Result<BulkChannel, Failure> {
        let job = self.job.within(timeout.0);
        Ok(BulkChannel::new(wait_on_thread(py, move || job.bulk_channel_to(rank))?))
    }

    fn __repr__(&self) -> String {
        format!("<Job {}: rank {} of {}>", self.job.id(), self.job.rank(), self.job.size())
    }
}
