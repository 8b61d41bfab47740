//! Types shared by the interfaces of monitors: nodes, channels, domains, and the reasons of failures.
//!
//! Written by `tombolo idl compile` from interfaces/control/machine.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::capabilities::*;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::name_faults::*;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::names::*;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::records::*;

/// The most bytes of a piece of output, input or memory; limited by the longest message.
pub const MAX_BYTES: u64 = 61440;

/// The most processors in a list.
pub const MAX_CPUS: u64 = 1024;

/// The most relays between the two ends of a channel.
pub const MAX_RELAYS: u64 = 8;

rt::number! {
    /// An instruction set and byte order.
    pub open Isa: u8;
    /// 64-bit x86, little-endian.
    X86 = 1,
    /// 64-bit Arm, little-endian.
    AARCH64 = 2,
    /// 64-bit RISC-V, little-endian.
    RISCV64 = 3,
    /// IBM z/Architecture, big-endian.
    S390X = 4,
    /// 32-bit x86, little-endian.
    I386 = 5,
    /// 32-bit Arm of version 7, little-endian.
    ARMV7 = 6,
}

rt::number! {
    /// What a build of a program runs on: the number of the instruction set for Linux, 128 more for a board.
    pub open Target: u8;
    /// 64-bit x86 under Linux.
    LINUX_X86 = 1,
    /// 64-bit Arm under Linux.
    LINUX_AARCH64 = 2,
    /// 64-bit RISC-V under Linux.
    LINUX_RISCV64 = 3,
    /// IBM z/Architecture under Linux.
    LINUX_S390X = 4,
    /// 32-bit x86 under Linux.
    LINUX_I386 = 5,
    /// 32-bit Arm of version 7 under Linux.
    LINUX_ARMV7 = 6,
    /// 64-bit Arm on a board.
    BARE_AARCH64 = 130,
    /// 64-bit RISC-V on a board.
    BARE_RISCV64 = 131,
}

rt::number! {
    /// The transport of a channel.
    pub enum TransportKind: u8;
    /// Memory of one kernel that both processes map.
    Shm = 0,
    /// A shared-memory window: both sides map it, at different addresses, under different kernels.
    Window = 1,
    /// A byte stream, local or TCP.
    Socket = 2,
}

rt::number! {
    /// The kind of a node.
    pub enum NodeKind: u8;
    /// The Linux that the machine runs on.
    Host = 0,
    /// Programs of a foreign instruction set, under an emulator on the host's kernel.
    User = 1,
    /// A virtual machine behind a window.
    Vm = 2,
    /// A board without an operating system, behind a window.
    Bare = 3,
    /// A Linux that existed before the machine, behind a window.
    Attached = 4,
}

rt::number! {
    /// An end of a channel.
    pub enum Side: u8;
    /// The side that connected.
    A = 0,
    /// The side that accepted.
    B = 1,
}

rt::number! {
    /// How the receiver of a ring returns slots to the sender.
    pub enum Variant: u8;
    /// By credits; each side writes only its own memory.
    EpochCredit = 0,
    /// By clearing the slot.
    UsedFlag = 1,
}

rt::owned_record! {
    /// The id of a node.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct NodeId => NodeIdView<'m>, inline 2 / 2;
    /// Its index in the machine file; 0 is the host.
    number @ 0: u16 => u16,
}

rt::owned_record! {
    /// The id of a channel.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ChannelId => ChannelIdView<'m>, inline 8 / 8;
    /// Unique in the machine and never reused; 0 for none.
    number @ 0: u64 => u64,
}

rt::owned_pair! {
    WindowBytes => WindowBytesView<'m>, inline 16 / 8;
    /// The number of bytes lent.
    lent @ 0: u64 => u64,
    /// The number of bytes in all.
    all @ 8: u64 => u64,
}

rt::owned_record! {
    /// A node, as listed.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct NodeInfo => NodeInfoView<'m>, inline 80 / 8;
    /// The id.
    id @ 0: tombolo_base::NodeId => NodeIdView<'m>,
    /// The name.
    name @ 8: rt::String => rt::Text<'m, 1024>,
    /// The kind.
    kind @ 16: NodeKind => NodeKind,
    /// The instruction set.
    isa @ 17: tombolo_base::Isa => Isa,
    /// The number of times it has been started.
    generation @ 18: u16 => u16,
    /// Whether its monitor answers.
    up @ 20: bool => bool,
    /// The reason why it is not up; empty if it is.
    cause @ 24: rt::String => rt::Text<'m, 61440>,
    /// The number of processors as reported by its monitor; 0 while unknown.
    cores @ 32: u16 => u16,
    /// The number of live domains.
    domains @ 36: u32 => u32,
    /// The transport of its link to the host; absent for the host and for a node without such a link.
    transport @ 40: Option<tombolo_link::TransportKind> => Option<TransportKind>,
    /// The use of its window to the host; zeros without a window.
    window_bytes @ 48: (u64, u64) => WindowBytesView<'m>,
    /// The time from its start until its monitor was ready.
    boot @ 64: core::time::Duration => DurationView<'m>,
    /// The process of its emulator or monitor on the host.
    pid @ 72: i32 => i32,
}

rt::owned_record! {
    /// A window, as listed: memory that several nodes map.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct WindowInfo => WindowInfoView<'m>, inline 64 / 8;
    /// The number in the machine.
    id @ 0: u16 => u16,
    /// The name; a window between a node and the host has that of the node.
    name @ 8: rt::String => rt::Text<'m, 1024>,
    /// The nodes that map it, by number.
    nodes @ 16: rt::Vec<tombolo_base::NodeId> => rt::List<'m, NodeIdView<'m>, 8>,
    /// Its use; zeros while its node is down.
    bytes @ 24: (u64, u64) => WindowBytesView<'m>,
    /// The trust domain of its nodes.
    trust @ 40: rt::String => rt::Text<'m, 1024>,
    /// The node whose memory it is in measurements that model non-uniform access.
    home @ 48: tombolo_base::NodeId => NodeIdView<'m>,
    /// The modelled time of another node to read a cache line, in ns; 0 if nothing is modelled.
    read_ns @ 52: u32 => u32,
    /// The modelled time of another node to write a cache line, in ns.
    line_ns @ 56: u32 => u32,
}

rt::owned_record! {
    /// The shape of a channel's rings.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ChannelConfig => ChannelConfigView<'m>, inline 12 / 4;
    /// The length of a slot, in bytes: 32, 64 or 128.
    slot_bytes @ 0: u16 => u16,
    /// The number of slots of each ring.
    slots @ 4: u32 => u32,
    /// How slots are returned.
    variant @ 8: Variant => Variant,
}

rt::owned_record! {
    /// How each side of a window that is not coherent keeps its view coherent.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct WindowCaches => WindowCachesView<'m>, inline 24 / 8;
    /// Whether each mapping has an emulated cache; otherwise the processor's instructions for cache
    /// maintenance are used.
    emulated @ 0: bool => bool,
    /// The seed for the choice of lines that an emulated cache evicts.
    seed @ 8: u64 => u64,
    /// An emulated cache evicts a line at one in this many operations; 0 for never.
    evict_one_in @ 16: u32 => u32,
}

rt::owned_record! {
    /// The processors of its node that a domain runs on, and its priority.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct CpuPlacement => CpuPlacementView<'m>, inline 16 / 8;
    /// The processors, by the node's numbers; all if empty.
    cpus @ 0: rt::Vec<u16> => rt::List<'m, u16, 1024>,
    /// The real-time priority (SCHED_FIFO), from 1 to 99; 0 for none.
    real_time_priority @ 8: u8 => u8,
}

rt::owned_pair! {
    Variable => VariableView<'m>, inline 16 / 8;
    /// The name.
    name @ 0: rt::String => rt::Text<'m, 61440>,
    /// The value.
    value @ 8: rt::String => rt::Text<'m, 61440>,
}

rt::owned_record! {
    /// The parameters for starting a program.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ProgramSpec => ProgramSpecView<'m>, inline 72 / 8;
    /// Its name: `argv[0]`, and the name in lists.
    name @ 0: rt::String => rt::Text<'m, 61440>,
    /// Its arguments: `argv[1..]`.
    arguments @ 8: rt::Vec<rt::String> => rt::List<'m, rt::Text<'m, 61440>, 4096>,
    /// Variables added to its environment.
    environment @ 16: rt::Vec<(rt::String, rt::String)> => rt::List<'m, VariableView<'m>, 4096>,
    /// Its working directory; that of the node's monitor if the node does not have this one.
    directory @ 24: rt::String => rt::Text<'m, 61440>,
    /// Whether its standard input is a pipe, written by `input`; otherwise it reads end of file.
    stdin @ 32: bool => bool,
    /// The processors that it runs on, and its priority.
    cpus @ 40: CpuPlacement => CpuPlacementView<'m>,
    /// The environment variable with the descriptor of its side stream, a socket to its parent; absent if it
    /// has none. Only the parent writes to it, by `input`, and receives its output, by `output`.
    side @ 56: Option<rt::String> => Option<rt::Text<'m, 61440>>,
}

rt::record_view! {
    ExitExited => ExitExitedView<'m>, inline 1 / 1;
    /// The exit status.
    status @ 0 => u8,
}

rt::record_view! {
    ExitSignalled => ExitSignalledView<'m>, inline 1 / 1;
    /// The number of the signal.
    signal @ 0 => u8,
}

rt::record_view! {
    ExitNodeLost => ExitNodeLostView<'m>, inline 8 / 8;
    /// The reason why the node was lost.
    cause @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultNoSuchNode => FaultNoSuchNodeView<'m>, inline 16 / 8;
    /// The name that was given.
    name @ 0 => rt::Text<'m, 61440>,
    /// The names of its nodes.
    available @ 8 => rt::List<'m, rt::Text<'m, 1024>, 256>,
}

rt::record_view! {
    FaultNodeDown => FaultNodeDownView<'m>, inline 16 / 8;
    /// The name of the node.
    node @ 0 => rt::Text<'m, 1024>,
    /// The reason, if known.
    cause @ 8 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultNoSuchName => FaultNoSuchNameView<'m>, inline 8 / 8;
    /// The name.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultNameTaken => FaultNameTakenView<'m>, inline 16 / 8;
    /// The name.
    name @ 0 => rt::Text<'m, 61440>,
    /// The domain that exports it.
    owner @ 8 => rt::Domain,
}

rt::record_view! {
    FaultBadName => FaultBadNameView<'m>, inline 8 / 8;
    /// The text that was given.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultNoSuchDomain => FaultNoSuchDomainView<'m>, inline 8 / 8;
    /// The id that was given.
    domain @ 0 => rt::Domain,
}

rt::record_view! {
    FaultNoBuildForIsa => FaultNoBuildForIsaView<'m>, inline 32 / 8;
    /// The name of the image.
    image @ 0 => rt::Text<'m, 61440>,
    /// The name of the node.
    node @ 8 => rt::Text<'m, 1024>,
    /// What a build for the node must run on.
    isa @ 16 => Target,
    /// What the builds of the image run on.
    available @ 24 => rt::List<'m, Target, 256>,
}

rt::record_view! {
    FaultBadImage => FaultBadImageView<'m>, inline 8 / 8;
    /// The reason.
    why @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultStartFailed => FaultStartFailedView<'m>, inline 16 / 8;
    /// The name of the node.
    node @ 0 => rt::Text<'m, 1024>,
    /// The reason.
    why @ 8 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultNoLink => FaultNoLinkView<'m>, inline 16 / 8;
    /// The name of one node.
    from @ 0 => rt::Text<'m, 1024>,
    /// The name of the other node.
    to @ 8 => rt::Text<'m, 1024>,
}

rt::record_view! {
    FaultLimit => FaultLimitView<'m>, inline 8 / 8;
    /// The limit, its value, and how to raise it.
    what @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultRefused => FaultRefusedView<'m>, inline 8 / 8;
    /// The reason.
    why @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultSystem => FaultSystemView<'m>, inline 8 / 8;
    /// The operation, and its error.
    what @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultName => FaultNameView<'m>, inline 16 / 8;
    /// The reason.
    fault @ 0 => NameFaultView<'m>,
}

rt::record_view! {
    FaultNotGiven => FaultNotGivenView<'m>, inline 16 / 8;
    /// `name`, up to 1024 bytes.
    name @ 0 => rt::Text<'m, 1024>,
    /// The names of the capabilities that it was started with, in one line.
    given @ 8 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultCapability => FaultCapabilityView<'m>, inline 16 / 8;
    /// The reason.
    fault @ 0 => CapabilityFaultView<'m>,
}

rt::owned_union! {
    /// How a domain ended.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Exit => 'm ExitView<'m>;
    /// Its program returned.
    1 => Exited {
        record: ExitExitedView<'m>, inline 1;
        /// The exit status.
        status @ 0: u8 => u8,
    },
    /// A signal ended it.
    2 => Signalled {
        record: ExitSignalledView<'m>, inline 1;
        /// The number of the signal.
        signal @ 0: u8 => u8,
    },
    /// It was lost with its node.
    3 => NodeLost {
        record: ExitNodeLostView<'m>, inline 8;
        /// The reason why the node was lost.
        cause @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// It closed its connection. It is not a child of a monitor, so its exit status is unknown.
    4 => Left,
}

rt::owned_union! {
    /// Why a monitor refused a request, with the details that a user needs to act on it.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Fault => 'm FaultView<'m>;
    /// The machine has no node of that name.
    1 => NoSuchNode {
        record: FaultNoSuchNodeView<'m>, inline 16;
        /// The name that was given.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The names of its nodes.
        available @ 8: rt::Vec<rt::String> => rt::List<'m, rt::Text<'m, 1024>, 256>,
    },
    /// The node is not running.
    2 => NodeDown {
        record: FaultNodeDownView<'m>, inline 16;
        /// The name of the node.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// The reason, if known.
        cause @ 8: rt::String => rt::Text<'m, 61440>,
    },
    /// No domain exported the name before the deadline.
    3 => NoSuchName {
        record: FaultNoSuchNameView<'m>, inline 8;
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// Another domain exports the name.
    4 => NameTaken {
        record: FaultNameTakenView<'m>, inline 16;
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The domain that exports it.
        owner @ 8: rt::DomainId => rt::Domain,
    },
    /// The name is invalid: empty, too long, or with forbidden characters.
    5 => BadName {
        record: FaultBadNameView<'m>, inline 8;
        /// The text that was given.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// There is no live domain with that id.
    6 => NoSuchDomain {
        record: FaultNoSuchDomainView<'m>, inline 8;
        /// The id that was given.
        domain @ 0: rt::DomainId => rt::Domain,
    },
    /// The image has no build that the node can run.
    7 => NoBuildForIsa {
        record: FaultNoBuildForIsaView<'m>, inline 32;
        /// The name of the image.
        image @ 0: rt::String => rt::Text<'m, 61440>,
        /// The name of the node.
        node @ 8: rt::String => rt::Text<'m, 1024>,
        /// What a build for the node must run on.
        isa @ 16: tombolo_base::Target => Target,
        /// What the builds of the image run on.
        available @ 24: rt::Vec<tombolo_base::Target> => rt::List<'m, Target, 256>,
    },
    /// The image cannot be read.
    8 => BadImage {
        record: FaultBadImageView<'m>, inline 8;
        /// The reason.
        why @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The program could not be started.
    9 => StartFailed {
        record: FaultStartFailedView<'m>, inline 16;
        /// The name of the node.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// The reason.
        why @ 8: rt::String => rt::Text<'m, 61440>,
    },
    /// Two nodes cannot reach each other.
    10 => NoLink {
        record: FaultNoLinkView<'m>, inline 16;
        /// The name of one node.
        from @ 0: rt::String => rt::Text<'m, 1024>,
        /// The name of the other node.
        to @ 8: rt::String => rt::Text<'m, 1024>,
    },
    /// A limit of the machine was reached.
    11 => Limit {
        record: FaultLimitView<'m>, inline 8;
        /// The limit, its value, and how to raise it.
        what @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The request is not valid in this state.
    12 => Refused {
        record: FaultRefusedView<'m>, inline 8;
        /// The reason.
        why @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// An operation of the operating system failed.
    13 => System {
        record: FaultSystemView<'m>, inline 8;
        /// The operation, and its error.
        what @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// A request about names failed.
    14 => Name {
        record: FaultNameView<'m>, inline 16;
        /// The reason.
        fault @ 0: NameFault => NameFaultView<'m>,
    },
    /// A request about regions or capabilities failed.
    15 => Capability {
        record: FaultCapabilityView<'m>, inline 16;
        /// The reason.
        fault @ 0: CapabilityFault => CapabilityFaultView<'m>,
    },
    /// The caller was not started with a capability of that name.
    16 => NotGiven {
        record: FaultNotGivenView<'m>, inline 16;
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The names of the capabilities that it was started with, in one line.
        given @ 8: rt::String => rt::Text<'m, 61440>,
    },
}
