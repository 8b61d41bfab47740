//! Messages whose bytes identify them, and operations that must succeed.

use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, Transport, TransportExt};

use crate::patience::{deadline, expect_in_time, patience};

/// Returns the bytes of message `number`, `length_bytes` long.
pub fn message(number: u64, length_bytes: usize) -> Vec<u8> {
    let mix = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..length_bytes).map(|index| (mix >> (8 * (index % 8))) as u8 ^ index as u8).collect()
}

/// Returns a length for message `number`: mostly one or two slots, up to `max_bytes`, and long enough to
/// identify the message.
pub fn message_length(number: u64, max_bytes: usize) -> usize {
    (8 + (number % 61) as usize).min(max_bytes)
}

/// Checks that the bytes are those of message `number`.
///
/// # Panics
/// Panics if they differ.
#[track_caller]
pub fn check(received: &[u8], number: u64, length_bytes: usize) {
    assert_eq!(received.len(), length_bytes, "length of message {number}");
    assert_eq!(received, message(number, length_bytes), "message {number}");
}

/// Sends within the suite's patience.
///
/// # Panics
/// Panics if the send fails.
#[track_caller]
pub fn send<T: Transport>(channel: &mut T, spin_ns: u64, bytes: &[u8]) {
    let result = expect_in_time(|| wait::send(channel, &mut Spin::new(spin_ns), bytes, patience()));
    result.unwrap_or_else(|error| panic!("send: {error} (stats {:?})", channel.stats()));
}

/// Receives within the suite's patience.
///
/// # Panics
/// Panics if no message arrives.
#[track_caller]
pub fn recv<T: Transport>(channel: &mut T, spin_ns: u64) -> Vec<u8> {
    let mut buffer = vec![0xaa; 3];
    let result =
        expect_in_time(|| wait::recv_into(channel, &mut Spin::new(spin_ns), &mut buffer, patience()));
    let length = result.unwrap_or_else(|error| panic!("receive: {error} (stats {:?})", channel.stats()));
    assert_eq!(length, buffer.len());
    buffer
}

/// Receives by polling only.
///
/// # Panics
/// Panics if no message arrives.
#[track_caller]
pub fn recv_polling<T: Transport>(channel: &mut T) -> Vec<u8> {
    let (deadline, mut buffer) = (deadline(), Vec::new());
    loop {
        match channel.try_recv_into(&mut buffer) {
            Ok(Some(_)) => return buffer,
            Ok(None) => assert!(!deadline.passed(), "nothing came within {:?}", patience()),
            Err(error) => panic!("receive: {error} (stats {:?})", channel.stats()),
        }
    }
}

/// Receives until the channel ends. Returns how it ended.
#[track_caller]
pub fn recv_until_end<T: Transport>(
    channel: &mut T,
    spin_ns: u64,
    mut each: impl FnMut(&[u8]),
) -> ChannelError {
    let (mut spin, mut buffer) = (Spin::new(spin_ns), Vec::new());
    loop {
        match expect_in_time(|| wait::recv_into(channel, &mut spin, &mut buffer, patience())) {
            Ok(_) => each(&buffer),
            Err(error) => return error,
        }
    }
}
