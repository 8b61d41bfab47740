//! Captures: a file with everything that passed one end of a channel, and its replay.
//!
//! [`Capture`] records any transport, [`Replay`] is a transport that plays a capture back, [`Reader`] reads
//! one record after the other. `docs/specs/capture.md` specifies the bytes.

mod format;
mod read;
mod record;
mod replay;

pub use format::{About, CaptureError, Cut, Event, Flaw, HEADER_BYTES, Record, VERSION, Writer};
pub use read::Reader;
pub use record::Capture;
pub use replay::{Pace, Replay};
