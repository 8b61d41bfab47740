//! What monitors and programs have words for: nodes, channels, domains, and why something could not be done.
//!
//! Written by `tombolo idl compile` from interfaces/control/machine.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::capabilities::*;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::name_faults::*;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::names::*;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::records::*;

/// The most bytes of a piece of output, input or memory, bounded by the longest message.
pub const MAX_BYTES: u64 = 61440;

/// The most processors that can be named.
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
    /// What a build of a program is for: under Linux the number of the instruction set, on a board 128 more.
    pub open Target: u8;
    /// 64-bit x86, under Linux.
    LINUX_X86 = 1,
    /// 64-bit Arm, under Linux.
    LINUX_AARCH64 = 2,
    /// 64-bit RISC-V, under Linux.
    LINUX_RISCV64 = 3,
    /// IBM z/Architecture, under Linux.
    LINUX_S390X = 4,
    /// 32-bit x86, under Linux.
    LINUX_I386 = 5,
    /// 32-bit Arm of version 7, under Linux.
    LINUX_ARMV7 = 6,
    /// 64-bit Arm, on a board.
    BARE_AARCH64 = 130,
    /// 64-bit RISC-V, on a board.
    BARE_RISCV64 = 131,
}

rt::number! {
    /// What carries a channel.
    pub enum TransportKind: u8;
    /// Memory of one kernel that both processes map.
    Shm = 0,
    /// A PCI shared-memory window: both sides map it, at different addresses, under different kernels.
    Window = 1,
    /// A byte stream: local or TCP.
    Socket = 2,
}

rt::number! {
    /// What a node is made of.
    pub enum NodeKind: u8;
    /// The Linux that the machine runs on.
    Host = 0,
    /// Foreign programs under an emulator on the host's kernel.
    User = 1,
    /// A virtual machine, joined by a shared window.
    Vm = 2,
    /// A board without an operating system, joined by a shared window.
    Bare = 3,
    /// A Linux that was there before the machine, joined by a shared window.
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
    /// How room in a ring is given back.
    pub enum Variant: u8;
    /// Each side writes its own memory only.
    EpochCredit = 0,
    /// The receiver clears the slot.
    UsedFlag = 1,
}

rt::owned_record! {
    /// A node of the machine.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct NodeId => NodeIdView<'m>, inline 2 / 2;
    /// Its place in the machine file; 0 is the host.
    number @ 0: u16 => u16,
}

rt::owned_record! {
    /// A channel of the machine.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ChannelId => ChannelIdView<'m>, inline 8 / 8;
    /// Given out once; 0 for none.
    number @ 0: u64 => u64,
}

rt::owned_pair! {
    WindowBytes => WindowBytesView<'m>, inline 16 / 8;
    /// Those that are lent.
    lent @ 0: u64 => u64,
    /// All.
    all @ 8: u64 => u64,
}

rt::owned_record! {
    /// A node, for lists.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct NodeInfo => NodeInfoView<'m>, inline 80 / 8;
    /// Its id.
    id @ 0: tombolo_base::NodeId => NodeIdView<'m>,
    /// Its name.
    name @ 8: rt::String => rt::Text<'m, 1024>,
    /// What it is made of.
    kind @ 16: NodeKind => NodeKind,
    /// What it runs.
    isa @ 17: tombolo_base::Isa => Isa,
    /// How often it was started.
    generation @ 18: u16 => u16,
    /// Whether it runs.
    up @ 20: bool => bool,
    /// Why not.
    cause @ 24: rt::String => rt::Text<'m, 61440>,
    /// Processors, as its monitor says; 0 while unknown.
    cores @ 32: u16 => u16,
    /// Live domains.
    domains @ 36: u32 => u32,
    /// What links it to the host.
    transport @ 40: Option<tombolo_link::TransportKind> => Option<TransportKind>,
    /// Bytes of the window lent and in all; zeros without a window.
    window_bytes @ 48: (u64, u64) => WindowBytesView<'m>,
    /// Time from start to ready.
    boot @ 64: core::time::Duration => DurationView<'m>,
    /// Process of its emulator or monitor on the host.
    pid @ 72: i32 => i32,
}

rt::owned_record! {
    /// A window: memory that several nodes map.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct WindowInfo => WindowInfoView<'m>, inline 64 / 8;
    /// Its number in the machine.
    id @ 0: u16 => u16,
    /// Its name: of the window between a node and the host that of the node.
    name @ 8: rt::String => rt::Text<'m, 1024>,
    /// The nodes that map it, in the order of their numbers.
    nodes @ 16: rt::Vec<tombolo_base::NodeId> => rt::List<'m, NodeIdView<'m>, 8>,
    /// Bytes lent and in all; zeros while its node is down.
    bytes @ 24: (u64, u64) => WindowBytesView<'m>,
    /// The trust domain of its nodes.
    trust @ 40: rt::String => rt::Text<'m, 1024>,
    /// The node whose memory it is meant to be, in measurements that model that.
    home @ 48: tombolo_base::NodeId => NodeIdView<'m>,
    /// Modelled: nanoseconds that another node waits to read a line; 0 when nothing is modelled.
    read_ns @ 52: u32 => u32,
    /// Modelled: nanoseconds that another node takes to write a line.
    line_ns @ 56: u32 => u32,
}

rt::owned_record! {
    /// The shape of a channel's rings.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ChannelConfig => ChannelConfigView<'m>, inline 12 / 4;
    /// Length of a slot, in bytes: 32, 64 or 128.
    slot_bytes @ 0: u16 => u16,
    /// Slots of each ring.
    slots @ 4: u32 => u32,
    /// How room is given back.
    variant @ 8: Variant => Variant,
}

rt::owned_record! {
    /// How each side keeps its view of a window that is not coherent.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct WindowCaches => WindowCachesView<'m>, inline 24 / 8;
    /// By a cache that is emulated for each mapping; otherwise by the processor's instructions.
    emulated @ 0: bool => bool,
    /// Chooses what an emulated cache evicts.
    seed @ 8: u64 => u64,
    /// At one in this many operations an emulated cache evicts a line; 0 never.
    evict_one_in @ 16: u32 => u32,
}

rt::owned_record! {
    /// The processors of its node that a domain runs on, and its priority there.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct CpuPlacement => CpuPlacementView<'m>, inline 16 / 8;
    /// Only these processors, by the node's numbers; any if none are named.
    cpus @ 0: rt::Vec<u16> => rt::List<'m, u16, 1024>,
    /// Its real-time priority (SCHED_FIFO), from 1 to 99; 0 for none.
    real_time_priority @ 8: u8 => u8,
}

rt::owned_pair! {
    Variable => VariableView<'m>, inline 16 / 8;
    /// Its name.
    name @ 0: rt::String => rt::Text<'m, 61440>,
    /// Its value.
    value @ 8: rt::String => rt::Text<'m, 61440>,
}

rt::owned_record! {
    /// How a program is started, beside its code.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ProgramSpec => ProgramSpecView<'m>, inline 72 / 8;
    /// What it is called: `argv[0]`, and its name in lists.
    name @ 0: rt::String => rt::Text<'m, 61440>,
    /// `argv[1..]`.
    arguments @ 8: rt::Vec<rt::String> => rt::List<'m, rt::Text<'m, 61440>, 4096>,
    /// Variables that are added to its environment.
    environment @ 16: rt::Vec<(rt::String, rt::String)> => rt::List<'m, VariableView<'m>, 4096>,
    /// Its working directory; that of the node's monitor if the node does not have it.
    directory @ 24: rt::String => rt::Text<'m, 61440>,
    /// Its standard input is a pipe, fed by `input`; otherwise it reads end of file.
    stdin @ 32: bool => bool,
    /// Where on its node it runs.
    cpus @ 40: CpuPlacement => CpuPlacementView<'m>,
    /// It has a side stream: a socket to the domain that started it, whose descriptor this variable of its environment
    /// names. That domain alone feeds it, by `input`, and gets what comes from it, as `output`.
    side @ 56: Option<rt::String> => Option<rt::Text<'m, 61440>>,
}

rt::record_view! {
    ExitExited => ExitExitedView<'m>, inline 1 / 1;
    /// With this status.
    status @ 0 => u8,
}

rt::record_view! {
    ExitSignalled => ExitSignalledView<'m>, inline 1 / 1;
    /// This one.
    signal @ 0 => u8,
}

rt::record_view! {
    ExitNodeLost => ExitNodeLostView<'m>, inline 8 / 8;
    /// What happened to the node.
    cause @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultNoSuchNode => FaultNoSuchNodeView<'m>, inline 16 / 8;
    /// What was asked for.
    name @ 0 => rt::Text<'m, 61440>,
    /// What there is.
    available @ 8 => rt::List<'m, rt::Text<'m, 1024>, 256>,
}

rt::record_view! {
    FaultNodeDown => FaultNodeDownView<'m>, inline 16 / 8;
    /// Its name.
    node @ 0 => rt::Text<'m, 1024>,
    /// Why, if known.
    cause @ 8 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultNoSuchName => FaultNoSuchNameView<'m>, inline 8 / 8;
    /// What was asked for.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultNameTaken => FaultNameTakenView<'m>, inline 16 / 8;
    /// The name.
    name @ 0 => rt::Text<'m, 61440>,
    /// Who has it.
    owner @ 8 => rt::Domain,
}

rt::record_view! {
    FaultBadName => FaultBadNameView<'m>, inline 8 / 8;
    /// What was given.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultNoSuchDomain => FaultNoSuchDomainView<'m>, inline 8 / 8;
    /// What was asked for.
    domain @ 0 => rt::Domain,
}

rt::record_view! {
    FaultNoBuildForIsa => FaultNoBuildForIsaView<'m>, inline 32 / 8;
    /// The image.
    image @ 0 => rt::Text<'m, 61440>,
    /// The node.
    node @ 8 => rt::Text<'m, 1024>,
    /// What the node runs.
    isa @ 16 => Target,
    /// What the image has.
    available @ 24 => rt::List<'m, Target, 256>,
}

rt::record_view! {
    FaultBadImage => FaultBadImageView<'m>, inline 8 / 8;
    /// Why.
    why @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultStartFailed => FaultStartFailedView<'m>, inline 16 / 8;
    /// The node.
    node @ 0 => rt::Text<'m, 1024>,
    /// Why.
    why @ 8 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultNoLink => FaultNoLinkView<'m>, inline 16 / 8;
    /// One.
    from @ 0 => rt::Text<'m, 1024>,
    /// The other.
    to @ 8 => rt::Text<'m, 1024>,
}

rt::record_view! {
    FaultLimit => FaultLimitView<'m>, inline 8 / 8;
    /// Which, its value, and where to raise it.
    what @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultRefused => FaultRefusedView<'m>, inline 8 / 8;
    /// Why.
    why @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultSystem => FaultSystemView<'m>, inline 8 / 8;
    /// What, and its answer.
    what @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultName => FaultNameView<'m>, inline 16 / 8;
    /// Why.
    fault @ 0 => NameFaultView<'m>,
}

rt::record_view! {
    FaultNotGiven => FaultNotGivenView<'m>, inline 16 / 8;
    /// `name`, up to 1024 bytes.
    name @ 0 => rt::Text<'m, 1024>,
    /// The names of what it was started with, in one line.
    given @ 8 => rt::Text<'m, 61440>,
}

rt::record_view! {
    FaultCapability => FaultCapabilityView<'m>, inline 16 / 8;
    /// Why.
    fault @ 0 => CapabilityFaultView<'m>,
}

rt::owned_union! {
    /// How a domain ended.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Exit => 'm ExitView<'m>;
    /// Its program returned.
    1 => Exited {
        record: ExitExitedView<'m>, inline 1;
        /// With this status.
        status @ 0: u8 => u8,
    },
    /// A signal ended it.
    2 => Signalled {
        record: ExitSignalledView<'m>, inline 1;
        /// This one.
        signal @ 0: u8 => u8,
    },
    /// It went with its node.
    3 => NodeLost {
        record: ExitNodeLostView<'m>, inline 8;
        /// What happened to the node.
        cause @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// It is no child of a monitor, so how it ended is not known.
    4 => Left,
}

rt::owned_union! {
    /// Why a monitor refused a request. Each names what it was about and what the user can do.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Fault => 'm FaultView<'m>;
    /// No node of that name in the machine.
    1 => NoSuchNode {
        record: FaultNoSuchNodeView<'m>, inline 16;
        /// What was asked for.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// What there is.
        available @ 8: rt::Vec<rt::String> => rt::List<'m, rt::Text<'m, 1024>, 256>,
    },
    /// The node is not running.
    2 => NodeDown {
        record: FaultNodeDownView<'m>, inline 16;
        /// Its name.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// Why, if known.
        cause @ 8: rt::String => rt::Text<'m, 61440>,
    },
    /// Nobody exports that name, and the deadline passed.
    3 => NoSuchName {
        record: FaultNoSuchNameView<'m>, inline 8;
        /// What was asked for.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// Somebody exports that name already.
    4 => NameTaken {
        record: FaultNameTakenView<'m>, inline 16;
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// Who has it.
        owner @ 8: rt::DomainId => rt::Domain,
    },
    /// It is no name: empty, too long, or with characters that names cannot have.
    5 => BadName {
        record: FaultBadNameView<'m>, inline 8;
        /// What was given.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// No live domain with that id.
    6 => NoSuchDomain {
        record: FaultNoSuchDomainView<'m>, inline 8;
        /// What was asked for.
        domain @ 0: rt::DomainId => rt::Domain,
    },
    /// The image has no build that the node can run.
    7 => NoBuildForIsa {
        record: FaultNoBuildForIsaView<'m>, inline 32;
        /// The image.
        image @ 0: rt::String => rt::Text<'m, 61440>,
        /// The node.
        node @ 8: rt::String => rt::Text<'m, 1024>,
        /// What the node runs.
        isa @ 16: tombolo_base::Target => Target,
        /// What the image has.
        available @ 24: rt::Vec<tombolo_base::Target> => rt::List<'m, Target, 256>,
    },
    /// The image cannot be read.
    8 => BadImage {
        record: FaultBadImageView<'m>, inline 8;
        /// Why.
        why @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The program did not start.
    9 => StartFailed {
        record: FaultStartFailedView<'m>, inline 16;
        /// The node.
        node @ 0: rt::String => rt::Text<'m, 1024>,
        /// Why.
        why @ 8: rt::String => rt::Text<'m, 61440>,
    },
    /// Two nodes that cannot reach each other.
    10 => NoLink {
        record: FaultNoLinkView<'m>, inline 16;
        /// One.
        from @ 0: rt::String => rt::Text<'m, 1024>,
        /// The other.
        to @ 8: rt::String => rt::Text<'m, 1024>,
    },
    /// A limit of the machine was met.
    11 => Limit {
        record: FaultLimitView<'m>, inline 8;
        /// Which, its value, and where to raise it.
        what @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The request makes no sense where it was made.
    12 => Refused {
        record: FaultRefusedView<'m>, inline 8;
        /// Why.
        why @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The operating system refused something on the way.
    13 => System {
        record: FaultSystemView<'m>, inline 8;
        /// What, and its answer.
        what @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// A request about names.
    14 => Name {
        record: FaultNameView<'m>, inline 16;
        /// Why.
        fault @ 0: NameFault => NameFaultView<'m>,
    },
    /// A request about regions and capabilities.
    15 => Capability {
        record: FaultCapabilityView<'m>, inline 16;
        /// Why.
        fault @ 0: CapabilityFault => CapabilityFaultView<'m>,
    },
    /// The caller was not started with a capability of that name.
    16 => NotGiven {
        record: FaultNotGivenView<'m>, inline 16;
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The names of what it was started with, in one line.
        given @ 8: rt::String => rt::Text<'m, 61440>,
    },
}
