//! Minimal encoder for protocol buffers.

use alloc::vec::Vec;

/// Protocol-buffer message under construction.
#[derive(Clone, Debug, Default)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Creates an empty message.
    #[must_use]
    pub fn new() -> Message {
        Message::default()
    }

    /// Returns the encoded message.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    /// Adds a varint field.
    #[must_use]
    pub fn number(mut self, field: u32, value: u64) -> Message {
        self.tag(field, 0);
        self.varint(value);
        self
    }

    /// Adds a fixed 64-bit field.
    #[must_use]
    pub fn fixed(mut self, field: u32, value: u64) -> Message {
        self.tag(field, 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn length_delimited(mut self, field: u32, length_delimited: &[u8]) -> Message {
        self.tag(field, 2);
        self.varint(length_delimited.len() as u64);
        self.bytes.extend_from_slice(length_delimited);
        self
    }

    /// Adds a string field.
    #[must_use]
    pub fn text(self, field: u32, text: &str) -> Message {
        self.length_delimited(field, text.as_bytes())
    }

    /// Adds a nested message.
    #[must_use]
    pub fn message(self, field: u32, message: &Message) -> Message {
        self.length_delimited(field, &message.bytes)
    }

    /// Appends the fields of another message.
    #[must_use]
    pub fn append(mut self, other: &Message) -> Message {
        self.bytes.extend_from_slice(&other.bytes);
        self
    }
}
