//! What goes wrong with hubs.

use tombolo_hub::{BadDescription, Fault, Kind, SelectError, Violation};

/// Why an operation on a hub failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The hub did not do it. The operation had no effect.
    #[error("hub '{hub}' on {node}: {fault}")]
    Fault {
        /// The name of the hub.
        hub: String,
        /// The node that it is on.
        node: String,
        /// Why not.
        fault: Fault,
    },
    /// Of several values the first ones are in the hub, and it did not take the others.
    #[error("hub '{hub}' on {node} took {put} of the values: {}", of_rest(*fault))]
    Partial {
        /// The name of the hub.
        hub: String,
        /// The node that it is on.
        node: String,
        /// How many it took.
        put: u32,
        /// Why not the others; `None`: the operation was withdrawn.
        fault: Option<Fault>,
    },
    /// The hub is of another kind than it was opened as.
    #[error("hub '{hub}' on {node} is a {actual}, and was opened as a {wanted}; open it as a {actual}")]
    OtherKind {
        /// The name of the hub.
        hub: String,
        /// The node that it is on.
        node: String,
        /// As what it was opened.
        wanted: String,
        /// What it is.
        actual: Kind,
    },
    /// The values of the hub are of another type than those of the program.
    #[error(
        "hub '{hub}' on {node} has values of another type than '{wanted}'; \
         compare `value` in the application file with the type of the program"
    )]
    OtherType {
        /// The name of the hub.
        hub: String,
        /// The node that it is on.
        node: String,
        /// The type of the program.
        wanted: String,
    },
    /// A hub was given bytes that are not a value of its type, by a program that opened it as bytes.
    #[error("hub '{hub}' on {node} brought {bytes} bytes that are not a value of type '{wanted}'")]
    BadValue {
        /// The name of the hub.
        hub: String,
        /// The node that it is on.
        node: String,
        /// The type of the program.
        wanted: String,
        /// Length of what came.
        bytes: usize,
    },
    /// No program serves a hub of this name.
    #[error("there is no hub '{hub}' in the machine; `tombolo hubs` lists those that are served")]
    Unknown {
        /// The name that was looked for.
        hub: String,
    },
    /// Another program serves a hub of this name.
    #[error("hub '{hub}' is served already; give it another name, or end the program that serves it")]
    Taken {
        /// The name.
        hub: String,
    },
    /// The node of the hub died, or the program that serves it, with what the hub had.
    #[error("hub '{hub}' is lost: its server on {node} has ended ({why})")]
    Lost {
        /// The name of the hub.
        hub: String,
        /// The node that it was on.
        node: String,
        /// The evidence.
        why: String,
    },
    /// The server of the hub did not answer. What it does with the request is unknown; a value or a lock that
    /// still comes is not lost: the next operation on this hub gets the value, and the lock is given back.
    #[error("hub '{hub}' on {node} did not answer in time; its server or its node is stopped")]
    NoAnswer {
        /// The name of the hub.
        hub: String,
        /// The node that it is on.
        node: String,
    },
    /// The server broke the protocol.
    #[error("the server of hubs on {node} broke the protocol: {violation}")]
    Violation {
        /// The node of the server.
        node: String,
        /// What it sent.
        violation: Violation,
    },
    /// A select that cannot begin.
    #[error("select over {hubs}: {error}")]
    Select {
        /// The hubs that it is about.
        hubs: String,
        /// What is wrong.
        error: SelectError,
    },
    /// Nothing became ready in time.
    #[error("select over {hubs}: none of them was ready in time")]
    NothingReady {
        /// The hubs.
        hubs: String,
    },
    /// A hub that cannot be declared so.
    #[error(transparent)]
    Description(#[from] BadDescription),
    /// Something beneath failed.
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
}

/// What became of the values that a hub did not take.
fn of_rest(fault: Option<Fault>) -> String {
    fault.map_or_else(|| "the rest was withdrawn".to_owned(), |fault| fault.to_string())
}

impl HubError {
    /// What the hub said, if it said something.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match self {
            HubError::Fault { fault, .. } => Some(*fault),
            HubError::Partial { fault, .. } => *fault,
            _ => None,
        }
    }

    /// Whether the hub is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.fault() == Some(Fault::Closed)
    }

    /// Whether nothing was ready in time.
    #[must_use]
    pub fn is_not_ready(&self) -> bool {
        matches!(self, HubError::NothingReady { .. }) || self.fault().is_some_and(Fault::is_not_ready)
    }
}

/// A value that was not sent, and why.
#[derive(Debug)]
pub struct Unsent<T> {
    /// Why it was not sent.
    pub error: HubError,
    /// The value. With [`HubError::Lost`] and [`HubError::NoAnswer`] it may have been delivered all the same.
    pub value: T,
}

impl<T> std::fmt::Display for Unsent<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: std::fmt::Debug> std::error::Error for Unsent<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<T> From<Unsent<T>> for HubError {
    fn from(unsent: Unsent<T>) -> HubError {
        unsent.error
    }
}
