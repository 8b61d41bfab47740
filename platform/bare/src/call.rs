//! Calls of a program to its board's monitor, and the data that a program receives when it starts.
//!
//! A call is a trap: its number in `x8` (aarch64) or `a7` (riscv64), up to four arguments in the first
//! registers, the result in the first. Results are never negative, except [`REFUSED`].

/// Version of this call interface. A program states the version it was built with in its [note](crate::elf),
/// and a monitor with another version refuses it.
pub const VERSION: u32 = 2;

/// Ends the program; argument: its exit status, 0 to 255. Does not return.
pub const EXIT: u64 = 0;
/// Writes; arguments: stream (0 the console, 1 output, 2 errors), address, length. Never waits: excess
/// bytes are dropped and counted. Returns the number of bytes accepted.
pub const PRINT: u64 = 1;
/// Reports to the root; arguments: address and length of an encoded report. Returns 0, or [`REFUSED`].
pub const REPORT: u64 = 2;
/// Receives the next order for the program; arguments: address and length of a buffer. Returns the order's
/// length, or 0 if there is none. An order that exceeds the buffer stays queued.
pub const ORDER: u64 = 3;
/// Sleeps until a doorbell has rung or an order has arrived since the last sleep, or until a time; argument:
/// nanoseconds of the board's clock, [`FOREVER`] for no limit. Returns the doorbells that rang, one bit for
/// each vector; bit 0 is set if orders are queued.
pub const SLEEP: u64 = 4;

/// Result of an invalid call.
pub const REFUSED: u64 = u64::MAX;
/// Time that never comes, for a sleep without limit.
pub const FOREVER: u64 = u64::MAX;

/// Size of the stack at the low end of a program's memory. The memory below is not the program's, so a stack
/// overflow faults.
pub const STACK_BYTES: u64 = 1 << 20;

/// Maximum number of windows of a board: the one with the host, and those shared with other nodes.
pub const MAX_WINDOWS: usize = 8;

/// A window, with addresses valid for the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct StartWindow {
    /// Number of the window in the machine.
    pub number: u64,
    /// Address of the window's memory.
    pub address: u64,
    /// Length of the memory; 0 for no window. In the window with the host the first pages are reserved for
    /// the monitors and inaccessible.
    pub length_bytes: u64,
    /// Address of the registers of the window's device.
    pub registers_address: u64,
}

/// Addresses of a program's resources. The monitor writes these words, in this order, at the top of the
/// program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Start {
    /// [`VERSION`] as built into the monitor.
    pub version: u64,
    /// Windows of the board, the one with the host first.
    pub windows: [StartWindow; MAX_WINDOWS],
    /// Address of free memory for the program's heap.
    pub heap_address: u64,
    /// Length of that memory, in bytes.
    pub heap_bytes: u64,
    /// Address of the encoded order that started the program.
    pub order_address: u64,
    /// Length of that order, in bytes.
    pub order_bytes: u64,
    /// Number of the program's connection to the monitors.
    pub connection: u64,
}

impl Start {
    /// Length of the encoding, in bytes.
    pub const BYTES: usize = size_of::<Start>();

    /// Encodes the words in the board's byte order, which is little-endian on every supported board.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Start::BYTES] {
        let windows = self.windows.iter().flat_map(|window| {
            [window.number, window.address, window.length_bytes, window.registers_address]
        });
        let others =
            [self.heap_address, self.heap_bytes, self.order_address, self.order_bytes, self.connection];
        let words = core::iter::once(self.version).chain(windows).chain(others);
        let mut bytes = [0; Start::BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Offset of the doorbell register in the registers of a window's device.
pub const DOORBELL_OFFSET_BYTES: u64 = 12;

/// Offset of the register with the board's own number among the peers of the window.
pub const OWN_PEER_OFFSET_BYTES: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_is_encoded_as_words_in_order() {
        let mut number = 1;
        let windows = [(); MAX_WINDOWS].map(|()| {
            number += 4;
            StartWindow {
                number: number - 3,
                address: number - 2,
                length_bytes: number - 1,
                registers_address: number,
            }
        });
        let start = Start {
            version: 1,
            windows,
            heap_address: 34,
            heap_bytes: 35,
            order_address: 36,
            order_bytes: 37,
            connection: 38,
        };
        let words: Vec<u64> = start
            .to_bytes()
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words, (1..39).collect::<Vec<u64>>());
    }
}
