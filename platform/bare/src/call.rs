//! What a program asks of its board's monitor, and what it is told when it starts.
//!
//! A call is a trap: its number in `x8` (aarch64) or `a7` (riscv64), up to four arguments in the first
//! registers, the answer in the first. A negative answer is none of a call that has an answer.

/// The version of everything in this module. A program says which it was built with in its [note](crate::elf),
/// and is refused where another is spoken.
pub const VERSION: u32 = 1;

/// Ends the program; argument: its exit status, 0 to 255. Does not return.
pub const EXIT: u64 = 0;
/// Writes; arguments: stream (0 the console, 1 output, 2 errors), address, length. Never waits: what finds no
/// room is dropped and counted. Answers how many bytes were taken.
pub const PRINT: u64 = 1;
/// Reports to the root; arguments: address and length of an encoded report. Answers 0, or [`REFUSED`].
pub const REPORT: u64 = 2;
/// Takes the next order that is for the program; arguments: address and length of a buffer. Answers the order's
/// length, 0 when there is none. A buffer that is too short for it leaves it there.
pub const ORDER: u64 = 3;
/// Sleeps until a doorbell rang or an order came since the last sleep, or until a time; argument: nanoseconds of
/// the board's clock, [`FOREVER`] for none. Answers the doorbells that rang, a bit for each vector; bit 0 says
/// that there are orders.
pub const SLEEP: u64 = 4;

/// Answer to a call that makes no sense.
pub const REFUSED: u64 = u64::MAX;
/// The time that never comes.
pub const FOREVER: u64 = u64::MAX;

/// Bytes at the low end of a program's memory that are its stack. Below is nothing of its own, so that a stack
/// that grows too long is a fault and not a mystery.
pub const STACK_BYTES: u64 = 1 << 20;

/// Where a program finds itself. The monitor writes its words, in this order, above everything else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Start {
    /// [`VERSION`] of the monitor.
    pub version: u64,
    /// Where the window begins for the program.
    pub window_address: u64,
    /// Its length. The first pages of it are the monitors' own, and not in reach.
    pub window_bytes: u64,
    /// Where the registers of the window's device are.
    pub registers_address: u64,
    /// The memory that is free for the program's heap.
    pub heap_address: u64,
    /// Its length.
    pub heap_bytes: u64,
    /// Where the encoded order is by which the program was started.
    pub order_address: u64,
    /// Its length.
    pub order_bytes: u64,
    /// Number of the program's connection to the monitors.
    pub connection: u64,
}

impl Start {
    /// Length of its encoding.
    pub const BYTES: usize = size_of::<Start>();

    /// Its encoding: nine words of the board's own byte order, which is little-endian on every board there is.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Start::BYTES] {
        let words = [
            self.version,
            self.window_address,
            self.window_bytes,
            self.registers_address,
            self.heap_address,
            self.heap_bytes,
            self.order_address,
            self.order_bytes,
            self.connection,
        ];
        let mut bytes = [0; Start::BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Offset of the doorbell register in the window device's registers.
pub const DOORBELL_OFFSET_BYTES: u64 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_nine_words_in_order() {
        let start = Start {
            version: 1,
            window_address: 2,
            window_bytes: 3,
            registers_address: 4,
            heap_address: 5,
            heap_bytes: 6,
            order_address: 7,
            order_bytes: 8,
            connection: 9,
        };
        let words: Vec<u64> = start
            .to_bytes()
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
