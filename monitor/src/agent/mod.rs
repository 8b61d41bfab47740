//! What a node's monitor does with its own hands: serve clients, run processes, keep lifelines.
//!
//! The same code is the host's own part of the root monitor, the monitor of a `user` node and that of a virtual
//! machine. It decides nothing: see [`crate::core`].

mod children;
mod clients;
mod lifelines;
mod orphans;
mod programs;
mod traces;

use std::collections::{HashMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::{Order, Report, socket_name};
use tombolo_platform::event::{Interest, Ready};
use tombolo_platform::{Errno, OsError, process, socket};

use children::ChildRecord;
use clients::ClientConnection;
use lifelines::Lifeline;
pub use programs::program_from_bytes;
use traces::TracePage;

/// What foreign programs are run by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emulator {
    /// The program.
    pub program: PathBuf,
    /// The processor that it emulates; its default if none.
    pub cpu: Option<String>,
}

/// What a virtual machine's agent has of its window, to hand to domains.
#[derive(Debug)]
pub struct GuestWindow {
    /// The memory.
    pub memory: OwnedFd,
    /// The device's registers.
    pub registers: OwnedFd,
    /// The event counters of its interrupt vectors.
    pub interrupts: tombolo_platform::guest::vfio::Interrupts,
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
    ChildInput(DomainId),
    /// A lifeline.
    Lifeline(ChannelId),
    /// The end of an orphan.
    Orphan(i32),
}

/// A report, and the descriptor that came with what it passes on.
pub type Outgoing = (Report, Option<OwnedFd>);

/// The hands of a monitor.
#[derive(Debug)]
pub struct Agent {
    socket_name: String,
    listener: OwnedFd,
    emulator: Option<Emulator>,
    window: Option<GuestWindow>,
    clients: HashMap<u32, ClientConnection>,
    next_connection: u32,
    /// See [`clients::spare`].
    spare: Option<OwnedFd>,
    /// Whether clients may ask for more: not while the root does not take what they asked for.
    clients_may_ask: bool,
    children: HashMap<DomainId, ChildRecord>,
    programs: HashMap<[u8; 32], OwnedFd>,
    lifelines: HashMap<ChannelId, Lifeline>,
    /// Ends of socket pairs whose other end was handed out, by channel.
    pairs: HashMap<ChannelId, OwnedFd>,
    reports: VecDeque<Outgoing>,
    /// Memory that domains trace to, also of dead ones that the root wants kept.
    traces: HashMap<DomainId, TracePage>,
    /// What the control words of their pages say.
    trace_word: u64,
    /// Killed, not yet reaped, by process id.
    orphans: HashMap<i32, OwnedFd>,
    orphans_expected: bool,
}

impl Agent {
    /// An agent that serves the clients of `node`, or of the machine's host if none is named.
    ///
    /// # Errors
    /// `EADDRINUSE` when another serves them already.
    pub fn new(machine: &str, node: Option<&str>, emulator: Option<Emulator>) -> Result<Self, OsError> {
        let socket_name = socket_name(process::user_id(), machine, node);
        process::adopt_orphans();
        Ok(Agent {
            listener: socket::listen(&socket_name)?,
            socket_name,
            emulator,
            window: None,
            clients: HashMap::new(),
            next_connection: 1,
            spare: clients::spare(),
            clients_may_ask: true,
            children: HashMap::new(),
            programs: HashMap::new(),
            lifelines: HashMap::new(),
            pairs: HashMap::new(),
            reports: VecDeque::new(),
            traces: HashMap::new(),
            trace_word: 0,
            orphans: HashMap::new(),
            orphans_expected: false,
        })
    }

    /// Gives it the window of its virtual machine.
    pub fn set_window(&mut self, window: GuestWindow) {
        self.window = Some(window);
    }

    /// Says whether the root takes what clients ask for; while it does not, they are not heard.
    pub fn let_clients_ask(&mut self, may_ask: bool) {
        self.clients_may_ask = may_ask;
    }

    /// Its window.
    #[must_use]
    pub fn window(&self) -> Option<&GuestWindow> {
        self.window.as_ref()
    }

    /// The next report to the root.
    pub fn next_report(&mut self) -> Option<Outgoing> {
        self.reports.pop_front()
    }

    fn report(&mut self, report: Report) {
        self.reports.push_back((report, None));
    }

    /// Everything it waits for.
    pub fn sources<'a>(&'a self, sources: &mut Vec<(BorrowedFd<'a>, Interest)>, tokens: &mut Vec<Token>) {
        let mut add = |fd: BorrowedFd<'a>, interest: Interest, token: Token| {
            sources.push((fd, interest));
            tokens.push(token);
        };
        use std::os::fd::AsFd;
        add(self.listener.as_fd(), Interest::Read, Token::Listener);
        for (number, client) in &self.clients {
            if let Some(interest) = client.interest(self.clients_may_ask) {
                add(client.socket(), interest, Token::Client(*number));
            }
        }
        for (domain, child) in &self.children {
            child.sources(*domain, &mut add);
        }
        for (channel, lifeline) in &self.lifelines {
            add(lifeline.fd(), Interest::Read, Token::Lifeline(*channel));
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
            Token::ChildOutput(domain, stream) => self.read_output(domain, stream),
            Token::ChildInput(domain) => self.write_input(domain),
            Token::Lifeline(channel) => self.lifeline_let_go(channel),
            Token::Orphan(number) => self.reap_orphan(number),
        }
    }

    /// Does what the root says; descriptors that came along are in order.
    ///
    /// # Errors
    /// When the order is to stop: the error says so and the process should end.
    pub fn execute(&mut self, order: Order, fds: Vec<OwnedFd>) -> Result<(), Stopped> {
        match order {
            // Only an agent that has just started expects one.
            Order::Welcome { .. } => {}
            Order::Program { hash, length_bytes, window_offset_bytes } => {
                self.take_program(hash, length_bytes, window_offset_bytes, fds);
            }
            Order::Forget { hash } => {
                self.programs.remove(&hash);
            }
            Order::Start { order } => self.start(order),
            Order::Signal { domain, signal } => self.signal(domain, signal),
            Order::Deliver { connection, channel, attachments, message } => {
                self.deliver(connection, channel, &attachments, message.0, fds);
            }
            Order::HangUp { channel } => self.hang_up(channel),
            Order::Input { domain, bytes } => self.feed(domain, bytes.0),
            Order::OutputTaken { domain, stream, bytes } => self.output_taken(domain, stream, bytes as usize),
            Order::Dismiss { connection } => {
                self.clients.remove(&connection);
            }
            Order::Trace { word } => self.trace(word),
            Order::TraceRead { ticket, domain, offset_bytes, length_bytes } => {
                self.read_trace(ticket, domain, offset_bytes, length_bytes);
            }
            Order::TraceForget { domain } => self.forget_trace(domain),
            Order::Stop {} => {
                self.destroy_children();
                return Err(Stopped);
            }
        }
        Ok(())
    }

    /// Kills every domain and waits until they are gone.
    pub fn destroy_children(&mut self) {
        for child in self.children.values_mut() {
            child.destroy();
        }
        self.children.clear();
    }
}

/// The root said to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

/// Whether an error of a socket means that its other end is gone.
pub(crate) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN)
}
