//! Hubs: the native part of `tombolo.hubs`.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use tombolo_hubs::{Fault, Hub, HubError, Kind, Pending, Selected, Selection, Taken, Task};

use crate::attached::Domain;
use crate::boundary::new_object;
use crate::channel::bytes_of;
use crate::failure::{Failure, exclusive};
use crate::mapping::Mapping;
use crate::wait::{SLICE, Seconds};

impl From<HubError> for Failure {
    fn from(error: HubError) -> Failure {
        match error {
            HubError::Tombolo(error) => error.into(),
            error => Failure::new(class_of(&error), error.to_string()),
        }
    }
}

fn class_of(error: &HubError) -> &'static str {
    match error {
        HubError::Fault { fault, .. } => match fault {
            Fault::WouldBlock => "WouldBlock",
            Fault::TimedOut => "TimedOut",
            Fault::Closed | Fault::AlreadyClosed => "HubClosed",
            Fault::TooLong(_) => "TooLong",
            Fault::NotHeld | Fault::AlreadyHeld => "HubHeld",
            _ => "HubRefused",
        },
        HubError::Unknown { .. } => "NoSuchName",
        HubError::Taken { .. } => "NameTaken",
        HubError::OtherKind { .. } | HubError::OtherType { .. } | HubError::BadValue { .. } => "HubRefused",
        HubError::Lost { .. } => "PeerDied",
        HubError::NoAnswer { .. } | HubError::NothingReady { .. } => "TimedOut",
        HubError::Violation { .. } => "Violation",
        _ => "InvalidArgument",
    }
}

/// Connections of a task to the servers of hubs.
#[pyclass(module = "tombolo", frozen)]
pub(crate) struct TaskEnd {
    task: Task,
}

/// Hub of any kind, with values as bytes.
#[pyclass(module = "tombolo", frozen)]
pub(crate) struct HubEnd {
    hub: Hub,
}

/// Operation or select in progress.
#[pyclass(module = "tombolo", frozen)]
pub(crate) struct Begun {
    state: Mutex<Option<Work>>,
}

enum Work {
    Operation(Pending),
    Select(Box<Selection>),
}

/// Result of an operation or a select.
enum Done {
    Taken(Taken),
    Selected(Selected),
}

impl Work {
    fn try_take(&mut self) -> Result<Option<Done>, HubError> {
        match self {
            Work::Operation(pending) => Ok(pending.try_take()?.map(Done::Taken)),
            Work::Select(selection) => Ok(selection.try_take()?.map(Done::Selected)),
        }
    }

    fn deadline(&self) -> Instant {
        match self {
            Work::Operation(pending) => pending.deadline(),
            Work::Select(selection) => selection.next_deadline(),
        }
    }

    /// Waits while other Python threads run.
    fn wait<'py>(mut self, py: Python<'py>, task: &Task) -> Result<Bound<'py, PyAny>, Failure> {
        loop {
            if let Some(result) = self.try_take()? {
                return result.into_object(py);
            }
            let slice = self.deadline().saturating_duration_since(Instant::now()).min(SLICE);
            py.detach(|| task.wait_for_message(slice))?;
            py.check_signals()?;
        }
    }
}

impl Done {
    fn into_object(self, py: Python<'_>) -> Result<Bound<'_, PyAny>, Failure> {
        match self {
            Done::Taken(taken) => to_object(py, taken),
            Done::Selected(chosen) => {
                let index = chosen.index;
                let taken = to_object(py, chosen.into_taken())?;
                Ok((index, taken).into_pyobject(py)?.into_any())
            }
        }
    }
}

/// Converts a result: bytes for a value, a tuple for a block or lock, otherwise `None`.
fn to_object(py: Python<'_>, taken: Taken) -> Result<Bound<'_, PyAny>, Failure> {
    Ok(match taken {
        Taken::Value(bytes) => PyBytes::new(py, &bytes).into_any(),
        Taken::Block { number, token, abandoned } => (number, token, abandoned).into_pyobject(py)?.into_any(),
        _ => py.None().into_bound(py),
    })
}

fn kind_named(name: &str) -> Result<Kind, Failure> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| Failure::invalid(format!("there is no kind of hubs '{name}'")))
}

#[pymethods]
impl TaskEnd {
    #[new]
    #[pyo3(signature = (domain, priority = None))]
    fn new(domain: &Domain, priority: Option<u8>) -> Result<TaskEnd, Failure> {
        let task = Task::attach(&domain.domain)?;
        Ok(TaskEnd { task: priority.map_or(task.clone(), |priority| task.with_priority(priority)) })
    }

    /// Opens a hub of one of these kinds.
    fn open(
        &self,
        py: Python<'_>,
        name: &str,
        kinds: Vec<String>,
        value_type: &str,
        timeout: Seconds,
    ) -> Result<HubEnd, Failure> {
        let kinds = kinds.iter().map(|kind| kind_named(kind)).collect::<Result<Vec<_>, _>>()?;
        let task = self.task.within(timeout.0);
        Ok(HubEnd { hub: py.detach(|| task.hub(name, &kinds, value_type))? })
    }

    /// The highest priority that waits for a resource of this task.
    fn inherited_priority(&self) -> Result<u8, Failure> {
        Ok(self.task.inherited_priority()?)
    }

    /// Handles the messages that have arrived; returns whether there were any.
    fn hear(&self) -> Result<bool, Failure> {
        Ok(self.task.process_messages()?)
    }

    fn fileno(&self) -> RawFd {
        self.task.as_raw_fd()
    }

    /// Starts a select: for each hub the value to put, or None to get from it.
    fn start_select(
        &self,
        arms: Vec<(PyRef<'_, HubEnd>, Option<Bound<'_, PyAny>>)>,
        timeout: Seconds,
    ) -> Result<Begun, Failure> {
        Ok(Begun { state: Mutex::new(Some(Work::Select(Box::new(self.selection(&arms, timeout)?)))) })
    }

    /// Performs a select: returns the index of the operation, and what was taken.
    fn select<'py>(
        &self,
        py: Python<'py>,
        arms: Vec<(PyRef<'py, HubEnd>, Option<Bound<'py, PyAny>>)>,
        timeout: Seconds,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        Work::Select(Box::new(self.selection(&arms, timeout)?)).wait(py, &self.task)
    }
}

impl TaskEnd {
    fn selection(
        &self,
        arms: &[(PyRef<'_, HubEnd>, Option<Bound<'_, PyAny>>)],
        timeout: Seconds,
    ) -> Result<Selection, Failure> {
        let mut select = self.task.within(timeout.0).select();
        for (hub, value) in arms {
            match value {
                Some(value) => select.put(&hub.hub, &bytes_of(value)?),
                None => select.get(&hub.hub),
            };
        }
        Ok(select.start()?)
    }
}

#[pymethods]
impl HubEnd {
    #[getter]
    fn name(&self) -> &str {
        self.hub.name()
    }

    #[getter]
    fn node(&self) -> &str {
        self.hub.node()
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.hub.kind().name()
    }

    #[getter]
    fn capacity(&self) -> u32 {
        self.hub.capacity()
    }

    #[getter]
    fn value_bytes(&self) -> u32 {
        self.hub.value_bytes()
    }

    fn put(&self, py: Python<'_>, value: &Bound<'_, PyAny>, timeout: Seconds) -> Result<(), Failure> {
        let work = Work::Operation(self.hub.within(timeout.0).start_put(&bytes_of(value)?)?);
        work.wait(py, self.hub.task()).map(drop)
    }

    fn get<'py>(&self, py: Python<'py>, timeout: Seconds) -> Result<Bound<'py, PyAny>, Failure> {
        Work::Operation(self.hub.within(timeout.0).start_get()?).wait(py, self.hub.task())
    }

    fn start_put(&self, value: &Bound<'_, PyAny>, timeout: Seconds) -> Result<Begun, Failure> {
        let pending = self.hub.within(timeout.0).start_put(&bytes_of(value)?)?;
        Ok(Begun { state: Mutex::new(Some(Work::Operation(pending))) })
    }

    fn start_get(&self, timeout: Seconds) -> Result<Begun, Failure> {
        let pending = self.hub.within(timeout.0).start_get()?;
        Ok(Begun { state: Mutex::new(Some(Work::Operation(pending))) })
    }

    fn give_back(&self, py: Python<'_>, token: u64) -> Result<(), Failure> {
        Ok(py.detach(|| self.hub.give_back(token))?)
    }

    fn release(&self, token: u64) {
        self.hub.release(token);
    }

    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        Ok(py.detach(|| self.hub.close())?)
    }

    fn depth(&self, py: Python<'_>) -> Result<u32, Failure> {
        Ok(py.detach(|| self.hub.status())?.depth)
    }

    /// The memory of a pool, if this kernel can map it.
    fn map<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, Mapping>>, Failure> {
        match py.detach(|| self.hub.map())? {
            Some(mapping) => Ok(Some(new_object(py, Mapping::new(mapping))?)),
            None => Ok(None),
        }
    }
}

#[pymethods]
impl Begun {
    /// A tuple with the result; None while the operation is not done.
    fn try_take<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyTuple>>, Failure> {
        let mut state = exclusive(&self.state, "the operation")?;
        let Some(work) = &mut *state else {
            return Err(Failure::invalid("the operation was withdrawn"));
        };
        match work.try_take()? {
            Some(result) => Ok(Some(PyTuple::new(py, [result.into_object(py)?])?)),
            None => Ok(None),
        }
    }

    /// Seconds until the next poll is due, even if nothing arrives.
    fn seconds_left(&self) -> Result<f64, Failure> {
        let state = exclusive(&self.state, "the operation")?;
        let left = state
            .as_ref()
            .map_or(Duration::ZERO, |work| work.deadline().saturating_duration_since(Instant::now()));
        Ok(left.as_secs_f64())
    }

    /// Withdraws the operation, unless it is done.
    fn withdraw(&self) -> Result<(), Failure> {
        exclusive(&self.state, "the operation")?.take();
        Ok(())
    }
}
