//! Captures: files with everything that passed one end of a channel, and their replay.
//!
//! [`Capture`] records any transport, [`Replay`] is a transport that plays a capture back, [`Reader`] reads
//! records one by one. `docs/specs/capture.md` specifies the format.

mod format;
mod read;
mod record;
mod replay;

pub use format::{
    CaptureError, CaptureHeader, CutPosition, Defect, Event, HEADER_BYTES, Record, VERSION, Writer,
};
pub use read::Reader;
pub use record::Capture;
pub use replay::{Pace, Replay};
