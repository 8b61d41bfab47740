//! Implementation of links with channels of the façade.

use std::collections::HashMap;
use std::time::Duration;

use tombolo::region::{Mapping, Rights};
use tombolo::{
    Channel, ChannelOptions, Domain, DomainId, Draft, Error, Interest, Message, Ready, Token, WaitSet,
};
use tombolo_platform::time::now_ns;

use super::exposed::{Exposures, Replace};
use super::staging::{CHUNK_BYTES, CHUNKS, MemoryPlace, RegionStages};
use super::worker::{Job, Outcome, Worker};
use super::{Event, Exposed, LinkEnd, LinkId, Net};
use crate::address::Address;

/// Minimum number of slots in each ring of a link: 16 KiB each way.
const MIN_SLOTS: u32 = 256;

/// Maximum number of slots. The ring has to hold what a rank sends while its peer is descheduled; otherwise
/// both wait for a scheduler time slice per ringful.
const MAX_SLOTS: u32 = 4096;

/// Budget for the rings of all links that an endpoint opens, in bytes. [`MIN_SLOTS`] takes precedence.
const RINGS_BYTES: usize = 2 << 20;

const SLOT_BYTES: usize = 64;

/// Returns the number of slots per ring for an endpoint with links to `peers` peers.
fn slots_for(peers: usize) -> u32 {
    let each = RINGS_BYTES / (2 * SLOT_BYTES) / peers.max(1);
    let most = u32::try_from(each).unwrap_or(MAX_SLOTS).clamp(MIN_SLOTS, MAX_SLOTS);
    // Round down to a power of two.
    1 << most.ilog2()
}

/// Number of fruitless polls after which a link turns cold (is waited for instead of polled) while few links
/// are hot.
const MAX_IDLE_POLLS: u32 = 100_000;

/// Lower limit of that number with many hot links: costs about as much as one message on a cold link,
/// including the sender's wake-up syscall.
const MIN_IDLE_POLLS: u32 = 500;

/// Number of links that stay hot no matter how idle they are.
const ALWAYS_HOT: usize = 4;

/// Minimum interval between two checks of the cold links, in nanoseconds. A check is a syscall of about
/// 300 ns.
const COLD_POLL_INTERVAL_NS: u64 = 10_000;

/// Returns the number of fruitless polls after which a link turns cold while `hot` links are polled. Each
/// hot link lengthens the polling round, and with it the latency of every message.
fn max_idle_polls(hot: usize) -> u32 {
    let times = u32::try_from(hot / ALWAYS_HOT).unwrap_or(u32::MAX).max(1);
    (MAX_IDLE_POLLS / times.saturating_mul(times)).max(MIN_IDLE_POLLS)
}

/// Interface hash of links, which keeps channels of other programs from being taken for links.
const INTERFACE_HASH: u64 = crate::wire::PROTOCOL;

/// A [`Net`] on top of channels, with regions that peers read.
#[derive(Debug)]
pub struct ChannelNet {
    address: Address,
    links: Vec<PeerLink>,
    hot: Vec<Hot>,
    /// Wait set with the channels of idle links.
    cold: WaitSet,
    cold_links: HashMap<Token, LinkId>,
    places: Vec<MemoryPlace>,
    stages: RegionStages,
    domain: Domain,
    exposures: Exposures,
    warn: fn(&str),
    /// Errors of failed connects, until [`Net::warn_unreachable`] reports them.
    connect_errors: HashMap<Address, Error>,
    worker: Worker,
    /// Time of the next check of the cold links, on the monotonic clock.
    next_cold_poll_ns: u64,
}

/// State of a link; the index in [`ChannelNet::links`] is its id.
#[derive(Debug)]
struct PeerLink {
    state: LinkState,
    domain: u64,
    place: Option<usize>,
    max_message_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LinkState {
    Hot(usize),
    Cold(Token),
    Closed,
}

#[derive(Debug)]
struct Hot {
    id: LinkId,
    channel: Channel,
    idle_polls: u32,
}

fn link_end(error: &Error) -> LinkEnd {
    match error {
        Error::Closed { .. } => LinkEnd::Closed,
        Error::PeerDied { .. } | Error::RelayDied { .. } | Error::MonitorLost { .. } => LinkEnd::Died,
        _ => LinkEnd::Violation,
    }
}

impl ChannelNet {
    /// Starts to accept links, and to connect requested ones. `replace` moves memory of this program into
    /// regions that peers can map; `warn` is called with the reason when a link to a peer cannot be made.
    ///
    /// # Errors
    /// As [`Domain::listen`]; also if descriptors for waiting cannot be created.
    pub fn new(domain: &Domain, replace: Replace, warn: fn(&str)) -> Result<ChannelNet, Error> {
        let options = ChannelOptions::default().slots(MIN_SLOTS)?.interface_hash(INTERFACE_HASH);
        let listener = options.listen(domain)?;
        let number = listener.endpoint().map(|endpoint| endpoint.to_copy().object);
        let cold = WaitSet::new()?;
        let address = Address { endpoint: number.unwrap_or(0), domain: domain.id().to_bits() };
        let worker = Worker::start(domain.clone(), listener, options, cold.waker())?;
        Ok(ChannelNet {
            address,
            links: Vec::new(),
            hot: Vec::new(),
            cold,
            cold_links: HashMap::new(),
            places: Vec::new(),
            stages: RegionStages::default(),
            domain: domain.clone(),
            exposures: Exposures::new(replace),
            warn,
            connect_errors: HashMap::new(),
            worker,
            next_cold_poll_ns: 0,
        })
    }

    fn add(&mut self, channel: Channel) -> LinkId {
        // There are never more than 2^32 links.
        let id = LinkId(self.links.len() as u32);
        let place = MemoryPlace::of(&channel).map(|place| {
            let known = self.places.iter().position(|other| *other == place);
            known.unwrap_or_else(|| {
                self.places.push(place);
                self.places.len() - 1
            })
        });
        self.links.push(PeerLink {
            state: LinkState::Hot(self.hot.len()),
            domain: channel.peer().to_bits(),
            place,
            max_message_bytes: channel.max_message_bytes(),
        });
        self.hot.push(Hot { id, channel, idle_polls: 0 });
        id
    }

    /// Removes a link from the hot ones and returns its channel.
    fn take_hot(&mut self, index: usize) -> Channel {
        let taken = self.hot.swap_remove(index);
        if let Some(moved) = self.hot.get(index) {
            self.links[moved.id.0 as usize].state = LinkState::Hot(index);
        }
        self.links[taken.id.0 as usize].state = LinkState::Closed;
        taken.channel
    }

    /// Moves a hot link to the wait set.
    fn make_cold(&mut self, index: usize, interest: Interest) {
        let id = self.hot[index].id;
        let channel = self.take_hot(index);
        // On failure the channel is closed, and the link has ended.
        if let Ok(token) = self.cold.add(channel) {
            self.cold.set_interest(token, interest);
            self.links[id.0 as usize].state = LinkState::Cold(token);
            self.cold_links.insert(token, id);
        }
    }

    /// Moves a cold link back to the hot ones. Returns its index there.
    fn make_hot(&mut self, token: Token) -> Option<usize> {
        let id = self.cold_links.remove(&token)?;
        let link = &mut self.links[id.0 as usize];
        let Some(channel) = self.cold.remove(token) else {
            link.state = LinkState::Closed;
            return None;
        };
        link.state = LinkState::Hot(self.hot.len());
        self.hot.push(Hot { id, channel, idle_polls: 0 });
        Some(self.hot.len() - 1)
    }

    /// Makes a link hot if it is not, and returns its index among the hot ones.
    #[inline]
    fn ensure_hot(&mut self, id: LinkId) -> Option<usize> {
        match self.links.get(id.0 as usize)?.state {
            LinkState::Hot(index) => Some(index),
            LinkState::Cold(token) => self.make_hot(token),
            LinkState::Closed => None,
        }
    }

    /// Moves links that have been idle for long to the wait set.
    fn make_idle_cold(&mut self) {
        let limit = max_idle_polls(self.hot.len());
        let mut index = 0;
        while index < self.hot.len() && self.hot.len() > ALWAYS_HOT {
            if self.hot[index].idle_polls > limit {
                self.make_cold(index, Interest::Read);
            } else {
                index += 1;
            }
        }
    }

    /// Returns whether a check of the cold links is due.
    #[inline]
    fn is_cold_poll_due(&self) -> bool {
        !self.cold_links.is_empty() && (self.hot.is_empty() || now_ns() >= self.next_cold_poll_ns)
    }

    /// Checks the cold links. Returns whether anything happened on one.
    fn poll_cold(&mut self) -> bool {
        let mut any_event = false;
        self.next_cold_poll_ns = now_ns() + COLD_POLL_INTERVAL_NS;
        while let Ok(ready) = self.cold.wait(Duration::ZERO) {
            if let Ready::Channel(token) = ready {
                any_event |= self.make_hot(token).is_some();
            }
        }
        any_event
    }

    fn outcome_event(&mut self, outcome: Outcome) -> Event<Mapping> {
        match outcome {
            Outcome::Connected { to, channel: Ok(channel) } => {
                Event::Connected { to, link: self.add(*channel) }
            }
            Outcome::Connected { to, channel: Err(error) } => {
                self.connect_errors.insert(to, error);
                Event::NotConnected { to }
            }
            Outcome::Accepted(channel) => {
                let domain = channel.peer().to_bits();
                Event::Accepted { link: self.add(*channel), domain }
            }
            Outcome::Staged { link, place, staged } => {
                let capability = staged.map(|(mapping, capability)| {
                    self.stages.set(place, mapping);
                    capability
                });
                Event::Staged { link, capability }
            }
            Outcome::Mapped { link, mapping } => Event::Mapped { link, view: mapping },
            Outcome::DirectMapped { link, key, capability, mapping } => {
                Event::DirectMapped { link, key, capability, view: mapping }
            }
        }
    }
}

impl Net for ChannelNet {
    type View = Mapping;
    type Stages = RegionStages;

    fn address(&self) -> Address {
        self.address
    }

    fn connect(&mut self, to: Address, peers: usize) {
        self.worker.submit(Job::Connect { to, slots: slots_for(peers) });
    }

    fn cancel_connect(&mut self, to: Address) -> bool {
        self.worker.cancel_connect(to)
    }

    #[inline]
    fn has_event(&self) -> bool {
        self.worker.may_have_outcome() || self.is_cold_poll_due()
    }

    fn next_event(&mut self) -> Option<Event<Mapping>> {
        if let Some(outcome) = self.worker.next_outcome() {
            return Some(self.outcome_event(outcome));
        }
        self.make_idle_cold();
        if self.is_cold_poll_due() {
            self.poll_cold();
        }
        None
    }

    fn is_accepting(&self) -> bool {
        self.worker.is_accepting()
    }

    fn warn_unreachable(&mut self, to: Address) {
        if let Some(error) = self.connect_errors.remove(&to) {
            (self.warn)(&format!("rank of domain {} is out of reach: {error}", format_domain(to)));
        }
    }

    #[inline]
    fn hot(&self) -> usize {
        self.hot.len()
    }

    #[inline]
    fn hot_link(&self, index: usize) -> Option<LinkId> {
        self.hot.get(index).map(|hot| hot.id)
    }

    #[inline(always)]
    fn receive<R>(
        &mut self,
        link: LinkId,
        read: impl FnOnce(&Message<'_>) -> R,
    ) -> Result<Option<R>, LinkEnd> {
        let Some(index) = self.ensure_hot(link) else { return Err(LinkEnd::Closed) };
        let hot = &mut self.hot[index];
        match hot.channel.try_recv_in_place(read) {
            Ok(None) => {
                hot.idle_polls = hot.idle_polls.saturating_add(1);
                Ok(None)
            }
            Ok(some) => {
                hot.idle_polls = 0;
                Ok(some)
            }
            Err(error) => Err(link_end(&error)),
        }
    }

    #[inline(always)]
    fn send(
        &mut self,
        link: LinkId,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>, &mut RegionStages),
    ) -> Result<bool, LinkEnd> {
        let Some(index) = self.ensure_hot(link) else { return Err(LinkEnd::Closed) };
        let stages = &mut self.stages;
        match self.hot[index].channel.try_send_in_place(length_bytes, |draft| write(draft, stages)) {
            Ok(()) => Ok(true),
            Err(Error::WouldBlock) => Ok(false),
            Err(error) => Err(link_end(&error)),
        }
    }

    fn max_message_bytes(&self, link: LinkId) -> usize {
        self.links.get(link.0 as usize).map_or(0, |link| link.max_message_bytes)
    }

    fn close(&mut self, link: LinkId) {
        if let Some(index) = self.ensure_hot(link) {
            drop(self.take_hot(index));
        }
    }

    fn place(&self, link: LinkId) -> Option<usize> {
        self.links.get(link.0 as usize)?.place
    }

    fn chunks(&self) -> (u16, u32) {
        (CHUNKS, CHUNK_BYTES)
    }

    fn stage(&mut self, link: LinkId) {
        let Some(found) = self.links.get(link.0 as usize) else { return };
        let Some(index) = found.place else { return };
        let place = self.places[index].clone();
        self.worker.submit(Job::Stage { link, domain: found.domain, index, place });
    }

    fn map(&mut self, link: LinkId, capability: u64, length_bytes: u64) {
        let Some(found) = self.links.get(link.0 as usize) else { return };
        self.worker.submit(Job::Map { link, domain: found.domain, capability, length_bytes });
    }

    fn expose(
        &mut self,
        link: LinkId,
        key: u64,
        memory: (usize, usize),
        writable: bool,
        peers: &[u64],
    ) -> Option<Vec<Exposed>> {
        let reader = self.links.get(link.0 as usize).filter(|link| link.place.is_some())?.domain;
        self.exposures.expose(&self.domain, (key, reader), memory, writable, peers)
    }

    fn withdraw(&mut self, key: u64) {
        self.exposures.withdraw(key);
    }

    fn map_direct(&mut self, link: LinkId, key: u64, capability: u64, length_bytes: u64, writable: bool) {
        let Some(found) = self.links.get(link.0 as usize) else { return };
        let rights = if writable { Rights::READ_WRITE } else { Rights::READ };
        let domain = found.domain;
        self.worker.submit(Job::MapDirect { link, domain, key, capability, length_bytes, rights });
    }

    #[inline]
    fn is_view_valid(view: &Mapping) -> bool {
        !view.is_revoked()
    }

    #[inline]
    fn write_view(view: &Mapping, offset_bytes: usize, source: &[u8]) -> bool {
        view.write(offset_bytes, source).is_ok()
    }

    fn read_view(view: &Mapping, offset_bytes: usize, target: &mut [u8]) -> bool {
        view.read(offset_bytes, target).is_ok()
    }

    fn prepare_wait(&mut self, sending: &[LinkId]) -> Option<&mut WaitSet> {
        while let Some(hot) = self.hot.first() {
            let interest = if sending.contains(&hot.id) { Interest::ReadWrite } else { Interest::Read };
            self.make_cold(0, interest);
        }
        if self.poll_cold() || self.worker.has_outcome() { None } else { Some(&mut self.cold) }
    }
}

/// Formats the domain of an address for a warning.
fn format_domain(address: Address) -> String {
    DomainId::from_bits(address.domain).map_or_else(|| "?".into(), |domain| domain.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_length_falls_with_number_of_peers() {
        for (peers, slots) in [(0, 4096), (1, 4096), (4, 4096), (5, 2048), (15, 1024), (31, 512), (63, 256)] {
            assert_eq!(slots_for(peers), slots, "{peers} peers");
            assert!(peers * slots as usize * 2 * SLOT_BYTES <= RINGS_BYTES);
        }
        assert_eq!(slots_for(4095), MIN_SLOTS);
    }

    #[test]
    fn idle_poll_limit_falls_with_number_of_hot_links() {
        for (hot, looks) in [(1, 100_000), (7, 100_000), (8, 25_000), (16, 6_250), (199, 500)] {
            assert_eq!(max_idle_polls(hot), looks, "{hot} links");
        }
        assert_eq!(max_idle_polls(usize::MAX), MIN_IDLE_POLLS);
    }
}
