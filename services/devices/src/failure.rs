//! Errors that end a device, or one of its channels.

use tombolo_platform::OsError;
use tombolo_virtqueue::{NotInFlight, Violation};

/// Reason why a device, or one of its channels, ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
    #[error(transparent)]
    Os(#[from] OsError),
    #[error("the peer broke the protocol of devices: {0}")]
    Violation(#[from] Violation),
    #[error(transparent)]
    NotInFlight(#[from] NotInFlight),
    /// No reply arrived in time.
    #[error("the server did not answer a request within its time limit")]
    ReplyTimeout,
    /// The disk served under this name is a different one than before.
    #[error("the disk '{0}' came back with another size or other abilities than before; attach it anew")]
    DiskChanged(String),
    #[error("{0}")]
    Usage(String),
}

impl<T> From<Box<tombolo::NotSent<T>>> for Failure {
    fn from(not_sent: Box<tombolo::NotSent<T>>) -> Self {
        Failure::Tombolo(not_sent.error)
    }
}

impl Failure {
    /// Returns whether this node's monitor is gone, so that waiting is pointless.
    pub(crate) fn is_monitor_lost(&self) -> bool {
        matches!(self, Failure::Tombolo(tombolo::Error::MonitorLost { .. }))
    }
}
