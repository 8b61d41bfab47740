//! The interface between a domain and the monitor of its node. Descriptors accompany a message; they are not
//! part of it.
//!
//! Written by `tombolo idl compile` from interfaces/control/monitor.tbl.

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

/// The most capabilities that a program is started with, and the most parts of one split.
pub const MAX_GIVEN: u64 = 64;

rt::owned_record! {
    /// A capability that a program is started with, derived from one of its parent's.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct GivenCapability => GivenCapabilityView<'m>, inline 48 / 8;
    /// The name under which the program requests it.
    name @ 0: rt::String => rt::Text<'m, 1024>,
    /// The parent's capability that it is derived from.
    capability @ 8: crate::CapabilityId => CapabilityIdView<'m>,
    /// The part of the memory, relative to the start of that capability's extent; all of it if absent.
    extent @ 16: Option<crate::Extent> => Option<ExtentView<'m>>,
    /// The rights that the program gets: those of that capability or fewer.
    rights @ 40: crate::Rights => RightsView<'m>,
}

rt::owned_record! {
    /// A request to start a program.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SpawnRequest => SpawnRequestView<'m>, inline 96 / 8;
    /// The name of the node to run it on.
    node @ 0: rt::String => rt::Text<'m, 1024>,
    /// Whether to start the caller's own image. Otherwise a descriptor of the image file accompanies the
    /// message.
    own_image @ 8: bool => bool,
    /// The program's parameters. Its `name` is the file name of the image; with `own_image` the caller's name
    /// is used.
    program @ 16: ProgramSpec => ProgramSpecView<'m>,
    /// The capabilities that it is started with.
    given @ 88: rt::Vec<GivenCapability> => rt::List<'m, GivenCapabilityView<'m>, 64>,
}

rt::owned_record! {
    /// The location of a channel in a window.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct WindowPlace => WindowPlaceView<'m>, inline 72 / 8;
    /// The offset of its first byte in the memory of the window.
    offset_bytes @ 0: u64 => u64,
    /// Its length.
    length_bytes @ 8: u64 => u64,
    /// The value to store in the device's doorbell register to ring the peer; absent if an event counter
    /// rings it.
    ring @ 16: Option<u32> => Option<u32>,
    /// How this side keeps its view of the window coherent; absent if the window is coherent.
    caches @ 24: Option<tombolo_base::coherence::Caches> => Option<WindowCachesView<'m>>,
    /// The offset of the word in the window that counts the rings of a group of this node's channels; this
    /// end increments it when it rings. Absent if the channel is in no group.
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
    /// One end of a new channel, or of one hop of a relayed channel. Its descriptors depend on the transport.
    /// `shm` and `socket`: the socket to the peer. `window`: the memory of the window, the lifeline, the event
    /// counter that wakes this end, and what rings the peer: an event counter, or the device's registers if
    /// `ring` is present.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Grant => GrantView<'m>, inline 144 / 8;
    /// The channel; the same for all hops of a relayed one.
    channel @ 0: tombolo_base::ChannelId => ChannelIdView<'m>,
    /// The side of this end.
    side @ 8: tombolo_link::Side => Side,
    /// The domain at the other end.
    peer @ 16: rt::DomainId => rt::Domain,
    /// The name of its node.
    peer_node @ 24: rt::String => rt::Text<'m, 1024>,
    /// The transport that carries the channel.
    transport @ 32: tombolo_link::TransportKind => TransportKind,
    /// The shape of its rings.
    config @ 36: tombolo_link::ChannelConfig => ChannelConfigView<'m>,
    /// Its location in the window; absent for other transports.
    window @ 48: Option<WindowPlace> => Option<WindowPlaceView<'m>>,
    /// The number of this hop, which identifies its lifelines. Equal to `channel` if the channel is not
    /// relayed.
    hop @ 128: tombolo_base::ChannelId => ChannelIdView<'m>,
    /// The relays between this end and the other one, in order from this end.
    via @ 136: rt::Vec<RelayNode> => rt::List<'m, RelayNodeView<'m>, 8>,
}

rt::owned_record! {
    /// A domain, as listed.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct DomainInfo => DomainInfoView<'m>, inline 64 / 8;
    /// The id.
    id @ 0: rt::DomainId => rt::Domain,
    /// The name of its node.
    node @ 8: rt::String => rt::Text<'m, 1024>,
    /// The name of its program.
    program @ 16: rt::String => rt::Text<'m, 61440>,
    /// Its process id in its node's kernel, for display; 0 while it starts.
    pid @ 24: i32 => i32,
    /// The domain that started it; absent for a domain that attached by itself, and for a relay.
    parent @ 32: Option<rt::DomainId> => Option<rt::Domain>,
    /// The time since its start was requested, or since it attached.
    age @ 48: core::time::Duration => DurationView<'m>,
    /// The number of channels that it has opened or accepted so far.
    channels @ 56: u32 => u32,
}

rt::owned_record! {
    /// A domain with a trace page, as listed.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct TracedInfo => TracedInfoView<'m>, inline 32 / 8;
    /// The id.
    id @ 0: rt::DomainId => rt::Domain,
    /// The name of its node.
    node @ 8: rt::String => rt::Text<'m, 1024>,
    /// The name of its program.
    program @ 16: rt::String => rt::Text<'m, 61440>,
    /// Whether the domain is alive.
    alive @ 24: bool => bool,
}

rt::record_view! {
    RegionPlaceMemory => RegionPlaceMemoryView<'m>, inline 24 / 8;
    /// `node`, up to 1024 bytes.
    node @ 0 => rt::Text<'m, 1024>,
    /// The kind of memory to allocate.
    options @ 8 => MemoryOptionsView<'m>,
}

rt::record_view! {
    RegionPlaceWindow => RegionPlaceWindowView<'m>, inline 24 / 8;
    /// The name of a window, or of a node that the caller's node reaches through a window.
    node @ 0 => rt::Text<'m, 1024>,
    /// The alignment of its offset in the window: a power of two, or 0 for that of a page.
    alignment_bytes @ 8 => u64,
    /// Whether the window must be coherent: each side sees the other's stores without cache maintenance.
    coherent @ 16 => bool,
}

rt::record_view! {
    RegionPlaceForeign => RegionPlaceForeignView<'m>, inline 8 / 8;
    /// The address of its first byte in the caller's address space.
    address @ 0 => u64,
}

rt::owned_record! {
    /// How to map the memory of a region. Its descriptors are the memory, and a lifeline that the domain keeps
    /// open while the memory is mapped. When the lifeline hangs up, the domain must unmap the memory and close
    /// it.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RegionMap => RegionMapView<'m>, inline 88 / 8;
    /// The region.
    region @ 0: crate::RegionId => RegionIdView<'m>,
    /// The part of the region.
    extent @ 8: crate::Extent => ExtentView<'m>,
    /// The rights that the mapping has.
    rights @ 24: crate::Rights => RightsView<'m>,
    /// The offset of that part in the memory of the descriptor.
    file_offset_bytes @ 32: u64 => u64,
    /// What holds the bytes.
    backing @ 40: Backing => Backing,
    /// The length of its huge pages; 0 for pages of the default length.
    huge_page_bytes @ 48: u64 => u64,
    /// How the domain keeps its view of the memory coherent; absent if the memory is coherent.
    caches @ 56: Option<tombolo_base::coherence::Caches> => Option<WindowCachesView<'m>>,
}

rt::owned_record! {
    /// The location of foreign memory.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ForeignPlace => ForeignPlaceView<'m>, inline 16 / 8;
    /// The process that has it, as its node's kernel numbers it.
    pid @ 0: i32 => i32,
    /// The address of the capability's first byte in that process.
    address @ 8: u64 => u64,
}

rt::owned_union! {
    /// Where to create a region.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum RegionPlace => 'm RegionPlaceView<'m>;
    /// New memory of a node.
    1 => Memory {
        record: RegionPlaceMemoryView<'m>, inline 24;
        /// `node`, up to 1024 bytes.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// The kind of memory to allocate.
        options @ 8: MemoryOptions => MemoryOptionsView<'m>,
    },
    /// A range of a window, accessible to the nodes that map the window.
    2 => Window {
        record: RegionPlaceWindowView<'m>, inline 24;
        /// The name of a window, or of a node that the caller's node reaches through a window.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// The alignment of its offset in the window: a power of two, or 0 for that of a page.
        alignment_bytes @ 8: u64 => u64,
        /// Whether the window must be coherent: each side sees the other's stores without cache maintenance.
        coherent @ 16: bool => bool,
    },
    /// The file whose descriptor accompanies the message.
    3 => File,
    /// Memory that the caller has already.
    4 => Foreign {
        record: RegionPlaceForeignView<'m>, inline 8;
        /// The address of its first byte in the caller's address space.
        address @ 0: u64 => u64,
    },
}

/// Fingerprint of `tombolo.control.Monitor`: a hash of all declarations that affect its peers.
pub const MONITOR_FINGERPRINT: u64 = 0xd450d7342cd9b3a2;

rt::owned_messages! {
    /// Messages from client to server in the interface `Monitor`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum MonitorRequest, 'm;
    /// Attaches the caller to the machine. It must be the first call of a connection. Its encoding, and that
    /// of `Fault.refused` as its error, are the same in every release.
    Call 1 => Attach, 16 {
        /// The fingerprint of the protocol that the caller was built with.
        version @ 0: u32 => u32,
        /// The program's name in lists; ignored if the machine started the caller.
        program @ 8: rt::String => rt::Text<'m, 61440>,
    };
    /// Claims a name, so that other domains can connect to it.
    Call 2 => Export, 24 {
        /// The scope of the name: the machine, or the caller's node.
        scope @ 0: Scope => ScopeView<'m>,
        /// `name`, up to 1024 bytes.
        name @ 16: rt::String => rt::Text<'m, 1024>,
    };
    /// Withdraws a listener and releases its name.
    Call 3 => Withdraw, 8 {
        /// The number of the listener.
        listener @ 0: u32 => u32,
    };
    /// Opens a channel to the domain that exports a name, or to the service of a capability. Descriptors
    /// accompany the answer.
    Call 4 => Connect, 64 {
        /// The scope of the name.
        scope @ 0: Scope => ScopeView<'m>,
        /// The name; empty if a capability is given.
        name @ 16: rt::String => rt::Text<'m, 1024>,
        /// The longest time to wait until a domain exports the name and its backlog has room.
        timeout @ 24: core::time::Duration => DurationView<'m>,
        /// The shape of the channel's rings.
        config @ 32: tombolo_link::ChannelConfig => ChannelConfigView<'m>,
        /// A capability to a service, with the right to open channels. If present, scope and name are
        /// ignored.
        by @ 48: Option<crate::CapabilityId> => Option<CapabilityIdView<'m>>,
    };
    /// Starts a program as a child of the caller. Answered when it has started.
    Call 5 => Spawn, 96 {
        /// The program and its node.
        spawn @ 0: SpawnRequest => SpawnRequestView<'m>,
    };
    /// Sends a signal to a domain that the machine started, and SIGKILL if it has not ended after a grace
    /// period.
    Call 6 => Kill, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// The number of the signal, from 1 to 64, such as 15 (SIGTERM) or 9 (SIGKILL).
        signal @ 8: u8 => u8,
        /// The time until SIGKILL follows; 0 if it must not follow.
        grace @ 16: core::time::Duration => DurationView<'m>,
    };
    /// Lists the domains of the machine by id, one page at a time.
    Call 7 => Domains, 8 {
        /// List only ids above this one, as bits; 0 to list from the start.
        after @ 0: u64 => u64,
    };
    /// Lists the nodes by number, one page at a time.
    Call 8 => Nodes, 8 {
        /// List nodes from this number on; 0 to list from the start.
        from @ 0: u32 => u32,
    };
    /// Subscribes to the console of a node: the retained output and all that follows arrive as `console`.
    Call 9 => ConsoleOpen, 8 {
        /// `node`, up to 1024 bytes.
        node @ 0: rt::String => rt::Text<'m, 1024>,
    };
    /// Writes input to the console of a node.
    Call 10 => ConsoleInput, 16 {
        /// `node`, up to 1024 bytes.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// The input.
        bytes @ 8: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// Acknowledges console output, so that the monitor sends more.
    Message 11 => ConsoleTaken, 16 {
        /// `node`, up to 1024 bytes.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// The number of bytes acknowledged.
        bytes @ 8: u32 => u32,
    };
    /// Acknowledges output of a child, which may then write more.
    Message 12 => OutputTaken, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 1, 2 or 3, as in `output`.
        stream @ 8: u8 => u8,
        /// The number of bytes acknowledged.
        bytes @ 12: u32 => u32,
    };
    /// Writes to an input stream of a child; empty bytes close it. Answered when the child's kernel has
    /// accepted all of them; until then only empty bytes may follow.
    Call 13 => Input, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 0 for its standard input, 3 for its side stream.
        stream @ 8: u8 => u8,
        /// `bytes`, up to 61440 bytes.
        bytes @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// Shuts the machine down.
    Call 14 => Down;
    /// Starts a node that is down, in a new generation.
    Call 15 => Restart, 16 {
        /// The name of the node.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// Whether to stop the node first, with its domains, if it is up or starting.
        force @ 8: bool => bool,
    };
    /// Acknowledges channels of `incoming` that the caller has accepted or dropped, so that the monitor sends
    /// more.
    Message 16 => Accepted, 8 {
        /// The number of channels.
        count @ 0: u32 => u32,
    };
    /// Lists the windows by number, one page at a time.
    Call 17 => Windows, 8 {
        /// List windows from this number on; 0 to list from the start.
        from @ 0: u32 => u32,
    };
    /// Performs an operation on the names of a scope.
    Call 30 => Names, 32 {
        /// `scope`.
        scope @ 0: Scope => ScopeView<'m>,
        /// `operation`.
        operation @ 16: Operation => OperationView<'m>,
    };
    /// Starts or stops tracing on all nodes. After a start, the trace pages of domains that end are retained
    /// until tracing is stopped a second time, after a reader has read them.
    Call 40 => Trace, 8 {
        /// Whether to start rather than stop.
        on @ 0: bool => bool,
        /// Whether a full buffer keeps its first events rather than the latest.
        keep_first @ 1: bool => bool,
        /// Whether tracing stops, and retained pages are freed, when the caller leaves.
        while_attached @ 2: bool => bool,
    };
    /// Lists the domains with a trace page by id, one page of the list at a time. Includes domains that have
    /// ended and whose pages are retained.
    Call 41 => Traced, 8 {
        /// List only ids above this one, as bits; 0 to list from the start.
        after @ 0: u64 => u64,
    };
    /// Reads a part of a domain's trace page.
    Call 42 => TraceRead, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// The offset of its first byte in the page.
        offset_bytes @ 8: u64 => u64,
        /// Its length, up to 48 KiB.
        length_bytes @ 16: u32 => u32,
    };
    /// Creates a region. The caller gets a capability to all of it, with all rights to memory; for a file
    /// opened for reading only, without the right to write.
    Call 60 => RegionCreate, 24 {
        /// `place`.
        place @ 0: RegionPlace => RegionPlaceView<'m>,
        /// The length; rounded up to whole pages in memory of a node and in a window.
        length_bytes @ 16: u64 => u64,
    };
    /// Derives a capability: to a part of the memory, with fewer rights, or for another domain. The last
    /// requires the right to grant.
    Call 61 => CapabilityDerive, 64 {
        /// The capability to derive from.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// The part, relative to the start of that capability's extent; all of it if absent.
        extent @ 8: Option<crate::Extent> => Option<ExtentView<'m>>,
        /// The rights of the new capability.
        rights @ 32: crate::Rights => RightsView<'m>,
        /// The domain that will hold it; the caller if absent.
        holder @ 40: Option<rt::DomainId> => Option<rt::Domain>,
        /// The channel that will carry its number to the holder; 0 for none.
        channel @ 56: tombolo_base::ChannelId => ChannelIdView<'m>,
    };
    /// Transfers a capability to another domain, which requires the right to grant. The caller no longer
    /// holds it, and its mappings by it are revoked.
    Call 62 => CapabilityGive, 24 {
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// The domain that will hold it.
        holder @ 8: rt::DomainId => rt::Domain,
        /// The channel that will carry its number to the holder; 0 for none.
        channel @ 16: tombolo_base::ChannelId => ChannelIdView<'m>,
    };
    /// Deletes a capability, and ends the caller's mappings by it. Capabilities derived from it remain.
    Call 63 => CapabilityDelete, 8 {
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    };
    /// Returns the description of a capability that the caller holds.
    Call 64 => CapabilityShow, 8 {
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    };
    /// Lists the caller's capabilities by number, one page at a time.
    Call 65 => Capabilities, 8 {
        /// List only numbers above this one; 0 to list from the start.
        after @ 0: u64 => u64,
    };
    /// Lists the regions of the machine by id, one page at a time.
    Call 66 => Regions, 8 {
        /// List only ids above this one, as bits; 0 to list from the start.
        after @ 0: u64 => u64,
    };
    /// Returns what the caller needs to map memory. Descriptors accompany the answer.
    Call 67 => RegionMap, 16 {
        /// The capability to the memory.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// The rights of the mapping: to read, or to read and write.
        rights @ 8: crate::Rights => RightsView<'m>,
        /// Whether to map it as the buffers of a pool.
        pool @ 9: bool => bool,
    };
    /// Revokes all capabilities derived from a capability, including those of other domains and those to
    /// parts. Answered when no domain has memory mapped by them any more, or when a time limit has passed.
    Call 68 => CapabilityRevoke, 16 {
        /// The capability whose descendants to revoke.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// Whether to revoke the capability itself too.
        itself @ 8: bool => bool,
    };
    /// Limits writing to a region permanently. Requires a capability to all of it with the right to write.
    Call 69 => RegionSeal, 16 {
        /// The capability to the region.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// `seal`.
        seal @ 8: Seal => Seal,
    };
    /// Accepts a capability that another domain granted or gave to the caller; each only once if `granter` is
    /// present.
    Call 70 => CapabilityAccept, 32 {
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// The domain that must have granted it. If absent, any capability of the caller is accepted, even if
        /// it has been accepted before.
        granter @ 8: Option<rt::DomainId> => Option<rt::Domain>,
        /// Whether the capability must cover all of its region.
        whole @ 24: bool => bool,
    };
    /// Takes back a capability that the caller granted or gave and that has not been accepted. The caller
    /// then holds it.
    Call 71 => CapabilityTakeBack, 8 {
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    };
    /// Reports the end of a channel: capabilities sent to the caller over it and not accepted are deleted.
    Call 72 => CapabilityForget, 16 {
        /// The channel.
        channel @ 0: tombolo_base::ChannelId => ChannelIdView<'m>,
        /// The domain that was at its other end.
        granter @ 8: rt::DomainId => rt::Domain,
    };
    /// Accepts the capability that the caller was started with under a name. May be repeated.
    Call 73 => Given, 8 {
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
    };
    /// Splits memory into parts of one kind that do not overlap. Requires the rights to read and write. While
    /// a part is held or mapped, its bytes can be mapped only by capabilities to the part.
    Call 74 => CapabilitySplit, 24 {
        /// The capability to the memory.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// The kind of the parts.
        kind @ 8: Kind => Kind,
        /// The parts, relative to the start of that capability's extent.
        parts @ 16: rt::Vec<crate::Extent> => rt::List<'m, ExtentView<'m>, 64>,
    };
    /// Creates a capability to a service of the caller, with the rights to open channels to it and to grant
    /// it.
    Call 75 => ServiceCreate, 8 {
        /// One of the caller's listeners; a new one without a name if absent.
        listener @ 0: Option<u32> => Option<u32>,
    };
    /// Returns the changes of the machine since a version: first everything, then what has changed. Answered
    /// when there are changes, or when the timeout expires. Versions are valid for one connection. If the
    /// monitor no longer remembers what is gone since a version, it sends everything again and sets `anew`.
    Call 80 => Observe, 16 {
        /// The version that the caller has: `until` of the previous answer, 0 at first.
        since @ 0: u64 => u64,
        /// The longest time to wait for changes.
        timeout @ 8: core::time::Duration => DurationView<'m>,
    };
    /// Returns past values of a measure of a part of the machine, as far as they are retained.
    Call 81 => History, 24 {
        /// The part.
        part @ 0: Part => PartView<'m>,
        /// The measure.
        measure @ 16: Measure => Measure,
        /// The requested time between two points, in ms. The finest retained series that is not finer is
        /// used, or else the coarsest.
        step_ms @ 20: u32 => u32,
    };
    /// Returns the retained part of a domain's standard output and error, regardless of who reads them
    /// otherwise. Also for domains that have ended, for a while.
    Call 82 => RememberedOutput, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// The number of bytes that the caller has: `next` of the previous answer, 0 at first.
        after @ 8: u64 => u64,
    };
    /// Stops a domain with all its processes by SIGSTOP, or resumes it by SIGCONT.
    Call 83 => Pause, 16 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// Whether to stop it rather than resume it.
        paused @ 8: bool => bool,
    };
    /// Starts the program of a domain again with the same arguments, as a child of the caller. The domain may
    /// have ended, as long as the machine remembers it.
    Call 84 => Repeat, 24 {
        /// The domain.
        domain @ 0: rt::DomainId => rt::Domain,
        /// The node to start it on; the same one if absent.
        node @ 8: Option<rt::String> => Option<rt::Text<'m, 1024>>,
    };
    /// Ends a domain whose image is marked as restartable, then starts its program on another node, as a
    /// child of the caller.
    Call 85 => MoveTo, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// The name of the other node.
        node @ 8: rt::String => rt::Text<'m, 1024>,
        /// The time that the domain has to end before it is killed; 0 to kill it at once.
        grace @ 16: core::time::Duration => DurationView<'m>,
    };
    /// Sets the frequencies of a node's processors. The previous settings are restored by
    /// `restore_frequency`, when the caller leaves, and when the machine shuts down.
    Call 86 => SetFrequency, 48 {
        /// The name of the node.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// The processors; all if empty.
        cores @ 8: rt::Vec<u16> => rt::List<'m, u16, 1024>,
        /// The governor to set; unchanged if absent.
        governor @ 16: Option<rt::String> => Option<rt::Text<'m, 32>>,
        /// The lowest frequency, in kHz; unchanged if absent.
        min_khz @ 32: Option<u32> => Option<u32>,
        /// The highest frequency, in kHz; unchanged if absent.
        max_khz @ 40: Option<u32> => Option<u32>,
    };
    /// Restores the settings that all processors of a node had before the caller set any.
    Call 87 => RestoreFrequency, 8 {
        /// The name of the node.
        node @ 0: rt::String => rt::Text<'m, 1024>,
    };
    /// Lists the capabilities to a region by number, one page at a time.
    Call 88 => Holders, 16 {
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// List only numbers above this one; 0 to list from the start.
        after @ 8: u64 => u64,
    };
    /// Returns what is known of nodes (`node/NAME`) and of the links and routes between them
    /// (`link/NAME/NAME`), as records computed on request.
    Call 89 => Facts, 32 {
        /// Selects the records.
        query @ 0: Query => QueryView<'m>,
        /// The position to continue at: `next` of the previous answer, 0 at first.
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
    /// Messages from server to client in the interface `Monitor`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum MonitorReply, 'm;
    /// Reply to [`MonitorRequest::Attach`].
    Reply 1 => Attach, 32 {
        /// The caller's id.
        domain @ 0: rt::DomainId => rt::Domain,
        /// The name of its node.
        node @ 8: rt::String => rt::Text<'m, 1024>,
        /// The name of the machine.
        machine @ 16: rt::String => rt::Text<'m, 1024>,
        /// Whether the machine started the caller, which therefore has an image.
        spawned @ 24: bool => bool,
    };
    /// Reply to [`MonitorRequest::Export`].
    Reply 2 => Export, 8 {
        /// The number of the new listener, for `incoming` and `withdraw`.
        listener @ 0: u32 => u32,
    };
    /// Reply to [`MonitorRequest::Connect`].
    Reply 4 => Connect, 144 {
        /// The caller's end of the channel.
        grant @ 0: Grant => GrantView<'m>,
    };
    /// Reply to [`MonitorRequest::Spawn`].
    Reply 5 => Spawn, 8 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
    };
    /// Reply to [`MonitorRequest::Domains`].
    Reply 7 => Domains, 16 {
        /// A page of domains.
        domains @ 0: rt::Vec<DomainInfo> => rt::List<'m, DomainInfoView<'m>, 256>,
        /// Whether more domains follow.
        more @ 8: bool => bool,
    };
    /// Reply to [`MonitorRequest::Nodes`].
    Reply 8 => Nodes, 16 {
        /// A page of nodes.
        nodes @ 0: rt::Vec<NodeInfo> => rt::List<'m, NodeInfoView<'m>, 256>,
        /// Whether more nodes follow.
        more @ 8: bool => bool,
    };
    /// Reply to [`MonitorRequest::Windows`].
    Reply 17 => Windows, 16 {
        /// A page of windows.
        windows @ 0: rt::Vec<WindowInfo> => rt::List<'m, WindowInfoView<'m>, 256>,
        /// Whether more windows follow.
        more @ 8: bool => bool,
    };
    /// Reply to [`MonitorRequest::Names`].
    Reply 30 => Names, 24 {
        /// The node whose names answer; absent for those of the machine.
        origin @ 0: Option<tombolo_base::NodeId> => Option<NodeIdView<'m>>,
        /// The answer of the scope.
        answer @ 8: Answer => AnswerView<'m>,
    };
    /// Reply to [`MonitorRequest::Traced`].
    Reply 41 => Traced, 16 {
        /// A page of domains.
        domains @ 0: rt::Vec<TracedInfo> => rt::List<'m, TracedInfoView<'m>, 256>,
        /// Whether more domains follow.
        more @ 8: bool => bool,
        /// Whether the machine is tracing.
        on @ 9: bool => bool,
    };
    /// Reply to [`MonitorRequest::TraceRead`].
    Reply 42 => TraceRead, 8 {
        /// The content; shorter than requested at the end of the page.
        bytes @ 0: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A domain has connected to a listener of the caller. Descriptors accompany the event.
    Message 50 => Incoming, 152 {
        /// The listener.
        listener @ 0: u32 => u32,
        /// The caller's end of the channel.
        grant @ 8: Grant => GrantView<'m>,
    };
    /// A child has written output. Acknowledge it by `output_taken`.
    Message 51 => Output, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// 1 for its standard output, 2 for its standard error, 3 for its side stream.
        stream @ 8: u8 => u8,
        /// The output; empty at the end of the stream.
        bytes @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A child has ended. All its output has been sent before.
    Message 52 => Ended, 24 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
        /// `exit`.
        exit @ 8: Exit => ExitView<'m>,
    };
    /// A node has written to its console. Acknowledge it by `console_taken`.
    Message 53 => Console, 24 {
        /// `node`, up to 1024 bytes.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// The number of bytes lost before these: the caller was too slow, or they are no longer retained.
        dropped @ 8: u64 => u64,
        /// `bytes`, up to 61440 bytes.
        bytes @ 16: rt::Vec<u8> => rt::Blob<'m, 61440>,
    };
    /// A watch has a notice.
    Message 54 => Noticed, 48 {
        /// The node whose names are watched; absent for those of the machine.
        origin @ 0: Option<tombolo_base::NodeId> => Option<NodeIdView<'m>>,
        /// `notice`.
        notice @ 8: Notice => NoticeView<'m>,
    };
    /// The monitor refuses the connection, and closes it.
    Message 55 => TurnedAway, 16 {
        /// The reason.
        fault @ 0: Fault => FaultView<'m>,
    };
    /// Reply to [`MonitorRequest::RegionCreate`].
    Reply 60 => RegionCreate, 96 {
        /// The capability to all of it.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
    };
    /// Reply to [`MonitorRequest::CapabilityDerive`].
    Reply 61 => CapabilityDerive, 96 {
        /// The new capability.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
    };
    /// Reply to [`MonitorRequest::CapabilityShow`].
    Reply 64 => CapabilityShow, 168 {
        /// The capability.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
        /// Its region.
        region @ 96: RegionInfo => RegionInfoView<'m>,
        /// The location of foreign memory, if the caller can copy it.
        foreign @ 144: Option<ForeignPlace> => Option<ForeignPlaceView<'m>>,
    };
    /// Reply to [`MonitorRequest::Capabilities`].
    Reply 65 => Capabilities, 16 {
        /// A page of capabilities.
        capabilities @ 0: rt::Vec<CapabilityInfo> => rt::List<'m, CapabilityInfoView<'m>, 256>,
        /// Whether more capabilities follow.
        more @ 8: bool => bool,
    };
    /// Reply to [`MonitorRequest::Regions`].
    Reply 66 => Regions, 16 {
        /// A page of regions.
        regions @ 0: rt::Vec<RegionInfo> => rt::List<'m, RegionInfoView<'m>, 256>,
        /// Whether more regions follow.
        more @ 8: bool => bool,
    };
    /// Reply to [`MonitorRequest::RegionMap`].
    Reply 67 => RegionMap, 88 {
        /// The location of the memory.
        map @ 0: RegionMap => RegionMapView<'m>,
    };
    /// Reply to [`MonitorRequest::CapabilityRevoke`].
    Reply 68 => CapabilityRevoke, 16 {
        /// The number of capabilities deleted.
        removed @ 0: u32 => u32,
        /// The domains that were killed because they did not unmap the memory in time.
        killed @ 8: rt::Vec<rt::DomainId> => rt::List<'m, rt::Domain, 256>,
    };
    /// Reply to [`MonitorRequest::CapabilityAccept`].
    Reply 70 => CapabilityAccept, 168 {
        /// The capability.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
        /// Its region.
        region @ 96: RegionInfo => RegionInfoView<'m>,
        /// The location of foreign memory, if the caller can copy it.
        foreign @ 144: Option<ForeignPlace> => Option<ForeignPlaceView<'m>>,
    };
    /// Reply to [`MonitorRequest::CapabilityTakeBack`].
    Reply 71 => CapabilityTakeBack, 96 {
        /// The capability.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
    };
    /// Reply to [`MonitorRequest::Given`].
    Reply 73 => Given, 168 {
        /// The capability.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
        /// Its region.
        region @ 96: RegionInfo => RegionInfoView<'m>,
        /// The location of foreign memory, if the caller can copy it.
        foreign @ 144: Option<ForeignPlace> => Option<ForeignPlaceView<'m>>,
    };
    /// Reply to [`MonitorRequest::CapabilitySplit`].
    Reply 74 => CapabilitySplit, 8 {
        /// A capability to each part, in the same order, with the rights of the capability that was split.
        capabilities @ 0: rt::Vec<CapabilityInfo> => rt::List<'m, CapabilityInfoView<'m>, 64>,
    };
    /// Reply to [`MonitorRequest::ServiceCreate`].
    Reply 75 => ServiceCreate, 104 {
        /// The capability.
        capability @ 0: CapabilityInfo => CapabilityInfoView<'m>,
        /// The number of the listener, for `incoming` and `withdraw`.
        listener @ 96: u32 => u32,
    };
    /// Reply to [`MonitorRequest::Observe`].
    Reply 80 => Observe, 40 {
        /// A page of parts that have changed, in the order of their last changes.
        observations @ 0: rt::Vec<Observation> => rt::List<'m, ObservationView<'m>, 256>,
        /// The version that the caller now has.
        until @ 8: u64 => u64,
        /// Whether more changes are available now.
        more @ 16: bool => bool,
        /// Whether the caller must discard its state: the answers from this one on contain everything.
        anew @ 17: bool => bool,
        /// The time of the monitor's monotonic clock, on which all times in observations are based.
        now_ns @ 24: u64 => u64,
        /// The same instant by the host's wall clock, in nanoseconds since 1970 in UTC. It can jump.
        wall_ns @ 32: u64 => u64,
    };
    /// Reply to [`MonitorRequest::History`].
    Reply 81 => History, 24 {
        /// The time between two points, in ms.
        step_ms @ 0: u32 => u32,
        /// The time of the last point, by the monitor's clock.
        last_ns @ 8: u64 => u64,
        /// The points, oldest first, in the unit of the measure; 2^64 - 1 where the value is unknown.
        points @ 16: rt::Vec<u64> => rt::List<'m, u64, 512>,
    };
    /// Reply to [`MonitorRequest::RememberedOutput`].
    Reply 82 => RememberedOutput, 32 {
        /// A page of output, in order.
        pieces @ 0: rt::Vec<OutputPiece> => rt::List<'m, OutputPieceView<'m>, 256>,
        /// The number of bytes that the caller now has.
        next @ 8: u64 => u64,
        /// The number of bytes before these that are no longer retained.
        lost @ 16: u64 => u64,
        /// Whether more output is available now.
        more @ 24: bool => bool,
        /// Whether no more output will follow.
        ended @ 25: bool => bool,
    };
    /// Reply to [`MonitorRequest::Repeat`].
    Reply 84 => Repeat, 8 {
        /// `domain`.
        domain @ 0: rt::DomainId => rt::Domain,
    };
    /// Reply to [`MonitorRequest::MoveTo`].
    Reply 85 => MoveTo, 8 {
        /// The new domain.
        domain @ 0: rt::DomainId => rt::Domain,
    };
    /// Reply to [`MonitorRequest::Holders`].
    Reply 88 => Holders, 16 {
        /// A page of capabilities.
        capabilities @ 0: rt::Vec<CapabilityInfo> => rt::List<'m, CapabilityInfoView<'m>, 256>,
        /// Whether more capabilities follow.
        more @ 8: bool => bool,
    };
    /// Reply to [`MonitorRequest::Facts`].
    Reply 89 => Facts, 16 {
        /// Some of the records that match: first nodes by number, then pairs of nodes.
        records @ 0: rt::Vec<Record> => rt::List<'m, RecordView<'m>, 256>,
        /// The position to continue at.
        next @ 8: u32 => u32,
        /// Whether more records may follow.
        more @ 12: bool => bool,
    };
    /// Reply to a call without results.
    Reply 3 | 6 | 9 | 10 | 13 | 14 | 15 | 40 | 62 | 63 | 69 | 72 | 83 | 86 | 87 => Done;
    /// Reply to a call that was declined.
    Error 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 13 | 14 | 15 | 17 | 30 | 40 | 41 | 42 | 60 | 61 | 62 | 63 | 64 | 65 | 66 | 67 | 68 | 69 | 70 | 71 | 72 | 73 | 74 | 75 | 80 | 81 | 82 | 83 | 84 | 85 | 86 | 87 | 88 | 89 => Failed, 16 {
        /// `fault`.
        fault @ 0: Fault => FaultView<'m>,
    };
}
