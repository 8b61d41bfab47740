//! Registered memory, and handling of peers' requests for it.

use crate::atomic::{AtomicOp, Datatype, apply};
use crate::completion::{CompletionKind, flags};
use crate::memory::Memory;
use crate::net::Net;
use crate::wire::{Control, Head, Malformed, Reader, Status, flag};

use super::outgoing::{Stream, StreamSource};
use super::{Core, Engine, MAX_ATOMIC_BYTES, PendingCompletion};

/// Access rights of peers to registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Whether peers may read it.
    pub read: bool,
    /// Whether peers may write it.
    pub write: bool,
}

/// Memory that a program has registered.
#[derive(Debug)]
pub struct Region<M> {
    /// The registered memory itself.
    pub memory: M,
    /// Address of its first byte in operations of peers.
    pub base: u64,
    /// Access rights of peers.
    pub access: Access,
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// Registers memory for peers under a key. Returns false if the key is in use.
    pub fn register(&mut self, key: u64, region: Region<M>) -> bool {
        if self.core.regions.contains_key(&key) {
            return false;
        }
        self.core.regions.insert(key, region);
        true
    }

    /// Removes a registration; when this returns, no peer can access the memory.
    pub fn unregister(&mut self, key: u64) {
        self.core.regions.remove(&key);
        self.net.withdraw(key);
    }
}

impl<V, M: Memory> Core<V, M> {
    /// Returns the offset of a range in the memory of a key, after checking bounds and access rights.
    pub(super) fn locate(&self, key: u64, address: u64, length: usize, write: bool) -> Result<usize, Status> {
        let region = self.regions.get(&key).ok_or(Status::NoKey)?;
        if !(if write { region.access.write } else { region.access.read }) {
            return Err(Status::NoAccess);
        }
        let offset = address.checked_sub(region.base).and_then(|offset| usize::try_from(offset).ok());
        let offset = offset.ok_or(Status::NoAccess)?;
        match offset.checked_add(length) {
            Some(end) if end <= region.memory.len() => Ok(offset),
            _ => Err(Status::NoAccess),
        }
    }

    /// Counts a peer's write, and queues a completion if the write carried data.
    pub(super) fn complete_remote_write(&mut self, peer: u32, data: Option<u64>) {
        self.counts.record(CompletionKind::RemoteWrite, false);
        if let Some(data) = data {
            let flags = flags::RMA | flags::REMOTE_WRITE | flags::REMOTE_CQ_DATA;
            let mut completion = PendingCompletion::new(CompletionKind::RemoteWrite, true, 0, flags);
            completion.entry.data = data;
            completion.entry.source = self.peers[peer as usize].source;
            self.received.push_back(completion.entry);
        }
    }

    /// Handles a peer's read request.
    pub(super) fn handle_read(
        &mut self,
        peer: u32,
        key: u64,
        address: u64,
        peer_op: u64,
        length: usize,
    ) -> Result<(), Malformed> {
        if self.is_reply_queue_full(peer) {
            return Err(Malformed);
        }
        match self.locate(key, address, length, false) {
            Ok(_) if length == 0 => self.send_control(peer, Control::Done { peer_op, status: Status::Done }),
            Ok(offset) => {
                let from = StreamSource::Region { key, offset };
                self.peers[peer as usize].streams.push_back(Stream { peer_op, from, offset: 0, length });
                self.counts.record(CompletionKind::RemoteRead, false);
                self.activate(peer);
            }
            Err(status) => self.send_control(peer, Control::Done { peer_op, status }),
        }
        Ok(())
    }

    /// Handles a peer's atomic operation.
    pub(super) fn handle_atomic(
        &mut self,
        peer: u32,
        head: Head,
        key: u64,
        address: u64,
        peer_op: u64,
        reader: &Reader<'_, '_>,
    ) -> Result<(), Malformed> {
        if self.is_reply_queue_full(peer) {
            return Err(Malformed);
        }
        let op = AtomicOp::from_number(u32::from(head.small & 0xff));
        let datatype = Datatype::from_number(u32::from(head.small >> 8));
        let control = match op.zip(datatype).filter(|(op, datatype)| op.supports(*datatype)) {
            None => Control::Done { peer_op, status: Status::NoSuchOperation },
            Some((op, datatype)) => {
                let count = head.length as usize;
                if count == 0 || count > MAX_ATOMIC_BYTES / datatype.bytes() {
                    return Err(Malformed);
                }
                let length = count * datatype.bytes();
                let operand_bytes = if op == AtomicOp::Read { 0 } else { length };
                let compare_bytes = if head.has(flag::COMPARE) { length } else { 0 };
                if reader.remaining() != operand_bytes + compare_bytes
                    || op.compares() != head.has(flag::COMPARE)
                {
                    return Err(Malformed);
                }
                let operands = reader.remaining_to_boxed();
                let (operands, compares) = operands.split_at(operand_bytes);
                match self.locate(key, address, length, op != AtomicOp::Read) {
                    Err(status) => Control::Done { peer_op, status },
                    Ok(offset) => {
                        let before =
                            self.apply_atomic(key, offset, (op, datatype), length, operands, compares);
                        let kind = if op == AtomicOp::Read {
                            CompletionKind::RemoteRead
                        } else {
                            CompletionKind::RemoteWrite
                        };
                        self.counts.record(kind, false);
                        if head.has(flag::FETCH) {
                            Control::Result { peer_op, bytes: before }
                        } else {
                            Control::Done { peer_op, status: Status::Done }
                        }
                    }
                }
            }
        };
        self.send_control(peer, control);
        Ok(())
    }

    /// Applies an atomic operation and returns the previous bytes.
    fn apply_atomic(
        &mut self,
        key: u64,
        offset: usize,
        (op, datatype): (AtomicOp, Datatype),
        length: usize,
        operands: &[u8],
        compares: &[u8],
    ) -> Box<[u8]> {
        let Some(region) = self.regions.get_mut(&key) else { return Box::default() };
        let mut before = Vec::with_capacity(length);
        region.memory.for_each_source(offset, length, |piece| before.extend_from_slice(piece));
        if op != AtomicOp::Read {
            let mut after = before.clone();
            apply(op, datatype, &mut after, operands, compares);
            region.memory.put(offset, &after);
        }
        before.into()
    }
}
