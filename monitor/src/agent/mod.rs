//! What a node's monitor does with its own hands: serve clients, run processes, keep lifelines.
//!
//! The same code is the host's own part of the root monitor, the monitor of a `user` node and that of a
//! virtual machine. [`tombolo_monitor_core::agent`] decides what it does.

mod children;
mod clients;
mod lifelines;
mod orphans;
mod programs;
mod regions;
mod sensing;
mod traces;
mod watched;

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
pub use programs::program_from_bytes;
use regions::RegionMemory;
use sensing::Sensing;
use tombolo_monitor_core::agent::{Action, AgentCore, Outgoing, Stopped};
use traces::TracePage;
use watched::{Watch, Watched};

use crate::shared_bells::SharedBells;
use crate::streams::LinkStreams;

/// What foreign programs are run by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emulator {
    /// The program.
    pub program: PathBuf,
    /// What it is told before the program: its processor, and where the program's files are.
    pub options: Vec<String>,
}

/// What a virtual machine's agent has of a window, to hand to domains.
#[derive(Debug)]
pub struct GuestWindow {
    /// The memory.
    pub memory: OwnedFd,
    /// How its sides keep their views of the memory; `None` where it is coherent.
    pub caches: Option<tombolo_base::coherence::Caches>,
    /// How it is rung and rings.
    pub bells: GuestBells,
}

/// The doorbells of a window, as its node has them.
#[derive(Debug)]
pub enum GuestBells {
    /// Of a device: programs ring by its registers and are rung by interrupts.
    Device {
        /// The device's registers.
        registers: OwnedFd,
        /// The event counters of its interrupt vectors.
        interrupts: tombolo_platform::guest::interrupts::Interrupts,
    },
    /// Event counters that the monitor passes on, by vector.
    Polled {
        /// Signalled when the other side rings.
        incoming: Vec<OwnedFd>,
        /// Signalled by programs, to ring the other side.
        outgoing: Vec<OwnedFd>,
    },
}

impl GuestBells {
    /// Returns the event counter that shows that the other side rang.
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

/// One of the agent's descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token {
    /// New clients.
    Listener,
    /// A client.
    Client(u32),
    /// The end of a domain.
    ChildEnd(DomainId),
    /// A domain's output.
    ChildOutput(DomainId, u8),
    /// A domain's input.
    ChildInput(DomainId, u8),
    /// A lifeline.
    Lifeline(ChannelId),
    /// The end of an orphan.
    Orphan(i32),
    /// The vector of a window that channels share.
    SharedBell(WindowId),
}

/// Whose descriptors may have to be waited for in another way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Subject {
    Client(u32),
    Child(DomainId),
}

/// The hands of a monitor.
#[derive(Debug)]
pub struct Agent {
    core: AgentCore<OwnedFd>,
    socket_name: String,
    watch: Watch,
    /// What has happened, while it is handled.
    events: Events,
    /// Who may want other events since the last sleep.
    changed: BTreeSet<Subject>,
    /// Whether clients were heard before the last sleep.
    heard: bool,
    listener: Watched<OwnedFd>,
    emulator: Option<Emulator>,
    windows: BTreeMap<WindowId, GuestWindow>,
    /// The window that it shares with the host.
    own_window: Option<WindowId>,
    /// The counters of the vectors that channels share.
    shared_vectors: Vec<Watched<OwnedFd>>,
    shared_bells: SharedBells,
    /// The streams of channels on the link with the host, of a virtual machine without a window.
    streams: Option<LinkStreams>,
    clients: HashMap<u32, ClientConnection>,
    /// What a client says, while it is read.
    buffer: Vec<u8>,
    /// See [`clients::spare`].
    spare: Option<OwnedFd>,
    children: HashMap<DomainId, ChildProcess>,
    /// What the root sent, or why it could not be kept.
    programs: HashMap<[u8; 32], Result<OwnedFd, OsError>>,
    /// The agent's ends of lifelines. A domain's end shows a hang-up when the peer is gone; this one when the
    /// domain has let go of the channel or died.
    lifelines: HashMap<ChannelId, Watched<OwnedFd>>,
    /// Ends of socket pairs whose other end was handed out, by channel.
    pairs: HashMap<ChannelId, OwnedFd>,
    /// Memory that domains trace to, also of dead ones that the root wants kept.
    traces: HashMap<DomainId, TracePage>,
    /// What the control words of their pages say.
    trace_word: u64,
    /// The memory of the regions of this kernel.
    regions: HashMap<RegionId, RegionMemory>,
    /// Killed, not yet reaped, by process id.
    orphans: HashMap<i32, Watched<OwnedFd>>,
    sensing: Sensing,
}

impl Agent {
    /// Returns an agent that serves the clients of `node`, or of the machine's host if none is named. Before
    /// it changes the frequencies of processors, it writes the former ones to `ledger`, a memory file, for
    /// the process that outlives it and restores them.
    ///
    /// # Errors
    /// `EADDRINUSE` when another serves them already; `EMFILE`.
    pub fn new(
        machine: &str,
        node: Option<&str>,
        emulator: Option<Emulator>,
        ledger: Option<OwnedFd>,
    ) -> Result<Self, OsError> {
        let socket_name = socket_name(process::user_id(), machine, node);
        process::adopt_orphans();
        // What runs under an emulator runs on the host's kernel.
        let shares_kernel = emulator.is_some();
        let watch = Watch::new()?;
        let listener = socket::listen(&socket_name)?;
        Ok(Agent {
            core: AgentCore::new(),
            listener: watch.add(listener, Token::Listener, Some(Interest::Read))?,
            watch,
            events: Events::new(),
            changed: BTreeSet::new(),
            heard: true,
            socket_name,
            emulator,
            windows: BTreeMap::new(),
            own_window: None,
            shared_vectors: Vec::new(),
            shared_bells: SharedBells::default(),
            streams: None,
            clients: HashMap::new(),
            buffer: Vec::new(),
            spare: clients::spare(),
            children: HashMap::new(),
            programs: HashMap::new(),
            lifelines: HashMap::new(),
            pairs: HashMap::new(),
            traces: HashMap::new(),
            trace_word: 0,
            regions: HashMap::new(),
            orphans: HashMap::new(),
            sensing: Sensing::new(ledger, shares_kernel),
        })
    }

    /// Gives it the windows of its virtual machine, and says which one it shares with the host.
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
                let watched = self.watch.add(copy, Token::SharedBell(*id), Some(Interest::Read))?;
                self.shared_vectors.push(watched);
            }
        }
        (self.own_window, self.windows) = (Some(own), windows);
        Ok(())
    }

    /// Gives it the streams of its link with the host.
    pub fn set_streams(&mut self, streams: LinkStreams) {
        self.streams = Some(streams);
    }

    /// Says whether the root takes what clients ask for; while it does not, they are not heard.
    pub fn let_clients_ask(&mut self, may_ask: bool) {
        self.core.let_clients_ask(may_ask);
    }

    /// Returns the next report to the root.
    pub fn next_report(&mut self) -> Option<Outgoing<OwnedFd>> {
        let report = self.core.next_report();
        self.handing_out(report.as_ref().map(|(report, _)| report));
        report
    }

    /// When [`tick`](Self::tick) is due, in nanoseconds of the monotonic clock.
    #[must_use]
    pub fn next_tick(&self) -> Option<u64> {
        self.core.next_tick()
    }

    /// Takes note of the time, and does what is due.
    pub fn tick(&mut self) {
        self.core.tick(now_ns());
        self.perform();
    }

    /// Has the kernel wait for what this agent can serve now. To be called before a sleep on
    /// [`ready_fd`](Self::ready_fd).
    pub fn arm(&mut self) {
        loop {
            let may_ask = self.core.may_clients_ask();
            if self.heard != may_ask {
                self.heard = may_ask;
                self.changed.extend(self.clients.keys().map(|number| Subject::Client(*number)));
            }
            let Some(subject) = self.changed.pop_first() else { return };
            match subject {
                Subject::Client(number) => self.arm_client(number),
                Subject::Child(domain) => self.arm_child(domain),
            }
            self.perform();
        }
    }

    /// Readable when something has happened that [`serve`](Self::serve) takes note of.
    #[must_use]
    pub fn ready_fd(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }

    /// Takes note of what has happened: of a part of it when it is much, so that the root's other sources
    /// have their turn.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn serve(&mut self) -> Result<(), OsError> {
        let mut events = std::mem::take(&mut self.events);
        let outcome = self.watch.happened(&mut events);
        for (key, ready) in events.iter() {
            // What an earlier one has ended is told no more.
            if let Some(token) = self.watch.token(key) {
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
                self.changed.insert(Subject::Client(number));
            }
            Token::ChildEnd(domain) => self.child_may_have_ended(domain),
            Token::ChildOutput(domain, stream) => {
                self.read_output(domain, stream);
                self.changed.insert(Subject::Child(domain));
            }
            Token::ChildInput(domain, stream) => {
                self.write_input(domain, stream);
                self.changed.insert(Subject::Child(domain));
            }
            Token::Lifeline(channel) => self.core.lifeline_let_go(channel),
            Token::Orphan(number) => self.reap_orphan(number),
            Token::SharedBell(id) => self.forward_rings(id),
        }
        self.perform();
    }

    /// Does what the root says; descriptors that came along are in order.
    ///
    /// # Errors
    /// When the order is to stop: the error says so and the process should end.
    pub fn execute(&mut self, order: Order, fds: Vec<OwnedFd>) -> Result<(), Stopped> {
        if let Order::OutputTaken { domain, .. } = &order {
            self.changed.insert(Subject::Child(*domain));
        }
        let outcome = self.core.execute(order, fds);
        self.perform();
        if outcome.is_err() {
            self.destroy_children();
        }
        outcome
    }

    /// The shared vector of a window was rung.
    fn forward_rings(&mut self, id: WindowId) {
        let Some(window) = self.windows.get(&id) else { return };
        if let Some(counter) = window.bells.incoming(SHARED_VECTOR) {
            drain(counter);
        }
        self.shared_bells.forward(id);
    }

    fn perform(&mut self) {
        while let Some(action) = self.core.next_action() {
            match action {
                Action::Send { connection, channel, items, message } => {
                    self.send(connection, channel, items, message);
                    self.changed.insert(Subject::Client(connection));
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
                Action::Feed { domain, stream } => {
                    self.write_input(domain, stream);
                    self.changed.insert(Subject::Child(domain));
                }
                Action::CloseInput { domain, stream } => self.close_input(domain, stream),
                Action::HangUp { channel } => self.hang_up(channel),
                Action::LetGo { channel } => {
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

    /// Kills every domain and waits until they are gone.
    pub fn destroy_children(&mut self) {
        for child in self.children.values_mut() {
            child.destroy();
        }
        self.children.clear();
        self.core.children_destroyed();
    }
}
