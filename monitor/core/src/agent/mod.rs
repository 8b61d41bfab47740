//! Decisions of an agent, without I/O.
//!
//! Events on its node (a client that connects, a process that ends) and orders of the root are inputs; the
//! outputs are [`Action`]s to perform and reports to the root. So the same agent serves a node and runs in a
//! simulator. `D` is a descriptor, which is only passed on here.
//!
//! The driver performs all actions of an input, in order, before the next input, and announces the time by
//! [`AgentCore::tick`] before the inputs of that time.
//!
//! **Invariant:** nothing here blocks, reads a clock, or touches a descriptor.

mod channels;
mod children;
mod clients;
mod names;
mod orphans;
mod samples;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tombolo_base::{ChannelId, DomainId, WindowId};
use tombolo_control::{MemoryOptions, Order, RegionId, Report, Seal, StartOrder};
use tombolo_naming::Nanos;

use children::ChildRecord;
pub use children::PIECE_BYTES;
use clients::ClientRecord;
pub use clients::{MAX_QUEUED_BYTES, MAX_QUEUED_DESCRIPTORS, PAUSE_QUEUED_BYTES, QUEUED_OVERHEAD_BYTES};
pub use orphans::ProcessInfo;
use samples::Sampling;
pub use samples::{SHARE_PPM, SampleRound};

use crate::names::{NameService, scope_limits};

/// A report, with the descriptor of the message that it forwards.
pub type OutgoingReport<D> = (Report, Option<D>);

/// Descriptor to be sent to a domain.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<D> {
    /// A descriptor received with the order.
    Passed(D),
    /// A descriptor that the order should have included.
    Missing,
    /// The domain's end of a new lifeline, see [`AgentCore::lifeline_created`].
    Lifeline,
    /// An end of a pair, created at the first mention of the channel; the other end is kept until the second.
    PairEnd,
    /// The domain's end of the link stream with the channel's number.
    LinkStream,
    /// The memory of a window.
    WindowMemory(WindowId),
    /// The event counter of an interrupt vector of a window.
    Interrupt(WindowId, u16),
    /// An event counter for an end of a channel without its own vector.
    SharedBell {
        /// Window of the channel.
        window: WindowId,
        /// Offset of the channel in the window.
        offset_bytes: u64,
        /// Whether it is the accepting end.
        accepting: bool,
        /// Offset of the word in the window that counts the rings of a group of peers, if any.
        group: Option<u64>,
    },
    /// The registers of a window's device.
    Registers(WindowId),
    /// A counter through which the agent rings a vector of the other side of a window.
    Ringer(WindowId, u16),
    /// The memory that a domain traces to, created at its first mention.
    TracePage(DomainId),
    /// The memory of a region; writable if true.
    Region(RegionId, bool),
    /// The memory of a window, read-only.
    WindowToRead(WindowId),
}

/// Origin of a region's memory.
#[derive(Debug, PartialEq, Eq)]
pub enum RegionSource<D> {
    /// New memory with these options.
    Made(MemoryOptions),
    /// A file; `None` if its descriptor did not arrive.
    File(Option<D>),
}

/// Origin of a program's content.
#[derive(Debug, PartialEq, Eq)]
pub enum ProgramSource<D> {
    /// A descriptor; `None` if it did not arrive.
    Passed(Option<D>),
    /// A range of the window, to be copied before [`AgentCore::program_copied`].
    Window {
        /// Offset of the program in the window.
        offset_bytes: u64,
        /// Length of the program, in bytes.
        length_bytes: u64,
    },
    /// A stream of the link with the host that carries the program.
    Stream {
        /// Number of the stream.
        stream: ChannelId,
        /// Length of the program, in bytes.
        length_bytes: u64,
    },
}

/// Action for the driver of the agent.
#[derive(Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of fields say what they are")]
pub enum Action<D> {
    /// Send a message to a client as soon as it has room, with all its descriptors, or with none if one is
    /// missing. If the connection is gone, drop the descriptors.
    Send {
        connection: u32,
        /// Channel that the descriptors belong to.
        channel: ChannelId,
        items: Vec<Item<D>>,
        message: Vec<u8>,
    },
    /// Close a client's connection.
    Close { connection: u32 },
    /// Store a program for later starts.
    Keep { hash: [u8; 32], source: ProgramSource<D> },
    /// Free a program.
    Forget { hash: [u8; 32] },
    /// Start a domain; answered by [`AgentCore::child_started`] or [`AgentCore::child_start_failed`].
    Start { order: StartOrder },
    /// Send a signal to the process group of a domain.
    Signal { domain: DomainId, signal: u8 },
    /// Write the input of [`AgentCore::next_input`] to a domain.
    WriteInput { domain: DomainId, stream: u8 },
    /// Close an input of a domain; of a side stream only this direction.
    CloseInput { domain: DomainId, stream: u8 },
    /// Hang up the domain's end of a lifeline: its peer is gone. The agent's end stays open to detect when
    /// the domain closes its own.
    HangUp { channel: ChannelId },
    /// Close the agent's end of a lifeline.
    CloseLifeline { channel: ChannelId },
    /// Store a control word in all present and future trace pages; 0 stops tracing.
    Trace { word: u64 },
    /// Read a part of a trace page; answered by [`AgentCore::trace_read`].
    ReadTrace { ticket: u64, domain: DomainId, offset_bytes: u64, length_bytes: u32 },
    /// Free a trace page.
    ForgetTrace { domain: DomainId },
    /// Create memory for a region; answered by [`AgentCore::region_made`].
    MakeRegion { region: RegionId, length_bytes: u64, source: RegionSource<D> },
    /// Seal the memory of a region; answered by [`AgentCore::region_sealed`].
    SealRegion { region: RegionId, seal: Seal },
    /// Free the memory of a region.
    ForgetRegion { region: RegionId },
    /// Set processor frequencies; answered by [`AgentCore::frequency_set`].
    SetFrequency { ticket: u64, change: FrequencyChange },
    /// Restore the frequencies that processors had before any were set.
    RestoreFrequency,
    /// Take the first sample, as the base of later ones.
    StartSampling,
    /// Sample the node, the processes of [`AgentCore::processes`] and their trace pages; answered by
    /// [`AgentCore::sampled`].
    Sample,
    /// Free the resources of sampling, which has stopped.
    StopSampling,
}

/// Change of processor frequencies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrequencyChange {
    /// Processors to change; all if the list is empty.
    pub cores: Vec<u16>,
    /// Governor to set; `None` to keep it.
    pub governor: Option<String>,
    /// Lowest frequency in kHz; `None` to keep it.
    pub min_khz: Option<u32>,
    /// Highest frequency in kHz; `None` to keep it.
    pub max_khz: Option<u32>,
}

/// State of an agent.
#[derive(Debug)]
pub struct AgentCore<D> {
    clients: BTreeMap<u32, ClientRecord>,
    next_connection: u32,
    /// Whether clients may send requests: not while the root does not accept them.
    requests_enabled: bool,
    children: BTreeMap<DomainId, ChildRecord>,
    /// Channels whose lifeline this agent holds.
    lifelines: BTreeSet<ChannelId>,
    orphans_expected: bool,
    /// Names of this node, once the root has told which node it is.
    names: Option<NameService>,
    sampling: Sampling,
    /// Current time, as of the last update.
    now: Nanos,
    actions: VecDeque<Action<D>>,
    reports: VecDeque<OutgoingReport<D>>,
}

impl<D> AgentCore<D> {
    /// Creates an agent without clients and domains.
    #[must_use]
    pub fn new() -> Self {
        AgentCore {
            clients: BTreeMap::new(),
            next_connection: 1,
            requests_enabled: true,
            children: BTreeMap::new(),
            lifelines: BTreeSet::new(),
            orphans_expected: false,
            names: None,
            sampling: Sampling::default(),
            now: 0,
            actions: VecDeque::new(),
            reports: VecDeque::new(),
        }
    }

    /// Returns the size of every table by name, for leak tests.
    #[must_use]
    pub fn resource_counts(&self) -> Vec<(&'static str, usize)> {
        let own = [
            ("clients", self.clients.len()),
            ("children", self.children.len()),
            ("lifelines", self.lifelines.len()),
            ("actions", self.actions.len()),
            ("reports", self.reports.len()),
        ];
        let names = self.names.iter().flat_map(NameService::resource_counts);
        own.into_iter().chain(self.sampling.resource_counts()).chain(names).collect()
    }

    /// Returns the next action.
    pub fn next_action(&mut self) -> Option<Action<D>> {
        self.actions.pop_front()
    }

    /// Returns the next report to the root.
    pub fn next_report(&mut self) -> Option<OutgoingReport<D>> {
        self.reports.pop_front()
    }

    fn report(&mut self, report: Report) {
        self.reports.push_back((report, None));
    }

    /// Handles an order of the root; its descriptors are in order.
    ///
    /// # Errors
    /// [`Stopped`] for the stop order: every domain must then be killed, and the agent ends.
    pub fn execute(&mut self, order: Order, passed: Vec<D>) -> Result<(), Stopped> {
        match order {
            // Only expected by an agent that has just started.
            Order::Welcome { .. } => {}
            Order::Program { hash, length_bytes, window_offset_bytes, stream } => {
                let source = match (window_offset_bytes, stream) {
                    (Some(offset_bytes), _) => ProgramSource::Window { offset_bytes, length_bytes },
                    (None, Some(stream)) => ProgramSource::Stream { stream, length_bytes },
                    (None, None) => ProgramSource::Passed(passed.into_iter().next()),
                };
                self.actions.push_back(Action::Keep { hash, source });
            }
            Order::Forget { hash } => self.actions.push_back(Action::Forget { hash }),
            Order::Start { order } => self.actions.push_back(Action::Start { order }),
            Order::Signal { domain, signal } => self.signal(domain, signal),
            Order::Deliver { connection, channel, attachments, message } => {
                self.deliver(connection, channel, &attachments, message, passed);
            }
            Order::HangUp { channel } => self.hang_up(channel),
            Order::Input { domain, stream, bytes } => self.queue_input(domain, stream, bytes),
            Order::OutputTaken { domain, stream, bytes } => self.output_taken(domain, stream, bytes as usize),
            Order::Dismiss { connection } => self.dismiss(connection),
            Order::Admitted { connection, domain } => self.admitted(connection, domain),
            Order::ServeNames { node, generation, records_per_domain, waits_per_domain } => {
                let limits = scope_limits(records_per_domain, waits_per_domain);
                self.names = Some(NameService::new(Some(node), limits, generation));
            }
            Order::NamesAsked { node, connection, domain, request, operation } => {
                self.handle_names_request((node, connection), domain, request, operation);
            }
            Order::NamesLeft { node, connection } => self.names_client_left((node, connection)),
            Order::Trace { word } => self.actions.push_back(Action::Trace { word }),
            Order::TraceRead { ticket, domain, offset_bytes, length_bytes } => {
                self.actions.push_back(Action::ReadTrace { ticket, domain, offset_bytes, length_bytes });
            }
            Order::TraceForget { domain } => self.actions.push_back(Action::ForgetTrace { domain }),
            Order::RegionMake { region, length_bytes, file, options } => {
                let source = match file {
                    true => RegionSource::File(passed.into_iter().next()),
                    false => RegionSource::Made(options),
                };
                self.actions.push_back(Action::MakeRegion { region, length_bytes, source });
            }
            Order::RegionSeal { region, seal } => self.actions.push_back(Action::SealRegion { region, seal }),
            Order::RegionForget { region } => self.actions.push_back(Action::ForgetRegion { region }),
            Order::Probe { ticket } => self.report(Report::Probed { ticket }),
            Order::SetFrequency { ticket, cores, governor, min_khz, max_khz } => {
                let change = FrequencyChange { cores, governor, min_khz, max_khz };
                self.actions.push_back(Action::SetFrequency { ticket, change });
            }
            Order::RestoreFrequency => self.actions.push_back(Action::RestoreFrequency),
            Order::Sample { period_ms } => self.sample(period_ms),
            Order::Stop => {
                self.actions.push_back(Action::RestoreFrequency);
                return Err(Stopped);
            }
        }
        Ok(())
    }

    /// Records that a program was copied out of the window, or that copying failed: its range there is free
    /// again. After a failure the start that follows reports the error.
    pub fn program_copied(&mut self, hash: [u8; 32]) {
        self.report(Report::ProgramTaken { hash });
    }

    /// Handles the content of a part of a trace page; `None` if the page does not exist.
    pub fn trace_read(&mut self, ticket: u64, bytes: Option<Vec<u8>>) {
        self.report(Report::TraceBytes { ticket, bytes });
    }

    /// Handles the result of creating a region's memory: whether it is read-only, or the error.
    pub fn region_made(&mut self, region: RegionId, made: Result<bool, String>) {
        let (read_only, failed) = made.map_or_else(|why| (false, Some(why)), |read_only| (read_only, None));
        self.report(Report::RegionMade { region, failed, read_only });
    }

    /// Handles the result of setting processor frequencies.
    pub fn frequency_set(&mut self, ticket: u64, set: Result<(), String>) {
        self.report(Report::FrequencySet { ticket, failed: set.err() });
    }

    /// Returns the time when [`tick`](Self::tick) is due.
    #[must_use]
    pub fn next_tick(&self) -> Option<Nanos> {
        let names = self.names.as_ref().and_then(NameService::next_tick);
        names.into_iter().chain(self.sampling.next_at()).min()
    }

    /// Updates the time and runs due work. Later inputs are considered to occur at this time until the next
    /// call.
    pub fn tick(&mut self, now: Nanos) {
        self.now = now;
        self.tick_names();
        self.tick_samples();
    }

    /// Handles the result of sealing a region's memory.
    pub fn region_sealed(&mut self, region: RegionId, sealed: Result<(), String>) {
        self.report(Report::RegionSealed { region, failed: sealed.err() });
    }
}

impl<D> Default for AgentCore<D> {
    fn default() -> Self {
        AgentCore::new()
    }
}

/// Error that reports the root's order to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;
