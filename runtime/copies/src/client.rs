//! Client of a copy service.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use tombolo::channel::wait_any;
use tombolo::interface::{CallError, Malformed};
use tombolo::region::{Capability, FarEnd, Rights};
use tombolo::{Channel, ChannelOptions, Domain, Error};
use tombolo_stubs::copies::{
    Copies as Interface, CopiesCancel, CopiesClient, CopiesCopy, CopiesEndedView, CopiesEvents, CopiesFill,
    CopiesRegisterRequest, CopiesWithdrawRequest, CopyFault, CopyPlace, MAX_DESCRIPTORS,
};

use crate::CopiesError;
use crate::server::service_name;

/// Timeout of a wait for room, after which completions are received.
const ROOM_TIMEOUT: Duration = Duration::from_millis(1);

/// Memory that a client has registered. It stays registered until it is withdrawn or the client ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    number: u32,
    length_bytes: u64,
    writable: bool,
}

impl Memory {
    /// Length of the registered memory, in bytes.
    #[must_use]
    pub fn length_bytes(self) -> u64 {
        self.length_bytes
    }

    /// Whether it can be the target of copies.
    #[must_use]
    pub fn is_writable(self) -> bool {
        self.writable
    }

    /// Returns the place at an offset in this memory.
    #[must_use]
    pub fn at(self, offset_bytes: u64) -> Place {
        Place { memory: self, offset_bytes }
    }
}

/// Place in registered memory, given by an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    memory: Memory,
    offset_bytes: u64,
}

impl From<Place> for CopyPlace {
    fn from(place: Place) -> Self {
        CopyPlace { memory: place.memory.number, offset_bytes: place.offset_bytes }
    }
}

/// Copy to be enqueued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copy {
    source: Place,
    target: Place,
    length_bytes: u64,
    fence: bool,
}

impl Copy {
    /// Describes a copy of `length_bytes` bytes.
    #[must_use]
    pub fn new(source: Place, target: Place, length_bytes: u64) -> Copy {
        Copy { source, target, length_bytes, fence: false }
    }

    /// Adds a fence: the copy starts when all descriptors that this client enqueued before it have ended, and
    /// fails if one of those that were in progress failed.
    #[must_use]
    pub fn fenced(mut self) -> Copy {
        self.fence = true;
        self
    }
}

/// Fill of a range with one byte value, to be enqueued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fill {
    target: Place,
    byte: u8,
    length_bytes: u64,
    fence: bool,
}

impl Fill {
    /// Describes a fill of `length_bytes` bytes.
    #[must_use]
    pub fn new(target: Place, byte: u8, length_bytes: u64) -> Fill {
        Fill { target, byte, length_bytes, fence: false }
    }

    /// Adds a fence, like [`Copy::fenced`].
    #[must_use]
    pub fn fenced(mut self) -> Fill {
        self.fence = true;
        self
    }
}

/// Copy or fill that was enqueued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Descriptor(u32);

/// Completion of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Descriptor that has ended.
    pub descriptor: Descriptor,
    /// Reason of the failure, if it failed: the bytes of its target are unspecified then.
    pub fault: Option<CopyFault>,
}

/// Completions that the service reported and the program has not taken yet.
#[derive(Debug, Default)]
struct CompletionQueue(VecDeque<Completion>);

impl CopiesEvents for CompletionQueue {
    fn ended(&mut self, event: CopiesEndedView<'_>) -> Result<(), Malformed> {
        let (descriptor, fault) = (Descriptor(event.descriptor()?), event.fault()?);
        self.0.push_back(Completion { descriptor, fault });
        Ok(())
    }
}

/// Connection of a client to a copy service. Dropping it withdraws the registered memory and cancels the
/// enqueued descriptors.
#[derive(Debug)]
pub struct Copies {
    client: CopiesClient<Channel, CompletionQueue>,
    node: String,
    in_progress: BTreeSet<u32>,
    last_descriptor: u32,
}

impl Copies {
    /// Connects to the copy service of a node.
    ///
    /// # Errors
    /// [`Error`] if there is no service on that node in time.
    pub fn connect(domain: &Domain, node: &str) -> Result<Copies, CopiesError> {
        let options = ChannelOptions::default().interface_hash(Interface::HASH);
        Copies::from_channel(options.connect(domain, service_name(node))?)
    }

    /// Connects with a capability for the [listener](crate::Server::capability) of a service.
    ///
    /// # Errors
    /// Same as [`Domain::connect`].
    pub fn connect_by(domain: &Domain, service: &Capability) -> Result<Copies, CopiesError> {
        let options = ChannelOptions::default().interface_hash(Interface::HASH);
        Copies::from_channel(options.connect(domain, service)?)
    }

    fn from_channel(channel: Channel) -> Result<Copies, CopiesError> {
        let node = channel.peer_node().to_owned();
        let client = CopiesClient::bind(channel, CompletionQueue::default()).map_err(Error::from)?;
        Ok(Copies { client, node, in_progress: BTreeSet::new(), last_descriptor: 0 })
    }

    /// Name of the service's node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Registers memory with a subset of the capability's rights: [`Rights::READ`] to copy from it,
    /// [`Rights::READ_WRITE`] to copy to it as well. The capability has to include the right to grant.
    ///
    /// # Errors
    /// [`CopiesError::Fault`]; [`Error::Monitor`] with the right that the capability lacks.
    pub fn register(&mut self, memory: &Capability, rights: Rights) -> Result<Memory, CopiesError> {
        let memory = memory.copy_to(FarEnd::from(self.client.port_mut()), rights)?;
        let answer = self.client.register(&CopiesRegisterRequest { memory });
        let read =
            answer.and_then(|answer| Ok((answer.memory()?, answer.length_bytes()?, answer.writable()?)));
        match read {
            Ok((number, length_bytes, writable)) => Ok(Memory { number, length_bytes, writable }),
            Err(CallError::Declined(fault)) => Err(self.fault(fault)),
            Err(error) => Err(Error::from(error).into()),
        }
    }

    /// Withdraws memory: the service unmaps it and releases its right to it.
    ///
    /// # Errors
    /// [`CopyFault::IN_USE`] while a descriptor that has not ended uses the memory;
    /// [`CopyFault::UNKNOWN_MEMORY`].
    pub fn withdraw(&mut self, memory: Memory) -> Result<(), CopiesError> {
        match self.client.withdraw(&CopiesWithdrawRequest { memory: memory.number }).map(|_| ()) {
            Ok(()) => Ok(()),
            Err(CallError::Declined(fault)) => Err(self.fault(fault)),
            Err(error) => Err(Error::from(error).into()),
        }
    }

    fn fault(&self, fault: CopyFault) -> CopiesError {
        CopiesError::Fault { node: self.node.clone(), fault }
    }

    /// Enqueues a copy. The service validates it, and reports errors in the end of the descriptor.
    ///
    /// # Errors
    /// [`CopiesError::Full`]; the end of the service.
    pub fn enqueue(&mut self, copy: &Copy) -> Result<Descriptor, CopiesError> {
        let descriptor = self.allocate_number()?;
        let Copy { source, target, length_bytes, fence } = *copy;
        let (source, target) = (source.into(), target.into());
        let message = CopiesCopy { descriptor, fence, length_bytes, source, target };
        self.send(|client| client.copy(&message))?;
        Ok(self.enqueued(descriptor))
    }

    /// Enqueues a fill, like [`enqueue`](Self::enqueue).
    ///
    /// # Errors
    /// Same as [`enqueue`](Self::enqueue).
    pub fn enqueue_fill(&mut self, fill: &Fill) -> Result<Descriptor, CopiesError> {
        let descriptor = self.allocate_number()?;
        let Fill { target, byte, length_bytes, fence } = *fill;
        let target = target.into();
        let message = CopiesFill { descriptor, fence, byte, length_bytes, target };
        self.send(|client| client.fill(&message))?;
        Ok(self.enqueued(descriptor))
    }

    /// Sends a message. Receives completions while there is no room: the service handles no messages of a
    /// client that does not receive its completions.
    fn send(
        &mut self,
        send: impl Fn(&mut CopiesClient<Channel, CompletionQueue>) -> Result<(), CallError<Error>>,
    ) -> Result<(), CopiesError> {
        let deadline = Instant::now().checked_add(self.client.port().timeout());
        loop {
            match send(self.client.within(ROOM_TIMEOUT)) {
                Err(CallError::NoRoom) if deadline.is_none_or(|deadline| Instant::now() < deadline) => {
                    self.client.poll().map_err(CopiesError::from)?;
                }
                sent => return Ok(sent.map_err(Error::from)?),
            }
        }
    }

    /// Allocates a number that no descriptor in progress has.
    fn allocate_number(&mut self) -> Result<u32, CopiesError> {
        let limit = MAX_DESCRIPTORS as usize;
        if self.in_progress.len() >= limit {
            return Err(CopiesError::Full { limit });
        }
        loop {
            self.last_descriptor = self.last_descriptor.wrapping_add(1);
            if !self.in_progress.contains(&self.last_descriptor) {
                return Ok(self.last_descriptor);
            }
        }
    }

    fn enqueued(&mut self, descriptor: u32) -> Descriptor {
        self.in_progress.insert(descriptor);
        Descriptor(descriptor)
    }

    /// Number of descriptors whose completions were not taken.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.in_progress.len()
    }

    /// Requests cancellation of a descriptor. It still ends: with [`CopyFault::CANCELLED`], or with its
    /// result if it was already done.
    ///
    /// # Errors
    /// The end of the service.
    pub fn cancel(&mut self, Descriptor(descriptor): Descriptor) -> Result<(), CopiesError> {
        self.send(|client| client.cancel(&CopiesCancel { descriptor }))
    }

    /// Returns the next completion, in order; `None` if there is none now.
    ///
    /// # Errors
    /// The end of the service.
    pub fn poll(&mut self) -> Result<Option<Completion>, CopiesError> {
        loop {
            if let Some(completion) = self.client.events().0.pop_front() {
                // Completions of unknown descriptors are ignored.
                if self.in_progress.remove(&completion.descriptor.0) {
                    return Ok(Some(completion));
                }
            } else if self.client.poll().map_err(CopiesError::from)? == 0 {
                return Ok(None);
            }
        }
    }

    /// Like [`poll`](Self::poll), waiting up to `timeout`. Also returns `None` if no descriptor is in
    /// progress.
    ///
    /// # Errors
    /// The end of the service.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Completion>, CopiesError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(Some(completion));
            }
            if self.in_progress.is_empty() || !self.wait_for_message(deadline, timeout)? {
                return Ok(None);
            }
        }
    }

    /// Waits for the end of one descriptor. Completions of others are kept for [`next`](Self::next). If it
    /// has not ended within `timeout`, it is still in progress.
    ///
    /// # Errors
    /// [`CopiesError::Fault`] if it failed. [`CopiesError::NotEnded`], [`CopiesError::NotInProgress`]; the
    /// end of the service.
    pub fn wait(&mut self, descriptor: Descriptor, timeout: Duration) -> Result<(), CopiesError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if !self.in_progress.contains(&descriptor.0) {
                return Err(CopiesError::NotInProgress { descriptor: descriptor.0 });
            }
            let completions = &mut self.client.events().0;
            if let Some(index) = completions.iter().position(|completion| completion.descriptor == descriptor)
            {
                let completion = completions.remove(index);
                self.in_progress.remove(&descriptor.0);
                return match completion.and_then(|completion| completion.fault) {
                    None => Ok(()),
                    Some(fault) => Err(self.fault(fault)),
                };
            }
            if self.client.poll().map_err(CopiesError::from)? == 0
                && !self.wait_for_message(deadline, timeout)?
            {
                return Err(CopiesError::NotEnded { descriptor: descriptor.0, timeout });
            }
        }
    }

    /// Waits for a message; returns false at the deadline.
    fn wait_for_message(
        &mut self,
        deadline: Option<Instant>,
        timeout: Duration,
    ) -> Result<bool, CopiesError> {
        let left = deadline.map_or(timeout, |deadline| deadline.saturating_duration_since(Instant::now()));
        match wait_any(&mut [self.client.port_mut()], left) {
            Ok(_) => Ok(true),
            Err(Error::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
