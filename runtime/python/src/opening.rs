//! Channels that are opened with a request, on which the listener decides.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::channel::Channel;
use crate::failure::Failure;
use crate::wait::{Deadline, Seconds, wait};

/// A name under which programs connect with requests. From :meth:`Domain.export_for_requests`.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct RequestListener {
    name: String,
    /// None once the name was released.
    listener: Mutex<Option<tombolo::Listener<tombolo::Opening>>>,
}

impl RequestListener {
    pub(crate) fn new(name: &str, listener: tombolo::Listener<tombolo::Opening>) -> RequestListener {
        RequestListener { name: name.to_owned(), listener: Mutex::new(Some(listener)) }
    }
}

#[pymethods]
impl RequestListener {
    /// The name of the listener.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Waits up to `timeout` seconds for a program to connect, and up to 10 for its request. After `Refused`,
    /// `Violation` and `TimedOut`, further programs can be accepted.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn accept(&self, py: Python<'_>, timeout: Seconds) -> Result<Opening, Failure> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let given_back = || Failure::new("Closed", format!("the name '{}' was given back", self.name));
        let listener = listener.ok_or_else(given_back)?;
        let opening = wait(py, Deadline::new(timeout.0), |slice| listener.within(slice).accept())?;
        Ok(Opening { opening: Mutex::new(Some(opening)) })
    }

    /// Releases the name. Closing again has no effect.
    fn close(&self) {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(&self, _kind: &Bound<'_, PyAny>, _error: &Bound<'_, PyAny>, _trace: &Bound<'_, PyAny>) {
        self.close();
    }
}

/// A program that has connected with a request and waits for the decision; dropping it refuses the program.
/// From :meth:`RequestListener.accept`.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Opening {
    /// None once the decision was made.
    opening: Mutex<Option<tombolo::Opening>>,
}

impl Opening {
    fn take(&self) -> Result<tombolo::Opening, Failure> {
        let opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner).take();
        opening.ok_or_else(|| Failure::invalid("this request was decided already"))
    }
}

#[pymethods]
impl Opening {
    /// The bytes of the request; empty after the decision.
    #[getter]
    fn request<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        PyBytes::new(py, opening.as_ref().map_or(&[], tombolo::Opening::request))
    }

    /// Accepts the request and returns the open channel.
    fn accept(&self, py: Python<'_>) -> Result<Channel, Failure> {
        let opening = self.take()?;
        Ok(Channel::new(py.detach(|| opening.accept())?))
    }

    /// Refuses the request with a reason, of which up to 512 bytes are sent.
    fn refuse(&self, py: Python<'_>, reason: &str) -> Result<(), Failure> {
        let opening = self.take()?;
        Ok(py.detach(|| opening.refuse(reason))?)
    }
}
