//! Groups: the native part of `tombolo.groups`.

use std::sync::Mutex;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tombolo_group::{Event, Group, GroupError, GroupOptions};

use crate::attached::Domain;
use crate::channel::bytes_of;
use crate::failure::{Failure, exclusive};
use crate::job::Job;
use crate::wait::{Deadline, SLICE, Seconds, wait_on_thread};

impl From<GroupError> for Failure {
    fn from(error: GroupError) -> Failure {
        let class = match error {
            GroupError::Domain(error) => return error.into(),
            GroupError::TimedOut { .. } => "TimedOut",
            GroupError::TooLong { .. } => "TooLong",
            GroupError::Expelled { .. } => "Expelled",
            _ => "InvalidArgument",
        };
        Failure::new(class, error.to_string())
    }
}

/// Member of a group.
#[pyclass(module = "tombolo", frozen)]
pub(crate) struct GroupEnd {
    name: String,
    id: u64,
    /// None once the member has left.
    group: Mutex<Option<Group>>,
}

/// Options of a group.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    fan_out: u16,
    chunk_bytes: u32,
    buffers: u16,
    window_chunks: u32,
    max_message_bytes: u32,
    total_order: bool,
    inbox_bytes: usize,
    spin_ns: Option<u64>,
}

impl Options {
    fn read(&self, timeout: Seconds) -> Result<GroupOptions, Failure> {
        let mut options = GroupOptions::default()
            .fan_out(self.fan_out)?
            .chunk_bytes(self.chunk_bytes)?
            .buffers(self.buffers)?
            .window_chunks(self.window_chunks)?
            .max_message_bytes(self.max_message_bytes)?
            .inbox_bytes(self.inbox_bytes)
            .timeout(timeout.0);
        if let Some(spin_ns) = self.spin_ns {
            options = options.spin_ns(spin_ns);
        }
        Ok(if self.total_order { options.total_order() } else { options })
    }
}

fn would_block() -> Failure {
    tombolo::Error::WouldBlock.into()
}

/// Converts an event: the member, and the bytes of its message, whether it died, or None if it joined.
fn to_object(py: Python<'_>, event: Event) -> Result<Bound<'_, PyAny>, Failure> {
    Ok(match event {
        Event::Joined(member) => (member.0, py.None()).into_pyobject(py)?.into_any(),
        Event::Message { from, data } => (from.0, PyBytes::new(py, &data)).into_pyobject(py)?.into_any(),
        Event::Left { member, died } => (member.0, died).into_pyobject(py)?.into_any(),
    })
}

impl GroupEnd {
    fn new(group: Group) -> GroupEnd {
        GroupEnd { name: group.name().to_owned(), id: group.id().0, group: Mutex::new(Some(group)) }
    }

    /// Runs `once` with the group while other Python threads run.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        once: impl FnOnce(&mut Group) -> Result<T, GroupError> + Send,
    ) -> Result<T, Failure> {
        let mut state = exclusive(&self.group, "the group")?;
        let group = state.as_mut().ok_or_else(|| self.closed_failure())?;
        Ok(py.detach(|| once(group))?)
    }

    fn closed_failure(&self) -> Failure {
        Failure::new("Closed", format!("this member has left group '{}'", self.name))
    }

    /// Waits in slices. An operation that timed out at the end of a slice had no effect, so it can be
    /// repeated.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        timeout: Duration,
        once: impl Fn(&mut Group) -> Result<T, GroupError> + Sync,
    ) -> Result<T, Failure> {
        let until = Deadline::new(timeout);
        loop {
            let left = until.remaining();
            let slice = left.min(SLICE);
            match self.with(py, |group| Ok(once(group.within(slice)))) {
                Ok(Err(GroupError::TimedOut { .. })) if slice < left => py.check_signals()?,
                Ok(Err(GroupError::TimedOut { group, what, .. })) => {
                    return Err(GroupError::TimedOut { group, what, timeout }.into());
                }
                Ok(result) => return Ok(result?),
                Err(failure) => return Err(failure),
            }
        }
    }
}

#[pymethods]
impl GroupEnd {
    /// Joins a group, or founds it.
    #[staticmethod]
    fn join(
        py: Python<'_>,
        domain: &Domain,
        name: String,
        options: Options,
        timeout: Seconds,
    ) -> Result<GroupEnd, Failure> {
        let (options, domain) = (options.read(timeout)?, domain.domain.clone());
        Ok(GroupEnd::new(wait_on_thread(py, move || Group::join(&domain, &name, &options))?))
    }

    /// Creates the group of all domains of a job.
    #[staticmethod]
    fn of_job(
        py: Python<'_>,
        domain: &Domain,
        job: &Job,
        options: Options,
        timeout: Seconds,
    ) -> Result<GroupEnd, Failure> {
        let (options, domain, job) = (options.read(timeout)?, domain.domain.clone(), job.job.clone());
        Ok(GroupEnd::new(wait_on_thread(py, move || Group::of_job(&domain, &job, &options))?))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// Number, domain and node of each other member.
    fn peers(&self, py: Python<'_>) -> Result<Vec<(u64, u64, String)>, Failure> {
        self.with(py, |group| {
            let peers = group.peers();
            Ok(peers.map(|peer| (peer.member.0, peer.domain.to_bits(), peer.node.clone())).collect())
        })
    }

    fn broadcast(&self, py: Python<'_>, message: &Bound<'_, PyAny>, timeout: Seconds) -> Result<(), Failure> {
        let message = bytes_of(message)?;
        if !timeout.0.is_zero() {
            return self.wait(py, timeout.0, |group| group.broadcast(&message));
        }
        match self.with(py, |group| group.try_broadcast(&message))? {
            true => Ok(()),
            false => Err(would_block()),
        }
    }

    fn recv<'py>(&self, py: Python<'py>, timeout: Seconds) -> Result<Bound<'py, PyAny>, Failure> {
        let event = if timeout.0.is_zero() {
            self.with(py, Group::try_recv)?.ok_or_else(would_block)?
        } else {
            self.wait(py, timeout.0, Group::recv)?
        };
        to_object(py, event)
    }

    fn flush(&self, py: Python<'_>, timeout: Seconds) -> Result<(), Failure> {
        self.wait(py, timeout.0, Group::flush)
    }

    /// Leaves in order.
    fn leave(&self, py: Python<'_>, timeout: Seconds) -> Result<(), Failure> {
        let group = exclusive(&self.group, "the group")?.take();
        let Some(mut group) = group else { return Ok(()) };
        wait_on_thread(py, move || {
            let _ = group.within(timeout.0);
            group.leave()
        })
    }

    /// Leaves without waiting.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let group = exclusive(&self.group, "the group")?.take();
        py.detach(|| drop(group));
        Ok(())
    }
}
