//! The interface between the root monitor of a machine and the agent on each node. The root decides; agents
//! carry out its orders. An agent numbers the connections of its clients, runs processes, keeps lifelines,
//! and forwards requests of its clients to the root without decoding them.
//!
//! Written by `tombolo idl compile` from interfaces/control/agent.tbl.

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
use super::observation::*;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::records::*;

rt::owned_record! {
    /// A window that the agent's node maps.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AttachmentWindow => AttachmentWindowView<'m>, inline 2 / 2;
    /// The number of the window in the machine.
    window @ 0: u16 => u16,
}

rt::record_view! {
    AttachmentInterrupt => AttachmentInterruptView<'m>, inline 4 / 2;
    /// `vector`.
    vector @ 0 => u16,
    /// The number of the window.
    window @ 2 => u16,
}

rt::record_view! {
    AttachmentSharedBell => AttachmentSharedBellView<'m>, inline 32 / 8;
    /// The offset of the channel in the window.
    offset_bytes @ 0 => u64,
    /// The number of the window.
    window @ 8 => u16,
    /// Whether the domain has the accepting end.
    accepting @ 10 => bool,
    /// The offset of the word in the window that counts the rings of a group of channels, which the peer
    /// increments. Absent if the channel is in no group.
    group @ 16 => Option<u64>,
}

rt::record_view! {
    AttachmentRinger => AttachmentRingerView<'m>, inline 4 / 2;
    /// `vector`.
    vector @ 0 => u16,
    /// The number of the window.
    window @ 2 => u16,
}

rt::record_view! {
    AttachmentPairEnd => AttachmentPairEndView<'m>, inline 2 / 1;
    /// Whether it is the end of the accepting side.
    accepting @ 0 => bool,
    /// Whether the sockets carry a byte stream rather than packets.
    stream @ 1 => bool,
}

rt::record_view! {
    AttachmentTracePage => AttachmentTracePageView<'m>, inline 8 / 8;
    /// `domain`.
    domain @ 0 => rt::Domain,
}

rt::record_view! {
    AttachmentRegion => AttachmentRegionView<'m>, inline 16 / 8;
    /// `region`.
    region @ 0 => RegionIdView<'m>,
    /// Whether the descriptor allows writing.
    writable @ 8 => bool,
}

rt::owned_record! {
    /// A domain to start.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct StartOrder => StartOrderView<'m>, inline 112 / 8;
    /// The id of the new domain.
    domain @ 0: rt::DomainId => rt::Domain,
    /// The SHA-256 of its build, which the agent has.
    build @ 8: [u8; 32] => rt::Array<'m, u8, 32>,
    /// The parameters of the program.
    program @ 40: ProgramSpec => ProgramSpecView<'m>,
}

rt::owned_union! {
    /// A descriptor that is sent to a domain with a message.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Attachment => 'm AttachmentView<'m>;
    /// A descriptor that the agent received with the message.
    1 => Passed,
    /// The domain's end of a new lifeline of the channel or mapping; the agent keeps the other end.
    2 => Lifeline,
    /// The memory of a window.
    3 => WindowMemory(item: AttachmentWindow => AttachmentWindowView<'m>),
    /// The event counter of an interrupt vector of a window.
    4 => Interrupt {
        record: AttachmentInterruptView<'m>, inline 4;
        /// `vector`.
        vector @ 0: u16 => u16,
        /// The number of the window.
        window @ 2: u16 => u16,
    },
    /// The registers of a window's device.
    5 => Registers(item: AttachmentWindow => AttachmentWindowView<'m>),
    /// One end of a socket pair between two domains of this agent, which creates the pair at the first
    /// mention.
    6 => PairEnd {
        record: AttachmentPairEndView<'m>, inline 2;
        /// Whether it is the end of the accepting side.
        accepting @ 0: bool => bool,
        /// Whether the sockets carry a byte stream rather than packets.
        stream @ 1: bool => bool,
    },
    /// The trace page of a domain. The agent creates it and keeps it for readers.
    7 => TracePage {
        record: AttachmentTracePageView<'m>, inline 8;
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
    },
    /// The memory of a region that the agent keeps.
    8 => Region {
        record: AttachmentRegionView<'m>, inline 16;
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// Whether the descriptor allows writing.
        writable @ 8: bool => bool,
    },
    /// The memory of a window, read-only.
    9 => WindowToRead(item: AttachmentWindow => AttachmentWindowView<'m>),
    /// An event counter through which the agent rings an interrupt vector of the other side of a window.
    10 => Ringer {
        record: AttachmentRingerView<'m>, inline 4;
        /// `vector`.
        vector @ 0: u16 => u16,
        /// The number of the window.
        window @ 2: u16 => u16,
    },
    /// An event counter for an end of a channel without an interrupt vector of its own.
    11 => SharedBell {
        record: AttachmentSharedBellView<'m>, inline 32;
        /// The offset of the channel in the window.
        offset_bytes @ 0: u64 => u64,
        /// The number of the window.
        window @ 8: u16 => u16,
        /// Whether the domain has the accepting end.
        accepting @ 10: bool => bool,
        /// The offset of the word in the window that counts the rings of a group of channels, which the peer
        /// increments. Absent if the channel is in no group.
        group @ 16: Option<u64> => Option<u64>,
    },
    /// The domain's end of the stream with the channel's number, which the link between this node and the
    /// host carries.
    12 => LinkStream,
}

/// Fingerprint of `tombolo.control.Agent`: a hash of all declarations that affect its peers.
pub const AGENT_FINGERPRINT: u64 = 0xe34089757b2525d5;

rt::owned_messages! {
    /// Messages from client to server in the interface `Agent`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum AgentRequest, 'm;
    /// Tells the agent which node it manages. The root's first message. Its encoding is the same in every
    /// release.
    Message 1 => Welcome, 24 {
        /// The agent's node.
        node @ 0: tombolo_base::NodeId => NodeIdView<'m>,
        /// The name of the node.
        name @ 8: rt::String => rt::Text<'m, 61440>,
        /// The name of the machine.
        machine @ 16: rt::String => rt::Text<'m, 1024>,
    };
    /// Delivers a program, which the agent keeps for later starts. It comes as a descriptor, in the window,
    /// or over a stream.
    Message 2 => Program, 72 {
        /// Its SHA-256.
        hash @ 0: [u8; 32] => rt::Array<'m, u8, 32>,
        /// Its length.
        length_bytes @ 32: u64 => u64,
        /// Its offset in the window, if it comes that way.
        window_offset_bytes @ 40: Option<u64> => Option<u64>,
        /// The stream of the link with the host that carries it, if it comes that way.
        stream @ 56: Option<tombolo_base::ChannelId> => Option<ChannelIdView<'m>>,
    };
    /// Starts a domain.
    Message 3 => Start, 112 {
        /// `order`.
        order @ 0: StartOrder => StartOrderView<'m>,
    };
    /// Sends a signal to the processes of a domain that the agent started.
    Message 4 => Signal, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// The number of the signal.
        signal @ 8: u8 => u8,
    };
    /// Forwards a message, with descriptors, to a client.
    Message 5 => Deliver, 32 {
        /// `connection`.
        connection @ 0: u32 => u32,
        /// The channel or mapping that the attachments belong to; 0 for none.
        channel @ 8: tombolo_base::ChannelId => ChannelIdView<'m>,
        /// The descriptors, in order.
        attachments @ 16: rt::Vec<Attachment> => rt::List<'m, AttachmentView<'m>, 16>,
        /// An encoded message of a `Monitor` to its client.
        message @ 24: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// Hangs up the lifeline of a channel whose other end is gone, or of a mapping that is revoked.
    Message 6 => HangUp, 8 {
        /// `channel`.
        channel @ 0: tombolo_base::ChannelId => ChannelIdView<'m>,
    };
    /// Writes to an input stream of a domain; empty bytes close it.
    Message 7 => Input, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 0 for its standard input, 3 for its side stream.
        stream @ 8: u8 => u8,
        /// `bytes`, up to 61440 bytes.
        bytes @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// Acknowledges output of a domain.
    Message 8 => OutputTaken, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 1, 2 or 3, as in `output`.
        stream @ 8: u8 => u8,
        /// The number of bytes acknowledged.
        bytes @ 12: u32 => u32,
    };
    /// Kills all domains and ends the agent.
    Message 9 => Stop;
    /// Closes the connection of a client.
    Message 10 => Dismiss, 8 {
        /// `connection`.
        connection @ 0: u32 => u32,
    };
    /// Frees a program that will not be started again soon.
    Message 11 => Forget, 32 {
        /// Its SHA-256.
        hash @ 0: [u8; 32] => rt::Array<'m, u8, 32>,
    };
    /// Tells the agent that a client is a domain from now on.
    Message 30 => Admitted, 16 {
        /// The client.
        connection @ 0: u32 => u32,
        /// The id of the domain.
        domain @ 8: rt::DomainId => rt::Domain,
    };
    /// Forwards a request about the names of this node from a client of another node.
    Message 31 => NamesAsked, 40 {
        /// The client's node.
        node @ 0: tombolo_base::NodeId => NodeIdView<'m>,
        /// The client's number on that node.
        connection @ 4: u32 => u32,
        /// The client's domain.
        domain @ 8: rt::DomainId => rt::Domain,
        /// The number of the request.
        request @ 16: u32 => u32,
        /// The operation requested.
        operation @ 24: Operation => OperationView<'m>,
    };
    /// Tells the agent that such a client has left.
    Message 32 => NamesLeft, 8 {
        /// The client's node.
        node @ 0: tombolo_base::NodeId => NodeIdView<'m>,
        /// The client's number on that node.
        connection @ 4: u32 => u32,
    };
    /// Orders the agent to serve the names of its node.
    Message 33 => ServeNames, 16 {
        /// The agent's node.
        node @ 0: tombolo_base::NodeId => NodeIdView<'m>,
        /// The generation of the node.
        generation @ 2: u16 => u16,
        /// The most records that one domain may own.
        records_per_domain @ 4: u32 => u32,
        /// The most requests of one domain that may wait.
        waits_per_domain @ 8: u32 => u32,
    };
    /// Stores a control word in all present and future trace pages.
    Message 40 => Trace, 8 {
        /// The control word; 0 stops tracing.
        word @ 0: u64 => u64,
    };
    /// Reads a part of a domain's trace page. The result comes as `trace_bytes`.
    Message 41 => TraceRead, 32 {
        /// The number of the order, for its result.
        ticket @ 0: u64 => u64,
        /// `domain`.
        domain @ 8: rt::DomainId => rt::Domain,
        /// The offset of the part in the page.
        offset_bytes @ 16: u64 => u64,
        /// The length of the part.
        length_bytes @ 24: u32 => u32,
    };
    /// Frees the trace page of a domain.
    Message 42 => TraceForget, 8 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
    };
    /// Creates memory for a region, which the agent keeps.
    Message 50 => RegionMake, 40 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// The length of the region.
        length_bytes @ 8: u64 => u64,
        /// Whether its memory is the file whose descriptor accompanies the message.
        file @ 16: bool => bool,
        /// The kind of memory to allocate.
        options @ 24: MemoryOptions => MemoryOptionsView<'m>,
    };
    /// Seals the memory of a region.
    Message 51 => RegionSeal, 16 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// `seal`.
        seal @ 8: Seal => Seal,
    };
    /// Frees the memory of a region.
    Message 52 => RegionForget, 8 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
    };
    /// Requests a `probed` at once, to measure the round trip.
    Message 60 => Probe, 8 {
        /// The number of the order, for its result.
        ticket @ 0: u64 => u64,
    };
    /// Sets the frequencies of processors, and remembers the previous settings.
    Message 61 => SetFrequency, 48 {
        /// The number of the order, for its result.
        ticket @ 0: u64 => u64,
        /// The processors; all if empty.
        cores @ 8: rt::Vec<u16> => rt::List<'m, u16, 1024>,
        /// The governor to set; unchanged if absent.
        governor @ 16: Option<rt::String> => Option<rt::Text<'m, 32>>,
        /// The lowest frequency, in kHz; unchanged if absent.
        min_khz @ 32: Option<u32> => Option<u32>,
        /// The highest frequency, in kHz; unchanged if absent.
        max_khz @ 40: Option<u32> => Option<u32>,
    };
    /// Restores the settings that all processors had before any were set.
    Message 62 => RestoreFrequency;
    /// Starts or stops sampling. While it is on, the agent reports changes by `sampled`.
    Message 63 => Sample, 8 {
        /// The time between two samples, in ms; it is longer if samples cost too much. 0 to stop.
        period_ms @ 0: u32 => u32,
    };
}

impl AgentRequest {
    /// The ordinal of `welcome`.
    pub const WELCOME: u16 = 1;
    /// The ordinal of `program`.
    pub const PROGRAM: u16 = 2;
    /// The ordinal of `start`.
    pub const START: u16 = 3;
    /// The ordinal of `signal`.
    pub const SIGNAL: u16 = 4;
    /// The ordinal of `deliver`.
    pub const DELIVER: u16 = 5;
    /// The ordinal of `hang_up`.
    pub const HANG_UP: u16 = 6;
    /// The ordinal of `input`.
    pub const INPUT: u16 = 7;
    /// The ordinal of `output_taken`.
    pub const OUTPUT_TAKEN: u16 = 8;
    /// The ordinal of `stop`.
    pub const STOP: u16 = 9;
    /// The ordinal of `dismiss`.
    pub const DISMISS: u16 = 10;
    /// The ordinal of `forget`.
    pub const FORGET: u16 = 11;
    /// The ordinal of `admitted`.
    pub const ADMITTED: u16 = 30;
    /// The ordinal of `names_asked`.
    pub const NAMES_ASKED: u16 = 31;
    /// The ordinal of `names_left`.
    pub const NAMES_LEFT: u16 = 32;
    /// The ordinal of `serve_names`.
    pub const SERVE_NAMES: u16 = 33;
    /// The ordinal of `trace`.
    pub const TRACE: u16 = 40;
    /// The ordinal of `trace_read`.
    pub const TRACE_READ: u16 = 41;
    /// The ordinal of `trace_forget`.
    pub const TRACE_FORGET: u16 = 42;
    /// The ordinal of `region_make`.
    pub const REGION_MAKE: u16 = 50;
    /// The ordinal of `region_seal`.
    pub const REGION_SEAL: u16 = 51;
    /// The ordinal of `region_forget`.
    pub const REGION_FORGET: u16 = 52;
    /// The ordinal of `probe`.
    pub const PROBE: u16 = 60;
    /// The ordinal of `set_frequency`.
    pub const SET_FREQUENCY: u16 = 61;
    /// The ordinal of `restore_frequency`.
    pub const RESTORE_FREQUENCY: u16 = 62;
    /// The ordinal of `sample`.
    pub const SAMPLE: u16 = 63;
}

rt::owned_messages! {
    /// Messages from server to client in the interface `Agent`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum AgentReply, 'm;
    /// The agent is running. Its first message. Its encoding is the same in every release.
    Message 101 => Ready, 16 {
        /// The fingerprint of the protocol that the agent was built with.
        version @ 0: u32 => u32,
        /// The instruction set that it was compiled for.
        isa @ 4: tombolo_base::Isa => Isa,
        /// The number of its processors.
        cores @ 6: u16 => u16,
        /// Its process id.
        pid @ 8: i32 => i32,
    };
    /// A client has connected.
    Message 102 => Joined, 24 {
        /// The number of the connection; the agent never reuses it.
        connection @ 0: u32 => u32,
        /// The process id of the client.
        pid @ 4: i32 => i32,
        /// The domain that the agent started as that process, if it did.
        domain @ 8: Option<rt::DomainId> => Option<rt::Domain>,
    };
    /// A client has sent a request. A descriptor may accompany it.
    Message 103 => Asked, 16 {
        /// `connection`.
        connection @ 0: u32 => u32,
        /// An encoded message to a `Monitor`.
        message @ 8: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A client has closed its connection.
    Message 104 => Left, 8 {
        /// `connection`.
        connection @ 0: u32 => u32,
    };
    /// A domain has started.
    Message 105 => Started, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// Its process id.
        pid @ 8: i32 => i32,
    };
    /// A domain could not be started.
    Message 106 => NotStarted, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// The reason.
        why @ 8: rt::String => rt::Text<'m, 61440>,
    };
    /// A domain has ended. All its output has been sent before.
    Message 107 => Ended, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// `exit`.
        exit @ 8: Exit => ExitView<'m>,
    };
    /// A domain has written output.
    Message 108 => Output, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 1 for its standard output, 2 for its standard error, 3 for its side stream.
        stream @ 8: u8 => u8,
        /// The output; empty at the end of the stream.
        bytes @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A program was copied out of the window, or copying failed: its range can be reused.
    Message 109 => ProgramTaken, 32 {
        /// Its SHA-256.
        hash @ 0: [u8; 32] => rt::Array<'m, u8, 32>,
    };
    /// A domain has closed its end of the lifeline of a channel or mapping.
    Message 110 => Released, 8 {
        /// `channel`.
        channel @ 0: tombolo_base::ChannelId => ChannelIdView<'m>,
    };
    /// The input written to a stream of a domain has been accepted.
    Message 111 => InputTaken, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 0 or 3, as in `input`.
        stream @ 8: u8 => u8,
    };
    /// The names of this node have an answer or event for a client of another node.
    Message 130 => NamesSay, 24 {
        /// The client's domain, as in `names_asked`. Its generation distinguishes the client from one with
        /// the same number after a restart of its node.
        domain @ 0: rt::DomainId => rt::Domain,
        /// The client's number on its node.
        connection @ 8: u32 => u32,
        /// An encoded message of a `Monitor` to its client.
        message @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A client exports a name of this node.
    Message 131 => Exported, 24 {
        /// The client.
        connection @ 0: u32 => u32,
        /// The name.
        name @ 8: rt::String => rt::Text<'m, 61440>,
        /// The agent's number for the listener, from 2^31 on.
        listener @ 16: u32 => u32,
    };
    /// A name of this node is no longer exported.
    Message 132 => Withdrawn, 8 {
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    };
    /// The result of `trace_read`.
    Message 140 => TraceBytes, 24 {
        /// The number of the order.
        ticket @ 0: u64 => u64,
        /// The content; shorter than requested at the end of the page. Absent if there is no such page.
        bytes @ 8: Option<rt::Vec<u8>> => Option<rt::Blob<'m, 61440>>,
    };
    /// The result of `region_make`.
    Message 150 => RegionMade, 32 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// The reason of a failure.
        failed @ 8: Option<rt::String> => Option<rt::Text<'m, 61440>>,
        /// Whether it cannot be written to, because the file was opened for reading only.
        read_only @ 24: bool => bool,
    };
    /// The result of `region_seal`.
    Message 151 => RegionSealed, 24 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// The reason of a failure.
        failed @ 8: Option<rt::String> => Option<rt::Text<'m, 61440>>,
    };
    /// The answer to `probe`.
    Message 160 => Probed, 8 {
        /// The number of the order.
        ticket @ 0: u64 => u64,
    };
    /// The result of `set_frequency`.
    Message 161 => FrequencySet, 24 {
        /// The number of the order.
        ticket @ 0: u64 => u64,
        /// The reason of a failure.
        failed @ 8: Option<rt::String> => Option<rt::Text<'m, 61440>>,
    };
    /// Samples that differ from those reported before. One round may take several reports.
    Message 162 => Sampled, 80 {
        /// The sample of the node; only in the last report of a round.
        node @ 0: Option<NodeSample> => Option<NodeSampleView<'m>>,
        /// The samples of domains.
        domains @ 64: rt::Vec<DomainSample> => rt::List<'m, DomainSampleView<'m>, 256>,
        /// The samples of ends of channels.
        ends @ 72: rt::Vec<EndSample> => rt::List<'m, EndSampleView<'m>, 256>,
    };
}
