//! Captures: everything that passed one end of a channel, in a file, and played back from it.
//!
//! [`Capture`] records any transport, [`Replay`] is a transport that plays a capture, [`Reader`] reads one record by
//! record. The bytes are in `docs/specs/capture.md`.

mod format;
mod read;
mod record;
mod replay;

pub use format::{About, CaptureError, Cut, Event, Flaw, HEADER_BYTES, Record, VERSION, Writer};
pub use read::Reader;
pub use record::Capture;
pub use replay::{Pace, Replay};
