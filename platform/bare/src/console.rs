//! Output buffer of fixed size that never blocks its writer, and reports losses.

/// Queue of output bytes. Bytes that do not fit are dropped and counted; the count is inserted in the output
/// once there is room again, so that no loss goes unnoticed.
#[derive(Debug)]
pub struct OutputBuffer<const N: usize> {
    bytes: [u8; N],
    /// Total number of bytes written; the next field counts those taken.
    written: usize,
    taken: usize,
    /// Bytes lost since the last note.
    unreported_bytes: u64,
    /// Bytes lost in total.
    dropped_bytes: u64,
}

/// Room reserved for the note of a loss, in bytes.
const NOTE_BYTES: usize = 48;

impl<const N: usize> Default for OutputBuffer<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> OutputBuffer<N> {
    const SIZE_CHECK: () = assert!(N.is_power_of_two() && N >= 4 * NOTE_BYTES);

    /// Returns an empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        let () = Self::SIZE_CHECK;
        OutputBuffer { bytes: [0; N], written: 0, taken: 0, unreported_bytes: 0, dropped_bytes: 0 }
    }

    /// Accepts as many bytes as fit; returns their number.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let mut room = N - NOTE_BYTES - self.len().min(N - NOTE_BYTES);
        if self.unreported_bytes > 0 {
            // Only with ample room: otherwise each line of a flood would produce its own note.
            if room < N / 4 {
                self.count_loss(bytes.len());
                return 0;
            }
            self.insert_loss_note();
            room = N - NOTE_BYTES - self.len();
        }
        let fit = bytes.len().min(room);
        self.push(&bytes[..fit]);
        self.count_loss(bytes.len() - fit);
        fit
    }

    /// Takes the next byte to output.
    pub fn take(&mut self) -> Option<u8> {
        if self.is_empty() {
            if self.unreported_bytes == 0 {
                return None;
            }
            self.insert_loss_note();
        }
        let byte = self.bytes[self.taken % N];
        self.taken = self.taken.wrapping_add(1);
        Some(byte)
    }

    /// Returns the number of bytes waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.written.wrapping_sub(self.taken)
    }

    /// Returns whether no bytes are waiting, except perhaps a pending note of a loss.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether neither bytes nor a note are waiting.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_empty() && self.unreported_bytes == 0
    }

    /// Returns the total number of bytes lost.
    #[must_use]
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    fn count_loss(&mut self, bytes: usize) {
        self.unreported_bytes += bytes as u64;
        self.dropped_bytes += bytes as u64;
    }

    /// Inserts the note of a loss; requires [`NOTE_BYTES`] of room.
    fn insert_loss_note(&mut self) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = core::mem::take(&mut self.unreported_bytes);
        while rest > 0 || at == digits.len() {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.push(b"\n[");
        self.push(&digits[at..]);
        self.push(b" bytes dropped here]\n");
    }

    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.bytes[self.written % N] = *byte;
            self.written = self.written.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain<const N: usize>(output: &mut OutputBuffer<N>) -> String {
        String::from_utf8(std::iter::from_fn(|| output.take()).collect()).unwrap()
    }

    #[test]
    fn output_that_fits_is_kept_in_order() {
        let mut output = OutputBuffer::<256>::new();
        for _ in 0..10 {
            assert_eq!(output.write(&[b'x'; 100]), 100);
            assert_eq!(output.write(b"yz"), 2);
            assert_eq!(drain(&mut output), "x".repeat(100) + "yz");
        }
        assert_eq!(output.dropped_bytes(), 0);
    }

    #[test]
    fn output_is_dropped_beyond_the_room() {
        let room = 256 - NOTE_BYTES;
        for (length, dropped) in [(room - 1, 0), (room, 0), (room + 1, 1)] {
            let mut output = OutputBuffer::<256>::new();
            assert_eq!(output.write(&vec![b'x'; length]), length - dropped);
            assert_eq!(output.dropped_bytes(), dropped as u64);
        }
    }

    #[test]
    fn a_loss_is_counted_and_reported_where_it_happened() {
        let mut output = OutputBuffer::<256>::new();
        assert_eq!(output.write(&[b'a'; 300]), 208);
        assert_eq!(output.write(b"lost too"), 0);
        assert_eq!(drain(&mut output), "a".repeat(208) + "\n[100 bytes dropped here]\n");
        assert!(output.is_drained());
        output.write(b"on");
        assert_eq!(drain(&mut output), "on");
        assert_eq!(output.dropped_bytes(), 100);
    }

    #[test]
    fn loss_note_precedes_later_output() {
        let mut output = OutputBuffer::<256>::new();
        output.write(&[b'a'; 209]);
        for _ in 0..100 {
            output.take();
        }
        assert_eq!(output.write(b"b"), 1);
        assert_eq!(drain(&mut output), "a".repeat(108) + "\n[1 bytes dropped here]\nb");
    }
}
