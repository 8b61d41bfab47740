//! Functions that programs start on any node: the native part of `tombolo.tasks`.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use tombolo::SpawnOptions;
use tombolo_tasks::{
    Canceller, FailureKind, Instruction, JoinHandle, Signature, Stop, TaskError, Tasks, WorkerConnection,
};

use crate::attached::Domain;
use crate::failure::{Failure, exclusive};
use crate::wait::{Deadline, SLICE, Seconds};

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Failure {
        let class = match error {
            TaskError::Tombolo(error) => return error.into(),
            TaskError::Panicked { .. } => "TaskFailed",
            TaskError::Lost { .. } => "TaskLost",
            TaskError::Cancelled { .. } => "TaskCancelled",
            TaskError::TooLong { .. } => "TooLong",
            TaskError::TooMany { .. } => "Limit",
            TaskError::TimedOut { .. } => "TimedOut",
            TaskError::NotStarted { .. } => "StartFailed",
            TaskError::BadType { .. } | TaskError::Placement(_) => "InvalidArgument",
            _ => "TaskRefused",
        };
        Failure::new(class, error.to_string())
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Failure {
        match stop {
            Stop::StarterEnded => Failure::new("Closed", "the starter of this worker has ended"),
            Stop::Failed(error) => error.into(),
        }
    }
}

/// Name of a function, with the types of its argument and result.
type Names = (String, String, String);

fn signature((name, argument, result): &Names) -> Result<Signature, Failure> {
    Ok(Signature::new(name, argument, result)?)
}

/// The number of a function in messages to workers.
#[pyfunction]
pub(crate) fn function_number(names: Names) -> Result<u64, Failure> {
    Ok(signature(&names)?.number())
}

/// Whether this program was started as a worker.
#[pyfunction]
pub(crate) fn is_worker() -> bool {
    WorkerConnection::is_worker()
}

/// Workers, and the tasks on them.
#[pyclass(module = "tombolo", frozen)]
pub(crate) struct TasksEnd {
    tasks: Mutex<Option<Tasks>>,
}

#[pymethods]
impl TasksEnd {
    /// Starts workers of a program, given by its file and arguments.
    #[new]
    fn new(
        py: Python<'_>,
        domain: &Domain,
        on: &str,
        program: Vec<String>,
        environment: BTreeMap<String, String>,
    ) -> Result<TasksEnd, Failure> {
        let Some((image, arguments)) = program.split_first() else {
            return Err(Failure::invalid("no program for the workers: give its file and its arguments"));
        };
        let mut options = SpawnOptions::image(image).args(arguments);
        for (name, value) in environment {
            options = options.env(name, value);
        }
        let tasks = py.detach(|| Tasks::start_program(&domain.domain, &options, on))?;
        Ok(TasksEnd { tasks: Mutex::new(Some(tasks)) })
    }

    fn go(&self, names: Names, argument: &[u8], node: Option<&str>) -> Result<JoinEnd, Failure> {
        let tasks = exclusive(&self.tasks, "the tasks")?.clone();
        let Some(tasks) = tasks else { return Err(Failure::invalid("the tasks were ended")) };
        let tasks = node.map_or_else(|| Ok(tasks.clone()), |node| tasks.on(node))?;
        Ok(JoinEnd::new(tasks.go_bytes(&signature(&names)?, argument)?, names))
    }

    /// For each worker its node, the number of tasks that have ended, the number of tasks it has, and whether
    /// it is alive.
    fn workers(&self) -> Result<Vec<(String, u64, u32, bool)>, Failure> {
        let tasks = exclusive(&self.tasks, "the tasks")?;
        let workers = tasks.as_ref().map(Tasks::workers).unwrap_or_default();
        Ok(workers
            .into_iter()
            .map(|worker| (worker.node, worker.ended, worker.tasks, worker.alive))
            .collect())
    }

    /// Ends the workers.
    fn end(&self, py: Python<'_>) -> Result<(), Failure> {
        let tasks = exclusive(&self.tasks, "the tasks")?.take();
        py.detach(|| drop(tasks));
        Ok(())
    }
}

impl Drop for TasksEnd {
    fn drop(&mut self) {
        if let Some(tasks) = self.tasks.get_mut().ok().and_then(Option::take) {
            // The thread that is awaited may call Python to report the end of a task.
            Python::attach(|py| py.detach(|| drop(tasks)));
        }
    }
}

/// A task that was started.
#[pyclass(module = "tombolo", frozen)]
pub(crate) struct JoinEnd {
    names: Names,
    canceller: Canceller,
    handle: Mutex<JoinHandle<Vec<u8>>>,
}

/// Calls a Python function when a task has ended.
struct CompletionWaker(Py<PyAny>);

impl Wake for CompletionWaker {
    fn wake(self: Arc<Self>) {
        // An interpreter that is shutting down waits for nothing.
        let _ = Python::try_attach(|py| self.0.call0(py).map_err(|error| error.write_unraisable(py, None)));
    }
}

impl JoinEnd {
    fn new(handle: JoinHandle<Vec<u8>>, names: Names) -> JoinEnd {
        JoinEnd { names, canceller: handle.canceller(), handle: Mutex::new(handle) }
    }

    fn timed_out(&self, timeout: Duration) -> Failure {
        TaskError::TimedOut { task: self.names.0.clone(), timeout }.into()
    }
}

#[pymethods]
impl JoinEnd {
    #[getter]
    fn name(&self) -> &str {
        &self.names.0
    }

    fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Waits for the result while other Python threads run.
    fn wait<'py>(&self, py: Python<'py>, timeout: Seconds) -> Result<Bound<'py, PyBytes>, Failure> {
        let until = Deadline::new(timeout.0);
        let mut handle = exclusive(&self.handle, "the task")?;
        loop {
            let left = until.remaining();
            let slice = left.min(SLICE);
            let waiting = &mut *handle;
            match py.detach(|| waiting.join_within(slice))? {
                Some(result) => return Ok(PyBytes::new(py, &result)),
                None if slice < left => py.check_signals()?,
                None => return Err(self.timed_out(timeout.0)),
            }
        }
    }

    /// A tuple with the result, if the task has ended; otherwise `told` is called once it has, on any thread.
    fn poll<'py>(&self, py: Python<'py>, told: Py<PyAny>) -> Result<Option<Bound<'py, PyTuple>>, Failure> {
        let waker = Waker::from(Arc::new(CompletionWaker(told)));
        let mut handle = exclusive(&self.handle, "the task")?;
        match Pin::new(&mut *handle).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(ended) => Ok(Some(PyTuple::new(py, [PyBytes::new(py, &ended?)])?)),
            Poll::Pending => Ok(None),
        }
    }
}

/// A worker's connection to its starter. It must stay on the thread that created it.
#[pyclass(module = "tombolo", unsendable)]
pub(crate) struct EmploymentEnd {
    connection: WorkerConnection,
}

#[pymethods]
impl EmploymentEnd {
    /// Connects this program, which was started as a worker.
    #[new]
    fn new(domain: &Domain) -> Result<EmploymentEnd, Failure> {
        match WorkerConnection::connect_from_env(&domain.domain)? {
            Some(connection) => Ok(EmploymentEnd { connection }),
            None => Err(Failure::invalid("this program was not started as a worker")),
        }
    }

    fn fileno(&self) -> RawFd {
        self.connection.as_raw_fd()
    }

    /// The next instruction: for a task to start its number, that of its function, and its argument; with
    /// None as the function, a task to cancel. None if nothing has arrived.
    #[allow(clippy::type_complexity, reason = "a tuple is what Python takes apart")]
    fn next<'py>(
        &mut self,
        py: Python<'py>,
    ) -> Result<Option<(u32, Option<u64>, Bound<'py, PyBytes>)>, Failure> {
        Ok(self.connection.next()?.map(|instruction| match instruction {
            Instruction::Start { task, function, argument } => {
                (task, Some(function), PyBytes::new(py, &argument))
            }
            Instruction::Cancel(task) => (task, None, PyBytes::new(py, &[])),
        }))
    }

    /// Handles what has arrived; returns whether there was anything. Afterwards the descriptor becomes
    /// readable with the next message.
    fn hear(&mut self) -> Result<bool, Failure> {
        Ok(self.connection.wait(Duration::ZERO)?)
    }

    /// Records that a task has ended or waits for the first time, after it ran for this time in seconds.
    fn released(&mut self, seconds: f64) -> Result<(), Failure> {
        self.connection.record_run_time(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        Ok(self.connection.request_tasks(1)?)
    }

    fn returned(&mut self, task: u32, result: &[u8]) -> Result<(), Failure> {
        Ok(self.connection.report_result(task, Ok(result.to_vec()))?)
    }

    /// Reports how a task failed: `unknown`, `argument`, `cancelled`, or anything else for an exception.
    fn failed(&mut self, task: u32, how: &str, text: &str) -> Result<(), Failure> {
        let kind = match how {
            "unknown" => FailureKind::UnknownFunction,
            "argument" => FailureKind::BadArgument,
            "cancelled" => FailureKind::Cancelled,
            _ => FailureKind::Panicked,
        };
        Ok(self.connection.report_result(task, Err((kind, text)))?)
    }

    /// Starts another task.
    fn go(&mut self, names: Names, argument: &[u8], node: Option<&str>) -> Result<JoinEnd, Failure> {
        let context = self.connection.context().clone();
        let context = node.map_or_else(|| Ok(context.clone()), |node| context.on(node))?;
        let handle = context.go_bytes(&signature(&names)?, argument)?;
        self.connection.flush()?;
        Ok(JoinEnd::new(handle, names))
    }

    /// Sends the cancellations of tasks.
    fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.connection.flush()?)
    }
}
