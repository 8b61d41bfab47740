//! Transport between endpoints: links that carry messages, and memory that a peer can read.

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

/// Identifier of a link to a peer; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkId(pub u32);

/// Reason why a link ended in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkEnd {
    /// The peer closed it; everything that it sent has been received.
    #[error("the peer closed the link")]
    Closed,
    /// The peer died.
    #[error("the peer died")]
    Died,
    /// The peer sent something that the link's protocol does not allow.
    #[error("the peer broke the protocol of the link")]
    Violation,
}

/// An event other than a message received over a link.
#[derive(Debug)]
pub enum Event<V> {
    /// A requested link is connected.
    Connected {
        /// The peer's address.
        to: Address,
        /// The link.
        link: LinkId,
    },
    /// A requested link could not be connected.
    NotConnected {
        /// The peer's address.
        to: Address,
    },
    /// A peer connected to this endpoint.
    Accepted {
        /// The link.
        link: LinkId,
        /// The domain at the other end, as reported by the monitor.
        domain: u64,
    },
    /// This endpoint's chunks were made readable for the peer at the other end of a link.
    Staged {
        /// The link.
        link: LinkId,
        /// Capability for the peer, or `None` if the chunks could not be shared.
        capability: Option<u64>,
    },
    /// Mapping a peer's chunks here finished.
    Mapped {
        /// The link.
        link: LinkId,
        /// View of the chunks, or `None` if mapping failed.
        view: Option<V>,
    },
    /// Mapping a piece of a peer's registered memory finished.
    DirectMapped {
        /// The link.
        link: LinkId,
        /// The peer's key for the memory.
        key: u64,
        /// The capability that the peer granted.
        capability: u64,
        /// View of the piece, or `None` if mapping failed.
        view: Option<V>,
    },
}

/// Maximum number of pieces per registered memory key. Memory in more pieces is not exposed directly.
pub const MAX_PIECES: usize = 64;

/// A piece of registered memory that a peer can map and access directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exposed {
    /// Capability granted to the peer.
    pub capability: u64,
    /// Bytes of the region that the capability covers.
    pub region_bytes: u64,
    /// Offset of the piece within those bytes.
    pub offset: u64,
    /// Length of the piece, in bytes.
    pub length: u64,
}

/// Memory of this endpoint that peers can read, one area per place.
pub trait Stages {
    /// Writes `source` into the memory of a place; drops it if the place has no memory.
    fn write(&mut self, place: usize, offset_bytes: usize, source: &[u8]);
}

/// The transport that connects an engine to its peers. No call blocks.
pub trait Net {
    /// Mapping of a peer's memory.
    type View;
    /// Memory of this endpoint that peers can read.
    type Stages: Stages;

    /// Returns the address under which peers can connect to this endpoint.
    fn address(&self) -> Address;

    /// Requests a link; an event reports the result. `peers` is the number of peers that there may be links
    /// to.
    fn connect(&mut self, to: Address, peers: usize);

    /// Cancels the request for a link to an address if work on it has not begun. Returns whether it was
    /// canceled; if so, no event reports it.
    fn cancel_connect(&mut self, to: Address) -> bool;

    /// Returns whether [`next_event`](Self::next_event) should be called without delay. Called before every
    /// poll of the links, so it has to be cheap.
    fn has_event(&self) -> bool;

    /// Takes the next event, if there is one. Also polls links that have been idle for long.
    fn next_event(&mut self) -> Option<Event<Self::View>>;

    /// Returns whether a peer may have connected that no event has reported yet. Once this is false, the
    /// events of all accepted peers have been queued.
    fn is_accepting(&self) -> bool;

    /// Warns once that data for an address was lost because there is no link to it, and why.
    fn warn_unreachable(&mut self, to: Address);

    /// Returns the number of hot links, which are those to poll.
    fn hot(&self) -> usize;

    /// Returns the hot link at `index`. The order changes when events are taken.
    fn hot_link(&self, index: usize) -> Option<LinkId>;

    /// Receives a message, if there is one.
    ///
    /// # Errors
    /// [`LinkEnd`], after everything that was sent before has been received.
    fn receive<R>(
        &mut self,
        link: LinkId,
        read: impl FnOnce(&Message<'_>) -> R,
    ) -> Result<Option<R>, LinkEnd>;

    /// Sends a message of `length_bytes` if there is room. Returns whether it was sent.
    ///
    /// # Errors
    /// [`LinkEnd`] if the link has ended.
    fn send(
        &mut self,
        link: LinkId,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>, &mut Self::Stages),
    ) -> Result<bool, LinkEnd>;

    /// Returns the maximum length of a message on a link, in bytes.
    fn max_message_bytes(&self, link: LinkId) -> usize;

    /// Closes a link at this end.
    fn close(&mut self, link: LinkId);

    /// Returns the index of the place from which the peer at the other end can read memory of this endpoint;
    /// `None` if it cannot read any.
    fn place(&self, link: LinkId) -> Option<usize>;

    /// Returns the number of chunks per place and the length of each, in bytes.
    fn chunks(&self) -> (u16, u32);

    /// Makes a place readable for the peer at the other end; an event reports the result.
    fn stage(&mut self, link: LinkId);

    /// Maps the chunks that a peer made readable; an event reports the result.
    fn map(&mut self, link: LinkId, capability: u64, length_bytes: u64);

    /// Grants the peer at the other end of a link direct access to the memory registered under a key, given
    /// as address and length in bytes. `peers` are the other domains that may request it. Returns its pieces
    /// in order, at least one and at most [`MAX_PIECES`]; `None` if it cannot be shared.
    fn expose(
        &mut self,
        link: LinkId,
        key: u64,
        memory: (usize, usize),
        writable: bool,
        peers: &[u64],
    ) -> Option<Vec<Exposed>>;

    /// Revokes direct access to the memory of a key; when this returns, no peer has access.
    fn withdraw(&mut self, key: u64);

    /// Maps memory that a peer exposed to this endpoint; an event reports the result.
    fn map_direct(&mut self, link: LinkId, key: u64, capability: u64, length_bytes: u64, writable: bool);

    /// Returns whether a view is still backed by the peer's memory, so that the peer sees writes to it.
    fn is_view_valid(view: &Self::View) -> bool;

    /// Writes to a peer's memory. Returns whether the view is still valid.
    fn write_view(view: &Self::View, offset_bytes: usize, source: &[u8]) -> bool;

    /// Reads from a peer's memory. Returns whether the view is still valid.
    fn read_view(view: &Self::View, offset_bytes: usize, target: &mut [u8]) -> bool;

    /// Returns the wait set to block on, once everything has been polled; `None` if the caller must keep
    /// polling. Links in `sending` also wait for room.
    fn prepare_wait(&mut self, sending: &[LinkId]) -> Option<&mut WaitSet>;
}
