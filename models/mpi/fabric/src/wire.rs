//! Encoding of messages between endpoints: little-endian words, then bytes. The first word holds kind, flags,
//! a small number and a length.

use tombolo::{Draft, Message};

/// Identifier of this protocol version; also the first word of an address.
pub(crate) const PROTOCOL: u64 = 0x0000_0002_662d_746f;

/// Flags of the first word.
pub(crate) mod flag {
    /// A tag follows.
    pub(crate) const TAGGED: u8 = 1;
    /// Data for the completion follows.
    pub(crate) const DATA: u8 = 2;
    /// An operation id of the sender follows, to be acknowledged when the bytes have arrived.
    pub(crate) const ACK: u8 = 4;
    /// The last part of a write.
    pub(crate) const LAST: u8 = 8;
    /// The previous values of an atomic operation are to be returned.
    pub(crate) const FETCH: u8 = 16;
    /// The values to compare with follow the operands.
    pub(crate) const COMPARE: u8 = 32;
}

/// Kinds of messages.
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const EAGER: u8 = 2;
    pub(crate) const STAGED: u8 = 3;
    pub(crate) const OFFER: u8 = 4;
    pub(crate) const ACCEPT: u8 = 5;
    pub(crate) const DATA: u8 = 6;
    pub(crate) const DATA_STAGED: u8 = 7;
    pub(crate) const FREE: u8 = 8;
    pub(crate) const DONE: u8 = 9;
    pub(crate) const CREDIT: u8 = 10;
    pub(crate) const STAGE: u8 = 11;
    pub(crate) const STAGE_READY: u8 = 12;
    pub(crate) const WRITE: u8 = 13;
    pub(crate) const WRITE_STAGED: u8 = 14;
    pub(crate) const READ: u8 = 15;
    pub(crate) const ATOMIC: u8 = 16;
    pub(crate) const DIRECT_REQUEST: u8 = 17;
    pub(crate) const DIRECT_REPLY: u8 = 18;
    pub(crate) const WITHDRAW: u8 = 19;
}

/// The first word of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) small: u16,
    pub(crate) length: u32,
}

impl Head {
    #[inline(always)]
    pub(crate) fn new(kind: u8) -> Head {
        Head { kind, flags: 0, small: 0, length: 0 }
    }

    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        u64::from(self.kind)
            | u64::from(self.flags) << 8
            | u64::from(self.small) << 16
            | u64::from(self.length) << 32
    }

    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> Head {
        Head {
            kind: word as u8,
            flags: (word >> 8) as u8,
            small: (word >> 16) as u16,
            length: (word >> 32) as u32,
        }
    }

    #[inline(always)]
    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Error for bytes from a peer that are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a peer sent bytes that are not a message of this protocol")]
pub(crate) struct Malformed;

/// Sequential reader of a message.
pub(crate) struct Reader<'a, 'm> {
    message: &'a Message<'m>,
    at: usize,
}

impl<'a, 'm> Reader<'a, 'm> {
    #[inline(always)]
    pub(crate) fn new(message: &'a Message<'m>) -> Self {
        Reader { message, at: 0 }
    }

    #[inline(always)]
    pub(crate) fn word(&mut self) -> Result<u64, Malformed> {
        let word = self.message.read_u64_le(self.at).map_err(|_| Malformed)?;
        self.at += 8;
        Ok(word)
    }

    #[inline(always)]
    pub(crate) fn word_if(&mut self, present: bool) -> Result<u64, Malformed> {
        if present { self.word() } else { Ok(0) }
    }

    /// Returns the number of bytes not read yet.
    #[inline(always)]
    pub(crate) fn remaining(&self) -> usize {
        self.message.len() - self.at
    }

    /// Copies bytes from the unread rest.
    #[inline(always)]
    pub(crate) fn copy(&self, offset: usize, target: &mut [u8]) {
        // In bounds, as callers check `remaining` first; otherwise the target would stay unchanged.
        let _ = self.message.read_at(self.at + offset, target);
    }

    pub(crate) fn remaining_to_boxed(&self) -> Box<[u8]> {
        let mut bytes = vec![0; self.remaining()];
        self.copy(0, &mut bytes);
        bytes.into()
    }
}

/// Sequential writer of a message.
pub(crate) struct Writer<'a, 'd> {
    draft: &'a mut Draft<'d>,
    at: usize,
}

impl<'a, 'd> Writer<'a, 'd> {
    #[inline(always)]
    pub(crate) fn new(draft: &'a mut Draft<'d>) -> Self {
        Writer { draft, at: 0 }
    }

    #[inline(always)]
    pub(crate) fn word(&mut self, word: u64) {
        // In bounds, as the length was computed; otherwise the peer would reject the message.
        let _ = self.draft.write_u64_le(self.at, word);
        self.at += 8;
    }

    #[inline(always)]
    pub(crate) fn word_if(&mut self, present: bool, word: u64) {
        if present {
            self.word(word);
        }
    }

    #[inline(always)]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.draft.write_at(self.at, bytes);
        self.at += bytes.len();
    }
}

/// Matching information of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Envelope {
    pub(crate) tagged: bool,
    pub(crate) has_data: bool,
    pub(crate) tag: u64,
    pub(crate) data: u64,
    /// Operation id of the sender to acknowledge.
    pub(crate) ack: Option<u64>,
}

impl Envelope {
    /// Returns the encoded length in bytes, including the first word.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        8 + 8 * (usize::from(self.tagged) + usize::from(self.has_data) + usize::from(self.ack.is_some()))
    }

    #[inline(always)]
    pub(crate) fn flags(&self) -> u8 {
        let if_set = |set: bool, flag: u8| if set { flag } else { 0 };
        if_set(self.tagged, flag::TAGGED)
            | if_set(self.has_data, flag::DATA)
            | if_set(self.ack.is_some(), flag::ACK)
    }

    #[inline(always)]
    pub(crate) fn write(&self, kind: u8, small: u16, length: u32, writer: &mut Writer<'_, '_>) {
        writer.word(Head { kind, flags: self.flags(), small, length }.word());
        writer.word_if(self.tagged, self.tag);
        writer.word_if(self.has_data, self.data);
        writer.word_if(self.ack.is_some(), self.ack.unwrap_or(0));
    }

    #[inline(always)]
    pub(crate) fn read(head: Head, reader: &mut Reader<'_, '_>) -> Result<Envelope, Malformed> {
        let (tagged, has_data) = (head.has(flag::TAGGED), head.has(flag::DATA));
        let tag = reader.word_if(tagged)?;
        let data = reader.word_if(has_data)?;
        let ack = if head.has(flag::ACK) { Some(reader.word()?) } else { None };
        Ok(Envelope { tagged, has_data, tag, data, ack })
    }
}

/// Short control messages about transfers. They are queued if there is no room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    /// The sender's address: the first message of a peer that connected.
    Hello { endpoint: u64, domain: u64 },
    /// Requests the bytes of an offered message.
    Accept { peer_op: u64, own_op: u64, length: u64 },
    /// The contents of a chunk have been copied, so it can be reused.
    Free { chunk: u16 },
    /// An operation of the peer has completed.
    Done { peer_op: u64, status: Status },
    /// Withdraws a message of the sender, unless it has been received already.
    Withdraw { own_op: u64 },
    /// Returns credit for messages that receives have taken.
    Credit { bytes: u64, messages: u64 },
    /// Grants the peer read access to the region with the sender's chunks.
    Stage { capability: u64, chunk_bytes: u32, chunks: u16 },
    /// Reply to `Stage`: whether the chunks are mapped.
    StageReady { ready: bool },
    /// Requests direct access to the memory of a key.
    DirectRequest { key: u64 },
    /// Reply to `DirectRequest`: location of the next piece, or `None` if direct access is not possible.
    DirectReply { key: u64, at: Option<ExposedPiece> },
    /// The result of an atomic operation.
    Result { peer_op: u64, bytes: Box<[u8]> },
}

/// Location of a piece of registered memory for direct access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExposedPiece {
    /// Capability for the region that contains it.
    pub(crate) capability: u64,
    /// Bytes of the region that the capability covers.
    pub(crate) region_bytes: u64,
    /// Offset of the piece within those bytes.
    pub(crate) offset: u64,
    /// Address of its first byte for operations.
    pub(crate) base: u64,
    /// Length in bytes.
    pub(crate) length: u64,
    /// Whether the peer may read it, and whether it may write it.
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Number of pieces that follow, each in a message of its own.
    pub(crate) more: u32,
}

/// Result of an operation at a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Done,
    NoKey,
    NoAccess,
    NoSuchOperation,
    /// The receiver discarded the message.
    Discarded,
    /// The sender withdrew the message.
    Withdrawn,
}

impl Status {
    fn number(self) -> u16 {
        self as u16
    }

    fn from_number(number: u16) -> Result<Status, Malformed> {
        Ok(match number {
            0 => Status::Done,
            1 => Status::NoKey,
            2 => Status::NoAccess,
            3 => Status::NoSuchOperation,
            4 => Status::Discarded,
            5 => Status::Withdrawn,
            _ => return Err(Malformed),
        })
    }
}

impl Control {
    /// Returns the encoded length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Control::Free { .. } | Control::StageReady { .. } => 8,
            Control::Done { .. }
            | Control::Withdraw { .. }
            | Control::DirectRequest { .. }
            | Control::DirectReply { at: None, .. } => 16,
            Control::DirectReply { at: Some(_), .. } => 56,
            Control::Credit { .. } | Control::Stage { .. } => 24,
            Control::Hello { .. } | Control::Accept { .. } => 32,
            Control::Result { bytes, .. } => 24 + bytes.len(),
        }
    }

    pub(crate) fn write(&self, draft: &mut Draft<'_>) {
        let mut writer = Writer::new(draft);
        match self {
            Control::Hello { endpoint, domain } => {
                let words = [Head::new(kind::HELLO).word(), PROTOCOL, *endpoint, *domain];
                words.into_iter().for_each(|word| writer.word(word));
            }
            Control::Accept { peer_op, own_op, length } => {
                let words = [Head::new(kind::ACCEPT).word(), *peer_op, *own_op, *length];
                words.into_iter().for_each(|word| writer.word(word));
            }
            Control::Free { chunk } => writer.word(Head { small: *chunk, ..Head::new(kind::FREE) }.word()),
            Control::Done { peer_op, status } => {
                writer.word(Head { small: status.number(), ..Head::new(kind::DONE) }.word());
                writer.word(*peer_op);
            }
            Control::Withdraw { own_op } => {
                writer.word(Head::new(kind::WITHDRAW).word());
                writer.word(*own_op);
            }
            Control::Credit { bytes, messages } => {
                let words = [Head::new(kind::CREDIT).word(), *bytes, *messages];
                words.into_iter().for_each(|word| writer.word(word));
            }
            Control::Stage { capability, chunk_bytes, chunks } => {
                writer.word(Head { small: *chunks, ..Head::new(kind::STAGE) }.word());
                writer.word(*capability);
                writer.word(u64::from(*chunk_bytes));
            }
            Control::StageReady { ready } => {
                writer.word(Head { small: u16::from(*ready), ..Head::new(kind::STAGE_READY) }.word());
            }
            Control::DirectRequest { key } => {
                writer.word(Head::new(kind::DIRECT_REQUEST).word());
                writer.word(*key);
            }
            Control::DirectReply { key, at } => {
                let small = at.map_or(0, |at| 1 | u16::from(at.read) << 1 | u16::from(at.write) << 2);
                let more = at.map_or(0, |at| at.more);
                writer.word(Head { small, length: more, ..Head::new(kind::DIRECT_REPLY) }.word());
                writer.word(*key);
                if let Some(at) = at {
                    let words = [at.capability, at.region_bytes, at.offset, at.base, at.length];
                    words.into_iter().for_each(|word| writer.word(word));
                }
            }
            Control::Result { peer_op, bytes } => {
                // Encoded as data of the operation, at offset 0.
                let words = [Head::new(kind::DATA).word(), *peer_op, 0];
                words.into_iter().for_each(|word| writer.word(word));
                writer.bytes(bytes);
            }
        }
    }

    /// Decodes a control message. `Result` is not one of the kinds, as it is encoded as data.
    pub(crate) fn read(head: Head, reader: &mut Reader<'_, '_>) -> Result<Control, Malformed> {
        let control = match head.kind {
            kind::HELLO => {
                if reader.word()? != PROTOCOL {
                    return Err(Malformed);
                }
                Control::Hello { endpoint: reader.word()?, domain: reader.word()? }
            }
            kind::ACCEPT => {
                Control::Accept { peer_op: reader.word()?, own_op: reader.word()?, length: reader.word()? }
            }
            kind::FREE => Control::Free { chunk: head.small },
            kind::DONE => Control::Done { peer_op: reader.word()?, status: Status::from_number(head.small)? },
            kind::WITHDRAW => Control::Withdraw { own_op: reader.word()? },
            kind::CREDIT => Control::Credit { bytes: reader.word()?, messages: reader.word()? },
            kind::STAGE => {
                let capability = reader.word()?;
                let chunk_bytes = u32::try_from(reader.word()?).map_err(|_| Malformed)?;
                Control::Stage { capability, chunk_bytes, chunks: head.small }
            }
            kind::STAGE_READY => Control::StageReady { ready: head.small != 0 },
            kind::DIRECT_REQUEST => Control::DirectRequest { key: reader.word()? },
            kind::DIRECT_REPLY => {
                let key = reader.word()?;
                let at = match head.small {
                    0 => None,
                    small if small & !7 == 0 && small & 1 == 1 => Some(ExposedPiece {
                        capability: reader.word()?,
                        region_bytes: reader.word()?,
                        offset: reader.word()?,
                        base: reader.word()?,
                        length: reader.word()?,
                        read: small & 2 != 0,
                        write: small & 4 != 0,
                        more: head.length,
                    }),
                    _ => return Err(Malformed),
                };
                Control::DirectReply { key, at }
            }
            _ => return Err(Malformed),
        };
        if reader.remaining() == 0 { Ok(control) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(control: &Control) -> Vec<u8> {
        let mut bytes = vec![0xff; control.bytes()];
        control.write(&mut Draft::of_bytes(&mut bytes));
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Control, Malformed> {
        let message = Message::of_bytes(bytes);
        let mut reader = Reader::new(&message);
        let head = Head::from_word(reader.word()?);
        Control::read(head, &mut reader)
    }

    #[test]
    fn control_messages_have_golden_bytes() {
        let at = ExposedPiece {
            capability: 3,
            region_bytes: 8192,
            offset: 16,
            base: 5,
            length: 100,
            read: false,
            write: true,
            more: 2,
        };
        let golden: [(Control, &[u64]); 12] = [
            (Control::DirectRequest { key: 7 }, &[17, 7]),
            (Control::DirectReply { key: 7, at: None }, &[18, 7]),
            (Control::DirectReply { key: 7, at: Some(at) }, &[0x2_0005_0012, 7, 3, 8192, 16, 5, 100]),
            (Control::Hello { endpoint: 7, domain: 9 }, &[1, PROTOCOL, 7, 9]),
            (Control::Accept { peer_op: 3, own_op: 4, length: 5 }, &[5, 3, 4, 5]),
            (Control::Free { chunk: 0x102 }, &[0x0102_0008]),
            (Control::Done { peer_op: 6, status: Status::NoAccess }, &[0x0002_0009, 6]),
            (Control::Done { peer_op: 6, status: Status::Withdrawn }, &[0x0005_0009, 6]),
            (Control::Withdraw { own_op: 6 }, &[19, 6]),
            (Control::Credit { bytes: 1, messages: 2 }, &[10, 1, 2]),
            (Control::Stage { capability: 8, chunk_bytes: 65536, chunks: 16 }, &[0x0010_000b, 8, 65536]),
            (Control::StageReady { ready: true }, &[0x0001_000c]),
        ];
        for (control, words) in golden {
            let expected: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let bytes = bytes_of(&control);
            assert_eq!(bytes, expected, "{control:?}");
            assert_eq!(read(&bytes), Ok(control));
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut]), Err(Malformed));
            }
            assert_eq!(read(&[&bytes[..], &[0]].concat()), Err(Malformed));
        }
    }

    #[test]
    fn envelope_fields_follow_its_flags() {
        for bits in 0..8 {
            let envelope = Envelope {
                tagged: bits & 1 != 0,
                has_data: bits & 2 != 0,
                tag: if bits & 1 != 0 { 5 } else { 0 },
                data: if bits & 2 != 0 { 6 } else { 0 },
                ack: (bits & 4 != 0).then_some(7),
            };
            let mut bytes = vec![0; envelope.bytes()];
            envelope.write(kind::OFFER, 1, 2, &mut Writer::new(&mut Draft::of_bytes(&mut bytes)));
            let message = Message::of_bytes(&bytes);
            let mut reader = Reader::new(&message);
            let head = Head::from_word(reader.word().unwrap());
            assert_eq!((head.kind, head.small, head.length), (kind::OFFER, 1, 2));
            assert_eq!(Envelope::read(head, &mut reader), Ok(envelope));
            assert_eq!(reader.remaining(), 0);
        }
    }
}
