//! What a monitor sees of its machine, and says to whoever watches.
//!
//! Written by `tombolo idl compile` from interfaces/control/observation.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::capabilities::*;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::machine::*;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::name_faults::*;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::names::*;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::records::*;

/// The most parts of a machine that one answer tells of.
pub const MAX_OBSERVATIONS: u64 = 256;

/// The most ends of channels, or domains, that one report tells of.
pub const MAX_SAMPLES: u64 = 256;

/// The most governors that a node knows.
pub const MAX_GOVERNORS: u64 = 16;

/// The most meters of power that a node has.
pub const MAX_METERS: u64 = 32;

/// The most points of one answer about the past.
pub const MAX_POINTS: u64 = 512;

/// The most pieces of output of one answer.
pub const MAX_PIECES: u64 = 256;

rt::number! {
    /// How far a node is.
    pub enum NodePhase: u8;
    /// Started, has not reported.
    Starting = 0,
    /// Its monitor answers.
    Up = 1,
    /// Not running.
    Down = 2,
}

rt::number! {
    /// What sort of thing happened.
    pub open Happening: u8;
    /// A node was started.
    NODE_STARTING = 1,
    /// A node is up.
    NODE_UP = 2,
    /// A node is down, and why.
    NODE_DOWN = 3,
    /// A domain started.
    DOMAIN_STARTED = 10,
    /// A domain did not start, and why.
    DOMAIN_NOT_STARTED = 11,
    /// A domain ended, and how.
    DOMAIN_ENDED = 12,
    /// A domain was paused.
    DOMAIN_PAUSED = 13,
    /// A domain goes on.
    DOMAIN_RESUMED = 14,
    /// A domain is ended and started elsewhere.
    DOMAIN_MOVED = 15,
    /// A limit was met, and which.
    LIMIT_MET = 20,
    /// Frequencies of a node's processors were changed, or are as they were.
    FREQUENCY_CHANGED = 30,
}

rt::number! {
    /// What of the past is asked for.
    pub enum Measure: u8;
    /// Of a node or domain: processor time, in thousandths of one processor.
    Load = 0,
    /// Of a node or domain: memory in use, in bytes.
    Memory = 1,
    /// Of a channel or link: messages in a second, in thousandths, both ways together.
    Rate = 2,
    /// Of a channel or link: bytes in a second, both ways together.
    Bytes = 3,
    /// Of a channel: messages between the ends, both ways together.
    Depth = 4,
    /// Of a node: power, in mW, all meters together.
    Power = 5,
}

rt::owned_record! {
    /// A processor of a node, since the sample before.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CoreSample => CoreSampleView<'m>, inline 24 / 4;
    /// How much of the time it did something, in thousandths.
    load_permille @ 0: u16 => u16,
    /// Its governor: a place in the node's list, 255 if it has none that can be seen.
    governor @ 2: u8 => u8,
    /// How fast it runs, in kHz; 0 where nothing tells.
    frequency_khz @ 4: u32 => u32,
    /// The slowest it can run, in kHz; 0 where nothing tells.
    min_khz @ 8: u32 => u32,
    /// The fastest it can run, in kHz; 0 where nothing tells.
    max_khz @ 12: u32 => u32,
    /// The slowest it may run as it is set now, in kHz; 0 where nothing tells.
    floor_khz @ 16: u32 => u32,
    /// The fastest it may run as it is set now, in kHz; 0 where nothing tells.
    ceiling_khz @ 20: u32 => u32,
}

rt::owned_record! {
    /// What draws power, since the sample before.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PowerSample => PowerSampleView<'m>, inline 16 / 8;
    /// What the hardware calls it.
    name @ 0: rt::String => rt::Text<'m, 64>,
    /// How much, in mW.
    power_mw @ 8: u32 => u32,
}

rt::owned_record! {
    /// A node as its kernel tells.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct NodeSample => NodeSampleView<'m>, inline 56 / 8;
    /// Its processors, in order. None where the kernel is another node's: they are that node's, and so is the memory, so that
    /// sums over nodes count both once.
    cores @ 0: rt::Vec<CoreSample> => rt::List<'m, CoreSampleView<'m>, 1024>,
    /// Governors that its processors can have; none where nothing tells.
    governors @ 8: rt::Vec<rt::String> => rt::List<'m, rt::Text<'m, 32>, 16>,
    /// Memory in use, in bytes: by its monitor and domains where the kernel is another node's, else by everything.
    memory_used_bytes @ 16: u64 => u64,
    /// All its memory, in bytes; 0 where the kernel is another node's.
    memory_bytes @ 24: u64 => u64,
    /// What draws power, where the hardware tells.
    power @ 32: rt::Vec<PowerSample> => rt::List<'m, PowerSampleView<'m>, 32>,
    /// How fast one of its processors is: rounds of a short loop of integer arithmetic in a millisecond, measured once. Compares
    /// nodes; says nothing by itself. 0 where an emulator runs the programs: what that costs is not measured.
    speed @ 40: u32 => u32,
    /// Time from this sample to the next, in ms. It grows with what a sample costs.
    period_ms @ 44: u32 => u32,
    /// What taking samples costs, in millionths of one processor.
    cost_ppm @ 48: u32 => u32,
    /// Processor time of its monitor and domains, in thousandths of one processor, where the kernel is another node's; else 0, and
    /// its processors tell.
    own_load_permille @ 52: u32 => u32,
}

rt::owned_record! {
    /// A domain as its kernel tells, since the sample before.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct DomainSample => DomainSampleView<'m>, inline 32 / 8;
    /// `domain`.
    domain @ 0: rt::DomainId => rt::Domain,
    /// Processor time of all its threads, in thousandths of one processor.
    load_permille @ 8: u32 => u32,
    /// Memory that it has in use, in bytes.
    resident_bytes @ 16: u64 => u64,
    /// Its threads.
    threads @ 24: u32 => u32,
    /// A signal has stopped it.
    stopped @ 28: bool => bool,
}

rt::owned_record! {
    /// An end of a channel, as its domain counts since it was opened. Allegations of that domain.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct EndSample => EndSampleView<'m>, inline 120 / 8;
    /// Whose end.
    domain @ 0: rt::DomainId => rt::Domain,
    /// Of which channel.
    channel @ 8: tombolo_base::ChannelId => ChannelIdView<'m>,
    /// The accepting end.
    accepting @ 16: bool => bool,
    /// What carries it.
    transport @ 17: tombolo_link::TransportKind => TransportKind,
    /// Who is at the other end, as far as this one knows.
    peer @ 24: Option<rt::DomainId> => Option<rt::Domain>,
    /// It is open.
    open @ 40: bool => bool,
    /// Messages sent.
    sent @ 48: u64 => u64,
    /// Their bytes.
    sent_bytes @ 56: u64 => u64,
    /// Messages received.
    received @ 64: u64 => u64,
    /// Their bytes.
    received_bytes @ 72: u64 => u64,
    /// How often it woke the other.
    rings @ 80: u64 => u64,
    /// How often it slept until something came.
    sleeps @ 88: u64 => u64,
    /// How often it found no room to send.
    stalls @ 96: u64 => u64,
    /// Slots of the ring that it sends by; 0 where there are none, or that is not known.
    slots @ 104: u32 => u32,
    /// Of these, how many it knew to be free when it last rang the other, slept or found no room, or a moment ago if it sends
    /// fast: there may have been more.
    credit_slots @ 108: u32 => u32,
    /// The longest message so far, in bytes.
    max_message_bytes @ 112: u64 => u64,
}

rt::owned_record! {
    /// What copies memory on a node, and what that was found to cost there.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenEngine => SeenEngineView<'m>, inline 24 / 8;
    /// Its name.
    name @ 0: rt::String => rt::Text<'m, 64>,
    /// What a copy of nothing takes, in ns.
    latency_ns @ 8: u64 => u64,
    /// Bytes in a second of a long one.
    bytes_per_s @ 16: u64 => u64,
}

rt::owned_record! {
    /// A node.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenNode => SeenNodeView<'m>, inline 168 / 8;
    /// What lists say of it.
    info @ 0: NodeInfo => NodeInfoView<'m>,
    /// How far it is.
    phase @ 80: NodePhase => NodePhase,
    /// Under Linux, or on a board.
    target @ 81: tombolo_base::Target => Target,
    /// As its kernel told last; nothing before the first sample, and for a node that is down.
    sample @ 88: Option<NodeSample> => Option<NodeSampleView<'m>>,
    /// When that was.
    sampled_ns @ 152: u64 => u64,
    /// What copies memory there, as far as a program of the node has measured it.
    engines @ 160: rt::Vec<SeenEngine> => rt::List<'m, SeenEngineView<'m>, 16>,
}

rt::owned_record! {
    /// A domain, live or among the last that ended.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenDomain => SeenDomainView<'m>, inline 152 / 8;
    /// Its id.
    id @ 0: rt::DomainId => rt::Domain,
    /// Its node.
    node @ 8: tombolo_base::NodeId => NodeIdView<'m>,
    /// Its program.
    program @ 16: rt::String => rt::Text<'m, 61440>,
    /// Its arguments, as far as they are kept.
    arguments @ 24: rt::String => rt::Text<'m, 1024>,
    /// Process id in its node's kernel, for people; 0 while it starts.
    pid @ 32: i32 => i32,
    /// Who started it; none for one that attached by itself.
    parent @ 40: Option<rt::DomainId> => Option<rt::Domain>,
    /// When it came.
    since_ns @ 56: u64 => u64,
    /// How it ended, if it has.
    exit @ 64: Option<Exit> => Option<ExitView<'m>>,
    /// When it ended; 0 while it lives.
    ended_ns @ 88: u64 => u64,
    /// It was paused.
    paused @ 96: bool => bool,
    /// It can be ended and started again elsewhere, as its image says.
    restartable @ 97: bool => bool,
    /// The monitor can start the same again.
    repeatable @ 98: bool => bool,
    /// Channels that it has opened or accepted so far.
    channels @ 100: u32 => u32,
    /// Bytes of output so far, and of errors.
    output_bytes @ 104: u64 => u64,
    /// As its kernel told last.
    sample @ 112: Option<DomainSample> => Option<DomainSampleView<'m>>,
}

rt::owned_record! {
    /// What goes one way through a channel or link, over the last period.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Flow => FlowView<'m>, inline 16 / 8;
    /// Messages in a second, in thousandths.
    rate_mhz @ 0: u64 => u64,
    /// Bytes in a second.
    bytes_per_s @ 8: u64 => u64,
}

rt::owned_record! {
    /// A channel, by what its ends tell.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenChannel => SeenChannelView<'m>, inline 304 / 8;
    /// `id`.
    id @ 0: tombolo_base::ChannelId => ChannelIdView<'m>,
    /// The end that connected, as far as it tells.
    connecting @ 8: Option<EndSample> => Option<EndSampleView<'m>>,
    /// The end that accepted, as far as it tells.
    accepting @ 136: Option<EndSample> => Option<EndSampleView<'m>>,
    /// From the connecting end to the accepting one.
    forth @ 264: Flow => FlowView<'m>,
    /// And back.
    back @ 280: Flow => FlowView<'m>,
    /// The nodes of the relays between, from the connecting end on.
    via @ 296: rt::Vec<tombolo_base::NodeId> => rt::List<'m, NodeIdView<'m>, 8>,
}

rt::owned_record! {
    /// A link between two nodes.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenLink => SeenLinkView<'m>, inline 56 / 8;
    /// One node.
    a @ 0: tombolo_base::NodeId => NodeIdView<'m>,
    /// The other, of a higher number.
    b @ 2: tombolo_base::NodeId => NodeIdView<'m>,
    /// What carries channels between them.
    transport @ 4: tombolo_link::TransportKind => TransportKind,
    /// Channels that are open now.
    channels @ 8: u32 => u32,
    /// From `a` to `b`.
    forth @ 16: Flow => FlowView<'m>,
    /// And back.
    back @ 32: Flow => FlowView<'m>,
    /// There and back between the two nodes' monitors, wake-ups and all, at last; 0 where none of them is the host's, or before
    /// it was measured.
    round_trip_ns @ 48: u64 => u64,
}

rt::owned_record! {
    /// A region of memory.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenRegion => SeenRegionView<'m>, inline 48 / 8;
    /// What lists say of it.
    info @ 0: RegionInfo => RegionInfoView<'m>,
}

rt::owned_record! {
    /// Something that happened. The last 1,024 are remembered.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenEvent => SeenEventView<'m>, inline 48 / 8;
    /// Its number, from 1.
    number @ 0: u64 => u64,
    /// When.
    at_ns @ 8: u64 => u64,
    /// What sort of thing.
    happening @ 16: Happening => Happening,
    /// On which node, if on one.
    node @ 18: Option<tombolo_base::NodeId> => Option<NodeIdView<'m>>,
    /// To which domain, if to one.
    domain @ 24: Option<rt::DomainId> => Option<rt::Domain>,
    /// More about it, for people.
    text @ 40: rt::String => rt::Text<'m, 1024>,
}

rt::record_view! {
    PartDomain => PartDomainView<'m>, inline 8 / 8;
    /// `domain`.
    domain @ 0 => rt::Domain,
}

rt::record_view! {
    PartLink => PartLinkView<'m>, inline 4 / 2;
    /// One node.
    a @ 0 => NodeIdView<'m>,
    /// The other.
    b @ 2 => NodeIdView<'m>,
}

rt::record_view! {
    PartEvent => PartEventView<'m>, inline 8 / 8;
    /// Its number.
    number @ 0 => u64,
}

rt::record_view! {
    ObservationGone => ObservationGoneView<'m>, inline 16 / 8;
    /// `part`.
    part @ 0 => PartView<'m>,
}

rt::owned_record! {
    /// A piece of what a domain wrote.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct OutputPiece => OutputPieceView<'m>, inline 16 / 8;
    /// 1 for its output, 2 for its errors.
    stream @ 0: u8 => u8,
    /// `bytes`, up to 61440 bytes.
    bytes @ 8: rt::Vec<u8> => rt::Blob<'m, 61440>,
}

rt::owned_union! {
    /// What a part of a machine is known by.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Part => 'm PartView<'m>;
    /// A node.
    1 => Node(item: tombolo_base::NodeId => NodeIdView<'m>),
    /// A domain.
    2 => Domain {
        record: PartDomainView<'m>, inline 8;
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
    },
    /// A channel.
    3 => Channel(item: tombolo_base::ChannelId => ChannelIdView<'m>),
    /// A region.
    4 => Region(item: crate::RegionId => RegionIdView<'m>),
    /// A link.
    5 => Link {
        record: PartLinkView<'m>, inline 4;
        /// One node.
        a @ 0: tombolo_base::NodeId => NodeIdView<'m>,
        /// The other.
        b @ 2: tombolo_base::NodeId => NodeIdView<'m>,
    },
    /// An event.
    6 => Event {
        record: PartEventView<'m>, inline 8;
        /// Its number.
        number @ 0: u64 => u64,
    },
}

rt::owned_union! {
    /// A part of the machine as it is now, or that it is no more.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Observation => 'm ObservationView<'m>;
    /// A node.
    1 => Node(item: SeenNode => SeenNodeView<'m>),
    /// A domain.
    2 => Domain(item: SeenDomain => SeenDomainView<'m>),
    /// A channel.
    3 => Channel(item: SeenChannel => SeenChannelView<'m>),
    /// A region.
    4 => Region(item: SeenRegion => SeenRegionView<'m>),
    /// A link.
    5 => Link(item: SeenLink => SeenLinkView<'m>),
    /// Something that happened.
    6 => Event(item: SeenEvent => SeenEventView<'m>),
    /// It is no more, or not remembered.
    7 => Gone {
        record: ObservationGoneView<'m>, inline 16;
        /// `part`.
        part @ 0: Part => PartView<'m>,
    },
}
