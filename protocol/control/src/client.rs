//! Between a domain and its monitor.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use tombolo_base::{ChannelId, DomainId, Isa, NodeId};
use tombolo_link::{ChannelConfig, Side, TransportKind};
use tombolo_naming::{Answer, Notice, Operation, Scope};

use crate::error::Fault;
use crate::wire::{Bytes, wire_enum, wire_struct};

wire_struct! {
    /// What a domain sends.
    ClientMessage {
        /// Chosen by the domain, not 0; the answer carries it.
        request: u32,
        /// What it wants.
        body: Request,
    }
}

impl ClientMessage {
    /// Whether the bytes of a message may be something for the names of the node, as far as can be seen without
    /// decoding them.
    #[must_use]
    pub fn is_about_names(bytes: &[u8]) -> bool {
        bytes.get(size_of::<u32>()).is_some_and(|tag| ABOUT_NAMES.contains(tag))
    }
}

/// The tags of [`Request::Export`], [`Request::Withdraw`] and [`Request::Names`].
const ABOUT_NAMES: [u8; 3] = [2, 3, 30];

/// Listeners from this number on are of exports in the scope of a node, and numbered by its agent; those below by the
/// root.
pub const NODE_LISTENERS: u32 = 1 << 31;

wire_struct! {
    /// What a monitor sends.
    MonitorMessage {
        /// Of the request that this answers; 0 for an event.
        request: u32,
        /// The answer or event.
        body: Reply,
    }
}

wire_struct! {
    /// Where on its node a domain runs, and before whom.
    Seat {
        /// Only on these processors of the node; on any if none.
        cpus: Vec<u16>,
        /// Before all that have no such priority or a lower one, for as long as it wants to: from 1 to 99. 0 for none.
        real_time_priority: u8,
    }
}

impl Seat {
    /// The highest real-time priority.
    pub const MAX_PRIORITY: u8 = 99;
    /// The most processors that can be named.
    pub const MAX_CPUS: usize = 1024;

    /// As any other program.
    #[must_use]
    pub const fn any() -> Self {
        Seat { cpus: Vec::new(), real_time_priority: 0 }
    }
}

wire_struct! {
    /// What to start, and how.
    SpawnRequest {
        /// On which node.
        node: String,
        /// The caller's own image; otherwise a descriptor of the image file comes with the message.
        own_image: bool,
        /// What to call the image in messages: its file's name.
        image_name: String,
        /// `argv[1..]`.
        arguments: Vec<String>,
        /// Variables added to the environment.
        environment: Vec<(String, String)>,
        /// Working directory, where the node has it.
        directory: String,
        /// Give it a pipe for its standard input, fed by [`Request::Input`]; otherwise it reads nothing.
        stdin: bool,
        /// Where on the node it runs, and before whom.
        seat: Seat,
    }
}

wire_enum! {
    /// What a domain asks of its monitor.
    Request {
        /// First message of a connection.
        1 => Attach {
            /// [`crate::FINGERPRINT`].
            version: u32,
            /// What it is called in lists.
            program: String,
        }
        /// Take up a name.
        2 => Export {
            /// The machine's, or the own node's.
            scope: Scope,
            /// Which.
            name: String,
        }
        /// Give a name back.
        3 => Withdraw {
            /// The listener that [`Reply::Exported`] named.
            listener: u32,
        }
        /// Open a channel to whoever exports a name.
        4 => Connect {
            /// Whose name.
            scope: Scope,
            /// The name.
            name: String,
            /// How long to wait for somebody to export it.
            timeout: Duration,
            /// The shape of its rings.
            config: ChannelConfig,
        }
        /// Start a program.
        5 => Spawn {
            /// What and where.
            spawn: SpawnRequest,
        }
        /// Send a signal, and kill for certain after a grace.
        6 => Kill {
            /// Which.
            domain: DomainId,
            /// Signal number: 15 asks, 9 does not.
            signal: u8,
            /// How long until SIGKILL follows.
            grace: Duration,
        }
        /// Up to a page of the machine's domains, from an id on.
        7 => Domains {
            /// Ids above this one, as bits; 0 from the start.
            after: u64,
        }
        /// The nodes.
        9 => Nodes {}
        /// Show a node's console from now on, and what is remembered of it.
        10 => ConsoleOpen {
            /// Which.
            node: String,
        }
        /// Type on a node's console.
        11 => ConsoleInput {
            /// Which.
            node: String,
            /// What was typed.
            bytes: Bytes,
        }
        /// Console output was taken; send more.
        12 => ConsoleTaken {
            /// Which.
            node: String,
            /// How much.
            bytes: u32,
        }
        /// A child's output was taken; it may produce more.
        13 => OutputTaken {
            /// Whose.
            domain: DomainId,
            /// 1 or 2.
            stream: u8,
            /// How much.
            bytes: u32,
        }
        /// Feed a child's standard input; empty bytes end it.
        14 => Input {
            /// Whose.
            domain: DomainId,
            /// What.
            bytes: Bytes,
        }
        /// Something about names.
        30 => Names {
            /// Whose.
            scope: Scope,
            /// What.
            operation: Operation,
        }
        /// Stop the machine.
        15 => Down {}
        /// Start a node that is down, in a new generation.
        16 => Restart {
            /// Which.
            node: String,
        }
        /// Channels that came with [`Reply::Incoming`] were accepted or thrown away; others may come.
        17 => Accepted {
            /// How many.
            count: u32,
        }
        /// Trace on all nodes, or stop. From the start on the pages of domains that die are kept, until the request
        /// to stop comes once more, when they have been read.
        40 => Trace {
            /// Whether to.
            on: bool,
            /// Where there is no more room: keep the first events, rather than the latest.
            keep_first: bool,
            /// Stop when this domain leaves.
            while_attached: bool,
        }
        /// Up to a page of the domains that have a trace page, from an id on; and of the dead, whose pages are kept.
        41 => Traced {
            /// Ids above this one, as bits; 0 from the start.
            after: u64,
        }
        /// Read a part of a domain's trace page.
        42 => TraceRead {
            /// Whose.
            domain: DomainId,
            /// First byte.
            offset_bytes: u64,
            /// How much, up to [`crate::MAX_TRACE_READ_BYTES`].
            length_bytes: u32,
        }
    }
}

wire_struct! {
    /// One end of a new channel. The descriptors that come with it depend on the transport:
    /// `shm` and `socket`: the socket to the peer; `window`: the window's memory, the lifeline, the bell that
    /// wakes this side, and what rings the peer (an event counter, or the device's registers if `ring` is set).
    Grant {
        /// The channel.
        channel: ChannelId,
        /// Which end.
        side: Side,
        /// Who is at the other.
        peer: DomainId,
        /// The name of its node.
        peer_node: String,
        /// What carries it.
        transport: TransportKind,
        /// The shape of its rings.
        config: ChannelConfig,
        /// Where it lies in the window.
        window: Option<WindowPlace>,
    }
}

wire_struct! {
    /// A channel's place in a window.
    WindowPlace {
        /// First byte.
        offset_bytes: u64,
        /// Length.
        length_bytes: u64,
        /// What to store in the doorbell register to ring the peer, where that is how it is rung.
        ring: Option<u32>,
    }
}

wire_enum! {
    /// How a domain ended.
    Exit {
        /// Its program returned.
        1 => Exited {
            /// With this status.
            status: u8,
        }
        /// A signal ended it.
        2 => Signalled {
            /// This one.
            signal: u8,
        }
        /// It went with its node.
        3 => NodeLost {
            /// What happened to the node.
            cause: String,
        }
        /// It is no child of a monitor, so how it ended is not known.
        4 => Left {}
    }
}

wire_struct! {
    /// A domain, for lists.
    DomainInfo {
        /// Its id.
        id: DomainId,
        /// Its node's name.
        node: String,
        /// Its program.
        program: String,
        /// Process id in its node's kernel, for people.
        pid: i32,
        /// Who started it; none for one that attached by itself.
        parent: Option<DomainId>,
        /// Since when.
        age: Duration,
        /// Channels that it has opened or accepted so far.
        channels: u32,
    }
}

wire_struct! {
    /// A node, for lists.
    NodeInfo {
        /// Its id.
        id: NodeId,
        /// Its name.
        name: String,
        /// Its kind, as machine files say it.
        kind: String,
        /// What it runs.
        isa: Isa,
        /// How often it was started.
        generation: u16,
        /// Whether it runs.
        up: bool,
        /// Why not.
        cause: String,
        /// Processors, as its monitor says; 0 while unknown.
        cores: u16,
        /// Live domains.
        domains: u32,
        /// What links it to the host.
        transport: Option<TransportKind>,
        /// Bytes of the window lent and in all; zeros without a window.
        window_bytes: (u64, u64),
        /// Time from start to ready.
        boot: Duration,
        /// Process of its emulator or monitor on the host.
        pid: i32,
    }
}

wire_struct! {
    /// A domain with a trace page, for lists.
    TracedInfo {
        /// Its id.
        id: DomainId,
        /// Its node's name.
        node: String,
        /// Its program.
        program: String,
        /// Whether it lives.
        alive: bool,
    }
}

wire_enum! {
    /// What a monitor answers, and what it says by itself.
    Reply {
        /// It could not be done. As an event: the connection is not served, and ends.
        1 => Failed {
            /// Why.
            fault: Fault,
        }
        /// It is done.
        2 => Done {}
        /// Answer to [`Request::Attach`].
        3 => Attached {
            /// Who the caller is.
            domain: DomainId,
            /// Its node's name.
            node: String,
            /// The machine's name.
            machine: String,
            /// Whether it was started by the machine, and so has an image.
            spawned: bool,
        }
        /// Answer to [`Request::Export`].
        4 => Exported {
            /// Number for [`Reply::Incoming`] and [`Request::Withdraw`].
            listener: u32,
        }
        /// Answer to [`Request::Connect`]; descriptors come with it.
        5 => Connected {
            /// The end.
            grant: Grant,
        }
        /// Answer to [`Request::Spawn`].
        6 => Spawned {
            /// Who.
            domain: DomainId,
        }
        /// Answer to [`Request::Domains`].
        7 => Domains {
            /// A page of them, by id.
            domains: Vec<DomainInfo>,
            /// There are others.
            more: bool,
        }
        /// Answer to [`Request::Names`].
        30 => Named {
            /// Whose names: a node's, or the machine's.
            origin: Option<NodeId>,
            /// What they say.
            answer: Answer,
        }
        /// Event: what a watch reports.
        31 => Noticed {
            /// Whose names: a node's, or the machine's.
            origin: Option<NodeId>,
            /// What.
            notice: Notice,
        }
        /// Answer to [`Request::Nodes`].
        9 => Nodes {
            /// All, by id.
            nodes: Vec<NodeInfo>,
        }
        /// Answer to [`Request::Traced`].
        40 => Traced {
            /// A page of them, by id.
            domains: Vec<TracedInfo>,
            /// There are others.
            more: bool,
            /// Whether the machine traces now.
            on: bool,
        }
        /// Answer to [`Request::TraceRead`].
        41 => TraceBytes {
            /// As much as there is, up to what was asked for.
            bytes: Bytes,
        }
        /// Event: somebody connected; descriptors come with it.
        20 => Incoming {
            /// To which listener.
            listener: u32,
            /// The end.
            grant: Grant,
        }
        /// Event: a child wrote something. Take it with [`Request::OutputTaken`].
        21 => Output {
            /// Who.
            domain: DomainId,
            /// 1 or 2.
            stream: u8,
            /// What; empty at the end of the stream.
            bytes: Bytes,
        }
        /// Event: a child ended. Its output came before.
        22 => Ended {
            /// Who.
            domain: DomainId,
            /// How.
            exit: Exit,
        }
        /// Event: console output. Take it with [`Request::ConsoleTaken`].
        23 => Console {
            /// Whose.
            node: String,
            /// Bytes lost before these because nobody took them in time.
            dropped: u64,
            /// What.
            bytes: Bytes,
        }
    }
}
