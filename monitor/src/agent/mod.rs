//! What a node's monitor does with its own hands: serve clients, run processes, keep lifelines.
//!
//! The same code is the host's own part of the root monitor, the monitor of a `user` node and that of a
//! virtual machine. What it does [`core`] decides, and what for the root does, see [`crate::core`].

mod children;
mod clients;
pub mod core;
mod lifelines;
mod orphans;
mod programs;
mod regions;
mod sensing;
mod traces;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use tombolo_base::{ChannelId, DomainId, WindowId};
use tombolo_control::{Order, RegionId, socket_name};
use tombolo_link::window::SHARED_VECTOR;
use tombolo_platform::event::{Interest, Ready, drain};
use tombolo_platform::time::now_ns;
use tombolo_platform::{OsError, process, socket};

use self::core::{Action, AgentCore, Outgoing, Stopped};
use children::ChildProcess;
use clients::ClientConnection;
pub use programs::program_from_bytes;
use regions::RegionMemory;
use sensing::Sensing;
use traces::TracePage;

use crate::shared_bells::SharedBells;

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
    /// The event counter that shows that the other side rang.
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Token {
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

/// The hands of a monitor.
#[derive(Debug)]
pub struct Agent {
    core: AgentCore<OwnedFd>,
    socket_name: String,
    listener: OwnedFd,
    emulator: Option<Emulator>,
    windows: BTreeMap<WindowId, GuestWindow>,
    /// The window that it shares with the host.
    own_window: Option<WindowId>,
    shared_bells: SharedBells,
    clients: HashMap<u32, ClientConnection>,
    /// See [`clients::spare`].
    spare: Option<OwnedFd>,
    children: HashMap<DomainId, ChildProcess>,
    /// What the root sent, or why it could not be kept.
    programs: HashMap<[u8; 32], Result<OwnedFd, OsError>>,
    /// The agent's ends of lifelines. A domain's end shows a hang-up when the peer is gone; this one when the
    /// domain has let go of the channel or died.
    lifelines: HashMap<ChannelId, OwnedFd>,
    /// Ends of socket pairs whose other end was handed out, by channel.
    pairs: HashMap<ChannelId, OwnedFd>,
    /// Memory that domains trace to, also of dead ones that the root wants kept.
    traces: HashMap<DomainId, TracePage>,
    /// What the control words of their pages say.
    trace_word: u64,
    /// The memory of the regions of this kernel.
    regions: HashMap<RegionId, RegionMemory>,
    /// Killed, not yet reaped, by process id.
    orphans: HashMap<i32, OwnedFd>,
    sensing: Sensing,
}

impl Agent {
    /// An agent that serves the clients of `node`, or of the machine's host if none is named. Before it
    /// changes the frequencies of processors, it writes the former ones to `ledger`, a memory file, for the
    /// process that outlives it and restores them.
    ///
    /// # Errors
    /// `EADDRINUSE` when another serves them already.
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
        Ok(Agent {
            core: AgentCore::new(),
            listener: socket::listen(&socket_name)?,
            socket_name,
            emulator,
            windows: BTreeMap::new(),
            own_window: None,
            shared_bells: SharedBells::default(),
            clients: HashMap::new(),
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
    pub fn set_windows(&mut self, own: WindowId, windows: BTreeMap<WindowId, GuestWindow>) {
        (self.own_window, self.windows) = (Some(own), windows);
    }

    /// Says whether the root takes what clients ask for; while it does not, they are not heard.
    pub fn let_clients_ask(&mut self, may_ask: bool) {
        self.core.let_clients_ask(may_ask);
    }

    /// The next report to the root.
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

    /// Everything it waits for.
    pub fn sources<'a>(&'a self, sources: &mut Vec<(BorrowedFd<'a>, Interest)>, tokens: &mut Vec<Token>) {
        let mut add = |fd: BorrowedFd<'a>, interest: Interest, token: Token| {
            sources.push((fd, interest));
            tokens.push(token);
        };
        add(self.listener.as_fd(), Interest::Read, Token::Listener);
        for (number, client) in &self.clients {
            if let Some(interest) = client.interest(self.core.is_client_heard(*number)) {
                add(client.socket(), interest, Token::Client(*number));
            }
        }
        for (domain, child) in &self.children {
            child.sources(*domain, &self.core, &mut add);
        }
        for (channel, lifeline) in &self.lifelines {
            add(lifeline.as_fd(), Interest::Read, Token::Lifeline(*channel));
        }
        for (id, window) in &self.windows {
            if let Some(counter) = window.bells.incoming(SHARED_VECTOR) {
                add(counter, Interest::Read, Token::SharedBell(*id));
            }
        }
        for (number, pidfd) in &self.orphans {
            add(pidfd.as_fd(), Interest::Read, Token::Orphan(*number));
        }
    }

    /// Takes note of what happened on one of them.
    pub fn handle(&mut self, token: Token, ready: Ready) {
        match token {
            Token::Listener => self.accept_clients(),
            Token::Client(number) => self.serve_client(number, ready),
            Token::ChildEnd(domain) => self.child_may_have_ended(domain),
            Token::ChildOutput(domain, stream) => {
                self.read_output(domain, stream);
            }
            Token::ChildInput(domain, stream) => self.write_input(domain, stream),
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
                Action::Feed { domain, stream } => self.write_input(domain, stream),
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
