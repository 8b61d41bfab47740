//! Serving side of a channel.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use tombolo::Error;
use tombolo::interface::{Fault, Header, Kind, Source};

use crate::channel::{About, Channel};
use crate::client::{send, take_message};
use crate::codec::{DecodeError, Decoder, Writer};
use crate::end::End;
use crate::failure::{Failure, class_named, exclusive};
use crate::layout::{Interface, Message};
use crate::passing::FarEnd;
use crate::wait::{Deadline, SLICE, Seconds};

/// Maximum number of outstanding calls of a client.
const MAX_OUTSTANDING: usize = 256;

/// Timeout for sending an answer, after which the server drops its client.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Base class of servers; the stubs add the rest.
#[pyclass(module = "tombolo._native", frozen, subclass)]
#[derive(Debug)]
pub(crate) struct ServerEnd {
    state: Mutex<State>,
    interface: Py<Interface>,
    handler: Py<PyAny>,
    about: About,
}

#[derive(Debug)]
struct State {
    end: End,
    writer: Writer,
    inbox: Vec<u8>,
    /// Calls to be answered later.
    outstanding: Vec<Outstanding>,
    calls: u64,
    answers: u64,
    messages: u64,
    unknown: u64,
    malformed: u64,
    /// Number of calls with a right that was not granted to this side.
    refused: u64,
}

/// Ordinal and number of a call.
type CallKey = (u16, u32);

/// Call to be answered later.
#[derive(Debug)]
struct Outstanding {
    key: CallKey,
    /// Shared with the call's [`Later`] objects: when only this one is left, no thread can answer. `None` for
    /// a call of an event loop, whose task answers it.
    held: Option<Arc<()>>,
}

impl Outstanding {
    fn is_dropped(&self) -> bool {
        self.held.as_ref().is_some_and(|held| Arc::strong_count(held) == 1)
    }
}

/// Message that arrived and is to be served.
struct Incoming<'py> {
    message: Py<Message>,
    /// 0 for a message without an answer.
    call: u32,
    values: Bound<'py, PyTuple>,
}

/// Result of one poll of the channel.
enum PollResult<'py> {
    Nothing,
    /// A message that needs no further action.
    Settled,
    /// The client has abandoned this call.
    Cancelled(u32),
    Serve(Incoming<'py>),
}

impl State {
    fn process_message<'py>(
        &mut self,
        py: Python<'py>,
        interface: &Interface,
    ) -> Result<PollResult<'py>, Failure> {
        if !take_message(&mut self.end, &mut self.inbox)? {
            return Ok(PollResult::Nothing);
        }
        let bytes: &[u8] = &self.inbox;
        let Ok((header, body)) = Header::read(Source::Bytes(bytes)) else {
            self.malformed += 1;
            return Ok(PollResult::Settled);
        };
        let is_call = match header.kind() {
            Kind::Call => true,
            Kind::Message => false,
            Kind::Cancel => {
                self.forget((header.ordinal(), header.call()));
                return Ok(PollResult::Cancelled(header.call()));
            }
            Kind::Reply | Kind::Error | Kind::Fault => {
                self.malformed += 1;
                return Ok(PollResult::Settled);
            }
        };
        self.calls += u64::from(is_call);
        if is_call && self.outstanding.len() >= MAX_OUTSTANDING {
            return self.fault(py, header, Fault::Busy);
        }
        let known = interface
            .server_message(header.ordinal())
            .filter(|known| known.get().answer.is_some() == is_call);
        let Some(message) = known else {
            self.unknown += 1;
            return if is_call { self.fault(py, header, Fault::Unknown) } else { Ok(PollResult::Settled) };
        };
        match Decoder::new(py, bytes).parameters(&message.get().input, body) {
            Ok(values) => {
                self.messages += u64::from(!is_call);
                let call = if is_call { header.call() } else { 0 };
                Ok(PollResult::Serve(Incoming { message: message.clone_ref(py), call, values }))
            }
            Err(DecodeError::Malformed(_)) => {
                self.malformed += 1;
                if is_call { self.fault(py, header, Fault::Malformed) } else { Ok(PollResult::Settled) }
            }
            Err(DecodeError::Raised(error)) => Err(error.into()),
        }
    }

    fn is_outstanding(&self, key: CallKey) -> bool {
        self.outstanding.iter().any(|call| call.key == key)
    }

    fn forget(&mut self, key: CallKey) {
        self.outstanding.retain(|call| call.key != key);
    }

    /// Answers the calls whose [`Later`] is gone.
    fn fail_dropped_calls(&mut self, py: Python<'_>) -> Result<(), Failure> {
        while let Some(index) = self.outstanding.iter().position(Outstanding::is_dropped) {
            let (ordinal, number) = self.outstanding.swap_remove(index).key;
            self.fault(py, Header::new(ordinal, Kind::Fault, number), Fault::Dropped)?;
        }
        Ok(())
    }

    fn fault<'py>(
        &mut self,
        py: Python<'py>,
        header: Header,
        fault: Fault,
    ) -> Result<PollResult<'py>, Failure> {
        self.writer.header_only(header.with_kind(Kind::Fault), Some(fault.number()));
        self.answers += 1;
        send(py, &mut self.end, &self.writer, ANSWER_TIMEOUT)?;
        Ok(PollResult::Settled)
    }

    /// Answers a call with results or an exception. An invalid result is logged, and the client gets a fault.
    fn answer(
        &mut self,
        py: Python<'_>,
        message: &Message,
        call: u32,
        outcome: Result<Bound<'_, PyAny>, PyErr>,
        room: Duration,
    ) -> Result<(), Failure> {
        let header = |kind| Header::new(message.ordinal, kind, call);
        let written = self.write(py, message, &header, outcome);
        let max_bytes = self.end.channel()?.max_message_bytes();
        let fault = match written {
            Ok(()) if self.writer.bytes().len() > max_bytes => Some(Fault::TooLong),
            Ok(()) => None,
            Err(Failure::Named("OverLimit", text)) => {
                report(py, message, PyErr::from(Failure::new("OverLimit", text)));
                Some(Fault::TooLong)
            }
            Err(Failure::Named("Unserved", _)) => Some(Fault::Unserved),
            Err(Failure::Named("RightRefused", _)) => {
                self.refused += 1;
                Some(Fault::Refused)
            }
            Err(failure) => {
                report(py, message, failure.into());
                Some(Fault::Dropped)
            }
        };
        if let Some(fault) = fault {
            self.writer.header_only(header(Kind::Fault), Some(fault.number()));
        }
        send(py, &mut self.end, &self.writer, room)?;
        self.answers += 1;
        Ok(())
    }

    fn write(
        &mut self,
        py: Python<'_>,
        message: &Message,
        header: &impl Fn(Kind) -> Header,
        outcome: Result<Bound<'_, PyAny>, PyErr>,
    ) -> Result<(), Failure> {
        let answer = message.answer.as_ref().ok_or_else(|| Failure::invalid("a message is not answered"))?;
        let error = match outcome {
            Ok(value) if answer.output.fields.is_empty() => {
                if !value.is_none() {
                    return Err(Failure::invalid("the call has no results: return None"));
                }
                self.writer.header_only(header(Kind::Reply), None);
                return Ok(());
            }
            Ok(value) => return self.writer.value(header(Kind::Reply), &answer.output, &value),
            Err(error) => error,
        };
        if let Some((of, class)) = &answer.error
            && error.is_instance(py, class.bind(py))
        {
            let value = error.value(py).getattr("error")?;
            return self.writer.single_value(header(Kind::Error), of, &value, "error");
        }
        for class in ["Unserved", "RightRefused"] {
            if error.is_instance(py, class_named(py, class)?.as_any()) {
                return Err(Failure::new(class, ""));
            }
        }
        Err(error.into())
    }
}

/// Logs an error of a handler, which fails its call.
fn report(py: Python<'_>, message: &Message, error: PyErr) {
    let told = || -> PyResult<()> {
        let logger = py.import("logging")?.call_method1("getLogger", ("tombolo",))?;
        let arguments = PyDict::new(py);
        arguments.set_item("exc_info", error.value(py))?;
        let text = "the handler of %s did not answer";
        logger.call_method("error", (text, message.name.bind(py)), Some(&arguments)).map(drop)
    };
    if let Err(second) = told() {
        second.write_unraisable(py, None);
    }
}

impl ServerEnd {
    fn state(&self) -> Result<MutexGuard<'_, State>, Failure> {
        exclusive(&self.state, "the server")
    }

    /// Waits for the next message to serve, or a call that was abandoned.
    fn next<'py>(
        &self,
        py: Python<'py>,
        timeout: Duration,
        until_served: bool,
    ) -> Result<PollResult<'py>, Failure> {
        let mut guard = self.state()?;
        let state = &mut *guard;
        let interface = self.interface.get();
        state.fail_dropped_calls(py)?;
        for _ in 0..state.end.spin_polls() {
            match state.process_message(py, interface)? {
                PollResult::Nothing if timeout.is_zero() => return Ok(PollResult::Nothing),
                PollResult::Nothing => std::hint::spin_loop(),
                PollResult::Settled if until_served => {}
                found => return Ok(found),
            }
        }
        let until = Deadline::new(timeout);
        loop {
            match state.process_message(py, interface)? {
                PollResult::Nothing => {
                    // Other threads may drop calls during the wait, which does not end it.
                    let left = until.remaining();
                    let slice = if state.outstanding.is_empty() { left } else { left.min(SLICE) };
                    match state.end.wait_readable(py, Deadline::new(slice)) {
                        Err(Failure::Facade(Error::TimedOut { .. } | Error::WouldBlock)) if slice < left => {
                            py.check_signals()?;
                            state.fail_dropped_calls(py)?;
                        }
                        Err(Failure::Facade(Error::TimedOut { .. } | Error::WouldBlock)) => {
                            return Ok(PollResult::Nothing);
                        }
                        waited => waited?,
                    }
                }
                PollResult::Settled if until_served && !until.remaining().is_zero() => {}
                found => return Ok(found),
            }
        }
    }

    /// Serves a message, and answers it if it is a call.
    fn dispatch<'py>(slf: &Bound<'py, Self>, incoming: Incoming<'py>) -> Result<(), Failure> {
        let (py, this) = (slf.py(), slf.get());
        let Incoming { message, call, values } = incoming;
        let handler = this.handler.bind(py);
        let name = message.get().name.bind(py);
        let outcome = match handler.getattr_opt(name) {
            Ok(Some(serve)) if !serve.is_none() => {
                let _current = Current::set(slf, &message, call);
                serve.call1(values)
            }
            Ok(_) => Err(Failure::new("Unserved", format!("the handler has no method {name}")).into()),
            Err(error) => Err(error),
        };
        let passed_on = match &outcome {
            // An exception such as that of Ctrl-C, which is not for the handler to decide.
            Err(error) if !error.is_instance_of::<PyException>(py) => Some(error.clone_ref(py)),
            _ => None,
        };
        if call != 0 {
            let is_later = matches!(&outcome, Ok(value) if value.is_instance_of::<Later>());
            if !is_later {
                let mut state = this.state()?;
                // A call marked for a later answer that is answered now.
                state.forget((message.get().ordinal, call));
                state.answer(py, message.get(), call, outcome, ANSWER_TIMEOUT)?;
            }
        } else if let Err(error) = outcome {
            report(py, message.get(), error);
        }
        passed_on.map_or(Ok(()), |error| Err(error.into()))
    }
}

#[pymethods]
impl ServerEnd {
    #[new]
    #[classmethod]
    fn new(class: &Bound<'_, PyType>, channel: &Channel, handler: Py<PyAny>) -> Result<ServerEnd, Failure> {
        let interface: Bound<'_, Interface> = class.getattr("INTERFACE")?.cast_into().map_err(PyErr::from)?;
        interface.get().bind(channel)?;
        let (end, about) = channel.take()?;
        let state = State {
            end,
            writer: Writer::default(),
            inbox: Vec::new(),
            outstanding: Vec::new(),
            calls: 0,
            answers: 0,
            messages: 0,
            unknown: 0,
            malformed: 0,
            refused: 0,
        };
        Ok(ServerEnd { state: Mutex::new(state), interface: interface.unbind(), handler, about })
    }

    /// The id of the domain at the other end.
    #[getter]
    fn peer(&self) -> u64 {
        self.about.peer
    }

    /// The other end of the channel, as the recipient or source of rights.
    #[getter]
    fn far_end(&self) -> Result<FarEnd, Failure> {
        FarEnd::of(&self.about)
    }

    /// The name of the peer's node.
    #[getter]
    fn peer_node(&self) -> &str {
        &self.about.peer_node
    }

    /// The object that handles the calls.
    #[getter]
    fn handler(&self, py: Python<'_>) -> Py<PyAny> {
        self.handler.clone_ref(py)
    }

    /// The counters: calls, answers, one-way messages (`messages`), unknown or malformed ones, and calls with
    /// a right that was not granted (`refused`).
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let state = self.state()?;
        let dict = PyDict::new(py);
        dict.set_item("calls", state.calls)?;
        dict.set_item("answers", state.answers)?;
        dict.set_item("messages", state.messages)?;
        dict.set_item("unknown", state.unknown)?;
        dict.set_item("malformed", state.malformed)?;
        dict.set_item("refused", state.refused)?;
        Ok(dict)
    }

    /// Serves one message, waiting for it up to `timeout` seconds, and answers it if it is a call. Returns
    /// False if there was none.
    ///
    /// An exception of the handler fails only its call: it is logged (logger ``tombolo``), and the client is
    /// told that the call was dropped without an answer (``Fault``). The end of the channel, and exceptions
    /// that are not an ``Exception``, are raised.
    #[pyo3(signature = (timeout = Seconds(Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn serve_one(slf: &Bound<'_, Self>, timeout: Seconds) -> Result<bool, Failure> {
        match slf.get().next(slf.py(), timeout.0, false)? {
            PollResult::Nothing => Ok(false),
            PollResult::Settled | PollResult::Cancelled(_) => Ok(true),
            PollResult::Serve(incoming) => Self::dispatch(slf, incoming).map(|()| true),
        }
    }

    /// Serves until the client is gone.
    fn serve(slf: &Bound<'_, Self>) -> Result<(), Failure> {
        let longest = Seconds::new(f64::INFINITY)?;
        loop {
            match Self::serve_one(slf, longest) {
                Err(Failure::Facade(
                    Error::Closed { .. } | Error::PeerDied { .. } | Error::RelayDied { .. },
                )) => return Ok(()),
                served => drop(served?),
            }
        }
    }

    /// Closes the channel: outstanding calls get no answer. Closing again has no effect.
    fn close(&self) -> Result<(), Failure> {
        self.state()?.end.close();
        Ok(())
    }

    fn fileno(&self) -> Result<i32, Failure> {
        self.state()?.end.descriptor()
    }

    #[pyo3(signature = (for_room = false))]
    fn arm(&self, for_room: bool) -> Result<bool, Failure> {
        self.state()?.end.arm(for_room)
    }

    /// Takes a message to serve it elsewhere: the message, its number and its values; for an abandoned call
    /// None, its number and None. Returns None if there is no message.
    #[expect(clippy::type_complexity, reason = "a tuple of Python's")]
    fn _take<'py>(
        &self,
        py: Python<'py>,
    ) -> Result<Option<(Option<Py<Message>>, u32, Option<Bound<'py, PyTuple>>)>, Failure> {
        match self.next(py, Duration::ZERO, true)? {
            PollResult::Nothing | PollResult::Settled => Ok(None),
            PollResult::Cancelled(call) => Ok(Some((None, call, None))),
            PollResult::Serve(Incoming { message, call, values }) => {
                if call != 0 {
                    let key = (message.get().ordinal, call);
                    self.state()?.outstanding.push(Outstanding { key, held: None });
                }
                Ok(Some((Some(message), call, Some(values))))
            }
        }
    }

    /// Answers an outstanding call with a value or an exception.
    #[pyo3(signature = (message, call, value, error = None, timeout = Seconds(Duration::from_secs(30))))]
    fn _answer(
        &self,
        py: Python<'_>,
        message: &Bound<'_, Message>,
        call: u32,
        value: Bound<'_, PyAny>,
        error: Option<Bound<'_, PyAny>>,
        timeout: Seconds,
    ) -> Result<(), Failure> {
        let mut state = self.state()?;
        let (message, key) = (message.get(), (message.get().ordinal, call));
        if !state.is_outstanding(key) {
            return Err(Failure::new("NotOutstanding", "the client no longer waits for the answer"));
        }
        let outcome = match error {
            None => Ok(value),
            Some(error) => Err(PyErr::from_value(error)),
        };
        state.answer(py, message, call, outcome, timeout.0)?;
        state.forget(key);
        Ok(())
    }

    fn _is_outstanding(&self, message: &Bound<'_, Message>, call: u32) -> Result<bool, Failure> {
        Ok(self.state()?.is_outstanding((message.get().ordinal, call)))
    }

    #[pyo3(signature = (message, values, timeout = Seconds(Duration::from_secs(30))))]
    fn _tell(
        &self,
        py: Python<'_>,
        message: &Bound<'_, Message>,
        values: &Bound<'_, PyTuple>,
        timeout: Seconds,
    ) -> Result<(), Failure> {
        let mut guard = self.state()?;
        let state = &mut *guard;
        let message = message.get();
        let header = Header::new(message.ordinal, Kind::Message, 0);
        state.writer.parameters(header, &message.input, values)?;
        send(py, &mut state.end, &state.writer, timeout.0)
    }
}

/// A call that is answered later: a handler gets it from :func:`later`, and returns it.
///
/// If the last reference to it is gone without an answer, the server answers the call as dropped.
#[pyclass(module = "tombolo", frozen, skip_from_py_object)]
#[derive(Debug)]
pub(crate) struct Later {
    server: Py<ServerEnd>,
    message: Py<Message>,
    call: u32,
    /// Only its count of references is used; see [`Outstanding`].
    _held: Arc<()>,
}

#[pymethods]
impl Later {
    /// The server that received the call.
    #[getter]
    fn server(&self, py: Python<'_>) -> Py<ServerEnd> {
        self.server.clone_ref(py)
    }

    /// Whether the client still waits for the answer.
    #[getter]
    fn is_outstanding(&self, py: Python<'_>) -> Result<bool, Failure> {
        self.server.get()._is_outstanding(self.message.bind(py), self.call)
    }

    /// Answers the call with its results, waiting up to `timeout` seconds for room.
    #[pyo3(signature = (value = None, timeout = Seconds(Duration::from_secs(30))), text_signature = "($self, value=None, timeout=30.0)")]
    fn reply(
        &self,
        py: Python<'_>,
        value: Option<Bound<'_, PyAny>>,
        timeout: Seconds,
    ) -> Result<(), Failure> {
        let value = value.unwrap_or_else(|| py.None().into_bound(py));
        self.server.get()._answer(py, self.message.bind(py), self.call, value, None, timeout)
    }

    /// Declines the call with the exception of its declared error.
    #[pyo3(signature = (error, timeout = Seconds(Duration::from_secs(30))), text_signature = "($self, error, timeout=30.0)")]
    fn decline(&self, py: Python<'_>, error: Bound<'_, PyAny>, timeout: Seconds) -> Result<(), Failure> {
        let nothing = py.None().into_bound(py);
        self.server.get()._answer(py, self.message.bind(py), self.call, nothing, Some(error), timeout)
    }
}

thread_local! {
    /// Message that a handler on this thread is serving.
    static CURRENT: std::cell::RefCell<Option<Serving>> = const { std::cell::RefCell::new(None) };
}

/// Message that is being served.
struct Serving {
    server: Py<ServerEnd>,
    message: Py<Message>,
    /// 0 for a message without an answer.
    call: u32,
}

/// Marks a message as the current one of its thread, until this is dropped.
struct Current {
    before: Option<Serving>,
}

impl Current {
    fn set(server: &Bound<'_, ServerEnd>, message: &Py<Message>, call: u32) -> Current {
        let py = server.py();
        let now = Serving { server: server.clone().unbind(), message: message.clone_ref(py), call };
        Current { before: CURRENT.replace(Some(now)) }
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

fn current(py: Python<'_>) -> Result<Serving, Failure> {
    let current = CURRENT.with_borrow(|current| {
        current.as_ref().map(|Serving { server, message, call }| Serving {
            server: server.clone_ref(py),
            message: message.clone_ref(py),
            call: *call,
        })
    });
    current.ok_or_else(|| Failure::invalid("no handler is called in this thread"))
}

/// For handlers: returns the server that calls the handler, to send events to its client.
#[pyfunction]
pub(crate) fn current_server(py: Python<'_>) -> Result<Py<ServerEnd>, Failure> {
    Ok(current(py)?.server)
}

/// For handlers: marks the current call to be answered later. The handler has to return the result of this
/// function, and to keep it until the answer: if it is gone, the call is answered as dropped.
#[pyfunction]
pub(crate) fn later(py: Python<'_>) -> Result<Later, Failure> {
    let Serving { server, message, call } = current(py)?;
    if call == 0 {
        return Err(Failure::invalid("a one-way message is not answered"));
    }
    let key = (message.get().ordinal, call);
    let mut state = server.get().state()?;
    let known = state.outstanding.iter().find(|outstanding| outstanding.key == key);
    let held = known.and_then(|outstanding| outstanding.held.clone()).unwrap_or_default();
    if known.is_none() {
        state.outstanding.push(Outstanding { key, held: Some(Arc::clone(&held)) });
    }
    drop(state);
    Ok(Later { server, message, call, _held: held })
}
