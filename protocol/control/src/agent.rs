//! Between the root monitor of a machine and the agent on each node. The root decides; agents do. An agent numbers its
//! clients' connections, runs processes, keeps lifelines, and passes its clients' requests up unread.
//!
//! Written by `tombolo idl compile` from interfaces/control/agent.tbl.

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
use super::observation::*;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::records::*;

rt::owned_record! {
    /// A window that the agent's node maps.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AttachmentWindow => AttachmentWindowView<'m>, inline 2 / 2;
    /// Its number in the machine.
    window @ 0: u16 => u16,
}

rt::record_view! {
    AttachmentInterrupt => AttachmentInterruptView<'m>, inline 4 / 2;
    /// `vector`.
    vector @ 0 => u16,
    /// Of this window.
    window @ 2 => u16,
}

rt::record_view! {
    AttachmentSharedBell => AttachmentSharedBellView<'m>, inline 32 / 8;
    /// The first byte of the channel in the window.
    offset_bytes @ 0 => u64,
    /// The window.
    window @ 8 => u16,
    /// The domain is the accepting side, and its peer the connecting one.
    accepting @ 10 => bool,
    /// The word of the window in which the peer counts its rings with others of its node, where it does.
    group @ 16 => Option<u64>,
}

rt::record_view! {
    AttachmentRinger => AttachmentRingerView<'m>, inline 4 / 2;
    /// `vector`.
    vector @ 0 => u16,
    /// Of this window.
    window @ 2 => u16,
}

rt::record_view! {
    AttachmentPairEnd => AttachmentPairEndView<'m>, inline 2 / 1;
    /// False for the connecting side.
    accepting @ 0 => bool,
    /// Bytes rather than messages.
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
    /// Also for writing.
    writable @ 8 => bool,
}

rt::owned_record! {
    /// A domain to start.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct StartOrder => StartOrderView<'m>, inline 112 / 8;
    /// The id of the new domain.
    domain @ 0: rt::DomainId => rt::Domain,
    /// SHA-256 of its build, which the agent has.
    build @ 8: [u8; 32] => rt::Array<'m, u8, 32>,
    /// How to start it.
    program @ 40: ProgramSpec => ProgramSpecView<'m>,
}

rt::owned_union! {
    /// A descriptor that goes to a domain with a message.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Attachment => 'm AttachmentView<'m>;
    /// It came along with the message to the agent.
    1 => Passed,
    /// The domain's end of a fresh lifeline of this channel; the agent keeps the other.
    2 => Lifeline,
    /// The memory of a window.
    3 => WindowMemory(item: AttachmentWindow => AttachmentWindowView<'m>),
    /// The event counter of this interrupt vector.
    4 => Interrupt {
        record: AttachmentInterruptView<'m>, inline 4;
        /// `vector`.
        vector @ 0: u16 => u16,
        /// Of this window.
        window @ 2: u16 => u16,
    },
    /// The registers of a window's device.
    5 => Registers(item: AttachmentWindow => AttachmentWindowView<'m>),
    /// One end of a socket pair between two domains of this agent, made at the first mention.
    6 => PairEnd {
        record: AttachmentPairEndView<'m>, inline 2;
        /// False for the connecting side.
        accepting @ 0: bool => bool,
        /// Bytes rather than messages.
        stream @ 1: bool => bool,
    },
    /// The memory that a domain traces to. The agent makes it, and keeps it for others to read.
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
        /// Also for writing.
        writable @ 8: bool => bool,
    },
    /// The memory of a window, for reading alone.
    9 => WindowToRead(item: AttachmentWindow => AttachmentWindowView<'m>),
    /// The event counter by which this vector of the other side is rung: the agent passes it on.
    10 => Ringer {
        record: AttachmentRingerView<'m>, inline 4;
        /// `vector`.
        vector @ 0: u16 => u16,
        /// Of this window.
        window @ 2: u16 => u16,
    },
    /// An event counter for the end of a channel that has no interrupt vector of its own.
    11 => SharedBell {
        record: AttachmentSharedBellView<'m>, inline 32;
        /// The first byte of the channel in the window.
        offset_bytes @ 0: u64 => u64,
        /// The window.
        window @ 8: u16 => u16,
        /// The domain is the accepting side, and its peer the connecting one.
        accepting @ 10: bool => bool,
        /// The word of the window in which the peer counts its rings with others of its node, where it does.
        group @ 16: Option<u64> => Option<u64>,
    },
    /// The domain's end of a stream of the channel's number, which the link between this node and the host carries.
    12 => LinkStream,
}

/// Of everything that peers of `tombolo.control.Agent` can notice.
pub const AGENT_FINGERPRINT: u64 = 0xe34089757b2525d5;

rt::owned_messages! {
    /// What a client sends of the interface `Agent`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum AgentRequest, 'm;
    /// Who the agent is. First message.
    /// It is the same in every release.
    Message 1 => Welcome, 24 {
        /// Its node.
        node @ 0: tombolo_base::NodeId => NodeIdView<'m>,
        /// The node's name.
        name @ 8: rt::String => rt::Text<'m, 61440>,
        /// The machine's name.
        machine @ 16: rt::String => rt::Text<'m, 1024>,
    };
    /// A program, to be kept for later starts. With a descriptor, in the window, or in a stream.
    Message 2 => Program, 72 {
        /// Its SHA-256.
        hash @ 0: [u8; 32] => rt::Array<'m, u8, 32>,
        /// Its length.
        length_bytes @ 32: u64 => u64,
        /// Where in the window, if it comes that way.
        window_offset_bytes @ 40: Option<u64> => Option<u64>,
        /// The stream of the link with the host that has it, if it comes that way.
        stream @ 56: Option<tombolo_base::ChannelId> => Option<ChannelIdView<'m>>,
    };
    /// Run something.
    Message 3 => Start, 112 {
        /// `order`.
        order @ 0: StartOrder => StartOrderView<'m>,
    };
    /// Send a signal to a domain that the agent started.
    Message 4 => Signal, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// Its number.
        signal @ 8: u8 => u8,
    };
    /// Pass a message, with descriptors, to a client.
    Message 5 => Deliver, 32 {
        /// `connection`.
        connection @ 0: u32 => u32,
        /// The channel that the attachments belong to; 0 for none.
        channel @ 8: tombolo_base::ChannelId => ChannelIdView<'m>,
        /// In order.
        attachments @ 16: rt::Vec<Attachment> => rt::List<'m, AttachmentView<'m>, 16>,
        /// An encoded message of a `Monitor` to its client.
        message @ 24: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// The other end of a channel is gone: let its lifeline show it.
    Message 6 => HangUp, 8 {
        /// `channel`.
        channel @ 0: tombolo_base::ChannelId => ChannelIdView<'m>,
    };
    /// Feed a stream of a domain; empty bytes end it.
    Message 7 => Input, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 0 for its standard input, 3 for its side stream.
        stream @ 8: u8 => u8,
        /// `bytes`, up to 61440 bytes.
        bytes @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A domain's output was taken.
    Message 8 => OutputTaken, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 1, 2 or 3, as in `output`.
        stream @ 8: u8 => u8,
        /// How much.
        bytes @ 12: u32 => u32,
    };
    /// Kill everything and end.
    Message 9 => Stop;
    /// Close a client's connection.
    Message 10 => Dismiss, 8 {
        /// `connection`.
        connection @ 0: u32 => u32,
    };
    /// A program will not be started again soon: let it go.
    Message 11 => Forget, 32 {
        /// Its SHA-256.
        hash @ 0: [u8; 32] => rt::Array<'m, u8, 32>,
    };
    /// A client is this domain from now on.
    Message 30 => Admitted, 16 {
        /// Which client.
        connection @ 0: u32 => u32,
        /// Who it is.
        domain @ 8: rt::DomainId => rt::Domain,
    };
    /// A client of another node asks for something about the names of this one.
    Message 31 => NamesAsked, 40 {
        /// Its node.
        node @ 0: tombolo_base::NodeId => NodeIdView<'m>,
        /// Its number there.
        connection @ 4: u32 => u32,
        /// Who it is.
        domain @ 8: rt::DomainId => rt::Domain,
        /// The number of its request.
        request @ 16: u32 => u32,
        /// What it asks for.
        operation @ 24: Operation => OperationView<'m>,
    };
    /// That client is gone.
    Message 32 => NamesLeft, 8 {
        /// Its node.
        node @ 0: tombolo_base::NodeId => NodeIdView<'m>,
        /// Its number there.
        connection @ 4: u32 => u32,
    };
    /// Serve the names of your node.
    Message 33 => ServeNames, 16 {
        /// Which that is.
        node @ 0: tombolo_base::NodeId => NodeIdView<'m>,
        /// How often it was started.
        generation @ 2: u16 => u16,
        /// Records that may go with one domain.
        records_per_domain @ 4: u32 => u32,
        /// Requests of one domain that may wait.
        waits_per_domain @ 8: u32 => u32,
    };
    /// Store this in the control word of every trace page, also of those to come.
    Message 40 => Trace, 8 {
        /// 0 to stop.
        word @ 0: u64 => u64,
    };
    /// Read a part of a domain's trace page.
    Message 41 => TraceRead, 32 {
        /// For the answer.
        ticket @ 0: u64 => u64,
        /// `domain`.
        domain @ 8: rt::DomainId => rt::Domain,
        /// First byte.
        offset_bytes @ 16: u64 => u64,
        /// How much.
        length_bytes @ 24: u32 => u32,
    };
    /// Nobody will read a domain's trace page any more.
    Message 42 => TraceForget, 8 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
    };
    /// Make memory for a region and keep it.
    Message 50 => RegionMake, 40 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// How long.
        length_bytes @ 8: u64 => u64,
        /// It is in the file whose descriptor comes along.
        file @ 16: bool => bool,
        /// What it is made of.
        options @ 24: MemoryOptions => MemoryOptionsView<'m>,
    };
    /// Seal the memory of a region.
    Message 51 => RegionSeal, 16 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// `seal`.
        seal @ 8: Seal => Seal,
    };
    /// Let the memory of a region go.
    Message 52 => RegionForget, 8 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
    };
    /// Answer with `probed`, at once.
    Message 60 => Probe, 8 {
        /// For the answer.
        ticket @ 0: u64 => u64,
    };
    /// Set how fast processors run, and remember what was.
    Message 61 => SetFrequency, 48 {
        /// For the answer.
        ticket @ 0: u64 => u64,
        /// Which; all if none.
        cores @ 8: rt::Vec<u16> => rt::List<'m, u16, 1024>,
        /// The governor to have; as it is if none.
        governor @ 16: Option<rt::String> => Option<rt::Text<'m, 32>>,
        /// The slowest they may run, in kHz; as it is if none.
        min_khz @ 32: Option<u32> => Option<u32>,
        /// The fastest they may run, in kHz; as it is if none.
        max_khz @ 40: Option<u32> => Option<u32>,
    };
    /// Give all processors back what they had before anything was set.
    Message 62 => RestoreFrequency;
    /// Take samples, and report what has changed.
    Message 63 => Sample, 8 {
        /// The time from one to the next, in ms, unless that costs too much; 0 to stop.
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
    /// What a server sends of the interface `Agent`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum AgentReply, 'm;
    /// It runs. First message.
    /// It is the same in every release.
    Message 101 => Ready, 16 {
        /// What it was built with.
        version @ 0: u32 => u32,
        /// What it was compiled for.
        isa @ 4: tombolo_base::Isa => Isa,
        /// Processors it has.
        cores @ 6: u16 => u16,
        /// Its process id.
        pid @ 8: i32 => i32,
    };
    /// A client connected.
    Message 102 => Joined, 24 {
        /// Its number, never given out twice.
        connection @ 0: u32 => u32,
        /// Its process.
        pid @ 4: i32 => i32,
        /// The domain that the agent started as that process.
        domain @ 8: Option<rt::DomainId> => Option<rt::Domain>,
    };
    /// A client asks for something; a descriptor may come with it.
    Message 103 => Asked, 16 {
        /// `connection`.
        connection @ 0: u32 => u32,
        /// An encoded message to a `Monitor`.
        message @ 8: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A client is gone.
    Message 104 => Left, 8 {
        /// `connection`.
        connection @ 0: u32 => u32,
    };
    /// A domain was started.
    Message 105 => Started, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// Its process.
        pid @ 8: i32 => i32,
    };
    /// A domain could not be started.
    Message 106 => NotStarted, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// Why.
        why @ 8: rt::String => rt::Text<'m, 61440>,
    };
    /// A domain ended; all its output was sent before.
    Message 107 => Ended, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// `exit`.
        exit @ 8: Exit => ExitView<'m>,
    };
    /// A domain wrote something.
    Message 108 => Output, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 1 for its output, 2 for its errors, 3 for its side stream.
        stream @ 8: u8 => u8,
        /// What; empty at the end.
        bytes @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A program has been copied out of the window.
    Message 109 => ProgramTaken, 32 {
        /// Its SHA-256.
        hash @ 0: [u8; 32] => rt::Array<'m, u8, 32>,
    };
    /// A domain let go of its end of a channel.
    Message 110 => Released, 8 {
        /// `channel`.
        channel @ 0: tombolo_base::ChannelId => ChannelIdView<'m>,
    };
    /// What was fed to a stream of a domain has been taken.
    Message 111 => InputTaken, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 0 or 3, as in `input`.
        stream @ 8: u8 => u8,
    };
    /// What this node's names say to a client of another node.
    Message 130 => NamesSay, 24 {
        /// The client's domain, as in `names_asked`: its generation tells the client from one of the same number that
        /// came after a restart of the node.
        domain @ 0: rt::DomainId => rt::Domain,
        /// The client's number at its node.
        connection @ 8: u32 => u32,
        /// An encoded message of a `Monitor` to its client.
        message @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A client exports a name of this node.
    Message 131 => Exported, 24 {
        /// Which client.
        connection @ 0: u32 => u32,
        /// The name.
        name @ 8: rt::String => rt::Text<'m, 61440>,
        /// The agent's number for it, from 2^31 on.
        listener @ 16: u32 => u32,
    };
    /// A name of this node is exported no more.
    Message 132 => Withdrawn, 8 {
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    };
    /// A part of a trace page.
    Message 140 => TraceBytes, 24 {
        /// Of the order.
        ticket @ 0: u64 => u64,
        /// As much as there is; nothing when there is no such page.
        bytes @ 8: Option<rt::Vec<u8>> => Option<rt::Blob<'m, 61440>>,
    };
    /// Memory for a region was made, or not.
    Message 150 => RegionMade, 32 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// Why not.
        failed @ 8: Option<rt::String> => Option<rt::Text<'m, 61440>>,
        /// It cannot be written to: it came with a descriptor for reading.
        read_only @ 24: bool => bool,
    };
    /// The memory of a region was sealed, or not.
    Message 151 => RegionSealed, 24 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// Why not.
        failed @ 8: Option<rt::String> => Option<rt::Text<'m, 61440>>,
    };
    /// To `probe`.
    Message 160 => Probed, 8 {
        /// Its number.
        ticket @ 0: u64 => u64,
    };
    /// Frequencies were set, or not.
    Message 161 => FrequencySet, 24 {
        /// Its number.
        ticket @ 0: u64 => u64,
        /// Why not.
        failed @ 8: Option<rt::String> => Option<rt::Text<'m, 61440>>,
    };
    /// What samples showed that is not as it was told before. One round may take several reports.
    Message 162 => Sampled, 80 {
        /// The node; in the last report of a round.
        node @ 0: Option<NodeSample> => Option<NodeSampleView<'m>>,
        /// Domains.
        domains @ 64: rt::Vec<DomainSample> => rt::List<'m, DomainSampleView<'m>, 256>,
        /// Ends of channels.
        ends @ 72: rt::Vec<EndSample> => rt::List<'m, EndSampleView<'m>, 256>,
    };
}
