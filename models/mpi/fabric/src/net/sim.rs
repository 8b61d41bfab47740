//! Simulated network for tests with all endpoints in one thread: links are message queues, shared memory is
//! vectors.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use tombolo::{Draft, Message, WaitSet};

use super::{Event, Exposed, LinkEnd, LinkId, Net, Stages};
use crate::address::Address;

const CHUNKS: u16 = 3;
const CHUNK_BYTES: u32 = 4096;

type Memory = Rc<RefCell<Vec<u8>>>;

/// View of a peer's memory, valid until the peer revokes it.
#[derive(Clone)]
pub(crate) struct SimView {
    memory: Memory,
    valid: Rc<Cell<bool>>,
}

impl SimView {
    fn new(memory: Memory) -> SimView {
        SimView { memory, valid: Rc::new(Cell::new(true)) }
    }
}

/// State shared by all endpoints of a test.
#[derive(Default)]
pub(crate) struct World {
    queues: HashMap<(Address, u32), VecDeque<Vec<u8>>>,
    /// The other end of each link.
    ends: HashMap<(Address, u32), (Address, u32)>,
    ended: HashMap<(Address, u32), LinkEnd>,
    links: HashMap<Address, u32>,
    events: HashMap<Address, VecDeque<Event<SimView>>>,
    /// Accept events held back, by endpoint that is slow to accept.
    accepting: HashMap<Address, Vec<Event<SimView>>>,
    /// Connect requests held back, by endpoint that is slow to connect.
    connecting: HashMap<Address, Vec<Address>>,
    /// Calls of [`Net::warn_unreachable`]: the endpoint that lost data for lack of a link, and the peer's
    /// address.
    pub(crate) unreachable_warnings: Vec<(Address, Address)>,
    regions: HashMap<u64, SimView>,
    /// Memory that can be exposed to peers, by the number that stands for its address.
    pub(crate) exposable: HashMap<usize, Memory>,
    /// Maximum length of a piece of exposed memory.
    pub(crate) piece_bytes: usize,
    /// Capacity of a link, in messages.
    pub(crate) capacity: usize,
    /// Whether peers can read each other's memory.
    pub(crate) shared: bool,
}

impl World {
    pub(crate) fn new(capacity: usize, shared: bool) -> Rc<RefCell<World>> {
        Rc::new(RefCell::new(World { capacity, shared, piece_bytes: usize::MAX, ..World::default() }))
    }

    fn open(&mut self, at: Address) -> u32 {
        let next = self.links.entry(at).or_default();
        let link = *next;
        *next += 1;
        self.queues.insert((at, link), VecDeque::new());
        link
    }

    /// Holds back all accepts of an endpoint.
    pub(crate) fn hold_accepts(&mut self, slow: Address) {
        self.accepting.entry(slow).or_default();
    }

    /// Holds back all connects of an endpoint.
    pub(crate) fn hold_connects(&mut self, slow: Address) {
        self.connecting.entry(slow).or_default();
    }

    /// Returns the number of connects of an endpoint that are held back.
    pub(crate) fn held_connects(&self, slow: Address) -> usize {
        self.connecting.get(&slow).map_or(0, Vec::len)
    }

    /// Returns how many links an endpoint has had.
    pub(crate) fn links(&self, of: Address) -> u32 {
        self.links.get(&of).copied().unwrap_or(0)
    }

    /// Delivers the accepts that [`hold_accepts`](Self::hold_accepts) held back.
    pub(crate) fn release_accepts(&mut self, slow: Address) {
        for event in self.accepting.remove(&slow).unwrap_or_default() {
            self.events.entry(slow).or_default().push_back(event);
        }
    }

    /// Drops the accepts that [`hold_accepts`](Self::hold_accepts) held back.
    pub(crate) fn drop_accepts(&mut self, slow: Address) {
        self.accepting.remove(&slow);
    }

    /// Revokes the chunks of an endpoint.
    pub(crate) fn revoke_chunks(&mut self, owner: Address) {
        if let Some(view) = self.regions.get(&owner.endpoint) {
            view.valid.set(false);
        }
    }

    /// Ends all links of an endpoint, as if it had died.
    pub(crate) fn kill(&mut self, dead: Address) {
        self.end(dead, LinkEnd::Died);
    }

    /// Closes an endpoint: its links end, and no peer connects to it any more.
    pub(crate) fn close(&mut self, closed: Address) {
        self.end(closed, LinkEnd::Closed);
        self.events.remove(&closed);
    }

    fn end(&mut self, dead: Address, how: LinkEnd) {
        let theirs: Vec<_> = self.ends.iter().filter(|(_, end)| end.0 == dead).map(|(at, _)| *at).collect();
        for at in theirs {
            self.ended.insert(at, how);
        }
    }

    /// Puts bytes on a link as if its peer had sent them.
    pub(crate) fn inject(&mut self, to: Address, link: u32, bytes: Vec<u8>) {
        if let Some(queue) = self.queues.get_mut(&(to, link)) {
            queue.push_back(bytes);
        }
    }

    /// Changes the bytes of a message in flight to an endpoint, if there is one.
    pub(crate) fn corrupt(&mut self, to: Address, pick: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let mut full: Vec<_> =
            self.queues.iter_mut().filter(|(at, queue)| at.0 == to && !queue.is_empty()).collect();
        full.sort_by_key(|(at, _)| at.1);
        let count = full.len().max(1);
        if let Some((_, queue)) = full.get_mut(pick % count) {
            let at = pick % queue.len();
            change(&mut queue[at]);
        }
    }
}

pub(crate) struct SimNet {
    pub(crate) world: Rc<RefCell<World>>,
    own: Address,
    hot: Vec<LinkId>,
    stages: SimStages,
    /// Memory exposed to peers, by key.
    exposed: HashMap<u64, SimView>,
}

#[derive(Default)]
pub(crate) struct SimStages(Option<Memory>);

impl Stages for SimStages {
    fn write(&mut self, _: usize, offset_bytes: usize, source: &[u8]) {
        if let Some(memory) = &self.0 {
            memory.borrow_mut()[offset_bytes..offset_bytes + source.len()].copy_from_slice(source);
        }
    }
}

impl SimNet {
    pub(crate) fn new(world: &Rc<RefCell<World>>, number: u64) -> SimNet {
        let own = Address { endpoint: number, domain: number * 1000 };
        world.borrow_mut().events.insert(own, VecDeque::new());
        SimNet {
            world: Rc::clone(world),
            own,
            hot: Vec::new(),
            stages: SimStages::default(),
            exposed: HashMap::new(),
        }
    }
}

impl Net for SimNet {
    type View = SimView;
    type Stages = SimStages;

    fn address(&self) -> Address {
        self.own
    }

    fn connect(&mut self, to: Address, _: usize) {
        let mut world = self.world.borrow_mut();
        if let Some(held) = world.connecting.get_mut(&self.own) {
            held.push(to);
            return;
        }
        if !world.events.contains_key(&to) {
            world.events.entry(self.own).or_default().push_back(Event::NotConnected { to });
            return;
        }
        let (ours, theirs) = (world.open(self.own), world.open(to));
        world.ends.insert((self.own, ours), (to, theirs));
        world.ends.insert((to, theirs), (self.own, ours));
        let accepted = Event::Accepted { link: LinkId(theirs), domain: self.own.domain };
        match world.accepting.get_mut(&to) {
            Some(held) => held.push(accepted),
            None => world.events.entry(to).or_default().push_back(accepted),
        }
        let connected = Event::Connected { to, link: LinkId(ours) };
        world.events.entry(self.own).or_default().push_back(connected);
    }

    fn cancel_connect(&mut self, to: Address) -> bool {
        let mut world = self.world.borrow_mut();
        let held = world.connecting.get_mut(&self.own);
        let at = held.as_ref().and_then(|held| held.iter().position(|other| *other == to));
        at.is_some_and(|at| held.is_some_and(|held| held.remove(at) == to))
    }

    fn has_event(&self) -> bool {
        self.world.borrow().events.get(&self.own).is_some_and(|events| !events.is_empty())
    }

    fn next_event(&mut self) -> Option<Event<SimView>> {
        let event = self.world.borrow_mut().events.get_mut(&self.own)?.pop_front()?;
        if let Event::Connected { link, .. } | Event::Accepted { link, .. } = &event {
            self.hot.push(*link);
        }
        Some(event)
    }

    fn is_accepting(&self) -> bool {
        self.world.borrow().accepting.get(&self.own).is_some_and(|held| !held.is_empty())
    }

    fn warn_unreachable(&mut self, to: Address) {
        self.world.borrow_mut().unreachable_warnings.push((self.own, to));
    }

    fn hot(&self) -> usize {
        self.hot.len()
    }

    fn hot_link(&self, index: usize) -> Option<LinkId> {
        self.hot.get(index).copied()
    }

    fn receive<R>(
        &mut self,
        link: LinkId,
        read: impl FnOnce(&Message<'_>) -> R,
    ) -> Result<Option<R>, LinkEnd> {
        let message = {
            let mut world = self.world.borrow_mut();
            let at = (self.own, link.0);
            match world.queues.get_mut(&at).and_then(VecDeque::pop_front) {
                Some(message) => message,
                None => return world.ended.get(&at).map_or(Ok(None), |end| Err(*end)),
            }
        };
        Ok(Some(read(&Message::of_bytes(&message))))
    }

    fn send(
        &mut self,
        link: LinkId,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>, &mut SimStages),
    ) -> Result<bool, LinkEnd> {
        let mut world = self.world.borrow_mut();
        let at = (self.own, link.0);
        if let Some(end) = world.ended.get(&at) {
            return Err(*end);
        }
        let capacity = world.capacity;
        let Some(&end) = world.ends.get(&at) else { return Err(LinkEnd::Closed) };
        let Some(queue) = world.queues.get_mut(&end) else { return Err(LinkEnd::Closed) };
        if queue.len() >= capacity {
            return Ok(false);
        }
        // Bytes that are never written have an unspecified value.
        let mut bytes = vec![0xa5; length_bytes];
        write(&mut Draft::of_bytes(&mut bytes), &mut self.stages);
        queue.push_back(bytes);
        Ok(true)
    }

    fn max_message_bytes(&self, _: LinkId) -> usize {
        16384
    }

    fn close(&mut self, link: LinkId) {
        self.hot.retain(|other| *other != link);
        let mut world = self.world.borrow_mut();
        if let Some(&end) = world.ends.get(&(self.own, link.0)) {
            world.ended.entry(end).or_insert(LinkEnd::Closed);
        }
        world.ended.entry((self.own, link.0)).or_insert(LinkEnd::Closed);
    }

    fn place(&self, _: LinkId) -> Option<usize> {
        self.world.borrow().shared.then_some(0)
    }

    fn chunks(&self) -> (u16, u32) {
        (CHUNKS, CHUNK_BYTES)
    }

    fn stage(&mut self, link: LinkId) {
        let memory = self.stages.0.get_or_insert_with(|| {
            Rc::new(RefCell::new(vec![0; usize::from(CHUNKS) * CHUNK_BYTES as usize]))
        });
        let mut world = self.world.borrow_mut();
        let capability = self.own.endpoint;
        world.regions.insert(capability, SimView::new(Rc::clone(memory)));
        let staged = Event::Staged { link, capability: Some(capability) };
        world.events.entry(self.own).or_default().push_back(staged);
    }

    fn map(&mut self, link: LinkId, capability: u64, _: u64) {
        let mut world = self.world.borrow_mut();
        let view = world.regions.get(&capability).cloned();
        world.events.entry(self.own).or_default().push_back(Event::Mapped { link, view });
    }

    fn expose(
        &mut self,
        _: LinkId,
        key: u64,
        (address, length): (usize, usize),
        _: bool,
        _: &[u64],
    ) -> Option<Vec<Exposed>> {
        let mut world = self.world.borrow_mut();
        let memory = world.exposable.get(&address).cloned()?;
        let view = self.exposed.entry(key).or_insert_with(|| SimView::new(memory)).clone();
        let mut pieces = Vec::new();
        let mut offset = 0;
        while offset < length {
            let capability = 1_000_000 + world.regions.len() as u64;
            world.regions.insert(capability, view.clone());
            let piece = world.piece_bytes.min(length - offset);
            let (region_bytes, at) = (length as u64, offset as u64);
            pieces.push(Exposed { capability, region_bytes, offset: at, length: piece as u64 });
            offset += piece;
        }
        Some(pieces)
    }

    fn withdraw(&mut self, key: u64) {
        if let Some(view) = self.exposed.remove(&key) {
            view.valid.set(false);
        }
    }

    fn map_direct(&mut self, link: LinkId, key: u64, capability: u64, _: u64, _: bool) {
        let mut world = self.world.borrow_mut();
        let view = world.regions.get(&capability).cloned();
        world.events.entry(self.own).or_default().push_back(Event::DirectMapped {
            link,
            key,
            capability,
            view,
        });
    }

    fn is_view_valid(view: &SimView) -> bool {
        view.valid.get()
    }

    fn write_view(view: &SimView, offset_bytes: usize, source: &[u8]) -> bool {
        let mut memory = view.memory.borrow_mut();
        let Some(part) = memory.get_mut(offset_bytes..offset_bytes + source.len()) else { return false };
        part.copy_from_slice(source);
        view.valid.get()
    }

    fn read_view(view: &SimView, offset_bytes: usize, target: &mut [u8]) -> bool {
        let memory = view.memory.borrow();
        let Some(part) = memory.get(offset_bytes..offset_bytes + target.len()) else { return false };
        target.copy_from_slice(part);
        view.valid.get()
    }

    fn prepare_wait(&mut self, _: &[LinkId]) -> Option<&mut WaitSet> {
        None
    }
}
