//! Side that offers memory.

use std::time::Duration;

use tombolo_base::SharedMemory;
use tombolo_platform::Deadline;
use tombolo_platform::copy::{self, CopyError, CopyLoop};
use tombolo_transport::error::Awaited;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, Transport, TransportExt};

use super::wire::{ANSWER_BYTES, Answer, Command, CommandKind, FarRange, FarRefusal, MemoryId};

/// Time limit for the other side to make room for an answer that it requested.
const PATIENCE: Duration = Duration::from_secs(10);

/// Access of the other side to an offered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Copying from it.
    Read,
    /// Copying to it and filling it.
    Write,
    /// Copying from it, copying to it and filling it.
    Both,
}

impl Access {
    fn allows(self, wanted: Access) -> bool {
        self == Access::Both || self == wanted
    }
}

/// Memories that one side offers to the other.
#[derive(Debug, Default)]
pub struct Offers {
    slots: Vec<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    memory: Option<(SharedMemory, Access)>,
}

/// Maximum number of memories offered at a time.
pub const MAX_OFFERS: usize = 4096;

impl Offers {
    /// Creates an empty set of offers.
    #[must_use]
    pub fn new() -> Offers {
        Offers::default()
    }

    /// Offers a memory and keeps it mapped. Returns `None` if 4096 are already offered.
    pub fn offer(&mut self, memory: SharedMemory, access: Access) -> Option<MemoryId> {
        // A slot with exhausted generations stays empty: ids are never reused.
        let free = |slot: &Slot| slot.memory.is_none() && slot.generation < u32::MAX;
        let index = match self.slots.iter().position(free) {
            Some(index) => index,
            None if self.slots.len() < MAX_OFFERS => {
                self.slots.push(Slot::default());
                self.slots.len() - 1
            }
            None => return None,
        };
        let slot = &mut self.slots[index];
        slot.generation += 1;
        slot.memory = Some((memory, access));
        Some(MemoryId { index: index as u32, generation: slot.generation })
    }

    /// Withdraws an offer. Later commands on it are refused. Returns false if it was not offered.
    pub fn withdraw(&mut self, id: MemoryId) -> bool {
        let slot = self.slots.get_mut(id.index as usize);
        slot.filter(|slot| slot.generation == id.generation).is_some_and(|slot| slot.memory.take().is_some())
    }

    fn find(&self, id: MemoryId, wanted: Access) -> Result<&SharedMemory, FarRefusal> {
        let slot = self.slots.get(id.index as usize).filter(|slot| slot.generation == id.generation);
        let (memory, access) = slot.and_then(|slot| slot.memory.as_ref()).ok_or(FarRefusal::NoMemory)?;
        if access.allows(wanted) { Ok(memory) } else { Err(FarRefusal::NotAllowed) }
    }

    /// Returns the memory of a range, and the offset in it. Offsets beyond `usize` are out of range.
    fn resolve(&self, range: FarRange, wanted: Access) -> Result<(&SharedMemory, usize), FarRefusal> {
        let memory = self.find(range.memory, wanted)?;
        Ok((memory, usize::try_from(range.offset_bytes).map_err(|_| FarRefusal::OutOfRange)?))
    }

    /// Checks whether a command would be executed.
    fn check(&self, command: Command) -> Result<(), FarRefusal> {
        let length = usize::try_from(command.length_bytes).map_err(|_| FarRefusal::OutOfRange)?;
        let inside = |range: FarRange, wanted: Access| {
            let (memory, offset) = self.resolve(range, wanted)?;
            copy::check(memory, offset, length).map_err(to_far_refusal)
        };
        match command.kind {
            CommandKind::Write { target } | CommandKind::Fill { target, .. } => inside(target, Access::Write),
            CommandKind::Read { source } => inside(source, Access::Read),
            CommandKind::Copy { source, target } => {
                inside(source, Access::Read)?;
                inside(target, Access::Write)?;
                let near = source.offset_bytes.abs_diff(target.offset_bytes) < command.length_bytes;
                if source.memory == target.memory && near { Err(FarRefusal::Overlap) } else { Ok(()) }
            }
        }
    }

    /// Executes a command, or refuses it.
    fn execute(&self, command: Command, payload: &[u8], answer: &mut Vec<u8>) -> Result<(), FarRefusal> {
        if command.check_only {
            return self.check(command);
        }
        // At most `MAX_PIECE_BYTES`.
        let length = command.length_bytes as usize;
        let done = match command.kind {
            CommandKind::Write { target } => {
                let (memory, offset) = self.resolve(target, Access::Write)?;
                copy::write(CopyLoop::Best, memory, offset, payload)
            }
            CommandKind::Read { source } => {
                let (memory, offset) = self.resolve(source, Access::Read)?;
                copy::check(memory, offset, length).map_err(to_far_refusal)?;
                answer.resize(ANSWER_BYTES + length, 0);
                copy::read(CopyLoop::Best, memory, offset, &mut answer[ANSWER_BYTES..])
            }
            CommandKind::Fill { target, byte } => {
                let (memory, offset) = self.resolve(target, Access::Write)?;
                copy::fill(memory, offset, length, byte)
            }
            CommandKind::Copy { source, target } => {
                let from = self.resolve(source, Access::Read)?;
                copy::between(CopyLoop::Best, from, self.resolve(target, Access::Write)?, length)
            }
        };
        done.map_err(to_far_refusal)
    }
}

fn to_far_refusal(error: CopyError) -> FarRefusal {
    match error {
        CopyError::OutOfRange { .. } => FarRefusal::OutOfRange,
        CopyError::Overlap { .. } => FarRefusal::Overlap,
    }
}

/// Server at one end of a channel, which offers memory.
#[derive(Debug)]
pub struct Server<T> {
    channel: T,
    offers: Offers,
    message: Vec<u8>,
    answer: Vec<u8>,
}

impl<T: Transport> Server<T> {
    /// Serves `offers` at this end of a channel whose other end belongs to a [`Far`](super::Far) engine.
    pub fn new(channel: T, offers: Offers) -> Server<T> {
        Server { channel, offers, message: Vec::new(), answer: Vec::new() }
    }

    /// Returns the offers, for adding and withdrawing memory.
    pub fn offers(&mut self) -> &mut Offers {
        &mut self.offers
    }

    /// Returns the channel, for waiting for the next command in a waitset.
    pub fn channel(&mut self) -> &mut T {
        &mut self.channel
    }

    /// Waits for a command, executes it and sends the answer.
    ///
    /// # Errors
    /// [`ChannelError::TimedOut`] while waiting for a message: no command arrived. Any other error is final
    /// for the channel, including a malformed command and a peer that accepted no answer for ten seconds.
    pub fn serve_one(&mut self, timeout: Duration) -> Result<(), ChannelError> {
        wait::recv_into(&mut self.channel, &mut Spin::default(), &mut self.message, timeout)?;
        let Some((command, payload)) = Command::from_bytes(&self.message) else {
            return Err(ChannelError::Violation("a malformed copy command".into()));
        };
        let reads = matches!(command.kind, CommandKind::Read { .. }) && !command.check_only;
        let longest = self.channel.max_message_bytes();
        if reads && command.length_bytes as usize + ANSWER_BYTES > longest {
            return Err(ChannelError::Violation("a command to read more than a message carries".into()));
        }
        self.answer.clear();
        self.answer.resize(ANSWER_BYTES, 0);
        let result = self.offers.execute(command, payload, &mut self.answer);
        if result.is_err() {
            self.answer.truncate(ANSWER_BYTES);
        }
        let length_bytes = (self.answer.len() - ANSWER_BYTES) as u64;
        self.answer[..ANSWER_BYTES].copy_from_slice(&Answer { result, length_bytes }.to_bytes());
        wait::send(&mut self.channel, &mut Spin::default(), &self.answer, PATIENCE)
    }
}

/// Serves until the other side closes its end or `until` has passed. Returns the number of commands executed.
///
/// # Errors
/// The failure of the channel, unless it was closed.
pub fn serve<T: Transport>(server: &mut Server<T>, until: Deadline) -> Result<u64, ChannelError> {
    let mut served = 0;
    while !until.passed() {
        match server.serve_one(until.remaining()) {
            Ok(()) => served += 1,
            Err(ChannelError::Closed | ChannelError::TimedOut(Awaited::Message)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(served)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_never_reused() {
        let mut offers = Offers::new();
        let first = offers.offer(SharedMemory::zeroed(8), Access::Both).unwrap();
        let second = offers.offer(SharedMemory::zeroed(8), Access::Both).unwrap();
        assert!(offers.withdraw(first) && !offers.withdraw(first));
        let third = offers.offer(SharedMemory::zeroed(8), Access::Both).unwrap();
        assert_eq!((third.index, third.generation), (first.index, first.generation + 1));
        assert_eq!(offers.find(first, Access::Read).unwrap_err(), FarRefusal::NoMemory);
        assert!(offers.find(second, Access::Read).is_ok());
        assert!(!offers.withdraw(MemoryId { index: 9, generation: 1 }));
    }

    #[test]
    fn the_limit_on_offers_is_exact() {
        let mut offers = Offers::new();
        let memory = SharedMemory::zeroed(8);
        for _ in 0..MAX_OFFERS - 1 {
            offers.offer(memory.clone(), Access::Read).unwrap();
        }
        let last = offers.offer(memory.clone(), Access::Read).unwrap();
        assert_eq!(offers.offer(memory.clone(), Access::Read), None);
        assert!(offers.withdraw(last));
        assert!(offers.offer(memory, Access::Read).is_some());
    }

    #[test]
    fn rights_and_ranges_are_enforced() {
        let mut offers = Offers::new();
        let read = offers.offer(SharedMemory::zeroed(64), Access::Read).unwrap();
        let write = offers.offer(SharedMemory::zeroed(64), Access::Write).unwrap();
        let execute = |kind, length_bytes| {
            let check = Command { kind, check_only: true, length_bytes };
            let checked = offers.execute(check, b"", &mut Vec::new());
            let obeyed =
                offers.execute(Command { kind, check_only: false, length_bytes }, b"", &mut Vec::new());
            assert_eq!(checked, obeyed, "{kind:?}");
            obeyed
        };
        let at = |memory, offset_bytes| FarRange { memory, offset_bytes };
        assert_eq!(execute(CommandKind::Copy { source: at(read, 0), target: at(write, 0) }, 64), Ok(()));
        let backwards = CommandKind::Copy { source: at(write, 0), target: at(read, 0) };
        assert_eq!(execute(backwards, 1), Err(FarRefusal::NotAllowed));
        assert_eq!(
            execute(CommandKind::Fill { target: at(read, 0), byte: 1 }, 1),
            Err(FarRefusal::NotAllowed)
        );
        assert_eq!(execute(CommandKind::Read { source: at(write, 0) }, 1), Err(FarRefusal::NotAllowed));
        for (offset, length) in [(0, 65), (1, 64), (64, 1), (u64::MAX, 1)] {
            let fill = CommandKind::Fill { target: at(write, offset), byte: 1 };
            assert_eq!(execute(fill, length), Err(FarRefusal::OutOfRange), "{offset} {length}");
            let copy = CommandKind::Copy { source: at(read, offset), target: at(write, 0) };
            assert_eq!(execute(copy, length), Err(FarRefusal::OutOfRange), "{offset} {length}");
            assert_eq!(
                execute(CommandKind::Read { source: at(read, offset) }, length),
                Err(FarRefusal::OutOfRange)
            );
        }
        assert_eq!(execute(CommandKind::Fill { target: at(write, 64), byte: 1 }, 0), Ok(()));
    }

    #[test]
    fn overlap_is_refused() {
        let mut offers = Offers::new();
        let both = offers.offer(SharedMemory::zeroed(64), Access::Both).unwrap();
        let at = |offset_bytes| FarRange { memory: both, offset_bytes };
        let copy = CommandKind::Copy { source: at(0), target: at(31) };
        for check_only in [false, true] {
            let command = Command { kind: copy, check_only, length_bytes: 32 };
            assert_eq!(offers.execute(command, b"", &mut Vec::new()), Err(FarRefusal::Overlap));
        }
    }
}
