//! Buffers and flow control for a program's output to the domain that started it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use tombolo_platform_bare::console::OutputBuffer;

/// Number of bytes in flight, not yet acknowledged by the reader, at which sending pauses.
const IN_FLIGHT_BYTES: usize = 64 * 1024;

/// Maximum number of output bytes in one report.
const PIECE_BYTES: usize = 8 * 1024;

/// Number of pieces in flight, of any length, at which sending pauses.
const IN_FLIGHT_PIECES: usize = IN_FLIGHT_BYTES / PIECE_BYTES;

/// Size of the buffer for output that was not sent yet, in bytes. Output that does not fit is dropped.
const BUFFER_BYTES: usize = 32 * 1024;

/// Output stream of a program. Printing never blocks: a board must not stop because its output is not read.
pub(crate) struct Output {
    waiting: Box<OutputBuffer<BUFFER_BYTES>>,
    in_flight_bytes: usize,
    in_flight_pieces: usize,
}

impl Output {
    pub(crate) fn new() -> Self {
        Output { waiting: Box::default(), in_flight_bytes: 0, in_flight_pieces: 0 }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        self.waiting.write(bytes)
    }

    /// Takes the next piece and counts it as in flight; `None` while too much is in flight.
    pub(crate) fn next_piece(&mut self) -> Option<Vec<u8>> {
        if self.in_flight_bytes >= IN_FLIGHT_BYTES || self.in_flight_pieces >= IN_FLIGHT_PIECES {
            return None;
        }
        let piece = self.piece()?;
        self.in_flight_bytes += piece.len();
        self.in_flight_pieces += 1;
        Some(piece)
    }

    /// Takes the next piece, regardless of how much is in flight.
    pub(crate) fn piece(&mut self) -> Option<Vec<u8>> {
        let piece: Vec<u8> = core::iter::from_fn(|| self.waiting.take()).take(PIECE_BYTES).collect();
        (!piece.is_empty()).then_some(piece)
    }

    pub(crate) fn taken(&mut self, bytes: usize) {
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes);
        self.in_flight_pieces = self.in_flight_pieces.saturating_sub(1);
    }
}
