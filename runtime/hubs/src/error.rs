//! Errors of operations on hubs.

use tombolo_hub::{BadDescription, Fault, Kind, SelectError, Violation};

/// Error of an operation on a hub.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The hub refused the operation, which had no effect.
    #[error("hub '{hub}' on {node}: {fault}")]
    Fault {
        /// Name of the hub.
        hub: String,
        /// Node that the hub is on.
        node: String,
        /// Reason of the refusal.
        fault: Fault,
    },
    /// The hub took the first of several values, but not the others.
    #[error("hub '{hub}' on {node} took {put} of the values: {}", partial_error_text(*fault))]
    Partial {
        /// Name of the hub.
        hub: String,
        /// Node that the hub is on.
        node: String,
        /// Number of values that it took.
        put: u32,
        /// Reason for the others; `None` if the operation was withdrawn.
        fault: Option<Fault>,
    },
    /// The hub has another kind than the program expects.
    #[error("hub '{hub}' on {node} is a {actual}, and was opened as a {wanted}; open it as a {actual}")]
    OtherKind {
        /// Name of the hub.
        hub: String,
        /// Node that the hub is on.
        node: String,
        /// Kinds that the program expects.
        wanted: String,
        /// Actual kind of the hub.
        actual: Kind,
    },
    /// The values of the hub have another type than those of the program.
    #[error(
        "hub '{hub}' on {node} has values of another type than '{wanted}'; \
         compare `value` in the application file with the type of the program"
    )]
    OtherType {
        /// Name of the hub.
        hub: String,
        /// Node that the hub is on.
        node: String,
        /// Type of the program.
        wanted: String,
    },
    /// The bytes of a received value are not a valid value of the type; a program that opened the hub as
    /// bytes sent them.
    #[error("hub '{hub}' on {node} brought {bytes} bytes that are not a value of type '{wanted}'")]
    BadValue {
        /// Name of the hub.
        hub: String,
        /// Node that the hub is on.
        node: String,
        /// Type of the program.
        wanted: String,
        /// Length of the received bytes.
        bytes: usize,
    },
    /// No program serves a hub of this name.
    #[error("there is no hub '{hub}' in the machine; `tombolo hubs` lists those that are served")]
    Unknown {
        /// Name that was looked for.
        hub: String,
    },
    /// Another program serves a hub of this name.
    #[error("hub '{hub}' is served already; give it another name, or end the program that serves it")]
    Taken {
        /// Name of the hub.
        hub: String,
    },
    /// The node of the hub died, or the program that serves it, and with it the contents of the hub.
    #[error("hub '{hub}' is lost: its server on {node} has ended ({why})")]
    Lost {
        /// Name of the hub.
        hub: String,
        /// Node that the hub was on.
        node: String,
        /// Evidence of the end.
        why: String,
    },
    /// The server of the hub did not answer, and the outcome of the request is unknown. A value or lock that
    /// arrives later is not lost: the next operation on this hub gets the value, and the lock is released.
    #[error("hub '{hub}' on {node} did not answer in time; its server or its node is stopped")]
    NoAnswer {
        /// Name of the hub.
        hub: String,
        /// Node that the hub is on.
        node: String,
    },
    /// The server broke the protocol.
    #[error("the server of hubs on {node} broke the protocol: {violation}")]
    Violation {
        /// Node of the server.
        node: String,
        /// The server's message.
        violation: Violation,
    },
    /// The select cannot begin.
    #[error("select over {hubs}: {error}")]
    Select {
        /// Hubs of the select.
        hubs: String,
        /// Description of the mistake.
        error: SelectError,
    },
    /// No operation became ready in time.
    #[error("select over {hubs}: none of them was ready in time")]
    NothingReady {
        /// Hubs of the select.
        hubs: String,
    },
    /// The declaration of a hub is invalid.
    #[error(transparent)]
    Description(#[from] BadDescription),
    /// An operation of the underlying library failed.
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
}

/// Describes what happened to the values that a hub did not take.
fn partial_error_text(fault: Option<Fault>) -> String {
    fault.map_or_else(|| "the rest was withdrawn".to_owned(), |fault| fault.to_string())
}

impl HubError {
    /// Returns the hub's fault, if the hub reported one.
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

    /// Whether no operation was ready in time.
    #[must_use]
    pub fn is_not_ready(&self) -> bool {
        matches!(self, HubError::NothingReady { .. }) || self.fault().is_some_and(Fault::is_not_ready)
    }
}

/// Value that was not sent, with the error.
#[derive(Debug)]
pub struct Unsent<T> {
    /// Reason why it was not sent.
    pub error: HubError,
    /// The value. With [`HubError::Lost`] and [`HubError::NoAnswer`] it may have been delivered nevertheless.
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
