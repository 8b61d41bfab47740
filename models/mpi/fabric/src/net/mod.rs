//! What joins endpoints: links that carry messages, and memory that a peer can read.

mod channels;
mod exposed;
#[cfg(test)]
pub(crate) mod sim;
mod staging;
mod worker;

use tombolo::{Draft, Message, WaitSet};

use crate::address::Address;
pub use channels::ChannelNet;
pub use exposed::Replace;

/// A link to a peer. No id names two, ever.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkId(pub u32);

/// Nothing more comes over a link, nor goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkEnd {
    /// The peer closed it; all it sent has been received.
    #[error("the peer closed the link")]
    Closed,
    /// The peer died.
    #[error("the peer died")]
    Died,
    /// What came is not what the link's protocol allows.
    #[error("the peer broke the protocol of the link")]
    Violation,
}

/// What happened beside what came over links.
#[derive(Debug)]
pub enum Event<V> {
    /// A link that was asked for.
    Connected {
        /// The peer's address.
        to: Address,
        /// The link.
        link: LinkId,
    },
    /// There will be none.
    NotConnected {
        /// The peer's address.
        to: Address,
    },
    /// A peer connected.
    Accepted {
        /// Which link.
        link: LinkId,
        /// The domain at its other end, as its monitor says.
        domain: u64,
    },
    /// Chunks that the peer at the other end of a link may read.
    Staged {
        /// Which link.
        link: LinkId,
        /// What it is called there, or none if it cannot be had.
        capability: Option<u64>,
    },
    /// Chunks of a peer can be read here.
    Mapped {
        /// Which link.
        link: LinkId,
        /// How, unless they cannot.
        view: Option<V>,
    },
    /// Registered memory of a peer can be reached here, or a piece of it.
    Reached {
        /// Which link.
        link: LinkId,
        /// Its key there.
        key: u64,
        /// The right that the peer gave.
        capability: u64,
        /// How, unless it cannot.
        view: Option<V>,
    },
}

/// Pieces that memory of one key consists of, at most. Memory in more pieces is not exposed directly.
pub const MAX_PIECES: usize = 64;

/// A piece of memory that peers can be let reach by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exposed {
    /// The right that the peer was given.
    pub capability: u64,
    /// How many bytes belong to that.
    pub region_bytes: u64,
    /// Where in them the piece begins.
    pub offset: u64,
    /// How long it is, in bytes.
    pub length: u64,
}

/// Memory of an endpoint that its peers can read, by place.
pub trait Stages {
    /// Writes into memory of a place. What is not there is not written.
    fn write(&mut self, place: usize, offset_bytes: usize, source: &[u8]);
}

/// What an engine is joined to others by. No call waits.
pub trait Net {
    /// Memory of a peer that can be read.
    type View;
    /// Memory of this endpoint that peers can read.
    type Stages: Stages;

    /// Where this endpoint can be reached.
    fn address(&self) -> Address;

    /// Asks for a link, of which an event will tell. `peers` says to how many there may be one.
    fn connect(&mut self, to: Address, peers: usize);

    /// Takes back the request for a link to an address, if nothing has been done for it yet. Whether it was:
    /// then no event tells of it.
    fn forgo(&mut self, to: Address) -> bool;

    /// Whether [`next_event`](Self::next_event) is to be asked without delay. Asked before every look at
    /// links, so it has to be cheap.
    fn has_event(&self) -> bool;

    /// What has happened since it was last asked. Also looks at links on which nothing happened for long.
    fn next_event(&mut self) -> Option<Event<Self::View>>;

    /// Whether a peer may have connected of which no event tells yet. Once this is false, every accepted peer
    /// has had its event.
    fn is_accepting(&self) -> bool;

    /// What was to go to an address without a link is lost: reports why, once.
    fn lament(&mut self, to: Address);

    /// How many links are to be looked at.
    fn hot(&self) -> usize;

    /// The n-th of them. That changes when events are asked for.
    fn hot_link(&self, index: usize) -> Option<LinkId>;

    /// Receives a message, if there is one.
    ///
    /// # Errors
    /// [`LinkEnd`], after all that was sent before.
    fn receive<R>(
        &mut self,
        link: LinkId,
        read: impl FnOnce(&Message<'_>) -> R,
    ) -> Result<Option<R>, LinkEnd>;

    /// Sends a message of that length, if there is room; says whether there was.
    ///
    /// # Errors
    /// [`LinkEnd`].
    fn send(
        &mut self,
        link: LinkId,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>, &mut Self::Stages),
    ) -> Result<bool, LinkEnd>;

    /// The longest message that a link carries, in bytes.
    fn max_message_bytes(&self, link: LinkId) -> usize;

    /// Ends a link.
    fn close(&mut self, link: LinkId);

    /// Which memory of this endpoint the peer at the other end could read, as a small number; `None` where it
    /// could none.
    fn place(&self, link: LinkId) -> Option<usize>;

    /// How many chunks each place has, and how long they are.
    fn chunks(&self) -> (u16, u32);

    /// Lets the peer at the other end read a place; an event tells of it.
    fn stage(&mut self, link: LinkId);

    /// Maps what a peer lets this endpoint read; an event tells of it.
    fn map(&mut self, link: LinkId, capability: u64, length_bytes: u64);

    /// Lets the peer at the other end of a link reach memory that is registered under a key: an address and
    /// how many bytes. `peers` are the domains that may ask for it too. Returns its pieces in order, at least
    /// one and [`MAX_PIECES`] at most; `None` where that cannot be.
    fn expose(
        &mut self,
        link: LinkId,
        key: u64,
        memory: (usize, usize),
        writable: bool,
        peers: &[u64],
    ) -> Option<Vec<Exposed>>;

    /// When this returns, no peer reaches the memory of a key any more.
    fn withdraw(&mut self, key: u64);

    /// Maps memory that a peer lets this endpoint reach; an event tells of it.
    fn reach(&mut self, link: LinkId, key: u64, capability: u64, length_bytes: u64, writable: bool);

    /// Whether memory of a peer is still its, and what is written there is seen.
    fn is_there(view: &Self::View) -> bool;

    /// Writes memory of a peer. Whether it is there.
    fn write_there(view: &Self::View, offset_bytes: usize, source: &[u8]) -> bool;

    /// Reads memory of a peer. Whether it is there.
    fn read_chunk(view: &Self::View, offset_bytes: usize, target: &mut [u8]) -> bool;

    /// What to wait on until something happens, once everything has been looked at; `None` where nothing can
    /// be waited on. The links of `sending` wait for room too.
    fn park(&mut self, sending: &[LinkId]) -> Option<&mut WaitSet>;
}
