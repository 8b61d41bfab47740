//! The acting part of a node's monitor: serves clients, runs processes, keeps lifelines.
//!
//! The same code is the host's own part of the root monitor, the monitor of a `user` node and that of a
//! virtual machine. [`tombolo_monitor_core::agent`] makes the decisions.

mod children;
mod clients;
mod lifelines;
mod orphans;
mod poller;
mod programs;
mod regions;
mod sampler;
mod traces;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use tombolo_base::{ChannelId, DomainId, WindowId};
use tombolo_control::{Order, RegionId, socket_name};
use tombolo_link::window::SHARED_VECTOR;
use tombolo_platform::epoll::Events;
use tombolo_platform::error::Context;
use tombolo_platform::event::{Interest, Ready, drain};
use tombolo_platform::time::now_ns;
use tombolo_platform::{OsError, process, socket};

use children::ChildProcess;
use clients::ClientConnection;
use poller::{Poller, Registered};
pub use programs::program_from_bytes;
use regions::RegionMemory;
use sampler::Sampler;
use tombolo_monitor_core::agent::{Action, AgentCore, OutgoingReport, Stopped};
use traces::TracePage;

use crate::shared_bells::SharedBells;
use crate::streams::LinkStreams;

/// Emulator that runs foreign programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emulator {
    /// Path of the emulator.
    pub program: PathBuf,
    /// Options before the program: its processor model, and the location of the program's files.
    pub options: Vec<String>,
}

/// A window as held by a virtual machine's agent, to be passed to domains.
#[derive(Debug)]
pub struct GuestWindow {
    /// Memory of the window.
    pub memory: OwnedFd,
    /// Caches between its sides and the memory; `None` if it is coherent.
    pub caches: Option<tombolo_base::coherence::Caches>,
    /// Doorbells of the window.
    pub bells: GuestBells,
}

/// Doorbells of a window on its node.
#[derive(Debug)]
pub enum GuestBells {
    /// Doorbells of a device: programs ring through its registers and are rung by interrupts.
    Device {
        /// Registers of the device.
        registers: OwnedFd,
        /// Event counters of its interrupt vectors.
        interrupts: tombolo_platform::guest::interrupts::Interrupts,
    },
    /// Event counters that the monitor forwards, by vector.
    Polled {
        /// Signalled when the other side rings.
        incoming: Vec<OwnedFd>,
        /// Signalled by programs to ring the other side.
        outgoing: Vec<OwnedFd>,
    },
}

impl GuestBells {
    /// Returns the event counter that is signalled when the other side rings.
    #[must_use]
    pub fn incoming(&self, vector: u16) -> Option<BorrowedFd<'_>> {
        let counters = match self {
            GuestBells::Device { interrupts, .. } => interrupts.eventfds(),
            GuestBells::Polled { incoming, .. } => incoming,
        };
        counters.get(usize::from(vector)).map(AsFd::as_fd)
    }

    pub(crate) fn registers(&self) -> Option<BorrowedFd<'_>> {
        match self {
            GuestBells::Device { registers, .. } => Some(registers.as_fd()),
            GuestBells::Polled { .. } => None,
        }
    }

    fn ringer(&self, vector: u16) -> Option<BorrowedFd<'_>> {
        match self {
            GuestBells::Device { .. } => None,
            GuestBells::Polled { outgoing, .. } => outgoing.get(usize::from(vector)).map(AsFd::as_fd),
        }
    }
}

/// Identifies one of the agent's descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token {
    /// Listening socket for new clients.
    Listener,
    /// Socket of a client.
    Client(u32),
    /// Process descriptor that reports the end of a domain.
    ChildEnd(DomainId),
    /// Output stream of a domain.
    ChildOutput(DomainId, u8),
    /// Input stream of a domain.
    ChildInput(DomainId, u8),
    /// Lifeline of a channel.
    Lifeline(ChannelId),
    /// Process descriptor of an orphan.
    Orphan(i32),
    /// Vector of a window that channels share.
    SharedBell(WindowId),
}

/// Object whose descriptors may need a different set of events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum EventSource {
    Client(u32),
    Child(DomainId),
}

/// The acting part of a monitor.
#[derive(Debug)]
pub struct Agent {
    core: AgentCore<OwnedFd>,
    socket_name: String,
    poller: Poller,
    /// Events of the last wait, while they are handled.
    events: Events,
    /// Objects whose events may have changed since the last sleep.
    changed: BTreeSet<EventSource>,
    /// Whether the sockets of clients were armed for reading before the last sleep.
    reads_armed: bool,
    listener: Registered<OwnedFd>,
    emulator: Option<Emulator>,
    windows: BTreeMap<WindowId, GuestWindow>,
    /// Window shared with the host.
    own_window: Option<WindowId>,
    /// Event counters of the vectors that channels share.
    shared_vectors: Vec<Registered<OwnedFd>>,
    shared_bells: SharedBells,
    /// Streams of channels on the link with the host, for a virtual machine without a window.
    streams: Option<LinkStreams>,
    clients: HashMap<u32, ClientConnection>,
    /// Receive buffer for a client's requests.
    buffer: Vec<u8>,
    /// See [`clients::open_spare`].
    spare: Option<OwnedFd>,
    children: HashMap<DomainId, ChildProcess>,
    /// Programs sent by the root, or the errors of storing them.
    programs: HashMap<[u8; 32], Result<OwnedFd, OsError>>,
    /// The agent's ends of lifelines. The domain's end hangs up when the peer is gone; this one when the
    /// domain has released the channel or died.
    lifelines: HashMap<ChannelId, Registered<OwnedFd>>,
    /// Ends of socket pairs whose other end was handed out, by channel.
    pairs: HashMap<ChannelId, OwnedFd>,
    /// Memory that domains trace to, including that of dead ones that the root retains.
    traces: HashMap<DomainId, TracePage>,
    /// Control word of their pages.
    trace_word: u64,
    /// Memory of the regions of this kernel.
    regions: HashMap<RegionId, RegionMemory>,
    /// Killed processes that are not reaped yet, by process id.
    orphans: HashMap<i32, Registered<OwnedFd>>,
    sampler: Sampler,
}

impl Agent {
    /// Creates an agent that serves the clients of `node`, or of the machine's host if none is named. Before
    /// it changes the frequencies of processors, it records the former values in `ledger`, a memory file, for
    /// the process that outlives it and restores them.
    ///
    /// # Errors
    /// `EADDRINUSE` if another agent serves them already; `EMFILE`.
    pub fn new(
        machine: &str,
        node: Option<&str>,
        emulator: Option<Emulator>,
        ledger: Option<OwnedFd>,
    ) -> Result<Self, OsError> {
        let socket_name = socket_name(process::user_id(), machine, node);
        process::become_subreaper();
        // Programs under an emulator run on the host's kernel.
        let shares_kernel = emulator.is_some();
        let poller = Poller::new()?;
        let listener = socket::listen(&socket_name)?;
        Ok(Agent {
            core: AgentCore::new(),
            listener: poller.add(listener, Token::Listener, Some(Interest::Read))?,
            poller,
            events: Events::new(),
            changed: BTreeSet::new(),
            reads_armed: true,
            socket_name,
            emulator,
            windows: BTreeMap::new(),
            own_window: None,
            shared_vectors: Vec::new(),
            shared_bells: SharedBells::default(),
            streams: None,
            clients: HashMap::new(),
            buffer: Vec::new(),
            spare: clients::open_spare(),
            children: HashMap::new(),
            programs: HashMap::new(),
            lifelines: HashMap::new(),
            pairs: HashMap::new(),
            traces: HashMap::new(),
            trace_word: 0,
            regions: HashMap::new(),
            orphans: HashMap::new(),
            sampler: Sampler::new(ledger, shares_kernel),
        })
    }

    /// Sets the windows of its virtual machine, and which one it shares with the host.
    ///
    /// # Errors
    /// `EMFILE`: too many open files.
    pub fn set_windows(
        &mut self,
        own: WindowId,
        windows: BTreeMap<WindowId, GuestWindow>,
    ) -> Result<(), OsError> {
        self.shared_vectors.clear();
        for (id, window) in &windows {
            if let Some(counter) = window.bells.incoming(SHARED_VECTOR) {
                let copy = counter.try_clone_to_owned().context("copy a descriptor")?;
                let registered = self.poller.add(copy, Token::SharedBell(*id), Some(Interest::Read))?;
                self.shared_vectors.push(registered);
            }
        }
        (self.own_window, self.windows) = (Some(own), windows);
        Ok(())
    }

    /// Sets the streams of its link with the host.
    pub fn set_streams(&mut self, streams: LinkStreams) {
        self.streams = Some(streams);
    }

    /// Sets whether the root accepts requests of clients; otherwise clients are not read.
    pub fn set_requests_enabled(&mut self, enabled: bool) {
        self.core.set_requests_enabled(enabled);
    }

    /// Returns the next report to the root.
    pub fn next_report(&mut self) -> Option<OutgoingReport<OwnedFd>> {
        let report = self.core.next_report();
        self.account_report(report.as_ref().map(|(report, _)| report));
        report
    }

    /// Returns the time when [`tick`](Self::tick) is due, in nanoseconds of the monotonic clock.
    #[must_use]
    pub fn next_tick(&self) -> Option<u64> {
        self.core.next_tick()
    }

    /// Updates the time and runs due work.
    pub fn tick(&mut self) {
        self.core.tick(now_ns());
        self.run_actions();
    }

    /// Updates the events that the kernel waits for. Call before sleeping on [`ready_fd`](Self::ready_fd).
    pub fn arm(&mut self) {
        loop {
            let enabled = self.core.requests_enabled();
            if self.reads_armed != enabled {
                self.reads_armed = enabled;
                self.changed.extend(self.clients.keys().map(|number| EventSource::Client(*number)));
            }
            let Some(subject) = self.changed.pop_first() else { return };
            match subject {
                EventSource::Client(number) => self.arm_client(number),
                EventSource::Child(domain) => self.arm_child(domain),
            }
            self.run_actions();
        }
    }

    /// Returns a descriptor that is readable when there are events for [`serve`](Self::serve).
    #[must_use]
    pub fn ready_fd(&self) -> BorrowedFd<'_> {
        self.poller.fd()
    }

    /// Handles events, at most a bounded number, so that the root's other sources get their turn.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn serve(&mut self) -> Result<(), OsError> {
        let mut events = std::mem::take(&mut self.events);
        let outcome = self.poller.poll_events(&mut events);
        for (key, ready) in events.iter() {
            // Skip events of a descriptor that an earlier event closed.
            if let Some(token) = self.poller.token(key) {
                self.handle(token, ready);
            }
        }
        self.events = events;
        outcome
    }

    fn handle(&mut self, token: Token, ready: Ready) {
        match token {
            Token::Listener => self.accept_clients(),
            Token::Client(number) => {
                self.serve_client(number, ready);
                self.changed.insert(EventSource::Client(number));
            }
            Token::ChildEnd(domain) => self.reap_child(domain),
            Token::ChildOutput(domain, stream) => {
                self.read_output(domain, stream);
                self.changed.insert(EventSource::Child(domain));
            }
            Token::ChildInput(domain, stream) => {
                self.write_input(domain, stream);
                self.changed.insert(EventSource::Child(domain));
            }
            Token::Lifeline(channel) => self.core.lifeline_closed(channel),
            Token::Orphan(number) => self.reap_orphan(number),
            Token::SharedBell(id) => self.forward_rings(id),
        }
        self.run_actions();
    }

    /// Executes an order of the root; its descriptors are in order.
    ///
    /// # Errors
    /// [`Stopped`] for the stop order; the process should then end.
    pub fn execute(&mut self, order: Order, fds: Vec<OwnedFd>) -> Result<(), Stopped> {
        if let Order::OutputTaken { domain, .. } = &order {
            self.changed.insert(EventSource::Child(*domain));
        }
        let outcome = self.core.execute(order, fds);
        self.run_actions();
        if outcome.is_err() {
            self.destroy_children();
        }
        outcome
    }

    /// Handles the shared vector of a window.
    fn forward_rings(&mut self, id: WindowId) {
        let Some(window) = self.windows.get(&id) else { return };
        if let Some(counter) = window.bells.incoming(SHARED_VECTOR) {
            drain(counter);
        }
        self.shared_bells.forward(id);
    }

    fn run_actions(&mut self) {
        while let Some(action) = self.core.next_action() {
            match action {
                Action::Send { connection, channel, items, message } => {
                    self.send(connection, channel, items, message);
                    self.changed.insert(EventSource::Client(connection));
                }
                Action::Close { connection } => {
                    self.clients.remove(&connection);
                }
                Action::Keep { hash, source } => self.keep_program(hash, source),
                Action::Forget { hash } => {
                    self.programs.remove(&hash);
                }
                Action::Start { order } => self.start(order),
                Action::Signal { domain, signal } => self.signal(domain, signal),
                Action::WriteInput { domain, stream } => {
                    self.write_input(domain, stream);
                    self.changed.insert(EventSource::Child(domain));
                }
                Action::CloseInput { domain, stream } => self.close_input(domain, stream),
                Action::HangUp { channel } => self.hang_up(channel),
                Action::CloseLifeline { channel } => {
                    self.lifelines.remove(&channel);
                    self.shared_bells.forget(channel);
                }
                Action::Trace { word } => self.trace(word),
                Action::ReadTrace { ticket, domain, offset_bytes, length_bytes } => {
                    self.read_trace(ticket, domain, offset_bytes, length_bytes);
                }
                Action::ForgetTrace { domain } => self.forget_trace(domain),
                Action::MakeRegion { region, length_bytes, source } => {
                    self.make_region(region, length_bytes, source);
                }
                Action::SealRegion { region, seal } => self.seal_region(region, seal),
                Action::ForgetRegion { region } => {
                    self.regions.remove(&region);
                }
                Action::SetFrequency { ticket, change } => self.set_frequency(ticket, &change),
                Action::RestoreFrequency => self.restore_frequency(),
                Action::StartSampling => self.start_sampling(),
                Action::Sample => self.sample(),
                Action::StopSampling => self.stop_sampling(),
            }
        }
    }

    /// Kills every domain and waits for their ends.
    pub fn destroy_children(&mut self) {
        for child in self.children.values_mut() {
            child.destroy();
        }
        self.children.clear();
        self.core.children_destroyed();
    }
}
