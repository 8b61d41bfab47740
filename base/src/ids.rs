//! Ids. Each carries a generation, so that a stale one is refused and never means somebody else.

use core::fmt;
use core::num::NonZeroU16;

/// A node of a machine: its position in the machine file, from 0. Node 0 is the host that runs the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The host whose monitor runs the machine.
    pub const HOST: NodeId = NodeId(0);
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// A program running on a node: (node, generation of the node, index), packed in 64 bits.
///
/// The generation is that of the *node*: it grows each time the node is started, so ids from before a
/// restart are refused. The index is never given out twice in one generation.
///
/// ```
/// use tombolo_base::{DomainId, NodeId};
/// let id = DomainId::new(NodeId(2), 1.try_into().unwrap(), 7);
/// assert_eq!(id.to_string(), "2.1.7");
/// assert_eq!("2.1.7".parse(), Ok(id));
/// assert_eq!(DomainId::from_bits(id.to_bits()), Some(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId {
    node: NodeId,
    generation: NonZeroU16,
    index: u32,
}

impl DomainId {
    /// The id of domain `index` of `node` in its `generation`.
    #[must_use]
    pub const fn new(node: NodeId, generation: NonZeroU16, index: u32) -> Self {
        DomainId { node, generation, index }
    }

    /// The node that the domain runs on.
    #[must_use]
    pub const fn node(self) -> NodeId {
        self.node
    }

    /// The generation of the node in which the domain was started.
    #[must_use]
    pub const fn generation(self) -> NonZeroU16 {
        self.generation
    }

    /// The domain's number within its node and generation.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Node in the top 16 bits, then generation, then index.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.node.0 as u64) << 48 | (self.generation.get() as u64) << 32 | self.index as u64
    }

    /// The reverse of [`to_bits`](Self::to_bits); `None` for a zero generation, which no domain has.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU16::new((bits >> 32) as u16) {
            Some(generation) => {
                Some(DomainId { node: NodeId((bits >> 48) as u16), generation, index: bits as u32 })
            }
            None => None,
        }
    }
}

impl fmt::Display for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.node.0, self.generation, self.index)
    }
}

impl fmt::Debug for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DomainId({self})")
    }
}

/// What was given is not `NODE.GENERATION.INDEX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a domain id is NODE.GENERATION.INDEX, for example 1.1.4")]
pub struct NotADomainId;

impl core::str::FromStr for DomainId {
    type Err = NotADomainId;

    fn from_str(text: &str) -> Result<Self, NotADomainId> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(NotADomainId);
        let node = next()?.parse().map_err(|_| NotADomainId)?;
        let generation = next()?.parse().map_err(|_| NotADomainId)?;
        let index = next()?.parse().map_err(|_| NotADomainId)?;
        if parts.next().is_some() {
            return Err(NotADomainId);
        }
        Ok(DomainId::new(NodeId(node), generation, index))
    }
}

/// A channel of a machine. Never given out twice while the machine is up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelId(pub u64);

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "channel {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_golden() {
        let id = DomainId::new(NodeId(3), NonZeroU16::new(0x0102).unwrap(), 0x0a0b_0c0d);
        assert_eq!(id.to_bits(), 0x0003_0102_0a0b_0c0d);
        assert_eq!(DomainId::from_bits(id.to_bits()), Some(id));
        assert_eq!(DomainId::from_bits(0x0003_0000_0000_0001), None);
    }

    #[test]
    fn text_that_is_no_id_is_refused() {
        for text in ["", "1", "1.1", "1.0.1", "1.1.1.1", "a.1.1", "70000.1.1", "1.1.-1"] {
            assert_eq!(text.parse::<DomainId>(), Err(NotADomainId), "{text}");
        }
    }
    #[test]
    fn ids_say_what_they_are_of() {
        let id = DomainId::new(NodeId(3), NonZeroU16::new(2).unwrap(), 40);
        assert_eq!((id.node(), id.generation().get(), id.index()), (NodeId(3), 2, 40));
        assert_eq!("3.2.40".parse(), Ok(id));
        let shown = std::format!("{id} {id:?} {} {}", id.node(), ChannelId(9));
        assert_eq!(shown, "3.2.40 DomainId(3.2.40) node 3 channel 9");
    }
}
