//! Connection to the monitor of this node, shared by all threads of the program.
//!
//! The connection has no thread of its own. One of the waiting threads reads the socket for all of them: it
//! stores replies and events and wakes the others.

pub(crate) mod side;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tombolo_base::{DomainId, NodeId};
use tombolo_control::{ClientMessage, Fault, Grant, MonitorMessage, Reply, Request, Wire, streams};
use tombolo_naming::{Answer, Notice, Operation, Scope};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::{Deadline, Errno, OsError, lock_unpoisoned, socket};
use tombolo_transport::trace::Recorder;

use crate::channel_descriptors::withdraw;
use crate::error::Error;
use crate::exits::{Ended, Exits};
use crate::recorder;
use side::Side;
pub(crate) use watch::Watch;

/// Timeout for requests that a monitor can answer immediately. The monitor runs on this machine, so a longer
/// delay indicates a failure.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which a thread retries to send while another thread is the reader.
const RETRY: Duration = Duration::from_millis(50);

/// Output stream of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Error for a reply that does not match the request.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::MonitorProtocol(format!("an answer to something else: {reply:?}"))
}

/// Callback for the output of children.
pub(crate) type OutputSink = Box<dyn FnMut(DomainId, Stream, &[u8]) + Send>;

/// Messages that have arrived and were not taken yet, and the state of the connection.
#[derive(Default)]
pub(crate) struct Inbox {
    reading: bool,
    /// Set if a thread wanted to read while another was reading; the reader then reads once more.
    read_again: bool,
    lost: bool,
    /// Reason why the monitor refused to serve this program.
    refusal: Option<Fault>,
    protocol_error: Option<String>,
    last_request: u32,
    /// Requests that have no reply yet.
    unanswered: BTreeSet<u32>,
    replies: HashMap<u32, (Reply, Vec<OwnedFd>)>,
    /// Requests whose caller gave up; their replies are dropped.
    abandoned: Vec<u32>,
    /// Abandoned requests about names, with their scopes.
    abandoned_names: HashMap<u32, Scope>,
    /// Listeners that exist.
    listeners: HashSet<u32>,
    pub(crate) incoming: HashMap<u32, VecDeque<(Grant, Vec<OwnedFd>)>>,
    pub(crate) exits: Exits,
    /// Time of each request for a child, in ticks of the trace, until the child exists.
    spawning: BTreeMap<u32, u64>,
    /// Output of consoles.
    pub(crate) console: VecDeque<Reply>,
    /// Requests for children with a side stream.
    starting_sides: HashSet<u32>,
    /// This program's ends of the side streams of its children.
    pub(crate) sides: HashMap<DomainId, Side>,
    /// Notices of the watches that exist.
    notices: HashMap<WatchKey, VecDeque<Notice>>,
}

/// Node whose names are watched, and the number of the watch on it.
pub(crate) type WatchKey = (Option<NodeId>, u64);

impl Inbox {
    /// Takes the next notice of a watch.
    pub(crate) fn take_notice(&mut self, watch: WatchKey) -> Option<Notice> {
        self.notices.get_mut(&watch)?.pop_front()
    }
}

impl Inbox {
    /// Allocates a request number: 24 bits, not 0, and not that of an unanswered request.
    fn next_request(&mut self) -> u32 {
        loop {
            self.last_request = MonitorMessage::number_of(self.last_request.wrapping_add(1)).max(1);
            if self.unanswered.insert(self.last_request) {
                return self.last_request;
            }
        }
    }

    pub(crate) fn take_reply(&mut self, request: u32) -> Option<(Reply, Vec<OwnedFd>)> {
        self.replies.remove(&request)
    }

    pub(crate) fn has_reply(&self, request: u32) -> bool {
        self.replies.contains_key(&request)
    }
}

/// Connection to a monitor.
pub(crate) struct MonitorLink {
    socket: OwnedFd,
    machine: String,
    arrived: Mutex<Inbox>,
    changed: Condvar,
    /// Receive buffer of the reading thread.
    buffer: Mutex<Vec<u8>>,
    /// Messages that the socket had no room for.
    outbox: Mutex<VecDeque<(Vec<u8>, Vec<OwnedFd>)>>,
    output: Mutex<OutputSink>,
    /// Wakers to wake once when something arrives.
    observers: Mutex<Vec<std::task::Waker>>,
    /// Registration of the socket with the reactor, while any futures wait.
    watch: Mutex<Weak<Watch>>,
    /// Recorder for the exits of children, set after attaching.
    pub(crate) recorder: OnceLock<Arc<Recorder>>,
}

impl std::fmt::Debug for MonitorLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MonitorLink({})", self.machine)
    }
}

/// Extracts the answer of a names service and the node that gave it.
pub(crate) fn names_answer(reply: Reply) -> Result<(Option<NodeId>, Answer), Error> {
    match reply {
        Reply::Names { origin, answer } => Ok((origin, answer)),
        Reply::Failed { fault } => Err(fault.into()),
        other => Err(unexpected(&other)),
    }
}

impl MonitorLink {
    pub(crate) fn new(socket: OwnedFd, machine: String, output: OutputSink) -> Self {
        MonitorLink {
            socket,
            machine,
            arrived: Mutex::default(),
            changed: Condvar::new(),
            buffer: Mutex::default(),
            outbox: Mutex::default(),
            output: Mutex::new(output),
            observers: Mutex::default(),
            watch: Mutex::default(),
            recorder: OnceLock::new(),
        }
    }

    pub(crate) fn set_output(&self, sink: OutputSink) {
        *lock_unpoisoned(&self.output) = sink;
    }

    fn lost_error(&self) -> Error {
        Error::MonitorLost { machine: self.machine.clone() }
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn ask(&self, body: Request, timeout: Duration) -> Result<(Reply, Vec<OwnedFd>), Error> {
        self.ask_with(body, &[], timeout)
    }

    /// Like [`ask`](Self::ask), with descriptors.
    pub(crate) fn ask_with(
        &self,
        body: Request,
        fds: &[BorrowedFd<'_>],
        timeout: Duration,
    ) -> Result<(Reply, Vec<OwnedFd>), Error> {
        let request = self.start(body, fds)?;
        let result = self.wait(timeout, "an answer of the monitor", |arrived| arrived.take_reply(request));
        if matches!(result, Err(Error::TimedOut { .. })) {
            self.abandon(request);
        }
        match result? {
            (Reply::Failed { fault }, _) => Err(fault.into()),
            answer => Ok(answer),
        }
    }

    /// Sends a request. Returns the number that identifies its reply.
    pub(crate) fn start(&self, body: Request, fds: &[BorrowedFd<'_>]) -> Result<u32, Error> {
        let request = {
            let mut arrived = lock_unpoisoned(&self.arrived);
            arrived.next_request()
        };
        if let Request::Spawn { spawn } = &body
            && spawn.program.side.is_some()
        {
            // Output of the child can arrive before the reply is processed.
            lock_unpoisoned(&self.arrived).starting_sides.insert(request);
        }
        if matches!(body, Request::Spawn { .. })
            && let Some(recorder) = self.recorder.get().filter(|recorder| recorder.is_on())
        {
            // The child can be active before the reply arrives.
            lock_unpoisoned(&self.arrived).spawning.insert(request, recorder.ticks());
        }
        let sent = self.send(request, body, fds);
        if sent.is_err() {
            let mut arrived = lock_unpoisoned(&self.arrived);
            arrived.unanswered.remove(&request);
            arrived.starting_sides.remove(&request);
        }
        sent.map(|()| request)
    }

    /// Drops the reply to a request, now or when it arrives, and undoes its effect.
    pub(crate) fn abandon(&self, request: u32) {
        let mut arrived = lock_unpoisoned(&self.arrived);
        match arrived.take_reply(request) {
            None => arrived.abandoned.push(request),
            Some((Reply::Export { listener }, _)) => {
                drop(arrived);
                self.forget_listener(listener);
            }
            Some((Reply::Connect { grant }, fds)) => {
                drop(arrived);
                withdraw(&grant, fds);
            }
            Some(_) => {}
        }
    }

    /// Sends a request about names. The answer includes the node that gave it.
    pub(crate) fn ask_names(
        &self,
        scope: &Scope,
        operation: Operation,
        timeout: Duration,
    ) -> Result<(Option<NodeId>, Answer), Error> {
        let request = self.start(Request::Names { scope: scope.clone(), operation }, &[])?;
        let result = self.wait(timeout, "an answer of the monitor", |arrived| arrived.take_reply(request));
        if matches!(result, Err(Error::TimedOut { .. })) {
            self.abandon_names(request, scope);
        }
        names_answer(result?.0)
    }

    /// Abandons a request about names: what it acquired, or still acquires, is released.
    pub(crate) fn abandon_names(&self, request: u32, scope: &Scope) {
        let reply = {
            let mut arrived = lock_unpoisoned(&self.arrived);
            let reply = arrived.take_reply(request);
            if reply.is_none() {
                arrived.abandoned_names.insert(request, scope.clone());
            }
            reply
        };
        if let Some((reply, _)) = reply {
            self.release_abandoned(&reply, scope.clone());
        }
        // If the monitor is gone, so is everything that it granted.
        let _ = self.notify_names(scope, Operation::Cancel { request });
    }

    /// Like [`ask_names`](Self::ask_names), without an answer.
    pub(crate) fn notify_names(&self, scope: &Scope, operation: Operation) -> Result<(), Error> {
        self.notify(Request::Names { scope: scope.clone(), operation })
    }

    /// Removes a watch, with its notices that were not taken.
    pub(crate) fn forget_watch(&self, watch: WatchKey) {
        lock_unpoisoned(&self.arrived).notices.remove(&watch);
    }

    /// Sends a request that has no reply.
    pub(crate) fn notify(&self, body: Request) -> Result<(), Error> {
        self.send(0, body, &[])
    }

    /// Sends as much as the socket accepts, and leaves the rest to the reading thread: a monitor may resume
    /// reading only after its own messages have been read.
    fn send(&self, request: u32, body: Request, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let bytes = ClientMessage { request, body }.to_bytes()?;
        let fds = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<Vec<_>, _>>();
        let fds = fds.map_err(|error| OsError::from_io("copy a descriptor", &error))?;
        lock_unpoisoned(&self.outbox).push_back((bytes, fds));
        self.flush()
    }

    /// Sends queued messages as far as the socket accepts them.
    fn flush(&self) -> Result<(), Error> {
        let mut outbox = lock_unpoisoned(&self.outbox);
        while let Some((bytes, fds)) = outbox.front() {
            let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            match socket::send(&self.socket, bytes, &fds) {
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                    // The reading thread detects the reason.
                    outbox.clear();
                    return Ok(());
                }
                Err(errno) => return Err(OsError::new("send to the monitor", errno).into()),
            }
            outbox.pop_front();
        }
        Ok(())
    }

    /// Removes a listener, and closes the connections to it that were not accepted.
    pub(crate) fn forget_listener(&self, listener: u32) {
        let dropped = {
            let mut arrived = lock_unpoisoned(&self.arrived);
            arrived.listeners.remove(&listener);
            arrived.incoming.remove(&listener).unwrap_or_default()
        };
        // If the monitor is gone, so is the name.
        let _ = self.notify(Request::Withdraw { listener });
        if !dropped.is_empty() {
            let _ = self.notify(Request::Accepted { count: dropped.len() as u32 });
        }
        dropped.into_iter().for_each(|(grant, fds)| withdraw(&grant, fds));
    }

    /// Waits until `take` finds what it looks for among the arrived messages.
    pub(crate) fn wait<T>(
        &self,
        timeout: Duration,
        what: &str,
        mut take: impl FnMut(&mut Inbox) -> Option<T>,
    ) -> Result<T, Error> {
        let deadline = Deadline::after(timeout);
        // Read the socket at least once, even if the timeout is zero.
        let mut looked = false;
        let mut arrived = lock_unpoisoned(&self.arrived);
        loop {
            if let Some(found) = take(&mut arrived) {
                return Ok(found);
            }
            if let Some(error) = self.end_error(&arrived) {
                return Err(error);
            }
            if looked && deadline.passed() {
                return Err(Error::TimedOut { what: what.to_owned(), timeout });
            }
            looked = true;
            if arrived.reading && !lock_unpoisoned(&self.outbox).is_empty() {
                // The reading thread may sleep without knowing that there is something to send.
                drop(arrived);
                let soon = Deadline::after(deadline.remaining().min(RETRY));
                poll(&[(self.socket.as_fd(), Interest::Write)], Some(soon))?;
                self.flush()?;
                arrived = lock_unpoisoned(&self.arrived);
            } else if arrived.reading {
                let (guard, _) = self
                    .changed
                    .wait_timeout(arrived, deadline.remaining())
                    .unwrap_or_else(PoisonError::into_inner);
                arrived = guard;
            } else {
                arrived.reading = true;
                drop(arrived);
                let result = self.read(deadline);
                arrived = lock_unpoisoned(&self.arrived);
                arrived.reading = false;
                self.changed.notify_all();
                if std::mem::take(&mut arrived.read_again) || result != Ok(false) {
                    drop(arrived);
                    self.wake_observers();
                    arrived = lock_unpoisoned(&self.arrived);
                }
                result?;
            }
        }
    }

    /// Returns the error if the connection has ended.
    fn end_error(&self, arrived: &Inbox) -> Option<Error> {
        if let Some(fault) = &arrived.refusal {
            return Some(fault.clone().into());
        }
        if let Some(what) = &arrived.protocol_error {
            return Some(Error::MonitorProtocol(what.clone()));
        }
        arrived.lost.then(|| self.lost_error())
    }

    /// Registers `waker` to be woken once when something has arrived. Call it before a check that may find
    /// nothing.
    pub(crate) fn observe(&self, waker: &std::task::Waker) {
        let mut observers = lock_unpoisoned(&self.observers);
        if !observers.iter().any(|known| known.will_wake(waker)) {
            observers.push(waker.clone());
        }
    }

    pub(crate) fn wake_observers(&self) {
        let observers = std::mem::take(&mut *lock_unpoisoned(&self.observers));
        observers.into_iter().for_each(std::task::Waker::wake);
    }

    /// Reads what is available without waiting. Returns true if that was anything; the observers have then
    /// been woken. If another thread is reading, that thread wakes them.
    pub(crate) fn read_now(&self) -> Result<bool, Error> {
        let mut arrived = lock_unpoisoned(&self.arrived);
        if arrived.reading {
            arrived.read_again = true;
            drop(arrived);
            // That thread may not know that there is something to send.
            self.flush()?;
            return Ok(false);
        }
        if arrived.lost || arrived.protocol_error.is_some() {
            return Ok(false);
        }
        arrived.reading = true;
        let (mut something, mut result) = (false, Ok(false));
        loop {
            drop(arrived);
            result = result.and_then(|_| self.read(Deadline::at_ns(0)));
            something |= result != Ok(false);
            arrived = lock_unpoisoned(&self.arrived);
            if !std::mem::take(&mut arrived.read_again) || result.is_err() {
                break;
            }
        }
        arrived.reading = false;
        drop(arrived);
        self.changed.notify_all();
        if something {
            self.wake_observers();
        }
        result.map(|_| something)
    }

    /// Returns the cell for the exit of a child that was just started.
    pub(crate) fn exit_of(&self, domain: DomainId) -> Ended {
        lock_unpoisoned(&self.arrived).exits.exit_cell(domain)
    }

    /// Looks among the arrived messages; fails if nothing was found and the connection has ended.
    pub(crate) fn try_take<T>(&self, look: impl FnOnce(&mut Inbox) -> Option<T>) -> Result<Option<T>, Error> {
        let mut arrived = lock_unpoisoned(&self.arrived);
        match look(&mut arrived) {
            Some(found) => Ok(Some(found)),
            None => self.end_error(&arrived).map_or(Ok(None), Err),
        }
    }

    /// Passes the arrived messages to `with_inbox`, and whether the connection has ended.
    pub(crate) fn with_inbox<T>(&self, look: impl FnOnce(&Inbox, bool) -> T) -> T {
        let arrived = lock_unpoisoned(&self.arrived);
        let over = self.end_error(&arrived).is_some();
        look(&arrived, over)
    }

    /// Returns the registration that wakes futures; creates it with `start` if there is none.
    pub(crate) fn watch(&self, start: impl FnOnce() -> Result<Watch, Error>) -> Result<Arc<Watch>, Error> {
        let mut watch = lock_unpoisoned(&self.watch);
        if let Some(watch) = watch.upgrade() {
            return Ok(watch);
        }
        let started = Arc::new(start()?);
        *watch = Arc::downgrade(&started);
        Ok(started)
    }

    /// Descriptor that becomes ready when the monitor has sent something, or has room again.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads what is available, or waits for the first message. Only the reading thread calls it. Returns
    /// true if there was anything.
    fn read(&self, deadline: Deadline) -> Result<bool, Error> {
        self.flush()?;
        if self.read_available()? {
            return Ok(true);
        }
        if deadline.passed() {
            return Ok(false);
        }
        let all_sent = lock_unpoisoned(&self.outbox).is_empty();
        let interest = if all_sent { Interest::Read } else { Interest::ReadWrite };
        poll(&[(self.socket.as_fd(), interest)], Some(deadline))?;
        self.flush()?;
        self.read_available()
    }

    /// Reads what is available. Only the reading thread calls it. Returns true if there was anything.
    fn read_available(&self) -> Result<bool, Error> {
        let mut buffer = lock_unpoisoned(&self.buffer);
        buffer.resize(socket::MAX_PACKET_BYTES, 0);
        let mut something = false;
        loop {
            match socket::receive(&self.socket, &mut buffer) {
                Err(Errno::AGAIN) => return Ok(something),
                Ok(received) if received.length > 0 => {
                    if let Err(what) = self.store_message(&buffer[..received.length], received.fds) {
                        lock_unpoisoned(&self.arrived).protocol_error = Some(what);
                        return Ok(true);
                    }
                    something = true;
                }
                // Reported once if the monitor ended without reading everything; earlier messages are still
                // available.
                Err(Errno::CONNRESET) => {}
                Ok(_) => {
                    lock_unpoisoned(&self.arrived).lost = true;
                    return Ok(true);
                }
                Err(errno) => return Err(OsError::new("hear the monitor", errno).into()),
            }
        }
    }

    /// Releases what a request about names acquired after its caller gave up. Cancelling the request itself
    /// releases locks and permits.
    fn release_abandoned(&self, answer: &Reply, scope: Scope) {
        let operation = match answer {
            Reply::Names { answer: Answer::Watching { watch, .. }, origin } => {
                self.forget_watch((*origin, *watch));
                Operation::Unwatch { watch: *watch }
            }
            Reply::Names { answer: Answer::Joined { place }, .. } => Operation::Leave { place: *place },
            _ => return,
        };
        // If the monitor is gone, so is what it granted.
        let _ = self.notify_names(&scope, operation);
    }

    /// Stores a piece of a side stream until it is taken; an empty piece marks the end.
    fn store_side_piece(&self, domain: DomainId, bytes: Vec<u8>) {
        let mut arrived = lock_unpoisoned(&self.arrived);
        if let Some(side) = arrived.sides.get_mut(&domain) {
            return side.pieces.push_back(bytes);
        }
        drop(arrived);
        if !bytes.is_empty() {
            // The stream was dropped. If the monitor is gone by now, the next read reports it.
            let bytes = bytes.len() as u32;
            let _ = self.notify(Request::OutputTaken { domain, stream: streams::SIDE, bytes });
        }
    }

    /// Stores one message where the thread that waits for it looks.
    fn store_message(&self, bytes: &[u8], fds: Vec<OwnedFd>) -> Result<(), String> {
        let message = MonitorMessage::from_bytes(bytes).map_err(|error| error.to_string())?;
        let request = message.number();
        if let Reply::Output { domain, stream: streams::SIDE, bytes } = message.body {
            self.store_side_piece(domain, bytes);
            return Ok(());
        }
        if let Reply::Output { domain, stream, bytes } = message.body {
            let taken = bytes.len() as u32;
            let which = if stream == 2 { Stream::Error } else { Stream::Output };
            lock_unpoisoned(&self.output)(domain, which, &bytes);
            if taken > 0 {
                // If the monitor is gone by now, the next read reports it.
                let _ = self.notify(Request::OutputTaken { domain, stream, bytes: taken });
            }
            return Ok(());
        }
        let mut arrived = lock_unpoisoned(&self.arrived);
        match message.body {
            Reply::Incoming { listener, grant } if !arrived.listeners.contains(&listener) => {
                drop(arrived);
                // The listener was dropped before: the peer sees its channel end.
                let _ = self.notify(Request::Accepted { count: 1 });
                withdraw(&grant, fds);
            }
            Reply::Incoming { listener, grant } => {
                arrived.incoming.entry(listener).or_default().push_back((grant, fds));
            }
            Reply::TurnedAway { fault } => arrived.refusal = Some(fault),
            Reply::Ended { domain, exit } => {
                self.recorder.get().inspect(|recorder| recorder::child_ended(recorder, domain));
                // A child that ended without a handle for its side stream gets none later.
                if arrived.sides.get(&domain).is_some_and(|side| !side.taken) {
                    arrived.sides.remove(&domain);
                }
                arrived.exits.push(domain, exit);
            }
            Reply::Noticed { origin, notice } => {
                // If there is no entry, the watch was dropped.
                if let Some(notices) = arrived.notices.get_mut(&(origin, notice.watch)) {
                    notices.push_back(notice);
                }
            }
            output @ Reply::Console { .. } => arrived.console.push_back(output),
            answer => {
                arrived.unanswered.remove(&request);
                if arrived.starting_sides.remove(&request)
                    && let Reply::Spawn { domain } = &answer
                {
                    arrived.sides.insert(*domain, Side::default());
                }
                if let Some(ticks) = arrived.spawning.remove(&request)
                    && let (Reply::Spawn { domain }, Some(recorder)) = (&answer, self.recorder.get())
                {
                    recorder::spawned(recorder, ticks, *domain);
                }
                if let Some(scope) = arrived.abandoned_names.remove(&request) {
                    drop(arrived);
                    self.release_abandoned(&answer, scope);
                    return Ok(());
                }
                if let Some(index) = arrived.abandoned.iter().position(|abandoned| *abandoned == request) {
                    arrived.abandoned.swap_remove(index);
                    drop(arrived);
                    match answer {
                        Reply::Export { listener } => drop(self.notify(Request::Withdraw { listener })),
                        Reply::Connect { grant } => withdraw(&grant, fds),
                        _ => {}
                    }
                } else {
                    if let Reply::Names { origin, answer: Answer::Watching { watch, .. } } = &answer {
                        arrived.notices.insert((*origin, *watch), VecDeque::new());
                    }
                    if let Reply::Export { listener } | Reply::ServiceCreate { listener, .. } = &answer {
                        arrived.listeners.insert(*listener);
                    }
                    arrived.replies.insert(request, (answer, fds));
                }
            }
        }
        Ok(())
    }
}
