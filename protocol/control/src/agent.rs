//! Between the root monitor of a machine and the agent on each node.
//!
//! The root decides; agents do. An agent numbers its clients' connections, runs processes, keeps lifelines, and
//! passes its clients' requests up unread.

use alloc::string::String;
use alloc::vec::Vec;

use tombolo_base::{ChannelId, DomainId, Isa, NodeId};
use tombolo_naming::Operation;

use crate::client::{Exit, Seat};
use crate::wire::{Bytes, wire_enum, wire_struct};

wire_enum! {
    /// A descriptor that goes to a domain with a message.
    Attachment {
        /// It came along with the message to the agent.
        1 => Passed {}
        /// The domain's end of a fresh lifeline of this channel; the agent keeps the other.
        2 => Lifeline {}
        /// The window's memory.
        3 => WindowMemory {}
        /// The event counter of this interrupt vector.
        4 => Interrupt {
            /// Which.
            vector: u16,
        }
        /// The window device's registers.
        5 => Registers {}
        /// One end of a socket pair between two domains of this agent, made at the first mention.
        6 => PairEnd {
            /// False for the connecting side.
            accepting: bool,
            /// Bytes rather than messages.
            stream: bool,
        }
        /// The memory that a domain traces to. The agent makes it, and keeps it for others to read.
        40 => TracePage {
            /// Whose.
            domain: DomainId,
        }
    }
}

wire_struct! {
    /// What to run.
    StartOrder {
        /// Who it will be.
        domain: DomainId,
        /// SHA-256 of the program, which the agent has.
        program: [u8; 32],
        /// `argv[0]`.
        name: String,
        /// `argv[1..]`.
        arguments: Vec<String>,
        /// Variables to add.
        environment: Vec<(String, String)>,
        /// Where; the agent's own directory when it has no such one.
        directory: String,
        /// A pipe for standard input, or nothing.
        stdin: bool,
        /// On which processors, and before whom.
        seat: Seat,
    }
}

wire_enum! {
    /// What the root tells an agent to do.
    Order {
        /// Who the agent is. First message.
        1 => Welcome {
            /// Its node.
            node: NodeId,
            /// The node's name.
            name: String,
            /// The machine's name.
            machine: String,
        }
        /// A program, to be kept for later starts. With a descriptor, or in the window.
        2 => Program {
            /// Its SHA-256.
            hash: [u8; 32],
            /// Its length.
            length_bytes: u64,
            /// Where in the window, if it comes that way.
            window_offset_bytes: Option<u64>,
        }
        /// Run something.
        3 => Start {
            /// What.
            order: StartOrder,
        }
        /// Send a signal to a domain that the agent started.
        4 => Signal {
            /// Which.
            domain: DomainId,
            /// Its number.
            signal: u8,
        }
        /// Pass a message, with descriptors, to a client.
        5 => Deliver {
            /// Which.
            connection: u32,
            /// The channel that the attachments belong to; 0 for none.
            channel: ChannelId,
            /// In order.
            attachments: Vec<Attachment>,
            /// An encoded [`crate::client::MonitorMessage`].
            message: Bytes,
        }
        /// The other end of a channel is gone: let its lifeline show it.
        6 => HangUp {
            /// Which.
            channel: ChannelId,
        }
        /// Feed a domain's standard input; empty bytes end it.
        7 => Input {
            /// Whose.
            domain: DomainId,
            /// What.
            bytes: Bytes,
        }
        /// A domain's output was taken.
        8 => OutputTaken {
            /// Whose.
            domain: DomainId,
            /// 1 or 2.
            stream: u8,
            /// How much.
            bytes: u32,
        }
        /// Kill everything and end.
        9 => Stop {}
        /// A program will not be started again soon: let it go.
        11 => Forget {
            /// Its SHA-256.
            hash: [u8; 32],
        }
        /// A client is this domain from now on.
        30 => Admitted {
            /// Which client.
            connection: u32,
            /// Who it is.
            domain: DomainId,
        }
        /// Serve the names of your node.
        33 => ServeNames {
            /// Which that is.
            node: NodeId,
            /// How often it was started.
            generation: u16,
            /// Records that may go with one domain.
            records_per_domain: u32,
            /// Requests of one domain that may wait.
            waits_per_domain: u32,
        }
        /// A client of another node asks for something about the names of this one.
        31 => NamesAsked {
            /// Its node.
            node: NodeId,
            /// Its number there.
            connection: u32,
            /// Who it is.
            domain: DomainId,
            /// The number of its request.
            request: u32,
            /// What it asks for.
            operation: Operation,
        }
        /// That client is gone.
        32 => NamesLeft {
            /// Its node.
            node: NodeId,
            /// Its number there.
            connection: u32,
        }
        /// Close a client's connection.
        10 => Dismiss {
            /// Which.
            connection: u32,
        }
        /// Store this in the control word of every trace page, also of those to come.
        40 => Trace {
            /// 0 to stop.
            word: u64,
        }
        /// Read a part of a domain's trace page.
        41 => TraceRead {
            /// For the answer.
            ticket: u64,
            /// Whose.
            domain: DomainId,
            /// First byte.
            offset_bytes: u64,
            /// How much.
            length_bytes: u32,
        }
        /// Nobody will read a domain's trace page any more.
        42 => TraceForget {
            /// Whose.
            domain: DomainId,
        }
    }
}

wire_enum! {
    /// What an agent tells the root.
    Report {
        /// It runs. First message.
        1 => Ready {
            /// [`crate::FINGERPRINT`].
            version: u32,
            /// What it was compiled for.
            isa: Isa,
            /// Processors it has.
            cores: u16,
            /// Its process id.
            pid: i32,
        }
        /// A client connected.
        2 => Joined {
            /// Its number, never given out twice.
            connection: u32,
            /// Its process.
            pid: i32,
            /// The domain that the agent started as that process.
            domain: Option<DomainId>,
        }
        /// A client asks for something; a descriptor may come with it.
        3 => Asked {
            /// Which.
            connection: u32,
            /// An encoded [`crate::client::ClientMessage`].
            message: Bytes,
        }
        /// A client is gone.
        4 => Left {
            /// Which.
            connection: u32,
        }
        /// A domain was started.
        5 => Started {
            /// Which.
            domain: DomainId,
            /// Its process.
            pid: i32,
        }
        /// A domain could not be started.
        6 => NotStarted {
            /// Which.
            domain: DomainId,
            /// Why.
            why: String,
        }
        /// A domain ended; all its output was sent before.
        7 => Ended {
            /// Which.
            domain: DomainId,
            /// How.
            exit: Exit,
        }
        /// A domain wrote something.
        8 => Output {
            /// Which.
            domain: DomainId,
            /// 1 or 2.
            stream: u8,
            /// What; empty at the end.
            bytes: Bytes,
        }
        /// A program has been copied out of the window.
        9 => ProgramTaken {
            /// Its SHA-256.
            hash: [u8; 32],
        }
        /// A domain let go of its end of a channel.
        10 => Released {
            /// Which.
            channel: ChannelId,
        }
        /// What this node's names say to a client of another node.
        30 => NamesSay {
            /// Its node.
            node: NodeId,
            /// Its number there.
            connection: u32,
            /// An encoded [`crate::client::MonitorMessage`].
            message: Bytes,
        }
        /// A client exports a name of this node.
        31 => Exported {
            /// Which client.
            connection: u32,
            /// The name.
            name: String,
            /// The agent's number for it, from [`crate::NODE_LISTENERS`] on.
            listener: u32,
        }
        /// A name of this node is exported no more.
        32 => Withdrawn {
            /// The name.
            name: String,
        }
        /// What was fed to a domain's standard input has been taken.
        11 => InputTaken {
            /// Whose.
            domain: DomainId,
        }
        /// A part of a trace page.
        40 => TraceRead {
            /// Of the order.
            ticket: u64,
            /// As much as there is; nothing when there is no such page.
            bytes: Option<Bytes>,
        }
    }
}
