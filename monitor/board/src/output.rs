//! The output of a program, on its way to the domain that started it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use tombolo_platform_bare::console::Outgoing;

/// The most output that may be unacknowledged by its reader.
const IN_FLIGHT_BYTES: usize = 64 * 1024;

/// Output bytes of one report.
const PIECE_BYTES: usize = 8 * 1024;

/// Pieces of output that may be on their way, however short.
const IN_FLIGHT_PIECES: usize = IN_FLIGHT_BYTES / PIECE_BYTES;

/// Bytes that a program may be ahead of its reader before it loses some.
const BUFFER_BYTES: usize = 32 * 1024;

/// A program's output stream. Printing never waits: a board must not stop because its output is not read.
pub(crate) struct Output {
    waiting: Box<Outgoing<BUFFER_BYTES>>,
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

    /// The next piece, if its reader has taken enough of what came before.
    pub(crate) fn next_piece(&mut self) -> Option<Vec<u8>> {
        if self.in_flight_bytes >= IN_FLIGHT_BYTES || self.in_flight_pieces >= IN_FLIGHT_PIECES {
            return None;
        }
        let piece = self.piece()?;
        self.in_flight_bytes += piece.len();
        self.in_flight_pieces += 1;
        Some(piece)
    }

    /// The next piece to send.
    pub(crate) fn piece(&mut self) -> Option<Vec<u8>> {
        let piece: Vec<u8> = core::iter::from_fn(|| self.waiting.take()).take(PIECE_BYTES).collect();
        (!piece.is_empty()).then_some(piece)
    }

    pub(crate) fn taken(&mut self, bytes: usize) {
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes);
        self.in_flight_pieces = self.in_flight_pieces.saturating_sub(1);
    }
}
