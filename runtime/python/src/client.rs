//! Calling side: several calls in flight on one channel, each with a deadline.

use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use tombolo::Error;
use tombolo::interface::flight::{Flight, Known, MAX_IN_FLIGHT};
use tombolo::interface::{Fault, Header, Kind, Malformed, Source};

use crate::channel::{About, Channel};
use crate::codec::{Decoder, Writer};
use crate::end::End;
use crate::failure::{Failure, exclusive};
use crate::layout::{Interface, Message};
use crate::passing::FarEnd;
use crate::wait::{Deadline, Seconds};

/// Deadline of a call whose answer is polled for immediately.
const POLLED_DEADLINE: u64 = u64::MAX;

/// Maximum number of messages that one poll handles, even if the peer sends more.
const MAX_POLLED: usize = 1024;

/// Base class of clients; the stubs add the rest.
#[pyclass(module = "tombolo._native", frozen, subclass)]
#[derive(Debug)]
pub(crate) struct ClientEnd {
    state: Mutex<State>,
    interface: Py<Interface>,
    events: Option<Py<PyAny>>,
    timeout: Duration,
    about: About,
}

#[derive(Debug)]
struct State {
    end: End,
    flight: Flight,
    counts: Counts,
    writer: Writer,
    /// Last message that was received.
    inbox: Vec<u8>,
    /// Events to deliver once the client is not in use.
    pending_events: Vec<(Py<Message>, Py<PyTuple>)>,
}

/// Counters of a client.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    calls: u64,
    answers: u64,
    messages: u64,
    late: u64,
    unknown: u64,
    malformed: u64,
}

/// Result of one poll of the channel.
enum PollResult {
    Nothing,
    /// A message for another call, or an event.
    OtherMessage,
    /// The answer, stored in the inbox.
    Answer,
}

/// Monotonic clock.
fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    nanoseconds(START.get_or_init(Instant::now).elapsed())
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Receives a message into a buffer.
pub(crate) fn take_message(end: &mut End, inbox: &mut Vec<u8>) -> Result<bool, Failure> {
    let taken = end.try_receive(|message| {
        inbox.resize(message.len(), 0);
        message.copy_to(inbox).is_ok()
    })?;
    match taken {
        None => Ok(false),
        Some(true) => Ok(true),
        // A message that cannot be read is treated as an empty one.
        Some(false) => {
            inbox.clear();
            Ok(true)
        }
    }
}

impl State {
    /// Handles one message. `awaited` is 0 if no answer is awaited.
    fn process_message(
        &mut self,
        py: Python<'_>,
        client: &ClientEnd,
        awaited: u32,
    ) -> Result<PollResult, Failure> {
        let State { end, flight, counts, inbox, pending_events, .. } = self;
        if !take_message(end, inbox)? {
            return Ok(PollResult::Nothing);
        }
        let bytes: &[u8] = inbox;
        let source = Source::Bytes(bytes);
        let Ok((header, body)) = Header::read(source) else {
            counts.malformed += 1;
            return Ok(PollResult::OtherMessage);
        };
        match header.kind() {
            Kind::Reply | Kind::Error | Kind::Fault if header.call() == awaited && awaited != 0 => {
                counts.answers += 1;
                return Ok(PollResult::Answer);
            }
            Kind::Reply | Kind::Error | Kind::Fault if flight.keep(header.call(), source) => {
                counts.answers += 1;
            }
            Kind::Reply | Kind::Error | Kind::Fault => counts.late += 1,
            Kind::Message => match client.interface.get().client_message(header.ordinal()) {
                None => counts.unknown += 1,
                Some(message) => match Decoder::new(py, bytes).parameters(&message.get().input, body) {
                    Ok(values) => {
                        counts.messages += 1;
                        if client.events.is_some() {
                            pending_events.push((message.clone_ref(py), values.unbind()));
                        }
                    }
                    Err(crate::codec::DecodeError::Malformed(_)) => counts.malformed += 1,
                    Err(crate::codec::DecodeError::Raised(error)) => return Err(error.into()),
                },
            },
            Kind::Call | Kind::Cancel => counts.malformed += 1,
        }
        Ok(PollResult::OtherMessage)
    }

    /// Sends a call and returns its number.
    fn send_call(
        &mut self,
        py: Python<'_>,
        message: &Message,
        values: &Bound<'_, PyTuple>,
        room: Duration,
        deadline_ns: u64,
    ) -> Result<u32, Failure> {
        let (number, given_up) = self.flight.place(now_ns).ok_or_else(|| {
            Failure::new(
                "InFlight",
                format!("{MAX_IN_FLIGHT} calls are in flight: wait for one, or cancel it"),
            )
        })?;
        self.send_cancel(py, given_up);
        let header = Header::new(message.ordinal, Kind::Call, number);
        self.writer.parameters(header, &message.input, values)?;
        send(py, &mut self.end, &self.writer, room)?;
        self.flight.begin(number, message.ordinal, deadline_ns);
        self.counts.calls += 1;
        Ok(number)
    }

    fn give_up(&mut self, py: Python<'_>, number: u32) {
        let told = self.flight.give_up(number);
        self.send_cancel(py, told);
    }

    fn send_cancel(&mut self, py: Python<'_>, given_up: Option<(u16, u32)>) {
        if let Some((ordinal, call)) = given_up {
            self.writer.header_only(Header::new(ordinal, Kind::Cancel, call), None);
            // This only spares the server work; without room or without a server there is no harm.
            let _told = send(py, &mut self.end, &self.writer, Duration::ZERO);
        }
    }

    /// Waits until the deadline for the answer to a call, which is then in the inbox.
    fn await_answer(
        &mut self,
        py: Python<'_>,
        client: &ClientEnd,
        number: u32,
        until: Deadline,
    ) -> Result<(), Failure> {
        loop {
            match self.process_message(py, client, number)? {
                PollResult::Answer => return Ok(()),
                // A peer that floods this end must not hold it past its deadline.
                PollResult::OtherMessage if !until.remaining().is_zero() => {}
                PollResult::OtherMessage => return Err(timed_out(until.timeout())),
                PollResult::Nothing => match self.end.wait_readable(py, until) {
                    Err(Failure::Facade(Error::TimedOut { .. } | Error::WouldBlock)) => {
                        return Err(timed_out(until.timeout()));
                    }
                    waited => waited?,
                },
            }
        }
    }

    /// Converts the answer in the inbox.
    fn read<'py>(&self, py: Python<'py>, message: &Message) -> Result<Bound<'py, PyAny>, Failure> {
        answer(py, message, &self.inbox)
    }
}

fn timed_out(timeout: Duration) -> Failure {
    let text = format!("no answer came within {timeout:?}; the call was cancelled and may have been served");
    Failure::new("TimedOut", text)
}

/// Sends the encoded message, if there is room in time.
pub(crate) fn send(py: Python<'_>, end: &mut End, writer: &Writer, room: Duration) -> Result<(), Failure> {
    match end.send(py, writer.bytes(), room) {
        Err(Failure::Facade(Error::WouldBlock | Error::TimedOut { .. })) => {
            Err(Failure::new("NoRoom", "the channel had no room for the message in time: nothing was sent"))
        }
        sent => sent,
    }
}

/// Converts an answer to results, or to an exception.
fn answer<'py>(py: Python<'py>, message: &Message, bytes: &[u8]) -> Result<Bound<'py, PyAny>, Failure> {
    let refused = |malformed| Failure::from(crate::codec::DecodeError::Malformed(malformed));
    let (header, body) = Header::read(Source::Bytes(bytes)).map_err(refused)?;
    let expected = message.answer.as_ref().filter(|_| header.ordinal() == message.ordinal);
    let expected = expected.ok_or_else(|| refused(Malformed::Answer))?;
    let mut decoder = Decoder::new(py, bytes);
    match header.kind() {
        Kind::Reply if expected.output.fields.is_empty() => Ok(py.None().into_bound(py)),
        Kind::Reply => Ok(decoder.message(&expected.output, body)?),
        Kind::Error => {
            let (of, class) = expected.error.as_ref().ok_or_else(|| refused(Malformed::Answer))?;
            let error = decoder.get(of, body, 0)?;
            Err(PyErr::from_value(class.bind(py).call1((error,))?).into())
        }
        _ => {
            let fault = Fault::from_number(body.bits(0).map_err(refused)? as u32);
            let class = match fault {
                Fault::Unknown => "UnknownCall",
                Fault::Malformed => "RequestRefused",
                Fault::Unserved => "Unserved",
                Fault::TooLong => "AnswerTooLong",
                Fault::Busy => "ServerBusy",
                Fault::Refused => "RightRefused",
                _ => "Fault",
            };
            Err(Failure::new(class, fault.to_string()))
        }
    }
}

impl ClientEnd {
    fn state(&self) -> Result<MutexGuard<'_, State>, Failure> {
        exclusive(&self.state, "the client")
    }

    fn timeout(&self, timeout: Option<f64>) -> Result<Duration, Failure> {
        timeout.map_or(Ok(self.timeout), |seconds| Ok(Seconds::new(seconds)?.0))
    }

    /// Runs `body` with the client, and then delivers the events that arrived meanwhile.
    fn with<R>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut State) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut state = self.state()?;
        let result = body(&mut state);
        if state.pending_events.is_empty() {
            return result;
        }
        let pending_events = std::mem::take(&mut state.pending_events);
        // Not in use any more: a handler of events may make calls.
        drop(state);
        if let Some(events) = &self.events {
            let events = events.bind(py);
            for (message, values) in pending_events {
                let name = message.get().name.bind(py);
                if let Err(error) = events.getattr(name).and_then(|hear| hear.call1(values.bind(py))) {
                    error.write_unraisable(py, Some(events));
                }
            }
        }
        result
    }

    /// Ends a call that will have no answer. Either informs the server, or tells the caller whether the call
    /// may be repeated elsewhere.
    fn ended<R>(
        &self,
        py: Python<'_>,
        state: &mut State,
        (message, number): (&Message, u32),
        failure: Failure,
    ) -> Result<R, Failure> {
        let Failure::Facade(_) = &failure else {
            state.give_up(py, number);
            return Err(failure);
        };
        state.flight.end(number);
        let error = PyErr::from(failure);
        let may_repeat = message.answer.as_ref().is_some_and(|answer| answer.idempotent);
        error.value(py).setattr("may_repeat", may_repeat)?;
        Err(error.into())
    }

    pub(crate) fn wait<'py>(
        &self,
        py: Python<'py>,
        message: &Message,
        number: u32,
        until: Deadline,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        self.with(py, |state| {
            match state.flight.known(number) {
                Known::Nothing => {
                    return Err(Failure::new("NotInFlight", "the call was answered or cancelled before"));
                }
                Known::Arrived => {
                    let mut arrived = Vec::new();
                    state.flight.take(number, &mut arrived);
                    return answer(py, message, &arrived);
                }
                Known::Waiting { .. } => {}
            }
            if let Err(failure) = state.await_answer(py, self, number, until) {
                return self.ended(py, state, (message, number), failure);
            }
            state.flight.end(number);
            state.read(py, message)
        })
    }
}

#[pymethods]
impl ClientEnd {
    #[new]
    #[classmethod]
    #[pyo3(signature = (channel, events = None, *, timeout = crate::wait::DEFAULT_TIMEOUT))]
    fn new(
        class: &Bound<'_, PyType>,
        channel: &Channel,
        events: Option<Py<PyAny>>,
        timeout: f64,
    ) -> Result<ClientEnd, Failure> {
        let interface: Bound<'_, Interface> = class.getattr("INTERFACE")?.cast_into().map_err(PyErr::from)?;
        let timeout = Seconds::new(timeout)?.0;
        interface.get().bind(channel)?;
        let (end, about) = channel.take()?;
        let state = State {
            end,
            flight: Flight::new(),
            counts: Counts::default(),
            writer: Writer::default(),
            inbox: Vec::new(),
            pending_events: Vec::new(),
        };
        Ok(ClientEnd { state: Mutex::new(state), interface: interface.unbind(), events, timeout, about })
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

    /// The default timeout of calls, in seconds.
    #[getter]
    fn default_timeout(&self) -> f64 {
        self.timeout.as_secs_f64()
    }

    /// The counters: calls, answers, received events (`messages`), answers that arrived after their call was
    /// abandoned (`late`), and messages that were unknown or malformed.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        counts(py, &self.state()?.counts)
    }

    /// Handles what has arrived, without waiting; answers are kept until they are awaited. Returns the number
    /// of messages.
    fn poll(&self, py: Python<'_>) -> Result<usize, Failure> {
        self.with(py, |state| {
            let mut taken = 0;
            while taken < MAX_POLLED && !matches!(state.process_message(py, self, 0)?, PollResult::Nothing) {
                taken += 1;
            }
            Ok(taken)
        })
    }

    /// Closes the channel. Closing again has no effect.
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

    #[pyo3(signature = (message, values, timeout = None))]
    fn _call<'py>(
        &self,
        py: Python<'py>,
        message: &Bound<'py, Message>,
        values: &Bound<'py, PyTuple>,
        timeout: Option<f64>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let timeout = self.timeout(timeout)?;
        let message = message.get();
        self.with(py, |state| {
            // Reading the clock costs as much as a good part of a call, so it is only read if the answer does
            // not arrive immediately.
            let number = state.send_call(py, message, values, timeout, POLLED_DEADLINE)?;
            for _ in 0..state.end.spin_polls() {
                match state.process_message(py, self, number) {
                    Ok(PollResult::Answer) => {
                        state.flight.end(number);
                        return state.read(py, message);
                    }
                    Ok(_) => std::hint::spin_loop(),
                    Err(failure) => return self.ended(py, state, (message, number), failure),
                }
            }
            if let Err(failure) = state.await_answer(py, self, number, Deadline::new(timeout)) {
                return self.ended(py, state, (message, number), failure);
            }
            state.flight.end(number);
            state.read(py, message)
        })
    }

    /// Starts a call and returns its number. Without `room` it does not wait for room.
    #[pyo3(signature = (message, values, timeout = None, room = true))]
    fn _start(
        &self,
        py: Python<'_>,
        message: &Bound<'_, Message>,
        values: &Bound<'_, PyTuple>,
        timeout: Option<f64>,
        room: bool,
    ) -> Result<u32, Failure> {
        let timeout = self.timeout(timeout)?;
        let deadline_ns = now_ns().saturating_add(nanoseconds(timeout));
        let room = if room { timeout } else { Duration::ZERO };
        self.with(py, |state| state.send_call(py, message.get(), values, room, deadline_ns))
    }

    /// Waits up to `remaining` seconds for the answer to a call with a total timeout of `timeout` seconds.
    fn _wait<'py>(
        &self,
        py: Python<'py>,
        message: &Bound<'py, Message>,
        number: u32,
        left: Seconds,
        timeout: Seconds,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        self.wait(py, message.get(), number, Deadline::new(left.0).of(timeout.0))
    }

    /// Whether the answer to a call has arrived, or is not awaited.
    fn _is_ready(&self, number: u32) -> Result<bool, Failure> {
        Ok(!matches!(self.state()?.flight.known(number), Known::Waiting { .. }))
    }

    /// Abandons a call: its answer is dropped when it arrives, and the server is informed.
    fn _give_up(&self, py: Python<'_>, number: u32) -> Result<(), Failure> {
        self.state()?.give_up(py, number);
        Ok(())
    }

    #[pyo3(signature = (message, values, timeout = None))]
    fn _tell(
        &self,
        py: Python<'_>,
        message: &Bound<'_, Message>,
        values: &Bound<'_, PyTuple>,
        timeout: Option<f64>,
    ) -> Result<(), Failure> {
        let timeout = self.timeout(timeout)?;
        let message = message.get();
        self.with(py, |state| {
            let header = Header::new(message.ordinal, Kind::Message, 0);
            state.writer.parameters(header, &message.input, values)?;
            send(py, &mut state.end, &state.writer, timeout)
        })
    }
}

fn counts<'py>(py: Python<'py>, counts: &Counts) -> Result<Bound<'py, PyDict>, Failure> {
    let dict = PyDict::new(py);
    dict.set_item("calls", counts.calls)?;
    dict.set_item("answers", counts.answers)?;
    dict.set_item("messages", counts.messages)?;
    dict.set_item("late", counts.late)?;
    dict.set_item("unknown", counts.unknown)?;
    dict.set_item("malformed", counts.malformed)?;
    Ok(dict)
}
