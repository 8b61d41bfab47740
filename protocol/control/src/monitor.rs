//! Between a domain and the monitor of its node. Descriptors travel beside a message, never inside it.
//!
//! Written by `tombolo idl compile` from interfaces/control/monitor.tbl.

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

/// The most capabilities that a program is started with, and the most parts that memory is split into at a time.
pub const MAX_GIVEN: u64 = 64;

rt::owned_record! {
    /// A capability that a program is started with. It is derived from one of the starter's.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct GivenCapability => GivenCapabilityView<'m>, inline 48 / 8;
    /// The name by which the program asks for it.
    name @ 0: rt::String => rt::Text<'m, 1024>,
    /// From which.
    capability @ 8: crate::CapabilityId => CapabilityIdView<'m>,
    /// Which part, counted from the start of the capability's own; all of that if none.
    extent @ 16: Option<crate::Extent> => Option<ExtentView<'m>>,
    /// What of its rights.
    rights @ 40: crate::Rights => RightsView<'m>,
}

rt::owned_record! {
    /// A program to start.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SpawnRequest => SpawnRequestView<'m>, inline 96 / 8;
    /// The name of the node to run it on.
    node @ 0: rt::String => rt::Text<'m, 1024>,
    /// Use the caller's own image; otherwise a descriptor of the image file comes with the message.
    own_image @ 8: bool => bool,
    /// How to start it. It is called by the name of its image's file.
    program @ 16: ProgramSpec => ProgramSpecView<'m>,
    /// What it is given.
    given @ 88: rt::Vec<GivenCapability> => rt::List<'m, GivenCapabilityView<'m>, 64>,
}

rt::owned_record! {
    /// A channel's place in a window.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct WindowPlace => WindowPlaceView<'m>, inline 72 / 8;
    /// First byte.
    offset_bytes @ 0: u64 => u64,
    /// Length.
    length_bytes @ 8: u64 => u64,
    /// What to store in the doorbell register to ring the peer, where that is how it is rung.
    ring @ 16: Option<u32> => Option<u32>,
    /// How the window's lines reach the peer, where it is not coherent.
    caches @ 24: Option<tombolo_base::coherence::Caches> => Option<WindowCachesView<'m>>,
    /// The word of the window in which this end counts its rings with others of its node, where it does.
    group @ 56: Option<u64> => Option<u64>,
}

rt::owned_record! {
    /// A relay between the two ends of a channel.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RelayNode => RelayNodeView<'m>, inline 16 / 8;
    /// The node that it runs on.
    node @ 0: tombolo_base::NodeId => NodeIdView<'m>,
    /// The name of that node.
    name @ 8: rt::String => rt::Text<'m, 1024>,
}

rt::owned_record! {
    /// One end of a new channel, or of a hop of a relayed one. The descriptors that come with it depend on the transport:
    /// `shm` and `socket`: the socket to the peer; `window`: the window's memory, the lifeline, the bell that
    /// wakes this side, and what rings the peer (an event counter, or the device's registers if `ring` is set).
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Grant => GrantView<'m>, inline 144 / 8;
    /// The channel.
    channel @ 0: tombolo_base::ChannelId => ChannelIdView<'m>,
    /// Which end.
    side @ 8: tombolo_link::Side => Side,
    /// Who is at the other.
    peer @ 16: rt::DomainId => rt::Domain,
    /// The name of its node.
    peer_node @ 24: rt::String => rt::Text<'m, 1024>,
    /// What carries it.
    transport @ 32: tombolo_link::TransportKind => TransportKind,
    /// The shape of its rings.
    config @ 36: tombolo_link::ChannelConfig => ChannelConfigView<'m>,
    /// Where it lies in the window.
    window @ 48: Option<WindowPlace> => Option<WindowPlaceView<'m>>,
    /// The monitors' number for this hop and its lifelines; that of the channel where no relay is between.
    hop @ 128: tombolo_base::ChannelId => ChannelIdView<'m>,
    /// The relays between this end and the other, from this end on.
    via @ 136: rt::Vec<RelayNode> => rt::List<'m, RelayNodeView<'m>, 8>,
}

rt::owned_record! {
    /// A domain, for lists.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct DomainInfo => DomainInfoView<'m>, inline 64 / 8;
    /// Its id.
    id @ 0: rt::DomainId => rt::Domain,
    /// Its node's name.
    node @ 8: rt::String => rt::Text<'m, 1024>,
    /// Its program.
    program @ 16: rt::String => rt::Text<'m, 61440>,
    /// Process id in its node's kernel, for people.
    pid @ 24: i32 => i32,
    /// Who started it; none for one that attached by itself.
    parent @ 32: Option<rt::DomainId> => Option<rt::Domain>,
    /// Since when.
    age @ 48: core::time::Duration => DurationView<'m>,
    /// Channels that it has opened or accepted so far.
    channels @ 56: u32 => u32,
}

rt::owned_record! {
    /// A domain with a trace page, for lists.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct TracedInfo => TracedInfoView<'m>, inline 32 / 8;
    /// Its id.
    id @ 0: rt::DomainId => rt::Domain,
    /// Its node's name.
    node @ 8: rt::String => rt::Text<'m, 1024>,
    /// Its program.
    program @ 16: rt::String => rt::Text<'m, 61440>,
    /// Whether it lives.
    alive @ 24: bool => bool,
}

rt::record_view! {
    RegionPlaceMemory => RegionPlaceMemoryView<'m>, inline 24 / 8;
    /// `node`, up to 1024 bytes.
    node @ 0 => rt::Text<'m, 1024>,
    /// What it is made of.
    options @ 8 => MemoryOptionsView<'m>,
}

rt::record_view! {
    RegionPlaceWindow => RegionPlaceWindowView<'m>, inline 24 / 8;
    /// Whose window.
    node @ 0 => rt::Text<'m, 1024>,
    /// What its offset in the window is to be a multiple of: a power of two, or 0 for any page.
    alignment_bytes @ 8 => u64,
    /// Both sides have to see each other's stores without doing anything.
    coherent @ 16 => bool,
}

rt::record_view! {
    RegionPlaceForeign => RegionPlaceForeignView<'m>, inline 8 / 8;
    /// Where, in the caller's address space.
    address @ 0 => u64,
}

rt::owned_record! {
    /// Where the memory of a region is to be found. The descriptors that come with it: what to map, and a lifeline, which
    /// the domain keeps for as long as it has the memory mapped, and whose hang-up says that it has to let go.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RegionMap => RegionMapView<'m>, inline 88 / 8;
    /// Of which region.
    region @ 0: crate::RegionId => RegionIdView<'m>,
    /// Which part of it.
    extent @ 8: crate::Extent => ExtentView<'m>,
    /// What may be done with it.
    rights @ 24: crate::Rights => RightsView<'m>,
    /// Where that part begins in what the descriptor names.
    file_offset_bytes @ 32: u64 => u64,
    /// Where its bytes are.
    backing @ 40: Backing => Backing,
    /// Length of its pages; 0 for those that the kernel has anyway.
    huge_page_bytes @ 48: u64 => u64,
    /// How its lines reach others, where its memory is not coherent.
    caches @ 56: Option<tombolo_base::coherence::Caches> => Option<WindowCachesView<'m>>,
}

rt::owned_record! {
    /// Where foreign memory is.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ForeignPlace => ForeignPlaceView<'m>, inline 16 / 8;
    /// Process id in its node's kernel.
    pid @ 0: i32 => i32,
    /// The first byte of the part, in that process.
    address @ 8: u64 => u64,
}

rt::owned_union! {
    /// Where a region is to be.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum RegionPlace => 'm RegionPlaceView<'m>;
    /// In memory of a node.
    1 => Memory {
        record: RegionPlaceMemoryView<'m>, inline 24;
        /// `node`, up to 1024 bytes.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// What it is made of.
        options @ 8: MemoryOptions => MemoryOptionsView<'m>,
    },
    /// In memory that the host and a node behind a window reach.
    2 => Window {
        record: RegionPlaceWindowView<'m>, inline 24;
        /// Whose window.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// What its offset in the window is to be a multiple of: a power of two, or 0 for any page.
        alignment_bytes @ 8: u64 => u64,
        /// Both sides have to see each other's stores without doing anything.
        coherent @ 16: bool => bool,
    },
    /// In the file whose descriptor comes with the message.
    3 => File,
    /// In memory that the caller has already.
    4 => Foreign {
        record: RegionPlaceForeignView<'m>, inline 8;
        /// Where, in the caller's address space.
        address @ 0: u64 => u64,
    },
}

/// Of everything that peers of `tombolo.control.Monitor` can notice.
pub const MONITOR_FINGERPRINT: u64 = 0xd450d7342cd9b3a2;

rt::owned_messages! {
    /// What a client sends of the interface `Monitor`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum MonitorRequest, 'm;
    /// First call of a connection. It and `Fault.refused` as its error are the same in every release.
    Call 1 => Attach, 16 {
        /// What the caller was built with.
        version @ 0: u32 => u32,
        /// What it is called in lists.
        program @ 8: rt::String => rt::Text<'m, 61440>,
    };
    /// Take up a name.
    Call 2 => Export, 24 {
        /// The machine's, or the own node's.
        scope @ 0: Scope => ScopeView<'m>,
        /// `name`, up to 1024 bytes.
        name @ 16: rt::String => rt::Text<'m, 1024>,
    };
    /// Give a name back.
    Call 3 => Withdraw, 8 {
        /// The listener that `export` named.
        listener @ 0: u32 => u32,
    };
    /// Open a channel to whoever exports a name, or to the service of a capability. Descriptors come with the answer.
    Call 4 => Connect, 64 {
        /// Whose name.
        scope @ 0: Scope => ScopeView<'m>,
        /// The name; empty with a capability.
        name @ 16: rt::String => rt::Text<'m, 1024>,
        /// How long to wait for somebody to export it, and for room in the backlog.
        timeout @ 24: core::time::Duration => DurationView<'m>,
        /// The shape of its rings.
        config @ 32: tombolo_link::ChannelConfig => ChannelConfigView<'m>,
        /// A capability to a service, with the right to open channels; scope and name mean nothing then.
        by @ 48: Option<crate::CapabilityId> => Option<CapabilityIdView<'m>>,
    };
    /// Start a program.
    Call 5 => Spawn, 96 {
        /// What and where.
        spawn @ 0: SpawnRequest => SpawnRequestView<'m>,
    };
    /// Send a signal, and kill for certain after a grace.
    Call 6 => Kill, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// Signal number: 15 asks, 9 does not.
        signal @ 8: u8 => u8,
        /// How long until SIGKILL follows.
        grace @ 16: core::time::Duration => DurationView<'m>,
    };
    /// Up to a page of the machine's domains, from an id on.
    Call 7 => Domains, 8 {
        /// Ids above this one, as bits; 0 from the start.
        after @ 0: u64 => u64,
    };
    /// Up to a page of the nodes, from a number on.
    Call 8 => Nodes, 8 {
        /// Numbers from this one on; 0 from the start.
        from @ 0: u32 => u32,
    };
    /// Show a node's console from now on, and what is remembered of it.
    Call 9 => ConsoleOpen, 8 {
        /// `node`, up to 1024 bytes.
        node @ 0: rt::String => rt::Text<'m, 1024>,
    };
    /// Type on a node's console.
    Call 10 => ConsoleInput, 16 {
        /// `node`, up to 1024 bytes.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// What was typed.
        bytes @ 8: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// Console output was taken; send more.
    Message 11 => ConsoleTaken, 16 {
        /// `node`, up to 1024 bytes.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// How much.
        bytes @ 8: u32 => u32,
    };
    /// A child's output was taken; it may produce more.
    Message 12 => OutputTaken, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 1, 2 or 3, as in `output`.
        stream @ 8: u8 => u8,
        /// How much.
        bytes @ 12: u32 => u32,
    };
    /// Feed a stream of a child; empty bytes end it. Answered when it has been taken, and until then nothing but an end
    /// may follow.
    Call 13 => Input, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 0 for its standard input, 3 for its side stream.
        stream @ 8: u8 => u8,
        /// `bytes`, up to 61440 bytes.
        bytes @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// Stop the machine.
    Call 14 => Down;
    /// Start a node that is down, in a new generation.
    Call 15 => Restart, 16 {
        /// The node.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// One that is up or starting is stopped first, with its domains.
        force @ 8: bool => bool,
    };
    /// Channels that came with `incoming` were accepted or thrown away; others may come.
    Message 16 => Accepted, 8 {
        /// How many.
        count @ 0: u32 => u32,
    };
    /// Up to a page of the windows, from a number on.
    Call 17 => Windows, 8 {
        /// Numbers from this one on; 0 from the start.
        from @ 0: u32 => u32,
    };
    /// Something about names.
    Call 30 => Names, 32 {
        /// `scope`.
        scope @ 0: Scope => ScopeView<'m>,
        /// `operation`.
        operation @ 16: Operation => OperationView<'m>,
    };
    /// Trace on all nodes, or stop. From the start on the pages of domains that die are kept, until the request
    /// to stop comes once more, when they have been read.
    Call 40 => Trace, 8 {
        /// Whether to.
        on @ 0: bool => bool,
        /// Where there is no more room: keep the first events, rather than the latest.
        keep_first @ 1: bool => bool,
        /// Stop when this domain leaves.
        while_attached @ 2: bool => bool,
    };
    /// Up to a page of the domains that have a trace page, from an id on; and of the dead, whose pages are kept.
    Call 41 => Traced, 8 {
        /// Ids above this one, as bits; 0 from the start.
        after @ 0: u64 => u64,
    };
    /// Read a part of a domain's trace page.
    Call 42 => TraceRead, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// First byte.
        offset_bytes @ 8: u64 => u64,
        /// How much, up to 48 KiB.
        length_bytes @ 16: u32 => u32,
    };
    /// Make a region. Its maker holds a capability to all of it with all rights.
    Call 60 => RegionCreate, 24 {
        /// `place`.
        place @ 0: RegionPlace => RegionPlaceView<'m>,
        /// How long; it is rounded up to pages.
        length_bytes @ 16: u64 => u64,
    };
    /// Derive a capability: to a part of the memory, or with fewer rights, or for somebody else, which takes the right
    /// to grant.
    Call 61 => CapabilityDerive, 64 {
        /// From which.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// Which part, counted from the start of the capability's own; all of that if none.
        extent @ 8: Option<crate::Extent> => Option<ExtentView<'m>>,
        /// What of its rights.
        rights @ 32: crate::Rights => RightsView<'m>,
        /// For whom; the caller if none.
        holder @ 40: Option<rt::DomainId> => Option<rt::Domain>,
        /// The channel that will bring its number there; 0 for none.
        channel @ 56: tombolo_base::ChannelId => ChannelIdView<'m>,
    };
    /// Hand a capability over to somebody else, which takes the right to grant. The caller has it no longer, nor mapped.
    Call 62 => CapabilityGive, 24 {
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// To whom.
        holder @ 8: rt::DomainId => rt::Domain,
        /// The channel that will bring its number there; 0 for none.
        channel @ 16: tombolo_base::ChannelId => ChannelIdView<'m>,
    };
    /// Let a capability go, and what is mapped by it. What was derived from it stays.
    Call 63 => CapabilityDelete, 8 {
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    };
    /// What a capability is to.
    Call 64 => CapabilityShow, 8 {
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    };
    /// Up to a page of the caller's capabilities, from an id on.
    Call 65 => Capabilities, 8 {
        /// Numbers above this one; 0 from the start.
        after @ 0: u64 => u64,
    };
    /// Up to a page of the machine's regions, from an id on.
    Call 66 => Regions, 8 {
        /// Ids above this one, as bits; 0 from the start.
        after @ 0: u64 => u64,
    };
    /// Get what it takes to map the memory. Descriptors come with the answer.
    Call 67 => RegionMap, 16 {
        /// By which right.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// What of its rights is wanted: reading, or reading and writing.
        rights @ 8: crate::Rights => RightsView<'m>,
        /// As the buffers of a pool.
        pool @ 9: bool => bool,
    };
    /// Take back everything that was derived from a capability, wherever it is, and whatever it was for. Answered when
    /// nobody has the memory mapped by it any more, or when a limit of time has passed.
    Call 68 => CapabilityRevoke, 16 {
        /// From which.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// Also the capability itself.
        itself @ 8: bool => bool,
    };
    /// Rule out for good that a region is written to. Takes a capability to all of it with the right to write.
    Call 69 => RegionSeal, 16 {
        /// By which right.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// `seal`.
        seal @ 8: Seal => Seal,
    };
    /// Take up a capability that was granted or given to the caller, once.
    Call 70 => CapabilityAccept, 32 {
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// Who has to have granted it; whoever did if none, and then also what has been taken up before.
        granter @ 8: Option<rt::DomainId> => Option<rt::Domain>,
        /// It has to be to all of a region.
        whole @ 24: bool => bool,
    };
    /// Take a capability back that the caller granted or gave, and that has not been taken up. The caller holds it then.
    Call 71 => CapabilityTakeBack, 8 {
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    };
    /// A channel is no more: what was to come over it to the caller, and was not taken up, goes.
    Call 72 => CapabilityForget, 16 {
        /// Which channel.
        channel @ 0: tombolo_base::ChannelId => ChannelIdView<'m>,
        /// Who was at its other end.
        granter @ 8: rt::DomainId => rt::Domain,
    };
    /// Take up what the caller was started with under a name. May be asked again.
    Call 73 => Given, 8 {
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
    };
    /// Split memory into parts that do not overlap, each with a kind. Takes the rights to read and write. While a part is
    /// held or mapped, its bytes can be mapped by capabilities to the part only.
    Call 74 => CapabilitySplit, 24 {
        /// Which memory.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// What the parts are to be.
        kind @ 8: Kind => Kind,
        /// The parts, counted from the start of the capability's own.
        parts @ 16: rt::Vec<crate::Extent> => rt::List<'m, ExtentView<'m>, 64>,
    };
    /// Make a capability to a service of the caller: the right to open channels to it, and to grant that.
    Call 75 => ServiceCreate, 8 {
        /// One of the caller's listeners; a new one without a name if none.
        listener @ 0: Option<u32> => Option<u32>,
    };
    /// What has changed of the machine since a version: first everything, then what is new. Answered at once if there is
    /// anything, else when there is, or when the time is up. A version is good for as long as the connection; after the
    /// monitor forgot what is gone since then it starts anew, and says so.
    Call 80 => Observe, 16 {
        /// What the caller has: `until` of the answer before, 0 at first.
        since @ 0: u64 => u64,
        /// How long to wait for something new.
        timeout @ 8: core::time::Duration => DurationView<'m>,
    };
    /// What a part of the machine was like, as far as it is remembered.
    Call 81 => History, 24 {
        /// Which part.
        part @ 0: Part => PartView<'m>,
        /// What of it.
        measure @ 16: Measure => Measure,
        /// How finely, in ms: the finest that is remembered that is no finer than this, or the coarsest that there is.
        step_ms @ 20: u32 => u32,
    };
    /// What a domain wrote to its output and errors, as far as it is remembered, whoever takes it otherwise. Also of domains
    /// that have ended, for a while.
    Call 82 => RememberedOutput, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// Bytes that the caller has: `next` of the answer before, 0 at first.
        after @ 8: u64 => u64,
    };
    /// Stop a domain with all its processes where it is, or let it go on.
    Call 83 => Pause, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// Stop it, rather than let it go on.
        paused @ 8: bool => bool,
    };
    /// Start the same program again with the same arguments, as a child of the caller. The domain may have ended, as long as it
    /// is remembered.
    Call 84 => Repeat, 24 {
        /// As which.
        domain @ 0: rt::DomainId => rt::Domain,
        /// On which node; on the same if none.
        node @ 8: Option<rt::String> => Option<rt::Text<'m, 1024>>,
    };
    /// End a domain whose image can be restarted, then start the same elsewhere, as a child of the caller.
    Call 85 => MoveTo, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// To which node.
        node @ 8: rt::String => rt::Text<'m, 1024>,
        /// How long it may take to end before it is killed.
        grace @ 16: core::time::Duration => DurationView<'m>,
    };
    /// Set how fast processors of a node run. What was before comes back when the caller leaves, when it says so, and when the
    /// machine goes down.
    Call 86 => SetFrequency, 48 {
        /// Of which node.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// Which processors; all if none.
        cores @ 8: rt::Vec<u16> => rt::List<'m, u16, 1024>,
        /// The governor to have; as it is if none.
        governor @ 16: Option<rt::String> => Option<rt::Text<'m, 32>>,
        /// The slowest they may run, in kHz; as it is if none.
        min_khz @ 32: Option<u32> => Option<u32>,
        /// The fastest they may run, in kHz; as it is if none.
        max_khz @ 40: Option<u32> => Option<u32>,
    };
    /// Give all processors of a node back what they had before the caller set anything.
    Call 87 => RestoreFrequency, 8 {
        /// Of which node.
        node @ 0: rt::String => rt::Text<'m, 1024>,
    };
    /// Up to a page of the capabilities to a region, from an id on.
    Call 88 => Holders, 16 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// Numbers above this one; 0 from the start.
        after @ 8: u64 => u64,
    };
    /// What is known of nodes (`node/NAME`) and of the ways between them (`link/NAME/NAME`), as records, computed when asked.
    Call 89 => Facts, 32 {
        /// Which of them.
        query @ 0: Query => QueryView<'m>,
        /// Where to go on: `next` of the answer before, 0 at first.
        from @ 24: u32 => u32,
    };
}

impl MonitorRequest {
    /// The ordinal of `attach`.
    pub const ATTACH: u16 = 1;
    /// The ordinal of `export`.
    pub const EXPORT: u16 = 2;
    /// The ordinal of `withdraw`.
    pub const WITHDRAW: u16 = 3;
    /// The ordinal of `connect`.
    pub const CONNECT: u16 = 4;
    /// The ordinal of `spawn`.
    pub const SPAWN: u16 = 5;
    /// The ordinal of `kill`.
    pub const KILL: u16 = 6;
    /// The ordinal of `domains`.
    pub const DOMAINS: u16 = 7;
    /// The ordinal of `nodes`.
    pub const NODES: u16 = 8;
    /// The ordinal of `console_open`.
    pub const CONSOLE_OPEN: u16 = 9;
    /// The ordinal of `console_input`.
    pub const CONSOLE_INPUT: u16 = 10;
    /// The ordinal of `console_taken`.
    pub const CONSOLE_TAKEN: u16 = 11;
    /// The ordinal of `output_taken`.
    pub const OUTPUT_TAKEN: u16 = 12;
    /// The ordinal of `input`.
    pub const INPUT: u16 = 13;
    /// The ordinal of `down`.
    pub const DOWN: u16 = 14;
    /// The ordinal of `restart`.
    pub const RESTART: u16 = 15;
    /// The ordinal of `accepted`.
    pub const ACCEPTED: u16 = 16;
    /// The ordinal of `windows`.
    pub const WINDOWS: u16 = 17;
    /// The ordinal of `names`.
    pub const NAMES: u16 = 30;
    /// The ordinal of `trace`.
    pub const TRACE: u16 = 40;
    /// The ordinal of `traced`.
    pub const TRACED: u16 = 41;
    /// The ordinal of `trace_read`.
    pub const TRACE_READ: u16 = 42;
    /// The ordinal of `region_create`.
    pub const REGION_CREATE: u16 = 60;
    /// The ordinal of `capability_derive`.
    pub const CAPABILITY_DERIVE: u16 = 61;
    /// The ordinal of `capability_give`.
    pub const CAPABILITY_GIVE: u16 = 62;
    /// The ordinal of `capability_delete`.
    pub const CAPABILITY_DELETE: u16 = 63;
    /// The ordinal of `capability_show`.
    pub const CAPABILITY_SHOW: u16 = 64;
    /// The ordinal of `capabilities`.
    pub const CAPABILITIES: u16 = 65;
    /// The ordinal of `regions`.
    pub const REGIONS: u16 = 66;
    /// The ordinal of `region_map`.
    pub const REGION_MAP: u16 = 67;
    /// The ordinal of `capability_revoke`.
    pub const CAPABILITY_REVOKE: u16 = 68;
    /// The ordinal of `region_seal`.
    pub const REGION_SEAL: u16 = 69;
    /// The ordinal of `capability_accept`.
    pub const CAPABILITY_ACCEPT: u16 = 70;
    /// The ordinal of `capability_take_back`.
    pub const CAPABILITY_TAKE_BACK: u16 = 71;
    /// The ordinal of `capability_forget`.
    pub const CAPABILITY_FORGET: u16 = 72;
    /// The ordinal of `given`.
    pub const GIVEN: u16 = 73;
    /// The ordinal of `capability_split`.
    pub const CAPABILITY_SPLIT: u16 = 74;
    /// The ordinal of `service_create`.
    pub const SERVICE_CREATE: u16 = 75;
    /// The ordinal of `observe`.
    pub const OBSERVE: u16 = 80;
    /// The ordinal of `history`.
    pub const HISTORY: u16 = 81;
    /// The ordinal of `remembered_output`.
    pub const REMEMBERED_OUTPUT: u16 = 82;
    /// The ordinal of `pause`.
    pub const PAUSE: u16 = 83;
    /// The ordinal of `repeat`.
    pub const REPEAT: u16 = 84;
    /// The ordinal of `move_to`.
    pub const MOVE_TO: u16 = 85;
    /// The ordinal of `set_frequency`.
    pub const SET_FREQUENCY: u16 = 86;
    /// The ordinal of `restore_frequency`.
    pub const RESTORE_FREQUENCY: u16 = 87;
    /// The ordinal of `holders`.
    pub const HOLDERS: u16 = 88;
    /// The ordinal of `facts`.
    pub const FACTS: u16 = 89;
}

rt::owned_messages! {
    /// What a server sends of the interface `Monitor`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum MonitorReply, 'm;
    /// Answers [`MonitorRequest::Attach`].
    Reply 1 => Attach, 32 {
        /// Who the caller is.
        domain @ 0: rt::DomainId => rt::Domain,
        /// Its node's name.
        node @ 8: rt::String => rt::Text<'m, 1024>,
        /// The machine's name.
        machine @ 16: rt::String => rt::Text<'m, 1024>,
        /// Whether it was started by the machine, and so has an image.
        spawned @ 24: bool => bool,
    };
    /// Answers [`MonitorRequest::Export`].
    Reply 2 => Export, 8 {
        /// Number for `incoming` and `withdraw`.
        listener @ 0: u32 => u32,
    };
    /// Answers [`MonitorRequest::Connect`].
    Reply 4 => Connect, 144 {
        /// The end.
        grant @ 0: Grant => GrantView<'m>,
    };
    /// Answers [`MonitorRequest::Spawn`].
    Reply 5 => Spawn, 8 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
    };
    /// Answers [`MonitorRequest::Domains`].
    Reply 7 => Domains, 16 {
        /// A page of them, by id.
        domains @ 0: rt::Vec<DomainInfo> => rt::List<'m, DomainInfoView<'m>, 256>,
        /// There are others.
        more @ 8: bool => bool,
    };
    /// Answers [`MonitorRequest::Nodes`].
    Reply 8 => Nodes, 16 {
        /// A page of them, by number.
        nodes @ 0: rt::Vec<NodeInfo> => rt::List<'m, NodeInfoView<'m>, 256>,
        /// There are others.
        more @ 8: bool => bool,
    };
    /// Answers [`MonitorRequest::Windows`].
    Reply 17 => Windows, 16 {
        /// A page of them, by number.
        windows @ 0: rt::Vec<WindowInfo> => rt::List<'m, WindowInfoView<'m>, 256>,
        /// There are others.
        more @ 8: bool => bool,
    };
    /// Answers [`MonitorRequest::Names`].
    Reply 30 => Names, 24 {
        /// Whose names: a node's, or the machine's.
        origin @ 0: Option<tombolo_base::NodeId> => Option<NodeIdView<'m>>,
        /// What they say.
        answer @ 8: Answer => AnswerView<'m>,
    };
    /// Answers [`MonitorRequest::Traced`].
    Reply 41 => Traced, 16 {
        /// A page of them, by id.
        domains @ 0: rt::Vec<TracedInfo> => rt::List<'m, TracedInfoView<'m>, 256>,
        /// There are others.
        more @ 8: bool => bool,
        /// Whether the machine traces now.
        on @ 9: bool => bool,
    };
    /// Answers [`MonitorRequest::TraceRead`].
    Reply 42 => TraceRead, 8 {
        /// As much as there is, up to what was asked for.
        bytes @ 0: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// Somebody connected; descriptors come with it.
    Message 50 => Incoming, 152 {
        /// To which listener.
        listener @ 0: u32 => u32,
        /// The end.
        grant @ 8: Grant => GrantView<'m>,
    };
    /// A child wrote something. Take it with `output_taken`.
    Message 51 => Output, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 1 for its output, 2 for its errors, 3 for its side stream.
        stream @ 8: u8 => u8,
        /// What; empty at the end of the stream.
        bytes @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A child ended. Its output came before.
    Message 52 => Ended, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// `exit`.
        exit @ 8: Exit => ExitView<'m>,
    };
    /// Console output. Take it with `console_taken`.
    Message 53 => Console, 24 {
        /// `node`, up to 1024 bytes.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// Bytes lost before these because nobody took them in time.
        dropped @ 8: u64 => u64,
        /// `bytes`, up to 61440 bytes.
        bytes @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// What a watch reports.
    Message 54 => Noticed, 48 {
        /// Whose names: a node's, or the machine's.
        origin @ 0: Option<tombolo_base::NodeId> => Option<NodeIdView<'m>>,
        /// `notice`.
        notice @ 8: Notice => NoticeView<'m>,
    };
    /// The connection is not served, and ends.
    Message 55 => TurnedAway, 16 {
        /// Why.
        fault @ 0: Fault => FaultView<'m>,
    };
    /// Answers [`MonitorRequest::RegionCreate`].
    Reply 60 => RegionCreate, 96 {
        /// The capability to all of it.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
    };
    /// Answers [`MonitorRequest::CapabilityDerive`].
    Reply 61 => CapabilityDerive, 96 {
        /// The new one.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
    };
    /// Answers [`MonitorRequest::CapabilityShow`].
    Reply 64 => CapabilityShow, 168 {
        /// That.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
        /// The region.
        region @ 96: RegionInfo => RegionInfoView<'m>,
        /// Where foreign memory is.
        foreign @ 144: Option<ForeignPlace> => Option<ForeignPlaceView<'m>>,
    };
    /// Answers [`MonitorRequest::Capabilities`].
    Reply 65 => Capabilities, 16 {
        /// A page of them, by number.
        capabilities @ 0: rt::Vec<CapabilityInfo> => rt::List<'m, CapabilityInfoView<'m>, 256>,
        /// There are others.
        more @ 8: bool => bool,
    };
    /// Answers [`MonitorRequest::Regions`].
    Reply 66 => Regions, 16 {
        /// A page of them, by id.
        regions @ 0: rt::Vec<RegionInfo> => rt::List<'m, RegionInfoView<'m>, 256>,
        /// There are others.
        more @ 8: bool => bool,
    };
    /// Answers [`MonitorRequest::RegionMap`].
    Reply 67 => RegionMap, 88 {
        /// Where it is.
        map @ 0: RegionMap => RegionMapView<'m>,
    };
    /// Answers [`MonitorRequest::CapabilityRevoke`].
    Reply 68 => CapabilityRevoke, 16 {
        /// Capabilities that are gone.
        removed @ 0: u32 => u32,
        /// Domains that were killed because they did not let go.
        killed @ 8: rt::Vec<rt::DomainId> => rt::List<'m, rt::Domain, 256>,
    };
    /// Answers [`MonitorRequest::CapabilityAccept`].
    Reply 70 => CapabilityAccept, 168 {
        /// What it is.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
        /// The region.
        region @ 96: RegionInfo => RegionInfoView<'m>,
        /// Where foreign memory is.
        foreign @ 144: Option<ForeignPlace> => Option<ForeignPlaceView<'m>>,
    };
    /// Answers [`MonitorRequest::CapabilityTakeBack`].
    Reply 71 => CapabilityTakeBack, 96 {
        /// What it is.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
    };
    /// Answers [`MonitorRequest::Given`].
    Reply 73 => Given, 168 {
        /// What it is.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
        /// The region.
        region @ 96: RegionInfo => RegionInfoView<'m>,
        /// Where foreign memory is.
        foreign @ 144: Option<ForeignPlace> => Option<ForeignPlaceView<'m>>,
    };
    /// Answers [`MonitorRequest::CapabilitySplit`].
    Reply 74 => CapabilitySplit, 8 {
        /// A capability to each part, in order, with the rights of the one that was split.
        capabilities @ 0: rt::Vec<CapabilityInfo> => rt::List<'m, CapabilityInfoView<'m>, 64>,
    };
    /// Answers [`MonitorRequest::ServiceCreate`].
    Reply 75 => ServiceCreate, 104 {
        /// The capability.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
        /// Number for `incoming` and `withdraw`.
        listener @ 96: u32 => u32,
    };
    /// Answers [`MonitorRequest::Observe`].
    Reply 80 => Observe, 40 {
        /// A page of it, in the order in which it changed.
        observations @ 0: rt::Vec<Observation> => rt::List<'m, ObservationView<'m>, 256>,
        /// What the caller has now.
        until @ 8: u64 => u64,
        /// There is more at once.
        more @ 16: bool => bool,
        /// What the caller had is to be forgotten: this is everything anew.
        anew @ 17: bool => bool,
        /// The monitor's clock, by which everything here is dated; it never jumps.
        now_ns @ 24: u64 => u64,
        /// The same instant since 1970 in UTC, by the host's clock, which may jump.
        wall_ns @ 32: u64 => u64,
    };
    /// Answers [`MonitorRequest::History`].
    Reply 81 => History, 24 {
        /// The time from a point to the next.
        step_ms @ 0: u32 => u32,
        /// When the last point was.
        last_ns @ 8: u64 => u64,
        /// The points, oldest first, in the unit of the measure; the largest number where nothing was known.
        points @ 16: rt::Vec<u64> => rt::List<'m, u64, 512>,
    };
    /// Answers [`MonitorRequest::RememberedOutput`].
    Reply 82 => RememberedOutput, 32 {
        /// A page of it, in order.
        pieces @ 0: rt::Vec<OutputPiece> => rt::List<'m, OutputPieceView<'m>, 256>,
        /// What the caller has now.
        next @ 8: u64 => u64,
        /// Bytes before these that are not remembered.
        lost @ 16: u64 => u64,
        /// There is more at once.
        more @ 24: bool => bool,
        /// No more will come.
        ended @ 25: bool => bool,
    };
    /// Answers [`MonitorRequest::Repeat`].
    Reply 84 => Repeat, 8 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
    };
    /// Answers [`MonitorRequest::MoveTo`].
    Reply 85 => MoveTo, 8 {
        /// Who it is there.
        domain @ 0: rt::DomainId => rt::Domain,
    };
    /// Answers [`MonitorRequest::Holders`].
    Reply 88 => Holders, 16 {
        /// A page of them, by number.
        capabilities @ 0: rt::Vec<CapabilityInfo> => rt::List<'m, CapabilityInfoView<'m>, 256>,
        /// There are others.
        more @ 8: bool => bool,
    };
    /// Answers [`MonitorRequest::Facts`].
    Reply 89 => Facts, 16 {
        /// Some of those that match: nodes by number, then pairs of nodes.
        records @ 0: rt::Vec<Record> => rt::List<'m, RecordView<'m>, 256>,
        /// Where to go on.
        next @ 8: u32 => u32,
        /// There may be others.
        more @ 12: bool => bool,
    };
    /// Answers a call without results: it is done.
    Reply 3 | 6 | 9 | 10 | 13 | 14 | 15 | 40 | 62 | 63 | 69 | 72 | 83 | 86 | 87 => Done;
    /// Answers a call that was declined.
    Error 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 13 | 14 | 15 | 17 | 30 | 40 | 41 | 42 | 60 | 61 | 62 | 63 | 64 | 65 | 66 | 67 | 68 | 69 | 70 | 71 | 72 | 73 | 74 | 75 | 80 | 81 | 82 | 83 | 84 | 85 | 86 | 87 | 88 | 89 => Failed, 16 {
        /// `fault`.
        fault @ 0: Fault => FaultView<'m>,
    };
}
