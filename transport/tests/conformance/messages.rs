//! Messages whose bytes tell which they are, and operations that expect to succeed.

use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, Transport};

use crate::carrier::LONG;

/// The bytes of message `number`, `length_bytes` long.
pub(crate) fn message(number: u64, length_bytes: usize) -> Vec<u8> {
    let mix = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..length_bytes).map(|index| (mix >> (8 * (index % 8))) as u8 ^ index as u8).collect()
}

/// A length for message `number`: mostly a slot or two, up to `max_bytes`, and long enough to tell it by.
pub(crate) fn some_length(number: u64, max_bytes: usize) -> usize {
    (8 + (number % 61) as usize).min(max_bytes)
}

#[track_caller]
pub(crate) fn check(received: &[u8], number: u64, length_bytes: usize) {
    assert_eq!(received.len(), length_bytes, "length of message {number}");
    assert_eq!(received, message(number, length_bytes), "message {number}");
}

/// Sends with time enough.
#[track_caller]
pub(crate) fn send<T: Transport>(channel: &mut T, spin_ns: u64, bytes: &[u8]) {
    let result = wait::send(channel, &mut Spin::new(spin_ns), bytes, LONG);
    result.unwrap_or_else(|error| panic!("send: {error} (stats {:?})", channel.stats()));
}

/// Receives with time enough.
#[track_caller]
pub(crate) fn recv<T: Transport>(channel: &mut T, spin_ns: u64) -> Vec<u8> {
    let mut buffer = vec![0xaa; 3];
    let result = wait::recv_into(channel, &mut Spin::new(spin_ns), &mut buffer, LONG);
    let length = result.unwrap_or_else(|error| panic!("receive: {error} (stats {:?})", channel.stats()));
    assert_eq!(length, buffer.len());
    buffer
}

/// Receives until the channel ends; how it ended.
#[track_caller]
pub(crate) fn recv_until_end<T: Transport>(
    channel: &mut T,
    spin_ns: u64,
    mut each: impl FnMut(&[u8]),
) -> ChannelError {
    let (mut spin, mut buffer) = (Spin::new(spin_ns), Vec::new());
    loop {
        match wait::recv_into(channel, &mut spin, &mut buffer, LONG) {
            Ok(_) => each(&buffer),
            Err(error) => return error,
        }
    }
}

/// A small generator, so that a failure can be repeated.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
