//! Attaching node of a disk: forwards requests of the kernel or of a program to the server.

use std::collections::{HashMap, VecDeque};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tombolo::waitset::Trigger;
use tombolo::{Domain, Interest, Ready, Token, WaitSet};
use tombolo_platform::OsError;
use tombolo_platform::device::nbd::{Geometry, NbdDevice};
use tombolo_virtqueue::{Configuration, Operation, Status};

use super::BUFFER_BYTES;
use super::frontend::{Frontend, listen};
use super::nbd::{self, NbdCommand, NbdRequest};
use crate::failure::Failure;
use crate::print_status;
use crate::queue::{DEPTH, Event, Queue};

/// Initial time to wait for the server of a name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Polling period for the deadlines of requests.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Margin beyond the reply timeout, after which the kernel disconnects a disk whose program hangs.
const KERNEL_TIMEOUT_MARGIN: Duration = Duration::from_secs(30);

/// Form in which a disk is provided.
pub(crate) enum AttachTarget {
    /// The first free block device.
    FreeDevice,
    /// This block device.
    Device(PathBuf),
    /// A socket: a path, or `@` and an abstract name.
    Socket(String),
}

/// A request of the client that is not answered yet.
struct Transaction {
    cookie: u64,
    /// Number of its parts that are not answered.
    parts: usize,
    status: Status,
    /// Data to write, or data read so far.
    data: Vec<u8>,
    /// Start of the range in the device.
    offset_bytes: u64,
    operation: Operation,
    durable: bool,
}

/// Part of a transaction that fits a buffer.
#[derive(Clone, Copy, Debug)]
struct Part {
    transaction: u64,
    /// Offset in the transaction.
    at_bytes: u64,
    length_bytes: u64,
}

/// Connection to the server.
enum Link {
    Up(Token),
    /// Disconnected; a thread searches for the server.
    Down(Receiver<Result<Queue<Part>, Failure>>),
}

struct Attached<'a> {
    domain: &'a Domain,
    name: &'a str,
    timeout: Duration,
    configuration: Configuration,
    set: WaitSet<Queue<Part>>,
    link: Link,
    frontend: Option<(Frontend, Token)>,
    transactions: HashMap<u64, Transaction>,
    last: u64,
    /// Parts waiting for room in the queue.
    waiting: VecDeque<Part>,
}

/// Context of the first request, which belongs to no transaction.
const NO_PART: Part = Part { transaction: 0, at_bytes: 0, length_bytes: 0 };

fn connect(domain: &Domain, name: &str, timeout: Duration) -> Result<Queue<Part>, Failure> {
    Queue::connect(domain, name, timeout, (None, BUFFER_BYTES), NO_PART)
}

/// Provides the disk that is served as `name`. Each reply may take up to `timeout`. After a timeout, or when
/// the server dies, pending requests fail, and so do new ones until it is back.
pub(crate) fn attach(
    domain: &Domain,
    name: &str,
    timeout: Duration,
    place: &AttachTarget,
) -> Result<(), Failure> {
    let queue = connect(domain, name, CONNECT_TIMEOUT)?;
    let configuration = queue.configuration().ok_or(Failure::ReplyTimeout)?;
    let described = |what: &str| {
        let (bytes, from, here) = (configuration.capacity_bytes, queue.peer_node(), domain.node_name());
        format!("ready: {what} on {here} is '{name}' of {from}, {bytes} bytes")
    };
    let socket = |place: &str| Ok::<_, Failure>((listen(place)?, described(place)));
    match place {
        AttachTarget::FreeDevice | AttachTarget::Device(_) => {
            let path = if let AttachTarget::Device(path) = place { Some(&**path) } else { None };
            let (device, stream) = run_device(path, &configuration, timeout)?;
            print_status(&described(&device.path().to_string_lossy()));
            let mut attached = Attached::new((domain, name, timeout), queue, configuration)?;
            attached.set_frontend(Frontend::kernel(stream))?;
            // Without its client there is nothing left to do.
            while attached.frontend.is_some() {
                attached.step()?;
            }
            Ok(())
        }
        AttachTarget::Socket(place) => {
            let (listener, described) = socket(place)?;
            let mut attached = Attached::new((domain, name, timeout), queue, configuration)?;
            let nonblocking = listener.set_nonblocking(true);
            nonblocking.map_err(|error| OsError::from_io("use a socket", &error))?;
            attached.set.add_descriptor(&listener, Interest::Read, Trigger::Level)?;
            print_status(&described);
            loop {
                attached.step()?;
                attached.accept(&listener)?;
            }
        }
    }
}

/// Creates the disk and starts a thread that runs it until the returned stream is closed.
fn run_device(
    path: Option<&Path>,
    configuration: &Configuration,
    timeout: Duration,
) -> Result<(Arc<NbdDevice>, std::os::fd::OwnedFd), Failure> {
    let geometry = Geometry {
        block_bytes: configuration.block_bytes,
        blocks: configuration.capacity_bytes / u64::from(configuration.block_bytes),
        flags: nbd::flags(configuration),
        timeout_s: u32::try_from((timeout + KERNEL_TIMEOUT_MARGIN).as_secs()).unwrap_or(u32::MAX),
    };
    let (device, stream) = NbdDevice::prepare(path, &geometry)?;
    let device = Arc::new(device);
    let runs = Arc::clone(&device);
    let run = move || {
        if let Err(error) = runs.run() {
            print_status(&format!("the kernel gave the disk up: {error}"));
        }
    };
    let started = std::thread::Builder::new().name("kernel".into()).spawn(run);
    started.map_err(|error| OsError::from_io("start a thread that runs a disk", &error))?;
    // The disk is ready once the kernel reports the process that runs it.
    let runs = format!("/sys/block/{}/pid", device.name());
    let until = Instant::now() + Duration::from_secs(5);
    while !Path::new(&runs).exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((device, stream))
}

impl<'a> Attached<'a> {
    fn new(
        (domain, name, timeout): (&'a Domain, &'a str, Duration),
        queue: Queue<Part>,
        configuration: Configuration,
    ) -> Result<Attached<'a>, Failure> {
        let mut set = WaitSet::new()?;
        set.add_interval(POLL_INTERVAL)?;
        let link = Link::Up(set.add(queue)?);
        Ok(Attached {
            domain,
            name,
            timeout,
            configuration,
            set,
            link,
            frontend: None,
            transactions: HashMap::new(),
            last: 0,
            waiting: VecDeque::new(),
        })
    }

    fn set_frontend(&mut self, frontend: Frontend) -> Result<(), Failure> {
        let token = self.set.add_descriptor(&frontend, Interest::Read, Trigger::Once)?;
        self.frontend = Some((frontend, token));
        self.arm()
    }

    /// Accepts the next client, if there is none now.
    fn accept(&mut self, listener: &UnixListener) -> Result<(), Failure> {
        let Ok((stream, _)) = listener.accept() else { return Ok(()) };
        // The previous one may have ended without being noticed yet.
        if let Some((_, token)) = self.frontend {
            self.read_frontend(token);
        }
        match Frontend::program(stream)? {
            // One at a time: two clients would have incoherent caches.
            Some(frontend) if self.frontend.is_none() => self.set_frontend(frontend),
            _ => Ok(()),
        }
    }

    /// Waits for the next event and handles it.
    fn step(&mut self) -> Result<(), Failure> {
        match self.set.wait(2 * POLL_INTERVAL)? {
            Ready::Channel(_) => {
                if let Err(failure) = self.process_replies() {
                    self.disconnect(&failure)?;
                }
            }
            Ready::Descriptor(token, _) => self.read_frontend(token),
            Ready::Timer(..) => self.check_link()?,
            _ => {}
        }
        loop {
            let taken = self.take_requests();
            if let Err(failure) = self.send_waiting() {
                self.disconnect(&failure)?;
            }
            match taken {
                Ok(0) => return self.arm(),
                Ok(_) => {}
                Err(nbd::Malformed) => self.drop_frontend(),
            }
        }
    }

    /// Reads requests of the client, if the descriptor is its own.
    fn read_frontend(&mut self, token: Token) {
        if let Some((frontend, of)) = &mut self.frontend
            && *of == token
            && !frontend.read()
        {
            self.drop_frontend();
        }
    }

    /// Checks for overdue replies, and for a reconnected server.
    fn check_link(&mut self) -> Result<(), Failure> {
        match &self.link {
            Link::Up(token) if self.set.get(*token).is_some_and(Queue::is_overdue) => {
                self.disconnect(&Failure::ReplyTimeout)
            }
            Link::Up(_) => Ok(()),
            Link::Down(found) => match found.try_recv() {
                Ok(queue) => self.reconnect(queue?),
                Err(_) => Ok(()),
            },
        }
    }

    fn reconnect(&mut self, queue: Queue<Part>) -> Result<(), Failure> {
        if queue.configuration() != Some(self.configuration) {
            return Err(Failure::DiskChanged(self.name.to_owned()));
        }
        print_status(&format!("connected again: {}", queue.peer_node()));
        self.link = Link::Up(self.set.add(queue)?);
        Ok(())
    }

    /// Disconnects a server that is gone or unusable: all pending requests fail, and a thread searches for
    /// the next one. Buffers that the server held return with the end of the channel.
    fn disconnect(&mut self, why: &Failure) -> Result<(), Failure> {
        let Link::Up(token) = self.link else { return Ok(()) };
        print_status(&format!("connection lost: {why}; requests fail until '{}' is served again", self.name));
        let lost = self.set.remove(token).map(Queue::close).unwrap_or_default();
        let (sender, found) = mpsc::channel();
        self.link = Link::Down(found);
        for part in lost {
            self.finish(part, Status::Failed, None);
        }
        let (domain, name) = (self.domain.clone(), self.name.to_owned());
        let connect_loop = move || {
            loop {
                let queue = connect(&domain, &name, CONNECT_TIMEOUT);
                if queue.is_ok() || queue.as_ref().is_err_and(Failure::is_monitor_lost) {
                    // Received by the next check.
                    let _ = sender.send(queue);
                    return;
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        };
        let started = std::thread::Builder::new().name("connect".into()).spawn(connect_loop);
        started.map_err(|error| OsError::from_io("start a thread that connects", &error))?;
        Ok(())
    }

    fn process_replies(&mut self) -> Result<(), Failure> {
        let Link::Up(token) = self.link else { return Ok(()) };
        while let Some(event) = self.set[token].try_next()? {
            if let Event::Reply(done, buffer) = event {
                self.finish(done.context, done.status, buffer.as_ref());
            }
        }
        Ok(())
    }

    /// Handles the reply to a part, with the data read.
    fn finish(&mut self, part: Part, status: Status, content: Option<&tombolo::Buffer>) {
        // Unknown if its client has disconnected.
        let Some(transaction) = self.transactions.get_mut(&part.transaction) else { return };
        let mut status = status;
        if let Some(buffer) = content {
            let range = part.at_bytes as usize..(part.at_bytes + part.length_bytes) as usize;
            let target = transaction.data.get_mut(range);
            if target.is_none_or(|target| buffer.read(0, target).is_err()) {
                status = Status::Failed;
            }
        }
        if transaction.status == Status::Done {
            transaction.status = status;
        }
        transaction.parts -= 1;
        if transaction.parts > 0 {
            return;
        }
        let Some(done) = self.transactions.remove(&part.transaction) else { return };
        let data: &[u8] = if done.operation == Operation::Read { &done.data } else { &[] };
        if let Some((frontend, _)) = &mut self.frontend {
            frontend.queue_reply(done.cookie, done.status, data);
        }
    }

    /// Parses requests of the client up to the limit. Returns their number.
    fn take_requests(&mut self) -> Result<usize, nbd::Malformed> {
        let mut taken = 0;
        while self.can_take_requests()
            && let Some((frontend, _)) = &mut self.frontend
            && let Some(request) = frontend.next_request((self.name, &self.configuration))?
        {
            match request.what {
                NbdCommand::Disconnect => return Err(nbd::Malformed),
                NbdCommand::Unknown => frontend.queue_reply(request.cookie, Status::Unsupported, &[]),
                NbdCommand::Operation(operation) => self.split_request(operation, request),
            }
            taken += 1;
        }
        Ok(taken)
    }

    fn can_take_requests(&self) -> bool {
        self.waiting.len() < 4 * usize::from(DEPTH)
    }

    /// Splits a request into parts.
    fn split_request(&mut self, operation: Operation, request: NbdRequest) {
        let length_bytes = u64::from(request.length_bytes);
        let moves_data = matches!(operation, Operation::Read | Operation::Write);
        let part_bytes = if moves_data { BUFFER_BYTES } else { length_bytes.max(1) };
        self.last += 1;
        let transaction = self.last;
        let starts = (0..length_bytes.max(1)).step_by(part_bytes as usize);
        let parts = starts.map(|at_bytes| {
            let length_bytes = part_bytes.min(length_bytes - at_bytes.min(length_bytes));
            Part { transaction, at_bytes, length_bytes }
        });
        let before = self.waiting.len();
        self.waiting.extend(parts);
        let mut data = request.data;
        if operation == Operation::Read {
            data.resize(request.length_bytes as usize, 0);
        }
        let (offset_bytes, durable) = (request.offset_bytes, request.durable);
        let (cookie, parts, status) = (request.cookie, self.waiting.len() - before, Status::Done);
        let entry = Transaction { cookie, parts, status, data, offset_bytes, operation, durable };
        self.transactions.insert(transaction, entry);
    }

    /// Sends waiting parts to the server as long as there is room; without a server they fail.
    fn send_waiting(&mut self) -> Result<(), Failure> {
        while let Some(part) = self.waiting.pop_front() {
            let Link::Up(token) = self.link else {
                self.finish(part, Status::Failed, None);
                continue;
            };
            let Some(transaction) = self.transactions.get(&part.transaction) else { continue };
            let range = part.at_bytes as usize..(part.at_bytes + part.length_bytes) as usize;
            let is_write = transaction.operation == Operation::Write;
            let content = if is_write { transaction.data.get(range) } else { None };
            let what = (transaction.operation, transaction.durable);
            let place = (transaction.offset_bytes.saturating_add(part.at_bytes), part.length_bytes);
            match self.set[token].submit(what, place, self.timeout, content, part) {
                Ok(None) => {}
                Ok(Some(part)) => {
                    self.waiting.push_front(part);
                    return Ok(());
                }
                Err(failure) => {
                    self.finish(part, Status::Failed, None);
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// Sends replies, and updates the events to wait for.
    fn arm(&mut self) -> Result<(), Failure> {
        let can_take_requests = self.can_take_requests();
        let Some((frontend, token)) = &mut self.frontend else { return Ok(()) };
        let token = *token;
        if !frontend.send() {
            self.drop_frontend();
            return Ok(());
        }
        if let Some(interest) = frontend.interest(can_take_requests) {
            self.set.change_descriptor(token, interest, Trigger::Once)?;
        }
        Ok(())
    }

    fn drop_frontend(&mut self) {
        if let Some((_, token)) = self.frontend.take() {
            self.set.remove(token);
        }
        // Replies to its requests will find no transaction.
        self.transactions.clear();
        self.waiting.clear();
    }
}
