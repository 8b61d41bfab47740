//! Identifiers. Those of domains and regions carry a generation, so that a stale id is refused and never
//! refers to a newer object.

use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroU16;

/// Node of a machine: its index in the machine file, from 0. Node 0 is the host that runs the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The host, whose monitor runs the machine.
    pub const HOST: NodeId = NodeId(0);
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// Window of a machine: its index among the windows, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WindowId(pub u16);

impl fmt::Display for WindowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window {}", self.0)
    }
}

/// Kind of object that an [`Id`] identifies; implemented by uninhabited marker types.
pub trait IdKind {
    /// The name of the id's type, for debug output.
    const TYPE_NAME: &'static str;
}

/// Marks the ids of domains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Domain {}

impl IdKind for Domain {
    const TYPE_NAME: &'static str = "DomainId";
}

/// Marks the ids of memory regions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {}

impl IdKind for Region {
    const TYPE_NAME: &'static str = "RegionId";
}

/// A program running on a node.
///
/// ```
/// use tombolo_base::{DomainId, NodeId};
/// let id = DomainId::new(NodeId(2), 1.try_into().unwrap(), 7);
/// assert_eq!(id.to_string(), "2.1.7");
/// assert_eq!("2.1.7".parse(), Ok(id));
/// assert_eq!(DomainId::from_bits(id.to_bits()), Some(id));
/// ```
pub type DomainId = Id<Domain>;

/// A region of memory that belongs to a node.
pub type RegionId = Id<Region>;

/// Something that belongs to a node: (node, generation of the node, index), packed in 64 bits.
///
/// The generation is that of the *node*: it grows each time the node is started, so ids from before a
/// restart are refused. An index is never reused within one generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id<K> {
    node: NodeId,
    generation: NonZeroU16,
    index: u32,
    kind: PhantomData<K>,
}

impl<K> Id<K> {
    /// Creates the id with number `index` in this `generation` of `node`.
    #[must_use]
    pub const fn new(node: NodeId, generation: NonZeroU16, index: u32) -> Self {
        Id { node, generation, index, kind: PhantomData }
    }

    /// Returns the node that runs the domain or owns the region.
    #[must_use]
    pub const fn node(self) -> NodeId {
        self.node
    }

    /// Returns the generation of the node in which the id was issued.
    #[must_use]
    pub const fn generation(self) -> NonZeroU16 {
        self.generation
    }

    /// Returns the number within the node and generation.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Packs the id: node in bits 48..64, generation in 32..48, index in 0..32.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.node.0 as u64) << 48 | (self.generation.get() as u64) << 32 | self.index as u64
    }

    /// Unpacks the result of [`to_bits`](Self::to_bits); `None` for generation zero, which is never issued.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU16::new((bits >> 32) as u16) {
            Some(generation) => Some(Id::new(NodeId((bits >> 48) as u16), generation, bits as u32)),
            None => None,
        }
    }
}

impl<K> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.node.0, self.generation, self.index)
    }
}

impl<K: IdKind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({self})", K::TYPE_NAME)
    }
}

/// Error of parsing a text that is not of the form `NODE.GENERATION.INDEX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a domain id is NODE.GENERATION.INDEX, for example 1.1.4")]
pub struct ParseDomainIdError;

impl core::str::FromStr for DomainId {
    type Err = ParseDomainIdError;

    fn from_str(text: &str) -> Result<Self, ParseDomainIdError> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(ParseDomainIdError);
        let node = next()?.parse().map_err(|_| ParseDomainIdError)?;
        let generation = next()?.parse().map_err(|_| ParseDomainIdError)?;
        let index = next()?.parse().map_err(|_| ParseDomainIdError)?;
        if parts.next().is_some() {
            return Err(ParseDomainIdError);
        }
        Ok(DomainId::new(NodeId(node), generation, index))
    }
}

/// Channel of a machine. Never reused while the machine is up.
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
    fn malformed_text_is_refused() {
        for text in ["", "1", "1.1", "1.0.1", "1.1.1.1", "a.1.1", "70000.1.1", "1.1.-1"] {
            assert_eq!(text.parse::<DomainId>(), Err(ParseDomainIdError), "{text}");
        }
    }

    #[test]
    fn ids_have_readable_text_forms() {
        let id = DomainId::new(NodeId(3), NonZeroU16::new(2).unwrap(), 40);
        assert_eq!((id.node(), id.generation().get(), id.index()), (NodeId(3), 2, 40));
        assert_eq!("3.2.40".parse(), Ok(id));
        let shown = std::format!("{id} {id:?} {} {}", id.node(), ChannelId(9));
        assert_eq!(shown, "3.2.40 DomainId(3.2.40) node 3 channel 9");
        let region = RegionId::new(NodeId(3), NonZeroU16::new(2).unwrap(), 40);
        assert_eq!(std::format!("{region} {region:?}"), "3.2.40 RegionId(3.2.40)");
    }
}
