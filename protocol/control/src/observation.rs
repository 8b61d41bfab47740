//! What a monitor observes of its machine and reports to observers.
//!
//! Written by `tombolo idl compile` from interfaces/control/observation.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::capabilities::*;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::machine::*;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::name_faults::*;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::names::*;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::records::*;

/// The most observations in one answer.
pub const MAX_OBSERVATIONS: u64 = 256;

/// The most samples of domains, and of ends of channels, in one report.
pub const MAX_SAMPLES: u64 = 256;

/// The most governors of a node.
pub const MAX_GOVERNORS: u64 = 16;

/// The most power meters of a node.
pub const MAX_METERS: u64 = 32;

/// The most points of an answer of `history`.
pub const MAX_POINTS: u64 = 512;

/// The most pieces of output in one answer.
pub const MAX_PIECES: u64 = 256;

rt::number! {
    /// The state of a node.
    pub enum NodePhase: u8;
    /// It was started, and its monitor has not reported.
    Starting = 0,
    /// Its monitor answers.
    Up = 1,
    /// It is not running.
    Down = 2,
}

rt::number! {
    /// The type of an event.
    pub open Happening: u8;
    /// A node was started.
    NODE_STARTING = 1,
    /// A node is up.
    NODE_UP = 2,
    /// A node is down; the text has the reason.
    NODE_DOWN = 3,
    /// A domain started.
    DOMAIN_STARTED = 10,
    /// A domain could not be started; the text has the reason.
    DOMAIN_NOT_STARTED = 11,
    /// A domain ended; the text says how.
    DOMAIN_ENDED = 12,
    /// A domain was paused.
    DOMAIN_PAUSED = 13,
    /// A domain was resumed.
    DOMAIN_RESUMED = 14,
    /// A domain was ended in order to start it on another node.
    DOMAIN_MOVED = 15,
    /// A limit was reached; the text says which.
    LIMIT_MET = 20,
    /// The frequencies of a node's processors were changed or restored.
    FREQUENCY_CHANGED = 30,
}

rt::number! {
    /// A measure of a part of the machine whose past values are retained.
    pub enum Measure: u8;
    /// Of a node or domain: processor time, in thousandths of one processor.
    Load = 0,
    /// Of a node or domain: memory in use, in bytes.
    Memory = 1,
    /// Of a channel or link: messages per second in both directions together, in thousandths.
    Rate = 2,
    /// Of a channel or link: bytes per second in both directions together.
    Bytes = 3,
    /// Of a channel: messages in flight in both directions together.
    Depth = 4,
    /// Of a node: power of all its meters together, in mW.
    Power = 5,
}

rt::owned_record! {
    /// A sample of a processor, since the previous sample.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CoreSample => CoreSampleView<'m>, inline 24 / 4;
    /// The share of time in which it was busy, in thousandths.
    load_permille @ 0: u16 => u16,
    /// The index of its governor in the node's list; 255 if unknown.
    governor @ 2: u8 => u8,
    /// The current frequency, in kHz; 0 if unknown.
    frequency_khz @ 4: u32 => u32,
    /// The lowest frequency that it supports, in kHz; 0 if unknown.
    min_khz @ 8: u32 => u32,
    /// The highest frequency that it supports, in kHz; 0 if unknown.
    max_khz @ 12: u32 => u32,
    /// The lowest frequency that is set, in kHz; 0 if unknown.
    floor_khz @ 16: u32 => u32,
    /// The highest frequency that is set, in kHz; 0 if unknown.
    ceiling_khz @ 20: u32 => u32,
}

rt::owned_record! {
    /// A sample of a power meter.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PowerSample => PowerSampleView<'m>, inline 16 / 8;
    /// The meter's name in the hardware.
    name @ 0: rt::String => rt::Text<'m, 64>,
    /// The power, in mW: the mean since the previous sample, or the present value of a sensor.
    power_mw @ 8: u32 => u32,
}

rt::owned_record! {
    /// A sample of a node, as reported by its kernel.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct NodeSample => NodeSampleView<'m>, inline 56 / 8;
    /// Its processors, in order. Empty if its programs run on another node's kernel: processors and memory
    /// are then that node's, so that sums over nodes count both once.
    cores @ 0: rt::Vec<CoreSample> => rt::List<'m, CoreSampleView<'m>, 1024>,
    /// The governors that its processors support; empty if unknown.
    governors @ 8: rt::Vec<rt::String> => rt::List<'m, rt::Text<'m, 32>, 16>,
    /// The memory in use, in bytes: by its monitor and domains if the kernel is another node's, otherwise by
    /// everything.
    memory_used_bytes @ 16: u64 => u64,
    /// All its memory, in bytes; 0 if the kernel is another node's.
    memory_bytes @ 24: u64 => u64,
    /// Its power meters, if the hardware has any.
    power @ 32: rt::Vec<PowerSample> => rt::List<'m, PowerSampleView<'m>, 32>,
    /// The speed of one processor: rounds per millisecond of a short loop of integer arithmetic, measured
    /// once. Useful only to compare nodes. 0 if an emulator runs the programs, whose cost is not measured.
    speed @ 40: u32 => u32,
    /// The time from this sample to the next, in ms. It grows with the cost of a sample.
    period_ms @ 44: u32 => u32,
    /// The cost of sampling, in millionths of one processor.
    cost_ppm @ 48: u32 => u32,
    /// The processor time of its monitor and domains, in thousandths of one processor, if the kernel is
    /// another node's; otherwise 0, as `cores` has the load.
    own_load_permille @ 52: u32 => u32,
}

rt::owned_record! {
    /// A sample of a domain, as reported by its kernel, since the previous sample.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct DomainSample => DomainSampleView<'m>, inline 32 / 8;
    /// `domain`.
    domain @ 0: rt::DomainId => rt::Domain,
    /// The processor time of all its threads, in thousandths of one processor.
    load_permille @ 8: u32 => u32,
    /// The memory in use, in bytes.
    resident_bytes @ 16: u64 => u64,
    /// The number of threads.
    threads @ 24: u32 => u32,
    /// Whether a signal has stopped it.
    stopped @ 28: bool => bool,
}

rt::owned_record! {
    /// A sample of an end of a channel, as counted by its domain since it was opened. Unverified claims of that
    /// domain.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct EndSample => EndSampleView<'m>, inline 120 / 8;
    /// The domain that has the end.
    domain @ 0: rt::DomainId => rt::Domain,
    /// The channel.
    channel @ 8: tombolo_base::ChannelId => ChannelIdView<'m>,
    /// Whether it is the accepting end.
    accepting @ 16: bool => bool,
    /// The transport of the channel.
    transport @ 17: tombolo_link::TransportKind => TransportKind,
    /// The domain at the other end, as far as this one knows.
    peer @ 24: Option<rt::DomainId> => Option<rt::Domain>,
    /// Whether it is open.
    open @ 40: bool => bool,
    /// The number of messages sent.
    sent @ 48: u64 => u64,
    /// The number of bytes sent.
    sent_bytes @ 56: u64 => u64,
    /// The number of messages received.
    received @ 64: u64 => u64,
    /// The number of bytes received.
    received_bytes @ 72: u64 => u64,
    /// The number of times that it woke the peer.
    rings @ 80: u64 => u64,
    /// The number of times that it slept until it was woken.
    sleeps @ 88: u64 => u64,
    /// The number of times that it found no room to send.
    stalls @ 96: u64 => u64,
    /// The number of slots of the ring that it sends on; 0 if there is none, or it is unknown.
    slots @ 104: u32 => u32,
    /// The number of these slots that it knew to be free when it last rang, slept or found no room, or a
    /// short time ago if it sends fast. More may have been free.
    credit_slots @ 108: u32 => u32,
    /// The length of the longest message so far, in bytes.
    max_message_bytes @ 112: u64 => u64,
}

rt::owned_record! {
    /// A copy engine of a node, with its measured cost.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenEngine => SeenEngineView<'m>, inline 24 / 8;
    /// The name of the engine.
    name @ 0: rt::String => rt::Text<'m, 64>,
    /// The time of an empty copy, in ns.
    latency_ns @ 8: u64 => u64,
    /// The rate of a long copy, in bytes per second.
    bytes_per_s @ 16: u64 => u64,
}

rt::owned_record! {
    /// The state of a node.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenNode => SeenNodeView<'m>, inline 168 / 8;
    /// The node, as listed.
    info @ 0: NodeInfo => NodeInfoView<'m>,
    /// Its phase.
    phase @ 80: NodePhase => NodePhase,
    /// What a build of a program for it must run on.
    target @ 81: tombolo_base::Target => Target,
    /// The last sample; absent before the first one, and while the node is down.
    sample @ 88: Option<NodeSample> => Option<NodeSampleView<'m>>,
    /// The time of that sample.
    sampled_ns @ 152: u64 => u64,
    /// Its copy engines, as far as a program of the node has measured them.
    engines @ 160: rt::Vec<SeenEngine> => rt::List<'m, SeenEngineView<'m>, 16>,
}

rt::owned_record! {
    /// The state of a domain, either live or one of the last that ended.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenDomain => SeenDomainView<'m>, inline 152 / 8;
    /// The id.
    id @ 0: rt::DomainId => rt::Domain,
    /// Its node.
    node @ 8: tombolo_base::NodeId => NodeIdView<'m>,
    /// The name of its program.
    program @ 16: rt::String => rt::Text<'m, 61440>,
    /// Its arguments in one line, truncated if long.
    arguments @ 24: rt::String => rt::Text<'m, 1024>,
    /// Its process id in its node's kernel, for display; 0 while it starts.
    pid @ 32: i32 => i32,
    /// The domain that started it; absent for a domain that attached by itself, and for a relay.
    parent @ 40: Option<rt::DomainId> => Option<rt::Domain>,
    /// The time when its start was requested, or when it attached.
    since_ns @ 56: u64 => u64,
    /// How it ended; absent while it lives.
    exit @ 64: Option<Exit> => Option<ExitView<'m>>,
    /// The time when it ended; 0 while it lives.
    ended_ns @ 88: u64 => u64,
    /// Whether it is paused.
    paused @ 96: bool => bool,
    /// Whether it can be moved: its image is marked as restartable, and the monitor can start it again.
    restartable @ 97: bool => bool,
    /// Whether the monitor can start its program again with the same parameters.
    repeatable @ 98: bool => bool,
    /// The number of channels that it has opened or accepted so far.
    channels @ 100: u32 => u32,
    /// The number of bytes written to its standard output and error so far.
    output_bytes @ 104: u64 => u64,
    /// The last sample.
    sample @ 112: Option<DomainSample> => Option<DomainSampleView<'m>>,
}

rt::owned_record! {
    /// The traffic in one direction of a channel or link, over the last sampling period.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Flow => FlowView<'m>, inline 16 / 8;
    /// Messages per second, in thousandths.
    rate_mhz @ 0: u64 => u64,
    /// Bytes per second.
    bytes_per_s @ 8: u64 => u64,
}

rt::owned_record! {
    /// The state of a channel, as reported by its ends.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenChannel => SeenChannelView<'m>, inline 304 / 8;
    /// `id`.
    id @ 0: tombolo_base::ChannelId => ChannelIdView<'m>,
    /// The end that connected, if reported.
    connecting @ 8: Option<EndSample> => Option<EndSampleView<'m>>,
    /// The end that accepted, if reported.
    accepting @ 136: Option<EndSample> => Option<EndSampleView<'m>>,
    /// The traffic from the connecting to the accepting end.
    forth @ 264: Flow => FlowView<'m>,
    /// The traffic in the other direction.
    back @ 280: Flow => FlowView<'m>,
    /// The nodes of the relays between the ends, in order from the connecting one.
    via @ 296: rt::Vec<tombolo_base::NodeId> => rt::List<'m, NodeIdView<'m>, 8>,
}

rt::owned_record! {
    /// The state of a link between two nodes.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenLink => SeenLinkView<'m>, inline 56 / 8;
    /// The node with the lower number.
    a @ 0: tombolo_base::NodeId => NodeIdView<'m>,
    /// The node with the higher number.
    b @ 2: tombolo_base::NodeId => NodeIdView<'m>,
    /// The transport of channels between them.
    transport @ 4: tombolo_link::TransportKind => TransportKind,
    /// The number of open channels.
    channels @ 8: u32 => u32,
    /// The traffic from `a` to `b`.
    forth @ 16: Flow => FlowView<'m>,
    /// The traffic from `b` to `a`.
    back @ 32: Flow => FlowView<'m>,
    /// The last measured round trip between the monitors of the two nodes, including wake-ups, in ns. 0
    /// before a measurement, and for links without the host, which are not measured.
    round_trip_ns @ 48: u64 => u64,
}

rt::owned_record! {
    /// The state of a region of memory.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenRegion => SeenRegionView<'m>, inline 48 / 8;
    /// The region, as listed.
    info @ 0: RegionInfo => RegionInfoView<'m>,
}

rt::owned_record! {
    /// An event. The monitor remembers the last 1,024.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SeenEvent => SeenEventView<'m>, inline 48 / 8;
    /// Its number, from 1.
    number @ 0: u64 => u64,
    /// The time of the event.
    at_ns @ 8: u64 => u64,
    /// Its type.
    happening @ 16: Happening => Happening,
    /// The node concerned, if any.
    node @ 18: Option<tombolo_base::NodeId> => Option<NodeIdView<'m>>,
    /// The domain concerned, if any.
    domain @ 24: Option<rt::DomainId> => Option<rt::Domain>,
    /// Details, for display.
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
    /// The other node.
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
    /// A piece of a domain's output.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct OutputPiece => OutputPieceView<'m>, inline 16 / 8;
    /// 1 for its standard output, 2 for its standard error.
    stream @ 0: u8 => u8,
    /// `bytes`, up to 61440 bytes.
    bytes @ 8: rt::Vec<u8> => rt::Blob<'m, 61440>,
}

rt::owned_union! {
    /// Identifies a part of the machine.
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
        /// The other node.
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
    /// The present state of a part of the machine, or its absence.
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
    /// An event.
    6 => Event(item: SeenEvent => SeenEventView<'m>),
    /// The part no longer exists, or is no longer remembered.
    7 => Gone {
        record: ObservationGoneView<'m>, inline 16;
        /// `part`.
        part @ 0: Part => PartView<'m>,
    },
}
