//! The decisions of an agent, without I/O.
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
pub use orphans::Kin;
use samples::Sampling;
pub use samples::{Round, SHARE_PPM};

use crate::names::{NameDesk, limits};

/// A report, and the descriptor that came with what it passes on.
pub type Outgoing<D> = (Report, Option<D>);

/// A descriptor to go to a domain.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<D> {
    /// A descriptor that came with the order.
    Passed(D),
    /// A descriptor that should have come with the order and did not.
    Missing,
    /// The domain's end of a fresh lifeline, see [`AgentCore::lifeline_made`].
    Lifeline,
    /// An end of a pair, made at the first mention of the channel; the other end is kept until the second.
    PairEnd,
    /// The domain's end of the stream of the channel's number on the link with the host.
    LinkStream,
    /// The memory of a window.
    WindowMemory(WindowId),
    /// The event counter of an interrupt vector of a window.
    Interrupt(WindowId, u16),
    /// An event counter for an end of a channel that has no vector of its own.
    SharedBell {
        /// The window.
        window: WindowId,
        /// The first byte of the channel in the window.
        offset_bytes: u64,
        /// It is the accepting end.
        accepting: bool,
        /// The word of the window in which the peer's rings are counted with those of others, if any.
        group: Option<u64>,
    },
    /// The registers of a window's device.
    Registers(WindowId),
    /// What rings a vector of the other side of a window by way of the agent.
    Ringer(WindowId, u16),
    /// The memory that a domain traces to, made at its first mention.
    TracePage(DomainId),
    /// The memory of a region, also for writing or not.
    Region(RegionId, bool),
    /// The memory of a window, for reading alone.
    WindowToRead(WindowId),
}

/// What the memory of a region is.
#[derive(Debug, PartialEq, Eq)]
pub enum RegionSource<D> {
    /// New memory of these options.
    Made(MemoryOptions),
    /// A file; `None` if its descriptor did not arrive.
    File(Option<D>),
}

/// Where a program comes from.
#[derive(Debug, PartialEq, Eq)]
pub enum ProgramSource<D> {
    /// A descriptor; `None` if it did not arrive.
    Passed(Option<D>),
    /// A range of the window, to be copied before [`AgentCore::program_copied`].
    Window {
        /// The offset of the program in the window.
        offset_bytes: u64,
        /// The length of the program.
        length_bytes: u64,
    },
    /// A stream of the link with the host, of the program's length.
    Stream {
        /// Its number.
        stream: ChannelId,
        /// The length of the program.
        length_bytes: u64,
    },
}

/// Something that the agent has to do.
#[derive(Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of fields say what they are")]
pub enum Action<D> {
    /// Send a message to a client as soon as it takes it, with all its descriptors, or with none if one is
    /// missing. If the connection is gone, drop the descriptors.
    Send {
        connection: u32,
        /// The channel that the descriptors belong to.
        channel: ChannelId,
        items: Vec<Item<D>>,
        message: Vec<u8>,
    },
    /// Close a client's connection.
    Close { connection: u32 },
    /// Keep a program for later starts.
    Keep { hash: [u8; 32], source: ProgramSource<D> },
    /// Free a program.
    Forget { hash: [u8; 32] },
    /// Start a domain; answered by [`AgentCore::started`] or [`AgentCore::not_started`].
    Start { order: StartOrder },
    /// Send a signal to the process group of a domain.
    Signal { domain: DomainId, signal: u8 },
    /// Write the input of [`AgentCore::next_input`] to a domain.
    Feed { domain: DomainId, stream: u8 },
    /// Close an input of a domain; of a side stream only this direction.
    CloseInput { domain: DomainId, stream: u8 },
    /// Hang up the domain's end of a lifeline: its peer is gone. The agent's end stays, and shows when the
    /// domain closes its own.
    HangUp { channel: ChannelId },
    /// Close the agent's end of a lifeline.
    LetGo { channel: ChannelId },
    /// Store a control word in every trace page, now and in new ones; 0 stops tracing.
    Trace { word: u64 },
    /// Read a part of a trace page; answered by [`AgentCore::trace_read`].
    ReadTrace { ticket: u64, domain: DomainId, offset_bytes: u64, length_bytes: u32 },
    /// Free a trace page.
    ForgetTrace { domain: DomainId },
    /// Keep memory for a region; answered by [`AgentCore::region_made`].
    MakeRegion { region: RegionId, length_bytes: u64, source: RegionSource<D> },
    /// Seal the memory of a region; answered by [`AgentCore::region_sealed`].
    SealRegion { region: RegionId, seal: Seal },
    /// Free the memory of a region.
    ForgetRegion { region: RegionId },
    /// Set processor frequencies; answered by [`AgentCore::frequency_set`].
    SetFrequency { ticket: u64, change: FrequencyChange },
    /// Restore the frequencies that processors had before any were set.
    RestoreFrequency,
    /// Take the first sample, to compare later ones with.
    StartSampling,
    /// Sample the node, the processes of [`AgentCore::processes`] and their trace pages; answered by
    /// [`AgentCore::sampled`].
    Sample,
    /// Free what samples need: none are taken any more.
    StopSampling,
}

/// A change of the frequencies at which processors run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrequencyChange {
    /// The processors; all if the list is empty.
    pub cores: Vec<u16>,
    /// The governor; `None` to keep it.
    pub governor: Option<String>,
    /// The lowest frequency; `None` to keep it.
    pub min_khz: Option<u32>,
    /// The highest frequency; `None` to keep it.
    pub max_khz: Option<u32>,
}

/// The state of an agent.
#[derive(Debug)]
pub struct AgentCore<D> {
    clients: BTreeMap<u32, ClientRecord>,
    next_connection: u32,
    /// Whether clients may ask for more: not while the root does not take what they asked for.
    clients_may_ask: bool,
    children: BTreeMap<DomainId, ChildRecord>,
    /// Channels whose lifeline this agent holds.
    lifelines: BTreeSet<ChannelId>,
    orphans_expected: bool,
    /// The names of this node, once the root has said which it is.
    names: Option<NameDesk>,
    sampling: Sampling,
    /// What time it is, as far as it was said.
    now: Nanos,
    actions: VecDeque<Action<D>>,
    reports: VecDeque<Outgoing<D>>,
}

impl<D> AgentCore<D> {
    /// Returns an agent without clients and domains.
    #[must_use]
    pub fn new() -> Self {
        AgentCore {
            clients: BTreeMap::new(),
            next_connection: 1,
            clients_may_ask: true,
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

    /// Returns the size of every table, by what is in it: as much as before when those who came are gone.
    #[must_use]
    pub fn held(&self) -> Vec<(&'static str, usize)> {
        let own = [
            ("clients", self.clients.len()),
            ("children", self.children.len()),
            ("lifelines", self.lifelines.len()),
            ("actions", self.actions.len()),
            ("reports", self.reports.len()),
        ];
        let names = self.names.iter().flat_map(NameDesk::held);
        own.into_iter().chain(self.sampling.held()).chain(names).collect()
    }

    /// Returns the next thing to be done.
    pub fn next_action(&mut self) -> Option<Action<D>> {
        self.actions.pop_front()
    }

    /// Returns the next report to the root.
    pub fn next_report(&mut self) -> Option<Outgoing<D>> {
        self.reports.pop_front()
    }

    fn report(&mut self, report: Report) {
        self.reports.push_back((report, None));
    }

    /// Takes in what the root says; descriptors that came along are in order.
    ///
    /// # Errors
    /// When the order is to stop: then every domain is to be killed, and the agent ends.
    pub fn execute(&mut self, order: Order, passed: Vec<D>) -> Result<(), Stopped> {
        match order {
            // Only an agent that has just started expects one.
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
            Order::Input { domain, stream, bytes } => self.feed(domain, stream, bytes),
            Order::OutputTaken { domain, stream, bytes } => self.output_taken(domain, stream, bytes as usize),
            Order::Dismiss { connection } => self.dismiss(connection),
            Order::Admitted { connection, domain } => self.admitted(connection, domain),
            Order::ServeNames { node, generation, records_per_domain, waits_per_domain } => {
                let limits = limits(records_per_domain, waits_per_domain);
                self.names = Some(NameDesk::new(Some(node), limits, generation));
            }
            Order::NamesAsked { node, connection, domain, request, operation } => {
                self.names_asked((node, connection), domain, request, operation);
            }
            Order::NamesLeft { node, connection } => self.left_names((node, connection)),
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

    /// A program was copied out of the window, or could not be: its range there is free again. If it could
    /// not, the start that follows fails and says so.
    pub fn program_copied(&mut self, hash: [u8; 32]) {
        self.report(Report::ProgramTaken { hash });
    }

    /// A part of a trace page was read; nothing when there is no such page.
    pub fn trace_read(&mut self, ticket: u64, bytes: Option<Vec<u8>>) {
        self.report(Report::TraceBytes { ticket, bytes });
    }

    /// The memory of a region is kept, perhaps only for reading, or why it is not.
    pub fn region_made(&mut self, region: RegionId, made: Result<bool, String>) {
        let (read_only, failed) = made.map_or_else(|why| (false, Some(why)), |read_only| (read_only, None));
        self.report(Report::RegionMade { region, failed, read_only });
    }

    /// Processors run as was asked for, or why not.
    pub fn frequency_set(&mut self, ticket: u64, set: Result<(), String>) {
        self.report(Report::FrequencySet { ticket, failed: set.err() });
    }

    /// When [`tick`](Self::tick) is due.
    #[must_use]
    pub fn next_tick(&self) -> Option<Nanos> {
        let names = self.names.as_ref().and_then(NameDesk::next_tick);
        names.into_iter().chain(self.sampling.next_at()).min()
    }

    /// Says what time it is, and does what is due. Whatever comes in until the next time is taken to happen
    /// now.
    pub fn tick(&mut self, now: Nanos) {
        self.now = now;
        self.tick_names();
        self.tick_samples();
    }

    /// The memory of a region is sealed, or why it is not.
    pub fn region_sealed(&mut self, region: RegionId, sealed: Result<(), String>) {
        self.report(Report::RegionSealed { region, failed: sealed.err() });
    }
}

impl<D> Default for AgentCore<D> {
    fn default() -> Self {
        AgentCore::new()
    }
}

/// The root said to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;
