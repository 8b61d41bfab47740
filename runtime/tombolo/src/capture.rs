//! Captures of a program's channels, written if the job was started with `tombolo run --capture`.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use tombolo_base::DomainId;
use tombolo_control::Grant;
use tombolo_link::Side;
use tombolo_platform::OsError;
use tombolo_transport::wrap::capture::{Capture, CaptureHeader};
use tombolo_transport::{Description, Transport};

use crate::channel::Plain;
use crate::error::Error;

/// Environment variable with the folder for captures; each end of a channel is written to a file of its own.
pub const CAPTURE_VARIABLE: &str = "TOMBOLO_CAPTURE";

/// Channel whose messages are captured.
pub(crate) type Captured = Capture<Plain, BufWriter<File>>;

/// Returns the folder for captures, if [`CAPTURE_VARIABLE`] is set.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os(CAPTURE_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Starts the capture of one end of a channel.
pub(crate) fn start(carrier: Plain, folder: &Path, grant: &Grant, own: DomainId) -> Result<Captured, Error> {
    let end = if grant.side == Side::A { "connecting" } else { "accepting" };
    let path = folder.join(format!("channel-{}-{end}.tbc", grant.channel.0));
    let Description { kind, max_message_bytes, .. } = carrier.describe();
    let max_message_bytes = u32::try_from(max_message_bytes).unwrap_or(u32::MAX);
    let about = CaptureHeader {
        side: Some(grant.side),
        channel: grant.channel.0,
        own: own.to_bits(),
        peer: grant.peer.to_bits(),
        ..CaptureHeader::new(kind, max_message_bytes)
    };
    Capture::to_file(carrier, &path, about)
        .map_err(|error| OsError::from_io(format!("capture into {}", path.display()), &error).into())
}
